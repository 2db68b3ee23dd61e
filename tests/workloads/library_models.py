"""Models of ``transformers``, ``timm`` and ``torchvision``, small and built from configurations: nothing is downloaded.

An optional test extra (``pip install 'lightloom[models]'``); without it the tests that use these are skipped.
"""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from lightloom.models.torch.pretrained import declare_operators

BATCH, TOKENS = 3, 16


class Example(NamedTuple):
    """A module, what its forward takes, and the FLOPs that PyTorch's counter omits."""

    module: Any
    inputs: Any
    omitted: int = 0


def library(name: str) -> Any:
    """A library by name, offline and silent; skips the test where it is missing.

    All three import ``torchvision`` where it is installed.
    """
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    declare_operators()
    with torch.device("cpu"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module("torch._dynamo")  # on the meta device torch 2.6 fails to import it
        return pytest.importorskip(name)


def tokens(length: int = TOKENS) -> Tensor:
    """Tokens (B, T)."""
    return torch.zeros(BATCH, length, dtype=torch.long)


def images(size: int) -> Tensor:
    """Images (B, 3, size, size)."""
    return torch.zeros(BATCH, 3, size, size)


SIZES = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 100,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
DECODER = SIZES | {"num_key_value_heads": 2}
MASKED = "mask"
CHECKPOINTED = "checkpointed"


def language(model: str, config: str, *options: str, **sizes: Any) -> Example:
    """A model of tokens by its classes' names; options: ``mask``, ``checkpointed``, ``labels``, ``bfloat16``."""
    package = library("transformers")
    module = getattr(package, model)(getattr(package, config)(**sizes)).train()
    if "bfloat16" in options:
        module = module.to(torch.bfloat16)
    if CHECKPOINTED in options:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module.gradient_checkpointing_enable()
    inputs: dict[str, Tensor] = {"input_ids": tokens()}
    if MASKED in options:
        inputs["attention_mask"] = torch.ones(BATCH, TOKENS, dtype=torch.long)
    if "labels" in options:
        inputs["labels"] = tokens()
    if "decoder" in options:
        inputs["decoder_input_ids"] = tokens(8)
    return Example(module, inputs)


def mixture(model: str, inner: int, layers: int, *options: str, **sizes: Any) -> Example:
    """A mixture of experts: two gated products and one back for each of the two experts that a token visits."""
    example = language(f"{model}ForCausalLM", f"{model}Config", *options, **sizes)
    visits = BATCH * TOKENS * 2
    return example._replace(omitted=layers * visits * 2 * 3 * SIZES["hidden_size"] * inner)


def vision(model: str, size: int = 32, **options: Any) -> Example:
    """A model of ``torchvision``."""
    return Example(getattr(library("torchvision.models"), model)(**options).train(), images(size))


def timm_model(model: str, size: int = 64, **options: Any) -> Example:
    """A model of ``timm``."""
    return Example(library("timm").create_model(model, **options).train(), images(size))


def convnext() -> Example:
    """Two stages of ``torchvision``'s ConvNeXt."""
    block = library("torchvision.models.convnext").CNBlockConfig
    return vision("ConvNeXt", block_setting=[block(32, 64, 2), block(64, None, 1)], stochastic_depth_prob=0.1)


class Recurrent(nn.Module):
    """Two bidirectional LSTM layers over embedded tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(100, 32)
        self.layers = nn.LSTM(32, 48, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(96, 100)

    def forward(self, inputs: Tensor) -> Any:
        return self.head(self.layers(self.table(inputs))[0])


class Dlrm(nn.Module):
    """Bags of embeddings, their products with each other, and two perceptrons (Naumov et al., arXiv 1906.00091)."""

    def __init__(self, rows: int = 1000, width: int = 16, tables: int = 3) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, width), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(width + tables * (tables + 1) // 2, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, dense: Tensor, sparse: Tensor) -> Any:
        bottom = self.bottom(dense)
        vectors = torch.stack([bottom, *(table(sparse[:, i]) for i, table in enumerate(self.tables))], 1)
        row, column = torch.tril_indices(vectors.shape[1], vectors.shape[1], -1)
        return self.top(torch.cat([bottom, (vectors @ vectors.transpose(1, 2))[:, row, column]], 1))


def clip() -> Example:
    """Two towers: tokens with a mask, and images."""
    text = SIZES | {"max_position_embeddings": 32, "projection_dim": 32}
    eyes = {key: SIZES[key] for key in ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")}
    example = language(
        "CLIPModel",
        "CLIPConfig",
        MASKED,
        text_config=text,
        vision_config=eyes | {"image_size": 32, "patch_size": 8, "projection_dim": 32},
        projection_dim=32,
    )
    return example._replace(inputs=example.inputs | {"pixel_values": images(32)})


_MIXTRAL = DECODER | {"num_local_experts": 4, "num_experts_per_tok": 2}
_QWEN = DECODER | {"moe_intermediate_size": 32, "num_experts": 8, "num_experts_per_tok": 2, "head_dim": 16}
_DEEPSEEK = SIZES | {
    "moe_intermediate_size": 32,
    "num_key_value_heads": 4,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "n_group": 2,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "q_lora_rank": 32,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 16,
    "qk_nope_head_dim": 16,
}
_GPT2 = {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 100, "n_positions": 32}
_GPT2 |= {"bos_token_id": 1, "eos_token_id": 2}
_T5 = {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4, "vocab_size": 100}
_BART = {
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "vocab_size": 100,
    "max_position_embeddings": 64,
}

EXAMPLES: dict[str, Callable[[], Example]] = {
    "mixtral-bfloat16": lambda: mixture("Mixtral", 128, 2, "bfloat16", **_MIXTRAL),
    "mixtral-float32": lambda: mixture("Mixtral", 128, 2, **_MIXTRAL),
    "mixtral-mask": lambda: mixture("Mixtral", 128, 2, MASKED, "bfloat16", **_MIXTRAL),
    "qwen3-moe": lambda: mixture("Qwen3Moe", 32, 2, "bfloat16", **_QWEN),
    "deepseek-v3": lambda: mixture("DeepseekV3", 32, 1, "bfloat16", **_DEEPSEEK),
    "llama-mask": lambda: language("LlamaForCausalLM", "LlamaConfig", MASKED, **DECODER),
    "llama-checkpointed": lambda: language("LlamaForCausalLM", "LlamaConfig", CHECKPOINTED, **DECODER),
    "llama-labels": lambda: language("LlamaForCausalLM", "LlamaConfig", "labels", **DECODER),
    "qwen3": lambda: language("Qwen3ForCausalLM", "Qwen3Config", **DECODER, head_dim=16),
    "gpt2": lambda: language("GPT2LMHeadModel", "GPT2Config", **_GPT2),
    "gpt2-mask-checkpointed": lambda: language("GPT2LMHeadModel", "GPT2Config", MASKED, CHECKPOINTED, **_GPT2),
    "bert-mask": lambda: language("BertForMaskedLM", "BertConfig", MASKED, **SIZES),
    "t5-mask": lambda: language(
        "T5ForConditionalGeneration", "T5Config", MASKED, "decoder", **_T5, decoder_start_token_id=0
    ),
    "bart-mask": lambda: language("BartForConditionalGeneration", "BartConfig", MASKED, "decoder", **_BART),
    "mamba": lambda: language(
        "MambaForCausalLM", "MambaConfig", hidden_size=64, num_hidden_layers=2, vocab_size=100, state_size=8
    ),
    "clip": clip,
    "lstm": lambda: Example(Recurrent(), tokens()),
    "dlrm": lambda: Example(Dlrm(), (torch.zeros(BATCH, 13), torch.zeros(BATCH, 3, 4, dtype=torch.long))),
    "torchvision-resnet50": lambda: vision("resnet50"),
    "torchvision-efficientnet": lambda: vision("efficientnet_b0"),
    "torchvision-swin": lambda: vision(
        "SwinTransformer",
        patch_size=[4, 4],
        embed_dim=48,
        depths=[2, 2],
        num_heads=[3, 6],
        window_size=[7, 7],
        stochastic_depth_prob=0.2,
    ),
    "torchvision-convnext": convnext,
    "torchvision-vit": lambda: vision(
        "VisionTransformer", 64, image_size=64, patch_size=32, num_layers=2, num_heads=4, hidden_dim=64, mlp_dim=128
    ),
    "timm-deit": lambda: timm_model("deit_tiny_patch16_224", 224, depth=2),
    "timm-mixer": lambda: timm_model("mixer_s32_224", 224),
    "timm-poolformer": lambda: timm_model("poolformer_s12"),
}
"""Names, and functions that build the models on the default device."""
