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
reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
"""Torch's own reduce-scatter of one tensor, which torch 2.13 renamed."""
_POLL_SECONDS = 0.02
_LOG = logging.getLogger("lightloom.exchange")


def log_fault(rank: int, number: int, fault: str) -> None:
    """Log a warning, to the logger ``lightloom.exchange``, that says why try ``number`` (from 1 on) of this rank to
    connect failed; ``fault`` is the reason in words."""
    _LOG.warning("rank %d: try %d of %d to connect failed (%s)", rank, number, TRIES, fault)


def attempt(
    make: Callable[[Store], object],
    store: Store,
    rank: int,
    size: int,
    *,
    name: str,
    number: int,
    timeout: float,
    lost: Callable[[], str] = lambda: "",
) -> str:
    """Try once to connect, together with all other ranks, and return why that failed, in the words of the rank that
    failed first, or an empty text where all succeeded. Running out of time, or what ``lost`` says, counts as a failure;
    neither is raised.

    No rank returns before all have succeeded or one has failed: one that left the group at once would break what slower
    ranks still do.

    Args:
        make: connects this rank through the store that it is given, or raises. It runs in a thread, which is left
            behind where another rank fails.
        store: store that all ranks share.
        rank: this rank.
        size: number of ranks.
        name, number: what the ranks connect for, and the number of the try; they tell this try from others in the
            store.
        timeout: time for this try, in seconds.
        lost: returns why a rank will not come, or an empty text while nothing is known against it.
    """
    prefix = f"lightloom/{name}/try {number}"
    board, faults = PrefixStore(prefix, store), list[str]()
    # A connection of its own to the store, which is busy as long as ``make`` waits for a rank that never comes.
    # Stores of older torch have none: ``make`` then keeps this rank until its timeout.
    clone = getattr(store, "clone", None)
    own = PrefixStore(f"{prefix}/group", store if clone is None else clone())

    def run() -> None:
        """Call ``make``, and keep the first line of what it raises."""
        try:
            make(own)
        except Exception as error:
            faults.append((str(error).strip() or type(error).__name__).splitlines()[0])

    thread = threading.Thread(target=run, daemon=True, name="lightloom-connect")
    thread.start()
    deadline, told = time.monotonic() + timeout, False
    while not board.check(["complete"]):
        if board.check(["fault"]):
            return board.get("fault").decode()
        if not told and not thread.is_alive():
            told = True
            if faults:
                board.compare_set("fault", "", f"rank {rank}: {faults[0]}")
            elif board.add("connected", 1) == size:  # the last rank to succeed
                board.set("complete", "")
        elif words := lost():
            board.compare_set("fault", "", words)
        elif time.monotonic() >= deadline:
            board.compare_set("fault", "", f"rank {rank} waited in vain for the others")
        elif thread.is_alive():
            thread.join(_POLL_SECONDS)
        else:
            time.sleep(_POLL_SECONDS)
    return ""


# The process group of torch.distributed that hooks and executors use.


def group_or_default(group: dist.ProcessGroup | None) -> dist.ProcessGroup:
    """Return ``group``, or the default process group where it is None.

    Raises:
        UnsupportedError: there is no process group.
    """
    group = group if group is not None else dist.group.WORLD
    if group is None:
        raise UnsupportedError("no process group: call torch.distributed.init_process_group first")
    return group
