"""FLOPs of one ATen call.

Matrix products and convolutions: two FLOPs per multiply-accumulate, and the same again in the backward pass
for each of the two operands that needs a gradient. Moved data: nothing. Anything else: one FLOP per element
of its largest tensor, forward, and once more backward where a gradient flows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Product(NamedTuple):
    """A multiply-accumulate call: FLOPs forward, its two operands, and the length of the sums."""

    flops: int
    operands: tuple[Tensor, ...]
    summed: int


def _mm(a: Tensor, b: Tensor, *_: object, **__: object) -> Product:
    # (m, k) x (k, n), or (batch, m, k) x (batch, k, n)
    return Product(2 * a.numel() * b.shape[-1], (a, b), a.shape[-1])


def _addmm(_bias: Tensor, a: Tensor, b: Tensor, *_: object, **__: object) -> Product:
    return _mm(a, b)


def _grouped_mm(a: Tensor, b: Tensor, *_: object, **__: object) -> Product:
    # (m, k) x (group, k, n), rows by group; (group, m, k) x (k, n), columns by group; (m, k) x (k, n), sums by group
    columns_grouped = a.dim() == 3 and b.dim() == 2
    flops = 2 * a.numel() * b.shape[-1]
    return Product(flops // a.shape[0] if columns_grouped else flops, (a, b), a.shape[-1])


def _mv(a: Tensor, b: Tensor, *_: object, **__: object) -> Product:
    return Product(2 * a.numel(), (a, b), b.shape[-1])


def _convolution(
    x: Tensor,
    w: Tensor,
    _bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    *_: object,
) -> Product:
    """Each weight meets every position of the output (of the input, when transposed), in every sample."""
    sizes = x.shape[2:] if transposed else _output_sizes(x.shape[2:], w.shape[2:], stride, padding, dilation)
    positions, summed = math.prod(sizes), math.prod(w.shape[1:])
    return Product(2 * x.shape[0] * positions * w.numel(), (x, w), summed)


def _output_sizes(
    size: Sequence[int], kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> list[int]:
    def at(values: Sequence[int], axis: int) -> int:
        return int(values[axis] if len(values) > 1 else values[0])

    return [
        (length + 2 * at(padding, i) - at(dilation, i) * (kernel[i] - 1) - 1) // at(stride, i) + 1
        for i, length in enumerate(size)
    ]


def _attention(q: Tensor, k: Tensor, v: Tensor, *_: object, **__: object) -> Product:
    # (sample, head, sequence, head_dim): q kᵀ, then weights v; two operands each, so backward costs twice.
    scores = q.shape[0] * q.shape[1] * q.shape[2] * k.shape[2]
    return Product(2 * scores * (q.shape[3] + v.shape[3]), (q, v), q.shape[3])


_PRODUCTS: dict[str, Callable[..., Product]] = {
    "mm": _mm,
    "bmm": _mm,
    "addmm": _addmm,
    "baddbmm": _addmm,
    "mv": _mv,
    "addmv": lambda _bias, a, b, *_, **__: _mv(a, b),
    "dot": _mv,
    "_addmm_activation": _addmm,
    "_scaled_mm": _mm,
    "_scaled_mm_v2": _mm,
    "_grouped_mm": _grouped_mm,
    "_scaled_grouped_mm": _grouped_mm,
    "_scaled_grouped_mm_v2": _grouped_mm,
    "grouped_mm_fallback": _grouped_mm,
    "convolution": _convolution,
    "_scaled_dot_product_flash_attention": _attention,
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
    "_scaled_dot_product_efficient_attention": _attention,
    "_scaled_dot_product_cudnn_attention": _attention,
    "_scaled_dot_product_fused_attention_overrideable": _attention,
}

_MOVES = """
    clone copy copy_ _to_copy cat stack embedding index index_put index_put_ index_select gather
    scatter scatter_ take constant_pad_nd reflection_pad1d reflection_pad2d replication_pad1d
    replication_pad2d repeat roll flip tril triu fill_ zero_ fill zeros_like ones_like empty_like
    full_like rand_like randn_like new_empty new_zeros new_ones new_full masked_fill masked_fill_
    masked_select slice_scatter select_scatter pixel_shuffle channel_shuffle repeat_interleave
    one_hot bernoulli bernoulli_ uniform_ normal_ unfold im2col col2im
"""
MOVES = frozenset(_MOVES.split())
"""ATen calls that compute nothing: they move, look up or fill."""


_ARITHMETIC = """
    native_layer_norm native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training native_group_norm
    _fused_rms_norm native_dropout _weight_norm_interface _softmax _log_softmax _safe_softmax cumsum cumprod sort
    _embedding_bag _embedding_bag_forward_only
"""
_KNOWN = frozenset(_ARITHMETIC.split()) | MOVES
_ELEMENTWISE = (torch.Tag.pointwise, torch.Tag.reduction)
_BAGS = ("_embedding_bag", "_embedding_bag_forward_only")


def has_rule(function: Any) -> bool:
    """Whether one FLOP for each element is what a call does, or a rule above says what it does."""
    name = function._schema.name.split("::")[-1]
    return name in _KNOWN or name in _PRODUCTS or any(tag in function.tags for tag in _ELEMENTWISE)


def looked_up(name: str, args: Sequence[Any]) -> int:
    """Return the elements of the rows that a bag of embeddings looks up and adds, 0 for other calls."""
    return int(args[1].numel() * args[0].shape[1]) if name in _BAGS else 0


def product(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Product | None:
    """Return the cost of a call if it is a matrix product or convolution."""
    rule = _PRODUCTS.get(name)
    return rule(*args, **kwargs) if rule else None


def elements(tensors: Sequence[Tensor]) -> int:
    """Return the FLOPs of any other arithmetic: the elements of the largest tensor."""
    return max((tensor.numel() for tensor in tensors), default=0)
