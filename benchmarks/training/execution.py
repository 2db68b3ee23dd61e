"""Schedules beside gloo: ``python -m benchmarks.training.execution [--ranks 8] [--rounds 9] [--json FILE]``.

All-reduces of float32 by registered algorithms and by a synthesized schedule, and gloo's own, in one process group: in
every round each takes its turn, in an order that rotates. A time is the median over rounds of the slowest rank's, from
a barrier; ``gloo`` is ``torch.distributed.all_reduce``, in C++, the others are programs in Python over its ``isend``
and ``irecv``, which compare headers first. What headers cost is measured with tensors of no values.

Everything goes over one machine's loopback, whose processes share its cores: there are no circuits, distances or
wavelengths, and nothing here says which schedule is fast on a ring. It says what executing one costs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.support.measure import cpu_name, exit_clearly
from lightloom.core.errors import ConfigError
from lightloom.core.files import check_writable, write_atomically
from lightloom.core.results import provenance
from lightloom.exchange.transport.launch import launch
from lightloom.exchange.transport.worker import Worker

if TYPE_CHECKING:
    from lightloom.collectives.schedule.columns import Schedule

SIZES = (0, 10_000, 100_000, 1_000_000, 10_000_000)
"""Bytes of a rank's vector."""
NAMES = ("ring", "ring-two-way", "halving-doubling", "recursive-doubling", "one-stage", "binomial-tree", "optree")
LIMIT = 500.0
"""Seconds for everything."""


def schedules(ranks: int, nbytes: float) -> dict[str, Schedule]:
    """Verified schedules by name."""
    from lightloom.collectives.collective import Collective
    from lightloom.collectives.registry import build, find
    from lightloom.collectives.synthesis.synthesized import synthesized
    from lightloom.collectives.verify.verifier import verify
    from lightloom.machines.fabrics.wdm_ring import WdmRing

    fabric = WdmRing(ranks=ranks, wavelengths=8, conversion_time=1e-6)
    wanted = Collective("all-reduce", ranks, nbytes)
    found = {name: build(find(name), wanted, fabric) for name in NAMES}
    found["synthesized"] = synthesized(wanted, fabric)
    verify(found["synthesized"], fabric)
    return found


def rounds(worker: Worker) -> dict[str, dict[str, list[float]]]:
    """Seconds of this rank by size and name, one for each round."""
    import torch

    torch.set_num_threads(1)
    return {str(nbytes): _rounds(worker, nbytes) for nbytes in SIZES}


def _rounds(worker: Worker, nbytes: int) -> dict[str, list[float]]:
    import torch
    import torch.distributed as dist

    from lightloom.exchange.execution import ScheduleExecutor

    tensor = torch.ones(nbytes // 4)
    ways: dict[str, Callable[[Any], Any]] = {"gloo": dist.all_reduce}
    for name, schedule in schedules(worker.size, float(max(nbytes, 1))).items():
        ways[name] = ScheduleExecutor(schedule)
    names = list(ways)
    taken: dict[str, list[float]] = {name: [] for name in names}
    for round_ in range(worker.arguments["rounds"] + 1):
        for place in range(len(names)):
            name, own = names[(round_ + place) % len(names)], tensor.clone()
            dist.barrier()
            began = time.perf_counter()
            ways[name](own)
            if round_:
                taken[name].append(time.perf_counter() - began)
    return taken


def summary(found: list[dict[str, dict[str, list[float]]]]) -> dict[str, dict[str, float]]:
    """Median over rounds of the slowest rank's seconds, by name and size."""
    return {
        name: {
            size: statistics.median(max(times) for times in zip(*(each[size][name] for each in found), strict=True))
            for size in found[0]
        }
        for name in next(iter(found[0].values()))
    }


def _print_table(seconds: dict[str, dict[str, float]]) -> None:
    print(f"{'ms, all-reduce of':20}" + "".join(f"{int(size):>12,} B" for size in seconds["gloo"]))
    for name, times in seconds.items():
        print(f"{name:20}" + "".join(f"{1e3 * time_:14.2f}" for time_ in times.values()))


def work() -> None:
    """Measure, print a table, write JSON where asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training.execution")
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.json is not None:
        check_writable(options.json)
    if options.rounds < 1:
        raise ConfigError(f"--rounds {options.rounds}: expected at least 1")
    host = {"cpu": cpu_name(), "cores": os.cpu_count(), "load_before": os.getloadavg()[0]}
    arguments = {"rounds": options.rounds}
    outcomes = launch("benchmarks.training.execution:rounds", options.ranks, LIMIT, arguments)
    seconds = summary([outcome.value for outcome in outcomes])
    print(f"{options.ranks} processes on {host['cores']} shared cores, load {host['load_before']:.1f} before; loopback")
    _print_table(seconds)
    if options.json is not None:
        origin = provenance([options.ranks, options.rounds, list(SIZES), list(NAMES)])
        found = {"ranks": options.ranks, "host": host, "seconds": seconds, "provenance": origin}
        write_atomically(options.json, json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(exit_clearly(work))
