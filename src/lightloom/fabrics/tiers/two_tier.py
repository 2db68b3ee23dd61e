"""Two tiers of switches: fast domains joined by a fat tree."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from lightloom.core.fields import Bandwidth, Count, Seconds
from lightloom.fabrics.tiers.base import TieredFabric
from lightloom.fabrics.tiers.groups import port_rates
from lightloom.fabrics.tiers.tier import Tier
from lightloom.fabrics.transport import LibraryLinks, Transport

_IDEAL = Transport(
    node_latency=0, peer_latency=0, node_fraction=1, network_fraction=1, network_latency=0, arithmetic_share=0
)
"""Links as their bandwidths and latencies say."""
_NETWORK_LINKS = 4
"""Links that a transfer between domains crosses."""


class TwoTierSwitch(TieredFabric):
    """Domains of a few ranks on a fast switch, joined by a fat tree through one network port a rank.

    inside a domain    rank ──▶ [domain switch] ──▶ rank
    between domains    rank ──▶ its port ──▶ domain's share of the tree ══▶ tree ══▶ port ──▶ rank
    """

    kind: Literal["two-tier-switch"] = "two-tier-switch"
    domain_size: Count = 8
    """Ranks of a domain; must divide ``ranks``."""
    domain_bandwidth: Bandwidth = 450e9
    """Bytes per second of a rank's domain port, per direction."""
    domain_latency: Seconds = 0.0
    """Seconds for one link inside a domain."""
    bandwidth: Bandwidth = 50e9
    """Bytes per second of a rank's network port, per direction."""
    oversubscription: Annotated[float, Field(ge=1)] = 1.0
    """What a domain's ports could send over what the tree carries for them."""
    transport: Transport | None = None
    """What a collective library reaches on these links; null leaves them ideal, without the library's latencies."""

    @model_validator(mode="after")
    def _tiers_hold_ranks(self) -> Self:
        if self.ranks % self.domain_size:
            raise ValueError(f"domain_size={self.domain_size} does not divide ranks={self.ranks}: expected a divisor")
        return self

    def tier_list(self) -> tuple[Tier, ...]:
        """A switch of ranks, and a tapered switch of domains that each rank reaches through a port of its own."""
        reached = self.transport or _IDEAL
        # A transfer crosses two links of a domain, and a peer of an all-reduce adds two transfers.
        domain = Tier(
            name="domain",
            shape="switch",
            size=self.domain_size,
            bandwidth=self.domain_bandwidth,
            wire_efficiency=reached.node_fraction,
            latency=self.domain_latency + reached.peer_latency / 4,
        )
        network = Tier(
            name="network",
            shape="switch",
            bandwidth=self.bandwidth,
            wire_efficiency=reached.network_fraction,
            latency=self.hop_latency + reached.network_latency / _NETWORK_LINKS,
            taper=self.oversubscription,
        )
        return domain, network

    @property
    def library(self) -> LibraryLinks | None:
        if self.transport is None:
            return None
        rates, (domain, network) = port_rates(self.levels, self.data_rate), self.tier_list()
        assert rates is not None
        assert domain.latency is not None
        assert network.latency is not None
        return LibraryLinks(
            node_ranks=self.domain_size,
            node_rate=float(rates[0]),
            network_rate=float(rates[1]),
            node_latency=self.transport.node_latency,
            peer_latency=4 * domain.latency,
            network_latency=_NETWORK_LINKS * network.latency,
        )

    @property
    def arithmetic_share(self) -> float:
        return 0.0 if self.transport is None else self.transport.arithmetic_share

    @property
    def start_latency(self) -> float:
        return 0.0 if self.transport is None or self.domain_size < self.ranks else self.transport.node_latency

    def of_tiers(self, ranks: int, tiers: tuple[Tier, ...]) -> Self | None:
        return self._with(ranks=ranks, domain_size=tiers[0].size or 1)
