"""User models that use the tricks real ones do."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lightloom.models.torch.zoo.llama import Mixtral, mixtral


class Tricky(nn.Module):
    """Functional calls, in-place calls, views, einsum, dropout, concatenation, shared and tied parts, recurrent
    layers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.fc = nn.Linear(4 * 64, 16)
        self.table = nn.Embedding(10, 16)
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.head = nn.Linear(16, 10, bias=False)
        self.head.weight = self.table.weight
        self.mix = nn.Parameter(torch.ones(16, 16))

    def forward(self, images: Tensor, tokens: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.norm(self.conv(images)), inplace=True), 2)
        x += F.dropout(x, 0.1)
        x = self.fc(self.up(x).flatten(1))  # (B, 16)
        y = self.table(tokens) + self.table(torch.arange(tokens.shape[1]))  # (B, T, 16)
        y = y + self.attention(y, y, y, need_weights=False)[0]
        y = self.layer(y)
        scores = torch.einsum("btc,bsc->bts", y, y).softmax(-1)
        y = scores @ y @ self.mix
        y[:, 0] = x
        y = torch.cat([y, x[:, None].expand(-1, 3, -1)], 1)
        logits: Tensor = self.head(y)
        return logits

    def example_inputs(self, batch: int) -> tuple[Tensor, Tensor]:
        """Images (batch, 3, 8, 8) and tokens (batch, 5)."""
        return torch.empty(batch, 3, 8, 8), torch.zeros(batch, 5, dtype=torch.long)


def small_mixture() -> Mixtral:
    """Mixtral with 2 layers, hidden 32, 4 heads (2 of keys), 4 experts of 64, of which a token visits 2."""
    return mixtral(
        layers=2, hidden=32, heads=4, key_heads=2, intermediate=64, vocabulary=50, sequence=8, experts=4, visited=2
    )


class Vision(nn.Module):
    """A small vision transformer in the style of user code: patches, a class token, packed q, k, v, a loss at the
    end."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 24, 4, stride=4)
        self.token = nn.Parameter(torch.zeros(1, 1, 24))
        self.positions = nn.Parameter(torch.zeros(1, 17, 24))
        self.norm = nn.LayerNorm(24)
        self.qkv = nn.Linear(24, 72)
        self.out = nn.Linear(24, 24)
        self.head = nn.Linear(24, 5)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.positions
        q, k, v = (part.unflatten(-1, (3, 8)).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape))
        return F.cross_entropy(self.head(x[:, 0]), labels)

    def example_inputs(self, batch: int) -> tuple[Tensor, Tensor]:
        """Images (batch, 3, 16, 16) and labels (batch)."""
        return torch.empty(batch, 3, 16, 16), torch.zeros(batch, dtype=torch.long)
