"""A rail fabric: domains of GPUs on a fast switch, and a network switch for the GPUs in the same place of all domains.

inside a domain      GPU ──▶ [domain switch] ──▶ GPU
on the same rail     GPU ──▶ [rail switch] ──▶ GPU
across rails         GPU ──▶ [domain switch] ──▶ GPU on the rail of the destination ──▶ [rail switch] ──▶ GPU
"""

from typing import Literal

import numpy as np
from pydantic import model_validator

from lightloom.core.fields import Bandwidth, Count, Seconds
from lightloom.machines.fabrics.derived import Footprint
from lightloom.machines.fabrics.fabric import Fabric

LINKS = ("domain uplink", "domain downlink", "rail uplink", "rail downlink")


class Rail(Fabric):
    """Domains of GPUs joined by rails."""

    kind: Literal["rail"] = "rail"
    domain_size: Count = 8
    """GPUs of a domain; must divide ``ranks``."""
    domain_bandwidth: Bandwidth = 450e9
    """Bytes per second of a GPU's port into its domain, per direction."""
    domain_latency: Seconds = 0.0
    """Seconds for one link inside a domain."""
    bandwidth: Bandwidth = 50e9
    """Bytes per second of a GPU's network card, per direction."""

    @model_validator(mode="after")
    def domains_fill_ranks(self):
        if self.ranks % self.domain_size:
            raise ValueError(f"domain_size={self.domain_size} does not divide ranks={self.ranks}")
        return self

    @property
    def links(self):
        return 4 * self.ranks

    def link_name(self, link):
        kind, rank = divmod(link, self.ranks)
        return f"{LINKS[kind]} of rank {rank}"

    def link_bandwidth(self):
        return np.repeat([self.domain_bandwidth, self.bandwidth], 2 * self.ranks)

    def footprint(self, source, destination, route):
        n = self.ranks
        relay = self.relay(source, destination)
        in_domain, on_rail = (source != relay).astype(int), (relay != destination).astype(int)
        # Runs of links: (first link of a track, position on it, how many, length of the track).
        return Footprint.of(
            [
                (0, source, in_domain, n),
                (n, relay, in_domain, n),
                (2 * n, relay, on_rail, n),
                (3 * n, destination, on_rail, n),
            ]
        )

    def latency(self, source, destination, route):
        relay = self.relay(source, destination)
        return 2 * np.where(source != relay, self.domain_latency, 0.0) + 2 * np.where(
            relay != destination, self.hop_latency, 0.0
        )

    def relay(self, source, destination):
        """The GPU of the source's domain that is on the rail of the destination."""
        domain = np.asarray(source) // self.domain_size
        return domain * self.domain_size + np.asarray(destination) % self.domain_size
