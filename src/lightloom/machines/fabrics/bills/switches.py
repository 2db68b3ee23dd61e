"""Bills of electrical packet switches: one switch, or the tiers of a fat tree where its ports do not suffice.

With m ports of a rank, n a card, p a switch port and x a transceiver, T tiers of switches of radix k and an
oversubscription s at the leaves take for a rank

    m (n + (1 + 2 (T − 1) / s) p + (2 + 2 (T − 1) / s) x)

and join k ports (T = 1), k · floor(k s / (1 + s)) (T = 2), and k / 2 times as many for every further tier. Whole
switches, where these are paid, are rounded up tier by tier.
"""

from math import ceil, floor, inf
from typing import NamedTuple

from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.machines.fabrics.bills.links import Ports, cables, fibres, port_line, port_part, ports_for
from lightloom.machines.parts.bill import Bill, BillChoices, Line, Medium
from lightloom.machines.parts.part import Part, load_part


class Tree(NamedTuple):
    """A fat tree of equal switches."""

    tiers: int
    radix: int
    taper: float
    """Ports down over ports up of a leaf."""

    @property
    def uplinks(self) -> float:
        """Number of links between switches of neighbouring tiers for every port that the tree joins: tiers beyond the
        first, divided by the taper."""
        return (self.tiers - 1) / self.taper

    def whole_ports(self, ports: int) -> int:
        """Return the number of ports, used or not, of all switches of a tree that joins ``ports`` ports below, where
        switches are rounded up tier by tier; of one tier, the ports of one switch. The taper holds at the leaves."""
        if self.tiers == 1:
            return self.radix
        down = floor(self.radix * self.taper / (1 + self.taper) + 1e-9)
        up = ceil(ports / self.taper)
        middle = (self.tiers - 2) * ceil(up / (self.radix // 2))
        return self.radix * (ceil(ports / down) + middle + ceil(up / self.radix))

    def text(self, ports: int) -> str:
        """Return the tree that joins ``ports`` ports in words, such as ``2 tiers of switches of 64 ports join 1,024``,
        with the taper where it is not 1."""
        taper = f", {self.taper:g} down for 1 up" if self.tiers > 1 and self.taper != 1 else ""
        tiers = "one switch" if self.tiers == 1 else f"{self.tiers} tiers of switches"
        return f"{tiers} of {self.radix} ports join{'s' * (self.tiers == 1)} {ports:,}{taper}"


def tree_of(ports: int, radix: int, taper: float = 1.0, least: int = 1) -> Tree:
    """Return the fat tree of the fewest tiers, at least ``least``, whose switches of ``radix`` ports join ``ports``
    ports below; ``taper`` is ports down over ports up of a leaf.

    Raises:
        ConfigError: one switch does not do, and the radix is below 4 or leaves a leaf without ports down or up.
    """
    if ports <= radix and least == 1:
        return Tree(1, radix, taper)
    down = floor(radix * taper / (1 + taper) + 1e-9)
    if down < 1 or radix - down < 1 or radix < 4:
        raise ConfigError(f"switch_radix={radix}: no tree of such switches joins {ports:,} ports: expected at least 4")
    tiers, joined = 2, radix * down
    while joined < ports:
        tiers, joined = tiers + 1, joined * (radix // 2)
    return Tree(max(tiers, least), radix, taper)


def network(
    ports: Ports,
    per_rank: float,
    joined: int,
    choices: BillChoices,
    *,
    taper: float = 1.0,
    least: int = 1,
    below: Medium | None = None,
) -> tuple[list[Line], Tree]:
    """Return the cards, switch ports and links of one tier of a network as lines of a bill, per rank, and the tree of
    its switches, the fat tree of fewest tiers. Ports that are used count, or all ports of whole switches where
    ``choices.switches`` is ``whole``; links between switches are optical.

    Args:
        ports: the ports that carry one link.
        per_rank: number of links of a rank into the tier.
        joined: number of links that one plane of the tier joins, the ports at the bottom of one tree.
        choices: what the fabric leaves open.
        taper: ports down over ports up of the leaves.
        least: fewest tiers of switches.
        below: medium of the links into the tier, which begin at cards; None: optical links that begin at switch ports.

    Raises:
        ConfigError: nothing says how many ports a switch has, or no tree of such switches joins so many.
    """
    port = port_part("switch-port", ports, choices)
    if (radix := choices.switch_radix or port.radix) is None:
        raise ConfigError(f"switch_port={port.name} states no radix: expected one in the part, or switch_radix")
    tree = tree_of(joined, radix, taper, least)
    links, up = ports.number * per_rank, tree.uplinks
    count = f"{per_rank:.4g} link{'s' * (per_rank != 1)} a rank x {ports.why}"
    lines = [port_line("nic", ports, links, count, choices)] if below is not None else []
    ends = 1 if below is not None else 2
    formula = f"{ends} + 2 x {tree.tiers - 1} / {taper:g}" if tree.tiers > 1 else f"{ends}"
    each = f"({formula}) x {count}" if tree.tiers > 1 or ends > 1 else count
    paid = ends + 2 * up
    if choices.switches == "whole":
        every = tree.whole_ports(joined)
        paid, each = every / joined + ends - 1, f"{every:,} ports of whole switches for {joined:,} x {count}"
    lines.append(Line(port, links * paid, f"{each}; {tree.text(joined)}", rate=ports.rate))
    between = f"{tree.tiers - 1} / {taper:g} links between switches x {count}"
    lines += cables(ports, links, count, below or "optical", choices)
    return lines + cables(ports, links * up, between, "optical", choices), tree


def switch_bill(ranks: int, bandwidth: float, choices: BillChoices) -> Bill:
    """Return the bill, per rank, of a switch that every rank reaches over a link of ``bandwidth`` bytes per second: of
    a fat tree without oversubscription, with a note, where no switch has as many ports. ConfigError where nothing says
    how many ports a switch has, no tree of such switches joins the ranks, or no part has the rate of the ports."""
    lines, tree = network(ports_for(bandwidth, choices), 1.0, ranks, choices, below=choices.host_links)
    notes = () if tree.tiers == 1 else (f"no switch has {ranks:,} ports: {tree.text(ranks)}, without oversubscription",)
    return Bill(ranks, tuple(lines), notes=notes, bandwidth=bandwidth, kind="switch")


# Bills of optical circuit switches: planes on them, and three stages of them where no product has the ports.
#
# Ports that are used count, or whole switches: several planes share one that holds them.
#
# Three stages of switches with k ports join k² / 2: half of a leaf's ports lead down, the others to k-port spines, so
# that a circuit takes three switches' ports instead of one's and loses light three times.

PRODUCTS = ("palomar-136", "calient-s320", "polatis-7000")
"""Optical circuit switches of the catalog, by radix."""


class Planes(NamedTuple):
    """Switches of equal planes."""

    line: Line
    stages: int
    note: str
    """Sentence on switches that are too small for one stage; empty where one stage is enough."""


def planes_of(planes: int, ports: int, ranks: int, choices: BillChoices) -> Planes:
    """Return the optical circuit switches of ``planes`` planes, each of which joins ``ports`` ports, as a bill's line
    for each of ``ranks`` ranks (a fraction of a switch or of its ports), with the number of stages, 1 or 3, and a note
    on three stages, empty for one. Ports that are used count, or whole switches where ``choices.switches`` is not
    ``used``.

    Raises:
        UnsupportedError: not even three stages of the switch join so many ports.
    """
    product = _chosen_switch(planes, ports, choices)
    radix = product.radix or most_ports()
    if (stages := _stages(ports, radix)) is None:
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
    if stages == 1:
        return Planes(line, stages, "")
    loss = "" if product.loss is None else f" and loses {3 * product.loss.value:g} dB instead of {product.loss.value:g}"
    note = (
        f"no optical circuit switch has {ports:,} ports (products have 136, 320 and 384): three stages of "
        f"{product.name}, {radix} ports each, are priced, light passes three switches{loss}"
    )
    return Planes(line, stages, note)


def _stages(ports: int, radix: int) -> int | None:
    """Return how many switches light passes in a plane of ``ports`` ports on switches of ``radix`` ports: 1, or 3 where
    one switch does not suffice; None where three stages, which join ``radix`` squared over 2, do not join them."""
    return 1 if ports <= radix else 3 if ports <= radix * radix // 2 else None


def _switches(planes: int, ports: int, radix: int) -> tuple[int, str]:
    """Return how many whole switches of ``radix`` ports hold all planes of ``ports`` ports each, and how that is
    counted, in words. A switch holds several planes where it has the ports; a plane of more ports takes three stages,
    leaves, half of whose ports join the ranks and half the spines, and spines."""
    if ports > radix:
        half = radix // 2
        leaves = ceil(ports / half)
        spines = ceil(leaves * half / radix)
        return planes * (leaves + spines), f"{planes} planes x ({leaves} leaves + {spines} spines) for {ports:,} ports"
    held = radix // ports
    number = ceil(planes / held)
    shared = f", {held} planes of {ports:,} ports on each" if held > 1 else f" with {ports:,} of {radix} ports used"
    return number, f"{planes} planes on {number} switches{shared}"


def _chosen_switch(planes: int, ports: int, choices: BillChoices) -> Part:
    """Return the circuit switch for ``planes`` planes of ``ports`` ports: the one that the choices name, otherwise the
    part of a single port where only used ports are paid, otherwise the product with the fewest stages, and among these
    the one whose switches cost least in all, one without a price last. UnsupportedError where the choices name a part
    of another kind."""
    if choices.circuit_switch is not None:
        return circuit_switch_product(choices.circuit_switch)
    if choices.switches == "used":
        return load_part("circuit-switch-port")

    def cost(product: Part) -> tuple[float, float]:
        """Return the stages that a product takes and the dollars of all its switches, infinite where it takes no part
        or has no price."""
        radix = product.radix or 0
        stages, price = _stages(ports, radix), product.dollars
        paid = _switches(planes, ports, radix)[0] * price.value if price is not None and stages else inf
        return stages or inf, paid

    return min(map(load_part, reversed(PRODUCTS)), key=cost)


def circuit_switch_product(name: str) -> Part:
    """Return an optical circuit switch, or a part that stands for one port of any, from the catalog or a YAML file.

    Raises:
        UnsupportedError: the part is of another kind.
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
    """Return the number of ports of the circuit switch ``product``; of the largest one of the catalog where it is None
    or states none. UnsupportedError for a part of another kind."""
    if product is not None and (radix := circuit_switch_product(product).radix) is not None:
        return radix
    return max(load_part(name).radix or 0 for name in PRODUCTS)


def circuit_switch_bill(ranks: int, degree: int, bandwidth: float, choices: BillChoices) -> Bill:
    """Return the bill, per rank, of ``degree`` planes of optical circuit switches that carry circuits of ``bandwidth``
    bytes per second.

    With m ports for a circuit, a rank has m cards and m transceivers for each plane, but one fibre and one port's part
    of the switches, which the m ports share. The bill's bandwidth is ``degree`` times ``bandwidth``.

    Raises:
        UnsupportedError: not even three stages of the switch join so many ranks.
        ConfigError: no port of the catalog or of the choices has the rate of the ports.
    """
    ports = ports_for(bandwidth, choices)
    count = f"{degree} planes x {ports.why}"
    ends = degree * ports.number
    planes = planes_of(degree, ranks, ranks, choices)
    lines = (
        port_line("nic", ports, ends, count, choices),
        port_line("transceiver", ports, ends, f"one end of {count}: light passes the switch", choices),
        fibres(degree, f"{degree} planes", choices),
        planes.line,
    )
    notes = [planes.note] if planes.note else []
    if ports.number > 1:
        notes.append(f"assumption: the {ports.number} ports of a circuit share a fibre, on wavelengths of their own")
    return Bill(ranks, lines, notes=tuple(notes), bandwidth=degree * bandwidth, kind="circuit-switch")
