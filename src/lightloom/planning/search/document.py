"""The JSON document of a search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.core.units import format_time
from lightloom.exchange.method import accuracy_note, evidence_of
from lightloom.machines.accelerators.accelerator import Accelerator
from lightloom.machines.accelerators.load import load_accelerator
from lightloom.machines.clusters.cluster import Cluster
from lightloom.models.graph import ComputeGraph, MeasuredTimes
from lightloom.planning.gradients import PricedExchange
from lightloom.planning.parallelism.strategy_space import Strategy
from lightloom.planning.pricing.collective_prices import phase_document
from lightloom.planning.pricing.job import LEVEL, belief_of
from lightloom.planning.reconfiguration.in_step import InStep, RegrantedStep
from lightloom.planning.search.explain import costly_rows, explain, verdict
from lightloom.planning.search.plans import Plan, PlanSearch, priced_lines

# Plans from measured durations: what was measured on, how it is scaled, and what is said of it.

UNSCALED, NONE = "unscaled", "none"
_CHOICES = (
    f"expected --measured-on with an accelerator of the catalog or a YAML file, {UNSCALED!r} to take the durations as "
    f"the plan's accelerator's, or {NONE!r} to price every operator"
)


def on_machine(graph: ComputeGraph, measured_on: str | None, clusters: Sequence[Cluster]) -> ComputeGraph:
    """Return a graph whose measured times say what they were measured on, as far as it decides a plan.

    Args:
        graph: of a trace, or of any model.
        measured_on: an accelerator, ``unscaled`` or ``none``; None for what the trace names.
        clusters: where plans are searched.

    Raises:
        ConfigError: nothing was measured, or the trace names a machine that the catalog lacks.
        UnsupportedError: operators that state durations alone are to be scaled to another accelerator.
    """
    measured = graph.measured
    if measured is None:
        if measured_on is None:
            return graph
        raise ConfigError(f"--measured-on {measured_on}: {graph.name} states no durations: expected no --measured-on")
    if measured_on == NONE:
        return replace(graph, measured=None)
    if measured_on is not None:
        named = None if measured_on == UNSCALED else measured_on
        measured = replace(measured, accelerator=named, machine=measured.machine or named or "")
    elif measured.machine and measured.accelerator is None:
        raise ConfigError(
            f"{graph.name}: its durations are those of {measured.machine}, which the catalog lacks: {_CHOICES}"
        )
    if measured.accelerator is not None:
        machine = load_accelerator(measured.accelerator)
        for cluster in clusters:
            if cluster.accelerator.chip != machine.chip:
                _check_priced(graph, measured, machine, cluster.accelerator)
    return replace(graph, measured=measured)


def _check_priced(graph: ComputeGraph, measured: MeasuredTimes, machine: Accelerator, other: Accelerator) -> None:
    """Refuse to scale durations of operators of which nothing else is known."""
    unknown = [
        seconds or 0.0
        for operator, seconds in zip(graph.operators, measured.forward, strict=True)
        if not operator.forward_flops and not operator.forward_bytes and seconds
    ]
    if unknown:
        raise UnsupportedError(
            f"{graph.name}: {len(unknown)} operators ({format_time(sum(unknown))} of the forward pass) state durations "
            f"on {machine.name} and neither FLOPs nor bytes, by which durations are scaled to {other.name}: {_CHOICES}"
        )


def measured_lines(graph: ComputeGraph, clusters: Sequence[Cluster]) -> list[str]:
    """Return what is said of the measured durations that plans rest on; nothing where all operators are priced."""
    measured = graph.measured
    if measured is None:
        return []
    count = sum(seconds is not None for seconds in measured.forward)
    place = measured.machine or "a machine that the trace does not name"
    lines = [
        f"{count} of {len(graph.operators)} operators take durations of the trace, {format_time(measured.seconds)} "
        f"forward and backward at {measured.batch} samples: {measured.clock}, on {place}"
    ]
    lines += [_rule(measured, name) for name in dict.fromkeys(cluster.accelerator.chip for cluster in clusters)]
    lines.append("assumption: for other batches and splits a duration changes as the operator's price does")
    return lines


def _rule(measured: MeasuredTimes, name: str) -> str:
    if measured.accelerator is None:
        return f"assumption: what was measured on computes as {name} does in the plan's format: nothing is scaled"
    if load_accelerator(measured.accelerator).chip == name:
        change = "where the number format differs, they change as the operator's price does"
        return f"durations on {name} are taken as they are; {change}"
    return (
        f"assumption: from {measured.accelerator} to {name}, and from {measured.precision or 'the same format'} to the "
        "plan's number format, a duration changes as the operator's price does"
    )


SCHEMA = "lightloom.plan/2"


def plan_document(search: PlanSearch, origin: Mapping[str, Any], unrecorded: Sequence[str] = ()) -> dict[str, Any]:
    """Everything that was found, in plain types and SI units.

    Args:
        search: what was found.
        origin: the ``provenance`` entry.
        unrecorded: what the model's trace does not hold.
    """
    front = {id(plan) for plan in search.front}
    rows = [
        {"rank": place, **plan_row(plan, search), "on_front": id(plan) in front}
        for place, plan in enumerate(search.ranking, start=1)
    ]
    request, winner = search.request, search.winner
    return {
        "schema": SCHEMA,
        "model": search.graph.name,
        "parameters": search.graph.parameters,
        "global_batches": list(search.global_batches),
        "global_batch": winner.global_batch,
        "batch_per_rank": _whole(winner.global_batch / winner.cluster.ranks),
        "cost_model": request.cost_model,
        "strategies": list(request.kinds),
        "algorithms": list(request.algorithms) or "all",
        "pins": {name: value for name, value in request.pins if value is not None},
        "cluster": winner.cluster.to_json(),
        "clusters": [cluster.to_json() for cluster in search.clusters],
        "site": request.site.to_json(),
        "ledgers": [plan.ledger.cluster.to_json() for plan in search.first_of_clusters],
        "explanation": explain(search),
        "intervals": {"level": LEVEL, "basis": intervals_basis(winner)},
        "ranking": rows,
        "costliest_operators": costly_rows(search.graph, winner),
        "reference": [plan_row(plan, search) for plan in search.reference],
        "best_of_strategy": {
            kind: search.ranking.index(best) + 1 for kind in request.kinds if (best := search.best_of(kind)) is not None
        },
        "front": [row["rank"] for row in rows if row["on_front"]],
        "refused": [asdict(row) for row in search.refused],
        "refusals": list(search.refusals),
        "counts": asdict(search.counts),
        "priced": priced_lines(search),
        "measured": measured_lines(search.graph, search.clusters),
        "not_in_trace": list(unrecorded),
        "uncounted": list(search.graph.uncounted),
        "warnings": [line for cluster in search.clusters for line in cluster.fabric.warnings],
        "provenance": dict(origin),
    }


def plan_row(plan: Plan, search: PlanSearch) -> dict[str, Any]:
    """One plan of the ranking."""
    counted = any(operator.forward_flops for operator in search.graph.operators)
    tokens, interval, ledger = search.sequence_length, search.intervals.get(id(plan)), search.ledger_of(plan)
    return {
        "strategy": plan.strategy,
        "label": plan.label,
        "cluster": plan.cluster.name,
        "ranks": plan.cluster.ranks,
        "global_batch": plan.global_batch,
        "choice": plan.choice._asdict(),
        "algorithm": plan.algorithm,
        "algorithms": [use._asdict() for use in plan.exchanges],
        "compression": compression_json(plan),
        "exchange": exchange_json(plan),
        "iteration_time_s": plan.step_time,
        "sample_time_s": plan.sample_time,
        "samples_per_second": plan.samples_per_second,
        "tokens_per_second": None if tokens is None else tokens * plan.samples_per_second,
        "tokens_per_second_per_rank": None if tokens is None else tokens * plan.samples_per_second / plan.cluster.ranks,
        "low_s": None if interval is None else interval.low,
        "high_s": None if interval is None else interval.high,
        "told_apart": None if interval is None or plan is search.winner else interval.apart,
        "bound_s": plan.bound,
        "breakdown": dict(plan.breakdown),
        "rank_seconds": None if plan.spent is None else {name: spent.tolist() for name, spent in plan.spent.items()},
        "communication_time_s": plan.communication_time,
        "model_flops_utilization": search.utilization(plan) if counted else None,
        "hardware_flops_utilization": search.utilization(plan, hardware=True) if counted else None,
        "energy_j": ledger.energy.total_j,
        "energy": ledger.energy.to_json(),
        "energy_per_sample_j": plan.energy_per_sample,
        **ledger.to_json(),
        "memory_bytes": plan.memory,
        "fits": plan.fits is not False,
        "fits_memory": plan.fits,
        "verified": plan.verified,
        "runnable": plan.runnable,
        "channels": None if plan.division is None else plan.division.by_axis(),
        "placed": _placed(plan),
        "in_step": None if plan.in_step is None else in_step_json(plan.in_step),
    }


def in_step_json(in_step: InStep) -> dict[str, Any]:
    """How often the switch turns within a step, what that gains, and the planes of every axis by phase."""
    best, standing = in_step.best, in_step.standing
    return {
        "reconfiguration_time_s": in_step.reconfiguration_time,
        "turns": len(best.turning),
        "turns_before": list(best.turning),
        "hidden_s": in_step.hidden,
        "exposed_s": best.exposed,
        "standing_step_s": None if standing is None else standing.step_time,
        "gain_s": in_step.gain,
        "planes": {phase: dict(division) for phase, division in best.settings.items()},
        "standing_planes": None if standing is None else dict(next(iter(standing.settings.values()))),
    }


def intervals_basis(plan: Plan) -> str:
    """What the intervals rest on, or why there are none."""
    belief = belief_of(plan.job.accelerator, plan.job.fabric)
    if belief is None:
        return f"no interval is known: {plan.job.accelerator.name} has a flat efficiency, whose spread nobody states"
    left_out = "" if not plan.verified or not plan.exchanges else "; links taken as they are"
    return f"{belief.basis} of {', '.join(belief.names)}, linearised, and the scatter of measured steps{left_out}"


def _whole(number: float) -> int | float:
    return int(number) if number == int(number) else number


def _placed(plan: Plan) -> dict[str, Any] | None:
    step = plan.placed
    if step is None:
        return None
    assignment = step.circuits.assignment
    return {
        "sub_operators": step.plan.balanced.size,
        "placed_by": step.plan.placement.method,
        "repaired": step.plan.placement.repaired,
        "holds": len(step.circuits.bandwidth),
        "circuits": None if assignment is None else len(assignment.circuits),
        "circuits_gap": None if assignment is None else assignment.gap,
        "waited_for_circuits_s": step.waited_for_circuits,
        "relayed_bytes": step.relayed_bytes,
        "sent_bytes": step.sent_bytes,
        "regranted": None if plan.regranted is None else regranted_json(plan.regranted),
    }


def regranted_json(step: RegrantedStep) -> dict[str, Any]:
    """How often circuits are granted anew within a step, and what that gains."""
    return {
        "hold_s": step.timing.hold,
        "reconfiguration_time_s": step.timing.reconfiguration,
        "grants": step.grants,
        "standing_step_s": step.standing_time,
        "gain_s": step.gain,
    }


def coding_json(exchange: PricedExchange, ranks: int) -> dict[str, Any]:
    """What was assumed of a method among so many replicas, in plain types."""
    engine = exchange.coder
    return {
        "codec": exchange.name,
        "ratio": exchange.ratio(ranks),
        "source": exchange.sizes,
        "engine": engine.name,
        "placement": engine.placement,
        "encode_bytes_per_second": engine.encode,
        "decode_bytes_per_second": engine.decode,
        "encode_message_s": engine.encode_message,
        "decode_message_s": engine.decode_message,
        "engine_source": engine.source,
    }


def exchange_settings(exchange: PricedExchange) -> dict[str, Any]:
    """What is asked of a method: for the hash of the configuration."""
    engine = None if exchange.engine is None else exchange.engine.model_dump(mode="json")
    coded = [[sums.codec, [list(size) for size in sums.bits_by_terms]] for sums in exchange.gradient.coded]
    return {"method": exchange.name, "source": exchange.sizes, "coded": coded, "engine": engine}


def compression_json(plan: Plan) -> dict[str, Any] | None:
    """How the replicas of a plan code gradients, and what that changes where the same plan without was simulated too;
    None for gradients as they are."""
    if plan.gradient_exchange is None:
        return None
    effect, coding = verdict(plan), coding_json(plan.gradient_exchange, replicas(plan))
    if effect is None:
        return coding
    return coding | {
        "gradient_bytes": effect.nbytes,
        "compressed_bytes": effect.compressed_nbytes,
        "encode_s": effect.encode,
        "decode_s": effect.decode,
        "sending_saved_s": effect.saved,
        "step_saved_s": effect.gained,
        "outcome": effect.outcome,
        "why": str(effect),
    }


def exchange_json(plan: Plan) -> dict[str, Any] | None:
    """The method by which replicas exchange gradients: phases of the whole gradient of the model, how often, what is
    known of accuracy; None for gradients as they are."""
    exchange = plan.gradient_exchange
    if exchange is None:
        return None
    method, ranks = exchange.method, replicas(plan)
    return {
        "method": exchange.name,
        "label": exchange.label,
        "every": exchange.every,
        "synchronous": method.synchronous,
        "feedback": method.feedback,
        "scale_free": method.scale_free,
        "state_bytes_per_parameter": exchange.state_bytes,
        "replicas": ranks,
        "phases": [phase_document(phase) for phase in method.phases(exchange.gradient, ranks)],
        "accuracy": accuracy_note(exchange.name),
        "evidence": [row.to_json() for row in evidence_of(exchange.name)],
    }


def replicas(plan: Plan) -> int:
    """Ranks that exchange gradients with each other."""
    return plan.choice.replicas if isinstance(plan.choice, Strategy) else plan.choice.l
