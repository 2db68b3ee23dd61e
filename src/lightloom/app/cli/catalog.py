"""``lightloom catalog``: every name that the other commands take, its fields with their sources, and JSON Schemas."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

import yaml
from rich.table import Table
from rich.text import Text

from lightloom.app.cli.options import OutFile, Several, Shown, check_file
from lightloom.collectives.registry import algorithms
from lightloom.core.errors import ConfigError, UnknownNameError
from lightloom.core.files import write_atomically
from lightloom.core.plugins import load_plugins
from lightloom.core.results import Document, attributes, in_groups, provenance
from lightloom.core.units import format_energy, format_size, format_time
from lightloom.exchange.compression import registry as codecs
from lightloom.exchange.method import Gradient, accuracy_note, evidence_of
from lightloom.exchange.methods import families, find
from lightloom.machines.accelerators import load as accelerators
from lightloom.machines.clusters import load as clusters
from lightloom.machines.fabrics import load as fabrics
from lightloom.machines.parts import part as parts
from lightloom.machines.parts.part import FIGURES, KINDS, EnergyPerBit, Figure, Part, load_part, range_text
from lightloom.models.zoo import ZOO, is_model_name, load_workload
from lightloom.reports.console import Parts, rows_table, screen

_SCHEMAS = {
    "break-even": "lightloom.app.cli.exchange:SetUps",
    "budget": "lightloom.machines.fabrics.link_budget:LinkBudget",
    "cluster": "lightloom.machines.clusters.load:schema",
    "compare": "lightloom.app.cli.exchange_training:TrainingRuns",
    "experiment": "lightloom.planning.sweeps.experiment:schema",
    "goodput": "lightloom.app.api.goodput:GoodputSettings",
    "profile": "lightloom.app.cli.compress:ProfileSettings",
    **{
        f"onn-{name.lower()}": f"lightloom.app.cli.onn.settings:{name}Settings"
        for name in ("Build", "Reducers", "Train", "Map", "Chip", "Disturb", "Model", "Calibrate", "Link")
    },
    "schedule": "lightloom.collectives.files.document:schema",
    "site": "lightloom.planning.economics.ledger:Site",
}
"""What ``--schema`` describes, by name: the configuration of a file or option, or a function that returns the schema
of one."""
_FILES: dict[str, Any] = {"cluster": clusters, "fabric": fabrics, "accelerator": accelerators, "part": parts}
"""Modules of the kinds of entries that are YAML files."""
_MOST_FIELDS = 17
"""Fields of an entry on one screen."""
_DERIVED = {"averaging_latency": format_time, "power_per_rank": "{:.4g} W".format, "energy_per_bit": format_energy}
"""How figures of averagers are shown, which follow from an entry and are in SI units."""
_RANKS = 4
"""Ranks for which a fabric's derived values are shown, since a fabric of the catalog states none."""


def catalog(
    name: str | None = None,
    *,
    schema: bool = False,
    ranks: Several | None = None,
    model: str | None = None,
    out: OutFile = None,
    all: bool = False,
) -> Shown:
    """List models, clusters, fabrics, accelerators, parts, codecs, exchanges, algorithms; or show one entry.

    `lightloom catalog clusters` names all clusters, `lightloom catalog dgx-h100-64` shows the fields of one, and with
    `--out mine.yaml` writes it to a file that the commands take in the place of the name.

    Args:
        name: An entry, an exchange with options such as int4:block=128, or a kind such as clusters.
        schema: Print the JSON Schema of a file or of settings, such as cluster or site; without a name list them.
        ranks: Ranks between which an exchange sends, 8 if not given.
        model (MODEL|VALUES): The model whose gradients an exchange sends, or a number of values of one vector; 1048576
            if not given.
        out: Write the entry to a file that can be edited and loaded: .yaml, or .json for a model or a schema.
        all: Show the source of each value, or the descriptions of all names.

    Returns:
        The result to print: the names, the entry or the schema.

    Raises:
        UnknownNameError: no such entry or schema.
        ConfigError: options that do not go with what is shown.
    """
    if schema:
        return _schema(name, out)
    if name is None or name in _KINDS:
        if out is not None or ranks is not None or model is not None:
            raise ConfigError("--out, --ranks and --model are of one entry: expected its name")
        return _list_all(all) if name is None else _list_kind(name, _KINDS[name](), all)
    # A name may be a cluster and its fabric too (dadiannao-100g): show every entry that has it.
    entries = {kind: dict(module.description(name)) for kind, module in _FILES.items() if name in module.names()}
    is_exchange = not entries and name.partition(":")[0] in families()
    if not is_exchange and (ranks is not None or model is not None):
        raise ConfigError(f"--ranks and --model are of exchanges: {name!r} is none")
    if not entries and not is_exchange and is_model_name(name):
        return _show_model(name, out)
    if entries and out is not None:
        check_file(out, (".yaml", ".yml"))
        write_atomically(out, _as_yaml(entries))
    code = {kind: _KINDS[f"{kind}s"]() for kind in ("codec", "algorithm")} if not (entries or is_exchange) else {}
    code = {kind: {"description": known[name]} for kind, known in code.items() if name in known}
    if out is not None and (is_exchange or code):
        raise ConfigError(f"{name!r} is code, which has no file: expected no --out")
    if is_exchange:
        return _show_exchange(name, ranks or 8, model or str(1 << 20))
    if not entries and not code:
        known = {known for names in _KINDS.values() for known in names()}
        raise UnknownNameError("catalog entry", name, known, listed="lightloom catalog --all")
    entries = {kind: entry | _derived(kind, name) for kind, entry in entries.items()} or code
    return _show_entries(name, entries, all, out)


def _schema(name: str | None, out: Path | None) -> Shown:
    """Return the result to print: a JSON Schema by name, or, if ``out`` is given, the line that names this file, to
    which the schema is written; without a name the commands that print each schema (``out`` is then ignored).
    UnknownNameError for another name."""
    if name is None:
        return Shown({"schemas": list(_SCHEMAS)}, [f"lightloom catalog --schema {known}" for known in _SCHEMAS])
    if name not in _SCHEMAS:
        raise UnknownNameError("schema", name, _SCHEMAS)
    module, _, attribute = _SCHEMAS[name].partition(":")
    described = getattr(import_module(module), attribute)
    document = described.model_json_schema() if hasattr(described, "model_json_schema") else described()
    text = json.dumps(document, indent=2, ensure_ascii=False)
    if out is not None:
        write_atomically(out, text + "\n")
    return Shown(document, [text] if out is None else [f"schema: {out}"], bare=True)


# Lists of names.


def _described(module: Any) -> dict[str, str]:
    """Return the descriptions of a catalog's entries by name; ``module`` is the catalog's, with ``names()`` and
    ``description(name)``. The text is empty for an entry without one."""
    return {name: str(module.description(name).get("description", "")) for name in module.names()}


_KINDS: dict[str, Callable[[], dict[str, str]]] = {
    "models": lambda: (
        {model.name: model.description for model in ZOO.values()}
        | dict.fromkeys(load_plugins("models"), "from a plug-in")
    ),
    **{f"{kind}s": partial(_described, module) for kind, module in _FILES.items()},
    "codecs": partial(_described, codecs),
    "exchanges": lambda: {family.name: family.summary for family in families().values()},
    "algorithms": lambda: {algorithm.name: algorithm.summary for algorithm in algorithms().values()},
}
"""Functions that return the descriptions of all entries by name, by kind."""


def _list_all(all: bool) -> Shown:
    """Return the result to print: how many entries each kind has, and its first two names; with ``all`` every name with
    its description."""
    rows = {kind: [{"name": n, "description": d} for n, d in names().items()] for kind, names in _KINDS.items()}
    document = {"schema": "lightloom.catalog/1", **rows, "provenance": provenance(rows)}
    if all:
        left = ("name", "description")
        return Shown(document, (rows_table(each, title=kind, left=left) for kind, each in rows.items()))
    question = f"Names that the commands take: {sum(map(len, rows.values()))} of {len(rows)} kinds"
    counts = [
        {"kind": kind, "names": len(each), "for example": ", ".join(row["name"] for row in each[:2])}
        for kind, each in rows.items()
    ]
    more = ("lightloom catalog KIND", "lightloom catalog NAME", "lightloom catalog --schema", "--all")
    return Shown(document, screen(question, (), counts, all=True, more=more))


def _list_kind(kind: str, names: dict[str, str], all: bool) -> Shown:
    """Return the result to print: the names of a kind on one line; with ``all`` a table of what is known of each:
    figures of parts, summary and accuracy of exchanges, else the descriptions. The document has all of this in any
    case.

    ``kind`` is in the plural, as ``parts``; ``names`` are the descriptions of its entries by name.
    """
    rows: list[Document] = [{"name": name, "description": text} for name, text in names.items()]
    document: Document = {"schema": "lightloom.catalog/1", kind: rows}
    details: Iterable[str | Text | Table] = [rows_table(rows, left=("name", "description"))]
    if kind == "parts":
        components = sorted(map(load_part, names), key=lambda part: (KINDS.index(part.kind), part.name))
        missing = {
            part.name: [text for name in FIGURES if (text := part.missing(name)) is not None] for part in components
        }
        rows = [{**part.model_dump(mode="json"), "missing": missing[part.name]} for part in components]
        document, details = {"schema": "lightloom.parts/1", "parts": rows}, _figures(components)
    elif kind == "exchanges":
        rows = [
            {
                **attributes(family, "name summary"),
                "default": find(family.name).name,
                "options": dict(family.options),
                "accuracy": accuracy_note(find(family.name).name),
            }
            for family in families().values()
        ]
        shown = [{key: row[key] for key in ("name", "summary", "accuracy")} for row in rows]
        document = {"schema": "lightloom.exchanges/1", "methods": rows}
        details = [rows_table(shown, left=tuple(shown[0]))]
    document["provenance"] = provenance([rows])
    more = (f"lightloom catalog {next(iter(names))}", "--all: a line about each")
    question, *foot = screen(f"{kind}: {len(names)} names", (), more=more)
    return Shown(document, details if all else (question, "  ".join(names), *foot))


def _figures(components: list[Part]) -> Iterator[str | Table]:
    """Yield a table of the parts of each kind, with prices, watts, energies and lifetimes, then lines on the marks in
    it."""
    for kind, alike in in_groups(components, attrgetter("kind")).items():
        rows = [
            {
                "part": component.name,
                "price": _shown(component.dollars),
                "power, busy or idle": _shown(component.figure("static_power")),
                "energy": _energy(component),
                "MTBF": _shown(component.mtbf),
            }
            for component in alike
        ]
        yield from (rows_table(rows, title=kind, left=tuple(rows[0])), "")
    yield "energy: of a bit on a full link, where a part has a rate; of load, what every bit adds to the static power"
    yield "≤, ≥: a limit is stated in place of a value, such as a rated power"
    yield "* an assumption: what a vendor claims, an excerpt says or nothing published confirms. ? no source"


def _shown(figure: Figure[float] | None) -> str:
    """Return a part's figure as text: "≤ " or "≥ " where it is a limit, its value with the unit and, if it has one, its
    range in brackets, its year in brackets where known, and a star if it is assumed, as ``9 W (8 to 18) (2023)*``; "?"
    if nothing states it."""
    if figure is None:
        return "?"
    year = f" ({figure.year})" if figure.year else ""
    limit = {"most": "≤ ", "least": "≥ ", None: ""}[figure.bound]
    return f"{limit}{range_text(figure.value, figure.least, figure.most, figure.unit)}{year}{'*' * figure.assumed}"


def _energy(component: Part) -> str:
    """Return the energy of a bit as text with its unit and range: what a bit draws besides the static power, followed
    by "of load", or, where that is nothing or unknown, the static power over the bits of a full link; starred if
    assumed. The latter is empty text for boards, hosts and parts whose power is 0 or unknown or that have no rate."""
    dynamic = component.dynamic_energy
    if dynamic is not None and dynamic.value > 0:
        return f"{_shown(dynamic)} of load"
    power, rate = component.static_power, component.rate
    if power is None or rate is None or power.value == 0 or component.kind in ("board", "host"):
        return ""
    low, value, high = (watts / (8 * rate) for watts in (power.least, power.value, power.most))
    return range_text(value, low, high, EnergyPerBit.unit) + "*" * power.assumed


# One entry.


def _show_entries(name: str, entries: dict[str, Document], all: bool, out: Path | None) -> Shown:
    """Return the result to print on the entries of one name, by kind (``cluster``, ``fabric``, ...): the first 17 of
    their fields, as ``--set`` names them, or with ``all`` the YAML of all fields with every source.

    ``out`` is where they were written before, or None; nothing is written here.
    """
    document = {"schema": "lightloom.catalog/1", "name": name, **entries, "provenance": provenance(entries)}
    if all:
        return Shown(document, [_as_yaml(entries).rstrip()], bare=True)
    fields = [
        (field if len(entries) == 1 else f"{kind}: {field}", value)
        for kind, entry in entries.items()
        for field, value in _fields(entry)
    ]
    titles = (f"{kind} {name}: {entry.get('description', '')}".rstrip(": ") for kind, entry in entries.items())
    more = () if "algorithm" in entries or "codec" in entries else ("--all: every source", f"--out my-{name}.yaml")
    return Shown(document, _facts(", ".join(titles), fields, more), {"entry": out})


def _facts(title: str, fields: Sequence[tuple[str, str]], more: Sequence[str]) -> Parts:
    """Return what the terminal shows of an entry: its title, the first 17 of its (field, value) pairs and how many are
    hidden, a legend where one of the values ends in a star (an assumption), and the texts ``more`` of what to ask
    next."""
    first = [{"field": field, "value": value} for field, value in fields[:_MOST_FIELDS]]
    legend = "* an assumption" if any(row["value"].endswith("*") for row in first) else ""
    return screen(title, (), first, all=True, hidden=len(fields) - len(first), legend=legend, more=more)


def _as_yaml(entries: dict[str, Document]) -> str:
    """Return entries by kind as YAML, which loads again under any of these kinds."""
    return yaml.safe_dump(entries, sort_keys=False, allow_unicode=True, width=110)


def _fields(
    entry: Mapping[str, Any], path: str = "", assumed: frozenset[str] = frozenset()
) -> Iterator[tuple[str, str]]:
    """Yield the fields of an entry as settings name them (``tiers.rail.ports``), each with its value as text, which
    ends in a star where the source of the value is an assumption.

    Fields within fields are yielded by themselves, except mappings with a ``value``, which count as this value (starred
    where their ``confidence`` is ``assumption``); entries of a list go by their ``name``, else their number from 0.
    What only describes is left out, as are ``averager``, ``spreads`` and ``sources``. ``path`` is put before all names,
    and ``assumed`` holds the full names of fields around this one whose source is an assumption, which then holds for
    all fields within.
    """
    stated = {f"{path}{key}" for key, text in (entry.get("sources") or {}).items() if str(text).startswith("assum")}
    assumed = assumed | stated
    for key, value in entry.items():
        if key in ("sources", "spreads", "description", "source", "averager"):
            continue
        place = f"{path}{key}"
        if isinstance(value, dict) and "value" in value:
            yield place, f"{value['value']}{'*' * (value.get('confidence') == 'assumption')}"
        elif isinstance(value, dict):
            yield from _fields(value, f"{place}.", assumed)
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for number, each in enumerate(value):
                inner = {field: text for field, text in each.items() if field != "name"}
                yield from _fields(inner, f"{place}.{each.get('name', number)}.", assumed)
        else:
            star = "*" if any(place == text or place.startswith(f"{text}.") for text in assumed) else ""
            yield place, f"{_DERIVED[key](value) if key in _DERIVED and isinstance(value, float) else value}{star}"


def _derived(kind: str, name: str) -> dict[str, Any]:
    """Return, under the one key ``derived for N ranks``, figures of the averager of the entry ``name`` of a ``kind``:
    ``levels``, ``averaging_latency`` in seconds, ``power_per_rank`` in watts, ``energy_per_bit`` in joules (those that
    are known), ``averager``, a text on what it is built of, ``warnings`` if any, and the ``sources`` of the figures. N
    are a cluster's ranks, or four of a fabric; the mapping is empty for other kinds and for entries without an averager
    of known parts."""
    if kind == "cluster":
        fabric = clusters.load_cluster(name).fabric
    elif kind == "fabric" and fabrics.description(name).get("averaging") is not None:
        fabric = fabrics.load_fabric(name, _RANKS)
    else:
        return {}
    if not fabric.built_of:
        return {}
    derived = ("levels", "averaging_latency", "power_per_rank", "energy_per_bit")
    values = {field: value for field in derived if (value := getattr(fabric, field)) is not None}
    sources = {field: text for field, text in fabric.sources.items() if field in derived}
    warnings = {"warnings": list(fabric.warnings)} if fabric.warnings else {}
    figures = {**values, "averager": fabric.built_of, **warnings, "sources": sources}
    return {f"derived for {fabric.ranks} ranks": figures}


def _show_model(name: str, out: Path | None) -> Shown:
    """Return the result to print on a model: its description, its parameters, and its forward FLOPs for one sample;
    write its graph for one sample to ``out``, a .json file (ConfigError for another suffix), if that is given."""
    if out is not None:
        check_file(out, (".json",))
    graph = load_workload(name, batch=1)
    entry = ZOO.get(name)
    fields = {"description": entry.description, "sample": entry.example} if entry else {}
    fields |= {"parameters": f"{graph.parameters:,}", "forward FLOPs a sample": f"{graph.forward_flops:.4g}"}
    document = {"schema": "lightloom.catalog/1", "name": name, "model": dict(fields), "provenance": provenance(fields)}
    if out is not None:
        graph.save(out)
    title = f"model {name}: {fields.pop('description', '')}".rstrip(": ")
    parts = _facts(title, list(fields.items()), (f"lightloom plan {name}", f"--out {name}.json"))
    return Shown(document, parts, {"graph": out})


# An exchange: what a method sends and computes.


def _show_exchange(name: str, ranks: int, model: str) -> Shown:
    """Return the result to print on what a rank sends (also against float32), codes and computes in one exchange of
    gradients by a method between ``ranks`` ranks, and what is known of its accuracy; the document alone also has the
    measurements behind that (``evidence``). ``name`` is the method's, with its options where wanted.

    ``model`` is the name of a model, or in digits the number of values of one vector.
    """
    from lightloom.planning.gradients import model_gradient
    from lightloom.planning.pricing.collective_prices import phase_document

    chosen = find(name)
    is_vector = model.isdecimal() and int(model) > 0
    gradient = Gradient.flat(int(model)) if is_vector else model_gradient(load_workload(model, batch=1))
    sent, plain = (each.sent_bytes(gradient, ranks) for each in (chosen, find("float32")))
    document: dict[str, Any] = {
        "schema": "lightloom.exchange/1",
        "method": chosen.name,
        "options": dict(families()[chosen.name.partition(":")[0]].options),
        "ranks": ranks,
        "values": gradient.values,
        **attributes(chosen, "every synchronous feedback scale_free bytes_depend_on_values=needs_values"),
        "phases": [phase_document(phase) for phase in chosen.phases(gradient, ranks)],
        "work": asdict(chosen.work(gradient, ranks)),
        "sent_bytes": sent,
        "ratio": plain / sent,
        "state_bytes_per_parameter": 4 * chosen.state_values,
        "accuracy": accuracy_note(chosen.name),
        "evidence": [row.to_json() for row in evidence_of(chosen.name)],
    }
    document["provenance"] = provenance([chosen.name, ranks, gradient.values])
    title = f"{chosen.name}: {gradient.values:,} values on {ranks} ranks"
    more = ("--ranks N", "--model MODEL", "lightloom catalog exchanges")
    return Shown(document, _facts(title, list(_exchange_facts(document)), more))


def _exchange_facts(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (label, text) of what a rank sends under a method (also against float32), in which phases, what it codes,
    computes and keeps, the method's options, and what is known of its accuracy, from the document of
    :func:`_show_exchange`."""
    work = document["work"]
    least = ", at the most: its bytes depend on the gradient" if document["bytes_depend_on_values"] else ""
    often = "" if document["every"] == 1 else f", every {document['every']} steps"
    sent = f"{format_size(document['sent_bytes'])}, {document['ratio']:.3g} times less than float32{often}{least}"
    yield "a rank sends", sent
    for phase in document["phases"]:
        hidden = "behind the backward pass" if phase["hideable"] else "not behind the backward pass"
        yield phase["kind"], f"{format_size(phase['bytes'])}, {phase['where']}, {hidden}"
    yield "codes", f"{work['encoded_values']:,.0f} values in {work['encoded_messages']:g} messages"
    yield "decodes", f"{work['decoded_values']:,.0f} values in {work['decoded_messages']:g} messages"
    yield "computes beside", f"{work['flops']:,.0f} FLOPs in {work['calls']:g} calls"
    yield "keeps", f"{document['state_bytes_per_parameter']:g} bytes a parameter between steps"
    yield from ((f"option {name}", meaning) for name, meaning in document["options"].items())
    yield "accuracy", document["accuracy"]
