"""Table III and Figure 14(a): bits per value, and the resulting compression ratio."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lightloom.core.claims import Claim
from lightloom.studies.base import Record
from lightloom.studies.inceptionn import PAPER
from lightloom.studies.inceptionn.paper import BEST_RATIO, BOUNDS, MODELS, TABLE_3, TAG_BITS, ratio
from lightloom.studies.inceptionn.tables import slug

_TOLERANCE = 2.0
"""Tolerance of a share in percentage points, as initialisation and order of data differ from the paper's."""


def claims(training: Record) -> tuple[Claim, ...]:
    """Return the rows from the training record."""
    return (*_shares(training), *_ratios(training), _best(), *_rounding())


def mean_shares(training: Record) -> dict[int, list[float]]:
    """Return the percentage of rank 0's gradient in each class, by k, averaged over the float32 run."""
    tags = np.array(training["runs"]["float32"][0]["tags"])
    return {k: (100 * tags[:, place].mean(axis=0)).tolist() for place, k in enumerate(BOUNDS)}


def mean_ratio(shares: list[float]) -> float:
    """Return the compression ratio: float32 bits per sent bit."""
    return 32 / sum(share / 100 * bits for share, bits in zip(shares, TAG_BITS, strict=True))


def _shares(training: Record) -> list[Claim]:
    ours = mean_shares(training)
    return [
        PAPER.claim(
            "table3.hdc_bound{k}_{bits}bit", round(ours[k][place], 2), paper=TABLE_3["HDC", k][place], k=k, bits=bits
        )
        for k in BOUNDS
        for place, bits in enumerate(TAG_BITS)
    ]


def _ratios(training: Record) -> list[Claim]:
    ours = mean_shares(training)
    return [
        PAPER.claim("figure14.hdc_ratio_bound{k}", round(mean_ratio(ours[k]), 2), paper=round(ratio("HDC", k), 2), k=k)
        for k in BOUNDS
    ]


def _best() -> Claim:
    best = max(ratio(*key) for key in TABLE_3)
    return PAPER.claim("figure14.best_ratio", round(best, 2), paper=BEST_RATIO)


def _rounding() -> Iterator[Claim]:
    """Return the rows of Table III whose shares do not add up to 100 within their rounding."""
    for model in MODELS:
        worst = max((abs(sum(TABLE_3[model, k]) - 100), k) for k in BOUNDS)
        yield PAPER.claim(
            "table3.{model}_sum_bound{worst[1]}",
            round(sum(TABLE_3[model, worst[1]]), 1),
            model=slug(model),
            worst=worst,
        )
