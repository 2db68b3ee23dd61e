"""A search in words and as a JSON document: why the winner wins, in one sentence made of its own numbers."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from lightloom.collectives.collective import Kind
from lightloom.collectives.cost.price import Cost
from lightloom.core.results import attributes, in_groups
from lightloom.core.units import format_size, format_time, two_digits
from lightloom.exchange.method import accuracy_note, evidence_of
from lightloom.models.graph import ComputeGraph
from lightloom.planning.gradients import PricedExchange
from lightloom.planning.parallelism.plan import repeated_operators
from lightloom.planning.parallelism.strategy_space import Strategies, Strategy
from lightloom.planning.pricing.collective_prices import CheapestPrices, ExchangePrices, phase_document
from lightloom.planning.pricing.job import LEVEL, belief_of, divided_model
from lightloom.planning.pricing.schedule_prices import SchedulePrices
from lightloom.planning.reconfiguration.in_step import InStep, RegrantedStep
from lightloom.planning.search.plans import Counts, Plan, PlanSearch, plan_words, priced_lines
from lightloom.planning.search.request import KINDS, measured_lines

# Effect of a method of exchanging gradients on a plan, in seconds and in words: with and without, side by side.

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
    """Seconds in which gradients are compressed."""
    decode: float
    """Seconds in which gradients are decompressed."""
    nbytes: float
    """Bytes of the gradient collectives, gradients as they are."""
    compressed_nbytes: float
    """Bytes of the gradient collectives as they are sent."""
    step_time: float
    """Duration of a step with gradients as they are, in seconds."""

    @property
    def outcome(self) -> str:
        """Sign of the gain in a word: ``wins``, ``loses``, or ``even`` where the gain is at most 1e-9 of the step."""
        if abs(self.gained) <= _SAME * self.step_time:
            return "even"
        return "wins" if self.gained > 0 else "loses"

    def __str__(self) -> str:
        """Return in words what a step gains or loses, from how much less sending and how much coding."""
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
    """Return the effect of a plan's method of exchanging gradients on its step, against the same plan without it
    (``plan.uncompressed``): ``gained`` and ``saved``, the seconds by which the step and by which sending is shorter
    (negative where longer); ``encode`` and ``decode``, the seconds of compressing and decompressing (these and sending
    hidden or not); ``nbytes`` and ``compressed_nbytes``, the bytes of the coded collectives as they are and as sent;
    and ``step_time``, the seconds of the step without the method.

    None without a method, where that other plan was not simulated, where either is not data parallelism alone, and
    where its collectives are not priced as a whole but level by level, as on a fabric of parts.
    """
    other = plan.uncompressed
    if other is None or other.prices is None or plan.result is None or other.result is None:
        return None
    if not isinstance(plan.prices, CheapestPrices | ExchangePrices):
        return None
    saved = encode = decode = nbytes = compressed = 0.0
    for kind, size in ((each.kind, each.nbytes) for each in other.result.plan.exchanges):
        if _carried(plan.prices, kind, size) is not None:
            saved += other.prices(kind, size).cost.transmission
            nbytes += size
    for kind, size in ((each.kind, each.nbytes) for each in plan.result.plan.exchanges):
        prices = _carried(plan.prices, kind, size)
        if prices is not None:
            ours = prices(kind, size).cost
            saved -= ours.transmission
            encode, decode = encode + ours.encode, decode + ours.decode
            compressed += prices.sent_nbytes(kind, size)
    return Verdict(other.step_time - plan.step_time, saved, encode, decode, nbytes, compressed, other.step_time)


def _carried(
    prices: CheapestPrices | ExchangePrices, kind: Kind, nbytes: float
) -> SchedulePrices | ExchangePrices | None:
    """Return, of prices that choose the cheapest, those chosen for a collective of ``nbytes`` uncompressed bytes where
    they carry coded gradients; None where its gradients are not coded."""
    choice = prices.choice(kind, nbytes)
    if not isinstance(choice, SchedulePrices | ExchangePrices):
        return None
    return None if choice.values_nbytes(kind, nbytes) is None else choice


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
    """Return one sentence of parts joined by "; ": what wins and what it waits for, how near its lower bound its
    largest collective is, what the next best algorithm and a method of exchanging gradients make of it, how much slower
    the best plan of each other kind that has one is (kinds are "ddp", "fsdp", "tensor-pipeline" and "placed"), and how
    many plans were left out, bounded and simulated. Parts that do not apply are left out; it ends with a full stop."""
    winner = search.winner
    others = [best for kind in KINDS if kind != winner.strategy and (best := search.best_of(kind)) is not None]
    parts = [
        _what(winner),
        _how_near(winner),
        _other_algorithm(search),
        _exchanged(search),
        *(_against(winner, plan) for plan in sorted(others, key=lambda plan: plan.sample_time)),
        _pruned(search.counts),
    ]
    return "; ".join(filter(None, parts)) + "."


def _name(plan: Plan) -> str:
    """Return a plan in words: how it divides the job, by which algorithms (the first two), by which exchange method,
    and the samples of its step."""
    carried = f" by {' and '.join(plan.algorithms[:2])}" if plan.algorithms else ""
    method = f" of {plan.gradient_exchange.label}" if plan.gradient_exchange else ""
    return f"{plan_words(plan.choice)}{carried}{method} with {plan.global_batch:,} samples"


def _what(winner: Plan) -> str:
    """Return in words who wins and on which cluster (and, of a placed plan, that no framework runs it), or that no plan
    fits and how much memory the first needs; its samples per second, its step time, and the seconds of it spent
    computing, on exposed communication, on exposed reconfiguration and idle, or "nothing exposed"; last, in
    parentheses, how channels are divided, or what is relayed, where there is either."""
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
    """Return a number as text with at most four significant digits, from 1,000 on whole, with commas and without an
    exponent, and below 0.0001 with one: 0.1234, 12.34, 123,400."""
    return f"{number:.4g}" if number < 1000 else f"{float(f'{number:.4g}'):,.0f}"


def _circuits(plan: Plan) -> str:
    """Return in parentheses, after a space, how channels are divided among axes, or of a placed plan what share of
    bytes is relayed and how long transfers wait for circuits; empty where there is neither."""
    if plan.division is not None:
        return f" ({plan.division})"
    step = plan.placed
    if step is None or step.circuits.assignment is None:
        return ""
    relayed = step.relayed_bytes / step.sent_bytes if step.sent_bytes else 0.0
    words = [f"{_percent(relayed)} of the bytes relayed"] if relayed else []
    if step.waited_for_circuits:
        words.append(f"transfers wait {format_time(step.waited_for_circuits)} in all for circuits")
    return f" ({', '.join(words)})" if words else ""


def _how_near(winner: Plan) -> str:
    """Return in words the seconds of the winner's largest collective and how many times its lower bound that is, with
    set-up and without, by what the bound is set, and whether circuits never change; empty unless the winner is data
    parallelism alone that exchanges something."""
    if winner.prices is None or winner.result is None or not winner.exchanges:
        return ""
    exchange = winner.exchanges[0]
    priced = winner.prices(exchange.kind, exchange.nbytes)
    cost, bound = priced.cost, priced.bound
    times, repeated = bound.ratio(cost) or 1.0, bound.repeated_ratio(cost)
    without = f" ({repeated:.2f} times without set-up)" if repeated else ""
    stays = winner.cluster.fabric.setup_time and not winner.result.busy_time["reconfiguration"]
    circuits = ", the circuits of the plan never change" if stays else ""
    return (
        f"its largest {exchange.kind} ({format_size(exchange.nbytes)}) takes {format_time(cost.time)}, "
        f"{times:.2f} times the lower bound{without} set by {bound.bound_by}{circuits}"
    )


def _other_algorithm(search: PlanSearch) -> str:
    """Return in words the seconds of the winner's largest collective by the next best plan of the same kind that has
    another algorithm (striping aside), with the parts of its cost against those of the winner's; empty where there is
    no such plan or the winner is not data parallelism alone."""
    winner = search.winner
    if winner.prices is None or not winner.exchanges:
        return ""
    own, exchange = winner.algorithm.removesuffix("-striped"), winner.exchanges[0]
    for plan in search.ranking[1:]:
        if plan.strategy == winner.strategy and plan.algorithm.removesuffix("-striped") != own and plan.prices:
            ours, theirs = (each(exchange.kind, exchange.nbytes).cost for each in (winner.prices, plan.prices))
            return (
                f"{plan.algorithm}, the next best, needs {format_time(theirs.time)} for it "
                f"({_parts(theirs)} against {_parts(ours)})"
            )
    return ""


def _parts(cost: Cost) -> str:
    """Return in words the parts of a cost that take any time, transmission, conversion and reconfiguration, each as
    ``12 us of transmission``; "nothing" where there is none."""
    parts = {"transmission": cost.transmission, "conversion": cost.conversion, "reconfiguration": cost.reconfiguration}
    return ", ".join(f"{format_time(spent)} of {name}" for name, spent in parts.items() if spent) or "nothing"


def _exchanged(search: PlanSearch) -> str:
    """Return in words the effect of one method of exchanging gradients, with how many times fewer bytes than float32 it
    sends, its coding engine and what is known of its accuracy: the method of the winner, else of the plan that equals
    the winner but for its method, else of the best plan that has one. Where no plan has one, the reason that the first
    was refused; empty where none was asked for."""
    winner = search.winner
    plans = [plan for plan in search.ranking if plan.gradient_exchange]
    best = next(iter(plans), None)
    tried = winner if winner.gradient_exchange else next((p for p in plans if p.uncompressed is winner), best)
    if tried is None or tried.gradient_exchange is None:
        reason = next((row.why for row in search.refused if row.compression), None)
        return f"no method of exchanging gradients applies: {reason}" if reason else ""
    method, ranks = tried.gradient_exchange, replicas(tried)
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


def _percent(share: float) -> str:
    """Return a share as a percentage with at most two significant digits, from 100 % on whole with commas between
    thousands: 0.38 %, 14 %, 180 %."""
    return f"{two_digits(100 * share)} %"


def _against(winner: Plan, other: Plan) -> str:
    """Return in words how much slower a sample is by ``other``, the best plan of another kind, and on what it spends
    more time; or that it does not fit where the winner does, that it is faster but runs on no framework, or else, where
    it takes no longer, that it is as fast."""
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
    """Return in words the part of the step (computing, exposed communication, exposed reconfiguration or idling) of
    which the other plan exceeds the winner by most for each sample, and by how much; never less than 0."""
    more = {
        word: other.breakdown[key] / other.global_batch - winner.breakdown[key] / winner.global_batch
        for key, word in _MORE.items()
    }
    word = max(more, key=lambda name: more[name])
    return f"{format_time(max(more[word], 0.0))} more {word} a sample"


def _pruned(counts: Counts) -> str:
    """Return in words how many plans of a search were infeasible, cut too finely, too large, decided by their bounds,
    and simulated, and how many placements were made; the first three only where there are any."""
    left = {
        "infeasible": counts.refused,
        "cut too finely": counts.too_fine,
        "too large for the memory": counts.too_large,
    }
    decided = max(counts.rows - sum(left.values()) - counts.simulated, 0)
    words = "".join(f"{count:,} {word}, " for word, count in left.items() if count)
    return (
        f"of {counts.rows:,} plans {words}{decided:,} were decided by their bounds, "
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
    """Resource that bounds them: "arithmetic", "memory" or "launch"."""


def costly_operators(graph: ComputeGraph, plan: Plan) -> tuple[CostlyOperator, ...]:
    """Return at most ten rows, the groups of operators on which a plan spends most seconds computing a micro-batch, the
    most expensive first; operators of one kind whose names differ only in numbers are one group. Each row has the name
    with a star in the place of each number, the kind, the number of operators, their share (between 0 and 1) of the
    seconds of all operators, forward passes that recomputation repeats included, and what bounds them ("arithmetic",
    "memory" or "launch"). Empty for placed plans, whose operators are cut."""
    choice, accelerator, settings = plan.choice, plan.cluster.accelerator, plan.cluster.training
    if not isinstance(choice, Strategy):
        return ()
    columns, row = divided_model(graph, settings, accelerator).columns, Strategies.of(choice)
    sizes: tuple[Any, ...] = row.samples, row.tp
    split: dict[str, Any] = {"sequence_parallel": row.sequence_parallel, "ep": row.ep, "cp": row.cp}
    forward, backward = columns.work(accelerator, *sizes, **split)
    forward_time, backward_time = columns.times(accelerator, settings.precision, *sizes, **split)
    times = 1 + repeated_operators(graph, choice.recomputation)
    seconds = times * forward_time[0] + backward_time[0]
    arithmetic = accelerator.compute_time(times * forward.flops[0] + backward.flops[0], settings.precision)
    memory = accelerator.memory_time(times * forward.nbytes[0] + backward.nbytes[0])
    names, rows = [(re.sub(r"\d+", "*", operator.name), operator.kind) for operator in graph.operators], []
    for (name, kind), members in in_groups(range(len(names)), names.__getitem__).items():
        sums = (float(part[members].sum()) for part in (seconds, arithmetic, memory))
        share = float(seconds[members].sum() / seconds.sum()) if seconds.any() else 0.0
        bound = _bound(*sums, launched=accelerator.kernel_launch > 0)
        rows.append(CostlyOperator(name, kind, len(members), share, bound))
    return tuple(sorted(rows, key=lambda row: (-row.share, row.name))[:MOST_OPERATORS])


def _bound(seconds: float, arithmetic: float, memory: float, *, launched: bool) -> str:
    """Return the resource that bounds an operator: "launch" where arithmetic and memory each take less than half of its
    ``seconds`` and launches take time (``launched``), else the larger of "arithmetic" and "memory".

    Args:
        seconds: seconds that the operator takes.
        arithmetic: seconds of its FLOPs alone.
        memory: seconds of its bytes alone.
        launched: whether launching a kernel takes time on the accelerator.
    """
    if launched and max(arithmetic, memory) < (1 - _LAUNCHED) * seconds:
        return "launch"
    return "arithmetic" if arithmetic >= memory else "memory"


# The JSON document of a search.

SCHEMA = "lightloom.plan/2"


def plan_document(search: PlanSearch, origin: Mapping[str, Any], unrecorded: Sequence[str] = ()) -> dict[str, Any]:
    """Return everything that a search found, as a document for JSON in plain types and SI units.

    The question: ``schema``, ``model`` (its name), ``parameters``, ``global_batches`` (searched), ``cost_model``,
    ``strategies`` (kinds), ``algorithms`` (names, or "all"), ``pins``, ``clusters`` and ``site``. The winner:
    ``global_batch``, ``batch_per_rank``, ``cluster``, ``explanation`` (a sentence), ``intervals`` (level and basis) and
    ``costliest_operators`` (at most ten groups). Plans: ``ranking``, a row of :func:`plan_row` for each plan that was
    simulated, best first, with ``rank``, from 1, and ``on_front``; ``best_of_strategy`` (by kind) and ``front`` as such
    ranks; ``reference``, rows on the electrical reference without both. What was left out: ``refused`` (data-parallel
    plans with the reason), ``refusals`` (lines) and ``counts``. The basis: ``ledgers``, ``priced``, ``measured``,
    ``not_in_trace``, ``uncounted``, ``warnings`` and ``provenance``.

    Args:
        search: what was found.
        origin: content of the ``provenance`` entry.
        unrecorded: lines on what the model's trace does not hold, ``not_in_trace``.
    """
    front = {id(plan) for plan in search.front}
    rows = [
        {"rank": place, **plan_row(plan, search), "on_front": id(plan) in front}
        for place, plan in enumerate(search.ranking, start=1)
    ]
    request, winner = search.request, search.winner
    return {
        "schema": SCHEMA,
        **attributes(search.graph, "model=name parameters"),
        "global_batches": list(search.global_batches),
        "global_batch": winner.global_batch,
        "batch_per_rank": _whole(winner.global_batch / winner.cluster.ranks),
        "cost_model": request.cost_model,
        "strategies": list(request.kinds),
        "algorithms": list(request.algorithms) or "all",
        "pins": {name: value for name, value in request.pins if value is not None},
        "cluster": winner.cluster.to_json(),
        "clusters": [cluster.to_json() for cluster in search.clusters],
        "site": request.site.to_json(),
        "ledgers": [plan.ledger.cluster.to_json() for plan in search.first_of_clusters],
        "explanation": explain(search),
        "intervals": {"level": LEVEL, "basis": intervals_basis(winner)},
        "ranking": rows,
        "costliest_operators": [operator._asdict() for operator in costly_operators(search.graph, winner)],
        "reference": [plan_row(plan, search) for plan in search.reference],
        "best_of_strategy": {
            kind: search.ranking.index(best) + 1 for kind in request.kinds if (best := search.best_of(kind)) is not None
        },
        "front": [row["rank"] for row in rows if row["on_front"]],
        "refused": [asdict(row) for row in search.refused],
        "refusals": list(search.refusals),
        "counts": asdict(search.counts),
        "priced": priced_lines(search),
        "measured": measured_lines(search.graph, search.clusters),
        "not_in_trace": list(unrecorded),
        "uncounted": list(search.graph.uncounted),
        "warnings": [line for cluster in search.clusters for line in cluster.fabric.warnings],
        "provenance": dict(origin),
    }


def plan_row(plan: Plan, search: PlanSearch) -> dict[str, Any]:
    """Return one plan of a search as a dict of plain types in SI units.

    What was chosen: ``strategy`` (kind), ``label``, ``cluster``, ``ranks``, ``global_batch``, ``choice`` (degrees and
    the like by name), ``algorithm`` (of the largest collective), ``algorithms`` (a dict for each collective),
    ``compression`` and ``exchange``. Time: ``iteration_time_s`` of a step, ``sample_time_s``, ``samples_per_second``,
    ``tokens_per_second`` and ``tokens_per_second_per_rank``, the 90 % interval ``low_s`` to ``high_s``, ``told_apart``
    from the winner, ``bound_s``, ``breakdown`` (seconds computing, of exposed communication, of exposed
    reconfiguration, idle), ``rank_seconds`` by stage, ``communication_time_s``, ``model_flops_utilization`` and
    ``hardware_flops_utilization`` (shares of the peak rate). Cost: ``energy_j`` and ``energy`` of a step over all
    ranks, ``energy_per_sample_j`` (known parts alone), ``watts_per_rank``, ``dollars_per_step``,
    ``samples_per_dollar``, ``samples_per_joule``, ``goodput``, ``missing`` and ``ledger``. Memory and the rest:
    ``memory_bytes`` of the fullest rank, ``fits``, ``fits_memory``, ``verified``, ``runnable``, and what only some
    plans have, ``channels``, ``placed`` and ``in_step``.

    Figures that are unknown or do not apply are None (``low_s``, ``high_s`` and ``told_apart`` where the search holds
    no interval of the plan, ``told_apart`` for the winner too), but ``fits`` is True where the memory is unknown
    (``fits_memory`` is None there).
    """
    counted = any(operator.forward_flops for operator in search.graph.operators)
    tokens, interval, ledger = search.sequence_length, search.intervals.get(id(plan)), search.ledger_of(plan)
    return {
        **attributes(plan, "strategy label cluster=cluster.name ranks=cluster.ranks global_batch"),
        "choice": plan.choice._asdict(),
        "algorithm": plan.algorithm,
        "algorithms": [use._asdict() for use in plan.exchanges],
        "compression": compression_json(plan),
        "exchange": exchange_json(plan),
        **attributes(plan, "iteration_time_s=step_time sample_time_s=sample_time samples_per_second"),
        "tokens_per_second": None if tokens is None else tokens * plan.samples_per_second,
        "tokens_per_second_per_rank": None if tokens is None else tokens * plan.samples_per_second / plan.cluster.ranks,
        "low_s": None if interval is None else interval.low,
        "high_s": None if interval is None else interval.high,
        "told_apart": None if interval is None or plan is search.winner else interval.apart,
        "bound_s": plan.bound,
        "breakdown": dict(plan.breakdown),
        "rank_seconds": None if plan.spent is None else {name: spent.tolist() for name, spent in plan.spent.items()},
        "communication_time_s": plan.communication_time,
        "model_flops_utilization": search.utilization(plan) if counted else None,
        "hardware_flops_utilization": search.utilization(plan, hardware=True) if counted else None,
        "energy_j": ledger.energy.total_j,
        "energy": ledger.energy.to_json(),
        "energy_per_sample_j": plan.energy_per_sample,
        **ledger.to_json(),
        "memory_bytes": plan.memory,
        "fits": plan.fits is not False,
        **attributes(plan, "fits_memory=fits verified runnable"),
        "channels": None if plan.division is None else plan.division.by_axis(),
        "placed": _placed(plan),
        "in_step": None if plan.in_step is None else in_step_json(plan.in_step),
    }


def in_step_json(in_step: InStep) -> dict[str, Any]:
    """Return, in plain types and seconds, how circuits are set anew within a step.

    That is the time of one turn of the switch (``reconfiguration_time_s``), how often it turns in the step (the turn
    before its first phase included) and before which phases (``turns``, ``turns_before``), what of that is hidden or
    exposed (``hidden_s``, ``exposed_s``), the step with planes that stand all step and the gain over it
    (``standing_step_s``, ``gain_s``), and the number of planes of every axis by phase (``planes``) and standing
    (``standing_planes``); values of standing planes are None where none can stand.
    """
    best, standing = in_step.best, in_step.standing
    return {
        "reconfiguration_time_s": in_step.reconfiguration_time,
        "turns": len(best.turning),
        "turns_before": list(best.turning),
        **attributes(in_step, "hidden_s=hidden exposed_s=best.exposed"),
        "standing_step_s": None if standing is None else standing.step_time,
        "gain_s": in_step.gain,
        "planes": {phase: dict(division) for phase, division in best.settings.items()},
        "standing_planes": None if standing is None else dict(next(iter(standing.settings.values()))),
    }


def intervals_basis(plan: Plan) -> str:
    """Return a line on the source of a plan's interval, with the names of its uncertain parameters, and that links are
    taken as they are where schedules carry its exchanges; or on why there is no interval."""
    belief = belief_of(plan.job.accelerator, plan.job.fabric)
    if belief is None:
        return f"no interval is known: {plan.job.accelerator.name} has a flat efficiency, whose spread nobody states"
    left_out = "" if not plan.verified or not plan.exchanges else "; links taken as they are"
    return f"{belief.basis} of {', '.join(belief.names)}, linearised, and the scatter of measured steps{left_out}"


def _whole(number: float) -> int | float:
    """Return the number as an integer where it is whole, else as it is."""
    return int(number) if number == int(number) else number


def _placed(plan: Plan) -> dict[str, Any] | None:
    """Return, in plain types, how a placed plan was placed and what serves it: ``sub_operators``, the method of
    placement (``placed_by``) and what was ``repaired``, the number of ``holds`` and of ``circuits`` with their gap to
    the bound (``circuits_gap``; both None where the fabric assigns no circuits), ``waited_for_circuits_s``,
    ``relayed_bytes`` and ``sent_bytes`` of one group (relayed bytes once for each hop), and the fields of
    :func:`regranted_json` for circuits granted anew (``regranted``, else None). None for other plans."""
    step = plan.placed
    if step is None:
        return None
    assignment = step.circuits.assignment
    return {
        **attributes(step.plan, "sub_operators=balanced.size placed_by=placement.method repaired=placement.repaired"),
        "holds": len(step.circuits.bandwidth),
        "circuits": None if assignment is None else len(assignment.circuits),
        "circuits_gap": None if assignment is None else assignment.gap,
        **attributes(step, "waited_for_circuits_s=waited_for_circuits relayed_bytes sent_bytes"),
        "regranted": None if plan.regranted is None else regranted_json(plan.regranted),
    }


def regranted_json(step: RegrantedStep) -> dict[str, Any]:
    """Return, in plain types, the most times that circuits are granted anew within a step (``grants``), the seconds for
    which they are held and set (``hold_s``, ``reconfiguration_time_s``), the seconds of the step over standing circuits
    (``standing_step_s``), and the seconds gained (``gain_s``)."""
    timing = "hold_s=timing.hold reconfiguration_time_s=timing.reconfiguration"
    return attributes(step, f"{timing} grants standing_step_s=standing_time gain_s=gain")


def exchange_settings(exchange: PricedExchange) -> dict[str, Any]:
    """Return the settings of an exchange method in plain types, from which the hash of a configuration is made:
    ``method``, ``source`` (of its bytes), ``coded`` (pairs of codec and a list of [summed gradients, bits of a value])
    and ``engine``, the fields of its coding engine, None where it names none."""
    engine = None if exchange.engine is None else exchange.engine.model_dump(mode="json")
    coded = [[sums.codec, [list(size) for size in sums.bits_by_terms]] for sums in exchange.gradient.coded]
    return {"method": exchange.name, "source": exchange.sizes, "coded": coded, "engine": engine}


_ENGINE = (
    "engine=name placement encode_bytes_per_second=encode decode_bytes_per_second=decode "
    "encode_message_s=encode_message decode_message_s=decode_message engine_source=source"
)
_EFFECT = (
    "gradient_bytes=nbytes compressed_bytes=compressed_nbytes encode_s=encode decode_s=decode "
    "sending_saved_s=saved step_saved_s=gained outcome"
)


def compression_json(plan: Plan) -> dict[str, Any] | None:
    """Return in plain types how the replicas of a plan code gradients (``codec``, ``ratio``: bytes of float32 for each
    byte sent, ``source`` of the bytes, ``engine``, its ``placement``, its rates as ``encode_bytes_per_second`` and
    ``decode_bytes_per_second`` of float32, ``encode_message_s`` and ``decode_message_s``, and ``engine_source``); and,
    where :func:`verdict` compares it with the same plan without it, what it changes: ``gradient_bytes``,
    ``compressed_bytes``, seconds coding and saved (``encode_s``, ``decode_s``, ``sending_saved_s``, ``step_saved_s``),
    ``outcome`` and ``why`` in words. None for a plan that exchanges gradients as they are."""
    exchange, effect = plan.gradient_exchange, verdict(plan)
    if exchange is None:
        return None
    coding = {"codec": exchange.name, "ratio": exchange.ratio(replicas(plan)), "source": exchange.sizes}
    coding |= attributes(exchange.coder, _ENGINE)
    return coding if effect is None else coding | attributes(effect, _EFFECT) | {"why": str(effect)}


def exchange_json(plan: Plan) -> dict[str, Any] | None:
    """Return in plain types the method by which replicas of a plan exchange gradients: ``method``, ``label``, ``every``
    how many steps it exchanges, whether it is ``synchronous``, has ``feedback`` and is ``scale_free``,
    ``state_bytes_per_parameter``, number of ``replicas``, ``phases`` for the whole model's gradient, and what is known
    of its ``accuracy``, in words and as rows of ``evidence``; None for a plan that exchanges gradients as they are."""
    exchange = plan.gradient_exchange
    if exchange is None:
        return None
    method, ranks = exchange.method, replicas(plan)
    return {
        **attributes(exchange, "method=name label every"),
        **attributes(method, "synchronous feedback scale_free"),
        "state_bytes_per_parameter": exchange.state_bytes,
        "replicas": ranks,
        "phases": [phase_document(phase) for phase in method.phases(exchange.gradient, ranks)],
        "accuracy": accuracy_note(exchange.name),
        "evidence": [row.to_json() for row in evidence_of(exchange.name)],
    }


def replicas(plan: Plan) -> int:
    """Return the number of ranks that exchange gradients with each other, dp · cp of a strategy; of a placed plan the
    number of its groups."""
    return plan.choice.replicas if isinstance(plan.choice, Strategy) else plan.choice.l
