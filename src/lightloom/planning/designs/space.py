"""The designs that are searched: families of fabrics, each with lists of values for some of its fields.

    families:
      - name: fat tree
        technology: electrical
        fabric: fat-tree-400g
        set: {tiers.spine.ports: [32, 16, 8]}

A family stands for the product of its lists, on every number of ranks that is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import inf
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from lightloom.core.configfile import read_yaml, validate
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.core.fields import Config, Dollars
from lightloom.core.results import attributes
from lightloom.machines.clusters.cluster import Cluster
from lightloom.machines.clusters.load import cluster_from
from lightloom.machines.parts.bill import Bill
from lightloom.machines.parts.part import FigureName
from lightloom.planning.economics.estimate import goodput_of
from lightloom.planning.economics.ledger import ClusterLedger, Site, StepLedger
from lightloom.planning.sweeps.experiment import Several, Text

Technology = Literal["electrical", "optical"]
DEFAULT = Path(__file__).parent / "spaces" / "default.yaml"


class Family(Config):
    """Fabrics that differ in the values of some fields."""

    name: Text
    technology: Technology
    """Technology that carries data between nodes: packet switches, or light that passes no packet switch."""
    fabric: Any
    """A fabric of the catalog, a YAML file, or a mapping of fields, as in a cluster's file."""
    set: dict[Text, Several[Any]] = Field(default_factory=dict)
    """Fields of the fabric, and the values that they take."""
    fabric_price: Dollars | None = None
    """Dollars of the fabric for each rank, in place of those of its parts. Null: from its bill."""


class DesignSpace(Config):
    """Content of a YAML file of designs."""

    description: str = ""
    """One line for people."""
    assumptions: tuple[Text, ...] = ()
    """Assumptions for all designs that no source states; printed with the results."""
    families: tuple[Family, ...]

    def designs(self, ranks: Sequence[int], accelerator: str, folder: Path) -> Iterator[Design]:
        """Yield every design of these numbers of ranks of one accelerator, whether it can be built or not: family by
        family, and for each number of ranks in the order given, the product of the family's lists of values, the last
        list varying fastest. Files that fabrics name are relative to ``folder``."""
        for family, count in product(self.families, ranks):
            for values in product(*family.set.values()):
                yield Design(
                    **attributes(family, "family=name technology fabric fabric_price"),
                    ranks=count,
                    accelerator=accelerator,
                    folder=str(folder),
                    settings=dict(zip(family.set, values, strict=True)),
                    shown=tuple(name for name, several in family.set.items() if len(several) > 1),
                )


def read_space(path: Path | None = None) -> DesignSpace:
    """Return the space of designs that a YAML file describes; None for the default one.

    Raises:
        ConfigError: unreadable, a field is unknown, missing or malformed, there is no family, or two have one name.
    """
    path = path or DEFAULT
    where = path.stem if path == DEFAULT else str(path)
    space: DesignSpace = validate(DesignSpace, read_yaml(path), where)
    names = [family.name for family in space.families]
    if not names:
        raise ConfigError(f"{where}: no families: expected at least one")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"{where}: two families are named {twice!r}: expected different names")
    return space


@dataclass(frozen=True, kw_only=True)
class Design:
    """One fabric with all its fields, and how many ranks of which accelerator it joins."""

    family: str
    technology: Technology
    fabric: Any
    ranks: int
    accelerator: str
    folder: str
    """Folder to which files that the fabric names are relative."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    fabric_price: float | None = None
    """Dollars of the fabric for each rank, in place of those of its parts; None: from its bill."""
    shown: tuple[str, ...] = ()
    """Fields in which the designs of the family differ."""

    @property
    def name(self) -> str:
        """The family, followed by the values of the fields in which the family's designs differ: ``fat tree: ports
        32``."""
        values = ", ".join(f"{field.rpartition('.')[2]} {self.settings[field]}" for field in self.shown)
        return f"{self.family}: {values}" if values else self.family

    @property
    def key(self) -> str:
        """Text that no other design of the space has: ranks, family and all settings."""
        return f"{self.ranks} ranks, {self.family}: {sorted(self.settings.items())}"

    def cluster(self) -> Cluster:
        """Return the cluster that this design describes.

        Raises:
            InputError: the fabric does not have so many ranks, or a value is out of range.
        """
        data = {"ranks": self.ranks, "accelerator": self.accelerator, "fabric": self.fabric}
        settings = {f"fabric.{name}": value for name, value in self.settings.items()}
        return cluster_from(data, settings, name=self.name, where=f"design {self.name!r}", folder=Path(self.folder))


# Cost and samples of a design per second: its place among designs, as a function of its step time.
#
# samples per dollar = goodput / (1 + s) / (t · dollars a second + dollars of what sending draws for one sample)
# samples per joule  = goodput / (1 + s) / (t · watts at the meter + joules of what sending draws for one sample)
#
# with s the spare nodes over those in use, which cost and draw as much, and t the seconds of a step for each of its
# samples. Both fall as t grows, so a lower bound of t gives values that the design cannot exceed, and a design that
# it would have to be faster than a bound to match cannot be matched.
#
# A price or a power that nothing states is a variable: dollars and joules of a sample are linear in it
# (:meth:`Worth.assuming`). That holds for parts of the fabric and for boards and hosts, of which designs have equally
# many, but for different times.

PRICE, POWER = "price of ", "power of "
"""How names of unknown prices and powers begin."""


@dataclass(frozen=True, kw_only=True)
class Worth:
    """Price, power and goodput of a cluster, which do not depend on the model that it trains."""

    goodput: float
    """Share of the time that trains, failures of unknown rate left out."""
    spare_share: float
    """Spare nodes that ``goodput`` takes, over the nodes in use."""
    capital: float
    """Dollars of all ranks, those that are known."""
    cost_rate: float
    """Dollars a second for the price and its maintenance, for each dollar of it."""
    watts: float
    """Watts of all ranks at the meter, busy or idle, those that are known."""
    electricity: float
    """Dollars a joule at the meter."""
    pue: float
    fabric_dollars: float
    """Dollars of the fabric for each rank, those that are known."""
    fabric_watts: float
    """Watts of the fabric for each rank before the meter, those that are known."""
    fabric_bandwidth: float | None
    """Bytes a second that a rank sends over all its links at most; None where the fabric does not say."""
    unknown: Mapping[str, float]
    """Parts of all ranks whose price, power or energy of a bit is unknown, by what is unknown:
    ``{"price of wdm-engine": 1024}``."""
    unknown_rates: Mapping[str, float]
    """Parts of all ranks whose failure rate is unknown, boards and hosts included: the goodput leaves them out."""
    alike: Mapping[str, float]
    """Prices and powers of boards and hosts that nothing states, of one rank, by what is unknown: the number of ranks.
    They are the same in every design with the accelerator, but are paid for longer where a step takes longer."""
    ranks: int

    @classmethod
    def of(cls, cluster: Cluster, site: Site) -> Worth:
        """Return the worth of a cluster at a site, whatever model it trains: the purchase price of all ranks
        (``capital``, dollars) and the share of it that is paid a second (``cost_rate``), the static ``watts`` of all
        ranks at the meter, dollars and watts of the fabric for each rank (watts before the meter), goodput and the
        share of spare nodes. What has no price, watts or failure rate counts as 0 and is listed by name, with its
        number in all ranks: of the fabric in ``unknown``, of boards and hosts in ``alike``, failure rates in
        ``unknown_rates``.

        Raises:
            UnsupportedError: nothing states what the fabric is built of.
            InputError: the site states choices, and the fabric cannot be built so.
        """
        ledger = ClusterLedger.of(cluster, site)
        goodput = goodput_of(cluster, ledger)
        fabric = ledger.fabric
        if fabric.missing:
            raise UnsupportedError(f"nothing states {', '.join(fabric.missing)}: the design has no price")
        others = ledger.boards + ledger.hosts
        return cls(
            goodput=goodput.most,
            spare_share=goodput.spare_share,
            capital=(ledger.dollars.value or 0.0) * cluster.ranks,
            cost_rate=site.cost_rate,
            watts=StepLedger(cluster=ledger, step_time=1.0, sent_joules=0.0, samples=1).metered.value or 0.0,
            electricity=site.electricity,
            pue=site.pue,
            fabric_dollars=fabric.dollars.value or 0.0,
            fabric_watts=fabric.static_power.value or 0.0,
            fabric_bandwidth=fabric.bandwidth,
            unknown=_unknown(fabric, "dollars") | _unknown(fabric, "static_power") | _unknown_energy(cluster, fabric),
            unknown_rates=_unknown(ledger.bill, "mtbf"),
            alike=dict.fromkeys((*others.dollars.missing, *others.static_power.missing), float(cluster.ranks)),
            ranks=cluster.ranks,
        )

    @property
    def dollar_rate(self) -> float:
        """Dollars a second of all ranks in use, for their price, maintenance and electricity, as far as known; spare
        nodes left out."""
        return self.capital * self.cost_rate + self.watts * self.electricity

    @property
    def kept(self) -> float:
        """Goodput over 1 + the share of spare nodes: useful work for each dollar or joule, relative to a cluster
        without failures and spares."""
        return self.goodput / (1 + self.spare_share)

    @property
    def variables(self) -> Mapping[str, float]:
        """Number of parts, or ranks, of all ranks for everything whose price, power or energy of a bit is unknown, by
        what is unknown: of the fabric, boards and hosts."""
        return {**self.unknown, **self.alike}

    def assuming(self, figures: Mapping[str, float]) -> Worth:
        """Return the worth with these figures in place of unknown prices and powers, which are then not unknown any
        more.

        Args:
            figures: dollars, or watts before the meter, of one part or rank, by those names of :attr:`variables` that
                begin with "price of" or "power of"; no others are allowed (AssertionError): ``{"price of wdm-engine":
                119.0}``.
        """
        dollars = {name: each for name, each in figures.items() if name.startswith(PRICE)}
        watts = {name: each for name, each in figures.items() if name.startswith(POWER)}
        assert len(dollars) + len(watts) == len(figures) and figures.keys() <= self.variables.keys()

        def total(figures: Mapping[str, float], counts: Mapping[str, float]) -> float:
            """Return the figures of one each times how many there are of it, added up."""
            return sum(each * counts.get(name, 0.0) for name, each in figures.items())

        return replace(
            self,
            capital=self.capital + total(dollars, self.variables),
            watts=self.watts + total(watts, self.variables) * self.pue,
            fabric_dollars=self.fabric_dollars + total(dollars, self.unknown) / self.ranks,
            fabric_watts=self.fabric_watts + total(watts, self.unknown) / self.ranks,
            unknown={name: count for name, count in self.unknown.items() if name not in figures},
            alike={name: count for name, count in self.alike.items() if name not in figures},
        )

    def unknown_of(self, objective: int, names: Iterable[str] | None = None) -> tuple[str, ...]:
        """Return those of ``names``, None for all variables, that make samples per dollar (``objective`` 0) or per
        joule (1) unknown: all of them for dollars, which pay for joules too, and those that are no prices for
        joules."""
        every = self.variables if names is None else names
        return tuple(name for name in every if objective == 0 or not name.startswith(PRICE))

    def at_most(self, objective: int) -> bool:
        """Return True if samples per dollar (``objective`` 0) or joule (1) are upper bounds, as a power, an energy of a
        bit or a failure rate is unknown, or, of samples per dollar, a price."""
        return bool(self.unknown_of(objective) or self.unknown_rates)

    def point(self, sample_time: float, sent: float = 0.0) -> tuple[float, float, float]:
        """Return samples per dollar, per joule (at the meter) and per second, after goodput; the first two also pay for
        spare nodes. What is unknown counts as 0; ZeroDivisionError where nothing of a cost is known.

        Args:
            sample_time: seconds of a step for each of its samples.
            sent: joules for each sample that sending adds to the static power.
        """
        joules = self.watts * sample_time + sent * self.pue
        dollars = self.dollar_rate * sample_time + sent * self.pue * self.electricity
        return self.kept / dollars, self.kept / joules, self.goodput / sample_time

    def fabric_price(self, sample_time: float, sent: float, samples_per_dollar: float) -> float:
        """Return the dollars of the fabric for each rank at which the design trains so many samples for a dollar,
        everything else as known; negative where no price is low enough.

        Args:
            sample_time: seconds of a step for each of its samples.
            sent: joules for each sample that sending adds to the static power.
            samples_per_dollar: after goodput.
        """
        budget = self.kept / samples_per_dollar - sent * self.pue * self.electricity
        capital = (budget / sample_time - self.watts * self.electricity) / self.cost_rate
        return self.fabric_dollars + (capital - self.capital) / self.ranks

    def fabric_power(self, sample_time: float, sent: float, samples_per_joule: float) -> float:
        """Return the watts of the fabric for each rank, before the meter, at which the design trains so many samples
        for a joule, everything else as known; negative where no power is low enough.

        Args:
            sample_time: seconds of a step for each of its samples.
            sent: joules for each sample that sending adds to the static power.
            samples_per_joule: at the meter, after goodput.
        """
        watts = (self.kept / samples_per_joule - sent * self.pue) / sample_time
        return self.fabric_watts + (watts - self.watts) / self.pue / self.ranks


def _unknown(bill: Bill, name: FigureName) -> dict[str, float]:
    """Return the number of parts of all ranks for which a figure (``name``: "dollars", "static_power" or "mtbf") is not
    stated, by what is missing: ``{"price of wdm-engine": 1024}``."""
    counts: dict[str, float] = {}
    for line in bill.lines:
        for missing in line.total(name).missing:
            counts[missing] = counts.get(missing, 0.0) + line.per_rank * bill.ranks
    return counts


def _unknown_energy(cluster: Cluster, fabric: Bill) -> dict[str, float]:
    """Return the number of the cluster's ranks by the name of what sending adds and nothing states: parts, or the
    fabric's energy of a bit where parts draw more for it; empty where it is known.

    Names end with "of" and the cluster's name, as designs send different bytes for a sample, so that what is unknown of
    one is not compared with that of another.
    """
    energy = fabric.dynamic_energy
    if cluster.fabric.energy_per_bit is not None or (energy.complete and not energy.value):
        return {}
    names = energy.missing or ("fabric.energy_per_bit",)
    return {f"{name} of {cluster.name}": float(cluster.ranks) for name in names}


# The front: designs that no other one beats, whatever the prices are that nobody states.
#
# A design beats another one if it trains at least as many samples for a dollar, for a joule and, where numbers of
# ranks differ, in a second, and if every part of unknown price or power, boards and hosts included, stands in it for
# at most as long a share of a sample, spare nodes counted: then it stays ahead whatever that part costs or draws.
# Parts whose failure rate is unknown count likewise, by number.

_ROUNDING = 1e-9


class Front:
    """Designs that were evaluated, and the time beyond which another one cannot be on the front beside them."""

    def __init__(self, *, by_speed: bool) -> None:
        """Begin without designs; ``by_speed`` says whether samples per second count as an objective."""
        self._by_speed = by_speed
        self._points: list[tuple[Worth, float, float]] = []

    def add(self, worth: Worth, sample_time: float, sent: float) -> None:
        """Add an evaluated design by its worth, its seconds of a step for each sample, and the joules for each sample
        that sending adds."""
        self._points.append((worth, sample_time, sent))

    def cutoff(self, worth: Worth) -> float:
        """Return the seconds a sample from which on a design of this worth is surely beaten by some added one; infinite
        where none can be sure to beat it. Energy of sending counts for the added designs only."""
        return min((self._beaten_beyond(worth, *point) for point in self._points), default=inf)

    def _beaten_beyond(self, worth: Worth, other: Worth, sample_time: float, sent: float) -> float:
        """Return the seconds a sample beyond which a design of ``worth`` is surely beaten by another design, even if it
        sends for nothing: of worth ``other``, ``sample_time`` seconds of a step for each sample and ``sent`` joules of
        sending for each. Infinite where that one has an unknown price or power that ``worth`` has none of, or more
        parts of unknown failure rate. Samples per second count only on a front by speed."""
        if any(worth.unknown_rates.get(part, 0.0) < count for part, count in other.unknown_rates.items()):
            return inf
        objectives = other.point(sample_time, sent)[: 3 if self._by_speed else 2]
        rates = (worth.dollar_rate, worth.watts, 1.0)[: len(objectives)]
        kept = (worth.kept, worth.kept, worth.goodput)[: len(objectives)]
        times = [share / (rate * value) for share, rate, value in zip(kept, rates, objectives, strict=True)]
        for part, count in other.variables.items():
            own = worth.variables.get(part, 0.0)
            if own == 0.0:
                return inf
            times.append(count * sample_time / other.kept * worth.kept / own)
        return max(times)

    def on_front(self) -> list[bool]:
        """Return, for each design in the order added, True where no other one beats it: is as good in samples per
        dollar, per joule and, on a front by speed, per second, and in the amounts of everything unknown, and better in
        one of these. Of equal ones, all are True."""
        return [
            not any(self._beats(other, point) for other in self._points if other is not point) for point in self._points
        ]

    def _beats(self, first: tuple[Worth, float, float], second: tuple[Worth, float, float]) -> bool:
        """Return True where the first design is nowhere worse than the second and somewhere better, beyond rounding
        (one part in 10⁹), by the measures of :meth:`_measures` (samples per dollar and joule, on a front by speed per
        second, and the amounts of everything unknown); each is (worth, seconds a sample, joules a sample of
        sending)."""
        mine, others = self._measures(*first), self._measures(*second)
        pairs = [(mine.get(name, 0.0), others.get(name, 0.0)) for name in mine | others]
        at_least = all(mine >= other - _ROUNDING * abs(other) for mine, other in pairs)
        return at_least and any(mine > other + _ROUNDING * abs(other) for mine, other in pairs)

    def _measures(self, worth: Worth, sample_time: float, sent: float) -> dict[object, float]:
        """Return the measures of a design of this worth, with ``sample_time`` seconds of a step and ``sent`` joules of
        sending for each sample, by name, of which more is better: samples per dollar (0), joule (1) and, on a front by
        speed, second (2); then, negated and 0 for all that a design does not have, for each part or rank figure of
        unknown price or power the number times seconds a sample over the useful work left, and for each part of unknown
        failure rate its number, by ("rate", part)."""
        return {
            **dict(enumerate(worth.point(sample_time, sent)[: 3 if self._by_speed else 2])),
            **{part: -count * sample_time / worth.kept for part, count in worth.variables.items()},
            **{("rate", part): -count for part, count in worth.unknown_rates.items()},
        }
