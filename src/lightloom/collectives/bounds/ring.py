"""Rings of wavelengths: few hops need long lightpaths, and only so many lightpaths leave a rank.

Seconds count from standing circuits on; circuits that change on the way only add. Proofs: docs/collectives/bounds.md.
"""

from __future__ import annotations

from lightloom.collectives.bounds.degree import ranks_by_hops
from lightloom.collectives.schedule.link_use import joint_seconds
from lightloom.collectives.schedule.wavelengths import ring_all_to_all_wavelengths
from lightloom.collectives.spec import ROOTED, Collective
from lightloom.fabrics.base import Fabric


def ring_bounds(collective: Collective, fabric: Fabric) -> list[tuple[float, str]]:
    """Seconds, conversion of the first hop included, with what sets each."""
    hop = _hop(fabric)
    hops = _standing_hops(collective, fabric)
    bounds = [
        (_joint(collective, fabric), "the links that so few hops must use"),
        (min(hops * hop, fabric.setup_time + hop), f"{hops} hops on circuits that stand, or circuits set twice"),
    ]
    if fabric.reach is not None:
        # At the least half the ring away lies some rank even from a root, whatever has failed.
        hops = -(-(fabric.ranks // 2) // fabric.reach)
        seconds = hops * _hop(fabric)
        bounds.append((seconds, f"{hops} hops, as light reaches {fabric.reach} links"))
    return bounds


def _hop(fabric: Fabric) -> float:
    """From the first bit that a lightpath sends to its reception, at least."""
    return fabric.step_overhead + fabric.neighbour_latency()


def _joint(collective: Collective, fabric: Fabric) -> float:
    """What all links can carry in the time, against what data that makes few hops must use."""
    ranks, kind = collective.ranks, collective.kind
    per_use = collective.nbytes / float(fabric.link_bandwidth().sum())
    if kind == "all-to-all":
        return _hop(fabric) + ranks * ranks // 4 * per_use
    # Light that several ranks tap reaches them all in one hop; that it uses no link twice bounds nothing new.
    if fabric.taps > 1 and kind in ("all-gather", "broadcast"):
        return _hop(fabric) + (ranks - 1) * per_use
    return joint_seconds(ranks, _hop(fabric), per_use, more_uses=ranks - 1 if kind == "all-reduce" else 0)


def _standing_hops(collective: Collective, fabric: Fabric) -> int:
    """Hops that some data makes if circuits are set once."""
    ends = 2 * fabric.channels
    if fabric.transmitters is not None:
        ends = min(ends, fabric.transmitters)
    hops = len(ranks_by_hops(collective.ranks, ends * fabric.taps))
    pairs_fit = ring_all_to_all_wavelengths(collective.ranks) <= fabric.channels and collective.ranks - 1 <= ends
    if collective.kind in ROOTED or fabric.taps > 1 or pairs_fit:
        return hops
    return max(hops, 2)
