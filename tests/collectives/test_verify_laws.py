"""Laws of the verifier: what is wrong is named whichever row, copy or channel it is in."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lightloom.collectives.collective import KINDS, Collective, Kind
from lightloom.collectives.registry import admitted, build, find
from lightloom.collectives.schedule.columns import COLUMNS, Schedule
from lightloom.collectives.verify import verifier
from lightloom.collectives.verify.verifier import _farthest, verify, verify_queued
from lightloom.core.errors import VerificationError
from lightloom.machines.fabrics.load import load_fabric
from lightloom.machines.fabrics.switches import PacketSwitch
from lightloom.machines.fabrics.wdm_ring import WdmRing
from tests.collectives.cost.reference import links, shuffled
from tests.collectives.queued_reference import exchanged
from tests.collectives.strategies import collective_of, wdm_ring

RANKS = 4
EXCHANGE = wdm_ring(RANKS, RANKS * (RANKS - 1))


def one_wavelength_each() -> Schedule:
    """Every rank sends to every other in one step, each lightpath on the wavelength of its number."""
    schedule = build(find("one-stage"), Collective("all-gather", RANKS, 4.0), EXCHANGE)
    number = np.arange(len(schedule))
    return schedule.with_columns({"lightpath": number, "first_wavelength": number, "wavelength_count": 1 + 0 * number})


@pytest.mark.parametrize("block", [1, 2, 5, 1 << 19])
def test_any_two_lightpaths_of_one_wavelength_clash_on_any_link_that_they_share(
    monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    """Whichever two they are, however far apart their rows, and in whichever blocks the verifier reads these."""
    monkeypatch.setattr(verifier, "_BLOCK", block)
    schedule = one_wavelength_each()
    verify(schedule, EXCHANGE)
    used = [set(row) for row in links(schedule, EXCHANGE)]
    pairs = list(combinations(range(len(schedule)), 2))
    assert any(used[a] & used[b] for a, b in pairs) and any(not used[a] & used[b] for a, b in pairs)
    for first, second in pairs:
        wavelength = schedule.first_wavelength.copy()
        wavelength[second] = first
        shared = schedule.with_columns({"first_wavelength": wavelength})
        if used[first] & used[second]:
            names = rf"\(row {second}\): lightpaths {second} and {first} share wavelength {first} of fibre 0"
            with pytest.raises(VerificationError, match=names):
                verify(shared, EXCHANGE)
        else:
            verify(shared, EXCHANGE)


@pytest.mark.parametrize("column", ["step", "source", "route", "fibre", "first_wavelength", "wavelength_count"])
def test_every_row_of_a_lightpath_agrees_with_its_first_in_every_column(column: str) -> None:
    fabric = wdm_ring(4, 4, fibres=2)
    schedule = build(find("ring"), Collective("all-gather", 4, 8.0), fabric).unfolded(4)
    assert len(schedule) == 12 and schedule.steps == 3
    doubled = schedule.with_columns(
        {name: np.repeat(values, 2) for name, values in schedule.columns().items()}
        | {"chunk": np.repeat(2 * schedule.chunk, 2) + np.tile([0, 1], 12), "wavelength_count": np.full(24, 2)}
    )
    doubled = replace(doubled, chunks=2 * schedule.chunks)
    verify(doubled, fabric)
    for row in range(1, 24, 2):
        values = getattr(doubled, column).copy()
        others = {"source": (int(doubled.destination[row]) + 1) % 4, "wavelength_count": 1}
        values[row] = others.get(column, (int(values[row]) + 1) % {"step": 3, "route": 2, "fibre": 2}.get(column, 3))
        if values[row] == getattr(doubled, column)[row]:
            values[row] = (values[row] + 1) % 4
        path = doubled.lightpath[row]
        with pytest.raises(VerificationError, match=rf"\(row {row}\): lightpath {path} breaks continuity: {column} "):
            verify(doubled.with_columns({column: values}), fabric)


@pytest.mark.parametrize("column", ["step", "source", "destination", "chunk", "route", "lightpath"])
def test_a_value_outside_its_range_is_named_in_every_row(column: str) -> None:
    schedule = one_wavelength_each()
    limits = {"step": 1, "chunk": schedule.chunks, "route": 2, "lightpath": 2 * len(schedule) + 1}
    limit = limits.get(column, RANKS)
    for row in range(len(schedule)):
        for wrong in (-1, limit):
            values = getattr(schedule, column).astype(np.int64)
            values[row] = wrong
            says = rf"\(row {row}\): {column} {wrong} is not in 0\.\.{limit - 1}"
            with pytest.raises(VerificationError, match=says):
                verify(schedule.with_columns({column: values}), EXCHANGE)


@pytest.mark.parametrize(
    ("column", "wrong"),
    [("fibre", -1), ("fibre", 2), ("first_wavelength", -1), ("first_wavelength", 6), ("wavelength_count", 0)],
)
def test_a_channel_that_does_not_exist_is_named_in_every_row(column: str, wrong: int) -> None:
    """Of twelve channels, six in each of two fibres, one for each lightpath."""
    fabric, whole = wdm_ring(RANKS, 6, fibres=2), one_wavelength_each()
    schedule = whole.with_columns({"fibre": whole.lightpath // 6, "first_wavelength": whole.lightpath % 6})
    verify(schedule, fabric)
    for row in range(len(schedule)):
        values = getattr(schedule, column).copy()
        values[row] = wrong
        with pytest.raises(
            VerificationError, match=rf"\(row {row}\): fibre .* do not exist: the fabric has 12 channels"
        ):
            verify(schedule.with_columns({column: values}), fabric)


@pytest.mark.parametrize("kind", ["switch", "ring", "wdm-ring", "torus", "circuit-switch"])
def test_the_order_in_which_rows_are_listed_proves_nothing(kind: str) -> None:
    fabric = load_fabric(kind, 6)
    for what in KINDS:
        for algorithm in admitted(what, fabric):
            if algorithm.by_size:
                continue  # queued: the order of rows is that of their places
            schedule = build(algorithm, collective_of(what, 6, 6e3), fabric)
            verify(shuffled(schedule, list(reversed(range(len(schedule))))), fabric)


@pytest.mark.long
@pytest.mark.parametrize("ranks", [4, 4_200])
def test_sums_in_the_network_are_replayed_step_by_step_however_they_are_listed(ranks: int) -> None:
    """Two ranks send to the averager in one step and the others in the next, after which it sends the sum to all.

    Of 4,200 ranks contributions are replayed in two parts, of which neither may be sent before it came.
    """
    fabric = load_fabric("optical-averager", ranks)
    schedule = build(find("in-network"), Collective("all-reduce", ranks, 4e3), fabric)
    late = (schedule.source != 0) & (schedule.source != 1)
    halves = replace(schedule, steps=2, step=late.astype(schedule.step.dtype))
    verify(halves, fabric)
    verify(shuffled(halves, list(reversed(range(len(halves))))), fabric)
    early = np.where(schedule.source == ranks, 0, 1).astype(schedule.step.dtype)
    with pytest.raises(VerificationError, match=f"rank {ranks} has nothing of the chunk to send"):
        verify(replace(schedule, steps=2, step=early), fabric)


def test_every_copy_of_a_folded_schedule_keeps_within_the_channels() -> None:
    """A lightpath of w wavelengths begins at the last channel but w - 1 at the latest, whichever copy it is in."""
    folded, fabric = exchanged(6, 1, 2, 1e4), wdm_ring(6, 8)
    verify(folded, fabric)
    folding = folded.folding
    assert folding is not None and folding.copies == 3
    for width in (1, 3):
        wide = folded.with_columns({"wavelength_count": np.full(len(folded), width)})
        for copy in (1, 2):
            for path in range(folding.channel.shape[1]):
                for wrong in (-1, 8 - width + 1, 8, 9):
                    channel = folding.channel.copy()
                    channel[:] = 0
                    channel[copy, path] = wrong
                    moved = replace(
                        wide,
                        folding=replace(folding, channel=channel),
                        first_wavelength=np.zeros_like(folded.first_wavelength),
                    )
                    says = f"copy {copy} of lightpath {path} takes channels {wrong} and {width - 1} more: the fabric"
                    with pytest.raises(VerificationError, match=says):
                        verify(moved, fabric)
                    channel[copy:, path:] = wrong
                    with pytest.raises(VerificationError, match=says):
                        verify(moved, fabric)


def test_lightpaths_of_any_two_copies_clash_where_they_share_a_channel_of_a_link() -> None:
    folded, fabric = exchanged(6, 1, 2, 1e4), wdm_ring(6, 8)
    folding = folded.folding
    assert folding is not None and not folding.channel.any()
    paths = [int(np.flatnonzero(folded.lightpath == path)[0]) for path in range(folding.channel.shape[1])]

    def used(copy: int, path: int) -> set[int]:
        source, destination, route = folded.ends(np.array([paths[path]]))
        begin, end = (folding.moved(rank, np.array([copy])) for rank in (source, destination))
        return {link for link in fabric.path(begin, end, route).ravel().tolist() if link >= 0}

    # Each copy has a channel of its own, and then one lightpath of a copy takes two that reach into another's.
    for copy, other in ((1, 2), (2, 1), (1, 0), (2, 0)):
        for path in range(len(paths)):
            channel = folding.channel + 2 * np.arange(3, dtype=np.int32)[:, None]
            wide = folded.with_columns({"wavelength_count": np.full(len(folded), 2)})
            channel[copy, path] = 2 * other + 1
            moved = replace(wide, folding=replace(folding, channel=channel))
            if any(
                used(copy, path) & used(at, p)
                for at in (other, other + 1)
                for p in range(len(paths))
                if at != copy and at < 3
            ):
                with pytest.raises(VerificationError, match="lightpaths share wavelength"):
                    verify(moved, fabric)
            else:
                verify(moved, fabric)


def test_queues_are_refused_where_light_does_not_pass_or_the_network_adds() -> None:
    queued = exchanged(6, 1, 2, 1e4)
    failed = EndsAlone(ranks=6, wavelengths=3)
    verify(queued, EndsAlone(ranks=6, wavelengths=8))
    channel = np.full((3, 4), 2, np.int32)
    folding = queued.folding
    assert folding is not None
    broken = replace(queued, folding=replace(folding, channel=channel)).with_columns(
        {"first_wavelength": 2 + 0 * queued.step}
    )
    verify(broken, wdm_ring(6, 3))
    with pytest.raises(VerificationError, match=r"at rank 3 .* its transceiver has failed"):
        verify(broken, failed)
    with pytest.raises(VerificationError, match="no steps that could depend on each other"):
        verify(replace(queued, dependencies=np.array([(1, 0)])), wdm_ring(6, 8))
    with pytest.raises(VerificationError, match="this fabric reduces in the network"):
        verify_queued(queued, load_fabric("optical-averager", 6))


def test_transceivers_serve_one_step_after_another_but_all_that_nothing_orders_at_once() -> None:
    schedule = one_wavelength_each()
    step = ((schedule.destination - schedule.source) % RANKS - 1).astype(schedule.step.dtype)
    spread = replace(schedule, steps=3, step=step)
    fabric = wdm_ring(RANKS, 12, transceivers=2)
    verify(spread, fabric)
    verify(replace(spread, dependencies=np.array([(1, 0), (2, 1)])), fabric)
    verify(replace(spread, dependencies=np.array([(0, 2), (1, 0)])), fabric)
    together = replace(spread, dependencies=np.zeros((0, 2), np.int64))
    verify(together, wdm_ring(RANKS, 12, transceivers=3))
    with pytest.raises(VerificationError, match=r"rank 0 sends on 3 wavelengths at once: it has 2 transceivers"):
        verify(together, fabric)
    # Two steps wait for the first one, and not for each other.
    with pytest.raises(VerificationError, match=r"rank 0 sends on 2 wavelengths at once: it has 1 transceivers"):
        verify(replace(spread, dependencies=np.array([(1, 0), (2, 0)])), wdm_ring(RANKS, 12, transceivers=1))


def test_of_two_chains_that_nothing_orders_one_step_of_each_runs_at_once_at_every_rank() -> None:
    """Steps 0 and 1 follow each other, and 2 and 3; rank 0 sends to two ranks in step 0, the others once in each."""
    schedule = one_wavelength_each()
    step = np.array([[9, 0, 0, 1], [0, 9, 2, 3], [3, 2, 9, 0], [2, 3, 1, 9]])[schedule.source, schedule.destination]
    chains = replace(schedule, steps=4, step=step, dependencies=np.array([(1, 0), (3, 2)]))
    verify(chains, wdm_ring(RANKS, 12, transceivers=2))
    with pytest.raises(VerificationError, match=r"wavelengths at once: it has 1 transceivers"):
        verify(chains, wdm_ring(RANKS, 12, transceivers=1))
    with pytest.raises(VerificationError, match=r"rank 0 sends on 3 wavelengths at once"):
        verify(replace(chains, step=np.where(step == 1, 2, step)), wdm_ring(RANKS, 12, transceivers=2))


@cache
def any_schedule() -> Schedule:
    """One among eight ranks, whose rows are replaced."""
    return build(find("ring"), Collective("all-gather", 8, 8.0), wdm_ring(8, 4)).unfolded(4)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 7)), min_size=1, max_size=9), st.integers(1, 2))
def test_of_every_lightpath_the_row_that_goes_farthest_is_looked_at(rows: list[tuple[int, int]], routes: int) -> None:
    """Whichever lightpath is the last, and in whatever order its destinations are listed."""
    fabric, (used, path) = wdm_ring(8, 4), np.unique([path for path, _ in rows], return_inverse=True)
    zeros = np.zeros(len(rows), np.int64)
    columns = dict.fromkeys(COLUMNS, zeros) | {"destination": [to for _, to in rows], "lightpath": path}
    schedule = any_schedule().with_columns(columns | {"route": zeros + routes - 1})
    hops = fabric.hops(*schedule.ends(slice(None)))
    farthest = _farthest(schedule, fabric)
    assert schedule.lightpath[farthest].tolist() == list(range(len(used)))
    assert hops[farthest].tolist() == [hops[path == number].max() for number in range(len(used))]


class EndsAlone(WdmRing):
    """A fabric on which light ends nowhere on one channel of rank 3, and of which nothing else has failed."""

    def blocked_ends(self) -> NDArray[np.bool_]:
        blocked = np.zeros((self.ranks, self.routes, self.channels), np.bool_)
        blocked[3, :, 2] = True
        return blocked


def test_a_failed_transceiver_is_enough_to_refuse_light() -> None:
    whole = wdm_ring(8, 4)
    schedule = build(find("ring-two-way-striped"), Collective("all-gather", 8, 8.0), whole)
    with pytest.raises(VerificationError, match=r"can (begin|end) at rank 3 .* its transceiver has failed"):
        verify(schedule, EndsAlone(ranks=8, wavelengths=4))
    verify(build(find("ring"), Collective("all-gather", 8, 8.0), wdm_ring(8, 2)), EndsAlone(ranks=8, wavelengths=4))


def at_odds(schedule: Schedule) -> set[tuple[int, int]]:
    """Steps, the later one first, of which one writes what the other reads or writes, by trying all pairs of rows."""
    rows = list(zip(schedule.step, schedule.source, schedule.destination, schedule.chunk, strict=True))
    return {
        (int(after), int(before))
        for before, reads, writes, chunk in rows
        for after, source, destination, other in rows
        if before < after and chunk == other and (writes in (source, destination) or reads == destination)
    }


def leads(edges: set[tuple[int, int]], after: int, before: int) -> bool:
    """Whether one step comes after another by way of any of these."""
    return after == before or any(leads(edges, middle, before) for late, middle in edges if late == after)


ADD, STORE = True, False
SUMS = (0, 0, 1, ADD), (0, 2, 1, ADD)
"""Rank 1 adds up all of three ranks."""
READ_TWICE = (
    *((0, 0, 1, ADD), (1, 3, 2, ADD), (2, 1, 2, ADD), (3, 1, 3, ADD)),
    *((4, 2, 1, STORE), (5, 2, 0, STORE), (6, 2, 3, STORE)),
)
"""Rank 1 sends its part of the sum to two others before it has all of it."""


def in_steps(ranks: int, *sends: tuple[int, int, int, bool]) -> Schedule:
    """An all-reduce of one chunk by rows (step, source, destination, adds), each on a lightpath of its own."""
    collective, fabric = Collective("all-reduce", ranks, 8.0), PacketSwitch(ranks=ranks)
    schedule = build(find("worker-aggregator"), collective, fabric).unfolded(1)
    step, source, destination, reduces = (np.array(column) for column in zip(*sends, strict=True))
    columns = {name: np.zeros(len(sends), np.int64) for name in COLUMNS}
    columns |= {"step": step, "source": source, "destination": destination, "reduces": reduces}
    columns |= {"lightpath": np.arange(len(sends)), "wavelength_count": np.ones(len(sends), np.int64)}
    return schedule.with_columns(columns, steps=int(step.max()) + 1)


def of_five(kind: Kind, algorithm: str) -> Schedule:
    return build(find(algorithm), Collective(kind, 5, 5.0), PacketSwitch(ranks=5)).unfolded(1)


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize(
    "schedule",
    [
        of_five("all-gather", "ring"),
        of_five("all-gather", "binomial-tree"),
        of_five("reduce-scatter", "recursive-doubling"),
        of_five("reduce", "ring-two-way"),
        of_five("all-reduce", "ring"),
        of_five("all-reduce", "recursive-doubling"),
        of_five("all-reduce", "halving-doubling"),
        of_five("all-reduce", "binomial-tree"),
        in_steps(4, *READ_TWICE),
    ],
    ids=lambda schedule: f"{schedule.collective.kind}-{schedule.algorithm}",
)
def test_steps_need_no_order_but_that_of_their_data_and_all_of_that(schedule: Schedule, backward: bool) -> None:
    """A step that reads or writes what another writes, or writes what it reads, must come after it, by way of any.

    Numbers of steps mean nothing beside dependencies, so that they may as well run backward.
    """
    fabric = PacketSwitch(ranks=schedule.collective.ranks)
    last = schedule.steps - 1

    def check(dependencies: set[tuple[int, int]]) -> None:
        pairs = np.array(sorted(dependencies)).reshape(-1, 2)
        if backward:
            turned = schedule.with_columns({"step": last - schedule.step})
            verify(replace(turned, dependencies=last - pairs), fabric)
        else:
            verify(replace(schedule, dependencies=pairs), fabric)

    needed = at_odds(schedule)
    check(needed)
    for pair in needed:
        if leads(needed - {pair}, *pair):
            check(needed - {pair})
        else:
            with pytest.raises(VerificationError):
                check(needed - {pair})


@pytest.mark.parametrize("backward", [False, True], ids=["as listed", "backward"])
def test_of_two_sends_to_a_rank_in_one_step_both_must_add(backward: bool) -> None:
    """Rank 1 stores the sum at rank 2, and in the same step rank 0 stores it there too, or adds its own part."""
    fabric = PacketSwitch(ranks=3)
    verify(in_steps(3, *SUMS, (1, 1, 0, STORE), (2, 1, 2, STORE)), fabric)
    complete_at_both = [(1, 1, 0, STORE), (2, 1, 2, STORE), (2, 0, 2, STORE)]
    for sends in (complete_at_both, [(1, 1, 2, STORE), (1, 0, 2, ADD), (2, 1, 0, STORE)]):
        with pytest.raises(VerificationError, match="two sends of one step that do not both add"):
            verify(in_steps(3, *SUMS, *(sends[::-1] if backward else sends)), fabric)
