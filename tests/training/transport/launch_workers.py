"""What the processes of the launcher's tests do; each function runs in every rank of a gloo group."""

from __future__ import annotations

import os
import time

import torch
from torch.distributed.distributed_c10d import _get_process_group_store

from lightloom.exchange.transport.worker import Worker


def hang(worker: Worker) -> None:
    time.sleep(600)


def speak(worker: Worker) -> list[int]:
    """Rank 0 returns at once; the last one checks that it stays in the group nevertheless."""
    print("hello from a worker")  # noqa: T201
    group = torch.distributed.group.WORLD
    assert group is not None
    store = _get_process_group_store(group)
    if worker.rank == 0:
        store.set("process", str(os.getpid()))
    else:
        process = int(store.get("process"))
        time.sleep(0.5)
        os.kill(process, 0)
    return [worker.rank, worker.size, worker.arguments["number"]]


def fail_at_once(worker: Worker) -> None:
    """The last rank fails while the others wait for it."""
    if worker.rank == worker.size - 1:
        raise ValueError("no such thing")
    torch.distributed.barrier()


def listening(worker: Worker) -> list[str]:
    """Addresses at which the store of the launch and this rank accept connections."""
    import psutil

    store, own = int(os.environ["MASTER_PORT"]), os.getpid()
    connections = psutil.net_connections("tcp")
    listening = [(each.pid, *each.laddr) for each in connections if each.status == psutil.CONN_LISTEN and each.laddr]
    return [str(host) for pid, host, port in listening if port == store or pid == own]
