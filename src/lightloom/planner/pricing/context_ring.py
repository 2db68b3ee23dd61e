"""What attention waits for in a context group: keys and values that go around a ring, for columns of strategies.

forward    (cp − 1) · wait(send of K, V)
backward   (cp − 1) · wait(send of K, V and their gradients) + send of the gradients
wait(s)    max(s − attention / cp, share of the arithmetic that sends take · s)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lightloom.core.arrays import Floats, Ints, Mask
from lightloom.fabrics.base import Fabric
from lightloom.parallelism.operators import OperatorColumns
from lightloom.parallelism.strategy_space import Strategies
from lightloom.planner.pricing.stage_exchanges import distance, interleaved
from lightloom.simulation.contention import waiting


class RingTimes(NamedTuple):
    """Seconds that operators wait, each [rows, operators]."""

    forward: Floats
    backward: Floats


def has_ring(fabric: Fabric, cp: Ints, tp: Ints) -> Mask:
    """Return the rows whose context groups the fabric has, or that have none: [rows]."""
    groups, row = np.unique(np.stack([cp, distance(fabric, tp)]), axis=1, return_inverse=True)
    served = [
        ranks == 1 or (not fabric.in_network_reduction and _group(fabric, ranks, stride) is not None)
        for ranks, stride in groups.T.tolist()
    ]
    return np.array(served, np.bool_)[row]


def ring_waits(
    columns: OperatorColumns, rows: Strategies, fabric: Fabric, times: tuple[Floats, Floats], *, sharing: bool
) -> RingTimes:
    """Return what attention waits for blocks that arrive later than it needs them.

    Args:
        columns: the operators.
        rows: strategies.
        fabric: where they run.
        times: seconds of the operators forward and backward, each [rows, operators].
        sharing: whether groups that interleave share a ring's wavelengths.
    """
    waits = RingTimes(*(np.zeros_like(seconds) for seconds in times))
    which, attention = np.flatnonzero(rows.cp > 1), np.flatnonzero(columns["key_values"])
    if not len(which):
        return waits
    groups = rows.rows(which)
    send, latency = block_send(columns, groups, fabric, sharing=sharing)
    send, latency = send[:, attention], latency[:, None]
    place, blocks, share = np.ix_(which, attention), groups.cp[:, None], fabric.arithmetic_share
    forward, backward = (seconds[place] / blocks for seconds in times)
    waits.forward[place] = (blocks - 1) * waiting(forward, send + latency, share)
    waits.backward[place] = (blocks - 1) * waiting(backward, 2 * send + latency, share) + send + latency
    return waits


def block_send(columns: OperatorColumns, rows: Strategies, fabric: Fabric, *, sharing: bool) -> tuple[Floats, Floats]:
    """Return the seconds of sending a block of keys and values to the next rank, [rows, operators], and the latency
    that is added to them, [rows]; infinite where the fabric has no such group."""
    lines = [_pair(fabric, cp, stride) for cp, stride in zip(rows.cp.tolist(), distance(fabric, rows.tp), strict=True)]
    rate, latency = np.array(lines, np.float64).reshape(-1, 2).T
    nbytes = columns.key_value_bytes(rows.samples, rows.tp, rows.cp) * interleaved(fabric, rows.tp, sharing)[:, None]
    return np.divide(nbytes, rate[:, None], out=np.full_like(nbytes, np.inf), where=rate[:, None] > 0), latency


def _pair(fabric: Fabric, ranks: int, stride: int) -> tuple[float, float]:
    group = _group(fabric, ranks, int(stride))
    return (0.0, 0.0) if group is None else group.message(1)


def _group(fabric: Fabric, ranks: int, stride: int) -> Fabric | None:
    return fabric if ranks == fabric.ranks else fabric.group(ranks, stride)
