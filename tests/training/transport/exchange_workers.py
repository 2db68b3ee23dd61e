"""What the worker processes of the tests of links and exchanges do."""

from __future__ import annotations

import hashlib
import os
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

from lightloom.core.arrays import Float32s
from lightloom.exchange.compression.codec import Codec
from lightloom.exchange.compression.inceptionn import Inceptionn
from lightloom.exchange.transport.channel import TransportError
from lightloom.exchange.transport.hierarchy import (
    Groups,
    aggregate,
    aggregator_from_store,
    hierarchy_from_store,
)
from lightloom.exchange.transport.meeting import Store
from lightloom.exchange.transport.tree import Node, Tree, node_from_store
from lightloom.exchange.transport.worker import Worker
from lightloom.exchange.transport.worker_aggregator import (
    RootTrainer,
    WorkerTrainer,
    flat,
    relay,
)


def whereabouts(worker: Worker) -> dict[str, Any]:
    """Which host this rank is on, and the sum of 1 + rank over a gloo group."""
    total = torch.tensor([1.0 + worker.rank])
    dist.all_reduce(total)
    return {"host": worker.host, "namespace": Path("/proc/self/ns/net").stat().st_ino, "sum": total.item()}


def rings_of_rings(worker: Worker) -> dict[str, Any]:
    """Digests of sums over several hierarchies, their error in multiples of the bound, and what a death looks like."""
    codec, size = Inceptionn(bound=2**-10), 100_003
    shapes = {"2 of 4": Groups.of(2, 4), "4 of 2": Groups.of(4, 2), "aggregator": Groups(((0, 1, 2), (3, 4, 5, 6)), 7)}
    values = [np.random.default_rng(rank).laplace(0, 2e-3, size).astype(np.float32) for rank in range(worker.size)]
    digests, encodings = {}, {}
    for name, groups in shapes.items():
        exact = np.sum(values[: 8 if groups.aggregator is None else 7], axis=0, dtype=np.float64)
        total = _hierarchical_sum(worker, groups, name, values[worker.rank], codec)
        digests[name] = None if total is None else hashlib.sha256(total.tobytes()).hexdigest()
        encodings[name] = 0.0 if total is None else float(np.abs(total - exact).max()) / 2**-10
    with hierarchy_from_store(_store(), worker.rank, shapes["2 of 4"], name="death") as place:
        try:
            for step in range(1000):
                if step == 3 and worker.rank == worker.arguments["victim"]:
                    os.kill(os.getpid(), signal.SIGKILL)
                place.all_reduce(values[worker.rank], codec)
        except TransportError as error:
            return {"digests": digests, "encodings": encodings, "death": f"{type(error).__name__}: {error}"}
    raise AssertionError("nobody died")


def _hierarchical_sum(worker: Worker, groups: Groups, name: str, values: Float32s, codec: Codec) -> Float32s | None:
    if worker.rank == groups.aggregator:
        with aggregator_from_store(_store(), groups, name=name) as node:
            aggregate(node, groups, values.size, codec)
            return None
    with hierarchy_from_store(_store(), worker.rank, groups, name=name) as place:
        return place.all_reduce(values, codec)[0]


def _store() -> Store:
    group = dist.group.WORLD
    assert group is not None
    store: Store = group.get_group_store()
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
