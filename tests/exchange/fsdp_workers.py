"""FSDP2 with exchanges in place of its collectives; called in every rank of a group of four."""

from __future__ import annotations

import hashlib
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

from lightloom import exchange
from lightloom.core.errors import LightloomError
from lightloom.exchange.transport.worker import Worker
from tests import imported_by_ranks  # noqa: F401

NODE = 2


def net(mesh: DeviceMesh | None = None, *, reshard: bool = False, **options: Any) -> nn.Module:
    """Three layers, two sharded by themselves; no size is a multiple of the number of ranks.

    Unless ``reshard``, parameters stay gathered until the gradients are there, which saves two gathers each step.
    """
    torch.manual_seed(11)
    model = nn.Sequential(nn.Linear(15, 21), nn.Tanh(), nn.Linear(21, 18), nn.Tanh(), nn.Linear(18, 7))
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh, reshard_after_forward=reshard, **options)
    return model


def backward(model: nn.Module, step: int, scale: float = 1.0) -> float:
    """Compute the gradients of a batch of this rank's own."""
    generator = torch.Generator().manual_seed(1000 * step + dist.get_rank())
    x, y = torch.randn(12, 15, generator=generator), torch.randn(12, 7, generator=generator) * 0.1
    loss = (model(x).float() - y).square().mean()
    (loss * scale).backward()
    return float(loss.detach())


def shards(model: nn.Module, *, gradients: bool) -> Tensor:
    """This rank's part of all weights or gradients, flat."""
    tensors = [p.grad if gradients else p for p in model.parameters()]
    return torch.cat([t.to_local().detach().reshape(-1).clone() for t in tensors if isinstance(t, DTensor)])


def digest(values: Tensor) -> str:
    """Hash of values."""
    return hashlib.sha256(values.numpy().tobytes()).hexdigest()


class Meshes:
    """Meshes and groups of a run, made once."""

    def __init__(self, size: int) -> None:
        self.flat = init_device_mesh("cpu", (size,))
        self.nodes = init_device_mesh("cpu", (size // NODE, NODE), mesh_dim_names=("between", "inside"))

    def model(self, *, hybrid: bool, **options: Any) -> nn.Module:
        """A network, sharded over all ranks or inside nodes."""
        return net(self.nodes["inside"] if hybrid else self.flat, **options)

    def attach(self, model: nn.Module, text: str, *, hybrid: bool, **options: Any) -> exchange.FsdpState:
        """Attach an exchange."""
        between = self.nodes.get_group("between") if hybrid else None
        return exchange.attach_fsdp(model, text, between=between, **{"adaptive": False, **options})


def run(meshes: Meshes, text: str, *, hybrid: bool) -> dict[str, Any]:
    """Gradients beside FSDP2's own, under a loss scale, resumed; weights after five steps."""
    stock, ours, scaled = (
        meshes.model(hybrid=False),
        meshes.model(hybrid=hybrid, reshard=True),
        meshes.model(hybrid=hybrid),
    )
    state = meshes.attach(ours, text, hybrid=hybrid)
    other = meshes.attach(scaled, text, hybrid=hybrid, loss_scale=lambda: 2.0**12)
    backward(stock, 0)
    backward(ours, 0)
    backward(scaled, 0, 2.0**12)
    own = shards(ours, gradients=True)
    same = torch.equal(own, shards(scaled, gradients=True) * 2.0**-12)
    exact = _whole(stock)
    error = float((_whole(ours) - exact).norm() / exact.norm())
    other.close()
    optimizer = torch.optim.SGD(ours.parameters(), 0.2)
    losses, saved = [], {}
    for step in range(5):
        if step == 3:
            saved = {"model": ours.state_dict(), "exchange": state.state_dict()}
            saved = {"model": {k: v.clone() for k, v in saved["model"].items()}, "exchange": saved["exchange"]}
        optimizer.zero_grad()
        losses.append(backward(ours, step))
        nn.utils.clip_grad_norm_(ours.parameters(), 5.0)
        optimizer.step()
    again = meshes.model(hybrid=hybrid)
    again.load_state_dict(saved["model"])
    resumed = meshes.attach(again, text, hybrid=hybrid)
    resumed.load_state_dict(saved["exchange"])
    optimizer = torch.optim.SGD(again.parameters(), 0.2)
    for step in range(3, 5):
        optimizer.zero_grad()
        backward(again, step)
        nn.utils.clip_grad_norm_(again.parameters(), 5.0)
        optimizer.step()
    result = {
        "error": error,
        "scaled": same,
        "weights": digest(shards(ours, gradients=False)),
        "resumed": torch.equal(shards(again, gradients=False), shards(ours, gradients=False)),
        "losses": losses,
        "steps": state.statistics.step_count,
        "buckets": state.statistics.total.buckets,
        "ratio": state.statistics.total.ratio,
    }
    state.close()
    resumed.close()
    return result


def aside(meshes: Meshes, *, hybrid: bool) -> float:
    """Coarse exchanges, then plain ones: relative error of the sum of all averages, as residuals are given back."""
    model, stock = meshes.model(hybrid=hybrid), meshes.model(hybrid=False)
    state = meshes.attach(model, "lloyd2", hybrid=hybrid, adaptive=True)
    assert state.adaptive is not None
    for step in range(4):
        state.adaptive.use_plain = state.adaptive._decided_plain = step == 3
        for one in (model, stock):
            backward(one, step)
    state.close()
    exact = _whole(stock)
    return float((_whole(model) - exact).norm() / exact.norm())


def reduced(meshes: Meshes, reduce: str, *, hybrid: bool) -> list[float]:
    """Losses with bfloat16 parameters."""
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=getattr(torch, reduce))
    losses = []
    model: Any = meshes.model(hybrid=hybrid, mp_policy=policy)
    state = meshes.attach(model, "int8", hybrid=hybrid)
    optimizer = torch.optim.SGD(model.parameters(), 0.2)
    for step in range(6):
        model.set_requires_gradient_sync(step % 2 == 1)  # every second step accumulates
        losses.append(backward(model, step))
        if step % 2:
            optimizer.step()
            optimizer.zero_grad()
    state.close()
    return losses


def refused(meshes: Meshes) -> list[str]:
    """What cannot be done, in the words that the user reads."""
    lines = []

    def attempt(model: nn.Module, text: str = "int4", **options: Any) -> None:
        try:
            exchange.attach_fsdp(model, text, **options)
            backward(model, 0)
        except LightloomError as error:
            lines.append(str(error))

    attempt(nn.Linear(3, 3))
    attempt(net(meshes.nodes))
    attempt(meshes.model(hybrid=False), "topk")
    attempt(meshes.model(hybrid=False), "diloco")
    return lines


def _whole(model: nn.Module) -> Tensor:
    """All gradients, flat."""
    parts = [p.grad.full_tensor().reshape(-1) for p in model.parameters() if isinstance(p.grad, DTensor)]
    return torch.cat(parts).double()


def everything(worker: Worker) -> dict[str, Any]:
    """All results."""
    meshes = Meshes(worker.size)
    return {
        "flat": {text: run(meshes, text, hybrid=False) for text in worker.arguments["flat"]},
        "hybrid": {text: run(meshes, text, hybrid=True) for text in worker.arguments["hybrid"]},
        "aside": [aside(meshes, hybrid=hybrid) for hybrid in (False, True)],
        "reduced": [reduced(meshes, dtype, hybrid=mesh == "hybrid") for mesh, dtype in worker.arguments["reduced"]],
        "refused": refused(meshes),
    }
