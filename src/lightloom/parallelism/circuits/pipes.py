"""Pipes of one group, hold by hold, and the paths of data over them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from lightloom.core.arrays import Floats, Ints
from lightloom.core.errors import UnsupportedError
from lightloom.parallelism.circuits.circuits import Assignment, Timing


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
        """Bytes per second [pipe] over a whole cycle of holds, reconfigurations included."""
        mean: Floats = self.bandwidth.mean(axis=0) * (1.0 if self.timing is None else self.timing.duty_cycle)
        return mean

    def paths(self, source: Ints, destination: Ints) -> tuple[Ints, Ints]:
        """Return the pipes that bytes of each pair pass: ``pipe[start[i] : start[i + 1]]``.

        A pair without a pipe relays over the fewest pipes. A path to the next group may change groups at any of its
        devices. The path of a device to itself is empty.

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
        used = np.flatnonzero(self.bandwidth.max(axis=0, initial=0.0) > 0)
        codes = self.source[used] * 2 * self.k + self.destination[used]
        return dict(zip(codes.tolist(), used.tolist(), strict=True))

    def _relay(self, a: int, b: int) -> list[int]:
        """Return the fewest pipes from a to b; of equally many, the widest first."""
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
            raise UnsupportedError(self._unreachable(a, b))
        path: list[int] = []
        while b != a:
            b, pipe = before[b]
            path.insert(0, pipe)
        return path

    def _unreachable(self, a: int, b: int) -> str:
        where = f"device {b}" if b < self.k else f"device {b - self.k} of the next group"
        return (
            f"device {a} has no circuit to {where} and no path over others' circuits in any hold: "
            "expected a larger degree, more wavelengths, a placement with fewer peers, or holds that take turns"
        )
