"""A small decoder counted by hand, no two of whose sizes are equal, and the sizes that contradict each other."""

from __future__ import annotations

from typing import Any

import pytest

from lightloom.core.errors import WorkloadError
from lightloom.models.decoder import DecoderSizes, LatentAttention, TransformerSizes, transformer_graph
from lightloom.models.graph import ComputeGraph

SIZES = TransformerSizes(hidden=14, layers=2, heads=2, ffn=11, vocabulary=23, sequence_length=5)
BATCH = 3
TOKENS = BATCH * 5


@pytest.fixture(scope="module")
def graph() -> ComputeGraph:
    return transformer_graph(SIZES, BATCH)


def test_operators_of_a_decoder_stand_in_their_order(graph: ComputeGraph) -> None:
    layer = [
        "norm1", "qkv", "attention", "flatten", "projection", "dropout1", "add", "norm2", "up", "gelu", "down",
        "dropout2", "add#2",
    ]  # fmt: skip
    names = [f"layers.{number}.{name}" for number in (0, 1) for name in layer]
    assert [each.name for each in graph.operators] == [
        "input.tokens", "tokens", "positions", "add", "dropout", *names, "norm", "head",
    ]  # fmt: skip
    assert (graph.name, graph.batch, graph.element_bytes) == ("transformer", BATCH, 4)
    assert transformer_graph(SIZES, 1, "mine").name == "mine"


@pytest.mark.parametrize(
    ("name", "kind", "inputs", "width", "flops", "parameters", "read", "fixed"),
    [
        ("tokens", "embedding", ["input.tokens"], 14, (0, 0), 23 * 14, 14 + 1, 0),
        ("add", "add", ["tokens", "positions"], 14, (14, 14), 0, 14, 5 * 14),
        ("dropout", "dropout", ["add"], 14, (28, 14), 0, 14, 0),
        ("layers.0.norm1", "norm", ["dropout"], 14, (14, 14), 28, 14, 28),
        ("layers.0.qkv", "linear", ["layers.0.norm1"], 42, (2 * 14 * 42, 4 * 14 * 42), 15 * 42, 14, 15 * 42),
        ("layers.0.attention", "attention", ["layers.0.qkv"], 14, (4 * 5 * 14, 8 * 5 * 14), 0, 42, 0),
        ("layers.0.flatten", "copy", ["layers.0.attention"], 14, (0, 0), 0, 14, 0),
        ("layers.0.projection", "linear", ["layers.0.flatten"], 14, (2 * 14 * 14, 4 * 14 * 14), 210, 14, 210),
        ("layers.0.dropout1", "dropout", ["layers.0.projection"], 14, (28, 14), 0, 14, 0),
        ("layers.0.add", "add", ["dropout", "layers.0.dropout1"], 14, (14, 14), 0, 28, 0),
        ("layers.0.norm2", "norm", ["layers.0.add"], 14, (14, 14), 28, 14, 28),
        ("layers.0.up", "linear", ["layers.0.norm2"], 11, (2 * 14 * 11, 4 * 14 * 11), 15 * 11, 14, 15 * 11),
        ("layers.0.gelu", "activation", ["layers.0.up"], 11, (11, 11), 0, 11, 0),
        ("layers.0.down", "linear", ["layers.0.gelu"], 14, (2 * 11 * 14, 4 * 11 * 14), 12 * 14, 11, 12 * 14),
        ("layers.0.dropout2", "dropout", ["layers.0.down"], 14, (28, 14), 0, 14, 0),
        ("layers.0.add#2", "add", ["layers.0.add", "layers.0.dropout2"], 14, (14, 14), 0, 28, 0),
        ("layers.1.norm1", "norm", ["layers.0.add#2"], 14, (14, 14), 28, 14, 28),
        ("layers.1.add", "add", ["layers.0.add#2", "layers.1.dropout1"], 14, (14, 14), 0, 28, 0),
        ("norm", "norm", ["layers.1.add#2"], 14, (14, 14), 28, 14, 28),
        ("head", "linear", ["norm"], 23, (2 * 14 * 23, 4 * 14 * 23), 0, 14, 23 * 14),
    ],
)
def test_each_operator_counts_for_each_token(
    graph: ComputeGraph, name: str, kind: str, inputs: list[str], width: int, flops: tuple[int, int], parameters: int,
    read: int, fixed: int,
) -> None:  # fmt: skip
    """FLOPs and elements read for each token, and parameters and what no batch changes once."""
    found = graph.operator(name)
    assert (found.kind, list(found.inputs), found.block) == (kind, inputs, name.rpartition(".")[0])
    assert (found.forward_flops, found.backward_flops) == (flops[0] * TOKENS, flops[1] * TOKENS)
    assert (found.parameters, found.parameter_bytes) == (parameters, 4 * parameters)
    assert found.activation_bytes == 4 * TOKENS * width
    assert (found.shared_bytes, found.forward_bytes) == (4 * fixed, 4 * (TOKENS * (read + width) + fixed))
    assert found.causal is (kind == "attention")
    if kind != "attention":
        summed = {"in_channel": read} if kind == "linear" else {}
        assert found.dimensions == {"sample": BATCH, "sequence": 5, "channel": width, **summed}


def test_tokens_positions_and_heads_are_sized(graph: ComputeGraph) -> None:
    tokens, positions = graph.operator("input.tokens"), graph.operator("positions")
    assert (tokens.kind, tokens.activation_bytes, tokens.forward_bytes) == ("input", 4 * TOKENS, 0)
    assert tokens.dimensions == {"sample": BATCH, "sequence": 5}
    assert (positions.kind, positions.inputs, positions.parameters) == ("embedding", (), 5 * 14)
    assert positions.dimensions == {"axis_0": 5, "axis_1": 14}
    assert positions.parameter_bytes == positions.activation_bytes == 4 * 5 * 14
    assert positions.forward_bytes == 4 * (2 * 5 * 14 + 5) and positions.shared_bytes == 4 * (5 * 14 + 5)
    assert graph.operator("layers.1.attention").dimensions == {
        "sample": BATCH, "sequence": 5, "head": 2, "key_sequence": 5, "head_dim": 7,
    }  # fmt: skip


def test_parameters_of_a_decoder_are_those_of_its_layers(graph: ComputeGraph) -> None:
    layer = 2 * 28 + 15 * 42 + 15 * 14 + 15 * 11 + 12 * 14
    assert graph.parameters == (23 + 5) * 14 + 2 * layer + 28
    none = transformer_graph(
        TransformerSizes(hidden=14, layers=0, heads=2, ffn=11, vocabulary=23, sequence_length=5), 1
    )
    assert none.parameters == 28 * 14 + 28 and none.operator("norm").inputs == ("dropout",)


def test_another_batch_is_the_same_graph_scaled(graph: ComputeGraph) -> None:
    assert transformer_graph(SIZES, 7) == graph.with_batch(7)


PLAIN: dict[str, Any] = {"layers": 2, "hidden": 12, "heads": 4, "vocabulary": 23, "sequence_length": 5, "ffn": 11}
LATENT = LatentAttention(query_rank=None, key_rank=3, plain_width=5, rotated_width=2, value_width=7)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"layers": 10_001}, "10,001 layers: expected at most 10,000"),
        ({"experts": 10_001}, "10,001 experts: expected at most 10,000"),
        ({"hidden": 13}, "4 heads: expected a divisor of the hidden size 13"),
        ({"key_heads": 3}, "3 heads of keys: expected a divisor of the 4 heads"),
        ({"key_heads": 8}, "8 heads of keys: expected a divisor of the 4 heads"),
        ({"experts": 3, "visited": 4}, "4 experts a token: expected 1 to 3"),
        ({"experts": 3, "visited": 0}, "0 experts a token: expected 1 to 3"),
        ({"experts": 1}, "2 experts a token: expected 1 to 1"),
        ({"table_length": 4}, "sequence length 5: the table of positions holds 4"),
    ],
)
def test_sizes_that_contradict_each_other_are_refused(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(WorkloadError) as refused:
        DecoderSizes(**PLAIN | change)
    assert str(refused.value) == complaint


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"layers": 10_000},
        {"experts": 10_000},
        {"hidden": 13, "head_width": 5},
        {"hidden": 13, "latent": LATENT},
        {"key_heads": 1},
        {"key_heads": 2},
        {"key_heads": 4},
        {"experts": 3, "visited": 3},
        {"experts": 3, "visited": 1},
        {"experts": 0, "visited": 7},
        {"table_length": 5},
        {"table_length": 6},
    ],
)
def test_the_last_sizes_that_fit_are_taken(change: dict[str, Any]) -> None:
    sizes = DecoderSizes(**PLAIN | change)
    assert all(getattr(sizes, name) == value for name, value in (PLAIN | change).items())


def test_a_decoder_is_a_plain_one_unless_it_says_otherwise() -> None:
    sizes = DecoderSizes(**PLAIN)
    assert (sizes.bias, sizes.joined_gate, sizes.rotary) == (True, True, True)
    flags = ("gated", "joined_query", "head_norms", "tied", "shared_gate")
    assert [getattr(sizes, name) for name in flags] == [False] * 5
    assert (sizes.norm, sizes.rotary_base, sizes.dropout, sizes.visited) == ("layer", 10_000.0, 0.0, 2)
    assert (sizes.experts, sizes.shared_ffn, sizes.dense_layers, sizes.latent) == (0, 0, (), None)
