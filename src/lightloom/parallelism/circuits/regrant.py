"""Circuits granted anew before every hold, from what waits: SiP-ML's dynamic traffic estimate (section 3.3)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lightloom.core.arrays import Floats
from lightloom.core.errors import UnsupportedError
from lightloom.fabrics.base import Fabric
from lightloom.fabrics.capabilities import NEEDS_CIRCUITS
from lightloom.parallelism.circuits.circuits import Timing
from lightloom.parallelism.circuits.group import default_timing, least_of_groups, pipes_of
from lightloom.parallelism.circuits.pipes import GroupCircuits
from lightloom.parallelism.circuits.play import longest_first
from lightloom.parallelism.circuits.tiled import longest_tiled
from lightloom.parallelism.circuits.traffic import Traffic
from lightloom.parallelism.circuits.verify import verify
from lightloom.parallelism.hybrid import HybridPlan

Regrant = Callable[[Floats], Floats]
"""Bytes per second [pipe] of the next hold from the bytes [pipe] that wait."""


def regrants(plan: HybridPlan, fabric: Fabric, timing: Timing | None = None) -> tuple[GroupCircuits, Regrant]:
    """For circuits granted anew before every hold: the pipes, and what grants them from the bytes that wait.

    Circuits go to the transfers that are still the longest, and none that a pair cannot fill (`play.longest_first`;
    on a ring of several groups the same in each, `tiled.longest_tiled`); every grant is verified. Nothing is relayed: a
    pipe without a circuit waits. ``bandwidth`` is that of one circuit a pipe.

    Raises:
        UnsupportedError: the fabric has no circuits, or another number of ranks, or nothing is to be sent.
    """
    matrix = plan.traffic.total
    if plan.ranks != fabric.ranks or not fabric.assigns_circuits or not matrix.sum() > 0:
        raise UnsupportedError(
            f"circuits granted from hold to hold on a {fabric.kind_name} of {fabric.ranks} ranks: {NEEDS_CIRCUITS}, of "
            f"{plan.ranks} ranks, and traffic"
        )
    timing = timing or default_timing(fabric)
    traffic, circuit_bytes = Traffic.of(matrix), fabric.channel_bandwidth * timing.hold
    pipe, source, destination = pipes_of(plan.k, traffic)

    def regrant(waiting: Floats) -> Floats:
        known = traffic.with_bytes(waiting[pipe])
        if fabric.wavelength_routed and plan.groups > 1:
            circuits = longest_tiled(known, fabric, plan.k, np.ceil(known.nbytes / circuit_bytes).astype(np.int64))
        else:
            circuits = longest_first(fabric)(known, circuit_bytes)
        verify(circuits, fabric)
        granted: Floats = least_of_groups(plan, circuits.counts(traffic), pipe)[0].astype(np.float64)
        return granted * fabric.channel_bandwidth

    latency = np.zeros(len(source))
    route = fabric.route(traffic.source, traffic.destination)
    np.maximum.at(latency, pipe, fabric.latency(traffic.source, traffic.destination, route) + fabric.step_overhead)
    pipes = GroupCircuits(
        plan.k,
        source,
        destination,
        bandwidth=np.full((1, len(source)), fabric.channel_bandwidth, np.float64),
        latency=latency,
        port=np.arange(len(source)),
        entry=np.arange(len(source)),
        timing=timing,
    )
    return pipes, regrant
