"""Sizes of a decoder as training frameworks configure it, without PyTorch: GPT, Llama, Qwen, mixtures of experts."""

from __future__ import annotations

from collections.abc import Iterator
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
_TOKEN_BYTES = 4
"""Bytes of a token as graphs count them: one element."""


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
    """Return the graph of a decoder for one batch, its table of positions as long as a sequence, its head tied."""
    builder = _TransformerGraph(sizes, batch)
    return ComputeGraph(name=name, batch=batch, operators=tuple(builder.operators()), element_bytes=_ELEMENT_BYTES)


class _TransformerGraph:
    def __init__(self, sizes: TransformerSizes, batch: int) -> None:
        self._sizes = sizes
        self._batch = batch

    def operators(self) -> Iterator[Operator]:
        yield from self._embedding()
        last = "dropout"
        for layer in range(self._sizes.layers):
            yield from self._layer(f"layers.{layer}", last)
            last = f"layers.{layer}.add#2"
        yield self._norm("norm", last, "")
        head = self._linear("head", "norm", self._sizes.hidden, self._sizes.vocabulary, "", bias=False)
        # The table of tokens is the head's weight, counted where it is first used.
        yield replace(head, parameters=0, parameter_bytes=0)

    def _embedding(self) -> Iterator[Operator]:
        sizes, tokens = self._sizes, self._batch * self._sizes.sequence_length
        table = sizes.sequence_length * sizes.hidden
        row = table * _ELEMENT_BYTES
        output = self._bytes(sizes.hidden)
        yield Operator(
            name="input.tokens",
            kind="input",
            dimensions={"sample": self._batch, "sequence": sizes.sequence_length},
            activation_bytes=tokens * _TOKEN_BYTES,
        )
        yield Operator(
            name="tokens",
            kind="embedding",
            inputs=("input.tokens",),
            dimensions=self._shape(sizes.hidden),
            parameters=sizes.vocabulary * sizes.hidden,
            parameter_bytes=sizes.vocabulary * sizes.hidden * _ELEMENT_BYTES,
            activation_bytes=output,
            forward_bytes=2 * output + tokens * _TOKEN_BYTES,
        )
        yield Operator(
            name="positions",
            kind="embedding",
            dimensions={"axis_0": sizes.sequence_length, "axis_1": sizes.hidden},
            parameters=table,
            parameter_bytes=row,
            activation_bytes=row,
            forward_bytes=2 * row + sizes.sequence_length * _TOKEN_BYTES,
            shared_bytes=row + sizes.sequence_length * _TOKEN_BYTES,
        )
        total = self._pointwise("add", "add", ("tokens", "positions"), sizes.hidden, "", (1, 1))
        yield replace(total, forward_bytes=2 * output + row, shared_bytes=row)
        yield self._pointwise("dropout", "dropout", ("add",), sizes.hidden, "", (2, 1))

    def _layer(self, block: str, source: str) -> Iterator[Operator]:
        hidden, ffn = self._sizes.hidden, self._sizes.ffn

        def inside(*names: str) -> tuple[str, ...]:
            return tuple(f"{block}.{name}" for name in names)

        yield self._norm(f"{block}.norm1", source, block)
        yield self._linear(f"{block}.qkv", f"{block}.norm1", hidden, 3 * hidden, block)
        yield self._attention(block)
        yield self._pointwise(f"{block}.flatten", "copy", inside("attention"), hidden, block, (0, 0))
        yield self._linear(f"{block}.projection", f"{block}.flatten", hidden, hidden, block)
        yield self._pointwise(f"{block}.dropout1", "dropout", inside("projection"), hidden, block, (2, 1))
        yield self._pointwise(f"{block}.add", "add", (source, *inside("dropout1")), hidden, block, (1, 1))
        yield self._norm(f"{block}.norm2", f"{block}.add", block)
        yield self._linear(f"{block}.up", f"{block}.norm2", hidden, ffn, block)
        yield self._pointwise(f"{block}.gelu", "activation", inside("up"), ffn, block, (1, 1))
        yield self._linear(f"{block}.down", f"{block}.gelu", ffn, hidden, block)
        yield self._pointwise(f"{block}.dropout2", "dropout", inside("down"), hidden, block, (2, 1))
        yield self._pointwise(f"{block}.add#2", "add", inside("add", "dropout2"), hidden, block, (1, 1))

    def _attention(self, block: str) -> Operator:
        sizes = self._sizes
        flops = 4 * self._batch * sizes.sequence_length**2 * sizes.hidden
        return Operator(
            name=f"{block}.attention",
            kind="attention",
            inputs=(f"{block}.qkv",),
            dimensions={
                "sample": self._batch,
                "head": sizes.heads,
                "sequence": sizes.sequence_length,
                "key_sequence": sizes.sequence_length,
                "head_dim": sizes.hidden // sizes.heads,
            },
            forward_flops=flops,
            backward_flops=2 * flops,
            activation_bytes=self._bytes(sizes.hidden),
            forward_bytes=4 * self._bytes(sizes.hidden),
            block=block,
            causal=True,
        )

    def _linear(self, name: str, source: str, width: int, channels: int, block: str, *, bias: bool = True) -> Operator:
        parameters = width * channels + (channels if bias else 0)
        flops = 2 * self._batch * self._sizes.sequence_length * width * channels
        weights = parameters * _ELEMENT_BYTES
        return Operator(
            name=name,
            kind="linear",
            inputs=(source,),
            dimensions=self._shape(channels) | {"in_channel": width},
            forward_flops=flops,
            backward_flops=2 * flops,
            parameters=parameters,
            parameter_bytes=weights,
            activation_bytes=self._bytes(channels),
            forward_bytes=self._bytes(width) + self._bytes(channels) + weights,
            shared_bytes=weights,
            block=block,
        )

    def _norm(self, name: str, source: str, block: str) -> Operator:
        hidden = self._sizes.hidden
        weights = 2 * hidden * _ELEMENT_BYTES
        norm = self._pointwise(name, "norm", (source,), hidden, block, (1, 1))
        return replace(
            norm,
            parameters=2 * hidden,
            parameter_bytes=weights,
            forward_bytes=norm.forward_bytes + weights,
            shared_bytes=weights,
        )

    def _pointwise(
        self, name: str, kind: str, inputs: tuple[str, ...], width: int, block: str, flops: tuple[int, int]
    ) -> Operator:
        """Return an operator that reads its inputs once; so many operations forward and backward for each element."""
        elements = self._batch * self._sizes.sequence_length * width
        return Operator(
            name=name,
            kind=kind,
            inputs=inputs,
            dimensions=self._shape(width),
            forward_flops=flops[0] * elements,
            backward_flops=flops[1] * elements,
            activation_bytes=self._bytes(width),
            forward_bytes=(len(inputs) + 1) * self._bytes(width),
            block=block,
        )

    def _shape(self, channels: int) -> dict[str, int]:
        return {"sample": self._batch, "sequence": self._sizes.sequence_length, "channel": channels}

    def _bytes(self, channels: int) -> int:
        return self._batch * self._sizes.sequence_length * channels * _ELEMENT_BYTES
