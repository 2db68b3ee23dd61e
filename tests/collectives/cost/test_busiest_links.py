"""The busiest links of steps, counted once for equal steps and by the ends of runs, are those of plain counting."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.collectives.collective import Collective, Kind
from lightloom.collectives.cost import loads as busiest
from lightloom.collectives.cost.kernels import count_chunks
from lightloom.collectives.cost.loads import busiest_links
from lightloom.collectives.registry import admitted, find
from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.arrays import Floats, Ints
from lightloom.machines.fabrics.derived import Footprint, links_of
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.grids import Mesh, Torus
from lightloom.machines.fabrics.wdm_ring import Ring

TORUS = Torus(ranks=36, dims=(2, 3, 6), bandwidth=1e9, hop_latency=1e-6)
MESH = Mesh(ranks=15, dims=(3, 5), bandwidth=1e9, hop_latency=1e-6)
FABRICS = (TORUS, TORUS.group(6, 3), TORUS.group(4, 1), TORUS.group(2, 18), MESH, MESH.group(5, 3))


def counted(schedule: Schedule, fabric: Fabric) -> tuple[Ints, Floats]:
    """Row by row and link by link, of links that are all alike."""
    most, latency = np.zeros((1, schedule.steps), np.int64), np.zeros(schedule.steps)
    for step in range(schedule.steps):
        ends = schedule.ends(schedule.step == step)
        if len(ends[0]):
            most[0, step] = np.bincount(links_of(fabric.footprint(*ends))[1]).max()
            latency[step] = fabric.latency(*ends).max()
    return most, latency


@pytest.mark.parametrize("fabric", FABRICS, ids=lambda fabric: f"{fabric.kind_name}-{fabric.ranks}")
@pytest.mark.parametrize("kind", ["all-gather", "all-reduce", "all-to-all"])
def test_busiest_links_are_those_that_plain_counting_finds(fabric: Fabric, kind: Kind) -> None:
    alike = np.zeros(fabric.links, np.int64)
    for algorithm in admitted(kind, fabric):
        if algorithm.by_size or algorithm.pipelined:
            continue
        schedule = algorithm.build(Collective(kind, fabric.ranks, 1.0), fabric, striped=algorithm.striped)
        if schedule.pipeline is None:
            for _ in range(2):
                np.testing.assert_equal(busiest_links(schedule, fabric, alike), counted(schedule.unfolded(1), fabric))


def test_rows_of_a_step_may_come_in_any_order() -> None:
    alike, rng = np.zeros(TORUS.links, np.int64), np.random.default_rng(7)
    for algorithm in admitted("all-gather", TORUS)[:6]:
        if algorithm.by_size or algorithm.pipelined:
            continue
        schedule = algorithm.build(Collective("all-gather", 36, 1.0), TORUS, striped=algorithm.striped)
        order = rng.permutation(len(schedule))
        mixed = schedule.with_columns({name: column[order] for name, column in schedule.columns().items()})
        np.testing.assert_equal(busiest_links(mixed, TORUS, alike), counted(schedule.unfolded(1), TORUS))


def test_steps_of_one_row_may_be_listed_backwards() -> None:
    whole = find("ring").build(Collective("broadcast", 6, 1.0), Ring(ranks=6)).unfolded(1)
    chain = whole.with_rows(np.unique(whole.step, return_index=True)[1])
    listed = chain.with_columns({name: column[::-1] for name, column in chain.columns().items()})
    alike = np.zeros(Ring(ranks=6).links, np.int64)
    np.testing.assert_equal(busiest_links(listed, Ring(ranks=6), alike), counted(chain, Ring(ranks=6)))


def runs_of_links(rng: np.random.Generator) -> tuple[Footprint, Ints]:
    """Runs on three tracks that begin and end anywhere, some of them going round more than once, and their chunks."""
    shape = tuple(rng.integers(1, [9, 4]))
    track = rng.integers(0, 3, shape)
    base, period = np.array([2, 5, 12])[track], np.array([3, 7, 1])[track]
    start, length = rng.integers(0, 3 * period), rng.integers(0, np.where(rng.random(shape) < 0.7, period + 1, 22))
    return Footprint(base, start, length, period), rng.integers(0, 9, shape[0])


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=40)
def test_the_ends_of_runs_say_what_every_link_of_them_says(seed: int) -> None:
    """Of runs of any length, of one call and the next: chunks on each link, and their sum."""
    links, rng = 64, np.random.default_rng(seed)
    expected = np.zeros(links)
    on_link, change = np.zeros(links, np.int64), np.zeros(links + 1, np.int64)
    for runs, chunks in (runs_of_links(rng), runs_of_links(rng)):
        transfer, link = links_of(runs)
        expected += np.bincount(link, weights=chunks[transfer], minlength=links)
        count_chunks(runs, chunks, on_link, change)
    assert (on_link + np.cumsum(change)[:-1]).tolist() == expected.tolist() and change.sum() == 0


@pytest.mark.parametrize("most", [1, 2, 3, 100])
def test_each_class_of_links_has_its_busiest_whatever_is_kept(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three classes, one of them on links that nothing crosses; no more steps are kept than may be."""
    kept = busiest._LatestLoads(most * np.zeros(3, np.int64).nbytes)
    monkeypatch.setattr(busiest, "_latest", kept)
    schedule = find("ring").build(Collective("broadcast", 6, 6e6), Ring(ranks=6)).unfolded(1)
    fabric = Ring(ranks=6)
    ends = [schedule.ends(schedule.step == step) for step in range(schedule.steps)]
    loads = np.array([np.bincount(links_of(fabric.footprint(*one))[1], minlength=fabric.links) for one in ends])
    unused = np.flatnonzero(loads.sum(axis=0) == 0)
    link_class = np.arange(fabric.links) % 2
    link_class[unused] = 2
    expected = [loads[:, link_class == of].max(axis=1).tolist() for of in range(3)]
    for _ in range(2):
        found, latency = busiest_links(schedule, fabric, link_class)
        assert found.tolist() == expected and not found[2].any() and found.shape == (3, schedule.steps)
        assert latency.tolist() == [fabric.latency(*one).max() for one in ends]
        different = {tuple(np.concatenate(one).tolist()) for one in ends}
        assert len(kept) == min(most, 2 * len(different))
