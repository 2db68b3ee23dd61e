"""The table of tolerances keeps every row as soon as it is measured, and goes on where it was stopped."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks.photonics import tolerance

ERRORS = {"phase-error": 3e-3, "coupler-error": 1e-2, "loss": 0.1, "power": 3e-3}


class Stopped(Exception):
    """The run was killed."""


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Rows that were measured, in order; nothing is simulated."""
    names: list[str] = []

    def constructed(servers: int, request: object) -> dict[str, Any]:
        if servers == 8 and "8 servers" not in names:
            names.append("8 servers")
            raise Stopped
        names.append(f"{servers} servers")
        row = {"servers": servers, "network": f"net {servers}", "tolerated": servers < 16, "mzi_count": 1234}
        row |= {"crossings": 5, "gain_db": 33.0, "word_error_rate": 0.0, "interval_95": [0.0, 9e-6], "share": 1.4}
        return row | {"alone": dict.fromkeys(ERRORS, 0.5) | {"loss": None}, "cpu_seconds": 2.0}

    def trained(name: str, request: object) -> dict[str, Any]:
        names.append(name)
        rates = {label: [0.25, 0.0, 0.5] for label in ("all", *ERRORS)}
        return {"network": name, "mzi_count": 41936, "gain_db": 15.4, "rates": rates, "cpu_seconds": 1.0}

    monkeypatch.setattr(tolerance, "constructed_row", constructed)
    monkeypatch.setattr(tolerance, "trained_row", trained)
    return names


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["tolerance", *arguments])
    return tolerance.main()


def test_a_stopped_run_goes_on_and_writes_the_page(
    measured: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kept, page = tmp_path / "kept.json", tmp_path / "page.md"
    with pytest.raises(Stopped):
        run(monkeypatch, "--kept", str(kept), "--page", str(page))
    assert list(json.loads(kept.read_text())["rows"]) == ["2 servers", "4 servers"] and not page.exists()
    assert run(monkeypatch, "--kept", str(kept), "--page", str(page)) == 0
    assert measured == ["2 servers", "4 servers", "8 servers", "8 servers", "16 servers", "exact", "relu", "clipped"]
    text = page.read_text()
    assert "phase-error=0.003,coupler-error=0.01,loss=0.1dB,power=3mW" in text
    for row in ("| 2 | net 2 | 1,234 |", "| 16 | none; the sturdiest is net 16 |", "| exact | 41,936 |"):
        assert row in text
    assert "| 0.5 | 0.5 | – | 5e+02 | 2 |" in text and "11 CPU seconds in all" in text
    # Nothing is measured twice, and the page is the same.
    assert run(monkeypatch, "--kept", str(kept), "--page", str(page)) == 0
    assert len(measured) == 8 and page.read_text() == text


@pytest.mark.parametrize("content", ["{", "[]", '{"schema": "other"}'])
def test_files_of_something_else_are_refused(
    content: str,
    measured: list[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    kept = tmp_path / "kept.json"
    kept.write_text(content)
    assert run(monkeypatch, "--kept", str(kept)) == 2
    assert "expected rows that this command kept" in capsys.readouterr().err and not measured


def test_rows_of_another_request_are_refused(
    measured: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "kept.json"
    assert run(monkeypatch, "--kept", str(kept), "--servers", "2", "--trained") == 0
    assert run(monkeypatch, "--kept", str(kept), "--servers", "2", "--trained", "--tolerate", "loss=0.1") == 2
    assert "rows of another request or version" in capsys.readouterr().err and measured == ["2 servers"]
