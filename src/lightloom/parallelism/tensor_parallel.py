"""Tensor parallelism as Megatron does it: who holds a slice of which operator, and what the slices exchange.

    whole ─► [column-parallel linear] ─ slices ─► ... ─ slices ─► [row-parallel linear] ─► all-reduce ─► whole

A linear layer that reads a whole tensor is split by its outputs; one that reads slices, by its inputs. The gradient of
a whole tensor that column-parallel layers read is all-reduced on its way back, once. Embedding tables are split by rows
(the vocabulary), their outputs all-reduced; the loss works on slices of the logits. Source: Shoeybi et al.,
"Megatron-LM", 2019, section 3.

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
    {"activation", "add", "attention", "concat", "copy", "dropout", "elementwise", "loss", "matmul", "softmax"}
)
"""Kinds that take slices and give slices."""
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
    """Follow slices through the graph, in one pass."""
    count = len(graph.operators)
    divided, sliced, forward, backward = (np.zeros(count, np.bool_) for _ in range(4))
    is_sliced: dict[str, bool] = {}
    returned: set[str] = set()
    routers = _routers(graph)
    common, works = 0, True
    for index, operator in enumerate(graph.operators):
        read = [is_sliced[name] for name in operator.inputs]
        if operator.kind in _MULTIPLIES and operator.name not in routers:
            divided[index] = True
            forward[index], sliced[index] = any(read), not any(read)
            if sliced[index] and not returned.issuperset(operator.inputs[:1]):
                backward[index] = True
                returned.update(operator.inputs[:1])
        elif operator.kind == "embedding" and "sample" in operator.dimensions:
            divided[index] = forward[index] = True
        elif any(read):
            divided[index] = sliced[index] = True
            works = works and operator.kind in _SLICEWISE
        common = gcd(common, _must_divide(operator, sliced=any(read)))
        is_sliced[operator.name] = bool(sliced[index])
    heads = any(operator.kind == "attention" for operator in graph.operators)
    degree = common if works and heads else 1
    return TensorSplit(divided, sliced, forward, backward, degree, *_sequence_slices(graph, sliced))


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
