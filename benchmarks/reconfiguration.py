"""Circuits that follow the step, as a function of the reconfiguration time: ``python -m benchmarks.reconfiguration``.

Writes ``docs/reconfiguration.md`` and its picture: usual splits of three models on 1,024 ranks of a circuit switch,
their circuits standing and following the phases of the step, the break-even times, and what granting circuits anew
gains placed plans on SiP-ML's ring. Every following step is proved on its timeline.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from benchmarks.support.measure import parse_no_options
from benchmarks.support.reconfiguration_page import Swept, page, reconfiguration_figure
from lightloom.machines.clusters.load import load_cluster
from lightloom.models.zoo import load_workload
from lightloom.planning.parallelism.strategy_space import Strategies, Strategy
from lightloom.planning.pricing.group_prices import AUTO, GroupPrices, PlanePrices
from lightloom.planning.pricing.job import Job
from lightloom.planning.pricing.strategy_step import simulate
from lightloom.planning.reconfiguration.in_step import InStep, follow_the_step, switched_timeline
from lightloom.planning.search.bounds import memory
from lightloom.planning.search.plans import Plan
from lightloom.planning.search.request import SearchRequest
from lightloom.planning.search.search import search
from lightloom.reports.figures.canvas import save

PAGE = Path("docs/reconfiguration.md")
PICTURE = Path("docs/pictures/reconfiguration.png")
CLUSTER = "sip-ocs-1024"
RING, RING_RANKS, RING_BATCH = "sip-ring-1024", 64, 256
TIMES = (25e-6, 1e-3, 10e-3, 45e-3)
CURVE = tuple(10.0 ** (power / 6) for power in range(-36, 2, 2))
"""Seconds of the picture, from 1 µs to 1 s."""
SPLITS: tuple[tuple[str, Strategy], ...] = (
    ("gpt2-355m", Strategy(256, 4, 1, 1, 256, "zero-1", "none", AUTO, 0, True)),
    ("gpt2-355m", Strategy(64, 4, 4, 4, 256, "zero-1", "none", AUTO, 0, True)),
    ("gpt3-175b", Strategy(16, 8, 8, 32, 512, "zero-1", "full", AUTO, 0, True)),
    ("mixtral-8x7b", Strategy(256, 4, 1, 2, 512, "zero-1", "full", AUTO, 0, True, ep=8)),
)


def swept(model: str, strategy: Strategy) -> Swept:
    """Search the settings of one split for every reconfiguration time."""
    jobs = {seconds: _job(model, seconds) for seconds in TIMES}
    at: dict[float, InStep] = {}
    for seconds, (job, prices) in jobs.items():
        in_step = follow_the_step(job, strategy, prices)
        assert in_step is not None
        switched_timeline(in_step.best)
        at[seconds] = in_step
        prices.prices.save()
        print(f"{model} {strategy.tp}·{strategy.pp}: {seconds:g} s done", file=sys.stderr)
    job, prices = jobs[TIMES[1]]
    curve = [(seconds, _saved(job, strategy, prices, seconds)) for seconds in CURVE]
    return Swept(
        model=model,
        strategy=strategy,
        memory=float(memory(job, Strategies.of(strategy))[0]),
        all_planes=simulate(replace(job, shares=prices.shared(strategy, {})), strategy).step_time,
        at=at,
        curve=curve,
        break_even=_break_even(job, strategy, prices, curve),
    )


def _job(model: str, seconds: float) -> tuple[Job, PlanePrices]:
    cluster = load_cluster(CLUSTER, set={"fabric.reconfiguration_time": seconds})
    prices = GroupPrices(cluster.fabric, cluster.training)
    graph = load_workload(model, batch=1)
    return Job.of(graph, cluster.accelerator, cluster.fabric, cluster.training, prices), PlanePrices(prices)


def _saved(job: Job, strategy: Strategy, prices: PlanePrices, seconds: float) -> float:
    in_step = follow_the_step(job, strategy, PlanePrices(prices.prices, seconds))
    assert in_step is not None and in_step.standing is not None and in_step.gain is not None
    return in_step.gain / in_step.standing.step_time


def _break_even(job: Job, strategy: Strategy, prices: PlanePrices, curve: list[tuple[float, float]]) -> float:
    """Bisect between the last time of the curve that gains and the first that does not."""
    for (low, gained), (high, lost) in pairwise(curve):
        if gained > 0 >= lost:
            for _ in range(7):
                middle = float(np.sqrt(low * high))
                low, high = (middle, high) if _saved(job, strategy, prices, middle) > 0 else (low, middle)
            return high
    return CURVE[-1] if curve[-1][1] > 0 else 0.0


def regranted() -> list[Plan]:
    """The plans of a search for placed plans on SiP-ML's ring that are simulated, circuits granted anew."""
    request = SearchRequest(
        global_batches=(RING_BATCH,), strategies=("placed",), reconfigure_in_step=True, compare=False
    )
    cluster = load_cluster(RING, set={"ranks": RING_RANKS})
    found = search(load_workload("gpt2-355m", batch=1), cluster, request)
    return list(found.ranking)


def main() -> None:
    """Search, write the page and the picture."""
    every = [swept(*split) for split in SPLITS]
    save(reconfiguration_figure(every), PICTURE)
    PAGE.write_text(page(every, regranted()))


if __name__ == "__main__":
    parse_no_options(__doc__)
    main()
