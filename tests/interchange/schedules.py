"""Schedules to send out and read back: every algorithm on every fabric, synthesized ones; and data to check them."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import strategies as st

from lightloom.collectives.collective import Collective, Kind
from lightloom.collectives.registry import build
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.synthesis.engine.queues import ring_schedule
from lightloom.collectives.synthesis.engine.trees import Design, Level, RingTask, Timing, make_trees
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.wdm_ring import WdmRing
from tests.collectives.strategies import fabrics, jobs

KINDS: tuple[Kind, ...] = ("all-gather", "reduce-scatter", "all-reduce")
Made = tuple[Schedule, Fabric]


def ring(ranks: int, wavelengths: int = 8) -> WdmRing:
    """The ring that synthesis is tried on."""
    return WdmRing(ranks=ranks, wavelengths=wavelengths, wavelength_bandwidth=5e9, conversion_time=1e-6)


@st.composite
def built(draw: st.DrawFn, largest: int = 12) -> Made:
    """Of a registered algorithm."""
    algorithm, collective, fabric = draw(jobs(fabrics(largest)))
    return build(algorithm, collective, fabric), fabric


@st.composite
def synthesized(draw: st.DrawFn, largest: int = 10) -> Made:
    """Queued and folded, with and without chords."""
    ranks = draw(st.integers(2, largest))
    chords = []
    for _ in range(draw(st.integers(0, 2))):
        hubs = draw(st.integers(2, ranks))
        chords.append(Level(hubs, draw(st.integers(1, max(1, hubs // 2))), draw(st.integers(1, 2))))
    chords.sort(key=lambda each: each.length(ranks))
    design = Design(
        tuple(chords),
        pieces=draw(st.integers(1, 3)),
        longest=draw(st.none() | st.integers(1, 3)),
        walk=draw(st.integers(0, 3)),
    )
    task = RingTask(ranks, 8, 1e4, Timing(bandwidth=5e9, hop=1e-6), 1e-6)
    trees = make_trees(design, task) or make_trees(Design((), pieces=design.pieces), task)
    assert trees is not None
    collective = Collective(draw(st.sampled_from(KINDS)), ranks, 1e4 * ranks)
    fabric = ring(ranks)
    return ring_schedule(collective, fabric, trees), fabric


def made() -> st.SearchStrategy[Made]:
    """Either."""
    return st.one_of(built(), synthesized())


def same(a: Schedule, b: Schedule) -> bool:
    """Whether two schedules agree in every field."""
    folded = (a.folding is None) == (b.folding is None)
    if a.folding is not None and b.folding is not None:
        folded = a.folding.period == b.folding.period and np.array_equal(a.folding.channel, b.folding.channel)
    ordered = (a.dependencies is None) == (b.dependencies is None)
    if a.dependencies is not None and b.dependencies is not None:
        ordered = np.array_equal(a.dependencies, b.dependencies)
    fields = ("algorithm", "collective", "chunks", "steps", "queued", "notes")
    columns = all(np.array_equal(column, b.columns()[name]) for name, column in a.columns().items())
    return folded and ordered and columns and all(getattr(a, name) == getattr(b, name) for name in fields)


def deliveries(schedule: Schedule) -> Counter[tuple[int, int, int, bool]]:
    """Who sends which chunk to whom, and whether it is added, how often."""
    columns = (schedule.source, schedule.destination, schedule.chunk, schedule.reduces)
    return Counter(zip(*(column.tolist() for column in columns), strict=True))


class Data:
    """What every rank holds of every chunk: whose contributions, each with its count. No knowledge of steps."""

    def __init__(self, schedule: Schedule) -> None:
        collective = schedule.collective
        part = np.arange(schedule.chunks) * collective.parts // schedule.chunks
        self._adds, self._everyone = collective.rule.adds, Counter(range(collective.ranks))
        self._first, self._last = collective.begins_at(part).tolist(), collective.ends_at(part).tolist()
        self.held: dict[tuple[int, int], Counter[int] | None] = {}
        for rank in range(collective.ranks):
            for chunk, first in enumerate(self._first):
                self.held[rank, chunk] = Counter({rank: 1}) if first in (-1, rank) else None

    def sent(self, rank: int, chunk: int) -> Counter[int]:
        """A copy of what a rank holds."""
        value = self.held[rank, chunk]
        assert value is not None, f"rank {rank} sends chunk {chunk}, of which it has nothing"
        return Counter(value)

    def arrives(self, rank: int, chunk: int, value: Counter[int], adds: bool) -> None:
        """Added to what is there, or in its place."""
        old = self.held[rank, chunk]
        self.held[rank, chunk] = value + old if adds and old is not None else value

    def check(self) -> None:
        """Every rank holds what the collective promises."""
        for (rank, chunk), value in self.held.items():
            if self._last[chunk] in (-1, rank):
                assert value == (self._everyone if self._adds else Counter({self._first[chunk]: 1}))
