"""What a stage of a strategy computes, sends and exchanges, for columns of strategies at once.

Work, bytes and parameters of the operators are columns too; a stage is a sum over consecutive operators. Exchanges are
priced by a function that the caller gives: exactly for one strategy, by lower bounds for many.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lightloom.accelerators.base import ELEMENT_BYTES, Accelerator
from lightloom.clusters.settings import TrainingSettings
from lightloom.core.arrays import Floats, Ints, Mask
from lightloom.fabrics.base import Fabric
from lightloom.parallelism.expert_parallel import ExpertSplit, expert_split
from lightloom.parallelism.operator_kernels import passes
from lightloom.parallelism.operators import OperatorColumns, operator_columns
from lightloom.parallelism.pipeline import block_starts, crossing_bytes, cuts
from lightloom.parallelism.plan import ParallelPlan
from lightloom.parallelism.recomputation import RECOMPUTATIONS, attention_core, in_blocks, read_within
from lightloom.parallelism.strategy_space import MOST_MICRO_BATCHES, Strategies, Strategy, strategy_space
from lightloom.parallelism.tensor_parallel import TensorSplit, tensor_split
from lightloom.planner.pricing.group_prices import AUTO, Pricing
from lightloom.planner.pricing.stage_exchanges import (
    ExchangeTime,
    distance,
    pass_exchanges,
    replica_exchanges,
    token_gradients,
)
from lightloom.simulation.pipelined import StageTimes
from lightloom.workloads.graph import ComputeGraph


@dataclass(frozen=True)
class Job:
    """A model on a cluster, ready to be split."""

    graph: ComputeGraph
    accelerator: Accelerator
    fabric: Fabric
    settings: TrainingSettings
    pricing: Pricing
    overlap: bool = True
    """Whether data parallelism communicates while computing."""

    @cached_property
    def data_parallel_plans(self) -> dict[Strategy, ParallelPlan]:
        """Plans of data parallelism alone that were made so far."""
        return {}

    @cached_property
    def split(self) -> TensorSplit:
        """How tensor parallelism divides the operators."""
        return tensor_split(self.graph)

    @cached_property
    def experts(self) -> ExpertSplit:
        """How expert parallelism divides the operators."""
        return expert_split(self.graph, self.split)

    @cached_property
    def starts(self) -> Ints:
        """First operators of blocks."""
        return block_starts(self.graph)

    @cached_property
    def columns(self) -> OperatorColumns:
        """The operators."""
        element_bytes, core = ELEMENT_BYTES[self.settings.precision], attention_core(self.graph)
        columns = operator_columns(self.graph, self.split, self.experts, element_bytes, self.settings.attention)
        masks = {
            "in_block": in_blocks(self.graph),
            "core": core,
            "inside_core": read_within(self.graph, core),
        }
        return replace(
            columns, values={**columns.values} | {name: mask.astype(np.int64) for name, mask in masks.items()}
        )

    @cached_property
    def sorts(self) -> tuple[OperatorColumns, Ints]:
        """One operator of each sort, and how many of each come before every operator."""
        return self.columns.alike()

    @cached_property
    def _crossing(self) -> tuple[Floats, Floats]:
        """Bytes of a sample that operators from each one on read from before it: all, and those in slices of the
        sequence where there are any."""
        scale = self.columns.element_bytes / self.graph.batch / self.graph.element_bytes
        every, sliced = crossing_bytes(self.graph), crossing_bytes(self.graph, self.split.sequenced)
        return every.astype(np.float64) * scale, sliced.astype(np.float64) * scale

    def space(
        self,
        batches: Iterable[int],
        *,
        algorithms: Sequence[str] = (AUTO,),
        ratios: Iterable[float] = (1.0,),
        recomputations: Sequence[str] = ("none", "full"),
        most_micro_batches: int = MOST_MICRO_BATCHES,
        most_virtual_stages: int = 4,
    ) -> Strategies:
        """Every strategy of this model on all ranks of the fabric (:func:`strategy_space`)."""
        return strategy_space(
            self.fabric.ranks,
            batches,
            tensor_degree=self.split.degree,
            sequence_degree=self.split.sequence_degree,
            expert_degree=self.experts.degree,
            blocks=len(self.starts),
            algorithms=algorithms,
            ratios=ratios,
            recomputations=recomputations,
            most_micro_batches=most_micro_batches,
            most_virtual_stages=most_virtual_stages,
        )

    def chunks(self, rows: Strategies) -> Ints:
        """First operator of each chunk, and the number of operators; all rows have the same stages and chunks."""
        return self.stages(int(rows.pp[0] * rows.virtual_stages[0]))

    def stages(self, count: int) -> Ints:
        """First operator of each of ``count`` parts, and the number of operators, balanced for the batch of a rank in
        the settings."""
        return cuts(self._work, self.starts, count)

    @cached_property
    def _work(self) -> Floats:
        one = np.ones(1, np.int64)
        forward, backward = self.operator_times(one * self.settings.batch_per_rank, one, 0 * one)
        seconds: Floats = (forward + backward)[0]
        return seconds

    def outputs(self, samples: Ints) -> Floats:
        """Bytes of every operator's output: [rows, operators]."""
        return self.columns.outputs(samples)

    def operator_times(self, samples: Ints, tp: Ints, recomputation: Ints) -> tuple[Floats, Floats]:
        """Seconds of every operator forward and backward, each [rows, operators], no pass shorter than its launches."""
        times = self.columns.times(self.accelerator, self.settings.precision, samples, tp)
        return passes(times, self.columns.dispatch(self.accelerator), repeated(self.columns, recomputation))

    def stage_times(self, rows: Strategies, exchange_time: ExchangeTime, *, sharing: bool = True) -> StageTimes:
        """Seconds of each chunk and stage; all rows have the same number of both.

        Where neighbouring groups share a ring's wavelengths, a group's bytes count as often as there are groups, unless
        not ``sharing``.
        """
        edges = self.chunks(rows)
        combination, row = combinations(rows)
        columns = self.sorts[0]
        forward, backward = columns.times(
            self.accelerator,
            self.settings.precision,
            combination.samples,
            combination.tp,
            sequence_parallel=combination.sequence_parallel,
            ep=combination.ep,
        )
        sent_forward, sent_backward = pass_exchanges(columns, combination, self.fabric, exchange_time, sharing=sharing)
        again = repeated(columns, combination.recomputation)
        backward, sent_backward = backward + again * forward, sent_backward + again * sent_forward
        forward, backward, sent_forward, sent_backward = (
            self.sums(seconds, edges)[row] for seconds in (forward, backward, sent_forward, sent_backward)
        )
        launched, launched_backward = columns.dispatch(self.accelerator)
        forward = np.maximum(forward, self.sums(launched[None, :], edges))
        backward = np.maximum(backward, self.sums(launched_backward + again * launched, edges)[row])
        dense, experts = (parameters[row] for parameters in self.held_parameters(combination, edges))
        gather, exchange = replica_exchanges(
            self.settings, rows, self.fabric, dense, experts, exchange_time, sharing=sharing
        )
        sharded = (rows.sharding == 1)[:, None]
        updated = np.where(sharded, shares(rows, dense, experts), dense + experts)
        updated[:, 0] += self.graph.unused_parameters / np.where(sharded[:, 0], rows.dp, 1)
        alone = np.where(columns["sequenced"] & ~columns["divided"] & 1, columns["parameters"], 0)[None, :]
        nbytes = _by_stage(self.sums(alone, edges), rows)[0] * float(self.settings.gradient_bytes)
        return StageTimes(
            forward=forward,
            backward=backward,
            forward_exchange=sent_forward,
            backward_exchange=sent_backward,
            forward_gather=np.zeros_like(forward),
            backward_gather=np.zeros_like(backward),
            send=self._sends(rows, self.entering(combination, edges[:-1])[row]),
            gather=gather,
            exchange=exchange + token_gradients(combination, nbytes, exchange_time)[row],
            update=self.accelerator.update_time(updated * float(self.settings.optimizer_traffic_bytes)),
        )

    def held_parameters(self, rows: Strategies, edges: Ints) -> tuple[Floats, Floats]:
        """Parameters that a rank holds when nothing is sharded, each [rows, stages]: what all replicas hold, and what
        only every ep-th of them holds."""
        columns = self.sorts[0]
        stride: Mask = (columns["held"] == 1) & (rows.ep > 1)[:, None]
        held = columns["parameters"] / np.where(columns["divided"], rows.tp[:, None], 1)
        experts = np.where(stride, held / rows.ep[:, None], 0.0)
        whole, shared = (self.sums(each, edges) for each in (np.where(stride, 0.0, held), experts))
        return _by_stage(whole, rows), _by_stage(shared, rows)

    def entering(self, rows: Strategies, starts: Ints) -> Floats:
        """Bytes of what a rank reads from before each of these operators: [rows, starts]."""
        whole, slices = (each[starts] for each in self._crossing)
        saved = np.where(rows.sequence_parallel, 1 - 1 / rows.tp, 0.0)[:, None] * slices
        found: Floats = rows.samples[:, None] * (whole - saved)
        return found

    def sums(self, values: Floats, edges: Ints) -> Floats:
        """Sums over the operators between edges of values of each sort: [rows, sorts] to [rows, edges − 1]."""
        found: Floats = values @ np.diff(self.sorts[1][edges], axis=0).T.astype(np.float64)
        return found

    def send_rate(self, rows: Strategies) -> tuple[Floats, Floats]:
        """Bytes per second and seconds of latency from a stage to the next, all ranks at once, each [rows].

        All rows have the same number of stages.
        """
        if int(rows.pp[0]) == 1:
            return np.full(len(rows), np.inf), np.zeros(len(rows))
        stride, row = np.unique(distance(self.fabric, rows.dp * rows.tp), return_inverse=True)
        rate, latency = np.array([self.fabric.pair(int(each)) for each in stride]).T
        return rate[row], latency[row]

    def _sends(self, rows: Strategies, nbytes: Floats) -> Floats:
        """Seconds from chunk to chunk: [rows, chunks]."""
        rate, latency = self.send_rate(rows)
        found = nbytes / rate[:, None] + latency[:, None]
        found[:, 0] = 0.0
        return found


def repeated(columns: OperatorColumns, recomputation: Ints) -> Ints:
    """How often each operator repeats its forward pass before its backward pass: [rows, operators]."""
    full, selective = (
        (recomputation == RECOMPUTATIONS.index(name))[:, None] * columns[mask]
        for name, mask in (("full", "in_block"), ("selective", "core"))
    )
    times: Ints = full + selective
    return times


def shares(rows: Strategies, whole: Floats, experts: Floats) -> Floats:
    """Parameters of a rank when they are sharded among all that hold the same: [rows, stages]."""
    return whole / rows.dp[:, None] + experts * rows.ep[:, None] / rows.dp[:, None]


def combinations(rows: Strategies) -> tuple[Strategies, Ints]:
    """One row for each combination on which a micro-batch's times depend, and where each row finds its own."""
    key = (rows.samples * (int(rows.tp.max()) + 1) + rows.tp) * (int(rows.ep.max()) + 1) + rows.ep
    key = (key * len(RECOMPUTATIONS) + rows.recomputation) * 2 + rows.sequence_parallel
    _, first, row = np.unique(key * len(rows.algorithms) + rows.algorithm, return_index=True, return_inverse=True)
    return rows.rows(first), row


def _by_stage(values: Floats, rows: Strategies) -> Floats:
    """Sums over the chunks of a stage: [rows, stages]."""
    found: Floats = values.reshape(len(values), -1, int(rows.pp[0])).sum(axis=1)
    return found


def sent_ratio(job: Job, ratio: Floats) -> Floats:
    """Bytes of gradients for each byte sent; codecs count float32, in which narrower gradients are larger."""
    return np.where(ratio == 1, 1.0, ratio * job.settings.gradient_bytes / 4)
