"""The trace is what Perfetto reads, and nothing is lost on the way."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from lightloom.core.results import provenance
from lightloom.reports.report import write_perfetto_trace
from tests.parallelism.strategies import chain
from tests.simulation.prices import linear
from tests.simulation.test_step import plan, step


def test_intervals_round_trip(tmp_path: Path) -> None:
    timeline = step(plan("fsdp", chain([(1_000_000, 10**12, 100)] * 4)), linear(1e9, setup=1e-5)).timeline
    origin = provenance({"model": "chain"})
    counters = [timeline.load()]
    path = write_perfetto_trace(tmp_path / "trace.json", timeline, title="a step", provenance=origin, counters=counters)
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

    samples = [(e["ts"] * 1e-6, e["args"]["value"]) for e in document["traceEvents"] if e["ph"] == "C"]
    assert [value for _, value in samples] == list(counters[0].values)
    assert [moment for moment, _ in samples] == pytest.approx(counters[0].moments)
    integral = sum(value * (end - start) for (start, value), (end, _) in pairwise(samples))
    sent = [interval for interval in timeline.intervals if interval.category == "transmission"]
    assert integral == pytest.approx(sum(interval.details["bytes"] for interval in sent))

    # Every end of a flow lies in a slice of its thread: computing at one end, what waits for it at the other.
    flows = [e for e in document["traceEvents"] if e["ph"] in "sf"]
    waits = sum(
        other.task in interval.after
        for interval in timeline.intervals
        for other in timeline.intervals
        if other.resource != interval.resource
    )
    assert len(flows) == 2 * waits > 0
    for begin, end in zip(flows[::2], flows[1::2], strict=True):
        assert (begin["ph"], end["ph"], begin["id"]) == ("s", "f", end["id"])
        assert begin["ts"] <= end["ts"]
        for flow in (begin, end):
            assert any(e["tid"] == flow["tid"] and e["ts"] <= flow["ts"] <= e["ts"] + e["dur"] + 1e-9 for e in complete)
