"""Columns of the strategies that a search has: their kind, and which have the largest batch."""

from __future__ import annotations

import numpy as np

from lightloom.core.arrays import Ints, Mask
from lightloom.parallelism.strategy_space import Strategies, Strategy
from lightloom.planner.search.request import DATA_PARALLEL


def kinds_of(rows: Strategies) -> Ints:
    """Index in :data:`KINDS`: [rows]."""
    return np.where(rows.plain, rows.sharding, len(DATA_PARALLEL))


def with_largest_batch(rows: Strategies, fitting: Mask) -> Mask:
    """Rows with the largest batch that fits, of rows that differ in nothing else: [rows]."""
    names = [name for name in Strategy._fields if name != "global_batch"]
    columns = np.stack([np.asarray(getattr(rows, name), np.float64) for name in names])
    _, plan = np.unique(columns, axis=1, return_inverse=True)
    most = np.zeros(int(plan.max(initial=-1)) + 1, np.int64)
    np.maximum.at(most, plan, np.where(fitting, rows.global_batch, 0))
    largest: Mask = rows.global_batch == most[plan]
    return largest
