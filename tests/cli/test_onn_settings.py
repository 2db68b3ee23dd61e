"""Settings of the ``onn`` commands: files and ``--set``, their schemas, former spellings, and answers on one screen."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from pydantic import BaseModel

from lightloom.app.cli.onn import settings
from lightloom.app.cli.onn.settings import LinkSettings, MeshSettings, settings_of
from lightloom.core.errors import ConfigError
from lightloom.photonics.averaging.construct import build
from lightloom.photonics.averaging.networks import FunctionArguments, save_network
from lightloom.photonics.link.settings import OPTIONS
from lightloom.photonics.meshes.mapping import MeshMapping
from tests.cli.commands import assert_refused, lightloom

LINK = "onn link net.npz --draws 2 --set words=50"
FORMER = {
    "onn verify net.npz --samples 9": "onn build net.npz --set samples=9",
    "onn build --servers 2 --bits 2 --carries-decimals --evaluations 100": "onn build --servers 2 --bits 2 "
    "--set carries_decimals=true --set evaluations=100",
    "onn compare-reducers --servers 2 --draws 20 --pair digit-sum-nrz,reducer-asic": "onn build --reducers --servers 2 "
    "--set draws=20 --set pair=digit-sum-nrz,reducer-asic",
    "onn map net.npz --form svd --components --layer 1": "onn map net.npz --set form=svd --set components=true "
    "--set layer=1",
    "onn map --phases phases.json --like net.npz --whole": "onn map net.npz --phases phases.json "
    "--set components=false",
    "onn disturb net.npz --phase-error 0.1 --correct --draws 2 --samples 9": "onn map net.npz --study disturb "
    "--draws 2 --set phase_error=0.1 --set correct=true --set samples=9",
    "onn chip net.npz --pitch 30 --mesh triangular": "onn map net.npz --study chip --set pitch=30 "
    "--set mesh=triangular",
    "onn calibrate --modes 2 --settings 9 --unknown-offsets": "onn map --study calibrate --set modes=2 "
    "--set measured_settings=9 --set unknown_offsets=true",
    "onn link net.npz --ideal --phase-lock 0.1rad --words 50 --draws 2 --rate-only": f"{LINK} --set ideal=true "
    "--set phase_lock=0.1rad --set parts=false",
}
"""Commands as they were spelt in version 0.2, and as they are now."""
SCREENS = [
    "onn build --servers 2 --bits 4",
    "onn build net.npz",
    "onn build --servers 2 --bits 2 --cascade 2 --set tuples=100",
    "onn build --reducers --servers 2 --set draws=20",
    "onn map net.npz --units",
    "onn map net.npz --study chip",
    "onn map net.npz --study disturb --draws 2 --set phase_error=0.01",
    "onn map net.npz --study disturb --draws 1 --set samples=9 --sweep phase-error=1e-3..1e-2 --sweep loss=0..1",
    "onn map --study calibrate --set modes=3 --set chips=10 --set drift=0.1",
    LINK,
    f"{LINK} --sweep phase-lock=0.05..0.3 --set parts=false",
]
SCHEMAS = [kind for name, kind in vars(settings).items() if name.endswith("Settings")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network, the phases of its meshes, and settings of a link."""
    place = tmp_path_factory.mktemp("settings")
    save_network(place / "net.npz", build(2, 4).network, FunctionArguments(servers=2, bits=4))
    assert lightloom("onn", "map", "net.npz", "--out", "phases.json", folder=place).code == 0
    (place / "link.yaml").write_text("phase_lock: 0.1rad\nwords: 50\nparts: false\nrin: none\n")
    return place


@pytest.mark.parametrize("former", FORMER)
def test_former_spellings_give_the_same_with_a_warning(former: str, folder: Path) -> None:
    before, now = (lightloom(*shlex.split(line), "--json", folder=folder) for line in (former, FORMER[former]))
    assert (before.code, now.code, now.err) == (0, 0, "")
    lines = before.err.splitlines()
    assert lines and all(line.startswith("warning: ") and "the former spelling works" in line for line in lines)
    assert json.loads(before.out) == json.loads(now.out)


@pytest.mark.long
@pytest.mark.parametrize("line", SCREENS)
def test_an_answer_fits_one_screen(line: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lightloom.reports.console._PIPE_WIDTH", 80)
    monkeypatch.setenv("COLUMNS", "80")
    done = lightloom(*shlex.split(line), folder=folder)
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert len(lines) <= 25 and max(map(len, lines)) <= 80, done.out
    assert [text for text in lines if text.startswith("BEST ")] and [text for text in lines if text.startswith("More ")]


def test_a_file_states_settings_and_set_goes_before_it(folder: Path) -> None:
    line = "onn link net.npz --draws 2 --settings link.yaml --set phase-lock=0.2rad --json"
    found = json.loads(lightloom(*line.split(), folder=folder).out)
    assert (found["link"]["phase_lock"], found["link"]["rin_db"], found["words"]) == (0.2, None, 100)
    assert found["contributions"] is None


def test_an_unknown_setting_is_answered_by_near_ones(folder: Path) -> None:
    done = lightloom(*f"{LINK} --set phase_eror=1".split(), folder=folder)
    assert_refused(done, "'phase_eror': did you mean 'phase_error'")
    assert "lightloom catalog --schema onn-link" in done.err


def test_every_setting_is_documented() -> None:
    assert len(SCHEMAS) == 10
    for kind in SCHEMAS:
        assert issubclass(kind, BaseModel)
        fields = kind.model_json_schema()["properties"].values()
        assert all(field.get("description", "").rstrip().endswith(".") for field in fields), kind
    assert {name.replace("-", "_") for name in OPTIONS} <= {*LinkSettings.model_fields}


def test_a_stored_mapping_that_approximates_is_refused_where_it_must_be_exact(tmp_path: Path) -> None:
    """A form that is stated goes before that of the file."""
    made, arguments = build(2, 2).network, FunctionArguments(servers=2, bits=2)
    network = save_network(tmp_path / "near.npz", made, arguments, MeshMapping(form="sigma-u"))
    with pytest.raises(ConfigError, match=r"near\.npz': form 'sigma-u' approximates: expected economy, compact or svd"):
        MeshSettings().mapping(network, MeshMapping())
    assert MeshSettings().mapping(network, MeshMapping(), exact=False).form == "sigma-u"
    assert MeshSettings(form="svd").mapping(network, MeshMapping()).form == "svd"


def test_settings_of_nothing_are_the_defaults() -> None:
    assert settings_of(LinkSettings, None, None) == LinkSettings()


@pytest.mark.long
@pytest.mark.parametrize(
    ("line", "change", "what_if"),
    [
        ("onn build --servers 2 --bits 4", "--set nonlinearity=clipped", "clipped units: {mzi_count} interferometers"),
        ("onn build --servers 2 --bits 4", "--bits 8", "8 bits: {mzi_count} interferometers"),
        (
            "onn map net.npz --study disturb --draws 3 --set phase_error=0.04",
            "--set phase_error=0.02",
            "0.5 of the errors: {accuracy[mean]:.2%}",
        ),
        ("onn map net.npz --study chip", "--set pitch=50", "pitch 50 µm: {area_mm2:.1f} mm²"),
        ("onn map net.npz", "--set form=svd", "form svd: {mzi_count} interferometers"),
    ],
)
def test_a_what_if_is_the_answer_to_the_changed_question(line: str, change: str, what_if: str, folder: Path) -> None:
    screen = lightloom(*line.split(), folder=folder).out.replace(" %", "%")
    changed = json.loads(lightloom(*line.split(), *change.split(), "--json", folder=folder).out)
    assert what_if.format(**changed).replace("100.00%", "100%") in screen
