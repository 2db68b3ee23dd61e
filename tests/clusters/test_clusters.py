"""Clusters from the catalog, from files and from settings, and what is said about a wrong one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lightloom.core.errors import ConfigError, UnknownNameError
from lightloom.core.files import say_former
from lightloom.machines.clusters.load import (
    cluster_from,
    description,
    load_cluster,
    names,
    schema,
)
from lightloom.machines.fabrics.grids import Mesh
from lightloom.machines.fabrics.load import changed, kinds, load_fabric
from lightloom.machines.fabrics.tiers.tiers import Tiers
from lightloom.machines.fabrics.wdm_ring import WdmRing

EXAMPLE = Path(__file__).parents[2] / "examples" / "cluster.yaml"


@pytest.mark.parametrize("name", names())
def test_catalog_entries_load_and_every_value_has_a_source(name: str) -> None:
    entry, cluster = description(name), load_cluster(name)
    assert cluster.name == name
    assert cluster.fabric.ranks == cluster.ranks
    assert cluster.reference is None or cluster.reference.ranks == cluster.ranks
    assert cluster.training.precision in cluster.accelerator.peak
    assert set(entry) - {"description", "sources"} == set(cluster.sources)
    for part in (cluster.accelerator, cluster.fabric, cluster.reference):
        assert part is None or not [text for text in part.sources.values() if text.startswith("set by")]


@pytest.mark.parametrize("name", names())
def test_every_cluster_of_the_catalog_has_a_latency_with_a_source(name: str) -> None:
    cluster = load_cluster(name)
    for fabric in (cluster.fabric, cluster.reference):
        assert fabric is None or (fabric.neighbour_latency() > 0 and not fabric.latency_unstated)


def test_the_promised_names_exist() -> None:
    assert {"terarack-64", "sip-ring-1024", "sip-ocs-1024", "dadiannao-100g", "optinc-16"} <= set(names())


def test_the_example_loads() -> None:
    cluster = load_cluster(EXAMPLE)
    assert isinstance(cluster.fabric, WdmRing)
    assert cluster.fabric.wavelength_bandwidth == 6.25e9
    assert cluster.accelerator.name == "our-chip"
    assert cluster.reference is not None
    assert cluster.reference.sources["bandwidth"] == f"set by {EXAMPLE}"
    assert cluster.reference.sources.keys() == {"bandwidth", "hop_latency"}
    assert cluster.training.batch_per_rank == 64


def test_settings_reach_into_parts_and_leave_the_catalog_alone() -> None:
    changes = {
        "ranks": 16,
        "fabric.wavelengths": 8,
        "accelerator.peak.bf16": "1 TFLOPS",
        "training.precision": "fp32",
    }
    cluster = load_cluster("terarack-64", set=changes)
    assert isinstance(cluster.fabric, WdmRing)
    assert (cluster.ranks, cluster.fabric.ranks, cluster.fabric.wavelengths) == (16, 16, 8)
    assert cluster.accelerator.peak["bf16"] == 1e12
    assert cluster.accelerator.peak["fp32"] == 19.5e12
    assert cluster.accelerator.name == "a100"
    assert "OpTree" not in cluster.fabric.sources["wavelengths"]
    assert "OpTree" in cluster.fabric.sources["wavelength_bandwidth"]
    assert load_cluster("terarack-64").ranks == 64
    assert isinstance(load_cluster("terarack-64", set={"fabric": "mesh"}).fabric, Mesh)


def test_a_changed_value_does_not_keep_its_source(tmp_path: Path) -> None:
    (tmp_path / "chip.yaml").write_text("peak: {bf16: 1 TFLOPS}\nsources: {peak.bf16: vendor}\n")
    parts = {"ranks": 4, "fabric": "mesh", "accelerator": {"base": "chip.yaml", "peak": {"bf16": "2 TFLOPS"}}}
    cluster = cluster_from(parts, name="mine", folder=tmp_path)
    assert cluster.accelerator.sources == {"peak": "set by mine"}
    parts["accelerator"] = {
        "base": "chip.yaml",
        "peak": {"bf16": "2 TFLOPS"},
        "sources": {"peak": "measured"},
    }
    assert cluster_from(parts, name="mine", folder=tmp_path).accelerator.sources == {"peak": "measured"}


def test_parts_may_be_files_beside_the_cluster(tmp_path: Path) -> None:
    (tmp_path / "chip.yaml").write_text("peak: {bf16: 1 TFLOPS}\n")
    (tmp_path / "net.yaml").write_text("kind: switch\nbandwidth: 1 GB/s\n")
    (tmp_path / "mine.yaml").write_text(
        "ranks: 4\naccelerator: chip.yaml\nfabric: {base: net.yaml, hop_latency: 1us}\n"
    )
    cluster = load_cluster(tmp_path / "mine.yaml")
    assert (cluster.name, cluster.accelerator.name) == ("mine", "chip")
    assert cluster.fabric.hop_latency == 1e-6


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"fabric.wavelengths": "x"}, "field 'fabric.wavelengths': 'x': .*integer"),
        (
            {"fabric.wavelength_bandwidth": "40 Gbsp"},
            "field 'fabric.wavelength_bandwidth': '40 Gbsp': .*expected e.g.",
        ),
        ({"fabric.wavelenths": 3}, "field 'fabric.wavelenths': unknown field: expected one of .*wavelengths"),
        ({"fabric": "terarak"}, "field 'fabric': .*did you mean 'terarack'"),
        ({"fabric": {"kind": "foo"}}, "field 'fabric.kind': .*'foo': expected one of .*wdm-ring"),
        ({"fabric": {}}, "field 'fabric.kind': missing: expected 'base: NAME'"),
        ({"fabric": {"base": 3}}, "field 'fabric.base': 3: expected"),
        ({"fabric": {"base": "mesh", "kind": "torus"}}, "field 'fabric.kind': not expected beside 'base'"),
        ({"fabric": {"kind": "mesh", "ranks": 4}}, "field 'fabric.ranks': not expected here"),
        ({"fabric": 3}, "field 'fabric': 3: expected a catalog name"),
        ({"reference.bandwidth": "0"}, "field 'reference.bandwidth': 0.0: .*greater than 0"),
        ({"reference": "missing.yaml"}, "field 'reference': cannot read"),
        ({"accelerator": {}}, "field 'accelerator.peak' is missing"),
        ({"accelerator.peak.bf16": "-3"}, "field 'accelerator.peak.bf16': '-3': "),
        ({"training.batch_per_rank": 0}, "field 'training.batch_per_rank': 0: "),
        ({"ranks": 0}, "field 'ranks': 0: .*greater than or equal to 1"),
        ({"rank": 4}, "unknown field 'rank': expected one of description, ranks"),
        ({"ranks.x": 3}, "cannot set field 'ranks.x': 'ranks' is 64"),
    ],
)
def test_complaints_name_cluster_field_value_and_expectation(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=f"^terarack-64: {message}") as caught:
        load_cluster("terarack-64", set=settings)
    assert "\n" not in str(caught.value)


def test_unknown_cluster_suggests() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'terarack-64'"):
        load_cluster("terarack-46")


def test_a_cluster_goes_to_plain_json_and_back() -> None:
    cluster = load_cluster("optinc-16")
    plain = cluster.to_json()
    for part in ("fabric", "reference"):
        del plain[part]["ranks"]
    del plain["name"]
    assert cluster_from(plain, name="optinc-16") == cluster


def fits(document: dict[str, Any], rule: dict[str, Any], definitions: dict[str, Any]) -> bool:
    """Enough of JSON Schema to tell whether the keys of a mapping are allowed and complete."""
    if "$ref" in rule:
        rule = definitions[rule["$ref"].rsplit("/", 1)[1]]
    if "properties" not in rule:
        return False
    kind = rule["properties"].get("kind", {}).get("const")
    return set(rule.get("required", [])) <= set(document) <= set(rule["properties"]) and kind in (
        None,
        document.get("kind"),
    )


def test_the_schema_knows_every_field_and_every_kind() -> None:
    document = schema()
    definitions, properties = document["$defs"], document["properties"]
    assert document["required"] == ["ranks", "accelerator", "fabric"]
    consts = {definition.get("properties", {}).get("kind", {}).get("const") for definition in definitions.values()}
    assert set(kinds()) <= consts
    wavelength = definitions["WdmRing"]["properties"]["wavelength_bandwidth"]
    assert {"number", "string"} == {entry["type"] for entry in wavelength["anyOf"]}
    for entry in [*(description(name) for name in names()), description(str(EXAMPLE))]:
        assert set(entry) <= set(properties)
        for part in ("accelerator", "fabric", "reference"):
            if isinstance(entry.get(part), dict):
                matching = [rule for rule in properties[part]["anyOf"] if fits(entry[part], rule, definitions)]
                assert len(matching) == 1


@pytest.mark.parametrize("entry", ["rail", "1"])
def test_a_dot_reaches_into_a_tier_by_name_or_number(entry: str) -> None:
    plain = load_fabric("dgx-h100", 64)
    assert isinstance(plain, Tiers)
    settings = {f"tiers.{entry}.ports": 4, "tiers.NVLink.latency": "30ns"}
    for fabric in (
        load_fabric("dgx-h100", 64, set=settings),
        load_cluster("dgx-h100-64", set={f"fabric.{key}": value for key, value in settings.items()}).fabric,
        changed(plain, settings),
    ):
        assert isinstance(fabric, Tiers)
        assert [tier.ports for tier in fabric.tiers] == [18, 4]
        assert [tier.latency for tier in fabric.tiers] == pytest.approx([30e-9, 500e-9])
    assert [tier.ports for tier in plain.tiers] == [18, 8]


def test_an_entry_that_a_list_lacks_is_named() -> None:
    complaint = "cannot set field 'tiers.rale.ports': no entry 'rale': expected one of NVLink, rail"
    with pytest.raises(ConfigError, match=complaint):
        load_fabric("dgx-h100", 64, set={"tiers.rale.ports": 4})
    with pytest.raises(ConfigError, match="no entry 'rale': expected one of NVLink, rail"):
        load_cluster("dgx-h100-64", set={"fabric.tiers.rale.ports": 4})


@pytest.mark.parametrize(
    ("former", "name"),
    [
        ("h100-1024-fat-tree-400g", "h100-1024-no-nvlink-400g"),
        ("b200-1024-fat-tree-800g", "b200-1024-no-nvlink-800g"),
    ],
)
def test_clusters_go_by_their_former_names_too_with_a_line_of_warning(
    former: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    say_former.cache_clear()
    assert load_cluster(former) == load_cluster(name)
    (record,) = caplog.records
    assert record.getMessage() == (
        f"warning: cluster {former} is {name} now; the former spelling works in this release"
    )
    assert former not in names()
