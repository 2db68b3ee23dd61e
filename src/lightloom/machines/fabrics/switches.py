"""Optical circuit switches (SiP-OCS): every rank has one port on each of ``degree`` switch planes.

plane 0   ports in ── permutation ── ports out
...
plane D−1                                        a circuit takes a source's input and a destination's output of a plane
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from lightloom.core.arrays import Ints
from lightloom.core.errors import LightloomError
from lightloom.core.fields import Bandwidth, Count, Seconds
from lightloom.machines.fabrics import derived, fabric
from lightloom.machines.fabrics.packets import PacketFabric, StarGeometry
from lightloom.machines.transports.transport import Scales
from lightloom.machines.transports.ways import Tiers

if TYPE_CHECKING:
    from lightloom.machines.parts.bill import Bill, BillChoices

_TIMES = ("reconfiguration_time", "link_up_time")
"""Fields that a product gives."""


class CircuitSwitch(StarGeometry):
    """Flat planes of one N-port switch each; the degree D of SiP-ML section 3.1 is the number of planes."""

    kind: Literal["circuit-switch"] = "circuit-switch"
    degree: Annotated[Count, Field(le=1024)] = 8
    """Switch planes, hence circuits that a rank can hold at once."""
    bandwidth: Bandwidth = 50e9
    """Bytes per second of one circuit, per direction."""
    product: str | None = None
    """The part that the planes are built of (``lightloom catalog parts``): gives the two times below where they are
    left out, and is what a bill counts; null: a bill counts ports of any."""
    reconfiguration_time: Seconds = 10e-3
    """Seconds to set new permutations."""
    link_up_time: Seconds = 0.0
    """Seconds from new permutations until links over them carry data; 0 assumes receivers in burst mode."""

    exclusive: ClassVar[bool] = True
    rate_fields: ClassVar[frozenset[str]] = frozenset({"bandwidth", "energy_per_bit", "power_per_rank"})
    distance_matters: ClassVar[bool] = True
    switch_planes: ClassVar[bool] = True
    port_cut: ClassVar[str] = "the circuits that one rank can hold"

    @model_validator(mode="before")
    @classmethod
    def _times_of_the_product(cls, data: object) -> object:
        """Return the fields with ``reconfiguration_time`` and ``link_up_time``, and their sources, of the named
        ``product`` filled in where they are not given and the product states them; unchanged without a product.

        Raises:
            ValueError: there is no such part, or it is no optical circuit switch.
        """
        if not isinstance(data, Mapping) or not isinstance(data.get("product"), str):
            return data
        from lightloom.machines.fabrics.bills.switches import circuit_switch_product

        try:
            product = circuit_switch_product(data["product"])
        except LightloomError as error:
            raise ValueError(str(error)) from error
        times = {name: value for name in _TIMES if (value := getattr(product, name)) is not None and name not in data}
        sources = {name: product.sources.get(name, f"as of {product.name}") for name in times}
        return fabric.with_derived(data, times, sources)

    def stated_fields(self) -> dict[str, object]:
        """Return the fields, by name, from which a changed copy is built, without ``reconfiguration_time`` or
        ``link_up_time``, and its source, where it equals that of the ``product``."""
        from lightloom.machines.fabrics.bills.switches import circuit_switch_product

        product = None if self.product is None else circuit_switch_product(self.product)
        follow = [name for name in _TIMES if product and getattr(product, name) == getattr(self, name)]
        return fabric.without_derived(self.model_dump(), follow)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return a sentence where ``link_up_time`` 0 beside a ``reconfiguration_time`` above 0 assumes receivers in
        burst mode, and one where there are more ranks than ports on the ``product`` or, without one, on the largest
        switch of the catalog."""
        from lightloom.machines.fabrics.bills.switches import most_ports

        lines = []
        if self.reconfiguration_time > 0 and self.link_up_time == 0:
            lines.append(
                "link_up_time 0 assumes receivers in burst mode: measured network cards took 5.67 s until their links "
                "were up (ocs-measured)"
            )
        if self.ranks > (most := most_ports(self.product)):
            lines.append(
                f"planes of {self.ranks:,} ports are one switch each, and products have at most {most}: a bill counts "
                "three stages, times and losses are those of one"
            )
        return tuple(lines)

    @property
    def channels(self) -> int:
        """Return the number of switch planes."""
        return self.degree

    @property
    def channel_bandwidth(self) -> float:
        """Return the bytes per second of one circuit."""
        return self.bandwidth

    def bill_of_parts(self, choices: BillChoices) -> Bill:
        """Return the bill of cards, transceivers, fibres and switches of the planes, per rank; the switches are of
        ``product`` unless ``choices`` name another."""
        from lightloom.machines.fabrics.bills.switches import circuit_switch_bill

        if choices.circuit_switch is None and self.product is not None:
            choices = choices.model_copy(update={"circuit_switch": self.product})
        return circuit_switch_bill(self.ranks, self.degree, self.bandwidth, choices)

    def link_name(self, link: int) -> str:
        """Return ``input port of rank 3`` or ``output port of rank 3`` for a link, which stands for that port on all
        planes together; the input ports, into which ranks send, are numbered first."""
        return f"input port of rank {link}" if link < self.ranks else f"output port of rank {link - self.ranks}"

    @property
    def link_rate(self) -> float:
        """Return the bytes per second of a rank's ports on all planes."""
        return self.degree * self.bandwidth

    def share_unit(self, ranks: int, stride: int) -> int:
        """Return the planes of which a share that groups of ranks hold must be a multiple: 1, whatever ``ranks`` and
        ``stride``, as any single plane can be set to circuits of one axis."""
        return 1

    def share(self, ranks: int, stride: int, channels: int) -> Self | None:
        """Return a circuit switch of ``channels`` planes for the ``ranks`` ranks of one group, as every group of the
        axis has circuits of its own on them; None where the fabric has not as many planes."""
        return self._with(ranks=ranks, degree=channels) if channels <= self.degree else None

    def embedded(self, axis: fabric.AxisShare, group: Ints, local: fabric.Lightpaths) -> fabric.Lightpaths:
        """Return the lightpaths between ranks of the whole fabric that lightpaths of groups become; every group uses
        the same planes, the axis's.

        Args:
            axis: ranks and stride of the groups, and the planes that they hold.
            group: number of each lightpath's group, in the order of the groups' first ranks: [lightpath].
            local: lightpaths between ranks of a group, its ranks and planes counted from 0.
        """
        members = derived.group_members(self.ranks, axis.ranks, axis.stride)
        ends = members[group, local.source], members[group, local.destination]
        return fabric.Lightpaths(*ends, local.route, axis.first + local.channel)

    def shift_unit(self, stride: int) -> int:
        """Return the fewest planes with which every rank can send to the rank ``stride`` further on and at once to the
        one before: 2, a plane each way; 1 where these are one rank."""
        return 1 if 2 * stride == self.ranks else 2

    def shift(self, stride: int, channels: int) -> fabric.Shift:
        """Return how every rank sends to the one ``stride`` further on, and at once to the one before: in one hop over
        circuits that stand, each as wide as half of the ``channels`` planes, rounded down, or as all of them where both
        ways are the same circuits, at the bytes per second of these planes and the latency of one transfer."""
        width = channels // self.shift_unit(stride)
        return fabric.Shift(stride, 1, width, width * self.bandwidth, self.neighbour_latency())

    def shift_circuits(self, stride: int, first: int, channels: int) -> tuple[fabric.Lightpaths, int]:
        """Return the circuits of :meth:`shift` as lightpaths, and the number of planes of each.

        Those onward lie on the first half, rounded down, of ``channels`` planes from number ``first`` on, those back on
        as many planes after them; a lightpath's channel is its first plane. Where both ways are the same circuits,
        there are only those onward, on all planes.
        """
        rank, width = np.arange(self.ranks), self.shift(stride, channels).width
        parts = [
            fabric.Lightpaths(
                rank, (rank + way * stride) % self.ranks, np.zeros_like(rank), np.full(len(rank), first + begin)
            )
            for way, begin in zip((1, -1), range(0, channels, max(width, 1)), strict=False)
        ]
        return fabric.Lightpaths(*map(np.concatenate, zip(*parts, strict=True))), width


# Electrical packet switches: one non-blocking switch that joins all ranks.


class PacketSwitch(StarGeometry, PacketFabric):
    """A star: every rank has one full-duplex port on a non-blocking switch.

    rank i ──up i──▶ [switch] ──down j──▶ rank j
    """

    kind: Literal["switch"] = "switch"
    bandwidth: Bandwidth = 50e9
    """Bytes per second of a port, per direction."""

    rate_fields: ClassVar[frozenset[str]] = frozenset({"bandwidth", "energy_per_bit", "power_per_rank"})

    @property
    def may_fail(self) -> tuple[str, ...]:
        """Return the kinds of failure that are modelled: ``node`` and ``dark-node``."""
        return ("node", "dark-node")

    @property
    def link_rate(self) -> float:
        """Return the bytes of data per second of a port, headers of packets left out."""
        return self.data_rate(self.bandwidth)

    def library_tiers(self) -> Tiers | None:
        """Return two tiers in which every rank is a domain of its own and the switch is the network, at the data rate
        of a port; never None."""
        return Tiers(1, self.link_rate, self.link_rate)

    def carried_rates(self, scales: Scales) -> dict[str, object]:
        """Return the field ``bandwidth``, by name: a port's bytes per second times the factor in ``scales`` by which
        the library drives the network."""
        return {"bandwidth": scales.network_bandwidth * self.bandwidth}

    def bill_of_parts(self, choices: BillChoices) -> Bill:
        """Return the bill of cards, links and switch ports for each rank: of a fat tree where no switch has as many
        ports as there are ranks."""
        from lightloom.machines.fabrics.bills.switches import switch_bill

        return switch_bill(self.ranks, self.bandwidth, choices)


# Some ranks of a packet fabric as a fabric: a job that has them to itself, on links that other jobs use too.


class PartFabric(fabric.GroupFabric):
    """The given ranks of a fabric, numbered from 0 in their order; all other ranks are silent."""

    kind: Literal["part"] = "part"  # type: ignore[assignment]
    members: tuple[int, ...]
    """Ranks of the fabric."""
    slowed: float = 1.0
    """How many times longer sends from stage to stage take, since other jobs use their links."""

    @model_validator(mode="after")
    def _groups_tile_the_fabric(self) -> Self:
        """Raise ValueError for members that repeat or are not ranks of the fabric, and for fabrics of circuits or that
        add in the network; otherwise return the part unchanged."""
        if len(set(self.members)) != self.ranks or not all(0 <= rank < self.whole.ranks for rank in self.members):
            raise ValueError(f"members of a part of {self.ranks} ranks: expected as many of {self.whole.ranks}")
        if self.whole.exclusive or self.whole.in_network_reduction:
            raise ValueError(f"a {self.whole.kind_name} carries no packets: expected links that transfers share")
        return self

    @classmethod
    def on(cls, whole: fabric.Fabric, members: Sequence[int]) -> Self:
        """Return the part of a fabric that has these ranks, ``members``, in their order, with the fabric's latency and
        energy fields. ValidationError where ranks repeat or are none of the fabric's, or where the fabric is one of
        circuits or adds in the network."""
        return cls.of(whole, len(members), members=tuple(members))

    def siblings(self) -> tuple[fabric.Fabric, Ints]:
        """Return the whole fabric and the part's ranks there, as the only group: [1, rank]."""
        return self.whole, np.array(self.members, np.int64)[None]

    def pair(self, stride: int) -> tuple[float, float]:
        """Return the bytes per second of the slowest transfer, divided by ``slowed``, and the seconds of the longest
        latency when every rank of the part sends at once to the one ``stride`` further on, modulo their number;
        infinite and 0 where that is the rank itself."""
        rate, latency = super().pair(stride)
        return rate / self.slowed, latency

    @property
    def library(self) -> None:
        """None, as a library's figures are for whole fabrics."""

    @property
    def axes(self) -> tuple[fabric.Axis, ...]:
        """Return the axes of the whole fabric, innermost first, cut to the part: inner ones whole, the last perhaps
        shorter. Empty unless the members are consecutive ranks in ascending order that fill the inner axes, begin where
        these begin and do not pass the end of the last."""
        first, axes, stride = self.members[0], [], 1
        if self.members != tuple(range(first, first + self.ranks)):
            return ()
        for axis in self.whole.axes:
            size = min(axis.size, self.ranks // axis.stride)
            if size < 2 or axis.stride != stride:
                break
            axes.append(axis._replace(size=size))
            stride *= size
        if stride != self.ranks or not axes:
            return ()
        last = self.whole.axes[len(axes) - 1]
        begin, offset = divmod(first, last.stride)
        return tuple(axes) if not offset and begin % last.size + axes[-1].size <= last.size else ()
