"""Kernels of profiled calls as columns, prices of single operators, and the parts of a step from round numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lightloom.machines.accelerators.kernels import KernelKind
from lightloom.machines.accelerators.load import load_accelerator
from lightloom.machines.clusters.load import load_cluster
from lightloom.models.traces.calls import Call
from lightloom.models.traces.kineto import Busy, DeviceWork
from lightloom.models.traces.operators import TracedExchange
from lightloom.planning.calibration import profile as profile_module
from lightloom.planning.calibration.profile import (
    FITTED,
    ExchangeRow,
    ProfiledKernel,
    ProfiledOperator,
    exchange_pricer,
    kernel_of,
    predicted_seconds,
    profiled_step,
)
from lightloom.planning.calibration.rows import kernel_model
from tests.calibration.test_kernels_of_calls import call, exchanged, operator, product, profile_of, tensor

A100, H100 = load_accelerator("a100"), load_accelerator("h100")
FORWARD = ProfiledKernel(KernelKind.FLASH, 4, 6, 8, products=3, forward=1, causal=1)


def test_columns_of_kernels() -> None:
    """Attention reads queries, keys and values and writes as many as the queries: 2 (4 + 6) 8 a product."""
    backward = FORWARD._replace(forward=0, input_gradient=1, weight_gradient=1, causal=0)
    kernels = [product(m=2, n=3, k=5, products=7, forward=1, repeats=9), FORWARD, backward]
    kernels += [FORWARD._replace(input_gradient=1), ProfiledKernel(KernelKind.MEMORY, nbytes=100)]
    shapes, nbytes, flops = profile_module._kernel_columns(kernels, 2)
    attention = 2 * 3 * (2 * 4 + 2 * 6) * 8
    assert nbytes.tolist() == [[0, attention, attention, 2 * attention, 100]]
    assert flops.tolist() == [[2 * 2 * 3 * 5 * 7, *[2 * 4 * 6 * 8 * 3] * 3, 0]]
    assert shapes.kind.tolist() == [kernel.kind for kernel in kernels]
    assert shapes.visible.tolist() == [1.0, 0.5, 1.0, 0.5, 1.0]
    assert shapes.repeats.tolist() == [[9, 1, 1, 1, 1]] and shapes.element_bytes == 2
    assert shapes.m.tolist() == [[2, 4, 4, 4, 0]] and shapes.n.tolist() == [[3, 6, 6, 6, 0]]
    assert shapes.weight_gradient.tolist() == [[0, 0, 1, 0, 0]]


def seconds(made: ProfiledKernel, precision: str = "bf16", machine: object = A100, **changes: float) -> float:
    kernels = kernel_model(machine).model_copy(update=changes)  # type: ignore[arg-type]
    entry = ProfiledOperator(operator(precision).key, made, 1, 1.0)
    return float(predicted_seconds([entry], machine, kernels)[0])  # type: ignore[arg-type]


def test_prices_of_single_operators() -> None:
    """Traffic takes its bytes over what is reached of the memory's bandwidth, whatever fusion would save."""
    memory = ProfiledKernel(KernelKind.MEMORY, nbytes=10**9)
    assert A100.memory_bandwidth is not None
    wanted = 1e9 / (0.5 * A100.memory_bandwidth)
    assert seconds(memory, memory_fraction=0.5, fusion=0.2) == pytest.approx(wanted, rel=0.02)
    assert seconds(memory, memory_fraction=0.5, fusion=1.0) == seconds(memory, memory_fraction=0.5, fusion=0.2)
    # A long product of whole tiles runs at its fraction of the peak; fp8 has twice the rate and half the bytes.
    large = product(m=8192, n=8192, k=8192, products=1, forward=1)
    flops = 2 * 8192**3
    for precision in ("bf16", "fp8"):
        reached = flops / seconds(large, precision, H100, gemm_fraction=0.5) / H100.peak_rate(precision)
        assert 0.4 < reached <= 0.5
    # One row of 16 million values: only the weights' bytes matter.
    thin = product(m=1, n=16384, k=16384, products=1, forward=1)
    assert seconds(thin, "bf16", H100) / seconds(thin, "fp8", H100) == pytest.approx(2, rel=0.05)


def test_rows_of_a_fit_predict_logarithms_and_their_slopes() -> None:
    """All of a memory operator's time falls as its fraction grows; kinds are names and passes."""
    memory = ProfiledOperator(operator().key, ProfiledKernel(KernelKind.MEMORY, nbytes=10**9), 4, 2.0)
    large = ProfiledOperator(
        replace_key(memory, step_pass="backward"), product(m=8192, n=8192, k=65536, products=1, forward=1), 1, 0.1
    )
    again = ProfiledOperator(replace_key(memory, precision="fp16"), memory.kernel, 1, 1.0)
    rows = profile_module._Rows([memory, large, again], A100)
    assert rows.measured == pytest.approx(np.log([0.5, 0.1, 1.0])) and rows.kinds == 2
    at = np.log([0.5, 500.0, 0.5, 0.5, 0.5, 0.5])
    predicted = rows.predicted(at)
    assert predicted[0] == pytest.approx(np.log(seconds(memory.kernel, memory_fraction=0.5)))  # type: ignore[arg-type]
    slopes = rows.slopes(at)
    assert slopes.shape == (3, 6)
    fractions = FITTED.index("gemm_fraction"), FITTED.index("memory_fraction")
    assert slopes[0, fractions[1]] == pytest.approx(-1, abs=0.02)
    assert slopes[1, fractions[0]] == pytest.approx(-1, abs=0.02)
    assert slopes[1, fractions[1]] == pytest.approx(0, abs=1e-6)
    part = rows.subset(np.array([False, True, True]))
    assert part.operators == [large, again] and part.kinds == 2


def replace_key(entry: ProfiledOperator, **changes: str) -> profile_module.OperatorKey:
    return entry.key._replace(**changes)  # type: ignore[arg-type]


def row(predicted: float | None, times: float, measured: float) -> ExchangeRow:
    return ExchangeRow(TracedExchange("all-reduce", 1, seconds=measured), times, measured, predicted)


def test_parts_of_a_step_from_round_numbers() -> None:
    """Two steps of 10 s: computing 6, exposed 3, idle 1. Exchanges of a step took 2 · 1 + 1 · 2 = 4 s; the first is
    predicted to take 3 s, so that they take 8."""
    spent, cluster = Busy(12.0, 6.0, 1.0, 2.0), load_cluster("dgx-a100-64")
    rows = [row(3.0, 2.0, 1.0), row(None, 1.0, 2.0)]
    computing, exposed, idle = profile_module._step_parts(spent, -4.0, 0.25, rows, 2, cluster)
    assert (computing.name, computing.measured, computing.predicted) == ("computing", 6.0, 4.0)
    assert computing.difference == -2.0
    assert computing.note == "25% of the operators' time is priced, the rest as measured"
    assert (exposed.measured, exposed.predicted, exposed.difference) == (3.0, 6.0, 3.0)
    assert exposed.note == "1 of 2 kinds of exchanges are priced"
    assert (idle.measured, idle.predicted) == (1.0, 1.0)
    computing, exposed, _ = profile_module._step_parts(spent, -13.0, 1.0, [], 2, None)
    assert computing.predicted == 0.0 and (exposed.predicted, exposed.note) == (3.0, "none")
    _, exposed, _ = profile_module._step_parts(spent, 0.0, 1.0, rows[1:], 2, None)
    assert (exposed.predicted, exposed.note) == (3.0, "as measured: no cluster is named")


def test_a_step_of_operators_and_exchanges_that_overlap() -> None:
    """On a device: kernels from 0 to 4 and 8 to 9 s, an exchange from 3 to 6 s, in two steps from 0 to 10 s."""
    work = (
        DeviceWork("k", 0.0, 4.0, None),
        DeviceWork("e", 3.0, 3.0, exchanged("all-reduce", 1000, 3.0)),
        DeviceWork("k", 8.0, 1.0, None),
    )
    known = call("mm", tensor(64, 64), tensor(64, 64), device_seconds=3.0)
    unknown = call("index", tensor(4), device_seconds=1.0)
    facts = {"device_seconds": 5.0, "work": work, "steps": 2, "marks": ((0.0, 5.0), (5.0, 10.0))}
    step = profiled_step(profile_of(known, unknown, **facts), A100, None)
    assert [part.measured for part in step.parts] == [2.5, 1.0, 1.5]
    assert step.measured == 5.0 and step.overlapped == 0.5 and step.steps == 2
    price = predicted_seconds([step.operators[0][0]], A100)[0]
    assert step.operators[0][1] == price and step.operators[1][1] is None
    assert step.parts[0].predicted == pytest.approx(2.5 + (price - 3.0) / 2)
    assert step.predicted == pytest.approx(5.0 + (price - 3.0) / 2)
    assert step.parts[0].note.startswith("75% of")
    (only,) = step.exchanges
    assert (only.times, only.measured, only.predicted) == (0.5, 3.0, None)


def timed(name: str, begin: float, length: float) -> Call:
    return replace(call(name, tensor(4), seconds=length), begin=begin)


def test_windows_are_the_marks_and_on_a_device_what_they_launched() -> None:
    host = [timed("add", 2.0, 3.0), timed("mul", 1.0, 1.0)]
    work = (DeviceWork("k", 0.5, 0.25, None), DeviceWork("k", 9.0, 3.0, None))
    assert profile_module._window(profile_of(*host)) == (1.0, 5.0)
    assert profile_module._window(profile_of(*host, work=work, device_seconds=1.0)) == (0.5, 12.0)
    marks = ((1.5, 2.0), (2.0, 4.0))
    assert profile_module._window(profile_of(*host, marks=marks)) == (1.5, 4.0)
    assert profile_module._window(profile_of(*host, work=work, device_seconds=1.0, marks=marks)) == (1.5, 12.0)
    assert profile_module._window(profile_of(*host, work=work[:1], device_seconds=1.0, marks=marks)) == (1.5, 4.0)


def test_shapes_of_kernels_that_no_other_test_asks_for() -> None:
    """Of many tensors the last two are multiplied; sizes of elements count in traffic."""
    wide = replace(tensor(10), element_bytes=4)
    made = kernel_of(call("add", wide, tensor(20)))
    assert made is not None and made.nbytes == 40 + 40 + 40
    made = kernel_of(call("_softmax_backward_data", tensor(3, 4), wide))
    assert made is not None and made.nbytes == 24 + 40 + 40
    assert kernel_of(call("mm", tensor(6, 0), tensor(0, 5))) == product(m=6, n=5, k=0, products=1, forward=1)
    values: tuple[object, ...] = (None,) * 6 + (True,)
    queries, keys = tensor(6, 16, 64), tensor(6, 32, 64)
    for name in ("_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention"):
        found = kernel_of(call(name, queries, keys, keys, values=values))
        assert found == ProfiledKernel(KernelKind.FLASH, 16, 32, 64, products=6, forward=1, causal=1)


def test_exchanges_of_no_stated_group_are_those_of_the_whole_job() -> None:
    """Where the profile says how many ranks that has, as a number."""
    cluster, exchange = load_cluster("dgx-a100-64"), exchanged("all-reduce", 2**20, 1.0)
    work = (DeviceWork("e", 0.0, 1.0, exchange),)
    for facts, world in (({"world_size": 8}, 8), ({"world_size": "8"}, None), ({"world_size": True}, None), ({}, None)):
        made = profile_of(call("mm", tensor(6, 4), tensor(4, 5)), device_seconds=1.0, work=work, distributed=facts)
        (found,) = profiled_step(made, A100, cluster).exchanges
        assert found.predicted == (None if world is None else exchange_pricer(cluster, 8)(exchange))
        assert found.exchange is exchange and (found.predicted is None) == (world is None)
