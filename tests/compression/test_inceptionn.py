"""The laws of both forms: the error over all values below one, specials, idempotence, sizes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from numpy.typing import NDArray

from lightloom.core.errors import ConfigError
from lightloom.exchange.compression.inceptionn import Inceptionn, InceptionnPrinted
from lightloom.exchange.compression.stream import FRAME_HEADER, HEADER_BYTES
from tests.compression.strategies import bits, forms, vectors

ONE = 0x3F800000
EXPONENTS = range(1, 15)


def worst(codec: Inceptionn | InceptionnPrinted, patterns: NDArray[np.uint32]) -> float:
    """The largest error over these values, in multiples of the bound; exact, as truncation only takes low bits away."""
    values = patterns.view(np.float32)
    return float(np.abs(codec.round_trip(values) - values).max()) / codec.bound


def below_one(step: int) -> Iterator[NDArray[np.uint32]]:
    """Bit patterns of positive float32 below one, every ``step``-th, with all those beside a power of two."""
    edges = [(127 - k) << 23 for k in range(127)]
    yield np.array([e + d for e in edges for d in range(-600, 600) if 0 <= e + d < ONE], np.uint32)
    size = 1 << 20
    for start in range(0, ONE, size * step):
        yield np.arange(start, min(start + size * step, ONE), step, dtype=np.uint32)


@pytest.mark.parametrize("step", [4099, pytest.param(1, marks=pytest.mark.slow)])
def test_windowed_keeps_its_bound_everywhere(step: int) -> None:
    for part in below_one(step):
        for k in EXPONENTS:
            assert worst(Inceptionn(2.0**-k), part) < 1, k


@pytest.mark.parametrize(("k", "multiple"), [(6, 1.0), (8, 2.0), (10, 8.0), (14, 128.0)])
@pytest.mark.parametrize("step", [4099, pytest.param(1, marks=pytest.mark.slow)])
def test_printed_breaks_its_bound_as_proved(k: int, multiple: float, step: int) -> None:
    found = max(worst(InceptionnPrinted(2.0**-k), part) for part in below_one(step))
    assert multiple * (1 - 2e-5) < found < multiple


@pytest.mark.parametrize("k", EXPONENTS)
@pytest.mark.parametrize("form", [Inceptionn, InceptionnPrinted])
def test_errors_come_close_to_the_stated_one_but_stay_below(form: type[Inceptionn], k: int) -> None:
    """Largest just below a power of two, where values are dropped, or end in ones."""
    codec = form(2.0**-k)
    below = np.array([((127 - power) << 23) - 1 for power in range(24)], np.uint32)
    error = worst(codec, below) * codec.bound
    assert (1 - 1e-4) * codec.absolute_error < error < codec.absolute_error


@pytest.mark.parametrize(("k", "windowed", "printed"), [(6, 1 / 16, 0.5), (8, 0.125, 2), (10, 0.25, 8), (14, 1, 128)])
def test_errors_of_the_eight_bit_class(k: int, windowed: float, printed: float) -> None:
    low, high = (127 - k) << 23, (127 - k // 2) << 23
    patterns = np.concatenate([np.arange(low, high, 61, dtype=np.uint32), np.arange(high - 99, high, dtype=np.uint32)])
    assert windowed * 0.99 < worst(Inceptionn(2.0**-k), patterns) < windowed
    patterns = np.concatenate([patterns, np.arange(low, low + (1 << 16), dtype=np.uint32)])
    assert printed * 0.9 < worst(InceptionnPrinted(2.0**-k), patterns) < printed


def test_share_of_printed_codes_that_are_zero() -> None:
    """Over uniform bit patterns of the 8-bit class: a quarter at 2^-8, three fifths at 2^-10, all at 2^-14."""
    for k, share in ((6, 0.0), (8, 0.25), (10, 0.6), (14, 1.0)):
        patterns = np.arange((127 - k) << 23, (127 - k // 2) << 23, 101, dtype=np.uint32)
        decoded = InceptionnPrinted(2.0**-k).round_trip(patterns.view(np.float32))
        assert np.mean(decoded == 0) == pytest.approx(share, abs=0.001)


@given(forms, vectors)
def test_decoded_values_encode_to_themselves(
    codec: Inceptionn | InceptionnPrinted, values: NDArray[np.float32]
) -> None:
    once = codec.round_trip(values)
    assert np.array_equal(bits(codec.round_trip(once)), bits(once))


@given(forms, vectors)
def test_signs_mirror(codec: Inceptionn | InceptionnPrinted, values: NDArray[np.float32]) -> None:
    decoded = codec.round_trip(values)
    zero = decoded == 0
    assert np.array_equal(bits(codec.round_trip(-values))[~zero], bits(-decoded)[~zero])


@given(forms, vectors)
def test_specials(codec: Inceptionn | InceptionnPrinted, values: NDArray[np.float32]) -> None:
    decoded, given_bits = bits(codec.round_trip(values)), bits(values)
    size = given_bits & 0x7FFFFFFF
    raw, dropped = size >= ONE, size < (127 - codec.exponent) << 23
    assert np.array_equal(decoded[raw], given_bits[raw])  # Inf, NaN with its payload, everything from one up
    assert not decoded[dropped].any()  # +0, also of -0 and denormals
    assert not (decoded == 0x80000000).any()
    between = ~(raw | dropped)
    assert (np.abs(decoded.view(np.float32)[between]) <= np.abs(values[between])).all()


@given(forms, vectors)
def test_sizes(codec: Inceptionn | InceptionnPrinted, values: NDArray[np.float32]) -> None:
    frames = 1 if values.size else 0
    groups = -(-values.size // 8)
    size = len(codec.encode(values)) - HEADER_BYTES - FRAME_HEADER * frames
    assert 2 * groups <= size <= 2 * groups + values.nbytes


def test_worst_case_grows_by_a_sixteenth() -> None:
    values = np.full(1 << 18, 2, np.float32)
    frames = 4
    assert len(Inceptionn().encode(values)) == values.nbytes * 1.0625 + HEADER_BYTES + FRAME_HEADER * frames


@pytest.mark.parametrize("bound", [0, 1, 2**-15, 3e-3, -(2**-10), float("nan"), float("inf")])
@pytest.mark.parametrize("form", [Inceptionn, InceptionnPrinted])
def test_other_bounds_are_refused(form: type[Inceptionn], bound: float) -> None:
    with pytest.raises(ConfigError, match=r"expected a power of two from 2\^-1 to 2\^-14"):
        form(bound)
