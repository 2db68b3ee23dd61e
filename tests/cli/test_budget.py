"""``lightloom budget``: a table, a document, a picture, and one line for whatever is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lightloom.app.cli.budget import _links
from tests.cli.commands import assert_refused, run


def test_the_document_says_what_the_table_says(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    picture = tmp_path / "light.svg"
    wanted = ["budget", "--ranks", "16", "--set", "wavelengths=8", "--set", "node_loss=0.3", "--set", "taps=7"]
    told = run(monkeypatch, capsys, *wanted, "--json", "--figure", str(picture))
    document = json.loads(told.out)
    assert document["schema"] == "lightloom.budget/1"
    assert document["budget"]["wavelengths"] == 8
    assert [row["taps"] for row in document["rows"]] == [1, 2, 3, 4, 5, 6, 7]
    reaches = [row["reach"] for row in document["rows"]]
    assert reaches == sorted(reaches, reverse=True)
    assert document["half_ring_closes"] == (reaches[0] >= 8)
    assert document["half_ring_closes"] == (document["half_ring_laser_dbm"] <= document["laser_dbm"])
    assert document["sources"]["node_loss"] == "given"
    assert document["sources"]["margin"].startswith("assumption")
    assert picture.read_text().startswith("<?xml")
    table = run(monkeypatch, capsys, *wanted)
    assert (table.code, table.err) == (0, "")
    assert len(table.out.splitlines()) <= 25
    former = ["budget", "--ranks", "16", "--wavelengths", "8", "--set", "node_loss=0.3", "--taps", "7"]
    before = run(monkeypatch, capsys, *former, "--json")
    assert json.loads(before.out)["rows"] == document["rows"]
    assert [line.split()[1] for line in before.err.splitlines()] == ["--wavelengths", "--taps"]
    for row in document["rows"]:
        assert f"{row['reach']} links" in table.out
        assert f"{row['adjacent_taps_laser_dbm']:.1f} dBm" in table.out


def test_light_that_reaches_nobody_is_told_and_drawn(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    picture = tmp_path / "dark.png"
    told = run(monkeypatch, capsys, "budget", "--set", "laser_power=1uW", "--figure", str(picture))
    assert told.code == 0
    assert "a link does not close" in told.out
    assert "0 links" in told.out
    assert picture.stat().st_size > 1000


@pytest.mark.parametrize(("reach", "words"), [(None, "no limit"), (0, "0 links"), (1, "1 link"), (12, "12 links")])
def test_reaches_are_told_in_words(reach: int | None, words: str) -> None:
    assert _links(reach) == words


def test_lossless_light_has_no_limit(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    told = run(monkeypatch, capsys, "budget", "--set", "node_loss=0", "--set", "fibre_loss=0", "--set", "tap_loss=0")
    assert "no limit" in told.out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--ranks", "1"], "--ranks 1: expected 2 to 131072"),
        (["--ranks", "many"], "--ranks 'many': expected a whole number"),
        (["--ranks", "8", "--set", "taps=8"], "--set taps=8: expected 1 to 7"),
        (["--set", "taps=0"], "--set taps=0: expected 1 to 63"),
        (["--set", "taps=few"], "--set taps=few: expected 1 to 63"),
        (["--set", "coupler_loss=-1"], "field 'coupler_loss': -1"),
        (["--set", "colour=red"], "unknown setting of budget 'colour'"),
        (["--set", "laser_power=3 apples"], "unknown power unit 'apples'"),
        (["--set", "laser_power=0"], "field 'laser_power'"),
        (["--set", "wavelengths=0"], "field 'wavelengths': 0"),
        (["--set", "error_rate=0.7"], "field 'error_rate': 0.7"),
        (["--figure", "light.txt"], "cannot draw 'light.txt'"),
    ],
)
def test_bad_input_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    told = run(monkeypatch, capsys, "budget", *arguments)
    assert (told.code, told.out) == (2, "")
    assert complaint in told.err
    assert told.err.count("\n") == 1


def test_the_averager_of_a_cluster_takes_instances(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = ["budget", "--cluster", "optinc-4", "--set", "fabric.averaging.reducer=reducer-asic"]
    document = json.loads(run(monkeypatch, capsys, *wanted, "--json").out)
    assert document["schema"] == "lightloom.averager-budget/1"
    assert document["averager"]["instances"] == 16 and document["power_per_rank"] > 10
    text = run(monkeypatch, capsys, *wanted, "--explain").out
    assert "16 instances of 400 Gb/s a rank" in text and "assumption" in text
    refused = run(monkeypatch, capsys, "budget", "--cluster", "dgx-h100-64")
    assert_refused(refused, "expected a cluster around an averager")
    assert "derived for 4 ranks" in run(monkeypatch, capsys, "catalog", "optinc-4").out
