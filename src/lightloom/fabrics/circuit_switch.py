"""Optical circuit switches (SiP-OCS): every rank has one port on each of ``degree`` switch planes.

plane 0   ports in ── permutation ── ports out
...
plane D−1                                        a circuit takes a source's input and a destination's output of a plane
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from lightloom.core.arrays import Floats
from lightloom.core.fields import Bandwidth, Count, Seconds
from lightloom.fabrics.star import StarGeometry


class CircuitSwitch(StarGeometry):
    """Flat planes of one N-port switch each; the degree D of SiP-ML section 3.1 is the number of planes."""

    kind: Literal["circuit-switch"] = "circuit-switch"
    degree: Annotated[Count, Field(le=1024)] = 8
    """Switch planes, hence circuits that a rank can hold at once."""
    bandwidth: Bandwidth = 50e9
    """Bytes per second of one circuit, per direction."""
    reconfiguration_time: Seconds = 10e-3
    """Seconds to set new permutations."""

    exclusive: ClassVar[bool] = True
    switch_planes: ClassVar[bool] = True
    port_cut: ClassVar[str] = "the circuits that one rank can hold"

    @property
    def channels(self) -> int:
        return self.degree

    @property
    def channel_bandwidth(self) -> float:
        return self.bandwidth

    def link_name(self, link: int) -> str:
        return f"input port of rank {link}" if link < self.ranks else f"output port of rank {link - self.ranks}"

    def link_bandwidth(self) -> Floats:
        return np.full(self.links, self.degree * self.bandwidth)
