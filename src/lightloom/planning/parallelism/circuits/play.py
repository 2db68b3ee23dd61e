"""Traffic played through successive holds, and when every pair has sent its bytes.

Circuits are fluid pipes. A pair sends on all its circuits at once; one that has no circuit in the whole cycle relays
over the circuits of others, by the fewest hops, its bytes passing every circuit of the path at one rate. Pairs that
share circuits get max-min fair rates. One that has a circuit in another hold waits for it.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from lightloom.core.arrays import Floats, Ints, Mask
from lightloom.core.errors import InputError
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.planning.parallelism.circuits import ring, switch
from lightloom.planning.parallelism.circuits.circuits import Circuits, Timing, Traffic

# Rates at which pairs share the circuits of one hold.


@dataclass(frozen=True, slots=True)
class Sharing:
    """Paths of pairs over pipes; a pipe is all circuits from one rank to another."""

    capacity: Floats
    """Bytes per second of each pipe, shape [pipe]."""
    paths: sparse.csr_array
    """1 where the path of a pair takes a pipe, shape [pair, pipe]."""
    hops: Ints
    """Pipes on the path of each pair, shape [pair]; 0 where it has none."""
    shared: Mask
    """Pairs on a pipe that others take too, shape [pair]."""
    alone: Floats
    """Bytes per second of each pair while no other pair sends, shape [pair]; 0 where it has no path."""


def direct(counts: Ints, bandwidth: float) -> Sharing:
    """Return the sharing of one hold in which every pair sends on its own circuits alone: ``counts`` [pair] circuits of
    ``bandwidth`` bytes per second each; a pair without one sends nothing. Its pipes are the pairs: bytes per second of
    each, paths of one pipe, hops of 1 (0 without a circuit), none shared."""
    hops = (counts > 0).astype(np.int64)
    paths = sparse.csr_array(sparse.diags_array(hops.astype(np.float64)))
    rates: Floats = counts * np.float64(bandwidth)
    return Sharing(rates, paths, hops, np.zeros(len(counts), dtype=bool), rates)


def with_relays(traffic: Traffic, granted: sparse.csr_array, stranded: Ints, bandwidth: float) -> Sharing:
    """Return the sharing where pairs send on their own circuits, and the ``stranded`` ones relay over the fewest
    circuits that lead there; a stranded pair without a path has 0 hops and rate 0, as has a pair that is not stranded
    but has no circuit here. Pipes are the pairs of ranks that have circuits, in ascending order of (source,
    destination); of equally short paths any may be taken. A pair is marked as sharing if one of its pipes carries
    others too; the rate of each, in bytes per second, is the one that it would have if no other pair sent, the least of
    its pipes.

    Args:
        traffic: demands between the ranks.
        granted: number of circuits between ranks, shape [rank, rank].
        stranded: pairs without a circuit of their own in any hold, by position in the traffic.
        bandwidth: bytes per second of one circuit.
    """
    from scipy.sparse.csgraph import dijkstra

    pipes = sparse.csr_array(granted)
    pipes.sum_duplicates()
    pipes.sort_indices()
    ends = np.repeat(np.arange(traffic.ranks), np.diff(pipes.indptr)) * traffic.ranks + pipes.indices

    direct_pairs = np.flatnonzero(np.isin(traffic.source * traffic.ranks + traffic.destination, ends))
    taken = [(p, int(traffic.source[p]), int(traffic.destination[p])) for p in direct_pairs.tolist()]
    sources, row = np.unique(traffic.source[stranded], return_inverse=True)
    _, before = dijkstra(pipes, unweighted=True, indices=sources, return_predecessors=True)
    for pair, search in zip(stranded.tolist(), row.tolist(), strict=True):
        at = int(traffic.destination[pair])
        while before[search, at] >= 0:
            previous = int(before[search, at])
            taken.append((pair, previous, at))
            at = previous

    pair, a, b = np.array(taken, dtype=np.int64).reshape(-1, 3).T
    pipe = np.searchsorted(ends, a * traffic.ranks + b)
    paths = sparse.csr_array((np.ones(len(pair)), (pair, pipe)), shape=(len(traffic), pipes.nnz))
    hops = np.diff(paths.indptr).astype(np.int64)
    crowded = np.bincount(pipe, minlength=pipes.nnz) > 1
    capacity = pipes.data * bandwidth
    alone = np.full(len(traffic), np.inf)
    np.minimum.at(alone, pair, capacity[pipe])
    alone[hops == 0] = 0.0
    return Sharing(capacity, paths, hops, paths @ crowded.astype(np.float64) > 0, alone)


def share(sharing: Sharing, active: Mask) -> Floats:
    """Return the max-min fair rates of the ``active`` pairs (a mask [pair]) in bytes per second, shape [pair]; 0 for
    all others, and for pairs without a path.

    Rates rise together; when a pipe is full, the pairs on it keep theirs (progressive filling).
    """
    rate: Floats = np.where(active & ~sharing.shared, sharing.alone, 0.0)
    rising = active & sharing.shared
    remaining = sharing.capacity.copy()
    while rising.any():
        takers = rising.astype(np.float64) @ sharing.paths
        used = takers > 0
        level = np.full(len(remaining), np.inf)
        level[used] = remaining[used] / takers[used]
        more = level.min()
        rate[rising] += more
        remaining -= more * takers
        rising &= ~(sharing.paths @ (used & (level <= more * (1 + 1e-12))).astype(np.float64) > 0)
    return rate


DONE = 1e-9
"""Share of a demand below which the rest is round-off."""
_MOST_HOLDS = 100_000


class Played:
    """When and how every pair of the traffic was served, and what is still to send; arrays have shape [pair]."""

    def __init__(self, traffic: Traffic) -> None:
        self._total = traffic.nbytes
        self.left = traffic.nbytes.copy()
        """Bytes still to send."""
        self.finish = np.full(len(traffic), np.inf)
        """Seconds from the first reconfiguration's start to the last byte."""
        self.hops = np.ones(len(traffic), np.int64)
        """Circuits in a row that the bytes pass: 1 direct, more relayed (in the hold that sent last)."""
        self.carried = np.zeros(len(traffic))
        """Bytes moved, hops counted once each."""
        self.holds = 0
        """Number of holds that were begun."""

    @property
    def makespan(self) -> float:
        """Seconds from the first reconfiguration's start until all is sent; infinite while any pair has bytes left."""
        return float(self.finish.max())

    @property
    def relayed(self) -> Ints:
        """Positions in the traffic of the pairs whose bytes passed more than one circuit in the hold that sent them
        last."""
        return np.flatnonzero(self.hops > 1)

    @property
    def waiting(self) -> Ints:
        """Pairs with bytes left, by position in the traffic."""
        return np.flatnonzero(self.left > 0)

    def send(self, moved: Floats, rate: Floats, now: float) -> None:
        """Take ``moved`` bytes [pair] off what is left, and add them, once for each of the circuits that the pair
        passes now, to what was carried.

        A pair with at most round-off left (1e-9 of its bytes) is finished: nothing is left of it, and its finish is the
        moment at which its last byte was sent. ``rate`` [pair] are the bytes per second at which each sent from the
        time ``now``, in seconds, on.
        """
        before = self.left
        after = before - moved
        done = (before > 0) & (moved > 0) & (after <= DONE * self._total)
        self.carried += np.where(done, before, moved) * self.hops
        self.finish[done] = now + before[done] / rate[done]
        self.left = np.where(done, 0.0, after)

    def unfinished(self) -> InputError:
        """Return (not raise) the error of traffic that takes more holds than were played or allowed, with how many
        pairs and what share of the bytes are left."""
        share_left = float(self.left.sum() / self._total.sum())
        return InputError(
            f"{len(self.waiting)} pairs still have {share_left:.1%} of the bytes to send after {self.holds} holds: "
            "expected a longer hold period, or more holds allowed (most_holds)"
        )


def play_once(traffic: Traffic, circuits: Circuits, fabric: Fabric, timing: Timing) -> Played:
    """Return when and how every pair was served (by pair, ``finish`` in seconds from the start of the first
    reconfiguration, ``hops``, the circuits in a row that its last bytes passed, and ``carried``, its bytes counted once
    a hop; and ``holds``, the number of holds begun), once all traffic is played on one assignment, whose cycle of holds
    is repeated until all is sent.

    A cycle of a single hold is reconfigured once and then stays; longer ones pay every hold's reconfiguration. Circuits
    are planned before the iteration, so that the controller's latency does not count.

    Raises:
        InputError: a pair has no circuit in any hold and no path over others' circuits, or bytes are left after 100 000
            holds.
    """
    shares = _share_holds(traffic, circuits, fabric)
    length = np.inf if circuits.holds == 1 else timing.hold
    played = Played(traffic)
    for hold in range(_MOST_HOLDS):
        played.holds = hold + 1
        start = hold * timing.period + timing.reconfiguration if hold else timing.reconfiguration
        advance(played, shares[hold % circuits.holds], start, length)
        if not len(played.waiting):
            return played
    raise played.unfinished()


def longest_first(traffic: Traffic, fabric: Fabric, circuit_bytes: float) -> Circuits:
    """Return circuits of one hold, given one at a time to the transfer with the most bytes for each circuit, the added
    one counted, and to no pair more than carry its bytes in the hold, ⌈bytes / ``circuit_bytes``⌉; they are not
    verified.

    Args:
        traffic: what is still to send.
        fabric: wavelengths around a ring, or switch planes.
        circuit_bytes: bytes that one circuit carries in a hold.

    Raises:
        InputError: on a ring, the sizes differ, or a rank has fewer transceivers than channels in both directions.
    """
    most = np.ceil(traffic.nbytes / circuit_bytes).astype(np.int64)
    if fabric.wavelength_routed:
        return ring.assign_longest(traffic, fabric, most)
    none = np.zeros(len(traffic), np.int64)
    return switch.realise(traffic, fabric, switch.fill_ports(traffic, fabric.channels, none, most))


def advance(played: Played, sharing: Sharing, start: float, length: float) -> None:
    """Send for ``length`` seconds from ``start`` on, changing ``played`` (its bytes, hops and finishes) in place; rates
    are shared anew whenever a pair that shares circuits has finished. It ends early where no pair with bytes left has a
    path."""
    now, end = start, start + length
    while now < end:
        rate = share(sharing, played.left > 0)
        active = rate > 0
        if not active.any():
            return
        played.hops = np.where(active, sharing.hops, played.hops)
        needs = np.full(len(rate), np.inf)
        needs[active] = played.left[active] / rate[active]
        shared = needs[sharing.shared & active]
        # Direct pairs do not disturb each other, so that only those that share mark a moment at which rates change.
        until = min(end, now + float(shared.min())) if len(shared) else end
        played.send(rate * np.where(active, np.minimum(needs, until - now), 0.0), rate, now)
        now = until


def _share_holds(traffic: Traffic, circuits: Circuits, fabric: Fabric) -> list[Sharing]:
    """Return, for each hold of the cycle, how pairs share its circuits (bytes per second of each pipe, and the pipes
    that each pair passes): each pair on its own alone, and not at all in holds without one, where every pair has one in
    some hold; otherwise those without any in the cycle relay over others' circuits.

    Raises:
        InputError: a pair can be served in no hold; names the first, with the number of such pairs.
    """
    counts = circuits.counts(traffic)
    stranded = np.flatnonzero(counts.sum(axis=0) == 0)
    if not len(stranded):
        return [direct(row, fabric.channel_bandwidth) for row in counts]
    shares = []
    reached = np.zeros(len(stranded), dtype=bool)
    for hold in range(circuits.holds):
        standing = circuits.hold == hold
        cells = (np.ones(int(standing.sum())), (circuits.source[standing], circuits.destination[standing]))
        granted = sparse.csr_array(cells, shape=(traffic.ranks, traffic.ranks))
        sharing = with_relays(traffic, granted, stranded, fabric.channel_bandwidth)
        reached |= sharing.hops[stranded] > 0
        shares.append(sharing)
    if not reached.all():
        unserved = stranded[~reached]
        pair = int(unserved[0])
        raise InputError(
            f"rank {traffic.source[pair]} has no circuit to rank {traffic.destination[pair]} and no path over "
            f"others' circuits in any of {circuits.holds} holds ({len(unserved)} pairs in all): expected more holds, "
            "more circuits a rank, or the max-min objective"
        )
    return shares
