"""The zoo against published figures: parameters, Table 2 of Ro, Lee and Ahn, FLOPs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch

from lightloom.models.graph import ComputeGraph, layers, neuron_bytes, synapse_bytes
from lightloom.models.torch.trace import trace_factory
from lightloom.models.zoo import TRACE_BATCH, ZOO, load_workload, resolve

LARGER = (
    "googlenet",
    "inception-v3",
    "inception-v3-plain",
    "vgg19",
    "resnet101",
    "resnet152",
    "gpt3-175b",
    "llama2-70b",
)
"""Networks of the same modules as others."""
TRACED_AGAIN = ("alexnet", "resnet50", "hdc", "optinc-llama")
"""Networks of convolutions, perceptrons and transformers."""


def of_the_zoo(rows: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Parameters of a test, rows that begin with a network's name; those of the larger networks are slow."""
    return [
        pytest.param(
            *row,
            id=row[0],
            marks=pytest.mark.slow if row[0].removesuffix("-2014").removesuffix("-2015") in LARGER else (),
        )
        for row in rows
    ]


ENTRIES = of_the_zoo((name,) for name in ZOO)
ENTRIES_TRACED_AGAIN = [pytest.param(name, marks=() if name in TRACED_AGAIN else pytest.mark.slow) for name in ZOO]

PUBLISHED = {
    "alexnet": 61_100_840,
    "vgg16": 138_357_544,
    "vgg19": 143_667_240,
    "googlenet": 13_004_888,
    "googlenet-plain": 6_624_904,
    "inception-v3": 27_161_264,
    "inception-v3-plain": 23_834_568,
    "resnet50": 25_557_032,
    "resnet101": 44_549_160,
    "resnet152": 60_192_808,
    "densenet121": 7_978_856,
    "gpt2-355m": 354_823_168,
    "gpt3-175b": 174_615_846_912,
    "llama2-7b": 6_738_415_616,
    "mixtral-8x7b": 46_702_792_704,
}
"""Counted in other people's implementations, so that the catalog's own figures are not their only witness."""


@pytest.mark.parametrize(("name", "parameters"), of_the_zoo(PUBLISHED.items()))
def test_published_parameters(name: str, parameters: int) -> None:
    assert load_workload(name, batch=1).parameters == parameters


@pytest.mark.parametrize("name", ENTRIES)
def test_every_parameter_belongs_to_one_operator(name: str) -> None:
    entry = ZOO[name]
    with torch.device("meta"):
        module = resolve(entry.path)(**entry.arguments)
    graph = load_workload(entry.name, batch=1)
    assert graph.parameters == sum(p.numel() for p in module.parameters()) == entry.parameters
    assert graph.unused_parameters == 0
    assert graph.parameter_bytes == 4 * graph.parameters


@pytest.mark.parametrize("name", ENTRIES_TRACED_AGAIN)
def test_rescaling_equals_tracing_at_that_batch(name: str) -> None:
    entry = ZOO[name]
    batch = 4
    assert batch != TRACE_BATCH
    fresh = trace_factory(resolve(entry.path), name=entry.name, batch=batch, arguments=entry.arguments)
    assert load_workload(entry.name, batch=batch) == fresh


@pytest.mark.parametrize("name", ENTRIES)
def test_every_operator_feeds_an_output_or_another(name: str) -> None:
    entry = ZOO[name]
    graph = load_workload(entry.name, batch=2)
    ends = [name for name, readers in graph.consumers().items() if not readers]
    outputs = {"googlenet": 3, "inception-v3": 2}.get(entry.name, 1)
    assert len(ends) == outputs
    for operator in graph.operators:
        assert operator.inputs or operator.kind in ("input", "embedding")
        assert operator.forward_bytes >= operator.activation_bytes or operator.kind == "input"


MiB = 2**20


@pytest.mark.parametrize(
    ("name", "layer_count", "synapse", "neuron"),
    of_the_zoo(
        [
            ("alexnet-2012", 14, 232.5, 172.0),
            ("vgg16", 22, 527.7, 1860.1),
            ("vgg19", 25, 548.0, 2019.3),
            ("googlenet-2014", 73, 26.7, 585.5),  # the paper prints 587
            (
                "inception-v3-plain",
                110,
                90.8,
                1458.7,
            ),  # the paper prints 111 layers, 105 and 1446: another variant
            ("resnet50-2015", 126, 97.3, 3301.7),  # the paper prints 3290, and 125 layers: without the input
            ("resnet101-2015", 245, 169.5, 4967.7),  # 4956 and 244
            ("resnet152-2015", 364, 229.0, 7025.7),  # 7014 and 363
            ("densenet121", 306, 30.1, 4061.1),
        ]
    ),
)
def test_table_2(name: str, layer_count: int, synapse: float, neuron: float) -> None:
    graph = load_workload(name, batch=1)
    assert len(layers(graph)) == layer_count
    assert synapse_bytes(graph) / MiB == pytest.approx(synapse, abs=0.0501)
    assert neuron_bytes(graph, 32) / MiB == pytest.approx(neuron, abs=0.0501)


def tensor_flops(graph: ComputeGraph) -> int:
    return sum(op.forward_flops for op in graph.operators if op.kind in ("conv", "linear", "attention"))


@pytest.mark.parametrize(
    ("name", "gmac"),
    of_the_zoo(
        [
            ("alexnet", 0.714),
            ("alexnet-2012", 0.724),
            ("vgg16", 15.470),
            ("vgg19", 19.632),
            ("googlenet-2014", 1.583),
            ("inception-v3-plain", 5.71),
            ("resnet50", 4.089),
            ("resnet50-2015", 3.858),
            ("resnet101-2015", 7.570),
            ("resnet152-2015", 11.282),
            ("densenet121", 2.834),
        ]
    ),
)
def test_multiply_accumulates_per_image(name: str, gmac: float) -> None:
    assert tensor_flops(load_workload(name, batch=1)) / 2e9 == pytest.approx(gmac, rel=1e-3)


@pytest.mark.long
@pytest.mark.parametrize("sequence", [128, 4096])
def test_llama_flops_follow_from_its_parameters(sequence: int) -> None:
    """Two FLOPs per weight and token (the token table only looks up, norms are no products), four per score and
    channel."""
    graph = load_workload("llama2-7b", batch=3, sequence_length=sequence)
    tokens, layers_, hidden, vocabulary = 3 * sequence, 32, 4096, 32_000
    weights = graph.parameters - vocabulary * hidden - (2 * layers_ + 1) * hidden
    assert tensor_flops(graph) == 2 * weights * tokens + 4 * layers_ * tokens * sequence * hidden
    assert {op.dimensions["sequence"] for op in graph.operators if "sequence" in op.dimensions} == {sequence}


@pytest.mark.long
def test_mixtral_computes_with_the_experts_that_a_token_visits() -> None:
    """All experts count as parameters, two of eight as work: 12.9 B parameters a token (Mistral AI's announcement)."""
    graph = load_workload("mixtral-8x7b", batch=2, sequence_length=512)
    experts = [op for op in graph.operators if op.kind == "experts"]
    held = sum(op.parameters for op in experts)
    assert held == 32 * 8 * 3 * 4096 * 14336
    assert graph.parameters - held * 6 // 8 == pytest.approx(12.9e9, rel=5e-3)
    assert sum(op.forward_flops for op in experts) == 2 * 1024 * held * 2 // 8
    for op in experts:
        sizes = op.dimensions
        assert sizes["expert"] == 8 and sizes["expert"] * sizes["sequence"] == 2 * 512
        products = sizes["sample"] * 2 * 512 * sizes["channel"] * sizes["in_channel"]
        assert op.forward_flops == 2 * products and op.backward_flops == 2 * op.forward_flops
    attention = graph.operator("layers.0.attention.attention")
    assert (attention.dimensions["head"], attention.dimensions["key_head"]) == (32, 8)


def test_the_index_needs_no_torch() -> None:
    code = "import sys, lightloom.models.zoo, lightloom.models.zoo; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.slow
def test_llama_traces_in_little_memory() -> None:
    """Seven billion parameters, and the whole process stays below 1.5 GiB.

    VmHWM is the peak of the program that runs; ``ru_maxrss`` would begin at the size of the process that started it.
    """
    code = (
        "import pathlib, re; from lightloom.models.zoo import load_workload;"
        "load_workload('llama2-7b', batch=8, sequence_length=2048);"
        r"print(re.search(r'VmHWM:\s+(\d+) kB', pathlib.Path('/proc/self/status').read_text())[1])"
    )
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert int(run.stdout) * 1024 < 1.5 * 2**30


def test_the_page_lists_the_whole_zoo() -> None:
    page = (Path(__file__).parents[2] / "docs" / "workloads.md").read_text()
    for entry in ZOO.values():
        what = f"{entry.description}. {entry.source}"
        assert f"| `{entry.name}` | {entry.parameters:,} | {entry.example} | {what} |" in page
