"""All-gather by light that is tapped on its way: every rank's share over standing lightpaths with several destinations.

Drop and continue serves ranks that follow each other with one use of every link, however few the hops; with a limit on
the taps of a lightpath, pieces hop from one to the next. Whether light is bright enough for so many taps:
:mod:`lightloom.machines.fabrics.link_budget`.
"""

from dataclasses import dataclass, field, replace
from functools import lru_cache
from heapq import nsmallest
from itertools import pairwise, product
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from lightloom.collectives.collective import Collective
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.synthesis.engine.cache import effort
from lightloom.collectives.synthesis.engine.lightpaths import Lightpaths, Lines, arrange
from lightloom.collectives.synthesis.engine.queues import ring_schedule
from lightloom.collectives.synthesis.engine.trees import (
    HubCircuits,
    Level,
    RingTask,
    RingTrees,
    TreeRules,
    grow_design,
    hub_ranks,
    repetition,
)
from lightloom.collectives.synthesis.ring.search import NEAR, hub_counts, least_fitting
from lightloom.core.arrays import Floats, Ints, Mask
from lightloom.machines.fabrics.fabric import Fabric

# Standing lightpaths with taps, in levels, and the trees and times of a design over them.
#
# level 1   h ─────────────●─────────────●─────────────●    hubs every few ranks; taps at some hubs on the way
# level 0   ○─●─●─●                                         every rank reaches its next few ranks, both ways
#
# A lightpath is light for all its taps: one transmission serves several ranks and uses every link once.

_SWEEPS = 3
"""Rounds of balancing; later ones hardly move anything."""


class Arc(NamedTuple):
    """Lightpaths of one length with their taps."""

    hubs: int
    """Where lightpaths start; hub i is rank ⌊i · ranks / hubs⌋."""
    spacing: int
    """Ranks from tap to tap."""
    taps: int
    """Taps so far apart, the last one at the lightpath's end."""
    width: int
    """Wavelengths of a lightpath."""
    between: int = 0
    """Further taps, at ranks next to each other in the middle of each gap."""

    @property
    def links(self) -> int:
        """Links that a lightpath passes: ``spacing · taps``."""
        return self.spacing * self.taps

    @property
    def offsets(self) -> list[int]:
        """Ranks from the start to each tap (a rank that the lightpath serves), nearest first, those between
        included."""
        middle = [(self.spacing - self.between + 1) // 2 + offset for offset in range(self.between)]
        return [k * self.spacing + offset for k in range(self.taps) for offset in (*middle, self.spacing)]

    def level(self, ranks: int) -> Level:
        """Return chords (lightpaths from hub to hub) on a ring of ``ranks`` that are as long as these lightpaths,
        rounded up to whole hubs, and as wide: they take the same wavelengths."""
        return Level(self.hubs, -(-self.links * self.hubs // ranks), self.width)


@dataclass(frozen=True, slots=True)
class MulticastDesign(TreeRules):
    """Choices of a search: lightpaths with taps, and the rules by which trees grow over them."""

    arcs: tuple[Arc, ...]
    """Shortest first; the first starts at every rank and has a tap at every rank on its way."""
    pieces: int = field(default=1, kw_only=True)
    slack: float = field(default=1.1, kw_only=True)

    def sound(self, ranks: int, taps: int, reach: int | None) -> bool:
        """Return True when the first level starts at every rank and misses none, the hubs of each level above it are
        among those of the one before, and no lightpath has more than ``taps`` taps or passes more than ``reach`` links,
        or every link of the ring.

        Numbers out of range, such as a width or taps of 0, are not sound either.

        ``reach`` is None where light reaches everywhere.
        """
        base, most = self.arcs[0], ranks - 1 if reach is None else min(reach, ranks - 1)
        return (
            (base.hubs, base.spacing) == (ranks, 1)
            and all(arc.taps >= 1 and arc.width >= 1 and 1 <= arc.links <= most for arc in self.arcs)
            and all(0 <= arc.between < arc.spacing and arc.taps * (1 + arc.between) <= taps for arc in self.arcs)
            and all(2 <= arc.hubs <= ranks for arc in self.arcs)
            and all(below.hubs % above.hubs == 0 for below, above in pairwise(self.arcs[1:]))
        )

    def wavelengths(self, ranks: int) -> int:
        """Return the wavelengths of a link that all levels take, each way; the design being sound."""
        return sum(level.wavelengths for level in self.levels(ranks))

    def levels(self, ranks: int) -> tuple[Level, ...]:
        """Return the arcs as chords on a ring of ``ranks``, one level for each, as :meth:`Arc.level` makes them."""
        return tuple(arc.level(ranks) for arc in self.arcs)

    def period(self, ranks: int) -> int:
        """Return the number of ranks after which circuits and trees repeat: all of them where the hubs of some level do
        not divide them."""
        return repetition(ranks, self.levels(ranks))


def make_multicast_trees(design: MulticastDesign, task: RingTask) -> RingTrees | None:
    """Return the circuits of a design with the trees and times of an all-gather over them; None where these do not
    reach every rank.

    The design must be sound and fit the channels.

    Time: period · ranks · pieces, times the taps, times the logarithm of what waits.
    """
    circuits = HubCircuits(task.ranks, design.levels(task.ranks))
    paths, lines, links = _lightpaths(task.ranks, circuits.period, tuple(arc._replace(width=1) for arc in design.arcs))
    return grow_design(design, circuits, paths, lines, links, task, sweeps=_SWEEPS)


@lru_cache(maxsize=32)
def _lightpaths(ranks: int, period: int, arcs: tuple[Arc, ...]) -> tuple[Lightpaths, Lines, Ints]:
    """Return the lightpaths of levels without times, the rules of their lines, and the links from each origin to its
    tap: [tap].

    ``arcs`` are the levels, shortest first, and ``period`` is the number of ranks after which they repeat. Line
    2 · level + direction holds the lightpaths of one level, clockwise first; queues are numbered line · period + the
    origin's place in its period.
    """
    columns = []
    for number, arc in enumerate(arcs):
        hub, offsets = hub_ranks(ranks, arc.hubs), np.array(arc.offsets)
        for direction in range(2):
            tap, at = (axis.ravel() for axis in np.indices((len(offsets), arc.hubs)))
            line = np.full(len(tap), 2 * number + direction)
            target = (hub[at] + (1 - 2 * direction) * offsets[tap]) % ranks
            columns.append((hub[at], target, line, offsets[tap], tap == len(offsets) - 1))
    origin, target, line, links, last = (np.concatenate(column) for column in zip(*columns, strict=True))
    paths, order = arrange(ranks, period, origin, target, line * ranks + origin, line * period + origin % period)
    # Lightpaths are numbered in the order in which their taps stand.
    path = np.cumsum(np.diff(paths.path, prepend=-1) != 0, dtype=np.int32) - np.int32(1)
    dense = np.repeat([arc.spacing == 1 for arc in arcs], 2)
    none, longest = np.zeros(len(order), np.int32), np.full(len(dense), ranks, np.int64)
    lines = Lines(line[order].astype(np.int32), last[order], none, np.zeros(len(dense), np.bool_), dense, longest)
    return paths._replace(path=path), lines, links[order]


# Which multicast designs are worth growing trees for: a time for each in closed form.
#
# Three levels at most: lightpaths from every rank to the next few, wider ones of the same kind from hubs, and long
# ones with taps far apart. A piece climbs to a hub, takes a line of long lightpaths each way, and is spread from both
# ends of the gaps between their taps:
#
# depth   climb + line/length + gap/2 and the tail beyond the line, in lightpaths of the levels below
# loads   transmissions of a tree each way · ranks between hubs · bytes / wavelength
#
# Loads fall with the wavelengths of a level, so the least time at which all levels fit the fibre is found by
# bisection, for all combinations at once.

_NEAR_TAPS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32)
"""Taps of lightpaths that leave no rank out."""
_FAR_TAPS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32)
"""Taps of lightpaths that do."""
_GAPS = (2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256, 384, 512)
"""Ranks from tap to tap of lightpaths that leave ranks out."""
_PARTS = (1.0, 0.75, 0.5, 0.35, 0.2, 0.1)
"""Parts of a half ring that the line of long lightpaths may cover."""
_BISECTIONS = 14
_MOST_CANDIDATES = 3000


def multicast_candidates(task: RingTask, taps: int) -> list[tuple[float, MulticastDesign]]:
    """Return pairs of estimated seconds and a design of one to three levels, the best first, at most 3000; each has one
    piece.

    One design is returned of those that differ in the line's length alone, the fastest. Widths fill the channels as far
    as they can.

    Args:
        taps: most ranks that a lightpath may serve.
    """
    ranks, channels, timing = task.ranks, task.channels, task.timing
    base, fill, top = _options(ranks, taps, min(task.farthest, ranks - 1))
    grid = np.meshgrid(*(np.arange(len(options)) for options in (base, fill, top, _PARTS)), indexing="ij")
    which = np.stack([axis.ravel() for axis in grid], axis=1)
    b, f, t = base[which[:, 0]], fill[which[:, 1]], top[which[:, 2]]
    sound = (f[:, 0] == 0) | (f[:, 2] > b[:, 2])
    # Taps of long lightpaths must be hubs of the level below, where these are evenly spread, and without any there is
    # no line to be cut short.
    on_hubs = (t[:, 1] * f[:, 0] % ranks == 0) | (ranks % np.maximum(f[:, 0], 1) != 0)
    sound &= (t[:, 0] == 0) | (f[:, 0] == 0) | ((f[:, 0] % np.maximum(t[:, 0], 1) == 0) & on_hubs)
    sound &= (t[:, 0] > 0) | (which[:, 3] == 0)
    which, b, f, t = which[sound], b[sound], f[sound], t[sound]
    depth, loads = _estimated(ranks, b, f, t, np.array(_PARTS)[which[:, 3]], task.nbytes / timing.bandwidth)
    colours = _colours(ranks, b, f, t)
    seconds, inside = _fitted(loads, colours, channels)
    hops = depth * timing.hop
    total = np.where(inside, np.maximum(seconds, hops) + 0.5 * np.minimum(seconds, hops), np.inf)
    order = np.argsort(total, kind="stable")
    order = order[np.isfinite(total[order])]
    _, first = np.unique(which[order, :3], axis=0, return_index=True)
    candidates = []
    for row in order[np.sort(first)][:_MOST_CANDIDATES].tolist():
        levels, part = (b[row], f[row], t[row]), _PARTS[which[row, 3]]
        candidates.append((float(total[row]), _design(ranks, channels, levels, loads[row], colours[row], part)))
    return candidates


def _options(ranks: int, taps: int, farthest: int) -> tuple[Ints, Ints, Ints]:
    """Return the lightpaths to choose from on each of three levels: [option, (hubs, ranks from tap to tap, taps,
    further taps in each gap)] each, as in :class:`Arc`.

    In the two upper levels the first option, with 0 hubs, stands for no such level.

    Args:
        taps: most taps of a lightpath.
        farthest: most links of a lightpath.
    """
    near = sorted({count for count in (*_NEAR_TAPS, taps) if count <= min(taps, farthest)})
    far = sorted({count for count in (*_FAR_TAPS, taps) if count <= taps})
    hubs = hub_counts(ranks)
    base = [(ranks, 1, count, 0) for count in near]
    fill = [(0, 1, 1, 0), *((start, 1, count, 0) for start in hubs if start < ranks for count in near if count > 1)]
    top = [
        (start, gap, count, min(taps // count, gap) - 1)
        for start in hubs
        for gap in _GAPS
        for count in far
        if gap * count <= min(farthest, ranks // 2 + gap) and 2 * gap * start >= ranks and gap * count * start >= ranks
    ]
    return tuple(np.array(level, np.int64) for level in (base, fill, [(0, 1, 1, 0), *top]))  # type: ignore[return-value]


def _colours(ranks: int, *levels: Ints) -> Ints:
    """Return the fewest wavelengths of a link that each level takes at width 1, 0 for absent levels: [row, level].

    Args:
        levels: for each level its lightpaths in every row: [row, (hubs, ranks from tap to tap, taps, further taps in
            each gap)], as in :class:`Arc`; 0 hubs where it is absent.
    """
    colours = []
    for level in levels:
        hubs = np.maximum(level[:, 0], 1)
        skip = -(-level[:, 1] * level[:, 2] * hubs // ranks)
        taken = np.where(skip <= 1, 1, -(-hubs // np.maximum(hubs // np.maximum(skip, 1), 1)))
        colours.append(np.where(level[:, 0] == 0, 0, taken))
    return np.stack(colours, axis=1)


def _estimated(ranks: int, base: Ints, fill: Ints, top: Ints, part: Floats, seconds: float) -> tuple[Floats, Floats]:
    """Return the estimated receptions on the longest path [row], and the seconds that a lightpath of each level is busy
    at width 1 [row, level].

    Args:
        base, fill, top: lightpaths of the three levels: [row, (hubs, ranks from tap to tap, taps, further taps in each
            gap)], as in :class:`Arc`, hub i at rank ⌊i · ranks / hubs⌋; 0 hubs where a level is absent.
        part: part of a half ring that the line of long lightpaths covers: [row].
        seconds: seconds of a share on one wavelength.
    """
    half = (ranks - 1) / 2
    has_fill, has_top = fill[:, 0] > 0, top[:, 0] > 0
    stride = [ranks / np.maximum(level[:, 0], 1) for level in (base, fill, top)]
    length = top[:, 1] * top[:, 2]
    lines = np.where(has_top, np.ceil(part * half / length), 0)
    line = np.minimum(half, lines * length)
    gaps = np.where(has_top, 2 * line / top[:, 1], 0)
    sides = np.where(top[:, 3] > 0, 4, 2)
    reach = np.where(has_fill, fill[:, 2], base[:, 2])
    steps = np.ceil(np.where(has_top, (top[:, 1] - 1 - top[:, 3]) / sides, 0) / reach)
    tail = np.ceil(np.maximum(0.0, half - line) / reach)
    spread = gaps * sides * steps + 2 * tail
    climb = np.ceil(np.where(has_fill, stride[1], np.where(has_top, stride[2], 1)) / 2 / base[:, 2])
    depth = climb + lines + np.maximum(steps, tail)
    # Between taps only lightpaths from certain hubs are used, and half of them where lines all tap the same hubs.
    below, far = np.where(has_fill, ranks // np.maximum(fill[:, 0], 1), 1), np.maximum(stride[2], 1).astype(np.int64)
    uneven = np.maximum(1, np.gcd(far, reach) // below) * np.clip(2 * stride[2] / top[:, 1], 1, 2)
    uneven = np.where(has_top, uneven, np.where(has_fill, np.maximum(1, reach // below), 1))
    of_base = climb + np.where(has_fill, 0, spread / 2 * uneven)
    of_fill = np.where(has_fill, spread / 2 * stride[1] * uneven, 0)
    of_top = lines * np.where(has_top, stride[2], 0)
    return depth, np.stack([of_base, of_fill, of_top], axis=1) * seconds


def _fitted(loads: Floats, colours: Ints, channels: int) -> tuple[Floats, Mask]:
    """Return the least seconds at which every level has the wavelengths that it needs, and True where the levels fit
    the channels at all: [row] each.

    Args:
        loads: seconds that a lightpath is busy at width 1: [row, level].
        colours: wavelengths of a link that a level takes at width 1: [row, level].
        channels: wavelengths of each link, each way.
    """

    def fits(limit: Floats) -> Mask:
        """Return whether each row's levels fit the channels if lightpaths are busy so long: [row]."""
        return np.asarray((np.maximum(1, np.ceil(loads / limit[:, None])) * colours).sum(axis=1) <= channels)

    high = np.maximum(loads.max(axis=1), 1e-15)
    inside = fits(high)
    return least_fitting(fits, high / channels, high, _BISECTIONS), inside


def _design(
    ranks: int, channels: int, levels: tuple[Ints, ...], loads: Floats, colours: Ints, part: float
) -> MulticastDesign:
    """Return the design of these levels with widths in channels: 1 each, then one channel more at a time for the level
    that is busiest at its width, while channels are left.

    Args:
        levels: lightpaths of each level: (hubs, ranks from tap to tap, taps, further taps in each gap), as in
            :class:`Arc`; 0 hubs where it is absent.
        loads: seconds that a lightpath of each level is busy at width 1: [level].
        colours: wavelengths of a link that each level takes at width 1, 0 where it is absent: [level].
        part: part of a half ring that the line of long lightpaths covers.
    """
    width = np.where(colours > 0, 1, 0)
    while True:
        left = channels - int(colours @ width)
        pressing = np.where((colours > 0) & (colours <= left), loads / np.maximum(width, 1), -1.0)
        most = int(np.argmax(pressing))
        if pressing[most] < 0 or (pressing[most] == 0 and most):
            break
        width[most] += 1
    arcs = tuple(
        Arc(int(hubs), int(spacing), int(taps), int(wide), int(between))
        for (hubs, spacing, taps, between), wide in zip(levels, width, strict=True)
        if wide
    )
    longest = int(np.ceil(part * (ranks - 1) / 2 / arcs[-1].links))
    return MulticastDesign(arcs, longest=longest if part < 1 and len(arcs) > 1 else None)


# The best multicast design for a ring: candidates in the order of their estimate, then random steps from the best.
#
# Deterministic: the effort is counted in receptions scheduled, not in seconds, and the steps are seeded.

_LEADERS = 8
"""Designs that random steps start from."""
_PIECES = (1, 2, 3, 4, 6, 8, 12, 16)
_SLACKS = (1.1, 1.35, 1.7, 2.2, 3.0)
_SHARE = 0.3
"""Share of the effort for candidates in the order of their estimates."""
_QUICK = 0.1
"""Share of a hop's time in which a piece is to be sent."""
_QUICK_PART = 0.004
"""Share of the effort that a candidate in many pieces may take."""
_LARGEST_PART = 0.02
"""Share of the effort that one design may take."""
_OVERHEAD = 1500
"""Receptions that would take as long to schedule as the rest of trying a design."""
_LARGEST_TABLE = 1 << 22
"""Receptions of one design above which it is not tried."""
_MOST_MISSES = 20_000
_MOST_ARCS = 5


class MulticastSearch:
    """Designs tried for one all-gather on one ring."""

    def __init__(self, task: RingTask, taps: int) -> None:
        """Take one all-gather, and the most ranks that a lightpath may reach."""
        self._task, self._ranks, self._channels, self._taps = task, task.ranks, task.channels, taps
        self._spent = 0
        self._tried: dict[MulticastDesign, float] = {}
        self._best = (np.inf, MulticastDesign(()))
        self._leading: dict[tuple[tuple[int, int], ...], MulticastDesign] = {}

    def run(self, effort: int) -> tuple[MulticastDesign, RingTrees]:
        """Return the fastest design found, and its circuits and trees.

        Lightpaths from every rank to the next few alone are tried first, then candidates by their estimate, then random
        steps from the best. The search ends early once a design takes at most a hundredth more than the bound.

        Args:
            effort: receptions that may be scheduled.
        """
        most = min(self._taps, self._ranks - 1)
        for pieces, near in product(_PIECES, sorted({1, *(count for count in (2, 4, 5, 8, most) if count <= most)})):
            alone = Arc(self._ranks, 1, near, 1)
            width = self._channels // alone.level(self._ranks).colours
            self._try(MulticastDesign((alone._replace(width=width),), pieces=pieces))
        if not self._content():
            self._sweep(multicast_candidates(self._task, self._taps), effort)
        self._walk(effort)
        trees = make_multicast_trees(self._best[1], self._task)
        assert trees is not None
        return self._best[1], trees

    def _sweep(self, candidates: list[tuple[float, MulticastDesign]], effort: int) -> None:
        """Try ``candidates``, pairs of estimated seconds and a design, in their order, each in the number of pieces
        that :meth:`_pieces` returns, and keep their seconds and the fastest design.

        All periods of trees together get 30 % of ``effort``, counted in receptions, each period the same share, and the
        sweep ends early once the best takes at most a hundredth more than the bound.
        """
        classes: dict[int, list[MulticastDesign]] = {}
        for _, design in candidates:
            classes.setdefault(design.period(self._ranks), []).append(design)
        for designs in classes.values():
            until = self._spent + _SHARE * effort / len(classes)
            for design in designs:
                if self._content() or self._spent > until:
                    break
                self._try(replace(design, pieces=self._pieces(design, effort)))

    def _pieces(self, design: MulticastDesign, effort: int) -> int:
        """Return the least number of pieces with which a piece is sent in a tenth of a hop, since long paths take the
        time of a piece at every hop.

        It is at most 16, and fewer where that many would take more than 0.4 % of the effort, in receptions.
        """
        timing = self._task.timing
        sending = self._task.nbytes / (min(arc.width for arc in design.arcs) * timing.bandwidth)
        most = _QUICK_PART * effort / self._cost(design)
        quick = next((pieces for pieces in _PIECES if sending <= pieces * _QUICK * timing.hop), _PIECES[-1])
        return max(pieces for pieces in _PIECES if pieces == 1 or (pieces <= quick and pieces <= most))

    def _content(self) -> bool:
        """Return True when the best design takes at most a hundredth more than the bound."""
        return self._best[0] <= NEAR * self._task.bound

    def _try(self, design: MulticastDesign) -> None:
        """Grow the trees of a design that fits, and keep its seconds; infinite where it does not fit, has 2^22
        receptions (:meth:`_cost`) or more, or misses ranks.

        A design that was tried before is not tried again.
        """
        if design in self._tried:
            return
        self._tried[design] = np.inf
        cost = self._cost(design) if self._fits(design) else _LARGEST_TABLE
        if cost >= _LARGEST_TABLE:
            return
        self._spent += cost + _OVERHEAD
        trees = make_multicast_trees(design, self._task)
        if trees is not None:
            self._tried[design] = seconds = trees.forest.time
            shape = tuple((arc.hubs, arc.spacing) for arc in design.arcs)
            if shape not in self._leading or seconds < self._tried[self._leading[shape]]:
                self._leading[shape] = design
            self._best = min(self._best, (seconds, design), key=itemgetter(0))

    def _cost(self, design: MulticastDesign) -> int:
        """Return the number of receptions that a design schedules: period of its trees · ranks · pieces."""
        return design.period(self._ranks) * self._ranks * design.pieces

    def _fits(self, design: MulticastDesign) -> bool:
        """Return True when a design is sound and has no more wavelengths than the ring."""
        return (
            design.sound(self._ranks, self._taps, self._task.reach)
            and design.wavelengths(self._ranks) <= self._channels
        )

    def _walk(self, effort: int) -> None:
        """Try random steps away from the best designs of the eight fastest shapes, as hubs and spacings of all levels,
        until ``effort`` receptions are spent in all, the best takes at most a hundredth more than the bound, or 20,000
        steps led to no design that is new and takes at most 2 % of the effort."""
        rng = np.random.default_rng(0)
        misses = 0
        while self._spent < effort and not self._content() and misses < _MOST_MISSES:
            # The best of each shape, since the best of all are all alike.
            leaders = nsmallest(_LEADERS, self._leading.values(), key=lambda tried: self._tried[tried])
            design = self._step(leaders[min(int(rng.exponential(1.5)), len(leaders) - 1)], rng)
            if rng.random() < 0.3 and design is not None:
                design = self._step(design, rng)
            if design is None or design in self._tried or self._cost(design) > _LARGEST_PART * effort:
                misses += 1
            else:
                self._try(design)

    def _step(self, design: MulticastDesign, rng: np.random.Generator) -> MulticastDesign | None:
        """Return a design that differs in one random choice: pieces, slack, length of the top level's line, ranks
        walked before it, or one level added, removed or changed, with widths changed until the channels are filled.
        None where it is not sound, or does not fit at width 1."""
        arcs, kind = list(design.arcs), int(rng.integers(0, 10))
        at = int(rng.integers(0, len(arcs)))
        if kind == 0:
            return replace(design, pieces=int(rng.choice(_PIECES)))
        if kind == 1:
            return replace(design, slack=float(rng.choice(_SLACKS)))
        if kind == 2 and len(arcs) > 1:
            half = -(-self._ranks // 2 // arcs[-1].links)
            longest = (design.longest or half) + int(rng.choice((-3, -2, -1, 1, 2, 3)))
            return replace(design, longest=None if longest >= half else max(1, longest))
        if kind == 3 and len(arcs) > 1:
            tail = self._ranks / 2 - (design.longest or 0) * arcs[-1].links
            return replace(design, walk=max(0, int(rng.choice((0, 0.25, 0.5, 0.75, 1.0)) * tail)))
        if kind == 4 and len(arcs) < _MOST_ARCS:
            arcs.append(self._arc(rng))
        elif kind == 5 and at:
            del arcs[at]
        else:
            arcs[at] = self._changed(arcs[at], base=at == 0, rng=rng)
        arcs[1:] = sorted(arcs[1:], key=lambda arc: (arc.links, -arc.hubs))
        return self._filled(replace(design, arcs=tuple(arcs)), rng)

    def _filled(self, design: MulticastDesign, rng: np.random.Generator) -> MulticastDesign | None:
        """Return the design with wavelengths taken from, or given to, random levels until the fibre is just filled.

        None where it is not sound, or does not fit at width 1.
        """
        if not design.sound(self._ranks, self._taps, self._task.reach):
            return None
        arcs = list(design.arcs)
        colours = [arc.level(self._ranks).colours for arc in arcs]
        left = self._channels - sum(c * arc.width for c, arc in zip(colours, arcs, strict=True))
        while left < 0:
            wide = [i for i, arc in enumerate(arcs) if arc.width > 1]
            if not wide:
                return None
            at = wide[int(rng.integers(0, len(wide)))]
            arcs[at], left = arcs[at]._replace(width=arcs[at].width - 1), left + colours[at]
        while fitting := [i for i, colour in enumerate(colours) if colour <= left]:
            at = fitting[int(rng.integers(0, len(fitting)))]
            more = max(1, left // colours[at] // 2)
            arcs[at], left = arcs[at]._replace(width=arcs[at].width + more), left - more * colours[at]
        return replace(design, arcs=tuple(arcs))

    def _changed(self, arc: Arc, *, base: bool, rng: np.random.Generator) -> Arc:
        """Return lightpaths with one random change: of width, taps, hubs, spacing, taps between, or spacing and taps.

        ``base`` ones change in width or taps only.
        """
        most = self._taps
        kind = int(rng.integers(0, 2 if base else 6))
        if kind == 0:
            return arc._replace(width=max(1, arc.width + int(rng.choice((-2, -1, 1, 2)))))
        if kind == 1:
            taps = int(np.clip(arc.taps + rng.choice((-2, -1, 1, 2)), 1, most))
            return arc._replace(taps=taps, between=min(arc.between, most // taps - 1))
        if kind == 2:
            return arc._replace(hubs=int(rng.choice(hub_counts(self._ranks))))
        stride = max(1, self._ranks // arc.hubs)
        if kind == 3:
            return arc._replace(spacing=max(1, arc.spacing + stride * int(rng.choice((-1, 1)))))
        if kind == 4:
            return arc._replace(between=int(rng.integers(0, most // arc.taps)))
        factor = float(rng.choice((0.5, 2.0)))
        spacing, taps = max(1, round(arc.spacing * factor)), int(np.clip(round(arc.taps / factor), 1, most))
        return arc._replace(spacing=spacing, taps=taps, between=min(spacing, most // taps) - 1)

    def _arc(self, rng: np.random.Generator) -> Arc:
        """Return random lightpaths, 1 wide; about two of five have a tap at every rank.

        Others have taps some hubs apart, and further ones between as far as the limit on taps allows.
        """
        hubs = int(rng.choice(hub_counts(self._ranks)))
        stride = max(1, self._ranks // hubs)
        taps = int(rng.integers(1, self._taps + 1))
        if rng.random() < 0.4:
            return Arc(hubs, 1, taps, 1)
        spacing = stride * int(rng.integers(1, max(2, self._ranks // 2 // (stride * taps) + 1)))
        return Arc(hubs, spacing, taps, 1, min(self._taps // taps, spacing) - 1)


_EFFORT = 0.6
"""Effort over that of a search for chords: taps make a reception dearer."""


def multicast(collective: Collective, fabric: Fabric) -> Schedule:
    """Return a queued all-gather on a ring's standing lightpaths, each with as many taps as ``fabric.taps`` at most, as
    fast as a seeded search finds, not yet verified; shares of less than a byte are searched as one byte."""
    task = RingTask.of(fabric, max(collective.nbytes_per_rank, 1.0))
    carrying = (task.ranks - 1) * task.nbytes / (2 * task.channels * task.timing.bandwidth)
    task = replace(task, bound=task.timing.hop + fabric.neighbour_latency() + carrying)
    design, trees = MulticastSearch(task, fabric.taps).run(int(_EFFORT * effort(task.ranks)))
    kinds = "; ".join(_arc(arc, task.ranks) for arc in design.arcs)
    return ring_schedule(collective, fabric, trees, f"{kinds}; every share travels in {design.pieces} pieces")


def _arc(arc: Arc, ranks: int) -> str:
    """Return a description of lightpaths of one length for the note of a schedule: "lightpaths from every rank to 4
    ranks next, 2 wavelengths wide", or from "each of 16 hubs" to ranks "8 apart and 3 between any two"."""
    hubs = "every rank" if arc.hubs == ranks else f"each of {arc.hubs} hubs"
    stride = "next" if arc.spacing == 1 else f"{arc.spacing} apart"
    stride += f" and {arc.between} between any two" if arc.between else ""
    return f"lightpaths from {hubs} to {arc.taps} ranks {stride}, {arc.width} wavelengths wide"
