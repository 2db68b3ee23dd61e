"""INCEPTIONN, a lossy codec for gradients: 0, 8, 16 or 32 bits a value, chosen by its size.

Source: Li et al., "A Network-Centric Hardware/Algorithm Co-Design to Accelerate Distributed Training of Deep Neural
Networks" (MICRO 2018), Algorithms 2 and 3. With bound 2^-k:

    |f| >= 1 (Inf and NaN too)     tag 3   the 32 bits themselves
    2^-⌊k/2⌋ <= |f| < 1            tag 2   sign, trunc(|f| 2^15)
    2^-k <= |f| < 2^-⌊k/2⌋         tag 1   sign, trunc(|f| 2^w)
    |f| < 2^-k                     tag 0   nothing, decoded as +0

As printed w = 7, which loses everything below 2^-7. The windowed form uses w = ⌊k/2⌋ + 7: the class never reaches
2^-⌊k/2⌋, so the top ⌊k/2⌋ bits of the printed code were always zero; tags and sizes are unchanged.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, overload

import numpy as np

from lightloom.core.arrays import Bytes, Float32s, Ints
from lightloom.core.errors import ConfigError
from lightloom.exchange.compression.codec import Codec, T, float32_target, float32_values, stream_bytes
from lightloom.exchange.compression.kernels import current
from lightloom.exchange.compression.stream import LARGEST_POWER, FramedCodec, Header, as_bits

LARGEST_EXPONENT = 14
"""Below 2^-14 seven bits of window no longer reach down to the bound."""


@dataclass(frozen=True, repr=False)
class _Inceptionn(FramedCodec):
    """Frames and headers common to both forms; ``bound`` is a power of two from 2^-1 to 2^-14."""

    bound: float = 2.0**-10

    family: ClassVar[str]

    def __post_init__(self) -> None:
        """Raise ConfigError unless ``bound`` is a power of two from 2^-1 to 2^-14."""
        mantissa, exponent = math.frexp(self.bound)
        if mantissa != 0.5 or not 1 <= 1 - exponent <= LARGEST_EXPONENT:
            raise ConfigError(f"bound = {self.bound!r}: expected a power of two from 2^-1 to 2^-{LARGEST_EXPONENT}")

    @property
    def exponent(self) -> int:
        """The number k of the bound 2^-k, from 1 to 14."""
        return 1 - math.frexp(self.bound)[1]

    @property
    def parameter(self) -> int:  # type: ignore[override]
        """The number k of the bound 2^-k, as headers hold it."""
        return self.exponent

    @property
    def name(self) -> str:
        """Name of the codec with its bound: ``inceptionn:2^-10``."""
        return f"{self.family}:2^-{self.exponent}"

    @property
    def width(self) -> int:
        """Number w of bits in trunc(abs(f) 2^w), which the 8-bit code of a value f holds behind its sign; such codes
        stand for magnitudes from the bound 2^-k up to 2^-floor(k / 2). Each form of the codec overrides it; here it
        raises NotImplementedError."""
        raise NotImplementedError

    def worst_bytes(self, count: int) -> int:
        """Return the bytes of the largest payload of a frame of ``count`` values, all of which are kept as they are: 2
        of tags for each group of eight, 4 for each value; the frame's header is excluded."""
        return 2 * -(-count // 8) + 4 * count

    def least_bytes(self, count: int) -> int:
        """Return the bytes of the smallest payload of a frame of ``count`` values, all of which are dropped: 2 of tags
        for each group of eight; the frame's header is excluded."""
        return 2 * -(-count // 8)

    def encode_frames(self, values: Float32s, chunk: int, first: int, out: Bytes, leave: bool = False) -> int:
        """Write the frames of ``values`` to ``out``, and return the bytes written.

        Args:
            values: flat float32 values.
            chunk: number of values in each frame, a multiple of 8; the last may have fewer.
            first: number of the first frame in its stream, from 0, with which checksums are seeded.
            out: memory for the largest frames and ``SLACK`` (64) bytes.
            leave: replace ``values``, in place, by their errors (value less decoded value).
        """
        return current().encode_frames(as_bits(values), chunk, first, out, self.exponent, self.width, leave=leave)

    def encode_leaving(self, array: Float32s) -> memoryview:
        """Return the stream of ``array`` (flat, contiguous float32), read-only, and replace the array, in place, by the
        errors of its values (value less decoded value; 0 for magnitudes of 1 or more, infinite values and NaN, which
        are kept whole), in one pass of the kernel; raises InputError for an array that is not float32, contiguous and
        writable in CPU memory."""
        return self._encode(float32_target(array, array.size), 1, partial(self.encode_frames, leave=True))

    def decode_adding(self, buffer: object, out: Float32s) -> None:
        """Add the values of the stream ``buffer`` to ``out`` (flat, contiguous float32), in place, in one pass of the
        kernel; values that were dropped leave the bits in ``out``. Raises CodecError for a stream that is not whole, of
        another codec, or does not fit, when ``out`` may hold part of the sum, and InputError for an ``out`` that is not
        float32, contiguous and writable in CPU memory."""
        self._decode(buffer, out, 1, partial(self.decode_frames, add=True))

    def decode_frames(self, data: Bytes, out: Float32s, chunk: int, first: int, add: bool = False) -> int:
        """Fill ``out`` from the frames in ``data``, and return the bytes read, or ``-(8 frame + reason)`` for a frame
        that is not valid; reason 1: cut short, 2: impossible length, 3: wrong checksum, 4: malformed groups.

        Args:
            data: bytes from the beginning of a frame on; those behind the last frame wanted are not read.
            out: flat float32 values, as many as are to be decoded.
            chunk: number of values in each frame, a multiple of 8; the last may have fewer.
            first: number of the first frame in its stream, from 0, which checksums and the result refer to.
            add: add the values to ``out`` instead.
        """
        return current().decode_frames(data, as_bits(out), chunk, first, self.width, add=add)


class Inceptionn(_Inceptionn):
    """The windowed form, the default: no value is off by ``bound`` or more.

    Args:
        bound: absolute error bound, a power of two from 2^-1 to 2^-14.

    Raises:
        ConfigError: any other bound.
    """

    family = "inceptionn"
    codec_id = 1

    @property
    def width(self) -> int:
        """Number w in the 8-bit code trunc(abs(f) 2^w) of a value f: floor(k / 2) + 7 for the bound 2^-k."""
        return self.exponent // 2 + 7

    @property
    def absolute_error(self) -> float:
        """Bound on the error of a value, in the values' own units: ``bound`` itself, which no error reaches."""
        return self.bound


class InceptionnPrinted(_Inceptionn):
    """Algorithms 2 and 3 as printed; kept for reproduction. **Breaks its bound from 2^-8 on**: errors reach 2^-7.

    Two gaps are closed: ``first1_loc_from_MSB`` counts from one, and an all-zero code, for which it is undefined,
    decodes to +0.

    Args:
        bound: the threshold below which values are dropped, a power of two from 2^-1 to 2^-14.

    Raises:
        ConfigError: any other bound.
    """

    family = "inceptionn-printed"
    codec_id = 2

    @property
    def width(self) -> int:
        """Number w in the 8-bit code trunc(abs(f) 2^w) of a value f: 7 whatever the bound."""
        return 7

    @property
    def absolute_error(self) -> float:
        """Bound on the error of a value, in the values' own units: ``bound``, but at least 2^-7; no error
        reaches it."""
        return max(self.bound, 2.0**-7)


# INCEPTIONN with a bound relative to the values: each message is scaled by a power of two before it is coded.
#
# power = the p for which the root mean square of 2^p values lies in [2^-5.5, 2^-4.5)
# message = INCEPTIONN's stream of 2^p values; p is in its header, in a byte that other codecs leave 0
#
# Values times a power of two give the same bytes but for p, so that no scale of the loss matters. Errors stay below
# 2^-p times the bound: at 2^-10, below about 1/23 to 1/45 of the root mean square.

TARGET = -5
"""Binary logarithm that the scaled root mean square is near: most gradients are then below 1 and above 2^-10."""


@dataclass(frozen=True, repr=False)
class _AtPower(Inceptionn):
    """INCEPTIONN's codec of values that were multiplied by ``2**power``, which its headers state."""

    power: int = 0

    family = "inceptionn-scaled"
    codec_id = 5

    def _header(self, count: int) -> Header:
        """Return the header of a stream of ``count`` values, which states this object's power of two, by which the
        values were multiplied."""
        return Header(self.codec_id, self.parameter, count, self.chunk, self.power)


@dataclass(frozen=True, repr=False)
class InceptionnScaled(Codec):
    """INCEPTIONN of messages scaled by a power of two; scaled down to 2^-126, powers of two do not matter.

    Encoding decoded values again may take another power of two, and change them.

    Args:
        bound: error bound of scaled values, a power of two from 2^-1 to 2^-14.

    Raises:
        ConfigError: any other bound.
    """

    scales_messages = True
    bound: float = 2.0**-10

    def __post_init__(self) -> None:
        """Raise ConfigError unless ``bound`` is a power of two from 2^-1 to 2^-14."""
        Inceptionn(self.bound)  # checks the bound

    @property
    def name(self) -> str:
        """Name of the codec with its bound: ``inceptionn-scaled:2^-10``."""
        return _AtPower(self.bound).name

    @property
    def largest_ratio(self) -> float | None:
        """Largest compression ratio of a long stream, in bytes of float32 values for each byte of the stream: 16, that
        of the unscaled codec, reached where all values are dropped."""
        return Inceptionn(self.bound).largest_ratio

    def encode(self, array: object, *, threads: int = 1) -> memoryview:
        """Return the stream, read-only, of the values of a float32 array, in C order, multiplied by the power of two
        that :func:`power_of` gives for them, which its header states; ``threads`` threads encode. Raises InputError for
        an array that is not float32 in CPU memory."""
        values = float32_values(array)
        power = power_of(values)
        return _AtPower(self.bound, power).encode(_scaled(values, power), threads=threads)

    @overload
    def decode(self, buffer: object, out: None = None, *, threads: int = 1) -> Float32s: ...

    @overload
    def decode(self, buffer: object, out: T, *, threads: int = 1) -> T: ...

    def decode(self, buffer: object, out: object = None, *, threads: int = 1) -> object:
        """Return the values of a stream at their own scale, divided by the power of two that its header states, in
        ``out`` where given (returned as it is), else in a new flat array; ``threads`` threads decode.

        Raises:
            CodecError: the stream is malformed, truncated, corrupted, of another codec or bound, or does not fit
                ``out``, which may then hold part of the values.
            InputError: ``out`` is not a writable contiguous float32 array in CPU memory, or ``buffer`` no contiguous
                bytes.
            ConfigError: fewer than one thread.
        """
        data = stream_bytes(buffer)
        header = Header.parse(data)
        decoded = _AtPower(self.bound, header.power).decode(data, out, threads=threads)
        values = float32_target(decoded, header.count)
        _scaled(values, -header.power, out=values)
        return decoded

    def encode_leaving(self, array: Float32s) -> memoryview:
        """Return the stream of ``array`` (flat, contiguous, writable float32), read-only, and replace the array, in
        place, by the errors of its values (value less decoded value), at their own scale; errors are 0 for values kept
        whole: infinite, NaN, or of magnitude 1 or more when scaled."""
        power = power_of(array)
        _scaled(array, power, out=array)
        stream = _AtPower(self.bound, power).encode_leaving(array)
        _scaled(array, -power, out=array)
        return stream


def _scaled(values: Float32s, power: int, out: Float32s | None = None) -> Float32s:
    """Return ``values`` times ``2**power`` as float32, in ``out`` where given (``values`` itself may be), else in a
    new array; NaN stay NaN, without a warning."""
    with np.errstate(invalid="ignore"):
        return np.multiply(values, np.float32(2.0**power), out=out)


def power_of(values: Float32s) -> int:
    """Return the exponent p, from -126 to 126, for which the values times 2^p have a root mean square in [2^-5.5,
    2^-4.5), the nearest limit where it would lie beyond; 0 where all values are 0 or none are given. Infinite values
    and NaN count as 0.

    Values times 2^k have a power smaller by k, within those limits.

    Args:
        values: flat float32 values.
    """
    if not values.size:
        return 0
    with np.errstate(over="ignore", invalid="ignore"):
        mean_square = float(np.dot(values, values)) / values.size
        if not 2.0**-60 < mean_square < 2.0**60:  # squares in float32 may have vanished or overflowed
            squares = np.square(values[np.isfinite(values)], dtype=np.float64)
            mean_square = float(squares.sum()) / values.size
    if mean_square == 0:
        return 0
    power = TARGET - math.frexp(mean_square)[1] // 2
    return max(-LARGEST_POWER, min(power, LARGEST_POWER))


# The cycles that the paper's compression and decompression engines take, burst by burst.
#
# Source: the INCEPTIONN paper, section VI-A, Figs. 9 and 10. Both engines sit on a 256-bit AXI stream at 100 MHz,
# which carries 25.6 Gbit/s. One burst is eight values, one group of the codec's stream:
#
# burst ─► 8 compression blocks ─► shifter tree ─► alignment unit ─► burst       (Fig. 9)
# burst ─► burst buffer, 512 bits ─► tag decoder ─► 8 decompression blocks ─► burst      (Fig. 10)
#
# Three things the paper leaves open are settled so:
#
# * Eight raw values become 272 bits, but only 256 leave in a cycle. The alignment unit holds 512 bits, and a burst that
# does not fit waits.
# * "Reads the next burst if the left bits are fewer than a burst" never ends with exactly 256 bits left in front of a
# group of 272: a burst is read whenever there is room for it.
# * Even so, 264 bits left in front of a group of 272 leave no room for a burst and no group to decode. The 16 tag bits
# therefore move to a register of their own before the group's payload is complete.

BURST_BITS = 256
CLOCK_HZ = 100e6
BUFFER_BITS = 2 * BURST_BITS


def compression_cycles(group_bits: Iterable[int]) -> tuple[int, int]:
    """Return (cycles until all groups have left, cycles of them in which a group had to wait) of the alignment unit of
    the paper's compression engine, at 100 MHz.

    In each cycle a burst of 256 bits leaves if the unit holds one, and then a group enters if the unit's 512 bits have
    room. What is left at the end takes a cycle for each burst, the last one perhaps not full.

    Args:
        group_bits: size of every group of eight values in bits, tags included, 16 to 272.
    """
    held = cycles = stalls = 0
    for bits in group_bits:
        cycles += 1
        held -= BURST_BITS if held >= BURST_BITS else 0
        while held + bits > BUFFER_BITS:
            cycles, stalls = cycles + 1, stalls + 1
            held -= BURST_BITS
        held += bits
    return cycles + -(-held // BURST_BITS), stalls


def decompression_cycles(group_bits: Iterable[int]) -> tuple[int, int]:
    """Return (cycles until the last group has left, cycles of them in which no burst could enter although more were to
    come) of the burst buffer of the paper's decompression engine, at 100 MHz.

    In each cycle a burst of 256 bits enters if the buffer's 512 bits have room, and then a group leaves if it has come
    whole; its 16 bits of tags may leave the buffer before. No group leaves before the second burst or the end of the
    stream has come.

    Args:
        group_bits: size of every group of eight values in bits, tags included, 16 to 272.
    """
    groups = list(group_bits)
    coming = sum(groups)
    held = cycles = stalls = done = 0
    tag_taken, started = False, False
    while done < len(groups):
        cycles += 1
        if coming:
            if held <= BUFFER_BITS - BURST_BITS:
                entering = min(BURST_BITS, coming)
                held, coming = held + entering, coming - entering
            else:
                stalls += 1
        started = started or held > BURST_BITS or not coming
        if not started:
            continue
        if not tag_taken and held >= 16:
            held, tag_taken = held - 16, True
        if tag_taken and held >= groups[done] - 16:
            held, tag_taken, done = held - (groups[done] - 16), False, done + 1
    return cycles, stalls


def group_bits(codec: Inceptionn | InceptionnPrinted, array: object) -> Ints:
    """Return the size in bits of every group of eight values of a float32 array, in C order, 16 bits of tags included,
    int64 [group]; the last group is padded with values that take none. Nothing is encoded. A value takes 0 bits below
    the codec's bound 2^-k in magnitude, 8 below 2^-floor(k / 2), 16 below 1, else 32. Raises InputError for an array
    that is not float32 in CPU memory."""
    size = float32_values(array).view(np.uint32) & 0x7FFFFFFF
    k = codec.exponent
    thresholds = [(127 - k) << 23, (127 - k // 2) << 23, 127 << 23]
    code_bits = np.array([0, 8, 16, 32])[np.searchsorted(thresholds, size, side="right")]
    total: Ints = 16 + np.pad(code_bits, (0, -size.size % 8)).reshape(-1, 8).sum(axis=1)
    return total
