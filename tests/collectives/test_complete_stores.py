"""What is stored over something held must be complete: a rank's own contribution is counted from the rank itself."""

from __future__ import annotations

import numpy as np
import pytest

from lightloom.collectives.collective import Collective, Kind
from lightloom.collectives.schedule.columns import Folding, Schedule
from lightloom.collectives.verify.verifier import verify
from lightloom.core.errors import VerificationError
from lightloom.machines.fabrics.switches import PacketSwitch
from tests.collectives.reference import data_arrives

RANKS = 3
COMPLETE = ((0, 1, 0, True), (1, 0, 2, True), (2, 2, 0, False), (2, 2, 1, False))
"""Step, source, destination and whether it adds, of the chunk that rank 0 owns: 1 sends to 0, 0 to 2, 2 to all."""
INCOMPLETE = ((0, 1, 0, True), (1, 0, 1, False), (2, 1, 2, True), (3, 2, 0, False), (3, 2, 1, False))
"""Rank 0 sends its sum with rank 1 back to rank 1, which stores it over what it holds and sends it on to rank 2."""


def rotated(rows: tuple[tuple[int, int, int, bool], ...], kind: Kind, *, folded: bool) -> Schedule:
    """The rows of every chunk, those of chunk c turned by c ranks; folded, those that ranks of one period send."""
    step, source, destination, chunk, adds = zip(
        *(
            (step, (source + turn) % RANKS, (destination + turn) % RANKS, turn, adds)
            for step, source, destination, adds in rows
            for turn in range(RANKS)
            if not folded or (source + turn) % RANKS == 0
        ),
        strict=True,
    )
    none = np.zeros(len(step), np.int32)
    return Schedule(
        algorithm="by hand",
        collective=Collective(kind, RANKS, 3e3),
        chunks=RANKS,
        steps=max(step) + 1,
        step=np.array(step),
        lightpath=np.arange(len(step)),
        source=np.array(source),
        destination=np.array(destination),
        route=none,
        fibre=none,
        first_wavelength=none,
        wavelength_count=none,
        chunk=np.array(chunk),
        reduces=np.array(adds),
        folding=Folding(1, np.zeros((RANKS, 0), np.int32)) if folded else None,
    )


@pytest.mark.parametrize("kind", ["all-reduce", "reduce-scatter"])
@pytest.mark.parametrize("folded", [False, True])
def test_an_incomplete_sum_is_not_stored_over_what_is_held(kind: Kind, folded: bool) -> None:
    fabric = PacketSwitch(ranks=RANKS)
    complete = rotated(COMPLETE, kind, folded=folded)
    verify(complete, fabric)
    assert data_arrives(complete.unfolded(1))
    incomplete = rotated(INCOMPLETE, kind, folded=folded)
    assert not data_arrives(incomplete.unfolded(1))
    with pytest.raises(VerificationError, match=r"rank \d stores a sum that is not complete over what it holds"):
        verify(incomplete, fabric)
