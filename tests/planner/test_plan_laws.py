"""Laws of priced plans: what a document says of a placed step, ties of steps, the fullest stage, bounds in holds."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lightloom.collectives.registry import find
from lightloom.core.errors import UnsupportedError
from lightloom.machines.clusters.load import load_cluster
from lightloom.models.graph import ComputeGraph
from lightloom.planning.parallelism.circuits.circuits import Timing
from lightloom.planning.parallelism.plan import ParallelPlan
from lightloom.planning.parallelism.strategy_space import Strategies, Strategy
from lightloom.planning.pricing import strategy_step
from lightloom.planning.pricing.collective_prices import CheapestPrices
from lightloom.planning.pricing.schedule_prices import SchedulePrices
from lightloom.planning.pricing.strategy_step import _free, simulate, stage_memory
from lightloom.planning.search.bounds import bounds, placed_bound
from lightloom.planning.search.document import plan_row
from lightloom.planning.search.request import SearchRequest
from lightloom.planning.search.rows import PlacedPlans
from lightloom.planning.search.search import search
from lightloom.planning.simulation.placed_step import simulate_placed
from tests.planner.jobs import job, space, transformer, with_model
from tests.planner.pricing.test_sized_prices import cluster, uneven
from tests.planner.test_split_bounds import FABRICS, job_on, space_on
from tests.simulation.prices import linear


def compute_bound(parameters: tuple[int, ...]) -> ComputeGraph:
    """Operators of so many parameters, each of which computes longer than any exchange takes."""
    graph = uneven(parameters)
    operators = (replace(each, forward_flops=10**13, backward_flops=2 * 10**13) for each in graph.operators)
    return replace(graph, operators=tuple(operators))


@pytest.mark.parametrize("fabric", [0, 4])
def test_a_placed_row_tells_the_figures_of_its_step(fabric: int) -> None:
    """On circuits those of the assignment; packets have none."""
    on = load_cluster("terarack-64", set={"ranks": 4, "fabric": dict(FABRICS[fabric])})
    request = SearchRequest(strategies=("placed",), quanta=(1e-6,), global_batches=(8,), compare=False)
    found = search(transformer(1), on, request)
    step, row = found.winner.placed, plan_row(found.winner, found)["placed"]
    assert step is not None
    assignment = step.circuits.assignment
    assert (assignment is None) == (fabric == 4)
    assert row["circuits"] == (assignment and len(assignment.circuits))
    assert row["circuits_gap"] == (assignment and assignment.gap)
    assert row["sub_operators"] == len(step.plan.placement.device) and row["holds"] == len(step.circuits.bandwidth)
    assert (row["sent_bytes"], row["relayed_bytes"]) == (step.sent_bytes, step.relayed_bytes)
    assert row["waited_for_circuits_s"] == step.waited_for_circuits
    assert (row["placed_by"], row["repaired"]) == (step.plan.placement.method, step.plan.placement.repaired)


def test_the_fastest_step_is_taken_and_of_equal_ones_that_of_least_communication(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whether schedules of each size make it, or those of one size."""
    prices = SchedulePrices(find("synthesized"), cluster().fabric, "physical")
    chosen = CheapestPrices(lambda _: ())
    monkeypatch.setattr(chosen, "choice", lambda *_: prices)
    pricing: Any = SimpleNamespace(price=lambda *_: chosen, algorithm=lambda *_: "synthesized")
    of = replace(with_model(job(1, 16), graph=uneven((260_000, 7_000_000))), pricing=pricing)
    strategy, each = Strategy(16, 1, 1, 1, 16, "none", "none", "synthesized", 0), (1.0, 2.0)
    plan = of.data_parallel_plan(strategy)
    built = [prices.built_for(each.kind, each.nbytes) for each in plan.exchanges]
    small, large = sorted(set(built))
    for costs in product(product(each, each), repeat=3):
        carried: list[list[float]] = []

        def played(plan: ParallelPlan, *on: Any, costs: Any = costs, carried: Any = carried, **_: Any) -> Any:
            carried.append([on[-1].built_for(each.kind, each.nbytes) for each in plan.exchanges])
            step, sent = costs[len(carried) - 1]
            return SimpleNamespace(step_time=step, communication_time=sent, breakdown={}, carried=carried[-1])

        monkeypatch.setattr(strategy_step, "simulate_step", played)
        found = simulate(of, strategy)
        assert carried == [built, [small] * len(built), [large] * len(built)]
        best = costs.index(min(costs))
        assert (found.step_time, found.communication_time) == costs[best]
        assert vars(found.result)["carried"] == carried[best]


def test_nothing_is_exchanged_by_one_rank_alone() -> None:
    cost = _free("all-reduce", 1e9).cost
    assert cost.static and not any(value for name, value in cost.to_json().items() if name != "static_circuits")
    assert cost.repeated_time == 0 and cost.energy == 0


def test_exchanges_are_told_largest_first_and_equal_ones_by_name() -> None:
    of = job(4)
    rows = space(of, (64,))
    ties = 0
    for index in range(0, len(rows), 5):
        uses = simulate(of, rows[index]).exchanges
        assert list(uses) == sorted(uses, key=lambda use: (-use.nbytes, use))
        assert len(uses) == len({use._replace(nbytes=0.0) for use in uses})
        ties += len(uses) - len({use.nbytes for use in uses})
    assert ties


def test_the_fullest_stage_holds_at_least_the_mean_of_all() -> None:
    """An embedding that is larger than all blocks together makes the first stage the fullest."""
    of = job(4)
    of = with_model(of, graph=transformer(4, 256, 100_000))
    rows = space(of, (64,))
    deep = rows.rows((rows.pp > 1) & (rows.sharding == 0))
    assert len(deep)
    embedding, state = 256 * 100_000, of.settings.stored_parameter_bytes + of.settings.gradient_bytes
    for index in range(0, len(deep), 5):
        row = deep[index]
        held = stage_memory(of, Strategies.of(row))[0]
        assert held >= embedding / row.tp * state
        assert held >= of.graph.parameters / row.pp / row.tp * state


@pytest.mark.parametrize("fabric", [0, 2])
def test_a_second_hold_of_slow_circuits_leaves_the_bound_of_the_first(fabric: int) -> None:
    """A step that ends within the first hold is no shorter than its bound, however slow the holds that follow."""
    on = job_on(fabric, 4, 2, 256)
    rows, plans = space_on(on, (8,)), PlacedPlans(on)
    tried = 0
    for index in range(0, len(rows), 4):
        plan, granted = plans.plan(rows[index]), plans.circuits(rows[index])
        standing = replace(granted, bandwidth=granted.bandwidth[:1], timing=None)
        try:
            alone = simulate_placed(plan, standing, on.accelerator, on.settings).step_time
        except UnsupportedError:
            continue
        slower = np.concatenate([standing.bandwidth, standing.bandwidth * 1e-6])
        held = replace(standing, bandwidth=slower, timing=Timing(2 * alone, 0.0))
        step = simulate_placed(plan, held, on.accelerator, on.settings).step_time
        assert step == pytest.approx(alone)
        assert placed_bound(on, plan, 1.0, held) <= step
        assert placed_bound(on, plan, 1.0, held) == pytest.approx(placed_bound(on, plan, 1.0, standing))
        tried += 1
    assert tried


def test_no_bound_lies_below_computing_alone() -> None:
    """Not even where the last exchange begins long before the backward pass ends."""
    of = with_model(job(1, price=linear(1e15)), graph=compute_bound((0, 260_000, 7_000_000)))
    for name in ("none", "zero-3"):
        row = Strategy(8, 1, 1, 1, 8, name, "none", "ring", 0)
        rows = Strategies.of(row)
        computing = sum(seconds.sum() for seconds in of.operators.passes(rows.samples, rows.tp, rows.recomputation))
        assert rows.plain.all()
        assert computing * (1 - 1e-6) <= bounds(of, rows)[0] <= simulate(of, row).step_time
