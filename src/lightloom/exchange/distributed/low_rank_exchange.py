"""PowerSGD: each gradient matrix is sent as two narrow ones; see ``lightloom.exchange.methods.low_rank``.

    P = mean of M Q  ->  orthogonalise P  ->  Q = mean of M^T P  ->  M is replaced by P Q^T

M is this rank's gradient plus its residual, and the residual becomes M - P Q^T. The next step starts from Q, each
column scaled to a largest value of 1. All ranks compute P Q^T from the same P and Q: replicas stay bit-identical as
long as their processors and libraries multiply alike.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.exchange.methods.low_rank import PowerSgdExchange
from lightloom.training.gradients.exchanger import Exchanger
from lightloom.training.gradients.geometry import Geometry
from lightloom.training.gradients.group import OwnGroup
from lightloom.training.gradients.state_dict import SavedState, StateDict

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
        """The matrix in a flat buffer, not copied."""
        return buffer[self.offset : self.offset + self.rows * self.columns].view(self.rows, self.columns)


class LowRankExchanger(Exchanger):
    """Exchanges the factors of gradient matrices; one-dimensional tensors as float32."""

    def __init__(self, method: PowerSgdExchange, group: OwnGroup, sizes: Mapping[str, int] | None = None) -> None:
        super().__init__(method.name, group, sizes, feedback=method.feedback)
        self._factors_of = method.factors
        self._starts: dict[str, Tensor] = {}
        """By tensor, Q [columns, rank] with which the next step begins; equal on all ranks."""
        self._layouts: dict[Geometry, tuple[list[_Matrix], list[slice]]] = {}

    def average_values(self, values: Tensor, geometry: Geometry) -> None:
        if self.group.ranks == 1:
            return
        matrices, plain = self._layout(geometry)
        if self.residuals is not None:
            values.add_(self.residuals.buffer(geometry, values.device))
        self._average_plain(values, plain)
        if not matrices:
            return
        starts = [self._start(matrix, values.device) for matrix in matrices]
        p = [matrix.of(values) @ (start * _ROOM) for matrix, start in zip(matrices, starts, strict=True)]
        p = [orthogonalised(factor) for factor in self._mean(p)]
        q = self._mean([matrix.of(values).t() @ (factor * _ROOM) for matrix, factor in zip(matrices, p, strict=True)])
        if self.residuals is not None:
            residual = self.residuals.buffer(geometry, values.device)
            for matrix, left, right in zip(matrices, p, q, strict=True):
                torch.addmm(matrix.of(values), left, right.t(), alpha=-1 / _ROOM, out=matrix.of(residual))
            residual.nan_to_num_(0.0, 0.0, 0.0)
        for matrix, start, left, right in zip(matrices, starts, p, q, strict=True):
            torch.addmm(matrix.of(values), left, right.t(), beta=0, alpha=1 / _ROOM, out=matrix.of(values))
            self._starts[matrix.name] = _next_start(right, start)

    def state_dict(self) -> StateDict:
        starts = {f"{_START}{name}": start.cpu().clone() for name, start in self._starts.items()}
        return super().state_dict() | starts

    def load_state_dict(self, state_dict: SavedState) -> None:
        starts = {key: value for key, value in state_dict.items() if str(key).startswith(_START)}
        super().load_state_dict({key: value for key, value in state_dict.items() if key not in starts})
        self._starts = {key.removeprefix(_START): torch.as_tensor(value).clone() for key, value in starts.items()}

    def _average_plain(self, values: Tensor, plain: list[slice]) -> None:
        """Average the tensors that are not sent as factors, in one all-reduce."""
        if plain:
            (mean,) = self._mean([torch.cat([values[part] for part in plain])])
            for part, averaged in zip(
                plain, torch.split(mean, [part.stop - part.start for part in plain]), strict=True
            ):
                values[part] = averaged

    def _mean(self, tensors: list[Tensor]) -> list[Tensor]:
        """Means over ranks, by one all-reduce."""
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors]).div_(self.group.ranks)
        self.group.all_reduce_in_order(flat)
        parts = torch.split(flat, [tensor.numel() for tensor in tensors])
        return [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]

    def _start(self, matrix: _Matrix, device: torch.device) -> Tensor:
        """Q of the last step; the first time Gaussian, from a seed that depends on the tensor's name alone."""
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

    def _layout(self, geometry: Geometry) -> tuple[list[_Matrix], list[slice]]:
        if geometry not in self._layouts:
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
            self._layouts[geometry] = matrices, plain
        return self._layouts[geometry]


def orthogonalised(factor: Tensor) -> Tensor:
    """Return the columns of ``factor`` [rows, rank] orthonormal, by Gram-Schmidt, twice for the sake of rounding.

    A column of zeros, or one that is not finite, stays as it is. Columns are scaled by their largest value first, so
    that squares neither overflow nor vanish.
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
    """Columns of ``q`` scaled to a largest value of 1; those of ``start`` for columns of zeros, which could never grow
    again, and for columns that are not finite."""
    largest = q.abs().amax(0)
    return torch.where((largest > 0) & largest.isfinite(), q / _or_one(largest), start)


def _or_one(size: Tensor) -> Tensor:
    return torch.where(size > 0, size, torch.ones_like(size))
