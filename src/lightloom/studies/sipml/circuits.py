"""Section 3.3: circuits of small rings and switches, by the authors' integer program and by the fast way."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np

from lightloom.core.arrays import Floats
from lightloom.core.claims import Claim
from lightloom.core.errors import InputError
from lightloom.fabrics.circuit_switch import CircuitSwitch
from lightloom.fabrics.wdm_ring import WdmRing
from lightloom.parallelism.circuits import Assignment, Traffic, milp, ring, switch, verify
from lightloom.parallelism.circuits.circuits import least_service
from lightloom.parallelism.circuits.ring_bound import relax
from lightloom.studies.sipml import PAPER

UNIFORM = {(4, 4): 2, (4, 8): 4, (5, 16): 5, (8, 8): 1, (8, 16): 2}
"""All-to-all, (nodes, wavelengths each way): circuits of every pair, one fibre."""
NEIGHBOUR = ((8, 8), 9)
"""Every node to the next one clockwise: eight circuits that way and one the other way round."""
LONG = (6, 4, 4)
"""Nodes, links clockwise to the one reader of each, wavelengths: counts fit that no wavelengths can."""


class RingCase(NamedTuple):
    """Circuits of one traffic matrix on one ring."""

    traffic: Traffic
    fabric: WdmRing
    optimum: float
    """Circuits of the worst pair by the integer program: link loads, no wavelengths."""
    unassigned: int
    """Circuits of that program's answer for which no wavelength was found."""
    fast: Assignment


def all_to_all(nodes: int) -> Floats:
    """Return the traffic matrix with one byte between all pairs."""
    return np.ones((nodes, nodes)) - np.eye(nodes)


def ahead(nodes: int, links: int) -> Floats:
    """Return the traffic matrix with one byte from every node to the node so many links clockwise."""
    return np.roll(np.eye(nodes), links, axis=1)


@cache
def all_to_all_case(nodes: int, wavelengths: int) -> RingCase:
    """Return the circuits of a uniform all-to-all."""
    return solve(all_to_all(nodes), wavelengths)


def solve(matrix: Floats, wavelengths: int) -> RingCase:
    """Assign circuits by the integer program and by the fast algorithm, and verify them."""
    traffic, fabric = Traffic.of(matrix), WdmRing(ranks=len(matrix), wavelengths=wavelengths)
    counted = milp.solve_ring(traffic, fabric)
    circuits, unassigned = ring.realise(traffic, fabric, counted.counts)
    fast = ring.assign(traffic, fabric)
    for each in (circuits, fast.circuits):
        verify(each, fabric)
    return RingCase(traffic, fabric, least_service(counted.counts.sum(axis=1), traffic), unassigned, fast)


def claims() -> tuple[Claim, ...]:
    """Return the rows of section 3.3."""
    return (*_rings(), *_continuity(), *_switches())


def _rings() -> Iterator[Claim]:
    cases = [(f"all_to_all_{n}_{w}", all_to_all_case(n, w), t) for (n, w), t in UNIFORM.items()]
    (nodes, wavelengths), expected = NEIGHBOUR
    cases.append((f"neighbour_{nodes}_{wavelengths}", solve(ahead(nodes, 1), wavelengths), expected))
    for name, case, expected in cases:
        values = {"paper": expected, "name": name, "case": case}
        yield PAPER.claim("example.ring_{name}_program", case.optimum, **values)
        yield PAPER.claim("example.ring_{name}_fast", case.fast.max_min, **values)


def _continuity() -> Iterator[Claim]:
    nodes, links, wavelengths = LONG
    case = solve(ahead(nodes, links), wavelengths)
    bound = relax(case.traffic, case.fabric).service
    yield PAPER.claim(
        "example.ring_counts_without_wavelengths",
        case.fast.max_min,
        paper=case.optimum,
        nodes=nodes,
        wavelengths=wavelengths,
        links=links,
        bound=bound,
        case=case,
    )


def _switches() -> Iterator[Claim]:
    planes, ranks = 3, 5
    traffic, fabric = Traffic.of(all_to_all(ranks)), CircuitSwitch(ranks=ranks, degree=planes)
    try:
        milp.solve_permutations(traffic, fabric)
        refused = ""
    except InputError as error:
        refused = str(error)
    granted = switch.fill_ports(traffic, planes, np.zeros(len(traffic), np.int64))
    square = Traffic.of(all_to_all(4))
    exact = milp.solve_permutations(square, CircuitSwitch(ranks=4, degree=6))
    fast = switch.assign(square, CircuitSwitch(ranks=4, degree=6))
    yield PAPER.claim("example.ocs_more_peers_than_switches", least_service(granted, traffic), refused=refused)
    yield PAPER.claim("example.ocs_all_to_all_4_6", fast.max_min, paper=least_service(exact.counts.sum(axis=1), square))
