"""Recomputation in placed plans: each device repeats its own passes of a block before their backward passes.

    kept       outputs that leave a block, and what a device received from others
    dropped    everything else of a block, until the block's backward pass

What other devices sent is kept where it arrived, so that nothing is sent again and every device repeats passes on its
own.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lightloom.core.arrays import Floats, Int32s, Mask
from lightloom.parallelism.pipeline import numbered_block
from lightloom.parallelism.placement.balanced import BalancedGraph
from lightloom.parallelism.recomputation import in_blocks
from lightloom.workloads.graph import ComputeGraph


def kept_graph(graph: ComputeGraph) -> ComputeGraph:
    """Return the graph whose operators keep what is kept throughout: of blocks, outputs that leave them."""
    leaving = _leaving(graph)
    operators = [
        replace(
            operator,
            saved_bytes=operator.activation_bytes if leaves else 0,
            saved_shared_bytes=0,
            saved_index_bytes=0,
        )
        if repeated
        else operator
        for operator, repeated, leaves in zip(graph.operators, in_blocks(graph).tolist(), leaving.tolist(), strict=True)
    ]
    return replace(graph, operators=tuple(operators))


def repeated_memory(graph: ComputeGraph, balanced: BalancedGraph, device: Int32s, k: int) -> Floats:
    """Return the bytes [k] that recomputation makes each device hold besides what :func:`kept_graph` counts.

    What it has of the largest block while that block's backward pass runs, an operator's in equal parts; and what it
    received of outputs that their own devices drop.
    """
    position = {operator.name: index for index, operator in enumerate(graph.operators)}
    operator = np.array([position[name] for name in balanced.operators], np.int64)[balanced.operator]
    repeated, leaving = in_blocks(graph), _leaving(graph)
    parts = np.diff(balanced.first)[balanced.operator]
    saved = np.array([each.kept_bytes for each in graph.operators], np.float64)[operator] / parts
    names = [numbered_block(each.block) for each in graph.operators]
    block = np.unique(names, return_inverse=True)[1][operator]
    held = np.zeros((int(block.max(initial=0)) + 1, k))
    chosen = repeated[operator]
    np.add.at(held, (block[chosen], device[chosen]), saved[chosen])
    largest: Floats = held.max(axis=0)
    return largest + _received(balanced, device, (repeated & ~leaving)[operator], k)


def _received(balanced: BalancedGraph, device: Int32s, dropped: Mask, k: int) -> Floats:
    """Bytes [k] of outputs of dropped sub-operators that devices have from others, each once."""
    reader = np.repeat(np.arange(balanced.size), np.diff(balanced.parent_start))
    crossing = np.flatnonzero((device[balanced.parent] != device[reader]) & dropped[balanced.parent])
    keys = np.stack([balanced.parent[crossing], balanced.content[crossing], device[reader[crossing]]])
    _, first = np.unique(keys, axis=1, return_index=True)
    once = crossing[first]
    received: Floats = np.bincount(device[reader[once]], balanced.nbytes[once], k).astype(np.float64)
    return received


def _leaving(graph: ComputeGraph) -> Mask:
    """Return the operators of blocks whose output an operator outside of their block reads: [operators]."""
    block = {operator.name: numbered_block(operator.block) for operator in graph.operators}
    readers = graph.consumers()
    leaves = [any(block[reader] != block[name] for reader in readers[name]) for name in block]
    return np.array(leaves, np.bool_)
