"""Chakra execution traces as files: a header, then nodes, each a protobuf message after its length.

Fields by number (MLCommons, Chakra, ``et_def.proto``):

    header       1 version, 2 attributes
    node         1 id, 2 name, 3 type, 4 control dependencies, 5 data dependencies, 6 start and 7 duration in
                 microseconds, 8 inputs, 9 outputs, 10 attributes (their fields are listed below)
    in-, outputs 1 values, 2 shapes, 3 types, each a text

A header needs no version: MLCommons' converters write none.
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, NamedTuple, cast

from lightloom.core.documents import MOST_TRACE_BYTES, read_bytes
from lightloom.core.errors import ConfigError

# The part of protobuf's wire format that traces need: varints, tagged fields, length-prefixed messages.
#
# field        varint (number << 3 | wire type), then the value
# wire types   0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes

VARINT, EIGHT, BYTES, FOUR = 0, 1, 2, 5
_WIDTHS = {EIGHT: 8, FOUR: 4}
"""Bytes of a value of fixed width, by its wire type."""
_LONGEST_VARINT = 10
"""Bytes of the longest varint, which has 64 bits."""


class WireError(ValueError):
    """Bytes that are not a protobuf message."""


def varint(value: int) -> bytes:
    """Return the protobuf bytes of the low 64 bits of an integer, of a negative one those of its two's complement.

    Seven bits a byte, the lowest first.
    """
    value &= (1 << 64) - 1
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the varint that begins at ``at``, and the position after it.

    Raises:
        WireError: cut short, or longer than 64 bits.
    """
    value = 0
    for place in range(_LONGEST_VARINT):
        if at + place >= len(data):
            raise WireError(f"a number is cut short at byte {len(data)}")
        byte = data[at + place]
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80 and not value >> 64:
            return value, at + place + 1
    raise WireError(f"the number at byte {at} is longer than 64 bits")


def whole_field(number: int, value: int) -> bytes:
    """Return the bytes of a field that holds an integer of 64 bits, tag included; none for 0, as in proto3.

    ``number`` is the field's number, as in all functions here.
    """
    return varint(number << 3 | VARINT) + varint(value) if value else b""


def bytes_field(number: int, value: bytes) -> bytes:
    """Return the bytes of field ``number`` that holds ``value``, a text, bytes or a message, tag and length included;
    none if it is empty."""
    return message_field(number, value) if value else b""


def message_field(number: int, value: bytes) -> bytes:
    """Return the bytes of field ``number`` that holds ``value``, a message, even an empty one, tag and length
    included."""
    return varint(number << 3 | BYTES) + varint(len(value)) + value


def packed(number: int, values: Iterable[int]) -> bytes:
    """Return the bytes of a repeated field of integers in packed form: tag, length, and varints one after the other;
    none where there are no integers."""
    return bytes_field(number, b"".join(map(varint, values)))


def fields(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Yield the number, wire type and value of each field of a message's bytes, in order.

    The value is an integer, not yet interpreted, of a varint, else the bytes of the field.

    Raises:
        WireError: cut short, or not a message.
    """
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        number, wire = tag >> 3, tag & 7
        if number < 1:
            raise WireError(f"field number {number} before byte {at}")
        if wire == VARINT:
            value, at = read_varint(data, at)
            yield number, wire, value
            continue
        if wire == BYTES:
            size, at = read_varint(data, at)
        elif wire in _WIDTHS:
            size = _WIDTHS[wire]
        else:
            raise WireError(f"unknown wire type {wire} before byte {at}")
        if at + size > len(data):
            raise WireError(f"field {number} is cut short: {size} bytes announced, {len(data) - at} present")
        yield number, wire, data[at : at + size]
        at += size


def unpacked(wire: int, value: int | bytes) -> list[int]:
    """Return the integers of a repeated field, packed or not, as unsigned integers of 64 bits, not yet interpreted.

    Args:
        wire, value: wire type and value of the field, as :func:`fields` yields them: an integer, or the bytes of
            varints.

    Raises:
        WireError: another wire type, or cut short.
    """
    if isinstance(value, int):
        return [value]
    if wire != BYTES:
        raise WireError(f"wire type {wire} where integers are expected")
    integers, at = [], 0
    while at < len(value):
        integer, at = read_varint(value, at)
        integers.append(integer)
    return integers


def signed(value: int) -> int:
    """Return the integer, from −2^63 to 2^63 − 1, of which a value of 64 bits is the two's complement."""
    return value - (1 << 64) if value >> 63 else value


def framed(message: bytes) -> bytes:
    """Return a message preceded by its length in bytes as a varint."""
    return varint(len(message)) + message


def frames(data: bytes) -> Iterator[bytes]:
    """Yield the messages of a file of length-prefixed messages.

    Raises:
        WireError: the last one is cut short.
    """
    at = 0
    while at < len(data):
        size, at = read_varint(data, at)
        if at + size > len(data):
            raise WireError(f"cut short: a message of {size} bytes is announced, {len(data) - at} bytes are left")
        yield data[at : at + size]
        at += size


# Attributes of nodes and headers, in every kind that Chakra's schema defines (MLCommons, Chakra, ``et_def.proto``).
#
# Fields by number: 1 name, 2 documentation, then one value: a kind at an odd number, a list of it at the next one.
#
# 3 double    5 float     7 int32     9 int64     11 uint32    13 uint64    15 sint32    17 sint64
# 19 fixed32  21 fixed64  23 sfixed32  25 sfixed64  27 bool    29 text      31 bytes

Scalar = int | float | bool | str | bytes
Value = Scalar | tuple[Scalar, ...]

_INT32, _INT64, _INT64_LIST, _BOOL, _TEXT = 7, 9, 10, 27, 29
_INT32_END = 1 << 31


_VARINTS: Mapping[int, Callable[[int], int | bool]] = {
    **dict.fromkeys((7, 9), signed),
    **dict.fromkeys((11, 13), int),
    **dict.fromkeys((15, 17), lambda value: (value >> 1) ^ -(value & 1)),  # protobuf's zigzag form
    27: bool,
}
"""Functions that decode the kinds that are varints."""
_FORMS: Mapping[int, str] = {3: "<d", 5: "<f", 19: "<I", 21: "<Q", 23: "<i", 25: "<q"}
"""Layouts of kinds of fixed width, as :mod:`struct` writes them."""
_KINDS = frozenset({*_VARINTS, *_FORMS, 29, 31})


def encode_attribute(number: int, name: str, value: Value) -> bytes:
    """Return an attribute as the bytes of a field, tag and length included, of the message that holds it.

    Truth values are bool, texts text, and tuples lists of int64. Whole numbers are int32 where they fit, else int64
    (``comm_size`` always int64).

    Args:
        number: number of the field in that message.

    Raises:
        WireError: a floating number, bytes, or a list of anything but whole numbers.
    """
    if isinstance(value, bool):
        content = varint(_BOOL << 3) + varint(value)
    elif isinstance(value, int):
        # Sizes are 64 bits wide, ranks and tags 32: what simulators read.
        wide = name == "comm_size" or not -_INT32_END <= value < _INT32_END
        content = varint((_INT64 if wide else _INT32) << 3) + varint(value)
    elif isinstance(value, str):
        content = message_field(_TEXT, value.encode())
    elif isinstance(value, tuple) and (whole := [entry for entry in value if isinstance(entry, int)]) == [*value]:
        content = message_field(_INT64_LIST, packed(1, whole))
    else:
        raise WireError(f"attribute {name!r}: {value!r}: expected a whole number, a text, or a list of whole numbers")
    return message_field(number, bytes_field(1, name.encode()) + content)


def decode_attribute(content: bytes) -> tuple[str, Value]:
    """Return the name and value of an attribute, from the content of its field; an attribute without a value holds an
    empty text, and a list is a tuple.

    Unknown fields and the documentation are skipped.

    Raises:
        WireError: not an attribute, or a value of another wire type than its kind has.
        UnicodeDecodeError: a name or a text is not UTF-8.
    """
    name: str = ""
    decoded: Value = ""
    for number, wire, value in fields(content):
        if number == 1:
            name = as_bytes(wire, value).decode()
        elif number in _KINDS:
            decoded = _scalar(number, wire, value)
        elif number - 1 in _KINDS:
            decoded = tuple(_list(number - 1, as_bytes(wire, value)))
    return name, decoded


def _scalar(kind: int, wire: int, value: int | bytes) -> Scalar:
    """Return the value of a field of an attribute that is no list: a number, truth value, text or bytes, as the kind
    says.

    Args:
        kind: number of the field in Chakra's ``AttributeProto``, which names the kind, such as 7 for int32, 27 for
            bool, 29 for text.
        wire, value: wire type and value of the field, as :func:`fields` yields them.

    Raises:
        WireError: another wire type than the kind has.
        UnicodeDecodeError: a text is not UTF-8.
    """
    if kind in _VARINTS:
        return _VARINTS[kind](as_whole(value))
    if kind in _FORMS:
        width = struct.calcsize(_FORMS[kind])
        if _WIDTHS.get(wire) != width or isinstance(value, int):
            raise WireError(f"wire type {wire} where {width} bytes are expected")
        return cast(int | float, struct.unpack(_FORMS[kind], value)[0])
    content = as_bytes(wire, value)
    return content.decode() if kind == _TEXT else content


def _list(kind: int, message: bytes) -> Iterator[Scalar]:
    """Yield the entries of a list of values of a kind, from the bytes of the list's message, packed or one by one.

    ``kind`` is the number of the field of a single value of the kind, such as 9 for int64. Fields of the message other
    than its field 1 are skipped.

    Raises:
        WireError: an entry of another wire type than the kind has, or one that is cut short.
    """
    for number, wire, value in fields(message):
        if number != 1:
            continue
        if wire != BYTES or kind not in (*_VARINTS, *_FORMS):
            yield _scalar(kind, wire, value)
        elif kind in _VARINTS:
            yield from (_scalar(kind, VARINT, entry) for entry in unpacked(wire, value))
        else:
            content, width = as_bytes(wire, value), struct.calcsize(_FORMS[kind])
            if len(content) % width:
                raise WireError(f"a list of {len(content)} bytes where each entry has {width}")
            yield from (entry for (entry,) in struct.iter_unpack(_FORMS[kind], content))


def as_bytes(wire: int, value: int | bytes) -> bytes:
    """Return the value of a field that holds text or a message, unchanged.

    Raises:
        WireError: the wire type is not that of bytes with a length.
    """
    if wire != BYTES or isinstance(value, int):
        raise WireError(f"wire type {wire} where text or a message is expected")
    return value


def as_whole(value: int | bytes) -> int:
    """Return the value of a field that holds an integer, unchanged.

    Raises:
        WireError: the value is bytes.
    """
    if not isinstance(value, int):
        raise WireError("bytes where an integer is expected")
    return value


VERSION = "1.0.0"
METADATA, LOAD, STORE, COMPUTE, SEND, RECEIVE, COLLECTIVE = range(1, 8)
_TYPE_NAMES = ("metadata", "load from memory", "store to memory", "compute", "send", "receive", "collective")
TYPES: Mapping[int, str] = dict(enumerate(_TYPE_NAMES, 1))
"""Name of each type of a node."""
LONGEST_MICROSECONDS = 10**12
"""Most microseconds of a node, eleven days: anything above is damage."""

_NUMBERS = {1: "id", 3: "type", 6: "start", 7: "duration"}
_DEPENDENCIES = {4: "control", 5: "data"}
_TEXTS = {8: "inputs", 9: "outputs"}
_MOST_ID = 1 << 63


class Texts(NamedTuple):
    """Inputs or outputs of a node, in the words of the converter that wrote the trace."""

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

    def named_in(self, path: Path) -> str:
        """Return the name of the node in a file, for messages: "PATH: node 3 ('name')"."""
        return f"{path}: node {self.id} ({self.name!r})"

    @property
    def dependencies(self) -> tuple[int, ...]:
        """All nodes that must end first: the control dependencies, then those of data."""
        return (*self.control, *self.data)


def encode(nodes: Iterable[Node], header: Mapping[str, Value], version: str = VERSION) -> bytes:
    """Return the content of a trace file: the header with its version and attributes, then the nodes, each message
    after its length.

    Raises:
        WireError: an attribute with a value that :func:`encode_attribute` refuses.
    """
    start = bytes_field(1, version.encode()) + b"".join(encode_attribute(2, *entry) for entry in header.items())
    return framed(start) + b"".join(framed(_encode_node(node)) for node in nodes)


def _encode_node(node: Node) -> bytes:
    """Return a node as the bytes of a message, without the length before it."""
    return (
        whole_field(1, node.id)
        + bytes_field(2, node.name.encode())
        + whole_field(3, node.type)
        + packed(4, node.control)
        + packed(5, node.data)
        + whole_field(6, node.start)
        + whole_field(7, node.duration)
        + _encode_texts(8, node.inputs)
        + _encode_texts(9, node.outputs)
        + b"".join(encode_attribute(10, *entry) for entry in node.attributes.items())
    )


def _encode_texts(number: int, texts: Texts) -> bytes:
    """Return inputs or outputs as the bytes of field ``number`` of a node, a message of values, shapes and types, tag
    and length included; none where all three are empty."""
    return bytes_field(number, b"".join(bytes_field(place, text.encode()) for place, text in enumerate(texts, 1)))


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
                header = _decode_header(frame, path)
            else:
                nodes.append(_decode_node(frame))
    except (WireError, UnicodeDecodeError) as error:
        what = "header" if header is None else f"node {len(nodes)} (counted from 0)"
        raise ConfigError(f"{path}: {what}: {error}: not a Chakra trace, or a damaged one") from error
    if header is None:
        raise ConfigError(f"{path}: empty: expected a Chakra trace")
    check_nodes(nodes, path)
    return nodes, header


def _decode_header(frame: bytes, path: Path) -> dict[str, Value]:
    """Return the attributes of a header, whose version must be known or missing.

    Raises:
        WireError: a field that no header has, or an attribute that is none.
        ConfigError: a version other than 0.x and 1.x.
        UnicodeDecodeError: the version, a name or a text is not UTF-8.
    """
    version = ""
    attributes: dict[str, Value] = {}
    for number, wire, value in fields(frame):
        if number not in (1, 2):
            raise WireError(f"field {number}, which no header has")
        content = as_bytes(wire, value)
        if number == 1:
            version = content.decode()
        else:
            attributes.update([decode_attribute(content)])
    if version and version.split(".")[0] not in ("1", "0"):
        raise ConfigError(f"{path}: header: version {version!r}: expected {VERSION}, 0.x, or none")
    return attributes


def _decode_node(frame: bytes) -> Node:
    """Return the node of a message, not checked further; unknown fields are skipped, and what is missing is 0 or empty.

    Raises:
        WireError: a field of another wire type than it has.
        UnicodeDecodeError: a text is not UTF-8.
    """
    values: dict[str, Any] = {"id": 0, "name": "", "type": 0, "attributes": {}}
    for number, wire, value in fields(frame):
        if number in _NUMBERS:
            values[_NUMBERS[number]] = as_whole(value)
        elif number in _DEPENDENCIES:
            kind = _DEPENDENCIES[number]
            values[kind] = (*values.get(kind, ()), *unpacked(wire, value))
        elif number == 2:
            values["name"] = as_bytes(wire, value).decode()
        elif number in _TEXTS:
            parts = {place: as_bytes(*entry).decode() for place, *entry in fields(as_bytes(wire, value))}  # type: ignore[arg-type]
            values[_TEXTS[number]] = Texts(*(parts.get(place, "") for place in (1, 2, 3)))
        elif number == 10:
            values["attributes"].update([decode_attribute(as_bytes(wire, value))])
    return Node(**values)


def check_nodes(nodes: list[Node], path: Path) -> None:
    """Raise ConfigError unless ids are unique, types and durations possible, and dependencies present and free of
    cycles.

    Where control dependencies are nested calls (:func:`is_nested`) those of data alone are looked at.

    Raises:
        ConfigError: an id that occurs twice or is 2^63 or more, an unknown type, a duration above eleven days, a
            dependency that is missing, or a cycle; names ``path`` and the node.
    """
    known: dict[int, Node] = {}
    for node in nodes:
        where = node.named_in(path)
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
        if missing := [before for before in befores if before not in known]:
            raise ConfigError(f"{known[number].named_in(path)}: depends on node {missing[0]}, which does not exist")
    try:
        TopologicalSorter(waiting).prepare()
    except CycleError as error:
        stuck = known[error.args[1][0]]
        raise ConfigError(f"{stuck.named_in(path)}: waits for itself: a cycle of dependencies") from error


def is_nested(nodes: Iterable[Node]) -> bool:
    """Return whether control dependencies say which call made which, as MLCommons' converter of PyTorch writes them.

    They then name calls that the converter may have left out, and a call that has not ended when those it makes begin.

    True where any node has an attribute ``op_schema``.
    """
    return any("op_schema" in node.attributes for node in nodes)


def waits(node: Node, *, nested: bool) -> tuple[int, ...]:
    """Return the ids of the nodes that must end before this one: of data and of control, those of data alone where
    ``nested`` says that control dependencies of the trace are nested calls."""
    return node.data if nested else node.dependencies
