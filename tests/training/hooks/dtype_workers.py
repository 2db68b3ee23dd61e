"""Hooks and the types of gradients: complex ones are exchanged whole, float64 ones exactly or not at all."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from lightloom.core.errors import LightloomError
from lightloom.exchange.compression.inceptionn import Inceptionn
from lightloom.exchange.distributed.ddp import average_hook
from lightloom.exchange.hooks import (
    InceptionnState,
    attach_inceptionn,
    attach_inceptionn_fsdp,
    attach_optical_average,
    attach_schedule,
)
from lightloom.exchange.transport.worker import Worker
from tests.launched import can_shard
from tests.training.hooks.workers import backward
from tests.training.schedules.execution_workers import synthesized_all_reduce

HUGE = 1e60
"""A gradient that float64 holds and float32 does not."""
CODEC = Inceptionn(bound=2**-10)


class Mixed(nn.Module):
    """Three parameters of one type and one of float32, none of a size that ranks divide."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Parameter(torch.randn(7, dtype=dtype))
        self.second = nn.Parameter(torch.randn(5, 3, dtype=dtype))
        self.third = nn.Parameter(torch.randn(1, dtype=dtype))
        self.real = nn.Parameter(torch.randn(4))

    def forward(self, x: Tensor) -> Tensor:
        turned = (self.first.sum() * x[0]) * (self.second * x[1]).sum() * self.third.sum()
        loss: Tensor = turned.abs().float() + (self.real * x.real.float()).square().sum()
        return loss


def gradients(model: nn.Module) -> list[Tensor]:
    found = []
    for parameter in model.parameters():
        gradient = parameter.grad
        assert gradient is not None
        gradient = gradient.full_tensor() if isinstance(gradient, DTensor) else gradient
        found.append(gradient.detach().clone())
    return found


def draw(rank: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(4, dtype=dtype, generator=torch.Generator().manual_seed(rank))


def digest(tensors: list[Tensor]) -> str:
    whole = b"".join((torch.view_as_real(t) if t.is_complex() else t).contiguous().numpy().tobytes() for t in tensors)
    return hashlib.sha256(whole).hexdigest()


def without_codec(model: DistributedDataParallel) -> InceptionnState:
    state = InceptionnState(None, parameters=model.module.named_parameters(), adaptive=False)
    model.register_comm_hook(state, average_hook)
    return state


def ddp_hooks(worker: Worker) -> dict[str, Callable[[DistributedDataParallel], Any]]:
    """Every hook of DDP, by name."""
    return {
        "inceptionn": lambda model: attach_inceptionn(model, CODEC, adaptive=False),
        "inceptionn without feedback": lambda model: attach_inceptionn(
            model, CODEC, adaptive=False, error_feedback=False
        ),
        "no codec": without_codec,
        "optical": lambda model: attach_optical_average(model, bits=16),
        "schedule": lambda model: attach_schedule(model, synthesized_all_reduce(worker.size)),
    }


def complex_parameters(worker: Worker) -> dict[str, dict[str, Any]]:
    """For every hook, the largest difference to the plain average over two steps, and a digest of the gradients."""
    x = draw(worker.rank, torch.complex64)
    plain = DistributedDataParallel(Mixed(torch.complex64))
    backward(plain(x))
    found = {}
    for name, attach in ddp_hooks(worker).items():
        model = DistributedDataParallel(Mixed(torch.complex64))
        state = attach(model)
        for _ in range(2):
            model.zero_grad()
            backward(model(x))
        pairs = zip(gradients(plain), gradients(model), strict=True)
        worst = max(float((a - b).abs().max()) for a, b in pairs)
        found[name] = {"worst": worst, "digest": digest(gradients(model))}
        state.close()
    return found


def complex_shards(worker: Worker) -> dict[str, Any]:
    """The same under FSDP2."""
    x = draw(worker.rank, torch.complex64)
    plain = DistributedDataParallel(OneType(torch.complex64))
    backward(plain(x))
    model = OneType(torch.complex64)
    fully_shard(model)
    state = attach_inceptionn_fsdp(model, CODEC)
    backward(model(x))
    pairs = zip(gradients(plain), gradients(model), strict=True)
    worst = max(float((a - b).abs().max()) for a, b in pairs)
    state.close()
    return {"worst": worst, "digest": digest(gradients(model))}


class OneType(nn.Module):
    """Parameters of one type, as FSDP2 wants them."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Parameter(torch.randn(7, dtype=dtype))
        self.second = nn.Parameter(torch.randn(5, 3, dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        loss: Tensor = ((self.first.sum() * x[0]) * (self.second * x[1]).sum()).abs()
        return loss


def float64(worker: Worker) -> dict[str, str]:
    """What becomes of a float64 gradient of 1e60, under every hook: ``exact``, or the words of the refusal."""
    found = {}
    for name, attach in ddp_hooks(worker).items():
        model = DistributedDataParallel(nn.Linear(3, 2, bias=False).double())
        found[name] = verdict(model, lambda attach=attach, model=model: attach(model))  # type: ignore[misc]
    if can_shard():
        sharded = nn.Linear(3, 2, bias=False).double()
        fully_shard(sharded)
        found["fsdp"] = verdict(sharded, lambda: attach_inceptionn_fsdp(sharded, CODEC))
    return found


def verdict(model: nn.Module, attach: Callable[[], Any]) -> str:
    x = torch.full((1, 3), HUGE * (1 + dist.get_rank()), dtype=torch.float64)
    average = HUGE * (1 + dist.get_world_size()) / 2
    state = None
    try:
        state = attach()
        backward(model(x).sum())
    except LightloomError as error:
        return f"{type(error).__name__}: {error}"
    finally:
        if state is not None:
            state.close()
    (gradient,) = gradients(model)
    due = torch.full_like(gradient, average, dtype=torch.float64)
    exact = gradient.dtype == torch.float64 and torch.allclose(gradient, due, rtol=1e-15, atol=0)
    return "exact" if exact else f"{gradient.dtype} {gradient.flatten()[0].item()}"


def everything(worker: Worker) -> dict[str, Any]:
    runs = (complex_parameters, complex_shards, float64) if can_shard() else (float64,)
    return {run.__name__: run(worker) for run in runs}
