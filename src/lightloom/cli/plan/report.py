"""The report of a plan: what the search found, as the plain data that the reports layer shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lightloom.cli.plan.algorithms import algorithm_table, circuit_tables, times_the_bound
from lightloom.clusters.base import Cluster
from lightloom.core.units import format_bandwidth, format_energy, format_size, format_time
from lightloom.fabrics.base import Fabric
from lightloom.planner.pricing.compression import Compression
from lightloom.planner.search.explain import explain
from lightloom.planner.search.ranked import Candidate, PlanSearch
from lightloom.planner.search.verdict import verdict
from lightloom.reports.figures.base import to_svg
from lightloom.reports.figures.timeline_figure import timeline_figure
from lightloom.reports.figures.wavelength_map import wavelength_caption, wavelength_map
from lightloom.reports.report import (
    CollectiveRow,
    Picture,
    RankingRow,
    Report,
    memory_bar,
    ranking_row,
)
from lightloom.workloads.graph import ComputeGraph

_ASSUMED = "assumption"


def ranking_rows(candidates: Iterable[Candidate]) -> tuple[RankingRow, ...]:
    """One row a candidate, in their order."""
    return tuple(
        ranking_row(
            each.result,
            algorithm=each.algorithm.name,
            compression=each.compression.codec if each.compression else None,
            compression_effect=str(verdict(each) or ""),
            verified=True,
            lower_bound_ratio=times_the_bound(each),
        )
        for each in candidates
    )


def plan_report(
    found: PlanSearch,
    graph: ComputeGraph,
    on: Cluster,
    cost_model: str,
    origin: Mapping[str, Any],
    lost: Sequence[str] = (),
) -> Report:
    """The page of one plan; ``lost`` is what the model's trace does not say."""
    winner = found.winner
    exchange = winner.largest_exchange
    codec = next((each.compression for each in found.ranking if each.compression), None)
    return Report(
        title=f"{graph.name} on {on.name}",
        headline=f"{_name(winner)}: {format_time(winner.result.step_time)} a step",
        explanation=explain(found),
        facts=(*_facts(graph, on, cost_model), *_codec_facts(codec), ("energy a step", _energy(winner))),
        ranking=ranking_rows(found.ranking),
        reference=ranking_rows(found.reference[:5]),
        reference_name=f"Electrical reference: {_kind(on.reference)}" if on.reference else "Reference fabric",
        not_sourced=_not_sourced(winner, on),
        notes=(
            *_notes(found, cost_model),
            *_codec_notes(codec),
            *(f"Not in the model's trace: {each}." for each in lost),
        ),
        pictures=_pictures(winner),
        collectives=_collectives(found, winner),
        collectives_title="" if exchange is None else f"The largest {exchange.kind}, {format_size(exchange.nbytes)}",
        memory=memory_bar(winner.result, on.accelerator.memory),
        tables=(algorithm_table(found), *circuit_tables(found)),
        provenance=origin,
    )


def _name(candidate: Candidate) -> str:
    codec = f" and {candidate.compression.codec}" if candidate.compression else ""
    return f"{candidate.strategy} with {candidate.algorithm.name}{codec}"


def _codec_facts(codec: Compression | None) -> tuple[tuple[str, str], ...]:
    if codec is None:
        return ()
    engine = codec.engine
    rates = f"{format_bandwidth(engine.encode)} in, {format_bandwidth(engine.decode)} out"
    return (
        ("gradients", f"{codec.codec}: {codec.ratio:.3g} times smaller"),
        ("codec's engine", f"{engine.name}, {rates}"),
    )


def _codec_notes(codec: Compression | None) -> tuple[str, ...]:
    if codec is None:
        return ()
    return (
        f"Ratio of {codec.codec}, to float32: {codec.ratio_source}. Weights are not compressed.",
        f"Rates of the codec's engine, in bytes of float32: {codec.engine.source}.",
    )


def _kind(fabric: Fabric | None) -> str:
    return "fabric" if fabric is None else fabric.kind_name


def _facts(graph: ComputeGraph, on: Cluster, cost_model: str) -> tuple[tuple[str, str], ...]:
    fabric, training = on.fabric, on.training
    receive = min(cut.capacity for cut in fabric.cuts() if cut.ranks == 1)
    return (
        ("model", f"{graph.name}, {graph.parameters:,} parameters"),
        ("cluster", f"{on.name}: {on.ranks} × {on.accelerator.name}"),
        ("fabric", f"{_kind(fabric)}, {format_bandwidth(receive)} into each rank"),
        ("circuit set-up", format_time(fabric.setup_time) if fabric.exclusive else "none, packets"),
        ("batch", f"{training.batch_per_rank} a rank, {training.batch_per_rank * on.ranks:,} in all"),
        ("arithmetic", str(training.precision)),
        ("cost model", cost_model),
    )


def _energy(winner: Candidate) -> str:
    energy = winner.result.energy
    if energy.total_j is not None:
        return format_energy(energy.total_j)
    return f"at least {format_energy(energy.known_j)}; {len(energy.missing)} parts not sourced"


def _not_sourced(winner: Candidate, on: Cluster) -> tuple[str, ...]:
    missing = [
        f"{name}: no published value, so the energy total leaves it out" for name in winner.result.energy.missing
    ]
    return (*missing, *assumptions(on))


def assumptions(on: Cluster) -> tuple[str, ...]:
    """Values of a cluster that no publication gives."""
    parts: dict[str, Mapping[str, str]] = {
        "accelerator": on.accelerator.sources,
        "fabric": on.fabric.sources,
        "reference": on.reference.sources if on.reference else {},
        "cluster": on.sources,
    }
    assumed = [
        f"{part}.{field}: {source}"
        for part, sources in parts.items()
        for field, source in sources.items()
        if _ASSUMED in source
    ]
    if "hop_latency" not in on.fabric.sources:
        assumed.append(f"fabric.hop_latency: {format_time(on.fabric.hop_latency)}, not sourced")
    return tuple(assumed)


def _notes(found: PlanSearch, cost_model: str) -> tuple[str, ...]:
    winner = found.winner
    exchange = winner.largest_exchange
    own: tuple[str, ...] = ()
    if exchange is not None and not winner.algorithm.by_size:  # those of every size have a table
        own = winner.prices.schedule(exchange.kind, exchange.nbytes).notes
    refused = list(dict.fromkeys(each.why for each in found.refused))
    return (
        f"Times follow the {cost_model} cost model; every schedule was replayed by the verifier.",
        "One step of many equal ones: circuits that the step before left in place are not set up again.",
        *(f"{winner.algorithm.name}: {note}" for note in own),
        *((f"Not tried: {'; '.join(refused)}.",) if refused else ()),
    )


def _pictures(winner: Candidate) -> tuple[Picture, ...]:
    timeline = Picture(
        title="The step",
        svg=to_svg(timeline_figure(winner.result.timeline)),
        caption=f"One rank's step: {_name(winner)}. Computing above, network below.",
    )
    exchange = winner.largest_exchange
    if exchange is None:
        return (timeline,)
    schedule, fabric = winner.prices.schedule(exchange.kind, exchange.nbytes), winner.prices.fabric
    chart = Picture(
        title="The winning schedule",
        svg=to_svg(wavelength_map(schedule, fabric)),
        caption=wavelength_caption(schedule, fabric),
    )
    return timeline, chart


def _collectives(found: PlanSearch, winner: Candidate) -> tuple[CollectiveRow, ...]:
    exchange = winner.largest_exchange
    if exchange is None:
        return ()
    rows = []
    for each in found.ranking:
        if each.strategy == winner.strategy:
            cost, bound = each.prices.cost(exchange.kind, exchange.nbytes)
            codec = f" · {each.compression.codec}" if each.compression else ""
            row = CollectiveRow(
                algorithm=each.algorithm.name + codec,
                steps=cost.steps,
                time=cost.time,
                lower_bound=bound.time,
                bound_by=bound.bound_by,
                energy=cost.energy,
            )
            rows.append(row)
    return tuple(sorted(rows, key=lambda row: row.time))
