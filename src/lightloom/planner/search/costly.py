"""The operators on which a plan spends most of its computing, and what bounds each."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from lightloom.accelerators.base import ELEMENT_BYTES
from lightloom.parallelism.expert_parallel import expert_split
from lightloom.parallelism.operators import operator_columns
from lightloom.parallelism.recomputation import repeated_operators
from lightloom.parallelism.strategy_space import Strategies, Strategy
from lightloom.parallelism.tensor_parallel import tensor_split
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
    """Return the operators that take most seconds of a plan's micro-batch on the ranks that hold them, each at its
    share, the most expensive first; none of placed plans, whose operators are cut."""
    choice, accelerator, settings = plan.choice, plan.cluster.accelerator, plan.cluster.training
    if not isinstance(choice, Strategy):
        return ()
    split, row = tensor_split(graph), Strategies.of(choice)
    element_bytes = ELEMENT_BYTES[settings.precision]
    columns = operator_columns(graph, split, expert_split(graph, split), element_bytes, settings.attention)
    forward, backward = columns.work(
        accelerator, row.samples, row.tp, sequence_parallel=row.sequence_parallel, ep=row.ep, cp=row.cp
    )
    times = 1 + repeated_operators(graph, choice.recomputation)
    passes = [
        times[0]
        for times in columns.times(
            accelerator,
            settings.precision,
            row.samples,
            row.tp,
            sequence_parallel=row.sequence_parallel,
            ep=row.ep,
            cp=row.cp,
        )
    ]
    seconds = times * passes[0] + passes[1]
    arithmetic = accelerator.compute_time(times * forward.flops[0] + backward.flops[0], settings.precision)
    memory = accelerator.memory_time(times * forward.nbytes[0] + backward.nbytes[0])
    groups: dict[tuple[str, str], list[int]] = {}
    for index, operator in enumerate(graph.operators):
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
