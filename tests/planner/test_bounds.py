"""No bound lies above the simulated step, lines lie below prices, and columns say what the plans themselves say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.collectives.collective import Kind
from lightloom.machines.clusters.load import load_cluster
from lightloom.planning.parallelism.operators import passes, times_and_launches
from lightloom.planning.parallelism.plan import RECOMPUTATIONS, local_graph, make_plan, repeated_operators
from lightloom.planning.parallelism.strategy_space import (
    HYBRID,
    KIND_OF_SHARDING,
    NONE,
    ZERO_1,
    Strategies,
)
from lightloom.planning.pricing.group_prices import GroupPrices
from lightloom.planning.pricing.job import Job
from lightloom.planning.pricing.strategy_step import exact_stage_times, simulate
from lightloom.planning.search.bounds import (
    PriceLines,
    admitted,
    bounds,
    memory,
    pipeline_bound,
)
from lightloom.planning.simulation.engine import Price, Priced, run
from lightloom.planning.simulation.pipelined import PipelinedStep, StageTimes, lower_pipelined
from tests.planner.gradients.exchanges import by_name, coded
from tests.planner.jobs import (
    Model,
    cluster,
    hiddens,
    job,
    mixture,
    models,
    space,
    transformer,
    verified_job,
    with_model,
)
from tests.simulation.prices import linear, prices
from tests.simulation.stages import OF_STAGES

ALGORITHMS = ("ring-two-way-striped", "optree-striped", "recursive-doubling-striped", "one-stage-striped")


@settings(max_examples=40, deadline=None)
@given(hiddens, models, st.integers(1, 5), st.sampled_from([1, 2, 4, 8]), prices, st.booleans(), st.data())
def test_no_step_is_shorter_than_its_bound(
    hidden: int, model: Model, blocks: int, factor: int, price: Price, kernels: bool, data: st.DataObject
) -> None:
    of = job(blocks, 8, price, hidden, model, kernels=kernels)
    rows = space(of, batches=(8 * factor, 64))
    some = rows.rows(np.array(sorted(data.draw(st.sets(st.integers(0, len(rows) - 1), min_size=6, max_size=6)))))
    plain = rows.rows(rows.plain)
    for each in (some, plain):
        for row, bound in enumerate(bounds(of, each)):
            assert bound <= simulate(of, each[row]).step_time


@pytest.mark.long
@pytest.mark.parametrize(
    ("model", "bandwidth"),
    [(mixture, 1e8), *(pytest.param(*case, marks=pytest.mark.slow) for case in ((transformer, 1e10), (mixture, 1e12)))],
)
def test_bounds_leave_the_fastest_row_whatever_it_is(model: Model, bandwidth: float) -> None:
    of = job(8, 4, linear(bandwidth, 1e-6, setup=25e-6), 1024, model)
    rows = space(of, batches=(16,))
    for column, most in (("virtual_stages", 4), ("sequence_parallel", 1), ("ep", 4 if model is mixture else 1)):
        assert getattr(rows, column).max() == most
    simulated = np.array([simulate(of, rows[row]).step_time for row in range(len(rows))])
    least = bounds(of, rows)
    assert (least <= simulated).all()
    best = np.inf
    for row in np.argsort(least, kind="stable"):
        if least[row] >= best:
            break
        best = min(best, simulated[row])
    assert best == simulated.min()


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 5), st.integers(1, 7), st.integers(1, 3), st.data())
def test_the_recurrence_holds_for_uneven_chunks(stages: int, turns: int, virtual: int, data: st.DataObject) -> None:
    if stages == 1:
        virtual = 1
    micro_batches = turns if virtual == 1 else turns * stages
    seconds = st.sampled_from([0.0, 0.1, 1.0, 3.0, 10.0])
    counts = dict.fromkeys(StageTimes.__dataclass_fields__, stages * virtual)
    counts |= dict.fromkeys(OF_STAGES, stages)
    times = {
        name: np.array(data.draw(st.lists(seconds, min_size=count, max_size=count))) for name, count in counts.items()
    }
    times["send"][0] = 0.0
    times["lead"] = np.minimum(times["lead"], 1.0)
    simulated = run(lower_pipelined(PipelinedStep(times=StageTimes(**times), micro_batches=micro_batches))).step_time
    columns = StageTimes(**{name: each[None] for name, each in times.items()})
    assert pipeline_bound(columns, np.array([micro_batches]))[0] <= simulated * (1 + 1e-12)


def test_bounds_are_reached_where_one_kind_of_time_decides() -> None:
    of = job(4)
    rows = space(of, (64,))
    rows = rows.rows(np.arange(0, len(rows), 3))
    ratio = [simulate(of, rows[row]).step_time / bound for row, bound in enumerate(bounds(of, rows))]
    assert min(ratio) == pytest.approx(1, rel=1e-6) and np.median(ratio) < 1.05


@pytest.mark.parametrize("parameters", [1, 0])
@pytest.mark.parametrize("bandwidth", [1e7, 1e9, 1e10, 1e15])
def test_bounds_of_replicas_are_their_steps(bandwidth: float, parameters: int) -> None:
    """Exchanges in line behind the backward pass, which bound it exactly; none where there are no parameters."""
    of = job(2, 4, linear(bandwidth))
    operators = (replace(each, parameters=parameters * each.parameters) for each in of.graph.operators)
    of = with_model(of, graph=replace(of.graph, operators=tuple(operators)))
    rows = space(of, (16, 64))
    rows = rows.rows(rows.plain)
    seconds = [simulate(of, rows[row]).step_time for row in range(len(rows))]
    found = bounds(of, rows)
    replicated = rows.sharding == NONE
    assert found[replicated] == pytest.approx(np.array(seconds)[replicated], rel=1e-8)
    assert len({round(each, 12) for each in seconds}) > 1
    assert (found <= seconds).all()
    if not parameters or bandwidth == 1e15:
        assert found == pytest.approx(np.array(seconds), rel=1e-3)


@pytest.fixture(scope="module")
def verified() -> Job:
    on = cluster(16)
    exchanges = (
        coded(3.0, "nic", 3.2e9),
        by_name("int4", rate=5e9, message=1e-5),
        by_name("diloco:every=20", rate=5e9),
    )
    pricing = GroupPrices(on.fabric, on.training, exchanges=exchanges)
    return Job.of(transformer(4), on.accelerator, on.fabric, on.training, pricing, exchanges=exchanges)


def test_lines_stay_below_verified_prices(verified: Job) -> None:
    assert isinstance(verified.pricing, GroupPrices)
    hidden, paid = (PriceLines(verified.pricing, ALGORITHMS, hidden_setup=each) for each in (True, False))
    sizes = np.array([[1.0, 4095.0, 4096.0, *2.0 ** np.arange(13, 38), 3e11]])
    one = np.ones(1, np.int64)
    for index, name in enumerate(ALGORITHMS):
        for ranks, exchange in ((4, 0), (16, 0), (16, 1), (16, 2), (16, 3)):
            price = verified.pricing.price(name, ranks, exchange)
            exact = [price("all-reduce", size).cost for size in sizes[0]]
            least = np.array([each.time - each.setup for each in exact])
            repeated = np.array([each.repeated_time for each in exact])
            for lines, seconds in ((hidden, least), (paid, repeated)):
                below = lines("all-reduce", one * index, one * ranks, one, np.array([exchange]), sizes)[0]
                assert (below <= seconds * (1 + 1e-9)).all()
                assert (below[2:] >= 0.5 * seconds[2:]).all()


@pytest.mark.parametrize("model", [pytest.param(transformer, marks=pytest.mark.slow), mixture])
def test_no_step_at_verified_prices_is_shorter_than_its_bound(verified: Job, model: Model) -> None:
    verified = with_model(verified, graph=model(4, 256))
    rows = space(verified, (64,), ALGORITHMS)
    rows = rows.rows(admitted(verified, rows))
    away = rows.ep > 1
    # Whatever carries the gradients, tokens go straight to their experts.
    assert set(rows.algorithm[away]) == (set(range(len(ALGORITHMS))) if model is mixture else set())
    straight, others = (verified.pricing.price(name, 4, 0) for name in (ALGORITHMS[-1], ALGORITHMS[1]))
    assert others("all-to-all", 1e6) == straight("all-to-all", 1e6)
    alone = rows.rows((rows.tp * rows.pp * rows.ep * rows.cp == 1) & (rows.sharding == NONE))
    alone = alone.rows(np.arange(0, len(alone), max(len(alone) // 8, 1)))
    rows = rows.rows(np.arange(0, len(rows), 421 if model is transformer else 1499))
    exchanged = rows.rows((rows.dp > 1) & (rows.sharding != HYBRID) & (rows.sharding != ZERO_1))
    exchanged.exchange[:], alone.exchange[:] = 1, 2 + np.arange(len(alone)) % 2
    assert admitted(verified, alone).all() and set(alone.exchange.tolist()) == {2, 3}
    for each in (rows, exchanged, alone):
        for row, bound in enumerate(bounds(verified, each)):
            assert bound <= simulate(verified, each[row]).step_time


@pytest.mark.parametrize("model", [pytest.param(transformer, marks=pytest.mark.slow), mixture])
def test_bounds_hold_where_groups_lie_in_and_across_domains(model: Model) -> None:
    on = load_cluster("h100-512-two-tier", set={"ranks": 32})
    of = verified_job(model(8, 256), on)
    rows = space(of, (64,), ("ring-two-way",))
    assert admitted(of, rows).all()
    for index in range(0, len(rows), 53 if model is transformer else 127):
        row = rows.rows(np.array([index]))
        assert bounds(of, row)[0] <= simulate(of, row[0]).step_time


def test_groups_that_lie_apart_pay_for_the_network_between_domains() -> None:
    on = load_cluster("h100-512-two-tier", set={"ranks": 64})
    prices = GroupPrices(on.fabric, on.training)
    beside, spread, half = (prices.price("one-stage", 8, 0, stride) for stride in (1, 8, 2))
    across = on.fabric.pair(8)[0]
    assert across < on.fabric.total_receive_bandwidth() / 64
    times = [price("all-gather", 1e9).cost.time for price in (beside, half, spread)]
    assert times[0] < times[1] < times[2] == pytest.approx(7 / 8 * 1e9 / across, rel=0.01)
    assert prices.refusal("all-gather", "one-stage", 3, 0, 4) is not None


@given(st.integers(1, 70), st.booleans())
def test_columns_time_operators_as_the_simulator_does(batch: int, kernels: bool) -> None:
    of = job(2, kernels=kernels)
    one = np.ones(1, np.int64)
    local = local_graph(of.graph, of.settings.model_copy(update={"batch_per_rank": batch}))
    times, launches = times_and_launches(local, of.accelerator, of.settings.precision)
    for index, name in enumerate(RECOMPUTATIONS):
        forward, backward = of.operators.passes(one * batch, one, one * index)
        lowered = passes(times, launches, repeated_operators(local, name).astype(np.int64))
        assert [forward[0].tolist(), backward[0].tolist()] == [seconds.tolist() for seconds in lowered]


def test_columns_count_memory_as_the_plans_do() -> None:
    of = job(4)
    rows = space(of)
    rows = rows.rows(rows.plain & (rows.recomputation == 0))
    assert len(rows) == 4
    for row, held in enumerate(memory(of, rows)):
        strategy = rows[row]
        training = of.settings.model_copy(update={"batch_per_rank": strategy.samples})
        assert held == pytest.approx(
            make_plan(KIND_OF_SHARDING[strategy.sharding], of.graph, strategy.dp, training).memory.total
        )


def test_splitting_conserves_work_and_parameters() -> None:
    of = job(4)
    rows = space(of, (64,))
    for index in range(0, len(rows), 7):
        row = rows[index]
        edges = of.model.stages(row.pp * row.virtual_stages)
        whole, experts = of.model.held_parameters(Strategies.of(row), edges)
        copied = of.model.held_blocks(Strategies.of(row)).sum() - whole.sum()
        assert copied * row.tp == pytest.approx(of.graph.operators[0].parameters if row.pp > 1 else 0)
        assert whole.sum() * row.tp == pytest.approx(of.graph.parameters) and not experts.any()
        times = exact_stage_times(of, row)
        assert (times.forward_exchange.sum() > 0) == (row.tp > 1)
        exchanged = times.early_exchange.sum() + times.late_exchange.sum() + times.exchange.sum()
        assert (exchanged > 0) == (row.dp > 1 and row.sharding != "zero-3")
        assert np.count_nonzero(times.tied) == (2 if row.pp > 1 else 0)
        assert (times.gather.sum() > 0) == (row.dp > 1 and row.sharding in ("zero-1", "zero-2"))
        assert (times.forward_gather.sum() > 0) == (row.dp > 1 and row.sharding == "zero-3")
        assert np.count_nonzero(times.send) == row.pp * row.virtual_stages - 1
        assert len(times.forward) == row.pp * row.virtual_stages and len(times.update) == row.pp


def test_slices_of_the_sequence_move_the_same_bytes_and_hold_less() -> None:
    def price(kind: Kind, nbytes: float) -> Priced:
        return linear(1e10)(kind, nbytes if kind == "all-reduce" else nbytes / 2)

    of = job(4, price=price)
    rows = space(of, (64,))
    rows = rows.rows(rows.sequence_parallel & (rows.recomputation == 0))
    for index in range(0, len(rows), 3):
        slices = rows[index]
        whole = slices._replace(sequence_parallel=False)
        here, there = exact_stage_times(of, slices), exact_stage_times(of, whole)
        # The embedding's all-reduce forward and the head's backward become half a gather and half a scatter each way.
        assert here.forward_exchange.sum() == pytest.approx(there.forward_exchange.sum())
        assert here.backward_exchange.sum() == pytest.approx(there.backward_exchange.sum())
        assert (here.forward <= there.forward).all() and here.forward.sum() < there.forward.sum()
        assert (here.send * slices.tp >= there.send * (1 - 1e-12)).all()
        held, held_whole = (memory(of, Strategies.of(each))[0] for each in (slices, whole))
        assert held < held_whole


def test_sharing_experts_sends_tokens_instead_of_gradients() -> None:
    of = job(4, price=linear(1e10), model=mixture)
    rows = space(of, (64,))
    stride = rows.rows(rows.ep > 1)
    assert set(stride.ep.tolist()) == {2, 4} and not (space(job(4)).ep > 1).any()
    held_experts = sum(each.parameters for each in of.graph.operators if each.kind == "experts")
    for index in range(0, len(stride), 5):
        row = stride[index]
        at_home = row._replace(ep=1)
        edges = of.model.chunks(Strategies.of(row))
        whole, experts = of.model.held_parameters(Strategies.of(row), edges)
        assert experts.sum() * row.ep * row.tp == pytest.approx(held_experts)
        # Every rank of a tensor group has the routers.
        routers = (row.tp - 1) * sum(each.parameters for each in of.graph.operators if each.name.endswith("router"))
        assert (whole.sum() + experts.sum() * row.ep) * row.tp == pytest.approx(of.graph.parameters + routers)
        here, there = exact_stage_times(of, row), exact_stage_times(of, at_home)
        # Four blocks; tokens go and come back; rings that tensor groups leave interleaved are shared.
        tokens = of.model.columns.outputs(np.array([row.samples]))[0, 0] * (1 if row.sequence_parallel else row.tp)
        assert (here.forward_exchange - there.forward_exchange).sum() == pytest.approx(8 * tokens / 1e10)
        again = 2 if row.recomputation == "full" else 1
        assert (here.backward_exchange - there.backward_exchange).sum() == pytest.approx(8 * again * tokens / 1e10)
        assert (here.forward <= there.forward).all() and (here.backward <= there.backward).all()
        sent_here, sent_there = (
            (
                (each.early_exchange + each.late_exchange).sum() + each.exchange.sum(),
                each.forward_gather.sum() + each.backward_gather.sum(),
            )
            for each in (here, there)
        )
        assert row.plain is False and (row.tp > 1 or row.dp > row.ep or sent_here < sent_there)
        if row.sharding == "none":
            assert memory(of, Strategies.of(row))[0] < memory(of, Strategies.of(at_home))[0]


def test_more_stages_or_recomputing_hold_less() -> None:
    of = job(4)
    rows = space(of, (64,))
    held = {rows[index]: each for index, each in enumerate(memory(of, rows))}
    for row, each in held.items():
        if (
            row.recomputation == "full" and row.pp * row.virtual_stages < 4
        ):  # a stage of one block keeps all of it either way
            assert each < held[row._replace(recomputation="none")]
    alone = Strategies.of(rows[0]._replace(dp=1, pp=1, tp=4, micro_batches=4))
    deep = Strategies.of(rows[0]._replace(dp=1, pp=4, tp=4, micro_batches=4))
    assert memory(of, deep)[0] < memory(of, alone)[0]
