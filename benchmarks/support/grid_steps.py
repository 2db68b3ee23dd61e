"""Collectives of meshes and tori in steps, without the candidates that queue."""

from __future__ import annotations

from lightloom.collectives.collective import Collective
from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.synthesis.grid import doubling, rounds_and_trees
from lightloom.machines.fabrics.fabric import Fabric


def in_rounds(collective: Collective, fabric: Fabric) -> Schedule:
    """Return the fastest all-gather, reduce-scatter or all-reduce in steps."""
    schedules = [*rounds_and_trees(collective, fabric), *doubling(collective, fabric)]
    return min(schedules, key=lambda schedule: cost(schedule, fabric).time)
