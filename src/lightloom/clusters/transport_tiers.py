"""What a transport has to know of a cluster: its two tiers as collectives use them, and the memory of a rank."""

from __future__ import annotations

from lightloom.accelerators.base import Accelerator
from lightloom.core.errors import UnsupportedError
from lightloom.fabrics.base import Fabric
from lightloom.fabrics.tiers.base import TieredFabric
from lightloom.fabrics.tiers.reach import reached_tiers
from lightloom.transports.ways import Tiers


def transport_tiers(fabric: Fabric, accelerator: Accelerator | None = None) -> Tiers:
    """Return the innermost tier as the domain, and the slowest share of a rank in the others as the network.

    Raises:
        UnsupportedError: the fabric has no tiers of switches.
    """
    tiers = reached_tiers(fabric.levels) if isinstance(fabric, TieredFabric) else None
    if tiers is None:
        raise UnsupportedError(f"closed forms of transports need tiers of switches, not a {fabric.kind_name}")
    return tiers if accelerator is None else tiers._replace(memory=accelerator.memory_bandwidth)
