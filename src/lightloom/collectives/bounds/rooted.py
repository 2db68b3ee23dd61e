"""Broadcast on a ring of wavelengths: the root's own circuits, the links around it, and few hops together.

A reduce is a broadcast turned round. Proof: docs/collectives/bounds.md.
"""

from __future__ import annotations

_HALVINGS = 60


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
    shorter = min(ranks - 1 - half, half * (2 * uses - 1))
    if shorter < 0:
        return False
    hops = (seconds - direction_seconds / 4) / hop if hop > 0 else ranks
    longer = ranks - 1 - shorter
    return ranks - 1 + max(0.0, longer - hops) + max(0.0, shorter - hops) <= 2 * ranks * uses
