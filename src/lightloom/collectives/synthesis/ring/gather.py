"""All-gather, reduce-scatter and all-reduce on rings of light: circuits and trees found for this ring and this size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, replace
from heapq import nsmallest
from itertools import product
from typing import NamedTuple

import numpy as np

from lightloom.collectives.algorithms.direct import one_stage
from lightloom.collectives.algorithms.optree import optree
from lightloom.collectives.algorithms.wrht import wrht
from lightloom.collectives.bounds.link_use import ring_all_to_all_wavelengths
from lightloom.collectives.bounds.lower_bound import lower_bound
from lightloom.collectives.collective import Collective
from lightloom.collectives.schedule.build import ring_all_to_all
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.synthesis.engine.cache import effort, read_design, write_design
from lightloom.collectives.synthesis.engine.queues import ring_schedule
from lightloom.collectives.synthesis.engine.standing import StandingCircuits, gather_over
from lightloom.collectives.synthesis.engine.trees import (
    CirculantCircuits,
    Design,
    RingTask,
    RingTrees,
    TreeRules,
    chord_text,
    grow_chords,
    make_trees,
    shared_chords,
)
from lightloom.collectives.synthesis.ring.search import NEAR, RingSearch
from lightloom.machines.fabrics.fabric import Fabric

# Circulant graphs: all ranks have the same chords, of several lengths that share wavelengths.
#
# rank 0  ─►1 ───►4 ────►8 ─►9 ───►12 ...      chords of 1, 3 and 4 ranks, one behind the other, repeat every
# rank 1    ─►2 ───►5 ────►9 ...               8 ranks: 8 wavelengths carry all of them and fill every link
#
# Two or three hops then reach all ranks where wavelengths are many. Levels of hubs, which the other search varies,
# colour every length for itself.

_SHARE = 0.08
"""Share of the effort of the search over levels that the search over circulants may add."""
_LOOK = 500
"""Transfers' worth of looking at any design."""
_PIECES = (1, 2, 4)
_FINE_PIECES = (8, 16)
"""Further numbers of pieces, tried for the best graph."""
_SLACKS = (1.0, 1.15)
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


class CirculantSearch:
    """Circulant graphs tried for one all-gather on one ring; deterministic, as effort is counted in transfers."""

    def __init__(self, task: RingTask) -> None:
        """Take the all-gather; chords pass at most half the ring, the channels' number of ranks, and light's reach."""
        self._task, self._longest = task, min(task.ranks // 2, task.channels, task.farthest)
        self._rng = np.random.default_rng(0)
        self._tried: dict[Circulant, float] = {}
        self._spent = 0.0

    def run(self, effort: float) -> tuple[Circulant, float] | None:
        """Return the fastest graph found and the seconds of the all-gather over it, circuits in place; None where none
        joins all ranks.

        ``effort`` counts transfers that may be scheduled.
        """
        for skips in regular_skips(self._task.ranks, self._task.channels, self._longest):
            self._try(Circulant(skips))
            if self._spent > effort / 2:
                break
        misses = 0
        while self._spent < 0.8 * effort and misses < _MISSES:
            if (design := self._step()) in self._tried:
                misses += 1
            else:
                self._try(design)
        for leader, pieces, slack in product(self._leaders(_REFINED), _PIECES, _SLACKS):
            if self._spent < effort:
                self._try(Circulant(leader.skips, pieces, slack))
        for leader, pieces in product(self._leaders(1), _FINE_PIECES):
            self._try(leader._replace(pieces=pieces))
        best = self._leaders(1)
        return (best[0], self._tried[best[0]]) if best and np.isfinite(self._tried[best[0]]) else None

    def grow(self, design: Circulant) -> RingTrees | None:
        """Return the chords of a design as circuits, and the trees and times of an all-gather over them; None where the
        chords do not fit the channels, pass too many ranks, or do not join all ranks."""
        ranks = self._task.ranks
        chords = shared_chords(ranks, self._task.channels, design.skips)
        if chords is None or design.skips[-1] > self._longest:
            return None
        rules = TreeRules(pieces=design.pieces, slack=design.slack)
        return grow_chords(rules, CirculantCircuits(ranks, chords), self._task)

    def _try(self, design: Circulant) -> None:
        """Grow the trees of a design, keep its seconds, infinite where it has no trees, and count the effort."""
        grown = self.grow(design)
        self._spent += _LOOK + len(design.skips) * self._task.ranks * design.pieces / 2
        self._tried[design] = np.inf if grown is None else grown.forest.time

    def _leaders(self, count: int) -> list[Circulant]:
        """Return the ``count`` fastest designs that were tried, or all if there are fewer, the fastest first; those
        that do not fit count as infinite."""
        return nsmallest(count, self._tried, key=lambda design: self._tried[design])

    def _step(self) -> Circulant:
        """Return a graph near one of the best, or any, in as many pieces as the best has."""
        leaders = self._leaders(_KEPT)
        skips = varied_skips([leader.skips for leader in leaders], self._longest, self._rng)
        return Circulant(skips, leaders[0].pieces if leaders else 2)


def regular_skips(ranks: int, channels: int, longest: int) -> Iterator[tuple[int, ...]]:
    """Yield lengths of chords in ranks, ascending: 1 ... a, and multiples of a stride that these bridge from both
    sides.

    The stride is 2a, 2a + 1 or 2a + 2. Only sets of at most 24 lengths up to ``longest`` are yielded whose sum is at
    most ``channels``, and whose longest goes at least an eighth of the way around, so that four hops may reach all
    ranks.
    """
    for near in range(1, longest + 1):
        for stride in (2 * near + 1, 2 * near, 2 * near + 2):
            for far in range(longest // stride + 1):
                skips = (*range(1, near + 1), *(stride * k for k in range(1, far + 1)))
                if sum(skips) <= channels and len(skips) <= _MOST_SKIPS and 4 * skips[-1] >= ranks // 2:
                    yield skips


def varied_skips(leaders: Sequence[tuple[int, ...]], longest: int, rng: np.random.Generator) -> tuple[int, ...]:
    """Return lengths of chords, ascending, near those of one of the leaders: one or two random changes, the first
    leaders more often.

    In a tenth of cases, or without leaders, they are 1 to 8 random lengths. Random lengths are up to ``longest``, short
    ones more often; a length may occur twice.
    """

    def length() -> int:
        """Return a random length up to the longest, short ones more often."""
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


_AT_HUBS = 0.06
"""Share of the effort of the search for all-gathers that the search for sums at hubs may add."""
_FEW_HOPS = 20
"""Hops' time of an all-gather above which a hop less counts for little."""
_FEW = 64
"""Ranks up to which sums by groups are tried; they move whole vectors."""
_STRAIGHT_PIECES = (1, 4, 16)
"""Pieces of a share that goes straight to all ranks as soon as it is summed up."""
_STRAIGHT_ROWS = 1 << 20
"""Rows above which sums that go straight to their ranks are not cut smaller."""


def gather(collective: Collective, fabric: Fabric) -> Iterator[Schedule]:
    """Yield queued all-gathers, reduce-scatters or all-reduces on standing circuits, not yet verified, by designs found
    for all-gathers.

    They are: the schedule on levels of chords, for an all-reduce always, else unless a circulant is faster; of an
    all-reduce one whose sums are completed at hubs, if that is faster; and the one on a circulant, if it is faster than
    levels. Designs are read from the cache on disk where it has them, else searched for and written to it.
    """
    task, most = RingTask.of(fabric, max(collective.nbytes_per_rank, 1.0)), effort(fabric.ranks)
    # What is proved of standing circuits that relay in few hops tells the search when it is done.
    proved = lower_bound(Collective("all-gather", task.ranks, task.ranks * task.nbytes), fabric).time
    bound, hop = max(task.bound, proved - fabric.setup_time), fabric.step_overhead + fabric.neighbour_latency()
    request = [task.ranks, task.channels, task.farthest, task.nbytes, *astuple(task.timing), most]
    design, cached = read_design(request) or (None, None)
    trees = make_trees(design, task) if design else None
    circulant, search = Circulant(*cached) if cached else None, CirculantSearch(task)
    if design is None or trees is None:
        design, trees = RingSearch(task, bound=bound).run(most)
        found = search.run(_SHARE * most) if trees.forest.time > NEAR * bound else None
        circulant = found[0] if found and found[1] < trees.forest.time else None
        write_design(request, design, circulant)
    grown = search.grow(circulant) if circulant else None
    if grown is not None and grown.forest.time >= trees.forest.time:
        grown = None
    # What is faster one way need not be where both ways overlap.
    if grown is None or collective.kind == "all-reduce":
        yield ring_schedule(collective, fabric, trees, _levels_note(design, trees, fabric))
    least = (grown or trees).forest.time
    if collective.kind == "all-reduce" and NEAR * bound < least <= _FEW_HOPS * hop:
        # Sums may be completed at any rank, so that hubs save the hops between them and the ranks around.
        design, trees = RingSearch(task, known=design, bound=bound).run(int(_AT_HUBS * most))
        if trees.forest.time < least:
            note = f"sums are completed at hubs; {_levels_note(design, trees, fabric)}"
            yield ring_schedule(collective, fabric, trees, note)
    if circulant is not None and grown is not None:
        lengths, width = " and ".join(map(str, circulant.skips)), grown.circuits.levels[0].width
        chords = f"chords of {lengths} ranks start at every rank and share wavelengths, {width} wide"
        note = f"{chords}; every share travels in {circulant.pieces} pieces"
        yield ring_schedule(collective, fabric, grown, note)


def in_few_steps(collective: Collective, fabric: Fabric) -> Iterator[Schedule]:
    """Yield all-gathers, reduce-scatters or all-reduces, not yet verified, for few ranks that share many wavelengths:
    over circuits for all pairs at once, and by WRHT's sums of groups.

    Nothing is yielded where light does not reach the farthest rank. Circuits for all pairs are tried where wavelengths
    suffice, with a schedule of one stage and for an all-reduce also queued ones; sums of groups for all-reduces among
    at most 64 ranks.
    """
    if fabric.reach is not None and fabric.reach < fabric.diameter():
        return
    if ring_all_to_all_wavelengths(fabric.ranks) <= fabric.usable_channels:
        straight = one_stage(collective, fabric, striped=True)
        yield replace(straight, algorithm="synthesized", notes=("every rank sends straight to every other",))
        if collective.kind == "all-reduce":
            yield from _straight_sums(collective, fabric)
    if collective.kind == "all-reduce" and fabric.ranks <= _FEW:
        yield _sums_by_groups(collective, fabric)


def _straight_sums(collective: Collective, fabric: Fabric) -> Iterator[Schedule]:
    """Yield queued all-reduces, not yet verified, over circuits between all pairs that carry sums to the rest while
    contributions still arrive.

    Nothing is set anew. Shares travel in 1, 4 and 16 pieces, one schedule each, those of more than 1,048,576 rows left
    out unless in one piece. Wavelengths must suffice for circuits between all pairs.
    """
    ranks = fabric.ranks
    source, destination, route, colour = ring_all_to_all(ranks)
    width = fabric.usable_channels // ring_all_to_all_wavelengths(ranks)
    circuits = StandingCircuits(ranks, source, destination, route, colour * width, np.full(len(colour), width))
    for pieces in _STRAIGHT_PIECES:
        if pieces == 1 or 2 * pieces * ranks * (ranks - 1) <= _STRAIGHT_ROWS:
            note = f"every rank sends straight to every other, contributions and sums in {pieces} pieces a share"
            yield gather_over(collective, fabric, circuits, pieces, note=note)


def _levels_note(design: Design, trees: RingTrees, fabric: Fabric) -> str:
    """Return a description of levels of chords, as :func:`chord_text` gives each, and of the pieces of a share, for the
    note of a schedule: "...; ...; every share travels in 4 pieces"."""
    chords = [chord_text(level.hubs, level.skips, level.width, fabric.ranks) for level in trees.circuits.levels]
    return f"{'; '.join(chords)}; every share travels in {design.pieces} pieces"


def set_anew(collective: Collective, fabric: Fabric) -> Iterator[Schedule]:
    """Yield schedules named "synthesized", not yet verified, whose circuits are set anew for each stage: OpTree's, and
    of an all-reduce also WRHT's."""
    yield replace(optree(collective, fabric, striped=True), algorithm="synthesized")
    if collective.kind == "all-reduce":
        yield _sums_by_groups(collective, fabric)


def _sums_by_groups(collective: Collective, fabric: Fabric) -> Schedule:
    """Return WRHT's striped all-reduce under the name "synthesized", not yet verified."""
    note = "groups add up in their middle, as WRHT's do"
    return replace(wrht(collective, fabric, striped=True), algorithm="synthesized", notes=(note,))
