"""Bounds of steps are the numbers that their formulas give, worked out row by row in plain terms."""

from __future__ import annotations

from dataclasses import fields
from math import ceil, inf
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lightloom.core.arrays import Floats
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.switches import PacketSwitch
from lightloom.machines.fabrics.wdm_ring import WdmRing
from lightloom.planning.parallelism.plan import in_flight
from lightloom.planning.pricing.price_lines import PriceLine
from lightloom.planning.search.bounds import (
    _busiest,
    _bytes,
    _chain,
    _LineTable,
    _shortest,
    fastest_link,
    pipeline_bound,
)
from lightloom.planning.simulation.pipelined import StageTimes
from tests.planner.bounds.test_placed_bound_laws import of_all_pairs
from tests.simulation.stages import OF_STAGES


def pipeline_seconds(times: StageTimes, stages: int, micro_batches: int) -> float:
    """The recurrence of one row of columns."""
    forward, backward = times.passes
    chunks = len(forward)
    both, send = forward + backward, times.send
    flying = [int(each[:, 0].max()) for each in in_flight(stages, 4 * stages, chunks // stages)]
    ends = []
    for stage in range(stages):
        hidden = times.lead[stage] * (times.backward + times.backward_ring + times.backward_exchange)[stage]
        closing = times.late_exchange[stage] + max(times.early_exchange[stage] - hidden, 0.0)
        ends.append(closing + times.exchange[stage] + times.tied[stage] + times.update[stage])
    start, tail, longest = 0.0, 0.0, 0.0
    for stage in range(stages):
        trip = sum(both[stage:]) + 2 * sum(send[stage + 1 :])
        own = sum(both[chunk] for chunk in range(stage, chunks, stages))
        busy = max(micro_batches * own, ceil(micro_batches / flying[stage]) * trip)
        onward = start + forward[stage - 1] + send[stage] if stage else 0.0
        start = max(times.gather[stage], onward)
        tail = max(ends[stage], send[stage] + backward[stage - 1] + tail if stage else 0.0)
        longest = max(longest, start + busy + tail)
    return longest


@pytest.mark.parametrize(("stages", "virtual"), [(1, 1), (2, 1), (4, 1), (3, 2), (2, 3)])
def test_pipelines_row_by_row(stages: int, virtual: int) -> None:
    rng, rows = np.random.default_rng(stages), 12
    width = {field.name: stages if field.name in OF_STAGES else stages * virtual for field in fields(StageTimes)}
    # Each kind of time dominates somewhere.
    times = {
        name: rng.uniform(0, 1, (rows, columns)) * 10.0 ** rng.integers(-2, 2, (rows, 1))
        for name, columns in width.items()
    }
    times["send"][:, 0] = 0.0
    micro_batches = rng.integers(1, 9, rows) * stages
    found = pipeline_bound(StageTimes(**times), micro_batches)
    for row in range(rows):
        alone = StageTimes(**{name: column[row] for name, column in times.items()})
        assert found[row] == pytest.approx(pipeline_seconds(alone, stages, int(micro_batches[row])), rel=1e-12)


class Flat:
    """A bound of another form."""

    def __call__(self, nbytes: Floats) -> Floats:
        return np.full_like(nbytes, 4.0)


def test_groups_pay_the_least_of_their_own_lines() -> None:
    rng = np.random.default_rng(0)
    groups: list[list[Any]] = [
        [PriceLine(*rng.uniform(1, 9, 4) * (1, 1e-6, 1e6, 1e-6)) for _ in range(count)] for count in (2, 0, 3, 1)
    ]
    groups[2].append(Flat())
    group, nbytes = np.repeat(np.arange(4), 5), np.tile([1.0, 5e3, 1e6, 1e9, 1e12], 4)
    found = _LineTable.of(groups, np.zeros(4)).column(group, nbytes)
    for at, size, seconds in zip(group.tolist(), nbytes, found, strict=True):
        assert seconds == min((float(line(np.array([size]))[0]) for line in groups[at]), default=inf)


@pytest.mark.parametrize(("timed", "unit"), [(False, 1.0), (True, 1.0), (True, 0.1)])
def test_pipes_and_ports_carry_what_they_are_given(timed: bool, unit: float) -> None:
    rng, holds, pipes = np.random.default_rng(3), 3, 8
    bandwidth = unit * rng.uniform(1, 4, (holds, pipes)) * (rng.random((holds, pipes)) < 0.6)
    bandwidth[:, 0] = 0.0
    nbytes, port, entry = unit * rng.uniform(0, 40, pipes), rng.integers(0, 3, pipes), rng.integers(0, 4, pipes)
    nbytes[1] = 0.0
    timing = SimpleNamespace(hold=0.7, period=0.9) if timed else None
    circuits: Any = SimpleNamespace(bandwidth=bandwidth, timing=timing, port=port, entry=entry)
    expected = []
    for pipe in range(pipes):
        rates, seconds, left = bandwidth[:, pipe], 0.0, float(nbytes[pipe])
        while timed and rates.any() and left > sum(rates) * 0.7:
            left -= sum(rates) * 0.7
            seconds += holds * 0.9
        expected.append(seconds + left / max(rates) if rates.any() else 0.0)
    assert _shortest(circuits, nbytes) == pytest.approx(expected)
    loads = [
        sum(e for e, at in zip(expected, side, strict=True) if at == p) for side in (port, entry) for p in range(4)
    ]
    assert _busiest(circuits, nbytes) == pytest.approx(max(expected) if timed else max(loads))
    none: Any = np.zeros(0, np.int64)
    nothing: Any = SimpleNamespace(bandwidth=np.zeros((holds, 0)), timing=timing, port=none, entry=none)
    assert _busiest(nothing, np.zeros(0)) == 0


@pytest.mark.parametrize("seed", range(4))
def test_the_longest_chain_of_operators(seed: int) -> None:
    """In both passes, of operators that are placed; the first gradient is of the parameters that are ready first."""
    rng, rows, size = np.random.default_rng(seed), 3, 9
    inputs = [[str(y) for y in range(x) if rng.random() < 0.4] for x in range(size)]
    graph: Any = SimpleNamespace(operators=[SimpleNamespace(name=str(x), inputs=inputs[x]) for x in range(size)])
    table: Any = SimpleNamespace(placed=rng.random(size) < 0.8)
    forward, backward = rng.uniform(0, 1, (2, rows, size))
    parameters = rng.integers(0, 2, size) * table.placed
    last, first = _chain(graph, table, forward, backward, parameters)
    for row in range(rows):
        ahead, after = [0.0] * size, [0.0] * size
        for x in np.flatnonzero(table.placed):
            ahead[x] = forward[row, x] + max((ahead[int(y)] for y in inputs[x]), default=0.0)
        for x in np.flatnonzero(table.placed)[::-1]:
            readers = [after[y] for y in range(size) if table.placed[y] and str(x) in inputs[y]]
            after[x] = backward[row, x] + max([ahead[x], *readers])
        assert last[row] == pytest.approx(max(after))
        ready = [after[x] for x in range(size) if parameters[x]]
        assert first[row] == pytest.approx(min(ready, default=max(after)))


@pytest.mark.parametrize("fabric", [WdmRing(ranks=12, wavelengths=2), PacketSwitch(ranks=12)], ids=["ring", "switch"])
def test_ports_and_links_carry_all_bytes_of_a_group(fabric: Fabric) -> None:
    """Of k devices, to each other and to their counterparts in the next group, k ranks on."""
    rng, k = np.random.default_rng(1), 4
    job: Any = SimpleNamespace(fabric=fabric)
    for busy in ([1.0] * 8, [9.0, *[1.0] * 7], [1.0, 1.0, 1.0, 9.0, 1.0, 1.0, 1.0, 9.0]):
        sent = rng.uniform(0, 1e9, (k, 2 * k)) * busy
        plan: Any = SimpleNamespace(k=k)
        out = [sum(sent[d]) for d in range(k)]
        into = [sum(sent[a, d] + sent[a, d + k] for a in range(k)) for d in range(k)]
        passed = sum(sent[a, b] * min(abs(b - a), 12 - abs(b - a)) for a in range(k) for b in range(2 * k)) / k
        link = fastest_link(fabric)
        expected = max([*out, *into]) / link.rate
        expected = max(expected, passed / link.link_rate) if fabric.exclusive else expected
        assert _bytes(job, plan, of_all_pairs(sent)) == pytest.approx(expected)
