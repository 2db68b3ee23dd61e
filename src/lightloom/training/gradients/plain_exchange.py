"""All-reduce of gradients as they are."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from lightloom.training.gradients.exchanger import Exchanger
from lightloom.training.gradients.geometry import Geometry


class PlainExchanger(Exchanger):
    """Averages in the buffer's own type."""

    any_type = True
    shards = True

    def average_values(self, values: Tensor, geometry: Geometry) -> None:
        values /= self.group.ranks
        self.group.all_reduce(values)

    def reduce_scatter_values(
        self, values: Tensor, geometry: Geometry, shards: Sequence[slice], output: Tensor
    ) -> None:
        values /= self.group.ranks
        output.copy_(self.group.reduce_scatter_in_order(values, [shard.stop - shard.start for shard in shards]))
