"""Links as collectives reach them: latencies and bandwidths of a tier, fitted to timed collectives.

    time = base + (n - 1) · peer + (n - 1)/n · bytes · passes / bandwidth + bytes / pass bandwidth

A ring of n ranks passes all bytes but its own around, twice for an all-reduce; and each rank moves all bytes once
through its own memory, whatever n is, which is why fewer ranks show less bus bandwidth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from lightloom.accelerators.base import Accelerator
from lightloom.accelerators.calibrated import CalibrationRows
from lightloom.calibration.collective_rows import MeasuredCollective, MeasuredCollectives
from lightloom.calibration.document import rounded
from lightloom.calibration.priors import kernel_model, node_link
from lightloom.clusters.measured_links import Tier, TierCalibration
from lightloom.core.arrays import Floats
from lightloom.core.errors import ConfigError

_PASSES = {"all-reduce": 2, "all-gather": 1, "reduce-scatter": 1, "all-to-all": 1, "broadcast": 1, "reduce": 1}
_NOISE = 0.05
_ROWS_AN_OCTAVE = 2
"""Rows that all sizes between a power of two and the next count for: tables differ in how densely they sample."""
_ACCESSES_OF_A_PASS = 3
"""Reads and writes of each element by a rank that adds what it received to its own."""
_NVLINK_PAYLOAD = 0.94
"""Share of NVLink's bandwidth that packets carry: an assumption, 256 bytes with a header of 16."""


def collective_seconds(rows: Sequence[MeasuredCollective], tier: Tier) -> Floats:
    """Return the predicted seconds of each collective: [rows]."""
    logarithms = np.log([getattr(tier, name) for name in Tier.model_fields])
    return _seconds(_columns(rows), logarithms)


def _columns(rows: Sequence[MeasuredCollective]) -> Floats:
    """Ranks, passes and bytes of each row: [3, rows]."""
    cells = [(row.gpus, _PASSES[row.collective], row.nbytes) for row in rows]
    return np.array(cells, np.float64).T


def _seconds(columns: Floats, logarithms: Floats) -> Floats:
    ranks, passes, nbytes = columns
    base, peer, bandwidth, through = np.exp(logarithms)
    moved = passes * (ranks - 1) / ranks * nbytes / bandwidth
    seconds: Floats = base + passes / 2 * (ranks - 1) * peer + moved + nbytes / through
    return seconds


def fit_tiers(measured: MeasuredCollectives, accelerator: Accelerator) -> list[TierCalibration]:
    """Fit the tier inside a node and the one across nodes, each to its rows, from priors.

    Raises:
        ConfigError: there are fewer than three rows of a tier.
    """
    tiers = []
    names: tuple[tuple[Literal["node", "network"], bool], ...] = (("node", True), ("network", False))
    for name, inside in names:
        rows = [row for row in measured.rows if (row.nodes == 1) == inside]
        if rows:
            tiers.append(_fit_tier(name, rows, measured, accelerator))
    return tiers


def _priors(name: str, accelerator: Accelerator) -> tuple[Floats, Floats]:
    """Logarithms of the priors of a tier's values, and their spreads: each [4].

    Latencies: NCCL, src/graph/tuning.cc. A rank's own pass reads two operands and writes their sum at the reached
    bandwidth of its memory. On Hopper and later, switches may reduce (NVLink SHARP), so that the bandwidth
    of rings says less.
    """
    kernels = kernel_model(accelerator)
    memory = kernels.memory_fraction * (accelerator.memory_bandwidth or math.inf)
    through = memory / _ACCESSES_OF_A_PASS
    if name == "network":
        return np.log([40e-6, 8e-6, 300e9, through]), np.array([0.7, 0.7, 1.0, 0.5])
    certain = 0.05 if accelerator.name.startswith("a100") else 0.3
    return np.log([20e-6, 5e-6, _NVLINK_PAYLOAD * node_link(accelerator), through]), np.array([0.5, 0.3, certain, 0.3])


def _fit_tier(
    name: Literal["node", "network"],
    rows: Sequence[MeasuredCollective],
    measured: MeasuredCollectives,
    accelerator: Accelerator,
) -> TierCalibration:
    from scipy.optimize import least_squares

    if len(rows) < 3:
        raise ConfigError(
            f"{measured.name}: {len(rows)} rows of the tier {name!r}: expected at least 3 to fit its links"
        )
    center, spread = _priors(name, accelerator)
    columns = _columns(rows)
    seconds = np.array([row.time_us for row in rows]) * 1e-6
    weights = _octave_weights(columns[2])

    def residuals(logarithms: Floats) -> Floats:
        errors = np.log(_seconds(columns, logarithms) / seconds) * weights / _NOISE
        return np.concatenate([errors, (logarithms - center) / spread])

    solved = least_squares(residuals, center, x_scale=spread)
    left = np.sqrt(np.diag(np.linalg.inv(solved.jac.T @ solved.jac)))
    names = list(Tier.model_fields)
    errors = _seconds(columns, solved.x) / seconds - 1
    return TierCalibration(
        tier=name,
        gpus=max(row.gpus for row in rows),
        values=Tier(**{key: rounded(value) for key, value in zip(names, np.exp(solved.x), strict=True)}),
        spreads={key: float(f"{value:.4g}") for key, value in zip(names, left, strict=True)},
        prior_spreads=dict(zip(names, spread.tolist(), strict=True)),
        rows=CalibrationRows(table=measured.name, sha256=measured.sha256, count=len(rows), kind="collectives"),
        mean_error=float(np.abs(errors).mean()),
    )


def _octave_weights(nbytes: Floats) -> Floats:
    """Square roots of the rows' weights: each octave of sizes counts for :data:`_ROWS_AN_OCTAVE` rows at most."""
    _, octave, count = np.unique(np.floor(np.log2(nbytes)), return_inverse=True, return_counts=True)
    return np.sqrt(np.minimum(1.0, _ROWS_AN_OCTAVE / count[octave]))
