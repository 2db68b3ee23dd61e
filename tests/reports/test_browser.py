"""Real pages in a real browser: nothing is fetched, and nothing sticks out, on a desktop and on a phone."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from lightloom.reports.html import write
from tests.reports.samples import sample_report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--allow-file-access-from-files",
)
_FRAME = """<!DOCTYPE html><body><iframe id="page" src="{page}" style="width:{width}px;height:900px;border:0"></iframe>
<script>onload = () => {{
  const inside = document.getElementById("page").contentDocument.documentElement;
  document.title = `width ${{inside.scrollWidth}} of ${{inside.clientWidth}}, height ${{inside.scrollHeight}}`;
}}</script></body>"""

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium to look at the pages")


def _dom(folder: Path, page: Path) -> str:
    command = [str(CHROMIUM), *FLAGS, f"--user-data-dir={folder / 'profile'}", "--dump-dom", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        pytest.skip(f"Chromium does not start here: {done.stderr.strip().splitlines()[-1:]}")
    return done.stdout


@pytest.mark.parametrize("width", [pytest.param(1280, marks=pytest.mark.slow), 390])
def test_a_page_fits_its_window(width: int, tmp_path: Path) -> None:
    page = write(sample_report(), tmp_path / "report.html")
    frame = tmp_path / "frame.html"
    frame.write_text(_FRAME.format(page=page.as_uri(), width=width))
    found = re.search(r"<title>width (\d+) of (\d+), height (\d+)</title>", _dom(tmp_path, frame))
    assert found is not None
    needed, given, height = map(int, found.groups())
    assert needed <= given <= width and height > 900


def test_the_browser_shows_every_plan(tmp_path: Path) -> None:
    text = _dom(tmp_path, write(sample_report(), tmp_path / "report.html"))
    for row in sample_report().ranking:
        assert row.algorithm in text
