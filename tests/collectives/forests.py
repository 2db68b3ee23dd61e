"""Forests of synthesis as tables of ranks and queues."""

from __future__ import annotations

import numpy as np

from lightloom.collectives.synthesis.engine.trees import Forest
from lightloom.core.arrays import Int32s


def parents(forest: Forest) -> Int32s:
    """Rank from which each rank receives, −1 at the root: [piece, root, rank]."""
    return np.where(forest.tap < 0, np.int32(-1), forest.paths.origin[forest.tap])


def queues(forest: Forest) -> Int32s:
    """Queue by which each rank receives, −1 at the root: [piece, root, rank]."""
    return np.where(forest.tap < 0, np.int32(-1), forest.paths.queue[forest.tap])
