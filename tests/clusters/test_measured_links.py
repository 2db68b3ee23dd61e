"""Fitted links over a two-tier fabric: a ring of the measured ranks takes what was fitted."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import lightloom as ll
from lightloom.accelerators.calibrated import CalibrationRows
from lightloom.clusters.load import cluster_from, load_cluster
from lightloom.clusters.measured_links import FittedLinks, Tier, TierCalibration, read_links
from lightloom.core.errors import ConfigError

VALUES = Tier(base_latency=30e-6, latency_per_peer=6e-6, bandwidth=284e9, pass_bandwidth=600e9)
CLUSTER = "a100-1024-two-tier"


def fitted(*tiers: str, gpus: int = 8) -> FittedLinks:
    """Return links whose tiers all reach :data:`VALUES`."""
    spreads = dict.fromkeys(Tier.model_fields, 0.1)
    rows = CalibrationRows(table="made-up", sha256="ab" * 32, count=40, kind="collectives")
    return FittedLinks.model_validate(
        {
            "accelerator": "a100",
            "tiers": [
                TierCalibration.model_validate(
                    {"tier": tier, "gpus": gpus, "values": VALUES, "spreads": spreads, "prior_spreads": spreads}
                    | {"rows": rows, "mean_error": 0.03}
                )
                for tier in tiers
            ],
        }
    )


def write(path: Path, links: FittedLinks) -> Path:
    path.write_text(yaml.safe_dump(links.model_dump(mode="json")))
    return path


@pytest.mark.parametrize("nbytes", [1e3, 1e6, 1e9])
def test_a_ring_in_a_node_takes_what_was_fitted(tmp_path: Path, nbytes: float) -> None:
    path = write(tmp_path / "links.yaml", fitted("node"))
    fabric = load_cluster(CLUSTER, {"ranks": 8, "fabric.links": str(path)}).fabric
    priced = ll.collective("all-reduce", fabric=fabric, ranks=8, nbytes=nbytes, algorithm="ring").winner.time
    wanted = 30e-6 + 7 * 6e-6 + nbytes * (2 * 7 / 8 / 284e9 + 1 / 600e9)
    assert priced == pytest.approx(wanted)


def test_each_port_has_its_share_of_what_nodes_exchange(tmp_path: Path) -> None:
    links = fitted("node", "network", gpus=16)
    path = write(tmp_path / "links.yaml", links)
    fabric = load_cluster(CLUSTER, {"ranks": 16, "fabric.links": str(path)}).fabric
    fields = fabric.model_dump()
    assert fields["bandwidth"] * 8 == pytest.approx(fields["domain_bandwidth"]) == links.tiers[1].ring_rate
    assert fields["hop_latency"] * 4 == pytest.approx(fields["domain_latency"] * 2) == links.tiers[1].step_latency
    assert "40 collectives of made-up" in fabric.sources["hop_latency"]
    assert "Narayanan" in fabric.sources["oversubscription"]


def test_a_file_is_relative_to_the_cluster_s(tmp_path: Path) -> None:
    write(tmp_path / "links.yaml", fitted("network"))
    parts = {"ranks": 16, "accelerator": "a100", "fabric": {"base": "two-tier-200g", "links": "links.yaml"}}
    cluster = cluster_from(parts, name="mine", folder=tmp_path)
    assert cluster.fabric.sources["domain_bandwidth"].startswith("NVIDIA")
    assert read_links(tmp_path / "links.yaml") == fitted("network")


@pytest.mark.parametrize(
    ("fabric", "message"),
    [
        ({"base": "two-tier-200g", "links": "absent.yaml"}, "field 'fabric.links': cannot read"),
        ({"base": "two-tier-200g", "links": 3}, "field 'fabric.links': 3: expected a .yaml file"),
        ({"base": "two-tier-200g", "links": "links.yaml", "domain_latency": "1us"}, "'fabric.domain_latency': contra"),
        ({"base": "wdm-ring", "links": "links.yaml"}, "expected a fabric of two tiers"),
        ({"base": "two-tier-200g", "links": "links.yaml", "packet_payload": 1500}, "expected no packet_payload"),
        ({"base": "two-tier-200g", "links": "wrong.yaml"}, "field 'tiers.0.values.bandwidth': -1"),
    ],
)
def test_wrong_links_are_one_line(tmp_path: Path, fabric: dict[str, object], message: str) -> None:
    document = fitted("node").model_dump(mode="json")
    write(tmp_path / "links.yaml", fitted("node"))
    document["tiers"][0]["values"]["bandwidth"] = -1
    (tmp_path / "wrong.yaml").write_text(yaml.safe_dump(document))
    with pytest.raises(ConfigError, match=message) as caught:
        cluster_from({"ranks": 16, "accelerator": "a100", "fabric": fabric}, name="mine", folder=tmp_path)
    assert "\n" not in str(caught.value)
