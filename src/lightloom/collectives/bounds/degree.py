"""Circuits that stand: with D of them a rank, no more than D + D² + ... + D^k ranks lie within k hops of any.

Ranks that hear of each other only over many circuits cannot do so early, and blocks of an all-to-all use as many
circuits as they pass. Proofs: docs/collectives/bounds.md.
"""

from __future__ import annotations

import numpy as np

from lightloom.collectives.bounds.one_to_one import Demand, rank_seconds
from lightloom.collectives.spec import OF_PARTS, Collective
from lightloom.fabrics.base import Fabric


def ranks_by_hops(ranks: int, degree: int) -> list[int]:
    """The most ranks that can lie exactly 1, 2, ... hops from a rank: D, D², ..., and the rest."""
    numbers: list[int] = []
    left, most = ranks - 1, degree
    while left > 0:
        numbers.append(min(left, most))
        left -= numbers[-1]
        most *= degree
    return numbers


def degree_seconds(collective: Collective, fabric: Fabric) -> float:
    """Seconds from dark circuits that no schedule beats on a switch where every rank holds ``channels`` circuits.

    Either one set of circuits serves all, and data has its hops to go; or circuits are set at least twice.
    """
    if collective.kind in OF_PARTS:
        demand = Demand(collective)
        standing = standing_seconds(demand, fabric)
        receiving = max(seconds for seconds, _ in rank_seconds(demand, fabric)) + fabric.neighbour_latency()
    else:
        standing, receiving = _standing_seconds(collective, fabric), _receiving_seconds(collective, fabric)
    changing = max(fabric.setup_time, receiving)
    return fabric.setup_time + fabric.step_overhead + min(standing, changing)


def _receiving_seconds(collective: Collective, fabric: Fabric) -> float:
    """Nothing arrives within one hop's delay, and then as fast as a rank receives."""
    if collective.kind in ("broadcast", "reduce"):
        return fabric.neighbour_latency() + collective.nbytes / (fabric.channels * fabric.channel_bandwidth)
    times = 2 if collective.kind == "all-reduce" else 1
    return fabric.neighbour_latency() + times * (collective.ranks - 1) * _share_seconds(collective, fabric)


def _share_seconds(collective: Collective, fabric: Fabric) -> float:
    """Seconds in which a rank receives one rank's share, on all its circuits."""
    return collective.nbytes_per_rank / (fabric.channels * fabric.channel_bandwidth)


def _standing_seconds(collective: Collective, fabric: Fabric) -> float:
    hop = fabric.neighbour_latency()
    onward = hop + fabric.step_overhead
    at_distance = ranks_by_hops(collective.ranks, fabric.channels)
    last = hop + (len(at_distance) - 1) * onward
    share = _share_seconds(collective, fabric)
    if collective.kind == "all-to-all":
        hops = sum((k + 1) * number for k, number in enumerate(at_distance))
        return max(last, hop + hops * share)
    if collective.kind in ("all-reduce", "broadcast", "reduce", "reduce-scatter-v"):
        return max(last, _receiving_seconds(collective, fabric))
    least, beyond = 0.0, collective.ranks - 1
    for k, number in enumerate(at_distance):
        least = max(least, hop + k * onward + beyond * share)
        beyond -= number
    return least


def hops_needed(demand: Demand, degree: int) -> int:
    """Hops that some part makes over circuits that stand, so many to and from a rank."""
    return len(ranks_by_hops(demand.peers + 1, degree))


def standing_seconds(demand: Demand, fabric: Fabric) -> float:
    """Seconds over circuits of a switch that are set once: hops to go, and circuits that parts use hop by hop."""
    degree, hop = fabric.channels, fabric.neighbour_latency()
    onward = hop + fabric.step_overhead
    at_distance = ranks_by_hops(demand.ranks, degree)
    beyond = np.cumsum([0, *at_distance])
    rate = degree * fabric.channel_bandwidth
    least = hop + (hops_needed(demand, degree) - 1) * onward
    for (order, place), rank in zip(demand.by_size, (demand.source, demand.destination), strict=True):
        # The largest parts of a rank are at best those of its nearest peers.
        hops = np.searchsorted(beyond, place, side="right")
        nbytes = demand.nbytes[order]
        least = max(least, hop + float(nbytes @ hops) / (demand.ranks * rate))
        for k in range(len(at_distance)):
            far = np.bincount(rank[order], nbytes * (hops > k), demand.ranks)
            if far.any():
                least = max(least, hop + k * onward + float(far.max()) / rate)
    return least
