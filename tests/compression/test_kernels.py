"""C with AVX-512 and AVX2, portable C, Numba and the hardware model write the same bytes and read them alike."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lightloom.core.errors import ConfigError
from lightloom.exchange.compression import inceptionn, kernels
from lightloom.exchange.compression.inceptionn import Inceptionn, InceptionnPrinted
from lightloom.exchange.compression.kernels import implementation
from lightloom.exchange.compression.stream import FRAME_HEADER, HEADER_BYTES
from tests.compression import engine_reference
from tests.compression.strategies import bits, forms, gradients, kernel, small_frames, vectors


@pytest.mark.parametrize("name", [n for n in kernels.NAMES if n != "fallback"])
@given(codec=forms, values=vectors)
def test_same_bytes_as_the_fallback(
    name: str, codec: Inceptionn | InceptionnPrinted, values: NDArray[np.float32]
) -> None:
    with kernel("fallback"):
        stream = codec.encode(values)
        decoded = codec.decode(stream)
    with kernel(name):
        assert codec.encode(values) == stream
        assert np.array_equal(bits(codec.decode(stream)), bits(decoded))


@pytest.mark.parametrize("name", [n for n in kernels.NAMES if n != "fallback"])
@given(codec=small_frames, values=gradients)
def test_gradients_in_small_frames_as_in_the_fallback(
    name: str, codec: Inceptionn | InceptionnPrinted, values: NDArray[np.float32]
) -> None:
    with kernel("fallback"):
        codec.encode_leaving(lost := values.copy())
        stream = codec.encode(values)
        codec.decode_adding(stream, total := values[::-1].copy())
        decoded = codec.decode(stream)
    with kernel(name):
        assert codec.encode(values) == stream
        assert codec.encode_leaving(loss := values.copy()) == stream
        assert np.array_equal(bits(loss), bits(lost))
        assert np.array_equal(bits(codec.decode(stream)), bits(decoded))
        codec.decode_adding(stream, out := values[::-1].copy())
    known = ~np.isnan(total)
    assert np.array_equal(np.isnan(out), ~known) and np.array_equal(bits(out[known]), bits(total[known]))


@pytest.mark.parametrize("name", kernels.NAMES)
@pytest.mark.parametrize("scale", [1e-4, 1e-3, 1e-1, 10.0])
def test_same_bytes_over_several_frames(name: str, scale: float) -> None:
    values = np.random.default_rng(1).laplace(0, scale, 3 * 65536 + 77).astype(np.float32)
    codec = Inceptionn()
    with kernel("fallback"):
        expected = codec.encode(values)
        decoded = codec.decode(expected)
    with kernel(name):
        for threads in (1, 2, 3, 9):
            assert codec.encode(values, threads=threads) == expected
            assert np.array_equal(codec.decode(expected, threads=threads), decoded)


@pytest.mark.parametrize("shift", [0, 1, 4], ids=["aligned", "4 bytes off", "16 bytes off"])
@pytest.mark.parametrize("scale", [1e-4, 1e-3, 1e-2], ids=["sparse", "dense", "wide"])
@pytest.mark.parametrize("name", ["native-avx512", "native-avx2"])
def test_long_vectors_whose_stores_pass_the_caches_decode_alike(name: str, scale: float, shift: int) -> None:
    values = np.random.default_rng(2).laplace(0, scale, (1 << 21) + 65536 + 77).astype(np.float32)
    codec = Inceptionn()
    with kernel("native-scalar"):
        stream = codec.encode(values)
        expected = codec.decode(stream)
    with kernel(name):
        assert codec.encode(values) == stream
        room = np.full(values.size + 32, 7, np.float32)
        begin = -room.ctypes.data % 64 // 4 + shift
        codec.decode(stream, out=room[begin : begin + values.size])
    assert np.array_equal(room[begin : begin + values.size], expected)
    assert (room[:begin] == 7).all() and (room[begin + values.size :] == 7).all()


@given(forms, vectors)
def test_the_algorithms_as_stated_give_the_bytes_of_the_codec(
    codec: Inceptionn | InceptionnPrinted, values: NDArray[np.float32]
) -> None:
    payload = bytes(codec.encode(values)[HEADER_BYTES + FRAME_HEADER :])
    assert engine_reference.compress(codec, values) == payload
    assert engine_reference.decompress(codec, payload, values.size) == bits(codec.round_trip(values)).tobytes()
    assert int(inceptionn.group_bits(codec, values).sum()) == 8 * len(payload)


groups = st.lists(st.integers(0, 32).map(lambda n: 16 + 8 * n), max_size=300)


@given(groups)
def test_engine_cycles_are_bounded_by_its_two_buses(sizes: list[int]) -> None:
    wide, narrow = len(sizes), -(-sum(sizes) // inceptionn.BURST_BITS)
    for cycles, _ in (inceptionn.compression_cycles(sizes), inceptionn.decompression_cycles(sizes)):
        assert max(wide, narrow) <= cycles <= wide + narrow + 2
    # A group enters in each cycle without a stall, until two bursts at most are left.
    cycles, stalls = inceptionn.compression_cycles(sizes)
    assert stalls >= 0 and 0 <= cycles - stalls - wide <= 2
    # A burst enters in each cycle without a stall, until none is left.
    cycles, stalls = inceptionn.decompression_cycles(sizes)
    assert stalls >= 0 and cycles - stalls >= narrow


def test_engine_takes_a_burst_a_cycle() -> None:
    """25.6 Gbit/s of float32 while the stream is smaller than the values; 16/17 of it when nothing compresses."""
    assert inceptionn.compression_cycles([16] * 1600) == (1600 + 1, 0)
    assert inceptionn.decompression_cycles([16] * 1600)[0] <= 1600 + 2
    raw = inceptionn.compression_cycles([272] * 1600)[0]
    assert raw == pytest.approx(1600 * 17 / 16, abs=3)
    assert inceptionn.compression_cycles([272] * 1600)[1] == pytest.approx(100, abs=2)
    # Groups of 16 bits leave one a cycle, and sixteen of them came in one: the buffer is full in all others.
    assert inceptionn.decompression_cycles([16] * 1600)[1] == pytest.approx(1600 * 15 / 16, abs=32)
    assert inceptionn.decompression_cycles([272] * 1600)[0] == pytest.approx(1600 * 17 / 16, abs=3)


def test_engine_passes_where_the_printed_buffer_rule_stops() -> None:
    """512 - 248 = 264 bits are left in front of a group of 272: no room for a burst, no whole group."""
    assert inceptionn.decompression_cycles([248, 272, 16])[0] < 10


def test_xxh64_vectors() -> None:
    """From the reference implementation: the empty input, and bytes through every branch agreeing between kernels."""
    data = np.frombuffer(b"Nobody inspects the spammish repetition", np.uint8)
    for name in kernels.NAMES:
        if (one := kernels.load(name)) is None:
            continue
        assert one.xxh64(data[:0], 0) == 0xEF46DB3751D8E999
        assert one.xxh64(np.frombuffer(b"a", np.uint8), 0) == 0xD24EC4F1A98C6E5B
        assert one.xxh64(np.frombuffer(b"abc", np.uint8), 0) == 0x44BC2CF5AD770999
        assert one.xxh64(data, 0) == 0xFBCEA83C8A378BF1


def test_a_kernel_can_be_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIGHTLOOM_KERNEL", "fallback")
    assert implementation() == "fallback"
    monkeypatch.setenv("LIGHTLOOM_KERNEL", "gpu")
    with pytest.raises(ConfigError, match="LIGHTLOOM_KERNEL=gpu: expected native"):
        implementation()


@pytest.mark.parametrize("groups", [1, 2, 15, 16, 17, 31, 32, 33, 500])
def test_a_group_leaves_every_cycle_once_more_than_a_burst_has_come(groups: int) -> None:
    """Groups of 16 bits, of which a burst holds 16: the first leaves with the second burst, or with the only one."""
    assert inceptionn.decompression_cycles([16] * groups)[0] == groups + (1 if groups > 16 else 0)


@pytest.mark.parametrize("groups", [1, 2, 16, 17, 32, 33, 500])
def test_groups_larger_than_a_burst_leave_with_the_burst_that_completes_them(groups: int) -> None:
    """Groups of 272 bits, bursts of 256: one enters in every cycle, and the last one completes the last group."""
    assert inceptionn.decompression_cycles([272] * groups) == (-(-272 * groups // 256), 0)
