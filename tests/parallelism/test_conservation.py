"""What a plan must conserve, whatever the graph and the sizes."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.core.errors import UnknownNameError
from lightloom.machines.clusters.cluster import TrainingSettings
from lightloom.models.graph import ComputeGraph
from lightloom.planning.parallelism.plan import STRATEGIES, data_parallel, make_plan, sharded
from tests.parallelism.strategies import chain, graphs

MiB = 2.0**20
sizes = st.builds(
    TrainingSettings,
    bucket_size=st.sampled_from([0.0, MiB, 25 * MiB, 1e12]),
    first_bucket_size=st.sampled_from([0.0, MiB, 1e12]),
    unit_parameters=st.sampled_from([1, 300_000, 20_000_000]),
    prefetch=st.integers(0, 3),
)


@settings(deadline=None)
@given(graph=graphs(), settings=sizes)
def test_ddp_exchanges_each_gradient_once(graph: ComputeGraph, settings: TrainingSettings) -> None:
    plan = data_parallel(graph, 8, settings)
    assert sum(exchange.nbytes for exchange in plan.exchanges) == graph.parameters * settings.gradient_bytes
    members = [name for group in plan.groups for name in group.operators]
    assert members == [op.name for op in reversed(graph.operators) if op.parameters]
    assert [e.starts_after for e in plan.exchanges] == sorted(e.starts_after for e in plan.exchanges)


@settings(deadline=None)
@given(graph=graphs(), settings=sizes)
def test_a_bucket_is_closed_as_soon_as_it_is_full(graph: ComputeGraph, settings: TrainingSettings) -> None:
    plan = data_parallel(graph, 8, settings)
    for index, group in enumerate(plan.groups):
        mark = settings.bucket_size if index else min(settings.first_bucket_size, settings.bucket_size)
        if index < len(plan.groups) - 1:
            assert group.parameters * settings.gradient_bytes >= mark
        crossing = plan.graph.operator(group.operators[-1]).parameters
        before = (group.parameters - crossing) * settings.gradient_bytes
        assert before < mark or len(group.operators) == 1


@settings(deadline=None)
@given(graph=graphs(), settings=sizes)
def test_fsdp_gathers_twice_but_for_the_last_unit_and_scatters_once(
    graph: ComputeGraph, settings: TrainingSettings
) -> None:
    plan = sharded(graph, 8, settings)
    total = {kind: sum(e.nbytes for e in plan.exchanges if e.kind == kind) for kind in ("all-gather", "reduce-scatter")}
    last = plan.groups[-1].parameters if plan.groups else 0
    assert total["all-gather"] == settings.sharded_parameter_bytes * (2 * graph.parameters - last)
    assert total["reduce-scatter"] == settings.sharded_gradient_bytes * graph.parameters
    covered = [i for group in plan.groups for i in range(group.first, group.last + 1)]
    assert covered == (list(range(len(graph.operators))) if plan.groups else [])


@settings(deadline=None)
@given(graph=graphs(), settings=sizes)
def test_no_more_units_are_gathered_ahead_than_prefetch_allows(graph: ComputeGraph, settings: TrainingSettings) -> None:
    plan = sharded(graph, 8, settings)
    for exchange in plan.exchanges:
        if exchange.kind != "all-gather":
            continue
        is_forward = exchange.needed_by < len(graph.operators)
        begins = [g.first if is_forward else 2 * len(graph.operators) - 1 - g.last for g in plan.groups]
        between = [b for b in begins if exchange.starts_after < b < exchange.needed_by]
        assert len(between) <= settings.prefetch


@settings(deadline=None)
@given(graph=graphs(), ranks=st.integers(2, 64))
def test_sharding_divides_the_state(graph: ComputeGraph, ranks: int) -> None:
    whole, part = (make_plan(s, graph, ranks).memory for s in ("ddp", "fsdp"))
    assert math.isclose(part.parameters * ranks, whole.parameters)
    assert math.isclose(part.optimizer * ranks, whole.optimizer)
    assert part.activations == whole.activations


def test_default_buckets_follow_pytorch() -> None:
    # float32 gradients of 0.8, 0.8, 24, 4 and 12 MiB, backward: 1 MiB is passed by the second, 25 MiB by the
    # fourth
    sizes_in_mib = [12, 4, 24, 0.8, 0.8]
    graph = chain([(int(size * 2**18), 1, 1) for size in sizes_in_mib])
    plan = data_parallel(graph, 4, TrainingSettings())
    assert [group.operators for group in plan.groups] == [("op4", "op3"), ("op2", "op1"), ("op0",)]
    assert [e.starts_after for e in plan.exchanges] == [9 - 3, 9 - 1, 9 - 0]


def test_adam_in_float32_holds_sixteen_bytes_a_parameter() -> None:
    memory = data_parallel(chain([(1000, 1, 0)]), 4, TrainingSettings()).memory
    assert memory.total == 16_000


def test_a_plan_refuses_a_lost_parameter_and_an_exchange_that_comes_too_late() -> None:
    plan = data_parallel(chain([(10, 1, 1), (10, 1, 1)]), 4, TrainingSettings())
    with pytest.raises(AssertionError, match="exactly one group"):
        replace(plan, groups=())
    late = replace(plan.exchanges[0], needed_by=0)
    with pytest.raises(AssertionError, match="needed before it can start"):
        replace(plan, exchanges=(late,))


def test_unknown_strategy() -> None:
    with pytest.raises(UnknownNameError, match="expected one of ddp, fsdp"):
        make_plan("ddpp", chain([(1, 1, 1)]), 4)
    assert list(STRATEGIES) == ["ddp", "fsdp"]
