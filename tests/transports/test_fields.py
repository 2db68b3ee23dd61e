"""Transports as fabrics state them: names, files, and what differs from one."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter

from lightloom.core.errors import ConfigError
from lightloom.machines.fabrics.load import load_fabric
from lightloom.machines.fabrics.tiers.tiers import Tiers
from lightloom.machines.transports.transport import PARAMETERS, load_transport

NCCL = load_transport("nccl-hopper")


def test_what_differs_from_a_transport_is_laid_over_it() -> None:
    fabric = load_fabric("dgx-h100", 16, set={"transport": {"base": "nccl-hopper", "scales": {"latency": 2.0}}})
    assert fabric.library is not None
    assert fabric.library.transport == NCCL.with_parameters({"latency": 2.0})
    assert type(fabric).model_validate(fabric.model_dump()) == fabric
    without = load_fabric("dgx-h100", 16, set={"transport": {"base": "nccl-hopper", "generation": None}})
    assert without.library is not None and without.library.transport.generation is None


@pytest.mark.parametrize("name", ["two-tier-200g", "two-tier-400g"])
def test_the_library_finds_the_links_of_the_catalog_s_clusters(name: str) -> None:
    """Two tiers are those of the DGX systems, but for rails: what a library has to know of them is the same."""
    dgx = {"two-tier-200g": ("dgx-a100", "nccl-ampere"), "two-tier-400g": ("dgx-h100", "nccl-hopper")}[name]
    ours, theirs = load_fabric(name, 32).library, load_fabric(dgx[0], 32, set={"transport": dgx[1]}).library
    assert ours is not None
    assert theirs is not None
    assert ours.transport == theirs.transport
    assert ours.tiers[:3] == pytest.approx(theirs.tiers[:3])


def test_links_as_the_library_finds_them_are_faster_by_its_numbers() -> None:
    faster = {"base": "nccl-hopper", "scales": {"bandwidth": 0.5, "network_bandwidth": 2.0}}
    for name in ("two-tier-400g", "dgx-h100"):
        plain, carried = (load_fabric(name, 16, set={"transport": of}) for of in (None, faster))
        links = carried.as_carried()
        assert links.library is None
        before, after = plain.link_bandwidth(), links.link_bandwidth()
        assert set((after / before).round(9)) == {0.5, 2.0}


def test_parameters_are_believed_with_what_is_said_of_them() -> None:
    assert not load_transport("ideal").priors()
    priors = NCCL.with_parameters({"bandwidth": 0.9, "arithmetic_share": 0.5}).priors()
    assert list(priors) == list(PARAMETERS)
    assert (priors["bandwidth"].value, priors["arithmetic_share"].value) == (0.9, 0.5)
    assert all(prior.source for prior in priors.values())
    certain = NCCL.model_copy(update={"spreads": {"latency": 0.05}}).priors()
    assert (certain["latency"].spread, certain["bandwidth"].spread) == (0.05, PARAMETERS["bandwidth"].spread)


@pytest.mark.parametrize(
    ("transport", "words"),
    [
        ({"scales": {"latency": 2.0}}, "expected field 'base'"),
        ({"base": "nccl-volta"}, "nccl-volta"),
        ({"base": "nccl-hopper", "spreads": {"speed": 1}}, "unknown parameters: speed"),
        ({"base": "nccl-hopper", "scales": {"latency": -1}}, "latency"),
        (3, "transport"),
    ],
)
def test_wrong_transports_are_one_line(transport: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        load_fabric("dgx-h100", 16, set={"transport": transport})
    assert "\n" not in str(caught.value)


def test_packets_are_counted_once() -> None:
    with pytest.raises(ConfigError, match="expected no packet_payload"):
        load_fabric("two-tier-400g", 16, set={"packet_payload": 4096})
    assert load_fabric("two-tier-400g", 16, set={"packet_payload": 4096, "transport": None}).library is None


def test_the_schema_takes_names_and_fields() -> None:
    field = TypeAdapter(Tiers).json_schema()["properties"]["transport"]
    assert {"type": "string"} in field["anyOf"]
