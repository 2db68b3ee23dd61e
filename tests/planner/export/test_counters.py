"""Counters agree with the timeline and the plan: bytes, the peak of memory, channels that there are."""

from __future__ import annotations

import numpy as np
import pytest

from lightloom.collectives.collective import Collective
from lightloom.collectives.registry import build, find
from lightloom.machines.fabrics.wdm_ring import WdmRing
from lightloom.planning.export.counters import channels_lit, counted
from lightloom.planning.parallelism.strategy_space import Strategies
from lightloom.planning.pricing.strategy_step import stage_memory
from lightloom.planning.search.plans import Plan
from tests.planner.export.test_step_traces import RANKS, STRATEGIES, taken_apart
from tests.planner.jobs import cluster


def plan_of(name: str) -> Plan:
    """A strategy of the step's traces as a plan."""
    job, step, _ = taken_apart(name)
    held = stage_memory(job, Strategies.of(STRATEGIES[name]))
    memory = step.result.plan.memory.total if step.result else float(held[0])
    return Plan(
        cluster=cluster(RANKS),
        job=job,
        choice=STRATEGIES[name],
        bound=0.0,
        step=step,
        make_ledger=None,  # type: ignore[arg-type]
        memory=memory,
    )


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_load_carries_the_bytes_of_the_traces(name: str) -> None:
    plan, traces = plan_of(name), taken_apart(name)[2]
    timeline, counters = counted(plan)
    load = next(counter for counter in counters if counter.name.startswith("load"))
    said = [interval.details["bytes"] for interval in timeline.intervals if interval.details.get("bytes")]
    integral = sum(rate * seconds for rate, seconds in zip(load.values, np.diff(load.moments), strict=False))
    assert integral == pytest.approx(sum(said), rel=1e-9)
    assert [interval.name for interval in timeline.intervals] == [each.name for each in plan.timeline.intervals]
    if name in ("sequence", "uneven", "chunks"):  # gathers beside passes, a smaller micro-batch, shares of tied tables
        return
    # A timeline of stages has each collective once a stage, as the operations have it.
    operations = [operation for stage in traces.stages for operation in stage]
    collectives = sum(operation.use.nbytes for operation in operations if operation.use and not operation.stages)
    tied = sum(
        2 * (len(each.stages) - 1) / len(each.stages) * each.use.nbytes
        for each in operations
        if each.stages and each.use
    )
    sent = sum(operation.nbytes for operation in operations if operation.verb == "send")
    assert sum(said) == pytest.approx(collectives + tied + sent, rel=1e-9)


@pytest.mark.parametrize("name", STRATEGIES)
def test_memory_peaks_at_the_plans(name: str) -> None:
    plan = plan_of(name)
    timeline, counters = counted(plan)
    memory = next(counter for counter in counters if counter.name.startswith("memory"))
    assert max(memory.values) == pytest.approx(plan.memory, rel=1e-12)
    assert min(memory.values) > 0
    # What forward passes keep is gone in the end.
    assert memory.values[0] >= memory.values[-1] * (1 - 1e-9)
    assert memory.moments[-1] == pytest.approx(timeline.step_time)


@pytest.mark.parametrize("name", STRATEGIES)
def test_no_more_channels_are_lit_than_there_are(name: str) -> None:
    plan = plan_of(name)
    fabric = plan.cluster.fabric
    lit = [counter for counter in counted(plan)[1] if counter.name == "wavelengths lit"]
    assert len(lit) == 1
    assert 0 < max(lit[0].values) <= 2 * fabric.channels
    assert min(lit[0].values) == 0
    assert lit[0].values[-1] == 0


def test_channels_of_all_copies_of_a_folded_schedule_are_lit() -> None:
    """Chords that overlap take other wavelengths from copy to copy."""
    fabric = WdmRing(ranks=16, wavelengths=8, conversion_time=1e-6)
    schedule = build(find("synthesized"), Collective("all-gather", 16, 16e3), fabric)
    assert schedule.folding is not None and schedule.folding.copies > 1
    assert channels_lit(schedule, fabric) == channels_lit(schedule.unfolded(fabric.fibre_channels), fabric) == 8
    ring = build(find("ring"), Collective("all-gather", 16, 16e3), fabric)
    assert channels_lit(ring, fabric) == 1
