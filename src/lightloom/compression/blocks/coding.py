"""Block quantisation of NumPy arrays: encode, encode with feedback, decode, decode and add; one run or many in a call.

Values are flat, contiguous float32 arrays, wires flat, contiguous uint8 arrays. A wire holds the message of its values
exactly: :meth:`BlockFormat.nbytes`. Functions on runs take a table, int64 of shape [runs, 3]: the first value of each
run, its number of values, and the first byte of its message; ranges of values and of bytes must not overlap.
Nothing that is decoded is refused: any bytes of the right size have values.
"""

from __future__ import annotations

import numpy as np

from lightloom.compression.blocks.format import BlockFormat
from lightloom.compression.blocks.kernels import current
from lightloom.core.arrays import Bytes, Float32s, Ints
from lightloom.core.errors import InputError

_FLOAT32, _UINT8 = np.dtype(np.float32), np.dtype(np.uint8)


def encode(fmt: BlockFormat, values: Float32s, out: Bytes) -> None:
    """Write the message of ``values`` to ``out``.

    Raises:
        InputError: an array of another type, not contiguous or not writable; ``out`` has not the message's size.
    """
    _check_values(values, "values")
    _check_message(fmt, values.size, out, write=True)
    current().encode(fmt, values, None, out, False)


def encode_leaving(fmt: BlockFormat, values: Float32s, out: Bytes) -> None:
    """Write the message of ``values`` and replace them by their errors: values less decoded values, 0 in NaN blocks."""
    _check_values(values, "values", write=True)
    _check_message(fmt, values.size, out, write=True)
    current().encode(fmt, values, None, out, True)


def encode_feedback(fmt: BlockFormat, gradient: Float32s, residual: Float32s, out: Bytes) -> None:
    """Write the message of ``residual + gradient`` and replace ``residual`` by its errors; ``gradient`` stays."""
    _check_values(gradient, "gradient")
    _check_residual(residual, gradient.size)
    _check_message(fmt, gradient.size, out, write=True)
    current().encode(fmt, gradient, residual, out, False)


def decode(fmt: BlockFormat, wire: Bytes, out: Float32s) -> None:
    """Write the values of a message to ``out``."""
    _check_values(out, "out", write=True)
    _check_message(fmt, out.size, wire)
    current().decode(fmt, wire, out, 1.0, False)


def decode_adding(fmt: BlockFormat, wire: Bytes, out: Float32s) -> None:
    """Add the values of a message to ``out``."""
    _check_values(out, "out", write=True)
    _check_message(fmt, out.size, wire)
    current().decode(fmt, wire, out, 1.0, True)


def encode_runs(fmt: BlockFormat, values: Float32s, residual: Float32s | None, runs: Ints, wire: Bytes) -> None:
    """Write the messages of all runs; with ``residual``, of as many values, as :func:`encode_feedback` does.

    Raises:
        InputError: see :func:`encode`; a run reaches beyond its arrays. Nothing has been written then.
    """
    _check_values(values, "values")
    if residual is not None:
        _check_residual(residual, values.size)
    _check_runs(fmt, runs, values.size, wire, write=True)
    current().encode_runs(fmt, values, residual, runs, wire)


def decode_runs(
    fmt: BlockFormat, wire: Bytes, runs: Ints, out: Float32s, factor: float = 1.0, add: bool = False
) -> None:
    """Write ``factor`` times the values of all runs to ``out``, or add them with ``add``.

    Raises:
        InputError: see :func:`encode_runs`.
    """
    _check_values(out, "out", write=True)
    _check_runs(fmt, runs, out.size, wire)
    current().decode_runs(fmt, wire, runs, out, factor, add)


def _check_values(values: Float32s, name: str, write: bool = False) -> None:
    _check(values, name, _FLOAT32, write)


def _check_residual(residual: Float32s, count: int) -> None:
    _check_values(residual, "residual", write=True)
    if residual.size != count:
        raise InputError(f"residual holds {residual.size} values: expected {count}, as many as there are gradients")


def _check_message(fmt: BlockFormat, count: int, wire: Bytes, write: bool = False) -> None:
    _check(wire, "wire", _UINT8, write)
    if wire.size != fmt.nbytes(count):
        raise InputError(
            f"a message of {wire.size} bytes: {count} values in blocks of {fmt.block} take {fmt.nbytes(count)}"
        )


def _check_runs(fmt: BlockFormat, runs: Ints, count: int, wire: Bytes, write: bool = False) -> None:
    _check(wire, "wire", _UINT8, write)
    if runs.dtype != np.int64 or runs.ndim != 2 or runs.shape[1] != 3 or not runs.flags.c_contiguous:
        raise InputError(f"a table of runs must be contiguous int64 of 3 columns, not {runs.dtype} {runs.shape}")
    first, values, at = runs.T
    bytes_of_runs = -(-values // fmt.block) * fmt.block_bytes
    beyond = (runs < 0).any(axis=1) | (first > count - values) | (at > wire.size - bytes_of_runs)
    if beyond.any():
        index = int(beyond.argmax())
        raise InputError(
            f"run {index} of {len(runs)}, {values[index]} values from {first[index]} at byte {at[index]}: it reaches "
            f"beyond {count} values or {wire.size} bytes"
        )


def _check(array: Float32s | Bytes, name: str, dtype: np.dtype[np.float32] | np.dtype[np.uint8], write: bool) -> None:
    flags = array.flags
    if array.dtype != dtype or array.ndim != 1 or not flags.c_contiguous:
        raise InputError(f"{name} must be a flat, contiguous {dtype} array, not {array.dtype} of {array.ndim} axes")
    if write and not flags.writeable:
        raise InputError(f"{name} must be writable")
