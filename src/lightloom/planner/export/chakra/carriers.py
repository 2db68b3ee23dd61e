"""How the plan's collectives are carried: by which schedule, over pairs of ranks of which rate and latency."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.spec import Kind
from lightloom.core.arrays import Floats, Ints
from lightloom.core.errors import UnsupportedError
from lightloom.fabrics.base import Fabric
from lightloom.fabrics.footprint import links_of
from lightloom.planner.export.chakra.operations import CollectiveUse
from lightloom.planner.pricing.cheapest import CheapestPrices
from lightloom.planner.pricing.exchange_prices import ExchangePrices
from lightloom.planner.pricing.library import LibraryPrices
from lightloom.planner.pricing.schedule_prices import SchedulePrices
from lightloom.simulation.lower import Price

_PASSES: dict[Kind, int] = {"all-reduce": 2}
"""How often a ring sends every byte; once for the other kinds."""
_SAME = 1e-3
_AROUND = 2.0
"""Sizes up to so many times smaller and larger decide the rate of a library's pairs."""


class Line(NamedTuple):
    """What a message from one rank to another takes: latency + bytes / rate."""

    rate: float
    """Bytes per second."""
    latency: float
    """Seconds."""
    message: float
    """Bytes of a message."""
    spread: float = 0.0
    """Share of the messages that take longer or shorter than the mean."""

    @property
    def seconds(self) -> float:
        """Seconds of a message."""
        return self.latency + self.message / self.rate

    def alike(self, other: Line) -> bool:
        """Whether messages take as long, to a thousandth."""
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
    """Return how a collective is carried.

    Args:
        price: of the collective's group.
        use: the collective.
        shared: groups that divide the channels, by whose number its bytes are priced.

    Raises:
        UnsupportedError: by no messages between two ranks each.
    """
    if isinstance(price, CheapestPrices | ExchangePrices):
        price = price.choice(use.kind, use.nbytes * shared)
    if isinstance(price, LibraryPrices):
        seconds = price(use.kind, use.nbytes).cost.time
        return CarriedCollective(price.algorithm.name, seconds, _library_line(price, use.kind, use.nbytes))
    if not isinstance(price, SchedulePrices):
        raise UnsupportedError(
            "its gradients go by a method of several collectives, which are not written: expected no --exchange"
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
    schedule = price.schedule(use.kind, use.nbytes * shared).unfolded(price.fabric.fibre_channels)
    schedule = schedule.resized(use.nbytes)
    return CarriedCollective(price.algorithm.name, seconds, pair_line(schedule, price.fabric), schedule, price.fabric)


def _library_line(prices: LibraryPrices, kind: Kind, nbytes: float) -> Line:
    """Return the pairs over which a ring takes as long as the library's closed form, at this size and around it.

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
    """Return what messages take between pairs of ranks while the schedule runs: means over all bytes and messages.

    A lightpath has its channels; on packet links a message has the share of its bytes.
    """
    if not len(schedule):
        return Line(np.inf, 0.0, 0.0)
    source, destination, route = (
        np.asarray(column, np.int64) for column in (schedule.source, schedule.destination, schedule.route)
    )
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
    """Bytes per second of each row's pair: the channels of all its lightpaths at the time."""
    _, first = np.unique(np.stack([pair, schedule.lightpath.astype(np.int64)]), axis=1, return_index=True)
    pairs, place = np.unique(pair[first], return_inverse=True)
    channels = np.bincount(place, schedule.wavelength_count[first].astype(np.float64))
    return np.asarray(channels[np.searchsorted(pairs, pair)] * fabric.channel_bandwidth, np.float64)


def _packet_rates(fabric: Fabric, step: Ints, pair: Ints, route: Ints) -> Floats:
    """Bytes per second of each row's pair on the links that the step loads: as much as its share of the bytes."""
    source, destination = pair // fabric.ranks % fabric.ranks, pair % fabric.ranks
    row, link = links_of(fabric.footprint(source, destination, route))
    use = step[row] * fabric.links + link
    _, place, loads = np.unique(use, return_inverse=True, return_counts=True)
    _, of_pair, rows = np.unique(pair, return_inverse=True, return_counts=True)
    shares: Floats = fabric.link_bandwidth()[link] * rows[of_pair][row] / loads[place]
    rates = np.full(len(pair), np.inf)
    np.minimum.at(rates, row, shares)
    return rates
