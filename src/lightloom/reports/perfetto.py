"""A timeline as a Chrome trace, which https://ui.perfetto.dev opens.

Format: "Trace Event Format" (Chromium project): complete events ``X`` with begin and duration in
microseconds, and metadata events ``M`` that name process and threads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightloom.core.files import write_atomically
from lightloom.simulation.timeline import Timeline

MICROSECONDS = 1e6


def perfetto_trace(timeline: Timeline, *, title: str, provenance: Mapping[str, Any]) -> dict[str, Any]:
    """The trace as a JSON document: one process, one thread for each resource."""
    threads = {resource: number for number, resource in enumerate(timeline.resources, start=1)}
    events: list[dict[str, Any]] = [_metadata("process_name", 0, name=title)]
    for resource, number in threads.items():
        events.append(_metadata("thread_name", number, name=resource))
        events.append(_metadata("thread_sort_index", number, sort_index=number))
    events += [
        {
            "ph": "X",
            "name": interval.name,
            "cat": interval.category,
            "pid": 1,
            "tid": threads[interval.resource],
            "ts": interval.start * MICROSECONDS,
            "dur": interval.duration * MICROSECONDS,
            "args": dict(interval.details),
        }
        for interval in timeline.intervals
    ]
    return {"traceEvents": events, "displayTimeUnit": "ns", "metadata": {"provenance": dict(provenance)}}


def write_perfetto_trace(path: Path, timeline: Timeline, *, title: str, provenance: Mapping[str, Any]) -> Path:
    """Write the trace as JSON.

    Raises:
        ConfigError: the place cannot be written to.
    """
    document = perfetto_trace(timeline, title=title, provenance=provenance)
    return write_atomically(path, json.dumps(document, allow_nan=False, separators=(",", ":")) + "\n")


def _metadata(kind: str, thread: int, **arguments: Any) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": 1, "tid": thread, "args": arguments}
