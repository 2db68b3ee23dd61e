"""Every figure can be read: letters and lines of a size that prints, and nothing outside of it or on other words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from lightloom.collectives.collective import Collective, Kind
from lightloom.collectives.registry import build, find
from lightloom.core.timeline import Interval, Timeline
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.link_budget import LinkBudget
from lightloom.machines.fabrics.load import load_fabric
from lightloom.machines.fabrics.switches import CircuitSwitch
from lightloom.photonics.chip.floorplan import FloorPlan, Place, Rules
from lightloom.photonics.meshes.mapping import map_matrix
from lightloom.planning.figures import group_figure, placement_figure
from lightloom.reports.figures.comparisons import (
    ExchangePoint,
    Point,
    PredictedSeries,
    accuracy_figure,
    break_even_figure,
    breakdown_figure,
    budget_figure,
    damage_figure,
    exchange_figure,
    pareto_figure,
    waterfall_figure,
)
from lightloom.reports.figures.links import shared_links_figure, wavelength_map
from lightloom.reports.figures.photonics import (
    calibration_figure,
    chain_figure,
    chip_figure,
    link_figure,
    noise_figure,
    reducers_figure,
    sweep_figure,
    training_figure,
)
from lightloom.reports.figures.timelines import timeline_figure
from tests.collectives.strategies import wdm_ring
from tests.reports.test_onn_figures import chip, compared, compared_rivals, turn
from tests.reports.test_plan_pictures import granted, planned


def _map(fabric: Fabric, algorithm: str = "ring", kind: Kind = "all-gather") -> Any:
    return wavelength_map(build(find(algorithm), Collective(kind, fabric.ranks, 6e4), fabric), fabric)


def _timeline() -> Any:
    categories = ("forward", "backward", "transmission", "reconfiguration", "update")
    lanes = ("device", "device", "ring", "ring", "device")
    lines = [
        Interval(resource=lane, category=each, name=each, start=n - 0.2 * (n > 1), end=n + 0.7)
        for n, (each, lane) in enumerate(zip(categories, lanes, strict=True))
    ]
    return timeline_figure(Timeline.of(lines))


def _chip() -> Any:
    plan = FloorPlan(rules=Rules(), height=400.0, crossings=0, width=6000.0)
    for number, places in enumerate((plan.interferometers, plan.attenuators, plan.shifters, plan.units)):
        places.append(Place(name="d", x=500.0 * number, y=200.0, phases=()))
    plan.guide(0, 500, 200)
    plan.routes.append((0, 0, 600, 300))
    return chip_figure(plan, "chip")


def _link() -> Any:
    rows = [{"value": value, "word_error_rate": 0.1 * (value > 1), "interval_95": [0.05, 0.2]} for value in (1.0, 2.0)]
    facts = {"link": {"full_scale": 3e-3}, "word_error_rate": 0.1, "words": 1000, "servers": 4, "bits": 8}
    sweeps = [{"option": "--phase-lock", "unit": "rad", "rows": rows}]
    return link_figure(facts | {"contributions": compared([0.1, 0.05, 0.0], 0.1), "sweeps": sweeps})


def _sweeps() -> Any:
    rows = [{"value": v, "mean": 0.9, "least": 0.8, "largest": 1.0} for v in (1.0, 2.0)]
    return sweep_figure([{"parameter": name, "rows": rows} for name in ("dac_bits", "loss_db")], "title")


DRAWN: dict[str, Callable[[], Any]] = {
    "breakdown": lambda: breakdown_figure([("a", {"idle_s": 0.5, "compute_s": 1.0}), ("b", {"compute_s": 3.0})]),
    "waterfall": lambda: waterfall_figure(("first", 10.0), [("up", 1.0), ("down", -3.0)], ("last", 8.0), "title"),
    "break-even": lambda: break_even_figure({"a": [(4, 1e9), (8, None), (16, 2e9)], "b": [(2, 1e9)]}, "title"),
    "damage": lambda: damage_figure(
        [
            {"failures": [], "time_s": 1e-6, "lower_bound_s": 5e-7},
            {"failures": ["cable:17"], "time_s": 2e-6, "lower_bound_s": 1e-6},
        ],
        "all-reduce",
    ),
    "accuracy": lambda: accuracy_figure(
        [PredictedSeries("a", np.array([1.0, 2.0]), np.array([1.5, 2.0]), np.array([0.5, 1.5]), np.array([2.0, 4.0]))]
    ),
    "exchange": lambda: exchange_figure(
        [ExchangePoint(f"method {n}", 2.0**n, 0.1 * n, 0.1 * n - 0.1, 0.1 * n + 0.1, n > 1) for n in range(4)], "title"
    ),
    "pareto": lambda: pareto_figure(
        *[[Point("ddp", f"site {n % 2}", f"plan {n}", 1.0 + n, 20.0 - n) for n in range(12)]] * 2
    ),
    "budget": lambda: budget_figure(LinkBudget(), 3),
    "timeline": _timeline,
    "load": lambda: _map(load_fabric("ring", 6)),
    "circuits": lambda: _map(CircuitSwitch(ranks=8, degree=2)),
    "wavelengths": lambda: _map(wdm_ring(6, 4)),
    "many steps": lambda: _map(wdm_ring(6, 4), kind="all-reduce"),
    "shared links": lambda: shared_links_figure("t", ["a", "b"], np.eye(2, 8), [f"link {n}" for n in range(8)], "%"),
    "placement": lambda: placement_figure(planned(4, 2)),
    "group": lambda: group_figure(planned(16, 8), granted(planned(16, 8), "few")),
    "calibration": lambda: calibration_figure([chip("a", 0.5, 0.25, 0.1), chip("b", 0.2, 0.1, 0.0)], 1e-3, "title"),
    "chain": lambda: chain_figure({name: map_matrix(np.eye(4, 8)[:, :4]) for name in ("P", "layer 1", "layer 2", "T")}),
    "chip": _chip,
    "link": _link,
    "noise": lambda: noise_figure(
        "n", np.geomspace(1e-3, 1e-1, 4), np.array([0, 0, 0.1, 0.5]), 1000, limit=2e-3, bound=0.05, title="title"
    ),
    "reducers": lambda: reducers_figure(
        compared_rivals(
            {"a": {"logic": 1.0}, "b": {"lasers": 2.0}, "far": {"lasers": 90.0}},
            [turn("x", "mW", 0.5, -0.5), turn("y", "", -0.4, -0.2)],
        )
    ),
    "sweeps": _sweeps,
    "training": lambda: training_figure(
        [{"epoch": n, "accuracy": 1 - 0.1**n, "loss": 0.1**n} for n in range(4)], 1000, "title"
    ),
}


@cache
def drawn(name: str) -> Any:
    figure = DRAWN[name]()
    figure.draw_without_rendering()
    return figure


def words(figure: Any) -> Iterator[tuple[Any, Any]]:
    """Texts that are seen, each with its panel, or the figure."""
    for panel in figure.axes:
        own = [*panel.texts]
        if panel.axison:
            own += [panel.title, panel._left_title, panel.xaxis.label, panel.yaxis.label]
        if panel.get_legend():
            own += panel.get_legend().get_texts()
        yield from ((text, panel) for text in own if text.get_visible() and text.get_text())
    own = [*figure.texts, *(text for legend in figure.legends for text in legend.get_texts())]
    yield from ((text, figure) for text in own)


@pytest.mark.parametrize("name", DRAWN)
def test_words_are_in_the_figure_beside_their_panel_and_on_no_others(name: str) -> None:
    figure = drawn(name)
    whole, found = figure.bbox, [(text, panel, text.get_window_extent()) for text, panel in words(figure)]
    for text, panel, box in found:
        assert 6.5 <= text.get_fontsize() <= 9.5
        assert whole.x0 <= box.x0 + 1 and box.x1 <= whole.x1 + 1 and whole.y0 <= box.y0 + 1 and box.y1 <= whole.y1 + 1
        if text in getattr(panel, "texts", ()) and panel is not figure:
            near, wide, high = panel.bbox, 0.2 * panel.bbox.width, 0.2 * panel.bbox.height
            assert near.x0 - wide <= box.x0 and box.x1 <= near.x1 + wide
            assert near.y0 - high <= box.y0 and box.y1 <= near.y1 + high
    for (_, _, one), (_, _, other) in combinations(found, 2):
        wide, high = min(one.x1, other.x1) - max(one.x0, other.x0), min(one.y1, other.y1) - max(one.y0, other.y0)
        assert wide <= 1 or high <= 1


@pytest.mark.parametrize("name", DRAWN)
def test_lines_and_marks_are_neither_blots_nor_hairs_and_panels_fill_the_figure(name: str) -> None:
    figure = drawn(name)
    for panel in figure.axes:
        for line in panel.lines:
            assert line.get_linestyle() == "None" or 0.5 <= line.get_linewidth() <= 1.5
            assert line.get_marker() in ("None", "|") or 2.5 <= line.get_markersize() <= 7
        for drawing in panel.collections:
            assert all(width == 0 or 0.3 <= width <= 1.2 for width in drawing.get_linewidths())
            assert all(4 <= size <= 100 for size in getattr(drawing, "get_sizes", list)())
    area = sum(panel.bbox.width * panel.bbox.height for panel in figure.axes)
    assert area >= 0.4 * figure.bbox.width * figure.bbox.height


BOXED = ("damage", "budget", "circuits")
"""Figures whose panels have a line all around, beside panels of pictures."""


def is_bar(panel: Any) -> bool:
    """Whether a panel is the scale of colours beside others."""
    return hasattr(panel, "_colorbar")


@pytest.mark.parametrize("name", DRAWN)
def test_what_has_a_name_is_in_a_legend_and_numbers_along_an_axis_say_what_they_are(name: str) -> None:
    figure = drawn(name)
    assert name != "chip" or figure.axes[-1].get_xlabel() == "µm", "of both axes"
    for panel in figure.axes:
        own = [text.get_text() for text in panel.get_legend().get_texts()] if panel.get_legend() else []
        named = [artist.get_label() for artist in (*panel.lines, *panel.collections, *panel.patches, *panel.containers)]
        assert {str(label) for label in named if label and not str(label).startswith("_")} <= {*own}
        if not panel.axison or name == "chip":
            continue
        for letter, shared in (("x", panel.get_shared_x_axes()), ("y", panel.get_shared_y_axes())):
            axis = getattr(panel, f"{letter}axis")
            words = [text.get_text() for text in axis.get_ticklabels() if text.get_visible() and text.get_text()]
            labels = [getattr(each, f"{letter}axis").get_label_text() for each in shared.get_siblings(panel)]
            counted = any(text.replace("−", "").replace(".", "").isdigit() for text in words)
            assert any(labels) or not counted or (is_bar(panel) and letter == "x")
    titles = [text for panel in figure.axes for text in (panel.get_title(), panel.get_title("left")) if text]
    legends = [*figure.legends, *(panel.get_legend() for panel in figure.axes if panel.get_legend())]
    headline = figure.get_suptitle() or "".join(part.get_suptitle() for part in figure.subfigs)
    assert headline or titles or legends


@pytest.mark.parametrize("name", DRAWN)
def test_panels_have_a_box_around_pictures_alone(name: str) -> None:
    rows = name in ("breakdown", "waterfall", "timeline")
    for panel in drawn(name).axes:
        seen = {side for side, spine in panel.spines.items() if spine.get_visible() and side != "outline"}
        if is_bar(panel):
            assert not panel.spines["outline"].get_visible()
        elif panel.axison and not (panel.images or name in BOXED):
            assert seen == ({"bottom"} if rows else {"left", "bottom"})


COUNTED = ("link", "step", "rank", "plane", "wavelength", "device", "chip")
MEASURED = ("lit", "measured", "predicted", "milliseconds", "Gb/s")


@pytest.mark.parametrize("name", DRAWN)
def test_what_is_counted_has_ticks_at_whole_numbers(name: str) -> None:
    for panel in drawn(name).axes:
        for axis in (panel.xaxis, panel.yaxis):
            label = axis.get_label_text()
            if any(word in label for word in COUNTED) and not any(word in label for word in MEASURED):
                assert all(float(place).is_integer() for place in axis.get_majorticklocs())


@pytest.mark.parametrize("name", DRAWN)
def test_grids_lie_behind_what_is_drawn(name: str) -> None:
    for panel in drawn(name).axes:
        seen = [any(tick.gridline.get_visible() for tick in axis.majorTicks) for axis in (panel.xaxis, panel.yaxis)]
        gridded = name in ("break-even", "exchange") or (name == "pareto" and panel.axison)
        assert seen == [gridded or (name == "placement" and not panel.images), gridded]
        assert not any(seen) or panel.get_axisbelow() is True


@pytest.mark.long
def test_figures_grow_with_their_panels_rows_and_names() -> None:
    """In inches, and neither narrower nor wider than a page shows."""

    def size(figure: Any) -> Any:
        return pytest.approx(tuple(figure.get_size_inches()))

    rows = [{"value": value, "word_error_rate": 0.1, "interval_95": [0.05, 0.2]} for value in (1.0, 2.0)]
    facts = {"link": {"full_scale": 3e-3}, "word_error_rate": 0.1, "words": 1000, "servers": 4, "bits": 8}
    sweep = {"option": "--phase-lock", "unit": "rad", "rows": rows}
    for panels, inches in ((0, (5.6, 3.7)), (1, (5.6, 3.7)), (2, (7.2, 3.7)), (3, (10.8, 3.7)), (4, (10.8, 7.0))):
        assert inches == size(link_figure(facts | {"contributions": None, "sweeps": [sweep] * panels}))
    swept = [{"value": value, "mean": 0.9, "least": 0.8, "largest": 1.0} for value in (1.0, 2.0)]
    one = {"parameter": "dac_bits", "rows": swept}
    for panels, inches in ((1, (4.6, 3.0)), (2, (6.2, 3.0)), (3, (9.3, 3.0)), (4, (6.2, 5.7)), (7, (9.3, 8.4))):
        assert inches == size(sweep_figure([one] * panels, "t"))
    for names, high in ((1, 4.2), (5, 4.2), (6, 4.4), (10, 6.4), (20, 6.4)):
        front = [Point("ddp", "here", f"plan {n}", 1.0 + n, 40.0 - n) for n in range(names)]
        assert (9.0, high) == size(pareto_figure(front, front))
    for parts, wide in ((1, 6.5), (40, 16.0)):
        figure = chain_figure({f"layer {n}": map_matrix(np.eye(2)) for n in range(parts)})
        assert (wide, 0.62 * (0.4 + 0.6 * 2**0.5) + 1.9) == size(figure)
    for ranks, high in ((2, 1.8), (4, 1.4 + 3 * 0.22), (40, 4.2)):
        ring = load_fabric("ring", ranks)
        schedule = build(find("ring"), Collective("all-gather", ranks, 6e4), ring)
        assert (9.0, high) == size(wavelength_map(schedule, ring))


def test_every_job_has_its_colour_and_its_place_in_the_legend() -> None:
    figure = shared_links_figure("t", ["a", "b", "c"], np.eye(3) / 2, ["x", "y", "z"], "%")
    (axes,) = figure.axes
    bars: Any = axes.patches
    assert len({bar.get_facecolor() for bar in bars}) == 3 and len(bars) == 9
    legend: Any = axes.get_legend()
    assert (legend._ncols, [text.get_text() for text in legend.get_texts()]) == (3, ["a", "b", "c"])
    assert axes.get_xlim() == pytest.approx((-0.6, 2.6))
    assert shared_links_figure("t", ["a"], np.zeros((1, 1)), ["x"], "%").axes[0].get_xlim() == pytest.approx(
        (-0.6, 0.6)
    )
