"""Circuits granted over a cycle of holds: how long they stand, and how well they serve a traffic matrix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace

import numpy as np

from lightloom.core.arrays import Floats, Ints
from lightloom.core.errors import ConfigError
from lightloom.parallelism.circuits.traffic import Traffic


@dataclass(frozen=True, slots=True)
class Timing:
    """One period: a reconfiguration, in which no data moves, then a hold, in which circuits stand."""

    hold: float
    """Duration of a hold, in seconds."""
    reconfiguration: float
    """Duration of the reconfiguration before each hold, in seconds."""
    controller_latency: float = 0.0
    """Seconds from reading the senders' counters to the start of the reconfiguration that answers them."""

    def __post_init__(self) -> None:
        if not self.hold > 0:
            raise ConfigError(f"hold period of {self.hold} s: expected more than 0")
        if not self.reconfiguration >= 0:
            raise ConfigError(f"reconfiguration period of {self.reconfiguration} s: expected 0 or more")
        if not 0 <= self.controller_latency <= self.hold + self.reconfiguration:
            raise ConfigError(
                f"controller latency of {self.controller_latency} s: expected 0 to {self.hold + self.reconfiguration} "
                "s, one period"
            )

    @property
    def period(self) -> float:
        """Seconds from one reconfiguration to the next."""
        return self.hold + self.reconfiguration

    @property
    def duty_cycle(self) -> float:
        """Share of the time that carries data: 10/11 for a hold of ten reconfigurations (SiP-ML, section 3.1)."""
        return self.hold / self.period


@dataclass(frozen=True, slots=True)
class Circuits:
    """Circuits as columns; every array has shape [circuit].

    A channel is what :class:`~lightloom.fabrics.base.Fabric` calls so: ``fibre · wavelengths + wavelength`` on a WDM
    ring, a plane on circuit switches. It is the same on every link that the circuit crosses.
    """

    holds: int
    """Holds of the cycle; with one, circuits are set once and stay."""
    hold: Ints
    source: Ints
    destination: Ints
    route: Ints
    """Route by the number of the fabric: clockwise 0, counter-clockwise 1; 0 on switches."""
    channel: Ints

    def __len__(self) -> int:
        return len(self.hold)

    def counts(self, traffic: Traffic) -> Ints:
        """Circuits of each pair in each hold, shape [hold, pair]; those of pairs without traffic are left out."""
        pair = traffic.find(self.source, self.destination)
        serving = pair >= 0
        cell = self.hold[serving] * len(traffic) + pair[serving]
        return np.bincount(cell, minlength=self.holds * len(traffic)).reshape(self.holds, len(traffic))

    def max_min(self, traffic: Traffic) -> float:
        """The least service: circuits a hold, on average over the cycle, over the demand relative to the largest.

        The longest transfer takes ``largest bytes / (max_min · bytes per second of a circuit)`` while circuits stand.
        """
        return least_service(self.counts(traffic).sum(axis=0), traffic, self.holds)


def least_service(counts: Ints, traffic: Traffic, holds: int = 1) -> float:
    """Return the objective of SiP-ML's circuit ILPs: min of circuits, ``counts`` [pair], over relative demand."""
    service: Floats = counts / traffic.relative
    return float(service.min()) / holds


def smallest_counts(nbytes: Floats, service: float) -> Ints:
    """Return the fewest whole x with ``x / nbytes >= service``, by that very division, so that no round-off adds."""
    counts = np.maximum(np.ceil(service * nbytes), 1.0)
    counts = np.where((counts > 1) & ((counts - 1) / nbytes >= service), counts - 1, counts)
    return np.where(counts / nbytes < service, counts + 1, counts).astype(np.int64)


def fill_longest(nbytes: Floats, counts: Ints, take: Callable[[int], bool]) -> Ints:
    """Give circuits one at a time to the transfer that is still the longest with the added circuit.

    Args:
        nbytes: bytes of each transfer, shape [transfer].
        counts: circuits that each transfer has already, shape [transfer].
        take: takes what one more circuit of a transfer needs, or returns False where it is not free.
    """
    counts = counts.copy()
    queue = [(-t / (x + 1), p) for p, (t, x) in enumerate(zip(nbytes.tolist(), counts.tolist(), strict=True))]
    heapify(queue)
    while queue:
        transfer = queue[0][1]
        if take(transfer):
            counts[transfer] += 1
            heapreplace(queue, (-nbytes[transfer] / (counts[transfer] + 1), transfer))
        else:
            heappop(queue)
    return counts


@dataclass(frozen=True, slots=True)
class Assignment:
    """Circuits for a traffic matrix, beside the number that no assignment can exceed."""

    traffic: Traffic
    circuits: Circuits
    bound: float
    """Upper bound of :attr:`max_min`: the optimum if a circuit could have any width."""
    unassigned: int = 0
    """Circuits that segment loads admit, but that found no wavelength that is free on all their links."""

    @property
    def max_min(self) -> float:
        """Circuits a hold for the largest demand, and for others in proportion; see :meth:`Circuits.max_min`."""
        return self.circuits.max_min(self.traffic)

    @property
    def gap(self) -> float:
        """How far :attr:`max_min` stays below the bound: 0 none, 1 when some pair has no circuit."""
        return 1 - self.max_min / self.bound
