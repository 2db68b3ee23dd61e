"""A progress bar, on terminals only and only when the work takes long."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE = 2.0
"""Seconds before a bar appears."""


@contextmanager
def progress(description: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Yield ``advance(count)``, to be called as work is done; a bar appears on stderr, if that is a terminal, after two
    seconds.

    With ``total=None`` the bar pulses, since the amount of work is unknown. It disappears at the end of the context.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), BarColumn(bar_width=30), MofNCompleteColumn(), TimeElapsedColumn()
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task, lock, ended = bar.add_task(escape(description), total=total), threading.Lock(), False

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
        yield lambda count: bar.advance(task, count)
    finally:
        timer.cancel()
        with lock:
            ended = True
            if bar.live.is_started:
                bar.stop()
