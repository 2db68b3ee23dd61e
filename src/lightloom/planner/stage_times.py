"""What a stage of a strategy computes, sends and holds, for columns of strategies at once.

Work, bytes and parameters of the operators are columns too; a stage is a sum over consecutive operators. Exchanges are
priced by a function that the caller gives: exactly for one strategy, by lower bounds for many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lightloom.accelerators.base import ELEMENT_BYTES, Accelerator
from lightloom.accelerators.roofline import memory_time
from lightloom.clusters.settings import TrainingSettings
from lightloom.collectives.spec import Kind
from lightloom.fabrics.base import Fabric
from lightloom.parallelism.expert_parallel import ExpertSplit, expert_split
from lightloom.parallelism.pipeline import block_starts, crossing_bytes, cuts, in_flight
from lightloom.parallelism.strategy_space import Floats, Ints, Mask, Strategies, strategy_space
from lightloom.parallelism.tensor_parallel import TensorSplit, tensor_split
from lightloom.planner.group_prices import Pricing
from lightloom.simulation.pipelined import StageTimes
from lightloom.workloads.graph import ComputeGraph, has_samples

ExchangeTime = Callable[[Kind, Ints, Ints, Floats, Floats], Floats]
"""Seconds of collectives by kind, algorithm, ranks, ratio and bytes."""


@dataclass(frozen=True)
class Job:
    """A model on a cluster, ready to be split."""

    graph: ComputeGraph
    accelerator: Accelerator
    fabric: Fabric
    settings: TrainingSettings
    pricing: Pricing

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
    def columns(self) -> dict[str, Ints]:
        """Counts of the operators at the graph's own batch, each of shape [operators]."""
        names = ("forward_flops", "backward_flops", "parameters", "activation_bytes", "forward_bytes", "shared_bytes")
        operators = self.graph.operators
        found = {name: np.array([getattr(each, name) for each in operators], np.int64) for name in names}
        elements = found["activation_bytes"] // self.graph.element_bytes
        sampled = np.array(["sample" in each.dimensions for each in operators])
        output = [has_samples(each.kind, int(n), self.graph.batch) for each, n in zip(operators, elements, strict=True)]
        first = {each.name: index for index, each in enumerate(operators)}
        return found | {
            "sampled": sampled.astype(np.int64),
            "output_sampled": (sampled & np.array(output, np.bool_)).astype(np.int64),
            "is_input": np.array([each.kind == "input" for each in operators], np.int64),
            "source": np.array([first[each.inputs[0]] if each.inputs else 0 for each in operators], np.int64),
            "crossing": crossing_bytes(self.graph) // self.graph.element_bytes,
            "crossing_in_slices": crossing_bytes(self.graph, self.split.sequenced) // self.graph.element_bytes,
        }

    @cached_property
    def element_bytes(self) -> int:
        """Bytes of an activation's element."""
        return ELEMENT_BYTES[self.settings.precision]

    def space(
        self,
        batches: Iterable[int],
        *,
        algorithms: Sequence[str],
        ratios: Iterable[float] = (1.0,),
        most_micro_batches: int = 64,
        most_virtual_stages: int = 4,
    ) -> Strategies:
        """Every strategy of this model on all ranks of the fabric (:func:`strategy_space`)."""
        return strategy_space(
            self.fabric.ranks, batches, tensor_degree=self.split.degree, sequence_degree=self.split.sequence_degree,
            expert_degree=self.experts.degree, blocks=len(self.starts), algorithms=algorithms, ratios=ratios,
            most_micro_batches=most_micro_batches, most_virtual_stages=most_virtual_stages,
        )  # fmt: skip

    def chunks(self, rows: Strategies) -> Ints:
        """First operator of each chunk, and the number of operators; all rows have the same stages and chunks."""
        return self.stages(int(rows.pp[0] * rows.virtual_stages[0]))

    def stages(self, count: int) -> Ints:
        """First operator of each of ``count`` parts, and the number of operators, balanced for the graph's own
        batch."""
        one = np.ones(1, np.int64)
        forward, backward = self.operator_times(one * self.graph.batch, one, 0 * one)
        return cuts((forward + backward)[0], self.starts, count)

    def outputs(self, samples: Ints) -> Floats:
        """Bytes of every operator's output: [rows, operators]."""
        scaled = _scaled(self.columns["activation_bytes"], self.columns["output_sampled"], samples, self.graph.batch)
        return (scaled // self.graph.element_bytes * self.element_bytes).astype(np.float64)

    def operator_times(
        self,
        samples: Ints,
        tp: Ints,
        recomputation: Ints,
        sequence_parallel: Mask | None = None,
        ep: Ints | None = None,
    ) -> tuple[Floats, Floats]:
        """Seconds of every operator forward and backward, each [rows, operators].

        As ``simulation.lower`` times the graph of that batch, divided operators at their share; with sequence
        parallelism those between them too. An expert group's rank reads the weights of its own experts only, and has as
        many tokens for each as it saves experts.
        """
        columns, batch = self.columns, self.graph.batch
        share = np.where(self.split.divided, tp[:, None], 1)
        if sequence_parallel is not None and sequence_parallel.any():
            share = np.where(self.split.sequenced & sequence_parallel[:, None], tp[:, None], share)
        forward = _scaled(columns["forward_flops"], columns["sampled"], samples, batch).astype(np.float64)
        backward = _scaled(columns["backward_flops"], columns["sampled"], samples, batch) + (
            recomputation[:, None] * forward
        )
        shared = columns["shared_bytes"]
        moved = _scaled(columns["forward_bytes"] - shared, columns["sampled"], samples, batch) + shared
        nbytes = (moved // self.graph.element_bytes * self.element_bytes).astype(np.float64)
        if ep is not None and (ep > 1).any():
            away = np.where(self.experts.held, shared // self.graph.element_bytes * self.element_bytes, 0)
            nbytes -= away * (1 - 1 / ep[:, None])
        ratio = np.where(forward > 0, backward / np.where(forward > 0, forward, 1.0), 1.0 - columns["is_input"])
        return self._roofline(forward / share, nbytes / share), self._roofline(backward / share, nbytes * ratio / share)

    def _roofline(self, flops: Floats, nbytes: Floats) -> Floats:
        peak = self.accelerator.efficiency * self.accelerator.peak_rate(self.settings.precision)
        busy = np.maximum(flops / peak, nbytes * memory_time(self.accelerator, 1.0))
        return np.where(busy > 0, busy + self.accelerator.kernel_launch, 0.0)

    def stage_times(self, rows: Strategies, exchange_time: ExchangeTime, *, sharing: bool = True) -> StageTimes:
        """Seconds of each chunk and stage; all rows have the same number of both.

        Where neighbouring groups share a ring's wavelengths, a group's bytes count as often as there are groups, unless
        not ``sharing``.
        """
        edges = self.chunks(rows)
        combination, row = _combinations(rows)
        samples, tp = combination.samples, combination.tp
        forward, backward = self.operator_times(
            samples, tp, combination.recomputation, combination.sequence_parallel, combination.ep
        )
        there, back = self._shard_exchanges(combination, exchange_time, sharing)
        back = back + combination.recomputation[:, None] * there
        whole, experts = (each[row] for each in self.held_parameters(combination, edges))
        gather, exchange = self._replica_exchanges(rows, whole, experts, exchange_time, sharing)
        sharded = (rows.sharding == 1)[:, None]
        updated = np.where(sharded, self._shares(rows, whole, experts), whole + experts)
        updated[:, 0] += self.graph.unused_parameters / np.where(sharded[:, 0], rows.dp, 1)
        forward, backward, there, back = (_sums(each, edges)[row] for each in (forward, backward, there, back))
        return StageTimes(
            forward=forward,
            backward=backward,
            forward_exchange=there,
            backward_exchange=back,
            send=self._sends(combination, edges)[row],
            gather=gather,
            exchange=exchange + self._shared_gradients(combination, edges, exchange_time)[row],
            update=updated * memory_time(self.accelerator, float(self.settings.optimizer_traffic_bytes)),
        )

    def held_parameters(self, rows: Strategies, edges: Ints) -> tuple[Floats, Floats]:
        """Parameters that a rank holds when nothing is sharded, each [rows, stages]: what all replicas hold, and what
        only every ep-th of them holds."""
        apart = self.experts.held & (rows.ep > 1)[:, None]
        held = self.columns["parameters"] / np.where(self.split.divided, rows.tp[:, None], 1)
        experts = np.where(apart, held / rows.ep[:, None], 0.0)
        whole, shared = (_sums(each, edges) for each in (np.where(apart, 0.0, held), experts))
        return _by_stage(whole, rows), _by_stage(shared, rows)

    @staticmethod
    def _shares(rows: Strategies, whole: Floats, experts: Floats) -> Floats:
        """Parameters of a rank when they are sharded among all that hold the same: [rows, stages]."""
        return whole / rows.dp[:, None] + experts * rows.ep[:, None] / rows.dp[:, None]

    def _shard_exchanges(self, rows: Strategies, exchange_time: ExchangeTime, sharing: bool) -> tuple[Floats, Floats]:
        """Seconds of every operator's collectives in tensor and expert groups, each [rows, operators]."""
        output, source = self.outputs(rows.samples), self.columns["source"]
        there, back = (np.zeros_like(output) for _ in range(2))
        at, behind = np.flatnonzero(self.split.forward), np.flatnonzero(self.split.backward)
        # What goes forward comes back: the gradients of embeddings need no exchange, those of whole inputs do; in
        # slices of the sequence, what is scattered one way is gathered the other way, embeddings included.
        whole, slices = np.flatnonzero(~rows.sequence_parallel), np.flatnonzero(rows.sequence_parallel)
        exchanges: tuple[tuple[Kind, Ints, Floats, Ints, Ints], ...] = (
            ("all-reduce", whole, there, at, at),
            ("all-reduce", whole, back, behind, source[behind]),
            ("reduce-scatter", slices, there, at, at),
            ("all-gather", slices, there, behind, source[behind]),
            ("reduce-scatter", slices, back, behind, source[behind]),
            ("all-gather", slices, back, at, at),
        )
        for kind, which, out, of, moved in exchanges:
            if len(which):
                algorithm, tp = rows.algorithm[which], rows.tp[which]
                nbytes = output[np.ix_(which, moved)]
                out[np.ix_(which, of)] += exchange_time(kind, algorithm, tp, np.ones(len(which)), nbytes)
        which = np.flatnonzero(rows.ep > 1)
        if len(which):
            algorithm, ep, none = rows.algorithm[which], rows.ep[which], np.ones(len(which))
            # Each rank of a tensor group sends its slice of the tokens, or all of them to its like; neighbouring tensor
            # groups share a ring's wavelengths.
            slices = np.where(rows.sequence_parallel[which], rows.tp[which], 1)[:, None]
            share = self._interleaved(rows.tp[which], sharing)[:, None] / slices
            to, back_from = np.flatnonzero(self.experts.dispatch), np.flatnonzero(self.experts.combine)
            for of, moved in ((to, source[to]), (back_from, back_from)):
                nbytes = output[np.ix_(which, moved)] * share
                seconds = exchange_time("all-to-all", algorithm, ep, none, nbytes)
                there[np.ix_(which, of)] += seconds
                back[np.ix_(which, of)] += seconds
        return there, back

    def _interleaved(self, apart: Ints, sharing: bool) -> Floats:
        """How often bytes count in groups whose ranks lie so far ``apart``: the groups between them share a ring's
        wavelengths."""
        return apart.astype(np.float64) if sharing and self.fabric.wavelength_routed else np.ones(len(apart))

    def _shared_gradients(self, rows: Strategies, edges: Ints, exchange_time: ExchangeTime) -> Floats:
        """Seconds until a tensor group has added up the gradients that its ranks have of their own tokens only, after
        the last pass: [rows, stages]."""
        found = np.zeros((len(rows), int(rows.pp[0])))
        which = np.flatnonzero(rows.sequence_parallel)
        if len(which):
            held = np.where(self.split.sequenced & ~self.split.divided, self.columns["parameters"], 0.0)
            one = _by_stage(_sums(held[None, :], edges), rows) * self.settings.gradient_bytes
            nbytes = np.tile(one, (len(which), 1))
            found[which] = exchange_time(
                "all-reduce", rows.algorithm[which], rows.tp[which], np.ones(len(which)), nbytes
            )
        return found

    def _replica_exchanges(
        self, rows: Strategies, whole: Floats, experts: Floats, exchange_time: ExchangeTime, sharing: bool
    ) -> tuple[Floats, Floats]:
        """Seconds before the first and after the last pass, each [rows, stages]; experts after all others."""
        settings, sharded, shared = self.settings, rows.sharding == 1, rows.ep > 1
        gather, exchange = np.zeros_like(whole), np.zeros_like(whole)
        kinds: tuple[tuple[Kind, Mask, int, Floats], ...] = (
            ("all-reduce", ~sharded, settings.gradient_bytes, exchange),
            ("all-gather", sharded, settings.sharded_parameter_bytes, gather),
            ("reduce-scatter", sharded, settings.sharded_gradient_bytes, exchange),
        )
        # Groups of neighbours leave the groups of replicas interleaved.
        every = np.ones(len(rows), np.bool_)
        for held, among, ranks, apart in ((whole, every, rows.dp, rows.tp),
                                          (experts, shared, rows.dp // rows.ep, rows.tp * rows.ep)):  # fmt: skip
            nbytes = held * self._interleaved(apart, sharing)[:, None]
            for kind, chosen, size, out in kinds:
                which = np.flatnonzero(chosen & among)
                if len(which):
                    algorithm, ratio = rows.algorithm[which], rows.ratio[which]
                    out[which] += exchange_time(kind, algorithm, ranks[which], ratio, nbytes[which] * size)
        return gather, exchange

    def _sends(self, rows: Strategies, edges: Ints) -> Floats:
        """Seconds from chunk to chunk at a rank's whole bandwidth: [rows, chunks]."""
        rate = self.fabric.total_receive_bandwidth() / self.fabric.ranks
        found = self._entering(rows, edges[:-1]) / rate + self.fabric.neighbour_latency()
        found[:, 0] = 0.0
        return found

    def _entering(self, rows: Strategies, starts: Ints) -> Floats:
        """Bytes of what a rank reads from before each of these operators: [rows, starts]."""
        whole, slices = (self.columns[name][starts] for name in ("crossing", "crossing_in_slices"))
        saved = np.where(rows.sequence_parallel, 1 - 1 / rows.tp, 0.0)[:, None] * slices
        return rows.samples[:, None] * (whole - saved) * self.element_bytes / self.graph.batch

    def memory(self, rows: Strategies) -> Floats:
        """Bytes that a rank of the fullest stage holds: [rows]; all rows have the same stages and chunks.

        As ``MemoryUse`` counts; a pipeline's first stages hold the activations of as many micro-batches as there are
        stages to come (interleaved: of more), and its sharded parameters stay gathered for the whole step.
        """
        settings, edges = self.settings, self.chunks(rows)
        combination, row = _combinations(rows)
        replicated, experts = (each[row] for each in self.held_parameters(combination, edges))
        kept, passing = (each[row] for each in self._activations(combination, edges))
        whole, sharded = replicated + experts, (rows.sharding == 1)[:, None]
        replicated[:, 0] += self.graph.unused_parameters
        held = np.where(sharded, self._shares(rows, replicated, experts), replicated + experts)
        gradient = np.where(sharded, settings.stored_parameter_bytes, settings.gradient_bytes)
        state = held * (settings.stored_parameter_bytes + gradient + settings.optimizer_state_bytes)
        gathered = whole * (settings.sharded_parameter_bytes + settings.sharded_gradient_bytes)
        state += np.where(sharded & ~rows.plain[:, None], gathered, 0.0)
        state += _flying(rows, kept)
        found: Floats = (state + passing.reshape(len(rows), -1, state.shape[1]).max(axis=1)).max(axis=1)
        return found

    def _activations(self, rows: Strategies, edges: Ints) -> tuple[Floats, Floats]:
        """Bytes kept for each micro-batch in flight, and for the one that computes: [rows, chunks]."""
        in_slices = self.split.sliced | (self.split.sequenced & rows.sequence_parallel[:, None])
        output = self.outputs(rows.samples) / np.where(in_slices, rows.tp[:, None], 1)
        everything = _sums(output, edges)
        entering = np.zeros_like(output)
        entering[:, self.starts] = self._entering(rows, self.starts)
        blocks = np.zeros_like(output)
        blocks[:, self.starts] = _sums(output, np.append(self.starts, len(self.graph.operators)))
        full: Mask = (rows.recomputation == 1)[:, None]
        widest = np.maximum.reduceat(blocks, edges[:-1], axis=1)
        return np.where(full, _sums(entering, edges), everything), np.where(full, widest, 0.0)


def _scaled(counts: Ints, grows: Ints, samples: Ints, batch: int) -> Ints:
    """As ``ComputeGraph.with_batch``: rounded up, [rows, operators]."""
    return np.where(grows == 1, -(-counts * samples[:, None] // batch), counts)


def _sums(values: Floats, edges: Ints) -> Floats:
    return np.add.reduceat(values, edges[:-1], axis=1)


def _by_stage(values: Floats, rows: Strategies) -> Floats:
    """Sums over the chunks of a stage: [rows, stages]."""
    stages = int(rows.pp[0])
    found: Floats = values.reshape(len(values), -1, stages).sum(axis=1)
    return found


def _flying(rows: Strategies, kept: Floats) -> Floats:
    """Bytes of all micro-batches in flight on each stage, where its chunks keep ``kept`` of each: [rows, stages]."""
    stages, virtual = int(rows.pp[0]), int(rows.virtual_stages[0])
    of_stage, found = kept.reshape(len(rows), virtual, stages), np.zeros((len(rows), stages))
    for micro_batches in np.unique(rows.micro_batches):
        which = np.flatnonzero(rows.micro_batches == micro_batches)
        for stage, counts in enumerate(in_flight(stages, int(micro_batches), virtual)):
            found[which, stage] = (of_stage[which, :, stage] @ counts.T).max(axis=1)
    return found


def _combinations(rows: Strategies) -> tuple[Strategies, Ints]:
    """One row for each combination on which a micro-batch's times depend, and where each row finds its own."""
    key = (rows.samples * (int(rows.tp.max()) + 1) + rows.tp) * (int(rows.ep.max()) + 1) + rows.ep
    key = key * 4 + rows.recomputation * 2 + rows.sequence_parallel
    _, first, row = np.unique(key * len(rows.algorithms) + rows.algorithm, return_index=True, return_inverse=True)
    return rows.rows(first), row
