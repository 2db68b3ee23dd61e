"""The verifier rejects every way in which a schedule can be wrong, and names the culprit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.collective import Collective
from lightloom.collectives.registry import build, find
from lightloom.collectives.schedule.columns import COLUMNS, Folding, Schedule
from lightloom.collectives.verify.checks import shares
from lightloom.collectives.verify.verifier import verify
from lightloom.core.errors import VerificationError
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.failures import DamagedWdmRing, Failure
from lightloom.machines.fabrics.switches import PacketSwitch
from tests.collectives.reference import is_right
from tests.collectives.strategies import jobs, wdm_ring, wdm_rings

FABRIC = wdm_ring(8, 4)


def optree() -> Schedule:
    return build(find("optree"), Collective("all-gather", 8, 8.0), FABRIC)


def with_cell(schedule: Schedule, column: str, row: int, value: int) -> Schedule:
    changed = getattr(schedule, column).copy()
    changed[row] = value
    return schedule.with_columns({column: changed})


def without_row(schedule: Schedule, row: int) -> Schedule:
    return schedule.with_columns({name: np.delete(getattr(schedule, name), row) for name in COLUMNS})


def with_row_again(schedule: Schedule, row: int, **changes: Any) -> Schedule:
    columns = {
        name: np.append(getattr(schedule, name), changes.get(name, getattr(schedule, name)[row])) for name in COLUMNS
    }
    return schedule.with_columns(columns)


def test_a_dropped_send_names_the_rank_left_without() -> None:
    schedule = optree()
    last = len(schedule) - 1
    rank, chunk = schedule.destination[last], schedule.chunk[last]
    with pytest.raises(VerificationError, match=f"rank {rank} does not end with the complete chunk {chunk}"):
        verify(without_row(schedule, last), FABRIC)


@pytest.mark.parametrize("fabric", [FABRIC, wdm_ring(8, 4, transceivers=2)], ids=["free", "transceivers"])
@pytest.mark.parametrize("queued", [False, True])
def test_a_schedule_without_a_row_names_a_rank_left_without(fabric: Fabric, queued: bool) -> None:
    schedule = replace(optree().unfolded(4), queued=queued)
    empty = {name: column[:0] for name, column in schedule.columns().items()}
    for folding in (None, Folding(4, np.zeros((2, 0), np.int32))):
        with pytest.raises(VerificationError, match=r"rank \d+ does not end with"):
            verify(schedule.with_columns(empty, folding=folding), fabric)


def test_a_dropped_early_send_names_the_sender_that_lacks_it() -> None:
    with pytest.raises(VerificationError, match=r"rank \d+ does not (hold the chunk|end with)"):
        verify(without_row(optree(), 0), FABRIC)


def test_a_swapped_chunk_names_the_row() -> None:
    schedule = optree()
    other = int(np.flatnonzero(schedule.source != schedule.source[0])[0])
    swapped = with_cell(schedule, "chunk", 0, schedule.chunk[other])
    swapped = with_cell(swapped, "chunk", other, schedule.chunk[0])
    with pytest.raises(VerificationError, match=r"step 0, rank \d→\d, chunk \d \(row \d+\): rank \d does not hold"):
        verify(swapped, FABRIC)


def test_a_doubled_contribution_names_the_receiver() -> None:
    fabric = PacketSwitch(ranks=4)
    schedule = build(find("ring"), Collective("all-reduce", 4, 4.0), fabric)
    doubled = with_row_again(schedule, 0, step=1, lightpath=len(schedule))
    with pytest.raises(VerificationError, match=r"rank \d receives a contribution that it already holds"):
        verify(doubled, fabric)


def test_a_shared_wavelength_names_link_wavelength_and_both_lightpaths() -> None:
    schedule = build(find("one-stage"), Collective("all-gather", 8, 8.0), wdm_ring(8, 8))
    row = int(np.flatnonzero(schedule.first_wavelength > 0)[0])
    shared = with_cell(schedule, "first_wavelength", row, 0)
    with pytest.raises(
        VerificationError,
        match=r"lightpaths \d+ and \d+ share wavelength 0 of fibre 0 on the (counter-)?clockwise link \d→\d",
    ):
        verify(shared, wdm_ring(8, 8))


def test_a_broken_continuity_names_lightpath_and_column() -> None:
    fabric = wdm_ring(8, 4)
    schedule = build(find("neighbour-exchange"), Collective("all-gather", 8, 8.0), fabric)
    row = int(np.flatnonzero(schedule.step == 1)[0])
    broken = with_cell(schedule, "first_wavelength", row, 1)
    with pytest.raises(VerificationError, match=r"lightpath \d+ breaks continuity: first_wavelength"):
        verify(broken, fabric)


@pytest.mark.parametrize(("column", "wrong"), [("fibre", 1), ("first_wavelength", 4), ("wavelength_count", 5)])
def test_a_wavelength_that_does_not_exist_is_named(column: str, wrong: int) -> None:
    with pytest.raises(VerificationError, match="do not exist: the fabric has 4 channels a link"):
        verify(with_cell(optree(), column, 0, wrong), FABRIC)


def test_one_transceiver_too_many_names_rank_and_step() -> None:
    schedule = build(find("one-stage"), Collective("all-gather", 8, 8.0), wdm_ring(8, 8))
    verify(schedule, wdm_ring(8, 8, transceivers=7))
    with pytest.raises(
        VerificationError, match=r"step 0: rank \d sends on 7 wavelengths at once: it has 6 transceivers"
    ):
        verify(schedule, wdm_ring(8, 8, transceivers=6))


def test_a_dependency_cycle_names_the_steps() -> None:
    schedule = build(find("ring"), Collective("all-gather", 4, 4.0), wdm_ring(4, 1)).unfolded(1)
    chain = [(1, 0), (2, 1)]
    verify(replace(schedule, dependencies=np.array(chain)), wdm_ring(4, 1))
    with pytest.raises(VerificationError, match=r"dependency cycle among steps \[0, 1, 2\]"):
        verify(replace(schedule, dependencies=np.array([*chain, (0, 2)])), wdm_ring(4, 1))


@pytest.mark.parametrize("pair", [(-1, 0), (0, -1), (3, 0), (0, 3)])
def test_a_dependency_on_a_step_that_does_not_exist_is_named(pair: tuple[int, int]) -> None:
    schedule = build(find("ring"), Collective("all-gather", 4, 4.0), wdm_ring(4, 1)).unfolded(1)
    with pytest.raises(VerificationError, match=r"a dependency names a step outside 0\.\.2"):
        verify(replace(schedule, dependencies=np.array([(1, 0), (2, 1), pair])), wdm_ring(4, 1))


def test_no_chunks_are_shared_by_nobody() -> None:
    with pytest.raises(VerificationError, match="0 chunks cannot be shared equally by 8 owners"):
        shares(replace(optree(), chunks=0))


def test_a_missing_dependency_is_a_clash() -> None:
    schedule = build(find("ring"), Collective("all-gather", 4, 4.0), wdm_ring(4, 1)).unfolded(1)
    with pytest.raises(VerificationError, match="share wavelength 0"):
        verify(replace(schedule, dependencies=np.array([(1, 0)])), wdm_ring(4, 1))


def test_a_send_that_nothing_orders_after_its_data_is_named() -> None:
    fabric = PacketSwitch(ranks=4)
    for kind in ("all-gather", "all-reduce"):
        schedule = build(find("ring"), Collective(kind, 4, 4.0), fabric).unfolded(1)
        chain = np.array([(s + 1, s) for s in range(schedule.steps - 1)])
        verify(replace(schedule, dependencies=chain), fabric)
        with pytest.raises(VerificationError, match=r"nothing orders this send after|does not hold the chunk|and lost"):
            verify(replace(schedule, dependencies=chain[:-1]), fabric)


def test_a_block_that_goes_to_the_wrong_rank_is_named() -> None:
    fabric = wdm_ring(8, 8)
    schedule = build(find("one-stage"), Collective("all-to-all", 8, 8.0), fabric)
    chunk = int(schedule.chunk[0])
    other = int(np.flatnonzero((schedule.source == schedule.source[0]) & (schedule.chunk != chunk))[0])
    wrong = with_cell(schedule, "chunk", 0, schedule.chunk[other])
    with pytest.raises(VerificationError, match=f"rank {chunk % 8} does not end with the complete chunk {chunk}"):
        verify(wrong, fabric)
    with pytest.raises(VerificationError, match="an all-to-all must not add"):
        verify(with_cell(schedule, "reduces", 0, 1), fabric)
    with pytest.raises(VerificationError, match="8 chunks cannot be shared equally by 64 owners"):
        verify(replace(schedule, chunks=8, chunk=schedule.chunk % 8), fabric)
    switch = PacketSwitch(ranks=8)
    straight = build(find("one-stage"), Collective("all-to-all", 8, 8.0), switch).unfolded(1)
    stolen = with_row_again(straight, 0, chunk=63, lightpath=len(straight))
    with pytest.raises(VerificationError, match="rank 0 does not hold the chunk"):
        verify(stolen, switch)
    with pytest.raises(VerificationError, match="receives a contribution that it already holds"):
        verify(with_row_again(straight, 0, lightpath=len(straight)), switch)


def test_an_overwritten_partial_sum_is_named() -> None:
    fabric = PacketSwitch(ranks=4)
    schedule = build(find("worker-aggregator"), Collective("all-reduce", 4, 4.0), fabric)
    with pytest.raises(VerificationError, match=r"overwritten and lost|written to by two sends of one step"):
        verify(with_cell(schedule, "reduces", 0, 0), fabric)


def test_a_tap_that_the_light_budget_does_not_allow_is_named() -> None:
    star = build(find("worker-aggregator"), Collective("all-reduce", 4, 4.0), PacketSwitch(ranks=4))
    merged = star.lightpath.copy()
    merged[-3:] = merged[-1]
    with pytest.raises(VerificationError, match="serves 3 destinations"):
        verify(replace(star, lightpath=merged), PacketSwitch(ranks=4))


def test_light_that_does_not_reach_so_far_is_named() -> None:
    schedule = build(find("one-stage"), Collective("all-gather", 8, 8.0), wdm_ring(8, 8))
    verify(schedule, wdm_ring(8, 8, lightpath_reach=4))
    with pytest.raises(VerificationError, match=r"rank \d→\d, .* passes 4 links: light reaches at most 3"):
        verify(schedule, wdm_ring(8, 8, lightpath_reach=3))


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        ("wavelength:2", "no light passes wavelength 2 of fibre 0 on the"),
        ("segment:5:clockwise", "no light passes wavelength 0 of fibre 0 on the clockwise link 5→6"),
        ("cable:5", "no light passes wavelength 0 of fibre 0 on the clockwise link 5→6"),
        ("transceiver:3:2", r"no lightpath can (begin|end) at rank 3 on one of the 4 channels from 0 on"),
        ("transceiver:3:2:counter-clockwise", r"no lightpath can (begin|end) at rank 3 on one of the 4 channels"),
    ],
)
def test_light_over_what_has_failed_is_named(failure: str, reason: str) -> None:
    schedule = build(find("ring-two-way-striped"), Collective("all-gather", 8, 8.0), FABRIC)
    damaged = DamagedWdmRing(ranks=8, wavelengths=4, failures=(Failure.parse(failure),))
    with pytest.raises(VerificationError, match=reason):
        verify(schedule, damaged)
    verify(schedule, DamagedWdmRing(ranks=8, wavelengths=4))


def test_one_way_around_a_ring_needs_the_other_way_no_more() -> None:
    schedule = build(find("ring"), Collective("all-gather", 8, 8.0), FABRIC)
    for failure in ("segment:5:counter-clockwise", "wavelength:3", "transceiver:3:0:counter-clockwise"):
        verify(schedule, DamagedWdmRing(ranks=8, wavelengths=4, failures=(Failure.parse(failure),)))


def test_a_schedule_for_another_number_of_ranks_is_refused() -> None:
    with pytest.raises(VerificationError, match="schedule for 8 ranks on a fabric of 9"):
        verify(optree(), wdm_ring(9, 4))


def test_self_sends_and_unknown_ranks_are_refused() -> None:
    schedule = optree()
    with pytest.raises(VerificationError, match="a rank sends to itself"):
        verify(with_cell(schedule, "destination", 0, schedule.source[0]), FABRIC)
    with pytest.raises(VerificationError, match=r"destination 8 is not in 0\.\.7"):
        verify(with_cell(schedule, "destination", 0, 8), FABRIC)


@given(jobs(wdm_rings(largest=9)), st.data())
@settings(max_examples=300, deadline=None)
def test_an_obvious_replay_agrees_on_mutants(job: tuple[Algorithm, Collective, Fabric], data: st.DataObject) -> None:
    """Change one cell at random: the verifier accepts exactly what the set-based replay of all ranks accepts."""
    algorithm, collective, fabric = job
    assume(not algorithm.by_size)  # queued schedules have a replay and mutants of their own
    schedule = build(algorithm, collective, fabric)
    row = data.draw(st.integers(0, len(schedule) - 1))
    column, limit = data.draw(
        st.sampled_from(
            [
                ("chunk", schedule.chunks),
                ("step", schedule.steps),
                ("route", 2),
                ("reduces", 2),
                ("first_wavelength", int(getattr(fabric, "wavelengths", 1))),
                ("destination", fabric.ranks),
            ]
        )
    )
    # A lightpath of its own keeps the mutant from being rejected for disagreeing with its lightpath's other rows.
    alone = with_cell(schedule, "lightpath", row, len(schedule) - 1)
    if np.count_nonzero(schedule.lightpath == len(schedule) - 1):
        alone = schedule
    mutant = with_cell(alone, column, row, data.draw(st.integers(0, limit - 1)))
    if mutant.source[row] == mutant.destination[row]:
        return
    try:
        verify(mutant, fabric)
    except VerificationError as error:
        if "breaks continuity" in str(error) or "destinations" in str(error):
            return
        assert not is_right(mutant, fabric), str(error)  # type: ignore[arg-type]
    else:
        assert is_right(mutant, fabric)  # type: ignore[arg-type]
