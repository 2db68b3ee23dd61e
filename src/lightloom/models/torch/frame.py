"""The state of a recorder: the origin of each storage, and the torch function in progress."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from lightloom.models.graph import TENSOR_KINDS, Operator
from lightloom.models.operator_words import (
    Product,
    attention_sizes,
    convolution_sizes,
    experts_dimensions,
    flattened_sizes,
    plain_word,
)

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
    """Return a readable word for a torch function or ATen call: ``relu_`` and ``__iadd__`` become ``relu`` and ``add``,
    scaled dot-product attention ``attention``, local response norm ``lrn``, and indexing ``index`` or ``assign``."""
    name = plain_word(str(getattr(function, "__name__", None) or function))
    return _LABELS.get(name, name)


def output_dimensions(
    shape: Sequence[int], batch: int | None, axes: Sequence[str] | None
) -> tuple[dict[str, int], tuple[str, ...] | None]:
    """Name the axes of an output, the samples found by their number where no names fit: (sample), (sample, channel),
    (sample, sequence, channel), (sequence, sample, channel), or numbered axes beside ``sample``.

    Args:
        shape: its sizes.
        batch: samples of the pass if the output depends on them, else None: axes are ``axis_0``, ``axis_1``, ...
        axes: names that the operator's input had, kept if there are as many and the size along ``sample`` is the batch;
            None for none.

    Returns:
        Named sizes, and the names in axis order (None when no order is meant: without ``batch``, or where no axis is
        the samples, as in flattened tokens).
    """
    rank = len(shape)
    numbered = [f"axis_{axis}" for axis in range(rank)]
    if batch is None:
        return _named_sizes(numbered, shape), None
    names: Sequence[str]
    if axes is not None and len(axes) == rank and shape[axes.index("sample")] == batch:
        names = axes
    elif rank == 3 and shape[0] != batch and shape[1] == batch:  # (T, B, C), as recurrent code likes it
        names = ("sequence", "sample", "channel")
    elif batch in shape:
        at = list(shape).index(batch)
        named = {1: ("sample",), 2: ("sample", "channel"), 3: ("sample", "sequence", "channel")}
        names = named[rank] if at == 0 and rank in named else (*numbered[:at], "sample", *numbered[at + 1 :])
    else:
        return flattened_sizes(shape, batch), None
    return _named_sizes(names, shape), tuple(names)


def _named_sizes(names: Sequence[str], shape: Sequence[int]) -> dict[str, int]:
    """Return the sizes by name; an axis of size zero is left out, since nothing can be split along it."""
    return {name: int(size) for name, size in zip(names, shape, strict=False) if size > 0}


def image_axes(rank: int) -> tuple[str, ...] | None:
    """Return the names of the axes as convolution and pooling lay them out: ``sample``, ``channel``, then ``length``,
    or ``height`` and ``width``, or ``depth`` before these; None unless the number of axes, ``rank``, is 3 to 5."""
    spatial = _SPATIAL.get(rank - 2)
    return ("sample", "channel", *spatial) if spatial else None


def linear_dimensions(
    shape: Sequence[int], batch: int | None, summed: int
) -> tuple[dict[str, int], tuple[str, ...] | None]:
    """Return the named sizes of a linear layer's output with ``in_channel`` (``summed``), and the names of its axes in
    order or None.

    The last axis of the output, ``shape``, is always ``channel``; ``summed`` is the length of its sums. ``batch`` is
    None where the output does not depend on the samples.
    """
    sizes, axes = output_dimensions(shape, batch, None)
    if "channel" not in sizes:
        sizes.pop(f"axis_{len(shape) - 1}", None)
        sizes["channel"] = int(shape[-1])
        axes = None if axes is None or len(axes) < 2 else (*axes[:-1], "channel")
    return {**sizes, "in_channel": summed}, axes


def attention_call(arguments: Sequence[Any], named: Mapping[str, Any]) -> tuple[Tensor, Tensor, Tensor | None, bool]:
    """Return query, key, mask and ``is_causal`` of a call of ``scaled_dot_product_attention``; the mask is None where
    none is given."""
    order = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
    given = {**dict(zip(order, arguments, strict=False)), **named}
    return given["query"], given["key"], given.get("attn_mask"), bool(given.get("is_causal", False))


class Call(NamedTuple):
    """One ATen call that computes something, after it has returned."""

    function: Any
    """The overload, such as ``torch.ops.aten.mm.default``."""
    args: tuple[Any, ...]
    operands: list[Tensor]
    """All tensors among its arguments, nested ones included, in their order."""
    outputs: list[Tensor]
    """All tensors that it returned; operands too where it works in place."""

    @property
    def name(self) -> str:
        """The call's name without its library and overload, such as ``mm``."""
        return str(self.function._schema.name.split("::")[-1])


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
        """True where neither an operator nor a parameter stands behind the content."""
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
    products: list[tuple[Call, Product]] = field(default_factory=list)
    """Matrix products and convolutions that it called, each with its cost."""
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
        """Note that operator number ``index``, which ``frame`` computes, keeps a tensor now, with the FLOPs of products
        and of the rest that it has done so far; 0 without a frame."""
        self.last = index
        self.product_flops = sum(cost.flops for _, cost in frame.products) if frame else 0
        self.other_flops = frame.forward if frame else 0

    def repeated(self, index: int, operator: Operator) -> int:
        """Return the forward FLOPs of operator number ``index``, from 0, that the second forward pass repeats: all of
        an operator before the one that keeps the region's last tensor, none of those after it, and of that one those
        that it had done when it kept the tensor."""
        if index == self.last:
            return self.product_flops if operator.kind in TENSOR_KINDS else self.other_flops
        return operator.forward_flops if index < self.last else 0


class Origins(dict[int, Origin]):
    """The origin of every storage that has been seen, by identity."""

    def of(self, frame: Frame, tensor: Tensor) -> Origin:
        """Return the origin of a tensor that a function reads (which operator or parameter its content comes from): as
        the function made it, else as known; what nothing has made yet is a constant from now on."""
        key = key_of(tensor)
        return frame.own.get(key) or self.get(key) or self.setdefault(key, Origin(tensor.untyped_storage()))


def tensors_in(value: object) -> Iterator[Tensor]:
    """Yield every tensor in nested tuples, lists and values of mappings, in their order; the tensor itself if it is
    one."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list, Mapping)):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from tensors_in(item)


def map_tensors(function: Callable[[Tensor], Any], value: Any) -> Any:
    """Return nested tuples (named ones of the same type), lists and mappings (as dicts) with a function applied to
    every tensor; all else stays."""
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, Mapping):
        return {key: map_tensors(function, item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        items = [map_tensors(function, item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def key_of(tensor: Tensor) -> int:
    """Return a number that identifies the storage of a tensor: equal for all views of one, while it lives."""
    return int(tensor.untyped_storage()._cdata)


def distinct_elements(tensors: list[Tensor]) -> int:
    """Return the number of elements that tensors cover together: the sum over their storages of the elements of all
    views of each, at most the storage's own number."""
    sizes: Counter[int] = Counter()
    capacities: dict[int, int] = {}
    for tensor in tensors:
        sizes[key_of(tensor)] += tensor.numel()
        capacities[key_of(tensor)] = tensor.untyped_storage().nbytes() // tensor.element_size()
    return sum(min(sizes[key], capacity) for key, capacity in capacities.items())


# Sizes of an operator, from the torch function that it stands for: axes by name, elements read.

Sources: TypeAlias = "list[tuple[Tensor, Origin]]"
"""Tensors that a function reads from outside, each with its origin."""


def elements_read(kind: str, sources: Sources, written: int) -> tuple[int, int]:
    """Return (elements read that all samples share, elements read in all), from what a function reads.

    What depends on no sample is shared; a table of embeddings counts as ``written`` elements, none of them shared.

    Args:
        kind: the operator's kind.
        sources: what it reads, with origins; views of one storage count together.
        written: elements of the rows that an embedding looks up, and thus reads of its table.
    """
    by_storage: dict[int, tuple[Origin, list[Tensor]]] = {}
    for tensor, origin in sources:
        by_storage.setdefault(key_of(tensor), (origin, []))[1].append(tensor)
    shared = total = 0
    for origin, tensors in by_storage.values():
        if kind == "embedding" and origin.parameter is not None:
            total += written
        else:
            size = distinct_elements(tensors)
            total += size
            shared += 0 if origin.sampled else size
    return shared, total


def dimensions(
    frame: Frame, kind: str, sources: Sources, outputs: list[Tensor], batch: int | None
) -> tuple[dict[str, int], tuple[str, ...] | None]:
    """Return the named sizes of an operator, and the names of its output's axes; None where they have no order.

    Args:
        frame: the function, with its products.
        kind: kind of the operator, one of ``graph.KINDS``.
        sources: what it reads, from which names may be inherited.
        outputs: what it returned, of which the first is named.
        batch: samples of the pass if the operator depends on them, else None.
    """
    output = outputs[0]
    if kind == "attention":
        query, key, _, _ = attention_call(frame.arguments, frame.named)
        return attention_sizes(tuple(query.shape), tuple(key.shape), batch), None
    if kind == "linear":
        return linear_dimensions(output.shape, batch, frame.products[-1][1].summed)
    if kind == "experts":
        call, cost = frame.products[-1]
        factors = [call.operands[place] for place in reversed(cost.operands)]
        experts = next((int(factor.shape[0]) for factor in factors if factor.dim() == 3), int(output.shape[0]))
        return experts_dimensions(output.shape, batch, experts, cost.summed), None
    axes = _inherited_axes(kind, sources, output)
    sizes, axes = output_dimensions(output.shape, batch, axes)
    if kind == "conv":
        call = next(call for call, _ in frame.products if call.name == "convolution")
        sizes |= convolution_sizes(*(tuple(tensor.shape) for tensor in (*call.args[:2], call.outputs[0])))
    elif frame.products and kind in TENSOR_KINDS:
        sizes["in_channel"] = frame.products[-1][1].summed
    return sizes, axes


def _inherited_axes(kind: str, sources: Sources, output: Tensor) -> tuple[str, ...] | None:
    """Return the names of the output's axes: those of images for a convolution, else those of the first input that
    depends on the samples and has as many axes, else those of images for pooling, batch and local response norms; None
    where nothing tells, and for embeddings."""
    if kind == "conv":
        return image_axes(output.dim())
    if kind == "embedding":
        return None
    for _, origin in sources:
        if origin.sampled and origin.axes is not None and len(origin.axes) == output.dim():
            return origin.axes
    return image_axes(output.dim()) if kind in ("pool", "batch_norm", "lrn") else None
