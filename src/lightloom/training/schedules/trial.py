"""A schedule put to the test in real processes, beside ``torch.distributed``'s own collective."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.errors import ConfigError
from lightloom.fabrics.base import Fabric
from lightloom.interchange.files import read_schedule, write_schedule
from lightloom.training.schedules.execution import ScheduleExecutor
from lightloom.training.schedules.program import movement_of
from lightloom.training.transport.launch import launch
from lightloom.training.transport.worker import Worker

DTYPES = {
    "int64": torch.int64,
    "int32": torch.int32,
    "float32": torch.float32,
    "float64": torch.float64,
    "bfloat16": torch.bfloat16,
}
MOST_RANKS = 64
"""Processes that one host is asked to run."""
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
    """The largest error of a sum of floats, as a fraction of what ``ScheduleExecutor`` promises.

    It is measured against a sum in float64, which for float64 may itself be off by as much.

    Other collectives, and integers, allow none: infinite where they differ from ``torch.distributed``'s.
    """
    if kind not in SUMS or not tensor.dtype.is_floating_point:
        return 0.0 if torch.equal(ours, reference(kind, tensor, ranks)) else float("inf")
    exact = reference(kind, tensor.double(), ranks)
    magnitude = reference(kind, tensor.double().abs(), ranks)
    unit = (ranks - 1) * torch.finfo(tensor.dtype).eps / 2
    allowed = magnitude * (unit / (1 - unit)) * (2 if tensor.dtype == torch.float64 else 1)
    error = (ours.double() - exact).abs()
    return float(torch.where(error > 0, error / allowed, error).max()) if ours.numel() else 0.0


def trial(worker: Worker) -> dict[str, Any]:
    """Execute the schedule in a file and torch's own collective in turn; for ``launch``.

    Arguments: path, values (of a rank's input), dtype, rounds, seed, timeout.
    """
    torch.set_num_threads(1)
    settings = worker.arguments
    schedule, _ = read_schedule(Path(settings["path"]))
    execute = ScheduleExecutor(schedule, timeout=settings["timeout"])
    tensor = draw(worker.rank, settings["values"], DTYPES[settings["dtype"]], settings["seed"])
    ours = execute(tensor)
    equal = torch.equal(ours, reference(execute.kind, tensor, worker.size))
    worst = error_over_bound(execute.kind, ours, tensor, worker.size)
    seconds: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(settings["rounds"]):
        seconds["ours"].append(_timed(lambda: execute(tensor)))
        seconds["theirs"].append(_timed(lambda: reference(execute.kind, tensor, worker.size)))
    padding = execute.shape(tensor.numel()).padding
    return {"equal": equal, "error_over_bound": worst, "padding": padding, "seconds": seconds}


def _timed(action: Callable[[], object]) -> float:
    dist.barrier()
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What a schedule did in real processes."""

    content: str
    """Hash of the schedule's movement (``Movement.digest``), its first 16 digits."""
    dtype: str
    values: int
    """Of a rank's input."""
    padding: int
    """Zeros added to each of its blocks, so that it divides into chunks."""
    messages: int
    """That all ranks send."""
    equal: bool
    """Whether every rank had the bits of ``torch.distributed``'s own collective."""
    error_over_bound: float
    """Largest error of a sum of floats, of any rank, over what its order of additions can be off by."""
    seconds: float
    """Median over rounds of the slowest rank."""
    reference_seconds: float
    """The same of ``torch.distributed``'s own collective."""

    @property
    def right(self) -> bool:
        """Whether the schedule did what its collective promises."""
        return self.error_over_bound <= 1


def values_of(schedule: Schedule, nbytes: float, dtype: str) -> int:
    """Values that a rank brings where the collective is of ``nbytes`` (see ``Collective``), as many as fit.

    Raises:
        ConfigError: a type that is not known.
    """
    if dtype not in DTYPES:
        raise ConfigError(f"dtype {dtype!r}: expected one of {', '.join(DTYPES)}")
    kind, ranks = schedule.collective.kind, schedule.collective.ranks
    whole = int(nbytes // DTYPES[dtype].itemsize)
    return {"all-gather": whole // ranks, "all-reduce": whole}.get(kind, whole // ranks * ranks)


def try_schedule(
    schedule: Schedule,
    fabric: Fabric,
    dtype: str,
    values: int,
    *,
    rounds: int = 5,
    seed: int = 0,
    timeout: float = 120.0,
) -> Trial:
    """Execute a verified schedule in as many processes of this host as it has ranks.

    Args:
        fabric: on which it is verified again in each process.
        dtype: of ``DTYPES``.
        rounds: executions that are timed, each beside one of ``torch.distributed``'s own.
        timeout: seconds for everything.

    Raises:
        ConfigError: more ranks than ``MOST_RANKS``.
        UnsupportedError: the schedule needs a reducing switch.
        LaunchError: a process failed, or took too long.
    """
    ranks = schedule.collective.ranks
    if ranks > MOST_RANKS:
        raise ConfigError(f"{ranks} ranks: expected at most {MOST_RANKS} processes on this host")
    movement = movement_of(schedule)
    with tempfile.TemporaryDirectory(prefix="lightloom-") as folder:
        path = str(write_schedule(Path(folder) / "schedule.json", schedule, fabric))
        settings = {"path": path, "values": values, "dtype": dtype, "rounds": rounds, "seed": seed, "timeout": timeout}
        results = [outcome.value for outcome in launch(trial, ranks, timeout, settings)]
    slowest = {
        who: np.max([result["seconds"][who] for result in results], axis=0) if rounds else np.array([math.nan])
        for who in ("ours", "theirs")
    }
    return Trial(
        content=movement.digest.hex()[:16],
        dtype=dtype,
        values=values,
        padding=results[0]["padding"],
        messages=len(movement.source),
        equal=all(result["equal"] for result in results),
        error_over_bound=max(result["error_over_bound"] for result in results),
        seconds=float(np.median(slowest["ours"])),
        reference_seconds=float(np.median(slowest["theirs"])),
    )
