"""Every schedule and timeline can be drawn, the same way each time, and figures are written by their suffix."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings

from lightloom.collectives.collective import OF_SIZE, Collective
from lightloom.collectives.registry import admitted, build, find
from lightloom.core.errors import ConfigError
from lightloom.core.timeline import SHARES as CATEGORIES
from lightloom.core.timeline import Interval, Timeline
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.load import kinds
from lightloom.machines.fabrics.wdm_ring import Ring
from lightloom.planning.simulation.engine import Task, run
from lightloom.reports.figures.canvas import SHARES, TASKS, cyclic_colours, save, to_svg
from lightloom.reports.figures.comparisons import breakdown_figure
from lightloom.reports.figures.links import PARTS, in_steps, wavelength_caption, wavelength_map
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
