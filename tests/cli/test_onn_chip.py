"""``lightloom onn chip``: a floor plan, a netlist, a layout."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lightloom.photonics.averaging.construct import build
from lightloom.photonics.averaging.networks import FunctionArguments, save_network
from tests.cli.commands import assert_refused, lightloom
from tests.cli.test_onn import Command, onn

__all__ = ["onn"]


def test_a_chip_is_planned_drawn_and_exported(onn: Command) -> None:
    save_network(onn.folder / "net.npz", build(2, 4).network, FunctionArguments(servers=2, bits=4))
    found = onn.json(
        "map",
        "--study",
        "chip",
        "net.npz",
        "--set",
        "components=true",
        "--netlist",
        "chip.json",
        "--figure",
        "chip.svg",
    )
    assert found["mzi_count"] == 30 and [row["name"] for row in found["parts"]][::4] == ["P", "T"]
    errors = [row["error"] for row in found["detuned"]]
    assert errors == sorted(errors) and 0 < errors[0] < 0.05
    content = json.loads((onn.folder / "chip.json").read_text())
    assert sum(i["component"] == "mzi" for i in content["netlist"]["instances"].values()) == 30
    assert "attenuator" in (onn.folder / "chip.svg").read_text()
    assert "(assumptions)" in onn.text("map", "--study", "chip", "net.npz", "--all")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.npz"], "missing.npz"),
        (["net.npz", "--set", "form=sigma-u"], "form 'sigma-u' approximates"),
        (["net.npz", "--set", "mesh=round"], "unknown mesh 'round'"),
        (["net.npz", "--set", "gains=all"], "unknown gains 'all'"),
        (["net.npz", "--set", "pitch=0"], "pitch=0.0: expected a length above 0"),
        (["net.npz", "--set", "pitch=nan"], "field 'pitch': 'nan'"),
        (["net.npz", "--netlist", "chip.yaml"], "'chip.yaml': expected a name that ends in .json"),
        (["net.npz", "--out", "chip.oas"], "'chip.oas': expected a name that ends in"),
        (["net.npz", "--figure", "chip.txt"], "chip.txt"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], message: str, tmp_path: Path) -> None:
    assert_refused(lightloom("onn", "map", "--study", "chip", *arguments, folder=tmp_path), message)
    assert not list(tmp_path.iterdir())
