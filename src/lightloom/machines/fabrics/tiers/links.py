"""The links that transfers through tiers take.

A transfer takes the tier that joins its ends. Where that tier's rails are separate, the transfer first crosses the
tiers beneath, to the rank of its own child that is on the rail of the destination:

    source ──▶ [domain] ──▶ gateway ──▶ [rail of the destination] ──▶ destination
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from lightloom.core.arrays import Floats, Ints, Mask
from lightloom.machines.fabrics.derived import Cut, Footprint, ordered_links
from lightloom.machines.fabrics.tiers.tier import Level, Tier


def joining(levels: Sequence[Level], source: Ints, destination: Ints) -> Ints:
    """The number, from 0, of the tier that joins ranks: [transfer]."""
    tier = np.zeros(np.broadcast_shapes(np.shape(source), np.shape(destination)), np.int64)
    for number, level in enumerate(levels):
        tier[source // level.child != destination // level.child] = number
    return tier


def crossings(levels: Sequence[Level], source: Ints, destination: Ints) -> Iterator[tuple[Level, Mask, Ints, Ints]]:
    """The tiers that transfers cross, outermost first: which transfers do, and between which ranks."""
    source, target = np.asarray(source, np.int64), np.asarray(destination, np.int64)
    for level in reversed(levels):
        crosses = level.leads_out(source, target)
        gateway = level.gateway(source, target)
        yield level, crosses, gateway, target
        target = np.where(crosses, gateway, target)


def footprint(levels: Sequence[Level], source: Ints, destination: Ints) -> Footprint:
    """The links of transfers; tiers of which a transfer takes at most one have their runs in the same columns."""
    columns: list[list[Ints]] = []
    first = 0
    for level, crosses, gateway, target in crossings(levels, source, destination):
        if crosses.any():
            runs = [run for run, _ in level.runs(gateway, target)]
            for number, run in enumerate(runs, first):
                if number == len(columns):
                    columns.append(
                        [np.zeros(len(crosses), np.int64) for _ in range(3)] + [np.ones(len(crosses), np.int64)]
                    )
                for column, part in zip(columns[number], run.columns(), strict=True):
                    np.copyto(column, part, where=crosses)
        if not level.joined:
            first = len(columns)
    if not columns:
        return Footprint.of([(0, 0, np.zeros(len(np.asarray(source)), np.int64), 1)])
    return Footprint(*(np.stack(parts, axis=-1) for parts in zip(*columns, strict=True)))


def path(levels: Sequence[Level], source: Ints, destination: Ints) -> Ints:
    """The links of transfers in order, −1 filling up: [transfer, place]."""
    runs, backward = [], []
    for level, crosses, gateway, target in reversed(list(crossings(levels, source, destination))):
        if crosses.any():
            for run in level.ordered_runs(gateway, target):
                runs.append(run._replace(length=np.where(crosses, run.length, 0)).columns())
                backward.append(run.backward)
    return ordered_links(runs, backward) if runs else np.full((len(np.asarray(source)), 1), -1)


def _run_lengths(levels: Sequence[Level], source: Ints, destination: Ints) -> Iterator[tuple[Ints, float]]:
    for level, crosses, gateway, target in crossings(levels, source, destination):
        if crosses.any():
            for run, seconds in level.runs(gateway, target):
                yield np.where(crosses, run.length, 0), seconds


def hops(levels: Sequence[Level], source: Ints, destination: Ints) -> Ints:
    """Links of each transfer: [transfer]."""
    links = np.zeros(np.broadcast_shapes(np.shape(source), np.shape(destination)), np.int64)
    for length, _ in _run_lengths(levels, source, destination):
        links += length
    return links


def latency(levels: Sequence[Level], source: Ints, destination: Ints) -> Floats:
    """Seconds of each transfer, the sum over its links: [transfer]."""
    total = np.zeros(np.broadcast_shapes(np.shape(source), np.shape(destination)))
    for length, seconds in _run_lengths(levels, source, destination):
        if seconds:
            total += seconds * length
    return total


# What can enter ranks, and groups of ranks, over tiers.

DataRate = Callable[..., float]
"""Bytes of data per second through a link of a bandwidth: ``rate(bandwidth, ports=1)``."""


def _used(levels: Sequence[Level]) -> list[Level]:
    """Levels whose ports some transfer takes."""
    leads = {level.number for level in levels if level.size > 1}
    through = {beneath.number for level in levels if level.number in leads for beneath in level.chain}
    return [level for level in levels if level.number in leads | through]


def _entering(level: Level, ranks: int, rate: DataRate) -> float:
    """Bytes per second that enter ``ranks`` neighbours, a child or a part of one, through a level's links.

    Neighbours that share a port have all of it.
    """
    links = level.classes
    if level.tree and ranks == level.child:
        return rate(links[1].bandwidth, ports=links[1].ports)
    share = rate(links[0].bandwidth, ports=links[0].ports)
    if level.beneath is not None:
        seats = level.planes
    else:
        seats = -(-ranks // level.sharing)
    if level.switched:
        return seats * share
    degree = level.lattice.smallest_degree if level.is_grid else level.size - 1
    return seats * degree * share


def _from_outside(levels: Sequence[Level], inside: int, ranks: int, rate: DataRate) -> float:
    """Bytes per second that enter ``ranks`` neighbours from tiers beyond the first ``inside`` ones."""
    return sum(
        _entering(level, ranks, rate)
        for level in _used(levels)
        if level.number > inside and (level.beneath is None or level.number == inside + 1)
    )


def cuts(levels: Sequence[Level], rate: DataRate) -> list[Cut]:
    """Cuts around one rank, around what each tier joins, and through the middle of grids and full meshes."""
    result = [Cut(_name_of_rank_cut(levels), 1, _from_outside(levels, 0, 1, rate))]
    result += [
        Cut(
            _name(levels, level),
            level.group,
            _from_outside(levels, level.number, level.group, rate),
            level.ranks // level.group,
        )
        for level in levels[:-1]
        if 1 < level.group < level.ranks
    ]
    for level in levels:
        if not level.switched and level.size > 1:
            result += _halves(levels, level, rate)
    return result


def rank_bandwidths(levels: Sequence[Level], rate: DataRate) -> tuple[Floats, Floats]:
    """Bytes per second that no rank exceeds in receiving, and in sending, over the links of its own: each [rank]."""
    ranks = np.arange(levels[0].ranks)
    both = np.zeros((2, len(ranks)))
    for level in (level for level in _used(levels) if level.beneath is None):
        share = rate(level.classes[0].bandwidth, ports=level.classes[0].ports)
        if level.is_grid:
            both += share * np.array(level.lattice.degrees())[:, ranks // level.child % level.size]
        else:
            both += share * (1 if level.switched else level.size - 1)
    return both[0], both[1]


def _name_of_rank_cut(levels: Sequence[Level]) -> str:
    used = [level for level in _used(levels) if level.beneath is None]
    if len(used) == 1 and not used[0].switched:
        return "what a corner rank can receive" if levels[0].tier.shape == "mesh" else "what one rank can receive"
    return "what one rank's ports can receive"


def _name(levels: Sequence[Level], level: Level) -> str:
    outer = levels[level.number]
    if level.number == 1 and outer.tree:
        return "the tree links into one domain"
    return f"the links into one group of {level.group} ranks"


def _halves(levels: Sequence[Level], level: Level, rate: DataRate) -> list[Cut]:
    share = rate(level.classes[0].bandwidth)
    label = level.tier.name or level.tier.shape
    if level.is_grid:
        parts = [
            (f"the links into one half of dimension {axis + 1} of the {label}", inside, links)
            for axis, inside, links in level.lattice.halves()
        ]
    else:
        half = level.size // 2
        parts = [(f"the links into one half of the {label}", half, half * (level.size - half))]
    return [
        Cut(
            name,
            inside * level.child,
            links * level.planes * share + _from_outside(levels, level.number, inside * level.child, rate),
        )
        for name, inside, links in parts
    ]


def total_receive_bandwidth(levels: Sequence[Level], rate: DataRate) -> float:
    """Bytes per second that all ranks together can receive."""
    total = 0.0
    for level in _used(levels):
        if level.beneath is not None:
            continue
        share = rate(level.classes[0].bandwidth)
        if level.switched:
            total += level.seats * share
        else:
            degree = level.lattice.total_degree if level.is_grid else level.size * (level.size - 1)
            total += level.ranks // level.group * level.planes * degree * share
    return total


# How far ranks are from each other over tiers.
#
# Every tier but an open mesh looks alike from all of its children, so the farthest and the nearest transfer of a
# fabric are those of its tiers, one by one.


class _Reach(NamedTuple):
    """The transfers that a tier joins."""

    nearest: float
    """Seconds of the quickest, which needs no tier beneath."""
    farthest: float
    """Seconds of the slowest, with what it takes of the tiers beneath."""
    links: int
    """Links of the longest."""


def _reaches(levels: Sequence[Level]) -> list[_Reach]:
    """Return the nearest and farthest transfers of each tier that has several children, innermost first."""
    reaches: list[_Reach] = []
    within = {1: _Reach(0.0, 0.0, 0)}
    for level in levels:
        if level.size == 1:
            continue
        passed = [(2 + 2 * beneath.tree, beneath.latency) for beneath in level.chain]
        through, over = sum(count * latency for count, latency in passed), sum(count for count, _ in passed)
        if level.is_grid:
            near, far = 1, level.lattice.diameter
        else:
            near = far = 2 + 2 * level.tree if level.switched else 1
        # On separate rails a transfer first goes to the rank of its own child that is on the rail of the destination.
        first = within[level.root.child] if not level.joined and level.planes > 1 else within[1]
        reaches.append(
            _Reach(
                through + near * level.latency,
                through + far * level.latency + first.farthest,
                over + far + first.links,
            )
        )
        within[level.group] = _Reach(
            min(reach.nearest for reach in reaches),
            max(reach.farthest for reach in reaches),
            max(reach.links for reach in reaches),
        )
    return reaches


def diameter(levels: Sequence[Level]) -> int:
    """Links between the two ranks farthest apart."""
    return max((reach.links for reach in _reaches(levels)), default=0)


def neighbour_latency(levels: Sequence[Level]) -> float:
    """Seconds of the quickest transfer; 0 of a single rank."""
    return min((reach.nearest for reach in _reaches(levels)), default=0.0)


def diameter_latency(levels: Sequence[Level]) -> float | None:
    """Seconds in which the farthest ranks hear of each other; None where relaying over an outer tier may be quicker."""
    reaches = _reaches(levels)
    for inner, outer in ((reaches[i], reaches[j]) for i in range(len(reaches)) for j in range(i + 1, len(reaches))):
        if inner.farthest > 2 * outer.nearest:
            return None
    return max((reach.farthest for reach in reaches), default=0.0)


# Groups of ranks at a stride as fabrics of tiers, and the ports of ranks.


def _members(level: Level, ranks: int, stride: int) -> int | None:
    """Ranks of a group that fall into one child of a level; None where children differ."""
    child = level.child
    if stride % child == 0:
        return 1
    if child % (ranks * stride) == 0:
        return ranks
    if child % stride == 0 and ranks * stride % child == 0:
        return child // stride
    return None


def group_tiers(levels: Sequence[Level], ranks: int, stride: int) -> tuple[Tier, ...] | None:
    """The tiers of one of the groups, while all exchange the same; None where the group is no fabric of tiers.

    Each group has its part of what it shares with its siblings: the ports of its own ranks, and of trees and uplinks as
    many as it has ranks among those of the child.
    """
    if any(level.sharing > 1 for level in levels if level.beneath is None):
        return None
    members = [_members(level, ranks, stride) for level in levels]
    tiers = []
    for level, inside, beyond in zip(levels, members, [*members[1:], ranks], strict=True):
        if inside is None or beyond is None or beyond % inside:
            return None
        if not level.joined and (beyond > inside or level.beneath is not None) and not _alone(level, inside, beyond):
            return None
        if any(not passed.joined for passed in level.chain):
            return None
        tiers.append(_reduced(level, inside, beyond // inside))
    return tuple(tiers)


def _alone(level: Level, inside: int, size: int) -> bool:
    """Return whether a group has a rail of its own through all children, or whole children that forward inside."""
    whole = size == inside * level.size
    return level.beneath is None and whole and inside in (1, level.child)


def _reduced(level: Level, inside: int, size: int) -> Tier:
    """A tier with ``size`` children of ``inside`` ranks each."""
    tier = level.tier
    fields = {name: getattr(tier, name) for name in type(tier).model_fields}
    if size == level.size:
        fields["size" if level.tier.dims is None else "dims"] = size if level.tier.dims is None else level.dims
    else:
        fields |= {"size": size, "dims": None, "twisted": False}
    if level.beneath is None:
        if tier.ports is not None:
            fields["ports"] = tier.ports * inside // level.child
    else:
        fields |= {"ports": inside, "bandwidth": tier.bandwidth * level.ports / level.child}
    return Tier(**fields)


def port_rates(levels: Sequence[Level], rate: DataRate) -> Floats | None:
    """Bytes per second of a transfer that each tier joins while all ports are busy: [tier].

    None where ranks share ports, switches lead on, or links join neighbours, so that a transfer's rate depends on more.
    """
    if any(not level.joined or level.sharing > 1 or level.beneath is not None for level in levels):
        return None
    rates = []
    for level in levels:
        ports, *tree = level.classes
        own = rate(ports.bandwidth, ports=ports.ports)
        rates.append(min([own, *(rate(links.bandwidth, ports=links.ports) / level.child for links in tree)]))
    return np.array(rates)
