"""What a step of a strategy costs: exchange by exchange, each size once, at the prices of groups or of a library."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.core.errors import UnsupportedError
from lightloom.machines.accelerators.load import load_accelerator
from lightloom.machines.clusters.cluster import TrainingSettings
from lightloom.machines.fabrics.load import load_fabric
from lightloom.planning.parallelism.placement.cuts import SPLITS, split_size
from lightloom.planning.parallelism.strategy_space import Strategies, Strategy
from lightloom.planning.pricing.group_prices import PlanePrices
from lightloom.planning.pricing.job import DividedModel, by_stage, divided_model
from lightloom.planning.pricing.library_prices import LibraryPricing
from lightloom.planning.pricing.placed_space import PartTable, PlacedChoice, PlacedRows
from lightloom.planning.pricing.schedule_prices import read_prices, write_prices
from lightloom.planning.pricing.strategy_step import (
    ExchangeUse,
    data_parallel_seconds,
    exact_stage_times,
    exchange_costs,
    simulate,
    stage_seconds,
    strategy_seconds,
)
from lightloom.planning.reconfiguration import in_step as step_module
from tests.planner.jobs import job, mixture, space, transformer


@given(
    st.lists(st.lists(st.sampled_from([0.0, 1.0, 2.0, 5.0]), min_size=2, max_size=2), min_size=1, max_size=3),
    st.integers(1, 2),
    st.booleans(),
)
def test_each_size_is_priced_once_and_nothing_for_nothing(sizes: list[list[float]], ranks: int, noting: bool) -> None:
    asked: list[float] = []
    groups: list[Any] = []

    def price(kind: str, nbytes: float) -> Any:
        asked.append(nbytes)
        return SimpleNamespace(cost=nbytes, algorithm=f"{kind} {nbytes}")

    pricing: Any = SimpleNamespace(
        price=lambda *told: groups.append(told) or price,  # type: ignore[func-returns-value]
    )
    of: Any = SimpleNamespace(shares=None, pricing=pricing)
    uses: list[ExchangeUse] = []
    amount: Any = lambda cost, count: None if cost == 5 else cost * count  # noqa: E731
    cost: Any = exchange_costs(of, "ring", amount, uses if noting else None)
    nbytes = np.array(sizes)
    columns = [np.full(len(sizes), number) for number in (0, ranks, 7, 3)]
    found = cost("data")("all-gather", *columns, nbytes)
    if ranks == 1:
        assert not found.any() and not asked and not uses and found.shape == nbytes.shape
        return
    expected = np.where(nbytes == 5, np.nan, nbytes * 2)
    assert np.array_equal(found, expected, equal_nan=True)
    some = sorted({size for row in sizes for size in row} - {0.0})
    assert sorted(asked) == some and groups == [("ring", 2, 3, 7)]
    wanted = [ExchangeUse("all-gather", 2, 7, size, f"all-gather {size}") for size in some]
    assert uses == (wanted if noting else [])


def test_seconds_alone_are_those_of_the_simulated_step() -> None:
    """Of data parallelism alone, and of stages."""
    of = job(2, 4)
    rows = space(of, (16,))
    plain = [rows[place] for place in np.flatnonzero(rows.plain).tolist()]
    staged = [rows[place] for place in np.flatnonzero(~rows.plain)[::150].tolist()]
    for strategy in (*plain, *staged):
        step = simulate(of, strategy)
        assert strategy_seconds(of, strategy) == pytest.approx(step.step_time, rel=1e-9)
        if strategy.plain:
            assert data_parallel_seconds(of, strategy) == pytest.approx(step.step_time, rel=1e-9)
            kinds = {use.kind for use in step.exchanges}
            assert kinds == ({"all-reduce"} if strategy.sharding == "none" else {"all-gather", "reduce-scatter"})
    single = job(2, 1)
    alone = Strategy(1, 1, 1, 1, 16, "none", "none", "ring", 0)
    step = simulate(single, alone)
    assert data_parallel_seconds(single, alone) == pytest.approx(step.step_time, rel=1e-9)
    assert step.communication_time == 0 and not step.exchanges and step.result is not None
    assert step.result.sent_joules in (0.0, None)


@pytest.mark.parametrize("samples", [2, 3, 4])
def test_the_last_micro_batch_takes_the_samples_that_are_left(samples: int) -> None:
    of, count = job(4, 4), -(-8 // samples)
    strategy = Strategy(2, 1, 2, count, 16, "none", "none", "ring", 0, micro_batch=samples)
    stages, left = simulate(of, strategy).stages, 8 - samples * (count - 1)
    assert stages is not None and stages.micro_batches == count and strategy.last_samples == left
    assert (stages.last is None) == (left == samples)
    alone = exact_stage_times(of, strategy._replace(micro_batch=0, micro_batches=1, global_batch=2 * left))
    last = stages.times if stages.last is None else stages.last
    assert last.forward == pytest.approx(alone.forward) and last.backward == pytest.approx(alone.backward)
    assert last.send == pytest.approx(alone.send)
    assert stage_seconds(of, strategy) == stages.step_time


def test_a_step_on_a_switch_lists_collectives_on_the_most_planes_of_each_axis(monkeypatch: pytest.MonkeyPatch) -> None:
    best: Any = SimpleNamespace(
        settings={"passes": {"tensor": 3, "data": 1}, "last": {"tensor": 2, "data": 4}, "tied": {"pipeline": 2}},
        step_time=2.0,
        stages=SimpleNamespace(transmission=0.5, breakdown=lambda: {"compute_s": 2.0}, spent={"compute_s": np.ones(1)}),
    )
    in_step: Any = SimpleNamespace(best=best)
    uses = [ExchangeUse("all-reduce", 2, 1, size, "ring") for size in (1.0, 3.0)]
    shares: list[Any] = []

    def noted(job: Any, strategy: Any, uses_of: list[ExchangeUse]) -> None:
        shares.append(job.shares)
        uses_of.extend(uses)

    monkeypatch.setattr(step_module, "follow_the_step", lambda *_: in_step)
    monkeypatch.setattr(step_module, "exact_stage_times", noted)
    prices: Any = SimpleNamespace(shared=lambda strategy, planes: dict(planes))
    found: Any = step_module.simulate_in_step(job(1, 2), None, prices)  # type: ignore[arg-type]
    assert shares == [found.job.shares] == [{"tensor": 3, "data": 4, "pipeline": 2}]
    assert found.exchanges == (uses[1],) and found.in_step is in_step and found.stages is best.stages
    assert (found.step_time, found.communication_time, found.breakdown) == (2.0, 0.5, {"compute_s": 2.0})
    assert found.spent is best.stages.spent


def test_a_library_prices_columns_as_each_group_alone() -> None:
    fabric = load_fabric("dgx-h100", 32, set={"transport": "nccl-hopper"})
    prices = LibraryPricing(fabric)
    ranks, stride, nbytes = np.array([4, 8, 16]), np.array([8, 1, 2]), np.array([[0.0, 1e3, 1e8]] * 3)
    none = np.zeros(3, np.int64)
    columns = prices.exchange_time("all-reduce", none, ranks, stride, none, nbytes)
    assert not columns[:, 0].any() and (columns[:, 1:] > 0).all()
    for row in range(3):
        price = prices.price("auto", int(ranks[row]), 0, int(stride[row]))
        for column in (1, 2):
            size = float(nbytes[row, column])
            cost = price("all-reduce", size).cost
            assert cost.time == cost.transmission == columns[row, column] and cost.static
            assert not (cost.setup or cost.reconfiguration or cost.conversion) and cost.energy is None
    assert prices.refusal("all-reduce", "auto", 4, 0) is None
    assert prices.price("ring", 4, 0)("all-reduce", 1.0).algorithm == "library"


def test_prices_without_a_file_or_without_any_are_not_written(tmp_path: Path) -> None:
    some: Any = {("all-reduce", 0.0, 1.0): None}
    write_prices(None, some)
    write_prices(tmp_path / "prices.json", {})
    assert not list(tmp_path.iterdir()) and read_prices(None, "ring") == {} == read_prices(
        tmp_path / "prices.json", "ring"
    )


@pytest.mark.parametrize(("planes", "unit", "known"), [(True, 1, True), (True, 0, False), (False, 1, False)])
def test_planes_are_shared_where_a_switch_has_them(planes: bool, unit: int, known: bool) -> None:
    """Axes that are left out have all of them; turns take what the switch takes, unless another time is given."""
    fabric: Any = SimpleNamespace(
        switch_planes=planes,
        share_unit=lambda *_: unit,
        ranks=8,
        kind_name="made up",
        shared_channels=6,
        setup_time=2.5,
    )
    prices: Any = SimpleNamespace(fabric=fabric)
    if not known:
        with pytest.raises(UnsupportedError, match="made up: expected switch planes"):
            PlanePrices(prices)
        return
    of = PlanePrices(prices)
    assert (of.planes, of.reconfiguration_time, PlanePrices(prices, 0.0).reconfiguration_time) == (6, 2.5, 0.0)
    shared = of.shared(Strategy(2, 2, 2, 2, 64, "none", "none", "ring", 0), {"tensor": 3, "pipeline": 2})
    assert shared.division.by_axis() == {"tensor": 3, "data": 6, "pipeline": 2}


@pytest.mark.parametrize("graph", [transformer(2), mixture(2)])
def test_sorts_of_operators_add_up_to_all_operators(graph: Any) -> None:
    model = DividedModel(graph, TrainingSettings(), load_accelerator("a100"))
    count = len(graph.operators)
    assert [model.sorts["parameters"][sort] for sort in model.sort] == [each.parameters for each in graph.operators]
    values = np.random.default_rng(1).uniform(0, 9, (2, len(model.sorts["parameters"])))
    edges = np.array([0, 3, 4, count // 2, count])
    found = model.sums(values, edges)
    for row in range(2):
        for place, (begin, end) in enumerate(pairwise(edges)):
            assert found[row, place] == pytest.approx(sum(values[row, model.sort[begin:end]]))
    assert model.units(np.array([0, count])).tolist() == [len(model.starts)]
    blocks = model.held_blocks(Strategies.of(Strategy(2, 1, 1, 1, 16, "none", "none", "ring", 0)))
    assert blocks.sum() == pytest.approx(sum(each.parameters for each in graph.operators))


def test_a_model_is_divided_once_for_what_it_is_asked_last() -> None:
    graph, chip = transformer(1), load_accelerator("a100")
    first = divided_model(graph, TrainingSettings(), chip)
    assert divided_model(graph, TrainingSettings(), chip) is first
    other = divided_model(graph, TrainingSettings(batch_per_rank=3), chip)
    assert other is not first and other.settings.batch_per_rank == 3
    assert divided_model(graph, TrainingSettings(), load_accelerator("h100")).accelerator != chip


@given(st.integers(1, 3), st.integers(1, 2), st.integers(1, 3))
def test_parameters_of_chunks_add_up_over_stages(rows: int, virtual: int, stages: int) -> None:
    held = np.random.default_rng(rows).uniform(0, 9, (2, rows, virtual * stages))
    for whole, summed in zip(held, by_stage(held, stages), strict=True):
        for row in range(rows):
            assert summed[row] == pytest.approx([sum(whole[row, stage::stages]) for stage in range(stages)])


@pytest.mark.parametrize("graph", [transformer(1, 64), mixture(1, 64)])
def test_an_operator_is_cut_into_the_most_parts_of_any_of_its_splits(graph: Any) -> None:
    """One that is not cut takes its own time, any other at least that of the shortest part of one of these splits."""
    operators = graph.operators
    model = DividedModel(graph, TrainingSettings(), load_accelerator("a100"))
    table = PartTable(model)
    choices = [
        PlacedChoice(k, 8 // k, quantum, 8 * k, most, 1.0)
        for k, quantum, most in ((1, 1e-6, 1), (8, 1e-9, 3), (4, 2e-6, 4))
    ]
    rows = PlacedRows.of(choices)
    times = model.times_on(load_accelerator("a100"))
    forward, _ = times.kernels(rows.samples, rows.recomputation)
    parts, least, total = table.parts(rows, times)
    for row, choice in enumerate(choices):
        for place, operator in enumerate(operators):
            limit = int(min(choice.k, max(forward[row, place] / choice.quantum, 1)))
            ways = []
            for split in SPLITS[operator.kind]:
                size = split_size(operator, split)
                if split.dimension == "sample" and size:
                    size = choice.samples
                most = min(limit, size)
                if split.partial or any(need == "whole" for need in split.inputs):
                    most = min(most, choice.most_exchanging)
                if most:
                    ways.append((1 << (most.bit_length() - 1), split))
            expected = max([count for count, _ in ways], default=1)
            assert parts[row, place] == expected
            seconds = table.part_seconds(times, choice.samples, "none")
            of_splits = [seconds(place, split, expected)[:, 0] for count, split in ways if count == expected > 1]
            whole = forward[row, place]
            assert least[0][row, place] == min([each.min() for each in of_splits], default=whole)
            assert total[0][row, place] == pytest.approx(min([each.sum() for each in of_splits], default=whole))
    assert (parts[0] == 1).all() and parts[1:].max() > 1


def test_inputs_alone_are_not_placed() -> None:
    """Nothing of a graph without other operators can be cut."""
    inputs = transformer(1).operators[:1]
    graph = replace(transformer(1), operators=(replace(inputs[0], kind="input", inputs=(), parameters=0),))
    model = DividedModel(graph, TrainingSettings(), load_accelerator("a100"))
    rows, times = PlacedRows.of([PlacedChoice(4, 2, 1e-9, 16, 4, 1.0)]), model.times_on(load_accelerator("a100"))
    whole, cut = times.kernels(rows.samples, rows.recomputation), PartTable(model).parts(rows, times)
    assert cut.parts.tolist() == [[0]]
    assert [each.tolist() for each in (*cut.least, *cut.total)] == [each.tolist() for each in (*whole, *whole)]
