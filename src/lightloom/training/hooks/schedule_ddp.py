"""A schedule as a communication hook of ``DistributedDataParallel``: gradients are averaged as its rows say.

model = DistributedDataParallel(net)
state = attach_schedule(model, schedule)               # an all-reduce, the same on all ranks
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.errors import UnsupportedError
from lightloom.training.gradients.ddp_hook import DdpHookState, attach
from lightloom.training.schedules.execution import ScheduleExecutor
from lightloom.training.schedules.program import replicas_agree
from lightloom.training.transport.channel_group import DEFAULT_TIMEOUT

if TYPE_CHECKING:
    from torch._C._distributed_c10d import GradBucket


class ScheduleState(DdpHookState):
    """State of the hook of one rank."""

    def __init__(self, execute: ScheduleExecutor) -> None:
        """Check that the schedule averages gradients.

        Raises:
            UnsupportedError: the schedule is not an all-reduce, or ranks add up in different orders, so that the
                weights of replicas would diverge.
        """
        if execute.kind != "all-reduce":
            raise UnsupportedError(f"a schedule of {execute.kind}: gradients need an all-reduce")
        if not replicas_agree(execute.movement):
            raise UnsupportedError("ranks of this schedule add up in different orders: replicas would diverge")
        super().__init__("schedule")
        self._execute = execute

    def average(self, bucket: GradBucket) -> Future[Tensor]:
        return self._start(bucket.is_last(), self._exchange, bucket.buffer())

    def _exchange(self, buffer: Tensor) -> Tensor:
        # As DDP itself does: divided before they are added, so that sums do not overflow.
        with torch.no_grad():
            buffer.copy_(self._execute(buffer.div_(self._execute.ranks)))
        return buffer


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
    attach(model, state)
    return state
