"""Data parallelism as PyTorch's DistributedDataParallel does it: buckets of gradients, all-reduced during backward.

    backward   [op 9][op 8][op 7][op 6][op 5] ... [op 0]
    network               [bucket 0  ]  [bucket 1      ] ... [last bucket] update

Source: Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training", VLDB 2020,
section 3.2.
"""

from __future__ import annotations

import numpy as np

from lightloom.clusters.settings import TrainingSettings
from lightloom.parallelism.loss import transient_loss
from lightloom.parallelism.plan import MemoryUse, ParallelPlan, ParameterGroup, groups_of, local_graph
from lightloom.workloads.graph import ComputeGraph


def data_parallel(graph: ComputeGraph, ranks: int, settings: TrainingSettings) -> ParallelPlan:
    """Return the plan in which every rank holds the model and buckets are all-reduced once complete.

    An operator's parameters (weight and bias) stay together, which PyTorch does not promise; a tied parameter
    counts where it is first used, whose backward pass is the last to add to its gradient.
    """
    local = local_graph(graph, settings)
    groups = buckets(local, settings)
    end = 2 * len(local.operators)
    exchanges = tuple(
        group.exchange("all-reduce", index, settings.gradient_bytes, end - 1 - group.first, end)
        for index, group in enumerate(groups)
    )
    held = float(local.parameters + local.unused_parameters)
    memory = MemoryUse(
        parameters=held * settings.stored_parameter_bytes,
        gradients=held * settings.gradient_bytes,
        optimizer=held * settings.optimizer_state_bytes,
        activations=float(local.saved_bytes),
        loss=transient_loss(local),
    )
    return ParallelPlan(
        strategy="ddp",
        graph=local,
        ranks=ranks,
        settings=settings,
        groups=groups,
        exchanges=exchanges,
        memory=memory,
        updated_parameters=held,
    )


def buckets(graph: ComputeGraph, settings: TrainingSettings) -> tuple[ParameterGroup, ...]:
    """Return gradient buckets, in backward order.

    As PyTorch's ``compute_bucket_assignment_by_size``: a bucket takes gradients until it has reached its
    size, so the one that crosses the mark is still in it; the first bucket has a smaller mark.
    """
    owners = [index for index, operator in enumerate(graph.operators) if operator.parameters][::-1]
    parameters = np.array([graph.operators[index].parameters for index in owners], np.float64)
    return tuple(
        ParameterGroup(
            name=f"bucket {number}",
            first=owners[end - 1],
            last=owners[begin],
            operators=tuple(graph.operators[index].name for index in owners[begin:end]),
            parameters=int(parameters[begin:end].sum()),
        )
        for number, (begin, end) in enumerate(
            groups_of(parameters * settings.gradient_bytes, settings.bucket_size, settings.first_bucket_size)
        )
    )
