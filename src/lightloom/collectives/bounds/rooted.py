"""Broadcast on a ring of wavelengths: the root's own circuits, the links around it, and few hops together.

    root ──────► branch ──► rank ──► rank      others send from one hop on, the deeper the earlier their branch began
      └────────────────────► branch ──► rank

A reduce is a broadcast turned round. Proof: docs/collectives/bounds.md.
"""

from __future__ import annotations

from functools import lru_cache
from math import isqrt

import numpy as np

from lightloom.collectives.bounds.link_use import broadcast_uses
from lightloom.core.arrays import Floats
from lightloom.core.effort import Effort

_HALVINGS: Effort = 60
_MOST_COST: Effort = 512
"""Costs of attachments that are told apart; those above count as the next one, which keeps bounds true."""


def broadcast_seconds(ranks: int, hop: float, direction_seconds: float) -> float:
    """Seconds from standing circuits on in which no byte that passes few hops can have reached all ranks.

    Args:
        hop: least seconds from a lightpath's first bit sent to it received.
        direction_seconds: seconds in which all bytes pass one link, on all channels of one direction.
    """
    # Half of it divides below, and half of the smallest float is 0.
    if direction_seconds / 2 <= 0:
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
    if hop > 0 and not (
        _in_time(ranks, hop, direction_seconds / 2, seconds)
        and _branches_fit(ranks, direction_seconds / hop, seconds / hop)
        and _later_links_fit(ranks, direction_seconds / hop, seconds / hop)
    ):
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
    # Where all can leave early, by any amount of time, this holds.
    early = max(0.0, (seconds - 2 * hop) / root_seconds)
    if early + (1 - early) * (ranks - 1) > (seconds - hop) / root_seconds:
        return False
    used = _used_until(ranks, seconds / hop) - _used_until(ranks, max(1.0, (seconds - root_seconds) / hop))
    return used * hop <= ranks * (seconds - hop)


def _branches_fit(ranks: int, direction_hops: float, hops: float) -> bool:
    """Whether branches from all that the root can send serve all ranks over links that are free from one hop on.

    Args:
        direction_hops, hops: time of all bytes over one direction, and that which is allowed, in hops.
    """
    costs = _attachments(ranks)
    slots = int(hops)
    if slots > len(costs):
        return True
    branches = (hops - slots) * costs[slots - 1] + costs[: slots - 1].sum(axis=0)
    # What the root sends after one hop uses a link, at least, of those that are counted.
    later = max(0.0, hops - 2)
    branches[:2] += -later, later
    return _smallest(branches, (ranks - 1) * direction_hops / 2) <= ranks * later


def _later_links_fit(ranks: int, direction_hops: float, hops: float) -> bool:
    """Whether links carry after one hop all that the root does not send itself before.

    Args:
        direction_hops, hops: as for :func:`_branches_fit`.
    """
    costs = _attachments(ranks)
    slots = int(hops)
    if slots < 2 or slots > len(costs):
        return True
    early = min(2.0, direction_hops)
    part = hops - slots
    branches = (2 * part + early) * costs[slots - 1] + 2 * (1 - part) * costs[slots - 2]
    late = _used_until(ranks, hops - 1) - _used_until(ranks, max(1.0, hops - max(2.0, direction_hops) / 2))
    return _smallest(branches, ranks * early) + 2 * late <= 2 * ranks * (hops - 2)


def _smallest(counts: Floats, needed: float) -> float:
    """The least sum of ``needed`` costs, of which there are ``counts``: [cost]. Those above count as the next cost."""
    # Each cost adds one for all that are not to be had for less.
    return float(np.maximum(needed - counts.cumsum(), 0.0).sum())


@lru_cache(maxsize=16)
def _attachments(ranks: int) -> Floats:
    """How many attachments of a tree so deep cost so many links, the coefficients of U^depth: [depth, cost].

    As many depths as a few times those from which on no attachment need cost more than two.
    """
    counts = np.zeros((2 * isqrt(ranks) + 8, min(ranks, _MOST_COST) + 1))
    counts[0, 0] = 1.0
    for depth in range(1, len(counts)):
        counts[depth] = counts[depth - 1]
        counts[depth, 1:] += counts[depth - 1, :-1]
        # Far above all that is needed, and far below what a float holds.
        np.minimum(counts[depth].cumsum(), 1e30, out=counts[depth])
    return counts


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
