"""A made-up profile of a GPU: products, attention and element-wise operators, launched by correlation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from lightloom.machines.accelerators.kernels import (
    KernelKind,
    KernelModel,
    KernelShapes,
    Rates,
)
from lightloom.machines.accelerators.load import load_accelerator

Shapes = list[list[int]]
_STEP_US = 1e6
_SIZES = ((4096, 4096, 4096), (8192, 4096, 1024), (2048, 2048, 8192), (16384, 1024, 4096), (4096, 12288, 4096))


def gpu_profile(values: Mapping[str, float] | None = None, steps: int = 2) -> dict[str, Any]:
    """Return a profile of bf16 operators on an A100 whose kernel model has these values."""
    machine = load_accelerator("a100")
    assert machine.kernels is not None and machine.memory_bandwidth is not None
    kernels = machine.kernels.model_copy(update={**(values or {}), "fusion": 1.0})
    rates = Rates(machine.peak_rate("bf16"), machine.memory_bandwidth)
    events: list[dict[str, Any]] = []
    for step in range(steps):
        begin = step * _STEP_US
        events.append(_host(f"ProfilerStep#{step}", begin, _STEP_US - 1, 1000 * step, cat="user_annotation"))
        for number, (name, shapes, concrete, seconds) in enumerate(_operators(kernels, rates)):
            identity = 1000 * step + 10 * number + 10
            events += _launched(name, shapes, concrete, seconds * 1e6, begin + 10 + 100 * number, identity)
    return {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB"}], "traceEvents": events}


def _operators(kernels: KernelModel, rates: Rates) -> list[tuple[str, Shapes, list[str], float]]:
    """Names, shapes, values as text and seconds."""
    made: list[tuple[str, Shapes, list[str], float]] = []
    for m, n, k in _SIZES:
        seconds = _seconds(kernels, rates, KernelKind.PRODUCT, m, n, k, 1)
        made.append(("aten::mm", [[m, k], [k, n]], ["", ""], seconds))
    for length in (1024, 2048, 4096):
        shape = [4, 32, length, 128]
        seconds = _seconds(kernels, rates, KernelKind.FLASH, length, length, 128, 128, causal=1)
        values = ["", "", "", "0.", "True", "False", ""]
        made.append(("aten::_scaled_dot_product_flash_attention", [shape] * 3 + [[]] * 4, values, seconds))
    for elements in (2**26, 2**27, 2**28):
        shape = [elements]
        seconds = float(kernels.memory_time(np.array(3.0 * 2 * elements), rates))
        made.append(("aten::add", [shape, shape, []], ["", "", "1"], seconds))
    return made


def _seconds(
    kernels: KernelModel, rates: Rates, kind: KernelKind, m: int, n: int, k: int, products: int, causal: int = 0
) -> float:
    one, none = np.ones((1, 1)), np.zeros((1, 1))
    shapes = KernelShapes(
        np.array([kind]),
        m * one,
        n * one,
        k * one,
        products * one,
        one,
        one,
        none,
        none,
        np.array([0.5 if causal else 1.0]),
        np.zeros(1, int),
        np.zeros(1, int),
        2,
    )
    moved = 2.0 * products * (2 * m + 2 * n) * k * one
    return float(kernels.operator_times(moved, 2.0 * m * n * k * products * one, shapes, rates)[0, 0])


def _launched(
    name: str, shapes: Shapes, concrete: list[str], duration: float, begin: float, identity: int
) -> list[dict[str, Any]]:
    """An operator, the launch inside it, and the kernel, which begins later and on another stream."""
    types = ["c10::BFloat16" if shape else "Scalar" for shape in shapes]
    arguments: dict[str, Any] = {"Input Dims": shapes, "Input type": types, "Concrete Inputs": concrete}
    launch = {"External id": identity, "correlation": identity + 5}
    return [
        _host(name, begin, 50, identity, **arguments),
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": begin + 5, "dur": 3}
        | {"args": launch},
        {"ph": "X", "cat": "kernel", "name": f"kernel_of_{name}", "pid": 0, "tid": 7, "ts": begin + 500}
        | {"dur": duration, "args": {"correlation": identity + 5, "stream": 7}},
    ]


def _host(
    name: str, begin: float, duration: float, identity: int, cat: str = "cpu_op", **arguments: Any
) -> dict[str, Any]:
    event = {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": begin, "dur": duration}
    return event | {"args": {"External id": identity, **arguments}}
