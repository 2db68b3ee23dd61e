"""Data parallelism alone with every algorithm by itself, so that algorithms can be compared."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.collective import Kind
from lightloom.collectives.evaluate import Refusal, attempt
from lightloom.collectives.registry import algorithms
from lightloom.core.arrays import Effort
from lightloom.core.errors import UnsupportedError
from lightloom.machines.clusters.cluster import Cluster
from lightloom.models.graph import ComputeGraph
from lightloom.planning.economics.estimate import ClusterGoodput
from lightloom.planning.economics.ledger import ClusterLedger, StepLedger
from lightloom.planning.gradients import PricedExchange
from lightloom.planning.parallelism.strategy_space import KIND_OF_SHARDING, Strategy
from lightloom.planning.pricing.collective_prices import LIBRARY, carrier
from lightloom.planning.pricing.group_prices import AUTO, GroupPrices
from lightloom.planning.pricing.job import Job
from lightloom.planning.pricing.step import data_parallel_seconds, simulate
from lightloom.planning.search.plans import Plan, RefusedPlan
from lightloom.planning.search.request import SearchRequest

_KINDS: tuple[Kind, ...] = ("all-reduce", "all-gather", "reduce-scatter")
_PLAIN = dict.fromkeys(("tp", "pp", "ep", "cp", "micro_batches", "virtual_stages"), 1)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Data parallelism of one cluster, a plan for each algorithm, batch and codec."""

    cluster: Cluster
    ledger: ClusterLedger
    goodput: ClusterGoodput
    job: Job
    prices: GroupPrices
    request: SearchRequest

    def run(
        self, batches: Sequence[int], advance: Callable[[], None] = lambda: None
    ) -> tuple[list[Plan], list[RefusedPlan]]:
        """Simulate all, those that do not fit included; ``advance`` is called before each algorithm."""
        plans: list[Plan] = []
        refused: list[RefusedPlan] = []
        if self.cluster.ranks == 1 or not self.request.pins.allows(
            **_PLAIN, dp=self.cluster.ranks, recomputation="none"
        ):
            return plans, refused
        for algorithm in self._carriers():
            advance()
            for outcome in self._of_algorithm(algorithm, batches):
                (plans if isinstance(outcome, Plan) else refused).append(outcome)  # type: ignore[arg-type]
            # Price what bounds will need while the schedules exist.
            for kind in _KINDS if not algorithm.by_size else ():
                if self.prices.refusal(kind, algorithm.name, self.cluster.ranks, 0) is None:
                    self.prices.failure(kind, algorithm, self.job.fabric)
            if algorithm is not LIBRARY:
                self.prices.schedules(algorithm, self.job.fabric).drop_schedules()
        return plans, refused

    def _carriers(self) -> list[Algorithm]:
        """The algorithms that are named, or the fabric's library, or all; beside a library none, since schedules do not
        pay for software."""
        if self.request.algorithms:
            return [*map(carrier, self.request.algorithms)]
        return [LIBRARY] if self.job.fabric.library else [*algorithms().values()]

    def _of_algorithm(self, algorithm: Algorithm, batches: Sequence[int]) -> Iterator[Plan | RefusedPlan]:
        shardings = [sharding for sharding, kind in KIND_OF_SHARDING.items() if kind in self.request.kinds]
        for sharding, batch in product(shardings, batches):
            if batch % self.cluster.ranks or not self.request.pins.allows(
                sharding=sharding, micro_batch=batch // self.cluster.ranks
            ):
                continue
            strategy = Strategy(self.cluster.ranks, 1, 1, 1, batch, sharding, "none", algorithm.name, 0)
            plain = self._plan(algorithm, strategy, None)
            yield plain
            if isinstance(plain, RefusedPlan):
                continue
            for number, method in enumerate(self.job.exchanges, start=1):
                other = self._plan(algorithm, strategy._replace(exchange=number), method)
                yield replace(other, uncompressed=plain) if isinstance(other, Plan) else other

    def _plan(self, algorithm: Algorithm, strategy: Strategy, method: PricedExchange | None) -> Plan | RefusedPlan:
        refused = partial(
            RefusedPlan,
            strategy=KIND_OF_SHARDING[strategy.sharding],
            algorithm=algorithm.name,
            compression=None if method is None else method.name,
        )
        kinds = dict.fromkeys(each.kind for each in self.job.model.data_parallel_plan(strategy).exchanges)
        reasons = [self.prices.refusal(kind, algorithm.name, strategy.dp, strategy.exchange) for kind in kinds]
        if any(reasons):
            return refused(why=next(filter(None, reasons)))
        step = attempt(algorithm, partial(simulate, self.job, strategy))
        if isinstance(step, Refusal):
            return refused(why=step.why)
        assert step.result is not None
        return Plan(
            cluster=self.cluster,
            job=self.job,
            choice=strategy,
            bound=step.result.compute_time,
            step=step,
            breakdown=step.result.breakdown,
            ledger=StepLedger(
                cluster=self.ledger,
                step_time=step.step_time,
                sent_joules=step.result.sent_joules,
                samples=strategy.global_batch,
                goodput=self.goodput.most,
                goodput_missing=self.goodput.missing,
                spare_share=self.goodput.spare_share,
            ),
            memory=step.result.memory.total + self.job.state_bytes(strategy) * self.job.parameters,
            gradient_exchange=method,
        )


# When an exchange of gradients pays: steps of data parallelism with and without, over models, link speeds and ranks.
#
# Replicas hold the whole model, gradients are exchanged bucket by bucket behind the backward pass: by the fabric's
# collective library where it states one, else by the cheapest of a few algorithms, with and without a method alike.

ALGORITHMS = ("ring", "one-stage")
"""Algorithms without a library: rings for all-reduces and gathers, straight sends for all-to-alls."""
_BISECTIONS: Effort = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class SetUp:
    """One model on one number of ranks at one speed of links."""

    model: str
    ranks: int
    bandwidth: float
    """Bytes per second of each rank's link."""
    plain: float
    """Seconds of a step with gradients as they are."""
    methods: tuple[tuple[str, float], ...]
    """(method, seconds of a step)."""

    def speedup(self, method: str) -> float:
        """Step with gradients as they are over the step with a method."""
        return self.plain / dict(self.methods)[method]

    def best(self, methods: Iterable[str]) -> tuple[str, float]:
        """The method of the largest speed-up, and that."""
        return max(((name, self.speedup(name)) for name in methods), key=lambda entry: entry[1])


@dataclass(frozen=True, slots=True)
class Trial:
    """Steps of one model, whatever its cluster."""

    graph: ComputeGraph
    exchanges: tuple[PricedExchange, ...]
    samples: int
    """Samples of a rank."""

    def seconds(self, cluster: Cluster) -> list[float]:
        """Seconds of a step with gradients as they are, and with each method."""
        exchanges = tuple(exchange.on(cluster.accelerator) for exchange in self.exchanges)
        choices = () if cluster.fabric.library else ALGORITHMS
        prices = GroupPrices(cluster.fabric, cluster.training, exchanges=exchanges, choices=choices)
        job = Job.of(self.graph, cluster.accelerator, cluster.fabric, cluster.training, prices, exchanges=exchanges)
        ranks = cluster.ranks
        plain = Strategy(ranks, 1, 1, 1, self.samples * ranks, "none", "none", AUTO, 0)
        found = [data_parallel_seconds(job, plain)]
        for number in range(1, len(exchanges) + 1):
            if (why := prices.refusal("all-reduce", AUTO, ranks, number)) is not None:
                raise UnsupportedError(f"{exchanges[number - 1].name} on {ranks} ranks: {why}")
            found.append(data_parallel_seconds(job, plain._replace(exchange=number)))
        return found


def set_ups(
    trials: Sequence[Trial],
    ranks: Sequence[int],
    bandwidths: Sequence[float],
    cluster: Callable[[int, float], Cluster],
    advance: Callable[[], None] = lambda: None,
) -> list[SetUp]:
    """Return all set-ups: every model on every number of ranks at every speed of links, in bytes per second."""
    rows = []
    for trial in trials:
        for count in ranks:
            for bandwidth in bandwidths:
                plain, *others = trial.seconds(cluster(count, bandwidth))
                names = [exchange.name for exchange in trial.exchanges]
                methods = tuple(zip(names, others, strict=True))
                model = trial.graph.name
                rows.append(SetUp(model=model, ranks=count, bandwidth=bandwidth, plain=plain, methods=methods))
                advance()
    return rows


def break_even_bandwidth(
    trial: Trial, ranks: int, cluster: Callable[[int, float], Cluster], bandwidths: tuple[float, float]
) -> float | None:
    """The largest speed of links, in bytes per second, at which the one method of a trial shortens the step.

    Found by bisection between two speeds, which takes a method that pays at one speed to pay at lower ones too; None
    where it does not pay even at the lower speed, the upper one where it still pays there.
    """
    slow, fast = bandwidths

    def pays(bandwidth: float) -> bool:
        plain, other = trial.seconds(cluster(ranks, bandwidth))
        return other < plain

    if not pays(slow):
        return None
    if pays(fast):
        return fast
    for _ in range(_BISECTIONS):
        middle = (slow * fast) ** 0.5
        slow, fast = (middle, fast) if pays(middle) else (slow, middle)
    return math.sqrt(slow * fast)
