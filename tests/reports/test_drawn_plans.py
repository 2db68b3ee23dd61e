"""Pictures of plans hold their shares, their bytes and their circuits, cell by cell."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgb
from scipy.sparse import csr_array

from lightloom.core.units import format_bandwidth, format_size
from lightloom.planning.figures import (
    MOST_CELLS,
    _draw,
    _Ground,
    _names,
    _short,
    _summed,
    assignment_figure,
    group_figure,
    placement_figure,
    shares,
)
from lightloom.planning.parallelism.circuits.circuits import Assignment, Circuits, Traffic
from lightloom.reports.figures.canvas import FAINT, PARALLELISM, RELAYED, TASKS
from tests.reports.artists import bars, dots, fills, hidden, points, strokes, ticks, tints, told


def size(figure: Any) -> list[float]:
    return [round(float(inches), 9) for inches in figure.get_size_inches()]


def placed(*parts: tuple[int, int, float, float], k: int = 2, names: tuple[str, ...] = ("a", "b", "c")) -> Any:
    """A plan of parts: (operator, device, seconds forward, seconds backward)."""
    operator, device, forward, backward = (np.array(column) for column in zip(*parts, strict=True))
    balanced = SimpleNamespace(
        forward=forward.astype(float), backward=backward.astype(float), operator=operator, operators=names
    )
    return SimpleNamespace(balanced=balanced, k=k, placement=SimpleNamespace(device=device))


PLAN = placed(
    (0, 0, 1.0, 2.0), (0, 1, 0.5, 0.5), (1, 1, 0.25, 0.75), (2, 0, 0.0, 0.0), (2, 1, 0.0, 0.0), (2, 1, 0.0, 0.0)
)


def test_shares_of_operators_are_of_their_seconds_or_of_their_parts_where_they_take_none() -> None:
    assert shares(PLAN).tolist() == [[0.75, 0.0, pytest.approx(1 / 3)], [0.25, 1.0, pytest.approx(2 / 3)]]


def test_cells_of_a_placement_are_as_opaque_as_their_share() -> None:
    figure = placement_figure(PLAN)
    axes, load = figure.axes
    image: Any = axes.images[0].get_array()
    opacity = 0.22 + 0.78 * shares(PLAN)
    opacity[0, 1] = 0.0
    assert np.allclose(image[..., 3], opacity, atol=4e-3)
    backward = TASKS["backward"][1]
    assert np.allclose(image[image[..., 3] > 0][:, :3], to_rgb(backward)) and not image[0, 1].any()
    (drawn,) = axes.images
    assert [*drawn.get_extent()] == [-0.5, 2.5, 1.5, -0.5] and drawn.get_interpolation() == "nearest"
    assert drawn.get_zorder() == 2 and axes.get_aspect() == "auto"
    assert ticks(axes.xaxis) == [(0, "a"), (1, "b"), (2, "c")]
    labels = axes.get_xticklabels()
    assert {
        (each.get_rotation(), each.get_horizontalalignment(), each.get_rotation_mode(), each.get_fontsize())
        for each in labels
    } == {(55, "right", "anchor", 7)}
    assert axes.get_ylabel() == "device of a group"
    assert axes.get_title("left") == "3 operators in order; full colour is the whole operator"
    assert axes.get_gridspec().get_width_ratios() == (7, 1.3)  # type: ignore[union-attr]
    assert load.get_ylim() == axes.get_ylim()


def test_bars_beside_a_placement_are_the_time_that_devices_are_busy() -> None:
    load = placement_figure(PLAN).axes[1]
    assert bars(load) == [
        (0, -0.4, 1000, 0.8),
        (0, 0.6, 750, 0.8),
        (1000, -0.4, 2000, 0.8),
        (750, 0.6, 1250, 0.8),
    ]
    forward, backward = TASKS["forward"][1], TASKS["backward"][1]
    assert fills(load) == [forward, forward, backward, backward]
    assert all(bar.get_linewidth() == 0 for bar in load.patches)
    assert load.get_xlim() == pytest.approx((0, 3150)) and load.get_xlabel() == "milliseconds busy"
    assert load.xaxis.get_major_locator()._nbins == 3 and hidden(load) == {"top", "right"}  # type: ignore[attr-defined]
    legend: Any = load.get_legend()
    assert told(legend) == ["forward", "backward"]
    anchor = legend.get_bbox_to_anchor()._bbox
    assert (anchor.x0, anchor.y0, legend._loc) == (-0.05, 1, 3)
    assert (legend.handlelength, legend.borderpad, legend.labelspacing) == (0.8, 0, 0.2)
    assert {(line.get_color(), line.get_linewidth(), line.get_visible()) for line in load.get_xgridlines()} == {
        (FAINT, 0.3, True)
    }
    assert not any(line.get_visible() for line in load.get_ygridlines())
    tick = load.yaxis.get_major_ticks()[0]
    assert tick.tick1line.get_markersize() == 0 and not tick.label1.get_visible()
    assert load.get_axisbelow() is True


def test_devices_that_do_nothing_have_an_axis_all_the_same() -> None:
    assert placement_figure(placed((0, 0, 0.0, 0.0), names=("a",))).axes[1].get_xlim() == (0, 1)


@pytest.mark.parametrize(
    ("devices", "height"), [(1, 0.5), (2, 0.6), (15, 4.5), (16, 4.6), (64, 4.6), (154, 154 * 0.03)]
)
def test_placements_are_as_high_as_their_devices_have_room(devices: int, height: float) -> None:
    figure = placement_figure(placed((0, 0, 1.0, 1.0), k=devices, names=("a",)))
    assert size(figure) == pytest.approx([9, 1.9 + height])
    locator: Any = figure.axes[0].yaxis.get_major_locator()
    assert locator._nbins == min(devices, 12) and locator._min_n_ticks == 1 and locator._integer


@pytest.mark.parametrize(
    ("name", "short"), [("a" * 22, "a" * 22), ("a" + "b" * 22, "…" + "b" * 21), ("", ""), ("x" * 40, "…" + "x" * 21)]
)
def test_long_names_keep_their_end(name: str, short: str) -> None:
    assert _short(name) == short and len(_short(name)) <= 22


def test_up_to_22_operators_have_their_names() -> None:
    operators = tuple(f"layers.{n}.$x" for n in range(22))
    assert _names(operators) == (list(range(22)), [rf"layers.{n}.\$x" for n in range(22)])
    assert _names(()) == ([], [])


def test_of_more_operators_blocks_are_named_where_they_begin_as_far_apart_as_names_need() -> None:
    """44 operators: two are one name's room."""
    pairs = ("head.norm", "head.out", *(f"layers.{n // 3}.{'abc'[n % 3]}" for n in range(42)))
    assert _names(pairs) == ([0, *range(2, 44, 3)], ["head", *(f"layers.{n}" for n in range(14))])
    single = tuple(f"layers.{n}.a" for n in range(44))
    assert _names(single) == (list(range(0, 44, 2)), [f"layers.{n}" for n in range(0, 44, 2)])
    again = ("a.x", "b.x", *("a.x",) * 42)
    assert _names(again) == ([0, 2], ["a", "a"])


def assigned(matrix: Any, *circuits: tuple[int, int, int], holds: int = 1) -> Assignment:
    """Traffic with circuits: (hold, source, destination)."""
    columns = np.array(circuits, np.int64).reshape(-1, 3).T
    zero = np.zeros(len(circuits), np.int64)
    return Assignment(
        Traffic.of(np.asarray(matrix, float)), Circuits(holds, columns[0], columns[1], columns[2], zero, zero), 1.0
    )


def image(axes: Any) -> Any:
    return np.asarray(axes.images[0].get_array())


def scale(axes: Any) -> list[str]:
    """Words beside the colours of a panel, from the largest on."""
    (beside,) = axes.child_axes
    return [label for _, label in ticks(beside.yaxis)]


def test_traffic_stands_beside_its_circuits_and_crosses_where_there_are_none() -> None:
    matrix = [[0, 1e6, 1e3], [1e4, 0, 0], [0, 1e5, 0]]
    figure = assignment_figure(assigned(matrix, (0, 0, 1), (1, 0, 1), (0, 1, 0), (1, 1, 2), holds=2), 1e9)
    traffic, circuits = figure.axes
    opacity = np.zeros((3, 3))
    for (row, column), decades in {(0, 1): 3, (0, 2): 0, (1, 0): 1, (2, 1): 2}.items():
        opacity[row, column] = 0.2 + 0.8 * decades / 3
    assert np.allclose(image(traffic)[..., 3], opacity, atol=4e-3)
    assert np.allclose(image(traffic)[opacity > 0][:, :3], to_rgb(PARALLELISM[0]))
    assert scale(traffic) == [format_size(value) for value in (1e6, 1e5, 1e4, 1e3)]
    # Two circuits of a pair, each in one of two holds, are a whole one; a scale spans a decade at least.
    served = np.zeros((3, 3))
    served[0, 1], served[1, 0], served[1, 2] = 1.0, 0.2 + 0.8 * np.log10(5), 0.2 + 0.8 * np.log10(5)
    assert np.allclose(image(circuits)[..., 3], served, atol=4e-3)
    assert scale(circuits)[0] == format_bandwidth(1e9) and scale(circuits)[-1] == format_bandwidth(1e8)
    (crosses,) = circuits.collections
    assert dots(crosses) == [(2, 0), (1, 2)] and tints(crosses)[1][0] == RELAYED
    assert tints(crosses)[2:4] == ([0.8], 3)
    assert float(crosses.get_sizes()[0]) == 36  # type: ignore[attr-defined]
    assert (traffic.get_title("left"), circuits.get_title("left")) == ("traffic", "circuits granted")
    for axes in figure.axes:
        assert (axes.get_ylabel(), axes.get_xlabel()) == ("sends, rank a row", "receives, rank a column")
        assert [*axes.images[0].get_extent()] == [-0.5, 2.5, 2.5, -0.5] and axes.get_aspect() == 1
        assert axes.images[0].get_interpolation() == "nearest" and not axes.lines
        locators: list[Any] = [axis.get_major_locator() for axis in (axes.xaxis, axes.yaxis)]
        assert {(each._nbins, each._integer, each._min_n_ticks) for each in locators} == {(8, True, 1)}
    assert told(figure.legends[0]) == ["no circuit, relayed"] and size(figure) == [9, 1.1 + 3.3]
    (handle,) = figure.legends[0].legend_handles
    assert (handle.get_color(), handle.get_marker(), handle.get_linestyle(), handle.get_markersize()) == (  # type: ignore[union-attr]
        RELAYED,
        "x",
        "None",
        4,
    )


def test_where_every_pair_has_a_circuit_there_is_no_cross_and_no_legend() -> None:
    figure = assignment_figure(assigned([[0, 1], [0, 0]], (0, 0, 1)), 1e9)
    assert dots(figure.axes[1].collections[0]) == [] and not figure.legends


def test_where_no_pair_has_a_circuit_all_have_crosses() -> None:
    figure = assignment_figure(assigned([[0, 1], [1, 0]]), 1e9)
    assert dots(figure.axes[1].collections[0]) == [(1, 0), (0, 1)] and told(figure.legends[0]) == [
        "no circuit, relayed"
    ]
    assert not image(figure.axes[1]).any() and scale(figure.axes[1])[0] == format_bandwidth(1.0)


@pytest.mark.parametrize(("ranks", "block"), [(128, 1), (129, 2), (256, 2), (257, 3)])
def test_cells_of_many_ranks_are_the_sums_of_their_bytes(ranks: int, block: int) -> None:
    matrix = np.zeros((ranks, ranks))
    matrix[0, -1], matrix[1, -1], matrix[-1, 0] = 1.0, 9.0, 1.0
    figure = assignment_figure(assigned(matrix, (0, 0, ranks - 1), (0, ranks - 1, 0)), 1e9)
    cells = -(-ranks // block)
    traffic, circuits = figure.axes
    assert image(traffic).shape == (cells, cells, 4) and cells <= MOST_CELLS
    assert scale(traffic)[0] == format_size(10.0 if block > 1 else 9.0)
    assert dots(circuits.collections[0]) == ([(cells - 1, 0)] if block > 1 else [(cells - 1, 1)])
    each = "rank" if block == 1 else f"{block} ranks"
    assert traffic.get_ylabel() == f"sends, {each} a row" and traffic.get_xlabel() == f"receives, {each} a column"


def test_cells_add_up_what_falls_into_them() -> None:
    found = _summed(5, 2, np.array([0, 1, 4, 1]), np.array([4, 4, 0, 0]), np.array([1.0, 2.0, 4.0, 8.0]))
    assert found.tolist() == [[8, 0, 3], [0, 0, 0], [4, 0, 0]]


GROUND = _Ground(("rows", "columns"), np.array([[False, True], [False, True]]), ("inside", "outside"), (1,))


def test_cells_are_coloured_by_kind_and_groups_parted_by_lines() -> None:
    sent, none = np.array([[1.0, 10.0], [0.0, 1e3]]), np.zeros((2, 2), bool)
    figure = _draw(GROUND, sent, sent, none)
    for axes in figure.axes:
        assert np.allclose(image(axes)[0, 0, :3], to_rgb(PARALLELISM[0]))
        assert np.allclose(image(axes)[:, 1, :3], to_rgb(PARALLELISM[1])) and not image(axes)[1, 0].any()
        assert points(axes) == [[(0.5, 0), (0.5, 1)], [(0, 0.5), (1, 0.5)]]
        assert {each[:2] for each in strokes(axes)} == {(FAINT, 0.6)}
        assert [list(axis.get_major_locator()()) for axis in (axes.xaxis, axes.yaxis)] == [[0, 1], [0, 1]]
        assert (axes.get_ylabel(), axes.get_xlabel()) == ("rows", "columns")
        (beside,) = axes.child_axes
        assert beside._axes_locator._orig_locator._bounds == (1.03, 0.0, 0.045, 1.0)  # type: ignore[attr-defined]
        colours: Any = beside._colorbar.cmap  # type: ignore[attr-defined]
        assert to_hex(colours(1.0)) == FAINT and float(colours(0.0)[3]) == 0.2
        assert not beside.spines["outline"].get_visible() and list(beside.yaxis.get_minorticklocs()) == []
    assert figure.axes[0].get_title() == "traffic of a step"
    assert told(figure.legends[0]) == ["inside", "outside"] and figure.legends[0]._ncols == 2  # type: ignore[attr-defined]
    handles: list[Any] = figure.legends[0].legend_handles
    assert [to_hex(each.get_facecolor()) for each in handles] == list(PARALLELISM)


@pytest.mark.parametrize(
    ("sent", "words"),
    [([[1, 0], [1, 0]], ["inside"]), ([[0, 1], [0, 0]], ["outside"]), ([[1, 1], [0, 0]], ["inside", "outside"])],
)
def test_only_kinds_that_are_sent_are_explained(sent: Any, words: list[str]) -> None:
    cells = np.asarray(sent, float)
    assert told(_draw(GROUND, cells, cells, np.zeros((2, 2), bool)).legends[0]) == words
    crossed = np.array([[True, False], [False, False]])
    assert told(_draw(GROUND, cells, cells, crossed).legends[0]) == [*words, "no circuit, relayed"]


@pytest.mark.parametrize(("edges", "fixed"), [((), False), (tuple(range(1, 10)), True), (tuple(range(1, 11)), False)])
def test_up_to_nine_groups_have_their_ticks(edges: tuple[int, ...], fixed: bool) -> None:
    cells = np.ones((12, 12))
    axes = _draw(_Ground(("r", "c"), cells > 1, ("x",), edges), cells, cells, cells > 1).axes[0]
    for axis in (axes.xaxis, axes.yaxis):
        assert (type(axis.get_major_locator()).__name__ == "FixedLocator") is fixed
        assert not fixed or list(axis.get_major_locator()()) == [0, *edges]
    assert len(axes.lines) == 2 * len(edges)


def test_only_edges_within_the_rows_part_them() -> None:
    cells = np.ones((2, 6))
    figure = _draw(_Ground(("r", "c"), cells > 1, ("x",), (2, 4)), cells, cells, cells > 1)
    assert points(figure.axes[0]) == [[(1.5, 0), (1.5, 1)], [(3.5, 0), (3.5, 1)]]
    assert size(figure) == pytest.approx([9, 1.1 + 1.1])
    assert [*figure.axes[0].images[0].get_extent()] == [-0.5, 5.5, 1.5, -0.5]


@pytest.mark.parametrize(("cells", "side"), [(23, 6.0), (28, 5.0), (70, 2.0), (140, 2**0.5)])
def test_crosses_are_as_large_as_their_cells_in_bounds(cells: int, side: float) -> None:
    crossed = np.ones((2, cells), bool)
    values = np.ones((2, cells))
    figure = _draw(_Ground(("r", "c"), ~crossed, ("x",)), values, values, crossed)
    (crosses,) = figure.axes[1].collections
    assert float(crosses.get_sizes()[0]) == pytest.approx(side**2)  # type: ignore[attr-defined]
    assert len(dots(crosses)) == 2 * cells


@pytest.mark.parametrize(
    ("least", "low", "ticks"),
    [(1e-3, 1.0, 4), (1.0, 1.0, 4), (1e3, 1e3, 4), (1.1e4, 1.1e4, 3), (1.1e5, 1e5, 3), (1e6, 1e5, 3)],
)
def test_scales_span_a_decade_to_six(least: float, low: float, ticks: int) -> None:
    cells = np.array([[1e6, least]])
    axes = _draw(_Ground(("r", "c"), cells < 0, ("x",)), cells, cells, cells < 0).axes[0]
    assert scale(axes) == [format_size(float(value)) for value in np.geomspace(1e6, low, ticks)]
    share = max(np.log(least / low), 0.0) / np.log(1e6 / low)
    assert np.allclose(image(axes)[0, :, 3], [1.0, 0.2 + 0.8 * share], atol=4e-3)


def grouped(k: int, groups: int, source: Any, destination: Any, rates: Any) -> tuple[Any, Any]:
    """A plan whose devices send 2^n bytes to the next of their group, and 1,000 to their counterpart in the next
    group; and circuits."""
    ranks = k * groups
    model, data = np.zeros((ranks, ranks)), np.zeros((ranks, ranks))
    for rank in range(ranks):
        if k > 1:
            model[rank, rank // k * k + (rank + 1) % k] = 2.0 ** (rank % k)
        if groups > 1:
            data[rank, (rank + k) % ranks] = 1e3
    traffic = SimpleNamespace(model_parallel=csr_array(model), data_parallel=csr_array(data))
    circuits = SimpleNamespace(
        source=np.array(source), destination=np.array(destination), mean_bandwidth=np.array(rates, float)
    )
    return SimpleNamespace(k=k, groups=groups, ranks=ranks, traffic=traffic), circuits


@pytest.mark.parametrize(
    ("k", "groups", "rows", "columns"),
    [
        (2, 1, 2, 2),
        (2, 3, 6, 6),
        (2, 4, 8, 8),
        (2, 5, 8, 10),
        (12, 4, 48, 48),
        (13, 4, 39, 52),
        (24, 3, 48, 72),
        (25, 2, 25, 50),
        (49, 1, 49, 49),
        (49, 2, 49, 98),
    ],
)
def test_whole_groups_are_drawn_and_what_they_send_on(k: int, groups: int, rows: int, columns: int) -> None:
    plan, circuits = grouped(k, groups, [0], [0], [0.0])
    figure = group_figure(plan, circuits)
    traffic, served = (image(axes) for axes in figure.axes)
    assert traffic.shape == served.shape == (rows, columns, 4)
    whole = (plan.traffic.model_parallel + plan.traffic.data_parallel).toarray()[:rows, :columns]
    assert np.array_equal(traffic[..., 3] > 0, whole > 0)
    assert sorted(dots(figure.axes[1].collections[0])) == sorted(
        (float(c), float(r)) for r, c in np.argwhere(whole > 0)
    )
    upwards = [line[0][0] for line in points(figure.axes[0]) if line[0][0] == line[1][0]]
    assert upwards == [edge - 0.5 for edge in range(k, columns, k)]
    assert not served.any() and size(figure) == pytest.approx([9, 1.1 + 3.3 * rows / columns])


def test_circuits_of_a_group_are_those_of_every_group() -> None:
    """Destinations from k on are in the next group, and of the last group in the first."""
    plan, circuits = grouped(2, 3, [0, 1, 1, 0, 0], [1, 0, 3, 2, 2], [4e9, 2e9, 1e9, 3e9, 5e9])
    figure = group_figure(plan, circuits)
    axes = figure.axes[1]
    rates = np.zeros((6, 6))
    for group in range(3):
        first, second, onward = 2 * group, 2 * group + 1, (2 * group + 2) % 6
        rates[first, second], rates[second, first] = 4e9, 2e9
        rates[second, onward + 1], rates[first, onward] = 1e9, 8e9
    opacity = np.where(rates > 0, 0.2 + 0.8 * np.log10(np.maximum(rates, 1) / 8e8), 0)
    assert np.allclose(image(axes)[..., 3], opacity, atol=4e-3)
    assert dots(axes.collections[0]) == [] and scale(axes)[0] == format_bandwidth(8e9)
    blocks = np.kron(np.eye(3), np.ones((2, 2))) > 0
    for panel in figure.axes:
        inside = image(panel)[blocks & (image(panel)[..., 3] > 0)][:, :3]
        outside = image(panel)[~blocks & (image(panel)[..., 3] > 0)][:, :3]
        assert np.allclose(inside, to_rgb(PARALLELISM[0])) and np.allclose(outside, to_rgb(PARALLELISM[1]))
        assert len(outside) == len(inside) == 6
    assert told(figure.legends[0]) == ["model parallel", "data parallel"]
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("sends, rank a row", "receives, rank a column")


def test_circuits_beyond_the_groups_that_are_drawn_are_left_out() -> None:
    plan, circuits = grouped(2, 9, [0, 1], [1, 3], [1e9, 1e9])
    axes = group_figure(plan, circuits).axes[1]
    served = {(int(row), int(column)) for row, column in np.argwhere(image(axes)[..., 3] > 0)}
    assert served == {(0, 1), (2, 3), (4, 5), (6, 7), (1, 3), (3, 5), (5, 7), (7, 9)}
    assert sorted(dots(axes.collections[0])) == sorted(
        [*((first, first + 1) for first in (0, 2, 4, 6)), *((first + 2, first) for first in (0, 2, 4, 6))]
    )
