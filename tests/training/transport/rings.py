"""Rings of threads over real sockets, and a store that lives in this process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import timedelta
from typing import Any, TypeVar

from benchmarks.support.socket_ring import Ring, ring_from_store

T = TypeVar("T")
PATIENCE = 300.0
"""Seconds that a test waits for something that takes milliseconds when nobody else uses the machine."""


class LocalStore:
    """What ``torch.distributed.HashStore`` does, without torch."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.changed = threading.Condition()

    def set(self, key: str, value: str) -> None:
        with self.changed:
            self.values[key] = value.encode()
            self.changed.notify_all()

    def get(self, key: str) -> bytes:
        with self.changed:
            value = self.values[key]
            assert isinstance(value, bytes)
            return value

    def add(self, key: str, amount: int) -> int:
        with self.changed:
            self.values[key] = total = self.values.get(key, 0) + amount
            assert isinstance(total, int)
            return total

    def wait(self, keys: list[str], timeout: timedelta) -> None:
        with self.changed:
            if not self.changed.wait_for(lambda: all(k in self.values for k in keys), timeout.total_seconds()):
                raise RuntimeError(f"wait timeout: {keys}")


def on_ring(size: int, job: Callable[[Ring], T], *, timeout: float = PATIENCE) -> list[T | Exception]:
    """What ``job(ring)`` returns or raises on every rank."""
    store = LocalStore()

    def run(rank: int) -> T:
        with ring_from_store(store, rank, size, timeout=timeout, setup_timeout=PATIENCE) as ring:
            return job(ring)

    with ThreadPoolExecutor(size) as pool:
        futures = [pool.submit(run, rank) for rank in range(size)]
        wait(futures)
    return [future.exception() or future.result() for future in futures]  # type: ignore[misc]


def results(outcomes: list[T | Exception]) -> list[T]:
    """The outcomes, none of which may be an exception."""
    good: list[T] = []
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome
        good.append(outcome)
    return good
