"""Figure 4: time against the depth of the tree, by Theorem 1 and by integer radices, which a ring can be cut into."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import combinations_with_replacement, groupby, pairwise
from math import ceil, log2, prod

from lightloom.collectives.algorithms.optree_forms import best_stages, theorem_1_steps, theorem_2_stages
from lightloom.collectives.algorithms.optree_radices import best_radices, stage_steps
from lightloom.collectives.schedule.wavelengths import line_all_to_all_wavelengths, ring_all_to_all_wavelengths
from lightloom.core.claims import Claim
from lightloom.studies.optree import PAPER
from lightloom.studies.optree.model import WAVELENGTHS, ceiling_stages

RANKS = (512, 1024, 2048, 4096)
DEPTHS = range(1, 11)
INSET = range(5, 10)
"""Depths of the paper's inset."""

_COUNTED_EXACTLY = 6


def claims() -> tuple[Claim, ...]:
    """Return rows on the text about Fig. 4, and on schedules of its depths."""
    rows = [*_shapes(), *_lowest(), *_constructed()]
    rows.append(
        PAPER.claim(
            "figure4.reduction_from_one_stage",
            round(100 * (1 - curve(1024)[best_stages(1024, WAVELENGTHS)] / curve(1024)[1]), 2),
        )
    )
    return tuple(rows)


def curve(ranks: int) -> dict[int, int]:
    """Return the steps of Theorem 1 by depth. As every step costs d/B + a, times are proportional to them."""
    return {k: theorem_1_steps(ranks, WAVELENGTHS, k) for k in DEPTHS}


def shape(steps: list[int]) -> str:
    """Return a description of how a sequence rises and falls."""
    signs = ["falls" if b < a else "rises" if b > a else "stable" for a, b in pairwise(steps)]
    return ", ".join(word for word, _ in groupby(signs))


@cache
def constructed(ranks: int, depth: int) -> tuple[tuple[int, ...], int] | None:
    """(integer radices, steps) of the best tree of that depth among the near-uniform ones; None if none is so deep.

    All stages but the first take a radix near N^(1/k), in any mixture, larger ones last (parts that do not divide cost
    the most early on); the first stage takes what is left. The most promising by estimate are counted from the load of
    every link, so that a count is a real tree's, while a better tree may exist.
    """
    if depth > log2(ranks):
        return None
    if depth == 1:
        return (ranks,), sum(stage_steps(ranks, WAVELENGTHS, (ranks,)))
    base = round(ranks ** (1 / depth))
    near = range(max(base - 1, 2), base + 3)
    candidates = []
    for later in combinations_with_replacement(near, depth - 1):
        first = -(-ranks // prod(later))
        if first >= 2:
            candidates.append((first, *later))
    candidates.sort(key=lambda radices: _estimate(ranks, radices))
    counted = [(sum(stage_steps(ranks, WAVELENGTHS, radices)), radices) for radices in candidates[:_COUNTED_EXACTLY]]
    searched = best_radices(ranks, WAVELENGTHS)
    if len(searched) == depth:
        counted.append((sum(stage_steps(ranks, WAVELENGTHS, searched)), searched))
    steps, radices = min(counted)
    return radices, steps


def _estimate(ranks: int, radices: tuple[int, ...]) -> float:
    first, *later = radices
    wavelengths = ceil(ranks / first) * ring_all_to_all_wavelengths(first)
    return wavelengths + sum(ranks / radix * line_all_to_all_wavelengths(radix) for radix in later)


def _shapes() -> Iterator[Claim]:
    for n in RANKS:
        steps = [curve(n)[k] for k in INSET]
        yield PAPER.claim("figure4.shape_{n}", shape(steps), n=n, steps=", ".join(map(str, steps)))


def _lowest() -> Iterator[Claim]:
    for n in RANKS[1:]:
        exact, lowest = theorem_2_stages(n) or 0.0, min(curve(n).values())
        ties = " and ".join(str(k) for k, steps in curve(n).items() if steps == lowest)
        rules = {
            "argmin": (best_stages(n, WAVELENGTHS), "the integer that minimises Theorem 1 before its ceiling"),
            "ceiling": (ceiling_stages(n), f"Eq. 2 gives {exact:.3f}, rounded up"),
            "rounding": (round(exact), f"Eq. 2 gives {exact:.3f}, rounded"),
        }
        for rule, (depth, reason) in rules.items():
            values = {"reason": reason, "steps": curve(n)[depth], "ties": ties, "lowest": lowest}
            yield PAPER.claim(f"figure4.best_depth_{n}_{{rule}}", depth, rule=rule, **values)


def _constructed() -> Iterator[Claim]:
    for n in RANKS:
        radices = best_radices(n, WAVELENGTHS)
        steps = stage_steps(n, WAVELENGTHS, radices)
        yield PAPER.claim(
            "figure4.constructed_steps_{n}",
            sum(steps),
            paper=min(curve(n).values()),
            n=n,
            radices="·".join(map(str, radices)),
            steps="+".join(map(str, steps)),
        )
