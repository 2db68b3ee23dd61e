"""Fabrics of tiers: what joins neighbouring ranks, what joins such groups, and so on outwards.

A transfer takes the tier that joins its ends. Where that tier's rails are separate, the transfer first crosses the
tiers beneath, to the rank of its own child that is on the rail of the destination:

    source ──▶ [domain] ──▶ gateway ──▶ [rail of the destination] ──▶ destination
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Annotated, ClassVar, Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from lightloom.core.arrays import Floats, Ints, Mask
from lightloom.machines.fabrics import derived
from lightloom.machines.fabrics.derived import Cut, Footprint, Ports, ordered_links
from lightloom.machines.fabrics.fabric import Axis, Fabric
from lightloom.machines.fabrics.lattice import LinkRun
from lightloom.machines.fabrics.packets import PacketFabric
from lightloom.machines.fabrics.tiers.tier import Level, LinkClass, Tier, filled_tiers, levels_of
from lightloom.machines.parts.bill import Bill, BillChoices
from lightloom.machines.parts.part import Kind
from lightloom.machines.transports.transport import Scales
from lightloom.machines.transports.ways import Tiers as LibraryTiers


class Reach(NamedTuple):
    """Distances of the transfers that one tier joins."""

    nearest: float
    """Seconds of the quickest transfer, which needs no tier beneath."""
    farthest: float
    """Seconds of the slowest transfer, with its way through the tiers beneath."""
    links: int
    """Number of links of the longest transfer."""


class Tiers(PacketFabric):
    """Tiers around each other: what joins neighbouring ranks, what joins such groups, and so on."""

    kind: Literal["tiers"] = "tiers"
    tiered: ClassVar[bool] = True
    tiers: Annotated[tuple[Tier, ...], Field(min_length=1)]
    """The tiers, from the ranks outwards."""

    rate_fields: ClassVar[frozenset[str]] = frozenset(
        {"bandwidth", "wire_efficiency", "taper", "energy_per_bit", "power_per_rank"}
    )

    @model_validator(mode="after")
    def _tiers_hold_ranks(self) -> Self:
        """Raise ValueError where the tiers cannot hold the ranks (sizes that do not multiply to them, ports that cannot
        be spread evenly and the like, :func:`levels_of`); otherwise return the fabric unchanged."""
        _ = self.levels
        return self

    def library_tiers(self) -> LibraryTiers | None:
        """Return the two tiers that closed forms of a collective library see: as the domain the innermost tier, with
        the ranks and the bytes of data per second of a rank there and whether its switches add; as the network the
        least bytes of data per second of a rank over any other tier, infinite where there is none. The memory bandwidth
        is left None. The result is None where some tier is not a switch.

        Where the second tier leaves from the first one's switches, every rank is a domain of its own and all tiers are
        network.
        """
        if any(not level.switched for level in self.levels):
            return None
        domain = self.levels[0]
        joins = joins_domains([level.tier for level in self.levels])
        network = min((_rate(level) for level in self.levels[joins:]), default=math.inf)
        return LibraryTiers(domain.group if joins else 1, _rate(domain), network, domain.tier.in_network_reduction)

    @property
    def levels(self) -> tuple[Level, ...]:
        """The tiers between the fabric's ranks, innermost first."""
        return levels_of(self.ranks, self.tiers, self.hop_latency)

    @property
    def takes_hop_latency(self) -> bool:
        """True if some tier of several children states no latency of its own."""
        return any(level.tier.latency is None and level.size > 1 for level in self.levels)

    @property
    def node_ranks(self) -> int:
        """Return the ranks that the innermost tier joins."""
        return self.levels[0].group

    @property
    def joins_ranks(self) -> bool:  # type: ignore[override]
        """True if the ranks are cells of grids or full meshes of their own: the innermost tier has several children and
        no switch."""
        return not self.levels[0].switched and self.levels[0].size > 1

    @property
    def filling(self) -> str | None:
        """Return a phrase for display that names the domains that ranks fill only in part, and how many ranks stay
        idle, such as ``4 domains of NVLink hold 64 of 72 ranks each; the 32 idle ones are not counted``; None where all
        domains are full."""
        words, child, whole, idle = [], 1, 1, 0
        for tier, filled in zip(self.tiers, filled_tiers(self.ranks, self.tiers), strict=True):
            child, whole = child * (filled.children or 1), whole * (tier.children or 1)
            if filled.children != tier.children:
                domains = self.ranks // child
                words.append(f"{domains} domains of {tier.name or tier.shape} hold {child} of {whole} ranks each")
                idle = domains * whole - self.ranks
        return f"{', '.join(words)}; the {idle:,} idle ones are not counted" if words else None

    @property
    def circuit_block(self) -> int | None:
        """Return the number of ranks of one block that the innermost tier of circuit switches joins: the product of the
        stated sizes of the tiers beneath it, 1 where there are none, and at most the number of ranks; None without such
        a tier, or where a tier beneath states no size."""
        inside = 1
        for tier in self.tiers:
            if tier.shape == "circuit-switch":
                return min(inside, self.ranks)
            if tier.children is None:
                return None
            inside *= tier.children
        return None

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Return an axis for each dimension of several children of each tier, the innermost tier and in it the last
        dimension first, with the tier's place from 0, the ports of a child into it, and True where its switches
        reduce."""
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
        """Kinds of part whose watts ``power_per_rank`` states: network cards (``nic``) where some tier is switched;
        otherwise None, all parts."""
        return ("nic",) if any(level.switched for level in self.levels) else None

    def bill_of_parts(self, choices: BillChoices) -> Bill:
        """Return the bill of every tier, per rank, with a note on domains that ranks fill in part."""
        from lightloom.machines.fabrics.tiers.bill import tiers_bill

        bill = tiers_bill(self.ranks, self.levels, self.tiers, choices)
        return replace(bill, kind=self.kind_name, notes=(*bill.notes, self.filling) if self.filling else bill.notes)

    def ring_order(self) -> Ints:
        """Return the ranks in an order from rank 0 on that finishes each group before the next and takes the children
        of each grid in a snake: [place]."""
        order = np.zeros(1, np.int64)
        for level in self.levels:
            places = level.lattice.snake() if level.is_grid else np.arange(level.size)
            order = (places[:, None] * level.child + order).ravel()
        return order

    # Links, and the ways of transfers over them

    @property
    def links(self) -> int:
        """Return the number of directed links of all levels, those that are numbered but that the open lines of meshes
        do not use included."""
        return sum(level.links for level in self.levels)

    def link_name(self, link: int) -> str:
        """Return the name of a link, numbered over all tiers, the innermost first; it begins with the tier's name."""
        level = next(level for level in reversed(self.levels) if link >= level.base)
        return level.link_name(link - level.base)

    def link_bandwidth(self) -> Floats:
        """Return the bytes of data per second of each link, tier by tier, headers of packets left out: [link]."""
        classes = [alike for level in self.levels for alike in level.classes]
        return np.repeat(np.array([self._rate(alike) for alike in classes]), [alike.links for alike in classes])

    def _rate(self, alike: LinkClass) -> float:
        """Return the bytes of data per second through a link of a class, headers of its ports' packets left out."""
        return self.data_rate(alike.bandwidth, ports=alike.ports)

    def link_latency(self) -> Floats:
        """Return the seconds of each link, its tier's or else ``hop_latency``: [link]."""
        return np.repeat([level.latency for level in self.levels], [level.links for level in self.levels])

    def crossings(self, source: Ints, destination: Ints) -> Iterator[tuple[Level, Mask, Ints, Ints]]:
        """Yield, for each level, outermost first: the level, a mask of the transfers that cross it, and the ranks from
        which and to which each transfer crosses it, [transfer] each, of meaning only where the mask is true.

        Where a transfer crosses a level, the rank from which it does is the target on the levels beneath.
        """
        source, target = np.asarray(source, np.int64), np.asarray(destination, np.int64)
        for level in reversed(self.levels):
            crosses = level.leads_out(source, target)
            gateway = level.gateway(source, target)
            yield level, crosses, gateway, target
            target = np.where(crosses, gateway, target)

    def footprint(self, source: Ints, destination: Ints, route: Ints) -> Footprint:
        """Return the links that each transfer occupies in all levels that it crosses, whatever ``route``, as runs of
        consecutive links. Levels of which a transfer crosses at most one share columns of runs; runs that a transfer
        lacks are empty."""
        runs: list[tuple[int, Mask, LinkRun]] = []
        first = count = 0
        for level, crosses, gateway, target in self.crossings(source, destination):
            if crosses.any():
                runs += [(number, crosses, run) for number, (run, _) in enumerate(level.runs(gateway, target), first)]
                count = max(count, runs[-1][0] + 1)
            if not level.joined:
                first = count
        columns = np.zeros((4, len(np.asarray(source)), max(count, 1)), np.int64)
        columns[3] = 1
        for number, crosses, run in runs:
            everywhere = bool(crosses.all())
            for column, part in zip(columns[..., number], run[:4], strict=True):
                if everywhere:
                    column[:] = part
                else:
                    np.copyto(column, np.asarray(part), where=crosses)
        return Footprint(*columns)

    def path(self, source: Ints, destination: Ints, route: Ints) -> Ints:
        """Return the links of each transfer in the order in which it crosses them, inner tiers first, −1 filling up:
        [transfer, place]; ``route`` is not used."""
        runs, backward = [], []
        for level, crosses, gateway, target in reversed(list(self.crossings(source, destination))):
            if crosses.any():
                for run in level.ordered_runs(gateway, target):
                    runs.append((run.base, run.start, np.where(crosses, run.length, 0), run.period))
                    backward.append(run.backward)
        return ordered_links(runs, backward) if runs else np.full((len(np.asarray(source)), 1), -1)

    def latency(self, source: Ints, destination: Ints, route: Ints) -> Floats:
        """Return the seconds of all links that each transfer crosses, those to the rank on its destination's rail
        included: [transfer]; ``route`` is not used."""
        total = np.zeros(np.broadcast_shapes(np.shape(source), np.shape(destination)))
        for level, crosses, gateway, target in self.crossings(source, destination):
            for run, seconds in level.runs(gateway, target) if crosses.any() else ():
                if seconds:
                    total += seconds * np.where(crosses, run.length, 0)
        return total

    # Bytes per second into ranks, and into groups of ranks

    @property
    def _used_levels(self) -> list[Level]:
        """Return the levels whose ports some transfer takes, innermost first: those of several children, and those
        through whose switches the ports of such a level lead."""
        leads = {level.number for level in self.levels if level.size > 1}
        through = {beneath.number for level in self.levels if level.number in leads for beneath in level.chain}
        return [level for level in self.levels if level.number in leads | through]

    def _entering(self, level: Level, ranks: int) -> float:
        """Return the bytes of data per second that can enter ``ranks`` neighbouring ranks, a child of the level or a
        part of one, through the links of one level.

        Neighbours that share a port with others have all of its rate. In grids every rank counts as many links as a
        child that has fewest, such as the corner of a mesh.
        """
        ports, *tree = level.classes
        if tree and ranks == level.child:
            return self._rate(tree[0])
        seats = level.planes if level.beneath is not None else -(-ranks // level.sharing)
        degree = 1 if level.switched else level.lattice.smallest_degree if level.is_grid else level.size - 1
        return seats * degree * self._rate(ports)

    def _from_outside(self, inside: int, ranks: int) -> float:
        """Return the bytes of data per second that can enter ``ranks`` neighbouring ranks through levels beyond the
        ``inside`` innermost ones; uplinks of switches count once, where they leave the group."""
        return sum(
            self._entering(level, ranks)
            for level in self._used_levels
            if level.number > inside and (level.beneath is None or level.number == inside + 1)
        )

    def cuts(self) -> list[Cut]:
        """Return the cuts around one rank, around the group of ranks that each level but the outermost joins, and
        through the middle of each dimension of grids and of full meshes."""
        levels, own = self.levels, [level for level in self._used_levels if level.beneath is None]
        name = "what one rank's ports can receive"
        if len(own) == 1 and not own[0].switched:
            name = f"what {'a corner' if levels[0].tier.shape == 'mesh' else 'one'} rank can receive"
        result = [Cut(name, 1, self._from_outside(0, 1))]
        for level in levels[:-1]:
            if 1 < level.group < level.ranks:
                tree = level.number == 1 and levels[1].tree
                name = "the tree links into one domain" if tree else f"the links into one group of {level.group} ranks"
                capacity = self._from_outside(level.number, level.group)
                result.append(Cut(name, level.group, capacity, level.ranks // level.group))
        for level in levels:
            if not level.switched and level.size > 1:
                result += self._halves(level)
        return result

    def _halves(self, level: Level) -> Iterator[Cut]:
        """Yield cuts through the middle of a level without a switch, one for each dimension of a grid, otherwise one:
        what its links carry into one half, and what enters that half from outer levels."""
        share = self._rate(level.classes[0])
        label = level.tier.name or level.tier.shape
        half = level.size // 2
        parts = [(f"the links into one half of the {label}", half, half * (level.size - half))]
        if level.is_grid:
            parts = [
                (f"the links into one half of dimension {axis + 1} of the {label}", inside, links)
                for axis, inside, links in level.lattice.halves()
            ]
        for name, inside, links in parts:
            ranks = inside * level.child
            yield Cut(name, ranks, links * level.planes * share + self._from_outside(level.number, ranks))

    def rank_bandwidths(self) -> tuple[Floats, Floats]:
        """Return the bytes of data per second that no rank exceeds in receiving, and in sending, over its ports into
        all tiers together, in grids over the links that transfers use; a port that ranks share counts in full for each:
        two arrays, [rank]."""
        ranks = np.arange(self.ranks)
        both = np.zeros((2, len(ranks)))
        for level in (level for level in self._used_levels if level.beneath is None):
            share = self._rate(level.classes[0])
            if level.is_grid:
                both += share * np.array(level.lattice.degrees())[:, ranks // level.child % level.size]
            else:
                both += share * (1 if level.switched else level.size - 1)
        return both[0], both[1]

    def total_receive_bandwidth(self) -> float:
        """Return the bytes of data per second that all ranks together can receive over their ports; a port that ranks
        share counts once."""
        total = 0.0
        for level in (level for level in self._used_levels if level.beneath is None):
            share = self._rate(level.classes[0])
            if level.switched:
                total += level.seats * share
            else:
                degree = level.lattice.total_degree if level.is_grid else level.size * (level.size - 1)
                total += level.ranks // level.group * level.planes * degree * share
        return total

    # Distances: every tier but an open mesh looks alike from all of its children, so that the farthest and the nearest
    # transfer of a fabric are those of its tiers, one by one.

    def reaches(self) -> list[Reach]:
        """Return, for each tier of several children, innermost first, the seconds of the quickest transfer that it
        joins (``nearest``) and of the slowest (``farthest``, with its way through the tiers beneath), and the number of
        links of the longest (``links``)."""
        reaches: list[Reach] = []
        within = {1: Reach(0.0, 0.0, 0)}
        for level in (level for level in self.levels if level.size > 1):
            passed = [(2 + 2 * beneath.tree, beneath.latency) for beneath in level.chain]
            through, over = sum(count * latency for count, latency in passed), sum(count for count, _ in passed)
            if level.is_grid:
                near, far = 1, level.lattice.diameter
            else:
                near = far = 2 + 2 * level.tree if level.switched else 1
            # On separate rails a transfer first goes to the rank of its own child on the rail of the destination.
            first = within[level.root.child] if not level.joined and level.planes > 1 else within[1]
            farthest = through + far * level.latency + first.farthest
            reaches.append(Reach(through + near * level.latency, farthest, over + far + first.links))
            nearest, slowest, links = zip(*reaches, strict=True)
            within[level.group] = Reach(min(nearest), max(slowest), max(links))
        return reaches

    def diameter(self) -> int:
        """Return the links of the longest transfer of any tier; 0 of one rank."""
        return max((reach.links for reach in self.reaches()), default=0)

    def neighbour_latency(self) -> float:
        """Return the seconds of the quickest transfer of any tier; 0 of one rank."""
        return min((reach.nearest for reach in self.reaches()), default=0.0)

    @property
    def _relays_help(self) -> bool:
        """True if relaying over an outer tier, forward and back, may be quicker than the slowest transfer of an inner
        one: if twice the quickest transfer that some outer tier joins takes less."""
        return any(inner.farthest > 2 * outer.nearest for inner, outer in combinations(self.reaches(), 2))

    def diameter_latency(self) -> float:
        """Return the seconds of the slowest transfer between two ranks; where relaying over an outer tier may be
        quicker, the longest of the quickest ways, relays included."""
        if self._relays_help:
            return derived.diameter_latency(self)
        return max((reach.farthest for reach in self.reaches()), default=0.0)

    def root_latency(self, *, to_root: bool) -> float:
        """Return the seconds between rank 0 and the rank farthest from it, towards rank 0 with ``to_root``: those of
        the farthest pair, as ranks are alike or rank 0 is in a corner; found over relays where these may be quicker."""
        return derived.root_latency(self, to_root=to_root) if self._relays_help else self.diameter_latency()

    # Ports of ranks, and groups of ranks at a stride as fabrics of tiers

    def ports(self, source: Ints, destination: Ints) -> Ports | None:
        """Return the ports of source and destination and the bytes per second of each transfer while all ports are
        busy, [transfer] each; None where ranks are joined without switches, or some rank has no link to itself.

        Where each rank has ports of its own into every tier, a port's number is that of the tier that joins the
        transfer's ends, from 0 for the innermost; otherwise ports are found from the links that transfers occupy.
        """
        if self.joins_ranks:
            return None
        if any(not level.joined or level.sharing > 1 or level.beneath is not None for level in self.levels):
            return self._ports_by_links(source, destination)
        tier = np.zeros(np.broadcast_shapes(np.shape(source), np.shape(destination)), np.int64)
        rates = np.empty(len(self.levels))
        for number, level in enumerate(self.levels):
            tier[level.leads_out(source, destination)] = number
            ports, *tree = level.classes
            rates[number] = min([self._rate(ports), *(self._rate(links) / level.child for links in tree)])
        return Ports(tier, tier, rates[tier])

    def _ports_by_links(self, source: Ints, destination: Ints) -> Ports | None:
        """Return the ports and rates of transfers, [transfer] each, found from the links that they occupy; None where
        some rank has no link to itself.

        The children of an outermost switch are alike, so that a fabric of three of them is searched in place of one of
        more.
        """
        outermost, tiers = self.levels[-1], filled_tiers(self.ranks, self.tiers)
        if not outermost.switched or outermost.size <= 3 or len(tiers) != len(self.levels):
            return derived.ports(self, source, destination)
        few = self.of_tiers(3 * outermost.child, (*tiers[:-1], tiers[-1].model_copy(update={"size": 3})))
        leaves = outermost.leads_out(source, destination)
        ends = source % outermost.child, destination % outermost.child + leaves * outermost.child
        return derived.ports(few, *ends, parts=outermost.size)

    def group(self, ranks: int, stride: int = 1) -> Fabric | None:
        """Return a group of ``ranks`` ranks, each ``stride`` from the next, as a fabric of tiers with its part of what
        it shares with its siblings; as a :class:`GroupFabric` where the group is no fabric of tiers, and None where the
        groups do not tile the ranks."""
        if self.ranks % (ranks * stride):
            return None
        tiers = _group_tiers(self.levels, ranks, stride)
        return super().group(ranks, stride) if tiers is None else self.of_tiers(ranks, tiers)

    def carried_rates(self, scales: Scales) -> dict[str, object]:
        """Return ``tiers``, the field with the tiers, their bandwidths multiplied by the factors in ``scales``: the
        innermost by that of domains, where it joins one, all others by that of the network."""
        innermost = scales.bandwidth if joins_domains(self.tiers) else scales.network_bandwidth
        factors = [innermost, *[scales.network_bandwidth] * (len(self.tiers) - 1)]
        rates = [{"bandwidth": factor * tier.bandwidth} for tier, factor in zip(self.tiers, factors, strict=True)]
        return {"tiers": tuple(tier.model_copy(update=rate) for tier, rate in zip(self.tiers, rates, strict=True))}

    def with_hop_latency(self, seconds: float) -> Self:
        """Return this fabric with ``seconds`` as ``hop_latency`` and as the latency of the links of every tier but the
        innermost, which keeps the latency that it states, if any; of a fabric of one tier, of that tier's links."""
        kept = 1 if len(self.levels) > 1 else 0
        tiers = [*self.tiers[:kept], *(tier.model_copy(update={"latency": None}) for tier in self.tiers[kept:])]
        return self.model_copy(update={"hop_latency": seconds, "tiers": tuple(tiers)})

    def of_tiers(self, ranks: int, tiers: tuple[Tier, ...]) -> Self:
        """Return a fabric of so many ``ranks`` on other ``tiers``, with this fabric's other fields."""
        fields = {name: getattr(self, name) for name in type(self).model_fields if name not in ("ranks", "tiers")}
        return type(self)(ranks=ranks, tiers=tiers, **fields)


def _members(level: Level, ranks: int, stride: int) -> int | None:
    """Return how many ranks of a group of ``ranks`` ranks at a ``stride`` lie in each child of a level that holds any;
    None where children hold different numbers."""
    child = level.child
    if stride % child == 0:
        return 1
    if child % (ranks * stride) == 0:
        return ranks
    return child // stride if child % stride == 0 and ranks * stride % child == 0 else None


def _group_tiers(levels: Sequence[Level], ranks: int, stride: int) -> tuple[Tier, ...] | None:
    """Return the tiers of one of the groups of ``ranks`` ranks at ``stride``, while all groups exchange the same; None
    where the group is no fabric of tiers.

    A tier of the group joins, of each child that it enters, as many ranks as the group has there. The group has its
    part of what it shares with its siblings: of a switch the ports of its own ranks, and of trees and uplinks the part
    that its ranks are of those of a child. It is no fabric of tiers where children hold different numbers of its ranks,
    where ranks share a port, where uplinks leave switches of separate rails or lead to no single switch, or where a
    tier without a switch that joins all of its ports has several children in the group, but neither all of them whole
    nor one rank of each.
    """
    if any(level.sharing > 1 for level in levels if level.beneath is None):
        return None
    members = [_members(level, ranks, stride) for level in levels]
    tiers = []
    for level, inside, beyond in zip(levels, members, [*members[1:], ranks], strict=True):
        if inside is None or beyond is None or beyond % inside:
            return None
        if not level.joined and (beyond > inside or level.beneath is not None):
            # A group needs a rail of its own through all children, or whole children that forward inside.
            alone = level.beneath is None and beyond == inside * level.size and inside in (1, level.child)
            if not alone:
                return None
        if any(not passed.joined for passed in level.chain):
            return None
        tiers.append(_reduced(level, inside, beyond // inside))
    return tuple(tiers)


def _reduced(level: Level, inside: int, size: int) -> Tier:
    """Return the tier of a level cut down to ``size`` children of ``inside`` ranks each, with ports, or the bandwidth
    of uplinks, in proportion to the ranks of a child. With fewer children than the level has, a grid loses its
    dimensions and its twist."""
    tier = level.tier
    fields = {name: getattr(tier, name) for name in type(tier).model_fields}
    if size == level.size:
        fields["size" if tier.dims is None else "dims"] = size if tier.dims is None else level.dims
    else:
        fields |= {"size": size, "dims": None, "twisted": False}
    if level.beneath is None:
        if tier.ports is not None:
            fields["ports"] = tier.ports * inside // level.child
    else:
        fields |= {"ports": inside, "bandwidth": tier.bandwidth * level.ports / level.child}
    return Tier(**fields)


# Two tiers as a transport sees them: the innermost as the domain, the slowest of the others as the network.
#
# Where the second tier leaves from the switches of the first, as the spines of a fat tree do, these are switches of
# the network: every rank is then a domain of its own.


def joins_domains(tiers: Sequence[Tier]) -> bool:
    """Return True where there is one tier, or where the second one is not reached through a switch: the innermost tier
    then joins the ranks of a domain, and is no part of the network between domains."""
    return len(tiers) == 1 or not tiers[1].through_switch


def _rate(level: Level) -> float:
    """Return the bytes of data per second of one rank through a level of switches while all ranks send: the least over
    its classes of links, such as ports and tree, of what they carry one way in all over all ranks."""
    return min(alike.bandwidth * (alike.links / (2 * level.ranks)) for alike in level.classes)
