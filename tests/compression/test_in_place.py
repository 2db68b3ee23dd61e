"""Encoding that leaves the loss behind, decoding that adds, and tags counted without decoding."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lightloom.core.errors import CodecError
from lightloom.exchange.compression import kernels
from lightloom.exchange.compression.codec import Codec
from lightloom.exchange.compression.inceptionn import Inceptionn, InceptionnPrinted
from lightloom.exchange.compression.stream import FRAME_HEADER, HEADER_BYTES, tag_histogram
from lightloom.exchange.compression.truncation import Truncation
from tests.compression.strategies import bits, forms, kernel, patterns, vectors

Form = Inceptionn | InceptionnPrinted


@pytest.mark.parametrize("name", kernels.NAMES)
@given(codec=forms, values=vectors)
def test_loss_and_stream_are_the_values(name: str, codec: Form, values: NDArray[np.float32]) -> None:
    """The same bytes as ever, and stream + loss = values exactly: truncation takes away bits, it does not round."""
    with kernel(name):
        loss = values.copy()
        stream = codec.encode_leaving(loss)
        assert stream == codec.encode(values)
        raw = ~(np.abs(values) < 1)
        coded = ~raw & (values != 0)
        assert np.array_equal(bits(codec.decode(stream)[coded] + loss[coded]), bits(values[coded]))
        assert not bits(loss[raw]).any()
        assert np.all(np.abs(loss) < codec.absolute_error)


@pytest.mark.parametrize("name", kernels.NAMES)
@given(codec=forms, pairs=st.lists(st.tuples(patterns, patterns), max_size=200))
def test_decoding_adds(name: str, codec: Form, pairs: list[tuple[int, int]]) -> None:
    """One addition a value; where nothing was sent, -0 and NaN included, no bit changes."""
    values, before = np.array(pairs, np.uint32).reshape(-1, 2).T.copy().view(np.float32)
    with kernel(name), np.errstate(all="ignore"):
        stream = codec.encode(values)
        out = before.copy()
        codec.decode_adding(stream, out)
        expected = before + codec.decode(stream)
    sent = np.abs(values) >= np.float32(codec.bound)
    sent |= np.isnan(values)
    assert np.array_equal(out[sent], expected[sent], equal_nan=True)
    assert np.array_equal(bits(out[~sent]), bits(before[~sent]))


@pytest.mark.parametrize("name", [n for n in kernels.NAMES if n != "fallback"])
@given(codec=forms, values=vectors)
def test_the_same_loss_as_the_fallback(name: str, codec: Form, values: NDArray[np.float32]) -> None:
    with kernel("fallback"):
        codec.encode_leaving(expected := values.copy())
    with kernel(name):
        codec.encode_leaving(loss := values.copy())
    assert np.array_equal(bits(loss), bits(expected))


@pytest.mark.parametrize("name", kernels.NAMES)
def test_over_several_frames(name: str) -> None:
    values = np.random.default_rng(2).laplace(0, 1e-2, 3 * 65536 + 77).astype(np.float32)
    codec = Inceptionn()
    with kernel(name):
        loss, total = values.copy(), values.copy()
        stream = codec.encode_leaving(loss)
        codec.decode_adding(stream, total)
        assert stream == codec.encode(values)
        assert np.array_equal(loss, values - codec.decode(stream))
        assert np.array_equal(total, values + codec.decode(stream))
        sizes = np.abs(values)[:, None] >= np.array([2.0**-10, 2.0**-5, 1.0])
        expected = np.bincount(sizes.sum(1), minlength=4)
        assert tag_histogram(stream).tolist() == expected.tolist()


@pytest.mark.parametrize("name", kernels.NAMES)
@given(codec=forms, values=vectors)
def test_tags_account_for_every_bit(name: str, codec: Form, values: NDArray[np.float32]) -> None:
    with kernel(name):
        stream = codec.encode(values)
        counts = tag_histogram(stream)
    assert counts.sum() == values.size
    padding = 2 * (-values.size % 8)
    frames = FRAME_HEADER * (values.size > 0)
    assert counts @ [2, 10, 18, 34] + padding == 8 * (len(stream) - HEADER_BYTES - frames)


@pytest.mark.parametrize("name", kernels.NAMES)
def test_forged_tags_are_refused(name: str) -> None:
    """Groups that claim more than the frame holds, a checksum that fits them: an error, not a read outside."""
    with kernel(name):
        kernel_ = kernels.current()
        stream = np.frombuffer(Inceptionn().encode(np.zeros(16, np.float32)), np.uint8).copy()
        payload = stream[HEADER_BYTES + FRAME_HEADER :]
        payload[:] = 255
        checksum = kernel_.xxh64(payload, payload.size) & 0xFFFFFFFF
        stream[HEADER_BYTES + 4 : HEADER_BYTES + 8] = np.frombuffer(struct.pack("<I", checksum), np.uint8)
        with pytest.raises(CodecError, match="malformed"):
            tag_histogram(stream)
        stream[-1] = 0
        with pytest.raises(CodecError, match="checksum"):
            tag_histogram(stream)
        with pytest.raises(CodecError, match="codec 3 has no tags"):
            tag_histogram(Truncation(16).encode(np.zeros(4, np.float32)))
        with pytest.raises(CodecError, match="bytes follow"):
            tag_histogram(bytes(Inceptionn().encode(np.zeros(4, np.float32))) + b"x")


@given(vectors)
def test_codecs_without_such_kernels(values: NDArray[np.float32]) -> None:
    """The way of the base class."""
    codec: Codec = Truncation(16)
    loss, total = values.copy(), np.ones_like(values)
    with np.errstate(all="ignore"):
        stream = codec.encode_leaving(loss)
        codec.decode_adding(stream, total)
        decoded = codec.decode(stream)
        finite = np.isfinite(values)
        assert np.array_equal(loss[finite], (values - decoded)[finite])
        assert not loss[~np.isfinite(values - decoded)].any()
        assert np.array_equal(total, decoded + 1, equal_nan=True)
