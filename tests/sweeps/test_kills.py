"""Killed with SIGKILL and resumed, a sweep by several processes loses nothing and doubles nothing."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from benchmarks.sweep_kills import finished, kept, measure, run

from lightloom.sweeps.run import RESULTS, sweep
from lightloom.sweeps.workers import Workers
from tests.sweeps.experiments import PLANS, SMALL, points, written


def test_killed_twice_it_has_the_bytes_of_one_that_ran_through(tmp_path: Path) -> None:
    wanted = points(tmp_path, SMALL + PLANS)
    whole = sweep("small", wanted, tmp_path / "whole", Workers(jobs=1))
    experiment, folder = written(tmp_path, SMALL + PLANS), tmp_path / "killed"
    for jobs in (1, 2):
        before, process = len(kept(folder)), run(experiment, folder, jobs)
        while len(kept(folder)) == before and process.poll() is None:
            time.sleep(0.005)
        process.kill()
        process.communicate()
        assert len(kept(folder)) > before or before == len(wanted)
    finished(run(experiment, folder, 1))
    assert len(kept(folder)) == len(set(kept(folder))) == len(wanted)
    assert (folder / RESULTS).read_bytes() == whole.results.read_bytes()


@pytest.mark.slow
def test_two_thousand_points_killed_ten_times(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    measure(kills=10, seed=1, jobs=2, folder=tmp_path)
    assert "2000 rows, each once" in capsys.readouterr().out
