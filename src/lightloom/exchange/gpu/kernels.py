"""Triton kernels of the windowed and printed INCEPTIONN streams: the bytes of the CPU kernels. Needs triton.

Encoding takes two passes: how many bytes each group of eight values becomes, a prefix sum, then every group is written
to its place. Decoding walks each frame once, as only its tag says where a group ends, then reads all groups at once.
A program handles B groups of 8 values. Offsets are 64-bit byte positions in the body, the stream without its header.
Arguments have no types, as Triton reads annotations itself: pointers, then counts, then compile-time constants.
"""

from __future__ import annotations

import triton
import triton.language as tl

FRAME_HEADER = tl.constexpr(8)
B = tl.constexpr(64)
TRUNCATED, BAD_LENGTH = tl.constexpr(1), tl.constexpr(2)
BAD_CHECKSUM, BAD_PAYLOAD = tl.constexpr(3), tl.constexpr(4)
P1, P2 = tl.constexpr(0x9E3779B185EBCA87), tl.constexpr(0xC2B2AE3D27D4EB4F)
P3, P4 = tl.constexpr(0x165667B19E3779F9), tl.constexpr(0x85EBCA77C2B2AE63)
P5, MINUS_P1 = tl.constexpr(0x27D4EB2F165667C5), tl.constexpr(0x61C8864E7A143579)


@triton.jit
def load_groups(values, count):
    """Return the 32-bit patterns of the values of this program's 64 groups of eight, int32 [64, 8]; 0 behind the last
    value.

    Args:
        values: pointer to float32 bit patterns.
        count: number of values.
    """
    at = (tl.program_id(0).to(tl.int64) * B + tl.arange(0, B))[:, None] * 8 + tl.arange(0, 8)[None, :]
    return tl.load(values + at, mask=at < count, other=0)


@triton.jit
def tags_of(bits, bound: tl.constexpr):
    """Return the tag of each value, 0 to 3, in the shape of ``bits``: how many of the three thresholds 2^-k, 2^-floor(k
    / 2) and 1 of INCEPTIONN its magnitude reaches (NaN all three), compared as integers.

    Args:
        bits: float32 bit patterns, int32.
        bound: k of the bound 2^-k.
    """
    size = bits & 0x7FFFFFFF
    coded = (size >= ((127 - bound) << 23)).to(tl.int32)
    wide = (size >= ((127 - bound // 2) << 23)).to(tl.int32)
    return coded + wide + (size >= (127 << 23)).to(tl.int32)


@triton.jit
def bytes_of(tags):
    """Return the number of bytes of the code of each tag: 0, 1, 2 or 4 for the tags 0 to 3."""
    return tags + (tags == 3).to(tl.int32)


@triton.jit
def measure_groups(values, count, sizes, bound: tl.constexpr):
    """Store the number of bytes of each group of eight values, its two tag bytes included, in ``sizes`` [group]; one
    program takes 64 groups.

    Args:
        values: pointer to float32 bit patterns.
        count: number of values.
        sizes: pointer to int32.
        bound: k of the bound 2^-k.
    """
    lengths = bytes_of(tags_of(load_groups(values, count), bound))
    group = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    tl.store(sizes + group, tl.sum(lengths, 1) + 2, mask=group < (count + 7) // 8)


@triton.jit
def write_groups(values, count, ends, out, frame_groups, bound: tl.constexpr, width: tl.constexpr):
    """Write tags (two bytes, two bits a value, the first value's lowest) and codes (none, 8 bits, 16 bits of sign and
    trunc(abs(f) 2^15), or the float32 itself, lowest byte first) of each group of eight values to their place in
    ``out``, leaving room for a header of 8 bytes before each frame; one program takes 64 groups.

    Args:
        values: pointer to float32 bit patterns.
        count: number of values.
        ends: pointer to int64 [group]: running sum of the groups' bytes, each group's own included, without headers.
        out: pointer to the bytes of all frames.
        frame_groups: number of groups in a frame.
        bound: k of the bound 2^-k.
        width: w of an 8-bit code, sign and trunc(abs(f) 2^w) of a value f: floor(k / 2) + 7, or 7 in printed streams.
    """
    bits = load_groups(values, count)
    tags = tags_of(bits, bound)
    lengths = bytes_of(tags)
    group = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    here = group < (count + 7) // 8
    start = (
        tl.load(ends + group, mask=here, other=0) - tl.sum(lengths, 1) - 2 + FRAME_HEADER * (group // frame_groups + 1)
    )
    word = tl.sum(tags << (2 * tl.arange(0, 8))[None, :], 1)
    tl.store(out + start, (word & 255).to(tl.uint8), mask=here)
    tl.store(out + start + 1, (word >> 8).to(tl.uint8), mask=here)
    size = bits & 0x7FFFFFFF
    mantissa, exponent = (size & 0x7FFFFF) | 0x800000, size >> 23
    places = tl.where(tags == 2, 135 - exponent, 150 - width - exponent)
    sign = (bits < 0).to(tl.int32) << tl.where(tags == 2, 15, 7)
    code = tl.where(tags == 3, bits, sign | (mantissa >> tl.minimum(tl.maximum(places, 0), 31)))
    at = start[:, None] + 2 + tl.cumsum(lengths, 1) - lengths
    for byte in tl.static_range(4):
        tl.store(out + at + byte, ((code >> (8 * byte)) & 255).to(tl.uint8), mask=here[:, None] & (byte < lengths))


@triton.jit
def seal_frames(out, starts, ends):
    """Write the header of each frame, 4 bytes of the length of its payload and 4 of the payload's checksum, lowest byte
    first; the payload must be there already; one program takes one frame.

    Args:
        out: pointer to the bytes of all frames.
        starts, ends: pointers to int64 [frame]: byte positions where each frame begins and ends.
    """
    frame = tl.program_id(0)
    start, end = tl.load(starts + frame), tl.load(ends + frame)
    length = end - start - FRAME_HEADER
    checksum = frame_checksum(out + start + FRAME_HEADER, length, frame)
    byte = tl.arange(0, 8)
    head = length.to(tl.uint64) | (checksum << 32)
    tl.store(out + start + byte, ((head >> (8 * byte).to(tl.uint64)) & 255).to(tl.uint8))


@triton.jit
def find_frames(data, nbytes, count, chunk, frames, starts, status):
    """Follow the lengths of all frames, in a single program, to find where each begins.

    Args:
        data: pointer to the bytes of all frames.
        nbytes: number of these bytes.
        count: number of values.
        chunk: number of values in a frame; the last may have fewer.
        frames: number of frames.
        starts: pointer to int64 [frames + 1], which receives the byte position of each frame and, last, that of the
            end.
        status: pointer to int32 [frame], which receives 0, or the first fault up to that frame: 1 cut short, 2
            impossible length (fewer than 2 bytes a group, or more than these and 4 bytes a value). Frames behind the
            first faulty one have its fault, and its position.
    """
    at = tl.zeros((), tl.int64)
    broken = tl.zeros((), tl.int32)
    for frame in range(frames):
        tl.store(starts + frame, at)
        n = tl.minimum(count - frame * chunk, chunk)
        groups = (n + 7) // 8
        room = nbytes - at - FRAME_HEADER
        length = tl.full((), 0, tl.int64)
        if room >= 0:
            length = little_endian(data + at, 4).to(tl.int64)
        bad = (length < 2 * groups) | (length > 2 * groups + 4 * n)
        reason = tl.where(room < 0, TRUNCATED, tl.where(bad, BAD_LENGTH, tl.where(length > room, TRUNCATED, 0)))
        broken = tl.where(broken != 0, broken, reason)
        tl.store(status + frame, broken)
        at = tl.where(broken != 0, at, at + FRAME_HEADER + length)
    tl.store(starts + frames, at)


@triton.jit
def walk_frames(data, count, chunk, starts, places, status):
    """Check each frame's checksum and tags, and store where its groups begin; one program takes one frame, and skips
    one that is faulty already.

    Args:
        data: pointer to the bytes of all frames.
        count: number of values.
        chunk: number of values in a frame; the last may have fewer.
        starts: pointer to int64 [frames + 1]: byte positions of the frames and of the end.
        places: pointer to int64 [group], which receives byte positions.
        status: pointer to int32 [frame]: 0 or the code of a fault; where it is 0, it is overwritten with what this
            check finds: 0, 3 wrong checksum, 4 malformed groups (codes do not end with the frame, or the last group has
            tags for values that are not there).
    """
    frame = tl.program_id(0).to(tl.int64)
    at, end = tl.load(starts + frame) + FRAME_HEADER, tl.load(starts + frame + 1)
    if tl.load(status + frame) == 0:
        n = tl.minimum(count - frame * chunk, chunk)
        groups = (n + 7) // 8
        stored = little_endian(data + at - 4, 4)
        wrong = stored != (frame_checksum(data + at, end - at, frame) & 0xFFFFFFFF)
        tags = tl.zeros((), tl.int32)
        for group in range(groups):
            tl.store(places + frame * (chunk // 8) + group, at)
            tags = tl.load(data + at, mask=at < end, other=0).to(tl.int32)
            tags |= tl.load(data + at + 1, mask=at + 1 < end, other=0).to(tl.int32) << 8
            at += 2 + code_bytes(tags)
        unused = tags >> (2 * (n - (groups - 1) * 8)).to(tl.int32)
        reason = tl.where(wrong, BAD_CHECKSUM, tl.where((at != end) | (unused != 0), BAD_PAYLOAD, 0))
        tl.store(status + frame, reason.to(tl.int32))


@triton.jit
def code_bytes(tags):
    """Return the bytes of a group's codes from its 16 bits of tags: the sum of 0, 1, 2 or 4 over the pairs of bits."""
    raw = tags & (tags >> 1) & 0x5555
    fours = (tags & 0x3333) + ((tags >> 2) & 0x3333) + (raw & 0x1111) + ((raw >> 2) & 0x1111)
    eights = (fours & 0x0F0F) + ((fours >> 4) & 0x0F0F)
    return (eights & 255) + (eights >> 8)


@triton.jit
def read_groups(data, nbytes, places, out, count, width: tl.constexpr):
    """Decode every group of eight values and store them as float32 bit patterns; one program takes 64 groups.

    Args:
        data: pointer to the bytes of all frames.
        nbytes: number of these bytes; beyond them zeros are read.
        places: pointer to int64 [group]: byte position of each group.
        out: pointer to int32.
        count: number of values.
        width: w of an 8-bit code, sign and trunc(abs(f) 2^w) of a value f: floor(k / 2) + 7, or 7 in printed streams.
    """
    group = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    start = tl.load(places + group, mask=group < (count + 7) // 8, other=0)
    word = tl.load(data + start, mask=start < nbytes, other=0).to(tl.int32)
    word |= tl.load(data + start + 1, mask=start + 1 < nbytes, other=0).to(tl.int32) << 8
    tags = (word[:, None] >> (2 * tl.arange(0, 8))[None, :]) & 3
    lengths = bytes_of(tags)
    at = start[:, None] + 2 + tl.cumsum(lengths, 1) - lengths
    code = tl.zeros((B, 8), tl.int32)
    for byte in tl.static_range(4):
        inside = (byte < lengths) & (at + byte < nbytes)
        code |= tl.load(data + at + byte, mask=inside, other=0).to(tl.int32) << (8 * byte)
    top = tl.where(tags == 2, 15, 7)
    size = code & ((1 << top) - 1)
    whole = tl.where(((code >> top) & 1) == 1, -size, size).to(tl.float32)
    value = whole * tl.where(tags == 2, 1.0 / (1 << 15), 1.0 / (1 << width))
    bits = tl.where(tags == 3, code, value.to(tl.int32, bitcast=True))
    to = group[:, None] * 8 + tl.arange(0, 8)[None, :]
    tl.store(out + to, bits, mask=to < count)


@triton.jit
def little_endian(data, n: tl.constexpr):
    """Return the ``n`` bytes (8 at most) from the pointer ``data`` on as an unsigned 64-bit number, the lowest byte
    first."""
    byte = tl.arange(0, n)
    return tl.sum(tl.load(data + byte).to(tl.uint64) << (8 * byte).to(tl.uint64), 0)


@triton.jit
def frame_checksum(data, n, frame):
    """Return the XXH64, 64 bits, of the ``n`` bytes of a frame's payload from the pointer ``data`` on, seeded with the
    frame's number, from 0, times 2^32 plus that length (Collet's specification, version 0.1.1); the lower half of it is
    the frame's checksum."""
    seed = (frame.to(tl.uint64) << 32) | n.to(tl.uint64)
    lane = tl.arange(0, 4)
    h = seed + P5
    if n >= 32:
        nothing = tl.zeros((4,), tl.uint64)
        sums = seed + tl.where(lane == 0, nothing + P1, tl.where(lane == 3, nothing + MINUS_P1, nothing))
        sums += tl.where(lane <= 1, nothing + P2, nothing)
        at, byte = (8 * lane)[:, None] + tl.arange(0, 8)[None, :], (8 * tl.arange(0, 8)).to(tl.uint64)[None, :]
        for stripe in range(n // 32):
            words = tl.sum(tl.load(data + 32 * stripe + at).to(tl.uint64) << byte, 1)
            sums = xxh_round(sums, words)
        turns = tl.where(lane == 0, 1, tl.where(lane == 1, 7, tl.where(lane == 2, 12, 18))).to(tl.uint64)
        h = tl.sum(rotate(sums, turns), 0)
        for i in tl.static_range(4):
            lone = tl.sum(tl.where(lane == i, sums, nothing), 0)
            h = (h ^ xxh_round(tl.zeros((), tl.uint64), lone)) * P1 + P4
    h += n.to(tl.uint64)
    at = n // 32 * 32
    for word in range((n % 32) // 8):
        h = rotate(h ^ xxh_round(tl.zeros((), tl.uint64), little_endian(data + at + 8 * word, 8)), 27) * P1 + P4
    at = n // 8 * 8
    if n % 8 >= 4:
        h = rotate(h ^ (little_endian(data + at, 4) * P1), 23) * P2 + P3
        at += 4
    for rest in range(n % 4):
        h = rotate(h ^ (tl.load(data + at + rest).to(tl.uint64) * P5), 11) * P1
    h = (h ^ (h >> 33)) * P2
    h = (h ^ (h >> 29)) * P3
    return h ^ (h >> 32)


@triton.jit
def rotate(x, turns):
    """Return the 64 bits of ``x``, a number or a block of them, rotated to the left by ``turns`` places."""
    return (x << turns) | (x >> (64 - turns))


@triton.jit
def xxh_round(total, word):
    """Return the accumulator ``total`` of XXH64 after one more 64-bit word."""
    return rotate(total + word * P2, 31) * P1
