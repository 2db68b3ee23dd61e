"""``lightloom goodput``: how much of a month trains on a cluster, what interrupts it, and what changes are worth."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

import typer
from rich.table import Table

from lightloom.app.api.goodput import Goodput, PricedBill
from lightloom.app.api.goodput import bill as priced
from lightloom.app.api.goodput import goodput as estimate
from lightloom.app.cli.options import (
    Json,
    Prices,
    count_option,
    option,
    parsed_option,
    print_result,
    read_pairs,
    read_prices,
    read_settings,
)
from lightloom.core.errors import ConfigError
from lightloom.core.results import Document
from lightloom.core.units import parse
from lightloom.machines.parts.bill import Total, summed
from lightloom.machines.parts.part import FigureName, format_amount
from lightloom.planning.economics.job import World
from lightloom.reports.console import plain_table, rows_table

_SHARES = {
    "useful": "training that is kept",
    "stalled": "waiting for checkpoints",
    "recomputed": "computed again after failures",
    "restarting": "restarts",
    "waiting": "waiting for repairs",
    "slowed": "steps slowed by damage",
}
_Pairs = list[str] | None


def read_number(text: str, name: str) -> float:
    """Return a number, 0 or more, given to an option.

    Raises:
        ConfigError: anything else.
    """
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not number >= 0 or number == float("inf"):
        raise ConfigError(f"{name} {text!r}: expected a number, 0 or more")
    return number


def read_share(text: str, name: str) -> float:
    """Return a share between 0 and 1 given to an option, which may be written in per cent.

    Raises:
        ConfigError: anything else.
    """
    share = read_number(text.strip().removesuffix("%"), name) / (100 if text.strip().endswith("%") else 1)
    if share > 1:
        raise ConfigError(f"{name} {text!r}: expected 0 to 1, or per cent as 99%")
    return share


number_option, share_option = partial(parsed_option, read_number), partial(parsed_option, read_share)


_REWRITTEN = ("settings", "checkpoint", "weibull", "crews", "rack", "as_json")
"""Options that the function of the API takes in another form."""


def goodput(
    *,
    cluster: Annotated[str, typer.Argument(help="A cluster of the catalog, or a YAML file.")],
    settings: Annotated[_Pairs, option("field=value of the cluster; repeatable.", name="--set")] = None,
    ranks: Annotated[
        int | None, count_option("--ranks", "Ranks of the job, with the cluster's parts for each.")
    ] = None,
    months: Annotated[float, number_option("--months", "Months of 30 days that are counted and simulated.", "N")] = 1,
    checkpoint: Annotated[
        str | None,
        option("Time that training stops for one; STALL,SAVE: an asynchronous one, durable SAVE later.", "TIME[,TIME]"),
    ] = None,
    interval: Annotated[str | None, option("Useful time between checkpoints; the optimum without it.", "TIME")] = None,
    restart: Annotated[str | None, option("Time of every restart.", "TIME")] = None,
    recovery: Annotated[
        _Pairs,
        option(
            "part=time of a restart: detection, network_detection, swap, rewiring, link_up, initialisation, loading; "
            "repeatable."
        ),
    ] = None,
    rates: Annotated[
        str | None, option("Log of interruptions for all causes: llama-3, rsc-1, rsc-2 or a YAML file.", "NAME")
    ] = None,
    mtbf: Annotated[
        _Pairs, option("name=time between failures of a part, or of accelerator, host, network, software; repeatable.")
    ] = None,
    interruption_time: Annotated[str | None, option("Time between interruptions of the whole job.", "TIME")] = None,
    spares: Annotated[int | None, count_option("--spares", "Spare nodes; as many as pay without it.", least=0)] = None,
    repair: Annotated[str | None, option("Time until a failed node works again.", "TIME")] = None,
    node_ranks: Annotated[int | None, count_option("--node-ranks", "Ranks that fail together.", least=1)] = None,
    remedy: Annotated[
        str | None, option("After a failed link: restart, rewire or damaged; the best without it.", "NAME")
    ] = None,
    spare_channels: Annotated[
        int | None, count_option("--spare-channels", "Spare wavelengths or ports of every rank.", least=0)
    ] = None,
    communication: Annotated[
        float | None,
        share_option("--communication", "Share of a step that waits for communication, as 30% or 0.3.", "SHARE"),
    ] = None,
    damage_slowdown: Annotated[
        float | None,
        number_option("--damage-slowdown", "Times as long as collectives take around a failed link.", "TIMES"),
    ] = None,
    node_price: Annotated[str | None, option("Price of a node in use, e.g. 300 k$.", "PRICE")] = None,
    spare_price: Annotated[str | None, option("Price of a spare node, beside --node-price.", "PRICE")] = None,
    slices: Annotated[list[float] | None, number_option("--slice", "Ranks of a slice; repeatable.", "RANKS")] = None,
    block: Annotated[int | None, count_option("--block", "Ranks of a block of slices.", least=1)] = None,
    host_availability: Annotated[
        float | None, share_option("--host-availability", "Share of the time that a host works, for slices.", "SHARE")
    ] = None,
    simulate: Annotated[bool, option("Play the months event by event as well.", name="--simulate")] = False,
    runs: Annotated[int, count_option("--runs", "How often the months are played.", least=1)] = 8,
    seed: Annotated[int, count_option("--seed", "Seed of the simulation.", least=0)] = 0,
    weibull: Annotated[
        float | None, number_option("--weibull", "Shape of the lifetimes that are simulated; 1 is exponential.", "K")
    ] = None,
    crews: Annotated[
        int | None, count_option("--crews", "Repairs at once that are simulated; any number without it.", least=1)
    ] = None,
    rack: Annotated[
        str | None, option("Racks that fail as a whole, simulated: nodes and time between failures.", "NODES,TIME")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show how much of a month trains, what interrupts it, and what spares and faster checkpoints are worth."""
    given: dict[str, Any] = {name: value for name, value in locals().items() if name not in _REWRITTEN}
    stall, comma, save = (part.strip() for part in (checkpoint or "").partition(","))
    given |= {"stall": None if checkpoint is None else stall, "save": save if comma else None}
    given |= {
        "slices": [int(ranks) for ranks in slices or ()],
        "simulate": _world(weibull, crews, rack) or simulate,
        "recovery": read_pairs(recovery, "--recovery {!r}", "name=time, e.g. loading=60s"),
        "mtbf": read_pairs(mtbf, "--mtbf {!r}", "name=time, e.g. host=60000h"),
        "set": read_settings(settings),
    }
    result = estimate(**given)
    print_result(result.to_json(), as_json, _parts(result))


def _world(weibull: float | None, crews: int | None, rack: str | None) -> World | None:
    """Return what the simulation is to have beside the closed form; None where nothing was asked for."""
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
    """Yield the lines and tables that the command prints."""
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
    """Where the time goes by the closed form, and as it was played where it was."""
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
    """Yield the table of causes of interruptions, then each remedy with the causes that it is an alternative for."""
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
    """Yield what single changes and each number of spare nodes are worth, as tables and sentences."""
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
    print_result(document, as_json, _bill_parts(found, document, explain))


def _bill_parts(found: PricedBill, document: Document, explain: bool) -> Iterator[str | Table]:
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
    return "?" if total.value is None else "" if total.value == 0 else format_amount(total.value, total.unit)


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
