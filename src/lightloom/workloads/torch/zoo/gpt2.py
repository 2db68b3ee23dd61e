"""GPT-2 and GPT-3, which is wider and deeper.

Sources: Radford et al., "Language models are unsupervised multitask learners" (2019), Table 2; Brown et al., "Language
models are few-shot learners" (2020), Table 2.1; Narayanan et al., "Efficient Large-Scale Language Model Training on GPU
Clusters", SC 2021, section 5 (vocabulary of 51,200, dense attention in all layers).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Layer(nn.Module):
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
        y: Tensor = x + self.dropout2(self.down(self.gelu(self.up(self.norm2(x)))))
        return y


class GPT2(nn.Module):
    """Tokens (B, T) to logits (B, T, vocabulary); the output layer is the token table."""

    def __init__(self, *, layers: int, hidden: int, heads: int, vocabulary: int = 50_257, context: int = 1024) -> None:
        super().__init__()
        self.context = context
        self.tokens = nn.Embedding(vocabulary, hidden)
        self.positions = nn.Embedding(context, hidden)
        self.dropout = nn.Dropout(0.1)
        self.layers = nn.Sequential(*(Layer(hidden, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(hidden)
        self.head = nn.Linear(hidden, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: Tensor) -> Tensor:
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.dropout(self.tokens(tokens) + self.positions(positions))
        y: Tensor = self.head(self.norm(self.layers(x)))
        return y

    def example_inputs(self, batch: int, sequence_length: int | None = None) -> tuple[Tensor]:
        """Return tokens (batch, sequence), by default as many as the table of positions has.

        Raises:
            ValueError: the sequence is longer than the table of positions.
        """
        sequence = sequence_length or self.context
        if sequence > self.context:
            raise ValueError(f"sequence length {sequence} exceeds the context of {self.context} tokens")
        return (torch.zeros(batch, sequence, dtype=torch.long),)
