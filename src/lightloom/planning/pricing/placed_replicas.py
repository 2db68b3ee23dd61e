"""Placed replicas on a fabric of parts: operators lie inside a group, and replicas exchange gradients between groups.

    device d of a group ──► [exchange of its buckets with the counterparts in all groups, between] ──► its update

A bucket's exchange takes the seconds of the schedules that carry it between, one bucket of a device after the other,
while circuits inside carry what operators send each other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from lightloom.core.errors import UnsupportedError
from lightloom.exchange.methods import TwoLevelExchange
from lightloom.planning.gradients import PricedExchange
from lightloom.planning.parallelism.circuits.circuits import GroupCircuits
from lightloom.planning.parallelism.circuits.group import grant
from lightloom.planning.parallelism.placement.placement import HybridPlan
from lightloom.planning.pricing.group_prices import AUTO, GroupPrices
from lightloom.planning.pricing.job import Job


def method_between(job: Job) -> PricedExchange | None:
    """Return the first of the job's exchange methods that has two levels and whose nodes have as many ranks as a group,
    the inside part of the job's fabric (``parts[0]``; the fabric must be one of parts); None where there is none, and
    gradients are exchanged as they are."""
    size = job.fabric.parts[0].ranks
    methods = (each for each in job.exchanges if isinstance(each.method, TwoLevelExchange) and each.method.node == size)
    return next(methods, None)


@dataclass(frozen=True, slots=True)
class ReplicaExchange:
    """Seconds in which a device exchanges gradients with its counterparts in all groups of a fabric of parts, a line by
    bytes."""

    nothing: float
    """Seconds of no bytes."""
    per_byte: float
    """Seconds more for each byte of gradients."""

    @classmethod
    def of(cls, job: Job) -> Self:
        """Return the exchange on the part of the job's fabric that joins the groups (``parts[1]``), among all its
        ranks: by the method of :func:`method_between` where there is one, its level between nodes alone, else of
        gradients as they are. Its line (``nothing``, the seconds of no bytes, and ``per_byte``, the seconds more for
        each byte, uncoded) runs through the seconds, with circuits in place, of an all-reduce of no bytes and of one of
        the whole model's gradients (all parameters times the settings' bytes of a gradient), each by the cheapest
        algorithm.

        Raises:
            UnsupportedError: the part has no algorithm for this all-reduce.
        """
        assert isinstance(job.pricing, GroupPrices)
        between, method = job.fabric.parts[1], method_between(job)
        exchanges = [replace(method, method=method.method.between)] if method is not None else []  # type: ignore[attr-defined]
        prices = GroupPrices(between, job.settings, job.pricing.model, exchanges)
        if (why := prices.refusal("all-reduce", AUTO, between.ranks, len(exchanges))) is not None:
            raise UnsupportedError(f"replicas that exchange between groups: {why}")
        price = prices.price(AUTO, between.ranks, len(exchanges))
        whole = job.graph.parameters * job.settings.gradient_bytes
        nothing, seconds = (price("all-reduce", nbytes).cost.repeated_time for nbytes in (0.0, float(whole)))
        return cls(nothing, (seconds - nothing) / whole)

    def granted(self, plan: HybridPlan, job: Job) -> GroupCircuits:
        """Return the circuits that are granted to one group inside its part, followed by k pipes, one from each device
        d to its counterpart in the next group (destination k + d). The rate of these (bytes per second, the same in
        every hold, which is a time in which circuits stand unchanged) and their latency make the plan's exchange, a
        ring of 2 (groups - 1) steps, take as long as this one. Each has a port and an entry of its own, numbered after
        those inside. ``plan`` has at least two groups, on the parts of the fabric of ``job``."""
        inside = grant(replace(plan, groups=1), job.fabric.parts[0])
        steps, own = 2 * (plan.groups - 1), np.arange(plan.k)
        rate = steps / plan.groups / self.per_byte
        columns = {
            "source": own,
            "destination": own + plan.k,
            "latency": np.full(plan.k, self.nothing / steps),
            "port": own + (inside.port.max(initial=-1) // plan.k + 1) * plan.k,
            "entry": own + (inside.entry.max(initial=-1) // plan.k + 1) * plan.k,
        }
        joined: dict[str, Any] = {
            name: np.concatenate([getattr(inside, name), column]) for name, column in columns.items()
        }
        pipes = np.full((len(inside.bandwidth), plan.k), rate)
        return replace(inside, bandwidth=np.concatenate([inside.bandwidth, pipes], axis=1), **joined)
