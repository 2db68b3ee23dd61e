"""Rounds and trees without barriers: links that join ranks send whatever is next as soon as its data is there.

A step waits for the latency of the step before; without steps only the first chunk of a share does, and the others
follow behind it. So an all-gather ends one latency after the poorest rank could have received everything, where a share
takes longer than a latency, which is its bound.

Whatever the size, a link serves the rows of such a schedule in the same order, so that its time is the most of linear
functions of the size. Each time that one is played, the line of the chain of rows that ends last is kept: at another
size the schedule takes no less, and is not played where another one is as fast.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from lightloom.collectives.bounds.lower_bound import lower_bound
from lightloom.collectives.cost.queued import queued_line
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
_ROUNDING = 1 - 1e-9
_KEPT = 256
"""Schedules whose lines are kept."""


class _Line(NamedTuple):
    """Seconds that a schedule takes at least."""

    latency: float
    """Of no bytes."""
    per_byte: float
    """More for each byte of the collective."""


_lines: OrderedDict[bytes, list[_Line]] = OrderedDict()
"""Lines below the times of the schedules that were played last."""


def flowing(collective: Collective, fabric: Fabric) -> tuple[Schedule, float]:
    """The fastest of some schedules of steps, and of them without barriers, not yet verified, and its seconds.

    Nothing further is tried once a schedule is as good as at its bound, or effort is spent.

    Raises:
        UnsupportedError: the fabric's links do not join ranks.
    """
    enough = lower_bound(collective, fabric).time * _NEAR
    best, least, played = None, float("inf"), 0
    for steps, pieces in _candidates(collective, fabric):
        busiest = _busiest_link(steps, fabric)
        if busiest >= least:
            continue
        if pieces:
            schedule, seconds = _played(steps, fabric, pieces, least, single=busiest > 0)
            played += len(steps) * pieces
        else:
            schedule, seconds = steps, cost(steps, fabric).time
        if schedule is not None and seconds < least:
            best, least = schedule, seconds
        if least <= enough or played > effort(fabric.ranks):
            break
    assert best is not None
    return best, least


def _played(
    steps: Schedule, fabric: Fabric, pieces: int, least: float, *, single: bool
) -> tuple[Schedule | None, float]:
    """Steps without barriers and their seconds, or no schedule where these are known not to be below ``least``.

    Args:
        steps: in order.
        pieces: into which every chunk is cut.
        single: whether every row crosses one link, which lines suppose.
    """
    nbytes, key = steps.collective.nbytes, _content(steps, fabric, pieces) if single else b""
    lines = _lines.get(key, [])
    floor = max((line.latency + line.per_byte * nbytes for line in lines), default=0.0) * _ROUNDING
    if floor >= least:
        return None, floor
    schedule = without_barriers(steps, fabric, pieces)
    price, per_byte = queued_line(schedule, fabric)
    if single and per_byte > 0:
        _lines[key] = [*lines, _Line(price.time - per_byte * nbytes, per_byte)]
        _lines.move_to_end(key)
        if len(_lines) > _KEPT:
            _lines.popitem(last=False)
    return schedule, price.time


def _content(steps: Schedule, fabric: Fabric, pieces: int) -> bytes:
    """A hash of what decides the time of steps without barriers, but for their size."""
    digest = blake2b(fabric.model_dump_json(exclude={"sources"}).encode())
    digest.update(repr((fabric.implementation, steps.collective.kind, steps.chunks, pieces)).encode())
    for column in (steps.step, steps.source, steps.destination, steps.route, steps.chunk):
        digest.update(np.ascontiguousarray(column).data)
    return digest.digest()


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


def _candidates(collective: Collective, fabric: Fabric) -> Iterator[tuple[Schedule, int]]:
    """Schedules of steps, each with the pieces into which its chunks are cut without barriers; 0: as it is."""
    stepped = rounds_and_trees(collective, fabric)
    for steps in doubling(collective, fabric):
        yield steps, 0
    # With shares that take less than a latency, links wait in any case.
    yield min(stepped, key=lambda steps: cost(steps, fabric).time), 0
    for pieces in _PIECES:
        for steps in stepped:
            if pieces == 1 or len(steps) * pieces <= _MOST_ROWS:
                yield steps, pieces
