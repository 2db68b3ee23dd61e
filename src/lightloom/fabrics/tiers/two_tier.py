"""Two tiers of switches: fast domains joined by a fat tree."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field

from lightloom.core.fields import Bandwidth, Count, Seconds
from lightloom.fabrics.tiers.base import TieredFabric
from lightloom.fabrics.tiers.tier import Tier

WireEfficiency = Annotated[float, Field(gt=0, le=1)]


class TwoTierSwitch(TieredFabric):
    """Domains of a few ranks on a fast switch, joined by a fat tree through one network port a rank.

    inside a domain    rank ──▶ [domain switch] ──▶ rank
    between domains    rank ──▶ its port ──▶ domain's share of the tree ══▶ tree ══▶ port ──▶ rank
    """

    kind: Literal["two-tier-switch"] = "two-tier-switch"
    domain_size: Count = 8
    """Ranks of a domain; where they do not divide ``ranks``, domains are filled evenly, at least by half."""
    domain_bandwidth: Bandwidth = 450e9
    """Bytes per second of a rank's domain port, per direction."""
    domain_wire_efficiency: WireEfficiency = 1.0
    """Part of that bandwidth that data reach."""
    domain_latency: Seconds = 0.0
    """Seconds for one link inside a domain."""
    bandwidth: Bandwidth = 50e9
    """Bytes per second of a rank's network port, per direction."""
    wire_efficiency: WireEfficiency = 1.0
    """Part of that bandwidth that data reach."""
    oversubscription: Annotated[float, Field(ge=1)] = 1.0
    """What a domain's ports could send over what the tree carries for them."""

    rate_fields: ClassVar[frozenset[str]] = frozenset(
        {
            "domain_bandwidth",
            "domain_wire_efficiency",
            "bandwidth",
            "wire_efficiency",
            "oversubscription",
            "energy_per_bit",
            "power_per_rank",
        }
    )

    def tier_list(self) -> tuple[Tier, ...]:
        """A switch of ranks, and a tapered switch of domains that each rank reaches through a port of its own."""
        domain = Tier(
            name="domain",
            shape="switch",
            size=self.domain_size,
            bandwidth=self.domain_bandwidth,
            wire_efficiency=self.domain_wire_efficiency,
            latency=self.domain_latency,
        )
        network = Tier(
            name="network",
            shape="switch",
            bandwidth=self.bandwidth,
            wire_efficiency=self.wire_efficiency,
            taper=self.oversubscription,
        )
        return domain, network

    def as_carried(self) -> Self:
        if self.transport is None:
            return self
        scales = self.transport.scales
        rates = {
            "domain_bandwidth": scales.bandwidth * self.domain_bandwidth,
            "bandwidth": scales.network_bandwidth * self.bandwidth,
        }
        return self.model_copy(update={"transport": None, **rates})

    def of_tiers(self, ranks: int, tiers: tuple[Tier, ...]) -> Self | None:
        return self._with(ranks=ranks, domain_size=tiers[0].size or 1)
