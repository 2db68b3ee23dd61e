"""The busiest links of the steps of a schedule on a packet fabric.

Steps repeat: all steps of a ring send from every rank to the same neighbour, and the exchange of all pairs is the same
step of a gather, of a scatter and of an all-to-all. So the links of equal steps are counted once, and what was counted
is kept for later schedules on the same fabric. A transfer along a line of a grid adds to the two ends of its run
instead of to every link of it.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from lightloom.collectives.cost.order import BLOCK
from lightloom.collectives.schedule.columns import Folding, Schedule
from lightloom.core.arrays import Floats, Ints
from lightloom.core.effort import Effort
from lightloom.fabrics.base import Fabric

_MOST_KEPT: Effort = 1 << 16
"""Steps that are kept."""
_DENSE: Effort = 8
"""Steps with more rows than ranks² over this are counted pair by pair."""


class StepLoad(NamedTuple):
    """What one step loads."""

    chunks: Ints
    """Most chunks on a link of each class: [class]."""
    latency: float
    """Seconds of the longest way."""


class _Transfers(NamedTuple):
    """Transfers of one step: arrays [transfer]."""

    source: Ints
    destination: Ints
    route: Ints
    chunks: Ints


_kept: OrderedDict[tuple[str, bytes], StepLoad] = OrderedDict()


def busiest_links(schedule: Schedule, fabric: Fabric, link_class: Ints) -> tuple[Ints, Floats]:
    """Most chunks that a link of each class carries in each step, and seconds of the longest way.

    Args:
        schedule: one of steps, folded or not.
        fabric: a packet fabric.
        link_class: class of each link: [link].

    Returns:
        Arrays of shape [class, step] and [step].
    """
    classes = int(link_class.max()) + 1
    most, latency = np.zeros((classes, schedule.steps), np.int64), np.zeros(schedule.steps)
    # Bandwidths are fields of the fabric, so that its classes of links are too.
    of_fabric = "/".join((*fabric.implementation, fabric.model_dump_json(exclude={"sources"})))
    folding = schedule.folding or Folding.alike(fabric.ranks, fabric.ranks)
    of_fabric += f"/{folding.period}/{folding.axes}"
    order = np.argsort(schedule.step, kind="stable") if np.any(schedule.step[1:] < schedule.step[:-1]) else None
    columns = [
        column if order is None else column[order] for column in (schedule.source, schedule.destination, schedule.route)
    ]
    step = schedule.step if order is None else schedule.step[order]
    begins = np.searchsorted(step, np.arange(schedule.steps + 1))
    for number, (begin, end) in enumerate(pairwise(begins.tolist())):
        if begin < end:
            load = _step_load([column[begin:end] for column in columns], folding, fabric, link_class, of_fabric)
            most[:, number], latency[number] = load
    return most, latency


def _step_load(columns: list[Ints], folding: Folding, fabric: Fabric, link_class: Ints, of_fabric: str) -> StepLoad:
    """The load of the rows of a step, whose columns are source, destination and route, in all copies."""
    key = of_fabric, _digest(columns)
    if key not in _kept:
        transfers = _distinct(columns, fabric.ranks)
        same = of_fabric, _digest(list(transfers), b"distinct")
        if same not in _kept:
            _keep(same, _count(_in_all_copies(transfers, folding), fabric, link_class))
        _keep(key, _kept[same])
    _kept.move_to_end(key)
    return _kept[key]


def _digest(columns: list[Ints], what: bytes = b"rows") -> bytes:
    digest = blake2b(what, digest_size=16)
    for column in columns:
        digest.update(np.ascontiguousarray(column).data)
    return digest.digest()


def _keep(key: tuple[str, bytes], load: StepLoad) -> None:
    _kept[key] = load
    if len(_kept) > _MOST_KEPT:
        _kept.popitem(last=False)


def _distinct(columns: list[Ints], ranks: int) -> _Transfers:
    """Rows with the same ends and route as one transfer, in the same order for every order of the rows.

    Rows of few transfers that do not follow each other stay apart.
    """
    source, destination, route = (column.astype(np.int64) for column in columns)
    if len(source) * _DENSE > ranks * ranks and not route.any():
        # An in-network reducer is one rank more.
        chunks = np.bincount(source * (ranks + 1) + destination)
        pairs = np.flatnonzero(chunks)
        source, destination = np.divmod(pairs, ranks + 1)
        return _Transfers(source, destination, np.zeros_like(source), chunks[pairs])
    differs = (np.diff(source) != 0) | (np.diff(destination) != 0) | (np.diff(route) != 0)
    first = np.flatnonzero(np.concatenate([[True], differs]))
    return _Transfers(source[first], destination[first], route[first], np.diff(first, append=len(source)))


def _in_all_copies(transfers: _Transfers, folding: Folding) -> _Transfers:
    if folding.copies == 1:
        return transfers
    copy = np.arange(folding.copies)[:, None]
    source, destination = (folding.moved(rank, copy).ravel() for rank in (transfers.source, transfers.destination))
    route, chunks = (np.tile(column, folding.copies) for column in (transfers.route, transfers.chunks))
    return _Transfers(source, destination, route, chunks)


def _count(transfers: _Transfers, fabric: Fabric, link_class: Ints) -> StepLoad:
    from lightloom.collectives.cost import _cost_kernels as kernels

    on_link, change = np.zeros(fabric.links, np.int64), np.zeros(fabric.links + 1, np.int64)
    latencies: list[float] = []
    # A transfer of a group of ranks occupies the links of all sibling groups.
    block = max(BLOCK // len(fabric.siblings()[1]), 1)
    for begin in range(0, len(transfers.chunks), block):
        *ends, chunks = (column[begin : begin + block] for column in transfers)
        kernels.count_chunks(fabric.footprint(*ends), chunks, on_link, change)
        latencies.append(float(fabric.latency(*ends).max()))
    # In a switch that reduces, light runs up and down within one step, so the two delays follow each other.
    latency = fabric.diameter_latency() if fabric.in_network_reduction else max(latencies)
    most = np.zeros(int(link_class.max()) + 1, np.int64)
    kernels.most_chunks(on_link, change, link_class, most)
    return StepLoad(most, latency)
