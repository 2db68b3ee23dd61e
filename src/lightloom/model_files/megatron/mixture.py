"""Mixtures of experts among arguments of Megatron-LM, and of Megatron-DeepSpeed, whose defaults are others.

Megatron Core       --num-experts 8 --moe-router-topk 2 --moe-layer-freq ([0]*1+[1]*31)
Megatron-DeepSpeed  --num-experts 128 --topk 1 --expert-interval 2    every second layer, 1 means none
"""

from __future__ import annotations

import re

from lightloom.core.errors import ConfigError
from lightloom.model_files.megatron.options import Options

_DEEPSPEED = ("deepspeed", "deepspeed-config", "moe-expert-parallel-size", "expert-interval", "zero-stage")


def is_deepspeed(options: Options) -> bool:
    """Whether the arguments are those of Megatron-DeepSpeed."""
    return any(name in options.given for name in _DEEPSPEED) or len(options.given.get("num-experts", ())) > 1


def mixture(options: Options, layers: int) -> tuple[int, int, tuple[int, ...]]:
    """Return the experts of a layer, how many a token visits, and the layers without experts.

    Raises:
        ConfigError: layers with different numbers of experts, or an option that cannot be read.
    """
    if is_deepspeed(options):
        return _deepspeed(options, layers)
    experts = options.count("num-experts") or 0
    return experts, options.count("moe-router-topk") or 2, _dense_layers(options, layers) if experts else ()


def _deepspeed(options: Options, layers: int) -> tuple[int, int, tuple[int, ...]]:
    numbers = dict.fromkeys(options.texts("num-experts"))
    visited, interval = options.count("topk") or 1, options.count("expert-interval") or 2
    if len(numbers) > 1:
        raise ConfigError(
            f"{options.path}: --num-experts {' '.join(numbers)}: layers with different numbers of experts: expected as "
            "many in all of them"
        )
    experts = options.count("num-experts") or 1
    if experts == 1:
        return 0, 1, ()
    if (kind := options.text("mlp-type", "standard")) != "standard":
        raise ConfigError(f"{options.path}: --mlp-type {kind}: expected standard, experts without an MLP beside them")
    return experts, visited, tuple(number for number in range(layers) if (number + 1) % interval)


def _dense_layers(options: Options, layers: int) -> tuple[int, ...]:
    """Return the layers without experts: all but every n-th, or those with a 0 in ``([0]*3+[1]*58)``."""
    text = options.text("moe-layer-freq", "1") or "1"
    if text.isdecimal() and int(text) > 0:
        return tuple(number for number in range(layers) if number % int(text))
    pattern: list[int] = []
    for part in text.replace(" ", "").strip("()").split("+"):
        match = re.fullmatch(r"\(?\[([01](?:,[01])*)\]\)?(?:\*(\d+))?", part)
        if match is None:
            raise ConfigError(f"{options.path}: --moe-layer-freq {text}: expected a number, or such as ([0]*3+[1]*58)")
        pattern += [int(bit) for bit in match[1].split(",")] * int(match[2] or 1)
    if len(pattern) != layers:
        raise ConfigError(f"{options.path}: --moe-layer-freq {text}: {len(pattern)} layers, expected {layers}")
    return tuple(number for number, mixes in enumerate(pattern) if not mixes)
