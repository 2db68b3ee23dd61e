"""Circuits granted over a cycle of holds: how long they stand, and how well they serve a traffic matrix."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heapreplace
from typing import Any, Self

import numpy as np
from scipy import sparse

from lightloom.core.arrays import Floats, Ints
from lightloom.core.errors import ConfigError, InputError, UnsupportedError
from lightloom.machines.fabrics.fabric import Fabric

# Traffic between ranks: bytes of every ordered pair that has something to send.


@dataclass(frozen=True, slots=True)
class Traffic:
    """Demands between ranks, in ascending order of (source, destination); every array has shape [pair]."""

    ranks: int
    source: Ints
    destination: Ints
    nbytes: Floats
    """Bytes to send, above 0."""

    @classmethod
    def of(cls, matrix: Any) -> Self:
        """Return the traffic of a dense or sparse matrix [ranks, ranks] of bytes, source by destination; with the pairs
        in ascending order of source, then destination; pairs of 0 bytes are left out, and entries of a pair that a
        sparse matrix has twice add up.

        Raises:
            InputError: not square, an entry negative or not finite, traffic of a rank to itself, or none at all.
        """
        shape = np.shape(matrix)
        if len(shape) != 2 or shape[0] != shape[1]:
            raise InputError(f"traffic has shape {shape}: expected (ranks, ranks), source by destination")
        entries = sparse.coo_array(matrix).astype(np.float64)
        entries.sum_duplicates()
        wrong = np.flatnonzero(~(np.isfinite(entries.data) & (entries.data >= 0)))
        if len(wrong):
            where = f"from rank {entries.row[wrong[0]]} to rank {entries.col[wrong[0]]}"
            raise InputError(f"traffic {where} is {entries.data[wrong[0]]} bytes: expected a finite number, 0 or more")
        present = entries.data > 0
        source, destination = (ends[present].astype(np.int64) for ends in (entries.row, entries.col))
        nbytes = entries.data[present]
        if not len(nbytes):
            raise InputError("traffic is 0 bytes between all ranks: there is no circuit to assign")
        itself = np.flatnonzero(source == destination)
        if len(itself):
            raise InputError(f"traffic from rank {source[itself[0]]} to itself: expected a diagonal of 0 bytes")
        order = np.lexsort((destination, source))
        return cls(shape[0], source[order], destination[order], nbytes[order])

    def __len__(self) -> int:
        """Return the number of pairs that have something to send."""
        return len(self.nbytes)

    @property
    def relative(self) -> Floats:
        """Demand of each pair as a share of the largest demand, shape [pair]."""
        relative: Floats = self.nbytes / self.nbytes.max()
        return relative

    def with_bytes(self, nbytes: Floats) -> Traffic:
        """Return the traffic with ``nbytes`` [pair] in place of the bytes of each pair, without pairs of 0 bytes."""
        sending = nbytes > 0
        return replace(self, source=self.source[sending], destination=self.destination[sending], nbytes=nbytes[sending])

    def find(self, source: Ints, destination: Ints) -> Ints:
        """Return the position of each (source, destination) among the pairs that have something to send, in the shape
        of the arguments; -1 for other pairs."""
        keys = self.source * self.ranks + self.destination
        requested = source * self.ranks + destination
        position = np.minimum(np.searchsorted(keys, requested), len(keys) - 1)
        return np.where(keys[position] == requested, position, -1)

    def period(self) -> int:
        """Return the smallest rotation of the ranks, a divisor of their number, that leaves the traffic unchanged; the
        number of ranks where no smaller one does."""
        for shift in range(1, self.ranks):
            if self.ranks % shift == 0:
                rotated = self.find((self.source + shift) % self.ranks, (self.destination + shift) % self.ranks)
                if (rotated >= 0).all() and np.array_equal(self.nbytes[rotated], self.nbytes):
                    return shift
        return self.ranks

    def check_fits(self, fabric: Fabric) -> None:
        """Check that a fabric has as many ranks as the traffic.

        Raises:
            InputError: the numbers of ranks differ.
        """
        if self.ranks != fabric.ranks:
            raise InputError(f"traffic of {self.ranks} ranks on a fabric of {fabric.ranks}: expected the same number")


@dataclass(frozen=True, slots=True)
class Timing:
    """One period: a reconfiguration, in which no data moves, then a hold, in which circuits stand."""

    hold: float
    """Duration of a hold, in seconds."""
    reconfiguration: float
    """Duration of the reconfiguration before each hold, in seconds."""
    controller_latency: float = 0.0
    """Seconds from reading the senders' counters to the start of the reconfiguration that answers them."""

    def __post_init__(self) -> None:
        """Raise ConfigError for a hold that is not positive, a negative reconfiguration, or a controller latency
        outside one period."""
        if not self.hold > 0:
            raise ConfigError(f"hold period of {self.hold} s: expected more than 0")
        if not self.reconfiguration >= 0:
            raise ConfigError(f"reconfiguration period of {self.reconfiguration} s: expected 0 or more")
        if not 0 <= self.controller_latency <= self.period:
            raise ConfigError(
                f"controller latency of {self.controller_latency} s: expected 0 to {self.period} s, one period"
            )

    @property
    def period(self) -> float:
        """Seconds from one reconfiguration to the next: reconfiguration and hold."""
        return self.hold + self.reconfiguration

    @property
    def duty_cycle(self) -> float:
        """Share of the time that carries data: 10/11 for a hold of ten reconfigurations (SiP-ML, section 3.1)."""
        return self.hold / self.period


@dataclass(frozen=True, slots=True)
class Circuits:
    """Circuits as columns; every array has shape [circuit].

    A channel is what ``machines.fabrics.fabric.Fabric`` calls so: ``fibre · wavelengths + wavelength`` on a WDM
    ring, a plane on circuit switches. It is the same on every link that the circuit crosses.
    """

    holds: int
    """Holds of the cycle; with one, circuits are set once and stay."""
    hold: Ints
    source: Ints
    destination: Ints
    route: Ints
    """Route by the number of the fabric: clockwise 0, counter-clockwise 1; 0 on switches."""
    channel: Ints

    def __len__(self) -> int:
        """Return the number of circuits."""
        return len(self.hold)

    def counts(self, traffic: Traffic) -> Ints:
        """Return the number of circuits of each pair of the traffic in each hold of the cycle, shape [hold, pair];
        circuits of pairs without traffic are left out."""
        pair = traffic.find(self.source, self.destination)
        serving = pair >= 0
        cell = self.hold[serving] * len(traffic) + pair[serving]
        return np.bincount(cell, minlength=self.holds * len(traffic)).reshape(self.holds, len(traffic))


def least_service(counts: Ints, traffic: Traffic, holds: int = 1) -> float:
    """Return the objective of SiP-ML's circuit ILPs: the least, over pairs, of a pair's circuits a hold divided by its
    demand, which counts relative to the largest demand; 0 where some pair has no circuit.

    ``counts`` [pair] are the circuits of each pair, summed over the ``holds`` of the cycle.
    """
    return float((counts / traffic.relative).min()) / holds


def smallest_counts(nbytes: Floats, service: float) -> Ints:
    """Return for each of ``nbytes`` the fewest whole circuits x, at least 1, with ``x / nbytes >= service``, by that
    very division, so that no round-off adds.

    ``nbytes`` are above 0, in bytes or as shares of the largest demand; ``service`` is in circuits for one byte, or for
    the largest demand.
    """
    counts = np.maximum(np.ceil(service * nbytes), 1.0)
    counts = np.where((counts > 1) & ((counts - 1) / nbytes >= service), counts - 1, counts)
    return np.where(counts / nbytes < service, counts + 1, counts).astype(np.int64)


def fill_longest(nbytes: Floats, counts: Ints, take: Callable[[int], bool]) -> Ints:
    """Return the circuits of each transfer, [transfer], once circuits were given one at a time to the transfer with the
    most bytes for each circuit, the added one counted; of equal ones to the one of the lowest number. A transfer whose
    circuit cannot be taken gets no more; it ends when none can.

    Args:
        nbytes: bytes of each transfer, shape [transfer].
        counts: circuits that each transfer has already, shape [transfer]; left as they are.
        take: called with a transfer's number, takes what one more circuit of it needs and returns True, or returns
            False where that is not free.
    """
    counts = counts.copy()
    queue = [(-t / (x + 1), p) for p, (t, x) in enumerate(zip(nbytes.tolist(), counts.tolist(), strict=True))]
    heapify(queue)
    while queue:
        transfer = queue[0][1]
        if take(transfer):
            counts[transfer] += 1
            heapreplace(queue, (-nbytes[transfer] / (counts[transfer] + 1), transfer))
        else:
            heappop(queue)
    return counts


@dataclass(frozen=True, slots=True)
class Assignment:
    """Circuits for a traffic matrix, beside the number that no assignment can exceed."""

    traffic: Traffic
    circuits: Circuits
    bound: float
    """Upper bound of :attr:`max_min`: the optimum if a circuit could have any width."""
    unassigned: int = 0
    """Circuits that segment loads admit, but that found no wavelength that is free on all their links."""

    @property
    def max_min(self) -> float:
        """Least service of any pair with traffic: its circuits a hold, averaged over the cycle, over its demand as a
        share of the largest demand; 0 where a pair has no circuit.

        The longest transfer takes ``largest bytes / (max_min · bytes per second of a circuit)`` while circuits stand.
        """
        return least_service(self.circuits.counts(self.traffic).sum(axis=0), self.traffic, self.circuits.holds)

    @property
    def gap(self) -> float:
        """Share of the proved upper bound of :attr:`max_min` by which it stays below that: 0 none, 1 when some pair has
        no circuit."""
        return 1 - self.max_min / self.bound


# Pipes of one group, hold by hold, and the paths of data over them.


@dataclass(frozen=True, slots=True, eq=False)
class GroupCircuits:
    """Pipes of one group; destinations below k are its own devices, k + d is device d of the next group."""

    k: int
    """Number of devices of a group."""
    source: Ints
    """[pipe] sending device, 0 to k − 1."""
    destination: Ints
    """[pipe] receiving device, 0 to 2 k − 1."""
    bandwidth: Floats
    """[hold, pipe] bytes per second while circuits stand; 0 in holds without a circuit."""
    latency: Floats
    """[pipe] seconds of propagation and conversion."""
    port: Ints
    """[pipe] sending port: pipes of equal port send one parcel at a time. Circuits have one each."""
    entry: Ints
    """[pipe] receiving port: pipes of equal entry send one parcel at a time. Circuits have one each. Pipes to the next
    group share the entries of its devices with those of this group, since what this group sends to the next is what the
    one before sends to this."""
    timing: Timing | None = None
    """None where pipes stand from step to step; else the holds come round, each after a reconfiguration."""
    assignment: Assignment | None = None
    """Circuits on the whole fabric, verified; None on packet switches."""

    @property
    def mean_bandwidth(self) -> Floats:
        """Mean bytes per second of each pipe (a directed link between two devices), [pipe], over a whole cycle of
        holds, the dark time of reconfigurations included."""
        mean: Floats = self.bandwidth.mean(axis=0) * (1.0 if self.timing is None else self.timing.duty_cycle)
        return mean

    def paths(self, source: Ints, destination: Ints) -> tuple[Ints, Ints]:
        """Return the pipes that the bytes of pairs pass, as ``start`` [pairs + 1] and ``pipe``: those of pair i are
        ``pipe[start[i] : start[i + 1]]``, in order.

        A pair without a pipe relays over the fewest pipes. A path to the next group may change groups at any of its
        devices. The path of a device to itself is empty.

        Args:
            source: sending device of each pair, 0 to k - 1.
            destination: receiving device of each pair; k + d for device d of the next group.

        Raises:
            UnsupportedError: a pair has no path; says what would give it one.
        """
        own = self._own()
        codes = source * 2 * self.k + destination
        hops, first = np.zeros(2 * self.k * self.k, np.int64), np.zeros(2 * self.k * self.k, np.int64)
        pipes: list[int] = []
        for code in np.flatnonzero(np.bincount(codes)).tolist():
            a, b = divmod(code, 2 * self.k)
            path = [] if a == b else [own[code]] if code in own else self._relay(a, b)
            hops[code], first[code] = len(path), len(pipes)
            pipes += path
        start = np.concatenate(([0], np.cumsum(hops[codes])))
        step = np.arange(start[-1]) - np.repeat(start[:-1], hops[codes])
        return start, np.array(pipes, dtype=np.int64)[np.repeat(first[codes], hops[codes]) + step]

    def _own(self) -> dict[int, int]:
        """Return a dictionary from ``source · 2k + destination`` to the pipe (the last one of several), for each pair
        of a sending device and a receiving one (k + d for device d of the next group) that has a pipe with bandwidth in
        some hold."""
        used = np.flatnonzero(self.bandwidth.max(axis=0, initial=0.0) > 0)
        codes = self.source[used] * 2 * self.k + self.destination[used]
        return dict(zip(codes.tolist(), used.tolist(), strict=True))

    def _relay(self, a: int, b: int) -> list[int]:
        """Return the pipes of a shortest path from device a (0 to k - 1) to device b (k + d for device d of the next
        group), in order: the fewest pipes, and of equally short paths the one that breadth-first search finds first
        when it follows pipes of more mean bandwidth first.

        Raises:
            UnsupportedError: no path leads there.
        """
        mean = self.mean_bandwidth
        leaving: dict[int, list[int]] = {}
        for pipe in np.argsort(-mean, kind="stable").tolist():
            if mean[pipe] > 0:
                leaving.setdefault(int(self.source[pipe]), []).append(pipe)
        before: dict[int, tuple[int, int]] = {a: (-1, -1)}
        queue = deque([a])
        while queue and b not in before:
            at = queue.popleft()
            beyond = at - at % self.k
            for pipe in leaving.get(at % self.k, []):
                to = int(self.destination[pipe]) + beyond
                if to < 2 * self.k and to not in before:
                    before[to] = (at, pipe)
                    queue.append(to)
        if b not in before:
            where = f"device {b}" if b < self.k else f"device {b - self.k} of the next group"
            raise UnsupportedError(
                f"device {a} has no circuit to {where} and no path over others' circuits in any hold: "
                "expected a larger degree, more wavelengths, a placement with fewer peers, or holds that take turns"
            )
        path: list[int] = []
        while b != a:
            b, pipe = before[b]
            path.insert(0, pipe)
        return path
