"""All-gather over circulant graphs: all ranks have the same chords, of several lengths that share wavelengths.

    rank 0  ─►1 ───►4 ────►8 ─►9 ───►12 ...      chords of 1, 3 and 4 ranks, one behind the other, repeat every
    rank 1    ─►2 ───►5 ────►9 ...               8 ranks: 8 wavelengths carry all of them and fill every link

Two or three hops then reach all ranks where wavelengths are many. Levels of hubs, which the other search varies, colour
every length for itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import nsmallest
from typing import NamedTuple

import numpy as np

from lightloom.collectives.bounds.link_use import joint_seconds
from lightloom.collectives.collective import ROOTED, Collective, Kind
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.synthesis.engine.effort import scaled
from lightloom.collectives.synthesis.engine.lightpaths import Lightpaths, arrange, free_line
from lightloom.collectives.synthesis.engine.queues import Queues
from lightloom.collectives.synthesis.engine.standing import (
    StandingCircuits,
    busy_and_delay,
    forest,
    gather_over,
)
from lightloom.collectives.synthesis.engine.trees import (
    Forest,
    HubCircuits,
    Level,
    Timing,
    grow_forest,
    hub_ranks,
    tour_colours,
)
from lightloom.collectives.synthesis.ring.search import RingSearch
from lightloom.core.arrays import Ints, Mask
from lightloom.core.errors import UnsupportedError
from lightloom.machines.fabrics.fabric import Fabric

SHARE = 0.08
"""Of the effort of the search over levels, what this one may add."""
_LOOK = 500
"""Transfers' worth of looking at any design."""
_CIRCULANT_PIECES = (1, 2, 4)
_FINE_PIECES = (8, 16)
"""Of the best graph."""
_SLACKS = (1.0, 1.15)
_SWEEPS = 4
_KEPT, _REFINED = 8, 6
_MISSES = 500
_MOST_SKIPS = 24


class Circulant(NamedTuple):
    """Chords of every rank, both ways."""

    skips: tuple[int, ...]
    """Ranks that chords pass, ascending; a length that is listed twice has two chords."""
    pieces: int = 2
    """Parts of every rank's share that travel on trees of their own."""
    slack: float = 1.0
    """Deadline of balancing, over the lower bound."""


class CirculantCircuits(NamedTuple):
    """Chords with their wavelengths: arrays [chord]."""

    skip: Ints
    width: Ints
    first: Ints
    """Channel of colour 0 each way."""
    offset: Ints
    """Ranks from where its tour begins to where the chord does."""
    colours: Ints
    """Colours of its tour: the chord of colour k is the one that starts ``offset`` ranks behind rank k."""

    @classmethod
    def of(cls, ranks: int, channels: int, skips: tuple[int, ...]) -> CirculantCircuits | None:
        """As wide as there is room for; what is left joins neighbours. None where chords do not fit."""
        if not skips or skips[0] < 1 or skips[-1] > ranks // 2 or sum(skips) > channels:
            return None
        colours = tour_colours(ranks, skips)
        if colours is None or colours > channels:
            return None
        width = channels // colours
        left = channels - colours * width
        count = len(skips) + (left > 0)
        skip = np.array((*skips, 1)[:count], np.int64)
        return cls(
            skip,
            np.array(([width] * len(skips) + [left])[:count], np.int64),
            np.array(([0] * len(skips) + [colours * width])[:count], np.int64),
            np.append(np.cumsum(skip[: len(skips)]) - skip[: len(skips)], 0)[:count],
            np.array(([colours] * len(skips) + [1])[:count], np.int64),
        )

    def lightpaths(self, ranks: int, nbytes: float, timing: Timing) -> Lightpaths:
        """All chords, queue 2 · chord + direction, clockwise first; a piece has ``nbytes``."""
        rank, chord = np.tile(np.arange(ranks), 2 * len(self.skip)), np.repeat(np.arange(len(self.skip)), 2 * ranks)
        direction = np.tile(np.repeat(np.arange(2), ranks), len(self.skip))
        target = (rank + np.where(direction, -1, 1) * self.skip[chord]) % ranks
        queue = 2 * chord + direction
        paths, order = arrange(ranks, 1, rank, target.astype(np.int64), np.arange(len(rank)), queue)
        busy = np.repeat(nbytes / (self.width * timing.bandwidth) + timing.occupancy, 2).astype(np.float64)
        delay = busy + timing.hop + timing.propagation * np.repeat(self.skip, 2)
        return paths._replace(delay=delay[queue[order]], busy=busy)

    def queues(self, ranks: int) -> Queues:
        """What the chords use; a counter-clockwise chord lies over the clockwise one that leads to where it starts."""
        rank = np.arange(ranks)[:, None]
        start = np.stack([rank - self.offset, rank - self.skip - self.offset], axis=2) % self.colours[:, None]
        channel = self.first[:, None] + start * self.width[:, None]
        lines = 2 * len(self.skip)
        route = np.arange(lines, dtype=np.int64) % 2
        return Queues(channel.reshape(ranks, lines).astype(np.int32), np.repeat(self.width, 2), route)


class CirculantSearch:
    """Circulant graphs tried for one all-gather on one ring; deterministic, as effort is counted in transfers."""

    def __init__(
        self, ranks: int, channels: int, nbytes: float, timing: Timing, bound: float, reach: int | None = None
    ) -> None:
        """Args as those of :class:`lightloom.collectives.synthesis.ring.search.RingSearch`."""
        self._ranks, self._channels, self._nbytes, self._timing, self._bound = ranks, channels, nbytes, timing, bound
        self._longest = min(ranks // 2, channels, ranks if reach is None else reach)
        self._rng = np.random.default_rng(0)
        self._tried: dict[Circulant, float] = {}
        self._spent = 0.0

    def run(self, effort: float) -> tuple[Circulant, float] | None:
        """The best graph found and its seconds; None where none joins all ranks."""
        for skips in regular_skips(self._ranks, self._channels, self._longest):
            self._try(Circulant(skips))
            if self._spent > effort / 2:
                break
        misses = 0
        while self._spent < 0.8 * effort and misses < _MISSES:
            design = self._step()
            if design in self._tried:
                misses += 1
            else:
                self._try(design)
        for leader in self._leaders(_REFINED):
            for pieces in _CIRCULANT_PIECES:
                for slack in _SLACKS:
                    if self._spent < effort:
                        self._try(Circulant(leader.skips, pieces, slack))
        for leader in self._leaders(1):
            for pieces in _FINE_PIECES:
                self._try(leader._replace(pieces=pieces))
        best = self._leaders(1)
        return (best[0], self._tried[best[0]]) if best and np.isfinite(self._tried[best[0]]) else None

    def forest(self, design: Circulant) -> Forest | None:
        """Trees over the chords of a design; None where they do not fit or do not join all ranks."""
        circuits = CirculantCircuits.of(self._ranks, self._channels, design.skips)
        if circuits is None or design.skips[-1] > self._longest:
            return None
        paths = circuits.lightpaths(self._ranks, self._nbytes / design.pieces, self._timing)
        deadline = design.slack * self._bound
        return grow_forest(paths, free_line(len(paths.delay)), [0] * design.pieces, deadline=deadline, sweeps=_SWEEPS)

    def _try(self, design: Circulant) -> None:
        forest = self.forest(design)
        self._spent += _LOOK + len(design.skips) * self._ranks * design.pieces / 2
        self._tried[design] = np.inf if forest is None else forest.time

    def _leaders(self, count: int) -> list[Circulant]:
        return nsmallest(count, self._tried, key=lambda design: self._tried[design])

    def _step(self) -> Circulant:
        """A graph near one of the best, or any."""
        leaders = self._leaders(_KEPT)
        skips = varied_skips([leader.skips for leader in leaders], self._longest, self._rng)
        return Circulant(skips, leaders[0].pieces if leaders else 2)


def regular_skips(ranks: int, channels: int, longest: int) -> Iterator[tuple[int, ...]]:
    """Lengths 1 ... a, and multiples of a length that these bridge from both sides; four hops may reach all ranks."""
    for near in range(1, longest + 1):
        for stride in (2 * near + 1, 2 * near, 2 * near + 2):
            for far in range(longest // stride + 1):
                skips = (*range(1, near + 1), *(stride * k for k in range(1, far + 1)))
                if sum(skips) <= channels and len(skips) <= _MOST_SKIPS and 4 * skips[-1] >= ranks // 2:
                    yield skips


def varied_skips(leaders: Sequence[tuple[int, ...]], longest: int, rng: np.random.Generator) -> tuple[int, ...]:
    """Lengths near those of one of the leaders, or any; short ones more often."""

    def length() -> int:
        return max(1, int(np.exp(rng.random() * np.log(max(longest, 1)))))

    if not leaders or rng.random() < 0.1:
        return tuple(sorted(length() for _ in range(int(rng.integers(1, 9)))))
    skips = list(leaders[min(int(rng.exponential(1.5)), len(leaders) - 1)])
    for _ in range(1 + int(rng.random() < 0.4)):
        i, kind = int(rng.integers(0, len(skips))), int(rng.integers(0, 4))
        if kind == 0:
            skips[i] = max(1, skips[i] + int(rng.choice((-2, -1, 1, 2))))
        elif kind == 1 and len(skips) > 1:
            del skips[i]
        elif kind == 2:
            skips.append(length())
        else:
            skips[i] = length()
    return tuple(sorted(skips))


# Synthesis around failures: circuits of a sound ring's design, without what has died, and trees over what is left.
#
# design for as many ranks and wavelengths ──► its chords, less those that died ──► unit links on all that is free
# ──► trees without symmetry ──► the fastest
#
# A ring that is broken one way or both is a line that way: data goes as far along it as halfway around a ring of
# twice as many ranks, so that the design for such a ring is tried too; and beside them a few plain families of
# chords.

_EFFORT = 1_000
"""Transfers a rank that the search for a sound ring's design may schedule; less than a CPU second for 256 ranks."""
_DAMAGED_PIECES = (1, 8, 16)
_FIRST_PIECES, _MORE_PIECES = 2, 4
"""With which all circuits are compared, and then the best of them."""
_LEADERS, _NEAR = 2, 1.15
"""Circuits that are compared again: how many, and how much slower than the best they may be."""
_THIN = 4
"""Times that a circuit may be wider than another one beside it."""
_TRANSFERS = 1 << 19
"""Of one try; fewer pieces are tried where there would be more."""


def around_damage(collective: Collective, fabric: Fabric) -> Schedule:
    """A queued schedule that uses nothing that has failed, not yet verified.

    Raises:
        UnsupportedError: another kind of collective, or circuits cannot join all ranks.
    """
    if collective.kind in ROOTED:
        whole = _of_all_ranks(collective)
        return _of_root(around_damage(whole, fabric), collective, fabric)
    most = max(1, _TRANSFERS // fabric.ranks**2)
    first = min(_FIRST_PIECES, most)
    # What is good for one half of an all-reduce is good for the other.
    half = collective.of_kind("all-gather") if collective.kind == "all-reduce" else collective
    tried = [_grown(half, fabric, circuits, first) for circuits in _circuits_to_try(half, fabric)]
    if not tried:
        raise UnsupportedError(f"what is left of the ring does not join all of its {fabric.ranks} ranks")
    tried.sort(key=lambda grown: grown[1].time)
    leaders = [grown for grown in tried[:_LEADERS] if grown[1].time <= _NEAR * tried[0][1].time]
    best = min(
        [tried[0], *(_grown(half, fabric, circuits, min(_MORE_PIECES, most)) for circuits, _ in leaders)],
        key=lambda grown: grown[1].time,
    )
    finer = [_grown(half, fabric, best[0], pieces) for pieces in _DAMAGED_PIECES if pieces <= most]
    circuits, trees = min([best, *finer], key=lambda grown: grown[1].time)
    note = _note(fabric, circuits, trees.pieces)
    return gather_over(collective, fabric, circuits, trees.pieces, grown=trees, note=note)


def _of_all_ranks(collective: Collective) -> Collective:
    """The collective in which all ranks do what the root does, of as many bytes each."""
    kind: Kind = "all-gather" if collective.kind == "broadcast" else "reduce-scatter"
    return Collective(kind, collective.ranks, collective.nbytes * collective.ranks)


def _of_root(schedule: Schedule, collective: Collective, fabric: Fabric) -> Schedule:
    """Of a schedule of all ranks the rows that carry the root's data."""
    schedule = schedule.unfolded(fabric.fibre_channels)
    pieces = schedule.chunks // fabric.ranks
    own = schedule.chunk < pieces
    columns = {name: column[own] for name, column in schedule.columns().items()}
    columns["lightpath"] = np.unique(columns["lightpath"], return_inverse=True)[1]
    return schedule.with_columns(columns, collective=collective, chunks=pieces)


def _grown(
    half: Collective, fabric: Fabric, circuits: StandingCircuits, pieces: int
) -> tuple[StandingCircuits, Forest]:
    timing = busy_and_delay(fabric, circuits, max(half.nbytes_per_rank, 1.0) / pieces)
    return circuits, forest(circuits, *timing, pieces, backward=half.kind == "reduce-scatter")


def _circuits_to_try(collective: Collective, fabric: Fabric) -> Iterator[StandingCircuits]:
    broken = bool(_blocked(fabric).all(axis=1).any())
    designs = [_design(collective, fabric, times) for times in ((1, 2) if broken else (1,))]
    for chords in dict.fromkeys([(), *designs, *_simple(fabric)]):
        circuits = standing_circuits(fabric, chords)
        if circuits is not None:
            yield circuits


def _design(collective: Collective, fabric: Fabric, times: int) -> tuple[Level, ...]:
    """Chords of a sound ring with so many times the ranks, the same distances apart."""
    ranks, channels = times * fabric.ranks, fabric.usable_channels
    nbytes = max(collective.nbytes_per_rank, 1.0)
    timing = Timing(fabric.channel_bandwidth, fabric.step_overhead, fabric.hop_latency, fabric.piece_overhead)
    hop = fabric.step_overhead + fabric.neighbour_latency()
    bound = joint_seconds(ranks, hop, nbytes / (2 * channels * timing.bandwidth))
    design, _ = RingSearch(ranks, channels, nbytes, timing, bound, fabric.reach).run(scaled(_EFFORT * fabric.ranks))
    return tuple(chord._replace(hubs=-(-chord.hubs // times)) for chord in design.chords)


def _simple(fabric: Fabric) -> Iterator[tuple[Level, ...]]:
    """Chords of one to three lengths from every rank, the longest on about half of the wavelengths.

    At the ends of a line no chord leads back from beyond, so that the last ranks lean on few long lightpaths, which
    must be wide.
    """
    ranks, channels = fabric.ranks, fabric.usable_channels
    for *below, top in ((2,), (4,), (8,), (3, 9), (4, 12), (3, 9, 27)):
        chords = [Level(ranks, skip, max(1, channels // (4 * len(below) * skip))) for skip in below]
        chords.append(Level(ranks, top, 4 * channels // (7 * top)))
        if chords[-1].width >= 1 and 2 * top < ranks:
            yield tuple(chords)


def standing_circuits(fabric: Fabric, chords: tuple[Level, ...]) -> StandingCircuits | None:
    """All that is left of these chords, and unit links on all that they leave free.

    None where the chords do not fit, or where what is left does not lead from every rank to every other.

    Hubs are counted from the first broken link on, so that few chords pass it.
    """
    lit = np.flatnonzero(~_blocked(fabric).all(axis=0))[: fabric.usable_channels]
    plan = HubCircuits.of(fabric.ranks, len(lit), chords)
    if plan is None:
        return None
    blocked, ends = _blocked(fabric), fabric.blocked_ends()
    broken = np.flatnonzero(blocked.all(axis=1))
    shift = int(broken[0] + 1) % fabric.ranks if len(broken) else 0
    free = ~blocked
    free[:, np.setdiff1d(np.arange(fabric.channels), lit)] = False
    parts = []
    for level in range(len(plan.levels) - 1, -1, -1):
        for direction in (0, 1):
            source, destination, planned = _level(plan, level, direction, shift, lit, fabric.channels)
            usable = planned & _free_all_along(free, source, destination, direction, fabric.ranks)
            if ends is not None:
                usable &= ~ends[source, direction] & ~ends[destination, direction]
            if fabric.reach is not None:
                usable &= (fabric.hops(source, destination, direction + 0 * source) <= fabric.reach)[:, None]
            which, first, width = _runs(usable)
            parts.append(
                StandingCircuits(fabric.ranks, source[which], destination[which], direction + 0 * which, first, width)
            )
            _take(free, parts[-1], fabric)
    circuits = _joined(parts)
    return circuits if _strongly_connected(circuits) else None


def _strongly_connected(circuits: StandingCircuits) -> bool:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    edges = np.ones(len(circuits)), (circuits.source, circuits.destination)
    graph = coo_array(edges, shape=(circuits.ranks, circuits.ranks))
    return bool(connected_components(graph, connection="strong", return_labels=False) == 1)


def _level(
    plan: HubCircuits, level: int, direction: int, shift: int, lit: Ints, channels: int
) -> tuple[Ints, Ints, Mask]:
    """Ends of a level's circuits in one direction, and the channels that each plans to use: [circuit, channel]."""
    chords = plan.levels[level]
    hub = hub_ranks(plan.ranks, chords.hubs)
    source, destination = hub, np.roll(hub, (2 * direction - 1) * chords.skip)
    planned = np.ones((len(hub), channels), np.bool_)
    if level:
        first = plan.channel(level, (np.arange(len(hub)) - direction * chords.skip) % len(hub))
        planned[:] = False
        np.put_along_axis(planned, lit[first[:, None] + np.arange(chords.width)], True, axis=1)
    return (source + shift) % plan.ranks, (destination + shift) % plan.ranks, planned


def _free_all_along(free: Mask, source: Ints, destination: Ints, direction: int, ranks: int) -> Mask:
    """Channels that are free on every link of each circuit: [circuit, channel]."""
    first, last = (source, destination) if direction == 0 else (destination, source)
    taken = np.tile(~free[direction * ranks : (direction + 1) * ranks], (2, 1)).cumsum(axis=0)
    before = np.where((first > 0)[:, None], taken[first - 1], 0)
    return np.asarray(taken[first + (last - first) % ranks - 1] == before)


def _take(free: Mask, circuits: StandingCircuits, fabric: Fabric) -> None:
    runs = fabric.footprint(circuits.source, circuits.destination, circuits.route)
    for i in range(len(circuits)):
        links = runs.base[i, 0] + (runs.start[i, 0] + np.arange(runs.length[i, 0])) % runs.period[i, 0]
        free[links, circuits.channel[i] : circuits.channel[i] + circuits.width[i]] = False


def _runs(usable: Mask) -> tuple[Ints, Ints, Ints]:
    """Runs of neighbouring channels: the row, the first channel and the length of each.

    Those that are thin beside another run of their row are left out: pieces that take them arrive long after the
    others.
    """
    edges = np.diff(usable.astype(np.int8), axis=1, prepend=0, append=0)
    which, first = np.nonzero(edges == 1)
    width = np.nonzero(edges == -1)[1] - first
    widest = np.zeros(len(usable), np.int64)
    np.maximum.at(widest, which, width)
    wide = width * _THIN >= widest[which]
    return which[wide].astype(np.int64), first[wide].astype(np.int64), width[wide].astype(np.int64)


def _joined(parts: list[StandingCircuits]) -> StandingCircuits:
    names = ("source", "destination", "route", "channel", "width")
    return StandingCircuits(
        parts[0].ranks, *(np.concatenate([getattr(part, name) for part in parts]) for name in names)
    )


def _blocked(fabric: Fabric) -> Mask:
    """Channels of links that no light passes: [links, channels]."""
    blocked = fabric.blocked()
    return np.zeros((fabric.links, fabric.channels), np.bool_) if blocked is None else blocked


def _note(fabric: Fabric, circuits: StandingCircuits, pieces: int) -> str:
    around = fabric.failures_text or "nothing"
    return f"around {around}: {len(circuits)} circuits; every share travels in {pieces} pieces"
