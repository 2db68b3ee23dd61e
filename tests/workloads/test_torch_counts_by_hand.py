"""Operators of small modules with every count worked out by hand: FLOPs, bytes, what autograd keeps, names."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from lightloom.models.graph import Operator
from lightloom.models.torch.recorder import _grouped_shape, _normalizes
from lightloom.models.torch.trace import trace


def operators(module: nn.Module, *inputs: Tensor, batch: int = 5) -> dict[str, Operator]:
    return {operator.name: operator for operator in trace(module, inputs, batch=batch, name="x").operators}


def counts(operator: Operator) -> dict[str, int]:
    """The counts that are not 0."""
    names = ("forward_flops", "backward_flops", "parameters", "parameter_bytes", "activation_bytes", "forward_bytes",
             "shared_bytes", "saved_bytes", "saved_shared_bytes", "saved_index_bytes", "recomputed_flops",
             "recomputed_bytes", "recomputed_shared_bytes")  # fmt: skip
    return {name: getattr(operator, name) for name in names if getattr(operator, name)}


class Layers(nn.Module):
    """Five samples of 3 features to 4 and back to 2, with a sum in between."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 2, bias=False)
        self.shift = nn.Parameter(torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        return self.second(F.relu(self.first(x)) + self.shift)  # type: ignore[no-any-return]


def test_layers_count_products_elements_and_what_is_kept_for_their_gradients() -> None:
    """Elements of 4 bytes: the input has 15, the first layer 12 + 4 parameters and 20 results, the second 8 and 10."""
    made = operators(Layers(), torch.zeros(5, 3))
    assert list(made) == ["input.x", "first", "relu", "add", "second"]
    # The first layer keeps its input for the gradient of its weights, the second what it reads, relu its result.
    assert counts(made["input.x"]) == {"activation_bytes": 60, "saved_bytes": 60}
    assert counts(made["first"]) == {
        "forward_flops": 2 * 5 * 3 * 4,
        "backward_flops": 2 * 5 * 3 * 4,
        "parameters": 16,
        "parameter_bytes": 64,
        "activation_bytes": 80,
        "forward_bytes": 4 * (15 + 16 + 20),
        "shared_bytes": 64,
    }
    assert counts(made["relu"]) == {
        "forward_flops": 20,
        "backward_flops": 20,
        "activation_bytes": 80,
        "forward_bytes": 160,
        "saved_bytes": 80,
    }
    assert counts(made["add"]) == {
        "forward_flops": 20,
        "backward_flops": 20,
        "parameters": 4,
        "parameter_bytes": 16,
        "activation_bytes": 80,
        "forward_bytes": 4 * (20 + 4 + 20),
        "shared_bytes": 16,
        "saved_bytes": 80,
    }
    # Gradients of its weights and of what it reads.
    assert counts(made["second"]) == {
        "forward_flops": 2 * 5 * 4 * 2,
        "backward_flops": 2 * 2 * 5 * 4 * 2,
        "parameters": 8,
        "parameter_bytes": 32,
        "activation_bytes": 40,
        "forward_bytes": 4 * (20 + 8 + 10),
        "shared_bytes": 32,
    }
    assert [each.inputs for each in made.values()] == [(), ("input.x",), ("first",), ("relu",), ("add",)]
    assert made["first"].dimensions == {"sample": 5, "channel": 4, "in_channel": 3}
    assert made["add"].dimensions == {"sample": 5, "channel": 4}
    assert [each.kind for each in made.values()] == ["input", "linear", "activation", "elementwise", "linear"]


class Twice(nn.Module):
    """One layer that is called twice, and functions of one name."""

    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Sequential(nn.Linear(3, 3))

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.block(torch.tanh(self.block(x))))


def test_names_are_paths_of_modules_numbered_where_they_come_again_and_parameters_count_once() -> None:
    made = operators(Twice(), torch.zeros(5, 3))
    assert list(made) == ["input.x", "block.0", "tanh", "block.0#2", "tanh#2"]
    assert [made[name].parameters for name in ("block.0", "block.0#2")] == [12, 0]
    assert [made[name].block for name in ("block.0", "tanh")] == ["block", ""]
    # The second time its input has a gradient too; both times it reads its twelve parameters.
    assert made["block.0#2"].backward_flops == 2 * made["block.0"].backward_flops == 2 * 2 * 5 * 3 * 3
    assert made["block.0"].shared_bytes == made["block.0#2"].shared_bytes == 48


class Tables(nn.Module):
    """Rows of tables that are looked up alone, and added up in bags."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.bags = nn.Embedding(50, 4), nn.EmbeddingBag(30, 4, mode="sum")

    def forward(self, tokens: Tensor) -> Tensor:
        return self.words(tokens).sum(dim=1) + self.bags(tokens)  # type: ignore[no-any-return]


def test_tables_are_read_by_rows() -> None:
    """Five samples of three tokens: 15 rows of 4 elements, of which bags add up three each."""
    made = operators(Tables(), torch.zeros(5, 3, dtype=torch.long))
    words, bags = made["words"], made["bags"]
    assert (words.kind, words.parameters, words.forward_flops, words.backward_flops) == ("embedding", 200, 0, 0)
    # Fifteen tokens and as many elements as are written, no element of the table for all samples alike.
    assert words.forward_bytes == 4 * (15 + 60 + 60) and words.shared_bytes == 0
    assert (bags.parameters, bags.forward_flops, bags.backward_flops) == (120, 60, 60)
    assert words.dimensions == {"sample": 5, "sequence": 3, "channel": 4}
    assert made["input.tokens"].dimensions == {"sample": 5, "sequence": 3}


class Constant(nn.Module):
    """Adds what depends on no sample, and scales a part of it in place."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(6))

    def forward(self, x: Tensor) -> Tensor:
        bias = torch.exp(self.weight)
        mask = torch.ones(6) * 3
        y = x * mask + bias
        y[:, :2].mul_(2.0)
        return y


def test_what_depends_on_no_sample_is_shared_and_constants_are_no_operators() -> None:
    made = operators(Constant(), torch.zeros(5, 6))
    assert list(made) == ["input.x", "exp", "mul", "add", "mul#2"]
    exp = made["exp"]
    assert exp.dimensions == {"axis_0": 6} and exp.forward_bytes == exp.shared_bytes == 4 * (6 + 6)
    # A constant is read by all samples alike.
    assert made["mul"].forward_bytes == 4 * (30 + 6 + 30) and made["mul"].shared_bytes == 24
    assert made["mul"].backward_flops == 0 and made["add"].backward_flops == 30
    assert made["add"].inputs == ("mul", "exp") and made["add"].shared_bytes == 24
    part = made["mul#2"]
    assert part.inputs == ("add",) and part.forward_flops == 10 and part.activation_bytes == 40
    assert part.forward_bytes == 4 * (10 + 10)


class LocalNorm(nn.Module):
    """A norm in parts."""

    def __init__(self, size: int, axes: int = 1) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones((size,) * axes))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * self.weight


class Normed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(3, 4), LocalNorm(4)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.norm(self.first(x)))


def test_a_norm_in_parts_is_one_operator_that_keeps_its_input_and_a_number_for_each_row() -> None:
    made = operators(Normed(), torch.zeros(5, 3))
    assert list(made) == ["input.x", "first", "norm", "tanh"]
    norm = made["norm"]
    assert (norm.block, norm.parameters) == ("", 4)
    assert made["first"].saved_bytes == 80 and norm.saved_bytes == 0 and norm.saved_index_bytes == 5 * 4
    assert norm.forward_bytes == 4 * (20 + 4 + 20) and norm.shared_bytes == 16 and norm.inputs == ("first",)
    assert _normalizes(LocalNorm(3)) and not _normalizes(LocalNorm(3, 2)) and not _normalizes(nn.LayerNorm(3))
    assert not _normalizes(nn.Sequential()) and not _normalizes(Normed())


class Checkpointed(nn.Module):
    """A region of two layers that is computed again."""

    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.before, self.inside, self.last = nn.Linear(3, 4), nn.Linear(4, 6), nn.Linear(6, 4)
        self.reentrant = reentrant

    def forward(self, x: Tensor) -> Tensor:
        def region(y: Tensor) -> Tensor:
            return self.last(torch.tanh(self.inside(y)))  # type: ignore[no-any-return]

        return torch.tanh(checkpoint(region, self.before(x), use_reentrant=self.reentrant))


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_computes_again_what_it_made_and_keeps_what_enters(reentrant: bool) -> None:
    """Its last product is not repeated where the second pass stops early, as its result is kept by nobody there."""
    made = operators(Checkpointed(reentrant), torch.zeros(5, 3))
    inside, tanh, last = (made[name] for name in ("inside", "tanh", "last"))
    assert {each.checkpoint for each in (inside, tanh, last)} == {"checkpoint"}
    assert made["before"].checkpoint == "" and made["before"].saved_bytes == 80
    assert (inside.recomputed_flops, tanh.recomputed_flops) == (2 * 5 * 4 * 6, 30)
    assert last.recomputed_flops == (2 * 5 * 6 * 4 if reentrant else 0)
    assert inside.backward_flops == 3 * 2 * 5 * 4 * 6 and tanh.backward_flops == 60
    assert (tanh.recomputed_bytes, tanh.saved_bytes) == (120, 0)


def test_a_dropout_keeps_a_byte_for_each_element() -> None:
    class Dropped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.drop = nn.Linear(3, 4), nn.Dropout(0.5)

        def forward(self, x: Tensor) -> Tensor:
            return torch.tanh(self.drop(self.layer(x)))

    made = operators(Dropped().train(), torch.zeros(5, 3))
    assert made["drop"].saved_index_bytes == 20 and made["drop"].kind == "dropout"
    assert list(operators(Dropped().eval(), torch.zeros(5, 3))) == ["input.x", "layer", "tanh"]


@pytest.mark.parametrize(
    ("a", "b", "groups", "shape"),
    [
        ((7, 3), (2, 3, 5), 2, (7, 5)),
        ((2, 7, 3), (3, 5), 2, (7, 5)),
        ((7, 3), (3, 5), 4, (4, 7, 5)),
        ((7, 3), (3, 5), 0, (1, 7, 5)),
    ],
)
def test_grouped_products_have_the_shape_of_their_groups(a: Any, b: Any, groups: int, shape: Any) -> None:
    offsets = torch.zeros(groups, dtype=torch.int32) if groups else None
    found = _grouped_shape(torch.zeros(a), torch.zeros(b), offsets)
    assert tuple(found.shape) == shape and found.dtype == torch.float32
    assert _grouped_shape(torch.zeros(a), torch.zeros(b), offsets, out_dtype=torch.bfloat16).dtype == torch.bfloat16


class Same(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x * 1.0)


@pytest.mark.parametrize(
    ("shape", "whole", "sizes"),
    [
        ((5, 6, 3), False, {"sample": 5, "sequence": 6, "channel": 3}),
        ((5, 3, 8, 7), False, {"sample": 5, "channel": 3, "height": 8, "width": 7}),
        ((5, 3, 2, 8, 7), False, {"sample": 5, "channel": 3, "depth": 2, "height": 8, "width": 7}),
        ((5, 6), True, {"sample": 5, "sequence": 6}),
        ((5,), True, {"sample": 5}),
        ((5, 6), False, {"sample": 5, "channel": 6}),
    ],
)
def test_inputs_are_images_tokens_or_features_by_their_axes(
    shape: tuple[int, ...], whole: bool, sizes: dict[str, int]
) -> None:
    made = operators(Same(), torch.zeros(shape, dtype=torch.long if whole else torch.float32))
    assert made["input.x"].dimensions == sizes and made["input.x"].kind == "input"


class Waves(nn.Module):
    """A convolution over time, behind which axes keep their names."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(3, 2, 3)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.conv(x)).sum(dim=2)


def test_axes_keep_the_names_that_the_input_of_an_operator_has() -> None:
    made = operators(Waves(), torch.zeros(5, 3, 8))
    assert made["conv"].dimensions.items() >= {"sample": 5, "channel": 2, "length": 6}.items()
    assert made["tanh"].dimensions == {"sample": 5, "channel": 2, "length": 6}
    assert made["sum"].dimensions == {"sample": 5, "channel": 2}


class Stack(nn.Module):
    """A matrix for each of four experts, and a product of results alone."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(4, 3, 2))

    def forward(self, x: Tensor) -> Tensor:
        y = torch.bmm(x.transpose(0, 1), self.weight)
        return torch.bmm(y, y.transpose(1, 2))


def test_products_with_a_stack_of_matrices_are_those_of_experts() -> None:
    made = operators(Stack(), torch.zeros(5, 4, 3))
    assert [operator.kind for operator in made.values()][1] == "experts"
    assert made["bmm"].forward_flops == 2 * 4 * 5 * 3 * 2 and made["bmm#2"].kind != "experts"


class Biased(nn.Module):
    """Attention whose scores get a learned bias, of which half is hidden, or one that nothing tells of."""

    def __init__(self, hides: bool) -> None:
        super().__init__()
        self.bias, self.hides = nn.Parameter(torch.zeros(6, 6)), hides

    def forward(self, x: Tensor) -> Tensor:
        bias: Tensor = self.bias
        if self.hides:
            bias = bias.masked_fill(torch.ones(6, 6).triu(1).bool(), -1e9)
        return torch.tanh(F.scaled_dot_product_attention(x, x, x, attn_mask=bias))


@pytest.mark.parametrize("hides", [False, True])
def test_a_learned_bias_hides_nothing_but_what_is_filled_in(hides: bool) -> None:
    graph = trace(Biased(hides), torch.zeros(5, 2, 6, 4), batch=5, name="x")
    (attention,) = [operator for operator in graph.operators if operator.kind == "attention"]
    assert (attention.causal, attention.visible) == (hides, None) and graph.uncounted == ()
    # Scores of ten heads of 6 x 6 tokens, and as many products with what is looked up.
    assert attention.forward_flops == 2 * 2 * 5 * 2 * 6 * 6 * 4


class Summed(nn.Module):
    """A layer without an own axis of samples: what it makes of a sum over them."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 7)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.layer(torch.tanh(x).sum(dim=0)))


def test_what_is_summed_over_samples_does_not_grow_with_them() -> None:
    """Results of seven elements and of three for five samples: read and written once, whatever the batch."""
    made = operators(Summed(), torch.zeros(5, 3))
    assert made["layer"].shared_bytes == 4 * (21 + 7 + 7) and made["layer"].forward_bytes == 4 * (3 + 28 + 7)
    assert made["tanh#2"].shared_bytes == 28 and made["sum"].shared_bytes == 12 and made["tanh"].shared_bytes == 0
