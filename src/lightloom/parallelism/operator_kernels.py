"""The kernels of a graph's operators: shapes of their products, how a split divides them, how many are launched.

linear, convolution, experts    m from the FLOPs, n and k from the dimensions; each expert, each group
matmul, attention               m, n and k from the dimensions, the number from the FLOPs
column-parallel                 n / tp, up        row-parallel      k / tp
sliced products, attention      products / tp        sequence slices   m / tp
expert-parallel                 products / ep, m · ep
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import NamedTuple

import numpy as np

from lightloom.accelerators.base import Accelerator
from lightloom.accelerators.kernels import KernelKind, KernelShapes
from lightloom.clusters.settings import Attention
from lightloom.core.arrays import Floats, Ints
from lightloom.parallelism.loss import logits_of
from lightloom.workloads.graph import TENSOR_KINDS, Operator

COLUMNS = (
    "kernel_kind",
    "kernel_m",
    "kernel_n",
    "kernel_k",
    "kernel_products",
    "kernel_repeats",
    "kernel_narrow",
    "kernel_losses",
    "launched_forward",
    "launched_backward",
)
"""Columns of shape [operators] that :func:`kernel_columns` returns beside ``kernel_visible``; 0 in ``kernel_m`` or
``kernel_products`` means that it follows from the FLOPs."""
_KERNEL_SIZES = ("kernel_height", "kernel_width", "kernel_length", "kernel_depth")
_NARROW = frozenset({"linear", "experts"})
"""Kinds whose products a job in FP8 computes in it; attention and the layer of the logits are left as they are."""
_LAUNCHES: Mapping[str, tuple[int, int]] = {
    "input": (0, 0),
    "linear": (1, 3),
    "conv": (1, 3),
    "experts": (1, 2),
    "matmul": (1, 2),
    "norm": (1, 2),
    "batch_norm": (1, 2),
    "loss": (2, 2),
}
"""Kernels of an operator forward and backward, where not one each: gradients of input, weights and bias."""
_ATTENTION_LAUNCHES: Mapping[Attention, tuple[int, int]] = {"flash": (1, 3), "unfused": (4, 6)}


class Divisors(NamedTuple):
    """By how much a rank's share of each product is smaller: [rows, operators] or 1."""

    m: Floats | float = 1.0
    n: Floats | float = 1.0
    k: Floats | float = 1.0
    products: Floats | float = 1.0


class _Shape(NamedTuple):
    kind: KernelKind
    m: int = 0
    n: int = 1
    k: int = 1
    products: int = 1
    repeats: int = 1


def kernel_columns(operators: tuple[Operator, ...], attention: Attention) -> dict[str, Ints]:
    """Return the :data:`COLUMNS` of operators, attention computed in that way, and ``kernel_visible``: the bits of the
    share of its scores."""
    logits = logits_of(operators)
    rows = [
        (
            *_shape(operator, attention),
            int(operator.kind in _NARROW and operator is not logits),
            int(operator is logits),
            *_launches(operator, attention),
        )
        for operator in operators
    ]
    table = np.array(rows, np.int64).reshape(-1, len(COLUMNS))
    visible = np.array([operator.visible_scores for operator in operators], np.float64)
    return {**dict(zip(COLUMNS, table.T, strict=True)), "kernel_visible": visible.view(np.int64)}


def kernel_shapes(
    columns: Mapping[str, Ints], flops: Floats, repetition: Floats, element_bytes: int, divisors: Divisors
) -> tuple[KernelShapes, KernelShapes]:
    """Return the kernels of the forward and of the backward pass.

    Args:
        columns: those of :func:`kernel_columns`.
        flops: FLOPs of the forward passes, undivided, [rows, operators].
        repetition: FLOPs of the backward pass for each of the forward pass, [rows, operators]: 1 makes the gradient of
            the weights, 2 that of the input as well.
        element_bytes: bytes of one element.
        divisors: how the products are divided among ranks.
    """
    kind, n, k = columns["kernel_kind"], columns["kernel_n"], columns["kernel_k"]
    is_attention = (kind == KernelKind.FLASH) | (kind == KernelKind.UNFUSED)
    known = n * k * np.maximum(columns["kernel_m"], 1) * np.maximum(columns["kernel_products"], 1)
    derived = flops / (np.where(is_attention, 4.0, 2.0) * known)
    m = np.where(columns["kernel_m"] == 0, derived, columns["kernel_m"]) / divisors.m
    products = np.where(columns["kernel_products"] == 0, derived, columns["kernel_products"]) / divisors.products
    none = np.zeros_like(flops)
    forward = KernelShapes(
        kind=kind,
        m=m,
        # Columns that the ranks do not divide are padded, as those of a vocabulary: each rank has as many whole ones.
        n=np.ceil(n / divisors.n) + none,
        k=k / divisors.k + none,
        products=products,
        repeats=columns["kernel_repeats"] + none,
        forward=none + 1.0,
        input_gradient=none,
        weight_gradient=none,
        visible=columns["kernel_visible"].view(np.float64),
        narrow=columns["kernel_narrow"],
        losses=columns["kernel_losses"],
        element_bytes=element_bytes,
    )
    backward = forward._replace(
        forward=none,
        input_gradient=np.maximum(repetition - 1.0, 0.0),
        weight_gradient=np.minimum(repetition, 1.0),
    )
    return forward, backward


def dispatch_times(columns: Mapping[str, Ints], accelerator: Accelerator) -> tuple[Floats, Floats]:
    """Return the seconds in which the host launches each operator's kernels forward and backward, [operators].

    They bound the duration of a pass from below, all its operators together; 0 without a kernel model.
    """
    seconds = 0.0 if accelerator.kernels is None else accelerator.kernels.dispatch
    forward, backward = (columns[name].astype(np.float64) for name in ("launched_forward", "launched_backward"))
    return seconds * forward, seconds * backward


def passes(
    times: tuple[Floats, Floats], launches: tuple[Floats, Floats], repeated: Ints | Floats
) -> tuple[Floats, Floats]:
    """Return the seconds of operators in the forward and the backward pass of all of them, [..., operators].

    The backward pass includes what is recomputed. A pass that ends before the host has launched its kernels is
    stretched evenly until then.

    Args:
        times: seconds of each operator forward and backward.
        launches: seconds in which the host launches it (:func:`dispatch_times`).
        repeated: how often its forward pass is repeated in the backward pass.
    """
    forward, backward = times
    launched_forward, launched_backward = launches
    total: Floats = backward + repeated * forward
    launched: Floats = launched_backward + repeated * launched_forward
    return stretched(forward, launched_forward), stretched(total, launched)


def stretched(times: Floats, launches: Floats) -> Floats:
    """Return the seconds of the operators of a pass [..., operators], stretched evenly until all are launched."""
    busy, least = times.sum(axis=-1, keepdims=True), launches.sum(axis=-1, keepdims=True)
    stretch = np.divide(least, busy, out=np.ones_like(busy), where=busy > 0)
    longer: Floats = times * np.maximum(stretch, 1.0)
    return longer


def _shape(operator: Operator, attention: Attention) -> _Shape:
    sizes = operator.dimensions
    if operator.kind not in TENSOR_KINDS:
        return _Shape(KernelKind.MEMORY)
    channels, summed = sizes.get("channel", 0), sizes.get("in_channel", 0)
    if operator.kind == "attention":
        return _attention_shape(operator, attention)
    if operator.kind == "matmul" and summed:
        *_, m, n = (1, 1, *(size for name, size in sizes.items() if name != "in_channel"))
        return _Shape(
            KernelKind.PRODUCT, m=0 if operator.parameters else m, n=n, k=summed, products=operator.parameters > 0
        )
    if operator.kind == "recurrent" or not channels or not summed:
        return _Shape(KernelKind.ARITHMETIC)
    if operator.kind == "conv":
        groups, positions = sizes.get("groups", 1), prod(sizes.get(name, 1) for name in _KERNEL_SIZES)
        depth = max(summed // groups, 1) * positions
        return _Shape(KernelKind.PRODUCT, n=max(channels // groups, 1), k=depth, products=groups, repeats=positions)
    return _Shape(KernelKind.PRODUCT, n=channels, k=summed, products=sizes.get("expert", 1))


def _attention_shape(operator: Operator, attention: Attention) -> _Shape:
    """Attention of unknown sizes is taken to be computed in one kernel, whose time its FLOPs alone determine."""
    sizes = operator.dimensions
    names = ("sequence", "key_sequence", "head_dim")
    unfused = attention == "unfused" and all(name in sizes for name in names)
    m, n, k = (sizes.get(name, 1) for name in names)
    kind = KernelKind.UNFUSED if unfused else KernelKind.FLASH
    return _Shape(kind, m=m, n=n, k=k, products=0)


def _launches(operator: Operator, attention: Attention) -> tuple[int, int]:
    if operator.kind == "attention":
        return _ATTENTION_LAUNCHES[attention]
    return _LAUNCHES.get(operator.kind, (1, 1))
