"""Table I at N = 1024, w = 64: the formulas, built schedules, and inconsistent forms."""

from __future__ import annotations

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
from lightloom.studies.optree.model import RANKS as N
from lightloom.studies.optree.model import WAVELENGTHS as W
from lightloom.studies.optree.model import built, ceiling_stages

PRINTED_STAGES = 7


def claims() -> tuple[Claim, ...]:
    """Return the rows of Table I."""
    return (*_baselines(), *_one_stage(), *_wrht(), *_optree(), *_three_answers(), *_depth())


def _row(what: str, paper: float | str | None, ours: float | str, why: str = "", unit: str = "steps") -> Claim:
    return Claim(id=f"optree.table1.{what}", paper=paper, ours=ours, unit=unit, why=why)


def _baselines() -> list[Claim]:
    verified = "the schedule itself, built and verified"
    return [
        _row("ring_steps", 1023, ring_steps(N)),
        _row("ring_built_steps", 1023, built("ring").steps, verified),
        _row("ne_steps", 512, neighbour_exchange_steps(N)),
        _row("ne_built_steps", 512, built("neighbour-exchange").steps, f"{verified}; two shares a step"),
        _row(
            "ne_pairs_built_steps",
            512,
            built("neighbour-exchange-pairs").steps,
            f"{verified}; the two shares side by side on two wavelengths, which is what charging d a step needs",
        ),
    ]


def _one_stage() -> list[Claim]:
    formula = -(-N * N // (8 * W))
    return [
        _row(
            "one_stage_steps",
            128,
            one_stage_steps(N, W),
            f"the row's own formula ceil(N²/(8w)) is ceil({N}²/(8·{W})) = {formula}; 128 would need w = 1024. "
            "Proof: (N/2)² shares leave a half of the ring, over 2 links of w wavelengths, so that no schedule of "
            "single destinations takes less",
        ),
        _row("one_stage_formula_steps", formula, one_stage_steps(N, W), "paper: the formula printed in the same row"),
        _row("one_stage_built_steps", formula, built("one-stage").steps, "the schedule itself, built and verified"),
    ]


def _wrht() -> list[Claim]:
    p, theta = 2 * W + 1, 2
    collect = 1 - (p - N) // (p - 1)
    padded, literal = (wrht_all_gather_steps(N, W, padded=padded) for padded in (True, False))
    return [
        _row(
            "wrht_steps",
            259,
            padded,
            f"with p = 2w+1 = {p}, θ = ceil(log_p N) = {theta} and N padded to p^θ = {p**theta}: "
            "130 steps to collect, 129 to broadcast. It presumes multicast, so it is a formula and no schedule",
        ),
        _row(
            "wrht_formula_steps",
            259,
            literal,
            f"the formula of the row with N = {N} itself: 7 + 8 + 1; only padding N to p^θ gives 259. "
            "Taken literally, WRHT needs fewer steps than OpTree here",
        ),
        _row(
            "wrht_text_steps",
            259,
            collect + (theta - 1) * p ** (theta - 1),
            "the total in the text above the table, 1 + ceil((N−p)/(p−1)) + (θ−1)p^(θ−1) = 1 + 7 + 129: "
            "N in one term, the padded p^θ in the other",
        ),
        _row(
            "wrht_text_steps_one_root",
            259,
            collect + theta * p ** (theta - 1),
            "the text's alternative total, with θ·p^(θ−1) steps to broadcast: 1 + 7 + 258",
        ),
    ]


def _optree() -> list[Claim]:
    constructed = built("optree")
    return [
        _row(
            "optree_steps",
            70,
            theorem_1_steps(N, W, PRINTED_STAGES),
            f"Theorem 1 at k = 7: one ceiling over {theorem_1_exact(N, W, PRINTED_STAGES):.2f}",
        ),
        _row(
            "optree_constructed_steps",
            70,
            constructed.steps,
            f"a schedule that is built and verified: {constructed.notes}. Theorem 1 takes a radix of N^(1/7) = "
            f"{N ** (1 / PRINTED_STAGES):.2f} and one ceiling for all stages; a ring can only be cut into whole "
            "parts, and every stage ends on a whole step",
        ),
    ]


def _three_answers() -> list[Claim]:
    k = PRINTED_STAGES
    m = N ** (1 / k)
    stages = literal_stage_steps(N, W, k)
    return [
        _row(
            "optree_equation_3_steps",
            70,
            equation_3_steps(N, W, k),
            "Eq. 3 counts ceil(m·log_m(N)·N/(4w)): every stage as a stage on a line, N·m/(4w). "
            "Eq. 1 charges the first, on the ring, half of that",
        ),
        _row(
            "optree_theorem_3_proof_steps",
            70,
            theorem_3_proof_steps(N, W, k),
            f"the last line of Theorem 3's proof, ceil((2k*−1)N/(8w)), has lost the factor m = N^(1/k*) = {m:.2f}",
        ),
        _row(
            "optree_literal_stage_1_steps",
            70,
            stages[0],
            f"the first stage alone, as Theorem 1's proof writes it: ceil(m²/(8w))·ceil(N/m) = 1·{stages[0]}. "
            "The ceiling must come last: the N/m subsets share the wavelengths of one step",
        ),
        _row(
            "optree_literal_later_steps",
            70,
            sum(stages[1:]),
            "the six later stages, as Theorem 1's proof writes them: floor(m²/(4w))·ceil(N/m) = 0·381 each; "
            "the floor belongs to the wavelengths of one subset, floor(m²/4), before dividing by w",
        ),
    ]


def _depth() -> list[Claim]:
    exact = theorem_2_stages(N) or 0.0
    return [
        _row("k_star", PRINTED_STAGES, ceiling_stages(N), f"Eq. 2 gives {exact:.3f}; rounded up", "stages"),
        _row(
            "k_star_rounded",
            PRINTED_STAGES,
            round(exact),
            f"the text calls the brackets of Eq. 2 rounding, and {exact:.3f} rounds to {round(exact)}; "
            "the table needs the ceiling (both depths give 70 steps)",
            "stages",
        ),
    ]
