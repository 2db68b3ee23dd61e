"""Sharded data parallelism (ZeRO stage 3) in the order of PyTorch's FSDP2.

    forward    gather 0 ─ [unit 0]    [unit 1]  ...  [unit U−1]      gather i+1 runs while unit i computes
    backward   [unit U−1]    [unit U−2]  ...  [unit 0]               gather i−1 runs while unit i computes;
    network       gather U−2   scatter U−1   gather U−3  scatter U−2 ...

The last unit keeps its parameters between forward and backward, so it is gathered once. Sources: Rajbhandari
et al., "ZeRO", SC 2020, section 5.3; Zhao et al., "PyTorch FSDP", VLDB 2023, section 3.3.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lightloom.clusters.settings import TrainingSettings
from lightloom.parallelism.loss import transient_loss
from lightloom.parallelism.plan import START, Exchange, MemoryUse, ParallelPlan, ParameterGroup, groups_of, local_graph
from lightloom.workloads.graph import ComputeGraph


def sharded(graph: ComputeGraph, ranks: int, settings: TrainingSettings) -> ParallelPlan:
    """Every rank keeps 1/ranks of parameters, gradients and optimizer state, and gathers units as it needs them."""
    local = local_graph(graph, settings)
    groups = units(local, settings)
    shard = (local.parameters + local.unused_parameters) / ranks
    largest = sorted((group.parameters for group in groups), reverse=True)
    memory = MemoryUse(
        parameters=shard * settings.stored_parameter_bytes,
        gradients=shard * settings.stored_parameter_bytes,
        optimizer=shard * settings.optimizer_state_bytes,
        activations=float(local.saved_bytes),
        loss=transient_loss(local),
        # The unit that computes and those gathered ahead, plus the gradient that is being reduced: at most
        # the largest.
        gathered=float(
            sum(largest[: settings.prefetch + 1]) * settings.sharded_parameter_bytes
            + sum(largest[:1]) * settings.sharded_gradient_bytes
        ),
    )
    return ParallelPlan(
        strategy="fsdp",
        graph=local,
        ranks=ranks,
        settings=settings,
        groups=groups,
        exchanges=(*_forward(groups, settings), *_backward(groups, len(local.operators), settings)),
        memory=memory,
        updated_parameters=shard,
    )


def units(graph: ComputeGraph, settings: TrainingSettings) -> tuple[ParameterGroup, ...]:
    """Return the units of consecutive operators, in forward order, each closed once it holds ``unit_parameters``."""
    operators = graph.operators
    owners = [index for index, operator in enumerate(operators) if operator.parameters]
    parameters = np.array([operators[index].parameters for index in owners], np.float64)
    closed: list[ParameterGroup] = []
    first = 0
    for begin, end in groups_of(parameters, settings.unit_parameters):
        # What follows the last parameters (activations, the loss) belongs to the last unit.
        last = len(operators) - 1 if end == len(owners) else owners[end - 1]
        names = tuple(operators[index].name for index in owners[begin:end])
        name, held = f"unit {len(closed)}", int(parameters[begin:end].sum())
        closed.append(ParameterGroup(name=name, first=first, last=last, operators=names, parameters=held))
        first = last + 1
    return tuple(closed)


def _forward(groups: Sequence[ParameterGroup], settings: TrainingSettings) -> list[Exchange]:
    gathers = []
    for index, group in enumerate(groups):
        # Unit i may be gathered when unit i − prefetch begins, that is when the one before that is done.
        behind = index - settings.prefetch - 1
        starts = groups[behind].last if behind >= 0 else START
        nbytes = settings.sharded_parameter_bytes
        gathers.append(group.exchange("all-gather", index, nbytes, starts, group.first, suffix=" forward"))
    return gathers


def _backward(groups: Sequence[ParameterGroup], operators: int, settings: TrainingSettings) -> list[Exchange]:
    end = 2 * operators
    issued: list[Exchange] = []
    waiting = len(groups) - 2  # the next unit to gather; the last one is still there
    for index in range(len(groups) - 1, -1, -1):
        begins = end - 1 - groups[index].last
        while waiting >= max(0, index - settings.prefetch):
            unit, nbytes = groups[waiting], settings.sharded_parameter_bytes
            needed = end - 1 - unit.last
            issued.append(unit.exchange("all-gather", waiting, nbytes, begins - 1, needed, suffix=" backward"))
            waiting -= 1
        unit = groups[index]
        starts = end - 1 - unit.first
        issued.append(unit.exchange("reduce-scatter", index, settings.sharded_gradient_bytes, starts, end))
    return issued
