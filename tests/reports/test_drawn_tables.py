"""Tables of terminals and pages: which columns there are, how wide they are, on which side cells stand and what is
bold."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.table import Table as TerminalTable
from rich.text import Text

from lightloom.core.answer import Answer
from lightloom.core.claims import Claim
from lightloom.core.timeline import Counter, Interval, Timeline
from lightloom.reports import console, html
from lightloom.reports.console import (
    answer_parts,
    claims_table,
    facts_table,
    make_console,
    numeric,
    plain_table,
    rows_table,
    screen,
)
from lightloom.reports.html import bar_scale, inline_svg, numeric_columns
from lightloom.reports.progress import Bar
from lightloom.reports.report import Picture, RankingRow, Table, write_perfetto_trace
from tests.reports.samples import to_text

CLAIM = Claim(id="aa.bb", paper=1, ours=2, unit="s", why="xx yy")


def heads(table: TerminalTable) -> list[Any]:
    return [column.header for column in table.columns]


def widths(table: TerminalTable) -> dict[Any, int | None]:
    return {column.header: column.width for column in table.columns}


def cells(table: TerminalTable, column: int) -> list[Any]:
    return [str(cell) for cell in table.columns[column].cells]


def test_claims_have_their_columns_in_order_and_numbers_on_the_right() -> None:
    table = claims_table([CLAIM], 120)
    assert heads(table) == ["figure", "paper", "ours", "unit", "status", "why"]
    assert [column.justify for column in table.columns] == ["left", "right", "right", "left", "left", "left"]
    assert {column.overflow for column in table.columns} == {"fold"}
    assert [column.no_wrap for column in table.columns] == [False, False, False, False, True, False]
    assert [cells(table, n) for n in range(6)] == [["aa.bb"], ["1"], ["2"], ["s"], ["deviates"], ["xx yy"]]
    assert heads(claims_table([CLAIM], 120, judged=False)) == ["figure", "paper", "ours", "unit", "why"]


def test_columns_are_as_wide_as_their_whole_words_where_there_is_room() -> None:
    """figure 6, paper 5, ours 4, unit 4, deviates 8, and two words of two letters, with two blanks behind each."""
    whole = {"figure": 6, "paper": 5, "ours": 4, "unit": 4, "status": 8, "why": 5}
    assert widths(claims_table([CLAIM], 120)) == whole
    assert sum(whole.values()) + 12 == 44
    whole["status"] = 8
    for width, why in ((60, 5), (120, 5)):
        assert widths(claims_table([CLAIM], width)) == whole | {"why": why}


LONG = Claim(id="aaaa.bbbb.cccc", paper=1, ours=2, unit="s", why="xx yyyyyyyyyyyyyyyyyyyyyyyyyy zz")


def test_names_are_broken_before_reasons_are_left_out() -> None:
    """A name takes six columns at least (its heading), a reason 26."""
    narrow = claims_table([LONG], 65)
    assert widths(narrow) == {"figure": 6, "paper": 5, "ours": 4, "unit": 4, "status": 8, "why": 26}
    assert cells(narrow, 0) == ["aaaa.\nbbbb.\ncccc"]
    assert heads(claims_table([LONG], 64)) == ["figure", "paper", "ours", "unit", "status"]
    wide = claims_table([LONG], 75)
    assert widths(wide)["figure"] == 14 and widths(wide)["why"] == 28 and cells(wide, 0) == ["aaaa.bbbb.cccc"]
    assert widths(claims_table([LONG], 70))["figure"] == 11
    assert cells(claims_table([LONG], 70), 0) == ["aaaa.bbbb.\ncccc"]
    assert widths(claims_table([LONG], 79))["why"] == 32 == widths(claims_table([LONG], 200))["why"]


@pytest.mark.parametrize(("width", "figure"), [(64, 14), (45, 14), (44, 13), (40, 9), (38, 7), (37, 6), (36, None)])
def test_names_get_the_room_of_reasons_that_are_left_out(width: int, figure: int | None) -> None:
    """Five columns of 27 letters at least, two blanks behind each."""
    table = claims_table([LONG], width)
    assert heads(table) == ["figure", "paper", "ours", "unit", "status"] and widths(table)["figure"] == figure
    assert widths(table)["paper"] == (5 if figure else None)


@pytest.mark.parametrize(("width", "whole"), [(60, True), (59, False)])
def test_statuses_are_whole_from_sixty_columns_on(width: int, whole: bool) -> None:
    fitted = Claim(id="a", paper=1, ours=1, unit="s", fitted=True)
    table = claims_table([fitted], width)
    (status,) = (column for column in table.columns if column.header == "status")
    assert status.no_wrap is whole and status.width == 14


def test_a_pipe_has_room_for_a_reason_of_sixty_columns() -> None:
    """And 120 in all, names whole: their least width is that of the name."""
    table = claims_table([LONG], None)
    assert widths(table) == {"figure": 14, "paper": 5, "ours": 4, "unit": 4, "status": 8, "why": 32}
    why = " ".join("z" * 9 for _ in range(30))
    assert widths(claims_table([Claim(id="a" * 14, paper=1, ours=2, unit="s", why=why)], None))["why"] == 120 - 12 - 35
    many = widths(claims_table([Claim(id="a" * 99, paper=1, ours=2, unit="s", why=why)], None))
    assert many == {"figure": 99, "paper": 5, "ours": 4, "unit": 4, "status": 8, "why": 9 + 60}


def test_a_terminal_too_narrow_for_any_word_sets_no_widths() -> None:
    table = claims_table([LONG], 20)
    assert heads(table) == ["figure", "paper", "ours", "unit", "status"] and set(widths(table).values()) == {None}


@pytest.mark.parametrize(
    ("status", "style", "facts"),
    [
        ("match", "green", {"ours": 1}),
        ("derived", "cyan", {"ours": 1, "basis": "derived"}),
        ("stand-in", "cyan", {"ours": 1, "basis": "stand-in"}),
        ("by construction", "dim", {"ours": 1, "basis": "by construction"}),
        ("deviates", "yellow", {"ours": 2}),
        ("not reproducible", "dim", {"ours": None}),
    ],
)
def test_statuses_have_their_colour(status: str, style: str, facts: dict[str, Any]) -> None:
    fields: dict[str, Any] = {"id": "a", "paper": 1, "unit": "s", "why": "so"} | facts
    claim = Claim(**fields)
    table = claims_table([claim], 120)
    (cell,) = table.columns[4].cells
    (why,) = table.columns[5].cells
    assert isinstance(cell, Text) and isinstance(why, Text)
    assert (cell.plain, cell.style, why.style) == (status, style, "dim")


@pytest.mark.parametrize(
    ("name", "width", "broken"),
    [
        ("aa.bb_cc", 3, "aa.\nbb_\ncc"),
        ("aa.bb_cc", 5, "aa.\nbb_cc"),
        ("aa.bb_cc", 6, "aa.bb_\ncc"),
        ("aa.bb_cc", 8, "aa.bb_cc"),
        ("aaaaaa", 2, "aaaaaa"),
        ("..a__b", 2, "..\na__\nb"),
        ("", 2, ""),
    ],
)
def test_names_are_broken_behind_dots_and_underscores(name: str, width: int, broken: str) -> None:
    found = console._broken(Text(name, "red"), width)
    assert (found.plain, found.style) == (broken, "red")


@pytest.mark.parametrize(
    ("left", "sides"),
    [
        (None, ["left", "right", "right"]),
        ([], ["right", "right", "right"]),
        (["b", "c"], ["right", "left", "left"]),
    ],
)
def test_columns_stand_on_the_side_that_is_asked_for(left: list[str] | None, sides: list[str]) -> None:
    for table in (
        plain_table(["a", "b", "c"], [("1", "2", "3")], left=left),
        rows_table([{"a": 1, "b": 2, "c": 3}], left=left),
    ):
        assert [column.justify for column in table.columns] == sides and {
            column.overflow for column in table.columns
        } == {"fold"}
        assert [cells(table, n) for n in range(3)] == [["1"], ["2"], ["3"]] and table.title is None


def test_tables_have_no_lines_and_two_blanks_between_columns() -> None:
    table = plain_table(["a", "bb"], [("xx", "y"), ("z", "www")], title="T [b]")
    assert [line.rstrip() for line in to_text(table, 40).splitlines()] == ["T [b]", "a    bb", "xx    y", "z   www"]
    assert str(table.title) == "T [b]" and table.title_style == "bold" and table.title_justify == "left"
    assert table.header_style == "dim" and table.box is None


def test_facts_have_no_heading() -> None:
    table = facts_table([("name", "value"), ("n", "a [b] c")], title="")
    assert [line.rstrip().split(maxsplit=1) for line in to_text(table, 40).splitlines()] == [
        ["name", "value"],
        ["n", "a [b] c"],
    ]
    assert not table.show_header and table.title is None
    first, second = table.columns
    assert (first.style, first.no_wrap, second.overflow) == ("dim", True, "fold")
    assert str(facts_table([], title="t").title) == "t"


ANSWER = Answer(
    question="Which?",
    best=["first", "second"],
    rows=[{"plan": "x", "step": "1 ms", "kind": "ring"}, {"plan": "y", "step": "–", "kind": "3"}],
    limit="computing",
    hidden=2,
)


def test_answers_are_bold_to_the_first_line_of_what_is_best() -> None:
    *head, table, more, limit = list(answer_parts(ANSWER))
    assert [(str(line), getattr(line, "style", None)) for line in head] == [
        ("Which?", "bold"),
        ("BEST     first", "bold"),
        ("         second", ""),
    ]
    assert isinstance(table, TerminalTable) and heads(table) == ["plan", "step", "kind"]
    assert [column.justify for column in table.columns] == ["left", "right", "left"]
    assert str(more) == "2 more: --all" and str(limit) == "Limit    computing"


def test_a_table_stands_in_place_of_rows_and_without_either_there_is_none() -> None:
    other = plain_table(["a"], [])
    assert other in list(answer_parts(ANSWER, other))
    bare = Answer(question="Which?", best=["first"])
    assert [str(part) for part in answer_parts(bare)] == ["Which?", "BEST     first"]
    assert list(answer_parts(bare, other))[-1] is other


def test_columns_of_numbers_stand_on_the_right_but_the_first() -> None:
    rows = [{"n": "1", "m": "2 ms", "w": "2"}, {"n": "2", "m": "", "w": "no 2"}]
    table = next(
        part for part in answer_parts(Answer(question="q", best=["b"], rows=rows)) if isinstance(part, TerminalTable)
    )
    assert [column.justify for column in table.columns] == ["left", "right", "left"]


@pytest.mark.parametrize(("count", "all_rows", "shown"), [(8, False, 8), (9, False, 8), (9, True, 9), (0, False, 0)])
def test_screens_show_eight_rows_or_all(count: int, all_rows: bool, shown: int) -> None:
    rows = [{"name": f"r{n}", "n": n} for n in range(count)]
    parts = list(screen("q", ["b"], rows, all=all_rows))
    tables = [part for part in parts if isinstance(part, TerminalTable)]
    assert [cells(table, 0) for table in tables] == ([[f"r{n}" for n in range(shown)]] if shown else [])
    assert any("more: --all" in str(part) for part in parts) is (count > shown)


def test_screens_take_sides_only_where_there_are_rows() -> None:
    other = plain_table(["a"], [])
    (table,) = (
        part
        for part in screen("q", ["b"], [{"x": 1, "y": "z"}], left=["y"], table=other)
        if isinstance(part, TerminalTable)
    )
    assert [column.justify for column in table.columns] == ["right", "left"]
    assert other in list(screen("q", ["b"], [], left=["y"], table=other))
    assert other in list(screen("q", ["b"], [{"x": 1}], table=other))
    assert "5 more: --x" in [str(part) for part in screen("q", ["b"], [{"x": 1}], hidden=5, everything="--x")]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("-", False),
        ("–", True),
        ("≈ 3", True),
        ("~3", True),
        ("3 ×", True),
        ("12 abcdefgh", True),
        ("12 abcdefghi", False),
    ],
)
def test_numbers_may_have_a_sign_and_a_short_unit(text: str, number: bool) -> None:
    assert numeric(text) is number and numeric(f" {text} ") is number


def test_output_that_is_no_terminal_has_120_columns_at_least(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    for columns, width in (("80", 120), ("120", 120), ("200", 200)):
        monkeypatch.setenv("COLUMNS", columns)
        made = make_console(file)
        assert made.width == width and made.no_color and made.file is file
    made.print("[b]x[/b] :smile: 12")
    assert file.getvalue() == "[b]x[/b] :smile: 12\n"


def test_only_styles_colour_what_is_printed_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    file = io.StringIO()
    file.isatty = lambda: True  # type: ignore[method-assign]
    make_console(file).print("12 'a' [b]x[/b] :smile:")
    assert file.getvalue() == "12 'a' [b]x[/b] :smile:\n"
    make_console(file).print(Text("x", "bold"))
    assert "\x1b[1mx" in file.getvalue()


def test_all_events_of_a_trace_are_of_one_process_and_say_where_arrows_end(tmp_path: Path) -> None:
    def interval(resource: str, category: str, start: float, end: float, task: int, *after: int) -> Interval:
        return Interval(
            resource=resource, category=category, name="n", start=start, end=end, details={}, task=task, after=after
        )

    line = Timeline.of([interval("a", "forward", 0, 1, 0), interval("b", "transmission", 1, 2, 1, 0)])
    path = write_perfetto_trace(
        tmp_path / "t.json", line, title="t", provenance={}, counters=[Counter("c", (0.5,), (7.0,))]
    )
    document = json.loads(path.read_text())
    assert {event["pid"] for event in document["traceEvents"]} == {1} and document["displayTimeUnit"] == "ns"
    assert [(event["name"], event["cat"]) for event in document["traceEvents"] if event["ph"] == "X"] == [
        ("n", "forward"),
        ("n", "transmission"),
    ]
    start, end = (event for event in document["traceEvents"] if event["ph"] in "sf")
    assert start == {
        "ph": "s",
        "bp": "e",
        "name": "waits for",
        "cat": "dependency",
        "id": 1,
        "pid": 1,
        "tid": 1,
        "ts": 5e5,
    }
    assert end == start | {"ph": "f", "tid": 2, "ts": 1e6}
    (count,) = (event for event in document["traceEvents"] if event["ph"] == "C")
    assert (count["name"], count["ts"], count["args"]) == ("c", 5e5, {"value": 7.0})


def test_pages_are_drawn_in_only_with_the_library_and_pictures_are_shown_unless_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(html, "find_spec", lambda name: name if name == "bokeh" else None)
    assert html.draws()
    monkeypatch.setattr(html, "find_spec", lambda name: None if name == "bokeh" else name)
    assert not html.draws()
    assert not Picture(title="t", svg="<svg/>").explored
    row = RankingRow(strategy="s", label="l", step_time=0.0, breakdown={})
    assert (row.place, row.verified, row.global_batch, row.on_front, row.runnable) == (0, False, 1, False, True)
    assert (row.fits, row.energy, row.memory, row.exchange, row.interval) == (None, None, None, None, "")


class Shown:
    """A bar that notes what it is asked to show."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def advance(self, task: Any, count: int) -> None:
        self.asked.append((task, count))

    def update(self, task: Any, **what: Any) -> None:
        self.asked.append((task, what))


def test_bars_advance_by_what_is_done_and_tell_at_most_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    shown, now = Shown(), [10.0]
    monkeypatch.setattr("lightloom.reports.progress.time.monotonic", lambda: now[0])
    bar = Bar(shown, "task")
    assert list(bar.over("ab")) == ["a", "b"]
    bar(3)
    assert shown.asked == [("task", 1), ("task", 1), ("task", 3)]
    for moment in (10.0, 10.5, 11.0, 11.25):
        now[0] = moment
        bar.tell(lambda moment=moment: f"at {moment}")  # type: ignore[misc]
    now[0] = 20.0
    bar.tell(lambda: "last", 7)
    assert shown.asked[3:] == [
        ("task", {"best": "at 10.0"}),
        ("task", {"best": "at 11.25"}),
        ("task", {"best": "last", "total": 7}),
    ]
    none = Bar()
    none(1)
    none.tell(lambda: pytest.fail("nothing shows it"))
    assert list(none.over([1])) == [1]


def ranked(*seconds: float) -> list[RankingRow]:
    return [
        RankingRow(strategy="s", label="l", step_time=2 * each, breakdown={"compute_s": 2 * each}, global_batch=2)
        for each in seconds
    ]


@pytest.mark.parametrize(("seconds", "full"), [((1, 4), 4), ((4.5, 1), 3), ((2, 9, 3), 6), ((2,), 2)])
def test_full_bars_are_of_samples(seconds: tuple[float, ...], full: float) -> None:
    assert bar_scale(ranked(*seconds)) == full


def test_columns_of_pages_are_numbers_where_every_cell_is() -> None:
    rows = (("1", " 2 ms ", "3", "a"), ("≈ 4", "5%", "b", ""))
    assert numeric_columns(Table(title="", columns=("a", "b", "c", "d"), rows=rows)) == [False, True, False, False]
    assert numeric_columns(Table(title="", columns=("a", "b"), rows=(("≈4", "-1.5e-3 GB/s"),))) == [True, True]


def test_pictures_keep_only_the_names_that_they_use() -> None:
    svg = (
        '<?xml version="1.0"?><!-- a --><svg xmlns="x" xmlns:xlink="y"><metadata>who</metadata>'
        '<path id="a"/><path id="b"/><g id="c"/><use xlink:href="#a"/><g clip-path="url(#c)" fill="#1b2330"/></svg>'
    )
    assert inline_svg(svg, "p-") == (
        '<svg><path id="p-a"/><path/><g id="p-c"/><use href="#p-a"/><g clip-path="url(#p-c)" fill="var(--ink)"/></svg>'
    )
    for active in ("<script>", "<foreignObject>", "<a href='javascript:x'>", "<g ONload = 'x'>"):
        with pytest.raises(ValueError, match="a picture holds a script"):
            inline_svg(f"<svg>{active}</svg>", "p")
    assert inline_svg("<svg>on a = b</svg>", "p") == "<svg>on a = b</svg>"
