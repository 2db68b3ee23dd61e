"""Bills of electrical packet switches."""

from __future__ import annotations

from lightloom.fabrics.bills.links import nic, optical_link, ports_for, switch_port
from lightloom.parts.bill import Bill, Line
from lightloom.parts.choices import BillChoices


def switch_bill(ranks: int, bandwidth: float, choices: BillChoices) -> Bill:
    """Return the bill of one switch that every rank reaches over a link of ``bandwidth``: m (n + p + link)."""
    ports = ports_for(bandwidth, choices)
    why = f"m = {ports.text(bandwidth)}"
    port = switch_port(ports, choices)
    lines = [Line(nic(ports, choices), ports.number, why), Line(port, ports.number, why)]
    return Bill(ranks, (*lines, *optical_link(ports, ports.number, why, choices)), bandwidth=bandwidth, kind="switch")
