"""Calls, exchanges and axes that traces record, each by itself: what is read, what follows, and what is refused."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lightloom.core.errors import WorkloadError
from lightloom.models.graph import ComputeGraph, MeasuredTimes, Operator
from lightloom.models.traces.calls import (
    BACKWARD,
    GRADIENT,
    Call,
    StepParts,
    TraceTensor,
    argument_names,
    callers_of,
    cut_steps,
    exchange_of_call,
    is_causal,
    kind_of_name,
    leaves,
    made,
    marked_steps,
    named_axes,
    named_parameters,
    named_sizes,
    other_flops,
    passes_of,
    read_calls,
    recording_of,
    seconds_of,
    seconds_of_microseconds,
    sequences,
    statistics,
    walk,
)
from lightloom.models.traces.operators import (
    TracedExchange,
    TraceReading,
    check_step,
    exchange_lines,
    exchange_notes,
    graph_of_layers,
    kind_of_kernel,
    kind_of_words,
    numbered,
    unpriced_exchanges,
)

FILE = Path("trace.json")


def tensor(storage: int, *shape: int, argument: str = "", **fields: Any) -> TraceTensor:
    given = {"offset": 0, "element_bytes": 4, "floating": True, "argument": argument, **fields}
    return TraceTensor(storage=storage, shape=shape, **given)


def call(number: int, name: str, *calls: Call, schema: str = "s", sequence: int = -1, **fields: Any) -> Call:
    lists: dict[str, Any] = {"reads": [], "returns": [], "values": [], **fields}
    return Call(number, name, schema, sequence, calls=list(calls), **lists)


def entry(number: int, name: str = "aten::relu", caller: int | None = 0, **fields: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {"values": [], "shapes": [], "types": []}
    return {"id": number, "name": name, "ctrl_deps": caller, "inputs": empty, "outputs": empty, **fields}


def reading(storage: int, shape: list[int], kind: str = "Tensor(float)", elements: int = 8, width: int = 4) -> Any:
    return {"values": [[1, storage, 0, elements, width, "cpu"]], "shapes": [shape], "types": [kind]}


def test_a_tensor_is_transposed_if_its_columns_alone_lie_in_one_piece() -> None:
    assert tensor(1, 2, 3).elements == 6 and tensor(1, 2, 3).nbytes == 24 and tensor(1).elements == 1
    for strides, transposed in (((1, 3), True), ((5, 1, 3), True), ((3, 1), False), ((1, 1), False), ((1,), False)):
        assert tensor(1, *(2 for _ in strides), strides=strides).transposed == transposed
    assert not tensor(1, 2, 3).transposed


def test_seconds_are_those_of_calls_and_of_all_that_they_made() -> None:
    inner = call(3, "c", own_seconds=4.0, device_seconds=40.0)
    outer = call(1, "a", call(2, "b", inner, own_seconds=2.0, device_seconds=20.0), own_seconds=1.0)
    other = call(9, "d", own_seconds=8.0, device_seconds=80.0)
    assert seconds_of([outer, other], on_device=False) == 15 and seconds_of([outer, other], on_device=True) == 140
    assert [each.id for each in walk([outer, other])] == [1, 2, 3, 9]


@pytest.mark.parametrize("value", [-1, -0.5, 10**12 + 1, True, "5", None, float("nan"), float("inf")])
def test_durations_are_from_nothing_to_eleven_days(value: object) -> None:
    assert seconds_of_microseconds(10**12, "") == 10**6 and seconds_of_microseconds(0, "") == 0
    assert seconds_of_microseconds(2.5, "") == pytest.approx(2.5e-6)
    with pytest.raises(WorkloadError, match=r"^here: .*: expected 0 to 1000000000000 microseconds"):
        seconds_of_microseconds(value, "here:")


@pytest.mark.parametrize(
    ("entries", "complaint"),
    [
        ([entry(1), entry(1)], "node 1 ('aten::relu'): its id occurs twice"),
        ([entry(1), entry(2, caller=True)], "node 2 ('aten::relu'): ctrl_deps is True"),
        ([entry(1), entry(2, caller=None)], "ctrl_deps is None: expected the id of the calling node"),
        ([entry(1), entry(2, caller=7)], "node 2 ('aten::relu'): made by node 7, which does not exist"),
        ([entry(1), entry(2, caller=3), entry(3, caller=1)], "made by node 3, which begins later"),
        ([entry(1), entry(5, "kernel", 4, cat="kernel")], "launched by node 4, which does not exist"),
        ([entry(1, attrs=[{}])], "attrs: expected a list of names and values"),
        ([entry(1, attrs={"name": 1})], "attrs: expected a list of names and values"),
        ([entry(1, attrs=[{"name": "op_schema", "value": 3}])], "op_schema 3 and seq_id -1: expected text"),
        ([entry(1, attrs=[{"name": "seq_id", "value": True}])], "seq_id True: expected text and a whole number"),
        ([entry(1, inputs=None)], "inputs: expected values, shapes and types, lists of one length"),
        ([entry(1, outputs={"values": [], "shapes": [1], "types": []})], "outputs: expected values, shapes"),
        ([entry(1, inputs=reading(3, [2], kind=5))], "type 5: expected text"),  # type: ignore[arg-type]
        ([entry(1, inputs=reading(3, [-2]))], "of shape [-2]: expected 6 entries and sizes"),
        ([entry(1, inputs=reading(-3, [2]))], "expected 6 entries and sizes"),
        ([entry(1, inputs=reading(3, [2], width=-1))], "a tensor of -1 bytes an element"),
        ([entry(1, inputs=reading(3, [2], "GenericList[Tensor(float)]"))], "a list of tensors without as many shapes"),
        ([entry(1, exclusive_dur=-1)], "exclusive_dur is -1"),
    ],
)
def test_nodes_that_cannot_be_are_named(entries: list[dict[str, Any]], complaint: str) -> None:
    with pytest.raises(WorkloadError) as refused:
        recording_of(entries, FILE)
    assert complaint in str(refused.value) and "\n" not in str(refused.value)


def test_calls_stand_below_those_that_made_them_in_the_order_of_their_ids() -> None:
    entries = [entry(5, "last", 1), entry(1, "root", 1), entry(3, "inner", 2), entry(2, "outer", 1, exclusive_dur=7)]
    found = recording_of(entries, FILE)
    (root,) = found.roots
    assert [(each.id, [inner.id for inner in each.calls]) for each in walk([root])] == [
        (1, [2, 5]),
        (2, [3]),
        (3, []),
        (5, []),
    ]
    assert found.timed and not found.on_device and root.calls[0].own_seconds == pytest.approx(7e-6)
    assert not recording_of([entry(1)], FILE).timed
    # A root whose caller was not written is one; others are so only in traces that are not complete.
    loose = [entry(4, caller=2), entry(6, caller=3)]
    assert [each.id for each in recording_of(loose, FILE, complete=False).roots] == [4, 6]
    with pytest.raises(WorkloadError, match="made by node 3, which does not exist"):
        recording_of(loose, FILE)


def test_work_of_the_accelerator_is_of_the_call_that_launched_it_and_exchanges_are_of_none() -> None:
    entries = [
        entry(1),
        entry(2, "c10d::allreduce_", 1, inputs=reading(3, [2, 4])),
        entry(3, "gemm", 1, cat="kernel", exclusive_dur=5),
        entry(4, "gemm", 1, cat="kernel", exclusive_dur=6),
        entry(5, "ncclDevKernel_AllReduce", 2, cat="kernel", exclusive_dur=9, pg_name="dp"),
        entry(6, "ncclKernel", 99, cat="kernel"),
    ]
    found = recording_of(entries, FILE)
    assert found.timed and found.on_device
    assert seconds_of(found.roots, on_device=True) == pytest.approx(11e-6)
    known, unknown = found.exchanges
    assert replace(known, seconds=0.0) == TracedExchange("all-reduce", 32, "dp")
    assert known.seconds == pytest.approx(9e-6) and unknown == TracedExchange("unknown", None)


def test_lists_of_tensors_are_those_tensors_and_other_arguments_values() -> None:
    two = [[1, 5, 0, 8, 4, "cpu"], [2, 6, 3, 8, 2, "cpu"]]
    inputs = {
        "values": [two, 3, [1, 7, 0, 1, 8, "cpu"]],
        "shapes": [[[2, 4], [8]], [], []],
        "types": ["GenericList[Tensor(float),Tensor(float)]", "Int", "Tensor(long)"],
    }
    schema = "aten::cat(Tensor[] tensors, int dim=0, *, Tensor(a!) out) -> Tensor"
    attrs = [{"name": "op_schema", "value": schema}, {"name": "seq_id", "value": 4}]
    (found,) = recording_of([entry(1, inputs=inputs, attrs=attrs)], FILE).roots
    assert [(each.storage, each.offset, each.shape, each.element_bytes, each.floating) for each in found.reads] == [
        (5, 0, (2, 4), 4, True),
        (6, 3, (8,), 2, True),
        (7, 0, (), 8, False),
    ]
    assert [each.argument for each in found.reads] == ["tensors", "tensors", "out"] and not found.written
    assert found.values == [None, 3, None] and found.sequence == 4
    into = [{"name": "op_schema", "value": schema.replace("cat(", "cat.out(")}]
    (found,) = recording_of([entry(1, inputs=inputs, attrs=into)], FILE).roots
    assert [each.argument for each in found.written] == ["out"] and len(found.reads) == 2


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ('{"traceEvents": []}', "a profile of torch.profiler, which says no edges"),
        ("[]", "expected an execution trace: an object with schema and nodes"),
        ('{"nodes": {}}', "expected an execution trace"),
        ('{"nodes": []}', "schema None: expected 1.x.x-chakra.x.x.x"),
        ('{"nodes": [], "schema": "2.0.0-chakra.0.0.4"}', "schema '2.0.0-chakra.0.0.4'"),
        ('{"nodes": [], "schema": "1.0.0-chakra.0.0.4-x"}', "schema '1.0.0-chakra.0.0.4-x'"),
        ('{"nodes": [{"id": true, "name": "x"}], "schema": "1.1.0-chakra.0.0.4"}', "entry 0 of nodes"),
        ('{"nodes": [{"id": 1, "name": 2}], "schema": "1.1.0-chakra.0.0.4"}', "entry 0 of nodes"),
        ('{"nodes": [3], "schema": "1.1.0-chakra.0.0.4"}', "entry 0 of nodes: expected an object with a whole id"),
    ],
)
def test_what_is_no_execution_trace_is_refused(tmp_path: Path, document: str, complaint: str) -> None:
    path = tmp_path / "trace.json"
    path.write_text(document)
    with pytest.raises(WorkloadError) as refused:
        read_calls(path)
    assert complaint in str(refused.value)
    path.write_text('{"nodes": [], "schema": "1.1.0-chakra.0.0.4"}')
    assert read_calls(path).roots == []


@pytest.mark.parametrize(
    ("schema", "names"),
    [
        ("aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor", ["input", "weight", "bias"]),
        ("aten::conv(Tensor x, int[2] stride=[1, 1], *, bool flag=False) -> (Tensor, Tensor)", ["x", "stride", "flag"]),
        ("aten::zeros() -> Tensor", []),
        ("", []),
    ],
)
def test_arguments_are_named_by_the_schema(schema: str, names: list[str]) -> None:
    assert argument_names(schema) == names


def test_what_a_call_makes_is_new_or_changed_in_place_and_views_make_nothing() -> None:
    x, y, z = tensor(1, 2), tensor(2, 2), tensor(3, 2)
    assert made(call(1, "aten::relu", reads=[x], returns=[y])) == [y]
    assert made(call(1, "aten::view", reads=[x], returns=[x])) == []
    assert made(call(1, "aten::relu_", reads=[x, z], returns=[x, z])) == [x]
    assert made(call(1, "aten::add.out", reads=[x], returns=[z], written=[z])) == [z]
    assert made(call(1, "aten::split", reads=[x], returns=[y, x, z])) == [y, z]
    assert made(call(1, "aten::empty", returns=[y])) == []
    for name in ("aten::zeros_like", "aten::new_empty"):
        assert made(call(1, name, reads=[x], returns=[y])) == []
    counter = tensor(1, floating=False)
    assert made(call(1, "aten::add_", reads=[counter], returns=[counter])) == []


def test_parameters_are_read_as_weights_before_anything_computes_them() -> None:
    weight, bias = tensor(7, 4, 2, argument="weight"), tensor(8, 4, argument="bias")
    later, whole = tensor(9, 4, 4, argument="weight"), tensor(5, 4, argument="weight", floating=False)
    calls = [
        call(1, "aten::linear", reads=[tensor(1, 3, 2, argument="input"), weight, bias, whole], returns=[tensor(9, 4)]),
        call(2, "aten::mm", reads=[later, tensor(7, 8, argument="weight")], returns=[tensor(10, 4)]),
    ]
    assert named_parameters(calls) == {7: (4, 2), 8: (4,)}
    norm = call(3, "bn", reads=[tensor(20, 4, argument="running_mean"), tensor(21, 4, argument="running_var")])
    assert statistics([call(1, "outer", norm), *calls]) == {20, 21}


def test_calls_are_sorted_into_passes() -> None:
    """Of what follows the first backward call, autograd's own sums and allocations do not count."""
    x, y = tensor(1, 2), tensor(2, 2)
    gradient = call(7, GRADIENT, reads=[y, x])
    parts = StepParts()
    for each in (
        call(1, "## annotation ##", call(2, "aten::relu"), call(3, "record_param_comms"), schema=""),
        call(4, "c10d::allreduce_"),
        call(5, f"{BACKWARD}: ReluBackward0", call(6, "ReluBackward0", sequence=3), gradient),
        call(8, "aten::add_", reads=[x], returns=[x]),
        call(9, "aten::empty", returns=[y]),
        call(10, "aten::mul", reads=[x], returns=[y]),
        call(11, "Optimizer.step#SGD.step", schema=""),
    ):
        parts.sort(each)
    assert [each.id for each in parts.forward] == [2]
    assert [each.id for each in parts.communication] == [3, 4]
    assert {number: [each.id for each in calls] for number, calls in parts.backward.items()} == {3: [6], -1: [7]}
    assert parts.gradients == [y] and parts.later == 2 and [each.id for each in parts.update] == [11]


def step_of(first: int, number: int) -> list[Call]:
    """A forward operator and its backward node, which autograd numbers."""
    node = call(first + 2, "MmBackward0", sequence=number)
    return [call(first, "aten::mm", sequence=number), call(first + 1, f"{BACKWARD}: MmBackward0", node)]


def test_steps_begin_with_a_forward_call_after_a_backward_pass() -> None:
    loose = [call(90, "aten::zeros", schema="")]
    found = cut_steps([*step_of(10, 1), *step_of(20, 2), *loose])
    assert [(step.number, [each.id for each in step.calls], step.later_passes) for step in found] == [
        (0, [10, 11], 0),
        (1, [20, 21, 90], 0),
    ]
    assert cut_steps([]) == cut_steps(loose) == []


def test_marked_steps_hold_what_begins_on_other_threads_before_the_next() -> None:
    """Calls before the first mark belong to none; of several passes the first is the step's."""
    marked = [
        call(5, "ProfilerStep#7", *step_of(10, 1)[:1], *step_of(30, 3), schema=""),
        call(50, "ProfilerStep#8", call(51, "aten::mm", sequence=4), schema=""),
    ]
    thread = call(1, "[pytorch|profiler|execution_trace|thread]", *marked, schema="")
    other = call(2, "thread", call(3, "early"), step_of(10, 1)[1], call(60, "late"), schema="")
    assert [(number, [each.id for each in calls]) for number, calls in marked_steps([thread, other])] == [
        (7, [10, 11, 30, 31]),
        (8, [51, 60]),
    ]
    assert [(step.number, [each.id for each in step.calls], step.later_passes) for step in cut_steps([thread, other])] \
        == [(7, [10, 11], 1), (8, [51, 60], 0)]  # fmt: skip
    assert marked_steps([other]) == []
    assert [each.id for each in leaves([thread, other], without_marks=True)] == [3, 11, 60]
    assert sequences(call(1, "a", call(2, "b", sequence=4), sequence=3)) == {3, 4}


def test_lost_callers_are_the_last_calls_that_may_have_made_them() -> None:
    names = [
        "early",
        "aten::linear",
        "aten::t",
        "aten::addmm",
        "aten::relu",
        "node",
        "MmBackward0",
        "aten::mm",
        "aten::add",
    ]
    names[5] = f"{BACKWARD}: MmBackward0"
    entries = [{"id": number, "name": name} for number, name in enumerate(names)]
    assert callers_of(entries, {0, 2, 3, 6, 7, 8}) == {2: 1, 3: 1, 6: 5, 7: 6, 8: 6}
    nested = [{"id": number, "name": f"aten::{word}"} for number, word in enumerate(("x", "matmul", "mm", "mul"))]
    assert callers_of(nested, {1, 2, 3}) == {1: 0, 2: 1, 3: 0}


def test_passes_without_nesting_are_told_by_names_and_matched_by_kind() -> None:
    forward = [call(1, "aten::conv2d", sequence=5), call(2, "aten::relu", sequence=6), call(3, "aten::copy_")]
    backward = [
        call(4, "aten::threshold_backward"),
        call(5, "aten::fill_"),
        call(6, "aten::convolution_backward"),
        call(7, "c10d::allreduce_"),
        call(8, "aten::sum_backward"),
    ]
    passes, outside = passes_of([*forward, *backward, call(9, "aten::add_")])
    assert [each.id for each in passes] == [1, 2, 4, 5, 6, 8] and [each.id for each in outside] == [3, 7, 9]
    assert [(each.name, each.calls[0].sequence) for each in passes[2:]] == [(BACKWARD, n) for n in (6, 6, 5, 5)]
    assert passes_of(forward) == (forward, ())


@pytest.mark.parametrize(
    ("name", "values", "causal"),
    [
        ("aten::scaled_dot_product_attention", [0.0, True], True),
        ("aten::scaled_dot_product_attention", [0.0, False], False),
        ("aten::scaled_dot_product_attention", [], False),
        ("aten::_scaled_dot_product_efficient_attention", [True, False], False),
        ("aten::_scaled_dot_product_efficient_attention", [False, True], True),
        ("aten::_scaled_dot_product_cudnn_attention", [True, False], False),
        ("aten::_efficient_attention_forward", [1, True], True),
        ("aten::_efficient_attention_forward", [0, True], False),
    ],
)
def test_attention_is_causal_where_its_own_flag_says_so(name: str, values: list[object], causal: bool) -> None:
    assert is_causal(call(1, name, values=values)) == causal


def test_kinds_of_exchanges_are_told_by_names() -> None:
    for name, kind in (
        ("AllReduce", "all-reduce"),
        ("c10d::_reduce_scatter_base_", "reduce-scatter"),
        ("SendRecv", "send and receive"),
        ("recv", "receive"),
        ("isend", "send"),
        ("all_gather_into_tensor", "all-gather"),
        ("relu", ""),
    ):
        assert kind_of_words(name) == kind
        assert kind_of_kernel(f"ncclDevKernel_{name}") == (kind or "unknown")
        assert kind_of_kernel(f"RCCL{name}") == (kind or "unknown") and kind_of_kernel(name) == ""
    inner = call(2, "nccl:all_gather", reads=[tensor(1, 4), tensor(2, 8)])
    assert exchange_of_call(call(1, "record_param_comms", inner, reads=[tensor(1, 4)]), 2.0) == TracedExchange(
        "all-gather", 48, seconds=2.0
    )
    assert exchange_of_call(call(1, "c10d::nothing"), 0.5) == TracedExchange("unknown", None, seconds=0.5)


def test_exchanges_are_listed_by_kind_group_and_ranks() -> None:
    one = TracedExchange("all-reduce", 1 << 20, "dp", 2e-3, 8)
    assert exchange_lines([one, one]) == ["2 x all-reduce in group 'dp' of 8 ranks: 2 MiB put in, 4 ms"]
    other = TracedExchange("send", None)
    assert exchange_lines([other, TracedExchange("send", 4)]) == ["2 x send: bytes not recorded"]
    assert len(exchange_lines([one, other, TracedExchange("all-reduce", 4, "tp", ranks=8)])) == 3
    assert exchange_notes([]) == unpriced_exchanges([]) == exchange_lines([]) == []
    assert exchange_notes([other])[0].endswith("listed and not replayed: 1 x send: bytes not recorded")


def test_names_that_occur_again_are_numbered() -> None:
    names = Counter[str]()
    assert [numbered(names, name) for name in ("add", "mul", "add", "add")] == ["add", "mul", "add#2", "add#3"]


def graph(flops: int, parameters: int, measured: bool = False) -> ComputeGraph:
    operator = Operator(
        name="a", kind="linear", dimensions={"sample": 1}, forward_flops=flops, backward_flops=0, parameters=parameters
    )
    times = MeasuredTimes(batch=1, forward=(1.0,), backward=(1.0,), clock="c") if measured else None
    return ComputeGraph(name="g", batch=1, operators=(operator,), element_bytes=4, measured=times)


def test_steps_that_lack_something_are_refused_and_those_at_the_limit_are_not() -> None:
    for read, missing in ((graph(100_000, 1), 0.01), (graph(0, 1, measured=True), 0.0)):
        step = TraceReading(read, (), not_found=missing)
        assert check_step(step, FILE) is step
    for read, missing, words in (
        (graph(99_999, 1), 0.0, r"lacks work \(the shapes of its tensors make 99,999 FLOP"),
        (graph(99_999, 1, measured=True), 0.0, "lacks work"),
        (graph(0, 1), 0.0, "lacks work"),
        (graph(100_000, 0), 0.0, r"lacks parameters \(no tensor"),
        (graph(100_000, 1), 0.02, "lacks the calls that read 2 % of the parameters"),
        (graph(0, 0), 0.0, "lacks parameters .* and work .*: expected the trace of a network's training step"),
    ):
        with pytest.raises(WorkloadError, match=words):
            check_step(TraceReading(read, (), not_found=missing), FILE)


def test_layers_read_the_one_before(tmp_path: Path) -> None:
    layers = [{"name": name, "kind": "linear", "parameters": 3} for name in "abc"]
    found = graph_of_layers(tmp_path / "net.txt", 5, layers, None, ["odd"])
    assert [each.inputs for each in found.operators] == [(), ("a",), ("b",)] and found.name == "net"
    assert [each.parameter_bytes for each in found.operators] == [12] * 3
    assert [dict(each.dimensions) for each in found.operators] == [{"sample": 5}] * 3
    assert found.uncounted == ("odd",) and found.batch == 5


@pytest.mark.parametrize(
    ("kind", "shape", "batch", "sizes"),
    [
        ("linear", (4, 8), None, {"axis_0": 4, "axis_1": 8}),
        ("linear", (4, 8), 4, {"sample": 4, "channel": 8}),
        ("linear", (4, 6, 8), 4, {"sample": 4, "sequence": 6, "channel": 8}),
        ("conv", (4, 3, 5, 7), 4, {"sample": 4, "channel": 3, "height": 5, "width": 7}),
        ("pool", (4, 3, 5, 7, 9), 4, {"sample": 4, "channel": 3, "height": 5, "width": 7, "depth": 9}),
        ("linear", (4, 3, 5, 7), 4, {"sample": 4, "axis_1": 3, "axis_2": 5, "axis_3": 7}),
        ("conv", (4, 3, 5, 7, 9, 2), 4, {"sample": 4} | {f"axis_{n + 1}": s for n, s in enumerate((3, 5, 7, 9, 2))}),
        ("linear", (4,), 4, {"sample": 4}),
    ],
)
def test_axes_are_named_by_kind_and_rank(kind: str, shape: tuple[int, ...], batch: int, sizes: dict[str, int]) -> None:
    assert named_axes(kind, shape, batch) == sizes
    assert named_sizes(kind, shape, batch, [], None) == sizes


def test_products_name_what_they_sum_and_no_size_is_0() -> None:
    found = named_sizes("linear", (4, 6, 8), 4, [], 5)
    assert found == {"sample": 4, "sequence": 6, "channel": 8, "in_channel": 5}
    assert named_sizes("matmul", (4, 8), 4, [], 5)["in_channel"] == 5
    assert named_sizes("linear", (4, 0), 4, [], None) == {"sample": 4}


def test_operators_without_products_take_a_flop_for_each_element_of_the_largest_tensor() -> None:
    assert other_flops("elementwise", [3, 9, 4]) == 9 and other_flops("elementwise", []) == 0
    assert [other_flops(kind, [3]) for kind in ("copy", "concat", "embedding", "dropout")] == [0] * 4
    assert kind_of_name("aten::mm") == "matmul" and kind_of_name("nobody::knows") == "elementwise"
