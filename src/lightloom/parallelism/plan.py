"""A parallel plan: what a rank computes, in which order, and the collectives that follow.

All strategies here are symmetric, so one rank stands for all. Its step is a row of *positions*:

    forward of operators 0 ... n−1  │  backward of operators n−1 ... 0  │  update
    position 0 ... n−1              │  n ... 2n−1                       │  2n

A strategy is data: which :class:`Exchange` may start after which position, and which position waits for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lightloom.accelerators.base import ELEMENT_BYTES
from lightloom.clusters.settings import TrainingSettings
from lightloom.collectives.spec import Kind
from lightloom.core.arrays import Floats
from lightloom.workloads.graph import ComputeGraph

START = -1
"""The position before the first: what starts after it may start at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterGroup:
    """Consecutive operators whose parameters travel together: a bucket (ddp) or a unit (fsdp)."""

    name: str
    first: int
    """Index of the first operator."""
    last: int
    """Index of the last operator, inclusive."""
    operators: tuple[str, ...]
    """Names of the operators in it that have parameters."""
    parameters: int
    """Number of parameters."""

    def exchange(
        self, kind: Kind, index: int, parameter_bytes: int, starts_after: int, needed_by: int, *, suffix: str = ""
    ) -> Exchange:
        """Return the collective of this group, which is number ``index``, with so many bytes for each parameter."""
        return Exchange(
            name=f"{kind} {self.name}{suffix}",
            kind=kind,
            nbytes=float(self.parameters * parameter_bytes),
            group=index,
            starts_after=starts_after,
            needed_by=needed_by,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One collective of a step."""

    name: str
    kind: Kind
    nbytes: float
    """As ``Collective.nbytes``: bytes at every rank at the end of an all-gather, at the start of the other kinds."""
    group: int
    """Index of its parameter group."""
    starts_after: int
    """Position that must be done before it may start; ``START`` for none."""
    needed_by: int
    """Position that waits for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUse:
    """Bytes that a rank holds at the worst moment of a step."""

    parameters: float
    gradients: float
    optimizer: float
    activations: float
    """What autograd keeps for the backward pass, nothing recomputed but in checkpointed regions of the model."""
    gathered: float = 0.0
    """Parameters and gradients of the units that are whole for the moment (sharded strategies)."""
    loss: float = 0.0
    """What the cross entropy holds when its backward pass begins, beyond what checkpointed regions make again later."""

    @property
    def total(self) -> float:
        """Bytes altogether."""
        return self.parameters + self.gradients + self.optimizer + self.activations + self.gathered + self.loss

    def fits(self, memory: float | None) -> bool | None:
        """Whether it fits; None when the accelerator's memory is unknown."""
        return None if memory is None else self.total <= memory


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelPlan:
    """One rank's step.

    Raises:
        AssertionError: the strategy that made it broke a law: a parameter in no group or in two, or an exchange that is
            waited for before it can start.
    """

    strategy: str
    graph: ComputeGraph
    """One rank's batch, at the element size of the arithmetic."""
    ranks: int
    settings: TrainingSettings
    groups: tuple[ParameterGroup, ...]
    exchanges: tuple[Exchange, ...]
    """In the order in which they are issued, which is the order in which the network serves them."""
    memory: MemoryUse
    updated_parameters: float
    """Parameters that one rank's optimizer updates."""
    recomputed: frozenset[str] = frozenset()
    """Operators that run their forward pass once more before their backward pass."""

    def __post_init__(self) -> None:
        grouped = [name for group in self.groups for name in group.operators]
        owners = [operator.name for operator in self.graph.operators if operator.parameters]
        if sorted(grouped) != sorted(owners):
            raise AssertionError(f"{self.strategy}: every parameter must be in exactly one group")
        issued = START
        for exchange in self.exchanges:
            # The network serves in order, so an exchange also waits for what the earlier ones wait for.
            issued = max(issued, exchange.starts_after)
            if not START <= issued < exchange.needed_by <= self.update:
                raise AssertionError(f"{self.strategy}: {exchange.name} is needed before it can start")

    @property
    def update(self) -> int:
        """Position of the optimizer's step."""
        return 2 * len(self.graph.operators)


def groups_of(amounts: Floats, mark: float, first_mark: float = math.inf) -> Iterator[tuple[int, int]]:
    """Yield the position of each group's first amount and the one after its last; amounts are above 0.

    A group is closed once it has reached the mark, the first one already at ``first_mark`` if that is smaller.
    """
    sums = np.cumsum(amounts)
    needed, begin, held = min(mark, first_mark), 0, 0.0
    while begin < len(sums):
        end = min(max(int(np.searchsorted(sums, held + needed)), begin) + 1, len(sums))
        yield begin, end
        begin, held, needed = end, float(sums[end - 1]), mark


def local_graph(graph: ComputeGraph, settings: TrainingSettings) -> ComputeGraph:
    """Return the graph of one rank: its batch, and elements as large as the arithmetic stores them."""
    return graph.with_batch(settings.batch_per_rank).with_element_bytes(ELEMENT_BYTES[settings.precision])
