"""The address at which a rank listens for others, when the user gives none: that from which it reaches the store.

All ranks reach the store, so a rank's end of that route is an address that others can be expected to reach. On the
host of the store itself the route may be the loopback device, which only ranks of that host reach; where a rank of
another host calls, the address is that from which this rank reaches the caller.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Iterable
from contextlib import suppress

_LOOPBACK = "127.0.0.1"
_NO_PORT = 9
"""Port of datagrams that are never sent: connecting a UDP socket only chooses a route."""


def store_address(store: object) -> tuple[str, int] | None:
    """Return host and port of a ``TCPStore`` inside any number of prefixes, else ``MASTER_ADDR``, else None."""
    while (inner := getattr(store, "underlying_store", None)) is not None:
        store = inner
    host, port = str(getattr(store, "host", "")), str(getattr(store, "port", ""))
    if not host:
        host, port = os.environ.get("MASTER_ADDR", ""), os.environ.get("MASTER_PORT", "")
    return (host, int(port) if port.isdecimal() else _NO_PORT) if host else None


def route_to(host: str, port: int = _NO_PORT) -> str | None:
    """Return the address of this host from which ``host`` is reached; None where there is no route. Sends nothing."""
    with suppress(OSError):
        candidates = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
        for family, kind, protocol, _, address in sorted(candidates, key=lambda found: found[0] != socket.AF_INET):
            with suppress(OSError), socket.socket(family, kind, protocol) as probe:
                probe.connect(address)
                return socket.getnameinfo(probe.getsockname(), socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)[0]
    return None


def route_to_store(store: object) -> str:
    """Return the address from which this host reaches the store; a loopback address for a store without an address."""
    address = store_address(store)
    return (route_to(*address) if address is not None else None) or _LOOPBACK


def address_for(own: str, callers: Iterable[str]) -> str:
    """Return the address at which callers reach this rank: ``own``, but for a loopback where a caller is elsewhere."""
    if is_loopback(own):
        for caller in callers:
            if not is_loopback(caller) and (route := route_to(caller)) is not None and not is_loopback(route):
                return route
    return own


def is_loopback(address: str) -> bool:
    """Whether only this host reaches an address."""
    with suppress(ValueError):
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    return address == "localhost"


def is_unspecified(address: str) -> bool:
    """Whether an address stands for all addresses of a host, and so is none that another one can call."""
    with suppress(ValueError):
        return ipaddress.ip_address(address).is_unspecified
    return address == ""
