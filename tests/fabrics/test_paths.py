"""Links of transfers in the order of the journey: each begins where the one before it ends."""

from __future__ import annotations

import numpy as np
import pytest

from lightloom.machines.fabrics import derived
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.grids import Mesh, Torus
from lightloom.machines.fabrics.tiers.tier import Tier
from lightloom.machines.fabrics.tiers.tiers import Tiers
from lightloom.machines.fabrics.wdm_ring import Ring
from tests.fabrics.tiers_as_graph import to_graph

GRIDS = [Ring(ranks=6), Ring(ranks=5), Mesh(ranks=12), Torus(ranks=20), Torus(ranks=24, dims=(2, 3, 4))]


@pytest.mark.parametrize("fabric", GRIDS, ids=lambda fabric: f"{fabric.kind_name}-{fabric.ranks}")
def test_links_of_a_path_join_ranks_one_after_the_other(fabric: Fabric) -> None:
    """A link joins the two ranks between which it is the only one, whatever transfer crosses it."""
    ends: dict[int, tuple[int, int]] = {}
    ends_of_all = np.concatenate([np.stack(pair) for pair in derived.pairs(fabric.ranks)], axis=1)
    source, destination = np.tile(ends_of_all, fabric.routes)
    route = np.repeat(np.arange(fabric.routes), ends_of_all.shape[1])
    path = fabric.path(source, destination, route)
    hops = (path >= 0).sum(axis=1)
    for row in np.flatnonzero(hops == 1):
        ends[int(path[row].max())] = int(source[row]), int(destination[row])
    for transfer in range(len(path)):
        place = int(source[transfer])
        for link in path[transfer][path[transfer] >= 0].tolist():
            if link not in ends:
                assert fabric.kind_name == "torus"  # the second link between two ranks alone on their line
                break
            assert ends[link][0] == place
            place = ends[link][1]
        else:
            assert place == destination[transfer]


@pytest.mark.parametrize(
    "tiers",
    [
        [Tier(shape="switch", size=4, bandwidth=4e9, latency=1e-7), Tier(shape="switch", bandwidth=1e9, taper=2.0)],
        [Tier(shape="switch", size=2, bandwidth=4e9), Tier(shape="ring", bandwidth=1e9, latency=3e-7)],
        [Tier(shape="switch", size=4, bandwidth=4e9), Tier(shape="switch", bandwidth=1e9, separate_rails=True)],
        [Tier(shape="torus", dims=(2, 4), bandwidth=1e9), Tier(shape="switch", bandwidth=1e9, latency=2e-7)],
    ],
    ids=["tapered", "ring of domains", "rails", "tori"],
)
def test_the_path_through_tiers_is_that_of_their_graph(tiers: list[Tier]) -> None:
    fabric = Tiers(ranks=16, tiers=tuple(tiers), hop_latency=5e-7)
    graph = to_graph(fabric)
    for source, destination in derived.pairs(16):
        route = np.zeros_like(source)
        path, other = fabric.path(source, destination, route), graph.path(source, destination, route)
        for mine, same in zip(path, other, strict=True):
            links, edges = mine[mine >= 0], same[same >= 0]
            assert fabric.link_latency()[links].tolist() == pytest.approx(graph.link_latency()[edges].tolist())
            assert fabric.link_bandwidth()[links].tolist() == pytest.approx(graph.link_bandwidth()[edges].tolist())


@pytest.mark.parametrize("fabric", GRIDS, ids=lambda fabric: f"{fabric.kind_name}-{fabric.ranks}")
def test_no_transfers_cross_no_links(fabric: Fabric) -> None:
    none = np.zeros(0, np.int64)
    assert fabric.path(none, none, none).size == 0
