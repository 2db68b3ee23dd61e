"""The ledger of a step: its joules part by part, its dollars, and the samples that a dollar and a joule train.

    joules of a step     = watts of boards, hosts and fabric x ranks x step time + what sending adds
    joules at the meter  = joules x PUE
    dollars of a step    = price x ranks x (1 / amortisation + maintenance a year) x step time
                           + joules at the meter x electricity
    samples per dollar   = samples of the step / its dollars

* Boards draw their rated power: a board that waits draws less, so their joules are an upper bound, and every total
  that holds them names it as counted at most.
* The fabric's static power flows for as long as the step takes; what sending adds counts only the dynamic part of a
  bit's energy (:attr:`lightloom.fabrics.base.Fabric.energy_per_bit`), so that no joule counts twice.
* A total from which something is missing is a lower bound and names it; samples per dollar are then an upper bound.
* A range holds the low ends of everything that a figure is made of, the step's interval included, and the high ends:
  whatever values the figures take within their ranges, the total of these lies within its own.
* Spare nodes cost and draw as much as nodes in use.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from lightloom.core.results import Document
from lightloom.economics.ledger import ClusterLedger
from lightloom.parts.bill import Total, summed

_NO_GOODPUT = "failures and checkpoints (lightloom goodput)"
_NO_SAMPLES = "samples (a collective trains none)"
_DYNAMIC = "fabric.energy_per_bit"


@dataclass(frozen=True, kw_only=True)
class StepEnergy:
    """Joules of one step over all ranks, by what draws them; each names what it leaves out."""

    compute: Total
    """Accelerators with their memory: an upper bound."""
    host: Total
    """What nodes draw beside their accelerators."""
    transmission: Total
    """What sending adds to the fabric's static power."""
    interface: Total
    """The fabric's static power, busy or idle."""

    @cached_property
    def total(self) -> Total:
        """The sum of all parts, with its range."""
        return summed("energy", (self.compute, self.host, self.transmission, self.interface))

    @property
    def missing(self) -> tuple[str, ...]:
        """What has no figure, hence is left out."""
        return self.total.missing

    @property
    def known_j(self) -> float:
        """Sum of the parts that have a figure."""
        return self.total.value or 0.0

    @property
    def total_j(self) -> float | None:
        """Joules altogether; None when a part is missing."""
        return None if self.missing else self.known_j

    def to_json(self) -> Document:
        """Return every part, the sums, and what is missing."""
        return {
            "total_j": self.total_j,
            "known_j": self.known_j,
            "low_j": self.total.low,
            "high_j": self.total.high,
            "compute_j": self.compute.value,
            "host_j": self.host.value,
            "transmission_j": self.transmission.value,
            "interface_j": self.interface.value,
            "missing": list(self.missing),
            "assumptions": list(self.total.assumptions),
        }


@dataclass(frozen=True, kw_only=True)
class StepLedger:
    """What one step costs: joules, dollars, and what each of them trains."""

    cluster: ClusterLedger
    step_time: float
    """Seconds."""
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
        """Joules of the step over all ranks."""
        cluster = self.cluster
        return StepEnergy(
            compute=self._drawn(cluster.boards.static_power),
            host=self._drawn(cluster.hosts.static_power),
            transmission=self._transmission(),
            interface=self._drawn(cluster.fabric.static_power),
        )

    def _drawn(self, watts: Total) -> Total:
        """Joules of all ranks that draw so many watts each."""
        return replace(self._lasting(watts), unit="energy")

    def _lasting(self, rate: Total) -> Total:
        """What flows at so much a second for each rank, over all ranks and the time of a step."""
        low, high = self.interval or (self.step_time, self.step_time)
        return rate.times(*(self.cluster.ranks * seconds for seconds in (self.step_time, low, high)))

    def _transmission(self) -> Total:
        if self.sent_joules is not None:
            return Total("energy", self.sent_joules, self.sent_joules, self.sent_joules)
        dynamic = self.cluster.fabric.dynamic_energy
        if dynamic.value == 0 and dynamic.complete:
            return replace(dynamic, unit="energy")
        return Total("energy", None, None, None, dynamic.missing or (_DYNAMIC,))

    @cached_property
    def watts(self) -> Total:
        """Mean watts of a rank during the step, sending included."""
        if not self.step_time:
            return self.cluster.static_power
        low, high = self.interval or (self.step_time, self.step_time)
        shares = (1 / (self.cluster.ranks * seconds) for seconds in (self.step_time, high, low))
        sent = replace(self.energy.transmission.times(*shares), unit="power")
        return summed("power", (self.cluster.static_power, sent))

    @cached_property
    def metered(self) -> Total:
        """Joules at the meter."""
        return self.energy.total.times(self.cluster.site.pue)

    @cached_property
    def dollars(self) -> Total:
        """Dollars of the step: the share of the price and of maintenance, and electricity."""
        share = self._lasting(self.cluster.cost_rate)
        power = self.metered.times(self.cluster.site.electricity)
        return summed("dollars", (share, replace(power, unit="dollars")))

    @cached_property
    def samples_per_dollar(self) -> Total:
        """Samples that a dollar trains, before goodput; unknown of a step that trains none."""
        return self.dollars.dividing(self.samples, "samples")

    @cached_property
    def samples_per_joule(self) -> Total:
        """Samples that a joule at the meter trains, before goodput; unknown of a step that trains none."""
        return self.metered.dividing(self.samples, "samples")

    def after_goodput(self, samples: Total) -> Total | None:
        """Return what samples for a dollar or a joule are after failures and with spare nodes; None without goodput."""
        if self.goodput is None:
            return None
        kept = samples.times(self.goodput / (1 + self.spare_share))
        return replace(kept, missing=(*kept.missing, *self.goodput_missing))

    def lacking(self) -> dict[str, tuple[str, ...]]:
        """Return what each of the five figures misses, by name."""
        return {
            "watts_per_rank": self.watts.missing,
            "dollars_per_step": self.dollars.missing,
            "samples_per_dollar": self._without_samples(self.dollars.missing),
            "samples_per_joule": self._without_samples(self.metered.missing),
            "goodput": self.goodput_missing if self.goodput is not None else (_NO_GOODPUT,),
        }

    def figures(self) -> dict[str, float | None]:
        """Return the five figures by name, each None where it misses something."""
        values = {
            "watts_per_rank": self.watts.value,
            "dollars_per_step": self.dollars.value,
            "samples_per_dollar": self.samples_per_dollar.value,
            "samples_per_joule": self.samples_per_joule.value,
            "goodput": self.goodput,
        }
        lacking = self.lacking()
        return {name: None if lacking[name] else value for name, value in values.items()}

    def to_json(self) -> Document:
        """Return the five figures, null where a part is missing and named, and what is known of them in ``ledger``."""
        samples = {"dollar": self.samples_per_dollar, "joule": self.samples_per_joule}
        after = {name: self.after_goodput(each) for name, each in samples.items()}
        return {
            **self.figures(),
            "missing": {name: list(parts) for name, parts in self.lacking().items() if parts},
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

    def _without_samples(self, missing: tuple[str, ...]) -> tuple[str, ...]:
        return missing if self.samples else (*missing, _NO_SAMPLES)
