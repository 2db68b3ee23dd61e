"""The networks that are compared, each by the bandwidth of a GPU.

electrical   one non-blocking packet switch with ports of B; the ideal one has SiP-ML's B, today's 400 or 200 Gb/s
ocs          SiP-OCS: Q = 20 circuits of B / 20 to any ranks, set once
ring         SiP-Ring: B / 2 each way in wavelengths of 25 Gb/s, reused where circuits do not overlap
"""

from __future__ import annotations

from typing import Literal

from lightloom.fabrics.base import Fabric
from lightloom.fabrics.circuit_switch import CircuitSwitch
from lightloom.fabrics.load import load_fabric
from lightloom.fabrics.packet_switch import PacketSwitch
from lightloom.parallelism.placement.base import Link, Reach
from lightloom.studies.sipml.paper import OCS_DEGREE, RING_DEGREE, WAVELENGTH

System = Literal["electrical", "ocs", "ring"]
SYSTEMS: tuple[System, ...] = ("electrical", "ocs", "ring")
GIGABIT = 1e9 / 8
"""Size of a message, in bytes."""


def fabric(system: System, ranks: int, gbps: float) -> Fabric:
    """With so many ranks of ``gbps`` Gb/s each; packets and light without latency, as in the authors' simulator."""
    if system == "electrical":
        return PacketSwitch(ranks=ranks, bandwidth=gbps * GIGABIT)
    if system == "ocs":
        return CircuitSwitch(ranks=ranks, degree=OCS_DEGREE, bandwidth=gbps * GIGABIT / OCS_DEGREE)
    return load_fabric("sip-ring", ranks, {"wavelengths": wavelengths(gbps), "hop_latency": 0.0})


def wavelengths(gbps: float) -> int:
    """Return the number of wavelengths in each direction that fit half of a GPU's bandwidth."""
    return max(1, int(gbps // (2 * WAVELENGTH)))


def reach(system: System, k: int, groups: int) -> Reach:
    """Whom a device may talk to in its group: one circuit is data parallelism's where there are several groups."""
    degrees = {"electrical": k, "ocs": OCS_DEGREE - (groups > 1), "ring": RING_DEGREE}
    return Reach(min(degrees[system], max(k - 1, 1)))


def link(system: System, k: int, groups: int, gbps: float) -> Link:
    """What placement takes a transfer for: the port, divided among a device's peers where each has circuits."""
    peers = 1 if system == "electrical" else reach(system, k, groups).degree
    return Link(bandwidth=gbps * GIGABIT / peers)
