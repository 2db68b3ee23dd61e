"""INCEPTIONN as a communication hook of ``DistributedDataParallel``.

    model = DistributedDataParallel(net)
    state = attach_inceptionn(model)                       # before the first backward pass
    ...
    print(state.statistics)

DDP calls its hook with the gradients of this rank and takes what it returns: here the average over ranks, the same bits
on all of them. Where plain all-reduce is faster the hook uses it (``training.hooks.adaptive``) and does what DDP does
without a hook.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from lightloom.compression import Inceptionn
from lightloom.compression.base import Codec
from lightloom.core.arrays import Float32s
from lightloom.training.hooks.adaptive import AdaptiveCompression, divided, joined
from lightloom.training.hooks.bucket_layout import BucketLayout
from lightloom.training.hooks.ddp_hook import (
    DdpHookState,
    attach,
    check_fits_float32,
    consecutive_spans,
    dense_buffer,
    fits_float32,
    real_length,
)
from lightloom.training.hooks.error_feedback import ErrorFeedback
from lightloom.training.hooks.state_dict import StateDict
from lightloom.training.hooks.statistics import Statistics
from lightloom.training.transport.channel_group import DEFAULT_TIMEOUT
from lightloom.training.transport.payload import Traffic, encode
from lightloom.training.transport.process_group import group_or_default
from lightloom.training.transport.rendezvous import ring_from_store
from lightloom.training.transport.ring_all_reduce import all_gather, reduce_scatter, ring_all_reduce

if TYPE_CHECKING:
    from torch._C._distributed_c10d import GradBucket


class InceptionnState(DdpHookState):
    """State of the hook of one rank; a ``Stateful`` whose checkpoint is the rank's residuals and the last decision.

    Creating it connects the ring, so all ranks of the group must create theirs, in the same order.
    """

    def __init__(
        self,
        codec: Codec | None,
        process_group: dist.ProcessGroup | None = None,
        *,
        error_feedback: bool = True,
        adaptive: bool = True,
        tag_histogram: bool = False,
        parameters: Iterable[tuple[str, Tensor]] | None = None,
        loss_scale: Callable[[], float] | None = None,
        host: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        """Connect to the neighbours.

        Args:
            codec: codec of the gradients, which must fit float32; None exchanges them as they are.
            process_group: the process group of the model; the default group unless given.
            error_feedback: add the error of each encoding to the next gradient.
            adaptive: use plain all-reduce while it is faster. Timing then decides which steps lose bits: turn it off
                for runs that must repeat bit for bit.
            tag_histogram: count the values by size in ``statistics.tags`` (INCEPTIONN's codecs only).
            parameters: ``net.named_parameters()``, the names in checkpoints. Otherwise parameters are numbered in the
                order in which DDP first passes them, which depends on the model and on bucket sizes.
            loss_scale: ``scaler.get_scale`` of a ``GradScaler``: gradients are divided by it for the exchange, as
                scaled ones would be too large to compress.
            host: address of this rank, IPv4 or IPv6; None takes the one from which it reaches the store.
            timeout: time without progress after which an exchange fails, in seconds.

        Raises:
            TransportError: a rank did not connect in time, or cannot be reached.
            ConfigError: ``tag_histogram`` with a codec that has no tags.
        """
        group = group_or_default(process_group)
        super().__init__("ring")
        self.codec = codec
        self.statistics = Statistics.of(codec, tag_histogram=tag_histogram)
        self.ranks = group.size()
        self._group = group
        self._loss_scale = loss_scale
        named = list(parameters) if parameters is not None else None
        self._names: dict[int, tuple[str, Tensor]] = {id(p): (n, p) for n, p in named or ()}
        self._layouts: dict[tuple[int, ...], BucketLayout] = {}
        self._scratch: dict[BucketLayout, list[Float32s]] = {}
        self.error_feedback: ErrorFeedback | None = None
        if error_feedback and codec is not None:
            sizes = {n: real_length(p) for n, p in named if p.requires_grad} if named is not None else None
            self.error_feedback = ErrorFeedback(group.rank(), self.ranks, sizes)
        self._ring = None
        self.adaptive: AdaptiveCompression | None = None
        if self.ranks > 1:
            self._ring = ring_from_store(
                group.get_group_store(), group.rank(), self.ranks, name="ddp", host=host, timeout=timeout
            )
            if adaptive and codec is not None:
                self.adaptive = AdaptiveCompression(self._mean_over_ranks, log=group.rank() == 0)
                self.statistics.decisions = self.adaptive.decisions

    def average(self, bucket: GradBucket) -> Future[Tensor]:
        buffer, last, arrived = dense_buffer(bucket), bucket.is_last(), time.perf_counter()
        scale = 1.0 if self._loss_scale is None else float(self._loss_scale())
        layout = self._layout(bucket)
        if self.codec is not None:
            check_fits_float32(buffer.dtype, f"the codec {self.codec.name}")
        as_it_is = not fits_float32(buffer.dtype) or (self.adaptive is not None and self.adaptive.use_plain)
        if as_it_is:
            future = self._average_plain(buffer, layout, scale, last)
        else:
            future = self._start(last, self._exchange, buffer, layout, scale, last)
        if self.adaptive is not None and last:
            self.adaptive.end_step(arrived)
        return future

    def close(self) -> None:
        """Leave the ring and stop the thread. May be called any number of times."""
        if self._ring is not None:
            self._ring.close()
        super().close()

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

    def _average_plain(self, buffer: Tensor, layout: BucketLayout, scale: float, last: bool) -> Future[Tensor]:
        """Average as DDP itself does; the first time, residuals are added to the gradients, so that none is lost."""
        residuals = self.error_feedback.drain(layout) if self.error_feedback is not None else None
        if residuals is not None:
            buffer[: residuals.size] += torch.from_numpy(residuals).mul_(scale).to(buffer.dtype)
        self.statistics.add_plain(last=last)
        work = dist.all_reduce(buffer.div_(self.ranks), group=self._group, async_op=True)
        future: Future[list[Tensor]] = work.get_future()
        return future.then(lambda done: done.value()[0])

    def _exchange(self, buffer: Tensor, layout: BucketLayout, scale: float, last: bool) -> Tensor:
        """Replace a bucket by its average over ranks, in the hook's thread."""
        began = time.perf_counter()
        with torch.no_grad():
            direct = buffer.dtype == torch.float32 and scale == 1.0
            values = buffer.detach() if direct else buffer.detach().to(torch.float32, copy=True).div_(scale)
            traffic = self._average_values(values.numpy(), layout, scale / self.ranks)
            if not direct:
                buffer.copy_(values)
        self.statistics.add_exchange(traffic, time.perf_counter() - began, last=last)
        return buffer

    def _average_values(self, flat: Float32s, layout: BucketLayout, factor: float) -> Traffic:
        """Replace ``flat`` by ``factor`` times its sum over ranks."""
        ring = self._ring
        if ring is None:
            flat *= np.float32(factor)
            return Traffic(0, 0)
        leave = self.error_feedback is not None
        with ring.breaking_off():
            if self.error_feedback is not None:
                blocks = self.error_feedback.blocks(layout)
                layout.add(flat, blocks)
            else:
                if layout not in self._scratch:
                    self._scratch[layout] = layout.blocks()
                blocks = self._scratch[layout]
                layout.gather(flat, blocks)
            observe = self.statistics.observer
            down = reduce_scatter(ring, blocks, self.codec, leave=leave, observe=observe)
            own = encode(self.codec, blocks[(ring.rank + 1) % ring.size], leave=leave, observe=observe)

            def put(k: int, block: Float32s, _: object) -> None:
                layout.scatter(k, block, flat, factor)

            up = all_gather(ring, own, self.codec, layout.sizes, put)
        return down + up

    def _mean_over_ranks(self, numbers: list[float]) -> list[float]:
        ring = self._ring
        assert ring is not None
        values = np.array(numbers, np.float32) / np.float32(self.ranks)
        total, _ = self._thread.submit(ring_all_reduce, ring, values).result()
        return [float(value) for value in total]

    def _layout(self, bucket: GradBucket) -> BucketLayout:
        parameters = bucket.parameters()
        key = tuple(id(p) for p in parameters)
        if key not in self._layouts:
            for parameter in parameters:
                self._names.setdefault(id(parameter), (f"parameter {len(self._names)}", parameter))
            spans = consecutive_spans(self._names[id(parameter)] for parameter in parameters)
            self._layouts[key] = BucketLayout(spans, self.ranks, size=bucket.buffer().numel())
        return self._layouts[key]


def attach_inceptionn(model: DistributedDataParallel, codec: Codec | None = None, **options: Any) -> InceptionnState:
    """Exchange the gradients of a model compressed from now on; all ranks call this, before the first backward pass.

    Args:
        codec: codec of the gradients; ``Inceptionn(bound=2**-10)`` by default.
        options: options of ``InceptionnState``.

    Raises:
        TransportError: a rank did not connect in time.
        LightloomError: the model has a hook already, or its backward pass has begun.
    """
    options.setdefault("parameters", model.module.named_parameters())
    state = InceptionnState(codec or Inceptionn(), model.process_group, **options)
    attach(model, state)
    return state
