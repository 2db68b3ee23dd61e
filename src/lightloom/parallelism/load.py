"""Strategies by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from lightloom.clusters.settings import TrainingSettings
from lightloom.core.errors import UnknownNameError
from lightloom.parallelism.data_parallel import data_parallel
from lightloom.parallelism.plan import ParallelPlan
from lightloom.parallelism.sharded import sharded
from lightloom.workloads.graph import ComputeGraph

Strategy = Callable[[ComputeGraph, int, TrainingSettings], ParallelPlan]

STRATEGIES: Mapping[str, Strategy] = MappingProxyType({"ddp": data_parallel, "fsdp": sharded})
"""Every strategy by the name that the command line and the ranking use."""


def make_plan(strategy: str, graph: ComputeGraph, ranks: int, settings: TrainingSettings | None = None) -> ParallelPlan:
    """Return the plan of one strategy.

    Raises:
        UnknownNameError: no such strategy.
    """
    if strategy not in STRATEGIES:
        raise UnknownNameError("strategy", strategy, STRATEGIES)
    return STRATEGIES[strategy](graph, ranks, settings or TrainingSettings())
