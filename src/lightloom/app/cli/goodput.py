"""``lightloom goodput``: how much of a month trains on a cluster, what interrupts it, and what changes are worth."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Annotated

from rich.table import Table

from lightloom.app.api.arguments import Natural
from lightloom.app.api.goodput import Goodput, GoodputSettings, PricedBill, format_duration
from lightloom.app.api.goodput import bill as count_parts
from lightloom.app.api.goodput import goodput as estimate_goodput
from lightloom.app.cli.options import PartPrices, Shown, read_prices, read_settings
from lightloom.core.answer import MOST_ROWS
from lightloom.core.configfile import read_config
from lightloom.core.errors import InputError, UnknownNameError
from lightloom.core.fields import Count
from lightloom.core.results import Document, cells, in_groups
from lightloom.machines.clusters.cluster import ClusterFile
from lightloom.machines.parts.bill import Total, missing_text, summed
from lightloom.machines.parts.part import FigureName, format_amount
from lightloom.reports.console import Parts, rows_table, screen

_WORDS = ("cause", "remedy")
"""Columns of the causes of interruptions that hold words."""
_SHARES = {
    "stalled": "waiting for checkpoints",
    "recomputed": "computing again after failures",
    "restarting": "restarts",
    "waiting": "waiting for repairs",
    "slowed": "steps slowed by damage",
}


def goodput(
    cluster: str,
    *,
    ranks: int | None = None,
    set: list[str] | None = None,
    settings: Path | None = None,
    slices: Annotated[list[Count] | None, "--slice"] = None,
    simulate: bool = False,
    seed: Natural = 0,
    explain: bool = False,
    assumptions: bool = False,
) -> Shown:
    """Show how much of a month trains, what interrupts it, and what spares and faster checkpoints are worth.

    Example: lightloom goodput dgx-h100-64 --set spares=2 --set mtbf.host=60000h

    Args:
        cluster: A cluster of the catalog, or a YAML file.
        ranks: Ranks of the job, with the cluster's parts for each; they may be more than a cluster can have.
        set: field=value; repeatable. Names that `lightloom catalog --schema goodput` lists (spares, mtbf.host) are
            settings of the goodput, all others (fabric.wavelengths) are fields of the cluster.
        settings (FILE): A YAML file of settings of the goodput.
        slices (RANKS): Ranks of a slice, of which the share that can run is computed; repeatable.
        simulate: Play the months event by event as well.
        seed: Seed of the simulation.
        explain: List the remedies of each cause, what spares are worth, and slices.
        assumptions: List all that is assumed, with its source.

    Returns:
        The result to print: the share of the time that trains, its causes and what changes are worth.

    Raises:
        InputError: an unknown field, or a value that cannot be read or is out of range.
    """
    fields = read_settings(set)
    for name in (name.partition(".")[0] for name in fields):
        known = {*GoodputSettings.model_fields, *ClusterFile.model_fields}
        if name not in known:
            raise UnknownNameError(
                "field", name, known, listed="lightloom catalog --schema goodput` and `--schema cluster"
            )
    own = {name: fields.pop(name) for name in list(fields) if name.partition(".")[0] in GoodputSettings.model_fields}
    for name in own:
        if name == "rack.mtbf" or "'time'" in str(GoodputSettings.model_fields[name.partition(".")[0]].annotation):
            own[name] = str(own[name])  # A bare number has no unit: 24 may be hours.
    given = {"simulate": simulate, **read_config(GoodputSettings, "goodput", settings, own).arguments()}
    result = estimate_goodput(cluster, ranks=ranks, slices=slices or (), seed=seed, set=fields, **given)
    return Shown(result.to_json(), _parts(result, explain, assumptions))


def _parts(result: Goodput, explain: bool, assumptions: bool) -> Parts:
    """Yield what the terminal shows: the answer; with ``explain`` remedies, spares and slices; with ``assumptions`` all
    that is assumed."""
    yield from _answer(result)
    if explain:
        for part in (*_remedies(result), *_worth(result)):
            yield from ("", part) if isinstance(part, Table) else (part,)
    if assumptions:
        yield from ("", *result.estimate.assumptions)


def _answer(result: Goodput) -> Parts:
    """Return what the terminal shows: the share of the time that trains (an upper bound where the rate of a cause is
    not stated), how often it is interrupted and saved, where the rest goes, what was played and what slices can run if
    either was asked for, a row for each of the eight most frequent causes of interruptions, and the share with single
    changes, with what they are worth in dollars where prices are known."""
    pairs = zip(result.rows(), result.display_rows(), strict=True)
    each, job, months = result.estimate, result.estimate.job, result.months
    at_most, least = "at most " if result.missing else "", f"{each.node_price.bound} ".lstrip()
    losses = sorted(((getattr(each.shares, name), words) for name, words in _SHARES.items()), reverse=True)
    losses = [(share, words) for share, words in losses if share > 0]
    best = [
        f"{at_most}{each.most_goodput:.2%} of the time trains",
        f"interrupted every {format_duration(job.mtbf)}, a checkpoint every {format_duration(job.interval)}, "
        f"{job.spares} spare nodes",
        ", ".join(f"{share:.2%} {words}" for share, words in losses),
    ]
    if (played := result.simulated) is not None:
        error = f" ± {played.error:.2%}" if played.runs > 1 else ""
        best[0] += f"; {played.goodput:.2%}{error} as played {played.runs} times"
    best += [
        f"slices of {row.ranks:,} ranks: {row.reconfigurable:.2%} can run where circuits join blocks, {row.static:.2%} "
        "where they are fixed"
        for row in result.slices
    ]
    limit = f"without {losses[0][1]} at most {each.most_goodput + losses[0][0]:.2%} would train" if losses else ""
    if result.missing:
        limit = f"an upper bound, as nothing states {'; '.join(result.missing)} (--set mtbf.NAME=TIME); {limit}"
    more = ["--explain", f"--assumptions ({len(each.assumptions)} sourced or assumed)"]
    return screen(
        f"How much of {'a month' if months == 1 else f'{months:g} months'} trains on {each.machine.ranks:,} ranks of "
        f"{each.machine.name}?",
        [line for line in best if line],
        [shown for _, shown in sorted(pairs, key=lambda pair: -(pair[0]["interruptions"] or 0))],
        left=_WORDS,
        everything="--explain",
        what_if=[
            f"{change.name} {change.goodput:.2%}"
            + ("" if change.dollars is None else f", worth {least}{format_amount(change.dollars, 'dollars')}")
            for change in result.changes
        ],
        limit=limit,
        more=more if played else [*more, "--simulate"],
    )


def _remedies(result: Goodput) -> Iterator[str | Table]:
    """Yield the table of all causes, then a line for each remedy: the causes that it is an alternative for, the remedy,
    why it works (or, behind ``cannot:``, why not), and the goodput that would be left with it, in per cent."""
    yield rows_table(result.display_rows(), left=_WORDS)
    said: dict[str, list[str]] = {}
    for answer in result.estimate.answers:
        for response, goodput in answer.alternatives:
            kept = "" if goodput is None else f", keeps {goodput:.4%}"
            missing = "" if response.possible else "cannot: "
            said.setdefault(f"{response.remedy}: {missing}{response.why}{kept}", []).append(answer.cause.name)
    for text, names in said.items():
        yield f"{', '.join(names)}: {text}"


def _worth(result: Goodput) -> Iterator[str | Table]:
    """Yield a line on the price of a node and of the whole machine, a table of numbers of spare nodes (two below to two
    above the chosen one) with the goodput that each keeps and the price (in nodes and in dollars) below which the last
    one pays, and a table of the shares of slices that can run, with circuit switches and fixed; what there is none of,
    as a price that is not known, is left out."""
    price = result.estimate.node_price
    least = f"{price.bound} ".lstrip()
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
    columns = "slice: {ranks:,} | block: {block_ranks:,} | hosts that work: {host_availability:.2%}"
    slices = cells(
        f"{columns} | circuit switches: {{reconfigurable:.3%}} | fixed slices: {{static:.3%}}", result.slices
    )
    yield from (rows_table(rows) for rows in (counts, slices) if rows)


# ``lightloom bill``: what a fabric or a cluster is built of, and what that costs, draws and how often it fails.

_COLUMNS: dict[str, FigureName] = {
    "price a rank": "dollars",
    "power a rank": "static_power",
    "load a rank": "dynamic_energy",
    "failures a rank": "mtbf",
}
_CHANGES = {
    "whole switches": {"switches": "whole"},
    "copper to the hosts": {"host_links": "copper"},
    "copper in the grid": {"grid_links": "copper"},
    "wavelengths of single devices": {"wdm": "devices"},
}
"""Choices of the bill whose effect on the price is shown, by what they are."""


def bill(
    built: str,
    *,
    ranks: int | None = None,
    set: list[str] | None = None,
    price: PartPrices = None,
    explain: bool = False,
) -> Shown:
    """Count the parts of a fabric or a cluster for each rank, with prices, watts and failures, and what lacks them.

    Example: lightloom bill two-tier-400g --ranks 1024

    Args:
        built (FABRIC|CLUSTER): A name of the catalog, or a YAML file.
        ranks: Ranks; a cluster's own without it.
        set: field=value of the fabric, or a choice of the bill (circuit_switch=polatis-7000); repeatable.
        explain: List all parts with the formula behind each count, and what each total leaves out or assumes.

    ``price`` are ``part=price`` texts of parts of the fabric, in place of the catalog's prices.

    Returns:
        The result to print: the bill, and what some other choices would change of its price.

    Raises:
        InputError: no such fabric, cluster, part or field.
    """
    settings, prices = read_settings(set), read_prices(price)
    found = count_parts(built, ranks, set=settings, prices=prices)
    document = found.to_json()
    return Shown(document, _bill_parts(found, document, _changed_prices(built, ranks, settings, prices), explain))


def _changed_prices(
    built: str, ranks: int | None, settings: Document, prices: Mapping[str, str] | None
) -> dict[str, float | None]:
    """Return the dollars of a rank, as far as prices are known, with each of four choices of the bill alone, by the
    words for the choice (whole switches, copper to the hosts, copper in the grid, wavelengths of single devices); None
    where no price is known.

    A choice that ``settings`` state, or with which nothing can be built, is left out. ``prices`` are texts by part.
    """
    changed = {}
    for words, choice in _CHANGES.items():
        if not settings.keys() & choice.keys():
            with suppress(InputError):
                changed[words] = count_parts(built, ranks, set=settings | choice, prices=prices).dollars.value
    return changed


def _bill_parts(found: PricedBill, document: Document, changed: Mapping[str, float | None], explain: bool) -> Parts:
    """Yield what the terminal shows of a bill: the totals of price, power and failures, and a row for each of the eight
    dearest parts (count and figures of a rank, lines of the same part added up; figures that are 0 of all parts have no
    column), and by how many per cent other choices change the price; with ``explain`` all parts, what each total rests
    on, notes, and the formulas of the counts; last the stated settings or prices that change nothing.

    ``changed`` are dollars of a rank with other choices, by the words for them; None where no price is known.
    """
    made = found.bill
    shown = {title: name for title, name in _COLUMNS.items() if any(line.total(name).value != 0 for line in made.lines)}
    rows, prices = [], {}
    for part, lines in in_groups(made.lines, lambda line: line.part.name).items():
        count = sum(line.per_rank for line in lines)
        prices[part] = summed("dollars", [line.total("dollars") for line in lines]).value or 0.0
        totals = (summed(lines[0].total(name).unit, [line.total(name) for line in lines]) for name in shown.values())
        cells = {"part": part, "a rank": f"{count:.4g}", "in all": f"{count * made.ranks:,.6g}"}
        rows.append(cells | dict(zip(shown, map(_cell, totals), strict=True)))
    rows.sort(key=lambda row: -prices[row["part"]])
    sums = {"price": made.dollars, "power, busy or idle": made.static_power, "failures": made.failure_rate}
    price, share = made.dollars.value, max(prices.values(), default=0.0) / (made.dollars.value or inf)
    dearest = f"{rows[0]['part']} is {share:.0%} of the known price" if rows else ""
    yield from screen(
        f"What is {found.name} built of, {made.ranks:,} ranks?",
        [_total(name, total, made.ranks) for name, total in sums.items()],
        rows,
        left=("part",),
        legend="?: no source states it" if any("?" in row.values() for row in rows[:MOST_ROWS]) else "",
        everything="--explain",
        what_if=[
            f"{words}: price {(now - price) / price:+.1%}"
            for words, now in changed.items()
            if price and now not in (None, price)
        ],
        limit="; ".join(filter(None, (_left_out(made.dollars), dearest if 0 < share < 0.995 else ""))),
        more=("--explain", "--price part='$ 100'", "lightloom catalog parts"),
    )
    if explain:
        yield from ("", rows_table(rows), "")
        sums["power of load besides"] = made.dynamic_power
        yield from (_total(name, total, made.ranks, explain=True) for name, total in sums.items())
        yield from (f"not stated: {part}" for part in document["missing"])
        yield from (f"note: {note}" for note in made.notes)
        yield from ("", *made.explain())
    yield from (f"note: {name} changes nothing here" for name in found.unused)


def _left_out(total: Total) -> str:
    """Return what a sum of prices leaves out: ``no source states the price of ...`` with the names of up to two parts,
    or ``... price of 5 parts`` for more; empty for none."""
    few = missing_text(total.missing) if len(total.missing) <= 2 else f"price of {len(total.missing)} parts"
    return f"no source states the {few}" if total.missing else ""


def _cell(total: Total) -> str:
    """Return a total as a table's cell, with its unit: "?" for an unknown one, empty for zero. Its range, and whether
    it is a bound, are left out."""
    return "?" if total.value is None else "" if total.value == 0 else format_amount(total.value, total.unit)


def _total(name: str, total: Total, ranks: int, *, explain: bool = False) -> str:
    """Return a line on a total of a rank and of all ranks, as ``power: at least 9 W (8 to 18) a rank, 576 W in
    all``, with ``explain`` also what it leaves out and assumes; "none" for zero that lacks nothing, "unknown" where
    nothing is known. ``name`` is the label, ``total`` is of a rank."""
    shown = total.known_text() if total.value is None else "none"
    if total.value or (total.missing and total.value is not None):
        every = format_amount(total.value * ranks, total.unit)
        shown = f"{total.bound} {total.known_text()} a rank, {every} in all".strip()
    assumed = [f"assumptions: {', '.join(total.assumptions)}"] if total.assumptions else []
    return f"{name}: {'; '.join((shown, *((*total.reasons(), *assumed) if explain else ())))}"
