"""INCEPTIONN as the reduce-scatter of FSDP2 (``torch.distributed.fsdp.fully_shard``).

    for layer in net:
        fully_shard(layer)
    fully_shard(net)
    state = attach_inceptionn_fsdp(net)

Gathering parameters stays torch's: weights are not gradients, they do not compress.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from lightloom.compression import Inceptionn
from lightloom.compression.base import Codec
from lightloom.core.errors import UnsupportedError
from lightloom.training.hooks.adaptive import AdaptiveCompression, divided, joined
from lightloom.training.hooks.bucket_layout import BucketLayout, Span
from lightloom.training.hooks.ddp_hook import check_fits_float32, fits_float32
from lightloom.training.hooks.error_feedback import ErrorFeedback
from lightloom.training.hooks.fsdp_modules import (
    ShardedModule,
    common_group,
    padded_length,
    plain_reduce_scatter,
    replace_reduce_scatter,
    sharded_modules,
)
from lightloom.training.hooks.state_dict import StateDict
from lightloom.training.hooks.statistics import Statistics
from lightloom.training.transport.channel_group import DEFAULT_TIMEOUT
from lightloom.training.transport.payload import Traffic
from lightloom.training.transport.rendezvous import ring_from_store
from lightloom.training.transport.ring_all_reduce import ring_all_reduce, ring_reduce_scatter


class InceptionnFsdpState:
    """State of a model's reduce-scatters; a ``Stateful`` whose checkpoint is this rank's residuals and last decision.

    Residuals belong to complete parameters, padded as FSDP pads them, as each rank has gradients of all values.
    """

    def __init__(
        self,
        codec: Codec | None,
        group: dist.ProcessGroup,
        layouts: Sequence[BucketLayout],
        *,
        error_feedback: bool = True,
        adaptive: bool = True,
        tag_histogram: bool = False,
        loss_scale: Callable[[], float] | None = None,
        host: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        """Connect to the neighbours, as ``attach_inceptionn_fsdp`` does; options are those of ``InceptionnState``."""
        self.codec = codec
        self.ranks = group.size()
        self.rank = group.rank()
        self.statistics = Statistics.of(codec, tag_histogram=tag_histogram)
        self.error_feedback: ErrorFeedback | None = None
        if error_feedback and codec is not None:
            sizes = {span.name: span.length for layout in layouts for span in layout.spans}
            self.error_feedback = ErrorFeedback(self.rank, self.ranks, sizes)
        self._group = group
        self._modules = len(layouts)
        self._exchanged: set[BucketLayout] = set()
        self._loss_scale = loss_scale
        self._ring = None
        self.adaptive: AdaptiveCompression | None = None
        if self.ranks > 1:
            self._ring = ring_from_store(
                group.get_group_store(), self.rank, self.ranks, name="fsdp", host=host, timeout=timeout
            )
            if adaptive and codec is not None:
                self.adaptive = AdaptiveCompression(
                    self._mean_over_ranks, log=self.rank == 0, plain_name="plain reduce-scatter"
                )
                self.statistics.decisions = self.adaptive.decisions

    def reduce_scatter(self, output: Tensor, gradients: Tensor, layout: BucketLayout) -> None:
        """Put this rank's shard of the sum over ranks of ``gradients`` (all shards, side by side) into ``output``."""
        arrived = time.perf_counter()
        output, gradients = _real(output), _real(gradients.detach())
        if gradients.numel() != sum(layout.sizes):
            names = ", ".join(span.name for span in layout.spans)
            raise UnsupportedError(
                f"{gradients.numel()} gradients for {names}, which have {sum(layout.sizes)} values (padded): every "
                "parameter must get a gradient in each backward pass (see set_reduce_scatter_unused_params), and "
                "fully_shard must be called with one module at a time"
            )
        if self.codec is not None:
            check_fits_float32(gradients.dtype, f"the codec {self.codec.name}")
        self._exchanged.add(layout)
        last = len(self._exchanged) == self._modules
        scale = 1.0 if self._loss_scale is None else float(self._loss_scale())
        if not fits_float32(gradients.dtype) or (self.adaptive is not None and self.adaptive.use_plain):
            self._exchange_plain(output, gradients, layout, scale)
            self.statistics.add_plain(last=last)
        else:
            traffic = self._exchange(output, gradients, layout, scale)
            self.statistics.add_exchange(traffic, time.perf_counter() - arrived, last=last)
        if last:
            self._exchanged.clear()
            if self.adaptive is not None:
                self.adaptive.end_step(arrived)

    def _exchange_plain(self, output: Tensor, gradients: Tensor, layout: BucketLayout, scale: float) -> None:
        """Reduce-scatter as FSDP2 itself does; the first time, residuals are added, so that none is lost."""
        residuals = self.error_feedback.drain(layout) if self.error_feedback is not None else None
        if residuals is not None:
            blocks = layout.blocks()
            layout.gather(residuals, blocks)
            for shard, block in zip(gradients.view(self.ranks, -1), blocks, strict=True):
                shard += torch.from_numpy(block).mul_(scale).to(shard.dtype)
        plain_reduce_scatter(output, gradients, self._group)

    def _exchange(self, output: Tensor, gradients: Tensor, layout: BucketLayout, scale: float) -> Traffic:
        """Reduce-scatter around the ring."""
        flat = gradients.to(torch.float32)
        if scale != 1.0:
            flat = flat / scale
        shards = list(flat.view(self.ranks, -1).numpy())
        assert self._ring is not None
        if self.error_feedback is None:
            traffic = ring_reduce_scatter(self._ring, shards, self.codec, observe=self.statistics.observer)
            output.copy_(torch.from_numpy(shards[self.rank]).mul_(scale))
        else:
            blocks = self.error_feedback.blocks(layout)
            for block, shard in zip(blocks, shards, strict=True):
                block += shard
            traffic = ring_reduce_scatter(self._ring, blocks, self.codec, leave=True, observe=self.statistics.observer)
            output.copy_(torch.from_numpy(blocks[self.rank]).mul_(scale))
            blocks[self.rank][:] = 0  # the owner encodes nothing of its own shard
        return traffic

    def _mean_over_ranks(self, numbers: list[float]) -> list[float]:
        assert self._ring is not None
        total, _ = ring_all_reduce(self._ring, np.array(numbers, np.float32) / np.float32(self.ranks))
        return [float(value) for value in total]

    def close(self) -> None:
        """Leave the ring. May be called any number of times."""
        if self._ring is not None:
            self._ring.close()

    def state_dict(self) -> StateDict:
        """Return the residuals of this rank and the state of the adaptive choice."""
        return joined(self.error_feedback.state_dict() if self.error_feedback is not None else {}, self.adaptive)

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Continue from a checkpoint of this rank.

        Raises:
            ConfigError: it is of another rank, number of ranks or model.
        """
        residuals = divided(state_dict, self.adaptive)
        if self.error_feedback is not None:
            self.error_feedback.load_state_dict(residuals)


def _real(tensor: Tensor) -> Tensor:
    """View complex values as pairs of real ones."""
    return torch.view_as_real(tensor).view(-1) if tensor.is_complex() else tensor


def attach_inceptionn_fsdp(model: nn.Module, codec: Codec | None = None, **options: Any) -> InceptionnFsdpState:
    """Reduce-scatter the gradients of a model compressed from now on; all ranks call this, after ``fully_shard``.

    Args:
        model: sharded over one dimension of a mesh, in CPU memory; its root need not be sharded itself.
        codec: codec of the gradients; ``Inceptionn(bound=2**-10)`` by default.
        options: options of ``InceptionnFsdpState``.

    Raises:
        UnsupportedError: the model does not use FSDP2, or torch does not let its reduce-scatter be replaced.
        TransportError: a rank did not connect in time.
    """
    modules = sharded_modules(model)
    group = common_group(modules, "lightloom.exchange.attach_fsdp compresses between the nodes of hybrid sharding")
    for name, parameter in (pair for module in modules for pair in module.parameters):
        if parameter.device.type != "cpu":
            raise UnsupportedError(f"{name} is on {parameter.device}: expected cpu")
    layouts = [_layout(module, group.size()) for module in modules]
    state = InceptionnFsdpState(codec or Inceptionn(), group, layouts, **options)
    try:
        for module, layout in zip(modules, layouts, strict=True):
            replace_reduce_scatter(module, partial(state.reduce_scatter, layout=layout))
    except UnsupportedError:
        state.close()
        raise
    return state


def _layout(module: ShardedModule, ranks: int) -> BucketLayout:
    """Layout of parameters whose sharded dimension is padded to a multiple of the number of ranks."""
    spans, offset = [], 0
    for name, parameter in module.parameters:
        spans.append(Span(name, offset, padded_length(parameter, ranks)))
        offset += spans[-1].length
    return BucketLayout(spans, ranks, size=offset)
