"""Counters agree with the timeline and the plan: bytes, the peak of memory, channels that there are."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lightloom.collectives.collective import Collective
from lightloom.collectives.registry import build, find
from lightloom.core.timeline import Interval, Timeline
from lightloom.machines.fabrics.switches import PacketSwitch
from lightloom.machines.fabrics.wdm_ring import WdmRing
from lightloom.planning.export.counters import (
    _filled,
    _lit_by_axes,
    _passes_memory,
    _peak,
    _with_bytes,
    channels_lit,
    counted,
)
from lightloom.planning.parallelism.strategy_space import Strategies, Strategy
from lightloom.planning.pricing.step import stage_sends
from lightloom.planning.pricing.strategy_step import exchange_seconds, simulate, stage_memory
from lightloom.planning.search.plans import Plan
from tests.planner.export.test_step_traces import RANKS, STAGES, STRATEGIES, taken_apart
from tests.planner.jobs import cluster, transformer, verified_job


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


def switched_plan(strategy: Strategy) -> Plan:
    """A strategy as a plan on a packet switch, whose ranks share no channels."""
    on = cluster(RANKS)
    on = replace(on, fabric=PacketSwitch(ranks=RANKS, hop_latency=1e-6))
    job = verified_job(transformer(8), on)
    step = simulate(job, strategy)
    assert step.division is None
    memory = float(stage_memory(job, Strategies.of(strategy))[0])
    return Plan(
        cluster=on,
        job=job,
        choice=strategy,
        bound=0.0,
        step=step,
        make_ledger=None,  # type: ignore[arg-type]
        memory=memory,
    )


@pytest.mark.parametrize("degrees", [{}, {"tp": 2, "pp": 2}])
def test_stages_that_share_no_channels_are_counted_too(degrees: dict[str, Any]) -> None:
    """What crosses to the next stage, forward and back again, for each micro-batch."""
    strategy = STAGES._replace(**degrees)
    plan = switched_plan(strategy)
    timeline, counters = counted(plan)
    assert [counter.name.split()[0] for counter in counters] == ["load", "memory"]
    sends = stage_sends(plan.job, Strategies.of(strategy), exchange_seconds(plan.job, "ring"))
    crossing = float((sends.nbytes + sends.gathered).sum())
    sent = sum(each.details["bytes"] for each in timeline.intervals if each.resource.startswith("link"))
    assert sent == pytest.approx(2 * strategy.micro_batches * crossing) and sent > 0


def lit(*rows: tuple[int, int, int, int], queued: bool = False) -> int:
    """Channels lit by lightpaths by hand: the step of each, its fibre, its first wavelength and their number."""
    fabric = WdmRing(ranks=8, wavelengths=4, fibres=2)
    columns: Any = [np.array(column) for column in zip(*rows, strict=True)] or [np.zeros(0, int)] * 4
    schedule: Any = SimpleNamespace(
        folding=None,
        queued=queued,
        step=columns[0],
        fibre=columns[1],
        first_wavelength=columns[2],
        wavelength_count=columns[3],
    )
    return channels_lit(schedule, fabric)


def test_channels_are_counted_once_in_a_step_and_the_step_of_most_counts() -> None:
    assert lit() == 0
    assert lit((0, 0, 0, 2), (0, 0, 1, 2)) == 3, "they overlap in one"
    assert lit((0, 0, 0, 2), (0, 0, 0, 2)) == 2, "on other links"
    assert lit((0, 0, 0, 2), (0, 1, 0, 2)) == 4, "of another fibre"
    assert lit((0, 0, 0, 2), (1, 0, 1, 3)) == 3, "of another step"
    assert lit((0, 0, 0, 2), (1, 0, 1, 3), queued=True) == 4


def lines(*rows: tuple[str, str, float, float]) -> Timeline:
    return Timeline.of(
        [Interval(resource=name, category=each, name="x", start=start, end=end) for name, each, start, end in rows]
    )


@pytest.mark.parametrize(
    ("rows", "changes"),
    [
        ([("shards 0", 1.0, 2.0)], [(1.0, 2), (2.0, -2)]),
        ([("shards 0", 1.0, 2.0), ("shards 1", 2.0, 3.0)], [(1.0, 2), (3.0, -2)]),
        ([("shards 0", 1.0, 4.0), ("shards 1", 2.0, 3.0)], [(1.0, 2), (4.0, -2)]),
        ([("shards 0", 1.0, 2.0), ("shards 1", 2.5, 3.0)], [(1.0, 2), (2.0, -2), (2.5, 2), (3.0, -2)]),
        ([("replicas 0", 0.0, 1.0)], [(0.0, 4), (1.0, -4)]),
        ([("gradients 0", 0.0, 1.0)], [(0.0, 4), (1.0, -4)]),
        ([("context 0", 0.0, 1.0)], [(0.0, 8), (1.0, -8)]),
        ([("stage 0 to 1", 0.0, 1.0)], [(0.0, 16), (1.0, -16)]),
        ([], []),
    ],
)
def test_an_axis_lights_its_channels_from_its_first_transmission_to_its_last_that_touches(
    rows: list[tuple[str, float, float]], changes: list[tuple[float, int]]
) -> None:
    channels = {"tensor": 2, "data": 4, "context": 8, "pipeline": 16}
    timeline = lines(*((name, "transmission", start, end) for name, start, end in rows), ("stage 0", "forward", 0, 9))
    assert sorted(each for each in _lit_by_axes(timeline, channels) if each[1]) == sorted(changes)


def test_intervals_have_the_bytes_of_their_part_of_the_step() -> None:
    interval = Interval(resource="shards 0", category="transmission", name="x", start=0.0, end=1.0)
    nbytes = {"gather": [8.0, 16.0]}

    def told(**details: Any) -> Any:
        return _with_bytes(replace(interval, details=details), nbytes)

    assert told(part="gather", column=1).details == {"part": "gather", "column": 1, "bytes": 16.0}
    assert told(part="gather", column=0, share=0.25).details["bytes"] == 2.0
    assert told(part="update", column=0).details == {"part": "update", "column": 0}
    assert told().details == {}


def test_passes_keep_from_their_first_forward_to_their_last_backward_interval() -> None:
    def part(category: str, start: float, end: float, resource: str = "stage 1", **details: Any) -> Interval:
        return Interval(resource=resource, category=category, name="x", start=start, end=end, details=details)

    timeline = Timeline.of(
        [
            part("forward", 0, 1, column=0, micro_batch=0),
            part("forward", 1, 2, column=0, micro_batch=0),
            part("forward", 2, 3, column=1, micro_batch=0),
            part("forward", 3, 4, column=0, micro_batch=1),
            part("backward", 4, 5, column=0, micro_batch=0),
            part("backward", 5, 6, column=0, micro_batch=0),
            part("update", 6, 7),
            part("forward", 0, 1, "stage 0", column=0, micro_batch=0),
        ]
    )
    assert list(_passes_memory(timeline, 1, [8.0, 2.0])) == [(0, 8.0), (2, 2.0), (3, 8.0), (6, -8.0)]


def test_a_counter_is_filled_up_to_its_peak() -> None:
    counter = _filled("m", [(1.0, 3.0), (2.0, -1.0), (3.0, 4.0), (4.0, -6.0)], 10.0, 5.0)
    assert dict(zip(counter.moments, counter.values, strict=True)) == {
        0.0: 4.0, 1.0: 7.0, 2.0: 6.0, 3.0: 10.0, 4.0: 4.0, 5.0: 4.0
    }  # fmt: skip
    assert _filled("m", [], 10.0, 5.0).values[0] == 10.0 and _peak([]) == 0.0
