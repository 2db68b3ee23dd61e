"""A wiring becomes a path for every block, and the times at which blocks are sent.

    wiring ──► cheapest paths ──► loads ──► dearer circuits, cheapest paths again ──► every block takes one of its paths
           ──► list schedule

The price of a circuit is its delay, and a toll that rises with its load.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lightloom.collectives.synthesis.engine.lightpaths import Transmissions
from lightloom.collectives.synthesis.engine.trees import RingTask
from lightloom.collectives.synthesis.exchange.circuits import ExchangeCircuits, Wiring, exchange_circuits
from lightloom.core.arrays import Floats, Int32s, Ints

if TYPE_CHECKING:
    from lightloom.collectives.synthesis.exchange.kernels import Routes

_GOLDEN = (5**0.5 - 1) / 2
_TIE = 1e-6
"""Part of its delay by which chance makes a circuit dearer."""


@dataclass(frozen=True, slots=True)
class Exchange(RingTask):
    """An all-to-all and the ring that carries it."""

    pieces: int = 1
    """Parts of every block that travel on paths of their own."""


class Trial(NamedTuple):
    """How paths of blocks are looked for."""

    trees: int
    """Paths of every block that it may choose from."""
    sources: int | None = None
    """Sources of one period whose blocks stand for all of them; all where None."""
    limit: float = np.inf
    """Seconds at which a path is too long, or a circuit carries too much."""
    rng: np.random.Generator | None = None
    """Chance that decides which of several equally cheap paths is taken; None: always the same one."""


Routed = tuple[ExchangeCircuits, "Routes", Floats, Floats, Floats, float]
"""Circuits, paths of the blocks of some sources, or of their pieces, as trees to choose from; seconds that a piece
holds a circuit, seconds after which it arrives, and pieces that pass a circuit, [circuit] each; and the seconds of the
longest of the cheapest paths if nothing waits."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """All blocks of one period of sources, in pieces, with their paths and times."""

    circuits: ExchangeCircuits
    begin: Ints
    """First hop of (piece · period + source) · ranks + rank: [pieces of blocks + 1]."""
    path: Int32s
    """Circuits of the paths, in order: [hop]."""
    when: Floats
    """Seconds at which each hop begins: [hop]."""
    load: Floats
    """Seconds for which a circuit is busy: [circuit]."""
    time: float
    """Seconds until the last arrival, circuits in place."""


def route(wiring: Wiring, exchange: Exchange, trial: Trial) -> Routed | None:
    """Return paths of the blocks of one period of ranks, or of some of them; None if one takes the limit or longer."""
    from lightloom.collectives.synthesis.exchange import kernels

    ring, timing = exchange_circuits(wiring, exchange.ranks), exchange.timing
    which = np.arange(min(trial.sources or ring.period, ring.period))
    # Spread so that they do not keep step with hubs.
    which = np.unique(((which + which * _GOLDEN % 1) * ring.period / len(which)).astype(np.int64))
    weight = ring.period / len(which)
    which = np.tile(which, exchange.pieces)
    count, nbytes = len(which), exchange.nbytes / exchange.pieces
    busy = np.asarray(nbytes / (ring.width * timing.bandwidth) + timing.occupancy, np.float64)
    delay = busy + timing.hop + timing.propagation * np.abs(ring.length)
    trees, chosen = np.empty((trial.trees, count, ring.ranks), np.int32), np.full((count, ring.ranks), -1, np.int8)
    routes = kernels.Routes(trees, chosen, which, ring.length)
    load = np.zeros(len(ring.start))
    allowed, longest, price, toll, first = exchange.bound, 0.0, delay, timing.hop, ring.first
    if trial.rng is not None:
        price = delay * (1 + _TIE * trial.rng.random(len(delay)))
    for tree in range(trial.trees):
        dearest = kernels.cheapest(first, ring.length, price, which, ring.ranks, routes.trees[tree])
        if tree == 0 and dearest >= trial.limit:
            return None
        if tree == 0:
            # Where time is not short, neither are hops dear.
            longest, allowed = dearest, max(allowed, dearest)
            toll = timing.hop * allowed / dearest
        kernels.choose(routes, tree + 1, kernels.Prices(busy / allowed, delay, toll, weight), load)
        price = delay + toll * (load * busy / allowed) ** kernels.STEEP
    return ring, routes, busy, delay, load, longest


def estimate(wiring: Wiring, exchange: Exchange, sources: int) -> float:
    """Return the estimated seconds of a schedule, from the longest of the cheapest paths and their heaviest load.

    It is the root of the sum of their squares, infinite where there is no path.
    """
    routed = route(wiring, exchange, Trial(1, sources))
    if routed is None:
        return np.inf
    ring, _, busy, _, load, longest = routed
    seconds = load * busy
    return float(np.hypot(longest, np.minimum(seconds, seconds[ring.reverse]).max()))


def plan(wiring: Wiring, exchange: Exchange, trial: Trial) -> Plan | None:
    """Return paths and times of all blocks; or of the blocks of a few sources, which then stand for all of them.

    None where a path alone, or what one circuit carries, takes the limit or longer.

    A circuit towards few ranks has its share of the blocks of few sources; one that comes from few ranks has not, and
    is as busy as the circuit in the other direction.
    """
    from lightloom.collectives.synthesis.engine.kernels import list_schedule
    from lightloom.collectives.synthesis.exchange.kernels import lay_paths

    routed = route(wiring, exchange, trial)
    if routed is None:
        return None
    ring, routes, busy, delay, load, _ = routed
    # Sources for which each one stands.
    weight = ring.period * exchange.pieces / len(routes.chosen)
    if weight > 1:
        busy = busy * np.minimum(1.0, load[ring.reverse] / np.maximum(load, 1.0))
    if (load * busy).max() >= trial.limit:
        return None
    busy = busy * weight
    begin = np.zeros(routes.chosen.size + 1, np.int64)
    hops = lay_paths(routes, delay, begin, np.zeros(0, np.int32), np.zeros(0))
    path, left, when = np.empty(hops, np.int32), np.empty(hops), np.zeros(hops + 1)
    lay_paths(routes, delay, begin, path, left)
    queue = np.arange(len(busy), dtype=np.int32)
    seconds = list_schedule(queue, delay, busy, _transmissions(begin, path, left), when)
    return Plan(ring, begin, path, when[:-1], load * busy / weight, float(seconds))


def _transmissions(begin: Ints, path: Int32s, left: Floats) -> Transmissions:
    """Return hops each of which waits for the one before; a last entry releases each block's first at the start."""
    hops, going = len(path), np.diff(begin) > 0
    first, last = begin[:-1][going], begin[1:][going] - 1
    child, sibling = np.arange(1, hops + 2, dtype=np.int32), np.full(hops + 1, -1, np.int32)
    child[last], child[hops] = -1, first[0]
    sibling[first[:-1]] = first[1:]
    none = np.zeros(0, np.int32)
    return Transmissions(
        np.append(path, np.int32(-1)), child, sibling, none, np.append(left, 0.0), np.array([hops], np.int64)
    )
