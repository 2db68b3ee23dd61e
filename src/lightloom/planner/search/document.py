"""The JSON document of a search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from lightloom.exchange.evidence import accuracy_note, evidence_of
from lightloom.parallelism.strategy_space import Strategy
from lightloom.planner.circuits.in_step import InStep
from lightloom.planner.circuits.regranted import RegrantedStep
from lightloom.planner.gradients.priced import PricedExchange
from lightloom.planner.pricing.belief import LEVEL, belief_of
from lightloom.planner.pricing.exchange_prices import phase_document
from lightloom.planner.search.costly import costly_rows
from lightloom.planner.search.explain import explain
from lightloom.planner.search.measured import measured_lines
from lightloom.planner.search.plans import Plan, PlanSearch
from lightloom.planner.search.priced import priced_lines
from lightloom.planner.search.verdict import verdict

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
