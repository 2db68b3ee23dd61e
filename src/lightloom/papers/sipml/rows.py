"""The rows of the SiP-ML study: sections 3.1 to 3.3, Fig. 4 and the headline."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import product
from math import inf, log
from typing import Any, Literal, NamedTuple

import numpy as np

from lightloom.core.arrays import Floats
from lightloom.core.claims import Claim
from lightloom.core.errors import InputError
from lightloom.machines.fabrics.load import load_fabric
from lightloom.machines.fabrics.switches import CircuitSwitch
from lightloom.machines.fabrics.wdm_ring import WdmRing
from lightloom.models.graph import ComputeGraph, Operator
from lightloom.papers.sipml import (
    BANDWIDTHS,
    HEADLINE,
    HOLD_10,
    JOBS,
    NAMES,
    OCS_DEGREE,
    PAPER,
    RECONFIGURATION,
    SYSTEMS,
    TODAY,
    System,
)
from lightloom.papers.sipml.comparison import PARTS, Comparison, Part, exchange_claims, gradient_bytes, stale
from lightloom.planning.parallelism.circuits import ring, switch
from lightloom.planning.parallelism.circuits.circuits import Assignment, Timing, Traffic, least_service
from lightloom.planning.parallelism.circuits.ring import relax
from lightloom.planning.parallelism.circuits.verify import verify
from lightloom.planning.parallelism.placement.check import check
from lightloom.planning.parallelism.placement.place import partition, place
from lightloom.planning.parallelism.placement.placement import BalancedGraph, HybridPlan, Link, Placement, Reach

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
    """Return the traffic matrix [sender, receiver] with one byte between all pairs of different nodes."""
    return np.ones((nodes, nodes)) - np.eye(nodes)


def ahead(nodes: int, links: int) -> Floats:
    """Return the traffic matrix [sender, receiver] with one byte from every node to the node so many links
    clockwise."""
    return np.roll(np.eye(nodes), links, axis=1)


@cache
def all_to_all_case(nodes: int, wavelengths: int) -> RingCase:
    """Return the circuits of a uniform all-to-all on a ring with so many wavelengths in each direction."""
    return solve(all_to_all(nodes), wavelengths)


def solve(matrix: Floats, wavelengths: int) -> RingCase:
    """Assign a ring's circuits to a traffic matrix [sender, receiver] by the integer program and by the fast algorithm;
    both results are verified."""
    traffic, fabric = Traffic.of(matrix), WdmRing(ranks=len(matrix), wavelengths=wavelengths)
    counted = switch.solve_ring(traffic, fabric)
    circuits, unassigned = ring.realise(traffic, fabric, counted.counts)
    fast = ring.assign(traffic, fabric)
    for each in (circuits, fast.circuits):
        verify(each, fabric)
    return RingCase(traffic, fabric, least_service(counted.counts.sum(axis=1), traffic), unassigned, fast)


def _rings() -> Iterator[Claim]:
    """Yield the circuits of the worst pair on rings, by the integer program and by the fast algorithm, for uniform
    all-to-all traffic and for neighbours, then a case whose counts fit but find no wavelengths; all are counted on
    circuits that are built."""
    cases = [(f"all_to_all_{n}_{w}", all_to_all_case(n, w), t) for (n, w), t in UNIFORM.items()]
    (nodes, wavelengths), expected = NEIGHBOUR
    cases.append((f"neighbour_{nodes}_{wavelengths}", solve(ahead(nodes, 1), wavelengths), expected))
    for name, case, expected in cases:
        values = {"paper": expected, "name": name, "case": case}
        yield PAPER.claim("example.ring_{name}_program", case.optimum, **values)
        yield PAPER.claim("example.ring_{name}_fast", case.fast.max_min, **values)
    nodes, links, wavelengths = LONG
    case = solve(ahead(nodes, links), wavelengths)
    values = {"nodes": nodes, "wavelengths": wavelengths, "links": links, "paper": case.optimum, "case": case}
    bound = relax(case.traffic, case.fabric).service
    yield PAPER.claim("example.ring_counts_without_wavelengths", case.fast.max_min, bound=bound, **values)


def _switches() -> Iterator[Claim]:
    """Yield the circuits of the worst pair on circuit switches, where ranks have more peers than there are planes and
    for an all-to-all of 4 ranks on 6 planes, counted on circuits that are built."""
    planes, ranks = 3, 5
    traffic, fabric = Traffic.of(all_to_all(ranks)), CircuitSwitch(ranks=ranks, degree=planes)
    try:
        switch.solve_multiplicities(traffic, fabric)
        refused = ""
    except InputError as error:
        refused = str(error)
    granted = switch.fill_ports(traffic, planes, np.zeros(len(traffic), np.int64))
    square = Traffic.of(all_to_all(4))
    exact = switch.solve_multiplicities(square, CircuitSwitch(ranks=4, degree=6))
    fast = switch.assign(square, CircuitSwitch(ranks=4, degree=6))
    yield PAPER.claim("example.ocs_more_peers_than_switches", least_service(granted, traffic), refused=refused)
    yield PAPER.claim("example.ocs_all_to_all_4_6", fast.max_min, paper=least_service(exact.counts.sum(axis=1), square))


# The paper leaves open whether its repair ends: sweeps that chase one another, on five sub-operators.
#
# ┌──► 1 ──────────┐
# 0 ────┤                ├──► 4        4 devices, a reader at most one device ahead of its producers
# └──► 2 ──► 3 ────┘
#
# The forward pass puts 0 and 1 on device 0, 2 on 1 and 3 on 2: nothing reaches from both 1 and 3 to sub-operator 4.
# The backward sweep moves 1 ahead, the forward sweep moves it back behind 0, and so on.

CHASE_DEVICES, CHASE_REACH = 4, 1
EDGES = ((0, 1), (0, 2), (2, 3), (1, 4), (3, 4))
ORDER = (0, 2, 3, 1, 4)
"""Topological order of the sub-operators, longest path to the end first."""
BEFORE = (0, 0, 1, 2, -1)
"""Devices by sub-operator when the forward pass gets stuck at 4."""


class Chase(NamedTuple):
    """Result of repeated sweeps."""

    states: tuple[tuple[int, ...], ...]
    """Devices of all sub-operators after each sweep, the first before any."""
    period: int
    """Period in sweeps of the recurring states; 0 if the sweeps converge."""


def chase() -> Chase:
    """Sweep backward and forward in turn until all are within reach or a state returns, as one of finitely many must.

    A sweep moves whoever is out of reach of those after it (backward) or before it (forward) to the device that reaches
    most of them, the nearest of those. It depends on nothing but the devices and the direction: a state that returns
    after a whole number of rounds returns for ever.
    """
    device = list(BEFORE)
    device[ORDER[-1]] = _nearest(ORDER[-1], device, back=False)
    states, seen = [tuple(device)], {(tuple(device), 0): 0}
    sweep = 0
    while True:
        back = sweep % 2 == 0
        for x in reversed(ORDER) if back else ORDER:
            if not all(_reaches(x, other, device, back) for other in _neighbours(x, back)):
                device[x] = _nearest(x, device, back)
        states.append(tuple(device))
        if all((device[b] - device[a]) % CHASE_DEVICES <= CHASE_REACH for a, b in EDGES):
            return Chase(tuple(states), 0)
        sweep += 1
        key = (tuple(device), sweep % 2)
        if key in seen:
            return Chase(tuple(states), sweep - seen[key])
        seen[key] = sweep


def _repair_ends() -> Claim:
    """Return the row on whether the paper's repair ends, which it leaves open: "settles", or after how many sweeps it
    repeats."""
    result = chase()
    states = " → ".join("".join(map(str, state)) for state in result.states)
    ours = "settles" if not result.period else f"repeats every {result.period} sweeps"
    return PAPER.claim("example.repair_ends", ours, states=states)


def _neighbours(x: int, back: bool) -> list[int]:
    """Return the sub-operators that read from ``x`` (``back``), else those that it reads from."""
    return [b for a, b in EDGES if a == x] if back else [a for a, b in EDGES if b == x]


def _reaches(x: int, other: int, device: list[int], back: bool) -> bool:
    """Return whether ``x`` lies at most the reach ahead of ``other``, cyclically; with ``back`` whether ``other`` lies
    so ahead of ``x``."""
    stride = device[other] - device[x] if back else device[x] - device[other]
    return stride % CHASE_DEVICES <= CHASE_REACH


def _nearest(x: int, device: list[int], back: bool) -> int:
    """Return the device from which ``x`` reaches most neighbours; of those the nearest to its present one either way
    round, then the lowest."""
    here = device[x]

    def key(to: int) -> tuple[int, int, int]:
        """Return what the best device has least of: reached neighbours, negated, the cyclic distance moved, and its
        number."""
        moved = [*device[:x], to, *device[x + 1 :]]
        reached = sum(_reaches(x, other, moved, back) for other in _neighbours(x, back))
        return -reached, min((to - here) % CHASE_DEVICES, (here - to) % CHASE_DEVICES), to

    return min(range(CHASE_DEVICES), key=key)


# Fig. 4: four operators in sequence, split, placed on k = 4 devices with Δ = 2, repeated in l = 2 groups.
#
# A ──► B ──► C ──► D        A, B and D balanced; C in four parts on three devices, as B has only two peers
#
# The text fixes that B is in one part and C in four. Assumed: the order of the names, one or two parts of A, four of
# D, and that every part reads its own slice.

Rule = Literal["peers", "forward"]
K, GROUPS, DEGREE = 4, 2, 3
"""k, l and D."""
_QUANTUM = 1e-6
_CHANNELS = 64


@cache
def split(parts_of_a: int = 2) -> BalancedGraph:
    """Return the balanced graph of Fig. 4 (b): every part takes one quantum, and half of it more so that no rounding
    decides.

    Depthwise convolutions, whose parts along the channels read their own slices and share no parameter.
    """
    wanted = {"A": parts_of_a, "B": 1, "C": 4, "D": 4}
    sizes: dict[str, Any] = {"parameters": 9 * _CHANNELS, "parameter_bytes": 36 * _CHANNELS, "activation_bytes": 1024}
    sizes["dimensions"] = {"sample": 1, "channel": _CHANNELS, "groups": _CHANNELS}
    operators = [
        Operator(name=name, kind="conv", inputs=(before,), **sizes)
        for before, name in zip(["input", *wanted], wanted, strict=False)
    ]
    start = Operator(name="input", kind="input", dimensions={"sample": 1, "channel": _CHANNELS})
    graph = ComputeGraph(name="figure-4", batch=1, operators=(start, *operators))
    forward = np.array([0.0, *((each + 0.5) * _QUANTUM for each in wanted.values())])
    return partition(graph, np.column_stack([forward, 2 * forward]), K, _QUANTUM)


@cache
def figure_4_plan(rule: Rule = "peers", parts_of_a: int = 2) -> HybridPlan:
    """Return the plan of Fig. 4 (d) by the paper's forward pass (``effort=0``: nothing searched), checked, and repeated
    in two groups; ``rule`` is that of the reach."""
    balanced = split(parts_of_a)
    placement = place(balanced, K, Reach(DEGREE - 1, rule), None, Link(bandwidth=1e12), effort=0)
    check(placement, balanced)
    return HybridPlan(placement, balanced, K, GROUPS)


def devices(placed: HybridPlan) -> dict[str, list[int]]:
    """Return the devices of every operator's parts, in the order of the parts, by the operator's name."""
    names, operator = placed.balanced.operators, placed.balanced.operator
    return {name: placed.placement.device[operator == place].tolist() for place, name in enumerate(names)}


def not_balanced(placed: HybridPlan) -> list[str]:
    """Return the names of operators whose parts are on fewer devices than there are parts, or than the group has
    devices, whichever is less."""
    return [name for name, used in devices(placed).items() if len(set(used)) < min(K, len(used))]


def peers_of_device(placed: HybridPlan, device: int) -> list[int]:
    """Return the ranks, ascending, that a device of the first group sends to or receives from, including gradients."""
    sent = placed.traffic.total.toarray() > 0
    return [int(rank) for rank in np.flatnonzero((sent | sent.T)[device])]


def most_peers(placed: HybridPlan) -> int:
    """Return the most peers in the first group that any device of it has, including gradients."""
    return max(sum(rank < K for rank in peers_of_device(placed, device)) for device in range(K))


def peers_of_gpu_1(placed: HybridPlan) -> list[int]:
    """Return the sorted GPU numbers of the peers of the GPU that holds B, from 1 on, in both groups, the ring turned so
    that this GPU is 1."""
    home = devices(placed)["B"][0]
    return sorted((rank - home) % K + rank // K * K + 1 for rank in peers_of_device(placed, home))


def most_devices_of_c(degree: int = DEGREE - 1) -> int:
    """Return the most devices that C's four parts can occupy when B, on device 0, has at most ``degree`` peers; all
    placements are tried."""
    return max(len(set(c)) for c in product(range(K), repeat=4) if len(set(c) - {0}) <= degree)


def _figure_4() -> tuple[Claim, ...]:
    """Return the rows of Fig. 4: the two properties of (c), peers within reach and operators on devices of their own,
    the example of (d), and what is impossible."""
    placed, formula, alone = figure_4_plan(), figure_4_plan("forward"), figure_4_plan("forward", 1)
    used, most, home = len(set(devices(placed)["C"])), most_devices_of_c(), devices(formula)["B"][0]
    by_formula = {"peers": peers_of_device(formula, home), "home": home}
    circuits, of_formula, of_alone = (", ".join(map(str, peers_of_gpu_1(plan))) for plan in (placed, formula, alone))
    others = {"formula": of_formula, "alone": of_alone, "most": most_peers(alone)}
    return (
        PAPER.claim("figure4.most_peers", most_peers(placed), paper=DEGREE - 1),
        PAPER.claim("figure4.most_peers_by_formula", most_peers(formula), paper=DEGREE - 1, **by_formula),
        PAPER.claim("figure4.not_balanced", ", ".join(not_balanced(placed)), formula=", ".join(not_balanced(formula))),
        PAPER.claim("figure4.devices_of_c", "all 4" if most == K else "not all 4", most=most, used=used),
        PAPER.claim("figure4.circuits_of_gpu_1", circuits, **others),
    )


# The headline, 1.3 to 9.1 times the training speed of electrical clusters, on our curves; and what wins beside it.

OPTICAL: tuple[System, System] = ("ocs", "ring")
FASTEST = BANDWIDTHS[-1]
Speed = Callable[[str, float], float]
"""Function from a bandwidth in Gb/s to the speed-up of a model."""


def fastest(measured: Comparison, model: str, gbps: float, today: float, accelerator: str = "a100") -> float:
    """Return the greater of both optical networks' speed-ups over an electrical switch of at most ``today`` Gb/s, with
    the best placed splits on all networks."""
    return max(measured.speedup(model, system, gbps, today, accelerator) for system in OPTICAL)


def searched(measured: Comparison, model: str, gbps: float, today: float) -> float:
    """Return the speed-up of the faster optical network over an electrical switch of at most ``today`` Gb/s, both with
    the winner of the planner's search."""
    optical = min(measured.rival(model, system, gbps)["step_s"] for system in OPTICAL)
    return float(measured.rival(model, "electrical", min(gbps, today))["step_s"] / optical)


def over_data_parallel(measured: Comparison, model: str, gbps: float, today: float) -> float:
    """Return the seconds of data parallelism alone (k = 1) on an electrical switch of at most ``today`` Gb/s over those
    of the best split on the faster optical network."""
    optical = [each.seconds for system in OPTICAL if (each := measured.best(model, system, gbps)) is not None]
    return measured.seconds(model, "electrical", min(gbps, today), 1) / min(optical)


def readings(measured: Comparison) -> dict[str, tuple[Speed, str]]:
    """Return the readings of "training time against electrical" by the names of their rows: a function from (model,
    Gb/s) to the speed-up, and a text that says why it may be meant."""
    speeds: dict[str, Callable[..., float]] = {
        "placed": fastest,
        "data_parallel": over_data_parallel,
        "search": searched,
        "script": Comparison.script_speedup,
        "titan_xp": partial(fastest, accelerator="titan-xp"),
    }
    texts = PAPER.tables["readings"]
    return {
        f"{name}_{today:g}": (partial(speed, measured, today=today), texts[name].format(today=today))
        for today in reversed(TODAY)
        for name, speed in speeds.items()
    }


def reached(speed: Callable[[float], float], factor: float) -> float:
    """Return the Gb/s at which a speed-up first reaches ``factor``, logarithms interpolated between measured
    bandwidths; the least bandwidth where that suffices, infinite where none does."""
    before = (0.0, 0.0)
    for gbps in BANDWIDTHS:
        value = speed(gbps)
        if value >= factor:
            low, at = before
            if not low:
                return float(gbps)
            return float(low * (gbps / low) ** (log(factor / at) / log(value / at)))
        before = (gbps, value)
    return inf


def _speedups(measured: Comparison) -> Iterator[Claim]:
    """Yield a row for each reading: least to greatest speed-up of the models at the fastest bandwidth, with the
    bandwidths at which each reaches the paper's two figures."""
    low, high = HEADLINE
    for name, (speed, reading) in readings(measured).items():
        by_model = {model: speed(model, FASTEST) for model in JOBS}
        speedups = "; ".join(
            f"{NAMES[model]} {value:.2f} ({low} {_at(speed, model, low)}, {high} {_at(speed, model, high)})"
            for model, value in by_model.items()
        )
        ours = f"{min(by_model.values()):.2f} to {max(by_model.values()):.2f}"
        values = {"name": name, "reading": reading, "fastest": FASTEST, "speedups": speedups}
        row = PAPER.claim("headline.speedup_{name}", ours, paper=f"{low} to {high}", **values)
        yield _flagged(row, measured, "rivals" if name.startswith("search_") else "placed")


def _flagged(row: Claim, measured: Comparison, *parts: Part) -> Claim:
    """Return the row; its explanation begins with a warning where results of ``parts`` that it rests on are stale."""
    note = stale(measured.inputs, parts)
    return replace(row, why=f"{note}. {row.why}") if note else row


def _at(speed: Speed, model: str, factor: float) -> str:
    """Return in words at which Gb/s a model's speed-up first reaches ``factor``: "at 512 Gb/s" or "nowhere"."""
    gbps = reached(lambda each: speed(model, each), factor)
    return "nowhere" if gbps == inf else f"at {gbps:,.0f} Gb/s"


def _beyond_the_paper(measured: Comparison) -> list[Claim]:
    """Return two rows for each model: placed splits against sharded data parallelism, and the scripts' model with our
    gradients' bytes."""
    return [
        _flagged(row, measured, *parts)
        for model in JOBS
        for row, parts in ((_against_sharded(measured, model), PARTS), (_own_bytes(measured, model), ("placed",)))
    ]


def _against_sharded(measured: Comparison, model: str) -> Claim:
    """Return a model's row of the step of sharded data parallelism over that of the best placed split on OCS, at the
    fastest bandwidth; its text compares all systems on which a split fits."""
    comparisons, ratio = [], {}
    for system in SYSTEMS:
        best = measured.best(model, system, FASTEST)
        if best is None:
            continue
        winner, sharded = (measured.rival(model, system, FASTEST, which) for which in ("search", "fsdp"))
        split = ", ".join(f"{name} {winner['strategy'][name]}" for name in ("dp", "tp", "pp"))
        ratio[system] = sharded["step_s"] / best.seconds
        plain = measured.seconds(model, system, FASTEST, 1)
        comparisons.append(
            f"{system}: {_ms(best.seconds)} placed (k = {best.k}), {_ms(plain)} plain and {_ms(sharded['step_s'])} "
            f"sharded data parallelism, {_ms(winner['step_s'])} the search's winner ({split}); k > 1 beats sharded "
            f"at {_ahead(measured, model, system)}"
        )
    why = f"beyond the paper, {FASTEST:,} Gb/s; sharded data parallelism sends bfloat16, half the bytes. "
    values = {"why": why + ". ".join(comparisons), "model": model}
    return PAPER.claim("headline.beyond_placed_over_sharded_{model}", round(ratio["ocs"], 3), **values)


def _ahead(measured: Comparison, model: str, system: System) -> str:
    """Return, as text, the bandwidths at which a placed split with k > 1 is the best and faster than sharded data
    parallelism; "no bandwidth" where there is none."""
    better = [
        f"{gbps:,}"
        for gbps in BANDWIDTHS
        if (best := measured.best(model, system, gbps)) is not None
        and best.k > 1
        and best.seconds < measured.rival(model, system, gbps, "fsdp")["step_s"]
    ]
    return f"{', '.join(better)} Gb/s" if better else "no bandwidth"


def _own_bytes(measured: Comparison, model: str) -> Claim:
    """Return a model's row of the scripts' speed-up over 400 Gb/s with our gradients' bytes, at the fastest bandwidth;
    its text has those over 200 Gb/s and with the scripts' weights too."""
    ours = [measured.script_speedup(model, FASTEST, today, gradient_bytes(model)) for today in (400.0, 200.0)]
    theirs = [measured.script_speedup(model, FASTEST, today) for today in (400.0, 200.0)]
    values = {"model": model, "ours": ours, "scripts": theirs}
    return PAPER.claim("headline.beyond_script_own_gradients_{model}", round(ours[0], 2), **values)


def _ms(value: float) -> str:
    """Return seconds as text in milliseconds with two decimals."""
    return f"{1e3 * value:.2f} ms"


# Balanced graphs of a few sub-operators, specified by hand.


def balanced_graph(
    name: str, parts: Sequence[int], edges: Sequence[tuple[int, int]], seconds: float = 1e-6, nbytes: float = 1e3
) -> BalancedGraph:
    """Return a graph of sub-operators that take ``seconds`` in either direction and send ``nbytes`` along every edge.

    Args:
        name: of the graph.
        parts: of each operator, which are numbered in their order.
        edges: (producer, reader), producers before readers.
    """
    size, ordered = sum(parts), sorted(edges, key=lambda edge: (edge[1], edge[0]))
    parent = np.array([producer for producer, _ in ordered], np.int32)
    reader = np.array([reader for _, reader in ordered], np.int64)
    return BalancedGraph(
        name=name,
        operators=tuple(f"op{number}" for number in range(len(parts))),
        dimensions=("",) * len(parts),
        first=np.concatenate(([0], np.cumsum(parts))),
        operator=np.repeat(np.arange(len(parts), dtype=np.int32), parts),
        part=np.concatenate([np.arange(each, dtype=np.int32) for each in parts]),
        forward=np.full(size, seconds),
        backward=np.full(size, seconds),
        parameters=np.full(size, 1000),
        memory=np.ones(size),
        synchronised=np.zeros(size),
        parent_start=np.searchsorted(reader, np.arange(size + 1)).astype(np.int64),
        parent=parent,
        nbytes=np.full(len(ordered), nbytes),
        content=np.zeros(len(ordered), np.int64),
        gradient_bytes=4,
    )


# Section 3.1 and 3.2: duty cycles, circuits of a node, and how many peers the distance rule really allows.

DUTY = {"10r": Timing(HOLD_10, 1.0), "100us_20us": Timing(100e-6, 20e-6), "4r": Timing(4.0, 1.0)}
"""Timing of the duty cycles by name."""
RULE_REACH, RULE_DEVICES = 3, 8
"""Δ and k of the constructed case: 2 Δ < k, so that all peers differ."""


class Peers(NamedTuple):
    """Numbers of peers of the devices of a group."""

    most: int
    """Largest number of peers of a device, for activations and gradients."""
    readers: int
    """Number of peers that it sends activations to."""


def forward_case(degree: int = RULE_REACH, devices: int = RULE_DEVICES) -> HybridPlan:
    """Return a plan of two operators with a part on every device, in two groups; part i of the second reads parts i − Δ
    ... i of the first.

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


def group_peers(plan: HybridPlan) -> Peers:
    """Return the most peers inside the first group that one of its devices has: either way in an iteration's
    model-parallel traffic, and as receivers of activations along the graph's edges."""
    sent = plan.traffic.model_parallel.toarray()[: plan.k, : plan.k] > 0
    balanced, device = plan.balanced, plan.placement.device
    reader = np.repeat(np.arange(balanced.size), np.diff(balanced.parent_start))
    ways = {(a, b) for a, b in zip(device[balanced.parent].tolist(), device[reader].tolist(), strict=True) if a != b}
    readers = max(sum(a == d for a, _ in ways) for d in range(plan.k))
    return Peers(int((sent | sent.T).sum(axis=1).max()), readers)


def circuits_refusal(plan: HybridPlan, degree: int) -> str:
    """Return the message on why a switch of ``degree`` planes cannot serve a plan's traffic; empty if it can."""
    fabric = CircuitSwitch(ranks=plan.ranks, degree=degree)
    try:
        switch.assign(Traffic.of(plan.traffic.total), fabric)
    except InputError as error:
        return str(error)
    return ""


def least_degree(plan: HybridPlan) -> int:
    """Return the fewest planes on which every communicating pair of a plan gets a circuit."""
    return next(degree for degree in range(1, plan.ranks) if not circuits_refusal(plan, degree))


def _fabrics() -> Iterator[Claim]:
    """Yield the paper's constants beside the catalog's: planes of OCS, and the reconfiguration of the ring in µs and of
    OCS in ms."""
    fabric = CircuitSwitch(ranks=64, degree=OCS_DEGREE)
    ring, ocs = load_fabric("sip-ring", 64), load_fabric("circuit-switch", 64)
    yield PAPER.claim("example.ocs_degree", fabric.channels, paper=OCS_DEGREE)
    yield PAPER.claim("example.ring_reconfiguration", ring.setup_time * 1e6, paper=RECONFIGURATION["sip-ring"] * 1e6)
    paper = RECONFIGURATION["circuit-switch"] * 1e3
    yield PAPER.claim("example.ocs_reconfiguration", ocs.setup_time * 1e3, paper=paper)


def _distance_rule() -> Iterator[Claim]:
    """Yield what the rule (i − j) mod k ≤ Δ allows: the most receivers and the most peers of a device, and the planes
    that the plan needs."""
    plan = forward_case()
    counted, needed = group_peers(plan), least_degree(plan)
    case = f"k = {RULE_DEVICES}, Δ = {RULE_REACH}, part i of one operator reads parts i − Δ ... i of the one before"
    yield PAPER.claim("example.readers_by_distance", counted.readers, paper=RULE_REACH, case=case)
    yield PAPER.claim("example.peers_by_distance", counted.most, paper=RULE_REACH, case=case)
    refusal = circuits_refusal(plan, RULE_REACH + 1)
    yield PAPER.claim("example.degree_by_distance", needed, paper=RULE_REACH + 1, refusal=refusal)


def claims(measured: Comparison) -> tuple[Claim, ...]:
    """Return all rows, those of the headline from the measured comparison of networks."""
    return (
        *(PAPER.claim(f"example.duty_{name}", round(100 * time.duty_cycle, 2)) for name, time in DUTY.items()),
        *(*_fabrics(), *_distance_rule()),
        *_figure_4(),
        _repair_ends(),
        *(*_rings(), *_switches()),
        *exchange_claims(),
        *(*_speedups(measured), *_beyond_the_paper(measured)),
    )
