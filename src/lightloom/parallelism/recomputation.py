"""Full recomputation: the backward pass runs the forward pass of its block again, from what entered the block.

Source: Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016; "full" in Megatron.
"""

from __future__ import annotations

from dataclasses import replace

from lightloom.workloads.graph import ComputeGraph


def recomputed(graph: ComputeGraph) -> ComputeGraph:
    """Return the graph whose backward passes also do the FLOPs of their forward passes.

    Kernels of the second forward pass are counted as part of the backward pass: launched once. An operator without
    FLOPs moves no more memory than before.
    """
    return replace(
        graph,
        operators=tuple(
            replace(operator, backward_flops=operator.backward_flops + operator.forward_flops)
            for operator in graph.operators
        ),
    )
