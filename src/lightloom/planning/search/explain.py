"""Why the winner wins, in one sentence made of its own numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from lightloom.collectives.cost.price import Cost
from lightloom.core.units import format_size, format_time
from lightloom.exchange.method import accuracy_note
from lightloom.machines.accelerators.accelerator import ELEMENT_BYTES
from lightloom.models.graph import ComputeGraph
from lightloom.planning.parallelism.operators import operator_columns
from lightloom.planning.parallelism.plan import Exchange, repeated_operators
from lightloom.planning.parallelism.strategy_space import Strategies, Strategy
from lightloom.planning.parallelism.tensor_parallel import expert_split, tensor_split
from lightloom.planning.pricing.collective_prices import CarriedExchange, CheapestPrices, ExchangePrices
from lightloom.planning.pricing.schedule_prices import SchedulePrices
from lightloom.planning.search.plans import Counts, Plan, PlanSearch, label
from lightloom.planning.search.request import KINDS
from lightloom.planning.search.search import search

# What a method of exchanging gradients does to a plan, in seconds and in words: with and without, side by side.

_SAME = 1e-9
"""Steps that differ by less than this share are called equal."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A plan with a method against the same plan with gradients as they are; seconds of one step, hidden or not.

    Of a method that exchanges every so many steps, a step has its share.
    """

    gained: float
    """Seconds by which the step is shorter; negative where the method loses."""
    saved: float
    """Seconds by which sending is shorter; negative where links wait for an engine behind the port, or nothing became
    smaller."""
    encode: float
    """Seconds of compressing."""
    decode: float
    """Seconds of decompressing."""
    nbytes: float
    """Bytes of the gradient collectives, gradients as they are."""
    compressed_nbytes: float
    """Bytes of the gradient collectives as they are sent."""
    step_time: float
    """Duration of a step with gradients as they are, in seconds."""

    @property
    def outcome(self) -> str:
        """``wins``, ``loses`` or ``even``."""
        if abs(self.gained) <= _SAME * self.step_time:
            return "even"
        return "wins" if self.gained > 0 else "loses"

    def __str__(self) -> str:
        coding = f"coding {format_time(self.encode + self.decode)}"
        if self.outcome == "even":
            return "changes nothing: computing hides the exchange either way"
        if self.outcome == "wins":
            paid = f", {coding}" if self.encode + self.decode else ""
            return f"saves {format_time(self.gained)}: sending −{format_time(self.saved)}{paid}"
        if self.saved < 0:
            paid = coding if self.encode + self.decode else "the link waits for the engine"
            return f"loses {format_time(-self.gained)}: sending +{format_time(-self.saved)}, {paid}"
        return f"loses {format_time(-self.gained)}: {coding} > {format_time(self.saved)} less sending"


def verdict(plan: Plan) -> Verdict | None:
    """The effect of a plan's method; None without one, or where the same plan without it was not simulated."""
    other = plan.uncompressed
    if other is None or other.prices is None or plan.result is None or other.result is None:
        return None
    if not isinstance(plan.prices, CheapestPrices | ExchangePrices):
        return None
    saved = encode = decode = nbytes = compressed = 0.0
    for exchange in other.result.plan.exchanges:
        if _carried(plan.prices, exchange) is not None:
            saved += other.prices.cost(exchange.kind, exchange.nbytes)[0].transmission
            nbytes += exchange.nbytes
    for exchange in plan.result.plan.exchanges:
        prices = _carried(plan.prices, exchange)
        if prices is not None:
            ours = prices.cost(exchange.kind, exchange.nbytes)[0]
            saved -= ours.transmission
            encode, decode = encode + ours.encode, decode + ours.decode
            compressed += prices.sent_nbytes(exchange.kind, exchange.nbytes)
    return Verdict(
        gained=other.step_time - plan.step_time,
        saved=saved,
        encode=encode,
        decode=decode,
        nbytes=nbytes,
        compressed_nbytes=compressed,
        step_time=other.step_time,
    )


def _carried(prices: CheapestPrices | ExchangePrices, exchange: Exchange) -> SchedulePrices | CarriedExchange | None:
    """What carries the gradients of an exchange; None of one that carries none."""
    choice = prices.choice(exchange.kind, exchange.nbytes)
    if not isinstance(choice, SchedulePrices | CarriedExchange):
        return None
    return None if choice.values_nbytes(exchange.kind, exchange.nbytes) is None else choice


_WAITS = {
    "exposed_communication_s": "communication exposed",
    "exposed_reconfiguration_s": "reconfiguration exposed",
    "idle_s": "idle",
}
_MORE = {
    "compute_s": "computing",
    "exposed_communication_s": "exposed communication",
    "exposed_reconfiguration_s": "exposed reconfiguration",
    "idle_s": "idling",
}


def explain(search: PlanSearch) -> str:
    """One sentence: what wins and what it waits for, how near the bound its largest collective is, what its exchange
    of gradients and the best other algorithm and the best of every other kind make of it, and what was left out."""
    winner = search.winner
    others = [best for kind in KINDS if kind != winner.strategy and (best := search.best_of(kind)) is not None]
    others.sort(key=lambda plan: plan.sample_time)
    parts = [
        _what(winner),
        _how_near(winner),
        _other_algorithm(search),
        _exchanged(search),
        *(_against(winner, plan) for plan in others),
        _pruned(search.counts),
    ]
    return "; ".join(filter(None, parts)) + "."


def _name(plan: Plan) -> str:
    word = "" if plan.strategy in plan.label else f"{plan.strategy} "
    return f"{word}{plan.label} with {plan.global_batch:,} samples"


def _what(winner: Plan) -> str:
    capacity, where = winner.cluster.accelerator.memory, f"{winner.cluster.name} ({winner.cluster.counted_ranks})"
    wins = f"{_name(winner)} on {where} wins{'' if winner.runnable else ', though no framework runs it'}"
    if winner.fits is False and capacity is not None:
        wins = (
            f"no plan fits: {_name(winner)} on {where} needs {format_size(winner.memory)} of "
            f"{format_size(capacity)} a rank, expected more memory, more ranks or a smaller global batch"
        )
    spent = winner.breakdown
    waits = [f"{format_time(spent[key])} {word}" for key, word in _WAITS.items() if spent[key] > 0]
    return (
        f"{wins}: {_rate(winner.samples_per_second)} samples/s, a step takes {format_time(winner.step_time)}, "
        f"{format_time(spent['compute_s'])} of it computing, {' and '.join(waits) or 'nothing exposed'}"
        f"{_circuits(winner)}"
    )


def _rate(number: float) -> str:
    """Four digits, without an exponent: 0.1234, 12.34, 123,400."""
    return f"{number:.4g}" if number < 1000 else f"{float(f'{number:.4g}'):,.0f}"


def _circuits(plan: Plan) -> str:
    if plan.division is not None:
        return f" ({plan.division})"
    step = plan.placed
    if step is None or step.circuits.assignment is None:
        return ""
    relayed = step.relayed_bytes / step.sent_bytes if step.sent_bytes else 0.0
    words = [f"{100 * relayed:.2g} % of the bytes relayed"] if relayed else []
    if step.waited_for_circuits:
        words.append(f"transfers wait {format_time(step.waited_for_circuits)} in all for circuits")
    return f" ({', '.join(words)})" if words else ""


def _how_near(winner: Plan) -> str:
    """How near the largest collective of data parallelism is to its lower bound."""
    if winner.prices is None or winner.result is None or not winner.exchanges:
        return ""
    exchange = winner.exchanges[0]
    cost, bound = winner.prices.cost(exchange.kind, exchange.nbytes)
    times, repeated = bound.ratio(cost) or 1.0, bound.repeated_ratio(cost)
    without = f" ({repeated:.2f} times without set-up)" if repeated else ""
    stays = winner.cluster.fabric.setup_time and not winner.result.busy_time["reconfiguration"]
    circuits = ", the circuits of the plan never change" if stays else ""
    return (
        f"its largest {exchange.kind} ({format_size(exchange.nbytes)}) takes {format_time(cost.time)}, "
        f"{times:.2f} times the lower bound{without} set by {bound.bound_by}{circuits}"
    )


def _other_algorithm(search: PlanSearch) -> str:
    """What the best plan of the same strategy with another algorithm loses."""
    winner = search.winner
    if winner.prices is None or not winner.exchanges:
        return ""
    own, exchange = winner.algorithm.removesuffix("-striped"), winner.exchanges[0]
    for plan in search.ranking[1:]:
        if plan.strategy == winner.strategy and plan.algorithm.removesuffix("-striped") != own and plan.prices:
            ours, theirs = (each.cost(exchange.kind, exchange.nbytes)[0] for each in (winner.prices, plan.prices))
            return (
                f"{plan.algorithm}, the next best, needs {format_time(theirs.time)} for it "
                f"({_parts(theirs)} against {_parts(ours)})"
            )
    return ""


def _parts(cost: Cost) -> str:
    parts = {"transmission": cost.transmission, "conversion": cost.conversion, "reconfiguration": cost.reconfiguration}
    return ", ".join(f"{format_time(spent)} of {name}" for name, spent in parts.items() if spent) or "nothing"


def _exchanged(search: PlanSearch) -> str:
    """What a method of exchanging gradients does to the winning plan, with or without it; or else to the best plan that
    has one."""
    winner = search.winner
    plans = [plan for plan in search.ranking if plan.gradient_exchange]
    best = next(iter(plans), None)
    tried = winner if winner.gradient_exchange else next((p for p in plans if p.uncompressed is winner), best)
    if tried is None or tried.gradient_exchange is None:
        reason = next((row.why for row in search.refused if row.compression), None)
        return f"no method of exchanging gradients applies: {reason}" if reason else ""
    method, ranks = tried.gradient_exchange, _replicas(tried)
    where = "" if tried is winner or tried.uncompressed is winner else f"in {_name(tried)} "
    alone = "is part of the winner" if tried is winner else "has no equal plan without it to be compared with"
    effect = verdict(tried) or alone
    often = "" if method.every == 1 else f"every {method.every} steps, each of which pays its share, "
    other = "" if method.method.synchronous else "; this is other training than data parallelism"
    return (
        f"{method.label}, which sends {method.ratio(ranks):.3g} times fewer bytes than float32 {often}"
        f"({method.sizes}) at the rates of engine {method.coder.name} ({method.coder.source}), {where}{effect}; "
        f"accuracy: {accuracy_note(method.name)}{other}"
    )


def _replicas(plan: Plan) -> int:
    """Ranks that exchange gradients."""
    return plan.choice.replicas if isinstance(plan.choice, Strategy) else plan.choice.l


def _percent(share: float) -> str:
    """Two digits, and no more: 0.38 %, 14 %, 180 %."""
    value = 100 * share
    return f"{value:.2g} %" if value < 100 else f"{float(f'{value:.2g}'):,.0f} %"


def _against(winner: Plan, other: Plan) -> str:
    """How much slower the best of another kind is, and what it has more of for each sample."""
    slower = other.sample_time / winner.sample_time - 1 if winner.sample_time else 0.0
    where = "" if other.cluster is winner.cluster else f" on {other.cluster.name} ({other.cluster.counted_ranks})"
    if other.fits is False and winner.fits is not False:
        return f"{_name(other)}{where} does not fit: it needs {format_size(other.memory)} a rank"
    if winner.runnable and not other.runnable and slower < 0:
        return f"{_name(other)}{where} is {_percent(-slower)} faster, but no framework runs it"
    if slower <= 0:
        return f"{_name(other)}{where} is as fast"
    return f"{_name(other)}{where} is {_percent(slower)} slower ({_why(winner, other)})"


def _why(winner: Plan, other: Plan) -> str:
    more = {
        word: other.breakdown[key] / other.global_batch - winner.breakdown[key] / winner.global_batch
        for key, word in _MORE.items()
    }
    word = max(more, key=lambda name: more[name])
    return f"{format_time(max(more[word], 0.0))} more {word} a sample"


def _pruned(counts: Counts) -> str:
    left = [
        f"{count:,} {word}"
        for count, word in (
            (counts.refused, "infeasible"),
            (counts.too_fine, "cut too finely"),
            (counts.too_large, "too large for the memory"),
        )
        if count
    ]
    decided = max(counts.rows - counts.refused - counts.too_fine - counts.too_large - counts.simulated, 0)
    return (
        f"of {counts.rows:,} plans {''.join(each + ', ' for each in left)}{decided:,} were decided by their bounds, "
        f"{counts.placed:,} placements made and {counts.simulated:,} simulated"
    )


# The operators on which a plan spends most of its computing, and what bounds each.

MOST_OPERATORS = 10
"""Operators that are named."""
_LAUNCHED = 0.5
"""Share of an operator's seconds that neither arithmetic nor memory explains, from which launching bounds it."""


class CostlyOperator(NamedTuple):
    """Operators that differ only in the number of their block."""

    name: str
    """With a star in the place of each number."""
    kind: str
    operators: int
    """Operators of this name."""
    share: float
    """Share of the seconds that operators compute in a step, repeated forward passes included."""
    bound: str
    """What bounds them: "arithmetic", "memory" or "launch"."""


def costly_operators(graph: ComputeGraph, plan: Plan) -> tuple[CostlyOperator, ...]:
    """Return the operators that take most seconds of a plan's micro-batch on the ranks that hold them, each at its
    share, the most expensive first; none of placed plans, whose operators are cut."""
    choice, accelerator, settings = plan.choice, plan.cluster.accelerator, plan.cluster.training
    if not isinstance(choice, Strategy):
        return ()
    split, row = tensor_split(graph), Strategies.of(choice)
    element_bytes = ELEMENT_BYTES[settings.precision]
    columns = operator_columns(graph, split, expert_split(graph, split), element_bytes, settings.attention)
    forward, backward = columns.work(
        accelerator, row.samples, row.tp, sequence_parallel=row.sequence_parallel, ep=row.ep, cp=row.cp
    )
    times = 1 + repeated_operators(graph, choice.recomputation)
    passes = [
        times[0]
        for times in columns.times(
            accelerator,
            settings.precision,
            row.samples,
            row.tp,
            sequence_parallel=row.sequence_parallel,
            ep=row.ep,
            cp=row.cp,
        )
    ]
    seconds = times * passes[0] + passes[1]
    arithmetic = accelerator.compute_time(times * forward.flops[0] + backward.flops[0], settings.precision)
    memory = accelerator.memory_time(times * forward.nbytes[0] + backward.nbytes[0])
    groups: dict[tuple[str, str], list[int]] = {}
    for index, operator in enumerate(graph.operators):
        groups.setdefault((re.sub(r"\d+", "*", operator.name), operator.kind), []).append(index)
    rows = [
        CostlyOperator(
            name=name,
            kind=kind,
            operators=len(members),
            share=float(seconds[members].sum() / seconds.sum()) if seconds.any() else 0.0,
            bound=_bound(
                *(float(part[members].sum()) for part in (seconds, arithmetic, memory)),
                launched=accelerator.kernel_launch > 0,
            ),
        )
        for (name, kind), members in groups.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.share, row.name))[:MOST_OPERATORS])


def _bound(seconds: float, arithmetic: float, memory: float, *, launched: bool) -> str:
    if launched and max(arithmetic, memory) < (1 - _LAUNCHED) * seconds:
        return "launch"
    return "arithmetic" if arithmetic >= memory else "memory"


def costly_rows(graph: ComputeGraph, plan: Plan) -> list[dict[str, Any]]:
    """Return the same in plain types."""
    return [operator._asdict() for operator in costly_operators(graph, plan)]


# How sensitive a winner is to the latency of a hop: the smallest one at which another plan wins.
#
# Plans are searched anew with latencies between the fabric's own and ten microseconds, by bisection: where the same
# plan wins at the largest latency, it is taken to win at all smaller ones too. A plan is its degrees and the
# algorithm of its largest exchange. One that takes as long as the new winner has not lost.

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
