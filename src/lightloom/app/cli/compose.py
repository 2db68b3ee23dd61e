"""``lightloom compose``: the five papers' ideas on one model, alone and together."""

from functools import partial
from typing import Annotated

from lightloom.app.api.composing import Composition
from lightloom.app.api.composing import compose as compose_ideas
from lightloom.app.cli.options import FigureFile, Options, Shown, SiteFields, draw, site_inputs
from lightloom.reports.console import answer_parts


def compose(
    model: str,
    *,
    compared: Annotated[partial[Composition], Options(compose_ideas)],
    site: SiteFields = None,
    figure: FigureFile = None,
) -> Shown:
    """Compare the five papers' ideas on one model and equal bandwidth: alone, in every combination, and together.

    For example: lightloom compose gpt2-355m --ranks 64 --bandwidth 100Gbps

    Args:
        model: A model of the zoo, a file that describes one, or package.module:factory.
        exchange_profile (FILE): What lightloom compress profile wrote of the model, for INCEPTIONN's ratio; without it
            the least that its paper prints.
        figure: Draw what each idea takes off the best electrical plan (.svg, .png, .pdf).
    """
    result = compared(model, site=site_inputs({}, site))
    document = result.to_json()
    return Shown(document, answer_parts(result.answer()), {"drawn": draw(figure, result.figure, document)})
