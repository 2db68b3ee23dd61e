"""Pictures of averaging networks: the same bytes for the same data, and what they must show is in them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex

from lightloom.photonics.chip.floorplan import FloorPlan, Place, Rules
from lightloom.photonics.meshes.decompose import decompose
from lightloom.photonics.meshes.files import Part
from lightloom.photonics.meshes.mapping import map_blocks, map_matrix
from lightloom.reports.figures.canvas import to_svg
from lightloom.reports.figures.photonics import (
    PARTS,
    WORDS,
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

RNG = np.random.default_rng(0)


def drawn(rates: list[float], bound: float, limit: float | None = 2e-3) -> str:
    sigmas = np.geomspace(1e-4, 1e-1, len(rates))
    return to_svg(noise_figure("a $ curve", sigmas, np.array(rates), 1000, limit=limit, bound=bound, title="a title"))


@pytest.mark.parametrize("bound", [1e-2, pytest.param(float("inf"), marks=pytest.mark.slow)])
def test_noise_shows_curve_limit_and_bound(bound: float) -> None:
    text = drawn([0, 0, 0.01, 0.5], bound)
    assert "a title" in text and "limit 0.002" in text and "hollow: none wrong" in text
    assert ("no network passes 0.01" in text) == np.isfinite(bound)
    assert text == drawn([0, 0, 0.01, 0.5], bound)
    assert "limit" not in drawn([0, 0, 0, 0], bound, None)


@pytest.mark.parametrize(("limit", "bound"), [(1e-7, 1e-2), (5e-3, 1e-2), (0.0, 1e-2), (1e-3, float("inf"))])
def test_steps_hold_the_limit_and_the_bound(limit: float, bound: float) -> None:
    sigmas = noise_steps(limit, bound)
    assert (np.diff(sigmas) > 0).all() and sigmas[0] > 0 and sigmas[-1] <= 0.5
    for inside in (limit, bound):
        assert not (0 < inside < np.inf) or sigmas[0] < inside < sigmas[-1]


@pytest.mark.parametrize("count", [1, pytest.param(5, marks=pytest.mark.slow)])
def test_sweeps_have_a_panel_each(count: int) -> None:
    rows = [{"value": v, "mean": 1 - v, "least": 1 - v, "largest": 1.0} for v in (1e-4, 1e-2, 0.5)]
    sweeps = [{"parameter": name, "rows": rows} for name in list(WORDS)[:count]]
    text = to_svg(sweep_figure(sweeps, "title"))
    assert all(WORDS[each["parameter"]] in text for each in sweeps)  # type: ignore[index]


def test_a_chain_adds_up_its_parts() -> None:
    parts: dict[str, Part] = {
        "P": map_matrix(RNG.normal(size=(4, 16))),
        "layer 1": map_blocks(RNG.normal(size=(8, 4))),
        "layer 2": map_matrix(RNG.normal(size=(4, 8))),
        "T": map_matrix(RNG.normal(size=(16, 4))),
    }
    text = to_svg(chain_figure(parts))
    assert (text.count("fill: #d5dbe6"), text.count("fill: #aebfe3")) == (2, 2)
    assert f"{sum(part.mzis for part in parts.values())} MZIs in" in text and "8 nonlinear units" in text


@pytest.mark.parametrize("size", [3, pytest.param(30, marks=pytest.mark.slow)])
def test_meshes_of_a_part_say_their_counts(size: int) -> None:
    square, tall = RNG.normal(size=(size, size)), RNG.normal(size=(2 * size, size))
    mapped, blocks = map_matrix(square), map_blocks(tall)
    drawn = to_svg(part_figure(mapped, "layer 7"))
    assert f"{mapped.mzis} MZIs in {mapped.depth} columns" in drawn and "layer 7" in drawn
    assert "block 1 of 2" in to_svg(part_figure(blocks, "layer 7"))
    assert f"{size} modes" in to_svg(part_figure(decompose(np.linalg.qr(square)[0])))


def test_training_shows_when_nothing_is_wrong() -> None:
    history = [{"epoch": e, "accuracy": a, "loss": 1 / (e + 1)} for e, a in ((0, 0.5), (10, 0.999), (20, 1.0))]
    assert "none of 28,561 wrong" in to_svg(training_figure(history, 28_561, "4-64-4"))


@pytest.mark.parametrize("sweeps", [1, 2, 4])
def test_a_panel_is_drawn_for_each_sweep_up_to_three_in_a_row(sweeps: int) -> None:
    rows = [{"value": value, "word_error_rate": 0.1, "interval_95": [0.05, 0.2]} for value in (1.0, 2.0)]
    facts = {"link": {"full_scale": 3e-3}, "word_error_rate": 0.1, "words": 1000, "servers": 4, "bits": 8}
    sweep = {"option": "--phase-lock", "unit": "rad", "rows": rows}
    figure = link_figure(facts | {"contributions": None, "sweeps": [sweep] * sweeps})
    drawn = [axes for axes in figure.axes if axes.has_data()]
    places = {axes.get_subplotspec().colspan.start for axes in figure.axes}  # type: ignore[union-attr]
    assert len(drawn) == sweeps and len(places) == min(sweeps, 3)


def lines(axes: Any) -> Any:
    """Points of each line that holds any."""
    return [[(float(x), float(y)) for x, y in line.get_xydata()] for line in axes.lines if len(line.get_xydata())]


def ticks(axes: Any, axis: str) -> list[str]:
    return [label.get_text() for label in getattr(axes, f"get_{axis}ticklabels")()]


def words(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.texts]


def chip(name: str, before: float, after: float, limit: float) -> dict[str, object]:
    residuals = [before, (before + after) / 2, after]
    return {
        "name": name,
        "residuals": residuals,
        "error_before": before,
        "error_after": after,
        "error_limit": limit,
    }


def test_chips_have_a_line_of_residuals_and_three_marks_each() -> None:
    rows = [chip("a", 0.5, 0.25, 0.0), chip("1", 0.25, 0.125, 1e-3)]
    residuals, errors = calibration_figure(rows, 1e-4, "t").axes
    assert lines(residuals)[:2] == [[(0, 0.5), (1, 0.375), (2, 0.25)], [(0, 0.25), (1, 0.1875), (2, 0.125)]]
    assert lines(residuals)[2] == [(0, 1e-4), (1, 1e-4)] and words(residuals) == ["noise of the detectors"]
    assert lines(errors) == [[(0, 0.5), (1, 0.25)], [(0, 0.25), (1, 0.125)], [(0, 1e-5), (1, 1e-3)]]
    assert errors.get_ylim() == pytest.approx((5e-6, 3.0)) and errors.get_xlim() == pytest.approx((-0.6, 1.6))
    assert residuals.get_yscale() == errors.get_yscale() == "log"
    assert ticks(errors, "x") == ["a", "1"] and not errors.get_xlabel()
    without = calibration_figure(rows, 0.0, "t").axes[0]
    assert len(lines(without)) == 2 and not words(without)


@pytest.mark.parametrize(
    ("names", "named"), [(["0", "1"], False), (list("abcdefghijklmnop"), True), (["x"] * 17, False)]
)
def test_chips_are_named_where_they_are_few_and_no_numbers(names: list[str], named: bool) -> None:
    axes = calibration_figure([chip(name, 0.5, 0.25, 0.125) for name in names], 0.0, "t").axes[1]
    assert (ticks(axes, "x") == names, axes.get_xlabel()) == (named, "" if named else "chip")


def compared(rates: list[float], together: float, enlarged: float = 1.0) -> dict[str, object]:
    """Parts of which each alone errs at the rate given, and made ideal leaves a quarter of it."""

    def side(rate: float) -> dict[str, object]:
        return {"word_error_rate": rate, "interval_95": [rate / 2, 2 * rate or 2**-6]}

    parts = [{"part": f"part {n}", "without": side(rate / 4), "alone": side(rate)} for n, rate in enumerate(rates)]
    return {"parts": parts, "together": {"word_error_rate": together}, "errors_enlarged_by": enlarged}


def link_panels(contributions: dict[str, object] | None, *rows: dict[str, object]) -> list[Any]:
    facts = {"link": {"full_scale": 3e-3}, "word_error_rate": 0.0, "words": 1000, "servers": 4, "bits": 8}
    sweeps = [{"option": "--x", "unit": "rad", "rows": rows}] if rows else []
    figure = link_figure(facts | {"contributions": contributions, "sweeps": sweeps})
    assert figure.get_suptitle() == "4 servers, 8 bits, 3 mW full scale: none of 1,000 words wrong"
    return [axes for axes in figure.axes if axes.has_data()]


def test_parts_of_a_link_stand_on_two_rows_each_the_first_on_top() -> None:
    (axes,) = link_panels(compared([2**-4, 0.0], 2**-3, 2.0))
    ideal, alone = lines(axes)[:4], lines(axes)[4:8]
    assert [each[0][1] for each in ideal] == pytest.approx([0.16, 0.16, 1.16, 1.16])
    assert [each[0][1] for each in alone] == pytest.approx([-0.16, -0.16, 0.84, 0.84])
    bars, dots = [*ideal[::2], *alone[::2]], [*ideal[1::2], *alone[1::2]]
    assert [[x for x, _ in each] for each in bars] == [[1e-9, 2**-6], [2**-7, 2**-5], [1e-9, 2**-6], [2**-5, 2**-3]]
    assert [each[0][0] for each in dots] == [2**-6, 2**-6, 2**-6, 2**-4]
    hollow = [line.get_markerfacecolor() == "white" for line in axes.lines if line.get_marker() == "o"]
    assert hollow == [True, False, False, True, False, False]
    assert lines(axes)[8] == [(2**-3, 0), (2**-3, 1)] and words(axes) == ["all parts"]
    assert ticks(axes, "y") == ["part 1", "part 0"] and axes.get_xscale() == "log"
    assert axes.get_yticklabels()[0].get_fontsize() == 7.5 < axes.get_xticklabels()[0].get_fontsize()
    assert axes.get_xlim() == pytest.approx((2**-6 / 3, 3 * 2**-3))
    assert axes.get_xlabel() == "share of words wrong, all errors 2 times as large"


def test_at_most_fourteen_parts_are_drawn_and_no_rate_beyond_all_words() -> None:
    (axes,) = link_panels(compared([0.75] * 15, 0.0))
    assert ticks(axes, "y") == [f"part {n}" for n in range(13, -1, -1)]
    assert not words(axes) and axes.get_xlabel() == "share of words wrong"
    assert axes.get_xlim() == pytest.approx((1e-6 / 3, 1.5)), "where all parts together never err, a millionth stands"


@pytest.mark.parametrize(("first", "last", "scale"), [(1, 5, "linear"), (1, 5.5, "log"), (0, 9, "linear")])
def test_rates_of_a_link_are_drawn_where_wrong_and_hollow_where_none_is(first: float, last: float, scale: str) -> None:
    rows = [
        {"value": first, "word_error_rate": 0.0, "interval_95": [0.0, 0.03]},
        {"value": last, "word_error_rate": 0.12, "interval_95": [0.06, 0.25]},
    ]
    (axes,) = link_panels(None, *rows)
    assert lines(axes) == [[(last, 0.12)], [(first, 0.03)]]
    assert [line.get_markerfacecolor() == "white" for line in axes.lines] == [False, True]
    assert axes.get_xscale() == scale and axes.get_yscale() == "log"
    assert axes.get_ylim() == pytest.approx((0.01, 1.5)) and axes.get_xlabel() == "--x, rad"
    band: Any = axes.collections[0].get_paths()[0]
    assert {tuple(point) for point in band.vertices.tolist()} >= {
        (first, 1e-9),
        (first, 0.03),
        (last, 0.06),
        (last, 0.25),
    }


def test_a_link_without_errors_or_sweeps_is_an_empty_panel() -> None:
    assert link_panels(None) == []


@pytest.mark.parametrize(("limit", "bound", "ends"), [
    (3e-3, 6e-3, (1e-3, 3e-2)),
    (6e-3, 3e-3, (1e-3, 6e-2)),
    (3e-3, float("inf"), (1e-3, 0.1)),
    (3e-2, float("inf"), (1e-2, 0.3)),
    (3e-1, 6e-1, (1e-1, 0.5)),
    (0.0, 3e-1, (1e-12, 0.5)),
    (9e-1, 9e-1, (3e-1, 0.6)),
])  # fmt: skip
def test_steps_of_noise_reach_from_below_what_networks_pass_to_above_it(
    limit: float, bound: float, ends: tuple[float, float]
) -> None:
    sigmas = noise_steps(limit, bound)
    assert (sigmas[0], sigmas[-1]) == pytest.approx(ends) and len(sigmas) == 33
    assert np.ptp(np.diff(np.log(sigmas))) < 1e-9


@pytest.mark.parametrize(("evaluations", "floor"), [(1000, 1e-5), (10**5, 3e-6)])
def test_noise_without_errors_is_at_the_bottom(evaluations: int, floor: float) -> None:
    sigmas, rates = np.array([1e-3, 1e-2, 1e-1]), np.array([0.0, 0.0, 0.5])
    figure = noise_figure("n", sigmas, rates, evaluations, limit=2e-3, bound=0.05, title="t")
    (axes,) = figure.axes
    wrong, none, limit, target = lines(axes)
    assert wrong == [(0.1, 0.5)] and none == [(1e-3, pytest.approx(floor)), (1e-2, pytest.approx(floor))]
    assert limit == [(2e-3, pytest.approx(floor)), (2e-3, pytest.approx(1e-4))]
    assert target == [(0, pytest.approx(1e-4)), (1, pytest.approx(1e-4))]
    assert axes.get_xlim() == (1e-3, 1e-1) and axes.get_ylim() == pytest.approx((floor, 1.3))
    assert words(axes) == ["1 in 10,000", "no network passes 0.05 at 99.99 %", "hollow: none wrong"]


@pytest.mark.parametrize(("first", "last", "scale"), [(1, 20, "linear"), (1, 21, "log"), (0, 9, "linear")])
def test_sweeps_are_drawn_in_percent_with_their_range(first: float, last: float, scale: str) -> None:
    rows = [{"value": v, "mean": 0.5, "least": 0.25, "largest": 0.75} for v in (first, last)]
    axes = sweep_figure([{"parameter": "dac_bits", "rows": rows}], "t").axes[0]
    assert lines(axes) == [[(first, 50), (last, 50)]] and axes.get_xscale() == scale
    band: Any = axes.collections[0].get_paths()[0]
    heights = {height for _, height in band.vertices.tolist()}
    assert heights == {25, 75} and axes.get_ylim() == (-3, 104)


@pytest.mark.parametrize(("count", "columns", "panels"), [(1, 1, 1), (3, 3, 3), (4, 2, 4), (5, 3, 6), (7, 3, 9)])
def test_four_sweeps_stand_two_by_two_and_others_three_in_a_row(count: int, columns: int, panels: int) -> None:
    rows = [{"value": v, "mean": 0.5, "least": 0.25, "largest": 0.75} for v in (1.0, 2.0)]
    axes = sweep_figure([{"parameter": "other", "rows": rows}] * count, "t").axes
    assert len(axes) == panels and [each.axison for each in axes] == [n < count for n in range(panels)]
    assert [n for n, each in enumerate(axes) if each.get_ylabel()] == list(range(0, panels, columns))
    assert axes[0].get_xlabel() == "other"


def test_half_an_input_stands_for_none_wrong_in_training() -> None:
    history = [{"epoch": 2.0 * n, "accuracy": 1 - n / 8, "loss": 0.5 / (n + 1)} for n in range(3)]
    (axes,) = training_figure(history, 8, "t").axes
    wrong, none, loss = lines(axes)
    assert wrong == [(0, 1 / 16), (2, 1 / 8), (4, 1 / 4)] and none == [(0, 1 / 16)]
    assert loss == [(0, 0.5), (2, 0.25), (4, pytest.approx(0.5 / 3))] and axes.get_yscale() == "log"


def test_waveguides_of_a_chain_are_counted_and_units_follow_the_layers_but_the_last() -> None:
    parts: dict[str, Any] = {
        "P": map_matrix(RNG.normal(size=(4, 20))),
        "layer 1": map_matrix(RNG.normal(size=(24, 4)), gains="common"),
        "layer 2": map_matrix(np.eye(4, 24)),
        "T": map_matrix(RNG.normal(size=(16, 4))),
    }
    figure = chain_figure(parts, "a title")
    (axes,) = figure.axes
    guides = [len(each.get_paths()) for each in axes.collections if each.get_zorder() == 1]
    assert guides == [16, 4, 16, 4, 16], "at most sixteen"
    assert [text for text in words(axes) if text.isdigit()] == ["20", "4", "24", "4", "16"]
    (units,) = (each for each in axes.collections if each.get_zorder() == 4)
    places: Any = units.get_offsets()
    boxes: Any = axes.patches
    assert len(places) == 16 and ((places[:, 0] > boxes[1].get_x()) & (places[:, 0] < boxes[2].get_x())).all()
    assert np.allclose(places[:, 1], -places[::-1, 1]) and (np.diff(places[:, 1]) > 0).all()
    assert all(box.get_y() == -box.get_height() / 2 for box in boxes)
    ends = [box.get_x() + box.get_width() for box in boxes]
    gaps = [box.get_x() - end for end, box in zip([0.0, *ends[:-1]], boxes, strict=True)]
    assert gaps == pytest.approx([gaps[0]] * 4) and gaps[0] > 0
    low, high = axes.get_xlim()
    assert -low == pytest.approx(high - ends[-1] - gaps[0]) and low < 0
    assert [
        f"gain {20 * np.log10(each.gain):.1f} dB" in text
        for each, text in zip(parts.values(), [text for text in words(axes) if "MZIs" in text], strict=True)
    ] == [each.gain > 1 for each in parts.values()]
    assert figure.get_suptitle().startswith("a title: ") and figure.get_suptitle().endswith(
        "24 nonlinear units (orange)"
    )
    heights, widths = [box.get_height() for box in boxes], [box.get_width() for box in boxes]
    assert [height - 0.4 for height in heights] == pytest.approx([0.6 * n**0.5 for n in (20, 24, 24, 16)])
    assert np.argsort(widths).tolist() == np.argsort([part.depth for part in parts.values()], kind="stable").tolist()


@pytest.mark.parametrize(("columns", "crossings"), [(1, 2), (11, 2), (12, 3), (40, 7)])
def test_boxes_of_a_chain_hint_at_as_many_columns_as_a_quarter(columns: int, crossings: int) -> None:
    mesh = decompose(np.linalg.qr(RNG.normal(size=(max(columns, 2), max(columns, 2))))[0])
    assert mesh.layout.depth == columns
    (axes,) = chain_figure({"layer": mesh}).axes
    (box,) = (each for each in axes.collections if each.get_zorder() == 3)
    paths: list[Any] = [path.vertices for path in box.get_paths()]
    starts = sorted({round(float(path[0][0]), 9) for path in paths})
    rows = len(paths) / 2 / len(starts)
    patch: Any = axes.patches[0]
    assert len(starts) == crossings and rows == max(2, round(patch.get_height() / (patch.get_width() / crossings)))
    points = np.concatenate([np.asarray(path) for path in paths])
    x, y = patch.get_x(), patch.get_y()
    corners = np.array([[x, y], [x + patch.get_width(), y + patch.get_height()]])
    assert np.allclose([points.min(axis=0), points.max(axis=0)], corners), "crossings fill the box"


@pytest.mark.parametrize(("width", "rows"), [(100.0, 1), (1600.0, 2), (3600.0, 3), (1e6, 4)])
def test_a_long_chip_is_cut_into_rows_that_follow_each_other(width: float, rows: int) -> None:
    plan = FloorPlan(rules=Rules(), height=100.0, crossings=0, width=width)
    axes = chip_figure(plan, "t").axes
    assert [each.get_xlim() for each in axes] == [
        pytest.approx((row * width / rows, (row + 1) * width / rows)) for row in range(rows)
    ]
    assert all(each.get_ylim() == (0, 100) for each in axes)
    assert [each.get_xlabel() for each in axes] == [*[""] * (rows - 1), "µm"]
    assert [bool(each.get_legend()) for each in axes] == [True, *[False] * (rows - 1)]


def test_devices_of_a_chip_lie_about_their_waveguides_within_their_length() -> None:
    rules = Rules(pitch=20.0)
    device = Place(name="d", x=100.0, y=50.0, phases=())
    plan = FloorPlan(rules=rules, height=100.0, crossings=0, width=500.0)
    for places in (plan.interferometers, plan.attenuators, plan.shifters, plan.units):
        places.append(device)
    plan.guide(10.0, 40.0, 50.0)
    plan.routes.append((0.0, 0.0, 160.0, 32.0))
    drawings: list[Any] = [*chip_figure(plan, "t").axes[0].collections]
    guides, routes, *boxes = drawings
    assert guides.get_paths()[0].vertices.tolist() == [[10, 50], [40, 50]]
    curve: Any = routes.get_paths()[0].vertices
    assert curve[:, 0].tolist() == list(range(0, 161, 10)) and np.allclose(curve[:, 1] + curve[::-1, 1], 32)
    assert curve[[0, -1], 1].tolist() == [0, 32] and (np.diff(curve[:, 1]) > 0).all()
    assert curve[1, 1] < 0.5, "level at both ends"
    drawn = [each.get_paths()[0].get_extents() for each in boxes]
    lengths = [rules.column, rules.column, rules.heater, rules.unit]
    assert [box.width for box in drawn] == pytest.approx([0.92 * length for length in lengths])
    assert [box.x0 + box.x1 for box in drawn] == pytest.approx([2 * device.x + length for length in lengths])
    first, *others = drawn
    assert (first.y0 + first.y1) / 2 > device.y - rules.pitch and first.y0 < device.y - rules.pitch / 2 + 1
    assert first.y1 > device.y and first.y0 > device.y - rules.pitch, "both waveguides of an interferometer"
    assert [(box.y0 + box.y1) / 2 for box in others] == pytest.approx([device.y] * 3)
    assert all(box.height < rules.pitch for box in others)


def compared_rivals(energies: dict[str, dict[str, float]], turns: list[Any]) -> Any:
    """What is drawn of a comparison of reducers: picojoules a bit of each rival by part, half to twice of it."""
    rivals, ranges = {}, {}
    for name, parts in energies.items():
        joules = {part: 1e-12 * each for part, each in parts.items()}
        total = sum(joules.values())
        rivals[name] = SimpleNamespace(energy=joules, energy_per_bit=total)
        ranges[name] = SimpleNamespace(low=total / 2, high=2 * total)
    savings = {("a", "b"): -0.25}
    return SimpleNamespace(
        rivals=rivals,
        ranges=ranges,
        turns=turns,
        pair=("a", "b"),
        saving=lambda first, second: savings[first, second],
        setting=SimpleNamespace(servers=4, bits=8, symbol_rate=5e10),
    )


def bars(axes: Any) -> Any:
    """(left, width, row) of each bar."""
    return [(bar.get_x(), bar.get_width(), bar.get_y() + bar.get_height() / 2) for bar in axes.patches]


def test_energies_are_stacked_by_part_with_their_ranges_and_the_far_ones_end_at_the_edge() -> None:
    energies = {
        "a": {"server transmitters": 1.0, "server receivers": 2.0, "lasers": 4.0},
        "b": {"logic": 8.0},
        "c": {"converters": 8.0 * 3.5 + 0.01, "error correction": 1.0},
        "d": {"lasers": float("inf"), "logic": 1.0},
        "e": {"logic": 2.0},
    }
    figure = reducers_figure(compared_rivals(energies, []))
    axes = figure.axes[0]
    assert figure.get_suptitle() == "4 servers, 8 bits, 50 GBd"
    edge = 1.08 * 16
    assert axes.get_xlim() == pytest.approx((0, edge)) and axes.yaxis_inverted() and ticks(axes, "y") == list("abcde")
    drawn = {row: [(left, width) for left, width, at in bars(axes) if round(at) == row and width] for row in range(5)}
    expected: dict[int, Any] = {
        0: [(0, 3), (3, 4)],
        1: [(0, 8)],
        2: [(0, edge)],
        3: [(0, edge)],
        4: [(0, 2)],
    }
    assert {row: [*map(pytest.approx, each)] for row, each in expected.items()} == drawn
    assert len(bars(axes)) == 5 * len(PARTS)
    assert [(text.get_text(), text.get_position()[1]) for text in axes.texts] == [("29", 2), ("no light does", 3)]
    assert lines(axes) == [
        [(pytest.approx(low), row), (pytest.approx(high), row)] if high else [(pytest.approx(low), row)]
        for row, total in ((0, 7), (1, 8), (4, 2))
        for low, high in ((total / 2, 2 * total), (total, 0))
    ]


def test_ranges_of_energies_end_at_the_edge() -> None:
    energies = {"a": {"logic": 1.0}, "b": {"logic": 3.0}, "c": {"logic": 0.5}}
    axes = reducers_figure(compared_rivals(energies, [])).axes[0]
    # 3.5 times the median energy is 3.5: the range of b, up to 6, sets no edge and is cut at it.
    assert axes.get_xlim() == pytest.approx((0, 1.08 * 3))
    assert lines(axes)[2] == [(1.5, 1), (pytest.approx(1.08 * 3), 1)]


def turn(name: str, unit: str, at_low: float, at_high: float) -> Any:
    constant = SimpleNamespace(name=name, unit=unit, low=1.0, high=2.5)
    return SimpleNamespace(constant=constant, at_low=at_low, at_high=at_high)


def test_turns_begin_at_the_saving_as_it_is_and_end_no_lower_than_is_drawn() -> None:
    turns = [turn("x", "mW", 0.5, -0.5), turn("y", "", -2.0, -float("inf")), *[turn("z", "", 0.0, 0.0)] * 9]
    axes = reducers_figure(compared_rivals({"a": {"logic": 1.0}}, turns)).axes[1]
    assert ticks(axes, "y") == ["x, mW", "y", *["z"] * 8] and axes.yaxis_inverted()
    assert bars(axes)[:4] == [
        (pytest.approx(min(-25.0, end)), pytest.approx(abs(end + 25)), pytest.approx(row))
        if end > -25
        else (-25.0, pytest.approx(end + 25), pytest.approx(row))
        for end, row in ((50, 0), (-50, 0), (-120, 1), (-120, 1))
    ]
    assert [to_hex(bar.get_facecolor()) for bar in axes.patches[:3]] == ["#5ba8a0", "#c9603a", "#c9603a"]
    assert words(axes)[:4] == ["1", "2.5", "1", "2.5: no light does"]
    told: Any = axes.texts[:4]
    assert [each.get_ha() for each in told] == ["left", "right", "left", "left"]
    assert [each.get_position()[0] for each in told] == [3, -3, 3, 3]
    assert [each.xy for each in told] == [(50, 0), (-50, 0), (-120, 1), (-120, 1)]
    assert [lines(axes)[n][0][0] for n in (0, 1)] == [0, -25]
    assert axes.get_xlabel() == "what a saves against b, %"
