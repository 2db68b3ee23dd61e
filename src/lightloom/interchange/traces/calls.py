"""Chakra host traces, as ``torch.profiler.ExecutionTraceObserver`` writes them: nodes of one process, as JSON.

A node is a call: its name, the call that made it (``ctrl_deps``), tensors that it read and returned with their shapes,
and attributes, of which the operator's schema (names of arguments) and the sequence number of autograd matter here.

``chakra_trace_link`` adds times from a profile, in microseconds (``exclusive_dur``), and the GPU's work as nodes with a
category (``cat``), made by the call that launched it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from lightloom.core.errors import WorkloadError
from lightloom.interchange.json_file import read_json
from lightloom.interchange.traces.exchanges import TracedExchange, kind_of_kernel

Entry: TypeAlias = dict[str, Any]
"""An entry of a trace's JSON."""
Value: TypeAlias = Any
"""A value of an entry, not looked at yet."""

_VERSION = re.compile(r"1\.\d+\.\d+-chakra\.\d+\.\d+\.\d+")
LONGEST_MICROSECONDS = 10**12
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
        """Bytes of its elements."""
        return self.elements * self.element_bytes

    @property
    def transposed(self) -> bool:
        """Whether its columns lie in one piece in memory, and its rows do not."""
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

    @property
    def word(self) -> str:
        """The operator's name without its library."""
        return self.name.rpartition("::")[2]


def seconds_of(calls: Sequence[Call], *, on_device: bool) -> float:
    """Return the seconds of calls and of all that they made: of the accelerator's work, or on the host."""
    own = sum(call.device_seconds if on_device else call.own_seconds for call in calls)
    return own + sum(seconds_of(call.calls, on_device=on_device) for call in calls if call.calls)


@dataclass(frozen=True, slots=True)
class Recording:
    """The calls of a trace, and what it says of exchanges among ranks."""

    roots: list[Call]
    """Calls that no other one made, in the order in which they began."""
    exchanges: tuple[TracedExchange, ...] = ()
    timed: bool = False
    """Whether it says how long calls took."""
    on_device: bool = False
    """Whether the times are those of an accelerator's work, launched by the calls."""
    outside: tuple[Call, ...] = ()
    """Calls of neither pass, in traces without nesting: of the set-up, of the optimizer."""


def read_calls(path: Path) -> Recording:
    """Return the calls of an execution trace of PyTorch, gzip or not.

    Raises:
        ConfigError: unreadable, or not JSON.
        WorkloadError: no trace, another version, or a node that is malformed, occurs twice, or was made by a missing
            one or by itself; names the node.
    """
    document = read_json(path)
    if isinstance(document, dict) and "traceEvents" in document:
        raise WorkloadError(
            f"{path}: a profile of torch.profiler, which says no edges: expected an execution trace of "
            "ExecutionTraceObserver; `lightloom calibrate --profile` reads profiles"
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
    """Return the calls that the nodes of a trace describe.

    Args:
        entries: objects with an id and a name, and with the further fields of an execution trace.
        path: the file, for messages.
        complete: whether every node but the first is made by one of the trace.

    Raises:
        WorkloadError: a node is malformed, occurs twice, or was made by a missing one or by itself; names the node.
    """
    calls: dict[int, Call] = {}
    parents: dict[int, int] = {}
    device: list[Entry] = []
    for entry in entries:
        where = f"{path}: node {entry['id']} ({entry['name']!r})"
        if entry["id"] in calls:
            raise WorkloadError(f"{where}: its id occurs twice")
        if type(entry.get("ctrl_deps")) is not int:
            raise WorkloadError(
                f"{where}: ctrl_deps is {entry.get('ctrl_deps')!r}: expected the id of the calling node"
            )
        if entry.get("cat") is not None:
            device.append(entry)
            continue
        calls[entry["id"]] = call = _call(entry, where)
        call.own_seconds = duration_of(entry, where)
        parents[entry["id"]] = entry["ctrl_deps"]
    exchanges = _launched(device, calls, path)
    timed = any(call.own_seconds or call.device_seconds for call in calls.values())
    roots = _tree(calls, parents, path, complete=complete)
    return Recording(roots, exchanges, timed=timed, on_device=any(call.device_seconds for call in calls.values()))


def duration_of(entry: Entry, where: str) -> float:
    """Return the seconds of a node, those of inner calls left out; 0 where the trace does not say.

    Raises:
        WorkloadError: no number of microseconds, or more than eleven days.
    """
    duration = entry.get("exclusive_dur", 0)
    number = not isinstance(duration, bool) and isinstance(duration, int | float)
    if not number or not 0 <= duration <= LONGEST_MICROSECONDS:
        raise WorkloadError(
            f"{where}: exclusive_dur is {duration!r}: expected 0 to {LONGEST_MICROSECONDS} microseconds (11 days)"
        )
    return float(duration) * 1e-6


def _launched(entries: Sequence[Entry], calls: Mapping[int, Call], path: Path) -> tuple[TracedExchange, ...]:
    """Add the accelerator's work to the calls that launched it, and return what of it exchanges data among ranks."""
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
    """Attach calls to their parents, and return the roots. Ids grow as calls begin, so a parent has the smaller id."""
    roots: list[Call] = []
    for number in sorted(calls):
        call, parent = calls[number], parents[number]
        if parent == number or (parent not in calls and (not roots or not complete)):
            roots.append(call)  # the process: its own parent, or one that is not written
        elif parent not in calls:
            raise WorkloadError(f"{path}: node {number} ({call.name!r}): made by node {parent}, which does not exist")
        elif parent > number:
            raise WorkloadError(f"{path}: node {number} ({call.name!r}): made by node {parent}, which begins later")
        else:
            calls[parent].calls.append(call)
    return roots


def _call(entry: Entry, where: str) -> Call:
    attributes = entry.get("attrs", [])
    if not isinstance(attributes, list) or not all(isinstance(item, dict) and "name" in item for item in attributes):
        raise WorkloadError(f"{where}: attrs: expected a list of names and values")
    by_name = {str(item["name"]): item.get("value") for item in attributes}
    schema, sequence = by_name.get("op_schema", ""), by_name.get("seq_id", -1)
    if not isinstance(schema, str) or type(sequence) is not int:
        raise WorkloadError(f"{where}: op_schema {schema!r} and seq_id {sequence!r}: expected text and a whole number")
    values, shapes, types = _side(entry, "inputs", where)
    names = argument_names(schema)
    names += [""] * (len(values) - len(names))
    reads: list[TraceTensor] = []
    written: list[TraceTensor] = []
    plain: list[object] = []
    outs = _written_arguments(schema)
    for name, value, shape, kind in zip(names, values, shapes, types, strict=False):
        tensors = _tensors(value, shape, kind, name, where)
        (written if name in outs else reads).extend(tensors)
        plain.append(None if tensors else value)
    returns = [
        tensor for item in zip(*_side(entry, "outputs", where), strict=True) for tensor in _tensors(*item, "", where)
    ]
    return Call(entry["id"], entry["name"], schema, sequence, reads, returns, plain, written)


def _side(entry: Entry, side: str, where: str) -> tuple[list[Value], list[Value], list[Value]]:
    lists = entry.get(side)
    parts: list[Value] = [lists.get(name) for name in ("values", "shapes", "types")] if isinstance(lists, dict) else []
    if len(parts) != 3 or not all(isinstance(part, list) for part in parts) or len({len(part) for part in parts}) > 1:
        raise WorkloadError(f"{where}: {side}: expected values, shapes and types, lists of one length")
    return parts[0], parts[1], parts[2]


def _tensors(value: Value, shape: Value, kind: Value, argument: str, where: str) -> list[TraceTensor]:
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
    if not sizes or not isinstance(value, list) or len(value) != _TENSOR or not _whole(*value[1:3]):
        raise WorkloadError(f"{where}: a tensor {value!r} of shape {shape!r}: expected {_TENSOR} entries and sizes")
    if not _whole(value[4]):
        raise WorkloadError(f"{where}: a tensor of {value[4]!r} bytes an element")
    floating = any(word in kind for word in ("float", "double", "half", "Half", "Float"))
    return [TraceTensor(value[1], value[2], tuple(shape), value[4], floating, argument)]


def _whole(*values: object) -> bool:
    return all(type(value) is int and value >= 0 for value in values)


def _written_arguments(schema: str) -> frozenset[str]:
    """Names of the arguments that an overload with ``out=`` writes its results to: those after the star."""
    if ".out" not in schema.partition("(")[0] and "_out" not in schema.partition("(")[0]:
        return frozenset()
    keywords = schema.partition("*, ")[2].rpartition(") ->")[0]
    return frozenset(re.findall(r"Tensor\(\w+!\)(?:\[\])?\??\s+(\w+)", keywords))


def argument_names(schema: str) -> list[str]:
    """Return the names of an operator's arguments: ``linear(Tensor input, Tensor weight)`` has input and weight."""
    inside = schema.partition("(")[2].rpartition(") ->")[0]
    names, depth, part = [], 0, ""
    for letter in f"{inside},":
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            words = part.partition("=")[0].split()
            if words and words != ["*"]:
                names.append(words[-1])
            part = ""
        else:
            part += letter
    return names
