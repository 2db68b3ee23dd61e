"""The percentages: averages over nodes, over wavelengths, the headline, and those of the journal version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import fmean

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
    return (
        *_reductions("nodes", NODES, BY_RANKS),
        *_other_counts(),
        *_wavelengths(),
        *_headline(),
        *_reductions("journal", JOURNAL, ((RANKS, WAVELENGTHS),)),
    )


def reduction(rival: str, settings: Settings) -> float:
    """Return the mean percentage of time that OpTree saves over ``rival`` in (N, w) settings."""
    steps = [paper_steps(n, w) for n, w in settings]
    return fmean(100 * (1 - counts["OpTree"] / counts[rival]) for counts in steps)


def _reductions(what: str, averages: Mapping[str, float], settings: Settings, **values: str) -> Iterator[Claim]:
    for rival in RIVALS:
        ours = round(reduction(rival, settings), 4)
        yield PAPER.claim(
            "headline.{rival}_reduction_" + what, ours, paper=averages[rival], rival=rival.lower(), **values
        )


def _other_counts() -> Iterator[Claim]:
    """Yield the averages over nodes by the text: the depth that minimises Theorem 1, and NE with 2d in later steps."""
    steps = [paper_steps(n, w) for n, w in BY_RANKS]
    argmin = fmean(100 * (1 - argmin_steps(n, w) / paper_steps(n, w)["WRHT"]) for n, w in BY_RANKS)
    limit = fmean(100 * (1 - counts["OpTree"] / (2 * counts["NE"] - 1)) for counts in steps)
    four_mib = fmean(
        100 * (1 - seconds(counts["OpTree"], MESSAGE) / seconds(counts["NE"], MESSAGE, later_shares=2))
        for counts in steps
    )
    yield PAPER.claim("headline.wrht_reduction_nodes_argmin", round(argmin, 4), paper=NODES["WRHT"])
    yield PAPER.claim("headline.ne_reduction_nodes_two_shares", round(limit, 4), paper=NODES["NE"], four_mib=four_mib)


def _wavelengths() -> Iterator[Claim]:
    printed = "; ".join(
        f"w = {w}: " + ", ".join(f"{name} {paper_steps(n, w)[name]}" for name in ORDER) for n, w in BY_WAVELENGTHS
    )
    yield from _reductions("wavelengths", LIGHT, BY_WAVELENGTHS, printed=printed)
    built = [sum(stage_steps(n, w, best_radices(n, w))) for n, w in BY_WAVELENGTHS]
    implied = {rival: 2 * (100 - LIGHT[rival]) / 100 * paper_steps(RANKS, 96)[rival] for rival in ("Ring", "NE")}
    yield PAPER.claim(
        "headline.optree_steps_wavelengths_sum",
        sum(paper_steps(n, w)["OpTree"] for n, w in BY_WAVELENGTHS),
        paper=round(fmean(implied.values())),
        implied=implied,
        built=built,
        sum=sum(built),
    )


def _headline() -> Iterator[Claim]:
    for rival in RIVALS:
        ours = (reduction(rival, BY_RANKS) + reduction(rival, BY_WAVELENGTHS)) / 2
        values = {"paper": HEADLINE[rival], "rival": rival.lower()}
        averages = (NODES[rival], LIGHT[rival])
        yield PAPER.claim(
            "headline.{rival}_reduction_midpoint", round(sum(averages) / 2, 4), averages=averages, **values
        )
        yield PAPER.claim("headline.{rival}_reduction", round(ours, 4), **values)
