"""The engine obeys its rules on random task graphs, and equals a slow, obvious reference."""

from __future__ import annotations

import random
import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.core.timeline import Timeline
from lightloom.planning.simulation.engine import DeadlockError, Task, run


@st.composite
def task_lists(draw: st.DrawFn) -> list[Task]:
    count = draw(st.integers(0, 25))
    tasks: list[Task] = []
    for index in range(count):
        after = draw(st.lists(st.integers(0, index - 1), max_size=3, unique=True)) if index else []
        tasks.append(
            Task(
                name=str(index),
                resource=draw(st.sampled_from("abc")),
                category="forward",
                duration=draw(st.sampled_from([0.0, 0.5, 1.0, 3.0])),
                after=tuple(after),
                priority=draw(st.integers(-1, 1)),
            )
        )
    order = draw(st.permutations(range(count)))
    place = {old: new for new, old in enumerate(order)}
    return [tasks[old]._replace(after=tuple(place[each] for each in tasks[old].after)) for old in order]


def reference(tasks: list[Task]) -> dict[str, tuple[float, float]]:
    """Walk through all moments at which something ends; at each, start the best ready task until nothing changes."""
    starts: dict[int, float] = {}
    now = 0.0
    while True:
        moved = True
        while moved:
            moved = False
            ended = {i for i, start in starts.items() if start + tasks[i].duration <= now}
            chosen: dict[str, int] = {}
            for i, task in enumerate(tasks):
                if i in starts or not ended.issuperset(task.after):
                    continue
                if any(tasks[j].resource == task.resource for j in starts.keys() - ended):
                    continue
                best = chosen.get(task.resource)
                if best is None or (task.priority, i) < (tasks[best].priority, best):
                    chosen[task.resource] = i
            for i in chosen.values():
                starts[i] = now
                moved = True
        later = [start + tasks[i].duration for i, start in starts.items() if start + tasks[i].duration > now]
        if not later:
            return {tasks[i].name: (start, start + tasks[i].duration) for i, start in starts.items()}
        now = min(later)


def longest_chain(tasks: list[Task]) -> float:
    """Seconds of the critical path, found by relaxing every dependency as often as there are tasks."""
    ends = [task.duration for task in tasks]
    for _ in tasks:
        ends = [task.duration + max((ends[each] for each in task.after), default=0.0) for task in tasks]
    return max(ends, default=0.0)


def spans(timeline: Timeline) -> dict[str, tuple[float, float]]:
    return {each.name: (each.start, each.end) for each in timeline.intervals}


@settings(deadline=None)
@given(tasks=task_lists())
def test_equals_the_reference(tasks: list[Task]) -> None:
    assert spans(run(tasks)) == reference(tasks)


@settings(deadline=None)
@given(tasks=task_lists())
def test_dependencies_and_exclusivity(tasks: list[Task]) -> None:
    timeline = run(tasks)
    found = spans(timeline)
    assert len(found) == len(tasks)
    for task in tasks:
        start, end = found[task.name]
        assert end == start + task.duration
        assert all(found[tasks[each].name][1] <= start for each in task.after)
    for resource in timeline.resources:
        row = sorted((each.start, each.end) for each in timeline.on(resource))
        assert all(a[1] <= b[0] for a, b in pairwise(row))


@settings(deadline=None)
@given(tasks=task_lists(), scale=st.sampled_from([0.25, 2.0, 1024.0]))
def test_time_scales(tasks: list[Task], scale: float) -> None:
    slower = [task._replace(duration=scale * task.duration) for task in tasks]
    assert run(slower).step_time == scale * run(tasks).step_time


@settings(deadline=None)
@given(tasks=task_lists())
def test_runs_at_least_the_busiest_resource_and_the_longest_chain_and_at_most_the_sum(
    tasks: list[Task],
) -> None:
    timeline = run(tasks)
    total = sum(task.duration for task in tasks)
    busiest = max((sum(each.duration for each in timeline.on(r)) for r in timeline.resources), default=0.0)
    assert max(busiest, longest_chain(tasks)) <= timeline.step_time <= total


@settings(deadline=None)
@given(tasks=task_lists())
def test_without_shared_resources_the_longest_chain_is_the_step(tasks: list[Task]) -> None:
    apart = [task._replace(resource=task.name) for task in tasks]
    assert run(apart).step_time == longest_chain(tasks)


def test_a_circle_is_named() -> None:
    tasks = [
        Task(name="free", resource="a", category="forward", duration=1),
        Task(name="egg", resource="a", category="forward", duration=1, after=(2,)),
        Task(name="hen", resource="b", category="forward", duration=1, after=(1, 0)),
        Task(name="chick", resource="b", category="forward", duration=1, after=(1,)),
    ]
    with pytest.raises(DeadlockError, match=r"wait for each other: hen → egg → hen$"):
        run(tasks)


def test_of_a_circle_each_task_is_named_before_the_one_that_waits_for_it() -> None:
    """And none that only waits for one in it."""
    after = {"late": "b", "a": "c", "b": "a", "c": "b"}
    tasks = [Task(name, name, "forward", 1.0, (list(after).index(earlier),)) for name, earlier in after.items()]
    with pytest.raises(DeadlockError, match=r"wait for each other: c → a → b → c$|a → b → c → a$|b → c → a → b$"):
        run(tasks)
    with pytest.raises(DeadlockError, match=r"wait for each other: x → x$"):
        run([Task("x", "r", "forward", 1.0, (0,))])


@pytest.mark.parametrize("duration", [-1.0, float("nan"), float("inf")])
def test_bad_durations_are_refused(duration: float) -> None:
    with pytest.raises(ValueError, match="duration"):
        run([Task(name="x", resource="a", category="forward", duration=duration)])


def test_bad_positions_are_refused() -> None:
    for place in (7, 1, -1):
        with pytest.raises(ValueError, match=f"'x' comes after position {place}, which does not exist"):
            run([Task(name="x", resource="a", category="forward", duration=1, after=(place,))])
    assert run([]).step_time == 0.0


def test_thirty_thousand_tasks_take_seconds_not_minutes() -> None:
    draw = random.Random(1)
    tasks = [
        Task(
            name=str(i),
            resource=draw.choice("ab"),
            category="forward",
            duration=draw.random(),
            after=tuple({draw.randrange(i), i - 1}) if i else (),
        )
        for i in range(30_000)
    ]
    begin = time.process_time()
    run(tasks)
    assert time.process_time() - begin < 5
