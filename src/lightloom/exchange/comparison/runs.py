"""Training runs of a comparison, in the processes of one launch."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from lightloom.core.files import write_atomically
from lightloom.core.provenance import content_hash
from lightloom.exchange.comparison.tasks import Task, task
from lightloom.exchange.distributed.ddp import ExchangeState, attach
from lightloom.exchange.distributed.periodic import Periodic, periodic
from lightloom.exchange.method import Gradient
from lightloom.exchange.methods.plain import PlainExchange
from lightloom.exchange.registry import find
from lightloom.training.transport.worker import Worker

REFERENCE = "reference"
"""In place of a method: DDP without any hook."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A training run: what is trained, how gradients are exchanged, and from which seed."""

    task: str
    method: str
    """A method's full name, or ``REFERENCE``."""
    seed: int
    steps: int
    ranks: int
    gradient_scale: float = 1.0
    """Gradients are multiplied by it before the exchange, and divided afterwards."""

    @property
    def file(self) -> str:
        """Name of the file that holds the result."""
        return f"{content_hash(asdict(self))[:16]}.json"


@dataclass(slots=True)
class Result:
    """What a run showed; lists have an entry for each validation."""

    case: Case
    steps: list[int] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    """Mean validation loss, nats."""
    sent_bytes: float = 0.0
    """Bytes that a rank sent for each step, mean over ranks."""
    raw_bytes: float = 0.0
    """Bytes that a ring all-reduce of float32 sends."""
    replicas_equal: bool = False
    digest: str = ""
    """SHA-256 of the final parameters of rank 0."""
    step_seconds: float = 0.0
    """Mean processor time of a step of one rank, exchange over the loopback device included."""


def read(path: Path) -> Result | None:
    """Return a stored result; None if there is none or it is incomplete."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        stored = json.loads(path.read_text(encoding="utf-8"))
        return Result(**{**stored, "case": Case(**stored["case"])})
    return None


def train_all(worker: Worker) -> int:
    """Run ``worker.arguments['cases']`` one after the other; rank 0 writes each result into ``folder``."""
    torch.set_num_threads(1)
    folder, data = Path(worker.arguments["folder"]), worker.arguments.get("data")
    tasks: dict[str, Task] = {}
    for fields in worker.arguments["cases"]:
        case = Case(**fields)
        if case.task not in tasks:
            tasks[case.task] = task(case.task, Path(data) if data else None)
        result = train(tasks[case.task], case, worker.rank)
        if worker.rank == 0:
            write_atomically(folder / case.file, json.dumps(asdict(result)))
    return len(worker.arguments["cases"])


def train(job: Task, case: Case, rank: int) -> Result:
    """Train one case; all ranks of the default process group call it."""
    torch.manual_seed(case.seed)
    model = job.model()
    method = None if case.method == REFERENCE else find(case.method)
    alone = method is not None and not method.synchronous
    replica = model if alone else DistributedDataParallel(model)
    optimizer, result, seconds = job.optimizer(model), Result(case), []
    state: ExchangeState | Periodic | None = None
    if isinstance(replica, DistributedDataParallel):
        state = None if method is None else attach(replica, method, adaptive=False)
    elif method is not None:
        state = periodic(model, optimizer, method)
    chance = np.random.default_rng((case.seed, rank))
    for step in range(1, case.steps + 1):
        began = time.process_time()
        optimizer.zero_grad()
        (job.loss(replica, chance) * case.gradient_scale).backward()  # type: ignore[no-untyped-call]
        if case.gradient_scale != 1.0:
            for parameter in model.parameters():
                assert parameter.grad is not None
                parameter.grad /= case.gradient_scale
        optimizer.step()
        if isinstance(state, Periodic):
            state.step()
        seconds.append(time.process_time() - began)
        if step % job.every == 0 or step == case.steps:
            result.steps.append(step)
            result.loss.append(_validation(job, model, rank, case.ranks))
    result.step_seconds = float(np.mean(seconds))
    values = sum(parameter.numel() for parameter in model.parameters())
    result.raw_bytes = PlainExchange().sent_bytes(Gradient.flat(values), case.ranks)
    result.sent_bytes = result.raw_bytes
    if state is not None:
        sent = torch.tensor(state.statistics.total.nbytes_sent / case.steps / case.ranks, dtype=torch.float64)
        dist.all_reduce(sent)
        result.sent_bytes = float(sent)
        state.close()
    digest = hashlib.sha256(torch.cat([p.detach().flatten() for p in model.parameters()]).numpy().tobytes()).hexdigest()
    digests: list[Any] = [torch.zeros(32, dtype=torch.uint8) for _ in range(case.ranks)]
    dist.all_gather(digests, torch.frombuffer(bytearray.fromhex(digest), dtype=torch.uint8))
    result.digest = digest
    result.replicas_equal = all(torch.equal(digests[0], other) for other in digests)
    return result


def _validation(job: Task, model: torch.nn.Module, rank: int, ranks: int) -> float:
    with torch.no_grad():
        total = torch.tensor(job.validate(model, rank, ranks), dtype=torch.float64)
    dist.all_reduce(total)
    return float(total[0] / total[1])


def cases(
    job: str, methods: Sequence[str], seeds: int, ranks: int, steps: int, gradient_scale: float = 1.0
) -> list[Case]:
    """Return the runs of a comparison, seed by seed, the reference first.

    Raises:
        ConfigError: a method's name cannot be read.
    """
    spelled = [REFERENCE, *(find(method).name for method in methods)]
    return [
        Case(task=job, method=method, seed=seed, steps=steps, ranks=ranks, gradient_scale=gradient_scale)
        for seed in range(seeds)
        for method in dict.fromkeys(spelled)
    ]
