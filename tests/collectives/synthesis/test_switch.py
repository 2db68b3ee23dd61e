"""Circuit switches: graphs as good as exhaustive search finds, schedules verified, above the bound and near it."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.collectives.bounds.link_use import degree_seconds, ranks_by_hops
from lightloom.collectives.collective import Collective, Kind
from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.registry import admitted, costed, evaluate
from lightloom.collectives.synthesis.switch import SERVES, Lift, circulant, kautz, on_switch
from lightloom.collectives.verify.verifier import verify
from lightloom.core.arrays import Ints
from lightloom.machines.fabrics.switches import CircuitSwitch


def switch(ranks: int, degree: int, **fields: float) -> CircuitSwitch:
    return CircuitSwitch.model_validate({"ranks": ranks, "degree": degree, "hop_latency": 0.5e-6} | fields)


def in_place(collective: Collective, fabric: CircuitSwitch) -> float:
    """Seconds with the circuits in place, over the bound likewise."""
    bound = degree_seconds(collective, fabric) - fabric.setup_time
    return (cost(on_switch(collective, fabric), fabric).time - fabric.setup_time) / bound


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from([2, 3, 5, 8, 15]),
    st.sampled_from([1, 2, 3, 9]),
    st.just(0.0) | st.floats(1, 1e9),
    st.sampled_from(SERVES),
)
def test_every_schedule_is_verified_and_above_both_bounds(ranks: int, degree: int, share: float, kind: Kind) -> None:
    fabric = switch(ranks, degree)
    schedule = on_switch(Collective(kind, ranks, ranks * share), fabric)
    verify(schedule, fabric)
    price, _ = costed(schedule, fabric)
    assert price.time >= degree_seconds(schedule.collective, fabric) * (1 - 1e-9)


def most_and_all_hops(offsets: Ints, ranks: int) -> tuple[float, float]:
    """Of a circulant, by sums of connections."""
    reached, found = {0}, [0]
    while len(reached) < ranks:
        new = {(rank + int(each)) % ranks for rank in reached for each in offsets} - reached
        if not new:
            return np.inf, np.inf
        reached |= new
        found += [found[-1] + 1] * len(new)
    return max(found), sum(found)


@pytest.mark.parametrize(("ranks", "degree"), [(7, 2), (12, 2), (16, 2), (20, 2), (11, 3), (16, 3)])
def test_circulants_have_the_fewest_hops_that_any_has(ranks: int, degree: int) -> None:
    best = min(most_and_all_hops(np.array(each), ranks) for each in combinations(range(1, ranks), degree))
    assert most_and_all_hops(circulant(ranks, degree), ranks) == best
    hops = Lift.of(ranks, circulant(ranks, degree)[:, None]).hops
    assert (hops.max(), hops.sum()) == best


@given(st.integers(2, 30), st.integers(1, 5), st.integers(0, 2**20))
def test_no_graph_has_more_ranks_near_than_its_degree_allows(ranks: int, degree: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    steps = np.eye(ranks, dtype=np.bool_)
    for _ in range(degree):
        steps[np.arange(ranks), rng.permutation(ranks)] = True
    within, allowed = np.eye(ranks, dtype=np.bool_), 0
    for number in ranks_by_hops(ranks, degree):
        within, allowed = within @ steps, allowed + number
        assert within.sum(axis=1).max() - 1 <= allowed
    assert allowed == ranks - 1


@given(st.integers(2, 6), st.integers(1, 40), st.integers(1, 4), st.integers(0, 2**20))
def test_reversed_circuits_lead_back(period: int, turns: int, degree: int, seed: int) -> None:
    ranks, rng = period * turns, np.random.default_rng(seed)
    residue = rng.permuted(np.tile(np.arange(period), (degree, 1)), axis=1)
    ahead = (residue - np.arange(period) + period * rng.integers(turns, size=residue.shape)) % ranks
    ahead[0] = 1
    there = Lift.of(ranks, ahead)
    back = there.reversed()
    rank = np.arange(ranks)
    for plane in range(degree):
        onward = (rank + ahead[plane, rank % period]) % ranks
        assert sorted(onward.tolist()) == rank.tolist()
        assert ((onward + back.ahead[plane, onward % period]) % ranks == rank).all()
        assert (there.origin[onward, plane] == rank).all()
    # Hops from here to there are hops from there to here the other way.
    assert back.hops.sum() == there.hops.sum()


@given(st.integers(2, 80), st.integers(2, 10))
def test_kautz_graphs_are_permutations_with_few_hops(ranks: int, degree: int) -> None:
    graph = kautz(ranks, degree)
    for plane in range(degree):
        mine = graph.channel == plane
        assert sorted(graph.source[mine].tolist()) == sorted(graph.destination[mine].tolist()) == list(range(ranks))
    steps = np.zeros((ranks, ranks), np.bool_)
    steps[graph.source, graph.destination] = True
    within, hops = np.eye(ranks, dtype=np.bool_), 0
    while not within.all():
        within |= within @ steps
        hops += 1
        assert hops <= len(ranks_by_hops(ranks, degree)) + 3


@pytest.mark.parametrize("kind", ["all-gather", "reduce-scatter", "all-reduce"])
@pytest.mark.parametrize(("ranks", "degree"), [(16, 2), (16, 8), (35, 4), (64, 2), (64, 8), (100, 4)])
def test_large_shares_meet_what_a_rank_can_receive(kind: Kind, ranks: int, degree: int) -> None:
    assert in_place(Collective(kind, ranks, 1e7 * ranks), switch(ranks, degree)) <= 1.003


@pytest.mark.parametrize(
    ("ranks", "degree", "most"),
    [(16, 2, 1.05), *(pytest.param(*case, marks=pytest.mark.slow) for case in ((64, 4, 1.05), (64, 8, 1.02)))],
)
def test_small_shares_take_few_more_hops_than_any_graph_has(ranks: int, degree: int, most: float) -> None:
    assert in_place(Collective("all-gather", ranks, 1e3 * ranks), switch(ranks, degree)) <= most


@pytest.mark.parametrize(("ranks", "degree"), [(5, 2), (8, 8), (16, 4)])
@pytest.mark.parametrize("kind", SERVES)
@pytest.mark.parametrize("share", [1e3, 1e6, 1e9])
def test_no_other_algorithm_is_faster(ranks: int, degree: int, kind: Kind, share: float) -> None:
    fabric, wanted = switch(ranks, degree), Collective(kind, ranks, ranks * share)
    ours = cost(on_switch(wanted, fabric), fabric).time
    for other in admitted(kind, fabric):
        if not other.by_size:
            assert ours <= evaluate(other, wanted, fabric).cost.time * (1 + 1e-9), other.name


def test_a_circulant_serves_all_pairs_where_there_are_circuits_enough() -> None:
    """Then every block goes straight, as the bound says it may."""
    assert in_place(Collective("all-to-all", 9, 9e6), switch(9, 8)) == pytest.approx(1.0)
    assert set(circulant(9, 16).tolist()) == set(range(1, 9))


def test_twice_the_bandwidth_halves_the_time_without_latency() -> None:
    wanted = Collective("all-gather", 20, 2e8)
    once, twice = (switch(20, 3, hop_latency=0.0, reconfiguration_time=0.0, bandwidth=b) for b in (1e9, 2e9))
    slow, fast = (cost(on_switch(wanted, each), each).time for each in (once, twice))
    assert slow == pytest.approx(2 * fast)


def test_schedules_of_a_circulant_look_the_same_from_every_rank() -> None:
    """Relabelled by a shift of the ranks, the rows of all copies are the same rows."""
    fabric = switch(12, 2)
    schedule = on_switch(Collective("all-gather", 12, 12e6), fabric)
    assert schedule.folding is not None
    assert schedule.folding.period == 1
    rows = schedule.unfolded(fabric.fibre_channels)
    pieces = schedule.chunks // 12

    def shifted(by: int) -> set[tuple[int, ...]]:
        owner, piece = np.divmod(rows.chunk.astype(np.int64), pieces)
        columns = (
            (rows.source + by) % 12,
            (rows.destination + by) % 12,
            (owner + by) % 12,
            piece,
            rows.step,
            rows.fibre,
        )
        return set(zip(*(column.tolist() for column in columns), strict=True))

    assert shifted(0) == shifted(1) == shifted(5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SERVES)
def test_a_thousand_ranks(kind: Kind) -> None:
    fabric = switch(1024, 8)
    schedule = on_switch(Collective(kind, 1024, 1024e3), fabric)
    verify(schedule, fabric)
    costed(schedule, fabric)
