"""Compute the rows of points, as a worker does. Points of a batch share a schedule or a traced model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, cast

from lightloom.clusters.base import Cluster
from lightloom.collectives.evaluate import evaluate
from lightloom.collectives.registry import find
from lightloom.collectives.spec import Collective
from lightloom.core.errors import ConfigError, InputError
from lightloom.planner.pricing.schedule_prices import SchedulePrices
from lightloom.planner.search.request import Pins, SearchRequest
from lightloom.planner.search.search import search
from lightloom.sweeps.code import code_version
from lightloom.sweeps.points import CollectivePoint, PlanPoint, Point
from lightloom.workloads.graph import ComputeGraph
from lightloom.workloads.load import load_workload

Row = dict[str, Any]
DONE, REFUSED, FAILED = "done", "refused", "failed"
_COLLECTIVES, _PLANS = 32, 8
"""Number of points in a batch: small, so that a killed process loses little; large, so that sharing pays."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Points of one family, with their keys, and the version of the code that must compute them."""

    code: str
    points: tuple[tuple[str, Point], ...]


def batches(points: Iterable[tuple[str, Point]]) -> list[Batch]:
    """Group points by family, in their order; every point is in one batch."""
    families: dict[tuple[object, ...], list[tuple[str, Point]]] = {}
    for key, point in points:
        families.setdefault(point.family, []).append((key, point))
    parts = []
    for members in families.values():
        first = members[0][1]
        most = _PLANS if isinstance(first, PlanPoint) else 1 if find(first.algorithm).by_size else _COLLECTIVES
        parts += [Batch(code_version(), tuple(members[at : at + most])) for at in range(0, len(members), most)]
    return parts


def compute(batch: Batch) -> list[tuple[str, Row]]:
    """Return the rows of a batch with their keys.

    Raises:
        ConfigError: this worker runs another version of the code than the process that made the batch.
    """
    if batch.code != code_version():
        raise ConfigError(f"a worker has code {code_version()}: expected {batch.code}, the same lightloom everywhere")
    built: dict[str, Any] = {}
    return [(key, _row(point, built)) for key, point in batch.points]


def _collective(point: CollectivePoint, built: dict[str, Any]) -> Row:
    """Return the row of a point; ``built`` holds the prices of the previous points, where one schedule serves all."""
    algorithm, fabric = find(point.algorithm), point.site.fabric
    reason = algorithm.refusal(point.kind, fabric, point.cost_model)
    if reason:
        return _refused(reason)
    collective = Collective(cast(Any, point.kind), fabric.ranks, point.nbytes)
    if algorithm.by_size:
        evaluation = evaluate(algorithm, collective, fabric, point.cost_model)
        cost, bound = evaluation.cost, evaluation.bound
    else:
        prices = built.setdefault("prices", SchedulePrices(algorithm, fabric, point.cost_model))
        cost, bound = prices.cost(collective.kind, collective.nbytes)
    return {
        "time_s": cost.time,
        "energy_j": cost.energy,
        "lower_bound_s": bound.time,
        "bound_by": bound.bound_by,
        "ratio": cost.time / bound.time if bound.time else None,
        "steps": cost.steps,
        "transmission_s": cost.transmission,
        "conversion_s": cost.conversion,
        "reconfiguration_s": cost.reconfiguration,
        "static_circuits": cost.static,
    }


def _plan(point: PlanPoint) -> Row:
    cluster = point.site.place
    assert isinstance(cluster, Cluster)
    graph = _graph(point.workload, point.workload_content, point.batch, point.sequence_length)
    training = cluster.training.model_copy(update={"batch_per_rank": point.batch})
    request = SearchRequest(
        global_batches=(point.batch * cluster.ranks,),
        strategies=(point.strategy,),
        algorithms=() if point.algorithm == "all" else (point.algorithm,),
        pins=Pins(recomputation="none"),
        cost_model=point.cost_model,
        overlap=point.overlap,
        must_fit=False,
    )
    plan = search(graph, replace(cluster, training=training, reference=None), request).winner
    return {
        "time_s": plan.step_time,
        "energy_j": plan.energy.total_j,
        **plan.ledger.figures(),
        **plan.breakdown,
        "communication_s": plan.communication_time,
        "memory_bytes": float(plan.memory),
        "fits_memory": plan.fits,
    }


@lru_cache(maxsize=2)
def _graph(workload: str, content: str, batch: int, sequence_length: int | None) -> ComputeGraph:  # noqa: ARG001 - a changed file is another model
    return load_workload(workload, batch=batch, sequence_length=sequence_length)


def _row(point: Point, built: dict[str, Any]) -> Row:
    row = point.columns() | {"status": DONE}
    if point.site.why:
        return row | _refused(point.site.why)
    try:
        return row | (_plan(point) if isinstance(point, PlanPoint) else _collective(point, built))
    except InputError as error:
        return row | _refused(str(error))
    except (MemoryError, OSError):
        raise  # The machine failed, not the point.
    except Exception as error:  # A plug-in may raise anything; the other points are computed.
        return row | {"status": FAILED, "why": f"{type(error).__name__}: {error}"}


def _refused(why: str) -> Row:
    return {"status": REFUSED, "why": " ".join(why.split())}
