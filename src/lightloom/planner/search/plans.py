"""What a search finds: plans of every kind, ranked together.

    kind              choice            simulated
    ddp, fsdp         Strategy          bucket by bucket, unit by unit
    tensor-pipeline   Strategy          stage by stage
    placed            PlacedChoice      sub-operator by sub-operator, over the circuits granted

Plans that fit the memory come first, of these plans that a framework can run, then less time for each sample.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress

from lightloom.clusters.base import Cluster
from lightloom.core.arrays import Floats
from lightloom.economics.step import StepEnergy, StepLedger
from lightloom.parallelism.plan import MemoryUse
from lightloom.parallelism.recomputation import RECOMPUTATIONS, repeated_operators
from lightloom.parallelism.strategy_space import Strategy
from lightloom.planner.circuits.in_step import InStep
from lightloom.planner.circuits.regranted import RegrantedStep
from lightloom.planner.circuits.step import SwitchedStrategyStep
from lightloom.planner.gradients.priced import PricedExchange
from lightloom.planner.pricing.cheapest import CheapestPrices
from lightloom.planner.pricing.division import Division
from lightloom.planner.pricing.exchange_prices import ExchangePrices
from lightloom.planner.pricing.job import Job
from lightloom.planner.pricing.library import LIBRARY, LibraryPrices
from lightloom.planner.pricing.placed_space import PlacedChoice
from lightloom.planner.pricing.schedule_prices import SchedulePrices
from lightloom.planner.pricing.strategy_step import ExchangeUse, StrategyStep
from lightloom.planner.search.counts import Counts
from lightloom.planner.search.intervals import Interval, plan_intervals
from lightloom.planner.search.labels import kind_of, label
from lightloom.planner.search.order import pareto_front
from lightloom.planner.search.request import SearchRequest
from lightloom.simulation.placed_step import PlacedStep
from lightloom.simulation.step import StepResult
from lightloom.simulation.timeline import Timeline
from lightloom.workloads.graph import ComputeGraph

INTERVALS = 12
"""Plans of a ranking that have intervals: those that the terminal shows, with the best of each kind."""
INTERVALS_OF_THE_REFERENCE = 3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plan:
    """One plan that was simulated with verified schedules or circuits."""

    cluster: Cluster
    """With the ranks that the plan uses."""
    job: Job
    """Where and at which prices it was simulated."""
    choice: Strategy | PlacedChoice
    bound: float
    """Lower bound of the step's duration before it was simulated, in seconds."""
    step: StrategyStep | PlacedStep
    """What was simulated."""
    breakdown: Mapping[str, float]
    """Seconds of the step by what it waits for, as :meth:`Timeline.breakdown`; with stages, the mean over their
    ranks."""
    ledger: StepLedger
    """Joules and dollars of a step."""
    memory: float
    """Bytes of the fullest rank."""
    gradient_exchange: PricedExchange | None = None
    """Method by which replicas exchange gradients; None for as they are."""
    uncompressed: Plan | None = None
    """The same plan with gradients as they are, where that was simulated too."""

    @property
    def step_time(self) -> float:
        """Duration of a step, in seconds."""
        return self.step.step_time

    @property
    def fits(self) -> bool | None:
        """Whether the accelerator's memory holds the fullest rank; None where its size is unknown."""
        capacity = self.cluster.accelerator.memory
        return None if capacity is None else self.memory <= capacity

    @property
    def runnable(self) -> bool:
        """Whether a training framework can run the plan: any but a placed one, as none places single operators."""
        return isinstance(self.choice, Strategy)

    @property
    def placed(self) -> PlacedStep | None:
        """The step of a placed plan."""
        return self.step if isinstance(self.step, PlacedStep) else None

    @property
    def division(self) -> Division | None:
        """Channels that the axes of a strategy hold, where circuits of several stand at once."""
        return self.step.division if isinstance(self.step, StrategyStep) else None

    @property
    def result(self) -> StepResult | None:
        """The step of data parallelism alone, exchange by exchange."""
        return self.step.result if isinstance(self.step, StrategyStep) else None

    @property
    def prices(self) -> SchedulePrices | CheapestPrices | ExchangePrices | LibraryPrices | None:
        """Prices of the exchanges of data parallelism alone."""
        prices = self.step.prices if isinstance(self.step, StrategyStep) else None
        return prices if isinstance(prices, SchedulePrices | CheapestPrices | ExchangePrices | LibraryPrices) else None

    @property
    def timeline(self) -> Timeline:
        """Intervals of the step; one group stands for all."""
        return self.step.timeline

    @property
    def spent(self) -> Mapping[str, Floats] | None:
        """Seconds of the rank of each stage by what it spends them on (``simulation.pipelined.SPENT``), each [stages];
        None for plans that are not simulated stage by stage."""
        return self.step.spent if isinstance(self.step, StrategyStep) else None

    @property
    def in_step(self) -> InStep | None:
        """What setting circuits anew within the step gains, where that was searched and several groups exchange."""
        return self.step.in_step if isinstance(self.step, SwitchedStrategyStep) else None

    @property
    def regranted(self) -> RegrantedStep | None:
        """The step of a placed plan whose circuits are granted anew within it."""
        return self.step if isinstance(self.step, RegrantedStep) else None

    @property
    def strategy(self) -> str:
        """One of :data:`KINDS`."""
        return kind_of(self.choice)

    @property
    def exchanges(self) -> tuple[ExchangeUse, ...]:
        """Collectives of the step by kind, group and algorithm, the largest first."""
        return self.step.exchanges if isinstance(self.step, StrategyStep) else ()

    @property
    def algorithm(self) -> str:
        """Algorithm of the largest exchange; "none" without collectives."""
        return self.exchanges[0].algorithm if self.exchanges else "none"

    @property
    def algorithms(self) -> tuple[str, ...]:
        """Algorithms of the step's collectives, that of the largest first, and of further phases of an exchange."""
        names = [use.algorithm for use in self.exchanges]
        if isinstance(self.prices, ExchangePrices):
            for use in self.exchanges:
                names += self.prices.algorithms(use.kind, use.nbytes)
        return tuple(dict.fromkeys(names))

    @property
    def verified(self) -> bool:
        """Whether verified schedules or circuits carry all exchanges; a collective library has a closed form only."""
        return LIBRARY.name not in self.algorithms

    @property
    def communication_time(self) -> float | None:
        """Seconds that networks transmit, change circuits or wait for a codec, hidden or not; None for placed plans,
        whose transfers overlap."""
        return None if isinstance(self.step, PlacedStep) else self.step.communication_time

    @property
    def memory_use(self) -> MemoryUse | None:
        """Parts of the memory, where they are known: of data parallelism alone that keeps all activations."""
        plain = isinstance(self.choice, Strategy) and self.choice.recomputation == "none"
        return self.result.memory if self.result is not None and plain else None

    @property
    def global_batch(self) -> int:
        """Samples of a step."""
        return self.choice.global_batch

    @property
    def sample_time(self) -> float:
        """Seconds of a step for each of its samples."""
        return self.step_time / self.global_batch

    @property
    def samples_per_second(self) -> float:
        """Throughput of all ranks together; infinite for a step that takes no time."""
        return self.global_batch / self.step_time if self.step_time else float("inf")

    @property
    def energy(self) -> StepEnergy:
        """Joules of a step over all ranks."""
        return self.ledger.energy

    @property
    def energy_per_sample(self) -> float:
        """Joules over all ranks; only parts that have a figure."""
        return self.energy.known_j / self.global_batch

    @property
    def short_label(self) -> str:
        """The plan in a few words, without its exchange of gradients: degrees, what is not the default, algorithms."""
        return " · ".join(filter(None, (label(self.choice), _named(self.algorithms))))

    @property
    def label(self) -> str:
        """The plan in a few words, its exchange of gradients included."""
        return " · ".join([self.short_label, *([self.gradient_exchange.label] if self.gradient_exchange else [])])

    @property
    def site(self) -> str:
        """Where the plan runs, in a few words."""
        return f"{self.cluster.name}, {self.cluster.counted_ranks}"


def _named(algorithms: Sequence[str]) -> str:
    return " + ".join(algorithms[:2]) + (f" + {len(algorithms) - 2} more" if len(algorithms) > 2 else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedPlan:
    """Data parallelism with an algorithm that does not serve it, or fails, and why."""

    strategy: str
    algorithm: str
    why: str
    compression: str | None = None
    """The method of exchanging gradients, where it is what was refused."""


@dataclass(frozen=True, kw_only=True)
class PlanSearch:
    """Every plan that was simulated, on all clusters together and on the electrical reference."""

    graph: ComputeGraph
    clusters: tuple[Cluster, ...]
    request: SearchRequest
    global_batches: tuple[int, ...]
    """Samples of a step, in all plans that were searched."""
    ranking: tuple[Plan, ...]
    """Plans that fit first, of these runnable ones, then least seconds a sample."""
    reference: tuple[Plan, ...]
    """Data parallelism on the electrical reference of the cluster."""
    refused: tuple[RefusedPlan, ...]
    counts: Counts
    refusals: tuple[str, ...]
    """Why whole kinds of plans were left out, a line each."""

    @property
    def winner(self) -> Plan:
        """The first of the ranking; it fits unless no plan does, and is runnable unless no plan that fits is."""
        return self.ranking[0]

    def best_of(self, strategy: str) -> Plan | None:
        """The first plan of a kind."""
        return next((plan for plan in self.ranking if plan.strategy == strategy), None)

    @property
    def front(self) -> tuple[Plan, ...]:
        """Pareto front of seconds against joules a sample, fastest first: no simulated plan that fits is better in
        both."""
        return pareto_front(plan for plan in self.ranking if plan.fits is not False)

    def utilization(self, plan: Plan, *, hardware: bool = False) -> float:
        """Share of the accelerators' peak rate that a step's forward and backward passes use.

        With ``hardware``, the forward passes that recomputation repeats count as well.
        """
        flops = sum(each.forward_flops + each.backward_flops for each in self.graph.operators)
        if not hardware:
            flops -= sum(each.recomputed_flops for each in self.graph.operators)
        else:
            flops += self._repeated_flops[plan.choice.recomputation]
        peak = plan.cluster.ranks * plan.cluster.accelerator.peak_rate(plan.cluster.training.precision)
        return flops / self.graph.batch / plan.sample_time / peak if plan.step_time else 0.0

    @cached_property
    def _repeated_flops(self) -> dict[str, int]:
        """FLOPs of the forward passes that are repeated, by recomputation."""
        forward = [operator.forward_flops for operator in self.graph.operators]
        return {name: sum(compress(forward, repeated_operators(self.graph, name))) for name in RECOMPUTATIONS}

    @cached_property
    def intervals(self) -> dict[int, Interval]:
        """90 % intervals of the first plans, of the best of each kind, of the first of each cluster and of the
        reference, by the ``id`` of the plan; none where an accelerator has a flat efficiency, of which no spread is
        known."""
        best = [plan for plan in map(self.best_of, self.request.kinds) if plan is not None]
        reference = self.reference[:INTERVALS_OF_THE_REFERENCE]
        shown = *self.ranking[:INTERVALS], *best, *self.first_of_clusters, *reference
        plans = {id(plan): plan for plan in shown}
        return plan_intervals(self.winner, plans.values())

    def ledger_of(self, plan: Plan) -> StepLedger:
        """Return what a plan's step costs, with the interval of its time where that is known."""
        interval = self.intervals.get(id(plan))
        return plan.ledger if interval is None else replace(plan.ledger, interval=(interval.low, interval.high))

    @property
    def first_of_clusters(self) -> tuple[Plan, ...]:
        """The first plan of every cluster of the ranking, and the first on the electrical reference."""
        first: dict[int, Plan] = {}
        for plan in (*self.ranking, *self.reference):
            first.setdefault(id(plan.ledger.cluster), plan)
        return tuple(first.values())

    @property
    def sequence_length(self) -> int | None:
        """Tokens of a sample; None for models that take none."""
        return sequence_length(self.graph)


def sequence_length(graph: ComputeGraph) -> int | None:
    """Tokens of a sample; None for models that take none."""
    attention = (each.dimensions for each in graph.operators if each.kind == "attention")
    return max((sizes["sequence"] for sizes in attention if "sequence" in sizes), default=None)
