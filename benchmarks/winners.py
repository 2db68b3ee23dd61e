"""Which plan wins as links grow slower: ``python -m benchmarks.winners [--page docs/planner/winners.md]``.

``lightloom plan`` searches every pair of :data:`PAIRS` with links of 0, 0.5, 1 and 5 us a hop, everything else as the
catalog states it. Results are kept in a file after each search, so that a run that was stopped goes on where it was.
The whole takes about ten CPU minutes; progress goes to stderr. Data parallelism is not ranked with each algorithm
alone: every exchange takes the cheapest of the algorithms that have one schedule for all sizes (on the clusters of
:data:`ALGORITHMS`, of those named there), and where none are named the winner is priced with synthesized ones once
more. Set-ups that others published are priced as they are, beside what they measured.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.support.measure import cpu_name, exit_clearly
from benchmarks.support.winners_page import page, picture
from lightloom.core.errors import InputError
from lightloom.core.files import check_writable, write_atomically
from lightloom.core.results import provenance, provenance_line
from lightloom.machines.clusters.cluster import Cluster
from lightloom.machines.clusters.load import load_cluster
from lightloom.models.zoo import load_workload
from lightloom.planning.pricing.group_prices import GroupPrices
from lightloom.planning.search.plans import Plan, PlanSearch, label, sequence_length
from lightloom.planning.search.request import (
    KINDS,
    STRATEGIES,
    Pins,
    SearchRequest,
)
from lightloom.planning.search.search import search
from lightloom.reports.figures.canvas import save

LATENCIES = (0.0, 0.5e-6, 1e-6, 5e-6)
"""Seconds a hop."""
PAIRS = (
    ("terarack-64", "resnet50"),
    ("sip-ocs-1024", "gpt2-355m"),
    ("tpu-v4-1024", "gpt2-355m"),
    ("dgx-h100-512", "mixtral-8x7b"),
    ("nvl72-576", "mixtral-8x7b"),
    ("dgx-h100-512", "llama2-70b"),
    ("nvl72-576", "llama2-70b"),
)
"""Clusters and models."""
_ON_GPUS = ("hierarchical", "ring-two-way")
ALGORITHMS: Mapping[str, tuple[str, ...]] = {
    "tpu-v4-1024": ("hierarchical",),
    "dgx-h100-512": _ON_GPUS,
    "nvl72-576": _ON_GPUS,
}
"""Clusters on which all algorithms take too long to build, and the ones that are searched there; on GPUs strategies
that training frameworks run."""
_KEPT = 60
"""Plans of a ranking that are kept."""


class Published(NamedTuple):
    """A training set-up whose throughput was published."""

    model: str
    cluster: str
    ranks: int
    global_batch: int
    pins: Pins
    tokens_per_second_per_rank: float
    """As measured, in FP8."""
    source: str


PUBLISHED = (
    Published(
        "llama2-70b",
        "dgx-h100-64",
        64,
        128,
        Pins(tp=4, pp=4, virtual_stages=20, micro_batch=1, recomputation="none"),
        1728,
        "NVIDIA NeMo Framework user guide 24.09, performance summary: 64 H100, tp 4, pp 4, vp 20, micro-batch 1",
    ),
    Published(
        "mixtral-8x7b",
        "nvl72",
        64,
        256,
        Pins(tp=1, pp=1, ep=8, micro_batch=2, recomputation="none"),
        19275,
        "NVIDIA NeMo Framework user guide 25.04, performance summary: 64 GB200, ep 8, micro-batch 2",
    ),
)
"""All with sequences of 4,096 tokens."""


def searched(cluster: str, model: str, seconds: float, prices: dict[float, GroupPrices]) -> dict[str, Any]:
    """The ranking of one pair with so many seconds a hop; ``prices`` of the cluster by seconds are used again."""
    graph, on_gpus = load_workload(model, batch=1), ALGORITHMS.get(cluster) == _ON_GPUS
    # A library's closed form does not know the latency of a link.
    on = load_cluster(cluster, set={"fabric.transport": "ideal"} if on_gpus else {})
    on = replace(on, fabric=on.fabric.with_hop_latency(seconds), reference=None)
    kinds = STRATEGIES if on_gpus else KINDS
    request = SearchRequest(compare=False, algorithms=ALGORITHMS.get(cluster, ()), strategies=kinds)
    if seconds not in prices:
        prices[seconds] = GroupPrices(on.fabric, on.training, "physical", (), request.algorithms)
    started = time.process_time()
    found = search(graph, on, request, prices=prices[seconds])
    return {
        "cluster": cluster,
        "model": model,
        "hop_latency_s": seconds,
        "cpu_s": round(time.process_time() - started, 1),
        "global_batch": found.winner.global_batch,
        "tokens_per_second_per_rank": _tokens(found.winner),
        "model_flops_utilization": found.utilization(found.winner),
        "plans": [_plan(plan) for plan in found.ranking[:_KEPT]],
        "kinds": {plan.strategy: plan.sample_time for plan in _best_of_kinds(found)},
        "refusals": list(found.refusals),
    }


def _best_of_kinds(found: PlanSearch) -> Iterator[Plan]:
    return (plan for kind in found.request.kinds if (plan := found.best_of(kind)) is not None)


def _plan(plan: Plan) -> dict[str, Any]:
    return {
        "split": label(plan.choice),
        "strategy": plan.strategy,
        "algorithms": list(plan.algorithms),
        "step_s": plan.step_time,
        "fits": plan.fits is not False,
    }


def _tokens(plan: Plan) -> float | None:
    tokens = sequence_length(plan.job.graph)
    return None if tokens is None else tokens * plan.samples_per_second / plan.cluster.ranks


def priced(setup: Published) -> dict[str, Any]:
    """A published set-up as ``lightloom plan`` prices it in bfloat16 and FP8, and the best plan of the same batch."""
    found: dict[str, Any] = {}
    graph = load_workload(setup.model, batch=1)
    for precision in ("bf16", "fp8"):
        on = load_cluster(setup.cluster, set={"ranks": setup.ranks, "training.precision": precision})
        on = replace(on, reference=None)
        for name, pins in (("pinned", setup.pins), ("best", Pins())):
            request = SearchRequest(
                global_batches=(setup.global_batch,),
                strategies=STRATEGIES,
                pins=pins,
                compare=False,
                must_fit=False,
            )
            best = _searched_or_none(graph, on, request)
            found[f"{name}_{precision}"] = None if best is None else {**_plan(best), "tokens": _tokens(best)}
    return {
        "model": setup.model,
        "cluster": setup.cluster,
        "ranks": setup.ranks,
        "global_batch": setup.global_batch,
        "published": setup.tokens_per_second_per_rank,
        "source": setup.source,
        **found,
    }


def _searched_or_none(graph: Any, on: Cluster, request: SearchRequest) -> Plan | None:
    try:
        return search(graph, on, request).winner
    except InputError as error:
        print(f"refused: {error}", file=sys.stderr)
        return None


def run(path: Path, only: str | None, advance: Callable[[str], None]) -> dict[str, Any]:
    """Search what ``path`` does not hold yet, and keep each result there."""
    document: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {"searches": [], "published": []}
    done = {(row["cluster"], row["model"], row["hop_latency_s"]) for row in document["searches"]}
    prices: dict[str, dict[float, GroupPrices]] = {}

    def keep(kind: str, row: dict[str, Any]) -> None:
        document[kind].append(row)
        document["cpu"], document["provenance"] = cpu_name(), provenance({"benchmark": "winners"})
        write_atomically(path, json.dumps(document, indent=1))

    for cluster, model in PAIRS:
        for seconds in LATENCIES if only in (None, cluster) else ():
            if (cluster, model, seconds) not in done:
                row = searched(cluster, model, seconds, prices.setdefault(cluster, {}))
                keep("searches", row)
                advance(f"{cluster} {model} {seconds * 1e6:g} us: {row['plans'][0]['split']} ({row['cpu_s']} CPU-s)")
    priced_before = {(row["cluster"], row["model"]) for row in document["published"]}
    for setup in PUBLISHED:
        if only is None and (setup.cluster, setup.model) not in priced_before:
            keep("published", priced(setup))
            advance(f"{setup.cluster} {setup.model} as published")
    return document


def main() -> int:
    """Search, and write the page."""
    return exit_clearly(_main)


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.winners", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--json", type=Path, default=Path("out/winners.json"), help="where results are kept")
    parser.add_argument("--page", type=Path, help="write the page, and its picture to ../pictures/winners.png")
    parser.add_argument("--only", help="this cluster alone")
    options = parser.parse_args()
    options.json.parent.mkdir(parents=True, exist_ok=True)
    for path in filter(None, (options.json, options.page)):
        check_writable(path)
    document = run(options.json, options.only, lambda line: print(line, file=sys.stderr, flush=True))
    if options.page:
        origin = provenance_line(document["provenance"])
        save(picture(document), options.page.parent.parent / "pictures" / "winners.png", origin)
        write_atomically(options.page, page(document))


if __name__ == "__main__":
    raise SystemExit(main())
