"""Fabrics whose file lists their tiers."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from lightloom.core.errors import LightloomError
from lightloom.fabrics.tiers.base import TieredFabric
from lightloom.fabrics.tiers.reach import reached_tiers
from lightloom.fabrics.tiers.tier import Tier
from lightloom.fabrics.transport import LibraryWays
from lightloom.transports.load import load_transport


class Tiers(TieredFabric):
    """Tiers around each other: what joins neighbouring ranks, what joins such groups, and so on."""

    kind: Literal["tiers"] = "tiers"
    tiers: Annotated[tuple[Tier, ...], Field(min_length=1)]
    """The tiers, from the ranks outwards."""
    transport: str | None = None
    """A transport with protocols, of the catalog (``nccl-hopper``) or a YAML file: what a collective library adds; null
    or ``ideal`` where software costs nothing."""

    @model_validator(mode="after")
    def _transport_is_known(self) -> Self:
        if self.transport is None:
            return self
        try:
            load_transport(self.transport)
        except LightloomError as error:
            raise ValueError(f"transport: {error}") from error
        if reached_tiers(self.tiers, self.ranks) is None:
            raise ValueError(f"transport {self.transport!r} needs tiers of switches: expected no other shape")
        return self

    @property
    def library(self) -> LibraryWays | None:
        transport = None if self.transport is None else load_transport(self.transport)
        tiers = reached_tiers(self.tiers, self.ranks)
        return None if transport is None or transport.ideal or tiers is None else LibraryWays(tiers, transport)

    def tier_list(self) -> tuple[Tier, ...]:
        return self.tiers

    def with_hop_latency(self, seconds: float) -> Self:
        kept = 1 if len(self.levels) > 1 else 0
        tiers = [*self.tiers[:kept], *(tier.model_copy(update={"latency": None}) for tier in self.tiers[kept:])]
        return self.model_copy(update={"hop_latency": seconds, "tiers": tuple(tiers)})

    def of_tiers(self, ranks: int, tiers: tuple[Tier, ...]) -> Self:
        fields = {name: getattr(self, name) for name in type(self).model_fields if name not in ("ranks", "tiers")}
        return type(self)(ranks=ranks, tiers=tiers, **fields)
