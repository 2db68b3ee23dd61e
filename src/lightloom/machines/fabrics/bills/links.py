"""Ports and links: which parts carry a rate, and how many of them beside each other."""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from math import ceil
from typing import NamedTuple

from lightloom.core.arrays import Floats, Ints
from lightloom.core.errors import ConfigError
from lightloom.core.units import format_bandwidth, format_quantity
from lightloom.machines.parts.bill import Bill, BillChoices, Line, Medium, Total
from lightloom.machines.parts.part import (
    FIGURES,
    Confidence,
    EnergyPerBit,
    Figure,
    FigureName,
    Kind,
    Part,
    Power,
    Price,
    load_part,
    part_of_kind,
)

RATES = (40, 100, 200, 400, 800, 1600)
"""Gb/s of the ports of the catalog: ``transceiver-400g``, ``nic-400g``, ``switch-port-400g``."""
_FASTEST_PRICED = 400
"""Gb/s of the fastest ports whose prices are known, of which several carry what no port does."""
_GBPS = 0.125e9
_ENDS: tuple[Kind, ...] = ("transceiver", "nic", "switch-port")
"""Kinds of parts that have the rate of a port."""
_ROUNDED_RATE = 1 + 1e-9
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
        """The rate in Gb/s as names of parts have it, such as ``400g``."""
        return f"{self.rate / _GBPS:.4g}g"


def ports_for(bandwidth: float, choices: BillChoices) -> Ports:
    """Return the equal ports beside each other that carry a link of ``bandwidth`` bytes per second.

    Their rate is ``choices.port_rate``, otherwise that of a chosen transceiver, card or switch port, otherwise the
    smallest of the catalog that carries the link. A link that no port of the catalog carries has several of 400 Gb/s,
    the fastest whose prices are known. Their number is bandwidth over rate, rounded up; ``why`` says it in words (``2
    ports of 400 Gb/s for 800 Gb/s``).

    Raises:
        ConfigError: the chosen parts have different rates, or one is of another kind.
        UnknownNameError: a chosen part is neither in the catalog nor a file.
    """
    if (rate := choices.port_rate or _rate_of_chosen(choices)) is None:
        rate = next((gbps for gbps in RATES if bandwidth <= gbps * _GBPS * _ROUNDED_RATE), _FASTEST_PRICED) * _GBPS
    number = ceil(bandwidth / (rate * _ROUNDED_RATE))
    links = f"{number} port{'s' * (number > 1)} of {format_bandwidth(rate)}"
    return Ports(number, rate, f"{links} for {format_bandwidth(bandwidth)}")


def _rate_of_chosen(choices: BillChoices) -> float | None:
    """Return the bytes per second that the chosen transceiver, card and switch port have in common; None where none is
    chosen or states a rate, ConfigError where they differ."""
    named = {kind: getattr(choices, kind.replace("-", "_")) for kind in _ENDS}
    parts = [part_of_kind(name, kind, kind.replace("-", "_")) for kind, name in named.items() if name is not None]
    rates = {part.rate for part in parts if part.rate is not None}
    if len(rates) > 1:
        shown = " and ".join(sorted(format_bandwidth(rate) for rate in rates))
        raise ConfigError(f"transceiver, nic and switch_port of {shown} on one link: expected parts of one rate")
    return next(iter(rates), None)


def port_part(kind: Kind, ports: Ports, choices: BillChoices) -> Part:
    """Return the transceiver, card or switch port (``kind``) that was chosen, otherwise the one of the catalog at the
    rate of the ports.

    Raises:
        ConfigError: the catalog has none at this rate, or the chosen part states another rate or is of another kind.
        UnknownNameError: the chosen part is neither in the catalog nor a file.
    """
    field = kind.replace("-", "_")
    chosen: str | None = getattr(choices, field)
    if chosen is None and ports.rate / _GBPS not in RATES:
        rates = ", ".join(f"{rate}Gbps" for rate in RATES)
        raise ConfigError(
            f"port_rate={format_bandwidth(ports.rate)}: no {kind} of this rate in the catalog: expected one of "
            f"{rates}, or a part as {field}"
        )
    part = load_part(f"{kind}-{ports.name}") if chosen is None else part_of_kind(chosen, kind, field)
    if part.rate is not None and abs(part.rate - ports.rate) > 1e-6 * ports.rate:
        raise ConfigError(
            f"{kind}={part.name} of {format_bandwidth(part.rate)} on ports of {format_bandwidth(ports.rate)}: expected "
            "parts of the port's rate"
        )
    return part


def port_line(kind: Kind, ports: Ports, count: float, why: str, choices: BillChoices) -> Line:
    """Return the line of a bill with ``count`` transceivers, cards or switch ports (``kind``) for each rank, at the
    rate of the ports; ``why`` is the formula of the count in words. ConfigError where the catalog has none at this
    rate, or the chosen part has another rate or is of another kind."""
    return Line(port_part(kind, ports, choices), count, why, rate=ports.rate)


def ends_of(
    ports: Ports, count: float, why: str, of_switches: bool, choices: BillChoices
) -> tuple[list[Line], list[str]]:
    """Return the ends of links between neighbours as lines of a bill, and what is assumed of them as notes.

    Args:
        ports: the ports that carry a link.
        count: number of ports for each rank.
        why: formula of the count in words.
        of_switches: True if the ends are ports of switches; otherwise network cards where ``choices.cards`` asks for
            them, and none, since they are on the chips, where it does not.
        choices: what the fabric leaves open.
    """
    if of_switches:
        return [port_line("switch-port", ports, count, why, choices)], used_ports(choices)
    if choices.cards:
        return [port_line("nic", ports, count, why, choices)], []
    return [], ["assumption: ports of neighbouring links are on the chips, without cards"]


def used_ports(choices: BillChoices) -> list[str]:
    """Return a note that only ports in use count, in a list, for bills in which whole switches are to be paid but
    nothing says how many there are; empty where ports in use are paid anyway."""
    of = "of switches that are joined directly, ports that are used count: nothing says how many switches there are"
    return [of] if choices.switches == "whole" else []


def cables(ports: Ports, per_rank: float, why: str, medium: Medium, choices: BillChoices) -> list[Line]:
    """Return the lines of a bill for ``per_rank`` links a rank: two transceivers and a fibre each, or a copper cable
    each where ``medium`` is ``copper``; none for no links. ``why`` is the formula of the count in words."""
    if per_rank == 0:
        return []
    if medium == "copper":
        return [Line(load_part("copper-cable"), per_rank, why, rate=ports.rate)]
    return [port_line("transceiver", ports, 2 * per_rank, f"2 ends of {why}", choices), fibres(per_rank, why, choices)]


def fibres(per_rank: float, why: str, choices: BillChoices) -> Line:
    """Return the line of a bill for ``per_rank`` fibres a rank, each as long as a link (``choices.link_length``) and
    priced by the metre; ``why`` is the formula of the count in words."""
    metre, length = load_part("fibre-metre"), choices.link_length
    prices = ((end, getattr(metre.dollars, end, None)) for end in ("value", "low", "high"))
    scaled = {end: price * length for end, price in prices if price is not None}
    dollars = metre.dollars and metre.dollars.model_copy(update=scaled)
    return Line(metre.model_copy(update={"name": f"fibre of {length:g} m", "dollars": dollars}), per_rank, why)


# Bills of graphs, link by link: cards at ranks, ports at switches, and a cable for every link both ways.


def graph_bill(ranks: int, tail: Ints, head: Ints, bandwidth: Floats, choices: BillChoices) -> Bill:
    """Return the bill of a graph, per rank: cards at ranks, ports at switches, and cables, one for both ways where a
    link of equal rate leads back, otherwise one for each link. A link between ranks ends at the chips themselves unless
    ``choices.cards`` asks for cards. Cables between ranks are of the medium ``choices.grid_links``, those from ranks to
    switches of ``choices.host_links``, others optical. The bill's bandwidth is that of the links that leave a rank, on
    average.

    Args:
        ranks: number of ranks, which are the first vertices.
        tail: vertex at which each directed link begins, [link].
        head: vertex at which each directed link ends, [link].
        bandwidth: bytes per second of each link, [link].
        choices: what the fabric leaves open.

    Raises:
        ConfigError: no part of the catalog or of the choices has the rate of the ports of some link.
    """
    # Cables by how many of their ends are ranks, and by rate; each has a link both ways.
    ways = Counter(zip(tail.tolist(), head.tolist(), bandwidth.tolist(), strict=True))
    counts: Counter[tuple[int, float]] = Counter()
    for (one, other, rate), links in ways.items():
        back = ways.get((other, one, rate), 0)
        if one < other or not back:
            counts[(one < ranks) + (other < ranks), rate] += max(links, back)
    lines: list[Line] = []
    for (at_ranks, rate), count in sorted(counts.items()):
        ports = ports_for(rate, choices)
        per_rank = ports.number * count / ranks
        kind = ("between switches", "from ranks to switches", "between ranks")[at_ranks]
        why = f"{count} links of {format_bandwidth(rate)} {kind} x {ports.why} / {ranks:,} ranks"
        if at_ranks and (at_ranks < 2 or choices.cards):
            lines.append(port_line("nic", ports, at_ranks * per_rank, why, choices))
        if at_ranks < 2:
            lines.append(port_line("switch-port", ports, (2 - at_ranks) * per_rank, why, choices))
        medium = (choices.grid_links, choices.host_links)[at_ranks == 1] if at_ranks else "optical"
        lines += cables(ports, per_rank, why, medium, choices)
    chips = any(at_ranks == 2 for at_ranks, _ in counts) and not choices.cards
    notes = ["assumption: ports of links between ranks are on the chips, without cards"] * chips
    if any(at_ranks < 2 for at_ranks, _ in counts):
        notes += used_ports(choices)
    sent = float(bandwidth[tail < ranks].sum()) / ranks
    return Bill(ranks, tuple(lines), notes=tuple(notes), bandwidth=sent, kind="graph")


# Figures that a fabric's own file states, in place of those of its parts: no joule counts twice.


def stated_bill(
    bill: Bill, power: float | None, kinds: tuple[Kind, ...] | None, joules: float | None, sources: Mapping[str, str]
) -> Bill:
    """Return the bill with what a fabric states itself in place of the figures of its parts, and a note on each.

    A further note warns where ``joules`` alone are stated and the parts draw static power beside them.

    Args:
        bill: the bill of the parts.
        power: watts of a rank (``power_per_rank``) that replace those of parts of the ``kinds``; None where not stated.
        kinds: kinds of parts whose watts ``power`` holds; None for all.
        joules: joules per bit (``energy_per_bit``) that replace the dynamic energy of all parts; None where not stated.
        sources: source of each of the fabric's fields, by field name.
    """
    given = "given, without a source"
    if power is not None:
        source = sources.get("power_per_rank", given)
        figure = Power(value=power, confidence=_confidence(source), source=source)
        held = "all parts" if kinds is None else f"every {', '.join(kinds)}"
        note = f"power_per_rank of the fabric stands for the power of {held}"
        bill = _with_stated(bill, "power_per_rank", "static_power", figure, note, kinds)
    if joules is not None:
        static, source = bill.static_power.value, sources.get("energy_per_bit", given)
        energy = EnergyPerBit(value=joules, confidence=_confidence(source), source=source)
        note = "energy_per_bit of the fabric stands for the dynamic energy of all parts"
        bill = _with_stated(bill, "energy_per_bit", "dynamic_energy", energy, note, None)
        if joules > 0 and power is None and static and bill.bandwidth:
            # A figure that vendors divide out of watts would count twice.
            shown, per_bit = format_quantity(static, "power"), static / (8 * bill.bandwidth)
            beside = (
                f"energy_per_bit counts beside the {shown} of a rank's parts, busy or idle "
                f"({format_quantity(per_bit, 'energy_per_bit')} at full load): state power_per_rank too, 0 where "
                "energy_per_bit holds these watts"
            )
            bill = replace(bill, notes=(*bill.notes, beside))
    return bill


def with_stated_price(bill: Bill, dollars: float, source: str) -> Bill:
    """Return the bill with ``dollars``, the stated price of all parts of one rank, in place of the prices of the parts;
    ``source`` is where it comes from. The price is dated 2025."""
    note = "a price of the fabric stands for those of all parts"
    # A price has a year; nothing is made of that of a stated one.
    figure = Price(value=dollars, confidence=_confidence(source), source=source, year=2025)
    return _with_stated(bill, "fabric_price", "dollars", figure, note, None)


def _confidence(source: str) -> Confidence:
    """Return ``assumption`` for a source that begins with ``assumption``, ``given`` or ``derived``, and ``read`` for
    any other."""
    return "assumption" if source.startswith(("assumption", "given", "derived")) else "read"


def _with_stated(
    bill: Bill, field: str, name: FigureName, figure: Figure[float], note: str, kinds: Collection[Kind] | None
) -> Bill:
    """Return the bill with a line for a figure that a ``field`` of the fabric states, which replaces this figure of its
    parts.

    Args:
        bill: the bill of the parts.
        field: name of the field, which the line has.
        name: the figure that is stated, such as ``static_power``.
        figure: its value and source.
        note: sentence for the bill's notes.
        kinds: kinds of the parts whose figure no longer counts; None for all parts, missing ones included, so that the
            bill's total is the stated figure alone (``Bill.stated``).
    """
    part = Part(
        name=field,
        kind="stated",
        description=note,
        counted_elsewhere={other: "stated figures have one quantity" for other in FIGURES if other != name},
    ).model_copy(update={name: figure})
    lines = [
        replace(line, counted_elsewhere=(*line.counted_elsewhere, name) if held else line.counted_elsewhere)
        for line, held in ((line, kinds is None or line.part.kind in kinds) for line in bill.lines)
    ]
    lines.append(Line(part, 1.0, f"stated: {figure.source}", rate=bill.bandwidth if name == "dynamic_energy" else None))
    stated = (*bill.stated, name) if kinds is None else bill.stated
    return replace(bill, lines=tuple(lines), notes=(*bill.notes, note), stated=stated)


# What every bill of a fabric promises, for :func:`lightloom.machines.fabrics.conformance.check_fabric`.

_ROUNDING = 1e-9


def bill_complaints(bill: Bill, ranks: int) -> Iterator[str]:
    """Yield the promises that a bill breaks, each a sentence; ``ranks`` is the number of ranks that it should have.

    A bill is of these ranks and has lines or names what is missing; counts are finite and not negative, every line says
    how it counts, totals are not negative and lie within their ranges or name what they lack, and energy is static
    power times time without load and grows by the dynamic energy of every bit.
    """
    if bill.ranks != ranks:
        yield f"the bill is of {bill.ranks} ranks: expected {ranks}"
    if not bill.lines and not bill.missing:
        yield "the bill has no parts and names nothing as missing"
    for line in bill.lines:
        if not (math.isfinite(line.per_rank) and line.per_rank >= 0):
            yield f"the bill counts {line.per_rank} of {line.part.name} for a rank"
        elif not line.why:
            yield f"the bill does not say how it counts {line.part.name}"
    for name in ("dollars", "static_power", "dynamic_power", "failure_rate"):
        total: Total = getattr(bill, name)
        if total.value is None or total.low is None or total.high is None:
            if not total.missing:
                yield f"{name} is unknown and nothing is named as missing"
        elif not 0 <= total.low <= total.value * (1 + _ROUNDING) <= total.high * (1 + 2 * _ROUNDING) < math.inf:
            yield f"{name} is {total.value}, outside {total.low} to {total.high}"
    yield from _energies(bill)


def _energies(bill: Bill) -> Iterator[str]:
    """Yield complaints where the joules of 2 s, without load or at full load, differ from what the bill's static and
    dynamic power give."""
    static, dynamic = bill.static_power.value, bill.dynamic_power.value
    idle = bill.energy(2.0, 0.0).value
    if static is not None and not math.isclose(idle or 0.0, 2.0 * static, rel_tol=_ROUNDING):
        yield f"2 s without load take {idle} J: expected the static power of {static} W times 2 s"
    if None in (static, dynamic) or bill.bandwidth is None or bill.dynamic_energy.value is None:
        return
    full = bill.energy(2.0, 2.0 * 8 * bill.bandwidth).value
    if not math.isclose(full or 0.0, 2.0 * ((static or 0.0) + (dynamic or 0.0)), rel_tol=_ROUNDING):
        yield f"2 s at full load take {full} J: expected {static} W and {dynamic} W of load times 2 s"
