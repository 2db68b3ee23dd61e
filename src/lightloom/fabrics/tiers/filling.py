"""Which part of their domains ranks fill, where they do not fill whole ones.

Switches and full meshes may stay partly empty, all of a tier alike: 256 ranks on racks of 72 are 4 racks of 64. The
fewest domains are taken that divide the ranks evenly, at least half full. What leads on from a domain shrinks with it,
so that every rank has the part of ports, trees and uplinks that it has where domains are full.
"""

from __future__ import annotations

from collections.abc import Sequence

from lightloom.fabrics.tiers.tier import Tier


def filled_tiers(ranks: int, tiers: Sequence[Tier]) -> tuple[Tier, ...]:
    """Return the tiers with the sizes that ranks fill; those that ranks fill wholly, or that are one domain, stay.

    Raises:
        ValueError: domains would be less than half full; says which numbers of ranks are next.
    """
    filled, child = list(tiers), 1
    for number, tier in enumerate(tiers):
        if tier.children is None or ranks % child or ranks // child <= tier.children:
            break
        size = tier.children
        if ranks // child % size and _may_stay_empty(tiers, number):
            outer = [place for place in range(number + 1, len(tiers)) if _shrinks(tiers, place, number)]
            ports = [count for place in outer if (count := filled[place].ports) is not None]
            size = _even(ranks // child, size, ports)
            if not size:
                raise ValueError(_refusal(ranks, child, tier, number, ports))
            filled[number] = filled[number].model_copy(update={"size": size})
            for place in outer:
                if (count := filled[place].ports) is not None:
                    filled[place] = filled[place].model_copy(update={"ports": count * size // tier.children})
        child *= size
    return tuple(filled)


def filling(ranks: int, tiers: Sequence[Tier]) -> str | None:
    """Say which domains stay partly empty; None where all are full, or where there is one."""
    words, child, whole, idle = [], 1, 1, 0
    for tier, filled in zip(tiers, filled_tiers(ranks, tiers), strict=True):
        child, whole = child * (filled.children or 1), whole * (tier.children or 1)
        if filled.children != tier.children:
            domains = ranks // child
            words.append(f"{domains} domains of {tier.name or tier.shape} hold {child} of {whole} ranks each")
            idle = domains * whole - ranks
    return f"{', '.join(words)}; the {idle:,} idle ones are not counted" if words else None


def _may_stay_empty(tiers: Sequence[Tier], number: int) -> bool:
    """Whether a tier joins any number of children, others its domains, and no circuits blocks of a fixed size."""
    circuits = any(tier.shape == "circuit-switch" for tier in tiers)
    return number + 1 < len(tiers) and tiers[number].shape in ("switch", "full-mesh") and not circuits


def _shrinks(tiers: Sequence[Tier], place: int, number: int) -> bool:
    """Whether the ports of a tier are those of ranks in a domain of another: not where its rails are fewer instead."""
    rail = place
    while tiers[rail].through_switch and tiers[rail - 1].separate_rails:
        rail -= 1
    return rail == place or tiers[rail].through_switch or number >= rail


def _even(children: int, size: int, ports: Sequence[int]) -> int:
    """Return the most children, from half the size on, that fill all domains alike and have whole ports; or 0."""
    for domains in range(-(-children // size), 2 * children // size + 1):
        part = children // domains
        if children % domains == 0 and 2 * part >= size and not any(count * part % size for count in ports):
            return part
    return 0


def _refusal(ranks: int, child: int, tier: Tier, number: int, ports: Sequence[int]) -> str:
    size, children = tier.children or 1, ranks // child
    near = next(count for count in range(children - 1, 0, -1) if count <= size or _even(count, size, ports))
    more = next(count for count in range(children + 1, children + size + 1) if _even(count, size, ports))
    where = f"tier {number + 1}" + (f" ({tier.name})" if tier.name else "")
    of = f"{size} ranks" if child == 1 else f"{size} groups of {child} ranks"
    return (
        f"ranks={ranks} do not divide evenly into domains of {where}, of {of}, that are at least half full: expected "
        f"e.g. {near * child} or {more * child}"
    )
