"""A progress bar, on terminals only and only when the work takes long."""

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

PATIENCE = 2.0
"""Seconds before a bar appears."""
_BETWEEN = 1.0
"""Least seconds between two changes of what stands behind a bar."""
_Item = TypeVar("_Item")


class Bar:
    """A progress bar, called with the amount of work that is done since the last call; it shows nothing without a bar
    of Rich."""

    def __init__(self, shown: Any = None, task: Any = None) -> None:
        """Take the bar and the task in it."""
        self._shown, self._task, self._told = shown, task, 0.0

    def __call__(self, count: int) -> None:
        """Show that ``count`` more is done."""
        if self._shown is not None:
            self._shown.advance(self._task, count)

    def over(self, items: Iterable[_Item]) -> Iterator[_Item]:
        """Yield the items, and show one more as done each time the next is asked for."""
        for item in items:
            yield item
            self(1)

    def tell(self, text: Callable[[], str], total: int | None = None) -> None:
        """Show a text behind the bar, unless the last was shown within a second; the call is then dropped, its total
        included.

        Args:
            text: returns the text, the best answer so far; called only when it is shown.
            total: amount of work, once it is known; None leaves it as it is.
        """
        if self._shown is not None and time.monotonic() - self._told > _BETWEEN:
            self._shown.update(self._task, best=text(), **({} if total is None else {"total": total}))
            self._told = time.monotonic()


@contextmanager
def progress(description: str, total: int | None) -> Iterator[Bar]:
    """Return a context manager that gives a :class:`Bar`, to be called with the amount of work done since the last
    call; it appears on stderr after two seconds, and disappears at the end of the context. Where stderr is no terminal
    nothing is shown, and the bar may be called all the same.

    Args:
        description: words before the bar, shown as they are.
        total: amount of work; None where it is unknown, so that the bar pulses.
    """
    if not sys.stderr.isatty():
        yield Bar()
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Column

    best = TextColumn("{task.fields[best]}", markup=False, table_column=Column(no_wrap=True, ratio=1))
    columns = TextColumn("{task.description}"), BarColumn(bar_width=20), MofNCompleteColumn(), TimeElapsedColumn(), best
    bar = Progress(*columns, console=Console(stderr=True), transient=True, expand=True)
    task, lock, ended = bar.add_task(escape(description), total=total, best=""), threading.Lock(), False

    def show() -> None:
        """Start the bar unless the work has ended."""
        # In the timer's thread: it may run while the work ends.
        with lock:
            if not ended:
                bar.start()

    timer = threading.Timer(PATIENCE, show)
    timer.daemon = True
    timer.start()
    try:
        yield Bar(bar, task)
    finally:
        timer.cancel()
        with lock:
            ended = True
            if bar.live.is_started:
                bar.stop()
