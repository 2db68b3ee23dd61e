"""Events of a profile: its JSON document, and the complete events (phase X) with their times."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard

from lightloom.core.documents import MOST_TRACE_BYTES, read_bytes
from lightloom.core.errors import ConfigError, WorkloadError
from lightloom.interchange.traces.calls import LONGEST_MICROSECONDS

JsonObject: TypeAlias = Mapping[str, Any]
"""An object of a profile's JSON, which anyone may have written."""

_MICROSECOND = 1e-6


@dataclass(frozen=True, slots=True)
class Event:
    """A complete event of a profile: it has a begin and a duration."""

    where: str
    """File and number, for messages."""
    fields: JsonObject
    origin: float
    """Microseconds at which the clock of the profile begins, so that differences are exact."""

    @property
    def category(self) -> str:
        return str(self.fields.get("cat"))

    @property
    def name(self) -> str:
        return str(self.fields.get("name"))

    @property
    def thread(self) -> tuple[str, str]:
        """Process and thread that the event ran on, which tell streams and host threads apart."""
        return str(self.fields.get("pid")), str(self.fields.get("tid"))

    @property
    def arguments(self) -> JsonObject:
        arguments = self.fields.get("args")
        return arguments if isinstance(arguments, dict) else {}

    @property
    def external_id(self) -> object:
        """Number of the call that an event belongs to, as the profiler counts."""
        return self.arguments.get("External id", self.arguments.get("external id"))

    def begin(self) -> float:
        """Return the seconds at which it begins.

        Raises:
            WorkloadError: it states no number.
        """
        begin = self.fields.get("ts")
        if not _is_number(begin):
            raise WorkloadError(f"{self.where}: field 'ts': {begin!r}: expected microseconds")
        return float(begin - self.origin) * _MICROSECOND

    def seconds(self) -> float:
        """Return the seconds that it lasts.

        Raises:
            WorkloadError: it states no number, a negative one, or more than eleven days.
        """
        duration = self.fields.get("dur")
        if not _is_number(duration) or not 0 <= duration <= LONGEST_MICROSECONDS:
            raise WorkloadError(
                f"{self.where}: field 'dur': {duration!r}: expected 0 to {LONGEST_MICROSECONDS} microseconds (11 days)"
            )
        return float(duration) * _MICROSECOND


def _is_number(value: object) -> TypeGuard[int | float]:
    return not isinstance(value, bool) and isinstance(value, int | float) and math.isfinite(value)


def read_document(path: Path) -> tuple[JsonObject, list[Event]]:
    """Return what a profile says besides its events, and its complete events.

    Raises:
        ConfigError: unreadable, not gzip, or not JSON.
        WorkloadError: no profile, or an entry that is no event; names it.
    """
    document = _json(read_bytes(path, MOST_TRACE_BYTES), path)
    entries = document.get("traceEvents") if isinstance(document, dict) else document
    if not isinstance(entries, list):
        raise WorkloadError(f"{path}: expected a profile of torch.profiler: an object with a list of traceEvents")
    origin = min((entry["ts"] for _, entry in _complete(entries, path) if _is_number(entry.get("ts"))), default=0)
    events = [
        Event(f"{path}: entry {number} of traceEvents ({entry.get('name')!r})", entry, origin)
        for number, entry in _complete(entries, path)
    ]
    return document if isinstance(document, dict) else {}, events


def _complete(entries: Sequence[Any], path: Path) -> Iterator[tuple[int, JsonObject]]:
    for number, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise WorkloadError(
                f"{path}: entry {number} of traceEvents: expected an object, got {type(entry).__name__}"
            )
        if entry.get("ph") == "X":
            yield number, entry


def _json(content: bytes, path: Path) -> Any:
    try:
        return json.loads(content)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path}, line {error.lineno}, column {error.colno}: not JSON: {error.msg}") from error
    except (UnicodeDecodeError, RecursionError, ValueError) as error:
        raise ConfigError(f"{path}: not JSON: {error}") from error


def devices_of(document: JsonObject) -> tuple[str, ...]:
    """Return the names of the devices, each once."""
    names = (entry.get("name") for entry in _properties(document))
    return tuple(dict.fromkeys(name for name in names if isinstance(name, str)))


def memory_of(document: JsonObject) -> float | None:
    """Return the bytes of the first device's main memory; None where the profile does not say."""
    memory = next((entry.get("totalGlobalMem") for entry in _properties(document)), None)
    return float(memory) if isinstance(memory, int | float) and memory > 0 else None


def _properties(document: JsonObject) -> list[JsonObject]:
    properties = document.get("deviceProperties")
    return [entry for entry in properties if isinstance(entry, dict)] if isinstance(properties, list) else []
