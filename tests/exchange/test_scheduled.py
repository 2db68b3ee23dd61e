"""Sums by the rows of schedules in four processes: the mean, equal replicas, bytes of rows, bits of the executor."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from lightloom.exchange.comparison import cases, run_all, task
from lightloom.exchange.method import Gradient
from lightloom.exchange.methods import find
from tests.exchange import scheduled_workers as workers
from tests.launched import Processes


def found(processes: Processes, law: str) -> list[Any]:
    """Results of one law, by rank."""
    return [results[law] for results in processes.results("scheduled")]


@pytest.mark.long
def test_coded_sums_are_within_their_error_and_rows_times_coding_are_sent(processes: Processes) -> None:
    for results in found(processes, "averages"):
        assert len(results) == len(workers.ALGORITHMS) * len(workers.CODINGS)
        for name, result in results.items():
            assert result["error"] <= 1, name
            assert result["replicas"] and result["bytes"] and result["executor"], (name, result)


@pytest.mark.long
def test_all_ranks_are_told_what_cannot_be_summed(processes: Processes) -> None:
    for lines in found(processes, "refusals"):
        node, kind, dtype, value, after = lines
        assert "4 ranks: expected a multiple of node=3" in node
        assert "among 2 ranks: wrht serves all-reduce, all-gather, not reduce-scatter" in kind
        assert "gradients of torch.float64 would lose digits" in dtype
        assert "the gradients of a rank hold NaN" in value and "\n" not in "".join(lines)
        assert after == "works"


@pytest.mark.slow
@pytest.mark.skipif("LIGHTLOOM_DATA" not in os.environ, reason="LIGHTLOOM_DATA names no folder with tinyshakespeare")
def test_one_run_composes_schedules_coding_and_averages_by_light(tmp_path: Path) -> None:
    """Two groups of four processes train as plain ones do, with a third of the bytes."""
    method = "two-level:node=4,inside=(synthesized:coding=(int8:block=64)),between=(optical)"
    plain, composed = run_all(cases("chars", [method], 1, 8, 30), tmp_path)
    assert composed.replicas_equal and composed.digest != plain.digest
    assert composed.loss[-1] == pytest.approx(plain.loss[-1], abs=0.01) and composed.loss[-1] < 3.5
    shapes = tuple(tuple(each.shape) for each in task("chars").model().parameters())
    planned = find(method).sent_bytes(Gradient(shapes), 8)
    assert composed.raw_bytes / 3.5 < planned < composed.sent_bytes < 1.1 * planned  # blocks of pieces are padded
