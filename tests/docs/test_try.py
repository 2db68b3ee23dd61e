"""The page that answers in the browser: what it says is what the commands print, on a desktop, a phone, and offline."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from scripts.website import answers

from tests.reports.browser import CHROMIUM, Browser

ROOT = Path(__file__).parents[2]
FILES = ROOT / "docs" / "try"
LARGEST = 2_000_000
"""Bytes of the answers."""
SECONDS = 15
"""From nothing to the first answer."""

browser_only = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium to look at the page")


@pytest.fixture(scope="module")
def held() -> dict[str, Any]:
    return answers.read(FILES / "answers.js")


def test_the_page_offers_only_what_it_holds(held: dict[str, Any]) -> None:
    assert held["grids"]
    expected = [grid.to_json(held["answers"]) for grid in answers.grids()]
    assert held["grids"] == [grid for grid in expected if grid is not None]
    assert set(held["answers"]) <= {command for grid in answers.grids() for command in grid.commands(later=True)}
    for found in held["answers"].values():
        assert all(len(row) == len(found["columns"]) for row in found["rows"])
        assert all(0 <= light < len(held["lights"]) for light in found.get("lights", ()))
    assert (FILES / "answers.js").stat().st_size <= LARGEST


def test_no_wavelength_of_a_link_is_lit_twice(held: dict[str, Any]) -> None:
    for light in held["lights"]:
        lit = [
            (step, way, (source + hop if way == 0 else source - hop - 1) % light["ranks"], first + channel)
            for step, source, _, way, first, count, hops in light["rows"]
            for hop in range(hops)
            for channel in range(count)
        ]
        assert len(lit) == len(set(lit)), light["title"]


def test_commands_are_read_as_the_terminal_reads_them() -> None:
    name, subject, options = answers.arguments("lightloom plan resnet50 --cluster a --ranks 8 --set b.c=5ns --batch 4")
    assert (name, subject) == ("plan", "resnet50")
    assert options == {"cluster": "a", "ranks": 8, "batch": 4, "set": {"b.c": "5ns"}}


def test_answers_are_read_as_they_were_written(held: dict[str, Any], tmp_path: Path) -> None:
    answers.write(tmp_path / "answers.js", held)
    assert answers.read(tmp_path / "answers.js") == held
    assert (tmp_path / "answers.js").read_bytes() == (FILES / "answers.js").read_bytes()


def small_site(folder: Path) -> Path:
    """Build a site of the page and an empty start page, with the theme of the whole one; return its folder."""
    (folder / "docs").mkdir()
    (folder / "docs" / "index.md").write_text("# Start\n\n[Try it](try/index.md)\n")
    for name in ("try", "assets"):
        (folder / "docs" / name).symlink_to(ROOT / "docs" / name)
    config = {"INHERIT": str(ROOT / "mkdocs.yml"), "docs_dir": "docs", "site_dir": "site", "hooks": []}
    config |= {"nav": ["index.md", "try/index.md"], "plugins": ["search", "offline"]}
    (folder / "mkdocs.yml").write_text(yaml.safe_dump(config))
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--config-file", str(folder / "mkdocs.yml")]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    return folder / "site"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_site(tmp_path_factory.mktemp("website"))


class Quiet(SimpleHTTPRequestHandler):
    """Serves files without a line about each."""

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def served(site: Path) -> Iterator[str]:
    """Serve a site on this host; yield the page's address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/try/index.html"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def choose(page: Browser, kind: str, command: str) -> None:
    """Set the page's controls as a reader does, so that they say ``command``."""
    grid = next(each for each in page.run("window.lightloom.grids") if command.startswith(f"{each['begin']} "))
    form = f"document.querySelector('.ask[data-command={kind}] form')"
    for place, value in enumerate((grid["subject"], grid["place"])):
        page.run(f"""(() => {{ const it = {form}.querySelectorAll('select')[{place}];
            it.value = {json.dumps(value)}; it.dispatchEvent(new Event('change')); }})()""")
    rest = command.removeprefix(grid["begin"])
    for place, choice in enumerate(grid["choices"]):
        (value,) = (level for level in choice["levels"] if f" {choice['option']}{level} " in f"{rest} ")
        page.run(f"{form}.querySelectorAll('fieldset')[{place}].querySelector('input[value=\"{value}\"]').click()")
    assert page.run(f"document.querySelector('.ask[data-command={kind}] pre').textContent") == command


def said(page: Browser, kind: str, selector: str) -> list[str]:
    """Return the texts of some elements of an answer."""
    query = f"document.querySelectorAll('.ask[data-command={kind}] .answer {selector}')"
    return list(page.run(f"[...{query}].map((each) => each.textContent)"))


QUESTIONS = (
    "lightloom plan gpt2-355m --cluster optinc-16 --set fabric.bandwidth=100Gbps --set fabric.hop_latency=5ns "
    "--batch 4",
    "lightloom plan gpt2-355m --cluster inceptionn-4 --set fabric.bandwidth=100Gbps --set fabric.hop_latency=500ns "
    "--batch 1",
    "lightloom collective all-reduce --fabric wdm-ring --ranks 8 --set wavelengths=4 --set wavelength_bandwidth=40Gbps "
    "--set reconfiguration_time=1ms --set hop_latency=500ns --nbytes-per-rank 64MB",
)


@browser_only
@pytest.mark.slow
@pytest.mark.parametrize("command", QUESTIONS)
def test_the_page_says_what_the_command_prints(command: str, site: Path, tmp_path: Path) -> None:
    program = [sys.executable, "-m", "lightloom", *command.split()[1:]]
    wide = {**os.environ, "COLUMNS": "400"}
    printed = subprocess.run(program, check=True, capture_output=True, text=True, env=wide).stdout
    document = json.loads(subprocess.run([*program, "--json"], check=True, capture_output=True, text=True).stdout)
    kind = command.split()[1]
    with Browser(tmp_path) as page:
        page.open(site / "try" / "index.html")
        choose(page, kind, command)
        words = " ".join(printed.split())
        lines = said(page, kind, "p.question") + said(page, kind, "p.best") + said(page, kind, "dd")[1:-1]
        assert len(lines) >= 3
        for line in [*lines, *said(page, kind, "p:not([class])"), *said(page, kind, "dd:first-of-type span")]:
            assert " ".join(line.split()) in words
        query = f"document.querySelectorAll('.ask[data-command={kind}] tbody tr')"
        rows = page.run(f"[...{query}].map((row) => [...row.cells].map((cell) => cell.textContent))")
        assert rows and all(" ".join(" ".join(row).split()) in words for row in rows)
        exact = said(page, kind, "dd:last-of-type span")
        if kind == "plan":
            best = document["ranking"][0]
            expected = [best["iteration_time_s"], document["limit"] * best["iteration_time_s"]]
        else:
            expected = [document["rows"][0]["time_s"], document["rows"][0]["lower_bound_s"]]
        assert [float(text.split()[-2]) for text in exact] == expected
        assert not page.errors


@browser_only
@pytest.mark.long
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_and_follows_the_scheme(width: int, scheme: str, site: Path, tmp_path: Path) -> None:
    with Browser(tmp_path, width=width) as page:
        page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        page.open(site / "try" / "index.html")
        page.wait("document.querySelectorAll('.answer .best').length === 2")
        assert page.run("document.documentElement.scrollWidth") <= width
        dark = page.run("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).every(part => part < 64)")
        assert dark == (scheme == "dark")
        assert not page.errors


@browser_only
@pytest.mark.long
def test_the_keyboard_reaches_everything_and_everything_has_a_name(site: Path, tmp_path: Path) -> None:
    with Browser(tmp_path) as page:
        page.open(site / "try" / "index.html")
        page.wait("document.querySelectorAll('.picture svg').length === 2")
        nodes = page.call("Accessibility.getFullAXTree")["nodes"]
        roles = {"combobox", "radio", "slider", "button", "region", "group"}
        controls = [node for node in nodes if not node["ignored"] and node["role"]["value"] in roles]
        assert len(controls) > 20 and all(node["name"]["value"] for node in controls)
        pictures = "[...document.querySelectorAll('.picture svg')]"
        assert page.run(f"{pictures}.every((picture) => picture.getAttribute('aria-label'))")
        radio = "document.querySelector('.ask[data-command=collective] fieldset input')"
        page.run(f"{radio}.focus()")
        before = said(page, "collective", "pre")
        for kind in ("keyDown", "keyUp"):
            page.call(
                "Input.dispatchKeyEvent", type=kind, key="ArrowRight", code="ArrowRight", windowsVirtualKeyCode=39
            )
        page.wait("document.activeElement.checked && document.activeElement.type === 'radio'")
        assert said(page, "collective", "pre") != before
        assert not page.errors


@browser_only
@pytest.mark.long
def test_the_picture_follows_algorithm_and_step(site: Path, held: dict[str, Any], tmp_path: Path) -> None:
    with Browser(tmp_path) as page:
        page.open(site / "try" / "index.html")
        page.wait("document.querySelectorAll('.picture svg').length === 2")
        command = said(page, "collective", "pre")[0]
        found = held["answers"][command]
        for place, number in enumerate(found["lights"]):
            light = held["lights"][number]
            page.run(f"""(() => {{ const it = document.querySelector('.picture select');
                it.selectedIndex = {place}; it.dispatchEvent(new Event('change')); }})()""")
            for step in range(light["steps"]):
                page.run(f"""(() => {{ const it = document.querySelector('.picture input[type=range]');
                    it.value = {step}; it.dispatchEvent(new Event('input')); }})()""")
                lit = sum(count * hops for at, _, _, _, _, count, hops in light["rows"] if at == step)
                assert page.run("document.querySelectorAll('.picture rect.lit').length") == lit
        assert not page.errors


@browser_only
@pytest.mark.long
def test_the_page_loads_in_time_and_works_without_a_network(site: Path, tmp_path: Path) -> None:
    with Browser(tmp_path) as page:
        with served(site) as address:
            page.call("Page.navigate", url=address)
            page.wait("document.querySelectorAll('.answer .best').length === 2", SECONDS)
            entries = "[...performance.getEntriesByType('resource'), ...performance.getEntriesByType('navigation')]"
            page.wait(f"{entries}.every((entry) => entry.responseEnd > 0)")
            assert page.run(f"{entries}.reduce((sum, entry) => sum + entry.transferSize, 0)") < 25_000_000
            assert all(each.startswith((address.rsplit("/", 2)[0], "data:", "blob:")) for each in page.requested)
            kept = "caches.open('lightloom-try').then((cache) => cache.keys()).then((keys) => keys.length)"
            page.wait(f"{kept}.then((count) => count > 4)")
        before = said(page, "plan", "pre")
        page.call("Page.reload")  # The server is gone.
        page.wait("performance.getEntriesByType('navigation')[0].type === 'reload'")
        page.wait("document.querySelectorAll('.answer .best').length === 2")
        assert said(page, "plan", "pre") == before
