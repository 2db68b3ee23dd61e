"""Sockets: marks, deadlines, farewells, deaths."""

from __future__ import annotations

import os
import selectors
import socket
import threading
import time

import pytest
from benchmarks.support.socket_ring import Ring

from lightloom.exchange.transport.channel import (
    ABORT,
    FRAME_SIZE,
    MARKED_TOS,
    Channel,
    Frame,
    TransportError,
)
from tests.training.transport.rings import PATIENCE, on_ring, results

LIMIT = 1 << 25


def test_large_messages_pass_both_ways_at_once() -> None:
    """Far more than the kernel's buffers hold, so that sending before receiving would deadlock."""
    size = 3
    payloads = [os.urandom(8_000_000 + rank) for rank in range(size)]

    def job(ring: Ring) -> list[bytes]:
        return [bytes(ring.exchange(payloads[ring.rank], marked=False, limit=LIMIT)) for _ in range(2)]

    for rank, received in enumerate(results(on_ring(size, job))):
        assert received == [payloads[rank - 1]] * 2


def test_the_mark_is_on_the_data_socket_of_compressed_messages_only() -> None:
    def job(ring: Ring) -> list[tuple[int, int]]:
        tos = []
        for marked in (False, True, True, False, True):
            ring.exchange(b"x" * 100_000, marked=marked, limit=LIMIT)
            sockets = (ring.next.data, ring.next.control)
            tos.append(tuple(sock.getsockopt(socket.IPPROTO_IP, socket.IP_TOS) for sock in sockets))
        return tos  # type: ignore[return-value]

    for tos in results(on_ring(2, job)):
        assert tos == [(0, 0), (MARKED_TOS, 0), (MARKED_TOS, 0), (0, 0), (MARKED_TOS, 0)]


@pytest.mark.long
def test_a_silent_rank_stops_nobody_longer_than_the_timeout() -> None:
    """Whoever runs out of patience first names its neighbour, which may itself be waiting for the silent one."""
    others_failed = threading.Barrier(3)

    def job(ring: Ring) -> None:
        if ring.rank != 2:
            with pytest.raises(TransportError, match=r"no progress with rank \d for 0\.5 s|closed its connection"):
                for _ in range(2):
                    ring.exchange(b"abcd", marked=False, limit=LIMIT)
        others_failed.wait(PATIENCE)

    results(on_ring(3, job, timeout=0.5))


def test_a_rank_that_dies_breaks_the_ring_for_all() -> None:
    """Death without a word: its sockets just close. The news goes round by abort frames."""

    def job(ring: Ring) -> str:
        if ring.rank == 3:
            ring.exchange(b"abcd", marked=False, limit=LIMIT)
            for sock in ring._sockets:
                sock.close()
            ring.closed = True
            ring._selector.close()
            return ""
        with pytest.raises(TransportError) as caught:
            for _ in range(10):
                ring.exchange(b"abcd", marked=False, limit=LIMIT)
        with pytest.raises(TransportError):
            ring.exchange(b"", marked=False, limit=LIMIT)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    began = time.monotonic()
    outcomes = results(on_ring(5, job))
    assert time.monotonic() - began < PATIENCE
    assert any("rank 3" in text for text in outcomes)
    assert all("closed its connection" in text or not text for text in outcomes), outcomes


def test_a_rank_may_leave_as_soon_as_it_is_done() -> None:
    """The others still get what it sent."""

    def job(ring: Ring) -> bytes:
        if ring.rank == 1:
            time.sleep(0.2)
        received = bytes(ring.exchange(bytes([ring.rank]) * 10, marked=False, limit=LIMIT))
        ring.close()
        ring.close()
        return received

    for size in (2, 4):
        assert results(on_ring(size, job)) == [bytes([(rank - 1) % size]) * 10 for rank in range(size)]


def test_a_rank_that_ends_without_a_word_after_its_last_message_harms_nobody() -> None:
    """Rank 1 is still sending to rank 2 when rank 0, from which it has all it needs, is gone."""
    sizes = [10, 30_000_000, 10]

    def job(ring: Ring) -> int:
        received = len(ring.exchange(bytes(sizes[ring.rank]), marked=False, limit=LIMIT))
        if ring.rank == 0:
            for sock in ring._sockets:
                sock.shutdown(socket.SHUT_RDWR)
        return received

    assert results(on_ring(3, job)) == [10, 10, 30_000_000]


def test_closing_from_another_thread_ends_a_waiting_exchange() -> None:
    over = threading.Event()

    def job(ring: Ring) -> None:
        if ring.rank == 1:
            over.wait(PATIENCE)
            return
        timer = threading.Timer(0.1, ring.close)
        timer.start()
        try:
            with pytest.raises(TransportError, match="rank 0: the ring is closed"):
                ring.exchange(b"abcd", marked=False, limit=LIMIT)
            timer.join()
            assert all(sock.fileno() == -1 for sock in ring._sockets)
        finally:
            over.set()

    results(on_ring(2, job))


def connected() -> tuple[socket.socket, socket.socket]:
    """Both ends of a TCP connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        return one, server.accept()[0]


@pytest.mark.parametrize("side", ["control", "data"])
def test_the_reason_of_a_rank_that_broke_off_is_read_although_nothing_can_be_sent(side: str) -> None:
    """Its last frame has arrived, and its sockets have been reset since."""
    (data, other_data), (control, other_control) = connected(), connected()
    channel, other = Channel(0, 1, data, control), Channel(1, 0, other_data, other_control)
    other.say(Frame(ABORT, text="rank 1 exchanges this, rank 0 that"))
    for sock in (other_data, other_control):
        sock.close()
    for sock in (data, control):
        sock.send(b"x")  # is answered by a reset
    sock = getattr(channel, side)
    for _ in range(100):
        if sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):  # clears it, too: sending fails by the closed pipe
            break
        time.sleep(0.01)
    channel.offer(memoryview(b"abcd"), marked=False)
    with pytest.raises(TransportError, match=r"rank 1 exchanges this, rank 0 that \(told by rank 1\)"):
        channel.serve(sock, selectors.EVENT_WRITE)
    for sock in (data, control):
        sock.close()


def test_frames_survive_and_noise_does_not() -> None:
    frame = Frame(ABORT, marked=True, sequence=7, nbytes=1 << 40, text="rank 3 said “no”")
    assert Frame.unpack(frame.pack()) == frame
    assert len(Frame(ABORT, text="x" * 1000).pack()) == FRAME_SIZE == 512
    for noise in (b"", bytes(FRAME_SIZE), b"LL\x09" + bytes(FRAME_SIZE - 3), frame.pack()[:-1]):
        assert Frame.unpack(noise) is None
