"""A bill: the parts of a fabric or a cluster, per rank, and what follows from them.

    part               per rank   dollars   watts   failures a year
    nic-400g                  1     1,499      ?             0.0029
    transceiver-400g          4     2,636      36             0.014

Every total names the parts whose figures are unknown; nothing unknown counts as zero. Static power flows for as long as
the job runs, dynamic energy for every bit, and no part has the same joule in both.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

from pydantic import Field

from lightloom.core.fields import Bandwidth, Config, Count
from lightloom.core.results import Document, attributes
from lightloom.machines.parts.part import FigureName, Part, Unit, range_text

_UNITS: dict[FigureName, Unit] = {
    "dollars": "dollars",
    "static_power": "power",
    "dynamic_energy": "power",
    "mtbf": "rate",
}
"""Units of totals: dynamic energy is that of full load, and mean times are failures a second."""

Bound = Literal["", "at least", "at most", "about"]
"""Relation of a sum to the true value beside its range: ``about`` where parts are missing and others at a limit."""


@dataclass(frozen=True, slots=True)
class Total:
    """A sum over parts, with its range and with what it leaves out."""

    unit: Unit
    value: float | None
    """The sum of what is known; None where that is nothing, or 0."""
    low: float | None
    high: float | None
    missing: tuple[str, ...] = ()
    """Names of parts without a figure, which make the sum a lower bound."""
    assumptions: tuple[str, ...] = ()
    """Parts whose figure no publication states."""
    at_most: tuple[str, ...] = ()
    """Parts counted at a limit that they stay below, such as a rated power: they make the sum an upper bound."""
    at_least: tuple[str, ...] = ()
    """Parts counted at a limit that they stay above."""
    inverse: bool = False
    """True if a number is divided by the sum, so that its lower bound is an upper one and the reverse."""

    @property
    def complete(self) -> bool:
        """True if no figure is missing (``missing`` is empty), so that the value is the whole sum and no lower bound
        for want of figures; parts counted at a limit (``at_most``, ``at_least``) do not matter."""
        return not self.missing

    @property
    def bound(self) -> Bound:
        """How the true sum relates to the value: ``at least`` where figures are missing or parts counted at a lower
        limit, ``at most`` where parts are counted at an upper limit, ``about`` for both; empty where the range alone
        describes it or there is no value. Where ``inverse`` is set (a number divided by the sum), the first two are
        exchanged."""
        above, below = bool(self.missing or self.at_least), bool(self.at_most)
        if self.value is None or not (above or below):
            return ""
        return "about" if above and below else "at least" if above != self.inverse else "at most"

    def times(self, factor: float, low: float | None = None, high: float | None = None) -> Total:
        """Return the total multiplied by a positive factor: the value by ``factor``, the low end of its range by
        ``low`` and the high end by ``high``, or by ``factor`` too where these are None. None stays None, and unit,
        names of missing parts and limits stay as they are."""
        factors = (factor, factor if low is None else low, factor if high is None else high)
        pairs = zip((self.value, self.low, self.high), factors, strict=True)
        value, least, most = (None if number is None else number * each for number, each in pairs)
        return replace(self, value=value, low=least, high=most)

    def dividing(self, number: float, unit: Unit) -> Total:
        """Return ``number`` (positive) divided by this total, as a total in ``unit``: value over value, the low end
        over the high one and the reverse. Each is None where its divisor is unknown or 0. Names are kept and
        ``inverse`` is switched, so that a lower bound becomes an upper one."""
        value, low, high = (number / end if number and end else None for end in (self.value, self.high, self.low))
        return replace(self, unit=unit, value=value, low=low, high=high, inverse=not self.inverse)

    def text(self) -> str:
        """Return the sum with its range and why it is a bound: ``at least $ 1,234; without: price of nic-800g``;
        ``unknown`` in place of bound and sum where nothing is known. The first words are :attr:`bound`, the rest
        :meth:`known_text` and :meth:`reasons`, joined by semicolons."""
        return "; ".join((f"{self.bound} {self.known_text()}".lstrip(), *self.reasons()))

    def reasons(self) -> list[str]:
        """Return the phrases that say why the sum is a bound, in this order: ``without: price of nic-800g`` (the
        missing figures, by :func:`missing_text`), ``at most what is counted of switch-64`` and ``at least what is
        counted of`` with part names; empty where it is none."""
        names = {"at most": self.at_most, "at least": self.at_least}
        limits = [f"{word} what is counted of {', '.join(parts)}" for word, parts in names.items() if parts]
        return [*([f"without: {missing_text(self.missing)}"] if self.missing else []), *limits]

    def known_text(self) -> str:
        """Return the sum of what is known with its range, such as ``9 W (8 to 18)``; without the range where both ends
        look the same; ``unknown`` where nothing is. Whether it is a bound is not told."""
        if self.value is None or self.low is None or self.high is None:
            return "unknown"
        return range_text(self.value, self.low, self.high, self.unit)

    def to_json(self) -> Document:
        """Return a document of ``value``, ``low`` and ``high`` in the SI unit of the total, which it does not name
        (None where nothing is known), and lists of names: figures that are ``missing``, parts counted ``at_most`` or
        ``at_least``, and parts with ``assumptions``. ``bound`` and ``inverse`` are left out."""
        texts = {name: list(getattr(self, name)) for name in ("missing", "at_most", "at_least", "assumptions")}
        return {"value": self.value, "low": self.low, "high": self.high, **texts}


def missing_text(missing: Iterable[str]) -> str:
    """Return phrases such as ``price of nic-800g`` as one text, names gathered by kind of figure in the order in which
    the kinds come: ``price of nic-800g, ring-lock; power of heater``. A phrase without ``of`` stands as it is."""
    groups: dict[str, list[str]] = {}
    for name in missing:
        figure, of, part = name.partition(" of ")
        groups.setdefault(f"{figure}{of}", []).append(part)
    return "; ".join(figure + ", ".join(parts) for figure, parts in groups.items())


def summed(unit: Unit, totals: Iterable[Total]) -> Total:
    """Return the sum of totals in ``unit``, with everything that any of them lacks, assumes or counts at a limit; 0 of
    no totals. Totals without a value count nothing, but what they lack is named. Values are added as they are, whatever
    units they have, and names are listed once, in the order met.

    Where something is missing and all that is known is 0 (passive parts), the sum is unknown: value and ends are None,
    and limits are left out.
    """
    totals = list(totals)
    known = [total for total in totals if total.value is not None]
    missing, assumptions, at_most, at_least = (
        tuple(dict.fromkeys(part for total in totals for part in getattr(total, name)))
        for name in ("missing", "assumptions", "at_most", "at_least")
    )
    if missing and not any(total.value for total in known):
        return Total(unit, None, None, None, missing, assumptions)
    value, low, high = (
        sum(number for total in known if (number := getattr(total, name)) is not None)
        for name in ("value", "low", "high")
    )
    return Total(unit, value, low, high, missing, assumptions, at_most, at_least)


@dataclass(frozen=True, slots=True)
class Line:
    """So many of one part for every rank."""

    part: Part
    per_rank: float
    why: str
    """The formula of the count, with its numbers."""
    rate: float | None = None
    """Bytes per second through each at full load; None: the part's own rate."""
    counted_elsewhere: tuple[FigureName, ...] = ()
    """Figures of the part that do not count here, since another line holds them."""

    def total(self, name: FigureName) -> Total:
        """Return one figure of all parts of this line for one rank: ``dollars``, watts (``static_power``), watts of
        dynamic energy at full load (``dynamic_energy``), or failures a second (``mtbf``). 0 where another line holds
        the figure or there are none of the part, unknown where the part or its rate has no figure. The count of the
        part for each rank is multiplied in; an energy per bit also by 8 times its rate in bytes per second; of mean
        times the reciprocals are taken, so that upper and lower limits change places."""
        unit = _UNITS[name]
        if name in self.counted_elsewhere or name in self.part.counted_elsewhere or self.per_rank == 0:
            return Total(unit, 0.0, 0.0, 0.0)
        if (figure := self.part.figure(name)) is None:
            return Total(unit, None, None, None, (str(self.part.missing(name)),))
        assumed = (self.part.name,) if figure.assumed else ()
        value, low, high = figure.value, figure.least, figure.most
        if name == "mtbf":
            value, low, high = 1 / value, 1 / high, 1 / low
        factor = self.per_rank
        if figure.unit == "energy_per_bit" and high > 0:
            rate = self.part.rate if self.rate is None else self.rate
            if rate is None:
                return Total(unit, None, None, None, (f"rate of {self.part.name}",))
            factor *= 8 * rate
        at_most, at_least = ((self.part.name,) if value and figure.bound == end else () for end in ("most", "least"))
        if name == "mtbf":
            at_most, at_least = at_least, at_most
        return Total(unit, value * factor, low * factor, high * factor, (), assumed, at_most, at_least)


@dataclass(frozen=True, slots=True)
class Bill:
    """Parts per rank of a fabric or of a cluster; every total is per rank."""

    ranks: int
    lines: tuple[Line, ...] = ()
    missing: tuple[str, ...] = ()
    """Components that no stated part describes; every total names them."""
    notes: tuple[str, ...] = ()
    """Assumptions of the counts, and what cannot be built as the fabric describes it."""
    bandwidth: float | None = None
    """Bytes per second that a rank sends over all its links at full load; None where the fabric does not say."""
    kind: str = field(default="")
    """The fabric's kind, for people."""
    stated: tuple[FigureName, ...] = ()
    """Figures that the fabric states as a whole, whatever it is built of."""

    def _total(self, name: FigureName) -> Total:
        """Return the sum over all lines of one figure, per rank, in the unit of :meth:`Line.total`: dollars
        (``dollars``), watts (``static_power``, and ``dynamic_energy`` at full load) or failures a second (``mtbf``);
        components that no part describes are named as missing unless the fabric states the figure itself."""
        unit = _UNITS[name]
        unbuilt = [Total(unit, None, None, None, self.missing)] if self.missing and name not in self.stated else []
        return summed(unit, [line.total(name) for line in self.lines] + unbuilt)

    @property
    def dollars(self) -> Total:
        """Price of the parts of one rank, in dollars; parts without a price are named as missing."""
        return self._total("dollars")

    @property
    def static_power(self) -> Total:
        """Watts per rank, busy or idle."""
        return self._total("static_power")

    @property
    def dynamic_power(self) -> Total:
        """Watts per rank beside the static ones, while every part carries all that it can."""
        return self._total("dynamic_energy")

    @property
    def dynamic_energy(self) -> Total:
        """Joules per bit that a rank sends, beside static power: dynamic power at full load over the bits per second
        that a rank sends; unknown without a bandwidth unless the power is 0."""
        power = replace(self.dynamic_power, unit="energy_per_bit")
        if power.value == 0 or self.bandwidth is None:
            lacking = () if power.value == 0 or power.value is None else ("bandwidth of a rank",)
            known = None if lacking else power.value
            return replace(power, value=known, low=known, high=known, missing=(*power.missing, *lacking))
        return power.times(1 / (8 * self.bandwidth))

    @property
    def failure_rate(self) -> Total:
        """Failures a second of the parts of one rank, from their mean times between failures."""
        return self._total("mtbf")

    def energy(self, seconds: float, bits: float) -> Total:
        """Return the joules of one rank that runs for ``seconds`` and sends ``bits`` over its links in that time:
        static power times the seconds plus dynamic energy times the bits, what is unknown of either named as
        missing."""
        static, dynamic = self.static_power.times(seconds), self.dynamic_energy.times(bits)
        return summed("energy", (replace(static, unit="energy"), replace(dynamic, unit="energy")))

    def times(self, count: float) -> Bill:
        """Return the bill with ``count`` times as many of every part for a rank, and as many times the bandwidth; the
        number of ranks is the same."""
        rate = None if self.bandwidth is None else self.bandwidth * count
        lines = tuple(replace(line, per_rank=line.per_rank * count) for line in self.lines)
        return replace(self, lines=lines, bandwidth=rate)

    def __add__(self, other: Bill) -> Bill:
        """Return the bill of both, per rank; lines and bandwidths add up, and lines of the same part stay apart."""
        rates = [bill.bandwidth for bill in (self, other)]
        return Bill(
            ranks=max(self.ranks, other.ranks),
            lines=self.lines + other.lines,
            missing=tuple(dict.fromkeys(self.missing + other.missing)),
            notes=tuple(dict.fromkeys(self.notes + other.notes)),
            bandwidth=sum(rate for rate in rates if rate is not None) if any(rates) else None,
            stated=tuple(name for name in self.stated if name in other.stated),
            kind=" and ".join(dict.fromkeys(kind for kind in (self.kind, other.kind) if kind)),
        )

    def explain(self) -> list[str]:
        """Return a line of text for every part, ``4 transceiver-400g: <formula of the count>; $ 2,636; 36 W; 0.014 a
        year``: its count for a rank, the formula, and price, static power and failures a year of all these parts of a
        rank, each as :meth:`Total.text` writes it. Missing components and notes are not listed."""
        rows = []
        for line in self.lines:
            totals = (line.total(name) for name in ("dollars", "static_power", "mtbf"))
            rows.append(f"{line.per_rank:.6g} {line.part.name}: {line.why}; {'; '.join(t.text() for t in totals)}")
        return rows

    def to_json(self) -> Document:
        """Return the bill as a document: ``ranks``; ``parts``, a row for each line with ``part`` and ``kind``,
        ``per_rank``, the number for each rank, and its ``formula``; the totals as :meth:`Total.to_json` writes them,
        ``dollars_per_rank``, ``static_watts_per_rank``, ``dynamic_watts_per_rank`` (at full load), ``joules_per_bit``
        and ``failures_per_second_per_rank``; ``missing`` and ``notes``. Kind and bandwidth are left out."""
        return {
            "ranks": self.ranks,
            "parts": [attributes(line, "part=part.name kind=part.kind per_rank formula=why") for line in self.lines],
            "dollars_per_rank": self.dollars.to_json(),
            "static_watts_per_rank": self.static_power.to_json(),
            "dynamic_watts_per_rank": self.dynamic_power.to_json(),
            "joules_per_bit": self.dynamic_energy.to_json(),
            "failures_per_second_per_rank": self.failure_rate.to_json(),
            "missing": list(self.missing),
            "notes": list(self.notes),
        }


def unknown_bill(ranks: int, kind: str) -> Bill:
    """Return the bill of a fabric of a ``kind`` that does not say what it is built of: no parts, and what it is built
    of named as missing. The name in ``missing`` reads ``what a <kind> is built of``."""
    return Bill(ranks, missing=(f"what a {kind} is built of",), kind=kind)


# What a bill chooses where a fabric's own fields leave it open: media, port rates, products.

Medium = Literal["optical", "copper"]


class BillChoices(Config):
    """Choices of a bill; the defaults are assumptions unless they name a source."""

    port_rate: Bandwidth | None = None
    """Bytes per second of one port; null: the smallest of the catalog that carries the link, and several of 400
    Gb/s, the fastest whose prices are known, where none does."""
    host_links: Medium = "optical"
    """Links between ranks and their first switch. Assumption: optical, as ranks stand farther than the 2 to 3 m that
    passive copper reaches."""
    grid_links: Medium = "optical"
    """Links between neighbours of rings, meshes and tori. Assumption: optical."""
    copper_cube: Count | None = None
    """Side of the cubes of a mesh or torus whose links are copper, links between cubes being optical; null: all links
    are ``grid_links``."""
    reconfigurable: bool = False
    """True if optical circuit switches join the cubes of a torus."""
    cards: bool = False
    """True if links of rings, meshes and tori end at network cards. Assumption: at ports of the chips."""
    wdm: Literal["built", "devices"] = "built"
    """Rings of wavelengths from engines as vendors build them, or from the devices that papers list."""
    link_length: Annotated[float, Field(gt=0)] = 20.0
    """Metres of fibre of a link. Assumption: as long as those to the circuit switches of the catalog."""
    transceiver: str | None = None
    """A transceiver of ``lightloom catalog parts``; null: by the port rate."""
    nic: str | None = None
    """A network card; null: by the port rate."""
    switch_port: str | None = None
    """A port of an electrical switch; null: by the port rate."""
    switch_radix: Count | None = None
    """Ports of an electrical switch; null: those of the part."""
    circuit_switch: str | None = None
    """An optical circuit switch; null: any by the port, or the cheapest product where whole switches are paid."""
    switches: Literal["used", "whole"] = "used"
    """Switches, electrical and optical, that are paid: the ports in use, as MixNet counts (SIGCOMM 2025), whose
    prices are by the port; or whole switches."""
