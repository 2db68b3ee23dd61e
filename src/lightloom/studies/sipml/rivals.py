"""What practitioners' splits take on the same networks: the winner of the search, and plain data parallelism."""

from __future__ import annotations

from typing import Any

from lightloom.accelerators.load import load_accelerator
from lightloom.clusters.base import Cluster
from lightloom.clusters.settings import TrainingSettings
from lightloom.core.errors import UnsupportedError
from lightloom.fabrics.base import Fabric
from lightloom.planner.pricing.group_prices import GroupPrices
from lightloom.planner.search.plans import Plan
from lightloom.planner.search.request import DATA_PARALLEL, STRATEGIES, SearchRequest
from lightloom.planner.search.search import search
from lightloom.studies.sipml.paper import JOBS, Job
from lightloom.studies.sipml.stored import ALGORITHMS
from lightloom.workloads.load import load_workload


def rivals(fabric: Fabric) -> dict[str, dict[str, Any]]:
    """Return, by model, the fastest of all strategies, and the fastest with sharded and with plain data parallelism."""
    settings = TrainingSettings(batch_per_rank=1)
    prices, chip = GroupPrices(fabric, settings, choices=ALGORITHMS), load_accelerator("a100").flat()
    on = Cluster(name="sipml", ranks=fabric.ranks, accelerator=chip, fabric=fabric, training=settings)
    return {key: _of(wanted, on, prices) for key, wanted in JOBS.items()}


def _of(wanted: Job, on: Cluster, prices: GroupPrices) -> dict[str, Any]:
    try:
        request = SearchRequest(
            global_batches=[wanted.global_batch], algorithms=ALGORITHMS, strategies=STRATEGIES, compare=False
        )
        outcome = search(load_workload(wanted.model, batch=1), on, request, prices=prices)
    except UnsupportedError as error:
        return {name: {"refused": str(error)} for name in ("search", *DATA_PARALLEL)}
    return {"search": _row(outcome.winner)} | {name: _row(outcome.best_of(name)) for name in DATA_PARALLEL}


def _row(plan: Plan | None) -> dict[str, Any]:
    if plan is None:
        return {"refused": "it does not fit, or no algorithm serves it"}
    return {"step_s": rounded(plan.step_time), "strategy": plan.choice._asdict()}


def rounded(value: float) -> float:
    """Round to six digits, as results are stored."""
    return float(f"{value:.6g}")
