"""Every plan of the zoo that frameworks can run reads back from its export: the same strategy, stages and step."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.machines.clusters.cluster import Cluster
from lightloom.machines.clusters.load import load_cluster
from lightloom.models.files import megatron as megatron_strategy
from lightloom.models.files import torchtitan as titan
from lightloom.models.files.megatron import read_options
from lightloom.models.zoo import ZOO, load_workload
from lightloom.planning.export import frameworks
from lightloom.planning.export.frameworks import ExportedJob, exported
from lightloom.planning.parallelism.strategy_space import Strategies
from lightloom.planning.pricing.group_prices import GroupPrices
from lightloom.planning.pricing.job import Job
from lightloom.planning.pricing.strategy_step import strategy_seconds
from lightloom.planning.search.request import Pins
from tests.planner.jobs import with_model

PATH = Path("an export")
QUICK = ("gpt2-355m", "optinc-llama", "transformer-big", "resnet50")
ROUTINE = (
    "collectives run",
    "ranks of a context group are taken",
    "replicas with tensor or pipeline parallelism",
    "torchtitan pads no vocabulary",
    "without stages torchtitan gathers",
    "Megatron wants --sequence-parallel",
)
"""Notes that leave the strategy as it is read, or that speak of a setting of the cluster."""
Reading = tuple[Pins, Any, int | None]


class Zoo(NamedTuple):
    """A model on 16 H100, with all of its strategies for a step of 64 samples."""

    cluster: Cluster
    job: Job
    rows: Strategies

    def facts(self, index: int) -> ExportedJob:
        plan: Any = SimpleNamespace(
            choice=self.rows[index], job=self.job, cluster=self.cluster, label="a plan", algorithms=()
        )
        return exported(plan, self.job.model.graph)


@cache
def zoo(name: str) -> Zoo:
    cluster = load_cluster("dgx-h100-64", set={"ranks": 16})
    prices = GroupPrices(cluster.fabric, cluster.training)
    graph = load_workload(name, batch=4)
    job = Job.of(graph, cluster.accelerator, cluster.fabric, cluster.training, prices)
    return Zoo(cluster, job, job.space((64,), recomputations=("none", "selective", "full"), most_micro_batches=16))


@cache
def cut(name: str, blocks: Any) -> Job:
    """The job with the stages that were read."""
    job = zoo(name).job
    if blocks is None:
        return job
    return with_model(job, settings=job.model.settings.model_copy(update={"stage_blocks": blocks}))


def from_megatron(found: ExportedJob) -> Reading:
    line = " ".join(frameworks.arguments(found))
    options = read_options(PATH, {}, f"{line} --num-layers {found.blocks}")
    blocks = megatron_strategy.stage_blocks(options, found.blocks)
    return Pins.of(megatron_strategy.strategy_pins(options)), blocks, options.count("global-batch-size")


def from_torchtitan(found: ExportedJob) -> Reading:
    job = titan.JobConfiguration(PATH, tomllib.loads(frameworks.to_toml(found)))
    pins, _ = titan.strategy_pins(job, found.blocks)
    return Pins.of(pins), titan.stage_blocks(job, found.blocks, pins), titan.global_batch(job)


FORMATS: dict[Any, Callable[[ExportedJob], Reading]] = {
    frameworks.megatron_notes: from_megatron,
    frameworks.torchtitan_notes: from_torchtitan,
}


def read_back(name: str, index: int, notes: Any, read: Callable[[ExportedJob], Reading]) -> Job | None:
    """The job with the stages that were read; None where the export says what the framework does otherwise."""
    model = zoo(name)
    row, found = model.rows[index], model.facts(index)
    pins, blocks, batch = read(found)
    matching = np.flatnonzero(pins.match(model.rows) & (model.rows.global_batch == batch))
    otherwise = [note for note in notes(found) if not note.startswith(ROUTINE)]
    if otherwise:
        return None
    assert [model.rows[int(at)] for at in matching] == [row], (name, row, pins)
    again = cut(name, blocks)
    edges = again.model.chunks(Strategies.of(row))
    assert edges.tolist() == model.job.model.chunks(Strategies.of(row)).tolist(), (name, row, blocks)
    return again


@given(st.data(), st.sampled_from(QUICK), st.sampled_from(list(FORMATS)))
def test_plans_are_read_back_with_their_strategy_stages_and_step(data: st.DataObject, name: str, notes: Any) -> None:
    model = zoo(name)
    index = data.draw(st.integers(0, len(model.rows) - 1))
    again = read_back(name, index, notes, FORMATS[notes])
    if again is not None:
        row = model.rows[index]
        assert strategy_seconds(again, row) == pytest.approx(strategy_seconds(model.job, row), rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ZOO))
def test_every_plan_of_every_model_is_read_back(name: str) -> None:
    model = zoo(name)
    for notes, read in FORMATS.items():
        whole = [read_back(name, index, notes, read) is not None for index in range(len(model.rows))]
        assert any(whole)
