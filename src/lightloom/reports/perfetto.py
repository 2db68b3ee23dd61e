"""A timeline as a Chrome trace, which https://ui.perfetto.dev opens.

Format: "Trace Event Format" (Chromium project): complete events ``X`` with begin and duration in
microseconds, metadata events ``M`` that name process and threads, counters ``C``, and flows from ``s`` to ``f`` for
every dependency between two resources: from computing to the collective that waits for it, and back.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lightloom.core.files import write_atomically
from lightloom.simulation.timeline import Counter, Timeline

MICROSECONDS = 1e6


def perfetto_trace(
    timeline: Timeline, *, title: str, provenance: Mapping[str, Any], counters: Sequence[Counter] = ()
) -> dict[str, Any]:
    """The trace as a JSON document: one process, one thread for each resource, a track for each counter."""
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
    events += _flows(timeline, threads)
    events += [
        {"ph": "C", "name": counter.name, "pid": 1, "ts": moment * MICROSECONDS, "args": {"value": value}}
        for counter in counters
        for moment, value in zip(counter.moments, counter.values, strict=True)
    ]
    return {"traceEvents": events, "displayTimeUnit": "ns", "metadata": {"provenance": dict(provenance)}}


def _flows(timeline: Timeline, threads: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """Yield both ends of an arrow for each dependency between intervals of two resources.

    An arrow begins in the middle of an interval, where no other one can be meant, and is drawn from its end.
    """
    of_task = {interval.task: interval for interval in timeline.intervals if interval.task is not None}
    count = 0
    for interval in timeline.intervals:
        for earlier in (of_task[number] for number in interval.after):
            if earlier.resource != interval.resource:
                count += 1
                for phase, end, moment in (("s", earlier, earlier.start + earlier.duration / 2), ("f", interval, None)):
                    yield {
                        "ph": phase,
                        "bp": "e",
                        "name": "waits for",
                        "cat": "dependency",
                        "id": count,
                        "pid": 1,
                        "tid": threads[end.resource],
                        "ts": (end.start if moment is None else moment) * MICROSECONDS,
                    }


def write_perfetto_trace(
    path: Path, timeline: Timeline, *, title: str, provenance: Mapping[str, Any], counters: Sequence[Counter] = ()
) -> Path:
    """Write the trace as JSON.

    Raises:
        ConfigError: the place cannot be written to.
    """
    document = perfetto_trace(timeline, title=title, provenance=provenance, counters=counters)
    return write_atomically(path, json.dumps(document, allow_nan=False, separators=(",", ":")) + "\n")


def _metadata(kind: str, thread: int, **arguments: Any) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": 1, "tid": thread, "args": arguments}
