"""Lower bounds of placed plans: for columns of rows without any partition, and of one plan before and with circuits.

Rows without a partition:

    longest chain   each operator in the parts that the partition will make, forward and then back
    computing       all operators and the update, divided by the devices
    exchange        no gradient exists before the first parameters' backward pass; what a device then sends to the
                    next group, on average, takes all circuits it can have, and on a ring all that cross each link

One plan, before it has circuits and with them:

    device     it cannot start before its first input, computes all that it has, and updates what it holds
    path       forward and back through the placed graph, a transfer between devices at the best rate there is
    gradients  none exists before the first backward pass of an operator with parameters; sums over copies and what
               goes to the next group follow
    bytes      of each port that sends or receives, of the links of a ring, of each pipe, over their rates

A bound never lies above the simulated step (:func:`~lightloom.simulation.placed_step.simulate_placed`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lightloom.core.arrays import Floats, Ints
from lightloom.fabrics.base import Fabric
from lightloom.parallelism.circuits.pipes import GroupCircuits
from lightloom.parallelism.hybrid import HybridPlan
from lightloom.planner.gradients.priced import sent_ratio
from lightloom.planner.pricing.job import Job
from lightloom.planner.pricing.placed_space import PartTable, PlacedRows, blocks, shared_state_bytes, state_bytes
from lightloom.simulation.placed_work import updated_parameters
from lightloom.workloads.graph import ComputeGraph

ROUNDING = 1 - 1e-9
"""Sums in another order than the simulator's."""


class FastestLink(NamedTuple):
    """What no circuits of a fabric exceed."""

    rate: float
    """Bytes per second out of, and into, a rank; infinite where there is no other."""
    link_rate: float
    """Bytes per second on the links between two neighbours of a WDM ring, both ways together; infinite elsewhere."""
    latency: float
    """Seconds between the two nearest ranks."""


def fastest_link(fabric: Fabric) -> FastestLink:
    """Return what no circuits of a fabric exceed."""
    ring = fabric.exclusive and fabric.wavelength_routed
    return FastestLink(
        rate=fabric.total_receive_bandwidth() / fabric.ranks if fabric.ranks > 1 else float("inf"),
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
    parts = [_bound_of_block(job, table, rows.rows(block)) for block in blocks(len(rows))]
    columns = ("bound", "sub_operators", "memory")
    joined = {name: np.concatenate([getattr(part, name) for part in parts] or [np.empty(0)]) for name in columns}
    return CoarseBound(**joined)


def _bound_of_block(job: Job, table: PartTable, rows: PlacedRows) -> CoarseBound:
    parts, (forward, backward), totals = table.parts(rows, job.operators)
    parameters = job.model.columns["parameters"] * table.placed
    # The host of a device launches what the device computes of an operator, however little.
    total = np.zeros(len(rows))
    for seconds, launched in zip(totals, job.operators.launches(rows.recomputation), strict=True):
        launching = np.where(seconds > 0, launched, 0.0)
        total += np.maximum(seconds[:, table.placed].sum(axis=1), launching[:, table.placed].sum(axis=1))
    every_step = job.accelerator.update_time(0.0)
    update = job.accelerator.update_time(float(parameters.sum() * job.settings.optimizer_traffic_bytes)) - every_step
    last, first = _chain(job.graph, table, forward, backward, parameters)
    exchange = np.where(rows.l > 1, first + _exchange(job, rows, float(parameters.sum())), 0.0)
    settings = job.settings
    of_copy, of_owned = shared_state_bytes(settings, rows.l.astype(np.float64))
    state = np.minimum(state_bytes(settings), of_copy + of_owned)
    outside = table.placed & (job.model.columns["in_block"] == 0)
    kept = job.model.columns.kept(rows.samples)
    kept = np.where(rows.recomputation == 0, kept[:, table.placed].sum(axis=1), kept[:, outside].sum(axis=1))
    held = parameters.sum() * state + kept
    earlier = (rows.micro_batches - 1) * np.maximum(total / rows.k, last)
    working = (total + update / rows.l) / rows.k + every_step
    return CoarseBound(
        bound=(np.maximum.reduce([working, last, exchange]) + earlier) * ROUNDING,
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
    index = {operator.name: number for number, operator in enumerate(graph.operators)}
    inputs = [[index[name] for name in operator.inputs if table.placed[index[name]]] for operator in graph.operators]
    readers: list[list[int]] = [[] for _ in inputs]
    forward_end, backward_end = np.zeros((2, len(inputs), len(forward)))
    for number in np.flatnonzero(table.placed).tolist():
        for source in inputs[number]:
            readers[source].append(number)
            np.maximum(forward_end[number], forward_end[source], out=forward_end[number])
        forward_end[number] += forward[:, number]
    for number in np.flatnonzero(table.placed)[::-1].tolist():
        backward_end[number] = forward_end[number]
        for reader in readers[number]:
            np.maximum(backward_end[number], backward_end[reader], out=backward_end[number])
        backward_end[number] += backward[:, number]
    owners = np.flatnonzero(parameters > 0)
    last = backward_end.max(axis=0, initial=0.0)
    return last, backward_end[owners].min(axis=0) if len(owners) else last


def _exchange(job: Job, rows: PlacedRows, parameters: float) -> Floats:
    """Seconds of the data-parallel exchange over the best circuits: [rows]."""
    fabric, link = job.fabric, fastest_link(job.fabric)
    nbytes = 2 * (rows.l - 1) / rows.l * parameters * job.settings.gradient_bytes / rows.k
    stride = np.minimum(rows.k, fabric.ranks - rows.k)
    sizes, which = np.unique(rows.k, return_inverse=True)
    latency = np.array([exchange_latency(fabric, int(k)) for k in sizes])[which]
    sending = nbytes / sent_ratio(job.settings, rows.ratio) * np.maximum(1 / link.rate, stride / link.link_rate)
    return sending + np.where(nbytes > 0, latency, 0.0)


class _Flows(NamedTuple):
    """Bytes [k, 2 k] that devices of one group send in a step; columns as the pipes' destinations."""

    total: Floats
    gradients: Floats
    """Those of gradients of parameters."""


class _Path(NamedTuple):
    step: float
    """Seconds of a step at least."""
    gradient: float
    """Seconds before which no gradient of parameters exists."""


def structure_bound(job: Job, plan: HybridPlan, ratio: float) -> float:
    """Seconds that no circuits make the plan's step fall below.

    Args:
        job: where it runs.
        plan: placed.
        ratio: bytes of a gradient as float32 for each byte sent to the next group.
    """
    link, flows = fastest_link(job.fabric), _flows(job, plan, ratio)
    sending = np.diagonal(flows.total, plan.k) / link.rate + exchange_latency(job.fabric, plan.k)
    path = _path(job, plan, plan.balanced.nbytes / link.rate + link.latency, sending)
    return ROUNDING * max(path.step, _bytes(job, plan, flows.total), path.gradient + _bytes(job, plan, flows.gradients))


def circuits_bound(job: Job, plan: HybridPlan, circuits: GroupCircuits, ratio: float) -> float:
    """Seconds that the plan's step takes at least over the circuits that are granted to it; arguments as above."""
    link, k, flows = fastest_link(job.fabric), plan.k, _flows(job, plan, ratio)
    rate, latency = np.full((k, 2 * k), link.rate), np.full((k, 2 * k), link.latency)
    pipe, fastest = (circuits.source, circuits.destination), circuits.bandwidth.max(axis=0)
    lit = fastest > 0
    rate[circuits.source[lit], circuits.destination[lit]] = fastest[lit]
    latency[circuits.source[lit], circuits.destination[lit]] = circuits.latency[lit]
    reader = np.repeat(np.arange(plan.balanced.size), np.diff(plan.balanced.parent_start))
    ways = plan.placement.device[plan.balanced.parent], plan.placement.device[reader]
    # A gradient takes the other pipe; the better of both ways stands for both.
    forward = latency[ways] + plan.balanced.nbytes / rate[ways]
    backward = latency[ways[::-1]] + plan.balanced.nbytes / rate[ways[::-1]]
    sending = np.diagonal(flows.total, k) / np.diagonal(rate, k) + exchange_latency(job.fabric, k)
    path = _path(job, plan, np.minimum(forward, backward), sending)
    total, gradients = (_busiest(circuits, sent[pipe]) for sent in flows)
    return ROUNDING * max(path.step, total, path.gradient + gradients)


def _flows(job: Job, plan: HybridPlan, ratio: float) -> _Flows:
    balanced, device, k = plan.balanced, plan.placement.device, plan.k
    total, gradients = np.zeros((2, k, 2 * k))
    total[:, :k] = HybridPlan(plan.placement, balanced, k, 1).traffic.model_parallel.toarray()
    copied = np.flatnonzero(device != np.roll(device, 1))
    for one, other in ((copied - 1, copied), (copied, copied - 1)):
        np.add.at(gradients, (device[one], device[other]), balanced.synchronised[copied])
    onward = plan.all_reduce_bytes / sent_ratio(job.settings, np.array(ratio))
    for flow in (total, gradients):
        flow[np.arange(k), np.arange(k) + k] = onward
    return _Flows(total, gradients)


def _bytes(job: Job, plan: HybridPlan, sent: Floats) -> float:
    """Seconds in which ports, and on a WDM ring all links together, carry bytes [k, 2 k] at least."""
    link, k, ranks = fastest_link(job.fabric), plan.k, job.fabric.ranks
    ports = np.maximum(sent.sum(axis=1), sent[:, :k].sum(axis=0) + sent[:, k:].sum(axis=0))
    device: Ints = np.arange(k)
    stride = np.abs(np.arange(2 * k) - device[:, None])
    links = float((sent * np.minimum(stride, ranks - stride)).sum()) / k
    return max(float(ports.max()) / link.rate, links / link.link_rate)


def _path(job: Job, plan: HybridPlan, transfer: Floats, sending: Floats) -> _Path:
    """Bounds by devices and along paths.

    Args:
        job: where it runs.
        plan: placed.
        transfer: [edges] seconds of a transfer, were it between devices.
        sending: [k] seconds of a device's exchange with the next group.
    """
    from lightloom.planner.bounds import _path_kernels as kernels

    balanced, device, k = plan.balanced, plan.placement.device, plan.k
    reader = np.repeat(np.arange(balanced.size), np.diff(balanced.parent_start))
    delay = np.where(device[balanced.parent] == device[reader], 0.0, transfer)
    forward_end, backward_end = kernels.longest_paths(
        balanced.parent_start, balanced.parent, delay, balanced.forward, balanced.backward
    )
    nbytes = updated_parameters(plan) * float(job.settings.optimizer_traffic_bytes)
    update = job.accelerator.update_time(nbytes)
    busy = np.bincount(device, balanced.forward + balanced.backward, k)
    begin, end, first = np.full(k, np.inf), np.zeros(k), np.full(k, np.inf)
    np.minimum.at(begin, device, forward_end - balanced.forward)
    np.maximum.at(end, device, backward_end)
    owner = balanced.parameters > 0
    np.minimum.at(first, device[owner], backward_end[owner])
    working = np.where(busy > 0, begin + busy, 0.0)
    exchanging = np.where(plan.all_reduce_bytes > 0, first + sending, 0.0)
    bound = np.maximum.reduce([working, end, exchanging]) + update
    # A part may hold copies and own no parameter itself.
    holds = np.bincount(balanced.operator[owner], minlength=len(balanced.operators))[balanced.operator] > 0
    return _Path(float(bound.max()), float(backward_end[holds].min(initial=np.inf)) if owner.any() else 0.0)


def _busiest(circuits: GroupCircuits, nbytes: Floats) -> float:
    """Seconds in which each pipe carries so many bytes [pipe], and the ports that several share all of theirs."""
    seconds = _shortest(circuits, nbytes)
    if circuits.timing is not None:
        return float(seconds.max(initial=0.0))
    return float(max(np.bincount(port, seconds).max(initial=0.0) for port in (circuits.port, circuits.entry)))


def _shortest(circuits: GroupCircuits, nbytes: Floats) -> Floats:
    """Seconds in which each pipe carries so many bytes at least: [pipe]; 0 for one without circuits."""
    fastest = circuits.bandwidth.max(axis=0)
    lit = np.where(fastest > 0, fastest, np.inf)
    if circuits.timing is None:
        return nbytes / lit
    cycle_bytes = circuits.bandwidth.sum(axis=0) * circuits.timing.hold
    cycles = np.maximum(np.ceil(nbytes / np.where(cycle_bytes > 0, cycle_bytes, np.inf)) - 1, 0.0)
    seconds: Floats = cycles * len(circuits.bandwidth) * circuits.timing.period + (nbytes - cycles * cycle_bytes) / lit
    return seconds
