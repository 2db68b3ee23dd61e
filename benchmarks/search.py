"""The bounded search measured: ``python -m benchmarks.search [--json FILE] [--no-large]``.

ResNet-50, Transformer-big and GPT-2 355M on 64 and on 1,024 ranks of a ring and of a circuit switch: every assignment
of degrees, micro-batches, sharding, recomputation, five global batches and three algorithms is bounded; those that can
still win are simulated. CPU seconds, schedules built cold for each row of the table; ``bounded_per_s`` is the rate of
bounding alone once the schedules that give the lines are priced.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from benchmarks.measure import cpu_name, exit_clearly, print_rows
from lightloom.clusters.load import load_cluster
from lightloom.core.files import check_writable, write_atomically
from lightloom.core.provenance import provenance
from lightloom.planner.bounded_search import bounded_search
from lightloom.planner.bounds import admitted, bounds
from lightloom.planner.group_prices import GroupPrices
from lightloom.planner.stage_times import Job
from lightloom.workloads.load import load_workload

MODELS = ("resnet50", "transformer-big", "gpt2-355m")
CLUSTERS = ("sip-ring-1024", "sip-ocs-1024")
ALGORITHMS = ("ring-two-way-striped", "recursive-doubling-striped", "one-stage-striped")
SAMPLES_PER_RANK = (1, 2, 4, 8, 16)
"""Global batches, divided by the ranks."""


def measure(model: str, cluster: str, ranks: int) -> dict[str, Any]:
    """One search, schedules built anew."""
    on, graph = load_cluster(cluster, {"ranks": ranks}), load_workload(model, batch=32)
    started = time.process_time()
    job = Job(graph, on.accelerator, on.fabric, on.training, GroupPrices(on.fabric, on.training))
    space = job.space([ranks * each for each in SAMPLES_PER_RANK], algorithms=ALGORITHMS)
    found = bounded_search(job, space)
    whole = time.process_time() - started
    rows = space.rows(admitted(job, space))
    started = time.process_time()
    bounds(job, rows)
    bounding = time.process_time() - started
    return {
        "model": model, "cluster": cluster, "ranks": ranks, "rows": found.rows, "refused": found.refused,
        "too_large": found.too_large, "bounded": found.bounded, "simulated": len(found.ranking),
        "cpu_s": round(whole, 2), "bounded_per_s": round(len(rows) / bounding),
        "tightness": round(found.winner.bound / found.winner.step_time, 4),
        "samples_per_s": round(1 / found.winner.sample_time), **found.winner.strategy._asdict(),
    }  # fmt: skip


def main() -> int:
    """Measure and print."""
    return exit_clearly(_main)


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    parser.add_argument("--no-large", action="store_true", help="64 ranks only")
    options = parser.parse_args()
    if options.json:
        check_writable(options.json)
    sizes = (64,) if options.no_large else (64, 1024)
    rows: list[dict[str, Any]] = []
    for ranks in sizes:
        for cluster in CLUSTERS:
            for model in MODELS:
                rows.append(measure(model, cluster, ranks))
                print_rows(rows[-1:])
    if options.json:
        document = {"cpu": cpu_name(), "searches": rows, "provenance": provenance({"benchmark": "search"})}
        write_atomically(options.json, json.dumps(document, indent=1))


if __name__ == "__main__":
    raise SystemExit(main())
