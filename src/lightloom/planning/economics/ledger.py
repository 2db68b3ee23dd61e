"""The ledger of a cluster: boards, hosts and the fabric's parts as one bill for each rank.

    a rank of dgx-h100-64        dollars     watts
    boards     1 x board-h100     30,000       700
    hosts    1/8 x host-hgx-h100       ?       350    with network cards and NVSwitches
    fabric     its own bill        8,817        33

A figure counts once: where a host's measured power holds network cards, the fabric's bill gives their price and their
failures and not their watts again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from lightloom.core.configfile import read_yaml, validate
from lightloom.core.errors import ConfigError, InputError
from lightloom.core.fields import Config, Dollars, DollarsPerJoule, Seconds, Share, Watts
from lightloom.core.results import Document
from lightloom.core.units import YEAR, format_bandwidth, format_duration, format_quantity
from lightloom.machines.accelerators.accelerator import Accelerator
from lightloom.machines.clusters.cluster import Cluster
from lightloom.machines.fabrics.bills.links import with_stated_price
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.parts.bill import Bill, BillChoices, Bound, Line, Total, summed
from lightloom.machines.parts.part import FigureName, Kind, Part, Power, Price, format_amount, load_part, names

# The site of a cluster: what its electricity and its building add, and over how long its price is paid.

SOURCES: Mapping[str, str] = read_yaml(Path(__file__).with_suffix(".yaml"))
"""Source of each default."""


class Site(Config):
    """Prices and rates that turn a cluster's parts and watts into dollars; defaults are assumed (:data:`SOURCES`)."""

    pue: Annotated[float, Field(ge=1, le=5)] = 1.4
    """Power usage effectiveness: joules at the meter for each joule of the cluster."""
    electricity: DollarsPerJoule = 0.12 / 3.6e6
    """Dollars per joule at the meter; 12 ct/kWh."""
    amortisation: Annotated[Seconds, Field(ge=86400.0, le=100 * YEAR)] = 4 * YEAR
    """Seconds over which the price is paid, in equal parts."""
    maintenance: Annotated[Share, Field(le=1)] = 0.05
    """Share of the price that maintenance costs a year."""
    board_price: Dollars | None = None
    """Dollars of one accelerator with its board. Null: of the catalog's board for the accelerator."""
    host_power: Watts | None = None
    """Watts of a node beside its accelerators, for each of them: processors, memory, fans, disks, network cards and
    switches within the node. Null: of the catalog's host for the accelerator."""
    host_price: Dollars | None = None
    """Dollars of a node beside its accelerators, for each of them. Null: of the catalog's host."""
    fabric_price: Dollars | None = None
    """Dollars of the fabric for each rank, in place of those of its parts. Null: from its bill."""
    prices: dict[str, Dollars] = Field(default_factory=dict)
    """Dollars of one part of the fabric, by name, in place of the catalog's."""
    choices: BillChoices | None = None
    """Choices that the fabric's bill leaves open. Null: the defaults, and a fabric that these cannot build has no
    bill; a fabric that stated choices cannot build is refused."""

    @model_validator(mode="after")
    def _prices_are_of_parts_of_fabrics(self) -> Self:
        """Return the site itself; ValueError where ``prices`` names a board, a host or a fibre, or stands beside
        ``fabric_price``; UnknownNameError for a part that is not in the catalog."""
        for name in self.prices:
            if (kind := load_part(name).kind) in ("board", "host"):
                raise ValueError(f"price of {name}: expected a part of the fabric, or {kind}_price")
            if kind == "fibre":
                raise ValueError(f"price of {name}: fibres are priced by the metre: expected another part")
        if self.fabric_price is not None and self.prices:
            raise ValueError("prices and fabric_price contradict each other: expected the whole or its parts")
        return self

    @property
    def cost_rate(self) -> float:
        """Share of the price that is paid a second, for amortisation and maintenance together, in 1/s."""
        return 1 / self.amortisation + self.maintenance / YEAR

    def texts(self) -> dict[str, str]:
        """Return the four inputs that always count as words with their units, by field name: pue, electricity,
        amortisation, maintenance; such as ``PUE 1.4`` and ``maintenance 5 % of the price a year``."""
        return {
            "pue": f"PUE {self.pue:g}",
            "electricity": f"electricity {format_quantity(self.electricity, 'price_of_electricity')}",
            "amortisation": f"price paid over {format_duration(self.amortisation)}",
            "maintenance": f"maintenance {format_quantity(self.maintenance, 'share')} of the price a year",
        }

    def assumptions(self) -> tuple[str, ...]:
        """Return a line of text for each of the four inputs pue, electricity, amortisation and maintenance that was
        left at its default, with the default's source behind a comma: ``PUE 1.4, SOURCE``."""
        return tuple(f"{text}, {SOURCES[name]}" for name, text in self.texts().items() if name in self.defaults)

    def to_json(self) -> dict[str, object]:
        """Return the inputs by name in SI units, with ``sources``, by name: ``given`` for inputs that were stated, and
        the source of the default for those of pue, electricity, amortisation and maintenance that were not; others have
        none."""
        return self.model_dump(mode="json") | {"sources": {**SOURCES, **dict.fromkeys(self.model_fields_set, "given")}}

    @property
    def defaults(self) -> tuple[str, ...]:
        """Names of the inputs pue, electricity, amortisation and maintenance that were left at their defaults."""
        return tuple(name for name in SOURCES if name not in self.model_fields_set)


def site_of(given: Site | Mapping[str, object] | None) -> Site:
    """Return a site from what a user gives: a site as it is, or inputs by field name, as numbers in SI units or texts
    with units; None, and inputs that are None, are left at their defaults.

        >>> site_of({"electricity": "8 ct/kWh", "pue": 1.1})

    Raises:
        ConfigError: an input is unknown, cannot be read or is out of range.
    """
    if isinstance(given, Site):
        return given
    return validate(Site, {name: value for name, value in (given or {}).items() if value is not None}, "site")


_GIVEN = "given as an input"


@dataclass(frozen=True, kw_only=True)
class ClusterLedger:
    """Parts of a cluster per rank, in bills of boards, hosts and the fabric, with price, power and failure rate; every
    total names the parts that it leaves out."""

    name: str
    ranks: int
    site: Site
    boards: Bill
    hosts: Bill
    fabric: Bill

    @classmethod
    def of(cls, cluster: Cluster, site: Site | None = None) -> ClusterLedger:
        """Return the ledger of a cluster at a site: the bills per rank of boards (one a rank), hosts (a share of one)
        and the fabric, where what a host covers, such as its network cards, is counted elsewhere. The site's choices
        settle what the fabric's bill leaves open; None for the default site.

        Raises:
            InputError: the site states choices, and the fabric cannot be built so.
        """
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
        """Return the ledger of a fabric alone, without boards and hosts, so that nothing of it is counted elsewhere,
        and named after the fabric's kind; ``site`` is None for the default site.

        Raises:
            InputError: the site states choices, and the fabric cannot be built so.
        """
        site, nothing, name = site or Site(), Bill(fabric.ranks), fabric.kind_name
        bill = fabric_bill(fabric, site)
        return cls(name=name, ranks=fabric.ranks, site=site, boards=nothing, hosts=nothing, fabric=bill)

    @cached_property
    def bill(self) -> Bill:
        """Bill of all parts of a rank: its board, its share of a host, and the fabric's."""
        return self.boards + self.hosts + self.fabric

    @cached_property
    def dollars(self) -> Total:
        """Price of the parts of one rank, in dollars, and what has no price."""
        return self.bill.dollars

    @cached_property
    def static_power(self) -> Total:
        """Watts per rank that flow busy or idle, of boards, hosts and the fabric; boards draw their rated power, an
        upper bound."""
        return self.bill.static_power

    def to_json(self) -> Document:
        """Return the ledger as a document, per rank and in SI units: the name of the ``cluster``, the bill as
        :meth:`Bill.to_json` writes it (``parts`` and totals such as ``dollars_per_rank``, each with ``value``, ``low``,
        ``high`` and what is missing or assumed), then the totals ``watts_of_boards_per_rank``,
        ``watts_of_hosts_per_rank`` and ``watts_of_fabric_per_rank``."""
        return {
            "cluster": self.name,
            **self.bill.to_json(),
            "watts_of_boards_per_rank": self.boards.static_power.to_json(),
            "watts_of_hosts_per_rank": self.hosts.static_power.to_json(),
            "watts_of_fabric_per_rank": self.fabric.static_power.to_json(),
        }


def fabric_bill(fabric: Fabric, site: Site) -> Bill:
    """Return the bill of a fabric per rank, at the choices and prices of a site: a line for each kind of part with its
    number a rank; the site's prices take the place of the catalog's for the parts that they name.

    Where the default choices cannot build the fabric, the bill has no lines and names the whole fabric, and the reason,
    as missing. A ``fabric_price`` of the site takes the place of the prices of all parts.

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
    lines = []
    for line in bill.lines:
        given = {"dollars": _given_price(site.prices[line.part.name])} if line.part.name in site.prices else {}
        lines.append(replace(line, part=line.part.model_copy(update=given)) if given else line)
    return replace(bill, lines=tuple(lines))


def unused_inputs(fabric: Fabric, site: Site) -> tuple[str, ...]:
    """Return the names of those of a site's stated choices without which the bill of a fabric would be the same, then
    of its part prices whose parts the bill has not.

    A choice without which there is no bill counts as used.

    Raises:
        InputError: the fabric cannot be built with the choices.
    """
    stated = {} if site.choices is None else site.choices.model_dump(exclude_unset=True)
    bill, unused = fabric.bill(site.choices), []
    for name in stated:
        with suppress(InputError):  # without it there is no bill
            rest = BillChoices.model_validate({key: value for key, value in stated.items() if key != name})
            if fabric.bill(rest) == bill:
                unused.append(name)
    parts = {line.part.name for line in bill.lines}
    return (*unused, *(name for name in site.prices if name not in parts))


def check_inputs(fabrics: Iterable[Fabric], site: Site) -> None:
    """Raise unless every stated choice of a site changes the bill of at least one of the fabrics, and every part with a
    price is in one of the bills; a fabric that cannot be built with the choices is passed over.

    Raises:
        ConfigError: one changes nothing, so that it is a mistake; names the first of these in the alphabet.
    """
    names = {*site.prices, *(() if site.choices is None else site.choices.model_fields_set)}
    for fabric in fabrics:
        if not names:
            return
        with suppress(InputError):  # A fabric that cannot be built so says that itself.
            names &= set(unused_inputs(fabric, site))
    if names:
        kind = "the price of " if min(names) in site.prices else ""
        raise ConfigError(
            f"{kind}{min(names)} changes nothing here: expected what a fabric's bill holds (lightloom bill)"
        )


def board_of(accelerator: Accelerator, site: Site) -> Part:
    """Return the catalog's board of an accelerator, or a part of which nothing is known, with the accelerator's stated
    power, as an upper bound, where that differs from the board's, and the site's ``board_price`` in place of the
    catalog's figures where these are stated."""
    board, stated = _part_for("board", accelerator), accelerator.power
    given: dict[str, Power | Price] = {}
    if stated is not None and (board.static_power is None or board.static_power.value != stated):
        source = accelerator.sources.get("power", "stated by the accelerator")
        confidence = "assumption" if source.startswith("assumption") else "read"
        # What an accelerator states is its rated power.
        rated = {"value": stated, "bound": "most", "confidence": confidence, "source": source}
        given["static_power"] = Power.model_validate(rated)
    if site.board_price is not None:
        given["dollars"] = _given_price(site.board_price)
    return board.model_copy(update=given) if given else board


def host_of(accelerator: Accelerator, site: Site) -> Part:
    """Return the catalog's host of an accelerator, or a part of which nothing is known, with the site's ``host_power``
    and ``host_price`` in place of its own where these are stated. The inputs are for each accelerator and are
    multiplied by the accelerators of a host, as figures of the part are for the whole host. Stated watts count as
    holding those of network cards and of links within the node."""
    host = _part_for("host", accelerator)
    given: dict[str, Power | Price] = {}
    if site.host_power is not None:
        given["static_power"] = Power(value=site.host_power * host.serves, confidence="read", source=_GIVEN)
    if site.host_price is not None:
        given["dollars"] = _given_price(site.host_price * host.serves)
    covers = host.covers | ({"static_power": ("nic", "node-link")} if "static_power" in given else {})
    return host.model_copy(update={**given, "covers": covers}) if given else host


def _given_price(dollars: float) -> Price:
    """Return the price in dollars that an input states, with the input as its source and confidence "read"; its year,
    2025, says nothing and is there since a price must have one."""
    # A price has a year; nothing is made of that of an input.
    return Price(value=dollars, confidence="read", source=_GIVEN, year=2025)


def without_covered(bill: Bill, host: Part) -> Bill:
    """Return a fabric's bill in which figures that the host's already include, such as the watts of network cards, are
    marked as counted elsewhere.

    A host holds cards up to so many bytes per second per rank. The fabric's cards beyond that are not among the host's:
    they become a line of their own, which counts. Parts of a kind that the host covers without such a limit are all
    counted elsewhere.
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


def _part_for(kind: Kind, accelerator: Accelerator) -> Part:
    """Return the catalog's board or host (``kind``) that fits an accelerator's chip, the first by name; without one, a
    part of which nothing is known."""
    for name in names():
        if name.startswith(f"{kind}-") and accelerator.chip in load_part(name).fits:
            return load_part(name)
    elsewhere: dict[FigureName, str] = {"dynamic_energy": "a rated power holds what a busy one draws"}
    name = f"the {kind} of {accelerator.name}"
    return Part(name=name, kind=kind, description=f"{name}, of which nothing is stated", counted_elsewhere=elsewhere)


# The ledger of a step: its joules part by part, its dollars, and the samples that a dollar and a joule train.
#
# joules of a step     = watts of boards, hosts and fabric x ranks x step time + what sending adds
# joules at the meter  = joules x PUE
# dollars of a step    = price x ranks x (1 / amortisation + maintenance a year) x step time
# + joules at the meter x electricity
# samples per dollar   = samples of the step / its dollars
#
# * Boards draw their rated power: a board that waits draws less, so their joules are an upper bound, and every total
# that holds them names it as counted at most.
# * The fabric's static power flows for as long as the step takes; what sending adds counts only the dynamic part of a
# bit's energy (:attr:`lightloom.machines.fabrics.fabric.Fabric.energy_per_bit`), so that no joule counts twice.
# * A total from which something is missing is a lower bound and names it; samples per dollar are then an upper bound.
# * A range holds the low ends of everything that a figure is made of, the step's interval included, and the high ends:
# whatever values the figures take within their ranges, the total of these lies within its own.
# * Spare nodes cost and draw as much as nodes in use.

_NO_GOODPUT = "failures and checkpoints (lightloom goodput)"
_NO_SAMPLES = "samples (a collective trains none)"


@dataclass(frozen=True, kw_only=True)
class StepEnergy:
    """Joules of one step over all ranks, by what draws them; each names what it leaves out."""

    compute: Total
    """Accelerators with their memory: an upper bound."""
    host: Total
    """Energy of nodes without their accelerators."""
    transmission: Total
    """Energy that sending adds to the fabric's static power."""
    interface: Total
    """The fabric's static power, busy or idle."""

    @cached_property
    def total(self) -> Total:
        """Sum of the joules of compute, host, transmission and interface, with its range and what it leaves out;
        unknown where something is missing and all that is known is 0."""
        return summed("energy", (self.compute, self.host, self.transmission, self.interface))

    @property
    def missing(self) -> tuple[str, ...]:
        """Names of the parts without a figure, which the total leaves out."""
        return self.total.missing

    @property
    def known_j(self) -> float:
        """Sum of the parts that have a figure, in joules of one step over all ranks; 0 where none has."""
        return self.total.value or 0.0

    @property
    def total_j(self) -> float | None:
        """Joules of one step over all ranks altogether; None when a part is missing."""
        return None if self.missing else self.known_j

    def to_json(self) -> Document:
        """Return joules by name: ``total_j`` (None where a part is missing), ``known_j``, ``low_j`` and ``high_j`` of
        what is known (None where nothing is); ``compute_j``, ``host_j``, ``transmission_j`` and ``interface_j``, each
        None where nothing of it is known; then the names in ``missing`` and ``assumptions``. All are those of one step
        over all ranks."""
        total = self.total
        sums = {"total_j": self.total_j, "known_j": self.known_j, "low_j": total.low, "high_j": total.high}
        parts = {f"{part.name}_j": getattr(self, part.name).value for part in fields(self)}
        return {**sums, **parts, "missing": list(total.missing), "assumptions": list(total.assumptions)}


@dataclass(frozen=True, kw_only=True)
class StepLedger:
    """Cost of one step: joules, dollars, and what each of them trains."""

    cluster: ClusterLedger
    step_time: float
    """Seconds of the step."""
    interval: tuple[float, float] | None = None
    """Seconds between which a measured step is expected; None where no interval is known."""
    sent_joules: float | None
    """Joules that sending adds over all ranks; None where the fabric states no energy of a bit."""
    samples: int
    """Samples of the step; 0 of a step that trains none."""
    goodput: float | None = None
    """Share of the time that trains, after failures and checkpoints; None where it was not computed."""
    goodput_missing: tuple[str, ...] = ()
    """Causes of failures that nothing states, so that ``goodput`` is an upper bound."""
    spare_share: float = 0.0
    """Spare nodes that ``goodput`` takes, over the nodes in use."""

    @cached_property
    def energy(self) -> StepEnergy:
        """Joules of the step over all ranks: the static power of boards (``compute``), hosts (``host``) and fabric
        (``interface``) for the seconds of the step, and what sending adds (``transmission``)."""
        cluster = self.cluster
        return StepEnergy(
            compute=self._drawn(cluster.boards.static_power),
            host=self._drawn(cluster.hosts.static_power),
            transmission=self._transmission(),
            interface=self._drawn(cluster.fabric.static_power),
        )

    def _drawn(self, watts: Total) -> Total:
        """Return the joules of a step over all ranks, each of which draws so many watts; its range takes in that of the
        step's time."""
        return replace(self._lasting(watts), unit="energy")

    def _lasting(self, rate: Total) -> Total:
        """Return the total over all ranks and the whole step of an amount per second and rank, such as watts or dollars
        a second; its range takes in that of the step's time, its unit stays."""
        low, high = self.interval or (self.step_time, self.step_time)
        return rate.times(*(self.cluster.ranks * seconds for seconds in (self.step_time, low, high)))

    def _transmission(self) -> Total:
        """Return the joules that sending adds over all ranks: as given; 0 where they are not known but all parts state
        that a bit takes none; else a total without value that names what lacks."""
        if self.sent_joules is not None:
            return Total("energy", self.sent_joules, self.sent_joules, self.sent_joules)
        dynamic = self.cluster.fabric.dynamic_energy
        if dynamic.value == 0 and dynamic.complete:
            return replace(dynamic, unit="energy")
        return Total("energy", None, None, None, dynamic.missing or ("fabric.energy_per_bit",))

    @cached_property
    def watts(self) -> Total:
        """Mean watts of a rank during the step, with their range, before the PUE, of static power and sending; of
        static power alone for a step without time."""
        if not self.step_time:
            return self.cluster.static_power
        low, high = self.interval or (self.step_time, self.step_time)
        shares = (1 / (self.cluster.ranks * seconds) for seconds in (self.step_time, high, low))
        sent = replace(self.energy.transmission.times(*shares), unit="power")
        return summed("power", (self.cluster.static_power, sent))

    @cached_property
    def metered(self) -> Total:
        """Joules of the step at the meter: those of all ranks times the PUE."""
        return self.energy.total.times(self.cluster.site.pue)

    @cached_property
    def dollars(self) -> Total:
        """Dollars of the step over all ranks: its time's share of the price and of maintenance, and electricity at the
        meter."""
        share = self._lasting(self.cluster.dollars.times(self.cluster.site.cost_rate))
        return summed("dollars", (share, replace(self.metered.times(self.cluster.site.electricity), unit="dollars")))

    @cached_property
    def samples_per_dollar(self) -> Total:
        """Samples that a dollar trains (those of the step over its dollars), before goodput; a total without value for
        a step that trains none."""
        return self.dollars.dividing(self.samples, "samples")

    @cached_property
    def samples_per_joule(self) -> Total:
        """Samples that a joule at the meter trains, before goodput; a total without value for a step that trains
        none."""
        return self.metered.dividing(self.samples, "samples")

    def after_goodput(self, samples: Total) -> Total | None:
        """Return ``samples``, those for a dollar or a joule, after failures and with spare nodes: times goodput over 1
        + ``spare_share``. Causes of failures that nothing states count as missing; None without goodput."""
        if self.goodput is None:
            return None
        kept = samples.times(self.goodput / (1 + self.spare_share))
        return replace(kept, missing=(*kept.missing, *self.goodput_missing))

    def _known_and_missing(self) -> dict[str, tuple[float | None, tuple[str, ...]]]:
        """Return ``watts_per_rank``, ``dollars_per_step``, ``samples_per_dollar``, ``samples_per_joule`` and
        ``goodput``, the five figures of :meth:`figures`, each as (value as far as it is known, or None; names of what
        it leaves out, among them a clause that the step trains no samples, or that goodput was not computed)."""
        no_samples = () if self.samples else (_NO_SAMPLES,)
        return {
            "watts_per_rank": (self.watts.value, self.watts.missing),
            "dollars_per_step": (self.dollars.value, self.dollars.missing),
            "samples_per_dollar": (self.samples_per_dollar.value, (*self.dollars.missing, *no_samples)),
            "samples_per_joule": (self.samples_per_joule.value, (*self.metered.missing, *no_samples)),
            "goodput": (self.goodput, self.goodput_missing if self.goodput is not None else (_NO_GOODPUT,)),
        }

    def figures(self) -> dict[str, float | None]:
        """Return ``watts_per_rank``, ``dollars_per_step``, ``samples_per_dollar``, ``samples_per_joule`` and
        ``goodput`` by name, in SI units and before goodput: mean watts of a rank before the PUE, dollars of a step over
        all ranks, samples for a joule at the meter, and goodput as a share of the time; each is None where a part of it
        is missing, samples also where the step trains none, and goodput where it was not computed."""
        return {name: None if missing else value for name, (value, missing) in self._known_and_missing().items()}

    def to_json(self) -> Document:
        """Return the five figures of :meth:`figures` by name, None where a part is missing; under ``missing`` the
        missing parts by figure; and under ``ledger`` the totals with their ranges: ``dollars_per_rank``,
        ``watts_per_rank``, ``metered_joules_per_step``, ``dollars_per_step``, ``samples_per_dollar`` and
        ``samples_per_joule``, the last two also with ``_after_goodput`` (None without goodput); beside them
        ``most_goodput`` and ``spare_share``, the spare nodes over those in use."""
        samples = {"dollar": self.samples_per_dollar, "joule": self.samples_per_joule}
        after = {name: self.after_goodput(each) for name, each in samples.items()}
        return {
            **self.figures(),
            "missing": {name: list(parts) for name, (_, parts) in self._known_and_missing().items() if parts},
            "ledger": {
                "dollars_per_rank": self.cluster.dollars.to_json(),
                "watts_per_rank": self.watts.to_json(),
                "metered_joules_per_step": self.metered.to_json(),
                "dollars_per_step": self.dollars.to_json(),
                "most_goodput": self.goodput,
                "spare_share": self.spare_share,
                **{f"samples_per_{name}": each.to_json() for name, each in samples.items()},
                **{f"samples_per_{name}_after_goodput": each and each.to_json() for name, each in after.items()},
            },
        }


# Costs of steps as rows for terminals and pages: one column for each place where they run.

TITLE = "Dollars, watts and joules"
MARKS: Mapping[Bound, str] = {"": "", "at least": "≥ ", "at most": "≤ ", "about": "~ "}
"""Mark before a printed total, by what it says of the true value."""
MOST_PLACES = 4
"""Places beside each other; JSON holds all."""


def ledger_rows(ledgers: Mapping[str, StepLedger], run: str = "step") -> list[tuple[str, ...]]:
    """Return the rows of a table: the figure's name, and its value as text at every place, in the order of ``ledgers``
    (by name of the place), with its range. Figures are dollars a rank (its price), watts a rank, joules of a step over
    all ranks, the same at the meter, dollars of a step, samples per dollar and per joule at the meter, both before
    goodput, and goodput in per cent ("not computed" where it was not).

    ``≥`` marks a lower bound, ``≤`` an upper one and ``~`` what misses something and counts other things at a limit;
    :func:`ledger_notes` names these. Rows of samples and of goodput are left out where no step trains any.

    Args:
        ledgers: ledger of each place by its name.
        run: word for what takes the joules, "step" or for instance "collective".
    """
    steps = list(ledgers.values())
    totals: dict[str, Callable[[StepLedger], Total]] = {
        "dollars a rank": lambda step: step.cluster.dollars,
        "watts a rank": lambda step: step.watts,
        f"joules a {run}": lambda step: step.energy.total,
        "at the meter": lambda step: step.metered,
        f"dollars a {run}": lambda step: step.dollars,
    }
    trains = any(step.samples for step in steps)
    if trains:
        totals["samples per dollar"] = lambda step: step.samples_per_dollar
        totals["samples per joule"] = lambda step: step.samples_per_joule
    rows: list[tuple[str, ...]] = [(name, *(amount(total(step)) for step in steps)) for name, total in totals.items()]
    shown = (
        "not computed" if step.goodput is None else f"{'≤ ' if step.goodput_missing else ''}{step.goodput:.2%}"
        for step in steps
    )
    return [*rows, ("goodput", *shown)] if trains else rows


def ledger_notes(ledgers: Mapping[str, StepLedger]) -> Iterator[str]:
    """Yield lines of text for what the ledger of every place leaves out, counts at a limit or takes without an
    interval, for what its bill notes, place by place, and last for what is assumed of all; ``ledgers`` are by name of
    the place."""
    for place, step in ledgers.items():
        missing = dict.fromkeys((*step.cluster.dollars.missing, *step.energy.missing))
        if missing:
            yield f"left out, so that sums are at least so much (≥), {place}: {', '.join(missing)}"
        if at_most := dict.fromkeys((*step.cluster.dollars.at_most, *step.energy.total.at_most)):
            yield f"counted at a limit, so that sums are at most so much (≤), {place}: {', '.join(at_most)}"
        if missing and at_most:
            yield f"both, so that sums are neither (~), {place}"
        if step.interval is None:
            yield f"ranges are those of prices and watts alone, {place}: no interval of its time is known"
        if step.goodput is not None and step.goodput_missing:
            yield f"goodput at most (≤), {place}: without {', '.join(step.goodput_missing)}"
        yield from (f"bill of {place}: {note}" for note in step.cluster.fabric.notes)
    yield from _assumption_lines(list(ledgers.values()))


def _assumption_lines(steps: Sequence[StepLedger]) -> Iterator[str]:
    """Yield lines of text: the inputs of the site (that of the first step) left at their defaults, that failures are
    assumed where goodput was computed, and the parts whose price, power or energy of a bit is assumed."""
    if steps:
        site = steps[0].cluster.site
        if texts := [text for name, text in site.texts().items() if name in site.defaults]:
            yield f"assumed of the site: {', '.join(texts)}"
    if any(step.goodput is not None for step in steps):
        yield "assumed of failures: checkpoints, restarts, repairs and spares as `lightloom goodput CLUSTER` lists them"
    totals = {
        "prices": [step.cluster.dollars for step in steps],
        "watts": [step.cluster.static_power for step in steps],
        "joules of a bit beside them": [step.energy.transmission for step in steps],
    }
    for what, sums in totals.items():
        if names := dict.fromkeys(name for total in sums for name in total.assumptions):
            yield f"assumed {what}: those of {', '.join(names)} (lightloom catalog PART)"


def amount(total: Total) -> str:
    """Return a total as text with its unit and, where low and high differ as printed, its range: ``≥ $ 12 ($ 10 to $
    14)``. Bounds are marked, ``≥`` for at least, ``≤`` for at most and ``~`` where it is neither, as it misses
    something and counts other things at a limit; dollars below one cent are in ct; ``unknown`` where it has no
    value."""
    if total.value is None or total.low is None or total.high is None:
        return "unknown"
    shown, low, high = (
        format_quantity(100 * value, "price").replace("$", "ct")
        if total.unit == "dollars" and 0 < value < 0.01
        else format_amount(value, total.unit)
        for value in (total.value, total.low, total.high)
    )
    return MARKS[total.bound] + (shown if low == high else f"{shown} ({low} to {high})")
