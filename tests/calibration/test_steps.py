"""The closed form of a step: laws that it keeps."""

from __future__ import annotations

import numpy as np
import pytest

from lightloom.machines.accelerators.load import load_accelerator
from lightloom.planning.calibration.rows import MeasuredStep, jobs_of, priors_of, step_seconds
from tests.calibration.samples import step


def seconds(*steps: MeasuredStep, **values: float) -> list[float]:
    machine = load_accelerator("a100")
    priors = priors_of(machine)
    jobs = jobs_of(steps, machine)
    chosen = priors.values(priors.center) | values
    return [float(time) for time in jobs.fastest(step_seconds(jobs, chosen))[0]]


def test_no_step_beats_its_products_at_the_peak() -> None:
    (time,) = seconds(step())
    blocks = 24 * (4 * 4096**2 + 2 * 4096 * 16384)
    flops = 6 * 64 * 2048 * (blocks + 50304 * 4096)
    assert flops / 16 / 312e12 < time < 4 * flops / 16 / 312e12


def test_recomputation_costs_up_to_a_forward_pass() -> None:
    none, selective, full = seconds(*(step(recomputation=kind) for kind in ("none", "selective", "full")))
    assert none < selective < full < 4 / 3 * none


def test_what_slows_a_step() -> None:
    base, batch, slow_network, no_flash, virtual = seconds(
        step(),
        step(global_batch=128),
        step(node_network_gbps=100),
        step(attention="flash"),
        step(virtual_stages=2),
    )
    assert 1.7 < batch / base < 2
    assert slow_network > base
    assert no_flash < base
    assert virtual < base


def test_a_smaller_last_micro_batch_costs_its_own_size() -> None:
    even, uneven, odd = seconds(*(step(pp=1, gpus=8, micro_batch=4, global_batch=batch) for batch in (64, 72, 80)))
    assert even < uneven < odd
    # Two of four sequences take about half as long as four.
    assert (uneven - even) / (odd - even) == pytest.approx(0.5, abs=0.1)


def test_sharding_moves_parameters_and_divides_the_update() -> None:
    shared = {"tp": 1, "pp": 1, "micro_batch": 1, "global_batch": 16, "node_network_gbps": 100}
    for ranks in (8, 16):
        places = {"dp": ranks, "gpus": ranks, **shared}
        none, first, third = seconds(*(step(sharding=kind, **places) for kind in ("none", "zero-1", "zero-3")))
        # On two nodes a tree's all-reduce sends half of what a ring's scatter and gather do.
        assert (first < none) == (ranks == 8)
        assert third > first


def test_every_parameter_but_unused_ones_matters() -> None:
    machine = load_accelerator("a100")
    priors = priors_of(machine)
    sharded = step(sharding="zero-3", pp=1, tp=1, dp=64, gpus=64, attention="flash")
    jobs = jobs_of([step(), sharded, step(vocabulary=50257)], machine)
    center = priors.values(priors.center)
    base = step_seconds(jobs, center)
    for name, value in center.items():
        moved = step_seconds(jobs, center | {name: value * 0.7})
        assert np.isfinite(moved).all()
        assert name == "dispatch" or (moved != base).any(), name


def test_sharded_stages_of_a_pipeline_gather_for_every_micro_batch() -> None:
    shared = {"dp": 8, "tp": 2, "pp": 2, "gpus": 32, "global_batch": 64, "node_network_gbps": 20}
    second, third = seconds(*(step(sharding=kind, **shared) for kind in ("zero-2", "zero-3")))
    assert third > 2 * second
