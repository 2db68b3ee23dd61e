"""Refusals before memory is taken: work that grows with the square of the ranks asks whether it fits first."""

from __future__ import annotations

import os
from pathlib import Path

from lightloom.core.errors import UnsupportedError
from lightloom.core.units import format_size

_MEMINFO = Path("/proc/meminfo")
_FREE = "MemAvailable:"
_ALWAYS = 1 << 28
"""Bytes that are taken without asking."""


def free_memory() -> float:
    """Bytes that a process can still take on this machine; infinite where the system does not say."""
    try:
        lines = _MEMINFO.read_text(encoding="ascii").splitlines()
        return 1024.0 * next(int(line.split()[1]) for line in lines if line.startswith(_FREE))
    except (OSError, StopIteration, ValueError):
        pass
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return float("inf")


def lacking_memory(nbytes: float, what: str) -> str | None:
    """Why work that takes so much memory is refused; None where as much is free."""
    if nbytes <= _ALWAYS:
        return None
    free = free_memory()
    if nbytes <= free:
        return None
    return f"{what} needs about {format_size(nbytes)} of memory, and {format_size(free)} are free: expected fewer ranks"


def require_memory(nbytes: float, what: str) -> None:
    """Refuse work that takes more memory than is free.

    Raises:
        UnsupportedError: ``nbytes`` are not free.
    """
    why = lacking_memory(nbytes, what)
    if why is not None:
        raise UnsupportedError(why)
