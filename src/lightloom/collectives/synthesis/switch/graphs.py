"""Graphs of degree D for a circuit switch of D planes: circulants, their lifts, and generalised Kautz graphs.

A circulant joins rank i to i + c for D connections c. It looks the same from every rank, so that one tree stands for
all and no circuit waits; but at most binomial(k + D, D) ranks lie within k hops. A lift joins i to i + c where c
depends on i modulo a period P that divides the ranks: it repeats every P ranks, and a period of 4 or 8 brings the hops
of an all-to-all near the fewest that any graph has. A generalised Kautz graph joins i to −D i − 1, ..., −D i − D modulo
N, of which D^k are different at k hops, as many as any graph can have: at most ⌈log_D N⌉ hops between any two of any
number of ranks. Nothing in it repeats, and its circuits are not used alike.

Source: Imase and Itoh, "A design for directed graphs with minimum diameter", IEEE Trans. Computers C-32, 1983.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from lightloom.collectives.schedule.wavelengths import colour_planes
from lightloom.collectives.synthesis.engine.lightpaths import Lightpaths, arrange
from lightloom.collectives.synthesis.engine.queues import Queues
from lightloom.collectives.synthesis.engine.standing import StandingCircuits
from lightloom.core.arrays import Ints
from lightloom.core.errors import UnsupportedError

_EFFORT = 30_000_000
"""Circuits that a search may follow: a tenth of a CPU second for a circulant, a few seconds for a lift."""
_MOST_TRIES = 9_000
_STARTS = 3


@lru_cache(maxsize=64)
def circulant(ranks: int, degree: int) -> Ints:
    """Connections whose circulant has few hops between its farthest ranks and, among such, few altogether: [degree].

    Random changes from N^(0/D), N^(1/D), ..., seeded, so that the same question has the same answer.
    """
    from lightloom.collectives.synthesis.switch import _switch_kernels as kernels

    if degree >= ranks - 1:
        return 1 + np.arange(degree, dtype=np.int64) % (ranks - 1)
    tries = min(_MOST_TRIES, _EFFORT // (ranks * degree)) // _STARTS
    powers = np.unique(np.round(ranks ** (np.arange(degree) / degree)).astype(np.int64))
    others = np.setdiff1d(np.arange(1, ranks), powers)[: degree - len(powers)]
    graphs = []
    for seed in range(_STARTS):
        rng, offsets = np.random.default_rng(seed), np.concatenate([powers, others])
        draws = rng.integers(degree, size=tries), rng.integers(1, ranks, size=tries)
        graphs.append((kernels.climb(offsets, ranks, *draws), offsets))
    return min(graphs, key=lambda graph: graph[0])[1]


@lru_cache(maxsize=64)
def lift(ranks: int, degree: int, period: int) -> Ints:
    """How far ahead the circuits of one period of ranks lead, over which an all-to-all's fullest circuit carries few
    blocks: [degree, period].

    On each plane the ranks of a period lead to different residues, so that a plane is a permutation. Random changes of
    random lifts, seeded.

    Raises:
        UnsupportedError: the period does not divide the ranks.
    """
    from lightloom.collectives.synthesis.switch import _switch_kernels as kernels

    if ranks % period:
        raise UnsupportedError(f"circuits that repeat every {period} of {ranks} ranks: expected a divisor")
    if degree >= ranks - 1:
        return np.tile(circulant(ranks, degree)[:, None], (1, period))
    tries = min(_MOST_TRIES, _EFFORT // (ranks * degree * period)) // _STARTS + 1
    turns, graphs = ranks // period, []
    for seed in range(_STARTS):
        rng = np.random.default_rng(seed)
        residue = rng.permuted(np.tile(np.arange(period), (degree, 1)), axis=1)
        ahead = (residue - np.arange(period) + period * rng.integers(turns, size=residue.shape)) % ranks
        ahead[0] = 1  # All ranks are joined from the start, and stay so.
        draws = rng.integers(degree, size=tries), rng.integers(period, size=(tries, 2)), rng.integers(turns, size=tries)
        graphs.append((kernels.climb_lift(ahead, ranks, *draws), ahead))
    return min(graphs, key=lambda graph: graph[0])[1]


@dataclass(frozen=True, slots=True, eq=False)
class Lift:
    """Circuits of a switch that repeat every few ranks, numbered plane · period + start."""

    ahead: Ints
    """Rank i has a circuit on plane k to rank i + ``ahead[k, i % period]``: [plane, period]."""
    origin: Ints
    """Where the circuits into every rank begin: [rank, plane]."""
    circuit: Ints
    """Their numbers: [rank, plane]."""
    hops: NDArray[np.int16]
    """From the first ranks to all: [period, rank]."""

    @classmethod
    def of(cls, ranks: int, ahead: Ints) -> Lift:
        """The lift of these circuits.

        Raises:
            UnsupportedError: they do not join all ranks.
        """
        from lightloom.collectives.synthesis.switch import _switch_kernels as kernels

        planes, period = ahead.shape
        hops = np.empty((period, ranks), np.int16)
        if not kernels.lift_hops(ahead, ranks, hops, np.empty(ranks, np.int64)):
            raise UnsupportedError(f"{planes} circuits a rank do not join all of {ranks} ranks")
        origin, circuit = np.empty((ranks, planes), np.int64), np.empty((ranks, planes), np.int64)
        kernels.lift_ways(ahead, ranks, origin, circuit)
        return cls(ahead, origin, circuit, hops)

    def lightpaths(self) -> Lightpaths:
        """The circuits without their times; those that leave a rank are ordered by plane."""
        planes, period = self.ahead.shape
        ranks = len(self.origin)
        origin, plane = (axis.ravel() for axis in np.indices((ranks, planes)))
        target = (origin + self.ahead[plane, origin % period]) % ranks
        queue = plane * period + origin % period
        return arrange(ranks, period, origin, target, np.arange(len(origin)), queue)[0]

    def queues(self) -> Queues:
        """The channels of the circuits: one plane each."""
        planes, period = self.ahead.shape
        plane = np.repeat(np.arange(planes, dtype=np.int32), period)
        return Queues(np.tile(plane, (len(self.origin) // period, 1)), np.ones_like(plane), np.zeros_like(plane))

    def reversed(self) -> Lift:
        """The same circuits in the other direction."""
        planes, period = self.ahead.shape
        backward = np.empty_like(self.ahead)
        start = np.arange(period)
        backward[np.arange(planes)[:, None], (start + self.ahead) % period] = -self.ahead
        ranks = len(self.origin)
        return Lift.of(ranks, backward % ranks)


@lru_cache(maxsize=8)
def kautz(ranks: int, degree: int) -> StandingCircuits:
    """A generalised Kautz graph, every rank with ``degree`` circuits each way, on as many planes.

    Circuits from a rank to itself, which some numbers of ranks ask for, lead to the next such rank instead.
    """
    source = np.repeat(np.arange(ranks), degree)
    destination = -(degree * source + np.tile(np.arange(1, degree + 1), ranks)) % ranks
    destination = _without_loops(source, destination)
    plane, _ = colour_planes(source, destination, ranks)
    none = np.zeros(len(source), np.int64)
    return StandingCircuits(ranks, source, destination, none, plane, none + 1)


def _without_loops(source: Ints, destination: Ints) -> Ints:
    loops = np.flatnonzero(source == destination)
    destination = destination.copy()
    while len(loops):
        which = loops[np.unique(source[loops], return_index=True)[1]]
        if len(which) == 1:
            # A rank alone with its loop takes the place of a circuit between two others, in its middle.
            ends = (source != source[which]) & (destination != source[which])
            which = np.append(which, np.flatnonzero(ends)[0]) if ends.any() else which
        destination[which] = np.roll(destination[which], 1)
        left = np.flatnonzero(source == destination)
        if len(left) >= len(loops):
            return destination
        loops = left
    return destination
