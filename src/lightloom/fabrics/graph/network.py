"""The graph of an edge list as arrays, its routes, and what they imply for bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np

from lightloom.core.arrays import Floats, Ints
from lightloom.core.effort import Effort
from lightloom.core.keys import packed
from lightloom.fabrics.graph.edges import Edge, Vertex, vertex_of
from lightloom.fabrics.graph.routing import Routes

_WALKS: Effort = 2
"""Times that the farthest rank is looked for, from rank 0 and then from the one that was found."""


class Network:
    """Vertices, ranks first, and directed links between them.

    Raises:
        ValueError: a vertex is no rank, a link joins a vertex to itself, or ranks cannot reach each other.
    """

    def __init__(self, ranks: int, edges: Sequence[Edge], hop_latency: float, *, one_way: bool) -> None:
        self.ranks = ranks
        self.names: list[Vertex] = list(range(ranks))
        numbers: dict[Vertex, int] = {rank: rank for rank in range(ranks)}
        ends = np.empty((2, len(edges)), np.int64)
        for row, edge in enumerate(edges):
            for side, name in enumerate((vertex_of(edge.source), vertex_of(edge.target))):
                if isinstance(name, int) and not 0 <= name < ranks:
                    raise ValueError(f"edge {edge.source}→{edge.target}: expected ranks from 0 to {ranks - 1}")
                if name not in numbers:
                    numbers[name] = len(self.names)
                    self.names.append(name)
                ends[side, row] = numbers[name]
            if ends[0, row] == ends[1, row]:
                raise ValueError(f"edge {edge.source}→{edge.target} joins a vertex to itself: expected two vertices")
        bandwidth = np.array([edge.bandwidth for edge in edges], dtype=np.float64)
        latency = np.array([hop_latency if edge.latency is None else edge.latency for edge in edges], dtype=np.float64)
        ways = 1 if one_way else 2
        self.numbers: Mapping[Vertex, int] = numbers
        self.tail = np.concatenate([ends[0], ends[1]][:ways])
        self.head = np.concatenate([ends[1], ends[0]][:ways])
        self.bandwidth: Floats = np.tile(bandwidth, ways)
        self.latency: Floats = np.tile(latency, ways)
        """Seconds of each link: [link]."""
        self._check_reachable()
        self.given: tuple[Ints, Ints] | None = None

    def __eq__(self, other: object) -> bool:
        """All follows from fields of the fabric, which are compared."""
        return isinstance(other, Network)

    __hash__ = None  # type: ignore[assignment]

    @property
    def vertices(self) -> int:
        return len(self.names)

    @property
    def links(self) -> int:
        return len(self.tail)

    def link_name(self, link: int) -> str:
        tail, head = int(self.tail[link]), int(self.head[link])
        same = np.flatnonzero((self.tail == tail) & (self.head == head))
        number = "" if len(same) == 1 else f" number {int(np.searchsorted(same, link)) + 1}"
        return f"link {self.names[tail]}→{self.names[head]}{number}"

    def _check_reachable(self) -> None:
        from scipy.sparse import csgraph, csr_array

        joined = csr_array((np.ones(self.links), (self.tail, self.head)), shape=(self.vertices, self.vertices))
        _, part = csgraph.connected_components(joined, directed=True, connection="strong")
        away = np.flatnonzero(part[: self.ranks] != part[0])
        if len(away):
            raise ValueError(
                f"no route leads from rank 0 to rank {away[0]} and back: expected links that join all "
                f"{self.ranks} ranks"
            )

    @cached_property
    def routes(self) -> Routes:
        """Shortest routes to every rank."""
        return Routes.through((self.tail, self.head), self.latency, self.vertices, self.ranks)

    def give(self, routes: Sequence[Sequence[Vertex]]) -> None:
        """Take these routes, each the vertices from one rank to another, instead of the shortest.

        ``hub#1`` is the vertex hub, reached over the second of the links that join it to the vertex before.

        Raises:
            ValueError: an unknown vertex, vertices that no link joins, ends that are no ranks, or a link taken twice.
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
            links = [
                (joined.get(ends, []) + [-1] * (turn + 1))[turn]
                for ends, turn in zip(pairwise(places), turns, strict=True)
            ]
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
        """Links of transfers in order, -1 beyond the end: [transfer, link]."""
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
        """Bytes per second of the links into each rank, and out of it: each [ranks]."""
        totals = np.zeros((2, self.vertices))
        np.add.at(totals[0], self.head, self.bandwidth)
        np.add.at(totals[1], self.tail, self.bandwidth)
        return totals[0, : self.ranks], totals[1, : self.ranks]

    def leaves(self) -> list[tuple[Vertex, int, float]]:
        """Switches with ranks that only they send to: (name, such ranks, bytes per second into or out of them, the
        larger of the two)."""
        from scipy.sparse import csr_array

        neighbours = csr_array((np.ones(self.links), (self.head, self.tail)), shape=(self.vertices,) * 2)
        single = np.flatnonzero(np.diff(neighbours.indptr)[: self.ranks] == 1)
        switch = neighbours.indices[neighbours.indptr[single]]
        leaves = []
        for leaf in np.unique(switch[switch >= self.ranks]):
            inside = np.append(single[switch == leaf], leaf)
            enters, leads = np.isin(self.head, inside), np.isin(self.tail, inside)
            crossing = max(self.bandwidth[enters & ~leads].sum(), self.bandwidth[leads & ~enters].sum())
            leaves.append((self.names[leaf], len(inside) - 1, float(crossing)))
        return leaves

    def farthest(self) -> float:
        """Seconds on the quickest way between two ranks that are far from each other."""
        start = 0
        for _ in range(_WALKS):
            seconds = self.seconds_between(start)
            start = int(np.argmax(seconds))
        return float(seconds.max())

    def seconds_between(self, start: int, *, backward: bool = False) -> Floats:
        """Seconds on the quickest way from one rank to each, or ``backward`` from each to it: [rank]."""
        from scipy.sparse import csgraph, csr_array

        # A sparse array would add up the latencies of links between the same two vertices: the quickest one counts, as
        # the index of a key is that of its first occurrence.
        order = np.argsort(self.latency, kind="stable")
        _, first = np.unique(packed((self.tail[order], self.head[order])), return_index=True)
        link = order[first]
        ends = (self.head[link], self.tail[link]) if backward else (self.tail[link], self.head[link])
        weights = csr_array((self.latency[link], ends), shape=(self.vertices,) * 2)
        seconds: Floats = csgraph.dijkstra(weights, indices=start)[: self.ranks]
        return seconds

    def nearest(self) -> float:
        """Seconds below which no transfer takes: a link between two ranks, or one away from a rank and one to a
        rank."""
        leaves, enters = self.tail < self.ranks, self.head < self.ranks
        direct = self.latency[leaves & enters].min(initial=np.inf)
        return float(min(direct, self.latency[leaves].min() + self.latency[enters].min()))
