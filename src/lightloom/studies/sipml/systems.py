"""The networks that are compared, each by the bandwidth of a GPU.

ideal            one non-blocking packet switch with ports of B
electrical 400   the same with ports of at most 400 Gb/s (and 200)
SiP-OCS          Q = 20 circuits of B / 20 to any ranks, set once
SiP-Ring         B / 2 each way in wavelengths of 25 Gb/s, which are reused where circuits do not overlap
"""

from __future__ import annotations

from typing import NamedTuple

from lightloom.fabrics.base import Fabric
from lightloom.fabrics.circuit_switch import CircuitSwitch
from lightloom.fabrics.load import load_fabric
from lightloom.fabrics.packet_switch import PacketSwitch
from lightloom.parallelism.placed import Link, Reach
from lightloom.studies.sipml.paper import OCS_DEGREE, RING_DEGREE, WAVELENGTH

GIGABIT = 1e9 / 8
"""Bytes."""


class System(NamedTuple):
    """A network, but for its size and speed."""

    name: str
    kind: str
    """``electrical``, ``ocs`` or ``ring``."""
    most: float | None = None
    """Gb/s above which its ports do not go."""

    def fabric(self, ranks: int, gbps: float) -> Fabric:
        """With so many ranks of ``gbps`` Gb/s each."""
        if self.kind == "electrical":
            return PacketSwitch(ranks=ranks, bandwidth=self.port(gbps) * GIGABIT)
        if self.kind == "ocs":
            return CircuitSwitch(ranks=ranks, degree=OCS_DEGREE, bandwidth=gbps * GIGABIT / OCS_DEGREE)
        return load_fabric("sip-ring", ranks, {"wavelengths": wavelengths(gbps)})

    def port(self, gbps: float) -> float:
        """Gb/s of a GPU here."""
        return gbps if self.most is None else min(gbps, self.most)

    def reach(self, k: int, groups: int) -> Reach:
        """Whom a device may talk to in its group: one circuit is data parallelism's where there are several groups."""
        degree = {"ocs": OCS_DEGREE - (groups > 1), "ring": RING_DEGREE}.get(self.kind, k)
        return Reach(min(degree, max(k - 1, 1)))

    def link(self, k: int, groups: int, gbps: float) -> Link:
        """What placement takes a transfer for: a port's share of the peers that a device may have."""
        peers = min(self.reach(k, groups).degree, max(k - 1, 1)) if self.kind != "electrical" else 1
        return Link(bandwidth=self.port(gbps) * GIGABIT / peers)


def wavelengths(gbps: float) -> int:
    """Whole wavelengths each way that fit half of a GPU's bandwidth."""
    return max(1, int(gbps // (2 * WAVELENGTH)))


SYSTEMS = (
    System("ideal", "electrical"),
    System("electrical-400", "electrical", 400),
    System("electrical-200", "electrical", 200),
    System("ocs", "ocs"),
    System("ring", "ring"),
)
"""All."""
