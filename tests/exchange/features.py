"""Training runs that each use one feature of ``DistributedDataParallel``, with any exchange; called in every rank.

A run returns the loss after each step, averaged over ranks, and a hash of the final parameters, or the one line with
which the exchange refuses.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

from lightloom import exchange
from lightloom.core.errors import LightloomError
from tests import imported_by_ranks  # noqa: F401

STEPS = 6
WIDTH, OUT = 24, 8


class Net(nn.Module):
    """Two layers and one that may be left out of the forward pass."""

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, 72, dtype=dtype)
        self.second = nn.Linear(72, OUT, dtype=dtype)
        self.spare = nn.Linear(72, OUT, dtype=dtype)
        self.use_spare = True

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.first(x))
        out: Tensor = self.second(hidden)
        return out + self.spare(hidden) if self.use_spare else out


class ComplexNet(nn.Module):
    """A complex matrix; the real and imaginary parts of its product are added up, so that it can learn its targets."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WIDTH, OUT, dtype=torch.complex64) / WIDTH**0.5)
        self.bias = nn.Parameter(torch.zeros(OUT))

    def forward(self, x: Tensor) -> Tensor:
        product = x.to(torch.complex64) @ self.weight
        return product.real + product.imag + self.bias


class Embedded(nn.Module):
    """A table with sparse gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(16, OUT, sparse=True)

    def forward(self, x: Tensor) -> Tensor:
        rows: Tensor = self.table(x[:, 0].abs().mul(10).long() % 16)
        return rows


Setup = Callable[[], tuple[nn.Module, dict[str, Any]]]


def plain(ddp: DistributedDataParallel, data: Iterator[tuple[Tensor, Tensor]], state: Any) -> list[float]:
    """Train as the tutorial does."""
    optimizer, losses = torch.optim.SGD(ddp.parameters(), 0.1), []
    for x, y in data:
        optimizer.zero_grad()
        loss = _loss(ddp, x, y)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(float(loss))
    return losses


def accumulation(ddp: DistributedDataParallel, data: Iterator[tuple[Tensor, Tensor]], state: Any) -> list[float]:
    """Exchange the gradients of two backward passes together."""
    optimizer, losses = torch.optim.SGD(ddp.parameters(), 0.1), []
    for x, y in data:
        optimizer.zero_grad()
        half = len(x) // 2
        with ddp.no_sync():
            (_loss(ddp, x[:half], y[:half]) / 2).backward()  # type: ignore[no-untyped-call]
        loss = _loss(ddp, x[half:], y[half:]) / 2
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(2 * float(loss))
    return losses


def clipping(ddp: DistributedDataParallel, data: Iterator[tuple[Tensor, Tensor]], state: Any) -> list[float]:
    """Clip the norm of the averaged gradient."""
    optimizer, losses = torch.optim.Adam(ddp.parameters(), 0.01), []
    for x, y in data:
        optimizer.zero_grad()
        loss = _loss(ddp, x, y)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(ddp.parameters(), 0.5)
        optimizer.step()
        losses.append(float(loss))
    return losses


def autocast(ddp: DistributedDataParallel, data: Iterator[tuple[Tensor, Tensor]], state: Any) -> list[float]:
    """Compute the forward pass in bfloat16, keep parameters and gradients in float32."""
    compute = ddp.forward

    def narrow(x: Tensor) -> Tensor:
        # A context around all steps would keep the weights of the first one.
        with torch.autocast("cpu", torch.bfloat16):
            out: Tensor = compute(x)  # type: ignore[no-untyped-call]
            return out

    ddp.forward = narrow  # type: ignore[method-assign]
    return plain(ddp, data, state)


def scaled(ddp: DistributedDataParallel, data: Iterator[tuple[Tensor, Tensor]], state: Any) -> list[float]:
    """Scale the loss as a GradScaler does, and tell the exchange."""
    optimizer, losses, factor = torch.optim.SGD(ddp.parameters(), 0.1), [], 1024.0
    for x, y in data:
        optimizer.zero_grad()
        loss = _loss(ddp, x, y)
        (loss * factor).backward()  # type: ignore[no-untyped-call]
        for parameter in ddp.parameters():
            if parameter.grad is not None:
                parameter.grad /= factor
        optimizer.step()
        losses.append(float(loss))
    return losses


def joined(ddp: DistributedDataParallel, data: Iterator[tuple[Tensor, Tensor]], state: Any) -> list[float]:
    """Rank 0 has two batches less than the others."""
    batches = list(data)
    with Join([ddp]):
        return plain(ddp, iter(batches[: len(batches) - 2 * (dist.get_rank() == 0)]), state)


def compiled(ddp: DistributedDataParallel, data: Iterator[tuple[Tensor, Tensor]], state: Any) -> list[float]:
    """Compile the wrapped model, without code generation, which would need a compiler."""
    return plain(torch.compile(ddp, backend="eager"), data, state)  # type: ignore[arg-type]


Feature = tuple[Setup, Callable[..., list[float]]]

FEATURES: dict[str, Feature] = {
    "plain": (lambda: (Net(), {}), plain),
    "accumulation": (lambda: (Net(), {}), accumulation),
    "clipping": (lambda: (Net(), {}), clipping),
    "autocast": (lambda: (Net(), {}), autocast),
    "bfloat16": (lambda: (Net(torch.bfloat16), {}), plain),
    "scaled": (lambda: (Net(), {}), scaled),
    "static-graph": (lambda: (Net(), {"static_graph": True}), plain),
    "unused": (lambda: (_without_spare(), {"find_unused_parameters": True}), plain),
    "bucket-views": (lambda: (Net(), {"gradient_as_bucket_view": True}), plain),
    "small-buckets": (lambda: (Net(), {"bucket_cap_mb": 0.002}), plain),
    "join": (lambda: (Net(), {}), joined),
    "sub-group": (lambda: (Net(), {}), plain),
    "compile": (lambda: (Net(), {}), compiled),
    "complex": (lambda: (ComplexNet(), {}), plain),
    "float64": (lambda: (Net(torch.float64), {}), plain),
    "sparse": (lambda: (Embedded(), {}), plain),
}


def run(method: str, feature: str, group: dist.ProcessGroup | None = None) -> dict[str, Any]:
    """Train with one method and feature; all ranks call it. ``group`` is the ranks' own for ``sub-group``."""
    setup, train = FEATURES[feature]
    torch.manual_seed(7)
    model, options = setup()
    ddp = DistributedDataParallel(model, process_group=group, **options)
    state = None
    try:
        scale = (lambda: 1024.0) if feature == "scaled" else None
        state = exchange.attach(ddp, method, adaptive=False, loss_scale=scale)
        losses = train(ddp, _data(model), state)
    except LightloomError as error:
        return {"refused": str(error)}
    finally:
        if state is not None:
            state.close()
    parameters = torch.cat(
        [torch.view_as_real(p).flatten() if p.is_complex() else p.flatten() for p in model.parameters()]
    )
    digest = hashlib.sha256(parameters.detach().double().numpy().tobytes()).hexdigest()
    return {"losses": losses, "digest": digest, "finite": bool(parameters.isfinite().all())}


def _loss(ddp: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    difference: Tensor = ddp(x) - y
    return difference.square().mean()


def _data(model: nn.Module) -> Iterator[tuple[Tensor, Tensor]]:
    dtype = next(model.parameters()).dtype
    dtype = torch.float32 if dtype.is_complex else dtype
    generator = torch.Generator().manual_seed(100 + dist.get_rank())
    for _ in range(STEPS):
        x = torch.randn(16, WIDTH, generator=generator)
        yield x.to(dtype), x[:, :OUT].to(dtype)


def _without_spare() -> Net:
    net = Net()
    net.use_spare = False
    return net


def matrix(worker: Any) -> list[dict[str, Any]]:
    """Run all cases of ``worker.arguments["cases"]``, (method, feature) each; for ``launch``."""
    groups = [dist.new_group([k, k + 1]) for k in range(0, worker.size, 2)]
    results = []
    for method, feature in worker.arguments["cases"]:
        group = groups[worker.rank // 2] if feature == "sub-group" else None
        results.append(run(method, feature, group))
    return results
