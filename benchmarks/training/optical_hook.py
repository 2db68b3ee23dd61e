"""``optical_average`` beside all-reduce: ``python -m benchmarks.training.optical_hook [--json FILE] [--rounds N]``.

Four processes on this host, gloo over loopback, one bucket of 1, 25 and 100 MB of Gaussian gradients. In every round
each takes its turn, in an order that changes, from a barrier until the slowest rank is done: what DDP does by default
(divide, all-reduce), and the hook with the exact mean at 16 and 8 bits. Ratios are of the same round; medians count.
CPU seconds, of all ranks together, say what the machine does for it however busy it is.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.support.measure import cpu_name
from lightloom.core.errors import LightloomError
from lightloom.core.files import check_writable, write_atomically
from lightloom.core.results import provenance
from lightloom.exchange.transport.launch import launch
from lightloom.exchange.transport.worker import Worker

RANKS = 4
MEGABYTES = (1, 25, 100)
"""2^20 bytes each, as DDP counts its buckets."""
WAYS = {"all-reduce": 0, "16 bits": 16, "8 bits": 8}
"""Bits of a code; 0 is float32."""
WARM_UP = 3
LIMIT = 1200.0
"""Seconds for everything."""
TARGET = 1.5
"""Times plain all-reduce at 25 MB that the hook may cost."""


class OneBucket:
    """What DDP hands to its hook: one parameter, the last bucket of the step."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def buffer(self) -> Any:
        """The gradients."""
        return self.values

    def parameters(self) -> list[Any]:
        """The tensor itself, which no model has."""
        return [self.values]

    def is_last(self) -> bool:
        """Always."""
        return True


def time_all(worker: Worker) -> dict[str, dict[str, list[list[float]]]]:
    """Seconds and CPU seconds of every round by size and way, on this rank."""
    import torch
    import torch.distributed as dist

    from lightloom.exchange.distributed.ddp import average_hook
    from lightloom.exchange.hooks import OpticalAverageState

    torch.set_num_threads(1)
    found: dict[str, dict[str, list[list[float]]]] = {}
    for megabytes in worker.arguments["megabytes"]:
        count = megabytes * 2**18
        draw = torch.Generator().manual_seed(worker.rank)
        gradients = torch.randn(count, generator=draw) * 1e-3
        states = {way: OpticalAverageState(bits=bits) for way, bits in WAYS.items() if bits}
        values = gradients.clone()
        seconds: dict[str, list[list[float]]] = {way: [] for way in WAYS}
        for number in range(WARM_UP + worker.arguments["rounds"]):
            for place in range(len(WAYS)):
                way = list(WAYS)[(number + place) % len(WAYS)]
                values.copy_(gradients)
                dist.barrier()
                began, charged = time.perf_counter(), time.process_time()
                if way in states:
                    average_hook(states[way], OneBucket(values)).wait()
                else:
                    dist.all_reduce(values.div_(worker.size))
                dist.barrier()
                seconds[way].append([time.perf_counter() - began, time.process_time() - charged])
        for state in states.values():
            state.close()
        found[f"{megabytes} MB"] = {way: each[WARM_UP:] for way, each in seconds.items()}
    return found


def tables(ranks: list[dict[str, dict[str, list[list[float]]]]]) -> dict[str, Any]:
    """By size and way: the median time of the slowest rank, its ratio to all-reduce in the same round, CPU time."""
    found: dict[str, Any] = {}
    for size in ranks[0]:
        both = {way: list(zip(*(rank[size][way] for rank in ranks), strict=True)) for way in WAYS}
        slowest = {way: [max(wall for wall, _ in each) for each in rounds] for way, rounds in both.items()}
        charged = {way: median(sum(cpu for _, cpu in each) for each in rounds) for way, rounds in both.items()}
        found[size] = {}
        for way, seconds in slowest.items():
            ratios = [own / plain for own, plain in zip(seconds, slowest["all-reduce"], strict=True)]
            found[size][way] = {
                "seconds": median(seconds),
                "fastest_s": min(seconds),
                "over_all_reduce": median(ratios),
                "over_all_reduce_range": [min(ratios), max(ratios)],
                "cpu_seconds": charged[way],
                "cpu_over_all_reduce": charged[way] / charged["all-reduce"],
            }
    return found


def print_table(found: dict[str, Any]) -> None:
    """One line a size and way."""
    print("bucket   way            median ms  fastest ms   x all-reduce (rounds)      CPU ms   x all-reduce")
    for size, ways in found.items():
        for way, row in ways.items():
            low, high = row["over_all_reduce_range"]
            print(
                f"{size:8} {way:13}{1e3 * row['seconds']:11.2f}{1e3 * row['fastest_s']:12.2f}"
                f"{row['over_all_reduce']:9.2f} ({low:.2f} .. {high:.2f}){1e3 * row['cpu_seconds']:17.2f}"
                f"{row['cpu_over_all_reduce']:9.2f}"
            )


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training.optical_hook")
    parser.add_argument("--json", type=Path, help="also write everything measured to this file")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--megabytes", type=int, nargs="+", default=MEGABYTES, help="sizes of the bucket")
    options = parser.parse_args()
    if options.json is not None:
        check_writable(options.json)
    if options.rounds < 1 or min(options.megabytes) < 1:
        parser.error("expected at least one round and one megabyte")
    configuration = {"ranks": RANKS, "megabytes": list(options.megabytes), "rounds": options.rounds, "warm_up": WARM_UP}
    host = {"cpu": cpu_name(), "cores": os.cpu_count(), "load_before": os.getloadavg()[0]}
    outcomes = launch("benchmarks.training.optical_hook:time_all", RANKS, LIMIT, configuration)
    found = tables([outcome.value for outcome in outcomes])
    print_table(found)
    document = {"configuration": configuration, "host": host, "target": TARGET, "sizes": found}
    if options.json is not None:
        document["provenance"] = provenance(configuration, seed=0)
        write_atomically(options.json, json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    try:
        main()
    except LightloomError as error:
        sys.exit(f"error: {error}")
