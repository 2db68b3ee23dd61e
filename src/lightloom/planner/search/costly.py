"""The operators on which a plan spends most of its computing, and what bounds each."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np

from lightloom.parallelism.operators import graph_times
from lightloom.parallelism.plan import local_graph
from lightloom.parallelism.recomputation import repeated_operators
from lightloom.parallelism.strategy_space import Strategy
from lightloom.planner.search.plans import Plan
from lightloom.workloads.graph import ComputeGraph

MOST_OPERATORS = 10
"""Operators that are named."""
_LAUNCHED = 0.5
"""Share of an operator's seconds that neither arithmetic nor memory explains, from which launching bounds it."""


class CostlyOperator(NamedTuple):
    """Operators that differ only in the number of their block."""

    name: str
    """With a star in the place of each number."""
    kind: str
    operators: int
    """Operators of this name."""
    share: float
    """Share of the seconds that operators compute in a step, repeated forward passes included."""
    bound: str
    """What bounds them: "arithmetic", "memory" or "launch"."""


def costly_operators(graph: ComputeGraph, plan: Plan) -> tuple[CostlyOperator, ...]:
    """Return the operators that take most seconds of a plan's micro-batch, the most expensive first; none of placed
    plans, whose operators are cut."""
    choice, accelerator, settings = plan.choice, plan.cluster.accelerator, plan.cluster.training
    if not isinstance(choice, Strategy):
        return ()
    local = local_graph(graph, settings.model_copy(update={"batch_per_rank": choice.samples}))
    forward, backward = graph_times(local, accelerator, settings.precision, settings.attention)
    times = 1 + repeated_operators(graph, choice.recomputation)
    seconds = forward * times + backward
    flops = np.array([op.forward_flops * n + op.backward_flops for op, n in zip(local.operators, times, strict=True)])
    arithmetic = accelerator.compute_time(flops.astype(np.float64), settings.precision)
    moved = np.array([operator.forward_bytes for operator in local.operators], np.float64)
    memory = accelerator.memory_time(moved) * np.divide(seconds, forward, out=np.ones_like(forward), where=forward > 0)
    groups: dict[tuple[str, str], list[int]] = {}
    for index, operator in enumerate(local.operators):
        groups.setdefault((re.sub(r"\d+", "*", operator.name), operator.kind), []).append(index)
    rows = [
        CostlyOperator(
            name=name,
            kind=kind,
            operators=len(members),
            share=float(seconds[members].sum() / seconds.sum()) if seconds.any() else 0.0,
            bound=_bound(
                *(float(part[members].sum()) for part in (seconds, arithmetic, memory)),
                launched=accelerator.kernel_launch > 0,
            ),
        )
        for (name, kind), members in groups.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.share, row.name))[:MOST_OPERATORS])


def _bound(seconds: float, arithmetic: float, memory: float, *, launched: bool) -> str:
    if launched and max(arithmetic, memory) < (1 - _LAUNCHED) * seconds:
        return "launch"
    return "arithmetic" if arithmetic >= memory else "memory"


def costly_rows(graph: ComputeGraph, plan: Plan) -> list[dict[str, Any]]:
    """Return the same in plain types."""
    return [operator._asdict() for operator in costly_operators(graph, plan)]
