"""Broadcast on a ring of wavelengths: the root's own circuits, the links around it, and few hops together.

A reduce is a broadcast turned round. Proof: docs/collectives/bounds.md.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from lightloom.collectives.bounds.link_use import broadcast_uses
from lightloom.core.arrays import Floats
from lightloom.core.effort import Effort

_HALVINGS: Effort = 60


def broadcast_seconds(ranks: int, hop: float, direction_seconds: float) -> float:
    """Seconds from standing circuits on in which no byte that passes few hops can have reached all ranks.

    Args:
        hop: least seconds from a lightpath's first bit sent to it received.
        direction_seconds: seconds in which all bytes pass one link, on all channels of one direction.
    """
    if direction_seconds <= 0:
        return hop
    least, most = hop + direction_seconds / 2, ranks * (hop + direction_seconds)
    if _possible(ranks, hop, direction_seconds, least):
        return least
    for _ in range(_HALVINGS):
        middle = (least + most) / 2
        if _possible(ranks, hop, direction_seconds, middle):
            most = middle
        else:
            least = middle
    return least


def _possible(ranks: int, hop: float, direction_seconds: float, seconds: float) -> bool:
    """Whether links and hops allow these seconds for the mean byte."""
    half = ranks // 2
    uses = (seconds - hop) / direction_seconds
    if hop > 0 and not _in_time(ranks, hop, direction_seconds / 2, seconds):
        return False
    shorter = min(ranks - 1 - half, half * (2 * uses - 1))
    if shorter < 0:
        return False
    hops = (seconds - direction_seconds / 4) / hop if hop > 0 else ranks
    longer = ranks - 1 - shorter
    return ranks - 1 + max(0.0, longer - hops) + max(0.0, shorter - hops) <= 2 * ranks * uses


def _in_time(ranks: int, hop: float, root_seconds: float, seconds: float) -> bool:
    """Whether the root can send all bytes once in ``root_seconds``, and they then pass as few hops as time is left for.

    Bytes with one hop left go from the root to every other rank.
    """
    early = min(1.0, max(0.0, (seconds - 2 * hop) / root_seconds))
    if early + (1 - early) * (ranks - 1) > (seconds - hop) / root_seconds:
        return False
    used = _used_until(ranks, seconds / hop) - _used_until(ranks, max(1.0, (seconds - root_seconds) / hop))
    return used * hop <= ranks * (seconds - hop)


def _used_until(ranks: int, hops: float) -> float:
    """The integral of C(N, ⌊x⌋) over x from 1 to ``hops``."""
    table = _uses_summed(ranks)
    whole = min(int(hops), len(table) - 1)
    return float(table[whole - 1] + (hops - whole) * (table[whole] - table[whole - 1]))


@lru_cache(maxsize=16)
def _uses_summed(ranks: int) -> Floats:
    """C(N, 1) + ... + C(N, k): [k], up to as many hops as need no link twice."""
    exact = int(np.sqrt(ranks / 2)) + 1
    hops = np.arange(ranks + 1, dtype=np.float64)
    uses = ranks - 1 + np.maximum(0.0, ranks - 1 - 2 * hops)
    uses[1 : exact + 1] = [broadcast_uses(ranks, k) for k in range(1, exact + 1)][: len(uses) - 1]
    uses[0] = 0.0
    return np.cumsum(uses)
