"""Fabrics whose file lists their tiers."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from lightloom.core.arrays import Floats, Ints
from lightloom.core.fields import Bandwidth, Count, Seconds
from lightloom.machines.fabrics import derived
from lightloom.machines.fabrics.bills.grids import Grid, grid_bill
from lightloom.machines.fabrics.bills.links import (
    RATES,
    cables,
    ends_of,
    ports_for,
)
from lightloom.machines.fabrics.bills.switches import network
from lightloom.machines.fabrics.derived import Cut, Footprint, Ports
from lightloom.machines.fabrics.fabric import Axis, Fabric
from lightloom.machines.fabrics.packets import PacketFabric
from lightloom.machines.fabrics.tiers import (
    links as cuts,
)
from lightloom.machines.fabrics.tiers import (
    links as distances,
)
from lightloom.machines.fabrics.tiers import (
    links as groups,
)
from lightloom.machines.fabrics.tiers import (
    links as paths,
)
from lightloom.machines.fabrics.tiers.tier import Level, Tier, filled_tiers, filling, levels_of
from lightloom.machines.parts.bill import Bill, BillChoices, Line
from lightloom.machines.parts.part import Kind, load_part
from lightloom.machines.transports.ways import Tiers as WaysTiers

# The bill of a fabric of tiers, tier by tier.
#
# The first tier is a node's own network where nothing leads on through its switch and it is faster than any port of
# the catalog, or where other tiers follow: it takes node links, of which nobody publishes a price or a power. All
# other tiers take cards or uplinks, switches and optical links; grids take links between neighbours.

_FASTEST = RATES[-1] * 0.125e9


def tiers_bill(ranks: int, levels: Sequence[Level], tiers: Sequence[Tier], choices: BillChoices) -> Bill:
    """Return the bill of the levels between ``ranks``, which the tiers of the fabric's file make."""
    bills = [
        _level_bill(level, levels, _blocks(level, tiers), choices) for level in levels if level.size > 1 or ranks == 1
    ]
    total = sum(bills[1:], bills[0]) if bills else Bill(ranks)
    return Bill(ranks, total.lines, total.missing, total.notes, total.bandwidth, kind="tiers")


def _level_bill(level: Level, levels: Sequence[Level], blocks: tuple[int, ...] | None, choices: BillChoices) -> Bill:
    if not level.switched:
        return _direct_bill(level, blocks, choices)
    passed = any(level in other.chain for other in levels)
    own = level.ports / level.child * level.tier.bandwidth
    if level.number == 1 and not passed and (len(levels) > 1 or own > _FASTEST):
        return _node_bill(level, own)
    return _network_bill(level, choices)


def _node_bill(level: Level, bandwidth: float) -> Bill:
    """Return the links of a rank inside its node; each gigabyte a second counts as one part."""
    count = bandwidth / 1e9
    why = f"{level.ports / level.child:.4g} ports a rank x {level.tier.bandwidth / 1e9:.4g} GB/s of {_label(level)}"
    return Bill(level.ranks, (Line(load_part("node-link"), count, why),), bandwidth=bandwidth)


def _network_bill(level: Level, choices: BillChoices) -> Bill:
    """Return the switches of a tier, what leads to them, and the tree behind them."""
    ports = ports_for(level.tier.bandwidth, choices)
    per_rank = _ports_of_a_rank(level)
    joined = round(per_rank * level.group / (level.planes if level.tier.separate_rails else 1))
    if level.beneath is not None:
        # Uplinks of a switch lead to as many others beside each other: each of these joins the children once.
        joined = level.size
    below = choices.host_links if level.beneath is None else None
    taper = level.tier.taper or 1.0
    # What a fabric calls a tree has leaves and spines, however few its ports are.
    least = 2 if level.tree else 1
    lines, tree = network(ports, per_rank, max(joined, 2), choices, taper=taper, least=least, below=below)
    flat = tree.tiers > least and not level.tree and level.beneath is None
    note = f"{_label(level)}: no switch has {joined:,} ports: {tree.text(joined)}, without oversubscription"
    rate = per_rank * level.tier.bandwidth if level.beneath is None else 0.0
    return Bill(level.ranks, tuple(lines), notes=(note,) if flat else (), bandwidth=rate)


def _ports_of_a_rank(level: Level) -> float:
    """Ports are a child's where ranks have them, and a switch's where they are those of the switches beneath."""
    return level.ports * (1 if level.beneath is None else level.planes) / level.child


def _direct_bill(level: Level, blocks: tuple[int, ...] | None, choices: BillChoices) -> Bill:
    """Return the links between neighbours of a grid or a full mesh."""
    of_switches = level.beneath is not None
    copies = _ports_of_a_rank(level) if level.tier.ports is not None else 1.0
    if level.is_grid:
        grid = Grid(
            ranks=level.ranks,
            dims=level.dims,
            wraps=level.tier.shape != "mesh",
            bandwidth=level.tier.bandwidth,
            block=blocks,
            switched=blocks is not None,
            copies=copies,
            kind=level.tier.shape,
            of_switches=of_switches,
        )
        return grid_bill(grid, choices)
    ports = ports_for(level.tier.bandwidth, choices)
    ends = copies * (level.size - 1)
    why = f"{level.size - 1} links of every port of {_label(level)}"
    lines, notes = ends_of(ports, ends * ports.number, why, of_switches, choices)
    lines += cables(ports, ends / 2 * ports.number, why, choices.grid_links, choices)
    sent = 0.0 if of_switches else ends * level.tier.bandwidth
    return Bill(level.ranks, tuple(lines), notes=tuple(notes), bandwidth=sent)


def _blocks(level: Level, tiers: Sequence[Tier]) -> tuple[int, ...] | None:
    """Return the sizes of the blocks that circuit switches join into this level; None where there are none."""
    if level.switched or not level.is_grid:
        return None
    if level.tier.shape == "circuit-switch":
        return tuple(1 for _ in level.dims)
    circuits = [place for place, tier in enumerate(tiers) if tier.shape == "circuit-switch" and place]
    joined = next((tiers[place - 1] for place in circuits if tiers[place - 1].shape in ("torus", "mesh")), None)
    if joined is None or joined.children is None or level.tier.name != joined.name:
        return None
    block = joined.sizes(joined.children)
    return block if len(block) == len(level.dims) else None


def _label(level: Level) -> str:
    return level.tier.name or f"tier {level.number}"


# Two tiers as a transport sees them: the innermost as the domain, the slowest of the others as the network.
#
# Where the second tier leaves from the switches of the first, as the spines of a fat tree do, these are switches of
# the network: every rank is then a domain of its own.


def joins_domains(tiers: Sequence[Tier]) -> bool:
    """Return whether the innermost tier joins the ranks of a domain, and is no part of the network between domains."""
    return len(tiers) == 1 or not tiers[1].through_switch


def reached_tiers(levels: Sequence[Level]) -> WaysTiers | None:
    """Return the domain and what a rank's part of the slowest network tier carries; None where not all are switches."""
    if any(not level.switched for level in levels):
        return None
    domain = levels[0]
    joins = joins_domains([level.tier for level in levels])
    network = min((_rate(level) for level in levels[joins:]), default=math.inf)
    return WaysTiers(domain.group if joins else 1, _rate(domain), network, domain.tier.in_network_reduction)


def _rate(level: Level) -> float:
    """Bytes per second of one rank over a tier's switches while all ranks send: of its ports, or of the tree behind."""
    return min(alike.bandwidth * (alike.links / (2 * level.ranks)) for alike in level.classes)


# What every fabric of tiers shares: links, paths, cuts, latencies and groups, all from its list of tiers.


class TieredFabric(PacketFabric):
    """Ranks that tiers join, the first tier neighbouring ranks, each further one the groups of the one before it."""

    @abstractmethod
    def tier_list(self) -> tuple[Tier, ...]:
        """The tiers, from the ranks outwards."""

    @model_validator(mode="after")
    def _tiers_hold_ranks(self) -> Self:
        _ = self.levels
        return self

    def library_tiers(self) -> WaysTiers | None:
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
        """True if the ranks are cells of grids or full meshes of their own."""
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


# Two tiers of switches: fast domains joined by a fat tree.

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
    """Ratio of the bytes per second that a domain's ports can send to those that the tree carries for them."""

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
