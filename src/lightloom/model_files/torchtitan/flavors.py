"""Sizes of torchtitan's models by name and flavor, as ``torchtitan/models/*/__init__.py`` and its experiments had them
in October 2025, while torchtitan read TOML."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lightloom.workloads.decoder import DecoderSizes, LatentAttention


def sizes_of(name: str, flavor: str) -> DecoderSizes | None:
    """Return the sizes of a flavor; None where there is none of that name."""
    return _FLAVORS.get(_NAMES.get(name, name), {}).get(flavor)


def names() -> Iterator[str]:
    """Yield each model with its flavors, for messages."""
    for name, flavors in _FLAVORS.items():
        yield f"{name} ({', '.join(flavors)})"


def _gated_width(hidden: int, multiple: int, factor: float = 1.0) -> int:
    """Llama's rule: two thirds of four hidden sizes, times a factor, up to a multiple."""
    inner = int(factor * int(2 * 4 * hidden / 3)) if factor != 1.0 else int(2 * 4 * hidden / 3)
    return multiple * -(-inner // multiple)


_LLAMA = DecoderSizes(
    layers=6,
    hidden=256,
    heads=16,
    vocabulary=2048,
    sequence_length=2048,
    ffn=_gated_width(256, 256),
    norm="rms",
    gated=True,
    bias=False,
)


def _llama(layers: int, hidden: int, heads: int, keys: int | None, ffn: int, vocabulary: int = 128_256) -> DecoderSizes:
    return replace(_LLAMA, layers=layers, hidden=hidden, heads=heads, key_heads=keys, ffn=ffn, vocabulary=vocabulary)


def _qwen(layers: int, hidden: int, heads: int, ffn: int, *, keys: int = 8, tied: bool = False) -> DecoderSizes:
    sizes = _llama(layers, hidden, heads, keys, ffn, 151_936)
    return replace(sizes, head_width=128, head_norms=True, tied=tied)


def _qwen_mixture(sizes: DecoderSizes, experts: int, expert_ffn: int) -> DecoderSizes:
    return replace(sizes, experts=experts, visited=8, expert_ffn=expert_ffn)


def _deepseek(
    layers: int, hidden: int, heads: int, ffn: int, experts: tuple[int, int, int, int], *, dense: int = 1,
    query_rank: int | None = None, vocabulary: int = 102_400,
) -> DecoderSizes:  # fmt: skip
    """``experts``: how many, how many a token visits, inner width of one, how many all tokens visit."""
    number, visited, width, shared = experts
    latent = LatentAttention(query_rank=query_rank, key_rank=512, plain_width=128, rotated_width=64, value_width=128)
    return replace(
        _llama(layers, hidden, heads, None, ffn, vocabulary),
        experts=number,
        visited=visited,
        expert_ffn=width,
        shared_ffn=width * shared,
        dense_layers=tuple(range(dense)),
        latent=latent,
    )


_NAMES = {"llama": "llama3"}
_FLAVORS: dict[str, dict[str, DecoderSizes]] = {
    "llama3": {
        "debugmodel": _LLAMA,
        "debugmodel_flex_attn": _LLAMA,
        "8B": _llama(32, 4096, 32, 8, _gated_width(4096, 1024, 1.3)),
        "70B": _llama(80, 8192, 64, 8, _gated_width(8192, 4096, 1.3)),
        "405B": _llama(126, 16384, 128, 8, _gated_width(16384, 4096, 1.2)),
    },
    "llama2": {
        "debugmodel": replace(_LLAMA, layers=8, vocabulary=32_000),
        "7B": _llama(32, 4096, 32, None, _gated_width(4096, 256), 32_000),
        "13B": _llama(40, 5120, 40, None, _gated_width(5120, 256), 32_000),
        "70B": _llama(80, 8192, 64, 8, _gated_width(8192, 4096, 1.3), 32_000),
    },
    "qwen3": {
        "0.6B": _qwen(28, 1024, 16, 3072, tied=True),
        "1.7B": _qwen(28, 2048, 16, 6144, tied=True),
        "4B": _qwen(36, 2560, 32, 9728, tied=True),
        "8B": _qwen(36, 4096, 32, 12288),
        "14B": _qwen(40, 5120, 40, 17408),
        "32B": _qwen(64, 5120, 64, 25600),
        "debugmodel_moe": _qwen_mixture(_qwen(28, 1024, 16, 3072), 64, 768),
        "30B-A3B": _qwen_mixture(_qwen(48, 2048, 32, 6144, keys=4), 128, 768),
        "235B-A22B": _qwen_mixture(_qwen(94, 4096, 64, 12288, keys=4), 128, 1536),
    },
    "deepseek_v3": {
        "debugmodel": _deepseek(6, 256, 16, 1024, (8, 3, 256, 2), vocabulary=2048),
        "debugmodel_flex_attn": _deepseek(6, 256, 16, 1024, (8, 3, 256, 2), vocabulary=2048),
        "16B": _deepseek(27, 2048, 16, 10944, (64, 6, 1408, 2)),
        "236B": _deepseek(60, 5120, 128, 12288, (160, 6, 1536, 2), query_rank=1536),
        "671B": _deepseek(61, 7168, 128, 18432, (256, 8, 2048, 1), dense=3, query_rank=1536, vocabulary=129_280),
    },
}
