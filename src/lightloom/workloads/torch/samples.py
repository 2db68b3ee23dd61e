"""Which axis of example inputs holds the samples, and the same inputs with sequences of another length."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from lightloom.core.errors import WorkloadError
from lightloom.workloads.torch.frame import tensors_in
from lightloom.workloads.torch.stand_ins import meta_copy, to_meta
from lightloom.workloads.torch.values import Values


class _Reached(Exception):
    """A layer that takes the sequence first has been called."""


def sample_axis(module: nn.Module, inputs: Any, name: str, values: Values) -> int:
    """Return the axis of the first example input that holds the samples: 0, or 1 where sequences come first.

    Layers with ``batch_first=False`` read (T, B, C): the size of their second axis is found again in the input.

    Raises:
        WorkloadError: no input with a leading size, or both axes could be the samples.
    """
    first = next(tensors_in([inputs]), None)
    if not isinstance(first, Tensor) or first.dim() == 0 or first.shape[0] == 0:
        raise WorkloadError(f"{name}: the first example input must be a tensor whose leading size is the batch")
    samples = _samples_of_sequence_first(module, inputs, values)
    if samples is None or first.dim() < 2 or first.shape[1] != samples:
        return 0
    if first.shape[0] == samples:
        raise WorkloadError(
            f"{name}: its layers take the sequence first, and samples cannot be told from tokens in an input of "
            f"{' x '.join(map(str, first.shape))}: make the two differ, or return (module, example_inputs, batch_axis) "
            f"with a batch_axis of 0 or 1"
        )
    return 1


def _samples_of_sequence_first(module: nn.Module, inputs: Any, values: Values) -> int | None:
    """Return the second size of what the first layer with ``batch_first=False`` reads; None where none is called."""
    layers = [part for part in module.modules() if getattr(part, "batch_first", None) is False]
    sizes: list[int] = []

    def look(_layer: nn.Module, args: Any, kwargs: Any) -> None:
        tensor = next(tensors_in([list(args), kwargs]), None)
        if tensor is not None and tensor.dim() == 3:
            sizes.append(int(tensor.shape[1]))
            raise _Reached

    handles = [layer.register_forward_pre_hook(look, with_kwargs=True) for layer in layers]
    try:
        # Whatever else the forward pass raises, tracing raises again and explains.
        with contextlib.suppress(Exception), torch.device("meta"), torch.no_grad():
            if layers:
                to_meta(module, values)
                arguments = meta_copy(inputs)
                if isinstance(arguments, Mapping):
                    module(**arguments)
                else:
                    module(*arguments if isinstance(arguments, (tuple, list)) else (arguments,))
    finally:
        for handle in handles:
            handle.remove()
    return sizes[0] if sizes else None


def with_length(inputs: Any, axis: int, length: int, name: str) -> Any:
    """Return example inputs with sequences of ``length`` tokens, without values.

    The first input is tokens (B, T) or features (B, T, C). Axes of its length T change in all inputs: the one of its
    tokens, and the last two of a square mask.

    Args:
        axis: of the samples; the tokens lie along the other one of the first two.

    Raises:
        WorkloadError: the first input has no tokens.
    """
    first = next(tensors_in([inputs]))
    if first.dim() != (3 if first.is_floating_point() else 2):
        shape = " x ".join(map(str, first.shape))
        raise WorkloadError(f"{name}: takes no sequence length: its first example input, {shape}, holds no tokens")
    old = first.shape[1 - axis]

    def resized(value: Any) -> Any:
        if isinstance(value, Tensor):
            shape = list(value.shape)
            if value.dim() > 1 and shape[1 - axis] == old:
                shape[1 - axis] = length
            if value.dim() > 1 and tuple(value.shape[-2:]) == (old, old) and (value.dim() != 2 or value is not first):
                shape[-2:] = [length, length]
            return torch.empty(shape, dtype=value.dtype, device="meta", requires_grad=value.requires_grad)
        if isinstance(value, Mapping):
            return {key: resized(item) for key, item in value.items()}
        if isinstance(value, (tuple, list)):
            return type(value)(resized(item) for item in value)
        return value

    return resized(inputs)
