"""Multicast all-gathers: verified, never below the bound, within taps and reach, timed as the cost model times them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.collectives.collective import Collective
from lightloom.collectives.registry import costed
from lightloom.collectives.synthesis import multicast as module
from lightloom.collectives.synthesis.engine.queues import ring_schedule
from lightloom.collectives.synthesis.engine.trees import RingTask, Timing
from lightloom.collectives.synthesis.multicast import (
    Arc,
    MulticastDesign,
    MulticastSearch,
    make_multicast_trees,
    multicast,
    multicast_candidates,
)
from lightloom.collectives.verify.verifier import verify
from lightloom.machines.fabrics.wdm_ring import WdmRing
from tests.collectives.forests import parents, queues

BANDWIDTH = 5e9


def ring(ranks: int, wavelengths: int, taps: int = 10, **fields: Any) -> WdmRing:
    return WdmRing(
        ranks=ranks,
        wavelengths=wavelengths,
        wavelength_bandwidth=BANDWIDTH,
        conversion_time=1e-6,
        multicast_taps=taps,
        **fields,
    )


@pytest.fixture
def little_effort(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "effort", lambda ranks: 40_000)


@pytest.mark.usefixtures("little_effort")
@pytest.mark.parametrize(
    ("ranks", "wavelengths", "taps", "reach", "share", "propagation"),
    [
        (2, 1, 2, None, 1e3, 0.0),
        (3, 2, 2, None, 1e3, 1e-8),
        (5, 1, 3, 2, 1e4, 0.0),
        (16, 8, 10, None, 1e4, 0.0),
        (17, 8, 4, 3, 1e3, 2e-8),
        (30, 64, 10, 1, 1e3, 0.0),
        (36, 4, 5, 9, 1e5, 1e-7),
        (64, 8, 10, 20, 0.0, 0.0),
        pytest.param(64, 64, 10, None, 1e3, 0.0, marks=pytest.mark.slow),
        (100, 8, 3, None, 1e3, 1e-8),
    ],
)
def test_schedules_are_right_and_keep_to_taps_and_reach(
    ranks: int, wavelengths: int, taps: int, reach: int | None, share: float, propagation: float
) -> None:
    fabric = ring(ranks, wavelengths, taps, lightpath_reach=reach, hop_latency=propagation)
    schedule = multicast(Collective("all-gather", ranks, share * ranks), fabric)
    verify(schedule, fabric)
    costed(schedule, fabric)
    _, first = np.unique(np.stack([schedule.lightpath, schedule.destination]), axis=1, return_index=True)
    assert np.bincount(schedule.lightpath[first]).max() <= taps
    assert reach is None or fabric.hops(*schedule.ends(slice(None))).max() <= reach


def designs(ranks: int, rng: Any) -> MulticastDesign:
    """Any design that is sound, on as many wavelengths as it takes."""
    divisors = [each for each in range(2, ranks) if ranks % each == 0]
    arcs = [Arc(ranks, 1, int(rng.integers(1, min(10, ranks - 1) + 1)), int(rng.integers(1, 3)))]
    for _ in range(int(rng.integers(0, 3))):
        inside = [each for each in (*divisors, ranks) if arcs[-1].hubs % each == 0]
        hubs, taps = int(rng.choice(inside)), int(rng.integers(1, 5))
        spacing = int(rng.integers(1, max(2, (ranks - 1) // taps + 1)))
        if spacing * taps < ranks:
            between = int(rng.integers(0, min(spacing, 10 // taps)))
            arcs.append(Arc(hubs, spacing, taps, int(rng.integers(1, 3)), between))
    longest = None if rng.random() < 0.5 else int(rng.integers(1, 4))
    pieces, walk = int(rng.integers(1, 4)), int(rng.integers(0, ranks // 2 + 1))
    return MulticastDesign(tuple(arcs), pieces=pieces, longest=longest, walk=walk)


@settings(max_examples=60)
@given(st.integers(4, 40), st.integers(0, 2**32), st.sampled_from((0.0, 1e-8, 1e-6)), st.sampled_from((0.0, 2e-8)))
def test_the_search_times_designs_as_the_cost_model_does(
    ranks: int, seed: int, propagation: float, guard: float
) -> None:
    design = designs(ranks, np.random.default_rng(seed))
    assert design.sound(ranks, 10, None)
    fabric = ring(ranks, design.wavelengths(ranks), hop_latency=propagation, guard_time=guard)
    wanted = Collective("all-gather", ranks, 1e3 * ranks)
    trees = make_multicast_trees(design, RingTask(ranks, 8, 1e3, Timing(BANDWIDTH, 1e-6, propagation, guard), 1e-6))
    assert trees is not None
    schedule = ring_schedule(wanted, fabric, trees)
    verify(schedule, fabric)
    price, _ = costed(schedule, fabric)
    assert price.time == pytest.approx(fabric.setup_time + trees.forest.time, rel=1e-9)


@settings(max_examples=30)
@given(st.integers(3, 60), st.integers(1, 10), st.integers(1, 4))
def test_a_tree_of_near_taps_uses_every_link_once_but_for_what_the_last_taps_leave(
    ranks: int, taps: int, pieces: int
) -> None:
    design = MulticastDesign((Arc(ranks, 1, min(taps, ranks - 1), 1),), pieces=pieces)
    trees = make_multicast_trees(design, RingTask(ranks, 8, 1e3, Timing(BANDWIDTH, 1e-6), 1e-6))
    assert trees is not None
    for piece in range(pieces):
        tap, paths = trees.forest.tap[piece, 0], trees.forest.paths
        path = np.where(tap < 0, -1, paths.path[tap])
        sent, served = np.unique(path[tap >= 0], return_counts=True)
        rank, parent = np.arange(ranks), parents(trees.forest)[piece, 0]
        direction = queues(trees.forest)[piece, 0] // trees.circuits.period % 2
        length = np.where(direction == 0, rank - parent, parent - rank) % ranks
        uses = sum(int(length[path == each].max()) for each in sent)
        assert served.sum() == ranks - 1
        # Both ways may cross in the middle, where the two last transmissions overlap.
        assert ranks - 1 <= uses < ranks - 1 + design.arcs[0].taps


@given(st.integers(1, 40), st.integers(1, 8), st.data())
def test_taps_lie_apart_and_between(spacing: int, taps: int, data: Any) -> None:
    between = data.draw(st.integers(0, spacing - 1))
    offsets = Arc(100, spacing, taps, 1, between).offsets
    assert offsets == sorted(set(offsets))
    assert len(offsets) == taps * (1 + between)
    assert {k * spacing for k in range(1, taps + 1)} <= set(offsets)
    assert offsets[0] >= 1
    assert offsets[-1] == spacing * taps


def test_the_plain_multicast_meets_the_bandwidth_bound() -> None:
    fabric = ring(16, 8)
    wanted = Collective("all-gather", 16, 16e6)
    price, bound = costed(multicast(wanted, fabric), fabric)
    assert price.time <= 1.011 * bound.time


@pytest.mark.long
@pytest.mark.usefixtures("little_effort")
def test_the_same_question_has_the_same_answer() -> None:
    fabric, wanted = ring(36, 8), Collective("all-gather", 36, 36e3)
    one, other = multicast(wanted, fabric), multicast(wanted, fabric)
    assert one.notes == other.notes
    assert all(np.array_equal(column, other.columns()[name]) for name, column in one.columns().items())


def test_more_effort_is_never_worse() -> None:
    task = RingTask(64, 8, 1e3, Timing(BANDWIDTH, 1e-6), 1.8e-6)
    times = [MulticastSearch(task, 10).run(effort)[1].forest.time for effort in (20_000, 200_000)]
    assert times[1] <= times[0]


@pytest.mark.parametrize(
    ("ranks", "taps", "reach"),
    [
        (100, 4, 12),
        (37, 10, 9),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in ((64, 10, None), (256, 10, 64))),
    ],
)
def test_candidates_are_sound_and_fit_the_fibre(ranks: int, taps: int, reach: int | None) -> None:
    found = multicast_candidates(RingTask(ranks, 8, 1e3, Timing(BANDWIDTH, 1e-6), 0.0, reach), taps)
    assert len(found) > 3
    assert [seconds for seconds, _ in found] == sorted(seconds for seconds, _ in found)
    for _, design in found:
        assert design.sound(ranks, taps, reach)
        assert design.wavelengths(ranks) <= 8


@pytest.mark.parametrize("ranks", [2, 3, 5, 8, 11])
@pytest.mark.parametrize("wavelengths", [1, 2, 64])
def test_a_ring_may_have_fewer_ranks_than_its_light_has_taps(ranks: int, wavelengths: int) -> None:
    fabric = WdmRing(ranks=ranks, wavelengths=wavelengths, conversion_time=1e-6, multicast_taps=10)
    wanted = Collective("all-gather", ranks, ranks * 1e4)
    schedule = multicast(wanted, fabric)
    verify(schedule, fabric)
    costed(schedule, fabric)
