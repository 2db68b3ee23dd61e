"""A plan's step taken apart: what each stage does, how its collectives are carried, and over which network."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np

from lightloom.collectives.collective import Kind
from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.arrays import Floats, Ints
from lightloom.core.errors import UnsupportedError
from lightloom.core.units import format_bandwidth, format_time
from lightloom.machines.fabrics.derived import group_members, links_of
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.planning.export.chakra_operations import (
    CollectiveUse,
    Operation,
    StagedOperations,
    plain_operations,
    tied_use,
)
from lightloom.planning.parallelism.strategy_space import Strategies, Strategy
from lightloom.planning.pricing.broadcast_step import BroadcastStep
from lightloom.planning.pricing.collective_prices import CheapestPrices, ExchangePrices
from lightloom.planning.pricing.job import Job
from lightloom.planning.pricing.library_prices import LibraryPrices
from lightloom.planning.pricing.placed_space import PlacedChoice
from lightloom.planning.pricing.schedule_prices import SchedulePrices
from lightloom.planning.pricing.step import distance, send_rate
from lightloom.planning.pricing.strategy_step import StrategyStep, on_divided_channels
from lightloom.planning.simulation.engine import Price
from lightloom.planning.simulation.placed_step import PlacedStep

# How the plan's collectives are carried: by which schedule, over pairs of ranks of which rate and latency.

_PASSES: dict[Kind, int] = {"all-reduce": 2}
"""How often a ring sends every byte; once for the other kinds."""
_SAME = 1e-3
_AROUND = 2.0
"""Sizes up to so many times smaller and larger decide the rate of a library's pairs."""


class Line(NamedTuple):
    """Time model of a message from one rank to another: latency + bytes / rate."""

    rate: float
    """Bytes per second between the two ranks."""
    latency: float
    """Seconds that every message takes besides."""
    message: float
    """Bytes of a message."""
    spread: float = 0.0
    """Share of the messages that take longer or shorter than the mean."""

    @property
    def seconds(self) -> float:
        """Seconds of one message of ``message`` bytes, latency included."""
        return self.latency + self.message / self.rate

    def alike(self, other: Line) -> bool:
        """Return whether a message of either line's size takes as long, to a thousandth, with the other line's rate in
        place of its own, and as long with the other line's latency."""
        return all(
            abs(line.latency + line.message / rate - line.seconds) <= _SAME * line.seconds
            and abs(latency + line.message / line.rate - line.seconds) <= _SAME * line.seconds
            for line, rate, latency in ((self, other.rate, other.latency), (other, self.rate, self.latency))
        )


@dataclass(frozen=True, slots=True, eq=False)
class CarriedCollective:
    """One collective of the plan as it is carried."""

    algorithm: str
    seconds: float
    """Its price, circuits in place."""
    line: Line
    """Between the ranks of a pair that exchanges anything."""
    schedule: Schedule | None = None
    """With a row for every rank; None of a collective library."""
    fabric: Fabric | None = None
    """On which the schedule was verified."""


def carried(price: Price, use: CollectiveUse, shared: float = 1.0) -> CarriedCollective:
    """Return how a collective is carried: the algorithm, the seconds (circuits in place), the time model of a message
    between two ranks (bytes per second, seconds of latency, bytes of a message), and the schedule, with rows for every
    rank, and its fabric; the latter two are None for a collective library.

    Args:
        price: the function that prices collectives of this group.
        use: the collective.
        shared: number of groups that divide the channels, by which its bytes are multiplied to be priced, while the
            schedule keeps those of one group; prices of a collective library take the bytes as they are.

    Raises:
        UnsupportedError: it is not carried by plain messages between two ranks each: it goes by several collectives,
            has a codec, or adds up within the network.
    """
    if isinstance(price, CheapestPrices | ExchangePrices):
        price = price.choice(use.kind, use.nbytes * shared)
    if isinstance(price, LibraryPrices):
        seconds = price(use.kind, use.nbytes).cost.time
        return CarriedCollective(price.algorithm.name, seconds, _library_line(price, use.kind, use.nbytes))
    if not isinstance(price, SchedulePrices):
        raise UnsupportedError(
            "it goes by several collectives, which are not written: expected no --exchange, and no fabric of parts"
        )
    if price.exchange is not None:
        raise UnsupportedError(
            "a codec works between the hops of its collectives, which no trace holds: expected no --exchange"
        )
    if price.fabric.in_network_reduction:
        raise UnsupportedError(
            f"a {price.fabric.kind_name} adds up on the way, which no send and receive does: expected another "
            "--algorithm"
        )
    seconds = price(use.kind, use.nbytes * shared).cost.repeated_time
    schedule = price.schedule(use.kind, use.nbytes * shared).unfolded(price.fabric.fibre_channels).resized(use.nbytes)
    return CarriedCollective(price.algorithm.name, seconds, pair_line(schedule, price.fabric), schedule, price.fabric)


def _library_line(prices: LibraryPrices, kind: Kind, nbytes: float) -> Line:
    """Return the time model of a ring's messages over which the ring takes as long as the library's closed form, for
    ``nbytes`` (``Collective.nbytes``) and sizes around it, its slope that between half and twice as many bytes; without
    a latency where the closed form does not grow like a line there.

    The closed form changes its way with the size, so that no line has its times at all sizes.
    """
    ranks = prices.fabric.ranks
    messages = _PASSES.get(kind, 1) * (ranks - 1)
    smaller, seconds, larger = prices.seconds(kind, nbytes * np.array([1 / _AROUND, 1.0, _AROUND])).tolist()
    slope = (larger - smaller) / (nbytes * (_AROUND - 1 / _AROUND))
    if not 0 < slope * nbytes < seconds:
        return Line(messages * nbytes / ranks / seconds, 0.0, nbytes / ranks)
    return Line(messages / ranks / slope, (seconds - slope * nbytes) / messages, nbytes / ranks)


def pair_line(schedule: Schedule, fabric: Fabric) -> Line:
    """Return the time model of a message between two ranks while the schedule runs: the mean rate (all bytes over the
    sum of the seconds that messages take at their own rates), the mean latency over all messages, the bytes of a
    message (the schedule's chunk), and as ``spread`` the share of messages whose time differs from that model by more
    than a thousandth; an infinite rate and no latency for a schedule without rows.

    A lightpath has the bandwidth of its channels; on packet links a message has the share of a link that its bytes are
    of all in that step.
    """
    if not len(schedule):
        return Line(np.inf, 0.0, 0.0)
    columns = (schedule.source, schedule.destination, schedule.route)
    source, destination, route = (np.asarray(column, np.int64) for column in columns)
    step = np.zeros_like(source) if schedule.queued else schedule.step.astype(np.int64)
    pair = (step * fabric.ranks + source) * fabric.ranks + destination
    rates = _lightpath_rates(schedule, fabric, pair) if fabric.exclusive else _packet_rates(fabric, step, pair, route)
    latencies = fabric.latency(source, destination, route)
    rate, latency = len(rates) / float((1 / rates).sum()), float(latencies.mean())
    message = schedule.chunk_nbytes
    seconds = latencies + message / rates
    other = np.abs(seconds - latency - message / rate) > _SAME * seconds
    return Line(rate, latency, message, float(other.mean()))


def _lightpath_rates(schedule: Schedule, fabric: Fabric, pair: Ints) -> Floats:
    """Return the bytes per second of each row's pair of ranks: [row], all channels of the pair's lightpaths in that
    step together. ``pair`` [row] numbers pairs within steps."""
    _, first = np.unique(np.stack([pair, schedule.lightpath.astype(np.int64)]), axis=1, return_index=True)
    pairs, place = np.unique(pair[first], return_inverse=True)
    channels = np.bincount(place, schedule.wavelength_count[first].astype(np.float64))
    return np.asarray(channels[np.searchsorted(pairs, pair)] * fabric.channel_bandwidth, np.float64)


def _packet_rates(fabric: Fabric, step: Ints, pair: Ints, route: Ints) -> Floats:
    """Return the bytes per second of each row's pair of ranks: [row]. Of each link of its way, a pair has the share
    that its rows are of all rows that load the link in the same step; the slowest link counts.

    Args:
        fabric: the packet fabric.
        step: step of each row: [row].
        pair: number of the pair of each row, (step · ranks + source) · ranks + destination: [row].
        route: route of each row: [row].
    """
    source, destination = pair // fabric.ranks % fabric.ranks, pair % fabric.ranks
    row, link = links_of(fabric.footprint(source, destination, route))
    _, place, loads = np.unique(step[row] * fabric.links + link, return_inverse=True, return_counts=True)
    _, of_pair, rows = np.unique(pair, return_inverse=True, return_counts=True)
    rates = np.full(len(pair), np.inf)
    np.minimum.at(rates, row, fabric.link_bandwidth()[link] * rows[of_pair][row] / loads[place])
    return rates


# The network of ASTRA-sim's analytical backends that stands for a plan's fabric: one dimension, or one for each axis.
#
# Every dimension joins its ranks in pairs (``FullyConnected``), at the rate and latency that the plan's schedules
# have between two ranks: schedules are verified to share no wavelength and to load no link more than is priced, so
# that pairs do not disturb each other. Where all messages go to neighbours on a ring, ``Ring`` is the same and says
# more.
#
# ASTRA-sim reads ``bandwidth`` in GiB/s and ``latency`` in ns, and counts time in whole nanoseconds.

_GIB = float(1 << 30)
_NOTHING = Line(_GIB, 0.0, 0.0)
"""Line of a network over which nothing is sent."""


class Dimension(NamedTuple):
    """One dimension of the network."""

    topology: str
    ranks: int
    line: Line


class AnalyticalNetwork(NamedTuple):
    """The dimensions of ASTRA-sim's analytical network, as ``network.yml`` states them."""

    dimensions: tuple[Dimension, ...]

    @property
    def backend(self) -> str:
        """Name of ASTRA-sim's analytical backend that runs it: ``Congestion_Aware`` for one dimension, else
        ``Congestion_Unaware``."""
        return "Congestion_Aware" if len(self.dimensions) == 1 else "Congestion_Unaware"

    def to_yaml(self) -> str:
        """Return the text of ``network.yml``: lists of topology, ranks, bandwidth in GiB/s and latency in ns by
        dimension, below a comment with the units."""
        columns = {
            "topology": [dimension.topology for dimension in self.dimensions],
            "npus_count": [str(dimension.ranks) for dimension in self.dimensions],
            "bandwidth": [repr(dimension.line.rate / _GIB) for dimension in self.dimensions],
            "latency": [repr(dimension.line.latency * 1e9) for dimension in self.dimensions],
        }
        comment = "# bandwidth in GiB/s, latency in ns"
        return "\n".join([comment, *(f"{name}: [{', '.join(values)}]" for name, values in columns.items())]) + "\n"


def network_of(
    sizes: Sequence[tuple[str, int]], lines: Mapping[str, Sequence[tuple[float, Line]]], *, around: bool
) -> tuple[AnalyticalNetwork, list[str]]:
    """Return the network, and notes on what it says otherwise than the plan: one dimension of all ranks where messages
    take as long along all axes (to a thousandth), else a fully connected dimension for each axis of several ranks, with
    the mean rate and latency of its messages; an axis along which nothing is sent takes those of another.

    Args:
        sizes: name and ranks of each axis, the one whose ranks are neighbours first; they multiply to all ranks.
        lines: by axis, for each collective or send its bytes in the whole step, and the time model of its messages.
        around: True when all messages go to neighbours on one ring of all ranks, so that one dimension of more than two
            ranks is a ``Ring``; otherwise it is fully connected.
    """
    notes: list[str] = []
    means = {name: _mean(name, lines[name], notes) for name, _ in sizes if lines.get(name)}
    axes = [(name, ranks) for name, ranks in sizes if ranks > 1]
    # An axis along which nothing is sent has no rate of its own.
    of_axis = [means.get(name) or next(iter(means.values()), _NOTHING) for name, _ in axes]
    if all(line.alike(of_axis[0]) for line in of_axis):
        total = prod(ranks for _, ranks in axes)
        line = of_axis[0] if of_axis else _NOTHING
        return AnalyticalNetwork((Dimension("Ring" if around and total > 2 else "FullyConnected", total, line),)), notes
    notes.append(
        "axes have rates of their own, so that each is a dimension: the backend of several dimensions lets messages of "
        "one pair of ranks overlap"
    )
    dimensions = (Dimension("FullyConnected", ranks, line) for (_, ranks), line in zip(axes, of_axis, strict=True))
    return AnalyticalNetwork(tuple(dimensions)), notes


def goes_around(carriers: Mapping[CollectiveUse, CarriedCollective], ranks: int) -> bool:
    """Return whether every collective is one of all ``ranks`` ranks together, is carried by a schedule, and sends each
    message to a neighbour, either way, on the ring of ranks 0, 1, ...; False without any collective."""
    for use, carrier in carriers.items():
        if use.ranks != ranks or carrier.schedule is None or carrier.fabric is None:
            return False
        distance = np.abs(carrier.schedule.source.astype(np.int64) - carrier.schedule.destination)
        if not np.isin(distance, (1, ranks - 1)).all():
            return False
    return bool(carriers)


def _mean(name: str, lines: Sequence[tuple[float, Line]], notes: list[str]) -> Line:
    """Return the time model whose rate is the mean over all bytes (bytes over the seconds that they take) and whose
    latency that over all messages of an axis; its message is the mean of theirs. Add a sentence to ``notes``, in place,
    where some messages take longer or shorter than by it (by more than a thousandth).

    ``lines`` are, for each collective or send, its bytes in the whole step and the time model of its messages; ``name``
    is the axis.
    """
    nbytes = np.array([size for size, _ in lines])
    rates, latencies, messages = (np.array([line[column] for _, line in lines]) for column in range(3))
    often = np.divide(nbytes, messages, out=np.zeros_like(nbytes), where=messages > 0)
    rate = float(nbytes.sum() / (nbytes / rates).sum())
    mean = Line(rate, float(np.average(latencies, weights=often if often.any() else None)), float(messages.mean()))
    if any(line.spread or not line.alike(mean) for _, line in lines):
        slowest, fastest = format_bandwidth(float(rates.min())), format_bandwidth(float(rates.max()))
        notes.append(
            f"{name}: messages between pairs of ranks take longer or shorter, by link and collective (means of a "
            f"collective: {slowest} to {fastest}, {format_time(float(latencies.min()))} to "
            f"{format_time(float(latencies.max()))}): the network has the mean of all"
        )
    return mean


_OF_AXIS: dict[str, str] = {"expert": "data", "expert-data": "data"}
"""The axis of ranks on which groups of another axis lie."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTraces:
    """Everything of a step that its traces say."""

    ranks: int
    stages: tuple[tuple[Operation, ...], ...]
    """Operations of the ranks of each stage; ranks of a stage are neighbours."""
    carriers: dict[CollectiveUse, CarriedCollective]
    network: AnalyticalNetwork
    notes: tuple[str, ...]
    """Sentences on where the traces and the network differ from the plan."""

    def members(self, use: CollectiveUse) -> Ints:
        """Return the ranks of all groups of a collective on one axis: [group, rank]; it is not meant for collectives of
        several stages."""
        return group_members(self.ranks, use.ranks, use.stride)


def step_traces(
    job: Job, choice: Strategy | PlacedChoice, step: StrategyStep | PlacedStep | BroadcastStep
) -> StepTraces:
    """Return everything that the traces of a plan's step say: the number of ``ranks``, the operations of a rank of each
    stage (``stages``, of data parallelism alone a single one), how each different collective is carried (``carriers``:
    algorithm, seconds, time model of a message, schedule), ASTRA-sim's ``network``, and ``notes``, sentences on what
    these say otherwise than the plan.

    Args:
        job: where the plan runs.
        choice: the plan's strategy or placement.
        step: its simulated step.

    Raises:
        UnsupportedError: the step has what neither traces nor a simulator of messages can say, such as a placed plan,
            an exchange method, context groups, circuits set anew within the step or a step by the equations of a paper;
            the message names it.
    """
    if isinstance(step, BroadcastStep):
        raise UnsupportedError("a step by DaDianNao's equations has no schedules: expected no --cost-model paper")
    if not isinstance(choice, Strategy) or not isinstance(step, StrategyStep):
        raise UnsupportedError(
            "a placed plan sends parcels over circuits, which are not written: expected another --strategy"
        )
    if choice.exchange:
        raise UnsupportedError("its method of exchange has phases that are not written: expected no --exchange")
    shared: dict[CollectiveUse, float]
    staged = None
    if step.stages is None:
        stages = [plain_operations(job, step, job.computing(choice))]
        shared = {operation.use: 1.0 for operation in stages[0] if operation.use is not None}
    else:
        job = on_divided_channels(job, choice)
        staged = StagedOperations(job, choice, step.stages)
        stages = [staged.of_stage(stage) for stage in range(choice.pp)]
        divided = {payload.use: payload.shared for payload in staged.payloads}
        shared = {use: divided.get(use, 1.0) for use in (*divided, *staged.gathered_sends)}
    often = Counter(operation.use for operations in stages for operation in operations)
    carriers, lines = dict[CollectiveUse, CarriedCollective](), defaultdict[str, list[tuple[float, Line]]](list)
    for use, groups in shared.items():
        carriers[use] = carried(step.prices or _price(job, choice, use), use, groups)
        lines[_OF_AXIS.get(use.axis, use.axis)].append((use.nbytes * max(often[use], 1), carriers[use].line))
    sent = [operation.nbytes for operations in stages for operation in operations if operation.verb == "send"]
    if sent:
        rates, latencies = send_rate(job, Strategies.of(choice))
        lines["pipeline"].append((sum(sent), Line(float(rates[0]), float(latencies[0]), max(sent))))
    for table in () if staged is None else staged.tied:
        use = tied_use(table)
        rate, latency = job.tied_pair(choice.replicas * choice.tp)
        carriers[use] = CarriedCollective("ring", float(table.seconds[0]), Line(rate, latency, use.nbytes / use.ranks))
        lines["pipeline"].append((use.nbytes, carriers[use].line))
    sizes = [("tensor", choice.tp), ("data", choice.replicas), ("pipeline", choice.pp)]
    network, notes = network_of(sizes, lines, around=staged is None and goes_around(carriers, job.fabric.ranks))
    without = {carrier.algorithm for carrier in carriers.values() if carrier.schedule is None}
    if "library" in without:
        notes.append(
            "the fabric's collective library has no schedule: ASTRA-sim runs its own ring, over pairs that are as fast "
            "as a ring of the library's time needs"
        )
    if "ring" in without:
        notes.append("tied tables are added up by ASTRA-sim's own ring among their stages")
    listed = tuple(map(tuple, stages))
    return StepTraces(ranks=job.fabric.ranks, stages=listed, carriers=carriers, network=network, notes=tuple(notes))


def _price(job: Job, strategy: Strategy, use: CollectiveUse) -> Price:
    """Return the function that prices a collective in groups like those of ``use``, by kind and bytes, on the channels
    that the group's axis has where axes share them, with the strategy's algorithm and gradients as they are."""
    pricing = job.pricing if job.shares is None else job.shares.pricing(use.axis)
    return pricing.price(strategy.algorithm, use.ranks, 0, int(distance(job.fabric, np.array([use.stride]))[0]))
