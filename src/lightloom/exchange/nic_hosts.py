"""Two hosts in separate network namespaces, connected by emulated NICs in user space. Linux and root only.

namespace a ── tun ── engine a ═══ wire (counted) ═══ engine b ── tun ── namespace b
10.97.0.1                                                              10.97.0.2
"""

from __future__ import annotations

import fcntl
import os
import select
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from lightloom.core.errors import UnsupportedError
from lightloom.exchange.nic import NicPair, PayloadCodec
from lightloom.exchange.transport import network_namespace as namespaces
from lightloom.exchange.transport.network_namespace import Namespace

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
