"""Block quantisation: float32 values to 1 to 8 bits each and a bfloat16 scale for every block, without headers."""

import ctypes
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from lightloom.core.arrays import Bytes, Effort, Float32s, Ints
from lightloom.core.errors import ConfigError, InputError
from lightloom.exchange.compression.kernels import NAMES, PATHS, choose, requested, shared_object
from lightloom.exchange.compression.stream import NumpyCodec

# The wire format of block quantisation: blocks of one scale and B codes, one after another, nothing else.
#
# message   block | block | ...            ceil(n / B) blocks for n values; the last is padded with zeros
# block     u16 scale, a bfloat16 | B b / 8 bytes of codes          little-endian; value i at bits [i b, (i + 1) b)
#
# Blocks do not depend on each other: a slice of a message at the boundaries of blocks is a message, and so is one
# message behind another. With m the largest size and a the mean size of a block's values x, all in float32:
#
# kind      scale s                          code                                             decoded
# linear    m / q, rounded up to bfloat16    x (1 / s), to the nearest integer, ties to even  code s
# lloyd     a, rounded to bfloat16           2 (x < 0) + (|x| > t s)                          +-(l0 or l1) s
# sign      a, rounded to bfloat16           x < 0                                            +-s
# fp8       m / 448, rounded up              x (1 / s) as float8 e4m3                         code s
#
# Linear codes are two's complement and q = 2^(b-1) - 1; as s is rounded up, no code exceeds q. Where 1 / s overflows
# (s <= 2^-128), s and all codes are 0. The mean is the sum of the sizes, each times 1 / B, added by halves, number i
# and number i + h for h = B/2, B/4 ... 1, so that every implementation has equal bits; it is cut to the largest one
# whose levels are finite. A block with a value that is not finite, or whose largest decodable value q s overflows, has
# the scale NaN (0x7FC0) and codes 0, and decodes to NaN.

Kind = Literal["linear", "lloyd", "sign", "fp8"]

SCALE_BYTES = 2
NAN_SCALE = 0x7FC0
LARGEST_BLOCK = 4096
FP8_LARGEST = 448
"""The largest finite value of float8 e4m3 without infinities."""

LLOYD_THRESHOLD = 1.2302516802431513
LLOYD_LEVELS = (0.5674756185041173, 1.8930277419821853)
"""Max's quantiser of four levels for a Gaussian (1960), in multiples of the mean size sqrt(2 / pi) sigma.

The threshold is midway between the levels, and each level is the mean of what it stands for.
"""

_BITS = {"lloyd": 2, "sign": 1, "fp8": 8}


@dataclass(frozen=True)
class BlockFormat:
    """One way to write blocks.

    Raises:
        ConfigError: no such kind, bits or block.
    """

    kind: Kind
    bits: int
    """Bits of a code: 2 to 8 for ``linear``; 2 for ``lloyd``, 1 for ``sign`` and 8 for ``fp8``."""
    block: int
    """Values that share a scale: a multiple of 8 from 8 to 4096; a power of two where the scale is a mean."""

    def __post_init__(self) -> None:
        """Raise ConfigError for a kind, bits or block that no kernel takes."""
        if self.kind not in get_args(Kind):
            raise ConfigError(f"kind of blocks {self.kind!r}: expected one of {', '.join(get_args(Kind))}")
        if self.kind == "linear" and not 2 <= self.bits <= 8:
            raise ConfigError(f"bits = {self.bits!r} of linear blocks: expected a whole number from 2 to 8")
        if self.kind != "linear" and self.bits != _BITS[self.kind]:
            raise ConfigError(f"bits = {self.bits!r}: {self.kind} blocks have {_BITS[self.kind]}")
        if self.block % 8 or not 8 <= self.block <= LARGEST_BLOCK:
            raise ConfigError(f"blocks of {self.block!r} values: expected a multiple of 8 from 8 to {LARGEST_BLOCK}")
        if self.mean_scale and self.block & (self.block - 1):
            raise ConfigError(f"blocks of {self.block!r} values: {self.kind} blocks take a power of two")

    @property
    def mean_scale(self) -> bool:
        """True if the scale is the mean magnitude of the block's values, False if it follows from their largest
        magnitude."""
        return self.kind in ("lloyd", "sign")

    @property
    def largest_mean(self) -> int:
        """Bit pattern, 16 bits, of the largest bfloat16 mean for which all decoded levels are finite float32, to
        which larger means are cut; for ``lloyd`` and ``sign``, whose scale is a mean."""
        return 0x7F07 if self.kind == "lloyd" else 0x7F7F

    @property
    def largest_code(self) -> int:
        """The number q: the largest magnitude of a linear code, 2^(bits - 1) - 1, or of an fp8 code's value, 448;
        it means nothing for ``lloyd`` and ``sign``."""
        return FP8_LARGEST if self.kind == "fp8" else (1 << (self.bits - 1)) - 1

    @property
    def block_bytes(self) -> int:
        """Bytes of a block on the wire: 2 of scale and the codes."""
        return SCALE_BYTES + self.block * self.bits // 8

    def nbytes(self, values: int) -> int:
        """Return the bytes of a message of ``values`` values, whose last block is padded."""
        return -(-values // self.block) * self.block_bytes

    def check_size(self, nbytes: int, values: int) -> None:
        """Check that ``nbytes``, the size of a message, is exactly that of ``values`` values.

        Raises:
            InputError: it is another size.
        """
        if nbytes != self.nbytes(values):
            words = f"{values} values in blocks of {self.block} take {self.nbytes(values)}"
            raise InputError(f"a message of {nbytes} bytes: {words}")


def fp8_values() -> list[float]:
    """Return the values of all 256 codes of float8 e4m3 without infinities, by code: 1 bit of sign, 4 of exponent, 3 of
    mantissa; NaN for codes 127 and 255."""
    sizes = [(code & 7 | (8 if code >= 8 else 0)) * 2.0 ** (max(code >> 3, 1) - 10) for code in range(127)]
    return [*sizes, math.nan, *(-size for size in sizes), math.nan]


def decoded_codes(fmt: BlockFormat) -> list[float]:
    """Return the value that each code stands for, in multiples of its block's scale, by code as an unsigned number:
    2^bits values. They are two's complement for ``linear``, -2^(bits - 1) included, which no encoder writes; float8
    e4m3 for ``fp8``; 1, -1 for ``sign``; and l0, l1, -l0, -l1 for ``lloyd``, with l0 = 0.567 and l1 = 1.893."""
    if fmt.kind == "linear":
        half = 1 << (fmt.bits - 1)
        return [float((code + half) % (2 * half) - half) for code in range(2 * half)]
    if fmt.kind == "fp8":
        return fp8_values()
    levels = (1.0,) if fmt.kind == "sign" else LLOYD_LEVELS
    return [*levels, *(-level for level in levels)]


# Block quantisation of whole blocks, in NumPy or torch: ``xp`` is one of the two modules, and arrays are its own.
#
# Every operation on float32 is one that IEEE 754 defines, and no shape depends on values. Arrays of blocks have the
# shape [blocks, B], their scales [blocks, 1].

NAN_BITS = NAN_SCALE << 16


def quantise(fmt: BlockFormat, x: Any, xp: Any) -> tuple[Any, Any]:
    """Return (scales, codes) of blocks of float32 values.

    Args:
        fmt: format of the blocks, of B values each.
        x: float32 [blocks, B].
        xp: module whose arrays are used, NumPy or torch.

    Returns:
        Scales as bit patterns of float32, int32 [blocks, 1] (that of NaN where a block has no finite scale), and codes
        in the low bits of bytes, uint8 [blocks, B], 0 in blocks without a finite scale. Codes of ``linear`` and
        ``fp8`` are the values over the scale, rounded to the nearest, ties to even, in two's complement or float8 e4m3
        (0 where the scale is 0); those of ``sign`` are 1 for a negative value; those of ``lloyd`` are twice that, plus
        1 for a magnitude above 1.23 times the scale.
    """
    size = abs(x)
    scale_bits = _mean_scale(fmt, size, xp) if fmt.mean_scale else _linear_scale(fmt, size, xp)
    scale = scale_bits.view(xp.float32)
    if fmt.mean_scale:
        codes = x < 0
        if fmt.kind == "lloyd":
            codes = 2 * xp.asarray(codes, dtype=xp.uint8) + (size > scale * xp.full_like(scale, LLOYD_THRESHOLD))
        codes = xp.where(xp.isnan(scale), 0, xp.asarray(codes, dtype=xp.uint8))
    else:
        # CUDA multiplies by a reciprocal where the divisor is a number.
        inverse = xp.where(scale > 0, xp.full_like(scale, 1) / scale, 0.0)
        scaled = xp.where(scale > 0, x, 0.0) * inverse
        codes = _fp8_codes(scaled, xp) if fmt.kind == "fp8" else xp.asarray(xp.round(scaled), dtype=xp.int8)
    return scale_bits, codes.view(xp.uint8) & ((1 << fmt.bits) - 1)


def _fp8_codes(scaled: Any, xp: Any) -> Any:
    """Return the float8 e4m3 codes, uint8, of float32 values of magnitude 448 at most, rounded to the nearest, ties to
    even; ``xp`` is NumPy or torch."""
    bits = scaled.view(xp.int32)
    size = bits & 0x7FFFFFFF
    rounded = ((size + 0x7FFFF + ((size >> 20) & 1)) >> 20) - 960
    small = xp.asarray(xp.round(size.view(xp.float32) * 2.0**9), dtype=xp.int32)  # below 2^-6, multiples of 2^-9
    return xp.asarray(xp.where(size < 0x3C800000, small, rounded) | (bits >> 24) & 128, dtype=xp.uint8)


def _linear_scale(fmt: BlockFormat, size: Any, xp: Any) -> Any:
    """Return the scales of linear or fp8 blocks, the largest magnitude over the largest code, rounded up to bfloat16,
    as bit patterns of float32, int32 [blocks, 1]; NaN where a value is not finite or scale times largest code
    overflows, 0 where the scale is 2^-128 or less. The largest code is 2^(bits - 1) - 1, or 448 for fp8.

    Args:
        fmt: format of the blocks.
        size: magnitudes of the values, float32 [blocks, B].
        xp: NumPy or torch.
    """
    largest = xp.amax(size, 1)[:, None]
    q = xp.full_like(largest, fmt.largest_code)
    rounded = ((largest / q).view(xp.int32) + 0xFFFF) & -0x10000
    scale = rounded.view(xp.float32)
    finite = xp.isfinite(largest) & xp.isfinite(scale * q)
    return xp.where(finite, xp.where(scale > 2.0**-128, rounded, 0), NAN_BITS)


def _mean_scale(fmt: BlockFormat, size: Any, xp: Any) -> Any:
    """Return the mean magnitudes of the values of blocks, rounded to the nearest bfloat16 (ties to even) and at most
    ``fmt.largest_mean``, as bit patterns of float32, int32 [blocks, 1]; NaN where a value is not finite. Magnitudes
    times 1 / B are added by halves, number i and number i + h for h = B/2, B/4 ... 1, so that all implementations have
    equal bits.

    Args:
        fmt: format of the blocks.
        size: magnitudes of the values, float32 [blocks, B].
        xp: NumPy or torch.
    """
    total = size * (1.0 / fmt.block)
    while (half := total.shape[1] // 2) > 0:
        total = total[:, :half] + total[:, half:]
    mean = total.view(xp.int32)
    rounded = xp.clip((mean + 0x7FFF + ((mean >> 16) & 1)) & -0x10000, None, fmt.largest_mean << 16)
    return xp.where(xp.isfinite(total), rounded, NAN_BITS)


def pack(fmt: BlockFormat, scale_bits: Any, codes: Any, xp: Any) -> Any:
    """Return the bytes of blocks, uint8 [blocks, block_bytes], from the scales and codes that :func:`quantise` returns:
    2 bytes of scale (bfloat16, little-endian), then the codes, each in its bits from the lowest on; ``xp`` is NumPy or
    torch."""
    scales = xp.asarray(scale_bits >> _steps(2, 8, codes, xp) + 16, dtype=xp.uint8)
    return xp.concatenate([scales, _regrouped(codes, fmt.bits, 8, xp)], 1)


def unpack(fmt: BlockFormat, blocks: Any, xp: Any) -> tuple[Any, Any]:
    """Return (scales, float32 [blocks, 1]; codes, uint8 [blocks, B]) of the bytes of blocks that :func:`pack` returned,
    uint8 [blocks, block_bytes]; ``xp`` is NumPy or torch."""
    heads = xp.asarray(blocks[:, :SCALE_BYTES], dtype=xp.int32)
    scale = (heads[:, :1] << 16 | heads[:, 1:] << 24).view(xp.float32)
    return scale, _regrouped(blocks[:, SCALE_BYTES:], 8, fmt.bits, xp)


def _regrouped(numbers: Any, bits: int, wanted: int, xp: Any) -> Any:
    """Return each row's string of bits, cut into numbers of ``wanted`` bits instead of ``bits``, the lowest bits first.

    Args:
        numbers: uint8 [blocks, n], each with a value below 2^bits.
        bits: bits of each number given.
        wanted: bits of each number returned, uint8 [blocks, n bits / wanted]; one of the two is 8.
        xp: NumPy or torch.
    """
    if bits == wanted:
        return numbers
    groups = xp.asarray(numbers.reshape(len(numbers), numbers.shape[1] // wanted, wanted), dtype=xp.int64)
    words = (groups << _steps(wanted, bits, numbers, xp)).sum(2)[:, :, None]
    pieces = (words >> _steps(bits, wanted, numbers, xp)) & ((1 << wanted) - 1)
    return xp.asarray(pieces, dtype=xp.uint8).reshape(len(numbers), numbers.shape[1] * bits // wanted)


def _steps(count: int, step: int, like: Any, xp: Any) -> Any:
    """Return ``count`` integers 0, ``step``, 2 ``step`` ... as an array of ``xp``, NumPy or torch, on the device of
    ``like``."""
    return xp.arange(count, device=like.device) * step


# Block quantisation in NumPy: the kernel where the C one was not built. The bytes are the same.
#
# Runs are taken in pieces of whole blocks that fit a core's caches.

_PIECE: Effort = 1 << 15
"""Values of a piece, about."""


@cache
def _decoded_table(fmt: BlockFormat) -> Float32s:
    """Return the value that each code stands for, in multiples of its block's scale, float32 [2^bits]."""
    return np.array(decoded_codes(fmt), np.float32)


class Portable:
    """The kernel in NumPy."""

    name = "fallback"

    def encode_runs(
        self, fmt: BlockFormat, values: Float32s, residual: Float32s | None, runs: Ints, wire: Bytes
    ) -> None:
        """Write the message of each run to ``wire``, in NumPy.

        Args:
            fmt: format of the blocks.
            values: flat values; not changed.
            residual: like ``values``: added to them before encoding, and overwritten with the errors (that sum
                less what the message decodes to), 0 where a block has no finite scale; outside of the runs it stays.
                None without error feedback.
            runs: int64 [runs, 3]: first value, number of values, and first byte of the message of each run.
            wire: bytes; overwritten where the messages lie.
        """
        for first, last, blocks in _pieces(fmt, runs, wire):
            x = np.zeros((len(blocks), fmt.block), np.float32)
            flat = x.reshape(-1)[: last - first]
            flat[:] = values[first:last]
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                if residual is not None:
                    flat += residual[first:last]
                scale_bits, codes = quantise(fmt, x, np)
                blocks[:] = pack(fmt, scale_bits, codes, np)
                if residual is not None:
                    x -= _decoded_table(fmt)[codes] * scale_bits.view(np.float32)
                    x[scale_bits[:, 0] == NAN_BITS] = 0
                    residual[first:last] = flat

    def decode_runs(self, fmt: BlockFormat, wire: Bytes, runs: Ints, out: Float32s, factor: float, add: bool) -> None:
        """Write ``factor`` times the values of each run's message to ``out``, or add them there with ``add``, in NumPy.

        Args:
            fmt: format of the blocks.
            wire: bytes of the messages.
            runs: int64 [runs, 3]: first value in ``out``, number of values, and first byte of the message of each run.
            out: flat values; other ones stay.
            factor: factor of all values.
            add: whether to add.
        """
        for first, last, blocks in _pieces(fmt, runs, wire):
            with np.errstate(over="ignore", invalid="ignore"):
                scale, codes = unpack(fmt, blocks, np)
                values = (_decoded_table(fmt)[codes] * scale).reshape(-1)[: last - first] * np.float32(factor)
                if add:
                    out[first:last] += values
                else:
                    out[first:last] = values


def _pieces(fmt: BlockFormat, runs: Ints, wire: Bytes) -> Iterator[tuple[int, int, Bytes]]:
    """Yield the runs in pieces of whole blocks, about 32,768 values each, as (first value, end of its values, view of
    its blocks [blocks, block_bytes] in ``wire``). Values are counted in the array that holds those of all runs; the
    last block of a run may reach beyond their end.

    Args:
        fmt: format of the blocks.
        runs: int64 [runs, 3]: first value, number of values, and first byte of the message of each run.
        wire: flat bytes of the messages.
    """
    step = max(1, _PIECE // fmt.block)
    for first, count, at in runs.tolist():
        blocks = wire[at : at + fmt.nbytes(count)].reshape(-1, fmt.block_bytes)
        for begin in range(0, len(blocks), step):
            last = first + min((begin + step) * fmt.block, count)
            yield first + begin * fmt.block, last, blocks[begin : begin + step]


# Choice of the kernel of blocks: C with AVX-512 or AVX2, portable C, or NumPy. All give equal bytes.
#
# The environment variable LIGHTLOOM_KERNEL forces one, as it does for INCEPTIONN.

KINDS = {"linear": 0, "lloyd": 1, "sign": 2, "fp8": 3}
"""Kinds of blocks, with the numbers that kernels take for them."""
_TABLE = 16
_NOTHING = ctypes.c_char * 0

_POINTER, _INT64, _INT, _FLOAT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int, ctypes.c_float
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "lightloom_blocks_kinds": (_INT, []),
    "lightloom_blocks_best_path": (_INT, []),
    "lightloom_blocks_encode_runs": (None, [_POINTER, _POINTER, _POINTER, _POINTER, _INT64, _POINTER, _INT]),
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
    """Return a format as the C kernel reads it, with a table of 16 decoded values, in multiples of the scale, by code
    (repeated where codes have fewer than 4 bits); for codes of more than 4 bits the table holds zeros."""
    values = decoded_codes(fmt) if fmt.bits <= 4 else [0.0]
    table = [values[code % len(values)] for code in range(_TABLE)]
    return _Format(KINDS[fmt.kind], fmt.bits, fmt.block, LLOYD_THRESHOLD, (ctypes.c_float * _TABLE)(*table))


class Native:
    """One path through the C kernel; methods as those of :class:`Portable`."""

    def __init__(self, library: ctypes.CDLL, name: str) -> None:
        """Keep the library and the number of its path of that name."""
        self.name = name
        self._library = library
        self._path = PATHS[name]

    def encode_runs(
        self, fmt: BlockFormat, values: Float32s, residual: Float32s | None, runs: Ints, wire: Bytes
    ) -> None:
        """Write the message of each run to ``wire``, by the C kernel; nothing is checked.

        Args:
            fmt: format of the blocks.
            values: flat values; not changed.
            residual: like ``values``: added to them before encoding, and overwritten with the errors (that sum
                less what the message decodes to), 0 where a block has no finite scale; outside of the runs it stays.
                None without error feedback.
            runs: int64 [runs, 3]: first value, number of values, and first byte of the message of each run.
            wire: bytes; overwritten where the messages lie.
        """
        self._library.lightloom_blocks_encode_runs(
            ctypes.addressof(_format(fmt)), _at(values), _at(residual), _at(runs), len(runs), _at(wire), self._path
        )

    def decode_runs(self, fmt: BlockFormat, wire: Bytes, runs: Ints, out: Float32s, factor: float, add: bool) -> None:
        """Write ``factor`` times the values of each run's message to ``out``, or add them there with ``add``, by the C
        kernel; nothing is checked.

        Args:
            fmt: format of the blocks.
            wire: bytes of the messages.
            runs: int64 [runs, 3]: first value in ``out``, number of values, and first byte of the message of each run.
            out: flat values; other ones stay.
            factor: factor of all values.
            add: whether to add.
        """
        self._library.lightloom_blocks_decode_runs(
            ctypes.addressof(_format(fmt)), _at(wire), _at(runs), len(runs), _at(out), factor, add, self._path
        )


def _at(array: Float32s | Bytes | Ints | None) -> int | None:
    """Return the address of an array's first element, None for None. It comes by the buffer protocol where the array
    can be written, which takes a third of the time."""
    if array is None:
        return None
    return ctypes.addressof(_NOTHING.from_buffer(array.data)) if array.flags.writeable else array.ctypes.data


Kernel = Portable | Native


@cache
def load(name: str) -> Kernel | None:
    """Return the kernel of that name, ``native-avx512``, ``native-avx2``, ``native-scalar`` or ``fallback`` (NumPy's);
    None where it was not built, was built from older sources, or this CPU cannot run it.

    Raises:
        ConfigError: there is no kernel of that name.
    """
    if name not in NAMES:
        raise ConfigError(f"kernel {name!r}: expected one of {', '.join(NAMES)}")
    if name == "fallback":
        return Portable()
    library = shared_object(Path(__file__).with_name("_blocks"), _SIGNATURES)
    if library is None or library.lightloom_blocks_kinds() != len(KINDS):  # built from older sources
        return None
    if library.lightloom_blocks_best_path() < PATHS[name]:
        return None
    return Native(library, name)


@cache
def current() -> Kernel:
    """Return the kernel that the environment variable LIGHTLOOM_KERNEL named at the first call (``native``: the fastest
    in C), or the fastest where it was empty or not set; later changes of the variable do nothing.

    Raises:
        ConfigError: the variable names no kernel, or one that was not built or that this CPU cannot run.
    """
    kernel: Kernel = choose(requested(), load)
    return kernel


# Block quantisation of NumPy arrays: encode, encode with feedback, decode, decode and add; one run or many in a call.
#
# Values are flat, contiguous float32 arrays, wires flat, contiguous uint8 arrays. A wire holds the message of its
# values exactly: :meth:`BlockFormat.nbytes`. Functions on runs take a table, int64 of shape [runs, 3]: the first
# value of each run, its number of values, and the first byte of its message; ranges of values and of bytes must not
# overlap. Nothing that is decoded is refused: any bytes of the right size have values.

_FLOAT32, _UINT8 = np.dtype(np.float32), np.dtype(np.uint8)


def encode(fmt: BlockFormat, values: Float32s, out: Bytes) -> None:
    """Write the message of ``values``, one after the other in blocks of ``fmt``, to ``out``.

    Raises:
        InputError: an array has another type, is not flat and contiguous or not writable; or ``out`` has not exactly
            the message's size.
    """
    _check_flat(values, "values")
    _check_message(fmt, values.size, out, write=True)
    current().encode_runs(fmt, values, None, _one_run(values.size), out)


def encode_feedback(fmt: BlockFormat, gradient: Float32s, residual: Float32s, out: Bytes) -> None:
    """Write the message of ``residual + gradient`` to ``out``, and replace ``residual``, in place, by that sum less
    what the message decodes to, 0 where a block has no finite scale; ``gradient`` stays.

    Raises:
        InputError: an array has another type or size, or is not flat, contiguous or writable.
    """
    _check_flat(gradient, "gradient")
    _check_residual(residual, gradient.size)
    _check_message(fmt, gradient.size, out, write=True)
    current().encode_runs(fmt, gradient, residual, _one_run(gradient.size), out)


def decode(fmt: BlockFormat, wire: Bytes, out: Float32s, *, add: bool = False) -> None:
    """Write the values of a message to ``out``, as many as it has room for, or add them with ``add``; they are NaN in
    blocks without a finite scale.

    Raises:
        InputError: an array has another type, is not flat and contiguous or not writable; or ``wire`` has not exactly
            the size of so many values.
    """
    _check_flat(out, "out", write=True)
    _check_message(fmt, out.size, wire)
    current().decode_runs(fmt, wire, _one_run(out.size), out, 1.0, add)


def decode_adding(fmt: BlockFormat, wire: Bytes, out: Float32s) -> None:
    """Add the values of a message to ``out``, in place; raises InputError for arrays of another type, that are not
    flat, contiguous and writable, or for a message of another size than so many values take."""
    decode(fmt, wire, out, add=True)


def encode_runs(fmt: BlockFormat, values: Float32s, residual: Float32s | None, runs: Ints, wire: Bytes) -> None:
    """Write the message of each run of ``values`` to ``wire``.

    Args:
        fmt: format of the blocks.
        values: flat float32 values; not changed.
        residual: like ``values``: added to them before encoding, and overwritten with the errors (that sum less
            what the message decodes to), 0 where a block has no finite scale; outside of the runs it stays. None
            without error feedback.
        runs: int64 [runs, 3]: first value, number of values, and first byte of the message of each run; ranges must not
            overlap.
        wire: flat bytes; overwritten where the messages lie.

    Raises:
        InputError: an array has another type, is not flat and contiguous or not writable, or a run reaches beyond its
            arrays. Nothing has been written then.
    """
    _check_flat(values, "values")
    if residual is not None:
        _check_residual(residual, values.size)
    _check_runs(fmt, runs, values.size, wire, write=True)
    current().encode_runs(fmt, values, residual, runs, wire)


def decode_runs(
    fmt: BlockFormat, wire: Bytes, runs: Ints, out: Float32s, factor: float = 1.0, add: bool = False
) -> None:
    """Write ``factor`` times the values of each run's message to ``out``, or add them there with ``add``; values are
    NaN in blocks without a finite scale.

    Args:
        fmt: format of the blocks.
        wire: flat bytes of the messages.
        runs: int64 [runs, 3]: first value in ``out``, number of values, and first byte of the message of each run.
        out: flat float32 values; other ones stay.
        factor: factor of all values.
        add: whether to add.

    Raises:
        InputError: an array has another type, is not flat and contiguous or not writable, or a run reaches beyond its
            arrays. Nothing has been written then.
    """
    _check_flat(out, "out", write=True)
    _check_runs(fmt, runs, out.size, wire)
    current().decode_runs(fmt, wire, runs, out, factor, add)


@lru_cache(maxsize=64)
def _one_run(count: int) -> Ints:
    """Return the table of one run of ``count`` values at the beginning of its arrays, int64 [1, 3]: 0,
    ``count``, 0 (first value, number of values, first byte)."""
    return np.array([[0, count, 0]], np.int64)


def _check_residual(residual: Float32s, count: int) -> None:
    """Raise InputError unless ``residual`` is a writable, flat, contiguous float32 array of ``count`` values."""
    _check_flat(residual, "residual", write=True)
    if residual.size != count:
        raise InputError(f"residual holds {residual.size} values: expected {count}, as many as there are gradients")


def _check_message(fmt: BlockFormat, count: int, wire: Bytes, write: bool = False) -> None:
    """Raise InputError unless ``wire`` is a flat, contiguous array of exactly the bytes of ``count`` values, and can be
    written if ``write``."""
    _check_flat(wire, "wire", write, _UINT8)
    fmt.check_size(wire.size, count)


def _check_runs(fmt: BlockFormat, runs: Ints, count: int, wire: Bytes, write: bool = False) -> None:
    """Raise InputError unless ``wire`` is a flat array of bytes, writable if ``write``, and ``runs`` a contiguous int64
    table [runs, 3] of first value, number of values and first byte whose runs stay within ``count`` values and the
    wire; overlaps are not checked."""
    _check_flat(wire, "wire", write, _UINT8)
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


def _check_flat(
    array: Float32s | Bytes, name: str, write: bool = False, dtype: np.dtype[np.float32] | np.dtype[np.uint8] = _FLOAT32
) -> None:
    """Raise InputError, which calls the array ``name``, unless it is flat, contiguous and of ``dtype``, and can be
    written if ``write``."""
    flags = array.flags
    if array.dtype != dtype or array.ndim != 1 or not flags.c_contiguous:
        raise InputError(f"{name} must be a flat, contiguous {dtype} array, not {array.dtype} of {array.ndim} axes")
    if write and not flags.writeable:
        raise InputError(f"{name} must be writable")


# Block quantisation as checked streams: ``int8:256``, ``int4:128``, ``int3:128``, ``lloyd2:64``, ``sign:256``.


@dataclass(frozen=True, repr=False)
class BlockCodec(NumpyCodec):
    """Codec whose frames hold messages of blocks. Encoding decoded values again may change them: scales are rounded.

    Args:
        block: values that share a scale, a power of two from 8 to 4096.

    Raises:
        ConfigError: another number of values.
    """

    block: int

    family: ClassVar[str]
    kind: ClassVar[Kind] = "linear"
    bits: ClassVar[int]

    def __post_init__(self) -> None:
        """Raise ConfigError unless ``block`` is a power of two from 8 to 4096."""
        if not isinstance(self.block, int) or not 8 <= self.block <= LARGEST_BLOCK or self.block & (self.block - 1):
            raise ConfigError(f"blocks of {self.block!r} values: expected a power of two from 8 to {LARGEST_BLOCK}")

    @property
    def format(self) -> BlockFormat:
        """Format of the blocks, by kind, bits and block of the codec."""
        return BlockFormat(self.kind, self.bits, self.block)

    @property
    def parameter(self) -> int:  # type: ignore[override]
        """Binary logarithm of ``block``, the values of a block, as headers of streams hold it."""
        return self.block.bit_length() - 1

    @property
    def name(self) -> str:
        """Name of the codec with its block: ``int8:256``."""
        return f"{self.family}:{self.block}"

    def worst_bytes(self, count: int) -> int:
        """Return the bytes that ``count`` values take in blocks, the last one padded; every encoding of them takes as
        many."""
        return self.format.nbytes(count)

    def encode_payload(self, values: Float32s) -> Bytes:
        """Return the blocks of flat float32 values, one after the other, as a flat array of bytes, without a header."""
        payload = np.empty(self.format.nbytes(values.size), np.uint8)
        encode(self.format, values, payload)
        return payload

    def decode_payload(self, payload: Bytes, count: int) -> Float32s | None:
        """Return the ``count`` values, flat float32, of a payload of blocks; None where the payload has another size
        than so many values take."""
        if payload.size != self.format.nbytes(count):
            return None
        values = np.empty(count, np.float32)
        decode(self.format, payload, values)
        return values


class Int8(BlockCodec):
    """Eight bits a value, in multiples of a 127th of the block's largest size."""

    family, codec_id, bits = "int8", 6, 8


class Int4(BlockCodec):
    """Four bits a value, in multiples of a seventh of the block's largest size."""

    family, codec_id, bits = "int4", 7, 4


class Int3(BlockCodec):
    """Three bits a value, in multiples of a third of the block's largest size."""

    family, codec_id, bits = "int3", 8, 3


class Lloyd2(BlockCodec):
    """Two bits a value: the four levels of Lloyd and Max for a Gaussian of the block's mean size."""

    family, codec_id, kind, bits = "lloyd2", 9, "lloyd", 2


class Sign(BlockCodec):
    """One bit a value: its sign, at the block's mean size."""

    family, codec_id, kind, bits = "sign", 10, "sign", 1
