"""Any method in FSDP2 (``torch.distributed.fsdp.fully_shard``), sharded over all ranks or inside nodes only.

    for layer in net:
        fully_shard(layer, mesh=mesh)
    fully_shard(net, mesh=mesh)
    state = exchange.attach_fsdp(net, "int4:block=128,feedback")

One dimension: the method is the reduce-scatter of gradients. Hybrid sharding: ``mesh`` is a node's dimension of a
larger mesh, ``between`` is its other one. Gradients are then reduce-scattered in float inside a node, as FSDP2 does,
and each shard is averaged between nodes by the method:

    mesh = init_device_mesh("cuda", (nodes, 8), mesh_dim_names=("between", "inside"))
    fully_shard(net, mesh=mesh["inside"])
    state = exchange.attach_fsdp(net, method, between=mesh.get_group("between"))

FSDP2's own hybrid sharding, on a mesh of two dimensions, has an all-reduce that torch does not let be replaced.
Gathering parameters stays torch's. Nodes must start from equal weights.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from math import prod

import torch
import torch.distributed as dist
from torch import Tensor, nn

from lightloom.core.errors import UnsupportedError
from lightloom.exchange.distributed.factory import exchanger
from lightloom.exchange.distributed.geometry import Geometry, Piece
from lightloom.exchange.distributed.group import OwnGroup
from lightloom.exchange.distributed.stepwise import Stepwise
from lightloom.exchange.method import ExchangeMethod
from lightloom.exchange.registry import method_of
from lightloom.training.hooks.fsdp_modules import (
    ShardedModule,
    common_group,
    padded_length,
    plain_reduce_scatter,
    replace_reduce_scatter,
    shard_shape,
    sharded_modules,
)
from lightloom.training.hooks.state_dict import SavedState, StateDict, with_prefix, without_prefix
from lightloom.training.transport.channel_group import DEFAULT_TIMEOUT

_HINT = "for hybrid sharding, shard over the mesh of a node and pass between= the group of its other dimension"


class FsdpState:
    """State of the exchanges of a model's gradients on one rank; a ``Stateful`` for checkpoints.

    Residuals belong to complete parameters, padded as FSDP pads them, or to this rank's shards in hybrid sharding.
    """

    def __init__(self, run: Stepwise, group: dist.ProcessGroup, geometries: list[Geometry], prefix: str) -> None:
        """``attach_fsdp`` makes it: ``group`` is what the method runs over, ``prefix`` what keys of checkpoints begin
        with."""
        self.statistics = run.statistics
        self.adaptive = run.adaptive
        self._run, self._group, self._prefix = run, group, prefix
        self._geometries = geometries
        self._exchanged: set[Geometry] = set()

    def reduce_scatter(self, output: Tensor, gradients: Tensor, *, geometry: Geometry) -> None:
        """Put this rank's shard of the sum over ranks of ``gradients`` (all shards, side by side) into ``output``.

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
        if values.dtype == torch.float64 and not self._run.exchanger.any_type:
            raise UnsupportedError(
                f"gradients are {values.dtype}, and exchange {self._run.exchanger.method} works in float32: expected "
                "MixedPrecisionPolicy(reduce_dtype=torch.float32), or the exchange 'float32'"
            )
        if geometry in self._exchanged:  # not all modules took part in the last backward pass
            self._end(last=True)
        self._exchanged.add(geometry)
        return len(self._exchanged) == len(self._geometries)

    def _end(self, last: bool) -> None:
        if last:
            self._exchanged.clear()
            self._run.end_step(time.perf_counter())


def attach_fsdp(
    model: nn.Module,
    method: ExchangeMethod | str,
    *,
    between: dist.ProcessGroup | None = None,
    adaptive: bool = True,
    loss_scale: Callable[[], float] | None = None,
    timeout: float = DEFAULT_TIMEOUT,
) -> FsdpState:
    """Exchange the gradients of a sharded model by ``method`` from now on; all ranks call this, after ``fully_shard``.

    Args:
        model: sharded over one dimension of a mesh; its root need not be sharded itself.
        method: the method or its name.
        between: hybrid sharding: the ranks of other nodes that have the same shards as this one.
        adaptive: use torch's own collective while it is faster. Timing then decides which steps lose bits: turn it off
            for runs that must repeat bit for bit.
        loss_scale: ``scaler.get_scale`` of a ``GradScaler``: gradients are divided by it for the exchange.
        timeout: time without progress after which an exchange fails, in seconds.

    Raises:
        ConfigError: the method's name cannot be read.
        UnsupportedError: the model does not use FSDP2, torch does not let its collectives be replaced, or the method
            cannot reduce-scatter.
        TransportError: a rank did not connect in time.
    """
    chosen = method_of(method)
    modules = sharded_modules(model)
    inside = common_group(modules, _HINT)
    group, shards = (inside, inside.size()) if between is None else (between, inside.size())
    device = modules[0].parameters[0][1].device.type
    make = _all_shards if between is None else _one_shard
    geometries = [make(module, shards) for module in modules]
    sizes = {piece.tensor: 0 for geometry in geometries for piece in geometry.pieces}
    for piece in (piece for geometry in geometries for piece in geometry.pieces):
        sizes[piece.tensor] += piece.length
    runner = exchanger(chosen, OwnGroup(group, timeout, device=device), sizes)
    plain_name = "plain reduce-scatter" if between is None else "plain all-reduce"
    run = Stepwise(runner, group, adaptive=adaptive, loss_scale=loss_scale, plain_name=plain_name)
    state = FsdpState(run, group, geometries, "" if between is None else f"shard{inside.rank()}/")
    try:
        if between is None:
            runner.check_shards()
        for module, geometry in zip(modules, geometries, strict=True):
            if between is None:
                replace_reduce_scatter(module, partial(state.reduce_scatter, geometry=geometry))
            else:
                module.module.set_all_reduce_hook(partial(state.all_reduce, geometry=geometry))
    except (UnsupportedError, ValueError) as error:
        state.close()
        raise UnsupportedError(f"cannot attach exchange {chosen}: {error}") from error
    return state


def _all_shards(module: ShardedModule, ranks: int) -> Geometry:
    """Geometry of the shards of all ranks, side by side."""
    lengths = [(name, padded_length(parameter, ranks) // ranks) for name, parameter in module.parameters]
    pieces, offset = [], 0
    for rank in range(ranks):
        for name, length in lengths:
            pieces.append(Piece(name, rank * length, offset, length))
            offset += length
    return Geometry(pieces, offset)


def _one_shard(module: ShardedModule, ranks: int) -> Geometry:
    """Geometry of this rank's shard, its parts of parameters as tensors of their own."""
    tensors, offset = [], 0
    for name, parameter in module.parameters:
        shape = shard_shape(parameter, ranks)
        tensors.append((name, offset, shape))
        offset += prod(shape)
    return Geometry.whole(tensors, offset)


def _real(tensor: Tensor) -> Tensor:
    """View complex values as pairs of real ones."""
    return torch.view_as_real(tensor).view(-1) if tensor.is_complex() else tensor
