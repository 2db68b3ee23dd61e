"""The best wiring for an all-to-all on a ring: many are estimated, the best of them tried, then varied.

An estimate adds up the longest of the cheapest paths and the heaviest load of a few sources; a trial schedules the
blocks of some sources as if they were all; the leaders are planned in full. Deterministic: the effort is counted in
hops, not in seconds, and random choices are seeded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import nsmallest
from itertools import product
from typing import NamedTuple, TypeVar

import numpy as np

from lightloom.collectives.algorithms.direct import one_stage, one_stage_steps
from lightloom.collectives.bounds.lower_bound import lower_bound
from lightloom.collectives.collective import Collective
from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.synthesis.engine.cache import scaled
from lightloom.collectives.synthesis.engine.kernels import list_schedule
from lightloom.collectives.synthesis.engine.lightpaths import Transmissions
from lightloom.collectives.synthesis.engine.queues import Queues, Rows, queued_schedule
from lightloom.collectives.synthesis.engine.trees import Level, MixedTours, RingTask, Timing, chord_text
from lightloom.collectives.synthesis.exchange import kernels
from lightloom.collectives.synthesis.exchange.circuits import (
    DEEPEST,
    ExchangeCircuits,
    Feeder,
    Tours,
    Wiring,
    exchange_circuits,
    longest_circuit,
    reaches,
    shared_wiring,
)
from lightloom.collectives.synthesis.ring.gather import regular_skips, varied_skips
from lightloom.core.arrays import Effort, Floats, Int32s, Ints
from lightloom.machines.fabrics.fabric import Fabric

# A wiring becomes a path for every block, and the times at which blocks are sent.
#
# wiring ──► cheapest paths ──► loads ──► dearer circuits, cheapest paths again ──► every block takes one of its paths
# ──► list schedule
#
# The price of a circuit is its delay, and a toll that rises with its load.

_T = TypeVar("_T")
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


Routed = tuple[ExchangeCircuits, kernels.Routes, Floats, Floats, Floats, float]
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
    """Return circuits and paths of the blocks of one period of ranks, or of a few of these ranks as ``trial.sources``
    says, which then stand for all.

    Each block has ``trial.trees`` paths to choose from, found one after the other at prices that rise with the load of
    a circuit.

    Returns:
        None if even the cheapest path of some block takes ``trial.limit`` seconds or longer. Otherwise the circuits;
        the paths, with the one chosen for every block or piece; seconds that a piece holds a circuit, seconds until it
        arrives, and pieces that pass a circuit, [circuit] each; and the seconds of the longest of the cheapest paths if
        nothing waits.
    """
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
    """Return the estimated seconds of an all-to-all over a wiring: the root of the sum of the squares of the longest of
    the cheapest paths and of the heaviest load of a circuit, in seconds; infinite where there is no path.

    A circuit counts as no more heavily loaded than the one that leads back over the same links.

    Args:
        sources: number of ranks of one period whose blocks stand for those of all.
    """
    routed = route(wiring, exchange, Trial(1, sources))
    if routed is None:
        return np.inf
    ring, _, busy, _, load, longest = routed
    seconds = load * busy
    return float(np.hypot(longest, np.minimum(seconds, seconds[ring.reverse]).max()))


def plan(wiring: Wiring, exchange: Exchange, trial: Trial) -> Plan | None:
    """Return paths and times of all blocks of one period of ranks; or of the blocks of a few sources, which then stand
    for all of them.

    None where the cheapest path of a block, or what one circuit carries, takes ``trial.limit`` seconds or longer.

    A circuit towards few ranks has its share of the blocks of few sources; one that comes from few ranks has not, and
    is as busy as the circuit in the other direction.
    """
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
    hops = kernels.lay_paths(routes, delay, begin, np.zeros(0, np.int32), np.zeros(0))
    path, left, when = np.empty(hops, np.int32), np.empty(hops), np.zeros(hops + 1)
    kernels.lay_paths(routes, delay, begin, path, left)
    sends = _transmissions(begin, path, left)
    seconds = list_schedule(np.arange(len(busy), dtype=np.int32), delay, busy, sends, when)
    return Plan(ring, begin, path, when[:-1], load * busy / weight, float(seconds))


def _transmissions(begin: Ints, path: Int32s, left: Floats) -> Transmissions:
    """Return the hops of all blocks as input of list scheduling: each hop waits for the one before on its block's path.

    A last entry, besides the hops, releases the first hop of every block at the start.

    Args:
        begin: first hop of each block: [block + 1].
        path: circuit of each hop: [hop].
        left: seconds from the start of each hop to the end of its path: [hop].
    """
    hops, going = len(path), np.diff(begin) > 0
    first, last = begin[:-1][going], begin[1:][going] - 1
    child, sibling = np.arange(1, hops + 2, dtype=np.int32), np.full(hops + 1, -1, np.int32)
    child[last], child[hops] = -1, first[0]
    sibling[first[:-1]] = first[1:]
    tap, none, left = np.append(path, np.int32(-1)), np.zeros(0, np.int32), np.append(left, 0.0)
    return Transmissions(tap, child, sibling, none, left, np.array([hops], np.int64))


# Which wirings are worth trying for an all-to-all: plain ones, random ones, and steps from one to the next.
#
# plain    chains of hubs, and of hubs of hubs; between hubs that feed, all tours, or chords of two lengths
# random   some of each, wavelengths that are left anywhere
# steps    wavelengths to where the load is, other chords, other feeders, other hubs

_PERIOD_BLOCKS, _LEAST_RANKS = 256, 1024
"""Times the ranks, or so many of them: blocks of one period above which a wiring is not tried."""
_UNEVEN = 512
"""Ranks up to which hubs may be spread unevenly."""
_SPACINGS = (2, 4, 5, 8, 10, 16, 32)
_COARSER = (1, 1, 1, 2, 3, 4, 5, 8, 16)
"""Hubs for each of those that a chord starts from."""
_SHARES = (1.0, 1.25, 1.6, 2.5)
"""Ranks behind a wavelength of a span, over an even share of them."""


class Designs:
    """Generator of wirings of one ring: plain ones, random ones, and steps from one to the next."""

    def __init__(self, ranks: int, channels: int, reach: int | None = None) -> None:
        """Take the wavelengths each way as ``channels``, and the most links of a circuit, or None, as ``reach``."""
        self._ranks, self._channels, self._reach = ranks, channels, reach
        self._rng = np.random.default_rng(0)
        self.most = _PERIOD_BLOCKS * max(ranks, _LEAST_RANKS)

    @cached_property
    def hubs(self) -> list[int]:
        """Numbers of hubs worth trying, 3 or more, ascending: those that divide the ranks and give a period of at most
        ``most`` blocks.

        Where these are four or fewer among at most 512 ranks, also those up to 47, and the ranks divided by 1 to 8 and
        rounded down, which need not divide the ranks.
        """
        ranks = self._ranks
        even = [hubs for hubs in range(3, ranks + 1) if ranks % hubs == 0 and ranks // hubs * ranks <= self.most]
        if len(even) > 4 or ranks > _UNEVEN:
            return even
        return sorted({*even, *range(3, min(ranks, 48)), *(ranks // k for k in range(1, 9) if ranks // k > 2)})

    def fits(self, wiring: Wiring) -> bool:
        """Return True when the ring has the wavelengths, hubs are nested, and blocks of one period are not too many.

        Chords must also have a width and reach at most half of their hubs, feeders be there unless every rank is a hub
        and reach half a gap between hubs, and no circuit pass more links than light reaches.
        """
        ranks, hubs, feeder = self._ranks, wiring.hubs, wiring.feeder
        return (
            wiring.wavelengths <= self._channels
            and (feeder is None) == (hubs == ranks)
            and all(
                chord.hubs >= 3
                and hubs % chord.hubs == 0
                and chord.width >= 1
                and 1 <= chord.skip <= chord.hubs // (4 if isinstance(chord, Tours) else 2)
                and not (isinstance(chord, Tours) and chord.hubs % 2)
                for chord in wiring.chords
            )
            and wiring.period(ranks) * ranks <= self.most
            and (feeder is None or (1 <= feeder.depth <= DEEPEST and reaches(feeder, -(-ranks // hubs) // 2)))
            and (self._reach is None or longest_circuit(wiring, ranks) <= self._reach)
        )

    def plain(self) -> Iterator[Wiring | None]:
        """Yield wirings of few parts, not all of which fit, and None where one has no room: chains of unit links
        (lightpaths between neighbours) and hubs, and chords or tours between each number of hubs, with feeders (trees
        of lightpaths from a hub to the ranks around it) of few widths."""
        narrow = sorted({max(1, self._channels // parts) for parts in (64, 16, 8, 4)})
        yield from self._chains(narrow)
        for hubs in self.hubs:
            for width in sorted({*narrow, max(1, self._channels // 2)}):
                feeder = self._feeder(hubs, width) if hubs < self._ranks else None
                if feeder is not None or hubs == self._ranks:
                    yield from self._over_hubs(hubs, width, feeder, narrow)

    def _chains(self, narrow: list[int]) -> Iterator[Wiring | None]:
        """Yield wirings of unit links (lightpaths between neighbours), a chain of hubs, each joined to the next, and
        perhaps one of fewer hubs; also of a chain and trees from its hubs to the ranks around them.

        None stands for one that has no room. ``narrow`` lists widths of the shortest links.
        """
        ranks = self._ranks
        spacings = [spacing for spacing in _SPACINGS if ranks % spacing == 0 and ranks // spacing in self.hubs]
        for spacing in spacings:
            for width in narrow:
                hubs, left = ranks // spacing, self._channels - width
                yield Wiring(ranks, (Level(ranks, 1, width), Level(hubs, 1, left)), None)
                yield self._filled(Wiring(hubs, (Level(hubs, 1, 1),), self._feeder(hubs, width)))
                for far in spacings:
                    if far % spacing == 0 and far > spacing:
                        for more in narrow:
                            chords = (Level(ranks, 1, width), Level(hubs, 1, more), Level(ranks // far, 1, left - more))
                            yield Wiring(ranks, chords, None)

    def _over_hubs(self, hubs: int, width: int, feeder: Feeder | None, narrow: list[int]) -> Iterator[Wiring | None]:
        """Yield wirings of tours, chords of two lengths, or chains, between hubs; None for one that has no room
        for its tours or chords. Chains are not looked at: they may not fit either.

        ``width`` counts wavelengths of the feeder, ``narrow`` lists widths of the shorter chain.
        """
        far = max(2, self._channels - width - 1)
        skips = {far, far // 2, far * 3 // 4, round((hubs / 2) ** 0.5)}
        tops: list[tuple[Level | Tours, ...]] = [(Level(hubs, 1, 1),)]
        tops += [(Level(hubs, 1, 1), Level(hubs, skip, 1)) for skip in sorted(skips) if 2 <= skip <= hubs // 2]
        if hubs % 2 == 0:
            tops.append(tuple(Tours(hubs, skip, 1) for skip in range(1, hubs // 4 + 1)))
        for chords in tops:
            yield self._filled(Wiring(hubs, chords, feeder))
        used = width if feeder else 0
        for more, coarser in product(narrow, (2, 4, 8)):
            if hubs % coarser == 0:
                longest = Level(hubs // coarser, 1, self._channels - used - more)
                yield Wiring(hubs, (Level(hubs, 1, more), longest), feeder)

    def complete(self) -> Iterator[Wiring]:
        """Yield wirings, which need not fit, with chords between all pairs of hubs, also opposite ones, and spans from
        hubs to all ranks.

        There is at most one for each even number of hubs, and none for odd ones. Blocks make three hops. Wavelengths
        are shared between chords and spans so that neither carries a block much longer than the other.
        """
        for hubs in self.hubs:
            half = -(-self._ranks // hubs) // 2
            chords: list[Level | Tours] = [
                *(Tours(hubs, skip, 1) for skip in range(1, hubs // 4 + 1)),
                Level(hubs, hubs // 2, 1),
            ]
            used = sum(chord.wavelengths for chord in chords)
            widths = range(1, (self._channels - half) // used + 1)
            if hubs % 2 or hubs == self._ranks or not widths:
                continue
            behind = self._ranks / hubs
            width = min(widths, key=lambda w: max(self._ranks * half / (self._channels - w * used), behind**2 / w))
            wide = tuple(chord._replace(width=width) for chord in chords)
            yield Wiring(hubs, wide, Feeder(self._channels - width * used, 1, 1))

    def random(self) -> Wiring | None:
        """Return any wiring, which need not fit; None where no feeder has room, or no chords were found.

        It has a random number of hubs, up to five random kinds of chords between them, and, unless every rank is a hub,
        feeders of a random width.
        """
        hubs, feeder = self._pick(self.hubs), None
        if hubs < self._ranks:
            feeder = self._feeder(hubs, int(self._rng.integers(1, max(2, self._channels * 2 // 3 + 1))))
            if feeder is None:
                return None
        chords: list[Level | Tours] = []
        left = self._channels - (feeder.wavelengths if feeder else 0)
        for _ in range(int(self._rng.integers(1, 6))):
            fresh = self._chords(hubs)
            if fresh is not None and fresh.wavelengths <= left:
                chords.append(fresh)
                left -= fresh.wavelengths
        return self._filled(Wiring(hubs, tuple(chords), feeder))

    def _pick(self, values: Sequence[_T]) -> _T:
        """Return one of some values at random; several times faster than ``Generator.choice``."""
        return values[int(self._rng.integers(len(values)))]

    def _feeder(self, hubs: int, wavelengths: int) -> Feeder | None:
        """Return a feeder (a tree of lightpaths, spans, between a hub and the ranks around it) of ``wavelengths``
        wavelengths of each link, each way, with as few spans in a row as reach half a gap between hubs, or one more at
        random; None where none does.

        Ranks behind a wavelength are their even share of half a gap, times 1 to 2.5 at random.
        """
        half = -(-self._ranks // hubs) // 2
        share = max(1, int(half / wavelengths * self._pick(_SHARES)))
        for depth in range(1, DEEPEST):
            if reaches(Feeder(wavelengths, depth, share), half):
                return Feeder(wavelengths, depth + int(self._rng.integers(0, 2)), share)
        return None

    def _chords(self, hubs: int) -> Level | Tours | None:
        """Return random chords of width 1 between hubs or some of them, of any length up to half the ring, short ones
        more often; None without three hubs.
        """
        coarser = [ratio for ratio in _COARSER if hubs % ratio == 0 and hubs // ratio >= 3]
        if not coarser:
            return None
        count = hubs // self._pick(coarser)
        if count % 2 == 0 and self._rng.random() < 0.4:
            return Tours(count, int(self._rng.integers(1, count // 4 + 1)), 1)
        skip = int(np.exp(self._rng.random() * np.log(max(count // 2, 1))))
        return Level(count, max(1, skip), 1)

    def _filled(self, wiring: Wiring) -> Wiring | None:
        """Return the wiring with all wavelengths used and its chords in order, most hubs first: missing ones are taken
        from random kinds of chords, spare ones go to random kinds or the feeder.

        None where there are no chords, or chords of width 1 take more than there are. Spare ones that no chord can take
        as a whole stay unused.
        """
        if not wiring.chords:
            return None
        # Wavelengths that one more of chords, and of the feeder where there is one, takes.
        colours = [chord.colours for chord in wiring.chords] + ([] if wiring.feeder is None else [1])
        left = self._channels - wiring.wavelengths
        widths = [chord.width for chord in wiring.chords]
        more = [0] * len(colours)
        while left < 0:
            wide = [i for i, width in enumerate(widths) if width + more[i] > 1]
            if not wide:
                return None
            i = self._pick(wide)
            more[i], left = more[i] - 1, left + colours[i]
        while left > 0 and (can := [i for i, taken in enumerate(colours) if taken <= left]):
            i = self._pick(can)
            more[i], left = more[i] + 1, left - colours[i]
        for i, by in enumerate(more):
            wiring = wiring.widened(i, by) if by else wiring
        ordered = sorted(wiring.chords, key=lambda chord: (-chord.hubs, chord.skip, chord.width))
        return wiring._replace(chords=tuple(ordered))

    def step(self, wiring: Wiring, load: Floats | None) -> Wiring | None:
        """Return a wiring with one random change, which need not fit; None where no chords are left or have room.

        A wavelength moves (to the busiest circuits in half of the cases), or chords, the feeder or the hubs change.

        Args:
            load: seconds for which the busiest circuit of each kind of chords is busy, and of the feeders last; None
                where these are not known, and a wavelength moves at random.
        """
        kind = int(self._rng.integers(0, 9))
        i = int(self._rng.integers(0, len(wiring.chords)))
        if kind < 2:
            return self._filled(self._shifted(wiring, load if kind == 0 else None))
        if kind < 6:
            return self._filled(self._other_chords(wiring, kind, i))
        if kind < 8:
            return self._filled(self._other_feeder(wiring, kind == 7))
        return self._filled(self._other_hubs(wiring))

    def _shifted(self, wiring: Wiring, load: Floats | None) -> Wiring:
        """Return the wiring with one wavelength moved from chords or the feeders to the kind of circuits with the
        largest ``load``, or to a random kind where ``load`` is None.

        Chords of a random kind give one, or else the feeders; where neither can, the wiring takes more wavelengths than
        before.
        """
        chords, feeder, kinds = wiring.chords, wiring.feeder, len(wiring.chords) + (wiring.feeder is not None)
        to = int(self._rng.integers(0, kinds) if load is None else np.argmax(load))
        i = int(self._rng.integers(0, len(chords)))
        if i != to and chords[i].width > 1:
            wiring = wiring.widened(i, -1)
        elif feeder is not None and to != len(chords) and feeder.wavelengths > 1:
            wiring = wiring.widened(len(chords), -1)
        return wiring.widened(to, 1) if to < kinds else wiring

    def _other_chords(self, wiring: Wiring, kind: int, i: int) -> Wiring:
        """Return the wiring with one of its chords a little longer or shorter, replaced, added or left out.

        ``kind`` is 2 for another length of chords ``i``, 3 to replace them, 4 to add some before them, 5 to leave them
        out. Where no new ones are found, 3 leaves them out and 4 changes nothing.
        """
        chords = list(wiring.chords)
        if kind == 2:
            skip = max(1, chords[i].skip + self._pick((-2, -1, 1, 2)))
            chords[i] = chords[i]._replace(skip=skip)  # type: ignore[call-arg]  # mixed tours come later
        elif kind == 5:
            del chords[i]
        else:
            fresh = self._chords(wiring.hubs)
            chords[i : i + (kind == 3)] = [] if fresh is None else [fresh]
        return wiring._replace(chords=tuple(chords))

    def _other_feeder(self, wiring: Wiring, widths: bool) -> Wiring:
        """Return the wiring with feeders of one to three wavelengths more or fewer (``widths``), or of another depth
        and share, which need not reach.

        The wiring is unchanged where it has no feeder, and has none any more where none with the new wavelengths
        reaches half a gap between hubs.
        """
        feeder = wiring.feeder
        if feeder is None:
            return wiring
        if widths:
            wavelengths = max(1, feeder.wavelengths + self._pick((-3, -2, -1, 1, 2, 3)))
            return wiring._replace(feeder=self._feeder(wiring.hubs, wavelengths))
        depth = max(1, feeder.depth + self._pick((-1, 0, 1)))
        share = max(1, int(feeder.share * self._pick((0.7, 0.85, 1.2, 1.5))))
        return wiring._replace(feeder=feeder._replace(depth=depth, share=share))

    def _other_hubs(self, wiring: Wiring) -> Wiring:
        """Return a wiring with another, random number of hubs, the hubs of chords in proportion and chords of about the
        same lengths and widths; with a feeder of as many wavelengths as before, or 1, unless every rank is a hub."""
        hubs, feeder = self._pick(self.hubs), None
        chords: list[Level | Tours | MixedTours] = []
        for chord in wiring.chords:
            count = chord.hubs * hubs // wiring.hubs
            skip = max(1, round(chord.skip * count / chord.hubs))
            chords.append(chord._replace(hubs=count, skip=skip))  # type: ignore[call-arg]  # mixed tours come later
        if hubs < self._ranks:
            feeder = self._feeder(hubs, wiring.feeder.wavelengths if wiring.feeder else 1)
        return Wiring(hubs, tuple(chords), feeder)


EFFORT = 12_000_000
"""Hops that a search may schedule, up to 300 ranks; about three CPU seconds."""
_RANKS, _GROWTH = 300, 0.8
"""From so many ranks on effort grows with this power of the ranks."""
_ESTIMATED, _TRIED, _STEPPED = 0.15, 0.45, 0.8
"""Shares of the effort that are spent by the end of each part; the rest is for plans in full."""
_NEAR = 1.003
"""Times the bound at which a search is content, and at which blocks are left whole."""
_ESTIMATE_SOURCES, _SOURCES, _TRIAL_BLOCKS = 3, 10, 1 << 14
"""Sources of an estimate; of a trial, or as many as have so many blocks."""
_HOPELESS = 1.15
"""Times the best trial so far: what takes longer by its paths or its loads alone."""
_MOST_ROWS = 8_000_000
"""Most rows of a schedule."""
_MISSES = 500
"""Random choices that lead nowhere, after which there is nothing left to choose."""
_KEPT, _FINAL = 6, 4
"""Wirings that steps start from; those planned in full."""
_COMPLETE = 2
"""Wirings that join all hubs that are planned in full."""
_TREES, FINAL_TREES = 2, 4
_SHARED, _LOOK = 0.06, 5_000
"""Share of the effort that chords on shared wavelengths may add; hops that looking at one such wiring counts for."""
_DRAWS = 20
"""Plans of one wiring that chance makes different where paths are equally cheap."""


class ExchangeSearch:
    """Wirings tried for one all-to-all on one ring."""

    _found: tuple[Wiring, Plan]
    """The wiring with the fastest plan so far."""

    def __init__(self, exchange: Exchange) -> None:
        """Take the all-to-all for which wirings are tried."""
        self._exchange, self._ranks = exchange, exchange.ranks
        self._designs = Designs(exchange.ranks, exchange.channels, exchange.reach)
        self._sources = max(_SOURCES, _TRIAL_BLOCKS // exchange.ranks)
        self._spent, self._best, self._bound = 0.0, np.inf, _NEAR * exchange.bound
        self._seconds: dict[Wiring, float] = {}
        self._load: dict[Wiring, Floats] = {}

    def run(self, effort: float) -> tuple[Wiring, Plan]:
        """Return the fastest wiring found, and its plan; unit links alone where nothing is faster.

        It tries the wirings with the shortest estimates on the blocks of some sources, then random changes of the best,
        and plans the leaders in full. The search ends early once a plan takes at most 1.003 times the lower bound.

        Args:
            effort: hops that may be scheduled, up to 300 ranks; multiplied by (ranks / 300)^0.8 above.
        """
        effort *= max(1.0, self._ranks / _RANKS) ** _GROWTH
        neighbours, bound = Wiring(self._ranks, (Level(self._ranks, 1, self._exchange.channels),), None), self._bound
        simplest = plan(neighbours, self._exchange, Trial(_TREES))
        assert simplest is not None
        self._found = neighbours, simplest
        if simplest.time <= bound or not self._designs.hubs:
            return self._found
        self._seconds[neighbours] = self._best = simplest.time
        for wiring in self._by_estimate(_ESTIMATED * effort):
            if self._spent < _TRIED * effort:
                self._try(wiring)
        self._walk(_STEPPED * effort)
        for wiring in self._leaders(_FINAL):
            if self._seconds[wiring] < np.inf and self._plan(wiring) and self._spent > effort:
                break
        if self._found[1].time > bound:
            self._best = self._found[1].time
            self._share_wavelengths(_SHARED * effort)
            self._join_all_hubs()
        return self._found

    def _plan(self, wiring: Wiring, rng: np.random.Generator | None = None) -> bool:
        """Plan a wiring in full, keep the plan if it is the fastest so far, and count the effort; return False where it
        has no plan.

        ``rng`` decides which of equally cheap paths is taken; None: always the same one.
        """
        full = plan(wiring, self._exchange, Trial(FINAL_TREES, rng=rng))
        if full is not None:
            self._spent += len(full.path) * FINAL_TREES
            self._found = min(self._found, (wiring, full), key=lambda found: found[1].time)
        return full is not None

    def _by_estimate(self, effort: float) -> list[Wiring]:
        """Return plain wirings and random ones that fit, the shortest estimate first.

        Random ones are drawn until ``effort`` hops are spent since the search began, or 500 draws led nowhere.
        """
        seconds: dict[Wiring, float] = {}
        for wiring in self._designs.plain():
            if wiring is not None and self._designs.fits(wiring):
                seconds[wiring] = self._estimate(wiring)
        misses = 0
        while self._spent < effort and misses < _MISSES:
            wiring = self._designs.random()
            if wiring is not None and wiring not in seconds and self._designs.fits(wiring):
                seconds[wiring] = self._estimate(wiring)
            else:
                misses += 1
        return sorted(seconds, key=lambda design: seconds[design])

    def _estimate(self, wiring: Wiring) -> float:
        """Return the estimated seconds of a wiring, infinite where there is no path, and count the effort."""
        self._spent += _ESTIMATE_SOURCES * self._ranks
        return estimate(wiring, self._exchange, _ESTIMATE_SOURCES)

    def _walk(self, effort: float) -> None:
        """Try random steps away from the six wirings with the shortest trials, the better ones more often, until
        ``effort`` is spent in all, or 500 steps led nowhere."""
        rng, misses = np.random.default_rng(1), 0
        while self._spent < effort and misses < _MISSES:
            leaders = self._leaders(_KEPT)
            leader = leaders[min(int(rng.exponential(1.5)), len(leaders) - 1)]
            fresh = self._designs.step(leader, self._load.get(leader))
            if fresh is None or fresh in self._seconds or not self._designs.fits(fresh):
                misses += 1
            else:
                self._try(fresh)

    def _leaders(self, count: int) -> list[Wiring]:
        """Return the ``count`` wirings with the shortest trials, or all if there are fewer, the shortest first; those
        that did not fit count as infinite."""
        return nsmallest(count, self._seconds, key=lambda wiring: self._seconds[wiring])

    def _try(self, wiring: Wiring) -> None:
        """Schedule the blocks of some sources over a wiring, and keep its seconds, and its busiest load by kind of
        chords.

        Seconds are infinite where the wiring takes over 1.15 times the best trial by its paths or loads alone, or would
        have more than 8,000,000 rows.
        """
        self._seconds[wiring] = np.inf
        trial = plan(wiring, self._exchange, Trial(_TREES, self._sources, _HOPELESS * self._best))
        self._spent += self._sources * self._ranks
        if trial is None:
            return
        self._spent += len(trial.path) * _TREES
        family = trial.circuits.family
        rows = len(trial.path) / (len(trial.begin) - 1) * trial.circuits.period * self._ranks
        if rows <= _MOST_ROWS:
            self._seconds[wiring] = trial.time
            self._best = min(self._best, trial.time)
            kinds = range(len(wiring.chords) + 1)
            self._load[wiring] = np.array([trial.load[family == kind].max(initial=0.0) for kind in kinds])

    def _share_wavelengths(self, effort: float) -> None:
        """Try chords of several lengths from every rank, on wavelengths that they share, and plan the best in full,
        each up to twenty times with other random choices among equally cheap paths; a faster plan is kept.

        ``effort`` is spent in addition to what was spent before, and a quarter of it for plans.
        """
        rng, ranks, channels = np.random.default_rng(2), self._ranks, self._exchange.channels
        longest = min(ranks // 2, channels, self._exchange.reach or ranks)
        tried: dict[tuple[int, ...], tuple[float, Wiring]] = {}
        until, misses = self._spent + effort, 0
        seconds_of = {
            skips: self._estimate(wiring)
            for skips in regular_skips(ranks, channels, longest)
            if (wiring := shared_wiring(ranks, channels, skips)) is not None
        }
        regular = iter(sorted(seconds_of, key=lambda skips: seconds_of[skips]))
        while self._spent < until and misses < _MISSES:
            leaders = nsmallest(_KEPT, tried, key=lambda skips: tried[skips][0])
            skips = next(regular, None) or varied_skips(leaders, longest, rng)
            wiring = shared_wiring(ranks, channels, tuple(sorted(set(skips))))
            if wiring is None or skips in tried or wiring.period(ranks) * ranks > self._designs.most:
                misses += 1
                continue
            self._try(wiring)
            self._spent += _LOOK
            tried[skips] = self._seconds[wiring], wiring
        until += effort / 4
        for skips in nsmallest(_FINAL, tried, key=lambda skips: tried[skips][0]):
            seconds, wiring = tried[skips]
            for draw in range(_DRAWS if seconds < _HOPELESS * self._found[1].time else 0):
                if not self._plan(wiring, rng if draw else None) or self._spent > until:
                    break

    def _join_all_hubs(self) -> None:
        """Plan in full the two wirings with the shortest estimates that join all hubs, if their estimates are below the
        time of the best plan; keep a plan that is faster."""
        seconds = {wiring: self._estimate(wiring) for wiring in self._designs.complete() if self._designs.fits(wiring)}
        for wiring in nsmallest(_COMPLETE, seconds, key=lambda wiring: seconds[wiring]):
            if seconds[wiring] < self._found[1].time:
                full = plan(wiring, self._exchange, Trial(_TREES, limit=self._found[1].time))
                if full is not None and full.time < self._found[1].time:
                    self._found = wiring, full


# All-to-all on a ring of wavelengths: every block straight to its rank where circuits suffice, else over hubs.

_NEAR_STRAIGHT = 1.01
"""Times the bound at which straight circuits suffice."""
_STEPS = 8
"""In which circuits for all pairs may take turns, as pays where changing them takes no time."""
_PIECES = (2, 4, 8, 16)
_HOPS_OF_PIECES: Effort = 1 << 17
"""Hops of the pieces of one period of ranks above which blocks are not cut."""


def exchange(collective: Collective, fabric: Fabric) -> Schedule:
    """Return the fastest all-to-all found on a sound ring of wavelengths, not yet verified: straight in few steps, or
    queued on standing circuits.

    Circuits straight from rank to rank are tried where eight steps and the reach suffice, and nothing else where they
    take at most a hundredth more than the lower bound.
    """
    straight, ranks, reach = None, fabric.ranks, fabric.reach
    if one_stage_steps(ranks, fabric.usable_channels) <= _STEPS and (reach is None or reach >= ranks // 2):
        straight = one_stage(collective, fabric, striped=True)
        straight = replace(straight, algorithm="synthesized", notes=("every rank sends straight to every other",))
        if cost(straight, fabric).time <= _NEAR_STRAIGHT * lower_bound(collective, fabric).time:
            return straight
    block = max(collective.nbytes / collective.ranks, 1e-3)
    bound = max(lower_bound(collective, fabric).time - fabric.setup_time, 1e-12)
    problem = Exchange(ranks, fabric.usable_channels, block, Timing.of(fabric), bound, reach)
    wiring, whole = ExchangeSearch(problem).run(scaled(EFFORT))
    pieces, best = _in_pieces(problem, wiring, whole)
    cut = f"; every block travels in {pieces} pieces" if pieces > 1 else ""
    queued = exchange_schedule(collective, fabric, best, _wiring_note(wiring, ranks) + cut)
    return queued if straight is None else min(queued, straight, key=lambda schedule: cost(schedule, fabric).time)


def _in_pieces(problem: Exchange, wiring: Wiring, whole: Plan) -> tuple[int, Plan]:
    """Return the number of pieces a block, 1, 2, 4, 8 or 16, whose plan is fastest, and that plan.

    Pieces are doubled as long as the best plan takes more than 1.003 times the bound and there are not too many hops.
    Smaller pieces wait less for each other.

    Args:
        whole: plan with blocks that are not cut.
    """
    best = 1, whole
    for pieces in _PIECES:
        if best[1].time <= _NEAR * problem.bound or pieces * len(whole.path) > _HOPS_OF_PIECES:
            break
        finer = plan(wiring, replace(problem, pieces=pieces), Trial(FINAL_TREES))
        if finer is not None and finer.time < best[1].time:
            best = pieces, finer
    return best


def exchange_schedule(collective: Collective, fabric: Fabric, planned: Plan, note: str = "") -> Schedule:
    """Return the queued all-to-all of a plan, not yet verified: the rows of one period of ranks, folded, on circuits
    that stand throughout. Chunks are numbered (sender · ranks + receiver) · pieces + piece.

    ``note`` describes the circuits in the schedule's notes.
    """
    ring, path, ranks = planned.circuits, planned.path, planned.circuits.ranks
    pieces = (len(planned.begin) - 1) // (ring.period * ranks)
    block = np.repeat(np.arange(len(planned.begin) - 1), np.diff(planned.begin))
    place, reader = np.divmod(block, ranks)
    piece, owner = np.divmod(place, ring.period)
    length, start = ring.length[path], ring.start[path]
    passed = np.cumsum(length) - length
    shift = (owner + passed - passed[planned.begin[block]]) % ranks - start
    chunk = ((owner - shift) % ranks * ranks + (reader - shift) % ranks) * pieces + piece
    stores = np.zeros(len(path), np.bool_)
    rows = Rows(path.astype(np.int64), start, (start + length) % ranks, chunk, stores, planned.when)
    queues = Queues(ring.channel, ring.width, (ring.length < 0).astype(np.int64))
    return queued_schedule(collective, fabric, queues, [rows], chunks=ranks**2 * pieces, note=note)


def _wiring_note(wiring: Wiring, ranks: int) -> str:
    """Return a description of a wiring, for the note of a schedule: each of its chords as :func:`chord_text` gives
    them, joined by "; ", and, with a feeder, "each of 8 hubs reaches the ranks around it within 3 hops over 2
    wavelengths"."""
    parts = [chord_text(chords.hubs, chords.skips, chords.width, ranks) for chords in wiring.chords]
    if wiring.feeder is not None:
        parts.append(
            f"each of {wiring.hubs} hubs reaches the ranks around it within {wiring.feeder.depth} hops over "
            f"{wiring.feeder.wavelengths} wavelengths"
        )
    return "; ".join(parts)
