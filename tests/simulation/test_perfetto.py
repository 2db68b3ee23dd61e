"""The trace is what Perfetto reads, and nothing is lost on the way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lightloom.core.provenance import provenance
from lightloom.reports.perfetto import write_perfetto_trace
from tests.parallelism.strategies import chain
from tests.simulation.prices import linear
from tests.simulation.test_step import plan, step


def test_intervals_round_trip(tmp_path: Path) -> None:
    timeline = step(plan("fsdp", chain([(1_000_000, 10**12, 100)] * 4)), linear(1e9, setup=1e-5)).timeline
    origin = provenance({"model": "chain"})
    path = write_perfetto_trace(tmp_path / "trace.json", timeline, title="a step", provenance=origin)
    document = json.loads(path.read_text())
    assert document["metadata"]["provenance"] == origin

    threads = {e["tid"]: e["args"]["name"] for e in document["traceEvents"] if e["name"] == "thread_name"}
    assert list(threads.values()) == timeline.resources
    assert [e["args"]["name"] for e in document["traceEvents"] if e["name"] == "process_name"] == ["a step"]
    complete = [e for e in document["traceEvents"] if e["ph"] == "X"]
    assert len(complete) == len(timeline.intervals)
    for event, interval in zip(complete, timeline.intervals, strict=True):
        assert (event["name"], event["cat"], threads[event["tid"]]) == (
            interval.name,
            interval.category,
            interval.resource,
        )
        assert event["ts"] * 1e-6 == pytest.approx(interval.start)
        assert event["dur"] * 1e-6 == pytest.approx(interval.duration)
        assert event["args"] == dict(interval.details)
