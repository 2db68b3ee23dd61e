"""What the worker processes of the tests of links and exchanges do."""

from __future__ import annotations

import hashlib
import os
import signal
import threading
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from benchmarks.support.worker_aggregator import (
    Node,
    RootTrainer,
    Tree,
    WorkerTrainer,
    flat,
    node_from_store,
    relay,
)
from torch import nn
from torch.distributed.distributed_c10d import _get_process_group_store

from lightloom.exchange.compression.inceptionn import Inceptionn
from lightloom.exchange.transport.channel import TransportError
from lightloom.exchange.transport.meeting import Store
from lightloom.exchange.transport.worker import Worker


def whereabouts(worker: Worker) -> dict[str, Any]:
    """Which host this rank is on, and the sum of 1 + rank over a gloo group."""
    total = torch.tensor([1.0 + worker.rank])
    dist.all_reduce(total)
    return {"host": worker.host, "namespace": Path("/proc/self/ns/net").stat().st_ino, "sum": total.item()}


def _store() -> Store:
    group = dist.group.WORLD
    assert group is not None
    store: Store = _get_process_group_store(group)
    return store


def small_net(seed: int = 0) -> nn.Module:
    draw = torch.Generator().manual_seed(seed)  # of its own: threads share torch's
    net = nn.Sequential(nn.Linear(20, 61), nn.ReLU(), nn.Linear(61, 3))
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=draw) / 5)
    return net


def backward_of(model: nn.Module, rank: int, step: int) -> None:
    """Leave the gradients of this rank's batch."""
    draw = torch.Generator().manual_seed(1000 * step + rank)
    x = torch.randn(32, 20, generator=draw)
    model.zero_grad()
    nn.functional.cross_entropy(model(x), x[:, :3].argmax(1)).backward()  # type: ignore[no-untyped-call]


def tree_of_aggregators(worker: Worker) -> dict[str, Any]:
    """The weights after some steps, and what the death of an aggregator looks like."""
    codec, tree, steps = Inceptionn(bound=2**-10), Tree.of_groups((3, 2)), 5
    digest, death = None, ""

    def run(node: Node, steps: int) -> nn.Module | None:
        model = small_net()
        if node.parent is None:
            root = RootTrainer(node, model, torch.optim.SGD(model.parameters(), lr=0.1), codec)
            for _ in range(steps):
                root.step()
        elif node.children:
            relay(node, flat(model.parameters()).size, steps, codec)
        else:
            trainer = WorkerTrainer(node, model, codec)
            for step in range(steps):
                backward_of(model, worker.rank, step)
                trainer.step()
            return model
        return None

    with node_from_store(_store(), tree, worker.rank) as node:
        model = run(node, steps)
        if model is not None:
            digest = hashlib.sha256(flat(model.parameters()).tobytes()).hexdigest()
    with node_from_store(_store(), tree, worker.rank) as node:
        try:
            if worker.rank == worker.arguments["victim"]:
                threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGKILL)).start()
            run(node, 1_000_000)
        except TransportError as error:
            death = f"{type(error).__name__}: {error}"
    return {"digest": digest, "death": death}
