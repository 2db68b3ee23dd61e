"""``lightloom catalog``: every name that the other commands take."""

import sys
from collections.abc import Iterator
from shutil import get_terminal_size
from textwrap import fill
from typing import Any

import yaml
from rich.table import Table

from lightloom.app.cli.options import Shown
from lightloom.collectives.registry import algorithms
from lightloom.core.errors import UnknownNameError
from lightloom.core.plugins import load_plugins
from lightloom.core.results import Document, provenance
from lightloom.exchange.compression import registry as codecs
from lightloom.machines.accelerators import load as accelerators
from lightloom.machines.clusters import load as clusters
from lightloom.machines.fabrics import load as fabrics
from lightloom.machines.parts import part as parts
from lightloom.machines.parts.part import FIGURES, KINDS, EnergyPerBit, Figure, Part, load_part, range_text
from lightloom.machines.parts.part import names as part_names
from lightloom.models.zoo import ZOO
from lightloom.reports.console import rows_table

# ``lightloom catalog parts``: every component with its price, its watts and its lifetime.


def list_parts() -> Shown:
    """Show all components of the catalog, by kind and then by name, with the figures that each lacks."""
    components = sorted(map(load_part, part_names()), key=lambda part: (KINDS.index(part.kind), part.name))
    rows = []
    for component in components:
        missing = [text for name in FIGURES if (text := component.missing(name)) is not None]
        rows.append({**component.model_dump(mode="json"), "missing": missing})
    document: Document = {"schema": "lightloom.parts/1", "parts": rows, "provenance": provenance(rows)}
    return Shown(document, _tables(components))


def _tables(components: list[Part]) -> Iterator[str | Table]:
    """Yield a table of the parts of each kind, with prices, watts, energies and lifetimes, then lines on the marks in
    it."""
    for kind in dict.fromkeys(component.kind for component in components):
        rows = [
            {
                "part": component.name,
                "price": _shown(component.dollars),
                "power, busy or idle": _shown(component.figure("static_power")),
                "energy": _energy(component),
                "MTBF": _shown(component.mtbf),
            }
            for component in components
            if component.kind == kind
        ]
        yield rows_table(rows, title=kind, left=tuple(rows[0]))
        yield ""
    yield "energy: of a bit on a full link, where a part has a rate; of load, what every bit adds to the static power"
    yield "≤, ≥: a limit is stated in place of a value, such as a rated power"
    yield "* an assumption: what a vendor claims, an excerpt says or nothing published confirms. ? no source"
    yield "lightloom catalog NAME prints a part with the source of each figure"


def _shown(figure: Figure[float] | None) -> str:
    """Return a part's figure as text: its limit, value or range, year, and a star if it is assumed; "?" if nothing
    states it."""
    if figure is None:
        return "?"
    year = f" ({figure.year})" if figure.year else ""
    limit = {"most": "≤ ", "least": "≥ ", None: ""}[figure.bound]
    return f"{limit}{range_text(figure.value, figure.least, figure.most, figure.unit)}{year}{'*' * figure.assumed}"


def _energy(component: Part) -> str:
    """Return the energy of a bit as text: what a bit draws besides the static power, or else the static power over the
    bits of a full link, starred if assumed; empty for boards, hosts and parts of no power or rate."""
    dynamic = component.dynamic_energy
    if dynamic is not None and dynamic.value > 0:
        return f"{_shown(dynamic)} of load"
    power, rate = component.static_power, component.rate
    if power is None or rate is None or power.value == 0 or component.kind in ("board", "host"):
        return ""
    low, value, high = (watts / (8 * rate) for watts in (power.least, power.value, power.most))
    return range_text(value, low, high, EnergyPerBit.unit) + "*" * power.assumed


_RANKS = 4
"""Ranks for which a fabric's derived values are shown, since a fabric of the catalog states none."""


def catalog(name: str | None = None) -> Shown:
    """List models, clusters, fabrics, accelerators, parts, codecs, algorithms; or show one entry with its sources.

    Args:
        name: Show all of one entry, with the source of each value; or list parts alone.
    """
    if name == "parts":
        return list_parts()
    if name is not None:
        return _show(name)
    sections = _sections()
    rows = {title: [{"name": n, "description": d} for n, d in names.items()] for title, names in sections.items()}
    document = {"schema": "lightloom.catalog/1", **rows, "provenance": provenance(rows)}
    return Shown(document, _lines(sections), bare=True)


def _lines(sections: dict[str, dict[str, str]]) -> Iterator[str]:
    """Yield the names of each kind with their descriptions, folded to the terminal's width; in a pipe each on one
    line."""
    # A pipe has no edge, so that no line is broken there.
    columns = get_terminal_size().columns if sys.stdout.isatty() else 1 << 14
    for title, names in sections.items():
        yield f"{title}:"
        width = max(map(len, names)) + 4
        for entry, description in names.items():
            line = f"{f'  {entry}':<{width}}{description}"
            yield fill(line, max(columns, width + 20), subsequent_indent=" " * width, break_on_hyphens=False)


def _sections() -> dict[str, dict[str, str]]:
    """Return the descriptions of catalog entries by name, by kind: models, clusters, fabrics, accelerators, parts,
    codecs and algorithms."""
    plugged = dict.fromkeys(load_plugins("models"), "from a plug-in")
    modules: dict[str, Any] = {"clusters": clusters, "fabrics": fabrics, "accelerators": accelerators}
    modules |= {"parts": parts, "codecs": codecs}
    described = {
        kind: {name: str(module.description(name).get("description", "")) for name in module.names()}
        for kind, module in modules.items()
    }
    own = {algorithm.name: algorithm.summary for algorithm in algorithms().values()}
    models = {model.name: model.description for model in ZOO.values()}
    return {"models": models | plugged, **described, "algorithms": own}


def _show(name: str) -> Shown:
    """Show every catalog entry of a name (cluster, fabric, accelerator, part), to people as YAML; UnknownNameError if
    there is none."""
    modules = {"cluster": clusters, "fabric": fabrics, "accelerator": accelerators, "part": parts}
    # A name may be a cluster and its fabric too (dadiannao-100g): show every entry that has it.
    entries = {kind: dict(module.description(name)) for kind, module in modules.items() if name in module.names()}
    if not entries:
        raise UnknownNameError("catalog entry", name, {known for each in modules.values() for known in each.names()})
    for kind, entry in entries.items():
        entry |= _derived(kind, name)
    text = yaml.safe_dump(entries, sort_keys=False, allow_unicode=True, width=110).rstrip()
    document = {"schema": "lightloom.catalog/1", "name": name, **entries, "provenance": provenance(entries)}
    return Shown(document, [text], bare=True)


def _derived(kind: str, name: str) -> dict[str, Any]:
    """Return, under one key that names the ranks, figures of an entry's averager for its ranks, or for four where it
    states none; empty for entries without an averager of known parts."""
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
    return {
        f"derived for {fabric.ranks} ranks": {**values, "averager": fabric.built_of, **warnings, "sources": sources}
    }
