"""Profiled calls as kernels, and the parts of a profiled step: shapes, passes, order and what is not known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lightloom.machines.accelerators.kernels import KernelKind
from lightloom.machines.accelerators.load import load_accelerator
from lightloom.machines.clusters.load import load_cluster
from lightloom.models.traces.calls import BACKWARD, Call, TraceTensor
from lightloom.models.traces.kineto import DeviceWork, Profile, read_profile
from lightloom.models.traces.operators import TracedExchange
from lightloom.planning.calibration.profile import (
    OperatorKey,
    ProfiledKernel,
    ProfiledOperator,
    exchange_pricer,
    kernel_of,
    operators_of,
    predicted_seconds,
    profiled_step,
    usable_operators,
)
from tests.interchange.test_kineto_workload import call as event
from tests.interchange.test_kineto_workload import events, kernel, tensors, written

MACHINE = load_accelerator("a100")


def tensor(*shape: int, transposed: bool = False) -> TraceTensor:
    strides = (1, shape[0]) if transposed else ()
    return TraceTensor(0, 0, shape, 2, True, "", strides)


def call(name: str, *reads: TraceTensor, values: tuple[object, ...] = (), seconds: float = 1.0, **more: object) -> Call:
    fields: dict[str, object] = {"precision": "bf16", "own_seconds": seconds, "seconds": seconds} | more
    return replace(Call(0, f"aten::{name}", f"aten::{name}", -1, list(reads), [], list(values)), **fields)  # type: ignore[arg-type]


def profile_of(*calls: Call, **facts: object) -> Profile:
    fields: dict[str, object] = {"steps": 1, "step_seconds": None, "devices": (), "device_seconds": 0.0} | facts
    return Profile(name="p", sha256="0", calls=calls, roots=calls, unattributed_seconds=0.0, **fields)  # type: ignore[arg-type]


def product(**shape: int) -> ProfiledKernel:
    return ProfiledKernel(KernelKind.PRODUCT, **shape)


def test_products_have_the_shapes_of_their_last_two_tensors() -> None:
    assert kernel_of(call("mm", tensor(6, 4), tensor(4, 5))) == product(m=6, n=5, k=4, products=1, forward=1)
    assert kernel_of(call("addmm", tensor(5), tensor(6, 4), tensor(4, 5))) == product(
        m=6, n=5, k=4, products=1, forward=1
    )
    expected = product(m=6, n=5, k=4, products=3, forward=1)
    assert kernel_of(call("bmm", tensor(3, 6, 4), tensor(3, 4, 5))) == expected
    assert kernel_of(call("baddbmm", tensor(3, 6, 5), tensor(3, 6, 4), tensor(3, 4, 5))) == expected
    assert kernel_of(call("mm", tensor(6, 4))) is None
    assert kernel_of(call("mm")) is None


def test_a_transposed_left_factor_is_the_gradient_of_weights() -> None:
    """The sum runs over its first axis, the tokens, which are the rows of the forward product."""
    expected = product(m=6, n=4, k=5, products=1, weight_gradient=1)
    assert kernel_of(call("mm", tensor(4, 6, transposed=True), tensor(6, 5))) == expected


def convolution(*, transposed: object = False, groups: object = 2) -> Call:
    values = (None, None, None, [1, 1], [1, 1], [1, 1], transposed, [0, 0], groups)
    return call("convolution", tensor(5, 4, 8, 8), tensor(6, 2, 3, 3), values=values)


def test_convolutions_are_products_of_their_groups() -> None:
    assert kernel_of(convolution()) == product(m=5 * 64, n=3, k=2 * 9, products=2, repeats=9, forward=1)
    assert kernel_of(convolution(transposed=True)) is None
    assert kernel_of(convolution(transposed=None)) is None
    assert kernel_of(convolution(groups="2")) is None


@pytest.mark.parametrize("wanted", [[True, False, True], [False, True, True], [True, True, False], None])
def test_gradients_of_convolutions_are_those_that_are_wanted(wanted: list[bool] | None) -> None:
    settings = ([1, 1], [1, 1], [1, 1], False, [0, 0], 2)
    reads = (tensor(5, 6, 8, 8), tensor(5, 4, 8, 8), tensor(6, 2, 3, 3))
    found = kernel_of(call("convolution_backward", *reads, values=(None, None, None, [6], *settings, wanted)))
    if wanted is None:
        assert found is None
    else:
        assert found == product(
            m=5 * 64,
            n=3,
            k=18,
            products=2,
            repeats=9,
            input_gradient=int(wanted[0]),
            weight_gradient=int(wanted[1]),
        )


@pytest.mark.parametrize("causal", [True, False, None])
def test_attention_is_forward_or_both_gradients_and_causal_where_it_says_so(causal: bool | None) -> None:
    queries, keys = tensor(2, 3, 16, 64), tensor(2, 3, 32, 64)
    values: tuple[object, ...] = (None, None, None, 0.0, causal)
    forward = kernel_of(call("_scaled_dot_product_flash_attention", queries, keys, keys, values=values))
    assert forward == ProfiledKernel(KernelKind.FLASH, 16, 32, 64, products=6, forward=1, causal=int(causal is True))
    name = "_scaled_dot_product_flash_attention_for_cpu_backward"
    values = (None,) * 7 + (causal,)
    backward = kernel_of(call(name, queries, queries, keys, keys, values=values))
    assert backward == ProfiledKernel(
        KernelKind.FLASH, 16, 32, 64, products=6, input_gradient=1, weight_gradient=1, causal=int(causal is True)
    )
    assert kernel_of(call("_scaled_dot_product_flash_attention", queries, keys, keys)) is None


def test_memory_traffic_is_read_once_and_written_at_the_largest_shape() -> None:
    def nbytes(name: str, *reads: TraceTensor) -> int | None:
        found = kernel_of(call(name, *reads))
        assert found is None or found.kind is KernelKind.MEMORY
        return None if found is None else found.nbytes

    large, small = tensor(10, 10), tensor(10)
    assert nbytes("add", large, small) == nbytes("add_", large, small) == 2 * (100 + 10 + 100)
    assert nbytes("add", small, large) == 2 * (100 + 10 + 100)
    assert nbytes("_softmax", large) == 400
    assert nbytes("fill_", large, small) == nbytes("zero_", large) == 200
    assert nbytes("copy_", large, small) == 220
    assert nbytes("copy_", large) is None
    assert nbytes("index", large) is None and nbytes("add") is None


def test_operators_come_in_the_order_of_their_seconds_and_equal_calls_count_together() -> None:
    short = [call("mm", tensor(2, 2), tensor(2, 2), seconds=1.0, kernels=[name]) for name in ("a", "b", "a")]
    long = call("mm", tensor(4, 4), tensor(4, 4), seconds=5.0)
    none = call("add", tensor(2), seconds=0.0)
    bare = replace(call("mm", tensor(8, 8), tensor(8, 8)), schema="")
    found = operators_of(profile_of(*short, long, none, bare))
    assert [(each.calls, each.seconds, each.mean_seconds) for each in found] == [(1, 5.0, 5.0), (3, 3.0, 1.0)]
    assert list(found[1].kernels) == ["a", "b"]
    assert found[1].key == OperatorKey("aten::mm", ((2, 2), (2, 2)), "bf16", "forward")


def test_passes_are_those_of_the_calls_around() -> None:
    inner = call("mm", tensor(2, 2), tensor(2, 2))
    backward = replace(call("x", calls=[inner]), name=f"{BACKWARD}MmBackward0", schema="")
    update = replace(call("x", calls=[call("add_", tensor(2))]), name="Optimizer.step#SGD.step", schema="")
    found = operators_of(profile_of(inner, backward, update))
    assert {(each.key.name, each.key.step_pass) for each in found} == {
        ("aten::mm", "forward"),
        ("aten::mm", "backward"),
        ("aten::add_", "update"),
    }


def test_calls_inside_products_are_parts_of_them_and_those_inside_others_are_not() -> None:
    def inside(name: str, *, device: bool) -> list[tuple[str, float]]:
        part = call("copy_", tensor(2, 2), tensor(2, 2), seconds=2.0, device_seconds=20.0)
        outer = call(name, tensor(2, 2), tensor(2, 2), own_seconds=1.0, seconds=3.0, device_seconds=10.0, calls=[part])
        facts = {"device_seconds": 30.0 * device}
        return [(each.key.name, each.seconds) for each in operators_of(profile_of(outer, **facts))]

    assert inside("mm", device=False) == [("aten::mm", 3.0)]
    assert inside("mm", device=True) == [("aten::mm", 30.0)]
    assert inside("add", device=False) == [("aten::copy_", 2.0), ("aten::add", 1.0)]
    assert inside("add", device=True) == [("aten::copy_", 20.0), ("aten::add", 10.0)]


def operator(precision: str = "bf16", kernels: tuple[str, ...] = (), seconds: float = 1.0) -> ProfiledOperator:
    key = OperatorKey("aten::mm", ((64, 64), (64, 64)), precision, "forward")
    made = product(m=4096, n=4096, k=4096, products=1, forward=1)
    return ProfiledOperator(key, made, 1, seconds, dict.fromkeys(kernels))


def test_the_rate_of_an_operator_is_that_of_its_tensors_or_of_its_kernels() -> None:
    assert operator().rate == "bf16"
    assert operator("fp32").rate == operator("fp32", ("sgemm",)).rate == "fp32"
    assert operator("fp32", ("sgemm", "cutlass_tf32_gemm")).rate == "tf32"
    assert operator("fp32", ("ampere_s1688gemm",)).rate == "tf32"
    assert operator("bf16", ("ampere_s1688gemm",)).rate == "bf16"
    assert operator("").rate is None and operator("int64").rate is None


def test_what_has_no_rate_or_kernel_has_no_price() -> None:
    unknown = ProfiledOperator(operator().key, None, 1, 1.0)
    found = predicted_seconds([unknown, operator(), operator("fp8"), operator("int64"), operator("fp32")], MACHINE)
    assert np.isnan(found).tolist() == [True, False, True, True, False]
    assert found[4] > found[1]
    assert len(predicted_seconds([], MACHINE)) == 0


def test_operators_are_fitted_from_twenty_microseconds_a_call() -> None:
    slow, quick, free = operator(seconds=20e-6), operator(seconds=19.9e-6), operator("int64", seconds=1.0)
    twice = operator(seconds=39e-6)
    twice.calls = 2
    assert usable_operators([quick, slow, free, twice], MACHINE) == [slow]


def test_more_traffic_and_more_products_take_longer() -> None:
    def seconds(made: ProfiledKernel) -> float:
        return float(predicted_seconds([ProfiledOperator(operator().key, made, 1, 1.0)], MACHINE)[0])

    small, large = (ProfiledKernel(KernelKind.MEMORY, nbytes=nbytes) for nbytes in (10**8, 2 * 10**8))
    assert seconds(large) > 1.5 * seconds(small)
    bound = 10**8 / (MACHINE.memory_bandwidth or 1.0)
    assert bound < seconds(small) < 3 * bound
    one = ProfiledKernel(KernelKind.FLASH, 4096, 4096, 128, products=64, forward=1)
    assert seconds(one._replace(products=128)) > 1.5 * seconds(one)
    assert seconds(one._replace(causal=1)) < 0.75 * seconds(one)
    assert seconds(one._replace(forward=0, input_gradient=1, weight_gradient=1)) > 1.5 * seconds(one)
    square = product(m=4096, n=4096, k=4096, products=1, forward=1)
    assert seconds(square) > 2 * 4096**3 / MACHINE.peak_rate("bf16")


def test_without_marks_the_step_is_the_whole_trace(tmp_path: Path) -> None:
    """From the first call to the last kernel; of one on the host alone to the end of the last call."""
    unmarked = [each for each in events() if not str(each["name"]).startswith("ProfilerStep")]
    step = profiled_step(read_profile(written(tmp_path, unmarked)), MACHINE, None)
    assert step.measured == pytest.approx(130e-6) and step.steps == 1
    host = [event("aten::mm", 10, 10, **tensors([6, 4], [4, 5])), event("aten::mm", 30, 10, **tensors([6, 4], [4, 5]))]
    step = profiled_step(read_profile(written(tmp_path, host)), MACHINE, None)
    assert [part.measured for part in step.parts] == pytest.approx([20e-6, 0, 10e-6])


def test_work_after_the_last_mark_belongs_to_the_last_step_and_before_the_first_to_none(tmp_path: Path) -> None:
    early = kernel(-50, 20, 999, "early")
    step = profiled_step(read_profile(written(tmp_path, [*events(), early])), MACHINE, None)
    assert step.measured == pytest.approx(140e-6)
    late = kernel(150, 10, 999, "late")
    step = profiled_step(read_profile(written(tmp_path, [*events(), late])), MACHINE, None)
    assert step.measured == pytest.approx(160e-6)


def exchanged(kind: str, nbytes: int | None, seconds: float, **facts: object) -> TracedExchange:
    return replace(TracedExchange(kind, nbytes, seconds=seconds), **facts)  # type: ignore[arg-type]


def test_exchanges_of_one_kind_are_a_row_and_the_longest_altogether_come_first() -> None:
    found = [
        exchanged("all-reduce", 100, 1.0),
        exchanged("all-gather", 100, 2.5),
        exchanged("all-reduce", 100, 2.0),
        exchanged("all-reduce", 200, 2.75),
    ]
    work = tuple(DeviceWork("k", float(n), each.seconds, each) for n, each in enumerate(found))
    facts = {"device_seconds": 1.0, "work": work, "steps": 2}
    step = profiled_step(profile_of(call("mm", tensor(6, 4), tensor(4, 5)), **facts), MACHINE, None)
    rows = [(row.exchange.kind, row.exchange.nbytes, row.times, row.measured) for row in step.exchanges]
    assert rows == [
        ("all-reduce", 100, 1.0, 1.5),
        ("all-reduce", 200, 0.5, 2.75),
        ("all-gather", 100, 0.5, 2.5),
    ]
    assert all(row.predicted is None for row in step.exchanges)
    assert step.parts[1].note == "as measured: no cluster is named"
    assert step.parts[2].note == "as measured"


def test_a_step_without_exchanges_says_so() -> None:
    step = profiled_step(profile_of(call("index", tensor(6, 4))), MACHINE, load_cluster("dgx-a100-64"))
    assert step.exchanges == () and step.parts[1].note == "none"
    assert step.parts[1].measured == step.parts[1].predicted == step.overlapped == 0.0
    assert step.parts[0].note == "0% of the operators' time is priced, the rest as measured"
    assert step.operators[0][1] is None and step.predicted == step.measured


def test_exchanges_are_priced_from_two_ranks_to_all_of_the_cluster() -> None:
    cluster = load_cluster("dgx-a100-64")
    price = exchange_pricer(cluster, None)

    def among(ranks: int | None) -> float | None:
        return price(exchanged("all-reduce", 2**20, 1.0, ranks=ranks))

    assert among(None) is None and among(1) is None and among(65) is None
    two, whole = among(2), among(64)
    assert two is not None and whole is not None and two < whole
    of_world = exchange_pricer(cluster, 2)(exchanged("all-reduce", 2**20, 1.0))
    assert of_world == two
    assert exchange_pricer(cluster, 64)(exchanged("all-reduce", 2**20, 1.0, ranks=2)) == two
    assert price(exchanged("all-reduce", None, 1.0, ranks=8)) is None
    assert price(exchanged("send", 2**20, 1.0, ranks=8)) is None


def test_bytes_of_an_all_gather_are_the_share_of_a_rank() -> None:
    price = exchange_pricer(load_cluster("dgx-a100-64"), 8)
    gathered, scattered = (
        price(exchanged(kind, nbytes, 1.0)) for kind, nbytes in (("all-gather", 2**24), ("reduce-scatter", 8 * 2**24))
    )
    assert gathered is not None and gathered == pytest.approx(scattered, rel=0.1)
