"""Which compiled kernel runs: C with AVX-512 or AVX2, portable C, or the Numba fallback. All give identical bytes."""

from __future__ import annotations

import os
from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lightloom.compression import kernels_native
from lightloom.core.arrays import Bits, Bytes
from lightloom.core.errors import ConfigError

_PATHS = {"native-avx512": 2, "native-avx2": 1, "native-scalar": 0}
"""The paths through the C kernel by the numbers that its functions take, the fastest first."""
NAMES = (*_PATHS, "fallback")
_VARIABLE = "LIGHTLOOM_KERNEL"


class Kernel(Protocol):
    """Frames in and out. ``bound`` is k of 2^-k, ``width`` is w of the 8-bit code trunc(\\|f\\| 2^w).

    ``first`` is the index of the first frame. ``encode_frames`` returns bytes written, and ``out`` must hold the
    worst case and :data:`SLACK` more; ``decode_frames`` returns bytes read or ``-(8 frame + reason)``.
    ``leave`` turns ``values`` into what the frames lack; ``add`` adds to ``out``, which keeps its bits where nothing
    was sent. ``count_tags`` adds how many values have tag 0 to 3 to ``counts`` and returns as ``decode_frames`` does.
    """

    name: str

    def encode_frames(
        self, values: Bits, chunk: int, first: int, out: Bytes, bound: int, width: int, *, leave: bool = False
    ) -> int: ...

    def decode_frames(
        self, data: Bytes, out: Bits, chunk: int, first: int, width: int, *, add: bool = False
    ) -> int: ...

    def count_tags(self, data: Bytes, count: int, chunk: int, counts: NDArray[np.int64]) -> int: ...

    def xxh64(self, data: Bytes, seed: int) -> int: ...


SLACK = 64
"""Bytes past the end that a vector store may touch."""

REASONS = {1: "it ends early", 2: "its length is impossible", 3: "its checksum is wrong", 4: "its groups are malformed"}


class _Fallback:
    name = "fallback"

    def encode_frames(
        self, values: Bits, chunk: int, first: int, out: Bytes, bound: int, width: int, *, leave: bool = False
    ) -> int:
        from lightloom.compression.kernels_numba import encode_frames

        if not values.flags.writeable:  # Numba has no functions that write only sometimes
            values = values.copy()
        return int(encode_frames(values, values.view(np.float32), chunk, first, out, bound, width, leave))

    def decode_frames(self, data: Bytes, out: Bits, chunk: int, first: int, width: int, *, add: bool = False) -> int:
        from lightloom.compression.kernels_numba import decode_frames

        return int(decode_frames(data, out, out.view(np.float32), chunk, first, width, add))

    def count_tags(self, data: Bytes, count: int, chunk: int, counts: NDArray[np.int64]) -> int:
        from lightloom.compression.kernels_numba import count_tags

        return int(count_tags(data, count, chunk, counts))

    def xxh64(self, data: Bytes, seed: int) -> int:
        from lightloom.compression.kernels_numba import xxh64

        return int(xxh64(data, 0, len(data), np.uint64(seed)))


class _Native:
    def __init__(self, library: Any, name: str) -> None:
        self.name = name
        self._library = library
        self._path = _PATHS[name]

    def encode_frames(
        self, values: Bits, chunk: int, first: int, out: Bytes, bound: int, width: int, *, leave: bool = False
    ) -> int:
        encode = self._library.lightloom_encode_frames_leaving if leave else self._library.lightloom_encode_frames
        return int(encode(values.ctypes.data, values.size, chunk, first, out.ctypes.data, bound, width, self._path))

    def decode_frames(self, data: Bytes, out: Bits, chunk: int, first: int, width: int, *, add: bool = False) -> int:
        decode = self._library.lightloom_decode_frames_adding if add else self._library.lightloom_decode_frames
        return int(decode(data.ctypes.data, data.size, out.ctypes.data, out.size, chunk, first, width, self._path))

    def count_tags(self, data: Bytes, count: int, chunk: int, counts: NDArray[np.int64]) -> int:
        return int(self._library.lightloom_count_tags(data.ctypes.data, data.size, count, chunk, counts.ctypes.data))

    def xxh64(self, data: Bytes, seed: int) -> int:
        return int(self._library.lightloom_xxh64(data.ctypes.data, data.size, seed))


@cache
def load(name: str) -> Kernel | None:
    """The kernel of that name; None where this machine cannot run it.

    Raises:
        ConfigError: no such kernel.
    """
    if name not in NAMES:
        raise ConfigError(f"kernel {name!r}: expected one of {', '.join(NAMES)}")
    if name == "fallback":
        return _Fallback()
    library = kernels_native.library()
    if library is None or library.lightloom_best_path() < _PATHS[name]:
        return None
    return _Native(library, name)


def current() -> Kernel:
    """The fastest kernel here, or the one that the environment variable LIGHTLOOM_KERNEL (fallback, native) asks for.

    Raises:
        ConfigError: the variable names no kernel, or asks for the native one where it was not built.
    """
    return _choose(os.environ.get(_VARIABLE, ""))


@cache
def _choose(wanted: str) -> Kernel:
    if wanted not in ("", "native", *NAMES):
        raise ConfigError(f"{_VARIABLE}={wanted}: expected native, {', '.join(NAMES)}, or nothing")
    for name in NAMES:
        if (wanted == "" or name.startswith(wanted)) and (kernel := load(name)) is not None:
            return kernel
    raise ConfigError(f"{_VARIABLE}={wanted}: that kernel was not built here, or this CPU cannot run it")


def implementation() -> str:
    """Which kernel is used: ``native-avx512``, ``native-avx2``, ``native-scalar`` or ``fallback``."""
    return current().name
