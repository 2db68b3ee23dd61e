"""Tiers between given ranks: how many children and ports each has, how its links are numbered, and which transfers
take.

A rank has a place in every tier: its number among the children of the group that the tier joins. Ranks of a group are
consecutive, so that place t of a rank is ``rank // child % size``, where ``child`` is the ranks of one child.

Links of a switch, in this order (one track each, up before down):

    port p ──▶ switch, switch ──▶ port p        ports are numbered rank by rank; neighbours share one where there are
    fewer child c ══▶ tree,  tree ══▶ child c         where the tier has a taper

A ring, torus or mesh has a :class:`Lattice` for every group and every port of a child; a full mesh has a link from each
of its children to every other, for every group and port.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np

from lightloom.core.arrays import Ints, Mask
from lightloom.fabrics.lattice import Lattice, Run
from lightloom.fabrics.tiers.tier import Tier
from lightloom.fabrics.twisted import grid_of


def _single(base: int, link: Ints, period: int) -> Run:
    """One link of a track for each transfer."""
    return Run(np.full_like(link, base), link, np.ones_like(link), period)


class LinkClass(NamedTuple):
    """Links of a level that are alike."""

    links: int
    bandwidth: float
    """Bytes per second on the wire."""
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
    def size(self) -> int:
        return prod(self.dims)

    @property
    def group(self) -> int:
        """Ranks that the tier joins."""
        return self.child * self.size

    @property
    def switched(self) -> bool:
        return self.tier.shape == "switch"

    @property
    def joined(self) -> bool:
        """Whether data can go from any port to any other."""
        return self.switched and not self.tier.separate_rails

    @property
    def root(self) -> Level:
        """The level whose ports, those of ranks, lead here."""
        return self if self.beneath is None else self.beneath.root

    @property
    def chain(self) -> tuple[Level, ...]:
        """The levels through whose switches the ports are reached, innermost first, without this one."""
        return () if self.beneath is None else (*self.beneath.chain, self.beneath)

    @property
    def sharing(self) -> int:
        """Neighbouring ranks that share a port."""
        return 1 if self.tier.ports is None else max(self.child // self.tier.ports, 1)

    @property
    def planes(self) -> int:
        """Rails that no transfer leaves between two children."""
        if self.beneath is None:
            return self.child // self.sharing
        return 1 if self.beneath.joined else self.beneath.planes

    @property
    def ports(self) -> int:
        """Ports of a child."""
        if self.tier.ports is not None:
            return self.tier.ports
        return self.child if self.beneath is None else self.child // self.planes

    @property
    def port_bandwidth(self) -> float:
        """Bytes per second of what one rank, those that share its port, or one switch beneath sends through."""
        rate = self.tier.bandwidth * self.tier.wire_efficiency
        return rate * max(self.ports // self.child, 1) if self.beneath is None else rate * self.ports

    @property
    def seats(self) -> int:
        """Ports, bundles of one rank or one switch counted once, in the whole fabric."""
        if self.beneath is None:
            return self.ranks // self.sharing
        return self.ranks // self.child * self.planes

    @property
    def tree(self) -> bool:
        """Whether children have links of their own into the switch, behind their ports."""
        return self.switched and self.beneath is None and self.number > 1 and self.tier.taper is not None

    def plane(self, rank: Ints) -> Ints:
        """The rail of ranks."""
        if self.beneath is None:
            return rank % self.child // self.sharing
        return np.zeros_like(rank) if self.beneath.joined else self.beneath.plane(rank)

    def seat(self, rank: Ints) -> Ints:
        """The port of ranks, among all of the fabric."""
        if self.beneath is None:
            return rank // self.sharing
        return rank // self.child * self.planes + self.plane(rank)

    def leads_out(self, source: Ints, target: Ints) -> Mask:
        """Whether ranks belong to different children, of one group or of two."""
        apart: Mask = source // self.child != target // self.child
        return apart

    def gateway(self, source: Ints, target: Ints) -> Ints:
        """The rank of the source's child from which a transfer takes this tier."""
        if self.joined or self.planes == 1:
            return source
        unit = self.root.child
        gateway: Ints = source // unit * unit + target % unit
        return gateway

    @property
    def classes(self) -> list[LinkClass]:
        """The links in the order of their numbers."""
        if not self.switched:
            copies = self.ranks // self.group * self.planes
            links = self._lattice.links if self._lattice else self.size * (self.size - 1)
            return [LinkClass(copies * links, self.port_bandwidth, 1)]
        taper = self.tier.taper or 1.0
        if self.beneath is not None:
            return [LinkClass(2 * self.seats, self.port_bandwidth / taper, self.ports)]
        classes = [LinkClass(2 * self.seats, self.port_bandwidth, 1)]
        if self.tree:
            rate = self.ports * self.tier.bandwidth / taper * self.tier.wire_efficiency
            classes.append(LinkClass(2 * (self.ranks // self.child), rate, self.ports))
        return classes

    @property
    def links(self) -> int:
        return sum(alike.links for alike in self.classes)

    @property
    def _lattice(self) -> Lattice | None:
        """The grid of one group and rail; None for switches and full meshes."""
        if self.tier.shape in ("switch", "full-mesh"):
            return None
        return grid_of(self.dims, self.tier.shape != "mesh", self.tier.twisted and self.size > 1)

    @property
    def lattice(self) -> Lattice:
        """The grid of one group and rail; a full mesh counts as one where it has two children."""
        return self._lattice or Lattice((self.size,), wraps=False)

    @property
    def is_grid(self) -> bool:
        return self._lattice is not None

    def runs(self, source: Ints, target: Ints) -> list[tuple[Run, float]]:
        """The links of transfers from child to child, with the seconds of one link.

        All belong to different children of one group, and each transfer is on the rail of its target.
        """
        passed = [(run, level.latency) for level in self.chain for run in level._switch_runs(source, target)]
        own = self._switch_runs(source, target) if self.switched else self._direct_runs(source, target)
        return passed + [(run, self.latency) for run in own]

    def ordered_runs(self, source: Ints, target: Ints) -> list[Run]:
        """The same links in the order in which transfers cross them: up, along, and down."""
        up: list[Run] = []
        down: list[Run] = []
        for level in (*self.chain, self) if self.switched else self.chain:
            runs = level._switch_runs(source, target)
            up, down = up + runs[::2], runs[1::2][::-1] + down
        return up + ([] if self.switched else self._direct_runs(source, target)) + down

    def _switch_runs(self, source: Ints, target: Ints) -> list[Run]:
        base, seats = self.base, self.seats
        runs = [_single(base, self.seat(source), seats), _single(base + seats, self.seat(target), seats)]
        if self.tree:
            base, children = base + 2 * seats, self.ranks // self.child
            runs.append(_single(base, source // self.child, children))
            runs.append(_single(base + children, target // self.child, children))
        return runs

    def _direct_runs(self, source: Ints, target: Ints) -> list[Run]:
        copies = self.ranks // self.group * self.planes
        copy = source // self.group * self.planes + self.plane(target)
        start, end = source // self.child % self.size, target // self.child % self.size
        if self._lattice is not None:
            runs = self._lattice.runs(start, end, copies, copy)
            return [run._replace(base=self.base + run.base) for run in runs]
        link = (copy * self.size + start) * (self.size - 1) + end - (end > start)
        return [_single(self.base, link, self.links)]

    def link_name(self, link: int) -> str:
        """The name of a link of this level, counted from its first."""
        label = self.tier.name or f"tier {self.number}"
        if not self.switched:
            return f"{label} {self._direct_name(link)}"
        seats, children = self.seats, self.ranks // self.child
        if link < 2 * seats:
            way, seat = divmod(link, seats)
            return f"{label} {('uplink', 'downlink')[way]} of {self._seat_name(seat)}"
        way, child = divmod(link - 2 * seats, children)
        inner = "domain" if self.number == 2 else f"group of {self.child}"
        return f"{label} tree {('uplink', 'downlink')[way]} of {inner} {child}"

    def _direct_name(self, link: int) -> str:
        copies = self.ranks // self.group * self.planes
        if self._lattice is not None:
            _, copy, origin, end, forward = self._lattice.ends(link, copies)
            name = f"{'forward' if forward else 'backward'} link {origin}→{end}"
        else:
            copy, pair = divmod(link, self.size * (self.size - 1))
            origin, end = divmod(pair, self.size - 1)
            name = f"direct link {origin}→{end + (end >= origin)}"
        group, plane = divmod(copy, self.planes)
        return name if self.ranks == self.size else f"{name} of rail {plane} in group {group}"

    def _seat_name(self, seat: int) -> str:
        if self.beneath is None:
            return f"rank {seat}" if self.sharing == 1 else f"ranks {seat * self.sharing} and on"
        group, plane = divmod(seat, self.planes)
        return f"switch {group}" if self.planes == 1 else f"switch {plane} of group {group}"
