"""Where the elements of a tensor lie in memory: side by side, or such that some share it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from lightloom.core.errors import UnsupportedError


def flat_view(tensor: Tensor) -> Tensor | None:
    """Return the real values of a tensor as one row over the same memory; None where they do not lie there in order."""
    if not tensor.is_contiguous() or tensor.is_conj() or tensor.is_neg():
        return None
    plain = tensor.detach()
    return (torch.view_as_real(plain) if plain.is_complex() else plain).view(-1)


def flat_copy(tensor: Tensor) -> Tensor:
    """Return the real values of a tensor that has no ``flat_view``, as one row in new memory."""
    row = flat_view(tensor.detach().resolve_conj().resolve_neg().contiguous())
    assert row is not None
    return row


def write_back(row: Tensor, tensor: Tensor) -> None:
    """Put a row of real values, as ``flat_copy`` makes it, into a tensor."""
    shaped = torch.view_as_complex(row.view(*tensor.shape, 2)) if tensor.is_complex() else row.view(tensor.shape)
    tensor.detach().copy_(shaped)


def check_writable(tensor: Tensor, device: str) -> None:
    """Check that a tensor is dense on a type of device and that each of its elements has memory of its own.

    Raises:
        UnsupportedError: it is not.
    """
    if tensor.layout != torch.strided or tensor.device.type != device or hasattr(tensor, "device_mesh"):
        kind = "DTensor" if hasattr(tensor, "device_mesh") else tensor.layout
        raise UnsupportedError(f"a {kind} on {tensor.device}: expected a dense tensor on {device}")
    if not tensor.is_contiguous() and elements_overlap(tensor):
        raise UnsupportedError(
            f"elements of a tensor of shape {tuple(tensor.shape)} and strides {tensor.stride()} share memory, so that "
            "it cannot hold a mean: expected for example tensor.clone()"
        )


def elements_overlap(tensor: Tensor) -> bool:
    """Return whether two elements of a strided tensor share memory."""
    if not tensor.numel():
        return False
    axes = sorted((stride, size) for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1)
    ends = np.cumsum([stride * (size - 1) for stride, size in axes]).tolist()
    if all(stride > end for (stride, _), end in zip(axes, [0, *ends], strict=False)):
        return False  # every axis steps over all that the smaller strides reach
    offsets = np.zeros(1, np.int64)
    for stride, size in axes:
        if stride == 0:
            return True
        offsets = np.add.outer(offsets, stride * np.arange(size)).reshape(-1)
    offsets.sort()
    return any(first == second for first, second in pairwise(offsets.tolist()))
