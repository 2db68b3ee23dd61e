"""Chakra traces as MLCommons' converters write them: no version in the header, durations, calls of PyTorch, every kind
of attribute; what is damaged is refused in one line."""

from __future__ import annotations

import gzip
import json
import math
import struct
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lightloom.collectives.files.chakra_nodes import (
    COLLECTIVE,
    COMPUTE,
    RECEIVE,
    SEND,
    Node,
    Texts,
    Value,
    bytes_field,
    decode_attribute,
    encode,
    framed,
    message_field,
    read_trace,
    varint,
)
from lightloom.core.errors import InputError
from lightloom.models.traces.chakra import read_chakra_workload
from tests.interchange.test_chakra_workload import collective, compute


def written(folder: Path, nodes: Sequence[Node], *, packed: bool = False) -> Path:
    path = folder / ("step.0.et.gz" if packed else "step.0.et")
    content = encode(nodes, {"schema": "1.0.2-chakra.0.0.4"}, version="")
    path.write_bytes(gzip.compress(content) if packed else content)
    return path


def timed(number: int, name: str, microseconds: int, after: Sequence[int] = ()) -> Node:
    return replace(compute(number, name, 0, after), duration=microseconds, attributes={})


def layers(steps: int = 1) -> list[Node]:
    """Two layers as ``chakra_converter Text`` writes data parallelism, several passes of them."""
    nodes: list[Node] = []
    for _ in range(steps):
        first = len(nodes)
        nodes += [timed(first, "COMP_NODE_a_FWD", 100), timed(first + 1, "COMP_NODE_b_FWD", 30, [first])]
        nodes += [timed(first + 2, "COMP_NODE_b_BWD_WG", 50, [first + 1]), collective(first + 3, 400, [first + 2])]
        nodes += [timed(first + 4, "COMP_NODE_b_BWD_IG", 20, [first + 2])]
        nodes += [timed(first + 5, "COMP_NODE_a_BWD_WG", 7, [first + 4]), collective(first + 6, 80, [first + 5])]
    return nodes


@pytest.mark.parametrize("steps", [1, 3])
def test_durations_of_layers_are_measured_times_of_one_step(tmp_path: Path, steps: int) -> None:
    reading = read_chakra_workload(written(tmp_path, layers(steps), packed=steps > 1), batch=4)
    graph = reading.graph
    assert graph.measured is not None
    assert graph.measured.forward == pytest.approx((100e-6, 30e-6))
    assert graph.measured.backward == pytest.approx((7e-6, 70e-6))
    assert [operator.parameters for operator in graph.operators] == [20, 100]
    assert any("further steps" in line for line in reading.unrecorded) == (steps > 1)
    assert [(exchange.kind, exchange.nbytes) for exchange in reading.exchanges][:2] == [
        ("all-reduce", 400),
        ("all-reduce", 80),
    ]


def call(number: int, name: str, made_by: int, microseconds: int, sequence: int = -1, shape: str = "[[8, 4]]") -> Node:
    """A call as ``chakra_converter PyTorch`` writes it; its one input is 10 times its number."""
    elements = math.prod(map(int, shape.strip("[]").split(",")))
    tensor = f"[[{number * 10}, {number * 10}, 0, {elements}, 4, 'cuda:0']]"
    out = f"[[{number * 10 + 10}, {number * 10 + 10}, 0, {elements}, 4, 'cuda:0']]"
    schema = f"aten::{name}(Tensor self) -> Tensor" if not name.startswith("autograd") else ""
    attributes: dict[str, Value] = {"op_schema": schema, "seq_id": sequence, "is_cpu_op": True, "rf_id": number}
    return Node(
        id=number,
        name=name if name.startswith("autograd") else f"aten::{name}",
        type=COMPUTE,
        control=(made_by,),
        data=(number - 1,) if number > 3 else (),
        duration=microseconds,
        inputs=Texts(tensor, shape, "['Tensor(float)']"),
        outputs=Texts(out, shape, "['Tensor(float)']"),
        attributes=attributes,
    )


def kernel(number: int, made_by: int, microseconds: int) -> Node:
    attributes: dict[str, Value] = {"is_cpu_op": False, "stream": 7}
    return Node(
        id=number, name="void kernel", type=COMPUTE, control=(made_by,), duration=microseconds, attributes=attributes
    )


def test_calls_of_pytorch_take_the_time_of_the_work_that_they_launch(tmp_path: Path) -> None:
    engine = "autograd::engine::evaluate_function: ReluBackward0"
    nodes = [call(3, "relu", 2, 90, 5), call(4, "clamp_min", 3, 10), call(5, "tanh", 2, 20, 6)]
    nodes += [call(6, engine, 2, 5, 5), call(7, "threshold_backward", 6, 8, 5)]
    nodes += [kernel(20, 4, 300), kernel(21, 5, 40), kernel(22, 7, 500)]
    gradients: dict[str, Value] = {"comm_type": 0, "comm_size": 1024, "pg_name": "3", "is_cpu_op": False}
    nodes += [Node(id=23, name="ncclDevKernel_AllReduce", type=COLLECTIVE, duration=70, attributes=gradients)]
    reading = read_chakra_workload(written(tmp_path, nodes), batch=1)
    assert reading.graph.measured is not None and reading.graph.batch == 8
    assert [operator.name for operator in reading.graph.operators] == ["relu", "tanh"]
    assert reading.graph.measured.forward == pytest.approx((300e-6, 40e-6))
    assert reading.graph.measured.backward == pytest.approx((500e-6, 0.0))
    (exchange,) = reading.exchanges
    assert (exchange.kind, exchange.nbytes, exchange.group) == ("all-reduce", 1024, "3")
    assert exchange.seconds == pytest.approx(70e-6)


def test_a_custom_collective_is_no_training_step(tmp_path: Path) -> None:
    nodes = [Node(id=number, name="m", type=SEND if number % 2 else RECEIVE) for number in range(6)]
    with pytest.raises(InputError, match="6 sends and receives, 1 compute nodes"):
        read_chakra_workload(written(tmp_path, [*nodes, timed(9, "add", 7)]), batch=1)


@pytest.mark.parametrize(
    ("kind", "content", "value"),
    [
        (3, struct.pack("<d", 0.5), 0.5),
        (5, struct.pack("<f", 0.25), 0.25),
        (19, (7).to_bytes(4, "little"), 7),
        (25, (-3).to_bytes(8, "little", signed=True), -3),
        (15, 5, -3),
        (13, (1 << 64) - 1, (1 << 64) - 1),
        (7, (1 << 64) - 1, -1),
        (27, 1, True),
        (31, b"\x00\xff", b"\x00\xff"),
        (29, "µs".encode(), "µs"),
    ],
)
def test_every_kind_of_attribute_comes_through_alone_and_in_lists(
    kind: int, content: bytes | int, value: object
) -> None:
    wires = {3: 1, 5: 5, 19: 5, 25: 1}
    name = bytes_field(1, b"x")
    if isinstance(content, int):
        single, entries = varint(kind << 3) + varint(content), bytes_field(1, varint(content) * 2)
    elif kind in wires:
        single, entries = varint(kind << 3 | wires[kind]) + content, bytes_field(1, content * 2)
    else:
        single, entries = message_field(kind, content), message_field(1, content) * 2
    assert decode_attribute(name + single) == ("x", value)
    assert decode_attribute(name + message_field(kind + 1, entries)) == ("x", (value, value))


@pytest.mark.parametrize(
    ("nodes", "complaint"),
    [
        ([timed(0, "a_FWD", 1 << 60)], "duration_micros is 1152921504606846976"),
        ([compute(0, "a", 1 << 60)], "num_ops is 1152921504606846976: expected a count below"),
        ([replace(timed(0, "a", 5), type=9)], "unknown type 9: expected 1 metadata"),
        ([timed(0, "a", 5), timed(0, "b", 5)], "occurs twice"),
        ([timed(0, "a", 5, [1]), timed(1, "b", 5, [0])], "a cycle of dependencies"),
        ([collective(0, 8, [], kind=44)], "comm_type is 44"),
        ([collective(0, 8, [])], r"it holds exchanges alone \(1 x all-reduce: 8 B put in\)"),
        ([replace(call(3, "relu", 2, 5), inputs=Texts("[[", "[]", "[]"))], "expected a list as Python writes it"),
    ],
)
def test_what_is_impossible_is_refused_by_name(tmp_path: Path, nodes: Sequence[Node], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint) as refused:
        read_chakra_workload(written(tmp_path, nodes), batch=1)
    assert str(tmp_path) in str(refused.value) and "\n" not in str(refused.value)


def test_damaged_gzip_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "step.et.gz"
    path.write_bytes(gzip.compress(encode(layers(), {}))[:-9])
    with pytest.raises(InputError, match="not a whole gzip file"):
        read_trace(path)
    path.write_bytes(encode(layers(), {}))
    with pytest.raises(InputError, match="not a gzip file, as its suffix says"):
        read_trace(path)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_trace_is_read_or_refused_in_one_line(tmp_path: Path, data: st.DataObject) -> None:
    content = bytearray(encode([*layers(), call(30, "relu", 2, 5, 1)], {"schema": "x"}, version=""))
    for _ in range(data.draw(st.integers(0, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "damaged.0.et"
    path.write_bytes(
        bytes(content[: data.draw(st.integers(0, len(content)))]) + framed(b"")[: data.draw(st.integers(0, 1))]
    )
    try:
        read_chakra_workload(path, batch=2)
    except InputError as error:
        assert "\n" not in str(error)


def test_files_of_several_ranks_are_one_run(tmp_path: Path) -> None:
    written(tmp_path, layers())
    slower = [replace(node, duration=2 * node.duration) for node in layers()]
    (tmp_path / "step.1.et").write_bytes(encode(slower, {}))
    told = read_chakra_workload(tmp_path / "step.et", batch=1).unrecorded[0]
    assert "of the files of 2 ranks that of rank 0 is planned" in told and "collectives are the same" in told
    assert "207 µs to 414 µs" in told


@pytest.mark.slow
def test_what_the_text_converter_of_mlcommons_writes_is_read(tmp_path: Path) -> None:
    converter = pytest.importorskip("chakra.src.converter.text_converter")
    rows = ["a -1 100 NONE 0 7 NONE 0 50 ALLREDUCE 80 3", "b -1 30 NONE 0 20 NONE 0 60 ALLREDUCE 400 3"]
    (tmp_path / "layers.txt").write_text("\n".join(["DATA", "2", *rows]))
    converter.TextConverter(str(tmp_path / "layers.txt"), str(tmp_path / "out"), 2, 2).convert()
    reading = read_chakra_workload(tmp_path / "out.et", batch=4)
    assert reading.graph.measured is not None
    assert reading.graph.measured.forward == pytest.approx((100e-6, 30e-6))
    assert reading.graph.measured.backward == pytest.approx((50e-6, 80e-6))
    assert [operator.parameters for operator in reading.graph.operators] == [20, 100]
    assert any("files of 2 ranks" in line for line in reading.unrecorded)


@pytest.mark.slow
def test_what_the_pytorch_converter_of_mlcommons_writes_is_read(tmp_path: Path) -> None:
    converter = pytest.importorskip("chakra.src.converter.pytorch_converter")
    torch = pytest.importorskip("torch")
    from lightloom.models.traces.execution_trace import read_execution_trace

    observer = torch.profiler.ExecutionTraceObserver()
    observer.register_callback(str(tmp_path / "trace.json"))
    net, samples = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3)), torch.randn(6, 4)
    classes = torch.zeros(6, dtype=torch.long)
    observer.start()
    torch.nn.functional.cross_entropy(net(samples), classes).backward()
    observer.stop()
    observer.unregister_callback()
    document = json.loads((tmp_path / "trace.json").read_text())
    for node in document["nodes"]:
        node["exclusive_dur"] = node["id"] % 50
    (tmp_path / "linked.json").write_text(json.dumps(document))
    converter.PyTorchConverter().convert(str(tmp_path / "linked.json"), str(tmp_path / "step.0.et"), False)
    linked = read_execution_trace(tmp_path / "linked.json").graph
    found = read_chakra_workload(tmp_path / "step.0.et", batch=32).graph
    assert found.measured is not None and linked.measured is not None and found.batch == 6
    assert [(op.name, op.forward_flops, op.backward_flops, op.parameters) for op in found.operators] == [
        (op.name, op.forward_flops, op.backward_flops, op.parameters) for op in linked.operators
    ]
    assert found.measured.forward == pytest.approx(linked.measured.forward)
    # Without callers, the sums that autograd appends to a backward node go to its operator.
    pairs = zip(found.measured.backward, linked.measured.backward, strict=True)
    assert all(mine is not None and theirs is not None and mine >= theirs - 1e-12 for mine, theirs in pairs)
