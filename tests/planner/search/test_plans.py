"""What plans say of themselves, which of them are shown, and how far their times may be off."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from math import exp, inf, log
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lightloom.machines.clusters.load import load_cluster
from lightloom.planning.parallelism.strategy_space import Strategy
from lightloom.planning.pricing.group_prices import GroupPrices
from lightloom.planning.pricing.job import Belief, Job, belief_of
from lightloom.planning.pricing.library_prices import LibraryPricing
from lightloom.planning.pricing.placed_space import PlacedChoice
from lightloom.planning.search import plans
from lightloom.planning.search.plans import (
    Counts,
    Interval,
    PlanSearch,
    _log_seconds,
    _moved,
    _named,
    _Slopes,
    plan_intervals,
)
from lightloom.planning.search.request import SearchRequest
from lightloom.planning.search.search import search
from tests.planner.jobs import transformer

WHOLE = Strategy(4, 1, 1, 1, 8, "none", "none", "ring", 0)
PLACED = PlacedChoice(2, 2, 1e-6, 8, 1, 1.0)


@cache
def found() -> PlanSearch:
    """Data parallelism and placed plans of a small transformer, each with both recomputations."""
    on = load_cluster("terarack-64", set={"ranks": 2})
    kinds = ("ddp", "tensor-pipeline", "placed")
    request = SearchRequest(
        global_batches=(4,), strategies=kinds, algorithms=("ring",), prune=False, compare=False, quanta=(1e-5,)
    )
    return search(transformer(1), on, request)


def shown(ranking: tuple[Any, ...], reference: tuple[Any, ...] = ()) -> PlanSearch:
    """A search that found these."""
    asked: Any = {"graph": transformer(1), "clusters": (), "request": SearchRequest(), "global_batches": (8,)}
    return PlanSearch(**asked, ranking=ranking, reference=reference, refused=(), counts=Counts(), refusals=())


LEDGER = SimpleNamespace(cluster=SimpleNamespace())


def plan_of(choice: Any, step_time: float = 1.0, strategy: str = "ddp", **more: Any) -> Any:
    """A plan as far as a ranking looks at it."""
    given = {"ledger": LEDGER} | more
    return SimpleNamespace(choice=choice, step_time=step_time, strategy=strategy, **given)


def test_a_plan_fits_up_to_the_last_byte() -> None:
    plan = found().winner
    chip = plan.cluster.accelerator
    for capacity, fits in ((plan.memory, True), (plan.memory - 1, False), (plan.memory + 1, True), (None, None)):
        small = replace(plan.cluster, accelerator=chip.model_copy(update={"memory": capacity}))
        assert replace(plan, cluster=small).fits is fits


def test_plans_know_their_kind_and_their_rates() -> None:
    kinds = set()
    for plan in found().ranking:
        kinds.add(plan.strategy)
        placed = isinstance(plan.choice, PlacedChoice)
        assert (plan.placed is None, plan.communication_time is None) == (not placed, placed)
        assert plan.sample_time * 4 == pytest.approx(plan.step_time) and plan.regranted is None is plan.in_step
        assert plan.samples_per_second == pytest.approx(4 / plan.step_time)
        plain = plan.strategy == "ddp"
        assert (plan.result is not None, plan.spent is not None) == (plain, plan.strategy == "tensor-pipeline")
        assert (plan.prices is not None) == plain
        assert (plan.memory_use is not None) == (plain and plan.choice.recomputation == "none")
        assert plan.algorithm == (plan.exchanges[0].algorithm if plan.exchanges else "none")
        assert plan.label == plan.short_label
    assert kinds == {"ddp", "tensor-pipeline", "placed"}
    step: Any = SimpleNamespace(step_time=0.0)
    still = replace(found().winner, step=step)
    assert still.samples_per_second == inf and found().utilization(still) == 0
    assert [_named(tuple("abcd"[:count])) for count in range(5)] == [
        "",
        "a",
        "a + b",
        "a + b + 1 more",
        "a + b + 2 more",
    ]


def test_utilization_counts_the_passes_of_a_batch_once_and_on_demand_those_that_are_repeated() -> None:
    graph = found().graph
    first, *others = graph.operators
    again = tuple(replace(each, recomputed_flops=each.forward_flops // 8) for each in others if each.block)
    outside = tuple(each for each in others if not each.block)
    whole = replace(found(), graph=replace(graph, operators=(first, *again, *outside)))
    peak = 2 * found().clusters[0].accelerator.peak_rate(found().clusters[0].training.precision)
    kinds = set()
    for plan in whole.ranking:
        forward = sum(each.forward_flops for each in whole.graph.operators)
        backward = sum(each.backward_flops for each in whole.graph.operators)
        repeated = sum(each.recomputed_flops for each in whole.graph.operators)
        inside = sum(each.forward_flops for each in whole.graph.operators if each.block)
        more = inside if plan.choice.recomputation == "full" else 0
        kinds.add(plan.choice.recomputation)
        seconds = plan.step_time / 4 * graph.batch * peak
        assert whole.utilization(plan) == pytest.approx((forward + backward - repeated) / seconds)
        assert whole.utilization(plan, hardware=True) == pytest.approx((forward + backward + more) / seconds)
    assert kinds == {"none", "full"}


def test_intervals_are_those_of_the_first_plans_of_each_kind_of_each_cluster_and_of_the_reference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[Any, list[Any]]] = []
    monkeypatch.setattr(plans, "plan_intervals", lambda winner, some: asked.append((winner, list(some))))
    ranking = (
        *(plan_of(WHOLE) for _ in range(13)),
        plan_of(WHOLE, ledger=SimpleNamespace(cluster=SimpleNamespace())),
        plan_of(WHOLE, strategy="fsdp"),
        plan_of(PLACED, strategy="placed"),
    )
    reference = tuple(plan_of(WHOLE) for _ in range(5))
    _ = shown(ranking, reference).intervals
    (winner, some) = asked[0]
    wanted = [*ranking[:12], *ranking[14:], ranking[13], *reference[:3]]
    assert winner is ranking[0] and [id(plan) for plan in some] == [id(plan) for plan in wanted]


def test_the_first_plan_of_every_cluster_is_kept() -> None:
    clusters = [SimpleNamespace(), SimpleNamespace(), SimpleNamespace()]
    made = [plan_of(WHOLE, ledger=SimpleNamespace(cluster=clusters[at])) for at in (1, 1, 0, 1, 2, 2)]
    of = shown(tuple(made[:4]), tuple(made[4:]))
    assert [id(plan) for plan in of.first_of_clusters] == [id(made[at]) for at in (0, 2, 4)]
    assert of.best_of("ddp") is made[0] and of.best_of("placed") is None


def test_intervals_lie_around_the_time_and_tell_plans_apart_beyond_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Interval(2 / 1.5, 2 * 1.5, False, 0.5).half_width == pytest.approx((1.5 - 1 / 1.5) / 2)
    belief = Belief(("a", "b"), np.diag([0.04, 0.09]), 0.1, "made up")

    def priced(seconds: float, slopes: tuple[float, float], cluster: object = "here") -> Any:
        plan: Any = SimpleNamespace(step_time=8 * seconds, sample_time=seconds, cluster=cluster)
        return _Slopes(plan, belief, np.array(slopes))

    one = priced(1.0, (1.0, 0.5))
    width = np.sqrt(1.645**2 * (0.04 + 0.25 * 0.09) + 0.01)
    assert one.half_width == pytest.approx(width)
    wider = np.sqrt(1.645**2 * 4 * 0.09 + 0.01)
    for cluster, slopes, between in (
        ("here", (1.0, 0.5), np.sqrt(2) * 0.1),
        ("here", (1.0, 1.5), np.sqrt(1.645**2 * 0.09 + 2 * 0.01)),
        ("there", (0.0, 2.0), np.hypot(width, wider)),
    ):
        for factor, apart in ((0.99, False), (1.01, True)):
            for sign in (1, -1):
                other = priced(exp(sign * factor * between), slopes, cluster)
                assert (other.distance(one) > 1) == apart
    near, far, idle, unknown = (priced(seconds, (1.0, 0.5)) for seconds in (1.01, 3.0, 0.0, 2.0))
    known = {id(each.plan): each for each in (one, near, far, idle)}
    monkeypatch.setattr(plans, "_with_slopes", lambda plan: known.get(id(plan)))
    told = plan_intervals(one.plan, [each.plan for each in (one, near, far, idle, unknown)])
    assert set(told) == {id(one.plan), id(near.plan), id(far.plan)}
    assert [told[id(each.plan)].apart for each in (one, near, far)] == [False, False, True]
    holds = [told[id(each.plan)].order_holds for each in (one, near, far)]
    assert holds[0] == 0.5 and 0.5 < holds[1] < 0.9 and holds[2] > 0.95
    for each in (one, far):
        time = each.plan.step_time
        assert told[id(each.plan)][:2] == pytest.approx((time / exp(width), time * exp(width)))
    assert plan_intervals(unknown.plan, [one.plan])[id(one.plan)].apart


def test_parameters_are_moved_down_one_by_one_and_those_of_links_where_a_library_sends() -> None:
    on = load_cluster("h100-512-two-tier", set={"ranks": 2})
    job = Job.of(transformer(1), on.accelerator, on.fabric, on.training, GroupPrices(on.fabric, on.training))
    belief, kernels, library = belief_of(on.accelerator, on.fabric), on.accelerator.kernels, on.fabric.library
    assert belief is not None and kernels is not None and library is not None
    links = library.transport.priors()
    assert {name for name in belief.names if name in links} and {name for name in belief.names if name not in links}
    for name in belief.names:
        for by_library in (False, True):
            moved = _moved(job, name, by_library=by_library)
            changed = moved.accelerator.kernels
            assert changed is not None and isinstance(moved.pricing, LibraryPricing) == by_library
            if name in links:
                assert moved.accelerator == on.accelerator and (moved.fabric == on.fabric) != by_library
                if by_library:
                    values = moved.fabric.library.transport.priors()  # type: ignore[union-attr]
                    ratios = {each: values[each].value / links[each].value for each in links if links[each].value}
                    assert {each for each, ratio in ratios.items() if ratio != 1} == {name}
                    assert 0.99 < ratios[name] < 1
            else:
                assert moved.fabric == on.fabric and 0.99 < getattr(changed, name) / getattr(kernels, name) < 1
                assert changed.model_copy(update={name: getattr(kernels, name)}) == kernels
            assert by_library or moved.pricing is job.pricing
    still = _moved(job, "", by_library=True)
    assert still.accelerator == on.accelerator and still.fabric == on.fabric


def test_placed_plans_move_as_the_sum_of_their_operators() -> None:
    plan = next(each for each in found().ranking if each.strategy == "placed" and each.choice.recomputation == "none")
    job = plan.job
    one, samples = np.ones(1, np.int64), np.array([plan.choice.samples])
    computing = sum(float(each.sum()) for each in job.operators.passes(samples, one, 0 * one))
    share = plan.breakdown["compute_s"] / plan.step_time
    assert 0 < share <= 1 and _log_seconds(plan, job) == pytest.approx(share * log(computing))
