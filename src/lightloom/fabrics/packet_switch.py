"""Electrical packet switches: one non-blocking switch, and two tiers (fast domains joined by a fat tree)."""

from __future__ import annotations

from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from lightloom.core.arrays import Floats, Ints
from lightloom.core.fields import Bandwidth, Count, Seconds
from lightloom.fabrics.base import Cut, Fabric
from lightloom.fabrics.derived import Ports
from lightloom.fabrics.footprint import Footprint
from lightloom.fabrics.packets import PacketFabric
from lightloom.fabrics.star import StarGeometry


class PacketSwitch(StarGeometry, PacketFabric):
    """A star: every rank has one full-duplex port on a non-blocking switch.

    rank i ──up i──▶ [switch] ──down j──▶ rank j
    """

    kind: Literal["switch"] = "switch"
    bandwidth: Bandwidth = 50e9
    """Bytes per second of a port, per direction."""

    def link_bandwidth(self) -> Floats:
        return np.full(self.links, self.data_rate(self.bandwidth))


class TwoTierSwitch(PacketFabric):
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

    @model_validator(mode="after")
    def _domains_fill_ranks(self) -> Self:
        if self.ranks % self.domain_size:
            raise ValueError(f"domain_size={self.domain_size} does not divide ranks={self.ranks}: expected a divisor")
        return self

    @property
    def node_ranks(self) -> int:
        return self.domain_size

    @property
    def _domains(self) -> int:
        return self.ranks // self.domain_size

    @property
    def _inside(self) -> float:
        return self.data_rate(self.domain_bandwidth)

    @property
    def _across(self) -> float:
        return self.data_rate(self.bandwidth)

    @property
    def _tree(self) -> float:
        return self.data_rate(self.domain_size * self.bandwidth / self.oversubscription, ports=self.domain_size)

    @property
    def links(self) -> int:
        return 4 * self.ranks + 2 * self._domains

    def link_name(self, link: int) -> str:
        group, rank = divmod(link, self.ranks)
        if group < 4:
            return f"{('domain uplink', 'domain downlink', 'network uplink', 'network downlink')[group]} of rank {rank}"
        way, domain = divmod(link - 4 * self.ranks, self._domains)
        return f"tree {('uplink', 'downlink')[way]} of domain {domain}"

    def link_bandwidth(self) -> Floats:
        n, domains = self.ranks, self._domains
        return np.repeat([self._inside, self._across, self._tree], [2 * n, 2 * n, 2 * domains])

    def footprint(self, source: Ints, destination: Ints, route: Ints) -> Footprint:
        n, domains = self.ranks, self._domains
        origin, target = np.asarray(source) // self.domain_size, np.asarray(destination) // self.domain_size
        inside, across = (origin == target).astype(np.int64), (origin != target).astype(np.int64)
        return Footprint.of(
            [
                (np.where(inside, 0, 2 * n), source, 1, n),
                (np.where(inside, n, 3 * n), destination, 1, n),
                (4 * n, origin, across, domains),
                (4 * n + domains, target, across, domains),
            ]
        )

    def latency(self, source: Ints, destination: Ints, route: Ints) -> Floats:
        inside = np.asarray(source) // self.domain_size == np.asarray(destination) // self.domain_size
        return np.where(inside, 2 * self.domain_latency, 4 * self.hop_latency)

    def cuts(self) -> list[Cut]:
        alone = self._domains == 1
        inside, across = (self.domain_size > 1) * self._inside, (not alone) * self._across
        cuts = [Cut("what one rank's ports can receive", 1, inside + across)]
        if not alone:
            cuts.append(Cut("the tree links into one domain", self.domain_size, self._tree))
        return cuts

    def total_receive_bandwidth(self) -> float:
        return self.ranks * self.cuts()[0].capacity

    def group(self, ranks: int, stride: int = 1) -> Fabric | None:
        """Ranks that begin at a multiple of ``ranks · stride``: as many in a domain as fall into one, with their ports
        and their part of the tree."""
        if self.ranks % (ranks * stride):
            return None
        if self.domain_size % (ranks * stride) == 0:
            inside = ranks
        elif stride % self.domain_size == 0:
            inside = 1
        elif self.domain_size % stride == 0 and ranks * stride % self.domain_size == 0:
            inside = self.domain_size // stride
        else:
            return super().group(ranks, stride)
        return self._with(ranks=ranks, domain_size=inside)

    def ports(self, source: Ints, destination: Ints) -> Ports | None:
        """A rank has a port into its domain and one into the tree, whose link all ports of a domain divide."""
        across = source // self.domain_size != destination // self.domain_size
        rate = np.where(across, min(self._across, self._tree / self.domain_size), self._inside)
        return Ports(across.astype(np.int64), rate)

    def diameter(self) -> int:
        return 2 if self._domains == 1 else 4

    def diameter_latency(self) -> float:
        inside, across = 2 * self.domain_latency, 4 * self.hop_latency
        if self._domains == 1:
            return inside
        # Two transfers between domains may be quicker than one inside.
        return across if self.domain_size == 1 else max(across, min(inside, 2 * across))

    def neighbour_latency(self) -> float:
        inside, across = 2 * self.domain_latency, 4 * self.hop_latency
        if self.domain_size == 1:
            return across
        return inside if self._domains == 1 else min(inside, across)
