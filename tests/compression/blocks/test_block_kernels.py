"""C with AVX-512 and AVX2, portable C and NumPy write the same blocks and read them alike."""

from __future__ import annotations

from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lightloom.core.errors import ConfigError
from lightloom.exchange.compression import blocks as kernels
from lightloom.exchange.compression import blocks as portable
from lightloom.exchange.compression.blocks import BlockFormat, Portable
from lightloom.exchange.compression.kernels import NAMES
from tests.compression.blocks.strategies import DEFAULTS, formats, seeds, values
from tests.compression.strategies import SPECIAL, bits

Array = NDArray[np.float32]
REFERENCE = Portable()


def native(name: str) -> kernels.Kernel:
    """The kernel of that name; skips the test where this machine has none."""
    kernel = kernels.load(name)
    if kernel is None:
        pytest.skip(f"kernel {name} was not built here, or this CPU cannot run it")
    return kernel


def one_run(values: Array) -> NDArray[np.int64]:
    """The table of one run of all values."""
    return np.array([[0, values.size, 0]])


def encode(
    kernel: portable.Kernel, fmt: BlockFormat, values: Array, residual: Array | None, wire: NDArray[np.uint8]
) -> None:
    kernel.encode_runs(fmt, values, residual, one_run(values), wire)


def decode(
    kernel: portable.Kernel, fmt: BlockFormat, wire: NDArray[np.uint8], out: Array, factor: float, add: bool
) -> None:
    kernel.decode_runs(fmt, wire, one_run(out), out, factor, add)


def alike(a: Array, b: Array) -> bool:
    """Equal bit patterns, but for those of NaN."""
    known = ~np.isnan(a)
    return np.array_equal(known, ~np.isnan(b)) and np.array_equal(bits(a[known]), bits(b[known]))


@pytest.mark.parametrize("name", [n for n in NAMES if n != "fallback"])
@given(fmt=formats, x=values, seed=seeds, factor=st.sampled_from([1.0, 0.25, 1 / 3]))
def test_same_bytes_values_and_residuals_as_in_numpy(
    name: str, fmt: BlockFormat, x: Array, seed: int, factor: float
) -> None:
    kernel = native(name)
    random = np.random.default_rng(seed)
    residual = (random.standard_normal(x.size) * 10.0 ** random.integers(-40, 30)).astype(np.float32)
    wire, expected = (np.full(fmt.nbytes(x.size), fill, np.uint8) for fill in (0x5A, 0xA5))
    for fed_back in (False, True):
        pairs = []
        for one, out in ((kernel, wire), (REFERENCE, expected)):
            left, rest = x.copy(), residual.copy()
            encode(one, fmt, left, rest if fed_back else None, out)
            pairs.append((left, rest))
        assert np.array_equal(wire, expected)
        assert all(np.array_equal(bits(ours), bits(theirs)) for ours, theirs in zip(*pairs, strict=True))
    for add in (False, True):
        decoded, reference = residual.copy(), residual.copy()
        decode(kernel, fmt, wire, decoded, factor, add)
        decode(REFERENCE, fmt, wire, reference, factor, add)
        assert alike(decoded, reference)


@given(fmt=formats, x=values, seed=seeds, piece=st.integers(1, 2000))
def test_pieces_do_not_matter_and_hold_every_block_once(fmt: BlockFormat, x: Array, seed: int, piece: int) -> None:
    """What comes out beside bytes, too: errors, residuals, and sums."""
    residual = np.random.default_rng(seed).standard_normal(x.size).astype(np.float32)
    results = []
    for length in (piece, 1 << 15):
        wire, left, rest, total = (
            np.zeros((2, fmt.nbytes(x.size)), np.uint8),
            x.copy(),
            residual.copy(),
            residual.copy(),
        )
        with patch.object(portable, "_PIECE", length):
            encode(REFERENCE, fmt, left, None, wire[0])
            encode(REFERENCE, fmt, x.copy(), rest, wire[1])
            decode(REFERENCE, fmt, wire[0], total, 0.25, True)
            pieces = portable._pieces(fmt, one_run(x), wire[0])
            ends = [(first, last, len(blocks)) for first, last, blocks in pieces]
        assert [first for first, _, _ in ends] == [0, *(last for _, last, _ in ends)][: len(ends)]
        assert all(blocks == 1 or blocks * fmt.block <= length for _, _, blocks in ends)
        results.append((wire, left, rest, total))
    (wire, *ours), (other, *theirs) = results
    assert np.array_equal(wire, other)
    assert all(alike(one, other) for one, other in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("name", NAMES)
@given(fmt=formats, counts=st.lists(st.integers(0, 700), max_size=4), seed=seeds, add=st.booleans())
def test_every_kernel_takes_runs_one_by_one(
    name: str, fmt: BlockFormat, counts: list[int], seed: int, add: bool
) -> None:
    kernel, random = native(name), np.random.default_rng(seed)
    begins = np.cumsum([0, *(fmt.nbytes(count) + 1 for count in counts)])
    runs = np.array([(3 + sum(counts[:n]), count, begins[n]) for n, count in enumerate(counts)], np.int64).reshape(
        -1, 3
    )
    x, residual, sums = random.standard_normal((3, sum(counts) + 4)).astype(np.float32)
    for fed_back in (False, True):
        (rest, out, wire), (left, expected, sent) = (
            (residual.copy(), sums.copy(), np.full(begins[-1], 7, np.uint8)) for _ in range(2)
        )
        kernel.encode_runs(fmt, x, rest if fed_back else None, runs, wire)
        kernel.decode_runs(fmt, wire, runs, out, 0.25, add)
        for first, count, at in runs.tolist():
            part, message = slice(first, first + count), sent[at : at + fmt.nbytes(count)]
            encode(kernel, fmt, x[part].copy(), left[part] if fed_back else None, message)
            decode(kernel, fmt, message, expected[part], 0.25, add)
        assert np.array_equal(wire, sent) and np.array_equal(rest, left) and np.array_equal(out, expected)


@pytest.mark.parametrize("name", [n for n in NAMES if n != "fallback"])
@given(fmt=formats, count=st.integers(0, 600), seed=seeds)
def test_any_bytes_decode_as_in_numpy_and_nothing_else_is_touched(
    name: str, fmt: BlockFormat, count: int, seed: int
) -> None:
    kernel, random = native(name), np.random.default_rng(seed)
    wire = random.integers(0, 256, fmt.nbytes(count), dtype=np.uint8)
    room, expected = np.full(count + 32, 7, np.float32), np.zeros(count, np.float32)
    decode(kernel, fmt, wire, room[16 : 16 + count], 1.0, False)
    decode(REFERENCE, fmt, wire, expected, 1.0, False)
    assert alike(room[16 : 16 + count], expected)
    assert (room[:16] == 7).all() and (room[16 + count :] == 7).all()
    buffer = np.full(wire.size + 128, 7, np.uint8)
    encode(kernel, fmt, random.standard_normal(count).astype(np.float32), None, buffer[64 : 64 + wire.size])
    assert (buffer[:64] == 7).all() and (buffer[64 + wire.size :] == 7).all()


@pytest.mark.parametrize("name", [n for n in NAMES if n != "fallback"])
def test_ties_and_edges_round_as_in_numpy(name: str) -> None:
    """Halves of the scale, neighbours of the threshold, and every special bit pattern beside ordinary values."""
    kernel = native(name)
    halves = np.arange(-300, 300, dtype=np.float32) / 2
    near = np.nextafter(np.repeat(np.float32(1.2302517), 32), np.linspace(0, 2, 32, dtype=np.float32))
    special = np.repeat(np.array(SPECIAL, np.uint32).view(np.float32), 64)
    special[1::2] = 1
    x = np.concatenate([halves, near, special, halves * np.float32(2.0**-134), halves * np.float32(2.0**120)])
    for fmt in [*DEFAULTS, *(BlockFormat("linear", width, 64) for width in range(2, 9))]:
        wire, expected = (np.zeros(fmt.nbytes(x.size), np.uint8) for _ in range(2))
        encode(kernel, fmt, x, None, wire)
        encode(REFERENCE, fmt, x, None, expected)
        assert np.array_equal(wire, expected)


@pytest.mark.parametrize("shift", [0, 1, 4], ids=["aligned", "4 bytes off", "16 bytes off"])
@pytest.mark.parametrize("name", ["native-avx512", "native-avx2"])
def test_long_vectors_whose_stores_pass_the_caches_decode_alike(name: str, shift: int) -> None:
    kernel, scalar, random = native(name), native("native-scalar"), np.random.default_rng(3)
    count = (1 << 21) + 77
    for fmt in DEFAULTS[:2]:
        wire = random.integers(0, 126, fmt.nbytes(count), dtype=np.uint8)
        room, expected = np.full(count + 32, 7, np.float32), np.zeros(count, np.float32)
        begin = -room.ctypes.data % 64 // 4 + shift
        decode(kernel, fmt, wire, room[begin : begin + count], 1.0, False)
        decode(scalar, fmt, wire, expected, 1.0, False)
        assert np.array_equal(bits(room[begin : begin + count]), bits(expected))
        assert (room[:begin] == 7).all() and (room[begin + count :] == 7).all()


def test_a_kernel_can_be_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    choose = kernels.current.__wrapped__  # without the memory of the first call
    for name in NAMES:
        kernel = kernels.load(name)
        monkeypatch.setenv("LIGHTLOOM_KERNEL", name)
        assert kernel is None or choose().name == kernel.name == name
    monkeypatch.setenv("LIGHTLOOM_KERNEL", "gpu")
    with pytest.raises(ConfigError, match="LIGHTLOOM_KERNEL=gpu: expected native"):
        choose()


def test_a_kernel_of_no_such_name_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^kernel 'avx': expected one of native-avx512, .*, fallback$"):
        kernels.load("avx")


@pytest.mark.parametrize(
    ("kinds", "best", "runs"),
    [
        (len(kernels.KINDS), 2, NAMES),
        (len(kernels.KINDS), 1, NAMES[1:]),
        (len(kernels.KINDS), 0, NAMES[2:]),
        (len(kernels.KINDS) - 1, 2, ("fallback",)),
        (None, 2, ("fallback",)),
    ],
)
def test_what_was_built_from_these_sources_is_loaded_as_far_as_the_cpu_runs_it(
    kinds: int | None, best: int, runs: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library knows a number of kinds of blocks and the fastest path that the CPU runs; None: nothing was built."""
    library = SimpleNamespace(lightloom_blocks_kinds=lambda: kinds, lightloom_blocks_best_path=lambda: best)
    monkeypatch.setattr(kernels, "shared_object", lambda *_: None if kinds is None else library)
    load = kernels.load.__wrapped__  # without the memory of earlier calls
    assert tuple(name for name in NAMES if load(name) is not None) == runs
