"""Codecs around a ring: ``training.transport.ring_all_reduce`` inside the interface of exchanges.

    buffer     | weight 0 1 2 3 | bias 0 1 2 3 |           4 ranks: every tensor is cut into 4 pieces
    in blocks  | weight 0, bias 0 | weight 1, bias 1 | ...  and block k holds piece k of all tensors

Residuals are stored in blocks, as a block plus its gradient is what is encoded, and encoding leaves the next residuals
in the same memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from lightloom import compression
from lightloom.compression.base import Codec
from lightloom.core.arrays import Float32s
from lightloom.core.errors import UnsupportedError
from lightloom.exchange.distributed.exchanger import Exchanger
from lightloom.exchange.distributed.geometry import Geometry, Piece
from lightloom.exchange.distributed.group import OwnGroup
from lightloom.exchange.method import ExchangeMethod
from lightloom.exchange.methods.ring_codec import RingCodecExchange
from lightloom.training.transport.payload import StreamObserver, encode
from lightloom.training.transport.ring_all_reduce import all_gather, reduce_scatter, ring_reduce_scatter


class _Blocks:
    """A buffer as the blocks that go around the ring."""

    def __init__(self, geometry: Geometry, ranks: int) -> None:
        """Cut every tensor into a piece a rank."""
        self.sizes: list[int] = []
        """Number of values by block."""
        self._moves: list[list[tuple[slice, slice]]] = []
        """By block, the position of each piece in the buffer and in the block."""
        pieces: list[Piece] = []
        begin = 0
        for k in range(ranks):
            moves, at = [], 0
            for piece in geometry.pieces:
                first, end = piece.length * k // ranks, piece.length * (k + 1) // ranks
                if end > first:
                    pieces.append(Piece(piece.tensor, piece.start + first, begin + at, end - first))
                    in_buffer = slice(piece.offset + first, piece.offset + end)
                    moves.append((in_buffer, slice(at, at := at + end - first)))
            self._moves.append(moves)
            self.sizes.append(at)
            begin += at
        self.geometry = Geometry(pieces, geometry.size)
        """Where the tensors lie in all blocks, one after the other."""
        self._ends = np.cumsum(self.sizes)[:-1]

    def split(self, flat: Float32s) -> list[Float32s]:
        """Blocks of memory with ``self.geometry``, not copied."""
        return np.split(flat, self._ends)

    def gather(self, buffer: Float32s, blocks: Sequence[Float32s], *, add: bool) -> None:
        """Copy a buffer into its blocks, or add it to them."""
        for block, moves in zip(blocks, self._moves, strict=True):
            for in_buffer, in_block in moves:
                if add:
                    block[in_block] += buffer[in_buffer]
                else:
                    block[in_block] = buffer[in_buffer]

    def scatter(self, k: int, block: Float32s, buffer: Float32s, factor: float) -> None:
        """Put ``factor`` times block k to the positions of its pieces in a buffer."""
        for in_buffer, in_block in self._moves[k]:
            np.multiply(block[in_block], np.float32(factor), out=buffer[in_buffer])


class RingExchanger(Exchanger):
    """Exchanges gradients around a ring, coded anew at every hop."""

    def __init__(
        self,
        method: ExchangeMethod,
        group: OwnGroup,
        sizes: Mapping[str, int] | None = None,
        *,
        codec: Codec | None = None,
        observe: StreamObserver | None = None,
    ) -> None:
        """Connect the ring.

        Args:
            method: whose feedback decides about residuals.
            group: as in ``Exchanger``.
            sizes: as in ``Exchanger``.
            codec: codec of the messages; that of ``method`` unless given, which may be None: values as they are.
            observe: function called with every stream that this rank encodes.

        Raises:
            UnsupportedError: tensors are not in CPU memory.
            TransportError: a rank did not connect in time.
        """
        if group.device != "cpu":
            raise UnsupportedError(f"exchange {method} runs in CPU memory, the tensors are on {group.device}")
        super().__init__(method, group, sizes)
        self.codec = compression.find(method.codec) if isinstance(method, RingCodecExchange) else codec
        self._observe = observe
        self._blocks: dict[Geometry, _Blocks] = {}

    def average(self, values: Tensor, geometry: Geometry) -> None:
        ring, ranks = self.group.ring(), self.group.ranks
        if ring is None:
            return
        with ring.breaking_off():
            if geometry not in self._blocks:
                self._blocks[geometry] = _Blocks(geometry, ranks)
            cut, buffer, leave = self._blocks[geometry], values.numpy(), self.residuals is not None
            own = torch.empty_like(values) if self.residuals is None else self.residuals.buffer(cut.geometry)
            blocks = cut.split(own.numpy())
            cut.gather(buffer, blocks, add=leave)
            down = reduce_scatter(ring, blocks, self.codec, leave=leave, observe=self._observe)
            message = encode(self.codec, blocks[(ring.rank + 1) % ranks], leave=leave, observe=self._observe)

            def put(k: int, block: Float32s, _: object) -> None:
                cut.scatter(k, block, buffer, 1 / ranks)

            up = all_gather(ring, message, self.codec, cut.sizes, put)
        self.group.sent += (down + up).nbytes_sent

    def reduce_scatter(self, values: Tensor, geometry: Geometry, shards: Sequence[slice], output: Tensor) -> None:
        ring, rank = self.group.ring(), self.group.rank
        if ring is None:
            output.copy_(values)
            return
        leave = self.residuals is not None
        own = values if self.residuals is None else self.residuals.buffer(geometry).add_(values)
        blocks = [own[shard].numpy() for shard in shards]
        traffic = ring_reduce_scatter(ring, blocks, self.codec, leave=leave, observe=self._observe)
        output.copy_(own[shards[rank]])
        if leave:
            own[shards[rank]].zero_()  # the owner encodes nothing of its own shard
        self.group.sent += traffic.nbytes_sent

    def _connect(self) -> None:
        self.group.ring()
