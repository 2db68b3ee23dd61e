"""A number that no joint schedule can beat: what all collectives together bring across cuts and onto links.

With k ranks in a group, i of them in a set, and M bytes held in the end:

* block: into a set of ranks enter at least (k − i)·M/k of an all-gather, i·M/k of a reduce-scatter, M of an
  all-reduce, i·(k − i)·M/k of an all-to-all; M of a broadcast whose root is outside, or of a reduce whose root is
  inside. As much leaves with i and k − i exchanged. Groups exchange nothing with each other, so that the bytes of all
  groups of all axes add up, and what they take is their sum over what can enter (or leave) the set;
* receptions: all ranks of a group together receive (k − 1)·M, of an all-reduce 2(k − 1)·M, out of what all ranks of
  the fabric can receive;
* links: each of these receptions takes the links between some two ranks of the group, at least as many as between its
  two nearest; out of what all links together carry. Not so where one lightpath serves several ranks.

The sets are single ranks, and the blocks of neighbours whose cuts the fabric states (:meth:`Fabric.blocks`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from lightloom.collectives.bounds.lower_bound import Bound
from lightloom.collectives.collective import Collective
from lightloom.collectives.joint import GroupPart, Part
from lightloom.core.arrays import Floats, Ints, Mask
from lightloom.machines.fabrics.derived import group_members
from lightloom.machines.fabrics.fabric import Fabric


@dataclass(frozen=True, slots=True)
class Demand:
    """One collective in many groups of ranks at once."""

    collective: Collective
    members: Ints
    """Ranks of the fabric: [group, rank]."""


@dataclass(frozen=True, slots=True)
class ShiftDemand:
    """Bytes from every rank to the one a stride further on, and as many to the one as far before."""

    stride: int
    nbytes: float


def demands_of(parts: Iterable[Part], fabric: Fabric) -> list[Demand | ShiftDemand]:
    """What the parts of a joint schedule serve."""
    return [
        Demand(part.schedule.collective, group_members(fabric.ranks, part.axis.ranks, part.axis.stride))
        if isinstance(part, GroupPart)
        else ShiftDemand(part.stride, part.nbytes)
        for part in parts
    ]


def joint_bound(demands: Sequence[Demand | ShiftDemand], fabric: Fabric) -> Bound:
    """The time that no joint schedule of these demands beats, circuits in place and propagation aside."""
    bounds = [_receptions(demands, fabric), _links(demands, fabric), *_blocks(demands, fabric)]
    return Bound(*max(bounds))


def _blocks(demands: Sequence[Demand | ShiftDemand], fabric: Fabric) -> Iterable[tuple[float, str]]:
    """What enters and leaves sets of ranks, over what can."""
    single = min((cut.capacity for cut in fabric.cuts() if cut.ranks == 1), default=np.inf)
    for size, capacity, name in [(1, single, "what one rank sends and receives"), *fabric.blocks()]:
        entering, leaving = np.zeros(fabric.ranks // size), np.zeros(fabric.ranks // size)
        for demand in demands:
            inward, outward = _crossing(demand, size, fabric)
            entering += inward
            leaving += outward
        yield float(max(entering.max(), leaving.max())) / capacity, name


def _crossing(demand: Demand | ShiftDemand, size: int, fabric: Fabric) -> tuple[Floats, Floats]:
    """Bytes that enter and that leave each block of ``size`` neighbours at least: [block] each."""
    count = fabric.ranks // size
    if isinstance(demand, ShiftDemand):
        rank = np.arange(fabric.ranks)
        further = (rank + demand.stride) % fabric.ranks
        crosses = np.where(rank // size != further // size, demand.nbytes, 0.0)
        both = _summed(rank // size, crosses, count) + _summed(further // size, crosses, count)
        return both, both
    k = demand.members.shape[1]
    block = demand.members // size
    group = np.repeat(np.arange(len(block)), k)
    cells, inside = np.unique(group * count + block.ravel(), return_counts=True)
    rooted = np.zeros(len(cells), np.bool_)
    rooted[np.searchsorted(cells, np.arange(len(block)) * count + block[:, 0])] = True
    inward, outward = _of_set(demand.collective, inside, rooted), _of_set(demand.collective, k - inside, ~rooted)
    where = cells % count
    return _summed(where, inward, count), _summed(where, outward, count)


def _summed(block: Ints, nbytes: Floats, count: int) -> Floats:
    """Bytes of each block: [count]."""
    total: Floats = np.bincount(block, nbytes, count).astype(np.float64)
    return total


def _of_set(collective: Collective, inside: Ints, rooted: Mask) -> Floats:
    """Bytes that enter sets with so many ranks of the group inside, and that have its root or not: [set]."""
    k, nbytes, outside = collective.ranks, collective.nbytes, collective.ranks - inside
    entering: Floats
    if collective.kind == "all-gather":
        entering = nbytes * outside / k
    elif collective.kind == "reduce-scatter":
        entering = nbytes * inside / k
    elif collective.kind == "all-to-all":
        entering = nbytes * inside * outside / k
    elif collective.kind == "all-reduce":
        entering = np.full(len(inside), nbytes)
    else:
        entering = nbytes * (rooted == (collective.kind == "reduce"))
    return np.where((inside > 0) & (outside > 0), entering, 0.0)


def _received(demand: Demand) -> float:
    """Bytes that all ranks of a group together receive at least."""
    collective = demand.collective
    return (2 if collective.kind == "all-reduce" else 1) * (collective.ranks - 1) * collective.nbytes


def _receptions(demands: Sequence[Demand | ShiftDemand], fabric: Fabric) -> tuple[float, str]:
    total = sum(
        2 * fabric.ranks * demand.nbytes if isinstance(demand, ShiftDemand) else len(demand.members) * _received(demand)
        for demand in demands
    )
    return total / fabric.total_receive_bandwidth(), "what all ranks together can receive"


def _links(demands: Sequence[Demand | ShiftDemand], fabric: Fabric) -> tuple[float, str]:
    """Link uses of all receptions, over what all links carry."""
    total = 0.0
    for demand in demands:
        if isinstance(demand, ShiftDemand):
            ends = np.arange(fabric.ranks), (np.arange(fabric.ranks) + demand.stride) % fabric.ranks
            total += 2 * demand.nbytes * float(_fewest_links(fabric, *ends).sum())
        elif fabric.taps == 1 or demand.collective.kind not in ("all-gather", "broadcast", "all-reduce"):
            k = demand.members.shape[1]
            source, destination = np.nonzero(~np.eye(k, dtype=np.bool_))
            nearest = _fewest_links(fabric, demand.members[:, source].ravel(), demand.members[:, destination].ravel())
            total += _received(demand) * float(nearest.reshape(len(demand.members), -1).min(axis=1).sum())
    return total / float(fabric.link_bandwidth().sum()), "what all links together carry"


def _fewest_links(fabric: Fabric, source: Ints, destination: Ints) -> Ints:
    """Links of the shortest route of each pair."""
    ways = [fabric.hops(source, destination, np.full(len(source), route)) for route in range(fabric.routes)]
    fewest: Ints = np.minimum.reduce(ways)
    return fewest
