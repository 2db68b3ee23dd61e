"""Computing of a stage beside which a switch can turn, and whether stages exchange tied tables."""

from __future__ import annotations

import numpy as np

from lightloom.collectives.spec import Kind
from lightloom.core.arrays import Floats, Ints
from lightloom.parallelism.strategy_space import Strategies
from lightloom.parallelism.tied import holding_stages
from lightloom.planner.pricing.job import Job
from lightloom.planner.pricing.stage_exchanges import pass_exchanges


def ties_stages(job: Job, rows: Strategies) -> bool:
    """Return whether several stages hold copies of a table; all rows have the same stages and chunks."""
    edges, stages = job.model.chunks(rows), rows.stages
    return any(len(holding_stages(table, edges, stages)) > 1 for table in job.model.tied)


def margins(job: Job, rows: Strategies) -> tuple[Floats, Floats]:
    """Return the seconds of computing of every stage before the first exchange of its first pass, and after the last of
    its last one, of one row: each [stages].

    Passes that wait for launches take longer; forward passes that are repeated are left out.
    """
    model, edges = job.model, job.model.chunks(rows)
    columns = model.columns
    forward, backward = (seconds[:, model.sort] for seconds in job.operators.of_sorts(rows))
    by_axis = pass_exchanges(columns, rows, job.fabric, _bytes, sharing=False).values()
    exchanging = [sum(way) for way in zip(*by_axis, strict=True)]
    rings = columns["key_values"] * (rows.cp[0] > 1) > 0
    leads, tails = np.zeros(rows.stages), np.zeros(rows.stages)
    for stage in range(len(leads)):
        chunk = slice(int(edges[stage]), int(edges[stage + 1]))
        for found, seconds, exchanges in zip((leads, tails), (forward, backward), exchanging, strict=True):
            waits = (exchanges[0, chunk] > 0) | rings[chunk]
            first = int(waits.argmax()) if waits.any() else len(waits)
            found[stage] = seconds[0, chunk][:first].sum()
    return leads, tails


def _bytes(kind: Kind, algorithm: Ints, ranks: Ints, stride: Ints, exchange: Ints, nbytes: Floats) -> Floats:  # noqa: ARG001
    return nbytes
