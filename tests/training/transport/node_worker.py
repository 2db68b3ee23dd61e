"""What torchrun runs on each of two nodes: train and save, or resume and lose a rank. No rank is told its address."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from lightloom import exchange
from lightloom.core.errors import LightloomError
from lightloom.exchange.compression.inceptionn import Inceptionn
from lightloom.exchange.hooks import InceptionnState, attach_inceptionn
from tests.training.hooks.workers import backward, loss_of, net

METHODS = (
    "inceptionn",
    "int4:block=128,feedback",
    "powersgd:rank=1",
    "topk:share=0.1",
    "diloco:every=2,inner=(int4:block=128,feedback)",
)
"""Methods whose state is more than the weights; the first one is the hook of training.hooks."""
SAVED_AT, STEPS = 3, 6
VICTIM = 3
TIMEOUT = 60.0


class Stateful(Protocol):
    """State of a hook."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None: ...

    def close(self) -> None: ...


class Run:
    """Training by one method on one rank."""

    def __init__(self, method: str, rank: int) -> None:
        self.rank, self.net = rank, net()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1, momentum=0.9)
        self.state: Any
        self.model: nn.Module = self.net
        if method.startswith("diloco"):
            self.state = exchange.periodic(self.net, self.optimizer, method, hook=True)
            return
        ddp = self.model = DistributedDataParallel(self.net, bucket_cap_mb=0.005)
        if method == "inceptionn":
            self.state = attach_inceptionn(ddp, Inceptionn(bound=2**-6), adaptive=False, timeout=TIMEOUT)
        else:
            self.state = exchange.attach(ddp, method, adaptive=False, timeout=TIMEOUT)

    def train(self, steps: range) -> None:
        for step in steps:
            self.optimizer.zero_grad()
            backward(loss_of(self.model, self.rank, step))
            self.optimizer.step()

    def save(self, path: Path) -> None:
        parts = {"net": self.net, "optimizer": self.optimizer, "state": self.state}
        torch.save({name: part.state_dict() for name, part in parts.items()}, path)

    def load(self, path: Path) -> None:
        saved = torch.load(path, weights_only=True)
        for name, part in {"net": self.net, "optimizer": self.optimizer, "state": self.state}.items():
            part.load_state_dict(saved[name])

    def digest(self) -> str:
        data = b"".join(parameter.detach().numpy().tobytes() for parameter in self.net.parameters())
        return hashlib.sha256(data).hexdigest()


def train(folder: Path, rank: int, *, resume: bool) -> dict[str, str]:
    """Digests of the weights after all steps, by method; a checkpoint is written, or read, on the way."""
    digests = {}
    for number, method in enumerate(METHODS):
        path, run = folder / f"{number}-{rank}.pt", Run(method, rank)
        if resume:
            run.load(path)
        else:
            run.train(range(SAVED_AT))
            run.save(path)
        run.train(range(SAVED_AT, STEPS))
        digests[method] = run.digest()
        run.state.close()
    return digests


def addresses(rank: int) -> list[str]:
    """This rank's own address and that of the next rank of the ring."""
    state = Run("inceptionn", rank).state
    assert isinstance(state, InceptionnState)
    ring = state._exchanger.group.ring()
    assert ring is not None
    data = ring.mesh.channel(ring.next).data
    found = [data.getsockname()[0], data.getpeername()[0]]
    state.close()
    return found


def lose_a_rank(rank: int) -> dict[str, Any]:
    """What the others are told, and after how many seconds, when a rank is killed in the middle of a method."""
    run = Run(METHODS[0], rank)
    run.train(range(2))
    if rank == VICTIM:
        os.kill(os.getpid(), signal.SIGKILL)
    began = time.monotonic()
    try:
        run.train(range(2, 10_000))
    except LightloomError as error:
        return {"words": f"{type(error).__name__}: {error}", "seconds": time.monotonic() - began}
    return {"words": "nothing", "seconds": time.monotonic() - began}


def main(folder: Path, phase: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    result: dict[str, Any] = {"digests": train(folder, rank, resume=phase == "resume")}
    if phase == "resume":
        (folder / f"{phase}-{rank}.json").write_text(json.dumps(result))
        dist.barrier()
        result["death"] = lose_a_rank(rank)
    else:
        result["addresses"] = addresses(rank)
    (folder / f"{phase}-{rank}.json").write_text(json.dumps(result))
    if phase == "resume":
        time.sleep(3)  # until the others have been told too
        os._exit(1)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
