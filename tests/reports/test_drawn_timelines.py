"""Timelines hold their intervals: which are joined, where bars and words stand, and what the step waits for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from matplotlib.colors import to_hex

from lightloom.core.timeline import Interval, Timeline
from lightloom.reports.figures.canvas import FAINT, SHARES, TASKS
from lightloom.reports.figures.timelines import Stretch, busiest, stretches, task_kind, timeline_figure, waits
from tests.reports.artists import dots, hidden, notes, segments, ticks, told


def interval(category: str, start: float, end: float, resource: str = "device 0", **details: str) -> Interval:
    return Interval(
        resource=resource, category=category, name=f"{category} at {start:g}", start=start, end=end, details=details
    )


def forward(*ends: tuple[float, float]) -> list[Interval]:
    return [interval("forward", start, end) for start, end in ends]


def spans(found: list[Stretch]) -> list[tuple[float, float, int]]:
    return [(each.start, each.end, each.count) for each in found]


@pytest.mark.parametrize(
    ("collective", "category", "kind"),
    [
        ("all-reduce", "transmission", "all-reduce"),
        ("reduce-scatter", "transmission", "reduce-scatter"),
        ("broadcast", "transmission", "transmission"),
        ("", "transmission", "transmission"),
        ("all-reduce", "reconfiguration", "reconfiguration"),
        ("all-gather", "forward", "forward"),
    ],
)
def test_a_transmission_has_the_kind_of_its_collective_where_that_has_a_colour(
    collective: str, category: str, kind: str
) -> None:
    assert task_kind(interval(category, 0, 1, collective=collective)) == kind
    assert task_kind(interval(category, 0, 1)) == category


def test_what_computes_is_joined_at_small_gaps_however_long_it_is() -> None:
    """A gap of a quarter of the least length is kept, a smaller one is not."""
    least = 4.0
    near, apart = forward((0, 10), (10.5, 20)), forward((0, 10), (11, 20))
    assert spans(stretches(near, least)) == [(0, 20, 2)]
    assert spans(stretches(apart, least)) == [(0, 10, 1), (11, 20, 1)]
    assert spans(stretches(near, least, join_compute=False)) == [(0, 10, 1), (10.5, 20, 1)]
    assert spans(stretches(near, 2.0)) == [(0, 10, 1), (10.5, 20, 1)]


@pytest.mark.parametrize(
    ("first", "second", "joined"), [(10, 3.5, True), (3.5, 10, True), (4, 10, False), (10, 4, False), (3.5, 3.5, True)]
)
def test_neighbours_are_joined_where_one_is_shorter_than_the_least(first: float, second: float, joined: bool) -> None:
    sent = [interval("transmission", 0, first), interval("transmission", first + 0.5, first + 0.5 + second)]
    whole = [(0, first + 0.5 + second, 2)]
    apart = [(0, first, 1), (first + 0.5, first + 0.5 + second, 1)]
    assert spans(stretches(sent, 4.0)) == (whole if joined else apart)


def test_only_neighbours_of_one_kind_are_joined_and_keep_the_first_name() -> None:
    lane = [
        interval("forward", 0, 1),
        interval("forward", 1, 2),
        interval("forward", 2, 3),
        interval("backward", 3, 4),
        interval("forward", 4, 5),
    ]
    assert stretches(lane, 10.0) == [
        Stretch("forward", 0, 3, "forward at 0", 3),
        Stretch("backward", 3, 4, "backward at 3", 1),
        Stretch("forward", 4, 5, "forward at 4", 1),
    ]
    kinds = [
        interval("transmission", 0, 1, collective="all-reduce"),
        interval("transmission", 1, 2, collective="all-gather"),
    ]
    assert [each.key for each in stretches(kinds, 10.0)] == ["all-reduce", "all-gather"]


def test_a_lane_of_many_stretches_joins_only_the_last() -> None:
    lane = [*forward((0, 10)), interval("transmission", 10, 20), interval("transmission", 20.5, 21)]
    assert spans(stretches(lane, 4.0)) == [(0, 10, 1), (10, 21, 2)]


def test_intervals_without_duration_are_left_out_unless_they_are_joined() -> None:
    assert stretches(forward((0, 0)), 1.0) == [] == stretches([], 1.0)
    assert spans(stretches(forward((0, 0), (5, 6)), 1.0)) == [(5, 6, 1)]
    assert Stretch("forward", 0, 1) == Stretch("forward", 0, 1, "", 1)


def test_the_step_waits_for_computing_then_bytes_then_circuits_then_nothing() -> None:
    line = Timeline.of(
        [
            interval("forward", 1, 3, "a"),
            interval("forward", 2, 4, "b"),
            interval("transmission", 3, 6, "c"),
            interval("reconfiguration", 5, 8, "d"),
            interval("update", 9, 10, "a"),
        ]
    )
    assert [(each.key, each.start, each.end) for each in waits(line)] == [
        ("idle_s", 0, 1),
        ("compute_s", 1, 4),
        ("exposed_communication_s", 4, 6),
        ("exposed_reconfiguration_s", 6, 8),
        ("idle_s", 8, 9),
        ("compute_s", 9, 10),
    ]
    assert waits(Timeline.of([])) == [] == waits(Timeline.of(forward((0, 0))))


def lanes_of(categories: Mapping[str, Sequence[tuple[str, float]]]) -> Timeline:
    """Intervals one after the other on each resource: (category, seconds)."""
    found = []
    for resource, each in categories.items():
        start = 0.0
        for category, seconds in each:
            found.append(interval(category, start, start + seconds, resource))
            start += seconds
    return Timeline.of(found)


def test_lanes_go_to_the_busiest_and_one_that_only_sets_circuits_comes_before_others() -> None:
    line = lanes_of(
        {
            "device 0": [("forward", 4)],
            "device 1": [("forward", 8)],
            "device 2": [("forward", 6)],
            "link 0": [("transmission", 5)],
            "link 1": [("transmission", 9)],
            "link 2": [("reconfiguration", 1), ("transmission", 6)],
            "switch 0": [("reconfiguration", 2)],
            "switch 1": [("reconfiguration", 1)],
        }
    )
    assert list(busiest(line, 5)) == ["device 1", "device 2", "link 1", "link 2", "switch 0"]
    assert list(busiest(line, 4)) == ["device 1", "device 2", "link 1", "switch 0"]
    assert list(busiest(line, 2)) == ["device 1", "switch 0"]
    assert list(busiest(line, 7)) == ["device 0", "device 1", "device 2", "link 0", "link 1", "link 2", "switch 0"]
    assert list(busiest(line, 8)) == sorted(line.resources)
    assert busiest(line, 2)["switch 0"] == [interval("reconfiguration", 0, 2, "switch 0")]


def test_lanes_that_few_others_need_go_to_devices() -> None:
    line = lanes_of({**{f"device {n}": [("forward", n + 1.0)] for n in range(6)}, "link": [("transmission", 1)]})
    assert list(busiest(line, 4)) == ["device 3", "device 4", "device 5", "link"]


def test_names_are_ordered_by_their_kind_as_it_comes_first_and_then_by_their_numbers() -> None:
    names = ("stage 10.2", "stage 10.1", "stage 9", "host 3")
    line = lanes_of({name: [("forward", 1)] for name in names} | {"a 1": [("transmission", 1)]})
    assert list(busiest(line, 16)) == ["stage 9", "stage 10.1", "stage 10.2", "host 3", "a 1"]


def test_what_computes_comes_first_among_names_that_are_alike() -> None:
    line = lanes_of({"rank 0 out": [("transmission", 1)], "rank 2": [("forward", 1)], "rank 1": [("forward", 1)]})
    assert list(busiest(line, 16)) == ["rank 1", "rank 2", "rank 0 out"]
    assert list(busiest(lanes_of({"b": [("forward", 1)], "a": [("forward", 1)]}), 16)) == ["b", "a"]


def drawn(line: Timeline, most: int = 16) -> tuple[Any, Any]:
    figure = timeline_figure(line, most)
    (axes,) = figure.axes
    return figure, axes


LINE = Timeline.of(
    [
        interval("forward", 0, 0.5),
        interval("backward", 0.5, 0.75),
        interval("transmission", 0.25, 0.5, "ring", collective="all-gather"),
        interval("transmission", 0.875, 1.0, "ring"),
    ]
)


def kinds(axes: Any, name: str) -> list[Any]:
    return [each for each in axes.collections if type(each).__name__ == name]


def box(start: float, end: float, row: int, height: float) -> list[tuple[float, float]]:
    low, high = round(row - height / 2, 9), round(row + height / 2, 9)
    return [(start, low), (start, high), (end, high), (end, low)]


def test_bars_of_a_timeline_have_their_colour_their_height_and_their_words() -> None:
    figure, axes = drawn(LINE)
    filled = [
        (each.get_paths()[0].vertices[:4].round(9).tolist(), to_hex(each.get_facecolor()[0]))
        for each in axes.collections
        if type(each).__name__ == "PolyCollection"
    ]
    expected = [
        (box(0, 500, 0, 0.72), TASKS["forward"][1]),
        (box(500, 750, 0, 0.72), TASKS["backward"][1]),
        (box(250, 500, 1, 0.72), TASKS["all-gather"][1]),
        (box(875, 1000, 1, 0.72), TASKS["transmission"][1]),
        (box(0, 750, 2, 0.36), SHARES["compute_s"][1]),
        (box(750, 875, 2, 0.36), SHARES["idle_s"][1]),
        (box(875, 1000, 2, 0.36), SHARES["exposed_communication_s"][1]),
    ]
    assert [([tuple(at) for at in corners], colour) for corners, colour in filled] == expected
    assert all(each.get_linewidth()[0] == 0 for each in kinds(axes, "PolyCollection"))
    strokes = [
        (segments(each)[0], to_hex(each.get_colors()[0]), each.get_linewidths()[0])
        for each in kinds(axes, "LineCollection")
    ]
    white = [
        ([(corners[0][0], corners[0][1]), (corners[0][0], corners[1][1])], "#ffffff", 0.5) for corners, _ in expected
    ]
    assert strokes == [*white[:6], ([(750, 2), (875, 2)], FAINT, 0.6), white[6]]
    assert notes(axes) == [
        ("forward", 250, 0, "center", "center", 8),
        ("backward", 625, 0, "center", "center", 8),
        ("all-gather", 375, 1, "center", "center", 8),
        ("transmission", 937.5, 1, "center", "center", 8),
        ("compute", 375, 2, "center", "center", 8),
    ]
    assert {(text.get_color(), text.get_fontweight()) for text in axes.texts} == {("white", "bold")}
    assert axes.get_xlim() == (0, 1000) and axes.get_ylim() == (2.5, -0.5)
    assert ticks(axes.yaxis) == [(0, "device 0"), (1, "ring"), (2, "waits for")]
    assert told(figure.legends[0]) == ["forward", "backward", "all-gather", "transmission"]
    assert figure.get_size_inches().tolist() == [9.0, 1.25 + 3 * 0.5] and hidden(axes) == {"top", "right", "left"}


@pytest.mark.parametrize("kind", ["forward", "update", "reduce-scatter"])
def test_words_are_written_where_their_letters_have_room(kind: str) -> None:
    """A letter takes 4.9 points of 540, and six more are left free; the step takes four seconds."""
    label = TASKS[kind][0]
    wide = 4 * (4.9 * len(label) + 6) / 540
    for seconds, there in ((wide * 1.001, True), (wide * 0.999, False)):
        category = kind if kind != "reduce-scatter" else "transmission"
        line = Timeline.of([interval(category, 0, seconds, collective=kind), interval("backward", 3.9, 4)])
        _, axes = drawn(line)
        assert any(text.get_text() == label for text in axes.texts) is there


@pytest.mark.parametrize(("seconds", "parted"), [(0.0161, True), (0.0159, False)])
def test_only_bars_that_are_wide_enough_begin_with_a_line(seconds: float, parted: bool) -> None:
    _, axes = drawn(Timeline.of([interval("forward", 0, 1), interval("backward", 4 - seconds, 4)]))
    begins = [segments(each)[0][0] for each in kinds(axes, "LineCollection")]
    assert ((round(4e3 - 1e3 * seconds, 9), -0.36) in begins) is parted
    assert (0.0, -0.36) in begins


@pytest.mark.parametrize(("lanes", "row"), [(6, 0.5), (7, 0.5), (8, 0.32), (15, 0.32), (16, 0.32)])
def test_more_than_eight_rows_are_lower(lanes: int, row: float) -> None:
    figure, axes = drawn(lanes_of({f"device {n}": [("forward", 1)] for n in range(lanes)}))
    assert figure.get_size_inches()[1] == pytest.approx(1.25 + row * (lanes + 1))
    assert len(ticks(axes.yaxis)) == lanes + 1


def test_narrow_neighbours_are_drawn_as_one() -> None:
    """Narrower than 0.4 % of the step, with a gap of a quarter of that."""
    many = [interval("transmission", n * 0.012, n * 0.012 + 0.01, "ring") for n in range(10)]
    for gap, count in ((0.0018, 1), (0.0022, 10)):
        shifted = [
            interval("transmission", each.start + n * gap, each.end + n * gap, "ring") for n, each in enumerate(many)
        ]
        _, axes = drawn(Timeline.of([*shifted, interval("forward", 0, 4)]))
        rows = [segments(each)[0] for each in kinds(axes, "PolyCollection")]
        assert sum(corners[0][1] == round(1 - 0.36, 9) for corners in rows) == count


def test_a_lane_alone_and_an_empty_step_have_the_height_of_lanes() -> None:
    figure, axes = drawn(Timeline.of([]))
    assert ticks(axes.yaxis) == [(0, "waits for")] and not axes.collections and not figure.legends
    assert axes.get_xlim() == pytest.approx((0, 1e-6), abs=1e-12) and "takes 0 " in axes.get_xlabel()
    line = lanes_of({f"device {n}": [("forward", 1)] for n in range(20)})
    figure, axes = drawn(line)
    assert len(ticks(axes.yaxis)) == 17 and figure.get_size_inches()[1] == pytest.approx(1.25 + 0.32 * 17)
    assert not [each for each in axes.collections if len(dots(each)) > 1]


def test_what_is_waited_for_first_is_as_low_as_all_that_is_waited_for() -> None:
    """Also where it is the only row: bars of a lane are as high as lanes, in the first row."""
    figure, axes = drawn(lanes_of({"device": [("forward", 1)]}))
    heights = [corners[1][1] - corners[0][1] for each in kinds(axes, "PolyCollection") for corners in segments(each)]
    assert heights == pytest.approx([0.72, 0.36])
    assert told(figure.legends[0]) == ["forward"]
