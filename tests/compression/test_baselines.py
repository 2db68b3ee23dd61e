"""Truncation and block fixed point keep their own bounds; names lead to codecs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lightloom.core.errors import (
    CodecError,
    ConfigError,
    UnknownNameError,
    UnsupportedError,
)
from lightloom.exchange.compression.inceptionn import Inceptionn, InceptionnPrinted
from lightloom.exchange.compression.registry import codecs, find
from lightloom.exchange.compression.stream import FRAME_HEADER, NumpyCodec
from lightloom.exchange.compression.truncation import BlockFixedPoint, Truncation
from tests.compression.strategies import bits, vectors


@given(st.sampled_from([16, 22, 24]), vectors)
def test_truncation_keeps_the_top_bits(dropped: int, values: NDArray[np.float32]) -> None:
    codec = Truncation(dropped)
    decoded = codec.round_trip(values)
    assert np.array_equal(bits(decoded), bits(values) >> dropped << dropped)
    normal = np.isfinite(values) & (np.abs(values) >= 2.0**-125) & np.isfinite(decoded)
    error = np.abs(decoded[normal].astype(np.float64) - values[normal])
    assert (error <= codec.relative_error * np.abs(values[normal].astype(np.float64))).all()


@pytest.mark.parametrize("dropped", [16, 22, 24])
def test_truncation_reaches_its_bound(dropped: int) -> None:
    """Of values whose lowest bits are all set almost as much is lost as is stated: a share of what is left or more."""
    values = np.arange((1 << dropped) - 1, 1 << 31, 1 << dropped, dtype=np.int64).astype(np.uint32).view(np.float32)
    values = values[np.isfinite(values) & (values >= 2.0**-125)]
    exact, codec = values.astype(np.float64), Truncation(dropped)
    error = (np.abs(codec.round_trip(values) - exact) / exact).max()
    assert 0.99 * codec.relative_error / (1 + codec.relative_error) < error <= codec.relative_error


@given(st.integers(2, 16), vectors)
@example(8, np.array([1, np.nan], np.float32))
@example(8, np.array([np.inf, 0], np.float32))
def test_block_fixed_point_is_off_by_a_step_at_most(width: int, values: NDArray[np.float32]) -> None:
    codec = BlockFixedPoint(width)
    if not np.isfinite(values).all():
        with pytest.raises(UnsupportedError, match="NaN or Inf"):
            codec.encode(values)
        return
    decoded = codec.round_trip(values)
    assert np.array_equal(codec.round_trip(decoded), decoded)
    for begin in range(0, values.size, 32):
        block = values[begin : begin + 32].astype(np.float64)
        step = max(2.0 ** (np.frexp(np.abs(block).max())[1] - width + 1), 2.0**-127)
        assert (np.abs(decoded[begin : begin + 32] - block) <= step).all()


@given(st.binary(max_size=200))
def test_random_blocks_decode_or_are_refused(payload: bytes) -> None:
    for codec in (BlockFixedPoint(5), Truncation(22)):
        data = np.frombuffer(payload, np.uint8)
        values = codec.decode_payload(data, 40)
        assert values is None or (values.size == 40 and len(payload) == codec.worst_bytes(40))


def test_names() -> None:
    assert find("inceptionn") == Inceptionn(2**-10)
    assert find("inceptionn:2^-6") == find("inceptionn:2**-6") == find("inceptionn:0.015625") == Inceptionn(2**-6)
    assert find("inceptionn-printed:2^-8") == InceptionnPrinted(2**-8)
    assert find("truncate:22") == Truncation(22)
    assert find("block-fixed-point:4") == BlockFixedPoint(4)
    assert find("inceptionn:2^-8") != find("inceptionn-printed:2^-8")
    for family in codecs().values():
        codec = family.build(family.read(family.default))
        assert find(codec.name) == codec


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("inception:2^-10", UnknownNameError, "did you mean 'inceptionn'"),
        ("inceptionn:ten", ConfigError, "'ten' cannot be read; write for example inceptionn:2"),
        ("inceptionn:2^-99999", ConfigError, "cannot be read"),
        ("inceptionn:2^-15", ConfigError, "expected a power of two"),
        ("truncate:17", ConfigError, "expected one of 16, 22, 24"),
        ("block-fixed-point:1", ConfigError, "from 2 to 16"),
        ("int4:100", ConfigError, "blocks of 100 values: expected a power of two from 8 to 4096"),
    ],
)
def test_names_that_lead_nowhere(name: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        find(name)


def test_one_codec_refuses_the_stream_of_another() -> None:
    with pytest.raises(CodecError, match="truncate:16 is codec 3 with parameter 16"):
        Truncation(16).decode(Inceptionn().encode(np.zeros(8, np.float32)))


class Silent(NumpyCodec):
    """A codec of zeros, whose payloads have no bytes."""

    codec_id = 99
    name = "silent"

    def worst_bytes(self, count: int) -> int:
        return 0

    def encode_payload(self, values: NDArray[np.float32]) -> NDArray[np.uint8]:
        return np.empty(0, np.uint8)

    def decode_payload(self, payload: NDArray[np.uint8], count: int) -> NDArray[np.float32] | None:
        return np.zeros(count, np.float32) if payload.size == 0 else None


@pytest.mark.parametrize("size", [1, 8, 20])
def test_frames_may_be_headers_alone(size: int) -> None:
    data, out = np.empty(100, np.uint8), np.ones(size, np.float32)
    written = Silent().encode_frames(out, 8, 0, data)
    assert written == FRAME_HEADER * -(-size // 8)
    assert Silent().decode_frames(data[:written], out, 8, 0) == written
    assert not out.any()
    assert Silent().decode_frames(data[: written - 1], out, 8, 0) < 0
