"""Maps of links, circuits and wavelengths hold their schedules: cells, colours, titles and what is left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex

from lightloom.collectives.collective import Collective, Kind
from lightloom.collectives.cost.price import play
from lightloom.collectives.registry import build, find
from lightloom.collectives.schedule.columns import Schedule
from lightloom.machines.fabrics.derived import Footprint
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.load import load_fabric
from lightloom.machines.fabrics.switches import CircuitSwitch
from lightloom.machines.fabrics.wdm_ring import Ring
from lightloom.reports.figures import links
from lightloom.reports.figures.canvas import FAINT, INK, cyclic_colours
from lightloom.reports.figures.links import (
    PARTS,
    Lightpaths,
    channel_map,
    circuit_map,
    downsampled,
    in_steps,
    lightpaths,
    link_load_map,
    link_use,
    shared_links_figure,
    utilisation,
    wavelength_caption,
    wavelength_map,
)
from tests.collectives.strategies import wdm_ring
from tests.reports.artists import bars, dots, fills, hidden, notes, points, segments, strokes, ticks, told


def rows_of(kind: Kind, ranks: int, *rows: tuple[int, ...], steps: int = 1) -> Schedule:
    """A schedule of rows: (step, lightpath, source, destination, route, fibre, first wavelength, wavelengths)."""
    columns = np.array(rows, np.int64).reshape(-1, 8).T
    names = ("step", "lightpath", "source", "destination", "route", "fibre", "first_wavelength", "wavelength_count")
    found: dict[str, Any] = dict(zip(names, columns, strict=True))
    return Schedule(
        algorithm="by hand",
        collective=Collective(kind, ranks, 8.0 * ranks),
        chunks=ranks,
        steps=steps,
        chunk=columns[2],
        reduces=np.zeros(len(columns[0])),
        **found,
    )


TWO_FIBRES = wdm_ring(4, 2, fibres=2)
"""Links 0 to 3 are clockwise, 4 to 7 the other way; link 4 leads from rank 1 to rank 0."""
SMALL = rows_of(
    "all-gather",
    4,
    (0, 0, 3, 1, 0, 1, 0, 2),
    (0, 1, 1, 2, 0, 0, 1, 1),
    (1, 2, 0, 2, 1, 0, 0, 1),
    steps=2,
)


def test_lightpaths_count_their_channels_through_all_fibres() -> None:
    paths = lightpaths(SMALL, TWO_FIBRES)
    assert paths.channel.tolist() == [2, 1, 0] and paths.count.tolist() == [2, 1, 1]
    assert paths.hops.tolist() == [2, 1, 2] and paths.step.tolist() == [0, 0, 1]
    assert (paths.source.tolist(), paths.destination.tolist()) == ([3, 1, 0], [1, 2, 2])
    assert paths.route.tolist() == [0, 0, 1] and paths.cells == 2 * 2 + 1 + 2
    assert paths.of_step(1).source.tolist() == [0] and paths.of_step(0).cells == 5 and paths.of_step(2).cells == 0
    assert utilisation(paths, 2, TWO_FIBRES) == 7 / (2 * 8 * 4) and utilisation(paths, 0, TWO_FIBRES) == 7 / 32


def test_the_lightpaths_of_a_multicast_are_those_of_the_farthest() -> None:
    fabric = wdm_ring(6, 2, multicast_taps=3)
    rows = [(0, path, source, to, 0, 0, path, 1) for path, source, to in ((1, 4, 0), (0, 1, 2), (1, 4, 5), (0, 1, 5))]
    paths = lightpaths(rows_of("all-gather", 6, *rows), fabric)
    assert (paths.source.tolist(), paths.destination.tolist(), paths.hops.tolist()) == ([1, 4], [5, 0], [4, 2])


def test_a_schedule_without_rows_lights_nothing() -> None:
    paths = lightpaths(rows_of("all-gather", 4), TWO_FIBRES)
    assert len(paths.step) == 0 == paths.cells
    assert (channel_map(paths, TWO_FIBRES, 0) == -1).all()


def test_light_is_on_the_channels_and_links_of_its_path() -> None:
    paths = lightpaths(SMALL, TWO_FIBRES)
    first = np.full((8, 4), -1)
    first[[3, 0], 2:] = 3
    first[1, 1] = 1
    assert channel_map(paths, TWO_FIBRES, 0).tolist() == first.tolist()
    second = np.full((8, 4), -1)
    second[4 + 3, 0] = second[4 + 2, 0] = 0
    assert channel_map(paths, TWO_FIBRES, 1).tolist() == second.tolist()


def test_use_is_added_up_in_bins_of_equal_steps() -> None:
    use, per_bin = link_use(SMALL, TWO_FIBRES)
    assert per_bin == 1 and use.tolist() == [[2, 1, 0, 2, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 1, 1]]
    whole, per_bin = link_use(SMALL, TWO_FIBRES, 1)
    assert per_bin == 2 and whole.tolist() == [[2, 1, 0, 2, 0, 0, 1, 1]]


@pytest.mark.parametrize(
    ("bins", "shape", "per_bin"), [(5, 5, 1), (4, 3, 2), (3, 3, 2), (2, 2, 3), (1, 1, 5), (9, 5, 1)]
)
def test_bins_are_as_many_as_asked_for_at_most(bins: int, shape: int, per_bin: int) -> None:
    rows = [(step, step, 0, 1, 0, 0, 0, 1) for step in range(5)]
    use, steps = link_use(rows_of("all-gather", 4, *rows, steps=5), TWO_FIBRES, bins)
    assert (len(use), steps) == (shape, per_bin) and use[:, 0].sum() == 5 and not use[:, 1:].any()


def test_bytes_of_packets_are_those_of_their_chunks() -> None:
    fabric = load_fabric("ring", 4)
    schedule = in_steps(build(find("ring"), Collective("all-gather", 4, 4e6), fabric), fabric)
    use, _ = link_use(schedule, fabric)
    assert set(use.ravel().tolist()) == {0.0, schedule.chunk_nbytes}
    assert (use.sum(axis=1) == 4 * schedule.chunk_nbytes).all()


@pytest.mark.parametrize(("bins", "rows"), [(2, 2), (1, 1)])
def test_bytes_of_packets_are_added_up_in_bins(bins: int, rows: int) -> None:
    fabric = load_fabric("ring", 4)
    schedule = in_steps(build(find("ring"), Collective("all-gather", 4, 4e6), fabric), fabric)
    single, _ = link_use(schedule, fabric)
    use, per_bin = link_use(schedule, fabric, bins)
    assert (len(use), per_bin) == (rows, -(-3 // bins))
    added = [single[first : first + per_bin].sum(axis=0) for first in range(0, 3, per_bin)]
    assert use.tolist() == [each.tolist() for each in added]


def test_bins_are_fewer_where_there_are_many_links(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(step, step, 0, 1, 0, 0, 0, 1) for step in range(5)]
    schedule = rows_of("all-gather", 4, *rows, steps=5)
    for cells, bins in ((9 * 5, 5), (9 * 3 + 8, 3), (9 * 2, 2), (9, 1), (3, 1)):
        monkeypatch.setattr(links, "_MAXIMUM_CELLS", cells)
        assert len(link_use(schedule, TWO_FIBRES)[0]) == bins


def test_runs_that_wrap_go_on_at_the_beginning_of_their_track() -> None:
    track = Footprint.of([(np.array([0, 4, 0]), np.array([2, 7, 5]), np.array([3, 1, 1]), 4)])
    found = [[(run, first.tolist(), end.tolist())] for run, first, end in links._link_runs(track)]
    assert found == [[(0, [2, 7, 1], [4, 8, 2])], [(0, [0, 4, 0], [1, 4, 0])]]
    change = np.zeros((2, 9))
    links._enter_and_leave(change, track, np.array([0, 1, 1]), np.array([1.0, 2.0, 4.0]))
    load = change.cumsum(axis=1)
    assert load.tolist() == [[1, 0, 1, 1, 0, 0, 0, 0, 0], [0, 4, 0, 0, 0, 0, 0, 2, 0]]
    links._enter_and_leave(change, track, np.array([0, 1, 1]), 1)
    assert change.cumsum(axis=1).sum() == 3 + 6 + 5


def test_blocks_of_rows_cover_all_of_them() -> None:
    size = links._BLOCK
    assert links._row_blocks(0) == [] and links._row_blocks(1) == [slice(0, size)]
    assert links._row_blocks(size) == [slice(0, size)]
    assert links._row_blocks(size + 1) == [slice(0, size), slice(size, 2 * size)]


def test_averages_over_neighbouring_links_keep_the_sum() -> None:
    amount = np.array([[1.0, 3.0, 5.0, 7.0, 9.0, 11.0, 13.0]])
    assert downsampled(amount, 7).tolist() == amount.tolist() == downsampled(amount, 8).tolist()
    assert downsampled(amount, 6).tolist() == [[2, 6, 10, 13]] and downsampled(amount, 1).tolist() == [[7]]
    assert downsampled(amount, 3).tolist() == [[3, 9, 13]]


def test_queued_packets_lie_in_the_part_of_the_time_in_which_they_begin() -> None:
    fabric = Ring(ranks=6, bandwidth=1e9, hop_latency=1e-7)
    schedule = build(find("synthesized"), Collective("all-gather", 6, 6e4), fabric)
    assert schedule.queued
    parts = in_steps(schedule, fabric)
    assert (parts.steps, parts.queued, PARTS) == (24, False, 24)
    seconds, _, begin = play(schedule.unfolded(1), fabric)
    step = parts.step
    assert (24 * begin >= step * seconds * (1 - 1e-12)).all() and (24 * begin < (step + 1) * seconds).all()
    assert step[begin == 0].tolist() == [0] * int((begin == 0).sum()) and 1 < step.max() < 24
    whole = in_steps(SMALL, TWO_FIBRES)
    assert whole.steps == 2 and not whole.queued and len(whole) == 3


def test_queued_packets_that_take_no_time_lie_in_the_first_part(monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = Ring(ranks=6, bandwidth=1e9, hop_latency=1e-7)
    schedule = build(find("synthesized"), Collective("all-gather", 6, 6e4), fabric)
    count = len(schedule.unfolded(1))
    for seconds, begin, part in ((0.0, 0.0, 0), (1.0, 1.0, 23), (1.0, 0.5, 12), (2.0, 0.5, 6)):
        played = seconds, None, np.full(count, begin)
        monkeypatch.setattr(links, "play", lambda *_, played=played: played)
        assert set(in_steps(schedule, fabric).step.tolist()) == {part}


def load_figure(ranks: int = 4) -> tuple[Any, Any, Schedule, Fabric]:
    fabric = load_fabric("ring", ranks)
    schedule = in_steps(build(find("ring"), Collective("all-gather", ranks, 4e6), fabric), fabric)
    figure = link_load_map(schedule, fabric)
    return figure, figure.axes[0], schedule, fabric


@pytest.mark.parametrize(("ranks", "height"), [(2, 1.8), (3, 1.84), (8, 1.4 + 0.22 * 7), (30, 4.2)])
def test_maps_of_loads_are_as_high_as_their_steps_in_bounds(ranks: int, height: float) -> None:
    figure, axes, schedule, _ = load_figure(ranks)
    assert schedule.steps == ranks - 1
    assert figure.get_size_inches().tolist() == pytest.approx([9.0, height])
    assert axes.get_ylabel() == "step" and figure.axes[1].get_ylabel() == "load"


def test_maps_of_loads_name_their_ends_and_are_coloured_by_the_share_of_the_largest() -> None:
    figure, axes, schedule, fabric = load_figure()
    use, _ = link_use(schedule, fabric)
    (image,) = axes.images
    assert image.get_array().tolist() == (use / use.max()).tolist() and image.get_clim() == (0, 1)
    assert [float(part) for part in image.get_cmap()(1.0)] == pytest.approx([0.86, 0.47, 0.1, 1.0])
    assert float(image.get_cmap()(0.0)[3]) == pytest.approx(0.03) and image.get_interpolation() == "none"
    last = fabric.links - 1
    assert axes.get_xlabel() == f"link (0: {fabric.link_name(0)}, {last}: {fabric.link_name(last)})"
    assert axes.get_aspect() == "auto"
    assert [axis.get_major_locator()._nbins for axis in (axes.xaxis, axes.yaxis)] == [8, 5]
    bar = figure.axes[1]
    assert bar._colorbar_info["aspect"] == 20 and bar._colorbar_info["parents"] == [axes]


def test_many_links_are_drawn_as_averages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "_MAXIMUM_COLUMNS", 3)
    figure, axes, schedule, fabric = load_figure()
    use, _ = link_use(schedule, fabric)
    mean = downsampled(use, 3)
    assert axes.images[0].get_array().tolist() == (mean / mean.max()).tolist()
    assert figure.get_suptitle().endswith(f"mean load {mean.mean() / mean.max():.0%} of the largest")


def test_nothing_sent_is_no_load() -> None:
    fabric = load_fabric("ring", 4)
    schedule = in_steps(build(find("ring"), Collective("all-gather", 4, 0.0), fabric), fabric)
    figure = link_load_map(schedule, fabric)
    image = figure.axes[0].images[0].get_array()
    assert image is not None and not image.any() and "mean load 0% of" in figure.get_suptitle()


def switched(ranks: int = 4, degree: int = 2, algorithm: str = "ring") -> tuple[Schedule, Fabric]:
    fabric = CircuitSwitch(ranks=ranks, degree=degree)
    return in_steps(build(find(algorithm), Collective("all-gather", ranks, 4e6), fabric), fabric), fabric


@pytest.mark.parametrize(("ranks", "side"), [(4, 10), (15, 10), (30, 5), (125, 1.2), (150, 1.2)])
def test_squares_of_circuits_shrink_with_the_ranks(ranks: int, side: float) -> None:
    schedule, fabric = switched(ranks)
    axes = circuit_map(schedule, fabric).axes[0]
    (squares,) = axes.collections
    assert float(squares.get_sizes()[0]) == pytest.approx(side**2)  # type: ignore[attr-defined]
    assert not squares.get_rasterized() and squares.get_linewidths().tolist() == [0]  # type: ignore[attr-defined]


def test_circuits_have_the_colour_of_their_plane() -> None:
    rows = [(0, 0, 0, 1, 0, 0, 0, 1), (0, 1, 1, 3, 0, 0, 1, 1), (0, 2, 2, 3, 0, 0, 0, 2)]
    fabric = CircuitSwitch(ranks=4, degree=2)
    figure = circuit_map(rows_of("all-gather", 4, *rows), fabric)
    axes, bar = figure.axes
    (squares,) = axes.collections
    assert dots(squares) == [(1, 0), (3, 1), (3, 2)]
    assert np.allclose(np.asarray(squares.get_facecolor())[:, :3], cyclic_colours(2)[[0, 1, 0]])
    assert axes.get_title("left") == "step 1 of 1: 50% of ports"
    assert figure.get_size_inches().tolist() == [9, 3.5] and bar.get_ylabel() == "switch plane"
    assert (axes.get_xlim(), axes.get_ylim()) == ((-0.7, 3.7), (3.7, -0.7))
    assert figure.get_suptitle() == "by hand: all-gather among 4 ranks on 2 switch planes"
    assert axes.get_box_aspect() == 1 and (axes.get_xlabel(), axes.get_ylabel()) == ("destination rank", "source rank")
    assert [axis.get_major_locator()._nbins for axis in (axes.xaxis, axes.yaxis)] == [5, 5]  # type: ignore[attr-defined]
    assert bar._colorbar_info["aspect"] == 20  # type: ignore[attr-defined]


@pytest.mark.parametrize(("ranks", "many"), [(2000, False), (2001, True)])
def test_thousands_of_squares_are_one_picture(ranks: int, many: bool) -> None:
    rank = np.arange(ranks)
    zero = np.zeros(ranks, np.int64)
    rows = np.stack([zero, rank, rank, (rank + 1) % ranks, zero, zero, zero, zero + 1], axis=1)
    figure = circuit_map(rows_of("all-gather", ranks, *map(tuple, rows.tolist())), CircuitSwitch(ranks=ranks, degree=2))
    assert figure.axes[0].collections[0].get_rasterized() is many


def test_only_the_first_panel_of_circuits_names_the_sources() -> None:
    schedule, fabric = switched(8)
    figure = circuit_map(schedule, fabric)
    assert [axes.get_ylabel() for axes in figure.axes] == ["source rank", "", "", "switch plane"]
    assert [axes.get_title("left")[:11] for axes in figure.axes[:3]] == ["step 1 of 7", "step 4 of 7", "step 7 of 7"]
    assert all(axes.get_xlabel() == "destination rank" for axes in figure.axes[:3])


def test_the_map_of_a_fabric_is_of_its_kind() -> None:
    schedule, fabric = switched()
    assert wavelength_map(schedule, fabric).axes[0].get_xlabel() == "destination rank"
    assert wavelength_map(SMALL, TWO_FIBRES).axes[0].get_ylabel() == "clockwise\nwavelength, 2 fibres"
    packets = load_fabric("ring", 4)
    sent = build(find("ring"), Collective("all-gather", 4, 4e6), packets)
    assert wavelength_map(sent, packets).axes[0].get_ylabel() == "step"
    queued = build(find("synthesized"), Collective("all-gather", 4, 4e6), packets)
    assert wavelength_map(queued, packets).axes[0].get_ylabel() == "part of the time"


def test_captions_say_what_colour_means_on_each_fabric() -> None:
    packets = load_fabric("ring", 4)
    sent = build(find("ring"), Collective("all-gather", 4, 4096.0), packets)
    ending = "Colour: bytes on each link in each step, as a share of the most on any."
    assert wavelength_caption(sent, packets) == f"ring runs all-gather of 4 KiB among 4 ranks in 3 steps. {ending}"
    assert wavelength_caption(SMALL, TWO_FIBRES) == (
        "by hand runs all-gather of 32 B among 4 ranks in 2 steps. 11% of all wavelengths on all links carry light, "
        "averaged over the steps. Colour is the rank that sends."
    )
    way = rows_of("all-gather", 4, (0, 0, 0, 2, 1, 0, 0, 1))
    assert "in 1 step. " in wavelength_caption(way, TWO_FIBRES)
    assert " The clockwise fibres stay dark. Colour" in wavelength_caption(way, TWO_FIBRES)
    rows = [(0, 0, 0, 1, 0, 0, 0, 1), (0, 1, 1, 3, 0, 0, 1, 1), (1, 2, 2, 3, 0, 0, 0, 2)]
    circuits = rows_of("all-gather", 4, *rows, steps=2)
    fabric = CircuitSwitch(ranks=4, degree=2)
    assert "25% of the ports on all 2 switch planes" in wavelength_caption(circuits, fabric)


def test_captions_of_queued_schedules_say_what_stands() -> None:
    fabric = Ring(ranks=6, bandwidth=1e9, hop_latency=1e-7)
    schedule = build(find("synthesized"), Collective("all-gather", 6, 6e4), fabric)
    assert wavelength_caption(schedule, fabric).split(". ", 1)[1] == (
        "Colour: bytes on each link in 24 equal parts of the time, as a share of the most on any."
    )
    light = wdm_ring(6, 4)
    kept = [
        schedule
        for each in ("synthesized", "ring")
        for schedule in [build(find(each), Collective("all-gather", 6, 6e4), light)]
        if schedule.queued
    ]
    assert all("among 6 ranks on circuits that stand throughout. " in wavelength_caption(each, light) for each in kept)


def ring_figure(schedule: Schedule = SMALL, fabric: Fabric = TWO_FIBRES) -> tuple[Any, list[Any]]:
    figure = wavelength_map(schedule, fabric)
    return figure, [axes for axes in figure.axes if axes.images]


def test_small_maps_of_wavelengths_are_ruled_and_numbered() -> None:
    figure, panels = ring_figure()
    assert len(panels) == 4 and figure.get_suptitle() == (
        "by hand: all-gather among 4 ranks, 11% of the wavelengths lit"
    )
    first, second, third, fourth = panels
    numbers = sorted((each[:3] for each in notes(first)), key=lambda each: each[1:])
    assert numbers == [("3", 0, 2), ("3", 0, 3), ("1", 1, 1), ("3", 3, 2), ("3", 3, 3)]
    assert not notes(second) and not notes(third)
    assert sorted(each[:3] for each in notes(fourth)) == [("0", 2, 0), ("0", 3, 0)]
    assert {each[3:] for each in notes(first)} == {("center", "center", 7)}
    assert {text.get_color() for text in first.texts} == {"#10151d"}
    for axes in panels:
        assert points(axes) == [[(0, 1.5), (1, 1.5)]] and strokes(axes)[0][:2] == (INK, 0.8)
        across, upwards = axes.collections
        assert segments(across) == [[(-0.5, at), (3.5, at)] for at in (0.5, 1.5, 2.5)]
        assert segments(upwards) == [[(at, -0.5), (at, 3.5)] for at in (0.5, 1.5, 2.5)]
        assert {float(each.get_linewidth()[0]) for each in axes.collections} == {0.4}
        image = axes.images[0]
        assert [*image.get_extent()] == [-0.5, 3.5, -0.5, 3.5] and image.origin == "lower"
        assert image.get_interpolation() == "none" and axes.get_aspect() == "auto"
    picture = np.asarray(first.images[0].get_array())
    assert np.array_equal(picture[..., 3], channel_map(lightpaths(SMALL, TWO_FIBRES), TWO_FIBRES, 0)[:4].T >= 0)
    assert np.allclose(picture[2, 0, :3], cyclic_colours(4)[3]) and not picture[0].any()
    assert [axes.get_title("left") for axes in panels] == ["step 1 of 2", "step 2 of 2", "", ""]
    assert [axes.get_xlabel() for axes in panels] == ["", "", "link", "link"]
    nbins = [[getattr(axis.get_major_locator(), "_nbins", 0) for axis in (axes.xaxis, axes.yaxis)] for axes in panels]
    assert nbins[2] == [5, 4]
    assert [axes.get_ylabel() for axes in panels] == [
        "clockwise\nwavelength, 2 fibres",
        "",
        "counter-clockwise\nwavelength, 2 fibres",
        "",
    ]
    bar = figure.axes[-1]
    assert bar.get_ylabel() == "source rank" and bar._colorbar_info["aspect"] == 25
    assert bar._colorbar_info["parents"] == panels and bar.get_ylim() == (-0.5, 3.5)


@pytest.mark.parametrize(
    ("ranks", "wavelengths", "ruled"), [(16, 8, True), (17, 8, False), (16, 9, False), (16, 7, True), (15, 8, True)]
)
def test_only_small_maps_are_ruled(ranks: int, wavelengths: int, ruled: bool) -> None:
    fabric = wdm_ring(ranks, wavelengths)
    _, panels = ring_figure(rows_of("all-gather", ranks, (0, 0, 0, 3, 0, 0, 0, 1)), fabric)
    (axes,) = panels
    assert len(axes.collections) == 2 * ruled and len(axes.texts) == 3 * ruled and not axes.lines
    assert axes.get_ylabel() == "clockwise\nwavelength"


@pytest.mark.parametrize(("wavelengths", "each"), [(1, 1.1), (6, 1.1), (7, 1.12), (13, 2.08), (14, 2.1), (40, 2.1)])
def test_panels_are_as_high_as_their_wavelengths_in_bounds(wavelengths: int, each: float) -> None:
    one, two = (
        rows_of("all-gather", 4, *rows)
        for rows in ([(0, 0, 0, 1, 0, 0, 0, 1)], [(0, 0, 0, 1, 0, 0, 0, 1), (0, 1, 0, 3, 1, 0, 0, 1)])
    )
    fabric = wdm_ring(4, wavelengths)
    assert ring_figure(one, fabric)[0].get_size_inches().tolist() == pytest.approx([9, 0.95 + each])
    assert ring_figure(two, fabric)[0].get_size_inches().tolist() == pytest.approx([9, 0.95 + 2 * each])


def many_steps(steps: int, way: int = 0) -> Schedule:
    """A wavelength on one link in the first step, two on the others' one."""
    rows = [(step, step, 1, 2 if way == 0 else 0, way, 0, 0, 1 + (step > 0)) for step in range(steps)]
    return rows_of("all-gather", 4, *rows, steps=steps)


@pytest.mark.parametrize(("steps", "below"), [(4, False), (5, True)])
def test_steps_that_are_left_out_are_in_a_map_below(steps: int, below: bool) -> None:
    fabric = wdm_ring(4, 2)
    figure, panels = ring_figure(many_steps(steps), fabric)
    assert len(panels) == (4 if not below else 3 + 1)
    assert figure.get_size_inches()[1] == pytest.approx(0.95 + 1.1 + 2.1 * below)
    assert len(figure.subfigs) == 2 * below
    if below:
        heat = panels[-1]
        assert heat.images[0].get_array().tolist() == [[0, 0.5, 0, 0], *[[0, 1, 0, 0]] * 4]
        assert heat.images[0].get_clim() == (0, 1) and [*heat.images[0].get_extent()] == [-0.5, 3.5, 5.5, 0.5]
        assert heat.get_title("left") == f"clockwise: {4.5 / 20:.0%} lit"
        assert (heat.get_xlabel(), heat.get_ylabel()) == ("link", "step")
        assert [axis.get_major_locator()._nbins for axis in (heat.xaxis, heat.yaxis)] == [5, 5]
        assert [axes.get_ylabel() for axes in figure.axes if axes.get_ylabel().endswith("lit")] == ["wavelengths lit"]
        upper, lower = figure.subfigs
        assert upper.get_suptitle().startswith("by hand: all-gather among 4 ranks, ") and not lower.get_suptitle()
        assert upper.bbox.height / lower.bbox.height == pytest.approx((0.7 + 1.1) / 2.1)


def test_the_other_way_alone_has_its_own_row_and_half_of_the_links() -> None:
    _, panels = ring_figure(many_steps(5, way=1), wdm_ring(4, 2))
    assert panels[0].get_ylabel() == "counter-clockwise\nwavelength" and len(panels) == 4
    assert panels[-1].images[0].get_array()[1].tolist() == [1, 0, 0, 0]
    assert panels[-1].get_title("left").startswith("counter-clockwise: ")
    assert [(text, x, y) for text, x, y, *_ in notes(panels[0])] == [("1", 0, 0)]


def test_both_ways_have_a_map_of_the_shares_below_each_with_bins_of_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five steps in bins of two: the last bin is of one step alone. The full colour is the largest share of both."""
    monkeypatch.setattr(links, "_MAXIMUM_CELLS", 3 * 9)
    rows = [(step, step, 1, 2, 0, 0, 0, 2) for step in range(5)]
    rows += [(step, 5 + step, 1, 0, 1, 0, 0, 1) for step in (0, 4)]
    figure, panels = ring_figure(rows_of("all-gather", 4, *rows, steps=5), wdm_ring(4, 4))
    first, second = panels[-2:]
    assert first.images[0].get_array().tolist() == [[0, 0.5, 0, 0]] * 3
    assert second.images[0].get_array().tolist() == [[0.125, 0, 0, 0], [0] * 4, [0.25, 0, 0, 0]]
    assert first.images[0].get_clim() == second.images[0].get_clim() == (0, 0.5)
    assert [axes.get_title("left") for axes in (first, second)] == ["clockwise: 12% lit", "counter-clockwise: 3% lit"]
    assert [axes.get_ylabel() for axes in (first, second)] == ["step", ""]
    assert [axes.get_xlabel() for axes in (first, second)] == ["link", "link"]
    lower = figure.subfigs[1]
    assert [axes for axes in lower.axes if axes.images] == [first, second]
    bar = lower.axes[-1]
    assert bar.get_ylabel() == "wavelengths lit" and bar._colorbar_info["aspect"] == 25
    assert bar._colorbar_info["parents"] == [first, second] and len(lower.axes) == 3


def test_a_ring_without_light_has_a_dark_clockwise_panel() -> None:
    figure, panels = ring_figure(rows_of("all-gather", 4, steps=5), wdm_ring(4, 2))
    assert len(panels) == 4 and panels[0].get_ylabel() == "clockwise\nwavelength"
    assert not any(np.asarray(axes.images[0].get_array()).any() for axes in panels)
    assert "0% of the wavelengths lit" in figure.subfigs[0].get_suptitle() and panels[-1].images[0].get_clim() == (0, 1)


def test_ticks_of_maps_are_few() -> None:
    _, panels = ring_figure()
    nbins = [[axis.get_major_locator()._nbins for axis in (axes.xaxis, axes.yaxis)] for axes in panels]
    assert nbins[2] == [5, 4]


def test_jobs_share_links_in_stacked_bars() -> None:
    loads = np.array([[0.25, 0.0, 0.5], [0.5, 0.0, 0.75]])
    figure = shared_links_figure("title", ["a", "b"], loads, ["x", "y", "z"], "% of")
    (axes,) = figure.axes
    assert bars(axes) == [
        (-0.43, 0, 0.86, 25),
        (0.57, 0, 0.86, 50),
        (-0.43, 25, 0.86, 50),
        (0.57, 50, 0.86, 75),
    ]
    colours = fills(axes)
    assert colours[0] == colours[1] != colours[2] == colours[3]
    assert points(axes) == [[(0, 100), (1, 100)]] and strokes(axes)[0][:3] == (FAINT, 0.8, "--")
    assert axes.get_xlim() == (-0.6, 1.6) and axes.get_ylim() == pytest.approx((0, 130))
    assert ticks(axes.xaxis) == [(0, "x"), (1, "z")]
    assert {(label.get_rotation(), label.get_fontsize()) for label in axes.get_xticklabels()} == {(90, 5.5)}
    legend: Any = axes.get_legend()
    assert told(legend) == ["a", "b"] and legend._ncols == 2 and not legend.get_frame_on()
    corner = legend.get_bbox_to_anchor()._bbox
    assert (corner.x0, corner.y0, legend._loc) == (0, 1.12, 2) and legend.get_texts()[0].get_fontsize() == 7
    assert hidden(axes) == {"top", "right"} and figure.get_size_inches().tolist() == [9, 3.6]
    assert figure.get_suptitle() == "title" and axes.get_ylabel() == "% of"


def test_jobs_that_load_no_link_leave_the_panel_empty() -> None:
    figure = shared_links_figure("t", ["a"], np.zeros((1, 3)), ["x", "y", "z"], "%")
    (axes,) = figure.axes
    assert axes.get_xlim() == (-0.6, 0.6) and axes.get_ylim() == (0, 108) and not axes.patches
    assert figure.get_suptitle() == "t"


def test_a_job_alone_has_another_colour_than_the_first_of_one() -> None:
    (axes,) = shared_links_figure("t", ["a"], np.ones((1, 1)), ["x"], "%").axes
    assert fills(axes) == [to_hex(cyclic_colours(2)[0])]


@pytest.mark.parametrize(
    ("loaded", "more"), [(48, ""), (49, "; 1 more links carry as much or less, not drawn"), (0, "")]
)
def test_links_that_are_left_out_are_counted_but_those_that_carry_nothing(loaded: int, more: str) -> None:
    loads = np.zeros((1, 60))
    loads[0, :loaded] = 0.5
    figure = shared_links_figure("t", ["a"], loads, ["x"] * 60, "%")
    assert figure.get_suptitle() == f"t{more}" and figure.axes[0].get_legend()._ncols == 1  # type: ignore[union-attr]


@pytest.mark.parametrize(("most", "top"), [(0.5, 108), (1.03, 108), (1.05, 109.2)])
def test_the_axis_of_shares_reaches_beyond_all_of_a_link(most: float, top: float) -> None:
    (axes,) = shared_links_figure("t", ["a"], np.array([[most]]), ["x"], "%").axes
    assert axes.get_ylim() == pytest.approx((0, top)) and axes.get_xlim() == (-0.6, 0.6)


def test_links_of_several_jobs_come_before_fuller_ones_of_one() -> None:
    loads = np.zeros((2, 60))
    loads[0] = np.linspace(0.5, 0.9, 60)
    loads[1, 0] = loads[1, 7] = 0.01
    figure = shared_links_figure("t", ["a", "b"], loads, [str(link) for link in range(60)], "%")
    assert [int(label) for _, label in ticks(figure.axes[0].xaxis)] == [0, 7, *range(14, 60)]
    assert figure.get_suptitle() == "t; 12 more links carry as much or less, not drawn"


def test_lightpaths_are_chosen_by_their_step() -> None:
    column = np.arange(3)
    paths = Lightpaths(column, column + 1, column + 2, column, column, column + 1, column)
    chosen = paths.of_step(1)
    assert [getattr(chosen, name).tolist() for name in Lightpaths.__slots__] == [[1], [2], [3], [1], [1], [2], [1]]
    assert paths.cells == 0 + 2 + 6
