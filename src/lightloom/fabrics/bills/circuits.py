"""Bills of optical circuit switches: planes on them, and three stages of them where no product has the ports.

Ports that are used count, or whole switches: several planes share one that holds them.

Three stages of switches with k ports join k² / 2: half of a leaf's ports lead down, the others to k-port spines, so
that a circuit takes three switches' ports instead of one's and loses light three times.
"""

from __future__ import annotations

from math import ceil, inf
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
    product = _chosen(planes, ports, choices)
    radix = product.radix or most_ports()
    stages = _stages(ports, radix)
    if stages is None:
        raise UnsupportedError(
            f"planes of {ports:,} ports on switches of {radix}: three stages join {radix * radix // 2:,}: expected "
            "fewer ranks, or another circuit_switch"
        )
    if product.kind == "circuit-switch-port" or choices.switches == "used":
        count = planes * ports * stages / ranks
        why = f"{'3 stages x ' if stages > 1 else ''}{planes} planes x {ports:,} ports / {ranks:,} ranks"
        line = Line(product, count, why)
        if product.radix is not None:
            line = Line(product, count / radix, f"{why} / {radix} ports of a switch, those that are used")
    else:
        number, how = _switches(planes, ports, radix)
        line = Line(product, number / ranks, f"{how} / {ranks:,} ranks")
    return Planes(line, stages, _note(ports, product, radix) if stages > 1 else "")


def _stages(ports: int, radix: int) -> int | None:
    """Switches that light passes in a plane of so many ports; None where three stages do not join them."""
    return 1 if ports <= radix else 3 if ports <= radix * radix // 2 else None


def _note(ports: int, product: Part, radix: int) -> str:
    loss = "" if product.loss is None else f" and loses {3 * product.loss.value:g} dB instead of {product.loss.value:g}"
    return (
        f"no optical circuit switch has {ports:,} ports (products have 136, 320 and 384): three stages of "
        f"{product.name}, {radix} ports each, are priced, light passes three switches{loss}"
    )


def _switches(planes: int, ports: int, radix: int) -> tuple[int, str]:
    """Return how many whole switches hold the planes, and why."""
    if ports > radix:
        half = radix // 2
        leaves = ceil(ports / half)
        spines = ceil(leaves * half / radix)
        return planes * (leaves + spines), f"{planes} planes x ({leaves} leaves + {spines} spines) for {ports:,} ports"
    held = radix // ports
    number = ceil(planes / held)
    shared = f", {held} planes of {ports:,} ports on each" if held > 1 else f" with {ports:,} of {radix} ports used"
    return number, f"{planes} planes on {number} switches{shared}"


def _chosen(planes: int, ports: int, choices: BillChoices) -> Part:
    """Return the switch that was chosen: by the port, or of whole products those that cost least in all, of the fewest
    stages that any takes."""
    if choices.circuit_switch is not None:
        return circuit_switch_product(choices.circuit_switch)
    if choices.switches == "used":
        return load_part("circuit-switch-port")

    def cost(product: Part) -> tuple[float, float]:
        radix = product.radix or 0
        stages, price = _stages(ports, radix), product.dollars
        paid = _switches(planes, ports, radix)[0] * price.value if price is not None and stages else inf
        return stages or inf, paid

    return min(map(load_part, reversed(PRODUCTS)), key=cost)


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
