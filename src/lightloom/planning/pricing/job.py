"""A model on a cluster, at the prices of what its ranks exchange."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lightloom.core.arrays import Floats, Ints, Mask
from lightloom.core.caches import cached_method
from lightloom.core.errors import ConfigError
from lightloom.machines.accelerators.accelerator import ELEMENT_BYTES, Accelerator, Precision
from lightloom.machines.accelerators.calibrated import Calibration
from lightloom.machines.accelerators.kernels import Prior
from lightloom.machines.clusters.cluster import TrainingSettings
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.models.graph import ComputeGraph
from lightloom.planning.gradients import VALUE_BYTES, PricedExchange
from lightloom.planning.parallelism.operators import (
    OperatorColumns,
    Parts,
    dispatch_times,
    operator_columns,
    part_times,
    stretched,
)
from lightloom.planning.parallelism.plan import (
    ParallelPlan,
    block_starts,
    crossing_bytes,
    cuts,
    make_plan,
    recomputation_columns,
    repeated_operators,
    repetitions,
    stated_cuts,
)
from lightloom.planning.parallelism.strategy_space import KIND_OF_SHARDING, Strategies, Strategy, strategy_space
from lightloom.planning.parallelism.tensor_parallel import (
    ExpertSplit,
    TensorSplit,
    TiedTable,
    context_degree,
    copied_parameters,
    expert_split,
    searched_degrees,
    tensor_split,
    tied_tables,
)
from lightloom.planning.pricing.group_prices import AUTO, Axis, DividedChannels, Pricing
from lightloom.planning.simulation.engine import Task, compute_tasks
from lightloom.planning.simulation.link_turns import LinkTurns

# Seconds of a model's operators on an accelerator: of their kernels, of launching them, of whole passes.


@dataclass(frozen=True, slots=True)
class OperatorTimes:
    """Seconds of a model's operators on an accelerator, forward and backward.

    Operators whose columns are equal are of one sort. Where a method takes ``recomputation``, an index in
    ``RECOMPUTATIONS`` for each row, its backward passes include the forward passes that are repeated.
    """

    sorts: OperatorColumns
    """One operator of each sort."""
    sort: Ints
    """The sort of every operator: [operators]."""
    accelerator: Accelerator
    precision: Precision

    def kernels(self, samples: Ints, recomputation: Ints) -> tuple[Floats, Floats]:
        """Return the seconds of every operator's kernels undivided (tp of 1) forward and backward, repeated forward
        passes included in the latter, however long launching them takes: each [rows, operators].

        Args:
            samples: samples of a micro-batch: [rows].
            recomputation: index in ``RECOMPUTATIONS``: [rows].
        """
        times = self.sorts.times(self.accelerator, self.precision, samples, np.ones_like(samples))
        forward, backward = self.repeating(times, recomputation)
        return np.ascontiguousarray(forward[:, self.sort]), np.ascontiguousarray(backward[:, self.sort])

    def parts(self, parts: Parts) -> tuple[Floats, Floats]:
        """Return the seconds of parts of operators, sub-operators of a placed plan, forward and backward by their own
        shapes, however long launching takes, nothing repeated: each [parts]. ``parts.operator`` numbers the model's
        operators."""
        sorted_parts = parts._replace(operator=self.sort[parts.operator])
        return part_times(self.sorts, self.accelerator, self.precision, sorted_parts)

    def repeats(self, recomputation: Ints) -> Ints:
        """Return how often, 0 or 1, the backward pass repeats the forward pass of every operator: [rows, operators],
        for ``recomputation``, an index in ``RECOMPUTATIONS``: [rows]. "full" repeats the operators of numbered blocks,
        "selective" the inside of attention, "none" nothing."""
        return repetitions(self.sorts["in_block"], self.sorts["core"], recomputation)[:, self.sort]

    def launches(self, recomputation: Ints) -> tuple[Floats, Floats]:
        """Return the seconds in which a host launches every operator forward, and backward with what is repeated, each
        [rows, operators]; ``recomputation`` is an index in ``RECOMPUTATIONS``: [rows]."""
        forward, backward = self.repeating(self.launches_of_sorts, recomputation)
        backward = np.ascontiguousarray(backward[:, self.sort])
        return np.broadcast_to(forward[self.sort], backward.shape), backward

    def passes(self, samples: Ints, tp: Ints, recomputation: Ints) -> tuple[Floats, Floats]:
        """Return the seconds of every operator forward, and backward with what is repeated, each [rows, operators]; all
        operators of a pass longer in one proportion where it would be shorter than all its launches.

        Args:
            samples: samples of a micro-batch: [rows].
            tp: tensor-parallel degree by which operators are divided: [rows].
            recomputation: index in ``RECOMPUTATIONS``: [rows].
        """
        times = self.repeating(self.sorts.times(self.accelerator, self.precision, samples, tp), recomputation)
        launches = self.repeating(self.launches_of_sorts, recomputation)
        forward, backward = (
            stretched(seconds[:, self.sort], least[..., self.sort])
            for seconds, least in zip(times, launches, strict=True)
        )
        return forward, backward

    def of_sorts(self, rows: Strategies) -> tuple[Floats, Floats]:
        """Return the seconds of an operator of each sort (operators whose columns are all equal) for one micro-batch,
        forward and backward, divided as the rows' degrees say, nothing repeated, however long launching takes: each
        [rows, sorts]."""
        divided: dict[str, Any] = {"sequence_parallel": rows.sequence_parallel, "ep": rows.ep, "cp": rows.cp}
        return self.sorts.times(self.accelerator, self.precision, rows.samples, rows.tp, **divided)

    @property
    def launches_of_sorts(self) -> tuple[Floats, Floats]:
        """Seconds in which a host launches an operator of each sort (operators whose columns are all equal) forward and
        backward, nothing repeated, each [sorts]."""
        return dispatch_times(self.sorts.values, self.accelerator)

    def repeating(self, seconds: tuple[Floats, Floats], recomputation: Ints) -> tuple[Floats, Floats]:
        """Return the seconds of each sort of operators (those whose columns are all equal) forward as they are, and
        backward with the forward passes that recomputation repeats added, each [rows, sorts]; a forward array [sorts]
        stays so.

        Args:
            seconds: forward and backward, each [rows, sorts] or [sorts].
            recomputation: index in ``RECOMPUTATIONS``: [rows].
        """
        forward, backward = seconds
        return forward, backward + repetitions(self.sorts["in_block"], self.sorts["core"], recomputation) * forward


def by_stage(values: Floats, stages: int) -> Floats:
    """Return the sums over the chunks of each stage: [..., chunks] to [..., stages]. Chunk c of the whole model belongs
    to stage c mod ``stages``."""
    summed: Floats = values.reshape(*values.shape[:-1], -1, stages).sum(axis=-2)
    return summed


class Crossing(NamedTuple):
    """Bytes of a micro-batch that a chunk reads from before it, each [rows, chunks]."""

    total: Floats
    """All, of the whole model."""
    sliced: Floats
    """Those that lie in slices of the sequence in a tensor group."""


@dataclass(frozen=True)
class DividedModel:
    """A model, its training settings, and everything derived from both that the strategies which divide the model
    share."""

    graph: ComputeGraph
    settings: TrainingSettings
    accelerator: Accelerator
    """Whose times balance the stages of a pipeline."""

    @cached_property
    def split(self) -> TensorSplit:
        """Division of the operators by tensor parallelism, with the number that the tensor-parallel degree must
        divide."""
        return tensor_split(self.graph)

    @cached_property
    def experts(self) -> ExpertSplit:
        """Division of the operators by expert parallelism, with the number that the expert-parallel degree must
        divide."""
        return expert_split(self.graph, self.split)

    @cached_property
    def context_degree(self) -> int:
        """Number of slices of a sequence that every context-parallel degree must divide; 1 where the model does not
        allow any other."""
        return context_degree(self.graph)

    @cached_property
    def tied(self) -> tuple[TiedTable, ...]:
        """Tables of embeddings that later operators read without parameters of their own, each with its owner's index,
        the readers' indices and its number of parameters."""
        return tied_tables(self.graph)

    memory: dict[tuple[object, ...], Floats] = field(default_factory=dict, init=False, compare=False)
    """Bytes of the fullest rank that were found, by the strategies and what else decides them."""

    @cached_property
    def starts(self) -> Ints:
        """Indices of the first operators of the model's blocks (numbered modules such as ``layers.3``), where stages
        may begin: [blocks]."""
        return block_starts(self.graph)

    @cached_property
    def columns(self) -> OperatorColumns:
        """Columns [operators] of work, bytes and kernels, at the job's number format and undivided, with those of
        :func:`recomputation_columns`, such as whether an operator lies in a block or in the core of attention."""
        element_bytes = ELEMENT_BYTES[self.settings.precision]
        columns = operator_columns(self.graph, self.split, self.experts, element_bytes, self.settings.attention)
        recomputed = recomputation_columns(self.graph, unfused=self.settings.attention == "unfused")
        return replace(columns, values={**columns.values, **recomputed})

    @cached_property
    def _alike(self) -> tuple[OperatorColumns, Ints]:
        """Columns of one operator of each sort, and the number of operators of each sort before every operator."""
        return self.columns.alike()

    @property
    def sorts(self) -> OperatorColumns:
        """Columns [sorts] of one operator of each sort; operators whose columns are all equal are of one sort."""
        return self._alike[0]

    @property
    def _before(self) -> Ints:
        """Number of operators of each sort before every operator, and in the last row all of them: [operators + 1,
        sorts]."""
        return self._alike[1]

    @cached_property
    def sort(self) -> Ints:
        """Sort of every operator, as an index into :attr:`sorts`: [operators]."""
        sort: Ints = np.diff(self._before, axis=0).argmax(axis=1)
        return sort

    def times_on(self, accelerator: Accelerator) -> OperatorTimes:
        """Return the times of the model's operators on an accelerator, at the precision of the training settings."""
        return OperatorTimes(self.sorts, self.sort, accelerator, self.settings.precision)

    def sums(self, values: Floats, edges: Ints) -> Floats:
        """Return the sums over the operators from each edge to before the next, where every operator counts with the
        value of its sort (operators whose columns are all equal).

        Args:
            values: value of each sort: [..., rows, sorts].
            edges: indices of operators, ascending; the number of operators may be the last.

        Returns:
            The sums: [..., rows, edges − 1].
        """
        return values @ np.diff(self._before[edges], axis=0).T.astype(np.float64)

    def chunks(self, rows: Strategies) -> Ints:
        """Return the first operator of each chunk of the model in a pipeline and, last, the number of operators:
        [chunks + 1]. All rows must have the same number of stages and of chunks, as those of the first row are
        taken."""
        return self.stages(int(rows.pp[0] * rows.virtual_stages[0]))

    @cached_method()
    def stages(self, count: int) -> Ints:
        """Return the first operator of each of ``count`` (at most the number of blocks) contiguous parts of the model,
        which begin at blocks, and, last, the number of operators: [count + 1]; cached.

        Parts have the blocks that ``stage_blocks`` of the settings states where it has ``count`` entries, equally many
        (one more in the first parts) where it is "equal", and otherwise are balanced by seconds at the batch of a rank
        in the settings.

        Raises:
            ConfigError: the settings state more or fewer blocks than the model has.
        """
        blocks, operators = self.settings.stage_blocks, len(self.graph.operators)
        if isinstance(blocks, tuple) and len(blocks) == count:
            if sum(blocks) != len(self.starts):
                raise ConfigError(
                    f"training.stage_blocks {', '.join(map(str, blocks))}: {sum(blocks)} blocks, expected the "
                    f"{len(self.starts)} of {self.graph.name}"
                )
            return stated_cuts(self.starts, operators, blocks)
        if blocks == "equal":
            each, rest = divmod(len(self.starts), count)
            return stated_cuts(self.starts, operators, [each + (stage < rest) for stage in range(count)])
        return cuts(self._work, self.starts, count)

    @cached_property
    def _work(self) -> Floats:
        """Seconds of every operator forward and backward together on :attr:`accelerator`, undivided and nothing
        repeated, at the batch of a rank in the settings: [operators]."""
        one = np.ones(1, np.int64)
        forward, backward = self.times_on(self.accelerator).passes(one * self.settings.batch_per_rank, one, 0 * one)
        seconds: Floats = (forward + backward)[0]
        return seconds

    def units(self, edges: Ints) -> Ints:
        """Return the number of blocks that begin in each chunk, which are gathered one by one where parameters are
        sharded: [chunks]. ``edges`` are the first operators of the chunks and, last, the number of operators."""
        return np.diff(np.searchsorted(self.starts, edges))

    def held_blocks(self, rows: Strategies) -> Floats:
        """Return the number of parameters of each block that a rank holds when nothing is sharded by data parallelism,
        copies of tied tables included: [2, rows, blocks]; first those that all replicas hold, then its share of
        experts.

        All rows must have the same number of stages and of chunks.
        """
        blocks = self.held_parameters(rows, np.append(self.starts, len(self.graph.operators)))
        blocks[0] += copied_parameters(self.tied, self.starts, self.chunks(rows), rows.stages) / rows.tp[:, None]
        return blocks

    def held_parameters(self, rows: Strategies, edges: Ints) -> Floats:
        """Return the number of parameters that a rank holds of the operators from each of ``edges`` (indices of
        operators, ascending) to before the next, when nothing is sharded by data parallelism: [2, rows, edges − 1].

        The first are those that all replicas hold, divided by tp where tensor parallelism divides the operator; the
        second are those of experts where ep > 1, of which each rank holds 1 / ep.
        """
        columns = self.sorts
        experts: Mask = (columns["held"] == 1) & (rows.ep > 1)[:, None]
        held = columns["parameters"] / np.where(columns["divided"], rows.tp[:, None], 1)
        return self.sums(
            np.stack([np.where(experts, 0.0, held), np.where(experts, held / rows.ep[:, None], 0.0)]), edges
        )

    @cached_property
    def _crossing(self) -> tuple[Floats, Floats]:
        """Bytes of one sample, in the job's number format, that the operators from each one on read of the outputs from
        before it, each [operators]: first all, then only those of outputs that may lie in slices of the sequence."""
        scale = self.columns.element_bytes / self.graph.batch / self.graph.element_bytes
        every, sliced = crossing_bytes(self.graph), crossing_bytes(self.graph, self.split.sequenced)
        return every.astype(np.float64) * scale, sliced.astype(np.float64) * scale

    def crossing(self, rows: Strategies, starts: Ints) -> Crossing:
        """Return the bytes of a micro-batch in the job's number format, with cp of a rank's slice of it, that each of
        the operators ``starts`` (indices) and later ones read of the outputs from before it: each [rows, starts], not
        divided by tp; first all, then those that lie in slices of the sequence in a tensor group, 0 in rows without
        sequence parallelism unless the model is split by neurons."""
        total, slices = ((rows.samples / rows.cp)[:, None] * nbytes[starts] for nbytes in self._crossing)
        return Crossing(total, np.where((rows.sequence_parallel | self.split.of_neurons)[:, None], slices, 0.0))

    def entering(self, rows: Strategies, starts: Ints) -> Floats:
        """Return the bytes that a rank of a tensor group keeps, for one micro-batch, of the outputs from before each of
        the operators ``starts`` (indices) that it and later ones read: [rows, starts]. Of outputs in slices of the
        sequence a rank keeps its own slice, of others everything."""
        crossing = self.crossing(rows, starts)
        return crossing.total - (1 - 1 / rows.tp[:, None]) * crossing.sliced

    @cached_method()
    def local_graph(self, samples: int) -> ComputeGraph:
        """Return the graph at a batch of ``samples``, those of a rank, in the job's number format; cached."""
        return self._precise_graph.with_batch(samples)

    @cached_property
    def _precise_graph(self) -> ComputeGraph:
        """The graph in the job's number format, at the batch at which it was traced."""
        return self.graph.with_element_bytes(ELEMENT_BYTES[self.settings.precision])

    @cached_property
    def gathered_bytes(self) -> float:
        """Bytes that fully sharded data parallelism alone holds whole at once on a rank: the parameters of the largest
        units, as many as are computed and gathered ahead, and the gradient of the largest one that is reduced."""
        return make_plan("fsdp", self.local_graph(self.settings.batch_per_rank), 2, self.settings).memory.gathered

    def data_parallel_plan(self, strategy: Strategy) -> ParallelPlan:
        """Return the plan (exchanges, memory, operators that are recomputed) of a strategy that is data parallelism
        alone; cached, and the same whatever its algorithm and its method of exchange."""
        return self._data_parallel_plan(strategy.sharding, strategy.dp, strategy.samples, strategy.recomputation)

    @cached_method()
    def _data_parallel_plan(self, sharding: str, dp: int, samples: int, recomputation: str) -> ParallelPlan:
        """Return the plan of data parallelism alone among ``dp`` replicas with ``samples`` samples a rank; ``sharding``
        is "none" (all-reduced buckets) or "zero-3" (fully sharded), and KeyError is raised for others;
        ``recomputation`` names what is repeated, of which the plan lists the operators. Cached."""
        settings = self.settings.model_copy(update={"batch_per_rank": samples})
        plan = make_plan(KIND_OF_SHARDING[sharding], self.local_graph(samples), dp, settings)
        repeated = repeated_operators(self.graph, recomputation)
        names = frozenset(self.graph.operators[index].name for index in np.flatnonzero(repeated))
        return replace(plan, recomputed=names)


_latest: list[DividedModel] = []
"""The model that was divided last, with all that was derived of it."""


def divided_model(graph: ComputeGraph, settings: TrainingSettings, accelerator: Accelerator) -> DividedModel:
    """Return a model as strategies divide it: the object that the last call returned, with all that it derived, where
    all three arguments equal those of that call; otherwise a new one, which is kept in its place."""
    if not _latest or _latest[0] != DividedModel(graph, settings, accelerator):
        _latest[:] = [DividedModel(graph, settings, accelerator)]
    return _latest[0]


def is_mesh(fabric: Fabric) -> bool:
    """Return True for two-dimensional grids with open ends (no torus), on which DaDianNao's chips split neurons."""
    return fabric.grid is not None and not fabric.grid.wraps


@dataclass(frozen=True)
class Job:
    """A model ready to be split, the accelerators and the fabric it runs on, and the prices of its exchanges there."""

    model: DividedModel
    accelerator: Accelerator
    fabric: Fabric
    pricing: Pricing
    overlap: bool = True
    """True where data parallelism communicates while computing."""
    shares: DividedChannels | None = None
    """The channels of each axis, where they are shared out; without, every axis is priced on all of them."""
    exchanges: tuple[PricedExchange, ...] = ()
    """Methods by which replicas may exchange gradients; strategies number them from 1 on."""
    splits_neurons: bool = False
    """True where the layers of convolutional networks may be split by their outputs."""

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
        """Return the job of a model whose stages are balanced for the accelerator that it runs on; layers of
        convolutional networks may be split by their outputs where the fabric is a mesh.

        Args:
            graph: the model's operators.
            accelerator: on which every rank runs.
            fabric: of as many ranks as the job has.
            settings: training settings.
            pricing: prices of collectives in groups of the fabric's ranks.
            overlap: whether data parallelism communicates while computing.
            exchanges: methods of exchanging gradients, which strategies number from 1 on.
        """
        model, splits = divided_model(graph, settings, accelerator), is_mesh(fabric)
        return cls(model, accelerator, fabric, pricing, overlap, exchanges=tuple(exchanges), splits_neurons=splits)

    @property
    def graph(self) -> ComputeGraph:
        """The operators of the model, at the batch at which it was traced."""
        return self.model.graph

    @property
    def settings(self) -> TrainingSettings:
        """Training settings of the model."""
        return self.model.settings

    @property
    def parameters(self) -> int:
        """Number of parameters of the model, those that no operator uses included."""
        return self.graph.parameters + self.graph.unused_parameters

    def exchange(self, strategy: Strategy) -> PricedExchange | None:
        """Return the method by which a strategy exchanges gradients; None where it exchanges them as they are."""
        return self.exchanges[strategy.exchange - 1] if strategy.exchange else None

    @property
    def tensor_degree(self) -> int:
        """Number that every tensor degree must divide: of convolutional networks the number of ranks where neurons may
        be split (on a mesh), else 1; of other models the one that their operators allow."""
        degree = self.fabric.ranks if self.splits_neurons else 1
        return degree if self.model.split.of_neurons else self.model.split.degree

    def blocks(self, exchange: Ints) -> Mask:
        """Return a mask of the methods, given by number, that exchange only after the whole backward pass, in the shape
        of ``exchange``; False for 0, gradients as they are."""
        return self._of_methods(exchange, [False, *(method.blocking for method in self.exchanges)])

    def phased(self, exchange: Ints) -> Mask:
        """Return a mask of the methods, given by number, that take phases of their own instead of one schedule of coded
        sums, in the shape of ``exchange``; False for 0, gradients as they are."""
        return self._of_methods(exchange, [False, *(not method.in_schedule for method in self.exchanges)])

    def kept_bytes(self, exchange: Ints) -> Floats:
        """Return the bytes that methods, given by number, keep between steps for each parameter, in the shape of
        ``exchange``; 0 for number 0, gradients as they are."""
        return self._of_methods(exchange, [0.0, *(method.state_bytes for method in self.exchanges)])

    @staticmethod
    def _of_methods(exchange: Ints, values: list[Any]) -> NDArray[Any]:
        """Return the entry of ``values`` for each method number, entry 0 being that of gradients as they are, in the
        shape of ``exchange``; higher numbers take the last entry."""
        return np.array(values)[np.minimum(exchange, len(values) - 1)]

    @cached_property
    def operators(self) -> OperatorTimes:
        """Times of the model's operators on the job's accelerator."""
        return self.model.times_on(self.accelerator)

    @cached_property
    def turns(self) -> LinkTurns:
        """The links of the fabric that exchanges of one step have in common, and so take in turns."""
        return LinkTurns.on(self.fabric)

    def computing(self, strategy: Strategy) -> list[Task]:
        """Return the tasks that a rank computes in a step of a strategy that is data parallelism alone, in order:
        forward passes of the operators, backward passes in reverse order with what is repeated, and the optimizer's
        update; cached, and the same whatever the strategy's algorithm and method of exchange.

        Raises:
            UnsupportedError: the accelerator has no rate for the job's precision.
        """
        return self._computing(strategy._replace(algorithm="", exchange=0))

    @cached_method()
    def _computing(self, strategy: Strategy) -> list[Task]:
        """Return the tasks that a rank computes in a step; the strategy must have no algorithm ("") and exchange 0, so
        that strategies that differ in these alone share the cached tasks."""
        return compute_tasks(self.model.data_parallel_plan(strategy), self.accelerator)

    def data_parallel_plan(self, strategy: Strategy) -> ParallelPlan:
        """Return the plan of a strategy that is data parallelism alone, with its exchanges.

        Where the strategy's exchange method waits for the whole backward pass, all exchanges become a single one after
        it, named ``exchange``, of the kind of the last and the bytes of all; otherwise they do not depend on the
        method.
        """
        plan = self.model.data_parallel_plan(strategy)
        if not plan.exchanges or not self.blocks(np.array(strategy.exchange)):
            return plan
        last = plan.exchanges[-1]
        nbytes = sum(exchange.nbytes for exchange in plan.exchanges)
        after = replace(last, name="exchange", nbytes=nbytes, starts_after=plan.update - 1, needed_by=plan.update)
        return replace(plan, exchanges=(after,))

    def on(self, axis: Axis) -> Fabric:
        """Return the fabric on which an axis of parallelism exchanges: a group on its share of the channels where these
        are divided, else, and for the pipeline, the whole fabric."""
        return self.fabric if self.shares is None else self.shares.fabric(axis)

    def tied_pair(self, stride: int) -> tuple[float, float]:
        """Return the bytes per second and seconds of latency between stages that hold copies of a table and whose ranks
        lie ``stride`` apart: over the pipeline's circuits where channels are divided, else as a message on the
        fabric."""
        return self.fabric.message(stride) if self.shares is None else self.shares.shift(stride)

    def repriced(self, accelerator: Accelerator, fabric: Fabric, pricing: Pricing) -> Job:
        """Return this job on another accelerator and fabric at other prices; the stages of its model stay balanced for
        the accelerator that they were balanced for."""
        return replace(self, accelerator=accelerator, fabric=fabric, pricing=pricing)

    def space(
        self, batches: Iterable[int], *, algorithms: Sequence[str] = (AUTO,), cp: int | None = None, **searched: Any
    ) -> Strategies:
        """Return the strategies of this model on all ranks of the fabric at these global batches, one row each: all
        divisions into dp, tp, pp, cp and ep that the model allows, with up to 256 micro-batches and 4 chunks a stage,
        all shardings, recomputation ``none`` and ``full`` (of all blocks), and gradients as they are, unless
        ``searched`` says otherwise.

        Args:
            batches: samples of a step over all ranks.
            algorithms: names of the algorithms that strategies choose among.
            cp: the only context-parallel degree; None to try those that leave every rank at least 4,096 tokens of the
                longest sequence.
            searched: further choices of :func:`strategy_space` by name, such as ``exchanges``, ``shardings`` and
                ``recomputations``.
        """
        model = self.model
        return strategy_space(
            self.fabric.ranks,
            batches,
            tensor_degree=self.tensor_degree,
            sequence_degree=model.split.sequence_degree,
            expert_degree=model.experts.degree,
            contexts=searched_degrees(model.graph) if cp is None else (cp,),
            blocks=len(model.starts),
            algorithms=algorithms,
            node_ranks=self.fabric.node_ranks,
            **searched,
        )


def sent_ratio(training: TrainingSettings, ratio: Floats) -> Floats:
    """Return the compression ratio in bytes of gradients at the job's own number format for each byte sent, from
    ``ratio`` in bytes of float32 for each byte sent, in its shape: ``ratio`` times ``gradient_bytes`` of the settings
    over 4; a ratio of exactly 1 means no codec and stays 1."""
    return np.where(ratio == 1, 1.0, ratio * training.gradient_bytes / VALUE_BYTES)


# Spreads of the parameters that price a plan, and the intervals that follow.
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
    """Parameters of prices that are uncertain, and how steps scatter around their model."""

    names: tuple[str, ...]
    """Those of the kernels, then those of the fabric's collective library."""
    covariance: Floats
    """Covariance of the logarithms of the parameters: [parameters, parameters]."""
    scatter: float
    """Half-width of the logarithm that nine of ten unseen steps need around the best model."""
    basis: str
    """Source of the spreads, as reports name it."""


def belief_of(accelerator: Accelerator, fabric: Fabric) -> Belief | None:
    """Return the uncertain parameters of an accelerator's kernels and of its fabric's collective library, if it has
    one, with the covariance of their natural logarithms and the scatter of steps around the model (the half-width in
    natural logarithms that nine of ten steps need): from a calibration where the accelerator has one, else from priors,
    whose parameters do not covary. Parameters whose value is 0 are left out. ``basis`` reads "priors" or "calibrated
    on" and the table of measured rows.

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
    """Replace, in place, entries of ``covariance`` by the calibration's covariances, for those parameters that the
    calibration has with the same spread as in ``priors``.

    Args:
        covariance: of logarithms: [parameters, parameters], in the order of ``priors``.
        priors: value and spread of each parameter by name.
        calibration: of the accelerator.
    """
    names = list(calibration.parameters)
    fitted = [
        (place, names.index(name))
        for place, (name, prior) in enumerate(priors.items())
        if name in names and prior.spread == calibration.parameters[name].spread
    ]
    ours, theirs = np.array(fitted, np.int64).reshape(-1, 2).T
    covariance[np.ix_(ours, ours)] = np.array(calibration.covariance)[np.ix_(theirs, theirs)]


def half_widths(slopes: Floats, covariance: Floats, scatter: Floats | float) -> Floats:
    """Return the half-width of each step's 90 % interval, in natural logarithms, [steps]: the root of the sum of
    squares of 1.645 standard deviations, which the parameters leave, and of ``scatter``.

    Args:
        slopes: derivative of each step's logarithm by each parameter's logarithm: [steps, parameters].
        covariance: covariance of the parameters' logarithms: [parameters, parameters].
        scatter: half-width that nine of ten steps need around the best model, in natural logarithms; it is added as it
            is, not times 1.645.
    """
    variance: Floats = np.einsum("rp,pq,rq->r", slopes, covariance, slopes)
    half: Floats = np.sqrt(NORMAL**2 * variance + np.asarray(scatter) ** 2)
    return half
