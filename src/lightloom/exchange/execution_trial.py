"""A schedule put to the test in real processes, beside ``torch.distributed``'s own collective."""

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

from lightloom.collectives.files.document import read_schedule, write_schedule
from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.errors import ConfigError
from lightloom.exchange.execution import ScheduleExecutor, movement_of, values_of_parts
from lightloom.exchange.transport.gloo import reduce_scatter
from lightloom.exchange.transport.launch import launch
from lightloom.exchange.transport.worker import Worker
from lightloom.machines.fabrics.fabric import Fabric

DTYPES: dict[str, torch.dtype] = {
    name: getattr(torch, name) for name in ("int64", "int32", "float32", "float64", "bfloat16")
}
MOST_RANKS = 64
"""Processes that one host is asked to run."""
_EXCHANGED = 7
"""Tag of torch's own sends."""


def draw_input(rank: int, values: int, dtype: torch.dtype, seed: int) -> Tensor:
    """Return a rank's input, ``values`` long and flat, which rank and seed fix: integers uniform over the range of
    their type but for its largest (sums wrap), or standard normal floats times 2^k, k uniform from -8 to 8."""
    random = torch.Generator().manual_seed(1000 * seed + rank)
    if not dtype.is_floating_point:
        range_ = torch.iinfo(dtype)
        return torch.randint(range_.min, range_.max, (values,), generator=random, dtype=dtype)
    exponents = torch.randint(-8, 9, (values,), generator=random)
    return torch.ldexp(torch.randn(values, generator=random), exponents).to(dtype)


def input_values(execute: ScheduleExecutor, values: int, itemsize: int) -> int:
    """Return the number of values of this rank's input, where each part of the collective has ``values``: those of the
    parts that the rank holds at the beginning, or, where it holds none (as most in a broadcast or a scatter), ends
    with.

    Where parts have sizes of their own, these and ``itemsize``, the bytes of a value, decide instead of ``values``, and
    a rank that holds nothing has 0.
    """
    movement, rank = execute.movement, execute.rank
    held, wanted = (chunks // movement.pieces for chunks in (movement.held(rank), movement.wanted(rank)))
    if movement.collective.sizes is not None:
        return int(values_of_parts(movement, itemsize)[np.unique(held)].sum())
    return values * len(np.unique(held if len(held) else wanted))


def torch_result(execute: ScheduleExecutor, tensor: Tensor, itemsize: int) -> Tensor:
    """Return this rank's result of ``torch.distributed``'s own collective on ``tensor``, its input; all ranks call it.
    A permute is a send and a receive.

    A barrier is an all-gather of tokens, and a reduce-scatter of parts that differ in size a part of an all-reduce.
    Ranks that get nothing from a reduce or a gather have an empty tensor.

    Args:
        execute: executor of the schedule, for its collective and process group.
        tensor: this rank's input, flat.
        itemsize: bytes of a value, from which sizes of parts follow.
    """
    kind, ranks, rank = execute.kind, execute.ranks, execute.rank
    wanted, group = execute.movement.collective, execute.group
    root, nothing = dist.get_global_rank(group, 0), tensor.new_empty(0)
    if kind in ("all-reduce", "reduce", "broadcast", "reduce-scatter-v"):
        total = tensor.clone()
        if kind == "broadcast":
            dist.broadcast(total, root, group=group)
        elif kind == "reduce":
            dist.reduce(total, root, group=group)
        else:
            dist.all_reduce(total, group=group)
        if kind == "reduce-scatter-v":
            ends = np.cumsum(values_of_parts(execute.movement, itemsize))
            return total[int(ends[rank - 1]) if rank else 0 : int(ends[rank])]
        return nothing if kind == "reduce" and rank else total
    if kind in ("all-gather", "barrier", "gather"):
        gathered = [torch.empty_like(tensor) for _ in range(ranks)]
        if kind == "gather":
            dist.gather(tensor, gathered if rank == 0 else None, root, group=group)
            return nothing if rank else torch.cat(gathered)
        dist.all_gather(gathered, tensor, group=group)
        return torch.cat(gathered)
    if kind == "scatter":
        share = tensor.new_empty(tensor.numel() // (1 if rank else ranks))
        dist.scatter(share, None if rank else list(tensor.chunk(ranks)), root, group=group)
        return share
    if wanted.destinations is not None:
        return _permuted(tensor, wanted.destinations, rank, group)
    if kind in ("all-to-all", "all-to-all-v"):
        leaves = arrives = None
        received = torch.empty_like(tensor)
        if wanted.sizes is not None:
            table = values_of_parts(execute.movement, itemsize).reshape(ranks, ranks)
            leaves, arrives = table[rank].tolist(), table[:, rank].tolist()
            received = tensor.new_empty(sum(arrives))
        dist.all_to_all_single(received, tensor, arrives, leaves, group=group)
        return received
    share = tensor.new_empty(tensor.numel() // ranks)
    reduce_scatter(share, tensor, group=group)
    return share


def _permuted(tensor: Tensor, destinations: tuple[int, ...], rank: int, group: dist.ProcessGroup) -> Tensor:
    """Return the tensor that this rank receives where each rank r of the group sends its own to rank
    ``destinations[r]``; ``tensor`` itself, not copied, where the rank sends to itself. ``destinations`` holds each rank
    of the group once, and all tensors are equally long."""
    to, source = destinations[rank], destinations.index(rank)
    if to == rank:
        return tensor
    received = torch.empty_like(tensor)
    peers = [dist.get_global_rank(group, peer) for peer in (to, source)]
    operations = [
        dist.P2POp(dist.isend, tensor, peers[0], group, _EXCHANGED),
        dist.P2POp(dist.irecv, received, peers[1], group, _EXCHANGED),
    ]
    for pending in dist.batch_isend_irecv(operations):
        pending.wait()
    return received


def error_over_bound(execute: ScheduleExecutor, ours: Tensor, tensor: Tensor) -> float:
    """Return the largest error of a result's values, as a fraction of the error allowed to a sum of floats, u / (1 - u)
    times the sum of magnitudes with u = (ranks - 1) eps / 2: at most 1 where that promise holds, 0 for equal and for
    empty results.

    It is measured against a sum in float64; results in float64 are allowed twice the error, as that sum may be off by
    as much. Collectives that add nothing, and integers, allow no error: infinite where the result differs from that of
    ``torch.distributed``. All ranks call it.

    Args:
        execute: executor that made the result.
        ours: this rank's result.
        tensor: this rank's input.
    """
    itemsize, ranks = tensor.dtype.itemsize, execute.ranks
    if not execute.movement.collective.rule.adds or not tensor.dtype.is_floating_point:
        return 0.0 if torch.equal(ours, torch_result(execute, tensor, itemsize)) else float("inf")
    exact = torch_result(execute, tensor.double(), itemsize)
    magnitude = torch_result(execute, tensor.double().abs(), itemsize)
    unit = (ranks - 1) * torch.finfo(tensor.dtype).eps / 2
    allowed = magnitude * (unit / (1 - unit)) * (2 if tensor.dtype == torch.float64 else 1)
    error = (ours.double() - exact).abs()
    return float(torch.where(error > 0, error / allowed, error).max()) if ours.numel() else 0.0


def trial(worker: Worker) -> dict[str, Any]:
    """Execute the schedule in a file and torch's own collective in turn, in one of the processes of ``launch``, and
    return what this rank measured.

    The worker's arguments are ``path`` of the schedule, ``values`` of a part, ``dtype`` by name, number of timed
    ``rounds``, ``seed`` and ``timeout`` in seconds that a rank may keep another one waiting.

    Returns:
        ``same_bits`` (whether the schedule's result on this rank equals ``torch.distributed``'s bit by bit),
        ``error_over_bound`` (largest error of a value over the error allowed), ``padding`` (zeros added to each block
        of the input), ``values`` of the input, and ``seconds``: under ``ours`` and ``theirs`` a list of wall-clock
        seconds by round.
    """
    torch.set_num_threads(1)
    settings = worker.arguments
    schedule, _ = read_schedule(Path(settings["path"]))
    execute = ScheduleExecutor(schedule, timeout=settings["timeout"])
    dtype = DTYPES[settings["dtype"]]
    size = dtype.itemsize
    tensor = draw_input(worker.rank, input_values(execute, settings["values"], size), dtype, settings["seed"])
    ours = execute(tensor)
    same_bits = torch.equal(ours, torch_result(execute, tensor, size))
    worst = error_over_bound(execute, ours, tensor)
    seconds: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(settings["rounds"]):
        seconds["ours"].append(_timed(lambda: execute(tensor)))
        seconds["theirs"].append(_timed(lambda: torch_result(execute, tensor, size)))
    values = tensor.numel()
    found = {"same_bits": same_bits, "error_over_bound": worst, "padding": execute.padding(values, size)}
    return found | {"seconds": seconds, "values": values}


def _timed(action: Callable[[], object]) -> float:
    """Return the wall-clock seconds that an action takes on this rank, begun after a barrier of all ranks."""
    dist.barrier()
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleTrial:
    """Results and times of a schedule that real processes executed."""

    content: str
    """Hash of the schedule's movement (``Movement.digest``), its first 16 digits."""
    dtype: str
    values: int
    """Number of values in a rank's input; in the largest one where inputs differ."""
    padding: int
    """Zeros added to each of its blocks, so that it divides into chunks."""
    messages: int
    """Number of messages that all ranks together send."""
    same_bits: bool
    """True if every rank had the bits of ``torch.distributed``'s own collective."""
    error_over_bound: float
    """Largest error of a sum of floats, of any rank, over what its order of additions can be off by."""
    seconds: float
    """Median over rounds of the slowest rank."""
    reference_seconds: float
    """Median seconds of ``torch.distributed``'s own collective, by the slowest rank of each round."""

    @property
    def right(self) -> bool:
        """True if the schedule did what its collective promises: its error over the bound is at most 1 on every rank;
        bits may differ from those of ``torch.distributed``."""
        return self.error_over_bound <= 1


def values_of(schedule: Schedule, nbytes: float, dtype: str) -> int:
    """Return how many values of type ``dtype`` a part of the schedule's collective has, rounded down: as fit in
    ``nbytes`` where the collective has one part (all-reduce, broadcast, reduce), else that number divided by the ranks,
    also for an all-to-all, whose ``nbytes`` are what a rank sends; 1 for a barrier.

    Where parts have sizes of their own, their numbers of values follow from these, and the result plays no part.

    Raises:
        ConfigError: ``dtype`` is none of ``DTYPES``.
    """
    if dtype not in DTYPES:
        raise ConfigError(f"dtype {dtype!r}: expected one of {', '.join(DTYPES)}")
    wanted, whole = schedule.collective, int(nbytes // DTYPES[dtype].itemsize)
    if wanted.kind == "barrier":
        return 1
    return whole if wanted.rule.parts == "one" else whole // wanted.ranks


def try_schedule(
    schedule: Schedule,
    fabric: Fabric,
    dtype: str,
    values: int,
    *,
    rounds: int = 5,
    seed: int = 0,
    timeout: float = 120.0,
) -> ScheduleTrial:
    """Execute a verified schedule in as many processes of this host as it has ranks, and return results (compared with
    those of ``torch.distributed``) and times, each the median over rounds of the slowest rank's seconds; NaN with 0
    rounds.

    Args:
        schedule: what is executed.
        fabric: on which it is verified again in each process.
        dtype: name of the type of the values, of ``DTYPES``.
        values: number of values of a part, as :func:`values_of` counts them.
        rounds: executions that are timed, each beside one of ``torch.distributed``'s own.
        seed: seed of the inputs.
        timeout: seconds for everything.

    Raises:
        ConfigError: more ranks than 64 (``MOST_RANKS``).
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
    return ScheduleTrial(
        content=movement.digest.hex()[:16],
        dtype=dtype,
        values=max(result["values"] for result in results),
        padding=results[0]["padding"],
        messages=len(movement.source),
        same_bits=all(result["same_bits"] for result in results),
        error_over_bound=max(result["error_over_bound"] for result in results),
        seconds=float(np.median(slowest["ours"])),
        reference_seconds=float(np.median(slowest["theirs"])),
    )
