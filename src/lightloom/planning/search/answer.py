"""The answer to the question which plan wins, on one screen: a row for each division of the job among the ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log
from typing import NamedTuple

from lightloom.core.answer import Answer
from lightloom.core.units import format_bandwidth, format_rate, format_size, format_time, two_digits
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.planning.pricing.library_prices import LIBRARY
from lightloom.planning.search.plans import (
    Interval,
    Plan,
    PlanSearch,
    division,
    division_words,
    influences,
    plan_intervals,
    plan_words,
)
from lightloom.planning.search.published import default_batch
from lightloom.planning.search.what_if import MATTERS, WhatIf

MOST_ROWS = 6
"""Divisions that an answer shows, so that it fits one screen."""
_NEAR = 0.1
"""Share by which a step may differ from a published one before its tokens are told beside it."""
SURE = 0.9
"""Share of draws from which on a row's order against the first counts as known."""
_TOO_CLOSE = "="


class DivisionRow(NamedTuple):
    """The best plan of one division of the job among the ranks, as a row of the answer."""

    place: int
    """Place in the ranking, from 1."""
    plan: Plan
    interval: Interval | None
    """None where no spread is known."""

    @property
    def too_close(self) -> bool:
        """True where the probability that the order against the first row holds is below 0.9; False for the first row
        and where no spread is known."""
        return self.place > 1 and self.interval is not None and self.interval.order_holds < SURE


def division_rows(search: PlanSearch, most: int | None = MOST_ROWS) -> list[DivisionRow]:
    """Return rows of the answer in the ranking's order, each with ``place`` (in the ranking of all plans, from 1),
    ``plan`` and ``interval`` (the 90 % interval of its step time, with the probability that its order against the
    winner holds; None where no spread is known). A row stands for the best plan of a cluster, a division of the job and
    a method of exchanging gradients. Two plans are one division if they have the same degrees of data, tensor,
    pipeline, context and expert parallelism and both or neither shard the parameters (ZeRO-3 or hybrid); all placed
    plans are one.

    Plans that do not fit the memory are left out, except the winner. At most ``most`` rows, 6 if not given, are
    returned; the best row of a placed plan and the best with gradients as they are, where there are such, take the last
    ones even if they are slower. With ``most`` None, a row for every plan of the ranking, those that do not fit
    included.
    """
    rows: dict[object, tuple[int, Plan]] = {}
    for place, plan in enumerate(search.ranking, start=1):
        if most is None or plan.fits is not False or plan is search.winner:
            method = plan.gradient_exchange and plan.gradient_exchange.name
            key = place if most is None else (id(plan.cluster), division(plan.choice), method)
            rows.setdefault(key, (place, plan))
    shown = list(rows.values())
    if most is not None and len(shown) > most:
        # The best placed plan, and the best with gradients as they are, have a row however slow they are.
        wanted = [next((row for row in shown if not row[1].runnable), None)]
        wanted += [next((row for row in shown if row[1].gradient_exchange is None), None)]
        places = {row[0] for row in wanted if row is not None}
        places.update([place for place, _ in shown if place not in places][: most - len(places)])
        shown = [row for row in shown if row[0] in places]
    intervals = plan_intervals(search.winner, [plan for _, plan in shown])
    return [DivisionRow(place, plan, intervals.get(id(plan))) for place, plan in shown]


def waits(plan: Plan) -> float:
    """Return the share of a step, between 0 and 1, in which computing waits for the network or for circuits."""
    spent = plan.breakdown
    waited = spent["exposed_communication_s"] + spent["exposed_reconfiguration_s"]
    return waited / plan.step_time if plan.step_time else 0.0


def plan_answer(
    search: PlanSearch, what_ifs: Sequence[WhatIf], limit: float, assumptions: int, *, everything: bool = False
) -> Answer:
    """Return the answer of a search as it fits a screen, in words: the question in a line (``question``), three lines
    on the winner (``best``), a row of cells for each shown plan, columns such as plan, step, MFU, memory and waits
    (``rows``), their ``legend``, the number of plans of the ranking not shown (``hidden``), a line for each changed
    question (``what_if``), what limits the winner (``limit``), on what it ``rests``, and the options that tell
    ``more``.

    Args:
        search: what was found.
        what_ifs: answers to changed questions.
        limit: seconds of a sample that no network makes shorter, as a share of the winner's.
        assumptions: number of assumptions that the winner rests on.
        everything: True for a row of every plan of the ranking. Otherwise at most six, the best plan of a cluster, a
            division of the job (degrees, and whether parameters are sharded) and an exchange method each, without plans
            that do not fit the memory other than the winner.
    """
    rows = division_rows(search, None if everything else MOST_ROWS)
    legend = "MFU: share of the peak rate; waits: share of the step that waits for the network"
    if any(row.plan.choice.micro_batches > 1 for row in rows):
        legend = f"batches: micro-batches of a step; {legend}"
    if any(row.too_close for row in rows):
        legend = f"{_TOO_CLOSE} too close to the first to tell; {legend}"
    return Answer(
        question=_question(search),
        best=list(_best(search, rows[0])),
        rows=[*_cells(search, rows)],
        legend=legend,
        hidden=len(search.ranking) - len(rows),
        what_if=[*map(str, what_ifs), *(["(of the time of a sample)"] if what_ifs else [])],
        limit=_limit(search, limit),
        rests=_rests(search, assumptions),
        more=("--explain", "--assumptions", "--worth", "--vs CLUSTER", "--report page.html"),
    )


def _rests(search: PlanSearch, assumptions: int) -> str:
    """Return in words how many assumptions and fitted numbers there are, and which parameter moves the winner's step
    most and by how many per cent (±), or that no spread is known."""
    text = f"{assumptions} assumptions and fitted numbers"
    for name, share in influences(search.winner).items():
        return f"{text}; most of all on {name.replace('_', ' ')}, ±{_percent(share)} of the step"
    return f"{text}; no spread of a price is known"


def _question(search: PlanSearch) -> str:
    """Return in one line the model, its number format, the winner's number of accelerators, their kind and cluster (or
    only how many clusters were searched, where there are several), and the samples of a step."""
    cluster, names = search.winner.cluster, {cluster.name for cluster in search.clusters}
    place = f"{cluster.ranks:,} {cluster.accelerator.chip.upper()} ({cluster.name})"
    where = place if len(names) == 1 else f"{len(names)} clusters"
    return f"{search.graph.name} in {cluster.training.precision} on {where}, {_batch(search)}"


def _batch(search: PlanSearch) -> str:
    """Return the samples of the winner's step in words, such as "512 x 4,096 tokens a step (2.1M, published: 4M
    tokens)".

    Where the largest batches were searched, ", the largest that fits" follows. Else, where the request states no batch
    and one is published or assumed for the model, that amount and its unit follow in parentheses, after "published:" or
    "assumed:"; before these words stands the winner's own number of tokens, where the amount is in tokens and the
    winner's differs from it by 10 % or more of the amount. Both numbers are in millions with two significant digits,
    below a million whole.
    """
    winner, length = search.winner, search.sequence_length
    words = f"{winner.global_batch:,}{' samples' if length is None else f' x {length:,} tokens'} a step"
    if search.request.largest_batches:
        return f"{words}, the largest that fits"
    default = default_batch(search.graph, max(cluster.ranks for cluster in search.clusters))
    if search.request.global_batches is not None or default is None:
        return words
    basis = "assumed" if default.published.assumed else "published"
    amount, counted, unit = default.published.amount, winner.global_batch * (length or 1), default.published.unit
    stated, own = (f"{two_digits(each / 1e6)}M" if each >= 1_000_000 else f"{each:,}" for each in (amount, counted))
    told = f"{own}, " if unit == "tokens" and abs(counted / amount - 1) >= _NEAR else ""
    return f"{words} ({told}{basis}: {stated} {unit})"


def _best(search: PlanSearch, first: DivisionRow) -> Iterator[str]:
    """Yield three lines on the winner: its plan in words, with its exchange method and whether it does not fit; its
    step time with the interval (±), its share of the peak rate (MFU), its memory of how much, and its throughput
    (tokens/s an accelerator for a model of sequences, else samples/s in all); and the share of the step that waits for
    the network, with the first algorithm that carries its exchanges (or the collective library) or, where the fastest
    of all plans that fit places single operators, which no framework runs, and the winner does not, in place of that by
    how many per cent it is faster. ``first`` is the winner's row."""
    plan, memory = first.plan, first.plan.cluster.accelerator.memory
    method = "" if plan.gradient_exchange is None else f", gradients as {plan.gradient_exchange.label}"
    yield plan_words(plan.choice) + method + (", which does not fit" if plan.fits is False else "")
    spread = "" if first.interval is None else f" ±{100 * first.interval.half_width:.0f} %"
    mfu = f", {utilized} MFU" if (utilized := _utilized(search, plan)) else ""
    held = _size(plan.memory) + ("" if memory is None else f" of {_size(memory)}")
    rate = f"{format_rate(plan.samples_per_second)} samples/s"
    if search.sequence_length is not None:
        tokens = plan.samples_per_second * search.sequence_length / plan.cluster.ranks
        rate = f"{format_rate(tokens)} tokens/s an accelerator"
    yield f"{three_digits(plan.step_time)}{spread}{mfu}, {held}; {rate}"
    carrier = "the collective library" if LIBRARY.name in plan.algorithms else " and ".join(plan.algorithms[:1])
    carried = f"; exchanges by {carrier}" if carrier else ""
    fitting = (each for each in search.ranking if each.fits is not False)
    faster = min(fitting, key=lambda each: each.sample_time, default=plan)
    if not faster.runnable and plan.runnable and faster.sample_time < plan.sample_time:
        share = 1 - faster.sample_time / plan.sample_time
        carried = f"; placing single operators takes {_percent(share)} less, which no framework runs"
    yield f"{_percent(waits(plan))} of the step waits for the network{carried}"


def _cells(search: PlanSearch, rows: Sequence[DivisionRow]) -> Iterator[dict[str, str]]:
    """Yield the cells of each row by column, as text: the mark "=" of rows too close to the first, else a space, under
    "", ``plan`` (with its exchange method), ``cluster`` (name and ranks), ``samples``, ``batches`` (micro-batches),
    ``step`` (seconds in three digits with their unit), ``MFU`` ("-" where unknown), ``memory`` and ``waits``; columns
    of cluster, samples and micro-batches are left out where all rows have the same cluster and ranks, the same batch,
    or one micro-batch."""
    several = len({row.plan.site for row in rows}) > 1
    batches = len({row.plan.global_batch for row in rows}) > 1
    cut = any(row.plan.choice.micro_batches > 1 for row in rows)
    for row in rows:
        plan, mark = row.plan, _TOO_CLOSE if row.too_close else " "
        words = division_words(plan.choice)
        if plan.gradient_exchange is not None:
            words += f", {plan.gradient_exchange.label}"
        cells = {"": mark, "plan": words}
        if several:
            cells["cluster"] = f"{plan.cluster.name}, {plan.cluster.ranks:,}"
        if batches:
            cells["samples"] = f"{plan.global_batch:,}"
        if cut:
            cells["batches"] = f"{plan.choice.micro_batches}"
        cells["step"] = three_digits(plan.step_time)
        yield cells | {
            "MFU": _utilized(search, plan) or "-",
            "memory": _size(plan.memory),
            "waits": _percent(waits(plan)),
        }


def _utilized(search: PlanSearch, plan: Plan) -> str:
    """Return the share of the peak rate that the model's FLOPs use, as text in per cent; empty where the graph states
    no FLOPs."""
    if not any(operator.forward_flops for operator in search.graph.operators):
        return ""
    return _percent(search.utilization(plan))


def three_digits(seconds: float) -> str:
    """Return a duration, given in seconds, as text with at most three significant digits (zeros at the end left out)
    and the largest unit, s, ms, µs or ns, that keeps it at or above one: ``1.5 ms``."""
    return format_time(float(f"{seconds:.3g}"))


def _size(nbytes: float) -> str:
    """Return a number of bytes as text with its unit (powers of 1,024), in whole units from ten of them on, else with
    one decimal."""
    return format_size(nbytes if nbytes < 1 else _rounded(nbytes))


def _rounded(nbytes: float) -> float:
    """Return a number of bytes, at least 1, rounded in units of the largest power of 1,024 that is not above it: to a
    whole unit from ten units on, else to a tenth of one."""
    unit = 1024.0 ** int(log(nbytes, 1024))
    return round(nbytes / unit, 0 if nbytes >= 10 * unit else 1) * unit


def _percent(share: float) -> str:
    """Return a share as text in per cent: whole from 9.5 % on, below with one significant digit, "0 %" below 0.05 %:
    0.4 %, 4 %, 42 %, 180 %."""
    percent = 100 * share
    return f"{percent:.0f} %" if percent >= 9.5 else f"{percent:.1g} %" if percent >= 0.05 else "0 %"


def _limit(search: PlanSearch, limit: float) -> str:
    """Return in words whether computing (where the gain would be below 2 %) or the network bounds the winner, and what
    exchanges that take no time would gain at most, in per cent of a sample, as text that begins with "computing:" or
    "the network:"; one rank is always bound by computing. It adds that exchanges also slow the computing beside them,
    where the gain exceeds the waiting by more than 2 % and they take a share of the arithmetic. ``limit`` is the time
    of a sample without exchanges as a share of the winner's."""
    if search.winner.cluster.ranks == 1:
        return "computing: one accelerator exchanges nothing"
    gain = 1 - limit
    if gain < MATTERS:
        return f"computing: faster networks gain at most {_percent(gain)} at this batch"
    slowed = gain > waits(search.winner) + MATTERS and search.winner.cluster.fabric.arithmetic_share > 0
    beside = "; they also slow the computing beside them" if slowed else ""
    return f"the network: exchanges that take no time would gain at most {_percent(gain)}{beside}"


_SAME = 5e-4
"""Share of a step by which two plans differ at least to be told apart in words."""
_SPENT = {
    "compute_s": "computing",
    "exposed_communication_s": "waiting for the network",
    "exposed_reconfiguration_s": "waiting for circuits",
    "idle_s": "idle",
}


def versus(search: PlanSearch, other: PlanSearch) -> Iterator[str]:
    """Yield lines of text on how the same question is answered on another cluster: how much slower or faster a sample
    is ("as fast" within 0.05 %), by which plan, how much of its step waits for the network, on which parts of the step
    (computing, waiting for the network or circuits, idle) the difference of a sample is spent, those of at most 0.05 %
    of the first cluster's sample left out, and in what the clusters differ. Where only one of the clusters has a
    collective library, two lines say that they are not comparable as they are. Differences are those of ``other`` less
    those of ``search``."""
    ours, theirs = search.winner, other.winner
    ratio = theirs.sample_time / ours.sample_time
    change = f"{_percent(abs(1 - ratio))} {'slower' if ratio > 1 else 'faster'} a sample"
    change = change if abs(1 - ratio) >= _SAME else "as fast"
    yield f"{theirs.cluster.name} is {change}: {format_time(theirs.step_time)} for {theirs.global_batch:,} samples"
    ideal = [plan.cluster.name for plan in (ours, theirs) if plan.cluster.fabric.library is None]
    if len(ideal) == 1:
        yield f"  not comparable as they are: software costs nothing on {ideal[0]}, where no library was measured;"
        yield "  --set fabric.transport=ideal on the other one compares the networks alone"
    yield f"  {plan_words(theirs.choice)}; {_percent(waits(theirs))} of the step waits for the network"
    parts = {
        words: theirs.breakdown[name] / theirs.global_batch - ours.breakdown[name] / ours.global_batch
        for name, words in _SPENT.items()
    }
    spent = sorted(parts.items(), key=lambda part: -abs(part[1]))
    told = [
        f"{'+' if time > 0 else '-'}{three_digits(abs(time))} {words}"
        for words, time in spent
        if abs(time) > _SAME * ours.sample_time
    ]
    yield f"  a sample: {', '.join(told) or 'no difference'}"
    for name, one, two in _differences(ours, theirs):
        yield f"  {name}: {one} here, {two} there"


def _differences(ours: Plan, theirs: Plan) -> Iterator[tuple[str, str, str]]:
    """Yield (name, value of ours, value of theirs), as text, of each property in which the clusters of two plans
    differ: ranks and kind of accelerator, kind of network and whether its software is ideal or a library, the narrowest
    cut's bandwidth for each rank, and the accelerator's memory (0 where none is stated)."""
    here, there = (
        {
            "ranks": f"{cluster.ranks:,} {cluster.accelerator.chip.upper()}",
            "network": f"{cluster.fabric.kind_name}, {'ideal' if cluster.fabric.library is None else 'library'}",
            "narrowest cut": f"{format_bandwidth(narrowest(cluster.fabric))} a rank",
            "memory": format_size(cluster.accelerator.memory or 0),
        }
        for cluster in (ours.cluster, theirs.cluster)
    )
    yield from ((name, one, there[name]) for name, one in here.items() if one != there[name])


def narrowest(fabric: Fabric) -> float:
    """Return the least bytes per second for each rank behind any cut of a fabric; 0 where it has no cuts."""
    return min((cut.capacity / cut.ranks for cut in fabric.cuts()), default=0.0)
