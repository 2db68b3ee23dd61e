"""Optical circuit switches (SiP-OCS): every rank has one port on each of ``degree`` switch planes.

plane 0   ports in ── permutation ── ports out
...
plane D−1                                        a circuit takes a source's input and a destination's output of a plane
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field

from lightloom.core.arrays import Floats, Ints
from lightloom.core.fields import Bandwidth, Count, Seconds
from lightloom.fabrics import derived
from lightloom.fabrics.bills.circuits import circuit_switch_bill
from lightloom.fabrics.shares import AxisShare, Lightpaths, Shift
from lightloom.fabrics.star import StarGeometry
from lightloom.parts.bill import Bill
from lightloom.parts.choices import BillChoices


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
    distance_matters: ClassVar[bool] = True
    switch_planes: ClassVar[bool] = True
    port_cut: ClassVar[str] = "the circuits that one rank can hold"

    @property
    def channels(self) -> int:
        return self.degree

    @property
    def channel_bandwidth(self) -> float:
        return self.bandwidth

    def bill_of_parts(self, choices: BillChoices) -> Bill:
        return circuit_switch_bill(self.ranks, self.degree, self.bandwidth, choices)

    def link_name(self, link: int) -> str:
        return f"input port of rank {link}" if link < self.ranks else f"output port of rank {link - self.ranks}"

    def link_bandwidth(self) -> Floats:
        return np.full(self.links, self.degree * self.bandwidth)

    def share_unit(self, ranks: int, stride: int) -> int:
        """One: any plane can be set to circuits of one axis."""
        return 1

    def share(self, ranks: int, stride: int, channels: int) -> Self | None:
        """A switch of fewer planes: circuits of other groups end at other ports."""
        return self._with(ranks=ranks, degree=channels) if 1 <= channels <= self.degree else None

    def embedded(self, axis: AxisShare, group: Ints, local: Lightpaths) -> Lightpaths:
        """The same planes for all groups."""
        members = derived.group_members(self.ranks, axis.ranks, axis.stride)
        ends = members[group, local.source], members[group, local.destination]
        return Lightpaths(*ends, local.route, axis.first + local.channel)

    def shift_unit(self, stride: int) -> int:
        """Two planes, one each way; one where the rank further on is that before."""
        return 1 if 2 * stride == self.ranks else 2

    def shift(self, stride: int, channels: int) -> Shift:
        width = channels // self.shift_unit(stride)
        return Shift(stride, 1, width, width * self.bandwidth, self.neighbour_latency())

    def shift_circuits(self, stride: int, first: int, channels: int) -> tuple[Lightpaths, int]:
        rank, width = np.arange(self.ranks), self.shift(stride, channels).width
        parts = [
            Lightpaths(rank, (rank + way * stride) % self.ranks, np.zeros_like(rank), np.full(len(rank), first + begin))
            for way, begin in zip((1, -1), range(0, channels, max(width, 1)), strict=False)
        ]
        return Lightpaths(*map(np.concatenate, zip(*parts, strict=True))), width
