"""Top-k: each rank sends the largest values of each tensor with their indices, and adds up what all ranks sent.

    wire of one rank   | indices, int32, from the start of their tensor | values, float32 |

Every rank adds the messages in the order of ranks, so that replicas stay bit-identical. Momentum is the optimizer's,
which sees the sparse average.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lightloom.exchange.methods.sparse import TopKExchange
from lightloom.training.gradients.exchanger import Exchanger
from lightloom.training.gradients.geometry import Geometry
from lightloom.training.gradients.group import OwnGroup

_SIZE, _INFINITY = np.int32(0x7FFFFFFF), np.int32(0x7F800000)
"""Bits of a float32 without its sign; those of infinity, beyond which are those of NaN."""
_SAMPLE, _SPARE = 1 << 14, 32
"""Sizes in a sample of a tensor, and how many more of them are taken for large than expected."""


class LargestValues:
    """Messages of the largest values of each tensor of a buffer."""

    def __init__(self, method: TopKExchange, geometry: Geometry, device: torch.device | str = "cpu") -> None:
        """Count what is sent of each piece of a buffer on ``device``."""
        self._pieces = geometry.pieces
        self._counts = [method.kept(piece.length) for piece in geometry.pieces]
        self.total = sum(self._counts)
        """Number of values in a message."""
        offsets = torch.tensor([piece.offset for piece in geometry.pieces], dtype=torch.int64)
        self._offsets = offsets.repeat_interleave(torch.tensor(self._counts, dtype=torch.int64)).to(device)

    def encode(self, values: Tensor, residual: Tensor | None) -> Tensor:
        """Return the message of ``values`` plus ``residual``, where what is not sent is left; int32."""
        left = values if residual is None else residual.add_(values)
        message = values.new_empty(2 * self.total, dtype=torch.int32)
        indices, at = message[: self.total], 0
        for piece, count in zip(self._pieces, self._counts, strict=True):
            indices[at : at + count] = largest(left[piece.offset : piece.offset + piece.length], count)
            at += count
        positions = indices.long().add_(self._offsets)
        message[self.total :].view(torch.float32).copy_(left[positions])
        if residual is not None:
            # What is not finite would be sent again and again.
            left.index_fill_(0, positions, 0.0).nan_to_num_(0.0, 0.0, 0.0)
        return message

    def decode_adding(self, message: Tensor, out: Tensor, factor: float = 1.0) -> None:
        """Add ``factor`` times the values of a message to ``out``."""
        positions = message[: self.total].long().add_(self._offsets)
        out.index_add_(0, positions, message[self.total :].view(torch.float32), alpha=factor)


class SparseExchanger(Exchanger):
    """Exchanges the largest values of each tensor."""

    def __init__(self, method: TopKExchange, group: OwnGroup, sizes: Mapping[str, int] | None = None) -> None:
        super().__init__(method.name, group, sizes, feedback=method.feedback)
        self._method = method
        self._messages: dict[Geometry, LargestValues] = {}

    def average_values(self, values: Tensor, geometry: Geometry) -> None:
        ranks = self.group.ranks
        if ranks == 1:
            return
        if geometry not in self._messages:
            self._messages[geometry] = LargestValues(self._method, geometry, values.device)
        messages = self._messages[geometry]
        residual = None if self.residuals is None else self.residuals.buffer(geometry, values.device)
        own = messages.encode(values, residual)
        wire = own.new_empty(ranks * own.numel())
        self.group.all_gather(wire, own, [own.numel()] * ranks)
        values.zero_()
        for message in torch.split(wire, own.numel()):
            messages.decode_adding(message, values, 1 / ranks)


def largest(values: Tensor, count: int) -> Tensor:
    """Indices of the ``count`` values of largest size, ascending; the first ones where sizes are equal.

    NaN counts as infinite. ``torch.topk`` alone leaves open which of equal values it returns.
    """
    if count == values.numel():
        return torch.arange(count, device=values.device)
    return largest_on_host(values, count) if values.device.type == "cpu" else largest_on_device(values, count)


def largest_on_host(values: Tensor, count: int) -> Tensor:
    """``largest`` in CPU memory: as integers, of which only those are parted that a sample finds large."""
    sizes = values.contiguous().numpy().view(np.int32) & _SIZE
    np.minimum(sizes, _INFINITY, out=sizes)
    large = np.flatnonzero(sizes >= _likely_bound(sizes, count))
    if large.size < count:
        large = np.arange(sizes.size)
    chosen = sizes[large]
    least = np.partition(chosen, chosen.size - count)[chosen.size - count]
    above = large[chosen > least]
    level = large[chosen == least][: count - above.size]
    return torch.from_numpy(np.sort(np.concatenate([above, level])))


def _likely_bound(sizes: NDArray[np.int32], count: int) -> np.int32:
    """A size that somewhat more than ``count`` sizes are likely to reach, from a sample; 0 where few are left out."""
    sample = np.sort(sizes[:: max(sizes.size // _SAMPLE, 1)])
    beyond = round(1.5 * count * sample.size / sizes.size) + _SPARE
    return sample[-beyond] if beyond < sample.size else np.int32(0)


def largest_on_device(values: Tensor, count: int) -> Tensor:
    """``largest`` on any device, without waiting for it."""
    sizes = values.abs().nan_to_num_(nan=torch.inf, posinf=torch.inf)
    least = sizes.topk(count, sorted=False).values.min()
    above, level = sizes > least, sizes == least
    room = count - above.sum()
    chosen = above | (level & (level.cumsum(0, dtype=torch.int32) <= room))
    return torch.nonzero_static(chosen, size=count).view(-1)
