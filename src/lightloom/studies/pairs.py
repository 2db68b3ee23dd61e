"""Runs compared in pairs: equal seeds start from equal weights and see equal batches."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from lightloom.studies.base import Record

_T_95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 8: 2.365, 10: 2.262}
"""Student's t, two-sided 95 %, by number of pairs."""
BASE = "float32"
"""Name of the runs that others are compared with."""


class Pairs(NamedTuple):
    """Differences of runs from those of the baseline with the same seed."""

    mean: float
    half: float
    """Half width of the 95 % interval; NaN for one pair."""
    seeds: int

    def text(self, digits: int) -> str:
        """Mean ± half width."""
        spread = f" ± {self.half:.{digits}f} (95 %)" if self.seeds > 1 else ""
        return f"{self.mean:+.{digits}f}{spread}, {self.seeds} {'seeds' if self.seeds > 1 else 'seed'} in pairs"


def differences(runs: Record, name: str, key: str, scale: float = 1.0) -> list[float]:
    """Return (run − baseline) of the last entry of ``key``, for the seeds that both have."""
    first = {run["recipe"]["seed"]: run[key][-1] for run in runs.get(BASE, ())}
    return [
        scale * (run[key][-1] - first[run["recipe"]["seed"]])
        for run in runs.get(name, ())
        if run["recipe"]["seed"] in first
    ]


def paired(runs: Record, name: str, key: str, scale: float = 1.0) -> Pairs | None:
    """Return the mean of :func:`differences` and its 95 % interval; None without a pair."""
    values = differences(runs, name, key, scale)
    if not values:
        return None
    n = len(values)
    half = _T_95[n] * float(np.std(values, ddof=1)) / math.sqrt(n) if n > 1 else math.nan
    return Pairs(float(np.mean(values)), half, n)
