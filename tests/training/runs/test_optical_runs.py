"""The study's MNIST runs: what is done is not repeated, and rows find their pairs."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

pytest.importorskip("torch", reason="recipes are those of torch's training")

from lightloom.exchange.transport.launch import Outcome
from lightloom.papers.optinc.runs import (
    BASELINE,
    RANKS,
    RUNS,
    SEEDS,
    digits_jobs,
    measure_digits,
)
from lightloom.photonics.registry import find_averager


def test_pairs_come_first_and_every_seed_has_its_partner() -> None:
    order = digits_jobs()
    assert len(order) == len(RUNS) * len(SEEDS) == len(set(order))
    assert [run.name for run, _ in order[:4]] == [BASELINE, "16-bit half-up"] * 2
    for run in RUNS:
        recipe, base = asdict(run.recipe(3)), asdict(RUNS[0].recipe(3))
        assert {key for key in base if base[key] != recipe[key]} <= {"gradients", "bits", "rounding"}
        if run.averager is not None and not run.averager.startswith("constructed"):
            averager = find_averager(run.averager, RANKS, run.bits, run.rounding)
            assert (averager.bits, averager.rounding) == (run.bits, run.rounding)


def test_only_what_is_missing_runs(tmp_path: Path) -> None:
    asked: list[list[dict[str, Any]]] = []

    def pretend(function: str, ranks: int, timeout: float, arguments: dict[str, Any]) -> list[Outcome]:
        asked.append(arguments["tasks"])
        for task in arguments["tasks"][:7]:
            Path(task["result"]).write_text(json.dumps({"recipe": task["recipe"], "accuracy": [0.5]}))
        return []

    with (
        patch("lightloom.papers.optinc.runs.training_digits"),
        patch("lightloom.papers.optinc.runs.launch", pretend),
    ):
        document = json.loads(measure_digits(tmp_path, tmp_path).read_text())
        assert {name: len(each) for name, each in document["runs"].items()} == {BASELINE: 4, "16-bit half-up": 3}
        assert [each["recipe"]["seed"] for each in document["runs"][BASELINE]] == [0, 1, 2, 3]
        while len(asked[-1]) > 7:
            measure_digits(tmp_path, tmp_path)
        rounds = len(asked)
        document = json.loads(measure_digits(tmp_path, tmp_path).read_text())
    assert [len(each) for each in asked] == list(range(50, 0, -7))
    assert len(asked) == rounds
    assert all(len(each) == len(SEEDS) for each in document["runs"].values())
