"""``lightloom collective --without``: an answer, a document, a picture, a file, and one line for whatever is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.registry import build
from lightloom.collectives.schedule.columns import Schedule
from tests.cli.commands import run

_RING = ["--fabric", "wdm-ring", "--ranks", "12"]
ASKED = ["all-gather", *_RING, "--set", "wavelengths=4", "--nbytes-per-rank", "10kB", "--set", "conversion_time=1us"]
WANTED = ["collective", *ASKED, *("--without", "wavelength:3", "--without", "cable:7", "--without", "node:5")]
TOGETHER = ["--without", "wavelength:3,cable:7,node:5", "--straggler", "late=10us"]


def test_the_document_says_what_the_table_says(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    picture = tmp_path / "damage.svg"
    told = run(monkeypatch, capsys, *WANTED, *TOGETHER, "--json", "--figure", str(picture))
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


def test_the_former_command_answers_as_before(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    former = ["damage", "all-gather", "--ranks", "12", "--wavelengths", "4", "--nbytes-per-rank", "10kB"]
    former += ["--set", "conversion_time=1us", "--kill", "wavelength:3", "--together", "--late", "10us"]
    then = run(monkeypatch, capsys, *former, "--kill", "cable:7", "--kill=node:5", "--json")
    now = run(monkeypatch, capsys, *WANTED, *TOGETHER, "--json")
    assert (then.code, then.out) == (0, now.out)
    assert then.err.startswith("warning: `damage` is spelt `collective` now; the former spelling works in this release")


def test_the_schedule_around_a_failure_is_saved(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "around.json"
    around = ["--without", "cable:7,node:5", "--out", str(file)]
    told = run(monkeypatch, capsys, "collective", *ASKED, *around, "--json")
    document = json.loads(told.out)
    assert told.code == 0 and document["files"] == [str(file)]
    read = json.loads(run(monkeypatch, capsys, "schedule", str(file), "--json").out)
    assert (read["ranks"], read["time_s"]) == (11, document["rows"][1]["time_s"])


def test_stragglers_alone_are_the_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    told = run(monkeypatch, capsys, "collective", *ASKED, "--straggler", "slow=2")
    assert told.code == 0 and "one rank 2 times slower adds at most" in told.out and "worst rank adds" in told.out
    both = run(monkeypatch, capsys, *WANTED, "--straggler", "slow=2", "--all")
    assert "cable:7" in both.out and "worst rank adds" in both.out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--without", "wave:3"], "failure 'wave:3': expected one of wavelength:NUMBER"),
        (["--without", "node:12"], "node:12: expected one of 12 nodes"),
        (["--without", "cable:1,cable:5"], "cut the ring into parts"),
        (["--straggler", "slow=twice"], "--straggler: field 'slow': 'twice': Input should be a valid number"),
        (["--straggler", "slow=0.5"], "field 'slow': '0.5': Input should be greater than or equal to 1"),
        (["--straggler", "late=soon"], "soon"),
        (["--straggler", "10us"], "--straggler '10us': expected late=TIME or slow=TIMES"),
        (["--straggler", "early=1us"], "unknown field 'early'"),
        (["--without", "node:1", "--algorithm", "ring"], "--algorithm: schedules around failures are synthesized"),
        (["--without", "node:1", "--cost-model", "paper"], "--cost-model: schedules around failures are synthesized"),
        (["--without", "node:1", "--without", "node:2", "--out", "x.json"], "expected one --without"),
        (["--fabric", "optical-averager", "--without", "node:1"], "are not modelled"),
        (["--fabric", "mesh", "--without", "link:0:7"], "link:0:7: no link joins these nodes"),
        (["--fabric", "mesh", "--without", "wavelength:0"], "wavelength:0 on a mesh: expected one of link:NODE:NODE"),
    ],
)
def test_what_is_wrong_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    told = run(monkeypatch, capsys, "collective", "all-gather", *_RING, "--nbytes", "1kB", *arguments)
    assert told.code == 2 and told.out == ""
    assert complaint in told.err and told.err.count("\n") == 1


@pytest.mark.parametrize("kind", ["all-to-all", "gather", "broadcast", "permute"])
def test_other_kinds_go_around_failures(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    told = run(monkeypatch, capsys, "collective", kind, *_RING, "--nbytes", "1kB", "--without", "cable:1")
    assert told.code == 0 and "cable:1" in told.out


def test_sizes_of_parts_around_failures_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = run(monkeypatch, capsys, "collective", "all-to-all-v", *_RING, "--nbytes", "1kB", "--without", "node:1")
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
    arguments = ["--fabric", "wdm-ring", "--ranks", "6", "--set", "wavelengths=2", "--nbytes-per-rank", "10kB"]
    arguments += ["--straggler", "late=10us", "--json"]
    document = json.loads(run(monkeypatch, capsys, "collective", "all-gather", *arguments).out)
    why = "optree-striped raises IndexError: rank 13 of 12"
    assert document["refused"] == [{"algorithm": "optree-striped", "why": why}]
    names = {row["algorithm"] for row in document["stragglers"]}
    assert "synthesized" in names and "optree-striped" not in names


def test_failures_that_cut_a_fabric_together_are_tried_one_by_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = ["collective", "all-gather", "--fabric", "mesh", "--ranks", "4", "--nbytes", "1kB"]
    told = run(monkeypatch, capsys, *wanted, "--without", "link:0:1", "--without", "link:0:2", "--json")
    assert told.code == 0 and [row["ranks"] for row in json.loads(told.out)["rows"]] == [4, 4, 4]
    told = run(monkeypatch, capsys, *wanted, "--without", "link:0:1,link:0:2")
    assert told.code == 2 and "no route leads" in told.err and told.err.count("\n") == 1
