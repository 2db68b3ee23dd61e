"""What DDP hooks that exchange in a thread of their own share: the future of a bucket, and being attached."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future as Job
from typing import Any, Protocol

from torch import Tensor
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from lightloom.core.errors import LightloomError


class Closable(Protocol):
    """A hook's state."""

    def close(self) -> None:
        """Stop its thread."""


def bucket_future(job: Job[Tensor], *, last: bool) -> Future[Tensor]:
    """What DDP waits for; of the last bucket the thread's result is awaited here, and its error raised here."""
    future: Future[Tensor] = Future()
    if last:
        future.set_result(job.result())
        return future
    job.add_done_callback(future.set_result)  # type: ignore[arg-type]
    return future.then(lambda done: done.value().result())  # type: ignore[attr-defined]


def register(model: DistributedDataParallel, state: Closable, hook: Callable[..., Any]) -> None:
    """Attach a hook with its state, which is closed where that fails.

    Raises:
        LightloomError: the model has a hook already, or its backward pass has begun.
    """
    try:
        model.register_comm_hook(state, hook)
    except RuntimeError as error:
        state.close()
        raise LightloomError(f"cannot attach the hook: {error}") from error
