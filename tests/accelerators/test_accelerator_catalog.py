"""No value without a source: accelerators and fabrics alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lightloom.core.errors import ConfigError, UnknownNameError
from lightloom.machines.accelerators.load import fields_of, load_accelerator, names
from lightloom.machines.fabrics import load as fabrics

WORDS = {"name", "kind", "description", "sources", "tiers"}
"""Fields without a source of their own; those of tiers have one each (tests/fabrics/test_geometry.py)."""


def unsourced(entry: dict[str, Any]) -> list[str]:
    sources = entry.get("sources", {})
    return [
        field for field, value in entry.items() if field not in WORDS and value is not None and not sources.get(field)
    ]


@pytest.mark.parametrize("name", names())
def test_every_accelerator_value_has_a_source(name: str) -> None:
    assert unsourced(fields_of(name)) == []
    assert load_accelerator(name).name == name


@pytest.mark.parametrize("name", fabrics.names())
def test_every_fabric_value_has_a_source(name: str) -> None:
    assert unsourced(fabrics.description(name)) == []


def test_the_check_itself_can_fail() -> None:
    assert unsourced({"memory": "1 GB", "power": None, "sources": {}}) == ["memory"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"peak": {"bf16": "60 TFLOPSS"}}, "peak.bf16"),
        ({"peak": {"bf17": "60 TFLOPS"}}, "bf17"),
        ({"peak": {}}, "peak"),
        ({"peak": {"bf16": 1e12}, "efficiency": 1.5}, "efficiency"),
        ({"peak": {"bf16": 1e12}, "wattage": 3}, "wattage"),
        ({}, "'peak' is missing"),
    ],
)
def test_complaints_name_the_field_in_one_line(fields: dict[str, Any], message: str, tmp_path: Path) -> None:
    file = tmp_path / "accelerator.yaml"
    file.write_text(json.dumps(fields))
    with pytest.raises(ConfigError, match=message) as caught:
        load_accelerator(str(file))
    assert "\n" not in str(caught.value)


def test_unknown_name_suggests() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'h100'"):
        load_accelerator("h1000")
