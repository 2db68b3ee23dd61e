"""Ranks as threads of this process, connected over sockets: exchanges of a few values in some milliseconds."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Condition
from types import SimpleNamespace
from typing import Any, TypeVar

from lightloom.exchange.distributed.group import OwnGroup
from lightloom.exchange.transport.channel import TransportError
from lightloom.exchange.transport.meeting import mesh_from_store

Found = TypeVar("Found")


class Board:
    """A store in memory."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.changed = Condition()

    def set(self, key: str, value: str) -> None:
        with self.changed:
            self.values[key] = value.encode()
            self.changed.notify_all()

    def get(self, key: str) -> bytes:
        return bytes(self.values[key])

    def add(self, key: str, amount: int) -> int:
        with self.changed:
            self.values[key] = self.values.get(key, 0) + amount
            return int(self.values[key])

    def wait(self, keys: list[str], timeout: timedelta) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: all(key in self.values for key in keys), timeout.total_seconds())


def among(ranks: int, work: Callable[[OwnGroup], Found]) -> list[Found]:
    """Return what ``work`` returns on each rank, given the group of all of them."""
    board = Board()

    def run(rank: int) -> Found:
        group = OwnGroup(SimpleNamespace(rank=lambda: rank, size=lambda: ranks), 20.0)  # type: ignore[arg-type]
        if ranks > 1:
            group._mesh = mesh_from_store(board, rank, ranks, host="127.0.0.1", timeout=20.0)
        try:
            return work(group)
        finally:
            group.close()

    with ThreadPoolExecutor(ranks) as threads:
        ends = [threads.submit(run, rank) for rank in range(ranks)]
    # Others lose a rank that fails: what failed is told first.
    ends.sort(key=lambda end: isinstance(end.exception(), TransportError))
    for end in ends:
        end.result()
    return [end.result() for end in ends]
