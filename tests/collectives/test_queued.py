"""Queued schedules: what is folded is the same unfolded, the verifier finds what is wrong, times follow the queues."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lightloom.collectives.collective import Collective, Kind
from lightloom.collectives.cost.price import play
from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.schedule.columns import COLUMNS, Schedule
from lightloom.collectives.synthesis.engine.queues import ring_schedule
from lightloom.collectives.synthesis.engine.trees import (
    Design,
    Level,
    RingTask,
    RingTrees,
    Timing,
    make_trees,
)
from lightloom.collectives.verify.verifier import verify
from lightloom.core.errors import UnsupportedError, VerificationError
from lightloom.machines.fabrics.switches import PacketSwitch
from lightloom.machines.fabrics.wdm_ring import WdmRing
from tests.collectives.queued_reference import accepted, chained, exchanged, tapped

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
        tuple(chords),
        pieces=draw(st.integers(1, 4)),
        longest=draw(st.none() | st.integers(1, 4)),
        walk=draw(st.integers(0, 6)),
    )


def trees_of(ranks: int, design: Design, nbytes: float = 1e4) -> RingTrees | None:
    return make_trees(design, RingTask(ranks, 8, nbytes, TIMING, 1e-6))


@settings(deadline=None, max_examples=60)
@given(designs(), st.sampled_from(KINDS))
def test_what_is_folded_is_the_same_unfolded(drawn: tuple[int, Design], kind: Kind) -> None:
    ranks, design = drawn
    trees = trees_of(ranks, design)
    assume(trees is not None)
    assert trees is not None
    fabric = ring(ranks)
    folded = ring_schedule(Collective(kind, ranks, 1e4 * ranks), fabric, trees)
    unfolded = folded.unfolded(fabric.fibre_channels)
    copies = 1 if folded.folding is None else folded.folding.copies
    assert copies == ranks // trees.circuits.period
    assert len(unfolded) == len(folded) * copies
    verify(folded, fabric)
    verify(unfolded, fabric)
    assert cost(folded, fabric).time == pytest.approx(cost(unfolded, fabric).time, rel=1e-12)
    if kind == "all-gather":
        # Hubs that do not divide the ranks have chords of different lengths, but no propagation delays them here.
        assert cost(folded, fabric).time - fabric.setup_time <= trees.forest.time * (1 + 1e-9)
    gather, both = (cost(of_kind(ranks, trees, each), fabric) for each in ("all-gather", "all-reduce"))
    assert both.repeated_time <= 2 * gather.repeated_time * (1 + 1e-9) + 1e-12


def of_kind(ranks: int, trees: RingTrees, kind: Any) -> Schedule:
    return ring_schedule(Collective(kind, ranks, 1e4 * ranks), ring(ranks), trees)


@settings(deadline=None, max_examples=30)
@given(designs(20), st.sampled_from(KINDS))
def test_times_are_those_of_a_plain_replay(drawn: tuple[int, Design], kind: Kind) -> None:
    ranks, design = drawn
    trees = trees_of(ranks, design)
    assume(trees is not None)
    assert trees is not None
    fabric = ring(ranks)
    schedule = of_kind(ranks, trees, kind).unfolded(fabric.fibre_channels)
    seconds, _, begin = play(schedule, fabric)
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
    trees = trees_of(12, Design((Level(6, 2, 1),), pieces=2))
    assert trees is not None
    return of_kind(12, trees, "all-reduce"), ring(12)


def by_hand(which: str, ranks: int) -> tuple[Schedule, WdmRing]:
    """Schedules of the kinds that trees of a ring do not carry."""
    fabric = ring(ranks).model_copy(update={"multicast_taps": 3})
    schedules = {
        "all-to-all": lambda: exchanged(ranks, 1, ranks, 1e4),
        "multicast": lambda: tapped(ranks, 3, 1e4),
        "broadcast": lambda: chained("broadcast", ranks, 3, 1e4),
        "reduce": lambda: chained("reduce", ranks, 3, 1e4),
        "all-reduce": lambda: sample()[0],
    }
    return schedules[which]().unfolded(fabric.fibre_channels), fabric


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(["all-reduce", "all-to-all", "multicast", "broadcast", "reduce"]), st.randoms())
def test_rows_may_be_listed_in_any_order(which: str, random: Random) -> None:
    """What is sent when follows from lightpaths and steps alone; the first to send may well be listed first."""
    whole, fabric = by_hand(which, 12 if which == "all-reduce" else 7)
    first = int(np.lexsort((whole.step, whole.lightpath))[0])
    rest = [row for row in range(len(whole)) if row != first]
    random.shuffle(rest)
    order = np.array([first, *rest])
    shuffled = whole.with_columns({name: getattr(whole, name)[order] for name in COLUMNS})
    verify(shuffled, fabric)
    assert play(shuffled, fabric)[0] == pytest.approx(play(whole, fabric)[0], rel=1e-12)


@settings(deadline=None, max_examples=300)
@given(st.sampled_from(["all-reduce", "all-to-all", "multicast", "broadcast", "reduce"]), st.data())
def test_a_changed_row_is_rejected_unless_a_set_based_replay_accepts_it(which: str, data: st.DataObject) -> None:
    whole, fabric = by_hand(which, 12 if which == "all-reduce" else 7)
    assert accepted(whole, fabric)
    verify(whole, fabric)
    row = data.draw(st.integers(0, len(whole) - 1))
    column = data.draw(
        st.sampled_from(["source", "destination", "chunk", "step", "reduces", "first_wavelength", "route"])
    )
    limits = {"step": whole.steps, "chunk": whole.chunks, "reduces": 2, "first_wavelength": 8, "route": 2}
    cells = getattr(whole, column).copy()
    cells[row] = data.draw(st.integers(0, limits.get(column, fabric.ranks) - 1))
    changed = whole.with_columns({column: cells})
    try:
        verify(changed, fabric)
    except VerificationError:
        assert not accepted(changed, fabric)
    else:
        assert accepted(changed, fabric)


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
        (schedule.with_columns({}, queued=False), "breaks continuity: step"),
        (dropped, "does not end with the complete chunk|is never sent"),
        (schedule.with_columns({"reduces": ~schedule.reduces}), r"row \d+|is never sent|arrives where"),
    ):
        with pytest.raises(VerificationError, match=message):
            verify(wrong, fabric)
    with pytest.raises(VerificationError, match="transceivers"):
        verify(schedule, fabric.model_copy(update={"transceivers": 4}))
    with pytest.raises(VerificationError, match="with channels of shape"):
        verify(schedule.with_columns({"route": 0 * schedule.route}), PacketSwitch(ranks=12))
    with pytest.raises(UnsupportedError, match="no steps that the paper cost model"):
        cost(schedule, fabric, "paper")


@settings(deadline=None, max_examples=25)
@given(st.integers(3, 14), st.integers(1, 3), st.data())
def test_exchanges_fold(ranks: int, pieces: int, data: st.DataObject) -> None:
    period = data.draw(st.sampled_from([each for each in range(1, ranks + 1) if ranks % each == 0]))
    folded, fabric = exchanged(ranks, pieces, period, 1e4), ring(ranks)
    # Opposite blocks go one way only, so that one link each way carries 1 + ... + N/2 of them.
    verify(folded, fabric)
    verify(folded.unfolded(fabric.fibre_channels), fabric)
    price = cost(folded, fabric)
    assert price.time == pytest.approx(cost(folded.unfolded(fabric.fibre_channels), fabric).time, rel=1e-12)
    blocks = (ranks // 2) * (ranks // 2 + 1) // 2
    assert price.time - fabric.setup_time >= blocks * 1e4 / ranks / fabric.wavelength_bandwidth * (1 - 1e-12)
    wrong = folded.with_columns({"chunk": np.roll(folded.chunk, 1)})
    if len(folded) > 1:
        with pytest.raises(VerificationError):
            verify(wrong, fabric)


@settings(deadline=None, max_examples=25)
@given(st.integers(3, 20), st.integers(1, 5))
def test_taps_share_one_transmission(ranks: int, taps: int) -> None:
    assume(taps < ranks)
    fabric = ring(ranks).model_copy(
        update={"wavelengths": 32, "multicast_taps": taps, "energy_per_bit": 1e-12, "hop_latency": 1e-7}
    )
    schedule = tapped(ranks, taps, 1e5)
    verify(schedule, fabric)
    price = cost(schedule, fabric)
    sends = -(-(ranks - 1) // taps)
    seconds = 1e5 / ranks / fabric.wavelength_bandwidth
    # Every rank sends each share that it relays once, whatever the taps; light then passes the ranks in between.
    assert price.energy == pytest.approx(sends * ranks * seconds * fabric.wavelength_bandwidth * 8e-12, rel=1e-9)
    assert price.time - fabric.setup_time == pytest.approx(
        sends * (seconds + fabric.conversion_time) + (ranks - 1) * fabric.hop_latency, rel=1e-9
    )
    if taps > 1:
        with pytest.raises(VerificationError, match=f"tapped by {taps - 1}"):
            verify(schedule, fabric.model_copy(update={"multicast_taps": taps - 1}))


def test_a_guard_time_holds_the_lightpath_for_every_piece() -> None:
    trees = trees_of(8, Design((), pieces=4), 1e6)
    assert trees is not None
    schedule = of_kind(8, trees, "all-gather").resized(8e6)
    fabric = ring(8)
    slower = fabric.model_copy(update={"guard_time": 1e-6})
    # Four pieces of seven shares, half of them each way, pass every link.
    assert cost(schedule, slower).time - cost(schedule, fabric).time == pytest.approx(14e-6, rel=1e-9)
