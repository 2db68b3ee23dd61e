"""Chakra execution traces as files: a header, then nodes, each a protobuf message after its length.

Fields by number (MLCommons, Chakra, ``et_def.proto``):

    header       1 version, 2 attributes
    node         1 id, 2 name, 3 type, 4 control dependencies, 5 data dependencies, 6 start and 7 duration in
                 microseconds, 8 inputs, 9 outputs, 10 attributes (``chakra_attributes.py``)
    in-, outputs 1 values, 2 shapes, 3 types, each a text

A header needs no version: MLCommons' converters write none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

from lightloom.core.documents import MOST_TRACE_BYTES, read_bytes
from lightloom.core.errors import ConfigError
from lightloom.interchange.chakra_attributes import Value, as_bytes, as_whole, decode_attribute, encode_attribute
from lightloom.interchange.protobuf import (
    WireError,
    bytes_field,
    fields,
    framed,
    frames,
    message_field,
    packed,
    unpacked,
    whole_field,
)

VERSION = "1.0.0"
METADATA, LOAD, STORE, COMPUTE, SEND, RECEIVE, COLLECTIVE = range(1, 8)
TYPES: Mapping[int, str] = {
    METADATA: "metadata",
    LOAD: "load from memory",
    STORE: "store to memory",
    COMPUTE: "compute",
    SEND: "send",
    RECEIVE: "receive",
    COLLECTIVE: "collective",
}
LONGEST_MICROSECONDS = 10**12
"""Most microseconds of a node, eleven days: anything above is damage."""

_NUMBERS = {1: "id", 3: "type", 6: "start", 7: "duration"}
_DEPENDENCIES = {4: "control", 5: "data"}
_MOST_ID = 1 << 63


class Texts(NamedTuple):
    """What a node reads or returns, as the converter's texts."""

    values: str = ""
    shapes: str = ""
    types: str = ""


NO_TEXTS = Texts()


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node of a trace."""

    id: int
    name: str
    type: int
    control: tuple[int, ...] = ()
    """Nodes that must end first, to keep an order; in traces of PyTorch the call that made this one."""
    data: tuple[int, ...] = ()
    """Nodes that must end first, because they deliver data."""
    start: int = 0
    """Start in microseconds; 0 where the trace does not say."""
    duration: int = 0
    """Duration in microseconds; 0 where the trace does not say."""
    inputs: Texts = NO_TEXTS
    outputs: Texts = NO_TEXTS
    attributes: Mapping[str, Value] = field(default_factory=dict)

    @property
    def dependencies(self) -> tuple[int, ...]:
        """All nodes that must end first."""
        return (*self.control, *self.data)


def encode(nodes: Iterable[Node], header: Mapping[str, Value], version: str = VERSION) -> bytes:
    """Return the content of a trace file."""
    start = bytes_field(1, version.encode()) + b"".join(encode_attribute(2, *entry) for entry in header.items())
    return framed(start) + b"".join(framed(_node(node)) for node in nodes)


def _node(node: Node) -> bytes:
    return (
        whole_field(1, node.id)
        + bytes_field(2, node.name.encode())
        + whole_field(3, node.type)
        + packed(4, node.control)
        + packed(5, node.data)
        + whole_field(6, node.start)
        + whole_field(7, node.duration)
        + _texts(8, node.inputs)
        + _texts(9, node.outputs)
        + b"".join(encode_attribute(10, *entry) for entry in node.attributes.items())
    )


def _texts(number: int, texts: Texts) -> bytes:
    content = b"".join(bytes_field(place, text.encode()) for place, text in enumerate(texts, 1))
    return message_field(number, content) if content else b""


def read_trace(path: Path) -> tuple[list[Node], dict[str, Value]]:
    """Return the nodes of a trace file, gzip or not, and the attributes of its header.

    Raises:
        ConfigError: unreadable, cut short, another version, a wrong type, an id that occurs twice, an impossible
            duration, data from a missing node, or a cycle; names the file and the node.
    """
    content = read_bytes(path, MOST_TRACE_BYTES)
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
    check_nodes(nodes, path)
    return nodes, header


def _header(frame: bytes, path: Path) -> dict[str, Value]:
    version = ""
    attributes: dict[str, Value] = {}
    for number, wire, value in fields(frame):
        if number == 1:
            version = as_bytes(wire, value).decode()
        elif number == 2:
            attributes.update([decode_attribute(as_bytes(wire, value))])
        else:
            raise WireError(f"field {number}, which no header has")
    if version and version.split(".")[0] not in ("1", "0"):
        raise ConfigError(f"{path}: header: version {version!r}: expected {VERSION}, 0.x, or none")
    return attributes


def _decoded(frame: bytes) -> Node:
    name = ""
    numbers = {"id": 0, "type": 0, "start": 0, "duration": 0}
    before: dict[str, tuple[int, ...]] = {"control": (), "data": ()}
    texts: dict[int, Texts] = {}
    attributes: dict[str, Value] = {}
    for number, wire, value in fields(frame):
        if number in _NUMBERS:
            numbers[_NUMBERS[number]] = as_whole(value)
        elif number in _DEPENDENCIES:
            before[_DEPENDENCIES[number]] += tuple(unpacked(wire, value))
        elif number == 2:
            name = as_bytes(wire, value).decode()
        elif number in (8, 9):
            parts = {place: as_bytes(*entry).decode() for place, *entry in fields(as_bytes(wire, value))}  # type: ignore[arg-type]
            texts[number] = Texts(*(parts.get(place, "") for place in (1, 2, 3)))
        elif number == 10:
            attributes.update([decode_attribute(as_bytes(wire, value))])
    return Node(
        name=name,
        id=numbers["id"],
        type=numbers["type"],
        start=numbers["start"],
        duration=numbers["duration"],
        control=before["control"],
        data=before["data"],
        inputs=texts.get(8, NO_TEXTS),
        outputs=texts.get(9, NO_TEXTS),
        attributes=attributes,
    )


def check_nodes(nodes: list[Node], path: Path) -> None:
    """Check what nodes say of each other.

    Raises:
        ConfigError: as :func:`read_trace`.
    """
    known: dict[int, Node] = {}
    for node in nodes:
        where = f"{path}: node {node.id} ({node.name!r})"
        if node.id in known or node.id >= _MOST_ID:
            raise ConfigError(f"{where}: its id occurs twice, or is too large")
        if node.type not in TYPES:
            names = ", ".join(f"{number} {name}" for number, name in TYPES.items())
            raise ConfigError(f"{where}: unknown type {node.type}: expected {names}")
        if node.duration > LONGEST_MICROSECONDS:
            raise ConfigError(
                f"{where}: duration_micros is {node.duration}: expected at most {LONGEST_MICROSECONDS} (11 days)"
            )
        known[node.id] = node
    nested = is_nested(nodes)
    waiting = {node.id: waits(node, nested=nested) for node in nodes}
    for number, befores in waiting.items():
        for before in befores:
            if before not in known:
                raise ConfigError(
                    f"{path}: node {number} ({known[number].name!r}): depends on node {before}, which does not exist"
                )
    try:
        TopologicalSorter(waiting).prepare()
    except CycleError as error:
        stuck = known[error.args[1][0]]
        raise ConfigError(
            f"{path}: node {stuck.id} ({stuck.name!r}): waits for itself: a cycle of dependencies"
        ) from error


def is_nested(nodes: Iterable[Node]) -> bool:
    """Return whether control dependencies say which call made which, as MLCommons' converter of PyTorch writes them.

    They then name calls that the converter may have left out, and a call that has not ended when those it makes begin.
    """
    return any("op_schema" in node.attributes for node in nodes)


def waits(node: Node, *, nested: bool) -> tuple[int, ...]:
    """Return the nodes that must end before this one, in a trace whose control dependencies are nested calls or not."""
    return node.data if nested else node.dependencies
