# mypy: disable-error-code="no-any-return"
"""Decoders from their sizes, as training frameworks configure them, and those of the zoo: Llama, Mixtral, GPT.

Legend: B sample, T sequence, C hidden, H heads, D width of a head, E experts, k experts a token, V = B·T·k visits.

    x ─┬─► norm ─► attention ─► + ─┬─► norm ─► feed-forward or mixture ─► + ──►
       └────────────────────────►┘ └──────────────────────────────────►┘
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lightloom.models.decoder import DecoderSizes, LatentAttention


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Return x with each pair (d, d + D / 2) of its last axis turned by its position's angle; x (B, H, T, D), cos and
    sin (T, D / 2)."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], -1)


def _norm(sizes: DecoderSizes, width: int) -> nn.Module:
    """Return a root-mean-square or layer norm of this width, as ``sizes.norm`` says."""
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
        """Return the projected result (B, T, C) of causal attention within x (B, T, C); cos and sin (T, D / 2) are of
        the positions' angles."""
        parts = [getattr(self, name)(x) for name in self.products]
        if len(parts) == 1:
            parts = parts[0].split(self.widths, -1)
        q, k, v = (part.unflatten(-1, (-1, self.width)).transpose(1, 2) for part in parts)
        q, k = self.q_norm(q), self.k_norm(k)
        if self.rotary:
            q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        mixed = F.scaled_dot_product_attention(
            q, k, v, dropout_p=self.rate, is_causal=True, enable_gqa=self.shared
        )  # (B, H, T, D)
        return self.o(mixed.transpose(1, 2).flatten(2))


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
        """Return the projected result (B, T, C) of causal attention within x (B, T, C); cos and sin (T, D / 2) are of
        the positions' angles and turn only the rotated part of a head, D channels."""
        latent = self.latent
        q = self.q_up(self.q_norm(self.q_down(x))).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        plain, rotated = q.split([latent.plain_width, latent.rotated_width], -1)
        compressed, key = self.down(x).split([latent.key_rank, latent.rotated_width], -1)
        key = rotate(key[:, None], cos, sin).expand(-1, self.heads, -1, -1)
        both = self.up(self.norm(compressed)).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        plain_key, value = both.split([latent.plain_width, latent.value_width], -1)
        q = torch.cat([plain, rotate(rotated, cos, sin)], -1)
        mixed = F.scaled_dot_product_attention(
            q, torch.cat([plain_key, key], -1), value, dropout_p=self.rate, is_causal=True
        )
        return self.o(mixed.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    """Two products, or three with a gate."""

    def __init__(self, sizes: DecoderSizes, inner: int) -> None:
        super().__init__()
        self.gate = nn.Linear(sizes.hidden, inner, bias=sizes.bias) if sizes.gated else None
        self.up = nn.Linear(sizes.hidden, inner, bias=sizes.bias)
        self.down = nn.Linear(inner, sizes.hidden, bias=sizes.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return (B, T, C) for x (B, T, C): ``down(gelu(up(x)))``, or with a gate ``down(silu(gate(x)) * up(x))``."""
        inner = F.gelu(self.up(x)) if self.gate is None else F.silu(self.gate(x)) * self.up(x)
        return self.down(inner)


class Mixture(nn.Module):
    """Mixture of E experts of which each token visits k, and a shared expert that all tokens visit.

    Gates and products from the same visits are one product, as in Megatron-LM and ``transformers``, unless the sizes
    keep them apart. Experts have equal load: each is visited by V / E tokens, as a router that is balanced sends them.
    """

    def __init__(self, sizes: DecoderSizes) -> None:
        super().__init__()
        self.experts, self.visited = sizes.experts, sizes.visited
        inner = sizes.expert_ffn or sizes.ffn
        self.router = nn.Linear(sizes.hidden, sizes.experts, bias=sizes.bias)
        self.gated, into = sizes.gated, (1 + (sizes.gated and sizes.joined_gate)) * inner
        self.up = nn.Parameter(torch.empty(sizes.experts, sizes.hidden, into))
        apart = sizes.gated and not sizes.joined_gate
        self.gate = nn.Parameter(torch.empty(sizes.experts, sizes.hidden, inner)) if apart else None
        self.down = nn.Parameter(torch.empty(sizes.experts, inner, sizes.hidden))
        widths = {"up": into, "down": sizes.hidden} if sizes.bias else {}
        self.biases = nn.ParameterDict({name: torch.empty(sizes.experts, 1, width) for name, width in widths.items()})
        self.shared = FeedForward(sizes, sizes.shared_ffn) if sizes.shared_ffn else None
        self.weigh = nn.Linear(sizes.hidden, 1, bias=False) if sizes.shared_ffn and sizes.shared_gate else None

    def forward(self, x: Tensor) -> Tensor:
        """Return the weighted sum of the k experts that each token of x (B, T, C) visits, plus the shared expert if
        there is one (times the sigmoid of its own score if it has one): (B, T, C).

        The weights are the softmax over the k scores chosen. Each expert is given equally many visits, whatever was
        chosen: their number must divide B · T · k.
        """
        scores, chosen = self.router(x).topk(self.visited)
        order = chosen.flatten().argsort()
        visits = x.flatten(0, 1)[order // self.visited]  # (V, C), in the order of the experts
        if self.gate is not None:
            inner = F.silu(self._each(visits, self.gate, "gate")) * self._each(visits, self.up, "up")
        elif self.gated:
            gate, inner = self._each(visits, self.up, "up").chunk(2, -1)
            inner = F.silu(gate) * inner
        else:
            inner = F.gelu(self._each(visits, self.up, "up"))
        experts = self._each(inner, self.down, "down")[order.argsort()] * scores.softmax(-1).flatten()[:, None]
        y = experts.view(*x.shape[:2], self.visited, -1).sum(2)
        if self.shared is not None:
            beside = self.shared(x)
            y = y + (beside if self.weigh is None else beside * self.weigh(x).sigmoid())
        return y

    def _each(self, visits: Tensor, weights: Tensor, name: str) -> Tensor:
        """Return visits (V, K) times the weights (E, K, C) of the expert visited, plus its bias if there is one: (V,
        C).

        Visits are ordered by expert, equally many to each.
        """
        product = torch.bmm(visits.view(self.experts, -1, visits.shape[-1]), weights)
        return (product + self.biases[name] if name in self.biases else product).flatten(0, 1)


class Layer(nn.Module):
    """Attention, then a feed-forward layer or a mixture, each beside a shortcut."""

    def __init__(self, sizes: DecoderSizes, number: int) -> None:
        super().__init__()
        self.attention_norm = _norm(sizes, sizes.hidden)
        self.attention = Attention(sizes) if sizes.latent is None else CompressedAttention(sizes, sizes.latent)
        self.add_feed_forward(sizes, number)
        self.dropout1, self.dropout2 = (nn.Dropout(sizes.dropout) if sizes.dropout else nn.Identity() for _ in range(2))

    def add_feed_forward(self, sizes: DecoderSizes, number: int) -> None:
        """Add the modules behind the attention of layer ``number``: a mixture if there are experts and the layer is not
        dense.

        Models of the zoo name theirs otherwise.
        """
        self.feed_forward_norm = _norm(sizes, sizes.hidden)
        mixes = sizes.experts and number not in sizes.dense_layers
        self.feed_forward = Mixture(sizes) if mixes else FeedForward(sizes, sizes.ffn)

    def fed_forward(self, x: Tensor) -> Tensor:
        """Return what is added to x (B, T, C) behind the attention, of the same shape: the feed-forward layer or the
        mixture on the normed x."""
        return self.feed_forward(self.feed_forward_norm(x))

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Return x (B, T, C) plus attention, plus what the feed-forward part adds, each on the normed sum before it;
        cos and sin (T, D / 2) are of the positions' angles."""
        x = x + self.dropout1(self.attention(self.attention_norm(x), cos, sin))
        return x + self.dropout2(self.fed_forward(x))


class Decoder(nn.Module):
    """Tokens (B, T) to logits (B, T, vocabulary)."""

    layer: Callable[[DecoderSizes, int], nn.Module] = Layer

    def __init__(self, sizes: DecoderSizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.tokens = nn.Embedding(sizes.vocabulary, sizes.hidden)
        self.positions = None if sizes.table_length is None else nn.Embedding(sizes.table_length, sizes.hidden)
        self.dropout = nn.Dropout(sizes.dropout) if sizes.dropout else nn.Identity()
        self.layers = nn.ModuleList(type(self).layer(sizes, number) for number in range(sizes.layers))
        self.norm = _norm(sizes, sizes.hidden)
        self.head = nn.Linear(sizes.hidden, sizes.vocabulary, bias=False)
        if sizes.tied:
            self.head.weight = self.tokens.weight

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits (B, T, vocabulary) for tokens (B, T)."""
        sizes = self.sizes
        width = sizes.latent.rotated_width if sizes.latent else sizes.head_width or sizes.hidden // sizes.heads
        places = torch.arange(tokens.shape[1], device=tokens.device)
        angles = places[:, None] * sizes.rotary_base ** (-torch.arange(0, width, 2, device=tokens.device) / width)
        x = self.tokens(tokens)
        if self.positions is not None:
            x = x + self.positions(places)
        x = self.dropout(x)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.head(self.norm(x))

    def example_inputs(self, batch: int, sequence_length: int | None = None) -> tuple[Tensor]:
        """Return tokens (batch, sequence) that are all 0, by default as many in a sequence as the sizes say.

        Raises:
            ValueError: the sequence is longer than the table of positions.
        """
        sequence, context = sequence_length or self.sizes.sequence_length, self.sizes.table_length
        if context is not None and sequence > context:
            raise ValueError(f"sequence length {sequence} exceeds the context of {context} tokens")
        return (torch.zeros(batch, sequence, dtype=torch.long),)


# Llama. Source: Touvron et al., "Llama 2" (arXiv 2307.09288).


class LlamaLayer(Layer):
    """Attention, then a gated feed-forward layer whose products are the layer's own."""

    def add_feed_forward(self, sizes: DecoderSizes, number: int) -> None:
        """Add a norm and the three products of a gated feed-forward layer (``gate``, ``up``, ``down``) of these sizes
        to the layer; those of all numbers are equal."""
        self.feed_forward_norm = _norm(sizes, sizes.hidden)
        self.gate = nn.Linear(sizes.hidden, sizes.ffn, bias=False)
        self.up = nn.Linear(sizes.hidden, sizes.ffn, bias=False)
        self.down = nn.Linear(sizes.ffn, sizes.hidden, bias=False)

    def fed_forward(self, x: Tensor) -> Tensor:
        """Return what is added to x (B, T, C) behind the attention, of the same shape: the gated feed-forward layer on
        the normed x."""
        inner = self.feed_forward_norm(x)
        return self.down(F.silu(self.gate(inner)) * self.up(inner))


class Llama(Decoder):
    """Llama-shaped decoder of sizes that :func:`llama` names."""

    layer: Callable[[DecoderSizes, int], nn.Module] = LlamaLayer

    def __init__(self, *, intermediate: int, sequence: int, **sizes: Any) -> None:
        sizes |= {"ffn": intermediate, "sequence_length": sequence}
        super().__init__(DecoderSizes(norm="rms", gated=True, bias=False, joined_gate=False, **sizes))


def llama(**sizes: Any) -> Llama:
    """Return a Llama-shaped network of sizes by keyword: ``intermediate`` is the inner width of a feed-forward layer,
    ``sequence`` the tokens of an example; all others are fields of ``DecoderSizes`` (``layers``, ``hidden``, ``heads``,
    ``vocabulary``, ...).

    OptINC states 8 layers, hidden 384 and 8 heads of its Llama-like network, and no more. Assumed in the zoo: Llama 2's
    vocabulary of 32,000, its 8/3 rule for the feed-forward width (1024), a separate output layer as in Llama 2,
    sequences of 256 tokens.
    """
    return Llama(**sizes)


# Mixtral: Llama's decoder with a sparse mixture of experts for a feed-forward layer, and fewer heads of keys.
#
# Source: Jiang et al., "Mixtral of Experts" (arXiv 2401.04088), Table 1; rotary base 10⁶ as in its published weights.
#
#     x ─► router ─► top k ─► sort by expert ─► down(silu(gate) · up) of each expert ─► back in order ─► weighted sum ─►


class MixtralLayer(Layer):
    """Attention, then the mixture, each with its residual."""

    def add_feed_forward(self, sizes: DecoderSizes, number: int) -> None:
        """Add a norm and a mixture of experts of these sizes to the layer; those of all numbers are equal, dense layers
        are not made."""
        self.mixture_norm = _norm(sizes, sizes.hidden)
        self.mixture = Mixture(sizes)

    def fed_forward(self, x: Tensor) -> Tensor:
        """Return what is added to x (B, T, C) behind the attention, of the same shape: the mixture on the normed x."""
        return self.mixture(self.mixture_norm(x))


class Mixtral(Llama):
    """Tokens (B, T) to logits (B, T, vocabulary); experts must divide T·k."""

    layer = MixtralLayer


def mixtral(**sizes: Any) -> Mixtral:
    """Return a Mixtral-shaped network of sizes by keyword: ``intermediate`` is the inner width of an expert,
    ``sequence`` the tokens of an example, ``experts`` their number and ``visited`` how many each token visits; all
    others are fields of ``DecoderSizes``."""
    return Mixtral(**sizes)


# GPT-2 and GPT-3, which is wider and deeper.
#
# Sources: Radford et al., "Language models are unsupervised multitask learners" (2019), Table 2; Brown et al.,
# "Language models are few-shot learners" (2020), Table 2.1; Narayanan et al., "Efficient Large-Scale Language Model
# Training on GPU Clusters", SC 2021, section 5 (vocabulary of 51,200, dense attention in all layers).


class Gpt2Layer(nn.Module):
    """Causal self-attention and a feed-forward layer of four times the width, normalised before each."""

    def __init__(self, sizes: DecoderSizes, _number: int) -> None:
        super().__init__()
        hidden, self.heads = sizes.hidden, sizes.heads
        self.norm1 = nn.LayerNorm(hidden)
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.projection = nn.Linear(hidden, hidden)
        self.dropout1 = nn.Dropout(0.1)
        self.norm2 = nn.LayerNorm(hidden)
        self.up = nn.Linear(hidden, sizes.ffn)
        self.gelu = nn.GELU(approximate="tanh")
        self.down = nn.Linear(sizes.ffn, hidden)
        self.dropout2 = nn.Dropout(0.1)

    def forward(self, x: Tensor, _cos: Tensor, _sin: Tensor) -> Tensor:
        """Return x (B, T, C) after causal attention and the feed-forward layer, each added to what came in; the
        rotations (cosines and sines) are not used."""
        # (B, T, 3C) to three of (B, H, T, D)
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=0.1, is_causal=True)
        x = x + self.dropout1(self.projection(mixed.transpose(1, 2).flatten(2)))
        return x + self.dropout2(self.down(self.gelu(self.up(self.norm2(x)))))


class GPT2(Decoder):
    """Tokens (B, T) to logits (B, T, vocabulary); the output layer is the token table."""

    layer = Gpt2Layer

    def __init__(self, *, hidden: int, vocabulary: int = 50_257, context: int = 1024, **sizes: Any) -> None:
        sizes |= {"vocabulary": vocabulary, "sequence_length": context, "table_length": context}
        super().__init__(DecoderSizes(hidden=hidden, ffn=4 * hidden, rotary=False, tied=True, dropout=0.1, **sizes))
