"""What practitioners' splits take on the same networks: the winner of the search, and plain data parallelism."""

from __future__ import annotations

from typing import Any

from lightloom.accelerators.load import load_accelerator
from lightloom.clusters.settings import TrainingSettings
from lightloom.core.errors import UnsupportedError
from lightloom.fabrics.base import Fabric
from lightloom.parallelism.strategy_space import SHARDINGS, Strategies
from lightloom.planner.bounded_search import bounded_search
from lightloom.planner.group_prices import GroupPrices
from lightloom.planner.stage_times import Job
from lightloom.studies.sipml.paper import JOBS
from lightloom.workloads.load import load_workload

ALGORITHMS = ("ring-two-way-striped", "recursive-doubling-striped")
"""Verified schedules of the exchanges; striped, so that they use all circuits or wavelengths."""


def rivals(fabric: Fabric) -> dict[str, dict[str, Any]]:
    """By model: the fastest of all strategies, the fastest with sharded and with plain data parallelism alone."""
    settings = TrainingSettings()
    prices, chip = GroupPrices(fabric, settings), load_accelerator("a100")
    found = {}
    for key, wanted in JOBS.items():
        graph = load_workload(wanted.model, batch=1)
        job = Job(graph, chip, fabric, settings, prices)
        space = job.space([wanted.global_batch], algorithms=ALGORITHMS)
        shardings = {name: space.plain & (space.sharding == place) for place, name in enumerate(SHARDINGS)}
        rows = {"search": space} | {name: space.rows(mask) for name, mask in shardings.items()}
        found[key] = {name: _row(job, each) for name, each in rows.items()}
    return found


def _row(job: Job, strategies: Strategies) -> dict[str, Any]:
    try:
        winner = bounded_search(job, strategies).winner
    except UnsupportedError as error:
        return {"refused": str(error)}
    return {"step_s": rounded(winner.step_time), "strategy": winner.strategy._asdict()}


def rounded(value: float) -> float:
    """To six digits, as results are kept."""
    return float(f"{value:.6g}")
