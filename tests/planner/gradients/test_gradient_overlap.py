"""Gradients that leave beside backward passes, and tied tables that several stages hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lightloom.models.graph import Operator
from lightloom.planning.parallelism.strategy_space import Strategies, Strategy
from lightloom.planning.parallelism.tensor_parallel import copied_parameters, holding_stages, tied_tables
from lightloom.planning.pricing.job import Job
from lightloom.planning.pricing.strategy_step import exact_stage_times, simulate
from lightloom.planning.search.bounds import memory
from tests.planner.jobs import job, space, transformer, with_model
from tests.simulation.prices import linear

ROW = Strategy(4, 1, 2, 4, 64, "none", "none", "ring", 0)


def without_overlap(of: Job) -> Job:
    """The same job, gradients exchanged after the last pass."""
    return with_model(of, settings=of.settings.model_copy(update={"overlap_gradients": False}))


@pytest.mark.parametrize("latency", [0.0, 1e-3])
def test_overlapping_never_makes_a_step_longer_and_hides_at_most_the_last_pass(latency: float) -> None:
    of = job(4, price=linear(1e10, latency))
    rows = space(of, (64,))
    rows = rows.rows((rows.virtual_stages == 1) & ~rows.plain & (rows.recomputation == 0))
    gained = 0
    for index in range(0, len(rows), 5):
        early, late = simulate(of, rows[index]), simulate(without_overlap(of), rows[index])
        assert early.stages is not None and late.stages is not None
        backward = late.stages.times.passes[1].max()
        assert late.step_time - backward <= early.step_time * (1 + 1e-12) <= late.step_time * (1 + 2e-12)
        gained += early.step_time < late.step_time
    assert gained


def test_the_same_bytes_are_exchanged_beside_passes_and_after_them() -> None:
    """At prices without latency, unit by unit takes as long as all at once."""
    of = job(4, price=linear(1e10))
    for sharding in ("none", "zero-1", "zero-2"):
        times = exact_stage_times(of, ROW._replace(sharding=sharding))
        after = exact_stage_times(without_overlap(of), ROW._replace(sharding=sharding))
        assert times.early_exchange.any()
        assert times.early_exchange + times.late_exchange == pytest.approx(after.exchange)
        assert not times.exchange.any() and not after.late_exchange.any()


def test_exchanges_are_told_as_they_take_place() -> None:
    """With a latency that no block hides, a stage's gradients go all at once, otherwise block by block."""
    nbytes = {}
    for latency in (0.0, 1.0):
        of = job(4, price=linear(1e10, latency))
        nbytes[latency] = max(use.nbytes for use in simulate(of, ROW).exchanges if use.kind == "all-reduce")
    assert nbytes[0.0] < nbytes[1.0]


def test_the_head_reads_the_table_of_the_embedding() -> None:
    graph = transformer(4)
    (table,) = tied_tables(graph)
    assert (table.owner, table.readers) == (0, (len(graph.operators) - 1,))
    own = replace(graph.operators[-1], parameters=graph.operators[-1].dimensions["channel"] * 256)
    assert not tied_tables(replace(graph, operators=(*graph.operators[:-1], own)))


def test_a_second_reader_of_a_stage_needs_no_second_copy() -> None:
    """Embedding, a second embedding in the middle and a head, on three stages of one block each, or on two."""
    graph = transformer(3)
    middle = Operator(name="again", kind="embedding", dimensions={"channel": 256}, block="layers.1")
    where = next(index for index, operator in enumerate(graph.operators) if operator.block == "layers.1")
    operators = (*graph.operators[:where], middle, *graph.operators[where:])
    (table,) = tied_tables(replace(graph, operators=operators))
    starts = np.array([0, where, where + 8])
    last = len(operators)
    assert table.readers == (where, last - 1)
    for edges, stages, copies in (
        ([0, where, where + 8, last], 3, [0, 1, 1]),
        ([0, where, last], 2, [0, 1, 0]),
        ([0, last], 1, [0, 0, 0]),
    ):
        copied = copied_parameters((table,), starts, np.array(edges), stages)
        assert copied.tolist() == [table.parameters * count for count in copies]
        assert len(holding_stages(table, np.array(edges), stages)) == 1 + sum(copies)


@pytest.mark.parametrize(
    ("tp", "sharding", "share"), [(1, "none", 1), (2, "none", 2), (1, "zero-1", 1), (1, "zero-3", 4)]
)
def test_two_stages_add_up_the_table_at_the_rate_of_a_pair(tp: int, sharding: str, share: int) -> None:
    """A ring of two sends all of a rank's gradients once each way, in two steps."""
    of = job(4, ranks=8 * tp)
    times = exact_stage_times(of, ROW._replace(tp=tp, sharding=sharding))
    rate, latency = of.fabric.pair(4 * tp)
    size = of.settings.gradient_bytes if sharding in ("none", "zero-1") else of.settings.sharded_gradient_bytes
    nbytes = of.graph.operators[0].parameters * size / share
    assert times.tied.tolist() == pytest.approx([nbytes / rate + 2 * latency] * 2)


def test_a_model_whose_head_has_its_own_table_has_nothing_to_add_up() -> None:
    of = job(4)
    head = replace(of.graph.operators[-1], parameters=of.graph.operators[0].parameters)
    untied = with_model(of, graph=replace(of.graph, operators=(*of.graph.operators[:-1], head)))
    tied_times, times = exact_stage_times(of, ROW), exact_stage_times(untied, ROW)
    assert not times.tied.any() and tied_times.tied.all()
    # A copy is held, exchanged and updated as a table of one's own.
    assert times.update == pytest.approx(tied_times.update)
    assert times.early_exchange + times.late_exchange == pytest.approx(
        tied_times.early_exchange + tied_times.late_exchange
    )
    rows = Strategies.of(ROW)
    assert memory(of, rows) == pytest.approx(memory(untied, rows))
