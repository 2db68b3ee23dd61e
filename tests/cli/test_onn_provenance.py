"""Results that differ in an option that decides them differ in the hash of their configuration."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from lightloom.app.cli.main import COMMANDS, load_command
from lightloom.photonics.averaging.construct import build
from lightloom.photonics.averaging.networks import FunctionArguments, save_network
from tests.cli.commands import lightloom

DISTURB = ["onn", "disturb", "net.npz", "--draws", "1", "--samples", "9"]
CALIBRATE = ["onn", "calibrate", "--modes", "2"]
CHIP = ["onn", "chip", "net.npz"]
RIVALS = ["onn", "compare-reducers", "--servers", "2", "--draws", "20"]
LINK = ["onn", "link", "net.npz", "--draws", "1", "--words", "9", "--rate-only"]
BUILD = ["onn", "build", "--servers", "2", "--bits", "2", "--evaluations", "100"]
VERIFY = ["onn", "verify", "net.npz"]
MAP = ["onn", "map", "net.npz"]
TRAIN = ["onn", "train", "--servers", "2", "--bits", "2", "--layers", "1-4-1", "--form", "free", "--epochs", "1"]
CASCADE = ["onn", "build", "--servers", "2", "--bits", "2", "--cascade", "2", "--tuples", "10"]
OPTIONS: list[tuple[list[str], list[list[str]]]] = [
    (
        DISTURB,
        [
            ["--correct"],
            ["--phase-error", "0.01"],
            ["--coupler-error", "0.01"],
            ["--loss-spread", "0.1"],
            ["--crosstalk", "0.01"],
            ["--heater-spread", "0.01"],
            ["--dac-bits", "8"],
            ["--detector-noise", "0.01"],
            ["--gains", "common"],
            ["--components"],
            ["--units"],
            ["--uncalibrated"],
            ["--form", "svd"],
            ["--mesh", "triangular"],
            ["--seed", "1"],
            ["--draws", "2"],
            ["--samples", "8"],
            ["--loss", "0.1"],
            ["--sweep", "loss=0..1:2"],
        ],
    ),
    (
        LINK,
        [
            ["--full-scale", "2mW"],
            ["--phase-lock", "0.1rad"],
            ["--ideal"],
            ["--calibration", "rows"],
            ["--form", "economy"],
            ["--gains", "common"],
            ["--whole"],
            ["--words", "8"],
            ["--draws", "2"],
            ["--mesh", "triangular"],
            ["--seed", "1"],
            ["--sweep", "skew=0..0.1:2"],
        ],
    ),
    (
        CALIBRATE,
        [
            ["--modes", "3"],
            ["--chips", "2"],
            ["--mesh", "triangular"],
            ["--phase-error", "0.2"],
            ["--coupler-error", "0.01"],
            ["--power-noise", "1e-4"],
            ["--drift", "1e-4"],
            ["--settings", "9"],
        ],
    ),
    (CHIP, [["--form", "svd"], ["--mesh", "triangular"], ["--gains", "common"], ["--components"], ["--pitch", "200"]]),
    (RIVALS, [["--word-errors", "1e-4"]]),
    (BUILD, [["--nonlinearity", "clipped"], ["--rounding", "half-up"], ["--noise", "1e-9"], ["--evaluations", "101"]]),
    (VERIFY, [["--noise", "0.1"], ["--samples", "9"]]),
    (MAP, [["--form", "svd"], ["--mesh", "triangular"], ["--units"]]),
    (TRAIN, [["--noise", "1e-3"], ["--batch", "8"]]),
    (CASCADE, [["--tuples", "11"], ["--nonlinearity", "clipped"]]),
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


@pytest.mark.parametrize(("command", "options"), OPTIONS, ids=[" ".join(command[:2]) for command, _ in OPTIONS])
def test_every_option_that_decides_a_result_changes_its_hash(
    command: list[str], options: list[list[str]], folder: Path
) -> None:
    if "train" in command:
        pytest.importorskip("torch", reason="needs lightloom[torch]")
    stamps = [stamp([*command, *chosen], folder) for chosen in ([], *options)]
    assert len(set(stamps)) == len(stamps), dict(zip(["none", *map(" ".join, options)], stamps, strict=True))
    assert stamp(command, folder) == stamps[0]


def test_disturbing_has_no_option_that_its_hash_does_not_know(folder: Path) -> None:
    """A new option fails here until the cases above have it; the hash alone differs, the seed included."""
    known = {word for options in dict(map(_named, OPTIONS))["disturb"] for word in options if word.startswith("--")}
    options = load_command("disturb", COMMANDS["onn"].commands["disturb"]).params
    parameters = {f"--{option.name.replace('_', '-')}" for option in options}
    assert parameters - known == {"--network", "--figure", "--train", "--data", "--iterations", "--folder", "--as-json"}
    chosen = [[], *dict(map(_named, OPTIONS))["disturb"]]
    hashes = [stamp([*DISTURB, *given], folder)[0] for given in chosen]
    assert len(set(hashes)) == len(hashes)


def _named(case: tuple[list[str], list[list[str]]]) -> tuple[str, list[list[str]]]:
    return case[0][1], case[1]


@pytest.mark.parametrize("command", [DISTURB, VERIFY], ids=["disturb", "verify"])
def test_a_network_is_known_by_all_that_it_holds(command: list[str], folder: Path) -> None:
    names = ["net.npz", "bias.npz", "units.npz", "scale.npz", "rounding.npz"]
    stamps = [stamp([name if word == "net.npz" else word for word in command], folder) for name in names]
    assert len(set(stamps)) == len(stamps), dict(zip(names, stamps, strict=True))


def test_phases_that_are_checked_are_known_by_their_content(folder: Path) -> None:
    assert lightloom(*MAP, "--out", "phases.json", folder=folder).code == 0
    assert lightloom(*MAP, "--form", "svd", "--out", "svd.json", folder=folder).code == 0
    check = ["onn", "map", "--like", "net.npz", "--phases"]
    assert stamp([*check, "phases.json"], folder) != stamp([*check, "svd.json", "--form", "svd"], folder)
    (folder / "renamed.json").write_bytes((folder / "phases.json").read_bytes())
    assert stamp([*check, "phases.json"], folder) == stamp([*check, "renamed.json"], folder)


def test_damage_and_reproductions_say_what_was_asked() -> None:
    ring = ["damage", "all-gather", "--ranks", "4", "--nbytes", "1MB", "--kill", "wavelength:0", "--kill", "node:1"]
    chosen: list[list[str]] = [[], ["--together"], ["--late", "1us"], ["--slow", "2"]]
    stamps = [stamp([*ring, *options], Path()) for options in chosen]
    assert len(set(stamps)) == len(stamps)
