"""One tier of a fabric, as files describe it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import Annotated, Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from lightloom.core.arrays import Ints, Mask
from lightloom.core.fields import Bandwidth, Count, Seconds
from lightloom.core.results import Described
from lightloom.machines.fabrics.lattice import Dims, Lattice, LinkRun, describe, most_square, twist_error

Shape = Literal["switch", "ring", "torus", "mesh", "full-mesh", "circuit-switch"]
_GRIDS = ("ring", "torus", "mesh", "circuit-switch")


class Tier(Described):
    """Links or a switch that join ranks, or groups that the tiers beneath have joined: the tier's children."""

    name: str = ""
    """Name of the tier in the names of links: ``NVLink``."""
    shape: Shape
    """``switch``: children send to a switch, which joins all. ``ring``, ``torus``, ``mesh``: links between neighbours,
    which forward. ``full-mesh``: a link from every child to every other. ``circuit-switch``: the torus that circuits
    form which are set before the job."""
    size: Count | None = None
    """Children; of the outermost tier as many as the ranks need, if it is left out. Switches and full meshes may hold
    fewer (:mod:`lightloom.machines.fabrics.tiers.tier`)."""
    dims: Dims | None = None
    """Children along each dimension of a torus, mesh or circuit switch."""
    dimensions: Count | None = None
    """Dimensions of a torus, mesh or circuit switch whose ``dims`` are left out; they are then as equal as can be."""
    twisted: bool = False
    """True if the short dimensions of a torus, half as long as the others, close half of the long ones further on
    (:mod:`lightloom.machines.fabrics.lattice`). Of blocks that circuits join it is the circuits that twist."""
    most: Count | None = None
    """Largest number of children that can be built, where ``size`` is left out."""
    ports: Count | None = None
    """Ports of a child into the tier (rails), spread evenly over its ranks; left out, each rank has one. Links between
    children exist once for each port."""
    bandwidth: Bandwidth
    """Bytes per second of a port, per direction; of a ring, torus, mesh or full mesh, of each of its links."""
    wire_efficiency: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Part of the bandwidth that data reach; headers and flow control take the rest."""
    latency: Seconds | None = None
    """Seconds for one link, half of the switch before and behind it included; left out, ``hop_latency`` of the
    fabric."""
    taper: Annotated[float, Field(ge=1)] | None = None
    """Ratio of the bytes per second that a child's ports can send to those that the tree carries for it. Where it is
    given, even as 1, children that are groups reach the switch through links of their own, as through the leaves of a
    fat tree."""
    through_switch: bool = False
    """True if the ports are those of the switch beneath (uplinks) and not of the ranks."""
    separate_rails: bool = False
    """True if each port of a child leads to a switch of its own; data for another rail then first crosses the tier
    beneath. Rings, tori, meshes and full meshes are always so."""
    in_network_reduction: bool = False
    """True if the tier's switches can add what enters them (NVLink SHARP, switch SHARP)."""

    reconfiguration_time: Seconds | None = None
    """Seconds to set a circuit switch anew; spent before the job, so that no step pays for it."""

    @model_validator(mode="after")
    def _sizes_agree(self) -> Self:
        """Raise ValueError for sizes, dimensions and options that contradict each other or the tier's shape; otherwise
        return the tier unchanged.

        Refused are ``dims`` beside ``size`` or ``dimensions``; ``dims`` or ``dimensions`` of a switch or full mesh, and
        more than one dimension of a ring; a twist but of a torus or circuit switch; more children than ``most``;
        ``taper``, ``separate_rails`` or ``in_network_reduction`` but of switches; a taper of separate rails that are
        not uplinks; and ``reconfiguration_time`` but of circuit switches.
        """
        if self.dims is not None and (self.size is not None or self.dimensions is not None):
            other = "size" if self.size is not None else "dimensions"
            raise ValueError(f"dims and {other} contradict each other: expected one of them")
        given = "dims" if self.dims is not None else "dimensions" if self.dimensions is not None else None
        if given is not None and self.shape not in _GRIDS:
            raise ValueError(f"{given} are of tori, meshes and circuit switches: expected size of a {self.shape}")
        if self.shape == "ring" and (len(self.dims or ()) > 1 or (self.dimensions or 1) > 1):
            raise ValueError("a ring has one dimension: expected shape torus where there are more")
        if self.twisted and self.shape not in ("torus", "circuit-switch"):
            raise ValueError(f"a {self.shape} cannot be twisted: expected shape torus or circuit-switch")
        if self.most is not None and self.children is not None and self.children > self.most:
            raise ValueError(f"{self.children} children are more than most={self.most}: expected no more")
        if self.shape != "switch":
            for name in ("taper", "separate_rails", "in_network_reduction"):
                if getattr(self, name):
                    raise ValueError(f"{name} is of switches: expected none on a {self.shape}")
        if self.separate_rails and self.taper is not None and not self.through_switch:
            raise ValueError("taper divides a tree that all ports share: expected none where rails are separate")
        if self.reconfiguration_time is not None and self.shape != "circuit-switch":
            raise ValueError(f"reconfiguration_time is of circuit switches: expected none on a {self.shape}")
        return self

    @property
    def children(self) -> int | None:
        """Number of children that is stated, as ``size`` or as ``dims``; None where both are left out."""
        return self.size if self.dims is None else prod(self.dims)

    def sizes(self, children: int) -> tuple[int, ...]:
        """Return the number of children along each dimension when there are ``children`` in all: ``dims`` where stated,
        otherwise sizes as equal as can be in so many ``dimensions`` (1 by default), smaller ones first."""
        return self.dims or most_square(children, self.dimensions or 1)

    def unused_fields(self) -> tuple[str, ...]:
        """Return the names of the fields that tables leave out since the heading says them: ``shape``, ``size``,
        ``dims`` and ``twisted``."""
        return "shape", "size", "dims", "twisted"

    def heading(self) -> str:
        """Return name, shape and stated size of the tier, such as ``NVLink, switch of 8`` or, unnamed, ``tier, twisted
        torus of 4x4x8``."""
        extent = "" if self.children is None else f" of {describe(self.dims) if self.dims else self.size}"
        return f"{self.name or 'tier'}, {'twisted ' * self.twisted}{self.shape}{extent}"


# Tiers between given ranks: how many children and ports each has, how its links are numbered, and which transfers take.
#
# A rank has a place in every tier: its number among the children of the group that the tier joins. Ranks of a group are
# consecutive, so that place t of a rank is ``rank // child % size``, where ``child`` is the ranks of one child.
#
# Links of a switch, in this order (one track each, up before down):
#
#     port p  ──▶ switch, switch ──▶ port p     ports are numbered rank by rank; neighbours share one of fewer
#     child c ══▶ tree,   tree   ══▶ child c    where the tier has a taper
#
# A ring, torus or mesh has a :class:`Lattice` for every group and every port of a child; a full mesh has a link from
# each of its children to every other, for every group and port.


def _single(base: int, link: Ints, period: int) -> LinkRun:
    """Return the run of one link for each transfer: link number ``link``, [transfer], on a track of ``period`` links
    that begins at ``base``."""
    return LinkRun(np.full_like(link, base), link, np.ones_like(link), period)


class LinkClass(NamedTuple):
    """Links of a level that are alike."""

    links: int
    bandwidth: float
    """Bytes per second, ``wire_efficiency`` and taper taken off, but not headers of packets."""
    ports: int
    """Ports that one of them serves."""


@dataclass(frozen=True, slots=True)
class Level:
    """One tier between given ranks."""

    tier: Tier
    number: int
    """The tier's place from the ranks outwards, from 1."""
    ranks: int
    """Ranks of the whole fabric."""
    dims: tuple[int, ...]
    """Children along each dimension."""
    child: int
    """Ranks of a child."""
    latency: float
    """Seconds of one link."""
    beneath: Level | None
    """The level through whose switch the ports are reached; None where they are the ranks' own."""
    base: int
    """Number of the first link."""

    @property
    def label(self) -> str:
        """Name of the tier in the names of links: its own, or ``tier N``, counted from 1 for the innermost, where it
        has none."""
        return self.tier.name or f"tier {self.number}"

    @property
    def size(self) -> int:
        """Number of children that the tier joins, the product of its dimensions."""
        return prod(self.dims)

    @property
    def group(self) -> int:
        """Number of ranks that the tier joins, those of all of its children."""
        return self.child * self.size

    @property
    def switched(self) -> bool:
        """True if the tier's shape is a switch."""
        return self.tier.shape == "switch"

    @property
    def joined(self) -> bool:
        """True if data can go from any port of the tier to any other: a switch without separate rails."""
        return self.switched and not self.tier.separate_rails

    @property
    def root(self) -> Level:
        """The level into whose ports the ranks themselves send on the way to this one: this one where its ports are the
        ranks' own, otherwise the innermost of the switches beneath through which its uplinks are reached."""
        return self if self.beneath is None else self.beneath.root

    @property
    def chain(self) -> tuple[Level, ...]:
        """The levels through whose switches data reach this one's ports, innermost first, without this one; empty where
        its ports are the ranks' own."""
        return () if self.beneath is None else (*self.beneath.chain, self.beneath)

    @property
    def sharing(self) -> int:
        """Number of neighbouring ranks that share a port into the tier; 1 where each has ports of its own."""
        return 1 if self.tier.ports is None else max(self.child // self.tier.ports, 1)

    @property
    def planes(self) -> int:
        """Number of rails, between which data can change only in the tiers beneath. Where the ports are the ranks' own:
        the ranks of a child, or the groups of its ranks that share a port. Where they are uplinks of switches beneath:
        1 if one switch joins them, otherwise as many as that level has."""
        if self.beneath is None:
            return self.child // self.sharing
        return 1 if self.beneath.joined else self.beneath.planes

    @property
    def ports(self) -> int:
        """Number of ports into the tier: those of a child, as stated or one a rank; where the ports are uplinks, those
        of one switch beneath, as stated or one for each of its ranks."""
        if self.tier.ports is not None:
            return self.tier.ports
        return self.child if self.beneath is None else self.child // self.planes

    @property
    def port_bandwidth(self) -> float:
        """Bytes of data per second, each way, of one link up into the tier: all the ports of a rank, the port that
        several ranks share, or all uplinks of one switch beneath; of a tier without a switch, of one of its links.
        ``wire_efficiency`` is taken off; headers of packets and the taper are not."""
        return self.tier.bandwidth * self.tier.wire_efficiency * self.ports_together

    @property
    def ports_together(self) -> int:
        """Number of ports that one link up into the tier stands for: all of a rank, the one that several ranks share,
        or all uplinks of one switch beneath."""
        return max(self.ports // self.child, 1) if self.beneath is None else self.ports

    @property
    def seats(self) -> int:
        """Number of links up into the tier in the whole fabric: one for the ports of each rank, or of ranks that share
        one, or of each switch beneath."""
        return self.ranks // self.sharing if self.beneath is None else self.ranks // self.child * self.planes

    @property
    def tree(self) -> bool:
        """True if each child has links of its own into the switch, behind its ports: the tier is a switch but not the
        innermost, states a taper, even 1, and has ports of the ranks."""
        return self.switched and self.beneath is None and self.number > 1 and self.tier.taper is not None

    def plane(self, rank: Ints) -> Ints:
        """Return the number of each rank's rail into the tier, from 0 within its child: [rank]; 0 where a switch
        beneath joins all ports."""
        if self.beneath is None:
            return rank % self.child // self.sharing
        return np.zeros_like(rank) if self.beneath.joined else self.beneath.plane(rank)

    def seat(self, rank: Ints) -> Ints:
        """Return the number, from 0 over the whole fabric, of the link by which each rank goes up into the tier:
        [rank]."""
        return rank // self.sharing if self.beneath is None else rank // self.child * self.planes + self.plane(rank)

    def leads_out(self, source: Ints, target: Ints) -> Mask:
        """Return a mask, true where source and target belong to different children, of one group or of two:
        [transfer]."""
        return np.asarray(source // self.child != target // self.child)

    def gateway(self, source: Ints, target: Ints) -> Ints:
        """Return the rank from which each transfer takes this tier, in the source's child: the one on the rail of
        ``target``; the source itself where a switch joins all ports or there is one rail: [transfer]."""
        if self.joined or self.planes == 1:
            return source
        unit = self.root.child
        return np.asarray(source // unit * unit + target % unit)

    @property
    def classes(self) -> list[LinkClass]:
        """Classes of alike links of the level in the whole fabric, in the order of the links' numbers: links into and
        out of ports first, then those of a tree. Each has the number of its directed ``links``, the bytes per second of
        one (``bandwidth``, with ``wire_efficiency`` and taper taken off, but not headers of packets) and the ``ports``
        that one of them serves: those of a rank, or the one that several ranks share; all ports of a child or switch
        for trees and uplinks."""
        if not self.switched:
            copies = self.ranks // self.group * self.planes
            links = self._lattice.links if self._lattice else self.size * (self.size - 1)
            return [LinkClass(copies * links, self.port_bandwidth, self.ports_together)]
        taper = self.tier.taper or 1.0
        if self.beneath is not None:
            return [LinkClass(2 * self.seats, self.port_bandwidth / taper, self.ports_together)]
        classes = [LinkClass(2 * self.seats, self.port_bandwidth, self.ports_together)]
        if self.tree:
            rate = self.ports * self.tier.bandwidth / taper * self.tier.wire_efficiency
            classes.append(LinkClass(2 * (self.ranks // self.child), rate, self.ports))
        return classes

    @property
    def links(self) -> int:
        """Return the number of directed links of the level, in the whole fabric, those that are numbered but that the
        open lines of a mesh do not use included."""
        return sum(alike.links for alike in self.classes)

    @property
    def _lattice(self) -> Lattice | None:
        """The grid of one group and rail; None for switches and full meshes."""
        if self.tier.shape in ("switch", "full-mesh"):
            return None
        return Lattice(self.dims, self.tier.shape != "mesh", self.tier.twisted and self.size > 1)

    @property
    def lattice(self) -> Lattice:
        """The grid that the children of one group form on one rail; for a switch or a full mesh, which form none, an
        open line of the children."""
        return self._lattice or Lattice((self.size,), wraps=False)

    @property
    def is_grid(self) -> bool:
        """True if the children are cells of a ring, torus or mesh, circuits included."""
        return self._lattice is not None

    def runs(self, source: Ints, target: Ints) -> list[tuple[LinkRun, float]]:
        """Return the runs of links that transfers occupy, each with the seconds of one of its links: those of the
        switches beneath that are passed first, then the level's own. A run has one entry for each transfer, links
        numbered over the whole fabric.

        Source and target are ranks of different children of one group, and the source is on the target's rail:
        [transfer].
        """
        passed = [(run, level.latency) for level in self.chain for run in level._switch_runs(source, target)]
        own = self._switch_runs(source, target) if self.switched else self._direct_runs(source, target)
        return passed + [(run, self.latency) for run in own]

    def ordered_runs(self, source: Ints, target: Ints) -> list[LinkRun]:
        """Return the runs of links of :meth:`runs` in the order in which transfers cross them: up through the switches
        beneath, along this tier, and down again. Source and target are ranks of different children of one group, the
        source on the target's rail: [transfer]."""
        levels = (*self.chain, self) if self.switched else self.chain
        through = [run for level in levels for run in level._switch_runs(source, target)]
        return [*through[::2], *([] if self.switched else self._direct_runs(source, target)), *through[1::2][::-1]]

    def _switch_runs(self, source: Ints, target: Ints) -> list[LinkRun]:
        """Return the runs of a switched level, one link each: up from the source and down to the target, then, where
        the level has a tree, up from the source's child and down to the target's. Links are numbered over the whole
        fabric; source and target are ranks: [transfer]."""
        base, seats = self.base, self.seats
        runs = [_single(base, self.seat(source), seats), _single(base + seats, self.seat(target), seats)]
        if self.tree:
            base, children = base + 2 * seats, self.ranks // self.child
            runs.append(_single(base, source // self.child, children))
            runs.append(_single(base + children, target // self.child, children))
        return runs

    def _direct_runs(self, source: Ints, target: Ints) -> list[LinkRun]:
        """Return the runs of links from the child of each source to that of its target, on the grid or the full mesh of
        the target's rail: one for each dimension of a grid, the last first, otherwise one. Links are numbered over the
        whole fabric; source and target are ranks of one group: [transfer]."""
        copies = self.ranks // self.group * self.planes
        copy = source // self.group * self.planes + self.plane(target)
        start, end = source // self.child % self.size, target // self.child % self.size
        if self._lattice is not None:
            runs = self._lattice.runs(start, end, copies, copy)
            return [run._replace(base=self.base + run.base) for run in runs] if self.base else runs
        return [_single(self.base, (copy * self.size + start) * (self.size - 1) + end - (end > start), self.links)]

    def link_name(self, link: int) -> str:
        """Return the name of a link, such as ``NVLink uplink of rank 3``, ``rail tree downlink of domain 2`` or ``ICI
        forward link 0→1 of rail 0 in group 4``, the ends numbered within their group; ``link`` counts from the first
        link of this level."""
        label = self.label
        if not self.switched:
            return f"{label} {self._direct_name(link)}"
        seats, children = self.seats, self.ranks // self.child
        if link < 2 * seats:
            way, seat = divmod(link, seats)
            if self.beneath is None:
                name = f"rank {seat}" if self.sharing == 1 else f"ranks {seat * self.sharing} and on"
            else:
                group, plane = divmod(seat, self.planes)
                name = f"switch {group}" if self.planes == 1 else f"switch {plane} of group {group}"
            return f"{label} {('uplink', 'downlink')[way]} of {name}"
        way, child = divmod(link - 2 * seats, children)
        inner = "domain" if self.number == 2 else f"group of {self.child}"
        return f"{label} tree {('uplink', 'downlink')[way]} of {inner} {child}"

    def _direct_name(self, link: int) -> str:
        """Return the name of a link of a grid or a full mesh between children, numbered from the level's first:
        ``forward link 0→1`` or ``direct link 0→2``, the ends counted within the group, followed by rail and group
        unless the level joins single ranks into one group."""
        if self._lattice is not None:
            _, copy, origin, end, forward = self._lattice.ends(link, self.ranks // self.group * self.planes)
            name = f"{'forward' if forward else 'backward'} link {origin}→{end}"
        else:
            copy, pair = divmod(link, self.size * (self.size - 1))
            origin, end = divmod(pair, self.size - 1)
            name = f"direct link {origin}→{end + (end >= origin)}"
        group, plane = divmod(copy, self.planes)
        return name if self.ranks == self.size else f"{name} of rail {plane} in group {group}"


# Which part of their domains ranks fill, where they do not fill whole ones.
#
# Switches and full meshes may stay partly empty, all of a tier alike: 256 ranks on racks of 72 are 4 racks of 64. The
# fewest domains are taken that divide the ranks evenly, at least half full. What leads on from a domain shrinks with
# it, so that every rank has the part of ports, trees and uplinks that it has where domains are full.


def filled_tiers(ranks: int, tiers: Sequence[Tier]) -> tuple[Tier, ...]:
    """Return the tiers with the sizes that ``ranks`` ranks fill; tiers that ranks fill wholly, and one that joins all
    ranks, are unchanged.

    Domains of a tier are filled alike, as full as can be and at least half; ports of outer tiers shrink in proportion
    with a domain that is filled in part. Only switches and full meshes may be filled in part, and none where the fabric
    has circuit switches.

    Raises:
        ValueError: domains would be less than half full; the message says which numbers of ranks are next.
    """
    filled, child = list(tiers), 1
    circuits = any(tier.shape == "circuit-switch" for tier in tiers)
    for number, tier in enumerate(tiers):
        if tier.children is None or ranks % child or ranks // child <= tier.children:
            break
        size = tier.children
        # Domains may be partly empty where other tiers join them, and no circuits join blocks.
        may_stay_empty = number + 1 < len(tiers) and tier.shape in ("switch", "full-mesh") and not circuits
        if ranks // child % size and may_stay_empty:
            outer = [place for place in range(number + 1, len(tiers)) if _shrinks(tiers, place, number)]
            ports = [count for place in outer if (count := filled[place].ports) is not None]
            if not (size := _even(ranks // child, size, ports)):
                raise ValueError(_refusal(ranks, child, tier, number, ports))
            filled[number] = filled[number].model_copy(update={"size": size})
            for place in outer:
                if (count := filled[place].ports) is not None:
                    filled[place] = filled[place].model_copy(update={"ports": count * size // tier.children})
        child *= size
    return tuple(filled)


def _shrinks(tiers: Sequence[Tier], place: int, number: int) -> bool:
    """Return True if the tier at ``place`` loses ports where tier ``number`` beneath it is filled in part, False where
    it loses rails instead: where its ports are uplinks of switches on separate rails, perhaps in a chain, that the
    ranks reach by ports of their own, and tier ``number`` lies beneath those switches. Both are places in ``tiers``
    from 0, ``number`` below ``place``."""
    rail = place
    while tiers[rail].through_switch and tiers[rail - 1].separate_rails:
        rail -= 1
    return rail == place or tiers[rail].through_switch or number >= rail


def _even(children: int, size: int, ports: Sequence[int]) -> int:
    """Return how many children each domain has if ``children`` children fill domains of ``size`` places alike: as many
    as can be, at least half, such that each count in ``ports``, shrunk in proportion, stays whole. 0 where there is no
    such number."""
    for domains in range(-(-children // size), 2 * children // size + 1):
        part = children // domains
        if children % domains == 0 and 2 * part >= size and not any(count * part % size for count in ports):
            return part
    return 0


def _refusal(ranks: int, child: int, tier: Tier, number: int, ports: Sequence[int]) -> str:
    """Return the message that ``ranks`` ranks do not fill the domains of a tier evenly, with the nearest numbers of
    ranks below and above that do.

    Args:
        ranks: number of ranks.
        child: number of ranks of one child of the tier.
        tier: the tier, whose size is stated.
        number: place of the tier from 0.
        ports: ports of outer tiers that have to stay whole when they shrink.
    """
    size, children = tier.children or 1, ranks // child
    near = next(count for count in range(children - 1, 0, -1) if count <= size or _even(count, size, ports))
    more = next(count for count in range(children + 1, children + size + 1) if _even(count, size, ports))
    where = f"tier {number + 1}" + (f" ({tier.name})" if tier.name else "")
    of = f"{size} ranks" if child == 1 else f"{size} groups of {child} ranks"
    return (
        f"ranks={ranks} do not divide evenly into domains of {where}, of {of}, that are at least half full: expected "
        f"e.g. {near * child} or {more * child}"
    )


# A list of tiers between given ranks, its sizes resolved and checked.


@lru_cache(maxsize=256)
def levels_of(ranks: int, tiers: tuple[Tier, ...], hop_latency: float) -> tuple[Level, ...]:
    """Return the tiers between ``ranks`` ranks, innermost first, with sizes and numbers of links; a torus or mesh and
    the circuits that join its blocks are one level. ``hop_latency`` holds for tiers without a latency of their own.

    Tiers that ranks fill in part have the sizes of :func:`filled_tiers`.

    Raises:
        ValueError: two tiers of one name, a size that is left out of another tier than the outermost or would be more
            than ``most``, sizes that do not multiply to the ranks or cannot be twisted, ports that cannot be spread
            evenly, uplinks without a switch beneath, circuits that differ from the links of the blocks that they join,
            or domains less than half full.
    """
    places: dict[str, int] = {}
    for number, tier in enumerate(tiers, 1):
        if tier.name and places.setdefault(tier.name, number) != number:
            raise ValueError(f"tiers {places[tier.name]} and {number} are both named {tier.name!r}: expected two names")
    tiers = filled_tiers(ranks, tiers)
    levels: list[Level] = []
    child, base = 1, 0
    for number, tier in enumerate(tiers, 1):
        where = f"tier {number}" + (f" ({tier.name})" if tier.name else "")
        if (dims := _filled(tier, ranks, child)) is None:
            if number < len(tiers):
                raise ValueError(f"{where} has no size: expected one, as only the outermost takes what is left")
            left = ranks // child
            if tier.most is not None and left > tier.most:
                raise ValueError(f"{where} joins {left} children of {child} ranks: expected at most {tier.most}")
            dims = tier.sizes(left)
        # Circuits continue the tori or meshes beneath; a block of one child has no links to continue.
        blocks = levels[-1] if levels and levels[-1].size > 1 and levels[-1].tier.shape in ("torus", "mesh") else None
        if blocks and tier.shape == "circuit-switch" and len(dims) == len(blocks.dims):
            levels.pop()
            _check_circuits(tier, blocks, where)
            dims = tuple(inner * outer for inner, outer in zip(blocks.dims, dims, strict=True))
            joined = blocks.tier.model_copy(update={"shape": "torus", "twisted": tier.twisted})
            level = replace(blocks, tier=joined, dims=dims)
            base = blocks.base
        else:
            beneath = _switch_beneath(tier, levels, where, child, used=prod(dims) > 1)
            latency = hop_latency if tier.latency is None else tier.latency
            level = Level(tier, len(levels) + 1, ranks, dims, child, latency, beneath, base)
        levels.append(level)
        if level.tier.twisted and level.size > 1 and (error := twist_error(level.dims)) is not None:
            raise ValueError(f"{where}: {error}")
        child = level.group
        if ranks % child:
            sizes = " · ".join(str(entry.size) for entry in levels)
            total = f" = {child}" if len(levels) > 1 else ""
            raise ValueError(f"tiers of {sizes}{total} ranks do not divide ranks={ranks}: expected a divisor")
        base += level.links
    if child != ranks:
        sizes = describe([level.size for level in levels])
        raise ValueError(f"tiers of {sizes} join {child} ranks, not ranks={ranks}: expected a product that is equal")
    return tuple(levels)


def _filled(tier: Tier, ranks: int, child: int) -> tuple[int, ...] | None:
    """Return the children along each dimension of a tier that states its size; None where it does not. ``child`` is the
    number of ranks of a child.

    Fewer ranks than stated may fill a part of a switch or a full mesh; of any tier a single child may be there, 1 along
    each dimension. Otherwise the stated sizes are returned, whether or not the ranks fill them.
    """
    if tier.children is None:
        return None
    stated, filled = tier.sizes(tier.children), ranks // child
    if ranks % child or filled >= tier.children:
        return stated
    if filled == 1:
        return (1,) * len(stated)
    return (filled,) if tier.shape in ("switch", "full-mesh") else stated


def _check_circuits(tier: Tier, blocks: Level, where: str) -> None:
    """Raise ValueError unless the bandwidth times ``wire_efficiency`` of circuits equals that of the links of the
    blocks that they join, the circuits' ports and latency do so too where they state any, and the blocks are not
    twisted.

    Args:
        tier: the tier of circuits.
        blocks: the level of tori or meshes beneath.
        where: name of the tier for messages.
    """
    rates = [part.bandwidth * part.wire_efficiency for part in (tier, blocks.tier)]
    if rates[0] != rates[1] or tier.ports not in (None, blocks.tier.ports):
        raise ValueError(f"{where} joins the sides of a {blocks.tier.shape}: expected bandwidth and ports of its links")
    if blocks.tier.twisted:
        raise ValueError(f"{where} joins blocks that are twisted: expected twisted of the circuits alone")
    if tier.latency not in (None, blocks.latency):
        raise ValueError(f"{where} joins the sides of a {blocks.tier.shape}: expected no latency but that of its links")


def _switch_beneath(tier: Tier, levels: list[Level], where: str, child: int, *, used: bool) -> Level | None:
    """Return the level through whose switch a tier's ports are reached; None where they are the ranks' own.

    Args:
        tier: the tier.
        levels: the levels beneath, innermost first.
        where: name of the tier for messages.
        child: ranks of a child of the tier.
        used: True if the tier has several children, so that ports must be spread evenly over the ranks.

    Raises:
        ValueError: no switch beneath, or ports that cannot be spread evenly.
    """
    if tier.through_switch:
        if not levels or not levels[-1].switched:
            raise ValueError(f"{where} has ports through the switch beneath: expected a tier of shape switch there")
        return levels[-1]
    if used and tier.ports is not None and tier.ports % child and child % tier.ports:
        raise ValueError(f"{where} has {tier.ports} ports for {child} ranks: expected a divisor or a multiple")
    return None
