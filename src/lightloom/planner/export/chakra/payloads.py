"""Which collectives the seconds of a staged step are made of.

Every field of ``StageExchanges`` is a sum of seconds of collectives. Priced at one second for one collective and at
none for all others, the field says how many of them there are, of every chunk or stage.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

import numpy as np

from lightloom.collectives.spec import Kind
from lightloom.core.arrays import Floats, Ints, Mask
from lightloom.parallelism.sharding import node_replicas
from lightloom.parallelism.strategy_space import Strategies, Strategy
from lightloom.planner.export.chakra.operations import CollectiveUse
from lightloom.planner.pricing.divided_prices import DividedChannels
from lightloom.planner.pricing.job import Job
from lightloom.planner.pricing.stage_exchanges import Axis, AxisTimes, ExchangeTime
from lightloom.planner.pricing.stage_times import StageExchanges, stage_exchanges

_Priced = tuple[Axis, Kind, int, float]
"""Axis, kind, ranks and bytes of a collective, as exchanges are priced."""


class Payload(NamedTuple):
    """One collective, and how many of it each chunk or stage has."""

    use: CollectiveUse
    shared: float
    """Groups that divide the channels, by whose number the bytes are priced."""
    counts: StageExchanges
    """In the place of seconds."""


def payloads(job: Job, strategy: Strategy, by_unit: Mask) -> list[Payload]:
    """Return the different collectives of a step.

    Args:
        job: where the strategy runs, at the prices of its axes.
        strategy: other than data parallelism alone.
        by_unit: whether a chunk exchanges gradients unit by unit: [1, chunks].
    """
    rows, sharing = Strategies.of(strategy), not isinstance(job.shares, DividedChannels)
    priced: dict[_Priced, None] = {}

    def counts(exchange_time: AxisTimes) -> StageExchanges:
        return stage_exchanges(job, rows, exchange_time, sharing=sharing, by_unit=by_unit)

    counts(AxisTimes(partial(_recorder, priced)))
    found = []
    for each in priced:
        axis, kind, ranks, nbytes = each
        stride = _stride(job, strategy, axis, kind)
        shared = float(job.fabric.channel_sharing(np.array([stride]))[0]) if sharing and axis != "tensor" else 1.0
        use = CollectiveUse(axis, kind, nbytes / shared, ranks, stride)
        found.append(Payload(use, shared, counts(AxisTimes(partial(_indicator, each)))))
    return found


def _recorder(priced: dict[_Priced, None], axis: Axis) -> ExchangeTime:
    def record(kind: Kind, _: Ints, ranks: Ints, __: Ints, ___: Ints, nbytes: Floats) -> Floats:
        if ranks[0] > 1:
            priced.update(dict.fromkeys((axis, kind, int(ranks[0]), size) for size in _sizes(nbytes)))
        return np.zeros_like(nbytes)

    return record


def _sizes(nbytes: Floats) -> Iterable[float]:
    return (size for size in np.unique(nbytes).tolist() if size > 0)


def _indicator(priced: _Priced, axis: Axis) -> ExchangeTime:
    def count(kind: Kind, _: Ints, ranks: Ints, __: Ints, ___: Ints, nbytes: Floats) -> Floats:
        alike = (axis, kind, int(ranks[0])) == priced[:3]
        return np.where(nbytes == priced[3], float(alike), 0.0)

    return count


def _stride(job: Job, strategy: Strategy, axis: Axis, kind: Kind) -> int:
    """Distance between neighbours of a group, in ranks."""
    tp = strategy.tp
    if axis == "data" and strategy.sharding == "hybrid" and kind == "all-reduce":
        within = node_replicas(np.array(strategy.replicas), np.array(tp), job.fabric.node_ranks)
        return tp * int(within)
    strides: dict[Axis, int] = {"tensor": 1, "expert-data": tp * strategy.ep}
    return strides.get(axis, tp)
