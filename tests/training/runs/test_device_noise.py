"""Digits trained through the hook: runs that go on where they stopped, and runs on fabricated devices."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="training is torch's")

from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.exchange.transport.launch import launch
from lightloom.papers.runs.device_noise import code_errors, detecting, test_accuracy_under
from lightloom.photonics.averaging.averagers import NetworkAverager
from lightloom.photonics.averaging.construct import build
from lightloom.photonics.averaging.mapped import fabricated, map_network
from lightloom.photonics.averaging.networks import FunctionArguments, save_network
from lightloom.photonics.devices import NonIdealities

ARGUMENTS = FunctionArguments(servers=2, bits=8, rounding="half-up")
DEVICES = NonIdealities(phase_error=1e-3)
# Not a test by itself.
test_accuracy_under.__test__ = False  # type: ignore[attr-defined]


@pytest.mark.slow
def test_runs_go_on_where_they_stopped(tmp_path: Path) -> None:
    network = build(2, 8, rounding="half-up").network
    save_network(tmp_path / "n.npz", network, ARGUMENTS)
    tasks = {"float32": "none", "devices": f"optical:network:{tmp_path / 'n.npz'},noise=1e-9"}
    devices = {"tasks": tasks, "data": "", "bits": 8, "rounding": "half-up", "seed": 0, "iterations": 2}
    arguments = {"folder": str(tmp_path), **devices}
    found = [each.value for each in launch("tests.training.runs.optical_digits:several", 2, 600.0, arguments)]
    whole, halves, erring = (found[0][name] for name in ("whole", "halves", "erring"))
    assert whole == halves
    assert whole["iterations"] == erring["iterations"] == [2, 4, 6]
    assert whole["accuracy"] == found[1]["whole"]["accuracy"]
    # 16 of 32 bits, and a byte for a block.
    assert 1.95 < whole["ratio"][-1] < 2
    assert found[0]["devices"].keys() == {"float32", "devices"}
    assert found[0]["devices"] == found[1]["devices"]


def test_ideal_devices_make_no_errors_and_real_ones_do() -> None:
    arguments = FunctionArguments(servers=2, bits=4, rounding="half-up")
    mapped = map_network(build(2, 4, rounding="half-up").network)
    counts = []
    for how in (NonIdealities(), NonIdealities(phase_error=1e-2)):
        made = detecting(fabricated(mapped, how, np.random.default_rng(0)))
        rate, rms = code_errors(NetworkAverager(made, arguments, how.detector_noise), 0, 2000)
        assert rms >= rate**0.5
        counts.append(rate)
    assert counts[0] == 0 < counts[1]


def test_detection_spares_the_inputs() -> None:
    made = detecting(build(2, 4).network)
    light = np.full((made.layers[0], 50), 0.5)
    signals = made.signals(light, 0.1, np.random.default_rng(0))
    assert (signals[0] == light).all()
    assert all(np.ptp(each, axis=1).any() for each in signals[1:])


def test_too_many_servers_are_refused(tmp_path: Path) -> None:
    arguments = FunctionArguments(servers=16, bits=4)
    with pytest.raises(UnsupportedError, match="16 servers: training takes a process each"):
        test_accuracy_under(NonIdealities(), build(16, 4).network, arguments, tmp_path, 1, 0)


@pytest.mark.slow
@pytest.mark.skipif("LIGHTLOOM_DATA" not in os.environ, reason="LIGHTLOOM_DATA names no folder with MNIST")
def test_from_devices_to_accuracy(tmp_path: Path) -> None:
    network = build(2, 8, rounding="half-up").network
    data = Path(os.environ["LIGHTLOOM_DATA"])
    found = test_accuracy_under(DEVICES, network, ARGUMENTS, data, 40, 0, tmp_path)
    assert found.code_error_rate > 0
    assert found.rms_error_lsb > 0
    assert found.test_accuracy_float32 > 0.2
    again = test_accuracy_under(DEVICES, network, ARGUMENTS, data, 40, 0, tmp_path)
    assert again == found
    with pytest.raises(ConfigError, match="holds a run of another"):
        test_accuracy_under(DEVICES, network, ARGUMENTS, data, 40, 1, tmp_path)
    assert found.how.phase_error == DEVICES.phase_error
