"""The kernels of a profiled operator, from its name, the shapes of its inputs and its values.

products     mm, bmm, addmm, baddbmm, convolutions; the gradients of convolutions
attention    each of PyTorch's fused forms, forward and backward
memory       operators whose traffic the shapes tell: element-wise, normalisation, softmax, dropout, copies
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import NamedTuple

from lightloom.accelerators.kernels import KernelKind
from lightloom.interchange.traces.kineto import TimedCall

_CAUSAL: Mapping[str, tuple[int, int]] = {
    "_scaled_dot_product_flash_attention": (0, 4),
    "_scaled_dot_product_flash_attention_for_cpu": (0, 4),
    "_scaled_dot_product_efficient_attention": (0, 6),
    "_scaled_dot_product_cudnn_attention": (0, 6),
    "_scaled_dot_product_flash_attention_backward": (1, 11),
    "_scaled_dot_product_flash_attention_for_cpu_backward": (1, 7),
    "_scaled_dot_product_efficient_attention_backward": (1, 11),
    "_scaled_dot_product_cudnn_attention_backward": (1, 14),
}
"""Places of the queries among the tensors, and of ``is_causal`` among the arguments. Source: PyTorch 2.13,
native_functions.yaml."""
_WORDS = """
    add sub mul div neg exp pow sqrt rsqrt abs tanh sigmoid relu gelu silu leaky_relu clamp_min where masked_fill
    threshold_backward gelu_backward silu_backward sigmoid_backward tanh_backward addcmul addcdiv clone
    _softmax _softmax_backward_data _log_softmax _log_softmax_backward_data native_dropout native_dropout_backward
    native_layer_norm native_layer_norm_backward _fused_rms_norm native_batch_norm cudnn_batch_norm
"""
_READ_AND_WRITTEN = frozenset(_WORDS.split())
"""Operators that read their inputs once and write one tensor of the largest shape; in place likewise."""


class ProfiledKernel(NamedTuple):
    """What one call launches."""

    kind: KernelKind
    m: int = 0
    n: int = 0
    k: int = 0
    products: int = 0
    repeats: int = 1
    forward: int = 0
    input_gradient: int = 0
    weight_gradient: int = 0
    causal: int = 0
    nbytes: int = 0
    """Traffic of a call that waits for memory, in bytes."""


def kernel_of(call: TimedCall) -> ProfiledKernel | None:
    """Return the kernels of a call; None where its name and shapes do not tell them."""
    try:
        return _product(call) or _attention(call) or _memory(call)
    except (IndexError, TypeError, ZeroDivisionError, ValueError):
        return None


def covers_inner_calls(kernel: ProfiledKernel | None) -> bool:
    """Return whether the calls inside one with these kernels are parts of it."""
    return kernel is not None and kernel.kind is not KernelKind.MEMORY


def _product(call: TimedCall) -> ProfiledKernel | None:
    shapes = [tensor.shape for tensor in call.reads]
    word = call.word
    if word in ("mm", "bmm", "addmm", "baddbmm"):
        left, right = shapes[-2:]
        products = prod(left[:-2])
        if call.reads[-2].transposed:
            # The gradient of a layer's weights: what is summed over are the tokens, and rows hold features.
            return ProfiledKernel(
                KernelKind.PRODUCT, m=left[-1], n=left[-2], k=right[-1], products=products, weight_gradient=1
            )
        return ProfiledKernel(KernelKind.PRODUCT, m=left[-2], n=right[-1], k=left[-1], products=products, forward=1)
    if word == "convolution":
        return _convolution(call, shapes[0], shapes[1], 3)
    if word == "convolution_backward":
        # Before the stride stand the output's gradient, input, weight and the sizes of the bias.
        wanted = call.values[-1]
        forward = _convolution(call, shapes[1], shapes[2], 4)
        if not isinstance(wanted, list):
            return None
        return forward._replace(forward=0, input_gradient=int(bool(wanted[0])), weight_gradient=int(bool(wanted[1])))
    return None


def _convolution(call: TimedCall, data: tuple[int, ...], weight: tuple[int, ...], first: int) -> ProfiledKernel:
    """The implicit product of a convolution whose stride, padding, dilation, ... begin at argument ``first``."""
    stride, padding, dilation, transposed, _, groups = call.values[first : first + 6]
    if transposed is not False or not isinstance(groups, int):
        raise ValueError("a transposed convolution, or one whose values were not recorded")
    positions = prod(weight[2:])
    outputs = 1
    for axis, size in enumerate(data[2:]):
        reach = _along(dilation, axis) * (weight[2 + axis] - 1)
        outputs *= (size + 2 * _along(padding, axis) - reach - 1) // _along(stride, axis) + 1
    return ProfiledKernel(
        KernelKind.PRODUCT,
        m=data[0] * outputs,
        n=weight[0] // groups,
        k=weight[1] * positions,
        products=groups,
        repeats=positions,
        forward=1,
    )


def _along(values: object, axis: int) -> int:
    """The entry of a list for an axis; lists of one entry hold for every axis."""
    if not isinstance(values, list) or not all(isinstance(value, int) for value in values):
        raise ValueError("not recorded")
    return int(values[axis] if len(values) > 1 else values[0])


def _attention(call: TimedCall) -> ProfiledKernel | None:
    if call.word not in _CAUSAL:
        return None
    first, place = _CAUSAL[call.word]
    queries, keys = (call.reads[first + offset].shape for offset in (0, 1))
    backward = int(first == 1)
    return ProfiledKernel(
        KernelKind.FLASH,
        m=queries[-2],
        n=keys[-2],
        k=queries[-1],
        products=prod(queries[:-2]),
        forward=1 - backward,
        input_gradient=backward,
        weight_gradient=backward,
        causal=int(call.values[place] is True),
    )


def _memory(call: TimedCall) -> ProfiledKernel | None:
    word = call.word.removesuffix("_")
    sizes = [tensor.elements * tensor.element_bytes for tensor in call.reads]
    if not sizes:
        return None
    if word in ("fill", "zero"):
        return ProfiledKernel(KernelKind.MEMORY, nbytes=sizes[0])
    if word == "copy":
        return ProfiledKernel(KernelKind.MEMORY, nbytes=sizes[0] + sizes[1])
    if word in _READ_AND_WRITTEN or call.word in _READ_AND_WRITTEN:
        return ProfiledKernel(KernelKind.MEMORY, nbytes=sum(sizes) + max(sizes))
    return None
