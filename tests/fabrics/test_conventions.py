"""Ties that a rule decides, orders of ranks, and groups that are all their siblings at once."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.machines.fabrics import derived
from lightloom.machines.fabrics.derived import links_of
from lightloom.machines.fabrics.fabric import CLOCKWISE, Fabric, GroupFabric
from lightloom.machines.fabrics.failures import WAYS
from lightloom.machines.fabrics.grids import Mesh, Torus
from lightloom.machines.fabrics.lattice import Lattice
from lightloom.machines.fabrics.wdm_ring import Ring, WdmRing
from tests.collectives.strategies import two_tiers

DIMS = st.lists(st.integers(1, 5), min_size=1, max_size=3).map(tuple)


@given(DIMS)
def test_a_snake_through_a_grid_goes_from_neighbour_to_neighbour(dims: tuple[int, ...]) -> None:
    lattice = Lattice(dims, wraps=False)
    order = lattice.snake()
    assert sorted(order.tolist()) == list(range(lattice.cells)) and order[0] == 0
    assert (lattice.hops(order[:-1], order[1:]) == 1).all()


@given(DIMS, st.booleans())
def test_cells_receive_and_send_on_the_links_that_transfers_take_last_and_first(
    dims: tuple[int, ...], wraps: bool
) -> None:
    lattice = Lattice(dims, wraps)
    source, destination = np.divmod(np.arange(lattice.cells**2), lattice.cells)
    last: dict[int, set[int]] = {cell: set() for cell in range(lattice.cells)}
    first: dict[int, set[int]] = {cell: set() for cell in range(lattice.cells)}
    runs = lattice.runs(source, destination)
    path = derived.ordered_links([run[:4] for run in runs], [run.backward for run in runs])
    for one, other, links in zip(source.tolist(), destination.tolist(), path.tolist(), strict=True):
        if taken := [link for link in links if link >= 0]:
            first[one].add(taken[0])
            last[other].add(taken[-1])
            assert lattice.ends(taken[0])[2] == one and lattice.ends(taken[-1])[3] == other
    receive, send = lattice.degrees()
    assert receive.tolist() == [len(last[cell]) for cell in range(lattice.cells)]
    assert send.tolist() == [len(first[cell]) for cell in range(lattice.cells)]
    assert lattice.total_degree == sum(map(len, last.values())) and lattice.smallest_degree == min(
        map(len, last.values())
    )


@given(DIMS)
def test_halfway_around_a_closed_line_even_cells_send_forward_and_odd_ones_back(dims: tuple[int, ...]) -> None:
    """Even and odd are the sums of their coordinates where the transfer starts; else the shorter way is taken."""
    lattice = Lattice(dims, wraps=True)
    source, destination = np.divmod(np.arange(lattice.cells**2), lattice.cells)
    ends = np.stack([lattice.coordinates(source), lattice.coordinates(destination)])
    even = ends[0].sum(axis=0) % 2 == 0
    for axis, run in zip(reversed(range(len(dims))), lattice.runs(source, destination), strict=True):
        ahead = (ends[1, axis] - ends[0, axis]) % dims[axis]
        assert (run.length == np.minimum(ahead, dims[axis] - ahead)).all()
        backward = (2 * ahead > dims[axis]) | ((2 * ahead == dims[axis]) & ~even)
        assert (run.backward == backward).all()


@pytest.mark.parametrize("dims", [(2, 4), (6, 3), (4, 2, 4), (2, 2, 4)])
def test_halfway_along_a_long_line_even_cells_of_a_twisted_torus_send_forward(dims: tuple[int, ...]) -> None:
    """Odd ones take another of the ways that are as short."""
    lattice = Lattice(dims, wraps=True, twisted=True)
    side = min(dims)
    axis = dims.index(2 * side)
    cells = np.arange(lattice.cells)
    place = np.array(lattice.coordinates(cells))
    even = place.sum(axis=0) % 2 == 0
    place[axis] = (place[axis] + side) % (2 * side)
    steps = np.array(lattice.steps(cells, np.ravel_multi_index(tuple(place), dims)))
    straight = np.zeros_like(steps)
    straight[axis] = side
    assert (np.abs(steps).sum(axis=0) == side).all()
    assert ((steps == straight).all(axis=0) == even).all()


@given(st.integers(1, 15))
def test_opposite_ranks_of_a_ring_take_turns_in_sending_clockwise(half: int) -> None:
    ring, rank = Ring(ranks=2 * half), np.arange(half)
    clockwise = ring.route(rank, rank + half) == CLOCKWISE
    assert (clockwise == (rank % 2 == 0)).all()
    assert (ring.route(rank + half, rank) == ring.reverse_route(ring.route(rank, rank + half))).all()


def test_links_of_a_grid_are_named_after_where_they_lead() -> None:
    mesh, cube = Mesh(ranks=12), Torus(ranks=27, dims=(3, 3, 3))
    for heading, by in (("east", 1), ("west", -1), ("south", 4), ("north", -4)):
        path = mesh.path(np.array([5]), np.array([5 + by]), np.array([0]))
        assert mesh.link_name(int(path.max())) == f"{heading}ward link 5→{5 + by}"
    for axis, by in enumerate((9, 3, 1)):
        for way, to in (("forward", 13 + by), ("backward", 13 - by)):
            path = cube.path(np.array([13]), np.array([to]), np.array([0]))
            assert cube.link_name(int(path.max())) == f"{way} link 13→{to} of dimension {axis + 1}"


@pytest.mark.parametrize("ranks", [2, 5])
def test_links_of_a_ring_are_named_after_where_they_lead(ranks: int) -> None:
    rank = np.arange(ranks)
    for sound in (Ring(ranks=ranks), WdmRing(ranks=ranks)):
        for way, by in enumerate((1, -1)):
            links = sound.path(rank, (rank + by) % ranks, np.full(ranks, way))[:, 0].tolist()
            names = [f"{WAYS[way]} link {one}→{(one + by) % ranks}" for one in range(ranks)]
            assert [sound.link_name(link) for link in links] == names


WHOLES: tuple[Fabric, ...] = (
    Mesh(ranks=12, hop_latency=1e-6),
    Torus(ranks=24, dims=(2, 3, 4), hop_latency=1e-6),
    Ring(ranks=12, hop_latency=1e-6),
    two_tiers(ranks=12, domain_size=3, hop_latency=1e-6, domain_latency=1e-8),
)


@given(st.sampled_from(WHOLES), st.data())
@settings(max_examples=40)
def test_a_transfer_of_a_group_is_those_of_all_groups_at_once(whole: Fabric, data: st.DataObject) -> None:
    divisors = [n for n in range(1, whole.ranks + 1) if whole.ranks % n == 0]
    ranks = data.draw(st.sampled_from(divisors[1:]))
    stride = data.draw(st.sampled_from([n for n in divisors if whole.ranks % (ranks * n) == 0]))
    group, members = GroupFabric.of(whole, ranks, stride), derived.group_members(whole.ranks, ranks, stride)
    source, destination = np.nonzero(~np.eye(ranks, dtype=np.bool_))
    route = np.zeros_like(source)
    transfer, link = links_of(group.footprint(source, destination, route))
    hops, seconds = group.hops(source, destination, route), group.latency(source, destination, route)
    for row, ends in enumerate(zip(source, destination, strict=True)):
        pairs = members[:, ends[0]], members[:, ends[1]]
        ways = *pairs, whole.route(*pairs)
        assert Counter(link[transfer == row].tolist()) == Counter(links_of(whole.footprint(*ways))[1].tolist())
        assert hops[row] == whole.hops(*ways).max()
        assert math.isclose(seconds[row], whole.latency(*ways).max())
    none = source[:0]
    assert not any(map(len, (group.hops(none, none, none), group.latency(none, none, none))))
    assert group.footprint(none, none, none).length.size == 0
    order = group.ring_order()
    assert (np.diff(np.argsort(whole.ring_order())[members[0]][order]) > 0).all()
