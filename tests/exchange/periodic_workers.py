"""Training runs whose ranks agree on weights every so many steps; called in every rank."""

from __future__ import annotations

import hashlib
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from lightloom import exchange
from lightloom.core.errors import LightloomError
from lightloom.exchange.transport.worker import Worker
from tests.launched import can_shard

RATE = 0.1
_WIDEST = torch.complex64 if can_shard() else torch.float32


class Net(nn.Module):
    """A convolution in another memory format, a matrix (complex where gloo can send it), a frozen one, a batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, 4, 3)
        self.first.weight.data = self.first.weight.data.contiguous(memory_format=torch.channels_last)
        self.norm = nn.BatchNorm2d(4)
        self.turn = nn.Parameter(torch.randn(36, 5, dtype=_WIDEST) / 6)
        self.frozen = nn.Parameter(torch.randn(5), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.norm(self.first(x.view(-1, 2, 5, 5)))).flatten(1)
        out: Tensor = (hidden.to(_WIDEST) @ self.turn).abs() + self.frozen
        return out


def net(seed: int) -> Net:
    """A network, its weights from a seed."""
    torch.manual_seed(seed)
    return Net()


def one_step(model: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> float:
    """Train on a batch of this rank's own."""
    generator = torch.Generator().manual_seed(100 * step + dist.get_rank())
    x, y = torch.randn(8, 50, generator=generator), torch.rand(8, 5, generator=generator)
    optimizer.zero_grad()
    loss = (model(x) - y).square().mean()
    loss.backward()
    optimizer.step()
    return float(loss.detach())


def weights(model: nn.Module) -> Tensor:
    """All trainable weights, flat."""
    trained = [p.detach() for p in model.parameters() if p.requires_grad]
    return torch.cat([(torch.view_as_real(p) if p.is_complex() else p).reshape(-1) for p in trained])


def digest(model: nn.Module) -> str:
    """Hash of the trainable weights."""
    return hashlib.sha256(weights(model).numpy().tobytes()).hexdigest()


def every_step(text: str) -> float:
    """Largest difference of the weights from those of DDP, after four steps of SGD, each exchanged."""
    plain, own = net(3), net(3 + dist.get_rank())
    ddp = DistributedDataParallel(plain)
    ddp_optimizer = torch.optim.SGD([p for p in plain.parameters() if p.requires_grad], RATE)
    optimizer = torch.optim.SGD([p for p in own.parameters() if p.requires_grad], RATE)
    outer = exchange.periodic(own, optimizer, text, hook=True)
    for step in range(4):
        one_step(ddp, ddp_optimizer, step)
        one_step(own, optimizer, step)
    outer.close()
    return float((weights(own) - weights(plain)).abs().max())


def training(text: str) -> dict[str, Any]:
    """Digests of the weights and whether something was exchanged, by step; the same resumed in the middle."""
    model = net(5)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], 0.01)
    outer = exchange.periodic(model, optimizer, text)
    saved: dict[str, Any] = {}
    steps, exchanged, losses = [], [], []
    for step in range(12):
        losses.append(one_step(model, optimizer, step))
        exchanged.append(outer.step())
        steps.append(digest(model))
        if step == 6:
            saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "outer": outer.state_dict()}
            saved = torch.load(_stored(saved), weights_only=True)
    again = net(17)
    optimizer = torch.optim.Adam([p for p in again.parameters() if p.requires_grad], 0.01)
    resumed = exchange.periodic(again, optimizer, text)
    for name, part in (("model", again), ("optimizer", optimizer), ("outer", resumed)):
        part.load_state_dict(saved[name])
    for step in range(7, 12):
        one_step(again, optimizer, step)
        resumed.step()
    total = outer.statistics.total
    outer.close()
    resumed.close()
    return {
        "steps": steps,
        "exchanged": exchanged,
        "resumed": digest(again),
        "losses": losses,
        "sent": total.nbytes_sent,
        "exchanges": total.buckets,
    }


def _stored(state: dict[str, Any]) -> Any:
    """A file in memory with the state."""
    from io import BytesIO

    file = BytesIO()
    torch.save(state, file)
    file.seek(0)
    return file


def refusals() -> list[str]:
    """What is refused, in one line each."""
    model = net(1)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], RATE)
    lines = []
    for wrapped, text in ((model, "int4"), (DistributedDataParallel(model), "diloco"), (model, "diloco:every=0")):
        try:
            exchange.periodic(wrapped, optimizer, text)
        except LightloomError as error:
            lines.append(str(error))
    outer = exchange.periodic(model, optimizer, "diloco:every=3")
    for state in ({}, {**outer.state_dict(), "backup/turn": torch.zeros(3)}):
        try:
            outer.load_state_dict(state)
        except LightloomError as error:
            lines.append(str(error))
    outer.close()
    return lines


def everything(worker: Worker) -> dict[str, Any]:
    """All results."""
    return {
        "every step": {text: every_step(text) for text in worker.arguments["every step"]},
        "training": {text: training(text) for text in worker.arguments["periodic"]},
        "refusals": refusals(),
    }
