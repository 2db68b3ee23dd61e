"""Bills of electrical packet switches: one switch, or the tiers of a fat tree where its ports do not suffice.

With m ports of a rank, n a card, p a switch port and x a transceiver, T tiers of switches of radix k and an
oversubscription s at the leaves take for a rank

    m (n + (1 + 2 (T − 1) / s) p + (2 + 2 (T − 1) / s) x)

and join k ports (T = 1), k · floor(k s / (1 + s)) (T = 2), and k / 2 times as many for every further tier. Whole
switches, where these are paid, are rounded up tier by tier.
"""

from __future__ import annotations

from math import ceil, floor
from typing import NamedTuple

from lightloom.core.errors import ConfigError
from lightloom.fabrics.bills.links import Ports, cables, nic, ports_for, switch_port
from lightloom.parts.bill import Bill, Line
from lightloom.parts.choices import BillChoices, Medium


class Tree(NamedTuple):
    """A fat tree of equal switches."""

    tiers: int
    radix: int
    taper: float
    """Ports down over ports up of a leaf."""

    @property
    def uplinks(self) -> float:
        """Links between switches for every port that the tree joins."""
        return (self.tiers - 1) / self.taper

    def whole_ports(self, ports: int) -> int:
        """Return the ports of all switches that join so many ports."""
        if self.tiers == 1:
            return self.radix
        down = floor(self.radix * self.taper / (1 + self.taper) + 1e-9)
        up = ceil(ports / self.taper)
        middle = (self.tiers - 2) * ceil(up / (self.radix // 2))
        return self.radix * (ceil(ports / down) + middle + ceil(up / self.radix))

    def text(self, ports: int) -> str:
        """Return the tree in words."""
        taper = f", {self.taper:g} down for 1 up" if self.tiers > 1 and self.taper != 1 else ""
        tiers = "one switch" if self.tiers == 1 else f"{self.tiers} tiers of switches"
        return f"{tiers} of {self.radix} ports join{'s' * (self.tiers == 1)} {ports:,}{taper}"


def tree_of(ports: int, radix: int, taper: float = 1.0, least: int = 1) -> Tree:
    """Return the tree of the fewest tiers, at least ``least``, that joins so many ports.

    Raises:
        ConfigError: switches of this radix make no tree.
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
    """Return the switches, cards and links of one tier of a network.

    Args:
        ports: that carry one link.
        per_rank: links of a rank into the tier.
        joined: links that one plane of the tier joins.
        choices: of the bill.
        taper: ports down over ports up of the leaves.
        least: fewest tiers of switches.
        below: medium of the links into the tier, whose other end is a card; None: a switch's port is at the other end.

    Raises:
        ConfigError: nothing says how many ports a switch has, or no tree of such switches joins so many.
    """
    port = switch_port(ports, choices)
    radix = choices.switch_radix or port.radix
    if radix is None:
        raise ConfigError(f"switch_port={port.name} states no radix: expected one in the part, or switch_radix")
    tree = tree_of(joined, radix, taper, least)
    links, up = ports.number * per_rank, tree.uplinks
    count = f"{per_rank:.4g} link{'s' * (per_rank != 1)} a rank x {ports.why}"
    lines = [Line(nic(ports, choices), links, count, rate=ports.rate)] if below is not None else []
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
    """Return the bill of a switch that every rank reaches over a link of ``bandwidth`` bytes per second."""
    ports = ports_for(bandwidth, choices)
    lines, tree = network(ports, 1.0, ranks, choices, below=choices.host_links)
    notes = () if tree.tiers == 1 else (f"no switch has {ranks:,} ports: {tree.text(ranks)}, without oversubscription",)
    return Bill(ranks, tuple(lines), notes=notes, bandwidth=bandwidth, kind="switch")
