"""The plans of a search on one cluster as rows: what is left out and why, their bounds, what simulating one gives."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from lightloom.clusters.base import Cluster
from lightloom.collectives.registry import algorithms
from lightloom.core.arrays import Floats, Ints
from lightloom.core.effort import Effort
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.core.units import format_size
from lightloom.economics.goodput.evaluate import ClusterGoodput, goodput_of
from lightloom.economics.ledger import ClusterLedger
from lightloom.economics.step import StepLedger
from lightloom.parallelism.recomputation import RECOMPUTATIONS
from lightloom.parallelism.sharding import SHARDINGS
from lightloom.parallelism.strategy_space import Strategies, Strategy
from lightloom.planner.bounds.strategies import admitted, bounds, memory
from lightloom.planner.circuits.standing import verify_standing
from lightloom.planner.circuits.step import SwitchedStrategyStep, simulate_in_step
from lightloom.planner.pricing.group_prices import GroupPrices
from lightloom.planner.pricing.job import Job
from lightloom.planner.pricing.library import LIBRARY
from lightloom.planner.pricing.placed_space import (
    PlacedChoice,
    PlacedRows,
)
from lightloom.planner.pricing.planes import PlanePrices
from lightloom.planner.pricing.step_energy import placed_joules, strategy_joules
from lightloom.planner.pricing.strategy_step import StrategyStep, on_divided_channels, simulate
from lightloom.planner.search.columns import kinds_of, with_largest_batch
from lightloom.planner.search.counts import Counts
from lightloom.planner.search.placed_plans import PlacedPlans
from lightloom.planner.search.placed_rows import searched_rows
from lightloom.planner.search.plans import Plan, RefusedPlan
from lightloom.planner.search.request import KINDS, SearchRequest
from lightloom.simulation.placed_step import PlacedStep
from lightloom.workloads.graph import ComputeGraph

_PLACED = KINDS.index("placed")
_PLACED_BOUNDS, _STRATEGY_BOUNDS = 3, 2
"""Bounds of a placed row: of the row alone, with its placement, with its circuits. Bounds of other rows: by what no
schedule beats, and by lines below the prices of schedules."""
_AT_ONCE: Effort = 8
"""Strategies whose second bounds are taken together at first, those with the least first bounds; then twice as many."""
_REASONS = 6
"""Refused algorithms that an error names."""


class TooLargeError(UnsupportedError):
    """No plan fits the memory."""


class Row(NamedTuple):
    """A plan and what its bound allows; rows sort by seconds a sample."""

    per_sample: float
    """Seconds of a step for each sample, at least."""
    kind: int
    """Index in :data:`KINDS`."""
    number: int
    """Row of the strategies or of the placed plans."""
    bounded: int
    """Bounds that it has had."""

    @property
    def last(self) -> bool:
        """Whether only simulating says more."""
        return self.bounded == (_PLACED_BOUNDS if self.kind == _PLACED else _STRATEGY_BOUNDS)


class ClusterRows:
    """All rows of one model on one cluster."""

    def __init__(self, graph: ComputeGraph, cluster: Cluster, request: SearchRequest, prices: GroupPrices) -> None:
        self._cluster, self._request = cluster, request
        exchanges = request.exchanges_on(cluster.accelerator)
        accelerator, fabric, training = cluster.accelerator, cluster.fabric, cluster.training
        self.job = Job.of(graph, accelerator, fabric, training, prices, overlap=request.overlap, exchanges=exchanges)
        self._in_line = {method.placed_ratio: method for method in exchanges if method.in_line}
        self._prices = prices
        anew = request.reconfigure_in_step
        if anew and cluster.fabric.wavelength_routed and "placed" not in request.kinds:
            raise UnsupportedError(
                f"--reconfigure-in-step on {cluster.fabric.kind_name}: only placed plans are granted wavelengths anew: "
                "expected --strategy placed too, and no pinned degree"
            )
        self._planes = _planes(prices) if anew else None
        self._plans = PlacedPlans(self.job, self._in_line, regrants=anew)
        self._strategies: Strategies | None = None
        self._kind: Ints
        self._in_order: Ints
        """Kinds of the strategies, and their numbers in the order of their first bounds."""
        self._second_bounds: Floats
        """Of the strategies; not a number where it was not needed so far."""
        self._at_once = _AT_ONCE
        self._placed: PlacedRows
        self._first_cut: dict[object, int] = {}
        """By what decides a placed plan: the row that was placed first, which stands for others that cut alike."""
        self._counts = Counts()
        self._needed: list[str] = []
        """Memory that rows which do not fit need."""
        self._unserved: list[str] = []
        """Why placed rows have no circuits."""
        self._refusals: list[str] = []

    @property
    def name(self) -> str:
        """Name of the cluster."""
        return self._cluster.name

    @cached_property
    def ledger(self) -> ClusterLedger:
        """Dollars, watts and failures of the cluster; bounds ask for none of them."""
        return ClusterLedger.of(self._cluster, self._request.site)

    @cached_property
    def goodput(self) -> ClusterGoodput:
        """Share of the time that trains, of the cluster."""
        return goodput_of(self._cluster, self.ledger)

    @property
    def counts(self) -> Counts:
        """What became of the rows so far."""
        return self._counts + Counts(partitioned=self._plans.partitions, placed=self._plans.placements)

    @property
    def refusals(self) -> tuple[str, ...]:
        """Why rows were left out so far, a line for each reason."""
        lines = dict.fromkeys(self._refusals)
        if self._unserved:
            count, first = len(self._unserved), self._unserved[0]
            lines[f"{count} placed plans have no circuits that serve them; of the first, {first}"] = None
        return tuple(lines)

    def first(self, batches: tuple[int, ...]) -> list[Row]:
        """All rows of these global batches that may fit, each with its first bound.

        Raises:
            ConfigError: no strategy has all that is pinned.
        """
        if self._request.pins and (why := self._request.pins.contradiction(self.job, batches)):
            raise ConfigError(why)
        rows = [*self._strategy_rows(batches), *self._placed_rows(batches)]
        self._counts += Counts(bounded=len(rows))
        return rows

    def refined(self, row: Row) -> Row | None:
        """The row with its next bound; None when it turns out to be impossible, or the plan of another row."""
        if row.kind != _PLACED:
            return self._refined_strategy(row)
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

    def _refined_strategy(self, row: Row) -> Row | None:
        """The row with the bound by its schedules' prices, which is taken for rows of the same kind together."""
        assert self._strategies is not None
        if np.isnan(self._second_bounds[row.number]):
            ahead = self._in_order[np.flatnonzero(self._in_order == row.number)[0] :]
            same = np.isnan(self._second_bounds[ahead]) & (self._kind[ahead] == row.kind)
            which = ahead[same][: self._at_once]
            strategies = self._strategies.rows(which)
            self._second_bounds[which] = bounds(self.job, strategies) / strategies.global_batch
            self._at_once *= 2
        bound = float(self._second_bounds[row.number])
        if not np.isfinite(bound):
            self._counts += Counts(refused=1)
            return None
        return row._replace(per_sample=max(row.per_sample, bound), bounded=row.bounded + 1)

    def undivided(self, row: Row) -> bool:
        """Whether it is a placed row with one device a group."""
        return row.kind == _PLACED and int(self._placed.k[row.number]) == 1

    def simulated(self, row: Row) -> Plan | None:
        """The row's step; None where the algorithms fail at the sizes of its collectives."""
        if row.kind == _PLACED:
            placed = self._placed[row.number]
            return self._placed_plan(placed, self._plans.simulate(placed), row.per_sample * placed.global_batch)
        assert self._strategies is not None
        choice = self._strategies[row.number]
        try:
            return self._strategy_plan(self.job, self._planes, choice, row.per_sample * choice.global_batch)
        except UnsupportedError as error:
            self._counts += Counts(refused=1)
            self._refusals.append(str(error))
            return None

    def refine_winner(self, plan: Plan) -> Plan:
        """The plan, or a faster form of it: a placed one placed with all effort, another one with schedules that are
        synthesized for its groups and sizes. What a collective library carries stays with it."""
        if isinstance(plan.choice, PlacedChoice):
            step = self._plans.simulate_replaced(plan.choice)
            return self._placed_plan(plan.choice, step, plan.bound) if step.step_time < plan.step_time else plan
        searched = self._request.algorithms
        if searched or self._request.cost_model == "paper" or len(plan.algorithms) == 0 or plan.choice.plain:
            return plan
        if LIBRARY.name in plan.algorithms:
            return plan
        prices = self._prices.with_choices(tuple(algorithms()))
        job = self.job.repriced(self.job.accelerator, self.job.fabric, prices)
        planes = _planes(prices) if self._request.reconfigure_in_step else None
        other = self._strategy_plan(job, planes, plan.choice, plan.bound)
        return other if other.step_time < plan.step_time else plan

    def _strategy_plan(self, job: Job, planes: PlanePrices | None, choice: Strategy, bound: float) -> Plan:
        step = None if planes is None else simulate_in_step(job, choice, planes)
        if isinstance(step, SwitchedStrategyStep) and step.job is not None:
            job = step.job
        else:
            job = on_divided_channels(job, choice)
            step = simulate(job, choice)
        return Plan(
            cluster=self._cluster,
            job=job,
            choice=choice,
            bound=bound,
            step=step,
            breakdown=step.breakdown,
            ledger=self._step_ledger(choice, step, strategy_joules(job, choice, step)),
            memory=memory(job, Strategies.of(choice)).item(),
            gradient_exchange=job.exchange(choice),
        )

    def _placed_plan(self, choice: PlacedChoice, step: PlacedStep, bound: float) -> Plan:
        return Plan(
            cluster=self._cluster,
            job=self.job,
            choice=choice,
            bound=bound,
            step=step,
            breakdown=step.breakdown,
            ledger=self._step_ledger(choice, step, placed_joules(self.job, step, choice.ratio)),
            memory=float(step.memory.max()),
            gradient_exchange=self._in_line.get(choice.ratio),
        )

    def _step_ledger(
        self, choice: Strategy | PlacedChoice, step: StrategyStep | PlacedStep, sent_joules: float | None
    ) -> StepLedger:
        return StepLedger(
            cluster=self.ledger,
            step_time=step.step_time,
            sent_joules=sent_joules,
            samples=choice.global_batch,
            goodput=self.goodput.most,
            goodput_missing=self.goodput.missing,
            spare_share=self.goodput.spare_share,
        )

    def strategies(self, batches: tuple[int, ...]) -> Strategies:
        """Every strategy of these global batches that is searched, whether it fits or not."""
        kinds = [KINDS.index(kind) for kind in self._request.kinds if kind != "placed"]
        pins = self._request.pins
        space = self.job.space(
            batches,
            exchanges=range(len(self.job.exchanges) + 1),
            shardings=SHARDINGS if pins.sharding is None else tuple(dict.fromkeys(("none", pins.sharding))),
            recomputations=self._recomputations() if pins.recomputation is None else (pins.recomputation,),
            micro_batch=pins.micro_batch,
            cp=pins.cp,
            most_micro_batches=self._request.most_micro_batches,
            most_virtual_stages=self._request.most_virtual_stages,
        )
        return space.rows(np.isin(kinds_of(space), kinds) & self._request.pins.match(space))

    def _strategy_rows(self, batches: tuple[int, ...]) -> list[Row]:
        if set(self._request.kinds) == {"placed"}:
            return []
        space = self.strategies(batches)
        possible = space.rows(admitted(self.job, space))
        if len(space) and not len(possible):
            names = ", ".join(self._request.algorithms) or "any algorithm"
            self._refusals.append(f"no strategy has groups that {names} serves on this fabric")
        held = memory(self.job, possible)
        fitting = held <= self.capacity
        if len(possible) and not fitting.any():
            self._needed.append(f"the smallest strategy needs {format_size(held.min())} a rank")
            if not self._request.must_fit:
                fitting = held <= held.min()
        if self._request.largest_batches:
            fitting &= with_largest_batch(possible, fitting)
        rows = possible.rows(fitting)
        bound = bounds(self.job, rows, proved=True) / rows.global_batch
        served = np.isfinite(bound)
        self._strategies = rows.rows(served)
        unserved = len(space) - len(possible) + int((~served).sum())
        self._counts += Counts(rows=len(space), refused=unserved, too_large=len(possible) - int(fitting.sum()))
        first, self._kind = bound[served], kinds_of(self._strategies)
        self._in_order = np.argsort(first, kind="stable")
        self._second_bounds = np.full(len(first), np.nan)
        return [Row(*row, 1) for row in zip(first.tolist(), self._kind.tolist(), range(len(first)), strict=True)]

    def _recomputations(self) -> tuple[str, ...]:
        """Those that are searched: selective where attention keeps scores that it can recompute."""
        return RECOMPUTATIONS if self.job.model.columns["scores"].any() else ("none", "full")

    def _placed_rows(self, batches: tuple[int, ...]) -> list[Row]:
        if "placed" not in self._request.kinds:
            return []
        searched = searched_rows(self.job, self._request, batches)
        self._counts += searched.counts
        self._refusals += searched.refusals
        self._needed += searched.needed
        self._placed = searched.rows
        per_sample = (searched.bound / searched.rows.global_batch).tolist()
        return [Row(least, _PLACED, number, 1) for number, least in enumerate(per_sample)]

    @property
    def capacity(self) -> float:
        """Bytes of memory of a rank."""
        memory = self.job.accelerator.memory
        return np.inf if memory is None else memory

    @property
    def too_large(self) -> bool:
        """Whether rows were left out since they do not fit the memory."""
        return bool(self._needed)

    def nothing(self, refused: Sequence[RefusedPlan] = ()) -> UnsupportedError:
        """The error that says why there is no plan, and what would do."""
        error = TooLargeError if self._needed else UnsupportedError
        return error(f"cluster {self._cluster.name}: {self._reason(refused)}")

    def _reason(self, refused: Sequence[RefusedPlan]) -> str:
        if self._needed:
            name, needs = self.job.accelerator.name, "; ".join(dict.fromkeys(self._needed[:2]))
            size = format_size(self.capacity)
            return (
                f"no plan fits: accelerator {name!r} has {size} of memory, but {needs}: expected more memory, more "
                "ranks or a smaller global batch"
            )
        if not self._counts.rows and not self.refusals:
            ranks = self._cluster.ranks
            return (
                "no plan: no global batch divides evenly among replicas and micro-batches: expected a multiple of "
                f"{ranks}, one sample a rank" + ("; or other options that pin a choice" if self._request.pins else "")
            )
        reasons = dict.fromkeys(f"{row.strategy}: {row.why}" for row in refused[:_REASONS])
        return f"none of {self._counts.rows} plans is feasible: {'; '.join([*self.refusals, *reasons])}"


def _planes(prices: GroupPrices) -> PlanePrices | None:
    """Return the prices on some of the planes of a switch; None where circuits are wavelengths, which placed plans are
    granted."""
    return None if prices.fabric.wavelength_routed else PlanePrices(prices)


def verify_winner(plan: Plan) -> None:
    """Prove that the circuits of all axes of a plan stand at once, where axes divide the channels.

    Raises:
        VerificationError: two of them hold one channel of a link.
    """
    if plan.division is not None and isinstance(plan.choice, Strategy) and isinstance(plan.step, StrategyStep):
        verify_standing(plan.job, plan.choice, plan.step)
