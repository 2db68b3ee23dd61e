"""Blocks on torch tensors: the bytes, values and residuals of the CPU kernels.

Triton's kernels run on a GPU where there is one, and in Triton's interpreter elsewhere (tests/conftest.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lightloom.core.errors import InputError, UnsupportedError
from lightloom.exchange.compression import blocks
from lightloom.exchange.compression.blocks import BlockFormat, fp8_values
from lightloom.exchange.gpu import blocks as gpu_blocks
from lightloom.exchange.gpu import blocks as reference
from lightloom.exchange.gpu.codec import gpu_refusal
from tests.compression.blocks.strategies import formats, gradients, seeds, triton_formats, values
from tests.compression.strategies import bits

Array = NDArray[np.float32]
runs_here = pytest.mark.skipif(gpu_refusal() is not None, reason=str(gpu_refusal()))
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@given(formats, values)
def test_the_torch_reference_has_the_bytes_of_the_cpu(fmt: BlockFormat, x: Array) -> None:
    wire, rest, out = np.zeros(fmt.nbytes(x.size), np.uint8), x[::-1].copy(), np.zeros_like(x)
    residual = torch.from_numpy(rest.copy())
    with np.errstate(over="ignore", invalid="ignore"):
        blocks.encode_feedback(fmt, x, rest, wire)
    sent = reference.encode_leaving(fmt, residual.add_(torch.from_numpy(x)))
    assert sent.numpy().tobytes() == wire.tobytes()
    assert np.array_equal(bits(residual.numpy()), bits(rest))
    blocks.encode(fmt, x, wire)
    blocks.decode(fmt, wire, out)
    assert reference.encode(fmt, torch.from_numpy(x)).numpy().tobytes() == wire.tobytes()
    assert np.array_equal(bits(reference.decode(fmt, torch.from_numpy(wire), x.size).numpy()), bits(out))


def test_all_codes_of_fp8_have_the_values_of_torch() -> None:
    fmt, wire, out = BlockFormat("fp8", 8, 256), np.zeros(258, np.uint8), np.zeros(256, np.float32)
    wire[1], wire[2:] = 0x3F, np.arange(256)  # the scale 0.5
    blocks.decode(fmt, wire, out)
    expected = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).float().numpy() / 2
    assert np.array_equal(out, expected, equal_nan=True) and np.isnan(out).sum() == 2
    assert np.array_equal(np.array(fp8_values(), np.float32), 2 * expected, equal_nan=True)


@given(gradients)
def test_fp8_is_off_by_a_sixteenth_or_by_a_thousandth_of_the_scale(x: Array) -> None:
    """e4m3 has three bits behind the leading one down to 2^-6, and steps of 2^-9 below."""
    fmt = BlockFormat("fp8", 8, 128)
    wire = reference.encode(fmt, torch.from_numpy(x))
    out = reference.decode(fmt, wire, x.size).numpy()
    heads = wire.reshape(-1, fmt.block_bytes)[:, :2].contiguous().view(torch.bfloat16).float().numpy()
    scale = np.repeat(heads[:, 0], fmt.block)[: x.size]
    assert (np.abs(out - x) <= np.maximum(np.abs(x) / 16, scale * 2.0**-10) * 1.0001).all()
    scaled = reference.encode(fmt, torch.from_numpy(x) * 2.0**-9).reshape(-1, fmt.block_bytes)
    assert torch.equal(scaled[:, 2:], wire.reshape(-1, fmt.block_bytes)[:, 2:])
    rest = torch.from_numpy(x.copy())
    assert torch.equal(reference.encode_leaving(fmt, rest), wire)
    assert np.array_equal(rest.numpy(), x - out)


def test_the_reference_decodes_no_message_of_another_size() -> None:
    with pytest.raises(InputError, match="40 values in blocks of 8 take 50"):
        reference.decode(BlockFormat("linear", 8, 8), torch.zeros(49, dtype=torch.uint8), 40)


def test_the_reference_reads_messages_at_odd_bytes() -> None:
    fmt, x = BlockFormat("linear", 3, 8), torch.tensor([0.5, -1.0, 3.0])
    wire = torch.cat([torch.zeros(1, dtype=torch.uint8), reference.encode(fmt, x)])
    assert torch.equal(reference.decode(fmt, wire[1:], 3), torch.tensor([0.0, -1.0, 3.0]))


def test_fp8_blocks_with_values_that_are_not_finite_are_nan() -> None:
    fmt = BlockFormat("fp8", 8, 8)
    x = torch.tensor([1.0] * 7 + [float("inf")] + [448.0] * 8)
    out = reference.decode(fmt, reference.encode(fmt, x), 16)
    assert out[:8].isnan().all() and torch.equal(out[8:], x[8:])


def on_device(array: NDArray[Any]) -> torch.Tensor:
    """A copy on the device."""
    return torch.from_numpy(array.copy()).to(DEVICE)


@runs_here
@settings(max_examples=40)
@given(triton_formats, values, seeds, st.sampled_from([1.0, 1 / 3]))
def test_triton_has_the_bytes_values_and_residuals_of_the_cpu(
    fmt: BlockFormat, x: Array, seed: int, factor: float
) -> None:
    random = np.random.default_rng(seed)
    cuts = np.sort(random.integers(0, x.size + 1, 3))
    counts = np.diff([0, *cuts, x.size])
    sizes = -(-counts // fmt.block) * fmt.block_bytes
    runs = np.column_stack([np.cumsum(counts) - counts, counts, np.cumsum(sizes) - sizes + 5])[random.permutation(4)]
    residual, wire = random.standard_normal(x.size).astype(np.float32), np.full(sizes.sum() + 9, 7, np.uint8)
    where = gpu_blocks.places(fmt, runs).to(DEVICE)
    ours_x, ours_rest, ours_wire = (on_device(array) for array in (x, residual, wire))
    with np.errstate(all="ignore"):  # the interpreter computes with NumPy
        gpu_blocks.encode_runs(fmt, ours_x, ours_rest, where, ours_wire)
        blocks.encode_runs(fmt, x, residual, runs, wire)
        assert ours_wire.cpu().numpy().tobytes() == wire.tobytes()
        assert np.array_equal(bits(ours_rest.cpu().numpy()), bits(residual))
        for add in (False, True):
            gpu_blocks.decode_runs(fmt, ours_wire, where, ours_rest, factor, add)
            blocks.decode_runs(fmt, wire, runs, residual, factor, add)
            assert np.array_equal(ours_rest.cpu().numpy(), residual, equal_nan=True)


@runs_here
def test_triton_refuses_what_it_cannot_take() -> None:
    fmt, left = BlockFormat("linear", 4, 16), on_device(np.linspace(-1, 1, 100, dtype=np.float32))
    where = gpu_blocks.places(fmt, np.array([[0, 100, 0]])).to(DEVICE)
    sent = on_device(np.zeros(fmt.nbytes(100), np.uint8))
    with pytest.raises(InputError, match=r"contiguous tensor of torch\.float32, not torch\.float64"):
        gpu_blocks.encode_runs(fmt, left.double(), None, where, sent)
    with pytest.raises(UnsupportedError, match="fp8 blocks have no Triton kernel"):
        gpu_blocks.encode_runs(BlockFormat("fp8", 8, 16), left, None, where, sent)
