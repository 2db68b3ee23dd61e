"""What the worker processes of the optical averaging tests do; each function runs in every rank of a gloo group."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributed import ProcessGroup, new_group
from torch.nn.parallel import DistributedDataParallel

from lightloom.core.errors import ConfigError, InputError
from lightloom.exchange.distributed.ddp import average_hook
from lightloom.exchange.hooks import OpticalAverageState, attach_optical_average
from lightloom.exchange.transport.worker import Worker
from lightloom.photonics.averaging.averagers import (
    TABLE_II_ERRORS,
    ErringAverager,
    ErrorDistribution,
    IdealAverager,
)
from tests.training.hooks import workers
from tests.training.hooks.optical_reference import emulated, reference_mean

SIZES = (700, 3, 256, 1, 61)
STEPS = 4
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"rounding": "floor"},
    {"bits": 8, "block": 32},
    {"bits": 2, "block": 1000, "rounding": "floor"},
    {"bits": 17, "block": 7},
    {"bits": 32, "block": 64},
)


def gradients(rank: int, draw: int) -> np.ndarray:
    """Values of all sizes, zeros and subnormals among them; another set for each rank."""
    rng = np.random.default_rng((draw, rank))
    size = sum(SIZES)
    values = rng.standard_normal(size) * 2.0 ** rng.integers(-150, 120, size)
    values[rng.random(size) < 0.2] = 0.0
    values[300:900] = rng.standard_normal(600) * 0.01
    values[950:] = 0.0
    return values.astype(np.float32)


class Bucket:
    """As DDP hands it to its hook."""

    def __init__(self, values: Tensor, sizes: tuple[int, ...], last: bool = True) -> None:
        self._values, self._last = values, last
        self._gradients = list(torch.split(values, list(sizes)))

    def buffer(self) -> Tensor:
        return self._values

    def gradients(self) -> list[Tensor]:
        return self._gradients

    def parameters(self) -> list[Tensor]:
        return self._gradients

    def is_last(self) -> bool:
        return self._last


def everything(worker: Worker) -> dict[str, Any]:
    """All that a healthy group shows."""
    runs = (exact, trained, unfit, noisy, refused, half_precision)
    return {run.__name__: run(worker) for run in runs}


def exact(worker: Worker, group: ProcessGroup | None = None) -> dict[str, Any]:
    """The hook's bits for every set of options; on rank 0 also how many differ from the plain reference."""
    wrong, digests, counts = [], [], []
    everyone = [gradients(rank, 5) for rank in range(worker.size if group is None else group.size())]
    for options in OPTIONS:
        state = OpticalAverageState(**options, process_group=group)
        values = torch.from_numpy(everyone[worker.rank].copy())
        found = average_hook(state, Bucket(values, SIZES)).wait()
        if worker.rank == 0:
            due = reference_mean(everyone, SIZES, **options)
            wrong.append(int((found.numpy().view(np.int32) != due.view(np.int32)).sum()))
        digests.append(hashlib.sha256(found.numpy().tobytes()).hexdigest())
        total = state.statistics.total
        counts.append([total.nbytes_up, total.nbytes_down, total.nbytes_exponents, total.nbytes_sent])
        state.close()
    return {"wrong": wrong, "digests": digests, "counts": counts}


def trained(worker: Worker, group: ProcessGroup | None = None) -> dict[str, Any]:
    """DDP steps with several buckets beside the same steps emulated in rank 0 alone."""
    model = workers.wrapped(group=group)
    state = attach_optical_average(model, bits=8, block=16)
    losses = workers.train(model, workers.sgd(model), worker.rank, range(STEPS))
    found = workers.digest(model)
    buckets = [step.buckets for step in state.statistics.steps]
    state.close()
    ranks = worker.size if group is None else group.size()
    return {
        "losses": losses,
        "digest": found,
        "emulated": emulated(ranks, STEPS, bits=8, block=16) if worker.rank == 0 else None,
        "buckets": buckets,
    }


def unfit(worker: Worker) -> list[str]:
    """What every rank is told when one has a gradient that no code can hold; afterwards the hook works on."""
    state = OpticalAverageState()
    said = []
    for odd in (np.nan, -np.inf, 2.0**127):
        said.append("")
        first, last = np.ones(600, np.float32), np.ones(5, np.float32)
        if worker.rank == worker.size - 1:
            first[301] = odd
        earlier = state.average(Bucket(torch.from_numpy(first), (600,), last=False))  # type: ignore[arg-type]
        try:
            state.average(Bucket(torch.from_numpy(last), (5,)))  # type: ignore[arg-type]
        except InputError as error:
            said[-1] = str(error)
        try:
            earlier.wait()
            said[-1] = "nothing"
        except RuntimeError:
            pass
        ones = average_hook(state, Bucket(torch.ones(5), (5,))).wait()
        said[-1] += "" if bool((ones == 1.0).all()) else " and broke"
    state.close()
    return said


def noisy(worker: Worker) -> dict[str, Any]:
    """Errors at a stated rate; a state restored from a checkpoint errs as the first one did."""
    errors = ErrorDistribution(rate=0.01, shares=((3, 75.0), (-1, 25.0)))
    size = 200_000

    def one(state: OpticalAverageState) -> np.ndarray:
        values = torch.full((size,), 0.25)
        average_hook(state, Bucket(values, (size,))).wait()
        return values.numpy()

    state = OpticalAverageState(ErringAverager(IdealAverager(worker.size, 16, "half-up"), errors, seed=worker.rank))
    found = [one(state)]
    checkpoint = state.state_dict()
    found.append(one(state))
    del checkpoint["ranks"]  # as the first exchanges by name wrote it
    state.load_state_dict(checkpoint)
    again = one(state)
    state.close()
    steps = np.round((found[0] - 0.25) * 2.0**16).astype(int)
    named = OpticalAverageState("table2:3-6", seed=1)
    average_hook(named, Bucket(torch.full((size,), 0.25), (size,))).wait()
    named.close()
    return {
        "errors": {str(each): int((steps == each).sum()) for each in np.unique(steps)},
        "digest": hashlib.sha256(found[0].tobytes()).hexdigest(),
        "again": bool((again == found[1]).all()),
        "differs": bool((found[0] != found[1]).any()),
        "rate": TABLE_II_ERRORS["3-6"].rate,
        "size": size,
    }


def refused(worker: Worker) -> list[str]:
    """Averagers for something else, checkpoints of something else."""
    said = []
    state = OpticalAverageState()
    attempts = (
        lambda: OpticalAverageState(IdealAverager(worker.size + 1, 16)),
        lambda: OpticalAverageState(IdealAverager(worker.size, 8), bits=16),
        lambda: OpticalAverageState(bits=1),
        lambda: OpticalAverageState(block=0),
        lambda: state.load_state_dict({"ranks": worker.size + 1}),
        lambda: OpticalAverageState("perfect"),
    )
    for attempt in attempts:
        try:
            attempt()
            said.append("nothing")
        except (ConfigError, InputError) as error:
            said.append(str(error))
    state.close()
    return said


def half_precision(worker: Worker) -> dict[str, Any]:
    """bfloat16 gradients stay what they are, and replicas alike."""
    model = DistributedDataParallel(nn.Linear(20, 3).to(torch.bfloat16))
    state = attach_optical_average(model)
    x, y = workers.batch(worker.rank, 0)
    workers.backward(nn.functional.cross_entropy(model(x.to(torch.bfloat16)).float(), y))
    found = [p.grad for p in model.parameters() if p.grad is not None]
    state.close()
    flat = torch.cat([each.flatten().float() for each in found])
    return {"dtype": str(found[0].dtype), "digest": hashlib.sha256(flat.numpy().tobytes()).hexdigest()}


def single(worker: Worker) -> dict[str, Any]:
    """What rank 0 computes in a group of its own."""
    group = new_group([0])
    if worker.rank != 0:
        return {}
    return {"exact": exact(worker, group), "trained": trained(worker, group)}


def lost(worker: Worker) -> str:
    """A rank that leaves is an error of the others, not a wait."""
    state = OpticalAverageState(timeout=20.0)
    average_hook(state, Bucket(torch.ones(9), (9,))).wait()
    if worker.rank == 1:
        workers_end()
    try:
        average_hook(state, Bucket(torch.ones(9), (9,)))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


def workers_end() -> None:
    """As a crash does."""
    import os
    import signal

    os.kill(os.getpid(), signal.SIGKILL)
