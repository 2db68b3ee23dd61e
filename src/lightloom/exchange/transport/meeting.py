"""How one rank connects to several others at once: it calls some and answers others, all handshakes side by side.

A caller that is silent, speaks another protocol or does not know the job's secret is hung up on and delays nobody. A
rank that was hung up on, because the machine was busy for longer than a handshake may take, calls again until the
deadline.
"""

import asyncio
import hmac
import ipaddress
import os
import secrets
import socket
import struct
import time
from collections.abc import Coroutine, Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

from lightloom.exchange.transport.channel import NO_STAMP, Channel, Payload, TransportError
from lightloom.exchange.transport.channel_group import DEFAULT_TIMEOUT, ChannelGroup

# How two ranks prove to each other that they belong to the same job, before anything else passes between them.
#
# caller                                                answerer
# ◀── challenge: magic, nonce a ─────────────────
# ─── introduction: who, nonce c, proof ────────▶    proof  = HMAC(secret, "calls", who, a, c)
# ◀── acceptance: proof ─────────────────────────    proof' = HMAC(secret, "answers", who, a, c)
#
# The secret belongs to one meeting of one job: rank 0 draws it and the store carries it. Both nonces are drawn anew
# for every connection, so that a recorded handshake proves nothing later, in either direction. All messages have a
# fixed length, so that no caller can make this rank wait for, or allocate, what it announces. Nothing here touches a
# socket.

_MAGIC = b"LLR2"
_NONCE = 32
_PROOF = 32
_WHO = struct.Struct("!IIII")

CHALLENGE_SIZE = len(_MAGIC) + _NONCE
"""Size of a challenge, in bytes."""
INTRODUCTION_SIZE = len(_MAGIC) + _WHO.size + _NONCE + _PROOF
"""Size of an introduction, in bytes."""
ACCEPTANCE_SIZE = _PROOF
"""Size of an acceptance, in bytes."""

Steps = Generator[tuple[bytes, int], bytes, "Introduction"]
"""Yields what to send and how many bytes to receive then; is sent these bytes; returns who called."""


class RefusedError(Exception):
    """The other end does not know the secret, or does not speak this protocol."""


@dataclass(frozen=True, slots=True)
class Introduction:
    """Identity that a caller states: its rank, the rank it calls, and which of their connections this is."""

    caller: int
    """Rank of the caller."""
    answerer: int
    """Rank that is called."""
    channel: int
    """Which of the connections between the two this is."""
    size: int
    """Number of ranks in the meeting, as the caller knows it."""

    def pack(self) -> bytes:
        """Return the introduction as 16 bytes: caller, answerer, channel and size, unsigned 32-bit numbers,
        big-endian."""
        return _WHO.pack(self.caller, self.answerer, self.channel, self.size)


@dataclass(frozen=True, slots=True)
class Handshakes:
    """The handshakes of one meeting."""

    secret: bytes
    """Secret that only the ranks of this job know."""
    meeting: str
    """Name of the meeting; part of every proof."""

    def calling(self, who: Introduction) -> Steps:
        """Return a generator of the caller's side of a handshake, which returns ``who`` once the answerer has proved
        that it knows the secret.

        It yields (bytes to send, number of bytes to receive next), and is sent the bytes received.

        Args:
            who: identity that the caller states.

        Raises:
            RefusedError: (when run) the answerer does not know the secret, or does not speak this protocol.
        """
        challenge = yield b"", CHALLENGE_SIZE
        if not challenge.startswith(_MAGIC):
            raise RefusedError("the answer is not a challenge")
        theirs, own = challenge[len(_MAGIC) :], secrets.token_bytes(_NONCE)
        introduction = _MAGIC + who.pack() + own + self._proof(b"calls", who, theirs, own)
        acceptance = yield introduction, ACCEPTANCE_SIZE
        if not hmac.compare_digest(acceptance, self._proof(b"answers", who, theirs, own)):
            raise RefusedError("whoever answers does not know the secret of this job")
        return who

    def answering(self) -> Steps:
        """Return a generator of the answerer's side of a handshake, which returns the identity that the caller has
        stated and proved.

        It yields (bytes to send, number of bytes to receive next), and is sent the bytes received.

        Raises:
            RefusedError: (when run) the caller does not know the secret, or does not speak this protocol.
        """
        own = secrets.token_bytes(_NONCE)
        introduction = yield _MAGIC + own, INTRODUCTION_SIZE
        magic, rest = introduction[: len(_MAGIC)], introduction[len(_MAGIC) :]
        if magic != _MAGIC:
            raise RefusedError("the caller does not introduce itself")
        who = Introduction(*_WHO.unpack(rest[: _WHO.size]))
        theirs, proof = rest[_WHO.size : _WHO.size + _NONCE], rest[_WHO.size + _NONCE :]
        if not hmac.compare_digest(proof, self._proof(b"calls", who, own, theirs)):
            raise RefusedError("the caller does not know the secret of this job")
        yield self._proof(b"answers", who, own, theirs), 0
        return who

    def _proof(self, side: bytes, who: Introduction, challenge: bytes, nonce: bytes) -> bytes:
        """Return the HMAC-SHA256 by which one side of a handshake proves that it knows the secret; its content is
        ``side`` (padded to 8 bytes), the packed ``who``, ``challenge``, ``nonce`` and the meeting's name, all but the
        last of fixed length.

        Args:
            side: ``b"calls"`` for the caller's proof or ``b"answers"`` for the answerer's.
            who: identity that the caller states.
            challenge: nonce of the answerer.
            nonce: nonce of the caller.
        """
        content = side.ljust(8, b"\0") + who.pack() + challenge + nonce + self.meeting.encode()
        return hmac.digest(self.secret, content, "sha256")


DATA, CONTROL = 0, 1
"""The two connections between a pair of ranks."""
HANDSHAKE_SECONDS = 10.0
"""Time after which a caller that has not proved who it is is hung up on, in seconds."""
MOST_CALLERS = 128
"""Unproved callers that are listened to at the same time; for one more, the oldest is hung up on."""
_RETRY_SECONDS = 0.05

Pair = tuple[socket.socket, socket.socket]
"""Sockets of the data and the control connection."""
Address = tuple[str, int]
_REMEDY = (
    "check that the hosts reach each other's TCP ports; host= sets the address at which a rank listens, by default the "
    "one from which it reaches the store"
)


class Meeting:
    """The connections of one rank while they are made, each call and each answer in a task of its own."""

    def __init__(
        self, rank: int, size: int, calls: Mapping[int, Address], answers: Sequence[int], handshakes: Handshakes
    ) -> None:
        """Begin without connections, among ``size`` ranks: to call those of ``calls`` at their addresses, and to be
        called by ``answers``."""
        self._rank, self._size, self._addresses, self._handshakes = rank, size, calls, handshakes
        self._outgoing = [Introduction(rank, peer, channel, size) for peer in calls for channel in (DATA, CONTROL)]
        self._incoming = [Introduction(peer, rank, channel, size) for peer in answers for channel in (DATA, CONTROL)]
        self._connected: dict[Introduction, socket.socket] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._unproved: list[asyncio.Task[Any]] = []
        """Tasks that listen to callers of whom nothing is known yet, the oldest first."""
        self._faults: dict[int, str] = {}
        self._refused = 0

    def connect(self, listener: socket.socket, deadline: float) -> dict[Introduction, socket.socket]:
        """Make all connections and return their sockets, by the identity that each caller stated.

        Args:
            listener: socket at which this rank is called; not closed.
            deadline: on ``time.monotonic``.

        Raises:
            TransportError: a rank did not call in time, cannot be reached, or disagrees about who calls whom; all
                sockets are then closed.
        """
        listener.setblocking(False)
        try:
            if asyncio._get_running_loop() is None:
                asyncio.run(self._meet(listener, deadline))
            else:  # this thread runs an event loop already, as in a notebook
                with ThreadPoolExecutor(1) as thread:
                    thread.submit(asyncio.run, self._meet(listener, deadline)).result()
        except BaseException:
            for sock in self._connected.values():
                sock.close()
            raise
        return self._connected

    async def _meet(self, listener: socket.socket, deadline: float) -> None:
        """Call and answer until all connections are made; raises TransportError for the first fault that waiting cannot
        mend, and at ``deadline``, in seconds of the event loop's clock."""
        self._complete = asyncio.get_running_loop().create_future()
        for work in (self._answer(listener), *map(self._call, self._outgoing)):
            self._start(work)
        try:
            async with asyncio.timeout_at(deadline):
                await self._complete
        except TimeoutError:
            raise TransportError(self._absence()) from None

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        """Start ``work`` as a task of the meeting, whose error ends the meeting."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        """End the meeting with a task's error if ``task`` ended with one, or with success if all connections are made;
        called when a task has ended."""
        self._tasks.discard(task)
        fault = None if task.cancelled() else task.exception()
        if self._complete.done():
            return
        if fault is not None:
            self._complete.set_exception(fault)
        elif len(self._connected) == len(self._outgoing) + len(self._incoming):
            self._complete.set_result(None)

    async def _call(self, who: Introduction) -> None:
        """Make the connection ``who`` to a rank, and try again after 0.05 s where it is refused, reset, slower than 20
        s or does not know the secret; raises TransportError for any other fault (unknown host, no route)."""
        host, port = self._addresses[who.answerer]
        while who not in self._connected:
            try:
                family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
                sock = socket.socket(family, kind, protocol)
            except OSError as error:
                raise self._unreachable(who.answerer, error.strerror or str(error)) from error
            sock.setblocking(False)
            try:
                # A full queue of the other end's listener drops a connection without a word: the call is made again.
                async with asyncio.timeout(2 * HANDSHAKE_SECONDS):
                    await asyncio.get_running_loop().sock_connect(sock, address)
                    self._keep(await _converse(sock, self._handshakes.calling(who)), sock)
            except (OSError, RefusedError) as fault:
                number = getattr(fault, "errno", None)
                words = os.strerror(number) if number else str(fault) or "no answer in time"
                if not isinstance(fault, ConnectionError | TimeoutError | RefusedError):
                    raise self._unreachable(who.answerer, words) from fault
                self._faults[who.answerer] = words
            finally:
                if self._connected.get(who) is not sock:
                    sock.close()
            if who not in self._connected:
                await asyncio.sleep(_RETRY_SECONDS)

    async def _answer(self, listener: socket.socket) -> None:
        """Answer the next caller, and leave the one after it to a task of its own; a caller that does not prove itself
        within 10 s is hung up on, and the oldest unproved one where there are more than 128.

        Raises:
            TransportError: a caller is proved and not expected.
        """
        sock = None
        while sock is None:
            with suppress(ConnectionError):
                sock, _ = await asyncio.get_running_loop().sock_accept(listener)
        self._start(self._answer(listener))
        own, who = asyncio.current_task(), None
        assert own is not None
        self._unproved.append(own)
        if len(self._unproved) > MOST_CALLERS:
            self._unproved[0].cancel()
        try:
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                who = await _converse(sock, self._handshakes.answering())
        except (OSError, RefusedError):
            pass
        finally:
            self._unproved.remove(own)
            if who not in self._incoming:
                sock.close()
                self._refused += 1
        if who is not None:
            if who not in self._incoming:
                raise self._disagreement(who)
            self._keep(who, sock)

    def _keep(self, who: Introduction, sock: socket.socket) -> None:
        """Keep the socket of a connection whose handshake succeeded; an earlier socket of the same connection is
        closed."""
        if (earlier := self._connected.pop(who, None)) is not None:
            earlier.close()  # the rank called again: it has not heard that this rank accepted
        self._connected[who] = sock

    def _unreachable(self, peer: int, reason: str) -> TransportError:
        """Return, without raising it, the error that this rank cannot reach rank ``peer`` for ``reason``, with a
        remedy."""
        host, port = self._addresses[peer]
        return TransportError(f"rank {self._rank} cannot reach rank {peer} at {host} port {port}: {reason}; {_REMEDY}")

    def _absence(self) -> str:
        """Return a sentence about one missing connection at the deadline: of the lowest rank among those that this rank
        calls, or else of those that call it."""
        if missing := [who.answerer for who in self._outgoing if who not in self._connected]:
            peer = min(missing)
            return str(self._unreachable(peer, self._faults.get(peer, "no answer in time")))
        peer = min(who.caller for who in self._incoming if who not in self._connected)
        strangers = f" ({self._refused} callers that did not know the secret of this job were hung up on)"
        return f"rank {self._rank}: rank {peer} did not come in time{strangers if self._refused else ''}; {_REMEDY}"

    def _disagreement(self, who: Introduction) -> TransportError:
        """Return, without raising it, the error of a caller ``who`` that proved to know the secret and is not expected,
        or states another number of ranks."""
        expected = ", ".join(map(str, sorted({other.caller for other in self._incoming})))
        return TransportError(
            f"rank {self._rank} of {self._size} expects rank {expected} of {self._size}, rank {who.caller} of "
            f"{who.size} called"
        )


async def _converse(sock: socket.socket, steps: Steps) -> Introduction:
    """Run one side of a handshake over a socket, and return the identity that the caller stated; raises RefusedError,
    or OSError for a lost connection. It sets no time limit."""
    loop, (outgoing, wanted) = asyncio.get_running_loop(), next(steps)
    while True:
        await loop.sock_sendall(sock, outgoing)
        message = b""
        while len(message) < wanted:
            if not (piece := await loop.sock_recv(sock, wanted - len(message))):
                raise ConnectionResetError("it hung up during the handshake")
            message += piece
        try:
            outgoing, wanted = steps.send(message)
        except StopIteration as ended:
            who: Introduction = ended.value
            return who


# The address at which a rank listens for others, when the user gives none: that from which it reaches the store.
#
# All ranks reach the store, so a rank's end of that route is an address that others can be expected to reach. On the
# host of the store itself the route may be the loopback device, which only ranks of that host reach; where a rank of
# another host calls, the address is that from which this rank reaches the caller.

_LOOPBACK = "127.0.0.1"
_NO_PORT = 9
"""Port of datagrams that are never sent: connecting a UDP socket only chooses a route."""


def store_address(store: object) -> tuple[str, int] | None:
    """Return (host, port) of a ``TCPStore`` inside any number of prefixes, or else of ``MASTER_ADDR`` and
    ``MASTER_PORT``; None where neither names a host. The port is 9 where none is known."""
    while (inner := getattr(store, "underlying_store", None)) is not None:
        store = inner
    host, port = str(getattr(store, "host", "")), str(getattr(store, "port", ""))
    if not host:
        host, port = os.environ.get("MASTER_ADDR", ""), os.environ.get("MASTER_PORT", "")
    return (host, int(port) if port.isdecimal() else _NO_PORT) if host else None


def route_to(host: str, port: int = _NO_PORT) -> str | None:
    """Return the numeric address of this host from which packets to ``host`` leave, an IPv4 one if there is any; None
    where there is no route. Nothing is sent."""
    with suppress(OSError):
        candidates = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
        for family, kind, protocol, _, address in sorted(candidates, key=lambda found: found[0] != socket.AF_INET):
            with suppress(OSError), socket.socket(family, kind, protocol) as probe:
                probe.connect(address)
                return socket.getnameinfo(probe.getsockname(), socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)[0]
    return None


def route_to_store(store: object) -> str:
    """Return the address from which this host reaches the store; 127.0.0.1 for a store without an address, or where
    there is no route."""
    address = store_address(store)
    return (route_to(*address) if address is not None else None) or _LOOPBACK


def address_for(own: str, callers: Iterable[str]) -> str:
    """Return the address at which callers reach this rank: ``own``, unless that is a loopback address and a caller's is
    not; then the address from which this host reaches the first such caller to which there is a route that is no
    loopback."""
    if is_loopback(own):
        for caller in callers:
            if not is_loopback(caller) and (route := route_to(caller)) is not None and not is_loopback(route):
                return route
    return own


def is_loopback(address: str) -> bool:
    """Return whether only this host reaches ``address``: a loopback number or ``localhost``; any other name counts as
    reached by others."""
    with suppress(ValueError):
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    return address == "localhost"


def is_unspecified(address: str) -> bool:
    """Return whether ``address`` stands for all addresses of a host (``0.0.0.0``, ``::`` or empty), so that no other
    host can call it."""
    with suppress(ValueError):
        return ipaddress.ip_address(address).is_unspecified
    return address == ""


# How ranks find each other and connect: through a torch.distributed store.
#
# The store carries each rank's address and a secret that rank 0 draws for every meeting; ranks prove to each other
# that they know it (``Handshakes``). Whoever can read the store belongs to the job; nobody else does.


class Store(Protocol):
    """The methods of ``torch.distributed.Store`` that connecting needs."""

    def set(self, key: str, value: str) -> object:
        """Store a value under a key."""

    def get(self, key: str) -> bytes:
        """Return the value of a key, once it has one."""

    def add(self, key: str, amount: int) -> int:
        """Increase the counter of a key by ``amount`` and return its new value."""

    def wait(self, keys: list[str], timeout: timedelta) -> object:
        """Return when all keys have values; raise after ``timeout``."""


def connect(
    store: Store,
    rank: int,
    size: int,
    calls: Sequence[int],
    answers: Sequence[int],
    *,
    name: str,
    host: str | None = None,
    setup_timeout: float = DEFAULT_TIMEOUT,
) -> tuple[dict[int, Pair], dict[int, Pair]]:
    """Connect to the ranks ``calls`` and accept the ranks ``answers``; return (sockets by rank called, sockets by rank
    accepted), each as (data, control), two sockets of every pair of ranks.

    All ranks call this, equally often for each ``name``, and agree on who calls whom. Callers that do not know the
    secret of this meeting are hung up on.

    Args:
        store: store that all ranks share.
        rank: this rank.
        size: number of ranks.
        calls: ranks that this one calls.
        answers: ranks that call this one.
        name: what the ranks connect for, part of the keys in the store.
        host: address or name at which this rank listens; None takes the one from which it reaches the store.
        setup_timeout: time within which all must connect, in seconds; 300 by default.

    Raises:
        TransportError: a rank did not connect in time, or cannot be reached.
    """
    deadline = time.monotonic() + setup_timeout
    round_ = store.add(f"lightloom/{name}/{rank}/meetings", 1)
    board = _Board(store, f"lightloom/{name}/meeting {round_}", rank, deadline, setup_timeout)
    if rank == 0:
        board.publish("secret", secrets.token_hex(32))
    with _listener(rank, board.own_address(host, answers), len(answers)) as listener:
        address, port = socket.getnameinfo(listener.getsockname(), socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)
        board.publish(f"address {rank}", f"{address} {port}")
        addresses = {peer: board.address(peer) for peer in calls}
        handshakes = Handshakes(bytes.fromhex(board.read("secret", 0)), board.key)
        socks = Meeting(rank, size, addresses, answers, handshakes).connect(listener, deadline)

    def pair(caller: int, answerer: int) -> Pair:
        """Return the (data, control) sockets by which one rank called another."""
        data, control = (socks[Introduction(caller, answerer, channel, size)] for channel in (DATA, CONTROL))
        return data, control

    return {peer: pair(rank, peer) for peer in calls}, {peer: pair(peer, rank) for peer in answers}


class _Board:
    """Keys of one meeting in the store, where ranks publish addresses, routes and the secret."""

    def __init__(self, store: Store, key: str, rank: int, deadline: float, setup_timeout: float) -> None:
        """Keep the store and the key of a meeting; ``deadline`` is on ``time.monotonic``, ``setup_timeout`` in seconds,
        for messages."""
        self.key = key
        self._store, self._rank = store, rank
        self._deadline, self._setup_timeout = deadline, setup_timeout

    def publish(self, what: str, value: str) -> None:
        """Set the key ``what`` of this meeting to ``value`` in the store, for all ranks to read."""
        self._store.set(f"{self.key}/{what}", value)

    def read(self, what: str, peer: int) -> str:
        """Return the value of this meeting's key ``what``, once rank ``peer`` has published it; the rank is only named
        in the error.

        Raises:
            TransportError: it does not come by the meeting's deadline.
        """
        key, left = f"{self.key}/{what}", max(self._deadline - time.monotonic(), 0.01)
        try:
            self._store.wait([key], timedelta(seconds=left))
            return self._store.get(key).decode()
        except Exception as error:  # each kind of store has exceptions of its own
            raise TransportError(
                f"rank {self._rank}: rank {peer} did not come within {self._setup_timeout:g} s"
            ) from error

    def address(self, peer: int) -> Address:
        """Return (host, port) at which rank ``peer`` listens, once it has published them; raises TransportError where
        that does not come in time."""
        host, port = self.read(f"address {peer}", peer).rsplit(" ", 1)
        return host, int(port)

    def own_address(self, host: str | None, callers: Sequence[int]) -> str:
        """Return the address at which this rank listens: ``host`` if given, else one at which all ``callers`` reach it;
        publish in the store from which address this rank comes. Raises TransportError for a ``host`` that stands for
        all addresses, or where a caller publishes nothing in time."""
        route = host or route_to_store(self._store)
        self.publish(f"route {self._rank}", route)
        if host is None:
            return address_for(route, (self.read(f"route {caller}", caller) for caller in callers))
        if is_unspecified(host):
            raise TransportError(
                f"rank {self._rank} cannot be called at {host!r}, which stands for all addresses of a "
                "host: expected one that the other ranks reach"
            )
        return host


def _listener(rank: int, host: str, peers: int) -> socket.socket:
    """Return a socket that listens at the address ``host`` of this host, at a port that the system picks, with a
    backlog for ``peers`` ranks; raises TransportError where it cannot listen there."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address, family=family, backlog=MOST_CALLERS + 2 * peers)
    except OSError as error:
        raise TransportError(
            f"rank {rank} cannot listen at {host}: {error.strerror or error}; host= must be an address of this rank's "
            "own host"
        ) from error


# All ranks connected with each other, and rings over these connections.
#
# Every message carries the stamp of the exchange that it belongs to (``channel.Stamp``): ranks that exchange
# different things end with one line before a value is used, whatever sizes they send.

_WHAT = "exchange"


class Mesh(ChannelGroup):
    """One rank's connections to all others; made by ``mesh_from_store``."""

    def __init__(
        self, rank: int, pairs: Mapping[int, tuple[socket.socket, socket.socket]], *, timeout: float = DEFAULT_TIMEOUT
    ) -> None:
        """Take over the sockets, by peer, each pair as (data, control)."""
        self._peers = {peer: Channel(rank, peer, *pair, what=_WHAT) for peer, pair in sorted(pairs.items())}
        self.stamp = NO_STAMP
        """Stamp of the exchange that the next messages belong to."""
        super().__init__(rank, tuple(self._peers.values()), timeout=timeout, what=_WHAT)

    def channel(self, peer: int) -> Channel:
        """Return the channel to rank ``peer``, which is its data and control connections."""
        return self._peers[peer]

    def exchange(
        self, sends: Mapping[int, Payload], targets: Mapping[int, int | memoryview], *, marked: bool = False
    ) -> dict[int, Payload]:
        """Send a message to some ranks and receive one from some, all at once; return the received bytes by rank, in
        the memory given or in new memory.

        Args:
            sends: contiguous bytes by rank.
            targets: by rank, the most bytes that can rightly come, or memory that they must fill.
            marked: whether they are compressed, those received too.

        Raises:
            TransportError: a rank died, left, fell silent, or exchanges something else (its ``stamp`` differs). All
                connections are then closed, and all ranks told.
        """
        outgoing = {self._peers[peer]: payload for peer, payload in sends.items()}
        incoming = {self._peers[peer]: target for peer, target in targets.items()}
        came = self.transfer(outgoing, incoming, marked=marked, stamp=self.stamp)
        return {peer: came[self._peers[peer]] for peer in targets}

    def compare(self) -> None:
        """Check, by messages without bytes to and from every other rank, that all are about to exchange the same, that
        is have equal ``stamp``; raises TransportError where they do not."""
        self.exchange(dict.fromkeys(self._peers, b""), dict.fromkeys(self._peers, 0))


class MeshRing:
    """Some ranks of a mesh as a ring: each sends to the next one while it receives from the one before."""

    def __init__(self, mesh: Mesh, members: Sequence[int]) -> None:
        """Order the ranks ``members``, two or more, of which this rank is one."""
        self.mesh = mesh
        self.rank, self.size = members.index(mesh.name), len(members)
        self.next, self._previous = members[(self.rank + 1) % self.size], members[self.rank - 1]

    def exchange(self, payload: Payload, *, marked: bool, limit: int) -> Payload:
        """Send ``payload`` to the next rank of the ring, and return what the previous one sent, which may have at most
        ``limit`` bytes; ``marked`` says whether both are compressed. Raises TransportError where a rank is gone or
        silent, or exchanges something else."""
        return self.mesh.exchange({self.next: payload}, {self._previous: limit}, marked=marked)[self._previous]


def mesh_from_store(store: Store, rank: int, size: int, *, host: str | None = None, timeout: float) -> Mesh:
    """Connect all ranks with each other, and return this rank's end; all must call this, equally often.

    Args:
        store: for example ``torch.distributed.TCPStore``, or a process group's ``get_group_store()``.
        rank: this rank.
        size: number of ranks.
        host: address or name of this rank, IPv4 or IPv6, to which others connect; None takes the address from which
            this rank reaches the store. The system chooses ports.
        timeout: time without progress after which an exchange fails, and within which all ranks must connect, in
            seconds.

    Raises:
        TransportError: a rank did not connect in time, or cannot be reached.
    """
    calls, answers = range(rank), range(rank + 1, size)
    called, answered = connect(store, rank, size, calls, answers, name=_WHAT, host=host, setup_timeout=timeout)
    return Mesh(rank, called | answered, timeout=timeout)
