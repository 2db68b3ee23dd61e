"""Operators of a profiled step: how often each is called, how long a call took, and what the kernel model predicts.

On a GPU the time of an operator is that of the work which it launched, inner calls of products and of attention
included. In a profile of the host alone it is the time on the host, without that of inner calls which are operators of
their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, cast

import numpy as np

from lightloom.accelerators.base import ELEMENT_BYTES, PRECISIONS, Accelerator, Precision
from lightloom.accelerators.kernels import KernelKind, KernelModel, KernelShapes, Rates
from lightloom.calibration.priors import kernel_model
from lightloom.calibration.profiled_kernels import ProfiledKernel, covers_inner_calls, kernel_of
from lightloom.core.arrays import Floats
from lightloom.interchange.traces.kineto import Profile, TimedCall
from lightloom.interchange.traces.steps import BACKWARD

Pass = Literal["forward", "backward", "update"]
TIMED_FROM = 20e-6
"""Seconds of a call from which its kernels, not their launch and their tail, decide its time: an assumption."""


class OperatorKey(NamedTuple):
    """What calls have in common that are one operator of a profile."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    """Of the tensors that it reads."""
    precision: str
    """Number format; empty where no tensor has one."""
    step_pass: Pass


@dataclass(slots=True)
class ProfiledOperator:
    """Calls of one operator with inputs of the same shapes."""

    key: OperatorKey
    kernel: ProfiledKernel | None
    calls: int = 0
    seconds: float = 0.0
    """Of all calls together."""
    kernels: dict[str, None] = field(default_factory=dict)
    """Names of the GPU's kernels, each once."""

    @property
    def mean_seconds(self) -> float:
        """Seconds of one call."""
        return self.seconds / self.calls

    @property
    def rate(self) -> Precision | None:
        """Number format of the arithmetic: TF32 where kernels of float32 tensors say so; None without one."""
        if self.key.precision == "fp32" and any("tf32" in name or "s1688" in name for name in self.kernels):
            return "tf32"
        return self.key.precision if self.key.precision in PRECISIONS else None


def operators_of(profile: Profile) -> list[ProfiledOperator]:
    """Return the operators of a profile that took time, the longest first."""
    operators: dict[OperatorKey, ProfiledOperator] = {}
    for call, step_pass, seconds in _timed(profile.calls, "forward", profile.on_device):
        key = OperatorKey(call.name, tuple(tensor.shape for tensor in call.reads), call.precision, step_pass)
        operator = operators.setdefault(key, ProfiledOperator(key, kernel_of(call)))
        operator.calls += 1
        operator.seconds += seconds
        operator.kernels |= dict.fromkeys(_kernels(call))
    return sorted(operators.values(), key=lambda operator: -operator.seconds)


def _timed(calls: Sequence[TimedCall], step_pass: Pass, on_device: bool) -> Iterator[tuple[TimedCall, Pass, float]]:
    """Yield the calls that took time themselves, with the pass that they are in and their seconds."""
    for call in calls:
        inner = cast("list[TimedCall]", call.calls)
        inside: Pass = (
            "backward" if call.name.startswith(BACKWARD) else "update" if "Optimizer." in call.name else step_pass
        )
        whole = call.schema and covers_inner_calls(kernel_of(call))
        seconds = _device_seconds(call, whole) if on_device else _host_seconds(call, whole)
        if call.schema and seconds > 0:
            yield call, inside, seconds
        if not whole:
            yield from _timed(inner, inside, on_device)


def _device_seconds(call: TimedCall, whole: bool | str) -> float:
    inner = cast("list[TimedCall]", call.calls)
    return call.device_seconds + (sum(_device_seconds(entry, True) for entry in inner) if whole else 0.0)


def _host_seconds(call: TimedCall, whole: bool | str) -> float:
    inner = cast("list[TimedCall]", call.calls)
    return call.seconds if whole else max(call.seconds - sum(entry.seconds for entry in inner), 0.0)


def _kernels(call: TimedCall) -> Iterator[str]:
    yield from call.kernels
    for inner in cast("list[TimedCall]", call.calls):
        yield from _kernels(inner)


def predicted_seconds(
    operators: Sequence[ProfiledOperator], accelerator: Accelerator, kernels: KernelModel | None = None
) -> Floats:
    """Return the seconds that one call of each operator takes by the kernel model, NaN where it has no price.

    Element-wise operators are priced as they were called, one by one: nothing is fused.

    Args:
        operators: of a profile, [operators].
        accelerator: what they run on.
        kernels: its kernel model, with other values where they are given.
    """
    model = (kernels or kernel_model(accelerator)).model_copy(update={"fusion": 1.0})
    seconds = np.full(len(operators), np.nan)
    rates = [operator.rate for operator in operators]
    for precision in {rate for rate in rates if rate in accelerator.peak}:
        rows = [
            row for row, operator in enumerate(operators) if rates[row] == precision and operator.kernel is not None
        ]
        if rows and precision is not None:
            peak = Rates(accelerator.peak_rate(precision), accelerator.memory_bandwidth or np.inf)
            shapes, nbytes, flops = _columns([operators[row] for row in rows])
            seconds[rows] = model.operator_times(nbytes, flops, shapes, peak)[0]
    return seconds


def _columns(operators: Sequence[ProfiledOperator]) -> tuple[KernelShapes, Floats, Floats]:
    """The kernels of operators of one number format, their bytes and their FLOPs, each [1, operators]."""
    specified = [operator.kernel for operator in operators if operator.kernel is not None]
    table = np.array([kernel[1:] for kernel in specified], np.float64).T[:, None, :]
    m, n, k, products, repeats, forward, input_gradient, weight_gradient, causal, nbytes = table
    size = next((tensor for tensor in (_element_bytes(operator) for operator in operators) if tensor), 4)
    attention = size * products * (2 * m + 2 * n) * k
    shapes = KernelShapes(
        kind=np.array([kernel.kind for kernel in specified], np.int64),
        m=m,
        n=n,
        k=k,
        products=products,
        repeats=repeats,
        forward=forward,
        input_gradient=input_gradient,
        weight_gradient=weight_gradient,
        visible=np.where(causal[0] == 1, 0.5, 1.0),
        narrow=np.zeros(len(specified), np.int64),
        losses=np.zeros(len(specified), np.int64),
        element_bytes=size,
    )
    is_flash = shapes.kind == KernelKind.FLASH
    moved = np.where(is_flash, attention * (forward + input_gradient), nbytes)
    return shapes, moved, 2 * m * n * k * products


def _element_bytes(operator: ProfiledOperator) -> int:
    rate = operator.rate
    return 0 if rate is None else 1 if rate == "fp8" else ELEMENT_BYTES[rate]
