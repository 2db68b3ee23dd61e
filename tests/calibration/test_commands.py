"""``lightloom accuracy`` and ``lightloom calibrate``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.calibration.samples import write_rows
from tests.cli.commands import run


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows = [{"row": f"row-{size}", "global_batch": str(64 * size), "step_s": str(2.7 * size)} for size in range(1, 7)]
    return write_rows(tmp_path / "steps.csv", *rows)


def test_accuracy_lists_every_row(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], table: Path, tmp_path: Path
) -> None:
    picture = tmp_path / "accuracy.svg"
    told = run(monkeypatch, capsys, "accuracy", str(table), "--json", "--figure", str(picture))
    document = json.loads(told.out)
    assert document["schema"] == "lightloom.accuracy/1"
    assert len(document["rows"]) == 6
    for row in document["rows"]:
        assert row["low_s"] < row["predicted_s"] < row["high_s"]
        assert row["error"] == pytest.approx(row["predicted_s"] / row["measured_s"] - 1)
    assert document["tables"][0]["scores"]["rank_agreement"] is not None
    assert picture.read_text().startswith("<?xml")
    text = run(monkeypatch, capsys, "accuracy", str(table))
    assert (text.code, text.err) == (0, "")
    assert all(f"row-{size}" in text.out for size in range(1, 7))
    assert "furthest off" in text.out


def test_calibrate_writes_what_accuracy_reads(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], table: Path, tmp_path: Path
) -> None:
    out = tmp_path / "a100.yaml"
    told = run(monkeypatch, capsys, "calibrate", str(table), "--accelerator", "a100", "-o", str(out))
    assert (told.code, told.err) == (0, "")
    assert "near their priors" in told.out
    judged = run(monkeypatch, capsys, "accuracy", str(table), "--calibration", str(out))
    assert "calibrated on steps" in judged.out
    held = run(monkeypatch, capsys, "accuracy", str(table), "--cross-validate", "rows")
    assert "nine tenths" in held.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["accuracy", "absent.csv"], "absent.csv: no such file"),
        (["accuracy", "TABLE", "--cross-validate", "days"], "expected rows or models"),
        (["accuracy", "TABLE", "--cross-validate", "rows", "--calibration", "x.yaml"], "exclude one another"),
        (["calibrate", "TABLE", "--accelerator", "h100"], "column 'accelerator': 'a100'"),
        (["accuracy", "TABLE", "--figure", "picture.bmp"], "picture.bmp"),
    ],
)
def test_one_line_says_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    table: Path,
    arguments: list[str],
    words: str,
) -> None:
    told = run(monkeypatch, capsys, *(str(table) if word == "TABLE" else word for word in arguments))
    assert told.code == 2
    assert words in told.err
    assert told.err.count("\n") == 1
