"""A schedule as a communication hook of ``DistributedDataParallel``: gradients averaged the way its rows say.

    model = DistributedDataParallel(net)
    state = attach_schedule(model, schedule)               # an all-reduce, the same on all ranks

Buckets are exchanged in order by one thread, while the backward pass goes on; the last one is waited for in the hook,
so that a broken exchange raises from ``backward()``.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.errors import UnsupportedError
from lightloom.training.hooks.hook_thread import bucket_future, register
from lightloom.training.schedules.execution import ScheduleExecutor
from lightloom.training.schedules.program import replicas_agree
from lightloom.training.transport.peers import DEFAULT_TIMEOUT

if TYPE_CHECKING:
    from torch._C._distributed_c10d import GradBucket


class ScheduleState:
    """What the hook keeps between buckets."""

    def __init__(self, execute: ScheduleExecutor) -> None:
        """The hook of one rank.

        Raises:
            UnsupportedError: the schedule is no all-reduce, or its ranks add up in different orders, so that the
                replicas' weights would drift apart.
        """
        if execute.kind != "all-reduce":
            raise UnsupportedError(f"a schedule of {execute.kind}: gradients need an all-reduce")
        if not replicas_agree(execute.movement):
            raise UnsupportedError("ranks of this schedule add up in different orders: the replicas would drift apart")
        self._execute = execute
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="lightloom-schedule")

    def average(self, bucket: GradBucket) -> Future[Tensor]:
        """Begin to average a bucket over ranks."""
        job = self._worker.submit(self._exchange, bucket.buffer())
        return bucket_future(job, last=bucket.is_last())

    def close(self) -> None:
        """Stop the thread. May be called any number of times."""
        self._worker.shutdown(wait=True, cancel_futures=True)

    def _exchange(self, buffer: Tensor) -> Tensor:
        # As DDP itself does: divided before they are added, so that sums do not overflow.
        with torch.no_grad():
            buffer.copy_(self._execute(buffer.div_(self._execute.ranks)))
        return buffer


def schedule_hook(state: ScheduleState, bucket):  # type: ignore[no-untyped-def]  # DDP refuses annotations as text
    """Average a bucket over ranks; for ``DistributedDataParallel.register_comm_hook(state, schedule_hook)``.

    Raises:
        TransportError: a rank died or fell silent.
    """
    return state.average(bucket)


def attach_schedule(
    model: DistributedDataParallel, schedule: Schedule, *, timeout: float = DEFAULT_TIMEOUT
) -> ScheduleState:
    """Average this model's gradients by a schedule from now on; all ranks call it, before the first backward pass.

    Args:
        schedule: a verified all-reduce over the ranks of the model's process group.
        timeout: of ``ScheduleExecutor``.

    Raises:
        UnsupportedError: of ``ScheduleExecutor`` and ``ScheduleState``.
        LightloomError: the model has a hook already, or its backward pass has begun.
    """
    state = ScheduleState(ScheduleExecutor(schedule, model.process_group, timeout=timeout))
    register(model, state, schedule_hook)
    return state
