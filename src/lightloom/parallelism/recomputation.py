"""Full recomputation: the backward pass runs the forward pass of its block again, from what entered the block.

Source: Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016; "full" in Megatron.
"""

from __future__ import annotations

from dataclasses import replace

from lightloom.workloads.graph import ComputeGraph


def recomputed(graph: ComputeGraph) -> ComputeGraph:
    """The graph whose backward passes do the FLOPs of their forward passes as well.

    Kernels of the second forward pass are counted as part of the backward pass: launched once. An operator without
    FLOPs moves no more memory than before.
    """
    return replace(
        graph,
        operators=tuple(
            replace(each, backward_flops=each.backward_flops + each.forward_flops) for each in graph.operators
        ),
    )
