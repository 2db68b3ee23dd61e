"""What must hold before rows stand for all ranks or all pieces: each condition alone, to its last allowed value."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lightloom.collectives.collective import FOLDABLE, KINDS, Collective
from lightloom.collectives.registry import build, find
from lightloom.collectives.schedule.columns import Folding, Pipeline, Schedule
from lightloom.collectives.verify.checks import check_folding, first_piece
from lightloom.core.errors import VerificationError
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.optical_averager import OpticalAverager
from lightloom.machines.fabrics.wdm_ring import Ring
from tests.collectives.queued_reference import exchanged
from tests.collectives.strategies import collective_of, wdm_ring

RANKS = 12
PACKETS = Ring(ranks=RANKS)


def on_packets(folding: Folding, **fields: Any) -> Schedule:
    rows = build(find("ring"), Collective("all-gather", RANKS, 12e3), PACKETS)
    return replace(rows, folding=folding, **fields)


def refused(schedule: Schedule, fabric: Fabric, says: str) -> None:
    with pytest.raises(VerificationError, match=says):
        check_folding(schedule, fabric)


@pytest.mark.parametrize("period", range(-1, RANKS + 3))
def test_a_period_divides_the_ranks_and_has_a_copy_for_each_that_fits(period: int) -> None:
    fits = period > 0 and RANKS % period == 0
    for copies in range(RANKS + 2):
        schedule = on_packets(Folding(period, np.zeros((copies, 0), np.int32)))
        if fits and copies == RANKS // period:
            check_folding(schedule, PACKETS)
        else:
            refused(schedule, PACKETS, rf"^folded every {period} of 12 ranks with channels of shape \({copies}, 0\): ")


@pytest.mark.parametrize(
    "axes", [(6,), (2, 3), (3, 2), (1, 6), (6, 1, 1), (5,), (2, 2), (7,), (-2, -3), (-6, -1), (0, 6)]
)
def test_axes_hold_all_copies_and_none_of_them_is_empty(axes: tuple[int, ...]) -> None:
    schedule = on_packets(Folding(2, np.zeros((6, 0), np.int32), axes))
    if np.prod(axes) == 6 and min(axes) > 0:
        check_folding(schedule, PACKETS)
    else:
        refused(schedule, PACKETS, f"^6 copies on axes {' x '.join(map(str, axes))}: expected axes that hold them$")


def test_channels_of_copies_are_those_of_all_lightpaths_and_of_steps_none_too() -> None:
    """Of queued rows on circuits each lightpath's, of packets none."""
    fabric, queued = wdm_ring(6, 8), exchanged(6, 1, 2, 1e4)
    folding = queued.folding
    assert folding is not None
    paths = folding.channel.shape[1]
    for width in (0, paths - 1, paths, paths + 1):
        other = replace(queued, folding=Folding(2, np.resize(folding.channel, (3, width))))
        for schedule, widths in ((other, [paths]), (replace(other, queued=False), [0, paths])):
            if width in widths:
                check_folding(schedule, fabric)
            else:
                expected = " or ".join(rf"\(3, {each}\)" for each in widths)
                refused(schedule, fabric, rf"shape \(3, {width}\): expected a divisor of the ranks and {expected}$")
        if width:
            refused(other, Ring(ranks=6), rf"shape \(3, {width}\): expected a divisor of the ranks and \(3, 0\)$")


def test_only_collectives_that_are_the_same_from_every_rank_fold() -> None:
    folding = Folding.alike(RANKS, 3)
    for kind in KINDS:
        schedule = on_packets(folding, collective=collective_of(kind, RANKS, 12e3), chunks=RANKS**2)
        if kind in FOLDABLE:
            check_folding(replace(schedule, source=schedule.source % 3), PACKETS)
        else:
            refused(schedule, PACKETS, f"^an? {kind} is not the same from every rank and cannot be folded$")


def test_chunks_rotate_among_all_ranks() -> None:
    for chunks in range(1, 3 * RANKS + 1):
        schedule = on_packets(Folding.alike(RANKS, 1), chunks=chunks)
        if chunks % RANKS:
            refused(schedule, PACKETS, f"^{chunks} chunks do not rotate among 12 ranks$")
        else:
            check_folding(schedule, PACKETS)


def test_rows_begin_within_the_first_period_and_the_first_beyond_it_is_named() -> None:
    schedule = on_packets(Folding.alike(RANKS, 3))
    for wrong in ([], [2], [3, 4]):
        source = schedule.source.copy()
        source[:] = 2
        source[wrong] = 3
        moved = schedule.with_columns({"source": source})
        if wrong:
            refused(moved, PACKETS, f"^row {wrong[0]}: rank 3 is beyond the first period$")
        else:
            check_folding(moved, PACKETS)


def test_sums_in_the_network_and_steps_with_dependencies_do_not_fold() -> None:
    schedule, says = on_packets(Folding.alike(RANKS, 1)), "^only steps in order, or queues, between ranks can be folded"
    refused(replace(schedule, dependencies=np.zeros((0, 2), np.int64)), PACKETS, says)
    refused(schedule, OpticalAverager(ranks=RANKS), says)
    check_folding(
        replace(schedule, folding=None, dependencies=np.zeros((0, 2), np.int64)), OpticalAverager(ranks=RANKS)
    )


def test_pieces_divide_the_chunks_and_end_within_the_steps() -> None:
    plain = on_packets(Folding.alike(RANKS, 1))
    for pieces in range(-1, 6):
        for interval in range(-1, 4):
            for steps in (1, (pieces - 1) * interval, (pieces - 1) * interval + 1, 20):
                schedule = replace(plain, pipeline=Pipeline(pieces, interval), steps=steps)
                if pieces < 1 or interval < 1 or RANKS % pieces:
                    says = f"^12 chunks in {pieces} pieces, {interval} steps apart: expected a divisor of the chunks"
                elif steps <= (pieces - 1) * interval:
                    says = f"^{pieces} pieces, {interval} steps apart, do not end in {steps} steps$"
                else:
                    one = first_piece(schedule, PACKETS)
                    assert (one.pipeline, one.steps) == (None, steps - (pieces - 1) * interval)
                    assert one.chunks * pieces == RANKS
                    continue
                with pytest.raises(VerificationError, match=says):
                    first_piece(schedule, PACKETS)


def test_only_packets_in_order_of_steps_follow_each_other_in_pieces() -> None:
    schedule = on_packets(Folding.alike(RANKS, 1), pipeline=Pipeline(2, 1), steps=20)
    ordered = replace(schedule, dependencies=np.zeros((0, 2), np.int64))
    for wrong, fabric in (
        (schedule, wdm_ring(RANKS, 4)),
        (replace(schedule, queued=True), PACKETS),
        (ordered, PACKETS),
    ):
        with pytest.raises(VerificationError, match=r"^only steps in order, of packets, can be a pipeline"):
            first_piece(wrong, fabric)
        alone = replace(wrong, pipeline=None)
        assert first_piece(alone, fabric) is alone
