"""Bytes that a rank of every stage sends along each axis, in the places of the seconds that these exchanges take."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from lightloom.collectives.spec import Kind
from lightloom.core.arrays import Floats, Ints, Mask
from lightloom.parallelism.strategy_space import Strategies, Strategy
from lightloom.planner.circuits.phases import REPLICAS
from lightloom.planner.pricing.job import Job
from lightloom.planner.pricing.stage_exchanges import Axis, AxisTimes, ExchangeTime
from lightloom.planner.pricing.stage_sends import stage_sends
from lightloom.planner.pricing.stage_times import StageExchanges, stage_exchanges

_PASSES: tuple[Axis, ...] = ("tensor", "expert")


class PassBytes(NamedTuple):
    """Bytes of one micro-batch by axis, each [chunks]."""

    forward: dict[Axis, Floats]
    backward: dict[Axis, Floats]
    send: Floats
    """On the link of each rank to the next stage, or back."""


class OnceBytes(NamedTuple):
    """Bytes once a step by axis."""

    gather: dict[Axis, Floats]
    """Parameters before the first pass: [stages]."""
    early: dict[Axis, Floats]
    """Gradients beside the last pass: [chunks]."""
    late: dict[Axis, Floats]
    """Gradients after it: [chunks]."""
    exchange: dict[Axis, Floats]
    """What follows: [stages]."""
    tied: Floats
    """Gradients of tied tables: [stages]."""


def pass_bytes(job: Job, strategy: Strategy) -> PassBytes:
    """Return the bytes of a pass."""
    exchanges = {axis: _exchanges(job, strategy, axis) for axis in _PASSES}
    sent = stage_sends(job, Strategies.of(strategy), AxisTimes(lambda _: _nothing))
    return PassBytes(
        {axis: each.forward[0] for axis, each in exchanges.items()},
        {axis: each.backward[0] for axis, each in exchanges.items()},
        sent.nbytes[0],
    )


def once_bytes(job: Job, strategy: Strategy, early: Floats) -> OnceBytes:
    """Return the bytes of what is exchanged once a step; gradients of chunks with seconds ``early`` [chunks] leave unit
    by unit."""
    by_unit, units = (early > 0)[None], job.model.units(job.model.chunks(Strategies.of(strategy)))
    replicas = {axis: _exchanges(job, strategy, axis, by_unit).replicas for axis in REPLICAS}
    tokens = _exchanges(job, strategy, "tensor")
    beside, after = dict[Axis, Floats](), dict[Axis, Floats]()
    exchange: dict[Axis, Floats] = {"tensor": tokens.token_gradients[0]}
    for axis, each in replicas.items():
        if each.unit_exchange is None:
            exchange[axis] = each.exchange[0]
            continue
        beside[axis] = np.where(by_unit[0], (units - 1) * each.unit_exchange.other[0], 0.0)
        after[axis] = np.where(by_unit[0], each.unit_exchange.first[0], each.exchange[0])
    tied = np.zeros(strategy.pp)
    for table in tokens.tied:
        tied[table.stages] += table.nbytes[0]
    gather = {axis: each.gather[0] for axis, each in replicas.items()}
    return OnceBytes(gather, beside, after, exchange, tied)


def _exchanges(job: Job, strategy: Strategy, axis: Axis, by_unit: Mask | None = None) -> StageExchanges:
    """Return bytes in the place of the seconds of one axis."""
    of_axis = AxisTimes(lambda asked: _sent if asked == axis else _nothing)
    alone = replace(job, shares=None)
    return stage_exchanges(alone, Strategies.of(strategy), of_axis, sharing=False, by_unit=by_unit)


def _sent(kind: Kind, algorithm: Ints, ranks: Ints, stride: Ints, exchange: Ints, nbytes: Floats) -> Floats:  # noqa: ARG001
    """Bytes that a rank sends at least."""
    count = ranks.reshape(ranks.shape + (1,) * (nbytes.ndim - ranks.ndim))
    sent: Floats = (2 if kind == "all-reduce" else 1) * (count - 1) / count * nbytes
    return sent


_nothing: ExchangeTime = lambda kind, algorithm, ranks, stride, exchange, nbytes: np.zeros_like(nbytes)  # noqa: E731, ARG005
