"""Plans with synthesized schedules beside plans with other algorithms: ``python -m benchmarks.plans [--json FILE]``.

ResNet-50, GPT-2 355M and Llama-2 7B, data parallel (ddp) and sharded (fsdp), on 64 and on 1,024 accelerators of a ring:
TeraRack's nodes with 64 wavelengths of 40 Gb/s each way, 25 µs to set up, 1 µs a hop. Batches of a rank: 32 pictures,
or one sequence, which at 1,024 ranks are the 4 M tokens that Llama 2 took a step. Every collective of a step is one
verified schedule. CPU seconds of a plan with nothing kept from an earlier run, and again; models traced, kernels
compiled.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.support.measure import cpu_name, exit_clearly, print_rows
from benchmarks.support.plans_figure import plans_figure
from lightloom.core.files import check_writable, write_atomically
from lightloom.core.results import provenance, provenance_line
from lightloom.machines.clusters.cluster import Cluster
from lightloom.machines.clusters.load import load_cluster
from lightloom.models.graph import ComputeGraph
from lightloom.models.zoo import load_workload
from lightloom.planning.search.plans import Plan
from lightloom.planning.search.request import DATA_PARALLEL, Pins, SearchRequest
from lightloom.planning.search.search import search
from lightloom.reports.figures.canvas import check_format, save

BATCHES = {"resnet50": 32, "gpt2-355m": 1, "llama2-7b": 1}
RANKS = (64, 1024)
OURS = "synthesized"
OTHERS = ("optree-striped", "wrht", "wrht-striped", "ring-striped", "ring-two-way-striped")
_SAME = 1e-6
"""Steps that differ by less than this share tie."""


def cluster(ranks: int, batch: int) -> Cluster:
    """The ring, without the electrical reference; accelerators at half of the roofline, as networks are compared."""
    settings = {
        "ranks": ranks,
        "fabric.fibres": 1,
        "fabric.transceivers": 128,
        "fabric.conversion_time": "1us",
        "accelerator.kernels": None,
        "training.batch_per_rank": batch,
    }
    return replace(load_cluster("terarack-64", set=settings), reference=None)


def request(on: Cluster, algorithm: str) -> SearchRequest:
    """Data parallelism alone with one algorithm, at the batch of the cluster, whether it fits or not."""
    return SearchRequest(
        global_batches=(on.training.batch_per_rank * on.ranks,),
        strategies=DATA_PARALLEL,
        algorithms=(algorithm,),
        pins=Pins(recomputation="none"),
        must_fit=False,
    )


def measure(graph: ComputeGraph, ranks: int) -> list[dict[str, Any]]:
    """One row for each strategy and algorithm."""
    on = cluster(ranks, graph.batch)
    rows = []
    for algorithm in (OURS, *OTHERS):
        started = time.process_time()
        ranking = search(graph, on, request(on, algorithm)).ranking
        spent = {"cpu_s": round(time.process_time() - started, 2)}
        if algorithm == OURS:
            spent["cpu_again_s"] = _again(graph, on)
        rows += [_row(plan, graph.name, ranks) | spent for plan in ranking if plan.result is not None]
    return rows


def _again(graph: ComputeGraph, on: Cluster) -> float:
    started = time.process_time()
    search(graph, on, request(on, OURS))
    return round(time.process_time() - started, 2)


def _row(plan: Plan, model: str, ranks: int) -> dict[str, Any]:
    assert plan.prices is not None and plan.result is not None
    priced = [plan.prices(exchange.kind, exchange.nbytes) for exchange in plan.result.plan.exchanges]
    busy = plan.result.busy_time
    return {
        "model": model,
        "ranks": ranks,
        "strategy": plan.strategy,
        "algorithm": plan.algorithm,
        "step_s": plan.step_time,
        "breakdown": dict(plan.breakdown),
        "communication_s": busy["transmission"] + busy["reconfiguration"],
        "over_bound": sum(each.cost.time for each in priced) / sum(each.bound.time for each in priced),
        "fits_memory": plan.fits,
    }


def compare(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each plan: how much longer than with synthesized schedules a step takes with others, and who wins."""
    found = []
    for model, ranks, strategy in dict.fromkeys((row["model"], row["ranks"], row["strategy"]) for row in rows):
        same = {
            row["algorithm"]: row
            for row in rows
            if (row["model"], row["ranks"], row["strategy"]) == (model, ranks, strategy)
        }
        ours = same[OURS]["step_s"]
        longer = {name: same[name]["step_s"] / ours - 1 for name in OTHERS if name in same}
        best = min(longer, key=lambda name: longer[name])
        verdict = "ties" if abs(longer[best]) <= _SAME else "wins" if longer[best] > 0 else "loses"
        found.append(
            {
                "model": model,
                "ranks": ranks,
                "strategy": strategy,
                "step_ms": round(ours * 1e3, 4),
                "verdict": verdict,
                "exposed_ms": round((ours - same[OURS]["breakdown"]["compute_s"]) * 1e3, 4),
                "next": best,
                "longer_percent": {name: round(100 * each, 4) for name, each in longer.items()},
            }
        )
    return found


def main() -> int:
    """Measure and print."""
    return exit_clearly(_main)


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plans", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    parser.add_argument("--figure", type=Path, help="draw what steps wait for (.svg, .png, .pdf)")
    parser.add_argument("--ranks", type=int, nargs="+", default=RANKS)
    options = parser.parse_args()
    for path in filter(None, (options.json, options.figure)):
        check_writable(path)
    if options.figure:
        check_format(options.figure)
    graphs = [load_workload(model, batch=batch) for model, batch in BATCHES.items()]
    rows: list[dict[str, Any]] = []
    for ranks in options.ranks:
        for graph in graphs:
            with tempfile.TemporaryDirectory() as folder:
                os.environ["LIGHTLOOM_CACHE"] = folder
                found = measure(graph, ranks)
            print_rows([*found, *compare(found)])
            rows += found
    origin = provenance({"benchmark": "plans", "ranks": list(options.ranks)})
    if options.json:
        document = {"cpu": cpu_name(), "rows": rows, "comparison": compare(rows), "provenance": origin}
        write_atomically(options.json, json.dumps(document, indent=1))
    if options.figure:
        save(plans_figure(rows), options.figure, provenance_line(origin))


if __name__ == "__main__":
    raise SystemExit(main())
