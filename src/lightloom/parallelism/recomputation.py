"""Recomputation: which operators run their forward pass again before their backward pass, and what is kept instead.

    kept        full: what enters a block              selective: all but the insides of attention
    repeated    every operator of a block              scores, softmax and their product with the values

Blocks are numbered modules (``layers.3``). Embedding, last norm, head and loss lie outside of them: they are computed
once, and their outputs are kept. A model without numbered modules has nothing to recompute. Sources: Chen et al.,
"Training Deep Nets with Sublinear Memory Cost", 2016; Korthikanti et al., "Reducing Activation Recomputation in Large
Transformer Models", MLSys 2023, section 5 (selective); "full" and "selective" are Megatron's names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

import numpy as np

from lightloom.core.arrays import Ints, Mask
from lightloom.parallelism.pipeline import numbered_block
from lightloom.workloads.graph import ComputeGraph, Operator

RECOMPUTATIONS = ("none", "full", "selective")
"""Activations kept for the backward pass: all, only what enters each block, or all but the insides of attention."""
SCORE_TENSORS = 2.5
"""Tensors of scores that unfused attention keeps for its backward pass: those after softmax and after dropout, and the
dropout's mask, of half their bytes. Source: Korthikanti et al., section 4.1: 5 a s² b bytes."""
_SCOREWISE = frozenset({"activation", "add", "copy", "dropout", "elementwise", "softmax"})
"""Kinds between the two products of attention that is written out."""


def in_blocks(graph: ComputeGraph) -> Mask:
    """Return which operators lie in a numbered module, in no region that the model checkpoints: [operators]."""
    inside = [bool(numbered_block(operator.block)) and not operator.checkpoint for operator in graph.operators]
    return np.array(inside, np.bool_)


def attention_core(graph: ComputeGraph) -> Mask:
    """Return which operators of blocks are the inside of attention: [operators].

    Fused attention, or the product of queries and keys, softmax, dropout and the product with the values.
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
    inside = in_blocks(graph)
    return inside & np.array([operator.name in core for operator in graph.operators], np.bool_)


def _to_products(start: str, neighbours: Mapping[str, Iterable[str]], operators: Mapping[str, Operator]) -> set[str]:
    """Return the operators on the way from a softmax to matrix products, these included; none without a product."""
    passed: set[str] = set()
    waiting, product = list(neighbours[start]), False
    while waiting:
        name = waiting.pop()
        operator = operators[name]
        if name in passed or operator.kind not in _SCOREWISE | {"matmul"}:
            continue
        passed.add(name)
        if operator.kind == "matmul":
            product = True
        else:
            waiting.extend(neighbours[name])
    return passed if product else set()


def repeated_operators(graph: ComputeGraph, recomputation: str) -> Mask:
    """Return the operators whose forward pass is repeated before their backward pass: [operators]."""
    if recomputation == "full":
        return in_blocks(graph)
    if recomputation == "selective":
        return attention_core(graph)
    return np.zeros(len(graph.operators), np.bool_)


def attention_scores(graph: ComputeGraph) -> Ints:
    """Return the scores of each attention operator, samples · heads · queries · keys; 0 of others: [operators]."""
    sizes = ("sample", "head", "sequence", "key_sequence")
    scores = [
        prod(operator.dimensions[name] for name in sizes)
        if operator.kind == "attention" and operator.dimensions.keys() >= set(sizes)
        else 0
        for operator in graph.operators
    ]
    return np.array(scores, np.int64)


def read_within(graph: ComputeGraph, which: Mask) -> Mask:
    """Return the operators of ``which`` whose output no other operators read: [operators]."""
    within = {operator.name for operator, chosen in zip(graph.operators, which, strict=True) if chosen}
    readers = graph.consumers()
    alone = [bool(readers[operator.name]) and within.issuperset(readers[operator.name]) for operator in graph.operators]
    return which & np.array(alone, np.bool_)


def recomputation_columns(graph: ComputeGraph, *, unfused: bool) -> dict[str, Ints]:
    """Return columns of what is repeated and dropped, each [operators].

    Whether an operator lies ``in_block``, in the ``core`` of attention or ``inside_core`` (nothing else reads it), as 0
    or 1; and the ``scores`` that it keeps, where attention is unfused.
    """
    core = attention_core(graph)
    masks = {"in_block": in_blocks(graph), "core": core, "inside_core": read_within(graph, core)}
    columns: dict[str, Ints] = {name: mask.astype(np.int64) for name, mask in masks.items()}
    return columns | {"scores": attention_scores(graph) * int(unfused)}


def repetitions(in_block: Ints, core: Ints, recomputation: Ints) -> Ints:
    """Return how often operators repeat their forward pass: [rows, operators].

    Args:
        in_block: 1 for operators of blocks, otherwise 0: [operators].
        core: the same for the inside of attention.
        recomputation: index in :data:`RECOMPUTATIONS`: [rows].
    """
    full, selective = ((recomputation == RECOMPUTATIONS.index(name))[:, None] for name in ("full", "selective"))
    times: Ints = full * in_block + selective * core
    return times
