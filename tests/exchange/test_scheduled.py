"""Sums by the rows of schedules in four processes: the mean, equal replicas, bytes of rows, bits of the executor."""

from __future__ import annotations

from typing import Any

from tests.exchange import scheduled_workers as workers
from tests.launched import Processes


def found(processes: Processes, law: str) -> list[Any]:
    """Results of one law, by rank."""
    return [results[law] for results in processes.results("scheduled")]


def test_coded_sums_are_within_their_error_and_rows_times_coding_are_sent(processes: Processes) -> None:
    for results in found(processes, "averages"):
        assert len(results) == len(workers.ALGORITHMS) * len(workers.CODINGS)
        for name, result in results.items():
            assert result["error"] <= 1, name
            assert result["replicas"] and result["bytes"] and result["executor"], (name, result)


def test_all_ranks_are_told_what_cannot_be_summed(processes: Processes) -> None:
    for lines in found(processes, "refusals"):
        node, kind, dtype, value, after = lines
        assert "4 ranks: expected a multiple of node=3" in node
        assert "among 2 ranks: wrht serves all-reduce, all-gather, not reduce-scatter" in kind
        assert "gradients of torch.float64 would lose digits" in dtype
        assert "the gradients of a rank hold NaN" in value and "\n" not in "".join(lines)
        assert after == "works"
