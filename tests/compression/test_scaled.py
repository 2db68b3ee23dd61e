"""Scaled INCEPTIONN: powers of two do not matter, errors are relative to the message, damage is noticed."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lightloom.core.arrays import Float32s
from lightloom.core.errors import CodecError, ConfigError
from lightloom.exchange.compression.inceptionn import Inceptionn, InceptionnScaled, power_of
from lightloom.exchange.compression.registry import find
from lightloom.exchange.compression.stream import Header, tag_histogram
from tests.compression.strategies import vectors

CODEC = InceptionnScaled()


def gradient(seed: int, size: int, exponent: int = 0) -> Float32s:
    spread = np.random.default_rng(seed).standard_t(3, size).astype(np.float32)
    return spread * np.float32(2.0**exponent)


@given(st.integers(0, 999), st.integers(1, 300), st.integers(-100, 90))
def test_powers_of_two_do_not_matter(seed: int, size: int, exponent: int) -> None:
    values, scaled = gradient(seed, size), gradient(seed, size, exponent)
    assert power_of(scaled) == power_of(values) - exponent
    first, second = CODEC.encode(values), CODEC.encode(scaled)
    assert bytes(first[24:]) == bytes(second[24:])
    assert (CODEC.decode(second) == CODEC.decode(first) * np.float32(2.0**exponent)).all()
    left = scaled.copy()
    assert bytes(CODEC.encode_leaving(left)) == bytes(second)
    assert (CODEC.decode(second) + left == scaled).all()


@given(st.integers(0, 999), st.integers(1, 300), st.integers(1, 14))
def test_errors_are_relative_to_the_root_mean_square(seed: int, size: int, k: int) -> None:
    values = gradient(seed, size)
    size_of_values = float(np.sqrt(np.mean(np.square(values, dtype=np.float64))))
    codec = InceptionnScaled(2.0**-k)
    assert np.abs(codec.round_trip(values) - values).max() < 2.0**-k * 2**5.5 * size_of_values


@given(st.integers(0, 999), st.integers(1, 300), st.integers(-148, 124), st.integers(0, 3))
@example(0, 9, -140, 1)
@example(0, 9, 124, 0)
def test_the_root_mean_square_is_brought_near_a_thirty_second(
    seed: int, size: int, exponent: int, unknown: int
) -> None:
    """Where a power does it that float32 holds with its inverse; what is not finite counts as 0 would."""
    values = gradient(seed, size, exponent)
    values = np.concatenate([values[np.isfinite(values)], np.zeros(unknown, np.float32)])
    power, square = power_of(values), float(np.mean(np.square(values, dtype=np.float64)))
    most = -int(np.finfo(np.float32).minexp)
    if square:
        scaled = square**0.5 * 2.0**power
        assert scaled * (1 + 1e-6) >= 2**-5.5 or power == most
        assert scaled * (1 - 1e-6) < 2**-4.5 or power == -most
    assert abs(power) <= most
    for other in (np.nan, np.inf, -np.inf):
        assert power_of(np.concatenate([values[: len(values) - unknown], np.full(unknown, other, np.float32)])) == power


@given(vectors)
@example(np.array([0x7F800001, 0x3F800000], np.uint32).view(np.float32))
def test_any_values_come_back(values: Float32s) -> None:
    """The example begins with a signalling NaN."""
    decoded = CODEC.round_trip(values)
    assert CODEC.encode_leaving(values.copy()) == CODEC.encode(values)
    assert decoded.shape == values.shape
    infinite = ~np.isfinite(values)
    assert (np.isfinite(decoded) == ~infinite).all()


@given(st.binary(min_size=1, max_size=3), st.integers(0, 10_000))
def test_damage_is_noticed(noise: bytes, place: int) -> None:
    stream = bytearray(CODEC.encode(gradient(5, 200)))
    original = bytes(stream)
    at = place % (len(stream) - len(noise))
    stream[at : at + len(noise)] = bytes(a ^ b for a, b in zip(stream[at:], noise, strict=False))
    if bytes(stream) != original:
        with pytest.raises(CodecError):
            CODEC.decode(bytes(stream))


def test_streams_say_what_they_are() -> None:
    assert find("inceptionn-scaled") == CODEC
    assert CODEC.name == "inceptionn-scaled:2^-10"
    values = gradient(1, 64)
    header = Header.parse(bytes(CODEC.encode(values)))
    assert (header.codec, header.power) == (5, power_of(values))
    assert tag_histogram(CODEC.encode(values)).sum() == 64
    with pytest.raises(CodecError, match="codec 5"):
        Inceptionn().decode(CODEC.encode(values))
    with pytest.raises(CodecError, match="codec 1"):
        CODEC.decode(Inceptionn().encode(values))
    with pytest.raises(CodecError, match="version"):
        Header.parse(Header(1, 10, 8, 8, 3).pack())
    with pytest.raises(ConfigError, match="power of two"):
        InceptionnScaled(0.3)
    assert CODEC.round_trip(np.zeros(5, np.float32)).tolist() == [0.0] * 5
    assert CODEC.round_trip(np.empty(0, np.float32)).size == 0


def test_nothing_and_zeros_are_not_scaled() -> None:
    assert [power_of(np.zeros(size, np.float32)) for size in (0, 1, 8)] == [0, 0, 0]
