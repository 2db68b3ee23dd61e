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

from collections.abc import Callable
from functools import partial
from math import prod

import torch.distributed as dist
from torch import nn

from lightloom.core.errors import UnsupportedError
from lightloom.exchange.distributed.factory import exchanger
from lightloom.exchange.method import ExchangeMethod
from lightloom.exchange.registry import method_of
from lightloom.training.gradients.fsdp import FsdpState, all_shards, tensor_sizes
from lightloom.training.gradients.fsdp_modules import ShardedModule, common_group, shard_shape, sharded_modules
from lightloom.training.gradients.geometry import Geometry
from lightloom.training.gradients.group import OwnGroup
from lightloom.training.gradients.stepwise import Stepwise
from lightloom.training.transport.channel_group import DEFAULT_TIMEOUT

_HINT = "for hybrid sharding, shard over the mesh of a node and pass between= the group of its other dimension"


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
    make = all_shards if between is None else _one_shard
    geometries = [make(module, shards) for module in modules]
    runner = exchanger(chosen, OwnGroup(group, timeout, device=device), tensor_sizes(geometries))
    plain_name = "plain reduce-scatter" if between is None else "plain all-reduce"
    run = Stepwise(runner, group, adaptive=adaptive, loss_scale=loss_scale, plain_name=plain_name)
    state = FsdpState(run, group, geometries, "" if between is None else f"shard{inside.rank()}/")
    try:
        if between is None:
            state.replace_reduce_scatters(modules)
        else:
            for module, geometry in zip(modules, geometries, strict=True):
                module.module.set_all_reduce_hook(partial(state.all_reduce, geometry=geometry))
    except (UnsupportedError, ValueError) as error:
        state.close()
        raise UnsupportedError(f"cannot attach exchange {chosen}: {error}") from error
    return state


def _one_shard(module: ShardedModule, ranks: int) -> Geometry:
    """Geometry of this rank's shard, its parts of parameters as tensors of their own."""
    tensors, offset = [], 0
    for name, parameter in module.parameters:
        shape = shard_shape(parameter, ranks)
        tensors.append((name, offset, shape))
        offset += prod(shape)
    return Geometry.whole(tensors, offset)
