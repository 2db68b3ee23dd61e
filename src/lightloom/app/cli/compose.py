"""``lightloom compose``: the five papers' ideas on one model, alone and together."""

from functools import partial
from typing import Annotated

from lightloom.app.api.composing import Composition
from lightloom.app.api.composing import compose as compose_ideas
from lightloom.app.cli.options import FigureFile, Options, ReportFile, Shown, SiteFields, draw, site_inputs
from lightloom.core.units import format_time
from lightloom.planning.ideas import IDEAS
from lightloom.reports.console import answer_parts
from lightloom.reports.figures.canvas import to_svg
from lightloom.reports.html import write
from lightloom.reports.report import PAGE_WIDTH, Picture, Report, Table, table_of


def compose(
    model: str,
    *,
    compared: Annotated[partial[Composition], Options(compose_ideas)],
    site: SiteFields = None,
    report: ReportFile = None,
    figure: FigureFile = None,
) -> Shown:
    """Compare the five papers' ideas on one model and equal bandwidth: alone, in every combination, and together.

    For example: lightloom compose gpt2-355m --ranks 64 --bandwidth 100Gbps

    Args:
        model: A model of the zoo, a file that describes one, or package.module:factory.
        exchange_profile (FILE): What lightloom compress profile wrote of the model, for INCEPTIONN's ratio; without it
            the least that its paper prints.
        report: Write an HTML page.
        figure: Draw what each idea takes off the best electrical plan (.svg, .png, .pdf).

    ``compared`` is :func:`lightloom.compose` with its other options bound to it, such as ``ranks`` and ``bandwidth``.
    ``site`` are ``field=value`` texts of what turns parts and watts into dollars.

    Returns:
        The result to print: the best plans with the ideas, and what each is worth.

    Raises:
        InputError: an argument that cannot be read, or no electrical plan that fits.
    """
    result = compared(model, site=site_inputs({}, site))
    document = result.to_json()
    if report is not None:
        write(_page(result), report)
    written = {"drawn": draw(figure, result.figure, document), "report": report}
    return Shown(document, answer_parts(result.answer()), written)


def _page(result: Composition) -> Report:
    """Return the HTML page of the result on the five papers' ideas: the answer, a picture of what each takes off the
    best electrical plan (Shapley values), tables of the best plan of each kind, of each idea's gain alone, beside all
    others and as Shapley value in per cent, of what was measured of those plans' accuracy, and of every set of ideas
    with its best plan; then the sets that are impossible and the networks without a plan, each with why."""
    answer, composed = result.answer(), result.composed
    sets = tuple(
        (" + ".join(sorted(ideas)) or "none", best.network, best.plan.label, format_time(best.time))
        for ideas, best in composed.values.items()
    )
    shares, base = composed.shapley(), composed.baseline.time
    worth = tuple(
        (IDEAS[idea], *map(str, gains), f"{100 * shares[idea] / base:.1f} %") for idea, gains in result.gains().items()
    )
    impossible = tuple((" + ".join(sorted(ideas)), why) for ideas, why in composed.impossible().items())
    accuracy = {(row.name, result.accuracy(row.best)) for row in result.plans}
    return Report(
        title=answer.question,
        headline=answer.best[0],
        answer=tuple(answer.lines(PAGE_WIDTH))[1:],
        pictures=(Picture(title="What each idea takes off (Shapley value)", svg=to_svg(result.figure())),),
        tables=(
            table_of("The best plans with each idea", result.display_rows()),
            Table(title="What each idea is worth", columns=("idea", "alone", "beside all others", "value"), rows=worth),
            Table(title="Effect on accuracy", columns=("idea", "measured"), rows=tuple(sorted(accuracy))),
            Table(title="Every set of ideas", columns=("ideas", "network", "best plan", "a sample"), rows=sets),
            Table(title="Sets that cannot be", columns=("ideas", "why"), rows=impossible),
            Table(title="Networks without a plan", columns=("network", "why"), rows=tuple(composed.refused.items())),
        ),
        provenance=result.origin,
    )
