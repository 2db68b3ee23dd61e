"""Things that fail, as files and commands name them, and what each leaves of a fabric.

Rings of wavelengths:

    wavelength:3              a line of the comb is dark, everywhere and both ways
    transceiver:9:2           node 9 neither sends nor receives on channel 2, both ways; ``:clockwise`` one way
    segment:17:clockwise      the clockwise fibres from node 17 to the next are broken
    cable:17                  the fibres between node 17 and the next, both ways
    node:5                    a node is dead, but light passes its micro-rings
    dark-node:5               and not even light passes

Grids, graphs and switches:

    link:3:4                  the links between nodes 3 and 4, both ways
    node:5, dark-node:5       a node is dead, and its router passes data on, or not; on a switch both say the same
    plane:2                   a plane of a circuit switch

Failures count nodes as they were. Ranks are those of the nodes that are left, in order: a collective is among them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, Self, overload

import numpy as np
from pydantic import BaseModel, ConfigDict, WithJsonSchema, model_serializer, model_validator

from lightloom.core.arrays import Floats, Ints, Mask
from lightloom.core.configfile import validate
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.machines.fabrics.derived import Cut, pairs
from lightloom.machines.fabrics.fabric import CLOCKWISE, COUNTERCLOCKWISE, Fabric
from lightloom.machines.fabrics.graph import Edge, Graph, Vertex
from lightloom.machines.fabrics.wdm_ring import WavelengthRing
from lightloom.machines.parts.bill import Bill, BillChoices

WAYS = ("clockwise", "counter-clockwise")
FORMS = {
    "wavelength": "wavelength:NUMBER",
    "transceiver": "transceiver:NODE:CHANNEL[:WAY]",
    "segment": "segment:NODE:WAY",
    "cable": "cable:NODE",
    "node": "node:NODE",
    "dark-node": "dark-node:NODE",
    "link": "link:NODE:NODE",
    "plane": "plane:NUMBER",
}


class Failure(BaseModel):
    """One thing that has failed; written and read as the text of ``FORMS``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    what: Literal["wavelength", "transceiver", "segment", "cable", "node", "dark-node", "link", "plane"]
    at: int
    """Wavelength, plane, or node; segments and cables lead from this node to the next clockwise."""
    to: int | None = None
    """The node at the other end of a link; None of all else."""
    channel: int = 0
    """Channel of a transceiver: fibre · wavelengths + wavelength."""
    way: int | None = None
    """0 clockwise, 1 counter-clockwise, None both."""

    @classmethod
    def parse(cls, text: str) -> Failure:
        """Return the failure that a text such as ``node:5`` or ``segment:17:clockwise`` describes. Numbers are not
        compared with any fabric.

        Raises:
            ConfigError: the text has none of the forms of ``FORMS``.
        """
        try:
            return cls(**_parsed_fields(text))
        except ValueError as error:
            raise ConfigError(f"failure {text!r}: expected one of {', '.join(FORMS.values())}") from error

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        """Return the fields of a failure that is given as text; anything else unchanged. ValueError for a text of no
        form of ``FORMS``."""
        return _parsed_fields(value) if isinstance(value, str) else value

    @model_serializer
    def text(self) -> str:
        """Return the text in the form in which a failure is read, such as ``segment:17:clockwise``."""
        parts = [self.what, str(self.at)]
        parts += [str(self.channel)] if self.what == "transceiver" else []
        parts += [str(self.to)] if self.what == "link" else []
        return ":".join(parts + ([] if self.way is None else [WAYS[self.way]]))


def _parsed_fields(text: str) -> dict[str, Any]:
    """Return the fields of a failure written as ``what:at``, followed by a transceiver's channel (``channel``), a
    link's other end (``to``) or a way around (``way``: 0 clockwise, 1 counter-clockwise, None if not stated) as
    ``FORMS`` says; ValueError for any other text."""
    what, *rest = text.split(":")
    second, way = {"transceiver": "channel", "link": "to"}.get(what), None
    if rest and rest[-1] in WAYS and what in ("transceiver", "segment"):
        way = WAYS.index(rest.pop())
    if what not in FORMS or len(rest) != (1 if second is None else 2) or (what == "segment") > (way is not None):
        raise ValueError(f"{text!r}: expected one of {', '.join(FORMS.values())}")
    return {"what": what, "at": int(rest[0]), "way": way} | ({} if second is None else {second: int(rest[1])})


# What failures leave of fabrics without wavelengths: grids, graphs, packet switches and planes of circuit switches.
#
#     links between ranks    the links that are left as a graph, on which packets take the shortest ways that there are
#     a packet switch        the switch with the ranks that are left
#     switch planes          the planes and ranks that are left
#
# A dead node whose light, or router, still passes data on becomes a vertex without a rank.

_OWN = frozenset({"kind", "ranks", "sources", "edges", "one_way", "given_routes"})
"""Fields of a graph that do not come from the fabric; packets are in the rates of its links already."""
_PACKETS = frozenset({"packet_payload", "packet_header", "packet_time"})


def without(fabric: Fabric, failures: Sequence[Failure]) -> Fabric:
    """Return what is left of a fabric without wavelengths after failures: a graph where links join ranks, otherwise the
    same kind of fabric with fewer ranks, and fewer planes (``degree``) on a circuit switch.

    Raises:
        ConfigError: something failed that the fabric does not have, or fewer than two ranks, no link or no plane is
            left.
        UnsupportedError: links of the fabric join switches, or several of them the same two ranks.
    """
    dead = _dead_nodes(failures)
    for failure in failures:
        outside = [node for node in (failure.at, failure.to) if node is not None and not 0 <= node < fabric.ranks]
        if outside and failure.what != "plane":
            raise ConfigError(f"{failure.text()}: expected one of {fabric.ranks} nodes, counted from 0")
    if fabric.ranks - len(dead) < 2:
        raise ConfigError(f"failures leave {fabric.ranks - len(dead)} of {fabric.ranks} ranks: expected 2 or more")
    if fabric.joins_ranks:
        return _remaining_graph(fabric, failures)
    planes = {failure.at for failure in failures if failure.what == "plane"}
    for at in planes:
        if not 0 <= at < fabric.channels:
            raise ConfigError(f"plane:{at}: expected one of {fabric.channels} planes, counted from 0")
    if fabric.switch_planes and len(planes) == fabric.channels:
        raise ConfigError(f"all {len(planes)} planes have failed: expected one that is left")
    fields = fabric.model_dump() | {"ranks": fabric.ranks - len(dead)}
    fields |= {"degree": fabric.channels - len(planes)} if planes else {}
    return validate(type(fabric), fields, "failures")


def _dead_nodes(failures: Iterable[Failure]) -> set[int]:
    """Return the nodes that have failed, dark ones included, as nodes were numbered before anything failed."""
    return {failure.at for failure in failures if failure.what in ("node", "dark-node")}


def links_between_ranks(fabric: Fabric) -> list[Edge]:
    """Return every link that some transfer uses as an edge (source, target, bandwidth in bytes of data per second,
    latency in seconds) from one rank to another, one way, by source and then target.

    All pairs of ranks on all routes are looked at.

    Raises:
        UnsupportedError: some link begins or ends at a switch, or two links lead from one rank to the same other one:
            as one edge of both rates these would carry more than the sound fabric, whose transfers take one of them.
    """
    from scipy.sparse import csgraph, csr_array

    rate, seconds = fabric.link_bandwidth(), fabric.link_latency()
    tail, head = np.full((2, fabric.links), -1, np.int64)
    used, follow = np.zeros(fabric.links, np.bool_), [np.zeros(0, np.int64)]
    for source, destination in pairs(fabric.ranks):
        for route in range(fabric.routes):
            path = fabric.path(source, destination, np.full(len(source), route))
            taken = path >= 0
            used[path[taken]] = True
            row = np.arange(len(path))
            tail[path[row, taken.argmax(axis=1)]] = source
            head[path[row, path.shape[1] - 1 - taken[:, ::-1].argmax(axis=1)]] = destination
            onward = taken[:, 1:] & taken[:, :-1]
            follow.append(np.unique(path[:, :-1][onward] * fabric.links + path[:, 1:][onward]))
    # Where one link leads, the next one begins: both ends are one vertex.
    before, after = np.divmod(np.unique(np.concatenate(follow)), fabric.links)
    meets = csr_array((np.ones(len(after)), (fabric.links + before, after)), shape=(2 * fabric.links,) * 2)
    count, vertex = csgraph.connected_components(meets, directed=False)
    rank = np.full(count, -1, np.int64)
    np.maximum.at(rank, vertex, np.concatenate([tail, head]))
    tail, head = rank[vertex].reshape(2, -1)
    # Between a link to a switch and one from it no rank is known.
    through = np.flatnonzero(used & ((tail < 0) | (head < 0)))
    if len(through):
        raise UnsupportedError(
            f"failures of a {fabric.kind_name} whose {fabric.link_name(int(through[0]))} joins no two ranks are not "
            "modelled: expected links between ranks alone"
        )
    links = np.flatnonzero(used)
    ends, first = np.unique(tail[links] * fabric.ranks + head[links], return_index=True)
    one, other = np.divmod(ends, fabric.ranks)
    if len(ends) < len(links):
        twice = np.delete(links, first)[0]
        raise UnsupportedError(
            f"failures of a {fabric.kind_name} with several links from rank {tail[twice]} to rank {head[twice]} are "
            "not modelled: expected one link from a rank to another"
        )
    columns = one, other, rate[links[first]], seconds[links[first]]
    return [Edge(*link) for link in zip(*(column.tolist() for column in columns), strict=True)]


def _remaining_graph(fabric: Fabric, failures: Sequence[Failure]) -> Fabric:
    """Return the graph of the ranks that are left of a fabric whose links join ranks, renumbered in order. Links that
    failed are left out, both ways; a dead node stays as a switch, ``dead node 5``, that passes data on, a dark one is
    gone with its links. Headers of packets are in the links' rates and the energy of a bit.

    Raises:
        ConfigError: no link joins the ends of a failed link, no link is left, or the ranks are cut apart.
        UnsupportedError: some link joins a switch, or two links lead from one rank to the same other one.
    """
    edges = links_between_ranks(fabric)
    joined = {frozenset((edge.source, edge.target)) for edge in edges}
    cut = {frozenset((failure.at, failure.to)): failure for failure in failures if failure.what == "link"}
    for ends, failure in cut.items():
        if ends not in joined:
            raise ConfigError(f"{failure.text()}: no link joins these nodes")
    passing = _dead_nodes(failures) - {failure.at for failure in failures if failure.what == "dark-node"}
    left = sorted(set(range(fabric.ranks)) - _dead_nodes(failures))
    vertex: dict[Vertex, Vertex] = {node: rank for rank, node in enumerate(left)}
    vertex |= {node: f"dead node {node}" for node in passing}
    kept = [
        edge._replace(source=vertex[edge.source], target=vertex[edge.target])
        for edge in edges
        if frozenset((edge.source, edge.target)) not in cut and edge.source in vertex and edge.target in vertex
    ]
    if not kept:
        raise ConfigError("failures: no link is left: expected some that join the ranks")
    names = (set(Graph.model_fields) & set(type(fabric).model_fields)) - _OWN - _PACKETS
    fields = {name: getattr(fabric, name) for name in names}
    if fabric.energy_per_bit is not None:
        fields["energy_per_bit"] = fabric.energy_per_bit * fabric.wire_bytes(1.0)
    given = {"ranks": len(left), "edges": kept, "one_way": True, "sources": dict(fabric.sources)}
    return validate(Graph, fields | given, "failures")


_Written = Annotated[Failure, WithJsonSchema({"type": "string", "examples": list(FORMS.values())})]


class DamagedWdmRing(WavelengthRing):
    """A ring of wavelengths after failures; ``ranks`` are the nodes that still work.

    Between two of them a link leads past the dead nodes that lie there, each of which adds a link's propagation.
    """

    kind: Literal["damaged-wdm-ring"] = "damaged-wdm-ring"
    failures: tuple[_Written, ...] = ()
    """Failures on the ring, in the order in which they were given."""

    damaged: ClassVar[bool] = True

    @property
    def failures_text(self) -> str:
        """Return the failures in the form in which they are given, joined by commas: ``node:5, cable:17``."""
        return ", ".join(failure.text() for failure in self.failures)

    @model_validator(mode="after")
    def _holds_together(self) -> Self:
        """Raise ValueError for failures of things that the ring does not have, that cut it apart, or that leave a node
        nothing to send or receive on; otherwise return the ring unchanged."""
        for failure in self.failures:
            parts = "wavelengths" if failure.what == "wavelength" else "nodes"
            limit: int = getattr(self, parts)
            if failure.what in ("link", "plane"):
                raise ValueError(f"{failure.text()}: expected a failure of a ring of wavelengths")
            if not 0 <= failure.at < limit:
                raise ValueError(f"{failure.text()}: expected one of {limit} {parts}, counted from 0")
            if not 0 <= failure.channel < self.channels:
                raise ValueError(f"{failure.text()}: expected one of {self.channels} channels, counted from 0")
        lit = ~self._dark
        # Where both ways are cut, data still gets everywhere if it is the same cable: the ring is then a line.
        if not lit.all(axis=1).any() and not (lit.sum() == lit.size - 2 and (lit[0] == lit[1]).all()):
            raise ValueError("the failures cut the ring into parts that cannot reach each other")
        for verb, receive in (("receive", True), ("send", False)):
            channels = self._rank_channels(receive=receive)
            if not channels.all():
                raise ValueError(f"the failures leave node {self.survivors[np.argmin(channels)]} nothing to {verb} on")
        return self

    def bill_of_parts(self, choices: BillChoices) -> Bill:
        """Return the bill of all nodes of the ring, dead ones included, since they were paid for and draw power,
        divided among the ranks that are left; the bandwidth of a rank is not changed."""
        bill = super().bill_of_parts(choices)
        return replace(bill.times(self.nodes / self.ranks), ranks=self.ranks, bandwidth=bill.bandwidth)

    @property
    def nodes(self) -> int:
        """Number of nodes before anything failed: the ranks that are left, and the dead nodes."""
        return self.ranks + len(_dead_nodes(self.failures))

    @property
    def survivors(self) -> Ints:
        """Node of each rank, as numbered before anything failed: [rank]."""
        return np.array(sorted(set(range(self.nodes)) - _dead_nodes(self.failures)), np.int64)

    @property
    def lit_channels(self) -> Mask:
        """Return a mask, true for the channels whose wavelength the comb still gives, in every fibre: [channels]."""
        lit = np.ones(self.channels, np.bool_)
        for failure in self.failures:
            if failure.what == "wavelength":
                lit[failure.at :: self.wavelengths] = False
        return lit

    def blocked(self) -> Mask:
        """Return a mask, true for the channels of each link that carry nothing, as their wavelength is dark, or the
        fibres between the link's ends are broken or lead through a dark node: [link, channel]. Links are numbered as in
        ``link_bandwidth``."""
        blocked = np.tile(~self.lit_channels, (self.links, 1))
        for failure in self.failures:
            if failure.what in ("segment", "cable", "dark-node"):
                # Between the ranks to either side of a dead node there is one link.
                for way in (0, 1) if failure.way is None else (failure.way,):
                    blocked[way * self.ranks + self._after(failure.at)] = True
        return blocked

    @property
    def _dark(self) -> Mask:
        """Return a mask, true for links on which no channel carries anything, by way (0 clockwise, 1 counter-clockwise)
        and the rank from which the link leads clockwise to the next, or to which it leads counter-clockwise from there:
        [way, rank]."""
        return np.asarray(self.blocked().all(axis=1).reshape(2, self.ranks))

    def blocked_ends(self) -> Mask:
        """Return a mask, true for the channels on which a rank can neither send nor receive one way around, as its
        transceiver has failed: [rank, way, channel], way 0 clockwise. Transceivers of dead nodes are left out."""
        blocked = np.zeros((self.ranks, self.routes, self.channels), np.bool_)
        for failure in self.failures:
            if failure.what == "transceiver" and failure.at in self.survivors:
                way = slice(None) if failure.way is None else failure.way
                blocked[self._after(failure.at), way, failure.channel] = True
        return blocked

    def _after(self, node: int) -> int:
        """Return the number of the rank that a node has become, or, for a dead node, of the last living one before it
        on the ring."""
        return int(np.searchsorted(self.survivors, node % self.nodes, side="right") - 1) % self.ranks

    def link_name(self, link: int) -> str:
        """Return direction and ends of the link of a number (below ``ranks`` clockwise from the rank of that number,
        the others counter-clockwise to the rank of the rest), such as ``clockwise link 3→5 (as nodes were counted)``,
        by the numbers of the nodes before anything failed."""
        way, at = divmod(link, self.ranks)
        ends = self.survivors[[at, (at + 1) % self.ranks]].tolist()
        a, b = ends if way == CLOCKWISE else reversed(ends)
        return f"{WAYS[way]} link {a}→{b} (as nodes were counted)"

    @property
    def usable_channels(self) -> int:
        """Return the number of channels whose wavelength is still lit, counted over all fibres, or half the
        transceivers of a node, rounded down, where these are fewer."""
        lit = int(self.lit_channels.sum())
        return lit if self.transceivers is None else min(lit, self.transceivers // 2)

    def latency(self, source: Ints, destination: Ints, route: Ints) -> Floats:
        """Return ``hop_latency`` times the links of the whole ring that each transfer passes, dead nodes counted:
        [transfer]. ``route`` is 0 clockwise, 1 counter-clockwise."""
        at, to = self.survivors[np.asarray(source)], self.survivors[np.asarray(destination)]
        passed = np.where(np.asarray(route) == CLOCKWISE, to - at, at - to) % self.nodes
        return self.hop_latency * passed.astype(np.float64)

    def diameter(self) -> int:
        """Return the number of links between the two ranks farthest apart: half of the ranks, rounded down, or one less
        than the ranks where some link carries nothing, as the ring is then a line."""
        return self.ranks - 1 if self._dark.any() else self.ranks // 2

    def diameter_latency(self) -> float:
        """Return the seconds between the two ranks farthest apart, dead nodes between them counted as links; where a
        link carries nothing, the seconds between the ends of the shortest such link the other way round."""
        place = self.survivors
        if (dark := self._dark.any(axis=0)).any():
            # The ends of the shortest broken link are the farthest from each other, the other way round.
            return self.hop_latency * (self.nodes - int(self._gaps[dark].min()))
        # The first node that is left half of the way round or beyond, from each of them: of the two that are farthest
        # from each other, one is that of the other.
        twice = np.concatenate([place, place + self.nodes])
        stride = twice[np.searchsorted(twice, place + self.nodes / 2)] - place
        return self.hop_latency * float(np.minimum(stride, self.nodes - stride).max())

    @property
    def _gaps(self) -> Ints:
        """Number of links of the whole ring, before anything failed, from each rank to the next one: [rank]; 1 where no
        dead node lies between."""
        place = self.survivors
        return (np.roll(place, -1) - place) % self.nodes

    def root_latency(self, *, to_root: bool) -> float:
        """Return the seconds from rank 0 to the rank farthest from it, or with ``to_root`` from there to rank 0, each
        rank reached by the quicker way around that passes no broken link."""
        dark, others = self._dark, np.arange(1, self.ranks)
        ends = (others, np.zeros_like(others)) if to_root else (np.zeros_like(others), others)
        # Links that number from the root on up to a rank lead clockwise away from the root, all others away from it
        # counter-clockwise; towards the root it is the other way round.
        near, far = (COUNTERCLOCKWISE, CLOCKWISE) if to_root else (CLOCKWISE, COUNTERCLOCKWISE)
        broken = {
            near: np.logical_or.accumulate(dark[near])[:-1],
            far: np.logical_or.accumulate(dark[far, ::-1])[-2::-1],
        }
        seconds = [np.where(cut, np.inf, self.latency(*ends, np.full_like(others, way))) for way, cut in broken.items()]
        return float(np.minimum(*seconds).max())

    def neighbour_latency(self) -> float:
        """Return the least seconds between two neighbouring ranks with a working link between them, one way or the
        other; each dead node between them counts as a link."""
        return self.hop_latency * float(self._gaps[~self._dark.all(axis=0)].min())

    def link_bandwidth(self) -> Floats:
        """Return the bytes per second of the channels that are left on each link: [link]. Link r joins rank r clockwise
        to the next rank, link ``ranks + r`` leads back from there counter-clockwise."""
        return np.asarray((~self.blocked()).sum(axis=1) * self.wavelength_bandwidth, np.float64)

    def _rank_channels(self, *, receive: bool) -> Ints:
        """Return the number of channels on which each rank can receive (``receive``) or send, both ways around together
        and no more than its transceivers: [rank]."""
        free = ~self.blocked().reshape(2, self.ranks, self.channels)
        # The link before a rank leads to it clockwise, and from it counter-clockwise; its own link the other way.
        way = 0 if receive else 1
        free[way] = np.roll(free[way], 1, axis=0)
        channels = (free & ~self.blocked_ends().swapaxes(0, 1)).sum(axis=(0, 2))
        most = 2 * self.channels if self.transceivers is None else self.transceivers
        return np.asarray(np.minimum(channels, most), np.int64)

    def cuts(self) -> list[Cut]:
        """Return two cuts: around one rank, by its channels and transceivers, and around half of the ranks (neighbours,
        rounded down), by its links.

        What enters and what leaves may be worst at different places: each capacity is the larger of the least that
        enters and the least that leaves, over all ranks or halves.
        """
        one = max(self._rank_channels(receive=way).min() for way in (True, False)) * self.wavelength_bandwidth
        free = (~self.blocked()).sum(axis=1).reshape(2, self.ranks)
        last = np.roll(np.arange(self.ranks), -(self.ranks // 2 - 1))
        entering, leaving = np.roll(free[0], 1) + free[1][last], free[0][last] + np.roll(free[1], 1)
        half = max(entering.min(), leaving.min()) * self.wavelength_bandwidth
        return [
            Cut("what the worst rank can receive", 1, float(one)),
            Cut("the links into one half of the ring", self.ranks // 2, float(half)),
        ]

    def rank_bandwidths(self) -> tuple[Floats, Floats]:
        """Return the bytes per second of the channels that are left on which each rank can receive, and send, no more
        than its transceivers: two arrays, [rank]."""
        both = np.array([self._rank_channels(receive=way) for way in (True, False)], np.float64)
        receive, send = both * self.wavelength_bandwidth
        return receive, send

    def total_receive_bandwidth(self) -> float:
        """Return the bytes per second of the channels on which ranks can receive, summed over the ranks."""
        return float(self._rank_channels(receive=True).sum()) * self.wavelength_bandwidth

    def blocks(self) -> list[tuple[int, float, str]]:
        """Return an empty list, as what enters a block of neighbours differs with where it lies."""
        return []


@overload
def damaged(fabric: WavelengthRing, failures: Iterable[Failure]) -> DamagedWdmRing: ...


@overload
def damaged(fabric: Fabric, failures: Iterable[Failure]) -> Fabric: ...


def damaged(fabric: Fabric, failures: Iterable[Failure]) -> Fabric:
    """Return the fabric that is left after failures; a ring of wavelengths becomes a :class:`DamagedWdmRing`, even
    without failures, and any other fabric without failures is returned as it is. Failures count nodes as before
    anything failed; ranks are those left, renumbered in order. Repeated failures count once.

    Raises:
        UnsupportedError: failures of this kind of fabric, or of these things on it, are not modelled.
        ConfigError: something failed that the fabric does not have, or parts of it cannot reach each other.
    """
    failed = tuple(dict.fromkeys(failures))
    if not (known := fabric.may_fail):
        raise UnsupportedError(
            f"failures of a {fabric.kind_name} are not modelled (may_fail): expected a ring of wavelengths (wdm-ring), "
            "links between ranks, a switch, or a circuit switch"
        )
    for failure in failed:
        if failure.what not in known:
            forms = ", ".join(FORMS[what] for what in known)
            raise UnsupportedError(f"{failure.text()} on a {fabric.kind_name}: expected one of {forms}")
    if not fabric.wavelength_routed:
        return without(fabric, failed) if failed else fabric
    left = fabric.ranks - len(_dead_nodes(failed))
    fields = fabric.model_dump(exclude={"kind"}) | {"ranks": left, "failures": failed}
    return validate(DamagedWdmRing, fields, "failures")
