"""Broadcasts on circuits that stand: the programme over intervals, the prices, and the times that they exclude."""

from __future__ import annotations

from itertools import product
from math import ceil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.collectives.bounds import rooted
from lightloom.collectives.bounds.kernels import cheapest_rooted_tree
from lightloom.collectives.bounds.link_use import broadcast_uses
from lightloom.collectives.bounds.lower_bound import ring_bounds
from lightloom.collectives.bounds.rooted import Search, broadcast_seconds, capacities, standing_broadcast_seconds
from lightloom.collectives.collective import ROOTED, Collective
from lightloom.collectives.registry import admitted, evaluate
from lightloom.core.arrays import Floats
from tests.collectives.optimum import FABRICS, feasible, problem
from tests.collectives.strategies import wdm_ring

NAME = "standing circuits and what the root sends together"


@pytest.fixture
def of_few_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prices are looked for among three ranks and more."""
    monkeypatch.setattr(rooted, "_FEWEST_RANKS", 3)
    standing_broadcast_seconds.cache_clear()


def by_trying(price: Floats, first_price: Floats) -> float:
    """Every place of the root and every assignment of levels; each rank attaches wherever it costs least.

    The root's prices hold in all levels, so that trees cost at least what the programme says.
    """
    best = np.inf
    levels, ranks = price.shape
    for root, others in product(range(ranks), product(range(1, levels + 1), repeat=ranks - 1)):
        label, cost = [*others[:root], 0, *others[root:]], 0.0
        for rank in range(ranks):
            parents = [parent for parent in range(ranks) if label[parent] < label[rank]]
            cost += min(
                ((first_price if parent == root else price)[label[rank] - 1, abs(parent - rank)] for parent in parents),
                default=0.0,
            )
        best = min(best, cost)
    return float(best)


@given(st.integers(1, 3), st.integers(2, 5), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 1.0, 30.0]))
@settings(max_examples=25, deadline=None)
def test_no_tree_is_cheaper(levels: int, ranks: int, seed: int, end: float) -> None:
    rng = np.random.default_rng(seed)
    price = np.cumsum(rng.exponential(size=(levels, ranks)) * (rng.random((levels, ranks)) < 0.7), axis=1)
    price -= price[:, :1]
    price[0] = 0.0
    first_price = price + end * rng.random((levels, 1))
    first_price[0] += np.cumsum(rng.exponential(size=ranks))
    count, first_count = np.zeros_like(price), np.zeros_like(price)
    cost = cheapest_rooted_tree(price, first_price, count, first_count)
    assert cost <= by_trying(price, first_price) * (1 + 1e-12)
    assert cost == pytest.approx((price * count).sum() + (first_price * first_count).sum())
    assert count.sum() + first_count.sum() == ranks - 1 and not count[0].any()
    assert (first_count.sum(axis=1) > 0).sum() == 1
    if levels == 1:
        assert cost == pytest.approx(by_trying(price, first_price))


@pytest.mark.parametrize(("ranks", "hops"), [(16, 2), (64, 3), (257, 4)])
def test_equal_prices_count_links(ranks: int, hops: int) -> None:
    price = np.tile(np.arange(ranks, dtype=np.float64), (hops, 1))
    assert cheapest_rooted_tree(price, price, np.zeros_like(price), np.zeros_like(price)) == broadcast_uses(ranks, hops)


@given(st.integers(3, 40), st.floats(2.01, 7.0), st.floats(0.05, 9.0), st.integers(1, 6))
@settings(max_examples=25, deadline=None)
def test_what_a_circuit_carries_costs_no_more_than_its_length_and_its_end(
    ranks: int, hops: float, direction_hops: float, tries: int
) -> None:
    search, capacity, length = Search(ranks, direction_hops), capacities(hops), np.arange(ranks)
    assert capacity.sum() == pytest.approx(hops - 1)
    search.excludes(hops, tries)
    assert search.best is not None
    usual, first, end = search.prices(search.best, capacity)
    assert not usual[0].any() and (capacity @ usual <= length + 1e-9).all()
    assert (capacity @ first <= length + end + 1e-9)[1:].all() and (first >= usual).all()
    assert (np.diff(usual) >= -1e-12).all() and (np.diff(first) >= -1e-12).all()


@pytest.mark.parametrize(
    ("ranks", "direction_hops", "at_least"),
    [
        (16, 3.125, 1.04),
        (64, 2.5, 1.08),
        (256, 0.3125, 1.03),
        pytest.param(256, 2.5, 1.12, marks=pytest.mark.slow),
        pytest.param(1024, 3.125, 1.14, marks=pytest.mark.slow),
    ],
)
def test_circuits_that_stand_take_longer(ranks: int, direction_hops: float, at_least: float) -> None:
    before = broadcast_seconds(ranks, 1.0, direction_hops)
    found = standing_broadcast_seconds(ranks, 1.0, direction_hops, before, 26.0)
    assert found >= at_least * before
    # Seconds, or anything else, are the unit; and no time beyond the last one is of interest.
    unit = 2.0**-20
    assert standing_broadcast_seconds(ranks, unit, direction_hops * unit, before * unit, 26 * unit) == found * unit
    assert standing_broadcast_seconds(ranks, 1.0, direction_hops, before, 1.01 * before) == 1.01 * before
    assert standing_broadcast_seconds(ranks, 1.0, direction_hops, before, before) == before


@pytest.mark.usefixtures("of_few_ranks")
@pytest.mark.parametrize(
    ("name", "ranks", "lag", "pieces"),
    [
        ("ring of one that stands", 5, 2, 2),
        ("ring of two that stand", 6, 2, 3),
        ("ring of two that stand", 6, 1, 2),
        pytest.param("ring of one that stands", 6, 2, 3, marks=pytest.mark.slow),
        pytest.param("ring of one that stands", 7, 2, 1, marks=pytest.mark.slow),
        pytest.param("ring of two that stand", 7, 2, 3, marks=pytest.mark.slow),
        pytest.param("ring of two that stand", 8, 1, 2, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("kind", ["broadcast", pytest.param("reduce", marks=pytest.mark.slow)])
def test_no_schedule_is_faster(kind: str, name: str, ranks: int, lag: int, pieces: int) -> None:
    """An integer programme finds no schedule in fewer slots than this bound alone asks for."""
    fabric = FABRICS[name](ranks, lag)
    bound = standing_broadcast_seconds(ranks, float(lag), pieces / fabric.channels, 2.0 * lag, 1e3)
    assert bound > 2.01 * lag
    assert not feasible(problem(kind, fabric, pieces, standing=True), ceil(bound - 1e-6) - 1)


@pytest.mark.parametrize("kind", ROOTED)
def test_the_largest_bound_is_of_circuits_that_stand(kind: str) -> None:
    fabric = wdm_ring(64, 8, wavelength_bandwidth=5e9, reconfiguration_time=25e-6, conversion_time=1e-6)
    collective = Collective(kind, 64, 1e5)  # type: ignore[arg-type]
    seconds, name = max(ring_bounds(collective, fabric))
    assert name == NAME and seconds > 5.2e-6
    # A set-up for other circuits takes no longer, and one lightpath may serve them all.
    for changed in ({"reconfiguration_time": 1e-6}, {"multicast_taps": 2}):
        names = [name for _, name in ring_bounds(collective, fabric.model_copy(update=changed))]
        assert (NAME in names) == (kind == "reduce" and "multicast_taps" in changed)


@pytest.mark.slow
@pytest.mark.usefixtures("of_few_ranks")
def test_no_schedule_on_2000_rings_is_faster() -> None:
    """Every algorithm on small rings whose circuits stand: verified, and none below this bound."""
    rng, proved = np.random.default_rng(20), 0
    for _ in range(2000):
        ranks, wavelengths = int(rng.integers(3, 20)), int(rng.integers(1, 9))
        sending = float(10 ** rng.uniform(-1.5, 1))
        fabric = wdm_ring(
            ranks, wavelengths, wavelength_bandwidth=5e9, conversion_time=1e-6, hop_latency=0.0, reconfiguration_time=1
        )
        collective = Collective(str(rng.choice(ROOTED)), ranks, sending * wavelengths * 5e3)  # type: ignore[arg-type]
        # Two hops are not proved, and schedules of one hop take less.
        bound = standing_broadcast_seconds(ranks, 1e-6, sending * 1e-6, 2e-6, 1.0)
        bound = bound if bound > 2e-6 else 0.0
        proved += bound > 0
        for algorithm in admitted(collective.kind, fabric):
            found = evaluate(algorithm, collective, fabric)
            assert found.cost.time - 1 >= bound * (1 - 1e-6), (algorithm.name, collective, wavelengths)
    assert proved > 1000


@pytest.mark.parametrize("tries", [1, 2, 9])
@pytest.mark.parametrize("slots", [4, 5])
def test_no_more_prices_and_no_longer_times_are_tried_than_allowed(
    tries: int, slots: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[tuple[float, int]] = []

    class Recorded(Search):
        def excludes(self, hops: float, tries: int) -> bool:
            before = self.tried
            found = super().excludes(hops, tries)
            tried.append((hops, self.tried - before))
            return found

    monkeypatch.setattr(rooted, "Search", Recorded)
    monkeypatch.setattr(rooted, "_TRIES", tries)
    monkeypatch.setattr(rooted, "_MOST_SLOTS", slots)
    standing_broadcast_seconds.cache_clear()
    least = broadcast_seconds(16, 1.0, 3.125)
    found = standing_broadcast_seconds(16, 1.0, 3.125, least, 26.0)
    assert sum(number for _, number in tried) <= tries
    assert all(least < hops < slots for hops, _ in tried)
    assert found == max((hops for hops, _ in tried if hops <= found), default=least)
    assert least <= found < max(slots, least + 1e-9)
    assert bool(tried) == (least < slots)
    standing_broadcast_seconds.cache_clear()
