"""One all-gather makes three collectives: reversed in time it is a reduce-scatter, the two in sequence an all-reduce.
In the same way a broadcast makes a reduce.

Why it holds: in an all-gather every chunk spreads from its owner along a tree, each rank receiving it once. Run
backwards, every rank sends its partial sum up the same tree exactly once, after having received those of its children,
so the owner ends with each contribution exactly once. The lightpaths run the same way back, on the same wavelengths.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lightloom.collectives.schedule.columns import COLUMNS, Schedule
from lightloom.collectives.spec import Collective, Kind
from lightloom.core.errors import UnsupportedError
from lightloom.fabrics.base import Fabric

_BACKWARDS: dict[str, Kind] = {"all-gather": "reduce-scatter", "broadcast": "reduce"}


def reverse(schedule: Schedule, fabric: Fabric, *, mirrored: bool = False) -> Schedule:
    """The reduce-scatter that is this all-gather run backwards, or the reduce that is this broadcast.

    ``mirrored`` also reflects the ring of ranks, so that a schedule that moves one way round still does, on the same
    circuits; only schedules that look the same from every rank of the ring stay right under it.

    Raises:
        UnsupportedError: the schedule adds, is an all-to-all, or multicasts (light cannot be summed on the way back).
    """
    kind = _BACKWARDS.get(schedule.collective.kind)
    if kind is None:
        raise UnsupportedError(f"only {' or '.join(_BACKWARDS)} can be run backwards, not {schedule.collective.kind}")
    if fabric.taps > 1 and len(np.unique(np.stack([schedule.lightpath, schedule.destination]), axis=1)[0]) > len(
        np.unique(schedule.lightpath)
    ):
        raise UnsupportedError(f"{schedule.algorithm} multicasts, so it cannot be run backwards as a {kind}")
    backwards = {name: column[::-1] for name, column in schedule.columns().items()}
    source, destination, chunk = backwards["destination"], backwards["source"], backwards["chunk"]
    route = fabric.reverse_route(backwards["route"])
    if mirrored:
        if schedule.lists is not None:
            raise UnsupportedError(f"{schedule.algorithm}: lists of chunks cannot be reflected: expected single chunks")
        n, pieces = schedule.collective.ranks, schedule.chunks // schedule.collective.ranks
        order = fabric.ring_order()
        image = np.empty(n, np.int64)
        image[order] = order[-np.arange(n)]
        source, destination, chunk = (
            image[source],
            image[destination],
            image[chunk // pieces] * pieces + chunk % pieces,
        )
        route = fabric.reverse_route(route)
    dependencies = schedule.dependencies
    if dependencies is not None:
        dependencies = schedule.steps - 1 - np.asarray(dependencies)[:, ::-1]
    if schedule.folding is not None and schedule.folding.channel.size:
        raise UnsupportedError(f"{schedule.algorithm}: copies on channels of their own cannot be run backwards")
    backward = schedule.with_columns(
        backwards
        | {
            "step": schedule.steps - 1 - backwards["step"],
            "source": source,
            "destination": destination,
            "route": route,
            "chunk": chunk,
            "reduces": np.ones(len(schedule), np.bool_),
        },
        collective=schedule.collective.of_kind(kind),
        dependencies=dependencies,
    )
    return backward.of_first_period()


def sequence(first: Schedule, second: Schedule, collective: Collective) -> Schedule:
    """``second`` after ``first``, together serving ``collective``."""
    foldings = {schedule.folding and (schedule.folding.period, schedule.folding.axes) for schedule in (first, second)}
    ordered = first.dependencies is None and second.dependencies is None and first.lists is second.lists
    if first.chunks != second.chunks or len(foldings) > 1 or not ordered:
        raise UnsupportedError(
            "only barrier-stepped schedules over the same chunks and lists, folded alike, can follow each other"
        )
    columns = {name: np.concatenate([getattr(first, name), getattr(second, name)]) for name in COLUMNS}
    columns["step"][len(first) :] += first.steps
    columns["lightpath"][len(first) :] += int(first.lightpath.max(initial=-1)) + 1
    return second.with_columns(columns, collective=collective, steps=first.steps + second.steps)


def from_all_gather(
    collective: Collective,
    fabric: Fabric,
    all_gather: Callable[[Collective], Schedule],
    *,
    mirrored: bool = False,
) -> Schedule:
    """Serve any of the three kinds from an algorithm that knows all-gather only (``mirrored``: see :func:`reverse`)."""
    gather = all_gather(collective.of_kind("all-gather"))
    if collective.kind == "all-gather":
        return gather
    scatter = reverse(gather, fabric, mirrored=mirrored)
    return scatter if collective.kind == "reduce-scatter" else sequence(scatter, gather, collective)


def from_broadcast(collective: Collective, fabric: Fabric, broadcast: Callable[[Collective], Schedule]) -> Schedule:
    """Serve both kinds with a root from an algorithm that knows broadcast only."""
    spread = broadcast(collective.of_kind("broadcast"))
    return spread if collective.kind == "broadcast" else reverse(spread, fabric)
