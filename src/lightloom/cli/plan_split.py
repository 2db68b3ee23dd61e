"""``lightloom plan --split``: how to split a model over clusters, ranked by seconds a sample."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from lightloom.clusters.base import Cluster
    from lightloom.planner.compression import Compression
    from lightloom.planner.splits import SplitPlan, SplitSearch
    from lightloom.reports.split_table import SplitRow
    from lightloom.workloads.graph import ComputeGraph

_SHOWN = 10
"""Splits on the terminal; pages and JSON hold all."""
_SAMPLES_A_RANK = (1, 2, 4, 8, 16)
"""Of the largest cluster, where no global batch is given."""
MOST_SAMPLES = 10_000_000


class SplitOptions(NamedTuple):
    """What the command line says."""

    model: str
    clusters: Sequence[str]
    ranks: Sequence[str]
    settings: Sequence[str]
    global_batches: Sequence[str]
    quanta: Sequence[str]
    algorithms: Sequence[str]
    kinds: Sequence[str]
    sequence_length: str | None
    compression: str | None
    compression_profile: Path | None
    compression_ratio: str | None
    compression_engine: str | None
    report: Path | None
    trace: Path | None
    figure: Path | None
    pictures: Path | None
    export_torchtitan: Path | None
    export_megatron: Path | None
    as_json: bool

    @property
    def files(self) -> dict[str, Path]:
        """What is to be written, by the option's name."""
        names = ("report", "trace", "figure", "export_torchtitan", "export_megatron")
        return {name: path for name in names if (path := getattr(self, name)) is not None}


class _Asked(NamedTuple):
    graph: ComputeGraph
    clusters: list[Cluster]
    batches: list[int]
    quanta: list[float]
    algorithms: list[str]
    kinds: list[str]
    compressions: list[Compression]


def plan_split(options: SplitOptions) -> None:
    """Search, write what is asked for, and show the ranking."""
    from lightloom.cli.output import print_json
    from lightloom.core.provenance import provenance
    from lightloom.planner.explain_split import explain_split

    asked = _read(options)
    found = _search(asked)
    origin = provenance(_configuration(asked))
    document = _document(found, asked, explain_split(found), origin)
    said = _write(options, found, asked, document, origin)
    if options.as_json:
        print_json(document)
        for line in said:
            print(line, file=sys.stderr)  # noqa: T201
    else:
        _print(found, asked, document, said)


def site(plan: SplitPlan) -> str:
    """Where a split runs, in a few words."""
    return f"{plan.cluster.name}, {plan.cluster.ranks:,} ranks"


def rows(found: SplitSearch) -> list[SplitRow]:
    """The ranking as the reports show it."""
    from lightloom.reports.split_table import SplitRow

    front = {id(plan) for plan in found.front}
    return [
        SplitRow(
            place=place,
            kind=plan.kind,
            label=plan.label,
            site=site(plan),
            global_batch=plan.global_batch,
            step_time=plan.step_time,
            samples_per_second=plan.samples_per_second,
            energy_per_sample=plan.energy_per_sample,
            energy_complete=not plan.energy.missing,
            memory=plan.memory,
            breakdown=plan.breakdown,
            on_front=id(plan) in front,
        )
        for place, plan in enumerate(found.ranking, start=1)
    ]


def _read(options: SplitOptions) -> _Asked:
    from lightloom.cli.output import read_count, read_settings
    from lightloom.cli.plan_compression import check_options, read_compression
    from lightloom.clusters.load import load_cluster
    from lightloom.core.units import parse
    from lightloom.workloads.load import load_workload

    chosen = read_settings(options.settings)
    kinds, algorithms = _kinds(options.kinds), _algorithms(options.algorithms)
    _check_together(options, chosen, kinds)
    quanta = [_positive(parse(text, "time"), f"--quantum {text}") for text in options.quanta]
    clusters = [
        load_cluster(name, chosen | ({} if ranks is None else {"ranks": ranks}))
        for name in dict.fromkeys(options.clusters)
        for ranks in dict.fromkeys(read_count(text, "--ranks") for text in options.ranks) or [None]
    ]
    batches = [_batch(read_count(text, "--global-batch")) for text in options.global_batches]
    _check_outputs(options)
    check_options(
        options.compression, options.compression_profile, options.compression_ratio, options.compression_engine
    )
    tokens = None if options.sequence_length is None else read_count(options.sequence_length, "--sequence-length")
    graph = load_workload(options.model, batch=clusters[0].training.batch_per_rank, sequence_length=tokens)
    compressions = []
    if options.compression is not None:
        compressions.append(
            read_compression(
                options.compression, options.model, graph, options.compression_profile, options.compression_ratio,
                options.compression_engine,
            )
        )  # fmt: skip
    most = max(cluster.ranks for cluster in clusters)
    return _Asked(
        graph, clusters, list(dict.fromkeys(batches)) or [most * each for each in _SAMPLES_A_RANK],
        list(dict.fromkeys(quanta)), algorithms, kinds, compressions,
    )  # fmt: skip


def _check_together(options: SplitOptions, settings: Mapping[str, Any], kinds: Sequence[str]) -> None:
    from lightloom.core.errors import ConfigError

    if options.ranks and "ranks" in settings:
        raise ConfigError(f"--set ranks={settings['ranks']} and --ranks {options.ranks[0]}: expected one of them")
    if kinds == ["placed"] and (options.export_torchtitan or options.export_megatron):
        raise ConfigError(
            "--kind placed with an export: no framework has settings for placed splits: expected another --kind too"
        )


def _kinds(names: Sequence[str]) -> list[str]:
    from lightloom.core.errors import UnknownNameError
    from lightloom.planner.splits import KINDS

    for name in names:
        if name not in KINDS:
            raise UnknownNameError("kind of split", name, KINDS)
    return list(dict.fromkeys(names)) or list(KINDS)


def _algorithms(names: Sequence[str]) -> list[str]:
    from lightloom.collectives.registry import find
    from lightloom.planner.split_search import DEFAULT_ALGORITHMS

    if not names or "all" in names:
        return list(DEFAULT_ALGORITHMS)
    return [find(name).name for name in dict.fromkeys(names)]


def _batch(samples: int) -> int:
    from lightloom.core.errors import ConfigError

    if not 1 <= samples <= MOST_SAMPLES:
        raise ConfigError(f"--global-batch {samples}: expected 1 to {MOST_SAMPLES:,} samples")
    return samples


def _positive(value: float, option: str) -> float:
    from lightloom.core.errors import ConfigError

    if not value > 0:
        raise ConfigError(f"{option}: expected more than 0")
    return value


def _check_outputs(options: SplitOptions) -> None:
    from lightloom.core.errors import ConfigError
    from lightloom.core.files import check_writable
    from lightloom.reports.figures import check_format

    for path in options.files.values():
        check_writable(path)
    if options.pictures is not None:
        if options.pictures.exists() and not options.pictures.is_dir():
            raise ConfigError(f"--pictures {options.pictures}: expected a folder")
        check_writable(options.pictures / "placement.png")
    if options.figure is not None:
        check_format(options.figure)


def _search(asked: _Asked) -> SplitSearch:
    from lightloom.planner.placed_space import DEFAULT_QUANTA
    from lightloom.planner.split_search import split_search
    from lightloom.reports.progress import progress

    with progress("Splits", None) as advance:
        return split_search(
            asked.graph,
            asked.clusters,
            global_batches=asked.batches,
            quanta=asked.quanta or DEFAULT_QUANTA,
            algorithms=asked.algorithms,
            kinds=asked.kinds,
            compressions=asked.compressions,
            advance=lambda: advance(1),
        )


def _configuration(asked: _Asked) -> list[Any]:
    from lightloom.cli.plan_compression import codec_json

    return [
        asked.graph.to_json(), [each.to_json() for each in asked.clusters], asked.batches, asked.quanta,
        asked.algorithms, asked.kinds, [codec_json(each) for each in asked.compressions],
    ]  # fmt: skip


def _document(found: SplitSearch, asked: _Asked, why: str, origin: Mapping[str, Any]) -> dict[str, Any]:
    from dataclasses import asdict

    front = {id(plan) for plan in found.front}
    ranked = [_row(place, plan, id(plan) in front) for place, plan in enumerate(found.ranking, start=1)]
    return {
        "schema": "lightloom.splits/1",
        "model": asked.graph.name,
        "parameters": asked.graph.parameters,
        "global_batches": asked.batches,
        "algorithms": asked.algorithms,
        "kinds": asked.kinds,
        "clusters": [each.to_json() for each in asked.clusters],
        "explanation": why,
        "ranking": ranked,
        "best_of_kind": {kind: place for kind in asked.kinds if (place := _place(found, kind)) is not None},
        "front": [row["rank"] for row in ranked if row["on_front"]],
        "counts": asdict(found.counts),
        "refusals": list(found.refusals),
        "provenance": dict(origin),
    }


def _place(found: SplitSearch, kind: str) -> int | None:
    return next((place for place, plan in enumerate(found.ranking, start=1) if plan.kind == kind), None)


def _row(place: int, plan: SplitPlan, on_front: bool) -> dict[str, Any]:
    row = {
        "rank": place,
        "kind": plan.kind,
        "label": plan.label,
        "cluster": plan.cluster.name,
        "ranks": plan.cluster.ranks,
        "choice": plan.choice._asdict(),
        "bound_s": plan.bound,
        "step_time_s": plan.step_time,
        "sample_time_s": plan.sample_time,
        "samples_per_second": plan.samples_per_second,
        "breakdown": dict(plan.breakdown),
        "energy": plan.energy.to_json(),
        "energy_per_sample_j": plan.energy_per_sample,
        "memory_bytes": plan.memory,
        "on_front": on_front,
        "placed": None,
    }
    step = plan.placed
    if step is not None:
        assignment = step.circuits.assignment
        row["placed"] = {
            "sub_operators": step.plan.balanced.size,
            "placed_by": step.plan.placement.method,
            "repaired": step.plan.placement.repaired,
            "holds": len(step.circuits.bandwidth),
            "circuits": None if assignment is None else len(assignment.circuits),
            "circuits_gap": None if assignment is None else assignment.gap,
            "waited_for_circuits_s": step.waited_for_circuits,
            "relayed_bytes": step.relayed_bytes,
            "sent_bytes": step.sent_bytes,
        }
    return row


def _write(
    options: SplitOptions, found: SplitSearch, asked: _Asked, document: dict[str, Any], origin: Mapping[str, Any]
) -> list[str]:
    """All files that are asked for; returns what is worth a line to people."""
    from lightloom.cli.split_report import save_figure, save_pictures, split_report

    said = []
    if options.export_torchtitan is not None or options.export_megatron is not None:
        said += _export(options, found, asked, document)
    if options.report is not None:
        from lightloom.reports.html import write

        write(split_report(found, asked.graph, document, origin), options.report)
        document["report"] = str(options.report)
    if options.trace is not None:
        from lightloom.reports.perfetto import write_perfetto_trace

        title = f"{asked.graph.name} on {site(found.winner)}"
        write_perfetto_trace(options.trace, found.winner.timeline, title=title, provenance=origin)
        document["trace"] = str(options.trace)
    if options.figure is not None:
        save_figure(found, options.figure, origin)
        document["figure"] = str(options.figure)
    if options.pictures is not None:
        document["pictures"] = [str(path) for path in save_pictures(found, options.pictures, origin)]
    return said


def _export(options: SplitOptions, found: SplitSearch, asked: _Asked, document: dict[str, Any]) -> list[str]:
    from lightloom.core.files import write_atomically
    from lightloom.planner.export import megatron, torchtitan
    from lightloom.planner.export.job import exported, expressible

    plan = expressible(found)
    job = exported(plan, asked.graph)
    document["exported"] = {"rank": found.ranking.index(plan) + 1, "label": plan.label, "notes": {}}
    said = []
    if plan is not found.winner:
        document["exported"]["why"] = "the winner is a placed split, which no framework has settings for"
        said.append(
            f"exported: {plan.label}, rank {document['exported']['rank']}: {document['exported']['why']}; a sample "
            f"takes {plan.sample_time / found.winner.sample_time:.3g} times as long"
        )
    if options.export_torchtitan is not None:
        write_atomically(options.export_torchtitan, torchtitan.to_toml(job))
        document["exported"]["torchtitan"] = str(options.export_torchtitan)
        document["exported"]["notes"]["torchtitan"] = torchtitan.notes(job)
    if options.export_megatron is not None:
        write_atomically(options.export_megatron, megatron.to_script(job))
        document["exported"]["megatron"] = str(options.export_megatron)
        document["exported"]["notes"]["megatron"] = megatron.notes(job)
    return said


def _print(found: SplitSearch, asked: _Asked, document: Mapping[str, Any], said: Sequence[str]) -> None:
    from lightloom.core.provenance import provenance_line
    from lightloom.reports.console import legend, make_console
    from lightloom.reports.split_table import FRONT, split_table

    console = make_console()
    ranked = rows(found)
    best = [ranked[place - 1] for place in document["best_of_kind"].values()]
    shown = sorted({row.place: row for row in [*ranked[:_SHOWN], *best]}.values(), key=lambda row: row.place)
    sites = {row.site for row in ranked}
    title = asked.graph.name + (f" on {sites.pop()}" if len(sites) == 1 else f" on {len(sites)} clusters")
    console.print(split_table(shown, console.width, title=title))
    if len(ranked) > len(shown):
        console.print(f"... and {len(ranked) - len(shown)} slower splits, in the report and in --json")
    console.print(
        legend().append(f"  {FRONT} ", style="green").append("nothing is better in time and energy", style="dim")
    )
    console.print(str(document["explanation"]))
    for line in [*(f"left out: {why}" for why in found.refusals), *said]:
        console.print(line, style="dim")
    console.print(provenance_line(document["provenance"]), style="dim")
    written = {name: document[name] for name in ("report", "trace", "figure") if name in document}
    written |= {name: path for name, path in document.get("exported", {}).items() if name in ("torchtitan", "megatron")}
    for name, path in written.items():
        console.print(f"{name}: {path}", soft_wrap=True)
    for path in document.get("pictures", ()):
        console.print(f"picture: {path}", soft_wrap=True)
