"""Bounds of collectives each part of which goes from one rank to one rank, parts of any size.

A part that leaves a set of ranks, or enters it, passes its links; one that passes several circuits uses each of them.
Proofs: docs/collectives/bounds.md.
"""

from functools import cached_property

import numpy as np

from lightloom.collectives.collective import Collective
from lightloom.core.arrays import Effort, Floats, Ints
from lightloom.machines.fabrics.fabric import Fabric

_MOST_ARCS: Effort = 1 << 21
"""Pairs of ranks up to which every arc of a ring is a cut."""


class Demand:
    """Bytes that go from rank to rank."""

    def __init__(self, collective: Collective) -> None:
        """Take the parts of a collective that leave the rank where they begin, with their bytes."""
        part = np.arange(collective.parts)
        source, destination = collective.begins_at(part), collective.ends_at(part)
        nbytes = np.full(len(part), collective.distinct_nbytes / len(part))
        nbytes = nbytes if collective.weights is None else nbytes * collective.weights
        moves = source != destination
        self.ranks = collective.ranks
        self.part: Ints = part[moves]
        self.source: Ints = source[moves]
        self.destination: Ints = destination[moves]
        self.nbytes: Floats = nbytes[moves]

    @property
    def received(self) -> Floats:
        """Bytes that each rank receives from other ranks: [rank]."""
        return np.bincount(self.destination, self.nbytes, self.ranks).astype(np.float64)

    @property
    def sent(self) -> Floats:
        """Bytes that each rank sends to other ranks: [rank]."""
        return np.bincount(self.source, self.nbytes, self.ranks).astype(np.float64)

    @property
    def peers(self) -> int:
        """Most ranks to which one rank sends, or from which one receives; there must be a part."""
        return int(max(np.bincount(self.source).max(), np.bincount(self.destination).max()))

    @cached_property
    def by_size(self) -> tuple[tuple[Ints, Ints], tuple[Ints, Ints]]:
        """Parts by source, and parts by destination, the largest of each rank first, with the place of each among those
        of its rank.

        Each of the two is a pair: indices into ``source``, ``destination`` and ``nbytes`` in this order, and places, 0
        for the largest: [part] each.
        """
        orders = []
        for rank in (self.source, self.destination):
            order = np.lexsort((-self.nbytes, rank))
            orders.append((order, np.arange(len(order)) - np.searchsorted(rank[order], rank[order])))
        return orders[0], orders[1]


def end_seconds(received: Floats, sent: Floats, fabric: Fabric) -> list[tuple[float, str]]:
    """Return two pairs of seconds and a name: those of the rank that receives longest, then of the one that sends
    longest, by the fabric's bandwidth of each rank.

    The names are "what rank 3 must receive" and "what rank 3 must send". ``received`` and ``sent`` are the bytes of
    each rank: [rank].
    """
    receive, send = fabric.rank_bandwidths()
    into, out = received / receive, sent / send
    return [
        (float(into.max()), f"what rank {into.argmax()} must receive"),
        (float(out.max()), f"what rank {out.argmax()} must send"),
    ]


def rank_seconds(demand: Demand, fabric: Fabric) -> list[tuple[float, str]]:
    """Return pairs of seconds and a name: of the rank that receives longest ("what rank 3 must receive"), of the one
    that sends longest, and of all ranks together receiving everything.

    On rings of at most 1,448 ranks the worst arc of neighbouring ranks comes last, by its links. Latencies, conversion
    and set-up are left out.
    """
    total = float(demand.nbytes.sum()) / fabric.total_receive_bandwidth()
    bounds = [*end_seconds(demand.received, demand.sent, fabric), (total, "what all ranks together can receive")]
    if fabric.routes == 2 and fabric.ranks**2 <= _MOST_ARCS:
        bounds.append(_arc_seconds(demand, fabric))
    return bounds


def _arc_seconds(demand: Demand, fabric: Fabric) -> tuple[float, str]:
    """Return seconds in which links into, or out of, the worst arc of a ring carry what must pass, and its name.

    Arcs are all runs of neighbouring ranks, but the whole ring; those whose links have all failed count as 0 seconds.
    The name is as "the links into the 4 ranks from 2 on"; it is empty, with 0 seconds, where nothing must pass.
    """
    ranks = demand.ranks
    bytes_of = np.zeros((ranks, ranks))
    np.add.at(bytes_of, (demand.source, demand.destination), demand.nbytes)
    sums = np.zeros((2 * ranks + 1, 2 * ranks + 1))
    np.cumsum(np.cumsum(np.tile(bytes_of, (2, 2)), axis=0), axis=1, out=sums[1:, 1:])
    begin, size = np.arange(ranks)[:, None], np.arange(1, ranks)
    end = begin + size
    inside = sums[end, end] - sums[begin, end] - sums[end, begin] + sums[begin, begin]
    clockwise, backward = fabric.link_bandwidth().reshape(2, ranks)
    before, last = (begin - 1) % ranks, (end - 1) % ranks
    worst = (0.0, "")
    for held, capacity, verb in (
        (demand.received, clockwise[before] + backward[last], "into"),
        (demand.sent, clockwise[last] + backward[before], "out of"),
    ):
        along = np.concatenate([[0.0], np.cumsum(np.tile(held, 2))])
        crossing = np.maximum(along[end] - along[begin] - inside, 0.0)
        seconds = np.divide(crossing, capacity, out=np.zeros_like(crossing), where=capacity > 0)
        at = np.unravel_index(int(seconds.argmax()), seconds.shape)
        name = f"the links {verb} the {size[at[1]]} ranks from {at[0]} on"
        worst = max(worst, (float(seconds[at]), name))
    return worst


def distance_seconds(demand: Demand, fabric: Fabric) -> tuple[float, int]:
    """Return the seconds in which the farthest part can arrive on a ring (its latency, without bytes), and the links
    that some part passes at least.

    Each part takes, for each of the two, the route that is better for it; each figure is the largest over the parts.
    """
    links = np.full(len(demand.source), fabric.ranks)
    seconds = np.full(len(demand.source), np.inf)
    for route in range(fabric.routes):
        ends = demand.source, demand.destination, np.full_like(demand.source, route)
        links, seconds = np.minimum(links, fabric.hops(*ends)), np.minimum(seconds, fabric.latency(*ends))
    return float(seconds.max()), int(links.max())


def link_seconds(demand: Demand, fabric: Fabric) -> float:
    """Return the seconds that all links of a ring need together if every part takes the shorter way around: the sum of
    bytes times links over the bandwidth of all links, both ways."""
    ahead = (demand.destination - demand.source) % fabric.ranks
    return float(demand.nbytes @ np.minimum(ahead, fabric.ranks - ahead)) / float(fabric.link_bandwidth().sum())
