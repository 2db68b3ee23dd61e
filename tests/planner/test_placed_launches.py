"""Every device of a placed plan waits for its own host: cutting operators divides their work, not their launches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lightloom.planning.pricing.job import Job
from lightloom.planning.pricing.placed_space import PlacedChoice
from lightloom.planning.search.request import Pins, SearchRequest
from lightloom.planning.search.rows import PlacedPlans
from lightloom.planning.search.search import search
from tests.planner.jobs import transformer
from tests.planner.test_split_bounds import cluster_on, job_on

CHOICE = PlacedChoice(4, 2, 1e-9, 8, 4, 1.0)


def launching(job: Job, seconds: float) -> Job:
    """The job where a host launches a kernel in so many seconds."""
    kernels = job.accelerator.kernels
    assert kernels is not None
    slower = job.accelerator.model_copy(update={"kernels": kernels.model_copy(update={"dispatch": seconds})})
    return replace(job, accelerator=slower)


@pytest.mark.parametrize("recomputation", ["none", "full"])
def test_the_passes_of_a_device_take_as_long_as_launching_what_it_has(recomputation: str) -> None:
    job = launching(job_on(4, 8, 2, 256), 1e-3)
    plan = PlacedPlans(job).plan(CHOICE._replace(recomputation=recomputation))
    balanced, device = plan.balanced, plan.placement.device
    operator = np.array([job.graph.operators.index(job.graph.operator(name)) for name in balanced.operators])
    launches = job.operators.launches(np.array([int(recomputation == "full")]))
    for seconds, launched in zip((balanced.forward, balanced.backward), launches, strict=True):
        busy = np.bincount(device, seconds, 4)
        assert busy == pytest.approx(np.bincount(device, launched[0, operator[balanced.operator]], 4))
    # Parts are launched one by one: more in all than undivided operators.
    assert balanced.forward.sum() > launches[0].sum() * (1 + 1e-9)


def test_hosts_that_launch_at_once_leave_passes_as_they_are() -> None:
    job = launching(job_on(4, 8, 2, 256), 0.0)
    plan = PlacedPlans(job).plan(CHOICE)
    forward, backward = (seconds[0].sum() for seconds in job.operators.kernels(np.array([4]), np.array([0])))
    assert plan.balanced.forward.sum() >= forward * (1 - 1e-9)
    assert plan.balanced.backward.sum() >= backward * (1 - 1e-9)


def test_dividing_does_not_divide_launches() -> None:
    """Where launching takes longer than computing, four devices are as busy each as one is, but for what they lack."""
    job = launching(job_on(4, 8, 2, 256), 1e-3)
    plans = PlacedPlans(job)
    alone = plans.simulate(CHOICE._replace(k=1, l=8))
    divided = plans.simulate(CHOICE)
    parts = np.diff(plans.plan(CHOICE).balanced.first)
    assert (parts == 4).mean() > 0.5
    assert divided.step_time > 0.5 * alone.step_time


@pytest.mark.long
def test_one_device_a_group_is_always_compared() -> None:
    """On a slow ring bounds of cut rows are far below their steps: the plan without cuts is simulated nonetheless."""
    on = cluster_on(1, 8)
    request = SearchRequest(global_batches=(64,), compare=False, pins=Pins())
    found = search(transformer(2, 1024), on, request)
    choices = [plan.choice for plan in found.ranking if isinstance(plan.choice, PlacedChoice)]
    assert any(choice.k == 1 for choice in choices)
