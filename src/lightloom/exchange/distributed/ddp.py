"""Any exchange as the communication hook of ``DistributedDataParallel``.

DDP calls its hook with the gradients of this rank and takes what it returns: here the average over ranks, the same bits
on all of them. Where plain all-reduce is faster the hook uses it (``distributed.adaptive``) and does what DDP
does without a hook.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from math import prod
from typing import TYPE_CHECKING, Any, ParamSpec

import torch
import torch.distributed as dist
from torch import Tensor
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from lightloom.core.errors import LightloomError, UnsupportedError
from lightloom.exchange.distributed.exchanger import Exchanger, Stepwise, real_shape
from lightloom.exchange.distributed.factory import exchanger
from lightloom.exchange.distributed.group import OwnGroup, let_threads_drop_at_exit
from lightloom.exchange.distributed.residuals import Geometry
from lightloom.exchange.method import ExchangeMethod
from lightloom.exchange.methods import method_of
from lightloom.exchange.transport.channel import AgreedError
from lightloom.exchange.transport.channel_group import DEFAULT_TIMEOUT

if TYPE_CHECKING:
    from torch._C._distributed_c10d import GradBucket


# What the communication hooks of ``DistributedDataParallel`` share: a thread for exchanges, and attachment.
#
# Buckets are exchanged in order by one thread, while the backward pass goes on. The last one is waited for in the
# hook, so that an exchange that fails raises from ``backward()``.

P = ParamSpec("P")


class DdpHookState(ABC):
    """State of a hook between buckets; its methods run in the thread of the backward pass."""

    def __init__(self, name: str) -> None:
        """Start the thread that exchanges buckets, whose name ends in ``name``."""
        let_threads_drop_at_exit()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"lightloom-{name}")

    @abstractmethod
    def average(self, bucket: GradBucket) -> Future[Tensor]:
        """Begin to average a bucket over ranks, and return the future of its buffer, which then holds the averages.

        Raises:
            UnsupportedError: the gradients are sparse, or not on the device that the exchange needs.
            TransportError: a rank was lost, or connections broke, in this bucket or in an earlier one.
        """

    def close(self) -> None:
        """Wait for the exchange that runs, drop those that have not begun, and stop the thread, so that no bucket
        can be averaged any more. May be called any number of times."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _start(
        self, last: bool, exchange: Callable[P, Tensor], *arguments: P.args, **options: P.kwargs
    ) -> Future[Tensor]:
        """Call ``exchange`` with these arguments in the thread of exchanges, after all earlier calls, and return the
        future of its result, which raises its error; with ``last`` (the step's last bucket) the call is waited for, and
        its error raised here."""
        job = self._thread.submit(exchange, *arguments, **options)
        future: Future[Tensor] = Future()
        if last:
            future.set_result(job.result())
            return future
        job.add_done_callback(future.set_result)  # type: ignore[arg-type]
        return future.then(lambda done: done.value().result())  # type: ignore[attr-defined]


def average_hook(state: DdpHookState, bucket):  # type: ignore[no-untyped-def]  # DDP refuses annotations as text
    """Return the future of a bucket's average over ranks; this is the hook for
    ``DistributedDataParallel.register_comm_hook(state, average_hook)``.

    Raises:
        LightloomError: what ``state.average`` raises, such as UnsupportedError for sparse gradients, or TransportError
            for a lost rank.
    """
    return state.average(bucket)


def attach_hook(model: DistributedDataParallel, state: DdpHookState) -> None:
    """Register ``average_hook`` with its state as the communication hook of a DDP model; the state is closed if that
    fails.

    Raises:
        LightloomError: the model has a hook already, or its backward pass has begun.
    """
    try:
        model.register_comm_hook(state, average_hook)
    except RuntimeError as error:
        state.close()
        raise LightloomError(f"cannot attach the hook: {error}") from error


class ExchangerState(DdpHookState, Stepwise):
    """State of the hook of one rank; a ``Stateful`` whose checkpoint is the exchange's state and the last decision."""

    def __init__(self, exchanger: Exchanger, parameters: Iterable[tuple[str, Tensor]] = (), **options: Any) -> None:
        """Start the thread that exchanges buckets.

        Args:
            exchanger: what to run.
            parameters: parameters by name; others are numbered in the order in which DDP first passes them.
            options: those of ``Stepwise``.
        """
        DdpHookState.__init__(self, "exchange")
        Stepwise.__init__(self, exchanger, **options)
        self._names = {id(parameter): (name, parameter) for name, parameter in parameters}
        self._geometries: dict[tuple[int, ...], Geometry] = {}
        self._error: LightloomError | None = None

    def average(self, bucket: GradBucket) -> Future[Tensor]:
        """Begin to average a bucket over ranks, and return the future of its buffer, which then holds the averages.

        In CPU memory the exchange runs in a thread, and only the last bucket of a step is waited for; on other devices
        every bucket is averaged before this returns. The last bucket ends the step. While the plain exchange is in use,
        the bucket goes through DDP's own all-reduce, residuals added to it first, and is not waited for.

        Raises:
            UnsupportedError: the gradients are sparse, not on the group's device, or of a type that the exchange
                refuses.
            AgreedError, TransportError: all ranks refuse the values together, as optical averaging does NaN; or a rank
                was lost, or connections broke, in this bucket or in an earlier one. Raised here for the last bucket in
                CPU memory and for any bucket on other devices; for other buckets in CPU memory the future raises it.
        """
        buffer, last, arrived = bucket.buffer(), bucket.is_last(), time.perf_counter()
        device = self._exchanger.group.device
        if buffer.layout != torch.strided or buffer.device.type != device:
            raise UnsupportedError(
                f"gradients are {buffer.layout} on {buffer.device}: expected dense ones (Embedding(sparse=False)) on "
                f"{device}"
            )
        self._exchanger.check_type(buffer.dtype)
        scale, geometry = self._scale, self._geometry(bucket)
        future: Future[Any]
        if self._plain(torch.view_as_real(buffer).view(-1) if buffer.is_complex() else buffer, geometry, last=last):
            # As DDP itself does.
            work = dist.all_reduce(buffer.div_(self._group.size()), group=self._group, async_op=True)
            future = work.get_future().then(lambda done: done.value()[0])
        elif device == "cpu":
            future = self._start(last, self._exchange, buffer, geometry, scale, last)
        else:
            future = Future(devices=[buffer.device])
            future.set_result(self._exchange(buffer, geometry, scale, last))
        if last:
            self._end_step(arrived)
        return future

    def close(self) -> None:
        """Wait for the exchange that runs, drop those that have not begun, stop the thread of exchanges, and close the
        connections to the other ranks. May be called any number of times."""
        DdpHookState.close(self)
        Stepwise.close(self)

    def _exchange(self, buffer: Tensor, geometry: Geometry, scale: float, last: bool) -> Tensor:
        """Replace a bucket by its average over ranks, in place, and return it.

        After an error every later bucket raises the same error, without an exchange; one that all ranks have in common
        (``AgreedError``) is dropped after the last bucket of the step, so that the next step works.

        Args:
            buffer: gradients of the bucket.
            geometry: tensors in the buffer.
            scale: loss scale, by which values are divided for the exchange and multiplied again.
            last: whether it is the step's last bucket.

        Raises:
            LightloomError: what the exchange raised, in this bucket or an earlier one.
        """
        if self._error is None:
            try:
                with self._counted(geometry, last=last), torch.no_grad():
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
        """Return where the tensors of a bucket lie in its buffer, the same object each time for the same parameters;
        a parameter without a name is called ``parameter n`` for good, where n parameters have a name when it first
        comes. Complex parameters count as real ones with a last dimension of 2."""
        # The gradients that DDP hands over beside the buffer are not used: of complex parameters they are half as long
        # as what the buffer holds, and lie elsewhere (torch 2.13).
        parameters = bucket.parameters()
        key = tuple(id(parameter) for parameter in parameters)
        if key not in self._geometries:
            tensors = []
            for parameter in parameters:
                name, _ = self._names.setdefault(id(parameter), (f"parameter {len(self._names)}", parameter))
                tensors.append((name, real_shape(parameter)))
            self._geometries[key] = Geometry.joined(tensors, prod(real_shape(bucket.buffer())))
        return self._geometries[key]


# Any method as the communication hook of ``DistributedDataParallel``.
#
# model = DistributedDataParallel(net)
# state = attach(model, "int4:block=128,feedback")       # before the first backward pass
# ...
# print(state.statistics)


class ExchangeState(ExchangerState):
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
        named = [(name, parameter) for name, parameter in model.module.named_parameters() if parameter.requires_grad]
        device = named[0][1].device.type if named else "cpu"
        group = OwnGroup(model.process_group, timeout, device=device)
        run = exchanger(self.method, group, {name: prod(real_shape(parameter)) for name, parameter in named})
        try:
            for _, parameter in named:
                run.check_type(parameter.dtype)
        except UnsupportedError:
            run.close()
            raise
        super().__init__(run, named, adaptive=adaptive, loss_scale=loss_scale)


def attach(model: DistributedDataParallel, method: ExchangeMethod | str, **options: Any) -> ExchangeState:
    """Exchange the gradients of a model by ``method`` from now on and return the hook's state; all ranks call this,
    before the first backward pass.

    Args:
        model: the model.
        method: the method or its name, for example ``int4:block=128,feedback``.
        options: ``adaptive`` (use plain all-reduce while it is faster, on by default), ``loss_scale`` (returns the
            number by which gradients are divided for the exchange and multiplied again; none by default) and
            ``timeout`` (seconds without progress after which an exchange fails, 300 by default) of ``ExchangeState``.

    Raises:
        ConfigError, UnknownNameError: the method's name cannot be read, or the number of ranks is no multiple of its
            ranks a node (methods of two levels).
        UnsupportedError: the method cannot be a hook of DDP, or not with this model.
        TransportError: a rank did not connect in time.
        LightloomError: the model has a hook already, or its backward pass has begun.
    """
    state = ExchangeState(model, method, **options)
    attach_hook(model, state)
    return state
