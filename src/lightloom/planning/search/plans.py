"""Plans of every kind that a search finds, ranked together.

    kind              choice            simulated
    ddp, fsdp         Strategy          bucket by bucket, unit by unit
    tensor-pipeline   Strategy          stage by stage
    placed            PlacedChoice      sub-operator by sub-operator, over the circuits granted

Plans that fit the memory come first, of these plans that a framework can run, then less time for each sample.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import compress
from math import erf, hypot, inf, log, sqrt
from typing import NamedTuple

import numpy as np

from lightloom.core.arrays import Floats
from lightloom.core.timeline import Timeline
from lightloom.core.units import format_time
from lightloom.machines.clusters.cluster import Cluster
from lightloom.models.graph import ComputeGraph
from lightloom.planning.economics.ledger import StepEnergy, StepLedger
from lightloom.planning.gradients import PricedExchange
from lightloom.planning.parallelism.plan import RECOMPUTATIONS, MemoryUse, repeated_operators
from lightloom.planning.parallelism.strategy_space import KIND_OF_SHARDING, Strategy
from lightloom.planning.pricing.broadcast_step import BroadcastStep
from lightloom.planning.pricing.collective_prices import CheapestPrices, PhasedPrices
from lightloom.planning.pricing.group_prices import Division
from lightloom.planning.pricing.job import NORMAL, Belief, Job, belief_of, half_widths
from lightloom.planning.pricing.library_prices import LIBRARY, LibraryPrices, LibraryPricing
from lightloom.planning.pricing.placed_space import PlacedChoice, PlacedRows
from lightloom.planning.pricing.schedule_prices import SchedulePrices
from lightloom.planning.pricing.strategy_step import ExchangeUse, StrategyStep, sent_and_set, strategy_seconds
from lightloom.planning.reconfiguration.in_step import InStep, RegrantedStep, SwitchedStrategyStep
from lightloom.planning.search.request import SearchRequest
from lightloom.planning.simulation.engine import StepResult
from lightloom.planning.simulation.placed_step import PlacedStep

# Kinds and names of plans by what is chosen.


_RECOMPUTED = {"full": "recomputing", "selective": "recomputing attention"}
"""Words of plans for the activations that they recompute."""


def kind_of(choice: Strategy | PlacedChoice) -> str:
    """Return the kind of a plan by its choice: "placed"; "ddp" or "fsdp" for data parallelism alone with one
    micro-batch, replicated (sharding ``none``) or fully sharded (``zero-3``); "tensor-pipeline" for all other
    strategies, data parallelism with several micro-batches or with ZeRO-1, ZeRO-2 or hybrid sharding included."""
    if isinstance(choice, PlacedChoice):
        return "placed"
    return KIND_OF_SHARDING[choice.sharding] if choice.plain else "tensor-pipeline"


def label(choice: Strategy | PlacedChoice) -> str:
    """Return a plan's choice in a few words joined by " · ": the data-parallel degree, other degrees above 1, sequence
    parallelism, chunks of a stage and micro-batches where there are several, the sharding where there are several
    replicas (``ddp`` for none, ``fsdp`` for ZeRO-3), and recomputation, such as ``dp 4 · tp 2 · ddp · recomputing``. Of
    a placed plan ``placed · k 8 · l 2`` with its quantum τ and limit on parts that read all where k is above 1,
    micro-batches and recomputation. Algorithms and exchange method are left out."""
    if isinstance(choice, PlacedChoice):
        parts = ["placed", f"k {choice.k}", f"l {choice.l}"]
        if choice.k > 1:
            parts += [f"τ {format_time(choice.quantum)}", f"at most {choice.most_exchanging} read all"]
        parts += [f"{choice.micro_batches} micro-batches"] if choice.micro_batches > 1 else []
        parts += ["recomputing"] if choice.recomputation == "full" else []
    else:
        sizes = f" of {choice.micro_batch}" if choice.micro_batch else ""
        degrees = (("dp", choice.dp), ("tp", choice.tp), ("pp", choice.pp), ("cp", choice.cp), ("ep", choice.ep))
        parts = [f"{name} {degree}" for name, degree in degrees if degree > 1 or name == "dp"]
        parts += [
            "sequence" if choice.sequence_parallel else "",
            f"{choice.virtual_stages} chunks a stage" if choice.virtual_stages > 1 else "",
            f"{choice.micro_batches} micro-batches{sizes}" if choice.micro_batches > 1 else "",
            KIND_OF_SHARDING.get(choice.sharding, choice.sharding) if choice.replicas > 1 else "",
            _RECOMPUTED.get(choice.recomputation, ""),
        ]
    return " · ".join(filter(None, parts))


_SHARDINGS = {"none": "replicated", "zero-1": "ZeRO-1", "zero-2": "ZeRO-2", "zero-3": "ZeRO-3", "hybrid": "hybrid ZeRO"}
"""Names of what replicas shard, by the name of the choice."""


def division_words(choice: Strategy | PlacedChoice) -> str:
    """Return how a plan divides the job among the ranks, and what it recomputes, in words: the degrees above 1 ("one
    rank" where there are none), the sharding where there are several replicas ("replicated" for none), and
    "recomputing" or "recomputing attention": ``data 64, pipeline 8, ZeRO-1``; of a placed plan ``placed operators split
    8 ways, data 2``. Micro-batches and algorithms are left out."""
    if isinstance(choice, PlacedChoice):
        parts = [f"placed operators split {choice.k} ways" if choice.k > 1 else "placed operators"]
        parts += [f"data {choice.l}"] if choice.l > 1 else []
    else:
        degrees = {"data": choice.dp, "tensor": choice.tp, "pipeline": choice.pp}
        degrees |= {"context": choice.cp, "expert": choice.ep}
        parts = [f"{name} {degree}" for name, degree in degrees.items() if degree > 1] or ["one rank"]
        parts += [_SHARDINGS[choice.sharding]] if choice.replicas > 1 else []
    return ", ".join(filter(None, [*parts, _RECOMPUTED.get(choice.recomputation, "")]))


def plan_words(choice: Strategy | PlacedChoice) -> str:
    """Return a plan in words: how it divides the job, what it recomputes, and into how many micro-batches where there
    are several: ``data 64, pipeline 8, ZeRO-1, 16 micro-batches``."""
    return division_words(choice) + (f", {choice.micro_batches} micro-batches" if choice.micro_batches > 1 else "")


def division(choice: Strategy | PlacedChoice) -> Hashable:
    """Return the key that is equal for two plans that divide the job among the ranks alike: degrees dp, tp, pp, cp and
    ep, and whether replicas shard the parameters (ZeRO-3 or hybrid), ZeRO-1, ZeRO-2 and none being alike; all placed
    plans have the key "placed"."""
    if isinstance(choice, PlacedChoice):
        return "placed"
    return choice.dp, choice.tp, choice.pp, choice.cp, choice.ep, choice.sharding in ("zero-3", "hybrid")


# Intervals of plans: how far their predicted times may be off, and which plans that does not tell apart.
#
# A derivative for each parameter, by pricing the plan again with the parameter a little smaller; the computing of a
# placed plan moves as the sum of its operators does. Parameters of links are those of the fabric's collective
# library: exchanges that other schedules carry stay as they are.

_STEP = -1e-3
"""Change of a parameter's logarithm for numerical derivatives: downwards, as fractions may be 1."""


class Interval(NamedTuple):
    """The 90 % interval of a step's seconds, and how surely its plan is faster or slower than the winner."""

    low: float
    high: float
    apart: bool
    """True where the interval of the difference of both times excludes 0: the plan is told apart from the winner."""
    order_holds: float
    """Probability that the plan is on the side of the winner on which its time lies, errors that both share drawn
    together; 0.5 for the same time."""

    @property
    def half_width(self) -> float:
        """Half of the interval as a share of its geometric middle, the predicted time: 0.1 for 10 %."""
        return float((self.high - self.low) / (2 * np.sqrt(self.high * self.low)))


@dataclass(frozen=True)
class _Slopes:
    """A plan with the derivatives of the logarithm of its step time by those of the parameters of its prices."""

    plan: Plan
    belief: Belief
    slopes: Floats
    """Derivatives of the logarithm of its step time by that of each parameter: [parameters]."""

    @property
    def half_width(self) -> float:
        """Half-width of the 90 % interval of the natural logarithm of the step time."""
        return half_widths(self.slopes[None], self.belief.covariance, self.belief.scatter).item()

    def distance(self, other: _Slopes) -> float:
        """Return the absolute difference of the logarithms of two plans' times a sample, as a multiple of the
        half-width of its 90 % interval: above 1 the plans are told apart.

        Infinite where times differ and nothing is uncertain, 0 where they are equal. Parameters that move both times
        alike cancel; on different clusters uncertainties count as independent.
        """
        difference = abs(log(self.plan.sample_time / other.plan.sample_time))
        width = self.half_width_against(other, shared=self.plan.cluster == other.plan.cluster)
        return difference / width if width else inf * difference if difference else 0.0

    def half_width_against(self, other: _Slopes, *, shared: bool) -> float:
        """Return the half-width of the 90 % interval of the difference of the natural logarithms of two plans' times.

        With ``shared`` the same parameters, in the same order, move both, so that their common part cancels; otherwise
        they count as independent.
        """
        if not shared:
            return hypot(self.half_width, other.half_width)
        slopes, scatter = (self.slopes - other.slopes)[None], sqrt(2) * self.belief.scatter
        return half_widths(slopes, self.belief.covariance, scatter).item()

    def influences(self) -> dict[str, float]:
        """Return, by parameter, the share of the time (0.1 for 10 %) by which the parameter's own 90 % interval moves
        it, the largest first."""
        moves = np.expm1(NORMAL * np.abs(self.slopes) * np.sqrt(np.diag(self.belief.covariance)))
        return {self.belief.names[place]: float(moves[place]) for place in np.argsort(-moves)}


def plan_intervals(winner: Plan, plans: Iterable[Plan]) -> dict[int, Interval]:
    """Return the intervals of plans by their ``id`` (the built-in function), each with the low and high seconds of the
    step, whether the plan is told apart from ``winner`` and the probability that their order holds; without plans whose
    accelerator states no spreads or whose step takes no time. The winner itself is not told apart, and its order holds
    by 0.5. A winner without spreads counts as told apart from every plan."""
    first = _with_slopes(winner)
    intervals: dict[int, Interval] = {}
    for plan in plans:
        priced = first if plan is winner else _with_slopes(plan)
        if priced is not None and plan.step_time > 0:
            factor = float(np.exp(priced.half_width))
            distance = inf if first is None else 0.0 if plan is winner else priced.distance(first)
            holds = 0.5 * (1 + erf(NORMAL * distance / sqrt(2)))
            intervals[id(plan)] = Interval(plan.step_time / factor, plan.step_time * factor, distance > 1, holds)
    return intervals


def half_width_of_ratio(plan: Plan, other: Plan) -> float | None:
    """Return the half-width of the 90 % interval of the natural logarithm of the ratio of two plans' times. Parameters
    count as common to both where accelerator and parameters are the same, otherwise as independent.

    0 where both are one plan, None where no spread is known of one of them.
    """
    if plan is other:
        return 0.0
    first, second = _with_slopes(plan), _with_slopes(other)
    if first is None or second is None:
        return None
    shared = plan.cluster.accelerator == other.cluster.accelerator and first.belief.names == second.belief.names
    return first.half_width_against(second, shared=shared)


def influences(plan: Plan) -> dict[str, float]:
    """Return, by parameter of the prices, the share of a plan's step time (0.1 for 10 %) by which the parameter's own
    90 % interval moves it, the largest first; empty where no spread is known. Parameters are those of the accelerator's
    kernels and of the fabric's collective library."""
    priced = _with_slopes(plan)
    return {} if priced is None else priced.influences()


@lru_cache(maxsize=64)
def _with_slopes(plan: Plan) -> _Slopes | None:
    """Return a plan with the numerical derivatives of the natural logarithm of its step time by the logarithms of the
    parameters of its prices, one each, for the latest 64 plans cached; None where no spread of its accelerator is
    known."""
    job, belief = plan.job, belief_of(plan.job.accelerator, plan.job.fabric)
    if belief is None:
        return None
    by_library = not plan.verified
    base = _log_seconds(plan, _moved(job, "", by_library=by_library))
    moved = [_log_seconds(plan, _moved(job, name, by_library=by_library)) for name in belief.names]
    return _Slopes(plan, belief, (np.array(moved) - base) / _STEP)


def _moved(job: Job, parameter: str, *, by_library: bool) -> Job:
    """Return the plan's job with one parameter smaller by a thousandth of itself.

    Args:
        job: to be changed.
        parameter: name of a parameter of the accelerator's kernels, else of the library's links; "" changes none.
        by_library: True to price exchanges by the fabric's collective library alone; otherwise they keep the job's
            prices, and a parameter of links changes nothing.
    """
    accelerator, fabric, smaller = job.accelerator, job.fabric, np.exp(_STEP)
    kernels, library = accelerator.kernels, fabric.library
    if kernels is not None and parameter in kernels.priors():
        value = getattr(kernels, parameter) * smaller
        accelerator = accelerator.model_copy(update={"kernels": kernels.model_copy(update={parameter: value})})
    elif by_library and parameter:
        assert library is not None
        value = library.transport.priors()[parameter].value * smaller
        fabric = fabric.model_copy(update={"transport": library.transport.with_parameters({parameter: value})})
    return job.repriced(accelerator, fabric, LibraryPricing(fabric) if by_library else job.pricing)


def _log_seconds(plan: Plan, job: Job) -> float:
    """Return the natural logarithm of the seconds of a plan's step at the prices of ``job``. For a placed plan, instead
    the logarithm of its operators' summed seconds, times the share of the step that it computes: only differences
    between two jobs mean something."""
    if isinstance(plan.choice, Strategy):
        return float(np.log(strategy_seconds(job, plan.choice)))
    rows = PlacedRows.of([plan.choice])
    one = np.ones(1, np.int64)
    computing = sum(float(seconds.sum()) for seconds in job.operators.passes(rows.samples, one, rows.recomputation))
    return plan.breakdown["compute_s"] / plan.step_time * float(np.log(computing))


# Ranking of plans: the order of a ranking, and the front of time and energy.


def order(plan: Plan) -> tuple[bool, bool, float, float, bool, str, str, bool, str]:
    """Return the sort key of a ranking, smallest first: plans that fit the memory (or whose memory is unknown), of
    these first those that a framework can run, then less time a sample.

    Of equal times, first less time of communication, then plans that recompute nothing, then by names of algorithm and
    of kind, then gradients as they are before those of a method, then by label.
    """
    return (
        plan.fits is False,
        not plan.runnable,
        plan.sample_time,
        plan.communication_time or 0.0,
        plan.choice.recomputation != "none",
        plan.algorithm,
        plan.strategy,
        plan.gradient_exchange is not None,
        plan.label,
    )


def pareto_front(plans: Iterable[Plan]) -> tuple[Plan, ...]:
    """Return the Pareto front of seconds against joules a sample, fastest first: the plans to which no other is at
    least as good in both; of equal plans the first."""
    front: list[Plan] = []
    for plan in sorted(plans, key=lambda plan: (plan.sample_time, plan.energy_per_sample)):
        if not front or plan.energy_per_sample < front[-1].energy_per_sample:
            front.append(plan)
    return tuple(front)


# Counts of the plans of a search.


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Plans of a search, by what became of them."""

    rows: int = 0
    """Number of all plans."""
    refused: int = 0
    """Plans whose groups have no such collectives or circuits."""
    too_fine: int = 0
    """Placed plans with more sub-operators than are searched."""
    too_large: int = 0
    """Plans that do not fit the memory."""
    bounded: int = 0
    """Plans whose step time was bounded."""
    partitioned: int = 0
    """Partitions made, each for all plans that share it."""
    placed: int = 0
    """Number of placements made."""
    simulated: int = 0
    """Number of plans simulated."""

    def __add__(self, other: Counts) -> Counts:
        """Return the sums of both, count by count."""
        return Counts(**{name: getattr(self, name) + getattr(other, name) for name in Counts.__dataclass_fields__})


INTERVALS = 12
"""Plans of a ranking that have intervals: those that the terminal shows, with the best of each kind."""
INTERVALS_OF_THE_REFERENCE = 3


@dataclass(frozen=True, eq=False)
class Plan:
    """One plan that was simulated with verified schedules or circuits."""

    cluster: Cluster
    """With the ranks that the plan uses."""
    job: Job
    """Where and at which prices it was simulated."""
    choice: Strategy | PlacedChoice
    bound: float
    """Lower bound of the step's duration before it was simulated, in seconds."""
    step: StrategyStep | PlacedStep | BroadcastStep
    """Simulated step of the plan."""
    make_ledger: Callable[[], StepLedger] = field(repr=False)
    """Makes the ledger when it is first asked for; it decides no ranking."""
    memory: float
    """Bytes of the fullest rank."""
    gradient_exchange: PricedExchange | None = None
    """Method by which replicas exchange gradients; None for as they are."""
    uncompressed: Plan | None = None
    """Plan that exchanges gradients as they are and is otherwise equal, where it was simulated too."""

    @cached_property
    def ledger(self) -> StepLedger:
        """Ledger of the joules and dollars of a step over all ranks, made when it is first asked for."""
        return self.make_ledger()

    @property
    def step_time(self) -> float:
        """Duration of a step, in seconds."""
        return self.step.step_time

    @property
    def breakdown(self) -> Mapping[str, float]:
        """Seconds of the step as ``compute_s``, ``exposed_communication_s``, ``exposed_reconfiguration_s`` and
        ``idle_s``, which add up to the step; with pipeline stages, the mean over their ranks; of a placed plan
        computing counts where any device computes."""
        return self.step.breakdown

    @property
    def fits(self) -> bool | None:
        """True where the accelerator's memory holds the fullest rank of the plan; None where the memory's size is
        unknown."""
        capacity = self.cluster.accelerator.memory
        return None if capacity is None else self.memory <= capacity

    @property
    def runnable(self) -> bool:
        """True for plans that a training framework can run: any but a placed one, as none places single operators."""
        return isinstance(self.choice, Strategy)

    @property
    def splits_neurons(self) -> bool:
        """True where ranks share the neurons of every layer of a convolutional network."""
        return isinstance(self.choice, Strategy) and self.choice.tp > 1 and self.job.model.split.of_neurons

    @property
    def placed(self) -> PlacedStep | None:
        """The step of a placed plan; None of other plans."""
        return self.step if isinstance(self.step, PlacedStep) else None

    @property
    def division(self) -> Division | None:
        """Channels that each axis of a strategy holds, where circuits of several axes stand at once; None elsewhere."""
        return self.step.division if isinstance(self.step, StrategyStep) else None

    @property
    def result(self) -> StepResult | None:
        """The simulated step of a plan of data parallelism alone, exchange by exchange; None for other plans."""
        return self.step.result if isinstance(self.step, StrategyStep) else None

    @property
    def prices(self) -> SchedulePrices | CheapestPrices | PhasedPrices | LibraryPrices | None:
        """Prices by which the exchanges of data parallelism alone were simulated; None for other plans and for a single
        rank."""
        prices = self.step.prices if isinstance(self.step, StrategyStep) else None
        return prices if isinstance(prices, SchedulePrices | CheapestPrices | PhasedPrices | LibraryPrices) else None

    @property
    def timeline(self) -> Timeline:
        """Timeline of the simulated step: intervals of its tasks, in which one group of ranks stands for all."""
        return self.step.timeline

    @property
    def spent(self) -> Mapping[str, Floats] | None:
        """Seconds that the rank of each stage spends on each kind of work or waiting (``compute_s``, ``update_s``,
        ``tensor_and_expert_exchange_s``, ``context_exchange_s``, ``parameter_gather_s``, ``pipeline_send_s``,
        ``gradient_exchange_s``, ``switch_turn_s`` and ``bubble_s``), each [stages]; None for plans that are not
        simulated stage by stage."""
        return self.step.spent if isinstance(self.step, StrategyStep) else None

    @property
    def in_step(self) -> InStep | None:
        """Planes of the switch by phase of the step, and what setting them anew within it gains; None unless that was
        searched and several groups exchange."""
        return self.step.in_step if isinstance(self.step, SwitchedStrategyStep) else None

    @property
    def regranted(self) -> RegrantedStep | None:
        """The step of a placed plan whose circuits are granted anew within it; None of other plans."""
        return self.step if isinstance(self.step, RegrantedStep) else None

    @property
    def strategy(self) -> str:
        """Kind of the plan: "placed"; "ddp" or "fsdp" for data parallelism alone with one micro-batch, replicated or
        fully sharded (ZeRO-3); "tensor-pipeline" for all other strategies."""
        return kind_of(self.choice)

    @property
    def exchanges(self) -> tuple[ExchangeUse, ...]:
        """Collectives of the step, the largest first: one for each kind, group (ranks and stride) and algorithm, with
        the bytes of its largest; empty for placed plans."""
        return self.step.exchanges if isinstance(self.step, StrategyStep) else ()

    @property
    def algorithm(self) -> str:
        """Name of the algorithm of the largest collective; "none" without collectives, as on one rank and for placed
        plans."""
        return self.exchanges[0].algorithm if self.exchanges else "none"

    @property
    def algorithms(self) -> tuple[str, ...]:
        """Names of the algorithms of the step's collectives, each once, the largest exchange's first, then those of
        further phases of an exchange method; empty for placed plans."""
        names = [use.algorithm for use in self.exchanges]
        if isinstance(self.prices, PhasedPrices):
            for use in self.exchanges:
                names += self.prices.algorithms(use.kind, use.nbytes)
        return tuple(dict.fromkeys(names))

    @property
    def verified(self) -> bool:
        """True where verified schedules or circuits carry all exchanges; False where a collective library, which has a
        closed form only, carries any."""
        return LIBRARY.name not in self.algorithms

    @property
    def communication_time(self) -> float | None:
        """Seconds of the step that networks transmit, change circuits or wait for a codec, hidden behind computing or
        not, with pipeline stages or other axes summed over all stages; None for placed plans, whose transfers
        overlap."""
        return None if isinstance(self.step, PlacedStep) else self.step.communication_time

    @cached_property
    def sent_and_set(self) -> tuple[float, float]:
        """Bytes that a rank gives to the network in a step, and how many times its circuits are set in it; means over
        all ranks. Of a placed plan these are the simulated ones, relayed bytes once for each hop; of other plans bytes
        are as few as carry a collective whatever the algorithm, and circuits that stand from step to step count as
        never set (:func:`~lightloom.planning.pricing.strategy_step.sent_and_set`)."""
        if isinstance(self.step, PlacedStep):
            return self.step.sent_bytes / self.step.plan.k, float(self.step.reconfigurations)
        assert isinstance(self.choice, Strategy) and isinstance(self.step, StrategyStep)
        return sent_and_set(self.job, self.choice, self.step)

    @property
    def memory_use(self) -> MemoryUse | None:
        """Bytes of a rank by what they hold, for plans of data parallelism alone that keep all activations; None for
        other plans, of which only the total is known."""
        plain = isinstance(self.choice, Strategy) and self.choice.recomputation == "none"
        return self.result.plan.memory if self.result is not None and plain else None

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
        """Samples per second of all ranks together; infinite for a step that takes no time."""
        return self.global_batch / self.step_time if self.step_time else float("inf")

    @property
    def energy(self) -> StepEnergy:
        """Joules of a step over all ranks."""
        return self.ledger.energy

    @property
    def energy_per_sample(self) -> float:
        """Joules of a step over all ranks for each of its samples; parts of the machine whose power is unknown count
        nothing."""
        return self.energy.known_j / self.global_batch

    @property
    def short_label(self) -> str:
        """The plan in a few words joined by " · ": degrees, what is not the default, and algorithms; without its method
        of exchanging gradients."""
        return " · ".join(filter(None, (label(self.choice), _named(self.algorithms))))

    @property
    def label(self) -> str:
        """The plan in a few words joined by " · ": degrees, what is not the default, algorithms, and the method of
        exchanging gradients where it has one."""
        return " · ".join([self.short_label, *([self.gradient_exchange.label] if self.gradient_exchange else [])])

    @property
    def site(self) -> str:
        """Name of the plan's cluster and its number of ranks: "terarack-64, 64 ranks"."""
        return f"{self.cluster.name}, {self.cluster.counted_ranks}"


def _named(algorithms: Sequence[str]) -> str:
    """Return the names of the first two algorithms and how many more there are: ``ring + tree + 2 more``; empty for
    none."""
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
        """Return the first plan in the ranking of a kind (``strategy``: "ddp", "fsdp", "tensor-pipeline" or "placed");
        None where it has none. It need not fit the memory."""
        return next((plan for plan in self.ranking if plan.strategy == strategy), None)

    @property
    def front(self) -> tuple[Plan, ...]:
        """Pareto front of seconds against joules a sample among the simulated plans that fit (or whose memory is
        unknown), fastest first."""
        return pareto_front(plan for plan in self.ranking if plan.fits is not False)

    def utilization(self, plan: Plan, *, hardware: bool = False) -> float:
        """Return the share of the accelerators' peak rate that the FLOPs of a plan's step use, between 0 and 1: of
        forward and backward passes, at the precision of the training settings; 0 for a step that takes no time.

        Repeated forward passes do not count. With ``hardware`` they count as well, both those that recomputation in the
        plan repeats and those within single operators.
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
        """FLOPs of the forward passes that are repeated, at the graph's batch, by the name of the recomputation
        ("none", "full", "selective")."""
        forward = [operator.forward_flops for operator in self.graph.operators]
        return {name: sum(compress(forward, repeated_operators(self.graph, name))) for name in RECOMPUTATIONS}

    @cached_property
    def intervals(self) -> dict[int, Interval]:
        """90 % intervals by the ``id`` of the plan: of the first 12 plans of the ranking, of the best of each kind, of
        the first of each cluster and of the first 3 on the reference. Plans whose accelerator has a flat efficiency, of
        which no spread is known, and plans whose step takes no time are left out."""
        best = [plan for plan in map(self.best_of, self.request.kinds) if plan is not None]
        shown = *self.ranking[:INTERVALS], *best, *self.first_of_clusters, *self.reference[:INTERVALS_OF_THE_REFERENCE]
        return plan_intervals(self.winner, {id(plan): plan for plan in shown}.values())

    def ledger_of(self, plan: Plan) -> StepLedger:
        """Return a plan's ledger, with the low and high seconds of its step's 90 % interval where :attr:`intervals` has
        the plan, otherwise unchanged."""
        interval = self.intervals.get(id(plan))
        return plan.ledger if interval is None else replace(plan.ledger, interval=(interval.low, interval.high))

    @property
    def first_of_clusters(self) -> tuple[Plan, ...]:
        """The best plan of every cluster in the ranking, in the ranking's order, then the first plan on the electrical
        reference."""
        first: dict[int, Plan] = {}
        for plan in (*self.ranking, *self.reference):
            first.setdefault(id(plan.ledger.cluster), plan)
        return tuple(first.values())

    @property
    def sequence_length(self) -> int | None:
        """Tokens of a sample, by the longest sequence of an attention operator; None for models without attention over
        a sequence."""
        return sequence_length(self.graph)


def sequence_length(graph: ComputeGraph) -> int | None:
    """Return the tokens of a sample, by the longest sequence of an attention operator; None for models without
    attention over a sequence."""
    attention = (each.dimensions for each in graph.operators if each.kind == "attention")
    return max((sizes["sequence"] for sizes in attention if "sequence" in sizes), default=None)


# Sources of the prices of clusters: calibrations or priors, libraries or ideal software.


def priced_lines(search: PlanSearch) -> list[str]:
    """Return lines of text on the source of prices: one for each cluster, "NAME: ...", on its computing and its
    collectives; and one more where only some clusters have a collective library, that the others' lead is an upper
    bound."""
    lines = list(dict.fromkeys(f"{cluster.name}: {_pricing_basis(cluster, search)}" for cluster in search.clusters))
    if len({cluster.fabric.library is None for cluster in search.clusters}) > 1:
        lines.append("where one cluster pays for a library and the other does not, the other's lead is an upper bound")
    return lines


def _pricing_basis(cluster: Cluster, search: PlanSearch) -> str:
    """Return the source of a cluster's prices in one line, without the cluster's name: its chip's calibration, priors
    or share of the roofline, what carries its collectives, and a note where ranks fill the fabric's domains only in
    part."""
    machine, calibration, algorithms = cluster.accelerator, cluster.accelerator.calibration, search.request.algorithms
    if calibration is not None:
        basis = f"calibrated on {calibration.rows.count:,} {calibration.rows.kind} of {calibration.rows.table}"
    else:
        basis = "by priors" if machine.kernels is not None else f"at {machine.efficiency:.0%} of its roofline"
    software = cluster.fabric.software
    if cluster.fabric.library is not None and algorithms and LIBRARY.name not in algorithms:
        software = f"schedules with ideal software, as --algorithm names them in the place of {software}"
    filling = "" if cluster.fabric.filling is None else f"; {cluster.fabric.filling}"
    return f"{machine.chip} {basis}; collectives by {software}{filling}"
