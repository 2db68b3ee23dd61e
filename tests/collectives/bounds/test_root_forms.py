"""What a root's branches and links allow, summed term by term, and the times between which prices are looked for."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import inf

import numpy as np
import pytest

from lightloom.collectives.bounds import rooted
from lightloom.collectives.bounds.kernels import cheapest_rooted_tree
from lightloom.collectives.bounds.link_use import broadcast_uses
from lightloom.collectives.bounds.rooted import (
    RootedPrices,
    Search,
    _attachments,
    _branches_fit,
    _in_time,
    _later_links_fit,
    _possible,
    _used_until,
    broadcast_seconds,
    capacities,
    standing_broadcast_seconds,
)

HOPS = [1.2, 1.9, 2.0, 2.1, 2.7, 3.0, 3.4, 4.8, 6.5]


def _coefficients(depth: int, most: int) -> list[int]:
    """Of ((1 + x) / (1 − x))^depth: [cost]."""
    found = [1] + [0] * most
    for _ in range(depth):
        # Once times 1 + x, and once divided by 1 − x.
        found = [a + b for a, b in zip(found, [0, *found[:-1]], strict=True)]
        found = [sum(found[: cost + 1]) for cost in range(most + 1)]
    return found


def _greedy(counts: list[float], needed: float) -> float:
    """Costs 0, 1, 2, ... of which there are so many; any number at the next cost."""
    spent = 0.0
    for cost, count in enumerate([*counts, inf]):
        taken = min(count, needed)
        spent, needed = spent + taken * cost, needed - taken
    return spent


def _until(ranks: int, hops: float) -> float:
    """Links of every moment from one hop on."""
    uses = [broadcast_uses(ranks, at) for at in range(1, int(hops) + 1)]
    return float(sum(uses[:-1]) + (hops - int(hops)) * uses[-1])


@pytest.mark.parametrize("ranks", [2, 3, 7, 12, 40])
def test_attachments_are_coefficients_of_powers_as_far_as_ranks_need_them(ranks: int) -> None:
    costs = _attachments(ranks)
    assert costs.shape[1] == ranks + 1
    for depth in range(0, len(costs), 3):
        assert costs[depth] == pytest.approx(np.minimum(_coefficients(depth, ranks), 1e30))


@pytest.mark.parametrize("ranks", [2, 3, 7, 12, 40])
def test_uses_are_summed_moment_by_moment(ranks: int) -> None:
    assert _used_until(ranks, 1.0) == 0
    for hops in [*HOPS, 12.5, 20.25]:
        assert _used_until(ranks, hops) == pytest.approx(_until(ranks, hops))


@pytest.mark.parametrize("ranks", [3, 7, 12, 40])
@pytest.mark.parametrize("hops", HOPS)
def test_branches_and_later_links_fit_where_the_sum_of_their_costs_does(ranks: int, hops: float) -> None:
    slots, later = int(hops), max(0.0, hops - 2)
    costs = [np.array(_coefficients(depth, ranks), np.float64) for depth in range(slots)]
    for direction in np.geomspace(0.01, 40.0, 60):
        branches = (hops - slots) * costs[slots - 1] + sum(costs[: slots - 1], np.zeros(ranks + 1))
        branches[0] -= later
        branches[1] += later
        spent, allowed = _greedy(list(branches), (ranks - 1) * direction / 2), ranks * later
        if abs(spent - allowed) > 1e-9:
            assert _branches_fit(ranks, direction, hops) == (spent < allowed)
        else:
            assert _branches_fit(ranks, direction, hops)
        if slots < 2:
            assert _later_links_fit(ranks, direction, hops)
            continue
        early, part = min(2.0, direction), hops - slots
        branches = (2 * part + early) * costs[slots - 1] + 2 * (1 - part) * costs[slots - 2]
        late = _until(ranks, hops - 1) - _until(ranks, max(1.0, hops - max(2.0, direction) / 2))
        spent, allowed = _greedy(list(branches), ranks * early) + 2 * late, 2 * ranks * (hops - 2)
        if abs(spent - allowed) > 1e-9:
            assert _later_links_fit(ranks, direction, hops) == (spent < allowed)


@pytest.mark.parametrize("ranks", [2, 3, 8, 31])
@pytest.mark.parametrize("hop", [0.5, 2.0])
def test_seconds_are_possible_where_all_of_the_root_its_links_and_both_ways_are(ranks: int, hop: float) -> None:
    """The mean byte goes some ranks one way and the rest the other; each rank beyond its hops takes a link more."""
    half, seen = ranks // 2, set()
    for direction in np.geomspace(0.05, 30.0, 15) * hop:
        for seconds in hop + direction * np.linspace(0.3, 3.0, 40):
            uses = (seconds - hop) / direction
            shorter = min(ranks - 1 - half, half * (2 * uses - 1))
            hops = (seconds - direction / 4) / hop
            beyond = max(0, ranks - 1 - shorter - hops) + max(0, shorter - hops)
            expected = shorter >= 0 and ranks - 1 + beyond <= 2 * ranks * uses
            expected = expected and _in_time(ranks, hop, direction / 2, seconds)
            expected = expected and _branches_fit(ranks, direction / hop, seconds / hop)
            expected = expected and _later_links_fit(ranks, direction / hop, seconds / hop)
            assert _possible(ranks, hop, direction, seconds) == expected
            seen.add(expected)
    assert seen == {True, False}


@pytest.mark.parametrize("ranks", [2, 3, 8, 31])
def test_the_least_possible_seconds_are_found(ranks: int) -> None:
    """Without hops the root sends both ways all the time, and without bytes there is one hop."""
    assert broadcast_seconds(ranks, 0.0, 3.0) == 1.5 and broadcast_seconds(ranks, 2.0, 0.0) == 2.0
    for direction in np.geomspace(0.05, 30.0, 9):
        found = broadcast_seconds(ranks, 1.0, direction)
        assert found >= 1 + direction / 2 and _possible(ranks, 1.0, direction, found * (1 + 1e-9))
        assert found == 1 + direction / 2 or not _possible(ranks, 1.0, direction, found * (1 - 1e-9))


@pytest.fixture
def fresh() -> Iterator[None]:
    """Nothing is kept of what stood in for the search."""
    standing_broadcast_seconds.cache_clear()
    yield
    standing_broadcast_seconds.cache_clear()


def _searched(
    monkeypatch: pytest.MonkeyPatch,
    too_short: float,
    least: float,
    most: float,
    *,
    ranks: int = 20,
    direction: float = 3.0,
    each: int = 1,
) -> tuple[float, list[tuple[float, int]]]:
    """The answer in hops of half a second, and times and numbers of prices that might be tried."""
    tried: list[tuple[float, int]] = []

    class Stand:
        def __init__(self, of: int, direction_hops: float) -> None:
            assert (of, direction_hops) == (ranks, direction)
            self.tried = 0

        def excludes(self, hops: float, tries: int) -> bool:
            tried.append((hops, tries))
            self.tried += min(each, tries)
            return hops < too_short

    monkeypatch.setattr(rooted, "Search", Stand)
    standing_broadcast_seconds.cache_clear()
    return 2 * standing_broadcast_seconds(ranks, 0.5, direction / 2, least / 2, most / 2), tried


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize(("most", "each"), [(3.0, 1), (12.0, 1), (99.0, 1), (99.0, 7), (99.0, 60)])
@pytest.mark.parametrize("ranks", [20, 7000])
def test_times_grow_by_a_twentieth_while_they_are_too_short(
    monkeypatch: pytest.MonkeyPatch, most: float, each: int, ranks: int
) -> None:
    """Up to fourteen slots, forty prices in all, and 2.5 additions for each pair of ranks in each hop's time."""
    found, tried = _searched(monkeypatch, inf, 2.5, most, each=each, ranks=ranks)
    low, spent, expected = 2.5, 0, []
    while low < most and low * 1.05 < 14:
        allowed = min(40, int(1.2e6 / (2.5 * ranks * low * 1.05))) - spent
        if allowed <= 0:
            break
        low, spent = low * 1.05, spent + min(each, allowed)
        expected.append((low, allowed))
    assert np.array(tried) == pytest.approx(np.array(expected)) and found == pytest.approx(min(low, most))


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("too_short", [2.0, 2.51, 2.7, 3.3, 6.05, 13.0])
def test_a_time_that_is_not_too_short_halves_what_is_left(monkeypatch: pytest.MonkeyPatch, too_short: float) -> None:
    found, tried = _searched(monkeypatch, too_short, 2.5, 99.0)
    low, high = 2.5, inf
    for hops, _ in tried:
        assert high - low >= 0.01 * low and hops == pytest.approx(min(1.05 * low, (low + high) / 2))
        low, high = (hops, high) if hops < too_short else (low, hops)
    assert high - low < 0.01 * low and found == pytest.approx(low)


@pytest.mark.usefixtures("fresh")
def test_prices_are_looked_for_among_twelve_ranks_of_two_hops_and_more(monkeypatch: pytest.MonkeyPatch) -> None:
    for least, most, ranks, direction, looked_for in (
        (2.0, 99.0, 12, 3.0, True),
        (2.0, 99.0, 11, 3.0, False),
        (1.99, 99.0, 12, 3.0, False),
        (2.5, 2.5, 12, 3.0, False),
        (13.0, 99.0, 12, 3.0, True),
        (14.0, 99.0, 12, 3.0, False),
        (2.5, 99.0, 12, 1.01e-9, True),
        (2.5, 99.0, 12, 0.99e-9, False),
    ):
        found, tried = _searched(monkeypatch, inf, least, most, ranks=ranks, direction=direction)
        assert bool(tried) == looked_for and (looked_for or found == least)


@pytest.mark.parametrize(("ranks", "direction"), [(3, 0.7), (9, 3.0), (16, 3.125)])
def test_a_byte_gains_what_its_tree_costs_above_all_links_and_ends(ranks: int, direction: float) -> None:
    """For every part of a hop's time that a direction carries, both ways; trees are kept by classes of lengths."""
    search, capacity, rng = Search(ranks, direction), capacities(3.5), np.random.default_rng(ranks)
    ends = [0, 1]
    while ends[-1] < ranks - 1:
        ends.append(min(2 * ends[-1], ranks - 1))
    classes = len(ends) - 1
    usual = rng.random((len(capacity), classes))
    of_root = usual @ np.eye(classes, classes + 1) + rng.random((len(capacity), classes + 1))
    prices = RootedPrices(usual, of_root)
    price, first, end = search.prices(prices, capacity)
    lengths = np.arange(1, ranks)
    assert (capacity @ price[:, 1:] / lengths).max() == pytest.approx(1.0) and not price[0].any()
    within = np.array([[np.clip(at - a, 0, b - a) for a, b in pairwise(ends)] for at in range(ranks)])
    scale = max(capacity[1:] @ (usual[1:] @ within[at]) / at for at in lengths)
    assert price[1:] == pytest.approx(usual[1:] @ within.T / scale)
    assert first == pytest.approx(np.maximum(of_root[:, :-1] @ within.T + of_root[:, -1:], price))
    assert end == pytest.approx(max(0, *(capacity @ first[:, at] - at for at in lengths)))
    count, first_count = np.zeros_like(price), np.zeros_like(price)
    cost = cheapest_rooted_tree(price, first, count, first_count)
    assert search.gain(prices, capacity) == pytest.approx(cost - 2 * (ranks + end) / direction)
    assert search.tried == 1
    usual_kept, first_kept = search._trees[0]
    assert usual_kept == pytest.approx(count @ within)
    assert first_kept == pytest.approx(np.hstack([first_count @ within, first_count.sum(axis=1)[:, None]]))
    # The programme knows of this tree that no prices make the cheapest one cost more, if there are slots for it.
    row = search._row(search._trees[0], len(capacity) + 1)
    assert len(row) == (len(capacity) + 1) * (2 * classes + 1) + 2 and tuple(row[-2:]) == (0.0, 1.0)
    padded = [np.vstack([part, np.zeros(part.shape[1])]).ravel() for part in search._trees[0]]
    assert -row[:-2] == pytest.approx(np.concatenate(padded))
    needed = 1 + max(int(np.flatnonzero(part.any(axis=1)).max(initial=0)) for part in search._trees[0])
    for slots in range(1, len(capacity) + 1):
        assert search._row(search._trees[0], slots).any() == (slots >= needed)


@pytest.mark.parametrize(("ranks", "direction"), [(16, 3.125), (24, 5.0)])
def test_new_prices_promise_no_more_than_circuits_carry_and_the_known_trees_cost(ranks: int, direction: float) -> None:
    """Of all prices so long as a tree is known, none before anything was received but the root's."""
    search, capacity = Search(ranks, direction), capacities(3.5)
    search.gain(search._begin(capacity), capacity)
    found = search._programme(capacity)
    assert found is not None and not found.usual[0].any()
    assert (found.usual >= 0).all() and (found.of_root >= 0).all()
    assert (capacity @ found.usual <= 1 + 1e-9).all() and (capacity @ found.of_root[:, :-1] <= 1 + 1e-9).all()
    # Per length, the root's lightpaths are no cheaper than others.
    ends = [1]
    while ends[-1] < ranks - 1:
        ends.append(min(2 * ends[-1], ranks - 1))
    within = np.array([[np.clip(at - a, 0, b - a) for a, b in pairwise([0, *ends])] for at in ends])
    root = found.of_root[1:, :-1] @ within.T + found.of_root[1:, -1:]
    assert (root >= found.usual[1:] @ within.T - 1e-9).all()
    # What is known of one tree is met, and more than all links is promised.
    used, first = search._trees[0]
    end = float(capacity @ found.of_root[:, -1])
    promised = (found.usual * used).sum() + (found.of_root * first).sum() - 2 * end / direction
    assert promised > 2 * ranks / direction
