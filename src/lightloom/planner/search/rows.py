"""The rows of a joint search on one cluster: what is left out and why, their bounds, what a simulation says of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lightloom.clusters.base import Cluster
from lightloom.core.arrays import Ints
from lightloom.core.errors import UnsupportedError
from lightloom.core.units import format_size
from lightloom.parallelism.strategy_space import SHARDINGS, Strategies
from lightloom.planner.bounds.placed import first_look
from lightloom.planner.bounds.strategies import admitted, bounds, memory
from lightloom.planner.pricing.compression import Compression
from lightloom.planner.pricing.group_prices import GroupPrices
from lightloom.planner.pricing.placed_energy import placed_energy
from lightloom.planner.pricing.placed_space import (
    MOST_SUB_OPERATORS,
    PartTable,
    PlacedChoice,
    PlacedRows,
    distinct,
    peers,
    placed_space,
)
from lightloom.planner.pricing.stage_times import Job
from lightloom.planner.pricing.strategy_energy import strategy_energy
from lightloom.planner.pricing.strategy_step import simulate
from lightloom.planner.search.placed_plans import PlacedPlans
from lightloom.planner.search.plans import KINDS, Counts, SplitPlan
from lightloom.simulation.placed_step import PlacedStep
from lightloom.workloads.graph import ComputeGraph

_PLACED = KINDS.index("placed")
_BOUNDS = 3
"""Bounds of a placed row: of the row alone, with its placement, with its circuits. Other rows have one."""


class Asked(NamedTuple):
    """What a search is to try."""

    batches: Sequence[int]
    quanta: Sequence[float]
    algorithms: Sequence[str]
    kinds: Sequence[str]
    compressions: Sequence[Compression]


class Row(NamedTuple):
    """A row and what its bound allows; rows sort by seconds a sample."""

    per_sample: float
    """Seconds of a step for each sample, at least."""
    kind: int
    """Index in :data:`KINDS`."""
    number: int
    bounded: int
    """Bounds that it has had."""

    @property
    def last(self) -> bool:
        """Whether only simulating says more."""
        return self.kind != _PLACED or self.bounded == _BOUNDS


class SplitRows:
    """All rows of one model on one cluster."""

    def __init__(self, graph: ComputeGraph, cluster: Cluster, asked: Asked, prices: GroupPrices | None = None) -> None:
        self._cluster, self._asked = cluster, asked
        fabric, training = cluster.fabric, cluster.training
        prices = prices or GroupPrices(fabric, training, compressions=asked.compressions)
        self._job = Job(graph, cluster.accelerator, fabric, training, prices)
        self._plans = PlacedPlans(self._job, {each.ratio: each for each in asked.compressions})
        self._strategies: Strategies | None = None
        self._placed = PlacedRows.of([])
        self._counts = Counts()
        self._needed: list[str] = []
        """Memory that rows which do not fit need."""
        self._unserved: list[str] = []
        """Why placed rows have no circuits."""
        self._refusals: list[str] = []

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
            lines[f"{count} placed rows have no circuits that serve them; of the first, {first}"] = None
        return tuple(lines)

    def first(self) -> list[Row]:
        """All rows that may fit, each with its first bound.

        Raises:
            UnsupportedError: there are none.
        """
        rows = [*self._strategy_rows(), *self._placed_rows()]
        if not rows:
            raise UnsupportedError(self.why_nothing())
        self._counts += Counts(bounded=len(rows))
        return rows

    def refined(self, row: Row) -> Row | None:
        """The row with its next bound; None when it turns out to be impossible."""
        choice, placing = self._placed[row.number], row.bounded == 1
        try:
            bound = self._plans.structure_bound(choice) if placing else self._plans.circuits_bound(choice)
        except UnsupportedError as error:
            self._counts += Counts(too_large=int(placing), refused=int(not placing))
            (self._needed if placing else self._unserved).append(str(error))
            return None
        return row._replace(per_sample=max(row.per_sample, bound / choice.global_batch), bounded=row.bounded + 1)

    def simulated(self, row: Row) -> SplitPlan:
        """The row's step."""
        if row.kind == _PLACED:
            placed = self._placed[row.number]
            return self._placed_plan(placed, self._plans.simulate(placed), row.per_sample * placed.global_batch)
        assert self._strategies is not None
        choice = self._strategies[row.number]
        timeline = simulate(self._job, choice)
        return SplitPlan(
            cluster=self._cluster,
            choice=choice,
            bound=row.per_sample * choice.global_batch,
            step=timeline,
            breakdown=timeline.breakdown(),
            energy=strategy_energy(self._job, choice, timeline.step_time),
            memory=float(memory(self._job, Strategies.of(choice))[0]),
        )

    def placed_again(self, plan: SplitPlan) -> SplitPlan:
        """The plan, or, if it is a placed one and faster so, placed with all effort."""
        if not isinstance(plan.choice, PlacedChoice):
            return plan
        step = self._plans.simulate_replaced(plan.choice)
        return self._placed_plan(plan.choice, step, plan.bound) if step.step_time < plan.step_time else plan

    def _placed_plan(self, choice: PlacedChoice, step: PlacedStep, bound: float) -> SplitPlan:
        return SplitPlan(
            cluster=self._cluster,
            choice=choice,
            bound=bound,
            step=step,
            breakdown=step.breakdown,
            energy=placed_energy(self._job, step, choice.ratio),
            memory=float(step.memory.max()),
        )

    def _strategy_rows(self) -> list[Row]:
        if not set(self._asked.kinds) - {"placed"}:
            return []
        ratios = (1.0, *dict.fromkeys(each.ratio for each in self._asked.compressions))
        space = self._job.space(self._asked.batches, algorithms=self._asked.algorithms, ratios=ratios)
        space = space.rows(np.isin(_kinds(space), [KINDS.index(each) for each in self._asked.kinds]))
        possible = space.rows(admitted(self._job, space))
        if len(space) and not len(possible):
            names = ", ".join(self._asked.algorithms)
            self._refusals.append(f"no strategy has groups that {names} serves on this fabric")
        held = memory(self._job, possible)
        if len(possible) and held.min() > self._capacity:
            self._needed.append(f"the smallest strategy needs {format_size(held.min())} a rank")
        fitting = self._strategies = possible.rows(held <= self._capacity)
        self._counts += Counts(
            rows=len(space), refused=len(space) - len(possible), too_large=len(possible) - len(fitting)
        )
        per_sample = (bounds(self._job, fitting) / fitting.global_batch).tolist()
        return [
            Row(bound, kind, number, 1)
            for number, (bound, kind) in enumerate(zip(per_sample, _kinds(fitting).tolist(), strict=True))
        ]

    def _placed_rows(self) -> list[Row]:
        rows = self._placed_space() if "placed" in self._asked.kinds else PlacedRows.of([])
        table = PartTable(self._job.graph)
        rows = distinct(self._job, table, rows)
        look = first_look(self._job, table, rows)
        fine, large = look.sub_operators > MOST_SUB_OPERATORS, look.memory > self._capacity
        if fine.any():
            self._refusals.append(f"{fine.sum()} placed rows have more than {MOST_SUB_OPERATORS} sub-operators")
        if large.any():
            self._needed.append(f"the smallest placed plan needs at least {format_size(look.memory.min())} a device")
        self._counts += Counts(rows=len(rows), too_fine=int(fine.sum()), too_large=int((large & ~fine).sum()))
        self._placed, bound = rows.rows(~fine & ~large), look.bound[~fine & ~large]
        per_sample = (bound / self._placed.global_batch).tolist()
        return [Row(each, _PLACED, number, 1) for number, each in enumerate(per_sample)]

    def _placed_space(self) -> PlacedRows:
        try:
            peers(self._job.fabric)
        except UnsupportedError as error:
            self._refusals.append(str(error))
            return PlacedRows.of([])
        in_line = [each.ratio for each in self._asked.compressions if each.in_line]
        if len(in_line) < len(self._asked.compressions):
            self._refusals.append("placed rows take codecs in line with the links only")
        rows, refused = placed_space(self._job.fabric, self._asked.batches, self._asked.quanta, (1.0, *in_line))
        if refused:
            self._refusals.append(
                f"{refused} placed rows have groups without circuits between their devices, of a degree D of "
                f"{peers(self._job.fabric)}: expected D of at least 3, one circuit each way and one to the next group"
            )
        self._counts += Counts(rows=refused, refused=refused)
        return rows

    @property
    def _capacity(self) -> float:
        memory = self._job.accelerator.memory
        return np.inf if memory is None else memory

    def why_nothing(self) -> str:
        """Why no row can be had, and what would do."""
        return f"cluster {self._cluster.name}: {self._reason()}"

    def _reason(self) -> str:
        if self._needed:
            name, needs = self._job.accelerator.name, "; ".join(dict.fromkeys(self._needed[:2]))
            size = format_size(self._capacity or 0.0)
            return (
                f"accelerator {name!r}: memory is {size}, but {needs}: expected more memory, more ranks or "
                "a smaller global batch"
            )
        if not self._counts.rows and not self.refusals:
            ranks = self._cluster.ranks
            return (
                "no split: no global batch divides evenly among replicas and micro-batches: expected a multiple of "
                f"{ranks}, one sample a rank"
            )
        return f"none of {self._counts.rows} splits can be had: {'; '.join(self.refusals)}"


def _kinds(rows: Strategies) -> Ints:
    """Index in :data:`KINDS`: [rows]."""
    return np.where(rows.plain, rows.sharding, len(SHARDINGS))
