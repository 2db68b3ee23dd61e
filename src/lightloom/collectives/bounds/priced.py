"""All-gathers on circuits that stand: the same circuits serve first hops and later ones, so that lengths have prices.

A circuit carries a share once in first hops, and in every later slot of one hop's length what there is time for. Let
every length have a price in first hops and in every slot, the prices of what a circuit of that length can carry being
no more than its length together. Then a byte costs at least what the cheapest tree costs, and all bytes no more than
all links. Where there is time for one set-up on the way, circuits that follow each other on a link have only the time
before it, or that after it, and mostly carry less together than one that stands. Proof: docs/collectives/bounds.md.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil

import numpy as np

from lightloom.collectives.bounds.kernels import cheapest_tree
from lightloom.core.arrays import Effort, Floats

_WORK: Effort = 1_333_333
"""Levels times ranks of all prices that one bound may try; together about 1.3 seconds for 1,024 ranks."""
_LONGEST_SHARE = 4.0
"""Hops' time above which shares go around in many slots, of which first hops are no more than their part."""
_TRIES: Effort = 60
"""Prices tried for the first time, at most."""
_MORE_TRIES: Effort = 30
"""Prices tried for each further one, at most."""
_TIMES: Effort = 10
"""Times tried, at most."""
_FIRST_STEP, _LAST_STEP = 0.01, 0.003
"""Parts of the time by which the search goes on at first, and within which it is content."""
_COARSE: Effort = 8
"""Times fewer ranks whose prices come first, where there are more than so many squared."""
_GROWTH = 1.35
"""From the longest length of one class to that of the next."""
_ROUNDING = 1e-9


@lru_cache(maxsize=1 << 10)
def priced_seconds(ranks: int, hop: float, share: float, wavelengths: int, least: float, setup: float) -> float:
    """Return a lower bound in seconds of an all-gather on a ring whose circuits stand: the largest time that is shown
    to be too short, or ``least``; never more than two set-ups and a hop.

    One set-up on the way is allowed for where there is time for it. It is ``least``, with nothing tried, where that is
    below two hops or not below two set-ups and a hop, where ``share`` is 0 or above four hops, and where the ring
    is too large for the work that one bound may take.

    Args:
        hop: least seconds from a lightpath's first bit sent to it received.
        share: seconds in which one wavelength carries the share of a rank.
        wavelengths: of each link, each way.
        least: seconds that are known to be needed.
        setup: seconds of setting circuits anew.
    """
    low, high, step, budget = least, np.inf, _FIRST_STEP, _WORK
    once, most = setup + hop, 2 * setup + hop
    relays = 2 * hop <= least < most and 0 < share <= _LONGEST_SHARE * hop
    if not relays or ranks * least / hop > _WORK:
        return least
    seconds = low * (1 + step)
    prices = _coarse_prices(ranks, _slots(seconds, hop, share))
    for time in range(_TIMES):
        prices = Prices(ranks, _slots(seconds, hop, share), prices)
        work = ranks * prices.levels
        tries = min(budget // work, _MORE_TRIES if time else _TRIES)
        # Slots that begin before the last circuits that are taken down must go, and those that end after a set-up.
        around = (ceil((seconds - once) / hop), int(setup / hop)) if seconds > once else None
        too_short, tried = prices.exceed(2 * wavelengths, tries, around)
        budget -= tried * work
        if too_short:
            low, step = seconds, 2 * step
        else:
            high = seconds
        if low == least or low >= most or high - low < _LAST_STEP * low:
            break
        seconds = min(low * (1 + step), (low + high) / 2)
    return min(low, most)


def _coarse_prices(ranks: int, slots: Floats) -> Prices | None:
    """Return prices found among an eighth of the ranks, which takes far less work, to begin a search with; None for up
    to 64 ranks.

    ``slots`` are the shares that a wavelength carries in first hops, and in each slot from the second on: [level].
    """
    if ranks <= _COARSE**2:
        return None
    prices = Prices(ranks // _COARSE, slots)
    prices.exceed(ranks * ranks, _TRIES)
    return prices


def _slots(seconds: float, hop: float, share: float) -> Floats:
    """Return the shares that a wavelength carries in first hops (1, whatever their time), and in each slot of one
    hop's length from the second on, within ``seconds``, which must be at least two hops: [level].

    What is left of a hop at the end is a slot of its own.

    Args:
        hop: seconds of a hop.
        share: seconds in which one wavelength carries a rank's share.
    """
    hops = int(seconds / hop)
    capacity = np.full(hops, hop / share)
    capacity[0], capacity[-1] = 1.0, (seconds - hops * hop) / share
    return capacity if capacity[-1] > _ROUNDING else capacity[:-1]


def length_classes(ranks: int, growth: float) -> tuple[list[int], Floats]:
    """Return the longest length of each class, about ``growth`` times that of the class before and at least one more,
    from 1 to ``ranks`` − 1, and of how many links of an edge of each length, 0 to ``ranks`` − 1, lie within each class:
    [class, length]. Link number i of an edge, from 1, lies within the class of length i."""
    ends = [0, 1]
    while ends[-1] < ranks - 1:
        ends.append(min(max(ends[-1] + 1, round(growth * ends[-1])), ranks - 1))
    within = np.clip(np.arange(ranks) - np.array(ends[:-1])[:, None], 0, np.diff(ends)[:, None])
    return ends[1:], within.astype(np.float64)


def stretched(levels: Floats, number: int) -> Floats:
    """Return prices [level, class] for ``number`` levels: the first and the last are those of ``levels``, and each in
    between is that nearest to its place."""
    place = np.round(np.arange(number) * (len(levels) - 1) / max(number - 1, 1))
    return np.asarray(levels[place.astype(np.int64)])


class Prices:
    """Prices of lengths, moved towards where trees use circuits most."""

    def __init__(self, ranks: int, capacity: Floats, before: Prices | None = None) -> None:
        """Begin with equal prices in all levels, or with those for another time.

        Args:
            capacity: shares that a wavelength carries: [level].
            before: prices for another time, to begin with.
        """
        self._capacity = capacity
        _, self._part = length_classes(ranks, _GROWTH)
        self._split: Floats = np.full((len(capacity), len(self._part)), 1 / len(capacity))
        """Part of the price of each class that each level has, one together: [level, class]."""
        if before is not None:
            # The longest lengths keep their prices.
            classes, number = before._split.shape[1], len(self._part)
            of_length = np.clip(np.arange(number) + classes - number, 0, classes - 1)
            self._split = stretched(before._split, len(capacity))[:, of_length]
            self._split = self._split / self._split.sum(axis=0)

    @property
    def levels(self) -> int:
        """Number of levels: first hops and later slots."""
        return len(self._capacity)

    def price(self) -> Floats:
        """Return the price of an edge in each level by its length, counted from 0: [level, length].

        Levels are first hops, then slots of one hop's length. Prices are relative and do not fall with the length: that
        of a link in each level, times what a wavelength carries in the level, adds up to 1 over the levels.
        """
        return (self._split / self._capacity[:, None]) @ self._part

    def carried_in_turn(self, before: int, after: int) -> float:
        """Return what two circuits after each other on a link carry at most, priced: 1 is what one circuit that stands
        carries.

        Args:
            before: how many levels, from the first on, the first circuit has time for.
            after: index of the level from which on the second one has time; it may carry first hops (level 0) too.
        """
        parts = (self._split[:before].sum(axis=0), self._split[0] + self._split[after:].sum(axis=0))
        length = np.arange(1, self._part.shape[1])
        return sum(float(((part @ self._part)[1:] / length).max()) for part in parts)

    def exceed(self, links: int, tries: int, around: tuple[int, int] | None = None) -> tuple[bool, int]:
        """Return (True, tries made) once the cheapest tree costs more, at the prices of one try, than there are links
        for a rank: a proof that the time is too short; (False, ``tries``) if no try shows it, which proves nothing.

        Prices are moved after each try towards the levels that the cheapest tree uses most, and stay where they end.

        Args:
            links: links of all wavelengths, both ways, for each rank.
            tries: most prices to try.
            around: number of levels before a set-up on the way, and index of the level after it, as
                :meth:`carried_in_turn` takes them; None if there is no time for one.
        """
        count = np.zeros((len(self._capacity), self._part.shape[1]))
        for tried in range(tries):
            filled = max(1.0, self.carried_in_turn(*around)) if around else 1.0
            if cheapest_tree(self.price(), count) > links * filled * (1 + _ROUNDING):
                return True, tried + 1
            # Multiplicative weights: what the cheapest tree uses most becomes dearer.
            used = (count @ self._part.T) / self._capacity[:, None]
            mean = np.maximum((self._split * used).sum(axis=0), _ROUNDING)
            self._split = self._split * np.exp(np.clip(used / mean - 1, -2, 2) / np.sqrt(1 + tried))
            self._split = self._split / self._split.sum(axis=0)
        return False, tries


# All pairs of ranks of a ring over circuits that stand: what first, last and second hops can carry.
#
# A circuit carries blocks of its source alone until others have come there, and blocks for its target alone when no
# time is left for another hop. Within two hops a circuit serves no more blocks of its source than circuits lead on
# from its target, and no more for its target than circuits lead to its source; a rank with many has long ones, as no
# two lead to the same rank. Proofs: docs/collectives/bounds.md.


def ends_seconds(ranks: int, hop: float, block: float, channels: int) -> float:
    """Return seconds of an all-to-all of three hops or more that no schedule on standing circuits of a ring beats.

    They are hop + floor(N² / 4) · block / (2 · channels) + 2 · max(0, hop − (N − 1) · block) for N ranks: one hop, the
    links that all blocks pass, and twice what is left of a hop where a circuit has carried all blocks of one rank, as
    circuits serve one rank in the first hop's time, and in the last.

    Args:
        hop: least seconds from a lightpath's first bit sent to it received.
        block: seconds in which one wavelength carries what one rank has for one other.
        channels: wavelengths of each link, each way.
    """
    return hop + ranks * ranks // 4 * block / (2 * channels) + 2 * max(0.0, hop - (ranks - 1) * block)


def two_hops_join(ranks: int, channels: int, ends: int) -> bool:
    """Return True if two hops over standing circuits of a ring may join all pairs of ranks; False is a proof that they
    cannot.

    Args:
        channels: wavelengths of each link, each way.
        ends: most circuits that begin, or end, at one rank.
    """
    return blocks_in_two_hops(ranks, channels) <= _most_blocks(ranks, channels, ends)


@lru_cache(maxsize=1 << 12)
def blocks_in_two_hops(ranks: int, channels: int) -> float:
    """Return the blocks that a wavelength carries at least in first hops, and as many in second ones, in an all-to-all
    on a ring in which no block makes three hops; 0 where the links prove nothing.

    ``channels`` are the wavelengths of each link, each way.
    """
    blocks = np.roots(np.array(_links_left(ranks, channels)))
    some = np.sort(blocks[np.isreal(blocks) & (blocks.real > 0)].real)
    # Between two of the roots links do not suffice, which is tried, and so they do not for fewer blocks.
    if len(some) < 2 or np.polyval(_links_left(ranks, channels), some[-2:].mean()) >= 0:
        return 0.0
    return float(some[-1]) * (1 - _ROUNDING)


def _links_left(ranks: int, channels: int) -> tuple[float, float, float, float]:
    """Return the coefficients of a cubic polynomial in G, the blocks that a wavelength of a link carries in each of two
    hops, highest power first; it is below 0 where links do not suffice for an all-to-all in two hops.

    With links L = 2 · ``channels`` for each rank and D = floor(``ranks``² / 4), the links that one rank's blocks pass
    at least, they are L, 3 L − D, 2 L − 2 D and 8 L D.
    """
    distances, links = float(ranks * ranks // 4), 2.0 * channels
    return links, 3 * links - distances, 2 * links - 2 * distances, 8 * links * distances


def _most_blocks(ranks: int, channels: int, ends: int) -> float:
    """Return the most blocks that a circuit carries in first hops of an all-to-all within two hops, where a block that
    turns back in its second hop, so that links are in vain, counts less.

    It is the least of ``ends`` and w + t with w = ``channels``, where t = w − w (w + 1) / N for N ranks if w is at most
    N / 2, else (N / 2 − 1) / 2.

    Args:
        channels: wavelengths of each link, each way.
        ends: most circuits that begin, or end, at one rank.
    """
    half = ranks / 2
    turning = channels - channels * (channels + 1) / (2 * half) if half >= channels else (half - 1) / 2
    return min(float(ends), channels + turning)
