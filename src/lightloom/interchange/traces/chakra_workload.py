"""Chakra traces of training steps as compute graphs: compute nodes with FLOPs, gradients from the collectives.

    forward     compute nodes, in the order in which they can run
    backward    nodes named so; their FLOPs go to the forward operator at the mirrored position
    parameters  what the backward pass all-reduces and reduce-scatters, counted for the last operator that made it

A trace holds neither shapes nor samples, so that little can be rescaled; the result lists what is assumed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from graphlib import TopologicalSorter
from heapq import heapify, heappop, heappush
from itertools import accumulate
from pathlib import Path

from lightloom.core.errors import WorkloadError
from lightloom.interchange.chakra_nodes import COLLECTIVE, COMPUTE, Node, read_trace
from lightloom.interchange.traces.costs import kind_of_name
from lightloom.interchange.traces.execution_trace import TraceReading
from lightloom.workloads.graph import ComputeGraph, Operator

_BACKWARD = ("backward", "_bwd", "grad")
_SUMS = (0, 7)
"""``comm_type`` of all-reduce and reduce-scatter, as the schema numbers them."""
_ELEMENT_BYTES = 4


def read_chakra_workload(path: Path, *, batch: int) -> TraceReading:
    """Return the graph of the step in one rank's trace; ``NAME.et`` also stands for ``NAME.0.et``.

    Args:
        batch: number of samples in the trace, which the trace does not state.

    Raises:
        ConfigError: unreadable or malformed (names the node).
        WorkloadError: no compute node says its FLOPs, or a node's attribute is no whole number (names the node).
    """
    nodes, _ = read_trace(path if path.exists() else path.with_name(f"{path.stem}.0{path.suffix}"))
    order = _runnable(nodes)
    computing = [node for node in order if node.type == COMPUTE and _count(node, "num_ops", path)]
    forward = [node for node in computing if not _is_backward(node)]
    if not forward:
        raise WorkloadError(f"{path}: no compute node of a forward pass says its FLOPs (num_ops)")
    backward = [node for node in computing if _is_backward(node)]
    builder, by_id = _Graph(path, forward, backward, batch), {node.id: node for node in nodes}
    for node in order:
        if node.type == COLLECTIVE and node.attributes.get("comm_type") in _SUMS:
            builder.add_gradients(node, by_id)
    return TraceReading(builder.graph(), tuple(builder.unrecorded(order)))


class _Graph:
    """Builder of the graph: forward operators, and what the rest of the trace adds to them."""

    def __init__(self, path: Path, forward: Sequence[Node], backward: Sequence[Node], batch: int) -> None:
        self._path, self._forward, self._backward, self._batch = path, forward, backward, batch
        self._place = {node.id: place for place, node in enumerate(forward)}
        self._backward_flops = [0] * len(forward)
        self._parameters = [0] * len(forward)
        ends = list(accumulate(_count(node, "num_ops", path) for node in forward))
        behind = 0
        total = sum(_count(node, "num_ops", path) for node in backward)
        for node in backward:
            flops = _count(node, "num_ops", path)
            place = bisect_left(ends, ends[-1] * (1 - (behind + flops / 2) / total))
            self._place[node.id] = place
            self._backward_flops[place] += flops
            behind += flops

    def add_gradients(self, node: Node, by_id: dict[int, Node]) -> None:
        """Add the size of a collective to the parameters of the operator whose backward pass it waits for."""
        seen, frontier = {node.id}, [node.id]
        while frontier:
            operators = [number for number in frontier if number in self._place]
            if operators:
                if any(_is_backward(by_id[number]) for number in operators):
                    place = min(self._place[number] for number in operators)
                    self._parameters[place] += _count(node, "comm_size", self._path) // _ELEMENT_BYTES
                return
            frontier = [before for number in frontier for before in by_id[number].dependencies if before not in seen]
            seen.update(frontier)

    def graph(self) -> ComputeGraph:
        """Return one operator per forward node, each reading the previous one."""
        names = [f"{node.name or 'compute'} {node.id}" for node in self._forward]
        operators = tuple(
            self._operator(place, node, names[place], names[max(place - 1, 0) : place])
            for place, node in enumerate(self._forward)
        )
        return ComputeGraph(name=self._path.stem, batch=self._batch, operators=operators, element_bytes=_ELEMENT_BYTES)

    def _operator(self, place: int, node: Node, name: str, inputs: Sequence[str]) -> Operator:
        flops, parameters = _count(node, "num_ops", self._path), self._parameters[place]
        return Operator(
            name=name,
            kind=kind_of_name(node.name),
            inputs=tuple(inputs),
            dimensions={"sample": self._batch},
            forward_flops=flops,
            backward_flops=self._backward_flops[place] if self._backward else 2 * flops,
            parameters=parameters,
            parameter_bytes=parameters * _ELEMENT_BYTES,
            forward_bytes=_count(node, "tensor_size", self._path),
        )

    def unrecorded(self, order: Sequence[Node]) -> Iterator[str]:
        """Yield what the trace does not record, and what is assumed instead."""
        yield f"shapes: no operator can be split; the trace is taken to hold {self._batch} samples a rank"
        yield "activations: memory is counted without them"
        if not self._backward:
            yield "no backward pass in the trace: taken as twice the forward's FLOPs"
        else:
            yield f"which operator each of {len(self._backward)} backward nodes belongs to: mirrored by FLOPs"
        if any(self._parameters):
            yield "parameters: as many float32 as its backward pass adds up over ranks (data parallelism alone)"
        else:
            yield "parameters: its backward pass adds nothing up over ranks, so a plan exchanges nothing"
        unused = sum(node.type == COMPUTE for node in order) - len(self._forward) - len(self._backward)
        if unused:
            yield f"{unused} compute nodes without FLOPs are left out"


def _is_backward(node: Node) -> bool:
    return any(word in node.name.lower() for word in _BACKWARD)


def _count(node: Node, attribute: str, path: Path) -> int:
    value = node.attributes.get(attribute, 0)
    if type(value) is not int or value < 0:
        raise WorkloadError(f"{path}: node {node.id} ({node.name!r}): {attribute} is {value!r}: expected a count")
    return value


def _runnable(nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes in an order that keeps their dependencies, the smallest number first among those ready."""
    by_id = {node.id: node for node in nodes}
    waiting = TopologicalSorter({node.id: node.dependencies for node in nodes})
    waiting.prepare()
    ready, order = list(waiting.get_ready()), []
    heapify(ready)
    while ready:
        order.append(by_id[heappop(ready)])
        waiting.done(order[-1].id)
        for following in waiting.get_ready():
            heappush(ready, following)
    return order
