"""What makes the site: docstrings and notebooks as Markdown, the reference, and the check of what was built."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scripts.website import check, docstrings, notebooks, python_api

import lightloom

PAGE = '<h1 id="top">T</h1><a href="{link}">next</a><img src="{picture}"><a href="b.html">b</a>'


def site(folder: Path, link: str = "b.html#here", picture: str = "a.png") -> Path:
    (folder / "index.html").write_text(PAGE.format(link=link, picture=picture))
    (folder / "b.html").write_text('<p id="here">text</p><a href="index.html#top">back</a>')
    (folder / "a.png").touch()
    return folder


def test_a_whole_site_has_no_fault(tmp_path: Path) -> None:
    assert list(check.faults(site(tmp_path))) == []


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        ({"link": "c.html"}, "c.html leads nowhere"),
        ({"link": "b.html#there"}, "no such anchor"),
        ({"picture": "c.png"}, "c.png leads nowhere"),
        ({"picture": "https://example.org/a.png"}, "from a host"),
        ({"picture": "//example.org/a.png"}, "from a host"),
    ],
)
def test_faults_of_a_site_are_named(wrong: dict[str, str], fault: str, tmp_path: Path) -> None:
    (found,) = check.faults(site(tmp_path, **wrong))
    assert found.startswith("index.html: ") and fault in found


def test_a_page_without_a_link_to_it_and_a_missing_site_are_faults(tmp_path: Path) -> None:
    assert "make docs" in next(check.faults(tmp_path))
    (site(tmp_path) / "c.html").touch()
    assert list(check.faults(tmp_path)) == ["c.html: no link leads there"]


def test_docstrings_become_markdown() -> None:
    text = docstrings.rewritten("See :func:`lightloom.plan` and :data:`MOST`.\n\n>>> plan(1)\n>>> plan(2)\n\nEnd.")
    assert "[`lightloom.plan`][lightloom.plan] and `MOST`." in text
    assert "```python\n>>> plan(1)\n>>> plan(2)\n```" in text and text.endswith("End.")


def test_notebooks_become_markdown(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Title"]},
        {
            "cell_type": "code",
            "source": ["print('<b>')"],
            "outputs": [
                {"output_type": "stream", "text": ["<b>\n"]},
                {"output_type": "execute_result", "data": {"text/plain": ["1"], "text/html": ["<table></table>"]}},
            ],
        },
    ]
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    page = notebooks.markdown(path)
    assert page.startswith("# Title\n\n```python\nprint('<b>')\n```\n") and "<pre>&lt;b&gt;\n</pre>" in page
    assert "<table></table>" in page and "(a.ipynb)" in page


def test_the_reference_holds_every_public_name() -> None:
    held = {name for page in python_api.pages().values() for name in page.names}
    public = {f"lightloom.{name}" for name in lightloom.__all__ if name != "__version__"}
    assert public <= held
    for module in ("lightloom.exchange", "lightloom.exchange.hooks"):
        assert {name for name in held if name.startswith(f"{module}.")}
    assert {"lightloom.machines.fabrics.conformance.check_fabric", "lightloom.core.errors.ConfigError"} <= held
