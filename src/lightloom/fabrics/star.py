"""The geometry of fabrics in which every rank has one way in and one way out of a common middle."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Self

import numpy as np

from lightloom.core.arrays import Floats, Ints
from lightloom.fabrics.base import Fabric
from lightloom.fabrics.derived import Ports
from lightloom.fabrics.footprint import Cut, Footprint
from lightloom.parts.part import Kind


class StarGeometry(Fabric):
    """Link i leads from rank i to the middle, link N + i from the middle to rank i."""

    distance_matters: ClassVar[bool] = False
    stated_power_of: ClassVar[tuple[Kind, ...] | None] = ("nic",)
    port_cut: ClassVar[str] = "what one rank's port can receive"
    """Name of the cut of a single rank."""

    @property
    def links(self) -> int:
        return 2 * self.ranks

    @property
    @abstractmethod
    def port_bandwidth(self) -> float:
        """Bytes per second of each rank's way in, and of its way out."""

    def link_bandwidth(self) -> Floats:
        return np.full(self.links, self.port_bandwidth)

    def link_name(self, link: int) -> str:
        return f"uplink of rank {link}" if link < self.ranks else f"downlink of rank {link - self.ranks}"

    def footprint(self, source: Ints, destination: Ints, route: Ints) -> Footprint:
        return Footprint.of([(0, source, 1, self.ranks), (self.ranks, destination, 1, self.ranks)])

    def diameter(self) -> int:
        return 2

    def diameter_latency(self) -> float:
        return 2 * self.hop_latency

    def root_latency(self, *, to_root: bool) -> float:
        """All ranks are alike."""
        return self.diameter_latency()

    def neighbour_latency(self) -> float:
        return self.diameter_latency()

    def cuts(self) -> list[Cut]:
        return [Cut(self.port_cut, 1, self.port_bandwidth)]

    def rank_bandwidths(self) -> tuple[Floats, Floats]:
        alike = np.full(self.ranks, self.port_bandwidth)
        return alike, alike

    def total_receive_bandwidth(self) -> float:
        return self.ranks * self.port_bandwidth

    def ports(self, source: Ints, destination: Ints) -> Ports | None:
        only = np.zeros(len(source), np.int64)
        return Ports(only, only, np.full(len(source), self.port_bandwidth))

    def group(self, ranks: int, stride: int = 1) -> Self | None:
        return self._with(ranks=ranks)
