"""The cycles that the paper's compression and decompression engines take, burst by burst.

Source: the INCEPTIONN paper, section VI-A, Figs. 9 and 10. Both engines sit on a 256-bit AXI stream at 100 MHz, which
carries 25.6 Gbit/s. One burst is eight values, one group of the codec's stream:

    burst ─► 8 compression blocks ─► shifter tree ─► alignment unit ─► burst       (Fig. 9)
    burst ─► burst buffer, 512 bits ─► tag decoder ─► 8 decompression blocks ─► burst      (Fig. 10)

Three things the paper leaves open are settled so:

* Eight raw values become 272 bits, but only 256 leave in a cycle. The alignment unit holds 512 bits, and a burst that
  does not fit waits.
* "Reads the next burst if the left bits are fewer than a burst" never ends with exactly 256 bits left in front of a
  group of 272: a burst is read whenever there is room for it.
* Even so, 264 bits left in front of a group of 272 leave no room for a burst and no group to decode. The 16 tag bits
  therefore move to a register of their own before the group's payload is complete.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from lightloom.compression.arrays import float32_values
from lightloom.compression.inceptionn import Inceptionn, InceptionnPrinted
from lightloom.core.arrays import Ints

BURST_BITS = 256
CLOCK_HZ = 100e6
BUFFER_BITS = 2 * BURST_BITS


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
