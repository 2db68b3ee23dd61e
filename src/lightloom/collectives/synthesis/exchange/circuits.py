"""Standing circuits of an all-to-all on a ring: hubs joined over long distances, and the ranks between hubs to them.

    between hubs   h ─────────────► h ─────────────► h     chords over some hubs, and tours that pair k with m/2 − k
    around a hub   ○ ○ ○◄─○◄─○◄──── h ────►○─►○─►○ ○ ○     a tree in each half of a gap; every span both ways

Everything is the same both ways, and repeats from hub to hub.

*Tours.* With m hubs, m even, the chords over k hubs and over m/2 − k hubs, one behind the other, close a tour of the
ring: hub i, i + k, i + m/2, i + m/2 + k. So m/2 wavelengths carry all chords of both lengths and fill every link; m/4
do where the two are equal. Chords over all of 1 ... m/2 − 1 hubs thus take m²/8 − m/4 wavelengths, none wasted.
Chords of any lengths that add up to a divisor of m share as many wavelengths in the same way (``MixedTours``).

*Trees.* In half a gap the hub reaches its ranks over spans that nest, so that a span takes its wavelengths from those
of the spans around it (:func:`feeder`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import lcm
from typing import Any, NamedTuple

import numpy as np

from lightloom.collectives.synthesis.engine.trees import Level, MixedTours, hub_ranks, shared_chords, tour_places
from lightloom.collectives.synthesis.exchange.kernels import reach
from lightloom.core.arrays import Int32s, Ints
from lightloom.core.fields import MAXIMUM_RANKS

DEEPEST = 32
"""Most spans from hub to rank."""
_FEW = 512
"""Ranks up to which blocks for the opposite rank weigh."""


class Tours(NamedTuple):
    """Chords over ``skip`` hubs and over ``hubs / 2 − skip``."""

    hubs: int
    """Number of hubs, even."""
    skip: int
    """At most a quarter of the hubs."""
    width: int

    @property
    def colours(self) -> int:
        """Wavelengths of a link that chords (lightpaths between hubs) of one wavelength and of both lengths, ``skip``
        and ``hubs / 2 − skip`` hubs, from every hub, take together, each way: half as many as hubs, or a quarter where
        the two lengths are equal."""
        return self.skip if 4 * self.skip == self.hubs else self.hubs // 2

    @property
    def wavelengths(self) -> int:
        """Wavelengths of a link that the tours take at their width, each way."""
        return self.colours * self.width

    @property
    def skips(self) -> tuple[int, ...]:
        """Hubs that chords of the two lengths reach ahead, ``skip`` and ``hubs / 2 − skip``; one number where they are
        equal."""
        return tuple(dict.fromkeys((self.skip, self.hubs // 2 - self.skip)))

    def coloured(self) -> Iterator[tuple[int, Ints]]:
        """Yield, for each length, the hubs that its chords reach ahead, and the colour, from 0, of the chord from each
        hub: [hub]."""
        return tour_places(self.hubs, self.skips, self.colours)


class Feeder(NamedTuple):
    """Trees between the ranks of half a gap and its hub."""

    wavelengths: int
    """Wavelengths of each link that the trees take, each way."""
    depth: int
    """Most spans from hub to rank."""
    share: int
    """Most ranks behind one wavelength of a span, where possible."""


class Wiring(NamedTuple):
    """Chords between hubs, and the trees that lead from hubs to the ranks around them."""

    hubs: int
    """Hub i is rank ⌊i · ranks / hubs⌋; all ranks where there is nothing to feed."""
    chords: tuple[Level | Tours | MixedTours, ...]
    """Between hubs, or some of them; unit links, where every rank is a hub, among them."""
    feeder: Feeder | None

    @property
    def wavelengths(self) -> int:
        """Wavelengths of each link that all chords and the feeder take, each way."""
        return sum(chords.wavelengths for chords in self.chords) + (self.feeder.wavelengths if self.feeder else 0)

    def widened(self, at: int, by: int) -> Wiring:
        """Return the wiring with each chord of kind ``at``, from 0, wider by ``by`` wavelengths (narrower below 0), or,
        where ``at`` is the number of kinds, with as many more wavelengths for the feeder, which must be there."""
        if at < len(self.chords):
            wide = self.chords[at]._replace(width=self.chords[at].width + by)
            return self._replace(chords=(*self.chords[:at], wide, *self.chords[at + 1 :]))
        assert self.feeder is not None
        return self._replace(feeder=self.feeder._replace(wavelengths=self.feeder.wavelengths + by))

    def period(self, ranks: int) -> int:
        """Return the number of ranks after which all circuits repeat: the least common multiple of the ranks over the
        hubs of each kind of chords, or all ranks where the hubs of some do not divide them.

        An odd period is doubled where the ranks are even and at most 512, so that of two neighbours each may send its
        block for the opposite rank another way around.
        """
        counts = [self.hubs, *(chords.hubs for chords in self.chords)]
        if any(ranks % count for count in counts):
            return ranks
        period = lcm(*(ranks // count for count in counts))
        return 2 * period if period % 2 and ranks % 2 == 0 and ranks <= _FEW else period


def shared_wiring(ranks: int, channels: int, skips: tuple[int, ...]) -> Wiring | None:
    """Return a wiring without feeders of chords (lightpaths) of the lengths ``skips``, in ranks, ascending, from every
    rank, which share wavelengths, and of lightpaths between neighbours on the channels that are left, if any; None
    where the chords do not fit the ``channels`` of each link, each way."""
    chords = shared_chords(ranks, channels, skips)
    return None if chords is None else Wiring(ranks, chords, None)


@dataclass(frozen=True, slots=True, eq=False)
class ExchangeCircuits:
    """Circuits that start in the first period, ordered by their start; columns [circuit]."""

    ranks: int
    period: int
    start: Ints
    length: Ints
    """Ranks that it passes, less than zero counter-clockwise."""
    width: Ints
    family: Ints
    """Chords of the wiring that it is one of; one more for those of feeders."""
    channel: Int32s
    """First channel of every copy: [copy, circuit]."""
    reverse: Ints
    """The circuit that leads back over the same links: [circuit]."""

    @property
    def first(self) -> Ints:
        """Number of the first circuit that starts at each rank of the period, and last the number of all circuits:
        [period + 1]."""
        return np.searchsorted(self.start, np.arange(self.period + 1))


def exchange_circuits(wiring: Wiring, ranks: int) -> ExchangeCircuits:
    """Return all circuits of a wiring that start in the first period, in both directions: chords between hubs, and the
    spans of the feeders' trees, which join hubs with the ranks around them.

    They are ordered by the rank where they start, and have a length in ranks, below 0 counter-clockwise, a width, the
    number of their chords in the wiring (of spans one more than the last), the first channel in every copy of the
    period, and the number of the circuit that leads back over the same links.
    """
    period = wiring.period(ranks)
    parts: list[tuple[Ints, Ints, Ints, Ints]] = []
    family: list[int] = []
    base = 0
    for i, chords in enumerate(wiring.chords):
        for start, length, colours in _chords(chords._replace(width=1), ranks):
            parts.append((start, length, np.full(len(start), chords.width), base + colours * chords.width))
            family.append(i)
        base += chords.wavelengths
    if wiring.feeder is not None:
        spans = _spans(wiring.hubs, wiring.feeder, ranks)
        parts += [(start, length, width, base + channel) for start, length, width, channel in spans]
    family += [len(wiring.chords)] * (len(parts) - len(family))
    kind = np.repeat(np.arange(len(parts)), [len(part[0]) for part in parts])
    start, length, width, channel = (np.concatenate([np.asarray(part[i]) for part in parts]) for i in range(4))
    # The same links serve the way back, which starts at the other end.
    ends = np.concatenate([start, (start + length) % ranks])
    number = np.arange(len(ends))
    length, width, channel = np.concatenate([length, -length]), np.tile(width, 2), np.tile(channel, 2)
    kind = np.concatenate([kind, kind + len(parts)])
    order = np.lexsort((ends // period, kind, ends % period)).reshape(-1, ranks // period)
    place = np.empty(len(number), np.int64)
    place[order.ravel()] = number // (ranks // period)
    first = order[:, 0]
    reverse = place[(first + len(start)) % len(ends)]
    columns = ends[first], length[first], width[first], np.array(family)[kind[first] % len(parts)]
    return ExchangeCircuits(ranks, period, *columns, channel[order].T.astype(np.int32), reverse)


# Tours of the same numbers as a level equal it, as tuples do.
@lru_cache(maxsize=1024, typed=True)
def _chords(chords: Level | Tours | MixedTours, ranks: int) -> list[tuple[Ints, Ints, Ints]]:
    """Return, for chords of each length, start, length in ranks and colour of the clockwise ones, an array [chord]
    each, which the caller must not change. Cached: a search asks for the same chords many times."""
    hub = hub_ranks(ranks, chords.hubs)
    return [(hub, (np.roll(hub, -skip) - hub) % ranks, colours) for skip, colours in chords.coloured()]


@lru_cache(maxsize=1024)
def _spans(hubs: int, feeder: Feeder, ranks: int) -> list[tuple[Ints, Ints, Ints, Ints]]:
    """Return start, length, width and first channel of the clockwise spans (lightpaths of the trees that join a hub
    with the ranks in half a gap on each side of it), an array [span] each, which the caller must not change: lengths in
    ranks, widths in wavelengths, channels numbered from 0 on. The spans of both sides share channels. Cached."""
    hub = hub_ranks(ranks, hubs)
    parts: list[tuple[Ints, Ints, Ints, Ints]] = []
    gap = (np.roll(hub, -1) - hub) % ranks
    for size in np.unique(gap).tolist():
        spans = trees_of(feeder, size // 2)
        for side in (1, -1):
            # The gap behind a hub is the one before the next.
            at = hub[gap == size] if side == 1 else np.roll(hub, -1)[gap == size]
            for near, far, channel, width in spans:
                start = (at + (near if side == 1 else -far)) % ranks
                same = np.ones_like(start)
                parts.append((start, same * (far - near), same * width, same * channel))
    return parts


def longest_circuit(wiring: Wiring, ranks: int) -> int:
    """Return the number of links that the longest circuit of a wiring passes, chord or span."""
    lengths = [-(-skip * ranks // chords.hubs) for chords in wiring.chords for skip in chords.skips]
    if wiring.feeder is not None:
        lengths += [far - near for near, far, _, _ in trees_of(wiring.feeder, -(-ranks // wiring.hubs) // 2)]
    return max(lengths)


def reaches(feeder: Feeder, ranks: int) -> bool:
    """Return True when the feeder's tree on one side of a hub has room for ``ranks`` ranks with the feeder's
    wavelengths, depth and share."""
    return bool(_reach(feeder.wavelengths, feeder.share)[feeder.wavelengths, feeder.depth] >= ranks)


@lru_cache(maxsize=256)
def trees_of(feeder: Feeder, ranks: int) -> tuple[tuple[int, int, int, int], ...]:
    """Return the spans of a feeder's tree that lead from its hub, place 0, to places 1 ... ``ranks`` on one side.

    Each span is the nearer and the farther of its two ends, its first channel, counted from 0, and its width in
    wavelengths. The tree must have room for the ranks (:func:`reaches`).
    """
    reach = _reach(feeder.wavelengths, feeder.share)
    spans: list[tuple[int, int, int, int]] = []

    def grow(root: int, direction: int, count: int, left: int, depth: int, base: int) -> None:
        """Add the spans from a root to the next ``count`` ranks in a direction (1 or −1), at most ``depth`` of them one
        after the other, with ``left`` wavelengths from ``base`` on."""
        if count == 0:
            return
        width = left
        while True:
            narrower, onward = reach[left - width], reach[left, depth - 1]
            before, backward = narrower[depth], narrower[depth - 1]
            behind = min(1 + backward + onward, feeder.share * width)
            if before + behind >= count or width == 1:
                break
            width -= 1
        behind = min(behind, max(count - before, -(-count * width // left)), count)
        before = count - behind
        backward = min(backward, max(behind - 1 - onward, (behind - 1) * backward // max(backward + onward, 1)))
        onward, child = behind - 1 - backward, root + direction * (before + backward + 1)
        spans.append((min(root, child), max(root, child), base, width))
        grow(root, direction, before, left - width, depth, base + width)
        grow(child, -direction, backward, left - width, depth - 1, base + width)
        grow(child, direction, onward, left, depth - 1, base)

    grow(0, 1, ranks, feeder.wavelengths, feeder.depth, 0)
    return tuple(spans)


@lru_cache(maxsize=256)
def _reach(wavelengths: int, share: int) -> Any:
    """Return the most ranks that spans reach on one side of a root, at most ``MAXIMUM_RANKS``, with so many wavelengths
    left and so many spans one after the other: [wavelengths, spans], each counted from 0, of at most 32 spans.

    ``share`` is the most ranks behind one wavelength of a span.
    """
    reached = np.zeros((wavelengths + 1, DEEPEST + 1), np.int64)
    reach(share, MAXIMUM_RANKS, reached)
    return reached
