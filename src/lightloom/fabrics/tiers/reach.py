"""Two tiers as a transport sees them: the innermost as the domain, the slowest of the others as the network.

Where the second tier leaves from the switches of the first, as the spines of a fat tree do, these are switches of the
network: every rank is then a domain of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from lightloom.fabrics.tiers.level import Level
from lightloom.fabrics.tiers.tier import Tier
from lightloom.transports.ways import Tiers


def joins_domains(tiers: Sequence[Tier]) -> bool:
    """Whether the innermost tier joins the ranks of a domain, and is no part of the network between domains."""
    return len(tiers) == 1 or not tiers[1].through_switch


def reached_tiers(levels: Sequence[Level]) -> Tiers | None:
    """Return the domain and what a rank's part of the slowest network tier carries; None where not all are switches."""
    if any(not level.switched for level in levels):
        return None
    domain = levels[0]
    joins = joins_domains([level.tier for level in levels])
    network = min((_rate(level) for level in levels[joins:]), default=math.inf)
    return Tiers(domain.group if joins else 1, _rate(domain), network, domain.tier.in_network_reduction)


def _rate(level: Level) -> float:
    """Bytes per second of one rank over a tier's switches while all ranks send: of its ports, or of the tree behind."""
    return min(alike.bandwidth * (alike.links / (2 * level.ranks)) for alike in level.classes)
