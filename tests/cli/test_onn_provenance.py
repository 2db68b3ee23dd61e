"""Results that differ in an option that decides them differ in the hash of their configuration."""

from __future__ import annotations

import json
from collections.abc import Sequence
from inspect import signature
from pathlib import Path

import numpy as np
import pytest

from lightloom.app.cli.onn.disturb import disturb
from lightloom.app.cli.onn.settings import DisturbSettings
from lightloom.photonics.averaging.construct import build
from lightloom.photonics.averaging.networks import FunctionArguments, save_network
from tests.cli.commands import lightloom

DISTURB = ["onn", "map", "--study", "disturb", "net.npz", "--draws", "1", "--set", "samples=9"]
CALIBRATE = ["onn", "map", "--study", "calibrate", "--set", "modes=2"]
CHIP = ["onn", "map", "--study", "chip", "net.npz"]
RIVALS = ["onn", "build", "--reducers", "--servers", "2", "--set", "draws=20"]
LINK = ["onn", "link", "net.npz", "--draws", "1", "--set", "words=9", "--set", "parts=false"]
BUILD = ["onn", "build", "--servers", "2", "--bits", "2", "--set", "evaluations=100"]
VERIFY = ["onn", "build", "net.npz"]
MAP = ["onn", "map", "net.npz"]
FREE = ["--set", "form=free", "--set", "epochs=1"]
TRAIN = ["onn", "train", "--servers", "2", "--bits", "2", "--layers", "1-4-1", *FREE]
CASCADE = ["onn", "build", "--servers", "2", "--bits", "2", "--cascade", "2", "--set", "tuples=10"]
OPTIONS: list[tuple[list[str], list[list[str]]]] = [
    (
        DISTURB,
        [
            ["--set", "correct=true"],
            ["--set", "phase_error=0.01"],
            ["--set", "coupler_error=0.01"],
            ["--set", "loss_spread=0.1"],
            ["--set", "crosstalk=0.01"],
            ["--set", "heater_spread=0.01"],
            ["--set", "dac_bits=8"],
            ["--set", "detector_noise=0.01"],
            ["--set", "gains=common"],
            ["--set", "components=true"],
            ["--units"],
            ["--set", "uncalibrated=true"],
            ["--set", "form=svd"],
            ["--set", "mesh=triangular"],
            ["--seed", "1"],
            ["--draws", "2"],
            ["--set", "samples=8"],
            ["--set", "loss=0.1"],
            ["--sweep", "loss=0..1:2"],
        ],
    ),
    (
        LINK,
        [
            ["--set", "full_scale=2mW"],
            ["--set", "phase_lock=0.1rad"],
            ["--set", "ideal=true"],
            ["--set", "calibration=rows"],
            ["--set", "form=economy"],
            ["--set", "gains=common"],
            ["--set", "components=false"],
            ["--set", "words=8"],
            ["--draws", "2"],
            ["--set", "mesh=triangular"],
            ["--seed", "1"],
            ["--sweep", "skew=0..0.1:2"],
        ],
    ),
    (
        CALIBRATE,
        [
            ["--set", "modes=3"],
            ["--set", "chips=2"],
            ["--set", "mesh=triangular"],
            ["--set", "phase_error=0.2"],
            ["--set", "coupler_error=0.01"],
            ["--set", "power_noise=1e-4"],
            ["--set", "drift=1e-4"],
            ["--set", "measured_settings=9"],
        ],
    ),
    (
        CHIP,
        [
            ["--set", "form=svd"],
            ["--set", "mesh=triangular"],
            ["--set", "gains=common"],
            ["--set", "components=true"],
            ["--set", "pitch=200"],
        ],
    ),
    (RIVALS, [["--set", "word_errors=1e-4"]]),
    (
        BUILD,
        [
            ["--set", "nonlinearity=clipped"],
            ["--set", "rounding=half-up"],
            ["--noise", "1e-9"],
            ["--set", "evaluations=101"],
        ],
    ),
    (VERIFY, [["--noise", "0.1"], ["--set", "samples=9"]]),
    (MAP, [["--set", "form=svd"], ["--set", "mesh=triangular"], ["--units"]]),
    (TRAIN, [["--set", "noise=1e-3"], ["--set", "batch=8"]]),
    (CASCADE, [["--set", "tuples=11"], ["--set", "nonlinearity=clipped"]]),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network, and others that differ from it in one thing each."""
    place = tmp_path_factory.mktemp("onn")
    save_network(place / "net.npz", build(2, 2).network, FunctionArguments(servers=2, bits=2))
    with np.load(place / "net.npz") as archive:
        content = {name: archive[name] for name in archive.files}
    np.savez(place / "bias.npz", **(content | {"biases_1": content["biases_1"] + 0.01}))
    np.savez(place / "units.npz", **(content | {"nonlinearity": "clipped"}))
    np.savez(place / "scale.npz", **(content | {"full_scale_1": content["full_scale_1"] * 2}))
    np.savez(place / "rounding.npz", **(content | {"rounding": "half-up"}))
    return place


def stamp(arguments: Sequence[str], folder: Path) -> tuple[str, int | None]:
    """Hash and seed that a command stamps on its result."""
    done = lightloom(*arguments, "--json", folder=folder)
    assert done.code == 0, done.err
    origin = json.loads(done.out)["provenance"]
    return origin["configuration"], origin["seed"]


@pytest.mark.long
@pytest.mark.parametrize(("command", "options"), OPTIONS, ids=[" ".join(command[:4]) for command, _ in OPTIONS])
def test_every_option_that_decides_a_result_changes_its_hash(
    command: list[str], options: list[list[str]], folder: Path
) -> None:
    if "train" in command:
        pytest.importorskip("torch", reason="needs lightloom[torch]")
    stamps = [stamp([*command, *chosen], folder) for chosen in ([], *options)]
    assert len(set(stamps)) == len(stamps), dict(zip(["none", *map(" ".join, options)], stamps, strict=True))
    assert stamp(command, folder) == stamps[0]


def test_disturbing_has_no_setting_that_its_hash_does_not_know() -> None:
    """A new option or setting fails here until the cases above have it; the hash alone differs, the seed included."""
    known = {word.partition("=")[0] for option in OPTIONS[0][1] for word in option}
    parameters = {f"--{name}" for name in signature(disturb).parameters} | {*DisturbSettings.model_fields}
    assert parameters - known == {"--network", "--settings", "--figure", "--all"}


@pytest.mark.parametrize("command", [DISTURB, VERIFY], ids=["disturb", "verify"])
def test_a_network_is_known_by_all_that_it_holds(command: list[str], folder: Path) -> None:
    names = ["net.npz", "bias.npz", "units.npz", "scale.npz", "rounding.npz"]
    stamps = [stamp([name if word == "net.npz" else word for word in command], folder) for name in names]
    assert len(set(stamps)) == len(stamps), dict(zip(names, stamps, strict=True))


def test_phases_that_are_checked_are_known_by_their_content(folder: Path) -> None:
    assert lightloom(*MAP, "--out", "phases.json", folder=folder).code == 0
    assert lightloom(*MAP, "--set", "form=svd", "--out", "svd.json", folder=folder).code == 0
    check = ["onn", "map", "net.npz", "--phases"]
    assert stamp([*check, "phases.json"], folder) != stamp([*check, "svd.json", "--set", "form=svd"], folder)
    (folder / "renamed.json").write_bytes((folder / "phases.json").read_bytes())
    assert stamp([*check, "phases.json"], folder) == stamp([*check, "renamed.json"], folder)


def test_damage_and_reproductions_say_what_was_asked() -> None:
    ring = ["collective", "all-gather", "--fabric", "wdm-ring", "--ranks", "4", "--nbytes", "1MB"]
    ring += ["--without", "wavelength:0", "--without", "node:1"]
    together, late, slow = "--without wavelength:0,node:1", "--straggler late=1us", "--straggler slow=2"
    chosen: list[list[str]] = [[], *(option.split() for option in (together, late, slow))]
    stamps = [stamp([*ring, *options], Path()) for options in chosen]
    assert len(set(stamps)) == len(stamps)
