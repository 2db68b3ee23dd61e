"""What steps cost, as rows for terminals and pages: one column for each place where they run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lightloom.core.units import format_quantity
from lightloom.economics.step import StepLedger
from lightloom.parts.bill import Bound, Total
from lightloom.parts.units import format_amount

TITLE = "Dollars, watts and joules"
MARKS: Mapping[Bound, str] = {"": "", "at least": "≥ ", "at most": "≤ ", "about": "~ "}
"""What stands before a total, by what it says of the true value."""
MOST_PLACES = 4
"""Places beside each other; JSON holds all."""


def ledger_rows(ledgers: Mapping[str, StepLedger], run: str = "step") -> list[tuple[str, ...]]:
    """Return the rows of a table: the figure's name, and its value at every place (by name) with its range.

    ``run`` is the word for what takes the joules.

    ``≥`` marks a lower bound, ``≤`` an upper one and ``~`` what misses something and counts other things at a limit;
    :func:`ledger_notes` names these.
    """
    steps = list(ledgers.values())
    rows = [
        ("dollars a rank", *(amount(step.cluster.dollars) for step in steps)),
        ("watts a rank", *(amount(step.watts) for step in steps)),
        (f"joules a {run}", *(amount(step.energy.total) for step in steps)),
        ("at the meter", *(amount(step.metered) for step in steps)),
        (f"dollars a {run}", *(amount(step.dollars) for step in steps)),
    ]
    if any(step.samples for step in steps):
        rows += [
            ("samples per dollar", *(amount(step.samples_per_dollar) for step in steps)),
            ("samples per joule", *(amount(step.samples_per_joule) for step in steps)),
            ("goodput", *(_goodput(step) for step in steps)),
        ]
    return rows


def ledger_notes(ledgers: Mapping[str, StepLedger]) -> list[str]:
    """Return a line for what every place leaves out, for what its bill notes, and for what is assumed."""
    lines = []
    for place, step in ledgers.items():
        missing = dict.fromkeys((*step.cluster.dollars.missing, *step.energy.missing))
        if missing:
            lines.append(f"left out, so that sums are at least so much (≥), {place}: {', '.join(missing)}")
        if at_most := dict.fromkeys((*step.cluster.dollars.at_most, *step.energy.total.at_most)):
            lines.append(f"counted at a limit, so that sums are at most so much (≤), {place}: {', '.join(at_most)}")
        if missing and at_most:
            lines.append(f"both, so that sums are neither (~), {place}")
        if step.interval is None:
            lines.append(f"ranges are those of prices and watts alone, {place}: no interval of its time is known")
        if step.goodput is not None and step.goodput_missing:
            lines.append(f"goodput at most (≤), {place}: without {', '.join(step.goodput_missing)}")
        lines += [f"bill of {place}: {note}" for note in step.cluster.fabric.notes]
    return lines + assumption_lines(list(ledgers.values()))


def assumption_lines(steps: Sequence[StepLedger]) -> list[str]:
    """Return what is assumed of the site, and the parts whose price or power no publication states."""
    lines = []
    if steps:
        site = steps[0].cluster.site
        texts = [text for name, text in site.texts().items() if name in site.defaults]
        lines += [f"assumed of the site: {', '.join(texts)}"] if texts else []
    if any(step.goodput is not None for step in steps):
        lines.append(
            "assumed of failures: checkpoints, restarts, repairs and spares as `lightloom goodput CLUSTER` lists them"
        )
    totals = {
        "prices": [step.cluster.dollars for step in steps],
        "watts": [step.cluster.static_power for step in steps],
        "joules of a bit beside them": [step.energy.transmission for step in steps],
    }
    for what, sums in totals.items():
        if names := dict.fromkeys(name for total in sums for name in total.assumptions):
            lines.append(f"assumed {what}: those of {', '.join(names)} (lightloom catalog PART)")
    return lines


def _goodput(step: StepLedger) -> str:
    if step.goodput is None:
        return "not computed"
    return f"{'≤ ' if step.goodput_missing else ''}{step.goodput:.2%}"


def amount(total: Total) -> str:
    """Return a total with its range, marked where it is a bound (:data:`MARKS`)."""
    if total.value is None or total.low is None or total.high is None:
        return "unknown"
    shown, low, high = (_text(value, total) for value in (total.value, total.low, total.high))
    return MARKS[total.bound] + (shown if low == high else f"{shown} ({low} to {high})")


def _text(value: float, total: Total) -> str:
    if total.unit == "dollars" and 0 < value < 0.01:
        return format_quantity(100 * value, "price").replace("$", "ct")
    return format_amount(value, total.unit)
