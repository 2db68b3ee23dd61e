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
    found = onn.json("calibrate", "--modes", "4", "--chips", "2", "--aging", "0.02", "--figure", "calibration.svg")
    assert [row["name"] for row in found["chips"]] == ["0", "1"]
    for row in found["chips"]:
        assert row["error_after"] < 0.1 * row["error_before"]
        assert row["error_after"] < row["error_renewed"] < row["error_aged"]
        assert row["measurements"] == row["settings"] * 2 * 4 * 4
    assert len(found["invisible"]) == 2
    assert "noise of the detectors" in (onn.folder / "calibration.svg").read_text()
    other = onn.json("calibrate", "--modes", "4", "--chips", "2", "--aging", "0.01")
    assert other["provenance"]["configuration"] != found["provenance"]["configuration"]


def test_a_network_averages_again(onn: Command) -> None:
    save_network(onn.folder / "net.npz", build(2, 4).network, FunctionArguments(servers=2, bits=4))
    found = onn.json("calibrate", "net.npz")
    assert found["accuracy_before"] < 0.3 and found["accuracy_after"] > 0.7 and found["words"] == 20_000
    assert [row["name"] for row in found["chips"]] == ["P", "layer 1", "layer 2", "layer 3", "T"]


def test_a_fit_that_failed_is_said(onn: Command) -> None:
    assert "does not explain the powers" in onn.text("calibrate", "--modes", "4", "--drift", "0.05")
    assert "does not explain the powers" not in onn.text("calibrate", "--modes", "4")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--modes", "65"], "--modes 65: expected at most 64"),
        (["--modes", "0"], "--modes 0: expected at least 1"),
        (["--chips", "none"], "--chips 'none': expected a whole number"),
        (["--settings", "0"], "--settings 0: expected at least 1"),
        (["--power-noise", "nan"], "power_noise=nan: expected a finite number of at least 0"),
        (["--drift", "-1"], "drift=-1.0: expected a finite number of at least 0"),
        (["--aging", "inf"], "aging=inf: expected a finite number of at least 0"),
        (["--crosstalk", "0.2"], "--crosstalk 0.2: expected at most 0.1"),
        (["--phase-error", "-1"], "phase_error=-1.0"),
        (["--mesh", "hexagonal"], "unknown mesh 'hexagonal'"),
        (["missing.npz"], "missing.npz"),
        (["missing.npz", "--output-orders", "2"], "--output-orders: for random matrices"),
        (["missing.npz", "--unknown-offsets"], "--unknown-offsets: for random matrices"),
        (["--form", "sigma-u"], "form 'sigma-u' approximates"),
        (["--figure", "picture.txt"], "picture.txt"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], message: str, tmp_path: Path) -> None:
    assert_refused(lightloom("onn", "calibrate", *arguments, folder=tmp_path), message)
    assert not list(tmp_path.iterdir())
