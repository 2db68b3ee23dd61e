"""Settings of a circuit switch along a step: which phases share a division of the planes, and which division it is.

    phases      gather │ passes  last │ gradients  closing │ tied        neighbouring phases that share a division are a
    planes a    0        5       5      0          0         0           segment; the switch turns between segments
    planes b    8        3       3      8          8         0

A division minimises the seconds of the phases of its segment, which add up over the groups. The step is a cycle, so
that the last segment may go on in the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise, product
from math import comb

from lightloom.core.effort import Effort
from lightloom.planner.circuits.phases import Phase
from lightloom.planner.pricing.planes import Planes, divisions
from lightloom.planner.pricing.stage_exchanges import Axis

Seconds = Callable[[Phase, Axis, int], float]
"""Seconds of a phase by the planes of one of its axes."""
Settings = Mapping[Phase, Planes]
"""The division that stands in each phase in which something is exchanged."""
MOST_DIVISIONS: Effort = 5000
"""Planess of a segment that are all compared; of more, planes are given one by one to the axis that gains most."""


def gains(before: Planes, after: Planes) -> bool:
    """Return whether an axis has more planes than before."""
    return any(count > before.get(axis, 0) for axis, count in after.items())


def segmentations(phases: Sequence[Phase]) -> Iterator[list[list[Phase]]]:
    """Yield every way to part a cycle of phases into segments, one segment alone first."""
    if not phases:
        return
    yield [list(phases)]
    for turns in product((False, True), repeat=len(phases)):
        # Place p turns before phase p; one turn alone changes nothing.
        begins = [place for place, turn in enumerate(turns) if turn]
        if len(begins) > 1:
            cycle = [*phases[begins[0] :], *phases[: begins[0]]]
            edges = [begin - begins[0] for begin in begins] + [len(phases)]
            yield [cycle[a:b] for a, b in pairwise(edges)]


def best_division(
    planes: int,
    active: Mapping[Phase, Sequence[Axis]],
    seconds: Seconds,
    least: Planes,
    pinned: Planes,
) -> Planes | None:
    """Return the division of the planes among all axes of these phases that takes the least seconds; None where there
    are more axes than planes. Axes have at least so many planes, those that are ``pinned`` exactly so many."""
    axes = [axis for axis in dict.fromkeys(axis for names in active.values() for axis in names) if axis not in pinned]
    free = planes - sum(pinned.values()) - sum(least[axis] - 1 for axis in axes)
    if len(axes) > free:
        return None

    def cost(axis: Axis, count: int) -> float:
        return sum(seconds(phase, axis, least[axis] - 1 + count) for phase, names in active.items() if axis in names)

    if not axes:
        return dict(pinned)
    if comb(free - 1, len(axes) - 1) <= MOST_DIVISIONS:
        shares = min(divisions(free, len(axes)), key=lambda counts: sum(map(cost, axes, counts)))
        counts = dict(zip(axes, shares, strict=True))
    else:
        counts = dict.fromkeys(axes, 1)
        for _ in range(free - len(axes)):
            gains = {axis: cost(axis, count) - cost(axis, count + 1) for axis, count in counts.items()}
            counts[max(gains, key=lambda axis: gains[axis])] += 1
    return {**pinned, **{axis: least[axis] - 1 + count for axis, count in counts.items()}}
