"""Prices of lengths on circuits that stand: the programme over intervals, the prices, and the times they exclude."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.collectives.bounds.kernels import cheapest_tree
from lightloom.collectives.bounds.link_use import broadcast_uses, relayed_seconds, slotted_seconds
from lightloom.collectives.bounds.lower_bound import lower_bound, ring_bounds
from lightloom.collectives.bounds.priced import Prices, priced_seconds
from lightloom.collectives.collective import Collective, Kind
from tests.collectives.optimum import FABRICS, SLOT, feasible, problem
from tests.collectives.strategies import wdm_ring


def by_trying(price: list[list[float]], ranks: int) -> float:
    """Every assignment of levels to the ranks of a line; each attaches to the nearest one of a lower level."""
    best = np.inf
    for levels in np.ndindex(*[len(price) + 1] * ranks):
        if levels.count(0) == 1:
            cost = 0.0
            for at, level in enumerate(levels):
                if level:
                    nearest = min(abs(at - other) for other in range(ranks) if levels[other] < level)
                    cost += price[level - 1][nearest]
            best = min(best, cost)
    return best


@given(st.integers(1, 3), st.integers(2, 6), st.randoms(use_true_random=False))
@settings(max_examples=25, deadline=None)
def test_no_tree_is_cheaper(levels: int, ranks: int, random: object) -> None:
    rng = np.random.default_rng(random.randrange(2**32))  # type: ignore[attr-defined]
    price = np.cumsum(rng.exponential(size=(levels, ranks)) * (rng.random((levels, ranks)) < 0.7), axis=1)
    price -= price[:, :1]
    count = np.zeros_like(price)
    cost = cheapest_tree(price, count)
    assert cost == pytest.approx(by_trying(price.tolist(), ranks))
    assert cost == pytest.approx((price * count).sum())
    assert count.sum() == ranks - 1


@given(st.integers(1, 4), st.integers(2, 40), st.sampled_from([1.0, 0.5, 0.1]), st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_the_edges_of_the_cheapest_tree_cost_what_it_costs(levels: int, ranks: int, steep: float, seed: int) -> None:
    """One edge for every rank but the root, where prices rise evenly, and where they rise here and there."""
    rng = np.random.default_rng(seed)
    price = np.cumsum(rng.exponential(size=(levels, ranks)) * (rng.random((levels, ranks)) < steep), axis=1)
    price -= price[:, :1]
    count = np.full_like(price, 7.0)
    cost = cheapest_tree(price, count)
    assert cost == pytest.approx((price * count).sum()) and count.sum() == ranks - 1 and count.min() == 0


@pytest.mark.parametrize(("ranks", "hops"), [(16, 2), (64, 3), (257, 4)])
def test_equal_prices_count_links(ranks: int, hops: int) -> None:
    price = np.tile(np.arange(ranks, dtype=np.float64), (hops, 1))
    assert cheapest_tree(price, np.zeros_like(price)) == broadcast_uses(ranks, hops)


@given(st.integers(2, 40), st.lists(st.floats(0.01, 9.0), min_size=1, max_size=5), st.integers(0, 9))
@settings(max_examples=40, deadline=None)
def test_what_a_circuit_carries_costs_no_more_than_its_length(ranks: int, capacity: list[float], tries: int) -> None:
    prices = Prices(ranks, np.array(capacity))
    prices.exceed(ranks * ranks, tries)
    for price in (prices.price(), Prices(ranks, np.array([*capacity, 1.0]), prices).price()):
        carried = np.array([*capacity, 1.0])[: len(price)] @ price
        assert np.allclose(carried, np.arange(ranks)) and (np.diff(price) >= -1e-12).all()


@pytest.mark.parametrize(
    ("ranks", "wavelengths", "share", "at_least"),
    [(16, 8, 0.2, 1.02), (64, 8, 0.2, 1.08), (64, 64, 2.0, 1.1), (256, 64, 0.2, 1.13)],
)
def test_relays_take_longer_as_circuits_have_one_length(
    ranks: int, wavelengths: int, share: float, at_least: float
) -> None:
    per_use = share / (2 * wavelengths)
    before = max(relayed_seconds(ranks, 1.0, per_use, 2 * wavelengths), slotted_seconds(ranks, 1.0, per_use))
    found = priced_seconds(ranks, 1.0, share, wavelengths, before, 100.0)
    assert found >= at_least * before
    # Seconds, or anything else, are the unit; and with two set-ups on the way anything may change.
    unit = 2.0**-20
    assert priced_seconds(ranks, unit, share * unit, wavelengths, before * unit, 100 * unit) == found * unit
    assert priced_seconds(ranks, 1.0, share, wavelengths, before, (before - 1) / 2) == before
    # Circuits that may be set anew once never take longer than those that stand, and mostly no less.
    anew = [priced_seconds(ranks, 1.0, share, wavelengths, before, part * before) for part in (0.6, 0.8, 1.0)]
    assert all(before <= seconds <= found * 1.003 for seconds in anew) and anew[-1] > before


@given(st.integers(1, 4), st.integers(0, 5), st.integers(0, 9))
@settings(max_examples=20, deadline=None)
def test_two_circuits_that_follow_each_other_carry_no_more_than_this(before: int, between: int, tries: int) -> None:
    ranks, capacity = 20, np.array([1.0, 3.0, 3.0, 3.0, 3.0, 2.0, 3.0, 1.5])
    after = min(before + between, len(capacity))
    prices = Prices(ranks, capacity)
    prices.exceed(ranks * ranks, tries)
    cost = capacity[:, None] * prices.price()
    found = prices.carried_in_turn(before, after)
    for first, second in [(a, b) for a in range(1, ranks) for b in range(1, ranks)]:
        one = cost[:before, first].sum() / first
        other = (cost[0, second] + cost[max(after, 1) :, second].sum()) / second
        assert one + other <= found * (1 + 1e-12)
    assert found <= 2


@pytest.mark.parametrize(
    ("name", "ranks", "lag"),
    [
        ("ring of two that stand", 5, 1),
        ("ring of two that stand", 5, 4),
        ("ring of two that stand", 6, 2),
        pytest.param("ring of one that stands", 6, 4, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("kind", ["all-gather", pytest.param("reduce-scatter", marks=pytest.mark.slow)])
def test_no_schedule_is_faster(kind: str, name: str, ranks: int, lag: int) -> None:
    """Where the price of lengths binds, an integer programme finds no schedule in fewer slots."""
    fabric = FABRICS[name](ranks, lag)
    asked = problem(kind, fabric, 1, standing=True)
    bound = lower_bound(asked.collective, fabric).time - fabric.setup_time
    hop, share = lag * SLOT, SLOT
    per_use = share / (2 * fabric.channels)
    before = max(
        relayed_seconds(ranks, hop, per_use, 2 * fabric.channels), slotted_seconds(ranks, hop, per_use), 2 * hop
    )
    assert bound > 1.001 * before
    assert not feasible(asked, ceil(bound / SLOT - 1e-6) - 1)


@pytest.mark.parametrize(
    ("name", "ranks", "lag"),
    [
        ("ring of one that stands", 5, 3),
        ("ring of one that stands", 5, 4),
        ("ring of two that stand", 6, 3),
        pytest.param("ring of one that stands", 6, 5, marks=pytest.mark.slow),
    ],
)
def test_no_schedule_that_sets_circuits_anew_once_is_faster(name: str, ranks: int, lag: int) -> None:
    """Of circuits that stand, those set anew for others, and these others, an integer programme takes the best."""
    fabric = FABRICS[name](ranks, lag).model_copy(update={"reconfiguration_time": lag * SLOT})
    asked = replace(problem("all-gather", fabric, 1, standing=True), setup=lag)
    bound = lower_bound(asked.collective, fabric).time - fabric.setup_time
    assert bound > 1.01 * (fabric.setup_time + lag * SLOT) and ceil(bound / SLOT - 1e-6) > 2 * lag
    assert not feasible(asked, ceil(bound / SLOT - 1e-6) - 1)


@pytest.mark.parametrize("kind", ["all-gather", "reduce-scatter", "all-reduce"])
def test_the_quick_bound_leaves_out_what_prices_prove_and_nothing_else(kind: Kind) -> None:
    looser = 0
    for ranks in (16, 64):
        fabric = wdm_ring(ranks, 8, reconfiguration_time=25e-6, conversion_time=1e-6)
        for nbytes in (0.0, 4096.0, 64e3, 2.0**30):
            collective = Collective(kind, ranks, nbytes)
            quick, whole = (lower_bound(collective, fabric, quick=quick) for quick in (True, False))
            of_ring = ring_bounds(collective, fabric)
            told = [bound for bound in of_ring if bound[1] != "standing circuits that serve first hops and later ones"]
            assert ring_bounds(collective, fabric, quick=True) == told
            assert quick.time <= whole.time
            looser += quick.time < whole.time
    assert (looser > 0) == (kind in ("all-gather", "reduce-scatter"))


def test_the_largest_bound_is_of_circuits_that_serve_several_hops() -> None:
    fabric = wdm_ring(64, 8, reconfiguration_time=25e-6, conversion_time=1e-6)
    seconds, name = max(ring_bounds(Collective("all-gather", 64, 64e3), fabric))
    assert name == "standing circuits that serve first hops and later ones" and seconds > 1.08 * 4e-6
    # A set-up for circuits of other lengths takes no longer.
    short = fabric.model_copy(update={"reconfiguration_time": 1e-6})
    assert max(ring_bounds(Collective("all-gather", 64, 64e3), short))[0] < 4e-6


@given(st.integers(2, 90), st.integers(2, 90), st.integers(2, 5), st.integers(2, 5), st.integers(0, 9))
@settings(max_examples=25, deadline=None)
def test_the_longest_lengths_keep_their_prices_at_another_time_and_among_other_ranks(
    ranks: int, others: int, levels: int, later: int, tries: int
) -> None:
    """What has no price of its own yet takes the shortest length's; first hops and the last slot keep their parts."""
    before = Prices(ranks, np.linspace(1.0, 2.0, levels))
    before.exceed(ranks * ranks, tries)
    old, new = (
        prices.levels * np.diff(prices.price()) * capacity[:, None]
        for prices, capacity in (
            (before, np.linspace(1.0, 2.0, levels)),
            (Prices(others, np.linspace(1.0, 3.0, later), before), np.linspace(1.0, 3.0, later)),
        )
    )
    # Of lengths of one class, what the next unit adds is the same.
    old, new = old[:, _first_of_classes(ranks)], new[:, _first_of_classes(others)]
    kept = old[:, np.maximum(np.arange(new.shape[1]) + old.shape[1] - new.shape[1], 0)]
    assert np.allclose(new[0] / new[-1], kept[0] / kept[-1], rtol=1e-9)
    if later == levels:
        assert np.allclose(new, kept, rtol=1e-9)


def _first_of_classes(ranks: int) -> list[int]:
    ends = [0, 1]
    while ends[-1] < ranks - 1:
        ends.append(min(max(ends[-1] + 1, round(1.35 * ends[-1])), ranks - 1))
    return ends[:-1]
