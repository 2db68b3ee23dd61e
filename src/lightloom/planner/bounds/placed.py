"""Lower bounds of placed plans, for columns of rows and without any partition.

    longest chain   each operator in the parts that the partition will make, forward and then back
    computing       all operators and the update, divided by the devices
    exchange        no gradient exists before the first parameters' backward pass; what a device then sends to the
                    next group, on average, takes all circuits it can have, and on a ring all that cross each link

A bound never lies above the simulated step (:func:`~lightloom.simulation.placed_step.simulate_placed`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lightloom.core.arrays import Floats, Ints
from lightloom.fabrics.base import Fabric
from lightloom.planner.pricing.placed_space import PartTable, PlacedRows, blocks
from lightloom.planner.pricing.stage_times import Job, sent_ratio
from lightloom.workloads.graph import ComputeGraph

ROUNDING = 1 - 1e-9
"""Sums in another order than the simulator's."""


class Best(NamedTuple):
    """What no circuits of a fabric exceed."""

    rate: float
    """Bytes per second out of, and into, a rank."""
    link_rate: float
    """Bytes per second on the links between two neighbours of a WDM ring, both ways together; infinite elsewhere."""
    latency: float
    """Seconds between the two nearest ranks."""


def best(fabric: Fabric) -> Best:
    """Of all circuits that a fabric can have."""
    ring = fabric.exclusive and fabric.wavelength_routed
    return Best(
        rate=fabric.total_receive_bandwidth() / fabric.ranks,
        link_rate=2 * fabric.channels * fabric.channel_bandwidth if ring else float("inf"),
        latency=fabric.neighbour_latency(),
    )


def exchange_latency(fabric: Fabric, k: int) -> float:
    """Seconds of propagation in a ring all-reduce between groups of k neighbours; 0 for one group."""
    if fabric.ranks == k:
        return 0.0
    ranks = np.arange(fabric.ranks)
    after = (ranks + k) % fabric.ranks
    ways = [fabric.latency(ranks, after, np.full(fabric.ranks, way)).min() for way in range(fabric.routes)]
    return 2 * (fabric.ranks // k - 1) * float(min(ways))


@dataclass(frozen=True, slots=True, kw_only=True)
class CoarseBound:
    """Columns [rows] that need no partition."""

    bound: Floats
    """Seconds of a step."""
    sub_operators: Ints
    memory: Floats
    """Bytes that some device holds at least."""


def coarse_bound(job: Job, table: PartTable, rows: PlacedRows) -> CoarseBound:
    """Bound the step time of every row from below."""
    parts = [_look(job, table, rows.rows(which)) for which in blocks(len(rows))]
    columns = ("bound", "sub_operators", "memory")
    joined = {name: np.concatenate([getattr(each, name) for each in parts] or [np.empty(0)]) for name in columns}
    return CoarseBound(**joined)


def _look(job: Job, table: PartTable, rows: PlacedRows) -> CoarseBound:
    none = np.zeros(len(rows), np.int64)
    forward, backward = job.operator_times(rows.samples, none + 1, none)
    parts, share = table.parts(rows, forward)
    parameters = job.columns["parameters"] * table.placed
    total = (forward + backward)[:, table.placed].sum(axis=1)
    update = job.accelerator.memory_time(float(parameters.sum() * job.settings.optimizer_traffic_bytes))
    last, first = _chain(job.graph, table, forward * share, backward * share, parameters)
    exchange = np.where(rows.l > 1, first + _exchange(job, rows, float(parameters.sum())), 0.0)
    settings = job.settings
    state = settings.stored_parameter_bytes + settings.gradient_bytes + settings.optimizer_state_bytes
    held = parameters.sum() * state + job.outputs(rows.samples)[:, table.placed].sum(axis=1)
    return CoarseBound(
        bound=np.maximum.reduce([(total + update) / rows.k, last, exchange]) * ROUNDING,
        sub_operators=parts.sum(axis=1),
        memory=held / rows.k,
    )


def _chain(
    graph: ComputeGraph, table: PartTable, forward: Floats, backward: Floats, parameters: Ints
) -> tuple[Floats, Floats]:
    """Seconds until the last backward pass has ended, and until the first one that makes gradients of parameters.

    Every part reads some part of every producer, so that no chain of operators is shorter than that of their smallest
    parts.
    """
    index = {each.name: number for number, each in enumerate(graph.operators)}
    inputs = [[index[name] for name in each.inputs if table.placed[index[name]]] for each in graph.operators]
    readers: list[list[int]] = [[] for _ in inputs]
    there, back = np.zeros((2, len(inputs), len(forward)))
    for number in np.flatnonzero(table.placed).tolist():
        for source in inputs[number]:
            readers[source].append(number)
            np.maximum(there[number], there[source], out=there[number])
        there[number] += forward[:, number]
    for number in np.flatnonzero(table.placed)[::-1].tolist():
        back[number] = there[number]
        for reader in readers[number]:
            np.maximum(back[number], back[reader], out=back[number])
        back[number] += backward[:, number]
    owners = np.flatnonzero(parameters > 0)
    last = back.max(axis=0, initial=0.0)
    return last, back[owners].min(axis=0) if len(owners) else last


def _exchange(job: Job, rows: PlacedRows, parameters: float) -> Floats:
    """Seconds of the data-parallel exchange over the best circuits: [rows]."""
    fabric, of = job.fabric, best(job.fabric)
    nbytes = 2 * (rows.l - 1) / rows.l * parameters * job.settings.gradient_bytes / rows.k
    away = np.minimum(rows.k, fabric.ranks - rows.k)
    sizes, which = np.unique(rows.k, return_inverse=True)
    latency = np.array([exchange_latency(fabric, int(k)) for k in sizes])[which]
    sending = nbytes / sent_ratio(job, rows.ratio) * np.maximum(1 / of.rate, away / of.link_rate)
    return sending + np.where(nbytes > 0, latency, 0.0)
