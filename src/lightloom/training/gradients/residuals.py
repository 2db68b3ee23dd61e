"""Error feedback: what encodings took away, kept by tensor and added to the next gradient.

Residuals lie in flat buffers with the geometry of the gradients that they are added to. When the same tensors come in
another buffer, as after DDP rebuilt its buckets, their residuals move.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from lightloom.core.errors import ConfigError
from lightloom.training.gradients.geometry import Geometry
from lightloom.training.gradients.state_dict import SavedState, StateDict

_RANKS = "ranks"


class Residuals:
    """Residuals of one rank by tensor; a ``Stateful`` for checkpoints.

    Every rank has its own residuals, and a checkpoint needs all of them. Keys contain the rank, so that
    ``torch.distributed.checkpoint`` distinguishes them.
    """

    def __init__(self, rank: int, ranks: int, sizes: Mapping[str, int] | None = None) -> None:
        """Begin with zeros for the tensors in ``sizes`` (values by name), or without any residuals."""
        self.rank, self.ranks = rank, ranks
        self._complete = sizes is not None
        self._stored = {name: torch.zeros(size) for name, size in (sizes or {}).items()}
        self._buffers: dict[Geometry, Tensor] = {}
        self._zero: set[Geometry] = set()

    def buffer(self, geometry: Geometry, device: torch.device | str = "cpu") -> Tensor:
        """Residuals with that geometry, float32, not copied: the caller adds, encodes and leaves errors in place.

        Raises:
            ConfigError: a loaded residual does not fit its tensor.
        """
        self._zero.discard(geometry)
        if geometry not in self._buffers:
            self._move_into(geometry, torch.device(device))
        return self._buffers[geometry]

    def drain(self, geometry: Geometry, device: torch.device | str = "cpu") -> Tensor | None:
        """Return a copy of a buffer's residuals and set them to zero; None if they are zero already.

        Raises:
            ConfigError: a loaded residual does not fit its tensor.
        """
        if geometry in self._zero:
            return None
        buffer = self.buffer(geometry, device)
        copy = buffer.clone()
        buffer.zero_()
        self._zero.add(geometry)
        return copy

    def by_tensor(self) -> dict[str, Tensor]:
        """Copies of all residuals in CPU memory, flat."""
        residuals = {name: values.clone() for name, values in self._stored.items()}
        for geometry in self._buffers:
            residuals |= self._collect(geometry)
        return residuals

    def state_dict(self) -> StateDict:
        """Return copies of the residuals under ``rank<i>/<tensor>``, and the number of ranks."""
        return {_RANKS: self.ranks, **{self._key(name): values for name, values in self.by_tensor().items()}}

    def load_state_dict(self, state_dict: SavedState) -> None:
        """Continue from a checkpoint of this rank.

        Raises:
            ConfigError: it is of another rank, number of ranks or model.
        """
        if state_dict.get(_RANKS) != self.ranks:
            raise ConfigError(f"the checkpoint is of {state_dict.get(_RANKS)} ranks, this run has {self.ranks}")
        prefix = self._key("")
        names = {str(key).removeprefix(prefix) for key in state_dict if str(key).startswith(prefix)}
        if len(names) != len(state_dict) - 1:
            raise ConfigError(f"the checkpoint holds residuals of another rank than {self.rank}")
        present = self.by_tensor()
        if self._complete and names != set(present):
            raise ConfigError(f"checkpoint and model differ in parameter {sorted(names ^ set(present))[0]!r}")
        loaded = {}
        for name in names:
            values = torch.as_tensor(state_dict[self._key(name)]).detach().float().flatten().clone()
            if self._complete and values.numel() != present[name].numel():
                raise _unfit(name, values.numel(), present[name].numel())
            loaded[name] = values
        self._stored = present | loaded
        self._buffers.clear()
        self._zero.clear()

    def _move_into(self, geometry: Geometry, device: torch.device) -> None:
        for other in [other for other in self._buffers if other.names & geometry.names]:
            self._stored |= self._collect(other)
            del self._buffers[other]
            self._zero.discard(other)
        buffer = torch.zeros(geometry.size, device=device)
        lengths = _lengths(geometry)
        for piece in geometry.pieces:
            stored = self._stored.get(piece.tensor)
            if stored is None:
                continue
            if stored.numel() != lengths[piece.tensor]:
                raise _unfit(piece.tensor, stored.numel(), lengths[piece.tensor])
            values = stored[piece.start : piece.start + piece.length]
            buffer[piece.offset : piece.offset + piece.length].copy_(values)
        for name in geometry.names:
            self._stored.pop(name, None)
        self._buffers[geometry] = buffer

    def _collect(self, geometry: Geometry) -> dict[str, Tensor]:
        buffer = self._buffers[geometry].cpu()
        tensors = {name: torch.zeros(length) for name, length in _lengths(geometry).items()}
        for piece in geometry.pieces:
            values = buffer[piece.offset : piece.offset + piece.length]
            tensors[piece.tensor][piece.start : piece.start + piece.length] = values
        return tensors

    def _key(self, name: str) -> str:
        return f"rank{self.rank}/{name}"


def _lengths(geometry: Geometry) -> dict[str, int]:
    lengths: dict[str, int] = {}
    for piece in geometry.pieces:
        lengths[piece.tensor] = max(lengths.get(piece.tensor, 0), piece.start + piece.length)
    return lengths


def _unfit(name: str, values: int, expected: int) -> ConfigError:
    return ConfigError(
        f"the residual of {name!r} has {values} values, the parameter {expected}: the checkpoint is of another model"
    )
