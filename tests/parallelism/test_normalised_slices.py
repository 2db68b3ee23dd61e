"""Normalisations between layers that tensor parallelism splits: of heads, of compressed queries and keys, of all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightloom.models.files.model_file import FileRequest
from lightloom.models.files.read import read_model_file
from lightloom.models.graph import ComputeGraph
from lightloom.planning.parallelism.tensor_parallel import tensor_split

SIZES: dict[str, Any] = {
    "num_hidden_layers": 2,
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_attention_heads": 8,
    "vocab_size": 1024,
    "max_position_embeddings": 128,
}
MIXED = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 128}
LATENT = {
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "n_group": 2,
    "topk_group": 1,
    "first_k_dense_replace": 2,
    "q_lora_rank": 64,
    "kv_lora_rank": 32,
    "qk_rope_head_dim": 16,
    "v_head_dim": 32,
    "qk_nope_head_dim": 32,
    "num_key_value_heads": 8,
}


def configured(folder: Path, kind: str, **changes: Any) -> ComputeGraph:
    pytest.importorskip("transformers")
    path = folder / "config.json"
    path.write_text(json.dumps({"model_type": kind, **SIZES, "num_key_value_heads": 4, **changes}))
    return read_model_file(path, FileRequest(batch=2)).graph


def scripted(folder: Path, more: str) -> ComputeGraph:
    pytest.importorskip("torch")
    path = folder / "run.sh"
    path.write_text(
        "torchrun pretrain_gpt.py --num-layers 2 --hidden-size 512 --num-attention-heads 8 --seq-length 128 "
        f"--max-position-embeddings 128 --micro-batch-size 1 --global-batch-size 8 --vocab-size 1024 {more}\n"
    )
    return read_model_file(path, FileRequest(batch=2)).graph


def layers(graph: ComputeGraph, mask: Any) -> set[str]:
    """Names of the layers for which a mask is set, without their number."""
    chosen = np.flatnonzero(mask)
    return {graph.operators[at].name.split(".")[-1] for at in chosen if graph.operators[at].kind == "linear"}


@pytest.mark.parametrize(
    ("kind", "changes"),
    [("qwen3", {"head_dim": 64}), ("qwen3_moe", MIXED | {"head_dim": 64}), ("gemma3_text", {"head_dim": 64})],
)
def test_norms_of_heads_leave_a_model_as_divisible_as_without(
    tmp_path: Path, kind: str, changes: dict[str, Any]
) -> None:
    graph = configured(tmp_path, kind, **changes)
    split = tensor_split(graph)
    assert split.degree == 4
    norms = [at for at, operator in enumerate(graph.operators) if operator.name.endswith(("q_norm", "k_norm"))]
    assert len(norms) == 4 and split.sliced[norms].all()
    assert split.forward.sum() == tensor_split(configured(tmp_path, "llama")).forward.sum()


def test_scripts_with_norms_of_heads_are_split(tmp_path: Path) -> None:
    assert tensor_split(scripted(tmp_path, "")).degree == tensor_split(scripted(tmp_path, "--qk-layernorm")).degree == 8


def test_compressed_queries_and_keys_are_made_by_every_rank(tmp_path: Path) -> None:
    graph = configured(tmp_path, "deepseek_v3", **LATENT)
    split = tensor_split(graph)
    assert split.degree == 8
    everything = {operator.name.split(".")[-1] for operator in graph.operators if operator.kind == "linear"}
    assert everything - layers(graph, split.divided) == {"q_a_proj", "kv_a_proj_with_mqa"}
    # Output and down projections, and the table of tokens, are summed.
    assert split.forward.sum() == 2 * 2 + 1


def test_a_norm_of_all_heads_together_is_not_split(tmp_path: Path) -> None:
    assert tensor_split(configured(tmp_path, "olmo2", num_key_value_heads=8)).degree == 1
