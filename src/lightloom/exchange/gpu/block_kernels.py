"""Triton kernels of block quantisation: the bytes of :mod:`lightloom.exchange.compression.blocks`. Needs triton.

A program takes ROWS blocks of B values as [ROWS, G, 8]: G groups of eight values, a power of two that is at least
B / 8, each of which becomes a word of ``bits`` bytes. ``places`` has a row for each block: its first value, its number
of values and its first byte. Kernels must be launched with ``enable_fp_fusion=False``: a product that is contracted
with a sum rounds once, not twice. Arguments have no types, as Triton reads annotations itself: pointers, then counts,
then compile-time constants, of which ``layout`` is a :class:`lightloom.exchange.gpu.blocks.Layout`.
"""

from __future__ import annotations

import triton
import triton.language as tl

LINEAR, LLOYD, SIGN = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
INFINITY = tl.constexpr(0x7F800000)
NAN_SCALE = tl.constexpr(0x7FC00000)
ROUNDING = tl.constexpr(12582912.0)
"""1.5 2^23: a float32 added to it is rounded to the nearest integer, ties to even, which ends its bit pattern."""


@triton.jit
def linear_scale(size, bits: tl.constexpr):
    """Return the scales of blocks of linear codes as float32 bit patterns, int32 [ROWS]: the largest magnitude over q =
    2^(bits - 1) - 1, rounded up to a bfloat16; NaN for a block where a value is not finite or scale times q overflows,
    0 where the scale is 2^-128 or less.

    Args:
        size: bit patterns of the values' magnitudes, int32 [ROWS, G, 8].
        bits: bits of a code.
    """
    largest = tl.minimum(tl.max(tl.max(size, 2), 1), INFINITY)
    q = tl.full(largest.shape, (1 << (bits - 1)) - 1, tl.int32).to(tl.float32)
    ratio = tl.div_rn(largest.to(tl.float32, bitcast=True), q)
    rounded = (ratio.to(tl.int32, bitcast=True) + 0xFFFF) & -0x10000
    scale = rounded.to(tl.float32, bitcast=True)
    finite = (largest < INFINITY) & ((scale * q).to(tl.int32, bitcast=True) < INFINITY)
    return tl.where(finite, tl.where(scale > 2.0**-128, rounded, 0), NAN_SCALE)


@triton.jit
def mean_scale(size, layout: tl.constexpr):
    """Return the mean magnitudes of the values of blocks, rounded to the nearest bfloat16 and at most
    ``layout.largest_mean``, as float32 bit patterns, int32 [ROWS]; NaN where the mean is not finite. Each value is
    divided by the size of a block, then the second half of the block is added to the first, and so on, a fixed order
    that every device repeats.

    Args:
        size: bit patterns of the values' magnitudes, int32 [ROWS, G, 8].
        layout: constants of the format; zeros that pad a block count as values.
    """
    total = tl.reshape(size.to(tl.float32, bitcast=True), [layout.rows, layout.block]) * (1.0 / layout.block)
    for step in tl.static_range(layout.halvings):
        total = tl.sum(tl.reshape(total, [layout.rows, 2, layout.block >> (step + 1)]), 1)
    total = tl.reshape(total, [layout.rows])
    finite = total.to(tl.int32, bitcast=True) < INFINITY
    mean = tl.where(finite, total, 0.0).to(tl.int32, bitcast=True)
    rounded = (mean + 0x7FFF + ((mean >> 16) & 1)) & -0x10000
    return tl.where(finite, tl.minimum(rounded, layout.largest_mean), NAN_SCALE)


@triton.jit
def encode_blocks(values, rest, places, wire, blocks, feedback: tl.constexpr, layout: tl.constexpr):
    """Write the bytes of each block to ``wire``: the scale as bfloat16, low byte first (NaN marks a block without a
    finite scale, whose codes are 0), then the codes, first value in the lowest bits; ``layout`` says of which kind
    (linear, signs, or Lloyd-Max of two bits); one program takes ``layout.rows`` blocks.

    Args:
        values: pointer to float32 values; not changed.
        rest: pointer to residuals at the same positions, used only with ``feedback``.
        places: pointer to int64 [block, 3]: first value, number of values, and first byte in ``wire`` of each block.
        wire: pointer to bytes.
        blocks: number of blocks.
        feedback: encode ``values + rest``, and leave the errors in ``rest``, 0 in blocks without a finite scale.
        layout: constants of the format.
    """
    rows: tl.constexpr = layout.rows
    bits: tl.constexpr = layout.bits
    row = tl.program_id(0) * rows + tl.arange(0, rows)
    here = row < blocks
    first = tl.load(places + 3 * row, mask=here, other=0)[:, None, None]
    count = tl.load(places + 3 * row + 1, mask=here, other=0)[:, None, None]
    at = tl.load(places + 3 * row + 2, mask=here, other=0)
    group, lane = tl.arange(0, layout.groups)[None, :, None], tl.arange(0, 8)[None, None, :]
    i = 8 * group + lane
    x = tl.load(values + first + i, mask=i < count, other=0.0)
    if feedback:
        x += tl.load(rest + first + i, mask=i < count, other=0.0)
    size = x.to(tl.int32, bitcast=True) & 0x7FFFFFFF
    if layout.kind == LINEAR:
        scale_bits = linear_scale(size, bits)
    else:
        scale_bits = mean_scale(size, layout)
    tl.store(wire + at, ((scale_bits >> 16) & 255).to(tl.uint8), mask=here)
    tl.store(wire + at + 1, ((scale_bits >> 24) & 255).to(tl.uint8), mask=here)
    valid = (scale_bits < INFINITY)[:, None, None]
    scale = tl.where(scale_bits < INFINITY, scale_bits.to(tl.float32, bitcast=True), 0.0)
    known = tl.where(valid, x, 0.0)
    if layout.kind == LINEAR:
        inverse = tl.where(scale > 0.0, tl.div_rn(scale * 0.0 + 1.0, tl.where(scale > 0.0, scale, 1.0)), 0.0)
        total = known * inverse[:, None, None] + ROUNDING
        code = total.to(tl.int32, bitcast=True) & ((1 << bits) - 1)
        decoded = (total - ROUNDING) * scale[:, None, None]
    else:
        negative = (known < 0.0).to(tl.int32)
        code, level = negative, scale[:, None, None]
        if layout.kind == LLOYD:
            large = tl.abs(known) > (scale * layout.threshold)[:, None, None]
            code = 2 * negative + large.to(tl.int32)
            level = tl.where(large, (scale * layout.outer)[:, None, None], (scale * layout.inner)[:, None, None])
        decoded = (1 - 2 * negative).to(tl.float32) * level
    if feedback:
        tl.store(rest + first + i, tl.where(valid, known - decoded, 0.0), mask=i < count)
    code = tl.where(valid, code, 0)
    word = tl.sum(code.to(tl.int64) << (bits * lane), 2)[:, :, None]
    inside = here[:, None, None] & (lane < bits) & (group < layout.block // 8)
    tl.store(wire + at[:, None, None] + 2 + group * bits + lane, ((word >> (8 * lane)) & 255).to(tl.uint8), mask=inside)


@triton.jit
def decode_blocks(wire, places, out, blocks, factor, add: tl.constexpr, layout: tl.constexpr):
    """Write ``factor`` times the values of each block in ``wire`` to ``out``, or add them there with ``add``; one
    program takes ``layout.rows`` blocks.

    Values of a block whose scale is NaN come out as NaN.

    Args:
        wire: pointer to bytes.
        places: pointer to int64 [block, 3]: first value in ``out``, number of values, and first byte in ``wire`` of
            each block.
        out: pointer to float32 values.
        blocks: number of blocks.
        factor: factor of all values.
        add: whether to add.
        layout: constants of the format.
    """
    rows: tl.constexpr = layout.rows
    bits: tl.constexpr = layout.bits
    row = tl.program_id(0) * rows + tl.arange(0, rows)
    here = row < blocks
    first = tl.load(places + 3 * row, mask=here, other=0)[:, None, None]
    count = tl.load(places + 3 * row + 1, mask=here, other=0)[:, None, None]
    at = tl.load(places + 3 * row + 2, mask=here, other=0)
    group, lane = tl.arange(0, layout.groups)[None, :, None], tl.arange(0, 8)[None, None, :]
    low, high = tl.load(wire + at, mask=here, other=0), tl.load(wire + at + 1, mask=here, other=0)
    scale = ((low.to(tl.int32) << 16) | (high.to(tl.int32) << 24)).to(tl.float32, bitcast=True)[:, None, None]
    inside = here[:, None, None] & (lane < bits) & (group < layout.block // 8)
    data = tl.load(wire + at[:, None, None] + 2 + group * bits + lane, mask=inside, other=0)
    word = tl.sum(data.to(tl.int64) << (8 * lane), 2)[:, :, None]
    code = ((word >> (bits * lane)) & ((1 << bits) - 1)).to(tl.int32)
    if layout.kind == LINEAR:
        decoded = (code - ((code >> (bits - 1)) << bits)).to(tl.float32) * scale
    else:
        level = scale + tl.zeros(code.shape, tl.float32)
        if layout.kind == LLOYD:
            level = tl.where((code & 1) != 0, scale * layout.outer, scale * layout.inner)
        decoded = (1 - 2 * (code >> (bits - 1))).to(tl.float32) * level
    i = 8 * group + lane
    decoded = decoded * factor
    if add:
        decoded += tl.load(out + first + i, mask=i < count, other=0.0)
    tl.store(out + first + i, decoded, mask=i < count)
