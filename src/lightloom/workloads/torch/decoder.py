"""Decoders from their sizes, as training frameworks configure them.

Legend: B sample, T sequence, C hidden, H heads, D width of a head, E experts, k experts a token, V = B·T·k visits.

    x ─┬─► norm ─► attention ─► + ─┬─► norm ─► feed-forward or mixture ─► + ──►
       └────────────────────────►┘ └──────────────────────────────────►┘
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lightloom.workloads.decoder import DecoderSizes, LatentAttention
from lightloom.workloads.torch.zoo.llama import _rotate


def _norm(sizes: DecoderSizes, width: int) -> nn.Module:
    return nn.RMSNorm(width) if sizes.norm == "rms" else nn.LayerNorm(width)


class Attention(nn.Module):
    """Causal attention with rotated, learned or no positions; (B, T, C) to (B, T, C)."""

    def __init__(self, sizes: DecoderSizes) -> None:
        super().__init__()
        self.width = sizes.head_width or sizes.hidden // sizes.heads
        keys = self.width * (sizes.key_heads or sizes.heads)
        self.shared, self.rotary, self.rate = keys < self.width * sizes.heads, sizes.rotary, sizes.dropout
        bias = sizes.bias if sizes.query_bias is None else sizes.query_bias
        self.widths = [self.width * sizes.heads, keys, keys]
        joined = {"qkv": sum(self.widths)}
        self.products = joined if sizes.joined_query else dict(zip("qkv", self.widths, strict=True))
        for name, width in self.products.items():
            self.add_module(name, nn.Linear(sizes.hidden, width, bias=bias))
        self.o = nn.Linear(self.width * sizes.heads, sizes.hidden, bias=sizes.bias)
        norms = [_norm(sizes, self.width) if sizes.head_norms else nn.Identity() for _ in range(2)]
        self.q_norm, self.k_norm = norms

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        parts = [getattr(self, name)(x) for name in self.products]
        if len(parts) == 1:
            parts = parts[0].split(self.widths, -1)
        q, k, v = (part.unflatten(-1, (-1, self.width)).transpose(1, 2) for part in parts)
        q, k = self.q_norm(q), self.k_norm(k)
        if self.rotary:
            q, k = _rotate(q, cos, sin), _rotate(k, cos, sin)
        mixed = F.scaled_dot_product_attention(
            q, k, v, dropout_p=self.rate, is_causal=True, enable_gqa=self.shared
        )  # (B, H, T, D)
        y: Tensor = self.o(mixed.transpose(1, 2).flatten(2))
        return y


class CompressedAttention(nn.Module):
    """Multi-head latent attention; (B, T, C) to (B, T, C)."""

    def __init__(self, sizes: DecoderSizes, latent: LatentAttention) -> None:
        super().__init__()
        self.heads, self.latent, self.rate = sizes.heads, latent, sizes.dropout
        width = latent.plain_width + latent.rotated_width
        rank = latent.query_rank
        self.q_down = nn.Identity() if rank is None else nn.Linear(sizes.hidden, rank, bias=False)
        self.q_norm = nn.Identity() if rank is None else _norm(sizes, rank)
        self.q_up = nn.Linear(rank or sizes.hidden, sizes.heads * width, bias=False)
        self.down = nn.Linear(sizes.hidden, latent.key_rank + latent.rotated_width, bias=False)
        self.norm = _norm(sizes, latent.key_rank)
        self.up = nn.Linear(latent.key_rank, sizes.heads * (latent.plain_width + latent.value_width), bias=False)
        self.o = nn.Linear(sizes.heads * latent.value_width, sizes.hidden, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        latent = self.latent
        q = self.q_up(self.q_norm(self.q_down(x))).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        plain, rotated = q.split([latent.plain_width, latent.rotated_width], -1)
        compressed, key = self.down(x).split([latent.key_rank, latent.rotated_width], -1)
        key = _rotate(key[:, None], cos, sin).expand(-1, self.heads, -1, -1)
        both = self.up(self.norm(compressed)).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        plain_key, value = both.split([latent.plain_width, latent.value_width], -1)
        q = torch.cat([plain, _rotate(rotated, cos, sin)], -1)
        mixed = F.scaled_dot_product_attention(
            q, torch.cat([plain_key, key], -1), value, dropout_p=self.rate, is_causal=True
        )
        y: Tensor = self.o(mixed.transpose(1, 2).flatten(2))
        return y


class FeedForward(nn.Module):
    """Two products, or three with a gate."""

    def __init__(self, sizes: DecoderSizes, inner: int) -> None:
        super().__init__()
        self.gate = nn.Linear(sizes.hidden, inner, bias=sizes.bias) if sizes.gated else None
        self.up = nn.Linear(sizes.hidden, inner, bias=sizes.bias)
        self.down = nn.Linear(inner, sizes.hidden, bias=sizes.bias)

    def forward(self, x: Tensor) -> Tensor:
        inner = F.gelu(self.up(x)) if self.gate is None else F.silu(self.gate(x)) * self.up(x)
        y: Tensor = self.down(inner)
        return y


class Mixture(nn.Module):
    """Of E experts each token visits k; beside them an expert that all visit.

    Gates and products from the same visits are one product, as in Megatron-LM and ``transformers``.
    """

    def __init__(self, sizes: DecoderSizes) -> None:
        super().__init__()
        self.experts, self.visited = sizes.experts, sizes.visited
        inner = sizes.expert_ffn or sizes.ffn
        self.router = nn.Linear(sizes.hidden, sizes.experts, bias=sizes.bias)
        self.gated, into = sizes.gated, (1 + sizes.gated) * inner
        self.up = nn.Parameter(torch.empty(sizes.experts, sizes.hidden, into))
        self.down = nn.Parameter(torch.empty(sizes.experts, inner, sizes.hidden))
        widths = {"up": into, "down": sizes.hidden} if sizes.bias else {}
        self.biases = nn.ParameterDict({name: torch.empty(sizes.experts, 1, width) for name, width in widths.items()})
        self.shared = FeedForward(sizes, sizes.shared_ffn) if sizes.shared_ffn else None
        self.weigh = nn.Linear(sizes.hidden, 1, bias=False) if sizes.shared_ffn and sizes.shared_gate else None

    def forward(self, x: Tensor) -> Tensor:
        scores, chosen = self.router(x).topk(self.visited)
        order = chosen.flatten().argsort()
        visits = x.flatten(0, 1)[order // self.visited]  # (V, C), in the order of the experts
        inner = self._each(visits, self.up, "up")
        if self.gated:
            gate, inner = inner.chunk(2, -1)
            inner = F.silu(gate) * inner
        else:
            inner = F.gelu(inner)
        experts = self._each(inner, self.down, "down")[order.argsort()] * scores.softmax(-1).flatten()[:, None]
        y: Tensor = experts.view(*x.shape[:2], self.visited, -1).sum(2)
        if self.shared is not None:
            beside = self.shared(x)
            y = y + (beside if self.weigh is None else beside * self.weigh(x).sigmoid())
        return y

    def _each(self, visits: Tensor, weights: Tensor, name: str) -> Tensor:
        """(V, K) times the weights of the expert visited, (E, K, C), and its bias: (V, C)."""
        product = torch.bmm(visits.view(self.experts, -1, visits.shape[-1]), weights)
        return (product + self.biases[name] if name in self.biases else product).flatten(0, 1)


class Layer(nn.Module):
    """Attention, then a feed-forward layer or a mixture, each beside a shortcut."""

    def __init__(self, sizes: DecoderSizes, number: int) -> None:
        super().__init__()
        self.attention_norm = _norm(sizes, sizes.hidden)
        self.attention = Attention(sizes) if sizes.latent is None else CompressedAttention(sizes, sizes.latent)
        self.feed_forward_norm = _norm(sizes, sizes.hidden)
        mixes = sizes.experts and number not in sizes.dense_layers
        self.feed_forward = Mixture(sizes) if mixes else FeedForward(sizes, sizes.ffn)
        self.dropout1, self.dropout2 = (nn.Dropout(sizes.dropout) if sizes.dropout else nn.Identity() for _ in range(2))

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.dropout1(self.attention(self.attention_norm(x), cos, sin))
        y: Tensor = x + self.dropout2(self.feed_forward(self.feed_forward_norm(x)))
        return y


class Decoder(nn.Module):
    """Tokens (B, T) to logits (B, T, vocabulary)."""

    def __init__(self, sizes: DecoderSizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.tokens = nn.Embedding(sizes.vocabulary, sizes.hidden)
        self.positions = None if sizes.table_length is None else nn.Embedding(sizes.table_length, sizes.hidden)
        self.dropout = nn.Dropout(sizes.dropout) if sizes.dropout else nn.Identity()
        self.layers = nn.ModuleList(Layer(sizes, number) for number in range(sizes.layers))
        self.norm = _norm(sizes, sizes.hidden)
        self.head = nn.Linear(sizes.hidden, sizes.vocabulary, bias=False)
        if sizes.tied:
            self.head.weight = self.tokens.weight

    def forward(self, tokens: Tensor) -> Tensor:
        sizes = self.sizes
        width = sizes.latent.rotated_width if sizes.latent else sizes.head_width or sizes.hidden // sizes.heads
        places = torch.arange(tokens.shape[1], device=tokens.device)
        angles = places[:, None] * 10_000.0 ** (-torch.arange(0, width, 2, device=tokens.device) / width)
        x = self.tokens(tokens)
        if self.positions is not None:
            x = x + self.positions(places)
        x = self.dropout(x)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        for layer in self.layers:
            x = layer(x, cos, sin)
        y: Tensor = self.head(self.norm(x))
        return y

    def example_inputs(self, batch: int) -> tuple[Tensor]:
        """Return tokens (batch, sequence)."""
        return (torch.zeros(batch, self.sizes.sequence_length, dtype=torch.long),)
