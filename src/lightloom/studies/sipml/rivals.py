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
from lightloom.studies.sipml.paper import JOBS
from lightloom.workloads.graph import ComputeGraph
from lightloom.workloads.load import load_workload

ALGORITHMS = ("ring-two-way-striped", "recursive-doubling-striped")
"""Verified schedules of the exchanges; striped, so that they use all circuits or wavelengths."""
_SETTINGS = TrainingSettings(batch_per_rank=1)


def rivals(fabric: Fabric) -> dict[str, dict[str, Any]]:
    """Return, by model, the fastest of all strategies, and the fastest with sharded and with plain data parallelism."""
    prices = GroupPrices(fabric, _SETTINGS, choices=ALGORITHMS)
    return {
        key: search_outcome(load_workload(job.model, batch=1), job.global_batch, fabric, prices)
        for key, job in JOBS.items()
    }


def search_outcome(
    graph: ComputeGraph, global_batch: int, fabric: Fabric, prices: GroupPrices | None = None
) -> dict[str, Any]:
    """Return the fastest of all strategies of one model, and the fastest with sharded and with plain data parallelism.

    Args:
        graph: the model, at any batch.
        global_batch: samples of a step.
        fabric: of A100s.
        prices: of the fabric, where several models are searched there.
    """
    chip = load_accelerator("a100").flat()
    on = Cluster(name="sipml", ranks=fabric.ranks, accelerator=chip, fabric=fabric, training=_SETTINGS)
    try:
        request = SearchRequest(
            global_batches=[global_batch], algorithms=ALGORITHMS, strategies=STRATEGIES, compare=False
        )
        outcome = search(graph, on, request, prices=prices)
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
