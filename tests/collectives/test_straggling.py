"""Stragglers: no delay without one, never more than a rank is late, and what a plain replay of the queues says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.collectives.algorithms.direct import one_stage
from lightloom.collectives.algorithms.optree import optree
from lightloom.collectives.algorithms.ring import RING, RING_TWO_WAY
from lightloom.collectives.collective import Collective, Kind
from lightloom.collectives.cost.stepped import cost, straggling
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.synthesis.engine.queues import ring_schedule
from lightloom.collectives.synthesis.engine.trees import Design, Level, RingTask, Timing, make_trees
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.machines.fabrics.switches import PacketSwitch
from lightloom.machines.fabrics.wdm_ring import WdmRing

KINDS: tuple[Kind, ...] = ("all-gather", "reduce-scatter", "all-reduce")


def fabric_of(ranks: int) -> WdmRing:
    return WdmRing(ranks=ranks, wavelengths=8, wavelength_bandwidth=5e9, conversion_time=1e-6, hop_latency=1e-8)


def queued(kind: Kind, ranks: int, pieces: int = 2) -> Schedule:
    chords = (Level(ranks // 2, 2, 1),) if ranks % 2 == 0 and ranks > 6 else ()
    trees = make_trees(Design(chords, pieces=pieces), RingTask(ranks, 8, 1e4, Timing(5e9, 1e-6, 1e-8), 1e-6))
    assert trees is not None
    return ring_schedule(Collective(kind, ranks, 1e4 * ranks), fabric_of(ranks), trees)


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    ranks, kind = draw(st.integers(3, 18)), draw(st.sampled_from(KINDS))
    if draw(st.booleans()):
        return queued(kind, ranks, draw(st.integers(1, 3)))
    build: Callable[..., Schedule] = draw(st.sampled_from((RING_TWO_WAY.build, optree, one_stage)))
    return build(Collective(kind, ranks, 1e4 * ranks), fabric_of(ranks), striped=draw(st.booleans()))


@settings(deadline=None, max_examples=60)
@given(schedules(), st.floats(1e-8, 1e-3), st.floats(1, 8))
def test_nobody_ends_earlier_nor_later_than_the_straggler_explains(
    schedule: Schedule, late: float, slower: float
) -> None:
    fabric = fabric_of(schedule.collective.ranks)
    none = straggling(schedule, fabric)
    assert none.time == pytest.approx(cost(schedule, fabric).time, rel=1e-12)
    assert np.abs(none.later).max() <= 1e-15
    delayed = straggling(schedule, fabric, late=late)
    assert delayed.time == none.time
    assert delayed.later.min() >= 0 and delayed.later.max() <= late * (1 + 1e-9)
    # Whoever is late has something to send, which arrives after that.
    sends = np.unique(schedule.unfolded(fabric.fibre_channels).source)
    ends = none.time + delayed.later[sends]
    assert ends.min() >= fabric.setup_time + late + fabric.conversion_time
    slowed = straggling(schedule, fabric, slower=slower)
    assert slowed.later.min() >= -1e-15 and slowed.later.max() <= (slower - 1) * none.time + 1e-15
    worse = straggling(schedule, fabric, late=2 * late, slower=slower)
    assert (worse.later >= np.maximum(delayed.later, slowed.later) - 1e-15).all()


@pytest.mark.parametrize("ranks", [3, 9])
def test_who_sends_nothing_delays_nobody(ranks: int) -> None:
    """The end of a broadcast's chain; whoever passes it on delays what follows."""
    fabric = fabric_of(ranks)
    schedule = RING.build(Collective("broadcast", ranks, 1e6), fabric)
    sends = np.isin(np.arange(ranks), schedule.source)
    assert sends.sum() == ranks - 1
    later = straggling(schedule, fabric, late=1e-3).later
    assert later[~sends] == pytest.approx(0, abs=1e-15) and later[sends].min() > 1e-6


@given(st.lists(st.integers(0, 2**7 - 1), min_size=7, max_size=7), st.floats(1, 4))
def test_steps_wait_for_all_steps_before_them(waits: list[int], slower: float) -> None:
    """Steps in any order that a graph allows; the cost and the delays follow the same longest path."""
    fabric = fabric_of(8).model_copy(update={"reconfiguration_time": 0.0})
    plain = RING.build(Collective("all-gather", 8, 8e4), fabric)
    edges = [(after, earlier) for after in range(1, 7) for earlier in range(after) if waits[after] >> earlier & 1]
    schedule = replace(plain, dependencies=np.array(edges, np.int32).reshape(-1, 2))
    depth = np.zeros(7, int)
    for after, earlier in edges:
        depth[after] = max(depth[after], depth[earlier] + 1)
    delayed = straggling(schedule, fabric, slower=slower)
    priced = cost(schedule, fabric)
    assert delayed.time == pytest.approx(priced.time, rel=1e-12)
    # The parts of a cost are those of the steps on the longest path.
    assert priced.transmission + priced.conversion == pytest.approx(priced.time, rel=1e-12)
    # Whoever is slower takes part in every step.
    expected = (depth.max() + 1) * (slower - 1) * 1e4 / 5e9
    assert delayed.later == pytest.approx(np.full(8, expected), rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("kind", KINDS)
def test_queues_are_those_of_a_plain_replay(kind: Kind) -> None:
    ranks, late, slower, straggler = 8, 3e-6, 1.5, 5
    fabric, schedule = fabric_of(ranks), queued(kind, ranks).unfolded(8)
    rows = [{name: int(column[i]) for name, column in schedule.columns().items()} for i in range(len(schedule))]
    queues: dict[int, list[dict[str, int]]] = defaultdict(list)
    for row in sorted(rows, key=lambda each: each["step"]):
        queues[row["lightpath"]].append(row)
    awaited: dict[tuple[int, int], int] = defaultdict(int)
    for row in rows:
        awaited[row["destination"], row["chunk"]] += 1
    arrived: dict[tuple[int, int], list[float]] = defaultdict(list)
    free: dict[int, float] = defaultdict(float)
    adds = [(row["destination"], row["chunk"]) for row in rows if row["reduces"]]
    while any(queues.values()):
        for path, queue in queues.items():
            if not queue:
                continue
            row = queue[0]
            cell = row["source"], row["chunk"]
            needed = adds.count(cell) if row["reduces"] else awaited[cell]
            if len(arrived[cell]) < needed:
                continue
            queue.pop(0)
            straggles = row["source"] == straggler
            begin = max([free[path], *arrived[cell], late if straggles else 0.0])
            links = (row["destination"] - row["source"]) * (1, -1)[row["route"]] % ranks
            busy = schedule.chunk_nbytes / (row["wavelength_count"] * 5e9) * (slower if straggles else 1.0)
            free[path] = begin + busy
            arrived[row["destination"], row["chunk"]].append(begin + busy + 1e-6 + links * 1e-8)
    end = max(max(times) for times in arrived.values() if times)
    found = straggling(schedule, fabric, late=late, slower=slower)
    assert found.time + found.later[straggler] == pytest.approx(end + fabric.setup_time, rel=1e-12)


def test_a_folded_schedule_delays_as_it_does_unfolded() -> None:
    folded, fabric = queued("all-reduce", 12), fabric_of(12)
    assert folded.folding is not None and folded.folding.period == 2
    whole = straggling(folded.unfolded(8), fabric, late=2e-6)
    assert straggling(folded, fabric, late=2e-6).later == pytest.approx(whole.later, abs=1e-15)
    assert whole.later[whole.worst] == whole.later.max()


def test_what_cannot_be_played_is_said() -> None:
    schedule, fabric = queued("all-gather", 8), fabric_of(8)
    with pytest.raises(ConfigError, match="late=-1"):
        straggling(schedule, fabric, late=-1)
    with pytest.raises(ConfigError, match=r"slower=0\.5: expected a factor of 1 or more"):
        straggling(schedule, fabric, slower=0.5)
    with pytest.raises(UnsupportedError, match="switches packets"):
        straggling(schedule, PacketSwitch(ranks=8))
