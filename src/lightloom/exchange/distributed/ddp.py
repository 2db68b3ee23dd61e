"""Any method as the communication hook of ``DistributedDataParallel``.

model = DistributedDataParallel(net)
state = attach(model, "int4:block=128,feedback")       # before the first backward pass
...
print(state.statistics)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from lightloom.core.errors import UnsupportedError
from lightloom.exchange.distributed.factory import exchanger
from lightloom.exchange.distributed.geometry import Geometry
from lightloom.exchange.distributed.group import OwnGroup
from lightloom.exchange.distributed.stepwise import Stepwise
from lightloom.exchange.method import ExchangeMethod
from lightloom.exchange.registry import method_of
from lightloom.training.hooks.ddp_hook import DdpHookState, consecutive_spans, real_length
from lightloom.training.hooks.ddp_hook import attach as attach_hook
from lightloom.training.hooks.state_dict import StateDict
from lightloom.training.transport.channel_group import DEFAULT_TIMEOUT

if TYPE_CHECKING:
    from torch._C._distributed_c10d import GradBucket


class ExchangeState(DdpHookState):
    """State of the hook of one rank; a ``Stateful`` whose checkpoint is the method's state and the last decision."""

    def __init__(
        self,
        model: DistributedDataParallel,
        method: ExchangeMethod | str,
        *,
        adaptive: bool = True,
        loss_scale: Callable[[], float] | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        """Connect the ranks of the model's process group, so all of them must create theirs, in the same order.

        Args:
            model: whose gradients are exchanged; its parameters' names are those in checkpoints.
            method: the method or its name.
            adaptive: use plain all-reduce while it is faster. Timing then decides which steps lose bits: turn it off
                for runs that must repeat bit for bit.
            loss_scale: ``scaler.get_scale`` of a ``GradScaler``: gradients are divided by it for the exchange.
            timeout: time without progress after which an exchange fails, in seconds.

        Raises:
            TransportError: a rank did not connect in time.
            UnsupportedError: the method cannot be a hook of DDP.
        """
        self.method = method_of(method)
        group = model.process_group
        named = [(name, parameter) for name, parameter in model.module.named_parameters() if parameter.requires_grad]
        for name, parameter in named:
            if parameter.dtype in (torch.float64, torch.complex128) and self.method.name != "float32":
                raise UnsupportedError(
                    f"{name} is {parameter.dtype}, and exchange {self.method} works in float32: its gradients would "
                    "lose digits and range; expected float32 or narrower parameters, or the exchange 'float32'"
                )
        super().__init__("exchange")
        self.ranks = group.size()
        self._group = group
        self._names = {id(parameter): name for name, parameter in named}
        self._geometries: dict[tuple[int, ...], Geometry] = {}
        device = named[0][1].device.type if named else "cpu"
        sizes = {name: real_length(parameter) for name, parameter in named}
        self._exchanger = exchanger(self.method, OwnGroup(group, timeout, device=device), sizes)
        self._on_host = device == "cpu"
        self._run = Stepwise(self._exchanger, group, adaptive=adaptive, loss_scale=loss_scale)
        self.statistics, self.adaptive = self._run.statistics, self._run.adaptive

    def average(self, bucket: GradBucket) -> Future[Tensor]:
        buffer, last, arrived = bucket.buffer(), bucket.is_last(), time.perf_counter()
        if buffer.layout != torch.strided:
            raise UnsupportedError(f"gradients are {buffer.layout}: expected dense ones (Embedding(sparse=False))")
        scale, geometry = self._run.scale, self._geometry(bucket)
        if self._run.use_plain:
            future = self._average_plain(buffer, geometry, last)
        elif self._on_host:
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
        self.statistics.add_plain(last=last)
        work = dist.all_reduce(buffer.div_(self.ranks), group=self._group, async_op=True)
        future: Future[list[Tensor]] = work.get_future()
        return future.then(lambda done: done.value()[0])

    def _exchange(self, buffer: Tensor, geometry: Geometry, scale: float, last: bool) -> Tensor:
        """Replace a bucket by its average over ranks."""
        with self._run.counted(geometry.size, last=last), torch.no_grad():
            self._exchanger.average_tensor(buffer, geometry, scale)
        return buffer

    def _geometry(self, bucket: GradBucket) -> Geometry:
        parameters = bucket.parameters()
        key = tuple(id(parameter) for parameter in parameters)
        if key not in self._geometries:
            spans = consecutive_spans((self._names[id(parameter)], parameter) for parameter in parameters)
            tensors = [
                (span.name, span.offset, (*parameter.shape, 2) if parameter.is_complex() else tuple(parameter.shape))
                for span, parameter in zip(spans, parameters, strict=True)
            ]
            self._geometries[key] = Geometry.whole(tensors, real_length(bucket.buffer()))
        return self._geometries[key]


def attach(model: DistributedDataParallel, method: ExchangeMethod | str, **options: Any) -> ExchangeState:
    """Exchange the gradients of a model by ``method`` from now on; all ranks call this, before the first backward pass.

    Args:
        model: the model.
        method: the method or its name, for example ``int4:block=128,feedback``.
        options: options of ``ExchangeState``.

    Raises:
        ConfigError: the method's name cannot be read.
        UnsupportedError: the method cannot be a hook of DDP, or not with this model.
        TransportError: a rank did not connect in time.
        LightloomError: the model has a hook already, or its backward pass has begun.
    """
    state = ExchangeState(model, method, **options)
    attach_hook(model, state)
    return state
