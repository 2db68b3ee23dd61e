"""Ports and links: which parts carry a rate, and how many of them beside each other."""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from lightloom.core.units import format_bandwidth
from lightloom.parts.bill import Line
from lightloom.parts.choices import BillChoices
from lightloom.parts.load import load_part
from lightloom.parts.part import Part

RATES = (40, 100, 200, 400, 800, 1600)
"""Gb/s of the ports of the catalog: ``transceiver-400g``, ``nic-400g``, ``switch-port-400g``."""
_CLOSE = 1 + 1e-9
"""A port carries a link that is faster by no more than rounding."""


class Ports(NamedTuple):
    """So many equal ports beside each other that carry one link."""

    number: int
    rate: float
    """Bytes per second of one of them."""
    name: str
    """Rate in names of parts, such as ``400g``."""

    def text(self, bandwidth: float) -> str:
        """Return how the count came about."""
        return f"{format_bandwidth(bandwidth)} / {format_bandwidth(self.rate)} = {self.number} ports"


def ports_for(bandwidth: float, choices: BillChoices) -> Ports:
    """Return the ports that carry ``bandwidth`` bytes per second."""
    rate = choices.port_rate
    if rate is None:
        wide = next((gbps for gbps in RATES if bandwidth <= gbps * 0.125e9 * _CLOSE), RATES[-1])
        rate = wide * 0.125e9
    return Ports(ceil(bandwidth / (rate * _CLOSE)), rate, f"{rate * 8e-9:.0f}g")


def transceiver(ports: Ports, choices: BillChoices) -> Part:
    """Return the transceiver of such a port."""
    return load_part(choices.transceiver or f"transceiver-{ports.name}")


def nic(ports: Ports, choices: BillChoices) -> Part:
    """Return the network card of such a port."""
    return load_part(choices.nic or f"nic-{ports.name}")


def switch_port(ports: Ports, choices: BillChoices) -> Part:
    """Return the port of an electrical switch."""
    return load_part(choices.switch_port or f"switch-port-{ports.name}")


def optical_link(ports: Ports, per_rank: float, why: str, choices: BillChoices) -> list[Line]:
    """Return two transceivers and the fibre of ``per_rank`` links a rank."""
    metres = choices.link_length
    return [
        Line(transceiver(ports, choices), 2 * per_rank, f"2 ends x {why}"),
        Line(load_part("fibre"), per_rank * metres, f"{metres:g} m x {why}"),
    ]
