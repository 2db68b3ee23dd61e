"""What packets cost: headers on the wire, and time that a port spends on each packet whatever it holds.

    |header| payload          |gap|header| payload          |gap|      a packet is payload + header bytes on the wire
                                                                       and keeps a port busy ``packet_time`` beside them

Sizes are real numbers here as everywhere: the last, shorter packet of a message is not modelled. A link therefore
carries data at ``payload / ((payload + header) / bandwidth + packet_time)``, and that rate is all that the cost models
and the bounds see.
"""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from lightloom.core.fields import Seconds, Size
from lightloom.fabrics.base import Fabric
from lightloom.transports.base import Transport
from lightloom.transports.library import Library
from lightloom.transports.load import NamedTransport
from lightloom.transports.ways import Tiers


class PacketFabric(Fabric):
    """A fabric of links that carry packets; without ``packet_payload`` data flows with no packets at all."""

    packet_payload: Annotated[Size, Field(gt=0)] | None = None
    """Bytes of data in a packet; null leaves packets out of the model."""
    packet_header: Size = 0.0
    """Bytes that every packet adds on the wire: headers, preamble, checksum, gap."""
    packet_time: Seconds = 0.0
    """Seconds that a rank's port (network stack, driver, card) is busy with every packet, beside its bits."""

    transport: NamedTransport | None = None
    """What a collective library adds: a transport of the catalog (``nccl-hopper``), a YAML file, or fields over a
    ``base``; ``ideal`` where software costs nothing. Left out, a cluster takes the transport of its accelerator, and a
    fabric by itself none."""

    @model_validator(mode="after")
    def _transport_needs_switches(self) -> Self:
        if self.transport is None or self.transport.ideal:
            return self
        if self.library_tiers() is None:
            raise ValueError(f"transport {self.transport.name!r} needs tiers of switches: expected no other shape")
        if self.packet_payload is not None:
            raise ValueError(
                f"transport {self.transport.name!r} counts what packets take already: expected no packet_payload, or "
                "transport: ideal"
            )
        return self

    def library_tiers(self) -> Tiers | None:
        """The two tiers that closed forms of a collective library see; None where links are not those of switches."""
        return None

    @property
    def library(self) -> Library | None:
        tiers = None if self.transport is None or self.transport.ideal else self.library_tiers()
        return None if tiers is None or self.transport is None else Library(tiers, self.transport)

    @property
    def software(self) -> str:
        if self.transport is not None:
            return "ideal software, as stated" if self.transport.ideal else self.transport.name
        if self.packet_payload is not None:
            return "ideal software, as packets are counted instead"
        return super().software if self.library_tiers() is None else "ideal software, as nothing names a transport"

    def with_default_transport(self, transport: Transport, source: str) -> Self:
        if self.transport is not None or self.packet_payload is not None or self.library_tiers() is None:
            return self
        return self.model_copy(update={"transport": transport, "sources": self.sources | {"transport": source}})

    @property
    def arithmetic_share(self) -> float:
        return 0.0 if self.transport is None else self.transport.arithmetic_share

    @model_validator(mode="after")
    def _packets_have_a_size(self) -> Self:
        if self.packet_payload is None and (self.packet_header or self.packet_time):
            raise ValueError("packet_header and packet_time need packet_payload, the bytes of data in a packet")
        return self

    def data_rate(self, bandwidth: float, ports: int = 1) -> float:
        """Bytes of data per second through a link of ``bandwidth`` that serves ``ports`` ports."""
        if self.packet_payload is None:
            return bandwidth
        packet = self.wire_bytes(self.packet_payload) / bandwidth + self.packet_time / ports
        return self.packet_payload / packet

    def packets(self, nbytes: float) -> float:
        """Packets that ``nbytes`` of data fill; 0 where there are none."""
        return 0.0 if self.packet_payload is None else nbytes / self.packet_payload

    def wire_bytes(self, nbytes: float) -> float:
        return nbytes + self.packets(nbytes) * self.packet_header

    def with_smaller_packets(self, ratio: float) -> Self:
        if self.packet_payload is None:
            return self
        return self.model_copy(update={"packet_payload": self.packet_payload / ratio})
