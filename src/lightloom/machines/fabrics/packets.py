"""Costs of packets: headers on the wire, and time that a port spends on each packet whatever it holds.

    |header| payload          |gap|header| payload          |gap|      a packet is payload + header bytes on the wire
                                                                       and keeps a port busy ``packet_time`` beside them

Sizes are real numbers here as everywhere: the last, shorter packet of a message is not modelled. A link therefore
carries data at ``payload / ((payload + header) / bandwidth + packet_time)``, and that rate is all that the cost models
and the bounds see.
"""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from lightloom.core.arrays import Ints
from lightloom.core.fields import Seconds, Size
from lightloom.machines.fabrics.derived import Cut, Footprint, Ports
from lightloom.machines.fabrics.fabric import EvenFabric, Fabric
from lightloom.machines.parts.part import Kind
from lightloom.machines.transports.price import Library
from lightloom.machines.transports.transport import NamedTransport, Scales, Transport


class PacketFabric(Fabric):
    """A fabric of links that carry packets; without ``packet_payload`` data flows with no packets at all."""

    packet_payload: Annotated[Size, Field(gt=0)] | None = None
    """Bytes of data in a packet; null leaves packets out of the model."""
    packet_header: Size = 0.0
    """Bytes that every packet adds on the wire: headers, preamble, checksum, gap."""
    packet_time: Seconds = 0.0
    """Seconds that a rank's port (network stack, driver, card) is busy with every packet, beside its bits."""

    transport: NamedTransport | None = None
    """Costs that a collective library adds: a transport of the catalog (``nccl-hopper``), a YAML file, or fields over a
    ``base``; ``ideal`` where software costs nothing. Left out, a cluster takes the transport of its accelerator, and a
    fabric by itself none."""

    @model_validator(mode="after")
    def _packets_and_transport_agree(self) -> Self:
        """Raise ValueError for a transport without tiers of switches or beside packets, unless it is ideal, and for
        headers or packet times without a payload; otherwise return the fabric unchanged."""
        transport = None if self.transport is None or self.transport.ideal else self.transport
        if transport is not None and self.library_tiers() is None:
            raise ValueError(f"transport {transport.name!r} needs tiers of switches: expected no other shape")
        if transport is not None and self.packet_payload is not None:
            raise ValueError(
                f"transport {transport.name!r} counts what packets take already: expected no packet_payload, or "
                "transport: ideal"
            )
        if self.packet_payload is None and (self.packet_header or self.packet_time):
            raise ValueError("packet_header and packet_time need packet_payload, the bytes of data in a packet")
        return self

    @cached_property
    def library(self) -> Library | None:
        """Return the collective library that the stated transport makes of the tiers of switches that it sees; None
        where none is stated, it is ideal, or there are no such tiers."""
        tiers = None if self.transport is None or self.transport.ideal else self.library_tiers()
        return None if tiers is None or self.transport is None else Library(tiers, self.transport)

    @property
    def software(self) -> str:
        """Return the name of the transport that costs something, otherwise words that say why software costs nothing,
        such as ``ideal software, as stated``."""
        if self.transport is not None:
            return "ideal software, as stated" if self.transport.ideal else self.transport.name
        if self.packet_payload is not None:
            return "ideal software, as packets are counted instead"
        return super().software if self.library_tiers() is None else "ideal software, as nothing names a transport"

    def with_default_transport(self, transport: Transport, source: str) -> Self:
        """Return this fabric with ``transport`` as its network software and ``source`` as the source of that field.
        Unchanged where it states a transport or the payload of packets, or its links are not those of switches."""
        if self.transport is not None or self.packet_payload is not None or self.library_tiers() is None:
            return self
        return self.model_copy(update={"transport": transport, "sources": self.sources | {"transport": source}})

    def as_carried(self) -> Self:
        """Return this fabric without its transport, the bandwidths of its links scaled as that transport drives them
        (``carried_rates``); unchanged where it states none. The object itself stays as it is."""
        if self.transport is None:
            return self
        return self.model_copy(update={"transport": None, **self.carried_rates(self.transport.scales)})

    def carried_rates(self, scales: Scales) -> dict[str, object]:
        """Return the bandwidth fields, by name, as a collective library with these ``scales`` drives the links, to
        replace the stated ones; empty here, as kinds with a library define their own."""
        return {}

    @property
    def arithmetic_share(self) -> float:
        """Return the transport's share of an accelerator's arithmetic; 0 where none is stated."""
        return 0.0 if self.transport is None else self.transport.arithmetic_share

    def data_rate(self, bandwidth: float, ports: int = 1) -> float:
        """Return the bytes of data per second through a link: the payload of a packet over the time of its bytes,
        header included, on the wire plus ``packet_time / ports``.

        Args:
            bandwidth: bytes per second on the wire; returned unchanged where the fabric has no packets.
            ports: number of ports that the link serves, which spend ``packet_time`` on their packets at the same time.
        """
        if self.packet_payload is None:
            return bandwidth
        return self.packet_payload / (self.wire_bytes(self.packet_payload) / bandwidth + self.packet_time / ports)

    def packets(self, nbytes: float) -> float:
        """Return the number of packets that ``nbytes`` of data fill, headers not counted, a real number and not rounded
        up; 0 where the fabric has no packets."""
        return 0.0 if self.packet_payload is None else nbytes / self.packet_payload

    def wire_bytes(self, nbytes: float) -> float:
        """Return ``nbytes`` of data plus the headers of the packets, a real number, that they fill; ``nbytes`` without
        packets."""
        return nbytes + self.packets(nbytes) * self.packet_header

    def with_smaller_packets(self, ratio: float) -> Self:
        """Return this fabric with the payload of packets divided by ``ratio``, not rounded, their header and time as
        before; unchanged without packets."""
        if self.packet_payload is None:
            return self
        return self.model_copy(update={"packet_payload": self.packet_payload / ratio})


# The geometry of fabrics in which every rank has one way in and one way out of a common middle.


class StarGeometry(EvenFabric):
    """Link i leads from rank i to the middle, link N + i from the middle to rank i."""

    distance_matters: ClassVar[bool] = False
    stated_power_of: ClassVar[tuple[Kind, ...] | None] = ("nic",)
    port_cut: ClassVar[str] = "what one rank's port can receive"
    """Name of the cut of a single rank."""

    def link_name(self, link: int) -> str:
        """Return ``uplink of rank 3`` or ``downlink of rank 3`` for a link's number, uplinks first."""
        return f"uplink of rank {link}" if link < self.ranks else f"downlink of rank {link - self.ranks}"

    def footprint(self, source: Ints, destination: Ints, route: Ints) -> Footprint:
        """Return the source's uplink and the destination's downlink of each transfer, whatever ``route``, one run of
        one link each; uplinks are numbered by rank from 0, downlinks from the number of ranks on."""
        return Footprint.of([(0, source, 1, self.ranks), (self.ranks, destination, 1, self.ranks)])

    def diameter(self) -> int:
        """Return 2, the links from rank to middle and from there to another rank."""
        return 2

    def neighbour_latency(self) -> float:
        """Return the least seconds of a transfer between two ranks: those of the diameter, as all ranks are equally far
        apart."""
        return self.diameter_latency()

    def cuts(self) -> list[Cut]:
        """Return, in a list, the cut around one rank alone, whose capacity is the bytes per second of a link each
        way."""
        return [Cut(self.port_cut, 1, self.link_rate)]

    def ports(self, source: Ints, destination: Ints) -> Ports | None:
        """Return port 0 of each transfer's source and destination, and the rate of a link in bytes per second, as every
        rank has one port: [transfer] each, never None."""
        only = np.zeros(len(source), np.int64)
        return Ports(only, only, np.full(len(source), self.link_rate))

    def group(self, ranks: int, stride: int = 1) -> Self | None:
        """Return a star of ``ranks`` ranks with the same links, whatever the stride, as siblings share none; None where
        the fields do not allow so many."""
        return self._with(ranks=ranks)
