"""All-gather, reduce-scatter and all-reduce over any circuits that stand, without symmetry.

    circuits ──► a tree for every piece of every rank ──► circuits shared evenly ──► list schedule ──► queued schedule

A reduce-scatter is an all-gather over the circuits turned round, run backwards, so that every send takes a circuit the
way it goes; an all-reduce queues an all-gather behind it. No circuit needs a counterpart the other way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.spec import FROM_ALL_GATHER, Collective
from lightloom.collectives.synthesis.engine.queues import in_queues
from lightloom.core.arrays import Floats, Ints
from lightloom.core.errors import UnsupportedError
from lightloom.fabrics.base import Fabric

_SWEEPS = 4
"""Rounds of rebalancing; later ones hardly move anything."""
_LARGEST_TABLE = 1 << 24
"""Transfers above which nothing is scheduled."""


@dataclass(frozen=True, slots=True, eq=False)
class StandingCircuits:
    """Circuits, each an entry of every array [circuit]; several may join the same ranks."""

    ranks: int
    source: Ints
    destination: Ints
    route: Ints
    """As the fabric numbers them; 0 on switches."""
    channel: Ints
    """First channel: fibre · fibre_channels + wavelength on rings, plane on switches."""
    width: Ints
    """Channels that the circuit bundles."""

    def __len__(self) -> int:
        return len(self.source)

    def only(self, which: Any) -> StandingCircuits:
        """Some of the circuits, by index or mask."""
        columns = (self.source, self.destination, self.route, self.channel, self.width)
        return StandingCircuits(self.ranks, *(column[which] for column in columns))


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """Broadcast trees with their times; arrays [piece, root, rank]."""

    parent: NDArray[np.int32]
    circuit: NDArray[np.int32]
    """The circuit that brings the piece to the rank; −1 at the root."""
    begin: Floats
    """Seconds at which the piece is sent to the rank."""
    time: float
    """Seconds until the last arrival, circuits in place."""


def gather_over(
    collective: Collective,
    fabric: Fabric,
    circuits: StandingCircuits,
    pieces: int,
    *,
    slack: float = 1.0,
    grown: Forest | None = None,
    name: str = "synthesized",
    notes: tuple[str, ...] = (),
) -> Schedule:
    """A queued schedule over these circuits, not yet verified; every share travels in ``pieces`` parts.

    Args:
        slack: how much later than the last rank can have received all, or the deepest tree ends, trees may end so that
            circuits are shared more evenly.
        grown: trees for this size, if they have been grown; of a reduce-scatter over the circuits turned round.

    Raises:
        UnsupportedError: another kind of collective, circuits that do not join all ranks, or too many transfers.
    """
    if collective.kind not in FROM_ALL_GATHER:
        raise UnsupportedError(f"standing circuits carry {', '.join(FROM_ALL_GATHER)}, not {collective.kind}")
    # A size of nothing takes the trees of a byte.
    timing = busy_and_delay(fabric, circuits, max(collective.nbytes_per_rank, 1.0) / pieces)
    parts = []
    if collective.kind != "all-gather":
        up = grown if collective.kind == "reduce-scatter" else None
        up = up or forest(circuits, *timing, pieces, slack=slack, turned=True)
        parts.append(_rows(circuits, up, turned=True))
    if collective.kind != "reduce-scatter":
        parts.append(_rows(circuits, grown or forest(circuits, *timing, pieces, slack=slack), turned=False))
    return _schedule(name, collective, fabric, circuits, pieces, parts, notes)


def busy_and_delay(fabric: Fabric, circuits: StandingCircuits, nbytes: float) -> tuple[Floats, Floats]:
    """Seconds that ``nbytes`` hold each circuit, and after which they arrive: [circuit] each."""
    busy = nbytes / (circuits.width * fabric.channel_bandwidth).astype(np.float64) + fabric.piece_overhead
    latency = fabric.latency(circuits.source, circuits.destination, circuits.route)
    return busy, busy + fabric.step_overhead + latency


def forest(
    circuits: StandingCircuits, busy: Floats, delay: Floats, pieces: int, *, slack: float = 1.0, turned: bool = False
) -> Forest:
    """Trees of all pieces of all ranks, and when every circuit sends what; with ``turned`` over the circuits turned
    round.

    Time: pieces · ranks · circuits, times the logarithm of what waits.

    Raises:
        UnsupportedError: the circuits do not join all ranks, or there would be too many transfers.
    """
    from lightloom.collectives.synthesis.engine import _list_kernels as lists
    from lightloom.collectives.synthesis.engine import _standing_kernels as kernels

    ranks, shape = circuits.ranks, (pieces, circuits.ranks, circuits.ranks)
    if pieces * ranks * ranks > _LARGEST_TABLE:
        raise UnsupportedError(f"{pieces} pieces of {ranks} ranks: expected at most {_LARGEST_TABLE} transfers")
    origin, target = circuits.source, circuits.destination
    if turned:
        origin, target = target, origin
    parent, circuit, order = (np.empty(shape, np.int32) for _ in range(3))
    arrival, left, begin = (np.zeros(shape) for _ in range(3))
    load = np.zeros(len(circuits))
    leaving, entering = _listed(origin, ranks), _listed(target, ranks)
    for piece in range(pieces):
        tree = parent[piece], circuit[piece], arrival[piece], order[piece]
        if not kernels.grow(*leaving, target, delay, busy, load, *tree):
            raise UnsupportedError(f"{len(circuits)} circuits do not join all of {ranks} ranks")
    deadline = max(float(arrival.max()), slack * _receptions(circuits, busy, delay, target, pieces))
    for _ in range(_SWEEPS):
        moves = 0
        for piece in range(pieces):
            tree = parent[piece], circuit[piece], arrival[piece], order[piece]
            moves += kernels.rebalance(*entering, origin, delay, busy, load, *tree, deadline)
        if not moves:
            break
    for piece in range(pieces):
        lists.remaining(delay, parent[piece], circuit[piece], order[piece], left[piece])
    time = lists.list_schedule(delay, busy, parent, circuit, left, begin)
    return Forest(parent, circuit, begin, float(time))


def _listed(rank: Ints, ranks: int) -> tuple[Ints, Ints]:
    """Circuits by the rank at one of their ends: where each rank's begin, [rank + 1], and which they are."""
    first = np.concatenate([[0], np.cumsum(np.bincount(rank, minlength=ranks))])
    return first.astype(np.int64), np.argsort(rank, kind="stable")


def _receptions(circuits: StandingCircuits, busy: Floats, delay: Floats, target: Ints, pieces: int) -> float:
    """Seconds before which no rank that has the least coming in has received all pieces."""
    rate = np.bincount(target, weights=1 / np.maximum(busy, 1e-300), minlength=circuits.ranks)
    return float((circuits.ranks - 1) * pieces / rate.min() + (delay - busy).min())


def _rows(circuits: StandingCircuits, trees: Forest, *, turned: bool) -> dict[str, Any]:
    """Rows of an all-gather, or, with ``turned``, of the reduce-scatter that it is backwards."""
    piece, root, _ = np.nonzero(trees.parent >= 0)
    sent = trees.parent >= 0
    path, when = trees.circuit[sent].astype(np.int64), trees.begin[sent]
    return {
        "lightpath": path,
        "source": circuits.source[path],
        "destination": circuits.destination[path],
        "chunk": root * len(trees.parent) + piece,
        "reduces": np.full(len(path), turned),
        "when": -when if turned else when,
    }


def _schedule(
    name: str,
    collective: Collective,
    fabric: Fabric,
    circuits: StandingCircuits,
    pieces: int,
    parts: list[dict[str, Any]],
    notes: tuple[str, ...],
) -> Schedule:
    rows, used, path, step = in_queues(parts)
    return Schedule(
        algorithm=name,
        collective=collective,
        chunks=collective.ranks * pieces,
        steps=int(step.max(initial=0)) + 1,
        step=step,
        lightpath=path,
        source=rows["source"],
        destination=rows["destination"],
        route=circuits.route[used][path],
        fibre=circuits.channel[used][path] // fabric.fibre_channels,
        first_wavelength=circuits.channel[used][path] % fabric.fibre_channels,
        wavelength_count=circuits.width[used][path],
        chunk=rows["chunk"],
        reduces=rows["reduces"],
        queued=True,
        notes=notes,
    )
