"""Figures of a fabric that follow from its footprints, link bandwidths and latencies alone.

:class:`~lightloom.machines.fabrics.fabric.Fabric` answers with these unless a subclass knows a faster way; an override
is for speed only, and :func:`~lightloom.machines.fabrics.conformance.check_fabric` compares it with the function here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from lightloom.core.arrays import Column, Effort, Floats, Ints, Mask
from lightloom.core.files import cache_directory, kept, source_hash
from lightloom.core.kernels import njit_cached, njit_without_arrays
from lightloom.core.memory import require_memory
from lightloom.core.results import content_hash

# The links that transfers occupy, and cuts through links.


class Footprint(NamedTuple):
    """The links that transfers occupy, as runs of consecutive links on cyclic tracks.

    Each array has shape [transfer, run]. Run ``r`` of transfer ``t`` occupies the links
    ``base + (start + k) % period`` for ``k < length``.
    """

    base: Ints
    start: Ints
    length: Ints
    period: Ints

    @classmethod
    def of(cls, runs: Sequence[tuple[Any, Any, Any, Any]]) -> Footprint:
        """Return the footprint of transfers that each have the given runs: a ``(base, start, length, period)`` for each
        run, whose values are arrays [transfer] or single numbers, broadcast to all transfers; one at least is an array.
        A run has the links ``base + (start + k) % period`` for k below ``length``."""
        transfers = np.broadcast_shapes(*(np.shape(value) for run in runs for value in run))
        columns = np.empty((4, *transfers, len(runs)), np.int64)
        for position, run in enumerate(runs):
            for column, value in zip(columns, run, strict=True):
                column[..., position] = value
        return cls(*columns)

    def runs(self) -> list[tuple[Ints, Ints, Ints, Ints]]:
        """Return a tuple ``(base, start, length, period)`` for each run, with arrays of shape [transfer]."""
        return [tuple(columns.T) for columns in np.stack(self).T]


class CellOrder(NamedTuple):
    """Where an array holds the channels of all links: ``link`` and ``channel`` are the distances between neighbours."""

    link: int
    channel: int

    @classmethod
    def of(cls, links: int, channels: int, footprint: Footprint, width: Column) -> CellOrder:
        """Return the order of an array of all links' channels in which the cells of one transfer lie closest together:
        channels of a link side by side where transfers have on average more channels than links, otherwise, and where
        there are no transfers, links side by side. It is the distance in the flat array between neighbouring links and
        that between neighbouring channels: (channels, 1) or (1, links).

        Args:
            links: number of links of the fabric.
            channels: number of channels of a link.
            footprint: links of a sample of the transfers.
            width: number of channels of each of these transfers.
        """
        wide = len(footprint.length) > 0 and np.mean(width) > footprint.length.sum(axis=1).mean()
        return cls(channels, 1) if wide else cls(1, links)


def ordered_links(runs: Sequence[tuple[Any, Any, Any, Any]], backward: Sequence[Any]) -> Ints:
    """Return the links of runs one after the other, those of backward runs from the last to the first: [transfer,
    place], −1 filling up behind each run.

    Args:
        runs: ``(base, start, length, period)`` of each run, arrays of shape [transfer].
        backward: for each run, whether it is crossed from its last link to its first: [transfer] or one value.
    """
    parts = []
    for (base, start, length, period), back in zip(runs, backward, strict=True):
        place, longest = np.arange(int(np.max(length, initial=0))), np.asarray(length)[:, None]
        turn = np.where(np.reshape(back, (-1, 1)), longest - 1 - place, place)
        link = np.reshape(base, (-1, 1)) + (np.reshape(start, (-1, 1)) + turn) % np.reshape(period, (-1, 1))
        parts.append(np.where(place < longest, link, -1))
    links: Ints = np.concatenate(parts, axis=1)
    return links


def links_of(footprint: Footprint) -> tuple[Ints, Ints]:
    """Return every link that every transfer occupies, as two arrays of one entry for each: number of the transfer,
    from 0, ascending, and number of the link, in the order of the transfer's runs."""
    transfer, link = np.empty((2, int(footprint.length.sum())), np.int64)
    _list_links(Footprint(*(np.ascontiguousarray(column, np.int64) for column in footprint)), transfer, link)
    return transfer, link


@njit_without_arrays
def _list_links(footprint: Footprint, transfer: Ints, link: Ints) -> None:
    """Write the links that transfers occupy: the number of the transfer and of the link, [entry] each, as
    :func:`links_of` returns them."""
    entry = 0
    for number in range(footprint.length.shape[0]):
        for run in range(footprint.length.shape[1]):
            base, period = footprint.base[number, run], footprint.period[number, run]
            at = footprint.start[number, run] % max(period, 1)
            for _ in range(footprint.length[number, run]):
                transfer[entry], link[entry] = number, base + at
                entry += 1
                at = at + 1 if at + 1 < period else 0


@dataclass(frozen=True, slots=True)
class Cut:
    """A set of ranks and what can enter (or leave) it: no more than ``capacity`` bytes per second, each way."""

    name: str
    ranks: int
    capacity: float
    sets: int = 1
    """Sets of as many ranks, with the same limit, into which all ranks fall; 1 where they do not so."""


# The structure of a fabric: all of it but how fast its links are.
#
# Which transfers share links, how long a bit takes and which circuits stand follow from the structure alone, so that
# what was found of a schedule on one fabric holds on every other one of its structure. The fields that a fabric names
# as :attr:`~lightloom.machines.fabrics.fabric.Fabric.rate_fields` are left out; links of equal bandwidth and
# links without any stay told apart.

R = TypeVar("R")


class Geometry(Protocol):
    """Attributes and methods that derivations use of a fabric (:class:`lightloom.machines.fabrics.fabric.Fabric`)."""

    @property
    def implementation(self) -> tuple[str, str]:
        """Return module and name of the fabric's class."""

    @property
    def rate_fields(self) -> Set[str]:
        """Return the names of the fields that decide nothing but how fast links are."""

    @property
    def ranks(self) -> int:
        """Return the number of ranks."""

    @property
    def links(self) -> int:
        """Return the number of directed links."""

    @property
    def routes(self) -> int:
        """Return the number of routes between two ranks that a transfer may choose from."""

    @property
    def in_network_reduction(self) -> bool:
        """Return True if all data pass a switch that adds what the ranks send."""

    @property
    def switch_rank(self) -> int:
        """Return the number by which transfers address the reducing switch: one past the last rank."""

    def model_dump(self, *, mode: str, exclude: set[str]) -> dict[str, object]:
        """Return the fields as a mapping, those in ``exclude`` left out; with ``mode="json"`` in types that JSON
        holds."""

    def model_dump_json(self, *, exclude: set[str]) -> str:
        """Return the fields as JSON text, those in ``exclude`` left out."""

    def link_bandwidth(self) -> Floats:
        """Return the bytes per second of each link: [link]."""

    def footprint(self, source: Ints, destination: Ints, route: Ints) -> Footprint:
        """Return the links that each transfer occupies; arguments are ranks and route numbers, [transfer] each."""

    def route(self, source: Ints, destination: Ints) -> Ints:
        """Return the number of the route that each transfer takes when nobody chooses one: [transfer]."""

    def latency(self, source: Ints, destination: Ints, route: Ints) -> Floats:
        """Return the seconds from the first bit sent to the first bit received, of each transfer: [transfer]."""

    def hops(self, source: Ints, destination: Ints, route: Ints) -> Ints:
        """Return the number of links that each transfer crosses: [transfer]."""

    def siblings(self) -> tuple[Geometry, Ints]:
        """Return the fabric whose links this one uses, and the ranks there of this group and of its siblings: [group,
        rank]; itself and one group of all ranks where it is no group."""


@dataclass(frozen=True)
class Keyed(Generic[R]):
    """A fabric as the key of a cache, in which all fabrics of the same text are one."""

    text: Hashable
    fabric: R = field(compare=False)


def structure(fabric: Geometry) -> str:
    """Return a text that is equal for fabrics that differ in nothing but how fast their links are, what a bit costs and
    their sources: a JSON list of class, other fields, and a digest of which links are equally fast and which carry
    nothing."""
    return _structure(Keyed((*fabric.implementation, fabric.model_dump_json(exclude={"sources"})), fabric))


@lru_cache(maxsize=256)
def _structure(by_fields: Keyed[Geometry]) -> str:
    """Return the text of :func:`structure` for the fabric in ``by_fields``: a JSON list of class, fields without rates
    and sources, whether energy is stated, and a digest of which links are equally fast and which carry nothing. Results
    are cached by all fields but sources."""
    fabric = by_fields.fabric
    fields = _without(fabric.model_dump(mode="json", exclude={"sources"}), fabric.rate_fields | {"sources"})
    counts_energy = getattr(fabric, "energy_per_bit", None) is not None
    bandwidth = fabric.link_bandwidth()
    # Each link by the first one that is as fast.
    _, first, link_class = np.unique(bandwidth, return_index=True, return_inverse=True)
    links = blake2b(np.where(bandwidth > 0, first[link_class], -1).tobytes()).hexdigest()
    return json.dumps([*fabric.implementation, fields, counts_energy, links])


def _without(value: object, names: Set[str]) -> object:
    """Return a JSON document (mappings, lists, scalars) in which the values of the fields ``names``, at any depth, are
    replaced by True where they are None and False otherwise; tuples become lists."""
    if isinstance(value, dict):
        return {name: field is None if name in names else _without(field, names) for name, field in value.items()}
    return [_without(item, names) for item in value] if isinstance(value, list | tuple) else value


T = TypeVar("T")
_PAIRS: Effort = 1 << 18
"""Pairs of ranks whose footprints are held at once."""
_MANY_PAIRS: Effort = 1 << 16
"""Pairs of ranks from which on what they pass is kept on the disk."""
_LINKS_INTO_A_RANK: Effort = 128
"""Links that cover a rank's transfers for which room is made at first."""


class Ports(NamedTuple):
    """Where transfers leave their sources and reach their destinations, and how fast, while all ports are busy."""

    port: Ints
    """Number of the port among those of the source; transfers through one port take turns."""
    entry: Ints
    """Number of the port among those of the destination; transfers through one port take turns."""
    rate: Floats
    """Bytes per second of each transfer while all ports are busy."""


def cached(compute: Callable[[Geometry], T], last: int = 64) -> Callable[[Geometry], T]:
    """Return a function like ``compute`` that caches results by the structure of the fabric it is called with, so that
    fabrics that differ in rates alone share them; the ``last`` structures used most recently are kept."""
    by_key = lru_cache(maxsize=last)(lambda key: compute(key.fabric))
    return lambda fabric: by_key(Keyed(structure(fabric), fabric))


def pairs(ranks: int, groups: int = 1) -> Iterator[tuple[Ints, Ints]]:
    """Yield the sources and destinations of all ordered pairs of different ranks, [pair] each, block by block.

    A block has all pairs of some consecutive sources: as many as keep pairs times ``groups`` (the transfers for which
    each pair stands) below about a quarter of a million, and at least one source.
    """
    rows = max(_PAIRS // (ranks * groups), 1)
    for begin in range(0, ranks, rows):
        source, destination = np.indices((min(rows, ranks - begin), ranks), dtype=np.int64).reshape(2, -1)
        source = source + begin
        different = source != destination
        yield source[different], destination[different]


def group_members(whole: int, ranks: int, stride: int) -> Ints:
    """Return the ranks of all groups that tile a fabric of ``whole`` ranks: [group, rank].

    Each group has ``ranks`` ranks, ``stride`` from one to the next; groups come in the order of their first ranks.
    ``ranks`` times ``stride`` must divide ``whole``.
    """
    blocks = np.arange(0, whole, ranks * stride)[:, None, None]
    members: Ints = (blocks + np.arange(stride)[:, None] + stride * np.arange(ranks)).reshape(-1, ranks)
    return members


@cached
def direct_latency(fabric: Geometry) -> Floats:
    """Return the seconds of one transfer from rank to rank on its quickest route: [source, destination]. Infinite where
    every route passes a link without bandwidth, and on the diagonal. The array is cached; callers leave it unchanged.

    Raises:
        UnsupportedError: the arrays do not fit in memory.
    """
    require_memory(16 * fabric.ranks**2, f"the latency of every pair of {fabric.ranks:,} ranks")
    seconds = np.full((fabric.ranks, fabric.ranks), np.inf)
    dark = fabric.link_bandwidth() <= 0
    for source, destination in pairs(fabric.ranks):
        for route in range(fabric.routes):
            ways = np.full(len(source), route)
            latency = np.array(fabric.latency(source, destination, ways), dtype=np.float64)
            if dark.any():
                transfer, link = links_of(fabric.footprint(source, destination, ways))
                latency[transfer[dark[link]]] = np.inf
            seconds[source, destination] = np.minimum(seconds[source, destination], latency)
    return seconds


def neighbour_latency(fabric: Geometry) -> float:
    """Return the least seconds of a transfer between two different ranks; on a fabric that adds in the network, of the
    quickest way into the switch plus the quickest out of it. 0 for a single rank, infinite where no transfer works."""
    if fabric.in_network_reduction:
        up, down = _through_the_switch(fabric)
        return float(up.min() + down.min())
    return 0.0 if fabric.ranks == 1 else float(direct_latency(fabric).min())


@cached
def diameter_latency(fabric: Geometry) -> float:
    """Return a lower bound, in seconds, of the time until every rank has heard of every other: the longest of the
    quickest ways, over other ranks where that is quicker, from the source of the slowest direct transfer; infinite
    where one leads out of reach, 0 for a single rank. On a fabric that adds in the network, the slowest way into the
    switch plus the slowest out of it."""
    if fabric.in_network_reduction:
        up, down = _through_the_switch(fabric)
        return float(up.max() + down.max())
    return _farthest(direct_latency(fabric))


def root_latency(fabric: Geometry, *, to_root: bool) -> float:
    """Return the seconds in which rank 0 reaches the rank that takes longest, over other ranks where that is quicker;
    with ``to_root``, in which the rank that takes longest reaches rank 0. Infinite where a rank is out of reach, 0 for
    a single rank. On a fabric that adds in the network the way leads through the switch: rank 0's into it plus the
    slowest other rank's out of it, with ``to_root`` the other way round."""
    if fabric.in_network_reduction:
        up, down = _through_the_switch(fabric)
        own, others = (down, up) if to_root else (up, down)
        return float(own[0] + others[1:].max(initial=0.0))
    direct = direct_latency(fabric)
    return _longest(direct.T if to_root else direct, 0)


def _farthest(direct: Floats) -> float:
    """Return how many seconds one rank takes to reach the rank that it reaches last, relayed over others where quicker;
    infinite where some rank is out of its reach.

    ``direct`` [source, destination] has the seconds of single transfers, infinite where none works. The one rank is the
    source of the slowest of all transfers that work.
    """
    return _longest(direct, int(np.argmax(np.where(np.isfinite(direct), direct, -np.inf))) // len(direct))


def _longest(direct: Floats, start: int) -> float:
    """Return the seconds in which rank ``start`` reaches the rank that takes longest, relayed over others where
    quicker; infinite where some rank is out of reach. ``direct`` [source, destination] has the seconds of single
    transfers, infinite where none works."""
    reach, waiting = direct[start].copy(), np.ones(len(direct), np.bool_)
    reach[start] = 0.0
    for _ in direct:
        nearest = int(np.argmin(np.where(waiting, reach, np.inf)))
        waiting[nearest] = False
        reach = np.minimum(reach, reach[nearest] + direct[nearest])
    return float(reach.max())


def diameter(fabric: Geometry) -> int:
    """Return the largest number of links between any two ranks, each pair on its route of fewest links, whether or not
    these have bandwidth; 2 on a fabric that adds in the network, otherwise 0 for a single rank."""
    if fabric.in_network_reduction:
        return 2
    farthest = 0
    for source, destination in pairs(fabric.ranks):
        ways = [fabric.hops(source, destination, np.full(len(source), way)) for way in range(fabric.routes)]
        farthest = int(np.minimum.reduce(ways).max(initial=farthest))
    return farthest


def _through_the_switch(fabric: Geometry) -> tuple[Floats, Floats]:
    """Return the seconds of a transfer from every rank to the reducing switch, and from there to every rank: [rank]
    each."""
    ranks = np.arange(fabric.ranks)
    switch, route = np.full_like(ranks, fabric.switch_rank), np.zeros_like(ranks)
    return fabric.latency(ranks, switch, route), fabric.latency(switch, ranks, route)


def simultaneous(fabric: Geometry, stride: int) -> tuple[float, float]:
    """Return what every rank gets when all at once send to the rank ``stride`` further on, modulo the number of ranks,
    on the routes that the fabric chooses.

    Returns:
        Bytes per second of the slowest transfer, where transfers divide each link evenly, and seconds of the longest
        latency; infinite and 0 where a rank would send to itself.
    """
    if stride % fabric.ranks == 0:
        return np.inf, 0.0
    source = np.arange(fabric.ranks)
    destination = (source + stride) % fabric.ranks
    load = link_loads(fabric, source, destination)
    rate = (fabric.link_bandwidth()[load > 0] / load[load > 0]).min()
    return float(rate), float(fabric.latency(source, destination, fabric.route(source, destination)).max())


def link_loads(fabric: Geometry, source: Ints, destination: Ints) -> Ints:
    """Return the number of the transfers from ``source`` to ``destination``, [transfer] each, that occupy each link, on
    the routes that the fabric chooses: [link]."""
    _, link = links_of(fabric.footprint(source, destination, fabric.route(source, destination)))
    return np.bincount(link, minlength=fabric.links)


@cached
def straight_loads(fabric: Geometry) -> Ints:
    """Return the number of transfers from every rank straight to every other that occupy each link, on the routes that
    the fabric chooses: [link]; in a group (:meth:`Fabric.siblings`), those of all sibling groups. Cached; callers leave
    the array unchanged."""
    whole, members = fabric.siblings()
    load = np.zeros(whole.links, np.int64)
    for source, destination in pairs(fabric.ranks, len(members)):
        load += link_loads(whole, members[:, source].ravel(), members[:, destination].ravel())
    return load


def rank_bandwidths(fabric: Geometry) -> tuple[Floats, Floats]:
    """Return upper bounds of the bytes per second at which each rank can receive, and at which each can send: two
    arrays, [rank]; 0 for a single rank.

    All transfers into a rank pass one of a few links, found greedily, whose bandwidths are summed; likewise those out
    of it. In a group (:meth:`Fabric.siblings`), the ranks in the same place of all groups are taken together, since all
    of them exchange the same at once, and each has an equal share.
    """
    whole, members = fabric.siblings()
    bandwidth = np.append(whole.link_bandwidth(), 0.0)
    receive, send = (bandwidth[covers].sum(axis=1) / len(members) for covers in _covers(fabric))
    return receive, send


def _kept_covers(fabric: Geometry) -> tuple[Ints, Ints]:
    """Return, for each rank, a few links such that every transfer to it passes at least one of them, and likewise for
    the transfers from it: two arrays of link numbers of the whole fabric, [rank, place], the number of links filling
    up. Transfers on every route count; in a group, those of the ranks in the same place of all groups, on the routes
    that the fabric chooses. Those of many transfers are kept on the disk, unless the fabric is a plug-in's."""
    if fabric.ranks == 1:
        return np.zeros((1, 0), np.int64), np.zeros((1, 0), np.int64)
    whole, members = fabric.siblings()
    path = None
    if members.size * fabric.ranks > _MANY_PAIRS and whole.implementation[0].startswith("lightloom."):
        key = content_hash([structure(fabric), source_hash("core", "machines")])
        path = cache_directory() / "ports" / f"{key}.json"
    covers = kept(path, lambda: [cover.tolist() for cover in _covers_found(whole, members)])
    received, sent = (np.array(cover, np.int64) for cover in covers)
    return received, sent


_covers = cached(_kept_covers, last=1024)


def _covers_found(whole: Geometry, members: Ints) -> tuple[Ints, Ints]:
    """Return what :func:`_kept_covers` returns for the ranks of groups: ``members`` are ranks of ``whole``, [group,
    rank], at least two a group."""
    groups, ranks = members.shape

    def passed(source: Ints, destination: Ints) -> list[Footprint]:
        """Return the footprints of transfers between ranks of the whole fabric, in a group on the chosen routes, else
        on every route in turn."""
        if groups > 1:
            return [whole.footprint(source, destination, whole.route(source, destination))]
        routes = (np.full(len(source), route) for route in range(whole.routes))
        return [whole.footprint(source, destination, route) for route in routes]

    covers: tuple[list[Ints], list[Ints]] = ([], [])
    for inside, other in pairs(ranks, groups):
        own, others = members[:, inside].ravel(), members[:, other].ravel()
        # All pairs at once are the same transfers seen from either end.
        at_once = len(inside) == ranks * (ranks - 1)
        into = passed(others, own)
        ways = (into, inside), (into, other) if at_once else (passed(own, others), inside)
        for cover, (runs, rank) in zip(covers, ways, strict=True):
            cover.append(_cover(np.tile(rank - inside[0], groups * len(runs)), runs, whole.links))
    received, sent = (_stacked(cover, ranks, whole.links) for cover in covers)
    return received, sent


def _cover(rank: Ints, footprints: Sequence[Footprint], links: int) -> Ints:
    """Return for each rank a few links such that each of its transfers passes at least one: [rank, place], ``links``
    filling up. They are chosen greedily, each as the link that most of the rank's transfers still left pass.

    Args:
        rank: rank to which each transfer belongs, all from 0 on: [transfer].
        footprints: links of the transfers, one part of them after the other.
        links: number of all links.
    """
    begins = np.concatenate([[0], np.cumsum(np.bincount(rank))])
    most = max(footprint.length.shape[1] for footprint in footprints)
    runs = Footprint(*(np.zeros((len(rank), most), np.int64) for _ in range(4)))
    first = 0
    for footprint in footprints:
        for column, part in zip(runs, footprint, strict=True):
            column[first : first + len(part), : part.shape[1]] = part
        first += len(footprint.length)
    places, most = 0, _LINKS_INTO_A_RANK
    while most > places:
        places = most
        chosen = np.full((len(begins) - 1, places), links)
        most = _choose_cover(np.argsort(rank, kind="stable"), begins, runs, links, chosen)
    return chosen[:, :most]


@njit_cached
def _choose_cover(transfers: Ints, begins: Ints, runs: Footprint, links: int, chosen: Ints) -> int:
    """Choose for each rank links such that each of its transfers passes at least one, greedily: each as the link that
    most of the rank's transfers still left pass, of several such that of the lowest number.

    Args:
        transfers: numbers of the transfers of rank 0, then of rank 1, and so on: [transfer].
        begins: place in ``transfers`` of each rank's first one, and the end: [rank + 1].
        runs: links that the transfers pass.
        links: number of all links.
        chosen: out, the links chosen for each rank, untouched behind them: [rank, place].

    Returns:
        The most links chosen for a rank; where ``chosen`` has fewer places, the others are left out of it.
    """
    count, passed, most = np.zeros(links, np.int32), np.empty(links, np.int32), 0
    place, filled = np.empty(links, np.int32), np.empty(links, np.int32)
    for rank in range(len(begins) - 1):
        own = transfers[begins[rank] : begins[rank + 1]]
        entries = 0
        for transfer in own:
            for run in range(runs.length.shape[1]):
                entries += runs.length[transfer, run]
        link, first = np.empty(entries, np.int32), np.empty(len(own) + 1, np.int32)
        used = end = 0
        for number in range(len(own)):
            first[number] = end
            for run in range(runs.length.shape[1]):
                base, period = runs.base[own[number], run], runs.period[own[number], run]
                at = runs.start[own[number], run] % max(period, 1)
                for _ in range(runs.length[own[number], run]):
                    each = base + at
                    if count[each] == 0:
                        passed[used] = each
                        used += 1
                    count[each] += 1
                    link[end] = each
                    end += 1
                    at = at + 1 if at + 1 < period else 0
        first[len(own)] = end
        # Of each link, the transfers that pass it, side by side.
        through, end = np.empty(entries, np.int32), 0
        for each in passed[:used]:
            place[each] = filled[each] = end
            end += count[each]
        for number in range(len(own)):
            for entry in range(first[number], first[number + 1]):
                through[filled[link[entry]]] = number
                filled[link[entry]] += 1
        left, places = np.ones(len(own), np.bool_), 0
        while True:
            best = -1
            for each in passed[:used]:
                if count[each] > 0 and (
                    best < 0 or count[each] > count[best] or (count[each] == count[best] and each < best)
                ):
                    best = each
            if best < 0:
                break
            for number in through[place[best] : filled[best]]:
                if left[number]:
                    left[number] = False
                    for entry in range(first[number], first[number + 1]):
                        count[link[entry]] -= 1
            if places < chosen.shape[1]:
                chosen[rank, places] = best
            places += 1
        most = max(most, places)
    return most


def _stacked(parts: Sequence[Ints], rows: int, filling: int) -> Ints:
    """Return the rows of several arrays [row, column], one array's after the other's, as one array of ``rows`` rows in
    all; rows of fewer columns end in ``filling``."""
    whole = np.full((rows, max(part.shape[1] for part in parts)), filling)
    begin = 0
    for part in parts:
        whole[begin : begin + len(part), : part.shape[1]] = part
        begin += len(part)
    return whole


class _Users(NamedTuple):
    """Who uses each link, each array of shape [links]."""

    senders: Ints
    """Ranks whose transfers pass the link."""
    receivers: Ints
    """Ranks to which these transfers go."""
    sending: Ints
    """Place of a link with a single sender among all such links of that rank."""
    receiving: Ints
    """Place of a link with a single receiver among all such links of that rank."""


def _uses(fabric: Geometry) -> Mask:
    """Return a mask, [2, link, rank], true at [0, link, rank] where the rank sends some transfer over the link, and at
    [1, link, rank] where it receives one over it, among all pairs of ranks on the routes that the fabric chooses.

    Raises:
        UnsupportedError: the mask does not fit in memory.
    """
    require_memory(2 * fabric.links * fabric.ranks, f"which of {fabric.ranks:,} ranks use which links")
    uses = np.zeros((2, fabric.links, fabric.ranks), np.bool_)
    for source, destination in pairs(fabric.ranks):
        transfer, link = links_of(fabric.footprint(source, destination, fabric.route(source, destination)))
        uses[0, link, source[transfer]] = True
        uses[1, link, destination[transfer]] = True
    return uses


@cached
def _users(fabric: Geometry) -> _Users:
    """Return, for each link, how many ranks send over it (``senders``) and how many receive over it (``receivers``),
    and, where that is one rank alone, the link's place from 0 among all such links of that rank (``sending``,
    ``receiving``, without meaning elsewhere): four arrays, [link]."""
    uses = _uses(fabric)
    return _users_of(uses, uses.sum(axis=2))


def _users_of(uses: Mask, ranks: Ints) -> _Users:
    """Return who uses each link: the numbers of ``ranks``, and from ``uses`` the places, from 0, of links with a single
    sender, and with a single receiver, among those of that rank.

    Args:
        uses: mask of senders (first) and receivers of each link: [2, link, rank].
        ranks: number of senders and of receivers of each link, [2, link]; may be of more ranks than ``uses`` shows.
    """
    return _Users(*ranks, *(_places(*side) for side in zip(ranks, uses, strict=True)))


@cached
def _users_of_thirds(fabric: Geometry) -> tuple[Mask, Ints]:
    """Return the mask of :func:`_uses`, and how many ranks of each third of the ranks, in order, send and receive over
    each link: [2, link, third]. The number of ranks must be a multiple of three."""
    uses = _uses(fabric)
    return uses, uses.reshape(2, fabric.links, 3, -1).sum(axis=3)


def _users_among(fabric: Geometry, parts: int) -> _Users:
    """Return who uses each link of a fabric of three equal parts, alike in any order, if it had ``parts`` such parts in
    place of three.

    Parts being alike, as many ranks use a link from every part but the one that it belongs to.
    """
    uses, of_third = _users_of_thirds(fabric)
    ordered = np.sort(of_third)
    # Of three numbers at least two are equal: the middle one is that of all parts but one.
    return _users_of(uses, ordered.sum(axis=2) + (parts - 3) * ordered[:, :, 1])


def _places(users: Ints, uses: Mask) -> Ints:
    """Return, for each link with a single user, its place from 0 among all such links of that rank: [link]; other links
    get numbers without meaning.

    Args:
        users: number of ranks that use each link, [link].
        uses: mask of the ranks that do, [link, rank].
    """
    owner = np.where(users == 1, uses.argmax(axis=1), uses.shape[1])
    order = np.argsort(owner, kind="stable")
    place = np.empty(len(users), np.int64)
    place[order] = np.arange(len(users)) - np.searchsorted(owner[order], owner[order])
    return place


def ports(fabric: Geometry, source: Ints, destination: Ints, parts: int = 3) -> Ports | None:
    """Return the ports and rates of transfers while all ports are busy; None where some transfer passes no link that
    its source alone sends over, or none that its destination alone receives over.

    A link that the transfers of many ranks pass is divided evenly among these ranks, or among the ranks they go to if
    those are fewer; a transfer's rate, in bytes per second, is the least share on its way. Its ports are the narrowest
    of the links that its source (``port``), and its destination (``entry``), have to themselves, each numbered from 0
    among all such links of that rank.

    Args:
        fabric: the fabric, whose chosen routes transfers take.
        source: rank at which each transfer begins, [transfer].
        destination: rank at which each transfer ends, [transfer].
        parts: number of alike parts that the fabric in question has; ``fabric`` holds three of them and stands for it,
            and is that fabric itself for 3.
    """
    users = _users(fabric) if parts == 3 else _users_among(fabric, parts)
    share = fabric.link_bandwidth() / np.maximum(np.minimum(users.senders, users.receivers), 1)
    transfer, link = links_of(fabric.footprint(source, destination, fabric.route(source, destination)))
    rate = np.full(len(source), np.inf)
    np.minimum.at(rate, transfer, share[link])

    def narrowest(own: Mask) -> Ints | None:
        """Return the narrowest of the own links that each transfer passes; None where one passes none."""
        passing, passed = transfer[own], link[own]
        width, narrow = np.full(len(source), np.inf), np.full(len(source), fabric.links)
        np.minimum.at(width, passing, share[passed])
        if not np.isfinite(width).all():
            return None
        first = share[passed] == width[passing]
        np.minimum.at(narrow, passing[first], passed[first])
        return narrow

    leaving, entering = narrowest(users.senders[link] == 1), narrowest(users.receivers[link] == 1)
    if leaving is None or entering is None:
        return None
    return Ports(users.sending[leaving], users.receiving[entering], rate)
