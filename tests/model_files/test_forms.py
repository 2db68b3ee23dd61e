"""One model in each form that it has is one job: FLOPs of its layers and its priced step agree within 1 %."""

from __future__ import annotations

import json
import runpy
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lightloom.app.api.planning import plan
from lightloom.models.decoder import DecoderSizes
from lightloom.models.files import megatron
from lightloom.models.files.megatron import decoder_sizes
from lightloom.models.graph import TENSOR_KINDS, ComputeGraph
from tests.workloads.library_models import library

LAYERS, TOKENS = 2, 2048
LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 16384,
    "max_position_embeddings": 8192,
}
"""Llama-3 8B, its vocabulary an eighth, so that two layers are more than the head."""
QWEN: dict[str, Any] = {
    "model_type": "qwen3_moe",
    "architectures": ["Qwen3MoeForCausalLM"],
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "vocab_size": 16384,
    "max_position_embeddings": 40960,
    "tie_word_embeddings": False,
}
"""Qwen3 30B-A3B, likewise."""
VIT: dict[str, Any] = {
    "model_type": "vit",
    "architectures": ["ViTForImageClassification"],
    "num_hidden_layers": LAYERS,
}
"""ViT-B/16."""
DECODER = (
    f"--num-layers {LAYERS} --seq-length {TOKENS} --position-embedding-type rope --normalization RMSNorm --swiglu "
    "--disable-bias-linear --untie-embeddings-and-output-weights --hidden-dropout 0 --attention-dropout 0 "
    "--micro-batch-size 1 --global-batch-size 8 --bf16 --vocab-size 16384 --num-attention-heads 32 "
    "--group-query-attention --max-position-embeddings 40960 --use-distributed-optimizer "
)
MEGATRON = {
    "llama": DECODER + "--hidden-size 4096 --ffn-hidden-size 14336 --num-query-groups 8",
    "qwen": DECODER + "--hidden-size 2048 --ffn-hidden-size 6144 --num-query-groups 4 --kv-channels 128 --qk-layernorm "
    "--num-experts 128 --moe-router-topk 8 --moe-ffn-hidden-size 768",
}
CONFIGURATIONS = {"llama": LLAMA, "qwen": QWEN, "qwen-16": QWEN | {"num_experts": 16}, "vit": VIT}


def configuration(folder: Path, name: str) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(CONFIGURATIONS[name]))
    return path


def script(folder: Path, name: str) -> Path:
    path = folder / "run.sh"
    path.write_text(f"torchrun --nproc_per_node 8 pretrain_gpt.py {MEGATRON[name]}\n")
    return path


def module(folder: Path, name: str, prepare: str = "") -> str:
    """A module of ``transformers`` as a user builds it, with example inputs."""
    fields = {key: value for key, value in CONFIGURATIONS[name].items() if key not in ("model_type", "architectures")}
    kind = CONFIGURATIONS[name]["architectures"][0]
    configuration = kind.removesuffix("ForCausalLM").removesuffix("ForImageClassification") + "Config"
    inputs = "torch.zeros(2, 3, 224, 224)" if name == "vit" else f"torch.zeros(2, {TOKENS}, dtype=torch.long)"
    (folder / "model.py").write_text(
        f"import torch, transformers\n"
        f"def build():\n"
        f"    module = transformers.{kind}(transformers.{configuration}(**{fields!r}, use_cache=False))\n"
        f"    module.set_experts_implementation('grouped_mm') if {name.startswith('qwen')} else None\n"
        f"    {prepare or 'pass'}\n"
        f"    return module.train(), ({inputs},)\n"
    )
    return f"{folder / 'model.py'}:build"


def module_with_loss(folder: Path, name: str) -> str:
    """The module, which computes its loss itself."""
    inner = folder / "inner"
    inner.mkdir()
    path = module(inner, name).removesuffix(":build")
    text = Path(path).read_text().replace("module.train(), (", "module.train(), with_labels(")
    helper = "def with_labels(tokens):\n    return {'input_ids': tokens, 'labels': tokens}\n"
    (folder / "loss.py").write_text(text.replace(",)\n", ")\n") + helper)
    return f"{folder / 'loss.py'}:build"


def trace(folder: Path, name: str) -> Path:
    """The execution trace of a forward and a backward pass of the module, two samples."""
    from torch import profiler

    build = runpy.run_path(module(folder, name).removesuffix(":build"))["build"]
    network, inputs = build()
    path = folder / "step.json"
    observer = profiler.ExecutionTraceObserver()
    observer.register_callback(str(path))
    observer.start()
    if name == "vit":
        network(*inputs).logits.sum().backward()
    else:  # models without a loss are priced with the cross entropy of their logits
        network(*inputs, labels=inputs[0]).loss.backward()
    observer.stop()
    observer.unregister_callback()
    return path


def exported(folder: Path, name: str) -> Path:
    """The ONNX file of the module for any number of tokens, as PyTorch exports it; its weights are left out.

    ONNX has no grouped products: the weights of its expert are chosen for each token, for which tokens must be few.
    """
    import onnx
    import torch
    from transformers.initialization import no_init_weights

    class Logits(torch.nn.Module):
        def __init__(self, network: torch.nn.Module) -> None:
            super().__init__()
            self.network = network

        def forward(self, x: Any) -> Any:
            more = {} if name == "vit" else {"attention_mask": torch.ones_like(x)}
            return self.network(x, **more).logits

    source = Path(module(folder, name).removesuffix(":build"))
    source.write_text(source.read_text().replace("'grouped_mm'", "'batched_mm'").replace(f"(2, {TOKENS}", "(2, 16"))
    with no_init_weights():
        network, inputs = runpy.run_path(str(source))["build"]()
    path = folder / "model.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Logits(network), inputs, path, dynamo=False, export_params=False, input_names=["x"],
            dynamic_axes=None if name == "vit" else {"x": {1: "sequence"}}, do_constant_folding=False,
            training=torch.onnx.TrainingMode.PRESERVE, opset_version=17,
        )  # fmt: skip
    graph = (document := onnx.load(path)).graph
    for entry in graph.input[1:]:
        held = entry.type.tensor_type
        weight = onnx.TensorProto(name=entry.name, data_type=held.elem_type, data_location=onnx.TensorProto.EXTERNAL)
        weight.dims.extend(each.dim_value for each in held.shape.dim)
        graph.initializer.append(weight)
    del graph.input[1:]
    path.write_bytes(document.SerializeToString())
    return path


FORMS: dict[str, Callable[[Path, str], Path | str]] = {
    "module": module,
    "loss": module_with_loss,
    "configuration": configuration,
    "script": script,
    "trace": trace,
    "onnx": exported,
}
KINDS = [
    ("llama", ("module", "loss", "configuration", "script")),
    ("qwen", ("module", "loss", "configuration", "script")),
    ("vit", ("module", "configuration", "trace")),
    ("vit", ("module", "onnx")),
    # One or two minutes of a processor each.
    pytest.param("llama", ("module", "trace"), marks=pytest.mark.slow),
    pytest.param("qwen", ("module", "trace"), marks=pytest.mark.slow),
    pytest.param("llama", ("module", "onnx"), marks=pytest.mark.slow),
    pytest.param("qwen-16", ("module", "onnx"), marks=pytest.mark.slow),
]


def layer_flops(graph: ComputeGraph) -> Counter[str]:
    """FLOPs of the products of a graph by kind; a share of causal attention that is not computed is not counted."""
    flops: Counter[str] = Counter()
    for operator in graph.operators:
        if operator.kind in TENSOR_KINDS:
            flops[operator.kind] += round(operator.forward_flops * operator.visible_scores)
    return flops


def heads(graph: ComputeGraph) -> list[dict[str, int]]:
    """Sizes of each attention, on which its splits and its kernels depend."""
    return [dict(operator.dimensions) for operator in graph.operators if operator.kind == "attention"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "forms"), KINDS, ids=lambda value: value if isinstance(value, str) else "-".join(value)
)
def test_the_forms_of_a_model_are_one_job(tmp_path: Path, name: str, forms: tuple[str, ...]) -> None:
    library("transformers")
    graphs, steps = {}, {}
    for form in forms:
        source = FORMS[form](tmp_path, name)
        ranking = plan(
            source,
            "dgx-h100-64",
            ranks=8,
            global_batch=256 if name == "vit" else 8,
            sequence_length=None if name == "vit" or form == "trace" else TOKENS,
            model_only=True,
            strategy="fsdp",
            algorithm="ring",
            dp=8,
            recompute="none",
        )
        graphs[form], steps[form] = ranking.search.graph, ranking.winner.step_time
    first = forms[0]
    for form in forms[1:]:
        assert layer_flops(graphs[form]) == layer_flops(graphs[first]), form
        assert heads(graphs[form]) == heads(graphs[first]), form
        assert graphs[form].parameters == graphs[first].parameters, form
        assert steps[form] == pytest.approx(steps[first], rel=0.01), form


@pytest.mark.long
@pytest.mark.parametrize("degrees", [{"tp": 8}, {"tp": 2, "pp": 4}, {"dp": 8}], ids=str)
def test_products_of_the_query_alone_separate_megatron_from_the_zoo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, degrees: dict[str, int]
) -> None:
    """Megatron joins queries, keys and values to one product, which is quicker; else its arguments are the same job."""
    path = tmp_path / "run.sh"
    path.write_text(
        "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 --ffn-hidden-size 11008 "
        "--num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096 --position-embedding-type rope "
        "--normalization RMSNorm --swiglu --disable-bias-linear --untie-embeddings-and-output-weights --bf16 "
        "--hidden-dropout 0 --attention-dropout 0 --vocab-size 32000 --micro-batch-size 1 --global-batch-size 8\n"
    )

    def step(model: str | Path) -> float:
        split: dict[str, Any] = {"dp": 1, "tp": 1, "pp": 1} | degrees
        ranking = plan(
            model,
            "dgx-h100-64",
            ranks=8,
            global_batch=8,
            sequence_length=4096,
            model_only=True,
            strategy="tensor-pipeline",
            algorithm="ring",
            recompute="full",
            **split,
        )
        return ranking.winner.step_time

    zoo, joined = step("llama2-7b"), step(path)
    monkeypatch.setattr(megatron, "decoder_sizes", lambda *given: _apart(decoder_sizes(*given)))
    assert joined < step(path) == pytest.approx(zoo, rel=2e-4)


def _apart(sizes: tuple[DecoderSizes, list[str]]) -> tuple[DecoderSizes, list[str]]:
    return replace(sizes[0], joined_query=False), sizes[1]
