"""Fewest link uses of a byte: against trying all trees, against integer programmes, and as bounds on time."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lightloom.collectives.bounds.link_use import (
    Uses,
    _cheapest,
    _least_in_last_slot,
    _least_seconds,
    all_reduce_uses,
    broadcast_uses,
    closed_form,
    joint_seconds,
    opposite_uses,
    relayed_seconds,
    slotted_seconds,
)
from tests.collectives.bounds.fewest_links import fewest_links, fewest_to_opposite


@cache
def trees(ranks: int, dear: int, hops: int, last_price: float = 1.0) -> dict[int, float]:
    """Every assignment of depths to the ranks of a line; each attaches to the nearest one that has the data before.

    The first ``dear`` levels cost one more than their lengths, a length in the last level ``last_price``. By the total
    length of the first level, the least cost of all the rest.
    """
    least: dict[int, float] = {}

    def extend(depths: list[int]) -> None:
        if len(depths) < ranks:
            for depth in range(hops + 1):
                if depth or 0 not in depths:
                    extend([*depths, depth])
            return
        if 0 not in depths:
            return
        first, rest = 0, 0.0
        for at, depth in enumerate(depths):
            if depth:
                length = min(abs(at - other) for other in range(ranks) if depths[other] < depth)
                first += length * (depth == 1)
                rest += length * (last_price if depth == hops else 1.0) * (depth > 1) + (depth <= dear)
        least[first] = min(rest, least.get(first, rest))

    extend([])
    return least


def by_trying(ranks: int, dear: int, hops: int, last_price: float = 1.0, first_price: float = 1.0) -> float:
    """Least cost of a tree whose first level costs ``first_price`` times its length, the rest as in ``trees``."""
    if hops == 1:
        first_price *= last_price
    return min(first * first_price + rest for first, rest in trees(ranks, dear, hops, last_price).items())


@pytest.mark.parametrize("ranks", range(1, 8))
@pytest.mark.parametrize("hops", range(1, 5))
def test_equals_trying_all_depths(ranks: int, hops: int) -> None:
    assert broadcast_uses(ranks, hops) == by_trying(ranks, 0, hops)


@pytest.mark.parametrize("ranks", range(2, 7))
@pytest.mark.parametrize("hops", range(2, 5))
def test_sums_are_collected_by_one_tree_and_spread_by_one_of_two_phases(ranks: int, hops: int) -> None:
    trees = (broadcast_uses(ranks, level) + by_trying(ranks, level - 1, hops) for level in range(1, hops + 1))
    assert all_reduce_uses(ranks, hops) == max(opposite_uses(ranks, hops), min(trees))


@pytest.mark.parametrize("ranks", [2, 4, 6, 16, 64, 256, 257])
def test_one_rank_that_all_hear_is_as_good_as_any_within_two_hops(ranks: int) -> None:
    """It hears all others directly and answers them: N²/2 links, which is the bound if the ranks are even."""
    star = 2 * broadcast_uses(ranks, 1)
    assert all_reduce_uses(ranks, 2) == star - ranks % 2 * (ranks - 1) // 2


@pytest.mark.parametrize(("ranks", "hops"), [(3, 2), (4, 2), (4, 3), (5, 2), (6, 2)])
def test_no_messages_reach_the_opposite_side_over_fewer_links(ranks: int, hops: int) -> None:
    fewest = fewest_to_opposite(ranks, hops)
    assert opposite_uses(ranks, hops) <= fewest and (hops > 2 or opposite_uses(ranks, hops) == fewest)


@pytest.mark.parametrize("ranks", [24, 64, 144, 256, 1024])
def test_nor_do_hubs_that_hear_and_answer(ranks: int) -> None:
    """Hubs among which sums go straight, in three hops, and one rank at which two trees of two levels meet, in four."""
    for hubs in (hubs for hubs in range(1, ranks + 1) if ranks % hubs == 0):
        around = 2 * hubs * broadcast_uses(ranks // hubs, 1)
        between = hubs * broadcast_uses(hubs, 1) * (ranks // hubs)
        assert opposite_uses(ranks, 3) <= around + between
    assert 0.6 * 2 * broadcast_uses(ranks, 2) < opposite_uses(ranks, 4) <= 2 * broadcast_uses(ranks, 2)


@pytest.mark.parametrize("paid", range(2, 9))
def test_ranks_that_pay_whole_links_are_led_away_by_their_powers(paid: int) -> None:
    """u + u² + u⁴ + ... links for u, one term for every other hop."""
    away = 0
    for half in range(1, 4):
        away += paid**2 ** (half - 1)
        for hops in (2 * half - 1, 2 * half):
            assert opposite_uses(2 * away, hops) == 2 * away * paid
            assert opposite_uses(2 * away - 2, hops) < 2 * away * paid < opposite_uses(2 * away + 2, hops)


@pytest.mark.parametrize(("ranks", "hops"), [(3, 1), (3, 2), (3, 3), (4, 1), (4, 2), (5, 1), (5, 2)])
def test_no_schedule_of_an_all_reduce_uses_fewer_links(ranks: int, hops: int) -> None:
    assert all_reduce_uses(ranks, hops) <= fewest_links(ranks, hops)


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "hops", "fewest"), [(4, 3, 6), (4, 4, 6), (5, 3, 10), (6, 1, 54), (6, 2, 18)])
def test_nor_does_one_of_more_levels(ranks: int, hops: int, fewest: int) -> None:
    assert fewest_links(ranks, hops) == fewest >= all_reduce_uses(ranks, hops)


@pytest.mark.parametrize("ranks", [6, 16, 64, 256, 1024])
def test_sums_use_more_links_than_what_was_proved_before(ranks: int) -> None:
    """Never fewer than a broadcast and one reception each, more where hops are few, and two broadcasts at least."""
    uses = [all_reduce_uses(ranks, hops) for hops in range(1, ranks + 1)]
    assert uses == sorted(uses, reverse=True) and uses[-1] == 2 * (ranks - 1)
    for hops, found in enumerate(uses, start=1):
        broadcast = broadcast_uses(ranks, hops)
        assert found >= max(2 * broadcast, 4 * (ranks - 1) - 2 * (hops + 1))
        assert found > broadcast + ranks - 1 or broadcast == ranks - 1


@pytest.mark.parametrize(("ranks", "exact"), [(64, 6), (256, 11), (1024, 23)])
def test_the_closed_form_is_below_and_exact_from_some_hops_on(ranks: int, exact: int) -> None:
    uses = [broadcast_uses(ranks, hops) for hops in range(1, ranks)]
    assert uses == sorted(uses, reverse=True)
    assert uses[0] == sum(min(k, ranks - k) for k in range(ranks))
    for hops, found in enumerate(uses, start=1):
        assert (found == closed_form(ranks, hops)) == (hops >= exact)
        assert found >= closed_form(ranks, hops)


@given(
    st.integers(2, 80),
    st.floats(1e-9, 1e-5),
    st.floats(0, 1e-6),
    st.integers(0, 100),
    st.sampled_from([broadcast_uses, all_reduce_uses]),
)
def test_joint_seconds_is_the_least_that_satisfies_the_bound(
    ranks: int, hop: float, per_use: float, more: int, uses: Uses
) -> None:
    def allows(seconds: float) -> bool:
        hops = max(1, int(seconds / hop * (1 + 1e-12)))
        return seconds >= (hop + (uses(ranks, hops) + more) * per_use) * (1 - 1e-9)

    found = joint_seconds(ranks, hop, per_use, uses, more)
    assert allows(found)
    assert not allows(found * 0.999) or found * 0.999 < hop
    assert joint_seconds(ranks, 0.0, per_use, uses, more) <= found


@given(st.integers(2, 6), st.floats(1e-3, 1.0), st.sampled_from([1.0, 1.5, 2.0, 3.0, 7.0]))
def test_links_of_the_last_slot_have_any_price(ranks: int, per_use: float, price: float) -> None:
    """What the slots can carry covers the cheapest tree at every price of the last one."""
    seconds = slotted_seconds(ranks, 1.0, per_use)
    assert joint_seconds(ranks, 1.0, per_use) <= seconds * (1 + 1e-12)
    hops = int(seconds * (1 + 1e-12))
    if hops <= 4:
        carried = (hops - 1 + price * (seconds - hops)) / per_use
        assert carried >= by_trying(ranks, 0, hops, price) * (1 - 1e-9)


@given(st.integers(3, 6), st.floats(1e-3, 1.0), st.floats(0.1, 4.0), st.sampled_from([1.0, 1.5, 2.0, 3.0, 7.0]))
def test_links_of_first_hops_have_any_price(ranks: int, per_use: float, first_uses: float, price: float) -> None:
    """First hops over circuits that stand, and relays between one hop and the last, cover the cheapest tree."""
    seconds = relayed_seconds(ranks, 1.0, per_use, first_uses)
    hops = int(seconds * (1 + 1e-12))
    if not hops:
        assert broadcast_uses(ranks, 1) <= first_uses
    elif hops <= 4:
        covered = price * first_uses + (seconds - 2) / per_use
        assert covered >= by_trying(ranks, 0, hops, first_price=price) * (1 - 1e-9)


@pytest.mark.parametrize(("ranks", "hops"), [(5, 2), (6, 2), (6, 3)])
def test_relays_are_bound_by_the_dearest_price_of_first_hops_alone(ranks: int, hops: int) -> None:
    """The least X is where some price of first hops, at least that of others, leaves no time over."""
    first_uses, per_use = 2.5, 0.8 / (broadcast_uses(ranks, hops) - 2.5)
    seconds = relayed_seconds(ranks, 1.0, per_use, first_uses)
    prices = [1.0 + k / 100 for k in range(400)]
    trees = [by_trying(ranks, 0, int(seconds), first_price=price) - price * first_uses for price in prices]
    assert seconds == pytest.approx(max(int(seconds), 2 + max(trees) * per_use), rel=1e-2)


@given(st.integers(2, 40), st.floats(1e-3, 10.0), st.floats(0.0, 20.0), st.sampled_from([0.125, 8.0, 2.0**-20]))
def test_times_have_the_unit_of_hops(ranks: int, per_use: float, first_uses: float, unit: float) -> None:
    """In another unit of time all bounds are the same numbers of it; powers of two round alike."""
    assert joint_seconds(ranks, unit, per_use * unit) == unit * joint_seconds(ranks, 1.0, per_use)
    assert slotted_seconds(ranks, unit, per_use * unit) == unit * slotted_seconds(ranks, 1.0, per_use)
    relayed = relayed_seconds(ranks, 1.0, per_use, first_uses)
    assert relayed_seconds(ranks, unit, per_use * unit, first_uses) == unit * relayed


@pytest.mark.parametrize("ranks", [2, 3, 16])
def test_bounds_without_hops_or_bytes_to_pay(ranks: int) -> None:
    """Bytes that take no time leave hops, hops that take none leave the links' time, and relays need both."""
    assert joint_seconds(ranks, 0.0, 1.0) == slotted_seconds(ranks, 0.0, 1.0) >= broadcast_uses(ranks, ranks)
    assert joint_seconds(ranks, 1.0, 0.0) == slotted_seconds(ranks, 1.0, 0.0) == 1.0
    assert joint_seconds(ranks, 0.0, 1.0, more_uses=5) == joint_seconds(ranks, 0.0, 1.0) + 5
    assert relayed_seconds(ranks, 0.0, 1.0, 0.0) == relayed_seconds(ranks, 1.0, 0.0, 0.0) == 0.0


@pytest.mark.parametrize("ranks", [16, 64, 256])
def test_time_grows_smoothly_with_the_bytes_although_hops_are_whole(ranks: int) -> None:
    """A slot that has just begun carries next to nothing."""
    per_use = [1.0 / broadcast_uses(ranks, hops) * (1 + 1e-9) for hops in (1, 2, 3)]
    for hops, each in enumerate(per_use, start=2):
        before = slotted_seconds(ranks, 1.0, each * (hops - 1) * (1 - 2e-9))
        assert slotted_seconds(ranks, 1.0, each * (hops - 1)) == pytest.approx(before, rel=1e-3)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=9), st.integers(1, 4))
@example([4, 0], 1)
@example([9, 9, 8, 0], 1)
def test_the_least_seconds_are_found_with_the_hops_that_they_allow(seconds: list[int], fewest: int) -> None:
    """Of whole seconds and hops of two, every time is tried."""
    falling = sorted(seconds, reverse=True)
    most = fewest + len(seconds) - 1

    def allowed(time: int) -> int:
        return min(time // 2, most)

    least = next(time for time in range(2 * fewest, 99) if time >= falling[allowed(time) - fewest])
    assert _least_seconds(lambda hops: float(falling[hops - fewest]), 2.0, fewest, most) == (least, allowed(least))


@pytest.mark.parametrize(("ranks", "hops"), [(9, 2), (16, 2), (16, 3), (30, 3), (64, 4)])
def test_a_last_slot_carries_what_those_before_leave_and_nothing_once_they_carry_all(ranks: int, hops: int) -> None:
    """On the line between two prices; where those before carry less than at equal prices, nothing is said."""
    equal, alone = _cheapest(ranks, hops, 1.0), broadcast_uses(ranks, hops - 1)
    assert sum(equal) == broadcast_uses(ranks, hops)
    assert _least_in_last_slot(ranks, hops, equal[0] - 0.5) == 0 == _least_in_last_slot(ranks, hops, float(alone))
    assert _least_in_last_slot(ranks, hops, equal[0]) == equal[1] > 0
    most = equal[1]
    for capacity in np.linspace(equal[0], alone, 9)[1:-1]:
        found = _least_in_last_slot(ranks, hops, float(capacity))
        prices = [(a / b, _cheapest(ranks, hops, a / b)) for a in range(1, 40) for b in range(1, 5) if a >= b]
        expected = max((others + price * last - capacity) / price for price, (others, last) in prices)
        assert found == pytest.approx(expected, rel=1e-2) and 0 < found < most
        most = found
