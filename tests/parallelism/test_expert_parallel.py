"""Tokens leave for their experts where a layer of experts begins, and come back where it ends."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from lightloom.models.graph import ComputeGraph
from lightloom.models.torch.trace import trace
from lightloom.planning.parallelism.tensor_parallel import expert_split, tensor_split
from tests.planner.jobs import mixture, transformer
from tests.workloads.models import small_mixture


@pytest.fixture(scope="module")
def traced() -> ComputeGraph:
    with torch.device("meta"):
        module = small_mixture()
        return trace(module, module.example_inputs(3), batch=3, name="small")


def test_a_traced_mixture_sends_tokens_once_there_and_once_back(traced: ComputeGraph) -> None:
    split = tensor_split(traced)
    experts = expert_split(traced, split)
    names = [each.name for each in traced.operators]
    layers = [f"layers.{index}.mixture." for index in range(2)]
    assert [name for name, here in zip(names, experts.dispatch, strict=True) if here] == [f"{a}bmm" for a in layers]
    assert [name for name, here in zip(names, experts.combine, strict=True) if here] == [f"{a}bmm#3" for a in layers]
    held = sum(each.parameters for each, here in zip(traced.operators, experts.held, strict=True) if here)
    assert held == 2 * 4 * 3 * 32 * 64
    assert experts.degree == 4
    # Two heads of keys; the router is computed whole; 8 tokens, 16 visits, 4 of them to each expert.
    assert (split.degree, split.sequence_degree) == (2, 4)
    whole = {name for name, divided in zip(names, split.divided, strict=True) if not divided}
    assert {f"{a}{part}" for a in layers for part in ("router", "topk", "index", "sum")} <= whole


def test_dense_models_and_experts_whose_tokens_stay_are_not_shared() -> None:
    dense = transformer(2)
    assert expert_split(dense, tensor_split(dense)).degree == 1
    graph = mixture(2, experts=4)
    assert expert_split(graph, tensor_split(graph)).degree == 4
    open_ended = replace(graph, operators=tuple(each for each in graph.operators[:9]))
    assert open_ended.operators[-1].name == "layers.0.gelu"
    assert expert_split(open_ended, tensor_split(open_ended)).degree == 1
    left = replace(
        graph,
        operators=tuple(
            replace(each, kind="linear") if each.name == "layers.1.down" else each for each in graph.operators
        ),
    )
    assert expert_split(left, tensor_split(left)).degree == 1
