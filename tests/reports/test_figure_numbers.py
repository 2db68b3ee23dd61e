"""Numbers that figures, pages and terminals show: lengths, order, ends of axes, and what is left out."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_hex, to_rgb
from rich.table import Table as TerminalTable

from lightloom.collectives.collective import Collective
from lightloom.collectives.registry import build, find
from lightloom.core.claims import Claim
from lightloom.core.timeline import Counter, Interval, Timeline
from lightloom.core.units import format_energy, format_time
from lightloom.machines.fabrics.link_budget import LinkBudget, dbm
from lightloom.machines.fabrics.load import load_fabric
from lightloom.machines.fabrics.switches import CircuitSwitch
from lightloom.machines.fabrics.wdm_ring import WdmRing
from lightloom.planning.figures import MOST_CELLS, assignment_figure
from lightloom.planning.parallelism.circuits import ring
from lightloom.planning.parallelism.circuits.circuits import Traffic
from lightloom.reports.console import claims_table, numeric, plain_table, rows_table, screen
from lightloom.reports.figures.canvas import SHARES, cyclic_colours, evenly_spaced, ramp, save, to_svg
from lightloom.reports.figures.comparisons import (
    ExchangePoint,
    Point,
    PredictedSeries,
    _heights,
    accuracy_figure,
    break_even_figure,
    breakdown_figure,
    budget_figure,
    damage_figure,
    exchange_figure,
    pareto_figure,
    waterfall_figure,
)
from lightloom.reports.figures.links import (
    circuit_map,
    downsampled,
    in_steps,
    link_load_map,
    shared_links_figure,
    steps_shown,
    wavelength_caption,
)
from lightloom.reports.figures.timelines import task_kind, timeline_figure
from lightloom.reports.html import bar_scale, numeric_columns
from lightloom.reports.report import RankingRow, Table, table_of, write_perfetto_trace
from tests.collectives.strategies import wdm_ring
from tests.reports.samples import ROWS, to_text


def bars(axes: Any) -> list[tuple[float, float, float]]:
    """(left, width, row) of each bar."""
    return [(bar.get_x(), bar.get_width(), bar.get_y() + bar.get_height() / 2) for bar in axes.patches]


def words(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_breakdowns_are_stacked_in_order_and_end_with_their_total() -> None:
    rows = [("a", {"idle_s": 0.5, "compute_s": 1.0}), ("b", {"compute_s": 3.0})]
    figure = breakdown_figure(rows, per="sample")
    (axes,) = figure.axes
    assert bars(axes) == [(0, 1000, 0), (1000, 500, 0), (0, 3000, 1)]
    assert words(axes) == [format_time(1.5), format_time(3.0)]
    assert axes.xaxis.get_ticklines()[0].get_markersize() > 0 == axes.yaxis.get_ticklines()[0].get_markersize()
    assert axes.get_xlim() == pytest.approx((0, 3300)) and axes.get_xlabel() == "milliseconds a sample"
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["compute", "idle"]
    assert [to_hex(bar.get_facecolor()) for bar in axes.patches] == [
        SHARES[key][1] for key in ("compute_s", "idle_s", "compute_s")
    ]


@pytest.mark.parametrize(("longest", "unit"), [(2e-4, "milliseconds"), (1.99e-4, "microseconds")])
def test_short_steps_are_drawn_in_microseconds(longest: float, unit: str) -> None:
    (axes,) = breakdown_figure([("a", {"compute_s": longest}), ("b", {"compute_s": longest / 2})]).axes
    assert axes.get_xlabel() == f"{unit} a step"
    assert bars(axes)[0][1] == pytest.approx(longest * (1e6 if unit == "microseconds" else 1e3))


def test_a_step_of_no_time_has_no_bar_and_no_legend() -> None:
    figure = breakdown_figure([("a", {"compute_s": 0.0})])
    assert not bars(figure.axes[0]) and not figure.legends and figure.axes[0].get_xlim()[1] > 0


def test_a_waterfall_reaches_from_the_first_to_the_last() -> None:
    steps = [("up", 1.0), ("down", -3.0), ("none", 0.0), ("little", 0.004), ("more", 0.005)]
    (axes,) = waterfall_figure(("first", 10.0), steps, ("last", 8.009), "title").axes
    drawn = bars(axes)
    assert [row for _, _, row in drawn] == list(range(7))
    assert [left for left, _, _ in drawn] == pytest.approx([0, 10_000, 11_000, 8_000, 8_000, 8_004, 0])
    assert [width for _, width, _ in drawn] == pytest.approx([10_000, 1_000, -3_000, 0, 4, 5, 8_009])
    assert words(axes) == ["10 s", "+10.0 %", "-30.0 %", "0 %", "0 %", "+0.1 %", format_time(8.009)]
    colours = [to_hex(bar.get_facecolor()) for bar in axes.patches]
    slower, faster = SHARES["exposed_communication_s"][1], SHARES["compute_s"][1]
    assert colours[1:3] == [slower, faster] and colours[3] == faster
    assert axes.get_xlim() == pytest.approx((0, 12_320))
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "first",
        *(name for name, _ in steps),
        "last",
    ]


def test_lines_have_gaps_where_no_speed_pays() -> None:
    (axes,) = break_even_figure({"a $": [(4, 1e9), (8, None), (16, 2e9)], "b": [(2, 1e9)]}, "title").axes
    first, second = axes.lines
    np.testing.assert_equal(first.get_ydata(), [8.0, np.nan, 16.0])
    assert np.array_equal(second.get_xdata(), [2])
    assert [label.get_text() for label in axes.get_xticklabels()] == ["2", "4", "8", "16"]
    assert first.get_label() == r"a \$" and first.get_color() != second.get_color()


def test_damage_is_told_by_what_failed() -> None:
    rows = [
        {"failures": [], "time_s": 1e-6, "lower_bound_s": 5e-7},
        {"failures": ["cable:17"], "time_s": 2e-6, "lower_bound_s": 1e-6},
        {"failures": ["cable:17", "cable:18"], "time_s": 3e-6, "lower_bound_s": 1e-6},
    ]
    (axes,) = damage_figure(rows, "all-reduce").axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["nothing failed", "cable:17", "all 2 together"]
    assert [width for _, width, _ in bars(axes)] == pytest.approx([1, 2, 3])
    assert np.asarray(axes.lines[0].get_xdata()).tolist() == pytest.approx([0.5, 1, 1])
    assert axes.yaxis_inverted()


def test_axes_of_predictions_are_equal_and_hold_every_row() -> None:
    series = [
        PredictedSeries("a", np.array([1.0, 2.0]), np.array([1.5, 2.0]), np.array([0.5, 1.5]), np.array([2.0, 4.0])),
        PredictedSeries("b", np.array([8.0]), np.array([3.0])),
    ]
    (axes,) = accuracy_figure(series).axes
    assert axes.get_xlim() == axes.get_ylim() == pytest.approx((0.4, 10.0))
    assert axes.get_ylabel() == "predicted step with its 90 % interval, s"
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["equal", "within 10 %", "a (2)", "b (1)"]
    (alone,) = accuracy_figure(series[1:], "collective").axes
    assert (alone.get_xlabel(), alone.get_ylabel()) == ("measured collective, s", "predicted collective, s")


def test_methods_of_the_front_are_joined_in_the_order_of_bytes_saved() -> None:
    points = [
        ExchangePoint("most", 8.0, 0.2, 0.1, 0.3, True),
        ExchangePoint("plain", 1.0, 0.0, -0.1, 0.1, True),
        ExchangePoint("beaten", 2.0, 0.3, 0.2, 0.4, False),
    ]
    (axes,) = exchange_figure(points, "title").axes
    joined = next(line for line in axes.lines if line.get_drawstyle() == "steps-post")
    assert np.asarray(joined.get_xydata()).tolist() == [[1.0, 0.0], [8.0, 0.2]]
    assert axes.get_xlim() == pytest.approx((0.9, 12.8))
    assert set(words(axes)) == {"most", "plain", "beaten"}


def test_the_front_of_plans_is_joined_by_time_and_at_most_ten_are_named_by_energy() -> None:
    front = [Point("ddp", "here", f"plan {n}", 1.0 + n, 20.0 - n) for n in range(12)]
    figure = pareto_figure(front[::-1], front[::-1])
    axes, side = figure.axes
    assert np.asarray(axes.lines[0].get_xydata()).tolist() == [[1.0 + n, 20.0 - n] for n in range(12)]
    named = [text.splitlines()[0] for text in words(side)]
    assert len(named) == 10 and named[0] == "plan 0" and named[-1] == "plan 11"
    heights = [text.get_position()[1] for text in side.texts]
    assert heights == sorted(heights, reverse=True) and 0 < heights[-1] < heights[0] < 1
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["ddp"]
    places = [point._replace(site=f"site {n % 2}") for n, point in enumerate(front)]
    told = [text.get_text() for text in pareto_figure(places, places[:1]).legends[0].get_texts()]
    assert told == ["ddp", "site 0", "site 1"]


@given(st.integers(0, 40), st.integers(2, 12))
def test_evenly_spaced_items_keep_both_ends_and_their_order(count: int, most: int) -> None:
    items = list(range(count))
    chosen = evenly_spaced(items, most)
    assert chosen == sorted(set(chosen)) and len(chosen) == min(count, most)
    if count:
        assert (chosen[0], chosen[-1]) == (0, count - 1)
    gaps = np.diff(chosen)
    assert not len(gaps) or gaps.max() - gaps.min() <= 1


@pytest.mark.parametrize("count", [1, 2, 7, 64])
def test_colours_of_ranks_are_equally_light_and_differ(count: int) -> None:
    colours = cyclic_colours(count)
    assert colours.shape == (count, 3) and (colours >= 0).all() and (colours <= 1).all()
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    light = linear @ np.array([0.2126, 0.7152, 0.0722])
    assert np.ptp(light) < 0.12 and 0.3 < light.mean() < 0.5
    assert len(np.unique(np.rint(colours * 255), axis=0)) == count
    assert np.array_equal(cyclic_colours(2 * count)[::2], colours)


def test_ramps_are_of_one_colour_and_end_opaque() -> None:
    colours = np.array([ramp("#3f7fd0", 0.2)(share) for share in (0.0, 0.5, 1.0)])
    assert colours[:, 3] == pytest.approx([0.2, 0.6, 1.0], abs=2e-3)
    assert np.allclose(colours[:, :3], to_rgb("#3f7fd0"))
    assert ramp("#3f7fd0")(0.0)[3] == pytest.approx(0.03) and ramp("#3f7fd0").N == 256


def test_links_are_drawn_in_their_order_and_stacked_by_job() -> None:
    loads = np.array([[0.5, 0.0, 0.25, 0.0], [0.25, 0.0, 0.0, 1.0]])
    (axes,) = shared_links_figure("t", ["a", "b"], loads, list("wxyz"), "% of the link").axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["w", "y", "z"]
    drawn: Any = axes.patches
    stacked = [(bar.get_y(), bar.get_height()) for bar in drawn]
    assert stacked == [(0, 50), (0, 25), (0, 0), (50, 25), (25, 0), (0, 100)]
    assert axes.get_ylim() == (0, 108.0) and axes.get_ylabel() == "% of the link"
    (full,) = shared_links_figure("t", ["a", "b"], 2 * loads, list("wxyz"), "%").axes
    assert full.get_ylim() == (0, 208.0)
    none = shared_links_figure("t", ["a"], np.zeros((1, 3)), list("xyz"), "%")
    assert not none.axes[0].get_xticklabels() and none.get_suptitle() == "t"


@pytest.mark.parametrize(("links", "more"), [(48, ""), (49, "; 1 more links carry as much or less, not drawn")])
def test_the_first_of_links_that_carry_as_much_are_drawn(links: int, more: str) -> None:
    figure = shared_links_figure("t", ["a"], np.ones((1, links)), [str(link) for link in range(links)], "%")
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == [str(link) for link in range(48)]
    assert figure.get_suptitle() == f"t{more}"


@pytest.mark.parametrize(
    ("steps", "shown"), [(1, [0]), (4, [0, 1, 2, 3]), (5, [0, 2, 4]), (6, [0, 3, 5]), (100, [0, 50, 99])]
)
def test_few_steps_are_all_shown_and_of_many_the_ends_and_the_middle(steps: int, shown: list[int]) -> None:
    assert steps_shown(steps) == shown


def test_links_are_averaged_in_equal_runs_of_which_the_last_is_shorter() -> None:
    amount = np.arange(10.0).reshape(2, 5)
    assert downsampled(amount, 2).tolist() == [[1.0, 3.5], [6.0, 8.5]]
    assert downsampled(amount, 5).tolist() == downsampled(amount, 9).tolist() == amount.tolist()


def test_loads_are_shares_of_the_largest_and_said_on_average() -> None:
    fabric = load_fabric("ring", 4)
    schedule = in_steps(build(find("ring"), Collective("all-gather", 4, 4e6), fabric), fabric)
    figure = link_load_map(schedule, fabric, "part")
    assert figure.get_suptitle().startswith("ring: all-gather among 4 ranks, mean load 50% of the largest")
    axes = figure.axes[0]
    assert axes.get_ylabel() == "part" and axes.get_xlabel().startswith("link (0: ")
    drawn = axes.images[0].get_array()
    assert drawn is not None and drawn.max() == 1.0 and axes.images[0].get_clim() == (0, 1)
    assert [*axes.images[0].get_extent()] == [-0.5, fabric.links - 0.5, schedule.steps + 0.5, 0.5]


def test_circuits_are_squares_from_source_to_destination() -> None:
    fabric = CircuitSwitch(ranks=4, degree=2)
    schedule = in_steps(build(find("ring"), Collective("all-gather", 4, 4e6), fabric), fabric)
    figure = circuit_map(schedule, fabric)
    panels = figure.axes[: schedule.steps]
    for step, axes in enumerate(panels):
        offsets: Any = axes.collections[0].get_offsets()
        assert {tuple(at) for at in offsets.tolist()} == {((rank + 1) % 4, rank) for rank in range(4)}
        assert axes.get_title("left") == f"step {step + 1} of {schedule.steps}: 50% of ports"
        assert axes.get_ylim() == (3.7, -0.7) and axes.get_xlim() == (-0.7, 3.7)
    assert "all-gather among 4 ranks on 2 switch planes" in figure.get_suptitle()
    held = wavelength_caption(schedule, fabric)
    assert "% of the ports on all 2 switch planes hold a circuit." in held


def test_captions_count_one_step_in_the_singular() -> None:
    fabric = wdm_ring(4, 4)
    for name, text in (("one-stage", "in 1 step."), ("ring", "in 3 steps.")):
        schedule = build(find(name), Collective("all-gather", 4, 4e6), fabric)
        assert (text in wavelength_caption(schedule, fabric)) == (schedule.steps == (1 if name == "one-stage" else 3))


@pytest.mark.parametrize(("ranks", "each"), [(128, "rank"), (129, "2 ranks"), (257, "3 ranks")])
def test_neighbours_are_drawn_as_one_beyond_as_many_cells(ranks: int, each: str) -> None:
    source = np.arange(ranks)
    matrix = np.zeros((ranks, ranks))
    matrix[source, (source + 1) % ranks] = 1e6
    figure = assignment_figure(ring.assign(Traffic.of(matrix), WdmRing(ranks=ranks)), 1e9)
    axes = figure.axes[0]
    assert (axes.get_ylabel(), axes.get_xlabel()) == (f"sends, {each} a row", f"receives, {each} a column")
    drawn: Any = axes.images[0].get_array()
    assert drawn.shape[0] == -(-ranks // (1 if each == "rank" else int(each[0]))) <= MOST_CELLS
    assert (drawn[..., 3] > 0).any(axis=1).all()


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("", True),
        ("–", True),
        (" – ", True),
        ("12", True),
        ("-1.5e-3", True),
        ("≥ 12 ms", True),
        ("$ 1,234", True),
        ("83 %", True),
        ("1.25×", True),
        ("12 microseconds", False),
        ("ring 3", False),
        ("3 of 4", False),
        ("ms", False),
    ],
)
def test_cells_are_numbers_where_nothing_but_a_unit_follows(text: str, number: bool) -> None:
    assert numeric(text) is number


def test_the_first_column_of_a_table_is_flush_left_unless_others_are_named() -> None:
    def sides(left: list[str] | None) -> list[str]:
        return [column.justify for column in plain_table(["a", "b", "c"], [("1", "2", "3")], left=left).columns]

    assert sides(None) == ["left", "right", "right"]
    assert sides(["b"]) == ["right", "left", "right"] and sides([]) == ["right"] * 3
    shown = to_text(rows_table([{"name": "x", "n": 1}, {"name": "y", "n": 20}], title="Counts"))
    assert [line.split() for line in shown.splitlines()] == [["Counts"], ["name", "n"], ["x", "1"], ["y", "20"]]


@pytest.mark.parametrize(("count", "hidden"), [(8, 0), (9, 1), (11, 3)])
def test_a_screen_shows_eight_rows_and_says_how_many_it_hides(count: int, hidden: int) -> None:
    rows = [{"name": f"row {n}", "n": n} for n in range(count)]

    def shown(**options: Any) -> str:
        parts = list(screen("Which?", ["this"], rows, **options))
        return "\n".join(to_text(part) if not isinstance(part, str) else part for part in parts)  # type: ignore[arg-type]

    text = shown()
    assert ("row 7" in text, "row 8" in text) == (True, False)
    assert (f"{hidden} more" in text) is (hidden > 0)
    assert f"row {count - 1}" in shown(all=True) and "more" not in shown(all=True)


def test_a_full_bar_is_the_slowest_row_up_to_four_times_the_fastest() -> None:
    def full(*times: float) -> float:
        return bar_scale([replace(ROWS[0], step_time=time, breakdown={"compute_s": time}) for time in times])

    assert full(1.0, 4.0) == 4.0 and full(1.0, 4.01) == 3.0 and full(2.0) == 2.0
    assert full(4.0, 1.0, 2.0) == 4.0


def test_columns_without_rows_hold_no_numbers() -> None:
    assert numeric_columns(Table(title="", columns=("a", "b"), rows=())) == [False, False]
    table = table_of("t", [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}], "caption")
    assert (table.columns, table.rows, table.caption) == (("a", "b"), (("1", "x"), ("2", "y")), "caption")
    assert numeric_columns(table) == [True, False]


def ranked(**facts: Any) -> RankingRow:
    fields = {"strategy": "ddp", "label": "x", "step_time": 2.0, "breakdown": {"compute_s": 2.0}, "global_batch": 4}
    return RankingRow(**{**fields, **facts})


def test_samples_of_a_row_share_its_time_and_its_joules() -> None:
    row = ranked(energy=8.0, known_energy=4.0, energy_mark="≥ ")
    assert (row.sample_time, row.samples_per_second, row.joules_per_sample) == (0.5, 2.0, 2.0)
    assert row.energy_per_sample == "≥ 2 J"
    assert ranked(known_energy=4.0).joules_per_sample == 1.0
    assert ranked().joules_per_sample is None and ranked(energy_mark="≥ ").energy_per_sample == "not sourced"
    assert ranked(energy=0.0, known_energy=4.0).joules_per_sample == 0.0
    none = ranked(step_time=0.0, breakdown={})
    assert none.samples_per_second == float("inf") and none.per_sample() == {}


def test_a_breakdown_adds_up_but_for_rounding() -> None:
    assert ranked(breakdown={"compute_s": 2.0 * (1 + 9e-7)})
    with pytest.raises(ValueError, match="breakdown of x adds up to"):
        ranked(breakdown={"compute_s": 2.0 * (1 + 3e-6)})
    assert ranked(step_time=0.0, breakdown={"idle_s": 1e-13})


def test_traces_hold_every_interval_in_microseconds_and_arrows_between_resources(tmp_path: Path) -> None:
    def interval(resource: str, start: float, end: float, task: int | None, after: tuple[int, ...] = ()) -> Interval:
        category = "forward" if resource == "device" else "transmission"
        details = {"bytes": 8}
        return Interval(
            resource=resource,
            category=category,
            name=f"{resource} {task}",
            start=start,
            end=end,
            details=details,
            task=task,
            after=after,
        )

    line = Timeline.of(
        [
            interval("device", 0, 2, 0),
            interval("device", 2, 3, 1, (0,)),
            interval("ring", 2, 4, 2, (0,)),
            interval("device", 4, 5, None, (2, 1)),
        ]
    )
    counter = Counter("load", (0.0, 1.5), (3.0, 0.0))
    path = write_perfetto_trace(tmp_path / "t.json", line, title="t", provenance={"a": 1}, counters=[counter])
    text = path.read_text()
    events = json.loads(text)["traceEvents"]
    assert text.endswith("}\n") and json.loads(text)["metadata"] == {"provenance": {"a": 1}}
    whole = [event for event in events if event["ph"] == "X"]
    assert [(each["tid"], each["ts"], each["dur"]) for each in whole] == [
        (1, 0, 2e6),
        (1, 2e6, 1e6),
        (2, 2e6, 2e6),
        (1, 4e6, 1e6),
    ]
    assert whole[0]["args"] == {"bytes": 8} and whole[0]["cat"] == "forward"
    flows = [(each["ph"], each["id"], each["tid"], each["ts"]) for each in events if each["ph"] in "sf"]
    assert flows == [("s", 1, 1, 1e6), ("f", 1, 2, 2e6), ("s", 2, 2, 3e6), ("f", 2, 1, 4e6)]
    assert [(each["ts"], each["args"]["value"]) for each in events if each["ph"] == "C"] == [(0, 3.0), (1.5e6, 0.0)]
    named = [(each["name"], each["tid"], each["args"]) for each in events if each["ph"] == "M"]
    assert named == [
        ("process_name", 0, {"name": "t"}),
        ("thread_name", 1, {"name": "device"}),
        ("thread_sort_index", 1, {"sort_index": 1}),
        ("thread_name", 2, {"name": "ring"}),
        ("thread_sort_index", 2, {"sort_index": 2}),
    ]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_names_at_the_side_keep_their_distance_and_are_near_their_dots(preferred: list[float]) -> None:
    """As far apart as all have room for, an eighth of the panel at most, and at the dot where no other is near."""
    preferred = sorted(preferred, reverse=True)
    heights, stride = _heights(preferred), min(1 / len(preferred), 0.12)
    assert len(heights) == len(preferred)
    assert all(above - below >= stride - 1e-9 for above, below in pairwise(heights))
    assert stride / 2 - 1e-9 <= heights[-1] and heights[0] <= 1 - stride / 2 + 1e-9
    apart = [1.0, *preferred, 0.0]
    rest = range(len(preferred) - 1, -1, -1)
    for place, (height, below) in enumerate(zip(preferred, rest, strict=True)):
        free = apart[place] - height >= stride and height - apart[place + 2] >= stride
        if free and height >= stride * (below + 0.5) and (not place or heights[place - 1] - height >= stride):
            assert heights[place] == height
    assert _heights([0.5]) == [0.5] and _heights([1.0]) == [0.94] and _heights([0.0]) == [pytest.approx(0.06)]
    assert _heights([0.2, 0.2]) == pytest.approx([0.2, 0.08]) and _heights([0.1, 0.1]) == pytest.approx([0.18, 0.06])


@pytest.mark.parametrize(
    ("most", "ticks"), [(3.0, (1, 1.5, 2, 3, 4, 5, 6, 7, 8)), (3.1, (1, 2, 5)), (300.0, (1, 2, 5)), (301.0, (1,))]
)
def test_wider_scales_have_fewer_ticks_a_decade_and_air_at_both_ends(most: float, ticks: tuple[float, ...]) -> None:
    points = [Point("ddp", "here", "a", 1.0, 1.0), Point("ddp", "here", "b", most, most)]
    axes = pareto_figure(points, points[:1]).axes[0]
    air = max(most**0.06, 1.06)
    for axis, limits in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        locator: Any = axis.get_major_locator()
        assert tuple(locator._subs) == ticks
        assert limits == pytest.approx((1 / air, most * air)) and axis.get_scale() == "log"
    assert [format_time(value) for value in (1.0, 2.0)] == [
        axes.xaxis.get_major_formatter()(value, None) for value in (1.0, 2.0)
    ]
    assert axes.yaxis.get_major_formatter()(2.0, None) == format_energy(2.0)


def test_methods_are_named_beside_their_dots_where_no_other_name_is() -> None:
    """Right above first, then right below; and left of a dot that has no room on its right."""
    alike = [ExchangePoint(f"method {n}", 2.0, 0.1, 0.0, 0.2, False) for n in range(8)]
    (axes,) = exchange_figure([*alike, ExchangePoint("far", 64.0, 0.5, 0.4, 0.6, True)], "title").axes
    told: Any = axes.texts
    offsets = [text.get_position() for text in told[:-1]]
    width = 4.2 * len("method 0") + 4
    left = [at for at in ((-5 - width, 5), (-5 - width, -11)) if at in offsets]
    assert offsets[:2] == [(5, 5), (5, -11)] and left, "both sides"
    assert sorted(offsets[4:7]) == [(5, -21), (5, 15), (5, 25)] and offsets[7] == (5, 25), "the last where none is free"
    assert told[-1].get_position() == (5, 5)
    assert [text.xy for text in told] == [(2.0, 0.1)] * 8 + [(64.0, 0.5)]
    drawings: list[Any] = [*axes.collections]
    filled = [to_hex(dot.get_facecolor()[0]) for dot in drawings if len(dot.get_facecolor())]
    assert filled.count("#ffffff") == 8
    spreads = [np.asarray(line.get_segments())[0, :, 1].tolist() for line in drawings[::2]]
    assert spreads == [[0.0, 0.2]] * 8 + [[0.4, 0.6]]
    assert next(line for line in axes.lines if len(np.asarray(line.get_ydata())) == 2).get_ydata() == [0, 0]


@pytest.mark.parametrize("taps", [1, 3, 40])
def test_light_is_drawn_as_far_as_the_budget_reaches_and_one_link_on(taps: int) -> None:
    budget = LinkBudget()
    reach = budget.reach(taps)
    (axes,) = budget_figure(budget, taps).axes
    lines: list[Any] = [*axes.lines]
    longer, light, served, floor, margin = ([*zip(*line.get_data(), strict=True)] for line in lines)
    links = max(reach or 0, 1)
    for drawn, length in ((longer, links + 1), (light, links)):
        assert [x for x, _ in drawn] == list(range(1, length + 1))
        assert [y for _, y in drawn] == budget.levels(length, min(taps, length)).tolist()
    assert served == light[links - min(taps, links) :]
    least = dbm(budget.sensitivity) + budget.receiving_loss
    assert [y for _, y in floor] == [least] * 2 and [y for _, y in margin] == [pytest.approx(least + budget.margin)] * 2
    told = "one destination" if taps == 1 else f"up to {taps} destinations"
    title = axes.get_title("left") or axes.get_title()
    assert title == f"Light of {budget.laser_dbm:.1f} dBm from the laser, {told}: {reach} links"


def test_budgets_without_a_limit_are_drawn_to_256_links() -> None:
    budget = LinkBudget(node_loss=0.0, fibre_length=0.0)
    (axes,) = budget_figure(budget, 1).axes
    assert budget.reach(1) is None and len(np.asarray(axes.lines[1].get_xdata())) == 256
    assert (axes.get_title("left") or axes.get_title()).endswith("no limit")


def test_bars_of_every_kind_are_as_high_whatever_their_number() -> None:
    """A row more makes a figure higher by as much as a row is, or by the lines of its name."""

    def height(figure: Any) -> float:
        wide, high = figure.get_size_inches()
        assert 7 <= wide <= 9
        return float(high)

    rows = [("a", {"compute_s": 1.0})]
    assert height(breakdown_figure(2 * rows)) - height(breakdown_figure(rows)) == pytest.approx(0.36)
    tall = [("a\nb\nc\nd", {"compute_s": 1.0})]
    assert height(breakdown_figure(2 * tall)) - height(breakdown_figure(tall)) == pytest.approx(4 * 0.17)
    steps = [("x", 1.0)]
    one, two = (waterfall_figure(("a", 1.0), n * steps, ("b", 1.0), "t") for n in (1, 2))
    assert height(two) - height(one) == pytest.approx(0.36) and height(one) == pytest.approx(1.15 + 3 * 0.36)
    failed = [{"failures": [], "time_s": 1e-6, "lower_bound_s": 5e-7}]
    one, two = (damage_figure(n * failed, "all-reduce") for n in (1, 2))
    assert height(two) - height(one) == pytest.approx(0.36)
    for lanes, each in ((7, 0.5), (8, 0.32), (9, 0.32)):
        lines = Timeline.of(
            [Interval(resource=f"r{n}", category="forward", name="f", start=0, end=1) for n in range(lanes)]
        )
        assert height(timeline_figure(lines)) == pytest.approx(1.25 + each * (lanes + 1))


def test_stretches_are_bars_in_their_row_and_idle_ones_thin_lines() -> None:
    line = Timeline.of([
        Interval(resource="device", category="forward", name="f", start=0.0, end=0.5),
        Interval(resource="device", category="backward", name="b", start=0.75, end=0.753),
        Interval(resource="ring", category="transmission", name="t", start=0.5, end=0.625),
        Interval(resource="ring", category="reconfiguration", name="t", start=0.75, end=1.0),
    ])  # fmt: skip
    (axes,) = timeline_figure(line).axes
    kinds = {
        name: [each for each in axes.collections if type(each).__name__ == name]
        for name in ("PolyCollection", "LineCollection")
    }
    boxes = [path.get_extents() for each in kinds["PolyCollection"] for path in each.get_paths()]
    lines = [np.asarray(segment) for each in kinds["LineCollection"] for segment in each.get_segments()]  # type: ignore[attr-defined]
    drawn = [(box.x0, box.x1, (box.y0 + box.y1) / 2) for box in boxes]
    waited = [(0, 500), (500, 625), (625, 750), (750, 753), (753, 1000)]
    lanes = [(0, 500, 0), (750, 753, 0), (500, 625, 1), (750, 1000, 1)]
    assert drawn == [pytest.approx(each) for each in (*lanes, *((*ends, 2) for ends in waited))]
    assert [box.height for box in boxes] == pytest.approx([0.72] * 4 + [0.36] * 5)
    begins = [(segment[0, 0], np.ptp(segment[:, 1])) for segment in lines if np.ptp(segment[:, 0]) == 0]
    # Bars narrower than 0.4 % of the step begin without a line.
    assert begins == [pytest.approx(each) for each in (
        (0, 0.72), (500, 0.72), (750, 0.72), (0, 0.36), (500, 0.36), (625, 0.36), (753, 0.36)
    )]  # fmt: skip
    (idle,) = (segment for segment in lines if np.ptp(segment[:, 1]) == 0)
    assert idle.tolist() == [[625, 2], [750, 2]] and axes.get_xlim() == (0, 1000)
    assert axes.get_xlabel() == f"milliseconds; the step takes {format_time(1.0)}"


def test_words_are_flush_left_and_numbers_flush_right_on_a_screen() -> None:
    rows: list[dict[str, object]] = [{"n": 1, "words": "x y", "share": "3 %"}, {"n": 2, "words": "–", "share": "–"}]

    def sides(**options: Any) -> list[str]:
        (table,) = (part for part in screen("Which?", ["this"], rows, **options) if isinstance(part, TerminalTable))
        return [str(column.justify) for column in table.columns]

    assert sides() == ["left", "left", "right"]
    assert sides(left=["share"]) == ["right", "right", "left"]
    assert not [part for part in screen("Which?", ["this"], (), left=["n"]) if isinstance(part, TerminalTable)]


def test_names_of_figures_alone_are_broken_after_dots_and_units_kept_whole() -> None:
    why = "charged once a lightpath. The paper counts it twice. Both hold."
    claim = Claim(id="optree.table1.steps", paper=1.5, ours=2.5, unit="s/img.of_one", why=why)
    for width in (64, 72, 90):
        table = claims_table([claim], width)
        cells = {str(column.header): next(iter(column.cells)) for column in table.columns}
        assert str(cells["unit"]) == claim.unit and str(cells.get("why", why)) == why
        assert str(cells["figure"]).replace("\n", "") == claim.id
        assert {column.header: column.width for column in table.columns}["unit"] >= len(claim.unit)  # type: ignore[operator]


@pytest.mark.long
def test_the_origin_of_a_figure_is_in_its_file(tmp_path: Path) -> None:
    figure = breakdown_figure([("a", {"compute_s": 1.0})])
    assert "made by x" in to_svg(figure, "made by x") and "dc:description" not in to_svg(figure)
    for suffix in (".svg", ".png", ".pdf"):
        told, silent = (
            save(figure, tmp_path / f"{len(origin)}{suffix}", origin).read_bytes() for origin in ("made by x", "")
        )
        assert (b"made by x" in told, b"made by x" in silent) == (True, False)


def test_a_collective_colours_its_transmissions_alone() -> None:
    def kind(category: str, **details: str) -> str:
        interval = Interval(resource="r", category=category, name="x", start=0.0, end=1.0, details=details)
        return task_kind(interval)

    assert kind("transmission", collective="all-reduce") == "all-reduce"
    assert kind("transmission", collective="broadcast") == kind("transmission") == "transmission"
    assert kind("codec", collective="all-reduce") == "codec"
