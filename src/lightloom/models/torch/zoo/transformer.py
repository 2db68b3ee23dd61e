# mypy: disable-error-code="no-any-return"
"""The encoder-decoder Transformer. Source: Vaswani et al., "Attention is all you need" (arXiv 1706.03762), Table 3,
"big".

source ──► encoder x 6 ──┐ keys, values
target ──► decoder x 6 ◄─┘ ──► logits           normalised after each residual, as published
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Attention(nn.Module):
    """Multi-head attention of x (B, T, C) to memory (B, S, C)."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(hidden, hidden, bias=False) for _ in range(4))

    def forward(self, x: Tensor, memory: Tensor, causal: bool = False) -> Tensor:
        """Return (B, T, C), multi-head attention with queries from x (B, T, C), keys and values from memory (B, S, C);
        ``causal`` hides later places."""
        q, k, v = (
            layer(source).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer, source in ((self.q, x), (self.k, memory), (self.v, memory))
        )
        return self.o(F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """Self-attention, attention to the encoder (decoder only), feed-forward."""

    def __init__(self, hidden: int, heads: int, inner: int, *, decoder: bool) -> None:
        super().__init__()
        self.causal = decoder
        self.self_attention = Attention(hidden, heads)
        self.norm1 = nn.LayerNorm(hidden)
        self.cross_attention = Attention(hidden, heads) if decoder else None
        self.norm2 = nn.LayerNorm(hidden) if decoder else None
        self.feed_forward = nn.Sequential(nn.Linear(hidden, inner), nn.ReLU(inplace=True), nn.Linear(inner, hidden))
        self.norm3 = nn.LayerNorm(hidden)
        self.dropout = nn.Dropout(0.3)

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        """Return x (B, T, C) after self-attention (in a decoder without later places), a decoder's attention to
        ``memory``, and the feed-forward layer, each added to what it reads and then normed.

        ``memory`` (B, S, C) is the encoder's output, which only a decoder's layer reads.
        """
        x = self.norm1(x + self.dropout(self.self_attention(x, x, self.causal)))
        if self.cross_attention is not None and self.norm2 is not None:
            x = self.norm2(x + self.dropout(self.cross_attention(x, memory)))
        return self.norm3(x + self.dropout(self.feed_forward(x)))


class Transformer(nn.Module):
    """Source and target tokens (B, T) to logits (B, T, vocabulary); one table serves all three ends.

    The paper shares a table of about 37,000 byte pairs in the "big" network and prints 213 M parameters. Assumed in
    the zoo: exactly 37,000, and sentence pairs of 64 tokens.
    """

    def __init__(self, *, layers: int, hidden: int, heads: int, inner: int, vocabulary: int, sequence: int) -> None:
        super().__init__()
        self.hidden, self.sequence = hidden, sequence
        self.tokens = nn.Embedding(vocabulary, hidden)
        self.dropout = nn.Dropout(0.3)
        self.encoder = nn.ModuleList(Layer(hidden, heads, inner, decoder=False) for _ in range(layers))
        self.decoder = nn.ModuleList(Layer(hidden, heads, inner, decoder=True) for _ in range(layers))
        self.head = nn.Linear(hidden, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Return logits (B, T, vocabulary) for source and target tokens (B, T each)."""
        memory, x = self._embed(source), self._embed(target)
        for layer in self.encoder:
            memory = layer(memory)
        for layer in self.decoder:
            x = layer(x, memory)
        return self.head(x)

    def _embed(self, tokens: Tensor) -> Tensor:
        """Return token vectors times the root of the width, plus sines and cosines of the position, after dropout: (B,
        T, C)."""
        frequencies = 10000.0 ** (-torch.arange(0, self.hidden, 2, device=tokens.device) / self.hidden)
        angles = torch.arange(tokens.shape[1], device=tokens.device)[:, None] * frequencies
        vectors = self.tokens(tokens)
        positions = torch.cat([angles.sin(), angles.cos()], -1).to(vectors.dtype)
        return self.dropout(vectors * math.sqrt(self.hidden) + positions)

    def example_inputs(self, batch: int, sequence_length: int | None = None) -> tuple[Tensor, Tensor]:
        """Return source and target tokens, each (batch, sequence) integers that are all 0, by default of the model's
        own sequence length."""
        tokens = torch.zeros(batch, sequence_length or self.sequence, dtype=torch.long)
        return tokens, torch.zeros_like(tokens)
