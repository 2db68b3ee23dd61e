"""What a design costs a second and trains a second: its place among designs, as a function of its step time.

    samples per dollar = goodput / (1 + s) / (t · dollars a second + dollars of what sending draws for one sample)
    samples per joule  = goodput / (1 + s) / (t · watts at the meter + joules of what sending draws for one sample)

with s the spare nodes over those in use, which cost and draw as much, and t the seconds of a step for each of its
samples. Both fall as t grows, so a lower bound of t gives values that the design cannot exceed, and a design that it
would have to be faster than a bound to match cannot be matched.

A price or a power that nothing states is a variable: dollars and joules of a sample are linear in it
(:meth:`Worth.assuming`). That holds for parts of the fabric and for boards and hosts, of which designs have equally
many, but for different times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from lightloom.clusters.base import Cluster
from lightloom.core.errors import UnsupportedError
from lightloom.economics.goodput.evaluate import goodput_of
from lightloom.economics.ledger import ClusterLedger
from lightloom.economics.site import Site
from lightloom.economics.step import StepLedger
from lightloom.parts.bill import Bill, Total
from lightloom.parts.part import FigureName

PRICE, POWER = "price of ", "power of "
"""How names of unknown prices and powers begin."""


@dataclass(frozen=True, kw_only=True)
class Worth:
    """What a cluster costs and loses, whatever it trains."""

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
        """Return the worth of a cluster at a site.

        Raises:
            UnsupportedError: nothing states what the fabric is built of.
        """
        ledger = ClusterLedger.of(cluster, site)
        goodput = goodput_of(cluster, ledger)
        second = StepLedger(cluster=ledger, step_time=1.0, sent_joules=0.0, samples=1)
        fabric = ledger.fabric
        if fabric.missing:
            raise UnsupportedError(f"nothing states {', '.join(fabric.missing)}: the design has no price")
        others = ledger.boards + ledger.hosts
        alike = dict.fromkeys((*others.dollars.missing, *others.static_power.missing), float(cluster.ranks))
        return cls(
            goodput=goodput.most,
            spare_share=goodput.spare_share,
            capital=_known(ledger.dollars) * cluster.ranks,
            cost_rate=site.cost_rate,
            watts=_known(second.metered),
            electricity=site.electricity,
            pue=site.pue,
            fabric_dollars=_known(fabric.dollars),
            fabric_watts=_known(fabric.static_power),
            fabric_bandwidth=fabric.bandwidth,
            unknown=_unknown(fabric, "dollars") | _unknown(fabric, "static_power") | _unknown_energy(cluster, fabric),
            unknown_rates=_unknown(ledger.bill, "mtbf"),
            alike=alike,
            ranks=cluster.ranks,
        )

    @property
    def dollar_rate(self) -> float:
        """Dollars a second of the nodes in use, electricity included."""
        return self.capital * self.cost_rate + self.watts * self.electricity

    @property
    def kept(self) -> float:
        """Samples that train for each one that nodes without failures and spares would train at the same expense."""
        return self.goodput / (1 + self.spare_share)

    @property
    def variables(self) -> Mapping[str, float]:
        """Everything whose price, power or energy of a bit is unknown, and how many all ranks have of it."""
        return {**self.unknown, **self.alike}

    def assuming(self, figures: Mapping[str, float]) -> Worth:
        """Return the worth if unknown prices and powers were these.

        Args:
            figures: dollars or watts of one, by names of :attr:`variables`: ``{"price of wdm-engine": 119.0}``.
        """
        dollars = {name: each for name, each in figures.items() if name.startswith(PRICE)}
        watts = {name: each for name, each in figures.items() if name.startswith(POWER)}
        assert len(dollars) + len(watts) == len(figures) and figures.keys() <= self.variables.keys()
        capital, power = (sum(each * self.variables[name] for name, each in of.items()) for of in (dollars, watts))
        fabric_dollars, fabric_watts = (
            sum(each * self.unknown.get(name, 0.0) for name, each in of.items()) / self.ranks for of in (dollars, watts)
        )
        return replace(
            self,
            capital=self.capital + capital,
            watts=self.watts + power * self.pue,
            fabric_dollars=self.fabric_dollars + fabric_dollars,
            fabric_watts=self.fabric_watts + fabric_watts,
            unknown={name: count for name, count in self.unknown.items() if name not in figures},
            alike={name: count for name, count in self.alike.items() if name not in figures},
        )

    @property
    def weight(self) -> float:
        """What a dollar or a watt more of every rank counts for one sample at one second a sample."""
        return self.ranks / self.kept

    def unknown_of(self, objective: int, names: Iterable[str] | None = None) -> tuple[str, ...]:
        """Return what is unknown of samples per dollar (0) or per joule (1), of some names or of all variables.

        Dollars hold joules, which hold no prices.
        """
        every = self.variables if names is None else names
        return tuple(name for name in every if objective == 0 or not name.startswith(PRICE))

    def at_most(self, objective: int) -> bool:
        """Whether samples per dollar (0) or per joule (1) are upper bounds: a price, a power or a life is unknown."""
        return bool(self.unknown_of(objective) or self.unknown_rates)

    def point(self, sample_time: float, sent: float = 0.0) -> tuple[float, float, float]:
        """Return samples per dollar, per joule and per second.

        Args:
            sample_time: seconds of a step for each of its samples.
            sent: joules for each sample that sending adds to the static power.
        """
        joules = self.watts * sample_time + sent * self.pue
        dollars = self.dollar_rate * sample_time + sent * self.pue * self.electricity
        return self.kept / dollars, self.kept / joules, self.goodput / sample_time

    def fabric_price(self, sample_time: float, sent: float, samples_per_dollar: float) -> float:
        """Return the dollars of the fabric for each rank at which the design trains so many samples for a dollar;
        negative where no price does."""
        budget = self.kept / samples_per_dollar - sent * self.pue * self.electricity
        capital = (budget / sample_time - self.watts * self.electricity) / self.cost_rate
        return self.fabric_dollars + (capital - self.capital) / self.ranks

    def fabric_power(self, sample_time: float, sent: float, samples_per_joule: float) -> float:
        """Return the watts of the fabric for each rank at which the design trains so many samples for a joule;
        negative where none do."""
        watts = (self.kept / samples_per_joule - sent * self.pue) / sample_time
        return self.fabric_watts + (watts - self.watts) / self.pue / self.ranks

    def energy_per_bit(self, watts: float) -> float | None:
        """Return watts of the fabric for each rank as joules for each bit that it sends at its full rate."""
        return None if not self.fabric_bandwidth else watts / (8 * self.fabric_bandwidth)


def _unknown(bill: Bill, name: FigureName) -> dict[str, float]:
    """Return how many parts of all ranks have no such figure, by what is missing."""
    counts: dict[str, float] = {}
    for line in bill.lines:
        for missing in line.total(name).missing:
            counts[missing] = counts.get(missing, 0.0) + line.per_rank * bill.ranks
    return counts


def _unknown_energy(cluster: Cluster, fabric: Bill) -> dict[str, float]:
    """Return what sending adds and nothing states: parts, or the fabric's figure of a bit where parts draw more for it.

    Designs send different bytes for a sample, so that what is unknown of one is not compared with that of another.
    """
    energy = fabric.dynamic_energy
    if cluster.fabric.energy_per_bit is not None or (energy.complete and not energy.value):
        return {}
    names = energy.missing or ("fabric.energy_per_bit",)
    return {f"{name} of {cluster.name}": float(cluster.ranks) for name in names}


def _known(total: Total) -> float:
    """Return the sum of what is known; what is missing is named beside it."""
    return total.value or 0.0
