"""``lightloom damage``: a table, a document, a picture, and one line for whatever is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.registry import build
from lightloom.collectives.schedule.columns import Schedule
from tests.cli.commands import run

WANTED = [
    "damage",
    "all-gather",
    "--ranks",
    "12",
    "--wavelengths",
    "4",
    "--nbytes-per-rank",
    "10kB",
    "--set",
    "conversion_time=1us",
    "--kill",
    "wavelength:3",
    "--kill",
    "cable:7",
    "--kill",
    "node:5",
]


def test_the_document_says_what_the_table_says(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    picture = tmp_path / "damage.svg"
    told = run(monkeypatch, capsys, *WANTED, "--together", "--late", "10us", "--json", "--figure", str(picture))
    assert (told.code, told.err) == (0, "")
    document = json.loads(told.out)
    assert document["schema"] == "lightloom.damage/1"
    rows = document["rows"]
    assert [row["failures"] for row in rows] == [
        [],
        ["wavelength:3"],
        ["cable:7"],
        ["node:5"],
        ["wavelength:3", "cable:7", "node:5"],
    ]
    assert [row["ranks"] for row in rows] == [12, 12, 12, 11, 11]
    for row in rows:
        assert row["verified"] and row["time_s"] >= row["lower_bound_s"] > 0
        assert row["slowdown"] == pytest.approx(row["time_s"] / rows[0]["time_s"])
    assert rows[2]["slowdown"] > 1
    assert {each["algorithm"] for each in document["stragglers"]} >= {"synthesized", "optree-striped"}
    for each in document["stragglers"]:
        assert 0 <= each["mean_s"] <= each["worst_s"] * (1 + 1e-9) <= 10e-6 * (1 + 1e-8)
        assert each["later_s"][each["worst_rank"]] == each["worst_s"] and len(each["later_s"]) == 12
    assert "wavelength:3" in picture.read_text()
    table = run(monkeypatch, capsys, *WANTED)
    assert (table.code, table.err) == (0, "")
    assert "cable:7" in table.out and "nothing" in table.out and "one rank" not in table.out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--kill", "wave:3"], "failure 'wave:3': expected one of wavelength:NUMBER"),
        (["--kill", "node:12"], "node:12: expected one of 12 nodes"),
        (["--kill", "cable:1", "--kill", "cable:5", "--together"], "cut the ring into parts"),
        (["--slow", "twice"], "--slow 'twice': expected a number of times"),
        (["--slow", "0.5"], "slower=0.5: expected a factor of 1 or more"),
        (["--late", "soon"], "soon"),
        (["--fabric", "optical-averager"], "are not modelled"),
        (["--fabric", "mesh", "--kill", "link:0:7"], "link:0:7: no link joins these nodes"),
        (["--fabric", "mesh", "--kill", "wavelength:0"], "wavelength:0 on a mesh: expected one of link:NODE:NODE"),
    ],
)
def test_what_is_wrong_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    told = run(monkeypatch, capsys, "damage", "all-gather", "--ranks", "12", "--nbytes", "1kB", *arguments)
    assert told.code == 2 and told.out == ""
    assert complaint in told.err and told.err.count("\n") == 1


@pytest.mark.parametrize("kind", ["all-to-all", "gather", "broadcast", "permute"])
def test_other_kinds_go_around_failures(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    told = run(monkeypatch, capsys, "damage", kind, "--ranks", "8", "--nbytes", "1kB", "--kill", "cable:1")
    assert told.code == 0 and "cable:1" in told.out


def test_sizes_of_parts_around_failures_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = run(monkeypatch, capsys, "damage", "all-to-all-v", "--ranks", "8", "--nbytes", "1kB", "--kill", "node:1")
    assert told.code == 2 and told.err.count("\n") == 1
    assert "all-to-all-v has sizes of its own: expected one of all-gather" in told.err


def test_a_failing_algorithm_is_a_refused_row_of_the_stragglers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing(algorithm: Algorithm, *rest: Any) -> Schedule:
        if algorithm.name == "optree-striped":
            raise IndexError("rank 13 of 12")
        return build(algorithm, *rest)

    monkeypatch.setattr("lightloom.app.cli.collective.build", failing)
    arguments = ["damage", "all-gather", "--ranks", "6", "--wavelengths", "2", "--nbytes-per-rank", "10kB"]
    document = json.loads(run(monkeypatch, capsys, *arguments, "--late", "10us", "--json").out)
    why = "optree-striped raises IndexError: rank 13 of 12"
    assert document["refused"] == [{"algorithm": "optree-striped", "why": why}]
    names = {row["algorithm"] for row in document["stragglers"]}
    assert "synthesized" in names and "optree-striped" not in names


def test_failures_that_cut_a_fabric_together_are_tried_one_by_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = ["damage", "all-gather", "--fabric", "mesh", "--ranks", "4", "--nbytes", "1kB"]
    kills = ["--kill", "link:0:1", "--kill", "link:0:2"]
    told = run(monkeypatch, capsys, *wanted, *kills, "--json")
    assert told.code == 0 and [row["ranks"] for row in json.loads(told.out)["rows"]] == [4, 4, 4]
    told = run(monkeypatch, capsys, *wanted, *kills, "--together")
    assert told.code == 2 and "no route leads" in told.err and told.err.count("\n") == 1
