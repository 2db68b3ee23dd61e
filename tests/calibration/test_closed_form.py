"""The closed form prices blocks as graphs are priced, and pipelines as they are played."""

from __future__ import annotations

import numpy as np
import pytest

from lightloom.accelerators.load import load_accelerator
from lightloom.calibration.blocks import Blocks
from lightloom.calibration.jobs import jobs_of
from lightloom.calibration.links import Links
from lightloom.calibration.priors import kernel_model, priors_of
from lightloom.clusters.settings import Attention
from lightloom.parallelism.operators import graph_times
from lightloom.simulation.engine import run
from lightloom.simulation.pipelined import lower_pipelined
from lightloom.workloads.catalog import ZOO
from lightloom.workloads.resolve import resolve
from tests.calibration.samples import step
from tests.simulation.stages import stage_times


@pytest.mark.parametrize("attention", ["flash", "unfused"])
@pytest.mark.parametrize("hidden", [1024, 5120])
def test_a_block_takes_as_long_as_its_operators(attention: Attention, hidden: int) -> None:
    pytest.importorskip("torch", reason="the block is traced")
    from lightloom.workloads.torch.build import trace_factory

    machine = load_accelerator("a100")
    sizes = {"hidden": hidden, "layers": 1, "heads": hidden // 64, "vocabulary": 512, "context": 2048}
    traced = trace_factory(resolve(ZOO["gpt2-355m"].path), name="block", batch=4, arguments=sizes)
    graph = traced.with_element_bytes(2)
    forward, backward = graph_times(graph, machine, "fp16", attention)
    inside = np.array([operator.block == "layers.0" for operator in graph.operators])
    job = step(
        hidden=hidden, heads=hidden // 64, ffn=4 * hidden, layers=1, gpus=1, dp=1, tp=1, pp=1, attention=attention
    )
    jobs = jobs_of([job], machine)
    priors = priors_of(machine)
    block = Blocks(jobs, kernel_model(machine), Links(jobs, priors.values(priors.center))).times(np.array([4.0]))
    assert block.forward[0] == pytest.approx(forward[..., inside].sum(), rel=0.01)
    assert block.backward[0] == pytest.approx(backward[..., inside].sum(), rel=0.03)


@pytest.mark.parametrize(("stages", "micro_batches", "virtual"), [(4, 8, 1), (4, 12, 3), (8, 32, 2)])
def test_the_bubble_is_that_of_the_pipeline_as_played(stages: int, micro_batches: int, virtual: int) -> None:
    chunks = stages * virtual
    forward, backward = 1.0 / virtual, 2.0 / virtual
    chunk = np.ones(chunks)
    times = stage_times(stages, virtual, given={"forward": forward * chunk, "backward": backward * chunk})
    played = run(lower_pipelined(times, micro_batches)).step_time
    assert played == pytest.approx((micro_batches + (stages - 1) / virtual) * 3.0, rel=0.01)
