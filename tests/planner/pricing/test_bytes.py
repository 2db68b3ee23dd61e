"""Bytes that the ranks of a stage send, worked out from parameters, channels and degrees."""

from __future__ import annotations

import numpy as np
import pytest

from lightloom.planning.parallelism.strategy_space import Strategies, Strategy
from lightloom.planning.parallelism.tensor_parallel import TiedTable
from lightloom.planning.pricing.job import Crossing, Job
from lightloom.planning.pricing.step import _faster, tied_seconds, tied_sums
from lightloom.planning.reconfiguration.in_step import _sends
from lightloom.planning.reconfiguration.phases import StepBytes, step_bytes
from tests.planner.circuits.test_in_step import switched
from tests.planner.jobs import SEQUENCE

HIDDEN, VOCABULARY, BLOCKS = 256, 1000, 4


def _strategy(tp: int, pp: int, sharding: str = "none", micro_batches: int = 4) -> Strategy:
    return Strategy(16 // tp // pp, tp, pp, micro_batches, 64, sharding, "none", "auto", 0)


def bytes_of_step(job: Job, strategy: Strategy, early: float) -> StepBytes:
    return step_bytes(job, strategy, np.full(strategy.pp, early), _sends(job, strategy))


@pytest.mark.parametrize(("tp", "pp"), [(1, 1), (1, 2), (2, 2), (4, 1), (2, 4)])
@pytest.mark.parametrize("sharding", ["none", "zero-1", "zero-2"])
def test_gradients_and_parameters_of_replicas_are_exchanged_once(tp: int, pp: int, sharding: str) -> None:
    """Replicas of a tied table hold it on the first and on the last stage, and add up its gradients."""
    job, strategy = switched(1e-5)[0], _strategy(tp, pp, sharding)
    table = VOCABULARY * HIDDEN
    copies = table if pp > 1 else 0
    held = (sum(operator.parameters for operator in job.graph.operators) + copies) / tp
    share = (strategy.dp - 1) / strategy.dp
    gradients = {"none": 2 * job.settings.gradient_bytes, "zero-1": job.settings.gradient_bytes}
    in_all = share * held * gradients.get(sharding, job.settings.sharded_gradient_bytes)
    gathered = 0.0 if sharding == "none" else share * held * job.settings.sharded_parameter_bytes
    for early in (0.0, 1.0):
        found = bytes_of_step(job, strategy, early)
        # The same bytes unit by unit or all at once. One unit of each stage goes last, which with four stages is all.
        assert found["early_exchange"]["data"].sum() + found["late_exchange"]["data"].sum() == pytest.approx(in_all)
        assert found["early_exchange"]["data"].any() == (early > 0 and pp < 4)
        assert found["gather"]["data"].sum() == pytest.approx(gathered)
        tied = 2 * (2 - 1) / 2 * copies / tp * job.settings.gradient_bytes
        if sharding == "zero-2":
            tied *= job.settings.sharded_gradient_bytes / job.settings.gradient_bytes / strategy.dp
        expected = np.zeros(pp)
        expected[[0, -1]] = tied
        assert found["tied"]["pipeline"] == pytest.approx(expected)


@pytest.mark.parametrize(("tp", "pp", "micro_batches"), [(1, 2, 1), (2, 2, 4), (4, 1, 1), (2, 4, 2), (1, 1, 2)])
def test_a_micro_batch_is_summed_twice_a_block_each_way_and_sent_once_a_stage(
    tp: int, pp: int, micro_batches: int
) -> None:
    job, strategy = switched(1e-5)[0], _strategy(tp, pp, micro_batches=micro_batches)
    activation = strategy.samples * SEQUENCE * HIDDEN * 2
    found = bytes_of_step(job, strategy, 0.0)
    sums = np.full(pp, 2 * BLOCKS // pp)
    # The table adds one sum on its way in, and the head one on the way back.
    once = 2 * (tp - 1) / tp * activation
    assert found["forward_exchange"]["tensor"] == pytest.approx((sums + (np.arange(pp) == 0)) * once)
    assert found["backward_exchange"]["tensor"] == pytest.approx((sums + (np.arange(pp) == pp - 1)) * once)
    # Gathering slices takes no time here.
    assert found["send"]["pipeline"] == pytest.approx(np.where(np.arange(pp) > 0, activation / tp, 0))
    assert not found["forward_exchange"]["expert"].any() and not found["backward_exchange"]["expert"].any()


@pytest.mark.parametrize("seed", range(4))
def test_stages_send_the_faster_of_everything_and_of_slices_that_are_gathered(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, tp = Strategies.of(*(_strategy(tp, 2) for tp in (1, 2, 4))), (1, 2, 4)
    total = 1e3 * rng.integers(1, 9, (3, 3)).astype(np.float64)
    sliced = total * rng.integers(0, 3, (3, 3)).astype(np.float64) / 2
    gathering = rng.choice([1e-7, 5e-7, np.inf], (3, 3))
    rate, latency = np.array([1e9, 2e9, 5e9]), np.array([1e-6, 0.0, 3e-6])
    found = _faster(rows, Crossing(total, sliced), gathering, rate, latency)
    for row in range(3):
        for chunk in range(3):
            whole = total[row, chunk] - sliced[row, chunk] + sliced[row, chunk] / tp[row]
            ways = [(whole / rate[row] + latency[row], whole, 0.0)]
            slices = total[row, chunk] / tp[row]
            seconds = slices / rate[row] + latency[row] + gathering[row, chunk]
            ways.append((seconds, slices, total[row, chunk] - sliced[row, chunk]))
            best = min(ways, key=lambda way: way[0]) if chunk else (0.0, 0.0, 0.0)
            assert [column[row, chunk] for column in found] == pytest.approx(best)


def test_gradients_of_a_tied_table_go_around_its_holders_over_the_slowest_pair() -> None:
    job = switched(1e-5)[0]
    rows = Strategies.of(*(_strategy(1, 4, sharding) for sharding in ("none", "zero-1", "zero-2")))
    tables = [TiedTable(0, (5, 9), 600), TiedTable(1, (2,), 100)]
    edges = np.array([0, 4, 8, 9, 10])
    fabric = job.fabric
    rates = {4: (8.0, 1.0), 8: (5.0, 3.0), 12: (2.0, 2.0)}
    found = tied_sums(tables, edges, rows, fabric, job.settings, lambda stride: rates.get(stride, (2.0, 3.0)))
    # The second table lies on one stage; the first on stages 0, 1 and 3 of four ranks each.
    assert [each.stages for each in found] == [[0, 1, 3]]
    gradient, sharded = job.settings.gradient_bytes, job.settings.sharded_gradient_bytes
    nbytes = 2 * 2 / 3 * 600 * np.array([gradient, gradient, sharded / 4])
    assert found[0].nbytes == pytest.approx(nbytes)
    assert found[0].seconds == pytest.approx(nbytes / 2.0 + 4 * 3.0)
    seconds = tied_seconds(found, 3, 4)
    assert seconds[:, [0, 1, 3]] == pytest.approx(np.tile(found[0].seconds[:, None], 3))
    assert not seconds[:, 2].any()
