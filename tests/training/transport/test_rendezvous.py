"""Ranks find each other: whoever does not know the job's secret is hung up on, and the job goes on without noticing."""

from __future__ import annotations

import socket
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from benchmarks.support.socket_ring import Ring, ring_from_store

from lightloom.exchange.transport import meeting
from lightloom.exchange.transport.channel import MARKED_TOS, PAYLOAD, Frame, TransportError
from lightloom.exchange.transport.meeting import CHALLENGE_SIZE, connect
from tests.training.transport.attacks import ATTACKS, Attack, run_attack, silence, target_of
from tests.training.transport.rings import PATIENCE, LocalStore, on_ring, results

MEETING = "lightloom/ring/meeting 1"


def job_under(attack: Attack, callers: int, store: LocalStore) -> tuple[list[bytes], list[int]]:
    """Attack rank 0, which waits for rank 1, then let rank 1 join.

    Returns what each rank got from the other, and how many bytes each attacker got before it was hung up on.
    """

    def rank(number: int) -> bytes:
        with ring_from_store(store, number, 2, setup_timeout=PATIENCE, timeout=PATIENCE) as ring:
            return bytes(ring.exchange(b"from %d" % number, marked=True, limit=10))

    with ThreadPoolExecutor(2 + callers) as pool:
        first = pool.submit(rank, 0)
        target = target_of(store, MEETING, caller=1, size=2)
        attackers = [pool.submit(run_attack, attack, target, number) for number in range(callers)]
        second = pool.submit(rank, 1)
        return [first.result(), second.result()], [attacker.result() for attacker in attackers]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_an_attacker_is_hung_up_on_and_the_job_goes_on(attack: Attack) -> None:
    """It hears a challenge at most, never an acceptance."""
    received, heard = job_under(attack, 10 if attack is silence else 2, LocalStore())
    assert received == [b"from 1", b"from 0"]
    assert max(heard) <= CHALLENGE_SIZE


@pytest.mark.long
def test_a_crowd_of_silent_callers_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """More of them than are listened to, and then each is hung up on when its time is over."""
    monkeypatch.setattr(meeting, "MOST_CALLERS", 2)
    monkeypatch.setattr(meeting, "HANDSHAKE_SECONDS", 0.05)
    assert job_under(silence, 10, LocalStore())[0] == [b"from 1", b"from 0"]


def test_every_meeting_has_a_secret_of_its_own() -> None:
    store = LocalStore()
    for meetings in (1, 2):
        with ThreadPoolExecutor(2) as pool:
            for ring in pool.map(lambda rank: ring_from_store(store, rank, 2, setup_timeout=PATIENCE), range(2)):
                ring.close()
        found = {value for key, value in store.values.items() if key.endswith("/secret")}
        assert len(found) == meetings
        assert all(len(bytes.fromhex(value.decode())) == 32 for value in found)


@pytest.mark.long
def test_who_answers_must_know_the_secret_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank calls an address where a stranger listens; the refusal says so and names the remedy."""
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        store = LocalStore()

        def pretend() -> None:
            listener.settimeout(0.5)
            try:
                while True:
                    with listener.accept()[0] as sock:
                        sock.sendall(b"LLR2" + bytes(32))
                        sock.recv(4096)
                        sock.sendall(bytes(32))
            except (TimeoutError, ConnectionError):  # the last call ends with the rank's time
                return

        pretender = pool.submit(pretend)
        for key, value in {"secret": "00" * 32, "route 0": "127.0.0.1", "route 1": "127.0.0.1"}.items():
            store.set(f"{MEETING}/{key}", value)
        store.set(f"{MEETING}/address 0", f"127.0.0.1 {listener.getsockname()[1]}")
        with pytest.raises(
            TransportError, match=r"rank 1 cannot reach rank 0 at 127\.0\.0\.1 port .*secret.*host= sets"
        ):
            ring_from_store(store, 1, 2, setup_timeout=0.2)
        pretender.result()


def test_a_length_of_2_to_the_60_is_refused_without_memory() -> None:
    def job(ring: Ring) -> str:
        if ring.rank == 1:
            ring.next.control.send(Frame(PAYLOAD, nbytes=1 << 60).pack())
            waiting.wait(PATIENCE)
            return ""
        tracemalloc.start()
        try:
            with pytest.raises(TransportError) as caught:
                ring.exchange(b"abcd", marked=False, limit=1000)
            assert tracemalloc.get_traced_memory()[1] < 1e6
            return str(caught.value)
        finally:
            tracemalloc.stop()
            waiting.set()

    waiting = threading.Event()
    words = results(on_ring(2, job))[0]
    assert words == f"rank 0: rank 1 sends {1 << 60} bytes, rank 0 expects at most 1000"


def test_a_ring_over_ipv6_marks_its_packets_too() -> None:
    if meeting.route_to("::1") is None:
        pytest.skip("this host has no IPv6")
    store = LocalStore()

    def rank(number: int) -> tuple[bytes, int, int]:
        with ring_from_store(store, number, 2, host="::1", setup_timeout=PATIENCE) as ring:
            received = bytes(ring.exchange(b"from %d" % number, marked=True, limit=10))
            mark = ring.next.data.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS)
            return received, mark, ring.next.data.family

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(rank, range(2)))
    assert found == [(b"from 1", MARKED_TOS, socket.AF_INET6), (b"from 0", MARKED_TOS, socket.AF_INET6)]


class Inside:
    """A store in a prefix."""

    def __init__(self, store: object) -> None:
        self.underlying_store = store


class Listening:
    """A store at an address."""

    def __init__(self, host: str) -> None:
        self.host, self.port = host, 12345


def test_a_rank_listens_where_it_reaches_the_store_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    assert meeting.route_to_store(Inside(Inside(Listening("127.0.0.1")))) == "127.0.0.1"
    assert meeting.route_to_store(LocalStore()) == "127.0.0.1"
    routes = {"10.0.0.1": "10.0.0.2", "10.0.0.2": "10.0.0.1", "127.0.1.1": "127.0.0.1"}
    monkeypatch.setattr(meeting, "route_to", lambda host, port=0: routes.get(host))
    assert meeting.route_to_store(Listening("10.0.0.1")) == "10.0.0.2"
    assert meeting.route_to_store(Listening("no.such.host")) == "127.0.0.1"
    monkeypatch.setenv("MASTER_ADDR", "10.0.0.1")
    assert meeting.route_to_store(LocalStore()) == "10.0.0.2"
    # The store's own host, whose name is that of its loopback device in /etc/hosts, as Debian has it.
    assert meeting.route_to_store(Listening("127.0.1.1")) == "127.0.0.1"
    assert meeting.address_for("127.0.0.1", ["127.0.0.1", "10.0.0.2"]) == "10.0.0.1"
    assert meeting.address_for("127.0.0.1", ["127.0.0.1"]) == "127.0.0.1"
    assert meeting.address_for("10.0.0.1", ["127.0.0.1"]) == "10.0.0.1"


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("192.0.2.1", r"rank 0 cannot listen at 192\.0\.2\.1: .*; host= must be an address of this rank's own host"),
        ("0.0.0.0", "rank 0 cannot be called at '0.0.0.0', .*: expected one that the other ranks reach"),
        ("::", "rank 0 cannot be called at '::'"),
    ],
)
def test_an_address_that_others_cannot_call_is_refused(host: str, words: str) -> None:
    with pytest.raises(TransportError, match=words):
        ring_from_store(LocalStore(), 0, 2, host=host, setup_timeout=0.2)


@pytest.mark.long
def test_ranks_of_one_job_that_disagree_on_its_size_say_so() -> None:
    """Their secret is the same; the one that is called ends at once, the caller with the time for the set-up."""
    store = LocalStore()
    with ThreadPoolExecutor(2) as pool:
        answer = pool.submit(connect, store, 0, 2, (), (1,), name="ring", setup_timeout=PATIENCE)
        call = pool.submit(connect, store, 1, 3, (0,), (), name="ring", setup_timeout=1.0)
        with pytest.raises(TransportError, match="rank 0 of 2 expects rank 1 of 2, rank 1 of 3 called"):
            answer.result()
        with suppress(TransportError):
            for pair in call.result()[0].values():
                for sock in pair:
                    sock.close()


def test_a_missing_rank_is_named() -> None:
    with pytest.raises(TransportError, match=r"rank 0: rank 1 did not come within 0\.2 s"):
        ring_from_store(LocalStore(), 0, 2, setup_timeout=0.2)
    with pytest.raises(TransportError, match="at least 2"):
        ring_from_store(LocalStore(), 0, 1)


def test_a_rank_that_went_after_it_published_its_address_is_named() -> None:
    """Its neighbour learns at once that nobody listens there, and tries until the deadline."""
    store = LocalStore()
    for key, value in {"secret": "00" * 32, "route 0": "127.0.0.1", "address 0": "127.0.0.1 9"}.items():
        store.set(f"{MEETING}/{key}", value)
    with pytest.raises(
        TransportError, match=r"rank 1 cannot reach rank 0 at 127\.0\.0\.1 port 9: Connection refused; check"
    ):
        ring_from_store(store, 1, 2, setup_timeout=0.2)
