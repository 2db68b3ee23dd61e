"""A timeline checks itself and accounts for every second."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.core.timeline import (
    SHARES,
    Counter,
    Interval,
    Timeline,
)
from lightloom.planning.simulation.engine import Task, run
from tests.simulation.test_engine import task_lists


def interval(resource: str, category: str, start: float, end: float) -> Interval:
    return Interval(resource=resource, category=category, name=f"{category} {start}", start=start, end=end)


def test_overlaps_are_refused_and_name_both() -> None:
    with pytest.raises(AssertionError, match=r"'forward 0' and 'forward 1' overlap on 'a'"):
        Timeline.of([interval("a", "forward", 1, 3), interval("a", "forward", 0, 2)])
    with pytest.raises(AssertionError, match="runs from 2 s to 1 s"):
        Timeline.of([interval("a", "forward", 2, 1)])
    with pytest.raises(AssertionError, match="no such category as 'lunch'"):
        Timeline.of([interval("a", "lunch", 0, 1)])


def test_breakdown_of_a_drawn_example() -> None:
    # compute  [0 ── 2]                [7 ─ 8]
    # network     [1 ─ 3 setup][3 ─ 6 send]         nothing runs from 6 to 7
    timeline = Timeline.of(
        [
            interval("compute", "forward", 0, 2),
            interval("network", "reconfiguration", 1, 3),
            interval("network", "transmission", 3, 6),
            interval("compute", "update", 7, 8),
        ]
    )
    assert timeline.breakdown() == {
        "compute_s": 3,
        "exposed_communication_s": 3,
        "exposed_reconfiguration_s": 1,
        "idle_s": 1,
    }
    assert timeline.busy_time()["reconfiguration"] == 2
    assert timeline.step_time == 8


@settings(deadline=None)
@given(tasks=task_lists())
def test_breakdown_adds_up(tasks: list[Task]) -> None:
    timeline = run(tasks)
    assert math.isclose(sum(timeline.breakdown().values()), timeline.step_time, rel_tol=1e-12)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(sorted(SHARES)), st.integers(0, 9), st.integers(0, 4)))
)
def test_every_second_counts_to_what_runs_in_it(rows: list[tuple[str, str, int, int]]) -> None:
    """Whole seconds, looked at one by one; an interval that would overlap on its resource is left out."""
    intervals: list[Interval] = []
    for resource, category, start, duration in rows:
        others = [each for each in intervals if each.resource == resource]
        if all(start + duration <= each.start or each.end <= start for each in others):
            intervals.append(interval(resource, category, start, start + duration))
    timeline = Timeline.of(intervals)
    expected = dict.fromkeys(("compute", "communication", "reconfiguration", "idle"), 0)
    for second in range(int(timeline.step_time)):
        running = {SHARES[each.category] for each in intervals if each.start <= second < each.end}
        expected[next((share for share in expected if share in running), "idle")] += 1
    names = ("compute_s", "exposed_communication_s", "exposed_reconfiguration_s", "idle_s")
    assert timeline.breakdown() == dict(zip(names, expected.values(), strict=True))
    busy = timeline.busy_time()
    assert busy.keys() == SHARES.keys()
    assert all(busy[c] == sum(each.duration for each in intervals if each.category == c) for c in SHARES)
    assert timeline.step_time == max((each.end for each in intervals), default=0)
    for resource in "abcd":
        own = [each for each in intervals if each.resource == resource]
        assert timeline.on(resource) == sorted(own, key=lambda each: (each.start, each.end))
    assert set(timeline.resources) == {each.resource for each in intervals}


def test_an_empty_step() -> None:
    assert Timeline.of([]).step_time == 0
    assert set(Timeline.of([]).breakdown().values()) == {0.0}


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(-3, 3))), st.integers(-2, 2))
def test_a_counter_adds_up_what_changes_until_each_moment(changes: list[tuple[int, int]], base: int) -> None:
    counter = Counter.of_changes("bytes", ((float(moment), float(change)) for moment, change in changes), float(base))
    assert counter.moments == tuple(sorted({moment for moment, _ in changes}))
    values = [base + sum(change for at, change in changes if at <= moment) for moment in counter.moments]
    assert counter.values == tuple(values)
    seconds = range(int(min(counter.moments, default=0)), int(max(counter.moments, default=0)))
    held = [base + sum(change for at, change in changes if at <= second) for second in seconds]
    spans = (end - start for start, end in pairwise(counter.moments))
    assert sum(value * span for value, span in zip(counter.values, spans, strict=False)) == sum(held)


def test_a_counter_drops_what_rounding_leaves() -> None:
    changes = [(0.0, 0.1), (1.0, 0.2), (2.0, -0.3), (3.0, 1e-3)]
    values = Counter.of_changes("rate", changes).values
    assert values[2] == 0.0 and values == pytest.approx((0.1, 0.3, 0.0, 1e-3))
