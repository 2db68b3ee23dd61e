"""``lightloom onn``: from two numbers to weights, phases and accuracy, and back."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightloom.machines.reducers import rivals
from lightloom.photonics import tolerance as search
from lightloom.photonics.averaging.networks import load_network
from lightloom.photonics.meshes.files import load_phases, mesh_of
from lightloom.photonics.tolerance import assumptions, candidates
from tests.cli.test_onn_bad_input import run
from tests.photonics.test_reducers import DESIGN

SMALL = ["--servers", "2", "--bits", "4"]
TINY = ["--servers", "2", "--bits", "2"]
QUICK = ["--set", "evaluations=5000"]


class Command:
    """Runs commands in one folder of their own and reads their JSON."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
        self.folder, self._monkeypatch, self._capfd = folder, monkeypatch, capfd

    def text(self, *arguments: str) -> str:
        assert run(["onn", *arguments], self._monkeypatch, self.folder) == 0, self._capfd.readouterr().err
        found = self._capfd.readouterr()
        assert found.err == ""
        return found.out

    def json(self, *arguments: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.text(*arguments, "--json"))
        assert found["schema"].startswith("lightloom.onn-") and set(found["provenance"]) == {
            "lightloom",
            "configuration",
            "seed",
        }
        return found


@pytest.fixture
def onn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    return Command(tmp_path, monkeypatch, capfd)


@pytest.mark.long
@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--set", "rounding=half-up"],
        ["--set", "carries_decimals=true"],
        ["--set", "inputs=1"],
        ["--layers", "2-30-20-20-24-2"],
    ],
    ids=["plain", "half-up", "decimals", "one input", "layers"],
)
def test_what_is_built_is_verified_and_recognised(onn: Command, options: list[str]) -> None:
    built = onn.json("build", *SMALL, *QUICK, *options, "--set", "nonlinearity=clipped", "--out", "net.npz")
    assert built["wrong_outputs"] == 0 and built["exhaustive"] and built["proof"]
    assert {"mzi_count", "layers", "largest_gain_db", "noise_limit", "checked_inputs"} <= set(built)
    assert 0 < built["noise_limit"] < built["noise_bound_of_any_network"]
    verified = onn.json("build", "net.npz", "--noise", "0")
    for key in ("layers", "checked_inputs", "wrong_outputs", "construction", "proof", "largest_gain_db"):
        assert verified[key] == built[key]
    assert verified["accuracy_at_noise"] == 1


@pytest.mark.long
def test_the_papers_first_scenario_as_text_and_picture(onn: Command) -> None:
    text = onn.text("build", "--servers", "4", "--bits", "8", *QUICK, "--figure", "noise.svg", "--explain")
    assert "0 of 28,561 inputs wrong" in text and "digits: 4 outputs" in text
    picture = (onn.folder / "noise.svg").read_text()
    assert "no network passes" in picture and "limit" in picture


@pytest.mark.long
def test_errors_are_counted_by_their_size(onn: Command) -> None:
    onn.json("build", *SMALL, *QUICK, "--out", "net.npz")
    with np.load(onn.folder / "net.npz") as archive:
        content = {name: archive[name] for name in archive.files}
    last = max(name for name in content if name.startswith("biases_"))
    np.savez(onn.folder / "off.npz", **(content | {last: content[last] + np.array([0.0, 1.0])}))
    found = onn.json("build", "off.npz")
    assert found["construction"] is None and found["proof"] == []
    assert found["wrong_outputs"] > 0
    assert [each["error"] for each in found["errors"]] == [1]
    assert sum(each["count"] for each in found["errors"]) == found["wrong_outputs"]
    assert "+1" in onn.text("build", "off.npz")


def test_a_cascade_is_exact_with_decimals_alone(onn: Command) -> None:
    found = onn.json("build", *SMALL, "--cascade", "3", "--set", "tuples=20000")
    assert [each["wrong_outputs"] for each in found["levels"]] == [0, 0]
    ends = found["end_to_end"]
    assert ends["wrong_with_decimals"] == 0 and ends["share_wrong_without_decimals"] > 0.1
    assert "0 of 20,000 tuples of codes end wrong" in onn.text(
        "build", *SMALL, "--cascade", "3", "--set", "tuples=20000"
    )


def test_a_cascade_is_saved_verified_mapped_and_disturbed(onn: Command) -> None:
    built = onn.json("build", *TINY, "--cascade", "2", "--set", "tuples=2000", "--out", "cascade.npz")
    verified = onn.json("build", "cascade.npz", "--set", "samples=2000")
    assert verified["levels"] == built["levels"] and verified["end_to_end"] == built["end_to_end"]
    mapped = onn.json("map", "cascade.npz", "--units", "--out", "phases.json")
    counts = [row["mzi_count"] * row["copies"] for row in mapped["parts"]]
    assert mapped["mzi_count"] == sum(counts) and mapped["parts"][0]["copies"] == 2
    assert mapped["largest_error"] < 1e-12
    back = onn.json("map", "cascade.npz", "--phases", "phases.json", "--units")
    assert back["largest_difference"] == 0
    disturbed = onn.json("map", "--study", "disturb", "cascade.npz", "--draws", "1", "--set", "samples=500")
    assert (disturbed["servers"], disturbed["accuracy"]["mean"]) == (4, 1.0)
    assert "near-equal" in onn.text("map", "--study", "disturb", "cascade.npz", "--draws", "1", "--set", "samples=500")


@pytest.mark.parametrize(("form", "ending"), [("economy", "json"), ("svd", "npz"), ("sigma-u", "npz")])
def test_phases_there_and_back(onn: Command, form: str, ending: str) -> None:
    onn.json("build", *SMALL, *QUICK, "--out", "net.npz")
    options = ["--units", "--set", f"form={form}", "--set", "mesh=triangular"]
    found = onn.json("map", "net.npz", *options, "--out", f"phases.{ending}", "--netlist", "sax.json")
    network, _ = load_network(onn.folder / "net.npz")
    names = ["P", *(f"layer {i}" for i in range(1, len(network.weights) + 1)), "T"]
    assert [each["name"] for each in found["parts"]] == names
    assert (found["largest_error"] < 1e-12) == (form != "sigma-u")
    if form != "sigma-u":
        assert found["mzi_count"] == found["mzi_count_economy" if form == "economy" else "mzi_count_paper"]
    parts = load_phases(onn.folder / f"phases.{ending}")
    assert sum(part.mzis for part in parts.values()) == found["mzi_count"]
    back = onn.json("map", "net.npz", "--phases", f"phases.{ending}", *options)
    assert back["largest_difference"] == 0
    nets = json.loads((onn.folder / "sax.json").read_text())["netlists"]
    placed = [name for net in nets.values() for name in net["instances"] if name.startswith("mzi")]
    attenuators = sum(min(each["outputs"], each["inputs"]) for each in found["parts"])
    if form == "economy":
        assert len(placed) == found["mzi_count"] - attenuators


def test_a_unitary_is_a_single_mesh(onn: Command) -> None:
    unitary = np.linalg.qr(np.random.default_rng(0).normal(size=(5, 5)))[0]
    np.save(onn.folder / "u.npy", unitary)
    found = onn.json("map", "u.npy", "--set", "form=unitary", "--out", "u.json", "--figure", "u.svg")
    assert (found["mzi_count"], found["columns"], found["largest_gain_db"]) == (10, 5, 0)
    [part] = json.loads((onn.folder / "u.json").read_text())["parts"]
    assert mesh_of(part["blocks"][0]).matrix() == pytest.approx(unitary, abs=1e-13)
    assert "rectangular mesh, 5 modes" in (onn.folder / "u.svg").read_text()


def test_pictures_of_a_layer_and_of_the_chain(onn: Command) -> None:
    onn.json("build", *SMALL, *QUICK, "--out", "net.npz")
    text = onn.text("map", "net.npz", "--units", "--figure", "mesh.svg", "--set", "layer=1", "--chain", "chain.svg")
    found = onn.json("map", "net.npz", "--units")
    assert "network drawn: chain.svg" in text
    assert f"{found['mzi_count']:,} MZIs" in (onn.folder / "chain.svg").read_text()
    assert "layer 1" in (onn.folder / "mesh.svg").read_text()


@pytest.mark.slow
def test_every_error_of_devices_is_swept(onn: Command) -> None:
    onn.json("build", *SMALL, *QUICK, "--set", "nonlinearity=clipped", "--out", "net.npz")
    sweeps = {
        "phase-error": "1e-6..1:3",
        "coupler-error": "1e-6..1:3",
        "loss": "0..10:3",
        "loss-spread": "0..10:3",
        "crosstalk": "0..0.1:3",
        "detector-noise": "1e-6..1:3",
        "dac-bits": "1..16",
    }
    options = [part for name, ends in sweeps.items() for part in ("--sweep", f"{name}={ends}")]
    found = onn.json("map", "--study", "disturb", "net.npz", *options, "--draws", "2", "--figure", "sweeps.svg")
    assert found["accuracy"] == {"mean": 1, "standard_deviation": 0, "least": 1, "largest": 1}
    assert len(found["sweeps"]) == len(sweeps)
    for sweep in found["sweeps"]:
        rates = [row["mean"] for row in sweep["rows"]]
        good, bad = (rates[-1], rates[0]) if sweep["parameter"] == "dac_bits" else (rates[0], rates[-1])
        assert good == 1 and bad < 1, sweep["parameter"]
    assert "bits of the DAC" in (onn.folder / "sweeps.svg").read_text()


@pytest.mark.long
def test_corrected_couplers_are_never_worse(onn: Command) -> None:
    onn.json("build", *SMALL, *QUICK, "--out", "net.npz")
    common = ["map", "--study", "disturb", "net.npz", "--set", "coupler_error=0.1", "--draws", "10"]
    plain, corrected = onn.json(*common), onn.json(*common, "--set", "correct=true")
    assert corrected["accuracy"]["mean"] >= plain["accuracy"]["mean"]
    assert "made up for" in onn.text(*common, "--set", "correct=true")


@pytest.mark.long
def test_training_ends_in_a_network_that_verifies(onn: Command) -> None:
    pytest.importorskip("torch", reason="needs lightloom[torch]")
    common = ["train", *SMALL, "--layers", "2-16-16-2", "--set", "epochs=2"]
    found = onn.json(*common, "--set", "form=free", "--folder", "work", "--out", "net.npz")
    verified = onn.json("build", "net.npz")
    assert verified["wrong_outputs"] == found["wrong_outputs"]
    assert verified["layers"] == found["layers"] == [2, 16, 16, 2]
    approximated = onn.json(*common, "--out", "flat.npz")
    assert approximated["mzi_count"] < found["mzi_count"]
    mapped = onn.json("map", "flat.npz", "--set", "form=sigma-u")
    assert mapped["largest_error"] < 1e-6 and mapped["mzi_count"] == approximated["mzi_count"]


def test_a_search_prints_its_front(onn: Command) -> None:
    pytest.importorskip("torch", reason="needs lightloom[torch]")
    found = onn.json("train", "--search", *SMALL, "--set", "widths=4,8", "--set", "depths=1", "--set", "epochs=4")
    assert found["front"] and len(found["trials"]) == 3
    text = onn.text("train", "--search", *SMALL, "--set", "widths=4,8", "--set", "depths=1", "--set", "epochs=4")
    assert "front" in text


@pytest.mark.long
def test_reducers_are_compared_and_drawn(onn: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rivals, "network_design", lambda servers, bits, ports: DESIGN)
    options = ["build", "--reducers", "--servers", "2", "--set", "draws=20", "--set", "laser=1"]
    found = onn.json(*options, "--set", "pair=digit-sum-nrz,broadcasting-asic", "--figure", "r.png")
    assert (onn.folder / "r.png").stat().st_size > 20_000
    assert found["pair"] == ["digit-sum-nrz", "broadcasting-asic"] and len(found["rivals"]) == 7
    assert found["digit_sum"]["wrong"] == 0
    text = onn.text(*options, "--explain")
    assert "verdict" in text and "what averaging in the light forfeits" in text and "1 constants given" in text
    assert "No network of interferometers wins on energy" in text


@pytest.mark.long
def test_an_averager_that_tolerates_errors(onn: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "FABRICATIONS", 20)
    monkeypatch.setattr(search, "candidates", cache(candidates))
    options = ("--servers", "2", "--bits", "2", "--tolerate", "phase-error=3e-3,power=3mW", "--set", "word_errors=1e-2")
    found = onn.json("build", *options, "--set", "evaluations=1000", "--out", "sturdy.npz")
    tolerance = found["tolerance"]
    assert found["nonlinearity"] == "clipped" and tolerance["interval_95"][1] <= 1e-2
    assert (
        tolerance["mzi_count"]
        == onn.json("map", "sturdy.npz", "--units", "--set", "components=true", "--set", "form=compact")["mzi_count"]
    )
    # The file holds the mapping, which all commands take unless an option says otherwise; the command printed runs.
    again = onn.json(*tolerance["link_command"].replace("NET.npz", "sturdy.npz").split()[2:])
    assert (again["form"], again["components"]) == ("compact", True) and again["mzi_count"] == tolerance["mzi_count"]
    assert again["link"]["calibration"] == "levels" and again["word_error_rate"] <= 1e-2
    for command in (
        ["map", "--units"],
        ["map", "--study", "disturb", "--units", "--draws", "1", "--set", "samples=9"],
        ["map", "--study", "chip"],
    ):
        assert onn.json(*command, "sturdy.npz")["mzi_count"] == tolerance["mzi_count"]
    assert onn.json("map", "sturdy.npz", "--set", "components=false")["components"] is False
    assert "(stored in the file)" in onn.text(
        "map", "--study", "disturb", "sturdy.npz", "--draws", "1", "--set", "samples=9", "--all"
    )
    other = onn.json("build", *options, "--set", "evaluations=1000", "--set", "seed=1")
    assert other["provenance"]["configuration"] == found["provenance"]["configuration"]
    assert any("assumption" in sentence for sentence in tolerance["assumptions"])
    assert any("53 mW" in sentence for sentence in tolerance["assumptions"])


def test_what_tolerance_leaves_out_is_said_without_amplifiers_too() -> None:
    levels, left_out = assumptions(None)
    assert "assumption: lanes, outputs of units" in levels and "onn link" in left_out


def test_the_meshes_are_a_circuit_switch(onn: Command) -> None:
    found = onn.json("map", "--switch", "2,0,3,1", "--out", "switch.json")
    assert found["form"] == "unitary" and found["largest_error"] < 1e-12 and found["largest_gain_db"] == 0
    mesh = load_phases(onn.folder / "switch.json")["matrix"]
    assert np.abs(mesh.matrix()).round().argmax(axis=0).tolist() == [2, 0, 3, 1]


def test_the_second_phase_of_equation_7_is_an_option(onn: Command) -> None:
    small = ["train", "--servers", "2", "--bits", "2", "--layers", "1-4-1", "--set", "form=free", "--set", "epochs=2"]
    plain, second = (
        onn.json(*small),
        onn.json(*small, "--set", "gradient_epochs=1", "--set", "gradient_loss=straight-through"),
    )
    assert plain["provenance"]["configuration"] != second["provenance"]["configuration"]
