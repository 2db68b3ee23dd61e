"""Measured rows as jobs of the planner: one for each row, or several where a row does not say everything.

Where the micro-batch or the virtual stages were not published, every usual choice is a job of its own, and the fastest
stands for the row. A row says everything that a plan chooses, so that its job is priced as ``plan`` prices the same
strategy with everything pinned.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from lightloom.accelerators.base import Accelerator
from lightloom.calibration.priors import node_link, transport_of
from lightloom.calibration.rows import MeasuredStep
from lightloom.clusters.settings import TrainingSettings
from lightloom.core.arrays import Floats, Ints, Mask
from lightloom.core.errors import ConfigError
from lightloom.fabrics.tiers.two_tier import TwoTierSwitch
from lightloom.parallelism.strategy_space import Strategies, Strategy
from lightloom.planner.pricing.job import Job
from lightloom.planner.pricing.library import LIBRARY, LibraryPricing
from lightloom.workloads.graph import ComputeGraph
from lightloom.workloads.transformer import TransformerSizes, transformer_graph

_MICRO_BATCHES = (1, 2, 4, 8, 16)
_VIRTUAL_STAGES = (1, 2, 3, 4, 5, 6, 8)
_NETWORK_EFFICIENCY = 0.97
"""Part of a network's bandwidth that data reach: 388 to 390 of 400 Gb/s, as in the catalog's DGX systems."""


@dataclass(frozen=True)
class PlannedStep:
    """A step with nothing left open, as the planner prices it."""

    step: MeasuredStep
    job: Job
    strategy: Strategy
    shared: Hashable
    """Equal for steps whose jobs are."""


class Group(NamedTuple):
    """Strategies of one job, of as many stages each."""

    which: Ints
    """Their places among all jobs: [strategies]."""
    job: Job
    strategies: tuple[Strategy, ...]
    rows: Strategies
    """The same as columns."""


@dataclass(frozen=True)
class Jobs:
    """The jobs of measured rows."""

    planned: tuple[PlannedStep, ...]
    """Each job."""
    row: Ints
    """Which row a job stands for: [jobs]."""
    rows: int
    accelerator: Accelerator
    """What all rows were measured on; its memory bandwidth is stated by each row."""

    @property
    def steps(self) -> tuple[MeasuredStep, ...]:
        """The step of each job, nothing left open."""
        return tuple(planned.step for planned in self.planned)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """Jobs that are priced together."""
        groups: dict[object, list[int]] = {}
        for index, planned in enumerate(self.planned):
            strategy = planned.strategy
            alone = strategy.plain or strategy.micro_batch
            key = planned.shared, strategy.pp, strategy.virtual_stages, index if alone else -1
            groups.setdefault(key, []).append(index)
        return tuple(self._group(indices) for indices in groups.values())

    def _group(self, indices: list[int]) -> Group:
        strategies = tuple(self.planned[index].strategy for index in indices)
        return Group(np.array(indices), self.planned[indices[0]].job, strategies, Strategies.of(*strategies))

    @cached_property
    def measured(self) -> Floats:
        """Seconds as measured, of each row: [rows]."""
        seconds = np.zeros(self.rows)
        seconds[self.row] = [planned.step.step_s for planned in self.planned]
        return seconds

    def fastest(self, seconds: Floats) -> tuple[Floats, Ints]:
        """Return the least seconds of each row, and the job that takes them: both [rows]."""
        order = np.lexsort((seconds, self.row))
        first = np.searchsorted(self.row[order], np.arange(self.rows))
        return seconds[order][first], order[first]

    def only(self, jobs: Ints) -> Jobs:
        """Return one job of each row: ``jobs``, of shape [rows], in the order of the rows."""
        return replace(self, planned=tuple(self.planned[job] for job in jobs), row=np.arange(self.rows))

    def subset(self, keep: Mask) -> Jobs:
        """Return the jobs of the rows for which ``keep``, of shape [rows], is set, rows renumbered."""
        jobs = np.flatnonzero(keep[self.row])
        number = np.cumsum(keep) - 1
        planned = tuple(self.planned[job] for job in jobs)
        return replace(self, planned=planned, row=number[self.row[jobs]], rows=int(keep.sum()))


def jobs_of(steps: Sequence[MeasuredStep], accelerator: Accelerator) -> Jobs:
    """Return the jobs of rows that were measured on one accelerator.

    Raises:
        ConfigError: no usual micro-batch divides what a rank works on.
    """
    choices = [(index, choice) for index, step in enumerate(steps) for choice in _choices(step)]
    planner = _Planner(accelerator)
    return Jobs(
        planned=tuple(planner.planned(choice) for _, choice in choices),
        row=np.array([index for index, _ in choices], np.int64),
        rows=len(steps),
        accelerator=accelerator,
    )


class _Planner:
    """Makes jobs; those of one model share its graph and the columns of its operators."""

    def __init__(self, accelerator: Accelerator) -> None:
        self._accelerator = accelerator
        self._graphs: dict[TransformerSizes, ComputeGraph] = {}
        self._jobs: dict[tuple[TransformerSizes, str, bool], Job] = {}

    def planned(self, step: MeasuredStep) -> PlannedStep:
        """The job of one step, priced by the priors, and its strategy."""
        sizes, settings, fabric = sizes_of(step), settings_of(step), fabric_of(step, self._accelerator)
        accelerator = self._accelerator.model_copy(update={"memory_bandwidth": step.memory_bandwidth_gbs * 1e9})
        key = sizes, settings.model_dump_json(), overlaps(step)
        if key not in self._jobs:
            if sizes not in self._graphs:
                self._graphs[sizes] = transformer_graph(sizes, 1)
            graph, prices = self._graphs[sizes], LibraryPricing(fabric)
            self._jobs[key] = Job.of(graph, accelerator, fabric, settings, prices, overlap=key[2])
        job = self._jobs[key].repriced(accelerator, fabric, LibraryPricing(fabric))
        shared = key, step.memory_bandwidth_gbs, fabric.ranks, fabric.domain_size, fabric.bandwidth
        return PlannedStep(step, job, strategy_of(step), shared)


def sizes_of(step: MeasuredStep) -> TransformerSizes:
    """Return the sizes of a step's model."""
    return TransformerSizes(
        hidden=step.hidden,
        layers=step.layers,
        heads=step.heads,
        ffn=step.ffn,
        vocabulary=step.vocabulary,
        sequence_length=step.sequence_length,
    )


def overlaps(step: MeasuredStep) -> bool:
    """Return whether a step exchanges gradients while it computes."""
    return step.sharding != "none"


def settings_of(step: MeasuredStep) -> TrainingSettings:
    """Return how a step trains; stages have the same number of blocks each.

    Megatron-LM exchanged gradients after the last pass; PyTorch's sharding gathers and reduces meanwhile.
    """
    return TrainingSettings(
        precision=step.precision,
        attention=step.attention,
        stage_blocks="equal",
        overlap_gradients=overlaps(step),
        gradient_bytes=step.gradient_bytes,
        sharded_gradient_bytes=step.gradient_bytes,
    )


def fabric_of(step: MeasuredStep, accelerator: Accelerator) -> TwoTierSwitch:
    """Return the nodes of a step's accelerators and the network between them, every port with its share.

    Raises:
        UnsupportedError: the accelerator names no transport, or the bandwidth into its node is not known.
    """
    transport = transport_of(accelerator)
    return TwoTierSwitch(
        ranks=step.gpus,
        domain_size=min(step.gpus_per_node, step.gpus),
        domain_bandwidth=node_link(accelerator),
        bandwidth=step.node_network_gbps * 1e9 / 8 / step.gpus_per_node,
        domain_wire_efficiency=1.0 if transport.generation is None else transport.generation.link_share,
        wire_efficiency=_NETWORK_EFFICIENCY,
        transport=transport,
    )


def strategy_of(step: MeasuredStep) -> Strategy:
    """Return the strategy of a step, in which nothing is left open; all ranks have as much to do as the busiest."""
    assert step.micro_batch is not None
    assert step.virtual_stages is not None
    share = -(-step.global_batch // step.dp)
    micro = min(step.micro_batch, share)
    count, rest = divmod(share, micro)
    return Strategy(
        dp=step.dp,
        tp=step.tp,
        pp=step.pp,
        micro_batches=count + bool(rest),
        global_batch=share * step.dp,
        sharding=step.sharding,
        recomputation=step.recomputation,
        algorithm=LIBRARY.name,
        exchange=0,
        sequence_parallel=step.sequence_parallel == "yes",
        virtual_stages=step.virtual_stages,
        micro_batch=micro if rest else 0,
    )


def _choices(step: MeasuredStep) -> list[MeasuredStep]:
    """Return the step with every usual choice of what it leaves open."""
    if step.micro_batch is not None and step.virtual_stages is not None:
        return [step]
    choices = [
        step.model_copy(update={"micro_batch": micro, "virtual_stages": virtual})
        for micro in ([step.micro_batch] if step.micro_batch else _MICRO_BATCHES)
        for virtual in _virtual_stages(step, micro)
        if step.micro_batch or step.global_batch % (step.dp * micro) == 0
    ]
    if not choices:
        raise ConfigError(f"row {step.row}: column 'micro_batch': not published, and dp does not divide global_batch")
    return choices


def _virtual_stages(step: MeasuredStep, micro: int) -> Iterator[int]:
    # Interleaved stages take as many micro-batches at a time as there are stages.
    in_turns = step.global_batch % (step.dp * micro * step.pp) == 0
    if step.virtual_stages is not None:
        if step.virtual_stages == 1 or in_turns:
            yield step.virtual_stages
        return
    for virtual in _VIRTUAL_STAGES if step.pp > 1 else (1,):
        divides = step.layers % (step.pp * virtual) == 0
        if virtual == 1 or (divides and in_turns):
            yield virtual
