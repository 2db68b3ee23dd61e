"""Processes of one host connected by links of a given rate. Linux and root only.

    rank 0 ── eth0 ═══ port0 ──┐
    rank 1 ── eth0 ═══ port1 ──┤ bridge     each rank and the switch in a network namespace of its own,
    rank 2 ── eth0 ═══ port2 ──┘            both ends of every link limited by a token bucket

The limit applies to what leaves an end, so a link has its rate in both directions at once, as full-duplex Ethernet has.
All traffic between ranks passes through these links, that of the process group too.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from benchmarks.support import network_namespace as namespaces
from benchmarks.support.network_namespace import Namespace
from lightloom.core.errors import UnsupportedError
from lightloom.exchange.transport.launch import Outcome, launch, store_at
from lightloom.exchange.transport.worker import Worker

DEVICE = "eth0"
"""Network device of every rank, in its own namespace."""

_SWITCH_ADDRESS = "10.98.255.254"
"""IPv4 address of the switch, where the launcher's store listens."""
_BURST_SECONDS = 250e-6
"""Time in which a link carries what its token bucket holds, in seconds. A late timer loses no tokens, yet a message of
a millisecond is limited."""
_QUEUE_SECONDS = 20e-3
"""Time that packets wait in a port before it drops them, in seconds: a few MB at 1 Gbit/s."""
_LARGEST_PACKET = 65536
"""Largest packet of segmentation offload, in bytes."""


def refusal() -> str | None:
    """Return why links cannot be limited here; None if they can."""
    return namespaces.refusal("limiting links", ("ip", "tc", "nsenter"))


@dataclass(frozen=True, slots=True)
class LimitedHosts:
    """Hosts connected to a switch by links of limited rate."""

    hosts: tuple[Namespace, ...]
    switch: Namespace

    def address(self, host: int) -> str:
        """IPv4 address of a host."""
        return f"10.98.{(host + 1) >> 8}.{(host + 1) & 255}"


@contextmanager
def limited_links(hosts: int, rate_bits: float | None, *, mtu: int = 1500) -> Iterator[LimitedHosts]:
    """Create ``hosts`` network namespaces on a switch; they are removed when the context, or this process, ends.

    Args:
        rate_bits: rate of every link in each direction, Ethernet headers included, in bit/s; None for no limit.
        mtu: largest packet, in bytes.

    Raises:
        UnsupportedError: the system is not Linux, the user is not root, or a tool is missing.
    """
    if (reason := refusal()) is not None:
        raise UnsupportedError(reason)
    if rate_bits is not None and not 1e6 <= rate_bits <= 100e9:
        raise UnsupportedError(f"a link of {rate_bits:g} bit/s: expected 1e6 to 1e11")
    with ExitStack() as stack:
        switch = stack.enter_context(Namespace())
        links = LimitedHosts(tuple(stack.enter_context(Namespace()) for _ in range(hosts)), switch)
        switch.tool("ip", "link", "add", "bridge", "type", "bridge")
        switch.tool("ip", "link", "set", "bridge", "mtu", str(mtu), "up")
        switch.tool("ip", "address", "add", f"{_SWITCH_ADDRESS}/16", "dev", "bridge")
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
    """Limit what leaves ``device`` by a token bucket.

    With segmentation offload the kernel passes packets of up to 64 KiB. A packet larger than the bucket would be
    divided, and one as large as the bucket is a burst: so packets are limited to half a bucket.
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
    function: Callable[[Worker], object] | str,
    ranks: int,
    timeout: float,
    arguments: Mapping[str, object] | None = None,
    *,
    rate_bits: float | None,
    mtu: int = 1500,
    check: bool = True,
) -> list[Outcome]:
    """Call ``launch`` with each rank on its own host behind a limited link; ``worker.host`` is its IPv4 address.

    Args:
        function, ranks, timeout, arguments, check: see ``launch``.
        rate_bits, mtu: see ``limited_links``.

    Raises:
        UnsupportedError: see ``limited_links``.
        LaunchError: see ``launch``.
    """
    with limited_links(ranks, rate_bits, mtu=mtu) as links:
        prefixes = [
            [*host.command(), "env", f"LIGHTLOOM_HOST={links.address(rank)}", f"GLOO_SOCKET_IFNAME={DEVICE}"]
            for rank, host in enumerate(links.hosts)
        ]
        store = links.switch.run(store_at, _SWITCH_ADDRESS)
        return launch(function, ranks, timeout, arguments, check=check, store=store, prefixes=prefixes)


def stream_rates(
    rate_bits: float | None, nbytes: int, *, streams: Sequence[tuple[int, int]] = ((0, 1),)
) -> list[float]:
    """Measure the payload rates of concurrent TCP streams on new links, in bit/s; each stream sends ``nbytes``.

    The clock starts when the first sender begins, so that a late receiver cannot make a stream look faster.

    Args:
        streams: pairs of source and destination host. ((0, 1), (1, 0)) measures both directions of a link,
            ((1, 0), (2, 0)) two streams that share a link.

    Raises:
        UnsupportedError: see ``limited_links``.
    """
    hosts = 1 + max(host for stream in streams for host in stream)
    with limited_links(hosts, rate_bits) as links, ThreadPoolExecutor(2 * len(streams)) as pool, ExitStack() as opened:
        ends = []
        for source, sink in streams:
            listener = opened.enter_context(links.hosts[sink].run(socket.create_server, (links.address(sink), 0)))
            sender = links.hosts[source].run(socket.create_connection, listener.getsockname(), 300)
            opened.enter_context(sender)
            receiver = opened.enter_context(listener.accept()[0])
            receiver.settimeout(300)
            ends.append((sender, receiver))
        received = [pool.submit(_receive, receiver, nbytes) for _, receiver in ends]
        began = time.perf_counter()
        sent = [pool.submit(sender.sendall, bytes(nbytes)) for sender, _ in ends]
        for future in sent:
            future.result()
        return [8 * nbytes / (future.result() - began) for future in received]


def _receive(sock: socket.socket, nbytes: int) -> float:
    """Read ``nbytes`` and return when the last byte came."""
    buffer = bytearray(1 << 20)
    while nbytes > 0:
        count = sock.recv_into(buffer)
        if count == 0:
            raise ConnectionError("the sender closed its connection")
        nbytes -= count
    return time.perf_counter()
