"""What the worker processes of the tests of links and exchanges do."""

from __future__ import annotations

import hashlib
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from lightloom.compression import Inceptionn
from lightloom.compression.base import Codec
from lightloom.training.errors import TransportError
from lightloom.training.hierarchy import Groups, aggregator_from_store, hierarchy_from_store
from lightloom.training.hop import Floats
from lightloom.training.rendezvous import Store
from lightloom.training.worker import Worker


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


def _hierarchical_sum(worker: Worker, groups: Groups, name: str, values: Floats, codec: Codec) -> Floats | None:
    if worker.rank == groups.aggregator:
        with aggregator_from_store(_store(), groups, name=name) as aggregator:
            aggregator.serve(values.size, codec)
            return None
    with hierarchy_from_store(_store(), worker.rank, groups, name=name) as place:
        return place.all_reduce(values, codec)[0]


def _store() -> Store:
    group = dist.group.WORLD
    assert group is not None
    store: Store = group.get_group_store()
    return store
