"""Place sub-operators on devices, each exchanging data with no more others than the optics give it circuits.

After SiP-ML (Khani et al., SIGCOMM 2021), section 3.2 and Algorithm 1. :func:`place` tries the paper's forward pass
with its repair and a few other placements, keeps the fastest, and searches around it.
``kernels.iteration_time`` times them all.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from lightloom.core.arrays import Effort, Floats, Int32s, Ints
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.core.units import format_size
from lightloom.models.graph import ComputeGraph
from lightloom.planning.parallelism.placement.cuts import (
    SPLITS,
    Cut,
    Cuts,
    PartitionRules,
    PartSeconds,
    Split,
    split_size,
)
from lightloom.planning.parallelism.placement.kernels import (
    anneal,
    forward_pass,
    iteration_time,
    ranks,
    reconcile,
    settle,
    unreachable_pairs,
)
from lightloom.planning.parallelism.placement.placement import (
    BalancedGraph,
    Link,
    Neighbours,
    Placement,
    PlacementProblem,
    PlacementState,
    Reach,
)

# The placement problem: a balanced graph, devices, their reach and memory, in the form that compiled loops take.

_UNLIMITED = 1e300


class Problem(NamedTuple):
    """Sub-operators that are placed, and the limits that bind them."""

    balanced: BalancedGraph
    reach: Reach
    devices: int
    rows: PlacementProblem
    """Arrays of the problem in the form that compiled loops take."""


def start_order(balanced: BalancedGraph) -> Ints:
    """Return all sub-operators in the order in which they start where several could, which is topological: those with
    the most forward seconds on the longest path to the end first, transfers left out; equal ones as they are
    numbered."""
    return _start_order(_transposed(Neighbours(balanced.parent_start, balanced.parent, balanced.nbytes)), balanced)


def _start_order(after: Neighbours, balanced: BalancedGraph) -> Ints:
    """Return the sub-operators in the order in which they start where several could, those with the longest path of
    forward seconds to the end first, equal ones as they are numbered (:func:`start_order`); ``after`` are the rows of
    who comes after each, of which those with a negative delay are no part of a path."""
    # Equal ranks keep their order, in which producers come first.
    return np.argsort(-ranks(after, balanced.forward), kind="stable")


def _transposed(before: Neighbours) -> Neighbours:
    """Return the rows of who comes after each sub-operator, with the same delays, from those of who comes before it."""
    from scipy.sparse import csr_array

    size = len(before.start) - 1
    after = csr_array((before.delay, before.node, before.start), shape=(size, size)).tocsc()
    return Neighbours(after.indptr.astype(np.int64), after.indices.astype(np.int32), after.data)


def problem_of(balanced: BalancedGraph, devices: int, reach: Reach, memory: float | None, link: Link) -> Problem:
    """Return the problem of placing a balanced graph on ``devices`` devices of a group, in the form that compiled loops
    take: their order, by the longest path of forward seconds to the end, who comes before and after each with the
    seconds of a transfer, seconds and bytes, the memory of a device (1e300 for no limit), and the allowed differences
    of devices.

    Args:
        balanced: what to place.
        devices: number of devices, numbered along the ring.
        reach: which of them may communicate.
        memory: bytes of one device; None for no limit.
        link: what a transfer between two devices costs.

    Raises:
        UnsupportedError: the reach lets no two devices communicate.
    """
    before = _transfer_delays(balanced, link)
    after = _transposed(before)
    offsets = reach.offsets(devices)
    rows = PlacementProblem(
        order=_start_order(after, balanced),
        before=before,
        after=after,
        forward=balanced.forward,
        backward=balanced.backward,
        memory=balanced.memory,
        capacity=_UNLIMITED if memory is None else min(memory, _UNLIMITED),
        offsets=offsets,
        allowed=np.isin(np.arange(devices), offsets),
    )
    return Problem(balanced, reach, devices, rows)


def initial_state(problem: Problem, device: Int32s) -> PlacementState:
    """Return the state of a placement for compiled loops to change in place, ``device`` included: devices hold the
    bytes of what is placed on them and are free after its forward seconds alone, without waits.

    Args:
        problem: what is placed, and the limits.
        device: device of each sub-operator, -1 for those without one: [sub-operators]. All that are placed are yet to
            be looked at by the repair.
    """
    placed = device >= 0
    columns = (problem.rows.memory, problem.rows.forward)
    used, free = (np.bincount(device[placed], column[placed], problem.devices).astype(np.float64) for column in columns)
    moves, (reached, votes) = np.zeros(2, np.int64), np.zeros((2, problem.devices), np.int64)
    return PlacementState(
        device, used, free, placed, moves, reached, votes, np.zeros(len(device)), np.zeros(problem.devices)
    )


def _transfer_delays(balanced: BalancedGraph, link: Link) -> Neighbours:
    """Return the rows of who comes before each sub-operator: its parents, with the seconds of a transfer between two
    devices, and the part before it where they add up gradients of copied parameters, at -1 seconds, as neither waits
    for the other."""
    delay = link.latency + balanced.nbytes / link.bandwidth
    shared = np.flatnonzero(balanced.synchronised > 0)
    if not len(shared):
        return Neighbours(balanced.parent_start, balanced.parent, delay)
    ends = balanced.parent_start[shared + 1]
    start = balanced.parent_start.copy()
    start[1:] += np.cumsum(balanced.synchronised > 0)
    source = np.insert(balanced.parent, ends, (shared - 1).astype(np.int32))
    return Neighbours(start, source, np.insert(delay, ends, -1.0))


# Placements that the search starts from: forward passes, blocks, lines, and random ones made valid.

ROUNDS: Effort = 8
"""Backward and forward sweeps of one repair before it is given up."""
EFFORT: Effort = 2_000_000
"""Edges that the search around the best start may look at; a few hundredths of a second."""
SEARCHED: Effort = 4
"""Starts, the fastest ones, that the search shares its effort between."""
FURTHER: Effort = 16
"""Random starts that share it too, where every start then has ``THOROUGH`` moves for each sub-operator."""
THOROUGH: Effort = 50


class Start(NamedTuple):
    """A valid placement, how it was made, and how many sub-operators its repair moved."""

    method: str
    device: Int32s
    repaired: int


def moves(problem: Problem, effort: int) -> int:
    """Return how many moves the search may try, over all its starts together, with ``effort`` edges to look at; each
    move costs two looks at all sub-operators and edges, and 20 more."""
    return effort // (2 * (problem.balanced.size + len(problem.rows.before.node)) + 20)


def valid_starts(problem: Problem, repair: bool) -> Iterator[Start]:
    """Yield the placements of all deterministic starts (forward passes, blocks, lines) that keep reach and memory,
    those made so by a repair (of at most 8 backward and 8 forward sweeps) included unless ``repair`` is False. Their
    methods are named "earliest free device", "earliest finish", "earliest finish on W", "blocks on W" and "line of W",
    W the number of devices used: for "earliest finish on W" 1 and the size of a clique (neighbouring devices that all
    reach one another), unless that is all devices; for blocks these and all devices; for lines 1, the span of the reach
    and all devices. "Earliest finish on W" is not repaired."""
    k, clique = problem.devices, problem.reach.clique(problem.devices)
    rounds = ROUNDS if repair else 0
    for method, early in (("earliest free device", False), ("earliest finish", True)):
        yield from forward_starts(problem, method, k, early, rounds)
    yield from _block_starts(problem, k, rounds)
    for width in sorted({clique, 1} - {k}):
        yield from forward_starts(problem, f"earliest finish on {width}", width, True, 0)
        yield from _block_starts(problem, width, rounds)
    for width in sorted({1, problem.reach.span(k), k}):
        # Device after device is filled in topological order, to the least memory that suffices.
        yield from _settled_start(problem, f"line of {width}", filled(problem.balanced.memory, width)[1], rounds)


def forward_starts(problem: Problem, method: str, width: int, early: bool, rounds: int) -> Iterator[Start]:
    """Yield one start, the placement by the paper's forward pass on the first ``width`` devices; nothing where it gets
    stuck.

    Args:
        problem: what is placed, and the limits.
        method: name that the start has.
        width: number of devices that are used.
        early: take the device where a sub-operator would start first, transfers included, rather than the one that is
            free first.
        rounds: pairs of a backward and a forward sweep of each repair; 0 for no repair.
    """
    state = initial_state(problem, np.full(problem.balanced.size, -1, np.int32))
    if forward_pass(problem.rows, state, width, early, rounds):
        yield Start(method, state.device, int(state.moves[0]))


def _block_starts(problem: Problem, width: int, rounds: int) -> Iterator[Start]:
    """Yield one start, in which part i of the n of an operator is on device ⌊i · width / n⌋, so that aligned slices of
    all operators share a device; nothing where it does not keep memory and reach, and ``rounds`` backward and forward
    sweeps of a repair do not make it."""
    balanced = problem.balanced
    parts = np.diff(balanced.first)[balanced.operator]
    device = (balanced.part.astype(np.int64) * width // parts).astype(np.int32)
    yield from _settled_start(problem, f"blocks on {width}", device, rounds)


def last_resort(problem: Problem) -> Iterator[Start]:
    """Yield up to two placements made valid by random moves that lessen conflicts (pairs out of reach, memory
    exceeded), from lines, which fill device after device, over all devices and over the span of the reach: for memory
    so tight that no other start was valid. Their method is "fewest conflicts"."""
    balanced, k = problem.balanced, problem.devices
    steps = EFFORT * balanced.size // (balanced.size + len(problem.rows.before.node))
    for seed, width in enumerate((k, problem.reach.span(k))):
        _, device = filled(balanced.memory, width)
        yield from _reconciled_start(problem, "fewest conflicts", device, steps, seed)


def random_starts(problem: Problem, effort: int) -> Iterator[Start]:
    """Yield up to :data:`FURTHER` (16) random placements made valid, of method "random", as under tight limits moves
    cannot lead from one placement to all others. None are yielded with one device or sub-operator, or where the effort
    (edges to look at) is too small for :data:`THOROUGH` (50) moves for each sub-operator and start."""
    size, k = problem.balanced.size, problem.devices
    if k == 1 or size < 2 or moves(problem, effort) < (SEARCHED + FURTHER) * THOROUGH * size:
        return
    for seed in range(FURTHER):
        device = np.random.default_rng(seed).integers(0, k, size, np.int32)
        yield from _reconciled_start(problem, "random", device, 4 * THOROUGH * size, seed)


def _reconciled_start(problem: Problem, method: str, device: Int32s, steps: int, seed: int) -> Iterator[Start]:
    """Yield the placement ``device`` as a start named ``method``, once at most ``steps`` moves have made it valid in
    place; nothing where they have not. ``seed`` is that of the random moves."""
    if reconcile(problem.rows, device, steps, seed):
        yield Start(method, device, 0)


def _settled_start(problem: Problem, method: str, device: Int32s, rounds: int) -> Iterator[Start]:
    """Yield the placement ``device`` as a start named ``method`` if it keeps memory and reach, repaired in place by up
    to ``rounds`` backward and forward sweeps where it only breaks the reach; else nothing."""
    state = initial_state(problem, device)
    if state.used.max() > problem.rows.capacity:
        return
    if unreachable_pairs(problem.rows, device) and (
        not rounds or not settle(problem.rows, state, problem.balanced.size - 1, rounds)
    ):
        return
    yield Start(method, device, int(state.moves[0]))


def filled(memory: Floats, width: int) -> tuple[float, Int32s]:
    """Return the least bytes a device, found within 1 per mille, with which ``width`` devices filled one after the
    other in the order of the sub-operators hold all of them, and the device of each then: [sub-operators].

    ``memory`` [sub-operators] is the bytes of each.
    """
    sums = np.cumsum(memory)
    # The running sum itself: another order of summing may round to less, and leave the last node without a device.
    high = float(sums[-1]) if len(sums) else 0.0
    low = max(high / width, float(memory.max(initial=0.0)))
    device = fill(sums, high)
    for _ in range(40):
        if high <= low * 1.001:
            break
        middle = (low + high) / 2
        tried = fill(sums, middle)
        if len(tried) and tried[-1] < width:
            high, device = middle, tried
        else:
            low = middle
    return high, device


def fill(sums: Floats, capacity: float) -> Int32s:
    """Return the device of each sub-operator, numbered from 0 on without a limit, when devices are filled in order up
    to ``capacity`` bytes; a sub-operator that alone exceeds it has a device of its own.

    ``sums`` are the running sums of the sub-operators' bytes: [sub-operators].
    """
    device = np.zeros(len(sums), np.int32)
    begin, held, number = 0, 0.0, 0
    while begin < len(sums):
        end = max(int(np.searchsorted(sums, held + capacity, "right")), begin + 1)
        device[begin:end] = number
        begin, held, number = end, float(sums[end - 1]), number + 1
    return device


_ROUNDING = 1 - 1e-9
"""Sums of memory in another order."""


def place(
    balanced: BalancedGraph,
    devices: int,
    reach: Reach,
    memory: float | None,
    link: Link,
    *,
    repair: bool = True,
    effort: int = EFFORT,
) -> Placement:
    """Return the fastest placement found that keeps reach and memory, with its times.

    Starts: the paper's forward pass (earliest free device) and one that looks at transfers (earliest finish), both with
    repair; parts in blocks along the ring, repaired where they break the reach; the same on a clique, devices next to
    each other that all reach one another; and lines that fill device after device in topological order. Where none of
    these is valid, lines made valid by random moves that lessen conflicts are taken instead (also without ``repair``).
    The four fastest starts are improved by simulated annealing; small graphs, of up to about fifteen sub-operators,
    from random starts too.

    It ends, with a placement unless the search finds none that fits the memory. A repair makes at most 2 ·
    :data:`ROUNDS` (8) sweeps, each visiting a sub-operator once; there is at most one repair for each sub-operator, and
    one that has not settled by then gives up its start. Starts on a clique, which has at least one device, break no
    reach and need no repair; neither does a line over ``Reach.span`` devices.

    Args:
        balanced: what to place.
        devices: k, numbered along the ring.
        reach: who may communicate.
        memory: bytes of one device; None for no limit.
        link: what a transfer between two devices costs; transfers do not wait for each other.
        repair: False leaves out the starts that needed a repair.
        effort: edges that the search around the best starts may look at, 2,000,000 if not given; 0 for no search.

    Raises:
        ConfigError: no device, or a memory that is not positive.
        UnsupportedError: Δ, the degree of the reach, is too small for any communication, or no placement was found that
            keeps memory and reach; says what would do.
    """
    if devices < 1 or (memory is not None and not memory > 0):
        raise ConfigError(f"{devices} devices with {memory} B: expected at least one device and more than 0 B")
    problem = problem_of(balanced, devices, reach, memory, link)
    if balanced.memory.sum() * _ROUNDING > devices * problem.rows.capacity:
        raise _too_large(problem)
    starts = list(valid_starts(problem, repair)) or list(last_resort(problem))
    if not starts:
        raise _too_large(problem)
    return _fastest(problem, starts, reach, link, effort)


def _fastest(problem: Problem, starts: list[Start], reach: Reach, link: Link, effort: int) -> Placement:
    """Return the placement that the search makes fastest of the four fastest starts and of random ones, with its times,
    all counted from the start of the forward pass, and the method of its start and the number of moves of its repair.

    ``effort`` is the number of edges that the search may look at. ``starts`` is sorted in place by iteration time, and
    the search changes the devices of the fastest.
    """
    times = np.zeros((4, problem.balanced.size))
    starts.sort(key=lambda start: iteration_time(problem.rows, start.device, times))
    best = _searched(problem, starts[:SEARCHED] + list(random_starts(problem, effort)), effort)
    seconds = iteration_time(problem.rows, best.device, times)
    half = float(times[1].max(initial=0.0))
    return Placement(
        device=best.device,
        devices=problem.devices,
        reach=reach,
        link=link,
        start=times[0].copy(),
        end=times[1].copy(),
        backward_start=times[2] + half,
        backward_end=times[3] + half,
        makespan=seconds,
        repaired=best.repaired,
        method=best.method,
    )


def _searched(problem: Problem, starts: list[Start], effort: int) -> Start:
    """Return the start whose placement the search makes fastest, of equals the first; the search changes the devices of
    all starts in place, each with an equal share of the moves that ``effort`` edges allow. Where there is nothing to
    place it is the first start."""
    if not problem.balanced.size:
        return starts[0]
    steps = moves(problem, effort) // len(starts)
    seconds = [anneal(problem.rows, start.device, steps, seed) for seed, start in enumerate(starts)]
    return starts[int(np.argmin(seconds))]


def _too_large(problem: Problem) -> UnsupportedError:
    """Return (not raise) the error that says what was tried, and which changes are each enough: more memory a device,
    or smaller parts, more devices or a larger Δ, the degree of the reach."""
    memory, k = problem.balanced.memory, problem.devices
    needed, _ = filled(memory, problem.reach.span(k))
    largest, total = int(memory.argmax()), float(memory.sum())
    fits = max(total / k, float(memory[largest])) <= problem.rows.capacity
    text = (
        f"{problem.balanced.name!r}: {'no placement found for' if fits else 'too large,'} {format_size(total)} on {k} "
        f"devices of {format_size(problem.rows.capacity)} with Δ = {problem.reach.degree}; "
        f"enough would be {format_size(needed)} a device"
    )
    if memory[largest] > problem.rows.capacity:
        label, size = problem.balanced.label(largest), format_size(float(memory[largest]))
        return UnsupportedError(f"{text}, or smaller parts ({label} needs {size})")
    enough = int(fill(np.cumsum(memory), problem.rows.capacity)[-1]) + 1
    if enough > k:
        return UnsupportedError(f"{text}, or k = {enough} with Δ = {enough - 1}")
    degree = (2 if problem.reach.rule == "peers" else 1) * (enough - 1)
    return UnsupportedError(f"{text}, or Δ = {min(degree, k - 1)}")


# Operators become sub-operators of about one quantum: the balanced graph that placement works on.
#
# [ conv1 ]──►[ conv2 ]        [c1.0][c1.1][c1.2][c1.3]
# ──►     │ ╲  │ ╲  │ ╲  │          an edge carries bytes forward,
# [c2.0][c2.1][c2.2][c2.3]     its gradient the same bytes back
#
# Inputs of the model are not placed: every device reads its share from its own host. Source: SiP-ML (Khani et al.,
# SIGCOMM 2021), section 3.2 (i).


def partition(
    graph: ComputeGraph, durations: Floats, k: int, quantum: float, rules: PartitionRules | None = None
) -> BalancedGraph:
    """Return a graph in which every operator is split into min(k, ⌊t / quantum⌋) parts rounded down to a power of two,
    at least one, or as many as its dimensions and the rules allow. The model's inputs are left out.

    Of the splits with the most parts the one that exchanges least is taken, its producers being split already: bytes of
    inputs that come from elsewhere, partial sums sent on, gradients of copied parameters, all in both directions. A
    part takes its share of the operator's duration.

    Args:
        graph: one group's batch.
        durations: seconds [operators, 2] of the forward and the backward pass, of all operators of the graph; t is the
            forward one.
        k: devices of a group.
        quantum: seconds below which splitting further does not make an operator faster; 0 for parts as many as devices.
        rules: limits of splits, and the bytes that a parameter costs; None for the defaults: as many parts as devices,
            16 bytes a parameter with gradient and optimizer state, gradients of 4 bytes.

    Raises:
        ConfigError: a number is out of range, or durations do not fit the graph.
    """
    return Partitions(graph, durations, rules)(k, quantum)


class Partitions:
    """:func:`partition` of one graph for many (k, quantum), which often ask for the same parts.

    Args:
        graph, durations, rules: as there.
        part_seconds: seconds of parts by their own shapes; without it, a part takes its share of its operator's
            duration, as in SiP-ML.
    """

    def __init__(
        self,
        graph: ComputeGraph,
        durations: Floats,
        rules: PartitionRules | None = None,
        part_seconds: PartSeconds | None = None,
    ) -> None:
        self.graph, self.rules = graph, rules or PartitionRules()
        seconds = np.asarray(durations, dtype=np.float64)
        if seconds.shape != (len(graph.operators), 2) or not np.all(seconds >= 0):
            raise ConfigError(
                f"durations of shape {seconds.shape}: expected seconds of at least 0 "
                f"of shape ({len(graph.operators)}, 2) for {graph.name!r}"
            )
        self._cuts = Cuts(graph, seconds, self.rules, part_seconds)
        self._forward: list[float] = self._cuts.durations[:, 0].tolist()
        self._chosen: dict[object, Cut] = {}
        """By all that decides: the sort of an operator, the wish, the limit, sorts and cuts of its producers."""

    def __call__(self, k: int, quantum: float, most_exchanging: int | None = None) -> BalancedGraph:
        """Return the balanced graph; equal cuts give the same object.

        Args:
            k: devices of a group.
            quantum: seconds; as :func:`partition`.
            most_exchanging: takes the place of that of the rules; None keeps it.
        """
        if k < 1 or not quantum >= 0:
            raise ConfigError(f"k = {k} and quantum = {quantum}: expected at least 1 device and at least 0 s")
        most_exchanging = self.rules.most_exchanging if most_exchanging is None else most_exchanging
        # Each operator's cut is chosen after its producers', for the parts that its forward seconds ask for.
        sort, chosen = self._cuts.sort, list[Cut]()
        for number, (seconds, producers) in enumerate(zip(self._forward, self._cuts.producers, strict=True)):
            wish = _power_of_two(max(1, k if quantum * k <= seconds else int(seconds / quantum)))
            read = tuple((sort[source], chosen[source]) if source >= 0 else None for source in producers)
            key = sort[number], wish, most_exchanging, read
            if key not in self._chosen:
                self._chosen[key] = self._choose(number, wish, most_exchanging, chosen)
            chosen.append(self._chosen[key])
        return self._cuts.balanced(tuple(chosen))

    def _choose(self, number: int, wish: int, most_exchanging: int | None, chosen: Sequence[Cut]) -> Cut:
        """Return the cut of operator ``number`` with the most parts, a power of two up to ``wish``, and of several
        splits with as many the one that exchanges the fewest bytes, the first of equals; one part without a split where
        none applies.

        Args:
            number: the operator, counted without the model's inputs.
            wish: the most parts, a power of two.
            most_exchanging: the most parts of a split whose parts may read all of the input or write partial sums; None
                for no limit.
            chosen: cuts of all operators before this one.
        """
        operator = self._cuts.operators[number]
        best, least = Cut(None, 1), (-1, 0.0)
        for split in SPLITS[operator.kind]:
            parts = min(wish, split_size(operator, split))
            if most_exchanging is not None and reads_everything(split):
                parts = min(parts, most_exchanging)
            parts = _power_of_two(parts)
            if -parts > least[0]:
                continue
            cost = (-parts, self._cuts.exchanged_bytes(number, Cut(split, parts), chosen))
            if cost < least:
                best, least = Cut(split, parts), cost
        return best


def _power_of_two(parts: int) -> int:
    """Return a number of parts rounded down to a power of two, as the authors' simulator does; 0 stays 0."""
    return 1 << (parts.bit_length() - 1) if parts > 1 else parts


def reads_everything(split: Split) -> bool:
    """Return whether the parts of an operator may need data of all others: each may read all of an input, or they write
    partial sums that are added up."""
    return split.partial or "whole" in split.inputs or "group" in split.inputs
