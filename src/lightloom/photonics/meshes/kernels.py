"""Givens rotations that null a matrix, compiled by Numba, in the order in which a mesh can carry them out.

A matrix is stored as planes, ``planes[row, 0 real | 1 imaginary, column]``. Its rows are padded, because rows at
strides of a power of two would share cache lines. A rotation (s, c, e) takes (x0, x1) to
(s e x0 + c x1, c e x0 − s x1), with |e| = 1.

A sweep needs only the corner of the matrix in which it nulls elements. The rotations of the rest are delayed for a
block of sweeps and then applied tile by tile, with the vectors of a tile side by side.
"""

from __future__ import annotations

from math import atan2, floor, pi, sqrt
from typing import NamedTuple

import numpy as np

from lightloom.core.arrays import Effort, Floats, Ints
from lightloom.core.kernels import njit_contracting, njit_for_processor, njit_inlined

_ROTATED_TILE: Effort = 16
_BLOCK: Effort = 64
_CHAIN: Effort = 32
_NEGLIGIBLE = 1e-200
"""Squared amplitude below which an element counts as zero; products of larger ones do not underflow."""


class _Rotation(NamedTuple):
    """The rotation that takes (x0, x1) to (s e x0 + c x1, c e x0 − s x1)."""

    s: float
    c: float
    e_real: float
    e_imag: float


@njit_inlined
def _null_against(ar: float, ai: float, br: float, bi: float) -> _Rotation:
    """Return the rotation that moves the complex number ``a`` (x1) into ``b`` (x0): (b, a) becomes (s e b + c a, 0).

    s = |b| / h, c = |a| / h with h² = |a|² + |b|², and e is the unit number of phase arg a − arg b, 1 where a or b is 0
    (s = 1 for a = 0, else c = 1). Real and imaginary parts are given one after the other.
    """
    a2, b2 = ar * ar + ai * ai, br * br + bi * bi
    if a2 < _NEGLIGIBLE:
        return _Rotation(1.0, 0.0, 1.0, 0.0)
    if b2 < _NEGLIGIBLE:
        return _Rotation(0.0, 1.0, 1.0, 0.0)
    a, b, h = sqrt(a2), sqrt(b2), sqrt(a2 + b2)
    scale = 1.0 / (a * b)
    return _Rotation(b / h, a / h, (ar * br + ai * bi) * scale, (ai * br - ar * bi) * scale)


@njit_contracting
def _rotate_tile(tile: Floats, first: int, step: int, count: int, rotations: Floats) -> None:
    """Apply a chain of rotations, in place, to positions (m, m + 1) of every vector in a tile: (x0, x1) becomes (s e x0
    + c x1, c e x0 − s x1).

    ``m`` is ``first``, ``first + step``, ..., ``count`` times; ``rotations`` [count, 4] are (s, c, e real, e
    imaginary). The flat tile holds for each position the real parts of its 16 vectors, then the imaginary parts.
    """
    for k in range(count):
        m = first + step * k
        pair = tile[2 * m * _ROTATED_TILE : (2 * m + 4) * _ROTATED_TILE]
        s, c, er, ei = rotations[k, 0], rotations[k, 1], rotations[k, 2], rotations[k, 3]
        for v in range(_ROTATED_TILE):
            x0r, x0i, x1r, x1i = (
                pair[v],
                pair[_ROTATED_TILE + v],
                pair[2 * _ROTATED_TILE + v],
                pair[3 * _ROTATED_TILE + v],
            )
            tr, ti = er * x0r - ei * x0i, er * x0i + ei * x0r
            pair[v] = s * tr + c * x1r
            pair[_ROTATED_TILE + v] = s * ti + c * x1i
            pair[2 * _ROTATED_TILE + v] = c * tr - s * x1r
            pair[3 * _ROTATED_TILE + v] = c * ti - s * x1i


@njit_contracting
def _rotate_rows(planes: Floats, row: int, start: int, stop: int, rotation: _Rotation) -> None:
    """Apply one rotation (s, c, e) to rows ``row`` (x0) and ``row + 1`` (x1) of the matrix ``planes`` [row, real |
    imaginary, column], in place, in columns ``start`` to before ``stop``: they become (s e x0 + c x1, c e x0 − s
    x1)."""
    s, c, er, ei = rotation
    a, b, x, y = (
        planes[row, 0, start:stop],
        planes[row, 1, start:stop],
        planes[row + 1, 0, start:stop],
        planes[row + 1, 1, start:stop],
    )
    for v in range(a.size):
        tr, ti = er * a[v] - ei * b[v], er * b[v] + ei * a[v]
        a[v], x[v] = s * tr + c * x[v], c * tr - s * x[v]
        b[v], y[v] = s * ti + c * y[v], c * ti - s * y[v]


@njit_contracting
def _rotate_columns(planes: Floats, column: int, start: int, stop: int, rotation: _Rotation) -> None:
    """Apply one rotation (s, c, e) to columns ``column`` (x0) and ``column + 1`` (x1) of the matrix ``planes`` [row,
    real | imaginary, column], in place, in rows ``start`` to before ``stop``: they become (s e x0 + c x1, c e x0 − s
    x1)."""
    s, c, er, ei = rotation
    pairs = planes[start:stop, :, column : column + 2]
    for v in range(pairs.shape[0]):
        x0r, x0i, x1r, x1i = pairs[v, 0, 0], pairs[v, 1, 0], pairs[v, 0, 1], pairs[v, 1, 1]
        tr, ti = er * x0r - ei * x0i, er * x0i + ei * x0r
        pairs[v, 0, 0] = s * tr + c * x1r
        pairs[v, 1, 0] = s * ti + c * x1i
        pairs[v, 0, 1] = c * tr - s * x1r
        pairs[v, 1, 1] = c * ti - s * x1i


@njit_contracting
def _rotate_row_by_row(planes: Floats, start: int, stop: int, first: int, count: int, rotations: Floats) -> None:
    """Apply a chain of ``count`` rotations, in place, to columns (first, first + 1), (first − 1, first), ... of the
    matrix ``planes`` [row, real | imaginary, column]: columns (x0, x1) become (s e x0 + c x1, c e x0 − s x1).

    Rows ``start`` to before ``stop`` are rotated, each read once; ``rotations`` [count, 4] are (s, c, e real, e
    imaginary).
    """
    for row in range(start, stop):
        real = planes[row, 0, first - count + 1 : first + 2]
        imag = planes[row, 1, first - count + 1 : first + 2]
        x1r, x1i = real[count], imag[count]
        for k in range(count):
            s, c, er, ei = rotations[k, 0], rotations[k, 1], rotations[k, 2], rotations[k, 3]
            x0r, x0i = real[count - 1 - k], imag[count - 1 - k]
            tr, ti = er * x0r - ei * x0i, er * x0i + ei * x0r
            real[count - k], imag[count - k] = c * tr - s * x1r, c * ti - s * x1i
            x1r, x1i = s * tr + c * x1r, s * ti + c * x1i
        real[0], imag[0] = x1r, x1i


@njit_for_processor
def _null_from_right(planes: Floats, row: int, column: int, top: int, out: Floats) -> None:
    """Null the element (row, column) of the matrix ``planes`` [row, real | imaginary, column], in place, by a rotation
    of columns ``column`` and ``column + 1``.

    Rows from ``top`` down to ``row`` are rotated; ``out`` receives the rotation (s, c, e real, e imaginary), which
    takes the columns (x0, x1) to (s e x0 + c x1, c e x0 − s x1).
    """
    s, c, er, ei = _null_against(
        planes[row, 0, column], planes[row, 1, column], planes[row, 0, column + 1], planes[row, 1, column + 1]
    )
    if c != 0.0 and s != 0.0:  # s alone rounds to 1 for an element below 1e-8
        er, ei = -er, ei  # e = −conj(phase)
    out[0], out[1], out[2], out[3] = s, c, er, ei
    _rotate_columns(planes, column, top, row + 1, _Rotation(s, c, er, ei))
    planes[row, 0, column] = planes[row, 1, column] = 0.0


@njit_for_processor
def _null_from_left(planes: Floats, row: int, column: int, stop: int, out: Floats) -> None:
    """Null the element (row, column) of the matrix ``planes`` [row, real | imaginary, column], in place, by a rotation
    of rows ``row - 1`` and ``row``.

    Columns from ``column`` to before ``stop`` are rotated; ``out`` receives the rotation (s, c, e real, e imaginary),
    which takes the rows (x0, x1) to (s e x0 + c x1, c e x0 − s x1).
    """
    s, c, er, ei = _null_against(
        planes[row, 0, column], planes[row, 1, column], planes[row - 1, 0, column], planes[row - 1, 1, column]
    )
    out[0], out[1], out[2], out[3] = s, c, er, ei
    _rotate_rows(planes, row - 1, column, stop, _Rotation(s, c, er, ei))
    planes[row, 0, column] = planes[row, 1, column] = 0.0


@njit_for_processor
def null_rectangle(planes: Floats, size: int, rotations: Floats) -> None:
    """Null all elements below the diagonal by antidiagonals (Clements et al.), and write the rotations.

    ``planes`` [size, real | imaginary, column] is the matrix, changed in place. ``rotations[i, j]``, j < i, receives
    step j of sweep i as (s, c, e real, e imaginary), which takes a pair (x0, x1) to (s e x0 + c x1, c e x0 − s x1),
    with |e| = 1. Odd sweeps rotate columns (i − 1 − j, i − j), even ones rows (size + j − i − 1, size + j − i).
    """
    tile = np.zeros(2 * _ROTATED_TILE * size)
    for start in range(1, size, _BLOCK):
        stop = min(start + _BLOCK, size)
        top = size - stop
        for i in range(start, stop):
            if i % 2 == 0:
                for j in range(i):
                    _null_from_left(planes, size + j - i, j, stop, rotations[i, j])
                continue
            for near in range(0, i, _CHAIN):
                far = min(near + _CHAIN, i)
                for j in range(near, far):
                    _null_from_right(planes, size - 1 - j, i - 1 - j, size - far, rotations[i, j])
                _rotate_row_by_row(planes, top, size - far, i - 1 - near, far - near, rotations[i, near:far])
        for row in range(0, top, _ROTATED_TILE):
            rows = min(_ROTATED_TILE, top - row)
            for v in range(rows):
                for m in range(stop):
                    tile[2 * m * _ROTATED_TILE + v] = planes[row + v, 0, m]
                    tile[(2 * m + 1) * _ROTATED_TILE + v] = planes[row + v, 1, m]
            for i in range(start | 1, stop, 2):
                _rotate_tile(tile, i - 1, -1, i, rotations[i])
            for v in range(rows):
                for m in range(stop):
                    planes[row + v, 0, m] = tile[2 * m * _ROTATED_TILE + v]
                    planes[row + v, 1, m] = tile[(2 * m + 1) * _ROTATED_TILE + v]
        for column in range(stop, size, _ROTATED_TILE):
            _load_columns(planes, top, size, column, min(_ROTATED_TILE, size - column), tile)
            for i in range(start + start % 2, stop, 2):
                _rotate_tile(tile, size - 1 - i - top, 1, i, rotations[i])
            _store_columns(planes, top, size, column, min(_ROTATED_TILE, size - column), tile)


@njit_for_processor
def null_triangle(planes: Floats, size: int, lit: int, rotations: Floats) -> None:
    """Null all elements below the diagonal of ``lit`` columns, column by column from below (Reck et al.), and write the
    rotations.

    ``planes`` [size, real | imaginary, column] is the matrix, changed in place. ``rotations[k, j]`` receives rotation j
    of column k, on rows (size − 2 − j, size − 1 − j), as (s, c, e real, e imaginary), which takes a pair (x0, x1) to (s
    e x0 + c x1, c e x0 − s x1), with |e| = 1.
    """
    tile = np.zeros(2 * _ROTATED_TILE * size)
    for start in range(0, lit, _BLOCK):
        stop = min(start + _BLOCK, lit)
        for k in range(start, stop):
            for j in range(size - 1 - k):
                _null_from_left(planes, size - 1 - j, k, stop, rotations[k, j])
        for column in range(stop, lit, _ROTATED_TILE):
            _load_columns(planes, 0, size, column, min(_ROTATED_TILE, lit - column), tile)
            for k in range(start, stop):
                _rotate_tile(tile, size - 2, -1, size - 1 - k, rotations[k])
            _store_columns(planes, 0, size, column, min(_ROTATED_TILE, lit - column), tile)


@njit_for_processor
def _load_columns(planes: Floats, top: int, bottom: int, column: int, width: int, tile: Floats) -> None:
    """Copy ``width`` columns, from ``column`` on, of rows ``top`` to before ``bottom`` of the matrix ``planes`` [row,
    real | imaginary, column] into a tile.

    The flat tile holds for each row, from ``top`` on, 16 places for the real parts of the columns, then 16 for the
    imaginary parts; ``width`` is at most 16, and places beyond it stay.
    """
    for m in range(bottom - top):
        for p in range(2):
            for v in range(width):
                tile[(2 * m + p) * _ROTATED_TILE + v] = planes[top + m, p, column + v]


@njit_for_processor
def _store_columns(planes: Floats, top: int, bottom: int, column: int, width: int, tile: Floats) -> None:
    """Copy a tile back to the columns and rows of the matrix ``planes`` [row, real | imaginary, column] from which
    `_load_columns` took it with the same arguments."""
    for m in range(bottom - top):
        for p in range(2):
            for v in range(width):
                planes[top + m, p, column + v] = tile[(2 * m + p) * _ROTATED_TILE + v]


@njit_for_processor
def pass_diagonal(rotations: Floats, modes: Ints, diagonal: Floats) -> None:
    """Turn T_n† … T_1† D into D' T_n' … T_1', in place: T_1 is the first of ``rotations``, which the light passes
    first, D the ``diagonal`` [mode, real | imaginary], and each T' the same rotation with another phase.

    T(θ, φ)† diag(d0, d1) = diag(e^{−iφ} d1, d1) T(θ, φ') with e^{iφ'} = d0 / d1. ``rotations`` [rotation, 4] are (s, c,
    e real, e imaginary) with e = e^{iφ}; ``modes`` [rotation] are upper modes.
    """
    for k in range(modes.size):
        m = modes[k]
        er, ei = rotations[k, 2], rotations[k, 3]
        ar, ai, br, bi = diagonal[m, 0], diagonal[m, 1], diagonal[m + 1, 0], diagonal[m + 1, 1]
        rotations[k, 2], rotations[k, 3] = ar * br + ai * bi, ai * br - ar * bi
        diagonal[m, 0], diagonal[m, 1] = er * br + ei * bi, er * bi - ei * br


@njit_inlined
def _wrapped(angle: float) -> float:
    """Return an angle in radians, wrapped to the range from 0 to below 2π."""
    wrapped = angle - 2.0 * pi * floor(angle / (2.0 * pi))
    return wrapped if wrapped < 2.0 * pi else 0.0


@njit_for_processor
def settle_phases(rotations: Floats, at_input: bool, modes: Ints, pending: Floats, theta: Floats, phi: Floats) -> None:
    """Compute the phases θ and φ of devices equivalent to rotations, in the order of the light.

    A device adds the factor i e^{iθ/2} to both its outputs. Its inverse, and the phase ``pending[mode]`` at the inputs,
    is carried to the next device of the mode.

    Args:
        rotations: (s, c, e real, e imaginary) of each device, with s = sin θ/2, c = cos θ/2 and the unit number e:
            [device, 4].
        at_input: True if the unit number e of a rotation stands at its upper input, False if at its upper output, as in
            the transposed device.
        modes: upper mode of each device: [device].
        pending: in and out, phases at the inputs, and in the end at the outputs, in radians: [mode].
        theta, phi: out, phases in radians: [device].
    """
    for k in range(modes.size):
        m = modes[k]
        half = atan2(rotations[k, 0], rotations[k, 1])
        phase = atan2(rotations[k, 3], rotations[k, 2])
        upper, lower = pending[m], pending[m + 1]
        theta[k] = 2.0 * half
        phi[k] = _wrapped(upper - lower + (phase if at_input else 0.0))
        common = lower - half - pi / 2
        pending[m] = _wrapped(common + (0.0 if at_input else phase))
        pending[m + 1] = _wrapped(common)
    for m in range(pending.size):
        pending[m] = _wrapped(pending[m])


# Propagation of light through a mesh, compiled by Numba: a tile of vectors stays in the cache for all MZIs.

_VECTOR_TILE: Effort = 32


@njit_contracting
def _pass_device(tile: Floats, mode: int, device: Floats) -> None:
    """Multiply the fields of modes ``mode`` and ``mode + 1`` of all vectors in a tile by a device's matrix, in place.
    ``tile`` holds, for every mode in turn, the real parts of 32 vectors and then their imaginary parts; ``device`` has
    the real and imaginary parts of its four elements, row by row."""
    pair = tile[2 * mode * _VECTOR_TILE : (2 * mode + 4) * _VECTOR_TILE]
    ar, ai, br, bi = device[0], device[1], device[2], device[3]
    cr, ci, dr, di = device[4], device[5], device[6], device[7]
    for v in range(_VECTOR_TILE):
        xr, xi, yr, yi = pair[v], pair[_VECTOR_TILE + v], pair[2 * _VECTOR_TILE + v], pair[3 * _VECTOR_TILE + v]
        pair[v] = ar * xr - ai * xi + br * yr - bi * yi
        pair[_VECTOR_TILE + v] = ar * xi + ai * xr + br * yi + bi * yr
        pair[2 * _VECTOR_TILE + v] = cr * xr - ci * xi + dr * yr - di * yi
        pair[3 * _VECTOR_TILE + v] = cr * xi + ci * xr + dr * yi + di * yr


@njit_for_processor
def propagate(fields: Floats, modes: Ints, devices: Floats, size: int, out: Floats) -> None:
    """Propagate ``fields`` through the devices of a mesh, in the order given, to ``out``.

    Real and imaginary parts alternate. Inputs and outputs are the first modes; modes without input are dark.

    Args:
        fields: input fields, [inputs, 2 · batch].
        modes: upper mode of each device, [count].
        devices: real and imaginary parts of the four elements of each transfer matrix, row by row, [count, 8].
        size: number of modes.
        out: receives the output fields, [outputs, 2 · batch].
    """
    inputs, outputs, batch = fields.shape[0], out.shape[0], fields.shape[1] // 2
    tile = np.zeros(2 * size * _VECTOR_TILE)
    for start in range(0, batch, _VECTOR_TILE):
        width = min(_VECTOR_TILE, batch - start)
        for m in range(inputs):
            row = fields[m, 2 * start : 2 * (start + width)]
            for v in range(width):
                tile[2 * m * _VECTOR_TILE + v] = row[2 * v]
                tile[(2 * m + 1) * _VECTOR_TILE + v] = row[2 * v + 1]
        tile[2 * inputs * _VECTOR_TILE :] = 0.0
        for k in range(modes.size):
            _pass_device(tile, modes[k], devices[k])
        for m in range(outputs):
            row = out[m, 2 * start : 2 * (start + width)]
            for v in range(width):
                row[2 * v] = tile[2 * m * _VECTOR_TILE + v]
                row[2 * v + 1] = tile[(2 * m + 1) * _VECTOR_TILE + v]
