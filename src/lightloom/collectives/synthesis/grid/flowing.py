"""Rounds and trees without barriers: links that join ranks send whatever is next as soon as its data is there.

A step waits for the latency of the step before; without steps only the first chunk of a share does, and the others
follow behind it. So an all-gather ends one latency after the poorest rank could have received everything, where a share
takes longer than a latency, which is its bound.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lightloom.collectives.bounds.lower_bound import lower_bound
from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.schedule.barriers import without_barriers
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.schedule.counting import distinct
from lightloom.collectives.spec import Collective
from lightloom.collectives.synthesis.engine.effort import effort
from lightloom.collectives.synthesis.grid.rounds import doubling, rounds_and_trees
from lightloom.fabrics.base import Fabric

_PIECES = (1, 2, 4)
_MOST_ROWS = 1 << 22
_NEAR = 1.001
"""Times the lower bound at which nothing further is tried."""


def flowing(collective: Collective, fabric: Fabric) -> Schedule:
    """The fastest of some schedules of steps, and of them without barriers, not yet verified.

    Nothing further is tried once a schedule is as good as at its bound, or effort is spent.

    Raises:
        UnsupportedError: the fabric's links do not join ranks.
    """
    enough = lower_bound(collective, fabric).time * _NEAR
    best, least, played = None, float("inf"), 0
    for schedule in _candidates(collective, fabric):
        if _busiest_link(schedule, fabric) >= least:
            continue
        seconds = cost(schedule, fabric).time
        if seconds < least:
            best, least = schedule, seconds
        played += len(schedule) if schedule.queued else 0
        if least <= enough or played > effort(fabric.ranks):
            break
    assert best is not None
    return best


def _busiest_link(schedule: Schedule, fabric: Fabric) -> float:
    """Seconds for which the busiest link is busy, where rows cross one link each; 0 where they cross more."""
    source, destination, route = schedule.ends(slice(None))
    code = (source * fabric.ranks + destination) * fabric.routes + route
    transfers, transfer = distinct(code, fabric.ranks**2 * fabric.routes)
    chunks = np.bincount(transfer)
    pair, way = np.divmod(transfers, fabric.routes)
    path = fabric.path(*np.divmod(pair, fabric.ranks), way)
    if path.shape[1] > 1:
        return 0.0
    return float((chunks * schedule.chunk_nbytes / fabric.link_bandwidth()[path[:, 0]]).max())


def _candidates(collective: Collective, fabric: Fabric) -> Iterator[Schedule]:
    stepped = rounds_and_trees(collective, fabric)
    yield from doubling(collective, fabric)
    # With shares that take less than a latency, links wait in any case.
    yield min(stepped, key=lambda steps: cost(steps, fabric).time)
    for pieces in _PIECES:
        for steps in stepped:
            if pieces == 1 or len(steps) * pieces <= _MOST_ROWS:
                yield without_barriers(steps, fabric, pieces)
