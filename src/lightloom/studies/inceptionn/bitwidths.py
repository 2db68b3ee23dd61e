"""Table III and Figure 14(a): bits per value, and the resulting compression ratio."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from lightloom.core.claims import Claim
from lightloom.studies.base import Record
from lightloom.studies.inceptionn import PAPER
from lightloom.studies.inceptionn.paper import BEST_RATIO, BOUNDS, MODELS, TABLE_3, TAG_BITS, ratio, ratio_of_shares
from lightloom.studies.inceptionn.tables import slug


def claims(training: Record) -> tuple[Claim, ...]:
    """Return the rows from the training record."""
    best = max(ratio(*key) for key in TABLE_3)
    return (*_measured(training), PAPER.claim("figure14.best_ratio", round(best, 2), paper=BEST_RATIO), *_rounding())


def mean_shares(training: Record) -> dict[int, list[float]]:
    """Return the percentage of rank 0's gradient in each class, by k, averaged over the float32 run."""
    tags = np.array(training["runs"]["float32"][0]["tags"])
    return {k: (100 * tags[:, place].mean(axis=0)).tolist() for place, k in enumerate(BOUNDS)}


def beyond_dropping(bits: int, printed: float) -> dict[str, Any]:
    """Return the share of a class where every value is dropped, and a quarter of the printed one's distance from it.

    A printed share that is the same shows nothing.
    """
    trivial = 100.0 if bits == TAG_BITS[0] else 0.0
    if printed == trivial:
        return {"trivial": trivial, "basis": "by construction"}
    return {"trivial": trivial, "tolerance": round(abs(printed - trivial) / 4, 4)}


def as_printed(share: float, printed: float) -> float:
    """Round a share to two digits, and to the one digit of the paper where that prints 0.0."""
    return round(share, 2 if printed else 1)


def _measured(training: Record) -> Iterator[Claim]:
    ours = mean_shares(training)
    for k in BOUNDS:
        for bits, printed, share in zip(TAG_BITS, TABLE_3["HDC", k], ours[k], strict=True):
            values = {"k": k, "bits": bits, **beyond_dropping(bits, printed)}
            yield PAPER.claim("table3.hdc_bound{k}_{bits}bit", as_printed(share, printed), paper=printed, **values)
    for k in BOUNDS:
        ratios = [round(value, 2) for value in (ratio_of_shares(ours[k]), ratio("HDC", k))]
        yield PAPER.claim("figure14.hdc_ratio_bound{k}", ratios[0], paper=ratios[1], k=k)


def _rounding() -> Iterator[Claim]:
    """Return the rows of Table III whose shares do not add up to 100 within their rounding."""
    for model in MODELS:
        _, k = max((abs(sum(TABLE_3[model, k]) - 100), k) for k in BOUNDS)
        yield PAPER.claim("table3.{model}_sum_bound{k}", round(sum(TABLE_3[model, k]), 1), model=slug(model), k=k)
