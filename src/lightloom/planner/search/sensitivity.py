"""How sensitive a winner is to the latency of a hop: the smallest one at which another plan wins.

Plans are searched anew with latencies between the fabric's own and ten microseconds, by bisection: where the same plan
wins at the largest latency, it is taken to win at all smaller ones too. A plan is its degrees and the algorithm of its
largest exchange. One that takes as long as the new winner has not lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lightloom.core.units import format_time
from lightloom.planner.search.labels import label
from lightloom.planner.search.plans import Plan, PlanSearch
from lightloom.planner.search.search import search

_SAME = 1e-9
LATENCIES = (50e-9, 100e-9, 200e-9, 400e-9, 700e-9, 1e-6, 2e-6, 5e-6, 10e-6)
"""Seconds a hop that are tried."""


@dataclass(frozen=True, slots=True)
class LatencySensitivity:
    """What the latency of a hop decides."""

    own: float
    """Seconds a hop of the fabric."""
    latency: float | None
    """Smallest seconds a hop among those tried at which another plan wins; None where none does."""
    winner: Plan | None
    """The plan that wins there."""
    slower: float | None
    """How many times as long the first winner takes there; None where it was not simulated."""

    def __str__(self) -> str:
        if self.winner is None or self.latency is None:
            return f"the winner stays the winner up to {format_time(max(LATENCIES))} a hop"
        first = "" if self.slower is None else f", the first {self.slower:.4g} times as long"
        return (
            f"the winner changes at {format_time(self.latency)} a hop: {self.winner.short_label} then takes "
            f"{format_time(self.winner.step_time)}{first}"
        )

    def to_json(self) -> dict[str, object]:
        """Plain types, SI units."""
        return {
            "own_hop_latency_s": self.own,
            "changes_at_hop_latency_s": self.latency,
            "winner": None if self.winner is None else self.winner.label,
            "iteration_time_s": None if self.winner is None else self.winner.step_time,
            "slower": self.slower,
        }


def latency_sensitivity(ranked: PlanSearch, latencies: Sequence[float] = LATENCIES) -> LatencySensitivity:
    """The smallest of the ``latencies`` (seconds a hop, ascending) at which another plan wins on the winner's cluster.

    Args:
        ranked: a search; its codec, pins and kinds are searched again, without the comparison of single algorithms.
        latencies: those above the fabric's own are tried.
    """
    own = ranked.winner.cluster.fabric.hop_latency
    tried = [seconds for seconds in latencies if seconds > own]
    found: dict[float, LatencySensitivity] = {}

    def changes(seconds: float) -> bool:
        winner, slower = _winner_at(ranked, seconds)
        found[seconds] = LatencySensitivity(own, seconds, winner, slower)
        return slower is None or slower > 1 + _SAME

    if not tried or not changes(tried[-1]):
        return LatencySensitivity(own, None, None, None)
    low, high = 0, len(tried) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if changes(tried[middle]) else (middle + 1, high)
    return found[tried[high]]


def _winner_at(ranked: PlanSearch, seconds: float) -> tuple[Plan, float | None]:
    """The plan that wins with so many seconds a hop, and how many times as long the first winner takes there.

    None where the first winner is so much slower that it was not simulated.
    """
    first = ranked.winner
    cluster = replace(first.cluster, fabric=first.cluster.fabric.with_hop_latency(seconds), reference=None)
    request = replace(ranked.request, global_batches=[first.global_batch], largest_batches=False)
    again = search(ranked.graph, cluster, request)
    times = [plan.sample_time for plan in again.ranking if _identity(plan) == _identity(first)]
    return again.winner, min(times) / again.winner.sample_time if times else None


def _identity(plan: Plan) -> tuple[str, str, str]:
    return plan.strategy, label(plan.choice), plan.algorithm
