"""Real pages in a real browser: they fit a desktop and a phone; a reader sorts, filters, picks and zooms offline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lightloom.collectives.collective import Collective
from lightloom.collectives.registry import algorithms, build
from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.timeline import Interval, Timeline
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.load import load_fabric
from lightloom.reports.html import draws, write
from lightloom.reports.report import Report, explored_plan, light_map
from tests.reports.browser import CHROMIUM, Browser
from tests.reports.samples import HOSTILE, sample_report

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium to look at the pages"),
    pytest.mark.skipif(not draws(), reason="needs Bokeh, the extra report"),
]
_LANES = "Bokeh.documents.flatMap(d => d.roots()).find(r => r.name === 'timeline')"


def timeline(scale: float) -> Timeline:
    """A step of two resources."""
    tasks = [
        ("compute", "forward", "first forward", 0.0, 2.0),
        ("compute", "backward", f"{HOSTILE} backward", 2.0, 6.0),
    ]
    tasks += [
        ("network", "transmission", "all-reduce bucket 0", 4.0, 7.0),
        ("compute", "update", "optimizer", 7.0, 8.0),
    ]
    return Timeline.of(
        Interval(resource=resource, category=category, name=name, start=start * scale, end=end * scale)
        for resource, category, name, start, end in tasks
    )


def optree() -> tuple[Schedule, Fabric]:
    """OpTree's all-gather of 16 ranks on two wavelengths."""
    fabric = load_fabric("wdm-ring", 16, set={"wavelengths": 2})
    return build(algorithms()["optree"], Collective("all-gather", 16, 2**20), fabric), fabric


def explored_report() -> Report:
    """A report whose first two plans may be looked into, with the wavelengths of a schedule."""
    rows = [replace(row, place=place) for place, row in enumerate(sample_report().ranking, start=1)]
    plans = {place: explored_plan(timeline(place * 1e-3), f"plan {place}", {"weights": 3e9}, 8e9) for place in (1, 2)}
    return replace(sample_report(), ranking=tuple(rows), explored=plans, light=light_map(*optree()))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(explored_report(), tmp_path_factory.mktemp("page") / "report.html")


@pytest.fixture(scope="module")
def desktop(page: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("desktop")) as browser:
        browser.open(page)
        browser.wait(f"{_LANES} !== undefined && document.querySelector('#explored-timeline > *') !== null")
        yield browser


@pytest.mark.long
def test_a_page_fits_a_phone(page: Path, tmp_path: Path) -> None:
    with Browser(tmp_path, width=390) as phone:
        phone.open(page)
        phone.wait(f"{_LANES} !== undefined")
        assert phone.run("document.documentElement.scrollWidth") <= 390
        assert phone.run("document.documentElement.scrollHeight") > 900
        assert not phone.errors


def test_a_page_fits_a_desktop_and_holds_every_plan(desktop: Browser) -> None:
    assert desktop.run("document.documentElement.scrollWidth") <= 1280
    text = desktop.run("document.body.textContent")
    assert all(row.strategy in text for row in sample_report().ranking)


def test_the_ranking_is_sorted_and_filtered(desktop: Browser) -> None:
    places = (
        "[...document.querySelectorAll('table.ranking tbody:first-of-type tr:not([hidden])')].map(r => r.dataset.place)"
    )
    steps = [row.step_time for row in sample_report().ranking]
    order = sorted(range(len(steps)), key=lambda index: steps[index])
    click = "document.querySelector('th[data-key=step] button').click()"
    desktop.run(click)
    assert desktop.run(places) == [str(index + 1) for index in order]
    desktop.run(click)
    assert desktop.run(places) == [str(index + 1) for index in reversed(order)]
    find = "document.querySelector('input[type=search]')"
    desktop.run(f"{find}.value = 'FSDP ring'; {find}.dispatchEvent(new Event('input'))")
    assert desktop.run(places) == ["2"]
    desktop.run(f"{find}.value = ''; {find}.dispatchEvent(new Event('input'))")
    assert len(desktop.run(places)) == len(steps)


def test_a_row_is_picked_and_its_timeline_zoomed(desktop: Browser) -> None:
    desktop.run("document.querySelector('table.ranking tr[data-place=\"2\"] button').click()")
    desktop.wait("document.getElementById('explored-title').textContent === 'Plan 2: plan 2'")
    whole = f"{_LANES}.x_range.end - {_LANES}.x_range.start"
    assert desktop.run(whole) == pytest.approx(16)
    tasks = desktop.run("[...document.querySelectorAll('#explored-tasks tbody tr')].map(r => r.cells[0].textContent)")
    assert tasks == [HOSTILE, "all-reduce bucket 0", "first", "optimizer"]
    desktop.run("document.getElementById('explored-timeline').scrollIntoView({block: 'center'})")
    desktop.wait("document.querySelector('#explored-timeline > *').getBoundingClientRect().width > 600")
    box = "document.getElementById('explored-timeline').getBoundingClientRect()"
    left, top, width, height = desktop.run(f"(r => [r.left, r.top, r.width, r.height])({box})")
    middle = top + height / 2
    desktop.drag((left + 0.4 * width, middle), (left + 0.6 * width, middle))
    desktop.wait(f"{whole} < 8")


def test_wavelengths_follow_the_slider(desktop: Browser) -> None:
    steps = desktop.run("Number(document.getElementById('light-step').max)") + 1
    assert steps == optree()[0].steps
    words = "document.getElementById('light-words').textContent"
    assert desktop.run(words).startswith("step 1 of")
    slider = "document.getElementById('light-step')"
    desktop.run(f"{slider}.value = 1; {slider}.dispatchEvent(new Event('input'))")
    assert desktop.run(words).startswith("step 2 of")


def test_nothing_fails_and_nothing_is_fetched(desktop: Browser, page: Path) -> None:
    assert not desktop.errors
    assert {address for address in desktop.requested if not address.startswith(("data:", "blob:"))} == {page.as_uri()}
    assert page.stat().st_size < 3_000_000
    assert "Redistribution and use in source and binary forms" in page.read_text(), "the licence of the library"
