"""The in-network averager of OptINC as a fabric: light from every rank is averaged on its way back to every rank.

rank i ──up i──▶ ╔══════════╗ ──down j──▶ rank j        what enters in a step leaves in the same step
                 ║ averager ║
                 ╚══════════╝
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from lightloom.core.fields import Bandwidth, Count, Seconds
from lightloom.fabrics.base import Cut, Floats, Footprint, Ints
from lightloom.fabrics.star import StarGeometry


class OpticalAverager(StarGeometry):
    """A star around an averaging optical neural network (OptINC, Fig. 2); it cannot carry rank-to-rank transfers."""

    kind: Literal["optical-averager"] = "optical-averager"
    bandwidth: Bandwidth = 800e9
    """Bytes per second of a rank's port, per direction."""
    levels: Count = 1
    """Averagers in cascade between a rank and the root."""
    averaging_latency: Seconds = 0.0
    """Seconds that light and receivers spend in one level."""

    in_network_reduction: ClassVar[bool] = True

    @property
    def taps(self) -> int:
        return self.ranks

    def link_bandwidth(self) -> Floats:
        return np.full(self.links, self.bandwidth)

    def footprint(self, source: Ints, destination: Ints, route: Ints) -> Footprint:
        up = np.asarray(destination) == self.switch_rank
        return Footprint.of([(np.where(up, 0, self.ranks), np.where(up, source, destination), 1, self.ranks)])

    def latency(self, source: Ints, destination: Ints, route: Ints) -> Floats:
        up = np.asarray(destination) == self.switch_rank
        return self.hop_latency + np.where(up, self.levels * self.averaging_latency, 0.0)

    def cuts(self) -> list[Cut]:
        return [Cut("what one rank's port can receive", 1, self.bandwidth)]

    def total_receive_bandwidth(self) -> float:
        return self.ranks * self.bandwidth

    def diameter_latency(self) -> float:
        return 2 * self.hop_latency + self.levels * self.averaging_latency
