"""Context parallelism: the ranks of a group share the tokens of every sample (ring attention).

    rank 0   queries 0   keys, values 0 ─► 3 ─► 2 ─► 1     each step, a rank computes attention of its queries with
    rank 1   queries 1   keys, values 1 ─► 0 ─► 3 ─► 2     one block of keys and values, while it sends that block on
    ...                                                    and the next one arrives

Everything but attention works on single tokens, so that a rank of cp does 1/cp of the work and keeps 1/cp of the
activations. Backward, keys and values go round again with the gradients gathered for them, which take one step more to
come home. All ranks hold the same parameters; gradients are reduced over dp · cp ranks.

Causal attention gives the ranks equal work only where each takes two pieces of the sequence, one from either end
(zig-zag), which is assumed. Sources: Liu et al., "Ring Attention with Blockwise Transformers", ICLR 2024; Llama team,
"The Llama 3 Herd of Models", 2024, section 3.3.2; Megatron Core's ``--context-parallel-size``.
"""

from __future__ import annotations

from math import gcd

import numpy as np

from lightloom.core.arrays import Ints
from lightloom.parallelism.tensor_parallel import TOKENWISE
from lightloom.workloads.graph import ComputeGraph, Operator

LEAST_TOKENS = 4096
"""Tokens that a search leaves to each rank of a context group at least; an assumption."""
_ATTENTION_SIZES = frozenset({"sequence", "key_sequence", "head", "head_dim"})
_ANY_TOKENS = frozenset({"input", "experts", "topk"})
"""Kinds whose dimensions need not name the sequence."""


def context_degree(graph: ComputeGraph) -> int:
    """Return what the context-parallel degree must divide; 1 where an operator other than attention mixes tokens.

    The length of every sequence, or half of it where attention is causal: two pieces for each rank.
    """
    attention = [operator for operator in graph.operators if operator.kind == "attention"]
    if not attention or not all(operator.dimensions.keys() >= _ATTENTION_SIZES for operator in attention):
        return 1
    sequences = {operator.dimensions[name] for operator in attention for name in ("sequence", "key_sequence")}
    lengths = {operator.name: _length(operator, sequences) for operator in graph.operators}
    for operator in graph.operators:
        if "sample" in operator.dimensions and operator.kind not in _ANY_TOKENS:
            read = {lengths[name] for name in operator.inputs} - {0}
            if not _sliceable(operator, lengths[operator.name], read):
                return 1
    common = gcd(*sequences)
    return max(common // 2 if any(operator.causal for operator in attention) else common, 1)


def _length(operator: Operator, sequences: set[int]) -> int:
    """Tokens of a sample in an operator's output: its sequence, or an unnamed axis as long as one; 0 without."""
    sizes = operator.dimensions
    unnamed = [size for name, size in sizes.items() if name.startswith("axis") and size in sequences]
    return sizes.get("sequence", unnamed[0] if unnamed else 0)


def _sliceable(operator: Operator, length: int, read: set[int]) -> bool:
    """Whether an operator with samples, of ``length`` tokens each, can be computed on slices of what it reads."""
    if operator.kind == "attention":
        return True
    if not length or operator.kind not in TOKENWISE | {"concat", "loss"}:
        return False
    return operator.kind != "concat" or read <= {length}


def searched_degrees(graph: ComputeGraph) -> list[int]:
    """Return the degrees that a search tries: those that leave every rank :data:`LEAST_TOKENS`."""
    lengths = [each.dimensions.get("sequence", 0) for each in graph.operators if each.kind == "attention"]
    longest = max(lengths, default=0)
    degree = context_degree(graph) if longest >= 2 * LEAST_TOKENS else 1
    return [cp for cp in range(1, longest // LEAST_TOKENS + 1) if degree % cp == 0] or [1]


def key_value_elements(graph: ComputeGraph) -> Ints:
    """Return the elements of keys and values of each attention operator, of all its samples; 0 of others."""
    elements = np.zeros(len(graph.operators), np.int64)
    for index, operator in enumerate(graph.operators):
        sizes = operator.dimensions
        if operator.kind == "attention" and sizes.keys() >= _ATTENTION_SIZES:
            heads = sizes.get("key_head", sizes["head"])
            elements[index] = 2 * sizes.get("sample", 1) * sizes["key_sequence"] * heads * sizes["head_dim"]
    return elements
