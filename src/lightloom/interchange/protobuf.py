"""The part of the protobuf wire format that traces need: varints, tagged fields, length-prefixed messages.

field        varint (number << 3 | wire type), then the value
wire types   0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

VARINT, EIGHT, BYTES, FOUR = 0, 1, 2, 5
_FIXED = {EIGHT: 8, FOUR: 4}
_LONGEST = 10


class WireError(ValueError):
    """Bytes that are not a protobuf message."""


def varint(value: int) -> bytes:
    """Encode an integer of 64 bits; a negative one as its two's complement."""
    value &= (1 << 64) - 1
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the varint that begins at ``at``, and the position after it.

    Raises:
        WireError: cut short, or longer than 64 bits.
    """
    value = 0
    for place in range(_LONGEST):
        if at + place >= len(data):
            raise WireError(f"a number is cut short at byte {len(data)}")
        byte = data[at + place]
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            if value >> 64:
                break
            return value, at + place + 1
    raise WireError(f"the number at byte {at} is longer than 64 bits")


def whole_field(number: int, value: int) -> bytes:
    """Encode a field that holds an integer; 0 is omitted, as in proto3."""
    return varint(number << 3 | VARINT) + varint(value) if value else b""


def bytes_field(number: int, value: bytes) -> bytes:
    """Encode a field that holds text, bytes or a message; an empty value is omitted."""
    return message_field(number, value) if value else b""


def message_field(number: int, value: bytes) -> bytes:
    """Encode a field that holds a message, even an empty one."""
    return varint(number << 3 | BYTES) + varint(len(value)) + value


def packed(number: int, values: Iterable[int]) -> bytes:
    """Encode a repeated field of integers."""
    return bytes_field(number, b"".join(map(varint, values)))


def fields(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Yield the number, wire type and value of each field of a message.

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
        elif wire in _FIXED:
            size = _FIXED[wire]
        else:
            raise WireError(f"unknown wire type {wire} before byte {at}")
        if at + size > len(data):
            raise WireError(f"field {number} is cut short: {size} bytes announced, {len(data) - at} present")
        yield number, wire, data[at : at + size]
        at += size


def unpacked(wire: int, value: int | bytes) -> list[int]:
    """Return the integers of a repeated field, packed or not.

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
    """Decode an integer of 64 bits from its two's complement."""
    return value - (1 << 64) if value >> 63 else value


def framed(message: bytes) -> bytes:
    """Return a message preceded by its length."""
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
