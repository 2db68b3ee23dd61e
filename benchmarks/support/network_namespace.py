"""Network namespaces that the kernel removes by itself. Linux and root only.

A namespace here has no name: a thread lives in it and holds it. When that thread and the processes started in it are
gone, however they went, the kernel takes the namespace and its devices away; two runs can never meet at a name.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from lightloom.core.errors import UnsupportedError

P = ParamSpec("P")
T = TypeVar("T")
_CLONE_NEWNET = 0x40000000
"""Linux, sched.h; Python has ``os.unshare`` from 3.12 on."""


def refusal(what: str, tools: tuple[str, ...] = ("ip", "nsenter")) -> str | None:
    """Why ``what`` cannot have network namespaces here; None when it can."""
    if sys.platform != "linux":
        return f"{what} needs Linux"
    if os.geteuid() != 0:
        return f"{what} needs root: it makes network namespaces and devices"
    for tool in tools:
        if shutil.which(tool) is None:
            return f"{what} needs the {tool} command"
    return None


class Namespace:
    """A network namespace, with its loopback device up, until it is closed or its maker dies."""

    def __init__(self) -> None:
        """Make it.

        Raises:
            UnsupportedError: this system does not let us; ask ``refusal`` first.
        """
        self._inside = ThreadPoolExecutor(1, thread_name_prefix="lightloom-namespace")
        try:
            self.path = self.run(_leave_home)
            self.tool("ip", "link", "set", "lo", "up")
        except BaseException:
            self.close()
            raise

    def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call ``function`` in the thread inside; sockets, threads and processes that it makes are inside too."""
        return self._inside.submit(function, *args, **kwargs).result()

    def command(self, *arguments: str) -> list[str]:
        """The command line that runs ``arguments`` inside, as the same process."""
        return ["nsenter", f"--net={self.path}", *arguments]

    def tool(self, *arguments: str) -> str:
        """What ``ip`` or ``tc``, run inside, prints.

        Raises:
            UnsupportedError: it failed; the message quotes it.
        """
        done = self.run(subprocess.run, arguments, capture_output=True, text=True, check=False)
        if done.returncode:
            raise UnsupportedError(f"{' '.join(arguments)}: {done.stderr.strip() or done.returncode}")
        return str(done.stdout)

    def close(self) -> None:
        """Let go: it vanishes with the last process that still runs inside."""
        self._inside.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> Namespace:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _leave_home() -> str:
    """Move this thread, which must never do anything else again, into a new namespace; the path of it."""
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET):
        reason = os.strerror(ctypes.get_errno())
        raise UnsupportedError(f"cannot make a network namespace: {reason}")
    return f"/proc/{os.getpid()}/task/{threading.get_native_id()}/ns/net"
