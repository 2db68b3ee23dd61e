"""Electrical packet switches: one non-blocking switch that joins all ranks."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from lightloom.core.fields import Bandwidth
from lightloom.fabrics.bills.switches import switch_bill
from lightloom.fabrics.packets import PacketFabric
from lightloom.fabrics.star import StarGeometry
from lightloom.parts.bill import Bill
from lightloom.parts.choices import BillChoices
from lightloom.transports.ways import Tiers


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
        return ("node", "dark-node")

    @property
    def port_bandwidth(self) -> float:
        return self.data_rate(self.bandwidth)

    def library_tiers(self) -> Tiers | None:
        return Tiers(1, self.port_bandwidth, self.port_bandwidth)

    def as_carried(self) -> Self:
        if self.transport is None:
            return self
        faster = self.transport.scales.network_bandwidth * self.bandwidth
        return self.model_copy(update={"transport": None, "bandwidth": faster})

    def bill_of_parts(self, choices: BillChoices) -> Bill:
        return switch_bill(self.ranks, self.bandwidth, choices)
