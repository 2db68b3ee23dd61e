"""The compiled passes do what plain NumPy and plain integers say, to the bit."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lightloom.core.errors import ConfigError
from lightloom.photonics.averaging.block_quantisation import (
    UNFIT,
    CodeBuffers,
    Rounding,
    averaging_bias,
    mean_codes,
)
from tests.photonics.averaging.reference import average
from tests.photonics.quantisation_reference import BlockQuantisation

LARGEST = float(np.nextafter(np.float32(2.0**127), np.float32(0)))
FLOATS = st.one_of(
    st.floats(-LARGEST, LARGEST, width=32),
    st.floats(-1, 1, width=32),
    st.integers(-149, 126).map(lambda e: 2.0**e),
    st.integers(-149, 126).map(lambda e: -(2.0**e)),
)


@st.composite
def buffers(draw: st.DrawFn) -> tuple[np.ndarray, list[int]]:
    """Values of some parameters, one behind the other."""
    sizes = draw(st.lists(st.integers(0, 40), min_size=1, max_size=4))
    return draw(arrays(np.float32, sum(sizes), elements=FLOATS)), sizes


@settings(max_examples=60)
@given(buffers(), st.integers(2, 32), st.sampled_from([1, 7, 16, 256]))
def test_passes_are_the_reference_parameter_by_parameter(
    buffer: tuple[np.ndarray, list[int]], bits: int, block: int
) -> None:
    values, sizes = buffer
    fast, plain = CodeBuffers.of(sizes, bits, block), BlockQuantisation(bits=bits, block=block)
    scales = fast.scales(values)
    codes, back = np.zeros(values.size, fast.code_type), np.zeros_like(values)
    fast.encode(values, scales, codes)
    fast.decode(codes, scales, back)
    pieces = [values[low:high] for low, high in pairwise(np.cumsum([0, *sizes]))]
    exponents = [plain.exponents(piece) for piece in pieces]
    assert scales.tolist() == [int(e) + 127 for each in exponents for e in each]
    due = [plain.encode(piece, each) for piece, each in zip(pieces, exponents, strict=True)]
    assert codes.tolist() == np.concatenate(due).tolist()
    restored = [plain.decode(code, each) for code, each in zip(due, exponents, strict=True)]
    assert back.tolist() == np.concatenate(restored).astype(np.float32).tolist()


def test_scales_may_be_larger_than_a_servers_own() -> None:
    """Codes on scales agreed with others, up to the largest; small values become zero, or -0 none the less."""
    values = np.array([1e-30, -1e-30, 0.75, -0.75, 2.0**-127], np.float32)
    for bits in (2, 16, 32):
        fast, plain = CodeBuffers.of([5], bits, 2), BlockQuantisation(bits=bits, block=2)
        for scale in range(127, UNFIT):
            scales = np.full(3, scale, np.uint8)
            codes = np.zeros(5, fast.code_type)
            fast.encode(values, scales, codes)
            assert codes.tolist() == plain.encode(values, scales.astype(np.int16) - 127).tolist()


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf, 2.0**127, -3e38])
def test_what_no_code_can_hold_marks_its_block(odd: float) -> None:
    values = np.ones(10, np.float32)
    values[7] = odd
    assert (CodeBuffers.of([10], block=4).scales(values) == UNFIT).tolist() == [False, True, False]


def test_blocks_end_with_their_parameter() -> None:
    assert CodeBuffers.of([5, 0, 4, 1], block=4).edges.tolist() == [0, 4, 5, 9, 10]
    with pytest.raises(ConfigError, match="block"):
        CodeBuffers.of([1], block=0)


@settings(max_examples=60)
@given(st.data(), st.integers(2, 32), st.integers(1, 9), st.sampled_from(["floor", "half-up"]))
def test_means_are_those_of_python_integers(data: st.DataObject, bits: int, servers: int, rounding: Rounding) -> None:
    top = 2**bits - 1
    code = st.one_of(st.integers(0, top), st.sampled_from([0, 1, top // 2, top // 2 + 1, top - 1, top]))
    rows = data.draw(st.lists(st.lists(code, min_size=servers, max_size=servers), min_size=1, max_size=9))
    codes = np.array(rows, CodeBuffers.of([], bits).code_type).T
    found = np.zeros(len(rows), codes.dtype)
    mean_codes(np.ascontiguousarray(codes), rounding, found)
    assert found.tolist() == [average(row, half_up=rounding == "half-up") for row in rows]


@pytest.mark.parametrize("servers", [2, 3, 4, 5, 7, 64, 1000, 1023])
def test_every_residue_of_the_largest_sums(servers: int) -> None:
    """Sums next to a multiple of the servers, where a product with 1/N is nearest to the wrong side, over tiles."""
    for bits, kind in ((16, np.uint16), (32, np.uint32)):
        codes = np.full((servers, 2 * servers + 4096), 2**bits - 1, kind)
        codes[0] -= np.arange(codes.shape[1], dtype=kind) % (2 * servers)
        sums = codes.sum(axis=0, dtype=np.int64)
        found = np.zeros(codes.shape[1], kind)
        for rounding, offset in (("floor", 0), ("half-up", servers // 2)):
            mean_codes(codes, rounding, found)  # type: ignore[arg-type]
            assert (found == (sums + offset) // servers).all()


@pytest.mark.parametrize("servers", range(1, 12))
@pytest.mark.parametrize("rounding", ["floor", "half-up"])
def test_bias_is_the_closed_form(servers: int, rounding: Rounding) -> None:
    """Sums that meet every residue equally often."""
    sums = np.arange(servers * 40)
    codes = np.stack([(sums + k) // servers for k in range(servers)]).astype(np.uint16)
    assert (codes.sum(axis=0) == sums).all()
    found = np.zeros(sums.size, np.uint16)
    mean_codes(codes, rounding, found)
    assert (found - sums / servers).mean() == pytest.approx(averaging_bias(servers, rounding), abs=1e-12)
