"""``lightloom plan``: which way of training a model on a cluster wins, by how much, and what would change it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.table import Table
from rich.text import Text

from lightloom.app.api.planning import PlanRanking
from lightloom.app.api.planning import plan as rank_plans
from lightloom.app.cli import options
from lightloom.app.cli.plan_report import (
    algorithm_tables,
    exchange_notes,
    fastest_breakdown,
    figures,
    interval_note,
    place_ledgers,
    plan_report,
    spent_lines,
)
from lightloom.core.answer import INDENT, labelled, wrap
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.core.files import check_writable, write_atomically
from lightloom.core.results import provenance_line
from lightloom.core.units import format_time, two_digits
from lightloom.machines.clusters.load import load_cluster
from lightloom.planning.economics.ledger import TITLE as LEDGER
from lightloom.planning.economics.ledger import ledger_notes, ledger_rows
from lightloom.planning.export import frameworks
from lightloom.planning.export.chakra_folder import check_folder, command, write_step
from lightloom.planning.export.chakra_step import step_traces
from lightloom.planning.export.counters import counted
from lightloom.planning.export.frameworks import exported, expressible
from lightloom.planning.search.answer import versus
from lightloom.planning.search.assumptions import (
    assumed,
    assumed_lines,
    built_lines,
    carried_lines,
    imported_lines,
    warning_lines,
)
from lightloom.planning.search.search import latency_sensitivity
from lightloom.reports.console import answer_parts, make_console, plain_table
from lightloom.reports.figures.canvas import check_format, save
from lightloom.reports.html import write
from lightloom.reports.report import write_perfetto_trace

if TYPE_CHECKING:
    from lightloom.machines.clusters.cluster import Cluster
    from lightloom.planning.search.plans import Plan, PlanSearch


# Files that ``lightloom plan`` writes: pictures and pages, settings of frameworks, and the step for a simulator.


_FRAMEWORKS = {
    ".toml": ("torchtitan", frameworks.to_toml, frameworks.torchtitan_notes),
    ".sh": ("megatron", frameworks.to_script, frameworks.megatron_notes),
}
"""Frameworks whose settings can be written, by the ending of the file: name, text of the settings, notes on them."""


def _check_drawn(path: Path) -> None:
    """Check before the search that a figure (a path with a suffix) or a folder of pictures (without one) can be
    written.

    Raises:
        ConfigError: a suffix other than .svg, .png and .pdf, a path without one that is a file, or a place that cannot
            be written to.
        UnsupportedError: Matplotlib is not installed, for a path with a suffix.
    """
    if path.suffix:
        check_format(path)
    elif path.exists() and not path.is_dir():
        raise ConfigError(f"--figure {path}: expected a folder, or a file that ends in .svg, .png or .pdf")
    check_writable(path / "placement.png" if path.is_dir() else path)


def _check_exports(paths: Sequence[Path]) -> None:
    """Check before the search that what is exported can be written: paths that end in .json, .toml or .sh, or without a
    suffix, which are folders: new ones, empty ones, or earlier exports, which will be replaced.

    Raises:
        ConfigError: another suffix, a folder with other files, or a place that cannot be written to.
    """
    for path in paths:
        if not path.suffix:
            check_folder(path)
        elif path.suffix != ".json" and path.suffix not in _FRAMEWORKS:
            raise ConfigError(
                f"--export {path}: expected .json (the model's graph), .toml (torchtitan), .sh (Megatron-LM) or a "
                "folder (Chakra traces for ASTRA-sim)"
            )
        else:
            check_writable(path)


def _export(paths: Sequence[Path], search: PlanSearch, document: dict[str, Any]) -> Iterator[str]:
    """Yield messages while writing what is exported, each in the form of its name, and noting it in ``document``;
    nothing is written before the messages are asked for.

    Names that end in .json get the model's graph (noted under ``exported_graph``), in .toml and .sh the settings of a
    framework (``exported``), others are folders of traces (``exported_step``).

    Raises:
        UnsupportedError: settings or traces can express no plan.
    """
    for path in paths:
        if path.suffix == ".json":
            search.graph.save(path)
            document["exported_graph"] = str(path)
        elif path.suffix:
            yield from _export_settings(path, search, document)
        else:
            yield from _export_step(path, search, document)


def _export_settings(path: Path, search: PlanSearch, document: dict[str, Any]) -> Iterator[str]:
    """Write the settings of the first plan of the ranking that frameworks can express (none that is placed or splits
    neurons) to ``path``, in the form of its suffix (torchtitan's for .toml, Megatron-LM's for .sh), and note in
    ``document`` under ``exported`` its ``rank`` (from 1), ``label``, ``notes`` and the path under the name of the
    framework (``torchtitan``, ``megatron``), which also names the notes. Where that plan is not the winner, ``why`` is
    noted too and a message yielded, once for several files. UnsupportedError where no plan can be expressed."""
    (framework, text, notes), chosen = _FRAMEWORKS[path.suffix], expressible(search)
    job, rank = exported(chosen, search.graph), search.ranking.index(chosen) + 1
    entry = document.setdefault("exported", {"rank": rank, "label": chosen.label, "notes": {}})
    if chosen is not search.winner and "why" not in entry:
        kind = "splits neurons" if search.winner.splits_neurons else "is a placed plan"
        entry["why"] = f"the winner {kind}, which no framework has settings for"
        yield f"exported: {chosen.label}, rank {rank}: {entry['why']}; {_slower(chosen, search)}"
    write_atomically(path, text(job))
    entry[framework], entry["notes"][framework] = str(path), notes(job)


def _export_step(folder: Path, search: PlanSearch, document: dict[str, Any]) -> Iterator[str]:
    """Write the step of the first plan that traces can hold into ``folder``, and note it in ``document`` under
    ``exported_step``, with ``folder``, ``rank`` (from 1), ``why`` it is not the winner (None if it is) and what the
    folder's ``lightloom.json`` says; yield messages: which plan it is and why unless it is the winner, notes on the
    traces, and the command that simulates them.

    Raises:
        UnsupportedError: traces can hold no plan; why the first one is not.
    """
    why = None
    for plan in search.ranking:
        try:
            traces = step_traces(plan.job, plan.choice, plan.step)
            break
        except UnsupportedError as error:
            why = why or str(error)
    else:
        raise UnsupportedError(f"--export {folder}: none of the plans can be written as traces; of the first, {why}")
    rank = search.ranking.index(plan) + 1
    about = {"model": search.graph.name, "cluster": plan.site, "label": plan.label, "step_time_s": plan.step_time}
    document["exported_step"] = {"folder": str(folder), "rank": rank, "why": why, **write_step(folder, traces, about)}
    if why is not None:
        yield f"exported to {folder}: {plan.label}, rank {rank}; of the winner, {why}; {_slower(plan, search)}"
    yield from (f"traces: {note}" for note in traces.notes)
    yield f"in the folder: {command(traces)}"


def _slower(plan: Plan, search: PlanSearch) -> str:
    """Return in words how many times as long a sample of a plan takes as one of the winner, to three significant
    digits: ``a sample takes 1.23 times as long``."""
    return f"a sample takes {plan.sample_time / search.winner.sample_time:.3g} times as long"


# What ``lightloom plan`` does: rank the plans, write what is asked for, show the answer.

_CLUSTER = "terarack-64"
_PINS = {
    "micro_batches": int,
    "micro_batch": int,
    "virtual_stages": int,
    "recompute": str,
    "sharding": str,
    "sequence_parallel": bool,
    "overlap": bool,
    "quantum": str,
}
"""Choices that ``--pin`` states, with the type of their values."""
_SWITCH = {"yes": True, "true": True, "no": False, "false": False}


def _definitions(given: Sequence[str] | None) -> dict[str, str]:
    """Return NAME=VALUE texts as a mapping of texts, the last value where a name is repeated; empty for None.
    ConfigError for a text without a name or "="."""
    pairs = {}
    for text in given or ():
        name, equals, pairs[name] = text.partition("=")
        if not name or not equals:
            raise ConfigError(f"--define {text}: expected NAME=VALUE")
    return pairs


def _pinned(given: Sequence[str] | None) -> dict[str, Any]:
    """Return the choices of ``--pin`` texts by name, with underscores, though texts may have hyphens: whole numbers of
    at least 1, True or False for yes or no (or true or false), or texts, whose values are not checked here. ``quantum``
    is a list of durations as texts, given with commas or repeated.

    Raises:
        ConfigError: no such choice, a choice twice, or a value of another type.
    """
    pins: dict[str, Any] = {}
    finest = [text.partition("=")[2] for text in given or () if text.startswith("quantum=")]
    others = [text for text in given or () if not text.startswith("quantum=")]
    if finest:
        pins["quantum"] = [duration for text in finest for duration in text.split(",")]
    for name, text in options.read_pairs(others, "--pin {!r}", "NAME=VALUE, e.g. micro_batches=8").items():
        field, place = name.replace("-", "_"), f"--pin {name}"
        if (kind := _PINS.get(field)) is None:
            raise ConfigError(f"{place}: expected one of {', '.join(_PINS)}")
        if field in pins:
            raise ConfigError(f"{place}={text}: {field} is given twice: expected it once")
        if kind is bool and text not in _SWITCH:
            raise ConfigError(f"{place}={text}: expected yes or no")
        value = options.read_count(text, place, 1) if kind is int else _SWITCH[text] if kind is bool else text
        pins[field] = value
    return pins


def _write(
    ranking: PlanRanking,
    document: dict[str, Any],
    report: Path | None,
    trace: Path | None,
    figure: Path | None,
    what_if: bool,
) -> dict[str, Path | None]:
    """Write the page, the trace and the pictures that are asked for, and note the pictures of a folder in ``document``
    under ``pictures``; return the files as ``report``, ``trace`` and ``figure``, or ``picture NAME`` for each of a
    folder; None for one that was not requested. With a folder of pictures there is no ``figure``.

    Args:
        ranking: the plans.
        document: the document of the command, read for the page; it must be complete if there is one.
        report: file of the page.
        trace: file of the winner's timeline.
        figure: file of one picture, the breakdown of the fastest plans, or a folder (a path without a suffix) for all
            of the page.
        what_if: whether the page has the changed questions.
    """
    search, origin = ranking.search, ranking.origin
    if report is not None:
        write(plan_report(search, document, origin, ranking.answer(what_if=what_if)), report)
    if trace is not None:
        title = f"{search.graph.name} on {search.winner.site}"
        timeline, counters = counted(search.winner)
        write_perfetto_trace(trace, timeline, title=title, provenance=origin, counters=counters)
    written: dict[str, Path | None] = {"report": report, "trace": trace}
    if figure is not None and not figure.suffix:
        line = provenance_line(origin)
        pictures = [save(drawn, figure / f"{name}.png", line) for name, _, drawn, _ in figures(search)]
        document["pictures"] = [str(path) for path in pictures]
        return written | {f"picture {path.stem}": path for path in pictures}
    return written | {"figure": options.draw(figure, partial(fastest_breakdown, search), {"provenance": origin})}


def _explained(search: PlanSearch, document: Mapping[str, Any]) -> Iterator[str | Text | Table]:
    """Yield what ``--explain`` adds: lines on the source of prices, and of durations that a trace has measured; why the
    winner wins and rivals lose; where the seconds of the winner's step go; a table of data parallelism with every
    algorithm that was simulated; notes on methods of exchange; what the model's file lacks; what was left out; and,
    each once, the reasons for which plans were refused. Lines and tables without content are left out.

    ``document`` is the complete one of the search, with ``latency_sensitivity`` if the latency of a hop at which
    another plan wins is to be told too.
    """
    yield from (f"{basis}: {line}" for basis in ("priced", "measured") for line in document[basis])
    yield from str(document["explanation"]).split("; ")
    yield from spent_lines(search, document)
    for table in algorithm_tables(search):
        yield plain_table(table.columns, table.rows, title=table.title)
    yield from (f"exchange {note}" for note in exchange_notes(search))
    if (sensitivity := document.get("latency_sensitivity")) is not None:
        yield f"latency of {format_time(sensitivity['own_hop_latency_s'])} a hop: {sensitivity['text']}"
    yield from (f"of the model's file: {gap}" for gap in document["not_in_trace"])
    yield from (f"left out: {reason}" for reason in search.refusals)
    yield from (f"refused: {reason}" for reason in dict.fromkeys(row.why for row in search.refused))


def _assumed(search: PlanSearch) -> Iterator[str | Text | Table]:
    """Yield what ``--assumptions`` adds: a line for each value that the winner rests on and that is assumed or fitted,
    with its source; a sentence on intervals; and lines on calibrations, averagers, networks and systems of other tools'
    files, and collective libraries of all clusters of the search.

    Before a value stands by which share of the winner's step its 90 % interval moves that (``±3 %``, two significant
    digits; ``±0 %`` below 0.05 %; nothing where that is unknown); the most influential come first.
    """
    yield "Assumed or fitted, by how far its 90 % interval moves the step:"
    width = make_console().width
    for row in assumed(search):
        moves = "" if row.moves is None else f"±{two_digits(100 * row.moves)} %" if row.moves >= 5e-4 else "±0 %"
        value = " ".join(filter(None, [row.about, row.field.replace("_", " "), row.value]))
        yield from labelled(moves, wrap(f"{value}: {row.source}", width - INDENT))
    yield interval_note(search)
    clusters = search.clusters
    lines = (*assumed_lines(clusters), *built_lines(clusters), *imported_lines(clusters), *carried_lines(clusters))
    yield from (line for line in lines if not line.startswith("assumed of"))


def _worth(search: PlanSearch) -> Iterator[str | Text | Table]:
    """Yield what ``--worth`` adds: a table of dollars and watts a rank, joules and dollars of a step, samples per
    dollar and per joule, and goodput in per cent (the last three only of training), with a column for the first plan of
    each cluster, up to four, and of the first plan on the electrical reference; and lines on what these figures lack or
    assume."""
    ledgers = place_ledgers(search)
    yield plain_table(("", *ledgers), ledger_rows(ledgers), title=LEDGER.lower(), left=("", *ledgers))
    yield from (Text(line, style="dim") for line in ledger_notes(ledgers))


def _asked_of(cluster: Cluster, question: partial[PlanRanking], search: PlanSearch) -> PlanRanking:
    """Return the answer of the same question on another cluster. Its global batch is that of the winner of the first
    answer (``search``) where the ranks divide it, so that each gets as many samples; otherwise, or where each plan has
    its own largest batch, the batch is as asked. Data parallelism with each algorithm alone is not ranked. ``question``
    lacks only the clusters and ``every_algorithm``."""
    samples = search.winner.global_batch
    if not search.request.largest_batches and samples % cluster.ranks == 0:
        question = partial(question, batch=None, global_batch=samples)
    return question([cluster], every_algorithm=False)


_Rank = Annotated[partial[PlanRanking], options.Options(rank_plans, without=[*_PINS, "every_algorithm"])]


def plan(
    model: str,
    *,
    cluster: list[str] | None = None,
    ranks: list[int] | None = None,
    accelerator: str | None = None,
    set: list[str] | None = None,
    batch: str | None = None,
    define: list[str] | None = None,
    rank: _Rank,
    pin: list[str] | None = None,
    vs: list[str] | None = None,
    all: bool = False,
    explain: bool = False,
    assumptions: bool = False,
    worth: bool = False,
    what_if: Annotated[bool, "--what-if/--no-what-if"] = True,
    site: options.SiteFields = None,
    price: options.PartPrices = None,
    report: options.ReportFile = None,
    trace: options.OutFile = None,
    figure: Annotated[Path | None, _check_drawn] = None,
    export: Annotated[list[Path] | None, _check_exports] = None,
    as_json: bool = False,
) -> options.Shown:
    """Say which way of training a model on a cluster wins, by how much, and what would change that.

    Plans are data, tensor, pipeline and expert parallelism and placed operators, with every collective algorithm. The
    table has the best plan of each division of the job among the ranks: those that fit, the fastest first. For example:
    lightloom plan llama2-7b --cluster dgx-h100-64 --vs nvl72

    Args:
        model: A zoo name, a Hugging Face folder or config.json, package.module:factory, file.py:factory, another file
            (a message lists the forms), or a shell line of Megatron-LM in quotes.
        cluster: A cluster of the catalog, or a YAML file; terarack-64 without it. Repeatable: ranked together.
        ranks: Ranks of each cluster to use; repeatable.
        accelerator: Instead of the cluster's: an accelerator of the catalog, a YAML file, or one that `calibrate`
            wrote.
        set: field=value of the cluster, e.g. fabric.wavelengths=128 or ranks=32; repeatable.
        batch (N): Samples per rank, or max: each plan's own largest. What is published of the model without it, or as
            many as fit.
        define (NAME=VALUE): Of what a model's file leaves open: a variable of a script, a dimension of a graph.
        pin (NAME=VALUE): Pins another choice: micro_batches, micro_batch, virtual_stages (chunks of a stage), recompute
            (full, selective, none), sharding (none, zero-1, zero-2, zero-3, hybrid), sequence_parallel (yes, no),
            overlap (yes, no), quantum (durations below which placed plans cut no operator); repeatable.
        vs (CLUSTER): Compares the answer with that of another cluster, and says what differs and why; repeatable.
        all: Shows every plan that was simulated, and ranks data parallelism with each algorithm alone.
        explain: Says where each second goes, why rivals lose, at which latency another plan wins, and what was refused.
        assumptions: Lists everything that is assumed, by how far it moves the answer.
        worth: Shows dollars, watts, joules and goodput.
        what_if: Answers the question with one thing changed, too: network, exchange, batch, accelerator.
        report: Write a self-contained HTML report.
        trace: Write the winner's timeline for ui.perfetto.dev.
        figure: Draw the fastest plans' breakdown (.svg, .png, .pdf), or all pictures of the report into a folder.
        export (FILE|FOLDER): Write the model's graph (.json), the first plan as a configuration of torchtitan (.toml)
            or as arguments of Megatron-LM (.sh), or the winner's step as Chakra traces for ASTRA-sim (a folder);
            repeatable.

    ``rank`` is :func:`lightloom.plan` with its other options bound to it, such as ``strategy`` and ``tp``. ``site`` are
    ``field=value`` texts of what turns parts and watts into dollars, ``price`` are ``part=price`` texts. ``as_json``
    asks for the whole document, with the changed questions unless ``what_if`` is False.

    Returns:
        The answer and what was asked for besides; the document is complete only where JSON, a report or an explanation
            needs it.

    Raises:
        InputError: options that cannot be read or exclude each other, or no plan that serves or fits.
    """
    fields = options.read_settings(set)
    for name, given in (("ranks", ranks and ranks[0]), ("accelerator", accelerator)):
        if given is not None and name in fields:
            raise ConfigError(f"--set {name}={fields[name]} and --{name} {given}: expected one of them")
    fields |= {} if accelerator is None else {"accelerator": accelerator}
    inputs = options.site_inputs(fields, site, price, (*options.SITE_FIELDS, "fabric_price"))
    counts: list[int | None] = [*dict.fromkeys(ranks or ())] or [None]
    clusters = [
        load_cluster(name, count, set=fields) for name in dict.fromkeys(cluster or [_CLUSTER]) for count in counts
    ]
    if {*rank.keywords.get("strategy", ())} == {"placed"} and any(path.suffix != ".json" for path in export or ()):
        raise ConfigError(
            "--strategy placed with an export: no framework or trace has placed plans: expected another --strategy too"
        )
    samples = batch if batch in (None, "max") else options.read_count(batch, "--batch")
    question = partial(rank, model, batch=samples, define=_definitions(define), site=inputs, **_pinned(pin))
    ranking = question(clusters, every_algorithm=as_json or all or explain or report is not None)
    search, document = ranking.search, dict[str, Any]()
    others = [_asked_of(load_cluster(name), question, search) for name in dict.fromkeys(vs or ())]
    if as_json or explain or report is not None:
        document = ranking.to_json()
    fabric = search.winner.cluster.fabric
    # A library's constants hold its latencies.
    if fabric.library is None and (explain or (as_json and fabric.latency_unstated)):
        sensitivity = latency_sensitivity(search)
        document["latency_sensitivity"] = sensitivity.to_json() | {"text": str(sensitivity)}
    if as_json and what_if:
        document |= {"what_if": [each.to_json() for each in ranking.what_ifs], "limit": ranking.limit}
    if others:
        document["vs"] = [other.to_json() for other in others]
    messages = [*_export(export or (), search, document)]
    paths = _write(ranking, document, report, trace, figure, what_if)
    document |= {name: str(path) for name, path in paths.items() if path is not None and " " not in name}
    paths |= {f"exported {path.suffix.removeprefix('.') or 'traces'}": path for path in export or ()}

    def parts() -> Iterator[str | Text | Table]:
        """Yield the answer, then what else was asked for."""
        yield from (Text(f"warning: {line}") for line in (*search.graph.uncounted, *warning_lines(clusters)))
        yield from answer_parts(ranking.answer(everything=all, what_if=what_if))
        for wanted, section in (
            (explain, partial(_explained, search, document)),
            (assumptions, partial(_assumed, search)),
            (worth, partial(_worth, search)),
        ):
            if wanted:
                yield from ("", *section())
        for other in others:
            yield from ("", *versus(search, other.search))
        yield from messages

    return options.Shown(document, parts(), paths, messages=messages)
