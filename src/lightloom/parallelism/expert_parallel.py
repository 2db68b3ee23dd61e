"""Expert parallelism: who holds which experts of a mixture, and where tokens travel to them and back.

    tokens ─► all-to-all ─► [experts] ─ ... ─ [experts] ─► all-to-all ─► tokens        backward the same, the other way

A group of ep neighbouring replicas holds each expert once, and each rank E / ep of them; everything else is replicated
as ever. Every rank has tokens for every expert, in equal parts: the load is taken to be even, so that a rank computes
as much as with all experts at home. Gradients of experts are exchanged between the dp / ep ranks that hold the same
ones. Sources: Lepikhin et al., "GShard", ICLR 2021, section 3; Rajbhandari et al., "DeepSpeed-MoE", ICML 2022.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

import numpy as np

from lightloom.core.arrays import Mask
from lightloom.parallelism.tensor_parallel import TensorSplit
from lightloom.workloads.graph import ComputeGraph


@dataclass(frozen=True, slots=True)
class ExpertSplit:
    """How a graph's experts fall to the ranks of an expert group; each array has shape [operators]."""

    held: Mask
    """Every rank holds its share of the parameters: the experts."""
    dispatch: Mask
    """Tokens that the operator reads are exchanged all-to-all before it, their gradients after its backward pass."""
    combine: Mask
    """The operator's output is exchanged all-to-all, its gradient before the backward pass."""
    degree: int
    """What the expert degree must divide: the experts of a layer; 1 without experts, or where their outputs do not come
    together in a last product with experts."""


def expert_split(graph: ComputeGraph, split: TensorSplit) -> ExpertSplit:
    """Tokens go where the first of a chain of products with experts reads them, and come back from the last."""
    held = np.array([operator.kind == "experts" for operator in graph.operators], np.bool_)
    combine = held & split.forward
    inside: dict[str, bool] = {}
    common, works = 0, True
    for index, operator in enumerate(graph.operators):
        reads = any(inside[name] for name in operator.inputs)
        within = bool(split.sliced[index]) and (reads or bool(held[index]))
        works = works and (not reads or within or bool(combine[index]))
        inside[operator.name] = within
        common = gcd(common, operator.dimensions.get("expert", 0))
    readers = graph.consumers()
    returns = all(readers[name] for name, within in inside.items() if within)
    return ExpertSplit(held, held & split.backward, combine, common if works and returns and common else 1)
