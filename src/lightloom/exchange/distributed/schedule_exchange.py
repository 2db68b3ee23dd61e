"""Sums and gathers among the ranks of a node by the rows of schedules, coded on the wire.

    reduce-scatter   a row carries a partial sum, encoded by its source; its destination decodes and adds it in float32
    all-gather       the owner of a share encodes it once; rows carry these bytes as they are

Every rank decodes the same bytes, its own share's too, so that replicas stay bit-identical. Rows are executed level by
level, as ``lightloom.exchange.execution`` compiles them, and added in the order of their sources. Each tensor is cut by
itself, and the schedules are the same for all buckets, so that no sum depends on the bucket that a tensor is in.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from lightloom.collectives.collective import Collective
from lightloom.collectives.registry import build, find
from lightloom.core.errors import UnsupportedError
from lightloom.exchange.distributed.block_exchange import wire_format
from lightloom.exchange.distributed.group import OwnGroup
from lightloom.exchange.distributed.residuals import Geometry, Share, cut_shares
from lightloom.exchange.distributed.ring_exchange import TensorBlocks
from lightloom.exchange.execution import Movement, movement_of
from lightloom.exchange.methods import ScheduledSums
from lightloom.machines.fabrics.load import load_fabric

BUCKET_BYTES = 25.0 * (1 << 20)
"""Bytes for which schedules are built: those of a bucket of DDP."""

Chunks = dict[int, list[int]]
"""Numbers of chunks by peer, ascending."""


class ScheduledGroup:
    """A reduce-scatter and an all-gather of the blocks of a buffer among the ranks of a group."""

    def __init__(self, sums: ScheduledSums, group: OwnGroup) -> None:
        """Build and verify both schedules.

        Args:
            sums: algorithm, fabric and coding.
            group: connections, on which the bytes that this rank sends are counted.

        Raises:
            UnsupportedError: the algorithm cannot serve these ranks on the fabric, a switch takes part in its sums, or
                tensors are not in CPU memory.
            ConfigError: the fabric has a field that is out of range.
        """
        if group.device != "cpu":
            raise UnsupportedError(f"schedules run in CPU memory, the tensors are on {group.device}")
        self._group, self._format = group, wire_format(sums.coding, group.device)
        fabric, algorithm = load_fabric(sums.fabric, group.ranks), find(sums.algorithm)
        self._scatter, self._gather = (
            movement_of(build(algorithm, Collective(kind, group.ranks, BUCKET_BYTES), fabric))
            for kind in ("reduce-scatter", "all-gather")
        )
        self._levels = cache(self._find_levels)
        self._shares = cache(self._find_shares)

    @property
    def digest(self) -> str:
        """Hash of both schedules, for the comparison of ranks."""
        return (self._scatter.digest + self._gather.digest).hex()

    def reduce_scatter(self, blocks: Tensor, cut: TensorBlocks) -> Tensor:
        """Return the sum over ranks of this rank's block, a view of ``blocks``, whose others are overwritten.

        Args:
            blocks: float32, flat: a block for each rank, one after the other.
            cut: where the tensors lie in them.

        Raises:
            TransportError: a rank left, fell silent or exchanges something else.
        """
        shares = self._shares(cut, self._scatter.pieces)
        sizes = self._sizes(shares)

        def pack(chunks: list[int]) -> Tensor:
            """Return the encoded partial sums of some chunks."""
            wire = torch.empty(sum(sizes[chunk] for chunk in chunks), dtype=torch.uint8)
            for chunk, part in zip(chunks, torch.split(wire, [sizes[chunk] for chunk in chunks]), strict=True):
                self._format.encode(blocks, None, shares[chunk], part)
            return wire

        def unpack(chunk: int, part: Tensor, adds: bool) -> None:
            """Add a chunk's decoded values, or store them."""
            self._format.decode(part, shares[chunk], blocks, add=adds)

        self._run(self._scatter, sizes, pack, unpack)
        return cut.split(blocks)[self._group.rank]

    def all_gather(self, blocks: Tensor, cut: TensorBlocks) -> None:
        """Replace all ``blocks`` by what their ranks have, encoded and decoded once; raises as ``reduce_scatter``."""
        shares = self._shares(cut, self._gather.pieces)
        sizes = self._sizes(shares)
        wire = torch.split(torch.empty(sum(sizes), dtype=torch.uint8), sizes)
        for chunk in self._gather.held(self._group.rank):
            self._format.encode(blocks, None, shares[chunk], wire[chunk])

        def pack(chunks: list[int]) -> Tensor:
            """Return the bytes of some chunks as they are."""
            return torch.cat([wire[chunk] for chunk in chunks])

        def unpack(chunk: int, part: Tensor, adds: bool) -> None:  # noqa: ARG001 - rows of an all-gather store
            """Keep the bytes of a chunk."""
            wire[chunk].copy_(part)

        self._run(self._gather, sizes, pack, unpack)
        for part, share in zip(wire, shares, strict=True):
            self._format.decode(part, share, blocks)

    def _run(
        self,
        movement: Movement,
        sizes: Sequence[int],
        pack: Callable[[list[int]], Tensor],
        unpack: Callable[[int, Tensor, bool], None],
    ) -> None:
        """Execute this rank's part of a movement: ``pack`` returns what to send, ``unpack`` takes a chunk of what
        comes, and whether to add it.

        No rank waits for ever: of the levels at which ranks are, all messages of the lowest have their sender there.
        """
        for level in self._levels(movement):
            # What a level sends is what was there before it.
            outgoing = [{peer: pack(chunks) for peer, chunks in sends.items()} for sends, _ in level]
            for adds, sent, (_, receives) in zip((False, True), outgoing, level, strict=True):
                parts = {peer: [sizes[chunk] for chunk in chunks] for peer, chunks in receives.items()}
                came = {peer: torch.empty(sum(part), dtype=torch.uint8) for peer, part in parts.items()}
                self._group.sent += sum(wire.numel() for wire in sent.values())
                self._group.exchange(*({p: wire for p, wire in some.items() if wire.numel()} for some in (sent, came)))
                for peer, wire in came.items():
                    for chunk, part in zip(receives[peer], torch.split(wire, parts[peer]), strict=True):
                        unpack(chunk, part, adds)

    def _find_levels(self, movement: Movement) -> list[list[tuple[Chunks, Chunks]]]:
        """Return what this rank sends and receives at each level of a movement that it takes part in: messages that
        store, then messages that add."""
        levels: dict[int, list[tuple[Chunks, Chunks]]] = {}
        for m in np.flatnonzero((movement.source == self._group.rank) | (movement.destination == self._group.rank)):
            source, destination = int(movement.source[m]), int(movement.destination[m])
            sends, receives = levels.setdefault(int(movement.level[m]), [({}, {}), ({}, {})])[int(movement.reduces[m])]
            chunks = movement.chunk[movement.first[m] : movement.first[m + 1]].tolist()
            if source == self._group.rank:
                sends[destination] = chunks
            else:
                receives[source] = chunks
        return list(levels.values())

    def _find_shares(self, cut: TensorBlocks, pieces: int) -> list[Share]:
        """Return the share of a buffer in blocks that each chunk is, every block being cut into ``pieces`` chunks."""
        begins = accumulate(cut.sizes, initial=0)
        return [
            replace(share, runs=share.runs + np.array([begin, 0, 0]))
            for begin, block, size in zip(begins, cut.pieces, cut.sizes, strict=False)
            for share in cut_shares(Geometry(block, size), pieces, self._format.block)
        ]

    def _sizes(self, shares: Sequence[Share]) -> list[int]:
        """Return the bytes of each share on the wire."""
        return [share.blocks * self._format.block_bytes for share in shares]
