"""Shapes of what calls return, and which call made what another reads: a profile states the shapes of inputs alone.

Shapes of results follow from the rules of the operators that have one here; others return a tensor like their largest
input. A call reads the result of the last one that made as many elements, unless the tensor is a parameter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import prod

from lightloom.interchange.traces.calls import Call, TraceTensor

_VIEW_WORDS = (
    "view reshape t transpose permute expand expand_as slice select squeeze unsqueeze flatten unflatten as_strided",
    "detach split chunk narrow unbind alias _unsafe_view view_as split_with_sizes swapaxes movedim",
)
_VIEWS = frozenset(word for line in _VIEW_WORDS for word in line.split())
"""Operators that move no data."""
_COPIES = ("clone", "copy_", "cat", "stack")
_PARAMETERS = {
    "linear": (1, 2),
    "conv1d": (1, 2),
    "conv2d": (1, 2),
    "conv3d": (1, 2),
    "conv_transpose2d": (1, 2),
    "batch_norm": (1, 2),
    "layer_norm": (1, 2),
    "group_norm": (1, 2),
    "rms_norm": (1,),
    "embedding": (0,),
    "addmm": (0, 2),
    "mm": (1,),
}
"""Places of weights and biases among the tensors of an operator."""
_STATISTICS = {"batch_norm": (3, 4)}


class Wiring:
    """Storages of the tensors of calls, one call after another."""

    def __init__(self, gradients: Sequence[tuple[int, ...]]) -> None:
        """``gradients`` are the shapes of the gradients that the backward pass kept; none without a backward pass."""
        self._left = Counter(gradients)
        self._known = bool(gradients)
        self._next = 1
        self._made: dict[int, int] = {}
        """The storage that was made last with so many elements."""
        self._latest = 0

    def connect(self, call: Call) -> None:
        """Give the tensors of a call of the forward pass their storages, and those that it returns."""
        places = _PARAMETERS.get(call.word, ())
        statistics = _STATISTICS.get(call.word, ())
        call.reads = [
            self._read(tensor, place, is_parameter=place in places, is_statistic=place in statistics)
            for place, tensor in enumerate(call.reads)
        ]
        if not call.reads:
            return
        if is_view(call):
            call.returns = [replace(call.reads[0], argument="")]
            return
        if call.word.endswith("_"):
            call.returns = [replace(call.reads[0], argument="")]
            return
        like = next((tensor for tensor in call.reads if tensor.floating), call.reads[0])
        shape = result_shape(call)
        made = replace(like, storage=self._fresh(), offset=0, shape=shape, argument="", strides=())
        self._made[made.elements] = self._latest = made.storage
        call.returns = [made]

    def _read(self, tensor: TraceTensor, place: int, *, is_parameter: bool, is_statistic: bool) -> TraceTensor:
        if is_statistic:
            return replace(tensor, storage=self._fresh(), argument=f"running_{place}")
        if is_parameter and tensor.floating and (not self._known or self._left[tensor.shape] > 0):
            self._left[tensor.shape] -= self._known
            return replace(tensor, storage=self._fresh(), argument="weight")
        return replace(tensor, storage=self._made.get(tensor.elements) or self._fresh())

    def _fresh(self) -> int:
        self._next += 1
        return self._next


def is_view(call: Call) -> bool:
    """Return whether a call moves no data."""
    return call.word in _VIEWS and not any(inner.word in _COPIES for inner in _inside(call))


def _inside(call: Call) -> list[Call]:
    return [entry for inner in call.calls for entry in (inner, *_inside(inner))]


def result_shape(call: Call) -> tuple[int, ...]:
    """Return the shape of what a call returns, that of its largest input where no rule is known."""
    try:
        shape = _ruled(call, [tensor.shape for tensor in call.reads])
    except (IndexError, TypeError, ValueError, ZeroDivisionError):
        shape = None
    if (
        shape is None
        and call.calls
        and (inner := [entry for entry in call.calls if entry.reads and not is_view(entry)])
    ):
        return result_shape(inner[-1])
    return max((tensor.shape for tensor in call.reads), key=prod, default=()) if shape is None else shape


def _ruled(call: Call, shapes: list[tuple[int, ...]]) -> tuple[int, ...] | None:
    word, values = call.word, call.values
    if word in ("mm", "addmm", "bmm", "baddbmm"):
        left, right = shapes[-2:]
        return (*left[:-1], right[-1])
    if word == "linear":
        return (*shapes[0][:-1], shapes[1][0])
    if word in ("convolution", "_convolution", "conv1d", "conv2d", "conv3d", "mkldnn_convolution", "cudnn_convolution"):
        return _convolution(shapes[0], shapes[1], [value for value in values if isinstance(value, list)], values)
    if word == "embedding":
        return (*shapes[1], shapes[0][-1])
    if word.startswith("adaptive_") and isinstance(values[1], list):
        sizes = tuple(int(size) for size in values[1])
        return (*shapes[0][: len(shapes[0]) - len(sizes)], *sizes)
    if word.startswith(("max_pool", "avg_pool")):
        kernel, stride, padding = (_pair(value) for value in values[1:4])
        sizes = shapes[0][-len(kernel) :]
        pooled = [
            (size + 2 * pad - length) // step + 1
            for size, length, step, pad in zip(sizes, kernel, stride or kernel, padding, strict=True)
        ]
        return (*shapes[0][: -len(kernel)], *pooled)
    if word in ("cross_entropy_loss", "nll_loss", "mse_loss", "binary_cross_entropy_with_logits"):
        return ()
    return None


def _convolution(
    data: tuple[int, ...], weight: tuple[int, ...], lists: list[list[object]], values: Sequence[object]
) -> tuple[int, ...] | None:
    if len(lists) < 3 or True in values:
        return None
    stride, padding, dilation = (_pair(entry, len(data) - 2) for entry in lists[:3])
    spatial = [
        (size + 2 * pad - gap * (kernel - 1) - 1) // step + 1
        for size, kernel, step, pad, gap in zip(data[2:], weight[2:], stride, padding, dilation, strict=True)
    ]
    return (data[0], weight[0], *spatial)


def _pair(value: object, length: int = 0) -> list[int]:
    if not isinstance(value, list) or not all(type(entry) is int for entry in value):
        raise ValueError("not recorded")
    return value * length if len(value) == 1 and length > 1 else value
