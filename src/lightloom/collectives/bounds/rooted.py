"""Broadcast on a ring of wavelengths: the root's own circuits, the links around it, and few hops together.

    root ──────► branch ──► rank ──► rank      others send from one hop on, the deeper the earlier their branch began
      └────────────────────► branch ──► rank

A reduce is a broadcast turned round. Proof: docs/collectives/bounds.md.
"""

from functools import lru_cache
from math import isqrt
from typing import Any, NamedTuple

import numpy as np

from lightloom.collectives.bounds.kernels import cheapest_rooted_tree
from lightloom.collectives.bounds.link_use import broadcast_uses
from lightloom.collectives.bounds.priced import length_classes, stretched
from lightloom.core.arrays import Effort, Floats

_HALVINGS: Effort = 60
_MOST_COST: Effort = 512
"""Costs of attachments that are told apart; those above count as the next one, which keeps bounds true."""


def broadcast_seconds(ranks: int, hop: float, direction_seconds: float) -> float:
    """Return a lower bound of the seconds of a broadcast on a ring, from standing circuits on: by the root's circuits,
    the links around it and few hops together; one hop where there are no bytes.

    Args:
        hop: least seconds from a lightpath's first bit sent to it received.
        direction_seconds: seconds in which all bytes pass one link, on all channels of one direction.
    """
    # Half of it divides below, and half of the smallest float is 0.
    if direction_seconds / 2 <= 0:
        return hop
    least, most = hop + direction_seconds / 2, ranks * (hop + direction_seconds)
    if _possible(ranks, hop, direction_seconds, least):
        return least
    for _ in range(_HALVINGS):
        middle = (least + most) / 2
        if _possible(ranks, hop, direction_seconds, middle):
            most = middle
        else:
            least = middle
    return least


def _possible(ranks: int, hop: float, direction_seconds: float, seconds: float) -> bool:
    """Return True if links and hops may allow a broadcast in ``seconds``; False is a proof that the seconds are too
    short.

    ``hop`` is the least seconds from a lightpath's first bit sent to it received, and ``direction_seconds`` those in
    which all bytes pass one link on all channels of one direction.
    """
    half = ranks // 2
    uses = (seconds - hop) / direction_seconds
    if hop > 0 and not (
        _in_time(ranks, hop, direction_seconds / 2, seconds)
        and _branches_fit(ranks, direction_seconds / hop, seconds / hop)
        and _later_links_fit(ranks, direction_seconds / hop, seconds / hop)
    ):
        return False
    shorter = min(ranks - 1 - half, half * (2 * uses - 1))
    if shorter < 0:
        return False
    hops = (seconds - direction_seconds / 4) / hop if hop > 0 else ranks
    return ranks - 1 + max(0.0, ranks - 1 - shorter - hops) + max(0.0, shorter - hops) <= 2 * ranks * uses


def _in_time(ranks: int, hop: float, root_seconds: float, seconds: float) -> bool:
    """Return True if all bytes of a broadcast on a ring can reach all ranks within ``seconds`` as far as hops tell:
    False where the root cannot send them in time, or links cannot carry them in as few hops as time leaves.

    A byte that the root sends with time for one hop left must go from the root to every other rank; with time for two
    or more it need leave the root once. The root takes ``root_seconds`` to send all bytes once.
    """
    # Where all can leave early, by any amount of time, this holds.
    early = max(0.0, (seconds - 2 * hop) / root_seconds)
    if early + (1 - early) * (ranks - 1) > (seconds - hop) / root_seconds:
        return False
    used = _used_until(ranks, seconds / hop) - _used_until(ranks, max(1.0, (seconds - root_seconds) / hop))
    return used * hop <= ranks * (seconds - hop)


def _branches_fit(ranks: int, direction_hops: float, hops: float) -> bool:
    """Return True if branches of a broadcast from all that the root can send may serve all ranks over links that are
    free from one hop on.

    Args:
        direction_hops: time of all bytes over one direction, in hops.
        hops: time that is allowed, in hops.
    """
    costs = _attachments(ranks)
    slots = int(hops)
    if slots > len(costs):
        return True
    branches = (hops - slots) * costs[slots - 1] + costs[: slots - 1].sum(axis=0)
    # What the root sends after one hop uses a link, at least, of those that are counted.
    later = max(0.0, hops - 2)
    branches[:2] += -later, later
    return _smallest(branches, (ranks - 1) * direction_hops / 2) <= ranks * later


def _later_links_fit(ranks: int, direction_hops: float, hops: float) -> bool:
    """Return True if links may carry after one hop all that the root of a broadcast does not send itself before.

    Args:
        direction_hops: time of all bytes over one direction, in hops.
        hops: time that is allowed, in hops.
    """
    costs = _attachments(ranks)
    slots = int(hops)
    if slots < 2 or slots > len(costs):
        return True
    early = min(2.0, direction_hops)
    part = hops - slots
    branches = (2 * part + early) * costs[slots - 1] + 2 * (1 - part) * costs[slots - 2]
    late = _used_until(ranks, hops - 1) - _used_until(ranks, max(1.0, hops - max(2.0, direction_hops) / 2))
    return _smallest(branches, ranks * early) + 2 * late <= 2 * ranks * (hops - 2)


def _smallest(counts: Floats, needed: float) -> float:
    """Return the sum of the ``needed`` least costs, of which there are ``counts[c]`` of cost c: [cost], from cost 0 on.

    Those that need more than all counts cost as much as the next cost.
    """
    # Each cost adds one for all that are not to be had for less.
    return float(np.maximum(needed - counts.cumsum(), 0.0).sum())


@lru_cache(maxsize=16)
def _attachments(ranks: int) -> Floats:
    """Return how many attachments of a tree of each depth cost exactly so many links, at most 1e30, the coefficients of
    ((1 + x) / (1 − x))^depth: [depth, cost], both from 0, costs up to the lesser of ``ranks`` and 512.

    There are 2 √``ranks`` + 8 depths, a few times the one from which on no attachment need cost more than two.
    """
    counts = np.zeros((2 * isqrt(ranks) + 8, min(ranks, _MOST_COST) + 1))
    counts[0, 0] = 1.0
    for depth in range(1, len(counts)):
        counts[depth] = counts[depth - 1]
        counts[depth, 1:] += counts[depth - 1, :-1]
        # Far above all that is needed, and far below what a float holds.
        np.minimum(counts[depth].cumsum(), 1e30, out=counts[depth])
    return counts


def _used_until(ranks: int, hops: float) -> float:
    """Return the integral of C(N, ⌊x⌋), the link uses of a broadcast to N = ``ranks`` ranks of a ring within x hops,
    over x from 1 to ``hops``, 1 or more."""
    table = _uses_summed(ranks)
    whole = min(int(hops), len(table) - 1)
    return float(table[whole - 1] + (hops - whole) * (table[whole] - table[whole - 1]))


@lru_cache(maxsize=16)
def _uses_summed(ranks: int) -> Floats:
    """Return C(N, 1) + ... + C(N, k), the link uses of broadcasts within ever more hops, for k from 0 (a sum of 0) to
    the number of ranks: [k].

    Beyond few hops C is taken by its closed form.
    """
    exact = int(np.sqrt(ranks / 2)) + 1
    hops = np.arange(ranks + 1, dtype=np.float64)
    uses = ranks - 1 + np.maximum(0.0, ranks - 1 - 2 * hops)
    uses[1 : exact + 1] = [broadcast_uses(ranks, k) for k in range(1, exact + 1)][: len(uses) - 1]
    uses[0] = 0.0
    return np.cumsum(uses)


# Broadcasts on circuits that stand: lengths have prices in every slot, and what the root sends costs more.
#
# slot 1      only the root sends, over few circuits        a circuit stands in all slots, so that its prices of
# slot 2 …    whoever has received, over other circuits     all slots together are no more than its length
#
# Every byte costs at least what the cheapest tree costs, and all bytes no more than all links and what the root's
# ends add. The prices come from a linear programme over the cheapest trees found so far. Proof:
# docs/collectives/bounds.md.

_FEWEST_RANKS: Effort = 12
"""Ranks from which on prices are looked for."""
_WORK = 1.2e6
"""Additions for each rank that one bound may take."""
_WORK_OF_A_LEVEL = 2.5
"""Additions for each pair of ranks."""
_MOST_SLOTS: Effort = 14
"""Slots above which broadcasts take so long that this bound has proved nothing more than others."""
_TRIES: Effort = 40
"""Prices tried, at most, for all times together."""
_FIRST_STEP, _LAST_STEP = 0.05, 0.01
"""Parts of the time by which the search goes on, and within which it is content."""
_NEW = 0.3
"""Part of the programme's prices in those that are tried; the rest are the best so far."""
_MOST_END: Effort = 20
"""Ranks' links that the end of a root's lightpath may cost, at most."""
_ROUNDING = 1e-9


@lru_cache(maxsize=1 << 10)
def standing_broadcast_seconds(ranks: int, hop: float, direction_seconds: float, least: float, most: float) -> float:
    """Return a lower bound in seconds of a broadcast on a ring whose circuits stand: the largest time from ``least`` to
    ``most`` that is shown to be too short, or ``least``.

    It is ``least``, with nothing tried, for fewer than 12 ranks, where ``least`` is below two hops, or not below
    ``most`` or 14 hops, where the bytes take next to no time, and where the ring is too large for the work of one try.

    Args:
        hop: least seconds from a lightpath's first bit sent to it received.
        direction_seconds: seconds in which all bytes pass one link, on all channels of one direction.
        least: seconds that are known to be needed.
        most: seconds above which nothing is looked for.
    """
    looked_for = 2 * hop <= least < min(most, _MOST_SLOTS * hop) and direction_seconds > _ROUNDING * hop
    if ranks < _FEWEST_RANKS or not looked_for:
        return least
    low, high = least, np.inf
    search = Search(ranks, direction_seconds / hop)
    while low < most and high - low >= _LAST_STEP * low:
        seconds = min(low * (1 + _FIRST_STEP), (low + high) / 2)
        work = _WORK_OF_A_LEVEL * ranks * (seconds / hop)
        allowed = min(_TRIES, int(_WORK / work)) - search.tried
        if allowed <= 0 or seconds >= _MOST_SLOTS * hop:
            break
        if search.excludes(seconds / hop, allowed):
            low = seconds
        else:
            high = seconds
    return min(low, most)


class RootedPrices(NamedTuple):
    """The prices of lightpaths in every slot in which they carry data."""

    usual: Floats
    """Price that each link of a class of lengths adds: [slot, class]."""
    of_root: Floats
    """Prices where the root first sends a byte, and, last, what each lightpath costs besides: [slot, class + 1]."""


def capacities(hops: float) -> Floats:
    """Return parts of a hop's time in which data may be sent to arrive within so many hops' time: [slot].

    1 in each of the whole hops but one, and last the part of a hop that is left, if any; ``hops`` is 2 or more.
    """
    slots = int(hops)
    last = hops - slots
    return np.append(np.ones(slots - 1), last) if last > _ROUNDING else np.ones(slots - 1)


class Search:
    """Prices for one time after the other, guided by the cheapest trees of all prices that were tried."""

    def __init__(self, ranks: int, direction_hops: float) -> None:
        """Begin without prices or trees.

        Args:
            direction_hops: time of all bytes over one direction, in hops.
        """
        self._length: Floats = np.arange(ranks, dtype=np.float64)
        self._ends, within = length_classes(ranks, 2)
        self._part: Floats = np.vstack([within, np.ones(ranks)])
        """Links of each length that lie within each class of lengths, and last 1: [class + 1, length]."""
        self._direction_hops = direction_hops
        self._trees: list[tuple[Floats, Floats]] = []
        """Priced edges of each tree found: usual lightpaths and the root's first ones, as in the prices."""
        self.best: RootedPrices | None = None
        self.tried = 0

    def excludes(self, hops: float, tries: int) -> bool:
        """Return True if one of at most ``tries`` sets of prices shows the time of ``hops`` hops, more than 2, to be
        too short for a broadcast on a ring whose circuits stand; False proves nothing.

        The prices under which the cheapest tree exceeds the links that there are by most are kept, and the next call
        begins with them.
        """
        capacity = capacities(hops)
        best = self._begin(capacity)
        most = self.gain(best, capacity)
        for _ in range(tries - 1):
            prices = None if most > 0 else self._programme(capacity)
            if prices is None:
                break
            prices = RootedPrices(*(_NEW * new + (1 - _NEW) * old for new, old in zip(prices, best, strict=True)))
            gain = self.gain(prices, capacity)
            if gain > most:
                best, most = prices, gain
        self.best = best
        return most > 0

    def prices(self, prices: RootedPrices, capacity: Floats) -> tuple[Floats, Floats, float]:
        """Return prices of usual lightpaths and the root's first ones, [slot, length] each, lengths from 0, and what
        root's ends add, 0 or more, from prices by class of lengths.

        Usual prices are 0 in the first slot, in which only the root sends, and scaled so that what a lightpath carries
        in all slots costs no more than its length. The root's are never below them and not scaled: what the root's ends
        add is the most by which what one of its lightpaths carries costs more than its length.

        Args:
            prices: prices of a link within each class of lengths, and of an end at the root.
            capacity: share of a hop's time that each slot has: [slot].
        """
        length, part = self._length, self._part
        usual = prices.usual @ part[:-1]
        usual[0] = 0.0
        usual /= ((capacity @ usual)[1:] / length[1:]).max()
        first = np.maximum(prices.of_root @ part, usual)
        return usual, first, max(0.0, float((capacity @ first - length)[1:].max()))

    def gain(self, prices: RootedPrices, capacity: Floats) -> float:
        """Return by how much the cheapest tree costs more, under these prices and in their unit, than the links and
        root's ends that there are for a byte: above 0 only if the time is proved too short.

        How many lightpaths of each class the tree uses is kept for the linear programme, and the try is counted.

        Args:
            prices: prices of a link within each class of lengths, before they are scaled (:meth:`prices`).
            capacity: share of a hop's time that each slot has: [slot].
        """
        usual, first, end = self.prices(prices, capacity)
        count, first_count = np.zeros_like(usual), np.zeros_like(usual)
        cost = cheapest_rooted_tree(usual, first, count, first_count)
        self._trees.append((count @ self._part[:-1].T, first_count @ self._part.T))
        self.tried += 1
        return float(cost) - 2 * (len(self._length) + end) / self._direction_hops * (1 + _ROUNDING)

    def _begin(self, capacity: Floats) -> RootedPrices:
        """Return the prices to begin with: the best ones so far, stretched to as many slots as ``capacity`` [slot] has,
        or equal ones in all slots where there are none."""
        slots, classes = len(capacity), len(self._part) - 1
        if self.best is None:
            usual = np.full((slots, classes), 1 / capacity[1:].sum())
            usual[0] = 0.0
            ends = np.full((slots, 1), len(self._length) / capacity.sum())
            return RootedPrices(usual, np.hstack([usual, ends]))
        before = len(self.best.usual)
        return RootedPrices(*(stretched(prices, slots) * before / slots for prices in self.best))

    def _programme(self, capacity: Floats) -> RootedPrices | None:
        """Return the prices, by class of lengths, under which the cheapest of the trees found so far exceeds most what
        links there are, by a linear programme; None if no prices do, or the programme is not solved.

        Its variables, in this order: usual prices, those of the root, what the root's ends add, and the cost of the
        cheapest tree. ``capacity`` is the share of a hop's time that each slot has: [slot].
        """
        from scipy.optimize import linprog

        slots, classes = len(capacity), len(self._part) - 1
        usual, both = slots * classes, slots * (2 * classes + 1)
        end, cost = both, both + 1
        lengths = self._part[:, self._ends].T
        rows = np.zeros((2 * classes + 1 + (slots - 1) * classes, both + 2))
        rows[:classes, :usual] = np.kron(capacity, np.eye(classes))
        rows[classes : 2 * classes + 1, usual:both] = np.kron(capacity, np.eye(classes + 1))
        rows[2 * classes, end] = -1.0
        # Lightpaths of the root are no cheaper than others.
        later = np.eye(slots)[1:]
        rows[2 * classes + 1 :, :usual] = np.kron(later, lengths[:, :-1])
        rows[2 * classes + 1 :, usual:both] = -np.kron(later, lengths)
        limits = np.zeros(len(rows))
        limits[: 2 * classes] = 1.0
        trees = np.array([self._row(tree, slots) for tree in self._trees])
        highest = np.full(both + 2, np.inf)
        highest[:classes] = 0.0
        highest[end] = _MOST_END * len(self._length)
        wanted = np.zeros(both + 2)
        wanted[end], wanted[cost] = 2 / self._direction_hops, -1.0
        limits, bounds = np.append(limits, np.zeros(len(trees))), np.column_stack([np.zeros_like(highest), highest])
        found: Any = linprog(wanted, A_ub=np.vstack([rows, trees]), b_ub=limits, bounds=bounds, method="highs")
        if found.status != 0 or -found.fun <= 2 * len(self._length) / self._direction_hops:
            return None
        x: Floats = found.x
        return RootedPrices(x[:usual].reshape(slots, classes), x[usual:both].reshape(slots, classes + 1))

    def _row(self, tree: tuple[Floats, Floats], slots: int) -> Floats:
        """Return the linear programme's constraint that the cheapest tree costs no more than this one, as a row of
        coefficients whose product with the variables is at most 0; zeros if the tree needs more than ``slots`` slots.
        Variables are prices of usual lightpaths, of the root's, what its ends add, and the cost of the cheapest tree.

        ``tree`` has how many usual lightpaths, and how many first ones of the root, it uses: [slot, class of lengths]
        each.
        """
        if any(used[slots:].any() for used in tree):
            return np.zeros(slots * sum(used.shape[1] for used in tree) + 2)
        padded = (np.pad(used[:slots], ((0, max(slots - len(used), 0)), (0, 0))) for used in tree)
        return np.concatenate([*(-used.ravel() for used in padded), [0.0, 1.0]])
