"""The table of operators: the kind and the FLOPs of a function or ATen call of PyTorch, by its name and its shapes.

Every reader looks words up here, and nowhere else: the tracer (functions and ATen calls), execution traces and profiles
(ATen calls of any backend, those of the backward pass too), and ONNX, whose operators are translated to these words.

A word is a name without overload, outer underscores and the i of ``__iadd__`` (:func:`plain_word`). Matrix products and
convolutions: two FLOPs for each multiply-accumulate. Moved data and views: none. Anything else: one for each element of
the largest tensor.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from lightloom.models.graph import TENSOR_KINDS

Shape: TypeAlias = tuple[int, ...]

_KINDS = {
    "conv": "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution "
    "convolution_overrideable cudnn_convolution cudnn_convolution_relu cudnn_convolution_add_relu "
    "cudnn_convolution_transpose miopen_convolution miopen_convolution_transpose miopen_depthwise_convolution "
    "mkldnn_convolution mps_convolution thnn_conv2d conv_depthwise2d conv_depthwise3d slow_conv2d_forward "
    "slow_conv3d_forward slow_conv_dilated2d slow_conv_dilated3d slow_conv_transpose2d slow_conv_transpose3d",
    "linear": "linear bilinear mkldnn_linear scaled_mm scaled_mm_v2",
    "experts": "grouped_mm scaled_grouped_mm scaled_grouped_mm_v2 grouped_mm_fallback",
    "matmul": "matmul mm bmm addmm baddbmm addbmm einsum mv addmv dot vdot tensordot inner chain_matmul int_mm "
    "addmm_activation linalg_matmul linalg_multi_dot",
    "attention": "attention scaled_dot_product_attention scaled_dot_product_attention_math "
    "scaled_dot_product_flash_attention scaled_dot_product_flash_attention_for_cpu "
    "scaled_dot_product_efficient_attention scaled_dot_product_cudnn_attention "
    "scaled_dot_product_fused_attention_overrideable scaled_dot_product_attention_math_for_mps "
    "flash_attention_forward efficient_attention_forward flash_attn_forward",
    "recurrent": "lstm gru rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell cudnn_rnn miopen_rnn "
    "mkldnn_rnn_layer",
    "batch_norm": "batch_norm native_batch_norm cudnn_batch_norm miopen_batch_norm batch_norm_impl_index "
    "native_batch_norm_legit native_batch_norm_legit_no_training batch_norm_with_update sync_batch_norm",
    "norm": "layer_norm native_layer_norm group_norm native_group_norm instance_norm rms_norm fused_rms_norm normalize",
    "lrn": "lrn local_response_norm",
    "pool": "max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d lp_pool1d lp_pool2d "
    "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d "
    "adaptive_max_pool3d max_pool2d_with_indices max_pool3d_with_indices mkldnn_max_pool2d",
    "activation": "relu relu6 gelu silu mish elu selu celu leaky_relu prelu rrelu tanh sigmoid hardswish "
    "hardtanh hardsigmoid hardshrink softshrink softplus softsign logsigmoid log_sigmoid log_sigmoid_forward glu "
    "threshold tanhshrink",
    "topk": "topk",
    "softmax": "softmax log_softmax softmin gumbel_softmax safe_softmax",
    "dropout": "dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout feature_dropout "
    "native_dropout fused_dropout",
    "embedding": "embedding embedding_bag embedding_bag_forward_only",
    "concat": "cat concat concatenate stack hstack vstack dstack",
    "loss": "cross_entropy cross_entropy_loss nll_loss nll_loss_nd nll_loss2d nll_loss_forward nll_loss2d_forward "
    "mse_loss l1_loss smooth_l1_loss huber_loss kl_div binary_cross_entropy binary_cross_entropy_with_logits "
    "ctc_loss cosine_embedding_loss triplet_margin_loss margin_ranking_loss",
    "reduce": "sum nansum mean amax amin aminmax max min prod var std var_mean std_mean norm vector_norm "
    "linalg_vector_norm logsumexp argmax argmin any all count_nonzero",
    "elementwise": "abs acos acosh add addcdiv addcmul and asin asinh atan atanh bitwise_and bitwise_left_shift "
    "bitwise_not bitwise_or bitwise_xor ceil clamp cos cosh cumprod cumsum div eq erf exp floor ge gt interpolate "
    "isinf isnan le lerp log logical_and logical_not logical_or logical_xor lt maximum minimum mul ne neg pow "
    "reciprocal remainder round rsqrt rsub sign sin sinh sort sqrt square sub tan true_divide truediv "
    "weight_norm_interface where xor",
}
KIND_OF_WORD: Mapping[str, str] = {word: kind for kind, words in _KINDS.items() for word in words.split()}
"""Kind of an operator by the word of its function or call."""

_VIEWS = """
    view reshape t transpose permute expand expand_as slice select squeeze unsqueeze flatten unflatten as_strided
    detach split chunk narrow unbind alias unsafe_view view_as split_with_sizes swapaxes movedim identity
    broadcast_tensors broadcast_to lift_fresh
"""
VIEWS = frozenset(_VIEWS.split())
"""Words that make no new data where strides can say what they mean; else they copy."""

_MOVED = """
    clone contiguous copy to to_copy cat stack embedding index index_put index_select gather
    scatter take constant_pad_nd pad reflection_pad1d reflection_pad2d replication_pad1d
    replication_pad2d repeat roll flip tril triu fill zero zeros_like ones_like empty_like
    full_like rand_like randn_like new_empty new_zeros new_ones new_full zeros ones full masked_fill
    masked_select slice_scatter select_scatter pixel_shuffle pixel_unshuffle channel_shuffle repeat_interleave
    one_hot bernoulli uniform normal unfold im2col col2im empty empty_strided resize
"""
_MOVES = frozenset(_MOVED.split())


NO_RULE = "has no rule and reads a parameter matrix: counted as one FLOP an element"
"""End of the sentence on a call that no rule counts."""


class Product(NamedTuple):
    """FLOPs and operands of a call that multiplies and accumulates."""

    flops: int
    operands: tuple[int, ...]
    """Places of its factors among its tensors: the gradient of each costs as much as the product."""
    summed: int
    """Length of the sums."""
    shape: Shape | None
    """Shape of the result; None where the operands do not determine it."""


def plain_word(name: str) -> str:
    """Return the word of a function or call, without library, overload, underscores around it and the i of in-place
    operators.

    ``aten::relu_``, ``__iadd__`` and ``mm.out`` are relu, add and mm.
    """
    name = name.rpartition("::")[2].partition(".")[0]
    if name.startswith("__") and name.endswith("__"):
        name = name.strip("_")
        name = name[1:] if name[1:] in ("add", "sub", "mul", "truediv", "matmul") else name
    return name.strip("_")


def is_move(name: str) -> bool:
    """Return whether the call ``name`` (``aten::cat``; library and overload may be there) computes nothing: it
    allocates, moves, looks up (embedding, gather) or fills; views such as reshape are not among these."""
    return plain_word(name) in _MOVES


def has_rule(name: str) -> bool:
    """Return whether the table says what the call ``name`` costs: it is a product with a rule, a move, a view or of a
    kind that does no products.

    False for all other calls, for which one FLOP for each element is a guess.
    """
    word = plain_word(name)
    kind = KIND_OF_WORD.get(word)
    return word in _PRODUCTS or word in _MOVES or word in VIEWS or (kind is not None and kind not in TENSOR_KINDS)


def product(
    name: str, shapes: Sequence[Shape], result: Shape | None = None, values: Sequence[object] = ()
) -> Product | None:
    """Return what a call multiplies: ``flops`` (two for each multiply-accumulate), the places, from 0, of its factors
    among ``shapes`` (``operands``), the length of its sums (``summed``) and the ``shape`` of its result, None where
    this does not follow; None for one that multiplies no matrices, or where the shapes are too few or do not fit.

    Args:
        name: name of the function or call; library, overload and the in-place underscore may be there.
        shapes: shapes of its tensors, in the order of its arguments; for the backward pass, the gradient of the output
            comes first.
        result: shape of what it returns; None where that is unknown.
        values: its arguments that are no tensors, in their order, such as stride or an equation of einsum.
    """
    word = plain_word(name)
    rule = _PRODUCTS.get(word)
    if rule is None:
        return None
    try:
        return rule(word, shapes, result, values)
    except (IndexError, ValueError, ZeroDivisionError):
        return None


def kind_of(word: str, products: Sequence[str], calls: Sequence[str], summands: int, *, stacked: bool = False) -> str:
    """Return the kind of one operator, one of ``graph.KINDS``, by its word and by what it calls.

    It is ``experts`` for products of experts and for ``bmm`` with a parameter that stacks matrices, ``linear`` for
    scaled products. With other products it is the kind of its word if that multiplies, else ``conv`` or ``matmul``.
    Without products it is the kind of its word; where that is none, ``elementwise`` or one that multiplies, it is
    ``add`` for the word "add" and two results or more, ``copy`` if all its calls only move data, else ``elementwise``.

    Args:
        word: its plain word.
        products: names of the matrix products and convolutions that it made.
        calls: names of all calls that it made and that are no views.
        summands: number of results of earlier operators that it read.
        stacked: whether it read a parameter that stacks matrices.
    """
    made = {KIND_OF_WORD.get(plain_word(name)) for name in products}
    if (word == "bmm" and stacked) or "experts" in made:
        return "experts"
    if any(plain_word(name).startswith("scaled_mm") for name in products):
        return "linear"
    kind = KIND_OF_WORD.get(word)
    if products:
        if kind in TENSOR_KINDS:
            return kind
        return "conv" if "conv" in made and kind in (None, "elementwise") else "matmul"
    if kind is None or kind in TENSOR_KINDS or kind == "elementwise":
        # A product without FLOPs is so degenerate that PyTorch multiplies element by element.
        if word == "add" and summands >= 2:
            return "add"
        return "copy" if all(map(is_move, calls)) else "elementwise"
    return kind


def experts_dimensions(shape: Sequence[int], batch: int | None, experts: int, summed: int) -> dict[str, int]:
    """Return the sizes of a product of experts by name, from its output (experts, visits, channels), or (visits of all
    experts, channels).

    ``expert`` is ``experts``, their number, and ``channel`` the output's. ``sequence`` is the visits to an expert for
    each of ``batch`` samples (1 at least), ``in_channel`` the length ``summed``; ``sample`` is left out where ``batch``
    is None.
    """
    visits, channels = int(shape[-2]), int(shape[-1])
    if len(shape) == 2:
        visits //= experts
    sizes = {"expert": experts, "sequence": max(visits // (batch or 1), 1), "channel": channels, "in_channel": summed}
    return ({} if batch is None else {"sample": batch}) | sizes


def flattened_sizes(shape: Sequence[int], batch: int) -> dict[str, int]:
    """Return the sizes by name where samples are merged with the first axis, (B·T, C), or gone, as in a mean loss.

    ``sample`` is always there, of size ``batch``; ``sequence`` is the rest of a first axis that ``batch`` divides, the
    second axis of (B·T, C) is ``channel``. All other axes, the first too where the batch does not divide it, are
    numbered in their order from ``axis_1`` on. Axes of size 0 are left out.
    """
    merged: tuple[str, ...] = ()
    if shape and shape[0] and shape[0] % batch == 0:
        merged = ("sequence", "channel") if len(shape) == 2 else ("sequence",)
        shape = (shape[0] // batch, *shape[1:])
    names = [*merged, *(f"axis_{axis}" for axis in range(1, len(shape) - len(merged) + 1))]
    return {"sample": batch} | {name: int(size) for name, size in zip(names, shape, strict=True) if size > 0}


def attention_sizes(queries: Shape, keys: Shape, batch: int | None) -> dict[str, int]:
    """Return the sizes of attention by name, from shapes (..., head, T, D): ``head``, ``sequence`` and ``head_dim`` of
    the queries and ``key_sequence`` of the keys; leading axes of queries that are no samples count as heads.

    ``key_head`` is there only where keys have fewer heads, ``sample`` only where ``batch`` is given.
    """
    heads = max(1, math.prod(queries[:-2]) // (batch or 1))
    sizes = {"head": heads, "sequence": queries[-2], "key_sequence": keys[-2], "head_dim": queries[-1]}
    if min(len(queries), len(keys)) > 2 and keys[-3] < queries[-3]:
        sizes["key_head"] = keys[-3]
    return ({} if batch is None else {"sample": batch}) | sizes


def convolution_sizes(inputs: Shape, weight: Shape, outputs: Shape) -> dict[str, int]:
    """Return ``in_channel`` (channels of the input), kernel sizes by axis, and ``groups``, from the shapes of input,
    weight and output.

    Kernel sizes are ``kernel_length`` for one axis, ``kernel_height`` and ``kernel_width`` for two, with
    ``kernel_depth`` before them for three. Input and output may have an axis of samples or not: they have one if they
    have as many axes as the weight. A weight whose first axis is the input's channels, and not the output's, is taken
    as transposed.
    """
    in_channel = inputs[1] if len(inputs) == len(weight) else inputs[0]
    out_channel = outputs[1] if len(outputs) == len(weight) else outputs[0]
    transposed = weight[0] == in_channel and weight[0] != out_channel
    groups = out_channel // weight[1] if transposed else in_channel // weight[1]
    names = {3: ("length",), 4: ("height", "width")}.get(len(weight), ("depth", "height", "width"))
    kernel = {f"kernel_{name}": size for name, size in zip(names, weight[2:], strict=False)}
    return {"in_channel": in_channel, **kernel, "groups": max(1, groups)}


def heads_first(name: str, shape: Shape) -> Shape:
    """Return the shape of an operand of the call ``name`` of attention as (..., head, T, D): of four axes, T and head
    are swapped where the call's word begins with ``flash_attn``, ``flash_attention`` or ``efficient_attention``, which
    take (sample, T, head, D)."""
    if len(shape) == 4 and plain_word(name).startswith(_TOKENS_FIRST):
        return (shape[0], shape[2], shape[1], shape[3])
    return shape


# The rules. Each takes the word, the shapes of the tensors, the result's shape if known, and the other arguments.

_Rule: TypeAlias = Callable[[str, Sequence[Shape], Shape | None, Sequence[object]], Product | None]


def _matrices(first: int) -> _Rule:
    """Return the rule of a product of the tensors at places ``first`` and ``first + 1``, counted from 0: (..., m, k) x
    (..., k, n), leading axes broadcast, with 2 FLOPs for each multiply-accumulate, these two factors, and sums of
    length k."""

    def rule(_word: str, shapes: Sequence[Shape], _result: Shape | None, _values: Sequence[object]) -> Product:
        """Return the product of two tensors, the leading axes of which broadcast; each may also be a vector."""
        a, b = shapes[first], shapes[first + 1]
        rows, columns = a[:-1][-1:], b[1:][-1:]
        made = (*np.broadcast_shapes(a[:-2], b[:-2]), *rows, *columns)
        return Product(2 * math.prod(made) * a[-1], (first, first + 1), a[-1], made)

    return rule


def _summed_batch(_word: str, shapes: Sequence[Shape], _result: Shape | None, _values: Sequence[object]) -> Product:
    """Return the product of ``addbmm``, the sum over b of (b, m, k) x (b, k, n), given the shapes of (m, n) and of
    these two: 2 b m k n FLOPs, factors 1 and 2, sums stated as k long, and a result (m, n)."""
    # (m, n) + sum of (b, m, k) x (b, k, n)
    a, b = shapes[1], shapes[2]
    return Product(2 * math.prod(a) * b[-1], (1, 2), a[-1], (a[-2], b[-1]))


def _linear(_word: str, shapes: Sequence[Shape], _result: Shape | None, _values: Sequence[object]) -> Product:
    """Return the product of an input (..., k) with a weight (n, k), or with (k) for one result: the shapes are those of
    input and weight, the factors 0 and 1, and sums have length k."""
    # (..., k) x (n, k), or (k) for one result
    x, w = shapes[0], shapes[1]
    made = (*x[:-1], *w[:-1])
    return Product(2 * math.prod(made) * x[-1], (0, 1), x[-1], made)


def _grouped(_word: str, shapes: Sequence[Shape], result: Shape | None, _values: Sequence[object]) -> Product:
    """Return the product of matrices by group, as the numbers of axes tell.

    (m, k) x (group, k, n): rows by group; (group, m, k) x (k, n): columns; (m, k) x (k, n): sums. Each takes 2 m k n
    FLOPs, as every row, column or term of a sum belongs to one group. The factors are 0 and 1, the stated length of
    sums is k, and the shape is ``result`` where that is given.
    """
    # (m, k) x (group, k, n), rows by group; (group, m, k) x (k, n), columns by group; (m, k) x (k, n), sums by group
    a, b = shapes[0], shapes[1]
    columns_grouped = len(a) == 3 and len(b) == 2
    flops = 2 * math.prod(a[1:] if columns_grouped else a) * b[-1]
    made = a[:-1] if len(b) == 3 else a[1:-1]
    return Product(flops, (0, 1), a[-1], result or (*made, b[-1]))


def _einsum(_word: str, shapes: Sequence[Shape], result: Shape | None, values: Sequence[object]) -> Product | None:
    """Return the product that an equation, the first text among ``values``, states, all factors multiplied at once: two
    FLOPs for each combination of the labels' values, sums over all labels that the result lacks; None where not each
    axis of each operand has one label, as with ``...``."""
    equation = next((value for value in values if isinstance(value, str)), "").replace(" ", "")
    terms, _, made = equation.partition("->")
    labels = terms.split(",")
    if "." in equation or len(labels) != len(shapes) or any(len(t) != len(s) for t, s in zip(labels, shapes)):  # noqa: B905
        return None
    sizes = {label: size for term, shape in zip(labels, shapes, strict=True) for label, size in zip(term, shape)}  # noqa: B905
    kept = made if "->" in equation else "".join(sorted(c for c in sizes if terms.count(c) == 1))
    summed = math.prod(size for label, size in sizes.items() if label not in kept)
    shape = tuple(sizes[label] for label in kept)
    return Product(2 * math.prod(sizes.values()), tuple(range(len(shapes))), summed, result or shape)


def _convolution(word: str, shapes: Sequence[Shape], result: Shape | None, values: Sequence[object]) -> Product | None:
    """Return the product of a convolution: each weight meets every position of the output in every sample.

    Transposed, every position of the input: so says the word, or the first truth value among the arguments of a general
    ``convolution``. None where the result's shape is neither given nor follows from stride, padding and dilation; a
    transposed one needs none, and its shape is then None. The factors are 0 and 1; sums are as long as the weight has
    elements for one index of its first axis.
    """
    x, w = shapes[0], shapes[1]
    transposed = "transpose" in word
    if word in ("convolution", "convolution_overrideable"):  # others have flags of another meaning
        transposed = next((value for value in values if isinstance(value, bool)), False)
    outer = x if transposed else result or convolved_shape(x, w, values)
    if outer is None:
        return None
    made = result or (None if transposed else outer)
    return Product(2 * math.prod(outer) * math.prod(w[1:]), (0, 1), math.prod(w[1:]), made)


def convolved_shape(x: Shape, w: Shape, values: Sequence[object]) -> Shape | None:
    """Return the shape of a convolution's result from the shapes of input and weight and from its stride, padding and
    dilation, the first three lists of integers among ``values`` (one entry for each axis, or one for all); None where
    there are fewer lists."""
    lists = [value for value in values if isinstance(value, (list, tuple)) and all(type(v) is int for v in value)]
    if len(lists) < 3:
        return None
    stride, padding, dilation = (
        tuple(entry) * (len(w) - 2) if len(entry) == 1 else tuple(entry) for entry in lists[:3]
    )
    spatial = [
        (size + 2 * pad - gap * (kernel - 1) - 1) // step + 1
        for size, kernel, step, pad, gap in zip(x[2 - len(w) :], w[2:], stride, padding, dilation, strict=True)
    ]
    return (*x[: len(x) - len(w) + 1], w[0], *spatial)


def _convolution_backward(
    word: str, shapes: Sequence[Shape], _result: Shape | None, values: Sequence[object]
) -> Product:
    """Return the products of the gradients of input and weight that a mask asks for (both without one), each as large
    as the forward one.

    Shapes are those of the gradient of the output, the input and the weight; the mask is the last list of truth values.
    Transposed, by the word or the first truth value among ``values``, positions of the input count, else of the output.
    The result has no factors and the input's shape.
    """
    # gradient of the output, input, weight; the mask, which comes last, says which gradients are wanted
    masks = [value for value in values if isinstance(value, list) and value and isinstance(value[0], bool)]
    wanted = sum(map(bool, masks[-1][:2])) if masks else 2
    flags = [value for value in values if isinstance(value, bool)]
    outer = shapes[1] if "transpose" in word or any(flags[:1]) else shapes[0]
    kernel = math.prod(shapes[2][1:])
    return Product(2 * math.prod(outer) * kernel * wanted, (), kernel, shapes[1])


def _attention(word: str, shapes: Sequence[Shape], _result: Shape | None, _values: Sequence[object]) -> Product | None:
    """Return the two products of attention, q kᵀ and the weights times v, as one; the backward pass counts twice that,
    without what it recomputes.

    Shapes, (sample, head, T, D) or (sample, T, head, D), are those of q, k and v, in the backward pass behind that of
    the output's gradient. None for sequences of several lengths in one. No mask is taken into account. The factors are
    0 and 2, sums have the length D, and the shape is that of q with the width of v.
    """
    backward = "backward" in word
    q, k, v = shapes[backward], shapes[1 + backward], shapes[2 + backward]
    if word.startswith(_TOKENS_FIRST) and len(q) != 4:
        return None  # sequences of several lengths in one, whose lengths are values
    flops = 2 * math.prod(q[:-1]) * heads_first(word, k)[-2] * (q[-1] + v[-1])
    # Two factors: as many products as the gradient of each of them costs.
    return Product(2 * flops if backward else flops, (0, 2), q[-1], (*q[:-1], v[-1]))


_TOKENS_FIRST = ("flash_attn", "flash_attention", "efficient_attention")


def _recurrent(word: str, shapes: Sequence[Shape], _result: Shape | None, _values: Sequence[object]) -> Product | None:
    """Return the product of all steps and layers, backward twice the forward one; None where the input has not three
    axes, or no weight is a matrix.

    Inputs are (T, B, I) or (B, T, I); each weight, a shape of two axes, meets every token of every sample. The factors
    are 0 and 1, sums have the length I, and the result's shape is empty.
    """
    x = shapes[0]
    rest = shapes[1:3] if "layer" in word else shapes[1:]  # a layer's states follow its weights, as matrices too
    weights = sum(math.prod(shape) for shape in rest if len(shape) == 2)
    if len(x) != 3 or not weights:
        return None
    flops = 2 * math.prod(x[:2]) * weights
    return Product(2 * flops if "backward" in word else flops, (0, 1), x[-1], ())


_RULES: Mapping[_Rule, str] = {
    _matrices(0): "mm bmm matmul linalg_matmul mv dot vdot int_mm scaled_mm scaled_mm_v2",
    _matrices(1): "addmm baddbmm addmv addmm_activation",
    _summed_batch: "addbmm",
    _linear: "linear mkldnn_linear inner",
    _grouped: _KINDS["experts"],
    _einsum: "einsum",
    _convolution: _KINDS["conv"],
    _convolution_backward: "convolution_backward convolution_backward_overrideable mkldnn_convolution_backward "
    "cudnn_convolution_backward miopen_convolution_backward cudnn_convolution_transpose_backward "
    "slow_conv2d_backward slow_conv_transpose2d_backward",
    _attention: f"{_KINDS['attention']} flash_attention_backward efficient_attention_backward flash_attn_backward "
    "scaled_dot_product_flash_attention_backward scaled_dot_product_flash_attention_for_cpu_backward "
    "scaled_dot_product_efficient_attention_backward scaled_dot_product_cudnn_attention_backward "
    "scaled_dot_product_fused_attention_overrideable_backward",
    _recurrent: "lstm gru rnn_tanh rnn_relu cudnn_rnn miopen_rnn mkldnn_rnn_layer cudnn_rnn_backward "
    "miopen_rnn_backward mkldnn_rnn_layer_backward",
}
_PRODUCTS: Mapping[str, _Rule] = {word: rule for rule, words in _RULES.items() for word in words.split()}
