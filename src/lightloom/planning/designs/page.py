"""The page of a search over designs: the fronts as a picture, all designs as tables, and what would overtake them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from lightloom.core.results import Document, attributes
from lightloom.core.units import format_time
from lightloom.machines.parts.bill import missing_text
from lightloom.machines.parts.part import format_amount
from lightloom.planning.designs.explore import TECHNOLOGIES, Candidate, Exploration
from lightloom.planning.designs.space import PRICE, Technology
from lightloom.reports.figures.canvas import FAINT, INK, hide_spines, single_panel, styled, to_svg
from lightloom.reports.report import Picture, Report, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# Break-even points: cost and power at which a design matches the best design of the other technology.
#
# Dollars for a sample are linear in the price of the fabric, and joules in its power, so the break-even points have
# closed forms (:mod:`lightloom.planning.designs.space`). They are linear in prices and powers of boards and hosts
# that nothing states, too: these are paid for longer by the slower of two designs.


class Ratio(NamedTuple):
    """How many times as many samples one design trains as another one for a dollar or a joule."""

    least: float
    """While what is unknown of boards and hosts is nothing."""
    limit: float | None
    """The higher that is, the nearer the ratio comes to this; None where nothing is unknown."""
    equal_at: float | None
    """Dollars or watts of a rank at which both train as many; None where none do, or several figures are unknown."""


@dataclass(frozen=True, kw_only=True)
class BreakEven:
    """At which price and at which power of its fabric a design equals its rivals of the other technology."""

    dollars_rival: Candidate
    """The design of the other technology with the most samples per dollar."""
    joules_rival: Candidate
    """That with the most samples per joule."""
    fabric_dollars: float
    """Dollars of the fabric for each rank at which both train as many samples for a dollar, while what is unknown of
    boards and hosts is nothing; below 0 where no price does."""
    fabric_watts: float
    """Watts of the fabric for each rank at which both train as many samples for a joule, likewise."""
    dollars_more: Mapping[str, float]
    """Dollars added to ``fabric_dollars`` for each dollar or watt of a rank, by what is unknown of boards and hosts."""
    watts_more: Mapping[str, float]
    """Watts added to ``fabric_watts``, likewise."""
    energy_per_bit: float | None
    """``fabric_watts`` as joules for each bit at the fabric's full rate; None where it states no rate."""
    part: str | None
    """The part of the fabric whose price is unknown, where it is the only one."""
    part_price: float | None
    """Dollars that each of these may cost at the break-even price."""
    part_count: float | None
    """How many of these a rank has."""

    def to_json(self) -> Document:
        """Return the break-even points as a document: the names of the rivals (``rival_by_dollars``,
        ``rival_by_joules``), ``fabric_dollars_per_rank`` (below 0 where no price is low enough) and
        ``fabric_watts_per_rank``, what is added to either for each dollar or watt of an unknown figure of boards and
        hosts (``fabric_dollars_more``, ``fabric_watts_more``, by name), ``fabric_joules_per_bit`` (None where the
        fabric states no rate), and the only part of unknown price with its dollars and number a rank (``unknown_part``,
        ``unknown_part_dollars``, ``unknown_parts_per_rank``; None unless there is exactly one)."""
        rivals = "rival_by_dollars=dollars_rival.design.name rival_by_joules=joules_rival.design.name"
        part = "unknown_part=part unknown_part_dollars=part_price unknown_parts_per_rank=part_count"
        return {
            **attributes(self, f"{rivals} fabric_dollars_per_rank=fabric_dollars fabric_watts_per_rank=fabric_watts"),
            "fabric_dollars_more": dict(self.dollars_more),
            "fabric_watts_more": dict(self.watts_more),
            **attributes(self, f"fabric_joules_per_bit=energy_per_bit {part}"),
        }


def ratio(first: Candidate, second: Candidate, objective: int) -> Ratio:
    """Return how many times as many samples per dollar (``objective`` 0) or joule (1) the first design trains as the
    second one: while unknown prices or powers of boards and hosts are nothing (``least``), as they grow without limit
    (``limit``, None where nothing is unknown), and the price or power of the only unknown figure (dollars or watts of a
    rank) at which both designs train as many (``equal_at``, None where no figure above 0 does so, or several are
    unknown)."""
    least = first.point[objective] / second.point[objective]
    unknown = first.worth.unknown_of(objective, first.worth.alike)
    if not unknown:
        return Ratio(least, None, None)
    equal = None
    if len(unknown) == 1:
        # What one sample takes is linear in the unknown figure.
        (name,) = unknown
        now = [1 / each.point[objective] for each in (first, second)]
        after = [1 / each.assuming({name: 1.0}).point[objective] for each in (first, second)]
        slopes = [after[0] - now[0], after[1] - now[1]]
        crossing = (now[1] - now[0]) / (slopes[0] - slopes[1]) if slopes[0] != slopes[1] else -1.0
        equal = crossing if crossing > 0 else None
    return Ratio(least, second.share / first.share, equal)


def rival_break_even(candidate: Candidate, exploration: Exploration) -> BreakEven | None:
    """Return the price (dollars a rank) and power (watts a rank, before the meter) of its fabric at which a design
    equals the evaluated design of the other technology with the most samples per dollar (for the price) and with the
    most per joule (for the power), unknown figures counting as 0; None where none of that technology was evaluated. The
    members are those of :func:`break_even`."""
    other: Technology = "optical" if candidate.design.technology == "electrical" else "electrical"
    dollars, joules = exploration.best(other, 0), exploration.best(other, 1)
    return None if dollars is None or joules is None else break_even(candidate, dollars, joules)


def break_even(candidate: Candidate, dollars: Candidate, joules: Candidate | None = None) -> BreakEven:
    """Return the price (``fabric_dollars``, a rank) and the power (``fabric_watts``, a rank, before the meter) of its
    fabric, negative where none is low enough, at which a design trains as many samples for a dollar as the rival
    ``dollars``, and for a joule as the rival ``joules`` (None: the same rival); with what each dollar or watt of an
    unknown figure of boards and hosts adds to either (``dollars_more``, ``watts_more``, by name; a price only to the
    price), that power as joules of a bit at the full rate of the fabric (``energy_per_bit``, None where it states
    none), and, where the fabric has exactly one kind of part of unknown price, its name, its number a rank and the
    dollars left for one (``part``, ``part_count``, ``part_price``, else None)."""
    joules = joules or dollars
    price, watts = _break_even_point(candidate, dollars, joules, {})
    more = {name: _break_even_point(candidate, dollars, joules, {name: 1.0}) for name in candidate.worth.alike}
    worth = candidate.worth
    unpriced = [name for name in worth.unknown if name.startswith(PRICE)]
    part = count = each = None
    if len(unpriced) == 1:
        part, count = unpriced[0].removeprefix(PRICE), worth.unknown[unpriced[0]] / worth.ranks
        each = (price - worth.fabric_dollars) / count
    figures: Document = {"fabric_dollars": price, "fabric_watts": watts}
    figures["dollars_more"] = {name: points[0] - price for name, points in more.items()}
    figures["watts_more"] = {name: points[1] - watts for name, points in more.items() if not name.startswith(PRICE)}
    figures["energy_per_bit"] = watts / (8 * worth.fabric_bandwidth) if worth.fabric_bandwidth else None
    figures |= {"part": part, "part_price": each, "part_count": count}
    return BreakEven(dollars_rival=dollars, joules_rival=joules, **figures)


def _break_even_point(
    candidate: Candidate, dollars: Candidate, joules: Candidate, figures: Mapping[str, float]
) -> tuple[float, float]:
    """Return the dollars and the watts of the fabric for each rank at which a design equals its rivals, if unknown
    prices and powers of boards and hosts of both, by name, were these ``figures``; those that are not named count as
    0."""
    own, found = candidate.assuming(figures).worth, candidate.evaluated
    price = own.fabric_price(found.sample_time, found.sent, dollars.assuming(figures).point[0])
    return price, own.fabric_power(found.sample_time, found.sent, joules.assuming(figures).point[1])


_COLOURS = {"electrical": "#b5541c", "optical": "#1c6bb5"}
_BESIDE = ((8, 5), (8, -8))
"""Where numbers stand beside their points, in turn, as some points lie upon each other."""


def design_page(
    title: str, headline: str, exploration: Exploration, facts: Sequence[tuple[str, str]], notes: Sequence[str]
) -> Report:
    """Return the page of a search over designs: the picture of the fronts, a table of the evaluated designs of each
    technology (the columns of :func:`_designs_table`), and tables of those that bounds leave out (with the least
    seconds of a step for each sample) and of those without a plan (with the reason). The provenance is left empty for
    the caller.

    Args:
        title: of the page.
        headline: its first sentence.
        exploration: what was found.
        facts: pairs of name and value.
        notes: lines of text.
    """
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
                caption="Filled: no other design of its technology beats it; the line joins those that none beats. An "
                "arrow: a price, a power or a life is unknown, the point is an upper bound.",
            ),
        ),
        tables=(
            *(_designs_table(exploration, name) for name in TECHNOLOGIES),
            Table(
                title="Designs that proved bounds leave out",
                columns=("design", "ranks", "step for each sample, at least"),
                rows=tuple(
                    (each.design.name, f"{each.design.ranks:,}", format_time(each.least_time))
                    for each in exploration.beaten
                ),
                caption="Even at the bound, a design that was evaluated trains as many samples for a dollar and for a "
                "joule.",
            ),
            Table(
                title="Designs without a plan",
                columns=("design", "ranks", "why"),
                rows=tuple((each.design.name, f"{each.design.ranks:,}", each.why) for each in exploration.refused),
            ),
        ),
        provenance={},
    )


@styled
def front_figure(exploration: Exploration) -> Figure:
    """Return a figure of every evaluated design by samples per dollar (to the right) and per joule (upwards), in a
    colour for each technology, filled where no design of its technology beats it, and as a triangle that points left,
    not a disc, where unknown figures make either an upper bound. The best of each technology by dollars and by joules,
    among the designs without unknown figures of the fabric and among all, have numbers, which the legend names. A line
    joins the front of all designs, which must not be empty."""
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
        axes.annotate(str(number), each.point[:2], xytext=beside, textcoords="offset points", va="center", fontsize=7)
        colour = _COLOURS[each.design.technology]
        axes.plot([], [], marker=f"${number}$", color=colour, linestyle="none", label=each.design.name)
    # The front of both objectives: whoever trains more for a dollar trains fewer for a joule.
    front = sorted({each.point[:2] for each in exploration.front})
    axes.step(*zip(*front, strict=True), where="pre", color=INK, linewidth=0.8, zorder=0, label="no design beats these")
    hide_spines(axes)
    axes.set_xlabel("samples per dollar")
    axes.set_ylabel("samples per joule")
    axes.grid(color=FAINT, linewidth=0.3)
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.14), fontsize=7)
    return figure


_COLUMNS: tuple[str, ...] = ("design", "ranks", "samples per $", "samples per J", "step")
_COLUMNS += ("fabric a rank", "breaks even at", "goodput", "unknown", "plan")


def _designs_table(exploration: Exploration, technology: str) -> Table:
    """Return the table of the evaluated designs of one technology, those that are equal in all objectives, ranks and
    unknown figures of the fabric in one row, most samples per dollar first. Its columns are design, ranks, samples per
    $, samples per J, step, fabric a rank (dollars), breaks even at (dollars of the fabric a rank), goodput (a share),
    unknown and plan."""
    chosen = [each for each in exploration.candidates if each.design.technology == technology]
    return Table(
        title=f"{technology.capitalize()} designs",
        columns=_COLUMNS,
        rows=tuple(_design_row(each, alike, exploration) for each, alike in exploration.distinct(chosen)),
        caption="Breaks even at: the price of the fabric for each rank at which the design trains as many samples per "
        "dollar as the best of the other technology; at least that where a price of the latter is unknown. ≤: a price, "
        "a power or a life is unknown, the figure is an upper bound.",
    )


def price_text(dollars: float, more: Mapping[str, float]) -> str:
    """Return a break-even price as text, with a term for each unknown price or power of boards and hosts: ``$ 119 -
    0.0013 x price of host-hgx-h100``; "no price" where it is below 0 and no term adds to it; below 0 with one that
    does, a minus stands before the amount. ``more`` has the factor of each by name."""
    if dollars < 0 and all(each <= 0 for each in more.values()):
        return "no price"
    terms = "".join(f" {'+' if each >= 0 else '-'} {abs(each):.3g} x {name}" for name, each in more.items())
    return f"{'-' * (dollars < 0)}{format_amount(abs(dollars), 'dollars')}{terms}"


def _design_row(each: Candidate, alike: int, exploration: Exploration) -> tuple[str, ...]:
    """Return the cells of a design's row as text: design, ranks, samples per dollar and per joule (``≤`` where an upper
    bound), the time of a step with its unit, dollars of the fabric a rank, the price at which it breaks even (empty
    without a rival of the other technology), goodput with four decimals, the names of what is unknown, and plan;
    ``alike`` is the number of designs it stands for, which follows the name where it is above 1, and a star before the
    name marks designs on the front of all technologies."""
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
