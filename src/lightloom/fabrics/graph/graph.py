"""Fabrics of any graph."""

from __future__ import annotations

from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, PrivateAttr, model_validator

from lightloom.core.arrays import Floats, Ints
from lightloom.core.effort import Effort
from lightloom.fabrics import derived
from lightloom.fabrics.footprint import Cut, Footprint
from lightloom.fabrics.graph.bill import graph_bill
from lightloom.fabrics.graph.edges import Edge, Vertex
from lightloom.fabrics.graph.network import Network
from lightloom.fabrics.packets import PacketFabric
from lightloom.parts.bill import Bill
from lightloom.parts.choices import BillChoices
from lightloom.parts.part import Kind

_EXACT: Effort = 512
"""Most ranks for which cuts and distances are those of the routes; beyond, they are looser, and bounds still hold."""


class Graph(PacketFabric):
    """Ranks and switches joined by the links of an edge list; packets take shortest routes unless others are given."""

    kind: Literal["graph"] = "graph"
    edges: Annotated[tuple[Edge, ...], Field(min_length=1)]
    """Links, each ``[source, target, bandwidth, latency]`` or a mapping of these; or the name of a CSV file with such
    columns. Numbers are ranks, other names are switches."""
    one_way: bool = False
    """Whether an edge is a link from source to target only, and not one each way."""
    given_routes: tuple[tuple[Vertex, ...], ...] = ()
    """Routes as vertices, from rank to rank; all other transfers take the fewest links, spread over equal ways."""

    _network: Network = PrivateAttr()

    @model_validator(mode="after")
    def _routes_join_ranks(self) -> Self:
        self._network = Network(self.ranks, self.edges, self.hop_latency, one_way=self.one_way)
        if self.given_routes:
            self._network.give(self.given_routes)
        return self

    @property
    def takes_hop_latency(self) -> bool:
        return any(edge.latency is None for edge in self.edges)

    def with_hop_latency(self, seconds: float) -> Self:
        edges = tuple(edge._replace(latency=None) for edge in self.edges)
        return type(self).model_validate(dict(self) | {"hop_latency": seconds, "edges": edges})

    @property
    def joins_ranks(self) -> bool:  # type: ignore[override]
        """Whether every rank has a link to another and one from another."""
        network = self._network
        single = (network.tail < self.ranks) & (network.head < self.ranks)
        return len(np.unique(network.tail[single])) == len(np.unique(network.head[single])) == self.ranks

    @property
    def stated_power_of(self) -> tuple[Kind, ...] | None:  # type: ignore[override]
        """Network cards where there are switches."""
        return ("nic",) if self._network.vertices > self.ranks else None

    def bill_of_parts(self, choices: BillChoices) -> Bill:
        return graph_bill(self._network, choices)

    @property
    def links(self) -> int:
        return self._network.links

    def link_name(self, link: int) -> str:
        return self._network.link_name(link)

    def link_bandwidth(self) -> Floats:
        if self.packet_payload is None:
            return self._network.bandwidth.copy()
        rates, place = np.unique(self._network.bandwidth, return_inverse=True)
        return np.array([self.data_rate(rate) for rate in rates.tolist()])[place]

    def footprint(self, source: Ints, destination: Ints, route: Ints) -> Footprint:
        path = self._network.paths(source, destination)
        taken = path >= 0
        return Footprint(
            np.zeros_like(path), np.where(taken, path, 0), taken.astype(np.int64), np.full_like(path, self.links)
        )

    def path(self, source: Ints, destination: Ints, route: Ints) -> Ints:
        return self._network.paths(source, destination)

    def link_latency(self) -> Floats:
        return self._network.latency.copy()

    def hops(self, source: Ints, destination: Ints, route: Ints) -> Ints:
        links: Ints = (self._network.paths(source, destination) >= 0).sum(axis=1)
        return links

    def latency(self, source: Ints, destination: Ints, route: Ints) -> Floats:
        path = self._network.paths(source, destination)
        seconds = self._network.latency
        total: Floats = np.where(path >= 0, seconds[path], 0.0).sum(axis=1)
        return total

    def cuts(self) -> list[Cut]:
        network = self._network
        receive, send = self.rank_bandwidths()
        name = "what the links of one rank can receive"
        cuts = [Cut(name, 1, float(np.maximum(receive, send).min()))]
        cuts += [
            Cut(f"the links into {leaf} and its {inside} ranks", inside, capacity)
            for leaf, inside, capacity in network.leaves()
            if 1 < inside < self.ranks
        ]
        return cuts

    def rank_bandwidths(self) -> tuple[Floats, Floats]:
        return derived.rank_bandwidths(self) if self.ranks <= _EXACT else self._network.entering()

    def total_receive_bandwidth(self) -> float:
        receive, _ = self.rank_bandwidths()
        return float(receive.sum())

    def diameter(self) -> int:
        if self.given_routes:
            return derived.diameter(self)
        return int(self._network.routes.distance[: self.ranks].max())

    def diameter_latency(self) -> float:
        if self.ranks <= _EXACT:
            return derived.diameter_latency(self)
        return self._network.farthest()

    def root_latency(self, *, to_root: bool) -> float:
        if self.ranks <= _EXACT:
            return derived.root_latency(self, to_root=to_root)
        return float(self._network.seconds_between(0, backward=to_root).max())

    def neighbour_latency(self) -> float:
        if self.ranks <= _EXACT:
            return derived.neighbour_latency(self)
        return self._network.nearest()
