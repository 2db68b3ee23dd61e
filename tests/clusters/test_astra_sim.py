"""ASTRA-sim's networks as clusters: GiB/s, ns, tiers from the ranks outwards; the rest is refused in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lightloom.core.errors import ConfigError
from lightloom.machines.accelerators.load import system_fields
from lightloom.machines.clusters.astra_sim import read_network, read_topology
from lightloom.machines.clusters.load import load_cluster
from lightloom.machines.fabrics.graph import Graph
from lightloom.machines.fabrics.tiers.tiers import Tiers

NETWORK = "topology: [ Ring, Switch ]\nnpus_count: [ 4, 2 ]\nbandwidth: [ 50.0, 25 ]\nlatency: [ 500.0, 936.25 ]\n"
OLD = {
    "dimensions-count": 2,
    "topologies-per-dim": ["FullyConnected", "Switch"],
    "units-count": [4, 8],
    "links-count": [3, 2],
    "link-latency": [1, 2],
    "link-bandwidth": [32, 16],
    "hbm-scale": [0, 0],
}


def written(folder: Path, content: str | dict[str, Any]) -> Path:
    path = folder / ("network.yml" if isinstance(content, str) else "network.json")
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_dimensions_are_tiers_in_gibibytes_and_nanoseconds(tmp_path: Path) -> None:
    cluster = load_cluster(written(tmp_path, NETWORK), set={"accelerator": "h100"})
    assert cluster.ranks == 8 and isinstance(cluster.fabric, Tiers)
    first, second = cluster.fabric.tiers
    assert (first.shape, first.size, first.bandwidth) == ("ring", 4, 50 * 2**30)
    assert first.latency == pytest.approx(500e-9)
    assert (second.shape, second.size, second.bandwidth) == ("switch", 2, 25 * 2**30)
    assert second.latency == pytest.approx(936.25e-9)


def test_the_older_form_counts_links_and_says_what_it_leaves_out(tmp_path: Path) -> None:
    fields = read_network(written(tmp_path, OLD))
    tiers = fields["fabric"]["tiers"]
    assert [tier["bandwidth"] for tier in tiers] == [32 * 2**30, 2 * 16 * 2**30]
    assert [tier["shape"] for tier in tiers] == ["full-mesh", "switch"]
    assert "not used of the file: hbm-scale" in fields["description"]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (NETWORK.replace("Ring", "Mesh"), "topology 'Mesh': expected Ring, Switch or FullyConnected"),
        (NETWORK.replace("[ 4, 2 ]", "[ 4 ]"), "topology 2, npus_count 1, bandwidth 2, latency 2 dimensions"),
        (NETWORK.replace("50.0", "-1"), "bandwidth: -1: expected a number above 0"),
        (NETWORK.replace("[ 4, 2 ]", "[ 4, 2.5 ]"), "npus_count: 2.5: expected a whole number"),
        (OLD | {"link-latency": None}, "link-latency: None: expected a list with an entry for each dimension"),
        (OLD | {"topologies-per-dim": ["Ring", "Ring"], "links-count": [1, 2]}, "links-count 1 of a Ring"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(tmp_path: Path, content: Any, complaint: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        load_cluster(written(tmp_path, content), set={"accelerator": "h100"})
    assert complaint in str(refusal.value) and "\n" not in str(refusal.value)


def test_a_network_needs_an_accelerator(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"field 'accelerator' is missing: .*--accelerator NAME"):
        load_cluster(written(tmp_path, NETWORK))


SYSTEM = {
    "scheduling-policy": "LIFO",
    "all-reduce-implementation": ["ring", "halvingDoubling"],
    "local-mem-bw": 1600,
    "peak-perf": 900,
}


def test_a_system_file_is_an_accelerator_at_the_rates_that_its_simulator_takes(tmp_path: Path) -> None:
    network, system = written(tmp_path, NETWORK), tmp_path / "system.json"
    system.write_text(json.dumps(SYSTEM))
    machine = load_cluster(network, set={"accelerator": str(system)}).accelerator
    assert (machine.peak_rate("bf16"), machine.memory_bandwidth, machine.efficiency) == (900e12, 1.6e12, 1.0)
    left = machine.sources["name"]
    assert "not used of the file: all-reduce-implementation, scheduling-policy" in left
    assert "--algorithm ring --algorithm halving-doubling" in left and "assumption" in machine.sources["peak"]
    old = tmp_path / "system.txt"
    old.write_text(
        "scheduling-policy: LIFO\npeak-perf: 900\nlocal-mem-bw: 1600\nall-reduce-implementation: ring_ring\n"
    )
    assert load_cluster(network, set={"accelerator": str(old)}).accelerator.peak == machine.peak


def test_a_word_of_digits_and_dots_that_is_no_number_is_refused_where_a_rate_is_expected(tmp_path: Path) -> None:
    old = tmp_path / "system.txt"
    old.write_text("version: 1.2.3\ndots: .\npeak-perf: 9.e2\nlocal-mem-bw: .5\n")
    fields = system_fields(old)
    assert (fields["peak"]["bf16"], fields["memory_bandwidth"]) == (900e12, 0.5e9)
    old.write_text("peak-perf: 1.2.3\n")
    with pytest.raises(ConfigError, match=r"peak-perf: '1\.2\.3': expected a number above 0"):
        system_fields(old)


def test_a_system_file_without_a_rate_says_how_its_bandwidth_counts(tmp_path: Path) -> None:
    system = tmp_path / "system.json"
    system.write_text(json.dumps(SYSTEM | {"peak-perf": 0}))
    with pytest.raises(ConfigError, match=r"without peak-perf .*--set accelerator.memory_bandwidth=1600GB/s"):
        load_cluster(written(tmp_path, NETWORK), set={"accelerator": str(system)})
    with pytest.raises(ConfigError, match="which is taken as --accelerator"):
        load_cluster(system)


def test_sizes_for_ns3_are_no_network(tmp_path: Path) -> None:
    path = tmp_path / "logical.json"
    path.write_text('{"logical-dims": ["8", "2"]}')
    with pytest.raises(ConfigError, match="neither topology nor bandwidth nor latency"):
        load_cluster(path, set={"accelerator": "h100"})


NS3 = "4 1 3\n3\n0 3 400Gbps 0.0005ms 0\n1 3 400Gbps 0.0005ms 0.1\n2 3 100Gbps 1us 0\n"


def test_links_for_ns3_are_a_graph(tmp_path: Path) -> None:
    path = tmp_path / "physical.txt"
    path.write_text(NS3)
    cluster = load_cluster(path, set={"accelerator": "h100"})
    assert cluster.ranks == 3 and isinstance(cluster.fabric, Graph)
    assert [(edge.source, edge.target) for edge in cluster.fabric.edges] == [(rank, "switch 3") for rank in range(3)]
    assert [edge.bandwidth for edge in cluster.fabric.edges] == [50e9, 50e9, 12.5e9]
    assert [edge.latency for edge in cluster.fabric.edges] == pytest.approx([0.5e-6, 0.5e-6, 1e-6])
    assert "losses of packets on 1 link are left out" in cluster.description
    path.write_text("2 0 1\n\n0 1 400Gbps 0.001ms 0\n")
    assert load_cluster(path, set={"accelerator": "h100"}).ranks == 2


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (NS3.replace("4 1 3", "4 1 2"), "states 1 switches and 2 links, and has 1 and 3"),
        (NS3.replace("2 3 100", "2 9 100"), "line 5: node 9: expected one of 4"),
        (NS3.replace("1us", "1xs"), "line 5: '1xs': unknown time unit"),
        (NS3.replace("0.1", ""), "line 4: 4 columns: expected two nodes, rate, delay and loss"),
        (NS3.replace("\n3\n", "\n4\n"), "line 2: switches 4: expected 1 of 4 nodes, from 0"),
        (NS3.replace("4 1 3\n3", "4 2 3\n3 3"), "line 2: switches 3 3: expected 2 of 4 nodes, from 0"),
    ],
)
def test_malformed_links_are_refused_in_one_line(tmp_path: Path, content: str, complaint: str) -> None:
    path = tmp_path / "physical.txt"
    path.write_text(content)
    with pytest.raises(ConfigError) as refusal:
        load_cluster(path, set={"accelerator": "h100"})
    assert complaint in str(refusal.value) and "\n" not in str(refusal.value)


def test_links_for_ns3_that_end_early_are_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "physical.txt"
    for lines in range(NS3.count("\n")):
        path.write_text("\n".join(NS3.split("\n")[:lines]))
        with pytest.raises(ConfigError, match="in column 1$" if not lines else f"and has .* and {max(lines - 2, 0)}:"):
            read_topology(path)
