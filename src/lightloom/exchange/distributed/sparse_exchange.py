"""Top-k: each rank sends the largest values of each tensor with their indices, and adds up what all ranks sent.

    wire of one rank   | indices, int32, from the start of their tensor | values, float32 |

Every rank adds the messages in the order of ranks, so that replicas stay bit-identical. Momentum is the optimizer's,
which sees the sparse average.
"""

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from math import prod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lightloom.core.errors import ConfigError, InputError, UnsupportedError
from lightloom.exchange.distributed.exchanger import Exchanger
from lightloom.exchange.distributed.group import OwnGroup
from lightloom.exchange.distributed.residuals import Geometry, Piece, SavedState, StateDict, with_prefix, without_prefix
from lightloom.exchange.distributed.ring_exchange import TensorBlocks
from lightloom.exchange.distributed.schedule_exchange import ScheduledGroup
from lightloom.exchange.method import ExchangeMethod
from lightloom.exchange.methods import PowerSgdExchange, ScheduledSums, TopKExchange, TwoLevelExchange
from lightloom.exchange.transport.channel import AgreedError

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
        """Return the message of the largest values of each tensor in a buffer: int32 [2 total], the indices from the
        start of their tensor of all values sent, tensor after tensor and ascending in each, then the bits of these
        float32 values. The method says how many values of each tensor are sent.

        Args:
            values: flat float32 buffer; not changed.
            residual: like ``values``, added to them before the choice; it is left with what is not sent, 0 where that
                is not finite. None without error feedback.
        """
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
        """Add ``factor`` times the values of a message, as ``encode`` lays it out for the same tensors, to the flat
        float32 buffer ``out``, in place, at their positions."""
        positions = message[: self.total].long().add_(self._offsets)
        out.index_add_(0, positions, message[self.total :].view(torch.float32), alpha=factor)


class SparseExchanger(Exchanger):
    """Exchanges the largest values of each tensor."""

    def __init__(self, method: TopKExchange, group: OwnGroup, sizes: Mapping[str, int] | None = None) -> None:
        """Connect the ranks; raises TransportError where one does not come in time."""
        super().__init__(method.name, group, sizes, feedback=method.feedback)
        self._messages = cache(partial(LargestValues, method))

    def average_values(self, values: Tensor, geometry: Geometry) -> None:
        """Replace ``values``, flat float32, in place by the sum of the values that the ranks sent, divided by the
        number of ranks; 0 where no rank sent one. Each sends as float32 the values of largest magnitude of each tensor
        in ``geometry``, as many as the method keeps, after adding the residuals of error feedback, if any, which then
        hold what was not sent. With a single rank nothing is done."""
        ranks = self.group.ranks
        if ranks == 1:
            return
        messages = self._messages(geometry, values.device)
        residual = None if self.residuals is None else self.residuals.buffer(geometry, values.device)
        own = messages.encode(values, residual)
        wire = own.new_empty(ranks * own.numel())
        self.group.all_gather(wire, own, [own.numel()] * ranks)
        values.zero_()
        for message in torch.split(wire, own.numel()):
            messages.decode_adding(message, values, 1 / ranks)


def largest(values: Tensor, count: int) -> Tensor:
    """Return the indices, int64 and ascending, of the ``count`` values of largest magnitude in a flat tensor; the first
    ones where magnitudes are equal.

    NaN counts as infinite. ``torch.topk`` alone leaves open which of equal values it returns.

    ``count`` is from 1 to the length of ``values``.
    """
    if count == values.numel():
        return torch.arange(count, device=values.device)
    return largest_on_host(values, count) if values.device.type == "cpu" else largest_on_device(values, count)


def largest_on_host(values: Tensor, count: int) -> Tensor:
    """Return the indices, int64 and ascending, of the ``count`` values of largest magnitude in a flat float32 CPU
    tensor, the first ones where magnitudes are equal; NaN counts as infinite.

    Only values that reach a bound taken from a sample are partitioned, or all where fewer than ``count`` reach it.

    ``count`` is from 1 to the length of ``values``.
    """
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
    """Return a magnitude, as bits like ``sizes``, that about 1.5 times ``count`` of the values reach and almost
    certainly at least ``count``, judged by a sample of about 16,384 of them; 0, which all reach, where the sample has
    not so many.

    Args:
        sizes: magnitudes as the bits of float32 values without their sign, which order as the magnitudes do.
        count: number of values that are wanted.
    """
    sample = np.sort(sizes[:: max(sizes.size // _SAMPLE, 1)])
    beyond = round(1.5 * count * sample.size / sizes.size) + _SPARE
    return sample[-beyond] if beyond < sample.size else np.int32(0)


def largest_on_device(values: Tensor, count: int) -> Tensor:
    """Return the indices, int64 and ascending, of the ``count`` values of largest magnitude in a flat tensor on any
    device, the first ones where magnitudes are equal; NaN counts as infinite.

    The host does not wait for the device.

    ``count`` is from 1 to the length of ``values``.
    """
    sizes = values.abs().nan_to_num_(nan=torch.inf, posinf=torch.inf)
    least = sizes.topk(count, sorted=False).values.min()
    above, level = sizes > least, sizes == least
    room = count - above.sum()
    chosen = above | (level & (level.cumsum(0, dtype=torch.int32) <= room))
    return torch.nonzero_static(chosen, size=count).view(-1)


# PowerSGD: each gradient matrix is sent as two narrow ones; see ``lightloom.exchange.methods``.
#
# P = mean of M Q  ->  orthogonalise P  ->  Q = mean of M^T P  ->  M is replaced by P Q^T
#
# M is this rank's gradient plus its residual, and the residual becomes M - P Q^T. The next step starts from Q, each
# column scaled to a largest value of 1. All ranks compute P Q^T from the same P and Q: replicas stay bit-identical as
# long as their processors and libraries multiply alike.

_START = "start/"
_ROOM = 2.0**-24
"""Factor on what matrices are multiplied with: products of values near the largest float32 would overflow."""


@dataclass(frozen=True, slots=True)
class _Matrix:
    """A tensor that is sent as factors; position in the buffer, sizes in values."""

    name: str
    offset: int
    rows: int
    columns: int
    rank: int

    def of(self, buffer: Tensor) -> Tensor:
        """Return this tensor's matrix [rows, columns], in row order, in the flat ``buffer`` of all tensors, as a
        view."""
        return buffer[self.offset : self.offset + self.rows * self.columns].view(self.rows, self.columns)


class LowRankExchanger(Exchanger):
    """Exchanges the factors of gradient matrices; one-dimensional tensors as float32."""

    def __init__(self, method: PowerSgdExchange, group: OwnGroup, sizes: Mapping[str, int] | None = None) -> None:
        """Connect the ranks, without factors to start from; raises TransportError where one does not come in time."""
        super().__init__(method.name, group, sizes, feedback=method.feedback)
        self._factors_of = method.factors
        self._starts: dict[str, Tensor] = {}
        """By tensor, Q [columns, rank] with which the next step begins; equal on all ranks."""
        self._layout = cache(self._find_layout)

    def average_values(self, values: Tensor, geometry: Geometry) -> None:
        """Replace ``values``, flat float32 with the tensors of ``geometry``, in place: a tensor that is sent as factors
        P [rows, rank] and Q [columns, rank], taken as a matrix (first dimension by all others), becomes the product P
        Qᵀ of its factors averaged over ranks, every other tensor its float32 mean. Factors serve every tensor of two or
        more dimensions where they are smaller than it. P, made orthonormal, comes from multiplying with the last step's
        Q. With a single rank nothing is done.

        With error feedback residuals are added first, and those of matrices are replaced by what the product leaves
        out, 0 where that is not finite.

        Raises:
            UnsupportedError: the buffer does not hold whole tensors.
            ConfigError: a loaded factor has another shape.
        """
        if self.group.ranks == 1:
            return
        matrices, plain = self._layout(geometry)
        if self.residuals is not None:
            values.add_(self.residuals.buffer(geometry, values.device))
        if plain:  # tensors that are not sent as factors
            for part, mean in zip(plain, self._mean([values[part] for part in plain]), strict=True):
                values[part] = mean
        if not matrices:
            return
        starts = [self._start(matrix, values.device) for matrix in matrices]
        # Products round by where their operands lie, and another layout of buckets places a tensor elsewhere.
        aligned = [matrix.of(values).clone() for matrix in matrices]
        p = [each @ (start * _ROOM) for each, start in zip(aligned, starts, strict=True)]
        p = [orthogonalised(factor) for factor in self._mean(p)]
        q = self._mean([each.t() @ (factor * _ROOM) for each, factor in zip(aligned, p, strict=True)])
        if self.residuals is not None:
            residual = self.residuals.buffer(geometry, values.device)
            for matrix, left, right in zip(matrices, p, q, strict=True):
                torch.addmm(matrix.of(values), left, right.t(), alpha=-1 / _ROOM, out=matrix.of(residual))
            residual.nan_to_num_(0.0, 0.0, 0.0)
        for matrix, start, left, right in zip(matrices, starts, p, q, strict=True):
            torch.addmm(matrix.of(values), left, right.t(), beta=0, alpha=1 / _ROOM, out=matrix.of(values))
            self._starts[matrix.name] = _next_start(right, start)

    def state_dict(self) -> StateDict:
        """Return a checkpoint of this rank: its residuals (with error feedback), and under ``start/<tensor>`` the
        factor Q of each tensor from which the next step starts, equal on all ranks."""
        starts = {f"{_START}{name}": start.cpu().clone() for name, start in self._starts.items()}
        return super().state_dict() | starts

    def load_state_dict(self, state_dict: SavedState) -> None:
        """Continue from a checkpoint of this rank; raises ConfigError where its residuals are of another rank, number
        of ranks or model. Factors are replaced by those of the checkpoint, and a tensor without one there starts anew;
        their shapes are checked at their first use."""
        starts = {key: value for key, value in state_dict.items() if str(key).startswith(_START)}
        super().load_state_dict({key: value for key, value in state_dict.items() if key not in starts})
        self._starts = {key.removeprefix(_START): torch.as_tensor(value).clone() for key, value in starts.items()}

    def _mean(self, tensors: list[Tensor]) -> list[Tensor]:
        """Return the means of tensors over ranks, in their shapes, by one float32 all-reduce of all of them, which adds
        in the order of ranks values already divided by the number of ranks; the tensors are left alone."""
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors]).div_(self.group.ranks)
        self.group.all_reduce_in_order(flat)
        parts = torch.split(flat, [tensor.numel() for tensor in tensors])
        return [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]

    def _start(self, matrix: _Matrix, device: torch.device) -> Tensor:
        """Return the factor Q [columns, rank] from which a matrix's step starts, on ``device``: that of the last step;
        the first time standard normal, from a seed that depends on the tensor's name alone. Raises ConfigError for a
        loaded one of another shape."""
        start, shape = self._starts.get(matrix.name), (matrix.columns, matrix.rank)
        if start is None:
            generator = torch.Generator().manual_seed(zlib.crc32(matrix.name.encode()))
            start = torch.randn(shape, generator=generator)
        elif tuple(start.shape) != shape:
            raise ConfigError(
                f"the checkpoint's factor of {matrix.name!r} has shape {tuple(start.shape)}, expected {shape}: it is "
                "of another model or rank of PowerSGD"
            )
        return start.to(device)

    def _find_layout(self, geometry: Geometry) -> tuple[list[_Matrix], list[slice]]:
        """Return (matrices of a buffer that are sent as factors, slices of its other tensors that are not empty), both
        in the order of ``geometry.shapes``; sent as factors are tensors of two or more dimensions whose factors are
        smaller than they; raises UnsupportedError where the buffer does not hold whole tensors."""
        if sum(prod(shape) for _, shape in geometry.shapes) != geometry.size:
            raise UnsupportedError(
                f"exchange {self.name} needs whole tensors, here they are cut: expected DDP, or another method"
            )
        offsets = {piece.tensor: piece.offset for piece in geometry.pieces}
        matrices, plain = [], []
        for name, shape in geometry.shapes:
            factors, offset = self._factors_of(shape), offsets.get(name, 0)
            if factors is not None:
                matrices.append(_Matrix(name, offset, *factors))
            elif prod(shape):
                plain.append(slice(offset, offset + prod(shape)))
        return matrices, plain


def orthogonalised(factor: Tensor) -> Tensor:
    """Return the columns of ``factor`` [rows, rank] made orthonormal, by Gram-Schmidt in their order, twice for the
    sake of rounding.

    A column of zeros stays so; one that is not finite comes out with NaN, as do all columns behind it. Columns are
    scaled by their largest value first, so that squares neither overflow nor vanish.
    """
    columns: list[Tensor] = []
    for column in factor.unbind(1):
        vector = column / _or_one(column.abs().amax())
        for _ in range(2 if columns else 0):
            basis = torch.stack(columns, 1)
            vector = vector - basis @ (basis.t() @ vector)
        columns.append(vector / _or_one(vector.square().sum().sqrt()))
    return torch.stack(columns, 1)


def _next_start(q: Tensor, start: Tensor) -> Tensor:
    """Return ``q`` with each column scaled to a largest magnitude of 1; columns of zeros, which could never grow again,
    and columns that are not finite are those of ``start`` instead."""
    largest = q.abs().amax(0)
    return torch.where((largest > 0) & largest.isfinite(), q / _or_one(largest), start)


def _or_one(size: Tensor) -> Tensor:
    """Return ``size`` with 1 in place of every entry that is not above 0, NaN included, to divide by."""
    return torch.where(size > 0, size, torch.ones_like(size))


# Sums inside a node, another method between nodes; see ``lightloom.exchange.methods``.
#
# node 0: ranks 0 1 2 3     slot 1: ranks 1 and 5 exchange piece 1 of every tensor by the method between nodes
# node 1: ranks 4 5 6 7
#
# Ranks of a node follow each other, as torchrun numbers them. Sums inside a node add up in the order of ranks.

Make = Callable[[ExchangeMethod, OwnGroup, Mapping[str, int] | None], Exchanger]


class TwoLevelExchanger(Exchanger):
    """Reduce-scatter in the node, the method among equal slots, all-gather in the node."""

    def __init__(
        self, method: TwoLevelExchange, group: OwnGroup, sizes: Mapping[str, int] | None = None, *, make: Make
    ) -> None:
        """Connect the ranks of the node, and the ranks of this slot.

        Args:
            method: what to run.
            group: all ranks.
            sizes: number of values by tensor, where known.
            make: makes the exchanger between nodes.

        Raises:
            ConfigError: the ranks do not fill nodes.
            UnsupportedError: the schedules inside a node cannot be built or executed.
            TransportError: a rank did not connect in time.
        """
        size = method.node
        method.nodes(group.ranks)  # which must be filled
        node, self._slot = divmod(group.rank, size)
        self._inside = group.subgroup(range(node * size, (node + 1) * size))
        self._between_group = group.subgroup(range(self._slot, group.ranks, size))
        self._rows = ScheduledGroup(method.inside, self._inside) if isinstance(method.inside, ScheduledSums) else None
        self.remark = f", schedules {self._rows.digest}" if self._rows else ""
        super().__init__(method.name, group, sizes, feedback=method.feedback)
        own = None if sizes is None else {name: self._length(values) for name, values in sizes.items()}
        self._between = make(method.between, self._between_group, own)
        self._cut = cache(self._find_cut)

    def average_values(self, values: Tensor, geometry: Geometry) -> None:
        """Replace ``values``, flat float32 with the tensors of ``geometry``, by their mean over all ranks, in place:
        they are added up inside nodes (as float32, or by schedules, coded, where the method states them), averaged
        between nodes by the other method on this rank's slot, and gathered inside nodes. With a single node nothing is
        sent between nodes.

        Raises:
            InputError: the method between nodes refuses the values of this slot.
            TransportError: a rank left, fell silent or exchanges something else.
        """
        cut, own_geometry = self._cut(geometry)
        before = self._inside.sent + self._between_group.sent
        blocks = torch.empty_like(values)
        cut.gather(values, cut.split(blocks))
        blocks /= self._inside.ranks
        rows, inside = self._rows, self._inside
        own = rows.reduce_scatter(blocks, cut) if rows else inside.reduce_scatter_in_order(blocks, cut.sizes)
        if own_geometry.size:
            try:
                self._between.average_values(own, own_geometry)
            except AgreedError as error:  # of the ranks of this slot, not of all
                raise InputError(str(error)) from error
        if rows:
            rows.all_gather(blocks, cut)
        else:
            inside.all_gather(blocks, own, cut.sizes)
        for k, block in enumerate(cut.split(blocks)):
            cut.scatter(k, block, values)
        self.group.sent += self._inside.sent + self._between_group.sent - before

    def drain(self, geometry: Geometry, device: torch.device | str = "cpu") -> Tensor | None:
        """Return the residuals that the method between nodes keeps on this rank, times the ranks of a node, in the
        place of its slot of a flat float32 buffer, 0 elsewhere, and forget them; None if there are none.

        Args:
            geometry: tensors of the buffer.
            device: where the result is to lie.
        """
        cut, own_geometry = self._cut(geometry)
        left = self._between.drain(own_geometry, device)
        if left is None:
            return None
        buffer = left.new_zeros(geometry.size)
        # The residual of a slot is one node's, in the units of a mean over its ranks.
        cut.scatter(self._slot, left, buffer, float(self._inside.ranks))
        return buffer

    def state_dict(self) -> StateDict:
        """Return a checkpoint of this rank, the state of the method between nodes; all keys are those of that method's
        exchanger behind ``slot<i>/``, i being this rank's place in its node."""
        return with_prefix(self._between.state_dict(), self._prefix)

    def load_state_dict(self, state_dict: SavedState) -> None:
        """Continue from a checkpoint of this rank; raises ConfigError where it is of another slot or does not fit."""
        self._between.load_state_dict(without_prefix(state_dict, self._prefix))

    def close(self) -> None:
        """Close the connections to the other ranks, who are told. May be called any number of times."""
        self._between.close()
        self._inside.close()
        super().close()

    def _connect(self) -> None:
        """Connect the ranks of the node; those of the slot connect with the exchanger between nodes. Raises
        TransportError where one does not come in time."""
        self._inside.connect()

    @property
    def _prefix(self) -> str:
        """Beginning of the keys of checkpoints, ``slot<i>/``, i being this rank's place in its node."""
        return f"slot{self._slot}/"

    def _length(self, values: int) -> int:
        """Return the number of values that the slot of this rank, s of R places in its node, has of a tensor of
        ``values`` values: floor(values (s + 1) / R) - floor(values s / R)."""
        return values * (self._slot + 1) // self._inside.ranks - values * self._slot // self._inside.ranks

    def _find_cut(self, geometry: Geometry) -> tuple[TensorBlocks, Geometry]:
        """Return (the buffer's tensors each cut into as many blocks as a node has ranks, one a slot; geometry of this
        rank's block), in which the part of each tensor counts as a tensor by itself."""
        cut = TensorBlocks(geometry, self._inside.ranks)
        pieces = [Piece(piece.tensor, 0, piece.offset, piece.length) for piece in cut.pieces[self._slot]]
        return cut, Geometry(pieces, cut.sizes[self._slot])
