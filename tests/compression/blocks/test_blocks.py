"""Laws of block quantisation: free of scale, sliceable, within its bounds, NaN where it must be."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lightloom.core.errors import ConfigError, InputError
from lightloom.exchange.compression import blocks
from lightloom.exchange.compression.blocks import LLOYD_LEVELS, LLOYD_THRESHOLD, BlockCodec, BlockFormat, fp8_values
from lightloom.exchange.compression.registry import find
from lightloom.exchange.compression.stream import FRAME_HEADER, HEADER_BYTES
from tests.compression.blocks.strategies import DEFAULTS, formats, gradients, linear, seeds, values
from tests.compression.strategies import bits

Array = NDArray[np.float32]


def message(fmt: BlockFormat, x: Array) -> NDArray[np.uint8]:
    """The message of some values."""
    wire = np.full(fmt.nbytes(x.size), 0xA5, np.uint8)
    blocks.encode(fmt, x, wire)
    return wire


def decoded(fmt: BlockFormat, wire: NDArray[np.uint8], count: int) -> Array:
    """The values of a message."""
    out = np.full(count, 7, np.float32)
    blocks.decode(fmt, wire, out)
    return out


def encode_leaving(fmt: BlockFormat, x: Array, wire: NDArray[np.uint8]) -> None:
    """Write the message of some values, which become their errors."""
    blocks.encode_feedback(fmt, np.full(x.size, -0.0, np.float32), x, wire)


def scales(fmt: BlockFormat, wire: NDArray[np.uint8]) -> Array:
    """The scales of a message."""
    pairs = np.ascontiguousarray(wire.reshape(-1, fmt.block_bytes)[:, :2]).view("<u2").reshape(-1)
    return (pairs.astype(np.uint32) << 16).view(np.float32)


@given(formats, gradients, st.integers(-20, 20))
def test_a_power_of_two_on_all_values_changes_the_scales_alone(fmt: BlockFormat, x: Array, power: int) -> None:
    factor = np.float32(2.0**power)
    wire, scaled = message(fmt, x), message(fmt, x * factor)
    rows, scaled_rows = (w.reshape(-1, fmt.block_bytes)[:, 2:] for w in (wire, scaled))
    assert np.array_equal(rows, scaled_rows)
    assert np.array_equal(scales(fmt, wire) * factor, scales(fmt, scaled))


@given(formats, values, st.data())
def test_slices_of_messages_are_messages_of_slices(fmt: BlockFormat, x: Array, data: st.DataObject) -> None:
    whole = -(-x.size // fmt.block)
    begin = data.draw(st.integers(0, whole))
    end = data.draw(st.integers(begin, whole))
    part = message(fmt, x[begin * fmt.block : end * fmt.block])
    assert np.array_equal(part, message(fmt, x)[begin * fmt.block_bytes : end * fmt.block_bytes])


@given(linear, gradients)
def test_linear_codes_are_off_by_half_a_scale_at_most(fmt: BlockFormat, x: Array) -> None:
    wire = message(fmt, x)
    scale = np.repeat(scales(fmt, wire), fmt.block)[: x.size].astype(np.float64)
    out = decoded(fmt, wire, x.size).astype(np.float64)
    assert (np.abs(x - out) <= scale / 2 * (1 + 2.0**-20)).all()
    assert (np.abs(out) <= fmt.largest_code * scale).all()


@pytest.mark.parametrize("fmt", DEFAULTS, ids=str)
def test_mean_squared_errors_of_gaussians(fmt: BlockFormat) -> None:
    """A twelfth of the scale's square; Lloyd and Max: 0.1175 of the variance with four levels, 1 - 2 / pi with two."""
    x = np.random.default_rng(0).standard_normal(1 << 16).astype(np.float32)
    wire = message(fmt, x)
    error = float(np.mean((x - decoded(fmt, wire, x.size)) ** 2))
    uniform = float(np.mean(scales(fmt, wire) ** 2)) / 12
    assert error == pytest.approx({2: 0.1175, 1: 1 - 2 / math.pi}.get(fmt.bits, uniform), rel=0.05)


def test_lloyd_max_constants_satisfy_their_equations() -> None:
    normal, sigma = NormalDist(), math.sqrt(math.pi / 2)
    inner, outer = (level / sigma for level in LLOYD_LEVELS)
    threshold = LLOYD_THRESHOLD / sigma
    tail = 1 - normal.cdf(threshold)
    assert threshold == pytest.approx((inner + outer) / 2, rel=1e-12)
    assert outer == pytest.approx(normal.pdf(threshold) / tail, rel=1e-12)
    assert inner == pytest.approx((normal.pdf(0) - normal.pdf(threshold)) / (0.5 - tail), rel=1e-12)


@given(formats, values)
def test_a_block_is_nan_where_a_value_is_not_finite_and_finite_elsewhere(fmt: BlockFormat, x: Array) -> None:
    x[np.abs(x) > 3.3e38] *= np.float32(0.5)  # so that scales, which are rounded up, do not overflow
    out = decoded(fmt, message(fmt, x), x.size)
    for begin in range(0, x.size, fmt.block):
        block = slice(begin, begin + fmt.block)
        assert np.isfinite(out[block]).all() if np.isfinite(x[block]).all() else np.isnan(out[block]).all()


@given(formats, values, seeds)
def test_feedback_keeps_what_was_not_sent(fmt: BlockFormat, gradient: Array, seed: int) -> None:
    residual = np.random.default_rng(seed).standard_normal(gradient.size).astype(np.float32) * np.float32(1e-3)
    with np.errstate(over="ignore", invalid="ignore"):
        total = residual + gradient
        wire = message(fmt, total)
        out = decoded(fmt, wire, total.size)
        rest = np.where(np.isnan(out), np.float32(0), total - out)
    before, sent = bits(gradient).copy(), np.zeros_like(wire)
    blocks.encode_feedback(fmt, gradient, residual, sent)
    assert np.array_equal(sent, wire) and np.array_equal(bits(residual), bits(rest))
    assert np.array_equal(bits(gradient), before)
    encode_leaving(fmt, total, sent)
    assert np.array_equal(sent, wire) and np.array_equal(bits(total), bits(rest))


@given(formats, st.lists(st.integers(0, 700), max_size=6), seeds, st.booleans())
def test_runs_are_messages_in_any_order(fmt: BlockFormat, counts: list[int], seed: int, add: bool) -> None:
    random = np.random.default_rng(seed)
    runs = np.zeros((len(counts), 3), np.int64)
    first = at = 3
    for row in random.permutation(len(counts)):
        runs[row] = first, counts[row], at
        first, at = first + counts[row] + int(random.integers(3)), at + fmt.nbytes(counts[row])
    x = random.standard_normal(first + 2).astype(np.float32)
    residual = random.standard_normal(x.size).astype(np.float32)
    wire, fed_back, rest = np.zeros(at + 1, np.uint8), np.zeros(at + 1, np.uint8), residual.copy()
    blocks.encode_runs(fmt, x, None, runs, wire)
    blocks.encode_runs(fmt, x, rest, runs, fed_back)
    out = np.ones(x.size, np.float32)
    blocks.decode_runs(fmt, wire, runs, out, factor=0.25, add=add)
    expected = np.ones(x.size, np.float32)
    for begin, count, byte in runs.tolist():
        part, place = slice(begin, begin + count), slice(byte, byte + fmt.nbytes(count))
        assert np.array_equal(wire[place], message(fmt, x[part]))
        expected[part] = np.float32(0.25) * decoded(fmt, wire[place], count) + np.float32(add)
        sent = np.zeros(fmt.nbytes(count), np.uint8)
        blocks.encode_feedback(fmt, x[part], residual[part], sent)
        assert np.array_equal(fed_back[place], sent)
    assert np.array_equal(out, expected) and np.array_equal(bits(rest), bits(residual))
    assert not wire[:3].any() and wire[-1] == 0


@given(formats, values, seeds)
def test_adding_is_decoding_and_a_sum(fmt: BlockFormat, x: Array, seed: int) -> None:
    before = np.random.default_rng(seed).standard_normal(x.size).astype(np.float32)
    wire = message(fmt, x)
    after = before.copy()
    blocks.decode_adding(fmt, wire, after)
    assert np.array_equal(after, before + decoded(fmt, wire, x.size), equal_nan=True)


def test_sizes_and_types_that_do_not_fit() -> None:
    fmt = BlockFormat("linear", 4, 128)
    x, wire = np.zeros(200, np.float32), np.zeros(132, np.uint8)
    with pytest.raises(InputError, match="200 values in blocks of 128 take 132"):
        blocks.encode(fmt, x, wire[:131])
    with pytest.raises(InputError, match="300 values in blocks of 128 take 198"):
        blocks.decode(fmt, wire, np.zeros(300, np.float32))
    with pytest.raises(InputError, match="must be a flat, contiguous float32 array, not float64"):
        blocks.encode(fmt, x.astype(np.float64), wire)
    with pytest.raises(InputError, match="contiguous float32"):
        blocks.encode(fmt, np.zeros(400, np.float32)[::2], wire)
    with pytest.raises(InputError, match="residual holds 100 values: expected 200"):
        blocks.encode_feedback(fmt, x, x[:100].copy(), wire)
    with pytest.raises(InputError, match="out must be writable"):
        blocks.decode(fmt, wire, np.frombuffer(bytes(800), np.float32))
    for run in ([1, 200, 0], [0, 200, 1], [-1, 8, 0], [0, -8, 0], [0, 8, -1], [2**62, 2**62, 0]):
        with pytest.raises(InputError, match="run 1 of 2"):
            blocks.encode_runs(fmt, x, None, np.array([[0, 8, 0], run]), wire)


def test_tables_of_runs_are_contiguous_rows_of_three_that_stay_within_their_arrays() -> None:
    fmt, x = BlockFormat("linear", 8, 8), np.ones(16, np.float32)
    wire = np.zeros(fmt.nbytes(16), np.uint8)
    good = np.array([[0, 8, 0], [8, 8, fmt.nbytes(8)]])
    tables: tuple[Any, ...] = (
        good.astype(np.int32),
        good[0],
        np.zeros((2, 4), np.int64),
        np.asfortranarray(good),
        good[None],
    )
    for wrong in tables:
        words = "a table of runs must be contiguous int64 of 3 columns"
        with pytest.raises(InputError, match=words):
            blocks.encode_runs(fmt, x, None, wrong, wire)
        with pytest.raises(InputError, match=words):
            blocks.decode_runs(fmt, wire, wrong, x)
    blocks.encode_runs(fmt, x, None, good, wire)
    blocks.encode_runs(fmt, x, None, np.array([[16, 0, len(wire)]]), wire)
    for run in ([9, 8, 0], [0, 8, fmt.nbytes(8) + 1], [-1, 8, 0], [0, -1, 0], [0, 8, -1], [17, 0, 0]):
        with pytest.raises(InputError, match=r"run 1 of 2, .*: it reaches beyond 16 values or"):
            blocks.encode_runs(fmt, x, None, np.array([[0, 8, 0], run]), wire)


def test_every_function_refuses_arrays_of_other_types_and_sizes_and_writes_to_none_that_is_read_only() -> None:
    fmt, runs = BlockFormat("linear", 4, 128), np.array([[0, 8, 0]])
    x, wire = np.zeros(200, np.float32), np.zeros(132, np.uint8)
    # Which of the arrays of each is written to.
    calls: tuple[tuple[Callable[[Any, Any], None], str], ...] = (
        (lambda x, wire: blocks.encode(fmt, x, wire), "wire"),
        (lambda x, wire: encode_leaving(fmt, x, wire), "both"),
        (lambda x, wire: blocks.encode_feedback(fmt, x, np.zeros(200, np.float32), wire), "wire"),
        (lambda x, wire: blocks.decode(fmt, wire, x), "values"),
        (lambda x, wire: blocks.decode_adding(fmt, wire, x), "values"),
        (lambda x, wire: blocks.encode_runs(fmt, x, None, runs, wire), "wire"),
        (lambda x, wire: blocks.decode_runs(fmt, wire, runs, x), "values"),
    )
    fixed_x, fixed_wire = x.copy(), wire.copy()
    fixed_x.flags.writeable = fixed_wire.flags.writeable = False
    for call, written in calls:
        call(x.copy() if written != "wire" else fixed_x, wire.copy() if written != "values" else fixed_wire)
        for array, sent in ((x.astype(np.float64), wire), (x, wire.astype(np.int8)), (x, wire[:65].copy())):
            with pytest.raises(InputError):
                call(array.copy(), sent.copy())
        for array, sent in ((fixed_x, wire),) * (written != "wire") + ((x, fixed_wire),) * (written != "values"):
            with pytest.raises(InputError, match="must be writable"):
                call(array, sent)


@pytest.mark.parametrize(
    ("kind", "bits", "block", "words"),
    [
        ("cubic", 8, 64, "expected one of linear, lloyd, sign, fp8"),
        ("linear", 9, 64, "from 2 to 8"),
        ("linear", 1, 64, "from 2 to 8"),
        ("linear", 4, 0, "a multiple of 8 from 8 to 4096"),
        ("sign", 2, 64, "sign blocks have 1"),
        ("linear", 4, 12, "a multiple of 8 from 8 to 4096"),
        ("linear", 4, 8192, "a multiple of 8 from 8 to 4096"),
        ("lloyd", 2, 96, "a power of two"),
    ],
)
def test_formats_that_are_none(kind: str, bits: int, block: int, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        BlockFormat(kind, bits, block)  # type: ignore[arg-type]


@given(st.sampled_from(["int8", "int4", "int3", "lloyd2:8", "sign:4096"]), values)
def test_frames_hold_the_message_and_errors_are_left_as_blocks_leave_them(name: str, x: Array) -> None:
    codec = find(name)
    assert isinstance(codec, BlockCodec)
    stream = codec.encode(x)
    assert bytes(stream[HEADER_BYTES + FRAME_HEADER :]) == message(codec.format, x).tobytes()
    out = codec.decode(stream)
    assert np.array_equal(bits(out), bits(decoded(codec.format, message(codec.format, x), x.size)))
    left, errors = x.copy(), x.copy()
    assert codec.encode_leaving(left) == stream
    encode_leaving(codec.format, errors, np.zeros(codec.format.nbytes(x.size), np.uint8))
    assert np.array_equal(bits(left), bits(errors))


def test_codes_of_fp8_are_a_sign_and_sizes_of_three_bits_behind_the_leading_one() -> None:
    """From code 16 on steps double every eight codes; 448 is the largest size, and a code of each sign is no number."""
    values = np.array(fp8_values())
    assert np.array_equal(values[128:], -values[:128], equal_nan=True)
    assert np.array_equal(np.flatnonzero(np.isnan(values)), [127, 255])
    steps = np.diff(values[:127])
    assert values[0] == 0 and values[126] == 448 and np.array_equal(steps[:8], np.full(8, 2.0**-9))
    assert np.array_equal(steps[8:16], steps[:8]) and np.array_equal(steps[16:], 2 * steps[8:-8])
