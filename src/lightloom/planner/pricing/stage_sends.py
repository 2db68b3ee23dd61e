"""What a stage sends to the next, for columns of strategies.

    every rank sends the whole activation        ─►  n bytes on each rank's link
    every rank sends its 1/tp, then all-gather   ─►  n / tp bytes on each rank's link, n within the tensor group

A tensor group takes the faster way. The second is Megatron's scatter/gather. Source: Narayanan et al., SC 2021, section
4.1.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from lightloom.collectives.spec import Kind
from lightloom.core.arrays import Floats
from lightloom.parallelism.strategy_space import Strategies
from lightloom.planner.pricing.divided_model import Crossing
from lightloom.planner.pricing.division import undivided_pair
from lightloom.planner.pricing.group_prices import GroupPrices, Pricing
from lightloom.planner.pricing.job import Job
from lightloom.planner.pricing.stage_exchanges import ExchangeTime, combinations, distance, served, tensor_exchange

GATHER: Kind = "all-gather"
"""Makes the slices whole again."""


class Sends(NamedTuple):
    """What is sent to each chunk from the one before, or its gradient back, each [rows, chunks]; 0 for the first."""

    seconds: Floats
    nbytes: Floats
    """Bytes on the link of each rank."""
    gathered: Floats
    """Bytes that a tensor group gathers from slices afterwards."""


class _Gathers(NamedTuple):
    """The all-gathers that would make slices whole, each [rows, chunks]."""

    nbytes: Floats
    seconds: Floats
    """Infinite where a tensor group has no all-gather."""


def stage_sends(job: Job, rows: Strategies, exchange_time: ExchangeTime) -> Sends:
    """Return what is sent to each chunk from the one before it; all rows have the same stages and chunks."""
    combination, row = combinations(rows)
    crossing = job.model.crossing(combination, job.model.chunks(rows)[:-1])
    gather = _gathers(combination, crossing, job.pricing, exchange_time)
    if job.shares is not None:
        # The tensor group's planes serve a pass meanwhile.
        gather = gather._replace(seconds=np.full_like(gather.seconds, np.inf))
    gather = _Gathers(*(column[row] for column in gather))
    return _faster(rows, Crossing(*(column[row] for column in crossing)), gather, *send_rate(job, rows))


def send_rate(job: Job, rows: Strategies) -> tuple[Floats, Floats]:
    """Bytes per second and seconds of latency from a stage to the next, all ranks at once, each [rows]."""
    if rows.stages == 1:
        return np.full(len(rows), np.inf), np.zeros(len(rows))
    ranks = rows.replicas * rows.tp
    if job.shares is not None:
        rate, latency = np.array([job.shares.shift(stride) for stride in ranks.tolist()]).T
        return rate, latency
    strides, row = np.unique(distance(job.fabric, ranks), return_inverse=True)
    pair = partial(undivided_pair, job.fabric) if isinstance(job.pricing, GroupPrices) else job.fabric.message
    rate, latency = np.array([pair(int(stride)) for stride in strides]).T
    return rate[row], latency[row]


def _gathers(rows: Strategies, crossing: Crossing, pricing: Pricing, exchange_time: ExchangeTime) -> _Gathers:
    """Return what tensor groups gather when slices are sent."""
    nbytes = crossing.total - crossing.sliced
    seconds = np.full(nbytes.shape, np.inf)
    which = np.flatnonzero((rows.tp > 1) & (rows.pp > 1))
    groups = rows.rows(which)
    one = np.ones(len(which), np.int64)
    columns = (groups.algorithm, groups.tp, one, np.zeros_like(one))
    which = which[served(pricing, GATHER, rows.algorithms, *columns)]
    if len(which):
        seconds[which] = tensor_exchange(GATHER, rows.rows(which), nbytes[which], exchange_time)
    return _Gathers(nbytes, seconds)


def _faster(rows: Strategies, crossing: Crossing, gather: _Gathers, rate: Floats, latency: Floats) -> Sends:
    """Return what is sent the faster way, at ``rate`` bytes per second and with ``latency`` seconds, each [rows]."""
    tp = rows.tp[:, None]
    whole, slices = crossing.total - (1 - 1 / tp) * crossing.sliced, crossing.total / tp
    direct, scattered = (nbytes / rate[:, None] + latency[:, None] for nbytes in (whole, slices))
    scattered = scattered + gather.seconds
    chosen = scattered < direct
    columns = (np.where(chosen, scattered, direct), np.where(chosen, slices, whole), np.where(chosen, gather.nbytes, 0))
    for column in columns:
        column[:, 0] = 0.0
    return Sends(*columns)
