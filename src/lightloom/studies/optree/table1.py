"""Table I at N = 1024, w = 64: the formulas, built schedules, and inconsistent forms."""

from __future__ import annotations

from collections.abc import Iterator

from lightloom.collectives.algorithms.neighbour_exchange import neighbour_exchange_steps
from lightloom.collectives.algorithms.one_stage import one_stage_steps
from lightloom.collectives.algorithms.optree_forms import (
    equation_3_steps,
    literal_stage_steps,
    theorem_1_exact,
    theorem_1_steps,
    theorem_2_stages,
    theorem_3_proof_steps,
)
from lightloom.collectives.algorithms.ring import ring_steps
from lightloom.collectives.algorithms.wrht import wrht_all_gather_steps
from lightloom.core.claims import Claim
from lightloom.studies.optree import PAPER
from lightloom.studies.optree.model import RANKS as N
from lightloom.studies.optree.model import WAVELENGTHS as W
from lightloom.studies.optree.model import built, ceiling_stages

PRINTED_STAGES = 7


def claims() -> tuple[Claim, ...]:
    """Return the rows of Table I."""
    return (*_baselines(), *_one_stage(), *_wrht(), *_optree(), *_three_answers(), *_depth())


def _baselines() -> Iterator[Claim]:
    yield PAPER.claim("table1.ring_steps", ring_steps(N))
    yield PAPER.claim("table1.ring_built_steps", built("ring").steps)
    yield PAPER.claim("table1.ne_steps", neighbour_exchange_steps(N))
    yield PAPER.claim("table1.ne_built_steps", built("neighbour-exchange").steps)
    yield PAPER.claim("table1.ne_pairs_built_steps", built("neighbour-exchange-pairs").steps)


def _one_stage() -> Iterator[Claim]:
    formula = -(-N * N // (8 * W))
    yield PAPER.claim("table1.one_stage_steps", one_stage_steps(N, W), n=N, w=W, formula=formula)
    yield PAPER.claim("table1.one_stage_formula_steps", one_stage_steps(N, W), paper=formula)
    yield PAPER.claim("table1.one_stage_built_steps", built("one-stage").steps, paper=formula)


def _wrht() -> Iterator[Claim]:
    p, theta = 2 * W + 1, 2
    collect = 1 - (p - N) // (p - 1)
    padded, literal = (wrht_all_gather_steps(N, W, padded=padded) for padded in (True, False))
    yield PAPER.claim("table1.wrht_steps", padded, p=p, theta=theta, padded=p**theta)
    yield PAPER.claim("table1.wrht_formula_steps", literal, n=N)
    yield PAPER.claim("table1.wrht_text_steps", collect + (theta - 1) * p ** (theta - 1))
    yield PAPER.claim("table1.wrht_text_steps_one_root", collect + theta * p ** (theta - 1))


def _optree() -> Iterator[Claim]:
    constructed = built("optree")
    yield PAPER.claim(
        "table1.optree_steps",
        theorem_1_steps(N, W, PRINTED_STAGES),
        theorem_1_exact=theorem_1_exact(N, W, PRINTED_STAGES),
    )
    yield PAPER.claim(
        "table1.optree_constructed_steps",
        constructed.steps,
        tree=constructed,
        radix=N ** (1 / PRINTED_STAGES),
    )


def _three_answers() -> Iterator[Claim]:
    k = PRINTED_STAGES
    m = N ** (1 / k)
    stages = literal_stage_steps(N, W, k)
    yield PAPER.claim("table1.optree_equation_3_steps", equation_3_steps(N, W, k))
    yield PAPER.claim("table1.optree_theorem_3_proof_steps", theorem_3_proof_steps(N, W, k), m=m)
    yield PAPER.claim("table1.optree_literal_stage_1_steps", stages[0], stages=stages)
    yield PAPER.claim("table1.optree_literal_later_steps", sum(stages[1:]))


def _depth() -> Iterator[Claim]:
    exact = theorem_2_stages(N) or 0.0
    yield PAPER.claim("table1.k_star", ceiling_stages(N), exact=exact)
    yield PAPER.claim("table1.k_star_rounded", round(exact), exact=exact, rounded=round(exact))
