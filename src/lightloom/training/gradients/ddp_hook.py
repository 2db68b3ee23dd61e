"""What the communication hooks of ``DistributedDataParallel`` share: a thread for exchanges, and attachment.

Buckets are exchanged in order by one thread, while the backward pass goes on. The last one is waited for in the hook,
so that an exchange that fails raises from ``backward()``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, ParamSpec

from torch import Tensor
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from lightloom.core.errors import LightloomError

if TYPE_CHECKING:
    from torch._C._distributed_c10d import GradBucket

P = ParamSpec("P")


class DdpHookState(ABC):
    """What a hook keeps between buckets; its methods run in the thread of the backward pass."""

    def __init__(self, name: str) -> None:
        """Start the thread that exchanges buckets, whose name ends in ``name``."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"lightloom-{name}")

    @abstractmethod
    def average(self, bucket: GradBucket) -> Future[Tensor]:
        """Begin to average a bucket over ranks.

        Raises:
            UnsupportedError: the gradients are sparse or not in CPU memory.
            TransportError: a rank was lost, or connections broke, in this bucket or in an earlier one.
        """

    def close(self) -> None:
        """Stop the thread. May be called any number of times."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _start(
        self, last: bool, exchange: Callable[P, Tensor], *arguments: P.args, **options: P.kwargs
    ) -> Future[Tensor]:
        """Call ``exchange`` in the thread; the result of the ``last`` bucket is awaited and its error raised here."""
        job = self._thread.submit(exchange, *arguments, **options)
        future: Future[Tensor] = Future()
        if last:
            future.set_result(job.result())
            return future
        job.add_done_callback(future.set_result)  # type: ignore[arg-type]
        return future.then(lambda done: done.value().result())  # type: ignore[attr-defined]


def average_hook(state: DdpHookState, bucket):  # type: ignore[no-untyped-def]  # DDP refuses annotations as text
    """Average a bucket over ranks; for ``DistributedDataParallel.register_comm_hook(state, average_hook)``.

    Raises:
        LightloomError: see ``average`` of the state.
    """
    return state.average(bucket)


def attach(model: DistributedDataParallel, state: DdpHookState) -> None:
    """Register the hook with its state, which is closed if that fails.

    Raises:
        LightloomError: the model has a hook already, or its backward pass has begun.
    """
    try:
        model.register_comm_hook(state, average_hook)
    except RuntimeError as error:
        state.close()
        raise LightloomError(f"cannot attach the hook: {error}") from error


def real_length(tensor: Tensor) -> int:
    """Number of real values in a tensor; a complex value is two."""
    return tensor.numel() * (2 if tensor.is_complex() else 1)
