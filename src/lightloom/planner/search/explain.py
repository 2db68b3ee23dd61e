"""Why the winner wins, in one sentence made of its own numbers."""

from __future__ import annotations

from lightloom.collectives.cost.price import Cost
from lightloom.core.units import format_size, format_time
from lightloom.planner.search.ranked import Candidate, PlanSearch
from lightloom.planner.search.verdict import verdict


def explain(found: PlanSearch) -> str:
    """One sentence: what the step takes and waits for, how near the bound its largest collective is, and what the best
    other algorithm loses."""
    winner = found.winner
    return f"{_what(winner)}{_how_near(winner)}{_against(winner, _runner_up(found))}{_compressed(found)}."


def _what(winner: Candidate) -> str:
    parts = winner.result.breakdown
    exposed = parts["exposed_communication_s"] + parts["exposed_reconfiguration_s"]
    hidden = (
        "all communication hidden behind it" if exposed == 0 else f"{format_time(exposed)} of communication exposed"
    )
    return (
        f"{winner.strategy} with {winner.algorithm.name}{_codec(winner)} wins: "
        f"a step takes {format_time(winner.result.step_time)}, {format_time(parts['compute_s'])} of it computing, "
        f"{hidden}"
    )


def _codec(candidate: Candidate) -> str:
    return f" and {candidate.compression.codec}" if candidate.compression else ""


def _compressed(found: PlanSearch) -> str:
    """What compression does to the winning plan, whether it is the one with or the one without."""
    winner = found.winner
    tried = winner if winner.compression else next((each for each in found.ranking if each.plain is winner), None)
    if tried is None or tried.compression is None:
        why = next((each.why for each in found.refused if each.compression), None)
        return f"; compression does not apply: {why}" if why else ""
    codec = tried.compression
    return (
        f"; {codec.codec}, which makes gradients {codec.ratio:.3g} times smaller ({codec.ratio_source}) "
        f"at the rates of engine {codec.engine.name} ({codec.engine.source}), {verdict(tried)}"
    )


def _how_near(winner: Candidate) -> str:
    exchange = winner.largest_exchange
    if exchange is None:
        return ""
    cost, bound = winner.prices.cost(exchange.kind, exchange.nbytes)
    times = cost.time / bound.time if bound.time else 1.0
    stays = winner.prices.fabric.setup_time and not winner.result.busy_time["reconfiguration"]
    circuits = ", the plan's circuits never change" if stays else ""
    return (
        f"; its largest {exchange.kind} ({format_size(exchange.nbytes)}) takes {format_time(cost.time)}, "
        f"{times:.2f} times the lower bound set by {bound.bound_by}{circuits}"
    )


def _runner_up(found: PlanSearch) -> Candidate | None:
    """The best candidate of the same strategy whose algorithm is another."""
    own = found.winner.algorithm.name.removesuffix("-striped")
    return next(
        (
            each
            for each in found.ranking[1:]
            if each.strategy == found.winner.strategy and each.algorithm.name.removesuffix("-striped") != own
        ),
        None,
    )


def _against(winner: Candidate, other: Candidate | None) -> str:
    exchange = winner.largest_exchange
    if other is None or exchange is None:
        return ""
    mine, theirs = (each.prices.cost(exchange.kind, exchange.nbytes)[0] for each in (winner, other))
    return (
        f"; {other.algorithm.name}, the next best, needs {format_time(theirs.time)} for it "
        f"({_parts(theirs)} against {_parts(mine)})"
    )


def _parts(cost: Cost) -> str:
    parts = {"transmission": cost.transmission, "conversion": cost.conversion, "reconfiguration": cost.reconfiguration}
    return ", ".join(f"{format_time(spent)} of {name}" for name, spent in parts.items() if spent) or "nothing"
