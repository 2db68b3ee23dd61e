"""Build, verify, cost and bound in one go: what the commands and the planner ask for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lightloom.collectives.bounds.lower_bound import Bound, lower_bound
from lightloom.collectives.cost.price import Cost, CostModel
from lightloom.collectives.cost.stepped import CircuitChanges, CodecTimes, cost
from lightloom.collectives.registry import Algorithm, build
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.spec import Collective
from lightloom.core.errors import BoundError
from lightloom.fabrics.base import Fabric

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A verified schedule with its cost and the bound it was held against."""

    algorithm: Algorithm
    schedule: Schedule
    cost: Cost
    bound: Bound


def evaluate(algorithm: Algorithm, collective: Collective, fabric: Fabric, model: CostModel = "physical") -> Evaluation:
    """Build and verify, then cost.

    Raises:
        UnsupportedError: the algorithm cannot serve this.
        VerificationError: the schedule is wrong.
        BoundError: the cost lies below the bound, so that one of the two is wrong.
    """
    schedule = build(algorithm, collective, fabric)
    return Evaluation(algorithm, schedule, *costed(schedule, fabric, model))


def costed(
    schedule: Schedule,
    fabric: Fabric,
    model: CostModel = "physical",
    changes: CircuitChanges | None = None,
    codec: CodecTimes | None = None,
) -> tuple[Cost, Bound]:
    """Cost of a schedule that was verified, checked against its bound."""
    price, bound = cost(schedule, fabric, model, changes, codec), lower_bound(schedule.collective, fabric, model)
    if price.time < bound.time * (1 - _ROUNDING):
        raise BoundError(
            f"{schedule.algorithm} on {fabric.ranks} ranks costs {price.time} s, below the lower bound of "
            f"{bound.time} s set by {bound.bound_by}"
        )
    return price, bound


def fastest_first(evaluations: Iterable[Evaluation]) -> list[Evaluation]:
    """Sorted by time, then by name."""
    return sorted(evaluations, key=lambda each: (each.cost.time, each.algorithm.name))
