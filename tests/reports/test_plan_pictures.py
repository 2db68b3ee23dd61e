"""Pictures of plans show what they should, readably: shares, traffic beside circuits, fronts, the busiest lanes."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_rgb

from lightloom.core.timeline import Interval, Timeline
from lightloom.core.units import format_size
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.switches import CircuitSwitch, PacketSwitch
from lightloom.machines.fabrics.wdm_ring import WdmRing
from lightloom.planning.figures import _names, assignment_figure, group_figure, placement_figure, shares
from lightloom.planning.parallelism.circuits import ring
from lightloom.planning.parallelism.circuits.circuits import Assignment, Circuits, GroupCircuits, Traffic
from lightloom.planning.parallelism.circuits.group import grant
from lightloom.planning.parallelism.placement.cuts import PartitionRules
from lightloom.planning.parallelism.placement.place import partition, place
from lightloom.planning.parallelism.placement.placement import HybridPlan, Link, Reach
from lightloom.reports.figures.canvas import KINDS, PARALLELISM, to_svg
from lightloom.reports.figures.comparisons import Point, pareto_figure
from lightloom.reports.figures.timelines import busiest, timeline_figure
from lightloom.reports.report import RankingRow
from tests.planner.jobs import transformer


@cache
def planned(k: int, groups: int, blocks: int = 2) -> HybridPlan:
    """A small transformer, its seconds made up of its FLOPs."""
    graph = transformer(blocks)
    seconds = np.array([[1e-12 * each.forward_flops, 1e-12 * each.backward_flops] for each in graph.operators])
    balanced = partition(graph, seconds, k, 1e-6, PartitionRules(most_exchanging=k))
    return HybridPlan(place(balanced, k, Reach(k), None, Link(bandwidth=1e11)), balanced, k, groups)


def granted(plan: HybridPlan, kind: str) -> GroupCircuits:
    fabrics: dict[str, Fabric] = {
        "ring": WdmRing(ranks=plan.ranks),
        "ocs": CircuitSwitch(ranks=plan.ranks, degree=2 * plan.k),
        "few": CircuitSwitch(ranks=plan.ranks, degree=12),
        "switch": PacketSwitch(ranks=plan.ranks),
    }
    return grant(plan, fabrics[kind])


@pytest.mark.parametrize(("k", "groups"), [(2, 2), (8, 1), (8, 4)])
def test_shares_add_up_to_whole_operators(k: int, groups: int) -> None:
    plan = planned(k, groups)
    share = shares(plan)
    assert share.shape == (k, len(plan.balanced.operators))
    assert np.allclose(share.sum(axis=0), 1) and (share >= 0).all()
    busy = np.bincount(plan.placement.device, plan.balanced.forward + plan.balanced.backward, k)
    whole = np.bincount(plan.balanced.operator, plan.balanced.forward + plan.balanced.backward)
    assert np.allclose(share @ whole, busy)


@pytest.mark.parametrize(
    ("k", "blocks"), [(8, 24), *(pytest.param(*sizes, marks=pytest.mark.slow) for sizes in ((8, 1), (128, 6)))]
)
def test_operators_have_names_that_do_not_overlap(k: int, blocks: int) -> None:
    figure = placement_figure(planned(k, 1, blocks))
    axes = figure.axes[0]
    assert _image(axes).shape[:2] == (k, len(planned(k, 1, blocks).balanced.operators))
    boxes = _boxes(figure, axes.get_xticklabels())
    across, upwards = axes.get_xticklabels()[0], axes.get_yticklabels()[0]
    assert (across.get_rotation(), upwards.get_rotation()) == (55, 0)
    assert float(across.get_fontsize()) == 7 < float(upwards.get_fontsize())
    # Slanted alike, so they keep apart where their ends do, by more than the height of a letter.
    assert len(boxes) >= 4 and all(b.x1 - a.x1 > 9 for a, b in pairwise(boxes))
    assert all(box.x0 >= -1 and box.y0 >= -1 for box in boxes)


@pytest.mark.parametrize("kind", ["ring", "ocs", "few", "switch"])
@pytest.mark.parametrize(("k", "groups"), [(1, 2), (2, 1), (4, 3), (16, 8)])
def test_drawn_cells_are_the_traffic_of_the_first_groups(kind: str, k: int, groups: int) -> None:
    plan = planned(k, groups)
    figure = group_figure(plan, granted(plan, kind))
    traffic = plan.traffic
    sent, served = (_image(each) for each in figure.axes)
    rows, columns = sent.shape[:2]
    assert rows % k == 0 and rows <= max(k, 48)
    assert columns == min(rows + k, plan.ranks)
    assert np.array_equal(sent[..., 3] > 0, traffic.total.toarray()[:rows, :columns] > 0)
    model = traffic.model_parallel.toarray()[:rows, :columns] > 0
    data = (traffic.data_parallel.toarray()[:rows, :columns] > 0) & ~model
    for cells, colour in zip((model, data), PARALLELISM, strict=True):
        assert np.allclose(sent[cells][:, :3], to_rgb(colour))
    # Whatever is sent has a circuit drawn, or a cross.
    crosses: Any = figure.axes[1].collections[-1].get_offsets()
    crossed = {tuple(at) for at in crosses}
    without = {(float(c), float(r)) for r, c in np.argwhere((sent[..., 3] > 0) & (served[..., 3] == 0))}
    assert crossed == without
    assert bool(crossed) == (kind == "few" and k == 16)
    told = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    kinds = {"model parallel": model.any(), "data parallel": data.any(), "no circuit, relayed": bool(crossed)}
    assert told == [name for name, drawn in kinds.items() if drawn]


def test_a_thousand_ranks_stay_readable() -> None:
    source = np.arange(1024)
    matrix = np.zeros((1024, 1024))
    matrix[source, (source + 1) % 1024] = 1e6
    found = ring.assign(Traffic.of(matrix), WdmRing(ranks=1024))
    figure = assignment_figure(found, 1e9)
    assert _image(figure.axes[0]).shape[:2] == (128, 128)
    assert "8 ranks a row" in figure.axes[0].get_ylabel()


@pytest.mark.parametrize(
    "draw", ["traffic", *(pytest.param(draw, marks=pytest.mark.slow) for draw in ("placement", "pareto"))]
)
def test_equal_inputs_give_equal_bytes(draw: str) -> None:
    plan = planned(4, 2)
    points = [Point("fsdp", "here", "a $1 name", 1e-3, 5.0), Point("placed", "there", "k 8", 2e-3, 4.0)]
    first, second = (
        to_svg(
            placement_figure(plan)
            if draw == "placement"
            else group_figure(plan, granted(plan, "ring"))
            if draw == "traffic"
            else pareto_figure(points, points)
        )
        for _ in range(2)
    )
    assert first == second and "<script" not in first


points = st.builds(
    Point,
    st.sampled_from(list(KINDS)),
    st.sampled_from(["sip-ring-1024, 64 ranks", "sip-ocs-1024, 1,024 ranks"]),
    st.sampled_from(
        ["k 8 · l 8", "dp 64 · tp 2 · pp 8 · 16 micro-batches · fsdp · recomputing · ring-two-way-striped"]
    ),
    st.floats(1e-6, 10),
    st.floats(1e-3, 1e4),
)


@pytest.mark.long
@given(st.lists(points, min_size=1, max_size=40))
@settings(max_examples=15, deadline=None)
def test_names_of_the_front_keep_apart_and_inside(found: list[Point]) -> None:
    front: list[Point] = []
    for each in sorted(found, key=lambda one: (one.time, one.energy)):
        if not front or each.energy < front[-1].energy:
            front.append(each)
    figure = pareto_figure(found, front)
    axes, side = figure.axes
    boxes = sorted(_boxes(figure, side.texts), key=lambda box: -box.y0)
    assert len(boxes) == min(len(front), 10)
    assert all(above.y0 >= below.y1 - 1 for above, below in pairwise(boxes))
    wide, high = figure.get_size_inches() * figure.dpi
    assert all(box.x1 <= wide + 1 and box.y1 <= high + 1 and box.y0 >= -1 for box in boxes)
    (low, top), (left, right) = axes.get_ylim(), axes.get_xlim()
    assert all(left <= each.time <= right and low <= each.energy <= top for each in found)
    assert len(axes.get_xticks()) and len(axes.get_yticks())


@pytest.mark.parametrize(("devices", "links", "most"), [(1, 1, 16), (40, 300, 16), (3, 50, 16), (50, 2, 10)])
def test_the_busiest_lanes_are_drawn(devices: int, links: int, most: int) -> None:
    intervals = [
        Interval(resource=f"device {d}", category="forward", name="f", start=0.0, end=1e-3 * (d + 1))
        for d in range(devices)
    ]
    intervals += [
        Interval(resource=f"circuits {i}", category="transmission", name="t", start=1e-3, end=1e-3 * (i + 2))
        for i in range(links)
    ]
    timeline = Timeline.of(intervals)
    shown = busiest(timeline, most)
    assert len(shown) == min(most, devices + links)
    of_devices = [int(name.split()[1]) for name in shown if name.startswith("device")]
    assert list(shown)[: len(of_devices)] == [f"device {d}" for d in of_devices]
    assert sorted(of_devices) == list(range(devices))[-len(of_devices) :]
    assert len(of_devices) == min(devices, max(most // 2, most - links))
    of_links = [int(name.split()[1]) for name in shown if name.startswith("circuits")]
    assert of_links == list(range(links))[links - len(of_links) :]
    labels = [label.get_text() for label in timeline_figure(timeline, most).axes[0].get_yticklabels()]
    assert labels == [*shown, "waits for"]


def test_words_stand_in_stretches_that_are_wide_enough_for_them() -> None:
    """And in no others: neither in narrow ones nor where nothing happens."""
    intervals = [
        Interval(resource="device 0", category=category, name="t", start=start, end=end)
        for category, start, end in (("forward", 0.0, 0.4), ("backward", 0.6, 0.995), ("update", 0.995, 1.0))
    ]
    axes = timeline_figure(Timeline.of(intervals)).axes[0]
    words = {text.get_text(): text.get_position()[0] for text in axes.texts if text.get_position()[1] == 0}
    assert words == pytest.approx({"forward": 200.0, "backward": 797.5})


def test_lanes_of_what_computes_come_first_whatever_their_names() -> None:
    categories = {"rank 2": "forward", "rank 1 out": "transmission", "rank 0 out": "transmission", "rank 3": "forward"}
    timeline = Timeline.of(
        [Interval(resource=name, category=each, name="t", start=0.0, end=1.0) for name, each in categories.items()]
    )
    assert list(busiest(timeline, 16)) == ["rank 2", "rank 3", "rank 0 out", "rank 1 out"]


def test_the_busiest_of_those_that_only_turn_circuits_has_a_lane_before_all_that_send() -> None:
    def lane(name: str, category: str, start: float, seconds: float) -> Interval:
        return Interval(resource=name, category=category, name="t", start=start, end=start + seconds)

    lines = [lane(f"net {n}", "transmission", 0.0, 1.0 + n) for n in range(4)]
    lines += [lane("net 3", "reconfiguration", 9.0, 0.5), lane("turns 1", "reconfiguration", 9.0, 0.2)]
    lines += [lane("turns 2", "reconfiguration", 9.0, 0.1)]
    assert list(busiest(Timeline.of(lines), 3)) == ["net 2", "net 3", "turns 1"]
    assert list(busiest(Timeline.of(lines), 1)) == ["turns 1"]
    assert list(busiest(Timeline.of(lines), 6)) == [*(f"net {n}" for n in range(4)), "turns 1", "turns 2"]


def test_lanes_are_together_by_their_words_in_the_order_of_use_and_sorted_by_their_numbers() -> None:
    names = ["stage 10", "stage 2", "host 7", "link 3 to 4", "ring", "link 3 to 12", "link 1 to 2"]
    lines = [
        Interval(
            resource=name,
            category="transmission" if name[:4] in ("link", "ring") else "forward",
            name="t",
            start=float(n),
            end=n + 1.0,
        )
        for n, name in enumerate(names)
    ]
    found = list(busiest(Timeline.of(lines), 16))
    assert found == ["stage 2", "stage 10", "host 7", "link 1 to 2", "link 3 to 4", "link 3 to 12", "ring"]


def ranked(place: int, **facts: Any) -> RankingRow:
    fields: dict[str, Any] = {
        "place": place,
        "strategy": "fsdp",
        "label": "dp 64 · fsdp · ring",
        "site": "here, 64 ranks",
        "global_batch": 64,
        "step_time": 0.064 * place,
        "known_energy": 128.0,
        "energy_mark": "≥ ",
        "memory": 2.0**30,
        "on_front": place == 1,
        "breakdown": {"compute_s": 0.06 * place, "exposed_communication_s": 0.004 * place},
    }
    return RankingRow(**fields | facts)


def test_a_breakdown_is_shared_between_samples() -> None:
    row = ranked(2)
    assert sum(row.per_sample().values()) == pytest.approx(row.step_time / row.global_batch)
    assert row.samples_per_second == pytest.approx(64 / 0.128)


def _image(axes: Any) -> Any:
    """Colours drawn, shape [rows, columns, 4]."""
    return axes.images[0].get_array()


def _boxes(figure: Any, texts: Any) -> list[Any]:
    figure.draw_without_rendering()
    return [text.get_window_extent() for text in texts if text.get_text()]


def test_a_matrix_is_coloured_on_a_logarithmic_scale_of_at_most_six_decades() -> None:
    """From the palest for the least, or for a millionth of the largest, to full colour; nothing where nothing is
    sent."""
    matrix = np.zeros((6, 6))
    matrix[0, 1:] = 1.0, 1e3, 1e6, 1e7, 0.0
    found = ring.assign(Traffic.of(matrix), WdmRing(ranks=6))
    axes = assignment_figure(found, 1e9).axes[0]
    opacity = _image(axes)[0, :, 3]
    decades = np.array([0, 2, 5, 6]) / 6
    assert np.allclose(opacity, [0, *(0.2 + 0.8 * decades), 0], atol=4e-3)
    assert np.allclose(_image(axes)[0, 1:5, :3], to_rgb(PARALLELISM[0]))
    assert not _image(axes)[1:].any()
    assert _scale(axes) == [format_size(value) for value in (1e7, 1e5, 1e3, 1e1)]


@pytest.mark.parametrize(
    ("least", "low", "ticks"), [(1.0, 1.0, 4), (1e4, 1e4, 4), (2e4, 2e4, 3), (2e5, 1e5, 3), (1e6, 1e5, 3)]
)
def test_a_scale_spans_a_decade_at_least_and_has_up_to_four_ticks(least: float, low: float, ticks: int) -> None:
    matrix = np.zeros((3, 3))
    matrix[0, 1:] = least, 1e6
    axes = assignment_figure(ring.assign(Traffic.of(matrix), WdmRing(ranks=3)), 1e9).axes[0]
    assert _scale(axes) == [format_size(value) for value in np.geomspace(1e6, low, ticks).tolist()]
    palest = 0.2 + 0.8 * np.log(least / low) / np.log(1e6 / low)
    assert np.allclose(_image(axes)[0, 1:, 3], [palest, 1.0], atol=4e-3)


def test_pairs_without_a_circuit_are_crossed_out_and_a_legend_says_so() -> None:
    """Of three pairs with traffic one has a circuit; another circuit is of a pair without traffic."""
    matrix = np.zeros((4, 4))
    matrix[[0, 1, 2], [1, 2, 3]] = 1e6
    columns = [np.array(column) for column in ([0, 0], [0, 3], [1, 0], [0, 0], [0, 0])]
    traffic = Traffic.of(matrix)
    figure = assignment_figure(Assignment(traffic, Circuits(1, *columns), 1.0), 1e9)
    axes: Any = figure.axes[1]
    assert sorted(map(tuple, axes.collections[-1].get_offsets().tolist())) == [(2, 1), (3, 2)]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["no circuit, relayed"]
    assert np.argwhere(_image(axes)[..., 3]).tolist() == [[0, 1], [3, 0]]
    every = [np.array(column) for column in ([0] * 3, [0, 1, 2], [1, 2, 3], [0] * 3, [0] * 3)]
    assert not assignment_figure(Assignment(traffic, Circuits(1, *every), 1.0), 1e9).legends


@pytest.mark.parametrize(("ranks", "side"), [(4, 6.0), (40, 3.5), (120, 2**0.5)])
def test_crosses_shrink_with_the_cells(ranks: int, side: float) -> None:
    matrix = np.ones((ranks, ranks)) - np.eye(ranks)
    none = np.zeros(0, np.int64)
    bare = Assignment(Traffic.of(matrix), Circuits(1, none, none, none, none, none), 1.0)
    axes: Any = assignment_figure(bare, 1e9).axes[1]
    (crosses,) = axes.collections
    assert len(crosses.get_offsets()) == ranks * (ranks - 1)
    assert crosses.get_sizes() ** 0.5 == pytest.approx([side])


@pytest.mark.parametrize(
    ("k", "groups", "edges"), [(2, 2, [2]), (2, 9, [2, 4, 6, 8]), (16, 2, [16]), (16, 4, [16, 32, 48]), (64, 2, [64])]
)
def test_groups_of_ranks_are_parted_and_named_at_their_first(k: int, groups: int, edges: list[int]) -> None:
    """At most four groups, of 48 ranks together, or one; and what they send on to the next one."""
    plan = planned(k, groups)
    panels: list[Any] = [*group_figure(plan, granted(plan, "switch")).axes]
    for axes in panels:
        rows, columns = _image(axes).shape[:2]
        upwards = [line.get_xdata()[0] for line in axes.lines if line.get_ydata()[0] != line.get_ydata()[1]]
        across = [line.get_ydata()[0] for line in axes.lines if line.get_ydata()[0] == line.get_ydata()[1]]
        assert upwards == [edge - 0.5 for edge in edges]
        assert across == [edge - 0.5 for edge in edges if edge < rows]
        assert columns == (edges[-1] + k if groups * k == edges[-1] + k else rows + k)
        assert [*axes.images[0].get_extent()] == [-0.5, columns - 0.5, rows - 0.5, -0.5]
        for axis in (axes.xaxis, axes.yaxis):
            assert axis.get_major_locator()().tolist() == [0, *edges]


@pytest.mark.parametrize(("k", "height"), [(1, 0.5), (2, 0.6), (8, 2.4), (16, 4.6)])
def test_rows_of_devices_are_as_high_as_there_is_room(k: int, height: float) -> None:
    assert placement_figure(planned(k, 1)).get_size_inches() == pytest.approx([9.0, 1.9 + height])


def test_a_device_is_busy_forward_and_then_backward() -> None:
    plan = planned(4, 1)
    panels: list[Any] = [*placement_figure(plan).axes]
    image, load = panels
    share, balanced = shares(plan), plan.balanced
    assert np.array_equal(_image(image)[..., 3] > 0, share > 0)
    assert np.allclose(_image(image)[..., 3][share > 0], 0.22 + 0.78 * share[share > 0], atol=4e-3)
    seconds = [np.bincount(plan.placement.device, each, 4) for each in (balanced.forward, balanced.backward)]
    bars: Any = load.patches
    assert [bar.get_x() for bar in bars] == pytest.approx([0, 0, 0, 0, *(1e3 * seconds[0])])
    assert [bar.get_width() for bar in bars] == pytest.approx([*(1e3 * seconds[0]), *(1e3 * seconds[1])])
    assert load.xaxis.get_ticklines()[0].get_markersize() > 0 == load.yaxis.get_ticklines()[0].get_markersize()
    load.figure.draw_without_rendering()
    assert [any(tick.gridline.get_visible() for tick in axis.majorTicks) for axis in (load.xaxis, load.yaxis)] == [
        True, False
    ]  # fmt: skip
    assert load.get_xlim() == pytest.approx((0, 1.05e3 * sum(seconds).max()))  # type: ignore[union-attr]
    assert [label.get_text() for label in load.get_legend().get_texts()] == ["forward", "backward"]


@pytest.mark.parametrize(("count", "places"), [(22, range(22)), (23, [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22])])
def test_more_operators_than_names_are_named_by_their_blocks(count: int, places: list[int]) -> None:
    """Of two operators each: a name where a block begins, as far apart as 22 names are."""
    operators = tuple(f"layers.{n // 2}.{'ab'[n % 2]}" for n in range(count))
    at, names = _names(operators)
    assert at == list(places)
    assert names == [operators[n] if count == 22 else f"layers.{n // 2}" for n in places]


def test_names_of_blocks_keep_their_distance_and_their_ends() -> None:
    operators = tuple(f"part{n}.x" for n in range(45))
    at, names = _names(operators)
    assert at == list(range(0, 45, 3)) and names == [f"part{n}" for n in at]
    long = ("a" * 22, "b" * 23, "c$")
    assert _names(long) == ([0, 1, 2], ["a" * 22, f"…{'b' * 21}", r"c\$"])


def _scale(axes: Any) -> list[str]:
    """Words beside the colour scale of a panel, from the largest value."""
    (beside,) = axes.child_axes
    return [label.get_text() for label in beside.get_yticklabels()]
