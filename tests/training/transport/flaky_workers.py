"""A launch in which rank 1 fails while it connects: gloo does, in the first try, or the process dies."""

from __future__ import annotations

import os
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from lightloom.exchange.transport.worker import Worker

_GLOO = distributed_c10d.ProcessGroupGloo


def _flaky_gloo(*arguments: Any, **options: Any) -> Any:
    if os.environ["RANK"] == "1":
        if os.environ.get("LIGHTLOOM_TEST_DIES"):
            os._exit(7)
        raise RuntimeError("Connection closed by peer [127.0.0.1]:12345")
    return _GLOO(*arguments, **options)


if "LIGHTLOOM_TRY" not in os.environ:
    distributed_c10d.ProcessGroupGloo = _flaky_gloo  # type: ignore[assignment, misc]


def total(worker: Worker) -> list[Any]:
    """The sum of all ranks' numbers, in a group made in the second try."""
    own = torch.tensor([worker.rank + 1.0])
    dist.all_reduce(own)
    return [own.item(), os.environ["LIGHTLOOM_TRY"]]
