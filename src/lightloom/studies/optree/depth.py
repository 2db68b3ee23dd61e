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
_SHAPES = {
    512: "stable, rises",
    1024: "falls, stable, rises",
    2048: "falls, rises",
    4096: "falls, rises",
}
_LOWEST = {1024: 7, 2048: 7, 4096: 8}


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


def _shapes() -> list[Claim]:
    return [
        PAPER.claim(
            "figure4.shape_{n}",
            shape([curve(n)[k] for k in INSET]),
            paper=_SHAPES[n],
            why=", ".join(str(curve(n)[k]) for k in INSET) + " steps by Theorem 1",
            n=n,
        )
        for n in RANKS
    ]


def _lowest() -> Iterator[Claim]:
    for n, printed in _LOWEST.items():
        exact = theorem_2_stages(n) or 0.0
        ties = [k for k, steps in curve(n).items() if steps == min(curve(n).values())]
        source = "Table I" if n == 1024 else "the text on Fig. 4"
        lowest = f"fewest steps at k = {' and '.join(map(str, ties))} ({curve(n)[ties[0]]})"
        rules = {
            "argmin": (best_stages(n, WAVELENGTHS), "the integer that minimises Theorem 1 before its ceiling"),
            "ceiling": (ceiling_stages(n), f"Eq. 2 gives {exact:.3f}, rounded up"),
            "rounding": (round(exact), f"Eq. 2 gives {exact:.3f}, rounded"),
        }
        yield from (
            PAPER.claim(
                "figure4.best_depth_{n}_{rule}",
                depth,
                paper=printed,
                why=f"paper: {source}; ours: {reason}: {curve(n)[depth]} steps; {lowest}",
                n=n,
                rule=rule,
            )
            for rule, (depth, reason) in rules.items()
        )


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
