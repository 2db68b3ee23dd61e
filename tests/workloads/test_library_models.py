"""Twenty-six models of other libraries: parameters exact, FLOPs as PyTorch counts, activations as autograd keeps."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from lightloom.models.graph import TENSOR_KINDS, ComputeGraph
from lightloom.models.torch.frame import tensors_in
from lightloom.models.torch.trace import trace
from lightloom.models.torch.values import Values, fake_tensors, meta_copy

from .kept import bytes_kept, called
from .library_models import BATCH, CHECKPOINTED, EXAMPLES, Example

KEEPERS = (
    "llama-labels",
    "gpt2",
    "t5-mask",
    "bart-mask",
    "clip",
    "dlrm",
    "torchvision-resnet50",
    "torchvision-swin",
    "timm-deit",
    "timm-mixer",
)
"""Models whose activations are compared."""
LIKE_OTHERS = (
    "mixtral-float32",
    "mixtral-mask",
    "qwen3-moe",
    "llama-mask",
    "qwen3",
    "gpt2",
    "gpt2-mask-checkpointed",
    "bert-mask",
    "bart-mask",
    "clip",
    "torchvision-efficientnet",
    "torchvision-resnet50",
    "torchvision-convnext",
    "torchvision-vit",
    "timm-deit",
    "timm-poolformer",
)
"""Models of the same kinds of modules as others, which are traced with the slow tests."""


def models(names: Iterable[str]) -> list[Any]:
    """Parameters of a test on models by name."""
    return [pytest.param(name, marks=pytest.mark.slow if name in LIKE_OTHERS else ()) for name in names]


def built(name: str) -> Example:
    with torch.device("meta"):
        return EXAMPLES[name]()


def traced(name: str, example: Example) -> ComputeGraph:
    return trace(example.module, example.inputs, batch=BATCH, name=name)


@cache
def graph_of(name: str) -> ComputeGraph:
    """The graph of an example that is not needed otherwise."""
    return traced(name, built(name))


def counted(example: Example, *, backward: bool = False) -> int:
    """FLOPs of a pass by PyTorch's counter; grouped products take bfloat16 alone, and are none to it."""
    module: Any = example.module.to(torch.bfloat16) if example.omitted else example.module
    with fake_tensors(module, Values()), torch.device("meta"):
        with FlopCounterMode(display=False) as counter:
            result = called(module, meta_copy(example.inputs))
        if backward:
            loss = torch.stack([tensor.sum() for tensor in tensors_in(result) if tensor.requires_grad]).sum()
            with FlopCounterMode(display=False) as counter:
                loss.backward()  # type: ignore[no-untyped-call]
    return int(counter.get_total_flops())


@pytest.mark.long
@pytest.mark.parametrize("name", models(EXAMPLES))
def test_parameters_and_flops(name: str) -> None:
    example, graph = built(name), graph_of(name)
    assert graph.parameters + graph.unused_parameters == sum(p.numel() for p in example.module.parameters())
    products = sum(operator.forward_flops for operator in graph.operators if operator.kind in TENSOR_KINDS)
    assert products == counted(example) + example.omitted
    assert graph.uncounted == ()
    experts = [operator for operator in graph.operators if operator.kind == "experts"]
    assert sum(operator.forward_flops for operator in experts) == example.omitted
    assert any(operator.checkpoint for operator in graph.operators) == (CHECKPOINTED in name)


@pytest.mark.parametrize("name", models(KEEPERS))
def test_activations(name: str) -> None:
    example, graph = built(name), graph_of(name)
    # On a processor torch 2.6 has no kernel for grouped queries, and keeps their scores.
    assert graph.saved_bytes == pytest.approx(bytes_kept(example.module, example.inputs), rel=0.2)


@pytest.mark.parametrize("name", models(("llama-checkpointed", "gpt2-mask-checkpointed")))
def test_checkpointed_models_compute_their_blocks_again(name: str) -> None:
    example, graph = built(name), graph_of(name)
    products = [operator for operator in graph.operators if operator.kind in TENSOR_KINDS]
    assert sum(operator.backward_flops for operator in products) == counted(example, backward=True)
    assert len({operator.checkpoint for operator in products} - {""}) == 2
    plain = graph_of("llama-labels" if "llama" in name else "gpt2")
    assert graph.saved_bytes < 0.75 * plain.saved_bytes


def test_experts_chosen_by_values_are_refused_with_module_line_and_remedy() -> None:
    from lightloom.core.errors import WorkloadError

    example = built("mixtral-float32")
    example.module.config._experts_implementation = "eager"
    with pytest.raises(WorkloadError) as refused:
        traced("m", example)
    text = str(refused.value)
    assert "in module 'model.layers.0.mlp.experts' (MixtralExperts), modeling_mixtral.py line" in text
    assert "experts_implementation='grouped_mm'" in text
    assert "\n" not in text
