"""What the processes of the FSDP2 tests do; each function runs in every rank of a gloo group."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

from lightloom import exchange
from lightloom.core.errors import ConfigError, LightloomError
from lightloom.exchange.compression.inceptionn import Inceptionn
from lightloom.exchange.hooks import InceptionnFsdpState, attach_inceptionn_fsdp
from lightloom.exchange.transport.worker import Worker
from tests.training.hooks.workers import FAST, backward, batch, loss_of, net, sgd

COARSE = Inceptionn(bound=2**-4)


def sharded(module: nn.Module | None = None, *, reshard: bool = False, **options: Any) -> nn.Module:
    """Two layers by themselves, the rest with the root; no size is a multiple of the number of ranks.

    Unless ``reshard``, parameters stay gathered until the gradients are there, which saves two gathers each step.
    """
    model = module or net()
    for layer in (model.get_submodule("0"), model.get_submodule("2"), model):
        fully_shard(layer, reshard_after_forward=reshard, **options)
    return model


def everything(worker: Worker) -> dict[str, Any]:
    runs = (exact, bounded, named, conserving, trained, accumulated, scaled, resumed, refused, deciding, alternating)
    return {run.__name__: run(worker) for run in runs}


def local(tensor: Tensor | None) -> Any:
    assert isinstance(tensor, DTensor)
    return tensor.to_local().detach().double().numpy().ravel()


def shards(model: nn.Module) -> Any:
    """This rank's part of all gradients."""
    return np.concatenate([local(p.grad) for p in model.parameters()])


def shard_of(tensor: Tensor, worker: Worker) -> Any:
    """This rank's part of a whole tensor, as ``fully_shard`` cuts it, in double precision; may be empty."""
    whole = tensor.detach().double()
    parts = whole.chunk(worker.size)
    return (parts[worker.rank] if worker.rank < len(parts) else whole[:0]).numpy().ravel()


def attach(
    model: nn.Module, codec: Inceptionn | None = None, *, adaptive: bool = False, **options: Any
) -> InceptionnFsdpState:
    return attach_inceptionn_fsdp(model, codec, adaptive=adaptive, **options)


def residuals(state: InceptionnFsdpState, rank: int) -> dict[str, Any]:
    """Residuals by parameter, flat."""
    prefix = f"rank{rank}/"
    return {key.removeprefix(prefix): value.numpy() for key, value in state.state_dict().items() if prefix in key}


def exact(worker: Worker) -> dict[str, Any]:
    """The reduce-scatter that hooks without a codec have, against gloo's own."""
    stock, ours = sharded(reshard=True), sharded(reshard=True)
    state = exchange.attach_fsdp(ours, "float32")
    for model in (stock, ours):
        backward(loss_of(model, worker.rank, 0))
    a, b = shards(stock), shards(ours)
    state.close()
    return {"equal": bool(np.array_equal(a, b)), "worst": float(np.abs(a - b).max()), "size": float(np.abs(a).max())}


def bounded(worker: Worker) -> dict[str, Any]:
    """Against the exact average, in multiples of the bound; no error feedback."""
    stock, ours = sharded(), sharded()
    state = attach(ours, COARSE, error_feedback=False, tag_histogram=True)
    for model in (stock, ours):
        backward(loss_of(model, worker.rank, 0))
    worst = float(np.abs(shards(stock) - shards(ours)).max())
    state.close()
    tags = state.statistics.tags
    assert tags is not None
    padded = sum(p.numel() // p.shape[0] * -(-p.shape[0] // worker.size) for p in net().parameters())
    return {"worst": worst / COARSE.bound, "tags": int(tags.sum()), "encoded": padded * (worker.size - 1)}


def named(worker: Worker) -> list[bool]:
    """All gradients lie below the bound, nothing passes: residuals are the gradients, but for this rank's own shard."""
    model, lone = sharded(reshard=True), net()
    state = attach(model, Inceptionn(bound=2**-1))
    for one in (model, lone):
        backward(loss_of(one, worker.rank, 0) * 1e-2)
    kept, found = residuals(state, worker.rank), []
    for name, p in lone.named_parameters():
        assert p.grad is not None
        rows = -(-p.shape[0] // worker.size)
        expected = torch.zeros(rows * worker.size, *p.shape[1:])
        expected[: p.shape[0]] = p.grad
        expected[worker.rank * rows : (worker.rank + 1) * rows] = 0
        found.append(bool(np.array_equal(kept[name], expected.numpy().ravel())))
    state.close()
    return found


def conserving(worker: Worker) -> dict[str, Any]:
    """What was applied to this rank's shards and all residuals are the sum of all gradients."""
    model, lone = sharded(), net()
    state = attach(model, COARSE)
    applied = {name: np.zeros(shard_of(p, worker).size) for name, p in lone.named_parameters()}
    due = {name: torch.zeros(p.shape, dtype=torch.float64) for name, p in lone.named_parameters()}
    for step in range(3):
        for one in (model, lone):
            one.zero_grad()
            backward(loss_of(one, worker.rank, step))
        for name, p in model.named_parameters():
            applied[name] += local(p.grad) * worker.size
        for name, p in lone.named_parameters():
            assert p.grad is not None
            due[name] += p.grad.double()
    left = residuals(state, worker.rank)
    worst = size = 0.0
    for name, total in due.items():
        kept = torch.from_numpy(left[name][: total.numel()].astype(np.float64)).view(total.shape)
        dist.all_reduce(kept)
        dist.all_reduce(total)
        off = applied[name] + shard_of(kept, worker) - shard_of(total, worker)
        worst = max(worst, float(np.abs(off).max(initial=0.0)))
        size += float(kept.abs().sum())
    state.close()
    steps = state.statistics.steps
    return {"worst": worst, "left": size, "steps": len(steps), "calls": [step.buckets for step in steps]}


def trained(worker: Worker) -> dict[str, Any]:
    """bfloat16 parameters, gradients and reduction, clipping."""
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
    model = sharded(mp_policy=policy)
    state = attach(model)
    optimizer = sgd(model, FAST)
    losses = []
    for step in range(10):
        optimizer.zero_grad()
        x, y = batch(worker.rank, step)
        loss = nn.functional.cross_entropy(model(x).float(), y)
        backward(loss)
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        losses.append(loss.item())
    state.close()
    return {"losses": losses, "ratio": state.statistics.total.ratio}


def accumulated(worker: Worker) -> int:
    """Two backward passes, one exchange."""
    model: Any = sharded()
    state = attach(model)
    for step in range(4):
        model.set_requires_gradient_sync(step % 2 == 1)
        backward(loss_of(model, worker.rank, step))
    state.close()
    return len(state.statistics.steps)


def scaled(worker: Worker) -> bool:
    """A loss scale that is a power of two changes nothing."""
    found = []
    for scale in (1.0, 65536.0):
        model = sharded()
        state = attach(model, loss_scale=lambda scale=scale: scale)
        for step in range(2):
            model.zero_grad()
            backward(loss_of(model, worker.rank, step) * scale)
        found.append(shards(model) / scale)
        state.close()
    return bool(np.array_equal(*found))


def resumed(worker: Worker) -> dict[str, Any]:
    """Four steps on end; two, a checkpoint, new objects, two more."""

    def steps(model: nn.Module, optimizer: torch.optim.Optimizer, numbers: range) -> None:
        for step in numbers:
            optimizer.zero_grad()
            backward(loss_of(model, worker.rank, step))
            optimizer.step()

    def parameters(model: nn.Module) -> list[Tensor]:
        return [p.to_local().detach().clone() for p in model.parameters() if isinstance(p, DTensor)]

    first = sharded()
    state, optimizer = attach(first, COARSE), torch.optim.SGD(first.parameters(), lr=0.1)
    steps(first, optimizer, range(2))
    weights, saved = parameters(first), state.state_dict()
    steps(first, optimizer, range(2, 4))
    second = sharded()
    again, optimizer = attach(second, COARSE), torch.optim.SGD(second.parameters(), lr=0.1)
    with torch.no_grad():
        for p, kept in zip(second.parameters(), weights, strict=True):
            assert isinstance(p, DTensor)
            p.to_local().copy_(kept)
    again.load_state_dict(saved)
    steps(second, optimizer, range(2, 4))
    same = all(torch.equal(a, b) for a, b in zip(parameters(first), parameters(second), strict=True))
    ends = [s.state_dict() for s in (state, again)]
    kept_same = all(torch.equal(torch.as_tensor(ends[0][k]), torch.as_tensor(ends[1][k])) for k in ends[0])
    other: dict[str, Any] = {k.replace(f"rank{worker.rank}/", "rank99/"): v for k, v in saved.items()}
    try:
        again.load_state_dict(other)
    except ConfigError as error:
        complaint = str(error)
    state.close()
    again.close()
    return {"same": same, "residuals": kept_same, "keys": len(saved), "complaint": complaint}


def deciding(worker: Worker) -> dict[str, Any]:
    """With default options: the first probe ends in one decision, whatever it is, and all ranks take the same."""
    model = sharded()
    state = attach_inceptionn_fsdp(model)
    optimizer = sgd(model)
    losses = []
    for step in range(23):
        optimizer.zero_grad()
        loss = loss_of(model, worker.rank, step)
        backward(loss)
        optimizer.step()
        losses.append(loss.item())
    statistics, saved = state.statistics, state.state_dict()
    state.close()
    return {
        "decisions": [[d.step, d.compressed, d.plain, d.use_plain] for d in statistics.decisions],
        "losses": losses,
        "plain": [step.plain_buckets > 0 for step in statistics.steps],
        "mixed": any(step.plain_buckets and step.buckets for step in statistics.steps),
        "printed": str(statistics),
        "saved": saved["adaptive"],
    }


def alternating(worker: Worker) -> dict[str, Any]:
    """Compressed, plain, compressed, plain: what was applied is the sum of all gradients, and no residual is left."""
    model, lone = sharded(), net()
    state = attach(model, COARSE, adaptive=True)
    applied, left = np.zeros(1), []
    due = [torch.zeros(p.shape, dtype=torch.float64) for p in lone.parameters()]
    for step in range(8):
        if step % 2 == 0:
            decided = {"step": 0, "use_plain": step // 2 % 2, "until_probe": 100}
            state.load_state_dict(state.state_dict() | {"adaptive": decided})
        for one in (model, lone):
            one.zero_grad()
            backward(loss_of(one, worker.rank, step) * (1 + worker.rank))
        applied = applied + shards(model)
        for total, p in zip(due, lone.parameters(), strict=True):
            assert p.grad is not None
            total += p.grad.double() / worker.size
        left.append(sum(float(np.abs(residual).sum()) for residual in residuals(state, worker.rank).values()))
    for total in due:
        dist.all_reduce(total)
    state.close()
    expected = np.concatenate([shard_of(total, worker) for total in due])
    return {"worst": float(np.abs(expected - applied).max()), "left": left}


def refused(worker: Worker) -> list[str]:
    """What cannot be done, in the words that the user reads."""
    words = []

    def attempt(model: nn.Module, *, step: bool = False) -> None:
        state = None
        try:
            state = attach(model)
            if step:
                model(torch.ones(2, 20)).sum().backward()
        except LightloomError as error:
            words.append(str(error))
        finally:
            if state is not None:
                state.close()

    attempt(net())
    mesh = init_device_mesh("cpu", (2, worker.size // 2), mesh_dim_names=("replicas", "shards"))
    attempt(sharded(mesh=mesh))
    partly = sharded(Partly())
    attempt(partly, step=True)
    return words


class Partly(nn.Module):
    """A parameter that gets no gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.add_module("0", nn.Linear(20, 4))
        self.add_module("2", nn.Linear(4, 3))
        self.unused = nn.Parameter(torch.ones(4))
        self.used = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.get_submodule("2")(self.get_submodule("0")(x) * self.used)
        return out
