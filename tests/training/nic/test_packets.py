"""The emulated NIC pair: touches marked TCP segments only, keeps their length, and gets checksums right."""

from __future__ import annotations

import hashlib
import struct
import subprocess
import sys
import zlib
from typing import Any

import numpy as np
import pytest
from benchmarks.support.emulated_nic import (
    MARK,
    NicPair,
    hosts,
    payload_start,
    refusal,
    with_checksum,
)
from hypothesis import given
from hypothesis import strategies as st

from lightloom.core.errors import UnsupportedError


class Halved:
    """A lossy codec that is easy to predict: values come back halved, in fewer bytes if they repeat."""

    def encode(self, array: Any) -> bytes:
        return zlib.compress(np.ascontiguousarray(array).tobytes())

    def decode(self, buffer: Any, out: Any = None) -> Any:
        return np.frombuffer(zlib.decompress(bytes(buffer)), "<f4") / 2


def segment(
    payload: bytes,
    *,
    tos: int = MARK,
    protocol: int = 6,
    flags: int = 0,
    options: bytes = b"",
    at: int = 0,
    syn: bool = False,
) -> bytes:
    """An IPv4 packet with a TCP segment whose payload begins at byte ``at`` of its stream, its checksum set."""
    number, offset = (6 if syn else 7 + at), (5 + len(options) // 4) << 4
    tcp = struct.pack("!HHIIBBHHH", 4000, 5000, number, 9, offset, 2 if syn else 16, 512, 0, 0) + options
    length = 20 + len(tcp) + len(payload)
    ip = struct.pack("!BBHHHBBH", 0x45, tos, length, 1, flags, 64, protocol, 0)
    return with_checksum(ip + bytes([10, 97, 0, 1]) + bytes([10, 97, 0, 2]) + tcp + payload)


def opened() -> NicPair:
    """A pair that has seen the flow open."""
    pair = NicPair(Halved())
    pair.compress(segment(b"", syn=True))
    return pair


def checksum_is_right(packet: bytes) -> bool:
    """RFC 9293: the ones' complement sum over pseudo header and segment, checksum included, is all ones."""
    body = packet[20:]
    data = packet[12:20] + struct.pack("!HH", 6, len(body)) + body + b"\0" * (len(body) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return bool(total == 0xFFFF)


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=300), st.booleans())
def test_a_marked_segment_keeps_its_headers_and_length(values: list[float], timestamps: bool) -> None:
    floats = np.array(values, "<f4")
    packet = segment(floats.tobytes(), options=b"\1\1\x08\x0a" + b"\0" * 8 if timestamps else b"")
    assert checksum_is_right(packet)
    pair = opened()
    wire = pair.compress(packet)
    arrived = pair.decompress(wire)
    start = payload_start(packet)
    assert start == 40 + 12 * timestamps
    assert len(arrived) == len(packet) and arrived[:36] == packet[:36] and arrived[38:start] == packet[38:start]
    assert np.array_equal(np.frombuffer(arrived, "<f4", offset=start), floats / 2)
    assert checksum_is_right(arrived)
    assert (pair.counters.marked_host_bytes, pair.counters.marked_wire_bytes) == (len(packet), len(wire.data))


@given(st.binary(max_size=400))
def test_any_bytes_that_are_no_marked_segment_pass_unchanged(packet: bytes) -> None:
    pair = NicPair(Halved())
    if payload_start(packet) is None:
        wire = pair.compress(packet)
        assert wire.data == packet and pair.decompress(wire) == packet
        assert pair.counters.marked_packets == 0


@pytest.mark.parametrize(
    "packet",
    [
        segment(b"abcd", tos=0),
        segment(b"abcd", tos=MARK | 1),
        segment(b"abcd", protocol=17),
        segment(b"abcde"),
        segment(b""),
        segment(b"abcd", flags=0x2000),
        segment(b"abcd", flags=0x0001),
        segment(b"abcd", at=6),
    ],
    ids=[
        "unmarked",
        "other mark",
        "not TCP",
        "no whole floats",
        "no payload",
        "first fragment",
        "later fragment",
        "from the middle of a float",
    ],
)
def test_what_the_engines_leave_alone(packet: bytes) -> None:
    assert opened().compress(packet).data is packet
    assert opened().compress(segment(b"abcd", at=8)).compressed_from == 40
    assert NicPair(Halved()).compress(segment(b"abcd")).compressed_from is None


_RECEIVE = """
import hashlib, socket
server = socket.create_server(("10.97.0.2", 5000))
server.settimeout(30)
print("ready", flush=True)
connection, _ = server.accept()
connection.settimeout(30)
received = b"".join(iter(lambda: connection.recv(1 << 16), b""))
print(len(received), hashlib.sha256(received).hexdigest())
"""
_SEND = """
import socket, sys
data = bytes.fromhex(sys.argv[2]) * 4096
connection = socket.create_connection(("10.97.0.2", 5000), timeout=300)
connection.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, int(sys.argv[1]))
connection.sendall(data)
connection.close()
"""


@pytest.mark.skipif(refusal() is not None, reason=str(refusal()))
@pytest.mark.parametrize(("tos", "expected"), [(0, 1.0), (MARK, 0.5)])
def test_real_tcp_between_two_namespaces(tos: int, expected: float) -> None:
    """The kernel's own TCP accepts every packet: what was sent arrives, halved if marked, in fewer bytes of wire."""
    values = np.linspace(1, 2, 64, dtype="<f4")
    wanted = (values * np.float32(expected)).tobytes() * 4096
    try:
        pair = hosts(Halved())
        with pair as two:
            receiver = subprocess.Popen(
                two.command(1, sys.executable, "-c", _RECEIVE), stdout=subprocess.PIPE, text=True
            )
            try:
                assert receiver.stdout is not None and receiver.stdout.readline().strip() == "ready"
                send = two.command(0, sys.executable, "-c", _SEND, str(tos), values.tobytes().hex())
                subprocess.run(send, check=True, timeout=300)
                output, _ = receiver.communicate(timeout=300)
            finally:
                receiver.kill()
                receiver.wait()
            counters = two.engines.counters
    except UnsupportedError as error:
        pytest.skip(str(error))
    assert output.split() == [str(len(wanted)), hashlib.sha256(wanted).hexdigest()]
    if tos == MARK:
        assert counters.marked_packets > 0 and counters.ratio > 5
    else:
        assert counters.marked_packets == 0 and counters.wire_bytes == counters.host_bytes
