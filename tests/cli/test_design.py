"""``lightloom design``: the answer on one screen, what is left out on request, Ctrl-C, and former options."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from lightloom.app.api import designing
from lightloom.planning.designs.explore import Bounded, Evaluated, Task, solve_task
from lightloom.planning.designs.page import front_figure
from tests.cli.commands import Done, lightloom

_SPACE = """description: few designs
families:
  - {name: switch, technology: electrical, fabric: switch, set: {bandwidth: [50Gbps, 100Gbps, 400Gbps]}}
  - {name: circuits, technology: optical, fabric: circuit-switch, set: {degree: [1, 2], bandwidth: [100Gbps, 400Gbps]}}
"""


def _design(folder: Path, *options: str) -> Done:
    (folder / "space.yaml").write_text(_SPACE)
    return lightloom("design", "hdc", "--batch", "64", "--space", str(folder / "space.yaml"), *options)


@pytest.mark.long
def test_the_answer_is_one_screen_and_the_rest_on_request(tmp_path: Path) -> None:
    done = _design(tmp_path, "--ranks", "8", "--report", str(tmp_path / "page.html"))
    lines = done.out.splitlines()
    assert lines[0].startswith("Which fabric trains hdc best on 8 h100-calibrated, 64 samples each?")
    assert lines[1].startswith("BEST ") and "samples per dollar" in lines[1]
    assert len(lines) <= 25
    assert "assumption" not in done.out.replace("--assumptions", "")
    assert "Designs by samples per dollar and per joule" in (tmp_path / "page.html").read_text()
    told = _design(tmp_path, "--ranks", "8", "--explain", "--assumptions").out
    assert told.splitlines()[: len(lines) - 1] == lines[:-1]
    assert "7 designs: " in told and "assumption: PUE" in told and "breaks even" in told


@pytest.mark.long
def test_every_design_that_leads_is_drawn_and_those_of_the_front_are_joined(tmp_path: Path) -> None:
    (tmp_path / "space.yaml").write_text(_SPACE)
    found = designing.design("hdc", ranks=8, batch=64, space=tmp_path / "space.yaml", prune=False)
    (axes,) = front_figure(found.exploration).axes
    lines = [[tuple(point) for point in np.asarray(line.get_xydata())] for line in axes.lines]
    drawn = {point for line in lines if len(line) == 1 for point in line}
    assert drawn == {candidate.point[:2] for candidate in found.exploration.candidates}
    (joined,) = [line for line in lines if len(line) > 1] or [[]]
    assert set(joined) == {candidate.point[:2] for candidate in found.front} or len(found.front) == 1


@pytest.mark.long
@pytest.mark.parametrize("stopped_at", [4, 12])
def test_ctrl_c_ends_with_the_best_so_far_and_says_what_was_not_searched(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stopped_at: int
) -> None:
    tasks: list[Task] = []

    def solve(task: Task) -> Bounded | Evaluated:
        tasks.append(task)
        if len(tasks) == stopped_at:
            raise KeyboardInterrupt
        return solve_task(task)

    monkeypatch.setattr(designing, "solve_task", solve)
    done = _design(tmp_path, "--ranks", "8", "--set", "prune=false")
    document_done = _design(tmp_path, "--ranks", "8", "--set", "prune=false", "--json")
    assert len(tasks) > stopped_at
    assert done.code == 130
    assert "of 7 designs were not searched; with --folder the search would resume" in done.err
    assert "BEST " in done.out and "designs were not searched" in done.out
    document = json.loads(document_done.out)
    assert (document_done.code, "not_searched" in document) == (0, False)


def test_ctrl_c_before_any_design_is_only_an_interruption(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def solve(_: Task) -> Bounded | Evaluated:
        raise KeyboardInterrupt

    monkeypatch.setattr(designing, "solve_task", solve)
    done = _design(tmp_path, "--ranks", "8")
    assert (done.code, done.out, done.err) == (130, "", "interrupted: no design was evaluated yet\n")


@pytest.mark.long
def test_former_options_give_the_same_and_warn(tmp_path: Path) -> None:
    former = ("--budget-dollars", "600000", "--no-prune", "--host-price", "$ 1000", "--jobs", "1")
    now = ("--budget", "dollars=600000", "--set", "prune=false", "--site", "host_price=$ 1000", "--workers", "1")
    before, after = _design(tmp_path, *former, "--json"), _design(tmp_path, *now, "--json")
    assert json.loads(before.out) == json.loads(after.out)
    assert after.err == ""
    assert [line.split()[1] for line in before.err.splitlines()] == [word for word in former if word.startswith("--")]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--budget", "yen=5"], "expected dollars=AMOUNT or watts=AMOUNT"),
        (["--budget", "600000"], "expected dollars=AMOUNT or watts=AMOUNT"),
        (["--ranks", "8", "--set", "prune=2"], "or prune=false"),
        (["--ranks", "8", "--set", "colour=red"], "expected a choice of the bill"),
        (["--ranks", "8", "--workers", "many"], "--workers 'many': expected a number of processes"),
    ],
)
def test_bad_input_is_one_line(tmp_path: Path, options: list[str], complaint: str) -> None:
    done = _design(tmp_path, *options)
    assert (done.code, done.out) == (2, "")
    assert complaint in done.err and done.err.count("\n") == 1
