"""Joules of a placed plan's step."""

from __future__ import annotations

import numpy as np

from lightloom.planner.pricing.stage_times import Job, sent_ratio
from lightloom.simulation.energy import StepEnergy, sending_energy, step_energy
from lightloom.simulation.placed_step import PlacedStep


def placed_energy(job: Job, step: PlacedStep, ratio: float = 1.0) -> StepEnergy:
    """Joules of a step over all ranks; on circuits, relayed bytes count once a lightpath.

    Args:
        job: where the plan runs.
        step: simulated.
        ratio: bytes of a gradient as float32 for each byte sent to the next group.
    """
    plan, fabric = step.plan, job.fabric
    if fabric.exclusive:
        nbytes, source = np.array([step.sent_bytes * plan.groups]), np.zeros(1, np.int64)
        sent = sending_energy(fabric, nbytes, source, source)
    else:
        traffic = plan.traffic()
        smaller = float(sent_ratio(job, np.array([ratio]))[0])
        pairs = (traffic.model_parallel + traffic.data_parallel / smaller).tocoo()
        sent = sending_energy(fabric, pairs.data, pairs.row.astype(np.int64), pairs.col.astype(np.int64))
    return step_energy(job.accelerator, fabric, sent, step.step_time)
