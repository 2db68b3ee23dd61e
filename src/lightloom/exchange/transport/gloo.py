"""Set up a gloo group, and try again where connecting fails before anything was exchanged.

Gloo connects every rank to every other one. On a busy machine one of these connections may break while the others are
made ("Connection closed by peer"): one rank fails, and the others wait for it until their timeout. Here the rank that
fails says so in the store, all ranks leave that try, and meet in the next one under another prefix of the store.
"""

import logging
import threading
import time
from collections.abc import Callable

import torch.distributed as dist
from torch.distributed import PrefixStore, Store  # type: ignore[attr-defined]

from lightloom.core.errors import UnsupportedError

TRIES = 4
"""Most tries to connect."""
_POLL_SECONDS = 0.02
_LOG = logging.getLogger("lightloom.exchange")


def log_fault(rank: int, number: int, fault: str) -> None:
    """Log a warning that says why try ``number`` of this rank failed."""
    _LOG.warning("rank %d: try %d of %d to connect failed (%s)", rank, number, TRIES, fault)


class Attempt:
    """One try of all ranks to connect.

    No rank passes before all have succeeded: one that left the group at once would break what slower ranks still do.
    """

    def __init__(
        self,
        make: Callable[[Store], object],
        store: Store,
        rank: int,
        size: int,
        *,
        name: str,
        number: int,
        timeout: float,
        lost: Callable[[], str] = lambda: "",
    ) -> None:
        """Try, and state the ``fault`` afterwards.

        Args:
            make: connects this rank through the store that it is given, or raises. It runs in a thread, which is left
                behind where another rank fails.
            name, number: tell this try from others in the store.
            timeout: time for this try, in seconds.
            lost: returns why a rank will not come, as soon as that is known.
        """
        self.fault = ""
        """Why the try failed, in the words of the rank that failed first; empty if it succeeded."""
        self._own_fault = ""
        prefix = f"lightloom/{name}/try {number}"
        self._store = PrefixStore(prefix, store)
        self._rank, self._size = rank, size
        # A connection of its own to the store, which is busy as long as ``make`` waits for a rank that never comes.
        # Stores of older torch have none: ``make`` then keeps this rank until its timeout.
        clone = getattr(store, "clone", None)
        own = PrefixStore(f"{prefix}/group", store if clone is None else clone())
        thread = threading.Thread(target=self._run, args=(make, own), daemon=True, name="lightloom-connect")
        thread.start()
        self._await_all(thread, time.monotonic() + timeout, lost)

    def _run(self, make: Callable[[Store], object], store: Store) -> None:
        """Call ``make``, and keep the first line of what it raises as this rank's fault."""
        try:
            make(store)
        except Exception as error:
            self._own_fault = (str(error).strip() or type(error).__name__).splitlines()[0]

    def _await_all(self, thread: threading.Thread, deadline: float, lost: Callable[[], str]) -> None:
        """Return once all ranks have succeeded, or one has failed, is lost or has waited too long, whose words become
        ``fault``."""
        told = False
        while not self._store.check(["complete"]):
            if self._store.check(["fault"]):
                self.fault = self._store.get("fault").decode()
                return
            if not told and not thread.is_alive():
                told = True
                self._tell()
                continue
            if words := lost():
                self._store.compare_set("fault", "", words)
            elif time.monotonic() >= deadline:
                self._store.compare_set("fault", "", f"rank {self._rank} waited in vain for the others")
            elif thread.is_alive():
                thread.join(_POLL_SECONDS)
            else:
                time.sleep(_POLL_SECONDS)

    def _tell(self) -> None:
        """Tell the others in the store how ``make`` ended on this rank; the last rank to succeed completes the try."""
        if self._own_fault:
            self._store.compare_set("fault", "", f"rank {self._rank}: {self._own_fault}")
        elif self._store.add("connected", 1) == self._size:
            self._store.set("complete", "")


# The process group of torch.distributed that hooks and executors use.


def group_or_default(group: dist.ProcessGroup | None) -> dist.ProcessGroup:
    """Return ``group``, or the default process group.

    Raises:
        UnsupportedError: there is no process group.
    """
    group = group if group is not None else dist.group.WORLD
    if group is None:
        raise UnsupportedError("no process group: call torch.distributed.init_process_group first")
    return group
