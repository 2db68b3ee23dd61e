"""Chakra host traces, as ``torch.profiler.ExecutionTraceObserver`` writes them: nodes of one process, as JSON.

A node is a call: its name, the call that made it (``ctrl_deps``), tensors that it read and returned with their shapes,
and attributes, of which the operator's schema (names of arguments) and the sequence number of autograd matter here.

``chakra_trace_link`` adds times from a profile, in microseconds (``exclusive_dur``), and the GPU's work as nodes with a
category (``cat``), made by the call that launched it.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import chain, repeat
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from lightloom.core.documents import MOST_TRACE_BYTES, load_json
from lightloom.core.errors import WorkloadError
from lightloom.models import operator_words
from lightloom.models.graph import TENSOR_KINDS
from lightloom.models.operator_words import (
    KIND_OF_WORD,
    VIEWS,
    Product,
    Shape,
    attention_sizes,
    convolution_sizes,
    experts_dimensions,
    flattened_sizes,
    has_rule,
    is_move,
    plain_word,
)
from lightloom.models.traces.operators import TracedExchange, kind_of_kernel, kind_of_words

Entry: TypeAlias = dict[str, Any]
"""An entry of a trace's JSON."""
Value: TypeAlias = Any
"""A value of an entry, not looked at yet."""

_VERSION = re.compile(r"1\.\d+\.\d+-chakra\.\d+\.\d+\.\d+")
_LONGEST = 10**12
"""Microseconds that a call may take."""
_TENSOR = 6
"""Number of entries of a tensor: tensor, storage, offset, elements, bytes per element, device."""


@dataclass(frozen=True, slots=True)
class TraceTensor:
    """A tensor that a call read or returned."""

    storage: int
    offset: int
    """Number of elements from the start of the storage."""
    shape: tuple[int, ...]
    element_bytes: int
    floating: bool
    argument: str
    """Name of the argument in the operator's schema; empty if unknown."""
    strides: tuple[int, ...] = ()
    """Elements from one to the next along each axis; empty if unknown."""

    @property
    def elements(self) -> int:
        """Elements of the tensor: the product of its shape."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of its elements, as many as its shape says."""
        return self.elements * self.element_bytes

    @property
    def transposed(self) -> bool:
        """True if the columns of its last two axes lie in one piece in memory, and the rows do not; False where strides
        are unknown or there are fewer than two axes."""
        return len(self.strides) >= 2 and self.strides[-2] == 1 < self.strides[-1]


@dataclass(slots=True)
class Call:
    """One call, with the calls that it made, in order."""

    id: int
    name: str
    schema: str
    sequence: int
    """Autograd's number of the next backward node; -1 without one."""
    reads: list[TraceTensor]
    returns: list[TraceTensor]
    values: list[object]
    """Arguments that are not tensors, as in the trace; None for tensors."""
    written: list[TraceTensor] = field(default_factory=list)
    """Tensors that it was given to write its result to (``out=``), which are none of those it reads."""
    calls: list[Call] = field(default_factory=list)
    own_seconds: float = 0.0
    """Seconds on the host, those of inner calls left out; 0 where the trace does not say."""
    device_seconds: float = 0.0
    """Seconds of the accelerator's work that it launched itself."""
    precision: str = ""
    """Number format of its first floating-point tensor in a profile; empty without one."""
    begin: float = 0.0
    """Seconds on a profile's clock."""
    seconds: float = 0.0
    """Duration on the host in a profile, inner calls included."""
    kernels: list[str] = field(default_factory=list)
    """Names of the accelerator's work that it launched in a profile."""

    @property
    def end(self) -> float:
        """Seconds on a profile's clock at which it ends on the host."""
        return self.begin + self.seconds

    @property
    def word(self) -> str:
        """The operator's name without its library: ``relu_`` of ``aten::relu_``."""
        return self.name.rpartition("::")[2]


def seconds_of(calls: Sequence[Call], *, on_device: bool) -> float:
    """Return the summed seconds of calls and of all that they made: of the accelerator's work if ``on_device``, else on
    the host."""
    own = sum(call.device_seconds if on_device else call.own_seconds for call in calls)
    return own + sum(seconds_of(call.calls, on_device=on_device) for call in calls if call.calls)


@dataclass(frozen=True, slots=True)
class Recording:
    """The calls of a trace, and what it says of exchanges among ranks."""

    roots: list[Call]
    """Calls that no other one made, in the order in which they began."""
    exchanges: tuple[TracedExchange, ...] = ()
    timed: bool = False
    """True if it says how long calls took."""
    on_device: bool = False
    """True if the times are those of an accelerator's work, launched by the calls."""
    outside: tuple[Call, ...] = ()
    """Calls of neither pass, in traces without nesting: of the set-up, of the optimizer."""


def read_calls(path: Path) -> Recording:
    """Return the calls of an execution trace of PyTorch (JSON, gzip or not) with their nesting, times and exchanges.

    Raises:
        ConfigError: unreadable, too large, or not JSON.
        WorkloadError: no execution trace, a schema other than ``1.x.x-chakra.x.x.x``, or a node that is
            malformed, occurs twice, or was made by one that is missing or begins later; names the node.
    """
    document = load_json(path, MOST_TRACE_BYTES)
    if isinstance(document, dict) and "traceEvents" in document:
        raise WorkloadError(
            f"{path}: a profile of torch.profiler, which says no edges: expected an execution trace of "
            "ExecutionTraceObserver; `lightloom calibrate` reads profiles"
        )
    if not isinstance(document, dict) or not isinstance(document.get("nodes"), list):
        raise WorkloadError(f"{path}: expected an execution trace: an object with schema and nodes")
    version = document.get("schema")
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        raise WorkloadError(f"{path}: schema {version!r}: expected 1.x.x-chakra.x.x.x, as PyTorch 2.1 and later write")
    for i, entry in enumerate(document["nodes"]):
        if not isinstance(entry, dict) or type(entry.get("id")) is not int or not isinstance(entry.get("name"), str):
            raise WorkloadError(f"{path}: entry {i} of nodes: expected an object with a whole id and a name")
    return recording_of(document["nodes"], path)


def recording_of(entries: Sequence[Entry], path: Path, *, complete: bool = True) -> Recording:
    """Return the calls that the nodes of a trace describe, nested as they were made, with their times, and the
    exchanges of communication kernels; ``timed`` and ``on_device`` say whether any times are stated, and whether they
    are the accelerator's.

    Nodes with a category (``cat``) are the accelerator's work: their seconds are added to the calls that launched them,
    and those of communication kernels become exchanges instead.

    Args:
        entries: objects with the fields of an execution trace: a whole ``id`` and a ``name``, ``ctrl_deps`` (id of the
            caller, its own for a root), and for calls ``inputs``, ``outputs``, ``attrs`` and ``exclusive_dur``
            (microseconds).
        path: the file, for messages.
        complete: whether every call but the first must be made by one of the trace; without it, calls of missing
            callers are roots.

    Raises:
        WorkloadError: a node is malformed, occurs twice, or was made by one that is missing or begins later; names the
            node.
    """
    calls: dict[int, Call] = {}
    parents: dict[int, int] = {}
    device: list[Entry] = []
    for entry in entries:
        where = f"{path}: node {entry['id']} ({entry['name']!r})"
        if entry["id"] in calls:
            raise WorkloadError(f"{where}: its id occurs twice")
        if type(caller := entry.get("ctrl_deps")) is not int:
            raise WorkloadError(f"{where}: ctrl_deps is {caller!r}: expected the id of the calling node")
        if entry.get("cat") is not None:
            device.append(entry)
            continue
        calls[entry["id"]] = call = _call(entry, where)
        call.own_seconds = duration_of(entry, where)
        parents[entry["id"]] = caller
    exchanges = _launched(device, calls, path)
    _tell_numbers_apart(calls)
    roots = _tree(calls, parents, path, complete=complete)
    on_device = any(call.device_seconds for call in calls.values())
    timed = on_device or any(call.own_seconds for call in calls.values())
    return Recording(roots, exchanges, timed=timed, on_device=on_device)


def _tell_numbers_apart(calls: Mapping[int, Call]) -> None:
    """Set the storage of tensors that calls read to -1, in place, where they are numbers that lie at the address of a
    tensor freed since.

    PyTorch makes a tensor without dimensions of each number, which no call returns. A tensor counts as such a number if
    calls have returned tensors from its storage before, but none of the same element type and likewise with, or
    without, dimensions.
    """
    returned: dict[int, set[tuple[int, bool, bool]]] = {}
    for _, call in sorted(calls.items()):
        call.reads = [
            tensor if _form(tensor) in returned.get(tensor.storage, [_form(tensor)]) else replace(tensor, storage=-1)
            for tensor in call.reads
        ]
        kept = {tensor.storage for tensor in call.reads}
        for storage in {tensor.storage for tensor in call.returns} - kept:
            returned[storage] = set()
        for tensor in call.returns:
            returned.setdefault(tensor.storage, set()).add(_form(tensor))


def _form(tensor: TraceTensor) -> tuple[int, bool, bool]:
    """Return (bytes of an element, whether it is floating, whether the tensor has dimensions), which tell numbers from
    tensors."""
    return tensor.element_bytes, tensor.floating, bool(tensor.shape)


def exchange_of_call(call: Call, seconds: float) -> TracedExchange:
    """Return the exchange that a communication call asks for: its kind by the call's name, or that of the first inner
    call whose name says one (``unknown`` if none does), and its bytes by what is read.

    Bytes are the most that the call or one inside it reads, None for 0. ``seconds`` are stored as the exchange's time;
    the group of ranks is not known, and its name stays empty.
    """
    calls = list(walk([call]))
    kind = next((kind for inner in calls if (kind := kind_of_words(inner.name))), "unknown")
    nbytes = max(sum(tensor.nbytes for tensor in inner.reads) for inner in calls)
    return TracedExchange(kind, nbytes or None, seconds=seconds)


def duration_of(entry: Entry, where: str) -> float:
    """Return the seconds of a node, stated in microseconds, those of inner calls left out; 0 where the trace does not
    say.

    Raises:
        WorkloadError: no number of microseconds, a negative one, or more than eleven days.
    """
    return seconds_of_microseconds(entry.get("exclusive_dur", 0), f"{where}: exclusive_dur is")


def seconds_of_microseconds(duration: Value, complaint: str) -> float:
    """Return the seconds of so many microseconds.

    Raises:
        WorkloadError: no number, a negative one, or more than eleven days; the message begins with ``complaint``.
    """
    number = not isinstance(duration, bool) and isinstance(duration, int | float)
    if not number or not 0 <= duration <= _LONGEST:
        raise WorkloadError(f"{complaint} {duration!r}: expected 0 to {_LONGEST} microseconds (11 days)")
    return float(duration) * 1e-6


def _launched(entries: Sequence[Entry], calls: Mapping[int, Call], path: Path) -> tuple[TracedExchange, ...]:
    """Add the seconds of the accelerator's work to the calls that launched it, in place, and return the exchanges among
    ranks in it.

    The seconds of exchanges are added to no call; their group is named by the node (``pg_name``), and their bytes are
    those that the launching call reads, None where it is missing. WorkloadError where other work names no call.

    Args:
        entries: nodes of the accelerator's work.
        calls: calls on the host by id.
        path: the file, for messages.
    """
    exchanges: list[TracedExchange] = []
    for entry in entries:
        where = f"{path}: node {entry['id']} ({entry['name']!r})"
        seconds, parent = duration_of(entry, where), entry["ctrl_deps"]
        if kind := kind_of_kernel(entry["name"]):
            launch = calls.get(parent)
            nbytes = sum(tensor.nbytes for tensor in launch.reads) if launch else None
            exchanges.append(TracedExchange(kind, nbytes, str(entry.get("pg_name", "")), seconds))
            continue
        if parent not in calls:
            raise WorkloadError(f"{where}: launched by node {parent}, which does not exist")
        calls[parent].device_seconds += seconds
    return tuple(exchanges)


def _tree(calls: dict[int, Call], parents: dict[int, int], path: Path, *, complete: bool) -> list[Call]:
    """Append each call to the inner calls of its parent, in the order of their ids, and return the roots.

    Ids grow as calls begin, so a parent has the smaller id. WorkloadError where a parent is missing (that of the first
    node may be, any if not ``complete``) or begins later.

    Args:
        calls: calls by id, changed in place.
        parents: id of the parent by the id of each call; its own id for a root.
        path: the file, for messages.
        complete: whether all parents must be in the trace.
    """
    roots: list[Call] = []
    for number, call in sorted(calls.items()):
        parent = parents[number]
        if parent == number or (parent not in calls and (not roots or not complete)):
            roots.append(call)  # the process: its own parent, or one that is not written
        elif parent not in calls or parent > number:
            why = "does not exist" if parent not in calls else "begins later"
            raise WorkloadError(f"{path}: node {number} ({call.name!r}): made by node {parent}, which {why}")
        else:
            calls[parent].calls.append(call)
    return roots


def _call(entry: Entry, where: str) -> Call:
    """Return the call that a node describes, without its time and inner calls; WorkloadError if the node is
    malformed."""
    attributes = entry.get("attrs", [])
    if not isinstance(attributes, list) or not all(isinstance(item, dict) and "name" in item for item in attributes):
        raise WorkloadError(f"{where}: attrs: expected a list of names and values")
    by_name = {str(item["name"]): item.get("value") for item in attributes}
    schema, sequence = by_name.get("op_schema", ""), by_name.get("seq_id", -1)
    if not isinstance(schema, str) or type(sequence) is not int:
        raise WorkloadError(f"{where}: op_schema {schema!r} and seq_id {sequence!r}: expected text and a whole number")
    call = Call(entry["id"], entry["name"], schema, sequence, [], [], [])
    names, outs = chain(argument_names(schema), repeat("")), _written_arguments(schema)
    for name, (value, shape, kind) in zip(names, _side(entry, "inputs", where), strict=False):
        tensors = _tensors(value, shape, kind, name, where)
        (call.written if name in outs else call.reads).extend(tensors)
        call.values.append(None if tensors else value)
    for value, shape, kind in _side(entry, "outputs", where):
        call.returns += _tensors(value, shape, kind, "", where)
    return call


def _side(entry: Entry, side: str, where: str) -> list[tuple[Value, Value, Value]]:
    """Return (value, shape, type) for each thing that a call reads (side ``inputs``) or returns (``outputs``);
    WorkloadError if the lists of values, shapes and types differ in length or one is missing."""
    lists = entry.get(side)
    parts: list[Value] = [lists.get(name) for name in ("values", "shapes", "types")] if isinstance(lists, dict) else []
    if len(parts) != 3 or not all(isinstance(part, list) for part in parts) or len({len(part) for part in parts}) > 1:
        raise WorkloadError(f"{where}: {side}: expected values, shapes and types, lists of one length")
    return list(zip(*parts, strict=True))


def _tensors(value: Value, shape: Value, kind: Value, argument: str, where: str) -> list[TraceTensor]:
    """Return the tensors of an argument: one, those of a list, or none where its type is another; WorkloadError if
    malformed.

    Args:
        value: of a tensor (its number, storage, offset, elements, bytes of an element, device), or a list of such.
        shape: of the tensor, or a list of shapes.
        kind: type as the trace names it, such as ``Tensor(float)`` or ``GenericList[Tensor(float),...]``.
        argument: name of the argument that the tensors get; empty if unknown.
        where: file and node, for messages.
    """
    if not isinstance(kind, str):
        raise WorkloadError(f"{where}: type {kind!r}: expected text")
    if kind.startswith("GenericList[Tensor"):
        if not isinstance(value, list) or not isinstance(shape, list) or len(value) != len(shape):
            raise WorkloadError(f"{where}: a list of tensors without as many shapes")
        inner = kind.removeprefix("GenericList[").split(",", 1)[0].rstrip("]")
        return [t for v, s in zip(value, shape, strict=True) for t in _tensors(v, s, inner, argument, where)]
    if not kind.startswith("Tensor"):
        return []
    sizes = isinstance(shape, list) and all(type(size) is int and size >= 0 for size in shape)
    if not sizes or not isinstance(value, list) or len(value) != _TENSOR or not _are_counts(*value[1:3]):
        raise WorkloadError(f"{where}: a tensor {value!r} of shape {shape!r}: expected {_TENSOR} entries and sizes")
    if not _are_counts(value[4]):
        raise WorkloadError(f"{where}: a tensor of {value[4]!r} bytes an element")
    floating = any(word in kind for word in ("float", "double", "half", "Half", "Float"))
    return [TraceTensor(value[1], value[2], tuple(shape), value[4], floating, argument)]


def _are_counts(*values: object) -> bool:
    """Return whether all values are whole numbers (of type int, so no bool) of at least 0."""
    return all(type(value) is int and value >= 0 for value in values)


def _written_arguments(schema: str) -> frozenset[str]:
    """Return the names of the arguments that an overload with ``out=`` writes its results to: those after the star that
    the schema marks as written; empty for schemas of other operators."""
    if ".out" not in schema.partition("(")[0] and "_out" not in schema.partition("(")[0]:
        return frozenset()
    keywords = schema.partition("*, ")[2].rpartition(") ->")[0]
    return frozenset(re.findall(r"Tensor\(\w+!\)(?:\[\])?\??\s+(\w+)", keywords))


def argument_names(schema: str) -> list[str]:
    """Return the names of an operator's arguments in order: ``linear(Tensor input, Tensor weight) -> Tensor`` has input
    and weight. The star before arguments by keyword is left out."""
    parts = re.split(r",(?![^(\[]*[)\]])", schema.partition("(")[2].rpartition(") ->")[0])  # outside of brackets
    words = (part.partition("=")[0].split() for part in parts)
    return [word[-1] for word in words if word and word != ["*"]]


# Steps of an execution trace: the calls of all threads in the order in which they began, cut where a step begins.
#
#     thread 1    [ProfilerStep#3: forward      optimizer][ProfilerStep#4: forward      optimizer]
#     thread 2                       [backward]                               [backward]
#
# ``torch.profiler`` marks steps on the thread that calls ``step()``; autograd of GPUs runs on another thread, whose
# calls belong to the step in which they begin (ids grow as calls begin, over all threads). Without marks a step begins
# with the first forward call, among those that autograd goes back to, after a backward pass.

BACKWARD = "autograd::engine::evaluate_function"
_MARK = re.compile(r"ProfilerStep#?(\d+)")


class TraceStep(NamedTuple):
    """The calls of one step, in the order in which they began."""

    number: int
    """Number of the step as the profiler counts it, else counted from 0."""
    calls: list[Call]
    later_passes: int = 0
    """Further forward passes of the step, which are left out (accumulated gradients)."""


def cut_steps(roots: Sequence[Call]) -> list[TraceStep]:
    """Return the steps of a trace in order; one without an operator is left out.

    A step that the profiler has marked holds only its first forward pass, with the calls up to the next one, and the
    number of later passes. Without marks each forward pass begins a step, counted from 0.
    """
    backward = (call for call in walk(roots) if call.name.startswith(BACKWARD))
    differentiated = {inner.sequence for call in backward for inner in call.calls if inner.sequence >= 0}
    if not (marked := marked_steps(roots)):
        calls = sorted(leaves(roots), key=lambda call: call.id)
        return [TraceStep(number, run) for number, run in enumerate(_forward_passes(calls, differentiated))]
    steps = []
    for number, calls in marked:
        if passes := list(_forward_passes(calls, differentiated)):
            steps.append(TraceStep(number, passes[0], len(passes) - 1))
    return steps


def walk(calls: Sequence[Call]) -> Iterator[Call]:
    """Yield the calls and all calls that they made, each before those that it made."""
    for call in calls:
        yield call
        yield from walk(call.calls)


def sequences(call: Call) -> set[int]:
    """Return the sequence numbers that a call and those inside it state, without -1: of the backward nodes that it may
    have made.

    Of calls that state the same number, the last one has made the node.
    """
    return {inner.sequence for inner in walk([call])} - {-1}


def marked_steps(roots: Sequence[Call]) -> list[tuple[int, list[Call]]]:
    """Return (number, calls) for each step that the profiler has marked (``ProfilerStep#N``), in order; empty without
    marks.

    Calls are the outermost operators, backward nodes and optimizer steps, in the order in which they began. Those on
    threads without marks belong to the last step that had begun, and are left out before the first one.
    """
    marks = sorted((call.id, int(match[1]), call) for call in walk(roots) if (match := _MARK.match(call.name)))
    inside = [list(leaves(mark.calls)) for _, _, mark in marks]
    for leaf in leaves(roots, without_marks=True) if marks else ():
        if begun := bisect_left(marks, leaf.id, key=lambda mark: mark[0]):
            inside[begun - 1].append(leaf)
    ordered = [sorted(calls, key=lambda call: call.id) for calls in inside]
    return [(number, calls) for (_, number, _), calls in zip(marks, ordered, strict=True)]


def leaves(calls: Sequence[Call], *, without_marks: bool = False) -> Iterator[Call]:
    """Yield operators, backward nodes and optimizer steps, none of which is inside another; calls that made no others
    too.

    Processes, threads and annotations, which hold them, are passed through. ``without_marks`` leaves out threads on
    which steps are marked.
    """
    for call in calls:
        if call.schema or call.name.startswith((BACKWARD, "Optimizer.")) or not call.calls:
            yield call
        elif not (without_marks and any(_MARK.match(inner.name) for inner in call.calls)):
            yield from leaves(call.calls, without_marks=without_marks)


def _forward_passes(calls: Sequence[Call], differentiated: set[int]) -> Iterator[list[Call]]:
    """Yield for each forward pass its calls with those of its backward pass and of what follows until the next; a last
    one without an operator is left out.

    Args:
        calls: outermost calls in the order in which they began.
        differentiated: sequence numbers that autograd goes back to; a call with one, after a backward pass, begins the
            next forward pass.
    """
    current: list[Call] = []
    backward_begun = False
    for call in calls:
        if call.name.startswith(BACKWARD):
            backward_begun = True
        elif backward_begun and call.schema and not differentiated.isdisjoint(sequences(call)):
            yield current
            current, backward_begun = [], False
        current.append(call)
    if any(call.schema for call in current):
        yield current


# The calls of one step, sorted into forward pass, backward pass, communication and the optimizer.

GRADIENT = "torch::autograd::AccumulateGrad"
_COMMUNICATION = ("c10d::", "record_param_comms", "nccl:", "gloo:")


@dataclass(slots=True)
class StepParts:
    """The calls of a trace, sorted by the pass they belong to."""

    forward: list[Call] = field(default_factory=list)
    backward: dict[int, list[Call]] = field(default_factory=dict)
    """Calls of the backward pass, by sequence number."""
    gradients: list[TraceTensor] = field(default_factory=list)
    communication: list[Call] = field(default_factory=list)
    later: int = 0
    update: list[Call] = field(default_factory=list)
    """Calls of the optimizer."""

    def sort(self, call: Call) -> None:
        """Add a call to the list of its pass, ``forward``, ``backward`` (by sequence number) or ``communication``; one
        of no pass (an annotation, a thread) is passed through to the calls that it made.

        Of a node of autograd, the calls inside it are added to ``backward`` by their sequence numbers, and the
        gradients that it keeps to ``gradients``. Steps of the optimizer go to ``update``, operators after the first
        backward call to no list; both are counted as ``later``, but for operators that only allocate or add.
        """
        if call.name.startswith(_COMMUNICATION):
            self.communication.append(call)
        elif call.name.startswith(BACKWARD):
            for inner in call.calls:
                self.backward.setdefault(inner.sequence, []).append(inner)
                if inner.name == GRADIENT:
                    self.gradients += inner.reads[:1]
        elif call.name.startswith("Optimizer."):
            self.later += 1
            self.update.append(call)
        elif call.schema and self.backward:
            # Autograd itself allocates, and adds up gradients that meet.
            self.later += call.word.strip("_") != "add" and bool(made(call))
        elif call.schema:
            self.forward.append(call)
        else:
            for inner in call.calls:
                self.sort(inner)


def named_parameters(calls: list[Call]) -> dict[int, tuple[int, ...]]:
    """Return the shape by storage of each floating tensor that is read as weight or bias and that no earlier call
    computed."""
    written: set[int] = set()
    shapes: dict[int, tuple[int, ...]] = {}
    for call in calls:
        for tensor in call.reads:
            if tensor.argument in ("weight", "bias") and tensor.floating and tensor.storage not in written:
                shapes.setdefault(tensor.storage, tensor.shape)
        written.update(tensor.storage for tensor in made(call))
    return shapes


def statistics(calls: list[Call]) -> set[int]:
    """Return the storages of running means and variances, which batch norms update and no gradient reaches."""
    read = (tensor for call in walk(calls) for tensor in call.reads)
    return {tensor.storage for tensor in read if tensor.argument.startswith("running_")}


def made(call: Call) -> list[TraceTensor]:
    """Return the tensors that a call computed: none for views, and for what only allocates.

    These are the tensors that it was given to write to (``out=``), else those that it returned in storages that it does
    not read, else the floating one that it changed in place (a name that ends in an underscore).
    """
    if not call.reads or call.word.endswith("_like") or call.word.startswith("new_"):
        return []
    read = {tensor.storage for tensor in call.reads}
    fresh = [tensor for tensor in call.returns if tensor.storage not in read]
    # In place, counters of batches seen are no part of the network.
    changed = call.returns[:1] if call.word.endswith("_") and call.reads[0].floating else []
    return call.written or fresh or changed


# Callers that ``chakra_converter PyTorch`` loses: it keeps a caller only if its node comes first in its input.
#
# Execution traces write a call after those that it made, so that only calls of the thread itself keep theirs, unless
# ``chakra_trace_link`` has sorted the nodes. Ids still grow as calls begin: what has no caller was made, directly or
# not, by the last call before it that has one. Inside, backward nodes hold what follows, wrappers of products the
# next one.

_WRAPPER_WORDS = """
    linear matmul einsum conv1d conv2d conv3d conv_transpose2d convolution _convolution convolution_backward
    scaled_dot_product_attention
"""
_WRAPPERS = frozenset(_WRAPPER_WORDS.split())
_PRODUCT_CALLS = ("mm", "bmm", "addmm", "baddbmm", "matmul", "linear")


def callers_of(entries: Sequence[Mapping[str, Any]], lost: Set[int]) -> dict[int, int]:
    """Return the id of a guessed caller by the id of each call that has ``lost`` its own; calls before the first one
    that has kept its caller have no entry.

    The caller is the last earlier call that has kept its own caller, or a backward node or a wrapper of products
    (``aten::linear``) inside of it.

    Args:
        entries: calls, with ``id`` and ``name``, in the order of their ids.
        lost: ids of those that name no caller.
    """
    found: dict[int, int] = {}
    outer: int | None = None
    in_backward = False
    inner: list[tuple[int, str]] = []
    """Calls inside the outer one that may have made the next: the backward node, then wrappers of products."""
    for entry in entries:
        number, name = entry["id"], entry["name"]
        word = name.rpartition("::")[2]
        if number not in lost:
            outer, in_backward = number, name.startswith(BACKWARD)
            inner = [(number, word)] if word in _WRAPPERS else []
            continue
        if outer is None:
            continue
        if in_backward and not name.startswith("aten::"):
            found[number], inner = outer, [(number, word)]
            continue
        product = word.endswith("convolution") or word in _PRODUCT_CALLS or word.startswith("_scaled_dot_product")
        if inner and (product or inner[-1][1] not in _WRAPPERS):
            found[number] = inner[-1][0]
        else:  # the backward node that holds what follows, else the outer call
            found[number] = next((node for node, other in inner if other not in _WRAPPERS), outer)
        if word in _WRAPPERS:
            inner = [*(inner if product else inner[:1]), (number, word)]
        elif product:
            inner = [entry for entry in inner if entry[1] not in _WRAPPERS]
    return found


# Kinds and FLOPs of the calls in an execution trace, from the table of operators, their names and shapes.
#
# The backward pass of attention is twice its forward, recomputation not counted.


def kind_of(call: Call, producers: int, *, stacked: bool = False) -> str:
    """Return the kind of an operator, one of ``graph.KINDS``, by the table of operators.

    It follows from its own name, from the names of the products inside it and of the innermost calls that are no views,
    and from ``producers``.

    Args:
        call: the operator's call.
        producers: number of earlier operators whose results it reads.
        stacked: True if it reads a parameter that stacks matrices, as the weights of several experts do.
    """
    made = [inner.name for inner in _innermost(call) if plain_word(inner.name) not in VIEWS]
    if KIND_OF_WORD.get(plain_word(call.name)) == "elementwise":
        made.append(call.name)  # calls inside it may only prepare a scalar
    names = [inner.name for inner, _ in products(call)]
    return operator_words.kind_of(plain_word(call.name), names, made, producers, stacked=stacked)


def kind_of_name(name: str) -> str:
    """Return the kind of an operator of which only the name is known: ``copy`` for moved data, ``elementwise`` where
    the table lacks it."""
    return KIND_OF_WORD.get(plain_word(name)) or ("copy" if is_move(name) else "elementwise")


def other_flops(kind: str, elements: Iterable[int]) -> int:
    """Return the FLOPs of an operator that multiplies no matrices: the largest of ``elements``, the numbers of elements
    of its tensors; 0 for the kinds copy, concat, embedding and dropout."""
    return 0 if kind in ("copy", "concat", "embedding", "dropout") else max(elements, default=0)


def is_causal(call: Call) -> bool:
    """Return whether the arguments of a call of scaled dot-product attention ask for a causal mask, by its flags or the
    number of its kind of mask; False where it holds none.

    Masks that are tensors are not looked at.
    """
    flags = [value for value in call.values if isinstance(value, bool)]
    if call.word.strip("_") == "efficient_attention_forward" and flags:
        mask = call.values[next(place for place, value in enumerate(call.values) if isinstance(value, bool)) - 1]
        return isinstance(mask, int) and mask > 0
    place = "efficient" in call.name or "cudnn" in call.name
    return any(flags[place : place + 1])


def guessed(call: Call) -> list[str]:
    """Return the names of the innermost calls inside a call whose cost, one FLOP for each element, is a guess; a name
    is repeated for each such call.

    The table has no rule for them, and the shapes of their operands do not broadcast.
    """
    names = []
    for inner in _innermost(call):
        try:
            np.broadcast_shapes(*(tensor.shape for tensor in inner.reads))
        except ValueError:
            names += [] if has_rule(inner.name) else [inner.name]
    return names


def products(call: Call) -> list[tuple[Call, Product]]:
    """Return (call, product) for the matrix products and convolutions with FLOPs that a call makes, a product being its
    FLOPs, the shape of its result and the length of its sums.

    They are those of the calls inside it where there are any, else its own; an empty list without.
    """
    if inner := [entry for made in call.calls for entry in products(made)]:
        return inner
    result = call.returns[0].shape if call.returns else None
    own = operator_words.product(call.name, [tensor.shape for tensor in call.reads], result, call.values)
    return [(call, own)] if own is not None and own.flops else []


def product_flops(call: Call) -> int:
    """Return the summed FLOPs of the matrix products and convolutions of a call, those inside it in the place of its
    own."""
    return sum(made.flops for _, made in products(call))


def _innermost(call: Call) -> Iterator[Call]:
    """Return an iterator of the calls inside a call that made no others; the call itself if it made none."""
    return (inner for inner in walk([call]) if not inner.calls)


# Forward and backward passes among calls without nesting, as Chakra's converters of 2023 wrote them.
#
# forward    calls with a number of autograd
# backward   from the first call named so to the last one; autograd's numbers are missing, so that each call goes to the
#            last forward operator of its kind that has none yet: ``convolution_backward`` to ``conv2d``, products to
#            linear layers, two each; others to the operator before

_FLAT = "convolution conv batch_norm layer_norm threshold relu pool loss softmax attention"
_FLAT_WORDS = tuple(_FLAT.split())
"""Words by which a call of the backward pass is matched with one of the forward pass; the first that it holds."""
_SAME = {"convolution": "conv", "threshold": "relu", "softmax": "loss"}
_LINEAR_PRODUCTS = 2
"""Products of the backward pass of a linear layer."""


def passes_of(calls: Sequence[Call]) -> tuple[list[Call], tuple[Call, ...]]:
    """Return (calls of the forward and the backward pass, calls of neither), from calls without nesting.

    Forward calls are those before the first one named backward that have a sequence number of autograd. From there to
    the last one named backward each call gets the sequence number of its forward operator, in place, and stands inside
    a made-up node of autograd. Without a call named backward all are of the passes.
    """
    backward = [place for place, call in enumerate(calls) if "backward" in call.word]
    if not backward:
        return list(calls), ()
    passes = [call for call in calls[: backward[0]] if call.sequence >= 0]
    for call, owner in _owners(passes, calls[backward[0] : backward[-1] + 1]):
        call.sequence = owner.sequence
        passes.append(Call(call.id, BACKWARD, "", -1, [], [], [], calls=[call]))
    kept = {call.id for call in passes}
    return passes, tuple(call for call in calls if call.id not in kept)


def _owners(forward: Sequence[Call], backward: Sequence[Call]) -> list[tuple[Call, Call]]:
    """Return (backward call, its forward operator) for the calls of a backward pass in order, calls of all-reduces and
    broadcasts left out.

    A call named backward, and every first of two products as of a linear layer, takes the latest operator of its kind
    that has none yet; others go to the operator of the call before, at first to the last one.
    """
    waiting: dict[str, list[Call]] = defaultdict(list)
    for call in forward:
        waiting[_kind(call)].append(call)
    owners: list[tuple[Call, Call]] = []
    current, products = forward[-1] if forward else None, 0
    for call in backward:
        kind = _kind(call) if "backward" in call.word else ""
        if not kind and product_flops(call):
            kind = "linear" if products % _LINEAR_PRODUCTS == 0 else ""
            products += 1
        if waiting.get(kind):
            current = waiting[kind].pop()
        if current is not None and not call.word.startswith(("allreduce", "broadcast")):
            owners.append((call, current))
    return owners


def _kind(call: Call) -> str:
    """Return the word by which a call is matched with one of the other pass (``convolution_backward`` and ``conv2d``:
    conv); its own word where none is known."""
    word = next((word for word in _FLAT_WORDS if word in call.word), call.word)
    return _SAME.get(word, word)


# Named axes of the outputs of traces and ONNX files, which record shapes alone.

_SPATIAL = ("height", "width", "depth")
_IMAGES = ("conv", "pool", "batch_norm", "activation", "add")


def named_axes(kind: str, shape: tuple[int, ...], batch: int | None) -> dict[str, int]:
    """Return the sizes of an output's axes by name, from its kind and number of axes.

    The first axis is ``sample``. The others are ``channel``, ``height``, ``width``, ``depth`` for four or five axes of
    an image's operator (conv, pool, batch_norm, activation, add), ``channel`` for two axes, ``sequence`` and
    ``channel`` for three, else ``axis_1``, ``axis_2``, ... Where the first axis is not the batch, samples are taken to
    be merged with it or gone: ``sample`` is ``batch`` all the same, ``sequence`` the first axis over the batch where
    that divides it (and ``channel`` the second of two), and other axes are ``axis_1``, ``axis_2``, ... ``batch`` is
    None where the output does not depend on the samples: axes are then ``axis_0``, ``axis_1``, ...
    """
    if batch is None:
        return {f"axis_{axis}": size for axis, size in enumerate(shape)}
    if not shape or shape[0] != batch:
        return flattened_sizes(shape, batch)
    numbers = tuple(f"axis_{i}" for i in range(1, len(shape)))
    names = {2: ("channel",), 3: ("sequence", "channel")}.get(len(shape), numbers)
    if kind in _IMAGES and 4 <= len(shape) <= 5:
        names = ("channel", *_SPATIAL)
    return {"sample": batch} | dict(zip(names, shape[1:], strict=False))


def named_sizes(
    kind: str, shape: Shape, batch: int | None, factors: Sequence[Shape], summed: int | None
) -> dict[str, int]:
    """Return the sizes of an operator by name: those of its output's axes (``sample`` only where ``batch`` is given),
    and what it sums or repeats over. Sizes of 0 are left out.

    A convolution adds ``in_channel``, ``kernel_height``, ``kernel_width`` (or others) and ``groups``, another product
    ``in_channel``. Attention has ``head``, ``sequence``, ``head_dim``, ``key_sequence`` and, with fewer heads of keys,
    ``key_head`` instead of its output's axes; a product of experts ``expert``, ``sequence`` (visits to an expert for
    each sample), ``channel`` and ``in_channel``.

    Args:
        kind: of the operator, one of ``graph.KINDS``.
        shape: of its output.
        batch: number of samples; None where the output does not depend on them.
        factors: shapes of what it multiplies: inputs and weights, queries and keys.
        summed: length of the sums of its product; None where that is not named.
    """
    sizes = named_axes(kind, shape, batch)
    if kind == "attention" and len(factors) >= 2 and min(map(len, factors[:2])) >= 3:
        sizes = attention_sizes(factors[0], factors[1], batch)
    elif kind == "conv" and len(factors) >= 2:
        sizes |= convolution_sizes(factors[0], factors[1], shape)
    elif kind == "experts" and summed is not None:
        experts = [factor[0] for factor in factors if len(factor) == 3] or [shape[0]]
        sizes = experts_dimensions(shape, batch, experts[-1], summed)
    elif kind in TENSOR_KINDS and summed is not None:
        sizes |= {"in_channel": summed} | ({"channel": shape[-1]} if kind == "linear" else {})
    return {name: size for name, size in sizes.items() if size > 0}
