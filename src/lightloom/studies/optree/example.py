"""The motivating example, 16 nodes and 2 wavelengths, by schedules that are built and verified; and small-N slips."""

from __future__ import annotations

from math import ceil, e

from lightloom.collectives.algorithms.optree_forms import best_stages, theorem_1_steps, theorem_2_stages
from lightloom.collectives.algorithms.optree_radices import stage_steps
from lightloom.core.claims import Claim
from lightloom.studies.optree.model import built, built_tree, ceiling_stages

N, W = 16, 2
TWO_STAGES, THREE_STAGES = (4, 4), (2, 3, 3)


def claims() -> tuple[Claim, ...]:
    """Return the rows of section III-C and of Lemma 1."""
    return (*_steps(), *_wavelengths(), *_formulas(), *_radices(), *_depth(), *_lemma_1())


def _row(what: str, paper: float | str | None, ours: float | str, why: str = "", unit: str = "steps") -> Claim:
    return Claim(id=f"optree.example.{what}", paper=paper, ours=ours, unit=unit, why=why)


def _steps() -> list[Claim]:
    one, two, three = built("one-stage", N, W), built_tree(TWO_STAGES, N, W), built_tree(THREE_STAGES, N, W)
    return [
        _row("one_stage_steps", 16, one.steps, "built and verified"),
        _row("two_stage_steps", 12, two.steps, f"built and verified: {two.notes}"),
        _row("three_stage_steps", 16, three.steps, f"built and verified: {three.notes}"),
    ]


def _wavelengths() -> list[Claim]:
    """The wavelengths that a stage needs are its steps on a ring of one wavelength, built and verified there."""
    rows = [_row("one_stage_wavelengths", 32, built("one-stage", N, 1).steps, unit="wavelengths")]
    printed = {"two_stage": (TWO_STAGES, (8, 16)), "three_stage": (THREE_STAGES, (8, 12, 12))}
    for name, (radices, wavelengths) in printed.items():
        counted = stage_steps(N, 1, radices)
        if sum(counted) != (steps := built_tree(radices, N, 1).steps):
            raise RuntimeError(f"radices {radices}: {counted} counted, {steps} steps built")
        rows += [
            _row(f"{name}_wavelengths_{number}", paper, ours, unit="wavelengths")
            for number, (paper, ours) in enumerate(zip(wavelengths, counted, strict=True), start=1)
        ]
    return rows


def _formulas() -> list[Claim]:
    return [
        _row("one_stage_theorem_1_steps", 16, theorem_1_steps(N, W, 1)),
        _row("two_stage_theorem_1_steps", 12, theorem_1_steps(N, W, 2)),
        _row(
            "three_stage_theorem_1_steps",
            16,
            theorem_1_steps(N, W, 3),
            "Eq. 1 at k = 3 takes a radix of 16^(1/3) = 2.52; the example counts fan-outs of 2, 3 and 3, "
            "and 16 is what a schedule needs that has them",
        ),
    ]


def _radices() -> list[Claim]:
    m, stages = 3, 3
    share = [ceil(N / m**stage) for stage in range(1, stages + 1)]
    colours = [share[0] * ceil(m * m / 8)]
    colours += [m ** (stage - 1) * share[stage - 1] * (m * m // 4) for stage in range(2, stages + 1)]
    other = built_tree((3, 3, 2), N, W)
    return [
        _row(
            "three_stage_uniform_steps",
            16,
            sum(ceil(count / W) for count in colours),
            f"a tree of radix 3 in all stages, counted as the text counts: {' + '.join(map(str, colours))} "
            "wavelengths. The 16 belongs to fan-outs 2, 3 and 3, so the example is not a 3-ary tree throughout",
        ),
        _row(
            "three_stage_best_steps",
            16,
            other.steps,
            f"the same three fan-outs in another order, built and verified: {other.notes}",
        ),
    ]


def _depth() -> list[Claim]:
    first = next(n for n in range(2, 100) if theorem_2_stages(n) is not None)
    return [
        _row(
            "k_star",
            ceiling_stages(N),
            best_stages(N, W),
            f"Eq. 2 gives {theorem_2_stages(N):.2f}, rounded up 3: {theorem_1_steps(N, W, 3)} steps by Eq. 1. "
            f"Two stages need {theorem_1_steps(N, W, 2)}, as the example itself shows",
            "stages",
        ),
        _row(
            "equation_2_smallest_ranks",
            2,
            first,
            f"ln N − 2 is negative below e² = {e**2:.2f}, so that Eq. 2 has no real value for N < {first}; "
            "the theorem names no lower limit",
            "ranks",
        ),
    ]


def _lemma_1() -> list[Claim]:
    steps = built("one-stage", 5, 3).steps
    if steps != 1:
        raise RuntimeError(f"one stage of 5 ranks on 3 wavelengths took {steps} steps: expected 1")
    return [
        _row("lemma_1_wavelengths_16", ceil(N * N / 8), built("one-stage", N, 1).steps, unit="wavelengths"),
        _row(
            "lemma_1_wavelengths_5",
            ceil(5 * 5 / 8),
            built("one-stage", 5, 1).steps,
            "a one-stage all-to-all of 5 nodes is built and verified in one step on 3 wavelengths. "
            "ceil(N²/8) is loose for odd N: the minimum is ceil(floor(N²/4)/2)",
            "wavelengths",
        ),
    ]
