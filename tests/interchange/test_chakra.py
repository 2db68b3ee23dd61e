"""Chakra traces: what is written comes back, moves the right data at any speed, and is read by Chakra's own package."""

from __future__ import annotations

import random
import shutil
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lightloom.collectives.collective import Collective
from lightloom.collectives.files import chakra_nodes
from lightloom.collectives.files.chakra import (
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


def test_a_switch_that_reduces_has_no_trace(tmp_path: Path) -> None:
    fabric = OpticalAverager(ranks=4)
    schedule = build(find("in-network"), Collective("all-reduce", 4, 1e6), fabric)
    with pytest.raises(UnsupportedError, match="cannot express a switch that reduces"):
        write_traces(tmp_path / "t", schedule, fabric)
    assert not list(tmp_path.iterdir())
