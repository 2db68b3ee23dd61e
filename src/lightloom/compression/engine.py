"""The paper's compression and decompression engines, burst by burst: their bytes, and the cycles they take.

Source: the INCEPTIONN paper, section VI-A, Figs. 9 and 10. Both engines sit on a 256-bit AXI stream at 100 MHz, which
carries 25.6 Gbit/s. One burst is eight values, one group of the codec's stream:

    burst ─► 8 compression blocks ─► shifter tree ─► alignment unit ─► burst       (Fig. 9)
    burst ─► burst buffer, 512 bits ─► tag decoder ─► 8 decompression blocks ─► burst      (Fig. 10)

The blocks are written here as Algorithms 2 and 3 state them, shift by shift, and share nothing with the kernels.

Three things the paper leaves open are settled so:

* Eight raw values become 272 bits, but only 256 leave in a cycle. The alignment unit holds 512 bits, and a burst that
  does not fit waits.
* "Reads the next burst if the left bits are fewer than a burst" never ends with exactly 256 bits left in front of a
  group of 272: a burst is read whenever there is room for it.
* Even so, 264 bits left in front of a group of 272 leave no room for a burst and no group to decode. The 16 tag bits
  therefore move to a register of their own before the group's payload is complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from lightloom.compression.arrays import float32_values
from lightloom.compression.inceptionn import Inceptionn, InceptionnPrinted
from lightloom.core.arrays import Ints
from lightloom.core.errors import CodecError

BURST_BITS = 256
CLOCK_HZ = 100e6
BUFFER_BITS = 2 * BURST_BITS
_CODE_BYTES = (0, 1, 2, 4)


@dataclass(frozen=True, slots=True)
class EngineRun:
    """What came out, and when the last burst had left."""

    data: bytes
    cycles: int
    stalls: int
    """Cycles in which a burst stood at the input and could not enter."""

    @property
    def seconds(self) -> float:
        """Time at 100 MHz."""
        return self.cycles / CLOCK_HZ


def compress(codec: Inceptionn | InceptionnPrinted, array: object) -> EngineRun:
    """Send values through the compression engine; ``data`` is the payload of one frame of the codec's stream.

    Raises:
        InputError: not float32 or not in CPU memory.
    """
    values = [int(bits) for bits in float32_values(array).view(np.uint32)]
    groups = [
        _group([_compression_block(f, codec.exponent, codec.width) for f in values[i : i + 8]])
        for i in range(0, len(values), 8)
    ]
    cycles, stalls = compression_cycles(8 * len(group) for group in groups)
    return EngineRun(b"".join(groups), cycles, stalls)


def decompress(codec: Inceptionn | InceptionnPrinted, payload: bytes, count: int) -> EngineRun:
    """Send a frame's payload through the decompression engine; ``data`` is ``count`` float32 in little-endian order.

    Raises:
        CodecError: the payload ends early or is too long.
    """
    out, sizes = bytearray(), []
    for tags, codes in _groups(payload, count):
        sizes.append(8 * (2 + sum(len(code) for code in codes)))
        for tag, code in zip(tags, codes, strict=True):
            bits = _decompression_block(tag, int.from_bytes(code, "little"), codec.width)
            out += bits.to_bytes(4, "little")
    cycles, stalls = decompression_cycles(sizes)
    return EngineRun(bytes(out), cycles, stalls)


def compression_cycles(group_bits: Iterable[int]) -> tuple[int, int]:
    """Cycles and stalls of the alignment unit over groups of 16 to 272 bits; a group enters, a burst leaves a cycle."""
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
    """Cycles and stalls of the burst buffer over groups of 16 to 272 bits; a burst enters, a group leaves a cycle."""
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
    """The size in bits of every group of eight, from the values alone; what the cycle counts need."""
    size = float32_values(array).view(np.uint32) & 0x7FFFFFFF
    k = codec.exponent
    thresholds = [(127 - k) << 23, (127 - k // 2) << 23, 127 << 23]
    code_bits = np.array([0, 8, 16, 32])[np.searchsorted(thresholds, size, side="right")]
    padded = np.zeros(-(-size.size // 8) * 8, np.int64)
    padded[: size.size] = code_bits
    total: Ints = 16 + padded.reshape(-1, 8).sum(axis=1)
    return total


def _compression_block(f: int, k: int, width: int) -> tuple[int, int]:
    """Algorithm 2: (tag, v). ``shifted_m`` has 24 bits; the window of the printed form begins at bit 22."""
    s, e, m = f >> 31, (f >> 23) & 0xFF, f & 0x7FFFFF
    error_bound = 127 - k
    if e >= 127:
        return 3, f
    if e < error_bound:
        return 0, 0
    shifted_m = ((1 << 23) | m) >> (127 - e)
    if e >= error_bound + -(-(127 - error_bound) // 2):
        return 2, s << 15 | (shifted_m >> 8) & 0x7FFF
    below = width - 7
    # A window `below` bits lower would lose bits that the shift to the right has dropped; hence the shift by less.
    window = ((1 << 23) | m) << below >> (127 - e)
    return 1, s << 7 | (window >> 16) & 0x7F


def _decompression_block(tag: int, v: int, width: int) -> int:
    """Algorithm 3, with ``first1_loc`` counted from one and an all-zero code decoded to +0."""
    if tag in (0, 3):
        return v
    bits = 7 if tag == 1 else 15
    s, magnitude = v >> bits, v & ((1 << bits) - 1)
    if not magnitude:
        return 0
    n_shift = bits - magnitude.bit_length() + 1
    m = (magnitude << n_shift) & ((1 << bits) - 1)
    e = 127 - n_shift - (width - 7 if tag == 1 else 0)
    return s << 31 | e << 23 | m << (23 - bits)


def _group(coded: list[tuple[int, int]]) -> bytes:
    """The shifter tree: tags in front, the codes in a row behind them."""
    tags = sum(tag << (2 * i) for i, (tag, _) in enumerate(coded))
    return tags.to_bytes(2, "little") + b"".join(v.to_bytes(_CODE_BYTES[tag], "little") for tag, v in coded)


def _groups(payload: bytes, count: int) -> Iterator[tuple[list[int], list[bytes]]]:
    at = 0
    for begin in range(0, count, 8):
        word = int.from_bytes(payload[at : at + 2], "little")
        at += 2
        tags = [word >> (2 * i) & 3 for i in range(min(8, count - begin))]
        codes = []
        for tag in tags:
            codes.append(payload[at : at + _CODE_BYTES[tag]])
            at += _CODE_BYTES[tag]
        if at > len(payload):
            raise CodecError(f"the payload ends early: {len(payload)} bytes for {count} values")
        yield tags, codes
    if at != len(payload):
        raise CodecError(f"{len(payload) - at} bytes follow the last group")
