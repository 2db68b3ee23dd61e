"""Why the winner wins, in one sentence made of its own numbers."""

from __future__ import annotations

from lightloom.collectives.cost.price import Cost
from lightloom.core.units import format_size, format_time
from lightloom.exchange.evidence import accuracy_note
from lightloom.parallelism.strategy_space import Strategy
from lightloom.planner.search.counts import Counts
from lightloom.planner.search.plans import Plan, PlanSearch
from lightloom.planner.search.request import KINDS
from lightloom.planner.search.verdict import verdict

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
