"""One group of four processes for all laws of hooks and executors: starting processes costs far more than the laws."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.checkpoint

from lightloom.photonics import block_quantisation
from lightloom.training.transport.worker import Worker
from tests import imported_by_ranks  # noqa: F401
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


def everything(worker: Worker) -> dict[str, Any]:
    """The results of every rank, exchanged while all live; then the errors of survivors when two ranks are killed."""
    torch.set_num_threads(1)
    survivors = dist.new_group([rank for rank in range(worker.size) if rank != workers.VICTIM])
    own = {
        "schedules": execution_workers.everything(worker),
        "ddp": workers.everything(worker),
        "optical": optical_workers.everything(worker),
        "optical_single": optical_workers.single(worker),
        "fsdp": fsdp_workers.everything(worker),
        "dtypes": dtype_workers.everything(worker),
        "attacked": attacked_workers.everything(worker),
    }
    results: list[dict[str, Any]] = [{}] * worker.size
    dist.all_gather_object(results, own)
    return {
        "results": results,
        "killed": workers.killed(worker),
        "left_alone": execution_workers.left_alone(worker, survivors),
    }
