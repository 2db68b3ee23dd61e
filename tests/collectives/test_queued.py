"""Queued schedules: what is folded is the same unfolded, the verifier finds what is wrong, times follow the queues."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lightloom.collectives.cost import cost
from lightloom.collectives.queued_cost import play
from lightloom.collectives.schedule import COLUMNS, Schedule
from lightloom.collectives.spec import Collective, Kind
from lightloom.collectives.synthesis.hubs import Level
from lightloom.collectives.synthesis.ring_schedule import ring_schedule
from lightloom.collectives.synthesis.trees import Design, Timing, Trees, make_trees
from lightloom.collectives.verify import verify
from lightloom.core.errors import UnsupportedError, VerificationError
from lightloom.fabrics.packet_switch import PacketSwitch
from lightloom.fabrics.wdm_ring import WdmRing

KINDS: tuple[Kind, ...] = ("all-gather", "reduce-scatter", "all-reduce")
TIMING = Timing(bandwidth=5e9, hop=1e-6)


def ring(ranks: int, wavelengths: int = 8) -> WdmRing:
    return WdmRing(ranks=ranks, wavelengths=wavelengths, wavelength_bandwidth=5e9, conversion_time=1e-6)


@st.composite
def designs(draw: st.DrawFn, most: int = 36) -> tuple[int, Design]:
    """Ranks, and a design with one or two levels of chords, or none."""
    ranks = draw(st.integers(2, most))
    chords = []
    for _ in range(draw(st.integers(0, 2))):
        hubs = draw(st.integers(2, ranks))
        chords.append(Level(hubs, draw(st.integers(1, max(1, hubs // 2))), draw(st.integers(1, 2))))
    chords.sort(key=lambda each: each.length(ranks))
    return ranks, Design(
        tuple(chords), draw(st.integers(1, 4)), draw(st.none() | st.integers(1, 4)), draw(st.integers(0, 6))
    )


def trees_of(ranks: int, design: Design, nbytes: float = 1e4) -> Trees | None:
    return make_trees(design, ranks, 8, nbytes, TIMING, 1e-6)


@settings(deadline=None, max_examples=60)
@given(designs(), st.sampled_from(KINDS))
def test_what_is_folded_is_the_same_unfolded(drawn: tuple[int, Design], kind: Kind) -> None:
    ranks, design = drawn
    trees = trees_of(ranks, design)
    assume(trees is not None)
    assert trees is not None
    fabric = ring(ranks)
    folded = ring_schedule("x", Collective(kind, ranks, 1e4 * ranks), fabric, trees)
    whole = folded.unfolded(fabric.fibre_channels)
    assert folded.folding is not None
    assert len(whole) == len(folded) * folded.folding.copies
    verify(folded, fabric)
    verify(whole, fabric)
    assert cost(folded, fabric).time == pytest.approx(cost(whole, fabric).time, rel=1e-12)
    if kind == "all-gather":
        # Hubs that do not divide the ranks have chords of different lengths, but no propagation delays them here.
        assert cost(folded, fabric).time - fabric.setup_time <= trees.time * (1 + 1e-9)
    gather, both = (cost(of_kind(ranks, trees, each), fabric) for each in ("all-gather", "all-reduce"))
    assert both.repeated_time <= 2 * gather.repeated_time * (1 + 1e-9) + 1e-12


def of_kind(ranks: int, trees: Trees, kind: Any) -> Schedule:
    return ring_schedule("x", Collective(kind, ranks, 1e4 * ranks), ring(ranks), trees)


@settings(deadline=None, max_examples=30)
@given(designs(20), st.sampled_from(KINDS))
def test_times_are_those_of_a_plain_replay(drawn: tuple[int, Design], kind: Kind) -> None:
    ranks, design = drawn
    trees = trees_of(ranks, design)
    assume(trees is not None)
    assert trees is not None
    fabric = ring(ranks)
    schedule = of_kind(ranks, trees, kind).unfolded(fabric.fibre_channels)
    seconds, begin = play(schedule, fabric)
    assert seconds == pytest.approx(plain_replay(schedule, fabric, begin), rel=1e-12)


def plain_replay(schedule: Schedule, fabric: WdmRing, begin: Any) -> float:
    """Check every row's beginning against what it waits for; the last arrival."""
    busy = schedule.chunk_nbytes / (schedule.wavelength_count * fabric.wavelength_bandwidth)
    arrives = begin + busy + fabric.conversion_time
    into: dict[tuple[int, int], list[int]] = defaultdict(list)
    for row in range(len(schedule)):
        into[int(schedule.destination[row]), int(schedule.chunk[row])].append(row)
    before: dict[int, float] = {}
    for row in np.lexsort((schedule.step, schedule.lightpath)).tolist():
        cell = int(schedule.source[row]), int(schedule.chunk[row])
        # A row that adds waits for what is added; one that stores for that too, at the owner, or for the store.
        waits = [arrives[each] for each in into[cell] if schedule.reduces[each] or not schedule.reduces[row]]
        path = int(schedule.lightpath[row])
        assert begin[row] == pytest.approx(max([before.get(path, 0.0), *waits]), rel=1e-12)
        before[path] = begin[row] + busy[row]
    return float(arrives.max(initial=0.0))


def sample() -> tuple[Schedule, WdmRing]:
    trees = trees_of(12, Design((Level(6, 2, 1),), 2))
    assert trees is not None
    return of_kind(12, trees, "all-reduce"), ring(12)


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_a_changed_row_is_rejected_unless_a_set_based_replay_accepts_it(data: st.DataObject) -> None:
    schedule, fabric = sample()
    whole = schedule.unfolded(fabric.fibre_channels)
    row = data.draw(st.integers(0, len(whole) - 1))
    column = data.draw(
        st.sampled_from(["source", "destination", "chunk", "step", "reduces", "first_wavelength", "route"])
    )
    limits = {"step": whole.steps, "chunk": whole.chunks, "reduces": 2, "first_wavelength": 8, "route": 2}
    cells = getattr(whole, column).copy()
    cells[row] = data.draw(st.integers(0, limits.get(column, 12) - 1))
    changed = whole.with_columns({column: cells})
    try:
        verify(changed, fabric)
    except VerificationError:
        assert not set_based(changed, fabric)
    else:
        assert set_based(changed, fabric)


def set_based(schedule: Schedule, fabric: WdmRing) -> bool:
    """Whether the circuits never clash and the data ends where it should, with Python sets alone."""
    ends: dict[int, tuple[int, ...]] = {}
    holder: dict[tuple[int, int, int], int] = {}
    names = ("source", "destination", "route", "fibre", "first_wavelength", "wavelength_count")
    rows = [{name: int(getattr(schedule, name)[i]) for name in COLUMNS} for i in range(len(schedule))]
    for row in rows:
        if (
            row["source"] == row["destination"]
            or row["first_wavelength"] + row["wavelength_count"] > fabric.wavelengths
        ):
            return False
        if ends.setdefault(row["lightpath"], tuple(row[name] for name in names)) != tuple(row[name] for name in names):
            return False
    for path, (source, destination, route, _, first, count) in ends.items():
        at = source
        while at != destination:
            link = at if route == 0 else (at - 1) % fabric.ranks
            for channel in range(first, first + count):
                if holder.setdefault((route, link, channel), path) != path:
                    return False
            at = (at + (1 if route == 0 else -1)) % fabric.ranks
    ranks, pieces = fabric.ranks, schedule.chunks // fabric.ranks
    everyone = frozenset(range(ranks))
    held = {(rank, chunk): frozenset([rank]) for rank in range(ranks) for chunk in range(schedule.chunks)}
    queues: dict[int, list[dict[str, int]]] = defaultdict(list)
    for row in sorted(rows, key=lambda each: each["step"]):
        queues[row["lightpath"]].append(row)
    owed: dict[tuple[int, int], int] = defaultdict(int)
    for row in rows:
        owed[row["destination"], row["chunk"]] += row["reduces"]
    moved = True
    while moved:
        moved = False
        for queue in queues.values():
            while queue:
                row = queue[0]
                cell, to = (row["source"], row["chunk"]), (row["destination"], row["chunk"])
                if owed[cell] or (not row["reduces"] and held[cell] != everyone):
                    break
                if not held[cell] or (row["reduces"] and (not held[to] or held[to] & held[cell])):
                    return False
                if row["reduces"]:
                    held[to] |= held[cell]
                    owed[to] -= 1
                    held[cell] = frozenset()
                elif held[to] or owed[to]:
                    return False
                else:
                    held[to] = everyone
                queue.pop(0)
                moved = True
    complete = all(held[rank, chunk] == everyone for rank in range(ranks) for chunk in range(pieces * ranks))
    return complete and not any(queues.values())


def test_rejections_name_the_culprit() -> None:
    schedule, fabric = sample()
    folding = schedule.folding
    assert folding is not None
    clashing = folding.channel.copy()
    clashing[1] = 0
    keep = np.arange(len(schedule)) != len(schedule) - 1
    dropped = schedule.with_columns({name: getattr(schedule, name)[keep] for name in COLUMNS})
    for wrong, message in (
        (
            schedule.with_columns({}, folding=replace(folding, channel=clashing)),
            "share wavelength 0 of fibre 0 on the",
        ),
        (schedule.with_columns({}, folding=replace(folding, period=5)), "folded every 5 of 12 ranks"),
        (schedule.with_columns({}, queued=False), "only queued schedules can be folded"),
        (dropped, "does not end with the complete chunk|is never sent"),
        (schedule.with_columns({"reduces": ~schedule.reduces}), r"row \d+|is never sent|arrives where"),
    ):
        with pytest.raises(VerificationError, match=message):
            verify(wrong, fabric)
    with pytest.raises(VerificationError, match="transceivers"):
        verify(schedule, fabric.model_copy(update={"transceivers": 4}))
    with pytest.raises(VerificationError, match="needs circuits"):
        verify(schedule.with_columns({"route": 0 * schedule.route}), PacketSwitch(ranks=12))
    with pytest.raises(UnsupportedError, match="no steps that the paper cost model"):
        cost(schedule, fabric, "paper")


def test_a_guard_time_holds_the_lightpath_for_every_piece() -> None:
    trees = trees_of(8, Design((), 4), 1e6)
    assert trees is not None
    schedule = of_kind(8, trees, "all-gather").resized(8e6)
    fabric = ring(8)
    slower = fabric.model_copy(update={"guard_time": 1e-6})
    # Four pieces of seven shares, half of them each way, pass every link.
    assert cost(schedule, slower).time - cost(schedule, fabric).time == pytest.approx(14e-6, rel=1e-9)
