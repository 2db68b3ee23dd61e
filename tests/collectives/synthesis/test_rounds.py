"""Rounds on packet fabrics: verified, at the receive bound for large sizes, at the diameter for small ones."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.support.grid_steps import in_rounds
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.collectives.bounds.lower_bound import lower_bound
from lightloom.collectives.collective import FROM_ALL_GATHER, Collective, Kind
from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.registry import admitted, costed, evaluate
from lightloom.collectives.schedule.build import without_barriers
from lightloom.collectives.synthesis.grid import grid_trees, over_trees, rounds_and_trees
from lightloom.collectives.synthesis.grid_links import GridLinks, repetition
from lightloom.collectives.verify.verifier import verify
from lightloom.core.arrays import Floats
from lightloom.core.errors import UnsupportedError
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.grids import Mesh, Torus
from lightloom.machines.fabrics.switches import PacketSwitch
from lightloom.machines.fabrics.wdm_ring import Ring

GRIDS = [
    Mesh(ranks=16),
    Torus(ranks=16),
    Mesh(ranks=35, rows=5),
    Torus(ranks=35, rows=5),
    Mesh(ranks=64),
    Torus(ranks=64),
    Ring(ranks=9),
    Ring(ranks=16),
    Mesh(ranks=12, rows=1),
    Torus(ranks=18, rows=2),
]


def with_latency(fabric: Fabric, hop: float) -> Fabric:
    return fabric.model_copy(update={"hop_latency": hop})


@settings(deadline=None, max_examples=12)
@given(
    st.sampled_from([Mesh, Torus]), st.integers(1, 6), st.integers(2, 7), st.floats(0, 8), st.sampled_from([0, 1e-6])
)
def test_every_grid_is_verified_and_above_its_bound(
    grid: type[Mesh], rows: int, columns: int, power: float, hop: float
) -> None:
    fabric = grid(ranks=rows * columns, rows=rows, hop_latency=hop)
    for kind in FROM_ALL_GATHER:
        schedule = in_rounds(Collective(kind, fabric.ranks, 10**power * fabric.ranks), fabric)
        verify(schedule, fabric)
        price, _ = costed(schedule, fabric)
        assert price.time >= fabric.diameter_latency() * (1 - 1e-9)


@pytest.mark.parametrize("fabric", GRIDS, ids=lambda each: f"{each.kind}-{each.ranks}")
def test_large_shares_meet_the_receive_bound(fabric: Fabric) -> None:
    """Where every link of a torus of two rows could be used, its bound would be met too: routes take one of two."""
    kinds: tuple[Kind, ...] = ("all-gather", "reduce-scatter")
    for kind in kinds:
        schedule = in_rounds(Collective(kind, fabric.ranks, 1e7 * fabric.ranks), fabric)
        time, bound = cost(schedule, fabric).time, lower_bound(schedule.collective, fabric).time
        poorest = int(np.diff(GridLinks.of(fabric).entering).min())
        usable = (fabric.ranks - 1) * 1e7 / (poorest * float(fabric.link_bandwidth()[0]))
        assert bound <= time * (1 + 1e-9)
        assert time <= 1.06 * usable


@pytest.mark.parametrize("fabric", GRIDS, ids=lambda each: f"{each.kind}-{each.ranks}")
def test_small_shares_take_as_many_rounds_as_the_farthest_ranks_are_links_apart(fabric: Fabric) -> None:
    away = with_latency(fabric, 1e-6)
    found = cost(in_rounds(Collective("all-gather", fabric.ranks, 1.0), away), away).time
    assert found == pytest.approx(away.diameter_latency(), rel=1e-2)


@pytest.mark.parametrize("fabric", [each for each in GRIDS if each.ranks <= 18], ids=lambda e: f"{e.kind}-{e.ranks}")
@pytest.mark.parametrize(
    ("share", "hop"),
    [(1e3, 1e-6), (1e6, 0.0), *(pytest.param(*case, marks=pytest.mark.slow) for case in ((1e3, 0.0), (1e6, 1e-6)))],
)
@pytest.mark.parametrize("kind", FROM_ALL_GATHER)
def test_no_other_algorithm_is_faster(fabric: Fabric, share: float, hop: float, kind: Kind) -> None:
    away = with_latency(fabric, hop)
    wanted = Collective(kind, away.ranks, share * away.ranks)
    ours = cost(in_rounds(wanted, away), away).time
    for other in admitted(kind, away):
        if not other.by_size:
            assert ours <= evaluate(other, wanted, away).cost.time * (1 + 1e-9), other.name


@pytest.mark.parametrize(("rows", "columns"), [(4, 4), (5, 7), (8, 8), (1, 6)])
def test_trees_of_a_mesh_carry_large_sums_in_the_time_of_all_its_links(rows: int, columns: int) -> None:
    fabric = Mesh(ranks=rows * columns, rows=rows)
    assert fabric.grid is not None
    schedule = over_trees(Collective("all-reduce", fabric.ranks, 1e9), fabric, fabric.grid)
    verify(schedule, fabric)
    assert cost(schedule, fabric).time <= 1.02 * lower_bound(schedule.collective, fabric).time


@given(st.sampled_from([Mesh, Torus]), st.integers(1, 7), st.integers(2, 7), st.integers(1, 40))
def test_every_tree_spans_the_grid_by_its_links(grid: type[Mesh], rows: int, columns: int, chunks: int) -> None:
    fabric = grid(ranks=rows * columns, rows=rows)
    assert fabric.grid is not None
    parents, _ = grid_trees(fabric.grid, chunks)
    links = GridLinks.of(fabric)
    joined = set(zip(links.source.tolist(), links.destination.tolist(), strict=True))
    for parent in parents:
        root = int(np.flatnonzero(parent < 0)[0])
        above = np.where(parent < 0, root, parent)
        for _ in range(rows + columns):
            above = above[above]
        assert (above == root).all()
        assert all((rank, up) in joined for rank, up in enumerate(parent.tolist()) if up >= 0)


TORI = [
    Torus(ranks=16),
    Torus(ranks=35, rows=5),
    Torus(ranks=60, dims=(3, 4, 5)),
    Torus(ranks=18, rows=2),
    Ring(ranks=9),
]


@pytest.mark.parametrize("fabric", TORI, ids=lambda each: f"{each.kind}-{each.ranks}")
@pytest.mark.parametrize("kind", FROM_ALL_GATHER)
def test_around_a_torus_one_rank_s_rows_stand_for_all(fabric: Fabric, kind: Kind) -> None:
    assert repetition(fabric).period == 1
    for steps in rounds_and_trees(Collective(kind, fabric.ranks, 1e5 * fabric.ranks), fabric):
        if steps.folding is None:
            assert "trees" in steps.notes[0]
            continue
        assert (steps.source == 0).all()
        for schedule in (steps, without_barriers(steps, fabric, 2)):
            every = schedule.unfolded(1)
            assert len(every) == fabric.ranks * len(schedule)
            verify(schedule, fabric)
            verify(every, fabric)
            assert cost(every, fabric).time == pytest.approx(cost(schedule, fabric).time, rel=1e-9)


class UnevenTorus(Torus):
    """A torus of which one link is slower than the others."""

    def link_bandwidth(self) -> Floats:
        return super().link_bandwidth() * np.where(np.arange(self.links) == 5, 0.5, 1.0)


def test_links_repeat_only_where_each_copy_is_as_fast() -> None:
    assert repetition(Mesh(ranks=12, rows=3)).period == 12
    assert repetition(Torus(ranks=12, rows=3)).axes == (4, 3)
    assert repetition(UnevenTorus(ranks=12, rows=3)).period == 12
    wanted = Collective("all-gather", 12, 1e6)
    for steps in rounds_and_trees(wanted, UnevenTorus(ranks=12, rows=3)):
        assert steps.folding is None


def test_twice_the_bandwidth_halves_the_time_and_a_size_scales_it() -> None:
    mesh = Mesh(ranks=20, rows=4, bandwidth=1e9)
    wanted = Collective("all-gather", 20, 2e6)
    once = cost(in_rounds(wanted, mesh), mesh).time
    faster = mesh.model_copy(update={"bandwidth": 2e9})
    assert cost(in_rounds(wanted, faster), faster).time == pytest.approx(once / 2)
    assert cost(in_rounds(Collective("all-gather", 20, 6e6), mesh), mesh).time == pytest.approx(3 * once)


def test_links_are_the_pairs_of_neighbours() -> None:
    links = GridLinks.of(Mesh(ranks=12, rows=3))
    assert len(links.source) == 2 * (2 * 4 + 3 * 3)
    stride = np.abs(links.source - links.destination)
    assert set(stride.tolist()) == {1, 4}
    assert (np.diff(links.destination) >= 0).all()


def test_fabrics_without_links_between_ranks_are_refused() -> None:
    wanted = Collective("all-gather", 8, 8e3)
    with pytest.raises(UnsupportedError, match="on a switch"):
        in_rounds(wanted, PacketSwitch(ranks=8))


@pytest.mark.slow
@pytest.mark.parametrize("grid", [Mesh, Torus])
def test_a_thousand_ranks(grid: type[Mesh]) -> None:
    fabric = grid(ranks=1024)
    schedule = in_rounds(Collective("all-reduce", 1024, 1024e5), fabric)
    verify(schedule, fabric)
    costed(schedule, fabric)
