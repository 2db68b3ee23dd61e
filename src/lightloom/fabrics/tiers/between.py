"""A list of tiers between given ranks, its sizes resolved and checked."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import prod

from lightloom.fabrics.lattice import describe
from lightloom.fabrics.tiers.filling import filled_tiers
from lightloom.fabrics.tiers.level import Level
from lightloom.fabrics.tiers.tier import Tier
from lightloom.fabrics.twisted import twist_error


@lru_cache(maxsize=256)
def levels_of(ranks: int, tiers: tuple[Tier, ...], hop_latency: float) -> tuple[Level, ...]:
    """The tiers between ``ranks``, innermost first; blocks of a torus and the circuits that join them are one level.

    Switches that ranks fill in part have the sizes of :func:`filled_tiers`.

    Raises:
        ValueError: two tiers of one name, sizes that do not multiply to the ranks, ports that cannot be spread evenly,
        uplinks without a switch beneath, circuits that differ from the links of the blocks that they join, or domains
        less than half full.
    """
    _check_names(tiers)
    tiers = filled_tiers(ranks, tiers)
    levels: list[Level] = []
    child, base = 1, 0
    for number, tier in enumerate(tiers, 1):
        where = f"tier {number}" + (f" ({tier.name})" if tier.name else "")
        dims = _filled(tier, ranks, child)
        if dims is None:
            dims = tier.sizes(_children_left(tier, where, ranks, child, outermost=number == len(tiers)))
        if levels and _joins_blocks(tier, dims, levels[-1]):
            blocks = levels.pop()
            _check_circuits(tier, blocks, where)
            dims = tuple(inner * outer for inner, outer in zip(blocks.dims, dims, strict=True))
            joined = blocks.tier.model_copy(update={"shape": "torus", "twisted": tier.twisted})
            level = replace(blocks, tier=joined, dims=dims)
            base = blocks.base
        else:
            beneath = _switch_beneath(tier, levels, where, child, used=prod(dims) > 1)
            latency = hop_latency if tier.latency is None else tier.latency
            level = Level(tier, len(levels) + 1, ranks, dims, child, latency, beneath, base)
        levels.append(level)
        _check_twist(level, where)
        child = level.group
        if ranks % child:
            sizes = " · ".join(str(entry.size) for entry in levels)
            total = f" = {child}" if len(levels) > 1 else ""
            raise ValueError(f"tiers of {sizes}{total} ranks do not divide ranks={ranks}: expected a divisor")
        base += level.links
    if child != ranks:
        sizes = describe([level.size for level in levels])
        raise ValueError(f"tiers of {sizes} join {child} ranks, not ranks={ranks}: expected a product that is equal")
    return tuple(levels)


def _check_names(tiers: tuple[Tier, ...]) -> None:
    """Tiers are told apart by their names where fields of one are set, and where tables name links."""
    places: dict[str, int] = {}
    for number, tier in enumerate(tiers, 1):
        if tier.name and places.setdefault(tier.name, number) != number:
            raise ValueError(f"tiers {places[tier.name]} and {number} are both named {tier.name!r}: expected two names")


def _filled(tier: Tier, ranks: int, child: int) -> tuple[int, ...] | None:
    """Children along each dimension of a tier that states how many; None where it does not.

    Fewer ranks may fill a part of a switch or a full mesh, and a single child of anything.
    """
    if tier.children is None:
        return None
    stated, filled = tier.sizes(tier.children), ranks // child
    if ranks % child or filled >= tier.children:
        return stated
    if filled == 1:
        return (1,) * len(stated)
    return (filled,) if tier.shape in ("switch", "full-mesh") else stated


def _children_left(tier: Tier, where: str, ranks: int, child: int, *, outermost: bool) -> int:
    """Children of a tier that states no size."""
    if not outermost:
        raise ValueError(f"{where} has no size: expected one, as only the outermost takes what is left")
    if tier.most is not None and ranks // child > tier.most:
        raise ValueError(f"{where} joins {ranks // child} children of {child} ranks: expected at most {tier.most}")
    return ranks // child


def _joins_blocks(tier: Tier, dims: tuple[int, ...], inner: Level) -> bool:
    """Whether circuits continue the tori or meshes beneath; a block of one child has no links to continue."""
    blocks = inner.size > 1 and inner.tier.shape in ("torus", "mesh")
    return blocks and tier.shape == "circuit-switch" and len(dims) == len(inner.dims)


def _check_circuits(tier: Tier, blocks: Level, where: str) -> None:
    rates = [part.bandwidth * part.wire_efficiency for part in (tier, blocks.tier)]
    if rates[0] != rates[1] or tier.ports not in (None, blocks.tier.ports):
        raise ValueError(f"{where} joins the sides of a {blocks.tier.shape}: expected bandwidth and ports of its links")
    if blocks.tier.twisted:
        raise ValueError(f"{where} joins blocks that are twisted: expected twisted of the circuits alone")
    if tier.latency not in (None, blocks.latency):
        raise ValueError(f"{where} joins the sides of a {blocks.tier.shape}: expected no latency but that of its links")


def _check_twist(level: Level, where: str) -> None:
    error = twist_error(level.dims) if level.tier.twisted and level.size > 1 else None
    if error is not None:
        raise ValueError(f"{where}: {error}")


def _switch_beneath(tier: Tier, levels: list[Level], where: str, child: int, *, used: bool) -> Level | None:
    """The level through whose switch a tier's ports are reached; None where they are the ranks' own.

    Ports that are not ``used``, since there is one child, need not be spread evenly.
    """
    if tier.through_switch:
        if not levels or not levels[-1].switched:
            raise ValueError(f"{where} has ports through the switch beneath: expected a tier of shape switch there")
        return levels[-1]
    if used and tier.ports is not None and tier.ports % child and child % tier.ports:
        raise ValueError(f"{where} has {tier.ports} ports for {child} ranks: expected a divisor or a multiple")
    return None
