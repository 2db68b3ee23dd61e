"""What a page shows of one plan: its tasks, its stretches and its light are those of the plan, in order."""

from __future__ import annotations

import json
from collections.abc import Iterable

import numpy as np
import pytest

from lightloom.collectives.collective import Collective
from lightloom.collectives.registry import build, find
from lightloom.core.timeline import Interval, Timeline
from lightloom.machines.fabrics.load import load_fabric
from lightloom.reports.figures.canvas import TASKS
from lightloom.reports.figures.timelines import stretches, task_kind, timeline_figure, waits
from lightloom.reports.report import explored_plan, light_map, page_data
from tests.collectives.strategies import wdm_ring


def interval(name: str, start: float, end: float, category: str = "forward", resource: str = "device 0") -> Interval:
    return Interval(resource=resource, category=category, name=name, start=start, end=end)


def explored(intervals: Iterable[Interval]) -> dict[str, object]:
    return dict(explored_plan(Timeline.of(intervals), "a plan", {"weights": 1.0}, None))


def alternating(count: int, length: float = 1.0) -> list[Interval]:
    """Intervals one behind the other of which no two neighbours are of one kind, so that none are ever joined."""
    kinds = ("forward", "backward")
    return [interval(kinds[n % 2], n * length, (n + 1) * length, kinds[n % 2]) for n in range(count)]


def same(count: int) -> list[Interval]:
    """Intervals of one kind, one behind the other."""
    return [interval("f", n, n + 1.0) for n in range(count)]


def test_tasks_that_take_most_seconds_come_first_whatever_their_names() -> None:
    found = explored([interval("a", 0, 1), interval("b", 1, 4), interval("c", 4, 6), interval("a", 6, 6.5)])["tasks"]
    assert found == [
        ("b", "forward", 1, 3.0, 3.0),
        ("c", "forward", 1, 2.0, 2.0),
        ("a", "forward", 2, 1.5, 1.0),
    ]


def test_tasks_count_together_where_only_parts_devices_and_the_pass_differ() -> None:
    found = explored(
        [
            interval("layer/0 forward", 0, 1),
            interval("layer/12 forward", 1, 3),
            interval("layer/0 backward", 3, 4, "backward"),
            interval("layer/0 more forward", 4, 4.5),
            interval("forward pass", 4.5, 4.75),
            interval("layer/0x forward", 4.75, 4.85),
        ]
    )["tasks"]
    assert isinstance(found, list)
    assert [row[:3] for row in found] == [
        ("layer", "forward", 2),
        ("layer", "backward", 1),
        ("layer more", "forward", 1),
        ("forward pass", "forward", 1),
        ("layer/0x", "forward", 1),
    ]


def test_at_most_forty_tasks_are_kept_those_that_take_longest() -> None:
    many = [interval(f"t{chr(97 + n // 26)}{chr(97 + n % 26)}", n * 100, n * 100 + n + 1) for n in range(41)]
    found = explored(many)["tasks"]
    assert isinstance(found, list) and [row[3] for row in found] == [float(n) for n in range(41, 1, -1)]


@pytest.mark.parametrize(("count", "joined"), [(1, False), (1500, False), (1501, True), (1502, True)])
def test_stretches_are_joined_only_beyond_fifteen_hundred(count: int, joined: bool) -> None:
    found = explored(same(count))
    assert isinstance(found["stretches"], list) and len(found["stretches"]) <= 1500
    assert (found["joined"] != 0.0) is joined
    assert sum(row[5] for row in found["stretches"]) == count
    if not joined:
        assert len(found["stretches"]) == count


def test_joining_begins_at_a_small_part_of_the_step_and_doubles() -> None:
    """Of 1,600 unit intervals, the first width that joins any is the least power of two of a 4,096th above one."""
    step = 1600.0
    found = explored(same(1600))
    assert found["joined"] == step / 4096 * 4


def test_joining_ends_at_the_step_where_nothing_can_be_joined() -> None:
    found = explored(alternating(1600))
    assert isinstance(found["stretches"], list) and len(found["stretches"]) == 1600
    assert found["joined"] == 1600.0


def test_stretches_are_ten_millionths_of_the_step_on_the_lane_of_their_resource() -> None:
    found = explored(
        [
            interval("f", 0, 1),
            interval("b", 1, 4, "backward"),
            interval("t", 1, 2, "transmission", "ring"),
        ]
    )
    assert found["lanes"] == ["device 0", "ring"] and found["resources"] == 2
    assert found["step"] == 4.0 and found["joined"] == 0.0
    assert found["stretches"] == [
        [0, "forward", 0, 2_500_000, "f", 1],
        [0, "backward", 2_500_000, 7_500_000, "b", 1],
        [1, "transmission", 2_500_000, 2_500_000, "t", 1],
    ]


def test_at_most_sixteen_lanes_are_kept_of_all_resources() -> None:
    found = explored([interval("f", 0, 1 + n, resource=f"device {n}") for n in range(20)])
    assert found["lanes"] == [f"device {n}" for n in range(4, 20)] and found["resources"] == 20


def test_a_plan_that_does_nothing_is_shown_empty() -> None:
    found = explored([])
    assert [found[name] for name in ("step", "lanes", "resources", "stretches", "tasks")] == [0.0, [], 0, [], []]
    zero = explored([interval("f", 0, 0)])
    assert zero["stretches"] == [] and zero["tasks"] == [("f", "forward", 1, 0.0, 0.0)]


def test_what_is_said_beside_the_timeline_is_passed_on() -> None:
    rows = [("all-reduce", "8 ranks", "1", "1 MiB", "ring")]
    found = explored_plan(Timeline.of([]), "a plan", {"weights": 3.0, "activations": 4.0}, 8.0, rows)
    assert found["label"] == "a plan" and found["capacity"] == 8.0
    assert found["memory"] == [("weights", 3.0), ("activations", 4.0)]
    assert found["exchanges"] == [list(rows[0])]
    assert explored([])["exchanges"] == [] and explored([])["capacity"] is None


def test_neighbours_are_joined_below_a_width_and_a_quarter_of_it_apart() -> None:
    """One narrow neighbour suffices; both bounds are left out."""

    def count(first: tuple[float, float], second: tuple[float, float], *, join: bool = False) -> int:
        pair = [interval("f", *first), interval("g", *second)]
        return len(stretches(pair, 4.0, join_compute=join))

    assert count((0, 3.5), (3.5, 20)) == count((0, 16), (16, 19.5)) == 1
    assert count((0, 4), (4, 8)) == 2
    assert count((0, 4), (4, 8), join=True) == 1
    assert count((0, 3.5), (4.25, 20)) == 1
    assert count((0, 3.5), (4.5, 20)) == 2
    assert count((0, 4), (5, 9), join=True) == 2
    wide = [interval("s", 0, 8, "transmission", "ring"), interval("t", 8, 16, "transmission", "ring")]
    assert len(stretches(wide, 4.0)) == 2


def test_a_joined_stretch_reaches_from_the_first_to_the_last_and_keeps_the_first_name() -> None:
    (found,) = stretches([interval("f", 1, 2), interval("g", 2, 3), interval("h", 3, 5)], 4.0)
    assert (found.key, found.start, found.end, found.name, found.count) == ("forward", 1, 5, "f", 3)


def test_intervals_of_no_length_are_left_out_and_other_kinds_stay_apart() -> None:
    found = stretches([interval("f", 0, 0), interval("g", 0, 1), interval("h", 1, 2, "backward")], 4.0)
    assert [(each.name, each.count) for each in found] == [("g", 1), ("h", 1)]


def test_transmissions_are_of_the_kind_of_their_collective_where_it_has_a_colour() -> None:
    def kind(category: str, **details: object) -> str:
        return task_kind(Interval(resource="r", category=category, name="t", start=0, end=1, details=details))

    assert kind("transmission", collective="all-gather") == "all-gather"
    assert kind("transmission", collective="broadcast") == kind("transmission") == "transmission"
    assert kind("reconfiguration", collective="all-gather") == "reconfiguration"


def test_what_a_step_waits_for_begins_at_nought_and_joins_equal_neighbours() -> None:
    found = waits(Timeline.of([interval("f", 1, 2), interval("g", 2, 3), interval("c", 3, 4, "codec")]))
    assert [(each.key, each.start, each.end) for each in found] == [
        ("idle_s", 0, 1),
        ("compute_s", 1, 3),
        ("exposed_communication_s", 3, 4),
    ]
    assert waits(Timeline.of([])) == []


def test_a_timeline_is_drawn_over_milliseconds_from_its_begin_to_its_end() -> None:
    axes = timeline_figure(Timeline.of([interval("f", 0.5, 2.0)])).axes[0]
    assert axes.get_xlim() == (0.0, 2000.0)
    assert axes.get_xlabel() == "milliseconds; the step takes 2 s"


@pytest.mark.parametrize("lanes", [7, 8])
def test_many_lanes_are_drawn_narrower(lanes: int) -> None:
    """With the lane of what is waited for, eight are the most that are wide."""
    figure = timeline_figure(Timeline.of([interval("f", 0, 1, resource=f"device {n}") for n in range(lanes)]))
    assert figure.get_size_inches()[1] == pytest.approx(1.25 + (0.5 * 8 if lanes == 7 else 0.32 * 9))


def test_the_light_of_a_schedule_is_told_step_by_step() -> None:
    fabric = wdm_ring(6, 2)
    schedule = build(find("ring"), Collective("all-gather", 6, 6e6), fabric)
    found = light_map(schedule, fabric)
    assert found is not None
    assert (found["ranks"], found["channels"], found["steps"]) == (6, fabric.channels, schedule.steps)
    assert found["title"] == "ring: all-gather among 6 ranks"
    assert found["shown"] == list(range(schedule.steps))
    rows = np.array(found["rows"])
    assert np.bincount(rows[:, 0]).tolist() == [6] * schedule.steps
    assert set(map(tuple, rows[:, 1:3].tolist())) == {(rank, (rank + 1) % 6) for rank in range(6)}
    assert set(rows[:, 6].tolist()) == {1}
    assert len(set(found["colours"])) == 6 and all(len(colour) == 7 for colour in found["colours"])


@pytest.mark.parametrize(("most", "shown"), [(1, [0]), (11, [0]), (12, [0, 4]), (17, [0, 4]), (18, [0, 2, 4])])
def test_of_many_lightpaths_evenly_spaced_whole_steps_are_shown(
    most: int, shown: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lightloom.reports.report._LIGHTPATHS", most)
    fabric = wdm_ring(6, 2)
    found = light_map(build(find("ring"), Collective("all-gather", 6, 6e6), fabric), fabric)
    assert found is not None and found["steps"] == 5 and found["shown"] == shown
    assert np.bincount([row[0] for row in found["rows"]]).tolist() == [6] * len(shown)


@pytest.mark.parametrize("name", ["switch", "circuit-switch"])
def test_fabrics_without_wavelengths_on_links_have_no_map_of_light(name: str) -> None:
    fabric = load_fabric(name, 4)
    assert light_map(build(find("ring"), Collective("all-gather", 4, 4e6), fabric), fabric) is None


def test_the_data_of_a_page_name_each_task_once_and_end_no_script() -> None:
    first = explored([interval("</script>&", 0, 1), interval("b", 1, 2, "backward")])
    second = explored([interval("b", 0, 2, "backward")])
    text = page_data({1: first, 4: second}, None)
    assert "<" not in text and "&" not in text and ": " not in text
    data = json.loads(text)
    assert data["names"] == ["</script>&", "b"] and "light" not in data
    assert {place: [row[4] for row in plan["stretches"]] for place, plan in data["plans"].items()} == {
        "1": [0, 1],
        "4": [1],
    }
    assert data["plans"]["4"]["stretches"] == [[0, "backward", 0, data["resolution"], 1, 1]]
    assert data["kinds"] == {key: list(value) for key, value in TASKS.items()}
    assert json.loads(page_data({}, {"title": "é"}))["light"] == {"title": "é"}
    assert "é" in page_data({}, {"title": "é"})
