"""What the verifier of queued schedules refuses by itself, held against trying everything in plain loops."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lightloom.collectives.collective import Collective
from lightloom.collectives.schedule.columns import Folding, Schedule
from lightloom.collectives.verify import verifier
from lightloom.core.errors import VerificationError
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.optical_averager import OpticalAverager
from lightloom.machines.fabrics.wdm_ring import Ring
from tests.collectives.queued_reference import chained
from tests.collectives.strategies import wdm_ring
from tests.collectives.verify.test_check_laws import RANKS, of_rows

CHANNELS = 4
placed = st.lists(
    st.tuples(st.integers(0, RANKS - 1), st.integers(1, 3), *[st.integers(-1, CHANNELS)] * 2),
    min_size=1,
    max_size=4,
)
"""Source, width, and the first channel in either copy, of lightpaths to the next rank."""


@settings(max_examples=40, deadline=None)
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
        verifier._check_queued_channels(schedule, fabric, number)
        return
    with pytest.raises(VerificationError, match=says):
        verifier._check_queued_channels(schedule, fabric, number)


def without(schedule: Schedule, *rows: int) -> Schedule:
    kept = np.setdiff1d(np.arange(len(schedule)), rows)
    return schedule.with_columns({name: column[kept] for name, column in schedule.columns().items()})


def with_row(schedule: Schedule, row: int, **changed: int) -> Schedule:
    """One row more: this one on a lightpath of its own, with other values, behind all others."""
    own = {"lightpath": int(schedule.lightpath.max()) + 1, "step": schedule.steps - 1} | changed
    columns = schedule.columns().items()
    return schedule.with_columns({name: np.append(column, own.get(name, column[row])) for name, column in columns})


def refused(schedule: Schedule, fabric: Fabric, says: str) -> None:
    with pytest.raises(VerificationError, match=says):
        verifier._replay_queued(schedule, fabric)


@pytest.mark.parametrize("rank", range(4))
@pytest.mark.parametrize("chunk", range(2))
def test_what_a_chain_of_five_lacks_or_sends_twice_is_named(rank: int, chunk: int) -> None:
    """A row of the chain, by the rank that sends it or adds it and its chunk."""
    fabric, row, last = wdm_ring(5, 8), 2 * rank + chunk, rank == 3
    down, up = chained("broadcast", 5, 2, 1e4), chained("reduce", 5, 2, 1e4)
    for schedule in (down, up):
        verifier._replay_queued(schedule, fabric)
    never = "is never sent: its source waits for something that does not come$"
    refused(without(down, row), fabric, f"rank 4 does not end with the complete chunk {chunk}$" if last else never)
    verifier._replay_queued(down, Ring(ranks=5))
    if not last:
        refused(without(down, row), Ring(ranks=5), never.removesuffix("$") + " before it$")
    refused(without(up, row), fabric, f"rank 0 does not end with the complete chunk {chunk}$")
    twice = r"\(row 8\): .*arrives where the chunk is already held, or was already sent on$"
    refused(with_row(down, row), Ring(ranks=5), twice)
    refused(with_row(up, row), fabric, "the source has already given away its part of this sum$")
    stores = up.reduces.copy()
    stores[row] = False
    refused(up.with_columns({"reduces": stores}), fabric, f"^row {row}: a reduce must add$")


def test_neither_sums_in_the_network_nor_steps_that_depend_on_each_other_are_queued() -> None:
    down = chained("broadcast", 5, 2, 1e4)
    with pytest.raises(VerificationError, match=r"sends from rank to rank, and this fabric reduces in the network$"):
        verifier.verify_queued(down, OpticalAverager(ranks=5))
    with pytest.raises(VerificationError, match=r"no steps that could depend on each other$"):
        verifier.verify_queued(replace(down, dependencies=np.zeros((0, 2), np.int64)), wdm_ring(5, 8))
    verifier.verify_queued(down, wdm_ring(5, 8))


@pytest.mark.parametrize(("ranks", "block"), [(4, 1), (6, 1), (6, 3)])
def test_parts_of_an_all_to_all_begin_at_their_owners_and_end_at_their_readers(ranks: int, block: int) -> None:
    """Of the ranks of the first period alone, whichever divides the ranks."""
    chunks = ranks**2 * block
    schedule: Any = SimpleNamespace(collective=Collective("all-to-all", ranks, 1e4), chunks=chunks)
    chunk = np.arange(chunks)
    for period in (each for each in range(1, ranks + 1) if ranks % each == 0):
        cells = verifier._ends_of_parts(schedule, period)
        for found, holder in zip(cells, (chunk // (ranks * block), chunk // block % ranks), strict=True):
            expected = [rank * chunks + own for rank in range(period) for own in chunk[holder == rank].tolist()]
            assert sorted(found.tolist()) == expected
