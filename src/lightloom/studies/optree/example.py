"""The motivating example, 16 nodes and 2 wavelengths, by schedules that are built and verified; and small-N slips."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, e

from lightloom.collectives.algorithms.optree_forms import best_stages, theorem_1_steps, theorem_2_stages
from lightloom.collectives.algorithms.optree_radices import stage_steps
from lightloom.core.claims import Claim
from lightloom.studies.optree import PAPER
from lightloom.studies.optree.model import built, built_tree, ceiling_stages

N, W = 16, 2
TWO_STAGES, THREE_STAGES = (4, 4), (2, 3, 3)
_NAMES = ("one", "two", "three")


def claims() -> tuple[Claim, ...]:
    """Return the rows of section III-C and of Lemma 1."""
    return (*_steps(), *_wavelengths(), *_formulas(), *_radices(), *_depth(), *_lemma_1())


def _steps() -> Iterator[Claim]:
    """The schedules of the example, built and verified."""
    schedules = (built("one-stage", N, W), built_tree(TWO_STAGES, N, W), built_tree(THREE_STAGES, N, W))
    for name, schedule in zip(_NAMES, schedules, strict=True):
        yield PAPER.claim(f"example.{name}_stage_steps", schedule.steps, notes=schedule.notes)


def _wavelengths() -> Iterator[Claim]:
    """The wavelengths that a stage needs are its steps on a ring of one wavelength, built and verified there."""
    yield PAPER.claim("example.one_stage_wavelengths", built("one-stage", N, 1).steps)
    printed = {"two_stage": (TWO_STAGES, (8, 16)), "three_stage": (THREE_STAGES, (8, 12, 12))}
    for name, (radices, wavelengths) in printed.items():
        counted = stage_steps(N, 1, radices)
        if sum(counted) != (steps := built_tree(radices, N, 1).steps):
            raise RuntimeError(f"radices {radices}: {counted} counted, {steps} steps built")
        yield from (
            PAPER.claim("example.{name}_wavelengths_{number}", ours, paper=paper, name=name, number=number)
            for number, (paper, ours) in enumerate(zip(wavelengths, counted, strict=True), start=1)
        )


def _formulas() -> Iterator[Claim]:
    for k, name in enumerate(_NAMES, 1):
        yield PAPER.claim(f"example.{name}_stage_theorem_1_steps", theorem_1_steps(N, W, k))


def _radices() -> Iterator[Claim]:
    m, stages = 3, 3
    share = [ceil(N / m**stage) for stage in range(1, stages + 1)]
    colours = [share[0] * ceil(m * m / 8)]
    colours += [m ** (stage - 1) * share[stage - 1] * (m * m // 4) for stage in range(2, stages + 1)]
    other = built_tree((3, 3, 2), N, W)
    yield PAPER.claim(
        "example.three_stage_uniform_steps",
        sum(ceil(count / W) for count in colours),
        colours=" + ".join(map(str, colours)),
    )
    yield PAPER.claim("example.three_stage_best_steps", other.steps, other=other)


def _depth() -> Iterator[Claim]:
    first = next(n for n in range(2, 100) if theorem_2_stages(n) is not None)
    values = {"exact": theorem_2_stages(N), "two": theorem_1_steps(N, W, 2), "three": theorem_1_steps(N, W, 3)}
    yield PAPER.claim("example.k_star", best_stages(N, W), paper=ceiling_stages(N), **values)
    yield PAPER.claim("example.equation_2_smallest_ranks", first, e_squared=e**2, first=first)


def _lemma_1() -> Iterator[Claim]:
    steps = built("one-stage", 5, 3).steps
    if steps != 1:
        raise RuntimeError(f"one stage of 5 ranks on 3 wavelengths took {steps} steps: expected 1")
    yield PAPER.claim("example.lemma_1_wavelengths_16", built("one-stage", N, 1).steps, paper=ceil(N * N / 8))
    yield PAPER.claim("example.lemma_1_wavelengths_5", built("one-stage", 5, 1).steps, paper=ceil(5 * 5 / 8))
