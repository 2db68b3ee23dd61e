"""Bills of optical circuit switches: planes of products, and three stages of them where no product has the ports.

Three stages of switches with k ports join k² / 2: half of a leaf's ports lead down, the others to k-port spines, so
that a circuit takes three switches' ports instead of one's and loses light three times.
"""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from lightloom.core.errors import UnsupportedError
from lightloom.fabrics.bills.links import fibres, nic, ports_for, transceiver
from lightloom.parts.bill import Bill, Line
from lightloom.parts.choices import BillChoices
from lightloom.parts.load import load_part
from lightloom.parts.part import Part

PRODUCTS = ("palomar-136", "calient-s320", "polatis-7000")
"""Optical circuit switches of the catalog, by radix."""


class Planes(NamedTuple):
    """Switches of equal planes."""

    line: Line
    stages: int
    note: str
    """What cannot be built flat; empty where it can."""


def planes_of(planes: int, ports: int, ranks: int, choices: BillChoices) -> Planes:
    """Return the switches of so many planes, each of which joins ``ports`` ports.

    Raises:
        UnsupportedError: not even three stages of the switch join so many.
    """
    product = _chosen(ports, choices)
    radix = product.radix or most_ports()
    if ports <= radix:
        return Planes(_flat(planes, ports, ranks, product, radix), 1, "")
    if ports > radix * radix // 2:
        raise UnsupportedError(
            f"planes of {ports:,} ports on switches of {radix}: three stages join {radix * radix // 2:,}: expected "
            "fewer ranks, or another circuit_switch"
        )
    loss = "" if product.loss is None else f" and loses {3 * product.loss.value:g} dB instead of {product.loss.value:g}"
    note = (
        f"no optical circuit switch has {ports:,} ports (products have 136, 320 and 384): three stages of "
        f"{product.name}, {radix} ports each, are priced, light passes three switches{loss}"
    )
    if product.kind == "circuit-switch-port":
        used = planes * ports / ranks
        return Planes(Line(product, 3 * used, f"3 stages x {used:.4g} ports a rank"), 3, note)
    half = radix // 2
    leaves = ceil(ports / half)
    spines = ceil(leaves * half / radix)
    why = f"{planes} planes x ({leaves} leaves + {spines} spines) for {ports:,} ports / {ranks:,} ranks"
    return Planes(Line(product, planes * (leaves + spines) / ranks, why), 3, note)


def _flat(planes: int, ports: int, ranks: int, product: Part, radix: int) -> Line:
    if product.kind == "circuit-switch-port":
        return Line(product, planes * ports / ranks, f"{planes} planes x {ports:,} ports / {ranks:,} ranks")
    held = radix // ports
    switches = ceil(planes / held)
    shared = f", {held} planes of {ports:,} ports on each" if held > 1 else f" with {ports:,} of {radix} ports used"
    why = f"{planes} planes on {switches} switches{shared} / {ranks:,} ranks"
    return Line(product, switches / ranks, why)


def _chosen(ports: int, choices: BillChoices) -> Part:
    """Return the switch that was chosen, or the smallest product that has the ports; the largest where none has."""
    if choices.circuit_switch is not None:
        return circuit_switch_product(choices.circuit_switch)
    products = [load_part(name) for name in PRODUCTS]
    return next((product for product in products if (product.radix or 0) >= ports), products[-1])


def circuit_switch_product(name: str) -> Part:
    """Return an optical circuit switch, or the port of one, of the catalog or of a file.

    Raises:
        UnsupportedError: the part is something else.
        UnknownNameError: there is no such part.
    """
    product = load_part(name)
    if product.kind not in ("circuit-switch", "circuit-switch-port"):
        raise UnsupportedError(
            f"{name} is a {product.kind}, no optical circuit switch: expected one of {', '.join(PRODUCTS)}, "
            "circuit-switch-port, or a YAML file of such a part"
        )
    return product


def most_ports(product: str | None = None) -> int:
    """Return the ports of a product, or of the largest one."""
    if product is not None and (radix := circuit_switch_product(product).radix) is not None:
        return radix
    return max(load_part(name).radix or 0 for name in PRODUCTS)


def circuit_switch_bill(ranks: int, degree: int, bandwidth: float, choices: BillChoices) -> Bill:
    """Return the bill of ``degree`` planes: D (m x + o) and D m cards, with m ports for a circuit."""
    ports = ports_for(bandwidth, choices)
    count = f"{degree} planes x {ports.why}"
    ends = degree * ports.number
    planes = planes_of(degree, ranks, ranks, choices)
    lines = (
        Line(nic(ports, choices), ends, count, rate=ports.rate),
        Line(transceiver(ports, choices), ends, f"one end of {count}: light passes the switch", rate=ports.rate),
        fibres(degree, f"{degree} planes", choices),
        planes.line,
    )
    notes = [planes.note] if planes.note else []
    if ports.number > 1:
        notes.append(f"assumption: the {ports.number} ports of a circuit share a fibre, on wavelengths of their own")
    return Bill(ranks, lines, notes=tuple(notes), bandwidth=degree * bandwidth, kind="circuit-switch")
