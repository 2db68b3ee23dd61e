"""Refusals before memory is taken: work that grows with the square of the ranks asks whether it fits first.

What is free is the least of what the machine has left, what the control groups of the process leave it, and what its
own limit (``ulimit -v``) does.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from lightloom.core.errors import UnsupportedError
from lightloom.core.units import format_size

_MEMINFO = Path("/proc/meminfo")
_FREE = "MemAvailable:"
_GROUPS = Path("/proc/self/cgroup")
_GROUP_FILES = {
    "": ("", "memory.max", "memory.current"),
    "memory": ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
}
"""Folder of control groups, and files of a group's limit and use, by the controller that a line of
``/proc/self/cgroup`` names: none in version 2."""
_GROUP_ROOT = Path("/sys/fs/cgroup")
_ALWAYS = 1 << 28
"""Bytes that are taken without asking."""


def free_memory() -> float:
    """Return the bytes of memory that this process can still take: the least of what the machine has available and of
    what the process's own limit (``ulimit -v``) and the limits of its control groups leave; infinite where the system
    says nothing of any."""
    return min(_free_on_machine(), _below_own_limit(), *_free_in_groups(), float("inf"))


def _below_own_limit() -> float:
    """Return the bytes of address space that the process may still take below its soft limit (``RLIMIT_AS``), at least
    0; infinite where it has none or the system does not say."""
    try:
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        taken = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (ImportError, OSError, ValueError):
        return float("inf")
    return float("inf") if limit == resource.RLIM_INFINITY else max(float(limit - taken), 0.0)


def _free_in_groups() -> Iterator[float]:
    """Yield the bytes that remain, at least 0, below the limit of memory of each control group (of version 1 or 2) that
    the process is in, outer ones included; groups without a limit, or whose files cannot be read, are left out."""
    try:
        lines = _GROUPS.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers not in _GROUP_FILES:
            continue
        folder, limit, use = _GROUP_FILES[controllers]
        root = _GROUP_ROOT / folder
        group = root / path.lstrip("/")
        for at in (group, *group.parents):
            # Else no such group is mounted here, or its limit is "max".
            with suppress(OSError, ValueError):
                yield max(float((at / limit).read_text()) - float((at / use).read_text()), 0.0)
            if at == root:
                break


def _free_on_machine() -> float:
    """Return the bytes that the machine has available, or all its memory where it does not say; infinite where neither
    is known."""
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
    """Return a sentence that refuses work that takes ``nbytes`` bytes of memory: ``WHAT needs about 3 TiB of memory,
    and 60 GiB are free: expected fewer ranks``, ``what`` being a name of the work. None where as much memory is free,
    and always for at most 256 MiB."""
    if nbytes <= _ALWAYS or nbytes <= (free := free_memory()):
        return None
    return f"{what} needs about {format_size(nbytes)} of memory, and {format_size(free)} are free: expected fewer ranks"


def require_memory(nbytes: float, what: str) -> None:
    """Raise UnsupportedError unless work that takes ``nbytes`` bytes fits into free memory; at most 256 MiB always fit.

    Raises:
        UnsupportedError: the memory is not free; the message is that of :func:`lacking_memory` and begins with
            ``what``, a name of the work.
    """
    if (why := lacking_memory(nbytes, what)) is not None:
        raise UnsupportedError(why)
