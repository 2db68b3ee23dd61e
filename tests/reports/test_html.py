"""A page fetches nothing, runs nothing, shows every row, and keeps its bars in proportion."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.core.units import format_time
from lightloom.reports.html import (
    bar_scale,
    inline_svg,
    numeric_columns,
    render,
    write,
)
from lightloom.reports.report import (
    Picture,
    Report,
    Table,
)
from tests.reports.samples import CLAIMS, HOSTILE, ROWS, sample_report

_VOID = {"wbr", "meta", "br", "img", "input", "hr", "link"}


class Page(HTMLParser):
    """Elements and text; insists that tags nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> Iterator[dict[str, str]]:
        return (attributes for name, attributes in self.elements if name == tag)


def test_nothing_is_fetched_and_nothing_of_others_runs() -> None:
    text = render(sample_report())
    page = Page(text)
    assert text.startswith("<!DOCTYPE html>")
    assert "http" not in text
    assert "@import" not in text
    assert [attributes for tag, attributes in page.elements if tag == "script"] == [{}], "the ranking's own"
    assert not {"link", "iframe", "object", "embed", "img"} & {tag for tag, _ in page.elements}
    for _, attributes in page.elements:
        for name in ("src", "href", "xlink:href"):
            assert attributes.get(name, "#").startswith(("#", "data:image/png;base64,"))
        assert not [name for name in attributes if name.startswith("on")]
    assert not re.search(r"url\((?!#)", text)


def test_every_row_appears_with_its_numbers() -> None:
    text = Page(render(sample_report())).text
    for row in (*ROWS, *sample_report().reference):
        assert row.label in text
        assert format_time(row.step_time) in text
    for expected in (
        "does not fit",
        "closed form",
        "1.234 kJ",
        "not sourced",
        "inceptionn",
        "400 Gb/s Ethernet",
        "1.25×",
    ):
        assert expected in text
    for claim in CLAIMS:
        assert claim.id in text
        assert claim.why in text
    for expected in ("1 match", "1 deviates", "1 not reproducible", "fitted", "one bar", "3.725 GiB of 7.451 GiB"):
        assert expected in text


def test_bars_are_in_proportion() -> None:
    bars = re.findall(r'<span class="bar" [^>]*>(.*?)</span>', render(replace(sample_report(), memory={})), re.DOTALL)
    rows = [*ROWS, *sample_report().reference]
    longest = bar_scale(rows)
    assert len(bars) == len(rows)
    for bar, row in zip(bars, rows, strict=True):
        widths = {key: float(width) for key, width in re.findall(r'class="(\w+)" style="width:([\d.]+)%"', bar)}
        assert sum(widths.values()) / 100 * longest == pytest.approx(row.step_time, rel=1e-5)
        assert widths == {key: pytest.approx(100 * s / longest, abs=1e-4) for key, s in row.breakdown.items() if s}


@given(st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=8))
def test_the_fastest_plan_always_shows(times: list[float]) -> None:
    rows = [replace(ROWS[0], step_time=time, breakdown={"compute_s": time}) for time in times]
    full = bar_scale(rows)
    assert min(times) <= full <= max(times) and min(times) >= full / 4


def test_hostile_names_are_shown_not_run() -> None:
    report = Report(
        title=HOSTILE,
        headline=HOSTILE,
        facts=((HOSTILE, HOSTILE),),
        notes=(HOSTILE,),
        not_sourced=(HOSTILE,),
        ranking=(replace(ROWS[0], strategy=HOSTILE, label=HOSTILE, exchange=HOSTILE, exchange_effect=HOSTILE),),
        reference=(ROWS[1],),
        reference_name=HOSTILE,
        memory={HOSTILE: 1.0},
        claims=(replace(CLAIMS[1], id=HOSTILE, paper=HOSTILE, unit=HOSTILE, why=HOSTILE),),
        tables=(Table(title=HOSTILE, columns=(HOSTILE,), rows=((HOSTILE,),), caption=HOSTILE),),
        provenance={HOSTILE: HOSTILE},
    )
    text = render(report)
    page = Page(text)
    assert "<script>alert" not in text
    assert page.text.count(HOSTILE) >= 15


def test_empty_sections_are_left_out() -> None:
    page = Page(render(Report(title="t", headline="h")))
    assert not list(page.all("section"))
    assert not list(page.all("table"))


def test_pictures_do_not_share_ids_and_follow_the_page_ink() -> None:
    text = render(sample_report())
    ids = re.findall(r'\sid="([^"]+)"', text)
    assert len(ids) == len(set(ids)) > 0
    for reference in re.findall(r'(?:href="|url\()#([^")]+)', text):
        assert reference in ids
    assert "var(--ink)" in text[text.index("<svg") :]


@pytest.mark.parametrize("active", ["<script>x</script>", '<rect onclick="x"/>', '<a href="javascript:x"/>'])
def test_active_pictures_are_refused(active: str) -> None:
    with pytest.raises(ValueError, match="a picture holds a script"):
        inline_svg(f"<svg>{active}</svg>", "p")
    with pytest.raises(ValueError, match="a picture holds a script"):
        render(replace(sample_report(), pictures=(Picture(title="t", svg=f"<svg>{active}</svg>"),)))


@pytest.mark.parametrize(
    "text", ["&lt;svg onload=alert(1)&gt;", "javascript: the language", "a script that runs once = 1"]
)
def test_texts_of_pictures_may_say_anything(text: str) -> None:
    assert text in inline_svg(f"<svg><!-- {text} --><text x='1'>{text}</text></svg>", "p")


def test_columns_of_numbers_are_found() -> None:
    table = Table(title="", columns=("a", "b", "c"), rows=(("x", "1.5 ms", "3%"), ("2", "-4e-3", "ring 3")))
    assert numeric_columns(table) == [False, True, False]


def test_the_same_report_gives_the_same_page(tmp_path: Path) -> None:
    assert write(sample_report(), tmp_path / "a.html").read_text(encoding="utf-8") == render(sample_report())


def test_rows_check_themselves() -> None:
    with pytest.raises(ValueError, match=r"breakdown of x adds up to .* not to the step time of 3"):
        replace(ROWS[0], label="x", step_time=3)
    with pytest.raises(ValueError, match=r"unknown \['lunch_s'\]"):
        replace(ROWS[0], breakdown={"lunch_s": ROWS[0].step_time})
    with pytest.raises(ValueError, match="a row has 1 cells for 2 columns"):
        Table(title="t", columns=("a", "b"), rows=(("x",),))
