"""Placed rows one by one: partition, placement, circuits, step; and a tighter bound after each.

structure   busiest device, longest path with transfers at the best rate, bytes through each port and ring link
circuits    the same at the rates of the pipes that were granted, and the bytes of each pipe over its rate
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import NamedTuple, TypeVar

import numpy as np

from lightloom.accelerators.roofline import memory_time
from lightloom.parallelism.circuits.group import GroupCircuits, grant
from lightloom.parallelism.hybrid import HybridPlan, hybrid
from lightloom.parallelism.partition import BalancedGraph, PartitionRules, partition
from lightloom.parallelism.placed import Link
from lightloom.parallelism.placement import EFFORT, place
from lightloom.parallelism.plan import local_graph
from lightloom.parallelism.strategy_space import Floats, Ints
from lightloom.planner.compression import VALUE_BYTES, Compression
from lightloom.planner.placed_bounds import ROUNDING, best, exchange_latency, sent_ratio
from lightloom.planner.placed_space import peers, reach
from lightloom.planner.splits import PlacedChoice
from lightloom.planner.stage_times import Job
from lightloom.simulation.placed_step import PlacedStep, simulate_placed
from lightloom.simulation.placed_work import held_parameters

_Value = TypeVar("_Value")
_KEPT = 16
"""Plans kept for the rows that may ask for them again."""


class _Flows(NamedTuple):
    """Bytes of a step that leave a device of one group."""

    within: Floats
    """[k, k]: activations, gradients, sums of copied parameters."""
    onward: Floats
    """[k]: to the next group."""


class PlacedPlans:
    """Makes the plans of one job, and remembers the latest."""

    def __init__(self, job: Job, compressions: Mapping[float, Compression] | None = None) -> None:
        self._job = job
        self._compressions = compressions or {}
        self._plans: OrderedDict[PlacedChoice, HybridPlan] = OrderedDict()
        self._circuits: OrderedDict[PlacedChoice, GroupCircuits] = OrderedDict()
        self.partitions = 0
        """Made so far."""
        self.placements = 0
        """Made so far."""

    def plan(self, choice: PlacedChoice) -> HybridPlan:
        """Placed without the search around the best start.

        Raises:
            UnsupportedError: it does not fit the memory.
        """
        key = choice._replace(ratio=1.0)
        if key not in self._plans:
            _keep(self._plans, key, self.placed(choice, effort=0))
        return self._plans[key]

    def placed(self, choice: PlacedChoice, effort: int = EFFORT) -> HybridPlan:
        """Placed anew, with so much search around the best start."""
        fabric, of = self._job.fabric, best(self._job.fabric)
        self.partitions += 1
        balanced = self._partition(choice)
        link = Link(bandwidth=of.rate / peers(fabric) if fabric.exclusive else of.rate, latency=of.latency)
        self.placements += 1
        memory = self._job.accelerator.memory
        placement = place(balanced, choice.k, reach(fabric, choice.l), memory, link, effort=effort)
        return hybrid(placement, balanced, choice.k, choice.l)

    def structure_bound(self, choice: PlacedChoice) -> float:
        """Seconds that no circuits make the plan's step fall below.

        Raises:
            UnsupportedError: it does not fit the memory.
        """
        plan, of = self.plan(choice), best(self._job.fabric)
        away = plan.balanced.nbytes / of.rate + of.latency
        flows = self._flows(plan, choice)
        latency = exchange_latency(self._job.fabric, choice.k)
        bound, first = self._path_bound(plan, away, flows.onward / of.rate + latency)
        ports = np.maximum(flows.within.sum(axis=1), flows.within.sum(axis=0)) + flows.onward
        return ROUNDING * max(bound, float(ports.max()) / of.rate, self._links_bound(plan, flows, first))

    def circuits_bound(self, choice: PlacedChoice) -> float:
        """Seconds that the plan's step takes at least over the circuits that are granted to it.

        Raises:
            UnsupportedError: the fabric cannot serve it.
        """
        plan, circuits, of = self.plan(choice), self.circuits(choice), best(self._job.fabric)
        k, flows = plan.k, self._flows(plan, choice)
        rate, latency = np.full((k, 2 * k), of.rate), np.full((k, 2 * k), of.latency)
        pipe = circuits.source, circuits.destination
        rate[pipe] = np.where(circuits.bandwidth.max(axis=0) > 0, circuits.bandwidth.max(axis=0), of.rate)
        latency[pipe] = circuits.latency
        reader = np.repeat(np.arange(plan.balanced.size), np.diff(plan.balanced.parent_start))
        ways = plan.placement.device[plan.balanced.parent], plan.placement.device[reader]
        # A gradient takes the other pipe; the better of both ways stands for both.
        there = latency[ways] + plan.balanced.nbytes / rate[ways]
        back = latency[ways[::-1]] + plan.balanced.nbytes / rate[ways[::-1]]
        ranks = np.arange(k)
        sending = flows.onward / rate[ranks, ranks + k] + exchange_latency(self._job.fabric, k)
        bound, _ = self._path_bound(plan, np.minimum(there, back), sending)
        sent = np.hstack([flows.within, np.diag(flows.onward)])[pipe]
        return ROUNDING * max(bound, float(_shortest(circuits, sent).max(initial=0.0)))

    def circuits(self, choice: PlacedChoice) -> GroupCircuits:
        """What is granted to the plan.

        Raises:
            UnsupportedError: the fabric cannot serve it.
        """
        key = choice._replace(ratio=1.0)
        if key not in self._circuits:
            _keep(self._circuits, key, grant(self.plan(choice), self._job.fabric))
        return self._circuits[key]

    def simulate(self, choice: PlacedChoice) -> PlacedStep:
        """One step.

        Raises:
            UnsupportedError: the fabric cannot serve it.
        """
        return self._step(self.plan(choice), self.circuits(choice), choice)

    def simulate_replaced(self, choice: PlacedChoice) -> PlacedStep:
        """One step of the plan that all effort places."""
        plan = self.placed(choice)
        return self._step(plan, grant(plan, self._job.fabric), choice)

    def _step(self, plan: HybridPlan, circuits: GroupCircuits, choice: PlacedChoice) -> PlacedStep:
        ratio = self._ratio(circuits, plan.k, choice.ratio)
        job = self._job
        return simulate_placed(plan, circuits, job.accelerator, job.settings, compression_ratio=ratio)

    def _ratio(self, circuits: GroupCircuits, k: int, ratio: float) -> float:
        """Bytes of gradients for each byte that a pipe to the next group sends, an engine in line with it at its pace:
        a slow engine is as good as fewer bytes saved."""
        if ratio == 1:
            return 1.0
        engine, onward = self._compressions[ratio].engine, circuits.destination >= k
        fastest = float(circuits.bandwidth[:, onward].max(initial=0.0))
        values = self._job.settings.gradient_bytes / VALUE_BYTES
        paced = values * min(engine.encode, engine.decode) / fastest if fastest else float("inf")
        return min(ratio * values, paced)

    def _partition(self, choice: PlacedChoice) -> BalancedGraph:
        job, samples = self._job, choice.global_batch // choice.l
        one = np.ones(1, np.int64)
        durations = np.concatenate(job.operator_times(samples * one, one, 0 * one)).T
        settings = job.settings.model_copy(update={"batch_per_rank": samples})
        state = settings.stored_parameter_bytes + settings.gradient_bytes + settings.optimizer_state_bytes
        rules = PartitionRules(
            most_exchanging=choice.most_exchanging, state_bytes=state, gradient_bytes=settings.gradient_bytes
        )
        return partition(local_graph(job.graph, settings), durations, choice.k, choice.quantum, rules)

    def _flows(self, plan: HybridPlan, choice: PlacedChoice) -> _Flows:
        within = hybrid(plan.placement, plan.balanced, plan.k, 1).traffic().model_parallel.toarray()
        ratio = float(sent_ratio(self._job, np.array([choice.ratio]))[0])
        return _Flows(within, plan.all_reduce_bytes / ratio)

    def _path_bound(self, plan: HybridPlan, away: Floats, sending: Floats) -> tuple[float, float]:
        """Seconds of a step with edges between devices of so many seconds, and the first gradient's.

        Args:
            plan: placed.
            away: [edges].
            sending: [k] seconds of a device's exchange with the next group.
        """
        from lightloom.planner import _path_kernels as kernels

        balanced, device, k = plan.balanced, plan.placement.device, plan.k
        reader = np.repeat(np.arange(balanced.size), np.diff(balanced.parent_start))
        delay = np.where(device[balanced.parent] == device[reader], 0.0, away)
        there, back = kernels.longest_paths(
            balanced.parent_start, balanced.parent, delay, balanced.forward, balanced.backward
        )
        traffic = float(self._job.settings.optimizer_traffic_bytes)
        update = np.array([memory_time(self._job.accelerator, held * traffic) for held in held_parameters(plan)])
        busy = np.bincount(device, balanced.forward + balanced.backward, k)
        begin, end, first = np.full(k, np.inf), np.zeros(k), np.full(k, np.inf)
        np.minimum.at(begin, device, there - balanced.forward)
        np.maximum.at(end, device, back)
        owner = balanced.parameters > 0
        np.minimum.at(first, device[owner], back[owner])
        working = np.where(busy > 0, begin + busy, 0.0)
        exchanging = np.where((plan.all_reduce_bytes > 0) & np.isfinite(first), first + sending, 0.0)
        bound = np.maximum.reduce([working, end, exchanging]) + update
        return float(bound.max()), float(first.min(initial=np.inf)) if owner.any() else 0.0

    def _links_bound(self, plan: HybridPlan, flows: _Flows, first: float) -> float:
        """Seconds in which the links of a WDM ring carry all bytes, the exchange beginning with the first gradient."""
        of, ranks = best(self._job.fabric), self._job.fabric.ranks
        device: Ints = np.arange(plan.k)
        apart = np.abs(device[:, None] - device)
        inside = float((flows.within * np.minimum(apart, ranks - apart)).sum())
        onward = float(flows.onward.sum()) * min(plan.k, ranks - plan.k)
        all_links = plan.k * of.link_rate
        return max((inside + onward) / all_links, first + onward / all_links if onward else 0.0)


def _shortest(circuits: GroupCircuits, nbytes: Floats) -> Floats:
    """Seconds in which each pipe carries so many bytes at least: [pipe]; 0 for one without circuits."""
    fastest = circuits.bandwidth.max(axis=0)
    lit = np.where(fastest > 0, fastest, np.inf)
    if circuits.timing is None:
        return nbytes / lit
    cycle = circuits.bandwidth.sum(axis=0) * circuits.timing.hold
    whole = np.maximum(np.ceil(nbytes / np.where(cycle > 0, cycle, np.inf)) - 1, 0.0)
    found: Floats = whole * len(circuits.bandwidth) * circuits.timing.period + (nbytes - whole * cycle) / lit
    return found


def _keep(kept: OrderedDict[PlacedChoice, _Value], key: PlacedChoice, value: _Value) -> None:
    kept[key] = value
    if len(kept) > _KEPT:
        kept.popitem(last=False)
