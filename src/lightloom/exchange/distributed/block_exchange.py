"""All-to-all of codes, sums in float32, all-gather of the sums' codes; see ``lightloom.exchange.methods``.

Owners add up what is divided by the number of ranks already, so that a mean that its format can hold never overflows on
the way. With error feedback each rank keeps one residual a value. Of the shares that others add up it is the error of
what this rank sent; of its own share, which it need not send, it is the error of the mean that it sent back, times the
number of ranks.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lightloom.exchange.compression import blocks
from lightloom.exchange.compression.blocks import BlockFormat
from lightloom.exchange.distributed.exchanger import Exchanger
from lightloom.exchange.distributed.group import OwnGroup
from lightloom.exchange.distributed.residuals import Geometry, Share, cut_shares
from lightloom.exchange.gpu import blocks as gpu_blocks
from lightloom.exchange.gpu.codec import gpu_refusal
from lightloom.exchange.methods import BlockExchange, PlainExchange

# Narrow formats as bytes: what the shares of a buffer look like on the wire.
#
# In CPU memory the kernels of ``lightloom.exchange.compression.blocks`` encode all runs of a share in one call, and
# on CUDA devices those in Triton where it is installed. Elsewhere, and for fp8 there, the reference in torch does.
# The bytes are the same; nothing but the CPU kernels has run on hardware yet.


class WireFormat(ABC):
    """Encodes shares into fixed numbers of bytes, so that no rank needs to ask another how many will come."""

    block: int
    """Values that are encoded together; shares are cut at multiples of it."""
    block_bytes: int

    @abstractmethod
    def encode(self, values: Tensor, residual: Tensor | None, share: Share, wire: Tensor, divisor: int = 1) -> None:
        """Encode a share of ``(values + residual) / divisor`` into ``wire``, and leave the errors in the residual.

        Args:
            values: flat float32 buffer; not changed.
            residual: like ``values``; within the share it is overwritten with ``values + residual`` less ``divisor``
                times what ``wire`` decodes to, outside of it unchanged. None without error feedback, then it counts as
                0.
            share: the runs of the buffer to encode, each of which begins a new block.
            wire: uint8, ``block_bytes`` for each block of the share; overwritten.
            divisor: number that :meth:`divisor` returns; formats that cannot overflow do not use it.
        """

    @abstractmethod
    def decode(self, wire: Tensor, share: Share, out: Tensor, factor: float = 1.0, add: bool = False) -> None:
        """Decode ``wire`` and put ``factor`` times its values at the positions of a share in the flat buffer ``out``,
        or add them there with ``add``."""

    def divisor(self, ranks: int) -> int:
        """Return the number by which each of ``ranks`` terms of a mean is divided before it is encoded: 1 here; a
        format that could overflow returns ``ranks``."""
        return 1


class CastFormat(WireFormat):
    """Floats of another type, without scales."""

    block = 1

    def __init__(self, dtype: torch.dtype) -> None:
        """Cast to ``dtype``, whose size is the bytes of a block of one value."""
        self.dtype = dtype
        self.block_bytes = dtype.itemsize

    def encode(self, values: Tensor, residual: Tensor | None, share: Share, wire: Tensor, divisor: int = 1) -> None:
        """Write a share of ``(values + residual) / divisor``, cast, to the bytes ``wire``.

        Args:
            values: flat float32 buffer; not changed.
            residual: like ``values``; within the share it becomes the error (``values + residual`` less ``divisor``
                times the cast value), 0 where that is not finite, outside of it it stays. None without error feedback,
                then it counts as 0.
            share: the runs of the buffer to encode.
            wire: uint8, memory for the share's values in the format's type, run after run; overwritten.
            divisor: number that :meth:`divisor` returns.
        """
        cast = wire.view(self.dtype)
        for first, length, at in share.runs:
            part, target = values[first : first + length], cast[at : at + length]
            left = part if residual is None else residual[first : first + length].add_(part)
            target.copy_(left if divisor == 1 else left / divisor)
            if residual is not None:
                left.sub_(target, alpha=divisor).nan_to_num_(0.0, 0.0, 0.0)

    def decode(self, wire: Tensor, share: Share, out: Tensor, factor: float = 1.0, add: bool = False) -> None:
        """Put ``factor`` times the values in the bytes ``wire`` at the positions of a share in the flat buffer ``out``,
        or add them there with ``add``."""
        cast = wire.view(self.dtype)
        for first, length, at in share.runs:
            part, target = cast[at : at + length], out[first : first + length]
            if add:
                target.add_(part, alpha=factor)
            else:
                target.copy_(part)
                if factor != 1:
                    target.mul_(factor)

    def divisor(self, ranks: int) -> int:
        """Return ``ranks`` for fp16, else 1: fp16 ends at 65,504, and a mean below that may have a term above it."""
        return ranks if self.dtype == torch.float16 else 1


class BlockWire(WireFormat):
    """Blocks of one format, whose places in buffer and message are found once for each share; they have scales, and so
    take no divisor but 1."""

    def __init__(self, fmt: BlockFormat) -> None:
        """Write blocks of ``fmt``; places are found at the first use."""
        self.fmt, self.block, self.block_bytes = fmt, fmt.block, fmt.block_bytes
        self._places = cache(self._find_places)

    def _find_places(self, share: Share, buffer: torch.Size, device: torch.device) -> Any:
        """Return where a share lies in a flat buffer of that shape and in a message, in the form that the kernels take.

        Here it is the share's runs, int64 [runs, 3]: first value in the buffer, number of values, first byte in the
        message, the byte where the run's first block begins. Buffer and device are not used.
        """
        return share.runs * np.array([1, 1, self.block_bytes])


class BlockKernels(BlockWire):
    """Blocks in CPU memory."""

    def encode(self, values: Tensor, residual: Tensor | None, share: Share, wire: Tensor, divisor: int = 1) -> None:
        """Write a share's blocks, each a scale (bfloat16, 2 bytes) and then its codes, to the bytes ``wire``, by
        the CPU kernels; each run begins a new block.

        With ``residual`` (a buffer like ``values``; None without error feedback), what is encoded is the sum of values
        and residual, and within the share the residual becomes its error, 0 in blocks without a finite scale;
        ``values`` is left alone, ``divisor`` is not used.
        """
        left, runs = None if residual is None else residual.numpy(), self._places(share, values.shape, values.device)
        blocks.encode_runs(self.fmt, values.numpy(), left, runs, wire.numpy())

    def decode(self, wire: Tensor, share: Share, out: Tensor, factor: float = 1.0, add: bool = False) -> None:
        """Put ``factor`` times the values in the bytes ``wire`` at the positions of a share in the flat buffer ``out``,
        or add them there with ``add``, by the CPU kernels."""
        blocks.decode_runs(self.fmt, wire.numpy(), self._places(share, out.shape, out.device), out.numpy(), factor, add)


class BlockTriton(BlockWire):
    """Blocks in the memory of a CUDA device, or in Triton's interpreter."""

    def _find_places(self, share: Share, buffer: torch.Size, device: torch.device) -> Tensor:
        """Return (first value in the buffer, number of values, first byte in the message) of each block of the share,
        int64 [blocks, 3] on ``device``; the last block of a run may have fewer values than others."""
        return gpu_blocks.places(self.fmt, super()._find_places(share, buffer, device)).to(device)

    def encode(self, values: Tensor, residual: Tensor | None, share: Share, wire: Tensor, divisor: int = 1) -> None:
        """Write a share's blocks, each a scale (bfloat16, 2 bytes) and then its codes, to the bytes ``wire``, by
        Triton kernels; each run begins a new block.

        With ``residual`` (a buffer like ``values``; None without error feedback), what is encoded is the sum of values
        and residual, and within the share the residual becomes its error, 0 in blocks without a finite scale;
        ``values`` is left alone, ``divisor`` is not used.
        """
        gpu_blocks.encode_runs(self.fmt, values, residual, self._places(share, values.shape, values.device), wire)

    def decode(self, wire: Tensor, share: Share, out: Tensor, factor: float = 1.0, add: bool = False) -> None:
        """Put ``factor`` times the values in the bytes ``wire`` at the positions of a share in the flat buffer ``out``,
        or add them there with ``add``, by Triton kernels."""
        gpu_blocks.decode_runs(self.fmt, wire, self._places(share, out.shape, out.device), out, factor, add)


class BlockReference(BlockWire):
    """Blocks on any device: values are gathered into whole blocks, so that no shape depends on them."""

    def _find_places(self, share: Share, buffer: torch.Size, device: torch.device) -> Tensor:
        """Return the buffer position of each slot of the share's blocks, int64 [slots] on ``device``; the buffer's
        length for padding."""
        return share.slots(buffer.numel(), device)

    def encode(self, values: Tensor, residual: Tensor | None, share: Share, wire: Tensor, divisor: int = 1) -> None:
        """Write a share's blocks, each a scale (bfloat16, 2 bytes) and then its codes, to the bytes ``wire``, by
        torch alone; each run begins a new block.

        With ``residual`` (a buffer like ``values``; None without error feedback), what is encoded is the sum of values
        and residual, and within the share the residual becomes its error, 0 in blocks without a finite scale;
        ``values`` is left alone, ``divisor`` is not used.
        """
        places = self._places(share, values.shape, values.device)
        padded = _with_zero(values)[places]
        if residual is None:
            wire.copy_(gpu_blocks.encode(self.fmt, padded))
            return
        left = _with_zero(residual)
        padded += left[places]
        wire.copy_(gpu_blocks.encode_leaving(self.fmt, padded))
        left[places] = padded
        residual.copy_(left[:-1])

    def decode(self, wire: Tensor, share: Share, out: Tensor, factor: float = 1.0, add: bool = False) -> None:
        """Put ``factor`` times the values in the bytes ``wire`` at the positions of a share in the flat buffer ``out``,
        or add them there with ``add``, by torch alone."""
        places = self._places(share, out.shape, out.device)
        decoded = gpu_blocks.decode(self.fmt, wire, places.numel()) * factor
        whole = _with_zero(out)
        whole[places] = whole[places] + decoded if add else decoded
        out.copy_(whole[:-1])


_FORMATS = {"lloyd2": "lloyd", "sign": "sign", "fp8": "fp8"}
"""Kinds of blocks by the name of their width; all others are linear."""


_CASTS = {"float32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
"""Types of the formats without scales."""


def wire_format(method: PlainExchange | BlockExchange, device: str) -> WireFormat:
    """Return the wire format of a method for tensors on a type of device, ``cpu``, ``cuda`` or another.

    float32, bf16 and fp16 are casts. Blocks use the CPU kernels in CPU memory, on CUDA those in Triton where they can
    run and take the format (not fp8), and else the reference in torch.
    """
    name = method.family
    if isinstance(method, PlainExchange) or name in _CASTS:
        return CastFormat(_CASTS[name])
    fmt = BlockFormat(_FORMATS.get(name, "linear"), method.width.bits, method.block)  # type: ignore[arg-type]
    if device == "cpu":
        return BlockKernels(fmt)
    return BlockTriton(fmt) if device == "cuda" and fmt.kind != "fp8" and gpu_refusal() is None else BlockReference(fmt)


def _with_zero(values: Tensor) -> Tensor:
    """Return a copy of flat values with a zero at the end, the position that padding slots read and overwrite."""
    return torch.cat([values, values.new_zeros(1)])


class BlockExchanger(Exchanger):
    """Exchanges gradients in a narrow format."""

    shards = True

    def __init__(self, method: BlockExchange, group: OwnGroup, sizes: Mapping[str, int] | None = None) -> None:
        """Connect the ranks and choose the wire format for the group's device; raises TransportError."""
        super().__init__(method.name, group, sizes, feedback=method.feedback)
        self.format = wire_format(method, group.device)
        self._shares = cache(self._find_shares)

    def average_values(self, values: Tensor, geometry: Geometry) -> None:
        """Replace ``values``, a flat float32 buffer, by their mean over ranks, in place, the same bits on every rank.

        Each rank sends the others their shares, encoded, averages its own share, encodes the mean, and decodes all
        ranks' means, its own too. Each tensor in ``geometry`` is cut into one part a rank for the shares. With error
        feedback the residuals kept for these tensors are added before encoding and replaced by the new errors. With a
        single rank nothing is done.
        """
        rank, ranks = self.group.rank, self.group.ranks
        if ranks == 1:
            return
        shares = self._shares(geometry, sharded=False)
        residual = self._average_own_share(values, geometry, shares)
        sizes = [share.blocks * self.format.block_bytes for share in shares]
        own = values.new_empty(sizes[rank], dtype=torch.uint8)
        wire = values.new_empty(sum(sizes), dtype=torch.uint8)
        _scale(residual, shares[rank], 1 / ranks)
        self.format.encode(values, residual, shares[rank], own)
        _scale(residual, shares[rank], ranks)
        self.group.all_gather(wire, own, sizes)
        for share, part in zip(shares, torch.split(wire, sizes), strict=True):
            self.format.decode(part, share, values)

    def reduce_scatter_values(self, values: Tensor, geometry: Geometry, output: Tensor) -> None:
        """Put this rank's shard of the mean over ranks into ``output``; the other ranks' terms come encoded, the mean
        is not encoded again. With error feedback the residuals of what this rank sends are used and renewed.

        Args:
            values: float32, flat: the shards of all ranks, equally long, by rank. Only this rank's own is overwritten,
                by the mean.
            geometry: tensors in ``values``, whose pieces are encoded in blocks of their own; no piece spans two shards.
            output: float32, flat, as long as a shard.
        """
        self._average_own_share(values, geometry, self._shares(geometry, sharded=True))
        output.copy_(torch.split(values, output.numel())[self.group.rank])

    def _find_shares(self, geometry: Geometry, *, sharded: bool) -> list[Share]:
        """Return the shares of a flat buffer that the ranks average, by rank: with ``sharded`` the pieces of each
        rank's shard, one of equally long parts of the buffer, else a part of each tensor. ``geometry`` are the tensors
        in the buffer."""
        ranks, block = self.group.ranks, self.format.block
        if not sharded:
            return cut_shares(geometry, ranks, block)
        shards: list[list[tuple[int, int]]] = [[] for _ in range(ranks)]
        for piece in geometry.pieces:
            shards[piece.offset * ranks // geometry.size].append((piece.offset, piece.length))
        return [Share.of(runs, block) for runs in shards]

    def _average_own_share(self, values: Tensor, geometry: Geometry, shares: Sequence[Share]) -> Tensor | None:
        """Send all shares but this rank's, encoded, to their owners, and replace its own share of ``values``, in place,
        by the mean of its own values (not encoded) and those decoded from the others; the other shares stay.

        Args:
            values: flat float32 buffer of this rank's gradients.
            geometry: tensors in the buffer.
            shares: shares of all ranks, by rank.

        Returns:
            The residuals of the buffer, flat, kept by this exchanger, with the errors of what was sent; those of this
            rank's own share are as before. None without error feedback.
        """
        rank, ranks = self.group.rank, self.group.ranks
        residual = None if self.residuals is None else self.residuals.buffer(geometry, values.device)
        divisor = self.format.divisor(ranks)
        sizes = [0 if k == rank else share.blocks * self.format.block_bytes for k, share in enumerate(shares)]
        wire = values.new_empty(sum(sizes), dtype=torch.uint8)
        for k, part in enumerate(torch.split(wire, sizes)):
            if k != rank:
                self.format.encode(values, residual, shares[k], part, divisor)
        incoming = [0 if k == rank else shares[rank].blocks * self.format.block_bytes for k in range(ranks)]
        received = values.new_empty(sum(incoming), dtype=torch.uint8)
        self.group.all_to_all(received, wire, incoming, sizes)
        _scale(values, shares[rank], 1 / ranks)
        for k, part in enumerate(torch.split(received, incoming)):
            if k != rank:
                self.format.decode(part, shares[rank], values, divisor / ranks, add=True)
        return residual


def _scale(buffer: Tensor | None, share: Share, factor: float) -> None:
    """Multiply a share of a flat buffer by a factor, in place; nothing is done where the buffer is None."""
    if buffer is not None:
        for first, length, _ in share.runs:
            buffer[first : first + length].mul_(factor)
