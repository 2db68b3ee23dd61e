"""Two hosts in network namespaces of their own, joined by emulated NICs in user space. Linux and root only.

namespace a ── tun ── engine a ═══ wire (counted) ═══ engine b ── tun ── namespace b
10.97.0.1                                                              10.97.0.2
"""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from lightloom.core.errors import UnsupportedError
from lightloom.training.nic import NicPair, PayloadCodec

ADDRESSES = ("10.97.0.1", "10.97.0.2")
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000


@dataclass(frozen=True, slots=True)
class Hosts:
    """Two namespaces that reach each other through the engines."""

    namespaces: tuple[str, str]
    engines: NicPair

    def command(self, host: int, *arguments: str) -> list[str]:
        """The command line that runs ``arguments`` on host 0 or 1."""
        return ["ip", "netns", "exec", self.namespaces[host], *arguments]


def refusal() -> str | None:
    """Why namespaces cannot be made here; None when they can."""
    if sys.platform != "linux":
        return "the NIC emulation needs Linux"
    if os.geteuid() != 0:
        return "the NIC emulation needs root: it makes network namespaces and TUN devices"
    if shutil.which("ip") is None:
        return "the NIC emulation needs the ip command (package iproute2)"
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "the NIC emulation needs /dev/net/tun"
    return None


@contextmanager
def hosts(codec: PayloadCodec, *, mtu: int = 9000) -> Iterator[Hosts]:
    """Make both namespaces and run the engines until the context ends; everything made is removed again.

    Raises:
        UnsupportedError: not Linux, not root, or a tool is missing.
    """
    why = refusal()
    if why is not None:
        raise UnsupportedError(why)
    tag = f"{os.getpid() % 100_000}"
    names = (f"lightloom-{tag}-a", f"lightloom-{tag}-b")
    engines = NicPair(codec)
    with ExitStack() as stack:
        devices = [
            stack.enter_context(_host(name, f"llnic{tag}{side}", address, mtu))
            for name, side, address in zip(names, "ab", ADDRESSES, strict=True)
        ]
        stack.enter_context(_running(devices, engines))
        yield Hosts(names, engines)


@contextmanager
def _host(namespace: str, device: str, address: str, mtu: int) -> Iterator[int]:
    _ip("netns", "add", namespace)
    try:
        tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        try:
            fcntl.ioctl(tun, _TUNSETIFF, struct.pack("16sH22x", device.encode(), _IFF_TUN | _IFF_NO_PI))
            _ip("link", "set", device, "netns", namespace)
            inside = ("-n", namespace)
            _ip(*inside, "address", "add", f"{address}/24", "dev", device)
            _ip(*inside, "link", "set", device, "mtu", str(mtu), "up")
            _ip(*inside, "link", "set", "lo", "up")
            yield tun
        finally:
            os.close(tun)
    finally:
        _ip("netns", "delete", namespace)


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise UnsupportedError(f"ip {' '.join(arguments)}: {done.stderr.strip() or done.returncode}")


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
