"""All-reduces whose halves overlap: the same rows, as right as before, and never slower."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.collectives.bounds.link_use import ring_all_to_all_wavelengths
from lightloom.collectives.collective import Collective, Kind
from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.schedule.build import ring_all_to_all
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.synthesis.engine.queues import overlapped, ring_schedule
from lightloom.collectives.synthesis.engine.standing import StandingCircuits, gather_over
from lightloom.collectives.synthesis.engine.trees import Design, RingTask, Timing, make_trees
from lightloom.collectives.verify.verifier import verify
from lightloom.machines.fabrics.wdm_ring import WdmRing

HOP, BANDWIDTH = 1e-6, 5e9


def _ring(ranks: int, wavelengths: int) -> WdmRing:
    return WdmRing(
        ranks=ranks,
        wavelengths=wavelengths,
        wavelength_bandwidth=BANDWIDTH,
        conversion_time=HOP,
        reconfiguration_time=0.0,
    )


def _on_neighbours(kind: Kind, ranks: int, wavelengths: int, nbytes: float, pieces: int) -> Schedule:
    fabric = _ring(ranks, wavelengths)
    task = RingTask(ranks, wavelengths, nbytes / ranks, Timing(BANDWIDTH, HOP), 0.0)
    trees = make_trees(Design((), pieces=pieces), task)
    assert trees is not None
    return ring_schedule(Collective(kind, ranks, nbytes), fabric, trees)


def _rows(schedule: Schedule) -> Counter[tuple[int, ...]]:
    names = ("lightpath", "source", "destination", "chunk", "reduces")
    return Counter(zip(*(getattr(schedule, name).tolist() for name in names), strict=True))


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 24), st.integers(1, 8), st.floats(2.0, 7.0), st.integers(1, 6))
def test_the_same_rows_in_another_order_are_right_and_never_slower(
    ranks: int, wavelengths: int, digits: float, pieces: int
) -> None:
    fabric = _ring(ranks, wavelengths)
    before = _on_neighbours("all-reduce", ranks, wavelengths, 10**digits, pieces)
    after = overlapped(before, fabric)
    verify(after, fabric)
    assert _rows(after) == _rows(before)
    assert cost(after, fabric).time <= cost(before, fabric).time


@pytest.mark.parametrize("pieces", [1, 4, 16])
@pytest.mark.parametrize("ranks", [5, 8, 16])
def test_straight_sums_hide_one_half_but_for_a_piece(ranks: int, pieces: int) -> None:
    """Where sending takes a hop's time, contributions are all sent when the first sums are there."""
    colours = ring_all_to_all_wavelengths(ranks)
    fabric = _ring(ranks, colours)
    source, destination, route, colour = ring_all_to_all(ranks)
    circuits = StandingCircuits(ranks, source, destination, route, colour, np.ones_like(colour))
    wanted = Collective("all-reduce", ranks, ranks * HOP * BANDWIDTH)
    schedule = overlapped(gather_over(wanted, fabric, circuits, pieces), fabric)
    verify(schedule, fabric)
    assert cost(schedule, fabric).time == pytest.approx((3 + 1 / pieces) * HOP)


def test_other_schedules_stay_as_they_are() -> None:
    gather = _on_neighbours("all-gather", 8, 2, 1e4, 2)
    assert overlapped(gather, _ring(8, 2)) is gather
