"""``lightloom design``: which fabric, with which fields, trains most samples for a dollar and for a joule."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Annotated

import typer
from rich.table import Table

from lightloom.app.api.designing import DesignFront
from lightloom.app.api.designing import design as search_designs
from lightloom.app.cli import options
from lightloom.core.answer import Answer
from lightloom.core.errors import ConfigError
from lightloom.machines.parts.bill import BillChoices, missing_text
from lightloom.machines.parts.part import format_amount
from lightloom.planning.designs.explore import TECHNOLOGIES, Candidate, Exploration
from lightloom.planning.designs.page import break_even, design_page, price_text, ratio
from lightloom.planning.sweeps.workers import SearchStopped, Workers
from lightloom.reports.console import Parts, answer_parts, rows_table
from lightloom.reports.html import write
from lightloom.reports.progress import progress
from lightloom.reports.report import PAGE_WIDTH, Report

_SHOWN = 6
"""Designs in the answer; with ``--explain`` all that lead their technology."""


def design(
    model: str,
    *,
    budget: list[str] | None = None,
    search: Annotated[
        partial[DesignFront],
        options.Options(
            search_designs, without=("advance", "tell", "prune", "workers", "budget_dollars", "budget_watts")
        ),
    ],
    site: options.SiteFields = None,
    price: options.PartPrices = None,
    set: list[str] | None = None,
    workers: str | None = None,
    report: options.ReportFile = None,
    explain: bool = False,
    assumptions: bool = False,
) -> options.Shown:
    """Search fabrics and their fields for the most samples per dollar and per joule, after failures.

    Example: lightloom design gpt2-355m --ranks 64 --report designs.html

    Args:
        model: A model, as `plan` takes it.
        budget: dollars=AMOUNT ('5 M$') of all boards, hosts and parts of the fabric, as far as prices are known, or
            watts=AMOUNT (200kW) at the meter, the most of either; repeatable.
        set: A choice of the fabrics' bills (switches=whole), or prune=false, which evaluates designs that bounds leave
            out as well; repeatable.
        workers (N|dask:ADDRESS|ray:ADDRESS): Processes on this machine, or the cluster of a scheduler; this process
            alone without it.
        report (FILE): Write the page (.html).
        explain: List all designs that lead their technology, and how optical and electrical ones compare.
        assumptions: List all that is assumed.

    ``search`` is :func:`lightloom.design` with its other options bound to it, such as ``ranks`` and ``folder``.
    ``site`` are ``field=value`` texts of what turns parts and watts into dollars, ``price`` are ``part=price`` texts.

    Returns:
        The result to print: the designs; its exit code is 130 where Ctrl-C has stopped the search after some were
            evaluated.

    Raises:
        InputError: options that cannot be read, or no design that has a plan.
        typer.Exit: Ctrl-C before any design was evaluated (130).
    """
    fields = options.read_settings(set)
    prune = fields.pop("prune", True)
    inputs = options.site_inputs(fields, site, price)
    if fields or not isinstance(prune, bool):
        expected = f"expected a choice of the bill, one of {', '.join(BillChoices.model_fields)}; or prune=false"
        raise ConfigError(f"--set {min(fields, default='prune')}: {expected}")
    limits = options.read_pairs(budget, "--budget {!r}", "dollars=AMOUNT or watts=AMOUNT")
    if not limits.keys() <= {"dollars", "watts"}:
        raise ConfigError(f"--budget {' '.join(limits)}: expected dollars=AMOUNT or watts=AMOUNT")
    budgets = {f"budget_{name}": text for name, text in limits.items()}
    started = None if workers is None else Workers.read(workers)
    code = 0
    with progress(f"designs for {model}", None) as advance:

        def tell(best: Candidate, designs: int) -> None:
            """Show the best design so far beside the progress."""
            advance.tell(lambda: f"best so far: {best.design.name}", designs)

        try:
            found = search(model, site=inputs, prune=prune, workers=started, advance=advance, tell=tell, **budgets)
        except KeyboardInterrupt as stopped:
            if not isinstance(stopped, SearchStopped):
                typer.echo("interrupted: no design was evaluated yet", err=True)
                raise typer.Exit(130) from None
            found, code = stopped.result, 130
    if code:
        resumes = "the same command resumes" if "folder" in search.keywords else "with --folder the search would resume"
        typer.echo(f"interrupted: {_left(found)}; {resumes}", err=True)
    written = {} if report is None else {"report": write(_page(found), report)}
    return options.Shown(found.to_json(), _parts(found, explain, assumptions), written, code=code)


def _left(found: DesignFront) -> str:
    """Return how many designs of each technology a search that was stopped has left out, as ``3 electrical and 2
    optical of 10 designs were not searched``."""
    names = [each.technology for each in found.exploration.unsearched]
    counts = " and ".join(f"{names.count(each)} {each}" for each in TECHNOLOGIES if each in names)
    return f"{counts} of {found.designs} designs were not searched"


def _page(found: DesignFront) -> Report:
    """Return the HTML page of the search: the answer, facts and counts, the verdict on both technologies and all that
    is assumed, a picture of samples per dollar and per joule, and tables of all evaluated designs of each technology,
    of those that bounds leave out and of those without a plan."""
    explored = found.exploration
    facts = [("model", found.model), ("accelerator", found.accelerator), ("ranks", _ranks(explored))]
    facts += [("samples a rank", str(explored.question.batch_per_rank)), ("designs", str(found.designs))]
    facts += [("evaluated", str(len(explored.candidates))), ("beaten at bounds", str(len(explored.beaten)))]
    # What continues a line on the terminal stays with it.
    verdict = "\n".join(verdict_lines(found)).replace("\n  ", "; ").splitlines()
    answer = _answer(found, 0)
    page = design_page(f"designs for {found.model}", answer.best[0], explored, facts, [*verdict, *_notes(found)])
    return replace(page, answer=(*answer.best[1:], *replace(answer, legend="", more=()).foot(PAGE_WIDTH)))


def _ranks(explored: Exploration) -> str:
    """Return the numbers of ranks of the designs that were evaluated, ascending, as text: ``64, 1,024``."""
    return ", ".join(f"{ranks:,}" for ranks in sorted({each.design.ranks for each in explored.candidates}))


def _parts(found: DesignFront, explain: bool, assumptions: bool) -> Parts:
    """Yield what the terminal shows: the answer with a table of six designs at most, which begins with those that the
    answer compares; then with ``explain`` all that no other of their technology beats, with their plans, the verdict
    (:func:`verdict_lines`) and counts of the designs, and with ``assumptions`` the figures that nothing states and what
    is assumed."""
    explored = found.exploration
    leading = explored.distinct(each for each in explored.candidates if each.leads)
    first = [each.design.key for each in _best(explored) if each is not None]
    every = explored.distinct(explored.candidates)
    compared = [pair for key in dict.fromkeys(first) for pair in every if pair[0].design.key == key]
    shown = [*compared, *(pair for pair in leading if pair not in compared)][:_SHOWN]
    hidden = len(leading) - sum(pair in shown for pair in leading)
    yield from answer_parts(_answer(found, hidden), _table(shown, explored))
    if explain:
        yield from ("", _table(leading, explored, explain=True), "")
        yield from verdict_lines(found)
        yield (
            f"{found.designs} designs: {len(explored.candidates)} evaluated, {len(explored.beaten)} beaten at bounds, "
            f"{explored.over_budget} over the budget, {len(explored.refused)} without a plan"
        )
    if assumptions:
        yield from ("", *_notes(found))


def _best(explored: Exploration) -> tuple[Candidate, Candidate | None, Candidate]:
    """Return (best design, best of the other technology, first design) in samples for a dollar.

    The best is that of the designs whose fabrics have all prices and watts known, where there are any, else the first.
    The other technology's is likewise the best of its designs with all known, or of all its designs where it has no
    such one (None where it has no design). The first is the best of all where unknown prices count as nothing.
    """
    first = explored.candidates[0]
    best = next((each for each in explored.candidates if not each.worth.unknown), first)
    other = TECHNOLOGIES[best.design.technology == TECHNOLOGIES[0]]
    return best, explored.best(other, 0, known=not best.worth.unknown) or explored.best(other, 0), first


def _answer(found: DesignFront, hidden: int) -> Answer:
    """Return the answer without its rows: the samples per dollar of the best design (:func:`_best`), how many times as
    many the best of the other technology trains for a dollar and a joule, at which price of its fabric it would equal
    that, and the first design where unknown prices make that another; as limit, designs that a stopped search left
    out and what nothing states of boards and hosts. ``hidden`` is the number of designs that the table beside it leaves
    out."""
    explored = found.exploration
    best, rival, first = _best(explored)
    lines, what_if = [f"{best.design.name}, {_samples(best, 0)} samples per dollar"], list[str]()
    if rival is not None:
        per_dollar, even, technology = ratio(rival, best, 0), break_even(rival, best), rival.design.technology
        joules = f"{ratio(rival, best, 1).least:#.3g} times per joule"
        lines.append(f"the best {technology} one: {per_dollar.least:#.3g} times as many, {joules}")
        if per_dollar.limit is not None:
            what_if.append(f"hosts very dear: {technology} {per_dollar.limit:#.3g} times as many per dollar")
        price = price_text(even.fabric_dollars, {})
        if price != "no price":
            now = format_amount(rival.worth.fabric_dollars, "dollars")
            what_if.append(f"its fabric at {price} a rank (now {now}): as many")
    if first is not best:
        lines.append(f"{first.design.family}: {_samples(first, 0)}, {missing_text(first.worth.unknown)} unknown")
    limit = [_left(found)] if explored.unsearched else []
    if best.worth.alike:
        limit.append(f"upper bounds, as nothing states {missing_text(best.worth.alike)} (--site)")
    count = len(found.assumptions) + len(found.site.assumptions())
    return Answer(
        question=f"Which fabric trains {found.model} best on {_ranks(explored)} {found.accelerator}, "
        f"{explored.question.batch_per_rank} samples each?",
        best=lines,
        legend="*: unbeaten    ≤: an upper bound, a figure is unknown",
        hidden=hidden,
        everything="--explain",
        what_if=what_if,
        limit="; ".join(limit),
        more=("--explain", f"--assumptions ({count})", "--report designs.html"),
    )


def _samples(each: Candidate, objective: int, mark: str = "at most ") -> str:
    """Return the samples of a design for a dollar (``objective`` 0) or a joule (1) as text of three significant digits
    without a unit, behind ``mark`` where that is an upper bound."""
    value = float(f"{each.point[objective]:.3g}")
    return f"{mark * each.worth.at_most(objective)}{value:,.{'0f' if value >= 1000 else '3g'}}"


def _notes(found: DesignFront) -> Iterator[str]:
    """Yield a line on the figures of boards and hosts that no source states, without which samples per dollar are upper
    bounds (none where all are stated), and then a line for each assumption."""
    alike = found.exploration.candidates[0].worth.alike
    if alike:
        yield (
            f"nothing states {missing_text(alike)} of a rank: samples per dollar are upper bounds without, and every "
            "design stays that leads at some such figure (--site host_price=..., host_power=... and board_price=... "
            "state them)"
        )
    yield from (f"assumption: {line}" for line in (*found.assumptions, *found.site.assumptions()))


def _table(chosen: list[tuple[Candidate, int]], explored: Exploration, *, explain: bool = False) -> Table:
    """Return designs as a table, one row each: name, samples per dollar and per joule (``≤`` where that is an upper
    bound), and the price of the fabric a rank; a star marks those that no other design beats in all objectives.

    Args:
        chosen: (design, number of designs that are equal to it in all objectives, itself included).
        explored: the whole search, which tells whether numbers of ranks differ.
        explain: whether technology and plan of each are columns too.
    """
    several = len({each.design.ranks for each in explored.candidates}) > 1
    rows = []
    for each, alike in chosen:
        row = {
            "design": "* " * each.on_front + each.design.name + (f" ({alike} alike)" if alike > 1 else ""),
            **({"ranks": f"{each.design.ranks:,}"} if several else {}),
            **({"technology": each.design.technology} if explain else {}),
            "samples/$": _samples(each, 0, "≤ "),
            "samples/J": _samples(each, 1, "≤ "),
            "fabric a rank": format_amount(each.worth.fabric_dollars, "dollars"),
        }
        rows.append(row | ({"plan": each.evaluated.plan} if explain else {}))
    return rows_table(rows, left=("design", "technology", "plan"))


def verdict_lines(found: DesignFront) -> Iterator[str]:
    """Yield how the best optical and the best electrical design compare for a dollar and for a joule, of those with all
    prices and watts known and of all, and where the optical one breaks even; then which prices, powers and lives
    are unknown, and so left out, of the designs on the front."""
    explored = found.exploration
    for objective, unit in ((0, "dollar"), (1, "joule")):
        lines = [_verdict(explored, objective, unit, known=known) for known in (True, False)]
        yield from dict.fromkeys(line for both in lines for line in both)
    missing = {name for each in explored.front for name in (*each.worth.unknown, *each.worth.unknown_rates)}
    if missing:
        yield f"left out of designs on the front: {missing_text(sorted(missing))}"


def _verdict(explored: Exploration, objective: int, unit: str, *, known: bool) -> list[str]:
    """Return lines that set the best optical design beside the best electrical one for an objective (0: samples per
    dollar, 1: per joule), and where it breaks even: at which price, or watts, of its fabric a rank both are equal; an
    empty list where a technology has no design. ``unit`` is ``dollar`` or ``joule``; ``known``: only of designs whose
    fabrics have all prices and watts known."""
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
    ``objective`` 0, or a joule, 1), ``at most`` or ``at least`` where prices, powers or lives of one fabric are unknown
    (of both, that both figures are upper bounds), and how it changes with what is unknown of boards and hosts: the
    factor where that costs nothing and where it costs very much, and the figure at which both are equal."""
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
