"""Which placed plans a search looks at: what is left out and why, and the first bound of the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lightloom.core.arrays import Floats
from lightloom.core.errors import UnsupportedError
from lightloom.core.units import format_size
from lightloom.planner.bounds.placed import coarse_bound
from lightloom.planner.pricing.job import Job
from lightloom.planner.pricing.placed_space import (
    MOST_SUB_OPERATORS,
    SMALLER_FROM,
    PartTable,
    PlacedRows,
    distinct,
    peers,
    placed_space,
    smaller,
)
from lightloom.planner.search.counts import Counts
from lightloom.planner.search.request import SearchRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedRows:
    """Placed plans that may fit, and what became of the others."""

    rows: PlacedRows
    bound: Floats
    """Seconds of a step at least: [rows]."""
    counts: Counts
    refusals: list[str]
    """Why rows were left out, a line for each reason."""
    needed: list[str]
    """Memory that rows which do not fit need."""


def searched_rows(job: Job, request: SearchRequest, batches: tuple[int, ...]) -> SearchedRows:
    """Return the placed plans of these global batches that may fit.

    Micro-batches and recomputation are tried where they are pinned, or where devices hold a large part of the memory.
    """
    rows, counts, refusals = _space(job, request, batches)
    table, needed = PartTable(job.model), list[str]()
    rows = distinct(job, table, rows)
    look = coarse_bound(job, table, rows)
    memory, pins = job.accelerator.memory, dict(request.pins)
    capacity = np.inf if memory is None else memory
    if any(value is not None for value in pins.values()):
        rows = smaller(rows, pins)
        look = coarse_bound(job, table, rows)
    elif (divided := look.memory > SMALLER_FROM * capacity).any():
        others = distinct(job, table, smaller(rows.rows(divided), pins))
        rows = PlacedRows.of([part[row] for part in (rows, others) for row in range(len(part))])
        look = coarse_bound(job, table, rows)
    fine, large = look.sub_operators > MOST_SUB_OPERATORS, look.memory > capacity
    if fine.any():
        refusals.append(f"{fine.sum()} placed plans have more than {MOST_SUB_OPERATORS} sub-operators")
    if large.any():
        needed.append(f"the smallest placed plan needs at least {format_size(look.memory.min())} a device")
    counts += Counts(rows=len(rows), too_fine=int(fine.sum()), too_large=int((large & ~fine).sum()))
    kept = ~fine & ~large
    return SearchedRows(rows=rows.rows(kept), bound=look.bound[kept], counts=counts, refusals=refusals, needed=needed)


def _space(job: Job, request: SearchRequest, batches: tuple[int, ...]) -> tuple[PlacedRows, Counts, list[str]]:
    """Every placed plan that the fabric may have, those that it cannot have counted, and why."""
    try:
        degree = peers(job.fabric)
    except UnsupportedError as error:
        return PlacedRows.of([]), Counts(), [str(error)]
    refusals = []
    in_line = [method.placed_ratio for method in job.exchanges if method.in_line]
    if len(in_line) < len(job.exchanges):
        refusals.append("placed plans take codecs in line with the links only")
    rows, refused = placed_space(job.fabric, batches, request.quanta, (1.0, *in_line))
    if refused:
        refusals.append(
            f"{refused} placed plans have groups without circuits between their devices, of a degree D of "
            f"{degree}: expected D of at least 3, one circuit each way and one to the next group"
        )
    return rows, Counts(rows=refused, refused=refused), refusals
