"""The plans of a search on one cluster as rows: what is left out and why, their bounds, what simulating one gives."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from heapq import nsmallest
from typing import NamedTuple

import numpy as np

from lightloom.collectives.registry import algorithms
from lightloom.core.arrays import Effort, Floats, Ints, Mask, first_rows
from lightloom.core.caches import cached_method
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.core.units import format_size
from lightloom.machines.clusters.cluster import Cluster
from lightloom.models.graph import ComputeGraph
from lightloom.planning.economics.estimate import ClusterGoodput, goodput_of
from lightloom.planning.economics.ledger import ClusterLedger, StepLedger
from lightloom.planning.gradients import VALUE_BYTES, PricedExchange
from lightloom.planning.parallelism.circuits.circuits import GroupCircuits
from lightloom.planning.parallelism.circuits.group import Regrant, grant
from lightloom.planning.parallelism.placement.cuts import PartitionRules, kept_graph, repeated_memory
from lightloom.planning.parallelism.placement.place import EFFORT, Partitions, place
from lightloom.planning.parallelism.placement.placement import BalancedGraph, HybridPlan, Link, Placement
from lightloom.planning.parallelism.plan import RECOMPUTATIONS
from lightloom.planning.parallelism.strategy_space import SHARDINGS, Strategies, Strategy
from lightloom.planning.pricing.broadcast_step import (
    BroadcastStep,
    ChipLink,
    Moved,
    Network,
    broadcast_step,
    chips_needed,
)
from lightloom.planning.pricing.group_prices import AUTO, GroupPrices, PlanePrices
from lightloom.planning.pricing.job import Job
from lightloom.planning.pricing.library_prices import LIBRARY
from lightloom.planning.pricing.placed_replicas import ReplicaExchange, method_between
from lightloom.planning.pricing.placed_space import (
    MOST_SUB_OPERATORS,
    SMALLER_FROM,
    PartTable,
    PlacedChoice,
    PlacedRows,
    distinct,
    peers,
    placed_on,
    placed_space,
    reach,
    shared_state_bytes,
    smaller,
    state_bytes,
)
from lightloom.planning.pricing.strategy_step import (
    StrategyStep,
    on_divided_channels,
    placed_joules,
    simulate,
    strategy_joules,
    verify_standing,
)
from lightloom.planning.reconfiguration.in_step import SwitchedStrategyStep, faster_regranted, simulate_in_step
from lightloom.planning.search.bounds import (
    ROUNDING,
    admitted,
    bounds,
    coarse_bound,
    fastest_link,
    memory,
    placed_bound,
)
from lightloom.planning.search.plans import Counts, Plan, RefusedPlan
from lightloom.planning.search.request import DATA_PARALLEL, KINDS, SearchRequest
from lightloom.planning.simulation.placed_step import PlacedStep, simulate_placed

# Columns of the strategies that a search has: their kind, and which have the largest batch.


def kinds_of(rows: Strategies) -> Ints:
    """Return the kind of each row as its index in ("ddp", "fsdp", "tensor-pipeline"): 0 for data parallelism alone with
    one micro-batch, replicated; 1 for the same, fully sharded (ZeRO-3); 2 for everything else, several micro-batches
    and other shardings included: [rows]."""
    return np.where(rows.plain, rows.sharding, len(DATA_PARALLEL))


def with_largest_batch(rows: Strategies, fitting: Mask) -> Mask:
    """Return a mask of the rows whose global batch is the largest that fits among rows that differ in nothing else:
    [rows]. ``fitting`` [rows] marks those that fit; where none of such rows fits, all are False."""
    first, plan = first_rows([getattr(rows, name) for name in Strategy._fields if name != "global_batch"])
    most = np.zeros(len(first), np.int64)
    np.maximum.at(most, plan, np.where(fitting, rows.global_batch, 0))
    largest: Mask = rows.global_batch == most[plan]
    return largest


# Placed plans that a search looks at: those left out and why, and the first bound of the others.


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedRows:
    """Placed plans that may fit, and counts and reasons of those left out."""

    rows: PlacedRows
    bound: Floats
    """Seconds of a step at least: [rows]."""
    counts: Counts
    refusals: list[str]
    """Why rows were left out, a line for each reason."""
    needed: list[str]
    """Memory that rows which do not fit need."""


def searched_rows(job: Job, request: SearchRequest, batches: tuple[int, ...]) -> SearchedRows:
    """Return the placed plans of these global batches (samples of a step) that may fit the memory and have at most
    30,000 sub-operators, with their first bounds (seconds of a step), how many were left out for what, and why, in
    ``refusals``; in ``needed`` how much memory the smallest plan takes where any is too large. Where the fabric runs no
    placed plans there are no rows and one reason. With exchange methods, plans come with gradients as they are and with
    each codec that codes in line with the links (on a fabric of parts each plan comes once, as the exchange between
    groups is the same for all). Of plans that cut all operators alike the first stands for all.

    Where the request pins anything, rows come with each number of micro-batches (powers of two that divide a group's
    batch, at most 64, or what is pinned) and each recomputation ("none" and "full") that agree with the pins; otherwise
    rows whose devices hold more than half of the memory on average are also tried with several micro-batches and
    recomputation.
    """
    refusals, table, needed = list[str](), PartTable(job.model), list[str]()
    between = method_between(job) if job.fabric.parts else None
    in_line = [method.placed_ratio for method in job.exchanges if method.in_line and not job.fabric.parts]
    try:
        degree = peers(job.fabric)
        rows, refused = placed_space(job.fabric, batches, request.quanta, (1.0, *in_line))
    except UnsupportedError as error:
        # No placed plans are simulated on this fabric.
        none = PlacedRows.of([])
        return SearchedRows(rows=none, bound=np.empty(0), counts=Counts(), refusals=[str(error)], needed=needed)
    if len(in_line) + (between is not None) < len(job.exchanges):
        refusals.append("placed plans take codecs in line with the links only")
    if refused:
        refusals.append(
            f"{refused} placed plans have groups without circuits between their devices, of a degree D of "
            f"{degree}: expected D of at least 3, one circuit each way and one to the next group"
        )
    counts = Counts(rows=refused, refused=refused)
    rows = distinct(job, table, rows)
    look = coarse_bound(job, table, rows)
    memory, pins = job.accelerator.memory, dict(request.pins)
    capacity = np.inf if memory is None else memory
    if any(value is not None for value in pins.values()):
        rows = smaller(rows, pins)
        look = coarse_bound(job, table, rows)
    elif (divided := look.memory > SMALLER_FROM * capacity).any():
        others = distinct(job, table, smaller(rows.rows(divided), pins))
        rows = PlacedRows.of([part[row] for part in (rows, others) for row in range(len(part))])
        look = coarse_bound(job, table, rows)
    fine, large = look.sub_operators > MOST_SUB_OPERATORS, look.memory > capacity
    if fine.any():
        refusals.append(f"{fine.sum()} placed plans have more than {MOST_SUB_OPERATORS} sub-operators")
    if large.any():
        needed.append(f"the smallest placed plan needs at least {format_size(look.memory.min())} a device")
    counts += Counts(rows=len(rows), too_fine=int(fine.sum()), too_large=int((large & ~fine).sum()))
    kept = ~fine & ~large
    return SearchedRows(rows=rows.rows(kept), bound=look.bound[kept], counts=counts, refusals=refusals, needed=needed)


# Placed rows one by one: partition, placement, circuits, step; and a tighter bound after each.
#
# structure   busiest device, longest path with transfers at the best rate, bytes through each port and ring link
# circuits    the same at the rates of the pipes that were granted, and the bytes of each pipe over its rate

_KEPT: Effort = 16
"""Plans kept for the rows that may ask for them again."""
_KEPT_PARTITIONS: Effort = 16
"""Graphs whose partitions are kept."""
_KEPT_CUTS: Effort = 64
"""Partitions kept for other fabrics."""


class PlacedCuts:
    """The partitions of a model's groups on one accelerator, whatever their fabric; the latest 64 are kept."""

    def __init__(self, job: Job) -> None:
        self.model, self.accelerator = job.model, job.accelerator
        self._settings, self._times, self._table = job.settings, job.operators, PartTable(job.model)

    @cached_method(most=_KEPT_CUTS)
    def __call__(self, group: PlacedChoice, quantum: float, most_exchanging: int) -> BalancedGraph:
        """Return the graph of a group's micro-batch, cut to a quantum and balanced."""
        return self._partitions_of(group)(group.k, quantum, most_exchanging)

    @cached_method(most=_KEPT_PARTITIONS)
    def _partitions_of(self, group: PlacedChoice) -> Partitions:
        """Return the object, cached, that partitions the graph of one micro-batch of a group of devices for a number of
        devices k, a quantum (seconds; operators are cut no finer) and a limit on the parts of an operator that read all
        of its input. ``group`` is a choice without quantum and limit; its number of groups decides how much optimizer
        state counts as memory."""
        settings, times, rows = self._settings, self._times, PlacedRows.of([group])
        durations = np.concatenate(times.kernels(rows.samples, rows.recomputation)).T
        rules = PartitionRules(
            loss=True,
            state_bytes=state_bytes(settings),
            shared_state_bytes=shared_state_bytes(settings, float(group.l)),
            gradient_bytes=settings.gradient_bytes,
        )
        graph = self.model.local_graph(group.samples)
        graph = graph if group.recomputation == "none" else kept_graph(graph)
        return Partitions(graph, durations, rules, self._table.part_seconds(times, group.samples, group.recomputation))


_latest_cuts: list[PlacedCuts] = []
"""The cuts that were asked for last."""


def _cuts_of(job: Job) -> PlacedCuts:
    """Return the cuts of a job's model on its accelerator: the object that the last call returned where both are the
    same, otherwise a new one that is kept in its place."""
    if not _latest_cuts or _latest_cuts[0].model is not job.model or _latest_cuts[0].accelerator != job.accelerator:
        _latest_cuts[:] = [PlacedCuts(job)]
    return _latest_cuts[0]


class PlacedPlans:
    """Makes the placed plans of one job, and keeps the latest.

    Every method but :meth:`identity` raises ``UnsupportedError`` where a plan does not fit the memory or the fabric
    cannot serve it.
    """

    def __init__(
        self, job: Job, in_line: Mapping[float, PricedExchange] | None = None, *, regrants: bool = False
    ) -> None:
        """With ``regrants``, circuits are granted anew within a step where that is faster."""
        self._job = job
        self._regrants = regrants
        self._in_line = in_line or {}
        self._cuts = _cuts_of(job)
        self.partitions = 0
        """Number of partitions made so far."""
        self.placements = 0
        """Number of placements made so far."""

    def plan(self, choice: PlacedChoice) -> HybridPlan:
        """Return the placed plan of a choice, cached, placed by the quick heuristic alone, without search around its
        result; choices that cut all operators alike share one plan.

        Raises:
            UnsupportedError: it does not fit the memory, or the fabric cannot serve it.
        """
        plan = self._first_placed(self._partition(choice), choice.group)
        if isinstance(plan, str):
            raise UnsupportedError(plan)
        return plan

    @cached_method(most=_KEPT)
    def _first_placed(self, balanced: BalancedGraph, group: PlacedChoice) -> HybridPlan | str:
        """Return the plan of a partition of a group's micro-batch, placed without further search and cached; where it
        has none, the reason as text. Adds one to ``partitions`` unless it was cached."""
        self.partitions += 1
        try:
            return self._placed(balanced, group, effort=0)
        except UnsupportedError as error:
            return str(error)

    def identity(self, choice: PlacedChoice) -> object:
        """Return a key that is equal for choices with the same plan and step: the choice without its quantum and its
        limit on exchanging parts, which decide only how operators are cut, and how all operators are cut."""
        balanced = self._partition(choice)
        return choice._replace(quantum=0.0, most_exchanging=0), balanced.dimensions, balanced.first.tobytes()

    def _placed(self, balanced: BalancedGraph, choice: PlacedChoice, effort: int) -> HybridPlan:
        """Return a plan that is placed now and not cached, with search ``effort`` around the heuristic's result, 0 for
        none. Copies share out the optimizer's state in it, and passes are stretched to what the host takes to launch
        them. Adds one to ``placements``.

        Raises:
            UnsupportedError: it does not fit the memory, or too few devices of a group may communicate.
        """
        fabric = placed_on(self._job.fabric)
        fastest = fastest_link(fabric)
        rate = fastest.rate / peers(fabric) if fabric.exclusive else fastest.rate
        link = Link(bandwidth=rate, latency=fastest.latency)
        self.placements += 1
        memory = self._job.accelerator.memory
        placement = place(balanced, choice.k, reach(self._job.fabric, choice.l), memory, link, effort=effort)
        launched = self._launched(balanced, placement, choice)
        return HybridPlan(placement, launched, choice.k, choice.l, shares_state=True)

    def structure_bound(self, choice: PlacedChoice) -> float:
        """Return the least seconds that the step of a choice's plan takes whatever circuits it is granted, all
        micro-batches included; the plan is partitioned and placed for it.

        Raises:
            UnsupportedError: the plan does not fit the memory, or the fabric cannot serve it.
        """
        return self._bound(choice, None)

    def circuits_bound(self, choice: PlacedChoice) -> float:
        """Return the least seconds that the step of a choice's plan takes over the circuits that the fabric grants it,
        all micro-batches included; where circuits may be granted anew within the step, over any circuits.

        Raises:
            UnsupportedError: the plan does not fit the memory, or the fabric cannot serve it.
        """
        circuits = self.circuits(choice)
        return self._bound(choice, None if self._regrants else circuits)

    def _bound(self, choice: PlacedChoice, circuits: GroupCircuits | None) -> float:
        """Return the least seconds that all micro-batches of the step of a choice's plan take over these circuits; over
        any circuits for None."""
        plan = self.plan(choice)
        # The busiest device computes each micro-batch before the last.
        passes = plan.balanced.forward + plan.balanced.backward
        busiest = float(np.bincount(plan.placement.device, passes, plan.k).max())
        earlier = ROUNDING * (choice.micro_batches - 1) * busiest
        return placed_bound(self._job, plan, choice.ratio, circuits) + earlier

    def circuits(self, choice: PlacedChoice) -> GroupCircuits:
        """Return the circuits that the fabric grants the plan of a choice, cached.

        Raises:
            UnsupportedError: the plan does not fit the memory, or the fabric cannot serve it.
        """
        return self._granted(self.plan(choice))

    @cached_method(most=_KEPT)
    def _granted(self, plan: HybridPlan) -> GroupCircuits:
        """Return the circuits that the fabric grants a plan, cached; on a fabric of parts those inside a part, with the
        exchange between groups."""
        fabric = self._job.fabric
        return self._replicas.granted(plan, self._job) if fabric.parts else grant(plan, fabric)

    @cached_property
    def _replicas(self) -> ReplicaExchange:
        """The exchange of gradients between groups on a fabric of parts, in seconds."""
        return ReplicaExchange.of(self._job)

    def simulate(self, choice: PlacedChoice) -> PlacedStep:
        """Return one simulated step of the plan of a choice over the circuits that it is granted, or with circuits
        granted anew within the step where that is allowed and faster.

        Raises:
            UnsupportedError: the plan does not fit the memory, or the fabric cannot serve it.
        """
        return self._fastest(self.plan(choice), self.circuits(choice), choice)

    def simulate_replaced(self, choice: PlacedChoice) -> PlacedStep:
        """Return one simulated step of a choice's plan when it is placed again with all search effort, over the
        circuits that this placement is granted, or with others granted anew within the step where that is allowed and
        faster.

        Raises:
            UnsupportedError: the plan does not fit the memory, or the fabric cannot serve it.
        """
        plan = self._placed(self._partition(choice), choice, EFFORT)
        return self._fastest(plan, self._granted(plan), choice)

    def _fastest(self, plan: HybridPlan, circuits: GroupCircuits, choice: PlacedChoice) -> PlacedStep:
        """Return the simulated step of ``plan``, of the choice, over ``circuits``, or with others granted anew within
        it where this object allows that and it is faster. With a codec (``choice.ratio`` other than 1), which is paced
        for circuits that stand, over ``circuits`` alone."""
        step = self._step(plan, circuits, choice)
        if not self._regrants or choice.ratio != 1:
            return step
        simulated = partial(self._step, plan, choice=choice)
        return faster_regranted(step, plan, self._job.fabric, lambda pipes, regrant: simulated(pipes, regrant=regrant))

    def _step(
        self, plan: HybridPlan, circuits: GroupCircuits, choice: PlacedChoice, regrant: Regrant | None = None
    ) -> PlacedStep:
        """Return the simulated step of ``plan``, of the choice, over ``circuits``, earlier micro-batches and the memory
        of recomputation included; with ``regrant``, circuits are granted anew within it as that says."""
        ratio, job = self._ratio(circuits, plan.k, choice.ratio), self._job
        simulated = partial(simulate_placed, plan, circuits, job.accelerator, job.settings, regrant=regrant)
        step = simulated(compression_ratio=ratio)
        if choice.micro_batches > 1:
            step = step.after(simulated(accumulates=True), choice.micro_batches - 1)
        if choice.recomputation == "none":
            return step
        again = repeated_memory(job.model.local_graph(choice.samples), plan.balanced, plan.placement.device, plan.k)
        return replace(step, memory=step.memory + again)

    def _ratio(self, circuits: GroupCircuits, k: int, ratio: float) -> float:
        """Return the bytes of gradients, in the job's own format, for each byte that a pipe to the next group sends; 1
        without a codec.

        It is the codec's ratio, or, where the engine is slower than that, the bytes per second of gradients that it
        codes or decodes, the slower of both, over the bytes per second of the fastest of these pipes.

        Args:
            circuits: granted to the plan.
            k: number of devices of a group; pipes whose destination is k or more lead to the next one.
            ratio: bytes of float32 for each byte sent, which names the codec; 1 without one.
        """
        if ratio == 1:
            return 1.0
        engine, onward = self._in_line[ratio].coder, circuits.destination >= k
        fastest = float(circuits.bandwidth[:, onward].max(initial=0.0))
        values = self._job.settings.gradient_bytes / VALUE_BYTES
        paced = values * min(engine.encode, engine.decode) / fastest if fastest else float("inf")
        return min(ratio * values, paced)

    def _partition(self, choice: PlacedChoice) -> BalancedGraph:
        """Return the cut and balanced graph of one micro-batch of a choice's group, cached by the group, quantum and
        limit on exchanging parts."""
        return self._cuts(choice.group, choice.quantum, choice.most_exchanging)

    def _launched(self, balanced: BalancedGraph, placement: Placement, choice: PlacedChoice) -> BalancedGraph:
        """Return the graph with longer forward and backward seconds of its parts, so that a device computes for no less
        time than its host takes to launch all its parts: one factor, at least 1, for all parts of a device in each
        direction.

        Args:
            balanced: the graph in parts.
            placement: device of each part.
            choice: only its k and its recomputation matter.
        """
        launches = self._job.operators.launches(np.array([RECOMPUTATIONS.index(choice.recomputation)]))
        position = {operator.name: index for index, operator in enumerate(self._job.graph.operators)}
        operator = np.array([position[name] for name in balanced.operators], np.int64)[balanced.operator]
        device, k, stretched = placement.device, choice.k, []
        for seconds, (launched,) in zip((balanced.forward, balanced.backward), launches, strict=True):
            busy, least = np.bincount(device, seconds, k), np.bincount(device, launched[operator], k)
            factor = np.divide(least, busy, out=np.ones(k), where=busy > 0)
            stretched.append(seconds * np.maximum(factor, 1.0)[device])
        return replace(balanced, forward=stretched[0], backward=stretched[1])


_PLACED = KINDS.index("placed")
_PLACED_BOUNDS, _STRATEGY_BOUNDS = 3, 2
"""Bounds of a placed row: of the row alone, with its placement, with its circuits. Bounds of other rows: by what no
schedule beats, and by lines below the prices of schedules."""
_REASONS = 6
"""Refused algorithms that an error names."""


class TooLargeError(UnsupportedError):
    """No plan fits the memory."""


class Row(NamedTuple):
    """A plan with the best lower bound known of it; rows sort by seconds a sample."""

    per_sample: float
    """Seconds of a step for each sample, at least."""
    kind: int
    """Index of the kind of plan in :data:`KINDS`."""
    number: int
    """Row of the strategies or of the placed plans."""
    bounded: int
    """Number of bounds computed for this row so far."""

    @property
    def last(self) -> bool:
        """True when all kinds of bounds of the row are computed, so that only a simulation says more."""
        return self.bounded == (_PLACED_BOUNDS if self.kind == _PLACED else _STRATEGY_BOUNDS)


class ClusterRows:
    """All rows, plans not yet simulated, of a search for one model on one cluster, with counts and reasons of those
    left out. ``prices`` are those of the cluster's fabric and of the request; ``may_win`` returns True for the
    strategies that are looked at, None for all."""

    def __init__(
        self,
        graph: ComputeGraph,
        cluster: Cluster,
        request: SearchRequest,
        prices: GroupPrices,
        may_win: Callable[[Strategies], Mask] | None = None,
    ) -> None:
        self._may_win = may_win
        self.cluster, self.request, self.prices = cluster, request, prices
        exchanges = request.exchanges_on(cluster.accelerator)
        accelerator, fabric, training = cluster.accelerator, cluster.fabric, cluster.training
        self.job = Job.of(graph, accelerator, fabric, training, prices, overlap=request.overlap, exchanges=exchanges)
        self._in_line = {method.placed_ratio: method for method in exchanges if method.in_line}
        anew = request.reconfigure_in_step
        if anew and cluster.fabric.wavelength_routed and "placed" not in request.kinds:
            raise UnsupportedError(
                f"--reconfigure-in-step on {cluster.fabric.kind_name}: only placed plans are granted wavelengths anew: "
                "expected --strategy placed too, and no pinned degree"
            )
        self._planes = _planes(prices) if anew else None
        self._plans = PlacedPlans(self.job, self._in_line, regrants=anew)
        self._strategies: Strategies
        self._kind: Ints
        """Kinds of the strategies."""
        self._second_bounds: Floats
        """Second bounds of the strategies, in seconds a sample; not a number where none was needed so far."""
        self._placed: PlacedRows
        self._first_cut: dict[object, int] = {}
        """By what decides a placed plan: the row that was placed first, which stands for others that cut alike."""
        self._counts = Counts()
        self._needed: list[str] = []
        """Memory that rows which do not fit need."""
        self._unserved: list[str] = []
        """Why placed rows have no circuits."""
        self._refusals: list[str] = []

    @cached_property
    def ledger(self) -> ClusterLedger:
        """Dollars, watts and failures of the cluster at the request's site; bounds ask for none of them."""
        return ClusterLedger.of(self.cluster, self.request.site)

    @cached_property
    def goodput(self) -> ClusterGoodput:
        """Share of the time that trains on the cluster, with the causes of failures for which no rate is stated."""
        return goodput_of(self.cluster, self.ledger)

    @property
    def counts(self) -> Counts:
        """Numbers of rows so far by what became of them (refused, too large, bounded and so on), with the numbers of
        partitions and placements made."""
        return self._counts + Counts(partitioned=self._plans.partitions, placed=self._plans.placements)

    @property
    def refusals(self) -> tuple[str, ...]:
        """Reasons why rows were left out so far, a line of text each, without those that do not fit the memory."""
        lines = dict.fromkeys(self._refusals)
        if self._unserved:
            count, first = len(self._unserved), self._unserved[0]
            lines[f"{count} placed plans have no circuits that serve them; of the first, {first}"] = None
        return tuple(lines)

    def first(self, batches: tuple[int, ...]) -> list[Row]:
        """Return all rows of these global batches (samples of a step) that may fit, each with its first bound: first
        strategies, then placed plans; where no strategy fits and the request does not ask that plans fit, strategies of
        the least memory too. What is left out is counted.

        Raises:
            ConfigError: no strategy has all that is pinned.
        """
        if self.request.pins and (why := self.request.pins.contradiction(self.job, batches)):
            raise ConfigError(why)
        rows = [*self._strategy_rows(batches), *self._placed_rows(batches)]
        self._counts += Counts(bounded=len(rows))
        return rows

    def refined(self, row: Row, others: Sequence[Row] = (), at_once: int = 1) -> Row | None:
        """Return the row after its next bound is computed, which is counted in the row: its seconds a sample are the
        larger of both bounds. None when the row turns out to be impossible (does not fit or is not served, which is
        counted), or is the same plan as another row, which is taken off the counts.

        The bound of a strategy is computed together with those of ``others`` that will likely be asked for next, the
        least of the same kind, up to ``at_once`` rows in all, which takes little longer than one.
        """
        if row.kind != _PLACED:
            return self._refined_strategy(row, others, at_once)
        choice, placing = self._placed[row.number], row.bounded == 1
        if self._first_cut.setdefault(self._plans.identity(choice), row.number) != row.number:
            self._counts += Counts(rows=-1, bounded=-1)
            return None
        try:
            bound = self._plans.structure_bound(choice) if placing else self._plans.circuits_bound(choice)
        except UnsupportedError as error:
            self._counts += Counts(too_large=int(placing), refused=int(not placing))
            (self._needed if placing else self._unserved).append(str(error))
            return None
        return row._replace(per_sample=max(row.per_sample, bound / choice.global_batch), bounded=row.bounded + 1)

    def _refined_strategy(self, row: Row, others: Sequence[Row], at_once: int) -> Row | None:
        """Return the row of a strategy with the bound by its schedules' prices; None, which is counted as refused,
        where no algorithm serves it. The bound is computed together with those of the least of ``others`` that are of
        its kind, of at most ``at_once`` rows."""
        if np.isnan(self._second_bounds[row.number]):
            unknown = (each for each in others if each.kind == row.kind and np.isnan(self._second_bounds[each.number]))
            which = np.array([row.number, *(each.number for each in nsmallest(at_once - 1, unknown))])
            strategies = self._strategies.rows(which)
            self._second_bounds[which] = bounds(self.job, strategies) / strategies.global_batch
        bound = float(self._second_bounds[row.number])
        if not np.isfinite(bound):
            self._counts += Counts(refused=1)
            return None
        return row._replace(per_sample=max(row.per_sample, bound), bounded=row.bounded + 1)

    def choice(self, row: Row) -> Strategy | PlacedChoice:
        """Return the strategy or the placed choice that a row stands for."""
        if row.kind == _PLACED:
            return self._placed[row.number]
        return self._strategies[row.number]

    def undivided(self, row: Row) -> bool:
        """Return True where a row is a placed plan with one device a group (k = 1), whose operators are not cut."""
        return row.kind == _PLACED and int(self._placed.k[row.number]) == 1

    def of_one_quantum(self, rows: Sequence[Row]) -> list[Row]:
        """Return the rows without placed plans whose operators are cut to another quantum than the middle one of those
        asked for, whose bounds are much the same; plans in which nothing is cut stay."""
        quantum = sorted(self.request.quanta)[len(self.request.quanta) // 2]
        return [
            row
            for row in rows
            if row.kind != _PLACED or self.undivided(row) or float(self._placed.quantum[row.number]) == quantum
        ]

    def simulated(self, row: Row) -> Plan | None:
        """Return the plan of a row with its simulated step; None, which is counted as refused, where a strategy's
        algorithms fail at the sizes of its collectives. The row's bound becomes the plan's.

        Raises:
            UnsupportedError: a placed plan does not fit or is not served.
        """
        if row.kind == _PLACED:
            placed = self._placed[row.number]
            return self._placed_plan(placed, self._plans.simulate(placed), row.per_sample * placed.global_batch)
        choice = self._strategies[row.number]
        try:
            return self._strategy_plan(self.job, self._planes, choice, row.per_sample * choice.global_batch)
        except UnsupportedError as error:
            self._counts += Counts(refused=1)
            self._refusals.append(str(error))
            return None

    def refine_winner(self, plan: Plan) -> Plan:
        """Return the plan, or a faster form of it.

        A placed plan is placed again with all search effort; any other takes schedules of any algorithm, those
        synthesized for its groups and sizes included. Returned unchanged are data parallelism alone, plans of named
        algorithms or of the paper's cost model, those whose collectives a library carries, and plans without
        collectives.
        """
        if isinstance(plan.choice, PlacedChoice):
            step = self._plans.simulate_replaced(plan.choice)
            return self._placed_plan(plan.choice, step, plan.bound) if step.step_time < plan.step_time else plan
        carried = plan.algorithms and LIBRARY.name not in plan.algorithms
        if self.request.algorithms or self.request.cost_model == "paper" or not carried or plan.choice.plain:
            return plan
        prices = self.prices.with_choices(tuple(algorithms()))
        job = self.job.repriced(self.job.accelerator, self.job.fabric, prices)
        planes = _planes(prices) if self.request.reconfigure_in_step else None
        other = self._strategy_plan(job, planes, plan.choice, plan.bound)
        return other if other.step_time < plan.step_time else plan

    def can_run(self, row: Strategies) -> bool:
        """Return True where one strategy, the only one of ``row``, fits the memory and is served."""
        return bool(memory(self.job, row).item() <= self.capacity and admitted(self.job, row).item())

    def seconds(self, choice: Strategy) -> float:
        """Return the simulated seconds of a sample of a strategy, by any algorithm unless the request names some;
        infinite where it does not fit or is not served."""
        choice = choice if self.request.algorithms else choice._replace(algorithm=AUTO)
        if not self.can_run(Strategies.of(choice)):
            return np.inf
        try:
            return self._strategy_plan(self.job, self._planes, choice, 0.0).sample_time
        except UnsupportedError:
            return np.inf

    def _strategy_plan(self, job: Job, planes: PlanePrices | None, choice: Strategy, bound: float) -> Plan:
        """Return the simulated plan of a strategy at a job's prices, with circuits set anew within the step where
        ``planes`` are given and several kinds of groups exchange, else on channels divided once for the whole step.
        ``bound`` is the lower bound in seconds of the step.

        Raises:
            UnsupportedError: the channels or planes are too few for the axes, or no algorithm serves an exchange.
        """
        step = None if planes is None else simulate_in_step(job, choice, planes)
        if isinstance(step, SwitchedStrategyStep) and step.job is not None:
            job = step.job
        else:
            job = on_divided_channels(job, choice)
            step = simulate(job, choice)
        held, joules = memory(job, Strategies.of(choice)).item(), strategy_joules(job, choice, step)
        return self.plan(job, choice, step, bound, held, joules, job.exchange(choice))

    def _placed_plan(self, choice: PlacedChoice, step: PlacedStep, bound: float) -> Plan:
        """Return the plan of a simulated placed step, with its joules of sending, the bytes of its fullest device and
        its exchange method; ``bound`` is the lower bound in seconds of the step."""
        joules, method = placed_joules(self.job, step, choice.ratio), self._in_line.get(choice.ratio)
        method = method_between(self.job) if self.job.fabric.parts else method
        return self.plan(self.job, choice, step, bound, float(step.memory.max()), joules, method)

    @property
    def by_equations(self) -> bool:
        """True where plans are computed by DaDianNao's equations instead of simulated: with the paper's cost model, for
        a convolutional network whose neurons may be split on a mesh of chips that take in broadcasts and state their
        memory."""
        chip, split = self.job.accelerator, self.job.splits_neurons and self.job.model.split.of_neurons
        return self.request.cost_model == "paper" and split and chip.takes_in_broadcasts and chip.memory is not None

    def broadcast_plans(self, batches: Sequence[int]) -> list[Plan]:
        """Return the plans by DaDianNao's equations, of data and of model parallelism at each global batch (samples of
        a step), each on as many chips of the cluster as it needs; batches that need more chips than there are are left
        out. Their bound is the step time itself, and their joules of sending are unknown.

        Raises:
            TooLargeError: every batch needs more chips than the cluster has.
        """
        job, plans = self.job, list[Plan]()
        network, rate = Network.of(job.graph), job.accelerator.peak_rate(job.settings.precision) / 2
        for batch in batches:
            chips = chips_needed(network, batch, self.capacity)
            if chips > self.cluster.ranks:
                self._needed.append(f"{batch:,} samples and the synapses fill {chips:,} chips")
                continue
            fabric = job.fabric.model_copy(update={"ranks": chips})
            link = ChipLink(float(fabric.link_bandwidth().min()), fabric.neighbour_latency())
            prices = GroupPrices(fabric, job.settings, self.request.cost_model)
            rows = ClusterRows(job.graph, replace(self.cluster, ranks=chips, fabric=fabric), self.request, prices)
            held = network.held_bytes(batch) / chips
            ways: tuple[tuple[Moved, int, str], ...] = (("data", chips, "zero-3"), ("model", 1, "none"))
            for moved, dp, sharding in ways:
                step = broadcast_step(network, batch, chips, rate, link, moved)
                choice = Strategy(dp, chips // dp, 1, 1, batch, sharding, "none", "mesh-broadcast", 0)
                plans.append(rows.plan(rows.job, choice, step, step.step_time, held, None, None))
        if not plans:
            raise self.nothing()
        return plans

    def plan(
        self,
        job: Job,
        choice: Strategy | PlacedChoice,
        step: StrategyStep | PlacedStep | BroadcastStep,
        bound: float,
        memory: float,
        sent_joules: float | None,
        method: PricedExchange | None,
    ) -> Plan:
        """Return the plan of a simulated row on this cluster; its ledger is made when it is asked for.

        Args:
            job: at whose prices it was simulated.
            choice: strategy or placed choice of the row.
            step: the simulated step.
            bound: lower bound of the step in seconds, from before it was simulated.
            memory: bytes of the fullest rank.
            sent_joules: joules of sending in a step over all ranks; None where unknown.
            method: by which replicas exchange gradients; None for as they are.
        """
        ledger = partial(self._ledger_of, step.step_time, sent_joules, choice.global_batch)
        return Plan(self.cluster, job, choice, bound, step, ledger, memory, method)

    def _ledger_of(self, seconds: float, sent_joules: float | None, samples: int) -> StepLedger:
        """Return the ledger of a step on the cluster, with its goodput.

        Args:
            seconds: duration of the step.
            sent_joules: joules of sending over all ranks; None where unknown.
            samples: samples of the step.
        """
        return StepLedger(
            cluster=self.ledger,
            step_time=seconds,
            sent_joules=sent_joules,
            samples=samples,
            goodput=self.goodput.most,
            goodput_missing=self.goodput.missing,
            spare_share=self.goodput.spare_share,
        )

    def strategies(self, batches: tuple[int, ...]) -> Strategies:
        """Return every strategy of these global batches (samples of a step) that the request searches, its kinds and
        pins applied, up to its most micro-batches (256 unless more are pinned) and chunks of a stage (4), whether it
        fits or not; without placed plans. Selective recomputation is among them where attention keeps scores, or where
        it is pinned."""
        kinds = [KINDS.index(kind) for kind in self.request.kinds if kind != "placed"]
        pins = self.request.pins
        # Selective recomputation pays where attention keeps scores that it can recompute.
        searched = RECOMPUTATIONS if self.job.model.columns["scores"].any() else ("none", "full")
        space = self.job.space(
            batches,
            exchanges=range(len(self.job.exchanges) + 1),
            shardings=SHARDINGS if pins.sharding is None else tuple(dict.fromkeys(("none", pins.sharding))),
            recomputations=searched if pins.recomputation is None else (pins.recomputation,),
            micro_batch=pins.micro_batch,
            cp=pins.cp,
            most_micro_batches=self.request.most_micro_batches,
            most_virtual_stages=self.request.most_virtual_stages,
        )
        return space.rows(np.isin(kinds_of(space), kinds) & self.request.pins.match(space))

    def _strategy_rows(self, batches: tuple[int, ...]) -> list[Row]:
        """Return the strategies of these global batches that are served and fit, each with its first bound, and count
        the others. Where none fits and the request does not ask that plans fit, those of the least memory; where it
        asks for the largest batches, only those with the largest batch that fits. Sets the columns that later bounds
        read."""
        if set(self.request.kinds) == {"placed"}:
            return []
        space = self.strategies(batches)
        if self._may_win is not None:
            space = space.rows(self._may_win(space))
        possible = space.rows(admitted(self.job, space))
        if len(space) and not len(possible):
            names = ", ".join(self.request.algorithms) or "any algorithm"
            self._refusals.append(f"no strategy has groups that {names} serves on this fabric")
        held = memory(self.job, possible)
        fitting = held <= self.capacity
        if len(possible) and not fitting.any():
            self._needed.append(f"the smallest strategy needs {format_size(held.min())} a rank")
            if not self.request.must_fit:
                fitting = held <= held.min()
        if self.request.largest_batches:
            fitting &= with_largest_batch(possible, fitting)
        rows = possible.rows(fitting)
        bound = bounds(self.job, rows, proved=True) / rows.global_batch
        served = np.isfinite(bound)
        self._strategies = rows.rows(served)
        unserved = len(space) - len(possible) + int((~served).sum())
        self._counts += Counts(rows=len(space), refused=unserved, too_large=len(possible) - int(fitting.sum()))
        first, self._kind = bound[served], kinds_of(self._strategies)
        self._second_bounds = np.full(len(first), np.nan)
        return [Row(*row, 1) for row in zip(first.tolist(), self._kind.tolist(), range(len(first)), strict=True)]

    def _placed_rows(self, batches: tuple[int, ...]) -> list[Row]:
        """Return the placed plans of these global batches that may fit, each with its first bound, and count the
        others; none where placed plans are not searched."""
        if "placed" not in self.request.kinds:
            return []
        searched = searched_rows(self.job, self.request, batches)
        self._counts += searched.counts
        self._refusals += searched.refusals
        self._needed += searched.needed
        self._placed = searched.rows
        per_sample = (searched.bound / searched.rows.global_batch).tolist()
        return [Row(least, _PLACED, number, 1) for number, least in enumerate(per_sample)]

    @property
    def capacity(self) -> float:
        """Bytes of memory of a rank's accelerator; infinite where it states none."""
        memory = self.job.accelerator.memory
        return np.inf if memory is None else memory

    @property
    def too_large(self) -> bool:
        """True where no strategy fits the memory, or any placed plan was left out because it does not; False where only
        some strategies are too large."""
        return bool(self._needed)

    def nothing(self, refused: Sequence[RefusedPlan] = ()) -> UnsupportedError:
        """Return (not raise) the error that says why there is no plan, and what would do: TooLargeError where no
        strategy or not every placed plan fits the memory, else UnsupportedError. ``refused`` are refusals to quote."""
        error = TooLargeError if self._needed else UnsupportedError
        return error(f"cluster {self.cluster.name}: {self._reason(refused)}")

    def _reason(self, refused: Sequence[RefusedPlan]) -> str:
        """Return the reason, as text, that there is no plan, the most telling one: memory, batches that divide nothing,
        or refusals, of which those in ``refused`` are quoted up to six."""
        if self._needed:
            name, needs = self.job.accelerator.name, "; ".join(dict.fromkeys(self._needed[:2]))
            return (
                f"no plan fits: accelerator {name!r} has {format_size(self.capacity)} of memory, but {needs}: "
                "expected more memory, more ranks or a smaller global batch"
            )
        if not self._counts.rows and not self.refusals:
            ranks = self.cluster.ranks
            return (
                "no plan: no global batch divides evenly among replicas and micro-batches: expected a multiple of "
                f"{ranks}, one sample a rank" + ("; or other options that pin a choice" if self.request.pins else "")
            )
        reasons = dict.fromkeys(f"{row.strategy}: {row.why}" for row in refused[:_REASONS])
        return f"none of {self._counts.rows} plans is feasible: {'; '.join([*self.refusals, *reasons])}"


def _planes(prices: GroupPrices) -> PlanePrices | None:
    """Return prices by which groups share the planes of the fabric's switch; None where circuits are wavelengths, which
    only placed plans are granted anew.

    Raises:
        UnsupportedError: the fabric has neither wavelengths nor switch planes.
    """
    return None if prices.fabric.wavelength_routed else PlanePrices(prices)


def verify_winner(plan: Plan) -> None:
    """Prove that the circuits of all axes of a plan stand at once, where its axes divide the channels; do nothing for
    other plans.

    Raises:
        VerificationError: two of them hold one channel of a link.
    """
    if plan.division is not None and isinstance(plan.choice, Strategy) and isinstance(plan.step, StrategyStep):
        verify_standing(plan.job, plan.choice, plan.step)
