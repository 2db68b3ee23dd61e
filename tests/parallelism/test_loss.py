"""What a model's cross entropy holds: counted once, in proportion to its logits, and as an H100 held it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lightloom.machines.clusters.cluster import TrainingSettings
from lightloom.models.graph import ComputeGraph
from lightloom.models.zoo import load_workload
from lightloom.planning.parallelism.operators import loss_bytes
from lightloom.planning.parallelism.plan import make_plan

MEASURED = json.loads((Path(__file__).parents[2] / "benchmarks/gpu/measured/h100-steps.json").read_text())["rows"]


@pytest.fixture(scope="module", params=["gpt2-355m", "optinc-llama", "resnet50"])
def graph(request: pytest.FixtureRequest) -> ComputeGraph:
    return load_workload(request.param, batch=1)


def test_the_loss_holds_its_logits_and_three_float32_copies(graph: ComputeGraph) -> None:
    logits = graph.operators[-1].activation_bytes // graph.element_bytes
    assert loss_bytes(graph) == logits * (graph.element_bytes + 12)
    assert loss_bytes(graph.with_batch(7 * graph.batch)) == 7 * loss_bytes(graph)
    for strategy in ("ddp", "fsdp"):
        memory = make_plan(strategy, graph, 4, TrainingSettings(batch_per_rank=graph.batch, precision="fp32")).memory
        assert memory.loss == loss_bytes(graph)
        assert memory.total == pytest.approx(replace(memory, loss=0.0).total + memory.loss)


def test_a_graph_that_has_its_loss_holds_no_other(graph: ComputeGraph) -> None:
    ended = replace(graph, operators=(*graph.operators[:-1], replace(graph.operators[-1], kind="loss", dimensions={})))
    assert loss_bytes(ended) == 0


def test_memory_is_as_an_h100_held_it(graph: ComputeGraph) -> None:
    rows = [row for row in MEASURED if row["model"] == graph.name and row["numbers"] == "autocast"]
    assert rows
    for row in rows:
        memory = make_plan("ddp", graph, 2, TrainingSettings(batch_per_rank=row["batch"])).memory
        assert memory.total == pytest.approx(row["memory_bytes"], rel=0.1), row
