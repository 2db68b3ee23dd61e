"""Fig. 4: four operators in sequence, split, placed on k = 4 devices with Δ = 2, repeated in l = 2 groups.

    A ──► B ──► C ──► D        A, B and D balanced; C in four parts on three devices, as B has only two peers

The text fixes that B is in one part and C in four. Assumed: the order of the names, one or two parts of A, four of D,
and that every part reads its own slice.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Literal

import numpy as np

from lightloom.core.claims import Claim
from lightloom.parallelism.hybrid import HybridPlan
from lightloom.parallelism.placement.balanced import BalancedGraph
from lightloom.parallelism.placement.base import Link, Reach
from lightloom.parallelism.placement.check import check
from lightloom.parallelism.placement.partition import partition
from lightloom.parallelism.placement.place import place
from lightloom.studies.sipml import PAPER
from lightloom.workloads.graph import ComputeGraph, Operator

Rule = Literal["peers", "forward"]
K, GROUPS, DEGREE = 4, 2, 3
"""k, l and D."""
_QUANTUM = 1e-6
_CHANNELS = 64


def parts(parts_of_a: int) -> dict[str, int]:
    """Number of parts by operator, in sequence."""
    return {"A": parts_of_a, "B": 1, "C": 4, "D": 4}


@cache
def split(parts_of_a: int = 2) -> BalancedGraph:
    """The balanced graph, Fig. 4 (b): every part takes one quantum, and half of it more so that no rounding decides.

    Depthwise convolutions, whose parts along the channels read their own slices and share no parameter.
    """
    wanted = parts(parts_of_a)
    operators = [
        Operator(
            name=name,
            kind="conv",
            inputs=(before,),
            dimensions={"sample": 1, "channel": _CHANNELS, "groups": _CHANNELS},
            parameter_bytes=36 * _CHANNELS,
            parameters=9 * _CHANNELS,
            activation_bytes=1024,
        )
        for before, name in zip(["input", *wanted], wanted, strict=False)
    ]
    start = Operator(name="input", kind="input", dimensions={"sample": 1, "channel": _CHANNELS})
    graph = ComputeGraph(name="figure-4", batch=1, operators=(start, *operators))
    forward = np.array([0.0, *((each + 0.5) * _QUANTUM for each in wanted.values())])
    return partition(graph, np.column_stack([forward, 2 * forward]), K, _QUANTUM)


@cache
def plan(rule: Rule = "peers", parts_of_a: int = 2) -> HybridPlan:
    """Fig. 4 (d): the paper's forward pass (``effort=0``: nothing searched), repeated in two groups."""
    balanced = split(parts_of_a)
    placement = place(balanced, K, Reach(DEGREE - 1, rule), None, Link(bandwidth=1e12), effort=0)
    check(placement, balanced)
    return HybridPlan(placement, balanced, K, GROUPS)


def devices(placed: HybridPlan) -> dict[str, list[int]]:
    """Return the devices of every operator's parts."""
    names, operator = placed.balanced.operators, placed.balanced.operator
    return {name: placed.placement.device[operator == place].tolist() for place, name in enumerate(names)}


def not_balanced(placed: HybridPlan) -> list[str]:
    """Return the operators that use fewer devices than they have parts, or than there are devices."""
    return [name for name, used in devices(placed).items() if len(set(used)) < min(K, len(used))]


def peers(placed: HybridPlan, device: int) -> list[int]:
    """Return the ranks that a device of the first group communicates with, including gradients."""
    sent = placed.traffic.total.toarray() > 0
    return [int(rank) for rank in np.flatnonzero((sent | sent.T)[device])]


def most_peers(placed: HybridPlan) -> int:
    """Return the number of peers in the group of the device that has most."""
    return max(sum(rank < K for rank in peers(placed, device)) for device in range(K))


def peers_of_gpu_1(placed: HybridPlan) -> list[int]:
    """Peers of the GPU that holds B, numbered from 1, the ring turned so that this is GPU 1."""
    home = devices(placed)["B"][0]
    return sorted((rank - home) % K + rank // K * K + 1 for rank in peers(placed, home))


def most_devices_of_c(degree: int = DEGREE - 1) -> int:
    """Devices that C's four parts can occupy when B, on device 0, has at most so many peers: all are tried."""
    return max(len(set(c)) for c in product(range(K), repeat=4) if len(set(c) - {0}) <= degree)


def claims() -> tuple[Claim, ...]:
    """The two properties of Fig. 4 (c), the example of (d), and what is impossible."""
    placed, formula, alone = plan(), plan("forward"), plan("forward", 1)
    used, most = len(set(devices(placed)["C"])), most_devices_of_c()
    return (
        PAPER.claim("figure4.most_peers", most_peers(placed), paper=DEGREE - 1),
        PAPER.claim(
            "figure4.most_peers_by_formula",
            most_peers(formula),
            paper=DEGREE - 1,
            peers=peers(formula, devices(formula)["B"][0]),
            home=devices(formula)["B"][0],
        ),
        PAPER.claim("figure4.not_balanced", ", ".join(not_balanced(placed)), formula=", ".join(not_balanced(formula))),
        PAPER.claim("figure4.devices_of_c", "all 4" if most == K else "not all 4", most=most, used=used),
        PAPER.claim(
            "figure4.circuits_of_gpu_1",
            ", ".join(str(rank) for rank in peers_of_gpu_1(placed)),
            formula=", ".join(str(rank) for rank in peers_of_gpu_1(formula)),
            alone=", ".join(str(rank) for rank in peers_of_gpu_1(alone)),
            most=most_peers(alone),
        ),
    )
