"""Synthesized all-to-alls: circuits that fit the fibre, blocks that go where they must, times that agree."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.collectives.bounds.lower_bound import lower_bound
from lightloom.collectives.collective import Collective
from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.registry import admitted, costed, evaluate
from lightloom.collectives.synthesis.engine.trees import Level, Timing
from lightloom.collectives.synthesis.exchange.circuits import (
    Feeder,
    Tours,
    Wiring,
    exchange_circuits,
    reaches,
    shared_wiring,
    trees_of,
)
from lightloom.collectives.synthesis.exchange.search import (
    Designs,
    Exchange,
    ExchangeSearch,
    Trial,
    exchange,
    exchange_schedule,
    plan,
    route,
)
from lightloom.collectives.verify.verifier import verify
from lightloom.machines.fabrics.wdm_ring import WdmRing

WIRINGS = (
    (16, Wiring(16, (Level(16, 1, 2), Level(16, 4, 1)), None)),
    (17, Wiring(5, (Level(5, 1, 1), Level(5, 2, 1)), Feeder(2, 2, 4))),
    (36, Wiring(12, (Level(12, 1, 1), Tours(12, 2, 1)), Feeder(1, 2, 8))),
    (64, Wiring(8, (Tours(8, 1, 1), Tours(8, 2, 2)), Feeder(2, 4, 4))),
    (60, Wiring(20, (Level(20, 1, 1), Level(10, 3, 1), Tours(20, 5, 1)), Feeder(3, 1, 1))),
    (48, Wiring(4, (Level(4, 1, 2),), Feeder(6, 1, 1))),
)


def asked(fabric: WdmRing, wanted: Collective) -> Exchange:
    timing = Timing(fabric.channel_bandwidth, fabric.step_overhead, fabric.hop_latency, fabric.piece_overhead)
    bound = lower_bound(wanted, fabric).time - fabric.setup_time
    return Exchange(fabric.ranks, fabric.usable_channels, wanted.nbytes / wanted.ranks, timing, bound, fabric.reach)


def ring(ranks: int, wavelengths: int, hop_latency: float = 0.0) -> WdmRing:
    return WdmRing(
        ranks=ranks, wavelengths=wavelengths, wavelength_bandwidth=5e9, conversion_time=1e-6, hop_latency=hop_latency
    )


@settings(max_examples=50)
@given(st.integers(2, 40), st.data())
def test_tours_fill_every_link_and_never_overlap(half: int, data: st.DataObject) -> None:
    tours = Tours(2 * half, data.draw(st.integers(1, max(half // 2, 1))), 1)
    found = exchange_circuits(Wiring(2 * half, (tours,), None), 2 * half)
    held = np.zeros((2, 2 * half, tours.colours), np.int64)
    for copy in range(2 * half // found.period):
        for i in range(len(found.start)):
            way, start = int(found.length[i] < 0), found.start[i] + copy * found.period + min(found.length[i], 0)
            held[way, (start + np.arange(abs(found.length[i]))) % (2 * half), found.channel[copy, i]] += 1
    assert (held == 1).all()


@settings(max_examples=25)
@given(st.integers(1, 100), st.integers(1, 12), st.integers(1, 32), st.integers(1, 200))
def test_trees_span_within_their_depth_and_wavelengths(ranks: int, wavelengths: int, depth: int, share: int) -> None:
    feeder = Feeder(wavelengths, depth, share)
    if not reaches(feeder, ranks):
        return
    held = np.zeros((ranks, wavelengths), np.int64)
    near: dict[int, list[int]] = {}
    for a, b, channel, width in trees_of(feeder, ranks):
        held[a:b, channel : channel + width] += 1
        near.setdefault(a, []).append(b)
        near.setdefault(b, []).append(a)
    assert held.max() == 1
    hops, edge = {0: 0}, [0]
    while edge:
        edge = [b for a in edge for b in near[a] if hops.setdefault(b, hops[a] + 1) == hops[a] + 1 and b != 0]
    assert sorted(hops) == list(range(ranks + 1))
    assert max(hops.values()) <= depth


def test_trees_reach_as_far_as_any(wavelengths: int = 3, depth: int = 3) -> None:
    """Delannoy numbers: ranks at the ends of lattice paths, of which a hub serves half each way."""
    delannoy = np.ones((wavelengths + 1, depth + 1), np.int64)
    for i in range(1, wavelengths + 1):
        for j in range(1, depth + 1):
            delannoy[i, j] = delannoy[i - 1, j] + delannoy[i, j - 1] + delannoy[i - 1, j - 1]
            most = (delannoy[i, j] - 1) // 2
            assert reaches(Feeder(i, j, 1000), most)
            assert not reaches(Feeder(i, j, 1000), most + 1)


@pytest.mark.parametrize(("ranks", "wiring"), WIRINGS)
@pytest.mark.parametrize(("nbytes", "pieces"), [(1e3, 1), (1e5, 1), (1e4, 3)])
def test_verified_and_timed_alike(ranks: int, wiring: Wiring, nbytes: float, pieces: int) -> None:
    fabric, wanted = ring(ranks, wiring.wavelengths, hop_latency=1e-8), Collective("all-to-all", ranks, nbytes)
    found = plan(wiring, replace(asked(fabric, wanted), pieces=pieces), Trial(3))
    assert found is not None
    schedule = exchange_schedule(wanted, fabric, found)
    verify(schedule, fabric)
    price, bound = costed(schedule, fabric)
    assert price.repeated_time == pytest.approx(found.time, rel=1e-9)
    assert price.time >= bound.time * (1 - 1e-9)
    unfolded = schedule.unfolded(fabric.fibre_channels)
    verify(unfolded, fabric)
    assert cost(unfolded, fabric).time == pytest.approx(price.time, rel=1e-9)


@pytest.mark.parametrize(("ranks", "wiring"), WIRINGS)
@pytest.mark.parametrize("pieces", [1, 3])
def test_loads_are_what_paths_use(ranks: int, wiring: Wiring, pieces: int) -> None:
    """Every piece uses its distance of links, and more only where it goes out of its way."""
    fabric, wanted = ring(ranks, wiring.wavelengths), Collective("all-to-all", ranks, 1e4)
    problem = replace(asked(fabric, wanted), pieces=pieces)
    routed, found = route(wiring, problem, Trial(3)), plan(wiring, problem, Trial(3))
    assert routed is not None
    assert found is not None
    circuits, _, busy, _, load, _ = routed
    assert found.load == pytest.approx(load * busy)
    assert np.array_equal(np.bincount(found.path, minlength=len(load)), load)
    length = np.append(np.cumsum(circuits.length[found.path]), 0)
    moved = length[found.begin[1:] - 1] - length[found.begin[:-1] - 1]
    place, rank = np.divmod(np.arange(len(moved)), ranks)
    source = place % circuits.period
    mine = source != rank
    assert ((moved - (rank - source))[mine] % ranks == 0).all()
    use = float(load @ np.abs(circuits.length))
    assert use >= pieces * circuits.period * (ranks * ranks // 4)


@pytest.mark.parametrize("nbytes", [1e3, 1e4])
def test_blocks_in_pieces_wait_less_for_each_other(nbytes: float) -> None:
    """Two hops on chords of 1, 3 and 4 ranks: all is sent within two blocks and a half after them, and one piece."""
    fabric = WdmRing(ranks=16, wavelengths=8, wavelength_bandwidth=5e9, conversion_time=1e-6)
    problem, wiring = asked(fabric, Collective("all-to-all", 16, nbytes)), shared_wiring(16, 8, (1, 3, 4))
    assert wiring is not None
    whole, cut = plan(wiring, problem, Trial(4)), plan(wiring, replace(problem, pieces=16), Trial(4))
    assert whole is not None
    assert cut is not None
    assert cut.time < whole.time
    assert cut.time <= (2e-6 + (2.5 + 1 / 16) * problem.nbytes / 5e9) * (1 + 1e-9)


def test_neighbours_alone_carry_what_is_large_at_the_bound() -> None:
    for ranks in (9, 16):
        fabric, wanted = ring(ranks, 4), Collective("all-to-all", ranks, 1e7)
        schedule = exchange(wanted, fabric)
        verify(schedule, fabric)
        price, bound = costed(schedule, fabric)
        assert price.time <= bound.time * (1 + 1e-6)


@pytest.mark.parametrize("nbytes", [1e3, 1e6])
def test_straight_circuits_meet_the_bound_where_they_fit(nbytes: float) -> None:
    fabric, wanted = ring(8, 8), Collective("all-to-all", 8, nbytes)
    schedule = exchange(wanted, fabric)
    verify(schedule, fabric)
    price, bound = costed(schedule, fabric)
    assert price.time == pytest.approx(bound.time, rel=1e-9)


@settings(deadline=None, max_examples=10)
@given(st.integers(3, 40), st.integers(1, 12), st.floats(2, 6))
def test_searches_end_verified_and_above_the_bound(ranks: int, wavelengths: int, power: float) -> None:
    fabric, wanted = ring(ranks, wavelengths), Collective("all-to-all", ranks, 10**power)
    wiring, found = ExchangeSearch(asked(fabric, wanted)).run(effort=30_000)
    assert wiring.wavelengths <= wavelengths
    schedule = exchange_schedule(wanted, fabric, found)
    verify(schedule, fabric)
    assert costed(schedule, fabric)[0].repeated_time == pytest.approx(found.time, rel=1e-9)


@pytest.mark.parametrize(
    ("ranks", "wavelengths", "nbytes", "most"),
    [(64, 8, 1e3, 1.12), (17, 4, 1e4, 1.15), (100, 8, 1e4, 1.25)],
)
def test_near_the_bound_and_the_same_again(ranks: int, wavelengths: int, nbytes: float, most: float) -> None:
    fabric, wanted = ring(ranks, wavelengths), Collective("all-to-all", ranks, nbytes)
    first, again = (ExchangeSearch(asked(fabric, wanted)).run(effort=200_000) for _ in range(2))
    assert first[0] == again[0]
    assert first[1].time == again[1].time
    price, bound = costed(exchange_schedule(wanted, fabric, first[1]), fabric)
    assert price.time <= most * bound.time


def test_estimates_from_a_few_sources_are_near() -> None:
    ranks, wiring = 256, Wiring(8, (Level(8, 1, 1), Tours(8, 2, 1)), Feeder(5, 2, 5))
    wanted = asked(ring(ranks, 8), Collective("all-to-all", ranks, 1e4))
    few, whole = plan(wiring, wanted, Trial(2, 8)), plan(wiring, wanted, Trial(2))
    assert few is not None
    assert whole is not None
    assert few.time == pytest.approx(whole.time, rel=0.25)


@pytest.mark.parametrize(("ranks", "wavelengths", "hubs"), [(16, 8, [4, 6]), (64, 32, [4, 8]), (256, 64, [4, 8, 16])])
def test_hubs_that_are_all_joined_bring_blocks_in_three_hops(ranks: int, wavelengths: int, hubs: list[int]) -> None:
    designs = Designs(ranks, wavelengths)
    wirings = list(designs.complete())
    assert [wiring.hubs for wiring in wirings] == hubs
    wanted = Collective("all-to-all", ranks, 1e3)
    for wiring in wirings:
        assert designs.fits(wiring)
        assert wavelengths - wiring.hubs // 2 < wiring.wavelengths <= wavelengths
        found = plan(wiring, asked(ring(ranks, wavelengths), wanted), Trial(1))
        assert found is not None
        assert np.diff(found.begin).max() == 3
        verify(exchange_schedule(wanted, ring(ranks, wavelengths), found), ring(ranks, wavelengths))


@pytest.mark.parametrize("reach", [1, 3, 8])
def test_no_circuit_is_longer_than_light_reaches(reach: int) -> None:
    fabric = WdmRing(ranks=24, wavelengths=8, wavelength_bandwidth=5e9, conversion_time=1e-6, lightpath_reach=reach)
    wanted = Collective("all-to-all", 24, 1e3)
    _, found = ExchangeSearch(asked(fabric, wanted)).run(effort=30_000)
    schedule = exchange_schedule(wanted, fabric, found)
    verify(schedule, fabric)
    assert fabric.hops(*schedule.ends(slice(None))).max() <= reach


@pytest.mark.parametrize(("ranks", "wavelengths", "setup"), [(4, 2, 25e-6), (8, 4, 0.0), (9, 2, 25e-6)])
def test_no_other_algorithm_is_faster(ranks: int, wavelengths: int, setup: float) -> None:
    fabric = WdmRing(
        ranks=ranks, wavelengths=wavelengths, wavelength_bandwidth=5e9, conversion_time=1e-6, reconfiguration_time=setup
    )
    wanted = Collective("all-to-all", ranks, 1e3)
    others = [each for each in admitted("all-to-all", fabric) if not each.by_size]
    assert others
    mine = exchange(wanted, fabric)
    verify(mine, fabric)
    best = min(evaluate(each, wanted, fabric).cost.time for each in others)
    assert cost(mine, fabric).time <= best * (1 + 1e-9)
