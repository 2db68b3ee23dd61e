"""Placed rows one by one: partition, placement, circuits, step; and a tighter bound after each.

structure   busiest device, longest path with transfers at the best rate, bytes through each port and ring link
circuits    the same at the rates of the pipes that were granted, and the bytes of each pipe over its rate
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np

from lightloom.clusters.settings import TrainingSettings
from lightloom.core.effort import Effort
from lightloom.core.errors import UnsupportedError
from lightloom.parallelism.circuits.group import grant
from lightloom.parallelism.circuits.pipes import GroupCircuits
from lightloom.parallelism.circuits.regrant import Regrant
from lightloom.parallelism.hybrid import HybridPlan
from lightloom.parallelism.placement.balanced import BalancedGraph
from lightloom.parallelism.placement.base import Link, Placement
from lightloom.parallelism.placement.cuts import PartitionRules
from lightloom.parallelism.placement.partition import Partitions
from lightloom.parallelism.placement.place import place
from lightloom.parallelism.placement.recomputed import kept_graph, repeated_memory
from lightloom.parallelism.placement.starts import EFFORT
from lightloom.parallelism.plan import local_graph
from lightloom.parallelism.recomputation import RECOMPUTATIONS
from lightloom.planner.bounds.placed import ROUNDING, circuits_bound, fastest_link, structure_bound
from lightloom.planner.circuits.regranted import faster_regranted
from lightloom.planner.gradients.engine import VALUE_BYTES
from lightloom.planner.gradients.priced import PricedExchange
from lightloom.planner.pricing.job import Job
from lightloom.planner.pricing.placed_space import (
    PartTable,
    PlacedChoice,
    peers,
    reach,
    shared_state_bytes,
    state_bytes,
)
from lightloom.simulation.placed_step import PlacedStep, simulate_placed
from lightloom.workloads.graph import ComputeGraph

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
_KEPT: Effort = 16
"""Plans kept for the rows that may ask for them again."""
_KEPT_PARTITIONS: Effort = 4
"""Graphs whose partitions are kept."""


class PlacedPlans:
    """Makes the plans of one job, and remembers the latest.

    Every method raises ``UnsupportedError`` where a plan does not fit the memory or the fabric cannot serve it.
    """

    def __init__(
        self, job: Job, in_line: Mapping[float, PricedExchange] | None = None, *, regrants: bool = False
    ) -> None:
        """With ``regrants``, circuits are granted anew within a step where that is faster."""
        self._job = job
        self._regrants = regrants
        self._in_line = in_line or {}
        self._table = PartTable(job.model)
        self._graphs: dict[int, ComputeGraph] = {}
        """Graphs of a rank by its samples."""
        self._partitions: OrderedDict[tuple[int, int, str], Partitions] = OrderedDict()
        """By groups, samples of a micro-batch, and recomputation."""
        self._balanced: OrderedDict[tuple[int | float | str, ...], BalancedGraph] = OrderedDict()
        self._plans: OrderedDict[BalancedGraph, HybridPlan | str] = OrderedDict()
        """The plan of each partition, or why it has none."""
        self._circuits: OrderedDict[HybridPlan, GroupCircuits] = OrderedDict()
        self.partitions = 0
        """Made so far."""
        self.placements = 0
        """Made so far."""

    def plan(self, choice: PlacedChoice) -> HybridPlan:
        """Placed without the search around the best start; choices that cut all operators alike share one plan."""
        balanced = self._partition(choice)
        if balanced not in self._plans:
            self.partitions += 1
            try:
                _keep(self._plans, balanced, self._placed(balanced, choice, effort=0))
            except UnsupportedError as error:
                _keep(self._plans, balanced, str(error))
        plan = self._plans[balanced]
        if isinstance(plan, str):
            raise UnsupportedError(plan)
        return plan

    def identity(self, choice: PlacedChoice) -> object:
        """What decides a plan and its step: the choice, and how it cuts every operator, whatever limits lead to it."""
        balanced = self._partition(choice)
        cuts = balanced.dimensions, balanced.first.tobytes()
        return choice._replace(quantum=0.0, most_exchanging=0), cuts

    def _placed(self, balanced: BalancedGraph, choice: PlacedChoice, effort: int) -> HybridPlan:
        """Placed anew, with so much search around the best start."""
        fabric, fastest = self._job.fabric, fastest_link(self._job.fabric)
        rate = fastest.rate / peers(fabric) if fabric.exclusive else fastest.rate
        link = Link(bandwidth=rate, latency=fastest.latency)
        self.placements += 1
        memory = self._job.accelerator.memory
        placement = place(balanced, choice.k, reach(fabric, choice.l), memory, link, effort=effort)
        launched = self._launched(balanced, placement, choice)
        return HybridPlan(placement, launched, choice.k, choice.l, shares_state=True)

    def structure_bound(self, choice: PlacedChoice) -> float:
        """Seconds that no circuits make the plan's step fall below."""
        plan = self.plan(choice)
        return structure_bound(self._job, plan, choice.ratio) + _earlier_bound(plan, choice)

    def circuits_bound(self, choice: PlacedChoice) -> float:
        """Seconds that the plan's step takes at least over the circuits that are granted to it; where others may follow
        within the step, over any."""
        plan = self.plan(choice)
        if self._regrants:
            self.circuits(choice)
            return self.structure_bound(choice)
        return circuits_bound(self._job, plan, self.circuits(choice), choice.ratio) + _earlier_bound(plan, choice)

    def circuits(self, choice: PlacedChoice) -> GroupCircuits:
        """What is granted to the plan."""
        plan = self.plan(choice)
        if plan not in self._circuits:
            _keep(self._circuits, plan, grant(plan, self._job.fabric))
        return self._circuits[plan]

    def simulate(self, choice: PlacedChoice) -> PlacedStep:
        """One step."""
        return self._fastest(self.plan(choice), self.circuits(choice), choice)

    def simulate_replaced(self, choice: PlacedChoice) -> PlacedStep:
        """One step of the plan that all effort places."""
        plan = self._placed(self._partition(choice), choice, EFFORT)
        return self._fastest(plan, grant(plan, self._job.fabric), choice)

    def _fastest(self, plan: HybridPlan, circuits: GroupCircuits, choice: PlacedChoice) -> PlacedStep:
        """The step over these circuits, or over others that follow it; codecs are paced for circuits that stand."""
        step = self._step(plan, circuits, choice)
        if not self._regrants or choice.ratio != 1:
            return step
        simulated = partial(self._step, plan, choice=choice)
        return faster_regranted(step, plan, self._job.fabric, lambda pipes, regrant: simulated(pipes, regrant=regrant))

    def _step(
        self, plan: HybridPlan, circuits: GroupCircuits, choice: PlacedChoice, regrant: Regrant | None = None
    ) -> PlacedStep:
        ratio = self._ratio(circuits, plan.k, choice.ratio)
        job = self._job
        simulated = partial(simulate_placed, plan, circuits, job.accelerator, job.settings, regrant=regrant)
        step = simulated(compression_ratio=ratio)
        if choice.micro_batches > 1:
            earlier = simulated(accumulates=True)
            step = step.after(earlier, choice.micro_batches - 1)
        if choice.recomputation == "none":
            return step
        again = repeated_memory(self._graph(choice), plan.balanced, plan.placement.device, plan.k)
        return replace(step, memory=step.memory + again)

    def _ratio(self, circuits: GroupCircuits, k: int, ratio: float) -> float:
        """Bytes of gradients for each byte that a pipe to the next group sends, an engine in line with it at its pace:
        a slow engine is as good as fewer bytes saved."""
        if ratio == 1:
            return 1.0
        engine, onward = self._in_line[ratio].coder, circuits.destination >= k
        fastest = float(circuits.bandwidth[:, onward].max(initial=0.0))
        values = self._job.settings.gradient_bytes / VALUE_BYTES
        paced = values * min(engine.encode, engine.decode) / fastest if fastest else float("inf")
        return min(ratio * values, paced)

    def _partition(self, choice: PlacedChoice) -> BalancedGraph:
        cut = choice.k, choice.quantum, choice.most_exchanging
        key = choice.l, choice.samples, choice.recomputation, *cut
        if key not in self._balanced:
            _keep(self._balanced, key, self._partitions_of(choice)(*cut))
        return self._balanced[key]

    def _partitions_of(self, choice: PlacedChoice) -> Partitions:
        """Partitions of the graph of a group's micro-batch, whose memory follows the number of groups."""
        key = choice.l, choice.samples, choice.recomputation
        if key not in self._partitions:
            job, settings, one = self._job, self._settings(choice), np.ones(1, np.int64)
            repeated = one * RECOMPUTATIONS.index(choice.recomputation)
            durations = np.concatenate(job.operators.kernels(choice.samples * one, repeated)).T
            rules = PartitionRules(
                loss=True,
                state_bytes=state_bytes(settings),
                shared_state_bytes=shared_state_bytes(settings, float(choice.l)),
                gradient_bytes=settings.gradient_bytes,
            )
            graph = self._graph(choice)
            graph = graph if choice.recomputation == "none" else kept_graph(graph)
            seconds = self._table.part_seconds(job.operators, choice.samples, choice.recomputation)
            _keep(self._partitions, key, Partitions(graph, durations, rules, seconds), _KEPT_PARTITIONS)
        return self._partitions[key]

    def _launched(self, balanced: BalancedGraph, placement: Placement, choice: PlacedChoice) -> BalancedGraph:
        """The graph with passes stretched evenly on each device until its host has launched every part that it has."""
        launches = self._job.operators.launches(np.array([RECOMPUTATIONS.index(choice.recomputation)]))
        position = {operator.name: index for index, operator in enumerate(self._job.graph.operators)}
        operator = np.array([position[name] for name in balanced.operators], np.int64)[balanced.operator]
        device, k, stretched = placement.device, choice.k, []
        for seconds, (launched,) in zip((balanced.forward, balanced.backward), launches, strict=True):
            busy = np.bincount(device, seconds, k)
            least = np.bincount(device, launched[operator], k)
            factor = np.divide(least, busy, out=np.ones(k), where=busy > 0)
            stretched.append(seconds * np.maximum(factor, 1.0)[device])
        return replace(balanced, forward=stretched[0], backward=stretched[1])

    def _graph(self, choice: PlacedChoice) -> ComputeGraph:
        """The graph with the samples of a group's micro-batch."""
        if choice.samples not in self._graphs:
            self._graphs[choice.samples] = local_graph(self._job.graph, self._settings(choice))
        return self._graphs[choice.samples]

    def _settings(self, choice: PlacedChoice) -> TrainingSettings:
        """Settings with the samples of a group's micro-batch."""
        return self._job.settings.model_copy(update={"batch_per_rank": choice.samples})


def _earlier_bound(plan: HybridPlan, choice: PlacedChoice) -> float:
    """Seconds of the micro-batches before the last at least: the busiest device computes each."""
    passes = plan.balanced.forward + plan.balanced.backward
    busiest = float(np.bincount(plan.placement.device, passes, plan.k).max())
    return ROUNDING * (choice.micro_batches - 1) * busiest


def _keep(kept: OrderedDict[_Key, _Value], key: _Key, value: _Value, most: int = _KEPT) -> None:
    kept[key] = value
    if len(kept) > most:
        kept.popitem(last=False)
