"""``lightloom onn calibrate``: chips with unknown errors, before and after."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightloom.photonics.averaging.construct import build
from lightloom.photonics.averaging.networks import FunctionArguments, save_network
from tests.cli.commands import assert_refused, lightloom
from tests.cli.test_onn import Command, onn

__all__ = ["onn"]


def test_chips_are_calibrated_and_drawn(onn: Command) -> None:
    found = onn.json(
        "map",
        "--study",
        "calibrate",
        "--set",
        "modes=4",
        "--set",
        "chips=2",
        "--set",
        "aging=0.02",
        "--figure",
        "calibration.svg",
    )
    assert [row["name"] for row in found["chips"]] == ["0", "1"]
    for row in found["chips"]:
        assert row["error_after"] < 0.1 * row["error_before"]
        assert row["error_after"] < row["error_renewed"] < row["error_aged"]
        assert row["measurements"] == row["settings"] * 2 * 4 * 4
    assert len(found["invisible"]) == 2
    assert "noise of the detectors" in (onn.folder / "calibration.svg").read_text()
    other = onn.json("map", "--study", "calibrate", "--set", "modes=4", "--set", "chips=2", "--set", "aging=0.01")
    assert other["provenance"]["configuration"] != found["provenance"]["configuration"]


def test_a_network_averages_again(onn: Command) -> None:
    save_network(onn.folder / "net.npz", build(2, 4).network, FunctionArguments(servers=2, bits=4))
    found = onn.json("map", "--study", "calibrate", "net.npz")
    assert found["accuracy_before"] < 0.3 and found["accuracy_after"] > 0.7 and found["words"] == 20_000
    assert [row["name"] for row in found["chips"]] == ["P", "layer 1", "layer 2", "layer 3", "T"]


def test_a_fit_that_failed_is_said(onn: Command) -> None:
    assert "does not explain the powers" in onn.text(
        "map", "--study", "calibrate", "--set", "modes=4", "--set", "drift=0.05"
    )
    assert "does not explain the powers" not in onn.text("map", "--study", "calibrate", "--set", "modes=4")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "modes=65"], "field 'modes': 65"),
        (["--set", "modes=0"], "field 'modes': 0"),
        (["--set", "chips=none"], "field 'chips': 'none'"),
        (["--set", "measured_settings=0"], "field 'measured_settings': 0"),
        (["--set", "power_noise=nan"], "field 'power_noise': 'nan'"),
        (["--set", "drift=-1"], "drift=-1.0: expected a finite number of at least 0"),
        (["--set", "aging=inf"], "field 'aging': 'inf'"),
        (["--set", "crosstalk=0.2"], "crosstalk = 0.2: expected at most 0.1"),
        (["--set", "phase_error=-1"], "phase_error=-1.0"),
        (["--set", "mesh=hexagonal"], "unknown mesh 'hexagonal'"),
        (["missing.npz"], "missing.npz"),
        (["missing.npz", "--set", "output_orders=2"], "output_orders = 2: for random matrices"),
        (["missing.npz", "--set", "unknown_offsets=true"], "unknown_offsets = True: for random matrices"),
        (["--set", "form=sigma-u"], "form 'sigma-u' approximates"),
        (["--figure", "picture.txt"], "picture.txt"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], message: str, tmp_path: Path) -> None:
    assert_refused(lightloom("onn", "map", "--study", "calibrate", *arguments, folder=tmp_path), message)
    assert not list(tmp_path.iterdir())
