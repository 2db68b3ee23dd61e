"""What carries collectives in clusters: the transport of the accelerator unless a file says otherwise, and never an
ideal one unsaid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightloom.machines.accelerators import load as accelerators
from lightloom.machines.accelerators.load import load_accelerator
from lightloom.machines.clusters.cluster import Cluster
from lightloom.machines.clusters.load import (
    CATALOG,
    cluster_from,
    load_cluster,
    names,
    with_accelerator,
)
from lightloom.machines.transports.price import Library
from lightloom.planning.designs.space import read_space

GPU = sorted(path.stem for path in (CATALOG / "gpu").glob("*.yaml") if not path.stem.endswith("-circuits"))
"""Clusters on packet switches; no library of circuits was measured."""
SWITCH = {"name": "node", "shape": "switch", "size": 8, "bandwidth": "450GB/s"}
NETWORK = {"name": "network", "shape": "switch", "bandwidth": "50GB/s"}
ON_SWITCHES: list[Any] = [
    {"kind": "tiers", "tiers": [SWITCH, NETWORK]},
    {"kind": "tiers", "tiers": [SWITCH, NETWORK | {"taper": 1.0}]},
    {"kind": "switch"},
    "dgx-h100",
    "fat-tree-400g",
    "ethernet-400g",
]


def of(fabric: Any, accelerator: str = "h100", ranks: int = 64, **more: Any) -> Cluster:
    """A cluster as a user may write it."""
    return cluster_from({"ranks": ranks, "accelerator": accelerator, "fabric": fabric, **more}, name="mine")


def library_of(cluster: Cluster) -> Library:
    library = cluster.fabric.library
    assert library is not None, cluster.name
    return library


def seconds(library: Library, kind: str, ranks: int, nbytes: float) -> float:
    return float(library.seconds(kind, np.array([ranks]), np.array([1]), np.array([nbytes]))[0])


@pytest.mark.parametrize("name", GPU)
def test_gpu_clusters_of_the_catalog_pay_for_a_library(name: str) -> None:
    cluster = load_cluster(name)
    assert library_of(cluster).transport.name == cluster.accelerator.transport
    assert cluster.fabric.software == cluster.accelerator.transport


@pytest.mark.parametrize("name", GPU)
def test_gpu_clusters_are_priced_by_what_is_best_known_of_their_chip(name: str) -> None:
    machine = load_cluster(name).accelerator
    assert (machine.calibration is not None) == (f"{machine.chip}-calibrated" in accelerators.names())


def test_one_mebibyte_over_two_nodes_takes_what_was_measured() -> None:
    """87 microseconds on 16 H100 (nebius-h100-ib); ideal links alone take 5."""
    assert seconds(library_of(load_cluster("dgx-h100-64")), "all-reduce", 16, 2.0**20) == pytest.approx(87e-6, rel=0.5)


@pytest.mark.parametrize("fabric", ON_SWITCHES)
@pytest.mark.parametrize("accelerator", ["h100", "h100-calibrated", "a100", "b200"])
def test_clusters_that_users_write_pay_for_a_library_unless_they_say_ideal(fabric: Any, accelerator: str) -> None:
    cluster = of(fabric, accelerator)
    assert library_of(cluster).transport.name == load_accelerator(accelerator).transport
    assert "no file of the cluster states one" in cluster.fabric.sources["transport"]
    fields = {"base": fabric} if isinstance(fabric, str) else fabric
    assert of({**fields, "transport": None}, accelerator).fabric.library is not None
    ideal = of({**fields, "transport": "ideal"}, accelerator).fabric
    assert ideal.library is None
    assert ideal.software == "ideal software, as stated"


def test_what_a_file_states_counts_more() -> None:
    for accelerator in ("a100", "h100-calibrated"):
        cluster = of({"base": "dgx-h100", "transport": "nccl-blackwell"}, accelerator)
        assert library_of(cluster).transport.name == "nccl-blackwell"
        assert cluster.fabric.sources["transport"] == "set by mine"
    assert load_cluster("a100-1024-two-tier", set={"accelerator": "h100"}).fabric.software == "nccl-ampere"


@pytest.mark.parametrize("name", sorted({*names()} - {*GPU}))
def test_machines_of_papers_and_tori_keep_ideal_software_and_say_so(name: str) -> None:
    cluster = load_cluster(name)
    assert cluster.fabric.library is None
    assert cluster.fabric.software.startswith("ideal software, as")
    assert cluster.reference is None or cluster.reference.library is None


def test_a_reference_is_carried_as_the_fabric_beside_it() -> None:
    for transport, carried in ((None, True), ("ideal", False)):
        cluster = of({"base": "dgx-h100", "transport": transport}, reference="ethernet-400g")
        assert cluster.reference is not None
        assert (cluster.reference.library is not None) == carried


@pytest.mark.parametrize("name", ["terarack-64", "sip-ocs-1024", "optinc-16", "dgx-h100-64", "a100-1024-two-tier"])
@pytest.mark.parametrize("accelerator", ["a100", "h100", "h100-calibrated", "tpu-v5p"])
def test_an_accelerator_set_later_gives_the_same_as_one_set_at_first(name: str, accelerator: str) -> None:
    assert with_accelerator(load_cluster(name), accelerator) == load_cluster(name, set={"accelerator": accelerator})


def test_leaves_of_a_fat_tree_are_no_domains() -> None:
    """Ranks with one port each are alone in their nodes: all their steps cross the network, in parts of a leaf, too."""
    cluster = of("fat-tree-400g")
    for ranks, stride in ((64, 1), (32, 1), (8, 1), (2, 32)):
        part = cluster.fabric if ranks == 64 else cluster.fabric.group(ranks, stride)
        assert part is not None
        assert part.library is not None
        assert part.library.domain == 1
        assert part.library.tiers.network == pytest.approx(0.97 * 50e9)
    one, node = library_of(cluster), library_of(of("dgx-h100"))
    assert seconds(one, "all-reduce", 8, 1024.0) > 2 * seconds(node, "all-reduce", 8, 1024.0)
    assert seconds(one, "all-reduce", 8, 2.0**32) > 5 * seconds(node, "all-reduce", 8, 2.0**32)


@pytest.mark.long
def test_designs_of_switches_pay_for_a_library_and_those_of_light_say_that_they_do_not() -> None:
    for design in read_space().designs([64], "h100-calibrated", Path()):
        fabric = design.cluster().fabric
        assert (fabric.library is not None) == (design.technology == "electrical"), design.name
        assert fabric.library is not None or fabric.software.startswith("ideal software, as no closed form")
