"""Section 3.1 and 3.2: duty cycles, circuits of a node, and how many peers the distance rule really allows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from lightloom.core.claims import Claim
from lightloom.core.errors import InputError
from lightloom.fabrics.circuit_switch import CircuitSwitch
from lightloom.fabrics.load import load_fabric
from lightloom.parallelism.circuits import Timing, Traffic, switch
from lightloom.parallelism.hybrid import HybridPlan
from lightloom.parallelism.placement.base import Link, Placement, Reach
from lightloom.parallelism.placement.check import check
from lightloom.studies.sipml import PAPER
from lightloom.studies.sipml.paper import HOLD_10, OCS_DEGREE, RECONFIGURATION
from lightloom.studies.sipml.small_graphs import balanced_graph

DUTY = {"10r": Timing(HOLD_10, 1.0), "100us_20us": Timing(100e-6, 20e-6), "4r": Timing(4.0, 1.0)}
"""Timing of the duty cycles by name."""
DEGREE, DEVICES = 3, 8
"""Δ and k of the constructed case: 2 Δ < k, so that all peers differ."""


class Peers(NamedTuple):
    """Numbers of peers of the devices of a group."""

    most: int
    """Largest number of peers of a device, for activations and gradients."""
    readers: int
    """Number of peers that it sends activations to."""


def claims() -> tuple[Claim, ...]:
    """Return the rows of sections 3.1 and 3.2."""
    return (*_duty(), *_fabrics(), *_distance_rule())


def forward_case(degree: int = DEGREE, devices: int = DEVICES) -> HybridPlan:
    """Two operators with a part on every device; part i of the second reads parts i − Δ ... i of the first.

    Every edge keeps (i − j) mod k ≤ Δ, and the placement passes the independent check under that rule.
    """
    edges = [((i - back) % devices, devices + i) for i in range(devices) for back in range(degree + 1)]
    balanced = balanced_graph("forward-case", (devices, devices), edges)
    link, seconds = Link(bandwidth=1e12), 1e-6
    arrival = np.repeat([0.0, seconds + 1e3 / link.bandwidth], devices)
    last = float(arrival[-1] + seconds)
    placement = Placement(
        device=np.tile(np.arange(devices, dtype=np.int32), 2),
        devices=devices,
        reach=Reach(degree, "forward"),
        link=link,
        start=arrival,
        end=arrival + seconds,
        backward_start=last + arrival[::-1],
        backward_end=last + arrival[::-1] + seconds,
        makespan=2 * last,
        repaired=0,
        method="constructed",
    )
    check(placement, balanced)
    return HybridPlan(placement, balanced, devices, 2)


def peers(plan: HybridPlan) -> Peers:
    """Return the peers inside a group, from the traffic of an iteration and from the edges of the graph."""
    sent = plan.traffic.model_parallel.toarray()[: plan.k, : plan.k] > 0
    balanced, device = plan.balanced, plan.placement.device
    reader = np.repeat(np.arange(balanced.size), np.diff(balanced.parent_start))
    ways = {(a, b) for a, b in zip(device[balanced.parent].tolist(), device[reader].tolist(), strict=True) if a != b}
    readers = max(sum(a == d for a, _ in ways) for d in range(plan.k))
    return Peers(int((sent | sent.T).sum(axis=1).max()), readers)


def refusal(plan: HybridPlan, degree: int) -> str:
    """Return why so many circuits per rank cannot serve a plan; empty if they can."""
    fabric = CircuitSwitch(ranks=plan.ranks, degree=degree)
    try:
        switch.assign(Traffic.of(plan.traffic.total), fabric)
    except InputError as error:
        return str(error)
    return ""


def least_degree(plan: HybridPlan) -> int:
    """Return the fewest planes on which every communicating pair has a circuit."""
    return next(degree for degree in range(1, plan.ranks) if not refusal(plan, degree))


def _duty() -> list[Claim]:
    return [PAPER.claim(f"example.duty_{name}", round(100 * DUTY[name].duty_cycle, 2)) for name in DUTY]


def _fabrics() -> Iterator[Claim]:
    fabric = CircuitSwitch(ranks=64, degree=OCS_DEGREE)
    ring, ocs = load_fabric("sip-ring", 64), load_fabric("circuit-switch", 64)
    yield PAPER.claim("example.ocs_degree", fabric.channels, paper=OCS_DEGREE)
    yield PAPER.claim("example.ring_reconfiguration", ring.setup_time * 1e6, paper=RECONFIGURATION["sip-ring"] * 1e6)
    yield PAPER.claim(
        "example.ocs_reconfiguration", ocs.setup_time * 1e3, paper=RECONFIGURATION["circuit-switch"] * 1e3
    )


def _distance_rule() -> Iterator[Claim]:
    plan = forward_case()
    counted, needed = peers(plan), least_degree(plan)
    case = f"k = {DEVICES}, Δ = {DEGREE}, part i of one operator reads parts i − Δ ... i of the one before"
    yield PAPER.claim("example.readers_by_distance", counted.readers, paper=DEGREE, case=case)
    yield PAPER.claim("example.peers_by_distance", counted.most, paper=DEGREE, case=case)
    yield PAPER.claim("example.degree_by_distance", needed, paper=DEGREE + 1, refusal=refusal(plan, DEGREE + 1))
