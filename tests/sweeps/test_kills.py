"""Killed with SIGKILL and resumed, a sweep by several processes loses nothing and doubles nothing."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import psutil
import pytest
from benchmarks.sweep_kills import EXPERIMENT, POINTS, finished, kept, measure, run

from lightloom.planning.sweeps.run import RESULTS, sweep
from lightloom.planning.sweeps.workers import Workers
from tests.sweeps.experiments import SMALL, points, written


@pytest.mark.long
@pytest.mark.parametrize("kills", [(2,), pytest.param((1, 2), marks=pytest.mark.slow)])
def test_killed_it_has_the_bytes_of_one_that_ran_through(tmp_path: Path, kills: tuple[int, ...]) -> None:
    wanted = points(tmp_path, SMALL)
    whole = sweep("small", wanted, tmp_path / "whole", Workers(jobs=1))
    experiment, folder = written(tmp_path, SMALL), tmp_path / "killed"
    for jobs in kills:
        before, process = len(kept(folder)), run(experiment, folder, jobs)
        while len(kept(folder)) == before and process.poll() is None:
            time.sleep(0.005)
        process.kill()
        process.communicate()
        assert len(kept(folder)) > before or before == len(wanted)
    sweep("small", wanted, folder, Workers(jobs=1))
    assert len(kept(folder)) == len(set(kept(folder))) == len(wanted)
    assert (folder / RESULTS).read_bytes() == whole.results.read_bytes()


@pytest.mark.slow
def test_two_thousand_points_killed_ten_times(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    measure(kills=10, seed=1, jobs=2, folder=tmp_path)
    assert "2000 rows, each once" in capsys.readouterr().out


@pytest.mark.slow
def test_a_worker_that_is_killed_is_told_in_one_line_and_resumed(tmp_path: Path) -> None:
    experiment, folder = written(tmp_path, EXPERIMENT), tmp_path / "out"
    process = run(experiment, folder, 2)
    before = _once_it_computes(process, folder)
    _workers(process)[0].kill()
    out, err = process.communicate()
    assert (process.returncode, out) == (2, "")
    assert err.startswith("error: a worker was killed")
    assert err.count("\n") == 1
    assert len(kept(folder)) >= before
    assert f"{POINTS} points" in finished(run(experiment, folder, 2))
    assert len(kept(folder)) == len(set(kept(folder))) == POINTS


@pytest.mark.slow
def test_workers_end_with_a_killed_coordinator(tmp_path: Path) -> None:
    process = run(written(tmp_path, EXPERIMENT), tmp_path / "out", 2)
    _once_it_computes(process, tmp_path / "out")
    workers = _workers(process)
    process.kill()
    process.communicate()
    assert len(workers) == 2
    _, alive = psutil.wait_procs(workers, timeout=300)
    assert not [each for each in alive if each.status() != psutil.STATUS_ZOMBIE]


def _once_it_computes(process: subprocess.Popen[str], folder: Path) -> int:
    while not kept(folder) and process.poll() is None:
        time.sleep(0.01)
    return len(kept(folder))


def _workers(process: subprocess.Popen[str]) -> list[psutil.Process]:
    children = psutil.Process(process.pid).children()
    return [each for each in children if any("LokyProcess" in word for word in each.cmdline())]
