"""Sizes of a decoder as training frameworks configure it, without PyTorch: GPT, Llama, Qwen, mixtures of experts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lightloom.core.errors import WorkloadError

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
    """Whether a feed-forward layer multiplies by a gate (SwiGLU)."""
    bias: bool = True
    """Whether linear layers add a bias."""
    query_bias: bool | None = None
    """Whether projections to queries, keys and values do; as the others without it."""
    joined_query: bool = False
    """Whether queries, keys and values are one product, as Megatron-LM computes them."""
    head_norms: bool = False
    """Whether queries and keys are normalized."""
    table_length: int | None = None
    """Rows of a learned table of positions; positions are rotated, or left out, without it."""
    rotary: bool = True
    tied: bool = False
    """Whether the head shares the table of tokens."""
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
    """Whether a router weighs the shared expert."""
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
