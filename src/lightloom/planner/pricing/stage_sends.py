"""What a stage sends to the next, for columns of strategies.

    every rank sends the whole activation        ─►  n bytes on each rank's link
    every rank sends its 1/tp, then all-gather   ─►  n / tp bytes on each rank's link, n within the tensor group

A tensor group takes the faster way. The second is Megatron's scatter/gather. Source: Narayanan et al., SC 2021, section
4.1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lightloom.collectives.spec import Kind
from lightloom.core.arrays import Floats
from lightloom.parallelism.strategy_space import Strategies
from lightloom.planner.pricing.group_prices import Pricing
from lightloom.planner.pricing.stage_exchanges import ExchangeTime, served, tensor_exchange

GATHER: Kind = "all-gather"
"""Makes the slices whole again."""


class Crossing(NamedTuple):
    """Bytes of a micro-batch that a chunk reads from before it, each [rows, chunks]."""

    total: Floats
    """All, of the whole model."""
    sliced: Floats
    """Those that lie in slices of the sequence in a tensor group."""


class Sends(NamedTuple):
    """What is sent to each chunk from the one before, or its gradient back, each [rows, chunks]; 0 for the first."""

    seconds: Floats
    nbytes: Floats
    """Bytes on the link of each rank."""
    gathered: Floats
    """Bytes that a tensor group gathers from slices afterwards."""


class Gathers(NamedTuple):
    """The all-gathers that would make slices whole, each [rows, chunks]."""

    nbytes: Floats
    seconds: Floats
    """Infinite where a tensor group has no all-gather."""


def gathers(rows: Strategies, crossing: Crossing, pricing: Pricing, exchange_time: ExchangeTime) -> Gathers:
    """Return what tensor groups gather when slices are sent."""
    nbytes = crossing.total - crossing.sliced
    seconds = np.full(nbytes.shape, np.inf)
    which = np.flatnonzero((rows.tp > 1) & (rows.pp > 1))
    groups = rows.rows(which)
    one = np.ones(len(which), np.int64)
    columns = (groups.algorithm, groups.tp, one, one.astype(np.float64))
    which = which[served(pricing, GATHER, rows.algorithms, *columns)]
    if len(which):
        seconds[which] = tensor_exchange(GATHER, rows.rows(which), nbytes[which], exchange_time)
    return Gathers(nbytes, seconds)


def sends(rows: Strategies, crossing: Crossing, gather: Gathers, rate: Floats, latency: Floats) -> Sends:
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
