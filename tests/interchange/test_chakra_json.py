"""Chakra traces in JSON: the feeder's object and the jsonizer's objects hold what the same trace in protobuf holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lightloom.collectives.files.chakra import read_json_trace
from lightloom.collectives.files.chakra_nodes import (
    COLLECTIVE,
    COMPUTE,
    Node,
    Texts,
)
from lightloom.core.errors import ConfigError
from lightloom.core.forms import recognise
from lightloom.models.traces.chakra import read_chakra_workload

NODES = [
    Node(id=1, name="conv", type=COMPUTE, duration=30, attributes={"is_cpu_op": False, "num_ops": 500}),
    Node(id=2, name="conv backward", type=COMPUTE, duration=60, data=(1,), attributes={"is_cpu_op": False}),
    Node(
        id=3,
        name="sum",
        type=COLLECTIVE,
        data=(2,),
        inputs=Texts("[1]", "[[4]]", "[]"),
        attributes={"is_cpu_op": False, "comm_type": 0, "comm_size": 4096, "pg_name": "dp"},
    ),
]
_NAMES = {COMPUTE: "COMP_NODE", COLLECTIVE: "COMM_COLL_NODE"}
_FIELDS = {bool: "boolVal", int: "int64Val", str: "stringVal"}


def feeder(node: Node) -> dict[str, Any]:
    own = {"Id": node.id, "Name": node.name, "NodeType": node.type, "data_deps": list(node.data), "ctrlDeps": [77]}
    return own | {"runtime": node.duration} | dict(node.attributes)


def jsonizer(node: Node) -> dict[str, Any]:
    attributes = [
        {"name": name, _FIELDS[type(value)]: str(value) if type(value) is int else value}
        for name, value in node.attributes.items()
    ]
    entry = {"id": str(node.id), "name": node.name, "type": _NAMES[node.type], "dataDeps": [str(i) for i in node.data]}
    return entry | {"durationMicros": str(node.duration), "attr": attributes, "inputs": node.inputs._asdict()}


def written(folder: Path, form: str) -> Path:
    path = folder / f"{form}.json"
    if form == "feeder":
        path.write_text(json.dumps({"workload_graph": [feeder(node) for node in NODES], "workload_name": "w"}))
    else:
        path.write_text('{\n  "version": "0.0.4"\n}' + "".join(json.dumps(jsonizer(node), indent=2) for node in NODES))
    return path


@pytest.mark.parametrize("form", ["feeder", "jsonizer"])
def test_both_forms_hold_the_same_nodes_and_are_planned(tmp_path: Path, form: str) -> None:
    path = written(tmp_path, form)
    assert recognise(path, "model").name == "chakra-json"
    nodes = read_json_trace(path)
    for node, expected in zip(nodes, NODES, strict=True):
        assert (node.id, node.name, node.type, node.data) == (expected.id, expected.name, expected.type, expected.data)
        assert (node.duration, node.attributes) == (expected.duration, expected.attributes)
    record = read_chakra_workload(path, batch=4)
    assert record.graph.parameters == 1024 and record.graph.measured is not None
    assert [exchange.nbytes for exchange in record.exchanges] == [4096]


def test_calls_that_launch_work_name_it_and_keep_no_duration(tmp_path: Path) -> None:
    entries = [
        {"Id": 1, "Name": "aten::conv", "NodeType": 4, "is_cpu_op": True, "runtime": 300, "data_deps": []},
        {"Id": 2, "Name": "void kernel", "NodeType": 4, "is_cpu_op": False, "runtime": 20, "data_deps": [1]},
        {"Id": 3, "Name": "conv_backward", "NodeType": 4, "is_cpu_op": True, "runtime": 300, "data_deps": [2]},
        {"Id": 4, "Name": "void kernel", "NodeType": 4, "is_cpu_op": False, "runtime": 40, "data_deps": [3, 1]},
    ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"workload_graph": entries}))
    graph = read_chakra_workload(path, batch=4).graph
    assert graph.measured is not None
    assert (*graph.measured.forward, *graph.measured.backward) == pytest.approx((20e-6, 40e-6))
    assert [operator.name for operator in graph.operators] == ["aten::conv 2"]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"Id": "x"}, "node 0 (counted from 0): Id is 'x': expected a whole number"),
        ({"NodeType": 9}, "unknown type 9"),
        ({"data_deps": [5]}, "depends on node 5, which does not exist"),
        ({"data_deps": 5}, "data_deps: expected a list of ids"),
        ({"runtime": -1}, "runtime is -1"),
        ({"runtime": True}, "runtime is True: expected a whole number of at least 0"),
        ({"runtime": 1.5}, "runtime is 1.5"),
        ({"Id": str(2**64)}, f"Id is '{2**64}'"),
        ({"Id": None}, "Id is None"),
        ({"data_deps": ["x"]}, "data_deps is 'x'"),
        ({"data_deps": "12"}, "data_deps: expected a list of ids"),
    ],
)
def test_what_no_trace_holds_is_refused_in_one_line(tmp_path: Path, change: dict[str, Any], complaint: str) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"workload_graph": [feeder(NODES[0]) | change]}))
    with pytest.raises(ConfigError) as refusal:
        read_chakra_workload(path, batch=4)
    assert complaint in str(refusal.value) and "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"workload_graph": {}}', "workload_graph: expected a list of nodes"),
        ('{"workload_graph": "nodes"}', "workload_graph: expected a list of nodes"),
        ('{"workload_graph": [3]}', "node 0 (counted from 0): expected an object, found int"),
        ('{"workload_graph": []}', "holds no node"),
        ('{"version": "1"}', "holds no node"),
        ("  ", "holds no node"),
        ("{} [1]", "expected JSON objects, found list"),
        ("{} x", "not JSON: "),
        ('{"type": "MAGIC_NODE"}', "node 0: type 'MAGIC_NODE': expected one of METADATA_NODE, MEM_LOAD_NODE"),
        ('{"type": "COMP_NODE", "id": "-1"}', "node -1: id is '-1': expected a whole number of at least 0"),
        ('{"type": "COMP_NODE", "dataDeps": 4}', "node 0: dataDeps: expected a list of ids"),
        ('{"type": "COMP_NODE", "ctrlDeps": "4"}', "node 0: ctrlDeps: expected a list of ids"),
        ('{"type": "COMP_NODE", "attr": [{}]}', "node 0: attribute {}: expected a name and a value"),
        ('{"type": "COMP_NODE", "attr": [3]}', "node 0: attribute 3: expected a name and a value"),
        (
            '{"type": "COMP_NODE", "attr": [{"name": "scale", "doubleVal": "much"}]}',
            "node 0: scale is 'much': expected a number",
        ),
        (
            '{"type": "COMP_NODE", "attr": [{"name": "scale", "floatVal": [1.5]}]}',
            "node 0: scale is [1.5]: expected a number",
        ),
        ('{"type": "COMP_NODE", "attr": [{"name": "n", "int64Val": "x"}]}', "node 0: n is 'x': expected a whole"),
    ],
)
def test_json_that_is_no_trace_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "trace.json"
    path.write_text(text)
    with pytest.raises(ConfigError) as refusal:
        read_json_trace(path)
    assert complaint in str(refusal.value) and "\n" not in str(refusal.value)


def test_objects_stand_one_after_the_other_with_or_without_space_between(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(' \n{"schema": "x"}{"type": "COMP_NODE", "id": "3"}\n\n {"type": "COMM_RECV_NODE", "id": 4}\n ')
    assert [(node.id, node.type) for node in read_json_trace(path)] == [(3, COMPUTE), (4, 6)]


def test_every_kind_of_attribute_of_a_node_is_read(tmp_path: Path) -> None:
    """Whole numbers may be negative texts; documentation and lists are left out."""
    path = tmp_path / "trace.json"
    attributes = [
        {"name": "a", "int64Val": str(-(1 << 63))},
        {"name": "b", "uint64Val": str((1 << 64) - 1)},
        {"name": "c", "doubleVal": 2},
        {"name": "d", "floatVal": "0.5"},
        {"name": "e", "boolVal": True, "docString": "about it"},
        {"name": "f", "stringVal": "text"},
        {"name": "g", "int64List": {"values": [1]}},
        {"name": "h", "sfixed32Val": 7},
    ]
    node = {"type": "MEM_STORE_NODE", "name": "n", "startTimeMicros": "5", "durationMicros": 6, "attr": attributes}
    path.write_text(json.dumps(node | {"inputs": {"values": "[1]", "types": "t"}, "outputs": 3}))
    (found,) = read_json_trace(path)
    assert (found.id, found.name, found.type, found.start, found.duration) == (0, "n", 3, 5, 6)
    assert found.inputs == Texts("[1]", "", "t") and found.outputs == Texts()
    expected = {"a": -(1 << 63), "b": (1 << 64) - 1, "c": 2.0, "d": 0.5, "e": True, "f": "text", "h": 7}
    assert found.attributes == expected
    assert [type(value) for value in found.attributes.values()] == [type(value) for value in expected.values()]
    path.write_text(json.dumps(node | {"attr": {"name": "x"}}))
    assert read_json_trace(path)[0].attributes == {}


def test_nodes_of_one_kind_alone_keep_names_and_durations(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    calls = [
        {"Id": 1, "Name": "call", "NodeType": 4, "is_cpu_op": True, "runtime": 3},
        {"Id": 2, "Name": "load", "NodeType": 2, "is_cpu_op": True, "runtime": 4, "notes": [1], "data_deps": ["1"]},
    ]
    work = {"Id": 3, "Name": "work", "NodeType": 4, "is_cpu_op": False, "runtime": 5, "data_deps": [2, 1]}
    path.write_text(json.dumps({"workload_graph": calls}))
    assert [(node.name, node.duration, node.data) for node in read_json_trace(path)] == [
        ("call", 3, ()),
        ("load", 4, (1,)),
    ]
    assert read_json_trace(path)[1].attributes == {"is_cpu_op": True}
    path.write_text(json.dumps({"workload_graph": [*calls, work, work | {"Id": 4, "data_deps": [3]}]}))
    assert [(node.name, node.duration) for node in read_json_trace(path)] == [
        ("call", 0),
        ("load", 4),
        ("load", 5),
        ("work", 5),
    ]
