"""A progress bar, on terminals only and only when the work takes long."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE = 2.0
"""Seconds before a bar appears."""


@contextmanager
def progress(description: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Count work; yields ``advance(count)``. A bar appears on stderr, if that is a terminal, after two seconds.

    With ``total=None`` the bar pulses, since the amount of work is unknown.
    """
    if not sys.stderr.isatty():
        yield _ignore
        return
    counter = _Counter(description, total)
    timer = threading.Timer(PATIENCE, counter.show)
    timer.daemon = True
    timer.start()
    try:
        yield counter.advance
    finally:
        timer.cancel()
        counter.close()


def _ignore(count: int = 1) -> None:
    """Do nothing: there is no terminal for a bar."""


class _Counter:
    """Counts work and draws the bar. Two threads use it, the timer's and the worker's, hence the lock."""

    def __init__(self, description: str, total: int | None) -> None:
        from rich.console import Console
        from rich.markup import escape
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._lock = threading.Lock()
        self._closed = False
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task(escape(description), total=total)

    def show(self) -> None:
        with self._lock:
            if not self._closed:
                self._bar.start()

    def advance(self, count: int = 1) -> None:
        self._bar.advance(self._task, count)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._bar.live.is_started:
                self._bar.stop()
