"""Llama-shaped decoders. Source: Touvron et al., "Llama 2" (arXiv 2307.09288).

Legend: B sample, T sequence, C hidden, H heads, D = C / H.

    x ─┬─► norm ─► attention ─► + ─┬─► norm ─► down(silu(gate) · up) ─► + ──►
       └────────────────────────►┘ └───────────────────────────────────►┘
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True, kw_only=True)
class LlamaConfig:
    """Sizes of one model."""

    layers: int
    hidden: int
    heads: int
    intermediate: int
    """Inner width of the gated feed-forward layer."""
    vocabulary: int
    sequence: int
    """Tokens in an example."""
    tied: bool = False
    """Whether the output layer reuses the token table."""
    key_heads: int | None = None
    """Heads of keys and values, each shared by as many of queries; None: as many as those."""
    rotary_base: float = 10_000.0


class Attention(nn.Module):
    """Causal self-attention with rotary positions."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.width = config.hidden // config.heads
        keys = self.width * (config.key_heads or config.heads)
        self.shared = keys < config.hidden
        self.q = nn.Linear(config.hidden, config.hidden, bias=False)
        self.k = nn.Linear(config.hidden, keys, bias=False)
        self.v = nn.Linear(config.hidden, keys, bias=False)
        self.o = nn.Linear(config.hidden, config.hidden, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        q, k, v = (layer(x).unflatten(-1, (-1, self.width)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        q, k = _rotate(q, cos, sin), _rotate(k, cos, sin)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.shared)  # (B, H, T, D)
        y: Tensor = self.o(mixed.transpose(1, 2).flatten(2))
        return y


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn each pair (first half, second half) of D by its position's angle; x (B, H, T, D), cos and sin (T, D /
    2)."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], -1)


class Layer(nn.Module):
    """Attention, then a gated feed-forward layer, each with its residual."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(config.hidden)
        self.attention = Attention(config)
        self.feed_forward_norm = nn.RMSNorm(config.hidden)
        self.gate = nn.Linear(config.hidden, config.intermediate, bias=False)
        self.up = nn.Linear(config.hidden, config.intermediate, bias=False)
        self.down = nn.Linear(config.intermediate, config.hidden, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x), cos, sin)
        inner = self.feed_forward_norm(x)
        y: Tensor = x + self.down(F.silu(self.gate(inner)) * self.up(inner))
        return y


class Llama(nn.Module):
    """Tokens (B, T) to logits (B, T, vocabulary)."""

    layer: Callable[[Any], nn.Module] = Layer

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocabulary, config.hidden)
        self.layers = nn.ModuleList(type(self).layer(config) for _ in range(config.layers))
        self.norm = nn.RMSNorm(config.hidden)
        self.head = nn.Linear(config.hidden, config.vocabulary, bias=False)
        if config.tied:
            self.head.weight = self.tokens.weight

    def forward(self, tokens: Tensor) -> Tensor:
        width = self.config.hidden // self.config.heads
        frequencies = self.config.rotary_base ** (-torch.arange(0, width, 2, device=tokens.device) / width)
        angles = torch.arange(tokens.shape[1], device=tokens.device)[:, None] * frequencies
        x = self.tokens(tokens)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        for layer in self.layers:
            x = layer(x, cos, sin)
        y: Tensor = self.head(self.norm(x))
        return y

    def example_inputs(self, batch: int, sequence_length: int | None = None) -> tuple[Tensor]:
        """Return tokens (batch, sequence), by default as many as the configuration says."""
        return (torch.zeros(batch, sequence_length or self.config.sequence, dtype=torch.long),)


def llama(**sizes: Any) -> Llama:
    """Return the network of these fields of :class:`LlamaConfig`.

    OptINC states 8 layers, hidden 384 and 8 heads of its Llama-like network, and no more. Assumed in the zoo: Llama 2's
    vocabulary of 32,000, its 8/3 rule for the feed-forward width (1024), a separate output layer as in Llama 2,
    sequences of 256 tokens.
    """
    return Llama(LlamaConfig(**sizes))
