"""Comparisons hold their rows: dots, intervals, bars, bounds and names where the numbers say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.text import Text

from lightloom.core.units import format_energy, format_time
from lightloom.machines.fabrics.link_budget import LinkBudget
from lightloom.reports.figures.canvas import FAINT, INK, KINDS, SHARES, TASKS
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
from lightloom.reports.figures.links import shared_links_figure
from tests.reports.artists import (
    bars,
    dots,
    fills,
    hidden,
    notes,
    points,
    segments,
    strokes,
    ticks,
    tints,
    told,
)

COMPUTE, SEND = SHARES["compute_s"][1], SHARES["exposed_communication_s"][1]


def size(figure: Any) -> Any:
    wide, high = figure.get_size_inches()
    return float(wide), pytest.approx(float(high))


def test_predictions_have_their_intervals_around_the_line_of_equality() -> None:
    series = [
        PredictedSeries("a", np.array([1.0, 2.0]), np.array([1.5, 2.0]), np.array([1.0, 1.5]), np.array([3.0, 4.0])),
        PredictedSeries("b", np.array([8.0]), np.array([4.0])),
    ]
    figure = accuracy_figure(series)
    (axes,) = figure.axes
    assert points(axes)[0] == [(0.8, 0.8), (10, 10)]
    assert points(axes)[1:] == [[(1, 1.5), (2, 2)], [(8, 4)]]
    first, second = (colour for _, colour in list(TASKS.values())[:2])
    assert strokes(axes) == [
        (FAINT, 1, "-", "None", 6, 1, None),
        (first, 0.6, "None", "o", 3, 2.1, None),
        (second, 0.6, "None", "o", 3, 2.1, None),
    ]
    band, interval = axes.collections
    corners = set(segments(band)[0])
    assert corners >= {(0.8, 0.72), (0.8, 0.88), (10, 9), (10, 11)} and len(corners) == 4
    assert tints(band) == ([FAINT], [FAINT], [0], 0, 0.15)
    assert segments(interval) == [[(1, 1), (1, 3)], [(2, 1.5), (2, 4)]]
    assert axes.get_xscale() == axes.get_yscale() == "log" and axes.get_aspect() == 1
    assert hidden(axes) == {"top", "right"} and size(figure) == (5.2, 5.0)


def test_colours_of_series_begin_anew_when_all_were_used() -> None:
    one = PredictedSeries("a", np.array([1.0]), np.array([2.0]))
    (axes,) = accuracy_figure([one] * (len(TASKS) + 2)).axes
    expected = [colour for _, colour in TASKS.values()]
    assert [each[0] for each in strokes(axes)[1:]] == [*expected, *expected[:2]]


def test_an_interval_needs_both_of_its_ends() -> None:
    one, low = np.array([1.0]), np.array([0.5])
    (axes,) = accuracy_figure(
        [PredictedSeries("a", one, one, low, None), PredictedSeries("b", one, one, None, 2 * one)]
    ).axes
    assert axes.get_ylabel() == "predicted step with its 90 % interval, s"
    assert len(axes.collections) == 1 and axes.get_xlim() == pytest.approx((0.4, 2.5))


def test_speeds_at_which_methods_break_even_are_in_gigabits() -> None:
    lines = {f"method {n}": [(2, 1e9), (8, 0.5e9)] for n in range(8)}
    figure = break_even_figure(lines, "title")
    (axes,) = figure.axes
    assert points(axes) == [[(2, 8), (8, 4)]] * 8
    found = strokes(axes)
    assert {each[1:3] + each[4:] for each in found} == {(1.2, "-", 4, 2, None)}
    assert len({each[0] for each in found}) == len({each[3] for each in found}) == 7 and found[0] == found[7]
    assert ticks(axes.xaxis) == [(2, "2"), (8, "8")]
    assert axes.get_xscale() == axes.get_yscale() == "log"
    assert axes.xaxis.get_transform().base == 2  # type: ignore[attr-defined]
    assert list(axes.xaxis.get_minorticklocs()) == list(axes.yaxis.get_minorticklocs()) == []
    assert axes.yaxis.get_major_locator()._subs.tolist() == [1, 2, 5]  # type: ignore[attr-defined]
    assert axes.yaxis.get_major_formatter()(0.5) == "0.5" and axes.yaxis.get_major_formatter()(20.0) == "20"
    legend: Any = axes.get_legend()
    assert told(legend) == list(lines) and not legend.get_frame_on() and legend.get_texts()[0].get_fontsize() == 8
    anchor = legend.get_bbox_to_anchor()._bbox
    assert (anchor.x0, anchor.y0, legend._loc) == (1.01, 0.5, 6)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("ranks", "speed of a rank's link, Gb/s")
    assert axes.yaxis.get_major_locator()._base == 10 and axes._left_title.get_fontsize() == 9  # type: ignore[attr-defined]
    assert type(axes.xaxis.get_minor_locator()).__name__ == "NullLocator"
    assert axes.get_title("left") == "title" and hidden(axes) == {"top", "right"} and size(figure) == (8.2, 4.6)
    assert axes.get_axisbelow() is True and gridded(axes)


def gridded(axes: Any) -> bool:
    """Whether faint lines stand at the ticks of both axes."""
    lines = [*axes.get_xgridlines(), *axes.get_ygridlines()]
    assert {(line.get_linewidth(), line.get_alpha(), line.get_color()) for line in lines} == {(0.3, 0.6, FAINT)}
    return all(line.get_visible() for line in lines)


def test_totals_stand_behind_their_bars() -> None:
    rows = [("a", {"compute_s": 0.5, "exposed_reconfiguration_s": 0.25, "idle_s": 0.25}), ("b", {"idle_s": 0.5})]
    figure = breakdown_figure(rows)
    (axes,) = figure.axes
    low = -0.33
    assert bars(axes) == [
        (0, low, 500, 0.66),
        (500, low, 250, 0.66),
        (750, low, 250, 0.66),
        (0, 0.67, 500, 0.66),
    ]
    keys = ("compute_s", "exposed_reconfiguration_s", "idle_s", "idle_s")
    assert fills(axes) == [SHARES[key][1] for key in keys]
    assert all(patch.get_linewidth() == 0 for patch in axes.patches)
    assert notes(axes) == [
        (format_time(1.0), 1008, 0, "left", "center", 8.5),
        (format_time(0.5), 508, 1, "left", "center", 8.5),
    ]
    assert axes.get_xlim() == pytest.approx((0, 1100)) and axes.get_ylim() == (1.5, -0.5)
    assert told(figure.legends[0]) == ["compute", "exposed reconfiguration", "idle"]
    assert size(figure) == (9.0, 1.15 + 2 * 0.36)


def test_breakdowns_of_microseconds_keep_their_proportions() -> None:
    (axes,) = breakdown_figure([("a", {"compute_s": 1e-4, "idle_s": 5e-5}), ("b", {"compute_s": 5e-7})]).axes
    assert [(left, width) for left, _, width, _ in bars(axes)] == [(0, 100), (100, 50), (0, 0.5)]
    assert notes(axes)[0][1] == pytest.approx(150 * 1.008) and axes.get_xlim() == pytest.approx((0, 165))


def test_no_breakdowns_are_an_empty_panel() -> None:
    figure = breakdown_figure([])
    (axes,) = figure.axes
    assert not axes.patches and not axes.texts and axes.get_ylim() == (0.5, -0.5) and not ticks(axes.yaxis)
    assert (
        size(figure) == (9.0, 1.15)
        and axes.get_xlim() == pytest.approx((0, 1.1e-3))
        and axes.get_xlabel() == "microseconds a step"
    )


@pytest.mark.parametrize(("lines", "row"), [(1, 0.36), (2, 0.36), (3, 0.51), (5, 0.85)])
def test_rows_are_as_high_as_the_lines_of_their_names(lines: int, row: float) -> None:
    rows = [("\n".join("x" * lines), {"compute_s": 1.0}), ("y", {"compute_s": 1.0})]
    assert size(breakdown_figure(rows)) == (9.0, 1.15 + 2 * row)


def test_steps_of_a_waterfall_float_at_the_level_before_them() -> None:
    figure = waterfall_figure(("plain", 2.0), [("slower", 0.5), ("faster", -1.0), ("same", 0.0)], ("end", 1.5), "words")
    (axes,) = figure.axes
    low = -0.33
    assert bars(axes) == [
        (0, low, 2000, 0.66),
        (2000, 0.67, 500, 0.66),
        (2500, 1.67, -1000, 0.66),
        (1500, 2.67, 0, 0.66),
        (0, 3.67, 1500, 0.66),
    ]
    assert fills(axes) == [INK, SEND, COMPUTE, COMPUTE, INK] and not any(each.get_linewidth() for each in axes.patches)
    # Words stand 0.8 % of the first bar behind the right end of each.
    assert [(text, x, y) for text, x, y, *_ in notes(axes)] == [
        (format_time(2.0), 2016, 0),
        ("+25.0 %", 2516, 1),
        ("-50.0 %", 2516, 2),
        ("0 %", 1516, 3),
        (format_time(1.5), 1516, 4),
    ]
    assert {each[3:5] for each in notes(axes)} == {("left", "center")}
    assert axes.get_xlim() == pytest.approx((0, 2800)) and axes.get_title("left") == "words"
    assert [label for _, label in ticks(axes.yaxis)] == ["plain", "slower", "faster", "same", "end"]
    assert axes.get_ylim() == (4.5, -0.5) and axes.get_xlabel() == "milliseconds a sample"
    assert size(figure) == (9.0, 1.15 + 0.36 * 5) and axes.title.get_fontsize() != 9 == axes._left_title.get_fontsize()  # type: ignore[attr-defined]


@pytest.mark.parametrize("last", [0.5, 2.0, 9.0])
def test_the_axis_of_a_waterfall_holds_every_bar(last: float) -> None:
    (axes,) = waterfall_figure(("a", 2.0), [("b", 3.0), ("c", last - 5.0)], ("d", last), "t").axes
    assert axes.get_xlim()[1] == pytest.approx(1.12 * max(left + max(width, 0) for left, _, width, _ in bars(axes)))


def test_dollar_signs_of_names_start_no_formula() -> None:
    name, one = "$a_b$", np.array([1.0])
    figures = [
        break_even_figure({name: [(2, 1e9)]}, name),
        waterfall_figure((name, 1.0), [(name, 1.0)], (name, 2.0), name),
        exchange_figure([ExchangePoint(name, 2.0, 0.1, 0.0, 0.2, True)], name),
        accuracy_figure([PredictedSeries(name, one, one)]),
        shared_links_figure(name, [name], np.ones((1, 1)), [name], "load"),
    ]
    for figure in figures:
        texts = [text.get_text() for text in figure.findobj(Text)]
        assert any(r"\$a_b\$" in text for text in texts) and not any("$a_b$" in text for text in texts)


@pytest.mark.parametrize(
    ("change", "words"), [(0.0005, "+0.1 %"), (0.00049, "0 %"), (-0.0005, "-0.1 %"), (-0.00049, "0 %")]
)
def test_a_step_of_less_than_half_a_tenth_of_a_percent_is_none(change: float, words: str) -> None:
    (axes,) = waterfall_figure(("a", 1.0), [("b", change * 1.0001)], ("c", 1.0 + change), "t").axes
    assert notes(axes)[1][0] == words


def test_half_a_tenth_of_a_percent_is_the_least_that_is_told() -> None:
    (axes,) = waterfall_figure(("a", 10_000.0), [("b", 5.0), ("c", -5.0)], ("d", 10_000.0), "t").axes
    assert [text for text, *_ in notes(axes)][1:3] == ["+0.1 %", "-0.1 %"]


def test_a_budget_is_drawn_with_a_link_more_than_it_reaches() -> None:
    budget = LinkBudget()
    reach = budget.reach(2)
    assert reach is not None and reach > 2
    figure = budget_figure(budget, 2)
    (axes,) = figure.axes
    longer, light, served, floor, margin = axes.lines
    assert [x for x, _ in points(axes)[0]] == list(range(1, reach + 2))
    assert [x for x, _ in points(axes)[1]] == list(range(1, reach + 1))
    assert [x for x, _ in points(axes)[2]] == [reach - 1, reach]
    assert np.allclose(np.asarray(served.get_ydata()), np.asarray(light.get_ydata())[-2:])
    assert served.get_ydata()[-1] >= margin.get_ydata()[0] - 1e-9 > longer.get_ydata()[-1]  # type: ignore[index,operator]
    assert margin.get_ydata()[0] - floor.get_ydata()[0] == pytest.approx(budget.margin)  # type: ignore[index,operator]
    assert [each[:4] + each[5:] for each in strokes(axes)] == [
        (FAINT, 1.5, "-", ".", 2, None),
        (COMPUTE, 1.5, "-", ".", 2, None),
        (COMPUTE, 1.5, "None", "o", 3, None),
        (SEND, 1, "--", "None", 2, None),
        (SEND, 0.6, ":", "None", 2, None),
    ]
    assert told(axes.get_legend()) == [
        "one link more",
        "light in the fibre",
        "served here",
        "least that a receiver needs there",
        "the same with margin",
    ]
    assert size(figure) == (7.2, 3.4) and axes.xaxis.get_major_locator()._nbins == 10  # type: ignore[attr-defined]


def test_a_budget_without_a_limit_is_drawn_to_256_links() -> None:
    budget = LinkBudget(node_loss=0.0, fibre_length=0.0)
    if budget.reach(1) is not None:
        budget = budget.model_copy(update={"laser_power": 1e30})
    (axes,) = budget_figure(budget, 1).axes
    assert [len(each) for each in points(axes)[:3]] == [257, 256, 1]


def test_a_budget_that_reaches_nowhere_shows_one_link() -> None:
    budget = LinkBudget(laser_power=1e-9)
    assert budget.reach(1) == 0
    (axes,) = budget_figure(budget, 1).axes
    assert [len(each) for each in points(axes)[:3]] == [2, 1, 1]
    assert axes.get_title("left").endswith("one destination: 0 links")


def test_a_lightpath_serves_no_more_taps_than_links() -> None:
    budget = LinkBudget()
    (axes,) = budget_figure(budget, 500).axes
    reach = budget.reach(500)
    assert reach is not None and [x for x, _ in points(axes)[2]] == list(range(1, reach + 1))


def test_damage_is_a_bar_with_a_mark_at_its_bound() -> None:
    rows = [
        {"failures": ["a $"], "time_s": 2e-6, "lower_bound_s": 1e-6},
        {"failures": ["b", "c", "d"], "time_s": 4e-6, "lower_bound_s": 3e-6},
    ]
    figure = damage_figure(rows, "all-gather")
    (axes,) = figure.axes
    assert bars(axes) == [(0, -0.3, 2, 0.6), (0, 0.7, 4, 0.6)] and fills(axes) == [TASKS["all-gather"][1]] * 2
    assert points(axes) == [[(1, 0), (3, 1)]] and axes.yaxis_inverted()
    (mark,) = axes.lines
    assert (mark.get_color(), mark.get_marker(), mark.get_linestyle()) == (INK, "|", "None")
    assert (mark.get_markersize(), mark.get_markeredgewidth()) == (14, 2)
    assert ticks(axes.yaxis) == [(0, r"a \$"), (1, "all 3 together")]
    legend: Any = axes.get_legend()
    assert sorted(told(legend)) == ["lower bound of what is left", "time"] and legend._ncols == 2
    assert axes.get_xlabel() == "µs from dark circuits" and size(figure) == (7.2, 1.2 + 0.36 * 2)
    corner = legend.get_bbox_to_anchor()._bbox
    assert (corner.x0, corner.y0, legend._loc, legend.get_frame_on()) == (0, 1, 3, False)


def test_exchanges_are_dots_with_their_spread_and_the_front_is_filled() -> None:
    found = [
        ExchangePoint("a $", 4.0, 0.5, 0.25, 1.0, True),
        ExchangePoint("b", 2.0, 0.75, 0.5, 0.875, False),
        ExchangePoint("c", 1.0, 0.0, -0.25, 0.25, True),
    ]
    figure = exchange_figure(found, "words")
    (axes,) = figure.axes
    spreads, marks = axes.collections[::2], axes.collections[1::2]
    assert [segments(each) for each in spreads] == [
        [[(4, 0.25), (4, 1)]],
        [[(2, 0.5), (2, 0.875)]],
        [[(1, -0.25), (1, 0.25)]],
    ]
    assert [dots(each) for each in marks] == [[(4, 0.5)], [(2, 0.75)], [(1, 0)]]
    front, other = "#1f6f8b", "#7a8896"
    assert [tints(each)[1:] for each in spreads] == [([colour], [1.2], 2, None) for colour in (front, other, front)]
    assert [tints(each)[:2] for each in marks] == [([front], [front]), (["#ffffff"], [other]), ([front], [front])]
    assert {(tints(each)[3], float(each.get_sizes()[0])) for each in marks} == {(3, 30)}  # type: ignore[attr-defined]
    joined, zero = axes.lines
    assert points(axes) == [[(1, 0), (4, 0.5)], [(0, 0), (1, 0)]]
    assert (joined.get_drawstyle(), zero.get_drawstyle()) == ("steps-post", "default")
    assert [each[:4] + each[5:] for each in strokes(axes)] == [
        (INK, 0.8, "-", "None", 1, None),
        (FAINT, 0.6, "-", "None", 2, None),
    ]
    assert axes.get_xscale() == "log" and axes.xaxis.get_transform().base == 2  # type: ignore[attr-defined]
    assert axes.get_yscale() == "linear" and axes.get_xlim() == pytest.approx((0.9, 6.4))
    assert axes.xaxis.get_major_formatter()(4.0, None) == "4 x"
    assert axes.xaxis.get_major_locator()._base == 2  # type: ignore[attr-defined]
    assert [(text.get_text(), text.xy, text.get_position(), text.get_fontsize()) for text in axes.texts] == [  # type: ignore[attr-defined]
        (r"a \$", (4.0, 0.5), (5, 5), 7),
        ("b", (2.0, 0.75), (5, 5), 7),
        ("c", (1.0, 0.0), (5, 5), 7),
    ]
    assert gridded(axes) and axes.get_axisbelow() is True and hidden(axes) == {"top", "right"}
    assert size(figure) == (8.2, 4.6) and axes.get_title("left") == "words"
    assert axes._left_title.get_fontsize() == 9  # type: ignore[attr-defined]
    assert axes.get_xlabel() == "bytes saved, relative to an all-reduce of float32"
    assert axes.get_ylabel() == "validation loss less the plain run's"


def plan(kind: str, site: str, time: float, energy: float, name: str = "plan") -> Point:
    return Point(kind, site, name, time, energy)


def test_plans_are_coloured_by_kind_and_shaped_by_site() -> None:
    found = [plan("ddp", "x", 1, 8), plan("fsdp", "y", 2, 4), plan("ddp", "y", 4, 2), plan("ddp", "y", 8, 6)]
    figure = pareto_figure(found, found[:3])
    axes, side = figure.axes
    marks: list[Any] = [each for each in axes.collections if dots(each)]
    assert [dots(each) for each in marks] == [[(1, 8)], [(4, 2), (8, 6)], [(2, 4)], [(1, 8), (2, 4), (4, 2)]]
    ddp, fsdp = KINDS["ddp"], KINDS["fsdp"]
    assert [to_hex(each.get_facecolor()[0]) for each in marks[:3]] == [ddp, ddp, fsdp]
    assert [(float(each.get_sizes()[0]), each.get_zorder(), each.get_alpha()) for each in marks[:3]] == [
        (22, 2, 0.75)
    ] * 3
    ring = marks[3]
    assert (float(ring.get_sizes()[0]), tints(ring)) == (60, ([], [INK], [0.9], 3, None))
    shapes = [each.get_paths()[0].vertices.shape for each in marks[:3]]
    assert shapes[0] != shapes[1] == shapes[2]
    (front,) = axes.lines
    assert points(axes) == [[(1, 8), (2, 4), (4, 2)]] and front.get_drawstyle() == "steps-post"
    assert strokes(axes) == [(INK, 0.9, "-", "None", 6, 1, None)]
    handles: list[Any] = figure.legends[0].legend_handles
    assert told(figure.legends[0]) == ["ddp", "fsdp", "x", "y"]
    assert [(each.get_color(), each.get_marker()) for each in handles] == [
        (ddp, "o"),
        (fsdp, "o"),
        (FAINT, "o"),
        (FAINT, "s"),
    ]
    assert {(each.get_linestyle(), each.get_markersize()) for each in handles} == {("None", 5)}
    assert figure.legends[0]._ncols == 4  # type: ignore[attr-defined]
    assert size(figure) == (9.0, 4.2) and hidden(axes) == {"top", "right"} and gridded(axes)
    assert [text.get_text().splitlines() for text in side.texts] == [
        ["plan", f"{site}, {format_time(time)}, {format_energy(energy)}"]
        for site, time, energy in (("x", 1, 8), ("y", 2, 4), ("y", 4, 2))
    ]
    assert not side.axison and side.get_xlim() == side.get_ylim() == (0, 1)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("time a sample", "energy a sample")


def test_plans_of_one_site_are_told_apart_by_kind_alone() -> None:
    found = [plan("placed", "x", 1, 8), plan("tensor-pipeline", "x", 2, 4)]
    figure = pareto_figure(found, found)
    assert told(figure.legends[0]) == ["tensor-pipeline", "placed"]
    assert [float(each.get_linewidth()[0]) for each in figure.axes[0].collections[:2]] == [0, 0]  # type: ignore[index]
    assert figure.axes[0].get_gridspec().get_width_ratios() == (5, 3.4)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("least", "most", "subs"),
    [
        (2, 5.9, [1, 1.5, 2, 3, 4, 5, 6, 7, 8]),
        (2, 6, [1, 1.5, 2, 3, 4, 5, 6, 7, 8]),
        (2, 6.1, [1, 2, 5]),
        (2, 600, [1, 2, 5]),
        (2, 601, [1]),
    ],
)
def test_ticks_of_plans_are_fewer_where_their_axes_span_more(least: float, most: float, subs: list[float]) -> None:
    found = [plan("ddp", "x", least, most), plan("ddp", "x", most, least)]
    axes = pareto_figure(found, found).axes[0]
    locators: list[Any] = [axes.xaxis.get_major_locator(), axes.yaxis.get_major_locator()]
    assert [list(each._subs) for each in locators] == [subs, subs]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    words = axes.xaxis.get_major_formatter()(least, None), axes.yaxis.get_major_formatter()(least, None)
    assert words == (format_time(least), format_energy(least)) and axes.xaxis.get_minor_formatter()(3.0, None) == ""


def test_names_of_plans_are_broken_between_words_and_not_at_hyphens() -> None:
    words = "x" * 44 + " all-gather"
    for name, broken in (
        (words, [words[:44], "all-gather"]),
        ("y" * 52, ["y" * 52]),
        ("y " * 27, [("y " * 26)[:-1], "y"]),
    ):
        found = [plan("ddp", "x", 1, 8, name)]
        lines = pareto_figure(found, found).axes[1].texts[0].get_text().splitlines()[:-1]
        assert lines == broken


def test_lines_lead_from_names_to_their_dots() -> None:
    found = [plan("ddp", "x", 1, 8, "a " * 40), plan("ddp", "x", 2, 4, "b")]
    figure = pareto_figure(found, found[::-1])
    axes, side = figure.axes
    links: list[Any] = figure.artists
    assert [each.xy1 for each in links] == [(1, 8), (2, 4)]
    heights = [text.get_position()[1] for text in side.texts]
    assert [each.xy2 for each in links] == [(0.02, height) for height in heights]
    assert all(each.axesA is axes and each.axesB is side and not each.get_in_layout() for each in links)
    assert {(to_hex(each.get_edgecolor()), each.get_linewidth(), each.shrinkA) for each in links} == {(FAINT, 0.4, 4)}
    assert {(x, sideways, upright, letters) for _, x, _, sideways, upright, letters in notes(side)} == {
        (0.04, "left", "center", 7.2)
    }
    long, short = (text.get_text().splitlines() for text in side.texts)
    assert [len(line) for line in long[:-1]] == [51, 27] and short[0] == "b"
    dot = axes.transAxes.inverted().transform(axes.transData.transform((1, 8)))[1]
    assert heights[0] == pytest.approx(min(dot, 0.94)) and heights[1] == pytest.approx(0.06, abs=0.02)


@pytest.mark.parametrize(
    ("count", "height"), [(5, 4.2), (6, 1.4 + 0.5 * 6), (10, 1.4 + 0.5 * 10), (11, 1.4 + 0.5 * 10)]
)
def test_a_figure_grows_with_the_plans_that_it_names(count: int, height: float) -> None:
    front = [plan("ddp", "x", 1.0 + n, 20.0 - n, str(n)) for n in range(count)]
    assert size(pareto_figure(front, front)) == (9.0, height)


@pytest.mark.parametrize(
    ("preferred", "heights"),
    [
        ([0.9], [0.9]),
        ([1.0], [0.94]),
        ([0.0], [0.06]),
        ([0.9, 0.9, 0.9], [0.9, 0.78, 0.66]),
        ([0.1, 0.1, 0.1], [0.3, 0.18, 0.06]),
        ([0.9, 0.5, 0.1], [0.9, 0.5, 0.1]),
        ([0.5] * 10, [0.95, 0.85, 0.75, 0.65, 0.55, 0.45, 0.35, 0.25, 0.15, 0.05]),
        ([0.8, 0.7, 0.3], [0.8, 0.68, 0.3]),
    ],
)
def test_names_stand_at_their_dots_or_the_nearest_place_with_room(preferred: list[float], heights: list[float]) -> None:
    assert _heights(preferred) == pytest.approx(heights)


@pytest.mark.parametrize("most", [1.0, 2.0, 100.0, 1000.0])
def test_axes_of_plans_have_air_on_both_sides(most: float) -> None:
    found = [plan("ddp", "x", 1, most), plan("ddp", "x", most, 1)]
    axes = pareto_figure(found, found).axes[0]
    air = max(most**0.06, 1.06)
    assert axes.get_xlim() == axes.get_ylim() == pytest.approx((1 / air, most * air))
