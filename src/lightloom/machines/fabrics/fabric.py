"""The contract of fabrics: links, the links that a transfer occupies, latencies, and what a fabric can do.

A fabric has directed *links*, numbered from 0. A transfer from one rank to another along a *route* occupies a few
runs of consecutive links, its :class:`Footprint`. Two ways of sharing a link exist:

* circuit-switched (``exclusive``): a link has ``channels``, and a lightpath holds each of its channels alone. On a WDM
  ring a channel is a wavelength of a fibre; on an optical circuit switch it is a switch plane;
* packet-switched: transfers share a link's bandwidth, whatever their number. Bandwidths of such links are those of the
  data in the packets (:mod:`lightloom.machines.fabrics.packets`).

A subclass states its links, their names and bandwidths, the footprint of transfers, and their latency unless it is
``hop_latency`` for each link. Everything else follows from these
(:mod:`lightloom.machines.fabrics.derived`), groups of ranks and their sharing
included; a method that a subclass overrides for speed returns the same.
:func:`lightloom.machines.fabrics.conformance.check_fabric` tests a fabric against the contract.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cached_property
from math import prod
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeVar

import numpy as np
from pydantic import Field, InstanceOf, SerializeAsAny, ValidationError, model_validator

from lightloom.core.arrays import Column, Effort, Floats, Ints, Mask
from lightloom.core.caches import cached_method
from lightloom.core.fields import Count, FewRanks, JoulesPerBit, Seconds, Watts
from lightloom.core.results import Described
from lightloom.machines.fabrics import derived
from lightloom.machines.fabrics.derived import Cut, Footprint, Ports, ordered_links
from lightloom.machines.parts.bill import Bill, BillChoices
from lightloom.machines.parts.part import Kind
from lightloom.machines.transports.price import Library
from lightloom.machines.transports.transport import Transport
from lightloom.machines.transports.ways import Tiers as LibraryTiers

# What a fabric can do, and what its circuits are: fields and properties of every fabric.
#
# Algorithms, synthesis and placed plans ask for the capabilities that they need and never for a class. A
# circuit-switched fabric (``exclusive``) is either a ring of wavelengths, whose light passes the nodes on its way
# (``wavelength_routed``), or sets circuits on ``switch_planes``; on packet fabrics ranks forward over the links that
# join them (``joins_ranks``) or send over links of their own (``ports``, a method of the fabric).

T = TypeVar("T")

NEEDS_CIRCUITS = (
    "expected wavelengths around a sound ring (wavelength_routed: wdm-ring) or switch planes (switch_planes: "
    "circuit-switch)"
)
"""End of the message that refuses a fabric without ``assigns_circuits``."""
NEEDS_OWN_LINKS = f"{NEEDS_CIRCUITS}, or links that each rank has to itself (ports)"
"""End of the message that refuses a fabric on which no placed plan can be simulated."""


class Grid(NamedTuple):
    """Ranks in rows and columns: rank = row · columns + column; routes run along the row first."""

    rows: int
    columns: int
    wraps: bool
    """True if the ends of each row and of each column are joined."""


class Axis(NamedTuple):
    """Ranks that one part of a fabric joins: every ``stride``-th, ``size`` of them.

    The axes of a fabric tile it: rank = sum of place · stride. Strides ascend, and each is the product of the sizes
    before it, so that the first axis joins neighbours (a domain) and the second the ranks in the same place of all
    domains (rails).
    """

    stride: int
    size: int
    tier: int = 0
    """Number of the tier, from the ranks outwards, that joins them."""
    ports: int = 1
    """Ports (rails) into that tier of everything within one stride, so that ranks have one each where both are
    equal."""
    in_network_reduction: bool = False
    """True if the tier's switches can add what enters them."""

    @classmethod
    def along(cls, dims: tuple[int, ...]) -> tuple[Axis, ...]:
        """Return one axis for each dimension of a grid that has more than one rank, the last dimension first.

        ``dims`` is the number of ranks along each dimension; the last one joins neighbours, so that its stride is 1,
        and that of any other is the product of the dimensions after it. The axes have the default tier 0, one port and
        no reduction.
        """
        strides = (prod(dims[place + 1 :]) for place in range(len(dims)))
        return tuple(cls(stride, size) for stride, size in reversed(list(zip(strides, dims, strict=True))) if size > 1)


# Shares of a circuit-switched fabric's channels: what the groups of one axis of parallelism hold, beside other axes.
#
#     channels of every link   | tensor groups | data groups | sends of the pipeline |
#                                0 ... 2         3 ... 6       7
#
# All groups of an axis, whose ranks lie a stride apart, hold the same range of channels; other axes hold others, so
# that circuits of all of them stand at once. A schedule of one group is built on a fabric of its ranks and of the
# channels that reach it (:meth:`Fabric.share`); :meth:`Fabric.embedded` says where its lightpaths lie in the whole
# fabric.


class AxisShare(NamedTuple):
    """Groups of ranks that tile a fabric, and the channels of every link that they hold."""

    ranks: int
    """Ranks of a group."""
    stride: int
    """Distance between neighbouring ranks of a group."""
    first: int
    """First of the channels of every link that the groups hold."""
    channels: int


class Lightpaths(NamedTuple):
    """Lightpaths, arrays of shape [lightpath]."""

    source: Ints
    destination: Ints
    route: Ints
    channel: Ints
    """First channel of each lightpath."""


class Shift(NamedTuple):
    """Sends from every rank to the one a stride further on: in hops of equal length over circuits that stand."""

    hop: int
    """Ranks that every hop passes; divides the stride."""
    hops: int
    width: int
    """Channels of every circuit."""
    rate: float
    """Bytes per second, all hops counted."""
    latency: float
    """Seconds besides the bytes."""


_MOST_PAIRED: Effort = 2048
"""Ranks of fabrics whose groups look at all pairs of ranks."""
CLOCKWISE, COUNTERCLOCKWISE = 0, 1
"""The two values of a ring lightpath's ``route``; every other fabric has the single route 0."""


class Fabric(Described):
    """Common fields, capabilities and the geometry that the verifier, the cost models and the bounds ask for.

    A fabric states its own capabilities; by default it has none. Times and limits of circuits are fields where a kind
    has them: ``reconfiguration_time``, ``link_up_time``, ``conversion_time``, ``guard_time``, ``multicast_taps``,
    ``lightpath_reach`` and ``transceivers``.
    """

    ranks: FewRanks
    """Number of ranks attached."""
    hop_latency: Seconds = 0.0
    """Propagation (and forwarding) delay of one link, seconds."""
    energy_per_bit: JoulesPerBit | None = None
    """Joules per transmitted bit beside the watts that flow busy or idle: once a lightpath where light passes nodes
    untouched, once a link on packet fabrics."""
    power_per_rank: Watts | None = None
    """Power of a rank's network interface while the job runs, busy or not."""
    sources: dict[str, str] = Field(default_factory=dict)
    """Where each field's value comes from, by field name."""

    exclusive: ClassVar[bool] = False
    """True if a lightpath holds the channels of its links alone; transfers share the links of packet fabrics."""
    routes: ClassVar[int] = 1
    """Values that a transfer's ``route`` may take."""
    in_network_reduction: ClassVar[bool] = False
    """True if a switch adds what enters in a step and returns the sum."""
    any_pair: ClassVar[bool] = True
    """True if any two ranks can send to each other."""
    wavelength_routed: ClassVar[bool] = False
    """True if circuits are wavelengths around a ring."""
    tiered: ClassVar[bool] = False
    """True where the fabric is built of tiers, the innermost of which joins the ranks of a node."""
    switch_planes: ClassVar[bool] = False
    """True if each channel is a switch plane on which any permutation of the ranks can be set."""
    joins_ranks: ClassVar[bool] = False
    """True if packets travel over links between neighbouring ranks: every rank has transfers of a single link."""
    damaged: ClassVar[bool] = False
    """True if channels of some links or ranks have failed."""
    distance_matters: ClassVar[bool] = True
    """True if a group of ranks that lie apart performs differently from a group of neighbours."""
    stated_power_of: ClassVar[tuple[Kind, ...] | None] = None
    """Kinds of parts whose power ``power_per_rank`` holds; None: all, as links end at the ranks alone."""
    rate_fields: ClassVar[frozenset[str]] = frozenset()
    """Fields, those of its tiers included, that decide nothing but how fast links are and what a bit costs
    (:mod:`lightloom.machines.fabrics.derived`)."""
    group_assumption: ClassVar[str] = ""
    """A modelling assumption under which ``group`` and ``pair`` hold; empty where they follow from footprints."""

    @property
    def kind_name(self) -> str:
        """The word that ``kind:`` takes in files; the name of the class where it has no field ``kind``."""
        field = type(self).model_fields.get("kind")
        return type(self).__name__ if field is None else str(field.default)

    @property
    def implementation(self) -> tuple[str, str]:
        """Module and name of the fabric's class, by which results of different code are told apart."""
        return type(self).__module__, type(self).__name__

    @property
    def may_fail(self) -> tuple[str, ...]:
        """Return the kinds of failure that are modelled, in the words of files
        (:mod:`lightloom.machines.fabrics.failures`): ``link``, ``node`` and ``dark-node`` where ``joins_ranks``,
        ``plane``, ``node`` and ``dark-node`` on ``switch_planes``, otherwise none."""
        if self.joins_ranks:
            return ("link", "node", "dark-node")
        return ("plane", "node", "dark-node") if self.switch_planes else ()

    @property
    def assigns_circuits(self) -> bool:
        """True if circuits can be assigned to any traffic between its ranks: on switch planes, or on a ring of
        wavelengths that is not damaged."""
        return self.switch_planes or (self.wavelength_routed and not self.damaged)

    @property
    def grid(self) -> Grid | None:
        """Return the rows and columns that the ranks form, for algorithms on grids of two dimensions; None where they
        form none, which is the default."""
        return None

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Axes along which ranks are joined, neighbours first; empty where all ranks are joined alike."""
        return ()

    @property
    def parts(self) -> tuple[Fabric, ...]:
        """Return the fabric of a group of neighbours and the one that joins the ranks in one place of all groups, where
        these carry a collective one after the other; empty where schedules run on the fabric as a whole."""
        return ()

    @property
    def only_adds(self) -> bool:
        """True if every link leads to or from a switch that adds what enters it; of a fabric of ``parts``, if that is
        so of every part."""
        return all(part.only_adds for part in self.parts) if self.parts else self.in_network_reduction

    @property
    def circuit_block(self) -> int | None:
        """Return the number of neighbouring ranks in each of the blocks that optical circuit switches join in any
        order, 1 on ``switch_planes``; None where no circuit switches join any."""
        return 1 if self.switch_planes else None

    @property
    def filling(self) -> str | None:
        """Return a phrase for display that names the domains (of tiers) that ranks fill only in part and how many ranks
        stay idle; None where all domains are full."""
        return None

    @property
    def library(self) -> Library | None:
        """The collective library that the fabric states, with the two tiers of links that its closed forms see; None
        where the fabric states none."""
        return None

    @property
    def software(self) -> str:
        """Description of the software that carries collectives, such as the name of a transport, for tables and
        messages; by default that the software is ideal."""
        return "ideal software, as no closed form of a library serves such links"

    @property
    def arithmetic_share(self) -> float:
        """Share, 0 to 1, of an accelerator's arithmetic that collectives take while they run beside computing; 0 unless
        a transport states one."""
        return 0.0

    @property
    def built_of(self) -> str:
        """One line on the devices that the bandwidth needs; empty where the bandwidth is not derived from devices."""
        return ""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Lines that say which part of the fabric cannot be built as described, and why; none by default."""
        return ()

    def stated_fields(self) -> dict[str, object]:
        """Return the fields, by name, from which a changed copy is built. A subclass leaves out the fields that it
        derives from others, so that they are derived anew; by default all fields are returned."""
        return self.model_dump()

    @property
    def failures_text(self) -> str:
        """Return the failures in the form in which they are given, such as ``node:5``, joined by commas, for messages;
        empty if nothing has failed."""
        return ""

    @property
    def channels(self) -> int:
        """Channels of a link that circuits hold alone; 0 on packet fabrics."""
        return 0

    @property
    def fibre_channels(self) -> int:
        """Channels of one fibre of a link: channel ``fibre · fibre_channels + wavelength``. 1 for switch planes."""
        return 1

    @property
    def usable_channels(self) -> int:
        """Number of channels of each link that schedules may fill without any node running out of transceivers; all
        channels unless a fabric says otherwise."""
        return self.channels

    @property
    def channel_bandwidth(self) -> float:
        """Bytes per second of one channel of a circuit-switched link; NotImplementedError on fabrics without
        circuits."""
        raise NotImplementedError

    @property
    def setup_time(self) -> float:
        """Seconds from circuits as they were until new ones carry data: ``reconfiguration_time`` plus ``link_up_time``,
        each 0 where the fabric has no such field."""
        return self._stated("reconfiguration_time", 0.0) + self._stated("link_up_time", 0.0)

    @property
    def step_overhead(self) -> float:
        """Seconds that every step pays for conversion between light and electrons (``conversion_time``); 0 without the
        field."""
        return self._stated("conversion_time", 0.0)

    @property
    def piece_overhead(self) -> float:
        """Seconds that every piece of a queued schedule holds its lightpath besides its bytes (``guard_time``); 0
        without the field."""
        return self._stated("guard_time", 0.0)

    @property
    def taps(self) -> int:
        """Destinations that one lightpath can serve; 1 without optical multicast."""
        return self._stated("multicast_taps", 1)

    @property
    def reach(self) -> int | None:
        """Most links that one lightpath may pass; None without limit."""
        return self._stated("lightpath_reach", None)

    @property
    def transmitters(self) -> int | None:
        """Channels that a node can send on at once, and as many that it can receive on at once, as the field
        ``transceivers`` states; None, without limit, where the field is None or absent."""
        return self._stated("transceivers", None)

    def _stated(self, field: str, default: T) -> T:
        """Return the value of a field or attribute by its name, None included; the default on fabrics that have no such
        field."""
        value: T = getattr(self, field, default)
        return value

    def blocked(self) -> Mask | None:
        """Return a mask, true for the channels of links that carry nothing since something has failed: [link, channel];
        None where nothing has failed, the default."""
        return None

    def blocked_ends(self) -> Mask | None:
        """Return a mask, true for the channels on which a rank can neither begin nor end a lightpath of a route, since
        its transceiver has failed: [rank, route, channel]; None where nothing has failed, the default."""
        return None

    # Sharing of channels between groups of ranks; the defaults are those of a fabric without channels

    @property
    def shared_channels(self) -> int:
        """Number of channels of each link that several axes of parallelism may share: the usable ones unless a fabric
        says otherwise."""
        return self.usable_channels

    def blocks(self) -> list[tuple[int, float, str]]:
        """Return the blocks of neighbouring ranks that divide the ranks evenly and whose entering links may bind, one
        entry for each size of block: (ranks of a block, bytes per second that can enter or leave one block, name for
        messages). None by default: an empty list."""
        return []

    def share_unit(self, ranks: int, stride: int) -> int:
        """Return the number of channels of a link of which any share that groups of ``ranks`` ranks, each ``stride``
        from the next, hold together must be a multiple; 0 where channels cannot be shared, the default."""
        return 0

    def embedded(self, axis: AxisShare, group: Ints, local: Lightpaths) -> Lightpaths:
        """Return the lightpaths between ranks of the whole fabric that lightpaths between ranks of a group become, with
        the channels that they have there. NotImplementedError on fabrics without shared channels.

        Args:
            axis: ranks and stride of the groups, and the range of channels of every link that they hold together.
            group: number of the group of each lightpath, in the order of the groups' first ranks: [lightpath].
            local: lightpaths on the fabric of :meth:`Fabric.share`, whose ranks and channels count from 0 in each
                group.
        """
        raise NotImplementedError

    def embedding(self) -> Self:
        """Return this fabric with all channels on which lightpaths of :meth:`embedded` may lie, those for light that
        goes back the long way included; the fabric itself by default."""
        return self

    def shift_unit(self, stride: int) -> int:
        """Return the fewest channels of a link with which every rank can send to the rank ``stride`` further on while
        it also sends to the rank ``stride`` before it; 0 where channels cannot be shared, the default."""
        return 0

    def shift(self, stride: int, channels: int) -> Shift:
        """Return how every rank sends to the one ``stride`` further on: ranks that a hop passes, hops, channels of a
        circuit, bytes per second and seconds of latency, all hops counted.

        All ranks send at once, both ways: the ``channels`` of every link also hold the sends to the rank ``stride``
        before. The circuits stand already, so no set-up is in the latency. NotImplementedError on fabrics without
        shared channels.
        """
        raise NotImplementedError

    def shift_circuits(self, stride: int, first: int, channels: int) -> tuple[Lightpaths, int]:
        """Return the circuits of :meth:`shift` as lightpaths, and the number of channels of each circuit.

        The lightpaths are one hop of every rank each way: 2 · ranks of them, or as many as ranks where both ways are
        the same circuits. They lie in the ``channels`` channels of every link from number ``first`` on.
        NotImplementedError on fabrics without shared channels.
        """
        raise NotImplementedError

    # Links, transfers and groups of ranks

    def heading(self) -> str:
        """Return the kind and the number of ranks, such as ``wdm-ring of 1024 ranks``, for titles of tables."""
        return f"{self.kind_name} of {self.ranks} ranks"

    @property
    def latency_unstated(self) -> bool:
        """True if ``hop_latency`` decides a latency and nothing says where its value comes from."""
        return self.takes_hop_latency and "hop_latency" not in self.sources

    @property
    def takes_hop_latency(self) -> bool:
        """True if some link's latency is ``hop_latency``, the default."""
        return True

    def with_hop_latency(self, seconds: float) -> Self:
        """Return a copy with ``seconds`` as ``hop_latency``. Kinds whose links state latencies of their own drop these
        so that ``seconds`` holds there too, except inside a node of a fabric of tiers."""
        return self.model_copy(update={"hop_latency": seconds})

    @property
    @abstractmethod
    def links(self) -> int:
        """Number of directed links."""

    @abstractmethod
    def link_name(self, link: int) -> str:
        """Return the name, for tables and messages, of the link with the number ``link``, counted from 0 over all
        links."""

    @abstractmethod
    def link_bandwidth(self) -> Floats:
        """Return the bytes of data per second of each directed link, all of its channels together: [link]."""

    @abstractmethod
    def footprint(self, source: Ints, destination: Ints, route: Ints) -> Footprint:
        """Return the links that each transfer from ``source`` to ``destination`` on ``route`` occupies, as runs of
        consecutive links: one row for each transfer. The arguments are ranks and route numbers, [transfer] each."""

    def path(self, source: Ints, destination: Ints, route: Ints) -> Ints:
        """Return the numbers of the links of each transfer in the order in which it crosses them, −1 filling up:
        [transfer, place]. The links are those of the transfer's footprint, by default in the order of its runs; the
        arguments are ranks and route numbers, [transfer] each."""
        runs = self.footprint(source, destination, route).runs()
        return ordered_links(runs, [False] * len(runs))

    def link_latency(self) -> Floats:
        """Return the seconds that a bit takes over each link, by default ``hop_latency``: [link]. A transfer's
        ``latency`` is the sum over its links."""
        return np.full(self.links, self.hop_latency)

    def route(self, source: Ints, destination: Ints) -> Ints:
        """Return the number of the route that each transfer takes when nobody chooses one, by default 0: [transfer].
        ``source`` and ``destination`` are ranks, [transfer] each."""
        return np.zeros(len(np.asarray(source)), dtype=np.int64)

    def reverse_route(self, route: Ints) -> Ints:
        """Return, for the route of each transfer, the route of the one from its destination to its source over the same
        way: [transfer]; by default the same number."""
        return route

    def latency(self, source: Ints, destination: Ints, route: Ints) -> Floats:
        """Return the seconds from the first bit sent to the first bit received, of each transfer: [transfer]; by
        default ``hop_latency`` times the links that it crosses. The arguments are ranks and route numbers, [transfer]
        each."""
        return self.hop_latency * self.hops(source, destination, route).astype(np.float64)

    def hops(self, source: Ints, destination: Ints, route: Ints) -> Ints:
        """Return the number of links that each transfer crosses on its route: [transfer]. The arguments are ranks and
        route numbers, [transfer] each."""
        crossed: Ints = self.footprint(source, destination, route).length.sum(axis=1)
        return crossed

    def cuts(self) -> list[Cut]:
        """Return cuts through links that may bind a collective, one around a single rank among them. Each has a name,
        the ranks inside and the bytes per second that can cross it, each way. By default there is only the cut around
        the rank for which the larger of what it can receive and send is least."""
        receive, send = derived.rank_bandwidths(self)
        return [Cut("what the worst rank can receive", 1, float(np.maximum(receive, send).min()))]

    def rank_bandwidths(self) -> tuple[Floats, Floats]:
        """Return upper bounds of the bytes per second at which each rank can receive, and at which each can send: two
        arrays, [rank] each. By default they are derived from the footprints: the bandwidths of a few links, one of
        which each of the rank's transfers passes."""
        return derived.rank_bandwidths(self)

    def total_receive_bandwidth(self) -> float:
        """Return the sum over ranks of the bytes per second that each can receive over its links, at most
        (:meth:`rank_bandwidths`)."""
        return float(self.rank_bandwidths()[0].sum())

    def diameter(self) -> int:
        """Return the number of links between the two ranks farthest apart, each pair on its route of fewest links; 2
        where a switch adds, 0 for a single rank."""
        return derived.diameter(self)

    @property
    def node_ranks(self) -> int:
        """Number of ranks of a node, neighbours that faster links join; all ranks where all links are alike, the
        default."""
        return self.ranks

    def diameter_latency(self) -> float:
        """Return a lower bound, in seconds, of the time until every rank has heard of every other, relayed over other
        ranks where that is quicker: by default the time in which the source of the slowest single transfer reaches the
        rank farthest from it, infinite where one is out of its reach; where a switch adds, the slowest way into it plus
        the slowest out of it."""
        return derived.diameter_latency(self)

    def root_latency(self, *, to_root: bool) -> float:
        """Return a lower bound, in seconds, of the time until the rank farthest from rank 0 has heard of rank 0,
        relayed over other ranks where that is quicker; with ``to_root``, until rank 0 has heard of the farthest rank.
        Infinite where a rank is out of reach; through the switch where that adds."""
        return derived.root_latency(self, to_root=to_root)

    def neighbour_latency(self) -> float:
        """Return the least seconds that a transfer between any two different ranks takes: no rank hears of another
        sooner. Where a switch adds, the quickest way into it plus the quickest out of it; 0 for a single rank."""
        return derived.neighbour_latency(self)

    def pair(self, stride: int) -> tuple[float, float]:
        """Return the bytes per second of the slowest transfer and the seconds of latency of the longest when every rank
        at once sends to the rank ``stride`` further on, modulo the number of ranks; infinite and 0 where that is the
        rank itself."""
        return derived.simultaneous(self, stride)

    def message(self, stride: int) -> tuple[float, float]:
        """Return the bytes per second and the seconds of latency of messages that all ranks send at once to the rank
        ``stride`` further on, those of the slowest and of the longest (:meth:`pair`), with the latency that the
        collective library, if the fabric states one, adds to a message."""
        rate, latency = self.pair(stride)
        return rate, latency if self.library is None else latency + self.library.message_latency(stride)

    def ports(self, source: Ints, destination: Ints) -> Ports | None:
        """Return the port of the source, the port of the destination and the bytes per second of each transfer while
        all ports are busy, [transfer] each; None where ranks forward for each other (``joins_ranks``), or where some
        transfer passes no link that its source, or its destination, has to itself."""
        return None if self.joins_ranks else derived.ports(self, source, destination)

    def group(self, ranks: int, stride: int = 1) -> Fabric | None:
        """Return a group of ``ranks`` ranks, each ``stride`` from the next, as a fabric whose links its sibling groups
        load alike at the same time; this fabric itself for a group of all ranks.

        None where such groups do not tile the fabric, and, unless a subclass says otherwise, on circuit-switched
        fabrics and on those that add in the network, whatever the group.
        """
        if self.exclusive or self.in_network_reduction or self.ranks % (ranks * stride):
            return None
        return self if ranks == self.ranks else GroupFabric.of(self, ranks, stride)

    def share(self, ranks: int, stride: int, channels: int) -> Fabric | None:
        """Return one group of ``ranks`` ranks, each ``stride`` from the next, as a fabric of the channels that it has
        where all groups of its axis hold ``channels`` channels of every link together; None where the fabric has no
        such groups, the default."""
        return None

    def siblings(self) -> tuple[Fabric, Ints]:
        """Return the fabric whose links this one uses, and the ranks there of this group and of its siblings: [group,
        rank]. A fabric that is no group is its own, with one group of all ranks."""
        return self, np.arange(self.ranks)[None]

    def channel_sharing(self, stride: Ints) -> Ints:
        """Return, for each stride, how many groups whose ranks lie ``stride`` apart divide the same channels, beyond
        the sharing that ``group`` counts already: [stride]; 1, no division, by default."""
        return np.ones_like(stride)

    def _with(self, **fields: int) -> Self | None:
        """Return a validated copy with other values of whole-number fields; None where the fabric does not allow these
        values."""
        try:
            return type(self).model_validate(self.model_dump() | fields)
        except ValidationError:
            return None

    def ring_order(self) -> Ints:
        """Return all ranks in an order, beginning with rank 0, in which successive ranks are near each other, for ring
        algorithms: [place]; by default ascending."""
        return np.arange(self.ranks, dtype=np.int64)

    def bill(self, choices: BillChoices | None = None) -> Bill:
        """Return the parts that the fabric is built of, per rank; ``choices`` settle what its fields leave open.

        What the fabric states itself stands in place of its parts' figures: ``power_per_rank`` of the power of the
        kinds of parts in ``stated_power_of`` (of all where that is None), ``energy_per_bit`` of the dynamic energy of
        all parts. None for ``choices`` takes their defaults.
        """
        from lightloom.machines.fabrics.bills.links import stated_bill
        from lightloom.machines.parts.bill import BillChoices

        bill = self.bill_of_parts(choices or BillChoices())
        return stated_bill(bill, self.power_per_rank, self.stated_power_of, self.energy_per_bit, self.sources)

    def bill_of_parts(self, choices: BillChoices) -> Bill:
        """Return the bill of the parts that follow from the fabric's fields, per rank, without what the fabric states
        itself; for a kind of fabric that does not say what it is built of, a bill that names the parts as missing."""
        from lightloom.machines.parts.bill import unknown_bill

        return unknown_bill(self.ranks, self.kind_name)

    def with_default_transport(self, transport: Transport, source: str) -> Self:
        """Return this fabric with ``transport`` as its network software and ``source`` as the source of that field.
        Unchanged where the fabric states a transport, or closed forms of a collective library do not serve its links,
        which is so for a fabric that does not override this method."""
        return self

    def library_tiers(self) -> LibraryTiers | None:
        """Return the two tiers (domain and network) that closed forms of a collective library see; None where the links
        are not those of switches, the default."""
        return None

    def as_carried(self) -> Self:
        """Return this fabric without its collective library, its links as fast as the library drives them; unchanged
        where it has none, the default."""
        return self

    def wire_bytes(self, nbytes: float) -> float:
        """Return the bytes that a link carries for ``nbytes`` of data: more by the headers where there are packets,
        otherwise the same."""
        return nbytes

    def with_smaller_packets(self, ratio: float) -> Self:
        """Return this fabric with the payload of its packets divided by ``ratio``, as a codec behind the port makes
        them, so that compressed data still take as many packets; unchanged where there are no packets."""
        return self

    @property
    def switch_rank(self) -> int:
        """Return the number by which schedules address the in-network reducer: one past the last rank."""
        return self.ranks


def with_derived(data: Mapping[str, Any], derived: Mapping[str, Any], sources: Mapping[str, str]) -> object:
    """Return the fields of a fabric with derived ones filled in where they are not given, before validation.

    Args:
        data: fields as given; they, None included, and their ``sources`` take precedence.
        derived: values of derived fields, by name.
        sources: source of each derived field, by name.

    Returns:
        A new mapping; ``data`` unchanged if its ``sources`` are neither a mapping nor None, so that validation
        complains.
    """
    given = data.get("sources")
    if not isinstance(given, Mapping | None):
        return data
    return {**derived, **data, "sources": dict(sources) | dict(given or {})}


def without_derived(fields: dict[str, Any], derived: Collection[str]) -> dict[str, object]:
    """Return the fields of a fabric, and in its ``sources`` the entries, without those that ``derived`` names.
    ``fields`` must hold ``sources``."""
    sources = {name: text for name, text in fields["sources"].items() if name not in derived}
    return {name: value for name, value in fields.items() if name not in derived} | {"sources": sources}


class HopFabric(Fabric):
    """A fabric whose links all take ``hop_latency``, and whose rank 0 is as far from others as any rank."""

    def diameter_latency(self) -> float:
        """Return ``hop_latency`` times the links of the diameter."""
        return self.hop_latency * self.diameter()

    def root_latency(self, *, to_root: bool) -> float:
        """Return the seconds between rank 0 and the rank farthest from it, the same either way (``to_root``): the
        latency of the diameter, as all ranks are alike, or rank 0 is at an end or in a corner."""
        return self.diameter_latency()

    def neighbour_latency(self) -> float:
        """Return ``hop_latency``, the seconds of one link, as the least of a transfer between two ranks."""
        return self.hop_latency


class EvenFabric(HopFabric):
    """A fabric with two links for each rank, all equally fast, whose ranks all receive and send the same."""

    @property
    def links(self) -> int:
        """Return the number of directed links, two for each rank."""
        return 2 * self.ranks

    @property
    @abstractmethod
    def link_rate(self) -> float:
        """Bytes per second of each link."""

    @property
    def rank_rate(self) -> float:
        """Bytes per second that a rank can receive, and as many that it can send; one link's unless a fabric says
        otherwise."""
        return self.link_rate

    def link_bandwidth(self) -> Floats:
        """Return ``link_rate`` for every link: [link]."""
        return np.full(self.links, self.link_rate)

    def rank_bandwidths(self) -> tuple[Floats, Floats]:
        """Return ``rank_rate`` for every rank, for receiving and for sending: [rank] each."""
        alike = np.full(self.ranks, self.rank_rate)
        return alike, alike

    def total_receive_bandwidth(self) -> float:
        """Return the bytes per second of a rank times the ranks."""
        return self.ranks * self.rank_rate


class GroupFabric(Fabric):
    """A group of a packet fabric's ranks, while all sibling groups exchange the same on the links that they share.

        fabric of 12 ranks    0  1  2  3 | 4  5  6  7 | 8  9 10 11
        groups of 2 at 2      a  b  a  b | c  d  c  d | e  f  e  f      siblings: every rank is in one group

    A transfer from a to b stands for the transfers between the ranks in the same places of all groups, each on the
    route that the fabric chooses for it. Its footprint is the links of all of them, so that whatever the siblings load
    on a link counts, and no price is optimistic about sharing.
    """

    kind: Literal["group"] = "group"
    whole: InstanceOf[SerializeAsAny[Fabric]]
    """The fabric that the groups share."""
    stride: Count = 1
    """Distance between neighbouring ranks of a group."""

    @model_validator(mode="after")
    def _groups_tile_the_fabric(self) -> Self:
        """Raise ValueError where ranks times stride do not divide the whole fabric's ranks, or that has circuits or
        adds in the network; otherwise return the group unchanged."""
        if self.whole.ranks % (self.ranks * self.stride):
            raise ValueError(
                f"groups of {self.ranks} ranks at stride {self.stride} do not tile {self.whole.ranks} ranks: expected "
                "a product that divides them"
            )
        if self.whole.exclusive or self.whole.in_network_reduction:
            raise ValueError(f"a {self.whole.kind_name} carries no packets: expected links that transfers share")
        return self

    @classmethod
    def of(cls, whole: Fabric, ranks: int, stride: int = 1, **fields: object) -> Self:
        """Return a group of ``ranks`` ranks, each ``stride`` from the next, of the fabric ``whole``, with its
        ``hop_latency``, ``energy_per_bit`` and ``power_per_rank``; ``fields`` set further fields of the group.
        ValidationError where such groups do not tile the fabric, or it carries no packets."""
        common = {name: getattr(whole, name) for name in ("hop_latency", "energy_per_bit", "power_per_rank")}
        return cls.model_validate({"whole": whole, "ranks": ranks, "stride": stride, **common, **fields})

    def siblings(self) -> tuple[Fabric, Ints]:
        """Return the fabric that the groups share, and the fabric's ranks of every group, in the order of the groups'
        first ranks: [group, rank]."""
        return self.whole, derived.group_members(self.whole.ranks, self.ranks, self.stride)

    @property
    def rate_fields(self) -> frozenset[str]:  # type: ignore[override]
        """Return the fields of the whole fabric that decide nothing but how fast links are."""
        return self.whole.rate_fields

    @cached_property
    def library(self) -> Library | None:
        """Collective library of the whole fabric, whose domain is here the number of this group's ranks that share a
        domain of fast links; None where the fabric has none."""
        return self.whole.library and self.whole.library.group(self.ranks, self.stride)

    @property
    def arithmetic_share(self) -> float:
        """Return the share of an accelerator's arithmetic that collectives on the whole fabric take while they run
        beside computing."""
        return self.whole.arithmetic_share

    def as_carried(self) -> Self:
        """Return the same group of the whole fabric without its collective library, its links as fast as the library
        drives them."""
        return self.model_copy(update={"whole": self.whole.as_carried()})

    def _of_all(self, source: Ints, destination: Ints) -> tuple[Ints, Ints, Ints]:
        """Return source, destination and route of the transfers of all groups, as ranks of the whole fabric: three flat
        arrays, first the transfers of all groups for the first given transfer, then those for the next. ``source`` and
        ``destination`` are ranks of the group, from 0: [transfer] each."""
        places = self.siblings()[1].T
        ends = places[source].ravel(), places[destination].ravel()
        return *ends, self.whole.route(*ends)

    def _largest(self, values: Column) -> Column:
        """Return the largest of the values that all groups have for each transfer: [transfer].

        ``values`` has the values of all groups for the first transfer, then those for the next.
        """
        largest: Column = values.reshape(-1, len(self.siblings()[1])).max(axis=1)
        return largest

    @property
    def links(self) -> int:
        """Return the number of links of the whole fabric, which the group's footprints count."""
        return self.whole.links

    def link_name(self, link: int) -> str:
        """Return the name of link number ``link`` of the whole fabric."""
        return self.whole.link_name(link)

    @property
    def _bounded_by_whole(self) -> bool:
        """True if figures of the whole fabric serve as looser bounds for the group's, since the whole fabric has more
        than 2,048 ranks, too many pairs to look at, and the groups cover all of them."""
        return self.whole.ranks > _MOST_PAIRED and self.siblings()[1].size == self.whole.ranks

    @cached_method()
    def cuts(self) -> list[Cut]:
        """Return the one cut around the group's rank for which the larger of what it can receive and send is least,
        derived from the routes of all groups; on fabrics of more than 2,048 ranks the whole fabric's cuts of a single
        rank instead, which are no tighter."""
        if not self._bounded_by_whole:
            return super().cuts()
        return [cut for cut in self.whole.cuts() if cut.ranks == 1]

    def total_receive_bandwidth(self) -> float:
        """Return the sum over the group's ranks of the bytes per second that each can receive; on fabrics of more than
        2,048 ranks the share of the whole fabric's sum that the group has by its number of ranks."""
        if not self._bounded_by_whole:
            return super().total_receive_bandwidth()
        return self.whole.total_receive_bandwidth() * self.ranks / self.whole.ranks

    def neighbour_latency(self) -> float:
        """Return the least seconds of a transfer between two ranks of a group; on fabrics of more than 2,048 ranks the
        least of the whole fabric, which is no more."""
        return self.whole.neighbour_latency() if self._bounded_by_whole else super().neighbour_latency()

    def diameter_latency(self) -> float:
        """Return a lower bound of the seconds in which every rank hears of the farthest other one of its group, relayed
        where that is quicker, infinite where one is out of reach; on fabrics of more than 2,048 ranks only the least
        latency of a transfer on the whole fabric, which is no more."""
        return self.neighbour_latency() if self._bounded_by_whole else super().diameter_latency()

    def root_latency(self, *, to_root: bool) -> float:
        """Return the seconds in which the farthest rank of a group hears of the group's rank 0, or with ``to_root`` the
        other way round; on fabrics of more than 2,048 ranks only the least latency of a transfer on the whole fabric,
        which is no more."""
        return self.neighbour_latency() if self._bounded_by_whole else super().root_latency(to_root=to_root)

    def link_bandwidth(self) -> Floats:
        """Return the bytes per second of every link of the whole fabric: [link]."""
        return self.whole.link_bandwidth()

    def link_latency(self) -> Floats:
        """Return the seconds of every link of the whole fabric: [link]."""
        return self.whole.link_latency()

    def footprint(self, source: Ints, destination: Ints, route: Ints) -> Footprint:
        """Return the links of the whole fabric that each transfer occupies together with its counterparts in all
        sibling groups, one row for each transfer. ``route`` is not used: the whole fabric chooses the routes.
        ``source`` and ``destination`` are ranks of the group, from 0: [transfer] each."""
        runs = self.whole.footprint(*self._of_all(source, destination))
        width = len(self.siblings()[1]) * runs.base.shape[1]
        return Footprint(*(part.reshape(-1, width) for part in runs))

    def path(self, source: Ints, destination: Ints, route: Ints) -> Ints:
        """Return the links of each transfer and of its counterparts in all sibling groups, as numbers of the whole
        fabric's links: [transfer, place]. Each row has the path of one group after the other, each filled up with −1.
        ``source`` and ``destination`` are ranks of the group, from 0: [transfer] each; ``route`` is not used."""
        return self.whole.path(*self._of_all(source, destination)).reshape(len(np.asarray(source)), -1)

    def latency(self, source: Ints, destination: Ints, route: Ints) -> Floats:
        """Return the seconds of the slowest of each transfer's counterparts in all sibling groups, on the routes that
        the whole fabric chooses, whatever ``route``: [transfer]. ``source`` and ``destination`` are ranks of the group,
        from 0: [transfer] each."""
        return self._largest(self.whole.latency(*self._of_all(source, destination)))

    def hops(self, source: Ints, destination: Ints, route: Ints) -> Ints:
        """Return, for each transfer, the largest number of links that it or a counterpart in a sibling group crosses,
        whatever ``route``: [transfer]. ``source`` and ``destination`` are ranks of the group, from 0: [transfer]
        each."""
        return self._largest(self.whole.hops(*self._of_all(source, destination)))

    def bill(self, choices: BillChoices | None = None) -> Bill:
        """Return the bill of the whole fabric, which is per rank, with the group's number of ranks."""
        return replace(self.whole.bill(choices), ranks=self.ranks)

    def ring_order(self) -> Ints:
        """Return the group's ranks, numbered within it, in the order in which the whole fabric's ring order passes
        those of the first group, rotated so that rank 0 comes first: [place]."""
        order = np.argsort(np.argsort(self.whole.ring_order())[self.siblings()[1][0]])
        return np.roll(order, -int(np.argmin(order)))

    def wire_bytes(self, nbytes: float) -> float:
        """Return the bytes on a link of the whole fabric, headers of packets included, for ``nbytes`` of data."""
        return self.whole.wire_bytes(nbytes)

    def with_smaller_packets(self, ratio: float) -> Self:
        """Return the same group of the whole fabric with packets that hold ``ratio`` times less."""
        return self.model_copy(update={"whole": self.whole.with_smaller_packets(ratio)})

    def with_hop_latency(self, seconds: float) -> Self:
        """Return the same group of the whole fabric with ``seconds`` as the latency of a link where links have
        ``hop_latency``."""
        return self.model_copy(update={"hop_latency": seconds, "whole": self.whole.with_hop_latency(seconds)})
