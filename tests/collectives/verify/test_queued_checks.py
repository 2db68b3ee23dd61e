"""What the verifier of queued schedules refuses by itself, held against trying everything in plain loops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lightloom.collectives.schedule.columns import Folding
from lightloom.collectives.verify import queued
from lightloom.core.errors import VerificationError
from tests.collectives.strategies import wdm_ring
from tests.collectives.verify.test_check_laws import RANKS, of_rows

CHANNELS = 4
placed = st.lists(
    st.tuples(st.integers(0, RANKS - 1), st.integers(1, 3), *[st.integers(-1, CHANNELS)] * 2),
    min_size=1,
    max_size=4,
)
"""Source, width, and the first channel in either copy, of lightpaths to the next rank."""


@settings(max_examples=80)
@given(placed)
@example([(0, 3, 1, 0), (2, 1, 0, 4)])
@example([(0, 1, 3, 3), (2, 2, 2, 3), (4, 1, -1, 0)])
@example([(0, 1, 0, 1), (0, 2, 1, 3)])
@example([(0, 2, 0, 0), (4, 2, 1, 2)])
def test_the_first_lightpath_outside_of_the_channels_is_named_or_else_one_that_clashes(
    paths: list[tuple[int, int, int, int]],
) -> None:
    """Copies, and in them lightpaths, in order; the last channel is inside; copies are turned by half of the ring."""
    fabric = wdm_ring(RANKS, CHANNELS)
    sources, widths, *channels = map(np.array, zip(*paths, strict=True))
    number = np.arange(len(paths))
    schedule = of_rows(source=sources, destination=(sources + 1) % RANKS, lightpath=number, wavelength_count=widths)
    folding = Folding(RANKS // 2, np.array(channels, np.int32))
    schedule = replace(schedule, queued=True, folding=folding)
    outside = [
        (copy, path, first, widths[path])
        for copy, row in enumerate(channels)
        for path, first in enumerate(row.tolist())
        if first < 0 or first + widths[path] > CHANNELS
    ]
    held: set[tuple[int, int]] = set()
    clash = None
    for copy, row in enumerate(channels):
        for path, first in enumerate(row.tolist()):
            cells = {((sources[path] + copy * RANKS // 2) % RANKS, first + at) for at in range(widths[path])}
            if clash is None and held & cells:
                clash = copy, path
            held |= cells
    if outside:
        copy, path, first, width = outside[0]
        says = (
            f"^copy {copy} of lightpath {path} takes channels {first} and {width - 1} more: the fabric has {CHANNELS} a"
        )
    elif clash is not None:
        copy, path = clash
        says = rf"^rank {sources[path]}→{(sources[path] + 1) % RANKS} \(row {path}, copy {copy}\): lightpaths share"
    else:
        queued._check_channels(schedule, fabric, number)
        return
    with pytest.raises(VerificationError, match=says):
        queued._check_channels(schedule, fabric, number)
