"""A schedule put to the test in real processes, beside ``torch.distributed``'s own collective."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from lightloom.interchange.files import read_schedule
from lightloom.training.schedule_execution import ScheduleExecutor
from lightloom.training.worker import Worker

DTYPES = {"int64": torch.int64, "int32": torch.int32, "float32": torch.float32, "float64": torch.float64,
          "bfloat16": torch.bfloat16}  # fmt: skip
SUMS = ("reduce-scatter", "all-reduce")


def draw(rank: int, values: int, dtype: torch.dtype, seed: int) -> Tensor:
    """What ``rank`` brings: integers over their whole range (sums wrap), or normal floats of widely different sizes."""
    random = torch.Generator().manual_seed(1000 * seed + rank)
    if not dtype.is_floating_point:
        range_ = torch.iinfo(dtype)
        return torch.randint(range_.min, range_.max, (values,), generator=random, dtype=dtype)
    exponents = torch.randint(-8, 9, (values,), generator=random)
    return torch.ldexp(torch.randn(values, generator=random), exponents).to(dtype)


def reference(kind: str, tensor: Tensor, ranks: int, group: dist.ProcessGroup | None = None) -> Tensor:
    """What ``torch.distributed``'s own collective makes of it."""
    if kind == "all-reduce":
        total = tensor.clone()
        dist.all_reduce(total, group=group)
        return total
    if kind == "all-gather":
        gathered = [torch.empty_like(tensor) for _ in range(ranks)]
        dist.all_gather(gathered, tensor, group=group)
        return torch.cat(gathered)
    if kind == "all-to-all":
        received = torch.empty_like(tensor)
        dist.all_to_all_single(received, tensor, group=group)
        return received
    share = tensor.new_empty(tensor.numel() // ranks)
    dist.reduce_scatter(share, list(tensor.chunk(ranks)), group=group)
    return share


def error_over_bound(kind: str, ours: Tensor, tensor: Tensor, ranks: int) -> float:
    """The largest error of a sum of floats, as a fraction of what ``ScheduleExecutor`` promises; float64 is exact here.

    Other collectives, and integers, allow none: infinite where they differ from ``torch.distributed``'s.
    """
    if kind not in SUMS or not tensor.dtype.is_floating_point:
        return 0.0 if torch.equal(ours, reference(kind, tensor, ranks)) else float("inf")
    exact = reference(kind, tensor.double(), ranks)
    magnitude = reference(kind, tensor.double().abs(), ranks)
    unit = (ranks - 1) * torch.finfo(tensor.dtype).eps / 2
    allowed = magnitude * (unit / (1 - unit))
    error = (ours.double() - exact).abs()
    return float(torch.where(error > 0, error / allowed, error).max()) if ours.numel() else 0.0


def trial(worker: Worker) -> dict[str, Any]:
    """Execute the schedule in a file and torch's own collective in turn; for ``launch``.

    Arguments: path, values (of a rank's input), dtype, rounds, seed, timeout.
    """
    torch.set_num_threads(1)
    asked = worker.arguments
    schedule, _ = read_schedule(Path(asked["path"]))
    execute = ScheduleExecutor(schedule, timeout=asked["timeout"])
    tensor = draw(worker.rank, asked["values"], DTYPES[asked["dtype"]], asked["seed"])
    shape, program = execute.shape(tensor.numel()), execute.program
    worst = error_over_bound(execute.kind, execute(tensor), tensor, worker.size)
    seconds: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(asked["rounds"]):
        seconds["ours"].append(_timed(lambda: execute(tensor)))
        seconds["theirs"].append(_timed(lambda: reference(execute.kind, tensor, worker.size)))
    return {
        "content": execute.movement.digest.hex()[:16],
        "equal": bool(torch.equal(execute(tensor), reference(execute.kind, tensor, worker.size))),
        "error_over_bound": worst,
        "messages": len(program.sends),
        "padding": shape.padding,
        "seconds": seconds,
    }


def _timed(action: Any) -> float:
    dist.barrier()
    began = time.perf_counter()
    action()
    return time.perf_counter() - began
