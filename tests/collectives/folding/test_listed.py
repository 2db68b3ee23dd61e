"""Rows that carry lists of chunks: they say what the rows of single chunks say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lightloom.collectives.algorithms.optree import optree, stage_steps
from lightloom.collectives.collective import FROM_ALL_GATHER, Collective, Kind
from lightloom.collectives.cost.loads import PacketLoads, step_loads
from lightloom.collectives.cost.stepped import cost, straggling
from lightloom.collectives.files.document import read_schedule, write_schedule
from lightloom.collectives.registry import find
from lightloom.collectives.schedule.columns import ChunkLists, Folding, Pipeline, Schedule
from lightloom.collectives.verify import checks as listed_rows
from lightloom.collectives.verify.checks import check_lists
from lightloom.collectives.verify.verifier import verify
from lightloom.core.errors import ConfigError, VerificationError
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.wdm_ring import Ring
from tests.collectives.folding.twins import check_twins, mutated_columns, refused, same
from tests.collectives.strategies import collective_of, wdm_ring

QUICK = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def trees(draw: st.DrawFn, largest: int = 24) -> tuple[Schedule, Fabric]:
    """OpTree on a ring, its radices those of the search or any others."""
    ranks = draw(st.integers(2, largest))
    fabric = wdm_ring(ranks, draw(st.integers(1, 9)), fibres=draw(st.integers(1, 2)))
    fabric = fabric.model_copy(update={"energy_per_bit": 3e-12})
    radices, left = [], ranks
    while left > 1:
        radices.append(draw(st.integers(2, left)))
        left = -(-left // radices[-1])
    kind: Kind = draw(st.sampled_from(FROM_ALL_GATHER))
    collective = Collective(kind, ranks, draw(st.floats(1.0, 1e9)))
    chosen = draw(st.sampled_from([None, tuple(radices)]))
    return optree(collective, fabric, striped=draw(st.booleans()), radices=chosen), fabric


@QUICK
@given(trees())
def test_lists_cost_what_rows_of_single_chunks_cost(job: tuple[Schedule, Fabric]) -> None:
    schedule, fabric = job
    twin = schedule.unfolded(fabric.fibre_channels)
    ranks = fabric.ranks
    assert twin.lists is None
    assert len(twin) == ranks * (ranks - 1) * (2 if schedule.collective.kind == "all-reduce" else 1)
    check_twins(schedule, twin, fabric)
    later = [straggling(rows, fabric, late=1e-3).later for rows in (schedule, twin)]
    assert later[0] == pytest.approx(later[1], rel=1e-12)


@settings(QUICK, max_examples=250)
@given(trees(largest=9), st.data())
def test_mutants_of_lists_are_refused_as_those_of_single_chunks_are(
    job: tuple[Schedule, Fabric], data: st.DataObject
) -> None:
    schedule, fabric = job
    lists = schedule.lists
    assert lists is not None
    columns = data.draw(mutated_columns(schedule, fabric, len(lists), 0))
    held = {name: getattr(lists, name).copy() for name in ("chunks", "first", "count")}
    if data.draw(st.booleans()):
        entry, number = (data.draw(st.integers(0, len(held[name]) - 1)) for name in ("chunks", "first"))
        held["chunks"][entry] = data.draw(st.integers(0, schedule.chunks - 1))
        held["count"][number] = data.draw(st.integers(1, len(held["chunks"]) - held["first"][number]))
    mutant = schedule.with_columns(columns, lists=ChunkLists(**held))
    assert refused(mutant, fabric) == refused(mutant.unfolded(fabric.fibre_channels), fabric)


def test_chunks_are_replayed_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = wdm_ring(20, 3)
    for kind in FROM_ALL_GATHER:
        schedule = optree(Collective(kind, 20, 1e6), fabric)
        monkeypatch.setattr(listed_rows, "_AT_ONCE", 50)
        blocks = list(listed_rows.rows_by_chunk(schedule, np.arange(len(schedule)), 20))
        assert len(blocks) > 5 and sum(len(rows) for _, rows, _ in blocks) == schedule.carried.sum()
        verify(schedule, fabric)
        lists = schedule.lists
        assert lists is not None
        chunks = lists.chunks.copy()
        chunks[-1] = (chunks[-1] + 1) % 20
        broken = schedule.with_columns({}, lists=replace(lists, chunks=chunks))
        with pytest.raises(VerificationError, match="chunk"):
            verify(broken, fabric)
        assert refused(broken.unfolded(3), fabric)


def test_lists_that_do_not_exist_are_named() -> None:
    fabric = wdm_ring(8, 4)
    schedule = optree(Collective("all-gather", 8, 1e6), fabric, radices=(2, 4))
    lists = schedule.lists
    assert lists is not None
    for name, value, says in (
        ("chunks", 8, r"entry 1 of the lists: chunk 8 is not in 0\.\.7"),
        ("first", -1, r"list 1 has \d chunks from entry -1 on"),
        ("count", 0, "list 1 has 0 chunks"),
        ("count", 2**31 - 1, "expected 1 or more of"),
    ):
        column = getattr(lists, name).copy()
        column[1] = value
        with pytest.raises(VerificationError, match=says):
            verify(schedule.with_columns({}, lists=replace(lists, **{name: column})), fabric)
    for changed in ({"count": lists.count[:-1]}, {"chunks": lists.chunks[:, None]}):
        with pytest.raises(VerificationError, match=r"lists begin at \(\d+,\) places with \(\d+,\) counts of chunks"):
            check_lists(schedule.with_columns({}, lists=replace(lists, **changed)))
    number = schedule.chunk.copy()
    number[3] = len(lists)
    with pytest.raises(VerificationError, match=rf"list {len(lists)} of chunks \(row 3\): chunk {len(lists)} is not"):
        verify(schedule.with_columns({"chunk": number}), fabric)
    sized = collective_of("reduce-scatter-v", 8, 8e3)
    for other in (
        replace(schedule, queued=True),
        replace(schedule, folding=Folding.alike(8, 8)),
        replace(schedule, pipeline=Pipeline(1, 1)),
        replace(schedule, collective=sized),
    ):
        with pytest.raises(VerificationError, match="carry lists of chunks: unfold the schedule"):
            check_lists(other)
    for other in (replace(schedule, queued=True), replace(schedule, folding=Folding.alike(8, 8))):
        with pytest.raises(VerificationError, match="carry lists of chunks: unfold the schedule"):
            verify(other, fabric)


@pytest.mark.parametrize("name", ["lists.json", "lists.arrow", "lists.parquet"])
def test_files_keep_lists(tmp_path: Path, name: str) -> None:
    if name != "lists.json":
        pytest.importorskip("pyarrow")
    fabric = wdm_ring(12, 3)
    schedule = optree(Collective("all-reduce", 12, 1e6), fabric)
    write_schedule(tmp_path / name, schedule, fabric)
    again, _ = read_schedule(tmp_path / name)
    assert again.lists is not None and schedule.lists is not None
    for column in ("chunks", "first", "count"):
        assert np.array_equal(getattr(again.lists, column), getattr(schedule.lists, column))
    verify(again, fabric)
    assert same(cost(again, fabric), cost(schedule, fabric))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"first":[', '"first":[0,', "lists.first has"),
        ('"first":[', '"first":[999999,', "lists.first has"),
        ('"count":[', '"count":[0,', "count"),
        ('"chunk": [', '"chunk": [999,', "columns.chunk"),
    ],
)
def test_files_with_wild_lists_are_refused(tmp_path: Path, old: str, new: str, says: str) -> None:
    fabric = wdm_ring(12, 3)
    path = tmp_path / "lists.json"
    write_schedule(path, optree(Collective("all-gather", 12, 1e6), fabric), fabric)
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ConfigError, match=says):
        read_schedule(path)


@pytest.mark.parametrize("radices", [None, (2, 3, 2), (3, 4), (4, 3)])
def test_a_packet_fabric_carries_lists_too(radices: tuple[int, ...] | None) -> None:
    """Who writes lists for a fabric of packets gets the loads and the cost of their chunks."""
    circuits, packets = wdm_ring(12, 2), Ring(ranks=12, energy_per_bit=3e-12)
    schedule = optree(Collective("all-gather", 12, 12e6), circuits, radices=radices)
    assert radices is None or schedule.carried.max() > 1
    zero = np.zeros(len(schedule), np.int16)
    plain = schedule.with_columns({"fibre": zero, "first_wavelength": zero, "wavelength_count": zero})
    verify(plain, packets)
    assert same(cost(plain, packets), cost(plain.unfolded(1), packets))
    one, other = (step_loads(rows, packets) for rows in (plain, plain.unfolded(1)))
    assert isinstance(one.transfers, PacketLoads) and isinstance(other.transfers, PacketLoads)
    assert one.transfers.chunks.tolist() == other.transfers.chunks.tolist() and one.crossings == other.crossings > 0
    assert one.changes is None


def test_rows_are_as_many_as_stated_at_most_and_steps_as_counted() -> None:
    for ranks, wavelengths in ((16, 2), (60, 7), (256, 64), (500, 64), (1024, 8)):
        fabric = wdm_ring(ranks, wavelengths)
        for kind in FROM_ALL_GATHER:
            schedule = optree(Collective(kind, ranks, 1e6), fabric)
            assert len(schedule) <= find("optree").rows(kind, fabric)
        radices = tuple(map(int, schedule.notes[0].split(",")[0].removeprefix("radices ").split("·")))
        assert schedule.steps == 2 * sum(stage_steps(ranks, wavelengths, radices))


@pytest.mark.slow
@pytest.mark.parametrize("kind", FROM_ALL_GATHER)
@pytest.mark.parametrize("wavelengths", [8, 64])
def test_a_thousand_ranks_cost_what_their_rows_cost(kind: Kind, wavelengths: int) -> None:
    fabric = wdm_ring(1024, wavelengths)
    schedule = optree(Collective(kind, 1024, 1e9), fabric)
    verify(schedule, fabric)
    twin = schedule.unfolded(wavelengths)
    verify(twin, fabric)
    assert same(cost(schedule, fabric), cost(twin, fabric))
