"""Groups of ranks on a fabric of their own each, and fabrics that join the ranks in the same places of all groups.

    inside     0 ─ 1 ─ 2      3 ─ 4 ─ 5       a ring of three for each group
    between    0 · · · · · ·  3               an averager for each place, of as many ports as there are groups
                   1 · · · · · ·  4
                       2 · · · · · ·  5

What crosses groups is exchanged place by place, as in OptINC's cascades with rings below them: a sum is scattered
inside (each rank then holds its share of the group's sum), averaged between, and gathered inside. Ranks of different
groups and places send each other nothing, so that no pipeline crosses groups.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal, Self

import numpy as np
from pydantic import InstanceOf, SerializeAsAny, model_validator

from lightloom.core.arrays import Floats, Ints
from lightloom.core.errors import UnsupportedError
from lightloom.machines.fabrics.derived import Cut, Footprint
from lightloom.machines.fabrics.fabric import Fabric

if TYPE_CHECKING:
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

    @model_validator(mode="after")
    def _parts_make_the_ranks(self) -> Self:
        """Refuse parts whose ranks do not multiply to the fabric's."""
        if self.inside.ranks * self.between.ranks != self.ranks:
            raise ValueError(
                f"{self.between.ranks} groups of {self.inside.ranks} ranks are no {self.ranks} ranks: expected ranks "
                "inside times ranks between"
            )
        return self

    @property
    def node_ranks(self) -> int:
        """Return the ranks of a group."""
        return self.inside.ranks

    @property
    def links(self) -> int:
        """Return the number of links of all groups, then of all fabrics between them."""
        return self.between.ranks * self.inside.links + self.inside.ranks * self.between.links

    def link_name(self, link: int) -> str:
        """Return the name of a link in its part, with the number of its group or place."""
        inner = self.between.ranks * self.inside.links
        if link < inner:
            group, own = divmod(link, self.inside.links)
            return f"group {group}: {self.inside.link_name(own)}"
        place, own = divmod(link - inner, self.between.links)
        return f"place {place}: {self.between.link_name(own)}"

    def link_bandwidth(self) -> Floats:
        """Return the bytes per second of each link: [link]."""
        inside, between = self.inside.link_bandwidth(), self.between.link_bandwidth()
        return np.concatenate([np.tile(inside, self.between.ranks), np.tile(between, self.inside.ranks)])

    def footprint(self, source: Ints, destination: Ints, route: Ints) -> Footprint:
        """Raise UnsupportedError: ranks of different groups and places send each other nothing."""
        raise UnsupportedError(
            f"{self.heading()} carries what its groups and the fabrics between them carry, part by part"
        )

    def cuts(self) -> list[Cut]:
        """Return the cut around one rank: what enters it inside its group and from its counterparts, together."""
        alone = [min(cut.capacity for cut in part.cuts() if cut.ranks == 1) for part in (self.inside, self.between)]
        return [Cut("what one rank can receive", 1, sum(alone))]

    def total_receive_bandwidth(self) -> float:
        """Return the bytes per second that all ranks can receive, inside and between together."""
        inside, between = self.inside.total_receive_bandwidth(), self.between.total_receive_bandwidth()
        return self.between.ranks * inside + self.inside.ranks * between

    def neighbour_latency(self) -> float:
        """Return the lesser of both parts'."""
        return min(self.inside.neighbour_latency(), self.between.neighbour_latency())

    def diameter_latency(self) -> float:
        """Return the larger of both parts', which no rank beats in hearing of the farthest."""
        return max(self.inside.diameter_latency(), self.between.diameter_latency())

    def root_latency(self, *, to_root: bool) -> float:
        """Return the larger of both parts'."""
        return max(part.root_latency(to_root=to_root) for part in (self.inside, self.between))

    def pair(self, stride: int) -> tuple[float, float]:
        """Return bytes per second and seconds of latency to the rank ``stride`` further on: inside a group; no bytes
        elsewhere."""
        return self.inside.pair(stride) if stride < self.inside.ranks else (0.0, self.neighbour_latency())

    def group(self, ranks: int, stride: int = 1) -> Fabric | None:
        """Return neighbours of a group as a part of it, the ranks in one place of all groups, or all ranks; None for
        ranks that are neither."""
        if ranks == self.ranks:
            return self
        if stride == 1 and self.inside.ranks % ranks == 0:
            return self.inside if ranks == self.inside.ranks else self.inside.group(ranks)
        if stride == self.inside.ranks and ranks == self.between.ranks:
            return self.between
        return None

    def bill_of_parts(self, choices: BillChoices) -> Bill:
        """Return the parts of a rank inside and between; a host's cards that both count are in both."""
        return replace(self.inside.bill(choices) + self.between.bill(choices), ranks=self.ranks, kind=self.kind_name)
