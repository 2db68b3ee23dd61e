"""Seconds of measured steps' jobs for given parameters: each priced as ``lightloom plan`` prices the same strategy.

Strategies of one job with as many stages are priced together, as columns; the others are simulated one by one.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lightloom.accelerators.kernels import KernelModel
from lightloom.calibration.jobs import Group, Jobs
from lightloom.calibration.priors import kernels_with, transport_of
from lightloom.core.arrays import Floats
from lightloom.planner.pricing.library import LibraryPricing
from lightloom.planner.pricing.strategy_step import step_seconds as planned_seconds
from lightloom.planner.pricing.strategy_step import strategy_seconds
from lightloom.transports.base import Transport


def step_seconds(jobs: Jobs, values: Mapping[str, float]) -> Floats:
    """Return the seconds of a step of each job: [jobs].

    Args:
        jobs: of the planner.
        values: parameters by their names in :mod:`lightloom.calibration.priors`.
    """
    kernels = kernels_with(jobs.accelerator, values)
    transport = transport_of(jobs.accelerator).with_parameters(values)
    seconds = np.zeros(len(jobs.planned))
    for group in jobs.groups:
        seconds[group.which] = _seconds(group, kernels, transport)
    return seconds


def _seconds(group: Group, kernels: KernelModel, transport: Transport) -> Floats:
    """Seconds of each strategy of a group."""
    accelerator = group.job.accelerator.model_copy(update={"kernels": kernels})
    fabric = group.job.fabric.model_copy(update={"transport": transport})
    pricing = LibraryPricing(fabric)
    job, first = group.job.repriced(accelerator, fabric, pricing), group.strategies[0]
    if first.plain or first.micro_batch:
        return np.array([strategy_seconds(job, first)])
    return planned_seconds(job, group.rows, pricing.exchange_time)
