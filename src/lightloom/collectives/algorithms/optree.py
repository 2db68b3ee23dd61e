"""OpTree: all-gather on a WDM ring in stages, the ring cut into m parts, each part cut again, and so on.

    stage 1   0 1 2 3 | 4 5 6 7 | 8 9 . . | . . . .    equal positions of the parts exchange around the ring
    stage 2   0 | 1 | 2 | 3                            inside a part (a line): all that was gathered so far is exchanged
    ...       until a part is one rank

After every stage the ranks of a part together hold everything, each share exactly once, so every rank receives every
share exactly once. Each share in flight holds one wavelength for one step. A part that does not divide is cut into
unequal ones; the last position of the larger ones then sends to the last rank of the smaller.

Source: Dai, Chen, Huang and Zhang, "OpTree: an efficient algorithm for all-gather operation in optical interconnect
systems", section III-D. The paper's radix N^(1/k) is rarely an integer; here the radices are integers, one a stage, and
searched (optree_radices.py). The closed forms are in optree_forms.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.algorithms.optree_radices import best_radices, cut
from lightloom.collectives.schedule.build import Stage, fit, staged
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.schedule.compose import from_all_gather
from lightloom.collectives.schedule.wavelengths import (
    colour_intervals,
    ring_all_to_all,
    ring_all_to_all_wavelengths,
    ring_links,
)
from lightloom.collectives.spec import Collective
from lightloom.core.arrays import Column, Ints
from lightloom.core.errors import ConfigError
from lightloom.fabrics.base import CLOCKWISE, COUNTERCLOCKWISE, Fabric


def optree(
    collective: Collective, fabric: Fabric, *, striped: bool = False, radices: Sequence[int] | None = None
) -> Schedule:
    """OpTree on a WDM ring; ``radices`` fixes the parts of each stage, else the search takes the fewest steps.

    As reduce-scatter it runs backwards. Rows grow with N², as an all-gather's deliveries do.
    """
    name = "optree-striped" if striped else "optree"
    n = collective.ranks
    chosen = tuple(radices) if radices is not None else best_radices(n, fabric.usable_channels)

    def all_gather(gather: Collective) -> Schedule:
        stages = exchange_stages(n, chosen)
        steps = "+".join(str(fit(fabric, stage.colours, striped=striped)[2]) for stage in stages)
        note = f"radices {'·'.join(map(str, chosen))}, steps {steps}"
        return staged(name, gather, fabric, stages, chunks=n, striped=striped, notes=(note,))

    return from_all_gather(collective, fabric, all_gather)


def exchange_stages(n: int, radices: Sequence[int]) -> list[Stage]:
    """Who sends which share where in each stage: each takes one colour, that is one wavelength in one step.

    Raises:
        ConfigError: radices that leave parts of more than one rank.
    """
    start, size = np.zeros(1, np.int64), np.full(1, n, np.int64)
    holder = np.arange(n, dtype=np.int32)[None, :]
    stages = []
    for number, radix in enumerate(radices):
        part_start, part_size, parent = cut(start, size, radix)
        part_of = np.searchsorted(part_start, holder, side="right") - 1
        position = holder - part_start[part_of]
        receiver = part_start[:, None] + np.minimum(position[parent], part_size[:, None] - 1)
        inside = part_of[parent] == np.arange(len(part_start))[:, None]
        if number == 0:
            stages.append(_around_the_ring(part_start, part_size))
        else:
            away = np.flatnonzero(~inside.ravel())
            source = holder[parent].ravel()[away]
            stages.append(along_the_line(source, receiver.ravel()[away], away % n, n))
        holder = np.where(inside, holder[parent], receiver).astype(np.int32)
        start, size = part_start, part_size
    if len(start) != n:
        raise ConfigError(f"radices {tuple(radices)} cut {n} ranks into {len(start)} parts: expected {n}")
    return [stage for stage in stages if len(stage.source)]


@lru_cache(maxsize=64)
def _longest_links(ranks: int, channels: int) -> int:
    """Links of the longest lightpath on a ring; parts are contiguous, so it is one of the first stage."""
    start, size, _ = cut(np.zeros(1, np.int64), np.full(1, ranks, np.int64), best_radices(ranks, channels)[0])
    stage = _around_the_ring(start, size)
    return ring_links(ranks, stage.source, stage.destination, stage.route)


def _around_the_ring(start: Ints, size: Ints) -> Stage:
    """Stage 1: the i-th ranks of all parts run an optimal one-stage all-to-all, each position on colours of its own."""
    parts, positions = len(start), int(size.max())
    colours = ring_all_to_all_wavelengths(parts)
    one, other, route, colour = ring_all_to_all(parts)
    position = np.arange(positions)[:, None]
    sends = position < size[one][None, :]
    source = (start[one] + position)[sends]
    destination = (start[other] + np.minimum(position, size[other] - 1))[sends]
    # The last position of unequal parts has fewer senders and leaves some of its colours unused.
    used, colour = np.unique((colour + colours * position)[sends], return_inverse=True)
    return Stage(source, destination, source, np.broadcast_to(route, sends.shape)[sends], colour, len(used))


def along_the_line(source: Column, destination: Column, chunk: Column, n: int) -> Stage:
    """Later stages: intervals of a line, coloured with as many colours as the busiest link carries."""
    route = np.where(destination > source, CLOCKWISE, COUNTERCLOCKWISE).astype(np.int8)
    colour, colours = np.empty(len(source), np.int64), 0
    for direction in (CLOCKWISE, COUNTERCLOCKWISE):
        rows = np.flatnonzero(route == direction)
        low, high = (source, destination) if direction == CLOCKWISE else (destination, source)
        colour[rows], used = colour_intervals(low[rows], high[rows], np.ones(len(rows), np.int64), n)
        colours = max(colours, used)
    return Stage(source, destination, chunk, route, colour, colours)


OPTREE = Algorithm(
    name="optree",
    build=optree,
    by_structure=True,
    longest_lightpath=lambda kind, fabric: _longest_links(fabric.ranks, fabric.usable_channels),  # noqa: ARG005 - all kinds alike
    needs="wdm-ring",
    summary="exchange between parts of the ring, then between parts of the parts, ...",
)
