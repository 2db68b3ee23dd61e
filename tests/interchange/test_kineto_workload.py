"""Profiles as models: graph and times are those of the execution trace of the same step; odd ones are refused."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lightloom.core.errors import InputError
from lightloom.models.traces.calls import Call, TraceTensor, product_flops, walk
from lightloom.models.traces.kineto import (
    OpenCalls,
    Wiring,
    _completed,
    arguments_of,
    busy,
    exchange_of,
    is_view,
    read_kineto_workload,
    read_profile,
    result_shape,
)
from lightloom.models.traces.operators import TracedExchange

ENGINE = "autograd::engine::evaluate_function: MmBackward0"


def call(name: str, begin: float, length: float, tid: int = 1, **arguments: Any) -> dict[str, Any]:
    category = "user_annotation" if name.startswith(("ProfilerStep", "Optimizer")) else "cpu_op"
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": 7,
        "tid": tid,
        "ts": 1.7e15 + begin,
        "dur": length,
        "args": arguments,
    }


def tensors(*shapes: list[int], sequence: int | None = None) -> dict[str, Any]:
    number = {} if sequence is None else {"Sequence number": sequence}
    return {"Input Dims": list(shapes), "Input type": ["float"] * len(shapes), **number}


def launch(begin: float, correlation: int) -> dict[str, Any]:
    arguments = {"correlation": correlation, "External id": correlation}
    return {**call("cudaLaunchKernel", begin, 1), "cat": "cuda_runtime", "args": arguments}


def kernel(begin: float, length: float, correlation: int, name: str = "gemm", **arguments: object) -> dict[str, Any]:
    return {**call(name, begin, length), "cat": "kernel", "pid": 0, "args": {"correlation": correlation, **arguments}}


def events() -> list[dict[str, Any]]:
    """One step of a linear layer on a GPU: forward, backward, the gradient, its exchange, the optimizer."""
    return [
        call("ProfilerStep#4", 0, 100),
        call("aten::mm", 10, 10, **tensors([6, 4], [4, 5], sequence=3)),
        call(ENGINE, 40, 20, tid=2, **{"Sequence number": 3}),
        call("MmBackward0", 41, 18, tid=2, **{"Sequence number": 3}),
        call("aten::mm", 42, 10, tid=2, **tensors([4, 6], [6, 5])),
        call("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 61, 9, tid=2),
        call("torch::autograd::AccumulateGrad", 62, 7, tid=2, **tensors([4, 5])),
        call("Optimizer.step#SGD.step", 80, 15),
        call("aten::add_", 82, 5, **tensors([4, 5], [4, 5])),
        launch(12, 901),
        {**launch(44, 902), "tid": 2},
        launch(83, 903),
        {**launch(71, 904), "tid": 2},
        kernel(30, 25, 901),
        kernel(60, 50, 902),
        kernel(111, 3, 903, "add"),
        kernel(
            100,
            40,
            904,
            "ncclDevKernel_AllReduce_Sum_f32",
            **{"Collective name": "allreduce", "In msg nelems": 20, "dtype": "Float", "Group size": 8},
        ),
    ]


def written(folder: Path, entries: list[dict[str, Any]], **fields: object) -> Path:
    path = folder / "profile.json.gz"
    document = {"schemaVersion": 1, "traceEvents": entries, **fields}
    path.write_bytes(gzip.compress(json.dumps(document).encode(), 1))
    return path


def test_operators_take_the_time_of_the_kernels_that_they_launched(tmp_path: Path) -> None:
    device = {"name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 85e9}
    reading = read_kineto_workload(written(tmp_path, events(), deviceProperties=[device]))
    (operator,), measured = reading.graph.operators, reading.graph.measured
    assert (operator.forward_flops, operator.backward_flops, operator.parameters) == (240, 240, 20)
    assert measured is not None and (measured.accelerator, measured.precision) == ("a100", "fp32")
    assert measured.forward == pytest.approx((25e-6,)) and measured.backward == pytest.approx((50e-6,))
    (exchange,) = reading.exchanges
    assert (exchange.kind, exchange.nbytes, exchange.ranks) == ("all-reduce", 80, 8)
    assert exchange.seconds == pytest.approx(40e-6)


def test_of_calls_that_begin_together_the_longer_holds_the_shorter(tmp_path: Path) -> None:
    """In whichever order a profile lists them."""
    outer, inner = call("aten::linear", 10, 10, **tensors([6, 4], [4, 5], sequence=3)), call("aten::mm", 10, 6)
    for listed in ([outer, inner], [inner, outer]):
        profile = read_profile(written(tmp_path, [call("ProfilerStep#4", 0, 100), *listed]))
        (found,) = (each for root in profile.roots for each in walk([root]) if each.name == "aten::linear")
        assert [each.name for each in found.calls] == ["aten::mm"]
        assert found.own_seconds == pytest.approx(4e-6) and found.calls[0].own_seconds == pytest.approx(6e-6)


def test_what_a_profile_does_not_say_is_told(tmp_path: Path) -> None:
    strange = {**call("thing", 5, 5), "cat": "npu_events"}
    reading = read_kineto_workload(
        written(tmp_path, [*events(), strange], distributedInfo={"rank": 3, "world_size": 8})
    )
    told = "\n".join(reading.unrecorded)
    assert "1 events of category npu_events are left out" in told and "rank 3 of 8" in told
    assert "1 x all-reduce of 8 ranks: 80 B put in" in told


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"ts": None}, "field 'ts': None"),
        ({"dur": -1}, "field 'dur': -1"),
        ({"dur": 1 << 60}, "11 days"),
        ({"name": 5}, "field 'name'"),
        ({"args": {"Input Dims": [[1]], "Input type": []}}, "expected as many"),
    ],
)
def test_impossible_events_are_refused_by_name(tmp_path: Path, change: dict[str, Any], complaint: str) -> None:
    entries = events()
    entries[1] |= change
    with pytest.raises(InputError, match=complaint) as refused:
        read_kineto_workload(written(tmp_path, entries))
    assert "entry 1 of traceEvents" in str(refused.value)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_profile_with_anything_in_a_field_is_read_or_refused_in_one_line(tmp_path: Path, data: st.DataObject) -> None:
    entries = events()
    entry = entries[data.draw(st.integers(0, len(entries) - 1))]
    values: list[object] = [None, "x", -1, 1 << 60, [], {}, 0.5, True, [[-1]], [["a"]], "[[1, 2"]
    target = data.draw(st.sampled_from([entry, entry["args"]]))
    target[data.draw(st.sampled_from([*entry, *entry["args"]]))] = data.draw(st.sampled_from(values))
    try:
        read_kineto_workload(written(tmp_path, entries))
    except InputError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize(("entry", "field"), [(6, "Input type"), (9, "correlation"), (9, "External id")])
def test_a_list_where_a_text_or_a_number_is_expected_is_read_over(tmp_path: Path, entry: int, field: str) -> None:
    entries = events()
    assert field in entries[entry]["args"]
    entries[entry]["args"][field] = [[-1]]
    read_kineto_workload(written(tmp_path, entries))


intervals = st.lists(st.tuples(st.integers(-5, 30), st.integers(0, 9)).map(lambda span: (span[0], span[0] + span[1])))


@given(intervals, intervals)
def test_busy_counts_every_moment_once(computing: list[tuple[int, int]], exchanging: list[tuple[int, int]]) -> None:
    found = busy(computing, exchanging, (0, 20))
    moments = [moment + 0.5 for moment in range(20)]
    computed = [any(begin < moment < end for begin, end in computing) for moment in moments]
    exchanged = [any(begin < moment < end for begin, end in exchanging) for moment in moments]
    both = sum(a and b for a, b in zip(computed, exchanged, strict=True))
    assert found.computing == sum(computed) and found.overlapped == both
    assert found.exposed == sum(exchanged) - both and found.window == 20


@pytest.mark.slow
def test_the_graph_of_a_profile_is_that_of_the_execution_trace(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from lightloom.models.traces.execution_trace import read_execution_trace

    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Flatten()]
    net, samples = torch.nn.Sequential(*layers, torch.nn.Linear(8 * 64, 10)), torch.randn(6, 3, 8, 8)
    observer = torch.profiler.ExecutionTraceObserver()
    observer.register_callback(str(tmp_path / "trace.json"))
    with torch.profiler.profile(record_shapes=True, execution_trace_observer=observer) as profiler:
        torch.nn.functional.cross_entropy(net(samples), torch.zeros(6, dtype=torch.long)).backward()
    profiler.export_chrome_trace(str(tmp_path / "profile.json"))
    trace = read_execution_trace(tmp_path / "trace.json").graph
    graph = read_kineto_workload(tmp_path / "profile.json").graph
    assert (graph.parameters, graph.forward_flops, graph.batch) == (trace.parameters, trace.forward_flops, 6)
    assert graph.backward_flops == trace.backward_flops
    *operators, loss = graph.operators  # it is measured, and otherwise left to the plan
    assert loss.kind == "loss"
    assert [operator.inputs for operator in operators] == [operator.inputs for operator in trace.operators]
    assert read_profile(tmp_path / "profile.json").left_out == {}


def test_flags_of_a_library_do_not_make_a_convolution_transposed() -> None:
    reads = [TraceTensor(1, 0, (2, 3, 8, 8), 4, True, ""), TraceTensor(2, 0, (5, 3, 3, 3), 4, True, "")]
    returns = [TraceTensor(3, 0, (2, 5, 4, 4), 4, True, "")]
    flops = 2 * 2 * 5 * 4 * 4 * 3 * 9
    for name, flags in (("cudnn_convolution", [True, False]), ("convolution", [False]), ("conv2d", [])):
        assert product_flops(Call(1, f"aten::{name}", "", -1, reads, returns, list(flags))) == flops


def test_exchanges_say_their_kind_bytes_group_and_ranks_as_far_as_they_are_stated() -> None:
    stated = {"Collective name": "_allgather_base", "In msg nelems": 6, "Process Group Name": "0", "Group size": 4}
    for dtype, size in (("Long", 8), ("Double", 8), ("Float", 4), ("BFloat16", 2), ("Half", 2), ("Byte", 1)):
        found = exchange_of("kernel", {**stated, "dtype": dtype}, 2.0)
        assert found == TracedExchange("all-gather", 6 * size, "0", 2.0, 4)
    described = exchange_of("kernel", {**stated, "Process Group Description": "dp"}, 2.0)
    assert described == TracedExchange("all-gather", None, "dp", 2.0, 4)
    assert exchange_of("ncclDevKernel_Broadcast", {}, 1.0) == TracedExchange("broadcast", None, "", 1.0, None)
    assert exchange_of("kernel", {"Collective name": "odd"}, 1.0) == TracedExchange("odd", None, "", 1.0)
    assert exchange_of("gemm", {}, 1.0) is exchange_of("gemm", {"Collective name": ""}, 1.0) is None
    for wrong in (0, -1, True, "4", 2.0):
        found = exchange_of("nccl", {"Group size": wrong}, 1.0)
        assert found is not None and found.ranks is None
    for elements, nbytes in ((0, 0), (-1, None), (True, None), (1, 4)):
        found = exchange_of("nccl", {"In msg nelems": elements, "dtype": "Float"}, 1.0)
        assert found is not None and found.nbytes == nbytes


def test_sends_and_receives_of_one_kernel_are_what_the_call_asked_for() -> None:
    launched = Call(1, "c10d::alltoall_", "s", -1, [TraceTensor(1, 0, (4,), 2, True, "")], [], [])
    both = TracedExchange("send and receive", None)
    assert _completed(both, launched) == TracedExchange("all-to-all", 8)
    assert _completed(TracedExchange("send and receive", 5), launched) == TracedExchange("all-to-all", 5)
    assert _completed(TracedExchange("send", 0), launched) == TracedExchange("send", 0)
    assert _completed(both, Call(1, "odd", "", -1, [], [], [])) == both


def test_the_innermost_call_that_is_open_is_found() -> None:
    """Ends count; what begins where another ends is beside it."""
    opened = OpenCalls([(0.0, 10.0, 5), (1.0, 4.0, 6), (4.0, 6.0, 7), (12.0, 13.0, 8)])
    assert opened.outer == [-1, 0, 0, -1]
    moments = {
        -1.0: None,
        0.0: 5,
        0.5: 5,
        1.0: 6,
        3.0: 6,
        4.0: 7,
        6.0: 7,
        7.0: 5,
        10.0: 5,
        11.0: None,
        12.5: 8,
        14: None,
    }
    assert {moment: opened.at(moment) for moment in moments} == moments
    assert OpenCalls([]).at(0.0) is None


def test_arguments_are_tensors_or_values() -> None:
    arguments = {
        "Input Dims": [[2, 3], [], [[4], [5, 6], 7], [], []],
        "Input type": ["c10::BFloat16", "Scalar", "TensorList", "long int", ""],
        "Concrete Inputs": ["", "0.5", "", "", "[1, True]"],
        "Input Strides": [[3, 1], [], [], [1], []],
    }
    reads, values, precision = arguments_of(arguments, "here")
    assert [(each.shape, each.element_bytes, each.floating, each.strides) for each in reads] == [
        ((2, 3), 2, True, (3, 1)),
        ((4,), 4, True, ()),
        ((5, 6), 4, True, ()),
        ((), 8, False, ()),
    ]
    assert values == [None, 0.5, None, None, [1, True]] and precision == "bf16"
    assert arguments_of({}, "here") == ([], [], "")
    whole = {"Input Dims": [[2], [2]], "Input type": ["int", "double"], "Concrete Inputs": 3}
    assert arguments_of(whole, "here")[1:] == ([None, None], "fp64")
    for wrong, complaint in (
        ({"Input Dims": {}}, "expected lists"),
        ({"Input type": "float"}, "expected lists"),
        ({"Input Dims": [[1]]}, "1 'Input Dims' and 0 'Input type': expected as many"),
        ({"Input Dims": [[-1]], "Input type": ["float"]}, r"'Input Dims': \[-1\]: expected a list of whole numbers"),
        ({"Input Dims": [4], "Input type": ["float"]}, "'Input Dims': 4: expected a list of whole numbers"),
    ):
        with pytest.raises(InputError, match=f"^here: .*{complaint}"):
            arguments_of(wrong, "here")


def read(name: str, *shapes: tuple[int, ...], values: Sequence[object] = (), inner: Sequence[Call] = ()) -> Call:
    tensors = [TraceTensor(-1, 0, shape, 4, True, "") for shape in shapes]
    return Call(1, f"aten::{name}", "s", -1, tensors, [], list(values), calls=list(inner))


def test_shapes_of_results_follow_from_rules_then_from_inner_calls_then_from_the_largest_input() -> None:
    assert result_shape(read("mm", (2, 3), (3, 5))) == (2, 5)
    assert result_shape(read("embedding", (10, 4), (2, 3))) == (2, 3, 4)
    assert result_shape(read("adaptive_avg_pool2d", (2, 3, 9, 9), values=[None, [1, 2]])) == (2, 3, 1, 2)
    assert result_shape(read("max_pool2d", (2, 3, 9, 8), values=[None, [3, 2], [2, 2], [1, 0]])) == (2, 3, 5, 4)
    assert result_shape(read("max_pool2d", (2, 3, 9, 8), values=[None, [3, 2], [], [0, 0]])) == (2, 3, 3, 4)
    for not_recorded in (["x", [], []], [[3, 2], "", [0, 0]], [[3, 2], [2.0, 2.0], [1, 0]]):
        assert result_shape(read("max_pool2d", (2, 3, 9, 8), values=[None, *not_recorded])) == (2, 3, 9, 8)
    assert result_shape(read("nll_loss", (2, 3), (2,))) == ()
    assert result_shape(read("add", (3,), (2, 3))) == (2, 3) and result_shape(read("empty")) == ()
    inner = [read("mm", (2, 3), (3, 5)), read("view", (2, 5)), read("empty")]
    assert result_shape(read("custom", (9, 9), inner=inner)) == (2, 5)
    assert is_view(read("view", (2,))) and not is_view(read("relu", (2,)))
    assert not is_view(read("reshape", (2,), inner=[read("clone", (2,))]))


def test_reads_are_of_the_last_result_of_as_many_elements_and_parameters_of_gradients_that_are_left() -> None:
    wiring = Wiring([(4, 5)])
    first, second, other = (read("mm", shape, (4, 5)) for shape in ((6, 4), (6, 4), (7, 4)))
    for each in (first, second):
        wiring.connect(each)
    assert [each.argument for each in first.reads] == ["", "weight"] and second.reads[1].argument == ""
    relu = read("relu", (6, 5))
    wiring.connect(relu)
    assert relu.reads[0].storage == second.returns[0].storage != first.returns[0].storage
    view, into = read("view", (6, 5)), read("add_", (6, 5), (5,))
    for each in (view, into, other):
        wiring.connect(each)
    assert view.returns[0].storage == into.returns[0].storage == relu.returns[0].storage
    norm = read("batch_norm", (6, 5), (5,), (5,), (5,), (5,))
    free = Wiring([])
    free.connect(norm)
    assert [each.argument for each in norm.reads] == ["", "weight", "weight", "running_3", "running_4"]
    assert len({each.storage for each in norm.reads}) == 5
    nothing = read("empty")
    free.connect(nothing)
    assert nothing.returns == []


def test_precision_is_that_of_most_seconds(tmp_path: Path) -> None:
    entries = events()
    half: dict[str, Any] = {"Input Dims": [[6, 5]], "Input type": ["c10::Half"]}
    entries.insert(2, call("aten::mul", 22, 9, **half))
    for seconds, expected in ((9, "fp32"), (11, "fp16")):
        entries[2]["dur"] = seconds
        measured = read_kineto_workload(written(tmp_path, entries)).graph.measured
        assert measured is not None and measured.precision == expected
    entries[2]["dur"] = 1
    entries[entries.index(next(each for each in entries if each["name"] == "gemm"))]["name"] = "tf32_s1688gemm"
    measured = read_kineto_workload(written(tmp_path, entries)).graph.measured
    assert measured is not None and measured.precision == "tf32"


def test_time_of_the_step_is_told_by_where_it_is(tmp_path: Path) -> None:
    """Ten microseconds are of a call that is no operator, as it returns nothing."""
    more = [call("aten::empty", 24, 2), launch(25, 906), kernel(160, 10, 906, "fill")]
    told = read_kineto_workload(written(tmp_path, [*events(), *more])).unrecorded
    parts = "75 us are in its operators, 3 us in the optimizer, 0 ns in communication calls, 10 us in other calls"
    assert any(line.replace("µ", "u").startswith(f"of 88 us measured in the step, {parts}") for line in told), told


def test_profiles_sum_their_steps_devices_and_work_that_nobody_launched(tmp_path: Path) -> None:
    free = kernel(5, 4, 999, "triton")
    second = [call("ProfilerStep#5", 200, 60), call("aten::mm", 210, 10, **tensors([6, 4], [4, 5], sequence=9))]
    devices = [{"name": "H100", "totalGlobalMem": 0}, {"name": "H100"}, {"name": 3}, "odd"]
    profile = read_profile(written(tmp_path, [free, *events(), *second], deviceProperties=devices, distributedInfo=[]))
    assert profile.steps == 2 and profile.step_seconds == pytest.approx(80e-6)
    assert profile.devices == ("H100",) and profile.memory is None and profile.distributed == {}
    assert profile.device_seconds == pytest.approx(122e-6) and profile.on_device
    assert profile.unattributed_seconds == pytest.approx(44e-6)
    assert [piece.begin for piece in profile.work] == sorted(piece.begin for piece in profile.work)
    assert [end - begin for begin, end in profile.marks] == pytest.approx([100e-6, 60e-6])
    alone = read_profile(written(tmp_path, second[1:]))
    assert alone.steps == 1 and alone.step_seconds is None and not alone.on_device and alone.work == ()


def test_work_that_nobody_launched_is_told_without_exchanges(tmp_path: Path) -> None:
    """From more than a hundredth of all on: here of 118 microseconds, 40 of which are an exchange."""
    for free, share in ((None, None), (1.0, None), (1.3, "1.1%"), (59.0, "33.3%")):
        more = [] if free is None else [kernel(300, free, 999, "triton")]
        told = read_kineto_workload(written(tmp_path, [*events(), *more])).unrecorded
        lines = [line for line in told if "launched by no operator" in line]
        assert [line.partition(" ")[0] for line in lines] == ([] if share is None else [share])
