"""Figures 5 and 6: time of OpTree, WRHT, neighbour exchange (NE) and Ring under the paper's cost model.

Every step costs d/B + a, so that a ratio of times is a ratio of steps: message size, bandwidth and delays cancel, and
no assumption about them touches a row, but for NE with two shares a step.
"""

from __future__ import annotations

from collections.abc import Iterator

from lightloom.collectives.algorithms.optree_forms import best_stages, theorem_1_steps
from lightloom.collectives.algorithms.wrht import wrht_all_gather_steps
from lightloom.core.claims import Claim
from lightloom.studies.optree import PAPER
from lightloom.studies.optree.model import ORDER, WAVELENGTHS, by_time, paper_steps

SIZES = tuple(2**exponent * 2**20 for exponent in range(8))
"""Bytes of one rank's share, 1 to 128 MiB: an assumption, the paper's range is not legible."""
Settings = tuple[tuple[int, int], ...]

BY_RANKS: Settings = ((1024, WAVELENGTHS), (2048, WAVELENGTHS))
"""(N, w) of Fig. 5."""
BY_WAVELENGTHS: Settings = ((1024, 96), (1024, 128))
"""(N, w) of Fig. 6."""


def claims() -> tuple[Claim, ...]:
    """Return rows on the text about Figs. 5 and 6."""
    return (*_extremes(), *_figure_5(), *_figure_6())


def literal_steps(ranks: int, wavelengths: int) -> dict[str, int]:
    """Return :func:`paper_steps` with WRHT by Table I's formula with N itself."""
    literal = wrht_all_gather_steps(ranks, wavelengths, padded=False)
    return paper_steps(ranks, wavelengths) | {"WRHT": literal}


def _steps_in_words(steps: dict[str, int]) -> str:
    return ", ".join(f"{name} {steps[name]}" for name in ORDER) + " steps"


def _extremes() -> Iterator[Claim]:
    for figure, settings in ((5, BY_RANKS), (6, BY_WAVELENGTHS)):
        for ranks, wavelengths in settings:
            steps = paper_steps(ranks, wavelengths)
            values = {"steps": _steps_in_words(steps), "name": f"n{ranks}" if figure == 5 else f"w{wavelengths}"}
            yield PAPER.claim(f"figure{figure}.fastest_{{name}}", by_time(steps)[0], **values)
            yield PAPER.claim(f"figure{figure}.slowest_{{name}}", by_time(steps)[-1], **values)


def _figure_5() -> Iterator[Claim]:
    small, large = (paper_steps(n, w) for n, w in BY_RANKS)
    ratios = [steps["WRHT"] / steps["OpTree"] for steps in (small, large)]
    literal, beyond = literal_steps(1024, WAVELENGTHS), paper_steps(4096, WAVELENGTHS)
    yield PAPER.claim(
        "figure5.wrht_over_optree_from_1024_to_2048",
        "closer" if ratios[1] < ratios[0] else "not closer",
        ratios=ratios,
        large=large,
    )
    yield PAPER.claim(
        "figure5.fastest_n1024_wrht_by_formula", by_time(literal)[0], steps_in_words=_steps_in_words(literal)
    )
    yield PAPER.claim("figure5.fastest_n4096", by_time(beyond)[0], steps_in_words=_steps_in_words(beyond))


def _figure_6() -> Iterator[Claim]:
    few, many = (paper_steps(n, w) for n, w in BY_WAVELENGTHS)
    literal = literal_steps(*BY_WAVELENGTHS[1])
    for name in ("OpTree", "WRHT"):
        trend = "falls" if many[name] < few[name] else "rises"
        yield PAPER.claim(f"figure6.{name.lower()}_from_w96_to_w128", trend, few=few[name], many=many[name])
    for name, steps in (("wrht", many), ("wrht_by_formula", literal)):
        yield PAPER.claim(f"figure6.{name}_against_ne_w128", _against(steps["WRHT"], steps["NE"]), steps=steps)


def _against(ours: int, theirs: int) -> str:
    if ours < theirs:
        return "smaller"
    return "slightly larger" if ours <= 1.05 * theirs else "larger"


def argmin_steps(ranks: int, wavelengths: int) -> int:
    """Return the steps of Theorem 1 at the depth that minimises them, as in Fig. 4."""
    return theorem_1_steps(ranks, wavelengths, best_stages(ranks, wavelengths))
