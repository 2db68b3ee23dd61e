"""All-to-all of codes, sums in float32, all-gather of the sums' codes; see ``lightloom.exchange.methods.blocks``.

Owners add up what is divided by the number of ranks already, so that a mean that its format can hold never overflows on
the way. With error feedback each rank keeps one residual a value. Of the shares that others add up it is the error of
what this rank sent; of its own share, which it need not send, it is the error of the mean that it sent back, times the
number of ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from lightloom.exchange.distributed.wire import wire_format
from lightloom.exchange.methods.blocks import BlockExchange
from lightloom.training.gradients.exchanger import Exchanger
from lightloom.training.gradients.geometry import Geometry, Shares, cut
from lightloom.training.gradients.group import OwnGroup


class BlockExchanger(Exchanger):
    """Exchanges gradients in a narrow format."""

    shards = True

    def __init__(self, method: BlockExchange, group: OwnGroup, sizes: Mapping[str, int] | None = None) -> None:
        super().__init__(method.name, group, sizes, feedback=method.feedback)
        self.format = wire_format(method, group.device)
        self._shares: dict[Geometry, Shares] = {}

    def average_values(self, values: Tensor, geometry: Geometry) -> None:
        rank, ranks = self.group.rank, self.group.ranks
        if ranks == 1:
            return
        shares = self._shares_of(geometry, lambda: cut(geometry, ranks, self.format.block))
        residual = None if self.residuals is None else self.residuals.buffer(geometry, values.device)
        self._average_own_share(values, residual, shares)
        sizes = [blocks * self.format.block_bytes for blocks in shares.blocks]
        own = values.new_empty(sizes[rank], dtype=torch.uint8)
        wire = values.new_empty(sum(sizes), dtype=torch.uint8)
        _scale(residual, shares, rank, 1 / ranks)
        self.format.encode(values, residual, shares, rank, own)
        _scale(residual, shares, rank, ranks)
        self.group.all_gather(wire, own, sizes)
        for k, part in enumerate(torch.split(wire, sizes)):
            self.format.decode(part, shares, k, values)

    def reduce_scatter_values(
        self, values: Tensor, geometry: Geometry, shards: Sequence[slice], output: Tensor
    ) -> None:
        rank = self.group.rank
        shares = self._shares_of(geometry, lambda: _of_shards(geometry, shards, self.format.block))
        residual = None if self.residuals is None else self.residuals.buffer(geometry, values.device)
        self._average_own_share(values, residual, shares)
        output.copy_(values[shards[rank]])

    def _average_own_share(self, values: Tensor, residual: Tensor | None, shares: Shares) -> None:
        """Send all shares but this rank's, and replace its own by the mean with what comes from the others."""
        rank, ranks = self.group.rank, self.group.ranks
        sizes = [0 if k == rank else blocks * self.format.block_bytes for k, blocks in enumerate(shares.blocks)]
        wire = values.new_empty(sum(sizes), dtype=torch.uint8)
        for k, part in enumerate(torch.split(wire, sizes)):
            if k != rank:
                self.format.encode_term(values, residual, shares, k, part, ranks)
        incoming = [0 if k == rank else shares.blocks[rank] * self.format.block_bytes for k in range(ranks)]
        received = values.new_empty(sum(incoming), dtype=torch.uint8)
        self.group.all_to_all(received, wire, incoming, sizes)
        _scale(values, shares, rank, 1 / ranks)
        for k, part in enumerate(torch.split(received, incoming)):
            if k != rank:
                self.format.add_term(part, shares, rank, values, ranks)

    def _shares_of(self, geometry: Geometry, make: Callable[[], Shares]) -> Shares:
        if geometry not in self._shares:
            self._shares[geometry] = make()
        return self._shares[geometry]


def _of_shards(geometry: Geometry, shards: Sequence[slice], block: int) -> Shares:
    """Shares that are parts of the buffer given by others, as FSDP does; each run of a tensor begins a block."""
    return Shares(
        [[(p.offset, p.length) for p in geometry.pieces if shard.start <= p.offset < shard.stop] for shard in shards],
        block,
    )


def _scale(buffer: Tensor | None, shares: Shares, rank: int, factor: float) -> None:
    """Multiply the share of a rank by a factor."""
    if buffer is not None:
        for first, length, _ in shares.table(rank):
            buffer[first : first + length].mul_(factor)
