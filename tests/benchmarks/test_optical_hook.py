"""What the benchmark of the hook makes of its rounds."""

from __future__ import annotations

import sys

import pytest
from benchmarks.training.optical_hook import WAYS, main, print_table, tables


def test_ratios_are_of_the_same_round_and_of_the_slowest_rank(capsys: pytest.CaptureFixture[str]) -> None:
    plain, ours = [[1.0, 0.5], [4.0, 0.5], [2.0, 0.5]], [[2.0, 1.0], [4.0, 1.0], [1.0, 1.0]]
    slow = {way: [[2 * wall, cpu] for wall, cpu in (ours if bits else plain)] for way, bits in WAYS.items()}
    fast = {way: [[0.1, cpu] for _, cpu in rounds] for way, rounds in slow.items()}
    found = tables([{"25 MB": fast}, {"25 MB": slow}])
    row = found["25 MB"]["16 bits"]
    assert row["over_all_reduce"] == 1.0
    assert row["over_all_reduce_range"] == [0.5, 2.0]
    assert (row["seconds"], row["fastest_s"]) == (4.0, 2.0)
    assert (row["cpu_seconds"], row["cpu_over_all_reduce"]) == (2.0, 2.0)
    assert found["25 MB"]["all-reduce"]["over_all_reduce_range"] == [1.0, 1.0]
    print_table(found)
    assert "16 bits" in capsys.readouterr().out


@pytest.mark.slow
def test_real_ranks_are_measured(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["optical_hook", "--megabytes", "1", "--rounds", "1"])
    main()
    shown = capsys.readouterr().out
    assert all(way in shown for way in WAYS)
