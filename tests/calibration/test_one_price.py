"""A measured row is priced as ``plan`` prices its strategy with everything pinned."""

from __future__ import annotations

import numpy as np
import pytest

from lightloom.machines.accelerators.load import load_accelerator
from lightloom.machines.clusters.cluster import Cluster
from lightloom.models.decoder import transformer_graph
from lightloom.planning.calibration.rows import (
    MeasuredStep,
    fabric_of,
    jobs_of,
    priors_of,
    settings_of,
    sizes_of,
    step_seconds,
    strategy_of,
)
from lightloom.planning.pricing.strategy_step import simulate
from lightloom.planning.search.request import Pins, SearchRequest
from lightloom.planning.search.search import search
from tests.calibration.samples import step

MACHINE = load_accelerator("a100")
PRIORS = priors_of(MACHINE)
SMALL = {"hidden": 1024, "heads": 16, "ffn": 4096, "layers": 8, "sequence_length": 512, "gpus": 16}
LAYOUTS: dict[str, dict[str, object]] = {
    "pipeline and tensor": {"dp": 4, "tp": 2, "pp": 2},
    "tensor across a node": {"dp": 2, "tp": 8, "pp": 1, "recomputation": "full"},
    "tensor across nodes": {"dp": 1, "tp": 16, "pp": 1},
    "pipeline alone": {"dp": 1, "tp": 1, "pp": 8, "gpus": 8, "recomputation": "full"},
    "interleaved": {"dp": 4, "tp": 1, "pp": 4, "virtual_stages": 2},
    "replicas without overlap": {"dp": 16, "tp": 1, "pp": 1, "micro_batch": 4},
    "sequence parallel": {"dp": 2, "tp": 4, "pp": 2, "sequence_parallel": "yes", "recomputation": "selective"},
    "sharded, one micro-batch": {"dp": 16, "tp": 1, "pp": 1, "micro_batch": 4, "sharding": "zero-3"},
    "sharded, several micro-batches": {"dp": 16, "tp": 1, "pp": 1, "micro_batch": 1, "sharding": "zero-3"},
    "sharded, recomputed, flash": {
        "dp": 8,
        "tp": 1,
        "pp": 1,
        "gpus": 8,
        "sharding": "zero-3",
        "recomputation": "full",
        "attention": "flash",
        "micro_batch": 4,
    },
    "states sharded": {"dp": 8, "tp": 2, "pp": 1, "sharding": "zero-1"},
    "gradients sharded": {"dp": 8, "tp": 1, "pp": 2, "sharding": "zero-2"},
    "sharded in a node": {"dp": 16, "tp": 1, "pp": 1, "micro_batch": 2, "sharding": "hybrid"},
    "smaller last micro-batch": {"dp": 8, "tp": 2, "pp": 1, "micro_batch": 3},
    "one GPU": {"dp": 1, "tp": 1, "pp": 1, "gpus": 1, "global_batch": 4},
    "one GPU, sharded": {"dp": 1, "tp": 1, "pp": 1, "gpus": 1, "global_batch": 4, "sharding": "zero-3"},
}


def layout(changes: dict[str, object]) -> MeasuredStep:
    """A row of a small model."""
    return step(**SMALL | changes)


def planned_seconds(row: MeasuredStep) -> float:
    """Step time of the one plan that has everything that the row says."""
    fabric, strategy = fabric_of(row, MACHINE), strategy_of(row)
    accelerator = MACHINE.model_copy(update={"memory_bandwidth": row.memory_bandwidth_gbs * 1e9})
    on = Cluster(name="row", ranks=fabric.ranks, accelerator=accelerator, fabric=fabric, training=settings_of(row))
    uneven = strategy.micro_batch > 0
    pins = Pins(
        dp=strategy.dp,
        tp=strategy.tp,
        pp=strategy.pp,
        micro_batches=None if uneven else strategy.micro_batches,
        micro_batch=row.micro_batch if uneven else None,
        virtual_stages=strategy.virtual_stages,
        recomputation=strategy.recomputation,
        sharding=strategy.sharding,
        sequence_parallel=strategy.sequence_parallel,
    )
    request = SearchRequest(
        global_batches=[strategy.global_batch],
        pins=pins,
        compare=False,
        must_fit=False,
        overlap=not strategy.plain or strategy.sharding != "none",
    )
    found = search(transformer_graph(sizes_of(row), 1), on, request)
    assert found.winner.algorithms in ((), ("library",))
    assert not found.winner.algorithms or not found.winner.verified
    return found.winner.step_time


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_plan_with_everything_pinned_takes_as_long_as_its_row(name: str) -> None:
    row = layout(LAYOUTS[name])
    (seconds,) = step_seconds(jobs_of([row], MACHINE), PRIORS.values(PRIORS.center))
    assert planned_seconds(row) == pytest.approx(seconds, rel=1e-9)


def test_rows_priced_together_cost_what_each_costs_alone() -> None:
    jobs = jobs_of([layout(changes) for changes in LAYOUTS.values()], MACHINE)
    together = step_seconds(jobs, PRIORS.values(PRIORS.center))
    alone = [simulate(planned.job, planned.strategy).step_time for planned in jobs.planned]
    np.testing.assert_allclose(together, alone, rtol=1e-9)
