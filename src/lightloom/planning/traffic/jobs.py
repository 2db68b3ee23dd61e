"""Jobs as people write them: ``gpt2-355m@0-31:tp=4,global-batch=64``, ``all-reduce@32-63:nbytes=64MiB``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from lightloom.collectives.collective import Collective, Kind
from lightloom.collectives.joint import Part
from lightloom.collectives.registry import Evaluation, build, find
from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.arrays import Effort, Floats, Ints
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.machines.fabrics.derived import links_of
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.switches import PartFabric
from lightloom.planning.parallelism.strategy_space import Strategy
from lightloom.planning.pricing.group_prices import Pricing, divisions
from lightloom.planning.pricing.job import Job
from lightloom.planning.pricing.strategy_step import ExchangeUse, StrategyStep
from lightloom.planning.simulation.engine import Price, Priced

FORM = "WHAT@RANKS[:option=value,...], e.g. gpt2-355m@0-31:tp=4,global-batch=64 or all-reduce@32-63:nbytes=64MiB"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficJob:
    """One job: what it does and the ranks that it has to itself."""

    what: str
    """A model, or the kind of a collective that repeats without a pause."""
    ranks: tuple[int, ...]
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of the plan or of the collective, by name."""
    name: str = ""
    """Name of the job in tables; empty for that of the model or the collective."""

    @property
    def label(self) -> str:
        """Name of the job in tables and messages: its own, or that of what it runs."""
        return self.name or self.what

    @property
    def ranks_text(self) -> str:
        """The ranks in a few characters: ``0-31``, ``0-62/2`` for every second one, or, at uneven distances, the first
        six, as ``0, 1, 5``, and ``...`` for more."""
        first, last, count = self.ranks[0], self.ranks[-1], len(self.ranks)
        step = (last - first) // (count - 1) if count > 1 else 1
        if step > 0 and self.ranks == tuple(range(first, last + 1, step)):
            return f"{first}-{last}" + (f"/{step}" if step > 1 else "")
        return ", ".join(map(str, self.ranks[:6])) + (", ..." if count > 6 else "")

    @classmethod
    def parse(cls, text: str) -> TrafficJob:
        """Return the job that a text of the form ``WHAT@RANKS[:option=value,...]`` describes, as in
        ``gpt2-355m@0-31:tp=4``.

        RANKS are ``first-last`` or ``first-last/step``, in ascending order; lists of ranks are refused. Underscores in
        names of options are read as hyphens, and values are kept as text; the option ``name`` becomes the job's name.
        Neither the model nor the options are looked up.

        Raises:
            ConfigError: the text is not of this form, or the last rank is not above the first.
        """
        head, _, tail = text.partition(":")
        what, at, ranks = head.partition("@")
        if not what or not at:
            raise ConfigError(f"job {text!r}: expected {FORM}")
        options: dict[str, str] = {}
        for part in filter(None, tail.split(",")):
            name, equals, value = part.partition("=")
            if not equals or not name.strip() or not value.strip():
                raise ConfigError(f"job {text!r}: option {part!r}: expected {FORM}")
            options[name.strip().replace("_", "-")] = value.strip()
        name = options.pop("name", "")
        return cls(what=what.strip(), ranks=_ranks(ranks, text), options=options, name=name)


def _ranks(text: str, job: str) -> tuple[int, ...]:
    """Return the ranks of the text ``first-last`` or ``first-last/step``, last included if it is reached; ``job`` is
    the whole text of the job, for messages.

    Raises:
        ConfigError: not of the form, fewer than two ranks in ascending order, or a step below 1.
    """
    span, slash, step = text.partition("/")
    first, dash, last = span.partition("-")
    try:
        begin, end, by = int(first), int(last if dash else first), int(step) if slash else 1
    except ValueError:
        raise ConfigError(f"job {job!r}: ranks {text!r}: expected first-last or first-last/step, e.g. 0-31") from None
    if by < 1 or end < begin + by:
        raise ConfigError(f"job {job!r}: ranks {text!r}: expected at least two ranks in ascending order, e.g. 0-31")
    return tuple(range(begin, end + 1, by))


def check_jobs(jobs: Sequence[TrafficJob], ranks: int) -> None:
    """Raise ConfigError where no cluster of ``ranks`` ranks can run the jobs at once: fewer than two jobs, a rank that
    does not exist, or one that two jobs have."""
    if len(jobs) < 2:
        raise ConfigError(f"{len(jobs)} jobs: expected at least two, each as {FORM}")
    owner: dict[int, TrafficJob] = {}
    for job in jobs:
        outside = next((rank for rank in job.ranks if not 0 <= rank < ranks), None)
        if outside is not None:
            raise ConfigError(f"job {job.label}: rank {outside}: the cluster has ranks 0 to {ranks - 1}")
        for rank in job.ranks:
            if rank in owner:
                raise ConfigError(
                    f"rank {rank} is in jobs {owner[rank].label}@{owner[rank].ranks_text} and "
                    f"{job.label}@{job.ranks_text}: expected each rank in one job at most"
                )
            owner[rank] = job


# Where jobs lie: the part of a cluster's fabric that each one has, and which of them divide wavelengths.
#
# packets       the ranks on the links of the whole fabric, which other jobs load too
# planes        a switch of as many ranks: circuits of jobs end at different ports, and share nothing
# wavelengths   ranks at even distances; jobs whose arcs overlap divide the wavelengths, so that none is used twice


def job_fabric(job: TrafficJob, fabric: Fabric, channels: int | None = None) -> Fabric:
    """Return the fabric of a job's ranks, as a part of ``fabric``.

    On packet links it is the ranks on the links of the whole fabric, and ``channels`` is ignored; on circuits, links
    with ``channels`` channels (wavelengths or planes) of the whole, None for all of them.

    Raises:
        ConfigError: ranks of a ring that do not lie at even distances.
        UnsupportedError: a packet fabric that reduces in the network, or a fabric whose channels give the ranks no
            circuits.
    """
    ranks = len(job.ranks)
    if not fabric.exclusive:
        if fabric.in_network_reduction:
            raise UnsupportedError(f"jobs on a {fabric.kind_name}: expected links that transfers share, or circuits")
        return PartFabric.on(fabric, job.ranks)
    held = fabric.shared_channels if channels is None else channels
    stride = ring_stride(job) if fabric.wavelength_routed else 1
    part = fabric.share(ranks, stride, held * stride)
    if part is None:
        raise UnsupportedError(
            f"job {job.label}: {ranks} ranks of a {fabric.kind_name} with {held} channels have no circuits among them"
        )
    return part


def ring_stride(job: TrafficJob) -> int:
    """Return the distance between neighbouring ranks of a job on a ring, which must be the same for all.

    Raises:
        ConfigError: distances differ.
    """
    strides = set(np.diff(job.ranks).tolist())
    if len(strides) != 1:
        raise ConfigError(f"job {job.label}: ranks {job.ranks_text} of a ring: expected even distances, e.g. 0-62/2")
    return int(strides.pop())


def held_links(job: TrafficJob, fabric: Fabric) -> Ints:
    """Return the numbers of the links, ascending, that circuits of a job may use: on a ring those between its first and
    its last rank, both ways, and all around where its ranks are evenly spread over the whole ring; on switches those of
    its ranks."""
    members = np.array(job.ranks)
    if not fabric.wavelength_routed:
        _, link = links_of(fabric.footprint(members, np.roll(members, 1), np.zeros(len(members), np.int64)))
        return np.unique(link)
    onward = np.roll(members, -1) if len(members) * ring_stride(job) == fabric.ranks else members[1:]
    before = members[: len(onward)]
    ways = (0, before, onward), (1, onward, before)
    links = [links_of(fabric.footprint(a, b, np.full(len(a), way)))[1] for way, a, b in ways]
    return np.unique(np.concatenate(links))


def neighbours(jobs: Sequence[TrafficJob], fabric: Fabric) -> list[list[int]]:
    """Return the groups of jobs that divide channels, as lists of their positions: jobs whose links overlap, directly
    or by way of others. Each job is a group of its own where light is not routed by wavelength."""
    if not fabric.wavelength_routed:
        return [[number] for number in range(len(jobs))]
    from scipy.sparse.csgraph import connected_components

    held = np.zeros((len(jobs), fabric.links), np.int64)
    for row, job in zip(held, jobs, strict=True):
        row[held_links(job, fabric)] = 1
    count, group = connected_components(held @ held.T, directed=False)
    return [np.flatnonzero(group == number).tolist() for number in range(count)]


def splits(total: int, jobs: int, most: int = 8) -> Iterator[tuple[int, ...]]:
    """Yield the ways to share out all of ``total`` channels among ``jobs`` jobs, as tuples with the channels of each
    job; none where there are more jobs than parts.

    Channels come in parts of equally many, the smaller of ``total`` and ``most`` parts, at least one for each job; the
    last job takes what does not divide.
    """
    parts = min(total, most)
    for counts in divisions(parts, jobs):
        channels = [count * total // parts for count in counts]
        channels[-1] += total - sum(channels)
        yield tuple(channels)


# What a job sends, by axis: how long a step of it is on the network, and which links it loads.

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

    @classmethod
    def of(cls, sort: str, busy: float, usage: Floats, flows: Floats | Ints, fabric: Fabric) -> Exchange:
        """Return an exchange from its share of each link, its flows having equal parts of that share of the link's
        bandwidth.

        Args:
            sort: sort of the exchange, such as :data:`DATA`.
            busy: seconds of a step in which it is under way, alone.
            usage: share of each link that it takes meanwhile: [link].
            flows: number of its flows on each link: [link].
            fabric: the whole fabric.
        """
        return cls(sort, busy, usage, usage * fabric.link_bandwidth() / np.maximum(flows, 1))


def link_load(schedule: Schedule, fabric: Fabric) -> tuple[Floats, Floats]:
    """Return the seconds in which each link of a packet fabric carries the bytes of a schedule, and how many flows
    (pairs of ranks) cross the link in one step, on average over the chunks that it carries: [link] each; 0 for links
    that carry nothing."""
    piece = schedule.first_piece().unfolded(fabric.fibre_channels)
    pieces = 1 if schedule.pipeline is None else schedule.pipeline.pieces
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
    bandwidth = fabric.link_bandwidth()
    lit = np.where(bandwidth > 0, bandwidth, np.inf)
    return chunks * pieces * schedule.chunk_nbytes / lit, weighted / np.maximum(chunks, 1)


def collective_exchange(evaluation: Evaluation, fabric: Fabric, seconds: float) -> Exchange:
    """Return the exchange of a collective that takes ``seconds`` and repeats without a pause on a packet fabric; its
    sort is :data:`DATA`, and it loads no link where it takes no time."""
    if not seconds:
        return Exchange(DATA, seconds, np.zeros(fabric.links), np.zeros(fabric.links))
    busy, flows = link_load(evaluation.schedule, fabric)
    return Exchange.of(DATA, seconds, busy / seconds, flows, fabric)


def plan_exchanges(job: Job, strategy: Strategy, step: StrategyStep, part: Fabric) -> list[Exchange]:
    """Return the exchanges of a strategy's step on a packet fabric, at most one of each sort (:data:`PASSES`,
    :data:`DATA`, :data:`SENDS`): each is under way for the seconds of all exchanges of its sort, and loads links as the
    largest collective of its sort does.

    Args:
        job: the model at the prices of its part of the fabric.
        strategy: the strategy.
        step: its simulated step.
        part: fabric of the job's ranks, with all links of the whole one.
    """
    busy = _busy(strategy, step)
    exchanges = []
    for sort in (PASSES, DATA):
        uses = [use for use in step.exchanges if sort_of(strategy, use.kind, use.ranks, use.stride) == sort]
        if uses and busy[sort] > 0:
            exchanges.append(_group_exchange(sort, busy[sort], job, strategy, uses[0], part))
    if busy[SENDS] > 0:
        exchanges.append(_send_exchange(busy[SENDS], strategy, part))
    return exchanges


def sort_of(strategy: Strategy, kind: Kind, ranks: int, stride: int) -> str:
    """Return the sort of a collective of a strategy: :data:`PASSES` within passes (any all-to-all, and collectives in
    tensor groups), else :data:`DATA`, between replicas. ``stride`` is the distance between neighbours of its group, in
    ranks."""
    return PASSES if kind == "all-to-all" or (strategy.tp > 1 and (ranks, stride) == (strategy.tp, 1)) else DATA


def _busy(strategy: Strategy, step: StrategyStep) -> Mapping[str, float]:
    """Return the seconds of a step in which exchanges of each of the three sorts are under way, by sort, on average
    over the stages; all are :data:`DATA` for data parallelism alone. Rings of context groups count as :data:`SENDS`; of
    gathers within passes only what computing does not hide counts."""
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


def _group_exchange(sort: str, busy: float, job: Job, strategy: Strategy, use: ExchangeUse, part: Fabric) -> Exchange:
    """Return the exchange of a sort that loads each link as the collective ``use`` does in all its groups at once: for
    the share, at most 1, of the collective's seconds in which the link carries its bytes.

    Args:
        sort: sort of the exchange.
        busy: seconds of a step in which exchanges of the sort are under way.
        job: the model at the prices of its part of the fabric.
        strategy: the strategy, which names algorithm and method of exchange.
        use: the largest collective of the sort.
        part: fabric of the job's ranks.
    """
    group = part if use.ranks == part.ranks else part.group(use.ranks, use.stride)
    assert group is not None
    schedule = build(find(use.algorithm), Collective(use.kind, use.ranks, use.nbytes), group)
    prices = job.pricing.price(strategy.algorithm, use.ranks, strategy.exchange, use.stride)
    seconds = prices(use.kind, use.nbytes).cost.time
    loaded, flows = link_load(schedule, group)
    return Exchange.of(sort, busy, np.minimum(loaded / seconds, 1.0), flows, group)


def _send_exchange(busy: float, strategy: Strategy, part: Fabric) -> Exchange:
    """Return the sends of every rank to the one in its place of the next stage (of the last stage to the first), for
    ``busy`` seconds of a step; they take all of the most loaded link, and of others the share that their load is of
    that one's."""
    stride = strategy.replicas * strategy.tp
    source = np.arange(part.ranks)
    destination = (source + stride) % part.ranks
    _, link = links_of(part.footprint(source, destination, part.route(source, destination)))
    flows = np.bincount(link, minlength=part.links)
    load = flows / part.link_bandwidth()
    return Exchange.of(SENDS, busy, load / load.max(), flows, part)


class SlowedPrices(Pricing):
    """Prices of exchanges that other jobs slow down."""

    def __init__(self, pricing: Pricing, strategy: Strategy, slowdown: Mapping[str, float]) -> None:
        """``slowdown`` says how many times longer exchanges of a sort take: :data:`PASSES` or :data:`DATA`."""
        self._pricing, self._strategy, self._slowdown = pricing, strategy, slowdown

    def refusal(self, kind: Kind, algorithm: str, ranks: int, exchange: int, stride: int = 1) -> str | None:
        """Return the sentence by which the prices that are slowed refuse a collective of this kind in a group of
        ``ranks`` ranks at a ``stride``; None where they have it.

        Args:
            kind: of the collective.
            algorithm: name of an algorithm, or "auto" for the cheapest.
            ranks: ranks of the group.
            exchange: number, from 1 on, of the method by which gradients are exchanged; 0 for gradients as they are.
            stride: distance between neighbouring ranks of the group.
        """
        return self._pricing.refusal(kind, algorithm, ranks, exchange, stride)

    def price(self, algorithm: str, ranks: int, exchange: int, stride: int = 1) -> Price:
        """Return the function of kind and bytes that prices collectives in a group of ``ranks`` ranks at a ``stride``:
        the time of each collective is multiplied by the slowdown of its sort, 1 where none is given; all else of a
        price, such as joules, is kept.

        ``algorithm`` names an algorithm or is "auto" for the cheapest; ``exchange`` is the number, from 1 on, of the
        method by which gradients are exchanged, 0 for gradients as they are.
        """
        whole = self._pricing.price(algorithm, ranks, exchange, stride)

        def priced(kind: Kind, nbytes: float) -> Priced:
            """Return the price of a collective of the group, whose time alone is multiplied."""
            longer = self._slowdown.get(sort_of(self._strategy, kind, ranks, stride), 1.0)
            price = whole(kind, nbytes)
            return replace(price, cost=replace(price.cost, time=price.cost.time * longer))

        return priced


# What a job runs on its part of the fabric.


@dataclass(frozen=True, kw_only=True)
class Work:
    """A job on its fabric: what it runs, and how its step depends on how much its exchanges are slowed down."""

    job: TrafficJob
    fabric: Fabric
    seconds: float
    """Seconds of a step, or of one collective."""
    label: str
    """The plan, or the algorithm."""
    exchanges: Sequence[Exchange] = ()
    """Exchanges over packet links; none on circuits."""
    slowed: Callable[[Mapping[str, float]], float] = field(repr=False)
    """Seconds of a step where the exchanges of each sort take so many times longer."""
    parts: Sequence[Part] = ()
    """Its collectives as parts of a joint schedule, on circuits."""
    job_priced: Job | None = None
    """The model at the prices of the fabric; None of a collective."""
    choice: Strategy | None = None
    """The plan; None of a collective."""
    channels: int | None = None
    """Channels of every link that it holds; None on packet fabrics."""
