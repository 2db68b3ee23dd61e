"""Light through a mesh, compiled by Numba: a tile of vectors stays in the cache while it passes every MZI."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

_TILE = 32


@njit(cache=True, nogil=True, fastmath={"contract"})
def _pass_device(tile: Any, mode: int, t: Any) -> None:
    pair = tile[2 * mode * _TILE : (2 * mode + 4) * _TILE]
    ar, ai, br, bi, cr, ci, dr, di = t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7]
    for v in range(_TILE):
        xr, xi, yr, yi = pair[v], pair[_TILE + v], pair[2 * _TILE + v], pair[3 * _TILE + v]
        pair[v] = ar * xr - ai * xi + br * yr - bi * yi
        pair[_TILE + v] = ar * xi + ai * xr + br * yi + bi * yr
        pair[2 * _TILE + v] = cr * xr - ci * xi + dr * yr - di * yi
        pair[3 * _TILE + v] = cr * xi + ci * xr + dr * yi + di * yr


@njit(cache=True, nogil=True)
def propagate(fields: Any, modes: Any, devices: Any, size: int, out: Any) -> None:
    """Pass ``fields`` [inputs, 2 batch] through ``devices`` [count, 8] on ``modes`` to ``out`` [outputs, 2 batch].

    Real and imaginary parts alternate. Inputs and outputs are the first modes; modes without input are dark.
    """
    inputs, outputs, batch = fields.shape[0], out.shape[0], fields.shape[1] // 2
    tile = np.zeros(2 * size * _TILE)
    for start in range(0, batch, _TILE):
        width = min(_TILE, batch - start)
        for m in range(inputs):
            row = fields[m, 2 * start : 2 * (start + width)]
            for v in range(width):
                tile[2 * m * _TILE + v] = row[2 * v]
                tile[(2 * m + 1) * _TILE + v] = row[2 * v + 1]
        tile[2 * inputs * _TILE :] = 0.0
        for k in range(modes.size):
            _pass_device(tile, modes[k], devices[k])
        for m in range(outputs):
            row = out[m, 2 * start : 2 * (start + width)]
            for v in range(width):
                row[2 * v] = tile[2 * m * _TILE + v]
                row[2 * v + 1] = tile[(2 * m + 1) * _TILE + v]
