"""Sizes of the decoder that arguments of Megatron-LM describe, with Megatron's defaults."""

from __future__ import annotations

import re

from lightloom.core.errors import ConfigError
from lightloom.model_files.megatron.mixture import mixture
from lightloom.model_files.megatron.options import Options
from lightloom.workloads.decoder import DecoderSizes, LatentAttention

_TOKENIZERS = {"GPT2BPETokenizer": 50_257, "Llama2Tokenizer": 32_000}
"""Vocabularies of published tokenizers that have one size."""
_OTHER_MODELS = (
    "encoder-num-layers",
    "hybrid-layer-pattern",
    "hybrid-override-pattern",
    "hybrid-attention-ratio",
    "is-hybrid-model",
    "mtp-num-layers",
    "vision-model-type",
    "use-checkpoint-args",
    "linear-attention-freq",
    "experimental-attention-variant",
)
_OTHER_PROGRAMS = re.compile(r"bert|t5|mamba|hybrid|vision|ict|retro|vlm|avlm|mimo|multimodal|vit", re.IGNORECASE)
_DROPOUT = 0.1
"""Dropout of ``TransformerConfig``."""


def decoder_sizes(options: Options, sequence_length: int | None) -> tuple[DecoderSizes, list[str]]:
    """Return the sizes, and what is assumed of them.

    Raises:
        ConfigError: another kind of model, or an option that is missing or cannot be read.
    """
    _check_kind(options)
    hidden, heads = options.needed("hidden-size"), options.needed("num-attention-heads")
    gated = any(options.flag(name) for name in ("swiglu", "quick-geglu", "geglu"))
    vocabulary, assumed = _vocabulary(options)
    length = sequence_length or options.count("seq-length") or options.needed("max-position-embeddings")
    options.used.add("seq-length")
    latent, positions = _latent(options), _positions(options)
    grouped = options.flag("group-query-attention")
    groups, layers = options.count("num-query-groups"), options.needed("num-layers")
    bias = not options.flag("disable-bias-linear")
    experts, visited, dense_layers = mixture(options, layers)
    options.count("kv-channels")
    sizes = DecoderSizes(
        layers=layers,
        hidden=hidden,
        heads=heads,
        key_heads=groups if grouped else None,
        head_width=None if latent else options.count("kv-channels"),
        vocabulary=vocabulary,
        sequence_length=length,
        ffn=options.count("ffn-hidden-size") or (_swiglu_width(hidden) if options.flag("swiglu") else 4 * hidden),
        norm="rms" if options.text("normalization") == "RMSNorm" else "layer",
        gated=gated,
        bias=bias,
        query_bias=True if options.flag("add-qkv-bias") else None,
        joined_query=latent is None,
        head_norms=options.flag("qk-layernorm") and latent is None,
        tied=not options.flag("untie-embeddings-and-output-weights"),
        dropout=_dropout(options),
        experts=experts,
        visited=visited,
        expert_ffn=options.count("moe-ffn-hidden-size"),
        shared_ffn=options.count("moe-shared-expert-intermediate-size") or 0,
        shared_gate=options.flag("moe-shared-expert-gate"),
        dense_layers=dense_layers,
        latent=latent,
        table_length=options.needed("max-position-embeddings") if positions == "learned" else None,
        rotary=positions == "rotary",
    )
    return sizes, assumed


def _swiglu_width(hidden: int) -> int:
    """Megatron's two thirds of four hidden sizes, down to a multiple of 64."""
    return int((4 * hidden * 2 / 3) / 64) * 64


def _check_kind(options: Options) -> None:
    if _OTHER_PROGRAMS.search(options.program):
        raise ConfigError(
            f"{options.path}: {options.program} trains no decoder of text: expected pretrain_gpt.py, for GPT, Llama or "
            "mixtures of experts"
        )
    for name in _OTHER_MODELS:
        if options.flag(name):
            raise ConfigError(
                f"{options.path}: --{name}: expected a decoder whose layers are attention and feed-forward or mixture, "
                "with all its sizes among the arguments"
            )


def _vocabulary(options: Options) -> tuple[int, list[str]]:
    """Return the rows of the table of tokens, padded as Megatron pads it."""
    multiple = (options.count("make-vocab-size-divisible-by") or 128) * (
        options.count("tensor-model-parallel-size") or 1
    )
    kind = options.text("tokenizer-type") or ("GPT2BPETokenizer" if options.flag("merge-file") else None)
    padded, stated = options.count("padded-vocab-size"), options.count("vocab-size")
    if padded is not None:
        return padded, []
    assumed = []
    if stated is None:
        stated = _TOKENIZERS.get(kind or "")
        assumed.append(f"vocabulary: the {stated:,} of {kind}" if stated else "")
    if stated is None:
        raise ConfigError(
            f"{options.path}: --vocab-size is missing, "
            + (f"which {kind} does not tell" if kind else "and --tokenizer-type too")
            + ": expected --define vocab-size=N"
        )
    return -(-stated // multiple) * multiple, assumed


def _positions(options: Options) -> str:
    """Return how positions enter: ``learned``, ``rotary`` or ``none``."""
    kind = options.text("position-embedding-type", "learned_absolute")
    rotated = options.flag("use-rotary-position-embeddings") or kind in ("rope", "yarn", "mrope")
    without = options.flag("no-position-embedding")
    options.used.add("max-position-embeddings")
    if rotated:
        return "rotary"
    return "learned" if kind == "learned_absolute" and not without else "none"


def _dropout(options: Options) -> float:
    text = options.text("hidden-dropout")
    options.text("attention-dropout")
    try:
        return _DROPOUT if text is None else float(text)
    except ValueError:
        raise ConfigError(f"{options.path}: --hidden-dropout {text}: expected a number") from None


def _latent(options: Options) -> LatentAttention | None:
    if not options.flag("multi-latent-attention"):
        return None
    return LatentAttention(
        query_rank=options.count("q-lora-rank"),
        key_rank=options.count("kv-lora-rank") or 32,
        plain_width=options.count("qk-head-dim") or 128,
        rotated_width=options.count("qk-pos-emb-head-dim") or 64,
        value_width=options.count("v-head-dim") or 128,
    )
