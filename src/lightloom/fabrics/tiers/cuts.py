"""What can enter ranks, and groups of ranks, over tiers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from lightloom.core.arrays import Floats
from lightloom.fabrics.footprint import Cut
from lightloom.fabrics.tiers.level import Level

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
