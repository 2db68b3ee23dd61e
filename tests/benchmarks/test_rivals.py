"""Schedules rebuilt from what other tools publish."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.rivals.breadth_first import breadth_first
from benchmarks.rivals.fabrics import Case, Links
from benchmarks.rivals.spread import Spread, fastest

from lightloom.collectives.bounds.lower_bound import lower_bound
from lightloom.collectives.collective import Collective
from lightloom.core.errors import VerificationError
from lightloom.machines.fabrics.grids import Torus

RING = Links(
    np.arange(6).repeat(2), np.stack([np.arange(1, 7) % 6, np.arange(-1, 5) % 6], 1).ravel(), np.zeros(12, np.int64)
)
CASE = Case("ring", Torus(ranks=6, rows=1, bandwidth=1e9, hop_latency=1e-6), RING)


def test_breadth_first_takes_shortest_ways_and_splits_what_is_opposite() -> None:
    """A share t links away arrives in step t, from both sides where both are as near, half of it each."""
    spread = breadth_first(RING, 6, 2)
    away = np.abs((spread.destination - spread.chunk // 2 + 3) % 6 - 3)
    assert np.array_equal(spread.step, away - 1)
    opposite = spread.source[away == 3], spread.destination[away == 3]
    assert set(zip(*(column.tolist() for column in opposite), strict=True)) == set(
        zip(RING.source.tolist(), RING.destination.tolist(), strict=True)
    )


def test_rivals_are_verified_and_never_beat_the_bound() -> None:
    """A spread is timed at or above its bound, as an all-gather and backwards, and refused if one send is missing."""
    spread = breadth_first(RING, 6, 2)
    for kind in ("all-gather", "reduce-scatter", "all-reduce"):
        wanted = Collective(kind, 6, 6e4)
        assert fastest(spread, wanted, CASE) >= lower_bound(wanted, CASE.fabric).time * (1 - 1e-12)
    step, source, destination, chunk = (column[1:] for column in spread[:4])
    short = Spread(step, source, destination, chunk, spread.pieces, spread.cpu_s)
    with pytest.raises(VerificationError):
        fastest(short, Collective("all-gather", 6, 6e4), CASE)
