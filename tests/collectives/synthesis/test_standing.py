"""Trees over any standing circuits: verified on random graphs, never before a bound, and the closed forms of rings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.collectives.collective import Collective, Kind
from lightloom.collectives.registry import costed
from lightloom.collectives.synthesis.engine.standing import (
    StandingCircuits,
    busy_and_delay,
    forest,
    gather_over,
)
from lightloom.collectives.verify.verifier import verify
from lightloom.core.errors import UnsupportedError
from lightloom.machines.fabrics.switches import CircuitSwitch
from lightloom.machines.fabrics.wdm_ring import WdmRing
from tests.collectives.forests import parents, queues

KINDS: tuple[Kind, ...] = ("all-gather", "reduce-scatter", "all-reduce")


def planes(permutations: list[list[int]]) -> StandingCircuits:
    """Circuits of a switch whose planes hold these permutations; a rank joined to itself has no circuit there."""
    ranks = len(permutations[0])
    ends = [(at, to, plane) for plane, each in enumerate(permutations) for at, to in enumerate(each) if at != to]
    source, destination, plane = np.array(ends, np.int64).T
    return StandingCircuits(ranks, source, destination, 0 * plane, plane, 0 * plane + 1)


def neighbours(ranks: int, split: tuple[int, ...]) -> StandingCircuits:
    """Unit links both ways, the wavelengths of each cut into circuits of these widths."""
    at = np.arange(ranks)
    first = np.concatenate([[0], np.cumsum(split)])[:-1]
    columns = [
        (at, (at + (1, -1)[way]) % ranks, way + 0 * at, first[i] + 0 * at, width + 0 * at)
        for way in (0, 1)
        for i, width in enumerate(split)
    ]
    return StandingCircuits(ranks, *(np.concatenate(each).astype(np.int64) for each in zip(*columns, strict=True)))


@settings(deadline=None, max_examples=40)
@given(st.data(), st.sampled_from(KINDS))
def test_random_permutations_that_join_all_ranks_carry_every_kind(data: st.DataObject, kind: Kind) -> None:
    ranks = data.draw(st.integers(2, 14))
    degree = data.draw(st.integers(1, 3))
    permutations = [list(data.draw(st.permutations(range(ranks)))) for _ in range(degree)]
    # One cycle through all ranks in a drawn order, so that all are joined, one way.
    cycle = data.draw(st.permutations(range(ranks)))
    permutations.append([cycle[(cycle.index(at) + 1) % ranks] for at in range(ranks)])
    fabric = CircuitSwitch(ranks=ranks, degree=degree + 1, bandwidth=50e9, hop_latency=1e-6)
    wanted = Collective(kind, ranks, 10 ** data.draw(st.floats(2, 7)))
    schedule = gather_over(wanted, fabric, planes(permutations), data.draw(st.integers(1, 3)))
    verify(schedule, fabric)
    cost, bound = costed(schedule, fabric)
    assert cost.time >= bound.time * (1 - 1e-9)


@settings(deadline=None, max_examples=30)
@given(
    st.integers(3, 24), st.lists(st.integers(1, 4), min_size=1, max_size=3), st.sampled_from(KINDS), st.integers(1, 4)
)
def test_split_bundles_carry_every_kind(ranks: int, split: list[int], kind: Kind, pieces: int) -> None:
    fabric = WdmRing(ranks=ranks, wavelengths=sum(split), wavelength_bandwidth=5e9, conversion_time=1e-6)
    wanted = Collective(kind, ranks, 1e4 * ranks)
    schedule = gather_over(wanted, fabric, neighbours(ranks, tuple(split)), pieces)
    verify(schedule, fabric)
    costed(schedule, fabric)


@pytest.mark.parametrize("ranks", [5, 16, 33])
def test_large_shares_take_the_time_of_a_ring_that_never_waits(ranks: int) -> None:
    """n D + h with n = (N − 1) / 2 shares from each side."""
    fabric = WdmRing(ranks=ranks, wavelengths=4, wavelength_bandwidth=5e9, conversion_time=1e-6)
    share = 1e7
    circuits = neighbours(ranks, (4,))
    trees = forest(circuits, *busy_and_delay(fabric, circuits, share / 2), 2)
    assert trees.time == pytest.approx((ranks - 1) / 2 * share / (4 * 5e9) + 1e-6, rel=1e-9)


@settings(deadline=None, max_examples=30)
@given(st.integers(2, 20), st.integers(1, 3), st.floats(2, 6), st.booleans())
def test_trees_span_follow_circuits_and_never_send_what_has_not_come(
    ranks: int, pieces: int, power: float, backward: bool
) -> None:
    fabric = WdmRing(ranks=ranks, wavelengths=6, wavelength_bandwidth=5e9, conversion_time=1e-6, hop_latency=1e-8)
    circuits = neighbours(ranks, (4, 2))
    busy, delay = busy_and_delay(fabric, circuits, 10**power / pieces)
    trees = forest(circuits, busy, delay, pieces, backward=backward)
    origin, target = circuits.source, circuits.destination
    if backward:
        origin, target = target, origin
    roots, queue = np.arange(ranks), queues(trees)
    assert (queue[:, roots, roots] == -1).all()
    piece, root, rank = np.nonzero(queue >= 0)
    assert len(piece) == pieces * ranks * (ranks - 1)
    path, up = queue[piece, root, rank], parents(trees)[piece, root, rank]
    assert (origin[path] == up).all() and (target[path] == rank).all()
    begin = trees.begin[piece, root, rank]
    above = queue[piece, root, up]
    arrived = np.where(above >= 0, trees.begin[piece, root, up] + delay[above], 0.0)
    assert (begin >= arrived - 1e-15).all()
    assert trees.time == pytest.approx((begin + delay[path]).max(), rel=1e-9)
    order = np.lexsort((begin, path))
    same = path[order][1:] == path[order][:-1]
    assert (np.diff(begin[order])[same] >= busy[path[order][:-1]][same] * (1 - 1e-9)).all()


def test_what_cannot_be_carried_is_said() -> None:
    fabric = CircuitSwitch(ranks=4, degree=1)
    stride = planes([[1, 0, 3, 2]])
    with pytest.raises(UnsupportedError, match="4 circuits do not join all of 4 ranks"):
        gather_over(Collective("all-gather", 4, 4e3), fabric, stride, 1)
