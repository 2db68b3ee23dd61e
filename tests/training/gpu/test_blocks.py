"""Blocks on torch tensors: the bytes, values and residuals of the CPU kernels."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from numpy.typing import NDArray

from lightloom.compression import blocks
from lightloom.compression.blocks import BlockFormat
from lightloom.core.errors import InputError
from lightloom.training.gpu import blocks_reference as reference
from tests.compression.blocks.strategies import formats, gradients, values
from tests.compression.strategies import bits

Array = NDArray[np.float32]


@given(formats, values)
def test_the_torch_reference_has_the_bytes_of_the_cpu(fmt: BlockFormat, x: Array) -> None:
    wire, rest, out = np.zeros(fmt.nbytes(x.size), np.uint8), x[::-1].copy(), np.zeros_like(x)
    residual = torch.from_numpy(rest.copy())
    with np.errstate(over="ignore", invalid="ignore"):
        blocks.encode_feedback(fmt, x, rest, wire)
    sent = reference.encode_feedback(fmt, torch.from_numpy(x), residual)
    assert sent.numpy().tobytes() == wire.tobytes()
    assert np.array_equal(bits(residual.numpy()), bits(rest))
    blocks.encode(fmt, x, wire)
    blocks.decode(fmt, wire, out)
    assert reference.encode(fmt, torch.from_numpy(x)).numpy().tobytes() == wire.tobytes()
    assert np.array_equal(bits(reference.decode(fmt, torch.from_numpy(wire), x.size).numpy()), bits(out))


@given(gradients)
def test_fp8_is_off_by_a_sixteenth_or_by_a_thousandth_of_the_scale(x: Array) -> None:
    """e4m3 has three bits behind the leading one down to 2^-6, and steps of 2^-9 below."""
    fmt = BlockFormat("fp8", 8, 128)
    wire = reference.encode(fmt, torch.from_numpy(x))
    out = reference.decode(fmt, wire, x.size).numpy()
    heads = wire.reshape(-1, fmt.block_bytes)[:, :2].contiguous().view(torch.bfloat16).float().numpy()
    scale = np.repeat(heads[:, 0], fmt.block)[: x.size]
    assert (np.abs(out - x) <= np.maximum(np.abs(x) / 16, scale * 2.0**-10) * 1.0001).all()
    rest = torch.from_numpy(x.copy())
    assert torch.equal(reference.encode_leaving(fmt, rest), wire)
    assert np.array_equal(rest.numpy(), x - out)


def test_the_reference_decodes_no_message_of_another_size() -> None:
    with pytest.raises(InputError, match="40 values in blocks of 8 take 50"):
        reference.decode(BlockFormat("linear", 8, 8), torch.zeros(49, dtype=torch.uint8), 40)


def test_fp8_blocks_with_values_that_are_not_finite_are_nan() -> None:
    fmt = BlockFormat("fp8", 8, 8)
    x = torch.tensor([1.0] * 7 + [float("inf")] + [448.0] * 8)
    out = reference.decode(fmt, reference.encode(fmt, x), 16)
    assert out[:8].isnan().all() and torch.equal(out[8:], x[8:])
