"""Sizes of a decoder as training frameworks configure it, without PyTorch: GPT, Llama, Qwen, mixtures of experts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from lightloom.core.errors import WorkloadError
from lightloom.models.graph import ComputeGraph, Operator

MOST_LAYERS = 10_000
"""Layers, and experts of a layer, that a model may have: far above any that is trained, and soon traced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderSizes:
    """Sizes and choices of a decoder.

    Raises:
        WorkloadError: sizes that contradict each other; the message names them.
    """

    layers: int
    hidden: int
    heads: int
    vocabulary: int
    """Rows of the table of tokens, padding included."""
    sequence_length: int
    ffn: int
    """Inner width of a feed-forward layer."""
    key_heads: int | None = None
    """Heads of keys and values; as many as of queries without it."""
    head_width: int | None = None
    """Channels of a head; ``hidden / heads`` without it."""
    norm: Literal["layer", "rms"] = "layer"
    gated: bool = False
    """True if a feed-forward layer multiplies by a gate (SwiGLU)."""
    joined_gate: bool = True
    """True if gate and inner layer of an expert are one product."""
    bias: bool = True
    """True if linear layers add a bias."""
    query_bias: bool | None = None
    """True if projections to queries, keys and values do; as the others without it."""
    joined_query: bool = False
    """True if queries, keys and values are one product, as Megatron-LM computes them."""
    head_norms: bool = False
    """True if queries and keys are normalized."""
    table_length: int | None = None
    """Rows of a learned table of positions; positions are rotated, or left out, without it."""
    rotary: bool = True
    rotary_base: float = 10_000.0
    tied: bool = False
    """True if the head shares the table of tokens."""
    dropout: float = 0.0
    experts: int = 0
    """Experts of a mixture; none without it."""
    visited: int = 2
    """Experts that a token visits."""
    expert_ffn: int | None = None
    """Inner width of an expert; ``ffn`` without it."""
    shared_ffn: int = 0
    """Inner width of the expert that every token visits."""
    shared_gate: bool = False
    """True if a router weighs the shared expert."""
    dense_layers: tuple[int, ...] = ()
    """Layers of a mixture that have a plain feed-forward layer."""
    latent: LatentAttention | None = None
    """Attention on compressed keys and values, instead of ``key_heads`` and ``head_width``."""

    def __post_init__(self) -> None:
        for name, count in (("layers", self.layers), ("experts", self.experts)):
            if count > MOST_LAYERS:
                raise WorkloadError(f"{count:,} {name}: expected at most {MOST_LAYERS:,}")
        keys, width = self.key_heads or self.heads, self.head_width
        if width is None and self.latent is None and self.hidden % self.heads:
            raise WorkloadError(f"{self.heads} heads: expected a divisor of the hidden size {self.hidden}")
        if self.heads % keys:
            raise WorkloadError(f"{keys} heads of keys: expected a divisor of the {self.heads} heads")
        if self.experts and not 0 < self.visited <= self.experts:
            raise WorkloadError(f"{self.visited} experts a token: expected 1 to {self.experts}")
        if self.table_length is not None and self.sequence_length > self.table_length:
            raise WorkloadError(
                f"sequence length {self.sequence_length}: the table of positions holds {self.table_length}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentAttention:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1)."""

    query_rank: int | None
    """Width of compressed queries; None where queries are not compressed."""
    key_rank: int
    """Width of compressed keys and values."""
    plain_width: int
    """Channels of a head without positions."""
    rotated_width: int
    """Channels of a head with positions; those of keys are shared by all heads."""
    value_width: int


# Graphs of GPT-like transformers from their sizes, without PyTorch.
#
#     tokens + positions ─ [norm ─ qkv ─ attention ─ projection ─ + ─ norm ─ up ─ gelu ─ down ─ +] ... ─ norm ─ head
#
# Equal, operator by operator, to the trace of the zoo's GPT-2 at the same sizes (a test compares them).

_ELEMENT_BYTES = 4
"""Bytes of an element, and of a token, as graphs count them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformerSizes:
    """Sizes of a decoder: GPT-2 and GPT-3 have ``ffn`` four times ``hidden``."""

    hidden: int
    layers: int
    heads: int
    ffn: int
    vocabulary: int
    sequence_length: int


def transformer_graph(sizes: TransformerSizes, batch: int, name: str = "transformer") -> ComputeGraph:
    """Return the graph of a GPT-2-like decoder for ``batch`` samples, without PyTorch: a learned table of positions as
    long as a sequence, layer norms first in each layer, causal attention, and a head that shares the table of tokens.

    The operators are those of the forward pass, each with the FLOPs of its backward pass. Elements and tokens count 4
    bytes each; there is no loss.
    """
    return ComputeGraph(name=name, batch=batch, operators=tuple(_operators(sizes, batch)), element_bytes=_ELEMENT_BYTES)


def _operators(sizes: TransformerSizes, batch: int) -> Iterator[Operator]:
    """Yield the operators of the forward pass of :func:`transformer_graph` in order, from the tokens of ``batch``
    samples to the head."""
    hidden, ffn, sequence = sizes.hidden, sizes.ffn, sizes.sequence_length
    tokens, row = batch * sequence, sequence * hidden * _ELEMENT_BYTES

    def operator(
        name: str, kind: str, inputs: Sequence[str], width: int, flops: tuple[int, int] = (0, 0), *,
        read: int | None = None, parameters: int = 0, fixed: int | None = None, **sizes: int,
    ) -> Operator:  # fmt: skip
        """Return an operator whose output is (sample, token, ``width``).

        Args:
            name: of the operator; what stands before its last dot is its block.
            kind: of the operator.
            inputs: names of the operators that it reads.
            width: channels of its output.
            flops: forward and backward for each element of its output.
            read: elements that it reads for each token; by default each of its inputs once.
            parameters: number of parameters first used here.
            fixed: elements that it reads of what no batch changes; by default its parameters.
            sizes: further dimensions.
        """
        per_token = (len(inputs) * width if read is None else read) + width
        shared = (parameters if fixed is None else fixed) * _ELEMENT_BYTES
        return Operator(
            name=name,
            kind=kind,
            inputs=tuple(inputs),
            dimensions={"sample": batch, "sequence": sequence, "channel": width, **sizes},
            forward_flops=flops[0] * tokens * width,
            backward_flops=flops[1] * tokens * width,
            parameters=parameters,
            parameter_bytes=parameters * _ELEMENT_BYTES,
            activation_bytes=tokens * width * _ELEMENT_BYTES,
            forward_bytes=tokens * per_token * _ELEMENT_BYTES + shared,
            shared_bytes=shared,
            block=name.rpartition(".")[0],
        )

    def linear(name: str, source: str, width: int, channels: int) -> Operator:
        """Return a linear layer with bias from ``width`` to ``channels``, which reads the result of ``source``."""
        flops, weights = (2 * width, 4 * width), (width + 1) * channels
        return operator(name, "linear", [source], channels, flops, read=width, parameters=weights, in_channel=width)

    def norm(name: str, source: str) -> Operator:
        """Return a layer norm with weight and bias over the hidden size, which reads the result of ``source``."""
        return operator(name, "norm", [source], hidden, (1, 1), parameters=2 * hidden)

    samples = {"sample": batch, "sequence": sequence}
    yield Operator(name="input.tokens", kind="input", dimensions=samples, activation_bytes=tokens * _ELEMENT_BYTES)
    # Rows are looked up: the table is not read as a whole.
    table = sizes.vocabulary * hidden
    yield operator("tokens", "embedding", ["input.tokens"], hidden, read=hidden + 1, parameters=table, fixed=0)
    yield Operator(
        name="positions",
        kind="embedding",
        dimensions={"axis_0": sequence, "axis_1": hidden},
        parameters=sequence * hidden,
        parameter_bytes=row,
        activation_bytes=row,
        forward_bytes=2 * row + sequence * _ELEMENT_BYTES,
        shared_bytes=row + sequence * _ELEMENT_BYTES,
    )
    yield operator("add", "add", ["tokens", "positions"], hidden, (1, 1), read=hidden, fixed=sequence * hidden)
    yield operator("dropout", "dropout", ["add"], hidden, (2, 1))
    last = "dropout"
    for layer in range(sizes.layers):
        block = f"layers.{layer}"
        yield norm(f"{block}.norm1", last)
        yield linear(f"{block}.qkv", f"{block}.norm1", hidden, 3 * hidden)
        heads = {"head": sizes.heads, "key_sequence": sequence, "head_dim": hidden // sizes.heads}
        flops = (4 * sequence, 8 * sequence)
        attention = operator(f"{block}.attention", "attention", [f"{block}.qkv"], hidden, flops, read=3 * hidden)
        yield replace(attention, dimensions={**samples, **heads}, causal=True)
        yield operator(f"{block}.flatten", "copy", [f"{block}.attention"], hidden)
        yield linear(f"{block}.projection", f"{block}.flatten", hidden, hidden)
        yield operator(f"{block}.dropout1", "dropout", [f"{block}.projection"], hidden, (2, 1))
        yield operator(f"{block}.add", "add", [last, f"{block}.dropout1"], hidden, (1, 1))
        yield norm(f"{block}.norm2", f"{block}.add")
        yield linear(f"{block}.up", f"{block}.norm2", hidden, ffn)
        yield operator(f"{block}.gelu", "activation", [f"{block}.up"], ffn, (1, 1))
        yield linear(f"{block}.down", f"{block}.gelu", ffn, hidden)
        yield operator(f"{block}.dropout2", "dropout", [f"{block}.down"], hidden, (2, 1))
        yield operator(f"{block}.add#2", "add", [f"{block}.add", f"{block}.dropout2"], hidden, (1, 1))
        last = f"{block}.add#2"
    yield norm("norm", last)
    # The table of tokens is the head's weight, counted where it is first used.
    flops = (2 * hidden, 4 * hidden)
    yield operator("head", "linear", ["norm"], sizes.vocabulary, flops, read=hidden, fixed=table, in_channel=hidden)
