"""Mixtral: Llama's decoder with a sparse mixture of experts for a feed-forward layer, and fewer heads of keys.

Source: Jiang et al., "Mixtral of Experts" (arXiv 2401.04088), Table 1; rotary base 10⁶ as in its published weights.

Legend: B sample, T sequence, C hidden, E experts, k experts that a token visits, V = B·T·k visits.

    x ─► router ─► top k ─► sort by expert ─► down(silu(gate) · up) of each expert ─► back in order ─► weighted sum ─►
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lightloom.workloads.torch.zoo.llama import Attention, Llama, LlamaConfig


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
        y: Tensor = experts.view(*x.shape[:2], self.visited, -1).sum(2)
        return y

    def _each(self, visits: Tensor, weights: Tensor) -> Tensor:
        """(V, K) times the weights of the expert visited, (E, K, C): (V, C)."""
        return torch.bmm(visits.view(self.experts, -1, visits.shape[-1]), weights).flatten(0, 1)


class Layer(nn.Module):
    """Attention, then the mixture, each with its residual."""

    def __init__(self, config: MixtralConfig) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(config.hidden)
        self.attention = Attention(config)
        self.mixture_norm = nn.RMSNorm(config.hidden)
        self.mixture = Mixture(config)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x), cos, sin)
        y: Tensor = x + self.mixture(self.mixture_norm(x))
        return y


class Mixtral(Llama):
    """Tokens (B, T) to logits (B, T, vocabulary); experts must divide T·k."""

    layer = Layer


def mixtral(**sizes: Any) -> Mixtral:
    """Return the network of these fields of :class:`MixtralConfig`."""
    return Mixtral(MixtralConfig(**sizes))
