"""All-to-all of codes, sums in float32, all-gather of the sums' codes; see ``lightloom.exchange.methods``.

Owners add up what is divided by the number of ranks already, so that a mean that its format can hold never overflows on
the way. With error feedback each rank keeps one residual a value. Of the shares that others add up it is the error of
what this rank sent; of its own share, which it need not send, it is the error of the mean that it sent back, times the
number of ranks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from lightloom.core.arrays import Ints
from lightloom.exchange.compression import blocks
from lightloom.exchange.compression.blocks import BlockFormat
from lightloom.exchange.distributed.exchanger import Exchanger
from lightloom.exchange.distributed.group import OwnGroup
from lightloom.exchange.distributed.residuals import Geometry, Shares, cut_shares
from lightloom.exchange.gpu import blocks as blocks_reference
from lightloom.exchange.gpu import blocks as gpu_blocks
from lightloom.exchange.gpu.codec import gpu_refusal
from lightloom.exchange.methods import BlockExchange

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
    def encode(self, values: Tensor, residual: Tensor | None, shares: Shares, rank: int, wire: Tensor) -> None:
        """Encode the share of ``rank`` of ``values`` plus ``residual``, where the errors are left.

        Args:
            values: flat float32 buffer that ``shares`` divides; not changed.
            residual: like ``values``; its values outside of the share are not changed. None without error feedback.
            shares: how it is divided.
            rank: whose share.
            wire: bytes, ``block_bytes`` for each block of the share.
        """

    @abstractmethod
    def decode(
        self, wire: Tensor, shares: Shares, rank: int, out: Tensor, *, factor: float = 1.0, add: bool = False
    ) -> None:
        """Put ``factor`` times the values in ``wire`` at the positions of the share of ``rank`` in ``out``, or add."""

    def encode_term(
        self, values: Tensor, residual: Tensor | None, shares: Shares, rank: int, wire: Tensor, ranks: int
    ) -> None:
        """Encode as ``encode`` does one of ``ranks`` terms of a mean, for ``add_term``."""
        self.encode(values, residual, shares, rank, wire)

    def add_term(self, wire: Tensor, shares: Shares, rank: int, out: Tensor, ranks: int) -> None:
        """Add the values of ``encode_term`` over ``ranks`` at the positions of the share of ``rank`` in ``out``."""
        self.decode(wire, shares, rank, out, factor=1 / ranks, add=True)


class CastFormat(WireFormat):
    """Floats of another type, without scales."""

    block = 1

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self.block_bytes = dtype.itemsize

    def encode(self, values: Tensor, residual: Tensor | None, shares: Shares, rank: int, wire: Tensor) -> None:
        self._encode(values, residual, shares, rank, wire, 1)

    def encode_term(
        self, values: Tensor, residual: Tensor | None, shares: Shares, rank: int, wire: Tensor, ranks: int
    ) -> None:
        self._encode(values, residual, shares, rank, wire, self._divisor(ranks))

    def add_term(self, wire: Tensor, shares: Shares, rank: int, out: Tensor, ranks: int) -> None:
        self.decode(wire, shares, rank, out, factor=self._divisor(ranks) / ranks, add=True)

    def decode(
        self, wire: Tensor, shares: Shares, rank: int, out: Tensor, *, factor: float = 1.0, add: bool = False
    ) -> None:
        cast = wire.view(self.dtype)
        for first, length, at in shares.tables[rank]:
            part, target = cast[at : at + length], out[first : first + length]
            if add:
                target.add_(part, alpha=factor)
            else:
                target.copy_(part)
                if factor != 1:
                    target.mul_(factor)

    def _encode(
        self, values: Tensor, residual: Tensor | None, shares: Shares, rank: int, wire: Tensor, divisor: int
    ) -> None:
        """Encode what is divided by ``divisor``; the residual is not."""
        cast = wire.view(self.dtype)
        for first, length, at in shares.tables[rank]:
            part, target = values[first : first + length], cast[at : at + length]
            left = part if residual is None else residual[first : first + length].add_(part)
            target.copy_(left if divisor == 1 else left / divisor)
            if residual is not None:
                left.sub_(target, alpha=divisor).nan_to_num_(0.0, 0.0, 0.0)

    def _divisor(self, ranks: int) -> int:
        """Return the divisor of terms before they are cast: a mean that fp16, which ends at 65,504, can hold may have
        one larger term."""
        return ranks if self.dtype == torch.float16 else 1


class BlockKernels(WireFormat):
    """Blocks in CPU memory."""

    def __init__(self, fmt: BlockFormat) -> None:
        self.fmt, self.block, self.block_bytes = fmt, fmt.block, fmt.block_bytes

    def encode(self, values: Tensor, residual: Tensor | None, shares: Shares, rank: int, wire: Tensor) -> None:
        left = None if residual is None else residual.numpy()
        blocks.encode_runs(self.fmt, values.numpy(), left, self._runs(shares, rank), wire.numpy())

    def decode(
        self, wire: Tensor, shares: Shares, rank: int, out: Tensor, *, factor: float = 1.0, add: bool = False
    ) -> None:
        blocks.decode_runs(self.fmt, wire.numpy(), self._runs(shares, rank), out.numpy(), factor, add)

    def _runs(self, shares: Shares, rank: int) -> Ints:
        return byte_runs(shares, rank, self.block_bytes)


class BlockTriton(WireFormat):
    """Blocks in the memory of a CUDA device, or in Triton's interpreter."""

    def __init__(self, fmt: BlockFormat) -> None:
        self.fmt, self.block, self.block_bytes = fmt, fmt.block, fmt.block_bytes
        self._places: dict[tuple[Shares, int], Tensor] = {}

    def encode(self, values: Tensor, residual: Tensor | None, shares: Shares, rank: int, wire: Tensor) -> None:
        gpu_blocks.encode_runs(self.fmt, values, residual, self._places_of(shares, rank, wire), wire)

    def decode(
        self, wire: Tensor, shares: Shares, rank: int, out: Tensor, *, factor: float = 1.0, add: bool = False
    ) -> None:
        gpu_blocks.decode_runs(self.fmt, wire, self._places_of(shares, rank, wire), out, factor, add)

    def _places_of(self, shares: Shares, rank: int, wire: Tensor) -> Tensor:
        key = (shares, rank)
        if key not in self._places:
            runs = byte_runs(shares, rank, self.block_bytes)
            self._places[key] = gpu_blocks.places(self.fmt, runs).to(wire.device)
        return self._places[key]


class BlockReference(WireFormat):
    """Blocks on any device: values are gathered into whole blocks, so that no shape depends on them."""

    def __init__(self, fmt: BlockFormat) -> None:
        self.fmt, self.block, self.block_bytes = fmt, fmt.block, fmt.block_bytes
        self._slots: dict[tuple[int, int], Tensor] = {}

    def encode(self, values: Tensor, residual: Tensor | None, shares: Shares, rank: int, wire: Tensor) -> None:
        slots = self._slots_of(shares, rank, values)
        padded = _with_zero(values)[slots]
        if residual is None:
            wire.copy_(blocks_reference.encode(self.fmt, padded))
            return
        padded += _with_zero(residual)[slots]
        wire.copy_(blocks_reference.encode_leaving(self.fmt, padded))
        left = _with_zero(residual)
        left[slots] = padded
        residual.copy_(left[:-1])

    def decode(
        self, wire: Tensor, shares: Shares, rank: int, out: Tensor, *, factor: float = 1.0, add: bool = False
    ) -> None:
        slots = self._slots_of(shares, rank, out)
        decoded = blocks_reference.decode(self.fmt, wire, slots.numel()) * factor
        whole = _with_zero(out)
        whole[slots] = whole[slots] + decoded if add else decoded
        out.copy_(whole[:-1])

    def _slots_of(self, shares: Shares, rank: int, values: Tensor) -> Tensor:
        key = (id(shares), rank)
        if key not in self._slots:
            self._slots[key] = shares.slots(rank, values.numel(), values.device)
        return self._slots[key]


def wire_format(method: BlockExchange, device: str) -> WireFormat:
    """Return the format of a method for tensors on a kind of device."""
    casts = {"bf16": torch.bfloat16, "fp16": torch.float16}
    if method.width.name in casts:
        return CastFormat(casts[method.width.name])
    kinds = {"lloyd2": "lloyd", "sign": "sign", "fp8": "fp8"}
    fmt = BlockFormat(kinds.get(method.width.name, "linear"), method.width.bits, method.block)  # type: ignore[arg-type]
    if device == "cpu":
        return BlockKernels(fmt)
    return BlockTriton(fmt) if device == "cuda" and fmt.kind != "fp8" and gpu_refusal() is None else BlockReference(fmt)


def byte_runs(shares: Shares, rank: int, block_bytes: int) -> Ints:
    """Return the runs of a rank as rows of position in the buffer, values and first byte of its message."""
    runs: Ints = shares.tables[rank] * np.array([1, 1, block_bytes])
    return runs


def _with_zero(values: Tensor) -> Tensor:
    """Return a copy with a zero at the end, which padding slots read and overwrite."""
    return torch.cat([values, values.new_zeros(1)])


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
        shares = self._shares_of(geometry, lambda: cut_shares(geometry, ranks, self.format.block))
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
        for first, length, _ in shares.tables[rank]:
            buffer[first : first + length].mul_(factor)
