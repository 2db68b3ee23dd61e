"""Data parallelism alone with every algorithm by itself, so that algorithms can be compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

from lightloom.clusters.base import Cluster
from lightloom.collectives.evaluate import Refusal, attempt
from lightloom.collectives.registry import Algorithm, algorithms
from lightloom.collectives.spec import Kind
from lightloom.economics.goodput.evaluate import ClusterGoodput
from lightloom.economics.ledger import ClusterLedger
from lightloom.economics.step import StepLedger
from lightloom.parallelism.sharding import KIND_OF_SHARDING
from lightloom.parallelism.strategy_space import Strategy
from lightloom.planner.gradients.priced import PricedExchange
from lightloom.planner.pricing.group_prices import GroupPrices
from lightloom.planner.pricing.job import Job
from lightloom.planner.pricing.library import LIBRARY, carrier
from lightloom.planner.pricing.strategy_step import simulate
from lightloom.planner.search.plans import Plan, RefusedPlan
from lightloom.planner.search.request import SearchRequest

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
