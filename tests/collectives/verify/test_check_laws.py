"""What the verifier checks of rows and light by themselves, held against trying everything in plain loops."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import combinations, permutations
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lightloom.collectives.collective import KINDS, STORING, Collective
from lightloom.collectives.registry import build, find
from lightloom.collectives.schedule.columns import COLUMNS, Schedule
from lightloom.collectives.verify import checks
from lightloom.collectives.verify.verifier import verify, verify_light
from lightloom.core.errors import VerificationError
from lightloom.machines.fabrics.wdm_ring import WdmRing
from tests.collectives.strategies import collective_of, wdm_ring

RANKS = 8
UNORDERED = np.zeros((0, 0), np.uint8)


@cache
def ring_schedule() -> Schedule:
    """One among eight ranks, whose rows are replaced."""
    return build(find("ring"), Collective("all-gather", RANKS, 8.0), wdm_ring(RANKS, 4)).unfolded(4)


def of_rows(**columns: Any) -> Schedule:
    """A schedule of these columns; all others are 0, but for widths of 1."""
    rows = len(next(iter(columns.values())))
    default = dict.fromkeys(COLUMNS, np.zeros(rows, np.int64)) | {"wavelength_count": np.ones(rows, np.int64)}
    given = {name: np.array(column) for name, column in columns.items()}
    return ring_schedule().with_columns(default | given)


paths = st.lists(
    st.tuples(st.integers(0, RANKS - 1), st.integers(1, 3), st.lists(st.integers(0, RANKS), min_size=1, max_size=4)),
    min_size=1,
    max_size=6,
)
"""Source, width, and destinations, some of which may be served twice, of each lightpath; the last one is a switch."""


def of_paths(listed: list[tuple[int, int, list[int]]], order: list[int] | None = None) -> Schedule:
    rows = [(path, source, width, to) for path, (source, width, ends) in enumerate(listed) for to in ends]
    rows = [rows[at] for at in order] if order else rows
    path, source, width, destination = zip(*rows, strict=True)
    return of_rows(lightpath=path, source=source, wavelength_count=width, destination=destination)


@given(paths, st.randoms(use_true_random=False))
def test_every_destination_of_every_lightpath_is_looked_at_once(
    listed: list[tuple[int, int, list[int]]], random: Any
) -> None:
    rows = sum(len(ends) for _, _, ends in listed)
    schedule = of_paths(listed, random.sample(range(rows), rows))
    pairs = list(zip(schedule.lightpath.tolist(), schedule.destination.tolist(), strict=True))
    assert checks.reached(schedule).tolist() == [pairs.index(pair) for pair in sorted(set(pairs))]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_a_lightpath_holds_the_way_to_each_of_its_destinations(order: tuple[int, int, int]) -> None:
    """One serves ranks 1 and 2 from rank 0, the other rank 2 from rank 1: they share the second link."""
    rows = np.array([(0, 0, 1), (0, 0, 2), (1, 1, 2)])[list(order)]
    path, source, destination = rows.T
    shared = of_rows(lightpath=path, source=source, destination=destination)
    with pytest.raises(VerificationError, match="share wavelength 0 of fibre 0 on the clockwise link 1→2"):
        verify(shared, wdm_ring(RANKS, 4, multicast_taps=2))


@given(paths, st.integers(1, 12))
def test_transceivers_are_counted_by_lightpath_at_sources_and_by_destination_at_the_others(
    listed: list[tuple[int, int, list[int]]], transceivers: int
) -> None:
    listed = [(source, width, [end % RANKS for end in ends]) for source, width, ends in listed]
    schedule, needed = of_paths(listed), [0] * (2 * RANKS)
    for source, width, ends in listed:
        needed[source] += width
        for end in set(ends):
            needed[RANKS + end] += width
    fabric: Any = SimpleNamespace(transmitters=transceivers, ranks=RANKS)
    steps = np.zeros(len(schedule), np.int64)
    if max(needed) > transceivers:
        with pytest.raises(VerificationError, match=f"wavelengths at once: it has {transceivers} transceivers"):
            checks.transceivers(schedule, fabric, steps, UNORDERED)
    else:
        checks.transceivers(schedule, fabric, steps, UNORDERED)


@given(st.integers(1, 5), st.integers(0, 2**32 - 1), st.integers(1, 9))
def test_steps_that_nothing_orders_share_transceivers_and_those_that_follow_each_other_do_not(
    steps: int, seed: int, transceivers: int
) -> None:
    """Refused wherever such steps need more together; not where all that may run beside each step do with them."""
    rng = np.random.default_rng(seed)
    reach = np.triu(rng.random((steps, steps)) < rng.random(), 1)
    for middle in range(steps):
        reach |= reach[:, [middle]] & reach[[middle], :]
    used = rng.integers(0, 5, steps)
    step = np.flatnonzero(used)
    if not len(step):
        return
    lightpath = np.arange(len(step))
    schedule = of_rows(step=step, lightpath=lightpath, destination=1 + lightpath, wavelength_count=used[step])
    fabric: Any = SimpleNamespace(transmitters=transceivers, ranks=RANKS)
    free = ~(reach | reach.T)
    most = max(
        int(used[list(chosen)].sum())
        for size in range(1, steps + 1)
        for chosen in combinations(range(steps), size)
        if all(free[a, b] for a, b in combinations(chosen, 2))
    )
    if most > transceivers:
        with pytest.raises(VerificationError, match="rank 0 sends on"):
            checks.transceivers(schedule, fabric, step, reach.astype(np.uint8))
    elif all(used[free[at]].sum() <= transceivers for at in range(steps)):
        checks.transceivers(schedule, fabric, step, reach.astype(np.uint8))


@pytest.mark.parametrize("served", [2, 3, 5])
def test_light_is_tapped_by_as_many_ranks_as_the_fabric_allows(served: int) -> None:
    """Two chunks for one rank are one tap."""
    ends = [*range(1, served + 1), 1]
    schedule = of_rows(destination=[4, *ends], chunk=[0] * (served + 1) + [1], lightpath=[0] + [1] * (served + 1))
    schedule = schedule.with_columns({"first_wavelength": schedule.lightpath})
    verify_light(schedule, wdm_ring(RANKS, 4, multicast_taps=served))
    with pytest.raises(
        VerificationError, match=f"lightpath 1 from rank 0 serves {served} destinations: .* {served - 1}$"
    ):
        verify_light(schedule, wdm_ring(RANKS, 4, multicast_taps=served - 1))


class Broken(WdmRing):
    """A ring on which no light passes one channel of one link, and on which nothing else has failed."""

    def blocked(self) -> NDArray[np.bool_]:
        blocked = np.zeros((self.links, self.channels), np.bool_)
        blocked[2, 1] = True
        return blocked


def test_a_broken_channel_is_enough_to_refuse_light() -> None:
    fabric = Broken(ranks=RANKS, wavelengths=4)
    link = [
        int(path[0]) for path in fabric.path(np.arange(RANKS), (np.arange(RANKS) + 1) % RANKS, np.zeros(RANKS, int))
    ]
    sender = link.index(2)
    for source, channel in ((sender, 0), ((sender + 1) % RANKS, 1)):
        verify_light(of_rows(source=[source], destination=[(source + 1) % RANKS], first_wavelength=[channel]), fabric)
    with pytest.raises(VerificationError, match="no light passes wavelength 1 of fibre 0"):
        verify_light(of_rows(source=[sender], destination=[(sender + 1) % RANKS], first_wavelength=[1]), fabric)


@given(st.integers(0, 2**32 - 1), st.floats(0.0, 0.3))
@settings(max_examples=40)
def test_a_lightpath_needs_transceivers_at_both_ends_on_all_of_its_channels(seed: int, share: float) -> None:
    rng, rows, channels = np.random.default_rng(seed), 5, 6
    failed = rng.random((RANKS, 2, channels)) < share
    fabric: Any = SimpleNamespace(reach=None, blocked_ends=lambda: failed, blocked=lambda: None)
    source, destination, route = (rng.integers(0, most, rows) for most in (RANKS, RANKS, 2))
    first = rng.integers(0, channels, rows)
    count = np.array([rng.integers(1, channels - channel + 1) for channel in first])
    broken = [
        (verb, row, rank[row])
        for verb, rank in (("begin", source), ("end", destination))
        for row in range(rows)
        if failed[rank[row], route[row], first[row] : first[row] + count[row]].any()
    ]
    if broken:
        verb, row, rank = broken[0]
        with pytest.raises(VerificationError, match=f"^row {row}: no lightpath can {verb} at rank {rank} "):
            checks._check_light(fabric, source, destination, route, first, count, lambda at: f"row {at}")
    else:
        checks._check_light(fabric, source, destination, route, first, count, lambda at: f"row {at}")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ranks", [2, 3, 6])
def test_owners_have_equally_many_chunks(kind: str, ranks: int) -> None:
    collective = collective_of(kind, ranks, 6e3)
    for chunks in range(-1, 3 * collective.parts + 2):
        schedule: Any = SimpleNamespace(collective=collective, chunks=chunks, reduces=np.zeros(3, np.bool_))
        if chunks > 0 and chunks % collective.parts == 0:
            checks.shares(schedule)
        else:
            with pytest.raises(VerificationError, match=f"^{chunks} chunks cannot be shared equally"):
                checks.shares(schedule)


def test_a_row_that_adds_where_nothing_may_be_added_is_named() -> None:
    schedule, fabric = ring_schedule(), wdm_ring(RANKS, 4)
    assert schedule.collective.kind in STORING
    for row in (0, 3, len(schedule) - 1):
        adds = np.arange(len(schedule)) == row
        with pytest.raises(VerificationError, match=rf"\(row {row}\): an all-gather must not add"):
            verify(schedule.with_columns({"reduces": adds}), fabric)


def test_steps_that_wait_for_each_other_are_named_and_no_others() -> None:
    schedule, fabric = ring_schedule(), wdm_ring(RANKS, 4)
    chain = [(after, after - 1) for after in range(1, schedule.steps)]
    verify(replace(schedule, dependencies=np.array(chain)), fabric)
    with pytest.raises(VerificationError, match=rf"cycle among steps \[{', '.join(map(str, range(2, 7)))}\]"):
        verify(replace(schedule, dependencies=np.array([*chain, (2, 4)])), fabric)
    for wild in ((schedule.steps, 0), (0, schedule.steps), (-1, 0), (0, -1)):
        with pytest.raises(VerificationError, match=rf"outside 0..{schedule.steps - 1}: \[ *{wild[0]} +{wild[1]}\]"):
            verify(replace(schedule, dependencies=np.array([*chain, wild])), fabric)


@pytest.mark.parametrize("column", ["step", "source", "destination", "route", "lightpath", "fibre", "first_wavelength"])
def test_light_whose_columns_name_nothing_is_refused_whatever_it_carries(column: str) -> None:
    schedule, fabric = ring_schedule(), wdm_ring(RANKS, 4)
    verify_light(schedule, fabric)
    values = getattr(schedule, column).astype(np.int64)
    values[5] = -1
    with pytest.raises(VerificationError, match=r"\(row 5\): .*(is not in 0|do not exist)"):
        verify_light(schedule.with_columns({column: values}), fabric)
