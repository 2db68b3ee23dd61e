"""The ledger of a cluster: boards, hosts and the fabric's parts as one bill for each rank.

    a rank of dgx-h100-64        dollars     watts
    boards     1 x board-h100     30,000       700
    hosts    1/8 x host-hgx-h100       ?       350    with network cards and NVSwitches
    fabric     its own bill        8,817        33

A figure counts once: where a host's measured power holds network cards, the fabric's bill gives their price and their
failures and not their watts again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from lightloom.accelerators.base import Accelerator
from lightloom.clusters.base import Cluster
from lightloom.core.errors import ConfigError, InputError
from lightloom.core.results import Document
from lightloom.core.units import format_bandwidth
from lightloom.economics.site import Site
from lightloom.fabrics.base import Fabric
from lightloom.fabrics.bills.stated import with_stated_price
from lightloom.parts.bill import Bill, Line, Total
from lightloom.parts.choices import BillChoices
from lightloom.parts.figure import Power, Price
from lightloom.parts.load import load_part, names
from lightloom.parts.part import FigureName, Kind, Part

_GIVEN = "given as an input"


@dataclass(frozen=True, kw_only=True)
class ClusterLedger:
    """What a cluster costs, draws and how often it fails, per rank; every total names what it leaves out."""

    name: str
    ranks: int
    site: Site
    boards: Bill
    hosts: Bill
    fabric: Bill

    @classmethod
    def of(cls, cluster: Cluster, site: Site | None = None) -> ClusterLedger:
        """Return the ledger of a cluster at a site, whose choices settle what the fabric leaves open."""
        site, ranks, kind = site or Site(), cluster.ranks, cluster.accelerator.name
        host = host_of(cluster.accelerator, site)
        share = f"1 / {host.serves}" if host.serves > 1 else "1"
        return cls(
            name=cluster.name,
            ranks=ranks,
            site=site,
            boards=Bill(ranks, (Line(board_of(cluster.accelerator, site), 1, f"one {kind} a rank"),)),
            hosts=Bill(ranks, (Line(host, 1 / host.serves, f"{share} of a host a rank"),)),
            fabric=without_covered(fabric_bill(cluster.fabric, site), host),
        )

    @classmethod
    def of_fabric(cls, fabric: Fabric, site: Site | None = None) -> ClusterLedger:
        """Return the ledger of a fabric alone, without boards and hosts."""
        site, nothing = site or Site(), Bill(fabric.ranks)
        return cls(
            name=fabric.kind_name,
            ranks=fabric.ranks,
            site=site,
            boards=nothing,
            hosts=nothing,
            fabric=fabric_bill(fabric, site),
        )

    @cached_property
    def bill(self) -> Bill:
        """All parts of a rank."""
        return self.boards + self.hosts + self.fabric

    @cached_property
    def dollars(self) -> Total:
        """Price of the parts of one rank, in dollars, and what has no price."""
        return self.bill.dollars

    @cached_property
    def static_power(self) -> Total:
        """Watts per rank, busy or idle; boards draw their rated power, an upper bound."""
        return self.bill.static_power

    @cached_property
    def dynamic_power(self) -> Total:
        """Watts per rank that the fabric adds while every part of it carries all that it can."""
        return self.fabric.dynamic_power

    @cached_property
    def failure_rate(self) -> Total:
        """Failures a second, per rank."""
        return self.bill.failure_rate

    @cached_property
    def cost_rate(self) -> Total:
        """Dollars a second of a rank, for its price and its maintenance."""
        return self.dollars.times(self.site.cost_rate)

    def to_json(self) -> Document:
        """Return the ledger as a document, in SI units, with the bill part by part."""
        return {
            "cluster": self.name,
            **self.bill.to_json(),
            "watts_of_boards_per_rank": self.boards.static_power.to_json(),
            "watts_of_hosts_per_rank": self.hosts.static_power.to_json(),
            "watts_of_fabric_per_rank": self.fabric.static_power.to_json(),
        }


def fabric_bill(fabric: Fabric, site: Site) -> Bill:
    """Return the bill of a fabric at the choices and prices of a site; of one that no products make, a bill that misses
    all parts and says why.

    Raises:
        InputError: the site states choices, and the fabric cannot be built so.
    """
    try:
        bill = fabric.bill(site.choices)
    except InputError as error:
        if site.choices is not None:
            raise
        bill = Bill(fabric.ranks, missing=(f"a {fabric.kind_name} that can be built: {error}",), kind=fabric.kind_name)
    if site.fabric_price is not None:
        return with_stated_price(bill, site.fabric_price, _GIVEN)
    prices = {name: _price(dollars) for name, dollars in site.prices.items()}
    lines = tuple(
        replace(line, part=line.part.model_copy(update={"dollars": prices[line.part.name]}))
        if line.part.name in prices
        else line
        for line in bill.lines
    )
    return replace(bill, lines=lines)


def unused_inputs(fabric: Fabric, site: Site) -> tuple[str, ...]:
    """Return the choices and prices of a site without which the bill of a fabric is the same, by name."""
    stated = {} if site.choices is None else site.choices.model_dump(exclude_unset=True)
    bill, unused = fabric.bill(site.choices), []
    for name in stated:
        try:
            rest = BillChoices.model_validate({key: value for key, value in stated.items() if key != name})
            if fabric.bill(rest) == bill:
                unused.append(name)
        except InputError:
            continue  # without it there is no bill
    parts = {line.part.name for line in bill.lines}
    return (*unused, *(name for name in site.prices if name not in parts))


def check_inputs(fabrics: Iterable[Fabric], site: Site) -> None:
    """Check that every choice and price of a site changes the bill of some fabric.

    Raises:
        ConfigError: one changes nothing, so that it is a mistake.
    """
    names = set(site.prices) | (set() if site.choices is None else site.choices.model_fields_set)
    for fabric in fabrics:
        if not names:
            return
        try:
            names &= set(unused_inputs(fabric, site))
        except InputError:
            continue  # A fabric that cannot be built so says that itself.
    if names:
        kind = "the price of " if min(names) in site.prices else ""
        raise ConfigError(
            f"{kind}{min(names)} changes nothing here: expected what a fabric's bill holds (lightloom bill)"
        )


def board_of(accelerator: Accelerator, site: Site) -> Part:
    """Return the board of an accelerator, at the power that this states and at the price of the site's input."""
    board, stated = _fitting("board", accelerator), accelerator.power
    given: dict[str, Power | Price] = {}
    if stated is not None and (board.static_power is None or board.static_power.value != stated):
        source = accelerator.sources.get("power", "stated by the accelerator")
        confidence = "assumption" if source.startswith("assumption") else "read"
        # What an accelerator states is its rated power.
        rated = {"value": stated, "bound": "most", "confidence": confidence, "source": source}
        given["static_power"] = Power.model_validate(rated)
    if site.board_price is not None:
        given["dollars"] = _price(site.board_price)
    return board.model_copy(update=given) if given else board


def host_of(accelerator: Accelerator, site: Site) -> Part:
    """Return the host of an accelerator, with the power and price of the site's inputs in place of its own."""
    host = _fitting("host", accelerator)
    given: dict[str, Power | Price] = {}
    if site.host_power is not None:
        given["static_power"] = Power(value=site.host_power * host.serves, confidence="read", source=_GIVEN)
    if site.host_price is not None:
        given["dollars"] = _price(site.host_price * host.serves)
    covers = host.covers | ({"static_power": ("nic", "node-link")} if "static_power" in given else {})
    return host.model_copy(update={**given, "covers": covers}) if given else host


def _price(dollars: float) -> Price:
    # A price has a year; nothing is made of that of an input.
    return Price(value=dollars, confidence="read", source=_GIVEN, year=2025)


def without_covered(bill: Bill, host: Part) -> Bill:
    """Return a fabric's bill in which figures that the host's hold already count there alone.

    Of cards, a host holds so many bytes per second; what a fabric has beyond them is beside the host, and counts.
    """
    left, lines = dict(host.holds), []
    for line in bill.lines:
        of = line.part.kind
        held = tuple(name for name, kinds in host.covers.items() if of in kinds and host.figure(name))
        rate = line.per_rank * ((line.part.rate if line.rate is None else line.rate) or 0.0)
        if not held:
            lines.append(line)
            continue
        share = min(1.0, left[of] / rate) if of in left and rate else 1.0
        if of in left:
            left[of] -= share * rate
        elsewhere = (*line.counted_elsewhere, *held)
        if share > 0:
            lines.append(replace(line, per_rank=share * line.per_rank, counted_elsewhere=elsewhere))
        if share < 1:
            beyond = f"{line.why}, beyond the {format_bandwidth(host.holds[of])} of the host"
            lines.append(replace(line, per_rank=(1 - share) * line.per_rank, why=beyond))
    return replace(bill, lines=tuple(lines))


def _fitting(kind: Kind, accelerator: Accelerator) -> Part:
    """Return the catalog's board or host of an accelerator; without one, a part of which nothing is known."""
    for name in names():
        if name.startswith(f"{kind}-") and accelerator.chip in load_part(name).fits:
            return load_part(name)
    elsewhere: dict[FigureName, str] = {"dynamic_energy": "a rated power holds what a busy one draws"}
    name = f"the {kind} of {accelerator.name}"
    return Part(name=name, kind=kind, description=f"{name}, of which nothing is stated", counted_elsewhere=elsewhere)
