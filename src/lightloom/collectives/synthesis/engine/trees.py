"""Designs of circuits in levels on a ring, and the trees over them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from lightloom.collectives.bounds.link_use import joint_seconds
from lightloom.collectives.synthesis.engine import kernels
from lightloom.collectives.synthesis.engine.lightpaths import Lightpaths, Lines, Transmissions, Trees, arrange
from lightloom.core.arrays import Floats, Int32s, Ints
from lightloom.machines.fabrics.fabric import Fabric

# Lightpaths become broadcast trees and the times at which their pieces are sent.
#
# lightpaths ──► a tree for every piece of one period of roots ──► queues shared evenly ──► list schedule


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """Trees of all pieces of one period of roots, with their times; arrays [piece, root, rank]."""

    paths: Lightpaths
    tap: Int32s
    """Tap by which each rank receives; −1 at the root."""
    begin: Floats
    """Seconds at which the piece is sent to the rank."""
    time: float
    """Seconds until the last arrival, circuits in place."""

    @property
    def pieces(self) -> int:
        """Parts of every rank's share that travel on trees of their own."""
        return len(self.tap)


def grow_forest(
    paths: Lightpaths, lines: Lines, walks: Sequence[int], *, deadline: float, sweeps: int, roots: Ints | None = None
) -> Forest | None:
    """Return trees of one period of roots for as many pieces as there are ``walks``, with the times at which list
    scheduling sends them; None where a rank is not reached.

    Time: pieces · period · taps, times the logarithm of what waits.

    Args:
        lines: rules by which lightpaths follow each other: a line is those of one level and direction.
        walks: ranks ahead of the root before which a piece enters no line of the highest level: [piece].
        deadline: seconds by which trees may end, if nothing waits, so that lightpaths are shared more evenly; that of
            the deepest tree if it is later.
        sweeps: rounds of balancing.
        roots: ranks at which the trees of one period begin, all of them by default; several may begin at one: [root].
    """
    shape = (len(walks), paths.period, len(paths.leaving) - 1)
    trees = Trees(np.empty(shape, np.int32), np.empty(shape), np.empty(shape, np.int32))
    load = np.zeros(len(paths.busy))
    roots = np.arange(paths.period) if roots is None else roots
    if not kernels.grow(paths, lines, np.array(walks, np.int64), roots, trees, load):
        return None
    kernels.rebalance(paths, trees, load, max(float(trees.arrival.max()), deadline), sweeps)
    return scheduled(paths, trees.tap, trees.order)


def scheduled(paths: Lightpaths, tap: Int32s, order: Int32s) -> Forest:
    """Return trees with the times at which list scheduling sends their pieces.

    Args:
        tap, order: tap by which each rank receives, −1 at the root, [piece, root, rank], and the ranks in an order in
            which each comes after its parent, [piece, root, place].
    """
    begin = np.zeros(tap.shape)
    sends = Transmissions(*kernels.transmissions(paths, tap, order))
    time = kernels.list_schedule(paths.queue, paths.delay, paths.busy, sends, begin.reshape(-1))
    return Forest(paths, tap, begin, float(time))


# Static circuits of a ring in levels: unit links between neighbours, and chords between hubs, the same all around.
#
# level 1   h ───────────────► h ───────────────► h        hubs: every few ranks, evenly spread
# level 0   ○ ─► ○ ─► ○ ─► ○ ─► ○ ─► ○ ─► ○ ─► ○ ─► ○      every rank is a hub; both directions alike
#
# A chord joins a hub to the one ``skip`` hubs on and bundles ``width`` wavelengths. Chords of one level overlap, so
# that a level takes ``colours · width`` wavelengths of every link: with m hubs, one colour holds ⌊m/skip⌋ chords, and
# cutting the hubs into that many nearly equal blocks, each at least ``skip`` long, shows that ⌈m/⌊m/skip⌋⌉ colours
# do.


class Level(NamedTuple):
    """Chords of one length."""

    hubs: int
    """Hub i is rank ⌊i · ranks / hubs⌋."""
    skip: int
    """Hubs that a chord reaches ahead."""
    width: int
    """Wavelengths of a chord."""

    @property
    def skips(self) -> tuple[int, ...]:
        """Number of hubs that chords (lightpaths from each hub to one farther on) reach ahead, the one length of the
        level, in a tuple."""
        return (self.skip,)

    @property
    def colours(self) -> int:
        """Wavelengths of a link that chords of one wavelength, from each hub to the one ``skip`` hubs ahead, take
        together, each way: 1 where chords join neighbouring hubs, otherwise ⌈hubs / ⌊hubs / skip⌋⌉."""
        return 1 if self.skip == 1 else -(-self.hubs // (self.hubs // self.skip))

    @property
    def wavelengths(self) -> int:
        """Wavelengths of a link that the level takes, each way: its colours times the wavelengths of a chord."""
        return self.colours * self.width

    def length(self, ranks: int) -> float:
        """Return the ranks that a chord reaches ahead, on average: skip · ranks / hubs."""
        return self.skip * ranks / self.hubs

    def coloured(self) -> Iterator[tuple[int, Ints]]:
        """Yield one pair: the hubs that each chord of the level reaches ahead, and the colour of the chord from each
        hub, [hub]. The colour is the hub's place, from 0, in its block, where ⌊hubs / skip⌋ blocks of nearly equal size
        divide the ring."""
        hub = np.arange(self.hubs, dtype=np.int64)
        first = np.arange(self.hubs // self.skip, dtype=np.int64) * self.hubs // (self.hubs // self.skip)
        yield self.skip, hub - first[np.searchsorted(first, hub, side="right") - 1]


class MixedTours(NamedTuple):
    """Chords of several lengths that share wavelengths: those of a tour follow each other around the ring."""

    hubs: int
    skips: tuple[int, ...]
    """Hubs that chords pass, ascending; a length that is listed twice has two chords."""
    width: int

    @property
    def skip(self) -> int:
        """Number of hubs that the shortest chords (lightpaths between hubs) reach ahead."""
        return self.skips[0]

    @property
    def colours(self) -> int:
        """Wavelengths of a link that chords of one wavelength, one of each length from every hub, take together, each
        way: the least divisor of the hubs that is no less than the sum of the lengths."""
        colours = tour_colours(self.hubs, self.hubs, self.skips)
        assert colours is not None
        return colours

    @property
    def wavelengths(self) -> int:
        """Wavelengths of a link that all chords take, each way: the colours times the wavelengths of a chord."""
        return self.colours * self.width

    def coloured(self) -> Iterator[tuple[int, Ints]]:
        """Yield, for each length, shortest first, the hubs that its chords reach ahead, and the colour, from 0, of the
        chord from each hub: [hub]."""
        return tour_places(self.hubs, self.skips, self.colours)


def tour_places(hubs: int, skips: Sequence[int], colours: int) -> Iterator[tuple[int, Ints]]:
    """Yield each length in ``skips``, in hubs, of chords that follow each other in tours (one chord of each length, end
    to end on one wavelength), and the colour of the chord of that length from each hub: [hub].

    The colour is the number, modulo ``colours``, of the hub where the chord's tour begins, which is as many hubs before
    as the lengths listed before add up to. ``colours`` is the number of colours, which divides the hubs.
    """
    passed = 0
    for skip in skips:
        yield skip, (np.arange(hubs, dtype=np.int64) - passed) % colours
        passed += skip


def shared_chords(ranks: int, channels: int, skips: tuple[int, ...]) -> tuple[Level | MixedTours, ...] | None:
    """Return chords (lightpaths) of the lengths ``skips``, in ranks, ascending, from every rank, on wavelengths that
    they share, as wide as there is room for, and then unit links (lightpaths between neighbours) on the channels that
    are left, if any; None where the chords do not fit the ``channels`` of each link, each way, or one is longer than
    half the ring."""
    colours = tour_colours(ranks, channels, skips)
    if colours is None:
        return None
    tours, left = MixedTours(ranks, skips, channels // colours), channels % colours
    return (tours, Level(ranks, 1, left)) if left else (tours,)


class Chords(NamedTuple):
    """Chords of one length with their channels."""

    hubs: int
    skip: int
    width: int
    channel: Ints
    """First channel of the chord from each hub, the same both ways: [hub]."""


@dataclass(frozen=True)
class HubCircuits:
    """Levels on a ring of ranks, unit links first and the longest chords last."""

    ranks: int
    levels: tuple[Level | MixedTours, ...]

    @classmethod
    def of(cls, ranks: int, channels: int, chords: Sequence[Level]) -> HubCircuits | None:
        """Return chords (lightpaths from hub to hub) as levels above unit links (lightpaths between neighbours) on the
        channels that the chords leave; None where these circuits cannot be.

        That is where the chords leave no channel, hubs of a level are not among those of the level below, or a chord
        has no wavelength, is not longer than those before it or than a unit link, or passes all hubs of its level.

        Args:
            channels: wavelengths of each link, each way.
            chords: levels without the unit links, the shortest chords first.
        """
        if not all(1 <= chord.skip < chord.hubs <= ranks and chord.length(ranks) > 1 for chord in chords):
            return None
        left = channels - sum(chord.wavelengths for chord in chords)
        nested = all(
            below.hubs % above.hubs == 0 and below.skip * above.hubs < above.skip * below.hubs
            for below, above in pairwise(chords)
        )
        if left < 1 or not nested or any(chord.width < 1 for chord in chords):
            return None
        return cls(ranks, (Level(ranks, 1, left), *chords))

    @cached_property
    def period(self) -> int:
        """Ranks after which circuits and trees repeat: the ranks over the fewest hubs of any level, or all of them
        where the hubs of some level do not divide them."""
        return repetition(self.ranks, self.levels)

    @property
    def free(self) -> int:
        """Number of lengths of ``chords``, the first ones, whose chords a tree may use from any rank: 1, unit links
        alone; the others only from hubs, one behind the other."""
        return 1

    def base(self, level: int) -> int:
        """Return the first channel of level number ``level``: unit links, level 0, come last, so that chords keep their
        channels whatever is left."""
        others = (*self.levels[1:], self.levels[0])
        return sum(other.wavelengths for other in others[: (level - 1) % len(self.levels)])

    @cached_property
    def chords(self) -> list[Chords]:
        """Chords of each length of each level, by level and within one by length: number of hubs, hubs that a chord
        reaches ahead, width in wavelengths, and the first channel of the chord from each hub."""
        return [
            Chords(level.hubs, skip, level.width, self.base(number) + places * level.width)
            for number, level in enumerate(self.levels)
            for skip, places in level.coloured()
        ]

    @property
    def width(self) -> Ints:
        """Wavelengths of a chord of each length: [length], in the order of ``chords``."""
        return np.array([chords.width for chords in self.chords], np.int64)


class CirculantCircuits(HubCircuits):
    """Chords of several lengths that start at every rank and may follow each other in any order."""

    @property
    def free(self) -> int:
        """Number of lengths whose chords a tree may use from any rank: all of them."""
        return len(self.chords)

    def base(self, level: int) -> int:
        """Return the first channel of level number ``level``, from 0, which follows those of the levels before."""
        return sum(other.wavelengths for other in self.levels[:level])


@lru_cache(maxsize=32)
def _lightpaths(ranks: int, period: int, chords: tuple[tuple[int, int], ...], free: int) -> tuple[Lightpaths, Lines]:
    """Return the circuits of chords without times, and the rules by which lines of them (those of one length and
    direction) follow each other.

    Queues are numbered (chords · 2 + direction) · period + rank in its period; clockwise first.

    Args:
        period: ranks after which the circuits repeat.
        chords: hubs, and the hubs that a chord reaches ahead, for each length.
        free: number of lengths, the first ones, whose circuits may be used from any rank.
    """
    hubs = [hub_ranks(ranks, count) for count, _ in chords for _ in range(2)]
    origin = np.concatenate(hubs)
    steps = [step for _, skip in chords for step in (-skip, skip)]
    target = np.concatenate([np.roll(hub, step) for hub, step in zip(hubs, steps, strict=True)])
    line = np.repeat(np.arange(len(hubs)), [len(hub) for hub in hubs])
    length = np.where(line % 2 == 0, target - origin, origin - target) % ranks
    paths, order = arrange(ranks, period, origin, target, np.arange(len(line)), line * period + origin % period)
    unit, every = np.arange(len(hubs)) < 2 * free, np.ones(len(line), np.bool_)
    longest = np.full(len(hubs), ranks, np.int64)
    return paths, Lines(line[order].astype(np.int32), every, length[order].astype(np.int32), unit, unit, longest)


def tour_colours(hubs: int, channels: int, skips: Sequence[int]) -> int | None:
    """Return the wavelengths that chords of all lengths in ``skips``, ascending, from every hub take together, each
    way.

    None where ``channels`` do not suffice, there are no lengths, one is below 1, or one is more than half of the hubs.

    One behind the other, the lengths of a tour repeat around the ring if their sum divides the hubs, or with a gap the
    next number that does. Tours that start at each of so many hubs carry every chord once.
    """
    if not skips or skips[0] < 1 or skips[-1] > hubs // 2:
        return None
    return next((colours for colours in range(sum(skips), min(hubs, channels) + 1) if hubs % colours == 0), None)


def repetition(ranks: int, levels: Sequence[Level | MixedTours]) -> int:
    """Return the number of ranks after which nested levels repeat: the ranks over the fewest hubs of any level, 1
    without levels, or all ranks where the hubs of some level do not divide them."""
    regular = all(ranks % level.hubs == 0 for level in levels)
    return ranks // min((level.hubs for level in levels), default=ranks) if regular else ranks


def hub_ranks(ranks: int, hubs: int) -> Ints:
    """Return the ranks of evenly spread hubs, ⌊i · ranks / hubs⌋ for hub i: [hub]."""
    return np.arange(hubs, dtype=np.int64) * ranks // hubs


def chord_text(hubs: int, skips: Sequence[int], width: int, ranks: int) -> str:
    """Return a description of chords for the note of a schedule: their lengths in ranks with up to four significant
    digits, where they start, and their width in wavelengths: "chords of 4 and 16 ranks start at every rank, 2
    wavelengths wide", or "start at each of 16 hubs".

    Where the one length is 1 it is "2 wavelengths of each link join neighbours".

    Args:
        skips: hubs that chords of each length pass.
        width: wavelengths of a chord.
    """
    start = "every rank" if hubs == ranks else f"each of {hubs} hubs"
    lengths = " and ".join(f"{skip * ranks / hubs:.4g}" for skip in skips)
    if lengths == "1":
        return f"{width} wavelengths of each link join neighbours"
    return f"chords of {lengths} ranks start at {start}, {width} wavelengths wide"


_SWEEPS = 4
"""Rounds of balancing; later ones hardly move anything."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Bandwidth and latencies of a ring of wavelengths."""

    bandwidth: float
    """Bytes per second of one wavelength."""
    hop: float
    """Seconds that a piece is delayed by each lightpath, which meanwhile serves the next one."""
    propagation: float = 0.0
    """Seconds of a link's length."""
    occupancy: float = 0.0
    """Seconds that a piece holds its lightpath besides its bytes."""

    @classmethod
    def of(cls, fabric: Fabric) -> Timing:
        """Return the bandwidth of one channel of a fabric, and its step overhead, hop latency and piece overhead as
        ``hop``, ``propagation`` and ``occupancy``."""
        return cls(fabric.channel_bandwidth, fabric.step_overhead, fabric.hop_latency, fabric.piece_overhead)


@dataclass(frozen=True, slots=True)
class RingTask:
    """A collective and the ring of wavelengths that carries it, as searches see them."""

    ranks: int
    channels: int
    """Wavelengths of each link, each way."""
    nbytes: float
    """Bytes of one rank's share or, in an all-to-all, those that one rank sends another."""
    timing: Timing
    bound: float
    """Seconds that no schedule beats, circuits in place."""
    reach: int | None = None
    """Most links that a lightpath may pass."""

    @classmethod
    def of(cls, fabric: Fabric, nbytes: float, times: int = 1) -> RingTask:
        """Return the all-gather of shares of ``nbytes`` on a sound ring like ``fabric`` with ``times`` as many ranks,
        each as far from the next.

        Its bound is that of hops and links together, circuits in place. It has the usable channels, the timing and the
        reach of ``fabric``.
        """
        ranks, channels, timing = times * fabric.ranks, fabric.usable_channels, Timing.of(fabric)
        hop = fabric.step_overhead + fabric.neighbour_latency()
        bound = joint_seconds(ranks, hop, nbytes / (2 * channels * timing.bandwidth))
        return cls(ranks, channels, nbytes, timing, bound, fabric.reach)

    @property
    def farthest(self) -> int:
        """Most links that a lightpath may pass, those of the whole ring where light reaches everywhere."""
        return self.ranks if self.reach is None else self.reach


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeRules:
    """Rules by which the trees of a design grow over its lightpaths."""

    pieces: int = 2
    """Parts of every rank's share that travel on trees of their own."""
    longest: int | None = None
    """Lightpaths of the top level that a piece takes in a row each way; None for all around."""
    walk: int = 0
    """Ranks that the last piece walks before it takes a lightpath of the top level; those before it less, the first
    none. Otherwise all work of these lightpaths is due at the start."""
    slack: float = 1.15
    """Deadline of balancing, over the lower bound."""


@dataclass(frozen=True, slots=True)
class Design(TreeRules):
    """Choices of a search: chords, and the rules by which trees grow over the chords."""

    chords: tuple[Level, ...]
    """Shortest first; none for a plain ring."""
    at_hubs: bool = False
    """Trees begin at the hub of the top level before each rank, as those of an all-reduce may, not at the rank."""


class RingTrees(NamedTuple):
    """A design's circuits and the trees over them."""

    circuits: HubCircuits
    forest: Forest


def make_trees(design: Design, task: RingTask) -> RingTrees | None:
    """Return the circuits of a design with the trees and times of an all-gather over them; None where the chords do not
    fit the channels or do not nest, or their lines do not reach every rank.

    ``task`` gives the ring, its timing, and the bytes of a share. Trees begin at the ranks of one period, or, with
    ``design.at_hubs``, each at the hub of the top level at or before the rank.

    Time: period · ranks · pieces, times the logarithm of what waits.
    """
    circuits = HubCircuits.of(task.ranks, task.channels, design.chords)
    if circuits is None:
        return None
    roots = np.arange(circuits.period)
    if design.at_hubs:
        hubs = hub_ranks(task.ranks, circuits.levels[-1].hubs)
        roots = hubs[np.searchsorted(hubs, roots, side="right") - 1]
    return grow_chords(design, circuits, task, roots)


def grow_chords(
    design: TreeRules, circuits: HubCircuits, task: RingTask, roots: Ints | None = None
) -> RingTrees | None:
    """Return circuits with the trees and times of an all-gather over them, grown by the rules of ``design``; None where
    these do not reach every rank.

    ``task`` gives the ring, its timing, and the bytes of a share; ``roots`` are the ranks at which the trees of one
    period begin, all ranks of the period by default: [root].
    """
    chords = tuple((chords.hubs, chords.skip) for chords in circuits.chords)
    paths, lines = _lightpaths(task.ranks, circuits.period, chords, circuits.free)
    links = np.array([np.ceil(skip * task.ranks / hubs) for hubs, skip in chords])[lines.line // 2]
    return grow_design(design, circuits, paths, lines, links, task, sweeps=_SWEEPS, roots=roots)


def grow_design(
    design: TreeRules,
    circuits: HubCircuits,
    paths: Lightpaths,
    lines: Lines,
    links: Floats | Ints,
    task: RingTask,
    *,
    sweeps: int,
    roots: Ints | None = None,
) -> RingTrees | None:
    """Return the circuits with the trees and times of an all-gather over their lightpaths, grown by the rules of
    ``design``; None where these do not reach every rank.

    Args:
        circuits: period, levels, and the width of the chords of each length.
        paths, lines: lightpaths without times, and the rules of their lines, two for the chords of each length.
        links: links from each origin to its tap, taps in the order of ``paths``: [tap].
        task: timing, bytes of a share, and the bound; trees may end ``design.slack`` times the bound after the start.
        sweeps: rounds of balancing.
        roots: ranks at which the trees of one period begin, all ranks of the period by default: [root].
    """
    timing = task.timing
    busy = task.nbytes / design.pieces / (circuits.width * timing.bandwidth) + timing.occupancy
    delay = (busy + timing.hop)[lines.line // 2] + timing.propagation * links
    paths = paths._replace(delay=delay, busy=np.repeat(busy, 2 * circuits.period))
    if design.longest is not None and len(circuits.levels) > 1:
        longest = lines.longest.copy()
        longest[-2:] = design.longest
        lines = lines._replace(longest=longest)
    walks = [design.walk * piece // max(design.pieces - 1, 1) for piece in range(design.pieces)]
    forest = grow_forest(paths, lines, walks, deadline=design.slack * task.bound, sweeps=sweeps, roots=roots)
    return None if forest is None else RingTrees(circuits, forest)
