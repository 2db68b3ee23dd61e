"""The state of a recorder: the origin of each storage, and the torch function in progress."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from lightloom.models import operator_words
from lightloom.models.graph import TENSOR_KINDS, Operator
from lightloom.models.operator_words import KIND_OF_WORD, experts_dimensions, plain_word

# From a traced call to an operator's word and named dimensions.
#
# Legend: B sample, C channel, K in_channel (summed over), T sequence, H head, D head_dim.

_LABELS = {
    "scaled_dot_product_attention": "attention",
    "getitem": "index",
    "setitem": "assign",
    "local_response_norm": "lrn",
}
_SPATIAL = {1: ("length",), 2: ("height", "width"), 3: ("depth", "height", "width")}


def label(function: object) -> str:
    """Return a readable word for a torch function or ATen call: ``relu_`` and ``__iadd__`` become ``relu`` and
    ``add``."""
    name = plain_word(str(getattr(function, "__name__", None) or function))
    return _LABELS.get(name, name)


def is_dropout(word: str) -> bool:
    """Return whether a call of that label is dropout of any form."""
    return KIND_OF_WORD.get(word) == "dropout"


def is_channel_statistic(word: str, output: Tensor) -> bool:
    """Return whether an ATen call of that label returns statistics of a batch normalisation: [channel]."""
    return KIND_OF_WORD.get(word) == "batch_norm" and output.dim() == 1


def output_dimensions(
    shape: Sequence[int], batch: int | None, axes: Sequence[str] | None
) -> tuple[dict[str, int], tuple[str, ...] | None]:
    """Name the axes of an output.

    Args:
        shape: its sizes.
        batch: the batch if the output depends on the samples.
        axes: names that the operator's input had, kept if they fit.

    Returns:
        Named sizes, and the names in axis order (none when no order is meant, as in flattened tokens).
    """
    names: tuple[str, ...]
    if batch is None:
        names = tuple(f"axis_{i}" for i in range(len(shape)))
        return _named_sizes(names, shape), None
    if axes is not None and len(axes) == len(shape) and shape[axes.index("sample")] == batch:
        return _named_sizes(axes, shape), tuple(axes)
    rank = len(shape)
    if rank == 3 and shape[0] != batch and shape[1] == batch:  # (T, B, C), as recurrent code likes it
        names = ("sequence", "sample", "channel")
        return _named_sizes(names, shape), names
    if batch in shape:
        at = list(shape).index(batch)
        named = {1: ("sample",), 2: ("sample", "channel"), 3: ("sample", "sequence", "channel")}
        neutral = tuple("sample" if axis == at else f"axis_{axis}" for axis in range(rank))
        names = named[rank] if at == 0 and rank in named else neutral
        return _named_sizes(names, shape), names
    return _flattened(shape, batch), None


def _flattened(shape: Sequence[int], batch: int) -> dict[str, int]:
    """Samples merged with another axis, (B·T, C), or gone, as in a mean loss."""
    sizes = {"sample": batch}
    if len(shape) >= 1 and shape[0] and shape[0] % batch == 0:
        sizes |= _named_sizes(
            ("sequence", "channel") if len(shape) == 2 else ("sequence",), (shape[0] // batch, *shape[1:])
        )
        shape = shape[2:] if len(shape) == 2 else shape[1:]
    return sizes | _named_sizes([f"axis_{i}" for i in range(1, len(shape) + 1)], shape)


def _named_sizes(names: Sequence[str], shape: Sequence[int]) -> dict[str, int]:
    """Return the sizes by name; an axis of size zero is left out, since nothing can be split along it."""
    return {name: int(size) for name, size in zip(names, shape, strict=False) if size > 0}


def input_axes(tensor: Tensor) -> tuple[str, ...] | None:
    """Return the axes of an input: images are floats of rank 4 and up, tokens are integers (B, T)."""
    if tensor.is_floating_point():
        return image_axes(tensor.dim()) if tensor.dim() >= 4 else None
    return ("sample", "sequence") if tensor.dim() == 2 else None


def image_axes(rank: int) -> tuple[str, ...] | None:
    """(B, C, ...) as convolution and pooling lay it out; none for an unbatched or exotic rank."""
    spatial = _SPATIAL.get(rank - 2)
    return ("sample", "channel", *spatial) if spatial else None


def linear_dimensions(
    shape: Sequence[int], batch: int | None, summed: int
) -> tuple[dict[str, int], tuple[str, ...] | None]:
    """Name the axes of a linear layer's output, of which the last is the channels; weights number C·K."""
    sizes, axes = output_dimensions(shape, batch, None)
    if "channel" not in sizes:
        sizes.pop(f"axis_{len(shape) - 1}", None)
        sizes["channel"] = int(shape[-1])
        axes = None if axes is None or len(axes) < 2 else (*axes[:-1], "channel")
    return {**sizes, "in_channel": summed}, axes


def convolution_dimensions(w: Tensor, transposed: bool, groups: int) -> dict[str, int]:
    """Return what a convolution adds to the axes of its output; weights number C·K/groups·Πkernel."""
    kernel = {f"kernel_{name}": int(size) for name, size in zip(_SPATIAL[w.dim() - 2], w.shape[2:], strict=True)}
    in_channel = w.shape[0] if transposed else w.shape[1] * groups
    return {"in_channel": int(in_channel), **kernel, "groups": int(groups)}


class AttentionCall(NamedTuple):
    """Tensor arguments of one call of ``scaled_dot_product_attention``."""

    query: Tensor
    key: Tensor
    mask: Tensor | None
    causal: bool


def attention_call(arguments: Sequence[Any], named: Mapping[str, Any]) -> AttentionCall:
    """Return the arguments of ``scaled_dot_product_attention``, given by place or by name."""
    order = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
    given = {**dict(zip(order, arguments, strict=False)), **named}
    return AttentionCall(given["query"], given["key"], given.get("attn_mask"), bool(given.get("is_causal", False)))


def attention_dimensions(q: Tensor, k: Tensor, batch: int | None) -> dict[str, int]:
    """q (B, H, T, D), k (B, key H, key T, D); leading axes other than B count as heads."""
    samples = batch or 1
    heads = max(1, math.prod(q.shape[:-2]) // samples)
    sizes = {"head": heads, "sequence": q.shape[-2], "key_sequence": k.shape[-2], "head_dim": q.shape[-1]}
    if q.dim() > 2 and k.dim() > 2 and k.shape[-3] < q.shape[-3]:
        sizes["key_head"] = k.shape[-3]
    return ({} if batch is None else {"sample": batch}) | {name: int(size) for name, size in sizes.items()}


# FLOPs of one ATen call, from the table of operators: a product's, and those of any other arithmetic.
#
# A product's backward pass does the same again for each of its operands that needs a gradient. Other arithmetic: one
# FLOP for each element of its largest tensor, forward, and once more backward where a gradient flows.


class Product(NamedTuple):
    """A multiply-accumulate call: FLOPs forward, its two operands, and the length of the sums."""

    flops: int
    operands: tuple[Tensor, ...]
    summed: int


_ELEMENTWISE = (torch.Tag.pointwise, torch.Tag.reduction)
_BAGS = ("_embedding_bag", "_embedding_bag_forward_only")


def has_rule(function: Any) -> bool:
    """Return whether one FLOP for each element is what a call does, or the table says what it does."""
    return operator_words.has_rule(function._schema.name) or any(tag in function.tags for tag in _ELEMENTWISE)


def looked_up(name: str, args: Sequence[Any]) -> int:
    """Return the elements of the rows that a bag of embeddings looks up and adds, 0 for other calls."""
    return int(args[1].numel() * args[0].shape[1]) if name in _BAGS else 0


def product(name: str, args: Sequence[Any], operands: Sequence[Tensor], output: Tensor) -> Product | None:
    """Return the cost of a call if it is a matrix product or convolution.

    Args:
        name: of the ATen call.
        args: its positional arguments.
        operands: the tensors among its arguments, in their order.
        output: the first tensor that it returns.
    """
    values = [argument for argument in args if not isinstance(argument, Tensor)]
    cost = operator_words.product(name, [tuple(tensor.shape) for tensor in operands], tuple(output.shape), values)
    return cost and Product(cost.flops, tuple(operands[place] for place in cost.operands), cost.summed)


def elements(tensors: Sequence[Tensor]) -> int:
    """Return the FLOPs of any other arithmetic: the elements of the largest tensor."""
    return max((tensor.numel() for tensor in tensors), default=0)


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
    """Arguments that were passed by name."""
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


# Sizes of an operator, from the torch function that it stands for: axes by name, elements read.

Sources: TypeAlias = "list[tuple[Tensor, Origin]]"
"""Tensors that a function reads from outside, each with its origin."""


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
        call = attention_call(frame.arguments, frame.named)
        return attention_dimensions(call.query, call.key, batch), None
    if kind == "linear":
        return linear_dimensions(output.shape, batch, frame.products[-1][1].summed)
    if kind == "experts":
        _, cost, _ = frame.products[-1]
        experts = next((int(t.shape[0]) for t in reversed(cost.operands) if t.dim() == 3), int(output.shape[0]))
        return experts_dimensions(output.shape, batch, experts, cost.summed), None
    axes = _inherited_axes(kind, sources, output)
    sizes, axes = output_dimensions(output.shape, batch, axes)
    if kind == "conv":
        args = next(args for name, _, args in frame.products if name == "convolution")
        sizes |= convolution_dimensions(args[1], bool(args[6]), int(args[8]))
    elif frame.products and kind in TENSOR_KINDS:
        sizes["in_channel"] = frame.products[-1][1].summed
    return sizes, axes


def _inherited_axes(kind: str, sources: Sources, output: Tensor) -> tuple[str, ...] | None:
    """Return the names of the output's axes where its kind or an input of the same rank tells."""
    if kind == "conv":
        return image_axes(output.dim())
    if kind == "embedding":
        return None
    for _, origin in sources:
        if origin.sampled and origin.axes is not None and len(origin.axes) == output.dim():
            return origin.axes
    return image_axes(output.dim()) if kind in ("pool", "batch_norm", "lrn") else None
