"""Propagation of light through a mesh, compiled by Numba: a tile of vectors stays in the cache for all MZIs."""

from __future__ import annotations

import numpy as np
from numba import njit

from lightloom.core.arrays import Floats, Ints
from lightloom.core.effort import Effort
from lightloom.core.kernels import njit_threaded

_TILE: Effort = 32


@njit(cache=True, no_cfunc_wrapper=True, nogil=True, fastmath={"contract"})
def _pass_device(tile: Floats, mode: int, device: Floats) -> None:
    pair = tile[2 * mode * _TILE : (2 * mode + 4) * _TILE]
    ar, ai, br, bi = device[0], device[1], device[2], device[3]
    cr, ci, dr, di = device[4], device[5], device[6], device[7]
    for v in range(_TILE):
        xr, xi, yr, yi = pair[v], pair[_TILE + v], pair[2 * _TILE + v], pair[3 * _TILE + v]
        pair[v] = ar * xr - ai * xi + br * yr - bi * yi
        pair[_TILE + v] = ar * xi + ai * xr + br * yi + bi * yr
        pair[2 * _TILE + v] = cr * xr - ci * xi + dr * yr - di * yi
        pair[3 * _TILE + v] = cr * xi + ci * xr + dr * yi + di * yr


@njit_threaded
def propagate(fields: Floats, modes: Ints, devices: Floats, size: int, out: Floats) -> None:
    """Propagate ``fields`` [inputs, 2 batch] through ``devices`` [count, 8] on ``modes`` to ``out`` [outputs, 2 batch].

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
