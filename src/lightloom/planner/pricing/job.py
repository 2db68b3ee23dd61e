"""A model on a cluster, at the prices of what its ranks exchange."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from lightloom.accelerators.base import Accelerator
from lightloom.clusters.settings import TrainingSettings
from lightloom.core.arrays import Floats, Ints, Mask
from lightloom.fabrics.base import Fabric
from lightloom.parallelism.context_parallel import searched_degrees
from lightloom.parallelism.plan import ParallelPlan
from lightloom.parallelism.sharding import SHARDINGS
from lightloom.parallelism.strategy_space import (
    MOST_MICRO_BATCHES,
    MOST_VIRTUAL_STAGES,
    Strategies,
    Strategy,
    strategy_space,
)
from lightloom.planner.gradients.priced import PricedExchange
from lightloom.planner.pricing.divided_model import DividedModel, divided_model
from lightloom.planner.pricing.group_prices import AUTO, Pricing
from lightloom.planner.pricing.operator_times import OperatorTimes
from lightloom.planner.pricing.stage_exchanges import Axis
from lightloom.simulation.engine import Task
from lightloom.simulation.link_turns import LinkTurns
from lightloom.simulation.lower import compute_tasks
from lightloom.workloads.graph import ComputeGraph


class AxisShares(Protocol):
    """The channels that every axis of one strategy has to itself."""

    def pricing(self, axis: Axis) -> Pricing:
        """Prices of the collectives of an axis."""

    def fabric(self, axis: Axis) -> Fabric:
        """The part of the fabric that an axis has."""

    def shift(self, stride: int) -> tuple[float, float]:
        """Bytes per second and seconds of latency each way between stages whose ranks lie ``stride`` apart."""

    def tied(self, stride: int) -> tuple[float, float]:
        """The same between stages that hold copies of a table."""


@dataclass(frozen=True)
class Job:
    """A model, ready to be split, where it runs, and what its exchanges cost there."""

    model: DividedModel
    accelerator: Accelerator
    fabric: Fabric
    pricing: Pricing
    overlap: bool = True
    """Whether data parallelism communicates while computing."""
    shares: AxisShares | None = None
    """The channels of each axis, where they are shared out; without, every axis is priced on all of them."""
    exchanges: tuple[PricedExchange, ...] = ()
    """Methods by which replicas may exchange gradients; strategies number them from 1 on."""

    @classmethod
    def of(
        cls,
        graph: ComputeGraph,
        accelerator: Accelerator,
        fabric: Fabric,
        settings: TrainingSettings,
        pricing: Pricing,
        *,
        overlap: bool = True,
        exchanges: Sequence[PricedExchange] = (),
    ) -> Job:
        """The job of a model whose stages are balanced for the accelerator that it runs on."""
        model = divided_model(graph, settings, accelerator)
        return cls(model, accelerator, fabric, pricing, overlap, exchanges=tuple(exchanges))

    @property
    def graph(self) -> ComputeGraph:
        """The operators of the model, at the batch at which it was traced."""
        return self.model.graph

    @property
    def settings(self) -> TrainingSettings:
        """How the model trains."""
        return self.model.settings

    @property
    def parameters(self) -> int:
        """Parameters of the model, those that no operator uses included."""
        return self.graph.parameters + self.graph.unused_parameters

    def exchange(self, strategy: Strategy) -> PricedExchange | None:
        """The method by which a strategy exchanges gradients; None for as they are."""
        return self.exchanges[strategy.exchange - 1] if strategy.exchange else None

    def state_bytes(self, strategy: Strategy) -> float:
        """Bytes that a strategy's exchange keeps between steps for each parameter."""
        method = self.exchange(strategy)
        return 0.0 if method is None else method.state_bytes

    def blocks(self, exchange: Ints) -> Mask:
        """Which methods, by number, exchange after the backward pass only: as ``exchange``."""
        blocking = np.array([False, *(method.blocking for method in self.exchanges)])
        return np.asarray(blocking[np.minimum(exchange, len(blocking) - 1)])

    def phased(self, exchange: Ints) -> Mask:
        """Which methods, by number, take several kinds of collectives, or phases of their own: as ``exchange``."""
        phases = np.array([False, *(not method.in_schedule for method in self.exchanges)])
        return np.asarray(phases[np.minimum(exchange, len(phases) - 1)])

    def kept_bytes(self, exchange: Ints) -> Floats:
        """Bytes that methods, by number, keep between steps for each parameter: as ``exchange``."""
        kept = np.array([0.0, *(method.state_bytes for method in self.exchanges)])
        return np.asarray(kept[np.minimum(exchange, len(kept) - 1)])

    @cached_property
    def operators(self) -> OperatorTimes:
        """Seconds of the model's operators."""
        return self.model.times_on(self.accelerator)

    @cached_property
    def turns(self) -> LinkTurns:
        """The links that exchanges of one step have in common."""
        return LinkTurns.on(self.fabric)

    @cached_property
    def _computing(self) -> dict[tuple[object, ...], list[Task]]:
        return {}

    def computing(self, strategy: Strategy) -> list[Task]:
        """Return what a rank computes in a strategy that is data parallelism alone, whatever its algorithm and codec.

        Raises:
            UnsupportedError: the accelerator has no rate for the job's precision.
        """
        key = strategy.sharding, strategy.dp, strategy.samples, strategy.recomputation
        if key not in self._computing:
            self._computing[key] = compute_tasks(self.model.data_parallel_plan(strategy), self.accelerator)
        return self._computing[key]

    def data_parallel_plan(self, strategy: Strategy) -> ParallelPlan:
        """Return the exchanges of a strategy that is data parallelism alone.

        One exchange after the backward pass where its method waits for that, otherwise whatever the method.
        """
        plan = self.model.data_parallel_plan(strategy)
        if not plan.exchanges or not self.blocks(np.array(strategy.exchange)):
            return plan
        last = plan.exchanges[-1]
        nbytes = sum(exchange.nbytes for exchange in plan.exchanges)
        after = replace(last, name="exchange", nbytes=nbytes, starts_after=plan.update - 1, needed_by=plan.update)
        return replace(plan, exchanges=(after,))

    def on(self, axis: Axis) -> Fabric:
        """The part of the fabric that an axis has."""
        return self.fabric if self.shares is None else self.shares.fabric(axis)

    def tied_pair(self, stride: int) -> tuple[float, float]:
        """Bytes per second and seconds of latency between stages that hold copies of a table."""
        return self.fabric.message(stride) if self.shares is None else self.shares.tied(stride)

    def repriced(self, accelerator: Accelerator, fabric: Fabric, pricing: Pricing) -> Job:
        """Return the same job at other prices; its stages stay those of this one."""
        return replace(self, accelerator=accelerator, fabric=fabric, pricing=pricing)

    def space(
        self,
        batches: Iterable[int],
        *,
        algorithms: Sequence[str] = (AUTO,),
        exchanges: Iterable[int] = (0,),
        recomputations: Sequence[str] = ("none", "full"),
        shardings: Sequence[str] = SHARDINGS,
        micro_batch: int | None = None,
        cp: int | None = None,
        most_micro_batches: int = MOST_MICRO_BATCHES,
        most_virtual_stages: int = MOST_VIRTUAL_STAGES,
    ) -> Strategies:
        """Every strategy of this model on all ranks of the fabric (:func:`strategy_space`).

        Context-parallel degrees are tried where sequences are long, or the one that is given.
        """
        model = self.model
        return strategy_space(
            self.fabric.ranks,
            batches,
            tensor_degree=model.split.degree,
            sequence_degree=model.split.sequence_degree,
            expert_degree=model.experts.degree,
            contexts=searched_degrees(model.graph) if cp is None else (cp,),
            blocks=len(model.starts),
            algorithms=algorithms,
            exchanges=exchanges,
            recomputations=recomputations,
            shardings=shardings,
            node_ranks=self.fabric.node_ranks,
            micro_batch=micro_batch,
            most_micro_batches=most_micro_batches,
            most_virtual_stages=most_virtual_stages,
        )
