"""Groups of ranks at a stride as fabrics of tiers, and the ports of ranks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lightloom.core.arrays import Floats
from lightloom.fabrics.tiers.cuts import DataRate
from lightloom.fabrics.tiers.level import Level
from lightloom.fabrics.tiers.tier import Tier


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
    """Whether a group has a rail of its own through all children, or whole children that forward inside."""
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
