"""Worker processes on this host: started, judged by the results that they write, and ended cleanly.

``python -m lightloom.exchange.transport.worker`` is what each process runs. No rank calls the function before all are
connected; where connecting fails, all ranks begin again. No rank leaves before all have a result or have ended, which
the launcher says through the store: a gloo rank that leaves earlier breaks what slower ranks are still doing.

A process that used DDP with gloo may abort *while it exits*, after correct results, where a thread of gloo drops Python
objects then; dropping all objects, waiting, ``destroy_process_group`` and ``os._exit``, in this order, prevent that.
Result files are therefore evidence, exit codes are not.
"""

import gc
import importlib
import json
import os
import sys
import traceback
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

from lightloom.core.files import write_atomically
from lightloom.exchange.transport.channel import TransportError

ALL_DONE = "lightloom/launch/done"
"""Key that the launcher sets in the store once every rank has a result or has ended."""
LOST = "lightloom/launch/lost"
"""Key under which the launcher says in words that a rank has ended before all had a result."""
_TRY = "LIGHTLOOM_TRY"
"""Environment variable: the number of this try to connect."""


@dataclass(frozen=True, slots=True)
class Worker:
    """Argument of a worker function: its place among the ranks, and the caller's arguments."""

    rank: int
    size: int
    arguments: dict[str, Any]
    """Arguments given to ``launch``, from JSON."""
    host: str = "127.0.0.1"
    """IPv4 address of this rank, where the others reach it."""


def main(target: str, result: str, arguments: str, timeout: str) -> NoReturn:
    """Join the process group, call the function ``target``, write its value or its error as JSON, and end the process,
    with exit code 1 after an error, else with 0, once the launcher says that all ranks are done or ``timeout`` has
    passed.

    Rank, number of ranks, address of the store and host come from the environment. Where connecting fails, the process
    starts again, for at most four tries in all; not where the launcher says that a rank has ended, nor on systems that
    are not POSIX.

    Args:
        target: ``module:function``; it is called with a ``Worker``.
        result: path of the file that gets ``{"value": ...}`` or ``{"error": ...}``.
        arguments: JSON object for ``Worker.arguments``.
        timeout: seconds for connecting and for each collective.
    """
    import torch.distributed as dist
    from torch.distributed import Store, TCPStore  # type: ignore[attr-defined]

    from lightloom.exchange.transport.gloo import TRIES, attempt, log_fault

    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    path = Path(result)
    try:
        module, _, name = target.partition(":")
        function = getattr(importlib.import_module(module), name)
        patience = timedelta(seconds=float(timeout))
        store = TCPStore(
            os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), timeout=patience, wait_for_workers=False
        )

        def join(own: Store) -> None:
            """Form the default process group, of gloo, through a store."""
            dist.init_process_group("gloo", store=own, rank=rank, world_size=size, timeout=patience)

        def lost() -> str:
            """Return the launcher's words on a rank that has ended; empty where it has said nothing."""
            return str(store.get(LOST).decode()) if store.check([LOST]) else ""

        number = int(os.environ.get(_TRY, "1"))
        fault = attempt(join, store, rank, size, name="launch", number=number, timeout=float(timeout), lost=lost)
        if fault:
            log_fault(rank, number, fault)
            if number == TRIES or lost() or os.name != "posix":
                raise TransportError(f"rank {rank}: {size} ranks could not connect in {number} tries: {fault}")
            _begin_again(number + 1, [target, result, arguments, timeout])
        value = function(Worker(rank, size, json.loads(arguments), os.environ["LIGHTLOOM_HOST"]))
        write_atomically(path, json.dumps({"value": value}))
    except BaseException as error:
        traceback.print_exc()
        words = str(error).strip().replace("\n", " ")
        write_atomically(path, json.dumps({"error": f"{type(error).__name__}: {words}"}))
        _exit(1)
    with suppress(Exception):
        gc.collect()
        store.wait([ALL_DONE], patience)
        dist.destroy_process_group()
    _exit(0)


def _begin_again(number: int, arguments: list[str]) -> NoReturn:
    """Replace this program by a new one in the same process, whose try to connect is number ``number``, as nothing else
    undoes what a failed set-up leaves."""
    sys.stdout.flush()
    sys.stderr.flush()
    for descriptor in Path("/dev/fd").iterdir():
        if int(descriptor.name) > 2:
            with suppress(OSError):
                os.set_inheritable(int(descriptor.name), False)
    command = [sys.executable, "-m", "lightloom.exchange.transport.worker", *arguments]
    os.execve(sys.executable, command, os.environ | {_TRY: str(number)})


def _exit(code: int) -> NoReturn:
    """Flush both outputs and end the process at once, without cleaning up."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main(*sys.argv[1:])
