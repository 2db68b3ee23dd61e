"""Ports and links: which parts carry a rate, and how many of them beside each other."""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from lightloom.core.errors import ConfigError
from lightloom.core.units import format_bandwidth
from lightloom.parts.bill import Line
from lightloom.parts.choices import BillChoices, Medium
from lightloom.parts.load import load_part, part_of_kind
from lightloom.parts.part import Kind, Part

RATES = (40, 100, 200, 400, 800, 1600)
"""Gb/s of the ports of the catalog: ``transceiver-400g``, ``nic-400g``, ``switch-port-400g``."""
_FASTEST_PRICED = 400
"""Gb/s of the fastest ports whose prices are known, of which several carry what no port does."""
_GBPS = 0.125e9
_CLOSE = 1 + 1e-9
"""A port carries a link that is faster by no more than rounding."""


class Ports(NamedTuple):
    """So many equal ports beside each other that carry one link."""

    number: int
    rate: float
    """Bytes per second of one of them."""
    why: str
    """How the number came about."""

    @property
    def name(self) -> str:
        """The rate in names of parts, such as ``400g``."""
        return f"{self.rate / _GBPS:.4g}g"


def ports_for(bandwidth: float, choices: BillChoices) -> Ports:
    """Return the ports that carry a link of ``bandwidth`` bytes per second.

    Their rate is the one that was chosen, that of a chosen transceiver, card or switch port, or the smallest of the
    catalog that carries the link; a link that none carries has several of 400 Gb/s, the fastest whose prices are known.
    """
    rate = choices.port_rate or _rate_of_chosen(choices)
    if rate is None:
        rate = next((gbps for gbps in RATES if bandwidth <= gbps * _GBPS * _CLOSE), _FASTEST_PRICED) * _GBPS
    number = ceil(bandwidth / (rate * _CLOSE))
    links = f"{number} port{'s' * (number > 1)} of {format_bandwidth(rate)}"
    return Ports(number, rate, f"{links} for {format_bandwidth(bandwidth)}")


def _rate_of_chosen(choices: BillChoices) -> float | None:
    named: tuple[tuple[str | None, Kind, str], ...] = (
        (choices.transceiver, "transceiver", "transceiver"),
        (choices.nic, "nic", "nic"),
        (choices.switch_port, "switch-port", "switch_port"),
    )
    parts = [part_of_kind(name, kind, field) for name, kind, field in named if name is not None]
    rates = {part.rate for part in parts if part.rate is not None}
    if len(rates) > 1:
        shown = " and ".join(sorted(format_bandwidth(rate) for rate in rates))
        raise ConfigError(f"transceiver, nic and switch_port of {shown} on one link: expected parts of one rate")
    return next(iter(rates), None)


def transceiver(ports: Ports, choices: BillChoices) -> Part:
    """Return the transceiver of such a port."""
    return _part(choices.transceiver, "transceiver", ports)


def nic(ports: Ports, choices: BillChoices) -> Part:
    """Return the network card of such a port."""
    return _part(choices.nic, "nic", ports)


def switch_port(ports: Ports, choices: BillChoices) -> Part:
    """Return the port of an electrical switch."""
    return _part(choices.switch_port, "switch-port", ports)


def _part(chosen: str | None, kind: Kind, ports: Ports) -> Part:
    if chosen is None and ports.rate / _GBPS not in RATES:
        rates = ", ".join(f"{rate}Gbps" for rate in RATES)
        field = kind.replace("-", "_")
        raise ConfigError(
            f"port_rate={format_bandwidth(ports.rate)}: no {kind} of this rate in the catalog: expected one of "
            f"{rates}, or a part as {field}"
        )
    part = load_part(f"{kind}-{ports.name}") if chosen is None else part_of_kind(chosen, kind, kind.replace("-", "_"))
    if part.rate is not None and abs(part.rate - ports.rate) > 1e-6 * ports.rate:
        raise ConfigError(
            f"{kind}={part.name} of {format_bandwidth(part.rate)} on ports of {format_bandwidth(ports.rate)}: expected "
            "parts of the port's rate"
        )
    return part


def ends_of(
    ports: Ports, count: float, why: str, of_switches: bool, choices: BillChoices
) -> tuple[list[Line], list[str]]:
    """Return the ends of links between neighbours, switches or ranks, and what is assumed of them."""
    if of_switches:
        return [Line(switch_port(ports, choices), count, why, rate=ports.rate)], used_ports(choices)
    if choices.cards:
        return [Line(nic(ports, choices), count, why, rate=ports.rate)], []
    return [], ["assumption: ports of neighbouring links are on the chips, without cards"]


def used_ports(choices: BillChoices) -> list[str]:
    """Return what is said where whole switches are paid, of switches whose number a fabric does not say."""
    of = "of switches that are joined directly, ports that are used count: nothing says how many switches there are"
    return [of] if choices.switches == "whole" else []


def cables(ports: Ports, per_rank: float, why: str, medium: Medium, choices: BillChoices) -> list[Line]:
    """Return what ``per_rank`` links a rank are made of: two transceivers and a fibre, or a copper cable."""
    if per_rank == 0:
        return []
    if medium == "copper":
        return [Line(load_part("copper-cable"), per_rank, why, rate=ports.rate)]
    return [
        Line(transceiver(ports, choices), 2 * per_rank, f"2 ends of {why}", rate=ports.rate),
        fibres(per_rank, why, choices),
    ]


def fibres(per_rank: float, why: str, choices: BillChoices) -> Line:
    """Return so many fibres a rank, each as long as a link."""
    metre, length = load_part("fibre-metre"), choices.link_length
    dollars = metre.dollars
    if dollars is not None:
        dollars = dollars.model_copy(update={"value": dollars.value * length})
    name = f"fibre of {length:g} m"
    return Line(metre.model_copy(update={"name": name, "dollars": dollars}), per_rank, why)
