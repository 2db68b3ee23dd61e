"""The order in which links serve the rows of a queued schedule: list scheduling over paths of links."""

from __future__ import annotations

import numpy as np

from lightloom.collectives.cost.packet_queues import hops_of
from lightloom.collectives.cost.queued import cells_of
from lightloom.collectives.schedule.columns import Schedule
from lightloom.fabrics.base import Fabric


def listed(schedule: Schedule, fabric: Fabric) -> Schedule:
    """The same rows in the order in which they can begin; of a group of ranks, which shares its links, as they are.

    Time: linear in rows, times the rows that wait for a link.
    """
    from lightloom.collectives.synthesis.packets import _order_kernels as kernels

    if len(fabric.siblings()[1]) > 1:
        return schedule
    by_step = np.argsort(schedule.step, kind="stable")
    schedule = schedule.with_columns({name: column[by_step] for name, column in schedule.columns().items()})
    hops, (origin, target, held) = hops_of(schedule, fabric), cells_of(schedule)
    begins = np.searchsorted(hops.row, np.arange(len(schedule) + 1))
    rows = kernels.OrderedRows(origin, target, schedule.reduces, begins, hops.link, hops.busy, hops.delay)
    link, turn = hops.link[begins[:-1]], np.empty(len(schedule), np.int64)
    ranked = np.lexsort((-kernels.seconds_left(rows, len(held)), link))
    place = np.empty(len(ranked), np.int64)
    place[ranked] = np.arange(len(ranked))
    first = np.searchsorted(link[ranked], np.arange(fabric.links + 1))
    kernels.list_order(rows, kernels.Urgency(first, ranked, place), held, turn)
    order = np.argsort(turn)
    columns = {name: column[order] for name, column in schedule.columns().items()}
    return schedule.with_columns(columns | {"step": np.arange(len(schedule))}, steps=len(schedule))
