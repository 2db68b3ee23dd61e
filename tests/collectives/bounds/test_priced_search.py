"""Times between which priced lengths are searched, and how prices move; what they are found with is stood in for."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import ceil, exp, inf, sqrt

import numpy as np
import pytest

from lightloom.collectives.bounds import priced
from lightloom.collectives.bounds.kernels import cheapest_tree
from lightloom.collectives.bounds.priced import (
    Prices,
    _coarse_prices,
    _slots,
    priced_seconds,
)
from lightloom.core.arrays import Floats

Tried = tuple[float, int, tuple[int, int] | None, int]
"""Seconds, prices that may be tried, levels around a set-up, and links."""


@pytest.fixture
def fresh() -> Iterator[None]:
    """Nothing is kept of what stood in for the search."""
    priced_seconds.cache_clear()
    yield
    priced_seconds.cache_clear()


def _searched(
    monkeypatch: pytest.MonkeyPatch,
    too_short: float,
    least: float,
    setup: float,
    *,
    ranks: int = 10,
    share: float = 0.5,
) -> tuple[float, list[Tried]]:
    """The answer for hops of one second and three wavelengths, where times below ``too_short`` are too short."""
    tried: list[Tried] = []

    class Stand:
        def __init__(self, ranks: int, capacity: Floats, before: object = None) -> None:
            self.levels = len(capacity)
            self.seconds = 2.0 + share * float(capacity[1:].sum())

        def exceed(self, links: int, tries: int, around: tuple[int, int] | None = None) -> tuple[bool, int]:
            if links != ranks * ranks:
                tried.append((self.seconds, tries, around, links))
            return self.seconds < too_short, tries

    monkeypatch.setattr(priced, "Prices", Stand)
    priced_seconds.cache_clear()
    return priced_seconds(ranks, 1.0, share, 3, least, setup), tried


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("setup", [0.4, 0.7, 5.5, 100.0])
@pytest.mark.parametrize("ranks", [10, 65])
def test_steps_double_while_times_are_too_short(monkeypatch: pytest.MonkeyPatch, setup: float, ranks: int) -> None:
    """A hundredth more, two hundredths more, ..., ten times, and no further than two set-ups and a hop."""
    found, tried = _searched(monkeypatch, inf, 2.1, setup, ranks=ranks)
    most, seconds = 2 * setup + 1.0, 2.1
    if most <= seconds:
        assert (found, tried) == (seconds, [])
        return
    expected = []
    for step in range(10):
        if seconds < most:
            seconds *= 1 + 0.01 * 2**step
            expected.append(seconds)
    assert [each[0] for each in tried] == pytest.approx(expected) and found == pytest.approx(min(seconds, most))
    # Of the slots, those that end before the last set-up begins, and those that begin after the first one.
    for seconds, tries, around, links in tried:
        once = setup + 1.0
        assert around == ((ceil(seconds - once), int(setup)) if seconds > once else None)
        assert links == 6 and tries == (60 if seconds == tried[0][0] else 30)


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("too_short", [2.0, 2.1, 2.12, 2.123, 2.2, 2.9, 4.0, 7.7])
def test_a_time_that_is_not_too_short_halves_what_is_left(monkeypatch: pytest.MonkeyPatch, too_short: float) -> None:
    found, tried = _searched(monkeypatch, too_short, 2.1, 100.0)
    seconds, low, high = [each[0] for each in tried], 2.1, inf
    for at, time in enumerate(seconds):
        if high < inf:
            assert time <= (low + high) / 2 * (1 + 1e-12)
            assert high - low >= 0.003 * low and low > 2.1
        low, high = (max(low, time), high) if time < too_short else (low, min(high, time))
        assert at < 10
    assert found == pytest.approx(low)
    # The search ends where nothing was found, or the answer is known to a few thousandths.
    assert len(tried) == (1 if low == 2.1 else len(tried)) and (low == 2.1 or len(tried) == 10 or high < 1.003 * low)


@pytest.mark.usefixtures("fresh")
def test_prices_are_looked_for_where_data_is_relayed_and_shares_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    for least, share, looked_for in (
        (2.0, 0.5, True),
        (1.999, 0.5, False),
        (2.5, 4.0, True),
        (2.5, 4.01, False),
        (2.5, 0.0, False),
        (201.0, 0.5, False),
        (200.9, 0.5, True),
    ):
        assert bool(_searched(monkeypatch, inf, least, 100.0, share=share)[1]) == looked_for
    for work, looked_for in ((21.0, True), (20.99, False)):
        monkeypatch.setattr(priced, "_WORK", work)
        assert bool(_searched(monkeypatch, inf, 2.1, 100.0)[1]) == looked_for


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("work", [500, 2500, 4000])
def test_all_prices_together_take_no_more_work_than_allowed(monkeypatch: pytest.MonkeyPatch, work: int) -> None:
    """Levels times ranks for each price that is tried; what a time leaves is there for those that follow."""
    monkeypatch.setattr(priced, "_WORK", work)
    _, tried = _searched(monkeypatch, inf, 2.1, 100.0)
    left = work
    for at, (seconds, tries, _, _) in enumerate(tried):
        each = 10 * len(_slots(seconds, 1.0, 0.5))
        assert tries == min(left // each, 30 if at else 60)
        left -= tries * each
    assert len(tried) == 10 and left >= 0


@pytest.mark.parametrize("hop", [1.0, 0.25])
@pytest.mark.parametrize("hops", [2.0, 2.25, 3.0, 4.5, 7.75])
@pytest.mark.parametrize("share", [0.25, 1.0, 4.0])
def test_slots_last_from_the_first_hop_to_the_last(hop: float, hops: float, share: float) -> None:
    """A share in first hops; from then on a hop's time in each slot, and in the last one what is left."""
    capacity = _slots(hops * hop, hop, share * hop)
    times = [min(1.0, hops - 1 - begin) for begin in np.arange(1, hops - 1)]
    assert capacity == pytest.approx([1.0, *np.array(times) / share])


@pytest.mark.parametrize("ranks", [64, 65, 80])
def test_prices_among_an_eighth_of_the_ranks_have_moved_sixty_times(ranks: int) -> None:
    """Not as often as it takes to exceed what there is: no tree costs so much."""
    capacity = _slots(2.5, 1.0, 0.5)
    coarse = _coarse_prices(ranks, capacity)
    if ranks == 64:
        assert coarse is None
        return
    moved = Prices(ranks // 8, capacity)
    assert moved.exceed(10**9, 60) == (False, 60)
    assert coarse is not None and np.array_equal(coarse.price(), moved.price())
    assert not np.allclose(coarse.price(), Prices(ranks // 8, capacity).price())


@pytest.mark.parametrize(("ranks", "tries"), [(2, 3), (5, 1), (9, 4), (24, 12)])
@pytest.mark.parametrize("capacity", [[1.0, 0.5], [1.0, 2.0, 0.25], [1.0, 4.0, 4.0, 3.0]])
def test_what_the_cheapest_tree_uses_becomes_dearer(
    ranks: int, tries: int, capacity: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Price by price: shares of levels in the price of each class grow with the use of that level, less and less."""
    rng, seen, counts = np.random.default_rng(ranks), list[Floats](), list[Floats]()

    def tree(price: Floats, count: Floats) -> float:
        """One with any edges, few of them long."""
        count[:] = rng.integers(0, 9, count.shape) // np.arange(1, ranks + 1)
        seen.append(price)
        counts.append(count.copy())
        return 0.0

    monkeypatch.setattr(priced, "cheapest_tree", tree)
    prices = Prices(ranks, np.array(capacity))
    assert prices.exceed(ranks * ranks, tries) == (False, tries)
    ends = [0, 1]
    while ends[-1] < ranks - 1:
        ends.append(min(max(ends[-1] + 1, round(1.35 * ends[-1])), ranks - 1))
    part = np.array([[min(max(at - low, 0), high - low) for at in range(ranks)] for low, high in pairwise(ends)])
    levels = range(len(capacity))
    split = np.full((len(capacity), len(part)), 1 / len(capacity))

    def expected() -> Floats:
        return np.array([split[level] / capacity[level] @ part for level in levels])

    for tried in range(tries):
        assert seen[tried] == pytest.approx(expected(), rel=1e-9)
        for of in range(len(part)):
            used = [counts[tried][level] @ part[of] / capacity[level] for level in levels]
            mean = max(sum(split[level, of] * used[level] for level in levels), 1e-9)
            for level in levels:
                split[level, of] *= exp(min(max(used[level] / mean - 1, -2), 2) / sqrt(1 + tried))
            split[:, of] /= split[:, of].sum()
    assert prices.price() == pytest.approx(expected(), rel=1e-9)


@pytest.mark.parametrize("ranks", [6, 20])
def test_trees_exceed_the_links_that_cost_less(ranks: int) -> None:
    """At prices all alike a tree costs its links over what a circuit carries, here four times its length."""
    capacity = np.array([1.0, 2.0, 1.0])
    price = Prices(ranks, capacity).price()
    cost = cheapest_tree(price, np.zeros_like(price))
    for links in range(1, ceil(cost) + 2):
        found, tried = Prices(ranks, capacity).exceed(links, 1)
        assert (found, tried) == (cost > links, 1)
    # Two circuits that follow each other carry more where both have time for it, and never less than one.
    for around in ((3, 0), (1, 2), (0, 3)):
        filled = max(1.0, Prices(ranks, capacity).carried_in_turn(*around))
        for links in range(1, ceil(cost) + 2):
            assert Prices(ranks, capacity).exceed(links, 1, around)[0] == (cost > links * filled * (1 + 1e-9))
    assert Prices(ranks, capacity).exceed(1, 0) == (False, 0)
