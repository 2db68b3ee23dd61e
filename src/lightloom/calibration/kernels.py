"""Seconds of matrix products by their shape: tiles, waves of tiles, depth and memory."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lightloom.core.arrays import Floats

_TILES = ((128, 256, 1.0), (256, 128, 1.0), (128, 128, 0.93), (64, 128, 0.75), (64, 64, 0.6))


def gemm_seconds(
    m: Floats,
    n: Floats,
    k: Floats,
    count: Floats | float,
    *,
    peak: Floats,
    bandwidth: Floats,
    values: Mapping[str, float],
    units: int = 108,
) -> Floats:
    best = np.full(np.shape(m), np.inf)
    for rows, columns, rate in _TILES:
        waves = np.ceil(np.ceil(m / rows) * np.ceil(n / columns) * count / units)
        best = np.minimum(best, waves * units * rows * columns * 2.0 * k / (peak * values["gemm_fraction"] * rate))
    moved = 2 * count * (m * k + k * n + m * n)
    return np.maximum(best * (1 + values["gemm_depth"] / k), moved / bandwidth)
