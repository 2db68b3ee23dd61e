"""Figure 5: distribution of gradients early, in the middle and late in training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lightloom.core.claims import Claim
from lightloom.studies.inceptionn import PAPER

LOWEST = -30
"""Exponent below which values, including zeros, are counted together."""


def summary(gradient: NDArray[np.float32]) -> dict[str, Any]:
    """Counts of values by binade, apart for both signs; JSON.

    Returns:
        ``values``, ``largest`` (absolute), ``small`` (below 2^LOWEST), and ``negative`` and ``positive``: counts for
        the binades 2^LOWEST … 2^0 and above.
    """
    exponent = np.frexp(gradient)[1] - 1
    seen = np.abs(gradient) >= 2.0**LOWEST
    edges = np.arange(LOWEST, 2)
    bins = np.clip(exponent, LOWEST, 0)
    return {
        "values": int(gradient.size),
        "largest": float(np.max(np.abs(gradient))),
        "small": int(np.count_nonzero(~seen)),
        "negative": np.histogram(bins[seen & (gradient < 0)], edges)[0].tolist(),
        "positive": np.histogram(bins[seen & (gradient > 0)], edges)[0].tolist(),
    }


def claims(gradients: Mapping[str, Any]) -> tuple[Claim, ...]:
    """Return rows on the range of values at each stage, and on the share close to 0."""
    return tuple(
        PAPER.claim(
            "figure5.hdc_{stage}_range",
            "all between -1 and 1" if counts["largest"] < 1 else f"up to {counts['largest']:.2f}",
            stage=stage,
            counts=counts,
            below_percent=100 * below(counts, -10),
        )
        for stage, counts in gradients.items()
    )


def below(counts: Mapping[str, Any], exponent: int) -> float:
    """Return the share of values below 2^exponent in magnitude."""
    kept = exponent - LOWEST
    small = counts["small"] + sum(counts["negative"][:kept]) + sum(counts["positive"][:kept])
    return float(small / counts["values"])
