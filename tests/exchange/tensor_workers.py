"""Exchanges of tensors of all kinds, and of ranks that do not mean the same; called in every rank, results are JSON."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from lightloom import exchange
from lightloom.core.errors import LightloomError
from lightloom.exchange.hooks import attach_inceptionn, attach_optical_average
from lightloom.exchange.transport.worker import Worker
from tests import imported_by_ranks  # noqa: F401

GAP = 77.0
"""What lies in memory between the elements of a tensor."""
SILENCE = 1.5
"""Timeout of the exchange that one rank leaves out, in seconds."""


def own_values(rank: int, count: int) -> NDArray[np.complex128]:
    """Values of a rank in the order of the tensor: signs and sizes that no reordering leaves alone."""
    at = np.arange(count)
    sizes = (1 + at % 7) / 4 * (rank + 1)
    return np.where(at % 3 == 1, -1, 1) * sizes + 0.5j * np.where(at % 5 == 2, -1, 1) * sizes


def mean_values(ranks: int, count: int) -> NDArray[np.complex128]:
    """Their mean over ranks, in double precision."""
    total = sum((own_values(rank, count) for rank in range(ranks)), np.zeros(count, np.complex128))
    return total / ranks


def gaps(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Memory without values."""
    return torch.full(shape, GAP).to(dtype)


KINDS: dict[str, Callable[[], tuple[Tensor, Tensor]]] = {
    "contiguous": lambda: _of(gaps(5, 30), lambda whole: whole),
    "every second": lambda: _of(gaps(301), lambda whole: whole[::2]),
    "column": lambda: _of(gaps(40, 7), lambda whole: whole[:, 3]),
    "transposed": lambda: _of(gaps(12, 20), lambda whole: whole.t()),
    "part of a matrix": lambda: _of(gaps(30, 30), lambda whole: whole[3:20, 5:25]),
    "channels last": lambda: _of(gaps(2, 6, 5, 4).to(memory_format=torch.channels_last), lambda whole: whole),
    "scalar": lambda: _of(gaps(3), lambda whole: whole[1]),
    "empty": lambda: _of(gaps(4, 5), lambda whole: whole[:, 2:2]),
    "bfloat16": lambda: _of(gaps(9, 14, dtype=torch.bfloat16), lambda whole: whole[:, ::2]),
    "float16": lambda: _of(gaps(9, 14, dtype=torch.float16), lambda whole: whole),
    "complex": lambda: _of(gaps(8, 12, dtype=torch.complex64), lambda whole: whole[:, 1::3]),
    "conjugated": lambda: _of(gaps(60, dtype=torch.complex64), lambda whole: whole.conj()),
    "negated": lambda: _of(gaps(60, dtype=torch.complex64), lambda whole: whole.conj().imag),
    "double": lambda: _of(gaps(33, dtype=torch.float64), lambda whole: whole),
    "expanded": lambda: _of(gaps(6), lambda whole: whole.expand(4, 6)),
    "overlapping": lambda: _of(gaps(20), lambda whole: whole.as_strided((8, 4), (2, 1))),
    "int64": lambda: _of(gaps(50, dtype=torch.int64), lambda whole: whole),
    "bool": lambda: _of(gaps(50, dtype=torch.bool), lambda whole: whole),
}
"""By kind, what makes memory and the tensor in it."""


def _of(whole: Tensor, view: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    return whole, view(whole)


def fill(tensor: Tensor, rank: int) -> None:
    """Give a tensor, whose elements do not share memory, the values of a rank."""
    values = own_values(rank, tensor.numel()).reshape(tuple(tensor.shape))
    tensor.copy_(torch.from_numpy(values if tensor.is_complex() else values.real))


def numbers(tensor: Tensor) -> NDArray[np.complex128]:
    """Values in the order of the tensor, in double precision."""
    wide: NDArray[np.complex128] = tensor.resolve_conj().resolve_neg().to(torch.complex128).reshape(-1).numpy()
    return wide


def length(values: NDArray[np.complex128]) -> float:
    """Euclidean norm."""
    return float(np.sqrt((values * values.conj()).real.sum()))


def everything(worker: Worker) -> dict[str, Any]:
    """What each method makes of each kind of tensor and of large values, and what ranks that disagree are told."""
    torch.set_num_threads(1)
    return {
        "kinds": {
            method: {kind: _try_kind(method, kind, worker) for kind in KINDS} for method in worker.arguments["kinds"]
        },
        "large": [large_values(worker, **arguments) for arguments in worker.arguments["large"]],
        "told": disagreements(worker),
    }


def _try_kind(method: str, kind: str, worker: Worker) -> dict[str, Any]:
    whole, tensor = KINDS[kind]()
    if kind not in ("expanded", "overlapping", "int64", "bool"):
        fill(tensor, worker.rank)
    before = whole.clone()
    refused = refusal_of(lambda: exchange.all_reduce(tensor, method))
    if refused:
        return {"refused": refused, "untouched": torch.equal(before, whole)}
    exact, found = mean_values(worker.size, tensor.numel()), numbers(tensor)
    exact = exact if tensor.is_complex() else exact.real.astype(np.complex128)
    copy = torch.empty(tensor.shape, dtype=tensor.dtype)
    fill(copy, worker.rank)
    exchange.all_reduce(copy, method)
    beside, own = KINDS[kind]()
    tensor.fill_(GAP), own.fill_(GAP)
    size = float(np.max(np.abs(exact), initial=0.0))
    return {
        "error": float(np.max(np.abs(found - exact)) / size) if size else 0.0,
        "alike": float((found.conj() @ exact).real) / (length(found) * length(exact)) if size else 1.0,
        "as contiguous": bool((found == numbers(copy)).all()),
        "untouched": torch.equal(whole, beside),
        "bits": found.tobytes().hex()[:2000],
    }


def refusal_of(call: Callable[[], object]) -> str:
    """The error of a call as one line with its type; empty if there is none."""
    try:
        call()
    except LightloomError as error:
        return f"{type(error).__name__}: {error}"
    return ""


def large_values(worker: Worker, methods: list[str], values: dict[str, float]) -> dict[str, float]:
    """The largest error, relative to the mean, of gradients whose sum no float32, or no float16, can hold."""
    results = {}
    for method in methods:
        for name, value in values.items():
            tensor = torch.full((96, 64), value * (1.0 if name == "all" else float(worker.rank == 0)))
            tensor[::3] *= -1
            exact = tensor.double()
            dist.all_reduce(exact.div_(worker.size))
            exchange.all_reduce(tensor, method)
            results[f"{method} {name}"] = float(((tensor.double() - exact) / exact).abs().max())
    return results


def disagreements(worker: Worker) -> dict[str, dict[str, Any]]:
    """What every rank is told where the last rank exchanges something else, and whether the next call works."""
    last = worker.rank == worker.size - 1
    results: dict[str, dict[str, Any]] = {}

    def find_out(name: str, call: Callable[[], object]) -> None:
        began = time.monotonic()
        told = refusal_of(call)
        tensor = exchange.all_reduce(torch.full((7,), worker.rank + 1.0), "float32")
        works = bool((tensor == (worker.size + 1) / 2).all())
        results[name] = {"told": told, "works": works, "seconds": time.monotonic() - began}

    for name, (usual, other) in DISAGREEMENTS.items():
        method, tensor, options = other() if last else usual()
        find_out(name, lambda m=method, t=tensor, o=options: exchange.all_reduce(t, m, **o))  # type: ignore[misc]
    for name, attach in ATTACHMENTS.items():
        find_out(name, lambda run=attach: _train(run, last))  # type: ignore[misc]
    state = exchange.ReduceState("int8", timeout=SILENCE)
    find_out("silent", lambda: None if last else state.all_reduce(torch.ones(9)))
    state.close()
    return results


def _train(attach: Callable[[DistributedDataParallel, bool], Any], last: bool) -> None:
    torch.manual_seed(3)
    ddp = DistributedDataParallel(nn.Linear(20, 10))
    state = attach(ddp, last)
    try:
        for _ in range(2):
            ddp(torch.ones(4, 20)).sum().backward()
    finally:
        state.close()


Call = tuple[str, Tensor, dict[str, Any]]


def _call(method: str, *shape: int, dtype: torch.dtype = torch.float32, **options: Any) -> Callable[[], Call]:
    return lambda: (method, torch.ones(shape).to(dtype), options)


DISAGREEMENTS: dict[str, tuple[Callable[[], Call], Callable[[], Call]]] = {
    "method": (_call("int8", 300), _call("int4", 300)),
    "ring and shares": (_call("int8", 300), _call("inceptionn", 300)),
    "shares and ring": (_call("truncate", 300), _call("float32", 300)),
    "option": (_call("int8:block=256", 300), _call("int8:block=64", 300)),
    "bound": (_call("inceptionn:bound=2^-10", 300), _call("inceptionn:bound=2^-8", 300)),
    "feedback": (_call("int8", 300), _call("int8:feedback", 300)),
    "longer": (_call("float32", 300), _call("float32", 3_000_000)),
    "shorter": (_call("int4", 200_000), _call("int4", 3)),
    "longer in a ring": (_call("truncate", 300), _call("truncate", 90_000)),
    "sparse": (_call("topk:share=0.1", 300), _call("topk:share=0.2", 300)),
    "factors": (_call("powersgd:rank=2", 30, 40), _call("powersgd:rank=3", 30, 40)),
    "light": (_call("optical:bits=16", 300), _call("optical:bits=8", 300)),
    "shape": (_call("powersgd", 30, 40), _call("powersgd", 40, 30)),
    "empty": (_call("int8", 300), _call("int8", 0)),
    "only empty": (_call("int8", 0), _call("int4", 0)),
    "type": (_call("int8", 300), _call("int8", 300, dtype=torch.bfloat16)),
    "name": (_call("int8", 300, name="weight"), _call("int8", 300, name="bias")),
    "refused": (_call("int8", 300), _call("int8", 300, dtype=torch.int64)),
}
"""By name, the calls of all ranks but the last one, and that of the last one."""
ATTACHMENTS: dict[str, Callable[[DistributedDataParallel, bool], Any]] = {
    "attached method": lambda ddp, last: exchange.attach(ddp, "int4" if last else "int8", adaptive=False),
    "attached ring": lambda ddp, last: exchange.attach(ddp, "inceptionn" if last else "int8", adaptive=False),
    "attached feedback": lambda ddp, last: exchange.attach(ddp, "int8:feedback" if last else "int8", adaptive=False),
    "stepping aside": lambda ddp, last: exchange.attach(ddp, "int8", adaptive=last),
    "loss scale": lambda ddp, last: exchange.attach(
        ddp, "int8", adaptive=False, loss_scale=lambda: 8.0 if last else 4.0
    ),
    "feedback of the hook": lambda ddp, last: attach_inceptionn(ddp, adaptive=False, error_feedback=last),
    "blocks of the hook": lambda ddp, last: attach_optical_average(ddp, block=64 if last else 256),
}
"""By name, what attaches something else on the last rank."""
