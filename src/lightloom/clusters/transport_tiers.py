"""What a transport has to know of a cluster: its two tiers as collectives use them."""

from __future__ import annotations

import math

from lightloom.accelerators.base import Accelerator
from lightloom.core.errors import UnsupportedError
from lightloom.fabrics.base import Fabric
from lightloom.fabrics.tiers.base import TieredFabric
from lightloom.fabrics.tiers.tier import Tier
from lightloom.transports.ways import Tiers


def transport_tiers(fabric: Fabric, accelerator: Accelerator | None = None) -> Tiers:
    """Return the innermost tier as the domain, and the slowest share of a rank in the others as the network.

    Raises:
        UnsupportedError: the fabric has no tiers of switches.
    """
    if not isinstance(fabric, TieredFabric) or any(tier.shape != "switch" for tier in fabric.tier_list()):
        raise UnsupportedError(f"closed forms of transports need tiers of switches, not a {fabric.kind_name}")
    domain, *others = fabric.tier_list()
    ranks = domain.size or domain.most or fabric.ranks
    network, children, switches = math.inf, ranks, 1
    for tier in others:
        switches = switches if tier.through_switch else 1
        network = min(network, switches * _rate(tier, children))
        if tier.separate_rails:
            switches = tier.ports or children
        children *= tier.size or 1
    memory = None if accelerator is None else accelerator.memory_bandwidth
    return Tiers(ranks, _rate(domain, 1), network, domain.in_network_reduction, memory)


def _rate(tier: Tier, ranks: int) -> float:
    """Bytes per second of one rank in a tier, where a child, or a switch beneath, serves so many ranks."""
    ports = tier.ports or ranks
    return tier.wire_efficiency * tier.bandwidth * ports / ranks / (tier.taper or 1.0)
