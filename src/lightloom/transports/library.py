"""A collective library on a system: its transport, and what that has to know of the system's two tiers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lightloom.core.arrays import Floats, Ints
from lightloom.transports.base import Transport
from lightloom.transports.price import Constants, columns_of, seconds
from lightloom.transports.ways import Tasks, Tiers


def ranks_in_domain(domain: int, ranks: Ints, stride: Ints) -> Ints:
    """Return how many ranks of each group, which lie ``stride`` apart, are together in a domain at least: [groups].

    Groups lie side by side from rank 0 on, so that domains cut some of them unless either size divides the other.
    """
    together: Ints = np.clip(np.gcd(domain, ranks * stride) // stride, 1, ranks)
    return together


class Library(NamedTuple):
    """What carries collectives on the tiers of a fabric."""

    tiers: Tiers
    transport: Transport

    @property
    def domain(self) -> int:
        """Ranks of a domain, which are neighbours."""
        return self.tiers.domain

    def group(self, ranks: int, stride: int) -> Library:
        """The library of a group whose ranks lie ``stride`` apart; fewer of them share a domain."""
        together = ranks_in_domain(self.tiers.domain, np.array(ranks), np.array(stride))
        return self._replace(tiers=self.tiers._replace(domain=int(together)))

    def message_latency(self, stride: int) -> float:
        """Return the seconds that a message from a rank to the one ``stride`` further on takes besides its bytes."""
        pair = self._replace(tiers=self.tiers._replace(domain=2 if stride < self.domain else 1))
        return float(pair.seconds("broadcast", np.array([2]), np.array([1]), np.zeros(1))[0])

    def message_latencies(self, source: Ints, destination: Ints) -> Floats:
        """Return the same of messages between ranks of the fabric, in the shape of ``source``."""
        together = source // self.domain == destination // self.domain
        inside, across = (self.message_latency(stride) for stride in (1, self.domain))
        return np.where(together, inside if self.domain > 1 else across, across)

    def seconds(self, kind: str, ranks: Ints, stride: Ints, nbytes: Floats) -> Floats:
        """Return the seconds of collectives, each by its quickest way; 0 where there is one rank.

        Where nothing is sent these are the seconds of their latencies.

        Args:
            kind: of collective.
            ranks: of each group, [rows].
            stride: distance between neighbours of each group, in ranks, [rows].
            nbytes: of each collective, as ``Collective.nbytes``, [rows] or [rows, ...].
        """
        shape = ranks.shape + (1,) * (nbytes.ndim - ranks.ndim)
        domains = -(-ranks // ranks_in_domain(self.tiers.domain, ranks, stride))
        table = np.broadcast_arrays(ranks.reshape(shape), domains.reshape(shape), nbytes)
        tasks = Tasks(kind, *(column.ravel().astype(np.float64) for column in table))
        quickest = seconds(columns_of(tasks, self.tiers, self.transport), Constants.of(self.transport))
        return np.where(tasks.ranks > 1, quickest, 0.0).reshape(nbytes.shape)
