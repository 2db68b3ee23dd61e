"""Chakra traces: what is written comes back, moves the right data at any speed, and is read by Chakra's own package."""

from __future__ import annotations

import json
import random
import shutil
import struct
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lightloom.collectives.collective import Collective
from lightloom.collectives.files import chakra_nodes
from lightloom.collectives.files.chakra import (
    HEADER,
    ROW,
    read_traces,
    trace_path,
    write_traces,
)
from lightloom.collectives.files.chakra_nodes import (
    COMPUTE,
    SEND,
    Node,
    encode,
    read_trace,
)
from lightloom.collectives.files.row_order import row_order
from lightloom.collectives.registry import build, find
from lightloom.collectives.schedule.columns import COLUMNS
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.machines.fabrics.optical_averager import OpticalAverager
from tests.interchange.schedules import Data, Made, made, ring, same

BIG = 2**64 - 1
CHUNK = 1 + list(COLUMNS).index("chunk")
"""Where a node names its chunk: after the number of its row."""


def small() -> Made:
    fabric = ring(4)
    return build(find("recursive-doubling"), Collective("all-reduce", 4, 1e6), fabric), fabric


@settings(deadline=None)
@given(st.lists(st.integers(0, BIG)), st.binary(), st.integers(1, 30))
def test_the_wire_format_comes_back(values: list[int], content: bytes, number: int) -> None:
    message = chakra_nodes.packed(number, values) + chakra_nodes.message_field(number + 1, content)
    (wire, packed), *rest = [
        (wire, value) for found, wire, value in chakra_nodes.fields(message) if found == number
    ] or [(chakra_nodes.BYTES, b"")]
    assert not rest
    assert chakra_nodes.unpacked(wire, packed) == values
    assert [value for found, _, value in chakra_nodes.fields(message) if found == number + 1] == [content]
    assert list(chakra_nodes.frames(chakra_nodes.framed(message) * 3)) == [message] * 3


@settings(deadline=None, max_examples=30)
@given(drawn=made())
def test_a_schedule_comes_back_with_a_row_for_every_rank(tmp_path_factory: pytest.TempPathFactory, drawn: Made) -> None:
    schedule, fabric = drawn
    assume(not fabric.in_network_reduction)
    prefix = tmp_path_factory.mktemp("out") / "trace"
    assert len(write_traces(prefix, schedule, fabric)) == fabric.ranks
    read, on = read_traces(prefix)
    assert on == fabric
    assert same(read, schedule.unfolded(fabric.fibre_channels))


@settings(deadline=None, max_examples=50)
@given(drawn=made(), seed=st.integers(0, 2**32))
def test_any_order_that_dependencies_allow_moves_the_right_data(
    tmp_path_factory: pytest.TempPathFactory, drawn: Made, seed: int
) -> None:
    """Traces played by nothing but their nodes, dependencies and tags, each time another node first."""
    schedule, fabric = drawn
    assume(not fabric.in_network_reduction)
    paths = write_traces(tmp_path_factory.mktemp("out") / "trace", schedule, fabric)
    _play([read_trace(path)[0] for path in paths], data := Data(schedule), random.Random(seed))
    data.check()


@settings(deadline=None, max_examples=20)
@given(drawn=made())
def test_no_send_waits_for_another(tmp_path_factory: pytest.TempPathFactory, drawn: Made) -> None:
    """A simulator ends a send when it arrives: pieces of one lightpath would pay their delay one after the other."""
    schedule, fabric = drawn
    assume(not fabric.in_network_reduction)
    for path in write_traces(tmp_path_factory.mktemp("out") / "trace", schedule, fabric):
        nodes = {node.id: node for node in read_trace(path)[0]}
        sends = [node for node in nodes.values() if node.type == SEND]
        assert not any(nodes[before].type == SEND for node in sends for before in (*node.control, *node.data))


def _play(traces: list[list[Node]], data: Data, chance: random.Random) -> None:
    waits = [{node.id: len({*node.control, *node.data}) for node in nodes} for nodes in traces]
    followers: list[dict[int, list[Node]]] = [defaultdict(list) for _ in traces]
    for rank, nodes in enumerate(traces):
        for node in nodes:
            for before in {*node.control, *node.data}:
                followers[rank][before].append(node)
    ready = [(rank, node) for rank, nodes in enumerate(traces) for node in nodes if not waits[rank][node.id]]
    flying: dict[object, Any] = {}
    receivers: dict[object, tuple[int, Node]] = {}
    left = sum(map(len, traces))
    while ready or any(tag in receivers for tag in flying):
        landed = [tag for tag in flying if tag in receivers]
        if landed and (not ready or chance.random() < 0.5):
            tag = chance.choice(landed)
            rank, node = receivers.pop(tag)
            row = node.attributes[ROW]
            assert isinstance(row, tuple)
            data.arrives(rank, int(row[CHUNK]), flying.pop(tag), bool(row[-1]))
        else:
            rank, node = ready.pop(chance.randrange(len(ready)))
            said = node.attributes
            tag = (said["comm_src"], said["comm_dst"], said["comm_tag"], said["comm_size"])
            if node.type != SEND:
                assert rank == said["comm_dst"]
                receivers[tag] = (rank, node)
                continue
            assert rank == said["comm_src"]
            row = said[ROW]
            assert isinstance(row, tuple)
            flying[tag] = data.sent(rank, int(row[CHUNK]))
        left -= 1
        for after in followers[rank][node.id]:
            waits[rank][after.id] -= 1
            if not waits[rank][after.id]:
                ready.append((rank, after))
    assert not left
    assert not flying


@settings(deadline=None, max_examples=15)
@given(drawn=made())
def test_chakras_own_package_reads_the_same(tmp_path_factory: pytest.TempPathFactory, drawn: Made) -> None:
    et_def: Any = pytest.importorskip("chakra.schema.protobuf.et_def_pb2", reason="needs mlc-chakra (extra: chakra)")
    protolib = pytest.importorskip("chakra.src.third_party.utils.protolib")
    schedule, fabric = drawn
    assume(not fabric.in_network_reduction)
    for path in write_traces(tmp_path_factory.mktemp("out") / "trace", schedule, fabric):
        nodes, header = read_trace(path)
        with path.open("rb") as file:
            start = et_def.GlobalMetadata()
            assert protolib.decodeMessage(file, start)
            assert {each.name: each.string_val for each in start.attr} == header
            theirs = deque[Any]()
            while protolib.decodeMessage(file, node := et_def.Node()):
                theirs.append(node)
        assert len(theirs) == len(nodes)
        for ours, node in zip(nodes, theirs, strict=True):
            said = {each.name: getattr(each, each.WhichOneof("value")) for each in node.attr}
            said[ROW] = tuple(said[ROW].values)
            assert (ours.id, ours.name, ours.type) == (node.id, node.name, node.type)
            assert (ours.control, ours.data) == (tuple(node.ctrl_deps), tuple(node.data_deps))
            assert ours.attributes == said
            kinds = {each.name: each.WhichOneof("value") for each in node.attr}
            assert kinds["comm_size"] == "int64_val"
            assert kinds["comm_src"] == kinds["comm_dst"] == kinds["comm_tag"] == "int32_val"
            assert kinds["is_cpu_op"] == "bool_val"


def rewrite(path: Path, change: Callable[[list[Node]], list[Node]]) -> None:
    nodes, header = read_trace(path)
    path.write_bytes(encode(change(nodes), header))


def first(**fields: Any) -> Callable[[list[Node]], list[Node]]:
    return lambda nodes: [replace(nodes[0], **fields), *nodes[1:]]


def last(**fields: Any) -> Callable[[list[Node]], list[Node]]:
    return lambda nodes: [*nodes[:-1], replace(nodes[-1], **fields)]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (first(control=(999999,)), "depends on node 999999, which does not exist"),
        (lambda nodes: [replace(each, control=(nodes[-1].id,)) for each in nodes], "a cycle of dependencies"),
        (last(data=(), control=()), "its schedule needs"),
        (lambda nodes: nodes[:-1], "no node sends row|is missing"),
        (lambda nodes: [*nodes, nodes[0]], "its id occurs twice"),
        (lambda nodes: [*nodes, replace(nodes[0], id=9999)], "is sent twice|no part of the schedule"),
        (first(type=0), "unknown type 0"),
        (first(type=COMPUTE), "no node sends row|its schedule needs"),
        (first(attributes={}), "attribute 'lightloom.row' is missing or no row"),
    ],
)
def test_a_changed_node_is_refused_by_name(
    tmp_path: Path, change: Callable[[list[Node]], list[Node]], complaint: str
) -> None:
    write_traces(tmp_path / "t", *small())
    rewrite(trace_path(tmp_path / "t", 2), change)
    with pytest.raises(ConfigError, match=complaint) as refused:
        read_traces(tmp_path / "t")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["comm_src", "comm_dst", "comm_size", "comm_tag"])
def test_a_changed_attribute_is_refused(tmp_path: Path, name: str) -> None:
    write_traces(tmp_path / "t", *small())
    rewrite(
        path := trace_path(tmp_path / "t", 1),
        lambda nodes: [replace(nodes[0], attributes={**nodes[0].attributes, name: 77}), *nodes[1:]],
    )
    with pytest.raises(ConfigError, match=r"t\.1\.et: node .*: attributes") as refused:
        read_traces(tmp_path / "t")
    assert str(path) in str(refused.value)


@settings(deadline=None, max_examples=50)
@given(data=st.data())
def test_a_trace_cut_short_or_with_a_changed_byte_is_refused_or_right(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    prefix = tmp_path_factory.mktemp("out") / "t"
    schedule, fabric = small()
    path = write_traces(prefix, schedule, fabric)[data.draw(st.integers(0, 3))]
    content = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        del content[at:]
    else:
        content[at] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    try:
        read, _ = read_traces(prefix)
    except ConfigError as refused:
        assert "\n" not in str(refused)
    else:
        # Only names of nodes, durations and notes may change without a word.
        assert all((column == schedule.columns()[name]).all() for name, column in read.columns().items())


def test_traces_of_two_schedules_do_not_mix(tmp_path: Path) -> None:
    fabric = ring(4)
    write_traces(tmp_path / "a", *small())
    write_traces(tmp_path / "b", build(find("ring"), Collective("all-reduce", 4, 1e6), fabric), fabric)
    shutil.copy(tmp_path / "b.3.et", tmp_path / "a.3.et")
    with pytest.raises(ConfigError, match=r"a\.3\.et: header: of another schedule"):
        read_traces(tmp_path / "a")
    (tmp_path / "a.3.et").unlink()
    with pytest.raises(ConfigError, match=r"cannot read .*a\.3\.et"):
        read_traces(tmp_path / "a")


def test_other_versions_and_traces_from_elsewhere_are_refused(tmp_path: Path) -> None:
    path = trace_path(tmp_path / "t", 0)
    path.write_bytes(chakra_nodes.framed(chakra_nodes.bytes_field(1, b"2.0.0")))
    with pytest.raises(ConfigError, match=r"version '2\.0\.0': expected 1\.0\.0"):
        read_traces(tmp_path / "t")
    path.write_bytes(encode([], {}))
    with pytest.raises(ConfigError, match="the trace is of another tool and does not name chunks"):
        read_traces(tmp_path / "t")
    path.write_bytes(b"")
    with pytest.raises(ConfigError, match="empty"):
        read_traces(tmp_path / "t")


@pytest.mark.parametrize("ranks", [1, 0, -2, "4", 4.0, True, None])
def test_headers_without_a_number_of_ranks_are_refused(tmp_path: Path, ranks: object) -> None:
    documents: list[object] = [{"collective": {"ranks": ranks}}, {"collective": {}}, {}, [ranks]]
    for document in documents:
        trace_path(tmp_path / "t", 0).write_bytes(encode([], {HEADER: json.dumps(document)}))
        with pytest.raises(ConfigError, match=r"t\.0\.et: header: attribute 'lightloom\.schedule': no whole number of"):
            read_traces(tmp_path / "t")


def test_traces_of_two_ranks_are_read_and_rows_told_as_they_are_done(tmp_path: Path) -> None:
    fabric = ring(2)
    schedule, done = build(find("ring"), Collective("all-reduce", 2, 1001.0), fabric), list[int]()
    paths = write_traces(tmp_path / "t", schedule, fabric, done.append)
    rows = len(schedule.unfolded(fabric.fibre_channels))
    assert [path.name for path in paths] == ["t.0.et", "t.1.et"] and sum(done) == 2 * rows
    assert {node.attributes["comm_size"] for path in paths for node in read_trace(path)[0]} == {501}
    assert read_traces(tmp_path / "t")[1] == fabric
    assert read_traces(tmp_path / "t", ring(2, wavelengths=16))[1].channels == 16


def test_whole_numbers_of_64_bits_are_the_largest() -> None:
    for value in (0, 1, 127, 128, 16_383, 16_384, BIG):
        encoded = chakra_nodes.varint(value)
        assert len(encoded) == max(1, -(-value.bit_length() // 7))
        assert chakra_nodes.read_varint(b"?" + encoded + b"?", 1) == (value, 1 + len(encoded))
    assert [chakra_nodes.signed(value) for value in (BIG, 2**63, 2**63 - 1, 0)] == [-1, -(2**63), 2**63 - 1, 0]
    assert chakra_nodes.varint(-1) == chakra_nodes.varint(BIG)
    for damaged, why in ((b"\xff" * 9 + b"\x02", "longer than 64 bits"), (b"\x80" * 3, "cut short at byte 3")):
        with pytest.raises(chakra_nodes.WireError, match=why):
            chakra_nodes.read_varint(damaged, 0)
    with pytest.raises(chakra_nodes.WireError, match="longer than 64 bits"):
        chakra_nodes.read_varint(b"\x80" * 10 + b"\x01", 0)


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("rank", 2**31 - 1, 7),
        ("rank", -(2**31), 7),
        ("rank", 2**31, 9),
        ("rank", -(2**31) - 1, 9),
        ("comm_size", 5, 9),
        ("flag", True, 27),
        ("flag", False, 27),
        ("text", "", 29),
        ("row", (3, 0, 2**40), 10),
        ("row", (), 10),
    ],
)
def test_attributes_are_written_in_the_kinds_that_simulators_read(name: str, value: Any, kind: int) -> None:
    (field,) = chakra_nodes.fields(chakra_nodes.encode_attribute(10, name, value))
    content = chakra_nodes.as_bytes(*field[1:])
    assert field[0] == 10 and [number for number, *_ in chakra_nodes.fields(content)] == [1, kind]
    found = chakra_nodes.decode_attribute(content)
    assert found == (name, value) and type(found[1]) is type(value)


def test_attributes_of_other_values_are_not_written() -> None:
    for value in (1.5, (1, 2.0), ("a",), b"x"):
        with pytest.raises(chakra_nodes.WireError, match=r"attribute 'x': .*: expected a whole number, a text"):
            chakra_nodes.encode_attribute(10, "x", value)


SCALARS: list[tuple[int, bytes, object]] = [
    (3, struct.pack("<d", 1.25), 1.25),
    (5, struct.pack("<f", 0.5), 0.5),
    (7, chakra_nodes.varint(-3), -3),
    (9, chakra_nodes.varint(-(2**40)), -(2**40)),
    (11, chakra_nodes.varint(2**32 - 1), 2**32 - 1),
    (13, chakra_nodes.varint(BIG), BIG),
    (15, chakra_nodes.varint(5), -3),
    (17, chakra_nodes.varint(6), 3),
    (19, struct.pack("<I", 2**32 - 1), 2**32 - 1),
    (21, struct.pack("<Q", BIG), BIG),
    (23, struct.pack("<i", -7), -7),
    (25, struct.pack("<q", -(2**50)), -(2**50)),
    (27, b"\x01", True),
    (29, b"text", "text"),
    (31, b"\xff", b"\xff"),
]
"""Kinds of attributes, a value in bytes without its tag and length, and the value."""


def wire_of(kind: int, content: bytes) -> int:
    if kind in (29, 31):
        return chakra_nodes.BYTES
    return {3: 1, 21: 1, 25: 1, 5: 5, 19: 5, 23: 5}.get(kind, chakra_nodes.VARINT)


def tagged(number: int, wire: int, content: bytes) -> bytes:
    length = chakra_nodes.varint(len(content)) if wire == chakra_nodes.BYTES else b""
    return chakra_nodes.varint(number << 3 | wire) + length + content


@pytest.mark.parametrize(("kind", "content", "value"), SCALARS)
def test_every_kind_of_attribute_is_read_alone_and_in_lists(kind: int, content: bytes, value: object) -> None:
    wire = wire_of(kind, content)
    alone = chakra_nodes.decode_attribute(tagged(1, 2, b"name") + tagged(kind, wire, content))
    assert alone == ("name", value) and type(alone[1]) is type(value)
    one_by_one = tagged(2, 0, b"\x05") + tagged(1, wire, content) * 2
    assert chakra_nodes.decode_attribute(tagged(kind + 1, 2, one_by_one))[1] == (value, value)
    assert chakra_nodes.decode_attribute(tagged(kind + 1, 2, b"")) == ("", ())
    if wire != chakra_nodes.BYTES:
        assert chakra_nodes.decode_attribute(tagged(kind + 1, 2, tagged(1, 2, content * 3)))[1] == (value,) * 3
        with pytest.raises(chakra_nodes.WireError):
            chakra_nodes.decode_attribute(tagged(kind, 2, content))
    if wire in (1, 5):
        with pytest.raises(chakra_nodes.WireError, match=f"a list of {len(content) + 1} bytes where each entry has"):
            list(chakra_nodes.decode_attribute(tagged(kind + 1, 2, tagged(1, 2, content + b"?"))))
    with pytest.raises(chakra_nodes.WireError):
        chakra_nodes.decode_attribute(tagged(kind, 0 if wire else 5, b"\x01\x00\x00\x00"))


def test_attributes_without_a_value_hold_an_empty_text_and_what_is_unknown_is_passed_over() -> None:
    assert chakra_nodes.decode_attribute(tagged(1, 2, b"x") + tagged(2, 2, b"about it")) == ("x", "")
    assert chakra_nodes.decode_attribute(tagged(99, 0, b"\x01") + tagged(7, 0, b"\x04")) == ("", 4)


@pytest.mark.parametrize("version", ["1.0.0", "1.7", "0.9", "0", ""])
def test_headers_of_versions_before_2_are_read(tmp_path: Path, version: str) -> None:
    path = tmp_path / "t.0.et"
    node = Node(id=2**63 - 1, name="", type=COMPUTE, duration=10**12)
    path.write_bytes(encode([node], {"a": 1}, version))
    assert read_trace(path) == ([node], {"a": 1})


@pytest.mark.parametrize(
    ("nodes", "complaint"),
    [
        ([Node(id=2**63, name="x", type=COMPUTE)], "its id occurs twice, or is too large"),
        ([Node(id=1, name="x", type=COMPUTE, duration=10**12 + 1)], "duration_micros is 1000000000001: expected at"),
        ([Node(id=1, name="x", type=8)], "unknown type 8: expected 1 metadata, "),
        ([Node(id=1, name="x", type=COMPUTE, data=(1,))], "waits for itself: a cycle"),
        ([Node(id=1, name="x", type=COMPUTE, data=(2,))], "depends on node 2, which does not exist"),
    ],
)
def test_nodes_beyond_the_limits_are_refused(tmp_path: Path, nodes: list[Node], complaint: str) -> None:
    path = tmp_path / "t.0.et"
    path.write_bytes(encode(nodes, {}))
    with pytest.raises(ConfigError, match=rf"t\.0\.et: node {nodes[0].id} \('x'\): {complaint}"):
        read_trace(path)


def test_nested_calls_wait_for_data_alone(tmp_path: Path) -> None:
    """Where a node has a schema of PyTorch, control dependencies may name calls that were left out."""
    path = tmp_path / "t.0.et"
    node = Node(id=1, name="x", type=COMPUTE, control=(7,))
    path.write_bytes(encode([node], {}))
    with pytest.raises(ConfigError, match="depends on node 7"):
        read_trace(path)
    told = Node(id=2, name="y", type=COMPUTE, control=(1,), data=(1,), attributes={"op_schema": "aten::relu"})
    path.write_bytes(encode([node, told], {}))
    assert read_trace(path)[0] == [node, told]
    assert chakra_nodes.waits(told, nested=True) == (1,) and chakra_nodes.waits(told, nested=False) == (1, 1)


def test_rows_of_a_step_stand_by_chunk_and_steps_in_their_order() -> None:
    """Columns in any order: a group is the rows of one step and one chunk, in the order in which they were."""
    fabric = ring(5)
    schedule = build(find("ring"), Collective("all-reduce", 5, 1e6), fabric).unfolded(1)
    mixed = np.random.default_rng(0).permutation(len(schedule))
    columns: Any = {name: column[mixed] for name, column in schedule.columns().items()}
    shuffled = replace(schedule, **columns)
    order = row_order(shuffled)
    keys = [[(int(shuffled.step[row]), int(shuffled.chunk[row])) for row in group] for group in order.groups]
    assert all(len(set(key)) == 1 for key in keys)
    assert [key[0] for key in keys] == sorted(set(zip(shuffled.step.tolist(), shuffled.chunk.tolist(), strict=True)))
    assert all(group == sorted(group) for group in order.groups)
    assert sorted(order.rows) == list(range(len(schedule)))


@pytest.mark.parametrize("kind", ["all-gather", "reduce-scatter"])
def test_lightpaths_keep_the_order_of_their_queues_however_rows_are_listed(kind: Any) -> None:
    fabric = ring(6)
    schedule = build(find("synthesized"), Collective(kind, 6, 6e4), fabric).unfolded(fabric.fibre_channels)
    assert schedule.queued and len(np.unique(schedule.lightpath)) < len(schedule)
    mixed = np.random.default_rng(1).permutation(len(schedule))
    columns: Any = {name: column[mixed] for name, column in schedule.columns().items()}
    shuffled = replace(schedule, **columns)
    rows = row_order(shuffled).rows
    assert sorted(rows) == list(range(len(schedule)))
    for path in np.unique(shuffled.lightpath).tolist():
        queue = [int(shuffled.step[row]) for row in rows if shuffled.lightpath[row] == path]
        assert queue == sorted(queue)


def test_a_switch_that_reduces_has_no_trace(tmp_path: Path) -> None:
    fabric = OpticalAverager(ranks=4)
    schedule = build(find("in-network"), Collective("all-reduce", 4, 1e6), fabric)
    with pytest.raises(UnsupportedError, match="cannot express a switch that reduces"):
        write_traces(tmp_path / "t", schedule, fabric)
    assert not list(tmp_path.iterdir())
