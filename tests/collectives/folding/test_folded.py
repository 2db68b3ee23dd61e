"""Folded schedules of steps: rows of one period of ranks stand for all, and say what the rows of all ranks say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.collective import FROM_ALL_GATHER, Collective, Kind
from lightloom.collectives.cost.stepped import cost, straggling
from lightloom.collectives.registry import admitted, build, evaluate, find
from lightloom.collectives.schedule.columns import Folding, Schedule
from lightloom.collectives.verify.verifier import verify
from lightloom.core.errors import UnsupportedError, VerificationError
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.switches import CircuitSwitch, PacketSwitch
from lightloom.machines.fabrics.wdm_ring import Ring
from tests.collectives.folding.twins import check_twins, mutated_columns, refused, same
from tests.collectives.strategies import fabrics, wdm_ring

QUICK = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
FOLDING = ("ring", "ring-striped", "ring-two-way", "ring-two-way-striped", "bruck", "bruck-striped")


@st.composite
def folded(draw: st.DrawFn, largest: int = 10) -> tuple[Schedule, Fabric]:
    """A schedule of a few ranks' rows, as its algorithm builds it, with its fabric."""
    fabric = draw(fabrics(largest=largest))
    kind: Kind = draw(st.sampled_from(["all-gather", "reduce-scatter", "all-reduce", "all-to-all"]))
    fitting = [algorithm for algorithm in admitted(kind, fabric) if algorithm.name in FOLDING]
    assume(fitting)
    algorithm: Algorithm = draw(st.sampled_from(fitting))
    schedule = build(algorithm, Collective(kind, fabric.ranks, draw(st.floats(1.0, 1e9))), fabric)
    assume(schedule.folding is not None)
    return schedule, fabric


@QUICK
@given(folded())
def test_rows_of_one_rank_cost_what_rows_of_all_ranks_cost(job: tuple[Schedule, Fabric]) -> None:
    schedule, fabric = job
    fabric = fabric.model_copy(update={"energy_per_bit": 3e-12})
    twin = schedule.unfolded(fabric.fibre_channels)
    assert len(twin) == len(schedule) * fabric.ranks and twin.folding is None
    check_twins(schedule, twin, fabric)
    if fabric.exclusive:
        later = [straggling(rows, fabric, late=1e-3).later for rows in (schedule, twin)]
        assert np.array_equal(later[0], later[1])


@settings(QUICK, max_examples=250)
@given(folded(largest=8), st.data())
def test_mutants_of_one_rank_are_refused_as_those_of_all_ranks_are(
    job: tuple[Schedule, Fabric], data: st.DataObject
) -> None:
    schedule, fabric = job
    columns = data.draw(mutated_columns(schedule, fabric, schedule.chunks, 1))
    mutant = schedule.with_columns(columns)
    assert refused(mutant, fabric) == refused(mutant.unfolded(fabric.fibre_channels), fabric)


def all_reduce_of(ranks: int) -> tuple[Schedule, Fabric]:
    fabric = Ring(ranks=ranks)
    return build(find("ring"), Collective("all-reduce", ranks, 1e6), fabric), fabric


@pytest.mark.parametrize("ranks", [5, 4_200])
def test_sums_that_go_wrong_are_named(ranks: int) -> None:
    """Of 4,200 ranks contributions are replayed in two parts, of which either may be in order."""
    schedule, fabric = all_reduce_of(ranks)
    verify(schedule, fabric)
    half = ranks - 1
    last = int(np.flatnonzero(schedule.step == half - 1)[0])

    def changed(row: int, **values: int) -> Schedule:
        columns = {name: column.copy() for name, column in schedule.columns().items()}
        for name, value in values.items():
            columns[name][row] = value
        return schedule.with_columns(columns)

    first_gathered = int(np.flatnonzero(schedule.step == half)[0])
    for wrong, says in (
        (changed(last - 1, reduces=0), "overwritten and lost|not complete over what it holds"),
        (changed(last, reduces=0), "stores a sum that is not complete|overwritten and lost"),
        (changed(first_gathered, reduces=1), "a contribution that it already holds"),
        (changed(last, chunk=int(schedule.chunk[last - 1])), r"already holds|does not end with|written to by two"),
    ):
        with pytest.raises(VerificationError, match=says):
            verify(wrong, fabric)
        if ranks < 100:
            assert refused(wrong.unfolded(1), fabric)


def test_an_incomplete_sum_over_held_data_is_refused_in_folded_rows() -> None:
    """Rank u stores a sum of all but one rank over its own contribution, which that sum holds."""
    schedule, fabric = all_reduce_of(6)
    columns = {name: column.copy() for name, column in schedule.columns().items()}
    columns["reduces"][0] = False
    wrong = schedule.with_columns(columns)
    assert refused(wrong, fabric) and refused(wrong.unfolded(1), fabric)


@pytest.mark.parametrize("planes", [1, 2, 3])
def test_circuits_that_take_turns_are_followed_as_those_of_all_ranks(planes: int) -> None:
    """With one plane the two directions of a ring alternate, so that every step changes circuits."""
    fabric = CircuitSwitch(ranks=9, degree=planes)
    for name in ("ring-two-way", "ring-two-way-striped", "bruck"):
        schedule = build(find(name), Collective("all-reduce", 9, 1e6), fabric)
        assert schedule.folding is not None
        assert same(cost(schedule, fabric), cost(schedule.unfolded(fabric.fibre_channels), fabric))


def test_neighbours_that_clash_in_some_copy_are_found() -> None:
    """A lightpath over two links shares its wavelength with that of the next rank."""
    fabric = wdm_ring(8, 4)
    schedule = build(find("ring"), Collective("all-gather", 8, 8e6), fabric)
    farther = schedule.with_columns({"destination": schedule.destination + 1})
    with pytest.raises(VerificationError, match="share wavelength 0"):
        verify(farther, fabric)


def test_channels_that_differ_from_copy_to_copy_are_checked_in_steps() -> None:
    fabric = wdm_ring(8, 4)
    schedule = build(find("ring"), Collective("all-gather", 8, 8e6), fabric)
    paths = int(schedule.lightpath.max()) + 1
    channel = np.arange(8, dtype=np.int32)[:, None] % 4 + np.zeros((1, paths), np.int32)
    apart = schedule.with_columns({}, folding=Folding(1, channel))
    verify(apart, fabric)
    assert same(cost(apart, fabric), cost(apart.unfolded(4), fabric))
    beyond = channel.copy()
    beyond[5, 2] = 4
    assert refused(schedule.with_columns({}, folding=Folding(1, beyond)), fabric)
    with pytest.raises(VerificationError, match="is not that of copy 0"):
        verify(schedule.with_columns({}, folding=Folding(1, channel + 1)), fabric)
    for row, path in enumerate(schedule.lightpath.tolist()):
        other = channel.copy()
        other[0, path] = 3
        with pytest.raises(VerificationError, match=rf"row {row}: its channel 0 is not that of copy 0"):
            verify(schedule.with_columns({}, folding=Folding(1, other)), fabric)
    with pytest.raises(VerificationError, match="between ranks can be folded"):
        verify(replace(schedule, dependencies=np.array([(1, 0)])), fabric)


def test_bruck_takes_few_steps_for_any_number_of_ranks() -> None:
    for ranks in range(2, 40):
        schedule = build(find("bruck"), Collective("all-gather", ranks, 1e6), PacketSwitch(ranks=ranks))
        assert schedule.steps == (ranks - 1).bit_length() and len(schedule) == ranks - 1


@pytest.mark.long
def test_many_ranks_take_rows_of_one_and_a_rest_is_refused_before_it_takes_memory() -> None:
    ranks = 16_384
    for name, fabric in (("ring-two-way", Ring(ranks=ranks)), ("bruck", PacketSwitch(ranks=ranks))):
        done = evaluate(find(name), Collective("all-gather", ranks, 1e6 * ranks), fabric)
        assert len(done.schedule) == ranks - 1
    with pytest.raises(UnsupportedError, match=r"optree on 131,072 ranks, with 2,264,924,160 rows, needs about"):
        build(find("optree"), Collective("all-gather", 131_072, 1e9), wdm_ring(131_072, 8))
    with pytest.raises(UnsupportedError, match="rows for all ranks and pieces needs about"):
        build(find("bruck"), Collective("all-gather", 131_072, 1e9), PacketSwitch(ranks=131_072)).unfolded(1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", FROM_ALL_GATHER)
@pytest.mark.parametrize("name", ["ring-two-way", "ring-two-way-striped", "bruck"])
def test_a_thousand_ranks_cost_what_their_rows_cost(name: str, kind: str) -> None:
    options = (wdm_ring(1024, 8), Ring(ranks=1024)) if name != "bruck" else (PacketSwitch(ranks=1024),)
    for fabric in options:
        if find(name).refusal(kind, fabric) is not None:
            continue
        schedule = build(find(name), Collective(kind, 1024, 1e9), fabric)  # type: ignore[arg-type]
        twin = schedule.unfolded(fabric.fibre_channels)
        verify(twin, fabric)
        assert same(cost(schedule, fabric), cost(twin, fabric))
