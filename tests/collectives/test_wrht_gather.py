"""WRHT's all-gather by multicasts: right for any ring and any number of taps, in as many steps as derived."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lightloom.collectives.algorithms.wrht import WRHT
from lightloom.collectives.bounds.link_use import ring_all_to_all_wavelengths
from lightloom.collectives.collective import Collective
from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.registry import build, evaluate, find
from lightloom.collectives.verify.verifier import verify
from lightloom.core.errors import UnsupportedError, VerificationError
from tests.collectives.strategies import wdm_ring


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(2, 40), st.integers(1, 8), st.integers(2, 9), st.booleans())
def test_every_ring_is_served(ranks: int, wavelengths: int, taps: int, striped: bool) -> None:
    fabric = wdm_ring(ranks, wavelengths, multicast_taps=taps)
    request = Collective("all-gather", ranks, 1e6 * ranks)
    schedule = WRHT.build(request, fabric, striped=striped)
    verify(schedule, fabric)
    twin = schedule.unfolded(wavelengths)
    verify(twin, fabric)
    assert len(twin) == ranks * (ranks - 1)
    assert cost(twin, fabric).time == pytest.approx(cost(schedule, fabric).time, rel=1e-12)
    assert len(schedule) <= WRHT.rows("all-gather", fabric)


@pytest.mark.parametrize("wavelengths", [2, 3, 5])
@pytest.mark.parametrize("groups", [2, 3])
def test_steps_of_even_groups(wavelengths: int, groups: int) -> None:
    """Members send in a step, representatives exchange whole groups, and a middle feeds w shares a step to a side."""
    size = 2 * wavelengths + 1
    ranks = groups * size
    across = -(-ring_all_to_all_wavelengths(groups) * size // wavelengths)
    for taps in (wavelengths, 2 * wavelengths):
        fabric = wdm_ring(ranks, wavelengths, multicast_taps=taps)
        schedule = build(find("wrht"), Collective("all-gather", ranks, 1e6), fabric)
        assert schedule.steps == 1 + across - (-ranks // wavelengths)


def test_a_thousand_ranks_take_half_of_optrees_steps() -> None:
    fabric = wdm_ring(1024, 64, multicast_taps=64)
    request = Collective("all-gather", 1024, 1e9)
    assert [evaluate(find(name), request, fabric).cost.steps for name in ("wrht", "optree")] == [34, 71]


def test_light_that_serves_one_is_refused_and_so_are_too_many_taps() -> None:
    request = Collective("all-gather", 30, 1e6)
    with pytest.raises(UnsupportedError, match="where lightpaths can be tapped"):
        build(find("wrht"), request, wdm_ring(30, 3))
    schedule = build(find("wrht"), request, wdm_ring(30, 3, multicast_taps=3))
    with pytest.raises(VerificationError, match="can be tapped by 2"):
        verify(schedule, wdm_ring(30, 3, multicast_taps=2))
