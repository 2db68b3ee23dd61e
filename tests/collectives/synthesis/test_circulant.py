"""Circulant graphs: chords of several lengths share wavelengths and never overlap; two hops reach 16 ranks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.collectives.collective import FROM_ALL_GATHER, Collective
from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.synthesis.engine import cache
from lightloom.collectives.synthesis.engine.queues import hub_queues
from lightloom.collectives.synthesis.engine.trees import (
    CirculantCircuits,
    Design,
    RingTask,
    RingTrees,
    Timing,
    make_trees,
    shared_chords,
    tour_colours,
)
from lightloom.collectives.synthesis.exchange.circuits import exchange_circuits, shared_wiring
from lightloom.collectives.synthesis.ring.gather import CirculantSearch
from lightloom.collectives.synthesis.ring.search import RingSearch
from lightloom.collectives.synthesis.synthesized import synthesized
from lightloom.collectives.verify.verifier import verify
from tests.collectives.strategies import wdm_ring

SKIPS = st.lists(st.integers(1, 12), min_size=1, max_size=5).map(lambda skips: tuple(sorted(skips)))


def test_lengths_that_add_up_to_a_divisor_fill_every_link() -> None:
    assert tour_colours(16, 16, (1, 3, 4)) == 8
    assert tour_colours(16, 16, (1, 2)) == 4
    assert tour_colours(7, 7, (1, 2)) == 7
    assert tour_colours(7, 7, (3, 3)) == 7 and tour_colours(7, 6, (3, 3)) is None


@given(st.integers(2, 48), st.integers(1, 40), SKIPS)
def test_chords_of_a_circulant_never_overlap(ranks: int, channels: int, skips: tuple[int, ...]) -> None:
    levels = shared_chords(ranks, channels, skips)
    if levels is None:
        return
    circuits = CirculantCircuits(ranks, levels)
    held = np.zeros((2, ranks, channels), np.int64)
    queues = hub_queues(circuits)
    for rank in range(ranks):
        for queue, (width, route) in enumerate(zip(queues.width, queues.route, strict=True)):
            skip = circuits.chords[queue // 2].skip
            links = (rank + np.arange(skip) - (skip if route else 0)) % ranks
            first = int(queues.channel[rank, queue])
            held[route, links[:, None], first + np.arange(width)] += 1
    assert held.max() == 1


@given(st.integers(2, 48), st.integers(1, 40), SKIPS.map(lambda skips: tuple(sorted(set(skips)))))
def test_nor_do_those_of_an_exchange(ranks: int, channels: int, skips: tuple[int, ...]) -> None:
    wiring = shared_wiring(ranks, channels, skips)
    if wiring is None:
        return
    assert wiring.wavelengths <= channels
    found = exchange_circuits(wiring, ranks)
    held = np.zeros((2, ranks, channels), np.int64)
    for copy in range(ranks // found.period):
        for i in range(len(found.start)):
            way, start = int(found.length[i] < 0), found.start[i] + copy * found.period + min(found.length[i], 0)
            links = (start + np.arange(abs(found.length[i]))) % ranks
            held[way, links[:, None], found.channel[copy, i] + np.arange(found.width[i])] += 1
    assert held.max() == 1


@pytest.mark.parametrize("kind", [*FROM_ALL_GATHER, "all-to-all"])
def test_chords_of_1_3_and_4_ranks_join_16_ranks_in_two_hops(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 1 kB a rank on eight wavelengths: 3.18 µs where every length has wavelengths of its own, 3.03 for blocks."""

    def neighbours_only(search: RingSearch, _: int) -> tuple[Design, RingTrees]:
        trees = make_trees(Design(()), search._task)
        assert trees is not None
        return Design(()), trees

    monkeypatch.setattr(RingSearch, "run", neighbours_only)
    monkeypatch.setattr(cache, "SCALE", 1 / 2)
    fabric = wdm_ring(16, 8, wavelength_bandwidth=5e9, conversion_time=1e-6, reconfiguration_time=25e-6)
    schedule = synthesized(Collective(kind, 16, 1e3 if kind == "all-to-all" else 16e3), fabric)  # type: ignore[arg-type]
    verify(schedule, fabric)
    limit = {"all-to-all": 2.05e-6, "all-reduce": 4.83e-6}.get(kind, 2.413e-6)
    assert cost(schedule, fabric).time - fabric.setup_time <= limit * (1 + 1e-9)


def test_a_search_gives_what_its_trees_take_and_nothing_where_lengths_do_not_fit() -> None:
    search = CirculantSearch(RingTask(16, 8, 1e3, Timing(5e9, 1e-6), 2e-6))
    found = search.run(1e5)
    assert found is not None
    grown = search.grow(found[0])
    assert grown is not None and grown.forest.time == found[1]
    assert shared_chords(13, 4, (2,)) is None
