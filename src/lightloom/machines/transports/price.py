"""Seconds of collectives by a transport: the quickest of its ways.

    time = b + a + fill,    fill = k·sqrt(a·b) / sqrt(1 + k²·b / (φ²·a))

a are the latencies of a way, b the seconds of its bytes on the tier that is its bottleneck. A library cuts messages
into chunks and passes them on one by one: with the best chunk, filling such a pipeline takes time in proportion to
sqrt(a·b); but chunks are at most as large as the library's buffers, so that the fill ends at φ·a. The time grows with
a and with b, is concave in both, and scales with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np

from lightloom.core.arrays import Floats, Ints
from lightloom.core.caches import cached_method
from lightloom.core.results import in_groups
from lightloom.machines.transports.transport import Corrections, Scales, Transport
from lightloom.machines.transports.ways import PROTOCOLS, LibraryTask, Tasks, Tiers, ways

FACTORS = (
    *(f"{name} {what}" for name, what in product(PROTOCOLS, ("base", "domain step", "network step"))),
    *("reduction domain step", "reduction network step"),
)
"""Corrections of published latencies, in the order of :attr:`Constants.factors`."""
SHARED = ("peer_latency", "fill", "fill_limit", "copy_share", "all_to_all_share")
"""Further constants of a transport that are fitted to many systems."""
_TERMS, _INSIDE = 7, 4
"""Terms of a way, and the place of the bytes inside a domain, of which there are none where every rank is alone."""


@dataclass(frozen=True, slots=True)
class WayColumns:
    """Ways of many collectives as columns, each of shape [ways, collectives]; ways that one lacks are infinite."""

    protocol: Ints
    terms: Floats
    """Base, domain steps, network steps, posts, seconds inside, seconds across, copies: [7, ways, collectives]."""
    names: tuple[tuple[str, ...], ...]
    """Names of the ways of each collective."""
    crosses: Floats
    """1 where a collective crosses domains, else 0: [collectives]."""
    pairs: Floats
    """1 for an all-to-all: [collectives]."""


@dataclass(frozen=True, slots=True)
class Constants:
    """Numbers of a transport that a calibration can fit."""

    factors: Floats
    """Corrections, in the order of :data:`FACTORS`."""
    shared: Floats
    """In the order of :data:`SHARED`."""
    scales: Floats
    """The four numbers of a system, in the order of the fields of :class:`Scales`."""

    @classmethod
    def of(cls, transport: Transport) -> Constants:
        """Return a transport's corrections of latencies (base, domain step and network step of LL, of LL128 and of
        Simple, then domain and network step of adding switches), shared figures (in the order of :data:`SHARED`) and
        four scales as arrays; corrections of protocols that it lacks are 1."""
        factors = [
            getattr(transport.protocols[name].corrections, what) if name in transport.protocols else 1.0
            for name in PROTOCOLS
            for what in ("base", "domain_step", "network_step")
        ]
        reduction = Corrections() if transport.reduction is None else transport.reduction.corrections
        factors += [reduction.domain_step, reduction.network_step]
        shared = [getattr(transport, name) for name in SHARED]
        return cls(np.array(factors), np.array(shared), scales_array(transport.scales))


def scales_array(scales: Scales) -> Floats:
    """Return the four factors of a system as an array: latency, network latency, bandwidth, network bandwidth."""
    return np.array([getattr(scales, name) for name in Scales.model_fields])


def columns(tasks: Sequence[LibraryTask], tiers: Tiers, transport: Transport) -> WayColumns:
    """Return the ways of collectives that may be of different kinds as columns in the order of ``tasks``.

    Each way has its protocol (0 LL, 1 LL128, 2 Simple, −1 adding switches), [ways, collectives], and seven terms, [7,
    ways, collectives], before corrections and scales: base, domain steps, network steps, posts (a number of peers),
    bytes inside a domain, bytes across and copies, all but the posts in seconds. A collective's ways come first in its
    column; where others have more ways, the terms behind are infinite and their protocol 0. The first four terms are
    those at the clock of the transport's generation, as :func:`columns_of` gives them. Names are a tuple for each
    collective.
    """
    parts = []
    for kind, places in in_groups(range(len(tasks)), lambda place: tasks[place].kind).items():
        sizes = np.array([tasks[place][1:] for place in places], np.float64).T
        parts.append((places, columns_of(Tasks(kind, *sizes), tiers, transport)))
    shape = max(len(part.protocol) for _, part in parts), len(tasks)
    protocol, terms = np.zeros(shape, np.int64), np.full((_TERMS, *shape), np.inf)
    names: list[tuple[str, ...]] = [()] * len(tasks)
    for places, part in parts:
        protocol[: len(part.protocol), places] = part.protocol
        terms[:, : len(part.protocol), places] = part.terms
        for place, own in zip(places, part.names, strict=True):
            names[place] = own
    crosses = np.array([float(task.domains > 1) for task in tasks])
    pairs = np.array([float(task.kind == "all-to-all") for task in tasks])
    return WayColumns(protocol, terms, tuple(names), crosses, pairs)


def columns_of(tasks: Tasks, tiers: Tiers, transport: Transport) -> WayColumns:
    """Return the ways of collectives of one kind as columns, of the same ways for all.

    Each way has its protocol (0 LL, 1 LL128, 2 Simple, −1 adding switches), [ways, collectives], and seven terms, [7,
    ways, collectives], before corrections and scales: base, domain steps, network steps, posts (a number of peers),
    bytes inside a domain, bytes across and copies, all but the posts in seconds. The first four are multiplied by the
    reference clock over that of the transport's generation. All terms of a way that does not serve a task are infinite.
    """
    every = list(ways(tasks, tiers, transport))
    count = len(tasks.ranks)
    terms = np.empty((_TERMS, len(every), count))
    for row, way in enumerate(every):
        for term, seconds in enumerate(way[2:-1]):
            terms[term, row] = seconds
        terms[_INSIDE, row] *= tasks.inside > 1
        if way.served is not None:
            terms[:, row, ~way.served] = np.inf
    terms[:4] *= 1.0 if transport.generation is None else transport.reference_clock / transport.generation.clock
    return WayColumns(
        np.broadcast_to(np.array([way.protocol for way in every], np.int64)[:, None], (len(every), count)),
        terms,
        (tuple(way.name for way in every),) * count,
        (tasks.domains > 1).astype(np.float64),
        np.full(count, float(tasks.kind == "all-to-all")),
    )


def pipelined(latency: Floats, transmission: Floats, fill: float, limit: float) -> Floats:
    """Return the seconds of a pipelined transfer from its latency and its transmission, both in seconds.

    The filling of the pipeline adds ``latency · r / sqrt(1 + (r / limit)²)`` with ``r = fill · sqrt(transmission /
    latency)``: ``fill`` times the root of the product of both while that is small, at most ``limit`` times the latency.
    Without a latency the transmission alone is returned. The arrays have one shape, which the result has too.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        reach = fill * np.sqrt(transmission / latency)
        seconds = transmission + latency * (1 + reach / np.sqrt(1 + (reach / limit) ** 2))
    return np.where(latency > 0, seconds, transmission)


def seconds_of_ways(ways_of: WayColumns, constants: Constants) -> Floats:
    """Return the seconds of every way of every collective with these constants (corrections of latencies, shared
    figures, scales): [ways, collectives]; infinite where a collective lacks a way. Latency is the sum of the first four
    terms, corrected, times the factor for latencies, of the network where the collective crosses domains; transmission
    is the longer of the bytes inside a domain with the copies and the bytes across, over their factors for bandwidth
    (and ``all_to_all_share`` where it applies); :func:`pipelined` joins both."""
    # Adding switches, whose number takes the last row, have no base to correct.
    rows = np.insert(constants.factors, -2, 1.0).reshape(-1, 3)
    base, step, network = np.moveaxis(rows[ways_of.protocol], -1, 0)
    peer, fill, limit, copy_share, pair_share = constants.shared
    inside, across, bandwidth, network_bandwidth = constants.scales
    terms = ways_of.terms
    scale = np.where(ways_of.crosses > 0, across, inside)
    share = np.where(ways_of.pairs > 0, pair_share, 1.0)
    with np.errstate(invalid="ignore"):
        latency = scale * (base * terms[0] + step * terms[1] + network * terms[2] + peer * terms[3])
        within = terms[4] / bandwidth / share + terms[6] / copy_share
        seconds = pipelined(latency, np.maximum(within, terms[5] / network_bandwidth / share), fill, limit)
    seconds[~np.isfinite(terms[0])] = np.inf
    return seconds


def seconds(ways_of: WayColumns, constants: Constants) -> Floats:
    """Return the seconds of each collective by its quickest way with these constants: [collectives]; infinite where
    none of the ways serves it. ValueError where the columns have no way at all, as for a kind that is not carried."""
    return np.asarray(seconds_of_ways(ways_of, constants).min(axis=0))


# A collective library on a system: its transport, and what that has to know of the system's two tiers.


def ranks_in_domain(domain: int, ranks: Ints, stride: Ints) -> Ints:
    """Return a number of ranks of each group that at least lie together in every domain of ``domain`` neighbouring
    ranks that the group enters: [groups]; from 1, where each may lie alone, to all ranks of the group: the greatest
    common divisor of ``domain`` and the span ``ranks * stride``, over ``stride``, rounded down and kept within these
    ends.

    ``ranks`` is the size of each group and ``stride`` the distance between its neighbours, [groups] each. Groups tile
    the ranks from 0 on, so that domains cut some of them unless one size divides the other.
    """
    return np.asarray(np.clip(np.gcd(domain, ranks * stride) // stride, 1, ranks))


@dataclass(frozen=True)
class Library:
    """A collective library on the tiers of a fabric."""

    tiers: Tiers
    transport: Transport

    @cached_property
    def constants(self) -> Constants:
        """Numbers of the transport that a calibration can fit: corrections of latencies, shared figures and scales."""
        return Constants.of(self.transport)

    @property
    def domain(self) -> int:
        """Number of ranks of a domain, which are neighbours."""
        return self.tiers.domain

    def group(self, ranks: int, stride: int) -> Library:
        """Return the library of a group of ``ranks`` ranks, each ``stride`` from the next, on the same links: its
        domain is the number of these ranks that at least share one, from :func:`ranks_in_domain`."""
        together = ranks_in_domain(self.tiers.domain, np.array(ranks), np.array(stride))
        return replace(self, tiers=self.tiers._replace(domain=int(together)))

    @cached_method()
    def message_latency(self, stride: int) -> float:
        """Return the seconds that a message from a rank to the one ``stride`` further on takes besides its bytes, as a
        broadcast of nothing between two ranks: of one domain where the stride is less than a domain's size, otherwise
        of two."""
        pair = replace(self, tiers=self.tiers._replace(domain=2 if stride < self.domain else 1))
        return float(pair.seconds("broadcast", np.array([2]), np.array([1]), np.zeros(1))[0])

    def message_latencies(self, source: Ints, destination: Ints) -> Floats:
        """Return the seconds that messages between ranks take besides their bytes, those within one domain and those
        across: [message]. ``source`` and ``destination`` are ranks, [message] each."""
        together = source // self.domain == destination // self.domain
        inside, across = (self.message_latency(stride) for stride in (1, self.domain))
        return np.where(together, inside if self.domain > 1 else across, across)

    def seconds(self, kind: str, ranks: Ints, stride: Ints, nbytes: Floats) -> Floats:
        """Return the seconds of collectives, each by its quickest way, in the shape of ``nbytes``; 0 for groups of one
        rank.

        Where nothing is sent these are the seconds of their latencies.

        Args:
            kind: kind of the collectives: ``all-reduce``, ``all-gather``, ``reduce-scatter``, ``broadcast``, ``reduce``
                or ``all-to-all``; no way carries any other (ValueError).
            ranks: number of ranks of each group, [rows].
            stride: distance between neighbouring ranks of each group, [rows].
            nbytes: bytes of each collective, counted as ``Collective.nbytes``, [rows] or [rows, ...].
        """
        shape = ranks.shape + (1,) * (nbytes.ndim - ranks.ndim)
        domains = -(-ranks // ranks_in_domain(self.tiers.domain, ranks, stride))
        table = np.broadcast_arrays(ranks.reshape(shape), domains.reshape(shape), nbytes)
        tasks = Tasks(kind, *(column.ravel().astype(np.float64) for column in table))
        quickest = seconds(columns_of(tasks, self.tiers, self.transport), self.constants)
        return np.where(tasks.ranks > 1, quickest, 0.0).reshape(nbytes.shape)
