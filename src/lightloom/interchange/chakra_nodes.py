"""Chakra execution traces as files: a header, then nodes, each a protobuf message after its length.

Fields by number, as version 1.0 of the schema documents them (MLCommons, Chakra):

    header       1 version, 2 attributes
    node         1 id, 2 name, 3 type, 4 control dependencies, 5 data dependencies, 6 start and 7 duration in
                 microseconds, 8 inputs, 9 outputs, 10 attributes
    attribute    1 name, 7 int32, 9 int64, 10 list of int64, 11 uint32, 13 uint64, 27 bool, 29 text; others are skipped
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from lightloom.core.errors import ConfigError
from lightloom.core.files import cannot_read
from lightloom.interchange.protobuf import (
    BYTES,
    WireError,
    bytes_field,
    fields,
    framed,
    frames,
    message_field,
    packed,
    signed,
    unpacked,
    varint,
    whole_field,
)

VERSION = "1.0.0"
COMPUTE, SEND, RECEIVE, COLLECTIVE = 4, 5, 6, 7
TYPES = range(1, 8)
"""Types of nodes, from metadata (1) to collectives (7)."""

_INT32, _INT64, _INT64_LIST, _UINT32, _UINT64, _BOOL, _TEXT = 7, 9, 10, 11, 13, 27, 29
_WHOLE = (_INT32, _INT64, _UINT32, _UINT64)
_NUMBERS = {1: "id", 3: "type", 7: "duration"}
_DEPENDENCIES = {4: "control", 5: "data"}
_MOST_ID = 1 << 63

Value = int | bool | str | tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node of a trace."""

    id: int
    name: str
    type: int
    control: tuple[int, ...] = ()
    """Nodes that must end first, to keep an order."""
    data: tuple[int, ...] = ()
    """Nodes that must end first, because they deliver data."""
    duration: int = 0
    """Duration in microseconds."""
    attributes: Mapping[str, Value] = field(default_factory=dict)

    @property
    def dependencies(self) -> tuple[int, ...]:
        """All nodes that must end first."""
        return (*self.control, *self.data)


def encode(nodes: Iterable[Node], header: Mapping[str, Value]) -> bytes:
    """Return the content of a trace file."""
    start = bytes_field(1, VERSION.encode()) + b"".join(_attribute(2, *entry) for entry in header.items())
    return framed(start) + b"".join(framed(_node(node)) for node in nodes)


def _node(node: Node) -> bytes:
    return (
        whole_field(1, node.id)
        + bytes_field(2, node.name.encode())
        + whole_field(3, node.type)
        + packed(4, node.control)
        + packed(5, node.data)
        + whole_field(7, node.duration)
        + b"".join(_attribute(10, *entry) for entry in node.attributes.items())
    )


def _attribute(number: int, name: str, value: Value) -> bytes:
    if isinstance(value, bool):
        content = varint(_BOOL << 3) + varint(value)
    elif isinstance(value, int):
        # Sizes are 64 bits wide, ranks and tags 32: what simulators read.
        content = varint((_INT64 if name == "comm_size" else _INT32) << 3) + varint(value)
    elif isinstance(value, str):
        content = message_field(_TEXT, value.encode())
    else:
        content = message_field(_INT64_LIST, packed(1, value))
    return message_field(number, bytes_field(1, name.encode()) + content)


def read_trace(path: Path) -> tuple[list[Node], dict[str, Value]]:
    """Return the nodes of a trace file and the attributes of its header.

    Raises:
        ConfigError: unreadable, cut short, another version, a wrong type, an id that occurs twice, a dependency on a
            missing node, or a cycle; names the file and the node.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise cannot_read(path, error) from error
    nodes: list[Node] = []
    header: dict[str, Value] | None = None
    try:
        for frame in frames(content):
            if header is None:
                header = _header(frame, path)
            else:
                nodes.append(_decoded(frame))
    except (WireError, UnicodeDecodeError) as error:
        what = "header" if header is None else f"node {len(nodes)} (counted from 0)"
        raise ConfigError(f"{path}: {what}: {error}: not a Chakra trace, or a damaged one") from error
    if header is None:
        raise ConfigError(f"{path}: empty: expected a Chakra trace")
    _check_graph(nodes, path)
    return nodes, header


def _header(frame: bytes, path: Path) -> dict[str, Value]:
    version = ""
    attributes: dict[str, Value] = {}
    for number, wire, value in fields(frame):
        if number == 1:
            version = _bytes(wire, value).decode()
        elif number == 2:
            attributes.update([_decoded_attribute(_bytes(wire, value))])
    if version.split(".")[0] not in ("1", "0"):
        raise ConfigError(f"{path}: header: version {version!r}: expected {VERSION}")
    return attributes


def _decoded(frame: bytes) -> Node:
    name = ""
    numbers = {"id": 0, "type": 0, "duration": 0}
    before: dict[str, tuple[int, ...]] = {"control": (), "data": ()}
    attributes: dict[str, Value] = {}
    for number, wire, value in fields(frame):
        if number in _NUMBERS:
            numbers[_NUMBERS[number]] = _whole(value)
        elif number in _DEPENDENCIES:
            before[_DEPENDENCIES[number]] += tuple(unpacked(wire, value))
        elif number == 2:
            name = _bytes(wire, value).decode()
        elif number == 10:
            attributes.update([_decoded_attribute(_bytes(wire, value))])
    return Node(
        id=numbers["id"],
        name=name,
        type=numbers["type"],
        control=before["control"],
        data=before["data"],
        duration=numbers["duration"],
        attributes=attributes,
    )


def _decoded_attribute(content: bytes) -> tuple[str, Value]:
    name = ""
    decoded: Value | None = None
    for number, wire, value in fields(content):
        if number == 1:
            name = _bytes(wire, value).decode()
        elif number in _WHOLE:
            decoded = signed(_whole(value)) if number in (_INT32, _INT64) else _whole(value)
        elif number == _BOOL:
            decoded = bool(_whole(value))
        elif number == _TEXT:
            decoded = _bytes(wire, value).decode()
        elif number == _INT64_LIST:
            lists = [unpacked(*element[1:]) for element in fields(_bytes(wire, value)) if element[0] == 1]
            decoded = tuple(signed(element) for part in lists for element in part)
    return name, "" if decoded is None else decoded


def _bytes(wire: int, value: int | bytes) -> bytes:
    if wire != BYTES or isinstance(value, int):
        raise WireError(f"wire type {wire} where text or a message is expected")
    return value


def _whole(value: int | bytes) -> int:
    if not isinstance(value, int):
        raise WireError("bytes where an integer is expected")
    return value


def _check_graph(nodes: list[Node], path: Path) -> None:
    known: dict[int, Node] = {}
    for node in nodes:
        if node.id in known or node.id >= _MOST_ID:
            raise ConfigError(f"{path}: node {node.id} ({node.name!r}): its id occurs twice, or is too large")
        if node.type not in TYPES:
            raise ConfigError(f"{path}: node {node.id} ({node.name!r}): unknown type {node.type}")
        known[node.id] = node
    for node in nodes:
        for before in node.dependencies:
            if before not in known:
                raise ConfigError(
                    f"{path}: node {node.id} ({node.name!r}): depends on node {before}, which does not exist"
                )
    try:
        TopologicalSorter({node.id: node.dependencies for node in nodes}).prepare()
    except CycleError as error:
        stuck = known[error.args[1][0]]
        raise ConfigError(
            f"{path}: node {stuck.id} ({stuck.name!r}): waits for itself: a cycle of dependencies"
        ) from error
