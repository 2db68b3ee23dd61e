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
CALIBRATE = ["map", "--study", "calibrate"]
RIVALS = ["build", "--reducers"]
TOLERATE = ["build", "--servers", "2", "--bits", "2", "--tolerate"]
TRAIN = ["train", "--servers", "2", "--bits", "2", "--layers", "1-4-1"]
CASES: list[tuple[list[str], str]] = [
    # Two levels.
    (["build", "--cascade", "2"], "give --servers N and --bits B"),
    (["build", "--servers", "2", "--bits", "4", "--cascade", "2", "--set", "inputs=2"], "not with"),
    (["build", "--servers", "2", "--bits", "4", "--cascade", "-1"], "groups = -1: expected at least 1"),
    (["build", "--servers", "2", "--bits", "4", "--cascade", "two"], "--cascade 'two'"),
    (["build", "--servers", "2", "--bits", "4", "--cascade", "2", "--out", "levels.json"], "ends in .npz"),
    (["build", "--servers", "2", "--bits", "4", "--cascade", "2", "--out", "/proc/levels.npz"], "cannot write"),
    (["build", "cascade.npz", "--noise", "0.1"], "'cascade.npz': a cascade"),
    (["build", "cascade.npz", "--figure", "noise.png"], "'cascade.npz': a cascade"),
    (["build", "groups.npz"], "'groups.npz': groups = 0"),
    (["map", "cut.npz"], "'cut.npz': not an .npz file"),
    (["map", "half.npz"], "first_biases_1 is missing"),
    (["map", "cascade.npz", "--set", "layer=level 3 layer 1"], "layer = 'level 3 layer 1': expected one of level 1"),
    (["map", "cascade.npz", "--set", "gains=columns"], "unknown gains 'columns'"),
    (["map", "net.npz", "--set", "form=unitary", "--set", "components=true"], "components = True"),
    (["map", "net.npz", "--set", "layer=7"], "layer = '7': expected one of 1, 2"),
    (["map", "net.npz", "--set", "layer=P"], "layer = 'P'"),
    (
        ["map", "--study", "train", "cascade.npz"],
        "schema 'lightloom.cascade/1', expected 'lightloom.network/1'",
    ),
    (["map", "--study", "disturb", "groups.npz"], "'groups.npz': groups = 0"),
    (["map", "--study", "disturb", "cascade.npz", "--set", "samples=0"], "field 'samples': 0"),
    (["map", "--study", "disturb", "net.npz", "--set", "gains=none"], "unknown gains 'none'"),
    (["map", "--study", "disturb", "net.npz", "--set", "form=sigma-u", "--set", "components=true"], "components"),
    (["link", "cascade.npz"], "schema 'lightloom.cascade/1', expected 'lightloom.network/1'"),
    # Links in watts.
    (["link", "none.npz"], "'none.npz': No such file"),
    ([*LINK, "--set", "full_scale=3 apples"], "full-scale"),
    ([*LINK, "--set", "full_scale=-3mW"], "full-scale"),
    ([*LINK, "--set", "full_scale=3dB"], "full-scale"),
    ([*LINK, "--set", "phase_lock=nan"], "phase-lock"),
    ([*LINK, "--set", "phase_lock=five"], "phase-lock"),
    ([*LINK, "--set", "modulation=colour"], "modulation"),
    ([*LINK, "--set", "unit=magic"], "unit"),
    ([*LINK, "--set", "skew=1m"], "skew"),
    ([*LINK, "--set", "dac_bits=2.5"], "dac-bits"),
    ([*LINK, "--sweep", "colour=0..1"], "colour"),
    ([*LINK, "--sweep", "phase-lock"], "expected NAME=LOW..HIGH[:POINTS]"),
    ([*LINK, "--sweep", "phase-lock=0.3..0.1"], "expected LOW < HIGH"),
    ([*LINK, "--sweep", "phase-lock=0..0.1:1"], "2 to 1000 points"),
    ([*LINK, "--set", "words=0"], "field 'words': 0"),
    ([*LINK, "--draws", "0"], "--draws 0"),
    ([*LINK, "--set", "form=sigma-u"], "sigma-u"),
    ([*LINK, "--figure", "link.bmp"], "'link.bmp'"),
    ([*LINK, "--set", "full_scale=1e300W"], "full_scale = 1e+300: expected 1e-15 to 1000 W"),
    ([*LINK, "--set", "full_scale=1e-300W"], "full_scale = 1e-300: expected 1e-15 to 1000 W"),
    ([*LINK, "--set", "local_oscillator=1e300W"], "local_oscillator = 1e+300"),
    ([*LINK, "--set", "phase_error=1e300"], "phase_error = 1e+300: expected 0 to 10 rad"),
    ([*LINK, "--set", "detector_bandwidth=1e300"], "detector_bandwidth = 1e+300"),
    ([*LINK, "--set", "responsivity=1e300"], "responsivity = 1e+300: expected 1e-06 to 10 A/W"),
    ([*LINK, "--set", "noise_density=1e300"], "noise_density = 1e+300"),
    ([*LINK, "--set", "threshold_error=1e300"], "threshold_error = 1e+300"),
    ([*LINK, "--sweep", "phase-error=0..1e300:2"], "phase_error = 1e+300: expected 0 to 10 rad"),
    (["map", "--study", "disturb", "net.npz", "--set", "loss=1e300"], "loss_db=1e+300: expected at most 100 dB"),
    (["map", "--study", "disturb", "net.npz", "--set", "detector_noise=1e300"], "detector_noise=1e+300"),
    (["map", "--study", "disturb", "net.npz", "--sweep", "loss=0..1e300:2"], "loss_db=1e+300: expected at most 100 dB"),
    (["train", "--set", "phase_error=1e300"], "phase_error=1e+300: expected at most 10 rad"),
    # Calibration.
    ([*CALIBRATE, "--set", "phase_error=1e300"], "phase_error=1e+300: expected at most 10 rad"),
    ([*CALIBRATE, "--set", "coupler_error=1e300"], "coupler_error=1e+300: expected at most 10 rad"),
    ([*CALIBRATE, "--set", "power_noise=1e300"], "power_noise=1e+300: expected at most 10 input powers"),
    ([*CALIBRATE, "--set", "drift=1e300"], "drift=1e+300: expected at most 10 rad"),
    ([*CALIBRATE, "--set", "aging=1e300"], "aging=1e+300: expected at most 10 rad"),
    ([*CALIBRATE, "none.npz"], "'none.npz': No such file"),
    ([*CALIBRATE, "cascade.npz"], "schema 'lightloom.cascade/1', expected 'lightloom.network/1'"),
    ([*CALIBRATE, "--set", "modes=0"], "field 'modes': 0"),
    ([*CALIBRATE, "--set", "modes=65"], "field 'modes': 65"),
    ([*CALIBRATE, "--set", "chips=0"], "field 'chips': 0"),
    ([*CALIBRATE, "--set", "phase_error=-0.1"], "phase_error=-0.1"),
    ([*CALIBRATE, "--set", "power_noise=nan"], "power_noise"),
    ([*CALIBRATE, "--set", "crosstalk=0.2"], "crosstalk = 0.2: expected at most 0.1"),
    ([*CALIBRATE, "--set", "mesh=hexagonal"], "unknown mesh 'hexagonal'"),
    ([*CALIBRATE, "--set", "measured_settings=0"], "field 'measured_settings': 0"),
    ([*CALIBRATE, "--seed", "-1"], "--seed -1"),
    ([*CALIBRATE, "net.npz", "--set", "form=sigma-u"], "form 'sigma-u' approximates"),
    # Chips.
    (["map", "--study", "chip", "none.npz"], "'none.npz': No such file"),
    (["map", "--study", "chip", "cascade.npz"], "schema 'lightloom.cascade/1', expected 'lightloom.network/1'"),
    (["map", "--study", "chip", "net.npz", "--set", "form=sigma-u"], "form 'sigma-u' approximates"),
    (["map", "--study", "chip", "net.npz", "--set", "gains=columns"], "unknown gains 'columns'"),
    (["map", "--study", "chip", "net.npz", "--set", "pitch=-1"], "pitch"),
    (["map", "--study", "chip", "net.npz", "--set", "pitch=nan"], "pitch"),
    (["map", "--study", "chip", "net.npz", "--set", "pitch=1e300"], "pitch=1e+300: expected at most 1e+06"),
    (
        ["map", "--study", "chip", "net.npz", "--netlist", "chip.yaml"],
        "'chip.yaml': expected a name that ends in .json",
    ),
    (["map", "--study", "chip", "net.npz", "--out", "chip.oas"], "'chip.oas': expected a name that ends in"),
    (["map", "--study", "chip", "net.npz", "--netlist", "/proc/chip.json"], "cannot write"),
    (["map", "--study", "chip", "net.npz", "--figure", "plan.bmp"], "'plan.bmp'"),
    (["map", "--study", "disturb", "net.npz", "--set", "folder=kept"], "unknown setting of onn-disturb 'folder'"),
    (["map", "--study", "train", "net.npz", "--set", "form=svd"], "unknown setting of onn-model 'form'"),
    # Rivals.
    ([*RIVALS, "--servers", "1"], "servers"),
    ([*RIVALS, "--servers", "1000000"], "servers"),
    ([*RIVALS, "--servers", "4", "--bits", "0"], "bits"),
    ([*RIVALS, "--servers", "4", "--set", "word_errors=0"], "word"),
    ([*RIVALS, "--servers", "4", "--set", "word_errors=nan"], "word"),
    ([*RIVALS, "--servers", "4", "--set", "pair=digit-sum"], "pair = 'digit-sum': expected two rivals"),
    ([*RIVALS, "--servers", "4", "--set", "pair=digit-sum,abacus"], "abacus"),
    ([*RIVALS, "--servers", "4", "--set", "colour=3"], "colour"),
    ([*RIVALS, "--servers", "4", "--set", "colour"], "colour"),
    ([*RIVALS, "--servers", "4", "--set", "draws=3"], "field 'draws': 3"),
    # Tolerance.
    ([*TOLERATE, "phase-error"], "phase-error"),
    ([*TOLERATE, "phase-error=-1"], "phase_error=-1"),
    ([*TOLERATE, "phase-error=nan"], "phase_error=nan"),
    ([*TOLERATE, "colour=1"], "colour"),
    ([*TOLERATE, "power=3dB"], "power"),
    ([*TOLERATE, "power=1e300"], "power = 1e+300 W: expected 1e-15 to 1000 W"),
    ([*TOLERATE, "loss=1e300"], "loss_db=1e+300: expected at most 100 dB"),
    ([*TOLERATE, ""], "--tolerate"),
    ([*TOLERATE, "phase-error=3e-3", "--set", "word_errors=2"], "2"),
    ([*TOLERATE, "phase-error=3e-3", "--noise", "1e-3"], "--noise: not with --tolerate"),
    (["build", "--servers", "2", "--bits", "4", "--set", "word_errors=1e-4"], "give the errors too"),
    # Training that knows errors, and of cascades.
    ([*TRAIN, "--set", "aware_from=0.2"], "aware_from = 0.2: expected an error of devices"),
    ([*TRAIN, "--set", "phase_error=1e-3", "--set", "aware_from=1"], "aware_from = 1"),
    ([*TRAIN, "--set", "phase_error=nan"], "'phase_error': 'nan'"),
    ([*TRAIN, "--set", "coupler_error=-1"], "coupler_error=-1"),
    ([*TRAIN, "--set", "loss=-0.1"], "loss_db=-0.1"),
    ([*TRAIN, "--set", "dac_bits=99"], "dac_bits=99"),
    ([*TRAIN, "--set", "cpu_seconds=0"], "cpu_seconds = 0"),
    ([*TRAIN, "--set", "batch=0"], "field 'batch': 0"),
    ([*TRAIN, "--set", "cpu_seconds=9", "--set", "epochs=9"], "cpu_seconds = 9: expected without epochs"),
    (["train", "--search", "--set", "phase_error=1e-3"], "--search takes no errors of devices"),
    (["train", "--cascade", "0"], "--cascade 0"),
    (["train", "--cascade", "2", "--servers", "2"], "give --servers and --bits together"),
    (["train", "--cascade", "2", "--servers", "2", "--bits", "4"], "give --layers too"),
    (["train", "--cascade", "2", "--scenario", "1"], "--cascade takes no --scenario"),
    ([*TRAIN, "--cascade", "2", "--set", "rounding=half-up"], "--cascade takes no --scenario, --search, rounding"),
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
