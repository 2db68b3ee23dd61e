"""The same sweep on a Dask cluster of two worker processes over loopback."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from benchmarks.sweep_kills import EXPERIMENT

from lightloom.core.errors import ConfigError
from lightloom.planning.sweeps.run import sweep
from lightloom.planning.sweeps.workers import Workers
from tests.sweeps.experiments import PLANS, SMALL, points


@pytest.mark.parametrize(
    ("text", "processes"),
    [
        (SMALL, False),
        *(pytest.param(text, True, marks=pytest.mark.slow) for text in (SMALL, SMALL + PLANS, EXPERIMENT)),
    ],
)
def test_two_dask_workers_give_the_same_bytes(tmp_path: Path, text: str, processes: bool) -> None:
    """Workers in this process are sent to over TCP too."""
    distributed: Any = import_module("distributed")
    wanted = points(tmp_path, text)
    here = sweep("small", wanted, tmp_path / "here", Workers(jobs=1))
    with distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=processes,
        protocol="tcp",
        host="127.0.0.1",
        dashboard_address=None,
        local_directory=str(tmp_path / "dask"),
    ) as cluster:
        there = sweep("small", wanted, tmp_path / "there", Workers(dask=cluster.scheduler_address))
    assert there.computed == len(wanted)
    assert there.results.read_bytes() == here.results.read_bytes()


@pytest.mark.parametrize("address", ["", "nowhere", "tcp://", "colour://127.0.0.1:1"])
def test_an_address_without_a_scheduler_is_refused(tmp_path: Path, address: str) -> None:
    wanted = points(tmp_path, SMALL)
    with pytest.raises(ConfigError, match="no Dask scheduler answers there"):
        sweep("small", wanted, tmp_path / "out", Workers(dask=address))
