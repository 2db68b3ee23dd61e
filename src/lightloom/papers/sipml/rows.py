"""The rows of the SiP-ML study: sections 3.1 to 3.3, Fig. 4 and the headline."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import product
from math import inf, isnan, log, nan
from typing import NamedTuple

import numpy as np

from lightloom.core.arrays import Floats
from lightloom.core.claims import Claim
from lightloom.machines.fabrics.load import load_fabric
from lightloom.machines.fabrics.switches import CircuitSwitch
from lightloom.machines.fabrics.wdm_ring import WdmRing
from lightloom.papers.sipml import BANDWIDTHS, HEADLINE, HOLD_10, JOBS, NAMES, PAPER, SYSTEMS, TODAY, System
from lightloom.papers.sipml.comparison import PARTS, Comparison, Part, gradient_bytes, stale, weight_claims
from lightloom.papers.study import refusal
from lightloom.planning.parallelism.circuits import ring, switch
from lightloom.planning.parallelism.circuits.circuits import Assignment, Timing, Traffic, least_service
from lightloom.planning.parallelism.circuits.ring import relax
from lightloom.planning.parallelism.circuits.verify import verify
from lightloom.planning.parallelism.placement.check import check
from lightloom.planning.parallelism.placement.kernels import iteration_time
from lightloom.planning.parallelism.placement.place import problem_of
from lightloom.planning.parallelism.placement.placement import BalancedGraph, HybridPlan, Link, Placement, Reach

UNIFORM = ((4, 4), (4, 8), (5, 16), (8, 8), (8, 16))
"""All-to-all: (nodes, wavelengths each way), one fibre."""
NEIGHBOUR = (8, 8)
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
    """Return the traffic matrix [sender, receiver] with one byte from every node to the node ``links`` links clockwise
    of it, whose number is so much higher modulo the nodes."""
    return np.roll(np.eye(nodes), links, axis=1)


@cache
def all_to_all_case(nodes: int, wavelengths: int) -> RingCase:
    """Return the circuits of a uniform all-to-all on a ring of so many nodes with so many wavelengths in each direction
    of its one fibre."""
    return solve(all_to_all(nodes), wavelengths)


def solve(matrix: Floats, wavelengths: int, fibres: int = 1) -> RingCase:
    """Assign a ring's circuits to a traffic matrix by the integer program and by the fast algorithm, verify both, and
    return the traffic, the ring, the circuits of the worst pair by the program (``optimum``), the number of the
    program's circuits that found no wavelength (``unassigned``), and the fast assignment (``fast``). A fault of the
    assignments raises VerificationError.

    Args:
        matrix: bytes [sender, receiver].
        wavelengths: of every fibre in each direction.
        fibres: rings side by side.

    The worst pair has the fewest circuits over its demand, which is relative to the largest demand.
    """
    traffic, fabric = Traffic.of(matrix), WdmRing(ranks=len(matrix), wavelengths=wavelengths, fibres=fibres)
    counted = switch.solve_ring(traffic, fabric)
    circuits, unassigned = ring.realise(traffic, fabric, counted.counts)
    fast = ring.assign(traffic, fabric)
    for each in (circuits, fast.circuits):
        verify(each, fabric)
    return RingCase(traffic, fabric, least_service(counted.counts.sum(axis=1), traffic), unassigned, fast)


def _rings() -> Iterator[Claim]:
    """Yield the rows of the circuits over demand of the worst pair on rings by the fast algorithm, for uniform
    all-to-all traffic, for neighbours, and for an all-to-all of 8 nodes on 5 rings of 2 wavelengths, then one whose
    counts fit the links but find no wavelengths; all are counted on circuits that are built and verified."""
    cases = [(f"all_to_all_{n}_{w}", all_to_all_case(n, w)) for n, w in UNIFORM]
    nodes, wavelengths = NEIGHBOUR
    cases.append((f"neighbour_{nodes}_{wavelengths}", solve(ahead(nodes, 1), wavelengths)))
    cases.append(("all_to_all_8_2_on_5_rings", solve(all_to_all(8), 2, fibres=5)))
    for name, case in cases:
        yield PAPER.claim("example.ring_{name}", case.fast.max_min, name=name, case=case)
    nodes, links, wavelengths = LONG
    case = solve(ahead(nodes, links), wavelengths)
    values = {"nodes": nodes, "wavelengths": wavelengths, "links": links, "case": case}
    bound = relax(case.traffic, case.fabric).service
    yield PAPER.claim("example.ring_counts_without_wavelengths", case.fast.max_min, bound=bound, **values)


def _switches() -> Iterator[Claim]:
    """Yield two rows of the circuits of the worst pair on circuit switches: 5 ranks that all exchange over 3 planes,
    where a pair stays dark (0 circuits; the explanation quotes the solver's refusal), and an all-to-all of 4 ranks on 6
    planes by the fast algorithm, beside the exact one in the explanation."""
    planes, ranks = 3, 5
    traffic, fabric = Traffic.of(all_to_all(ranks)), CircuitSwitch(ranks=ranks, degree=planes)
    refused = refusal(partial(switch.solve_multiplicities, traffic, fabric))
    granted = switch.fill_ports(traffic, planes, np.zeros(len(traffic), np.int64))
    square = Traffic.of(all_to_all(4))
    exact = switch.solve_multiplicities(square, CircuitSwitch(ranks=4, degree=6))
    fast = switch.assign(square, CircuitSwitch(ranks=4, degree=6))
    yield PAPER.claim("example.ocs_more_peers_than_switches", least_service(granted, traffic), refused=refused)
    service = least_service(exact.counts.sum(axis=1), square)
    yield PAPER.claim("example.ocs_all_to_all_4_6", fast.max_min, exact=service)


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
    """Sweep backward and forward in turn over the five sub-operators from :data:`BEFORE`, with sub-operator 4 placed
    nearest to its producers, until all are within reach or a state returns, as one of finitely many must; return
    ``states``, the devices of all sub-operators before the first sweep and after each one, and ``period``, the sweeps
    after which states repeat, 0 where all come within reach.

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
    """Return the row on whether the paper's repair ends, which the paper leaves open: "settles", or "repeats every 4
    sweeps", with the number of sweeps that :func:`chase` finds."""
    result = chase()
    states = " → ".join("".join(map(str, state)) for state in result.states)
    ours = "settles" if not result.period else f"repeats every {result.period} sweeps"
    return PAPER.claim("example.repair_ends", ours, states=states)


def _neighbours(x: int, back: bool) -> list[int]:
    """Return the sub-operators that read from ``x`` if ``back`` (a backward sweep), else those that ``x`` reads
    from."""
    return [b for a, b in EDGES if a == x] if back else [a for a, b in EDGES if b == x]


def _reaches(x: int, other: int, device: list[int], back: bool) -> bool:
    """Return whether the device of ``x`` is that of ``other`` or the next one ahead, of four in a cycle; with ``back``
    whether that of ``other`` is that of ``x`` or the next one ahead. ``device`` holds every sub-operator's device."""
    return (device[other] - device[x] if back else device[x] - device[other]) % CHASE_DEVICES <= CHASE_REACH


def _nearest(x: int, device: list[int], back: bool) -> int:
    """Return the device from which ``x`` reaches most of its readers (``back``, in a backward sweep) or of its
    producers; of equal ones the nearest to its present one either way round, then the lowest. ``device``, every
    sub-operator's device, is left as it is."""
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
# A ──► B ──► C ──► D        B in one part, C in four
#
# Open in the text: one or two parts of A (of four, B would have no device), four of D, that every part reads its own
# slice, and which of the devices that are equally early Algorithm 1 takes.

K, GROUPS, DEGREE = 4, 2, 3
"""k, l and D."""
TIES = ("last", "first", "nearest", "farthest")
"""Which of the devices that are equally early is taken: by its number, or by how far it is ahead of the producer's."""


def planned(balanced: BalancedGraph, device: Sequence[int], k: int, degree: int) -> HybridPlan:
    """Return a given placement on k devices as a plan, repeated in two groups, timed forward and backward on links of
    1e12 bytes per second, and checked by the paper's rule of distance: activations go at most Δ devices ahead.
    VerificationError where a part breaks it.

    Args:
        balanced: graph of sub-operators.
        device: device of each sub-operator.
        k: devices of a group.
        degree: Δ.
    """
    reach, link, times = Reach(degree, "forward"), Link(bandwidth=1e12), np.zeros((4, balanced.size))
    columns = np.array(device, np.int32)
    makespan = iteration_time(problem_of(balanced, k, reach, None, link).rows, columns, times)
    start, end, backward_start, backward_end = times
    placement = Placement(
        device=columns,
        devices=k,
        reach=reach,
        link=link,
        start=start,
        end=end,
        backward_start=backward_start + end.max(),
        backward_end=backward_end + end.max(),
        makespan=makespan,
        repaired=0,
        method="given",
    )
    check(placement, balanced)
    return HybridPlan(placement, balanced, k, GROUPS)


@cache
def figure_4_plan(parts_of_a: int = 1, waits: bool = False, ties: str = "last") -> HybridPlan:
    """Return the plan of Fig. 4 (d): its four operators placed by Algorithm 1 as printed, in two groups of four
    devices. A part goes at most two devices ahead (in the ring) of all that it reads from.

    Args:
        parts_of_a: parts of operator A, one or two.
        waits: take the device on which a part could start first, not the one that is free first as printed.
        ties: which of the devices that are equally early is taken, by its number ``last`` or ``first``, or by how far
            it is ahead of the producer's, ``nearest`` or ``farthest``.
    """
    parts = (parts_of_a, 1, 4, 4)
    producers = [*((a, parts_of_a) for a in range(parts_of_a)), *((parts_of_a, parts_of_a + 1 + c) for c in range(4))]
    edges = [*producers, *((parts_of_a + 1 + c, parts_of_a + 5 + c) for c in range(4))]
    balanced = balanced_graph("figure-4", parts, edges)
    free, device, end = [0] * K, list[int](), list[int]()
    for x in range(balanced.size):
        before = balanced.parent[balanced.parent_start[x] : balanced.parent_start[x + 1]].tolist()
        ready = max((end[each] for each in before), default=0)
        home = device[before[-1]] if before else 0
        choices = []
        for to in range(K):
            if all((to - device[each]) % K < DEGREE for each in before):
                early = max(free[to], ready if waits else 0)
                ahead = (to - home) % K
                choices.append((early, (-to, to, ahead, -ahead)[TIES.index(ties)], to))
        _, _, taken = min(choices)
        free[taken] = max(free[taken], ready) + 1
        device.append(taken)
        end.append(free[taken])
    return planned(balanced, device, K, DEGREE - 1)


def devices(placed: HybridPlan) -> dict[str, list[int]]:
    """Return the devices of every operator's parts in Fig. 4's plan, in the order of the parts, by the operator's name,
    A to D."""
    operator = placed.balanced.operator
    return {name: placed.placement.device[operator == number].tolist() for number, name in enumerate("ABCD")}


def not_balanced(placed: HybridPlan) -> list[str]:
    """Return the names, of A to D, of the operators that have several parts on one device in Fig. 4's plan, in this
    order."""
    return [name for name, used in devices(placed).items() if len(set(used)) < len(used)]


def peers_of_device(placed: HybridPlan, device: int) -> list[int]:
    """Return the ranks of both groups, ascending, that a device of the first group sends to or receives from, including
    gradients."""
    sent = placed.traffic.total.toarray() > 0
    return [int(rank) for rank in np.flatnonzero((sent | sent.T)[device])]


def most_peers(placed: HybridPlan) -> int:
    """Return the most peers inside the first group that any device of that group sends to or receives from, including
    gradients."""
    return max(sum(rank < placed.k for rank in peers_of_device(placed, device)) for device in range(placed.k))


def turned(placed: HybridPlan) -> list[int]:
    """Return the ranks, ascending, that the GPU of the first group that holds B exchanges with, counted from 1 (second
    group from 5) with each group's ring turned so that this GPU is 1."""
    home = devices(placed)["B"][0]
    return sorted((rank - home) % K + rank // K * K + 1 for rank in peers_of_device(placed, home))


def most_devices_of_c(degree: int = DEGREE - 1) -> int:
    """Return the most different devices that C's four parts can occupy when B, on device 0, has at most ``degree``
    other devices among them as peers; all placements are tried."""
    return max(len(set(c)) for c in product(range(K), repeat=4) if len(set(c) - {0}) <= degree)


def printed_facts(placed: HybridPlan) -> tuple[int, str, str]:
    """Return the three facts that the text states of Fig. 4, of a plan of ours: the most peers of a GPU in its group,
    the names of the operators that are not balanced, and the peers of GPU 1, counted from 0; the latter two as texts
    with commas."""
    return most_peers(placed), ", ".join(not_balanced(placed)), ", ".join(map(str, peers_of_device(placed, 1)))


def readings_of_figure_4() -> dict[tuple[int, bool, str], bool]:
    """Return whether each reading (parts of A, whether devices wait, ties), the arguments of :func:`figure_4_plan`,
    gives all three printed facts (:func:`printed_facts`); there are sixteen."""
    facts = tuple(PAPER.rows[f"figure4.{name}"].paper for name in ("most_peers", "not_balanced", "circuits_of_gpu_1"))
    return {each: printed_facts(figure_4_plan(*each)) == facts for each in product((1, 2), (False, True), TIES)}


def _figure_4() -> tuple[Claim, ...]:
    """Return the four rows of Fig. 4: of the placement of :func:`figure_4_plan` with its defaults the most peers and
    the operators that are not balanced, whether C's parts can have all four devices ("all 4" or "not all 4"), and the
    peers of GPU 1; the texts are those of :func:`printed_facts`."""
    placed, tried, most = figure_4_plan(), readings_of_figure_4(), most_devices_of_c()
    values = {"tried": len(tried), "agree": sum(tried.values()), "turned": ", ".join(map(str, turned(placed)))}
    peers, uneven, circuits = printed_facts(placed)
    return (
        PAPER.claim("figure4.most_peers", peers, **values),
        PAPER.claim("figure4.not_balanced", uneven),
        PAPER.claim("figure4.devices_of_c", "all 4" if most == K else "not all 4", most=most),
        PAPER.claim("figure4.circuits_of_gpu_1", circuits, **values),
    )


# The headline, 1.3 to 9.1 times the training speed of electrical clusters, on our curves; and what wins beside it.

OPTICAL: tuple[System, System] = ("ocs", "ring")
FASTEST = BANDWIDTHS[-1]
Speed = Callable[[str, float], float]
"""Function from a bandwidth in Gb/s to the speed-up of a model."""


def fastest(measured: Comparison, model: str, gbps: float, today: float, accelerator: str = "a100") -> float:
    """Return the greater of both optical networks' speed-ups over an electrical switch of at most ``today`` Gb/s, with
    the best placed split on each network; of one of the two where no split fits on the other, NaN where none does.

    Args:
        measured: the stored measurements.
        model: job's name, a key of :data:`~lightloom.papers.sipml.JOBS` such as ``resnet50``.
        gbps: Gb/s of a GPU on the optical networks.
        today: most Gb/s of a GPU on the electrical one, which has no more than ``gbps``.
        accelerator: of all networks.
    """
    speedups = (measured.speedup(model, system, gbps, today, accelerator) for system in OPTICAL)
    return max((speedup for speedup in speedups if not isnan(speedup)), default=nan)


def searched(measured: Comparison, model: str, gbps: float, today: float) -> float:
    """Return the speed-up of the faster optical network of ``gbps`` Gb/s a GPU over an electrical switch of the lesser
    of ``today`` and ``gbps``, each with the winner of the planner's search; ``model`` is a job's name. Of one optical
    network where there is no plan on the other, NaN where there is none on either or on the switch."""
    optical = [row["step_s"] for system in OPTICAL if "step_s" in (row := measured.rival(model, system, gbps))]
    electrical = measured.rival(model, "electrical", min(gbps, today)).get("step_s", nan)
    return float(electrical / min(optical, default=nan))


def over_data_parallel(measured: Comparison, model: str, gbps: float, today: float) -> float:
    """Return the seconds of data parallelism alone (k = 1) on an electrical switch of the lesser of ``today`` and
    ``gbps`` Gb/s over those of the best split on the faster optical network of ``gbps``; ``model`` is a job's name. NaN
    where k = 1 was refused, or no split fits on either optical network."""
    optical = [each.seconds for system in OPTICAL if (each := measured.best(model, system, gbps)) is not None]
    return measured.seconds(model, "electrical", min(gbps, today), 1) / min(optical, default=nan)


def readings(measured: Comparison) -> dict[str, tuple[Speed, str]]:
    """Return the ten readings of "training time against electrical" by the ends of their rows' ids, such as
    ``placed_400``: a pair of a function from (model, Gb/s) to the speed-up, and a text that says why it may be meant.

    The names are a kind of reading (``placed``: best placed splits; ``data_parallel``: optical networks' best placed
    splits over k = 1 on the switch; ``search``: winners of the planner's search; ``script``: the scripts' model;
    ``titan_xp``: placed splits on that accelerator), an underscore, and the Gb/s of the electrical switch, 400 or 200.
    """
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
        for today, (name, speed) in product(reversed(TODAY), speeds.items())
    }


def reached(speed: Callable[[float], float], factor: float) -> float:
    """Return the Gb/s at which a speed-up first reaches ``factor``, logarithms interpolated between measured
    bandwidths; 128 Gb/s, the least measured bandwidth, where that suffices, infinite where none does. ``speed`` gives
    the speed-up at a bandwidth in Gb/s."""
    before = (0.0, 0.0)
    for gbps in BANDWIDTHS:
        value = speed(gbps)
        if value >= factor:
            low, at = before
            return float(low * (gbps / low) ** (log(factor / at) / log(value / at))) if low else float(gbps)
        before = before if isnan(value) else (gbps, value)
    return inf


def _speedups(measured: Comparison) -> Iterator[Claim]:
    """Yield a row for each of the ten readings: "1.02 to 3.40", the least and the greatest speed-up of the models at
    the fastest bandwidth, 8,192 Gb/s; the explanation has every model's, with the bandwidths at which it reaches the
    paper's two figures, 1.3 and 9.1."""
    low, high = HEADLINE
    for name, (speed, reading) in readings(measured).items():
        by_model = {model: speed(model, FASTEST) for model in JOBS}
        speedups = "; ".join(
            f"{NAMES[model]} {value:.2f} ({low} {_at(speed, model, low)}, {high} {_at(speed, model, high)})"
            for model, value in by_model.items()
        )
        ours = " to ".join(f"{end([*by_model.values()]):.2f}" for end in (np.nanmin, np.nanmax))
        values = {"name": name, "reading": reading, "fastest": FASTEST, "speedups": speedups}
        row = PAPER.claim("headline.speedup_{name}", ours, **values)
        yield _flagged(row, measured, "rivals" if name.startswith("search_") else "placed")


def _flagged(row: Claim, measured: Comparison, *parts: Part) -> Claim:
    """Return the row; its explanation begins with the warning of :func:`stale` where stored results of ``parts``, which
    the row rests on, are stale."""
    note = stale(measured.inputs, parts)
    return replace(row, why=f"{note}. {row.why}") if note else row


def _at(speed: Speed, model: str, factor: float) -> str:
    """Return in words at which Gb/s a model's speed-up first reaches ``factor``: "at 512 Gb/s" (between measured
    bandwidths interpolated) or "nowhere"."""
    gbps = reached(lambda each: speed(model, each), factor)
    return "nowhere" if gbps == inf else f"at {gbps:,.0f} Gb/s"


def _beyond_the_paper(measured: Comparison) -> list[Claim]:
    """Return two rows for each model at the fastest bandwidth, 8,192 Gb/s: placed splits against sharded data
    parallelism, and the speed-up by the scripts' model with our gradients' bytes."""
    return [
        _flagged(row, measured, *parts)
        for model in JOBS
        for row, parts in ((_against_sharded(measured, model), PARTS), (_own_bytes(measured, model), ("placed",)))
    ]


def _against_sharded(measured: Comparison, model: str) -> Claim:
    """Return a model's row of the step of sharded data parallelism over that of the best placed split, both on OCS at
    the fastest bandwidth; its explanation compares all systems on which a split fits. KeyError where none fits on OCS,
    or a search there found no plan."""
    comparisons, ratio = [], {}
    for system in SYSTEMS:
        if (best := measured.best(model, system, FASTEST)) is None:
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
    """Return, as text such as "512, 1,024 Gb/s", the bandwidths at which a placed split with k > 1 is the best of all k
    and faster than sharded data parallelism; "no bandwidth" where there is none."""
    better = [
        f"{gbps:,}"
        for gbps in BANDWIDTHS
        if (best := measured.best(model, system, gbps)) is not None
        and best.k > 1
        and best.seconds < measured.rival(model, system, gbps, "fsdp")["step_s"]
    ]
    return f"{', '.join(better)} Gb/s" if better else "no bandwidth"


def _own_bytes(measured: Comparison, model: str) -> Claim:
    """Return a model's row of the speed-up by the scripts' model over an electrical switch of 400 Gb/s, with our
    gradients' bytes, at the fastest bandwidth; its explanation has that over 200 Gb/s, and both with the scripts'
    weights."""
    ours = [measured.script_speedup(model, FASTEST, today, gradient_bytes(model)) for today in (400.0, 200.0)]
    theirs = [measured.script_speedup(model, FASTEST, today) for today in (400.0, 200.0)]
    values = {"model": model, "ours": ours, "scripts": theirs}
    return PAPER.claim("headline.beyond_script_own_gradients_{model}", round(ours[0], 2), **values)


def _ms(value: float) -> str:
    """Return seconds as text in milliseconds with two decimals and the unit, "12.34 ms"."""
    return f"{1e3 * value:.2f} ms"


# Balanced graphs of a few sub-operators, specified by hand.


def balanced_graph(name: str, parts: Sequence[int], edges: Sequence[tuple[int, int]]) -> BalancedGraph:
    """Return a graph of sub-operators that take a microsecond each forward and backward, have 1,000 parameters each,
    and send 1,000 bytes along every edge.

    Args:
        name: of the graph.
        parts: number of parts of each operator; the parts of all operators, in this order, are numbered from 0 as
            sub-operators.
        edges: pairs of sub-operators (producer, reader), producers before readers.
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
        forward=np.full(size, 1e-6),
        backward=np.full(size, 1e-6),
        parameters=np.full(size, 1000),
        memory=np.ones(size),
        synchronised=np.zeros(size),
        parent_start=np.searchsorted(reader, np.arange(size + 1)).astype(np.int64),
        parent=parent,
        nbytes=np.full(len(ordered), 1e3),
        content=np.zeros(len(ordered), np.int64),
        gradient_bytes=4,
    )


# Section 3.1 and 3.2: duty cycle, reconfiguration, and how many peers the distance rule really allows.

RULE_REACH, RULE_DEVICES = 3, 8
"""Δ and k of the constructed case: 2 Δ < k, so that all peers differ."""


def forward_case(degree: int = RULE_REACH, devices: int = RULE_DEVICES) -> HybridPlan:
    """Return a plan of two operators with a part on every device, in two groups; part i of the second reads parts i − Δ
    ... i of the first, modulo the devices, so that every edge keeps (i − j) mod k ≤ Δ. ``degree`` is Δ, ``devices`` is
    k."""
    edges = [((i - back) % devices, devices + i) for i in range(devices) for back in range(degree + 1)]
    return planned(balanced_graph("forward-case", (devices, devices), edges), [*range(devices)] * 2, devices, degree)


def circuits_refusal(plan: HybridPlan, degree: int) -> str:
    """Return the message, from the fast assignment of circuits, on why a circuit switch of ``degree`` planes cannot
    serve a plan's traffic; empty if it can."""
    fabric = CircuitSwitch(ranks=plan.ranks, degree=degree)
    return refusal(lambda: switch.assign(Traffic.of(plan.traffic.total), fabric))


def _section_3() -> Iterator[Claim]:
    """Yield four rows: the duty cycle, in percent, of a hold of ten reconfigurations, the reconfiguration of the ring
    in µs and of OCS in ms as the catalog has them, and the most peers in a group that the rule (i − j) mod k ≤ Δ
    allows, in :func:`forward_case`, beside Δ."""
    yield PAPER.claim("example.duty_10r", round(100 * Timing(HOLD_10, 1.0).duty_cycle, 2))
    ring, ocs = load_fabric("sip-ring", 64), load_fabric("circuit-switch", 64)
    yield PAPER.claim("example.ring_reconfiguration", ring.setup_time * 1e6)
    yield PAPER.claim("example.ocs_reconfiguration", ocs.setup_time * 1e3)
    plan = forward_case()
    refusal = circuits_refusal(plan, RULE_REACH + 1)
    yield PAPER.claim("example.peers_by_distance", most_peers(plan), paper=RULE_REACH, k=RULE_DEVICES, refusal=refusal)


def claims(measured: Comparison) -> tuple[Claim, ...]:
    """Return all rows of the study, those of the headline from the measured comparison of networks."""
    return (
        *(*_section_3(), *_figure_4(), _repair_ends(), *_rings(), *_switches()),
        *(*weight_claims(), *_speedups(measured), *_beyond_the_paper(measured)),
    )
