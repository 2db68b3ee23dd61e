"""One group of four processes for hooks, executors and exchanges: starting processes costs far more than a law."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.checkpoint

from lightloom.exchange.transport.worker import Worker
from lightloom.photonics.averaging import block_quantisation
from tests import imported_by_ranks  # noqa: F401
from tests.exchange import features, method_workers, scheduled_workers
from tests.exchange import fsdp_workers as sharded_workers
from tests.launched import can_shard
from tests.training.hooks import attacked_workers, dtype_workers, fsdp_workers, optical_workers, workers
from tests.training.schedules import execution_workers


def prepare() -> None:
    """Make schedules and compile kernels before ranks are forked, so that they share them."""
    execution_workers.prepare(4)
    for bits in (16, 32):
        buffers = block_quantisation.CodeBuffers.of((3,), bits)
        values, codes = np.ones(3, np.float32), np.empty(3, buffers.code_type)
        scales = buffers.scales(values)
        buffers.encode(values, scales, codes)
        buffers.decode(codes, scales, values)
        block_quantisation.mean_codes(codes[None], "floor", np.empty_like(codes))


prepare()

PARTS: dict[str, dict[str, Callable[[Worker], Any]]] = {
    "schedules": {"schedules": execution_workers.everything},
    "hooks": {
        "ddp": workers.everything,
        "optical": optical_workers.everything,
        "optical_single": optical_workers.single,
        "fsdp": fsdp_workers.everything,
        "dtypes": dtype_workers.everything,
        "attacked": attacked_workers.everything,
    },
    "exchange": {
        "methods": method_workers.everything,
        "sharded": sharded_workers.everything,
        "matrix": features.matrix,
        "scheduled": scheduled_workers.everything,
    },
}
"""What ranks run for the tests of each folder."""
SHARDED = frozenset({"fsdp", "sharded"})


def everything(worker: Worker) -> dict[str, Any]:
    """The results of every rank, exchanged while all live; then the errors of survivors when two ranks are killed."""
    torch.set_num_threads(1)
    survivors = dist.new_group([rank for rank in range(worker.size) if rank != workers.VICTIM])
    parts = {
        name: part(worker)
        for folder, named in PARTS.items()
        if folder in worker.arguments["folders"]
        for name, part in named.items()
        if name not in SHARDED or can_shard()
    }
    results: list[dict[str, Any]] = [{}] * worker.size
    dist.all_gather_object(results, parts)
    return {
        "results": results,
        "killed": workers.killed(worker),
        "left_alone": execution_workers.left_alone(worker, survivors),
    }
