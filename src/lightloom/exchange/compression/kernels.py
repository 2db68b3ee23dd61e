r"""Choice of the compiled kernel: C with AVX-512 or AVX2, portable C, or the Numba fallback. All give equal bytes.

Kernels encode and decode frames. ``bound`` is k of 2^-k, ``width`` is w of the code trunc(\|f\| 2^w), ``first`` the
number of the first frame. ``encode_frames`` returns the number of bytes written; ``out`` must hold the worst case and
:data:`SLACK` more bytes. ``decode_frames`` returns the number of bytes read, or ``-(8 frame + reason)``. ``leave``
replaces ``values`` by their errors. ``add`` adds to ``out``, which keeps its bits where the code is empty.
``count_tags`` adds the number of values of tag 0 to 3 to ``counts``.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import numpy as np

from lightloom.core.arrays import Bits, Bytes, Ints, read_only
from lightloom.core.errors import ConfigError

# Shared objects of C kernels, loaded with ctypes, and the choice among their paths and the fallback in Python.

PATHS = {"native-avx512": 2, "native-avx2": 1, "native-scalar": 0}
"""Paths through a C kernel, the fastest first, with the numbers that its functions take for them."""
NAMES = (*PATHS, "fallback")
_VARIABLE = "LIGHTLOOM_KERNEL"


def shared_object(stem: Path, signatures: Mapping[str, tuple[Any, list[Any]]]) -> ctypes.CDLL | None:
    """Return the C kernel in the extension module beside ``stem`` (its path without suffix), whose calls run without
    the interpreter lock; None where there is none, it cannot be loaded or lacks a function, or the machine is
    big-endian.

    Args:
        stem: path of the extension module without its suffix.
        signatures: by name of a function, (type of the result, types of the arguments) for ctypes, which are set on the
            library that is returned.
    """
    if sys.byteorder != "little":
        return None
    # A build of before the stable ABI may still lie beside the one of now.
    for suffix in sorted(EXTENSION_SUFFIXES, key=lambda suffix: "abi3" not in suffix):
        path = stem.with_name(stem.name + suffix)
        if not path.exists():
            continue
        try:
            loaded = ctypes.CDLL(str(path))
            for name, (result, arguments) in signatures.items():
                function = getattr(loaded, name)
                function.restype, function.argtypes = result, arguments
        except (OSError, AttributeError):
            continue
        return loaded
    return None


def requested() -> str:
    """Return the value of the environment variable LIGHTLOOM_KERNEL; empty if it is not set."""
    return os.environ.get(_VARIABLE, "")


def choose(request: str, load: Callable[[str], Any]) -> Any:
    """Return the first kernel that fits a request and can run here, in the order ``native-avx512``, ``native-avx2``,
    ``native-scalar`` (C) and ``fallback`` (Python).

    Args:
        request: one of these names, ``native`` for any C one, or empty for any.
        load: returns the kernel of a name; None for one that was not built or that this CPU cannot run.

    Raises:
        ConfigError: the request names no kernel, or one that was not built or that this CPU cannot run.
    """
    if request not in ("", "native", *NAMES):
        raise ConfigError(f"{_VARIABLE}={request}: expected native, {', '.join(NAMES)}, or nothing")
    for name in NAMES:
        if (request == "" or name.startswith(request)) and (kernel := load(name)) is not None:
            return kernel
    raise ConfigError(f"{_VARIABLE}={request}: that kernel was not built here, or this CPU cannot run it")


_POINTER, _INT64, _INT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
_ENCODE = [_POINTER, _INT64, _INT64, _INT64, _POINTER, _INT, _INT, _INT]
_DECODE = [_POINTER, _INT64, _POINTER, _INT64, _INT64, _INT64, _INT, _INT]
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "lightloom_best_path": (_INT, []),
    "lightloom_xxh64": (ctypes.c_uint64, [_POINTER, _INT64, ctypes.c_uint64]),
    "lightloom_encode_frames": (_INT64, _ENCODE),
    "lightloom_encode_frames_leaving": (_INT64, _ENCODE),
    "lightloom_decode_frames": (_INT64, _DECODE),
    "lightloom_decode_frames_adding": (_INT64, _DECODE),
    "lightloom_count_tags": (_INT64, [_POINTER, _INT64, _INT64, _INT64, _POINTER]),
}


SLACK = 64
"""Bytes behind the end that a vector store may overwrite."""

REASONS = {1: "it ends early", 2: "its length is impossible", 3: "its checksum is wrong", 4: "its groups are malformed"}


class _Fallback:
    """The kernel that Numba compiles."""

    name = "fallback"

    def encode_frames(
        self, values: Bits, chunk: int, first: int, out: Bytes, bound: int, width: int, *, leave: bool = False
    ) -> int:
        """Write the frames of ``values`` to ``out``, by the function that Numba compiles, and return the bytes written.

        Args:
            values: bit patterns of float32 values, uint32, flat.
            chunk: number of values in each frame, a multiple of 8; the last may have fewer.
            first: number of the first frame in its stream, from 0, with which checksums are seeded.
            out: memory for the largest frames and ``SLACK`` (64) bytes.
            bound: k of the bound 2^-k.
            width: w in the 8-bit code trunc(abs(f) 2^w) of a value f.
            leave: replace ``values``, in place, by the bit patterns of their errors (value less decoded value);
                values that are not writable stay.
        """
        from lightloom.exchange.compression.kernels_numba import Coding, Values, encode_frames

        if not values.flags.writeable:  # Numba compiles a function that may write for writable arrays only
            values = values.copy()
        coding = Coding(bound, width, np.float32(2.0**-width), leave)
        return int(encode_frames(Values(values, values.view(np.float32)), chunk, first, out, coding))

    def decode_frames(self, data: Bytes, out: Bits, chunk: int, first: int, width: int, *, add: bool = False) -> int:
        """Fill ``out`` from the frames in ``data``, by the function that Numba compiles, and return the bytes read, or
        ``-(8 frame + reason)`` for a frame that is not valid; reason 1: cut short, 2: impossible length, 3: wrong
        checksum, 4: malformed groups.

        Args:
            data: bytes from the beginning of a frame on; those behind the last frame wanted are not read.
            out: memory for bit patterns of float32 values, uint32, flat, as many as are to be decoded.
            chunk: number of values in each frame, a multiple of 8; the last may have fewer.
            first: number of the first frame in its stream, from 0, which checksums and the result refer to.
            width: w in the 8-bit code trunc(abs(f) 2^w) of a value f.
            add: add the values to those in ``out`` instead, as float32 numbers.
        """
        from lightloom.exchange.compression.kernels_numba import Coding, Values, decode_frames

        coding = Coding(0, width, np.float32(2.0**-width), add)
        return int(decode_frames(read_only(data), Values(out, out.view(np.float32)), chunk, first, coding))

    def count_tags(self, data: Bytes, count: int, chunk: int, counts: Ints) -> int:
        """Add the number of values of each tag, 0 to 3, to ``counts``, int64 [4], in place; return the bytes read, or
        ``-(8 frame + reason)`` for a frame that is not valid, reason 1: cut short, 2: impossible length, 3: wrong
        checksum, 4: malformed groups.

        Args:
            data: bytes of all frames of a stream, without the stream's header.
            count: number of values in the stream.
            chunk: number of values in each frame, a multiple of 8; the last may have fewer.
            counts: counts so far, of values dropped (tag 0), with codes of 8 and 16 bits (1, 2) and kept whole (3);
                after an error they hold some of the values.
        """
        from lightloom.exchange.compression.kernels_numba import count_tags

        return int(count_tags(read_only(data), count, chunk, counts))

    def xxh64(self, data: Bytes, seed: int) -> int:
        """Return the XXH64 of ``data``, a 64-bit hash, as an unsigned number; ``seed`` has 64 bits."""
        from lightloom.exchange.compression.kernels_numba import xxh64

        return int(xxh64(read_only(data), 0, len(data), np.uint64(seed)))


class _Native:
    """One path through the C kernel."""

    def __init__(self, library: ctypes.CDLL, name: str) -> None:
        self.name = name
        self._library = library
        self._path = PATHS[name]

    def encode_frames(
        self, values: Bits, chunk: int, first: int, out: Bytes, bound: int, width: int, *, leave: bool = False
    ) -> int:
        """Write the frames of ``values`` to ``out``, by the C kernel, and return the bytes written; nothing is checked.

        Args:
            values: bit patterns of float32 values, uint32, flat.
            chunk: number of values in each frame, a multiple of 8; the last may have fewer.
            first: number of the first frame in its stream, from 0, with which checksums are seeded.
            out: memory for the largest frames and ``SLACK`` (64) bytes.
            bound: k of the bound 2^-k.
            width: w in the 8-bit code trunc(abs(f) 2^w) of a value f.
            leave: replace ``values``, in place, by the bit patterns of their errors (value less decoded value).
        """
        encode = self._library.lightloom_encode_frames_leaving if leave else self._library.lightloom_encode_frames
        return int(encode(values.ctypes.data, values.size, chunk, first, out.ctypes.data, bound, width, self._path))

    def decode_frames(self, data: Bytes, out: Bits, chunk: int, first: int, width: int, *, add: bool = False) -> int:
        """Fill ``out`` from the frames in ``data``, by the C kernel, and return the bytes read, or ``-(8 frame +
        reason)`` for a frame that is not valid; reason 1: cut short, 2: impossible length, 3: wrong checksum, 4:
        malformed groups.

        Args:
            data: bytes from the beginning of a frame on; those behind the last frame wanted are not read.
            out: memory for bit patterns of float32 values, uint32, flat, as many as are to be decoded.
            chunk: number of values in each frame, a multiple of 8; the last may have fewer.
            first: number of the first frame in its stream, from 0, which checksums and the result refer to.
            width: w in the 8-bit code trunc(abs(f) 2^w) of a value f.
            add: add the values to those in ``out`` instead, as float32 numbers.
        """
        decode = self._library.lightloom_decode_frames_adding if add else self._library.lightloom_decode_frames
        return int(decode(data.ctypes.data, data.size, out.ctypes.data, out.size, chunk, first, width, self._path))

    def count_tags(self, data: Bytes, count: int, chunk: int, counts: Ints) -> int:
        """Add the number of values of each tag, 0 to 3, to ``counts``, int64 [4], in place, by the C kernel; return the
        bytes read, or ``-(8 frame + reason)`` for a frame that is not valid, reason 1: cut short, 2: impossible length,
        3: wrong checksum, 4: malformed groups.

        Args:
            data: bytes of all frames of a stream, without the stream's header.
            count: number of values in the stream.
            chunk: number of values in each frame, a multiple of 8; the last may have fewer.
            counts: counts so far, of values dropped (tag 0), with codes of 8 and 16 bits (1, 2) and kept whole (3);
                after an error they hold some of the values.
        """
        return int(self._library.lightloom_count_tags(data.ctypes.data, data.size, count, chunk, counts.ctypes.data))

    def xxh64(self, data: Bytes, seed: int) -> int:
        """Return the XXH64 of ``data``, a 64-bit hash, as an unsigned number, by the C kernel; ``seed`` has 64 bits."""
        return int(self._library.lightloom_xxh64(data.ctypes.data, data.size, seed))


Kernel = _Fallback | _Native


@cache
def load(name: str) -> Kernel | None:
    """Return the kernel of that name, ``native-avx512``, ``native-avx2``, ``native-scalar`` or ``fallback``; None where
    it was not built or this CPU cannot run it.

    Raises:
        ConfigError: there is no kernel of that name.
    """
    if name not in NAMES:
        raise ConfigError(f"kernel {name!r}: expected one of {', '.join(NAMES)}")
    if name == "fallback":
        return _Fallback()
    library = shared_object(Path(__file__).with_name("_inceptionn"), _SIGNATURES)
    if library is None or library.lightloom_best_path() < PATHS[name]:
        return None
    return _Native(library, name)


def current() -> Kernel:
    """Return the kernel that the environment variable LIGHTLOOM_KERNEL names, or else the fastest.

    Raises:
        ConfigError: the variable names no kernel, or one that was not built or that this CPU cannot run.
    """
    return _choose(requested())


@cache
def _choose(request: str) -> Kernel:
    """Return the kernel for a value of the environment variable LIGHTLOOM_KERNEL, chosen once for each value; raises
    ConfigError for a kernel that is unknown, not built, or not for this CPU."""
    kernel: Kernel = choose(request, load)
    return kernel


def implementation() -> str:
    """Return the name of the kernel in use: ``native-avx512``, ``native-avx2``, ``native-scalar`` or ``fallback``;
    raises ConfigError as :func:`current` does for an environment variable that names none that runs here."""
    return current().name
