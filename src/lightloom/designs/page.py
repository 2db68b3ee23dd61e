"""The page of a search over designs: the fronts as a picture, all designs as tables, and what would overtake them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lightloom.core.units import format_time
from lightloom.designs.break_even import rival_break_even
from lightloom.designs.explore import TECHNOLOGIES, Candidate, Exploration
from lightloom.parts.bill import missing_text
from lightloom.parts.units import format_amount
from lightloom.reports.figures.base import hide_spines, single_panel, styled, to_svg
from lightloom.reports.figures.palette import FAINT
from lightloom.reports.report import Picture, Report, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS = {"electrical": "#b5541c", "optical": "#1c6bb5"}
_BESIDE = ((8, 5), (8, -8))
"""Where numbers stand beside their points, in turn, as some points lie upon each other."""


def design_page(
    title: str, headline: str, exploration: Exploration, facts: Sequence[tuple[str, str]], notes: Sequence[str]
) -> Report:
    """Return the page of a search."""
    return Report(
        title=title,
        headline=headline,
        explanation="Samples for a dollar and for a joule at the meter, after failures and checkpoints.",
        facts=tuple(facts),
        notes=tuple(notes),
        pictures=(
            Picture(
                title="Designs by samples per dollar and per joule",
                svg=to_svg(front_figure(exploration)),
                caption="Filled: no other design of its technology beats it. An arrow: a price, a power or a life is "
                "unknown, the point is an upper bound.",
            ),
        ),
        tables=(*(_designs(exploration, name) for name in TECHNOLOGIES), _beaten(exploration), _refused(exploration)),
        provenance={},
    )


@styled
def front_figure(exploration: Exploration) -> Figure:
    """Draw every evaluated design, and the fronts of both technologies."""
    figure, axes = single_panel(7.2, 5.4)
    numbered: list[Candidate] = []
    for technology in TECHNOLOGIES:
        own = [each for each in exploration.candidates if each.design.technology == technology]
        colour = _COLOURS[technology]
        for each in own:
            dollars, joules, _ = each.point
            marker = "<" if each.worth.at_most(0) or each.worth.at_most(1) else "o"
            face = colour if each.leads else "none"
            axes.plot(dollars, joules, marker, color=colour, markerfacecolor=face, markersize=5, linestyle="none")
        axes.plot([], [], "o", color=colour, label=technology)
        # The best of each technology, by dollars and by joules, of those without unknowns and of all.
        best = [exploration.best(technology, objective, known=known) for known in (True, False) for objective in (0, 1)]
        numbered += {each.design.key: each for each in best if each is not None}.values()
    for number, each in enumerate(numbered, start=1):
        beside = _BESIDE[number % len(_BESIDE)]
        point = each.point[:2]
        axes.annotate(str(number), point, xytext=beside, textcoords="offset points", va="center", fontsize=7)
        colour = _COLOURS[each.design.technology]
        axes.plot([], [], marker=f"${number}$", color=colour, linestyle="none", label=each.design.name)
    hide_spines(axes)
    axes.set_xlabel("samples per dollar")
    axes.set_ylabel("samples per joule")
    axes.grid(color=FAINT, linewidth=0.3)
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.14), fontsize=7)
    return figure


def _designs(exploration: Exploration, technology: str) -> Table:
    chosen = [each for each in exploration.candidates if each.design.technology == technology]
    return Table(
        title=f"{technology.capitalize()} designs",
        columns=(
            "design",
            "ranks",
            "samples per $",
            "samples per J",
            "step",
            "fabric a rank",
            "breaks even at",
            "goodput",
            "unknown",
            "plan",
        ),
        rows=tuple(_row(each, alike, exploration) for each, alike in exploration.distinct(chosen)),
        caption="Breaks even at: the price of the fabric for each rank at which the design trains as many samples per "
        "dollar as the best of the other technology; at least that where a price of the latter is unknown. ≤: a price, "
        "a power or a life is unknown, the figure is an upper bound.",
    )


def price_text(dollars: float, more: Mapping[str, float]) -> str:
    """Return a break-even price as a function of what is unknown of boards and hosts: ``$ 119 - 0.0013 x price of
    host-hgx-h100``."""
    if dollars < 0 and all(each <= 0 for each in more.values()):
        return "no price"
    terms = "".join(f" {'+' if each >= 0 else '-'} {abs(each):.3g} x {name}" for name, each in more.items())
    return f"{'-' * (dollars < 0)}{format_amount(abs(dollars), 'dollars')}{terms}"


def _row(each: Candidate, alike: int, exploration: Exploration) -> tuple[str, ...]:
    dollars, joules, _ = each.point
    even = rival_break_even(each, exploration)
    worth = each.worth
    return (
        ("* " if each.on_front else "") + each.design.name + (f" ({alike} alike)" if alike > 1 else ""),
        f"{each.design.ranks:,}",
        f"{'≤ ' if worth.at_most(0) else ''}{dollars:,.4g}",
        f"{'≤ ' if worth.at_most(1) else ''}{joules:.4g}",
        format_time(each.evaluated.step_time),
        format_amount(worth.fabric_dollars, "dollars"),
        "" if even is None else price_text(even.fabric_dollars, even.dollars_more),
        f"{worth.goodput:.4f}",
        missing_text([*worth.variables, *worth.unknown_rates]),
        each.evaluated.plan,
    )


def _beaten(exploration: Exploration) -> Table:
    return Table(
        title="Designs that proved bounds leave out",
        columns=("design", "ranks", "step for each sample, at least"),
        rows=tuple(
            (each.design.name, f"{each.design.ranks:,}", format_time(each.least_time)) for each in exploration.beaten
        ),
        caption="Even at the bound, a design that was evaluated trains as many samples for a dollar and for a joule.",
    )


def _refused(exploration: Exploration) -> Table:
    return Table(
        title="Designs without a plan",
        columns=("design", "ranks", "why"),
        rows=tuple((each.design.name, f"{each.design.ranks:,}", each.why) for each in exploration.refused),
    )
