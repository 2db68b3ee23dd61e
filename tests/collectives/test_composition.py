"""Composed collectives: every kind on every product of axes is right, folded as unfolded, and never below its bound."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.algorithms.doubling import hierarchical_phases
from lightloom.collectives.collective import CLASSIC, Collective, Kind
from lightloom.collectives.composition import Phase, lower
from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.files.document import columns_from, header_of, schedule_from
from lightloom.collectives.registry import costed, evaluate, find
from lightloom.collectives.schedule.columns import Folding, Pipeline, Schedule
from lightloom.collectives.verify.verifier import verify
from lightloom.core.errors import UnsupportedError, VerificationError
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.grids import Torus
from lightloom.machines.fabrics.load import load_fabric
from lightloom.machines.fabrics.switches import PacketSwitch
from lightloom.machines.fabrics.tiers.tiers import Tiers
from lightloom.machines.fabrics.wdm_ring import WdmRing
from tests.collectives.reference import data_arrives
from tests.collectives.strategies import two_tiers

GIB = float(1 << 30)
AXES = ((2, 2), (3, 5), (7, 2), (8, 8), (2, 31), (2, 3, 2), (3, 2, 5))
FLAT: dict[str, tuple[str, ...]] = {
    "all-gather": ("one-stage", "ring", "ring-two-way", "recursive-doubling", "binomial-tree"),
    "reduce-scatter": ("one-stage", "ring", "ring-two-way", "recursive-doubling"),
    "all-reduce": ("one-stage", "ring-two-way-striped", "halving-doubling", "binomial-tree", "worker-aggregator"),
    "all-to-all": ("one-stage", "ring-two-way"),
    "broadcast": ("ring", "binomial-tree"),
    "reduce": ("ring-two-way", "binomial-tree"),
}


def domains(ranks: int, domain: int, latency: float = 1e-6) -> Tiers:
    return two_tiers(ranks, domain_size=domain, domain_latency=latency, hop_latency=3 * latency)


def composed(kind: str, axes: tuple[int, ...], flat: Algorithm, nbytes: float = 1e6) -> tuple[Schedule, Fabric]:
    ranks = prod(axes)
    fabric = domains(ranks, axes[0])
    collective = Collective(kind, ranks, nbytes)  # type: ignore[arg-type]
    phases = hierarchical_phases(collective.kind, [flat] * len(axes))
    return lower("composed", collective, fabric, axes, phases), fabric


@pytest.mark.parametrize("axes", [(2, 3), (3, 2, 4), (2, 2, 2, 3)])
@pytest.mark.parametrize("kind", ["all-gather", "all-reduce", "all-to-all"])
def test_one_rank_stands_for_all_where_every_axis_looks_the_same_from_each(kind: Kind, axes: tuple[int, ...]) -> None:
    """Unfolded axis by axis, or at once, it has the rows of all ranks."""
    schedule, fabric = composed(kind, axes, find("ring-two-way"))
    assert schedule.folding is not None
    assert (schedule.folding.period, schedule.folding.axes) == (1, axes)
    rows = rows_as_sent(schedule.unfolded(1))
    assert len(set(rows)) == len(rows) == len(schedule) * fabric.ranks
    price = cost(schedule, fabric)
    while schedule.folding is not None:
        schedule = schedule.unfolded_once()
        verify(schedule, fabric)
        assert rows_as_sent(schedule.unfolded(1)) == rows
        assert cost(schedule, fabric).time == pytest.approx(price.time, rel=1e-12)


def rows_as_sent(schedule: Schedule) -> list[tuple[int, ...]]:
    columns = (schedule.step, schedule.source, schedule.destination, schedule.chunk, schedule.reduces)
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


def test_a_rank_of_a_copy_moves_along_every_axis_by_itself() -> None:
    """Each copy moves all ranks, rank 0 of the first copy to its own first rank, and back again."""
    folding = Folding(2, np.zeros((12, 0), np.int32), (3, 4))
    rank, copy = np.arange(24), np.arange(12)[:, None]
    moved = folding.moved(rank, copy)
    assert (np.sort(moved, axis=1) == rank).all()
    assert (moved[:, 0] == 2 * copy[:, 0]).all()
    assert (folding.moved(moved, copy, back=True) == rank).all()
    place = [rank // 2 % 3, rank // 6]
    assert (moved // 2 % 3 == (place[0] + copy % 3) % 3).all()
    assert (moved // 6 == (place[1] + copy // 3) % 4).all()


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("kind", CLASSIC)
def test_every_kind_on_every_axes_is_right_folded_and_unfolded(kind: Kind, axes: tuple[int, ...]) -> None:
    schedule, fabric = composed(kind, axes, find(FLAT[kind][0]))
    verify(schedule, fabric)
    costed(schedule, fabric)
    plain = schedule.in_pieces(2).unfolded(1)
    verify(plain, fabric)
    if prod(axes) <= 16:
        assert data_arrives(plain)


@st.composite
def compositions(draw: st.DrawFn) -> tuple[Collective, Fabric, tuple[int, ...], list[list[Phase]]]:
    """Any valid phases, in any order of axes and by any flat algorithms, in one lane or two."""
    axes = draw(st.sampled_from(AXES))
    kind: Kind = draw(st.sampled_from(CLASSIC))
    lanes = [_lane(draw, axes, kind) for _ in range(draw(st.integers(1, 2)))]
    fabric = draw(st.sampled_from([domains(prod(axes), axes[0]), PacketSwitch(ranks=prod(axes), hop_latency=1e-6)]))
    return Collective(kind, prod(axes), draw(st.sampled_from([0.0, 1e3, 1e6, 1e9]))), fabric, axes, lanes


def _lane(draw: st.DrawFn, axes: tuple[int, ...], kind: Kind) -> list[Phase]:
    algorithm = {one: st.sampled_from(names).map(find) for one, names in FLAT.items()}
    whole = [draw(st.integers(0, len(axes) - 1))] if kind == "all-reduce" and draw(st.booleans()) else []
    order = draw(st.permutations(range(len(axes))))
    phases = []
    if kind == "all-reduce":
        scattered = [axis for axis in order if axis not in whole]
        phases = [Phase("reduce-scatter", axis, draw(algorithm["reduce-scatter"])) for axis in scattered]
        middle = draw(st.permutations(whole))
        phases += [Phase("all-reduce", axis, draw(algorithm["all-reduce"])) for axis in middle]
        gathered = draw(st.permutations(scattered))
        phases += [Phase("all-gather", axis, draw(algorithm["all-gather"])) for axis in gathered]
    else:
        phases = [Phase(kind, axis, draw(algorithm[kind])) for axis in order]
    return phases


@given(compositions(), st.sampled_from([1, 2, 5]), st.sampled_from([None, 1]))
@settings(max_examples=40, deadline=None)
def test_any_composition_is_right_and_costs_what_its_rows_cost(
    composition: tuple[Collective, Fabric, tuple[int, ...], list[list[Phase]]], pieces: int, interval: int | None
) -> None:
    collective, fabric, axes, lanes = composition
    schedule = lower("drawn", collective, fabric, axes, *lanes)
    at_once = schedule.steps <= 64
    schedule = schedule.in_pieces(pieces, interval if at_once else None)
    verify(schedule, fabric)
    price, _ = costed(schedule, fabric)
    plain = schedule.unfolded(1)
    verify(plain, fabric)
    assert price.time == pytest.approx(cost(plain, fabric).time, rel=1e-9)


def test_a_gibibyte_on_64_h100_takes_less_than_5_ms() -> None:
    """Across the boundaries of 8 domains 2 · 7 · 1 GiB must be received, by 64 ports of 50 GB/s: 4.698 ms."""
    fabric = two_tiers(ranks=64, domain_size=8, domain_bandwidth=450e9, bandwidth=50e9)
    evaluation = evaluate(find("hierarchical"), Collective("all-reduce", 64, GIB), fabric)
    assert 2 * 7 * GIB / 64 / 50e9 < evaluation.cost.time < 4.75e-3
    assert evaluate(find("ring"), Collective("all-reduce", 64, GIB), fabric).cost.time > 20e-3


def test_the_number_of_pieces_is_the_best_at_every_size() -> None:
    fabric = domains(32, 8)
    for nbytes in (0.0, 1e4, 1e6, 1e9):
        best = evaluate(find("hierarchical"), Collective("all-reduce", 32, nbytes), fabric)
        for pieces in (1, 2, 8, 64):
            assert best.cost.time <= cost(best.schedule.in_pieces(pieces), fabric).time * (1 + 1e-12)


def test_energy_counts_every_copy_and_piece() -> None:
    fabric = domains(8, 4).model_copy(update={"energy_per_bit": 1e-12})
    schedule, _ = composed("all-reduce", (4, 2), find("one-stage"))
    schedule = schedule.in_pieces(3)
    assert schedule.folding is not None
    assert cost(schedule, fabric).energy == pytest.approx(cost(schedule.unfolded(1), fabric).energy)


@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("kind", ["all-gather", "reduce-scatter", "all-reduce", "all-to-all"])
def test_a_folded_schedule_with_a_changed_row_is_judged_as_its_rows_are(kind: str, folded: bool) -> None:
    """Copies on one axis, and on two."""
    schedule, fabric = composed(kind, (2, 3, 2) if folded else (4, 3), find("one-stage"))
    schedule = schedule.unfolded_once()
    assert schedule.folding is not None
    assert (schedule.folding.period, schedule.folding.axes) == ((2, (3, 2)) if folded else (4, (3,)))
    rejected = 0
    for column, row in product(("destination", "chunk", "step", "reduces"), (0, 5, len(schedule) // 2, -1)):
        values = getattr(schedule, column).copy()
        limit = {"destination": 12, "chunk": schedule.chunks, "step": schedule.steps, "reduces": 2}[column]
        values[row] = (values[row] + 1) % limit
        if column == "destination" and values[row] == schedule.source[row]:
            values[row] = (values[row] + 1) % limit
        changed = schedule.with_columns({column: values, "lightpath": np.arange(len(schedule))})
        assert accepted(changed, fabric) == accepted(changed.unfolded(1), fabric) == data_arrives(changed.unfolded(1))
        rejected += not accepted(changed, fabric)
    assert rejected >= 13


def accepted(schedule: Schedule, fabric: Fabric) -> bool:
    try:
        verify(schedule, fabric)
    except VerificationError:
        return False
    return True


def test_what_cannot_be_folded_or_cut_is_rejected() -> None:
    schedule, fabric = composed("all-reduce", (4, 3), find("one-stage"))
    wrong = [
        (replace(schedule, folding=Folding(5, np.zeros((3, 0), np.int32))), "a divisor of the ranks"),
        (replace(schedule.unfolded_once(), folding=Folding(2, np.zeros((6, 0), np.int32))), "beyond the first period"),
        (replace(schedule, folding=Folding(1, np.zeros((12, 0), np.int32), (4, 4))), "12 copies on axes 4 x 4"),
        (replace(schedule, pipeline=Pipeline(5, 1)), "in 5 pieces"),
        (replace(schedule, pipeline=Pipeline(4, 2)), "do not end in"),
    ]
    for changed, message in wrong:
        with pytest.raises(VerificationError, match=message):
            verify(changed, fabric)


def test_phases_on_circuits_are_refused() -> None:
    straight = find("one-stage")
    collective = Collective("all-reduce", 12, 1e6)
    ring = WdmRing(ranks=12)
    with pytest.raises(UnsupportedError, match="circuit-switched"):
        lower("wrong", collective, ring, (4, 3), hierarchical_phases("all-reduce", [straight] * 2))
    assert find("hierarchical").refusal("all-reduce", PacketSwitch(ranks=12)) is not None


def test_a_torus_is_served_along_both_axes_at_once() -> None:
    fabric = Torus(ranks=16, hop_latency=1e-7)
    assert [axis.size for axis in fabric.axes] == [4, 4]
    for kind in ("all-gather", "reduce-scatter", "all-reduce"):
        evaluation = evaluate(find("hierarchical"), Collective(kind, 16, 1e9), fabric)
        assert evaluation.cost.time < 1.001 * evaluation.bound.time


def test_rails_that_spines_join_without_loss_are_one_axis() -> None:
    pod = load_fabric("dgx-h100-superpod", ranks=512)
    evaluation = evaluate(find("hierarchical"), Collective("all-reduce", 512, 1e9), pod)
    assert evaluation.schedule.notes[1] == "all-reduce in groups of 64 ranks, 8 apart, by one-stage"
    assert evaluation.cost.time < 1.1 * evaluation.bound.time


def test_a_folded_pipeline_reads_as_it_was_written() -> None:
    schedule, fabric = composed("all-reduce", (4, 3), find("one-stage"))
    schedule = schedule.in_pieces(4)
    columns = {name: column.tolist() for name, column in schedule.columns().items()}
    read, _ = schedule_from(json.loads(json.dumps(header_of(schedule, fabric))), columns_from(columns, "here"), "here")
    assert read.folding is not None and schedule.folding is not None
    assert (read.pipeline, read.folding.axes) == (schedule.pipeline, schedule.folding.axes)
    verify(read, fabric)
    assert cost(read, fabric) == cost(schedule, fabric)


@pytest.mark.parametrize("ranks", [2, 3, 5, 8, 13, 16, 31])
def test_double_binary_trees_reach_the_bandwidth_in_few_steps(ranks: int) -> None:
    switch = PacketSwitch(ranks=ranks, hop_latency=1e-7)
    evaluation = evaluate(find("double-binary-tree"), Collective("all-reduce", ranks, 1e10), switch)
    assert evaluation.schedule.pipeline is not None
    assert evaluation.schedule.first_piece().steps <= 2 * ranks.bit_length()
    assert data_arrives(evaluation.schedule.first_piece())
    assert evaluation.cost.time < 2.2 * 1e10 / switch.bandwidth
    fabric = domains(2 * ranks, 2)
    flats = [find("one-stage"), find("double-binary-tree")]
    composed = lower(
        "mine", Collective("all-reduce", 2 * ranks, 1e6), fabric, (2, ranks), hierarchical_phases("all-reduce", flats)
    )
    verify(composed, fabric)
