"""The same rows as in the pages, for terminals: tables that give up columns rather than break lines.

    #  plan                         step      samples/s  where the time goes   energy       memory    vs bound
    1  fsdp · ring-two-way-striped  13.77 ms  148,900    ██████▓               not sourced  2.3 GiB   1.02×

Bars tell parts by shade as well as by colour, since colour is only used where output goes to a terminal.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import IO, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lightloom.core.claims import Claim
from lightloom.core.units import format_energy, format_size, format_time
from lightloom.reports.figures.palette import SHARES
from lightloom.reports.numbers import format_claim, format_rate, format_ratio
from lightloom.reports.report import FRONT, CollectiveRow, RankingRow

_BLOCKS = dict(zip(SHARES, "█▓░·", strict=True))
_PLAIN_BLOCKS = dict(zip(SHARES, "#=+.", strict=True))
_STATUS_STYLES = {"match": "green", "deviates": "yellow", "not reproducible": "dim"}
_PIPE_WIDTH = 120
"""Columns where output is no terminal and ``$COLUMNS`` is not set."""


def make_console(file: IO[str] | None = None) -> Console:
    """A console on ``file`` (stdout): colour and the window's width on a terminal, plain wide text elsewhere."""
    out = sys.stdout if file is None else file
    console = Console(file=out, highlight=False, markup=False, emoji=False)
    return (
        console
        if console.is_terminal
        else Console(
            file=out, highlight=False, markup=False, emoji=False, no_color=True, width=max(console.width, _PIPE_WIDTH)
        )
    )


def to_text(table: Table, width: int = _PIPE_WIDTH) -> str:
    """A table as plain text."""
    buffer = io.StringIO()
    Console(file=buffer, width=width, no_color=True, color_system=None, highlight=False).print(table)
    return buffer.getvalue()


def ranking_table(
    rows: Sequence[RankingRow],
    width: int,
    *,
    title: str = "",
    places: Sequence[int] = (),
    ascii_only: bool = False,
) -> Table:
    """Plans with the parts of their time as bars, which share one scale a sample.

    Args:
        rows: the plans, in their order.
        width: columns of the terminal.
        title: heading of the table.
        places: of the rows in the ranking; 1, 2, 3, ... without them.
        ascii_only: whether bars are drawn with ASCII characters.
    """
    longest = max((sum(row.per_sample().values()) for row in rows), default=0.0)
    blocks = _PLAIN_BLOCKS if ascii_only else _BLOCKS
    layout = _Layout(rows, width)
    table = _table(title)
    table.add_column("#", justify="right", style="dim")
    table.add_column("plan", overflow="fold")
    for name, options in layout.columns:
        table.add_column(name, **options)
    for place, row in zip(places or range(1, len(rows) + 1), rows, strict=True):
        title_cell = Text(row.plan if layout.compressed else row.name).append(
            f" {FRONT}" if row.on_front else "", "green"
        )
        cells = {
            "where": Text(row.site),
            "samples": Text(f"{row.global_batch:,}"),
            "step": Text(format_time(row.step_time), style="bold"),
            "samples/s": Text(format_rate(row.samples_per_second)),
            "time": breakdown_bar(row.per_sample(), longest, layout.bar, blocks),
            "compression": _compression(row),
            "energy/sample": Text(row.energy_per_sample, style="dim" if row.energy is None else ""),
            "memory": Text("–" if row.memory is None else format_size(row.memory)),
            "vs bound": Text(format_ratio(row.lower_bound_ratio)),
            "checks": _checks(row),
        }
        chosen = ("time" if name == "where the time goes" else name for name, _ in layout.columns)
        table.add_row(Text(str(place)), title_cell, *(cells[name] for name in chosen))
    return table


class _Layout:
    """The columns of a ranking that a terminal has room for."""

    def __init__(self, rows: Sequence[RankingRow], width: int) -> None:
        wide, medium, widest = width >= 100, width >= 76, width >= 150
        self.bar = 24 if widest else 19 if width >= 110 else 14 if width >= 80 else 8
        self.compressed = wide and any(row.compression for row in rows)
        right: dict[str, Any] = {"justify": "right", "no_wrap": True}
        bar: dict[str, Any] = {"no_wrap": True, "width": self.bar}
        columns: list[tuple[str, dict[str, Any], bool]] = [
            ("where", {"overflow": "fold"}, len({row.site for row in rows}) > 1),
            ("samples", right, len({row.global_batch for row in rows}) > 1),
            ("step", right, True),
            ("samples/s", right, medium and any(row.global_batch > 1 for row in rows)),
            ("where the time goes" if self.bar >= 19 else "time", bar, width >= 50),
            ("compression", {"overflow": "fold"}, self.compressed),
            ("energy/sample", right, widest or (wide and any(row.known_energy or row.energy for row in rows))),
            ("memory", right, wide and any(row.memory is not None for row in rows)),
            ("vs bound", right, medium and any(row.lower_bound_ratio is not None for row in rows)),
            ("checks", {"no_wrap": True}, medium),
        ]
        self.columns = [(name, options) for name, options, shown in columns if shown]


def _compression(row: RankingRow) -> Text:
    effect = " ".join(part for part in (row.compression, row.compression_effect) if part)
    return Text(effect or "none", style="" if row.compression else "dim")


def legend(*, ascii_only: bool = False) -> Text:
    """What the blocks of a bar mean."""
    blocks = _PLAIN_BLOCKS if ascii_only else _BLOCKS
    text = Text()
    for key, (words, colour) in SHARES.items():
        text.append(f"{blocks[key]} ", style=colour).append(f"{words}  ", style="dim")
    text.rstrip()
    return text


def breakdown_bar(
    breakdown: Mapping[str, float], whole: float, cells: int, blocks: Mapping[str, str] = _BLOCKS
) -> Text:
    """A bar of ``cells`` columns for ``whole`` seconds; what takes any time at all shows if there is room."""
    text = Text()
    if whole <= 0:
        return text
    for key, length in _cells({key: breakdown.get(key, 0.0) / whole * cells for key in SHARES}).items():
        text.append(blocks[key] * length, style=SHARES[key][1])
    return text


def collective_table(rows: Sequence[CollectiveRow], width: int, *, title: str = "") -> Table:
    """Algorithms beside the bound that none of them can beat."""
    table = _table(title)
    table.add_column("algorithm", overflow="fold")
    for name in ("steps", "time", "vs bound"):
        table.add_column(name, justify="right", no_wrap=True)
    if width >= 70:
        table.add_column("lower bound", justify="right", no_wrap=True)
    if width >= 84:
        table.add_column("energy", justify="right", no_wrap=True)
        table.add_column("checks", no_wrap=True)
    if width >= 120:
        table.add_column("bound set by", overflow="fold", style="dim")
    for row in rows:
        cells = [Text(row.algorithm), Text(str(row.steps)), Text(format_time(row.time), style="bold")]
        cells.append(Text(format_ratio(row.times_bound)))
        if width >= 70:
            cells.append(Text(format_time(row.lower_bound)))
        if width >= 84:
            cells.append(Text(format_energy(row.energy), style="dim" if row.energy is None else ""))
            cells.append(_flag(row.verified, "verified", "NOT VERIFIED"))
        if width >= 120:
            cells.append(Text(row.bound_by))
        table.add_row(*cells)
    return table


def claims_table(claims: Iterable[Claim], width: int, *, title: str = "") -> Table:
    """Published figures beside ours; what deviates says why."""
    table = _table(title)
    table.add_column("figure", overflow="fold", no_wrap=width >= 140)
    for name in ("paper", "ours"):
        table.add_column(name, justify="right", overflow="fold")
    table.add_column("unit", overflow="fold")
    table.add_column("status", no_wrap=width >= 60, overflow="fold")
    if width >= 90:
        table.add_column("why", overflow="fold", style="dim")
    for claim in claims:
        status = Text(claim.status + (" (fitted)" if claim.fitted else ""), style=_STATUS_STYLES[claim.status])
        cells = [
            Text(claim.id),
            Text(format_claim(claim.paper)),
            Text(format_claim(claim.ours)),
            Text(claim.unit),
            status,
        ]
        table.add_row(*cells, *([Text(claim.why)] if width >= 90 else []))
    return table


def plain_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, title: str = "") -> Table:
    """Text in columns, the first flush left and the others flush right."""
    table = _table(title)
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if place else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def facts_table(facts: Iterable[tuple[str, str]], *, title: str = "") -> Table:
    """Names and what they are, without a heading."""
    table = _table(title)
    table.show_header = False
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(Text(name), Text(value))
    return table


def _table(title: str) -> Table:
    return Table(
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
        header_style="dim",
        title_justify="left",
        title_style="bold",
        title=Text(title) if title else None,
    )


def _cells(exact: Mapping[str, float]) -> dict[str, int]:
    """Whole cells: the edges between parts are rounded, not the parts, so that the bar is as long as it should be."""
    edges = [round(edge) for edge in accumulate(exact.values(), initial=0.0)]
    return {key: end - begin for key, begin, end in zip(exact, edges[:-1], edges[1:], strict=True)}


def _checks(row: RankingRow) -> Text:
    text = _flag(row.verified, "verified", "NOT VERIFIED")
    if row.fits is not None:
        text = text.append(" ").append_text(_flag(row.fits, "fits", "DOES NOT FIT"))
    return text


def _flag(good: bool, yes: str, no: str) -> Text:
    return Text(yes, style="green") if good else Text(no, style="bold red")
