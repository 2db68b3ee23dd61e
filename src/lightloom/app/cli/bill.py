"""``lightloom bill``: what a fabric or a cluster is built of, and what that costs, draws and how often it fails."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer
from rich.table import Table

from lightloom.app.api.goodput import PricedBill
from lightloom.app.api.goodput import bill as priced
from lightloom.app.cli.options import Json, Prices, count_option, option, print_result, read_prices, read_settings
from lightloom.core.results import Document
from lightloom.machines.parts.bill import Total, summed
from lightloom.machines.parts.part import FigureName, format_amount
from lightloom.reports.console import plain_table

_COLUMNS: tuple[tuple[str, FigureName], ...] = (
    ("price a rank", "dollars"),
    ("power a rank", "static_power"),
    ("power of load a rank", "dynamic_energy"),
    ("failures a rank", "mtbf"),
)


def bill(
    built: Annotated[str, typer.Argument(metavar="FABRIC|CLUSTER", help="A name of the catalog, or a YAML file.")],
    *,
    ranks: Annotated[int | None, count_option("--ranks", "Ranks; a cluster's own without it.")] = None,
    settings: Annotated[
        list[str] | None,
        option("field=value of the fabric, or a choice of the bill (circuit_switch=polatis-7000).", name="--set"),
    ] = None,
    prices: Prices = None,
    explain: Annotated[bool, option("List the formula behind the count of each part.", name="--explain")] = False,
    as_json: Json = False,
) -> None:
    """Count the parts of a fabric or a cluster for each rank, with prices, watts and failures, and what lacks them."""
    found = priced(built, ranks, set=read_settings(settings), prices=read_prices(prices))
    document = found.to_json()
    print_result(document, as_json, _parts(found, document, explain))


def _parts(found: PricedBill, document: Document, explain: bool) -> Iterator[str | Table]:
    made = found.bill
    shown = [(title, name) for title, name in _COLUMNS if any(line.total(name).value != 0 for line in made.lines)]
    rows = []
    for part in dict.fromkeys(line.part.name for line in made.lines):
        lines = [line for line in made.lines if line.part.name == part]
        count = sum(line.per_rank for line in lines)
        cells = (_cell(summed(lines[0].total(name).unit, (line.total(name) for line in lines))) for _, name in shown)
        rows.append((part, f"{count:.4g}", f"{count * made.ranks:,.6g}", *cells))
    columns = ("part", "a rank", "in all", *(title for title, _ in shown))
    yield plain_table(columns, rows, title=f"{found.name}, {made.ranks:,} ranks", left=("part",))
    yield ""
    yield from (_total(name, total, made.ranks) for name, total in _totals(found))
    for part in document["missing"]:
        yield f"not stated: {part}"
    yield from (f"note: {note}" for note in made.notes)
    yield from (f"note: {name} changes nothing here" for name in found.unused)
    if explain:
        yield ""
        yield from made.explain()


def _cell(total: Total) -> str:
    return "?" if total.value is None else "" if total.value == 0 else format_amount(total.value, total.unit)


def _totals(found: PricedBill) -> list[tuple[str, Total]]:
    made = found.bill
    return [
        ("price", made.dollars),
        ("power, busy or idle", made.static_power),
        ("power of load besides", made.dynamic_power),
        ("failures", made.failure_rate),
    ]


def _total(name: str, total: Total, ranks: int) -> str:
    """Return a total of a rank and of all ranks, with what it leaves out and what it assumes."""
    if total.value is None:
        return f"{name}: {total.text()}"
    shown = "none"
    if total.value or total.missing:
        every = format_amount(total.value * ranks, total.unit)
        shown = f"{total.bound} {total.known_text()} a rank, {every} in all".strip()
    assumed = [f"assumptions: {', '.join(total.assumptions)}"] if total.assumptions else []
    return f"{name}: {'; '.join((shown, *total.reasons(), *assumed))}"
