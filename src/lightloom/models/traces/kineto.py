"""Profiles of ``torch.profiler`` (Kineto, in Chrome's trace format): operators, their times, the GPU work they launch.

    cpu_op, user_annotation       calls on the host, inside each other on one thread as their times are
    cuda_runtime, cuda_driver     launches; the call that is open on their thread launches
    kernel, gpu_memcpy, ...       work of the accelerator; the correlation names its launch
    nccl:..., c10d::...           exchanges among ranks, on the accelerator and on the host

Calls are those of execution traces (``calls.py``) with times; ``ProfilerStep#N`` marks steps in both.
"""

from __future__ import annotations

import hashlib
import json
import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count, repeat
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeGuard

from lightloom.core.documents import MOST_TRACE_BYTES, decode_json, read_bytes
from lightloom.core.errors import WorkloadError
from lightloom.machines.accelerators.load import accelerator_of_device
from lightloom.models.operator_words import KIND_OF_WORD, VIEWS, plain_word, product
from lightloom.models.traces.calls import (
    BACKWARD,
    GRADIENT,
    Call,
    Recording,
    TraceTensor,
    leaves,
    marked_steps,
    seconds_of_microseconds,
    walk,
)
from lightloom.models.traces.execution_trace import reading_of
from lightloom.models.traces.operators import TracedExchange, TraceReading, kind_of_kernel, kind_of_words

# Events of a profile: its JSON document, and the complete events (phase X) with their times.

JsonObject: TypeAlias = Mapping[str, Any]
"""An object of a profile's JSON, which anyone may have written."""


@dataclass(frozen=True, slots=True)
class Event:
    """A complete event of a profile: it has a begin and a duration."""

    where: str
    """File and number, for messages."""
    fields: JsonObject
    origin: float
    """Microseconds at which the clock of the profile begins, so that differences are exact."""
    category: str
    name: str
    thread: tuple[str, str]
    """Process and thread that the event ran on, which tell streams and host threads apart."""
    arguments: JsonObject

    @classmethod
    def of(cls, fields: JsonObject, number: int, origin: float, path: Path) -> Event:
        """Return the event of these fields, which are entry ``number``, from 0, of the list of events; ``path`` is for
        messages.

        ``origin``, in microseconds, is the time of the profile's earliest event, from which :meth:`begin` counts.
        Fields that the event lacks become the text ``None``; its arguments are empty where it has none.
        """
        where = f"{path}: entry {number} of traceEvents ({fields.get('name')!r})"
        category, name, process, thread = (str(fields.get(key)) for key in ("cat", "name", "pid", "tid"))
        arguments = fields.get("args")
        known = arguments if isinstance(arguments, dict) else {}
        return cls(where, fields, origin, category, name, (process, thread), known)

    @property
    def external_id(self) -> object:
        """Number of the call that an event belongs to, as the profiler counts; None where it states none. Its type is
        not checked."""
        return self.arguments.get("External id", self.arguments.get("external id"))

    def begin(self) -> float:
        """Return the seconds at which it begins, after the earliest event of the profile.

        Raises:
            WorkloadError: it states no number.
        """
        if not _is_number(begin := self.fields.get("ts")):
            raise WorkloadError(f"{self.where}: field 'ts': {begin!r}: expected microseconds")
        return float(begin - self.origin) * 1e-6

    def seconds(self) -> float:
        """Return the seconds that it lasts.

        Raises:
            WorkloadError: it states no number, a negative one, or more than eleven days.
        """
        return seconds_of_microseconds(self.fields.get("dur"), f"{self.where}: field 'dur':")


def _is_number(value: object) -> TypeGuard[int | float]:
    """Return whether a value is a finite number; True and False are none."""
    return not isinstance(value, bool) and isinstance(value, int | float) and math.isfinite(value)


def read_document(path: Path) -> tuple[JsonObject, list[Event]]:
    """Return what a profile (gzip or not) says besides its events (fields by name), and its complete events, those with
    a begin and a duration (phase X), in the order of the file.

    A list of events alone says nothing besides: the first part is then empty.

    Raises:
        ConfigError: unreadable, not gzip, or not JSON.
        WorkloadError: no profile, or an entry that is no object; names it.
    """
    document = decode_json(read_bytes(path, MOST_TRACE_BYTES), str(path))
    entries = document.get("traceEvents") if isinstance(document, dict) else document
    if not isinstance(entries, list):
        raise WorkloadError(f"{path}: expected a profile of torch.profiler: an object with a list of traceEvents")
    origin = min((entry["ts"] for _, entry in _complete(entries, path) if _is_number(entry.get("ts"))), default=0)
    events = [Event.of(entry, number, origin, path) for number, entry in _complete(entries, path)]
    return document if isinstance(document, dict) else {}, events


def _complete(entries: Sequence[Any], path: Path) -> Iterator[tuple[int, JsonObject]]:
    """Yield (number, fields) of each complete event (phase X), numbers being places among all entries.

    WorkloadError for an entry that is no object.
    """
    for number, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise WorkloadError(
                f"{path}: entry {number} of traceEvents: expected an object, got {type(entry).__name__}"
            )
        if entry.get("ph") == "X":
            yield number, entry


# Arguments of an operator as ``torch.profiler`` records them: shapes, types, and values as text.

Value: TypeAlias = Any
"""A value of a profile's JSON, not looked at yet."""

_TYPES: Mapping[str, tuple[str, int]] = {
    "double": ("fp64", 8),
    "float": ("fp32", 4),
    "c10::Half": ("fp16", 2),
    "c10::BFloat16": ("bf16", 2),
    "c10::Float8_e4m3fn": ("fp8", 1),
    "c10::Float8_e5m2": ("fp8", 1),
    "long int": ("", 8),
    "long": ("", 8),
    "int": ("", 4),
    "short int": ("", 2),
    "signed char": ("", 1),
    "unsigned char": ("", 1),
    "bool": ("", 1),
}
"""Number format (empty for whole numbers) and bytes of an element, by the name of a tensor's type."""
_LIST = "TensorList"


def arguments_of(arguments: Mapping[str, Any], where: str) -> tuple[list[TraceTensor], list[object], str]:
    """Return (tensors, values, format): what a call reads, its arguments in order (None for tensors, others parsed from
    their texts), and the number format (``fp32``, ``bf16``, ...) of its first floating-point tensor.

    The format is empty without such a tensor. Tensors in lists count as float32, as their type is not recorded, but do
    not decide the format. ``arguments`` are the fields of an event's ``args``; ``where`` begins messages.

    Raises:
        WorkloadError: shapes or types are no lists of one length, or a shape is no list of whole numbers.
    """
    shapes, types = arguments.get("Input Dims", []), arguments.get("Input type", [])
    if not isinstance(shapes, list) or not isinstance(types, list):
        raise WorkloadError(f"{where}: 'Input Dims' and 'Input type': expected lists")
    if len(shapes) != len(types):
        raise WorkloadError(f"{where}: {len(shapes)} 'Input Dims' and {len(types)} 'Input type': expected as many")
    texts, strides = (
        chain(given if isinstance(given, list) else [], repeat(filler))
        for given, filler in ((arguments.get("Concrete Inputs", []), ""), (arguments.get("Input Strides", []), ()))
    )
    reads: list[TraceTensor] = []
    values: list[object] = []
    for shape, kind, text, steps in zip(shapes, map(str, types), texts, strides, strict=False):
        if kind in _TYPES:
            tensors = [_tensor(shape, kind, steps, where)]
        elif kind == _LIST and isinstance(shape, list):
            # The type of a list's tensors is not recorded.
            tensors = [_tensor(inner, "float", (), where) for inner in shape if isinstance(inner, list)]
        else:
            tensors = []
        reads += tensors
        values.append(None if tensors else _value(str(text)))
    return reads, values, next(filter(None, (_TYPES[kind][0] for kind in map(str, types) if kind in _TYPES)), "")


def _tensor(shape: Value, kind: str, strides: Value, where: str) -> TraceTensor:
    """Return a tensor of this shape and type, whose storage is not known (-1); WorkloadError where the shape is no list
    of sizes.

    ``kind`` is one of the names of types that are known; ``strides`` are elements from one to the next along each axis,
    left out where they do not fit the shape.
    """
    if not _is_shape(shape):
        raise WorkloadError(f"{where}: 'Input Dims': {shape!r}: expected a list of whole numbers")
    number_format, size = _TYPES[kind]
    known = tuple(strides) if _is_shape(strides) and len(strides) == len(shape) else ()
    return TraceTensor(-1, 0, tuple(shape), size, bool(number_format), "", known)


def _is_shape(shape: Value) -> bool:
    """Return whether a value is a sequence of whole numbers of at least 0."""
    return isinstance(shape, Sequence) and all(type(size) is int and size >= 0 for size in shape)


def _value(text: str) -> object:
    """Return the value of a text that is JSON but for Python's ``True`` and ``False``, such as ``[1, 1]`` and ``0.5``;
    other texts as they are."""
    try:
        return json.loads(text.replace("True", "true").replace("False", "false"))
    except (ValueError, RecursionError):
        return text


# Work of an accelerator in a profile: who launched it, what exchanges data among ranks, how it overlaps.
#
# A launch (category ``cuda_runtime``, ...) belongs to the innermost call that was open on its thread when it began;
# where none was, to the call of its external id. The correlation joins a kernel to its launch.

DEVICE = frozenset({"kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset", "mtia_ccp_events"})
"""Categories of an accelerator's work."""
LAUNCHES = ("_runtime", "_driver", "Runtime")
"""Ends of the categories of launches."""
_SIZES = {8: "Double Long", 4: "Float Int", 2: "Half BFloat16 Short", 1: "Float8_e4m3fn Float8_e5m2 Char Byte Bool"}
_ELEMENT_BYTES = {name: size for size, names in _SIZES.items() for name in names.split()}
"""Bytes of an element by the name that PyTorch gives its type."""


class DeviceWork(NamedTuple):
    """One piece of work of the accelerator."""

    name: str
    begin: float
    """Seconds on the trace's clock."""
    seconds: float
    exchange: TracedExchange | None
    """The exchange that it carries out, if it does."""

    @property
    def end(self) -> float:
        """Seconds on the trace's clock at which it ends."""
        return self.begin + self.seconds


class Busy(NamedTuple):
    """Seconds of a window in which an accelerator, or a host, computes and exchanges."""

    computing: float
    exposed: float
    """Exchanging and not computing."""
    overlapped: float
    """Exchanging beside computing; a part of ``computing``."""
    idle: float

    @property
    def window(self) -> float:
        """Seconds of the whole window: computing, exposed exchanging and idle."""
        return self.computing + self.exposed + self.idle


def busy(
    computing: Iterable[tuple[float, float]], exchanging: Iterable[tuple[float, float]], window: tuple[float, float]
) -> Busy:
    """Return how the seconds of a window (begin, end) divide into computing (exchanging at the same time or not),
    exchanging alone (``exposed``) and idle ones.

    Intervals are (begin, end) in seconds of the same clock and may overlap, count once where they do, and do not count
    outside of the window. Exchanging beside computing is ``overlapped``, a part of ``computing``.
    """
    computed, exchanged = _union(computing, window), _union(exchanging, window)
    either = _length(_union([*computed, *exchanged], window))
    alone, together = _length(computed), _length(exchanged)
    return Busy(alone, either - alone, alone + together - either, window[1] - window[0] - either)


def _union(intervals: Iterable[tuple[float, float]], window: tuple[float, float]) -> list[tuple[float, float]]:
    """Return the union of intervals, cut to the window, as disjoint ones in order."""
    merged: list[tuple[float, float]] = []
    for begin, end in sorted((max(begin, window[0]), min(end, window[1])) for begin, end in intervals):
        if end <= begin:
            continue
        if merged and begin <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((begin, end))
    return merged


def _length(intervals: Sequence[tuple[float, float]]) -> float:
    """Return the summed lengths of intervals that do not overlap."""
    return sum(end - begin for begin, end in intervals)


class OpenCalls:
    """The calls of one thread, by when they are open."""

    def __init__(self, spans: Sequence[tuple[float, float, int]]) -> None:
        """``spans`` are begins, ends and numbers of calls inside each other, in the order of the begins."""
        self._begins = [begin for begin, _, _ in spans]
        self._spans = spans
        self.outer: list[int] = []
        """Place of the call in which each begins; -1 where there is none."""
        stack: list[int] = []
        for place, (begin, _, _) in enumerate(spans):
            while stack and spans[stack[-1]][1] <= begin:
                stack.pop()
            self.outer.append(stack[-1] if stack else -1)
            stack.append(place)

    def at(self, moment: float) -> int | None:
        """Return the number of the innermost call that is open at a moment, on the trace's clock; None where none
        is."""
        place = bisect_right(self._begins, moment) - 1
        while place >= 0 and self._spans[place][1] < moment:
            place = self.outer[place]
        return self._spans[place][2] if place >= 0 else None


def exchange_of(name: str, arguments: Mapping[str, Any], seconds: float) -> TracedExchange | None:
    """Return the exchange that a kernel, or a call of a communication library, carries out; None for other work.

    ``torch.profiler`` of PyTorch 2.2 and later states its collective, elements, number format and group in
    ``arguments``, the fields of an event's ``args``. A collective of an unknown name keeps this name as its kind; bytes
    are those that this rank puts in, None where elements or format are missing; the group is the description of the
    process group, or else its name, and ranks are its size. Where nothing is stated, the kind follows from the ``name``
    (``unknown`` where that does not say), bytes and ranks are None, and the group is empty. ``seconds`` are stored as
    the exchange's time.
    """
    stated = arguments.get("Collective name")
    kind = kind_of_words(str(stated)) or str(stated) if stated else kind_of_kernel(name)
    if not kind:
        return None
    elements, size = arguments.get("In msg nelems"), _ELEMENT_BYTES.get(str(arguments.get("dtype")))
    nbytes = elements * size if type(elements) is int and elements >= 0 and size else None
    ranks = arguments.get("Group size")
    group = str(arguments.get("Process Group Description") or arguments.get("Process Group Name") or "")
    return TracedExchange(kind, nbytes, group, seconds, ranks if type(ranks) is int and ranks > 0 else None)


_HOST = frozenset({"cpu_op", "user_annotation", "Operator"})
_SILENT = frozenset({"Trace", "gpu_user_annotation", "ac2g", "python_function", "cuda_sync", "overhead", "None"})
"""Categories that hold no work of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The operators of the steps of a profile."""

    name: str
    """Name of the file."""
    sha256: str
    calls: tuple[Call, ...]
    """Operators, backward nodes and optimizer steps that no other one made, of all steps, in the order in which they
    began."""
    roots: tuple[Call, ...]
    """A call for each thread, which holds what ran there."""
    steps: int
    step_seconds: float | None
    """Mean duration of a step on the host; None where the profiler marked no steps."""
    devices: tuple[str, ...]
    """Names of the GPUs; none in a profile of the host alone."""
    device_seconds: float
    """Duration of all work of the GPU in the trace."""
    unattributed_seconds: float
    """The part of it that no operator launched, such as what ``torch.compile`` generates."""
    work: tuple[DeviceWork, ...] = ()
    """All work of the accelerator, in the order in which it began."""
    marks: tuple[tuple[float, float], ...] = ()
    """Begin and end of each marked step on the host."""
    memory: float | None = None
    """Bytes of the first device's main memory; None where the trace does not say."""
    distributed: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the trace about the job: ``backend``, ``rank``, ``world_size``."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Events of categories that are not read, by category."""

    @property
    def on_device(self) -> bool:
        """True if the trace holds work of an accelerator that took time."""
        return self.device_seconds > 0


def read_profile(path: Path) -> Profile:
    """Return a profile (.json or .json.gz) that ``torch.profiler`` wrote with ``record_shapes=True``.

    Its calls are the outermost operators, backward nodes and optimizer steps of all marked steps; where none is marked,
    those of the whole trace, which counts as one step of unknown seconds (None).

    Raises:
        ConfigError: unreadable, not gzip, or not JSON.
        WorkloadError: no profile, one without operators or shapes, or a malformed event; the message names it.
    """
    document, events = read_document(path)
    host = _host_calls(events, path)
    work, unattributed = _attribute(events, host)
    marked = marked_steps(host.roots)
    calls = [call for _, step in marked for call in step] if marked else list(leaves(host.roots))
    if not any(call.reads for call in host.calls):
        raise WorkloadError(
            f"{path}: no operator states the shapes of its inputs: profile again with record_shapes=True"
        )
    marks = sorted((call.begin, call.end) for call in host.calls if call.name.startswith("ProfilerStep"))
    distributed, listed = document.get("distributedInfo"), document.get("deviceProperties")
    properties = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    names = (entry.get("name") for entry in properties)
    memory = properties[0].get("totalGlobalMem") if properties else None
    return Profile(
        name=path.name,
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        calls=tuple(calls),
        roots=tuple(host.roots),
        steps=max(len(marked), 1),
        step_seconds=sum(end - begin for begin, end in marks) / len(marks) if marks else None,
        devices=tuple(dict.fromkeys(name for name in names if isinstance(name, str))),
        device_seconds=sum(piece.seconds for piece in work),
        unattributed_seconds=unattributed,
        work=tuple(sorted(work, key=lambda piece: piece.begin)),
        marks=tuple(marks),
        memory=float(memory) if isinstance(memory, int | float) and memory > 0 else None,
        distributed=distributed if isinstance(distributed, dict) else {},
        left_out=_left_out(events),
    )


def _left_out(events: Sequence[Event]) -> dict[str, int]:
    """Return the number of events of each category that is not read, by category."""
    known = _HOST | DEVICE | _SILENT
    return dict(Counter(e.category for e in events if e.category not in known and not e.category.endswith(LAUNCHES)))


class _Host(NamedTuple):
    """The calls of the host."""

    roots: list[Call]
    """A call for each thread, which holds what ran there."""
    calls: list[Call]
    threads: dict[tuple[str, str], OpenCalls]
    """When calls are open, by number, on each process and thread."""
    by_external_id: dict[int, int]
    """Numbers of the calls."""

    def numbered(self, number: int | None, event: Event) -> int | None:
        """Return ``number`` unless it is None, else the number of the call whose external id ``event``, of the
        accelerator or a launch, states; None where there is none."""
        external = event.external_id
        return self.by_external_id.get(external) if number is None and isinstance(external, int) else number


def _host_calls(events: Sequence[Event], path: Path) -> _Host:
    """Return the calls of the host, put inside each other by their times on each thread, with a made-up root for each
    thread, when each is open, and their numbers by external id; WorkloadError if there are none.

    Numbers are places among the host's calls in the file. Calls get their rank by begin as ids, roots −1, −2, ..., and
    as own seconds their duration without that of calls directly inside.
    """
    threads: dict[tuple[str, str], list[int]] = defaultdict(list)
    every: list[Call] = []
    external: dict[int, int] = {}
    for event in (event for event in events if event.category in _HOST):
        threads[event.thread].append(len(every))
        if isinstance(event.external_id, int):
            external[event.external_id] = len(every)
        every.append(_call(event))
    if not threads:
        raise WorkloadError(f"{path}: holds no operator: expected events of category cpu_op, such as aten::mm")
    for number, call in enumerate(sorted(every, key=lambda call: call.begin)):
        call.id = number
    roots: list[Call] = []
    open_calls: dict[tuple[str, str], OpenCalls] = {}
    for number, (place, members) in enumerate(threads.items()):
        thread = Call(-1 - number, f"thread {place[1]}", "", -1, [], [], [])
        roots.append(thread)
        members.sort(key=lambda member: (every[member].begin, -every[member].seconds))
        opened = OpenCalls([(every[member].begin, every[member].end, member) for member in members])
        open_calls[place] = opened
        for member, outer in zip(members, opened.outer, strict=True):
            (every[members[outer]] if outer >= 0 else thread).calls.append(every[member])
    for call in every:
        call.own_seconds = max(call.seconds - sum(entry.seconds for entry in call.calls), 0.0)
    return _Host(roots, every, open_calls, external)


def _attribute(events: Sequence[Event], host: _Host) -> tuple[list[DeviceWork], float]:
    """Add the accelerator's work to the calls that launched it (``host``), in place: seconds and names of kernels.

    Return (all work, summed seconds of the part that no call launched or that exchanges data, which is added to none).
    ``events`` are all of the profile.
    """
    launched_by: dict[str, int | None] = {}
    for event in events:
        if event.category.endswith(LAUNCHES):
            number = host.threads[event.thread].at(event.begin()) if event.thread in host.threads else None
            launched_by[str(event.arguments.get("correlation"))] = host.numbered(number, event)
    work: list[DeviceWork] = []
    unattributed = 0.0
    for event in (event for event in events if event.category in DEVICE):
        seconds = event.seconds()
        number = host.numbered(launched_by.get(str(event.arguments.get("correlation"))), event)
        exchange = exchange_of(event.name, event.arguments, seconds)
        if number is None or exchange is not None:
            unattributed += seconds
        else:
            host.calls[number].device_seconds += seconds
            host.calls[number].kernels.append(event.name)
        if exchange is not None and number is not None:
            exchange = _completed(exchange, host.calls[number])
        work.append(DeviceWork(event.name, event.begin(), seconds, exchange))
    return work, unattributed


def _completed(exchange: TracedExchange, launch: Call) -> TracedExchange:
    """Return an exchange with the kind of the call that launched it where its own is ``send and receive``, and with the
    bytes of the tensors that the call reads where its own are None.

    NCCL sends and receives for an all-to-all with one kernel, which tells neither. Where the call's name says no kind,
    or it reads nothing, the exchange keeps what it has.
    """
    kind = kind_of_words(launch.name) if exchange.kind == "send and receive" else ""
    nbytes = sum(tensor.nbytes for tensor in launch.reads) or None
    known = exchange.nbytes if exchange.nbytes is not None else nbytes
    return replace(exchange, kind=kind or exchange.kind, nbytes=known)


def _call(event: Event) -> Call:
    """Return the call of an event of the host, without its place among others: its id is 0 and it holds no inner calls.

    Its schema is its name for an operator of a library (``aten::mm``), and empty for annotations and backward nodes;
    its sequence number is −1 where none is stated. WorkloadError if it has no name, or malformed times or arguments.
    """
    name = event.fields.get("name")
    if not isinstance(name, str) or not name:
        raise WorkloadError(f"{event.where}: field 'name': expected a text")
    reads, values, precision = arguments_of(event.arguments, event.where)
    sequence = event.arguments.get("Sequence number")
    return Call(
        id=0,
        name=name,
        # Operators of libraries have a schema, which profiles leave out; annotations and backward nodes have none.
        schema=name if "::" in name and not name.startswith("autograd::") else "",
        sequence=sequence if type(sequence) is int and sequence >= 0 else -1,
        reads=reads,
        returns=[],
        values=values,
        precision=precision,
        begin=event.begin(),
        seconds=event.seconds(),
    )


# Profiles as compute graphs, with the times of the accelerator's kernels or of the host's calls.
#
# A profile states neither which tensor is which nor what calls return, so that edges, outputs and parameters follow
# from shapes; an execution trace of the same step says them. FLOPs, passes and steps are those of execution traces.

# Shapes of what calls return, and which call made what another reads: a profile states the shapes of inputs alone.
#
# Shapes of results follow from the rules of the operators that have one here; others return a tensor like their
# largest input. A call reads the result of the last one that made as many elements, unless the tensor is a parameter.

_COPIES = ("clone", "copy_", "cat", "stack")
"""Calls inside an operator that moves data, though strides could say what it means."""
_WORDS = {
    (1, 2): "conv batch_norm norm linear mkldnn_linear",
    (0, 2): "addmm addmm_activation",
    (1,): "experts mm scaled_mm scaled_mm_v2",
    (0,): "embedding",
}
_PLACES = {word: places for places, words in _WORDS.items() for word in words.split()}
"""Places of weights and biases among the tensors of an operator, by its word or its kind."""
_STATISTICS = (3, 4)
"""Places of running means and variances among the tensors of a batch norm."""


class Wiring:
    """Storages of the tensors of calls, one call after another."""

    def __init__(self, gradients: Sequence[tuple[int, ...]]) -> None:
        """``gradients`` are the shapes of the gradients that the backward pass kept; none without a backward pass."""
        self._left = Counter(gradients)
        self._known = bool(gradients)
        self._storages = count(2)
        self._made: dict[int, int] = {}
        """The storage that was made last with so many elements."""

    def connect(self, call: Call) -> None:
        """Give the tensors that a call of the forward pass reads their storages, in place, and set what it returns: one
        tensor.

        A view or a call in place returns its first tensor, any other one a new storage; a call that reads nothing
        returns nothing.
        """
        word = plain_word(call.name)
        kind = KIND_OF_WORD.get(word, "")
        places = _PLACES.get(word) or (_PLACES.get(kind, ()) if kind != "linear" else ())
        statistics = _STATISTICS if kind == "batch_norm" else ()
        call.reads = [
            self._read(tensor, place, is_parameter=place in places, is_statistic=place in statistics)
            for place, tensor in enumerate(call.reads)
        ]
        if call.reads and (is_view(call) or call.word.endswith("_")):
            call.returns = [replace(call.reads[0], argument="")]
        elif call.reads:
            like, shape = next((tensor for tensor in call.reads if tensor.floating), call.reads[0]), result_shape(call)
            made = replace(like, storage=next(self._storages), offset=0, shape=shape, argument="", strides=())
            self._made[made.elements] = made.storage
            call.returns = [made]

    def _read(self, tensor: TraceTensor, place: int, *, is_parameter: bool, is_statistic: bool) -> TraceTensor:
        """Return a tensor that a call reads, with a storage: a new one for a statistic, whose argument is then named
        ``running_<place>``, and for a parameter (``weight``), else that of the last result of as many elements, or a
        new one where there is none.

        Args:
            tensor: the tensor, without a storage.
            place: its number among the tensors that the call reads.
            is_parameter: whether weights or biases stand at this place; where gradients are known, it is taken as one
                only while a gradient of its shape is left, which it claims.
            is_statistic: whether a running mean or variance stands there.
        """
        if is_statistic:
            return replace(tensor, storage=next(self._storages), argument=f"running_{place}")
        if is_parameter and tensor.floating and (not self._known or self._left[tensor.shape] > 0):
            self._left[tensor.shape] -= self._known
            return replace(tensor, storage=next(self._storages), argument="weight")
        return replace(tensor, storage=self._made.get(tensor.elements) or next(self._storages))


def is_view(call: Call) -> bool:
    """Return whether a call moves no data: a view by its name, without a copy among the calls inside it."""
    return plain_word(call.name) in VIEWS and not any(inner.word in _COPIES for inner in walk(call.calls))


def result_shape(call: Call) -> tuple[int, ...]:
    """Return the shape of what a call returns: by a rule of its operator, else that of the last call inside it that
    reads tensors and is no view, else that of its largest input; () if it reads none."""
    try:
        shape = _ruled(call, [tensor.shape for tensor in call.reads])
    except (IndexError, TypeError, ValueError, ZeroDivisionError):
        shape = None
    if shape is None and (inner := [entry for entry in call.calls if entry.reads and not is_view(entry)]):
        return result_shape(inner[-1])
    return max((tensor.shape for tensor in call.reads), key=math.prod, default=()) if shape is None else shape


def _ruled(call: Call, shapes: list[tuple[int, ...]]) -> tuple[int, ...] | None:
    """Return the shape of a call's result by the rule of its operator, from the shapes that it reads: for products,
    embeddings, pooling and losses, which give (); None where there is no rule.

    IndexError, TypeError or ValueError where the call lacks arguments that the rule needs, ZeroDivisionError for a
    stride of 0.
    """
    word, values = call.word, call.values
    if cost := product(call.name, shapes, None, values):
        return cost.shape
    if word == "embedding":
        return (*shapes[1], shapes[0][-1])
    if word.startswith("adaptive_") and isinstance(values[1], list):
        sizes = tuple(int(size) for size in values[1])
        return (*shapes[0][: len(shapes[0]) - len(sizes)], *sizes)
    if word.startswith(("max_pool", "avg_pool")):
        kernel, stride, padding = (_pair(value) for value in values[1:4])
        sizes = shapes[0][-len(kernel) :]
        pooled = [
            (size + 2 * pad - length) // step + 1
            for size, length, step, pad in zip(sizes, kernel, stride or kernel, padding, strict=True)
        ]
        return (*shapes[0][: -len(kernel)], *pooled)
    return () if KIND_OF_WORD.get(plain_word(call.name)) == "loss" else None


def _pair(value: object) -> list[int]:
    """Return the whole numbers of a recorded list, of any length; ValueError for anything else."""
    if not isinstance(value, list) or not all(type(entry) is int for entry in value):
        raise ValueError("not recorded")
    return value


def read_kineto_workload(path: Path, *, batch: int | None = None, step: int | None = None) -> TraceReading:
    """Return the graph of one step of a profile, gzip or not, with its measured times (and the accelerator and number
    format of these, as far as the profile tells), notes and exchanges.

    Args:
        path: the profile, which must state the shapes of inputs (``record_shapes=True``).
        batch: number of samples in the trace; by default the first axis of the first tensor that is no parameter and
            that a product or a look-up reads, or else any other call.
        step: which step, as the profiler counts, or from 0 on where it marks none; by default the first one that has a
            backward pass, or else the first.

    Raises:
        ConfigError: unreadable, not gzip, or not JSON.
        WorkloadError: no profile, one without operators, shapes or samples that operators read, a malformed event, or
            no such step.
    """
    profile = read_profile(path)
    roots = list(profile.roots)
    wiring = Wiring([call.reads[0].shape for call in walk(roots) if call.name == GRADIENT and call.reads])
    for call in walk(roots):
        if call.reads:
            call.returns = [replace(call.reads[0], storage=-2, shape=result_shape(call))]
    for call in sorted(_forward(roots), key=lambda call: call.id):
        wiring.connect(call)
    exchanges = tuple(piece.exchange for piece in profile.work if piece.exchange is not None)
    recording = Recording(roots, exchanges, timed=True, on_device=profile.on_device)
    device = profile.devices[0] if profile.devices and profile.on_device else ""
    reading = reading_of(recording, path, batch=batch, step=step, machine=device)
    if (measured := reading.graph.measured) is not None:
        named = accelerator_of_device(device, profile.memory) if device else None
        precision = _precision(_forward(roots))
        graph = replace(reading.graph, measured=replace(measured, accelerator=named, precision=precision))
        reading = replace(reading, graph=graph)
    return replace(reading, unrecorded=(*_unrecorded(profile), *reading.unrecorded))


def _forward(roots: Sequence[Call]) -> Iterator[Call]:
    """Return an iterator of the operators that no other one made, those of the backward pass and of the optimizer left
    out."""
    return (call for call in leaves(roots) if call.schema and not call.name.startswith((BACKWARD, "Optimizer.")))


def _precision(calls: Iterator[Call]) -> str:
    """Return the number format (``fp32``, ``bf16``, ...) in which most seconds on the host were spent in the calls;
    ``tf32`` where kernels of float32 say so.

    Empty where no call states one.
    """
    seconds: dict[str, float] = defaultdict(float)
    for call in calls:
        if call.precision:
            names = [name for inner in walk([call]) for name in inner.kernels]
            tf32 = call.precision == "fp32" and any("tf32" in name or "s1688" in name for name in names)
            seconds["tf32" if tf32 else call.precision] += call.seconds
    return max(seconds, key=lambda name: seconds[name], default="")


def _unrecorded(profile: Profile) -> Iterator[str]:
    """Yield lines on what the profile does not record, and what is left out of it."""
    yield "edges, outputs and which tensors are parameters: taken from shapes (an execution trace states them)"
    for name, events in profile.left_out.items():
        yield f"{events} events of category {name} are left out"
    unattributed = profile.unattributed_seconds - sum(piece.seconds for piece in profile.work if piece.exchange)
    if unattributed > 0.01 * profile.device_seconds:
        share = unattributed / profile.device_seconds
        yield f"{share:.1%} of the accelerator's time was launched by no operator, and is left out"
    distributed = profile.distributed
    if "world_size" in distributed:
        rank, backend = distributed.get("rank", "?"), distributed.get("backend", "?")
        yield f"what other ranks computed: the trace is of rank {rank} of {distributed['world_size']} ({backend})"
