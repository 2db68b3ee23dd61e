"""The joint search measured: ``python -m benchmarks.splits [--json FILE] [--no-large]``.

ResNet-50, Transformer-big and GPT-2 355M on 64 and on 1,024 ranks of a ring and of a circuit switch: every assignment
of degrees, micro-batches, sharding, recomputation and five global batches, each exchange with the cheapest of all
algorithms, and every placed plan of SiP-ML's kind, is bounded; those that can still win are refined and simulated.
CPU seconds of the whole search, schedules built cold for each row of the table; ``bounded_per_s`` is the rate of the
bounds of all rows at once, with the schedules that give the lines priced. On 64 ranks random placed rows are
simulated too: ``over_first`` and ``over_last`` are their steps over the first and the last bound, median and 95th
percentile.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.support.measure import cpu_name, exit_clearly, print_rows
from lightloom.core.errors import UnsupportedError
from lightloom.core.files import check_writable, write_atomically
from lightloom.core.results import provenance
from lightloom.machines.clusters.cluster import Cluster
from lightloom.machines.clusters.load import load_cluster
from lightloom.models.graph import ComputeGraph
from lightloom.models.zoo import load_workload
from lightloom.planning.pricing.group_prices import GroupPrices
from lightloom.planning.pricing.job import Job
from lightloom.planning.pricing.placed_space import (
    DEFAULT_QUANTA,
    PartTable,
    distinct,
    placed_space,
)
from lightloom.planning.search.bounds import coarse_bound
from lightloom.planning.search.plans import Plan
from lightloom.planning.search.request import KINDS, SearchRequest
from lightloom.planning.search.rows import ClusterRows, PlacedPlans
from lightloom.planning.search.search import search

MODELS = ("resnet50", "transformer-big", "gpt2-355m")
CLUSTERS = ("sip-ring-1024", "sip-ocs-1024")
ROOFLINE = {"accelerator.kernels": None}
"""Accelerators at half of the roofline."""
SAMPLES_PER_RANK = (1, 2, 4, 8, 16)
"""Global batches, divided by the ranks."""
RANDOM = 60
"""Placed rows that are simulated to see how near their bounds are."""


def measure(model: str, cluster: str, ranks: int) -> dict[str, Any]:
    """One search, schedules built anew."""
    on, graph = load_cluster(cluster, set={"ranks": ranks, **ROOFLINE}), load_workload(model, batch=32)
    batches = [ranks * each for each in SAMPLES_PER_RANK]
    started = time.process_time()
    found = search(graph, on, SearchRequest(global_batches=batches, compare=False))
    whole = time.process_time() - started
    winner, counts = found.winner, found.counts
    return {
        "model": model,
        "cluster": cluster,
        "ranks": ranks,
        "rows": counts.rows,
        "refused": counts.refused,
        "too_fine": counts.too_fine,
        "too_large": counts.too_large,
        "placed": counts.placed,
        "simulated": counts.simulated,
        "cpu_s": round(whole, 2),
        "bounded_per_s": round(_bounding(graph, on, batches)),
        "tightness": round(winner.bound / winner.step_time, 4),
        "samples_per_s": round(winner.samples_per_second),
        "winner": f"{winner.label} · {winner.global_batch} samples",
        **{f"slower_{kind}": _slower(found.best_of(kind), winner.sample_time) for kind in KINDS},
    }


def tightness(model: str, cluster: str, ranks: int) -> dict[str, Any]:
    """Simulated steps of random placed rows over their bounds."""
    on, graph = load_cluster(cluster, set={"ranks": ranks, **ROOFLINE}), load_workload(model, batch=32)
    job = Job.of(graph, on.accelerator, on.fabric, on.training, GroupPrices(on.fabric, on.training))
    batches = [ranks * each for each in SAMPLES_PER_RANK]
    table, plans = PartTable(job.model), PlacedPlans(job)
    rows = distinct(job, table, placed_space(on.fabric, batches, DEFAULT_QUANTA)[0])
    look, over = coarse_bound(job, table, rows), []
    for row in np.random.default_rng(0).permutation(len(rows))[:RANDOM].tolist():
        try:
            choice = rows[row]
            last = max(plans.structure_bound(choice), plans.circuits_bound(choice), look.bound[row])
            over.append(plans.simulate(choice).step_time / np.array([look.bound[row], last]))
        except UnsupportedError:
            continue
    first, last = (np.percentile(each, [50, 95]).round(2).tolist() for each in np.array(over).T)
    return {"placed_rows": len(over), "over_first": first, "over_last": last}


def _slower(best: Plan | None, sample_time: float) -> float | None:
    """Seconds a sample of the best of a kind, over the winner's."""
    return None if best is None else round(best.sample_time / sample_time, 3)


def _bounding(graph: ComputeGraph, cluster: Cluster, batches: list[int]) -> float:
    """Rows a CPU second that get their first bound, schedules built before."""
    prices = GroupPrices(cluster.fabric, cluster.training)
    rows = ClusterRows(graph, cluster, SearchRequest(global_batches=batches), prices)
    rows.first(tuple(batches))
    before, started = rows.counts.bounded, time.process_time()
    rows.first(tuple(batches))
    return (rows.counts.bounded - before) / (time.process_time() - started)


def main() -> int:
    """Measure and print."""
    return exit_clearly(_main)


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.splits", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    parser.add_argument("--no-large", action="store_true", help="64 ranks only")
    options = parser.parse_args()
    if options.json:
        check_writable(options.json)
    rows: list[dict[str, Any]] = []
    for ranks in (64,) if options.no_large else (64, 1024):
        for cluster in CLUSTERS:
            for model in MODELS:
                rows.append(measure(model, cluster, ranks) | (tightness(model, cluster, ranks) if ranks == 64 else {}))
                print_rows(rows[-1:])
    if options.json:
        document = {"cpu": cpu_name(), "searches": rows, "provenance": provenance({"benchmark": "splits"})}
        write_atomically(options.json, json.dumps(document, indent=1))


if __name__ == "__main__":
    raise SystemExit(main())
