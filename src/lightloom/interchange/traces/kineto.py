"""Profiles of ``torch.profiler`` (Kineto, in Chrome's trace format): operators, their times, the GPU work they launch.

    cpu_op, user_annotation       calls on the host, inside each other on one thread as their times are
    cuda_runtime, cuda_driver     launches; the external id names the operator that launches
    kernel, gpu_memcpy, ...       work of the GPU; the correlation names its launch

Calls are those of execution traces (``calls.py``) with times; ``ProfilerStep#N`` marks steps in both.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lightloom.core.errors import ConfigError, WorkloadError
from lightloom.core.files import cannot_read
from lightloom.interchange.traces.calls import Call
from lightloom.interchange.traces.kineto_arguments import arguments_of
from lightloom.interchange.traces.steps import leaves, marked_steps

_HOST = frozenset({"cpu_op", "user_annotation", "Operator"})
_LAUNCHES = ("_runtime", "_driver", "Runtime")
_DEVICE = frozenset({"kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset"})
_MICROSECOND = 1e-6


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
    steps: int
    step_seconds: float | None
    """Mean duration of a step on the host; None where the profiler marked no steps."""
    devices: tuple[str, ...]
    """Names of the GPUs; none in a profile of the host alone."""
    device_seconds: float
    """Duration of all work of the GPU in the trace."""
    unattributed_seconds: float
    """The part of it that no operator launched, such as what ``torch.compile`` generates."""

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
        content = path.read_bytes()
    except OSError as error:
        raise cannot_read(path, error) from error
    document = _json(_unpacked(content, path), path)
    events = document.get("traceEvents") if isinstance(document, dict) else document
    if not isinstance(events, list):
        raise WorkloadError(f"{path}: expected a profile of torch.profiler: an object with a list of traceEvents")
    roots, by_external_id = _host_calls(events, path)
    total, unattributed = _attribute(events, by_external_id, path)
    marked = marked_steps(roots)
    calls = [call for _, step in marked for call in step] if marked else list(leaves(roots))
    timed = tuple(call for call in calls if isinstance(call, TimedCall))
    if not any(call.reads for call in by_external_id.values()):
        raise WorkloadError(
            f"{path}: no operator states the shapes of its inputs: profile again with record_shapes=True"
        )
    marks = [call.seconds for call in by_external_id.values() if call.name.startswith("ProfilerStep")]
    return Profile(
        name=path.name,
        sha256=hashlib.sha256(content).hexdigest(),
        calls=timed,
        steps=max(len(marked), 1),
        step_seconds=sum(marks) / len(marks) if marks else None,
        devices=_devices(document),
        device_seconds=total,
        unattributed_seconds=unattributed,
    )


def _unpacked(content: bytes, path: Path) -> bytes:
    if path.suffix != ".gz":
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(f"{path}: not a whole gzip file: {error}") from error


def _json(content: bytes, path: Path) -> Any:
    try:
        return json.loads(content)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path}, line {error.lineno}, column {error.colno}: not JSON: {error.msg}") from error
    except (UnicodeDecodeError, RecursionError, ValueError) as error:
        raise ConfigError(f"{path}: not JSON: {error}") from error


def _host_calls(events: Sequence[Any], path: Path) -> tuple[list[Call], dict[int, TimedCall]]:
    """Return a call for each thread, which holds what ran there, and all calls by their external id."""
    threads: dict[tuple[Any, Any], list[tuple[TimedCall, int | None]]] = defaultdict(list)
    for where, event in _complete(events, path):
        if event.get("cat") in _HOST:
            call = _call(event, where)
            external = _arguments(event).get("External id")
            threads[str(event.get("pid")), str(event.get("tid"))].append((call, external))
    if not threads:
        raise WorkloadError(f"{path}: holds no operator: expected events of category cpu_op, such as aten::mm")
    every = [entry for calls in threads.values() for entry in calls]
    for number, (call, _) in enumerate(sorted(every, key=lambda entry: entry[0].begin)):
        call.id = number
    roots: list[Call] = []
    for number, (place, calls) in enumerate(threads.items()):
        thread = TimedCall(-1 - number, f"thread {place[1]}", "", -1, [], [], [])
        thread.calls += _nested([call for call, _ in calls])
        roots.append(thread)
    return roots, {
        external if isinstance(external, int) else -1 - number: call for number, (call, external) in enumerate(every)
    }


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


def _attribute(events: Sequence[Any], calls: Mapping[int, TimedCall], path: Path) -> tuple[float, float]:
    """Add the GPU's work to the operators that launched it; return all seconds of it, and those of no operator."""
    launched_by: dict[Any, Any] = {}
    for _, event in _complete(events, path):
        if str(event.get("cat")).endswith(_LAUNCHES):
            arguments = _arguments(event)
            launched_by[arguments.get("correlation")] = arguments.get("External id")
    total = unattributed = 0.0
    for where, event in _complete(events, path):
        if event.get("cat") not in _DEVICE:
            continue
        seconds, arguments = _duration(event, where), _arguments(event)
        external = launched_by.get(arguments.get("correlation"), arguments.get("External id"))
        call = calls.get(external) if isinstance(external, int) and external >= 0 else None
        total += seconds
        if call is None:
            unattributed += seconds
        else:
            call.device_seconds += seconds
            call.kernels.append(str(event.get("name")))
    return total, unattributed


def _complete(events: Sequence[Any], path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the complete events (phase X) of a trace, and where they are, for messages."""
    for number, event in enumerate(events):
        if not isinstance(event, dict):
            raise WorkloadError(
                f"{path}: entry {number} of traceEvents: expected an object, got {type(event).__name__}"
            )
        if event.get("ph") == "X":
            yield f"{path}: entry {number} of traceEvents ({event.get('name')!r})", event


def _call(event: Mapping[str, Any], where: str) -> TimedCall:
    name = event.get("name")
    if not isinstance(name, str) or not name:
        raise WorkloadError(f"{where}: field 'name': expected a text")
    begin = event.get("ts")
    if isinstance(begin, bool) or not isinstance(begin, int | float) or not math.isfinite(begin):
        raise WorkloadError(f"{where}: field 'ts': {begin!r}: expected microseconds")
    reads, values, precision = arguments_of(_arguments(event), where)
    return TimedCall(
        id=0,
        name=name,
        # Operators of libraries have a schema, which profiles leave out; annotations and backward nodes have none.
        schema=name if "::" in name and not name.startswith("autograd::") else "",
        sequence=-1,
        reads=reads,
        returns=[],
        values=values,
        precision=precision,
        begin=begin * _MICROSECOND,
        seconds=_duration(event, where),
    )


def _duration(event: Mapping[str, Any], where: str) -> float:
    duration = event.get("dur")
    if isinstance(duration, bool) or not isinstance(duration, int | float) or not 0 <= duration < math.inf:
        raise WorkloadError(f"{where}: field 'dur': {duration!r}: expected microseconds, at least 0")
    return duration * _MICROSECOND


def _arguments(event: Mapping[str, Any]) -> Mapping[str, Any]:
    arguments = event.get("args")
    return arguments if isinstance(arguments, dict) else {}


def _devices(document: Any) -> tuple[str, ...]:
    properties = document.get("deviceProperties") if isinstance(document, dict) else None
    entries = properties if isinstance(properties, list) else []
    names = [entry.get("name") for entry in entries if isinstance(entry, dict)]
    return tuple(dict.fromkeys(name for name in names if isinstance(name, str)))
