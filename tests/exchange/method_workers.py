"""Laws of methods, tried by every rank of one launch; results are JSON."""

from __future__ import annotations

import hashlib
from math import prod
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from lightloom import exchange
from lightloom.core.errors import LightloomError
from lightloom.exchange.distributed.exchanger import Exchanger
from lightloom.exchange.distributed.factory import exchanger
from lightloom.exchange.distributed.group import OwnGroup
from lightloom.exchange.distributed.residuals import Geometry
from lightloom.exchange.method import Gradient
from lightloom.exchange.transport.worker import Worker
from lightloom.photonics.averaging.block_quantisation import CodeBuffers, mean_codes
from tests import imported_by_ranks  # noqa: F401
from tests.exchange import periodic_workers

SHAPES: dict[str, tuple[int, ...]] = {"weight": (48, 64), "bias": (64,), "scale": (), "kernel": (16, 8, 3, 3)}
STEPS = 4
TIMEOUT = 600.0
"""Seconds for an exchange; far above what a busy machine needs."""
SCALES = (0, 5, -5)
SCALED_STEPS = 2
"""Of the other scales: the second one adds residuals."""


def prepare() -> None:
    """Compile kernels before ranks are forked, so that they share them."""
    buffers = CodeBuffers.of((3,), 16)
    values, codes = np.ones(3, np.float32), np.empty(3, buffers.code_type)
    scales = buffers.scales(values)
    buffers.encode(values, scales, codes)
    buffers.decode(codes, scales, values)
    mean_codes(codes[None], "half-up", np.empty_like(codes))


prepare()


def geometry_of(names: list[str]) -> Geometry:
    """Geometry of the tensors in that order."""
    return Geometry.joined([(name, SHAPES[name]) for name in names])


def gradients(step: int, rank: int, *, exponent: int = 0) -> dict[str, Tensor]:
    """Gradients of a rank by tensor, their sizes spread over some powers of two."""
    generator = torch.Generator().manual_seed(1000 * step + rank)
    tensors = {name: torch.randn(shape, generator=generator) * 0.02 for name, shape in SHAPES.items()}
    return {name: tensor * 2.0**exponent for name, tensor in tensors.items()}


def average(run: Exchanger, geometry: Geometry, own: dict[str, Tensor]) -> dict[str, Tensor]:
    """Averages by tensor, from a buffer with that geometry."""
    flat = torch.cat([own[piece.tensor].reshape(-1) for piece in geometry.pieces])
    run.average(flat, geometry)
    return {piece.tensor: flat[piece.offset : piece.offset + piece.length] for piece in geometry.pieces}


def digest(tensors: dict[str, Tensor]) -> str:
    """Hash of tensors in the order of their names."""
    joined = torch.cat([tensors[name].reshape(-1) for name in sorted(tensors)])
    return hashlib.sha256(joined.contiguous().numpy().tobytes()).hexdigest()


def mean_over_ranks(step: int, ranks: int) -> dict[str, Tensor]:
    """What a plain exchange makes of the gradients of a step, in double precision."""
    every = [gradients(step, rank) for rank in range(ranks)]
    return {name: torch.stack([own[name].double().reshape(-1) for own in every]).mean(0) for name in SHAPES}


def laws(worker: Worker, group: OwnGroup, text: str) -> dict[str, Any]:
    """Results of one method after some steps: digests, bytes, residuals, under scales, resumed, after Inf."""
    method, order = exchange.find(text), list(SHAPES)
    sizes = {name: prod(shape) for name, shape in SHAPES.items()}
    scaled: dict[int, list[dict[str, Tensor]]] = {}
    sent = 0
    for exponent in SCALES:
        run, geometry = exchanger(method, group, sizes), geometry_of(order)
        before = group.sent
        steps = range(STEPS if exponent == 0 else SCALED_STEPS)
        outputs = [average(run, geometry, gradients(step, worker.rank, exponent=exponent)) for step in steps]
        scaled[exponent] = [{name: value * 2.0**-exponent for name, value in out.items()} for out in outputs]
        if exponent == 0:
            sent, first = group.sent - before, run
    result: dict[str, Any] = {
        "digests": [digest(out) for out in scaled[0]],
        "scaled": [[digest(out) for out in scaled[exponent][:SCALED_STEPS]] for exponent in SCALES],
        "sent": sent,
        "planned": STEPS * method.sent_bytes(Gradient(tuple(SHAPES.values())), worker.size),
        "error": _error(scaled[0], worker.size),
        "state": _state_values(first),
        "kept": _with_residuals(first, scaled[0], worker.size),
    }
    resumed = exchanger(method, group, sizes)
    resumed.load_state_dict(first.state_dict())
    # The same tensors in other buckets, as after DDP rebuilt its buckets.
    ahead = [average(first, geometry_of(order), gradients(STEPS, worker.rank))]
    own, halves = gradients(STEPS, worker.rank), (order[2:][::-1], order[:2][::-1])
    ahead.append({name: out for half in halves for name, out in average(resumed, geometry_of(half), own).items()})
    result["resumed"] = [digest(out) for out in ahead]
    result["given back"] = _given_back(exchanger(method, group, sizes), worker)
    poisoned = gradients(STEPS + 1, worker.rank)
    if worker.rank == 1:
        poisoned["weight"][3, 5] = torch.inf
    try:
        out = average(first, geometry_of(order), poisoned)
        result["passed_on"] = not out["weight"].isfinite().all().item()
    except LightloomError as error:
        result["refused"] = str(error)
    out = average(first, geometry_of(order), gradients(STEPS + 2, worker.rank))
    result["recovered"] = all(value.isfinite().all().item() for value in out.values())
    return result


def _state_values(run: Exchanger) -> int:
    """Values that a rank keeps from one step to the next; the narrow factors of PowerSGD do not grow with them."""
    state = run.state_dict()
    return sum(value.numel() for key, value in state.items() if torch.is_tensor(value) and "start/" not in key)


def _error(outputs: list[dict[str, Tensor]], ranks: int) -> float:
    """Error of the sum of averages over all steps, relative to the root mean square of the exact sum."""
    every = [mean_over_ranks(step, ranks) for step in range(STEPS)]
    exact = torch.stack([torch.cat([mean[name] for name in SHAPES]) for mean in every]).sum(0)
    total = torch.stack([torch.cat([out[name].double() for name in SHAPES]) for out in outputs]).sum(0)
    return float((total - exact).norm() / exact.norm())


def _with_residuals(run: Exchanger, outputs: list[dict[str, Tensor]], ranks: int) -> float | None:
    """Largest error of the sum of averages and all ranks' residuals; None without error feedback."""
    if run.residuals is None:
        return None
    largest, residuals = 0.0, run.residuals.by_tensor()
    for name in SHAPES:
        kept = residuals[name].double()
        dist.all_reduce(kept)
        total = sum(out[name].double() for out in outputs) + kept / ranks
        exact = sum(mean_over_ranks(step, ranks)[name] for step in range(STEPS))
        largest = max(largest, float((total - exact).abs().max()))
    return largest


def _given_back(run: Exchanger, worker: Worker) -> float | None:
    """Error of the averages of two steps and of what is given back then, relative to their exact sum; None where
    nothing is given back."""
    geometry = geometry_of(list(SHAPES))
    outputs = [average(run, geometry, gradients(step, worker.rank)) for step in range(2)]
    left = run.drain(geometry)
    if left is None:
        return None
    assert run.drain(geometry) is None, "residuals are given back twice"
    dist.all_reduce(left)
    total = left.double() / worker.size + sum(torch.cat([out[name] for name in SHAPES]).double() for out in outputs)
    exact = sum(torch.cat([*mean_over_ranks(step, worker.size).values()]) for step in range(2))
    return float((total - exact).norm() / torch.as_tensor(exact).norm())


def factors(worker: Worker, group: OwnGroup) -> float:
    """Relative error of PowerSGD of gradients whose mean has rank 2: nothing is left out after a few steps."""
    run = exchanger(exchange.find("powersgd:rank=2,feedback=no"), group)
    generator = torch.Generator().manual_seed(3)
    left, right = torch.randn(48, 2, generator=generator), torch.randn(2, 64, generator=generator)
    mean = left @ right
    noise = [torch.randn(48, 64, generator=generator) for _ in range(worker.size)]
    own = mean + noise[worker.rank] - torch.stack(noise).mean(0)
    geometry = Geometry.joined([("weight", (48, 64))])
    out = own.clone()
    for _ in range(3):
        out = own.clone().reshape(-1)
        run.average(out, geometry)
    return float((out.view(48, 64) - mean).norm() / mean.norm())


def functions(worker: Worker) -> dict[str, Any]:
    """``exchange.all_reduce`` of tensors of several types and shapes, with and without a state."""
    results: dict[str, Any] = {}
    mean = sum(range(1, worker.size + 1)) / worker.size
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.complex64):
        tensor = torch.full((5, 3), worker.rank + 1.0, dtype=dtype).t()
        largest = (exchange.all_reduce(tensor, "int8") - mean).abs().max()
        results[str(dtype)] = float(largest) < 0.02 * mean and tensor.dtype == dtype
    double = torch.full((3,), 1e60 * (worker.rank + 1), dtype=torch.float64)
    results["float64"] = bool(
        torch.allclose(exchange.all_reduce(double.clone(), "float32"), double.new_tensor(1e60 * mean))
    )
    for words in ({"method": "int8"}, {"method": "diloco"}, {}):
        try:
            exchange.all_reduce(double, **words)  # type: ignore[arg-type]
        except LightloomError as error:
            results[f"refused {words}"] = str(error)
    closed = exchange.ReduceState("int8")
    closed.close()
    try:
        closed.all_reduce(torch.ones(3))
    except LightloomError as error:
        results["closed"] = str(error)
    state = exchange.ReduceState("topk:share=0.1")
    sums: dict[str, Tensor] = {name: torch.zeros(SHAPES[name]) for name in ("weight", "scale")}
    for step in range(30):
        own = gradients(0, worker.rank)
        for name in sums:
            sums[name] += exchange.all_reduce(own[name], state=state, name=name)
            if step == 14:
                again = exchange.ReduceState("topk:share=0.1")
                again.load_state_dict(state.state_dict())
                state = again
    exact = mean_over_ranks(0, worker.size)
    errors = torch.cat([total.reshape(-1) / 30 - exact[name] for name, total in sums.items()])
    results["stateful"] = float(errors.norm() / torch.cat([exact[name] for name in sums]).norm())
    return results


def laws_of_all(worker: Worker) -> dict[str, dict[str, Any]]:
    """The laws of all methods in ``worker.arguments``."""
    torch.set_num_threads(1)
    default = dist.group.WORLD
    assert default is not None
    group = OwnGroup(default, TIMEOUT)
    return {text: laws(worker, group, text) for text in worker.arguments["methods"]}


def everything(worker: Worker) -> dict[str, Any]:
    """The laws of all methods in ``worker.arguments``, of functions, and of periodic methods."""
    results = laws_of_all(worker)
    default = dist.group.WORLD
    assert default is not None
    return {
        "laws": results,
        "factors": factors(worker, OwnGroup(default, TIMEOUT)),
        "functions": functions(worker),
        "periodic": periodic_workers.everything(worker),
    }
