"""Every schedule and timeline can be drawn, the same way each time, and figures are written by their suffix."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from lightloom.collectives.collective import OF_SIZE, Collective
from lightloom.collectives.registry import admitted, build, find
from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.arrays import Floats
from lightloom.core.errors import ConfigError
from lightloom.core.timeline import SHARES as CATEGORIES
from lightloom.core.timeline import Interval, Timeline
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.load import kinds
from lightloom.machines.fabrics.wdm_ring import Ring
from lightloom.planning.simulation.engine import Task, run
from lightloom.reports.figures import links
from lightloom.reports.figures.canvas import SHARES, TASKS, cyclic_colours, save, to_svg
from lightloom.reports.figures.comparisons import breakdown_figure
from lightloom.reports.figures.links import (
    PARTS,
    channel_map,
    in_steps,
    lightpaths,
    link_use,
    wavelength_caption,
    wavelength_map,
)
from lightloom.reports.figures.timelines import timeline_figure, waits
from tests.collectives.strategies import wdm_ring
from tests.simulation.test_engine import task_lists

LIKE_OTHERS = ("graph", "mesh", "ring", "switch")
"""Fabrics that are drawn as others are: as tiers, a torus or a WDM ring."""


def small(kind: str, ranks: int = 8) -> Fabric:
    fields: dict[str, dict[str, object]] = {
        "tiers": {"tiers": [{"shape": "switch", "size": 2, "bandwidth": 1e9}, {"shape": "ring", "bandwidth": 1e9}]},
        "graph": {"edges": [[rank, "hub", 1e9] for rank in range(ranks)]},
    }
    return kinds()[kind].model_validate({"ranks": ranks, **fields.get(kind, {})})


WHOLE = sorted(kinds().keys() - {"joined"})
"""Kinds that carry collectives of all their ranks."""


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.slow if kind in LIKE_OTHERS else ()) for kind in WHOLE]
)
def test_every_admitted_schedule_is_drawn(kind: str) -> None:
    """Each algorithm's for one collective, striped or not, and some algorithm's for each collective."""
    fabric, drawn = small(kind, 4), set[str]()
    for what in OF_SIZE:
        for algorithm in admitted(what, fabric):
            schedule = build(algorithm, Collective(what, 4, 1e6), fabric)
            assert f"{algorithm.name} runs" in wavelength_caption(schedule, fabric)
            family = algorithm.name.removesuffix("-striped")
            if family not in drawn or what not in drawn:
                assert wavelength_map(schedule, fabric).axes
            drawn |= {family, what}


@pytest.mark.parametrize(
    "kind",
    ["wdm-ring", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("circuit-switch", "switch", "torus"))],
)
def test_equal_schedules_give_equal_bytes(kind: str) -> None:
    fabric = small(kind, 4)
    algorithm = admitted("all-reduce", fabric)[0]
    first, second = (
        to_svg(wavelength_map(build(algorithm, Collective("all-reduce", 4, 1e6), fabric), fabric)) for _ in range(2)
    )
    assert first == second
    assert "<script" not in first
    assert "dc:date" not in first


def test_the_caption_says_what_stays_dark() -> None:
    fabric = wdm_ring(4, 2)
    schedule = build(find("ring"), Collective("reduce-scatter", 4, 4096.0), fabric)
    assert wavelength_caption(schedule, fabric) == (
        "ring runs reduce-scatter of 4 KiB among 4 ranks in 3 steps. 25% of all wavelengths on all links "
        "carry light, averaged over the steps. The counter-clockwise fibres stay dark. Colour is the rank that sends."
    )


def test_packets_without_barriers_are_drawn_over_time() -> None:
    """No link carries more than the whole schedule sends over it, and every byte is drawn in some part of the time."""
    fabric = Ring(ranks=6, bandwidth=1e9, hop_latency=1e-7)
    schedule = build(find("synthesized"), Collective("all-gather", 6, 6e4), fabric)
    assert schedule.queued
    drawn = in_steps(schedule, fabric)
    assert (drawn.steps, drawn.queued, len(drawn)) == (PARTS, False, len(schedule.unfolded(1)))
    caption = wavelength_caption(schedule, fabric)
    assert "among 6 ranks without barriers." in caption
    assert "in 24 equal parts of the time" in caption
    assert "part of the time" in to_svg(wavelength_map(schedule, fabric))


def test_bundled_circuits_count_every_plane() -> None:
    fabric = small("circuit-switch")
    collective = Collective("all-gather", 8, 4096.0)
    one, all_planes = (build(find(name), collective, fabric) for name in ("ring", "ring-striped"))
    assert "12% of the ports on all 8 switch planes" in wavelength_caption(one, fabric)
    assert "100% of the ports on all 8 switch planes" in wavelength_caption(all_planes, fabric)
    assert "step 1 of 7: 100% of ports" in to_svg(wavelength_map(all_planes, fabric))


def test_few_cells_name_their_rank_and_many_steps_get_a_heat_map() -> None:
    fabric = wdm_ring(4, 2)
    schedule = build(find("ring"), Collective("all-reduce", 4, 4096.0), fabric)
    svg = to_svg(wavelength_map(schedule, fabric))
    for text in ("step 1 of 6", "step 4 of 6", "step 6 of 6", "clockwise: 50% lit", "wavelengths lit", "source rank"):
        assert text in svg
    assert "step 2 of 6" not in svg


@settings(deadline=None, max_examples=60)
@given(tasks=task_lists())
def test_what_a_step_waits_for_is_its_breakdown(tasks: list[Task]) -> None:
    timeline = run(tasks)
    found = waits(timeline)
    for key, seconds in timeline.breakdown().items():
        drawn = sum(each.end - each.start for each in found if each.key == key)
        assert math.isclose(drawn, seconds, rel_tol=1e-9, abs_tol=1e-12)
    assert all(a.end == b.start and a.key != b.key for a, b in pairwise(found))


def test_computing_hides_the_network_and_bits_hide_changes() -> None:
    timeline = Timeline.of(
        [
            interval("forward", 0, 2),
            interval("reconfiguration", 1, 3, "network"),
            interval("transmission", 2.5, 6, "other network"),
            interval("update", 7, 8),
        ]
    )
    keys = ["compute_s", "exposed_reconfiguration_s", "exposed_communication_s", "idle_s", "compute_s"]
    assert [each.key for each in waits(timeline)] == keys
    assert [each.end for each in waits(timeline)] == [2, 2.5, 6, 7, 8]


def test_every_category_has_a_colour() -> None:
    assert set(CATEGORIES) <= set(TASKS)
    assert set(Timeline.of([]).breakdown()) == set(SHARES)
    assert len({tuple(colour) for colour in cyclic_colours(64).round(4)}) == 64


def interval(category: str, start: float, end: float, resource: str = "compute", **details: str) -> Interval:
    return Interval(resource=resource, category=category, name="x", start=start, end=end, details=details)


@pytest.mark.parametrize(
    "intervals",
    [
        [],
        [interval("forward", 0, 0)],
        [
            interval("forward", 0, 1),
            interval("backward", 1, 3),
            interval("transmission", 2, 5, "net $a$ <b>", collective="all-reduce"),
        ],
    ],
)
def test_timelines_are_drawn(intervals: list[Interval]) -> None:
    svg = to_svg(timeline_figure(Timeline.of(intervals)))
    assert "waits for" in svg
    assert ("net $a$ &lt;b&gt;" in svg) == (len(intervals) == 3)


def test_breakdown_bars_are_as_long_as_the_step() -> None:
    rows = [("a $x$ plan", {"compute_s": 2e-3, "exposed_communication_s": 1e-3}), ("b", {"compute_s": 0.0})]
    figure = breakdown_figure(rows)
    drawn = figure.axes[0].patches
    assert sum(bar.get_width() for bar in drawn) == pytest.approx(3.0)  # type: ignore[attr-defined]
    assert "3 ms" in to_svg(figure)


@pytest.mark.long
@pytest.mark.parametrize("suffix", [".svg", ".png", ".pdf", ".PNG"])
def test_figures_are_written_by_suffix(tmp_path: Path, suffix: str) -> None:
    written = [
        save(breakdown_figure([("a", {"compute_s": 1.0})]), tmp_path / f"{name}{suffix}").read_bytes() for name in "ab"
    ]
    assert written[0] == written[1]
    assert written[0].startswith({".svg": b"<?xml", ".png": b"\x89PNG", ".pdf": b"%PDF"}[suffix.lower()])


def test_another_suffix_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot draw '.*a\.gif': expected a name that ends in \.svg, \.png, \.pdf$"):
        save(breakdown_figure([]), tmp_path / "a.gif")


def test_matplotlib_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    import matplotlib

    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    # Reading the backend would choose one, through pyplot.
    names = [name for name in matplotlib.rcParams if name != "backend"]
    before = {name: matplotlib.rcParams[name] for name in names}
    to_svg(breakdown_figure([("a", {"compute_s": 1.0})]))
    assert {name: matplotlib.rcParams[name] for name in names} == before


@pytest.mark.parametrize(
    ("ranks", "wavelengths", "numbered"), [(16, 8, True), (16, 9, False), (17, 8, False), (17, 9, False), (3, 1, True)]
)
def test_small_maps_have_a_grid_and_the_rank_in_every_lit_cell(ranks: int, wavelengths: int, numbered: bool) -> None:
    fabric = wdm_ring(ranks, wavelengths)
    schedule = in_steps(build(find("ring"), Collective("all-gather", ranks, 6e4), fabric), fabric)
    axes: Any = wavelength_map(schedule, fabric).axes[0]
    lit = channel_map(lightpaths(schedule, fabric), fabric, 0)[:ranks]
    written = {tuple(map(int, text.get_position())): text.get_text() for text in axes.texts}
    cells = {(link, channel): str(lit[link, channel]) for link, channel in np.argwhere(lit >= 0).tolist()}
    assert written == (cells if numbered else {})
    lines = [segment.tolist() for grid in axes.collections for segment in grid.get_segments()]
    across = [[[-0.5, at - 0.5], [ranks - 0.5, at - 0.5]] for at in range(1, wavelengths)]
    upwards = [[[at - 0.5, -0.5], [at - 0.5, wavelengths - 0.5]] for at in range(1, ranks)]
    assert lines == ([*across, *upwards] if numbered else [])
    assert not axes.lines, "one fibre has no edge to another"


def test_maps_of_fibres_have_a_row_for_each_way_and_a_column_for_each_step_that_is_shown() -> None:
    fabric = wdm_ring(6, 2, fibres=3)
    schedule = in_steps(build(find("ring-two-way-striped"), Collective("all-reduce", 6, 6e4), fabric), fabric)
    figure = wavelength_map(schedule, fabric)
    assert schedule.steps == 6
    panels: Any = [axes for axes in figure.axes if axes.images and axes.lines]
    assert len(panels) == 2 * 3
    assert [axes.get_title() or axes.get_title("left") for axes in panels[:3]] == [f"step {n} of 6" for n in (1, 4, 6)]
    assert [axes.get_ylabel() for axes in panels] == [
        "clockwise\nwavelength, 3 fibres", "", "", "counter-clockwise\nwavelength, 3 fibres", "", ""
    ]  # fmt: skip
    assert [axes.get_xlabel() for axes in panels] == ["", "", "", "link", "link", "link"]
    colours, paths = cyclic_colours(6), lightpaths(schedule, fabric)
    for place, axes in enumerate(panels):
        assert [line.get_ydata()[0] for line in axes.lines] == [1.5, 3.5], "lines part the fibres"
        sources = channel_map(paths, fabric, (0, 3, 5)[place % 3])[place // 3 * 6 :][:6].T
        picture = np.asarray(axes.images[0].get_array())
        assert np.array_equal(picture[..., 3] > 0, sources >= 0)
        assert np.allclose(picture[sources >= 0][:, :3], colours[sources[sources >= 0]])
        assert [*axes.images[0].get_extent()] == [-0.5, 5.5, -0.5, 5.5]


def test_the_share_of_wavelengths_lit_is_averaged_over_the_steps_of_a_bin(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last bin holds fewer steps; the full colour is the largest share of either way."""
    monkeypatch.setattr(links, "_MAXIMUM_CELLS", 2 * (2 * 10 + 1))
    fabric = wdm_ring(10, 2)
    schedule = in_steps(build(find("ring-two-way"), Collective("all-gather", 10, 6e4), fabric), fabric)
    amount, per_bin = link_use(schedule, fabric)
    assert (len(amount), per_bin, schedule.steps) == (2, 3, 5)
    figure = wavelength_map(schedule, fabric)
    heats: list[Any] = [axes for axes in figure.axes if axes.images and "lit" in axes.get_title("left")]
    lit = np.stack([np.asarray(axes.images[0].get_array()) for axes in heats])
    whole, last = channel_sum(schedule, fabric, range(3)) / 3, channel_sum(schedule, fabric, range(3, 5)) / 2
    assert np.allclose(np.concatenate(lit, axis=1), np.stack([whole, last]) / fabric.channels)
    for axes, share in zip(heats, lit, strict=True):
        assert axes.images[0].get_clim() == (0, lit.max())
        assert axes.get_title("left").endswith(f": {share.mean():.0%} lit")
    assert heats[0].get_ylabel() == "step" and not heats[1].get_ylabel()


def channel_sum(schedule: Schedule, fabric: Fabric, steps: Iterable[int]) -> Floats:
    """Lit channels of each link, added up over steps."""
    paths = lightpaths(schedule, fabric)
    lit: Floats = np.sum([(channel_map(paths, fabric, step) >= 0).sum(axis=1) for step in steps], axis=0).astype(float)
    return lit
