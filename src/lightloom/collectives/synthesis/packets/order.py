"""The order in which links serve the rows of a queued schedule: list scheduling over paths of links."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lightloom.collectives.cost.packet_queues import Hops, hops_of
from lightloom.collectives.cost.queued import cells_of
from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.arrays import Mask, read_only
from lightloom.fabrics.base import Fabric

if TYPE_CHECKING:
    from lightloom.collectives.synthesis.packets._order_kernels import OrderedRows


def listed(schedule: Schedule, fabric: Fabric) -> Schedule:
    """The same rows in the order in which they can begin; of a group of ranks, which shares its links, as they are.

    Where all rows add, they are listed backwards, as the copies that they would be in a schedule that ran the other way
    in time: what waits for many is late there, and sums wait for as little as possible.

    Time: linear in rows, times the rows that wait for a link.
    """
    from lightloom.collectives.synthesis.packets import _order_kernels as kernels

    if len(fabric.siblings()[1]) > 1:
        return schedule
    backward = bool(schedule.reduces.all())
    by_step = np.argsort(-schedule.step if backward else schedule.step, kind="stable")
    schedule = schedule.with_columns({name: column[by_step] for name, column in schedule.columns().items()})
    hops, (origin, target, held) = hops_of(schedule, fabric), cells_of(schedule)
    begins = np.searchsorted(hops.row, np.arange(len(schedule) + 1))
    rows = kernels.OrderedRows(origin, target, read_only(schedule.reduces), begins, hops.link, hops.busy, hops.delay)
    if backward:
        rows, held = _backward(rows, hops, len(held))
    link, turn = rows.link[begins[:-1]], np.empty(len(schedule), np.int64)
    ranked = np.lexsort((-kernels.seconds_left(rows, len(held)), link))
    place = np.empty(len(ranked), np.int64)
    place[ranked] = np.arange(len(ranked))
    first = np.searchsorted(link[ranked], np.arange(fabric.links + 1))
    kernels.list_order(rows, kernels.Urgency(first, ranked, place), held, turn)
    order = np.argsort(-turn if backward else turn)
    columns = {name: column[order] for name, column in schedule.columns().items()}
    return schedule.with_columns(columns | {"step": np.arange(len(schedule))}, steps=len(schedule))


def _backward(rows: OrderedRows, hops: Hops, cells: int) -> tuple[OrderedRows, Mask]:
    """The rows as copies that run the other way, over the same links from the last to the first, and the cells that
    hold data from the start."""
    from lightloom.collectives.synthesis.packets import _order_kernels as kernels

    count = np.diff(rows.begins)
    place = np.arange(len(rows.link)) - rows.begins[hops.row]
    turned = rows.begins[hops.row] + count[hops.row] - 1 - place
    following = np.append(rows.busy[1:], 0.0)
    slower = np.where(hops.last, rows.busy, np.maximum(rows.busy - following, 0.0))
    latency, busy, ends = (rows.delay - slower)[turned], rows.busy[turned], hops.first[turned]
    delay = latency + np.where(ends, busy, np.maximum(busy - np.append(busy[1:], 0.0), 0.0))
    held = np.ones(cells, np.bool_)
    held[rows.origin] = False
    copied = read_only(np.zeros_like(rows.reduces))
    return kernels.OrderedRows(rows.target, rows.origin, copied, rows.begins, rows.link[turned], busy, delay), held
