"""Laws of exchangers, tried in real processes; each function is called in every rank and returns what to compare."""

from __future__ import annotations

import hashlib
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from lightloom.exchange.distributed.exchanger import Exchanger
from lightloom.exchange.distributed.factory import exchanger
from lightloom.exchange.distributed.geometry import Geometry
from lightloom.exchange.distributed.group import OwnGroup
from lightloom.exchange.method import Gradient
from lightloom.exchange.registry import find

SHAPES = {"w": (96, 200), "b": (200,), "v": (200, 24), "c": (3,)}
STEPS = 6


def geometry(order: tuple[str, ...] = ("w", "b", "v", "c")) -> Geometry:
    """Tensors one after another."""
    tensors, offset = [], 0
    for name in order:
        tensors.append((name, offset, SHAPES[name]))
        offset += torch.Size(SHAPES[name]).numel()
    return Geometry.whole(tensors, offset)


def gradients(rank: int, steps: int = STEPS) -> Tensor:
    """Gradients of a rank, step by step: Gaussian, of sizes that differ between tensors; [steps, values]."""
    generator = torch.Generator().manual_seed(11 + rank)
    sizes = torch.cat([torch.full(shape, 10.0**-k).flatten() for k, shape in enumerate(SHAPES.values())])
    return torch.randn(steps, sizes.numel(), generator=generator) * sizes


def made(method: str, timeout: float = 60.0) -> Exchanger:
    """A new exchanger of the default group."""
    group = dist.group.WORLD
    assert group is not None
    return exchanger(find(method), OwnGroup(group, timeout))


def run(method: str, values: Tensor, where: Geometry) -> tuple[Tensor, Exchanger]:
    """Average each row of ``values`` over ranks."""
    instance = made(method)
    rows = values.clone()
    for row in rows:
        instance.average(row, where)
    return rows, instance


def digest(values: Tensor) -> str:
    """SHA-256 of the bits."""
    return hashlib.sha256(values.contiguous().numpy().tobytes()).hexdigest()


def _moved(values: Tensor, order: tuple[str, ...], new: tuple[str, ...]) -> Tensor:
    """Put the tensors in each row of ``values`` into another order."""
    sizes = [torch.Size(SHAPES[name]).numel() for name in order]
    parts = dict(zip(order, torch.split(values, sizes, dim=1), strict=True))
    return torch.cat([parts[name] for name in new], dim=1)


def laws(worker: Any) -> dict[str, dict[str, Any]]:
    """Try ``worker.arguments["methods"]`` one after the other."""
    torch.set_num_threads(1)
    return {method: _laws_of(method, worker) for method in worker.arguments["methods"]}


def _laws_of(method: str, worker: Any) -> dict[str, Any]:
    where, own = geometry(), gradients(worker.rank)
    everyone = torch.stack([gradients(rank) for rank in range(worker.size)])
    mean = everyone.mean(0)
    averaged, instance = run(method, own, where)
    sent = instance.group.sent / STEPS
    planned = instance.method.sent_bytes(Gradient(tuple(SHAPES.values())), worker.size)
    lost = torch.zeros_like(own[0])
    if instance.residuals is not None:
        lost = instance.residuals.buffer(where).clone()
        dist.all_reduce(lost)
    # With feedback, what was applied and what is left add up to what was brought.
    applied = averaged.double().sum(0) * worker.size + lost.double()
    conserved = float((applied - everyone.double().sum((0, 1))).abs().max() / everyone.abs().max())
    # Resume after half of the steps, with tensors in another order.
    half, first = STEPS // 2, made(method)
    for row in own[:half].clone():
        first.average(row, where)
    second = made(method)
    second.load_state_dict(first.state_dict())
    order = ("v", "c", "b", "w")
    resumed, elsewhere = _moved(own[half:], tuple(SHAPES), order), geometry(order)
    for row in resumed:
        second.average(row, elsewhere)
    resumed = _moved(resumed, order, tuple(SHAPES))
    scaled, third = run(method, own[:2] * 2.0**-5, where)
    for each in (instance, first, second, third):
        each.close()
    return {
        "digest": digest(averaged),
        "error": float((averaged[0] - mean[0]).norm() / mean[0].norm()),
        "conserved": conserved,
        "resumed": torch.equal(resumed, averaged[half:]),
        "scale_free": torch.equal(scaled * 2.0**5, averaged[:2]),
        "sent": sent,
        "planned": planned,
    }
