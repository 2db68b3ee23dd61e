"""What stages that hold copies of a tied table exchange: a ring all-reduce of its gradients among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from lightloom.clusters.settings import TrainingSettings
from lightloom.core.arrays import Floats, Ints
from lightloom.fabrics.base import Fabric
from lightloom.parallelism.sharding import NONE, ZERO_1, state_sharers
from lightloom.parallelism.strategy_space import Strategies
from lightloom.parallelism.tied import TiedTable, holding_stages
from lightloom.planner.pricing.stage_exchanges import distance

Pair = Callable[[int], tuple[float, float]]
"""Bytes per second and seconds of latency between stages whose ranks lie so far apart."""


class TiedSum(NamedTuple):
    """The sum of the gradients of one table."""

    stages: list[int]
    """Stages that hold the table, at least two."""
    nbytes: Floats
    """Bytes that each of their ranks sends: [rows]."""
    seconds: Floats
    """Seconds from when all of them have their gradients: [rows]."""


def tied_sums(
    tables: Sequence[TiedTable], edges: Ints, rows: Strategies, fabric: Fabric, settings: TrainingSettings, pair: Pair
) -> list[TiedSum]:
    """Return the sums after the last exchange of gradients; all rows have the same stages and chunks.

    2 (g − 1)/g of a rank's part of the gradients over the slowest of the pairs of g neighbouring holders. Where
    gradients are sharded (from ``zero-2`` on), that part is a share; Megatron's distributed optimizer sums all of them.
    """
    whole = (rows.sharding == NONE) | (rows.sharding == ZERO_1)
    sharers = np.where(whole, 1, state_sharers(rows.sharding, rows.replicas, rows.tp, fabric.node_ranks))
    size = np.where(whole, settings.gradient_bytes, settings.sharded_gradient_bytes)
    sums = []
    for table in tables:
        stages = holding_stages(table, edges, rows.stages)
        if len(stages) == 1:
            continue
        steps = 2 * (len(stages) - 1)
        nbytes = steps / len(stages) * table.parameters / rows.tp / sharers * size
        rate, latency = _slowest(fabric, pair, rows.replicas * rows.tp, stages)
        sums.append(TiedSum(stages, nbytes, nbytes / rate + steps * latency))
    return sums


def tied_seconds(sums: Sequence[TiedSum], rows: int, stages: int) -> Floats:
    """Return the seconds of all sums, 0 of stages that hold no tied table: [rows, stages]."""
    seconds = np.zeros((rows, stages))
    for each in sums:
        seconds[:, each.stages] += each.seconds[:, None]
    return seconds


def _slowest(fabric: Fabric, pair: Pair, ranks: Ints, stages: Sequence[int]) -> tuple[Floats, Floats]:
    """Bytes per second and latency of the slowest pair of holders in a ring, of stages of so many ranks: [rows]."""
    apart = sorted({*np.diff(stages).tolist(), stages[-1] - stages[0]})
    pairs = {}
    for stride in np.unique(distance(fabric, np.multiply.outer(apart, ranks))).tolist():
        pairs[stride] = pair(stride)
    lines = [[pairs[stride] for stride in distance(fabric, steps * ranks).tolist()] for steps in apart]
    rate, latency = np.array(lines, np.float64).transpose(2, 0, 1)
    return rate.min(axis=0), latency.max(axis=0)
