"""INCEPTIONN as a communication hook of ``DistributedDataParallel``.

    model = DistributedDataParallel(net)
    state = attach_inceptionn(model)                       # that is all
    ...
    print(state.statistics.total.ratio)

Buckets are exchanged in order by one thread, while the backward pass goes on; the last one is waited for in the hook,
so that a broken ring raises ``TransportError`` from ``backward()``. DDP calls its hook with the gradients of this rank
and takes what it returns: here the average over ranks, the same bits on all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future as Job
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from lightloom.compression import Inceptionn
from lightloom.compression.base import Codec
from lightloom.core.errors import LightloomError, UnsupportedError
from lightloom.training.bucket_layout import BucketLayout, Floats, Span
from lightloom.training.error_feedback import ErrorFeedback
from lightloom.training.rendezvous import ring_from_store
from lightloom.training.ring_exchange import Traffic, exchange_blocks
from lightloom.training.statistics import Statistics
from lightloom.training.transport import DEFAULT_TIMEOUT

if TYPE_CHECKING:
    from torch._C._distributed_c10d import GradBucket


class InceptionnState:
    """What the hook keeps between steps; a ``Stateful`` (its checkpoint is the residuals of this rank).

    Making one connects the ring, so all ranks of the group must make theirs, in the same order.
    """

    def __init__(
        self,
        codec: Codec | None,
        process_group: dist.ProcessGroup | None = None,
        *,
        error_feedback: bool = True,
        parameters: Iterable[tuple[str, Tensor]] | None = None,
        loss_scale: Callable[[], float] | None = None,
        host: str = "127.0.0.1",
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        """Connect to the neighbours.

        Args:
            codec: None exchanges plain float32.
            error_feedback: keep what the codec takes away and add it to the next gradient.
            parameters: ``net.named_parameters()``: names for checkpoints. Otherwise parameters are numbered as DDP
                first brings them, which holds as long as model and bucket sizes do.
            loss_scale: ``scaler.get_scale`` of a ``GradScaler``: gradients are divided by it for the exchange, as
                scaled ones would be too large to compress.
            host: IPv4 address of this rank, for rings of several hosts.
            timeout: seconds without progress before an exchange fails.

        Raises:
            TransportError: a rank did not come, or cannot be reached.
        """
        group = process_group if process_group is not None else dist.group.WORLD
        if group is None:
            raise UnsupportedError("no process group: call torch.distributed.init_process_group first")
        self.codec = codec
        self.statistics = Statistics()
        self.ranks = group.size()
        self._loss_scale = loss_scale
        named = list(parameters) if parameters is not None else None
        self._names: dict[int, tuple[str, Tensor]] = {id(p): (n, p) for n, p in named or ()}
        self._layouts: dict[tuple[int, ...], BucketLayout] = {}
        self.error_feedback: ErrorFeedback | None = None
        if error_feedback and codec is not None:
            sizes = {n: p.numel() for n, p in named if p.requires_grad} if named is not None else None
            self.error_feedback = ErrorFeedback(group.rank(), self.ranks, sizes)
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="lightloom-ring")
        self._ring = None
        if self.ranks > 1:
            self._ring = ring_from_store(
                group.get_group_store(), group.rank(), self.ranks, name="ddp", host=host, timeout=timeout
            )

    def submit(self, bucket: GradBucket) -> Job[Tensor]:
        """Queue a bucket; the job returns its buffer, averaged in place.

        Raises:
            UnsupportedError: the gradients are sparse or not in CPU memory.
        """
        buffer = bucket.buffer()
        if buffer.layout != torch.strided or buffer.device.type != "cpu":
            raise UnsupportedError(f"gradients are {buffer.layout} on {buffer.device}: expected dense ones on cpu")
        scale = 1.0 if self._loss_scale is None else float(self._loss_scale())
        return self._worker.submit(self._average, buffer, self._layout(bucket), scale, bucket.is_last())

    def close(self) -> None:
        """Leave the ring and stop the thread. May be called any number of times."""
        if self._ring is not None:
            self._ring.close()
        self._worker.shutdown(wait=True, cancel_futures=True)

    def state_dict(self) -> dict[str, Any]:
        """The residuals of this rank; empty without error feedback."""
        return self.error_feedback.state_dict() if self.error_feedback is not None else {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a checkpoint of this rank.

        Raises:
            ConfigError: it is of another rank, number of ranks or model.
        """
        if self.error_feedback is not None:
            self.error_feedback.load_state_dict(state_dict)

    def _average(self, buffer: Tensor, layout: BucketLayout, scale: float, last: bool) -> Tensor:
        began = time.perf_counter()
        flat = buffer.detach().to(torch.float32, copy=True)
        if scale != 1.0:
            flat /= scale
        traffic = self._exchange(flat.numpy(), layout)
        flat *= scale / self.ranks
        buffer.copy_(flat)
        self.statistics.add(traffic, time.perf_counter() - began, last=last)
        return buffer

    def _exchange(self, flat: Floats, layout: BucketLayout) -> Traffic:
        """Sum ``flat`` over ranks, in place."""
        if self._ring is None:
            return Traffic(0, 0)
        feedback = self.error_feedback
        if feedback is None:
            blocks = layout.gather(flat)
            traffic = exchange_blocks(self._ring, blocks, self.codec)
        else:
            feedback.add_to(flat, layout.spans)
            blocks = layout.gather(flat)
            residuals = [np.empty_like(block) for block in blocks]
            traffic = exchange_blocks(self._ring, blocks, self.codec, residuals)
            layout.scatter(residuals, flat)
            feedback.keep(flat, layout.spans)
        layout.scatter(blocks, flat)
        return traffic

    def _layout(self, bucket: GradBucket) -> BucketLayout:
        parameters = bucket.parameters()
        key = tuple(id(p) for p in parameters)
        if key not in self._layouts:
            buffer, spans = bucket.buffer(), []
            for parameter, gradient in zip(parameters, bucket.gradients(), strict=True):
                number = f"parameter {len(self._names)}"
                name, _ = self._names.setdefault(id(parameter), (number, parameter))
                offset = (gradient.data_ptr() - buffer.data_ptr()) // buffer.element_size()
                spans.append(Span(name, offset, gradient.numel()))
            self._layouts[key] = BucketLayout(tuple(spans), self.ranks)
        return self._layouts[key]


def inceptionn_hook(state: InceptionnState, bucket):  # type: ignore[no-untyped-def]  # DDP refuses annotations as text
    """Average a bucket over ranks; for ``DistributedDataParallel.register_comm_hook(state, inceptionn_hook)``.

    Raises:
        TransportError: the ring broke in this bucket or in an earlier one.
    """
    job = state.submit(bucket)
    future: Future[Tensor] = Future()
    if bucket.is_last():
        future.set_result(job.result())
        return future
    job.add_done_callback(future.set_result)  # type: ignore[arg-type]
    return future.then(lambda done: done.value().result())  # type: ignore[attr-defined]


def attach_inceptionn(model: DistributedDataParallel, codec: Codec | None = None, **options: Any) -> InceptionnState:
    """Exchange this model's gradients compressed from now on; all ranks call it, before the first backward pass.

    Args:
        codec: ``Inceptionn(bound=2**-10)`` unless given.
        options: of ``InceptionnState``.

    Raises:
        TransportError: a rank did not come.
        LightloomError: the model has a hook already, or its backward pass has begun.
    """
    options.setdefault("parameters", model.module.named_parameters())
    state = InceptionnState(codec or Inceptionn(), model.process_group, **options)
    try:
        model.register_comm_hook(state, inceptionn_hook)
    except RuntimeError as error:
        state.close()
        raise LightloomError(f"cannot attach the hook: {error}") from error
    return state
