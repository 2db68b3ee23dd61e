"""Choice of the kernel of blocks: C with AVX-512 or AVX2, portable C, or NumPy. All give equal bytes.

The environment variable LIGHTLOOM_KERNEL forces one, as it does for INCEPTIONN.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

from lightloom.compression.blocks.format import LLOYD_THRESHOLD, BlockFormat, decoded_codes
from lightloom.compression.blocks.portable import Portable
from lightloom.compression.native import PATHS, choose, requested, shared_object
from lightloom.core.arrays import Bytes, Float32s, Ints

_KINDS = {"linear": 0, "lloyd": 1, "sign": 2, "fp8": 3}
"""Kinds of blocks, with the numbers that the C kernel takes for them."""
_TABLE = 16
_NOTHING = ctypes.c_char * 0

_POINTER, _INT64, _INT, _FLOAT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int, ctypes.c_float
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "lightloom_blocks_kinds": (_INT, []),
    "lightloom_blocks_best_path": (_INT, []),
    "lightloom_blocks_encode": (None, [_POINTER, _POINTER, _POINTER, _INT64, _POINTER, _INT, _INT]),
    "lightloom_blocks_encode_runs": (None, [_POINTER, _POINTER, _POINTER, _POINTER, _INT64, _POINTER, _INT]),
    "lightloom_blocks_decode": (None, [_POINTER, _POINTER, _POINTER, _INT64, _FLOAT, _INT, _INT]),
    "lightloom_blocks_decode_runs": (None, [_POINTER, _POINTER, _POINTER, _INT64, _POINTER, _FLOAT, _INT, _INT]),
}


class _Format(ctypes.Structure):
    """A format as the C kernel reads it."""

    _fields_ = (
        ("kind", ctypes.c_int32),
        ("bits", ctypes.c_int32),
        ("block", ctypes.c_int32),
        ("threshold", ctypes.c_float),
        ("decoded", ctypes.c_float * _TABLE),
    )


@cache
def _format(fmt: BlockFormat) -> _Format:
    values = decoded_codes(fmt) if fmt.bits <= 4 else [0.0]
    table = [values[code % len(values)] for code in range(_TABLE)]
    return _Format(_KINDS[fmt.kind], fmt.bits, fmt.block, LLOYD_THRESHOLD, (ctypes.c_float * _TABLE)(*table))


class Native:
    """One path through the C kernel; methods as those of :class:`Portable`."""

    def __init__(self, library: ctypes.CDLL, name: str) -> None:
        self.name = name
        self._library = library
        self._path = PATHS[name]

    def encode(self, fmt: BlockFormat, values: Float32s, residual: Float32s | None, wire: Bytes, leave: bool) -> None:
        self._library.lightloom_blocks_encode(
            ctypes.addressof(_format(fmt)), _at(values), _at(residual), values.size, _at(wire), leave, self._path
        )

    def decode(self, fmt: BlockFormat, wire: Bytes, out: Float32s, factor: float, add: bool) -> None:
        self._library.lightloom_blocks_decode(
            ctypes.addressof(_format(fmt)), _at(wire), _at(out), out.size, factor, add, self._path
        )

    def encode_runs(
        self, fmt: BlockFormat, values: Float32s, residual: Float32s | None, runs: Ints, wire: Bytes
    ) -> None:
        self._library.lightloom_blocks_encode_runs(
            ctypes.addressof(_format(fmt)), _at(values), _at(residual), _at(runs), len(runs), _at(wire), self._path
        )

    def decode_runs(self, fmt: BlockFormat, wire: Bytes, runs: Ints, out: Float32s, factor: float, add: bool) -> None:
        self._library.lightloom_blocks_decode_runs(
            ctypes.addressof(_format(fmt)), _at(wire), _at(runs), len(runs), _at(out), factor, add, self._path
        )


def _at(array: Float32s | Bytes | Ints | None) -> int | None:
    """Address of the first element; by the buffer protocol where it can be written, which takes a third of the time."""
    if array is None:
        return None
    return ctypes.addressof(_NOTHING.from_buffer(array.data)) if array.flags.writeable else array.ctypes.data


Kernel = Portable | Native


@cache
def load(name: str) -> Kernel | None:
    """Return the kernel of that name, one of ``native.NAMES``; None if this machine cannot run it."""
    if name == "fallback":
        return Portable()
    library = shared_object(Path(__file__).with_name("_blocks"), _SIGNATURES)
    if library is None or library.lightloom_blocks_kinds() != len(_KINDS):  # built from older sources
        return None
    if library.lightloom_blocks_best_path() < PATHS[name]:
        return None
    return Native(library, name)


@cache
def current() -> Kernel:
    """Return the kernel that the environment variable LIGHTLOOM_KERNEL named at the first call, or else the fastest.

    Raises:
        ConfigError: the variable names no kernel, or one that was not built or that this CPU cannot run.
    """
    kernel = load(choose(requested(), load))
    assert kernel is not None
    return kernel
