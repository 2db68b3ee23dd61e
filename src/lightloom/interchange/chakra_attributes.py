"""Attributes of Chakra nodes and headers, every kind that the schema defines.

Fields by number (MLCommons, Chakra, ``et_def.proto``): 1 name, 2 documentation, then one value: a kind at an odd
number, a list of it at the next one.

    3 double    5 float     7 int32     9 int64     11 uint32    13 uint64    15 sint32    17 sint64
    19 fixed32  21 fixed64  23 sfixed32  25 sfixed64  27 bool    29 text      31 bytes
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping

from lightloom.interchange.protobuf import (
    BYTES,
    EIGHT,
    FOUR,
    VARINT,
    WireError,
    bytes_field,
    fields,
    message_field,
    packed,
    read_varint,
    signed,
    varint,
)

Scalar = int | float | bool | str | bytes
Value = Scalar | tuple[Scalar, ...]

_INT32, _INT64, _INT64_LIST, _BOOL, _TEXT = 7, 9, 10, 27, 29
_INT32_END = 1 << 31


def _zigzag(value: int) -> int:
    return (value >> 1) ^ -(value & 1)


def _floating(form: str) -> Callable[[bytes], float]:
    def decode(content: bytes) -> float:
        return float(struct.unpack(form, content)[0])

    return decode


def _fixed(*, signs: bool) -> Callable[[bytes], int]:
    def decode(content: bytes) -> int:
        return int.from_bytes(content, "little", signed=signs)

    return decode


_VARINTS: Mapping[int, Callable[[int], int | bool]] = {
    7: signed,
    9: signed,
    11: int,
    13: int,
    15: _zigzag,
    17: _zigzag,
    27: bool,
}
_FIXED: Mapping[int, tuple[int, Callable[[bytes], int | float]]] = {
    3: (EIGHT, _floating("<d")),
    5: (FOUR, _floating("<f")),
    19: (FOUR, _fixed(signs=False)),
    21: (EIGHT, _fixed(signs=False)),
    23: (FOUR, _fixed(signs=True)),
    25: (EIGHT, _fixed(signs=True)),
}
_WIDTHS = {EIGHT: 8, FOUR: 4}
_KINDS = frozenset({*_VARINTS, *_FIXED, 29, 31})


def encode_attribute(number: int, name: str, value: Value) -> bytes:
    """Return an attribute as the field of that number.

    Raises:
        WireError: a list of anything but whole numbers.
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
    """Return the name and value of an attribute; an attribute without a value holds an empty text.

    Raises:
        WireError: not an attribute, or a value of another wire type than its kind has.
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
    if kind in _VARINTS:
        return _VARINTS[kind](as_whole(value))
    if kind in _FIXED:
        expected, decode = _FIXED[kind]
        if wire != expected or isinstance(value, int):
            raise WireError(f"wire type {wire} where {_WIDTHS[expected]} bytes are expected")
        return decode(value)
    content = as_bytes(wire, value)
    return content.decode() if kind == _TEXT else content


def _list(kind: int, message: bytes) -> Iterator[Scalar]:
    """Yield the entries of a list, packed or one by one."""
    for number, wire, value in fields(message):
        if number != 1:
            continue
        if wire != BYTES or kind not in (*_VARINTS, *_FIXED):
            yield _scalar(kind, wire, value)
        elif kind in _VARINTS:
            content, at = as_bytes(wire, value), 0
            while at < len(content):
                entry, at = read_varint(content, at)
                yield _scalar(kind, VARINT, entry)
        else:
            content, width = as_bytes(wire, value), _WIDTHS[_FIXED[kind][0]]
            if len(content) % width:
                raise WireError(f"a list of {len(content)} bytes where each entry has {width}")
            for at in range(0, len(content), width):
                yield _scalar(kind, _FIXED[kind][0], content[at : at + width])


def as_bytes(wire: int, value: int | bytes) -> bytes:
    """Return a field that holds text or a message.

    Raises:
        WireError: it holds something else.
    """
    if wire != BYTES or isinstance(value, int):
        raise WireError(f"wire type {wire} where text or a message is expected")
    return value


def as_whole(value: int | bytes) -> int:
    """Return a field that holds an integer.

    Raises:
        WireError: it holds something else.
    """
    if not isinstance(value, int):
        raise WireError("bytes where an integer is expected")
    return value
