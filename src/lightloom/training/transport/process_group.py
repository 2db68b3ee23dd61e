"""The process group of torch.distributed that hooks and executors use."""

from __future__ import annotations

import torch.distributed as dist

from lightloom.core.errors import UnsupportedError


def group_or_default(group: dist.ProcessGroup | None) -> dist.ProcessGroup:
    """Return ``group``, or the default process group.

    Raises:
        UnsupportedError: there is no process group.
    """
    group = group if group is not None else dist.group.WORLD
    if group is None:
        raise UnsupportedError("no process group: call torch.distributed.init_process_group first")
    return group
