"""A parallel plan: what a rank computes, in which order, and the collectives that follow.

All strategies here are symmetric, so one rank stands for all. Its step is a row of *positions*:

    forward of operators 0 ... n−1  │  backward of operators n−1 ... 0  │  update
    position 0 ... n−1              │  n ... 2n−1                       │  2n

A strategy is data: which :class:`Exchange` may start after which position, and which position waits for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from math import prod
from types import MappingProxyType
from typing import Literal

import numpy as np

from lightloom.collectives.collective import Kind
from lightloom.core.arrays import Floats, Ints, Mask
from lightloom.core.errors import UnknownNameError
from lightloom.machines.accelerators.accelerator import ELEMENT_BYTES
from lightloom.machines.clusters.cluster import TrainingSettings
from lightloom.models.graph import ComputeGraph, Operator
from lightloom.planning.parallelism.operators import loss_bytes
from lightloom.planning.parallelism.tensor_parallel import SCOREWISE

START = -1
"""The position before the first: what starts after it may start at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterGroup:
    """Consecutive operators whose parameters travel together: a bucket (ddp) or a unit (fsdp)."""

    name: str
    first: int
    """Index of the first operator."""
    last: int
    """Index of the last operator, inclusive."""
    operators: tuple[str, ...]
    """Names of the operators in it that have parameters."""
    parameters: int
    """Parameters of all these operators together."""

    def exchange(
        self, kind: Kind, parameter_bytes: int, starts_after: int, needed_by: int, *, suffix: str = ""
    ) -> Exchange:
        """Return the collective of this group's parameters, named by kind, group and ``suffix``: ``all-gather unit 3
        forward``.

        Args:
            kind: kind of the collective.
            parameter_bytes: bytes that are exchanged for each parameter.
            starts_after: position of the pass that must be done before the collective may start; ``START`` for none. Of
                n operators, operator i has its forward pass at i and its backward pass at 2 n - 1 - i.
            needed_by: position of the pass, or of the optimizer's update at 2 n, that waits for the collective's end.
            suffix: end of the name, its leading space included.
        """
        name, nbytes = f"{kind} {self.name}{suffix}", float(self.parameters * parameter_bytes)
        return Exchange(name=name, kind=kind, nbytes=nbytes, starts_after=starts_after, needed_by=needed_by)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One collective of a step."""

    name: str
    kind: Kind
    nbytes: float
    """Bytes at every rank at the end of an all-gather, at the start of the other kinds (``Collective.nbytes``)."""
    starts_after: int
    """Position that must be done before it may start; ``START`` for none."""
    needed_by: int
    """Position that waits for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUse:
    """Bytes that a rank holds at the worst moment of a step."""

    parameters: float
    gradients: float
    optimizer: float
    activations: float
    """Bytes that autograd keeps for the backward pass, nothing recomputed but in checkpointed regions of the model."""
    gathered: float = 0.0
    """Parameters and gradients of the units that are whole for the moment (sharded strategies)."""
    loss: float = 0.0
    """Bytes that the cross entropy holds when its backward pass begins, beyond what checkpointed regions hold later."""

    @property
    def total(self) -> float:
        """Bytes of parameters, gradients, optimizer, activations, gathered units and loss together."""
        return self.parameters + self.gradients + self.optimizer + self.activations + self.gathered + self.loss

    def parts(self) -> dict[str, float]:
        """Return the bytes by field name (``parameters``, ``gradients``, ``optimizer``, ``activations``, ``gathered``,
        ``loss``), without parts of 0 bytes."""
        return {name: nbytes for name, nbytes in asdict(self).items() if nbytes}


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelPlan:
    """Step of one rank: its graph, collectives in order, and memory.

    Raises:
        AssertionError: the strategy that made it broke a law: a parameter in no group or in two, or an exchange that is
            waited for before it can start.
    """

    strategy: str
    graph: ComputeGraph
    """One rank's batch, at the element size of the arithmetic."""
    ranks: int
    settings: TrainingSettings
    groups: tuple[ParameterGroup, ...]
    exchanges: tuple[Exchange, ...]
    """In the order in which they are issued, which is the order in which the network serves them."""
    memory: MemoryUse
    updated_parameters: float
    """Parameters that one rank's optimizer updates."""
    recomputed: frozenset[str] = frozenset()
    """Operators that run their forward pass once more before their backward pass."""

    def __post_init__(self) -> None:
        """Raise AssertionError where a parameter is not in exactly one group, or an exchange is needed before it can
        start."""
        grouped = [name for group in self.groups for name in group.operators]
        owners = [operator.name for operator in self.graph.operators if operator.parameters]
        if sorted(grouped) != sorted(owners):
            raise AssertionError(f"{self.strategy}: every parameter must be in exactly one group")
        issued = START
        for exchange in self.exchanges:
            # The network serves in order, so an exchange also waits for what the earlier ones wait for.
            issued = max(issued, exchange.starts_after)
            if not START <= issued < exchange.needed_by <= self.update:
                raise AssertionError(f"{self.strategy}: {exchange.name} is needed before it can start")

    @property
    def update(self) -> int:
        """Position of the optimizer's step, the last of all: 2 n for n operators, whose forward passes are at 0 to n -
        1, and backward passes, in reverse order, at n to 2 n - 1."""
        return 2 * len(self.graph.operators)


def groups_of(amounts: Floats, mark: float, first_mark: float = math.inf) -> Iterator[tuple[int, int]]:
    """Yield, for each group of consecutive amounts, the position of its first one and the position after its last.

    A group is closed once its sum has reached ``mark``, so that the amount that crosses the mark is still in it; the
    first group already at ``first_mark``, if that is smaller. The last group may stay below. All amounts must be above
    0.
    """
    sums = np.cumsum(amounts)
    needed, begin, held = min(mark, first_mark), 0, 0.0
    while begin < len(sums):
        end = min(max(int(np.searchsorted(sums, held + needed)), begin) + 1, len(sums))
        yield begin, end
        begin, held, needed = end, float(sums[end - 1]), mark


def local_graph(graph: ComputeGraph, settings: TrainingSettings) -> ComputeGraph:
    """Return the graph of one rank: with the settings' batch of a rank in place of its own, and elements of as many
    bytes as the settings' number format has."""
    return graph.with_element_bytes(ELEMENT_BYTES[settings.precision]).with_batch(settings.batch_per_rank)


def data_parallel(graph: ComputeGraph, ranks: int, settings: TrainingSettings) -> ParallelPlan:
    """Return the plan of PyTorch's DistributedDataParallel: every rank holds the model, and buckets of gradients are
    all-reduced, named ``all-reduce bucket 0`` (the gradients of the last operators) and so on. Each may start once the
    backward pass of its first operator is done, and the update waits for it.

        backward   [op 9][op 8][op 7][op 6][op 5] ... [op 0]
        network               [bucket 0  ]  [bucket 1      ] ... [last bucket] update

    An operator's parameters (weight and bias) stay together, which PyTorch does not promise; a tied parameter counts
    where it is first used, whose backward pass is the last to add to its gradient. Source: Li et al., "PyTorch
    Distributed: Experiences on Accelerating Data Parallel Training", VLDB 2020, section 3.2.
    """
    local = local_graph(graph, settings)
    groups = buckets(local, settings)
    end = 2 * len(local.operators)
    exchanges = tuple(
        group.exchange("all-reduce", settings.gradient_bytes, end - 1 - group.first, end) for group in groups
    )
    held = float(local.parameters + local.unused_parameters)
    return _plan("ddp", local, ranks, settings, groups, exchanges, held, settings.gradient_bytes)


def _plan(
    strategy: str,
    local: ComputeGraph,
    ranks: int,
    settings: TrainingSettings,
    groups: tuple[ParameterGroup, ...],
    exchanges: tuple[Exchange, ...],
    held: float,
    gradient_bytes: int,
    gathered: float = 0.0,
) -> ParallelPlan:
    """Return the plan of a rank, its memory included: the parameters held with their gradients and optimizer state,
    what the graph keeps for the backward pass, the units that are whole, and the loss of a model traced without it, as
    far as it exceeds what checkpointed regions make again later.

    Args:
        strategy: name of the strategy.
        local: graph of the rank's own batch.
        ranks: ranks of the job.
        settings: number formats, batch and options of the training.
        groups: parameters that travel together.
        exchanges: collectives in their order of issue.
        held: parameters that the rank holds and updates.
        gradient_bytes: bytes of the gradient of each parameter held.
        gathered: bytes of the units that are whole for the moment.
    """
    memory = MemoryUse(
        parameters=held * settings.stored_parameter_bytes,
        gradients=held * gradient_bytes,
        optimizer=held * settings.optimizer_state_bytes,
        activations=float(local.saved_bytes),
        gathered=gathered,
        # The largest checkpoint region makes its bytes again later, when the loss is gone.
        loss=max(loss_bytes(local) - local.recomputed_bytes, 0.0),
    )
    return ParallelPlan(
        strategy=strategy,
        graph=local,
        ranks=ranks,
        settings=settings,
        groups=groups,
        exchanges=exchanges,
        memory=memory,
        updated_parameters=held,
    )


def buckets(graph: ComputeGraph, settings: TrainingSettings) -> tuple[ParameterGroup, ...]:
    """Return gradient buckets for all operators with parameters, in backward order; ``first`` and ``last`` are places
    in forward order.

    They are cut as by PyTorch's ``compute_bucket_assignment_by_size``: a bucket takes gradients until it has reached
    its size (``bucket_size`` bytes of the settings, by default 25 MiB), so the one that crosses the mark is still in
    it; the first bucket ends at ``first_bucket_size`` (1 MiB) if that is smaller.
    """
    marks = settings.bucket_size, settings.first_bucket_size
    return tuple(_parameter_groups(graph, "bucket", settings.gradient_bytes, *marks, order=-1))


def _parameter_groups(
    graph: ComputeGraph, word: str, size: int, *marks: float, order: Literal[1, -1] = 1
) -> Iterator[ParameterGroup]:
    """Yield groups of consecutive operators among those that have parameters (with the sum of these, and as ``first``
    and ``last`` the positions of the outermost ones among all operators), named by ``word`` and their number from 0 on,
    ``bucket 0``.

    Args:
        graph: graph of one rank.
        word: start of each group's name.
        size: what a parameter counts for: its bytes, or 1.
        marks: the sum at which a group is closed and, if given, that of the first group (:func:`groups_of`).
        order: 1 for forward, -1 for backward order; ``first`` and ``last`` of a group are positions in forward order in
            both.
    """
    owners = [index for index, operator in enumerate(graph.operators) if operator.parameters][::order]
    parameters = np.array([graph.operators[index].parameters for index in owners], np.float64)
    for number, (begin, end) in enumerate(groups_of(parameters * size, *marks)):
        members = owners[begin:end]
        yield ParameterGroup(
            name=f"{word} {number}",
            first=min(members),
            last=max(members),
            operators=tuple(graph.operators[index].name for index in members),
            parameters=int(parameters[begin:end].sum()),
        )


def sharded(graph: ComputeGraph, ranks: int, settings: TrainingSettings) -> ParallelPlan:
    """Return the plan of sharded data parallelism (ZeRO stage 3), in the order of PyTorch's FSDP2.

        forward    gather 0 ─ [unit 0]    [unit 1]  ...  [unit U−1]      gather i+1 runs while unit i computes
        backward   [unit U−1]    [unit U−2]  ...  [unit 0]               gather i−1 runs while unit i computes;
        network       gather U−2   scatter U−1   gather U−3  scatter U−2 ...

    Ranks share parameters, gradients and optimizer state, and gather units as they need them. The last unit keeps its
    parameters between forward and backward, so it is gathered once. Memory counts as many of the largest units whole as
    are gathered ahead and one more, and the gradient of the largest. Sources: Rajbhandari et al., "ZeRO", SC 2020,
    section 5.3; Zhao et al., "PyTorch FSDP", VLDB 2023, section 3.3.
    """
    local = local_graph(graph, settings)
    groups = units(local, settings)
    shard = (local.parameters + local.unused_parameters) / ranks
    largest = sorted((group.parameters for group in groups), reverse=True)
    # The unit that computes and those gathered ahead, plus the gradient that is being reduced: at most the largest.
    gathered = float(sum(largest[: settings.prefetch + 1]) * settings.sharded_parameter_bytes)
    gathered += sum(largest[:1]) * settings.sharded_gradient_bytes
    exchanges = tuple(_unit_exchanges(groups, len(local.operators), settings))
    return _plan("fsdp", local, ranks, settings, groups, exchanges, shard, settings.stored_parameter_bytes, gathered)


def units(graph: ComputeGraph, settings: TrainingSettings) -> tuple[ParameterGroup, ...]:
    """Return the units of consecutive operators, in forward order, each closed once it holds at least the settings'
    ``unit_parameters`` parameters; the last one may hold fewer. Together they cover all operators of the graph, and
    each begins where the one before ends; a graph without parameters has none."""
    groups = list(_parameter_groups(graph, "unit", 1, settings.unit_parameters))
    # What follows the last parameters (activations, the loss) belongs to the last unit.
    last = [*(group.last for group in groups[:-1]), len(graph.operators) - 1]
    first = [0, *(index + 1 for index in last)]
    return tuple(replace(each, first=a, last=b) for each, a, b in zip(groups, first, last, strict=False))


def _unit_exchanges(groups: Sequence[ParameterGroup], operators: int, settings: TrainingSettings) -> Iterator[Exchange]:
    """Yield the all-gather of each unit for the forward pass, then those of the backward pass (none of the last unit)
    with each unit's reduce-scatter, in order of issue; each gather at most the settings' ``prefetch`` units ahead of
    computing. They are named like ``all-gather unit 0 forward``, ``all-gather unit 0 backward`` and ``reduce-scatter
    unit 0``.

    ``groups`` are all units in forward order, ``operators`` is the number of operators of the graph.
    """
    end, count, ahead, size = 2 * operators, len(groups), settings.prefetch, settings.sharded_parameter_bytes
    for index, group in enumerate(groups):
        # Unit i may be gathered when unit i − prefetch begins, that is when the one before that is done.
        starts = groups[index - ahead - 1].last if index > ahead else START
        yield group.exchange("all-gather", size, starts, group.first, suffix=" forward")
    for index, group in reversed([*enumerate(groups)]):
        # When unit i begins, unit i − prefetch may be gathered; when the last one begins, all from there on.
        latest = index - ahead if index < count - 1 else count - 2
        for unit in reversed(groups[max(index - ahead, 0) : max(latest + 1, 0)]):
            yield unit.exchange("all-gather", size, end - 2 - group.last, end - 1 - unit.last, suffix=" backward")
        yield group.exchange("reduce-scatter", settings.sharded_gradient_bytes, end - 1 - group.first, end)


Strategy = Callable[[ComputeGraph, int, TrainingSettings], ParallelPlan]

STRATEGIES: Mapping[str, Strategy] = MappingProxyType({"ddp": data_parallel, "fsdp": sharded})
"""Every strategy by the name that the command line and the ranking use."""


def make_plan(strategy: str, graph: ComputeGraph, ranks: int, settings: TrainingSettings | None = None) -> ParallelPlan:
    """Return the plan of a strategy of data parallelism alone: the graph of a rank, groups of parameters that travel
    together, their collectives in the order of issue, and the bytes of memory that a rank holds at the worst moment.

    Args:
        strategy: ``ddp`` (replicated) or ``fsdp`` (fully sharded).
        graph: the model, at any batch.
        ranks: ranks of the job.
        settings: batch of a rank, number formats and options; None for the defaults of :class:`TrainingSettings`.

    Raises:
        UnknownNameError: no such strategy.
    """
    if strategy not in STRATEGIES:
        raise UnknownNameError("strategy", strategy, STRATEGIES)
    return STRATEGIES[strategy](graph, ranks, settings or TrainingSettings())


# Pipeline parallelism: where a model is cut into stages, and the order in which a stage takes micro-batches.
#
# stage 0   F0 F1 F2 F3 B0 F4 B1 F5 B2 ...      1F1B: stage s runs p − 1 − s forward passes ahead,
# stage p−1          F0 B0 F1 B1 F2 B2 ...      then one forward, one backward
#
# Interleaved, stage s of p holds v chunks of the model, s, s + p, s + 2p, ..., and takes p micro-batches through a
# chunk before it goes on to the next: it runs 2(p − 1 − s) + (v − 1) p forward passes ahead, and equal chunks leave 1
# / v of the bubble.
#
# Source: Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters", SC 2021, section 2.2.


def block_starts(graph: ComputeGraph) -> Ints:
    """Return the index of the first operator of each block, shape [blocks].

    A block is a numbered module (``layers.3``, ``layer2.0``); what lies outside of any belongs to the block before it,
    or to the first.
    """
    starts, current = [0], ""
    for index, operator in enumerate(graph.operators):
        name = numbered_block(operator.block)
        if name and current and name != current:
            starts.append(index)
        current = name or current
    return np.array(starts, np.int64)


def numbered_block(block: str) -> str:
    """Return the path up to the first number of a module's path, ``layers.3`` for ``layers.3.mlp``; empty where it has
    none."""
    parts = block.split(".")
    number = next((index for index, part in enumerate(parts) if part.isdigit()), None)
    return "" if number is None else ".".join(parts[: number + 1])


def cuts(work: Floats, starts: Ints, stages: int) -> Ints:
    """Return the first operator of each of ``stages`` stages, and last the number of operators: [stages + 1]. Of all
    cuts those are taken whose busiest stage has the least work; of several as good ones any may come.

    Args:
        work: seconds of each operator, shape [operators].
        starts: index of the first operator of each block, where a stage may begin (:func:`block_starts`).
        stages: number of stages, at most that of the blocks; each has at least one block.

    Dynamic programme in O(stages · blocks²).
    """
    edges = np.append(starts, len(work))
    before = np.concatenate(([0.0], np.cumsum(work)))[edges]
    blocks = len(starts)
    span = before[None, :] - before[:, None]
    span[np.tril_indices(blocks + 1)] = np.inf  # a stage has at least one block
    best, chosen = span[0], []
    for _ in range(stages - 1):
        worst = np.maximum(best[:, None], span)
        chosen.append(worst.argmin(axis=0))
        best = worst.min(axis=0)
    at, edges_reversed = blocks, [len(work)]
    for choice in reversed(chosen):
        at = int(choice[at])
        edges_reversed.append(int(edges[at]))
    return np.array([0, *reversed(edges_reversed)], np.int64)


def stated_cuts(starts: Ints, operators: int, blocks: Sequence[int]) -> Ints:
    """Return the first operator of each stage, and last the number of operators, for stages of stated numbers of
    blocks: [stages + 1].

    Args:
        starts: index of the first operator of each block (:func:`block_starts`).
        operators: number of operators of the graph.
        blocks: number of blocks of each stage; they sum to all.
    """
    return np.append(starts[np.cumsum([0, *blocks[:-1]])], operators)


def crossing_bytes(graph: ComputeGraph, which: Mask | None = None) -> Ints:
    """Return, for each operator, the bytes that a pipeline cut right before it sends forward: [operators].

    Those are the whole outputs of earlier operators (only those that ``which`` [operators] chooses, where given) that
    this or a later operator reads, each counted once. The model's inputs do not count.
    """
    position = {operator.name: index for index, operator in enumerate(graph.operators)}
    change = np.zeros(len(graph.operators) + 1, np.int64)
    for name, readers in graph.consumers().items():
        index = position[name]
        # The model's inputs reach every stage from its host.
        if readers and graph.operators[index].kind != "input" and (which is None or which[index]):
            change[index + 1] += graph.operators[index].activation_bytes
            change[position[readers[-1]] + 1] -= graph.operators[index].activation_bytes
    return np.cumsum(change)[:-1]


def passes_ahead(stage: Ints | int, stages: int, virtual_stages: int) -> Ints | int:
    """Return the number of forward passes that a stage runs before it alternates one forward and one backward pass
    (1F1B), in the shape of ``stage``: stages - 1 - stage, or interleaved 2 (stages - 1 - stage) + (virtual_stages - 1)
    · stages; fewer micro-batches than that do not lessen it.

    ``stage`` counts from 0. With more than one chunk a stage (``virtual_stages``), passes of single chunks are counted.
    """
    ahead = stages - 1 - stage
    return ahead if virtual_stages == 1 else 2 * ahead + (virtual_stages - 1) * stages


def one_forward_one_backward(
    stage: int, stages: int, micro_batches: int, virtual_stages: int = 1
) -> list[tuple[str, int, int]]:
    """Return all passes of one stage in 1F1B order, each as ``("forward" | "backward", chunk, micro-batch)``; chunks
    are numbered over the whole model, so that chunk c belongs to stage c mod ``stages``.

    ``stage`` counts from 0. With several chunks a stage (``virtual_stages``) the schedule is interleaved, and
    ``micro_batches`` must be a multiple of ``stages``.
    """
    total = micro_batches * virtual_stages
    ahead = min(int(passes_ahead(stage, stages, virtual_stages)), total)

    def place(direction: str, index: int) -> tuple[str, int, int]:
        """Return direction, chunk and micro-batch of the pass that is the stage's ``index``-th in that direction."""
        # A turn takes ``stages`` micro-batches through the chunks of the stage, backward from the last chunk on.
        turn, within = divmod(index, stages * virtual_stages)
        chunk, micro = divmod(within, stages)
        chunk = chunk if direction == "forward" else virtual_stages - 1 - chunk
        return direction, stage + chunk * stages, turn * stages + micro

    forward, backward = partial(place, "forward"), partial(place, "backward")
    order = [forward(index) for index in range(ahead)]
    for index in range(ahead, total):
        order += [forward(index), backward(index - ahead)]
    return order + [backward(index) for index in range(total - ahead, total)]


@cache
def in_flight(stages: int, micro_batches: int, virtual_stages: int) -> tuple[Ints, ...]:
    """Return, for each stage, of how many micro-batches each of its chunks keeps activations at once: one array
    [moments, chunks of the stage] for each.

    Moments are those right after a forward pass of the steady phase of 1F1B; equal ones occur once. ``virtual_stages``
    is the number of chunks of a stage.
    """
    total, round_ = micro_batches * virtual_stages, stages * virtual_stages
    if virtual_stages == 1:
        # Not interleaved, every backward pass follows the forward pass after those ahead.
        ahead = passes_ahead(np.arange(stages), stages, 1)
        return tuple(np.minimum(ahead + 1, total).reshape(-1, 1, 1))
    chunk = np.arange(total) % round_ // stages
    begun = np.zeros((total + 1, virtual_stages), np.int64)
    np.cumsum(chunk[:, None] == np.arange(virtual_stages), axis=0, out=begun[1:])
    ended = begun[:, ::-1]
    kept_by_stage = []
    for stage in range(stages):
        ahead = min(int(passes_ahead(stage, stages, virtual_stages)), total)
        # From one turn to the next as many micro-batches come as go.
        steady = np.arange(min(max(total - ahead, 1), round_))
        kept_by_stage.append(np.unique(begun[np.minimum(ahead + steady + 1, total)] - ended[steady], axis=0))
    return tuple(kept_by_stage)


# Recomputation: which operators run their forward pass again before their backward pass, and what is kept instead.
#
# kept        full: what enters a block              selective: all but the insides of attention
# repeated    every operator of a block              scores, softmax and their product with the values
#
# Blocks are numbered modules (``layers.3``). Embedding, last norm, head and loss lie outside of them: they are
# computed once, and their outputs are kept. A model without numbered modules has nothing to recompute. Sources: Chen
# et al., "Training Deep Nets with Sublinear Memory Cost", 2016; Korthikanti et al., "Reducing Activation
# Recomputation in Large Transformer Models", MLSys 2023, section 5 (selective); "full" and "selective" are Megatron's
# names.

RECOMPUTATIONS = ("none", "full", "selective")
"""Activations kept for the backward pass: all, only what enters each block, or all but the insides of attention."""
SCORE_TENSORS = 2.5
"""Tensors of scores that unfused attention keeps for its backward pass: those after softmax and after dropout, and the
dropout's mask, of half their bytes. Source: Korthikanti et al., section 4.1: 5 a s² b bytes."""


def in_blocks(graph: ComputeGraph) -> Mask:
    """Return a mask of the operators that lie in a numbered module (a block such as ``layers.3``) and in no region that
    the model checkpoints by itself: [operators]."""
    inside = [bool(numbered_block(operator.block)) and not operator.checkpoint for operator in graph.operators]
    return np.array(inside, np.bool_)


def attention_core(graph: ComputeGraph) -> Mask:
    """Return a mask of the operators of blocks, outside of regions that the model checkpoints by itself, that are the
    inside of attention: [operators].

    These are fused attention, and every softmax with a matrix product both before and behind it, together with these
    products (of queries and keys, and with the values) and what is elementwise between, such as masks and dropout.
    """
    operators = {operator.name: operator for operator in graph.operators}
    readers = graph.consumers()
    sources = {name: operator.inputs for name, operator in operators.items()}
    core = {operator.name for operator in graph.operators if operator.kind == "attention"}
    for operator in graph.operators:
        if operator.kind == "softmax":
            before = _to_products(operator.name, sources, operators)
            behind = _to_products(operator.name, readers, operators)
            if before and behind:
                core |= before | behind | {operator.name}
    return in_blocks(graph) & np.array([operator.name in core for operator in graph.operators], np.bool_)


def _to_products(start: str, neighbours: Mapping[str, Iterable[str]], operators: Mapping[str, Operator]) -> set[str]:
    """Return the names of the operators on the way from the softmax ``start`` to the nearest matrix products, these
    included, the softmax not; none where no product is reached. Elementwise branches that lead to no product are
    included as well.

    ``neighbours`` are, by operator, its inputs or its readers; ``operators`` has all operators of the graph by name.
    The way goes through elementwise kinds only.
    """
    passed: set[str] = set()
    waiting, product = list(neighbours[start]), False
    while waiting:
        name = waiting.pop()
        operator = operators[name]
        if name in passed or operator.kind not in SCOREWISE | {"matmul"}:
            continue
        passed.add(name)
        if operator.kind == "matmul":
            product = True
        else:
            waiting.extend(neighbours[name])
    return passed if product else set()


def repeated_operators(graph: ComputeGraph, recomputation: str) -> Mask:
    """Return a mask of the operators whose forward pass is repeated before their backward pass: [operators]; of those
    outside of regions that the model checkpoints by itself, those in numbered blocks with ``full`` recomputation, the
    inside of attention with ``selective``, none with any other name."""
    masks = {"full": in_blocks, "selective": attention_core}
    return masks[recomputation](graph) if recomputation in masks else np.zeros(len(graph.operators), np.bool_)


def attention_scores(graph: ComputeGraph) -> Ints:
    """Return the number of scores of each attention operator at the graph's batch, samples · heads · queries · keys:
    [operators]; 0 for other operators, and for attention whose sizes are not all stated."""
    sizes, scores = ("sample", "head", "sequence", "key_sequence"), np.zeros(len(graph.operators), np.int64)
    for index, operator in enumerate(graph.operators):
        if operator.kind == "attention" and operator.dimensions.keys() >= set(sizes):
            scores[index] = prod(operator.dimensions[name] for name in sizes)
    return scores


def recomputation_columns(graph: ComputeGraph, *, unfused: bool) -> dict[str, Ints]:
    """Return columns of what recomputation repeats and drops, each [operators].

    They are, by name: whether an operator lies ``in_block`` (in a numbered block, and in no region that the model
    checkpoints by itself), in the ``core`` of attention or ``inside_core`` (it is in the core, and so is everything
    that reads its output), as 0 or 1; and the number of ``scores`` of the graph's batch that it keeps, 0 unless
    attention is ``unfused``.
    """
    core, readers = attention_core(graph), graph.consumers()
    names = {operator.name for operator, chosen in zip(graph.operators, core, strict=True) if chosen}
    alone = [bool(readers[operator.name]) and names.issuperset(readers[operator.name]) for operator in graph.operators]
    masks = {"in_block": in_blocks(graph), "core": core, "inside_core": core & np.array(alone, np.bool_)}
    return {name: mask.astype(np.int64) for name, mask in masks.items()} | {"scores": attention_scores(graph) * unfused}


def repetitions(in_block: Ints, core: Ints, recomputation: Ints) -> Ints:
    """Return how often operators repeat their forward pass before their backward pass, 0 or 1: [rows, operators].

    Args:
        in_block: 1 for operators of numbered blocks, which full recomputation repeats, otherwise 0: [operators].
        core: 1 for the inside of attention, which selective recomputation repeats, otherwise 0: [operators].
        recomputation: index in :data:`RECOMPUTATIONS` (none, full, selective): [rows].
    """
    full, selective = ((recomputation == RECOMPUTATIONS.index(name))[:, None] for name in ("full", "selective"))
    times: Ints = full * in_block + selective * core
    return times
