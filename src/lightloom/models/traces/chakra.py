"""Chakra traces of training steps as compute graphs: compute nodes with FLOPs or durations, gradients from collectives.

    forward     compute nodes, in the order in which they can run
    backward    nodes named so; they go to the forward operator of the same layer where names say it, as those of
                ``chakra_converter Text`` do, otherwise to the one at the mirrored position
    times       durations of the nodes
    parameters  what the backward pass all-reduces and reduce-scatters, counted for the last operator that made it

A trace holds neither shapes nor samples, so that little can be rescaled; the result lists what is assumed.
"""

import ast
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from graphlib import TopologicalSorter
from heapq import heapify, heappop, heappush
from itertools import accumulate
from pathlib import Path
from typing import Any

from lightloom.collectives.files.chakra import read_json_trace
from lightloom.collectives.files.chakra_nodes import (
    COLLECTIVE,
    COMPUTE,
    METADATA,
    RECEIVE,
    SEND,
    TYPES,
    Node,
    Texts,
    is_nested,
    read_trace,
    waits,
)
from lightloom.core.errors import WorkloadError
from lightloom.core.results import in_groups
from lightloom.core.units import format_time
from lightloom.models.graph import ComputeGraph, MeasuredTimes
from lightloom.models.traces.calls import Recording, callers_of, kind_of_name, passes_of, recording_of
from lightloom.models.traces.execution_trace import reading_of
from lightloom.models.traces.operators import (
    ELEMENT_BYTES,
    TracedExchange,
    TraceReading,
    exchange_lines,
    exchange_notes,
    graph_of_layers,
    kind_of_words,
    unpriced_exchanges,
)

# Chakra traces that ``chakra_converter PyTorch`` wrote: the calls of PyTorch, the accelerator's work, the exchanges.
#
#     compute, is_cpu_op       a call; ``op_schema``, ``seq_id`` and its tensors as in an execution trace
#     compute, not is_cpu_op   work of the accelerator, launched by the call that made it or that it waits for
#     collective, send, receive    an exchange: ``comm_type``, ``comm_size``, ``pg_name``
#
# Converters of 2023 cut a call at each launch (``aten::conv2d(0)``, ``aten::conv2d(1)``) and kept no nesting: the
# pieces are put together by ``rf_id``, and every call is a root.

_KINDS = "all-reduce reduce all-gather gather scatter broadcast all-to-all reduce-scatter reduce-scatter barrier"
COLLECTIVES = dict(enumerate(_KINDS.split()))
"""Kind of a collective by its ``comm_type``, as the schema numbers them."""
_PIECE = re.compile(r"(.*)\(\d+\)")
_UNQUOTED = re.compile(r"(?<!')(<[^<>']*>|\bnan\b|\binf\b)(?!')")
"""Texts that Python prints and cannot parse: objects, ``nan`` and ``inf``."""


def recording_of_chakra(nodes: Sequence[Node], path: Path) -> Recording:
    """Return the calls of PyTorch that a Chakra trace holds, with their times and the exchanges among ranks.

    Lost callers are guessed; in traces whose calls are cut into pieces, the pieces are joined, the passes are told
    apart by names, and calls of neither pass are set apart (``outside``).

    Raises:
        WorkloadError: what a node says of its tensors, or of its exchange, is malformed; names the node.
    """
    calls = [node for node in nodes if _is_call(node)]
    groups = _pieces(calls)
    whole = {piece.id: pieces[0].id for pieces in groups for piece in pieces}
    present = {node.id: node for node in calls}
    nested = not any(_PIECE.fullmatch(node.name) for node in calls)
    entries = [_call_entry(pieces, path, nested=nested, first_of=whole) for pieces in groups]
    if nested and any(node.control for node in calls):
        callers = callers_of(entries, {node.id for node in calls if not node.control})
        entries = [{**entry, "ctrl_deps": callers.get(entry["id"], entry["ctrl_deps"])} for entry in entries]
    for node in nodes:
        computes = node.type not in (COLLECTIVE, SEND, RECEIVE, METADATA) and not _is_call(node)
        if computes and (launch := _launch(node, present, whole, nested=nested)) is not None:
            work = {"id": node.id, "name": node.name, "ctrl_deps": launch, "exclusive_dur": node.duration}
            entries.append(work | {"cat": "kernel"})
    recording = recording_of(entries, path, complete=False)
    exchanges = tuple(exchange for node in nodes for exchange in exchanges_of(node, path))
    roots, outside = (recording.roots, ()) if nested else passes_of(recording.roots)
    return Recording(roots, exchanges, timed=recording.timed, on_device=recording.on_device, outside=outside)


def exchanges_of(node: Node, path: Path) -> Iterator[TracedExchange]:
    """Yield one exchange if a node is a collective, a send or a receive; nothing for others, and for a collective
    without kind and size (``comm_type`` and ``comm_size``). The kind of a collective without ``comm_type`` follows from
    the node's name, ``unknown`` where that does not say.

    Raises:
        WorkloadError: its ``comm_type`` is none of the schema's numbers (0 to 9), or its ``comm_size`` no count of
            bytes.
    """
    if node.type not in (COLLECTIVE, SEND, RECEIVE):
        return
    kind = {SEND: "send", RECEIVE: "receive"}.get(node.type)
    if kind is None:
        number = node.attributes.get("comm_type")
        if number is not None and number not in COLLECTIVES:
            known = ", ".join(f"{key} {name}" for key, name in COLLECTIVES.items())
            raise WorkloadError(f"{_place(node, path)}: comm_type is {number!r}: expected {known}")
        # A call on the host that waits for a collective has neither: its kernel is a node of its own.
        if number is None and "comm_size" not in node.attributes:
            return
        kind = COLLECTIVES[number] if isinstance(number, int) else kind_of_words(node.name) or "unknown"
    size = node.attributes.get("comm_size")
    if size is not None and (type(size) is not int or not 0 <= size < 1 << 53):
        raise WorkloadError(f"{_place(node, path)}: comm_size is {size!r}: expected a count of bytes")
    group = node.attributes.get("pg_name", "")
    yield TracedExchange(kind, size if isinstance(size, int) else None, str(group), node.duration * 1e-6)


def _is_call(node: Node) -> bool:
    """Return whether a node is a call of PyTorch on the host that states the schema of its operator."""
    return node.type != METADATA and bool(node.attributes.get("is_cpu_op", False)) and "op_schema" in node.attributes


def _pieces(calls: Sequence[Node]) -> list[list[Node]]:
    """Return the nodes of each call as a list, in the order of their ids; a call that was not cut is one piece.

    Pieces are nodes of one name, but for a number in brackets, and of one ``rf_id``.
    """

    def call_of(node: Node) -> tuple[str, object]:
        """Return what the pieces of a call have in common."""
        piece = _PIECE.fullmatch(node.name)
        return (piece[1], node.attributes.get("rf_id")) if piece else ("", node.id)

    return list(in_groups(sorted(calls, key=lambda node: node.id), call_of).values())


def _call_entry(pieces: Sequence[Node], path: Path, *, nested: bool, first_of: Mapping[int, int]) -> dict[str, Any]:
    """Return a call, given as its pieces, as an entry of an execution trace of PyTorch, its duration (microseconds)
    summed over them.

    Args:
        pieces: nodes of the call, the first of which states its tensors and attributes.
        path: the file, for messages.
        nested: whether control dependencies say which call made which; without it the entry has no caller (-1).
        first_of: id of the first piece of a call by the id of each piece.
    """
    node = pieces[0]
    where = _place(node, path)
    piece = _PIECE.fullmatch(node.name)
    return {
        "id": node.id,
        "name": piece[1] if piece else node.name,
        "ctrl_deps": first_of.get(node.control[0], -1) if nested and node.control else -1,
        "inputs": _side(node.inputs, "inputs", where),
        "outputs": _side(node.outputs, "outputs", where),
        "attrs": [
            {"name": name, "value": node.attributes[name]}
            for name in ("op_schema", "seq_id")
            if name in node.attributes
        ],
        "exclusive_dur": sum(piece.duration for piece in pieces),
    }


def _side(texts: Texts, side: str, where: str) -> dict[str, object]:
    """Return the values, shapes and types of what a call reads or returns as lists by these names, parsed from their
    texts.

    WorkloadError, which begins with ``where`` and the ``side``, for a text that cannot be parsed.
    """
    return {name: _literal(text, f"{where}: {side}: {name}") for name, text in texts._asdict().items()}


def _literal(text: str, where: str) -> object:
    """Return the value of a text that Python wrote; no text is an empty list, and objects (``<...>``), ``nan`` and
    ``inf`` become texts. WorkloadError where it cannot be parsed."""
    if not text:
        return []
    for attempt in (text, _UNQUOTED.sub(r"'\g<0>'", text)):
        try:
            return ast.literal_eval(attempt)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
    raise WorkloadError(f"{where}: {text[:60]!r}: expected a list as Python writes it")


def _launch(node: Node, calls: Mapping[int, Node], whole: Mapping[int, int], *, nested: bool) -> int | None:
    """Return the id of the call that launched the accelerator's work: the one that made it, else the latest earlier one
    whose data it waits for; None where the trace does not tell.

    Args:
        node: the work.
        calls: calls of PyTorch by id, their pieces included.
        whole: id of the first piece of a call by the id of each piece, which the result is.
        nested: whether control dependencies say which call made which; without it only data dependencies count.
    """
    made_by = node.control[0] if node.control else -1
    if nested and made_by in calls:
        return whole[made_by]
    before = [number for number in node.data if number in calls and number < node.id]
    return whole[max(before)] if before else None


_BACKWARD = ("backward", "_bwd", "grad")
_PASS = re.compile(r"_(FWD|BWD_IG|BWD_WG|fwd|bwd)$")
STATED = "durations that the trace states"
MOST_RANKS = 64
"""Files of one run that are read."""
MOST = 1 << 52
"""Counts stay below, so that their products with samples fit 64 bits."""
_SUMS = (0, 7)
"""``comm_type`` of all-reduce and reduce-scatter, as the schema numbers them."""


def read_chakra_workload(path: Path, *, batch: int, step: int | None = None) -> TraceReading:
    """Return the graph of the step in one rank's trace, with notes on what the trace leaves open, and its exchanges.

    A trace that holds calls of PyTorch is read as its execution traces are, its samples guessed from shapes; any other
    is read by its compute nodes' FLOPs and durations.

    Args:
        path: the file, .et or .json; ``NAME.et``, where there is no such file, stands for ``NAME.0.et``.
        batch: number of samples in a trace without calls of PyTorch, which such a trace does not state; else not used.
        step: number of the step to read of a trace of PyTorch, as the profiler marks it, or from 0 where it marks none;
            by default the first one that has a backward pass, or else the first.

    Raises:
        ConfigError: unreadable or malformed (names the node).
        WorkloadError: no compute node says its FLOPs or its duration, a node's attribute is no whole number (names the
            node), there is no such step, a step of a trace without calls of PyTorch is asked for, or the trace is the
            schedule of one collective.
    """
    file = path if path.exists() else rank_file(path, 0)
    nodes = read_json_trace(file) if ".json" in file.suffixes else read_trace(file)[0]
    others = _other_ranks(path, nodes) if file != path else []
    if is_nested(nodes):
        reading = reading_of(recording_of_chakra(nodes, file), path, step=step)
        return replace(reading, unrecorded=(*others, *reading.unrecorded))
    if step is not None:
        raise WorkloadError(f"{path}: --step {step}: steps are marked in traces of PyTorch alone: expected no --step")
    order = _runnable(nodes)
    exchanges = tuple(exchange for node in order for exchange in exchanges_of(node, file))
    every = [node for node in order if node.type == COMPUTE and _weight(node, path)]
    _refuse_collective(nodes, every, path)
    computing, more = _first_pass(every)
    if not (forward := [node for node in computing if not _is_backward(node)]):
        listed = "; ".join(exchange_lines(exchanges))
        raise WorkloadError(
            f"{path}: no compute node of a forward pass says its FLOPs (num_ops) or its duration (duration_micros): "
            + (f"it holds exchanges alone ({listed}): expected a training step" if listed else "expected one that does")
        )
    builder, by_id = _ChakraGraph(path, forward, computing, batch), {node.id: node for node in nodes}
    further = {node.id for node in every} - {node.id for node in computing}
    unpriced: list[TracedExchange] = []
    for node in order:
        is_sum = node.type == COLLECTIVE and node.attributes.get("comm_type") in _SUMS
        if not is_sum or not builder.add_gradients(node, by_id, further):
            unpriced += exchanges_of(node, file)
    lines = (*others, *builder.unrecorded(order), *more, *exchange_notes(exchanges))
    return TraceReading(builder.graph(unpriced_exchanges(unpriced)), lines, exchanges)


def rank_file(path: Path, rank: int) -> Path:
    """Return the path of a rank's file: ``NAME.<rank>.et`` for ``NAME.et``, ``NAME.<rank>.et.gz`` for
    ``NAME.et.gz``."""
    name, _, packed = path.name.partition(".gz")
    return path.with_name(f"{Path(name).stem}.{rank}.et" + (".gz" if path.name.endswith(".gz") else packed))


def _other_ranks(path: Path, nodes: Sequence[Node]) -> list[str]:
    """Return one line on the files of the other ranks, which lie beside that of rank 0 without a gap in their numbers:
    how many of up to 64 there are, and how they differ from that of rank 0; that there is none, where the file of rank
    1 is missing.

    ``path`` is the name without a rank (``NAME.et``), ``nodes`` are those of rank 0.

    Raises:
        ConfigError: one of them is damaged.
    """
    ranks = [nodes]
    while len(ranks) < MOST_RANKS and (file := rank_file(path, len(ranks))).exists():
        ranks.append(read_trace(file)[0])
    if len(ranks) == 1:
        return ["other ranks: there is no file of rank 1 beside that of rank 0"]
    computing = [sum(node.duration for node in entries if node.type == COMPUTE) for entries in ranks]
    told = ("comm_type", "comm_size", "pg_name")
    exchanged = [
        Counter(tuple(node.attributes.get(name) for name in told) for node in entries if node.type == COLLECTIVE)
        for entries in ranks
    ]
    differing = sum(entries != exchanged[0] for entries in exchanged)
    more = " (no more are read)" if len(ranks) == MOST_RANKS else ""
    return [
        f"what other ranks compute: of the files of {len(ranks)} ranks{more} that of rank 0 is planned; their compute "
        f"nodes last {format_time(min(computing) * 1e-6)} to {format_time(max(computing) * 1e-6)}, "
        + (f"the collectives of {differing} ranks are others" if differing else "their collectives are the same")
    ]


def _refuse_collective(nodes: Sequence[Node], computing: Sequence[Node], path: Path) -> None:
    """Raise WorkloadError for the schedule of one collective as sends and receives: more of these than compute nodes,
    and no collective."""
    messages = sum(node.type in (SEND, RECEIVE) for node in nodes)
    if messages > len(computing) and not any(node.type == COLLECTIVE for node in nodes):
        raise WorkloadError(
            f"{path}: {messages} sends and receives, {len(computing)} compute nodes and no collective: the schedule of "
            "one collective, which is no training step: expected the workload that uses it"
        )


def _first_pass(computing: Sequence[Node]) -> tuple[list[Node], list[str]]:
    """Return (compute nodes of the first step, lines) where the same names, a backward pass among them, repeat from
    step to step; one line then says how many steps are left out.

    Without such a repetition all nodes and no line.
    """
    names = [node.name for node in computing]
    again = names.index(names[0], 1) if names and names[0] in names[1:] else len(names)
    backward = any(_is_backward(node) for node in computing[:again])
    if again == len(names) or not backward or len(names) % again or names != names[:again] * (len(names) // again):
        return list(computing), []
    return list(computing[:again]), [f"{len(names) // again - 1} further steps with the same nodes are left out"]


class _ChakraGraph:
    """Builder of the graph: forward operators, and what the rest of the trace adds to them."""

    def __init__(self, path: Path, forward: Sequence[Node], computing: Sequence[Node], batch: int) -> None:
        """Match the backward nodes of ``computing`` with the ``forward`` ones, and add their FLOPs and times to them.

        By the layer's name where names say it, else by the mirrored place: what is last forward is first backward, by
        work. Without backward nodes the backward pass takes twice the forward one.
        """
        backward = [node for node in computing if _is_backward(node)]
        self._path, self._forward, self._backward, self._batch = path, forward, backward, batch
        self._place = {node.id: place for place, node in enumerate(forward)}
        self._backward_flops = [0] * len(forward)
        self._backward_microseconds = [0] * len(forward)
        self._parameters = [0] * len(forward)
        layers = {_layer(node): place for place, node in enumerate(forward)}
        self._named = len(layers) == len(forward) and all(_layer(node) in layers for node in backward)
        """True if names say which layer a backward node belongs to."""
        ends = list(accumulate(_weight(node, path) for node in forward))
        behind = 0
        total = sum(_weight(node, path) for node in backward)
        for node in backward:
            weight = _weight(node, path)
            mirrored = bisect_left(ends, ends[-1] * (1 - (behind + weight / 2) / total))
            place = layers[_layer(node)] if self._named else min(mirrored, len(forward) - 1)
            self._place[node.id] = place
            self._backward_flops[place] += _count_attribute(node, "num_ops", path)
            self._backward_microseconds[place] += node.duration
            behind += weight
        if not backward:  # twice the forward one
            self._backward_flops = [2 * _count_attribute(node, "num_ops", path) for node in forward]
            self._backward_microseconds = [2 * node.duration for node in forward]

    def add_gradients(self, node: Node, by_id: dict[int, Node], further: Set[int]) -> bool:
        """Add the elements of a collective (its bytes by 4) to the parameters of the operator whose backward nodes it
        waits for, directly or through other nodes; to the first operator in forward order, if it waits for several.

        Args:
            node: an all-reduce or a reduce-scatter.
            by_id: all nodes of the trace by id.
            further: ids of the compute nodes of further steps; a collective that waits for one adds nothing.

        Returns:
            True if the plan makes this collective itself: it sums gradients, or belongs to a further step. False if it
            waits for forward nodes alone, or for no compute node.
        """
        seen, frontier = {node.id}, [node.id]
        while frontier and further.isdisjoint(frontier):
            if operators := [number for number in frontier if number in self._place]:
                if not any(_is_backward(by_id[number]) for number in operators):
                    return False
                place = min(self._place[number] for number in operators)
                self._parameters[place] += _count_attribute(node, "comm_size", self._path) // ELEMENT_BYTES
                return True
            frontier = [before for number in frontier for before in by_id[number].dependencies if before not in seen]
            seen.update(frontier)
        return bool(frontier)

    def graph(self, uncounted: Sequence[str]) -> ComputeGraph:
        """Return the graph of one operator for each forward node, named by the node's name and id, each reading the
        previous one, with its FLOPs, those of the backward nodes that go to it, and measured times if any node states a
        duration; ``uncounted`` are sentences on what the graph does not count."""
        layers = [
            {
                "name": f"{node.name or 'compute'} {node.id}",
                "kind": kind_of_name(node.name),
                "forward_flops": _count_attribute(node, "num_ops", self._path),
                "backward_flops": self._backward_flops[place],
                "parameters": self._parameters[place],
                "forward_bytes": _count_attribute(node, "tensor_size", self._path),
            }
            for place, node in enumerate(self._forward)
        ]
        measured = MeasuredTimes(
            batch=self._batch,
            forward=tuple(1e-6 * node.duration for node in self._forward),
            backward=tuple(1e-6 * duration for duration in self._backward_microseconds),
            clock=STATED,
        )
        return graph_of_layers(self._path, self._batch, layers, measured if self._is_timed() else None, uncounted)

    def _is_timed(self) -> bool:
        """Return whether any node of the forward or the backward pass states its duration."""
        return any(node.duration for node in (*self._forward, *self._backward))

    def unrecorded(self, order: Sequence[Node]) -> Iterator[str]:
        """Yield sentences on what the trace does not record, and what is assumed or left out instead; ``order`` are all
        its nodes."""
        yield f"shapes: no operator can be split; the trace is taken to hold {self._batch} samples a rank"
        yield "activations: memory is counted without them"
        if not self._backward:
            yield "no backward pass in the trace: taken as twice the forward one"
        elif not self._named:
            yield f"which operator each of {len(self._backward)} backward nodes belongs to: mirrored by their work"
        if any(self._parameters):
            yield "parameters: as many float32 as its backward pass adds up over ranks (data parallelism alone)"
        else:
            yield "parameters: its backward pass adds nothing up over ranks, so a plan exchanges nothing"
        unused = sum(node.type == COMPUTE for node in order) - len(self._forward) - len(self._backward)
        if unused:
            yield f"{unused} compute nodes without FLOPs and without a duration, or of further steps, are left out"
        if self._is_timed() and not any(_count_attribute(node, "num_ops", self._path) for node in self._forward):
            yield "FLOPs: durations alone are planned, so that utilization is unknown and not 0"
        others = Counter(TYPES[node.type] for node in order if node.type not in (COMPUTE, COLLECTIVE, SEND, RECEIVE))
        for kind, count in others.items():
            yield f"{count} nodes of type {kind} are left out"


def _is_backward(node: Node) -> bool:
    """Return whether the name of a node, in upper or lower case, holds a word of the backward pass (``backward``,
    ``_bwd``, ``grad``)."""
    return any(word in node.name.lower() for word in _BACKWARD)


def _layer(node: Node) -> str:
    """Return the name of a node without the ending of its pass (``_FWD``, ``_BWD_IG``, ``_BWD_WG``), which
    ``chakra_converter Text`` appends."""
    return _PASS.sub("", node.name)


def _weight(node: Node, path: Path) -> int:
    """Return the FLOPs of a node (``num_ops``); where it states none or 0, its duration in microseconds. WorkloadError,
    which names ``path`` and the node, where its FLOPs are no count."""
    return _count_attribute(node, "num_ops", path) or node.duration


def _count_attribute(node: Node, attribute: str, path: Path) -> int:
    """Return an attribute of a node that is a whole number from 0 to below 2^52; 0 where it is absent, else
    WorkloadError."""
    value = node.attributes.get(attribute, 0)
    if type(value) is not int or not 0 <= value < MOST:
        raise WorkloadError(f"{_place(node, path)}: {attribute} is {value!r}: expected a count below 2^52")
    return value


def _place(node: Node, path: Path) -> str:
    """Return the begin of a message about a node: ``FILE: node 3 ('NAME')``, 3 being its id."""
    return f"{path}: node {node.id} ({node.name!r})"


def _runnable(nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes in an order in which each comes behind all that it waits for, the smallest id first among those
    ready. All that nodes wait for must be among them, without a cycle (else KeyError or graphlib.CycleError)."""
    by_id = {node.id: node for node in nodes}
    waiting = TopologicalSorter({node.id: waits(node, nested=False) for node in nodes})
    waiting.prepare()
    ready, order = list(waiting.get_ready()), []
    heapify(ready)
    while ready:
        order.append(by_id[heappop(ready)])
        waiting.done(order[-1].id)
        for following in waiting.get_ready():
            heappush(ready, following)
    return order
