"""A model on a cluster, at the prices of what its ranks exchange."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from lightloom.core.arrays import Floats, Ints, Mask
from lightloom.machines.accelerators.accelerator import Accelerator
from lightloom.machines.accelerators.calibrated import Calibration
from lightloom.machines.accelerators.kernels import Prior
from lightloom.machines.clusters.cluster import TrainingSettings
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.models.graph import ComputeGraph
from lightloom.planning.gradients import PricedExchange
from lightloom.planning.parallelism.plan import ParallelPlan
from lightloom.planning.parallelism.strategy_space import (
    MOST_MICRO_BATCHES,
    MOST_VIRTUAL_STAGES,
    SHARDINGS,
    Strategies,
    Strategy,
    strategy_space,
)
from lightloom.planning.parallelism.tensor_parallel import searched_degrees
from lightloom.planning.pricing.divided_model import DividedModel, OperatorTimes, divided_model
from lightloom.planning.pricing.exchanges import Axis
from lightloom.planning.pricing.group_prices import AUTO, Pricing
from lightloom.planning.simulation.engine import Task, compute_tasks
from lightloom.planning.simulation.link_turns import LinkTurns


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


# What is believed of the parameters that price a plan, and the intervals that follow.
#
# The half-width of a 90 % interval, in logarithms, has two parts that add up as squares: 1.645 standard deviations of
# what the parameters leave open, linearised about their values, and the size that nine of ten errors of unseen steps
# stay below, whatever the parameters (``scatter``). Both come from a calibration where the accelerator has one,
# otherwise from priors.

LEVEL = 0.9
"""Probability that a measured step lies within its interval."""
NORMAL = 1.645
"""Standard deviations of a normal distribution within which nine tenths lie."""
NOISE = 0.05
"""Standard deviation of the logarithm of a measured step around the model, before rows say otherwise."""
PRIOR_SCATTER = NORMAL * NOISE
"""Scatter of steps, as a half-width of logarithms, before any row was seen."""


@dataclass(frozen=True)
class Belief:
    """Parameters that are uncertain, and how steps scatter around their model."""

    names: tuple[str, ...]
    """Those of the kernels, then those of the fabric's collective library."""
    covariance: Floats
    """Of their logarithms: [parameters, parameters]."""
    scatter: float
    """Half-width of the logarithm that nine of ten unseen steps need around the best model."""
    basis: str
    """What the intervals rest on, in words."""


def belief_of(accelerator: Accelerator, fabric: Fabric) -> Belief | None:
    """Return what is believed of an accelerator and the library of its fabric.

    None for an accelerator with a flat efficiency, of which no spread is known.
    """
    if accelerator.kernels is None:
        return None
    library = fabric.library
    kernels, links = accelerator.kernels.priors(), {} if library is None else library.transport.priors()
    priors = {name: prior for name, prior in {**kernels, **links}.items() if prior.value > 0}
    covariance = np.diag([prior.spread**2 for prior in priors.values()])
    calibration = accelerator.calibration
    if calibration is None:
        return Belief(tuple(priors), covariance, PRIOR_SCATTER, "priors")
    _lay_over(covariance, priors, calibration)
    return Belief(tuple(priors), covariance, calibration.scatter, f"calibrated on {calibration.rows.table}")


def _lay_over(covariance: Floats, priors: Mapping[str, Prior], calibration: Calibration) -> None:
    """Replace the entries of parameters whose spreads are those of the calibration."""
    names = list(calibration.parameters)
    fitted = [
        (place, names.index(name))
        for place, (name, prior) in enumerate(priors.items())
        if name in names and prior.spread == calibration.parameters[name].spread
    ]
    ours, theirs = (np.array(places, np.int64) for places in zip(*fitted, strict=True))
    covariance[np.ix_(ours, ours)] = np.array(calibration.covariance)[np.ix_(theirs, theirs)]


def half_widths(slopes: Floats, covariance: Floats, scatter: Floats | float) -> Floats:
    """Return the half-width of each interval, in logarithms: [steps].

    Args:
        slopes: change of each step's logarithm with each parameter's: [steps, parameters].
        covariance: of the parameters' logarithms.
        scatter: half-width that steps need around the best model.
    """
    variance: Floats = np.einsum("rp,pq,rq->r", slopes, covariance, slopes)
    half: Floats = np.sqrt(NORMAL**2 * variance + np.asarray(scatter) ** 2)
    return half


def told_apart(slopes: Floats, log_seconds: Floats, covariance: Floats, scatter: float) -> Mask:
    """Return whether the first of several steps is told apart from each of the others: [steps].

    Parameters that move both times alike cancel in the difference; the scatter of each stays.

    Args:
        slopes: of each step: [steps, parameters].
        log_seconds: of each step.
        covariance: of the parameters' logarithms.
        scatter: half-width of steps around the model.
    """
    difference = half_widths(slopes - slopes[0], covariance, np.sqrt(2) * scatter)
    apart: Mask = np.abs(log_seconds - log_seconds[0]) > difference
    return apart
