"""Balanced graphs of a few sub-operators, specified by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lightloom.parallelism.placement.balanced import BalancedGraph


def balanced_graph(
    name: str, parts: Sequence[int], edges: Sequence[tuple[int, int]], seconds: float = 1e-6, nbytes: float = 1e3
) -> BalancedGraph:
    """Sub-operators that take ``seconds`` in either direction and send ``nbytes`` along every edge.

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
