"""One accelerator alone, or a few of a node: machines like any other."""

from __future__ import annotations

import pytest

from lightloom.core.errors import ConfigError
from lightloom.machines.clusters.load import load_cluster
from lightloom.machines.fabrics.conformance import check_fabric
from lightloom.machines.fabrics.load import load_fabric
from lightloom.machines.fabrics.load import names as fabrics
from lightloom.planning.search.request import SearchRequest
from lightloom.planning.search.search import search
from tests.planner.jobs import transformer

SEARCHED = ("dgx-h100-64", "h100-512-two-tier", "nvl72-576", "terarack-64", "sip-ocs-1024", "tpu-v4-1024", "optinc-4")


@pytest.mark.parametrize("name", fabrics())
def test_every_fabric_of_the_catalog_has_one_rank(name: str) -> None:
    check_fabric(load_fabric(name, 1))


@pytest.mark.parametrize("name", SEARCHED)
def test_one_rank_is_planned_and_exchanges_nothing(name: str) -> None:
    cluster = load_cluster(name, set={"ranks": 1})
    found = search(transformer(2), cluster, SearchRequest(global_batches=(8,), compare=False))
    assert sum(found.winner.breakdown[part] for part in ("exposed_communication_s", "exposed_reconfiguration_s")) == 0
    assert found.winner.cluster.counted_ranks == "1 rank"


@pytest.mark.parametrize("ranks", [2, 3, 5, 8])
@pytest.mark.parametrize("name", ["dgx-h100", "gb200-nvl72-racks", "two-tier-400g", "dgx-h100-superpod"])
def test_ranks_of_a_part_of_a_node_have_its_links(name: str, ranks: int) -> None:
    """A job on a part of a node is that part of a job on the node."""
    part = load_fabric(name, ranks)
    check_fabric(part)
    assert part.node_ranks == ranks
    if 72 % ranks == 0 and name == "gb200-nvl72-racks":
        group = load_fabric(name, 72).group(ranks, 1)
        assert group is not None and group.pair(1) == part.pair(1)


def test_a_part_of_a_torus_is_no_torus() -> None:
    with pytest.raises(ConfigError, match="tiers of 64 ranks do not divide ranks=2"):
        load_fabric("tpu-v4", 2)
    assert load_fabric("tpu-v4", 1).ranks == 1


def test_several_nodes_are_filled_alike() -> None:
    with pytest.raises(ConfigError, match=r"ranks=13 do not divide evenly into domains of tier 1.*e\.g\. 12 or 14"):
        load_fabric("dgx-h100", 13)
    assert load_fabric("dgx-h100", 12).node_ranks == 6
    assert [level.size for level in load_fabric("dgx-h100-superpod", 24).levels][:2] == [8, 3]  # type: ignore[attr-defined]
