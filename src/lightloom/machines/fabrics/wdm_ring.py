"""Rings: the WDM ring of TeraRack and SiP-Ring, and its electrical, packet-switched counterpart.

clockwise link i          i ──▶ i+1
counter-clockwise link i  i ◀── i+1        (the numbers are taken modulo the number of ranks)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field

from lightloom.core.arrays import Floats, Ints
from lightloom.core.fields import Bandwidth, Count, Seconds
from lightloom.machines.fabrics import derived, fabric
from lightloom.machines.fabrics.derived import Cut, Footprint, ordered_links

if TYPE_CHECKING:
    from lightloom.machines.parts.bill import Bill, BillChoices

_COMMON = (
    "wavelength_bandwidth",
    "reconfiguration_time",
    "conversion_time",
    "guard_time",
    "multicast_taps",
    "energy_per_bit",
    "power_per_rank",
)
"""Fields that the part of a ring has from it."""


class RingGeometry(fabric.EvenFabric):
    """A closed ring with one link each way between neighbours."""

    routes: ClassVar[int] = 2

    def link_name(self, link: int) -> str:
        """Return direction and ends of a link, such as ``clockwise link 3→4`` or ``counter-clockwise link 4→3``, in the
        direction of the light; these are links 3 and, of n ranks, n + 3."""
        n = self.ranks
        a, b = link % n, (link + 1) % n
        return f"clockwise link {a}→{b}" if link < n else f"counter-clockwise link {b}→{a}"

    def footprint(self, source: Ints, destination: Ints, route: Ints) -> Footprint:
        """Return the links that each transfer passes on its way around, 0 clockwise or 1 counter-clockwise (``route``),
        one run each. The link between ranks i and i + 1 is number i clockwise and, of n ranks, n + i
        counter-clockwise."""
        n, forward = self.ranks, np.asarray(route) == fabric.CLOCKWISE
        start = np.where(forward, source, destination)
        length = np.where(forward, destination - source, source - destination) % n
        return Footprint.of([(np.where(forward, 0, n), start, length, n)])

    def path(self, source: Ints, destination: Ints, route: Ints) -> Ints:
        """Return the links of each transfer in the order in which it crosses them, −1 filling up: [transfer, place].
        Those of counter-clockwise transfers are numbered against their direction, and are reversed."""
        return ordered_links(self.footprint(source, destination, route).runs(), [np.asarray(route) != fabric.CLOCKWISE])

    def route(self, source: Ints, destination: Ints) -> Ints:
        """Return the way around with fewer links for each transfer, 0 clockwise or 1 counter-clockwise: [transfer].
        Where both are equally long, pairs of opposite ranks alternate between them, so that neither way carries more:
        the lower rank sends clockwise if its number is even, and the higher one always the opposite way."""
        n = self.ranks
        ahead = (np.asarray(destination) - source) % n
        tie = (np.minimum(source, destination) % 2 == 1) ^ (np.asarray(destination) < source)
        return np.where((2 * ahead > n) | ((2 * ahead == n) & tie), fabric.COUNTERCLOCKWISE, fabric.CLOCKWISE)

    def reverse_route(self, route: Ints) -> Ints:
        """Return the opposite way around for each route, 1 for 0 and 0 for 1, over which a transfer back passes the
        same nodes: [transfer]."""
        return 1 - np.asarray(route)

    def diameter(self) -> int:
        """Return the number of links between the two ranks farthest apart: half of the ranks, rounded down."""
        return self.ranks // 2

    def cuts(self) -> list[Cut]:
        """Return the cut of one rank, and that into one half of the ring (half of the ranks, rounded down) over its two
        links."""
        half = Cut("the links into one half of the ring", self.ranks // 2, 2 * self.link_rate)
        return [Cut("what one rank can receive", 1, self.rank_rate), half]

    def blocks(self) -> list[tuple[int, float, str]]:
        """Return blocks of neighbours that divide the ring evenly, for every size from 2 on that is less than the whole
        ring, ascending: (ranks of a block, bytes per second into it over its two links, words for messages)."""
        sizes = (size for size in range(2, self.ranks) if self.ranks % size == 0)
        return [(size, 2 * self.link_rate, f"the links into {size} neighbours") for size in sizes]

    @property
    def rank_rate(self) -> float:
        """Return the bytes per second that a rank can receive, and send, over its two links."""
        return 2 * self.link_rate


class WavelengthRing(RingGeometry):
    """Nodes on a ring of fibres, each fibre carrying many wavelengths; micro-rings add, drop or pass each of them.

    A lightpath takes the same wavelength on every link from source to destination and passes the nodes in between as
    light. Sources: TeraRack and SiP-ML (rings in both directions, 25 µs to retune), OpTree section III-A.
    """

    kind: str
    wavelengths: Annotated[Count, Field(le=1024)] = 64
    """Wavelengths of a fibre."""
    wavelength_bandwidth: Bandwidth = 5e9
    """Bytes per second of one wavelength."""
    fibres: Annotated[Count, Field(le=32)] = 1
    """Number of fibres per direction between neighbours."""
    reconfiguration_time: Seconds = 25e-6
    """Seconds to retune the micro-rings, paid whenever a circuit changes."""
    conversion_time: Seconds = 0.0
    """Seconds a step pays for optical-electrical-optical conversion."""
    guard_time: Seconds = 0.0
    """Seconds that every piece holds its lightpath besides its bytes, where pieces follow each other on standing
    circuits."""
    transceivers: Count | None = None
    """Wavelengths a node can send on at once, and receive on at once; null when only the fibres limit it."""
    multicast_taps: Annotated[int, Field(ge=1, strict=True)] = 1
    """Destinations one lightpath may serve by drop-and-continue."""
    lightpath_reach: Count | None = None
    """Links one lightpath may pass before its light is too weak (``lightloom budget``); null without limit."""

    exclusive: ClassVar[bool] = True
    wavelength_routed: ClassVar[bool] = True
    rate_fields: ClassVar[frozenset[str]] = frozenset({"wavelength_bandwidth", "energy_per_bit", "power_per_rank"})
    group_assumption: ClassVar[str] = (
        "a group that has all wavelengths closes its ring, as SiP-ML assumes, which bounds the shares that axes divide"
    )

    @property
    def channels(self) -> int:
        """Return the number of wavelengths of all fibres that lead one way between two neighbours."""
        return self.wavelengths * self.fibres

    @property
    def fibre_channels(self) -> int:
        """Return the wavelengths of one fibre."""
        return self.wavelengths

    @property
    def usable_channels(self) -> int:
        """Number of channels of each link that schedules may fill in both directions at once: all, or half of a node's
        transceivers, rounded down, where that is fewer."""
        return self.channels if self.transceivers is None else min(self.channels, self.transceivers // 2)

    @property
    def channel_bandwidth(self) -> float:
        """Return the bytes per second of one wavelength."""
        return self.wavelength_bandwidth

    def bill_of_parts(self, choices: BillChoices) -> Bill:
        """Return the bill of a rank's fibres and of the engines, or the devices that ``choices`` name instead, of its
        wavelengths: as many as its transceivers, otherwise those of all fibres both ways. The laser power of a
        wavelength is the default of :class:`LinkBudget`."""
        from lightloom.machines.fabrics.bills.grids import wavelength_ring_bill
        from lightloom.machines.fabrics.link_budget import LinkBudget

        light = LinkBudget(wavelengths=self.wavelengths, wavelength_bandwidth=self.wavelength_bandwidth).laser_power
        sending = 2 * self.channels if self.transceivers is None else self.transceivers
        return wavelength_ring_bill(self.ranks, sending, self.wavelength_bandwidth, 2 * self.fibres, light, choices)

    def pair(self, stride: int) -> tuple[float, float]:
        """Return the bytes per second at which every rank sends to the one ``stride`` further on, all at once, and the
        seconds of latency; infinite and 0 where that is the rank itself.

        Circuits are set where they are needed, so that each rank has an equal share of what all ranks together can
        receive, whatever the stride, at the least latency between two ranks of the ring.
        """
        if stride % self.ranks == 0:
            return np.inf, 0.0
        return self.total_receive_bandwidth() / self.ranks, self.neighbour_latency()

    def channel_sharing(self, stride: Ints) -> Ints:
        """Return ``stride`` itself, as so many groups whose ranks lie ``stride`` apart interleave on the ring and
        divide its wavelengths: [stride]."""
        return stride

    @property
    def link_rate(self) -> float:
        """Return the bytes per second of all channels of a link, one way."""
        return self.channels * self.wavelength_bandwidth

    @property
    def rank_rate(self) -> float:
        """Return the bytes per second that a rank can receive over its two links, and send: those of all their
        channels, or of its transceivers where these are fewer."""
        usable = 2 * self.channels if self.transceivers is None else min(2 * self.channels, self.transceivers)
        return usable * self.wavelength_bandwidth


class SharedRing(WavelengthRing):
    """A ring of wavelengths that all links have, so that groups of its ranks can divide them."""

    def group(self, ranks: int, stride: int = 1) -> fabric.Fabric | None:
        """Return a ring of ``ranks`` ranks with all wavelengths and the same fields, whatever the stride, as if the
        group closed a ring of its own; None where this kind of ring does not allow as many ranks."""
        return self._with(ranks=ranks)

    @property
    def closes(self) -> bool:
        """True if the links after the last rank lead to the first one, and belong to this ring alone."""
        return True

    def share_unit(self, ranks: int, stride: int) -> int:
        """Return the channels of a link of which any share that groups of ``ranks`` ranks, each ``stride`` from the
        next, hold together must be a multiple: ``stride``, a channel for each of the groups that interleave; twice as
        many where the groups do not reach around the ring, since light that would pass a group's end goes back the long
        way on wavelengths of its own."""
        return stride * (1 if self._closes(ranks, stride) else 2)

    def share(self, ranks: int, stride: int, channels: int) -> fabric.Fabric | None:
        """Return one group of ``ranks`` ranks, each ``stride`` from the next, as a ring of its part of ``channels``
        wavelengths, which all interleaved groups divide (by ``share_unit``), each link as long as ``stride`` of this
        ring's. It has this ring's times, energy and power and no limit of transceivers. This ring itself where the
        group has all ranks and wavelengths and there is one fibre.

        A group that does not reach around the ring is closed by light that goes back the long way, without multicast.
        None without a wavelength for each group, or where ``lightpath_reach`` is too short: for the links between
        neighbours of the group or, if it does not reach around the ring, from its first rank to its last.
        """
        wavelengths = channels // self.share_unit(ranks, stride)
        closes = self._closes(ranks, stride)
        reach = self.reach
        if wavelengths < 1 or (reach is not None and reach < (stride if closes else (ranks - 1) * stride)):
            return None
        if ranks == self.ranks and wavelengths == self.channels and self.fibres == 1 and closes:
            return self
        common = {name: getattr(self, name) for name in _COMMON}
        if not closes:
            # Light does not go both ways at once.
            common["multicast_taps"] = 1
        return RingGroup(
            ranks=ranks,
            wavelengths=wavelengths,
            hop_latency=self.hop_latency * stride,
            lightpath_reach=None if reach is None else max(reach // stride, 1),
            held=channels // stride,
            reaches_around=closes,
            **common,
        )

    def embedded(self, axis: fabric.AxisShare, group: Ints, local: fabric.Lightpaths) -> fabric.Lightpaths:
        """Return the lightpaths between ranks of the whole ring that lightpaths of groups become, on the wavelengths
        that each group holds.

        Those that pass the end of a group which does not reach around the ring go the other way, on the upper half of
        the group's wavelengths, so that no two on one link share a wavelength.

        Args:
            axis: ranks and stride of the groups, and the range of channels that they hold together.
            group: number of each lightpath's group, in the order of the groups' first ranks: [lightpath].
            local: lightpaths between ranks of a group, its ranks and channels counted from 0.
        """
        members = derived.group_members(self.ranks, axis.ranks, axis.stride)
        channel = axis.first + group % axis.stride * (axis.channels // axis.stride) + local.channel
        ends, route = (members[group, local.source], members[group, local.destination]), local.route
        if not self._closes(axis.ranks, axis.stride):
            passes = (local.destination > local.source) != (np.asarray(route) == fabric.CLOCKWISE)
            route = np.where(passes, 1 - np.asarray(route), route)
            channel = channel + np.where(passes, axis.channels // self.share_unit(axis.ranks, axis.stride), 0)
        return fabric.Lightpaths(*ends, route, channel)

    def shift_unit(self, stride: int) -> int:
        """Return the fewest channels of a link with which every rank can send to the rank ``stride`` further on and at
        once to the one before: 1 where the ring closes, as each way around carries one direction of the sends;
        otherwise 2, as links one way carry both."""
        return 1 if self.closes else 2

    def shift(self, stride: int, channels: int) -> fabric.Shift:
        """Return how every rank sends to the one ``stride`` further on, and at once to the one before, over
        ``channels`` channels of every link, at least :meth:`shift_unit` (1, or 2 where the ring does not close).

        The way is divided into equal hops, whose circuits overlap and need channels of their own: they are the longest
        for which the channels suffice and that divide the stride, and around a closed ring the number of ranks too;
        where the ring does not close, the hops of the longer way, through it or back, count. The rate is that of a
        circuit, all of its channels, divided by the hops; the latency counts ``conversion_time`` for each hop.
        """
        each = channels // self.shift_unit(stride)
        around = self.ranks if self.closes else 0
        hop = max(size for size in range(1, min(stride, each) + 1) if stride % size == around % size == 0)
        hops, width = (stride if self.closes else max(stride, self.ranks - stride)) // hop, each // hop
        rate = width * self.wavelength_bandwidth / hops
        return fabric.Shift(hop, hops, width, rate, hops * (hop * self.hop_latency + self.conversion_time))

    def shift_circuits(self, stride: int, first: int, channels: int) -> tuple[fabric.Lightpaths, int]:
        """Return the circuits of :meth:`shift` as lightpaths, first one hop of every rank onward, then one of every
        rank back, and the number of channels of each. They lie within ``channels`` channels of every link, from number
        ``first`` on.

        Hops that pass the end of a ring that does not close go the long way, on the upper half of the channels.
        """
        shift, rank = self.shift(stride, channels), np.arange(self.ranks)
        slot = first + rank % shift.hop * shift.width
        onward = (rank + shift.hop) % self.ranks
        passes = np.zeros(self.ranks, np.bool_) if self.closes else rank + shift.hop >= self.ranks
        back = channels // self.shift_unit(stride)
        forward = fabric.Lightpaths(
            rank, onward, np.where(passes, fabric.COUNTERCLOCKWISE, fabric.CLOCKWISE), slot + passes * back
        )
        backward = fabric.Lightpaths(onward, rank, 1 - forward.route, forward.channel)
        return fabric.Lightpaths(*map(np.concatenate, zip(forward, backward, strict=True))), shift.width

    def _closes(self, ranks: int, stride: int) -> bool:
        """Return True if groups of so many ranks at a stride reach around the whole ring: if ranks times stride are all
        of its ranks, and this ring closes itself."""
        return self.closes and ranks * stride == self.ranks


class WdmRing(SharedRing):
    """A ring of wavelengths on which everything works."""

    kind: Literal["wdm-ring"] = "wdm-ring"

    @property
    def may_fail(self) -> tuple[str, ...]:
        """Return the kinds of failure that a ring of wavelengths models: ``wavelength``, ``transceiver``, ``segment``,
        ``cable``, ``node`` and ``dark-node``."""
        return ("wavelength", "transceiver", "segment", "cable", "node", "dark-node")


class RingGroup(SharedRing):
    """The wavelengths that one group of a ring's ranks has, as a ring.

    Lightpaths pass ``hop_latency`` from rank to rank of the group. Where the group does not reach around the ring,
    those that pass its end really go back the long way (:meth:`SharedRing.embedded`), and take as long.
    """

    kind: Literal["ring-group"] = "ring-group"
    held: Count = 1
    """Wavelengths of every link that the group holds, those on which light goes back included."""
    reaches_around: bool = True
    """True if the links between the last rank and the first lead on around the whole ring."""

    @property
    def closes(self) -> bool:
        """True if the group reaches around the whole ring."""
        return self.reaches_around

    @property
    def shared_channels(self) -> int:
        """Return all wavelengths that the group holds, those on which light goes back included."""
        return self.held

    def embedding(self) -> Self:
        """Return this ring with all wavelengths that the group holds, those on which light goes back the long way
        included."""
        return self.model_copy(update={"wavelengths": self.held})

    def pair(self, stride: int) -> tuple[float, float]:
        """Return the bytes per second and the seconds of latency from every rank to the one ``stride`` further on, over
        all wavelengths that the group holds and circuits that stand (:meth:`shift`); infinite and 0 where that is the
        rank itself."""
        if stride % self.ranks == 0:
            return np.inf, 0.0
        shift = self.shift(stride % self.ranks, self.held)
        return shift.rate, shift.latency

    def latency(self, source: Ints, destination: Ints, route: Ints) -> Floats:
        """Return ``hop_latency`` times the links that each transfer passes on its route; where the group does not reach
        around the ring, times the difference of the ranks, whatever the route: [transfer]."""
        if self.closes:
            return super().latency(source, destination, route)
        return np.asarray(self.hop_latency * np.abs(np.asarray(destination) - source), np.float64)

    def diameter_latency(self) -> float:
        """Return ``hop_latency`` times half of the ranks, rounded down; where the group does not reach around the ring,
        times the links from its first rank to its last."""
        return super().diameter_latency() if self.closes else self.hop_latency * (self.ranks - 1)


class Ring(RingGeometry):
    """An electrical ring: each neighbour pair joined by one link each way, packets forwarded hop by hop."""

    kind: Literal["ring"] = "ring"
    bandwidth: Bandwidth = 50e9
    """Bytes per second of a link, per direction."""

    joins_ranks: ClassVar[bool] = True

    def bill_of_parts(self, choices: BillChoices) -> Bill:
        """Return the bill of a closed grid of one dimension: links between neighbours and their ends, per rank."""
        from lightloom.machines.fabrics.bills.grids import Grid, grid_bill

        grid = Grid(ranks=self.ranks, dims=(self.ranks,), wraps=True, bandwidth=self.bandwidth, kind="ring")
        return grid_bill(grid, choices)

    @property
    def link_rate(self) -> float:
        """Return the bytes per second of a link each way."""
        return self.bandwidth
