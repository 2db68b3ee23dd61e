"""Packets through a compressing NIC: it compresses the payload of TCP segments marked with ToS 0x28.

    host ──▶ [compress payload] ── wire ──▶ [decompress payload, rebuild checksum] ──▶ host

A marked segment carries float32 values and nothing else. Compression is lossy but keeps the length, so that sequence
numbers, acknowledgements and window sizes stay true; only the wire sees fewer bytes. The number of packets does not
change.

Source: INCEPTIONN, section VI (ToS 0x28 marks what the NIC compresses).
"""

from __future__ import annotations

import fcntl
import os
import select
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from benchmarks.support import network_namespace as namespaces
from benchmarks.support.network_namespace import Namespace
from lightloom.core.arrays import Float32s
from lightloom.core.errors import UnsupportedError

MARK = 0x28
"""The type of service that asks for compression (DSCP AF11)."""
_IPV4, _TCP = 4, 6


class PayloadCodec(Protocol):
    """The part of a codec that an engine needs."""

    def encode(self, array: object) -> bytes | memoryview: ...

    def decode(self, buffer: object) -> Float32s: ...


@dataclass(slots=True)
class Counters:
    """Packets and bytes that crossed the wire, in total and marked."""

    packets: int = 0
    host_bytes: int = 0
    """As the hosts sent them, IP headers included."""
    wire_bytes: int = 0
    """As the wire carried them."""
    marked_packets: int = 0
    marked_host_bytes: int = 0
    marked_wire_bytes: int = 0

    def count(self, host: int, wire: int, *, marked: bool) -> None:
        """Count one packet."""
        self.packets += 1
        self.host_bytes += host
        self.wire_bytes += wire
        if marked:
            self.marked_packets += 1
            self.marked_host_bytes += host
            self.marked_wire_bytes += wire

    @property
    def ratio(self) -> float:
        """Host bytes over wire bytes of the marked packets."""
        return self.marked_host_bytes / self.marked_wire_bytes if self.marked_wire_bytes else 1.0


@dataclass(frozen=True, slots=True)
class Wire:
    """A packet on the wire, and the offset of its compressed values (None if it is not compressed)."""

    data: bytes
    compressed_from: int | None = None


@dataclass(slots=True)
class NicPair:
    """The compressing engine of one NIC and the decompressing engine of its peer."""

    codec: PayloadCodec
    counters: Counters = field(default_factory=Counters)
    _first_byte: dict[bytes, int] = field(default_factory=dict)
    """Sequence number of the first payload byte, by flow (addresses and ports)."""

    def compress(self, packet: bytes) -> Wire:
        """Compress a host's packet, if it is marked and contains complete values only."""
        start = payload_start(packet)
        self._note_opening(packet)
        if start is None or not self._starts_with_a_float(packet):
            self.counters.count(len(packet), len(packet), marked=False)
            return Wire(packet)
        values = np.frombuffer(packet, np.dtype("<f4"), offset=start)
        wire = Wire(packet[:start] + bytes(self.codec.encode(values)), start)
        self.counters.count(len(packet), len(wire.data), marked=True)
        return wire

    def decompress(self, wire: Wire) -> bytes:
        """Return the packet that the receiving host gets."""
        start = wire.compressed_from
        if start is None:
            return wire.data
        values = np.asarray(self.codec.decode(wire.data[start:]), dtype="<f4")
        return with_checksum(wire.data[:start] + values.tobytes())

    def _starts_with_a_float(self, packet: bytes) -> bool:
        """Whether the payload begins at a multiple of four bytes of its flow; False if its start is unknown."""
        begin = self._first_byte.get(_flow(packet))
        return begin is not None and (_sequence_number(packet) - begin) % 4 == 0

    def _note_opening(self, packet: bytes) -> None:
        """Store where a flow begins if this packet opens it (SYN)."""
        header = (packet[0] & 15) * 4 if packet else 0
        if len(packet) >= header + 20 and packet[0] >> 4 == _IPV4 and packet[9] == _TCP and packet[header + 13] & 2:
            self._first_byte[_flow(packet)] = (_sequence_number(packet) + 1) % 2**32


def _flow(packet: bytes) -> bytes:
    header = (packet[0] & 15) * 4
    return packet[12:20] + packet[header : header + 4]


def _sequence_number(packet: bytes) -> int:
    number: int = struct.unpack_from("!I", packet, (packet[0] & 15) * 4 + 4)[0]
    return number


def payload_start(packet: bytes) -> int | None:
    """Where the floats of a marked TCP segment begin; None for every packet that the engines leave alone."""
    if len(packet) < 40 or packet[0] >> 4 != _IPV4 or packet[1] != MARK or packet[9] != _TCP:
        return None
    if struct.unpack_from("!H", packet, 6)[0] & 0x3FFF:
        return None  # a fragment holds no whole segment
    header = (packet[0] & 15) * 4
    start = header + (packet[header + 12] >> 4) * 4
    payload = len(packet) - start
    return start if payload > 0 and payload % 4 == 0 else None


def with_checksum(packet: bytes) -> bytes:
    """The same TCP segment over IPv4 with its TCP checksum set right."""
    header = (packet[0] & 15) * 4
    segment = bytearray(packet[header:])
    segment[16:18] = b"\0\0"
    pseudo = packet[12:20] + struct.pack("!BBH", 0, _TCP, len(segment))
    struct.pack_into("!H", segment, 16, _ones_complement(pseudo + bytes(segment)))
    return packet[:header] + bytes(segment)


def _ones_complement(data: bytes) -> int:
    words = np.frombuffer(data + b"\0" * (len(data) % 2), ">u2")
    total = int(words.sum(dtype=np.uint64))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


# Two hosts in separate network namespaces, connected by the engines in user space. Linux and root only.
#
# namespace a ── tun ── engine a ═══ wire (counted) ═══ engine b ── tun ── namespace b
# 10.97.0.1                                                              10.97.0.2

ADDRESSES = ("10.97.0.1", "10.97.0.2")
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000


@dataclass(frozen=True, slots=True)
class Hosts:
    """Two namespaces connected through the engines."""

    namespaces: tuple[Namespace, Namespace]
    engines: NicPair

    def command(self, host: int, *arguments: str) -> list[str]:
        """Return the command line that runs ``arguments`` on host 0 or 1."""
        return self.namespaces[host].command(*arguments)


def refusal() -> str | None:
    """Return why namespaces cannot be created here; None if they can."""
    why = namespaces.refusal("the NIC emulation")
    if why is None and not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "the NIC emulation needs /dev/net/tun"
    return why


@contextmanager
def hosts(codec: PayloadCodec, *, mtu: int = 9000) -> Iterator[Hosts]:
    """Make both namespaces and run the engines until the context ends; nothing that was made remains.

    Raises:
        UnsupportedError: not Linux, not root, or a tool is missing.
    """
    why = refusal()
    if why is not None:
        raise UnsupportedError(why)
    engines = NicPair(codec)
    with ExitStack() as stack:
        both = (stack.enter_context(Namespace()), stack.enter_context(Namespace()))
        devices = [
            stack.enter_context(_device(host, address, mtu)) for host, address in zip(both, ADDRESSES, strict=True)
        ]
        stack.enter_context(_running(devices, engines))
        yield Hosts(both, engines)


@contextmanager
def _device(host: Namespace, address: str, mtu: int) -> Iterator[int]:
    """A TUN device of the host's, as the file that its packets are read from."""
    tun = host.run(os.open, "/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    try:
        fcntl.ioctl(tun, _TUNSETIFF, struct.pack("16sH22x", b"tun0", _IFF_TUN | _IFF_NO_PI))
        host.tool("ip", "address", "add", f"{address}/24", "dev", "tun0")
        host.tool("ip", "link", "set", "tun0", "mtu", str(mtu), "up")
        yield tun
    finally:
        os.close(tun)


@contextmanager
def _running(devices: list[int], engines: NicPair) -> Iterator[None]:
    wake, stop = os.pipe()
    thread = threading.Thread(target=_forward, args=(devices, engines, wake), name="nic-engines", daemon=True)
    thread.start()
    try:
        yield
    finally:
        os.write(stop, b"\0")
        thread.join()
        os.close(wake)
        os.close(stop)


def _forward(devices: list[int], engines: NicPair, wake: int) -> None:
    """Carry packets from each device to the other through both engines until ``wake`` is readable."""
    peers = dict(zip(devices, reversed(devices), strict=True))
    while True:
        ready, _, _ = select.select([*devices, wake], [], [])
        if wake in ready:
            return
        for device in ready:
            packet = os.read(device, 1 << 16)
            try:
                os.write(peers[device], engines.decompress(engines.compress(packet)))
            except BlockingIOError:
                continue  # the queue of the peer is full: the wire loses the packet, TCP sends it again
