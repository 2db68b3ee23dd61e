"""Answers and tables for terminals, which give up columns rather than break words.

Colour is only used where output goes to a terminal.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Any, TypeAlias

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from lightloom.core.answer import MOST_ROWS, Answer
from lightloom.core.claims import Claim, Status
from lightloom.core.files import visible
from lightloom.core.units import format_claim

_STATUS_STYLES: dict[Status, str] = {
    "match": "green",
    "derived": "cyan",
    "stand-in": "cyan",
    "by construction": "dim",
    "deviates": "yellow",
    "not reproducible": "dim",
}
Parts: TypeAlias = Iterator[str | Text | Table]
"""Printed output of a command for people, line by line and table by table."""
_PIPE_WIDTH = 120
"""Columns where output is no terminal and ``$COLUMNS`` is not set."""
_PIPED_WORDS = 60
"""Columns for the wrapped text of a table beside its whole words, where output is no terminal."""
_GAP = 2
"""Blanks between two columns of a table."""
_PARTS = re.compile(r"[^._]*[._]+|[^._]+")
"""Parts of a name, each with the dots and underscores that follow it."""


class _VisibleConsole(Console):
    """A console on which names and texts of files cannot control the terminal."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of a table or a text as Rich does, with hexadecimal escapes (a backslash, ``x1b``) in the
        place of characters of their texts that would control the terminal or reverse the direction of writing; line
        feeds and tabs stay."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


def make_console(file: IO[str] | None = None) -> Console:
    """Return a console of Rich on ``file`` (stdout by default): on a terminal in colour and as wide as the window,
    elsewhere without colour and 120 columns wide, or as wide as ``$COLUMNS`` or a terminal on another stream says where
    that is more.

    Texts are shown as they are: Rich's markup, emoji codes and highlighting are off.
    """
    options: dict[str, Any] = {"file": file or sys.stdout, "highlight": False, "markup": False, "emoji": False}
    console = _VisibleConsole(**options)
    if console.is_terminal:
        return console
    return _VisibleConsole(**options, no_color=True, width=max(console.width, _PIPE_WIDTH))


def _broken(name: Text, width: int) -> Text:
    """Return a name with line feeds put in after dots and underscores only, in the same style; each line has at most
    ``width`` columns of the terminal, or is one part (up to the next dot or underscore) that is longer."""
    lines = [""]
    for part in _PARTS.findall(name.plain):
        if lines[-1] and cell_len(lines[-1] + part) > width:
            lines.append("")
        lines[-1] += part
    return Text("\n".join(lines), name.style)


def claims_table(claims: Iterable[Claim], width: int | None, *, title: str = "", judged: bool = True) -> Table:
    """Return a table of published figures beside ours, a row for each claim: figure (the claim's ``id``), paper, ours,
    unit, status, and why a figure deviates.

    Figures have at most six significant digits, and a dash where there is none; a status is followed by ``(fitted)``
    where a constant was fitted to the paper.

    Args:
        claims: the rows, in order.
        width: columns of the terminal: names of figures are broken after dots and underscores to fit, and the column of
            reasons is left out where the whole words of all columns have no room. None for output that is no terminal:
            nothing is broken or left out, and the table may be wider than 120 columns.
        title: above the table; none if empty.
        judged: False leaves out the column of status alone, for findings of ours, which have none.
    """
    rows = list(claims)
    columns = {
        "figure": [Text(claim.id) for claim in rows],
        "paper": [Text(format_claim(claim.paper)) for claim in rows],
        "ours": [Text(format_claim(claim.ours)) for claim in rows],
        "unit": [Text(claim.unit) for claim in rows],
        "status": [Text(claim.status + " (fitted)" * claim.fitted, _STATUS_STYLES[claim.status]) for claim in rows],
        "why": [Text(claim.why, "dim") for claim in rows],
    }
    if not judged:
        del columns["status"]
    whole = "status" if width is None or width >= 60 else ""
    most = {name: max(text.cell_len for text in (Text(name), *cells)) for name, cells in columns.items()}
    least = most.copy()
    for name in columns.keys() - {whole}:
        words = [word for text in (Text(name), *columns[name]) for word in text.plain.split(" ")]
        broken = name == "figure" and width is not None
        least[name] = max(cell_len(part) for word in words for part in (_PARTS.findall(word) if broken else [word]))
    needed = sum(least.values()) + _GAP * len(least)
    room = max(_PIPE_WIDTH, needed + _PIPED_WORDS) if width is None else width
    if needed > room:
        needed -= least["why"] + _GAP
        del columns["why"]
    spare, table = room - needed, _bare_table(title)
    for name in columns:
        wider = 0 if name == whole else max(min(most[name] - least[name], spare), 0)
        spare -= wider
        table.add_column(
            name,
            justify="right" if name in ("paper", "ours") else "left",
            overflow="fold",
            no_wrap=name == whole,
            width=least[name] + wider if spare >= 0 else None,
        )
        if name == "figure" and width is not None:
            columns[name] = [_broken(text, least[name] + wider) for text in columns[name]]
    for cells in zip(*columns.values(), strict=True):
        table.add_row(*cells)
    return table


def plain_table(
    columns: Sequence[str], rows: Iterable[Iterable[str]], *, title: str = "", left: Sequence[str] | None = None
) -> Table:
    """Return a table of text without lines; cells that are too wide are folded, and markup in them is not read.

    Args:
        columns: headings.
        rows: cells of each row, in the order of the headings.
        title: above the table; none if empty.
        left: headings of the columns that are set flush left, only the first unless given; all others are set flush
            right.
    """
    table = _bare_table(title)
    for column in columns:
        flush_left = column in (columns[:1] if left is None else left)
        table.add_column(column, justify="left" if flush_left else "right", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def rows_table(rows: Sequence[Mapping[str, object]], *, title: str = "", left: Sequence[str] | None = None) -> Table:
    """Return a table of a result's rows, of which there must be at least one; the keys of the first row are the
    headings, and cells are shown by ``str``.

    Args:
        rows: cells by heading; the keys of all must be in the order of the first, as cells are taken by their place.
        title: above the table; none if empty.
        left: headings of the columns that are set flush left, only the first unless given; all others are set flush
            right.
    """
    return plain_table(list(rows[0]), (map(str, row.values()) for row in rows), title=title, left=left)


def screen(
    question: str,
    best: Sequence[str],
    rows: Sequence[Mapping[str, object]] = (),
    *,
    all: bool = False,
    left: Sequence[str] | None = None,
    table: Table | None = None,
    **rest: Any,
) -> Parts:
    """Yield an answer as lines and a table for a terminal, with its first eight rows, or all of them
    (:func:`answer_parts`).

    Args:
        question: what was asked.
        best: lines that say what is best.
        rows: cells by heading, which are shown by ``str``.
        all: whether to show all rows; otherwise the number of hidden ones is told.
        left: headings of the columns that are set flush left; unless given, the first and those in which any shown cell
            is no number (:func:`numeric`).
        table: shown in place of the rows, unless there are rows and ``left`` is given.
        rest: other fields of ``Answer``: ``legend``, ``everything``, ``what_if``, ``limit``, ``rests``, ``more``, and
            ``hidden`` in place of the number counted here.
    """
    shown = [{name: str(cell) for name, cell in row.items()} for row in (rows if all else rows[:MOST_ROWS])]
    if shown and left is not None:
        table = rows_table(shown, left=left)
    fields = {"rows": shown, "hidden": len(rows) - len(shown), **rest}
    return answer_parts(Answer(question=question, best=best, **fields), table)


def answer_parts(answer: Answer, table: Table | None = None) -> Parts:
    """Yield an answer as lines (``Text``), wrapped to the width of the console on stdout, and one table: the question
    and the first line of what is best in bold, the rest of what is best, the rows (or ``table`` in their place), then
    what the marks mean and how many rows are hidden, what would change the answer, its limit, what it rests on and what
    to ask next. Parts that are empty are left out.

    Of the rows, the first column and those in which any cell is no number (:func:`numeric`) are set flush left.
    """
    width = make_console().width
    bold = True
    for line in answer.head(width):
        yield Text(line, "bold" if bold else "")
        bold &= not line.startswith("BEST")
    if table is not None:
        yield table
    elif answer.rows:
        rows = [[*map(str, row.values())] for row in answer.rows]
        left = [name for n, name in enumerate(answer.rows[0]) if not n or any(not numeric(row[n]) for row in rows)]
        yield plain_table(list(answer.rows[0]), rows, left=left)
    yield from map(Text, answer.foot(width))


_NUMERIC = re.compile(r"[-+−±≈<>≤≥~]? ?(\$ )?\d[\d.,eE+\-−]*\s*([%×]|[A-Za-zµ/$]{1,8})?")


def numeric(text: str) -> bool:
    """Return whether the text of a cell is to be set as a number: it is one, or it is empty or an en dash (–).

    Before a number may stand a sign or one of the marks ``± ≈ < > ≤ ≥ ~``, and ``$`` with a blank; after it ``%``,
    ``×`` or a unit of up to eight letters, with or without a blank. Exponents and separators of thousands are allowed.
    """
    return not text.strip(" –") or _NUMERIC.fullmatch(text.strip()) is not None


def facts_table(facts: Iterable[tuple[str, str]], *, title: str = "") -> Table:
    """Return a table of two columns without a heading, (name, value) in each row, both flush left and shown as they
    are: names, in dim type, stay on one line, values are folded; ``title`` stands above it, none if empty."""
    table = _bare_table(title)
    table.show_header = False
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(Text(name), Text(value))
    return table


def _bare_table(title: str) -> Table:
    """Return a table with this title, none if empty, that has no lines and as yet no columns."""
    plain: dict[str, Any] = {"box": None, "pad_edge": False, "padding": (0, _GAP, 0, 0), "header_style": "dim"}
    return Table(**plain, title_justify="left", title_style="bold", title=Text(title) if title else None)
