"""Tensor parallelism as Megatron does it: who holds a slice of which operator, and what the slices exchange.

    whole ─► [column-parallel linear] ─ slices ─► ... ─ slices ─► [row-parallel linear] ─► all-reduce ─► whole

A linear layer that reads a whole tensor is split by its outputs; one that reads slices, by its inputs. The gradient of
a whole tensor that column-parallel layers read is all-reduced on its way back, once. Embedding tables are split by rows
(the vocabulary), their outputs all-reduced; the loss works on slices of the logits. A normalisation of each head works
on the heads of a slice; one of all channels needs them whole, so that the layers before it (compressed queries and keys
of multi-head latent attention) are computed by every rank. Source: Shoeybi et al., "Megatron-LM", 2019, section 3;
Megatron-LM's ``multi_latent_attention.py`` for the latter.

    tokens' slices ─► all-gather ─► [column-parallel] ─ slices ─► [row-parallel] ─► reduce-scatter ─► tokens' slices

With sequence parallelism whole tensors lie in slices of the sequence instead, each rank computing what acts on single
tokens (norms, dropout, sums) for its own. Source: Korthikanti et al., "Reducing Activation Recomputation in Large
Transformer Models", MLSys 2023, section 4.2.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

import numpy as np

from lightloom.core.arrays import Mask
from lightloom.workloads.graph import ComputeGraph, Operator

_SLICEWISE = frozenset(
    {"activation", "add", "attention", "concat", "copy", "dropout", "elementwise", "loss", "matmul", "norm", "softmax"}
)
"""Kinds that take slices and give slices; a norm those of whole heads."""
TOKENWISE = frozenset(
    {
        "activation",
        "add",
        "copy",
        "dropout",
        "elementwise",
        "embedding",
        "experts",
        "linear",
        "norm",
        "reduce",
        "softmax",
        "topk",
    }
)
"""Kinds that do to each token the same, whatever the others are; a softmax or sum of whole tensors goes along channels,
unless the sequence is gone after it."""
_MULTIPLIES = frozenset({"linear", "experts"})
"""Kinds whose weights are split by columns or rows."""
_SCORES = frozenset({"activation", "add", "elementwise", "softmax"})
"""Kinds between a router's layer and its choice of experts."""


@dataclass(frozen=True, slots=True)
class TensorSplit:
    """How a graph's operators fall to the ranks of a tensor group; each array has shape [operators]."""

    divided: Mask
    """Every rank does its share of the arithmetic and holds its share of the parameters."""
    sliced: Mask
    """The output stays in slices."""
    forward: Mask
    """The output is all-reduced in the forward pass."""
    backward: Mask
    """The gradient of the first input is all-reduced in the backward pass."""
    degree: int
    """What the tensor degree must divide: heads, and the inputs of row-parallel layers; 1 where the model has no
    attention, or slices would reach an operator that needs them whole."""
    sequenced: Mask
    """With sequence parallelism the output lies in slices of the sequence."""
    sequence_degree: int
    """What the tensor degree must divide with sequence parallelism: the length of the sequence; 1 where an operator
    between the split layers mixes tokens."""


def tensor_split(graph: ComputeGraph) -> TensorSplit:
    """Follow slices through the graph, again for every layer whose slices a normalisation needs whole."""
    routers, heads = _routers(graph), _head_counts(graph)
    copied: set[str] = set()
    while True:
        split, needed = _followed(graph, routers, copied, heads)
        if needed <= copied:
            return split
        copied |= needed


def _followed(
    graph: ComputeGraph, routers: set[str], copied: set[str], head_counts: set[int]
) -> tuple[TensorSplit, set[str]]:
    """Return the split where every rank computes routers and copied layers whole, and layers that must be copied.

    Attention that reads a copied layer beside slices is not split: whose gradient would have to be summed.
    """
    count = len(graph.operators)
    divided, sliced, forward, backward = (np.zeros(count, np.bool_) for _ in range(4))
    is_sliced: dict[str, bool] = {}
    cut: dict[str, set[str]] = {}
    copies: set[str] = set()
    returned: set[str] = set()
    needed: set[str] = set()
    common, works = 0, True
    for index, operator in enumerate(graph.operators):
        read = [is_sliced[name] for name in operator.inputs]
        cut[operator.name] = set().union(*(cut[name] for name in operator.inputs))
        if operator.name in copied or (operator.kind not in _MULTIPLIES and copies & set(operator.inputs)):
            copies.add(operator.name)
        if operator.kind in _MULTIPLIES and operator.name not in routers | copied:
            divided[index] = True
            forward[index], sliced[index] = any(read), not any(read)
            cut[operator.name] = {operator.name} if sliced[index] else set()
            if sliced[index] and not returned.issuperset(operator.inputs[:1]):
                backward[index] = True
                returned.update(operator.inputs[:1])
        elif operator.kind == "embedding" and "sample" in operator.dimensions:
            divided[index] = forward[index] = True
        elif any(read):
            divided[index] = sliced[index] = True
            if operator.kind == "norm" and not _has_heads(operator, head_counts):
                needed |= cut[operator.name]
                works = False
            works = works and operator.kind in _SLICEWISE
            if operator.kind == "attention" and copies & set(operator.inputs):
                works = False
            copies.discard(operator.name)
        common = gcd(common, _must_divide(operator, sliced=any(read)))
        is_sliced[operator.name] = bool(sliced[index])
    heads = any(operator.kind == "attention" for operator in graph.operators)
    degree = common if works and heads else 1
    return TensorSplit(divided, sliced, forward, backward, degree, *_sequence_slices(graph, sliced)), needed


def _head_counts(graph: ComputeGraph) -> set[int]:
    attention = [operator.dimensions for operator in graph.operators if operator.kind == "attention"]
    return {sizes[name] for sizes in attention for name in ("head", "key_head") if name in sizes}


def _has_heads(operator: Operator, counts: set[int]) -> bool:
    """Whether an axis of an operator's output is the heads, so that the channels of each are normalized alone."""
    *axes, _ = operator.dimensions.items()
    return any(name.startswith("axis") and size in counts for name, size in axes)


def _sequence_slices(graph: ComputeGraph, sliced: Mask) -> tuple[Mask, int]:
    """Which outputs lie in slices of the sequence, and what the degree must divide."""
    sequenced = np.array(
        [
            not cut and operator.kind != "input" and {"sample", "sequence"} <= operator.dimensions.keys()
            for operator, cut in zip(graph.operators, sliced, strict=True)
        ],
        np.bool_,
    )
    within = dict(zip((operator.name for operator in graph.operators), sequenced.tolist(), strict=True))
    common, works = 0, True
    for operator in graph.operators:
        read = [within[name] for name in operator.inputs]
        if within[operator.name]:
            common = gcd(common, operator.dimensions["sequence"])
            works = works and operator.kind in TOKENWISE
        elif any(read):
            # A column-parallel layer gathers the sequence; nothing else may need it whole.
            works = works and operator.kind in _MULTIPLIES
    return sequenced, common if works and common else 1


def _must_divide(operator: Operator, *, sliced: bool) -> int:
    """0 where any degree will do."""
    if operator.kind == "attention":
        return gcd(operator.dimensions.get("head", 1), operator.dimensions.get("key_head", 0))
    return operator.dimensions.get("in_channel", 1) if operator.kind in _MULTIPLIES and sliced else 0


def _routers(graph: ComputeGraph) -> set[str]:
    """Layers that score experts: every rank of a tensor group computes them whole, as it must know the choice."""
    scores: set[str] = set()
    routers: set[str] = set()
    for operator in reversed(graph.operators):
        if operator.kind == "topk" or (operator.name in scores and operator.kind in _SCORES):
            scores.update(operator.inputs)
        elif operator.name in scores and operator.kind == "linear":
            routers.add(operator.name)
    return routers
