"""Fabrics whose file lists their tiers."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field

from lightloom.fabrics.tiers.base import TieredFabric
from lightloom.fabrics.tiers.reach import joins_domains
from lightloom.fabrics.tiers.tier import Tier


class Tiers(TieredFabric):
    """Tiers around each other: what joins neighbouring ranks, what joins such groups, and so on."""

    kind: Literal["tiers"] = "tiers"
    tiers: Annotated[tuple[Tier, ...], Field(min_length=1)]
    """The tiers, from the ranks outwards."""

    rate_fields: ClassVar[frozenset[str]] = frozenset(
        {"bandwidth", "wire_efficiency", "energy_per_bit", "power_per_rank"}
    )

    def tier_list(self) -> tuple[Tier, ...]:
        return self.tiers

    def as_carried(self) -> Self:
        if self.transport is None:
            return self
        scales = self.transport.scales
        innermost = scales.bandwidth if joins_domains(self.tiers) else scales.network_bandwidth
        factors = [innermost, *[scales.network_bandwidth] * (len(self.tiers) - 1)]
        tiers = tuple(tier.faster(factor) for tier, factor in zip(self.tiers, factors, strict=True))
        return self.model_copy(update={"transport": None, "tiers": tiers})

    def with_hop_latency(self, seconds: float) -> Self:
        kept = 1 if len(self.levels) > 1 else 0
        tiers = [*self.tiers[:kept], *(tier.model_copy(update={"latency": None}) for tier in self.tiers[kept:])]
        return self.model_copy(update={"hop_latency": seconds, "tiers": tuple(tiers)})

    def of_tiers(self, ranks: int, tiers: tuple[Tier, ...]) -> Self:
        fields = {name: getattr(self, name) for name in type(self).model_fields if name not in ("ranks", "tiers")}
        return type(self)(ranks=ranks, tiers=tiers, **fields)
