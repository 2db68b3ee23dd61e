"""Narrow formats as bytes: what the shares of a buffer look like on the wire.

In CPU memory the kernels of ``lightloom.compression.blocks`` encode all runs of a share in one call; on other devices
the reference does, whose bytes are the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from lightloom.exchange.distributed.geometry import Shares
from lightloom.exchange.methods.blocks import BlockExchange


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
    def decode(self, wire: Tensor, shares: Shares, rank: int, out: Tensor, *, factor: float = 1.0) -> None:
        """Put ``factor`` times the values in ``wire`` at the positions of the share of ``rank`` in ``out``."""

    @abstractmethod
    def decode_own(self, wire: Tensor, shares: Shares, rank: int, out: Tensor) -> None:
        """Add the values in ``wire`` to ``out``, which holds the share of ``rank`` alone, run after run."""

    @abstractmethod
    def encode_own(self, values: Tensor, shares: Shares, rank: int, wire: Tensor, *, leave: bool) -> None:
        """Encode ``values``, which are the share of ``rank`` alone; with ``leave`` errors replace them."""


class CastFormat(WireFormat):
    """Floats of another type, without scales."""

    block = 1

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self.block_bytes = dtype.itemsize

    def encode(self, values: Tensor, residual: Tensor | None, shares: Shares, rank: int, wire: Tensor) -> None:
        cast = wire.view(self.dtype)
        for run in shares.runs[rank]:
            at = run.first_block - shares.first_block[rank]
            part, target = values[run.offset : run.offset + run.length], cast[at : at + run.length]
            if residual is None:
                target.copy_(part)
            else:
                left = residual[run.offset : run.offset + run.length].add_(part)
                target.copy_(left)
                left.sub_(target).nan_to_num_(0.0, 0.0, 0.0)

    def decode(self, wire: Tensor, shares: Shares, rank: int, out: Tensor, *, factor: float = 1.0) -> None:
        cast = wire.view(self.dtype)
        for run in shares.runs[rank]:
            at = run.first_block - shares.first_block[rank]
            torch.mul(cast[at : at + run.length].float(), factor, out=out[run.offset : run.offset + run.length])

    def decode_own(self, wire: Tensor, shares: Shares, rank: int, out: Tensor) -> None:
        out.add_(wire.view(self.dtype))

    def encode_own(self, values: Tensor, shares: Shares, rank: int, wire: Tensor, *, leave: bool) -> None:
        cast = wire.view(self.dtype)
        cast.copy_(values)
        if leave:
            values.sub_(cast).nan_to_num_(0.0, 0.0, 0.0)


def wire_format(method: BlockExchange) -> WireFormat:
    """Return the format of a method."""
    return CastFormat({"bf16": torch.bfloat16, "fp16": torch.float16}[method.width.name])
