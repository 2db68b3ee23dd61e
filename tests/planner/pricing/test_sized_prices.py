"""Where every size has a schedule of its own: few are built, each carries what it was not built for, and circuits that
change between collectives are paid for."""

from __future__ import annotations

import pytest

from lightloom.collectives import registry
from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.collective import Collective, Kind
from lightloom.collectives.registry import algorithms, find
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.verify.verifier import verify
from lightloom.core.errors import UnsupportedError
from lightloom.machines.clusters.cluster import Cluster
from lightloom.machines.clusters.load import load_cluster
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.load import load_fabric
from lightloom.models.graph import ComputeGraph, Operator
from lightloom.planning.parallelism.plan import make_plan
from lightloom.planning.pricing import schedule_prices
from lightloom.planning.pricing.schedule_prices import SchedulePrices
from lightloom.planning.search.request import Pins, SearchRequest
from lightloom.planning.search.search import search
from lightloom.planning.simulation.engine import simulate_step
from tests.planner.jobs import transformer

KINDS: tuple[Kind, ...] = ("all-gather", "reduce-scatter", "all-reduce")


def cluster() -> Cluster:
    return load_cluster("terarack-64", set={"ranks": 16, "fabric.wavelengths": 8, "fabric.conversion_time": "1us"})


def uneven(parameters: tuple[int, ...]) -> ComputeGraph:
    """A chain of linear layers of these sizes, with next to nothing to compute."""
    operators = [
        Operator(
            name=f"layer{i}",
            kind="linear",
            inputs=(f"layer{i - 1}",) if i else (),
            dimensions={"sample": 1},
            forward_flops=2 * each,
            backward_flops=4 * each,
            parameters=each,
            parameter_bytes=4 * each,
            activation_bytes=4096,
            forward_bytes=4 * each,
            shared_bytes=4 * each,
            block="",
        )
        for i, each in enumerate(parameters)
    ]
    return ComputeGraph(name="uneven", batch=1, operators=tuple(operators))


@pytest.fixture
def prices() -> SchedulePrices:
    return SchedulePrices(find("synthesized"), cluster().fabric, "physical")


def test_sizes_of_one_octave_share_a_schedule_and_are_charged_for_their_own_bytes(prices: SchedulePrices) -> None:
    for kind in KINDS:
        assert {prices.built_for(kind, each) for each in (2.0**20, 1.5 * 2**20, 2.0**21 - 1)} == {2.0**20}
        times = [prices(kind, each).cost.time for each in (2.0**20, 1.5 * 2**20, 2.0**21 - 1)]
        assert times == sorted(times) and times[0] < times[-1]
        assert len({prices(kind, each).circuits for each in (2.0**20, 2.0**21 - 1)}) == 1
        carried = prices.schedule(kind, 1.5 * 2**20)
        assert carried.collective.nbytes == 1.5 * 2**20
        verify(carried, prices.fabric)
    assert SchedulePrices(find("ring"), prices.fabric, "physical").built_for("all-gather", 12345.0) == 0


def test_one_size_throughout_means_one_set_of_circuits_and_no_reconfiguration(prices: SchedulePrices) -> None:
    plan = make_plan("fsdp", uneven((21_000_000, 80_000_000, 3_000)), 16, cluster().training)
    sizes = {prices.built_for(each.kind, each.nbytes) for each in plan.exchanges}
    assert len(sizes) > 1
    for size in sizes:
        at = prices.at(size)
        assert len({at(each.kind, each.nbytes).circuits for each in plan.exchanges}) == 1
        assert simulate_step(plan, cluster().accelerator, at.fabric, at).busy_time["reconfiguration"] == 0


def test_the_planner_takes_the_faster_of_circuits_that_stay_and_circuits_that_suit(prices: SchedulePrices) -> None:
    graph, on = uneven((3_000, 21_000_000, 300_000)), cluster()
    request = SearchRequest(algorithms=("synthesized",), strategies=("ddp", "fsdp"), pins=Pins(recomputation="none"))
    ranking = [plan for plan in search(graph, on, request).ranking if plan.result is not None]
    assert len(ranking) == 2
    for found in ranking:
        assert found.result is not None
        plan = found.result.plan
        sizes = {prices.built_for(each.kind, each.nbytes) for each in plan.exchanges}
        options = [prices, *(prices.at(size) for size in sizes)]
        steps = [simulate_step(plan, on.accelerator, on.fabric, each).step_time for each in options]
        assert found.step_time == min(steps)


def test_circuits_that_differ_between_collectives_are_set_up_each_time(prices: SchedulePrices) -> None:
    plan = make_plan("ddp", uneven((3_000, 21_000_000, 300_000)), 16, cluster().training)
    circuits = [prices(each.kind, each.nbytes).circuits for each in plan.exchanges]
    changes = sum(circuits[i] != circuits[i - 1] for i in range(len(circuits)))
    assert changes > 0
    step = simulate_step(plan, cluster().accelerator, prices.fabric, prices)
    assert step.busy_time["reconfiguration"] == pytest.approx(changes * prices.fabric.setup_time)


def test_without_their_schedules_prices_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a schedule loads is kept and serves all sizes; where nothing says so, it is built again."""
    fabric, kind, sizes = load_fabric("terarack", 4), KINDS[-1], (2.0**20, 1.5 * 2**20)
    known = []
    for name in ("ring", "synthesized"):
        kept, fresh = (SchedulePrices(find(name), fabric, "physical") for _ in range(2))
        first = kept(kind, sizes[0])
        kept.drop_schedules()
        assert kept.cached == {(kind, kept.built_for(kind, sizes[0]), sizes[0]): first}
        assert all(built.schedule is None for built in kept._built.values())
        known.append(len(kept._built))
        with monkeypatch.context() as patched:
            if kept._built:
                patched.setattr(schedule_prices, "build_with_loads", None)
            found = kept(kind, sizes[1])
        assert found == fresh(kind, sizes[1])
        verify(kept.schedule(kind, sizes[1]), fabric)
    assert known == [1, 0]


def _broken(collective: Collective, fabric: Fabric, *, striped: bool = False) -> Schedule:
    raise IndexError(f"rank {fabric.ranks} of {collective.ranks}")


@pytest.mark.parametrize("strategy", ["fsdp", pytest.param("tensor-pipeline", marks=pytest.mark.slow)])
def test_an_algorithm_that_fails_at_a_size_is_left_out(monkeypatch: pytest.MonkeyPatch, strategy: str) -> None:
    faulty = Algorithm(name="faulty", build=_broken, summary="fails", by_size=True)
    every = algorithms() | {"faulty": faulty}
    for module in ("collectives.registry", "planning.search.rows", "planning.search.search"):
        monkeypatch.setattr(f"lightloom.{module}.algorithms", lambda: every)
    assert registry.find("faulty") is faulty
    names = ("faulty", "ring-two-way-striped")
    result, without = (
        search(transformer(2), cluster(), SearchRequest(strategies=(strategy,), algorithms=some, global_batches=(32,)))
        for some in (names, names[1:])
    )
    assert result.winner.algorithms == ("ring-two-way-striped",)
    assert result.winner.step_time == without.winner.step_time
    with pytest.raises(UnsupportedError, match="faulty raises IndexError: rank"):
        search(transformer(2), cluster(), SearchRequest(strategies=(strategy,), algorithms=names[:1]))
