"""The geometry of fabrics in which every rank has one way in and one way out of a common middle."""

from __future__ import annotations

from lightloom.core.arrays import Ints
from lightloom.fabrics.base import Fabric, Footprint


class StarGeometry(Fabric):
    """Link i leads from rank i to the middle, link N + i from the middle to rank i."""

    @property
    def links(self) -> int:
        return 2 * self.ranks

    def link_name(self, link: int) -> str:
        return f"uplink of rank {link}" if link < self.ranks else f"downlink of rank {link - self.ranks}"

    def footprint(self, source: Ints, destination: Ints, route: Ints) -> Footprint:
        return Footprint.of([(0, source, 1, self.ranks), (self.ranks, destination, 1, self.ranks)])

    def diameter(self) -> int:
        return 2

    def neighbour_latency(self) -> float:
        return self.diameter_latency()
