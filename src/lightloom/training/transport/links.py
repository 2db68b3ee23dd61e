"""Processes of one host joined by links of a given rate. Linux and root only.

    rank 0 ── eth0 ═══ port0 ──┐
    rank 1 ── eth0 ═══ port1 ──┤ bridge     each rank and the switch in a network namespace of its own,
    rank 2 ── eth0 ═══ port2 ──┘            both ends of every link limited by a token bucket

What is limited is what leaves an end, so a link has its rate in both directions at once, as full-duplex Ethernet has.
Everything that ranks say to each other passes through these links, the process group's own traffic too.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from lightloom.core.errors import UnsupportedError
from lightloom.training.transport import namespaces
from lightloom.training.transport.launch import Outcome, Site, launch
from lightloom.training.transport.namespaces import Namespace

DEVICE = "eth0"
"""The device of every rank, in its own namespace."""

_BURST_SECONDS = 250e-6
"""A bucket holds what passes in this time: a timer that comes late loses no tokens, yet a message of a millisecond is
not waved through."""
_QUEUE_SECONDS = 20e-3
"""What a port queues before it drops: a switch with a few MB of memory at 1 Gbit/s."""
_LARGEST_PACKET = 65536
"""Bytes: what offloading lets a packet grow to by itself."""


def refusal() -> str | None:
    """Why links cannot be limited here; None when they can."""
    return namespaces.refusal("limiting links", ("ip", "tc", "nsenter"))


@dataclass(frozen=True, slots=True)
class Links:
    """Hosts on a switch."""

    hosts: tuple[Namespace, ...]
    switch: Namespace

    def address(self, host: int) -> str:
        """IPv4 address of a host."""
        return f"10.98.{(host + 1) >> 8}.{(host + 1) & 255}"

    @property
    def switch_address(self) -> str:
        """IPv4 address of the switch itself, where the launcher's store listens."""
        return "10.98.255.254"


@contextmanager
def limited_links(hosts: int, rate_bits: float | None, *, mtu: int = 1500) -> Iterator[Links]:
    """Make ``hosts`` namespaces on a switch; nothing remains when the context, or this process, ends.

    Args:
        rate_bits: bit/s of every link, each way, Ethernet headers included; None leaves them as fast as they are.
        mtu: bytes.

    Raises:
        UnsupportedError: not Linux, not root, or a tool is missing.
    """
    why = refusal()
    if why is not None:
        raise UnsupportedError(why)
    if rate_bits is not None and not 1e6 <= rate_bits <= 100e9:
        raise UnsupportedError(f"a link of {rate_bits:g} bit/s: expected 1e6 to 1e11")
    with ExitStack() as stack:
        switch = stack.enter_context(Namespace())
        links = Links(tuple(stack.enter_context(Namespace()) for _ in range(hosts)), switch)
        switch.tool("ip", "link", "add", "bridge", "type", "bridge")
        switch.tool("ip", "link", "set", "bridge", "mtu", str(mtu), "up")
        switch.tool("ip", "address", "add", f"{links.switch_address}/16", "dev", "bridge")
        for number, host in enumerate(links.hosts):
            port = f"port{number}"
            switch.tool("ip", "link", "add", port, "type", "veth", "peer", "name", DEVICE, "netns", host.path)
            switch.tool("ip", "link", "set", port, "master", "bridge")
            host.tool("ip", "address", "add", f"{links.address(number)}/16", "dev", DEVICE)
            for end, device in ((switch, port), (host, DEVICE)):
                end.tool("ip", "link", "set", device, "mtu", str(mtu), "up")
                if rate_bits is not None:
                    _limit(end, device, rate_bits, mtu)
        yield links


def _limit(end: Namespace, device: str, rate_bits: float, mtu: int) -> None:
    """A token bucket on what leaves ``device``.

    The kernel hands down packets of up to 64 KiB (segmentation offload). One larger than the bucket would be cut up by
    it, and one as large as the bucket is a burst in itself: so packets are kept to half a bucket.
    """
    burst = max(int(_BURST_SECONDS * rate_bits / 8), 4 * mtu)
    largest = min(_LARGEST_PACKET, burst // 2)
    queue = max(int(_QUEUE_SECONDS * rate_bits / 8), 4 * burst)
    end.tool("ip", "link", "set", device, "gso_max_size", str(largest))
    end.tool(
        *("tc", "qdisc", "replace", "dev", device, "root", "tbf"),
        *("rate", f"{rate_bits:.0f}bit", "burst", str(burst), "limit", str(queue)),
    )


def launch_limited(
    function: Callable[..., Any] | str,
    ranks: int,
    timeout: float,
    arguments: Mapping[str, Any] | None = None,
    *,
    rate_bits: float | None,
    mtu: int = 1500,
    check: bool = True,
) -> list[Outcome]:
    """``launch`` with each rank on a host of its own behind a limited link; ``worker.host`` is its IPv4 address.

    Args:
        function, ranks, timeout, arguments, check: see ``launch``.
        rate_bits, mtu: see ``limited_links``.

    Raises:
        UnsupportedError: not Linux, not root, or a tool is missing.
        LaunchError: names the first rank at fault and what it said.
    """
    with limited_links(ranks, rate_bits, mtu=mtu) as links:
        site = Site(
            hosts=tuple(links.address(rank) for rank in range(ranks)),
            prefixes=tuple(tuple(host.command()) for host in links.hosts),
            interface=DEVICE,
            store_host=links.switch_address,
            at_store=links.switch.run,
        )
        return launch(function, ranks, timeout, arguments, check=check, site=site)


def stream_rates(
    rate_bits: float | None, nbytes: int, *, streams: Sequence[tuple[int, int]] = ((0, 1),)
) -> list[float]:
    """Bit/s of payload that plain TCP streams reach side by side on fresh links; each sends ``nbytes``.

    The clock starts with the first byte of any of them.

    Args:
        streams: pairs (from, to) of hosts. ((0, 1), (1, 0)) shows both directions of a link, ((1, 0), (2, 0)) two that
            share one.

    Raises:
        UnsupportedError: see ``limited_links``.
    """
    hosts = 1 + max(host for stream in streams for host in stream)
    with limited_links(hosts, rate_bits) as links, ThreadPoolExecutor(2 * len(streams)) as pool, ExitStack() as opened:
        ends = []
        for source, sink in streams:
            listener = opened.enter_context(links.hosts[sink].run(socket.create_server, (links.address(sink), 0)))
            sender = links.hosts[source].run(socket.create_connection, listener.getsockname(), 30)
            opened.enter_context(sender)
            receiver = opened.enter_context(listener.accept()[0])
            receiver.settimeout(30)
            ends.append((sender, receiver))
        received = [pool.submit(_drain, receiver, nbytes) for _, receiver in ends]
        sent = [pool.submit(sender.sendall, bytes(nbytes)) for sender, _ in ends]
        for future in sent:
            future.result()
        times = [future.result() for future in received]
    began = min(first for first, _ in times)
    return [8 * nbytes / (last - began) for _, last in times]


def _drain(sock: socket.socket, nbytes: int) -> tuple[float, float]:
    """When the first byte came, and the last."""
    buffer = bytearray(1 << 20)
    began, left = 0.0, nbytes
    while left > 0:
        count = sock.recv_into(buffer)
        if count == 0:
            raise ConnectionError("the sender hung up")
        began = began or time.perf_counter()
        left -= count
    return began, time.perf_counter()
