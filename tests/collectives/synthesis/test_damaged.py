"""Schedules around failures: nothing dead is used, sound schedules are refused, no failure changes nothing much."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.collectives.algorithms.ring import RING_TWO_WAY
from lightloom.collectives.collective import Collective, Kind
from lightloom.collectives.registry import admitted, build, costed, find
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.synthesis.engine.queues import ring_schedule
from lightloom.collectives.synthesis.engine.standing import gather_over
from lightloom.collectives.synthesis.engine.trees import Design, Level, RingTask, Timing, make_trees
from lightloom.collectives.synthesis.ring.damaged import around_damage, standing_circuits
from lightloom.collectives.verify.verifier import verify
from lightloom.core.errors import ConfigError, VerificationError
from lightloom.machines.fabrics.failures import DamagedWdmRing, Failure, damaged
from lightloom.machines.fabrics.wdm_ring import WdmRing
from tests.fabrics.test_damage import failures

KINDS: tuple[Kind, ...] = ("all-gather", "reduce-scatter", "all-reduce")
ONE_OF_EACH = (
    "wavelength:3",
    "transceiver:9:2",
    "transceiver:9:0:counter-clockwise",
    "segment:11:clockwise",
    "segment:0:counter-clockwise",
    "cable:4",
    "node:5",
    "dark-node:5",
)


def ring(ranks: int, wavelengths: int = 8, **fields: int) -> WdmRing:
    return WdmRing(ranks=ranks, wavelengths=wavelengths, wavelength_bandwidth=5e9, conversion_time=1e-6).model_copy(
        update=fields
    )


def uses_nothing_dead(schedule: Schedule, fabric: DamagedWdmRing) -> bool:
    """Walk every lightpath link by link, counting nodes as they were, with nothing of the fabric but its failures."""
    dead = {each.at for each in fabric.failures if "node" in each.what}
    nodes = fabric.ranks + len(dead)
    node_of = [node for node in range(nodes) if node not in dead]
    for row in range(len(schedule)):
        way = int(schedule.route[row])
        begin, end = node_of[schedule.source[row]], node_of[schedule.destination[row]]
        first = int(schedule.fibre[row]) * fabric.wavelengths + int(schedule.first_wavelength[row])
        channels = set(range(first, first + int(schedule.wavelength_count[row])))
        passed, cables, at = set(), set(), begin
        while at != end:
            cables.add(at if way == 0 else (at - 1) % nodes)
            at = (at + (1, -1)[way]) % nodes
            passed.add(at)
        for each in fabric.failures:
            this_way = each.way in (None, way)
            if (
                (each.what == "wavelength" and each.at in {channel % fabric.wavelengths for channel in channels})
                or (each.what == "transceiver" and this_way and each.at in (begin, end) and each.channel in channels)
                or (each.what in ("segment", "cable") and this_way and each.at in cables)
                or (each.what == "dark-node" and each.at in passed)
            ):
                return False
    return True


@settings(deadline=None, max_examples=60)
@given(st.data(), st.sampled_from(KINDS))
def test_whatever_fails_schedules_use_what_is_left(data: st.DataObject, kind: Kind) -> None:
    ranks, wavelengths = data.draw(st.integers(4, 16)), data.draw(st.integers(2, 9))
    texts = data.draw(st.lists(failures(ranks, wavelengths), max_size=3))
    try:
        fabric = damaged(ring(ranks, wavelengths, fibres=data.draw(st.integers(1, 2))), map(Failure.parse, texts))
    except ConfigError:
        return
    hubs = data.draw(st.integers(2, fabric.ranks))
    chords = (Level(hubs, data.draw(st.integers(1, hubs)), data.draw(st.integers(1, 2))),)
    circuits = standing_circuits(fabric, chords) or standing_circuits(fabric, ())
    assert circuits is not None
    wanted = Collective(kind, fabric.ranks, 1e4 * fabric.ranks)
    schedule = gather_over(wanted, fabric, circuits, data.draw(st.integers(1, 2)))
    verify(schedule, fabric)
    assert uses_nothing_dead(schedule, fabric)
    costed(schedule, fabric)


def test_chords_that_leave_a_rank_unreachable_are_not_offered() -> None:
    # The only sound transceiver pair of rank 1 is taken by a chord between other ranks.
    fabric = damaged(ring(4, 3), [Failure.parse("transceiver:1:2")])
    for hubs, skip, width in product(range(2, 5), (1, 2), (1, 2)):
        circuits = standing_circuits(fabric, (Level(hubs, skip, width),))
        if circuits is not None:
            gather_over(Collective("all-gather", 4, 4e4), fabric, circuits, 1)
    assert standing_circuits(fabric, ()) is not None


@pytest.mark.parametrize("failure", ONE_OF_EACH)
def test_around_one_failure(failure: str) -> None:
    fabric = damaged(ring(16), [Failure.parse(failure)])
    for kind in KINDS:
        schedule = around_damage(Collective(kind, fabric.ranks, 1e6 * fabric.ranks), fabric)
        verify(schedule, fabric)
        assert uses_nothing_dead(schedule, fabric)
        cost, bound = costed(schedule, fabric)
        # Large shares take the bandwidth that is left; that the halves of an all-reduce could overlap where they go
        # opposite ways is not used.
        assert cost.time <= bound.time * (1.1 if kind != "all-reduce" else 2)


@pytest.mark.parametrize("failure", [each for each in ONE_OF_EACH if "node" not in each])
def test_sound_schedules_are_refused_where_they_use_what_is_dead(failure: str) -> None:
    sound, fabric = ring(16), damaged(ring(16), [Failure.parse(failure)])
    wanted, refused = Collective("all-gather", 16, 16e4), 0
    schedules = [RING_TWO_WAY.build(wanted, sound, striped=True)]
    for chords in ((), (Level(16, 3, 1),), (Level(8, 2, 3),)):
        trees = make_trees(Design(chords, pieces=2), RingTask(16, 8, 1e4, Timing(5e9, 1e-6), 1e-6))
        assert trees is not None
        schedules.append(ring_schedule(wanted, sound, trees))
    for schedule in schedules:
        verify(schedule, sound)
        if uses_nothing_dead(schedule.unfolded(8), fabric):
            verify(schedule, fabric)
        else:
            refused += 1
            with pytest.raises(VerificationError, match=r"no light passes|its transceiver has failed"):
                verify(schedule, fabric)
    assert refused >= 2


def test_nothing_failed_is_as_fast_as_the_plain_ring() -> None:
    """(N − 1) / 2 shares from each side, and one hop."""
    fabric = damaged(ring(24), [])
    schedule = around_damage(Collective("all-gather", 24, 24e6), fabric)
    verify(schedule, fabric)
    assert costed(schedule, fabric)[0].repeated_time == pytest.approx(23 / 2 * 1e6 / (8 * 5e9) + 1e-6, rel=1e-9)


def test_other_algorithms_decline() -> None:
    fabric = damaged(ring(8), [Failure.parse("cable:2")])
    assert [each.name for each in admitted("all-gather", fabric)] == ["synthesized"]
    assert [each.name for each in admitted("all-to-all", fabric)] == ["synthesized"]
    assert build(find("synthesized"), Collective("all-reduce", 8, 8e3), fabric).queued


def test_lightpaths_stay_within_reach() -> None:
    fabric = damaged(ring(16, lightpath_reach=2), [Failure.parse("cable:2")])
    circuits = standing_circuits(fabric, (Level(16, 4, 1),))
    assert circuits is not None
    assert fabric.hops(circuits.source, circuits.destination, circuits.route).max() == 1
    verify(around_damage(Collective("all-gather", 16, 16e3), fabric), fabric)


def test_the_same_question_has_the_same_answer() -> None:
    fabric = damaged(ring(16), [Failure.parse("segment:3:clockwise")])
    first, again = (around_damage(Collective("all-reduce", 16, 16e4), fabric) for _ in range(2))
    assert all(np.array_equal(getattr(first, name), getattr(again, name)) for name in first.columns())
