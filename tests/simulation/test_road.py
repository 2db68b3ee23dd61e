"""The whole road below the planner: a catalog cluster, a verified collective, a plan, a timeline."""

from __future__ import annotations

from functools import cache

import pytest

from lightloom.collectives.collective import Collective, Kind
from lightloom.collectives.registry import evaluate, find
from lightloom.machines.clusters.load import load_cluster
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.planning.parallelism.plan import make_plan
from lightloom.planning.simulation.engine import Price, Priced, simulate_step
from tests.parallelism.strategies import chain


def priced_by(algorithm: str, fabric: Fabric) -> Price:
    @cache
    def price(kind: Kind, nbytes: float) -> Priced:
        found = evaluate(find(algorithm), Collective(kind, fabric.ranks, nbytes), fabric)
        return Priced(cost=found.cost, circuits=(algorithm, kind))

    return price


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
@pytest.mark.parametrize("part", ["fabric", "reference"])
def test_a_step_on_terarack(strategy: str, part: str) -> None:
    cluster = load_cluster("terarack-64", set={"ranks": 16})
    fabric = getattr(cluster, part)
    plan = make_plan(strategy, chain([(9_000_000, 10**12, 10_000)] * 8), cluster.ranks, cluster.training)
    result = simulate_step(plan, cluster.accelerator, fabric, priced_by("ring", fabric))
    assert result.step_time > result.compute_time > 0
    assert sum(result.breakdown.values()) == pytest.approx(result.step_time, rel=1e-12)
    changes = result.busy_time["reconfiguration"]
    # The ring's circuits serve every step: set up once for the job with one kind of collective, not at all by
    # packets.
    assert (changes > 0) == (strategy == "fsdp" and part == "fabric")
