"""How far ranks are from each other over tiers.

Every tier but an open mesh looks alike from all of its children, so the farthest and the nearest transfer of a fabric
are those of its tiers, one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lightloom.fabrics.tiers.level import Level


class _Reach(NamedTuple):
    """The transfers that a tier joins."""

    nearest: float
    """Seconds of the quickest, which needs no tier beneath."""
    farthest: float
    """Seconds of the slowest, with what it takes of the tiers beneath."""
    links: int
    """Links of the longest."""


def _reaches(levels: Sequence[Level]) -> list[_Reach]:
    """What each tier with several children joins, innermost first."""
    reaches: list[_Reach] = []
    within = {1: _Reach(0.0, 0.0, 0)}
    for level in levels:
        if level.size == 1:
            continue
        passed = [(2 + 2 * beneath.tree, beneath.latency) for beneath in level.chain]
        through, over = sum(count * latency for count, latency in passed), sum(count for count, _ in passed)
        if level.is_grid:
            near, far = 1, level.lattice.diameter
        else:
            near = far = 2 + 2 * level.tree if level.switched else 1
        # On separate rails a transfer first goes to the rank of its own child that is on the rail of the destination.
        first = within[level.root.child] if not level.joined and level.planes > 1 else within[1]
        reaches.append(
            _Reach(
                through + near * level.latency,
                through + far * level.latency + first.farthest,
                over + far + first.links,
            )
        )
        within[level.group] = _Reach(
            min(reach.nearest for reach in reaches),
            max(reach.farthest for reach in reaches),
            max(reach.links for reach in reaches),
        )
    return reaches


def diameter(levels: Sequence[Level]) -> int:
    """Links between the two ranks farthest apart."""
    return max((reach.links for reach in _reaches(levels)), default=0)


def neighbour_latency(levels: Sequence[Level]) -> float:
    """Seconds of the quickest transfer; 0 of a single rank."""
    return min((reach.nearest for reach in _reaches(levels)), default=0.0)


def diameter_latency(levels: Sequence[Level]) -> float | None:
    """Seconds in which the farthest ranks hear of each other; None where relaying over an outer tier may be quicker."""
    reaches = _reaches(levels)
    for inner, outer in ((reaches[i], reaches[j]) for i in range(len(reaches)) for j in range(i + 1, len(reaches))):
        if inner.farthest > 2 * outer.nearest:
            return None
    return max((reach.farthest for reach in reaches), default=0.0)
