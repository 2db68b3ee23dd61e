"""Twisted tori: neighbours as defined, shortest routes, all dimensions alike, collectives, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path

from lightloom.collectives.collective import Collective, Kind
from lightloom.collectives.registry import evaluate, find
from lightloom.core.errors import ConfigError
from lightloom.machines.fabrics.conformance import check_fabric
from lightloom.machines.fabrics.derived import links_of
from lightloom.machines.fabrics.grids import Torus
from lightloom.machines.fabrics.lattice import Lattice
from lightloom.machines.fabrics.load import load_fabric


@st.composite
def lattices(draw: st.DrawFn) -> Lattice:
    side, double = draw(st.integers(2, 4)), draw(st.lists(st.booleans(), min_size=2, max_size=3))
    double[draw(st.integers(0, len(double) - 1))] ^= len(set(double)) == 1
    return Lattice(tuple(side * (1 + longer) for longer in double), wraps=True, twisted=True)


@given(lattices())
@settings(max_examples=20, deadline=None)
def test_links_join_the_cells_that_the_twist_says_and_routes_are_shortest(lattice: Lattice) -> None:
    joined = {lattice.ends(link)[2:4] for link in range(lattice.links)}
    expected = set()
    for cell in range(lattice.cells):
        for axis, size in enumerate(lattice.dims):
            place = [int(part) for part in lattice.coordinates(np.array(cell))]
            place[axis] += 1
            if place[axis] == size and size == min(lattice.dims):
                place = [at + min(lattice.dims) * (lattice.dims[other] > size) for other, at in enumerate(place)]
            end = np.ravel_multi_index([at % long for at, long in zip(place, lattice.dims, strict=True)], lattice.dims)
            expected |= {(cell, int(end)), (int(end), cell)}
    assert joined == expected
    assert len(joined) == lattice.links == lattice.total_degree
    ends = np.array(sorted(joined)).T
    links = shortest_path(csr_array((np.ones(len(ends[0])), tuple(ends)), shape=(lattice.cells,) * 2), unweighted=True)
    source, destination = np.divmod(np.arange(lattice.cells**2), lattice.cells)
    assert (lattice.hops(source, destination) == links[source, destination]).all()
    assert lattice.diameter == links.max()


@pytest.mark.parametrize("dims", [(2, 4), (3, 6), (4, 2, 2), (2, 4, 4)])
def test_a_twisted_torus_keeps_the_contract(dims: tuple[int, ...]) -> None:
    check_fabric(Torus(ranks=int(np.prod(dims)), dims=dims, twisted=True, hop_latency=1e-6))


@pytest.mark.parametrize(("ranks", "gain"), [(128, 1.5), (256, 1.15)])
def test_slices_of_tpu_v4_exchange_faster_twisted(ranks: int, gain: float) -> None:
    """All-to-all exchanges; with all links loaded alike the gains would be 1.75 for 4x4x8 and 1.39 for 4x8x8."""
    source, destination = np.divmod(np.arange(ranks**2), ranks)
    busiest = []
    for name in ("tpu-v4", "tpu-v4-twisted"):
        fabric = load_fabric(name, ranks)
        _, link = links_of(fabric.footprint(source, destination, 0 * source))
        busiest.append(np.bincount(link).max())
    assert busiest[0] / busiest[1] > gain


@pytest.mark.parametrize("kind", ["all-gather", "all-reduce"])
@pytest.mark.parametrize("dims", [(2, 4), (3, 6)])
def test_collectives_are_verified_and_near_their_bound(kind: Kind, dims: tuple[int, ...]) -> None:
    fabric = Torus(ranks=int(np.prod(dims)), dims=dims, twisted=True)
    found = evaluate(find("synthesized"), Collective(kind, fabric.ranks, 64 * 2**20), fabric)
    assert found.bound.time * (1 - 1e-9) <= found.cost.time <= 1.1 * found.bound.time


@pytest.mark.parametrize(
    ("fabric", "changes", "complaint"),
    [
        ("tpu-v4-twisted", {"ranks": 64}, "a torus of 4x4x4 cannot be twisted: expected two different sizes"),
        ("tpu-v4-twisted", {"ranks": 512}, "a torus of 8x8x8 cannot be twisted"),
        ("torus", {"ranks": 12, "dims": "3x4", "twisted": True}, "a torus of 3x4 cannot be twisted"),
        ("torus", {"ranks": 2, "dims": "1x2", "twisted": True}, "at least 2 and the double of it"),
    ],
)
def test_sizes_that_cannot_be_twisted_are_refused(fabric: str, changes: dict[str, Any], complaint: str) -> None:
    others = {name: value for name, value in changes.items() if name != "ranks"}
    with pytest.raises(ConfigError, match=complaint):
        load_fabric(fabric, changes["ranks"], set=others)
