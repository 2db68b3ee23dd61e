"""Connecting is tried again where it failed on any rank, by all ranks, a bounded number of times."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

pytest.importorskip("torch", reason="gloo is torch's")

from torch.distributed import HashStore, Store, TCPStore  # type: ignore[attr-defined]

from lightloom.exchange.transport.channel import LaunchError
from lightloom.exchange.transport.gloo import TRIES, attempt, log_fault
from lightloom.exchange.transport.launch import launch
from tests.launched import TIMEOUT
from tests.training.transport.rings import PATIENCE

RANKS = 3


def _keep(made: list[Any], make: Callable[[Store], Any], store: Store) -> None:
    """Append what a rank makes in a try to those of its earlier tries."""
    made.append(make(store))


def connected(make: Callable[[Store], Any], store: Store, rank: int, size: int) -> Any:
    """What ``make`` made in the first try in which it succeeded on all ranks."""
    made: list[Any] = []
    for number in range(1, TRIES + 1):
        keep = partial(_keep, made, make)
        fault = attempt(keep, store, rank, size, name="test", number=number, timeout=PATIENCE)
        if not fault:
            return made[-1]
        log_fault(rank, number, fault)
    raise AssertionError(fault)


def on_ranks(make: Callable[[Store, int], Any]) -> list[Any]:
    """What ``connected`` returns on each rank."""
    store = HashStore()
    with ThreadPoolExecutor(RANKS) as pool:
        return list(pool.map(lambda rank: connected(lambda own: make(own, rank), store, rank, RANKS), range(RANKS)))


def test_a_try_that_fails_on_one_rank_is_repeated_by_all(caplog: pytest.LogCaptureFixture) -> None:
    """Rank 1 fails at once; rank 2, which waits for it, does not wait for its timeout."""
    tries: list[int] = []
    all_try, over = threading.Barrier(RANKS), threading.Event()

    def make(store: Store, rank: int) -> int:
        number = store.add(f"mine/{rank}", 1)
        assert number == 1, "each try has a prefix of its own"
        tries.append(rank)
        if tries.count(rank) == 1:
            all_try.wait(PATIENCE)  # a rank that comes after another has failed would not begin the first try
            if rank == 1:
                raise RuntimeError("Connection closed by peer [127.0.0.1]:12345\nand more")
            if rank == 2:
                over.wait(PATIENCE)
        return 10 + rank

    with caplog.at_level(logging.WARNING, logger="lightloom.exchange"):
        assert on_ranks(make) == [10, 11, 12]
    over.set()
    assert sorted(tries) == [0, 0, 1, 1, 2, 2]
    fault = "try 1 of 4 to connect failed (rank 1: Connection closed by peer [127.0.0.1]:12345)"
    assert sorted(record.getMessage() for record in caplog.records) == [
        f"rank {rank}: {fault}" for rank in range(RANKS)
    ]


def test_a_rank_that_waits_for_one_that_failed_goes_on() -> None:
    """Gloo waits in the store for the address of every rank, and that of rank 1 never comes."""
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    clients = [TCPStore("127.0.0.1", store.port, wait_for_workers=False) for _ in range(2)]

    def make(own: Store, rank: int) -> str:
        if own.add(f"mine/{rank}", 1) and rank == 1 and store.add("failures", 1) == 1:
            raise RuntimeError("Connection closed by peer")
        own.set(f"address {rank}", "here")
        own.wait(["address 0", "address 1"], timedelta(seconds=PATIENCE))
        return "connected"

    def run(rank: int) -> Any:
        return connected(lambda own: make(own, rank), clients[rank], rank, 2)

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(run, range(2))) == ["connected"] * 2


def test_all_ranks_name_the_cause() -> None:
    """Each rank reads the words of the rank that failed."""
    store = HashStore()

    def make(rank: int) -> None:
        if rank == 1:
            raise RuntimeError("no such device")

    def fault(rank: int) -> str:
        return attempt(lambda own: make(rank), store, rank, RANKS, name="test", number=1, timeout=PATIENCE)

    with ThreadPoolExecutor(RANKS) as pool:
        assert list(pool.map(fault, range(RANKS))) == ["rank 1: no such device"] * RANKS


def test_a_rank_that_does_not_come_is_waited_for_no_longer_than_the_timeout() -> None:
    fault = attempt(lambda own: 1, HashStore(), 0, 2, name="test", number=1, timeout=0.05)
    assert fault == "rank 0 waited in vain for the others"


def test_a_rank_that_is_known_to_be_lost_is_not_waited_for() -> None:
    fault = attempt(
        lambda own: 1, HashStore(), 0, 2, name="test", number=1, timeout=PATIENCE, lost=lambda: "rank 1 has ended"
    )
    assert fault == "rank 1 has ended"


@pytest.mark.slow
def test_a_rank_that_dies_while_it_connects_ends_the_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long before the timeout."""
    monkeypatch.setenv("LIGHTLOOM_TEST_DIES", "yes")
    with pytest.raises(LaunchError, match="rank 1 of 2: no result, exit code 7"):
        launch("tests.training.transport.flaky_workers:total", 2, TIMEOUT)


@pytest.mark.slow
def test_a_launch_survives_gloo_that_fails_at_first() -> None:
    """The ranks begin again as new programs; the log says why."""
    outcomes = launch("tests.training.transport.flaky_workers:total", 2, TIMEOUT)
    assert [outcome.value for outcome in outcomes] == [[3.0, "2"]] * 2
    for outcome in outcomes:
        assert "try 1 of 4 to connect failed (rank 1: Connection closed by peer [127.0.0.1]:12345)" in outcome.log
