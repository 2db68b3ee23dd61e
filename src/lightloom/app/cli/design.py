"""``lightloom design``: which fabric, with which fields, trains most samples for a dollar and for a joule."""

from collections.abc import Iterator
from functools import partial
from typing import Annotated

from rich.table import Table

from lightloom.app.api.designing import DesignFront
from lightloom.app.api.designing import design as search_designs
from lightloom.app.cli.options import Options, OutFile, PartPrices, Shown, SiteFields, read_settings, site_inputs
from lightloom.core.errors import ConfigError
from lightloom.machines.parts.bill import BillChoices, missing_text
from lightloom.machines.parts.part import format_amount
from lightloom.planning.designs.explore import TECHNOLOGIES, Candidate, Exploration
from lightloom.planning.designs.page import break_even, design_page, price_text, ratio, rival_break_even
from lightloom.planning.sweeps.workers import Workers
from lightloom.reports.console import rows_table
from lightloom.reports.html import write
from lightloom.reports.progress import progress
from lightloom.reports.report import Report

_SHOWN = 12
"""Designs of each technology on the terminal; the page and the JSON document have all."""


def design(
    model: str,
    *,
    search: Annotated[partial[DesignFront], Options(search_designs, without=("advance", "prune"))],
    site: SiteFields = None,
    price: PartPrices = None,
    set: list[str] | None = None,
    no_prune: bool = False,
    workers: Annotated[partial[Workers], Options(Workers)],
    report: OutFile = None,
) -> Shown:
    """Search fabrics and their fields for the most samples per dollar and per joule, after failures.

    Args:
        model: A model, as `plan` takes it.
        set: A choice of the fabrics' bills (switches=whole); repeatable.
        no_prune: Evaluate designs that bounds leave out as well.
        jobs: Processes on this machine; one without it.
        dask (ADDRESS): Compute on the Dask cluster of this scheduler instead.
        ray (ADDRESS): Compute on this Ray cluster instead.
        report (FILE): Write the page (.html).
    """
    fields = read_settings(set)
    inputs = site_inputs(fields, site, price)
    if fields:
        raise ConfigError(
            f"--set {min(fields)}: expected a choice of the bill, one of {', '.join(BillChoices.model_fields)}"
        )
    with progress(f"designs for {model}", None) as advance:
        started = workers() if workers.keywords else None
        found = search(model, site=inputs, prune=not no_prune, workers=started, advance=advance)
    written = {} if report is None else {"report": write(_page(found), report)}
    return Shown(found.to_json(), _parts(found), written)


def _page(found: DesignFront) -> Report:
    """Return the HTML page of the result."""
    explored = found.exploration
    facts = [
        ("model", found.model),
        ("accelerator", found.accelerator),
        ("ranks", ", ".join(f"{ranks:,}" for ranks in sorted({each.design.ranks for each in explored.candidates}))),
        ("samples a rank", str(explored.question.batch_per_rank)),
        ("designs", str(found.designs)),
        ("evaluated", str(len(explored.candidates))),
        ("beaten at bounds", str(len(explored.beaten))),
    ]
    # What continues a line on the terminal stays with it.
    verdict = "\n".join(verdict_lines(found)).replace("\n  ", "; ").splitlines()
    return design_page(f"designs for {found.model}", found.summary(), explored, facts, [*verdict, *_notes(found)])


def _parts(found: DesignFront) -> Iterator[str | Table]:
    """Yield a table for each technology of the designs that lead it, the verdict, how many designs were searched, and
    the notes."""
    explored = found.exploration
    for technology in TECHNOLOGIES:
        chosen = [each for each in explored.candidates if each.design.technology == technology and each.leads]
        if chosen:
            yield _table(f"{technology} designs for {found.model} that no other one beats", chosen, found)
            yield ""
    yield from verdict_lines(found)
    yield ""
    yield (
        f"{found.designs} designs: {len(explored.candidates)} evaluated, {len(explored.beaten)} beaten at bounds, "
        f"{explored.over_budget} over the budget, {len(explored.refused)} without a plan; "
        f"{explored.question.batch_per_rank} samples a rank on {found.accelerator}"
    )
    yield from _notes(found)


def _notes(found: DesignFront) -> Iterator[str]:
    """Yield which costs nothing states, so that samples per dollar are upper bounds, and then the assumptions."""
    alike = found.exploration.candidates[0].worth.alike
    if alike:
        yield (
            f"nothing states {missing_text(alike)} of a rank: samples per dollar are upper bounds without, and every "
            "design stays that leads at some such figure (--host-price, --host-power and --board-price state them)"
        )
    yield from (f"assumption: {line}" for line in (*found.assumptions, *found.site.assumptions()))


def _table(title: str, chosen: list[Candidate], found: DesignFront) -> Table:
    """Return up to twelve designs as a table, one row each; those equal in all objectives are merged, with their
    number. A star marks those that no other design beats."""
    rows = []
    for each, alike in found.exploration.distinct(chosen)[:_SHOWN]:
        dollars, joules, _ = each.point
        even = rival_break_even(each, found.exploration)
        row = {
            "design": "* " * each.on_front + each.design.name + (f" ({alike} alike)" if alike > 1 else ""),
            "ranks": f"{each.design.ranks:,}",
            "samples/$": f"{'≤ ' if each.worth.at_most(0) else ''}{dollars:,.4g}",
            "samples/J": f"{'≤ ' if each.worth.at_most(1) else ''}{joules:.4g}",
            "fabric a rank": format_amount(each.worth.fabric_dollars, "dollars"),
            "breaks even at": "" if even is None else price_text(even.fabric_dollars, even.dollars_more),
            "plan": each.evaluated.plan,
        }
        rows.append(row)
    return rows_table(rows, title=title, left=("design", "plan"))


def verdict_lines(found: DesignFront) -> Iterator[str]:
    """Yield how the best optical and the best electrical design compare for a dollar and for a joule, of those with all
    prices and watts known and of all, and where the optical one breaks even; then what is left out of the front."""
    explored = found.exploration
    for objective, unit in ((0, "dollar"), (1, "joule")):
        lines = [_verdict(explored, objective, unit, known=known) for known in (True, False)]
        yield from dict.fromkeys(line for both in lines for line in both)
    missing = {name for each in explored.front for name in (*each.worth.unknown, *each.worth.unknown_rates)}
    if missing:
        yield f"left out of designs on the front: {missing_text(sorted(missing))}"


def _verdict(explored: Exploration, objective: int, unit: str, *, known: bool) -> list[str]:
    """Return lines that set the best optical design beside the best electrical one for an objective (0: samples per
    dollar, 1: per joule), and where it breaks even; none where a technology has no design. ``known``: only of designs
    whose fabrics have all prices and watts known."""
    electrical, optical = (explored.best(name, objective, known=known) for name in TECHNOLOGIES)
    if electrical is None or optical is None:
        return []
    of = "of designs whose fabrics have all prices and watts known" if known else "of all designs"
    line = f"samples per {unit}, {of}: {_comparison(optical, electrical, objective)}"
    dear = [explored.best(name, objective, known=known, dear=True) for name in TECHNOLOGIES]
    if dear != [electrical, optical] and optical.worth.unknown_of(objective, optical.worth.alike):
        rival, first = dear
        assert rival is not None and first is not None
        line += (
            f"; the higher that is, the nearer {first.design.name} comes to {rival.share / first.share:#.3g} times as "
            f"many as {rival.design.name}"
        )
    even = break_even(optical, electrical)
    if objective == 0:
        price = price_text(even.fabric_dollars, even.dollars_more)
        told = price if price == "no price" else f"a price of its fabric of {price} a rank"
        own = f"; known: {format_amount(optical.worth.fabric_dollars, 'dollars')}"
        if even.part is None or even.part_price is None or even.part_count is None:
            return [line, f"  it breaks even at {told}{own}"]
        more = {name: each / even.part_count for name, each in even.dollars_more.items()}
        return [line, f"  it breaks even at {told}{own}; each {even.part} may cost {price_text(even.part_price, more)}"]
    now = f"now {optical.worth.fabric_watts:,.3g} W"
    if even.fabric_watts < 0 and not even.watts_more:
        return [line, f"  it breaks even at no power of its fabric ({now} a rank)"]
    bits = "" if even.energy_per_bit is None else f", {1e12 * even.energy_per_bit:,.3g} pJ/bit at its full rate"
    terms = "".join(f" {each:+.3g} x {name}" for name, each in even.watts_more.items())
    return [line, f"  it breaks even where its fabric draws {even.fabric_watts:,.3g} W{terms} a rank{bits} ({now})"]


def _comparison(optical: Candidate, electrical: Candidate, objective: int) -> str:
    """Return a clause on how many times as many samples the optical design trains as the electrical one (for a dollar,
    0, or a joule, 1), which bound that is, and how it changes with what is unknown of boards and hosts."""
    found = ratio(optical, electrical, objective)
    # Of each design's own fabric, whether a price or a life is unknown.
    worths = optical.worth, electrical.worth
    unknown = [bool(worth.unknown_of(objective, worth.unknown) or worth.unknown_rates) for worth in worths]
    bound = "" if unknown[0] == unknown[1] else "at most " if unknown[0] else "at least "
    both = " (both figures are upper bounds)" if all(unknown) else ""
    told = f"{optical.design.name} trains {bound}{found.least:#.3g} times as many as {electrical.design.name}{both}"
    if found.limit is None:
        return told
    names = missing_text(optical.worth.unknown_of(objective, optical.worth.alike))
    told += f" if the {names} is nothing, and nearly {found.limit:#.3g} times as many if it is very high"
    if found.equal_at is not None:
        amount = format_amount(found.equal_at, "dollars" if objective == 0 else "power")
        told += f" (both are equal at {amount} a rank)"
    return told
