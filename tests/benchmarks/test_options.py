"""Every benchmark answers ``--help``, and refuses options that it lacks, before it measures for minutes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from benchmarks.support.measure import parse_no_options
from benchmarks.synthesis import parser

import benchmarks
from lightloom.collectives.collective import Collective

COMMANDS = [path for path in Path(benchmarks.__path__[0]).rglob("*.py") if "__main__" in path.read_text()]


def test_every_benchmark_reads_its_arguments() -> None:
    assert len(COMMANDS) > 40
    parses = re.compile(r"\.parse_args\(|parse_(parts|folder|no_options)\(")
    assert [path.name for path in COMMANDS if not parses.search(path.read_text())] == []


@pytest.mark.parametrize(("arguments", "status"), [(["--help"], 0), (["--jsn", "rows.json"], 2)])
def test_one_without_options_prints_its_docstring_or_refuses(
    arguments: list[str], status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["bounds.py", *arguments])
    with pytest.raises(SystemExit) as ended:
        parse_no_options("What it measures.")
    assert ended.value.code == status
    shown = capsys.readouterr()
    assert "What it measures." in shown.out or "unrecognized arguments: --jsn" in shown.err


def test_synthesis_measures_kinds_that_have_a_size() -> None:
    kinds = parser().parse_args([]).kinds
    assert [Collective(kind, 8, 1e4).kind for kind in kinds] == list(kinds)
