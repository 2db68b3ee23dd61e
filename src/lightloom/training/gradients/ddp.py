"""Any exchange as the communication hook of ``DistributedDataParallel``.

DDP calls its hook with the gradients of this rank and takes what it returns: here the average over ranks, the same bits
on all of them. Where plain all-reduce is faster the hook uses it (``training.gradients.adaptive``) and does what DDP
does without a hook.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import Tensor
from torch.futures import Future

from lightloom.core.errors import LightloomError, UnsupportedError
from lightloom.training.gradients.ddp_hook import DdpHookState, real_length
from lightloom.training.gradients.exchanger import Exchanger
from lightloom.training.gradients.geometry import Geometry
from lightloom.training.gradients.state_dict import StateDict
from lightloom.training.gradients.statistics import Statistics
from lightloom.training.gradients.stepwise import Stepwise
from lightloom.training.transport.errors import AgreedError

if TYPE_CHECKING:
    from torch._C._distributed_c10d import GradBucket


class ExchangerState(DdpHookState):
    """State of the hook of one rank; a ``Stateful`` whose checkpoint is the exchange's state and the last decision."""

    def __init__(
        self,
        exchanger: Exchanger,
        group: dist.ProcessGroup,
        parameters: Iterable[tuple[str, Tensor]] = (),
        *,
        adaptive: bool = False,
        loss_scale: Callable[[], float] | None = None,
        statistics: Statistics | None = None,
    ) -> None:
        """Start the thread that exchanges buckets.

        Args:
            exchanger: what to run.
            group: the process group of the model.
            parameters: parameters by name; others are numbered in the order in which DDP first passes them.
            adaptive: use plain all-reduce while it is faster.
            loss_scale: what gradients are divided by for the exchange.
            statistics: where to count; new ones unless given.
        """
        super().__init__("exchange")
        self.ranks = group.size()
        self._group = group
        self._names = {id(parameter): (name, parameter) for name, parameter in parameters}
        self._geometries: dict[tuple[int, ...], Geometry] = {}
        self._exchanger = exchanger
        self._run = Stepwise(exchanger, group, adaptive=adaptive, loss_scale=loss_scale, statistics=statistics)
        self.adaptive = self._run.adaptive
        self._error: LightloomError | None = None

    def average(self, bucket: GradBucket) -> Future[Tensor]:
        buffer, last, arrived = bucket.buffer(), bucket.is_last(), time.perf_counter()
        device = self._exchanger.group.device
        if buffer.layout != torch.strided or buffer.device.type != device:
            raise UnsupportedError(
                f"gradients are {buffer.layout} on {buffer.device}: expected dense ones (Embedding(sparse=False)) on "
                f"{device}"
            )
        self._exchanger.check_type(buffer.dtype)
        scale, geometry = self._run.scale, self._geometry(bucket)
        if self._run.use_plain:
            future = self._average_plain(buffer, geometry, last)
        elif device == "cpu":
            future = self._start(last, self._exchange, buffer, geometry, scale, last)
        else:
            future = Future(devices=[buffer.device])
            future.set_result(self._exchange(buffer, geometry, scale, last))
        if last:
            self._run.end_step(arrived)
        return future

    def close(self) -> None:
        """Leave the group and stop the thread. May be called any number of times."""
        super().close()
        self._run.close()

    def state_dict(self) -> StateDict:
        """Return the state of the method on this rank, and of the adaptive choice."""
        return self._run.state_dict()

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Continue from a checkpoint of this rank.

        Raises:
            ConfigError: it is of another rank, number of ranks, model or method.
        """
        self._run.load_state_dict(state_dict)

    def _average_plain(self, buffer: Tensor, geometry: Geometry, last: bool) -> Future[Tensor]:
        """Average as DDP itself does; the first time, residuals are added to the gradients, so that none is lost."""
        self._run.give_back(torch.view_as_real(buffer).view(-1) if buffer.is_complex() else buffer, geometry)
        self._run.statistics.add_plain(last=last)
        work = dist.all_reduce(buffer.div_(self.ranks), group=self._group, async_op=True)
        future: Future[list[Tensor]] = work.get_future()
        return future.then(lambda done: done.value()[0])

    def _exchange(self, buffer: Tensor, geometry: Geometry, scale: float, last: bool) -> Tensor:
        """Replace a bucket by its average over ranks."""
        if self._error is None:
            try:
                with self._run.counted(geometry.size, last=last), torch.no_grad():
                    self._exchanger.average_tensor(buffer, geometry, scale)
                return buffer
            except LightloomError as error:
                self._error = error
        # The last bucket raises from backward() itself. An error that all ranks have in common ends with the step.
        failure = self._error
        if last and isinstance(failure, AgreedError):
            self._error = None
        raise failure

    def _geometry(self, bucket: GradBucket) -> Geometry:
        # The gradients that DDP hands over beside the buffer are not used: of complex parameters they are half as long
        # as what the buffer holds, and lie elsewhere (torch 2.13).
        parameters = bucket.parameters()
        key = tuple(id(parameter) for parameter in parameters)
        if key not in self._geometries:
            tensors, offset = [], 0
            for parameter in parameters:
                name, _ = self._names.setdefault(id(parameter), (f"parameter {len(self._names)}", parameter))
                shape = (*parameter.shape, 2) if parameter.is_complex() else tuple(parameter.shape)
                tensors.append((name, offset, shape))
                offset += real_length(parameter)
            self._geometries[key] = Geometry.whole(tensors, real_length(bucket.buffer()))
        return self._geometries[key]
