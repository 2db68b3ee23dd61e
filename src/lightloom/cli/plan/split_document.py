"""The JSON document of ``plan --split``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from lightloom.cli.plan.split_options import Asked
from lightloom.planner.search.explain_split import explain_split
from lightloom.planner.search.plans import SplitPlan, SplitSearch


def split_document(found: SplitSearch, asked: Asked, origin: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that was found, in plain types."""
    front = {id(plan) for plan in found.front}
    ranked = [_row(place, plan, id(plan) in front) for place, plan in enumerate(found.ranking, start=1)]
    return {
        "schema": "lightloom.splits/1",
        "model": asked.graph.name,
        "parameters": asked.graph.parameters,
        "not_in_trace": list(asked.lost),
        "global_batches": asked.batches,
        "algorithms": asked.algorithms,
        "kinds": asked.kinds,
        "clusters": [each.to_json() for each in asked.clusters],
        "explanation": explain_split(found),
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
