"""Any exchange in FSDP2: in the place of a module's reduce-scatter, or between the nodes of hybrid sharding."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor, Shard

from lightloom.core.errors import UnsupportedError
from lightloom.exchange.distributed.adaptive import Counts
from lightloom.exchange.distributed.exchanger import Exchanger, Stepwise
from lightloom.exchange.distributed.factory import exchanger
from lightloom.exchange.distributed.group import OwnGroup
from lightloom.exchange.distributed.residuals import Geometry, Piece
from lightloom.exchange.method import ExchangeMethod
from lightloom.exchange.methods import method_of
from lightloom.exchange.transport.channel_group import DEFAULT_TIMEOUT
from lightloom.exchange.transport.gloo import reduce_scatter

# Models of FSDP2 (``torch.distributed.fsdp.fully_shard``): which parameters each module manages, and its collectives.
#
# FSDP2 has no communication hook; it lets a module's reduce-scatter be replaced, and calls a hook with each shard of
# the gradients after its reduce-scatter. Each ``fully_shard``-ed module hands over the gradients of its own
# parameters, every one padded and cut along its first dimension into a shard a rank, the shards of one rank side by
# side:
#
# buffer   | shard 0: weight 0, bias 0 | shard 1: weight 1, bias 1 | ...

Reduce = Callable[[Tensor, Tensor], None]
"""Puts this rank's shard of the mean over ranks into its first argument; the second has all shards, side by side."""


@dataclass(frozen=True, slots=True)
class ShardedModule:
    """A module of ``fully_shard`` and the trainable parameters that it manages, in FSDP's order."""

    name: str
    module: Any
    parameters: tuple[tuple[str, nn.Parameter], ...]


class ReduceScatter:
    """The reduce-scatter of one module, with the two methods of FSDP2's protocol."""

    def __init__(self, reduce: Reduce) -> None:
        """Keep the function that puts this rank's shard of the mean over ranks into its first argument."""
        self._reduce = reduce

    def allocate(self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Return a new, uninitialised tensor of this size and type on a device; FSDP2 takes its buffers from here."""
        return torch.empty(size, dtype=dtype, device=device)

    def __call__(
        self, output_tensor: Tensor, input_tensor: Tensor, group: dist.ProcessGroup, op: Any, async_op: bool = False
    ) -> None:
        """Sum or average the shards of ``input_tensor`` over ranks, and put this rank's into ``output_tensor``.

        Raises:
            UnsupportedError: the operation is not a sum or an average.
            TransportError: connections broke.
        """
        if op not in (dist.ReduceOp.SUM, dist.ReduceOp.AVG):
            raise UnsupportedError(f"reduction {op}: hooks can sum and average (leave the gradient divide factor)")
        self._reduce(output_tensor, input_tensor)
        if op == dist.ReduceOp.SUM:
            output_tensor.mul_(group.size())


def sharded_modules(model: nn.Module) -> list[ShardedModule]:
    """Return the modules of ``fully_shard`` that have trainable parameters of their own, in the model's order, each
    with its name and (name in the model, parameter) of these, children's before their parents'; the root need not be
    one of the modules.

    Raises:
        UnsupportedError: the model has no module of ``fully_shard``, or torch does not let collectives be replaced.
    """
    modules = [(name, cast(Any, module)) for name, module in model.named_modules() if isinstance(module, FSDPModule)]
    if not modules:
        raise UnsupportedError("the model has no fully_shard-ed module: expected torch.distributed.fsdp.fully_shard")
    if not hasattr(FSDPModule, "set_custom_reduce_scatter"):
        raise UnsupportedError(f"torch {torch.__version__} does not let FSDP2's reduce-scatter be replaced: 2.9 does")
    managed = [ShardedModule(name, module, tuple(_own_parameters(module, name))) for name, module in modules]
    return [module for module in managed if module.parameters]


def common_group(modules: Sequence[ShardedModule], hint: str) -> dist.ProcessGroup:
    """Return the process group over which the parameters of all modules are sharded.

    Args:
        modules: modules with their parameters by name.
        hint: what to do instead, for the end of the message where a parameter is not sharded, or lies on a mesh of
            several dimensions.

    Raises:
        UnsupportedError: parameters are no DTensors, have no common group, are not sharded, or lie on a mesh of several
            dimensions.
    """
    groups = set()
    for name, parameter in (pair for module in modules for pair in module.parameters):
        if not isinstance(parameter, DTensor):
            raise UnsupportedError(f"{name} is not a DTensor: expected a model of fully_shard")
        mesh, placements = parameter.device_mesh, parameter.placements
        if mesh.ndim != 1 or not isinstance(placements[0], Shard):
            raise UnsupportedError(
                f"{name} lies on a mesh of {mesh.ndim} dimensions as {placements}: expected one dimension, sharded "
                f"({hint})"
            )
        groups.add(mesh.get_group())
    if len(groups) != 1:
        raise UnsupportedError(f"the parameters lie on {len(groups)} process groups: expected one")
    return groups.pop()


def shard_shape(parameter: nn.Parameter, ranks: int) -> tuple[int, ...]:
    """Return the shape of one rank's shard of a parameter that is sharded over ``ranks`` ranks, the dimension it is
    sharded along divided by ``ranks`` and rounded up, as FSDP2 pads it; complex values are pairs of real ones, in a
    last dimension of 2."""
    assert isinstance(parameter, DTensor)
    placement = parameter.placements[0]
    assert isinstance(placement, Shard)
    shape = list(parameter.shape) or [1]
    shape[placement.dim] = -(-shape[placement.dim] // ranks)
    return (*shape, 2) if parameter.is_complex() else tuple(shape)


def _own_parameters(module: nn.Module, prefix: str) -> Iterator[tuple[str, nn.Parameter]]:
    """Yield (name, parameter) of the trainable parameters that FSDP manages with ``module``, each once, in FSDP's
    order: children before their parents. Those of inner ``fully_shard``-ed modules are left out; names begin with
    ``prefix`` and a dot, or are those within ``module`` where it is empty."""
    visited: set[nn.Module] = set()
    seen: set[nn.Parameter] = set()

    def walk(inner: nn.Module, path: str) -> Iterator[tuple[str, nn.Parameter]]:
        """Yield the parameters of a module's children, then its own; ``path`` is what their names begin with."""
        visited.add(inner)
        for name, child in inner.named_children():
            if child not in visited and not isinstance(child, FSDPModule):
                yield from walk(child, f"{path}{name}.")
        for name, parameter in inner.named_parameters(recurse=False):
            if parameter.requires_grad and parameter not in seen:
                seen.add(parameter)
                yield f"{path}{name}", parameter

    return walk(module, f"{prefix}." if prefix else "")


class FsdpState(Stepwise):
    """State of the exchanges of a model's gradients on one rank; a ``Stateful`` for checkpoints.

    Residuals belong to complete parameters, padded as FSDP pads them, or to this rank's shards in hybrid sharding.
    """

    def __init__(self, exchanger: Exchanger, geometries: Sequence[Geometry], **options: Any) -> None:
        """Keep the geometries of the gradients of each module; ``options`` are those of ``Stepwise``."""
        super().__init__(exchanger, **options)
        self._geometries = geometries
        self._exchanged: set[Geometry] = set()

    def reduce_scatter(self, output: Tensor, gradients: Tensor, *, geometry: Geometry) -> None:
        """Put this rank's shard of the mean over ranks of a module's gradients into ``output``, by the method, or by
        torch's own reduce-scatter in steps of the plain exchange; once the gradients of all modules have come, the step
        ends.

        Args:
            output: this rank's shard, flat; overwritten.
            gradients: shards of all ranks, side by side by rank, flat; may be overwritten.
            geometry: tensors in ``gradients``, one of those given to this state.

        Raises:
            UnsupportedError: the gradients are not those of all parameters of the module, or wider than float32 where
                the method works in float32.
            TransportError: a rank left, fell silent or exchanges something else.
        """
        output, gradients = _real(output), _real(gradients.detach())
        last = self._begin(gradients, geometry)
        ranks = self._group.size()
        if self._plain(gradients, geometry, last=last):
            # As FSDP2 itself does.
            reduce_scatter(output, gradients.div_(ranks), group=self._group)
        else:
            scale = self._scale
            values = gradients if self._exchanger.any_type else gradients.to(torch.float32)
            values = values / scale if scale != 1.0 else values
            total = values.new_empty(geometry.size // ranks)
            with self._counted(geometry, last=last, halves=1):
                self._exchanger.reduce_scatter(values, geometry, total)
            output.copy_(total.mul_(scale) if scale != 1.0 else total)
        self._end(last)

    def all_reduce(self, shard: Tensor, *, geometry: Geometry) -> None:
        """Replace this rank's shard of a module's gradients by its mean over nodes (the ranks of the exchange, which
        hold the same shard), in place, by the method, or by torch's own all-reduce in steps of the plain exchange; once
        the shards of all modules have come, the step ends.

        Args:
            shard: the gradients, flat.
            geometry: tensors in ``shard``, one of those given to this state.

        Raises:
            UnsupportedError: the gradients are not those of all parameters of the module, or wider than float32 where
                the method works in float32.
            AgreedError: all ranks refuse the values together, as optical averaging does NaN.
            TransportError: a rank left, fell silent or exchanges something else.
        """
        values = _real(shard.detach())
        last = self._begin(values, geometry)
        if self._plain(values, geometry, last=last):
            dist.all_reduce(values.div_(self._group.size()), group=self._group)
        else:
            with self._counted(geometry, last=last):
                self._exchanger.average_tensor(values, geometry, self._scale)
        self._end(last)

    def _begin(self, values: Tensor, geometry: Geometry) -> bool:
        """Check the number and type of a module's gradients, ``values``, flat, with the tensors of ``geometry``, one of
        those given to this state; return whether they are the last of a step, which they are once those of all modules
        have come. Gradients of a module that has had its turn in this step end it first.

        Raises:
            UnsupportedError: the gradients are not those of all parameters of the module, or of a type that the
                exchange refuses.
        """
        if values.numel() != geometry.size:
            names = ", ".join(dict.fromkeys(piece.tensor for piece in geometry.pieces))
            raise UnsupportedError(
                f"{values.numel()} gradients for {names}, which have {geometry.size} values (padded): every parameter "
                "must get a gradient in each backward pass (see set_reduce_scatter_unused_params), and fully_shard "
                "must be called with one module at a time"
            )
        self._exchanger.check_type(values.dtype)
        if geometry in self._exchanged:  # not all modules took part in the last backward pass
            self.statistics.plain_steps += self.adaptive is not None and self.adaptive.use_plain
            self.statistics.add(Counts(), last=True)
            self._end(last=True)
        self._exchanged.add(geometry)
        return len(self._exchanged) == len(self._geometries)

    def _end(self, last: bool) -> None:
        """End the step if ``last``, that is if these were its last gradients: the next gradients begin another, whose
        kind of exchange is chosen here where that is adaptive."""
        if last:
            self._exchanged.clear()
            self._end_step(time.perf_counter())

    def replace_reduce_scatters(self, modules: Sequence[ShardedModule]) -> None:
        """Let this state reduce-scatter the gradients of modules from now on; the state is closed if that fails.

        Args:
            modules: modules, in the order of the geometries of this state.

        Raises:
            UnsupportedError: the exchange cannot shard, or torch does not let a reduce-scatter be replaced.
        """
        try:
            self._exchanger.check_shards()
            for module, geometry in zip(modules, self._geometries, strict=True):
                reduce = ReduceScatter(partial(self.reduce_scatter, geometry=geometry))
                try:
                    module.module.set_custom_reduce_scatter(reduce)
                except ValueError as error:
                    name = module.name or "the model"
                    raise UnsupportedError(f"cannot replace the reduce-scatter of {name!r}: {error}") from error
        except UnsupportedError:
            self.close()
            raise


def all_shards(module: ShardedModule, ranks: int) -> Geometry:
    """Return the geometry of a module's gradients in the buffer of a reduce-scatter over ``ranks`` ranks: the padded
    shards of rank 0 of all parameters, then those of rank 1, and so on, each a piece of the padded parameter of its
    name."""
    lengths = [(name, prod(shard_shape(parameter, ranks))) for name, parameter in module.parameters]
    pieces, offset = [], 0
    for rank in range(ranks):
        for name, length in lengths:
            pieces.append(Piece(name, rank * length, offset, length))
            offset += length
    return Geometry(pieces, offset)


def tensor_sizes(geometries: Sequence[Geometry]) -> dict[str, int]:
    """Return the number of values of each tensor, by name, added up over its pieces in all geometries, padding
    included."""
    sizes = Counter[str]()
    for piece in (piece for geometry in geometries for piece in geometry.pieces):
        sizes[piece.tensor] += piece.length
    return sizes


def _real(tensor: Tensor) -> Tensor:
    """Return a complex tensor as a flat view of pairs of real values; a real tensor as it is."""
    return torch.view_as_real(tensor).view(-1) if tensor.is_complex() else tensor


# Any method in FSDP2 (``torch.distributed.fsdp.fully_shard``), sharded over all ranks or inside nodes only.
#
# for layer in net:
# fully_shard(layer, mesh=mesh)
# fully_shard(net, mesh=mesh)
# state = exchange.attach_fsdp(net, "int4:block=128,feedback")
#
# One dimension: the method is the reduce-scatter of gradients. Hybrid sharding: ``mesh`` is a node's dimension of a
# larger mesh, ``between`` is its other one. Gradients are then reduce-scattered in float inside a node, as FSDP2
# does, and each shard is averaged between nodes by the method:
#
# mesh = init_device_mesh("cuda", (nodes, 8), mesh_dim_names=("between", "inside"))
# fully_shard(net, mesh=mesh["inside"])
# state = exchange.attach_fsdp(net, method, between=mesh.get_group("between"))
#
# FSDP2's own hybrid sharding, on a mesh of two dimensions, has an all-reduce that torch does not let be replaced.
# Gathering parameters stays torch's. Nodes must start from equal weights.

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
    """Exchange the gradients of a sharded model by ``method`` from now on and return the state; all ranks call this,
    after ``fully_shard``.

    Args:
        model: sharded over one dimension of a mesh; its root need not be sharded itself.
        method: the method or its name.
        between: hybrid sharding: the group of this rank and the ranks of other nodes that have the same shards, over
            which the method averages shards after torch's own reduce-scatter. Without it the method replaces the
            reduce-scatter over all ranks.
        adaptive: use torch's own collective while it is faster. Timing then decides which steps lose bits: turn it off
            for runs that must repeat bit for bit.
        loss_scale: ``scaler.get_scale`` of a ``GradScaler``: gradients are divided by it for the exchange, and
            multiplied again; None for 1.
        timeout: time without progress after which an exchange fails, in seconds; 300 by default.

    Raises:
        ConfigError, UnknownNameError: the method's name cannot be read, or the number of ranks is no multiple of its
            ranks a node (methods of two levels).
        UnsupportedError: the model does not use FSDP2, is sharded over several dimensions of a mesh, torch does not let
            its collectives be replaced, or the method cannot reduce-scatter (without ``between``).
        TransportError: a rank did not connect in time.
    """
    chosen = method_of(method)
    modules = sharded_modules(model)
    inside = common_group(modules, _HINT)
    group, shards = (inside, inside.size()) if between is None else (between, inside.size())
    device = modules[0].parameters[0][1].device.type
    if between is None:
        geometries = [all_shards(module, shards) for module in modules]
    else:  # the parts of parameters in this rank's shard are tensors of their own
        geometries = [
            Geometry.joined([(name, shard_shape(parameter, shards)) for name, parameter in module.parameters])
            for module in modules
        ]
    runner = exchanger(chosen, OwnGroup(group, timeout, device=device), tensor_sizes(geometries))
    plain_name = "plain reduce-scatter" if between is None else "plain all-reduce"
    prefix = "" if between is None else f"shard{inside.rank()}/"
    options = {"adaptive": adaptive, "loss_scale": loss_scale, "plain_name": plain_name, "prefix": prefix}
    state = FsdpState(runner, geometries, **options)
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
