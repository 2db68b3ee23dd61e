"""All-reduce of gradients as they are."""

from __future__ import annotations

from torch import Tensor

from lightloom.exchange.distributed.exchanger import Exchanger
from lightloom.exchange.distributed.geometry import Geometry


class PlainExchanger(Exchanger):
    """Averages in the buffer's own type."""

    any_type = True

    def average(self, values: Tensor, geometry: Geometry) -> None:
        values /= self.group.ranks
        self.group.all_reduce(values)
