"""Some ranks of a packet fabric as a fabric: a job that has them to itself, on links that other jobs use too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self

import numpy as np
from pydantic import model_validator

from lightloom.core.arrays import Ints
from lightloom.fabrics.base import Fabric, GroupFabric
from lightloom.fabrics.capabilities import Axis


class PartFabric(GroupFabric):
    """The given ranks of a fabric, numbered from 0 in their order; all other ranks are silent."""

    kind: Literal["part"] = "part"  # type: ignore[assignment]
    members: tuple[int, ...]
    """Ranks of the fabric."""
    slowed: float = 1.0
    """How many times longer sends from stage to stage take, since other jobs use their links."""

    @model_validator(mode="after")
    def _groups_tile_the_fabric(self) -> Self:
        if len(set(self.members)) != self.ranks or not all(0 <= rank < self.whole.ranks for rank in self.members):
            raise ValueError(f"members of a part of {self.ranks} ranks: expected as many of {self.whole.ranks}")
        if self.whole.exclusive or self.whole.in_network_reduction:
            raise ValueError(f"a {self.whole.kind_name} carries no packets: expected links that transfers share")
        return self

    @classmethod
    def on(cls, whole: Fabric, members: Sequence[int]) -> PartFabric:
        """The part with the fabric's common fields."""
        common = {name: getattr(whole, name) for name in ("hop_latency", "energy_per_bit", "power_per_rank")}
        return cls(whole=whole, ranks=len(members), members=tuple(members), **common)

    def siblings(self) -> tuple[Fabric, Ints]:
        return self.whole, np.array(self.members, np.int64)[None]

    def pair(self, stride: int) -> tuple[float, float]:
        rate, latency = super().pair(stride)
        return rate / self.slowed, latency

    @property
    def library(self) -> None:
        """None: a library's figures are for whole fabrics."""

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Those of the fabric, cut to the part, where it is an aligned block of neighbours."""
        first, axes, stride = self.members[0], [], 1
        if self.members != tuple(range(first, first + self.ranks)):
            return ()
        for axis in self.whole.axes:
            size = min(axis.size, self.ranks // axis.stride)
            if size < 2 or axis.stride != stride:
                break
            axes.append(axis._replace(size=size))
            stride *= size
        if stride != self.ranks or not axes:
            return ()
        last = self.whole.axes[len(axes) - 1]
        begin, offset = divmod(first, last.stride)
        aligned = not offset and begin % last.size + axes[-1].size <= last.size
        return tuple(axes) if aligned else ()
