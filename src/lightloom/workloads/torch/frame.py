"""The state of a recorder: the origin of each storage, and the torch function in progress."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from lightloom.workloads.graph import TENSOR_KINDS, Operator
from lightloom.workloads.torch.flops import Product


@dataclass(slots=True)
class Origin:
    """Where the content of a storage comes from."""

    storage: torch.UntypedStorage
    """Held so that its address is not given to another tensor."""
    producer: str | None = None
    parameter: nn.Parameter | None = None
    sampled: bool = False
    """Depends on the samples."""
    axes: tuple[str, ...] | None = None
    over_samples: bool = False
    """Statistics over all samples, one for each channel, which do not grow with the batch."""

    @property
    def constant(self) -> bool:
        return self.producer is None and self.parameter is None


@dataclass(slots=True)
class Frame:
    """One torch function while it runs."""

    word: str
    arguments: tuple[Any, ...] = ()
    named: Mapping[str, Any] = field(default_factory=dict)
    """Arguments by name."""
    reads: dict[tuple[Any, ...], Tensor] = field(default_factory=dict)
    """External operands, by storage and view."""
    own: dict[int, Origin] = field(default_factory=dict)
    """Storages that it made."""
    changed: dict[int, Tensor] = field(default_factory=dict)
    """External storages that it wrote in place."""
    last: list[Tensor] = field(default_factory=list)
    """Outputs of its latest call, used when the function itself returns no tensor."""
    calls: list[str] = field(default_factory=list)
    products: list[tuple[str, Product, tuple[Any, ...]]] = field(default_factory=list)
    product_backward: int = 0
    forward: int = 0
    backward: int = 0
    looked_up: int = 0
    """Elements of the rows that it looked up in tables and added up."""
    unknown: list[str] = field(default_factory=list)
    """Calls without a rule that read a parameter matrix."""


@dataclass(slots=True)
class Region:
    """A checkpointed region: operators from ``first`` on, and how far its second forward pass goes."""

    name: str
    first: int
    """Index of its first operator."""
    earlier: frozenset[str]
    """Names of the operators before it."""
    last: int = -1
    """Index of the operator that keeps the last tensor."""
    product_flops: int = 0
    """FLOPs of that operator's products before it keeps it, and of its other arithmetic."""
    other_flops: int = 0

    def note(self, index: int, frame: Frame | None) -> None:
        """Operator number ``index``, which ``frame`` computes, keeps a tensor now."""
        self.last = index
        self.product_flops = sum(cost.flops for _, cost, _ in frame.products) if frame else 0
        self.other_flops = frame.forward if frame else 0

    def repeated(self, index: int, operator: Operator) -> int:
        """Return the forward FLOPs of operator number ``index`` that the second forward pass repeats."""
        if index == self.last:
            return self.product_flops if operator.kind in TENSOR_KINDS else self.other_flops
        return operator.forward_flops if index < self.last else 0


class Origins(dict[int, Origin]):
    """The origin of every storage that has been seen, by identity."""

    def of(self, frame: Frame, tensor: Tensor) -> Origin:
        """Return the origin of a tensor that a function reads; what nothing has made yet is a constant."""
        key = key_of(tensor)
        origin = frame.own.get(key) or self.get(key)
        if origin is None:
            origin = self[key] = Origin(tensor.untyped_storage())
        return origin


def tensors_in(value: object) -> Iterator[Tensor]:
    """Yield every tensor in nested tuples, lists and mappings."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors_in(item)


def key_of(tensor: Tensor) -> int:
    """Return the identity of the storage that a tensor is a view of."""
    return int(tensor.untyped_storage()._cdata)


def distinct_elements(tensors: list[Tensor]) -> int:
    """Return the elements that views cover together, an expanded axis counted once: at most those of each storage."""
    by_storage: dict[int, tuple[int, int]] = {}
    for tensor in tensors:
        capacity = tensor.untyped_storage().nbytes() // tensor.element_size()
        size, _ = by_storage.get(key_of(tensor), (0, 0))
        by_storage[key_of(tensor)] = (size + tensor.numel(), capacity)
    return sum(min(size, capacity) for size, capacity in by_storage.values())
