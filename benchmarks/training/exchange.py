"""Figure 12 measured: ``python -m benchmarks.training.exchange [--json FILE] [--rounds N] [--gbit RATE]``. Linux, root.

Four workers and one more process, the aggregator, each in a network namespace of its own behind a link of 1 Gbit/s,
train HDC and an MLP of 22.4 MB in four ways: worker-aggregator (WA), the same with compressed gradients (WA+C), ring
(INC), ring with compression on every hop (INC+C), codec inceptionn:2^-10, no error feedback, as in the paper. In every
round each takes its turn, in an order that rotates; the first step of a turn does not count. Every way trains on with a
model of its own; all begin with the same weights, trained for a while by one process. MNIST is read from
``LIGHTLOOM_DATA``; without it the digits are noise with labels, and compress better or worse than real ones.

A step is computing, a barrier, exchanging, updating. Communication is the slowest worker's time from the barrier to the
sum (INC) or to the new weights, less the aggregator's update (WA): sums and codecs count as communication in all four.
All processes share the cores of one machine, so computing, sums, codecs and packets are slower than on machines of
their own; step times suffer most from it, communication is what can be compared. Bytes are what the links' devices
count, acknowledgements included; of packets that offloading merged they count one header.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.support.exchange_report import (
    CONFIGURATIONS,
    MODELS,
    TIMED,
    WORKERS,
    order,
    print_table,
    reductions,
    table,
)
from benchmarks.support.limited_links import launch_limited
from benchmarks.training.links import SIZES, digits, link_bytes
from lightloom.core.errors import ConfigError, InputError
from lightloom.core.files import check_writable, write_atomically
from lightloom.core.results import provenance
from lightloom.exchange.transport.worker import Worker

if TYPE_CHECKING:
    from torch import nn

CODEC = "inceptionn:2^-10"
BATCH, LEARNING_RATE, MOMENTUM, WEIGHT_DECAY = 25, 0.1, 0.9, 5e-5
"""Table I, column HDC."""
HEAD_START = {"HDC": 400, "MLP 22 MB": 100}
"""Steps of one process before the first round."""
UNTIMED = 1
"""Steps at the beginning of a turn that do not count, ahead of ``TIMED`` that do."""
LIMIT = 900.0
"""Seconds for everything."""
Step = Callable[[], tuple[float, float, float, float]]
"""One step: seconds of computing, exchanging, updating (0 on workers of WA), and float32 bytes for each byte sent."""


def rounds(worker: Worker) -> dict[str, Any]:
    """All rounds of all models, in one rank: by model and configuration, a list of timed steps for each round."""
    import torch

    torch.set_num_threads(1)
    images, labels, data = digits(worker)
    return {"data": data, "models": {model: _rounds(worker, model, images, labels) for model in MODELS}}


def _rounds(worker: Worker, model: str, images: Any, labels: Any) -> dict[str, list[list[dict[str, float]]]]:
    import torch.distributed as dist

    turns: dict[str, list[list[dict[str, float]]]] = {name: [] for name in CONFIGURATIONS}
    weights = _head_start(worker, model, images, labels)
    with ExitStack() as opened:
        steps = {name: _step(worker, name, model, weights, images, labels, opened) for name in CONFIGURATIONS}
        for round_ in range(worker.arguments["rounds"]):
            for place in range(len(CONFIGURATIONS)):
                name = CONFIGURATIONS[(round_ + place) % len(CONFIGURATIONS)]
                dist.barrier()
                taken = [_timed(steps[name]) for _ in range(UNTIMED + TIMED)]
                turns[name].append(taken[UNTIMED:])
    return turns


def _timed(step: Step) -> dict[str, float]:
    sent, began = link_bytes(), time.perf_counter()
    computing, exchanging, updating, ratio = step()
    return {
        "step": time.perf_counter() - began,
        "computing": computing,
        "exchanging": exchanging,
        "updating": updating,
        "ratio": ratio,
        "bytes": float(link_bytes() - sent),
    }


def net(name: str) -> nn.Sequential:
    """Seeded, so that all ranks have the same."""
    import torch
    from torch import nn

    from lightloom.models.torch.zoo.chains import hdc

    torch.manual_seed(0)
    if name == "HDC":
        return hdc().layers
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(SIZES):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def _optimizer(model: nn.Module) -> Any:
    import torch

    return torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY)


def _backward(worker: Worker, model: nn.Module, images: Any, labels: Any) -> Iterator[None]:
    """Leave the gradients of a batch, again and again."""
    import torch

    draw = torch.Generator().manual_seed(worker.rank)
    while True:
        chosen = torch.randint(len(images), (BATCH,), generator=draw)
        model.zero_grad()
        torch.nn.functional.cross_entropy(model(images[chosen]), labels[chosen]).backward()  # type: ignore[no-untyped-call]
        yield


def _head_start(worker: Worker, name: str, images: Any, labels: Any) -> dict[str, Any]:
    """Weights after some steps of rank 0 alone, on all ranks."""
    import torch.distributed as dist

    model = net(name)
    if worker.rank == 0:
        optimizer, backward = _optimizer(model), _backward(worker, model, images, labels)
        for _ in range(HEAD_START[name]):
            next(backward)
            optimizer.step()
    for parameter in model.parameters():
        dist.broadcast(parameter.data, 0)
    return model.state_dict()


def _step(
    worker: Worker, name: str, model_name: str, weights: dict[str, Any], images: Any, labels: Any, opened: ExitStack
) -> Step:
    """Connect one configuration; all ranks take its steps together."""
    import torch.distributed as dist

    from lightloom.exchange.compression.registry import find

    model = net(model_name)
    model.load_state_dict(weights)
    codec = find(CODEC) if name.endswith("+C") else None
    group = dist.group.WORLD
    assert group is not None
    connect = _worker_aggregator if name.startswith("WA") else _ring
    backward = _backward(worker, model, images, labels)
    return connect(worker, group.get_group_store(), model, codec, backward, opened)


def _worker_aggregator(
    worker: Worker, store: Any, model: nn.Module, codec: Any, backward: Iterator[None], opened: ExitStack
) -> Step:
    import torch.distributed as dist

    from benchmarks.support.worker_aggregator import RootTrainer, Tree, WorkerTrainer, node_from_store

    node = opened.enter_context(node_from_store(store, Tree.star(WORKERS), worker.rank, host=worker.host))
    if worker.rank == WORKERS:
        root = RootTrainer(node, model, _optimizer(model), codec)

        def serve() -> tuple[float, float, float, float]:
            dist.barrier()
            return 0.0, 0.0, root.step().updating, 1.0

        return serve
    trainer = WorkerTrainer(node, model, codec)

    def train() -> tuple[float, float, float, float]:
        began = time.perf_counter()
        next(backward)
        computed = time.perf_counter()
        dist.barrier()
        ready = time.perf_counter()
        traffic = trainer.step()
        return computed - began, time.perf_counter() - ready, 0.0, traffic.nbytes_raw / traffic.nbytes_sent

    return train


def _ring(
    worker: Worker, store: Any, model: nn.Module, codec: Any, backward: Iterator[None], opened: ExitStack
) -> Step:
    import torch.distributed as dist

    from benchmarks.support.socket_ring import ring_all_reduce, ring_from_store
    from benchmarks.support.worker_aggregator import flat_gradients, set_gradients, trainable

    if worker.rank == WORKERS:

        def look_on() -> tuple[float, float, float, float]:
            dist.barrier()
            return 0.0, 0.0, 0.0, 1.0

        return look_on
    ring = opened.enter_context(ring_from_store(store, worker.rank, WORKERS, host=worker.host))
    parameters, optimizer = trainable(model), _optimizer(model)

    def train() -> tuple[float, float, float, float]:
        began = time.perf_counter()
        next(backward)
        computed = time.perf_counter()
        dist.barrier()
        ready = time.perf_counter()
        total, traffic = ring_all_reduce(ring, flat_gradients(parameters), codec)
        exchanged = time.perf_counter()
        total /= WORKERS
        set_gradients(parameters, total)
        optimizer.step()
        updating = time.perf_counter() - exchanged
        return computed - began, exchanged - ready, updating, traffic.nbytes_raw / traffic.nbytes_sent

    return train


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training.exchange")
    parser.add_argument("--json", type=Path, help="also write everything measured to this file")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--gbit", type=float, default=1.0, help="rate of every link, each way, Gbit/s")
    options = parser.parse_args()
    if options.json is not None:
        check_writable(options.json)
    if options.rounds < 1:
        raise ConfigError(f"--rounds {options.rounds}: expected at least 1")
    data, rate_bits = os.environ.get("LIGHTLOOM_DATA"), options.gbit * 1e9
    configuration = {"workers": WORKERS, "codec": CODEC, "models": MODELS, "batch": BATCH, "head_start": HEAD_START}
    configuration |= {"learning_rate": LEARNING_RATE, "momentum": MOMENTUM, "weight_decay": WEIGHT_DECAY}
    configuration |= {"rate_bits": rate_bits, "rounds": options.rounds, "untimed": UNTIMED, "timed": TIMED}
    arguments = {"rounds": options.rounds, "data": data}
    ended = launch_limited("benchmarks.training.exchange:rounds", WORKERS + 1, LIMIT, arguments, rate_bits=rate_bits)
    outcomes = [outcome.value for outcome in ended]
    tables = {model: table(outcomes, model) for model in MODELS}
    what = (
        f"{WORKERS} workers and an aggregator on {os.cpu_count()} shared cores, links of {options.gbit:g} Gbit/s, "
        f"{outcomes[0]['data']}, {CODEC}; computing is slowed down by sharing, communication is what is compared"
    )
    print(what)
    for model, rows in tables.items():
        print_table(model, rows)
    if options.json is not None:
        content = {
            "what": what,
            "configuration": configuration,
            "models": tables,
            "order": {model: order(rows) for model, rows in tables.items()},
            "reductions": {model: reductions(rows) for model, rows in tables.items()},
            "provenance": provenance(configuration, seed=0),
        }
        write_atomically(options.json, json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        sys.exit(f"python -m benchmarks.training.exchange: {error}")
