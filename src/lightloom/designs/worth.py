"""What a design costs a second and trains a second: its place among designs, as a function of its step time.

    samples per dollar = goodput / (t · dollars a second + dollars of what sending draws for one sample)
    samples per joule  = goodput / (t · watts at the meter + joules of what sending draws for one sample)

with t the seconds of a step for each of its samples. Both fall as t grows, so a lower bound of t gives values that the
design cannot exceed, and a design that it would have to be faster than a bound to match cannot be matched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lightloom.clusters.base import Cluster
from lightloom.core.errors import UnsupportedError
from lightloom.economics.goodput.evaluate import goodput_of
from lightloom.economics.ledger import ClusterLedger
from lightloom.economics.site import Site
from lightloom.economics.step import StepLedger
from lightloom.parts.bill import Bill, Total
from lightloom.parts.part import FigureName


@dataclass(frozen=True, kw_only=True)
class Worth:
    """What a cluster costs and loses, whatever it trains."""

    goodput: float
    """Share of the time that trains, failures of unknown rate left out."""
    spare_share: float
    """Price of the spare nodes that ``goodput`` takes, over that of the cluster."""
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
    """Parts of all ranks whose failure rate is unknown, likewise: the goodput leaves them out."""
    alike: tuple[str, ...]
    """Prices and watts of boards and hosts that are unknown, the same in every design with the accelerator."""
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
            unknown_rates=_unknown(fabric, "mtbf"),
            alike=(*others.dollars.missing, *others.static_power.missing),
            ranks=cluster.ranks,
        )

    @property
    def dollar_rate(self) -> float:
        """Dollars a second, electricity and spare nodes included."""
        return (self.capital * self.cost_rate + self.watts * self.electricity) * (1 + self.spare_share)

    def point(self, sample_time: float, sent: float = 0.0) -> tuple[float, float, float]:
        """Return samples per dollar, per joule and per second.

        Args:
            sample_time: seconds of a step for each of its samples.
            sent: joules for each sample that sending adds to the static power.
        """
        joules = self.watts * sample_time + sent * self.pue
        dollars = self.dollar_rate * sample_time + sent * self.pue * self.electricity * (1 + self.spare_share)
        return self.goodput / dollars, self.goodput / joules, self.goodput / sample_time

    def fabric_price(self, sample_time: float, sent: float, samples_per_dollar: float) -> float:
        """Return the dollars of the fabric for each rank at which the design trains so many samples for a dollar;
        negative where no price does."""
        budget = self.goodput / samples_per_dollar / (1 + self.spare_share) - sent * self.pue * self.electricity
        capital = (budget / sample_time - self.watts * self.electricity) / self.cost_rate
        return self.fabric_dollars + (capital - self.capital) / self.ranks

    def fabric_power(self, sample_time: float, sent: float, samples_per_joule: float) -> float:
        """Return the watts of the fabric for each rank at which the design trains so many samples for a joule;
        negative where none do."""
        watts = (self.goodput / samples_per_joule - sent * self.pue) / sample_time
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
