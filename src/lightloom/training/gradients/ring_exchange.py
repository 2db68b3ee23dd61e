"""Codecs around a ring: ``training.transport.ring_all_reduce`` inside the interface of exchanges.

Residuals are stored in blocks, as a block plus its gradient is what is encoded, and encoding leaves the next residuals
in the same memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from lightloom.compression import InceptionnScaled
from lightloom.compression.base import Codec
from lightloom.core.arrays import Float32s
from lightloom.core.errors import UnsupportedError
from lightloom.training.gradients.codec_by_tensor import CodecByTensor
from lightloom.training.gradients.exchanger import Exchanger
from lightloom.training.gradients.geometry import Geometry
from lightloom.training.gradients.group import OwnGroup
from lightloom.training.gradients.tensor_blocks import TensorBlocks
from lightloom.training.transport.payload import StreamObserver, encode
from lightloom.training.transport.ring_all_reduce import all_gather, reduce_scatter, ring_reduce_scatter


class RingExchanger(Exchanger):
    """Exchanges gradients around a ring, coded anew at every hop."""

    shards = True

    def __init__(
        self,
        codec: Codec,
        group: OwnGroup,
        sizes: Mapping[str, int] | None = None,
        *,
        name: str = "",
        feedback: bool = True,
        observe: StreamObserver | None = None,
    ) -> None:
        """Connect the ring.

        Args:
            codec: codec of the values.
            group: connections.
            sizes: number of values by tensor, where known.
            name: what the exchange is called in messages; the codec's name unless given.
            feedback: whether the error of each encoding is added to the next gradient.
            observe: called with every stream that this rank encodes.

        Raises:
            UnsupportedError: tensors are not in CPU memory.
            TransportError: a rank did not connect in time.
        """
        if group.device != "cpu":
            raise UnsupportedError(
                f"exchange {name or codec.name} runs in CPU memory, the tensors are on {group.device}"
            )
        super().__init__(name or codec.name, group, sizes, feedback=feedback)
        self.codec, self._observe = codec, observe
        self._blocks: dict[Geometry, tuple[TensorBlocks, Geometry, Codec]] = {}

    def average_values(self, values: Tensor, geometry: Geometry) -> None:
        ring, ranks = self.group.ring(), self.group.ranks
        if ring is None:
            return
        if geometry not in self._blocks:
            cut = TensorBlocks(geometry, ranks)
            codec = CodecByTensor(self.codec, cut) if isinstance(self.codec, InceptionnScaled) else self.codec
            self._blocks[geometry] = cut, cut.joined(), codec
        (cut, joined, codec), leave = self._blocks[geometry], self.residuals is not None
        own = torch.empty_like(values) if self.residuals is None else self.residuals.buffer(joined)
        parts = cut.split(own)
        cut.gather(values, parts, add=leave)
        blocks = [part.numpy() for part in parts]
        if isinstance(codec, CodecByTensor):
            codec.place(blocks)
        down = reduce_scatter(ring, blocks, codec, leave=leave, observe=self._observe)
        message = encode(codec, blocks[(ring.rank + 1) % ranks], leave=leave, observe=self._observe)

        def put(k: int, block: Float32s, _: object) -> None:
            cut.scatter(k, torch.from_numpy(block), values, 1 / ranks)

        up = all_gather(ring, message, codec, cut.sizes, put)
        self.group.sent += (down + up).nbytes_sent

    def reduce_scatter_values(
        self, values: Tensor, geometry: Geometry, shards: Sequence[slice], output: Tensor
    ) -> None:
        ring, rank = self.group.ring(), self.group.rank
        if ring is None:
            output.copy_(values)
            return
        leave = self.residuals is not None
        own = values if self.residuals is None else self.residuals.buffer(geometry).add_(values)
        blocks = [own[shard].numpy() for shard in shards]
        traffic = ring_reduce_scatter(ring, blocks, self.codec, leave=leave, observe=self._observe)
        torch.div(own[shards[rank]], self.group.ranks, out=output)
        if leave:
            own[shards[rank]].zero_()  # the owner encodes nothing of its own shard
        self.group.sent += traffic.nbytes_sent
