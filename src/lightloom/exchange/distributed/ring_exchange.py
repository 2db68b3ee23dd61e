"""Codecs around a ring: ``transport.ring_all_reduce`` inside the interface of exchanges.

Residuals are stored in blocks, as a block plus its gradient is what is encoded, and encoding leaves the next residuals
in the same memory.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lightloom.core.arrays import Bytes, Codes, Float32s
from lightloom.core.errors import CodecError, ConfigError
from lightloom.exchange.compression.codec import Codec
from lightloom.exchange.distributed.exchanger import Exchanger
from lightloom.exchange.distributed.group import OwnGroup
from lightloom.exchange.distributed.residuals import Geometry, Piece, SavedState, StateDict
from lightloom.exchange.transport.channel import AgreedError, StreamObserver, encode_block
from lightloom.exchange.transport.ring_all_reduce import all_gather, reduce_scatter
from lightloom.photonics.averaging.averagers import Averager, average_into
from lightloom.photonics.averaging.block_quantisation import UNFIT, CodeBuffers

# A buffer as blocks that hold a piece of every tensor each: what goes around a ring, or to the ranks of a node.
#
# buffer     | weight 0 1 2 3 | bias 0 1 2 3 |           4 blocks: every tensor is cut into 4 pieces
# in blocks  | weight 0, bias 0 | weight 1, bias 1 | ...
#
# As each tensor is cut by itself, what is added up together does not depend on the bucket that a tensor travels in.


class TensorBlocks:
    """The blocks of a buffer; block k has piece k of every tensor."""

    def __init__(self, geometry: Geometry, count: int) -> None:
        """Cut every tensor into ``count`` pieces."""
        self.pieces: list[list[Piece]] = []
        """By block, where its pieces lie in their tensor and, as the offset, in the block."""
        self.sizes: list[int] = []
        """Number of values by block."""
        self._moves: list[list[tuple[slice, slice]]] = []
        for k in range(count):
            pieces, moves, at = [], [], 0
            for piece in geometry.pieces:
                first, end = piece.length * k // count, piece.length * (k + 1) // count
                if end > first:
                    pieces.append(Piece(piece.tensor, piece.start + first, at, end - first))
                    in_buffer = slice(piece.offset + first, piece.offset + end)
                    moves.append((in_buffer, slice(at, at := at + end - first)))
            self.pieces.append(pieces)
            self._moves.append(moves)
            self.sizes.append(at)

    def joined(self) -> Geometry:
        """Return the geometry of a buffer in which all blocks lie one after the other; block k, from 0, has the k-th
        part of every tensor, of as many parts as there are blocks."""
        pieces, begin = [], 0
        for block, size in zip(self.pieces, self.sizes, strict=True):
            pieces += [Piece(piece.tensor, piece.start, begin + piece.offset, piece.length) for piece in block]
            begin += size
        return Geometry(pieces, begin)

    def split(self, flat: Tensor) -> tuple[Tensor, ...]:
        """Return views of the blocks, by number, in a flat tensor in which all blocks lie one after the other."""
        return torch.split(flat, self.sizes)

    def gather(self, buffer: Tensor, blocks: Sequence[Tensor], *, add: bool = False) -> None:
        """Copy the values of a flat buffer to their places in all ``blocks`` (flat, by number; block k has the k-th
        part of every tensor), in place, or add them there with ``add``."""
        for block, moves in zip(blocks, self._moves, strict=True):
            for in_buffer, in_block in moves:
                if add:
                    block[in_block] += buffer[in_buffer]
                else:
                    block[in_block] = buffer[in_buffer]

    def scatter(self, k: int, block: Tensor, buffer: Tensor, factor: float = 1.0) -> None:
        """Write ``factor`` times the values of block ``k`` to the positions of its pieces, the k-th part of every
        tensor, in a flat buffer; other values stay."""
        for in_buffer, in_block in self._moves[k]:
            torch.mul(block[in_block], factor, out=buffer[in_buffer])


# A codec whose messages depend on the values as a whole, applied to each tensor's piece of a block by itself.
#
# DDP rebuilds its buckets after the first step; what a message scales together must not depend on them, or a resumed
# run would continue with other bits.


class CodecByTensor(Codec):
    """Codes the pieces of a block one after the other.

    message = for each piece: u32 bytes of its stream, the stream
    """

    def __init__(self, codec: Codec, cut: TensorBlocks) -> None:
        """Code the blocks of ``cut``, in order: block k is that of ``lengths[k]``."""
        self._codec = codec
        self._lengths = [[piece.length for piece in pieces] for pieces in cut.pieces]
        self._at: dict[int, list[int]] = {}
        """Lengths of the pieces of the block at an address."""

    @property
    def name(self) -> str:
        """Name of the codec inside, as it was given."""
        return self._codec.name

    def place(self, blocks: Sequence[Float32s]) -> None:
        """Note where the blocks, all of them by number, lie in memory, before the first encoding: ``encode`` tells by
        its array's address which block it is given."""
        self._at = {block.ctypes.data: lengths for block, lengths in zip(blocks, self._lengths, strict=True)}

    def encode(self, array: object, *, threads: int = 1) -> memoryview:
        """Return the message of a block: for each of its pieces the stream's length in bytes (4 bytes, little-endian)
        and the stream. ``array`` must be one of the blocks given to ``place``, by its address (KeyError for another).
        ``threads`` is not used."""
        return self._join(array, self._codec.encode)

    def encode_leaving(self, array: Float32s) -> memoryview:
        """Return the message of a block, as ``encode`` does, and replace the block, in place, by its errors (value less
        decoded value); ``array`` must be one of the blocks given to ``place`` (KeyError for another)."""
        return self._join(array, self._codec.encode_leaving)

    def decode(self, buffer: object, out: object = None, *, threads: int = 1) -> Any:
        """Return the values of a message, flat float32, in the memory of ``out`` if given; raises CodecError where they
        are not as many as ``out`` has, or the message is malformed. ``threads`` is not used."""
        parts = [self._codec.decode(stream) for stream in _streams(buffer)]
        values = np.concatenate(parts) if parts else np.empty(0, np.float32)
        if out is None:
            return values
        target = np.asarray(out)
        if values.size != target.size:
            raise CodecError(f"{values.size} values, expected {target.size}")
        target[:] = values
        return target

    def _join(self, array: Any, encode_piece: Callable[[Float32s], memoryview]) -> memoryview:
        """Return the message of a block, ``array``, which must be one of those given to ``place``: for each piece the
        length of its stream, 4 bytes little-endian, then the stream that ``encode_piece`` returns for the piece's
        values."""
        message, at = bytearray(), 0
        for length in self._at[array.ctypes.data]:
            stream = encode_piece(array[at : at + length])
            message += len(stream).to_bytes(4, "little") + stream
            at += length
        return memoryview(message)


def _streams(buffer: Any) -> Iterator[memoryview]:
    """Yield the streams in a message, one for each tensor's piece, as views.

    Raises:
        CodecError: it ends within one, or one is empty.
    """
    message, at = memoryview(buffer).cast("B"), 0
    while at < len(message):
        end = at + 4 + int.from_bytes(message[at : at + 4], "little")
        if end > len(message) or end <= at + 4:
            raise CodecError(f"a stream of {end - at - 4} bytes in a message of {len(message)} bytes, from byte {at}")
        yield message[at + 4 : end]
        at = end


class RingExchanger(Exchanger):
    """Exchanges gradients around a ring, coded anew at every hop."""

    shards = host_only = True

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
        """Connect the ranks and keep the codec.

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
        super().__init__(name or codec.name, group, sizes, feedback=feedback)
        self.codec, self._observe = codec, observe
        self._blocks: dict[Geometry, tuple[TensorBlocks, Geometry, Codec]] = {}

    def average_values(self, values: Tensor, geometry: Geometry) -> None:
        """Replace ``values``, flat float32, by their mean over ranks, in place, the same bits on every rank, by a ring
        all-reduce; with a single rank nothing is done.

        Partial sums are encoded anew at every hop, the complete sum once, by the rank that has it, which decodes it
        like the others. Each tensor in ``geometry`` is cut into one part a rank; block k has the k-th part of every
        tensor. With error feedback the residuals kept for these tensors are added first and replaced by the errors of
        what this rank encoded.
        """
        ring, ranks = self.group.ring(), self.group.ranks
        if ring is None:
            return
        if geometry not in self._blocks:
            cut = TensorBlocks(geometry, ranks)
            codec = CodecByTensor(self.codec, cut) if self.codec.scales_messages else self.codec
            self._blocks[geometry] = cut, cut.joined(), codec
        (cut, joined, codec), leave = self._blocks[geometry], self.residuals is not None
        own = torch.empty_like(values) if self.residuals is None else self.residuals.buffer(joined)
        parts = cut.split(own)
        cut.gather(values, parts, add=leave)
        blocks = [part.numpy() for part in parts]
        if isinstance(codec, CodecByTensor):
            codec.place(blocks)
        down = reduce_scatter(ring, blocks, codec, leave=leave, observe=self._observe)
        message = encode_block(codec, blocks[(ring.rank + 1) % ranks], leave=leave, observe=self._observe)

        def put(k: int, block: Float32s) -> None:
            """Write block k of the sum, divided by the ranks, to its places in ``values``."""
            cut.scatter(k, torch.from_numpy(block), values, 1 / ranks)

        self.group.sent += down + all_gather(ring, message, codec, cut.sizes, put)

    def reduce_scatter_values(self, values: Tensor, geometry: Geometry, output: Tensor) -> None:
        """Put this rank's shard of the mean over ranks into ``output``; partial sums are encoded at every hop, the sum
        itself is not.

        Args:
            values: float32, flat: the shards of all ranks, equally long, by rank. Overwritten without error feedback,
                unless there is a single rank, whose values are copied to ``output``.
            geometry: tensors in ``values``, by which residuals are kept; used with error feedback only.
            output: float32, flat, as long as a shard.
        """
        ring, rank = self.group.ring(), self.group.rank
        if ring is None:
            output.copy_(values)
            return
        leave = self.residuals is not None
        own = values if self.residuals is None else self.residuals.buffer(geometry).add_(values)
        shards = torch.split(own, output.numel())
        # The phase leaves the sum in block rank + 1.
        blocks = [shards[k - 1].numpy() for k in range(ring.size)]
        self.group.sent += reduce_scatter(ring, blocks, self.codec, leave=leave, observe=self._observe)
        torch.div(shards[rank], self.group.ranks, out=output)
        if leave:
            shards[rank].zero_()  # the owner encodes nothing of its own shard


# Averages by light, emulated between processes: codes are exchanged, each rank averages its share of them.
#
# gradients ─▶ largest exponents ─▶ codes ─┬─▶ share 0 of all ranks ─▶ averager ─▶ mean ─┬─▶ gradients
# (maximum over ranks)        └─▶ share 1 ...   (on rank 1)                 ┘
#
# The averager sees the codes of all servers at once, as the optical network does, and each rank averages 1/ranks of
# them.

_RANKS = "ranks"


class OpticalExchanger(Exchanger):
    """Quantises gradients and lets an averager average the codes, as servers around it do."""

    host_only = True

    def __init__(self, averager: Averager, group: OwnGroup, *, block: int = 256, name: str = "") -> None:
        """Connect the ranks and check averager and block.

        Args:
            averager: for as many servers as there are ranks; its noise and errors should differ between ranks.
            group: connections.
            block: number of values that share a scale; no block spans two tensors.
            name: what the exchange is called in messages; by its averager unless given.

        Raises:
            UnsupportedError: tensors are not in CPU memory.
            ConfigError: the block is out of range.
            TransportError: a rank did not connect in time.
        """
        kind = type(averager).__name__
        name = name or f"optical:{kind},bits={averager.bits},rounding={averager.rounding},block={block}"
        CodeBuffers.of([], averager.bits, block)  # checks both
        super().__init__(name, group)
        self.averager, self.block, self._rng = averager, block, getattr(averager, "rng", None)
        self._buffers: dict[Geometry, tuple[CodeBuffers, Codes, Codes]] = {}
        """Blocks of a bucket, codes to send and codes received, both of shape (ranks, share)."""

    def average_values(self, values: Tensor, geometry: Geometry) -> None:
        """Replace ``values``, flat float32, by the mean over ranks that the averager makes of their codes, in place,
        the same bits on all ranks.

        Codes have the averager's bits, and a common exponent, the largest over ranks, in each block of ``block``
        values; no block spans two pieces of ``geometry``. A single rank's values are encoded and decoded too.

        Raises:
            AgreedError: a rank has NaN, an infinity or a magnitude of 2^127 or more; all ranks raise it.
            TransportError: a rank left or fell silent.
        """
        if geometry not in self._buffers:
            made = CodeBuffers.of([piece.length for piece in geometry.pieces], self.averager.bits, self.block)
            shape = (self.group.ranks, -(-geometry.size // self.group.ranks))
            self._buffers[geometry] = made, np.zeros(shape, made.code_type), np.zeros(shape, made.code_type)
        (quantise, outgoing, incoming), flat = self._buffers[geometry], values.numpy()
        scales = self._largest(quantise.scales(flat))
        if scales.size and scales.max() == UNFIT:
            at = int(quantise.edges[int(scales.argmax())])
            raise AgreedError(
                f"the gradients of a rank hold NaN, Inf or a size of 2^127 or more, in the block from value {at} of a "
                "bucket: expected finite values"
            )
        codes = outgoing.reshape(-1)[: flat.size]
        quantise.encode(flat, scales, codes)
        self._average_codes(outgoing, incoming)
        quantise.decode(codes, scales, flat)

    def blocks(self, geometry: Geometry) -> int:
        """Return the number of blocks of a buffer, of ``block`` values or fewer, each of which has an exponent; no
        block spans two pieces of ``geometry``."""
        return sum(-(-piece.length // self.block) for piece in geometry.pieces)

    def state_dict(self) -> StateDict:
        """Return the number of ranks (``ranks``) and, if the averager has one, the state of this rank's NumPy generator
        of noise and errors (``rank<i>``)."""
        state = {} if self._rng is None else {f"rank{self.group.rank}": self._rng.bit_generator.state}
        return {_RANKS: self.group.ranks} | state

    def load_state_dict(self, state_dict: SavedState) -> None:
        """Continue from a checkpoint of this rank, by which the averager's generator of noise is set; raises
        ConfigError where rank or number of ranks differ, or only one of both has a generator. A checkpoint without a
        number of ranks is taken for one of as many."""
        # Exchanges attached by name left the number of ranks out of their first checkpoints.
        saved = {_RANKS: self.group.ranks} | dict(state_dict)
        if saved[_RANKS] != self.group.ranks:
            raise ConfigError(f"the checkpoint is of {saved[_RANKS]} ranks, this run has {self.group.ranks}")
        expected, keys = sorted(self.state_dict()), sorted(saved)
        if keys != expected:
            raise ConfigError(f"the checkpoint holds {', '.join(map(str, keys))}: expected {', '.join(expected)}")
        if self._rng is not None:
            self._rng.bit_generator.state = saved[f"rank{self.group.rank}"]

    def _largest(self, scales: Bytes) -> Bytes:
        """Return the largest exponent over ranks of each block, uint8 [block], from this rank's, ``scales``, by one
        all-gather, where a ring would take as many steps as ranks."""
        rows = torch.empty((self.group.ranks, scales.size), dtype=torch.uint8)
        self.group.all_gather(rows.view(-1), torch.from_numpy(scales), [scales.size] * self.group.ranks)
        return np.asarray(rows.numpy().max(axis=0))

    def _average_codes(self, outgoing: Codes, incoming: Codes) -> None:
        """Replace this rank's codes, in place, by the averager's mean codes of all ranks: rank k averages share k of
        the codes of all ranks and sends the result to all.

        Codes of at most 8 bits travel as bytes.

        Args:
            outgoing: codes [rank, share], a row for the rank that averages it; overwritten.
            incoming: working memory of the same shape and type.
        """
        wire = np.uint8 if self.averager.bits <= 8 else outgoing.dtype
        own, came, rank = outgoing.astype(wire, copy=False), incoming.astype(wire, copy=False), self.group.rank
        sizes = [own[0].nbytes] * self.group.ranks
        self.group.all_to_all(_as_bytes(came), _as_bytes(own), sizes, sizes)
        average_into(self.averager, came.astype(incoming.dtype, copy=False), outgoing[rank])
        own[rank] = outgoing[rank]
        self.group.all_gather(_as_bytes(own), _as_bytes(own[rank]), sizes)
        if own is not outgoing:
            outgoing[:] = own


def rank_seed(seed: int, rank: int) -> int:
    """Return the seed of a rank's generator of noise and errors, a 32-bit number that both ``seed``, which all ranks
    share, and ``rank`` decide."""
    return int(np.random.SeedSequence((seed, rank)).generate_state(1)[0])


def _as_bytes(codes: Codes) -> Tensor:
    """Return a view of contiguous codes as flat bytes: gloo has no unsigned integers of more than one byte."""
    return torch.from_numpy(codes.view(np.uint8)).view(-1)
