"""DDP step times behind limited links: ``python -m benchmarks.training.links [--json FILE] [--rounds N]``. Linux, root.

Four ranks on this host, each in a network namespace of its own, train an MLP of 22.4 MB (784-2000-2000-10, batch 25 a
rank, SGD with momentum) over links of 1 and 10 Gbit/s and without a limit: without a hook, with torch's fp16 and
PowerSGD hooks, with every exchange of lightloom, and with two that step aside where the plain exchange is faster. In
every round each takes its turn, in an order that rotates, with a fresh model; the median step of a turn counts, and for
exchanges every H steps the mean of a whole period. MNIST is read from ``LIGHTLOOM_DATA``; without it the digits are
noise with labels, and compress better or worse than real ones.

Ranks share this host's cores, so that other work on it shows in every row: ``load_before`` in the file says how much
there was. PowerSGD of torch has one bucket: with several it launches collectives in callbacks, which gloo aborts.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from typing import Any

from benchmarks.support.limited_links import launch_limited
from lightloom import exchange
from lightloom.core.errors import LightloomError
from lightloom.core.files import check_writable, write_atomically
from lightloom.core.results import provenance
from lightloom.exchange.methods import compared
from lightloom.exchange.transport.worker import Worker

RANKS = 4
RATES = {"1 Gbit/s": 1e9, "10 Gbit/s": 10e9, "no limit": None}
SIZES = (784, 2000, 2000, 10)
BATCH = 25
WARM_UP, TIMED = 5, 10
"""Steps."""
EXCHANGES = [method for method in compared() if exchange.find(method).synchronous]
ASIDE = ("int8", "int4")
"""Exchanges that also run with step-aside."""
PERIODIC = [method for method in compared() if not exchange.find(method).synchronous]
NAMES = (
    {"none": "no hook", "fp16": "torch fp16_compress_hook", "torch-powersgd": "torch powerSGD_hook, rank 1, one bucket"}
    | {f"exchange {method}": method for method in EXCHANGES}
    | {f"aside {method}": f"{method}, steps aside" for method in ASIDE}
    | {f"periodic {method}": f"{method}, mean of a period" for method in PERIODIC}
)
LIMIT = 600.0
"""Seconds for one round at one rate."""


@dataclass(slots=True)
class Turn:
    """One configuration, once."""

    seconds: float
    """Median step."""
    sent: float
    """Bytes that this rank's link carried away, a step, headers and acknowledgements included."""
    loss: float
    aside: bool = False
    ratio: float = 1.0


def train_round(worker: Worker) -> dict[str, Any]:
    """Every configuration once, in one rank."""
    import torch

    torch.set_num_threads(1)
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("lightloom.exchange")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    images, labels, data = digits(worker)
    turns = {}
    modes = worker.arguments["modes"]
    for place in range(len(modes)):
        mode = modes[(worker.arguments["round"] + place) % len(modes)]
        taken = turn(worker, mode, images, labels)
        turns[mode] = {name: getattr(taken, name) for name in Turn.__slots__}
    return {"turns": turns, "log": lines, "data": data}


def turn(worker: Worker, mode: str, images: Any, labels: Any) -> Turn:
    import torch
    from torch import nn

    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(SIZES):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    net = nn.Sequential(*layers[:-1])
    kind, _, method = mode.partition(" ")
    model, state = attached(kind, method, net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    outer = exchange.periodic(net, optimizer, method) if kind == "periodic" else None
    draw = torch.Generator().manual_seed(worker.rank)
    loss = torch.zeros(())

    def step() -> None:
        nonlocal loss
        chosen = torch.randint(len(images), (BATCH,), generator=draw)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images[chosen]), labels[chosen])
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if outer is not None:
            outer.step()

    period = 1 if outer is None else exchange.find(method).every
    for _ in range(50 if kind == "aside" else period if outer is not None else WARM_UP):
        step()
        if kind == "aside" and state.statistics.decisions:
            break
    seconds, before = [], link_bytes()
    timed = TIMED if outer is None else period
    for _ in range(timed):
        began = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - began)
    taken = Turn(
        median(seconds) if outer is None else fmean(seconds), (link_bytes() - before) / timed, float(loss.detach())
    )
    if state is not None:
        taken.ratio = state.statistics.total.ratio
        taken.aside = kind == "aside" and state.statistics.decisions[-1].use_plain
        state.close()
    if outer is not None:
        outer.close()
    return taken


def attached(kind: str, method: str, net: Any) -> tuple[Any, Any]:
    """The model for one configuration, and our hook's state."""
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
    from torch.nn.parallel import DistributedDataParallel

    if kind == "periodic":
        return net, None
    if kind == "torch-powersgd":
        model = DistributedDataParallel(net, bucket_cap_mb=1000)
        options = power.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2)
        model.register_comm_hook(options, power.powerSGD_hook)
        return model, None
    model = DistributedDataParallel(net)
    if kind == "fp16":
        model.register_comm_hook(None, fp16_compress_hook)
    if kind in ("none", "fp16"):
        return model, None
    return model, exchange.attach(model, method, adaptive=kind == "aside")


def digits(worker: Worker) -> tuple[Any, Any, str]:
    """Images in [0, 1] and labels of this rank, and what they are."""
    import torch

    from lightloom.exchange.datasets import training_digits

    folder = worker.arguments["data"]
    if folder is None:
        draw = torch.Generator().manual_seed(1)
        images, labels = torch.rand(5000, SIZES[0], generator=draw), torch.randint(10, (5000,), generator=draw)
        return images, labels, "noise with labels"
    found = training_digits(Path(folder))
    own = slice(worker.rank, None, worker.size)
    return torch.tensor(found.images[own]).float() / 255, torch.tensor(found.labels[own]).long(), "MNIST"


def link_bytes() -> int:
    """Bytes that have left by this namespace's link."""
    for line in Path("/proc/self/net/dev").read_text(encoding="ascii").splitlines():
        device, _, numbers = line.partition(":")
        if device.strip() == "eth0":
            return int(numbers.split()[8])
    return 0


def measure(rate: str, rounds: int, data: str | None, modes: list[str]) -> dict[str, Any]:
    """The table of one rate: seconds are means over ranks of a turn's median step."""
    found: list[list[Any]] = []
    for number in range(rounds):
        arguments = {"round": number, "data": data, "modes": modes}
        outcomes = launch_limited(
            "benchmarks.training.links:train_round", RANKS, LIMIT, arguments, rate_bits=RATES[rate]
        )
        found.append([outcome.value for outcome in outcomes])
        print(f"{rate}: round {number + 1} of {rounds}", file=sys.stderr)

    def column(mode: str, name: str, number: int) -> float:
        return sum(float(one["turns"][mode][name]) for one in found[number]) / RANKS

    seconds = {mode: [column(mode, "seconds", n) for n in range(rounds)] for mode in modes}
    rows = {}
    for mode in modes:
        ratios = [own / none for own, none in zip(seconds[mode], seconds["none"], strict=True)]
        rows[mode] = {
            "name": NAMES[mode],
            "step_s": median(seconds[mode]),
            "step_s_rounds": seconds[mode],
            "over_none": median(ratios),
            "over_none_range": [min(ratios), max(ratios)],
            "bytes_sent_step": median(column(mode, "sent", n) for n in range(rounds)),
            "last_loss": median(column(mode, "loss", n) for n in range(rounds)),
            "ratio": median(column(mode, "ratio", n) for n in range(rounds)),
            "aside_rounds": sum(ranks[0]["turns"][mode]["aside"] for ranks in found),
        }
    log = [f"round {number + 1}: {line}" for number, ranks in enumerate(found) for line in ranks[0]["log"]]
    return {"rate_bits": RATES[rate], "data": found[0][0]["data"], "rows": rows, "log": log}


def print_table(rate: str, table: dict[str, Any], write: Callable[[str], None] = print) -> None:
    write(f"\n{rate}, {table['data']}                       step ms   x none (rounds)        MB sent a step")
    for row in table["rows"].values():
        low, high = row["over_none_range"]
        write(
            f"{row['name']:42}{1e3 * row['step_s']:8.1f}   {row['over_none']:.3f} ({low:.3f} .. {high:.3f})"
            f"{row['bytes_sent_step'] / 1e6:10.2f}"
        )
    write("\n".join(table["log"]))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training.links")
    parser.add_argument("--json", type=Path, help="also write everything measured to this file")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--rates", nargs="+", choices=list(RATES), default=list(RATES), metavar="RATE")
    parser.add_argument("--modes", nargs="+", choices=list(NAMES), default=list(NAMES), metavar="MODE")
    options = parser.parse_args()
    modes = ["none", *(mode for mode in options.modes if mode != "none")]
    if options.json is not None:
        check_writable(options.json)
    if options.rounds < 1:
        parser.error(f"--rounds {options.rounds}: expected at least 1")
    data = os.environ.get("LIGHTLOOM_DATA")
    configuration = {"ranks": RANKS, "sizes": SIZES, "batch": BATCH, "warm_up": WARM_UP, "timed": TIMED}
    configuration |= {"rounds": options.rounds, "rates": RATES}
    host = {"cores": os.cpu_count(), "load_before": os.getloadavg()[0]}
    tables = {}
    for rate in options.rates:
        tables[rate] = measure(rate, options.rounds, data, modes)
        print_table(rate, tables[rate])
    if options.json is not None:
        found = {"configuration": configuration, "host": host, "tables": tables}
        found["provenance"] = provenance(configuration, seed=0)
        write_atomically(options.json, json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    try:
        main()
    except LightloomError as error:
        sys.exit(f"error: {error}")
