"""Bad input to ``lightloom onn``: one line that says what is wrong, exit 2, nothing on stdout, nothing left behind."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lightloom.app.cli.main import main
from lightloom.photonics.averaging.construct import build
from lightloom.photonics.averaging.networks import FunctionArguments, save_network
from lightloom.photonics.meshes.files import save_phases
from lightloom.photonics.meshes.mapping import map_matrix
from tests.cli.commands import assert_refused, lightloom

Files = Callable[[Path], None]


def run(arguments: list[str], monkeypatch: pytest.MonkeyPatch, folder: Path) -> int:
    """The command in this process: its exit status."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["lightloom", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    code = caught.value.code
    return code if isinstance(code, int) else 0


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A good network beside everything that is not one."""
    folder = tmp_path_factory.mktemp("onn")
    made, arguments = build(2, 4), FunctionArguments(servers=2, bits=4)
    save_network(folder / "net.npz", made.network, arguments)
    save_network(folder / "other.npz", build(3, 8).network, FunctionArguments(servers=3, bits=8))
    with np.load(folder / "net.npz") as archive:
        content = {name: archive[name] for name in archive.files}
    spoilt = content["weights_1"].copy()
    spoilt[0, 0] = np.nan
    np.savez(folder / "nan.npz", **(content | {"weights_1": spoilt}))
    np.savez(folder / "schema.npz", **(content | {"schema": "lightloom.network/9"}))
    np.savez(folder / "servers.npz", **(content | {"servers": 0}))
    np.savez(folder / "shapes.npz", **(content | {"weights_1": content["weights_1"][:, 1:]}))
    (folder / "cut.npz").write_bytes((folder / "net.npz").read_bytes()[:200])
    (folder / "text.npz").write_text("no archive")
    (folder / "text.npy").write_text("no array")
    np.save(folder / "skew.npy", np.array([[1.0, 0.1], [0.0, 1.0]]))
    np.save(folder / "unitary.npy", np.array([[0.6, 0.8], [-0.8, 0.6]]))
    np.save(folder / "nan.npy", np.array([[1.0, np.nan], [0.0, 1.0]]))
    np.save(folder / "row.npy", np.ones(3))
    np.save(folder / "names.npy", np.array(["a", "b"]))
    save_phases({"matrix": map_matrix(np.eye(3))}, folder / "three.json")
    save_phases({"matrix": map_matrix(np.array([[0.0, 1.0], [1.0, 0.0]]))}, folder / "swapped.json")
    save_phases({"matrix": map_matrix(np.array([[0.0, 1.0], [1.0, 0.0]]))}, folder / "swapped.npz")
    document = json.loads((folder / "three.json").read_text())
    document["schema"] = "lightloom.phases/7"
    (folder / "schema.json").write_text(json.dumps(document))
    document = json.loads((folder / "three.json").read_text())
    document["parts"][0]["blocks"][0]["input_mesh"]["theta"].pop()
    (folder / "short.json").write_text(json.dumps(document))
    (folder / "torn.json").write_text('{"schema": ')
    return folder


BUILD = ["onn", "build", "--servers", "2", "--bits", "4"]
CASES: list[tuple[list[str], str]] = [
    (["onn", "build"], "give --servers N and --bits B"),
    (["onn", "build", "--servers", "0", "--bits", "8"], "servers = 0: expected a whole number from 1"),
    (["onn", "build", "--servers", "-4", "--bits", "8"], "servers = -4"),
    (["onn", "build", "--servers", "four", "--bits", "8"], "--servers 'four': expected a whole number"),
    (["onn", "build", "--servers", "4", "--bits", "33"], "bits = 33: expected a whole number from 1 to 32"),
    (["onn", "build", "--servers", "4", "--bits", "0"], "bits = 0"),
    ([*BUILD, "--set", "inputs=0"], "inputs = 0"),
    ([*BUILD, "--noise", "nan"], "noise = nan"),
    ([*BUILD, "--noise", "0.4"], "noise on the inputs"),
    ([*BUILD, "--set", "nonlinearity=tanh"], "nonlinearity = 'tanh': expected relu or clipped"),
    ([*BUILD, "--set", "rounding=ceil"], "rounding = 'ceil': expected floor or half-up"),
    (
        [*BUILD, "--set", "rounding=half-up", "--set", "carries_decimals=true"],
        "decimals are carried with rounding floor only",
    ),
    ([*BUILD, "--out", "net.json"], "'net.json': expected a name that ends in .npz"),
    ([*BUILD, "--out", "/proc/net.npz"], "cannot write '/proc/net.npz'"),
    ([*BUILD, "--figure", "noise.bmp"], "'noise.bmp'"),
    ([*BUILD, "--cascade", "0"], "groups = 0"),
    ([*BUILD, "--cascade", "2", "--set", "tuples=0"], "field 'tuples': 0"),
    ([*BUILD, "--cascade", "2", "--noise", "1e-3"], "not with"),
    (["onn", "build", "none.npz"], "'none.npz': No such file"),
    (["onn", "build", "nan.npz"], "'nan.npz': layer 1: a weight or bias is NaN or infinite"),
    (["onn", "build", "schema.npz"], "schema 'lightloom.network/9', expected 'lightloom.network/1'"),
    (["onn", "build", "servers.npz"], "'servers.npz': servers = 0"),
    (["onn", "build", "shapes.npz"], "'shapes.npz': "),
    (["onn", "build", "cut.npz"], "'cut.npz': not an .npz file"),
    (["onn", "build", "text.npz"], "'text.npz': not an .npz file"),
    (["onn", "build", "net.npz", "--set", "samples=0"], "field 'samples': 0"),
    (["onn", "build", "net.npz", "--noise", "-1"], "--noise -1"),
    (["onn", "map"], "give NET.npz or MATRIX.npy"),
    (["onn", "map", "none.npy"], "'none.npy': No such file"),
    (["onn", "map", "text.npy"], "'text.npy': not a .npy file of numbers"),
    (["onn", "map", "names.npy"], "of shape (2,): not a .npy file of numbers"),
    (["onn", "map", "row.npy"], "(3,)"),
    (["onn", "map", "nan.npy"], "nan"),
    (["onn", "map", "skew.npy", "--set", "form=unitary"], "not unitary"),
    (["onn", "map", "--switch", "1,1"], "--switch '1,1': expected each of 0 to 1 once"),
    (["onn", "map", "--switch", "one"], "--switch 'one': expected whole numbers"),
    (["onn", "map", "net.npz", "--switch", "1,0"], "--switch takes no file"),
    (["onn", "train", "--set", "epochs=3", "--set", "gradient_epochs=4"], "gradient_epochs = 4: expected 0 to 3"),
    (["onn", "train", "--set", "gradient_loss=round"], "gradient_loss = 'round': expected one of"),
    (["onn", "build", "--reducers", "--servers", "1"], "servers = 1: expected a whole number from 2 to 32"),
    (["onn", "build", "--reducers", "--servers", "4", "--set", "pair=digit-sum"], "expected two rivals"),
    (["onn", "build", "--reducers", "--servers", "4", "--set", "laser=-2"], "laser = -2: expected more than 0"),
    (["onn", "build", "--reducers", "--servers", "4", "--set", "laser=a"], "laser = 'a': expected a number"),
    (["onn", "build", "--reducers", "--servers", "4", "--set", "draws=3"], "field 'draws': 3"),
    (["onn", "build", "--reducers", "--servers", "4", "--set", "word_errors=2"], "word_errors = 2"),
    (["onn", "build", "--reducers", "--servers", "4", "--figure", "r.gif"], "expected a name that ends in"),
    (["onn", "map", "net.npz", "--set", "form=qr"], "unknown form 'qr'"),
    (["onn", "map", "net.npz", "--set", "mesh=hexagonal"], "unknown mesh 'hexagonal'"),
    (["onn", "map", "unitary.npy", "--units"], "has no P and T"),
    (["onn", "map", "net.npz", "--out", "phases.csv"], "'phases.csv': expected a name that ends in .json or .npz"),
    (["onn", "map", "net.npz", "--netlist", "sax.yaml"], "'sax.yaml': expected a name that ends in .json"),
    ([*BUILD, "--tolerate", "loss"], "--tolerate 'loss': expected NAME=VALUE"),
    ([*BUILD, "--tolerate", "heat=1"], "unknown error to tolerate 'heat'"),
    ([*BUILD, "--tolerate", "loss=-1"], "loss_db=-1"),
    ([*BUILD, "--tolerate", "power=3mV"], "unknown power unit 'mV'"),
    ([*BUILD, "--tolerate", "loss=0.1,loss=0.1"], "loss is given twice"),
    ([*BUILD, "--tolerate", "loss=1", "--set", "word_errors=0"], "word errors = 0.0"),
    ([*BUILD, "--set", "word_errors=1e-3"], "give the errors too"),
    ([*BUILD, "--tolerate", "loss=0.1", "--noise", "1e-3"], "--noise: not with --tolerate"),
    ([*BUILD, "--tolerate", "loss=1", "--set", "nonlinearity=tanh"], "nonlinearity = 'tanh'"),
    (["onn", "map", "net.npz", "--set", "layer=7"], "layer = '7': expected one of 1, 2, 3, or P or T with --units"),
    (["onn", "map", "net.npz", "--units", "--set", "layer=Q"], "layer = 'Q': expected one of P, 1, 2, 3, T"),
    (["onn", "map", "net.npz", "--set", "gains=loud"], "unknown gains 'loud'"),
    (
        ["onn", "map", "net.npz", "--set", "form=sigma-u", "--set", "components=true"],
        "components need svd, economy or compact",
    ),
    (
        ["onn", "map", "unitary.npy", "--set", "form=unitary", "--set", "components=true"],
        "components = True: a unitary matrix",
    ),
    (["onn", "map", "--study", "disturb", "net.npz", "--set", "gains=loud"], "unknown gains 'loud'"),
    (
        ["onn", "map", "--study", "disturb", "net.npz", "--set", "form=sigma-u", "--set", "components=true"],
        "components need svd, economy or compact",
    ),
    (["onn", "map", "net.npz", "--out", "/proc/p.json"], "cannot write '/proc/p.json'"),
    (["onn", "map", "--phases", "three.json"], "give NET.npz or MATRIX.npy"),
    (["onn", "map", "unitary.npy", "--phases", "none.json"], "'none.json': No such file"),
    (["onn", "map", "unitary.npy", "--phases", "torn.json"], "torn.json, line 1, column 12: not JSON"),
    (["onn", "map", "unitary.npy", "--phases", "schema.json"], "schema 'lightloom.phases/7', expected"),
    (
        ["onn", "map", "unitary.npy", "--phases", "short.json"],
        "theta of shape (2,): a rectangular mesh from 3 to 3 modes has 3",
    ),
    (["onn", "map", "unitary.npy", "--phases", "net.npz"], "'net.npz': not a .npz file of phases"),
    (
        ["onn", "map", "unitary.npy", "--phases", "three.json"],
        "the phases of a rectangular mesh from 3 to 3 modes",
    ),
    (
        ["onn", "map", "unitary.npy", "--phases", "swapped.json"],
        "phases of other matrices than 'unitary.npy'",
    ),
    (["onn", "map", "unitary.npy", "--phases", "swapped.npz"], "phases of other matrices than 'unitary.npy'"),
    (["onn", "map", "net.npz", "--phases", "three.json"], "phases of matrix, expected layer 1"),
    (["onn", "map", "--study", "disturb", "none.npz"], "'none.npz': No such file"),
    (["onn", "map", "--study", "disturb", "nan.npz"], "NaN"),
    (["onn", "map", "--study", "disturb", "net.npz", "--set", "phase_error=-1"], "phase_error=-1.0"),
    (["onn", "map", "--study", "disturb", "net.npz", "--set", "loss=nan"], "field 'loss': 'nan'"),
    (["onn", "map", "--study", "disturb", "net.npz", "--set", "dac_bits=99"], "dac_bits=99"),
    (["onn", "map", "--study", "disturb", "net.npz", "--set", "crosstalk=0.9"], "thermal_crosstalk=0.9"),
    (["onn", "map", "--study", "disturb", "net.npz", "--sweep", "colour=0..1"], "unknown sweep 'colour'"),
    (["onn", "map", "--study", "disturb", "net.npz", "--sweep", "phase-error"], "expected NAME=LOW..HIGH[:POINTS]"),
    (["onn", "map", "--study", "disturb", "net.npz", "--sweep", "phase-error=1..0"], "expected 0 <= LOW < HIGH"),
    (["onn", "map", "--study", "disturb", "net.npz", "--sweep", "phase-error=a..b"], "expected numbers"),
    (["onn", "map", "--study", "disturb", "net.npz", "--draws", "0"], "--draws 0"),
    (["onn", "map", "--study", "disturb", "net.npz", "--set", "form=qr"], "unknown form 'qr'"),
    (["onn", "map", "--study", "disturb", "net.npz", "--figure", "s.png"], "give --sweep"),
    (["onn", "link", "none.npz"], "'none.npz': No such file"),
    (["onn", "link", "nan.npz"], "NaN"),
    (["onn", "link", "net.npz", "--set", "full_scale=3 volts"], "full-scale '3 volts': expected a number, e.g. 3 mW"),
    (
        ["onn", "link", "net.npz", "--set", "full_scale=0mW"],
        "full_scale = 0.0: expected a finite number of more than 0",
    ),
    (["onn", "link", "net.npz", "--set", "full_scale=-1mW"], "full-scale '-1mW'"),
    (["onn", "link", "net.npz", "--set", "phase_lock=3deg"], "phase-lock '3deg': expected a number, e.g. 0.05 rad"),
    (["onn", "link", "net.npz", "--set", "skew=nan"], "skew 'nan'"),
    (["onn", "link", "net.npz", "--set", "rin=-10"], "rin_db = -10.0: expected -250 to -80"),
    (
        ["onn", "link", "net.npz", "--set", "gain=optical", "--set", "noise_figure=5000"],
        "noise_figure_db = 5000: expected 0 to 100 dB",
    ),
    (["onn", "link", "net.npz", "--set", "gain=magic"], "unknown gain 'magic'"),
    (["onn", "link", "net.npz", "--set", "unit=relu"], "unknown unit 'relu'"),
    (["onn", "link", "net.npz", "--set", "modulation=phase"], "unknown modulation 'phase'"),
    (["onn", "link", "net.npz", "--set", "swing=2"], "swing = 2.0: expected more than 0 and at most 1.5"),
    (["onn", "link", "net.npz", "--set", "words=0"], "field 'words': 0"),
    (["onn", "link", "net.npz", "--draws", "x"], "--draws 'x'"),
    (["onn", "link", "net.npz", "--set", "form=sigma-u"], "components need svd, economy or compact"),
    (
        ["onn", "link", "net.npz", "--set", "form=sigma-u", "--set", "components=false"],
        "expected economy, compact or svd",
    ),
    (["onn", "link", "net.npz", "--set", "form=qr"], "unknown form 'qr'"),
    (["onn", "link", "net.npz", "--set", "mesh=round"], "unknown mesh 'round'"),
    (["onn", "link", "net.npz", "--sweep", "unit=1..2"], "unit is no number"),
    (["onn", "link", "net.npz", "--sweep", "colour=1..2"], "unknown option of a link 'colour'"),
    (["onn", "link", "net.npz", "--sweep", "skew=0.1..0.05"], "expected LOW < HIGH"),
    (["onn", "link", "net.npz", "--sweep", "skew=0..1:many"], "expected a number of points"),
    (["onn", "link", "net.npz", "--figure", "f.gif"], "cannot draw 'f.gif'"),
    (["onn", "map", "--study", "train", "net.npz", "--sweep", "loss=0..1"], "--sweep: not with --study train"),
    (["onn", "map", "--study", "train", "net.npz", "--set", "iterations=0"], "field 'iterations': 0"),
    (["onn", "map", "--study", "train", "net.npz", "--set", "data=nowhere"], "no data folder 'nowhere'"),
    (["onn", "build", "--servers", "4", "--bits", "8", "--layers", "4-9-9-4"], "fits into 4-9-9-4"),
    (["onn", "build", "--servers", "5", "--bits", "8", "--layers", "printed"], "expected a network of the paper"),
    (["onn", "build", "--servers", "4", "--bits", "8", "--layers", "4-0-4"], "--layers 0: expected at least 1"),
    (["onn", "build", "--servers", "4", "--bits", "8", "--layers", "4-9-4", "--cascade", "4"], "--layers: not with"),
    (["onn", "train", "--scenario", "5"], "scenario 5: expected 1 to 4"),
    (["onn", "train", "--servers", "4"], "give --servers, --bits and --layers together"),
    (
        ["onn", "train", "--servers", "4", "--bits", "8", "--layers", "4-8-4", "--scenario", "1"],
        "give either --scenario",
    ),
    (["onn", "train", "--servers", "4", "--bits", "8", "--layers", "5-8-4"], "layers = [5, 8, 4]: expected 4"),
    (["onn", "train", "--servers", "4", "--bits", "8", "--layers", "4-x-4"], "--layers 'x'"),
    (["onn", "train", "--set", "form=diagonal"], "form = 'diagonal'"),
    (["onn", "train", "--set", "noise=nan"], "field 'noise': 'nan'"),
    (["onn", "train", "--set", "epochs=0"], "epochs = 0"),
    (["onn", "train", "--set", "device=abacus"], "device = 'abacus'"),
    (["onn", "train", "--out", "/proc/net.npz"], "cannot write '/proc/net.npz'"),
    (["onn", "train", "--search", "--set", "widths=a"], "field 'widths.0': 'a'"),
    (["onn", "train", "--search", "--set", "depths=0"], "depths = [0]"),
    (["onn", "weave"], "No such command 'weave'"),
]


@pytest.mark.parametrize(("arguments", "complaint"), CASES, ids=[" ".join(a[1:])[:60] for a, _ in CASES])
def test_bad_input_is_one_line(
    arguments: list[str],
    complaint: str,
    files: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    if "train" in " ".join(arguments):
        pytest.importorskip("torch", reason="needs lightloom[torch]")
    folder = tmp_path / "work"
    shutil.copytree(files, folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert run(arguments, monkeypatch, folder) == 2
    found = capfd.readouterr()
    assert found.out == ""
    [line] = found.err.strip().splitlines()
    assert line.startswith("error: ")
    assert complaint.lower() in line.lower(), line
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_the_same_from_a_shell(files: Path) -> None:
    assert_refused(lightloom("onn", "build", "--servers", "0", "--bits", "8"), "servers = 0")
    assert_refused(lightloom("onn", "build", "nan.npz", folder=files), "NaN")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_to_is_refused_before_the_work(files: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert_refused(lightloom(*BUILD, "--out", str(tmp_path / "net.npz")), "cannot write")
