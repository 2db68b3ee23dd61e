"""Sizes of an operator, from the torch function that it stands for: axes by name, elements read."""

from __future__ import annotations

from typing import TypeAlias

from torch import Tensor

from lightloom.workloads.graph import TENSOR_KINDS
from lightloom.workloads.operator_words import experts_dimensions
from lightloom.workloads.torch import naming
from lightloom.workloads.torch.frame import Frame, Origin, distinct_elements, key_of

Sources: TypeAlias = "list[tuple[Tensor, Origin]]"
"""What a function read from outside, and where it came from."""


def elements_read(kind: str, sources: Sources, written: int) -> tuple[int, int]:
    """Return the elements read that all samples share, and those read in all.

    Args:
        written: elements of the rows that an embedding looks up, and thus reads of its table.
    """
    by_storage: dict[int, tuple[Origin, list[Tensor]]] = {}
    for tensor, origin in sources:
        by_storage.setdefault(key_of(tensor), (origin, []))[1].append(tensor)
    shared = total = 0
    for origin, tensors in by_storage.values():
        size = distinct_elements(tensors)
        if kind == "embedding" and origin.parameter is not None:
            total += written
            continue
        total += size
        shared += 0 if origin.sampled else size
    return shared, total


def dimensions(
    frame: Frame, kind: str, sources: Sources, outputs: list[Tensor], batch: int | None
) -> tuple[dict[str, int], tuple[str, ...] | None]:
    """Return the named sizes of an operator, and the names of its output's axes where they have an order.

    Args:
        batch: the batch if the operator depends on the samples.
    """
    output = outputs[0]
    if kind == "attention":
        call = naming.attention_call(frame.arguments, frame.named)
        return naming.attention_dimensions(call.query, call.key, batch), None
    if kind == "linear":
        return naming.linear_dimensions(output.shape, batch, frame.products[-1][1].summed)
    if kind == "experts":
        _, cost, _ = frame.products[-1]
        experts = next((int(t.shape[0]) for t in reversed(cost.operands) if t.dim() == 3), int(output.shape[0]))
        return experts_dimensions(output.shape, batch, experts, cost.summed), None
    axes = _inherited_axes(kind, sources, output)
    sizes, axes = naming.output_dimensions(output.shape, batch, axes)
    if kind == "conv":
        args = next(args for name, _, args in frame.products if name == "convolution")
        sizes |= naming.convolution_dimensions(args[1], bool(args[6]), int(args[8]))
    elif frame.products and kind in TENSOR_KINDS:
        sizes["in_channel"] = frame.products[-1][1].summed
    return sizes, axes


def _inherited_axes(kind: str, sources: Sources, output: Tensor) -> tuple[str, ...] | None:
    """Return the names of the output's axes where its kind or an input of the same rank tells."""
    if kind == "conv":
        return naming.image_axes(output.dim())
    if kind == "embedding":
        return None
    for _, origin in sources:
        if origin.sampled and origin.axes is not None and len(origin.axes) == output.dim():
            return origin.axes
    return naming.image_axes(output.dim()) if kind in ("pool", "batch_norm", "lrn") else None
