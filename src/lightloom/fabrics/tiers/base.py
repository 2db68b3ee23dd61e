"""What every fabric of tiers shares: links, paths, cuts, latencies and groups, all from its list of tiers."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Self

import numpy as np
from pydantic import model_validator

from lightloom.core.arrays import Floats, Ints
from lightloom.fabrics import derived
from lightloom.fabrics.base import Fabric
from lightloom.fabrics.capabilities import Axis
from lightloom.fabrics.derived import Ports
from lightloom.fabrics.footprint import Cut, Footprint
from lightloom.fabrics.packets import PacketFabric
from lightloom.fabrics.tiers import cuts, distances, groups, paths
from lightloom.fabrics.tiers.between import levels_of
from lightloom.fabrics.tiers.bill import tiers_bill
from lightloom.fabrics.tiers.filling import filled_tiers, filling
from lightloom.fabrics.tiers.level import Level
from lightloom.fabrics.tiers.reach import reached_tiers
from lightloom.fabrics.tiers.tier import Tier
from lightloom.parts.bill import Bill
from lightloom.parts.choices import BillChoices
from lightloom.parts.part import Kind
from lightloom.transports.ways import Tiers


class TieredFabric(PacketFabric):
    """Ranks that tiers join, the first tier neighbouring ranks, each further one the groups of the one before it."""

    @abstractmethod
    def tier_list(self) -> tuple[Tier, ...]:
        """The tiers, from the ranks outwards."""

    @model_validator(mode="after")
    def _tiers_hold_ranks(self) -> Self:
        _ = self.levels
        return self

    def library_tiers(self) -> Tiers | None:
        return reached_tiers(self.levels)

    @property
    def levels(self) -> tuple[Level, ...]:
        """The tiers between the fabric's ranks, innermost first."""
        return levels_of(self.ranks, self.tier_list(), self.hop_latency)

    @property
    def takes_hop_latency(self) -> bool:
        return any(level.tier.latency is None and level.size > 1 for level in self.levels)

    @property
    def node_ranks(self) -> int:
        return self.levels[0].group

    @property
    def joins_ranks(self) -> bool:  # type: ignore[override]
        """Whether the ranks are cells of grids or full meshes of their own."""
        return not self.levels[0].switched and self.levels[0].size > 1

    @property
    def filling(self) -> str | None:
        return filling(self.ranks, self.tier_list())

    @property
    def circuit_block(self) -> int | None:
        inside = 1
        for tier in self.tier_list():
            if tier.shape == "circuit-switch":
                return min(inside, self.ranks)
            if tier.children is None:
                return None
            inside *= tier.children
        return None

    @property
    def axes(self) -> tuple[Axis, ...]:
        return tuple(
            axis._replace(
                stride=axis.stride * level.child,
                tier=level.number - 1,
                ports=level.ports,
                in_network_reduction=level.tier.in_network_reduction,
            )
            for level in self.levels
            for axis in Axis.along(level.dims)
        )

    @property
    def stated_power_of(self) -> tuple[Kind, ...] | None:  # type: ignore[override]
        """Network cards where ranks reach switches over these."""
        return ("nic",) if any(level.switched for level in self.levels) else None

    def bill_of_parts(self, choices: BillChoices) -> Bill:
        bill = tiers_bill(self.ranks, self.levels, self.tier_list(), choices)
        notes = (*bill.notes, self.filling) if self.filling else bill.notes
        return replace(bill, kind=self.kind_name, notes=notes)

    @property
    def links(self) -> int:
        return sum(level.links for level in self.levels)

    def link_name(self, link: int) -> str:
        level = next(level for level in reversed(self.levels) if link >= level.base)
        return level.link_name(link - level.base)

    def link_bandwidth(self) -> Floats:
        classes = [alike for level in self.levels for alike in level.classes]
        rates = [self.data_rate(alike.bandwidth, ports=alike.ports) for alike in classes]
        return np.repeat(np.array(rates), [alike.links for alike in classes])

    def footprint(self, source: Ints, destination: Ints, route: Ints) -> Footprint:
        return paths.footprint(self.levels, source, destination)

    def path(self, source: Ints, destination: Ints, route: Ints) -> Ints:
        return paths.path(self.levels, source, destination)

    def link_latency(self) -> Floats:
        return np.repeat([level.latency for level in self.levels], [level.links for level in self.levels])

    def hops(self, source: Ints, destination: Ints, route: Ints) -> Ints:
        return paths.hops(self.levels, source, destination)

    def latency(self, source: Ints, destination: Ints, route: Ints) -> Floats:
        return paths.latency(self.levels, source, destination)

    def cuts(self) -> list[Cut]:
        return cuts.cuts(self.levels, self.data_rate)

    def rank_bandwidths(self) -> tuple[Floats, Floats]:
        return cuts.rank_bandwidths(self.levels, self.data_rate)

    def total_receive_bandwidth(self) -> float:
        return cuts.total_receive_bandwidth(self.levels, self.data_rate)

    def diameter(self) -> int:
        return distances.diameter(self.levels)

    def neighbour_latency(self) -> float:
        return distances.neighbour_latency(self.levels)

    def diameter_latency(self) -> float:
        seconds = distances.diameter_latency(self.levels)
        return derived.diameter_latency(self) if seconds is None else seconds

    def root_latency(self, *, to_root: bool) -> float:
        """Where no relay is quicker all ranks are alike, or rank 0 is in a corner."""
        seconds = distances.diameter_latency(self.levels)
        return derived.root_latency(self, to_root=to_root) if seconds is None else seconds

    def ports(self, source: Ints, destination: Ints) -> Ports | None:
        if self.joins_ranks:
            return None
        rates = groups.port_rates(self.levels, self.data_rate)
        if rates is None:
            return self._ports_by_links(source, destination)
        joining = paths.joining(self.levels, source, destination)
        return Ports(joining, joining, rates[joining])

    def _ports_by_links(self, source: Ints, destination: Ints) -> Ports | None:
        """Those of derived geometry; the children of an outermost switch are alike, so that three of them say all."""
        outermost, tiers = self.levels[-1], filled_tiers(self.ranks, self.tier_list())
        if not outermost.switched or outermost.size <= 3 or len(tiers) != len(self.levels):
            return derived.ports(self, source, destination)
        few = self.of_tiers(3 * outermost.child, (*tiers[:-1], tiers[-1].model_copy(update={"size": 3})))
        if few is None:
            return derived.ports(self, source, destination)
        leaves = outermost.leads_out(source, destination)
        ends = source % outermost.child, destination % outermost.child + leaves * outermost.child
        return derived.ports(few, *ends, parts=outermost.size)

    def group(self, ranks: int, stride: int = 1) -> Fabric | None:
        """The group as a fabric of tiers of its own, with its part of what it shares, where its ranks have a port
        each."""
        if self.ranks % (ranks * stride):
            return None
        tiers = groups.group_tiers(self.levels, ranks, stride)
        return super().group(ranks, stride) if tiers is None else self.of_tiers(ranks, tiers)

    @abstractmethod
    def of_tiers(self, ranks: int, tiers: tuple[Tier, ...]) -> Fabric | None:
        """This fabric with other ranks and tiers."""

    def ring_order(self) -> Ints:
        """Rank by rank, through the cells of each grid in a snake."""
        order = np.zeros(1, np.int64)
        for level in self.levels:
            places = level.lattice.snake() if level.is_grid else np.arange(level.size)
            order = (places[:, None] * level.child + order).ravel()
        return order
