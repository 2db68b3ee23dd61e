"""Profiles as models: graph and times are those of the execution trace of the same step; odd ones are refused."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lightloom.core.errors import InputError
from lightloom.models.traces.calls import Call, TraceTensor, product_flops
from lightloom.models.traces.kineto import busy, read_kineto_workload, read_profile

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
