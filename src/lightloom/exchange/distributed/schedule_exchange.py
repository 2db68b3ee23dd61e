"""Sums and gathers among the ranks of a node by the rows of schedules, coded on the wire.

    reduce-scatter   a row carries a partial sum, encoded by its source; its destination decodes and adds it in float32
    all-gather       the owner of a share encodes it once; rows carry these bytes as they are

Every rank decodes the same bytes, its own share's too, so that replicas stay bit-identical. Rows are executed level by
level, as ``lightloom.exchange.execution`` compiles them, and added in the order of their sources. Each tensor is cut by
itself, and the schedules are the same for all buckets, so that no sum depends on the bucket that a tensor is in.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from lightloom.collectives.collective import Collective
from lightloom.collectives.registry import build, find
from lightloom.core.arrays import Ints
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

Chunks = dict[int, Ints]
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
        """Text by which ranks compare the schedules: the first 12 hexadecimal digits of the hash of the
        reduce-scatter's messages, a slash, and those of the all-gather's."""
        return "/".join(movement.digest.hex()[:12] for movement in (self._scatter, self._gather))

    def reduce_scatter(self, blocks: Tensor, cut: TensorBlocks) -> Tensor:
        """Return the sum over ranks of this rank's block, a view of ``blocks``, whose other blocks are left with
        partial sums. Partial sums are encoded by their source, and decoded and added in float32 by their destination.

        Args:
            blocks: float32, flat: a block for each rank, one after the other.
            cut: where the tensors lie in the blocks.

        Raises:
            TransportError: a rank left, fell silent or exchanges something else.
        """
        shares = self._shares(cut, self._scatter.pieces)
        self._run(
            self._scatter,
            self._sizes(shares),
            lambda chunk, part: self._format.encode(blocks, None, shares[chunk], part),
            lambda chunk, part, adds: self._format.decode(part, shares[chunk], blocks, add=adds),
        )
        return cut.split(blocks)[self._group.rank]

    def all_gather(self, blocks: Tensor, cut: TensorBlocks) -> None:
        """Replace each of the blocks, in place, by what its rank has in it, encoded and decoded once, on that rank too.

        Args:
            blocks: float32, flat: a block for each rank, one after the other; this rank's own must be filled.
            cut: where the tensors lie in the blocks.

        Raises:
            TransportError: a rank left, fell silent or exchanges something else.
        """
        shares = self._shares(cut, self._gather.pieces)
        sizes = self._sizes(shares)
        coded = torch.split(torch.empty(int(sizes.sum()), dtype=torch.uint8), sizes.tolist())
        for chunk in self._gather.held(self._group.rank):
            self._format.encode(blocks, None, shares[chunk], coded[chunk])
        self._run(
            self._gather,
            sizes,
            lambda chunk, part: part.copy_(coded[chunk]),
            lambda chunk, part, _: coded[chunk].copy_(part),
        )
        for part, share in zip(coded, shares, strict=True):
            self._format.decode(part, share, blocks)

    def _run(
        self,
        movement: Movement,
        sizes: Ints,
        pack: Callable[[int, Tensor], object],
        unpack: Callable[[int, Tensor, bool], object],
    ) -> None:
        """Execute this rank's part of a movement, level by level, and count the bytes that it sends.

        No rank waits for ever: of the levels at which ranks are, all messages of the lowest have their sender there.

        Args:
            movement: all messages of the schedule.
            sizes: bytes of each chunk on the wire, [chunk].
            pack: called with a chunk and its part of a message, uint8 of the chunk's bytes, that it must write.
            unpack: called with a chunk, its received part of a message, uint8, and True where the chunk is to be added,
                False where it is to be stored.
        """

        def messages(chunks: Chunks) -> dict[int, Tensor]:
            """Return memory for the messages of all peers, without those of no bytes."""
            return {p: torch.empty(n, dtype=torch.uint8) for p, own in chunks.items() if (n := int(sizes[own].sum()))}

        def parts(chunks: Chunks, wires: dict[int, Tensor]) -> Iterator[tuple[int, Tensor]]:
            """Yield each chunk with its part of a message."""
            for peer, wire in wires.items():
                yield from zip(chunks[peer], torch.split(wire, sizes[chunks[peer]].tolist()), strict=True)

        for level in self._levels(movement):
            # What a level sends is what was there before it.
            outgoing = [messages(sends) for sends, _ in level]
            for (sends, _), wires in zip(level, outgoing, strict=True):
                for chunk, part in parts(sends, wires):
                    pack(chunk, part)
            for adds, sent, (_, receives) in zip((False, True), outgoing, level, strict=True):
                came = messages(receives)
                self._group.sent += sum(wire.numel() for wire in sent.values())
                self._group.exchange(sent, came)
                for chunk, part in parts(receives, came):
                    unpack(chunk, part, adds)

    def _find_levels(self, movement: Movement) -> list[list[tuple[Chunks, Chunks]]]:
        """Return what this rank sends and receives, for each level of a movement in which it takes part, in order.

        A level is two pairs (sends, receives), the first of messages that store, the second of messages that add; both
        members map a peer's rank to the chunks of its one message, ascending.
        """
        levels: dict[int, list[tuple[Chunks, Chunks]]] = {}
        for m in np.flatnonzero((movement.source == self._group.rank) | (movement.destination == self._group.rank)):
            source, destination = int(movement.source[m]), int(movement.destination[m])
            sends, receives = levels.setdefault(int(movement.level[m]), [({}, {}), ({}, {})])[int(movement.reduces[m])]
            chunks = movement.chunk[movement.first[m] : movement.first[m + 1]]
            if source == self._group.rank:
                sends[destination] = chunks
            else:
                receives[source] = chunks
        return list(levels.values())

    def _find_shares(self, cut: TensorBlocks, pieces: int) -> list[Share]:
        """Return the share (runs of values, and the coding blocks that they take on the wire) that each chunk is, for a
        flat buffer in which the blocks of ``cut`` lie one after the other and each is cut into ``pieces`` chunks.
        Chunks are numbered by block first: chunk c is piece c % pieces of block c // pieces."""
        begins = accumulate(cut.sizes, initial=0)
        return [
            replace(share, runs=share.runs + np.array([begin, 0, 0]))
            for begin, block, size in zip(begins, cut.pieces, cut.sizes, strict=False)
            for share in cut_shares(Geometry(block, size), pieces, self._format.block)
        ]

    def _sizes(self, shares: Sequence[Share]) -> Ints:
        """Return the bytes of each share on the wire, scales and the padding of coding blocks included, int64
        [share]."""
        return np.array([share.blocks for share in shares]) * self._format.block_bytes
