"""Figures of optical networks hold their numbers: errors, rates, meshes, chips and energies where they should be."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex

from lightloom.photonics.chip.floorplan import FloorPlan, Place, Rules
from lightloom.photonics.meshes.decompose import decompose
from lightloom.photonics.meshes.mapping import map_blocks, map_matrix
from lightloom.reports.figures.canvas import FAINT, INK, single_panel
from lightloom.reports.figures.photonics import (
    PARTS,
    WORDS,
    _bend,
    _box,
    _guides,
    calibration_figure,
    chain_figure,
    chip_figure,
    link_figure,
    noise_figure,
    noise_steps,
    part_figure,
    reducers_figure,
    sweep_figure,
    training_figure,
)
from tests.reports.artists import bars, dots, fills, hidden, notes, points, segments, strokes, ticks, tints, told

RED, BLUE, GREEN, ORANGE, VIOLET = "#c9603a", "#3b62ad", "#5ba8a0", "#e0892b", "#7d6bc4"
PASSIVE, LAYER = "#d5dbe6", "#aebfe3"
RNG = np.random.default_rng(3)


def size(figure: Any) -> list[float]:
    return [round(float(inches), 9) for inches in figure.get_size_inches()]


def lines(axes: Any) -> list[tuple[float, float]]:
    """Size of marks and widths of lines of a panel, of each."""
    return [(line.get_linewidth(), line.get_markersize()) for line in axes.lines]


def corner(legend: Any) -> tuple[float, float, int, int]:
    """(x, y) where a legend is fixed, which of its corners, and its columns."""
    anchor = legend.get_bbox_to_anchor()._bbox
    return anchor.x0, anchor.y0, legend._loc, legend._ncols


def chip(name: str, before: float, after: float, limit: float, *residuals: float) -> dict[str, Any]:
    errors = {"error_before": before, "error_after": after, "error_limit": limit}
    return {"name": name, "residuals": list(residuals)} | errors


def test_residuals_and_errors_of_chips_are_drawn_in_two_panels() -> None:
    rows = [chip("a", 0.5, 0.25, 0.125, 0.5, 0.25, 0.125), chip("b", 1.0, 0.5, 1e-6, 1.0, 0.5)]
    figure = calibration_figure(rows, 0.01, "words")
    left, right = figure.axes
    assert points(left) == [[(0, 0.5), (1, 0.25), (2, 0.125)], [(0, 1), (1, 0.5)], [(0, 0.01), (1, 0.01)]]
    assert [each[:4] + each[6:] for each in strokes(left)] == [
        (BLUE, 1, "-", "None", 0.6),
        (BLUE, 1, "-", "None", 0.6),
        (FAINT, 1, "-", "None", None),
    ]
    texts: list[Any] = left.texts[:]
    (note,) = texts
    assert (note.xy, note.get_position(), note.get_horizontalalignment(), note.get_fontsize()) == (
        (1, 0.01),
        (-2, -9),
        "right",
        7.5,
    )
    assert note.xycoords == ("axes fraction", "data") and note.get_color() == INK
    assert (left.get_yscale(), left.get_xlabel(), left.get_ylabel()) == (
        "log",
        "step of the fit",
        "difference of powers, share of the input",
    )
    assert left.xaxis.get_major_locator()._nbins == 10 and hidden(left) == hidden(right) == {"top", "right"}  # type: ignore[attr-defined]
    assert points(right) == [[(0, 0.5), (1, 1)], [(0, 0.25), (1, 0.5)], [(0, 0.125), (1, 1e-5)]]
    assert [(each[0], *each[2:5]) for each in strokes(right)] == [
        (RED, "None", "o", 4),
        (BLUE, "None", "o", 4),
        (GREEN, "None", "_", 7),
    ]
    assert right.get_ylim() == pytest.approx((5e-6, 3)) and right.get_xlim() == (-0.6, 1.6)
    assert right.get_ylabel() == "error of the matrix, relative" and right.get_yscale() == "log"
    assert ticks(right.xaxis) == [(0, "a"), (1, "b")]
    assert {
        (label.get_rotation(), label.get_horizontalalignment(), label.get_fontsize())
        for label in right.get_xticklabels()
    } == {(30, "right", 7)}
    legend: Any = right.get_legend()
    assert told(legend) == ["phases of ideal devices", "calibrated", "what the devices allow"]
    assert corner(legend) == (0.5, 1, 8, 3) and legend.get_texts()[0].get_fontsize() == 7.5
    assert size(figure) == [9, 3.6] and figure.get_suptitle() == "words"


@pytest.mark.parametrize(
    ("names", "named"), [(["a"] * 16, True), (["a"] * 17, False), (["0", "1"], False), (["0", "a"], True)]
)
def test_few_chips_that_are_not_only_numbered_are_named(names: list[str], named: bool) -> None:
    right = calibration_figure([chip(name, 0.5, 0.25, 0.125, 0.5) for name in names], 0.0, "t").axes[1]
    assert ([label for _, label in ticks(right.xaxis)] == names) is named
    assert right.get_xlabel() == ("" if named else "chip")
    assert named or right.xaxis.get_major_locator()._nbins == 10  # type: ignore[attr-defined]
    assert right.get_ylim() == pytest.approx((0.0625, 3))


def test_boxes_of_a_chain_stand_side_by_side_in_the_order_of_the_light() -> None:
    parts: dict[str, Any] = {
        "P": map_matrix(np.eye(4, 9)),
        "layer 1": decompose(np.linalg.qr(RNG.normal(size=(4, 4)))[0]),
        "layer 2": map_matrix(RNG.normal(size=(9, 4)), gains="common"),
        "layer 3": map_matrix(np.eye(4, 9)),
        "the T": map_matrix(np.eye(16, 4)),
    }
    figure = chain_figure(parts, "words $")
    (axes,) = figure.axes
    depths = [part.layout.depth if name == "layer 1" else part.depth for name, part in parts.items()]
    widths = [0.55 + 0.16 * depth**0.5 for depth in depths]
    heights = [0.4 + 0.6 * signals**0.5 for signals in (9, 4, 9, 9, 16)]
    x, expected = 0.0, []
    for width, height in zip(widths, heights, strict=True):
        expected.append((x + 0.62, -height / 2, width, height))
        x += 0.62 + width
    assert [pytest.approx(each, abs=1e-8) for each in expected] == bars(axes)
    assert fills(axes) == [PASSIVE, LAYER, LAYER, LAYER, PASSIVE]
    assert {(to_hex(box.get_edgecolor()), box.get_linewidth(), box.get_zorder()) for box in axes.patches} == {
        (INK, 0.8, 2)
    }
    most = max(heights)
    assert axes.get_xlim() == pytest.approx((-0.15, x + 0.62 + 0.15))
    assert axes.get_ylim() == pytest.approx((-most / 2 - 1, most / 2 + 0.5)) and not axes.axison
    assert size(figure)[1] == pytest.approx(0.62 * most + 1.9)
    assert size(figure)[0] == pytest.approx(0.95 * (sum(widths) + 0.62 * 6))
    said = {text.get_text(): text for text in axes.texts}
    for name, (left, _, width, _) in zip(parts, expected, strict=True):
        title = said[name]
        assert title.get_position() == pytest.approx((left + width / 2, most / 2 + 0.22))
        assert (
            title.get_horizontalalignment(),
            title.get_verticalalignment(),
            title.get_fontsize(),
            title.get_fontweight(),
        ) == (
            "center",
            "center",
            8.5,
            "bold",
        )
    below = [text for text in axes.texts if "MZIs" in text.get_text()]
    for text, part, depth, (left, _, width, _) in zip(below, parts.values(), depths, expected, strict=True):
        first, second, *gain = text.get_text().splitlines()
        assert (first, second) == (f"{part.mzis:,} MZIs", f"{depth:,} col.")
        assert gain == ([f"gain {20 * np.log10(part.gain):.1f} dB"] if getattr(part, "gain", 1.0) > 1 else [])
        assert text.get_position() == pytest.approx((left + width / 2, -most / 2 - 0.2))
        assert (
            text.get_horizontalalignment(),
            text.get_verticalalignment(),
            text.get_fontsize(),
            text.get_color(),
        ) == ("center", "top", 7, INK)
    assert any("gain" in text.get_text() for text in below)
    counts = [text for text in axes.texts if text.get_text().isdigit()]
    assert [int(text.get_text()) for text in counts] == [9, 4, 4, 9, 4, 16]
    guides = [each for each in axes.collections if each.get_zorder() == 1]
    begins = [0.0, *(left + width for left, _, width, _ in expected)]
    for each, begin, before, after in zip(guides, begins, [heights[0], *heights], [*heights, heights[-1]], strict=True):
        (start, low), (end, high) = segments(each)[0]
        assert (start, end) == pytest.approx((begin, begin + 0.62)) and low / high == pytest.approx(before / after)
    units = [each for each in axes.collections if each.get_zorder() == 4]
    assert [len(dots(each)) for each in units] == [4, 9], "behind every layer but the last"
    assert figure.get_suptitle() == (
        rf"words \$: {sum(part.mzis for part in parts.values()):,} MZIs in {sum(depths):,} columns, "
        "13 nonlinear units (orange)"
    )
    title = figure._suptitle  # type: ignore[attr-defined]
    assert (title.get_position()[0], title.get_horizontalalignment(), title.get_fontsize(), title.get_color()) == (
        0.01,
        "left",
        9.5,
        INK,
    )


@pytest.mark.parametrize(("count", "wide"), [(1, 6.5), (30, 16)])
def test_chains_are_neither_narrow_nor_too_wide(count: int, wide: float) -> None:
    mapped = map_matrix(np.eye(2))
    figure = chain_figure({f"layer {n}": mapped for n in range(count)})
    assert size(figure)[0] == wide
    assert figure.get_suptitle().endswith(f", {2 * (count - 1)} nonlinear units (orange)")
    assert not figure.get_suptitle().startswith(":")


@pytest.mark.parametrize(("count", "shown"), [(1, 1), (4, 4), (16, 16), (17, 16), (1000, 16)])
def test_waveguides_lead_evenly_from_box_to_box(count: int, shown: int) -> None:
    _, axes = single_panel(4, 4)
    _guides(axes, 1.0, 3.0, count, 2.0, 4.0, True)
    guides, units = axes.collections
    spread = [0.86 * ((n + 0.5) / shown - 0.5) for n in range(shown)]
    flat = [part for line in segments(guides) for at in line for part in at]
    assert flat == pytest.approx([part for y in spread for part in (1.0, 2 * y, 3.0, 4 * y)])
    assert tints(guides)[1:] == ([FAINT], [0.9], 1, None)
    assert [x for x, _ in dots(units)] == [2.0] * shown
    assert [y for _, y in dots(units)] == pytest.approx([3 * y for y in spread])
    assert float(units.get_sizes()[0]) == pytest.approx(min(36, 700 / shown**1.4))  # type: ignore[attr-defined]
    assert tints(units) == ([ORANGE], [INK], [0.4], 4, None)
    assert notes(axes) == [(f"{count:,}", 2, 2.02, "center", "bottom", 7)] and axes.texts[0].get_color() == INK
    _guides(axes, 1.0, 3.0, count, 5.0, 4.0, False)
    assert len(axes.collections) == 3 and notes(axes)[1][2] == 2.52


@pytest.mark.parametrize(
    ("columns", "width", "height", "count", "rows"),
    [
        (0, 2.0, 2.0, 2, 2),
        (8, 2.0, 4.0, 2, 4),
        (11, 2.0, 3.0, 2, 3),
        (12, 3.0, 2.0, 3, 2),
        (16, 2.0, 2.0, 4, 4),
        (28, 7.0, 3.0, 7, 3),
        (400, 7.0, 1.0, 7, 2),
    ],
)
def test_crossings_fill_the_box_of_a_mesh(columns: int, width: float, height: float, count: int, rows: int) -> None:
    _, axes = single_panel(4, 4)
    _box(axes, PASSIVE, 1.0, width, height, columns)
    (crossings,) = axes.collections
    found = segments(crossings)
    step, row = width / count, height / rows
    expected = []
    for column in range(count):
        for place in range(rows):
            left, low = 1 + column * step, -height / 2 + place * row
            expected += [[(left, low), (left + step, low + row)], [(left, low + row), (left + step, low)]]
    assert np.allclose(found, expected)
    assert (*tints(crossings)[1:],) == (["#ffffff"], [0.5], 3, 0.75)
    assert bars(axes) == [(1, -height / 2, width, height)]


def test_parts_are_drawn_as_what_they_are() -> None:
    mesh = decompose(np.linalg.qr(RNG.normal(size=(3, 3)))[0])
    assert (
        "3 modes" in part_figure(mesh, "name").get_suptitle() and "name" not in part_figure(mesh, "name").get_suptitle()
    )
    blocks = map_blocks(RNG.normal(size=(6, 3)))
    assert part_figure(blocks, "name").get_suptitle().startswith("name, block 1 of 2: ")
    assert f"{blocks.blocks[0].mzis} MZIs" in part_figure(blocks, "name").get_suptitle()
    assert part_figure(map_matrix(np.eye(3)), "name").get_suptitle().startswith("name: ")


def plan(width: float, height: float = 100.0) -> FloorPlan:
    return FloorPlan(
        rules=Rules(pitch=20.0, heater=100.0, coupler=50.0, unit=400.0), height=height, crossings=0, width=width
    )


@pytest.mark.parametrize(
    ("width", "rows"), [(10, 1), (800, 1), (1000, 2), (2400, 2), (2600, 3), (4800, 3), (5000, 4), (1e5, 4)]
)
def test_chips_are_cut_where_rows_become_too_long(width: float, rows: int) -> None:
    figure = chip_figure(plan(width), "words")
    assert len(figure.axes) == rows and figure.get_suptitle() == "words"
    length = width / rows
    for row, axes in enumerate(figure.axes):
        assert axes.get_xlim() == pytest.approx((row * length, (row + 1) * length)) and axes.get_ylim() == (0, 100)
        assert axes.get_aspect() == 1 and hidden(axes) == {"top", "right"}
        assert axes.get_xlabel() == ("µm" if row == rows - 1 else "")
        assert {label.get_fontsize() for label in axes.get_xticklabels()} == {7}
    assert size(figure) == pytest.approx([11.5, rows * (11 * 100 / length + 0.55) + 0.7])
    legend: Any = figure.axes[0].get_legend()
    assert told(legend) == ["interferometer", "attenuator of Σ", "phase shifter", "gain or unit"]
    assert [to_hex(each.get_facecolor()) for each in legend.legend_handles] == [BLUE, GREEN, VIOLET, ORANGE]
    assert corner(legend) == (1, 1, 4, 4) and legend.get_texts()[0].get_fontsize() == 7.5


def test_devices_of_a_chip_are_boxes_about_their_waveguides() -> None:
    found = plan(500.0)
    for number, places in enumerate((found.interferometers, found.attenuators, found.shifters, found.units)):
        places += [Place(name="d", x=100.0 * number, y=50.0, phases=()), Place(name="e", x=100.0, y=80.0, phases=())]
    found.guide(10.0, 40.0, 50.0)
    found.routes.append((0.0, 10.0, 160.0, 42.0))
    (axes,) = chip_figure(found, "t").axes
    guides, routes, *boxes = axes.collections
    assert segments(guides) == [[(10, 50), (40, 50)]] and tints(guides)[1:] == ([FAINT], [0.6], 1, None)
    assert tints(routes)[1:] == ([INK], [0.4], 1, None)
    (curve,) = segments(routes)
    assert [x for x, _ in curve] == [10.0 * n for n in range(17)]
    assert [curve[n][1] for n in (0, 4, 8, 12, 16)] == [10, 15, 26, 37, 42]
    # Left, right, bottom and top: pitches of 20 µm, columns of 300, heaters of 100, units of 400.
    ends = [(12, 288, 40, 67), (112, 388, 43, 57), (204, 296, 45, 55), (316, 684, 42, 58)]
    colours = (BLUE, GREEN, VIOLET, ORANGE)
    for box, (left, right, bottom, top), colour in zip(boxes, ends, colours, strict=True):
        first, second = (path.get_extents() for path in box.get_paths())
        assert (first.x0, first.x1, first.y0, first.y1) == pytest.approx((left, right, bottom, top))
        assert (second.y0 - first.y0, second.width) == pytest.approx((30, first.width))
        assert tints(box)[0] == [colour] and tints(box)[3:] == (2, 0.85) and not len(tints(box)[1])


def test_bends_are_level_at_both_ends() -> None:
    curve = _bend(0.0, 0.0, 16.0, 2.0)
    assert [x for x, _ in curve] == list(range(17))
    assert [y for _, y in curve] == pytest.approx([2 * (3 * (n / 16) ** 2 - 2 * (n / 16) ** 3) for n in range(17)])
    assert _bend(3.0, 5.0, 1.0, 5.0)[8] == (2.0, 5.0)


def side(rate: float, low: float, high: float) -> dict[str, Any]:
    return {"word_error_rate": rate, "interval_95": [low, high]}


def compared(count: int, together: float, enlarged: float = 1.0) -> dict[str, Any]:
    parts = [
        {"part": f"part {n}", "without": side(2.0**-n / 4, 2.0**-n / 8, 2.0**-n), "alone": side(0.0, 0.0, 2.0**-n / 2)}
        for n in range(count)
    ]
    return {"parts": parts, "together": {"word_error_rate": together}, "errors_enlarged_by": enlarged}


def document(compared: Any, sweeps: list[Any], rate: float = 0.25) -> dict[str, Any]:
    facts = {"link": {"full_scale": 2e-3}, "word_error_rate": rate, "words": 12_000, "servers": 4, "bits": 8}
    return facts | {"contributions": compared, "sweeps": sweeps}


def swept(*rows: tuple[float, float, float, float]) -> dict[str, Any]:
    told = [{"value": value} | side(*rest) for value, *rest in rows]
    return {"option": "--x", "unit": "mW", "rows": told}


@pytest.mark.parametrize(
    ("count", "parts", "columns", "rows", "wide"),
    [
        (0, False, 1, 1, 5.6),
        (1, False, 1, 1, 5.6),
        (0, True, 1, 1, 5.6),
        (1, True, 2, 1, 7.2),
        (3, False, 3, 1, 10.8),
        (3, True, 3, 2, 10.8),
        (6, True, 3, 3, 10.8),
    ],
)
def test_panels_of_a_link_stand_three_in_a_row(count: int, parts: bool, columns: int, rows: int, wide: float) -> None:
    sweep = swept((1, 0.25, 0.125, 0.5), (2, 0.25, 0.125, 0.5))
    figure = link_figure(document(compared(2, 0.5) if parts else None, [sweep] * count))
    grid: Any = figure.axes[0].get_subplotspec()
    assert grid.get_gridspec().get_geometry() == (rows, columns)
    assert size(figure) == pytest.approx([wide, 3.3 * rows + 0.4])
    assert [axes.axison for axes in figure.axes] == [n < count + parts for n in range(rows * columns)]
    assert [axes.get_xlabel() for axes in figure.axes[parts : count + parts]] == ["--x, mW"] * count
    assert figure.get_suptitle() == "4 servers, 8 bits, 2 mW full scale: 0.25 of the words wrong"


def test_a_link_that_never_errs_says_of_how_many_words() -> None:
    figure = link_figure(document(None, [], 0.0))
    assert figure.get_suptitle().endswith("full scale: none of 12,000 words wrong")


def test_parts_of_a_link_are_two_dots_each_with_their_intervals() -> None:
    (axes,) = link_figure(document(compared(2, 0.5, 3.0), [])).axes
    assert points(axes) == [
        [(0.0625, 0.16), (0.5, 0.16)],
        [(0.125, 0.16)],
        [(0.125, 1.16), (1, 1.16)],
        [(0.25, 1.16)],
        [],
        [(1e-9, -0.16), (0.25, -0.16)],
        [(0.25, -0.16)],
        [(1e-9, 0.84), (0.5, 0.84)],
        [(0.5, 0.84)],
        [],
        [(0.5, 0), (0.5, 1)],
    ]
    colours = [BLUE] * 5 + [ORANGE] * 5 + [FAINT]
    assert [each[0] for each in strokes(axes)] == colours
    bar, dot = axes.lines[0], axes.lines[1]
    assert (bar.get_linewidth(), bar.get_alpha(), dot.get_markersize(), dot.get_marker()) == (1.2, 0.5, 4, "o")
    assert [axes.lines[n].get_markerfacecolor() for n in (1, 3, 6, 8)] == [BLUE, BLUE, "white", "white"]
    assert [(axes.lines[n].get_linewidth(), axes.lines[n].get_alpha()) for n in (5, 7)] == [(1.2, 0.5)] * 2
    assert [axes.lines[n].get_markersize() for n in (4, 6, 9)] == [4] * 3
    assert (axes.lines[-1].get_linewidth(), axes.lines[-1].get_zorder()) == (1, 0)
    texts: list[Any] = axes.texts[:]
    (note,) = texts
    assert (note.xy, note.get_position(), note.xycoords) == ((0.5, 1), (4, 2), ("data", "axes fraction"))
    assert (note.get_horizontalalignment(), note.get_fontsize(), note.get_color()) == ("left", 7, INK)
    assert ticks(axes.yaxis) == [(0, "part 1"), (1, "part 0")]
    assert {label.get_fontsize() for label in axes.get_yticklabels()} == {7.5}
    assert axes.get_xlim() == pytest.approx((0.125 / 3, 1.5)) and axes.get_xscale() == "log"
    assert axes.get_xlabel() == "share of words wrong, all errors 3 times as large"
    legend: Any = axes.get_legend()
    assert told(legend) == ["made ideal", "alone"] and corner(legend) == (-0.02, 1, 3, 2)
    assert legend.get_texts()[0].get_fontsize() == 7 and legend.borderaxespad == 0.2
    assert hidden(axes) == {"top", "right"}


@pytest.mark.parametrize(("together", "low"), [(0.0, 1e-6 / 3), (1e-3, 1e-3 / 3), (0.5, 0.125 / 3)])
def test_the_axis_of_parts_begins_below_the_least(together: float, low: float) -> None:
    (axes,) = link_figure(document(compared(2, together), [])).axes
    assert axes.get_xlim()[0] == pytest.approx(low) and len(axes.texts) == (together > 0)
    assert axes.get_xlabel() == "share of words wrong"


def test_the_axis_of_parts_ends_above_the_most() -> None:
    found = compared(1, 0.125)
    found["parts"] = [{"part": "x", "without": side(0.25, 0.125, 0.5), "alone": side(0.125, 0.0, 0.5)}]
    (axes,) = link_figure(document(found, [])).axes
    assert axes.get_xlim() == pytest.approx((0.125 / 3, 0.75))


@pytest.mark.parametrize(("count", "rows"), [(14, 14), (15, 14)])
def test_the_first_fourteen_parts_are_drawn(count: int, rows: int) -> None:
    (axes,) = link_figure(document(compared(count, 0.5), [])).axes
    assert [label for _, label in ticks(axes.yaxis)] == [f"part {n}" for n in range(rows - 1, -1, -1)]


@pytest.mark.parametrize(("last", "scale"), [(10.0, "linear"), (10.1, "log")])
def test_a_sweep_of_a_link_is_a_line_in_a_band(last: float, scale: str) -> None:
    sweep = swept((2, 0.0, 0.0, 0.25), (3, 0.5, 0.25, 0.75), (last, 0.375, 0.125, 1.0))
    (axes,) = link_figure(document(None, [sweep])).axes
    assert points(axes) == [[(3, 0.5), (last, 0.375)], [(2, 0.25)]]
    assert [(each[0], *each[2:4]) for each in strokes(axes)] == [(BLUE, "-", "o"), (BLUE, "None", "o")]
    assert lines(axes)[0] == (1.4, 3.5) and lines(axes)[1][1] == 3.5
    assert [line.get_markerfacecolor() for line in axes.lines] == [BLUE, "white"]
    (band,) = axes.collections
    assert set(segments(band)[0]) == {(2, 1e-9), (2, 0.25), (3, 0.25), (3, 0.75), (last, 0.125), (last, 1)}
    assert (tints(band)[0], tints(band)[2], tints(band)[4]) == ([BLUE], [0], 0.18)
    assert axes.get_xscale() == scale and axes.get_yscale() == "log" and axes.get_ylabel() == "share of words wrong"
    assert axes.get_ylim() == pytest.approx((0.25 / 3, 1.5)) and hidden(axes) == {"top", "right"}


def test_a_sweep_of_a_link_from_nothing_on_is_linear_and_reaches_down_to_a_hundred_millionth() -> None:
    sweep = swept((0, 0.0, 0.0, 1e-9), (9, 0.5, 0.25, 0.75))
    (axes,) = link_figure(document(None, [sweep])).axes
    assert axes.get_xscale() == "linear" and axes.get_ylim() == pytest.approx((1e-8, 1.5))


@pytest.mark.parametrize(
    ("limit", "bound", "low", "high"),
    [
        (3e-3, 3e-2, 1e-3, 9e-2),
        (3e-3, 6e-3, 1e-3, 3e-2),
        (6e-3, 3e-3, 1e-3, 6e-2),
        (3e-3, np.inf, 1e-3, 0.1),
        (3e-2, np.inf, 1e-2, 0.3),
        (0.3, np.inf, 0.1, 0.5),
        (0.0, np.inf, 1e-12, 0.1),
        (0.9, np.inf, 0.3, 0.6),
    ],
)
def test_levels_of_noise_are_even_between_their_ends(limit: float, bound: float, low: float, high: float) -> None:
    sigmas = noise_steps(limit, bound)
    assert np.allclose(sigmas, np.geomspace(low, high, 33))


def noisy(limit: float | None = 0.02, bound: float = 0.5, evaluations: int = 1_000_000) -> tuple[Any, Any]:
    sigmas, rates = np.array([0.01, 0.02, 0.04, 0.08]), np.array([0.0, 0.0, 0.25, 0.5])
    figure = noise_figure("a $", sigmas, rates, evaluations, limit=limit, bound=bound, title="words $")
    return figure, figure.axes[0]


def test_rates_of_errors_have_their_cliff_their_limit_and_their_bound() -> None:
    figure, axes = noisy()
    floor, target = 3e-7, 1e-4
    assert [[*map(pytest.approx, line)] for line in points(axes)] == [
        [(0.04, 0.25), (0.08, 0.5)],
        [(0.01, floor), (0.02, floor)],
        [(0.02, floor), (0.02, target)],
        [(0, target), (1, target)],
    ]
    assert [(each[0], *each[2:4]) for each in strokes(axes)] == [
        (BLUE, "-", "o"),
        (BLUE, "None", "o"),
        (BLUE, ":", "None"),
        (FAINT, "-", "None"),
    ]
    curve, hollow, limit, line = axes.lines
    assert [(each.get_linewidth()) for each in (curve, limit, line)] == [1.4, 0.9, 0.8]
    assert (curve.get_markersize(), hollow.get_markersize(), hollow.get_markeredgewidth()) == (2.6, 3.2, 0.8)
    assert hollow.get_markerfacecolor() == "white" and not hollow.get_clip_on() and curve.get_clip_on()
    (beyond,) = axes.patches
    assert (beyond.get_x(), beyond.get_width()) == pytest.approx((0.5, 0.5)) and fills(axes) == [FAINT]
    assert (beyond.get_alpha(), beyond.get_linewidth()) == (0.18, 0)
    rate, bound, none = axes.texts
    assert (rate.get_text(), rate.xy, rate.get_position(), rate.xycoords) == (
        "1 in 10,000",
        (1, pytest.approx(target)),
        (-2, 3),
        ("axes fraction", "data"),
    )
    assert (bound.get_text(), bound.xy, bound.get_position(), bound.xycoords) == (
        "no network passes 0.5 at 99.99 %",
        (0.5, 0.5),
        (-4, 0),
        ("data", "axes fraction"),
    )
    assert (bound.get_rotation(), bound.get_verticalalignment(), rate.get_rotation()) == (90, "center", 0)
    assert {(each.get_horizontalalignment(), each.get_fontsize(), each.get_color()) for each in (rate, bound)} == {
        ("right", 7.5, INK)
    }
    assert (none.get_text(), none.get_position(), none.get_fontsize(), none.get_color()) == (
        "hollow: none wrong",
        (0, -0.16),
        7.5,
        INK,
    )
    assert none.get_transform() == axes.transAxes
    assert axes.get_xlim() == (0.01, 0.08) and axes.get_ylim() == pytest.approx((floor, 1.3))
    assert axes.get_xscale() == axes.get_yscale() == "log" and hidden(axes) == {"top", "right"}
    assert told(axes.get_legend()) == [r"a \$: limit 0.02"] and axes.get_legend()._loc == 2
    assert (axes.get_xlabel(), axes.get_ylabel()) == (
        "noise on every signal, relative to its full scale",
        "share of inputs averaged wrongly",
    )
    assert size(figure) == [8, 4.4] and axes.get_title("left") == r"words \$"


@pytest.mark.parametrize(("evaluations", "floor"), [(100, 1e-5), (30_000, 1e-5), (60_000, 5e-6)])
def test_nothing_wrong_stands_a_decade_below_what_counts_at_most(evaluations: int, floor: float) -> None:
    _, axes = noisy(evaluations=evaluations)
    assert axes.get_ylim()[0] == pytest.approx(floor) and points(axes)[1][0][1] == pytest.approx(floor)


@pytest.mark.parametrize(("limit", "count"), [(None, 3), (0.0, 3), (0.02, 4)])
def test_networks_without_a_limit_have_no_line_for_it(limit: float | None, count: int) -> None:
    _, axes = noisy(limit, np.inf)
    assert len(axes.lines) == count and len(axes.texts) == 2 and not axes.patches
    assert told(axes.get_legend()) == [r"a \$" if limit is None else rf"a \$: limit {limit:.2g}"]


def rivals(turns: list[Any] | None = None, saving: float = -0.25, **energies: dict[str, float]) -> Any:
    """A comparison of reducers: picojoules of each rival by part, and half to twice of it as the range."""
    made: dict[str, Any] = {"rivals": {}, "ranges": {}}
    for name, parts in energies.items():
        joules = {part: 1e-12 * each for part, each in parts.items()}
        whole = sum(joules.values())
        made["rivals"][name] = SimpleNamespace(energy=joules, energy_per_bit=whole)
        made["ranges"][name] = SimpleNamespace(low=whole / 2, high=2 * whole)
    setting = SimpleNamespace(servers=4, bits=8, symbol_rate=2.5e10)
    return SimpleNamespace(
        **made, turns=turns or [], pair=("a $", "b"), saving=lambda *pair: {("a $", "b"): saving}[pair], setting=setting
    )


def test_energies_of_rivals_are_divided_into_their_parts() -> None:
    parts = {part: 1.0 for group in PARTS.values() for part in group}
    figure = reducers_figure(rivals(a=parts, b={"logic": 4.0}, c={"logic": 40.0}))
    axes = figure.axes[0]
    lengths = [len(group) for group in PARTS.values()]
    begins = np.cumsum([0, *lengths[:-1]]).tolist()
    whole = float(sum(lengths))
    edge = 1.08 * max(2 * whole, 40.0)
    first = bars(axes)[:6]
    assert first == [pytest.approx((begin, -0.31, length, 0.62)) for begin, length in zip(begins, lengths, strict=True)]
    assert fills(axes) == ["#6f9be0", BLUE, ORANGE, "#c2449a", VIOLET, GREEN] * 3
    assert axes.get_xlim() == pytest.approx((0, edge))
    assert [[*map(pytest.approx, line)] for line in points(axes)] == [
        [(whole / 2, 0), (2 * whole, 0)],
        [(whole, 0)],
        [(2, 1), (8, 1)],
        [(4, 1)],
        [(20, 2), (edge, 2)],
        [(40, 2)],
    ]
    spread, dot = axes.lines[0], axes.lines[1]
    assert (spread.get_color(), spread.get_linewidth(), spread.get_solid_capstyle()) == (INK, 1.1, "butt")
    assert (dot.get_color(), dot.get_marker(), dot.get_markersize()) == (INK, "o", 3)
    assert ticks(axes.yaxis) == [(0, "a"), (1, "b"), (2, "c")] and axes.yaxis_inverted()
    legend: Any = axes.get_legend()
    assert told(legend) == list(PARTS) and corner(legend) == (1, 1, 4, 6)
    assert (legend.columnspacing, legend.handlelength) == (1, 1)
    assert axes.get_xlabel() == "pJ for a bit of a server; lines: 90 % of draws" and hidden(axes) == {"top", "right"}
    assert figure.get_suptitle() == "4 servers, 8 bits, 25 GBd" and size(figure) == [10.5, 4.4]
    assert figure.axes[0].get_gridspec().get_width_ratios() == (1.25, 1)  # type: ignore[union-attr]


def test_a_rival_far_beyond_the_median_ends_at_the_edge_with_its_energy() -> None:
    inf = float("inf")
    made = rivals(
        a={"logic": 1.0}, b={"logic": 2.0}, c={"logic": 7.001, "lasers": 1234.0}, d={"lasers": inf}, e={"logic": 1.5}
    )
    axes = reducers_figure(made).axes[0]
    edge = 1.08 * 4
    widths = {row: sum(width for _, low, width, _ in bars(axes) if round(low + 0.31) == row) for row in range(5)}
    assert widths == pytest.approx({0: 1, 1: 2, 2: edge, 3: edge, 4: 1.5})
    assert notes(axes) == [
        ("1,241", pytest.approx(0.985 * edge), 2, "right", "center", 7.5),
        ("no light does", pytest.approx(0.985 * edge), 3, "right", "center", 7.5),
    ]
    assert {(text.get_color(), text.get_fontweight()) for text in axes.texts} == {("white", "bold")}
    assert [line[0][1] for line in points(axes)] == [0, 0, 1, 1, 4, 4]


@pytest.mark.parametrize(("energy", "far"), [(7.0, False), (7.01, True)])
def test_three_and_a_half_medians_are_still_in_the_picture(energy: float, far: bool) -> None:
    axes = reducers_figure(rivals(a={"logic": 1.0}, b={"logic": 2.0}, c={"logic": energy})).axes[0]
    assert len(axes.texts) == far
    # The range of b ends at 4, that of c at 14 beyond the edge.
    assert axes.get_xlim()[1] == pytest.approx(1.08 * (4 if far else energy))


@pytest.mark.parametrize(
    ("energies", "far"),
    [((1, 2, 4, 8, 13, 16), 0), ((1, 2, 3, 4, 13, 16), 1), ((1, 1, 1, 4, 14.1, 20), 2), ((2, 7), 0)],
)
def test_of_an_even_number_of_rivals_the_upper_one_is_in_the_middle(energies: tuple[float, ...], far: int) -> None:
    """Three and a half times it are 28, 14, 14 and 24.5 picojoules."""
    made = rivals([], -0.25, **{f"r{n}": {"logic": each} for n, each in enumerate(energies)})
    assert len(reducers_figure(made).axes[0].texts) == far


def turn(name: str, unit: str, at_low: float, at_high: float) -> Any:
    return SimpleNamespace(
        constant=SimpleNamespace(name=name, unit=unit, low=1.0, high=2.5), at_low=at_low, at_high=at_high
    )


def test_constants_turn_a_saving_from_where_it_is() -> None:
    turns = [turn("x", "mW", 0.5, -0.5), turn("y", "", -1.5, -float("inf")), turn("z", "s", -0.25, 0.0)]
    axes = reducers_figure(rivals(turns, a={"logic": 1.0})).axes[1]
    assert bars(axes) == [
        (-25, -0.3, 75, 0.6),
        (-25, -0.3, -25, 0.6),
        (-25, 0.7, -95, 0.6),
        (-25, 0.7, -95, 0.6),
        (-25, 1.7, 0, 0.6),
        (-25, 1.7, 25, 0.6),
    ]
    assert fills(axes) == [GREEN, RED, RED, RED, RED, GREEN]
    texts: list[Any] = axes.texts[:]
    found = [
        (text.get_text(), text.xy, text.get_position(), text.get_horizontalalignment(), text.get_color())
        for text in texts
    ]
    assert found == [
        ("1", (50, 0), (3, 0), "left", FAINT),
        ("2.5", (-50, 0), (-3, 0), "right", FAINT),
        ("1", (-120, 1), (3, 0), "left", "white"),
        ("2.5: no light does", (-120, 1), (3, 0), "left", "white"),
        ("1", (-25, 2), (-3, 0), "right", FAINT),
        ("2.5", (0, 2), (3, 0), "left", FAINT),
    ]
    assert {(text.get_verticalalignment(), text.get_fontsize()) for text in axes.texts} == {("center", 6.5)}
    assert ticks(axes.yaxis) == [(0, "x, mW"), (1, "y"), (2, "z, s")] and axes.yaxis_inverted()
    assert points(axes) == [[(0, 0), (0, 1)], [(-25, 0), (-25, 1)]]
    assert [each[:3] for each in strokes(axes)] == [(INK, 0.8, "-"), (FAINT, 0.8, ":")]
    assert axes.margins() == (0.18, 0.05) and axes.get_xlabel() == r"what a \$ saves against b, %"
    assert hidden(axes) == {"top", "right"}


def test_savings_end_where_a_rival_saves_more_than_is_drawn_and_ten_constants_are_shown() -> None:
    axes = reducers_figure(rivals([turn("x", "", 0.0, -3.0)] * 11, saving=-2.0, a={"logic": 1.0})).axes[1]
    assert len(bars(axes)) == 20 and bars(axes)[:2] == [(-120, -0.3, 120, 0.6), (-120, -0.3, 0, 0.6)]


@pytest.mark.parametrize(
    ("count", "columns", "rows", "wide"),
    [(1, 1, 1, 4.6), (2, 2, 1, 6.2), (3, 3, 1, 9.3), (4, 2, 2, 6.2), (5, 3, 2, 9.3), (7, 3, 3, 9.3)],
)
def test_panels_of_sweeps_stand_three_in_a_row_but_four_in_two(
    count: int, columns: int, rows: int, wide: float
) -> None:
    row = {"value": 1.0, "mean": 0.5, "least": 0.25, "largest": 1.0}
    figure = sweep_figure([{"parameter": "dac_bits", "rows": [row, row | {"value": 2.0}]}] * count, "words $")
    assert figure.axes[0].get_gridspec().get_geometry() == (rows, columns)  # type: ignore[union-attr]
    assert size(figure) == pytest.approx([wide, 2.7 * rows + 0.3])
    assert [axes.axison for axes in figure.axes] == [n < count for n in range(rows * columns)]
    assert [axes.get_ylabel() for axes in figure.axes] == [
        "averaged rightly, %" if n % columns == 0 else "" for n in range(rows * columns)
    ]
    assert {axes.get_ylim() for axes in figure.axes} == {(-3, 104)} and figure.get_suptitle() == r"words \$"
    title = figure._suptitle  # type: ignore[attr-defined]
    assert (title.get_position()[0], title.get_horizontalalignment(), title.get_fontsize(), title.get_color()) == (
        0.01,
        "left",
        9.5,
        INK,
    )


@pytest.mark.parametrize(
    ("first", "last", "scale"),
    [(1.0, 20.0, "linear"), (1.0, 20.1, "log"), (2.0, 39.0, "linear"), (0.0, 90.0, "linear")],
)
def test_accuracies_are_in_percent_between_the_worst_and_the_best(first: float, last: float, scale: str) -> None:
    rows = [
        {"value": first, "mean": 0.75, "least": 0.5, "largest": 1.0},
        {"value": last, "mean": 0.25, "least": 0.125, "largest": 0.5},
    ]
    (axes,) = sweep_figure([{"parameter": "loss_db", "rows": rows}], "t").axes
    assert points(axes) == [[(first, 75), (last, 25)]]
    assert strokes(axes)[0][:5] == (BLUE, 1.4, "-", "o", 3)
    (band,) = axes.collections
    assert set(segments(band)[0]) == {(first, 50), (first, 100), (last, 12.5), (last, 50)}
    assert (tints(band)[0], tints(band)[2], tints(band)[4]) == ([BLUE], [0], 0.18)
    assert axes.get_xscale() == scale and axes.get_xlabel() == WORDS["loss_db"] and hidden(axes) == {"top", "right"}


def test_training_shows_wrong_averages_and_the_loss() -> None:
    history = [{"epoch": 5.0 * n, "accuracy": accuracy, "loss": 2.0 - n} for n, accuracy in enumerate((0.5, 0.75, 1.0))]
    figure = training_figure(history, 1_000, "words $")
    (axes,) = figure.axes
    assert points(axes) == [[(0, 0.5), (5, 0.25), (10, 5e-4)], [(10, 5e-4)], [(0, 2), (5, 1), (10, 0)]]
    assert [(each[0], *each[2:4]) for each in strokes(axes)] == [
        (RED, "-", "o"),
        (RED, "None", "o"),
        (BLUE, "-", "None"),
    ]
    assert [lines(axes)[0], lines(axes)[1][1], lines(axes)[2][0]] == [(1.4, 3), 4.5, 1]
    assert axes.lines[1].get_markerfacecolor() == "white"
    assert told(axes.get_legend()) == ["averaged wrongly", "none of 1,000 wrong", "loss"]
    assert (axes.get_yscale(), axes.get_xlabel(), axes.get_ylabel()) == ("log", "epoch", "share of the grid; loss")
    assert hidden(axes) == {"top", "right"} and size(figure) == [7, 3.6] and axes.get_title("left") == r"words \$"
    assert axes.get_legend()._loc == 1  # type: ignore[union-attr]


@pytest.mark.parametrize(("wrong", "hollow"), [(0.49, True), (0.5, False), (1.0, False)])
def test_less_than_half_a_point_wrong_is_none(wrong: float, hollow: bool) -> None:
    history = [{"epoch": 1.0, "accuracy": 1 - wrong / 64, "loss": 1.0}]
    (axes,) = training_figure(history, 64, "t").axes
    assert points(axes)[1] == ([(1, 0.5 / 64)] if hollow else [])
