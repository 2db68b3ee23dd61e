"""The table of operators, word by word: rules, moves, kinds and products that are worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from lightloom.models.operator_words import (
    KIND_OF_WORD,
    VIEWS,
    Product,
    attention_sizes,
    convolution_sizes,
    convolved_shape,
    experts_dimensions,
    flattened_sizes,
    has_rule,
    heads_first,
    is_move,
    kind_of,
    plain_word,
    product,
)

Shape = tuple[int, ...]


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("aten::mm", "mm"),
        ("a::b::mm.out", "mm"),
        ("mm.out.more", "mm"),
        ("relu_", "relu"),
        ("_int_mm", "int_mm"),
        ("__iadd__", "add"),
        ("__add__", "add"),
        ("__isub__", "sub"),
        ("__imul__", "mul"),
        ("__itruediv__", "truediv"),
        ("__imatmul__", "matmul"),
        ("__invert__", "invert"),
        ("__iadd", "iadd"),
        ("iadd__", "iadd"),
        ("iadd", "iadd"),
        ("__ior__", "ior"),
    ],
)
def test_words_are_names_without_what_surrounds_them(name: str, word: str) -> None:
    assert plain_word(name) == word


@pytest.mark.parametrize(
    ("name", "move", "rule"),
    [
        ("aten::clone", True, True),
        ("clone.out", True, True),
        ("cat", True, True),
        ("view", False, True),
        ("aten::t", False, True),
        ("relu_", False, True),
        ("mm", False, True),
        ("aten::convolution_backward", False, True),
        ("lstm", False, True),
        ("layer_norm", False, True),
        ("nonesuch", False, False),
        # Kinds that multiply, of which no rule says how much.
        ("bilinear", False, False),
        ("lstm_cell", False, False),
        ("tensordot", False, False),
    ],
)
def test_calls_move_or_have_a_rule(name: str, move: bool, rule: bool) -> None:
    assert (is_move(name), has_rule(name)) == (move, rule)


def test_each_word_has_one_kind_and_is_no_view() -> None:
    assert KIND_OF_WORD["addmm"] == "matmul" and KIND_OF_WORD["rms_norm"] == "norm" and "view" not in KIND_OF_WORD
    assert not VIEWS & KIND_OF_WORD.keys()


@pytest.mark.parametrize(
    ("word", "products", "calls", "summands", "stacked", "kind"),
    [
        ("bmm", [], [], 0, True, "experts"),
        ("bmm", [], ["bmm"], 0, False, "elementwise"),
        ("mm", ["mm"], ["mm"], 0, True, "matmul"),
        ("relu", ["aten::_grouped_mm"], [], 0, False, "experts"),
        ("relu", ["mm", "_grouped_mm"], [], 0, False, "experts"),
        ("relu", ["aten::_scaled_mm"], [], 0, False, "linear"),
        ("relu", ["mm", "_scaled_mm_v2"], [], 0, False, "linear"),
        ("relu", ["mm"], [], 0, False, "matmul"),
        ("attention", ["bmm", "bmm"], [], 0, False, "attention"),
        ("lstm", ["mm"], [], 0, False, "recurrent"),
        ("mine", ["mm", "conv2d"], [], 0, False, "conv"),
        ("mul", ["mm", "conv2d"], [], 0, False, "conv"),
        ("mul", ["mm"], [], 0, False, "matmul"),
        ("norm", ["conv2d"], [], 0, False, "matmul"),
        ("add", [], ["add"], 3, False, "add"),
        ("add", [], ["add"], 2, False, "add"),
        ("add", [], ["clone"], 1, False, "copy"),
        ("mul", [], ["mul"], 2, False, "elementwise"),
        ("mine", [], ["clone", "cat"], 2, False, "copy"),
        ("mine", [], ["clone", "mul"], 2, False, "elementwise"),
        ("linear", [], ["mul"], 1, False, "elementwise"),
        ("linear", [], ["clone"], 1, False, "copy"),
        ("softmax", [], ["clone"], 1, False, "softmax"),
        ("dropout", [], [], 2, False, "dropout"),
    ],
)
def test_one_operator_has_one_kind(
    word: str, products: list[str], calls: list[str], summands: int, stacked: bool, kind: str
) -> None:
    assert kind_of(word, products, calls, summands, stacked=stacked) == kind
    assert stacked or kind_of(word, products, calls, summands) == kind


@pytest.mark.parametrize(
    ("name", "shapes", "result", "values", "expected"),
    [
        ("aten::mm", [(2, 3), (3, 5)], None, [], Product(60, (0, 1), 3, (2, 5))),
        ("bmm", [(7, 2, 3), (7, 3, 5)], None, [], Product(420, (0, 1), 3, (7, 2, 5))),
        ("matmul", [(2, 3), (11, 3, 5)], None, [], Product(660, (0, 1), 3, (11, 2, 5))),
        ("matmul", [(3,), (11, 3, 5)], None, [], Product(330, (0, 1), 3, (11, 5))),
        ("mv", [(2, 3), (3,)], None, [], Product(12, (0, 1), 3, (2,))),
        ("baddbmm", [(7, 2, 5), (7, 2, 3), (7, 3, 5)], None, [], Product(420, (1, 2), 3, (7, 2, 5))),
        ("addbmm", [(2, 5), (7, 2, 3), (7, 3, 5)], None, [], Product(420, (1, 2), 3, (2, 5))),
        ("linear", [(11, 2, 3), (5, 3), (5,)], None, [], Product(660, (0, 1), 3, (11, 2, 5))),
        ("linear", [(2, 3), (3,)], None, [], Product(12, (0, 1), 3, (2,))),
        ("linear", [(3,), (5, 3)], None, [], Product(30, (0, 1), 3, (5,))),
        ("grouped_mm", [(13, 3), (7, 3, 5)], None, [], Product(390, (0, 1), 3, (13, 5))),
        ("grouped_mm", [(7, 13, 3), (3, 5)], None, [], Product(390, (0, 1), 3, (13, 5))),
        ("grouped_mm", [(13, 3), (3, 5)], (7, 13, 5), [], Product(390, (0, 1), 3, (7, 13, 5))),
        ("grouped_mm", [(7, 13, 3), (7, 3, 5)], None, [], Product(2730, (0, 1), 3, (7, 13, 5))),
        ("einsum", [(2, 3), (3, 5)], None, [7, "ij,jk -> ki"], Product(60, (0, 1), 3, (5, 2))),
        ("einsum", [(2, 3), (3, 5)], None, ["ij,jk"], Product(60, (0, 1), 3, (2, 5))),
        ("einsum", [(5, 3), (3, 2)], None, ["zj,ja"], Product(60, (0, 1), 3, (2, 5))),
        ("einsum", [(2, 3), (2, 3)], None, ["ij,ij"], Product(12, (0, 1), 6, ())),
        ("einsum", [(2, 3), (3, 5)], (1, 9), ["ij,jk->ik"], Product(60, (0, 1), 3, (1, 9))),
        ("lstm", [(7, 11, 3), (20, 3), (20, 5), (20,)], None, [], Product(24640, (0, 1), 3, ())),
        ("mkldnn_rnn_layer", [(7, 11, 3), (20, 3), (20, 5), (11, 5)], None, [], Product(24640, (0, 1), 3, ())),
        ("cudnn_rnn_backward", [(7, 11, 3), (20, 3), (20, 5)], None, [], Product(49280, (0, 1), 3, ())),
        (
            "scaled_dot_product_attention", [(2, 3, 5, 7), (2, 3, 11, 7), (2, 3, 11, 13)], None, [],
            Product(2 * 30 * 11 * 20, (0, 2), 7, (2, 3, 5, 13)),
        ),
        (
            "flash_attention_forward", [(2, 5, 3, 7), (2, 11, 3, 7), (2, 11, 3, 13)], None, [],
            Product(2 * 30 * 11 * 20, (0, 2), 7, (2, 5, 3, 13)),
        ),
        (
            "flash_attention_backward", [(1,), (2, 5, 3, 7), (2, 11, 3, 7), (2, 11, 3, 13)], None, [],
            Product(4 * 30 * 11 * 20, (0, 2), 7, (2, 5, 3, 13)),
        ),
        (
            "attention", [(3, 5, 7), (3, 11, 7), (3, 11, 13)], None, [],
            Product(2 * 15 * 11 * 20, (0, 2), 7, (3, 5, 13)),
        ),
        ("conv1d", [(2, 3, 17), (5, 3, 4)], (2, 5, 7), [], Product(2 * 70 * 12, (0, 1), 12, (2, 5, 7))),
        ("conv1d", [(2, 3, 17), (5, 3, 4)], None, [[2], [1], [1]], Product(2 * 80 * 12, (0, 1), 12, (2, 5, 8))),
        ("conv_transpose1d", [(2, 3, 17), (3, 5, 4)], (2, 5, 20), [], Product(2 * 102 * 20, (0, 1), 20, (2, 5, 20))),
        ("conv_transpose1d", [(2, 3, 17), (3, 5, 4)], None, [], Product(2 * 102 * 20, (0, 1), 20, None)),
        (
            "convolution_overrideable", [(2, 3, 17), (3, 5, 4)], (2, 5, 20), [[1], [0], [1], True],
            Product(2 * 102 * 20, (0, 1), 20, (2, 5, 20)),
        ),
        (
            "convolution", [(2, 3, 17), (5, 3, 4)], (2, 5, 7), [[1], [0], [1], False, [0], 1],
            Product(2 * 70 * 12, (0, 1), 12, (2, 5, 7)),
        ),
        ("convolution", [(2, 3, 17), (5, 3, 4)], (2, 5, 7), [], Product(2 * 70 * 12, (0, 1), 12, (2, 5, 7))),
        ("cudnn_convolution", [(2, 3, 17), (5, 3, 4)], (2, 5, 7), [True], Product(2 * 70 * 12, (0, 1), 12, (2, 5, 7))),
        (
            "convolution_backward", [(2, 5, 7), (2, 3, 17), (5, 3, 4)], None, [],
            Product(2 * 70 * 12 * 2, (), 12, (2, 3, 17)),
        ),
        (
            "convolution_backward", [(2, 5, 7), (2, 3, 17), (5, 3, 4)], None, [[1], False, [True], [False, True, True]],
            Product(2 * 70 * 12, (), 12, (2, 3, 17)),
        ),
        (
            "cudnn_convolution_transpose_backward", [(2, 5, 20), (2, 3, 17), (3, 5, 4)], None, [],
            Product(2 * 102 * 20 * 2, (), 20, (2, 3, 17)),
        ),
        (
            "convolution_backward", [(2, 5, 20), (2, 3, 17), (3, 5, 4)], None, [[1], True, False, [True, False]],
            Product(2 * 102 * 20, (), 20, (2, 3, 17)),
        ),
        (
            "convolution_backward", [(2, 5, 7), (2, 3, 17), (5, 3, 4)], None, [[1], False, True, []],
            Product(2 * 70 * 12 * 2, (), 12, (2, 3, 17)),
        ),
        # The last list that begins with a truth value is the mask.
        (
            "convolution_backward", [(2, 5, 7), (2, 3, 17), (5, 3, 4)], None, [[False, False], [False, True], [0, 1]],
            Product(2 * 70 * 12, (), 12, (2, 3, 17)),
        ),
        (
            "convolution_backward", [(2, 5, 7), (2, 3, 17), (5, 3, 4)], None, [[0, True]],
            Product(2 * 70 * 12 * 2, (), 12, (2, 3, 17)),
        ),
        # Values that all keys share.
        (
            "attention", [(3, 5, 7), (3, 11, 7), (3, 1, 13)], None, [],
            Product(2 * 15 * 11 * 20, (0, 2), 7, (3, 5, 13)),
        ),
        # Too little is known, or nothing fits.
        ("relu", [(2, 3)], None, [], None),
        ("mm", [(2, 3)], None, [], None),
        ("matmul", [(2, 3, 4), (5, 4, 6)], None, [], None),
        ("einsum", [(2, 3)], None, [], None),
        ("einsum", [(2, 3), (3, 5)], None, ["ij,jk,kl->il"], None),
        ("einsum", [(2, 3), (3, 5)], None, ["ij,jkl->il"], None),
        ("einsum", [(2, 3), (3, 5)], None, ["...j,jk->...k"], None),
        ("conv1d", [(2, 3, 17), (5, 3, 4)], None, [[2], [1]], None),
        ("lstm", [(7, 3), (20, 3)], None, [], None),
        ("lstm", [(7, 11, 3), (20,)], None, [], None),
        ("mkldnn_rnn_layer", [(7, 11, 3), (20,), (20,), (11, 5)], None, [], None),
        ("efficient_attention_forward", [(10, 3, 7), (22, 3, 7), (22, 3, 13)], None, [], None),
    ],
)  # fmt: skip
def test_products_of_unequal_axes(
    name: str, shapes: list[Shape], result: Shape | None, values: list[Any], expected: Product | None
) -> None:
    assert product(name, shapes, result, values) == expected


@pytest.mark.parametrize(
    ("x", "w", "values", "made"),
    [
        ((2, 3, 17), (5, 3, 4), [[1], [0], [1]], (2, 5, 14)),
        ((2, 3, 17), (5, 3, 4), [[3], [2], [5]], (2, 5, 2)),
        ((3, 17), (5, 3, 4), [(1,), (0,), (1,)], (5, 14)),
        ((2, 3, 17, 19), (5, 3, 4, 2), [[1, 2], [3, 0], [2, 1]], (2, 5, 17, 9)),
        ((2, 3, 17, 19), (5, 3, 4, 2), [[1], [0], [1]], (2, 5, 14, 18)),
        ((2, 3, 17), (5, 3, 4), [[True], "same", [1], [0], [1]], (2, 5, 14)),
        ((2, 3, 17), (5, 3, 4), [[1, None], [2, "same"], [1], [0], [1], [3]], (2, 5, 14)),
        ((2, 3, 17), (5, 3, 4), [[1], [0]], None),
        ((2, 3, 17), (5, 3, 4), [1, 0, 1], None),
    ],
)
def test_shapes_of_convolutions_follow_from_strides(x: Shape, w: Shape, values: list[Any], made: Shape | None) -> None:
    assert convolved_shape(x, w, values) == made


def test_heads_stand_before_tokens() -> None:
    for name in ("flash_attn_forward", "aten::_flash_attention_forward", "_efficient_attention_forward"):
        assert heads_first(name, (2, 5, 3, 7)) == (2, 3, 5, 7)
        assert heads_first(name, (2, 5, 3)) == (2, 5, 3)
    assert heads_first("scaled_dot_product_attention", (2, 5, 3, 7)) == (2, 5, 3, 7)


def test_sizes_are_named_by_what_they_count() -> None:
    assert experts_dimensions((3, 14, 5), 7, 3, 11) == {
        "sample": 7, "expert": 3, "sequence": 2, "channel": 5, "in_channel": 11,
    }  # fmt: skip
    assert experts_dimensions((42, 5), 7, 3, 11)["sequence"] == 2
    assert experts_dimensions((42, 5), None, 3, 11)["sequence"] == 14
    assert experts_dimensions((2, 5), None, 3, 11)["sequence"] == 1
    assert flattened_sizes((21, 5), 7) == {"sample": 7, "sequence": 3, "channel": 5}
    assert flattened_sizes((7, 5), 7) == {"sample": 7, "sequence": 1, "channel": 5}
    assert flattened_sizes((21, 5, 3), 7) == {"sample": 7, "sequence": 3, "axis_1": 5, "axis_2": 3}
    assert flattened_sizes((21,), 7) == {"sample": 7, "sequence": 3}
    assert flattened_sizes((5, 3), 7) == {"sample": 7, "axis_1": 5, "axis_2": 3}
    assert flattened_sizes((0, 3), 7) == {"sample": 7, "axis_2": 3}
    assert flattened_sizes((), 7) == {"sample": 7}
    sizes = {"sequence": 5, "key_sequence": 11, "head_dim": 7}
    assert attention_sizes((2, 6, 5, 7), (2, 3, 11, 7), 2) == {"sample": 2, "head": 6, "key_head": 3, **sizes}
    assert attention_sizes((2, 3, 5, 7), (2, 6, 11, 7), 2) == {"sample": 2, "head": 3, **sizes}
    assert attention_sizes((2, 3, 5, 7), (2, 3, 11, 7), None) == {"head": 6, **sizes}
    assert attention_sizes((3, 5, 7), (2, 11, 7), 13) == {"sample": 13, "head": 1, "key_head": 2, **sizes}
    assert attention_sizes((5, 7), (2, 11, 7), None) == {"head": 1, **sizes}
    assert attention_sizes((3, 5, 7), (11, 7), None) == {"head": 3, **sizes}
    assert flattened_sizes((7, 1), 7) == {"sample": 7, "sequence": 1, "channel": 1}


@pytest.mark.parametrize(
    ("inputs", "weight", "outputs", "expected"),
    [
        ((2, 6, 17), (5, 6, 4), (2, 5, 14), {"in_channel": 6, "kernel_length": 4, "groups": 1}),
        ((6, 17), (5, 6, 4), (5, 14), {"in_channel": 6, "kernel_length": 4, "groups": 1}),
        ((2, 6, 17), (10, 3, 4), (2, 10, 14), {"in_channel": 6, "kernel_length": 4, "groups": 2}),
        ((2, 6, 17), (6, 5, 4), (2, 5, 20), {"in_channel": 6, "kernel_length": 4, "groups": 1}),
        ((2, 6, 17), (6, 5, 4), (2, 10, 20), {"in_channel": 6, "kernel_length": 4, "groups": 2}),
        ((6, 17), (6, 5, 4), (5, 20), {"in_channel": 6, "kernel_length": 4, "groups": 1}),
        ((2, 15, 17), (15, 5, 5), (2, 5, 20), {"in_channel": 15, "kernel_length": 5, "groups": 1}),
        ((2, 6, 17), (6, 5, 2), (2, 15, 20), {"in_channel": 6, "kernel_length": 2, "groups": 3}),
        ((2, 6, 17), (9, 3, 4), (2, 5, 20), {"in_channel": 6, "kernel_length": 4, "groups": 2}),
        ((2, 6, 17), (6, 3, 4), (2, 6, 14), {"in_channel": 6, "kernel_length": 4, "groups": 2}),
        (
            (2, 6, 17, 19), (5, 6, 4, 2), (2, 5, 14, 18),
            {"in_channel": 6, "kernel_height": 4, "kernel_width": 2, "groups": 1},
        ),
        (
            (2, 6, 17, 19, 23), (5, 6, 4, 2, 3), (2, 5, 14, 18, 21),
            {"in_channel": 6, "kernel_depth": 4, "kernel_height": 2, "kernel_width": 3, "groups": 1},
        ),
        ((2, 1, 17), (5, 3, 4), (2, 5, 14), {"in_channel": 1, "kernel_length": 4, "groups": 1}),
    ],
)  # fmt: skip
def test_convolutions_name_their_channels_kernels_and_groups(
    inputs: Shape, weight: Shape, outputs: Shape, expected: dict[str, int]
) -> None:
    assert convolution_sizes(inputs, weight, outputs) == expected
