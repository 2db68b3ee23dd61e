"""Models of FSDP2 (``torch.distributed.fsdp.fully_shard``): which parameters each module manages, and its collectives.

FSDP2 has no communication hook; it lets a module's reduce-scatter be replaced, and calls a hook with each shard of the
gradients after its reduce-scatter. Each ``fully_shard``-ed module hands over the gradients of its own parameters, every
one padded and cut along its first dimension into a shard a rank, the shards of one rank side by side:

    buffer   | shard 0: weight 0, bias 0 | shard 1: weight 1, bias 1 | ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor, Shard

from lightloom.core.errors import UnsupportedError
from lightloom.training.gradients.ddp_hook import real_length

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
        self._reduce = reduce

    def allocate(self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Allocate memory for FSDP's buffers."""
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
    """Modules of ``fully_shard`` that have trainable parameters of their own; the root need not be one of them.

    Raises:
        UnsupportedError: there is none, or torch does not let collectives be replaced.
    """
    modules = [(name, cast(Any, module)) for name, module in model.named_modules() if isinstance(module, FSDPModule)]
    if not modules:
        raise UnsupportedError("the model has no fully_shard-ed module: expected torch.distributed.fsdp.fully_shard")
    if not hasattr(FSDPModule, "set_custom_reduce_scatter"):
        raise UnsupportedError(f"torch {torch.__version__} does not let FSDP2's reduce-scatter be replaced")
    managed = [ShardedModule(name, module, tuple(_own_parameters(module, name))) for name, module in modules]
    return [module for module in managed if module.parameters]


def common_group(modules: Sequence[ShardedModule], hint: str) -> dist.ProcessGroup:
    """Return the process group over which all parameters are sharded; ``hint`` ends the refusal of several dimensions.

    Raises:
        UnsupportedError: they have no common group, or lie on a mesh of several dimensions.
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


def replace_reduce_scatter(module: ShardedModule, reduce: Reduce) -> None:
    """Reduce-scatter the gradients of a module by ``reduce`` from now on.

    Raises:
        UnsupportedError: torch does not let it be replaced.
    """
    try:
        module.module.set_custom_reduce_scatter(ReduceScatter(reduce))
    except ValueError as error:
        raise UnsupportedError(
            f"cannot replace the reduce-scatter of {module.name or 'the model'!r}: {error}"
        ) from error


def plain_reduce_scatter(output: Tensor, gradients: Tensor, group: dist.ProcessGroup) -> None:
    """Average shards over ranks as FSDP2 itself does."""
    # torch 2.13 renamed it.
    reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
    reduce_scatter(output, gradients.div_(group.size()), group=group)


def shard_shape(parameter: nn.Parameter, ranks: int) -> tuple[int, ...]:
    """Shape of a rank's shard, padded; complex values are pairs of real ones."""
    assert isinstance(parameter, DTensor)
    placement = parameter.placements[0]
    assert isinstance(placement, Shard)
    shape = list(parameter.shape) or [1]
    shape[placement.dim] = -(-shape[placement.dim] // ranks)
    return (*shape, 2) if parameter.is_complex() else tuple(shape)


def padded_length(parameter: nn.Parameter, ranks: int) -> int:
    """Number of real values of a parameter whose sharded dimension is padded to a multiple of the number of ranks."""
    assert isinstance(parameter, DTensor)
    placement = parameter.placements[0]
    assert isinstance(placement, Shard)
    rows = parameter.shape[placement.dim] if parameter.ndim else 1
    return real_length(parameter) // max(rows, 1) * -(-rows // ranks) * ranks


def _own_parameters(module: nn.Module, prefix: str) -> Iterator[tuple[str, nn.Parameter]]:
    """Trainable parameters that FSDP manages with ``module``, in its order: children first, without sharded modules."""
    visited: set[nn.Module] = set()
    seen: set[nn.Parameter] = set()

    def walk(inner: nn.Module, path: str) -> Iterator[tuple[str, nn.Parameter]]:
        visited.add(inner)
        for name, child in inner.named_children():
            if child not in visited and not isinstance(child, FSDPModule):
                yield from walk(child, f"{path}{name}.")
        for name, parameter in inner.named_parameters(recurse=False):
            if parameter.requires_grad and parameter not in seen:
                seen.add(parameter)
                yield f"{path}{name}", parameter

    return walk(module, f"{prefix}." if prefix else "")
