"""Tasks and steps that share links and a codec's engine, and queues that straggle, with times worked out by hand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.collectives.collective import Collective
from lightloom.collectives.cost import kernels
from lightloom.collectives.cost.loads import circuit_changes
from lightloom.collectives.cost.price import play, queued_line
from lightloom.collectives.cost.stepped import (
    CodecTimes,
    Unbuilt,
    _critical_steps,
    _messages,
    cost,
    fastest,
    straggling,
)
from lightloom.collectives.registry import build, find
from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.errors import UnsupportedError
from lightloom.machines.fabrics.wdm_ring import Ring
from tests.collectives.queued_reference import chained, tapped
from tests.collectives.test_queued import ring

Task = tuple[tuple[int, ...], float, float, float, dict[int, float]]
"""Tasks that it waits for; seconds before, alone and after; seconds for which it makes each resource busy."""


def played(tasks: list[Task], resources: int) -> list[list[float]]:
    """When each task may begin, and when it has ended."""
    pairs = sorted((before, number) for number, task in enumerate(tasks) for before in task[0])
    uses = [(number, *use) for number, task in enumerate(tasks) for use in task[4].items()]
    every = np.arange(len(tasks) + 1)
    work = kernels.TaskGraph(
        waits=np.array([len(task[0]) for task in tasks]),
        first_follower=np.searchsorted(np.array([before for before, _ in pairs]), every),
        follower=np.array([after for _, after in pairs], np.int64),
        lead=np.array([float(task[1]) for task in tasks]),
        alone=np.array([float(task[2]) for task in tasks]),
        tail=np.array([float(task[3]) for task in tasks]),
        first_use=np.searchsorted(np.array([number for number, *_ in uses]), every),
        resource=np.array([resource for _, resource, _ in uses], np.int64),
        busy=np.array([float(busy) for *_, busy in uses]),
    )
    found = np.zeros((2, len(tasks)))
    kernels.run_at_once(work, resources, *found)
    return found.tolist()


def alone(**busy: float) -> Task:
    """A task of one second that waits for nothing, with the seconds for which it makes resources busy."""
    return (), 0.0, 1.0, 0.0, {int(name.removeprefix("link")): seconds for name, seconds in busy.items()}


@pytest.mark.parametrize(
    ("tasks", "begin", "end"),
    [
        # Two halve a link. The second takes an eighth of the other link meanwhile, which the third has the rest of.
        ([alone(link0=1), alone(link0=1, link1=0.25), alone(link1=1)], [0, 0, 0], [2, 2, 8 / 7]),
        # A third each on the first link; 4/9 on the second, where 2/3 is left for tasks that fill it 1.5 times; and
        # 3/5 on the third, of which the one before takes 0.9 · 4/9.
        (
            [
                *(alone(link0=1), alone(link0=1), alone(link0=1, link1=1)),
                *(alone(link1=1), alone(link1=0.5, link2=0.9), alone(link2=1)),
            ],
            [0] * 6,
            [3, 3, 3, 9 / 4, 9 / 4, 5 / 3],
        ),
        # One that fills half of a link and one that fills it: both at 2/3 until the second ends, then the first alone.
        ([((), 0, 2, 0, {0: 1}), alone(link0=1)], [0, 0], [2.5, 1.5]),
        # The second comes half a second later, when the first has half left; its follower waits for its tail.
        (
            [alone(link0=1), ((), 0.5, 1, 0.25, {0: 1}), ((1,), 0.5, 1, 0, {0: 1}), ((0, 1), 0, 0, 1, {})],
            [0, 0, 2.25, 2.25],
            [1.5, 2.25, 3.75, 3.25],
        ),
        # Nothing is shared with what has ended: the second follows the first over the same link at full speed.
        ([((), 0, 3, 0, {0: 3}), ((0,), 0, 2, 1, {0: 2})], [0, 3], [3, 6]),
        # Tasks in a circle never begin.
        ([((1,), 0, 1, 0, {}), ((0,), 0, 1, 0, {}), alone()], [0, 0, 0], [0, 0, 1]),
    ],
)
def test_tasks_share_what_is_left_of_each_resource(tasks: list[Task], begin: list[float], end: list[float]) -> None:
    assert played(tasks, 3) == [pytest.approx(begin), pytest.approx(end)]
    # Numbered the other way, they do the same.
    last = len(tasks) - 1
    turned: list[Task] = [(tuple(last - each for each in before), *rest) for before, *rest in reversed(tasks)]  # type: ignore[misc]
    assert played(turned, 3) == [pytest.approx(begin[::-1]), pytest.approx(end[::-1])]


LATE = 1e-6
"""Seconds of a hop."""


def two_steps(routes: list[int], pairs: list[tuple[int, int]]) -> Schedule:
    """Two steps of 1 ms each from rank 0 to rank 1, one way or both ways around."""
    one = build(find("ring"), Collective("broadcast", 2, 2e6), Ring(ranks=2, bandwidth=1e9, hop_latency=LATE))
    columns = {"source": [0, 0], "destination": [1, 1], "route": routes, "step": [0, 1], "chunk": [0, 1]}
    waits = np.array(pairs, np.int64).reshape(-1, 2)
    return one.with_columns(columns | {"lightpath": [0, 1]}, steps=2, chunks=2, dependencies=waits)


@pytest.mark.parametrize(
    ("routes", "pairs", "codec", "seconds", "coding"),
    [
        # Encoding together takes 2 ms, sending over one link 2 ms, decoding together 4 ms.
        ([0, 0], [], ([1e-3, 1e-3], [2e-3, 2e-3], False), (2e-3 + LATE, 2e-3, 4e-3), 6e-3),
        ([0, 1], [], ([1e-3, 1e-3], [2e-3, 2e-3], False), (1e-3 + LATE, 2e-3, 4e-3), 6e-3),
        # One after the other: every step alone.
        ([0, 0], [(1, 0)], ([1e-3, 1e-3], [2e-3, 2e-3], False), (2e-3 + 2 * LATE, 2e-3, 4e-3), 6e-3),
        # In line the slower of the two counts: the engine for 6 ms, or the link for 2 ms.
        ([0, 0], [], ([3e-3, 3e-3], [2e-3, 2e-3], True), (6e-3 + LATE, 0, 0), 0),
        ([0, 1], [], ([2e-3, 2e-3], [3e-3, 3e-3], True), (6e-3 + LATE, 0, 0), 0),
        ([0, 0], [], ([2e-4, 2e-4], [1e-4, 1e-4], True), (2e-3 + LATE, 0, 0), 0),
        # The second step fills a tenth of the engine: both go at 1/1.1 for 1.1 ms, and the first has 2 ms left.
        ([0, 1], [], ([3e-3, 1e-4], [0, 0], True), (3.1e-3 + LATE, 0, 0), 0),
    ],
)
def test_steps_share_links_and_the_engine(
    routes: list[int],
    pairs: list[tuple[int, int]],
    codec: tuple[list[float], list[float], bool],
    seconds: tuple[float, float, float],
    coding: float,
) -> None:
    fabric, times = (
        Ring(ranks=2, bandwidth=1e9, hop_latency=LATE),
        CodecTimes(np.array(codec[0]), np.array(codec[1]), codec[2]),
    )
    found = cost(two_steps(routes, pairs), fabric, codec=times)
    assert (found.transmission, found.encode, found.decode) == pytest.approx(seconds)
    assert found.encode + found.decode == pytest.approx(coding)
    assert found.time == pytest.approx(sum(seconds))


def test_no_more_schedules_are_taken_than_is_enough() -> None:
    """Of 3, 1, 1 and 2 ms the first of 1 ms is the fastest; where 3 ms are enough, it is the first."""
    fabric = Ring(ranks=2, bandwidth=1e9)
    sized = [two_steps([0, 1], [(1, 0)]).resized(nbytes) for nbytes in (3e6, 1e6, 1e6, 2e6)]
    taken: list[Schedule] = []

    def schedules() -> Iterator[Schedule]:
        for schedule in sized:
            taken.append(schedule)
            yield schedule

    for enough, place, count in ((0.0, 1, 4), (3e-3, 0, 1), (2.9e-3, 1, 2), (1e-3, 1, 2), (0.9e-3, 1, 4)):
        taken.clear()
        best, seconds = fastest(schedules(), fabric, enough)
        assert best is sized[place] and seconds == sized[place].collective.nbytes / 1e9 and len(taken) == count
    with pytest.raises(UnsupportedError, match="no schedule found on this ring"):
        fastest([], fabric)


@pytest.mark.parametrize(("least", "built"), [(0.5e-3, True), (1e-3, True), (1.1e-3, False)])
def test_what_cannot_be_the_fastest_is_not_built(least: float, built: bool) -> None:
    """The first is built whatever its least seconds, as there is nothing to compare it with."""
    fabric, made = Ring(ranks=2, bandwidth=1e9), list[float]()

    def offer(seconds: float, nbytes: float) -> Unbuilt:
        def build() -> Schedule:
            made.append(nbytes)
            return two_steps([0, 1], [(1, 0)]).resized(nbytes)

        return Unbuilt(seconds, build)

    best, seconds = fastest([offer(9.0, 1e6), offer(least, 0.6e6)], fabric)
    assert made == [1e6, 0.6e6] if built else made == [1e6]
    assert best.collective.nbytes == made[-1] and seconds == made[-1] / 1e9


@pytest.mark.parametrize("nbytes", [0.0, 1e5])
def test_taps_straggle_together_however_rows_are_listed(nbytes: int) -> None:
    """Rows of one transmission may lie apart; the others that begin with it are of other lightpaths."""
    fabric = ring(8).model_copy(update={"wavelengths": 32, "multicast_taps": 3, "hop_latency": 1e-7})
    listed = tapped(8, 3, nbytes).unfolded(fabric.fibre_channels)
    order = np.lexsort((listed.lightpath, listed.destination, listed.step))
    mixed = listed.with_columns({name: column[order] for name, column in listed.columns().items()})
    assert play(mixed, fabric).begin == pytest.approx(play(listed, fabric).begin[order])
    whole, found = (straggling(each, fabric, late=1e-6, slower=2.0) for each in (listed, mixed))
    assert found.time == pytest.approx(cost(listed, fabric).time) == pytest.approx(whole.time)
    assert found.later == pytest.approx(whole.later) and found.later.min() > 0


def test_who_is_late_delays_steps_of_nothing_by_as_much() -> None:
    """Each of three steps takes its conversion; all that the others wait for is the first message of the late rank."""
    fabric = ring(4).model_copy(update={"hop_latency": 0.0, "conversion_time": 1e-6})
    schedule = build(find("ring"), Collective("all-gather", 4, 0.0), fabric)
    found = straggling(schedule, fabric, late=5e-6)
    assert found.time == pytest.approx(fabric.setup_time + 3e-6)
    assert found.later == pytest.approx(np.full(4, 5e-6))
    assert straggling(schedule, fabric, slower=3.0).later == pytest.approx(np.zeros(4), abs=1e-18)


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_the_busiest_end_has_the_most_lightpaths_of_its_step(seed: int, alone: bool) -> None:
    """Lightpaths with one rank at that end, or with several; some numbers are of none, and rank 3 is a switch."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 12))
    path = 2 * rng.integers(0, 4, count)
    step, end = rng.integers(0, 3, count), rng.integers(0, 4, count)
    if alone:
        step, end = rng.integers(0, 3, 8)[path], rng.integers(0, 4, 8)[path]
    schedule: Any = SimpleNamespace(collective=SimpleNamespace(ranks=3), steps=4, step=step, lightpath=path)
    paths: dict[tuple[int, int], set[int]] = defaultdict(set)
    for row in zip(step.tolist(), end.tolist(), path.tolist(), strict=True):
        paths[row[:2]].add(row[2])
    most = [max(len(paths[of, rank]) for rank in range(4)) for of in range(4)]
    assert _messages(schedule, end).tolist() == most


@pytest.mark.parametrize(
    ("waits", "seconds", "chain"),
    [
        # Steps that each step waits for, and the seconds of each.
        ([[], [0], [0], [1, 2]], [1.0, 5.0, 4.0, 1.0], [0, 1, 3]),
        ([[], [0], [0], [1, 2]], [1.0, 4.0, 5.0, 1.0], [0, 2, 3]),
        ([[], [], [0]], [1.0, 9.0, 2.0], [1]),
        ([[1], [], [1]], [3.0, 2.0, 1.0], [1, 0]),
        ([[], [2], []], [1.0, 2.0, 3.0], [2, 1]),
    ],
)
def test_the_longest_chain_is_followed_back_from_its_end(
    waits: list[list[int]], seconds: list[float], chain: list[int]
) -> None:
    pairs = [(step, before) for step, each in enumerate(waits) for before in each]
    loads: Any = SimpleNamespace(steps=len(waits), dependencies=np.array(pairs, np.int32).reshape(-1, 2))
    found = _critical_steps(loads, np.array(seconds))
    assert np.flatnonzero(found).tolist() == sorted(chain)


@pytest.mark.parametrize("kind", ["broadcast", "reduce"])
@pytest.mark.parametrize("chunks", [1, 4])
def test_chunks_follow_each_other_down_a_chain(kind: str, chunks: int) -> None:
    """Every hop begins a chunk and a conversion after the one before, every chunk a chunk after the one before."""
    ranks = 5
    fabric = ring(ranks).model_copy(update={"hop_latency": 1e-7})
    schedule = chained(kind, ranks, chunks, 1e5)
    busy, delay = 1e5 / chunks / 5e9, 1e-6 + 1e-7
    found = play(schedule, fabric)
    hop = schedule.source if kind == "broadcast" else ranks - 1 - schedule.source
    assert sorted(set(hop.tolist())) == [0, 1, 2, 3]
    assert found.begin == pytest.approx(hop * (busy + delay) + schedule.chunk * busy)
    assert found.seconds == pytest.approx((ranks - 1) * (busy + delay) + (chunks - 1) * busy)
    assert found.sending == pytest.approx((ranks - 1 + chunks - 1) * busy)
    line, slope = queued_line(schedule, fabric)
    assert (line.steps, line.setup, line.reconfiguration, line.static) == (1, *[fabric.setup_time] * 2, True)
    assert line.time == pytest.approx(fabric.setup_time + found.seconds) and slope == 0
    assert line.conversion == 1e-6 and line.transmission == pytest.approx(found.seconds - 1e-6)
    assert queued_line(schedule, fabric.model_copy(update={"energy_per_bit": None}))[0].energy is None
    paid = queued_line(schedule, fabric.model_copy(update={"energy_per_bit": 2e-12}))[0]
    assert paid.energy == pytest.approx((ranks - 1) * 1e5 * 8 * 2e-12)


@pytest.mark.parametrize(
    ("second", "taken", "new"),
    [
        # Source, destination, way around, fibre, first channel and channels of the second step's circuit; whether it
        # takes a channel of the first one's, from 0 over 1 to 2 on channels 0 and 1, and whether it is another one.
        ((0, 2, 0, 0, 0, 2), False, False),
        ((0, 2, 0, 0, 0, 1), True, True),
        ((0, 2, 0, 0, 0, 3), True, True),
        ((0, 2, 0, 0, 1, 2), True, True),
        ((0, 1, 0, 0, 0, 2), True, True),
        ((1, 2, 0, 0, 0, 2), True, True),
        ((3, 2, 0, 0, 1, 1), True, True),
        ((0, 2, 0, 0, 2, 2), False, True),
        ((0, 2, 0, 1, 0, 2), False, True),
        ((0, 2, 1, 0, 0, 2), False, True),
        ((2, 0, 0, 0, 0, 2), False, True),
    ],
)
def test_circuits_change_where_one_takes_a_channel_of_another(second: tuple[int, ...], taken: bool, new: bool) -> None:
    fabric = ring(4).model_copy(update={"fibres": 2})
    names = ("source", "destination", "route", "fibre", "first_wavelength", "wavelength_count")
    columns: dict[str, Any] = dict(zip(names, zip((0, 2, 0, 0, 0, 2), second, strict=True), strict=True))
    whole = build(find("ring"), Collective("broadcast", 4, 2e6), fabric)
    columns |= {"step": [0, 1], "lightpath": [0, 1], "chunk": [0, 1], "reduces": [False, False]}
    found = circuit_changes(whole.with_columns({n: list(c) for n, c in columns.items()}, steps=2, chunks=2), fabric)
    assert (found.changed.tolist(), found.static) == ([True, taken], not taken)
    assert found.rows is None if taken else found.rows is not None and found.rows.tolist() == [0, 1][: 1 + new]


@pytest.mark.parametrize(("setting", "seconds"), [(0.0, 6e-6), (2e-6, 4e-6), (1e-5, 3e-6)])
def test_setting_circuits_and_converting_share_no_engine(setting: float, seconds: float) -> None:
    """Two sends of 2 us by circuits of their own, coded in line in 3 us each; only the first sets circuits.

    Without that the engine takes 6 us for both. After 2 us of it the second has 1 us left, which takes both 2 us at
    half speed, and the first 2 us more; after 10 us the second is gone.
    """
    fabric = ring(2).model_copy(update={"hop_latency": 1e-8, "reconfiguration_time": setting})
    one = build(find("ring"), Collective("broadcast", 2, 2e4), fabric)
    columns = {"source": [0, 0], "destination": [1, 1], "route": [0, 1], "step": [0, 1], "chunk": [0, 1]}
    columns |= {"first_wavelength": [0, 0], "fibre": [0, 0], "wavelength_count": [1, 1], "lightpath": [0, 1]}
    schedule = one.with_columns(columns, steps=2, chunks=2, dependencies=np.zeros((0, 2), np.int64))
    codec = CodecTimes(np.array([3e-6, 3e-6]), np.array([1e-6, 1e-6]), in_line=True)
    found = cost(schedule, fabric, codec=codec)
    assert found.transmission == pytest.approx(seconds + 1e-8)
    assert (found.conversion, found.reconfiguration) == (1e-6, setting)
    assert found.time == pytest.approx(seconds + 1e-8 + 1e-6 + setting)
    assert cost(schedule, fabric).transmission == pytest.approx(2e-6 + 1e-8)
