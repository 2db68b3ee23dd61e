"""Bounds of strategies row by row: which rows are admitted, what replicas take at least, and lines below prices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lightloom.collectives.collective import Kind
from lightloom.core.arrays import Floats
from lightloom.machines.clusters.load import load_cluster
from lightloom.planning.parallelism.plan import START, make_plan
from lightloom.planning.parallelism.strategy_space import KIND_OF_SHARDING, Strategies, Strategy
from lightloom.planning.pricing.group_prices import GroupPrices
from lightloom.planning.pricing.job import Job
from lightloom.planning.pricing.price_lines import PriceLine
from lightloom.planning.pricing.step import distance
from lightloom.planning.pricing.strategy_step import simulate
from lightloom.planning.search import bounds as strategies
from lightloom.planning.search.bounds import (
    PriceLines,
    admitted,
    bounds,
    memory,
)
from tests.planner.gradients.exchanges import by_name, coded
from tests.planner.jobs import MadeUp, cluster, job, mixture, space, transformer
from tests.simulation.prices import linear


def on_nodes() -> Job:
    """A mixture of experts on two nodes of eight ranks."""
    on = load_cluster("h100-512-two-tier", set={"ranks": 16})
    return Job.of(mixture(2), on.accelerator.flat(), on.fabric, on.training, MadeUp(linear(1e10, 1e-6)))


def needed(of: Job, row: Strategy) -> set[tuple[str, int, int, int]]:
    """Collectives of the groups of several ranks of a strategy, with the distance of neighbours and the method."""
    replicas, inside = row.replicas, 1
    while of.fabric.node_ranks % (row.tp * inside * 2) == 0 and replicas % (inside * 2) == 0:
        inside *= 2
    both = ("all-gather", "reduce-scatter")
    gradients = [(("all-reduce",) if row.sharding == "none" else both, replicas, row.tp)]
    if row.sharding == "hybrid":
        gradients = [(both, inside, row.tp), (("all-reduce",), replicas // inside, row.tp * inside)]
    elif row.ep > 1:
        gradients += [(gradients[0][0], replicas // row.ep, row.tp * row.ep)]
    others: list[tuple[tuple[str, ...], int, int]] = [(("all-reduce",), row.tp, 1), (("all-to-all",), row.ep, row.tp)]
    others += [(both, row.tp, 1)] if row.sequence_parallel else []
    groups = [(*group, row.exchange) for group in gradients] + [(*group, 0) for group in others]
    return {
        (kind, ranks, int(distance(of.fabric, np.array([stride]))[0]), method)
        for kinds, ranks, stride, method in groups
        for kind in kinds
        if ranks > 1
    }


def test_rows_are_admitted_where_all_of_their_groups_of_several_ranks_are_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of = on_nodes()
    rows = space(of, (64,))
    rows = rows.rows(np.random.default_rng(1).permutation(len(rows))[:120])
    rows.exchange[::2] = 1
    choices = [rows[row] for row in range(len(rows))]
    assert {each.sharding for each in choices} >= {"none", "zero-3", "hybrid"} and max(rows.ep) > 1
    each = [needed(of, choice) for choice in choices]
    groups = sorted(set().union(*each))
    assert len({kind for kind, *_ in groups}) == 4
    for group in groups:

        class Refusing(MadeUp):
            """Serves all but one kind of groups, and ranks alone."""

            def refusal(
                self, kind: Kind, algorithm: str, ranks: int, exchange: int, stride: int = 1, group: Any = group
            ) -> str | None:
                return "refused" if ranks == 1 or (kind, ranks, stride, exchange) == group else None

        refusing = replace(of, pricing=Refusing(linear(1e9)))
        assert admitted(refusing, rows).tolist() == [group not in groups for groups in each]
    light = replace(of, fabric=load_cluster("optinc-16").fabric)
    assert admitted(light, rows).tolist() == [choice.pp == 1 for choice in choices]
    rings = np.arange(len(rows)) % 3 > 0
    monkeypatch.setattr(strategies, "has_ring", lambda *_: rings)
    assert (admitted(of, rows) == rings).all()


@pytest.mark.parametrize("divided", [False, True])
def test_circuits_that_axes_divide_serve_one_collective_each(divided: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside others, no method that takes several, and no axis whose circuits do not stand."""
    on = load_cluster("terarack-64", set={"ranks": 4, "fabric": {"base": "circuit-switch", "degree": 4}})
    exchanges = by_name("int8"), coded(3.0)
    prices = GroupPrices(on.fabric, on.training, exchanges=exchanges)
    of = Job.of(transformer(2), on.accelerator, on.fabric, on.training, prices, exchanges=exchanges)
    rows = space(of, (8,))
    rows.exchange[:] = np.arange(len(rows)) % 3
    standing = np.arange(len(rows)) % 7 > 0
    monkeypatch.setattr(strategies, "served", lambda *given: np.ones(len(given[4]), np.bool_))
    monkeypatch.setattr(strategies, "circuits_stand", lambda *_: standing)
    monkeypatch.setattr(strategies, "divides", lambda _: divided)
    assert admitted(of, rows).tolist() == [
        bool(stands) and not (divided and choice.exchange == 1 and max(choice.tp, choice.pp, choice.ep, choice.cp) > 1)
        for choice, stands in zip(map(rows.__getitem__, range(len(rows))), standing, strict=True)
    ]


def replicas_seconds(of: Job, row: Strategy, bandwidth: float) -> float:
    """Exchanges in line, none before its data exists; what the first pass needs comes before it."""
    plan = make_plan(KIND_OF_SHARDING[row.sharding], of.graph, row.dp, of.settings)
    rows = Strategies.of(row)
    forward, backward = (each[0] for each in of.operators.passes(rows.samples, rows.tp, rows.recomputation))
    ends = [0.0]
    for seconds in [*forward.tolist(), *backward[::-1].tolist()]:
        ends.append(ends[-1] + seconds)
    update = float(of.accelerator.update_time(plan.updated_parameters * of.settings.optimizer_traffic_bytes))
    sent = [each.nbytes / bandwidth for each in plan.exchanges]
    if of.exchanges and row.exchange and of.exchanges[row.exchange - 1].blocking:
        return ends[-1] + sum(sent) + update
    first = sent[0] if plan.exchanges[0].needed_by == 0 else 0.0
    longest = first + ends[-1]
    for number, each in enumerate(plan.exchanges):
        ready = 0.0 if each.starts_after == START else first + ends[each.starts_after + 1]
        longest = max(longest, ready + sum(sent[number:]))
    return longest + update


@pytest.mark.parametrize("bandwidth", [1e8, 1e10, 1e12])
def test_replicas_take_as_long_as_their_passes_and_what_follows_each_exchange(bandwidth: float) -> None:
    of = replace(job(2, 4, linear(bandwidth)), exchanges=(by_name("localsgd:every=2"), by_name("int8")))
    rows = space(of, (16, 64))
    rows = rows.rows(rows.plain)
    for number in range(3):
        rows.exchange[:] = number
        choices = [rows[row] for row in range(len(rows))]
        assert {each.sharding for each in choices} == {"none", "zero-3"}
        wanted = [replicas_seconds(of, choice, bandwidth) for choice in choices]
        assert bounds(of, rows) == pytest.approx(np.array(wanted), rel=1e-8)


def test_a_smaller_last_micro_batch_is_not_bounded() -> None:
    """A step with a last micro-batch of one sample is bounded by that of the micro-batches before it."""
    of = job(4, 4)
    whole = Strategy(1, 1, 4, 3, 12, "none", "none", "ring", 0)
    uneven = whole._replace(micro_batches=4, global_batch=13, micro_batch=4)
    bound, full = bounds(of, Strategies.of(uneven))[0], bounds(of, Strategies.of(whole))[0]
    assert bound == pytest.approx(full) and bound <= simulate(of, uneven).step_time


class Lines:
    """Lines below made-up prices, several for some groups and none for others."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def lines(
        self, kind: Kind, algorithm: str, ranks: int, exchange: int, stride: int = 1, *, hidden_setup: bool
    ) -> Any:
        self.asked.append((kind, algorithm, ranks, exchange, stride, hidden_setup))
        rng = np.random.default_rng(ranks + 10 * stride + 100 * exchange + len(algorithm))
        return [PriceLine(*rng.uniform(1, 9, 4) * (1, 1e-6, 1e6, 1e-6)) for _ in range(ranks % 4)]


@pytest.mark.parametrize("hidden", [False, True])
def test_collectives_take_the_least_of_their_own_lines(hidden: bool) -> None:
    """Nothing where nothing is sent or a rank is alone, infinite where nothing serves; lines are asked for once."""
    pricing: Any = Lines()
    priced = PriceLines(pricing, ("ring", "other"), hidden_setup=hidden)
    rng = np.random.default_rng(0)
    algorithm, ranks, stride, exchange = (rng.integers(low, high, 30) for low, high in ((0, 2), (1, 8), (1, 3), (0, 2)))
    nbytes = 10.0 ** rng.uniform(0, 10, (30, 3))
    nbytes[:, 1] *= rng.integers(0, 2, 30)
    for _ in range(2):
        found = priced("all-reduce", algorithm, ranks, stride, exchange, nbytes)
        asked = len(pricing.asked)
    assert len(set(pricing.asked)) == asked and {each[-1] for each in pricing.asked} == {hidden}
    assert all(each[2] > 1 for each in pricing.asked)
    for row in range(30):
        name = ("ring", "other")[algorithm[row]]
        lines = Lines().lines(
            "all-reduce", name, int(ranks[row]), int(exchange[row]), int(stride[row]), hidden_setup=hidden
        )
        for column, size in enumerate(nbytes[row]):
            least = min((float(line(np.array([size]))[0]) for line in lines), default=np.inf)
            assert found[row, column] == (least if size and ranks[row] > 1 else 0)
    assert (priced("all-gather", algorithm, ranks, stride, exchange, nbytes[:, 0]) == found[:, 0]).all()


@pytest.mark.parametrize("proved", [False, True])
def test_bytes_count_once_where_groups_divide_channels_and_proofs_stand_for_schedules(
    proved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    on = cluster(4)

    class Flat(GroupPrices):
        """Lines at two heights."""

        def lines(self, *_: Any, **__: Any) -> Any:
            return [PriceLine(2.0, 0.0, 2.0, 0.0)]

        def proved_lines(self, *_: Any, **__: Any) -> Any:
            return [PriceLine(1.0, 0.0, 1.0, 0.0)]

    def slope(_: object, kind: Kind, ranks: int, stride: int, exchange: int) -> float:
        return 1e-3 * (ranks + 10 * stride + 100 * exchange)

    monkeypatch.setattr(strategies, "slope", slope)
    prices, one = Flat(on.fabric, on.training), np.ones(3, np.int64)
    ranks, nbytes = np.array([2, 4, 1]), np.array([[100.0, 1e6]] * 3)
    for divided in (False, True):
        lines = PriceLines(prices, ("ring",), hidden_setup=False, divided=divided, proved=proved)
        found: Floats = lines("all-reduce", 0 * one, ranks, 2 * one, 0 * one, nbytes)
        least = 1.0 if proved else 2.0
        wanted = [[max(least, divided * 1e-3 * (n + 20) * size) for size in (100.0, 1e6)] for n in (2, 4)]
        assert found == pytest.approx(np.array([*wanted, [0.0, 0.0]]))


def test_memory_of_rows_is_that_of_each_alone() -> None:
    """Whatever was asked before, of other methods and nodes too."""
    of = replace(job(2, 8, model=mixture), exchanges=(by_name("diloco:inner=int4"),))
    rows = space(of, (16, 64))
    rows = rows.rows(np.random.default_rng(2).permutation(len(rows))[:40])
    rows.exchange[::3] = 1
    held = memory(of, rows)
    fresh = replace(job(2, 8, model=mixture), exchanges=of.exchanges)
    assert held.tolist() == [memory(fresh, Strategies.of(rows[row]))[0] for row in range(len(rows))]
    other = replace(of, exchanges=(by_name("int8"),))
    without = rows.rows(np.arange(len(rows)))
    without.exchange[:] = 0
    assert (memory(other, rows) == memory(of, without)).all() and (memory(other, rows) != held).any()
