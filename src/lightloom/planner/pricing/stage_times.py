"""What a stage of a strategy computes, sends and exchanges, for columns of strategies at once.

Work, bytes and parameters of the operators are columns too; a stage is a sum over consecutive operators. Exchanges are
priced by a function that the caller gives: exactly for one strategy, by lower bounds for many.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from lightloom.accelerators.base import ELEMENT_BYTES, Accelerator
from lightloom.clusters.settings import TrainingSettings
from lightloom.core.arrays import Floats, Ints, Mask
from lightloom.fabrics.base import Fabric
from lightloom.parallelism.context_parallel import context_degree, searched_degrees
from lightloom.parallelism.expert_parallel import ExpertSplit, expert_split
from lightloom.parallelism.load import make_plan
from lightloom.parallelism.operator_kernels import passes
from lightloom.parallelism.operators import OperatorColumns, operator_columns
from lightloom.parallelism.pipeline import block_starts, crossing_bytes, cuts, equal_cuts
from lightloom.parallelism.plan import ParallelPlan
from lightloom.parallelism.recomputation import RECOMPUTATIONS, recomputation_columns, repetitions
from lightloom.parallelism.sharding import SHARDINGS, state_sharers
from lightloom.parallelism.strategy_space import MOST_MICRO_BATCHES, Strategies, Strategy, strategy_space
from lightloom.parallelism.tensor_parallel import TensorSplit, tensor_split
from lightloom.parallelism.tied import TiedTable, copied_parameters, tied_tables
from lightloom.planner.pricing.context_ring import ring_waits
from lightloom.planner.pricing.group_prices import AUTO, Pricing
from lightloom.planner.pricing.replica_exchanges import (
    Held,
    ReplicaExchanges,
    ReplicaPrices,
    exposed_backward,
    exposed_forward,
    overlapped,
    shares,
)
from lightloom.planner.pricing.stage_exchanges import (
    ExchangeTime,
    distance,
    pass_exchanges,
    token_gradients,
)
from lightloom.planner.pricing.stage_sends import Crossing, Gathers, Sends, gathers, sends
from lightloom.planner.pricing.tied_exchange import TiedSum, tied_seconds, tied_sums
from lightloom.simulation.pipelined import StageTimes
from lightloom.workloads.graph import ComputeGraph

_OF_THE_MODEL = (
    "data_parallel_plans",
    "split",
    "experts",
    "context_degree",
    "tied",
    "starts",
    "columns",
    "sorts",
    "_crossing",
    "_stages",
)
"""Properties of a job that do not depend on its prices."""


class StageExchanges(NamedTuple):
    """Seconds of what the ranks of a stage exchange with each other."""

    forward: Floats
    """Collectives of tensor and expert parallelism in a forward pass: [rows, chunks]."""
    backward: Floats
    """The same in a backward pass, repeated forward passes included: [rows, chunks]."""
    held: Held
    """Parameters of a rank when nothing is sharded, each [rows, chunks]."""
    replicas: ReplicaExchanges
    token_gradients: Floats
    """Once a step, gradients that the ranks of a tensor group have of their own tokens only: [rows, stages]."""
    tied: list[TiedSum]
    """Once a step, after these, gradients of tables of which several stages hold copies."""


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
    def context_degree(self) -> int:
        """What the context-parallel degree must divide."""
        return context_degree(self.graph)

    @cached_property
    def tied(self) -> tuple[TiedTable, ...]:
        """Tables that several operators read."""
        return tied_tables(self.graph)

    @cached_property
    def starts(self) -> Ints:
        """First operators of blocks."""
        return block_starts(self.graph)

    @cached_property
    def columns(self) -> OperatorColumns:
        """The operators."""
        element_bytes = ELEMENT_BYTES[self.settings.precision]
        columns = operator_columns(self.graph, self.split, self.experts, element_bytes, self.settings.attention)
        recomputed = recomputation_columns(self.graph, unfused=self.settings.attention == "unfused")
        return replace(columns, values={**columns.values, **recomputed})

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
        shardings: Sequence[str] = SHARDINGS,
        micro_batch: int | None = None,
        cp: int | None = None,
        most_micro_batches: int = MOST_MICRO_BATCHES,
        most_virtual_stages: int = 4,
    ) -> Strategies:
        """Every strategy of this model on all ranks of the fabric (:func:`strategy_space`).

        Context-parallel degrees are tried where sequences are long, or the one that is given.
        """
        return strategy_space(
            self.fabric.ranks,
            batches,
            tensor_degree=self.split.degree,
            sequence_degree=self.split.sequence_degree,
            expert_degree=self.experts.degree,
            contexts=searched_degrees(self.graph) if cp is None else (cp,),
            blocks=len(self.starts),
            algorithms=algorithms,
            ratios=ratios,
            recomputations=recomputations,
            shardings=shardings,
            node_ranks=self.fabric.node_ranks,
            micro_batch=micro_batch,
            most_micro_batches=most_micro_batches,
            most_virtual_stages=most_virtual_stages,
        )

    def chunks(self, rows: Strategies) -> Ints:
        """First operator of each chunk, and the number of operators; all rows have the same stages and chunks."""
        return self.stages(int(rows.pp[0] * rows.virtual_stages[0]))

    def stages(self, count: int) -> Ints:
        """First operator of each of ``count`` parts, and the number of operators: as many blocks in each, or balanced
        for the batch of a rank in the settings."""
        if count not in self._stages:
            equal = self.settings.stage_blocks == "equal"
            self._stages[count] = (
                equal_cuts(self.starts, len(self.graph.operators), count)
                if equal
                else cuts(self._work, self.starts, count)
            )
        return self._stages[count]

    def repriced(self, accelerator: Accelerator, fabric: Fabric, pricing: Pricing) -> Job:
        """Return the same job at other prices; its stages stay those of this one."""
        job = replace(self, accelerator=accelerator, fabric=fabric, pricing=pricing)
        job.__dict__.update({name: getattr(self, name) for name in _OF_THE_MODEL})
        return job

    @cached_property
    def _stages(self) -> dict[int, Ints]:
        return {}

    @cached_property
    def _work(self) -> Floats:
        one = np.ones(1, np.int64)
        forward, backward = self.operator_times(one * self.settings.batch_per_rank, one, 0 * one)
        seconds: Floats = (forward + backward)[0]
        return seconds

    @cached_property
    def gathered_bytes(self) -> float:
        """Bytes of the units that sharded data parallelism alone holds gathered at once."""
        return make_plan("fsdp", self.graph, 2, self.settings).memory.gathered

    def kept(self, samples: Ints) -> Floats:
        """Bytes that every operator keeps for the backward pass: [rows, operators]."""
        return self.columns.kept(samples)

    def operator_times(self, samples: Ints, tp: Ints, recomputation: Ints) -> tuple[Floats, Floats]:
        """Seconds of every operator forward and backward, each [rows, operators], no pass shorter than its launches."""
        columns, sort = self.sorts[0], np.diff(self.sorts[1], axis=0).argmax(axis=1)
        forward, backward = columns.times(self.accelerator, self.settings.precision, samples, tp)
        launched, launched_backward = columns.dispatch(self.accelerator)
        again = repetitions(columns["in_block"], columns["core"], recomputation)
        times = forward[:, sort], backward[:, sort]
        return passes(times, (launched[sort], launched_backward[sort]), again[:, sort])

    def kernel_times(self, samples: Ints, recomputation: Ints) -> tuple[Floats, Floats]:
        """Seconds of every operator forward and backward, each [rows, operators], however long launching them takes."""
        one = np.ones_like(samples)
        forward, backward = self.columns.times(self.accelerator, self.settings.precision, samples, one)
        again = repetitions(self.columns["in_block"], self.columns["core"], recomputation)
        return forward, backward + again * forward

    def launch_times(self, recomputation: Ints) -> tuple[Floats, Floats]:
        """Seconds in which a host launches every operator forward and backward, each [rows, operators]."""
        launched, launched_backward = self.columns.dispatch(self.accelerator)
        again = repetitions(self.columns["in_block"], self.columns["core"], recomputation)
        return np.broadcast_to(launched, again.shape), launched_backward + again * launched

    def stage_times(
        self, rows: Strategies, exchange_time: ExchangeTime, sends: Sends | None = None, *, sharing: bool = True
    ) -> StageTimes:
        """Seconds of each chunk and stage; all rows have the same number of both.

        Where neighbouring groups share a ring's wavelengths, a group's bytes count as often as there are groups, unless
        not ``sharing``. ``sends`` takes the place of :meth:`sends`.
        """
        edges, columns = self.chunks(rows), self.sorts[0]
        combination, row = combinations(rows)
        forward, backward = columns.times(
            self.accelerator,
            self.settings.precision,
            combination.samples,
            combination.tp,
            sequence_parallel=combination.sequence_parallel,
            ep=combination.ep,
            cp=combination.cp,
        )
        ring = ring_waits(columns, combination, self.fabric, (forward, backward), sharing=sharing)
        again = repetitions(columns["in_block"], columns["core"], combination.recomputation)
        launched, launched_backward = columns.dispatch(self.accelerator)
        context = self.sums(ring.forward, edges)[row], self.sums(ring.backward + again * ring.forward, edges)[row]
        forward, backward = self.sums(forward, edges), self.sums(backward + again * forward, edges)
        forward = np.maximum(forward, self.sums(launched[None, :], edges))[row]
        backward = np.maximum(backward, self.sums(launched_backward + again * launched, edges))[row]
        exchanges = self.stage_exchanges(rows, exchange_time, sharing=sharing)
        within, units = exchanges.replicas, self.units(edges)
        sharers = state_sharers(rows.sharding, rows.replicas, rows.tp, self.fabric.node_ranks)
        updated = shares(rows, exchanges.held.by_stage(int(rows.pp[0])), sharers)
        updated[:, 0] += self.graph.unused_parameters / sharers
        after = exchanges.token_gradients if within.unit_exchange else within.exchange + exchanges.token_gradients
        waiting = exchanges.forward + context[0], exchanges.backward + context[1]
        gradients = overlapped(backward + waiting[1], within, units)
        return StageTimes(
            forward=forward,
            backward=backward,
            forward_exchange=exchanges.forward,
            backward_exchange=exchanges.backward,
            forward_ring=context[0],
            backward_ring=context[1],
            forward_gather=exposed_forward(forward + waiting[0], within, units),
            backward_gather=exposed_backward(backward + waiting[1], within, units),
            send=(self.sends(rows, exchange_time) if sends is None else sends).seconds,
            early_exchange=gradients.early,
            late_exchange=gradients.late,
            lead=gradients.lead,
            gather=within.gather,
            exchange=after,
            tied=tied_seconds(exchanges.tied, len(rows), int(rows.pp[0])),
            update=self.accelerator.update_time(updated * float(self.settings.optimizer_traffic_bytes)),
        )

    def stage_exchanges(
        self, rows: Strategies, exchange_time: ExchangeTime, *, sharing: bool = True, by_unit: Mask | None = None
    ) -> StageExchanges:
        """Seconds of everything that the ranks of a stage exchange with each other; as :meth:`stage_times`.

        Where ``by_unit`` says which chunks exchange gradients unit by unit, the other way is not priced.
        """
        edges, columns = self.chunks(rows), self.sorts[0]
        combination, row = combinations(rows)
        forward, backward = pass_exchanges(columns, combination, self.fabric, exchange_time, sharing=sharing)
        backward = backward + repetitions(columns["in_block"], columns["core"], combination.recomputation) * forward
        forward, backward = (self.sums(seconds, edges)[row] for seconds in (forward, backward))
        begins = np.searchsorted(self.starts, edges[:-1])
        blocks = self.held_blocks(combination)
        held = Held(*(np.add.reduceat(parameters, begins, axis=1)[row] for parameters in blocks))
        first = Held(*(parameters[:, begins][row] for parameters in blocks))
        prices = ReplicaPrices(self.settings, rows, self.fabric, exchange_time, sharing=sharing)
        alone = np.where(columns["sequenced"] & ~columns["divided"] & 1, columns["parameters"], 0)[None, :]
        nbytes = self.sums(alone, edges).reshape(-1, int(rows.pp[0])).sum(axis=0) * float(self.settings.gradient_bytes)
        return StageExchanges(
            forward=forward,
            backward=backward,
            held=held,
            replicas=prices.exchanges(held, first, self.units(edges), by_unit),
            token_gradients=token_gradients(combination, nbytes, exchange_time)[row],
            tied=tied_sums(self.tied, edges, rows, self.fabric, self.settings),
        )

    def units(self, edges: Ints) -> Ints:
        """Blocks of each chunk, which are gathered one by one where parameters are sharded: [chunks]."""
        return np.diff(np.searchsorted(self.starts, edges))

    def held_blocks(self, rows: Strategies) -> Held:
        """Parameters of each block of a rank when nothing is sharded, copies of tied tables included: [rows, blocks].

        All rows have the same number of stages and of chunks.
        """
        blocks = self.held_parameters(rows, np.append(self.starts, len(self.graph.operators)))
        copies = copied_parameters(self.tied, self.starts, self.chunks(rows), int(rows.pp[0]))
        return blocks._replace(dense=blocks.dense + copies / rows.tp[:, None])

    def held_parameters(self, rows: Strategies, edges: Ints) -> Held:
        """Parameters that a rank holds between edges when nothing is sharded, each [rows, edges − 1]."""
        columns = self.sorts[0]
        stride: Mask = (columns["held"] == 1) & (rows.ep > 1)[:, None]
        held = columns["parameters"] / np.where(columns["divided"], rows.tp[:, None], 1)
        experts = np.where(stride, held / rows.ep[:, None], 0.0)
        return Held(*(self.sums(parameters, edges) for parameters in (np.where(stride, 0.0, held), experts)))

    def crossing(self, rows: Strategies, starts: Ints) -> Crossing:
        """Bytes of a micro-batch that these operators and later ones read from before them: [rows, starts]."""
        total, slices = ((rows.samples / rows.cp)[:, None] * nbytes[starts] for nbytes in self._crossing)
        return Crossing(total, np.where(rows.sequence_parallel[:, None], slices, 0.0))

    def entering(self, rows: Strategies, starts: Ints) -> Floats:
        """Bytes of what a rank keeps of the outputs that these operators read from before them: [rows, starts]."""
        crossing = self.crossing(rows, starts)
        nbytes: Floats = crossing.total - (1 - 1 / rows.tp[:, None]) * crossing.sliced
        return nbytes

    def sends(self, rows: Strategies, exchange_time: ExchangeTime) -> Sends:
        """What is sent to each chunk from the one before it: [rows, chunks]."""
        combination, row = combinations(rows)
        crossing = self.crossing(combination, self.chunks(rows)[:-1])
        gather = gathers(combination, crossing, self.pricing, exchange_time)
        gather = Gathers(*(column[row] for column in gather))
        return sends(rows, Crossing(*(column[row] for column in crossing)), gather, *self.send_rate(rows))

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
        stride, row = np.unique(distance(self.fabric, rows.replicas * rows.tp), return_inverse=True)
        rate, latency = np.array([self.fabric.pair(int(each)) for each in stride]).T
        return rate[row], latency[row]


def combinations(rows: Strategies) -> tuple[Strategies, Ints]:
    """One row for each combination on which a micro-batch's times depend, and where each row finds its own."""
    if len(rows) == 1:
        return rows, np.zeros(1, np.int64)
    key = (rows.samples * (int(rows.tp.max()) + 1) + rows.tp) * (int(rows.ep.max()) + 1) + rows.ep
    key = (key * len(RECOMPUTATIONS) + rows.recomputation) * 2 + rows.sequence_parallel
    key = key * (int(rows.cp.max()) + 1) + rows.cp
    _, first, row = np.unique(key * len(rows.algorithms) + rows.algorithm, return_index=True, return_inverse=True)
    return rows.rows(first), row


def sent_ratio(job: Job, ratio: Floats) -> Floats:
    """Bytes of gradients for each byte sent; codecs count float32, in which narrower gradients are larger."""
    return np.where(ratio == 1, 1.0, ratio * job.settings.gradient_bytes / 4)
