"""What a job sends, by axis: how long a step of it is on the network, and which links it loads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from lightloom.collectives.evaluate import Evaluation
from lightloom.collectives.registry import build, find
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.spec import Collective, Kind
from lightloom.core.arrays import Floats
from lightloom.core.effort import Effort
from lightloom.fabrics.base import Fabric
from lightloom.fabrics.footprint import links_of
from lightloom.parallelism.strategy_space import Strategy
from lightloom.planner.pricing.group_prices import Pricing
from lightloom.planner.pricing.job import Job
from lightloom.planner.pricing.price_line import LowerPrice
from lightloom.planner.pricing.strategy_step import ExchangeUse, StrategyStep
from lightloom.simulation.lower import Price, Priced

PASSES, DATA, SENDS = "passes", "data", "sends"
"""Collectives within passes (tensor and expert groups), between replicas, and sends from stage to stage."""
_BLOCK: Effort = 1 << 18


class Exchange(NamedTuple):
    """Exchanges of one sort in a job's step."""

    sort: str
    busy: float
    """Seconds of a step in which they are under way, alone."""
    usage: Floats
    """Share of each link of the whole fabric that the largest of them takes on average: [link]."""
    flow_rate: Floats
    """Bytes per second of each of its flows on a link meanwhile: [link]; 0 where there are none."""


def link_seconds(schedule: Schedule, fabric: Fabric) -> Floats:
    """Seconds in which each link carries the bytes of a schedule on a packet fabric: [link]."""
    piece = schedule.first_piece().unfolded(fabric.fibre_channels)
    pieces = 1 if schedule.pipeline is None else schedule.pipeline.pieces
    chunks = np.zeros(fabric.links)
    for begin in range(0, len(piece), _BLOCK):
        _, link = links_of(fabric.footprint(*piece.ends(slice(begin, begin + _BLOCK))))
        chunks += np.bincount(link, minlength=fabric.links)
    bandwidth = fabric.link_bandwidth()
    lit = np.where(bandwidth > 0, bandwidth, np.inf)
    seconds: Floats = chunks * pieces * schedule.chunk_nbytes / lit
    return seconds


def link_flows(schedule: Schedule, fabric: Fabric) -> Floats:
    """Flows that cross each link at a time while a schedule's bytes do, pairs of ranks each, on average: [link]."""
    piece = schedule.first_piece().unfolded(fabric.fibre_channels)
    chunks, weighted = np.zeros((2, fabric.links))
    for begin in range(0, len(piece), _BLOCK):
        rows = slice(begin, begin + _BLOCK)
        source, destination, route = piece.ends(rows)
        transfer, link = links_of(fabric.footprint(source, destination, route))
        at = piece.step[rows][transfer].astype(np.int64) * fabric.links + link
        pair = source[transfer].astype(np.int64) * fabric.ranks + destination[transfer]
        crossed, count = np.unique(np.unique(np.stack((at, pair)), axis=1)[0], return_counts=True)
        of_rows = count[np.searchsorted(crossed, at)]
        chunks += np.bincount(link, minlength=fabric.links)
        weighted += np.bincount(link, of_rows, minlength=fabric.links)
    flows: Floats = weighted / np.maximum(chunks, 1)
    return flows


def _flow_rate(usage: Floats, flows: Floats, fabric: Fabric) -> Floats:
    """Bytes per second of a flow on each link, of which it takes a share of ``usage`` with others of its exchange."""
    rate: Floats = usage * fabric.link_bandwidth() / np.maximum(flows, 1)
    return rate


def collective_exchange(evaluation: Evaluation, fabric: Fabric, seconds: float) -> Exchange:
    """A collective that repeats without a pause."""
    if not seconds:
        return Exchange(DATA, seconds, np.zeros(fabric.links), np.zeros(fabric.links))
    usage = link_seconds(evaluation.schedule, fabric) / seconds
    return Exchange(DATA, seconds, usage, _flow_rate(usage, link_flows(evaluation.schedule, fabric), fabric))


def plan_exchanges(job: Job, strategy: Strategy, step: StrategyStep, part: Fabric) -> list[Exchange]:
    """The exchanges of a strategy's step on a packet fabric."""
    busy = _busy(strategy, step)
    exchanges = []
    for sort in (PASSES, DATA):
        uses = [use for use in step.exchanges if sort_of(strategy, use.kind, use.ranks, use.stride) == sort]
        if uses and busy[sort] > 0:
            exchanges.append(Exchange(sort, busy[sort], *_usage(job, strategy, uses[0], part)))
    if busy[SENDS] > 0:
        exchanges.append(Exchange(SENDS, busy[SENDS], *_send_usage(strategy, part)))
    return exchanges


def sort_of(strategy: Strategy, kind: Kind, ranks: int, stride: int) -> str:
    """Whether a collective is one within passes or between replicas."""
    tensor = strategy.tp > 1 and (ranks, stride) == (strategy.tp, 1)
    return PASSES if tensor or kind == "all-to-all" else DATA


def _busy(strategy: Strategy, step: StrategyStep) -> Mapping[str, float]:
    """Seconds of a step by sort, on average over the stages."""
    if step.stages is None:
        return {PASSES: 0.0, DATA: step.communication_time, SENDS: 0.0}
    times, micro = step.stages.times, strategy.micro_batches
    stages = len(times.update)
    passes = micro * float((times.forward_exchange + times.backward_exchange).sum())
    sends = 2 * micro * float(times.send.sum()) + micro * float((times.forward_ring + times.backward_ring).sum())
    gathers = micro * float((times.forward_gather + times.backward_gather).sum())
    once = (times.early_exchange, times.late_exchange, times.gather, times.exchange, times.tied)
    data = gathers + sum(float(part.sum()) for part in once)
    return {PASSES: passes / stages, DATA: data / stages, SENDS: sends / stages}


def _usage(job: Job, strategy: Strategy, use: ExchangeUse, part: Fabric) -> tuple[Floats, Floats]:
    """Share of each link that a collective takes on average, and the rate of its flows there."""
    group = part if use.ranks == part.ranks else part.group(use.ranks, use.stride)
    assert group is not None
    schedule = build(find(use.algorithm), Collective(use.kind, use.ranks, use.nbytes), group)
    prices = job.pricing.price(strategy.algorithm, use.ranks, strategy.exchange, use.stride)
    seconds = prices(use.kind, use.nbytes).cost.time
    usage: Floats = np.minimum(link_seconds(schedule, group) / seconds, 1.0)
    return usage, _flow_rate(usage, link_flows(schedule, group), group)


def _send_usage(strategy: Strategy, part: Fabric) -> tuple[Floats, Floats]:
    """Links while every rank sends to the next stage, and the rate of its flows there."""
    stride = strategy.replicas * strategy.tp
    source = np.arange(part.ranks)
    destination = (source + stride) % part.ranks
    _, link = links_of(part.footprint(source, destination, part.route(source, destination)))
    flows = np.bincount(link, minlength=part.links)
    load = flows / part.link_bandwidth()
    usage: Floats = load / load.max()
    return usage, _flow_rate(usage, flows.astype(np.float64), part)


class SlowedPrices(Pricing):
    """Prices of exchanges that other jobs slow down."""

    def __init__(self, pricing: Pricing, strategy: Strategy, slowdown: Mapping[str, float]) -> None:
        """``slowdown`` says how many times longer exchanges of a sort take: :data:`PASSES` or :data:`DATA`."""
        self._pricing, self._strategy, self._slowdown = pricing, strategy, slowdown

    def refusal(self, kind: Kind, algorithm: str, ranks: int, exchange: int, stride: int = 1) -> str | None:
        return self._pricing.refusal(kind, algorithm, ranks, exchange, stride)

    def price(self, algorithm: str, ranks: int, exchange: int, stride: int = 1) -> Price:
        whole = self._pricing.price(algorithm, ranks, exchange, stride)

        def priced(kind: Kind, nbytes: float) -> Priced:
            longer = self._slowdown.get(sort_of(self._strategy, kind, ranks, stride), 1.0)
            price = whole(kind, nbytes)
            return replace(price, cost=replace(price.cost, time=price.cost.time * longer))

        return priced

    def algorithm(self, kind: Kind, nbytes: float, algorithm: str, ranks: int, exchange: int, stride: int = 1) -> str:
        return self._pricing.algorithm(kind, nbytes, algorithm, ranks, exchange, stride)

    def lines(
        self, kind: Kind, algorithm: str, ranks: int, exchange: int, stride: int = 1, *, hidden_setup: bool
    ) -> Sequence[LowerPrice]:
        return self._pricing.lines(kind, algorithm, ranks, exchange, stride, hidden_setup=hidden_setup)
