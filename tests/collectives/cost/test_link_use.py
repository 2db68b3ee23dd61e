"""The fewest link uses of a broadcast: against trying all trees, and as a bound on time."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.collectives.schedule.link_use import broadcast_uses, closed_form, joint_seconds


@cache
def by_trying(ranks: int, hops: int) -> int:
    """Every assignment of depths to the ranks of a line; each attaches to the nearest one that has the data before."""
    best = 1 << 30

    def extend(depths: list[int]) -> None:
        nonlocal best
        if len(depths) < ranks:
            for depth in range(hops + 1):
                if depth or 0 not in depths:
                    extend([*depths, depth])
            return
        if 0 not in depths:
            return
        uses = 0
        for at, depth in enumerate(depths):
            if depth:
                uses += min(abs(at - other) for other in range(ranks) if depths[other] < depth)
        best = min(best, uses)

    extend([])
    return best


@pytest.mark.parametrize("ranks", range(1, 8))
@pytest.mark.parametrize("hops", range(1, 5))
def test_equals_trying_all_depths(ranks: int, hops: int) -> None:
    assert broadcast_uses(ranks, hops) == by_trying(ranks, hops)


@pytest.mark.parametrize(("ranks", "exact"), [(64, 6), (256, 11), (1024, 23)])
def test_the_closed_form_is_below_and_exact_from_some_hops_on(ranks: int, exact: int) -> None:
    uses = [broadcast_uses(ranks, hops) for hops in range(1, ranks)]
    assert uses == sorted(uses, reverse=True)
    assert uses[0] == sum(min(k, ranks - k) for k in range(ranks))
    for hops, found in enumerate(uses, start=1):
        assert (found == closed_form(ranks, hops)) == (hops >= exact)
        assert found >= closed_form(ranks, hops)


@given(st.integers(2, 80), st.floats(1e-9, 1e-5), st.floats(0, 1e-6), st.integers(0, 100))
def test_joint_seconds_is_the_least_that_satisfies_the_bound(ranks: int, hop: float, per_use: float, more: int) -> None:
    def allows(seconds: float) -> bool:
        hops = max(1, int(seconds / hop * (1 + 1e-12)))
        return seconds >= (hop + (broadcast_uses(ranks, hops) + more) * per_use) * (1 - 1e-9)

    found = joint_seconds(ranks, hop, per_use, more)
    assert allows(found)
    assert not allows(found * 0.999) or found * 0.999 < hop
    assert joint_seconds(ranks, 0.0, per_use, more) <= found
