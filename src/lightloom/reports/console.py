"""Tables of the pages' rows for terminals, which give up columns rather than break words.

    #  plan                         step      samples/s  where the time goes   energy       memory    vs bound
    1  fsdp · ring-two-way-striped  13.77 ms  148,900    ██████▓               not sourced  2.3 GiB   1.02×

Bars tell parts by shade as well as by colour, since colour is only used where output goes to a terminal.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import IO, Any, Generic, TypeVar

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from lightloom.core.answer import Answer
from lightloom.core.claims import Claim, Status
from lightloom.core.files import visible
from lightloom.core.units import format_claim, format_rate, format_ratio, format_size, format_time
from lightloom.reports.figures.canvas import SHARES
from lightloom.reports.report import FRONT, RankingRow

_BLOCKS = dict(zip(SHARES, "█▓░·", strict=True))
_STATUS_STYLES: dict[Status, str] = {
    "match": "green",
    "derived": "cyan",
    "stand-in": "cyan",
    "by construction": "dim",
    "deviates": "yellow",
    "not reproducible": "dim",
}
_PIPE_WIDTH = 120
"""Columns where output is no terminal and ``$COLUMNS`` is not set."""
_PIPED_WORDS = 60
"""Columns for the wrapped text of a table beside its whole words, where output is no terminal."""
_GAP = 2
"""Blanks between two columns of a table."""
_PARTS = re.compile(r"[^._]*[._]+|[^._]+")
"""Parts of a name, each with the dots and underscores that follow it."""
_Row = TypeVar("_Row")


class _VisibleConsole(Console):
    """A console on which names and texts of files cannot control the terminal."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render a table or a text, with escapes in the place of characters that control."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


def make_console(file: IO[str] | None = None) -> Console:
    """Return a console on ``file`` (stdout by default): colour and the window's width on a terminal, elsewhere plain
    text of at least 120 columns."""
    options: dict[str, Any] = {"file": file or sys.stdout, "highlight": False, "markup": False, "emoji": False}
    console = _VisibleConsole(**options)
    if console.is_terminal:
        return console
    return _VisibleConsole(**options, no_color=True, width=max(console.width, _PIPE_WIDTH))


@dataclass(frozen=True, slots=True)
class _Column(Generic[_Row]):
    """A column of a table that may be given up for want of room."""

    name: str
    cell: Callable[[_Row], Text]
    rank: int = 0
    """Columns of rank 0 always stay; of the others, those of the largest rank are given up first."""
    wraps: bool = False
    """True when cells may be broken between words."""
    right: bool = False
    """True when cells are set flush right."""
    dotted: bool = False
    """True when cells are names, which may be broken after a dot or an underscore."""


def _fitted_table(columns: Sequence[_Column[_Row]], rows: Sequence[_Row], width: int | None, title: str) -> Table:
    """Return a table of rows in as many of the columns as ``width`` has room for without breaking a word.

    Columns of the largest rank are given up first, those of rank 0 never; without a width all stay.
    """
    cells = {column.name: [column.cell(row) for row in rows] for column in columns}
    dotted = {column.name for column in columns if column.dotted and width is not None}
    least: dict[str, int] = {}
    most: dict[str, int] = {}
    for name, wraps in ((column.name, column.wraps) for column in columns):
        texts = [Text(name), *cells[name]]
        most[name] = max(text.cell_len for text in texts)
        words = [word for text in texts for word in text.plain.split(" ")] if wraps else []
        parts = (part for word in words for part in (_PARTS.findall(word) if name in dotted else [word]))
        least[name] = max(map(cell_len, parts), default=most[name])
    shown = list(columns)
    if width is None:
        width = max(_PIPE_WIDTH, sum(least[column.name] + _GAP for column in shown) + _PIPED_WORDS)
    while sum(least[column.name] + _GAP for column in shown) > width:
        last = max(shown, key=lambda column: column.rank)
        if last.rank == 0:
            break
        shown.remove(last)
    spare = width - sum(least[column.name] + _GAP for column in shown)
    table = _bare_table(title)
    for column in shown:
        wider = max(min(most[column.name] - least[column.name], spare), 0) if column.wraps else 0
        spare -= wider
        table.add_column(
            column.name,
            justify="right" if column.right else "left",
            overflow="fold",
            no_wrap=not column.wraps,
            width=least[column.name] + wider if spare >= 0 else None,
        )
        if column.name in dotted:
            cells[column.name] = [_broken(text, least[column.name] + wider) for text in cells[column.name]]
    for row_cells in zip(*(cells[column.name] for column in shown), strict=True):
        table.add_row(*row_cells)
    return table


def _broken(name: Text, width: int) -> Text:
    """Return a name broken into lines after dots and underscores only, each of at most ``width`` cells or of one longer
    part."""
    lines = [""]
    for part in _PARTS.findall(name.plain):
        if lines[-1] and cell_len(lines[-1] + part) > width:
            lines.append("")
        lines[-1] += part
    return Text("\n".join(lines), name.style)


def ranking_table(rows: Sequence[RankingRow], width: int, *, title: str = "") -> Table:
    """Return a table of plans, a row each in their order, with bars of the parts of their time for a sample, all on one
    scale.

    ``width`` is the terminal's. Columns that say nothing of these rows, or for which there is no room, are left out.
    """
    longest = max((sum(row.per_sample().values()) for row in rows), default=0.0)
    bar = 24 if width >= 150 else 19 if width >= 110 else 14 if width >= 80 else 8
    wide = width >= 100
    optional = {
        "where": len({row.site for row in rows}) > 1,
        "samples": len({row.global_batch for row in rows}) > 1,
        "samples/s": any(row.global_batch > 1 for row in rows),
        "exchange": wide and any(row.exchange for row in rows),
        "energy/sample": width >= 150 or any(row.known_energy or row.energy for row in rows),
        "memory": any(row.memory is not None for row in rows),
        "vs bound": any(row.lower_bound_ratio is not None for row in rows),
        "90 %": any(row.interval for row in rows),
    }

    def plan(row: RankingRow) -> Text:
        """Return the cell of a plan: with its exchange where there is no column of it, marked where it is on the
        front."""
        text = Text(row.plan if optional["exchange"] else row.name)
        return text.append(f" {FRONT}", "green") if row.on_front else text

    columns: list[_Column[RankingRow]] = [
        _Column("#", lambda row: Text(str(row.place or ""), "dim"), right=True),
        _Column("plan", plan, wraps=True),
        _Column("where", lambda row: Text(row.site), 1, wraps=True),
        _Column("samples", lambda row: Text(f"{row.global_batch:,}"), 2, right=True),
        _Column("step", lambda row: Text(format_time(row.step_time), "bold"), right=True),
        _Column("90 %", lambda row: Text(row.interval), 9, right=True),
        _Column("samples/s", lambda row: Text(format_rate(row.samples_per_second)), 3, right=True),
        _Column(
            "where the time goes" if bar >= 19 else "time", lambda row: breakdown_bar(row.per_sample(), longest, bar), 4
        ),
        _Column("exchange", _exchange_cell, 2, wraps=True),
        _Column("energy/sample", lambda row: _energy_cell(row.energy_per_sample, row.energy), 8, right=True),
        _Column("memory", lambda row: Text("–" if row.memory is None else format_size(row.memory)), 7, right=True),
        _Column("vs bound", lambda row: Text(format_ratio(row.lower_bound_ratio)), 6, right=True),
        _Column("checks", _checks_cell, 5),
    ]
    return _fitted_table([column for column in columns if optional.get(column.name, True)], rows, width, title)


def _exchange_cell(row: RankingRow) -> Text:
    """Return the exchange of gradients with its effect on time and its accuracy in words; ``none`` where gradients stay
    as they are."""
    accuracy = f"accuracy: {row.exchange_accuracy}" if row.exchange_accuracy else ""
    effect = " ".join(filter(None, [row.exchange, "; ".join(filter(None, [row.exchange_effect, accuracy]))]))
    return Text(effect or "none", style="" if row.exchange else "dim")


def legend() -> Text:
    """Return one line with the block of each part of a bar and its meaning."""
    text = Text()
    for key, (words, colour) in SHARES.items():
        text.append(f"{_BLOCKS[key]} ", style=colour).append(f"{words}  ", style="dim")
    text.rstrip()
    return text


def breakdown_bar(breakdown: Mapping[str, float], whole: float, cells: int) -> Text:
    """Return a bar in which ``cells`` columns stand for ``whole`` seconds, a block a column by part; empty if ``whole``
    is 0.

    Edges between parts are rounded, so that a part of less than a column may not show.
    """
    text = Text()
    if whole <= 0:
        return text
    # The edges between parts are rounded, not the parts, so that the bar is as long as it should be.
    edges = [round(edge / whole * cells) for edge in accumulate((breakdown.get(key, 0.0) for key in SHARES), initial=0)]
    for key, begin, end in zip(SHARES, edges[:-1], edges[1:], strict=True):
        text.append(_BLOCKS[key] * (end - begin), style=SHARES[key][1])
    return text


def claims_table(claims: Iterable[Claim], width: int | None, *, title: str = "") -> Table:
    """Return a table of published figures beside ours, a row a claim; what deviates says why. Without a width, nothing
    is broken or given up."""

    def status(claim: Claim) -> Text:
        """Return the status of a claim in its colour, with ``(fitted)`` behind it where it is fitted."""
        return Text(claim.status + (" (fitted)" if claim.fitted else ""), style=_STATUS_STYLES[claim.status])

    columns: list[_Column[Claim]] = [
        _Column("figure", lambda claim: Text(claim.id), wraps=True, dotted=True),
        _Column("paper", lambda claim: Text(format_claim(claim.paper)), wraps=True, right=True),
        _Column("ours", lambda claim: Text(format_claim(claim.ours)), wraps=True, right=True),
        _Column("unit", lambda claim: Text(claim.unit), wraps=True),
        _Column("status", status, wraps=width is not None and width < 60),
        _Column("why", lambda claim: Text(claim.why, "dim"), 1, wraps=True),
    ]
    return _fitted_table(columns, list(claims), width, title)


def plain_table(
    columns: Sequence[str], rows: Iterable[Iterable[str]], *, title: str = "", left: Sequence[str] | None = None
) -> Table:
    """Return a table of text, columns in ``left`` (the first without it) flush left and the others flush right."""
    table = _bare_table(title)
    for column in columns:
        flush_left = column in (columns[:1] if left is None else left)
        table.add_column(column, justify="left" if flush_left else "right", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def rows_table(rows: Sequence[Mapping[str, object]], *, title: str = "", left: Sequence[str] | None = None) -> Table:
    """Return a table of a result's rows, as :func:`plain_table`; the keys of the first row (there must be one) are the
    heading."""
    return plain_table(list(rows[0]), (map(str, row.values()) for row in rows), title=title, left=left)


def answer_parts(answer: Answer, table: Table | None = None) -> Iterator[str | Text | Table]:
    """Yield an answer as lines and a table that fit the terminal: the question in bold and what is best, the rows
    (``table`` in their place, where one is given), then what would change the answer, its limit and what to ask."""
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
    """Return True for a cell that is a number, a unit may follow, or is empty."""
    return not text.strip(" –") or _NUMERIC.fullmatch(text.strip()) is not None


def facts_table(facts: Iterable[tuple[str, str]], *, title: str = "") -> Table:
    """Return a table of two columns, a name and its value in each row, without a heading."""
    table = _bare_table(title)
    table.show_header = False
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(Text(name), Text(value))
    return table


def _bare_table(title: str) -> Table:
    """Return an empty table without lines and columns, with this title unless it is empty."""
    return Table(
        box=None,
        pad_edge=False,
        padding=(0, _GAP, 0, 0),
        header_style="dim",
        title_justify="left",
        title_style="bold",
        title=Text(title) if title else None,
    )


def _energy_cell(text: str, joules: float | None) -> Text:
    """Return the text of an energy, faint where ``joules`` is None: not all of its parts are known."""
    return Text(text, style="dim" if joules is None else "")


def _checks_cell(row: RankingRow) -> Text:
    """Return words on a row: ``verified`` or ``closed form``, ``fits`` or ``DOES NOT FIT`` if memory is known, ``no
    framework`` if none runs it."""
    text = Text("verified", "green") if row.verified else Text("closed form", "dim")
    if row.fits is not None:
        text.append(" ").append(*("fits", "green") if row.fits else ("DOES NOT FIT", "bold red"))
    return text if row.runnable else text.append(" no framework", "yellow")
