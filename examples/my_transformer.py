"""A small transformer of one's own, brought to lightloom as ``examples/my_transformer.py:build``.

Nothing here knows lightloom; all it asks is a function that returns the module, and a method that gives example
inputs.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Block(nn.Module):
    """Causal self-attention and a feed-forward layer, each with its residual; x is (batch, sequence, width)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.feed_forward = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        y: Tensor = x + self.feed_forward(self.norm2(x))
        return y


class MyTransformer(nn.Module):
    """Tokens (batch, sequence) to logits (batch, sequence, vocabulary)."""

    def __init__(self, *, layers: int, width: int, heads: int, vocabulary: int, context: int) -> None:
        super().__init__()
        self.context = context
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.positions(positions)
        y: Tensor = self.head(self.norm(self.blocks(x)))
        return y

    def example_inputs(self, batch: int, sequence_length: int | None = None) -> tuple[Tensor]:
        """What ``forward`` takes, for so many samples; only the shapes matter."""
        return (torch.zeros(batch, sequence_length or self.context, dtype=torch.long),)


def build() -> MyTransformer:
    """12 layers, width 768, 12 heads: 135 million parameters."""
    return MyTransformer(layers=12, width=768, heads=12, vocabulary=32_000, context=512)
