"""Two tiers as a transport sees them: the innermost as the domain, the slowest of the others as the network.

Where the second tier leaves from the switches of the first, as the spines of a fat tree do, these are switches of the
network: every rank is then a domain of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from lightloom.fabrics.tiers.tier import Tier
from lightloom.transports.ways import Tiers


def joins_domains(tiers: Sequence[Tier]) -> bool:
    """Whether the innermost tier joins the ranks of a domain, and is no part of the network between domains."""
    return len(tiers) == 1 or not tiers[1].through_switch


def reached_tiers(tiers: Sequence[Tier], ranks: int) -> Tiers | None:
    """Return the domain and what a rank's part of the slowest network tier carries; None where not all are switches.

    Args:
        tiers: from the ranks outwards.
        ranks: of the whole fabric, which an innermost tier without a size joins.
    """
    if any(tier.shape != "switch" for tier in tiers):
        return None
    domain, *others = tiers
    together = min(domain.size or domain.most or ranks, ranks)
    network, children, switches = math.inf, together, 1
    if not joins_domains(tiers):
        network, together = _rate(domain, 1), 1
    for tier in others:
        switches = switches if tier.through_switch else 1
        network = min(network, switches * _rate(tier, children))
        if tier.separate_rails:
            switches = tier.ports or children
        children *= tier.size or 1
    return Tiers(together, _rate(domain, 1), network, domain.in_network_reduction)


def _rate(tier: Tier, ranks: int) -> float:
    """Bytes per second of one rank in a tier, where a child, or a switch beneath, serves so many ranks."""
    ports = tier.ports or ranks
    return tier.wire_efficiency * tier.bandwidth * ports / ranks / (tier.taper or 1.0)
