"""Fabrics of any graph."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PrivateAttr, model_validator

from lightloom.core.arrays import Effort, Floats, Int32s, Ints, packed
from lightloom.core.documents import read_csv
from lightloom.core.errors import ConfigError
from lightloom.core.fields import Bandwidth, Seconds
from lightloom.core.memory import require_memory
from lightloom.machines.fabrics import derived
from lightloom.machines.fabrics.derived import Cut, Footprint
from lightloom.machines.fabrics.packets import PacketFabric
from lightloom.machines.parts.bill import Bill, BillChoices
from lightloom.machines.parts.part import Kind

# Edge lists: who is joined to whom, in YAML or CSV.

Vertex = int | str
"""A rank by its number, or a switch by its name."""
_COLUMNS = ("source", "target", "bandwidth", "latency")


class Edge(NamedTuple):
    """One link of a graph."""

    source: Vertex
    target: Vertex
    bandwidth: Bandwidth
    """Bytes per second, in each direction that the link has."""
    latency: Seconds | None = None
    """Seconds; left out, ``hop_latency`` of the fabric."""


def read_edges(path: Path) -> list[dict[str, Any]]:
    """Return the edges of a CSV file with the columns source, target, bandwidth and, if wanted, latency, in any order,
    one mapping by column for each row. Numbers become ranks; bandwidths and latencies stay text, and empty cells are
    left out, as are empty rows and cells beyond the columns.

    Raises:
        ConfigError: the file cannot be read, a column is missing, repeated or unknown, or a row has no source, target
            or bandwidth; names the line.
    """
    (first, cells), *rows = read_csv(path) or [(1, [])]
    heading = [cell.strip() for cell in cells]
    if not set(_COLUMNS[:3]) <= set(heading) <= set(_COLUMNS) or len(set(heading)) < len(heading):
        raise ConfigError(f"{path}, line {first}: {','.join(heading)!r}: expected the columns {','.join(_COLUMNS)}")
    return [
        _edge(dict(zip(heading, (cell.strip() for cell in row), strict=False)), f"{path}, line {number}")
        for number, row in rows
    ]


def _edge(cells: dict[str, str], where: str) -> dict[str, Any]:
    """Return the cells of a row that are not empty, by column, as text, but ends (``source``, ``target``) that are
    digits as numbers of ranks.

    ``where`` names file and line in messages. ConfigError where an end or the bandwidth is missing.
    """
    if missing := [name for name in _COLUMNS[:3] if not cells.get(name)]:
        raise ConfigError(f"{where}: no {missing[0]}: expected source,target,bandwidth")
    edge: dict[str, Any] = {name: value for name, value in cells.items() if value}
    return edge | {name: vertex_of(cells[name]) for name in ("source", "target")}


def vertex_of(name: Vertex) -> Vertex:
    """Return the rank, a whole number, for a name of digits only; any other vertex unchanged."""
    return int(name) if isinstance(name, str) and name.isascii() and name.isdecimal() else name


# Deterministic shortest routes through a graph, towards every rank.
#
# A route has the fewest links, and of these the least latency, so that the way back takes as long. Where several
# have, a vertex sends data for rank d over the (d mod n)-th of its n links that lie on one, so that transfers to
# different ranks spread over equal ways (D-mod-k routing, as fat trees use it).

_ROUNDING = 1e-12
_PAIR_NBYTES = 24
"""Bytes that routes take at most for a vertex and a rank while they are searched."""
Distances = NDArray[np.int16]
_FAR = np.int16(np.iinfo(np.int16).max)


class Routes(NamedTuple):
    """Shortest routes from every vertex to every rank."""

    distance: Distances
    """Links on the way: [vertex, rank]."""
    link: Int32s
    """The link to take, -1 at the rank itself: [vertex, rank]."""

    @classmethod
    def through(cls, ends: tuple[Ints, Ints], seconds: Floats, vertices: int, ranks: int) -> Routes:
        """Return the shortest routes over directed links, by fewest links and then least latency; of n links out of a
        vertex that are equally good for rank d it takes number d mod n, counted from 0 in the order of the links, so
        that routes to different ranks spread. For each vertex and rank they hold the ``distance`` in links and the
        ``link`` to take, −1 at the rank itself and where no way leads, with the largest 16-bit integer as the distance
        then.

        Args:
            ends: vertices at which each link begins, and at which it ends, [link] each.
            seconds: latency of each link, [link].
            vertices: number of vertices, ranks and switches.
            ranks: number of ranks, which are the first vertices.

        Raises:
            UnsupportedError: the routes do not fit in memory.
        """
        require_memory(_PAIR_NBYTES * vertices * ranks, f"the routes of a graph among {ranks:,} ranks")
        tail, head = ends
        distance = _distances(tail, head, vertices, ranks)
        link = np.full((vertices, ranks), -1, np.int32)
        order = np.argsort(tail, kind="stable")
        first = np.searchsorted(tail[order], np.arange(vertices + 1))
        outgoing = [order[first[vertex] : first[vertex + 1]] for vertex in range(vertices)]
        latency = _latencies(distance, outgoing, head, seconds)
        for vertex, out in enumerate(outgoing):
            if len(out):
                nearer = distance[head[out]] == distance[vertex] - 1
                if latency is not None:
                    left = np.where(nearer, seconds[out, None] + latency[head[out]], np.inf)
                    nearer &= left <= latency[vertex] * (1 + _ROUNDING)
                turn = np.arange(ranks) % np.maximum(nearer.sum(axis=0), 1)
                chosen = np.argmax(np.cumsum(nearer, axis=0) == turn + 1, axis=0)
                link[vertex] = np.where(nearer.any(axis=0), out[chosen], -1)
        return cls(distance, link)

    def walk(self, head: Ints, source: Ints, destination: Ints) -> Ints:
        """Return the numbers of the links of transfers in the order in which they cross them, −1 beyond the end:
        [transfer, place], as many places as the longest route has links, but at least one.

        Args:
            head: vertex to which each link leads, [link].
            source: vertex at which each transfer begins, [transfer].
            destination: rank at which it ends, [transfer].
        """
        place = np.array(source, dtype=np.int64)
        links = self.distance[place, destination].max(initial=0)
        path = np.full((len(place), max(int(links), 1)), -1, np.int64)
        for step in range(int(links)):
            link = self.link[place, destination]
            path[:, step] = link
            place = np.where(link >= 0, head[link], place)
        return path


def _distances(tail: Ints, head: Ints, vertices: int, ranks: int) -> Distances:
    """Return the number of links on the shortest way from every vertex to every rank: [vertex, rank], the largest
    16-bit integer where no way leads there. ``tail`` and ``head`` are the vertices at which each link begins and
    ends."""
    from scipy.sparse import csr_array

    ahead = csr_array((np.ones(len(tail), np.float32), (tail, head)), shape=(vertices, vertices))
    distance = np.full((vertices, ranks), _FAR, np.int16)
    frontier = np.zeros((vertices, ranks), np.float32)
    np.fill_diagonal(frontier, 1.0)
    np.fill_diagonal(distance, 0)
    step = 0
    while frontier.any():
        step += 1
        reached = (ahead @ frontier > 0) & (distance == _FAR)
        distance[reached] = step
        frontier = reached.astype(np.float32)
    return distance


def _latencies(distance: Distances, outgoing: list[Ints], head: Ints, seconds: Floats) -> Floats | None:
    """Return the least seconds among the ways with the fewest links, from every vertex to every rank: [vertex, rank],
    infinite where none leads there; None where all links take equally long.

    Args:
        distance: fewest links, [vertex, rank].
        outgoing: numbers of the links that leave each vertex.
        head: vertex at which each link ends, [link].
        seconds: latency of each link, [link].
    """
    if (seconds == seconds[0]).all():
        return None
    latency = np.where(distance == 0, 0.0, np.inf)
    for step in range(1, int(distance[distance < _FAR].max()) + 1):
        for vertex, out in enumerate(outgoing):
            ranks = np.flatnonzero(distance[vertex] == step)
            if len(ranks):
                nearer = distance[np.ix_(head[out], ranks)] == step - 1
                left = np.where(nearer, seconds[out, None] + latency[np.ix_(head[out], ranks)], np.inf)
                latency[vertex, ranks] = left.min(axis=0)
    return latency


# The graph of an edge list as arrays, its routes, and what they imply for bounds.


class LinkNetwork:
    """Vertices, ranks first, and directed links between them.

    Raises:
        ValueError: a vertex is no rank, a link joins a vertex to itself, or ranks cannot reach each other.
    """

    def __init__(self, ranks: int, edges: Sequence[Edge], hop_latency: float, *, one_way: bool) -> None:
        """Number the vertices, ranks first and then switches as edges name them, and the links, edges forwards and
        then, unless ``one_way``, all of them backwards; edges without a latency take ``hop_latency``, in seconds.
        ValueError for a number that is no rank, an edge from a vertex to itself, or ranks that cannot reach each
        other."""
        self.ranks = ranks
        self.names: list[Vertex] = list(range(ranks))
        self.numbers: dict[Vertex, int] = {rank: rank for rank in range(ranks)}
        ends = np.empty((2, len(edges)), np.int64)
        for row, edge in enumerate(edges):
            for side, name in enumerate((vertex_of(edge.source), vertex_of(edge.target))):
                if isinstance(name, int) and not 0 <= name < ranks:
                    raise ValueError(f"edge {edge.source}→{edge.target}: expected ranks from 0 to {ranks - 1}")
                if name not in self.numbers:
                    self.numbers[name] = len(self.names)
                    self.names.append(name)
                ends[side, row] = self.numbers[name]
            if ends[0, row] == ends[1, row]:
                raise ValueError(f"edge {edge.source}→{edge.target} joins a vertex to itself: expected two vertices")
        seconds = [hop_latency if edge.latency is None else edge.latency for edge in edges]
        ways = 1 if one_way else 2
        self.tail, self.head = (np.concatenate([ends[side], ends[1 - side]][:ways]) for side in (0, 1))
        self.bandwidth: Floats = np.tile(np.array([edge.bandwidth for edge in edges], np.float64), ways)
        self.latency: Floats = np.tile(np.array(seconds, np.float64), ways)
        """Seconds of each link: [link]."""
        self._check_reachable()
        self.given: tuple[Ints, Ints] | None = None

    def __eq__(self, other: object) -> bool:
        """Return True for any network: all follows from fields of the fabric, which are compared."""
        return isinstance(other, LinkNetwork)

    __hash__ = None  # type: ignore[assignment]

    @property
    def links(self) -> int:
        """Return the number of directed links, both ways of an edge counted unless edges are one way."""
        return len(self.tail)

    def link_name(self, link: int) -> str:
        """Return the two ends of a link, such as ``link 0→leaf``, or ``link 0→leaf number 2``, counted from 1, where
        several links lead from one to the other."""
        tail, head = int(self.tail[link]), int(self.head[link])
        same = np.flatnonzero((self.tail == tail) & (self.head == head))
        number = "" if len(same) == 1 else f" number {int(np.searchsorted(same, link)) + 1}"
        return f"link {self.names[tail]}→{self.names[head]}{number}"

    def _check_reachable(self) -> None:
        """Raise ValueError unless every rank reaches rank 0 and is reached from it, over switches too."""
        from scipy.sparse import csgraph, csr_array

        joined = csr_array((np.ones(self.links), (self.tail, self.head)), shape=(len(self.names), len(self.names)))
        _, part = csgraph.connected_components(joined, directed=True, connection="strong")
        away = np.flatnonzero(part[: self.ranks] != part[0])
        if len(away):
            raise ValueError(
                f"no route leads from rank 0 to rank {away[0]} and back: expected links that join all "
                f"{self.ranks} ranks"
            )

    @cached_property
    def routes(self) -> Routes:
        """Shortest routes from every vertex to every rank, searched once; given routes are not among them.
        UnsupportedError where they do not fit in memory."""
        return Routes.through((self.tail, self.head), self.latency, len(self.names), self.ranks)

    def give(self, routes: Sequence[Sequence[Vertex]]) -> None:
        """Take the given routes in place of the shortest ones between their ends; later ones of the same ends replace
        earlier.

        Each route is the sequence of vertices from one rank to another. ``hub#1`` is the vertex hub, reached over the
        second of the links that join it to the vertex before.

        Raises:
            ValueError: an unknown vertex, vertices that no link joins, ends that are not two different ranks, or a link
                taken twice.
        """
        paths: dict[int, list[int]] = {}
        joined: dict[tuple[int, int], list[int]] = {}
        for link, ends in enumerate(zip(self.tail.tolist(), self.head.tolist(), strict=True)):
            joined.setdefault(ends, []).append(link)
        for names in routes:
            text = f"route {'→'.join(map(str, names))}"
            parts = [str(name).partition("#") for name in names]
            places = [self.numbers.get(vertex_of(name), -1) for name, _, _ in parts]
            turns = [int(turn) if turn.isdecimal() else 0 for _, _, turn in parts[1:]]
            hops = zip(pairwise(places), turns, strict=True)
            links = [(joined.get(ends, []) + [-1] * (turn + 1))[turn] for ends, turn in hops]
            if -1 in links:
                raise ValueError(f"{text}: no link joins two of its neighbours")
            if not links or max(places[0], places[-1]) >= self.ranks or places[0] == places[-1]:
                raise ValueError(f"{text}: expected a way from one rank to another")
            if len(set(links)) < len(links):
                raise ValueError(f"{text} takes a link twice: expected each once")
            paths[places[0] * self.ranks + places[-1]] = links
        table = np.full((len(paths), max(map(len, paths.values()))), -1, np.int64)
        for row, key in enumerate(sorted(paths)):
            table[row, : len(paths[key])] = paths[key]
        self.given = np.array(sorted(paths), dtype=np.int64), table

    def paths(self, source: Ints, destination: Ints) -> Ints:
        """Return the numbers of the links of transfers between ranks in the order in which they cross them, −1 beyond
        the end: [transfer, place]. A transfer takes the route that was given for its pair of ranks, otherwise the
        shortest."""
        source, destination = np.asarray(source, np.int64), np.asarray(destination, np.int64)
        path = self.routes.walk(self.head, source, destination)
        if self.given is None:
            return path
        keys, table = self.given
        wanted = source * self.ranks + destination
        row = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        given = keys[row] == wanted
        result = np.full((len(path), max(path.shape[1], table.shape[1])), -1, np.int64)
        result[:, : path.shape[1]] = path
        # A given route has no fewer links than the shortest one that it replaces.
        result[given, : table.shape[1]] = table[row[given]]
        return result

    def entering(self) -> tuple[Floats, Floats]:
        """Return the summed bytes per second of the links into each rank, and of those out of it: two arrays, [rank]
        each."""
        receive, send = (
            np.asarray(np.bincount(end, self.bandwidth)[: self.ranks], np.float64) for end in (self.head, self.tail)
        )
        return receive, send

    def leaves(self) -> list[tuple[Vertex, int, float]]:
        """Return the switches that are the only vertex from which some ranks have links, in the order of the vertices.

        Each is (name of the switch, number of such ranks, bytes per second of the links into switch and these ranks
        together, or out of them, whichever is larger).
        """
        from scipy.sparse import csr_array

        neighbours = csr_array((np.ones(self.links), (self.head, self.tail)), shape=(len(self.names),) * 2)
        single = np.flatnonzero(np.diff(neighbours.indptr)[: self.ranks] == 1)
        switch = neighbours.indices[neighbours.indptr[single]]
        leaves = []
        for leaf in np.unique(switch[switch >= self.ranks]):
            inside = np.append(single[switch == leaf], leaf)
            enters, leads = np.isin(self.head, inside), np.isin(self.tail, inside)
            crossing = max(self.bandwidth[enters & ~leads].sum(), self.bandwidth[leads & ~enters].sum())
            leaves.append((self.names[leaf], len(inside) - 1, float(crossing)))
        return leaves

    def seconds_between(self, start: int, *, backward: bool = False) -> Floats:
        """Return the seconds on the quickest way from the vertex ``start`` to each rank, or ``backward`` from each rank
        to it, however many links it has: [rank]."""
        from scipy.sparse import csgraph, csr_array

        # A sparse array would add up the latencies of links between the same two vertices: the quickest one counts, as
        # the index of a key is that of its first occurrence.
        order = np.argsort(self.latency, kind="stable")
        _, first = np.unique(packed((self.tail[order], self.head[order])), return_index=True)
        link = order[first]
        ends = (self.head[link], self.tail[link]) if backward else (self.tail[link], self.head[link])
        weights = csr_array((self.latency[link], ends), shape=(len(self.names),) * 2)
        return np.asarray(csgraph.dijkstra(weights, indices=start)[: self.ranks])


_EXACT: Effort = 512
"""Most ranks for which cuts and distances are those of the routes; beyond, they are looser, and bounds still hold."""


class Graph(PacketFabric):
    """Ranks and switches joined by the links of an edge list; packets take shortest routes unless others are given."""

    kind: Literal["graph"] = "graph"
    edges: Annotated[tuple[Edge, ...], Field(min_length=1)]
    """Links, each ``[source, target, bandwidth, latency]`` or a mapping of these; or the name of a CSV file with such
    columns. Numbers are ranks, other names are switches."""
    one_way: bool = False
    """True if an edge is a link from source to target only, and not one each way."""
    given_routes: tuple[tuple[Vertex, ...], ...] = ()
    """Routes as vertices, from rank to rank; all other transfers take the fewest links, spread over equal ways."""

    _network: LinkNetwork = PrivateAttr()

    @model_validator(mode="after")
    def _routes_join_ranks(self) -> Self:
        """Set up the network of the edges and given routes in ``_network`` and return the graph; ValueError for edges
        or routes that :class:`LinkNetwork` refuses, such as those that do not join all ranks."""
        self._network = LinkNetwork(self.ranks, self.edges, self.hop_latency, one_way=self.one_way)
        if self.given_routes:
            self._network.give(self.given_routes)
        return self

    @property
    def takes_hop_latency(self) -> bool:
        """True if some edge states no latency of its own."""
        return any(edge.latency is None for edge in self.edges)

    def with_hop_latency(self, seconds: float) -> Self:
        """Return this graph with ``seconds`` as the latency of every link, in place of what edges state."""
        edges = tuple(edge._replace(latency=None) for edge in self.edges)
        return type(self).model_validate(dict(self.model_copy()) | {"hop_latency": seconds, "edges": edges})

    @property
    def joins_ranks(self) -> bool:  # type: ignore[override]
        """True if every rank has a link straight to another rank and one straight from another."""
        network = self._network
        single = (network.tail < self.ranks) & (network.head < self.ranks)
        return len(np.unique(network.tail[single])) == len(np.unique(network.head[single])) == self.ranks

    @property
    def stated_power_of(self) -> tuple[Kind, ...] | None:  # type: ignore[override]
        """Kinds of part whose watts ``power_per_rank`` states: network cards where there are switches; otherwise None,
        all parts."""
        return ("nic",) if len(self._network.names) > self.ranks else None

    def bill_of_parts(self, choices: BillChoices) -> Bill:
        """Return the bill of the cards, switch ports and cables of all links, per rank."""
        from lightloom.machines.fabrics.bills.links import graph_bill

        return graph_bill(self.ranks, self._network.tail, self._network.head, self._network.bandwidth, choices)

    @property
    def links(self) -> int:
        """Return the number of directed links, two for each edge unless edges are one way."""
        return self._network.links

    def link_name(self, link: int) -> str:
        """Return the two ends of a link, such as ``link 0→leaf``, or ``link 0→leaf number 2``, counted from 1, where
        several links lead from one to the other."""
        return self._network.link_name(link)

    def link_bandwidth(self) -> Floats:
        """Return the bytes of data per second of each link, headers of packets left out: [link]."""
        if self.packet_payload is None:
            return self._network.bandwidth.copy()
        rates, place = np.unique(self._network.bandwidth, return_inverse=True)
        return np.array([self.data_rate(rate) for rate in rates.tolist()])[place]

    def footprint(self, source: Ints, destination: Ints, route: Ints) -> Footprint:
        """Return the links of each transfer, whatever the route number, as runs of one link each, a run for each link
        on its path; shorter paths end in runs of length 0."""
        path = self._network.paths(source, destination)
        taken = path >= 0
        return Footprint(
            np.zeros_like(path), np.where(taken, path, 0), taken.astype(np.int64), np.full_like(path, self.links)
        )

    def path(self, source: Ints, destination: Ints, route: Ints) -> Ints:
        """Return the links of each transfer in the order in which it crosses them, whatever the route number, −1
        filling up: [transfer, place]."""
        return self._network.paths(source, destination)

    def link_latency(self) -> Floats:
        """Return the seconds of each link, stated or ``hop_latency``: [link]."""
        return self._network.latency.copy()

    def latency(self, source: Ints, destination: Ints, route: Ints) -> Floats:
        """Return the summed seconds of the links on the path of each transfer, whatever the route number:
        [transfer]."""
        path = self._network.paths(source, destination)
        return np.asarray(np.where(path >= 0, self._network.latency[path], 0.0).sum(axis=1))

    def cuts(self) -> list[Cut]:
        """Return the cut around the rank that can exchange least, and the cuts around each switch with two ranks or
        more, but not all, that receive from it alone, together with these ranks."""
        receive, send = self.rank_bandwidths()
        around = [
            Cut(f"the links into {leaf} and its {inside} ranks", inside, capacity)
            for leaf, inside, capacity in self._network.leaves()
            if 1 < inside < self.ranks
        ]
        return [Cut("what the links of one rank can receive", 1, float(np.maximum(receive, send).min())), *around]

    def rank_bandwidths(self) -> tuple[Floats, Floats]:
        """Return the bytes per second that no rank exceeds in receiving, and in sending, [rank] each: up to 512 ranks
        from the links that routes really pass, beyond that the sums over a rank's links."""
        return derived.rank_bandwidths(self) if self.ranks <= _EXACT else self._network.entering()

    def diameter(self) -> int:
        """Return the number of links on the longest route between two ranks, given routes included; without given
        routes these are the shortest."""
        return derived.diameter(self) if self.given_routes else int(self._network.routes.distance[: self.ranks].max())

    def diameter_latency(self) -> float:
        """Return the seconds between the two ranks farthest apart, for up to 512 ranks. For more, a lower bound: the
        quickest way from the rank that is farthest from rank 0 to the rank farthest from it."""
        if self.ranks <= _EXACT:
            return derived.diameter_latency(self)
        # The farthest rank from the one that is farthest from rank 0.
        return float(self._network.seconds_between(int(np.argmax(self._network.seconds_between(0)))).max())

    def root_latency(self, *, to_root: bool) -> float:
        """Return the seconds in which rank 0 reaches the rank farthest from it, or with ``to_root`` that rank reaches
        rank 0; for more than 512 ranks on the quickest way, whatever the routes."""
        if self.ranks <= _EXACT:
            return derived.root_latency(self, to_root=to_root)
        return float(self._network.seconds_between(0, backward=to_root).max())

    def neighbour_latency(self) -> float:
        """Return the least seconds of a transfer between two ranks; for more than 512 ranks a lower bound: the quickest
        link between two ranks, or the quickest link out of a rank plus the quickest into one, whichever is less."""
        if self.ranks <= _EXACT:
            return derived.neighbour_latency(self)
        # A link between two ranks, or one away from a rank and one to a rank.
        network = self._network
        seconds, leaves, enters = network.latency, network.tail < self.ranks, network.head < self.ranks
        return float(min(seconds[leaves & enters].min(initial=np.inf), seconds[leaves].min() + seconds[enters].min()))
