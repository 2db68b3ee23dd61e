"""The little of the protobuf wire format that traces need: varints, tagged fields, messages with their length.

field        varint (number << 3 | wire type), then the value
wire types   0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

VARINT, EIGHT, BYTES, FOUR = 0, 1, 2, 5
_FIXED = {EIGHT: 8, FOUR: 4}
_LONGEST = 10


class WireError(ValueError):
    """Bytes that are no message."""


def varint(value: int) -> bytes:
    """An integer of 64 bits; a negative one as its two's complement."""
    value &= (1 << 64) - 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The varint that begins at ``at``, and where it ends.

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
    """A field that holds an integer; nothing where it is 0, as proto3 has it."""
    return varint(number << 3 | VARINT) + varint(value) if value else b""


def bytes_field(number: int, value: bytes) -> bytes:
    """A field that holds text, bytes or a message; nothing where it is empty."""
    return message_field(number, value) if value else b""


def message_field(number: int, value: bytes) -> bytes:
    """A message, written even where it is empty."""
    return varint(number << 3 | BYTES) + varint(len(value)) + value


def packed(number: int, values: Iterable[int]) -> bytes:
    """A repeated field of integers."""
    return bytes_field(number, b"".join(map(varint, values)))


def fields(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Number, wire type and value of each field of a message.

    Raises:
        WireError: cut short, or no message.
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
            raise WireError(f"field {number} is cut short: {size} bytes announced, {len(data) - at} there")
        yield number, wire, data[at : at + size]
        at += size


def unpacked(wire: int, value: int | bytes) -> list[int]:
    """The integers of a repeated field, packed or one by one.

    Raises:
        WireError: another wire type, or cut short.
    """
    if isinstance(value, int):
        return [value]
    if wire != BYTES:
        raise WireError(f"wire type {wire} where integers are expected")
    found, at = [], 0
    while at < len(value):
        each, at = read_varint(value, at)
        found.append(each)
    return found


def signed(value: int) -> int:
    """An integer of 64 bits from its two's complement."""
    return value - (1 << 64) if value >> 63 else value


def framed(message: bytes) -> bytes:
    """A message after its length."""
    return varint(len(message)) + message


def frames(data: bytes) -> Iterator[bytes]:
    """The messages of a file, each after its length.

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
