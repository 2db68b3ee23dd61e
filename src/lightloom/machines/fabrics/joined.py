"""Groups of ranks on a fabric of their own each, and fabrics that join the ranks in the same places of all groups.

    inside     0 ─ 1 ─ 2      3 ─ 4 ─ 5       a ring of three for each group
    between    0 · · · · · ·  3               an averager for each place, of as many ports as there are groups
                   1 · · · · · ·  4
                       2 · · · · · ·  5

What crosses groups is exchanged place by place, as in OptINC's cascades with rings below them: a sum is scattered
inside (each rank then holds its share of the group's sum), averaged between, and gathered inside
(:mod:`lightloom.collectives.levels`). Either part may be joined itself. Ranks of different groups and places send each
other nothing, so that no pipeline crosses groups.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import InstanceOf, SerializeAsAny, model_validator

from lightloom.core.arrays import Floats, Ints
from lightloom.core.errors import UnsupportedError
from lightloom.machines.fabrics.derived import Cut, Footprint
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.parts.bill import Bill, BillChoices


class JoinedFabric(Fabric):
    """Groups of neighbouring ranks, each on a fabric ``inside``, whose counterparts are joined by fabrics
    ``between``."""

    kind: Literal["joined"] = "joined"
    inside: InstanceOf[SerializeAsAny[Fabric]]
    """The fabric of a group; its ranks are those of a group."""
    between: InstanceOf[SerializeAsAny[Fabric]]
    """The fabric that joins the ranks in one place of all groups; it has as many ranks as there are groups."""

    any_pair: ClassVar[bool] = False
    PARTS: ClassVar[tuple[str, str]] = ("inside", "between")
    """Fields that hold the parts, either of which may be joined itself."""

    @model_validator(mode="after")
    def _parts_make_the_ranks(self) -> Self:
        """Raise ValueError where the ranks of both parts do not multiply to the fabric's; otherwise return the fabric
        unchanged."""
        if self.inside.ranks * self.between.ranks != self.ranks:
            raise ValueError(
                f"{self.between.ranks} groups of {self.inside.ranks} ranks are no {self.ranks} ranks: expected ranks "
                "inside times ranks between"
            )
        return self

    @property
    def parts(self) -> tuple[Fabric, Fabric]:
        """Return ``inside``, the fabric of one group, and ``between``, that of the ranks of one place in all groups."""
        return self.inside, self.between

    def stated_fields(self) -> dict[str, object]:
        """Return the fields, by name, from which a changed copy is built, both parts as mappings of fields; what
        follows from other fields is left out of them."""
        return super().stated_fields() | {name: getattr(self, name).stated_fields() for name in self.PARTS}

    @property
    def built_of(self) -> str:
        """The lines of both parts on the devices that their bandwidths need, joined by semicolons; empty where neither
        part has one."""
        return "; ".join(filter(None, (part.built_of for part in self.parts)))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Lines that say what of the parts cannot be built as described, and why."""
        return tuple(line for part in self.parts for line in part.warnings)

    @property
    def latency_unstated(self) -> bool:
        """Return True if in one of the parts ``hop_latency`` decides a latency and nothing says where its value comes
        from."""
        return any(part.latency_unstated for part in self.parts)

    @property
    def takes_hop_latency(self) -> bool:
        """Return True if in one of the parts some link's latency is ``hop_latency``."""
        return any(part.takes_hop_latency for part in self.parts)

    def with_hop_latency(self, seconds: float) -> Self:
        """Return this fabric with ``seconds`` as ``hop_latency`` of both parts."""
        return self.model_copy(update={name: getattr(self, name).with_hop_latency(seconds) for name in self.PARTS})

    @property
    def node_ranks(self) -> int:
        """Return the number of ranks of a group, which ``inside`` joins."""
        return self.inside.ranks

    @property
    def links(self) -> int:
        """Return the number of directed links: those of the fabric ``inside`` for every group, then those of
        ``between`` for every place in a group."""
        return self.between.ranks * self.inside.links + self.inside.ranks * self.between.links

    def link_name(self, link: int) -> str:
        """Return ``group 2: `` or ``place 1: ``, counted from 0, and the name of the link in its part: ``inside`` for
        links of a group, ``between`` for those that join the ranks of one place in all groups."""
        inner = self.between.ranks * self.inside.links
        if link < inner:
            group, own = divmod(link, self.inside.links)
            return f"group {group}: {self.inside.link_name(own)}"
        place, own = divmod(link - inner, self.between.links)
        return f"place {place}: {self.between.link_name(own)}"

    def link_bandwidth(self) -> Floats:
        """Return the bytes per second of each link, those inside groups first, group by group, then those between,
        place by place: [link]."""
        inside, between = self.inside.link_bandwidth(), self.between.link_bandwidth()
        return np.concatenate([np.tile(inside, self.between.ranks), np.tile(between, self.inside.ranks)])

    def footprint(self, source: Ints, destination: Ints, route: Ints) -> Footprint:
        """Raise UnsupportedError, whatever the arguments, as no transfer crosses both parts: collectives run on the
        parts."""
        raise UnsupportedError(
            f"{self.heading()} carries what its groups and the fabrics between them carry, part by part"
        )

    def cuts(self) -> list[Cut]:
        """Return the cut around one rank, with the sum of what it can receive inside its group and between groups, and
        the cuts of each part taken in all of its copies at once, with ranks and capacity multiplied."""
        inside, between = (part.cuts() for part in self.parts)
        alone = [min(cut.capacity for cut in cuts if cut.ranks == 1) for cuts in (inside, between)]
        copies = [(cut, self.between.ranks, "all groups") for cut in inside]
        copies += [(cut, self.inside.ranks, "all places") for cut in between]
        return [
            Cut("what one rank can receive", 1, sum(alone)),
            *(Cut(f"{cut.name} in {of}", cut.ranks * n, cut.capacity * n, cut.sets) for cut, n, of in copies),
        ]

    def rank_bandwidths(self) -> tuple[Floats, Floats]:
        """Return the bytes per second that no rank exceeds in receiving, and in sending, over both parts together: two
        arrays, [rank]."""
        inside, between = np.asarray(self.inside.rank_bandwidths()), np.asarray(self.between.rank_bandwidths())
        receive, send = (between[:, :, None] + inside[:, None, :]).reshape(2, self.ranks)
        return receive, send

    def neighbour_latency(self) -> float:
        """Return the least seconds of a transfer between two ranks, inside a group or between groups."""
        return min(self.inside.neighbour_latency(), self.between.neighbour_latency())

    def diameter_latency(self) -> float:
        """Return the larger of both parts' seconds between their farthest ranks, a lower bound of the time in which a
        rank hears of the rank farthest from it."""
        return max(self.inside.diameter_latency(), self.between.diameter_latency())

    def root_latency(self, *, to_root: bool) -> float:
        """Return the larger of both parts' seconds between rank 0 and the rank farthest from it, towards rank 0 with
        ``to_root``."""
        return max(part.root_latency(to_root=to_root) for part in self.parts)

    def pair(self, stride: int) -> tuple[float, float]:
        """Return the bytes per second of the slowest transfer and the seconds of the longest latency when every rank at
        once sends to the one ``stride`` further on in its group, counted around its end; 0 bytes per second and the
        least latency of a transfer for strides of the group's ranks or more, as no transfer crosses groups."""
        return self.inside.pair(stride) if stride < self.inside.ranks else (0.0, self.neighbour_latency())

    def group(self, ranks: int, stride: int = 1) -> Fabric | None:
        """Return the fabric of ``ranks`` ranks, each ``stride`` from the next: a group of ``inside``, of ``between``
        where all have one place, or, where they are ranks of several groups, the parts of both joined; this fabric for
        all ranks.

        None where the ranks are none of these, for circuits between ranks that lie a stride apart in their part, as
        other groups need the same channels, and for some of the ports of an averager, which adds what all send.
        """
        inside, between = self.parts
        if ranks == self.ranks or self.ranks % (ranks * stride):
            return self if ranks == self.ranks else None
        if stride % inside.ranks == 0:
            return _group(between, ranks, stride // inside.ranks)
        if inside.ranks % (ranks * stride) == 0:
            return _group(inside, ranks, stride)
        own, more = divmod(inside.ranks, stride)
        if more or ranks % own:
            return None
        within, across = _group(inside, own, stride), _group(between, ranks // own)
        if within is None or across is None:
            return None
        return JoinedFabric(ranks=ranks, inside=within, between=across)

    def bill_of_parts(self, choices: BillChoices) -> Bill:
        """Return the sum of the bills of both parts, per rank; cards of a host that both parts use are counted in
        both."""
        return replace(self.inside.bill(choices) + self.between.bill(choices), ranks=self.ranks, kind=self.kind_name)


def _group(part: Fabric, ranks: int, stride: int = 1) -> Fabric | None:
    """Return a group of ``ranks`` ranks, each ``stride`` from the next, of a part of a joined fabric, the part itself
    for all of its ranks; None where the part has no such group, carries circuits and the stride is not 1, or adds what
    all of its ranks send."""
    if ranks == part.ranks:
        return part
    return None if part.in_network_reduction or (part.exclusive and stride > 1) else part.group(ranks, stride)
