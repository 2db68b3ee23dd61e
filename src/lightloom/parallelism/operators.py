"""Work and seconds of operators: of the passes of one graph, and of many strategies at once as columns.

Layers repeat, so that few operators differ in anything but their place. :meth:`OperatorColumns.alike` keeps one of each
sort, and a stage is then a sum over sorts, each as often as the stage has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from lightloom.accelerators.base import Accelerator, Precision, Work
from lightloom.core.arrays import Floats, Ints, Mask
from lightloom.parallelism.expert_parallel import ExpertSplit
from lightloom.parallelism.tensor_parallel import TensorSplit
from lightloom.workloads.graph import ComputeGraph, has_samples

_COUNTS = ("forward_flops", "backward_flops", "parameters", "activation_bytes", "forward_bytes", "shared_bytes")


def backward_bytes(forward_flops: Floats, backward_flops: Floats, forward_bytes: Floats, is_input: Ints) -> Floats:
    """Memory traffic of backward passes: as many times that of the forward pass as their FLOPs are (an assumption).

    The two gradients of a convolution thus move twice the bytes. An operator without FLOPs moves as much as forward, an
    input of the model nothing.
    """
    unrelated = np.broadcast_to(1.0 - is_input, forward_flops.shape).copy()
    return forward_bytes * np.divide(backward_flops, forward_flops, out=unrelated, where=forward_flops > 0)


def graph_times(graph: ComputeGraph, accelerator: Accelerator, precision: Precision) -> tuple[Floats, Floats]:
    """Return the seconds of every operator of a graph forward and backward, each of shape [operators].

    Raises:
        UnsupportedError: the accelerator has no rate for the precision.
    """
    counts = [(operator.forward_flops, operator.backward_flops, operator.forward_bytes) for operator in graph.operators]
    forward, backward, nbytes = np.array(counts, np.float64).reshape(-1, 3).T
    is_input = np.array([operator.kind == "input" for operator in graph.operators], np.int64)
    return (
        accelerator.operator_times(Work(forward, nbytes), precision),
        accelerator.operator_times(Work(backward, backward_bytes(forward, backward, nbytes, is_input)), precision),
    )


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

    def __getitem__(self, name: str) -> Ints:
        return self.values[name]

    def where(self, name: str) -> Ints:
        """Return the operators for which a mask is set."""
        return np.flatnonzero(self.values[name])

    def outputs(self, samples: Ints) -> Floats:
        """Return the bytes of every operator's output: [rows, operators]."""
        return self._bytes(self._scaled("activation_bytes", "output_sampled", samples))

    def inputs(self, samples: Ints) -> Floats:
        """Return the bytes of every operator's first input: [rows, operators]."""
        return self._bytes(self._scaled("read_bytes", "read_sampled", samples))

    def times(
        self,
        accelerator: Accelerator,
        precision: Precision,
        samples: Ints,
        tp: Ints,
        recomputation: Ints,
        *,
        sequence_parallel: Mask | None = None,
        ep: Ints | None = None,
    ) -> tuple[Floats, Floats]:
        """Return the seconds of every operator forward and backward, each [rows, operators].

        As ``simulation.lower`` times the graph of that batch, divided operators at their share; with sequence
        parallelism those between them too. An expert group's rank reads the weights of its own experts only, and has as
        many tokens more for each as it has experts fewer.
        """
        share = np.where(self["divided"], tp[:, None], 1)
        if sequence_parallel is not None and sequence_parallel.any():
            share = np.where(self["sequenced"] & sequence_parallel[:, None], tp[:, None], share)
        forward = self._scaled("forward_flops", "sampled", samples).astype(np.float64)
        backward = self._scaled("backward_flops", "sampled", samples) + recomputation[:, None] * forward
        shared = self["shared_bytes"]
        nbytes = self._bytes(self._scaled("moved_bytes", "sampled", samples) + shared)
        if ep is not None and (ep > 1).any():
            nbytes -= self._bytes(np.where(self["held"], shared, 0)) * (1 - 1 / ep[:, None])
        moved_backward = backward_bytes(forward, backward, nbytes, self["is_input"])
        return (
            accelerator.operator_times(Work(forward / share, nbytes / share), precision),
            accelerator.operator_times(Work(backward / share, moved_backward / share), precision),
        )

    def alike(self) -> tuple[OperatorColumns, Ints]:
        """Return one operator of each sort, and how many of each precede every operator: [operators + 1, sorts]."""
        _, first, sort = np.unique(np.stack([*self.values.values()]), axis=1, return_index=True, return_inverse=True)
        before = np.zeros((len(sort) + 1, len(first)), np.int64)
        np.cumsum(sort[:, None] == np.arange(len(first)), axis=0, out=before[1:])
        return replace(self, values={name: column[first] for name, column in self.values.items()}), before

    def _scaled(self, counts: str, grows: str, samples: Ints) -> Ints:
        """As ``ComputeGraph.with_batch``: rounded up, [rows, operators]."""
        grown = -(-self[counts] * samples[:, None] // self.batch)
        return np.where(self[grows] == 1, grown, self[counts])

    def _bytes(self, stored: Ints) -> Floats:
        return (stored // self.stored_bytes * self.element_bytes).astype(np.float64)


def operator_columns(
    graph: ComputeGraph, split: TensorSplit, experts: ExpertSplit, element_bytes: int
) -> OperatorColumns:
    """Return the columns of a graph."""
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
    columns |= {
        "moved_bytes": columns["forward_bytes"] - columns["shared_bytes"],
        "read_bytes": columns["activation_bytes"][source],
    }
    return OperatorColumns(
        columns | {name: operator.astype(np.int64) for name, operator in masks.items()},
        graph.batch,
        graph.element_bytes,
        element_bytes,
    )
