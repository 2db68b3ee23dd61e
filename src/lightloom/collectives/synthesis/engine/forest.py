"""Lightpaths become broadcast trees and the times at which their pieces are sent.

lightpaths ──► a tree for every piece of one period of roots ──► queues shared evenly ──► list schedule
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lightloom.collectives.synthesis.engine.lightpaths import Lightpaths, Lines, Trees
from lightloom.core.arrays import Floats, Int32s, Ints


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """Trees of all pieces of one period of roots, with their times; arrays [piece, root, rank]."""

    paths: Lightpaths
    tap: Int32s
    """Tap by which each rank receives; −1 at the root."""
    begin: Floats
    """Seconds at which the piece is sent to the rank."""
    time: float
    """Seconds until the last arrival, circuits in place."""

    @property
    def pieces(self) -> int:
        """Parts of every rank's share that travel on trees of their own."""
        return len(self.tap)


def grow_forest(
    paths: Lightpaths,
    lines: Lines,
    walks: Sequence[int],
    *,
    deadline: float,
    sweeps: int,
    roots: Ints | None = None,
) -> Forest | None:
    """Trees of as many pieces as there are ``walks``, with their times; None where some rank is not reached.

    Time: pieces · period · taps, times the logarithm of what waits.

    Args:
        walks: ranks ahead of the root before which a piece enters no line of the highest level: [piece].
        deadline: seconds by which trees may end so that lightpaths are shared more evenly, if later than the deepest.
        sweeps: rounds of balancing.
        roots: ranks at which the trees of one period begin, all of them by default; several may begin at one: [root].
    """
    from lightloom.collectives.synthesis.engine import _tree_kernels as kernels

    shape = (len(walks), paths.period, len(paths.leaving) - 1)
    trees = Trees(np.empty(shape, np.int32), np.empty(shape), np.empty(shape, np.int32))
    load = np.zeros(len(paths.busy))
    roots = np.arange(paths.period) if roots is None else roots
    if not kernels.grow(paths, lines, np.array(walks, np.int64), roots, trees, load):
        return None
    kernels.rebalance(paths, trees, load, max(float(trees.arrival.max()), deadline), sweeps)
    return scheduled(paths, trees.tap, trees.order)


def scheduled(paths: Lightpaths, tap: Int32s, order: Int32s) -> Forest:
    """Times of trees.

    Args:
        tap, order: tap by which each rank receives, and ranks after their parents: [piece, root, rank].
    """
    from lightloom.collectives.synthesis.engine import _list_kernels, _tree_kernels

    begin = np.zeros(tap.shape)
    sends = _tree_kernels.transmissions(paths, tap, order)
    time = _list_kernels.list_schedule(paths.queue, paths.delay, paths.busy, sends, begin.reshape(-1))
    return Forest(paths, tap, begin, float(time))
