"""The duration of a step of data parallelism alone, without its tasks: as the timeline of ``simulation.lower`` ends.

    compute   ───────────────────[wait]──────────────────[wait]── update
    network        [exchange 0]    ↑    [exchange 1] ...

Computing runs from wait to wait, so that only the exchanges are gone through one by one. Collectives keep no circuits
and have no codec here.
"""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

from lightloom.core.arrays import Floats
from lightloom.parallelism.plan import ParallelPlan


def step_duration(plan: ParallelPlan, computing: Floats, exchanging: Floats, *, overlap: bool) -> float:
    """Return the seconds of a step.

    Args:
        plan: positions and exchanges.
        computing: seconds of all positions: forward passes, backward passes, the update: [positions].
        exchanging: seconds of each exchange of the plan: [exchanges].
        overlap: whether exchanges run while computing.
    """
    if not overlap:
        return float(computing.sum() + exchanging.sum())
    before = np.concatenate(([0.0], np.cumsum(computing)))
    awaited: list[tuple[int, float]] = []
    late, network, issued = 0.0, 0.0, -1
    for exchange, seconds in zip(plan.exchanges, exchanging.tolist(), strict=True):
        # Exchanges are issued in their order, none before its data exists.
        issued = max(issued, exchange.starts_after)
        late = _late(before, awaited, issued, late)
        ready = float(before[exchange.starts_after + 1]) + late if exchange.starts_after >= 0 else 0.0
        network = max(network, ready) + seconds
        heappush(awaited, (exchange.needed_by, network))
    late = _late(before, awaited, len(computing) - 1, late)
    return max(float(before[-1]) + late, network)


def _late(before: Floats, awaited: list[tuple[int, float]], position: int, late: float) -> float:
    """Return by how much computing is late after a position, having waited for all that positions up to it need.

    ``awaited`` is a heap of positions and of the seconds at which an exchange that they need has ended.
    """
    while awaited and awaited[0][0] <= position:
        needed_by, ended = heappop(awaited)
        late = max(late, ended - float(before[needed_by]))
    return late
