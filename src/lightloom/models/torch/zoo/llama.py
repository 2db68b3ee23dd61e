# mypy: disable-error-code="no-any-return"
"""Llama-shaped decoders. Source: Touvron et al., "Llama 2" (arXiv 2307.09288).

Legend: B sample, T sequence, C hidden, H heads, D = C / H.

    x ─┬─► norm ─► attention ─► + ─┬─► norm ─► down(silu(gate) · up) ─► + ──►
       └────────────────────────►┘ └───────────────────────────────────►┘
"""

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
    """True if the output layer reuses the token table."""
    key_heads: int | None = None
    """Heads of keys and values, each shared by as many of queries; None: as many as those."""
    rotary_base: float = 10_000.0


class Attention(nn.Module):
    """Causal self-attention with rotary positions."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.width = config.hidden // config.heads
        hidden, keys = config.hidden, self.width * (config.key_heads or config.heads)
        self.shared = keys < hidden
        self.q, self.k, self.v, self.o = (
            nn.Linear(hidden, width, bias=False) for width in (hidden, keys, keys, hidden)
        )

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        q, k, v = (layer(x).unflatten(-1, (-1, self.width)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.shared)  # (B, H, T, D)
        return self.o(mixed.transpose(1, 2).flatten(2))


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
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
        return x + self.down(F.silu(self.gate(inner)) * self.up(inner))


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
        return self.head(self.norm(x))

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


# Mixtral: Llama's decoder with a sparse mixture of experts for a feed-forward layer, and fewer heads of keys.
#
# Source: Jiang et al., "Mixtral of Experts" (arXiv 2401.04088), Table 1; rotary base 10⁶ as in its published weights.
#
# Legend: B sample, T sequence, C hidden, E experts, k experts that a token visits, V = B·T·k visits.
#
#     x ─► router ─► top k ─► sort by expert ─► down(silu(gate) · up) of each expert ─► back in order ─► weighted sum ─►


@dataclass(frozen=True, kw_only=True)
class MixtralConfig(LlamaConfig):
    """Sizes of one model."""

    experts: int
    visited: int
    """Experts that each token visits."""


class Mixture(nn.Module):
    """Experts of equal load: each is visited by V / E tokens, as a router that is balanced sends them."""

    def __init__(self, config: MixtralConfig) -> None:
        super().__init__()
        self.experts, self.visited = config.experts, config.visited
        self.router = nn.Linear(config.hidden, config.experts, bias=False)
        into = (config.experts, config.hidden, config.intermediate)
        self.gate, self.up = nn.Parameter(torch.empty(into)), nn.Parameter(torch.empty(into))
        self.down = nn.Parameter(torch.empty(config.experts, config.intermediate, config.hidden))

    def forward(self, x: Tensor) -> Tensor:
        scores, chosen = self.router(x).topk(self.visited)
        order = chosen.flatten().argsort()
        visits = x.flatten(0, 1)[order // self.visited]  # (V, C), in the order of the experts
        inner = F.silu(self._each(visits, self.gate)) * self._each(visits, self.up)
        experts = self._each(inner, self.down)[order.argsort()] * scores.softmax(-1).flatten()[:, None]
        return experts.view(*x.shape[:2], self.visited, -1).sum(2)

    def _each(self, visits: Tensor, weights: Tensor) -> Tensor:
        """(V, K) times the weights of the expert visited, (E, K, C): (V, C)."""
        return torch.bmm(visits.view(self.experts, -1, visits.shape[-1]), weights).flatten(0, 1)


class MixtralLayer(nn.Module):
    """Attention, then the mixture, each with its residual."""

    def __init__(self, config: MixtralConfig) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(config.hidden)
        self.attention = Attention(config)
        self.mixture_norm = nn.RMSNorm(config.hidden)
        self.mixture = Mixture(config)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x), cos, sin)
        return x + self.mixture(self.mixture_norm(x))


class Mixtral(Llama):
    """Tokens (B, T) to logits (B, T, vocabulary); experts must divide T·k."""

    layer = MixtralLayer


def mixtral(**sizes: Any) -> Mixtral:
    """Return the network of these fields of :class:`MixtralConfig`."""
    return Mixtral(MixtralConfig(**sizes))


# GPT-2 and GPT-3, which is wider and deeper.
#
# Sources: Radford et al., "Language models are unsupervised multitask learners" (2019), Table 2; Brown et al.,
# "Language models are few-shot learners" (2020), Table 2.1; Narayanan et al., "Efficient Large-Scale Language Model
# Training on GPU Clusters", SC 2021, section 5 (vocabulary of 51,200, dense attention in all layers).


class Gpt2Layer(nn.Module):
    """Causal self-attention and a feed-forward layer of four times the width, normalised before each."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(hidden)
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.projection = nn.Linear(hidden, hidden)
        self.dropout1 = nn.Dropout(0.1)
        self.norm2 = nn.LayerNorm(hidden)
        self.up = nn.Linear(hidden, 4 * hidden)
        self.gelu = nn.GELU(approximate="tanh")
        self.down = nn.Linear(4 * hidden, hidden)
        self.dropout2 = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        # (B, T, 3C) to three of (B, H, T, D)
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=0.1, is_causal=True)
        x = x + self.dropout1(self.projection(mixed.transpose(1, 2).flatten(2)))
        return x + self.dropout2(self.down(self.gelu(self.up(self.norm2(x)))))


class GPT2(nn.Module):
    """Tokens (B, T) to logits (B, T, vocabulary); the output layer is the token table."""

    def __init__(self, *, layers: int, hidden: int, heads: int, vocabulary: int = 50_257, context: int = 1024) -> None:
        super().__init__()
        self.context = context
        self.tokens = nn.Embedding(vocabulary, hidden)
        self.positions = nn.Embedding(context, hidden)
        self.dropout = nn.Dropout(0.1)
        self.layers = nn.Sequential(*(Gpt2Layer(hidden, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(hidden)
        self.head = nn.Linear(hidden, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: Tensor) -> Tensor:
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.dropout(self.tokens(tokens) + self.positions(positions))
        return self.head(self.norm(self.layers(x)))

    def example_inputs(self, batch: int, sequence_length: int | None = None) -> tuple[Tensor]:
        """Return tokens (batch, sequence), by default as many as the table of positions has.

        Raises:
            ValueError: the sequence is longer than the table of positions.
        """
        sequence = sequence_length or self.context
        if sequence > self.context:
            raise ValueError(f"sequence length {sequence} exceeds the context of {self.context} tokens")
        return (torch.zeros(batch, sequence, dtype=torch.long),)
