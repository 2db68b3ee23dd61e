"""Rings: the WDM ring of TeraRack and SiP-Ring, and its electrical, packet-switched counterpart.

clockwise link i          i ──▶ i+1
counter-clockwise link i  i ◀── i+1        (the numbers are taken modulo the number of ranks)
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from lightloom.core.arrays import Floats, Ints
from lightloom.core.fields import Bandwidth, Count, Seconds
from lightloom.fabrics.base import CLOCKWISE, COUNTERCLOCKWISE, Cut, Fabric
from lightloom.fabrics.footprint import Footprint


class RingGeometry(Fabric):
    """A closed ring with one link each way between neighbours."""

    routes: ClassVar[int] = 2

    @property
    def links(self) -> int:
        return 2 * self.ranks

    def link_name(self, link: int) -> str:
        n = self.ranks
        a, b = link % n, (link + 1) % n
        return f"clockwise link {a}→{b}" if link < n else f"counter-clockwise link {b}→{a}"

    def footprint(self, source: Ints, destination: Ints, route: Ints) -> Footprint:
        n, forward = self.ranks, np.asarray(route) == CLOCKWISE
        start = np.where(forward, source, destination)
        length = np.where(forward, destination - source, source - destination) % n
        return Footprint.of([(np.where(forward, 0, n), start, length, n)])

    def route(self, source: Ints, destination: Ints) -> Ints:
        """The shorter way, and the way back the same; opposite pairs alternate, so that neither way carries more."""
        n = self.ranks
        ahead = (np.asarray(destination) - source) % n
        tie = (np.minimum(source, destination) % 2 == 1) ^ (np.asarray(destination) < source)
        backward = (2 * ahead > n) | ((2 * ahead == n) & tie)
        return np.where(backward, COUNTERCLOCKWISE, CLOCKWISE).astype(np.int64)

    def reverse_route(self, route: Ints) -> Ints:
        return 1 - np.asarray(route)

    def diameter(self) -> int:
        return self.ranks // 2

    def diameter_latency(self) -> float:
        return self.hop_latency * self.diameter()

    def neighbour_latency(self) -> float:
        return self.hop_latency

    def cuts(self) -> list[Cut]:
        half = Cut("the links into one half of the ring", self.ranks // 2, 2 * float(self.link_bandwidth()[0]))
        return [Cut("what one rank can receive", 1, self._receive_bandwidth()), half]

    def total_receive_bandwidth(self) -> float:
        return self.ranks * self._receive_bandwidth()

    def _receive_bandwidth(self) -> float:
        """Bytes per second that one rank can receive."""
        return 2 * float(self.link_bandwidth()[0])


class WavelengthRing(RingGeometry):
    """Nodes on a ring of fibres, each fibre carrying many wavelengths; micro-rings add, drop or pass each of them.

    A lightpath takes the same wavelength on every link from source to destination and passes the nodes in between as
    light. Sources: TeraRack and SiP-ML (rings in both directions, 25 µs to retune), OpTree section III-A.
    """

    kind: str
    wavelengths: Annotated[Count, Field(le=1024)] = 64
    """Wavelengths of a fibre."""
    wavelength_bandwidth: Bandwidth = 5e9
    """Bytes per second of one wavelength."""
    fibres: Annotated[Count, Field(le=32)] = 1
    """Fibres per direction."""
    reconfiguration_time: Seconds = 25e-6
    """Seconds to retune the micro-rings, paid whenever a circuit changes."""
    conversion_time: Seconds = 0.0
    """Seconds a step pays for optical-electrical-optical conversion."""
    guard_time: Seconds = 0.0
    """Seconds that every piece holds its lightpath besides its bytes, where pieces follow each other on standing
    circuits."""
    transceivers: Count | None = None
    """Wavelengths a node can send on at once, and receive on at once; null when only the fibres limit it."""
    multicast_taps: Annotated[int, Field(ge=1, strict=True)] = 1
    """Destinations one lightpath may serve by drop-and-continue."""
    lightpath_reach: Count | None = None
    """Links one lightpath may pass before its light is too weak (``lightloom budget``); null without limit."""

    exclusive: ClassVar[bool] = True
    wavelength_routed: ClassVar[bool] = True
    distance_matters: ClassVar[bool] = False
    group_assumption: ClassVar[str] = (
        "the ring of a group's neighbours closes, as SiP-ML assumes; groups that interleave divide the wavelengths"
    )

    @property
    def channels(self) -> int:
        return self.wavelengths * self.fibres

    @property
    def fibre_channels(self) -> int:
        return self.wavelengths

    @property
    def usable_channels(self) -> int:
        """Half the transceivers for each way, if they are fewer than the wavelengths."""
        return self.channels if self.transceivers is None else min(self.channels, self.transceivers // 2)

    @property
    def channel_bandwidth(self) -> float:
        return self.wavelength_bandwidth

    def group(self, ranks: int, stride: int = 1) -> Fabric | None:
        """A ring of as many ranks."""
        return self._with(ranks=ranks)

    def pair(self, stride: int) -> tuple[float, float]:
        """All that a rank can receive, from its neighbour: circuits go where they are needed."""
        if stride % self.ranks == 0:
            return np.inf, 0.0
        return self.total_receive_bandwidth() / self.ranks, self.neighbour_latency()

    def channel_sharing(self, stride: Ints) -> Ints:
        """Groups that interleave have as many rings as their ranks lie apart."""
        return stride

    def link_bandwidth(self) -> Floats:
        return np.full(self.links, self.channels * self.wavelength_bandwidth)

    def _receive_bandwidth(self) -> float:
        usable = 2 * self.channels if self.transceivers is None else min(2 * self.channels, self.transceivers)
        return usable * self.wavelength_bandwidth


class WdmRing(WavelengthRing):
    """A ring of wavelengths on which everything works."""

    kind: Literal["wdm-ring"] = "wdm-ring"

    models_failures: ClassVar[bool] = True


class Ring(RingGeometry):
    """An electrical ring: each neighbour pair joined by one link each way, packets forwarded hop by hop."""

    kind: Literal["ring"] = "ring"
    bandwidth: Bandwidth = 50e9
    """Bytes per second of a link, per direction."""

    joins_ranks: ClassVar[bool] = True

    def link_bandwidth(self) -> Floats:
        return np.full(self.links, self.bandwidth)
