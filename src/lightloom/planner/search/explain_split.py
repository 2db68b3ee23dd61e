"""Why a split wins, in one sentence made of its own numbers."""

from __future__ import annotations

from lightloom.core.units import format_time
from lightloom.planner.search.plans import KINDS, Counts, SplitPlan, SplitSearch


def explain_split(found: SplitSearch) -> str:
    """One sentence: what wins, what it waits for, what the best of every other kind loses and why, and what was left
    out."""
    winner = found.winner
    others = [best for kind in KINDS if kind != winner.kind and (best := found.best_of(kind)) is not None]
    others.sort(key=lambda plan: plan.sample_time)
    against = "".join(f"; {_against(winner, each)}" for each in others)
    return f"{_what(winner)}{against}; {_pruned(found.counts)}."


def _name(plan: SplitPlan) -> str:
    word = "" if plan.kind in plan.label else f"{plan.kind} "
    return f"{word}{plan.label} with {plan.global_batch:,} samples"


def _what(winner: SplitPlan) -> str:
    parts = winner.breakdown
    return (
        f"{_name(winner)} on {winner.cluster.name} ({winner.cluster.ranks:,} ranks) wins: "
        f"{_rate(winner.samples_per_second)} samples/s, a step takes {format_time(winner.step_time)}, "
        f"{format_time(parts['compute_s'])} of it computing, {_waits(winner)}{_circuits(winner)}"
    )


def _rate(number: float) -> str:
    """Four digits, without an exponent: 0.1234, 12.34, 123,400."""
    return f"{number:.4g}" if number < 1000 else f"{float(f'{number:.4g}'):,.0f}"


def _waits(plan: SplitPlan) -> str:
    """What the step waits for besides computing."""
    words = {
        "exposed_communication_s": "communication exposed",
        "exposed_reconfiguration_s": "reconfiguration exposed",
        "idle_s": "idle",
    }
    waits = [f"{format_time(plan.breakdown[key])} {word}" for key, word in words.items() if plan.breakdown[key] > 0]
    return " and ".join(waits) if waits else "nothing exposed"


def _circuits(plan: SplitPlan) -> str:
    step = plan.placed
    if step is None or step.circuits.assignment is None:
        return ""
    relayed = step.relayed_bytes / step.sent_bytes if step.sent_bytes else 0.0
    words = [f"{100 * relayed:.2g} % of the bytes relayed"] if relayed else []
    if step.waited_for_circuits:
        words.append(f"transfers wait {format_time(step.waited_for_circuits)} in all for circuits")
    return f" ({', '.join(words)})" if words else ""


def _percent(share: float) -> str:
    """Two digits, and no more: 0.38 %, 14 %, 180 %."""
    value = 100 * share
    return f"{value:.2g} %" if value < 100 else f"{float(f'{value:.2g}'):,.0f} %"


def _against(winner: SplitPlan, other: SplitPlan) -> str:
    """How much slower the best of another kind is, and what it has more of for each sample."""
    slower = other.sample_time / winner.sample_time - 1
    where = "" if other.cluster is winner.cluster else f" on {other.cluster.name} ({other.cluster.ranks:,} ranks)"
    if slower <= 0:
        return f"{_name(other)}{where} is as fast"
    return f"{_name(other)}{where} is {_percent(slower)} slower ({_why(winner, other)})"


def _why(winner: SplitPlan, other: SplitPlan) -> str:
    words = {
        "compute_s": "computing",
        "exposed_communication_s": "exposed communication",
        "exposed_reconfiguration_s": "exposed reconfiguration",
        "idle_s": "idling",
    }
    more = {
        word: other.breakdown[key] / other.global_batch - winner.breakdown[key] / winner.global_batch
        for key, word in words.items()
    }
    word = max(more, key=lambda each: more[each])
    return f"{format_time(max(more[word], 0.0))} more {word} a sample"


def _pruned(counts: Counts) -> str:
    left = [
        f"{count:,} {word}"
        for count, word in (
            (counts.refused, "cannot be had"),
            (counts.too_fine, "are cut too finely"),
            (counts.too_large, "do not fit the memory"),
        )
        if count
    ]
    unsimulated = counts.bounded - counts.simulated
    return (
        f"of {counts.rows:,} rows {''.join(each + ', ' for each in left)}{max(unsimulated, 0):,} were decided by their "
        f"bounds, {counts.placed:,} placements made and {counts.simulated:,} simulated"
    )
