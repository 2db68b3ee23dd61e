"""The percentages: averages over nodes, over wavelengths, the headline, and those of the journal version."""

from __future__ import annotations

from lightloom.collectives.algorithms.optree_radices import best_radices, stage_steps
from lightloom.core.claims import Claim
from lightloom.studies.optree import PAPER
from lightloom.studies.optree.comparison import BY_RANKS, BY_WAVELENGTHS, Settings, argmin_steps
from lightloom.studies.optree.model import MESSAGE, ORDER, RANKS, WAVELENGTHS, paper_steps, seconds

RIVALS = ("WRHT", "Ring", "NE")
NODES = {"WRHT": 56.36, "Ring": 92.76, "NE": 85.54}
LIGHT = {"WRHT": 88.06, "Ring": 95.84, "NE": 91.69}
HEADLINE = {"WRHT": 72.21, "Ring": 94.30, "NE": 88.58}
JOURNAL = {"WRHT": 72.97, "Ring": 93.15, "NE": 86.32}
"""Abstract of the version in IEEE Open Journal of the Communications Society, 2024 (N = 1024); seen as a listing."""


def claims() -> tuple[Claim, ...]:
    """Return the rows of all percentages."""
    return (*_nodes(), *_wavelengths(), *_headline(), *_journal())


def reduction(rival: str, settings: Settings) -> float:
    """Return the mean percentage of time that OpTree saves over ``rival`` in (N, w) settings."""
    steps = [paper_steps(n, w) for n, w in settings]
    return _mean([100 * (1 - each["OpTree"] / each[rival]) for each in steps])


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _nodes() -> list[Claim]:
    rows = [
        PAPER.claim(
            "headline.{rival}_reduction_nodes",
            round(reduction(rival, BY_RANKS), 4),
            paper=NODES[rival],
            rival=rival.lower(),
        )
        for rival in RIVALS
    ]
    rows += [
        PAPER.claim(
            "headline.wrht_reduction_nodes_argmin",
            round(_mean([100 * (1 - argmin_steps(n, w) / paper_steps(n, w)["WRHT"]) for n, w in BY_RANKS]), 4),
            paper=NODES["WRHT"],
        ),
        _ne_with_two_shares(),
    ]
    return rows


def _ne_with_two_shares() -> Claim:
    """Return the saving over NE as the text describes it: every step but the first carries 2d."""
    steps = [paper_steps(n, w) for n, w in BY_RANKS]
    limit = _mean([100 * (1 - each["OpTree"] / (2 * each["NE"] - 1)) for each in steps])
    four_mib = _mean(
        [100 * (1 - seconds(each["OpTree"], MESSAGE) / seconds(each["NE"], MESSAGE, later_shares=2)) for each in steps]
    )
    return PAPER.claim("headline.ne_reduction_nodes_two_shares", round(limit, 4), paper=NODES["NE"], four_mib=four_mib)


def _wavelengths() -> list[Claim]:
    printed = "; ".join(
        f"w = {w}: " + ", ".join(f"{name} {paper_steps(n, w)[name]}" for name in ORDER) for n, w in BY_WAVELENGTHS
    )
    why = f"mean over w = 96 and 128 at N = 1024 by the same counts that give the averages over nodes ({printed})"
    rows = [
        PAPER.claim(
            "headline.{rival}_reduction_wavelengths",
            round(reduction(rival, BY_WAVELENGTHS), 4),
            paper=LIGHT[rival],
            why=why,
            rival=rival.lower(),
        )
        for rival in RIVALS
    ]
    built = [sum(stage_steps(n, w, best_radices(n, w))) for n, w in BY_WAVELENGTHS]
    implied = {rival: 2 * (100 - LIGHT[rival]) / 100 * paper_steps(RANKS, 96)[rival] for rival in ("Ring", "NE")}
    rows.append(
        PAPER.claim(
            "headline.optree_steps_wavelengths_sum",
            sum((paper_steps(n, w)["OpTree"] for n, w in BY_WAVELENGTHS)),
            paper=round(_mean(list(implied.values()))),
            implied=implied,
            built=built,
            sum=sum(built),
        )
    )
    return rows


def _headline() -> list[Claim]:
    rows = []
    for rival in RIVALS:
        middle = (NODES[rival] + LIGHT[rival]) / 2
        ours = (reduction(rival, BY_RANKS) + reduction(rival, BY_WAVELENGTHS)) / 2
        rows += [
            PAPER.claim(
                "headline.{rival}_reduction_midpoint",
                round(middle, 4),
                paper=HEADLINE[rival],
                why=f"the midpoint of the two printed averages, {NODES[rival]} and {LIGHT[rival]}",
                rival=rival.lower(),
            ),
            PAPER.claim("headline.{rival}_reduction", round(ours, 4), paper=HEADLINE[rival], rival=rival.lower()),
        ]
    return rows


def _journal() -> list[Claim]:
    point = ((RANKS, WAVELENGTHS),)
    return [
        PAPER.claim(
            "headline.{rival}_reduction_journal",
            round(reduction(rival, point), 4),
            paper=JOURNAL[rival],
            rival=rival.lower(),
        )
        for rival in RIVALS
    ]
