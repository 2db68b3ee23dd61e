"""Hierarchical collectives: inside the domains, along the rails that join ranks in the same place, and inside again.

    all-reduce       reduce-scatter in the domain, all-reduce along the rails, all-gather in the domain
    all-gather       along the rails, then in the domain
    reduce-scatter   in the domain, then along the rails
    all-to-all       in the domain to the rail of the destination, then along it
    broadcast        along the root's rail, then in every domain; a reduce the other way

Where links join neighbours along several axes (a torus), each axis begins with a part of the data of its own.

Every rank sends 1/g of the data of a domain of g ranks over its own port, and pieces of the data follow each other, so
that domains and rails work at the same time.

Sources: NCCL (rail-optimised collectives); Cho et al., "BlueConnect: decomposing all-reduce for deep learning on
heterogeneous network hierarchy", MLSys 2019.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.algorithms.one_stage import ONE_STAGE
from lightloom.collectives.algorithms.ring import RING_TWO_WAY
from lightloom.collectives.algorithms.rooted import BINOMIAL_TREE
from lightloom.collectives.composition.lower import lower
from lightloom.collectives.composition.phases import Phase
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.spec import CLASSIC, ROOTED, Collective, Kind
from lightloom.fabrics.base import Fabric
from lightloom.fabrics.capabilities import Axis

_ROUNDING = 1e-9


def hierarchical_phases(kind: Kind, flats: Sequence[Algorithm], first: int = 0) -> list[Phase]:
    """Phases of a kind, by a flat algorithm for each axis: from axis ``first`` on, and around, where data is scattered,
    and back where it is gathered."""
    axes = [(first + place) % len(flats) for place in range(len(flats))]
    if kind == "all-reduce":
        scatters = [Phase("reduce-scatter", axis, flats[axis]) for axis in axes[:-1]]
        gathers = [Phase("all-gather", axis, flats[axis]) for axis in axes[-2::-1]]
        return [*scatters, Phase("all-reduce", axes[-1], flats[axes[-1]]), *gathers]
    order = axes[::-1] if kind in ("all-gather", "broadcast") else axes
    return [Phase(kind, axis, flats[axis]) for axis in order]


def hierarchical(collective: Collective, fabric: Fabric, *, striped: bool = False) -> Schedule:  # noqa: ARG001 - every algorithm takes it
    """Straight exchanges where switches join the ranks of an axis, rings where links join neighbours."""
    axes = _useful_axes(fabric)
    if collective.kind in ROOTED:
        flats = [BINOMIAL_TREE] * len(axes)
    else:
        flats = [RING_TWO_WAY.bundled() if forwards else ONE_STAGE for _, forwards in axes]
    firsts = range(len(axes) if all(forwards for _, forwards in axes) else 1)
    lanes = [hierarchical_phases(collective.kind, flats, first) for first in firsts]
    return lower("hierarchical", collective, fabric, [axis.size for axis, _ in axes], *lanes)


def _useful_axes(fabric: Fabric) -> list[tuple[Axis, bool]]:
    """The fabric's axes, and whether ranks along each forward for each other.

    Those that switches join without loss are one: what lies beyond the second of them reaches each rank as fast as what
    lies beyond the first.
    """
    entering = {cut.ranks: cut.capacity / cut.ranks for cut in fabric.cuts()}
    axes: list[tuple[Axis, bool]] = []
    for axis in fabric.axes:
        forwards = _forwards(fabric, axis)
        last, last_forwards = axes[-1] if axes else (axis, True)
        whole = entering.get(axis.stride, 0.0) >= entering.get(last.stride, np.inf) * (1 - _ROUNDING)
        if last.stride > 1 and not last_forwards and not forwards and whole:
            axes[-1] = last._replace(size=last.size * axis.size), False
        else:
            axes.append((axis, forwards))
    return axes


def _forwards(fabric: Fabric, axis: Axis) -> bool:
    """Whether some ranks along an axis are farther away than others."""
    ends = np.array([axis.stride, axis.stride * (axis.size // 2)])
    near, far = fabric.hops(np.zeros_like(ends), ends, fabric.route(np.zeros_like(ends), ends))
    return bool(far > near)


def declines(kind: str, fabric: Fabric) -> str | None:  # noqa: ARG001 - all kinds alike
    """Why there are no phases on a fabric; None where there are."""
    if fabric.exclusive:
        return "hierarchical composes packets, and this fabric is circuit-switched"
    if len(fabric.axes) < 2:
        return f"hierarchical needs ranks in domains or on a grid (axes), and a {fabric.kind_name} joins all alike"
    return None


HIERARCHICAL = Algorithm(
    name="hierarchical",
    build=hierarchical,
    kinds=CLASSIC,
    pipelined=True,
    declines=declines,
    rows=lambda kind, fabric: 0,  # noqa: ARG005 - it folds, and asks for memory where it has to unfold
    summary="inside domains, along rails between them, and inside again; pieces follow each other",
)
