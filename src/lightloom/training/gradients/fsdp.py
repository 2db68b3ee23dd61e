"""Any exchange in FSDP2: in the place of a module's reduce-scatter, or between the nodes of hybrid sharding."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor

from lightloom.core.errors import UnsupportedError
from lightloom.training.gradients.fsdp_modules import (
    ShardedModule,
    padded_length,
    plain_reduce_scatter,
    replace_reduce_scatter,
)
from lightloom.training.gradients.geometry import Geometry, Piece
from lightloom.training.gradients.state_dict import SavedState, StateDict, with_prefix, without_prefix
from lightloom.training.gradients.stepwise import Stepwise


class FsdpState:
    """State of the exchanges of a model's gradients on one rank; a ``Stateful`` for checkpoints.

    Residuals belong to complete parameters, padded as FSDP pads them, or to this rank's shards in hybrid sharding.
    """

    def __init__(self, run: Stepwise, group: dist.ProcessGroup, geometries: list[Geometry], prefix: str = "") -> None:
        """Begin without history.

        Args:
            run: what to run.
            group: what it runs over.
            geometries: of the gradients of each module.
            prefix: what keys of checkpoints begin with.
        """
        self.statistics = run.statistics
        self.adaptive = run.adaptive
        self._run, self._group, self._prefix = run, group, prefix
        self._geometries = geometries
        self._exchanged: set[Geometry] = set()

    def reduce_scatter(self, output: Tensor, gradients: Tensor, *, geometry: Geometry) -> None:
        """Put this rank's shard of the mean over ranks of ``gradients`` (all shards, side by side) into ``output``.

        Raises:
            UnsupportedError: the gradients are not those of all parameters of the module, or wider than float32.
            TransportError: connections broke.
        """
        output, gradients = _real(output), _real(gradients.detach())
        last = self._begin(gradients, geometry)
        ranks = self._group.size()
        if self._run.use_plain:
            self._run.give_back(gradients, geometry)
            plain_reduce_scatter(output, gradients, self._group)
            self.statistics.add_plain(last=last)
        else:
            length, scale = geometry.size // ranks, self._run.scale
            shards = [slice(k * length, (k + 1) * length) for k in range(ranks)]
            values = gradients if self._run.exchanger.any_type else gradients.to(torch.float32)
            values = values / scale if scale != 1.0 else values
            total = values.new_empty(length)
            with self._run.counted(geometry.size, last=last, halves=1):
                self._run.exchanger.reduce_scatter(values, geometry, shards, total)
            output.copy_(total.mul_(scale) if scale != 1.0 else total)
        self._end(last)

    def all_reduce(self, shard: Tensor, *, geometry: Geometry) -> None:
        """Replace a shard of gradients by its mean over nodes.

        Raises:
            UnsupportedError: the gradients are not those of all parameters of the module, or wider than float32.
            TransportError: connections broke.
        """
        values = _real(shard.detach())
        last = self._begin(values, geometry)
        if self._run.use_plain:
            self._run.give_back(values, geometry)
            dist.all_reduce(values.div_(self._group.size()), group=self._group)
            self.statistics.add_plain(last=last)
        else:
            with self._run.counted(geometry.size, last=last):
                self._run.exchanger.average_tensor(values, geometry, self._run.scale)
        self._end(last)

    def close(self) -> None:
        """Leave the group. May be called any number of times."""
        self._run.close()

    def state_dict(self) -> StateDict:
        """Return the state of the method on this rank, and of the adaptive choice."""
        return with_prefix(self._run.state_dict(), self._prefix)

    def load_state_dict(self, state_dict: SavedState) -> None:
        """Continue from a checkpoint of this rank.

        Raises:
            ConfigError: it is of another rank, number of ranks, model or method.
        """
        self._run.load_state_dict(without_prefix(state_dict, self._prefix))

    def _begin(self, values: Tensor, geometry: Geometry) -> bool:
        """Check the gradients of a module; return whether they are the last ones of a step."""
        if values.numel() != geometry.size:
            names = ", ".join(dict.fromkeys(piece.tensor for piece in geometry.pieces))
            raise UnsupportedError(
                f"{values.numel()} gradients for {names}, which have {geometry.size} values (padded): every parameter "
                "must get a gradient in each backward pass (see set_reduce_scatter_unused_params), and fully_shard "
                "must be called with one module at a time"
            )
        self._run.exchanger.check_type(values.dtype)
        if geometry in self._exchanged:  # not all modules took part in the last backward pass
            self._end(last=True)
        self._exchanged.add(geometry)
        return len(self._exchanged) == len(self._geometries)

    def _end(self, last: bool) -> None:
        if last:
            self._exchanged.clear()
            self._run.end_step(time.perf_counter())

    def replace_reduce_scatters(self, modules: Sequence[ShardedModule]) -> None:
        """Reduce-scatter the gradients of modules from now on; the state is closed if that fails.

        Raises:
            UnsupportedError: the exchange cannot shard, or torch does not let a reduce-scatter be replaced.
        """
        try:
            self._run.exchanger.check_shards()
            for module, geometry in zip(modules, self._geometries, strict=True):
                replace_reduce_scatter(module, partial(self.reduce_scatter, geometry=geometry))
        except UnsupportedError:
            self.close()
            raise


def all_shards(module: ShardedModule, ranks: int) -> Geometry:
    """Geometry of the shards of all ranks, side by side."""
    lengths = [(name, padded_length(parameter, ranks) // ranks) for name, parameter in module.parameters]
    pieces, offset = [], 0
    for rank in range(ranks):
        for name, length in lengths:
            pieces.append(Piece(name, rank * length, offset, length))
            offset += length
    return Geometry(pieces, offset)


def tensor_sizes(geometries: Sequence[Geometry]) -> dict[str, int]:
    """Number of values by tensor."""
    sizes: dict[str, int] = {}
    for piece in (piece for geometry in geometries for piece in geometry.pieces):
        sizes[piece.tensor] = sizes.get(piece.tensor, 0) + piece.length
    return sizes


def _real(tensor: Tensor) -> Tensor:
    """View complex values as pairs of real ones."""
    return torch.view_as_real(tensor).view(-1) if tensor.is_complex() else tensor
