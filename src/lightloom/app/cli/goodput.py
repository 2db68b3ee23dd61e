"""``lightloom goodput``: how much of a month trains on a cluster, what interrupts it, and what changes are worth."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Annotated

from rich.table import Table

from lightloom.app.api.arguments import Number
from lightloom.app.api.goodput import Goodput, PricedBill
from lightloom.app.api.goodput import bill as count_parts
from lightloom.app.api.goodput import goodput as estimate_goodput
from lightloom.app.cli.options import Options, Shown, read_number, read_pairs, read_prices, read_settings
from lightloom.core.errors import ConfigError
from lightloom.core.fields import Count
from lightloom.core.results import Document
from lightloom.core.units import parse
from lightloom.machines.parts.bill import Total, summed
from lightloom.machines.parts.part import FigureName, format_amount
from lightloom.planning.economics.job import GoodputOptions, World
from lightloom.reports.console import plain_table, rows_table

_SHARES = {
    "useful": "training that is kept",
    "stalled": "waiting for checkpoints",
    "recomputed": "computed again after failures",
    "restarting": "restarts",
    "waiting": "waiting for repairs",
    "slowed": "steps slowed by damage",
}


def goodput(
    cluster: str,
    *,
    set: list[str] | None = None,
    checkpoint: str | None = None,
    recovery: list[str] | None = None,
    mtbf: list[str] | None = None,
    slices: Annotated[list[Number] | None, "--slice"] = None,
    estimate: Annotated[Callable[..., Goodput], Options(estimate_goodput, fields=GoodputOptions)],
    simulate: bool = False,
    weibull: Number | None = None,
    crews: Count | None = None,
    rack: str | None = None,
) -> Shown:
    """Show how much of a month trains, what interrupts it, and what spares and faster checkpoints are worth.

    Args:
        cluster: A cluster of the catalog, or a YAML file.
        set: field=value of the cluster; repeatable.
        checkpoint (TIME[,TIME]): Time that training stops for one; STALL,SAVE: an asynchronous one, durable SAVE later.
        recovery: part=time of a restart: detection, network_detection, swap, rewiring, link_up, initialisation,
            loading; repeatable.
        mtbf: name=time between failures of a part, or of accelerator, host, network, software; repeatable.
        slices (RANKS): Ranks of a slice; repeatable.
        simulate: Play the months event by event as well.
        weibull (K): Shape of the lifetimes that are simulated; 1 is exponential.
        crews: Repairs at once that are simulated; any number without it.
        rack (NODES,TIME): Racks that fail as a whole, simulated: nodes and time between failures.
    """
    stall, comma, save = (part.strip() for part in (checkpoint or "").partition(","))
    result = estimate(
        cluster,
        slices=[int(ranks) for ranks in slices or ()],
        simulate=_world(weibull, crews, rack) or simulate,
        stall=None if checkpoint is None else stall,
        save=save if comma else None,
        recovery=read_pairs(recovery, "--recovery {!r}", "name=time, e.g. loading=60s"),
        mtbf=read_pairs(mtbf, "--mtbf {!r}", "name=time, e.g. host=60000h"),
        set=read_settings(set),
    )
    return Shown(result.to_json(), _parts(result))


def _world(weibull: float | None, crews: int | None, rack: str | None) -> World | None:
    """Return what the simulation is to have beside the closed form; None where nothing was asked for. ConfigError for
    racks without nodes or a time between failures."""
    if weibull is None and crews is None and rack is None:
        return None
    world = World(shape=1.0 if weibull is None else weibull, crews=crews or 0)
    if rack is None:
        return world
    nodes, comma, seconds = rack.partition(",")
    mean = parse(seconds.strip(), "time") if comma else 0.0
    if not mean:
        raise ConfigError(f"--rack {rack!r}: expected nodes and a time between failures of a rack, e.g. 4,20000h")
    return replace(world, rack=int(read_number(nodes, "--rack")), rack_rate=1 / mean)


def _parts(result: Goodput) -> Iterator[str | Table]:
    """Yield the summary, and tables of where the time goes, of causes, of what changes are worth and of slices, then
    causes without a rate and assumptions."""
    yield result.summary()
    yield ""
    yield _shares(result)
    yield ""
    yield from _causes(result)
    yield ""
    yield from _worth(result)
    if result.slices:
        shares = ("host_availability", ".2%"), ("reconfigurable", ".3%"), ("static", ".3%")
        rows = [
            (f"{row.ranks:,}", f"{row.block_ranks:,}", *(format(getattr(row, name), form) for name, form in shares))
            for row in result.slices
        ]
        yield ""
        yield plain_table(("slice", "block", "hosts that work", "circuit switches", "fixed slices"), rows)
    if result.missing:
        yield ""
        yield f"at most, for nothing states: {'; '.join(result.missing)}; --mtbf NAME=TIME gives it"
    yield ""
    yield from result.estimate.assumptions


def _shares(result: Goodput) -> Table:
    """Return a table of the shares of the time by the closed form, with a column of the simulated ones where months
    were played; shares of zero are left out."""
    columns, shares = ["where the time goes", "closed form"], [result.estimate.shares]
    played = result.simulated
    if played is not None:
        columns.append(f"simulated, {played.runs} × {result.months:g} months")
        shares.append(played.shares)
    names = [name for name in _SHARES if getattr(shares[0], name) > 0]
    rows = [(_SHARES[name], *(f"{getattr(each, name):.3%}" for each in shares)) for name in names]
    if played is not None and played.runs > 1:
        rows.append(("standard error of what is kept", "", f"{played.error:.3%}"))
    return plain_table(columns, rows)


def _causes(result: Goodput) -> Iterator[str | Table]:
    """Yield the table of causes of interruptions, then a line for each remedy with the causes that it is an alternative
    for and the goodput that it keeps."""
    rows = [map(str, row.values()) for row in result.display_rows()]
    title = f"{result.interruptions:.4g} interruptions in {result.months:g} months of 30 days"
    yield plain_table(("cause", "interruptions", "restart", "then"), rows, title=title)
    said: dict[str, list[str]] = {}
    for answer in result.estimate.answers:
        for response, goodput in answer.alternatives:
            kept = "" if goodput is None else f", keeps {goodput:.4%}"
            missing = "" if response.possible else "cannot: "
            said.setdefault(f"{response.remedy}: {missing}{response.why}{kept}", []).append(answer.cause.name)
    for text, names in said.items():
        yield f"{', '.join(names)}: {text}"


def _worth(result: Goodput) -> Iterator[str | Table]:
    """Yield a table of what single changes are worth, the price of a node, and a table of numbers of spare nodes, where
    there are any, with the price below which the last one pays."""
    price = result.estimate.node_price
    least = f"{price.bound} ".lstrip()
    rows = [
        {
            "change": change.name,
            "kept": f"{change.goodput:.3%}",
            "share of the machine's price": f"{change.gain:.3%}",
            "worth": "not sourced" if change.dollars is None else least + format_amount(change.dollars, "dollars"),
        }
        for change in result.changes
    ]
    yield rows_table(rows)
    if price.value is not None:
        total = format_amount(result.estimate.dollars or 0, "dollars")
        yield f"a node in use: {price.text()}; the machine with its spares: {least}{total}"
    counts = [
        {
            "spare nodes": f"{row.spares}{' (chosen)' if row.chosen else ''}",
            "kept": f"{row.goodput:.3%}",
            "the last pays below": "" if not row.spares else f"{row.relative_worth:.3g} nodes",
            "in dollars": "" if row.worth is None else least + format_amount(row.worth, "dollars"),
        }
        for row in result.spare_counts
    ]
    if counts:
        yield ""
        yield rows_table(counts)


# ``lightloom bill``: what a fabric or a cluster is built of, and what that costs, draws and how often it fails.

_COLUMNS: dict[str, FigureName] = {
    "price a rank": "dollars",
    "power a rank": "static_power",
    "power of load a rank": "dynamic_energy",
    "failures a rank": "mtbf",
}


def bill(
    built: str,
    *,
    ranks: int | None = None,
    set: list[str] | None = None,
    price: list[str] | None = None,
    explain: bool = False,
) -> Shown:
    """Count the parts of a fabric or a cluster for each rank, with prices, watts and failures, and what lacks them.

    Args:
        built (FABRIC|CLUSTER): A name of the catalog, or a YAML file.
        ranks: Ranks; a cluster's own without it.
        set: field=value of the fabric, or a choice of the bill (circuit_switch=polatis-7000).
        price (PART=PRICE): part=price of one part of the fabric, e.g. wdm-engine='$ 120'; repeatable.
        explain: List the formula behind the count of each part.
    """
    found = count_parts(built, ranks, set=read_settings(set), prices=read_prices(price))
    document = found.to_json()
    return Shown(document, _bill_parts(found, document, explain))


def _bill_parts(found: PricedBill, document: Document, explain: bool) -> Iterator[str | Table]:
    """Yield a table with a row for each part (count and figures of a rank, lines of the same part added up), sums of a
    rank and of all, what is not stated, notes, and with ``explain`` the formulas of the counts."""
    made = found.bill
    shown = {title: name for title, name in _COLUMNS.items() if any(line.total(name).value != 0 for line in made.lines)}
    rows = []
    for part in dict.fromkeys(line.part.name for line in made.lines):
        lines = [line for line in made.lines if line.part.name == part]
        count = sum(line.per_rank for line in lines)
        totals = ([line.total(name) for line in lines] for name in shown.values())
        cells = (_cell(summed(each[0].unit, each)) for each in totals)
        rows.append((part, f"{count:.4g}", f"{count * made.ranks:,.6g}", *cells))
    yield plain_table(("part", "a rank", "in all", *shown), rows, title=f"{found.name}, {made.ranks:,} ranks")
    yield ""
    sums = {"price": made.dollars, "power, busy or idle": made.static_power}
    sums |= {"power of load besides": made.dynamic_power, "failures": made.failure_rate}
    yield from (_total(name, total, made.ranks) for name, total in sums.items())
    yield from (f"not stated: {part}" for part in document["missing"])
    yield from (f"note: {note}" for note in made.notes)
    yield from (f"note: {name} changes nothing here" for name in found.unused)
    if explain:
        yield ""
        yield from made.explain()


def _cell(total: Total) -> str:
    """Return a total as a table's cell: "?" for an unknown one, empty for zero."""
    return "?" if total.value is None else "" if total.value == 0 else format_amount(total.value, total.unit)


def _total(name: str, total: Total, ranks: int) -> str:
    """Return a line on a total of a rank and of all ranks, with what it leaves out and what it assumes; "none" for
    zero."""
    if total.value is None:
        return f"{name}: {total.text()}"
    shown = "none"
    if total.value or total.missing:
        every = format_amount(total.value * ranks, total.unit)
        shown = f"{total.bound} {total.known_text()} a rank, {every} in all".strip()
    assumed = [f"assumptions: {', '.join(total.assumptions)}"] if total.assumptions else []
    return f"{name}: {'; '.join((shown, *total.reasons(), *assumed))}"
