"""OpTree's closed forms as printed, for the study and for comparison with the schedules that are really built."""

from __future__ import annotations

from math import ceil, log, sqrt


def theorem_1_steps(ranks: int, wavelengths: int, stages: int) -> int:
    """ceil((2k − 1) N^(1 + 1/k) / (8w)) (Theorem 1, Eq. 1; k = 1 is the one-stage row of Table I)."""
    return ceil(theorem_1_exact(ranks, wavelengths, stages) - 1e-9)


def theorem_2_stages(ranks: int) -> float | None:
    """k* before rounding: (ln N + sqrt(ln N (ln N − 2))) / 2 (Eq. 2); None below N = 8, where the root is imaginary."""
    logarithm = log(ranks)
    return (logarithm + sqrt(logarithm * (logarithm - 2))) / 2 if logarithm >= 2 else None


def best_stages(ranks: int, wavelengths: int) -> int:
    """The integer k that minimises Theorem 1 (what the paper's Fig. 4 shows); fewer stages win ties."""
    return min(range(1, ranks.bit_length() + 1), key=lambda k: (theorem_1_exact(ranks, wavelengths, k), k))


def theorem_1_exact(ranks: int, wavelengths: int, stages: int) -> float:
    """Theorem 1 without its ceiling."""
    return float((2 * stages - 1) * ranks ** (1 + 1 / stages) / (8 * wavelengths))


def equation_3_steps(ranks: int, wavelengths: int, stages: int) -> int:
    """ceil(N m log_m N / (4w)) with m = N^(1/k) (Eq. 3, Theorem 3)."""
    return ceil(2 * stages / (2 * stages - 1) * theorem_1_exact(ranks, wavelengths, stages) - 1e-9)


def theorem_3_proof_steps(ranks: int, wavelengths: int, stages: int) -> int:
    """ceil((2k − 1) N / (8w)) (the last line of Theorem 3's proof)."""
    return ceil((2 * stages - 1) * ranks / (8 * wavelengths) - 1e-9)


def literal_stage_steps(ranks: int, wavelengths: int, stages: int) -> list[int]:
    """The per-stage counts in Theorem 1's proof, taken literally: ceil(m²/8w)·ceil(N/m), then
    floor(m²/4w)·ceil(N/m)."""
    m = ranks ** (1 / stages)
    share = ceil(ranks / m - 1e-9)
    first = ceil(m * m / (8 * wavelengths) - 1e-9) * share
    return [first] + [int(m * m / (4 * wavelengths) + 1e-9) * share] * (stages - 1)
