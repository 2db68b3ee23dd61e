"""Profiles of ``torch.profiler`` (Kineto, in Chrome's trace format): operators, their times, the GPU work they launch.

    cpu_op, user_annotation       calls on the host, inside each other on one thread as their times are
    cuda_runtime, cuda_driver     launches; the call that is open on their thread launches
    kernel, gpu_memcpy, ...       work of the accelerator; the correlation names its launch
    nccl:..., c10d::...           exchanges among ranks, on the accelerator and on the host

Calls are those of execution traces (``calls.py``) with times; ``ProfilerStep#N`` marks steps in both.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

from lightloom.core.errors import WorkloadError
from lightloom.core.files import cannot_read
from lightloom.interchange.traces.calls import Call
from lightloom.interchange.traces.exchanges import TracedExchange, kind_of_words
from lightloom.interchange.traces.kineto_arguments import arguments_of
from lightloom.interchange.traces.kineto_device import DEVICE, LAUNCHES, DeviceWork, OpenCalls, exchange_of
from lightloom.interchange.traces.kineto_events import Event, devices_of, memory_of, read_document
from lightloom.interchange.traces.steps import leaves, marked_steps

_HOST = frozenset({"cpu_op", "user_annotation", "Operator"})
_SILENT = frozenset({"Trace", "gpu_user_annotation", "ac2g", "python_function", "cuda_sync", "overhead", "None"})
"""Categories that hold no work of their own."""


@dataclass(slots=True)
class TimedCall(Call):
    """A call with its time on the host, and that of the GPU work which it launched itself."""

    precision: str = ""
    """Number format of its first floating-point tensor; empty without one."""
    begin: float = 0.0
    """Seconds on the trace's clock."""
    seconds: float = 0.0
    """Duration on the host, inner calls included."""
    device_seconds: float = 0.0
    """Duration of the GPU's work that it launched, that of inner calls left out."""
    kernels: list[str] = field(default_factory=list)
    """Names of that work."""

    @property
    def end(self) -> float:
        return self.begin + self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The operators of the steps of a profile."""

    name: str
    """Name of the file."""
    sha256: str
    calls: tuple[TimedCall, ...]
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
    """What the trace says of the job: ``backend``, ``rank``, ``world_size``."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Events of categories that are not read, by category."""

    @property
    def on_device(self) -> bool:
        """Whether the trace holds work of a GPU."""
        return self.device_seconds > 0


def read_profile(path: Path) -> Profile:
    """Read a profile (.json or .json.gz) that ``torch.profiler`` wrote with ``record_shapes=True``.

    Raises:
        ConfigError: unreadable, not gzip, or not JSON.
        WorkloadError: no profile, one without operators or shapes, or a malformed event; the message names it.
    """
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise cannot_read(path, error) from error
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
    distributed = document.get("distributedInfo")
    return Profile(
        name=path.name,
        sha256=digest,
        calls=tuple(call for call in calls if isinstance(call, TimedCall)),
        roots=tuple(host.roots),
        steps=max(len(marked), 1),
        step_seconds=sum(end - begin for begin, end in marks) / len(marks) if marks else None,
        devices=devices_of(document),
        device_seconds=sum(piece.seconds for piece in work),
        unattributed_seconds=unattributed,
        work=tuple(sorted(work, key=lambda piece: piece.begin)),
        marks=tuple(marks),
        memory=memory_of(document),
        distributed=distributed if isinstance(distributed, dict) else {},
        left_out=_left_out(events),
    )


def _left_out(events: Sequence[Event]) -> dict[str, int]:
    """Return how many events there are of each category that is not read."""
    counts = Counter(event.category for event in events)
    known = _HOST | DEVICE | _SILENT
    return {name: count for name, count in counts.items() if name not in known and not name.endswith(LAUNCHES)}


class _Host(NamedTuple):
    """The calls of the host."""

    roots: list[Call]
    """A call for each thread, which holds what ran there."""
    calls: list[TimedCall]
    threads: dict[tuple[str, str], OpenCalls]
    """When calls are open, by number, on each process and thread."""
    by_external_id: dict[int, int]
    """Numbers of the calls."""

    def numbered(self, number: int | None, event: Event) -> int | None:
        """Return a call's number, or without one that of the event's external id."""
        external = event.external_id
        return self.by_external_id.get(external) if number is None and isinstance(external, int) else number


def _host_calls(events: Sequence[Event], path: Path) -> _Host:
    threads: dict[tuple[str, str], list[int]] = defaultdict(list)
    every: list[TimedCall] = []
    external: dict[int, int] = {}
    for event in events:
        if event.category in _HOST:
            threads[event.thread].append(len(every))
            number = event.external_id
            if isinstance(number, int):
                external[number] = len(every)
            every.append(_call(event))
    if not threads:
        raise WorkloadError(f"{path}: holds no operator: expected events of category cpu_op, such as aten::mm")
    for number, call in enumerate(sorted(every, key=lambda call: call.begin)):
        call.id = number
    roots: list[Call] = []
    open_calls: dict[tuple[str, str], OpenCalls] = {}
    for number, (place, members) in enumerate(threads.items()):
        thread = TimedCall(-1 - number, f"thread {place[1]}", "", -1, [], [], [])
        thread.calls += _nested([every[member] for member in members])
        roots.append(thread)
        members.sort(key=lambda member: (every[member].begin, -every[member].seconds))
        open_calls[place] = OpenCalls([(every[member].begin, every[member].end, member) for member in members])
    for call in every:
        inner = sum(entry.seconds for entry in cast("list[TimedCall]", call.calls))
        call.own_seconds = max(call.seconds - inner, 0.0)
    return _Host(roots, every, open_calls, external)


def _nested(calls: list[TimedCall]) -> Iterator[TimedCall]:
    """Attach each call of a thread to the one in which it begins, and yield those that begin in none."""
    open_calls: list[TimedCall] = []
    for call in sorted(calls, key=lambda call: (call.begin, -call.seconds)):
        while open_calls and call.begin >= open_calls[-1].end:
            open_calls.pop()
        if open_calls:
            open_calls[-1].calls.append(call)
        else:
            yield call
        open_calls.append(call)


def _attribute(events: Sequence[Event], host: _Host) -> tuple[list[DeviceWork], float]:
    """Add the accelerator's work to the calls that launched it; return it, and the seconds that none launched."""
    launched_by: dict[str, int | None] = {}
    for event in events:
        if event.category.endswith(LAUNCHES):
            number = host.threads[event.thread].at(event.begin()) if event.thread in host.threads else None
            launched_by[str(event.arguments.get("correlation"))] = host.numbered(number, event)
    work: list[DeviceWork] = []
    unattributed = 0.0
    for event in events:
        if event.category not in DEVICE:
            continue
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


def _completed(exchange: TracedExchange, launch: TimedCall) -> TracedExchange:
    """Return an exchange with the kind and bytes of the call that launched it, where its kernel does not tell them.

    NCCL sends and receives for an all-to-all with one kernel, which tells neither.
    """
    kind = kind_of_words(launch.name) if exchange.kind == "send and receive" else ""
    nbytes = sum(tensor.nbytes for tensor in launch.reads) or None
    known = exchange.nbytes if exchange.nbytes is not None else nbytes
    return replace(exchange, kind=kind or exchange.kind, nbytes=known)


def _call(event: Event) -> TimedCall:
    name = event.fields.get("name")
    if not isinstance(name, str) or not name:
        raise WorkloadError(f"{event.where}: field 'name': expected a text")
    reads, values, precision = arguments_of(event.arguments, event.where)
    sequence = event.arguments.get("Sequence number")
    return TimedCall(
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
