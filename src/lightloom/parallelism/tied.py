"""Tied tables: weights that an embedding and the head of a model share.

    stage 0   [embedding]  layers ...               stage p−1   ... layers  [head]
                  └────────── gradients of the table, added up once a step ──────┘

A pipeline whose stages hold both keeps a copy in each, and these stages add up its gradients after every other
exchange. Source: Narayanan et al., SC 2021, and ``_allreduce_word_embedding_grads`` in Megatron Core's
``distributed/finalize_model_grads.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lightloom.core.arrays import Floats, Ints
from lightloom.workloads.graph import ComputeGraph, Operator


class TiedTable(NamedTuple):
    """A table that several operators read."""

    owner: int
    """The operator whose parameters it counts to."""
    readers: tuple[int, ...]
    """Operators that read it later."""
    parameters: int


def tied_tables(graph: ComputeGraph) -> tuple[TiedTable, ...]:
    """Return the tables of embeddings that later operators read without parameters of their own.

    Such a reader is an embedding without parameters of as many channels, or a linear layer with fewer parameters than
    its weight has, which is as large as the table.
    """
    readers: dict[int, list[int]] = {}
    for index, operator in enumerate(graph.operators):
        owner = next((place for place in readers if _reads(operator, graph.operators[place])), None)
        if owner is not None:
            readers[owner].append(index)
        elif operator.kind == "embedding" and operator.parameters:
            readers[index] = []
    return tuple(
        TiedTable(owner, tuple(found), graph.operators[owner].parameters) for owner, found in readers.items() if found
    )


def _reads(operator: Operator, owner: Operator) -> bool:
    sizes = operator.dimensions
    if operator.kind == "embedding":
        return not operator.parameters and sizes.get("channel") == owner.dimensions.get("channel")
    weight = sizes.get("channel", 0) * sizes.get("in_channel", 0)
    return operator.kind == "linear" and operator.parameters < weight == owner.parameters


def holding_stages(table: TiedTable, edges: Ints, stages: int) -> list[int]:
    """Return the stages that hold a table, in ascending order; ``edges`` are those of the chunks."""
    return sorted({int(stage) for stage in _stages((table.owner, *table.readers), edges, stages)})


def copied_parameters(tables: Sequence[TiedTable], starts: Ints, edges: Ints, stages: int) -> Floats:
    """Return the parameters that blocks hold besides their own, as their stage needs a copy of a table: [blocks].

    Args:
        tables: of the model.
        starts: first operators of blocks.
        edges: first operator of each chunk, and the number of operators.
        stages: chunk c belongs to stage c mod ``stages``.
    """
    copies = np.zeros(len(starts))
    for table in tables:
        holders = {int(_stages((table.owner,), edges, stages)[0])}
        for reader, stage in zip(table.readers, _stages(table.readers, edges, stages).tolist(), strict=True):
            if stage not in holders:
                copies[np.searchsorted(starts, reader, "right") - 1] += table.parameters
                holders.add(stage)
    return copies


def _stages(operators: Sequence[int], edges: Ints, stages: int) -> Ints:
    return (np.searchsorted(edges, operators, "right") - 1) % stages
