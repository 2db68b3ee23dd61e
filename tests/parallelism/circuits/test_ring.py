"""SiP-Ring: exact for small cases, near the fractional bound for large ones, and coloured with continuity."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.core.errors import InputError, VerificationError
from lightloom.machines.fabrics.wdm_ring import WdmRing
from lightloom.planning.parallelism.circuits import ring, switch
from lightloom.planning.parallelism.circuits.circuits import Traffic, least_service
from lightloom.planning.parallelism.circuits.ring import arc_load, colour_arcs
from lightloom.planning.parallelism.circuits.verify import verify
from tests.parallelism.circuits.exhaustive import best_ring, fewest_colours
from tests.parallelism.circuits.granted import verify_granted
from tests.parallelism.circuits.strategies import matrices, neighbours, traffics, uniform

_LONG = 120.0
"""Seconds that no program here comes near, so that the optimum is proved on a busy machine too."""


@pytest.mark.parametrize(
    ("ranks", "wavelengths", "expected"), [(4, 4, 2), (4, 8, 4), (5, 16, 5), (8, 8, 1), (8, 16, 2)]
)
def test_uniform_all_to_all(ranks: int, wavelengths: int, expected: int) -> None:
    """Optima of the wavelength-count program, known for one fibre each way; the fast way reaches them, coloured."""
    fabric = WdmRing(ranks=ranks, wavelengths=wavelengths)
    solved = switch.solve_ring(uniform(ranks), fabric, time_limit=_LONG)
    assert solved.status == "optimal"
    assert solved.counts.sum(axis=1).min() == expected
    assert ring.assign(uniform(ranks), fabric).max_min == expected


def test_clockwise_neighbours_use_both_ways() -> None:
    """Eight wavelengths clockwise, and the one that goes all the way round the other way."""
    traffic, fabric = neighbours(8, 1, 0, spread=0.0), WdmRing(ranks=8, wavelengths=8)
    solved = switch.solve_ring(traffic, fabric, time_limit=_LONG)
    assert solved.counts.sum(axis=1).min() == 9
    assert ring.assign(traffic, fabric).max_min == 9


@settings(deadline=None, max_examples=30)
@given(traffics(least=3, most=5, share=0.3), st.integers(1, 3))
def test_program_equals_trying_all(traffic: Traffic, wavelengths: int) -> None:
    """And no coloured assignment beats it, nor it the bounds."""
    fabric = WdmRing(ranks=traffic.ranks, wavelengths=wavelengths)
    solved = switch.solve_ring(traffic, fabric, time_limit=_LONG)
    assert solved.status == "optimal"
    counted = least_service(solved.counts.sum(axis=1), traffic)
    assert counted == pytest.approx(best_ring(traffic, wavelengths), rel=1e-6)
    assert counted <= ring.relax(traffic, fabric, continuity=False).service * (1 + 1e-6)
    found = ring.assign(traffic, fabric)
    assert found.max_min <= min(counted, found.bound) * (1 + 1e-6)


@settings(deadline=None, max_examples=40)
@given(
    traffics(least=3, most=12),
    st.integers(1, 6),
    st.integers(1, 2),
    st.integers(1, 5),
)
def test_assignments_are_legal(traffic: Traffic, wavelengths: int, fibres: int, holds: int) -> None:
    fabric = WdmRing(ranks=traffic.ranks, wavelengths=wavelengths, fibres=fibres)
    found = ring.assign(traffic, fabric, holds)
    verify_granted(found.circuits, fabric, traffic, found.circuits.counts(traffic).sum(axis=0))
    assert found.unassigned == 0
    assert found.max_min <= found.bound * (1 + 1e-6)


@settings(deadline=None, max_examples=60)
@given(st.integers(3, 10), st.integers(0, 2**32 - 1), st.integers(1, 40))
def test_colours_differ_where_arcs_overlap(nodes: int, seed: int, arcs: int) -> None:
    rng = np.random.default_rng(seed)
    start, length = rng.integers(0, nodes, arcs), rng.integers(1, nodes, arcs)
    colour, used = colour_arcs(start, length, nodes)
    load = arc_load(start, length, nodes)
    assert load.sum() == length.sum()
    assert load.max() <= used <= max(2 * load.max() - 1, 1)
    assert set(colour.tolist()) == set(range(used))
    cells = [(c, (s + k) % nodes) for c, s, n in zip(colour, start, length, strict=True) for k in range(n)]
    assert len(cells) == len(set(cells))


@settings(deadline=None, max_examples=40)
@given(st.integers(3, 6), st.integers(0, 2**32 - 1), st.integers(1, 7))
def test_colours_near_the_fewest(nodes: int, seed: int, arcs: int) -> None:
    """One more than the fewest at most, on cases small enough to know."""
    rng = np.random.default_rng(seed)
    start, length = rng.integers(0, nodes, arcs), rng.integers(1, nodes, arcs)
    fewest = fewest_colours(start, length, nodes)
    assert fewest <= colour_arcs(start, length, nodes)[1] <= fewest + 1


def test_three_arcs_of_load_two_lose_one() -> None:
    """0→2, 1→0 and 2→1 clockwise on a ring of three: each two overlap, the load is 2, and so are the wavelengths.

    Counter-clockwise, the same pairs fill every link, so that the third has nowhere to turn.
    """
    fabric = WdmRing(ranks=3, wavelengths=2)
    traffic = Traffic.of([[0, 1, 1], [1, 0, 1], [1, 1, 0]])
    counts = np.array([[0, 0], [1, 2], [1, 2], [0, 0], [0, 0], [1, 2]])
    circuits, unassigned = ring.realise(traffic, fabric, counts)
    assert unassigned == 1
    verify(circuits, fabric)
    assert len(circuits) == counts.sum() - 1


@settings(deadline=None, max_examples=15)
@given(traffics(least=3, most=6), st.integers(1, 4))
def test_more_wavelengths_never_serve_less(traffic: Traffic, wavelengths: int) -> None:
    served = []
    for w in (wavelengths, wavelengths + 1):
        solved = switch.solve_ring(traffic, WdmRing(ranks=traffic.ranks, wavelengths=w), time_limit=_LONG)
        served.append(least_service(solved.counts.sum(axis=1), traffic))
    assert served[0] <= served[1] * (1 + 1e-6)


@settings(deadline=None, max_examples=20)
@given(matrices(least=3, most=10), st.integers(1, 8), st.integers(-20, 20), st.integers(1, 9))
def test_bound_ignores_scale_and_rotation(matrix: np.ndarray, wavelengths: int, power: int, turn: int) -> None:
    fabric = WdmRing(ranks=len(matrix), wavelengths=wavelengths)
    base = ring.relax(Traffic.of(matrix), fabric).service
    mirrored = matrix[::-1, ::-1]
    for other in (matrix * 2.0**power, np.roll(matrix, (turn, turn), (0, 1)), mirrored, matrix.T):
        assert ring.relax(Traffic.of(other), fabric).service == pytest.approx(base, rel=1e-6)
    more = WdmRing(ranks=len(matrix), wavelengths=3 * wavelengths, fibres=2)
    assert ring.relax(Traffic.of(matrix), more).service == pytest.approx(6 * base, rel=1e-6)


@settings(deadline=None, max_examples=40)
@given(matrices(least=2, most=12), st.integers(1, 5), st.integers(0, 30), st.booleans())
def test_one_period_of_repeated_traffic_is_enough(
    matrix: np.ndarray, groups: int, ahead: int, continuity: bool
) -> None:
    """The programme of one period has the optimum of the whole one, and its shares reach it on every link."""
    k = len(matrix)
    whole = np.kron(np.eye(groups), matrix)
    if groups > 1:
        at = np.arange(k * groups)
        whole[at, (at + ahead % (k * groups - 1) + 1) % (k * groups)] += matrix.max()
    traffic, fabric = Traffic.of(whole), WdmRing(ranks=k * groups, wavelengths=7)
    found = ring.relax(traffic, fabric, continuity)
    assert (k * groups) % traffic.period() == 0
    with patch.object(Traffic, "period", lambda self: self.ranks):
        unfolded = ring.relax(traffic, fabric, continuity)
    assert found.service == pytest.approx(unfolded.service, rel=1e-6)
    for first, last, share in (
        (traffic.source, traffic.destination, found.clockwise),
        (traffic.destination, traffic.source, 1 - found.clockwise),
    ):
        load = np.zeros(k * groups)
        for a, b, wanted in zip(first, last, share * traffic.relative * found.service, strict=True):
            load[np.arange(a, a + (b - a) % (k * groups)) % (k * groups)] += wanted
        assert load.max() <= fabric.channels * (1 + 1e-6)


@settings(deadline=None, max_examples=10)
@given(matrices(least=3, most=8), st.integers(1, 8), st.integers(-20, 20))
def test_assignment_ignores_scale(matrix: np.ndarray, wavelengths: int, power: int) -> None:
    fabric = WdmRing(ranks=len(matrix), wavelengths=wavelengths)
    once, again = (ring.assign(Traffic.of(m), fabric).circuits for m in (matrix, matrix * 2.0**power))
    for name in ("source", "destination", "route", "channel"):
        assert (getattr(once, name) == getattr(again, name)).all()


@pytest.mark.parametrize("ranks", [8, 16, 32, 64])
def test_turns_come_near_the_bound(ranks: int) -> None:
    """Sixteen peers a rank and 64 wavelengths: within 10 % of the bound over a cycle of holds."""
    traffic = neighbours(ranks, min(16, ranks - 1), ranks)
    fabric = WdmRing(ranks=ranks, wavelengths=64)
    found = ring.assign_in_turns(traffic, fabric)
    verify(found.circuits, fabric)
    assert found.gap <= 0.1


def test_few_circuits_take_the_shorter_way() -> None:
    """The relaxation sends some of the first demand the long way round, which one circuit a pair need not do."""
    matrix = sum(size * np.roll(np.eye(8), step, axis=1) for step, size in ((1, 40e6), (-1, 8e6), (2, 1e6)))
    fabric = WdmRing(ranks=8, wavelengths=8)
    once = ring.assign(Traffic.of(matrix), fabric)
    verify(once.circuits, fabric)
    assert once.max_min == ring.assign_in_turns(Traffic.of(matrix), fabric).max_min == 8


def test_verifier_finds_what_is_wrong() -> None:
    fabric = WdmRing(ranks=6, wavelengths=4)
    traffic = neighbours(6, 2, 0)
    good = ring.assign(traffic, fabric).circuits
    counts = good.counts(traffic).sum(axis=0)
    verify_granted(good, fabric, traffic, counts)
    at = int(np.flatnonzero((good.route == 0) & (good.channel == 1))[0])
    channel, hold, source = good.channel.copy(), good.hold.copy(), good.source.copy()
    channel[at], hold[at], source[at] = 0, 1, good.destination[at]
    for wrong, message in (
        (replace(good, channel=channel), "share their channel on clockwise link"),
        (replace(good, channel=good.channel + 1), r"channel 4 is not in 0..3"),
        (replace(good, hold=hold), r"hold 1 is not in 0..0"),
        (replace(good, source=source), "circuit to itself"),
    ):
        with pytest.raises(VerificationError, match=message):
            verify(wrong, fabric)
    with pytest.raises(VerificationError, match=r"granted \d+ circuits, assigned \d+"):
        verify_granted(good, fabric, traffic, counts + 1)


def test_bad_input() -> None:
    with pytest.raises(InputError, match="4 transceivers a rank: expected none stated, or at least the 8"):
        ring.assign(uniform(4), WdmRing(ranks=4, wavelengths=4, transceivers=4))
    with pytest.raises(InputError, match="traffic of 4 ranks on a fabric of 5"):
        switch.solve_ring(uniform(4), WdmRing(ranks=5))
    with pytest.raises(InputError, match="expected at least 1"):
        ring.assign(uniform(4), WdmRing(ranks=4), holds=0)
