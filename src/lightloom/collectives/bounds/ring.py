"""Rings of wavelengths: few hops need long lightpaths, and only so many lightpaths leave a rank or half the ring.

Seconds count from standing circuits on; circuits that change on the way only add. Proofs: docs/collectives/bounds.md.
"""

from __future__ import annotations

from lightloom.collectives.bounds.link_use import (
    all_reduce_uses,
    hops_needed,
    joint_seconds,
    ranks_by_hops,
    relayed_seconds,
    slotted_seconds,
)
from lightloom.collectives.bounds.one_to_one import Demand, distance_seconds, link_seconds
from lightloom.collectives.bounds.priced import blocks_in_two_hops, ends_seconds, priced_seconds, two_hops_join
from lightloom.collectives.bounds.rooted import broadcast_seconds, standing_broadcast_seconds
from lightloom.collectives.collective import OF_PARTS, ROOTED, Collective
from lightloom.collectives.schedule.build import ring_all_to_all_wavelengths
from lightloom.machines.fabrics.fabric import Fabric


def ring_bounds(collective: Collective, fabric: Fabric) -> list[tuple[float, str]]:
    """Return lower bounds in seconds, conversion of the first hop included, with what sets each."""
    hop = _hop(fabric)
    if collective.kind in OF_PARTS:
        return _bounds_of_parts(Demand(collective), fabric)
    hops = _standing_hops(collective, fabric)
    bounds = [
        (_joint(collective, fabric), "the links that so few hops must use"),
        (min(hops * hop, fabric.setup_time + hop), f"{hops} hops on circuits that stand, or circuits set twice"),
    ]
    if collective.kind in ("all-gather", "reduce-scatter") and fabric.taps == 1:
        bounds += _relay_bounds(collective, fabric, max(bounds)[0])
    if collective.kind == "all-to-all":
        bounds += _all_to_all_bounds(collective, fabric, hops)
    if collective.kind in ROOTED and not _tapped(collective, fabric):
        direction_seconds = collective.nbytes / (fabric.channels * fabric.channel_bandwidth)
        seconds = broadcast_seconds(collective.ranks, hop, direction_seconds)
        bounds.append((seconds, "the links around the root and few hops together"))
        least = max(bounds)[0]
        standing = standing_broadcast_seconds(collective.ranks, hop, direction_seconds, least, fabric.setup_time + hop)
        if standing > least:
            bounds.append((standing, "standing circuits and what the root sends together"))
    if fabric.reach is not None:
        # At the least half the ring away lies some rank even from a root, whatever has failed.
        hops = -(-(fabric.ranks // 2) // fabric.reach)
        seconds = hops * _hop(fabric)
        bounds.append((seconds, f"{hops} hops, as light reaches {fabric.reach} links"))
    return bounds


def _relay_bounds(collective: Collective, fabric: Fabric, least: float) -> list[tuple[float, str]]:
    """Bound all-gathers and reduce-scatters whose circuits stand; ``least`` seconds are known to be needed."""
    ranks, hop, twice = collective.ranks, _hop(fabric), fabric.setup_time + _hop(fabric)
    per_use = collective.nbytes / float(fabric.link_bandwidth().sum())
    relayed = min(relayed_seconds(ranks, hop, per_use, 2 * fabric.channels), twice)
    share = collective.nbytes_per_rank / fabric.channel_bandwidth
    priced = priced_seconds(ranks, hop, share, fabric.channels, max(least, relayed), fabric.setup_time)
    return [
        (relayed, "what standing circuits relay in few hops"),
        (priced, "standing circuits that serve first hops and later ones"),
    ]


def _all_to_all_bounds(collective: Collective, fabric: Fabric, hops: int) -> list[tuple[float, str]]:
    """Return the bounds of all-to-alls whose circuits stand, some of whose blocks make so many hops."""
    ranks, hop, twice = collective.ranks, _hop(fabric), fabric.setup_time + _hop(fabric)
    seconds = _crossing_seconds(collective, fabric, hops)
    bounds = [(min(seconds, twice), f"blocks of {hops} hops that cross the ring in the time left")]
    block = collective.nbytes / ranks / fabric.channel_bandwidth
    if fabric.taps == 1 and hops > 2:
        seconds = ends_seconds(ranks, hop, block, fabric.channels)
        bounds.append((min(seconds, twice), "standing circuits that first hops and last ones leave idle"))
    if fabric.taps == 1 and hops == 2:
        seconds = 2 * hop + blocks_in_two_hops(ranks, fabric.channels) * block
        bounds.append((min(seconds, 3 * hop, twice), "two hops over ranks that join many pairs"))
    return bounds


def _bounds_of_parts(demand: Demand, fabric: Fabric) -> list[tuple[float, str]]:
    """Return the bounds of collectives whose parts go from rank to rank."""
    hop = _hop(fabric)
    hops = hops_needed(demand, _ends(fabric) * fabric.taps)
    bounds = [
        (hop + link_seconds(demand, fabric), "the links that the parts must pass"),
        (min(hops * hop, fabric.setup_time + hop), f"{hops} hops on circuits that stand, or circuits set twice"),
    ]
    if fabric.reach is not None:
        hops = -(-distance_seconds(demand, fabric)[1] // fabric.reach)
        bounds.append((hops * hop, f"{hops} hops, as light reaches {fabric.reach} links"))
    return bounds


def _ends(fabric: Fabric) -> int:
    """Return how many circuits can begin, or end, at one rank."""
    ends = 2 * fabric.channels
    return ends if fabric.transmitters is None else min(ends, fabric.transmitters)


def _hop(fabric: Fabric) -> float:
    """Return the least seconds from the first bit that a lightpath sends to its reception."""
    return fabric.step_overhead + fabric.neighbour_latency()


def _tapped(collective: Collective, fabric: Fabric) -> bool:
    """Return whether light that several ranks tap may reach them all in one hop; sums and blocks cannot be tapped."""
    return fabric.taps > 1 and collective.kind in ("all-gather", "broadcast")


def _joint(collective: Collective, fabric: Fabric) -> float:
    """Return the seconds in which links can carry what data that makes so few hops must use of them."""
    ranks, kind, hop = collective.ranks, collective.kind, _hop(fabric)
    per_use = collective.nbytes / float(fabric.link_bandwidth().sum())
    if kind == "all-to-all":
        return hop + ranks * ranks // 4 * per_use
    # That tapped light uses no link twice bounds nothing new.
    if _tapped(collective, fabric):
        return hop + (ranks - 1) * per_use
    if kind == "all-reduce" and fabric.taps > 1:
        return joint_seconds(ranks, hop, per_use, more_uses=ranks - 1)
    if kind == "all-reduce":
        return joint_seconds(ranks, hop, per_use, all_reduce_uses)
    return slotted_seconds(ranks, hop, per_use)


def _standing_hops(collective: Collective, fabric: Fabric) -> int:
    """Return the hops that some data makes at least if circuits are set once."""
    ends = _ends(fabric)
    ranks, degree = collective.ranks, ends * fabric.taps
    hops = len(ranks_by_hops(ranks, degree))
    if collective.kind in ROOTED:
        # Within two hops lightpaths from the root leave room for so many others on the links that they pass.
        crowded = fabric.taps == 1 and ranks - 1 > 3 * fabric.channels * (fabric.channels + 1)
        return max(hops, 3) if crowded else hops
    halves = (ranks // 2) * -(-ranks // 2)
    while _pairs_joined(ranks, 2 * fabric.channels * fabric.taps, degree, hops) < halves:
        hops += 1
    if fabric.taps > 1 or (hops == 1 and ring_all_to_all_wavelengths(ranks) <= fabric.channels):
        return hops
    return max(hops, 2 if two_hops_join(ranks, fabric.channels, ends) else 3)


def _pairs_joined(ranks: int, crossing: int, degree: int, hops: int) -> int:
    """Return the pairs that ``crossing`` circuits between halves of the ring may join within ``hops`` hops, at most."""
    at_most = 0
    for first in range(1, hops + 1):
        begins = min(ranks, degree ** (first - 1))
        ends = min(ranks, sum(degree**beyond for beyond in range(hops - first + 1)))
        at_most += crossing * begins * ends
    return at_most


def _crossing_seconds(collective: Collective, fabric: Fabric, hops: int) -> float:
    """Return the seconds of an all-to-all whose blocks make so many hops, save those that fewer may join.

    Each hop of such a block is sent in what is left of the time after all its hops, or there is one hop more.
    """
    ranks, hop = collective.ranks, _hop(fabric)
    joined = _pairs_joined(ranks, 2 * fabric.channels * fabric.taps, _ends(fabric) * fabric.taps, hops - 1)
    crossing = max(0, (ranks // 2) * -(-ranks // 2) - joined) * collective.nbytes / ranks
    left = crossing / (2 * fabric.channels * fabric.channel_bandwidth * hops)
    return min(hops * hop + left, (hops + 1) * hop)
