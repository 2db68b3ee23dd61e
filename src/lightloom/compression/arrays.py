"""Float32 arrays in and out without copies: NumPy arrays, CPU torch tensors, anything with the array protocol."""

from __future__ import annotations

from typing import cast

import numpy as np

from lightloom.core.arrays import Bytes, Float32s
from lightloom.core.errors import CodecError, InputError


def float32_values(array: object) -> Float32s:
    """The values of ``array`` in C order, flat: a view where the memory is contiguous, else a copy.

    Raises:
        InputError: not float32, or not in CPU memory (names the type).
    """
    view = _as_numpy(array, "to encode")
    return np.ascontiguousarray(view).reshape(-1)


def float32_target(out: object, count: int) -> Float32s:
    """A flat, writable view of ``out``, which must hold exactly ``count`` contiguous float32.

    Raises:
        InputError: not float32, not contiguous, not writable or not in CPU memory.
        CodecError: ``out`` holds another number of values than the stream.
    """
    view = _as_numpy(out, "to decode into")
    if not (view.flags.c_contiguous and view.flags.writeable):
        raise InputError("the array to decode into must be C-contiguous and writable")
    if view.size != count:
        raise CodecError(f"the stream holds {count} values, the array to decode into {view.size}")
    return view.reshape(-1)


def byte_target(out: Bytes, size: int) -> Bytes:
    """``out`` itself, if it is a flat, contiguous, writable uint8 array of at least ``size`` bytes.

    Raises:
        InputError: it is not.
    """
    if not isinstance(out, np.ndarray) or out.dtype != np.uint8 or out.ndim != 1:
        raise InputError(f"the memory to encode into must be a flat uint8 array, not {type(out).__name__}")
    if not (out.flags.c_contiguous and out.flags.writeable):
        raise InputError("the memory to encode into must be contiguous and writable")
    if out.size < size:
        raise InputError(f"the memory to encode into holds {out.size} bytes: these values may need {size}")
    return out


def _as_numpy(array: object, purpose: str) -> Float32s:
    source = array.detach() if hasattr(array, "detach") else array
    try:
        view = np.asarray(source)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        raise InputError(f"the array {purpose} must be float32 in CPU memory: {error}") from error
    if view.dtype != np.float32:
        raise InputError(f"the array {purpose} must be float32 in native byte order, not {view.dtype}")
    return view


def stream_bytes(buffer: object) -> Bytes:
    """A read-only view of the bytes of a buffer (bytes, bytearray, memoryview, uint8 array, CPU torch tensor).

    Raises:
        InputError: not a contiguous buffer.
    """
    try:
        if isinstance(buffer, np.ndarray) or hasattr(buffer, "detach"):
            return np.ascontiguousarray(buffer).reshape(-1).view(np.uint8)
        return np.frombuffer(cast(bytes, buffer), np.uint8)
    except (TypeError, ValueError, BufferError) as error:
        raise InputError(
            f"a compressed stream must be a contiguous buffer of bytes, not {type(buffer).__name__}: {error}"
        ) from error
