"""Which plan wins: every strategy with every algorithm that the fabric admits, simulated and ranked.

With a codec every plan is simulated twice, and both are ranked: where compression loses, its row stays and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from lightloom.accelerators.base import Accelerator
from lightloom.clusters.base import Cluster
from lightloom.collectives.cost.price import CostModel
from lightloom.collectives.registry import Algorithm, algorithms, find
from lightloom.core.errors import UnsupportedError
from lightloom.fabrics.base import Fabric
from lightloom.parallelism.load import STRATEGIES, make_plan
from lightloom.parallelism.plan import Exchange, ParallelPlan
from lightloom.planner.pricing.compression import Compression, gradient_bytes
from lightloom.planner.pricing.price_cache import keep_prices, prices_path, read_prices
from lightloom.planner.pricing.schedule_prices import SchedulePrices
from lightloom.simulation.step import StepResult, simulate_step
from lightloom.workloads.graph import ComputeGraph

ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One plan, simulated with verified schedules."""

    strategy: str
    algorithm: Algorithm
    result: StepResult
    prices: SchedulePrices
    plain: Candidate | None = None
    """The same plan without compression; None for one that does not compress."""

    @property
    def compression(self) -> Compression | None:
        """The codec on its gradients."""
        return self.prices.compression

    @property
    def largest_exchange(self) -> Exchange | None:
        """The collective that moves most; None for a model without parameters."""
        return max(self.result.plan.exchanges, key=lambda each: each.nbytes, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A combination that was not tried, and why."""

    strategy: str
    algorithm: str
    why: str
    compression: str | None = None
    """The codec, where it is what was refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSearch:
    """All candidates, fastest first, on the cluster's fabric and on its electrical reference."""

    ranking: tuple[Candidate, ...]
    reference: tuple[Candidate, ...]
    refused: tuple[Refused, ...]

    @property
    def winner(self) -> Candidate:
        """The fastest plan."""
        return self.ranking[0]


def search(
    graph: ComputeGraph,
    cluster: Cluster,
    *,
    strategies: Sequence[str] = tuple(STRATEGIES),
    algorithm: str = ALL,
    model: CostModel = "physical",
    overlap: bool = True,
    compression: Compression | None = None,
    advance: Callable[[], None] = lambda: None,
) -> PlanSearch:
    """Simulate a training step for every strategy and admitted algorithm, without and with ``compression``;
    ``advance`` is called before each pair.

    Raises:
        UnknownNameError: no such strategy or algorithm.
        UnsupportedError: no algorithm can serve any of the strategies on the fabric (says why for each).
    """
    tried = list(algorithms().values()) if algorithm == ALL else [find(algorithm)]
    plans = [make_plan(name, graph, cluster.ranks, cluster.training) for name in strategies]
    rank = partial(_rank, plans, cluster, model=model, overlap=overlap, compression=compression, advance=advance)
    ranking, refused = rank(cluster.fabric, tried)
    if not ranking:
        reasons = "; ".join(dict.fromkeys(f"{each.strategy}: {each.why}" for each in refused[:6]))
        raise UnsupportedError(f"cluster {cluster.name}: no algorithm can carry this job: {reasons}")
    reference: list[Candidate] = []
    if cluster.reference is not None:
        reference, _ = rank(cluster.reference, list(algorithms().values()))
    return PlanSearch(ranking=tuple(ranking), reference=tuple(reference), refused=tuple(refused))


def count(cluster: Cluster, strategies: Sequence[str]) -> int:
    """How many simulations a search may run, for progress."""
    fabrics = 2 if cluster.reference is not None else 1
    return len(strategies) * len(algorithms()) * fabrics


def _rank(
    plans: list[ParallelPlan],
    cluster: Cluster,
    fabric: Fabric,
    tried: list[Algorithm],
    *,
    model: CostModel,
    overlap: bool,
    compression: Compression | None,
    advance: Callable[[], None],
) -> tuple[list[Candidate], list[Refused]]:
    found: list[Candidate] = []
    refused: list[Refused] = []
    wanted = {(exchange.kind, exchange.nbytes) for plan in plans for exchange in plan.exchanges}
    for each in tried:
        prices, kept_at = SchedulePrices(each, fabric, model), prices_path(each, fabric, model, wanted)
        prices.know(kept := read_prices(kept_at))
        smaller = None if compression is None else prices.compressed(compression, gradient_bytes(cluster.training))
        for plan in plans:
            advance()
            kinds = dict.fromkeys(exchange.kind for exchange in plan.exchanges)
            why = next(filter(None, (each.refusal(kind, fabric, model) for kind in kinds)), None)
            if why:
                refused.append(Refused(strategy=plan.strategy, algorithm=each.name, why=why))
                continue
            result, best = _simulated(plan, cluster.accelerator, prices, overlap=overlap)
            plain = Candidate(strategy=plan.strategy, algorithm=each, result=result, prices=best)
            found.append(plain)
            if compression is None or smaller is None:
                continue
            why = _not_compressed(each, fabric)
            if why:
                refused.append(
                    Refused(strategy=plan.strategy, algorithm=each.name, why=why, compression=compression.codec)
                )
                continue
            result = simulate_step(plan, cluster.accelerator, fabric, smaller, overlap=overlap)
            found.append(replace(plain, result=result, prices=smaller, plain=plain))
        prices.forget_schedules()
        if len(prices.known) > len(kept):
            keep_prices(kept_at, prices.known)
    return sorted(found, key=_order), refused


def _simulated(
    plan: ParallelPlan, accelerator: Accelerator, prices: SchedulePrices, *, overlap: bool
) -> tuple[StepResult, SchedulePrices]:
    """The step with schedules for each size, or with those of one size throughout, whose circuits stay: the faster."""
    sizes = {prices.built_for(exchange.kind, exchange.nbytes) for exchange in plan.exchanges}
    ways = [prices, *(prices.at(size) for size in sorted(sizes))] if len(sizes) > 1 else [prices]
    steps = [(simulate_step(plan, accelerator, each.fabric, each, overlap=overlap), each) for each in ways]
    return min(steps, key=lambda step: (step[0].step_time, step[0].communication_time))


def _not_compressed(algorithm: Algorithm, fabric: Fabric) -> str | None:
    if fabric.in_network_reduction:
        return "a fabric that adds up light in the network cannot add up compressed streams"
    return f"{algorithm.name} has no steps between which a codec could be charged" if algorithm.by_size else None


def _order(candidate: Candidate) -> tuple[float, float, str, str, bool]:
    """By step time; plans that computation hides equally are told apart by how long their network is busy."""
    result = candidate.result
    return (
        result.step_time,
        result.communication_time,
        candidate.algorithm.name,
        candidate.strategy,
        candidate.compression is not None,
    )
