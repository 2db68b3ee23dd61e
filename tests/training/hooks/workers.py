"""What the worker processes of these tests do; each function runs in every rank of a gloo group."""

from __future__ import annotations

import copy
import hashlib
import os
import signal
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributed import ProcessGroup
from torch.nn.parallel import DistributedDataParallel

from lightloom import exchange
from lightloom.exchange.compression.inceptionn import Inceptionn
from lightloom.exchange.compression.truncation import Truncation
from lightloom.exchange.distributed.ddp import average_hook
from lightloom.exchange.hooks import InceptionnState, attach_inceptionn, attach_optical_average
from lightloom.exchange.transport.channel import TransportError
from lightloom.exchange.transport.worker import Worker

VICTIM = 2
"""The rank that is killed."""
SMALL_BUCKETS = 0.005
"""MB: several buckets for a tiny net."""
STEPS = 12
"""Of training, with the hook and without."""
FAST = 0.4
"""The learning rate with which so few steps bring the loss down to a third."""


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(20, 61), nn.ReLU(), nn.Linear(61, 33), nn.ReLU(), nn.Linear(33, 3))


def batch(rank: int, step: int) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(1000 * step + rank)
    x = torch.randn(32, 20, generator=draw)
    return x, x[:, :3].argmax(1)


def loss_of(model: nn.Module, rank: int, step: int) -> Tensor:
    x, y = batch(rank, step)
    return nn.functional.cross_entropy(model(x), y)


def backward(loss: Tensor) -> None:
    loss.backward()  # type: ignore[no-untyped-call]


def train(
    model: nn.Module, optimizer: torch.optim.Optimizer, rank: int, steps: range, *, clip: float | None = None
) -> list[float]:
    losses = []
    for step in steps:
        optimizer.zero_grad()
        loss = loss_of(model, rank, step)
        backward(loss)
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        losses.append(loss.item())
    return losses


def digest(model: nn.Module) -> str:
    data = b"".join(p.detach().float().numpy().tobytes() for p in model.parameters())
    return hashlib.sha256(data).hexdigest()


def wrapped(module: nn.Module | None = None, group: ProcessGroup | None = None) -> DistributedDataParallel:
    return DistributedDataParallel(module or net(), bucket_cap_mb=SMALL_BUCKETS, process_group=group)


def sgd(model: nn.Module, rate: float = 0.1) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)


def everything(worker: Worker) -> dict[str, Any]:
    """Many small runs in one group."""
    runs = (
        plain,
        compressed,
        exact_ring,
        bfloat16,
        accumulated,
        scaled,
        resumed,
        checkpointed,
        unnamed,
        deciding,
        alternating,
        checkpointed_by_0_1,
        deprecated,
    )
    return {run.__name__: run(worker) for run in runs}


def plain(worker: Worker) -> dict[str, Any]:
    model = wrapped()
    losses = train(model, sgd(model, FAST), worker.rank, range(STEPS))
    return {"losses": losses, "digest": digest(model)}


def compressed(worker: Worker) -> dict[str, Any]:
    model = wrapped()
    state = attach_inceptionn(model, Inceptionn(bound=2**-10), adaptive=False)
    losses = train(model, sgd(model, FAST), worker.rank, range(STEPS), clip=5.0)
    total, steps = state.statistics.total, list(state.statistics.steps)
    state.close()
    return {
        "losses": losses,
        "digest": digest(model),
        "ratio": total.ratio,
        "steps": len(steps),
        "consistent": sum(s.nbytes_sent for s in steps) == total.nbytes_sent and all(s.seconds > 0 for s in steps),
        "buckets": [steps[0].buckets, steps[-1].buckets],
    }


def exact_ring(worker: Worker) -> dict[str, Any]:
    """The hook without a codec against DDP's own all-reduce: largest difference of the first gradients."""
    own, ours = wrapped(), wrapped()
    state = InceptionnState(None, adaptive=False)
    ours.register_comm_hook(state, average_hook)
    for model in (own, ours):
        backward(loss_of(model, worker.rank, 0))
    pairs = zip(own.parameters(), ours.parameters(), strict=True)
    worst = max(float((a.grad - b.grad).abs().max()) for a, b in pairs if a.grad is not None and b.grad is not None)
    state.close()
    return {"worst": worst, "ratio": state.statistics.total.ratio}


def bfloat16(worker: Worker) -> dict[str, Any]:
    model = wrapped(net().to(torch.bfloat16))
    state = attach_inceptionn(model, adaptive=False)
    optimizer = sgd(model)
    losses = []
    for step in range(8):
        optimizer.zero_grad()
        x, y = batch(worker.rank, step)
        loss = nn.functional.cross_entropy(model(x.to(torch.bfloat16)).float(), y)
        backward(loss)
        optimizer.step()
        losses.append(loss.item())
    state.close()
    return {"losses": losses, "digest": digest(model), "dtype": str(next(model.parameters()).dtype)}


def accumulated(worker: Worker) -> dict[str, Any]:
    """Three backward passes, one exchange."""
    model = wrapped()
    state = attach_inceptionn(model, adaptive=False)
    optimizer = sgd(model)
    for step in range(3):
        with model.no_sync():
            backward(loss_of(model, worker.rank, 2 * step))
        backward(loss_of(model, worker.rank, 2 * step + 1))
        optimizer.step()
        optimizer.zero_grad()
    state.close()
    return {"digest": digest(model), "steps": len(state.statistics.steps)}


def scaled(worker: Worker) -> dict[str, Any]:
    """A loss scale that is a power of two changes neither gradients nor bytes."""
    found = []
    for scale in (1.0, 65536.0):
        model = wrapped()
        state = attach_inceptionn(model, adaptive=False, loss_scale=lambda scale=scale: scale)
        for step in range(3):
            model.zero_grad()
            backward(loss_of(model, worker.rank, step) * scale)
        gradients = [p.grad / scale for p in model.parameters() if p.grad is not None]
        state.close()
        found.append((torch.cat([g.ravel() for g in gradients]), state.statistics.total.nbytes_sent))
    return {"same": bool(torch.equal(found[0][0], found[1][0])), "bytes": [sent for _, sent in found]}


def resumed(worker: Worker) -> dict[str, Any]:
    """Six steps on end, and three, a checkpoint, new objects, three more: of this hook, and of the exchange by name."""

    def attach(model: DistributedDataParallel) -> InceptionnState:
        return attach_inceptionn(model, Inceptionn(bound=2**-6), adaptive=False)

    first = wrapped()
    state, optimizer = attach(first), sgd(first)
    train(first, optimizer, worker.rank, range(3))
    saved = copy.deepcopy((first.module.state_dict(), optimizer.state_dict(), state.state_dict()))
    train(first, optimizer, worker.rank, range(3, 6))
    state.close()
    digests, ends = [digest(first)], [_residuals(state)]
    for attach_again in (attach, lambda model: exchange.attach(model, "inceptionn:bound=2^-6", adaptive=False)):
        second = wrapped()
        again, optimizer = attach_again(second), sgd(second)
        second.module.load_state_dict(saved[0])
        optimizer.load_state_dict(copy.deepcopy(saved[1]))
        again.load_state_dict(saved[2])
        train(second, optimizer, worker.rank, range(3, 6))
        again.close()
        digests.append(digest(second))
        ends.append(_residuals(again))
    same = all(torch.equal(a, b) for end in ends[1:] for a, b in zip(ends[0], end, strict=True))
    return {"digests": digests, "residuals_same": same, "residuals_size": sum(float(r.abs().sum()) for r in ends[1])}


def _residuals(state: InceptionnState | exchange.ExchangeState) -> list[Tensor]:
    return [value for _, value in sorted(state.state_dict().items()) if isinstance(value, Tensor)]


def checkpointed(worker: Worker) -> bool:
    """The state through ``torch.distributed.checkpoint``, which writes one file set for all ranks."""
    from torch.distributed.checkpoint.state_dict_loader import load
    from torch.distributed.checkpoint.state_dict_saver import save

    model, other = wrapped(), wrapped()
    state = attach_inceptionn(model)
    train(model, sgd(model), worker.rank, range(2))
    fresh = attach_inceptionn(other)
    folder = worker.arguments["folder"]
    save({"hook": state.state_dict()}, checkpoint_id=folder)
    loaded = {"hook": fresh.state_dict()}
    load(loaded, checkpoint_id=folder)
    fresh.load_state_dict(loaded["hook"])
    state.close()
    fresh.close()
    assert fresh.adaptive is not None
    same = all(torch.equal(a, b) and a.any() for a, b in zip(_residuals(state), _residuals(fresh), strict=True))
    return same and fresh.adaptive.state_dict() == {"step": 2, "use_plain": 0, "until_probe": 3}


def checkpointed_by_0_1(worker: Worker) -> bool:
    """A checkpoint of version 0.1 continues: it held the adaptive choice as ``step_aside``."""
    model, other = wrapped(), wrapped()
    state = attach_inceptionn(model)
    train(model, sgd(model), worker.rank, range(2))
    written = state.state_dict()
    choice = {"step": 40, "use_plain": 1, "until_probe": 150}
    written["step_aside"] = {"step": 40, "aside": 1, "until_probe": 150}
    del written["adaptive"]
    fresh = attach_inceptionn(other)
    fresh.load_state_dict(written)
    state.close()
    fresh.close()
    assert fresh.adaptive is not None
    same = all(torch.equal(a, b) and a.any() for a, b in zip(_residuals(state), _residuals(fresh), strict=True))
    return same and fresh.adaptive.use_plain and fresh.adaptive.state_dict() == choice


def deprecated(worker: Worker) -> list[str]:
    """Warnings of the older names of hooks, one for each call: none where there is no newer one."""
    said = []
    calls: tuple[Callable[[DistributedDataParallel], Any], ...] = (
        attach_inceptionn,
        lambda model: attach_inceptionn(model, Truncation(16), error_feedback=False),
        lambda model: attach_inceptionn(model, tag_histogram=True),
        attach_optical_average,
        lambda model: attach_optical_average(model, rounding="floor"),
    )
    for call in calls:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", DeprecationWarning)
            call(wrapped()).close()
        said.append("; ".join(str(warning.message) for warning in caught if "lightloom" in str(warning.message)))
    return said


def unnamed(worker: Worker) -> dict[str, Any]:
    """The hook registered by hand: parameters are numbered."""
    model = wrapped()
    state = InceptionnState(Inceptionn(bound=2**-10), adaptive=False)
    model.register_comm_hook(state, average_hook)
    train(model, sgd(model), worker.rank, range(3))
    state.close()
    return {"keys": sorted(state.state_dict()), "digest": digest(model)}


def deciding(worker: Worker) -> dict[str, Any]:
    """With default options: the first probe ends in one decision, whatever it is, and all ranks take the same."""
    model = wrapped()
    state = attach_inceptionn(model, tag_histogram=True)
    losses = train(model, sgd(model), worker.rank, range(25))
    statistics = state.statistics
    saved = state.state_dict()
    state.close()
    assert statistics.tags is not None
    return {
        "decisions": [[d.step, d.compressed, d.plain, d.use_plain] for d in statistics.decisions],
        "losses": losses,
        "digest": digest(model),
        "aside": [step.plain_buckets > 0 for step in statistics.steps],
        "mixed": any(step.plain_buckets and step.buckets for step in statistics.steps),
        "tags": statistics.tags.tolist(),
        "printed": str(statistics),
        "saved": saved["adaptive"],
    }


def alternating(worker: Worker) -> dict[str, Any]:
    """Compressed, plain, compressed, plain: what was applied is the sum of all gradients, and no residual is left."""
    found = {}
    for dtype in (torch.float32, torch.bfloat16):
        model, lone = wrapped(net().to(dtype)), net().to(dtype)
        state = attach_inceptionn(model, Inceptionn(bound=2**-4))
        applied, own = np.zeros(1), np.zeros(1)
        left = []
        for step in range(8):
            if step % 2 == 0:
                decided = {"step": 0, "use_plain": step // 2 % 2, "until_probe": 100}
                state.load_state_dict(state.state_dict() | {"adaptive": decided})
            for net_ in (model, lone):
                net_.zero_grad()
                x, y = batch(worker.rank, step)
                backward(nn.functional.cross_entropy(net_(x.to(dtype)).float(), y))
            applied = applied + flat_gradients(model)
            own = own + flat_gradients(lone)
            left.append(sum(float(r.abs().sum()) for r in _residuals(state)))
        total = torch.from_numpy(own / worker.size)
        torch.distributed.all_reduce(total)
        state.close()
        found[str(dtype)] = {
            "worst": float(np.abs(total.numpy() - applied).max()),
            "left": left,
            "size": abs(applied).max(),
        }
    return found


def flat_gradients(model: nn.Module) -> Any:
    return np.concatenate([p.grad.double().numpy().ravel() for p in model.parameters() if p.grad is not None])


def killed(worker: Worker) -> str:
    """A rank is killed in the middle of training; what the others are told."""
    model = wrapped()
    attach_inceptionn(model)
    optimizer = sgd(model)
    train(model, optimizer, worker.rank, range(2))
    if worker.rank == VICTIM:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        train(model, optimizer, worker.rank, range(2, 1000))
    except TransportError as error:
        return str(error)
    return "nothing"
