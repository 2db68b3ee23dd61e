"""Hierarchical collectives: inside the domains, along the rails that join ranks in the same place, and inside again.

    all-reduce       reduce-scatter in the domain, all-reduce along the rails, all-gather in the domain
    all-gather       along the rails, then in the domain
    reduce-scatter   in the domain, then along the rails
    all-to-all       in the domain to the rail of the destination, then along it
    broadcast        along the root's rail, then in every domain; a reduce the other way

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
from lightloom.collectives.spec import KINDS, ROOTED, Collective, Kind
from lightloom.fabrics.base import Fabric
from lightloom.fabrics.capabilities import Axis


def hierarchical_phases(kind: Kind, flats: Sequence[Algorithm]) -> list[Phase]:
    """Phases of a kind, by a flat algorithm for each axis: from neighbours outwards where data is scattered, inwards
    where gathered."""
    axes = len(flats)
    inwards, outwards = range(axes - 1, -1, -1), range(axes)
    if kind == "all-reduce":
        scatters = [Phase("reduce-scatter", axis, flats[axis]) for axis in range(axes - 1)]
        gathers = [Phase("all-gather", axis, flats[axis]) for axis in range(axes - 2, -1, -1)]
        return [*scatters, Phase("all-reduce", axes - 1, flats[-1]), *gathers]
    order = inwards if kind in ("all-gather", "broadcast") else outwards
    return [Phase(kind, axis, flats[axis]) for axis in order]


def hierarchical(collective: Collective, fabric: Fabric, *, striped: bool = False) -> Schedule:  # noqa: ARG001 - every algorithm takes it
    """Straight exchanges where switches join the ranks of an axis, rings where links join neighbours."""
    sizes = tuple(axis.size for axis in fabric.axes)
    flats = [_flat(collective.kind, fabric, axis) for axis in fabric.axes]
    return lower("hierarchical", collective, fabric, sizes, hierarchical_phases(collective.kind, flats))


def _flat(kind: Kind, fabric: Fabric, axis: Axis) -> Algorithm:
    if kind in ROOTED:
        return BINOMIAL_TREE
    ends = np.array([axis.stride, axis.stride * (axis.size // 2)])
    near, far = fabric.hops(np.zeros_like(ends), ends, fabric.route(np.zeros_like(ends), ends))
    return RING_TWO_WAY.bundled() if far > near else ONE_STAGE


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
    kinds=KINDS,
    pipelined=True,
    declines=declines,
    summary="inside domains, along rails between them, and inside again; pieces follow each other",
)
