"""Bad input to the newer ``lightloom onn`` commands and options: one line, exit 2, nothing left behind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lightloom.photonics.averaging.cascade import build_cascade, save_cascade
from lightloom.photonics.averaging.construct import build
from lightloom.photonics.averaging.networks import FunctionArguments, save_network
from tests.cli.commands import assert_refused, lightloom

LINK = ["link", "net.npz"]
CALIBRATE = ["calibrate"]
RIVALS = ["compare-reducers"]
TOLERATE = ["build", "--servers", "2", "--bits", "2", "--tolerate"]
TRAIN = ["train", "--servers", "2", "--bits", "2", "--layers", "1-4-1"]
CASES: list[tuple[list[str], str]] = [
    # Two levels.
    (["build", "--scenarios", "--servers", "4"], "--scenarios takes --evaluations alone"),
    (["build", "--scenarios", "--out", "other.npz"], "--scenarios takes --evaluations alone"),
    (["build", "--cascade", "2"], "give --servers N and --bits B"),
    (["build", "--servers", "2", "--bits", "4", "--cascade", "2", "--inputs", "2"], "--cascade takes --servers"),
    (["build", "--servers", "2", "--bits", "4", "--cascade", "-1"], "groups = -1: expected at least 1"),
    (["build", "--servers", "2", "--bits", "4", "--cascade", "two"], "--cascade 'two'"),
    (["build", "--servers", "2", "--bits", "4", "--cascade", "2", "--out", "levels.json"], "ends in .npz"),
    (["build", "--servers", "2", "--bits", "4", "--cascade", "2", "--out", "/proc/levels.npz"], "cannot write"),
    (["verify", "cascade.npz", "--noise", "0.1"], "'cascade.npz': a cascade"),
    (["verify", "cascade.npz", "--figure", "noise.png"], "'cascade.npz': a cascade"),
    (["verify", "groups.npz"], "'groups.npz': groups = 0"),
    (["map", "cut.npz"], "'cut.npz': not an .npz file"),
    (["map", "half.npz"], "first_biases_1 is missing"),
    (["map", "cascade.npz", "--layer", "level 3 layer 1"], "--layer 'level 3 layer 1': expected one of level 1"),
    (["map", "cascade.npz", "--gains", "columns"], "unknown gains 'columns'"),
    (["map", "net.npz", "--gains", ""], "unknown gains ''"),
    (["map", "net.npz", "--form", "unitary", "--components"], "--components"),
    (["map", "net.npz", "--layer", "7"], "--layer '7': expected one of 1, 2"),
    (["map", "net.npz", "--layer", "P"], "--layer 'P'"),
    (["disturb", "cascade.npz", "--train"], "schema 'lightloom.cascade/1', expected 'lightloom.network/1'"),
    (["disturb", "groups.npz"], "'groups.npz': groups = 0"),
    (["disturb", "cascade.npz", "--samples", "0"], "--samples 0"),
    (["disturb", "net.npz", "--gains", "none"], "unknown gains 'none'"),
    (["disturb", "net.npz", "--form", "sigma-u", "--components"], "components"),
    (["link", "cascade.npz"], "schema 'lightloom.cascade/1', expected 'lightloom.network/1'"),
    # Links in watts.
    (["link", "none.npz"], "'none.npz': No such file"),
    ([*LINK, "--full-scale", "3 apples"], "full-scale"),
    ([*LINK, "--full-scale", "-3mW"], "full-scale"),
    ([*LINK, "--full-scale", "3dB"], "full-scale"),
    ([*LINK, "--phase-lock", "nan"], "phase-lock"),
    ([*LINK, "--phase-lock", "five"], "phase-lock"),
    ([*LINK, "--modulation", "colour"], "modulation"),
    ([*LINK, "--unit", "magic"], "unit"),
    ([*LINK, "--skew", "1m"], "skew"),
    ([*LINK, "--dac-bits", "2.5"], "dac-bits"),
    ([*LINK, "--sweep", "colour=0..1"], "colour"),
    ([*LINK, "--sweep", "phase-lock"], "expected NAME=LOW..HIGH[:POINTS]"),
    ([*LINK, "--sweep", "phase-lock=0.3..0.1"], "expected LOW < HIGH"),
    ([*LINK, "--sweep", "phase-lock=0..0.1:1"], "2 to 1000 points"),
    ([*LINK, "--words", "0"], "--words 0"),
    ([*LINK, "--draws", "0"], "--draws 0"),
    ([*LINK, "--form", "sigma-u"], "sigma-u"),
    ([*LINK, "--figure", "link.bmp"], "'link.bmp'"),
    ([*LINK, "--full-scale", "1e300W"], "full_scale = 1e+300: expected 1e-15 to 1000 W"),
    ([*LINK, "--full-scale", "1e-300W"], "full_scale = 1e-300: expected 1e-15 to 1000 W"),
    ([*LINK, "--local-oscillator", "1e300W"], "local_oscillator = 1e+300"),
    ([*LINK, "--phase-error", "1e300"], "phase_error = 1e+300: expected 0 to 10 rad"),
    ([*LINK, "--detector-bandwidth", "1e300"], "detector_bandwidth = 1e+300"),
    ([*LINK, "--responsivity", "1e300"], "responsivity = 1e+300: expected 1e-06 to 10 A/W"),
    ([*LINK, "--noise-density", "1e300"], "noise_density = 1e+300"),
    ([*LINK, "--threshold-error", "1e300"], "threshold_error = 1e+300"),
    ([*LINK, "--sweep", "phase-error=0..1e300:2"], "phase_error = 1e+300: expected 0 to 10 rad"),
    (["disturb", "net.npz", "--loss", "1e300"], "loss_db=1e+300: expected at most 100 dB"),
    (["disturb", "net.npz", "--detector-noise", "1e300"], "detector_noise=1e+300"),
    (["disturb", "net.npz", "--sweep", "loss=0..1e300:2"], "loss_db=1e+300: expected at most 100 dB"),
    (["train", "--phase-error", "1e300"], "phase_error=1e+300: expected at most 10 rad"),
    # Calibration.
    ([*CALIBRATE, "--phase-error", "1e300"], "phase_error=1e+300: expected at most 10 rad"),
    ([*CALIBRATE, "--coupler-error", "1e300"], "coupler_error=1e+300: expected at most 10 rad"),
    ([*CALIBRATE, "--power-noise", "1e300"], "power_noise=1e+300: expected at most 10 input powers"),
    ([*CALIBRATE, "--drift", "1e300"], "drift=1e+300: expected at most 10 rad"),
    ([*CALIBRATE, "--aging", "1e300"], "aging=1e+300: expected at most 10 rad"),
    ([*CALIBRATE, "none.npz"], "'none.npz': No such file"),
    ([*CALIBRATE, "cascade.npz"], "schema 'lightloom.cascade/1', expected 'lightloom.network/1'"),
    ([*CALIBRATE, "--modes", "0"], "--modes 0"),
    ([*CALIBRATE, "--modes", "65"], "--modes 65: expected at most 64"),
    ([*CALIBRATE, "--chips", "0"], "--chips 0"),
    ([*CALIBRATE, "--phase-error", "-0.1"], "phase_error=-0.1"),
    ([*CALIBRATE, "--power-noise", "nan"], "power_noise"),
    ([*CALIBRATE, "--crosstalk", "0.2"], "--crosstalk 0.2: expected at most 0.1"),
    ([*CALIBRATE, "--mesh", "hexagonal"], "unknown mesh 'hexagonal'"),
    ([*CALIBRATE, "--settings", "0"], "--settings 0"),
    ([*CALIBRATE, "--seed", "-1"], "--seed -1"),
    ([*CALIBRATE, "net.npz", "--form", "sigma-u"], "form 'sigma-u' approximates"),
    # Chips.
    (["chip", "none.npz"], "'none.npz': No such file"),
    (["chip", "cascade.npz"], "schema 'lightloom.cascade/1', expected 'lightloom.network/1'"),
    (["chip", "net.npz", "--form", "sigma-u"], "form 'sigma-u' approximates"),
    (["chip", "net.npz", "--gains", "columns"], "unknown gains 'columns'"),
    (["chip", "net.npz", "--pitch", "-1"], "pitch"),
    (["chip", "net.npz", "--pitch", "nan"], "pitch"),
    (["chip", "net.npz", "--pitch", "1e300"], "pitch=1e+300: expected at most 1e+06"),
    (["chip", "net.npz", "--netlist", "chip.yaml"], "'chip.yaml': expected a name that ends in .json"),
    (["chip", "net.npz", "--gds", "chip.oas"], "'chip.oas': expected a name that ends in .gds"),
    (["chip", "net.npz", "--netlist", "/proc/chip.json"], "cannot write"),
    (["chip", "net.npz", "--figure", "plan.bmp"], "'plan.bmp'"),
    (["disturb", "net.npz", "--folder", "kept"], "--folder is of --train"),
    (["disturb", "net.npz", "--train", "--form", "svd"], "--train maps by economy"),
    # Rivals.
    ([*RIVALS, "--servers", "1"], "servers"),
    ([*RIVALS, "--servers", "1000000"], "servers"),
    ([*RIVALS, "--servers", "4", "--bits", "0"], "bits"),
    ([*RIVALS, "--servers", "4", "--word-errors", "0"], "word"),
    ([*RIVALS, "--servers", "4", "--word-errors", "nan"], "word"),
    ([*RIVALS, "--servers", "4", "--pair", "digit-sum"], "--pair 'digit-sum': expected two rivals"),
    ([*RIVALS, "--servers", "4", "--pair", "digit-sum,abacus"], "abacus"),
    ([*RIVALS, "--servers", "4", "--set", "colour=3"], "colour"),
    ([*RIVALS, "--servers", "4", "--set", "colour"], "colour"),
    ([*RIVALS, "--servers", "4", "--draws", "3"], "--draws 3"),
    # Tolerance.
    ([*TOLERATE, "phase-error"], "phase-error"),
    ([*TOLERATE, "phase-error=-1"], "phase_error=-1"),
    ([*TOLERATE, "phase-error=nan"], "phase_error=nan"),
    ([*TOLERATE, "colour=1"], "colour"),
    ([*TOLERATE, "power=3dB"], "power"),
    ([*TOLERATE, "power=1e300"], "power = 1e+300 W: expected 1e-15 to 1000 W"),
    ([*TOLERATE, "loss=1e300"], "loss_db=1e+300: expected at most 100 dB"),
    ([*TOLERATE, ""], "--tolerate"),
    ([*TOLERATE, "phase-error=3e-3", "--word-errors", "2"], "2"),
    ([*TOLERATE, "phase-error=3e-3", "--noise", "1e-3"], "--tolerate: not with --noise"),
    (["build", "--servers", "2", "--bits", "4", "--word-errors", "1e-4"], "--word-errors: give the errors too"),
    (["build", "--scenarios", "--tolerate", "phase-error=3e-3"], "--scenarios takes --evaluations alone"),
    # Training that knows errors, and of cascades.
    ([*TRAIN, "--aware-from", "0.2"], "--aware-from 0.2: expected an error of devices"),
    ([*TRAIN, "--phase-error", "1e-3", "--aware-from", "1"], "aware_from = 1"),
    ([*TRAIN, "--phase-error", "nan"], "phase_error=nan"),
    ([*TRAIN, "--coupler-error", "-1"], "coupler_error=-1"),
    ([*TRAIN, "--loss", "-0.1"], "loss_db=-0.1"),
    ([*TRAIN, "--dac-bits", "99"], "dac_bits=99"),
    ([*TRAIN, "--cpu-seconds", "0"], "cpu_seconds = 0"),
    ([*TRAIN, "--batch", "0"], "--batch 0: expected at least 1"),
    ([*TRAIN, "--cpu-seconds", "9", "--epochs", "9"], "--cpu-seconds 9: expected without --epochs"),
    (["train", "--search", "--phase-error", "1e-3"], "--search takes no errors of devices"),
    (["train", "--cascade", "0"], "--cascade 0"),
    (["train", "--cascade", "2", "--servers", "2"], "give --servers and --bits together"),
    (["train", "--cascade", "2", "--servers", "2", "--bits", "4"], "give --layers too"),
    (["train", "--cascade", "2", "--scenario", "1"], "--cascade takes no --scenario"),
    ([*TRAIN, "--cascade", "2", "--rounding", "half-up"], "--cascade takes no --scenario, --search, --rounding"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network and a cascade, and cascades that are none."""
    place = tmp_path_factory.mktemp("onn")
    save_network(place / "net.npz", build(2, 4).network, FunctionArguments(servers=2, bits=4))
    save_cascade(place / "cascade.npz", build_cascade(2, 2, 2, "clipped"))
    with np.load(place / "cascade.npz") as archive:
        content = {name: archive[name] for name in archive.files}
    np.savez(place / "groups.npz", **(content | {"groups": 0}))
    np.savez(place / "half.npz", **{name: value for name, value in content.items() if name != "first_biases_1"})
    (place / "cut.npz").write_bytes((place / "cascade.npz").read_bytes()[:300])
    return place


@pytest.mark.parametrize(("arguments", "complaint"), CASES, ids=[" ".join(a)[:60] for a, _ in CASES])
def test_bad_input_is_one_line(arguments: list[str], complaint: str, folder: Path) -> None:
    if arguments[0] == "train":
        pytest.importorskip("torch", reason="needs lightloom[torch]")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert_refused(lightloom("onn", *arguments, folder=folder), complaint)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
