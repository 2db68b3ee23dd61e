"""Pipeline parallelism: where a model is cut into stages, and the order in which a stage takes micro-batches.

    stage 0   F0 F1 F2 F3 B0 F4 B1 F5 B2 ...      1F1B: stage s runs p − 1 − s forward passes ahead,
    stage p−1          F0 B0 F1 B1 F2 B2 ...      then one forward, one backward

Interleaved, stage s of p holds v chunks of the model, s, s + p, s + 2p, ..., and takes p micro-batches through a
chunk before it goes on to the next: it runs 2(p − 1 − s) + (v − 1) p forward passes ahead, and equal chunks leave 1 / v
of the bubble.

Source: Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters", SC 2021, section 2.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from lightloom.core.arrays import Floats, Ints, Mask
from lightloom.workloads.graph import ComputeGraph


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
    """Return the path of the numbered module that a module lies in or is; empty where there is none."""
    parts = block.split(".")
    number = next((index for index, part in enumerate(parts) if part.isdigit()), None)
    return "" if number is None else ".".join(parts[: number + 1])


def cuts(work: Floats, starts: Ints, stages: int) -> Ints:
    """Return the first operator of each stage, and the number of operators: [stages + 1].

    The busiest stage has the least work possible.

    Args:
        work: seconds of each operator, shape [operators].
        starts: where a stage may begin (:func:`block_starts`).

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


def equal_cuts(starts: Ints, operators: int, stages: int) -> Ints:
    """Return the first operator of each stage, and the number of operators: [stages + 1].

    All stages have the same number of blocks; where that leaves a rest, the first ones have one block more.

    Args:
        starts: where a stage may begin (:func:`block_starts`).
        operators: their number.
        stages: at most as many as blocks.
    """
    more = np.arange(stages) < len(starts) % stages
    begins = np.concatenate(([0], np.cumsum(len(starts) // stages + more)[:-1]))
    return np.append(starts[begins], operators)


def stated_cuts(starts: Ints, operators: int, blocks: Sequence[int]) -> Ints:
    """Return the first operator of each stage, and the number of operators: [stages + 1].

    Args:
        starts: where a stage may begin (:func:`block_starts`).
        operators: their number.
        blocks: of each stage; they sum to all.
    """
    begins = np.cumsum([0, *blocks[:-1]])
    return np.append(starts[begins], operators)


def crossing_bytes(graph: ComputeGraph, which: Mask | None = None) -> Ints:
    """Bytes of all outputs (of ``which`` operators) that operators from each one on read from before it: [operators],
    what a cut there sends."""
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
    """Forward passes of a stage before its first backward pass, if there are as many."""
    ahead = stages - 1 - stage
    return ahead if virtual_stages == 1 else 2 * ahead + (virtual_stages - 1) * stages


def one_forward_one_backward(
    stage: int, stages: int, micro_batches: int, virtual_stages: int = 1
) -> list[tuple[str, int, int]]:
    """The order of a stage: ``("forward" | "backward", chunk, micro-batch)``, chunks counted over the whole model."""
    total = micro_batches * virtual_stages
    ahead = min(int(passes_ahead(stage, stages, virtual_stages)), total)

    def forward(index: int) -> tuple[str, int, int]:
        turn, chunk, micro = _place(index, stages, virtual_stages)
        return "forward", stage + chunk * stages, turn * stages + micro

    def backward(index: int) -> tuple[str, int, int]:
        turn, chunk, micro = _place(index, stages, virtual_stages)
        return "backward", stage + (virtual_stages - 1 - chunk) * stages, turn * stages + micro

    order = [forward(index) for index in range(ahead)]
    for index in range(ahead, total):
        order += [forward(index), backward(index - ahead)]
    return order + [backward(index) for index in range(total - ahead, total)]


def _place(index: int, stages: int, virtual_stages: int) -> tuple[int, int, int]:
    """Turn, chunk of the stage and micro-batch of the turn of a stage's pass; a turn is ``stages`` micro-batches."""
    turn, within = divmod(index, stages * virtual_stages)
    return turn, *divmod(within, stages)


@cache
def in_flight(stages: int, micro_batches: int, virtual_stages: int) -> tuple[Ints, ...]:
    """For each stage, micro-batches whose activations its chunks keep at once: [moments, chunks of the stage].

    Moments in which every chunk keeps no more than in another one are left out only where they are the same.
    """
    total, round_ = micro_batches * virtual_stages, stages * virtual_stages
    chunk = np.arange(total) % round_ // stages if virtual_stages > 1 else np.zeros(total, np.int64)
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
