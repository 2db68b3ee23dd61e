"""Work and seconds of operators: of the passes of one graph, and of many strategies at once as columns.

Layers repeat, so that few operators differ in anything but their place. :meth:`OperatorColumns.alike` keeps one of each
sort, and a stage is then a sum over sorts, each as often as the stage has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from lightloom.accelerators.base import ELEMENT_BYTES, Accelerator, Precision, Work
from lightloom.clusters.settings import Attention
from lightloom.core.arrays import Floats, Ints, Mask
from lightloom.parallelism.context_parallel import key_value_elements
from lightloom.parallelism.expert_parallel import ExpertSplit
from lightloom.parallelism.measured import COLUMNS as MEASURED_COLUMNS
from lightloom.parallelism.measured import machine_of, measured_columns, scaled
from lightloom.parallelism.operator_kernels import (
    Divisors,
    dispatch_times,
    kernel_columns,
    kernel_shapes,
)
from lightloom.parallelism.tensor_parallel import TensorSplit
from lightloom.workloads.graph import ComputeGraph, has_samples
from lightloom.workloads.measured import MeasuredTimes

_COUNTS = ("forward_flops", "backward_flops", "parameters", "activation_bytes", "forward_bytes", "shared_bytes")


def repetition(forward_flops: Floats, backward_flops: Floats, is_input: Ints) -> Floats:
    """How many times the work of the forward pass a backward pass does: as many times as its FLOPs are (an assumption).

    The two gradients of a product make it 2. An operator without FLOPs works as much as forward, an input of the model
    not at all.
    """
    unrelated = np.broadcast_to(1.0 - is_input, forward_flops.shape).copy()
    return np.divide(backward_flops, forward_flops, out=unrelated, where=forward_flops > 0)


def graph_times(
    graph: ComputeGraph, accelerator: Accelerator, precision: Precision, attention: Attention = "flash"
) -> tuple[Floats, Floats]:
    """Return the seconds of every operator of a graph forward and backward, without launches: each [operators]."""
    return times_and_launches(graph, accelerator, precision, attention)[0]


def times_and_launches(
    graph: ComputeGraph, accelerator: Accelerator, precision: Precision, attention: Attention = "flash"
) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
    """Return the seconds of every operator of a graph forward and backward, each of shape [operators], and the seconds
    in which the host launches them, likewise.

    Raises:
        UnsupportedError: the accelerator has no rate for the precision.
    """
    counts = [(operator.forward_flops, operator.backward_flops, operator.forward_bytes) for operator in graph.operators]
    forward, backward, nbytes = np.array(counts, np.float64).reshape(-1, 3).T
    is_input = np.array([operator.kind == "input" for operator in graph.operators], np.int64)
    repeats = repetition(forward, backward, is_input)
    columns = kernel_columns(graph.operators, attention)
    narrow = columns["kernel_narrow"]
    works = Work(forward, nbytes, narrow=narrow), Work(backward, nbytes * repeats, narrow=narrow)
    if accelerator.kernels is not None:
        kernels = kernel_shapes(columns, forward, repeats, graph.element_bytes, Divisors())
        works = works[0]._replace(kernels=kernels[0]), works[1]._replace(kernels=kernels[1])
    times = accelerator.operator_times(works[0], precision), accelerator.operator_times(works[1], precision)
    if graph.measured is not None:
        times = _as_measured(graph, graph.measured, times, (accelerator, precision, attention))
    return times, dispatch_times(columns, accelerator)


def _as_measured(
    graph: ComputeGraph,
    measured: MeasuredTimes,
    times: tuple[Floats, Floats],
    plan: tuple[Accelerator, Precision, Attention],
) -> tuple[Floats, Floats]:
    """Return the seconds of a graph's operators with measured ones in place of priced ones (``measured.py``)."""
    accelerator, precision, attention = plan
    machine, measured_precision = machine_of(measured, accelerator, precision)
    traced = replace(graph, measured=None).with_batch(measured.batch)
    traced = traced.with_element_bytes(ELEMENT_BYTES[measured_precision])
    references = graph_times(traced, machine, measured_precision, attention)
    sampled = np.array(["sample" in operator.dimensions for operator in graph.operators])
    share = np.where(sampled, graph.batch / measured.batch, 1.0)
    columns = [column.view(np.float64) for column in measured_columns(measured).values()]
    forward, backward = (scaled(*entry, share) for entry in zip(times, columns, references, strict=True))
    return forward, backward


@dataclass(frozen=True)
class OperatorColumns:
    """Columns of shape [operators], at the graph's own batch and element size."""

    values: Mapping[str, Ints]
    """The counts of :class:`~lightloom.workloads.graph.Operator`; ``read_bytes`` of the first input, and which of them
    grow with the batch; the masks of :class:`TensorSplit` and :class:`ExpertSplit` as 0 and 1."""
    batch: int
    stored_bytes: int
    """Bytes of an element in the graph."""
    element_bytes: int
    """Bytes of an element as the job computes."""
    measured: MeasuredTimes | None = None
    """Where times were measured: their batch and machine; the seconds are columns."""

    def __getitem__(self, name: str) -> Ints:
        return self.values[name]

    def where(self, name: str) -> Ints:
        """Return the operators for which a mask is set."""
        return np.flatnonzero(self.values[name])

    def outputs(self, samples: Ints, cp: Ints | None = None) -> Floats:
        """Return the bytes of every operator's output: [rows, operators].

        Of ``samples`` [rows], a rank has the tokens of one of ``cp`` [rows] slices; so have the next three.
        """
        return self._bytes(self._scaled("activation_bytes", "output_sampled", samples, cp))

    def kept(self, samples: Ints, cp: Ints | None = None) -> Floats:
        """Return the bytes that every operator keeps for the backward pass: [rows, operators]."""
        elements = self._scaled("saved_sampled_bytes", "sampled", samples, cp) + self["saved_shared_bytes"]
        return self._bytes(elements) + self._scaled("saved_index_bytes", "sampled", samples, cp)

    def regenerated(self, samples: Ints, cp: Ints | None = None) -> Floats:
        """Return the bytes that the model's own checkpointed regions make again: [rows, operators]."""
        elements = self._scaled("recomputed_sampled_bytes", "sampled", samples, cp) + self["recomputed_shared_bytes"]
        return self._bytes(elements)

    def inputs(self, samples: Ints, cp: Ints | None = None) -> Floats:
        """Return the bytes of every operator's first input: [rows, operators]."""
        return self._bytes(self._scaled("read_bytes", "read_sampled", samples, cp))

    def key_value_bytes(self, samples: Ints, tp: Ints, cp: Ints) -> Floats:
        """Return the bytes of the keys and values of a rank's own tokens and heads: [rows, operators]."""
        elements = self["key_values"] * samples[:, None] / (self.batch * tp * cp)[:, None]
        nbytes: Floats = elements * self.element_bytes
        return nbytes

    def times(
        self,
        accelerator: Accelerator,
        precision: Precision,
        samples: Ints,
        tp: Ints,
        *,
        sequence_parallel: Mask | None = None,
        ep: Ints | None = None,
        cp: Ints | None = None,
    ) -> tuple[Floats, Floats]:
        """Return the seconds of every operator forward and backward, each [rows, operators].

        As ``simulation.lower`` times the graph of that batch, divided operators at their share; with sequence
        parallelism those between them too. An expert group's rank reads the weights of its own experts only, and has as
        many tokens more for each as it has experts fewer; one of a context group has its slice of the tokens. The
        host's launches are left out (:meth:`dispatch`).
        """
        forward, backward = self.work(accelerator, samples, tp, sequence_parallel=sequence_parallel, ep=ep, cp=cp)
        times = accelerator.operator_times(forward, precision), accelerator.operator_times(backward, precision)
        return (
            times
            if self.measured is None
            else self._as_measured(self.measured, times, accelerator, precision, samples, cp)
        )

    def _as_measured(
        self,
        measured: MeasuredTimes,
        times: tuple[Floats, Floats],
        accelerator: Accelerator,
        precision: Precision,
        samples: Ints,
        cp: Ints | None,
    ) -> tuple[Floats, Floats]:
        """Return times with measured ones in place of priced ones (``measured.py``), [rows, operators]."""
        references = self.measured_references(measured, accelerator, precision)
        part = samples[:, None] / (measured.batch * (1 if cp is None else cp[:, None]))
        share = np.where(self["sampled"] == 1, part, 1.0)
        columns = [self.values[name].view(np.float64) for name in MEASURED_COLUMNS]
        forward, backward = (
            scaled(priced, column, reference, share)
            for priced, column, reference in zip(times, columns, references, strict=True)
        )
        return forward, backward

    def measured_references(
        self, measured: MeasuredTimes, accelerator: Accelerator, precision: Precision
    ) -> tuple[Floats, Floats]:
        """Return the seconds by the model of every operator as it was measured, forward and backward: [operators]."""
        machine, measured_precision = machine_of(measured, accelerator, precision)
        traced = replace(self, measured=None, element_bytes=ELEMENT_BYTES[measured_precision])
        one = np.ones(1, np.int64)
        forward, backward = traced.times(machine, measured_precision, one * measured.batch, one)
        return forward[0], backward[0]

    def work(
        self,
        accelerator: Accelerator,
        samples: Ints,
        tp: Ints,
        *,
        sequence_parallel: Mask | None = None,
        ep: Ints | None = None,
        cp: Ints | None = None,
    ) -> tuple[Work, Work]:
        """Return what a rank computes and moves forward and backward, arrays [rows, operators]; as :meth:`times`."""
        share = np.where(self["divided"], tp[:, None], 1)
        if sequence_parallel is not None and sequence_parallel.any():
            share = np.where(self["sequenced"] & sequence_parallel[:, None], tp[:, None], share)
        flops = self._scaled("forward_flops", "sampled", samples, cp).astype(np.float64)
        backward_flops = self._scaled("backward_flops", "sampled", samples, cp).astype(np.float64)
        shared = self["shared_bytes"]
        nbytes = self._bytes(self._scaled("moved_bytes", "sampled", samples, cp) + shared)
        if ep is not None and (ep > 1).any():
            nbytes -= self._bytes(np.where(self["held"], shared, 0)) * (1 - 1 / ep[:, None])
        times = repetition(flops, backward_flops, self["is_input"])
        narrow = self["kernel_narrow"]
        forward = Work(flops / share, nbytes / share, narrow=narrow)
        backward = Work(backward_flops / share, nbytes * times / share, narrow=narrow)
        if accelerator.kernels is not None:
            divisors = self._divisors(share, tp, np.ones_like(tp) if ep is None else ep)
            kernels = kernel_shapes(self.values, flops, times, self.element_bytes, divisors)
            forward, backward = forward._replace(kernels=kernels[0]), backward._replace(kernels=kernels[1])
        return forward, backward

    def dispatch(self, accelerator: Accelerator) -> tuple[Floats, Floats]:
        """Return the seconds in which the host launches every operator forward and backward, each [operators].

        A pass takes no less than those of all its operators together.
        """
        return dispatch_times(self.values, accelerator)

    def _divisors(self, share: Ints, tp: Ints, ep: Ints) -> Divisors:
        """How a rank's products are smaller than the graph's; ``share`` [rows, operators] is that of its FLOPs."""
        divided, one = self["divided"] == 1, np.ones_like(share)
        weights = divided & (self["weighted"] == 1)
        by_rows = weights & (self["forward"] == 1)
        held = self["held"] == 1
        return Divisors(
            m=np.where(divided, one, share) / np.where(held, ep[:, None], 1),
            n=np.where(weights & ~by_rows, tp[:, None], one),
            k=np.where(by_rows, tp[:, None], one),
            products=np.where(divided & ~weights, tp[:, None], one) * np.where(held, ep[:, None], 1),
        )

    def alike(self) -> tuple[OperatorColumns, Ints]:
        """Return one operator of each sort, and how many of each precede every operator: [operators + 1, sorts]."""
        _, first, sort = np.unique(np.stack([*self.values.values()]), axis=1, return_index=True, return_inverse=True)
        before = np.zeros((len(sort) + 1, len(first)), np.int64)
        np.cumsum(sort[:, None] == np.arange(len(first)), axis=0, out=before[1:])
        return replace(self, values={name: column[first] for name, column in self.values.items()}), before

    def _scaled(self, counts: str, grows: str, samples: Ints, cp: Ints | None = None) -> Ints:
        """As ``ComputeGraph.with_batch``: rounded up, [rows, operators]."""
        whole = self.batch if cp is None else self.batch * cp[:, None]
        grown = -(-self[counts] * samples[:, None] // whole)
        return np.where(self[grows] == 1, grown, self[counts])

    def _bytes(self, stored: Ints) -> Floats:
        return (stored // self.stored_bytes * self.element_bytes).astype(np.float64)


def operator_columns(
    graph: ComputeGraph,
    split: TensorSplit,
    experts: ExpertSplit,
    element_bytes: int,
    attention: Attention = "flash",
) -> OperatorColumns:
    """Return the columns of a graph, its attention computed in that way."""
    operators = graph.operators
    columns = {name: np.array([getattr(operator, name) for operator in operators], np.int64) for name in _COUNTS}
    elements = columns["activation_bytes"] // graph.element_bytes
    sampled = np.array(["sample" in operator.dimensions for operator in operators])
    output = [has_samples(operator.kind, int(n), graph.batch) for operator, n in zip(operators, elements, strict=True)]
    position = {operator.name: index for index, operator in enumerate(operators)}
    source = np.array([position[operator.inputs[0]] if operator.inputs else 0 for operator in operators], np.int64)
    masks = {name: getattr(split, name) for name in ("divided", "sliced", "sequenced", "forward", "backward")}
    masks |= {name: getattr(experts, name) for name in ("held", "dispatch", "combine")}
    masks |= {"sampled": sampled, "output_sampled": sampled & np.array(output, np.bool_)}
    masks |= {"is_input": np.array([operator.kind == "input" for operator in operators], np.bool_)}
    masks["read_sampled"] = masks["output_sampled"][source]
    masks["weighted"] = np.array([operator.kind in ("linear", "experts") for operator in operators], np.bool_)
    columns |= _kept_columns(graph, masks["output_sampled"])
    columns |= {
        "moved_bytes": columns["forward_bytes"] - columns["shared_bytes"],
        "read_bytes": columns["activation_bytes"][source],
        "key_values": key_value_elements(graph),
    }
    columns |= kernel_columns(operators, attention)
    if graph.measured is not None:
        columns |= measured_columns(graph.measured)
    return OperatorColumns(
        columns | {name: operator.astype(np.int64) for name, operator in masks.items()},
        graph.batch,
        graph.element_bytes,
        element_bytes,
        graph.measured,
    )


def _kept_columns(graph: ComputeGraph, output_sampled: Mask) -> dict[str, Ints]:
    """Return what operators keep for the backward pass, by how it grows; where nothing tells, their outputs."""
    rows: list[tuple[int, ...]] = []
    for operator, sampled in zip(graph.operators, output_sampled.tolist(), strict=True):
        shared = operator.recomputed_shared_bytes
        recomputed = operator.recomputed_bytes - shared, shared
        rows.append((*operator.saved_parts(output_sampled=sampled), operator.saved_index_bytes, *recomputed))
    names = (
        "saved_sampled_bytes",
        "saved_shared_bytes",
        "saved_index_bytes",
        "recomputed_sampled_bytes",
        "recomputed_shared_bytes",
    )
    return dict(zip(names, np.array(rows, np.int64).reshape(-1, len(names)).T, strict=True))
