"""One tier of a fabric, as files describe it."""

from __future__ import annotations

from math import prod
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from lightloom.core.described import Described
from lightloom.core.fields import Bandwidth, Count, Seconds
from lightloom.fabrics.lattice import Dims, describe, most_square

Shape = Literal["switch", "ring", "torus", "mesh", "full-mesh", "circuit-switch"]
_GRIDS = ("ring", "torus", "mesh", "circuit-switch")


class Tier(Described):
    """What joins ranks, or groups of ranks that the tiers beneath have joined: the tier's children."""

    name: str = ""
    """What the tier is called, in the names of links: ``NVLink``."""
    shape: Shape
    """``switch``: children send to a switch, which joins all. ``ring``, ``torus``, ``mesh``: links between neighbours,
    which forward. ``full-mesh``: a link from every child to every other. ``circuit-switch``: the torus that circuits
    form which are set before the job."""
    size: Count | None = None
    """Children; of the outermost tier as many as the ranks need, if it is left out. Switches and full meshes may hold
    fewer (:mod:`lightloom.fabrics.tiers.filling`)."""
    dims: Dims | None = None
    """Children along each dimension of a torus, mesh or circuit switch."""
    dimensions: Count | None = None
    """Dimensions of a torus, mesh or circuit switch whose ``dims`` are left out; they are then as equal as can be."""
    twisted: bool = False
    """Whether the short dimensions of a torus, half as long as the others, close half of the long ones further on
    (:mod:`lightloom.fabrics.twisted`). Of blocks that circuits join it is the circuits that twist."""
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
    """What the ports of a child can send over what the tree carries for it. Where it is given, even as 1, children that
    are groups reach the switch through links of their own, as through the leaves of a fat tree."""
    through_switch: bool = False
    """Whether the ports are those of the switch beneath (uplinks) and not of the ranks."""
    separate_rails: bool = False
    """Whether each port of a child leads to a switch of its own; data for another rail then first crosses the tier
    beneath. Rings, tori, meshes and full meshes are always so."""
    in_network_reduction: bool = False
    """Whether the tier's switches can add what enters them (NVLink SHARP, switch SHARP)."""

    reconfiguration_time: Seconds | None = None
    """Seconds to set a circuit switch anew; spent before the job, so that no step pays for it."""

    @model_validator(mode="after")
    def _sizes_agree(self) -> Self:
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
        return self

    @model_validator(mode="after")
    def _fields_fit_the_shape(self) -> Self:
        if self.shape != "switch":
            switches_alone = {"taper": self.taper, "separate_rails": self.separate_rails}
            switches_alone["in_network_reduction"] = self.in_network_reduction
            given = [name for name, value in switches_alone.items() if value]
            if given:
                raise ValueError(f"{given[0]} is of switches: expected none on a {self.shape}")
        if self.separate_rails and self.taper is not None and not self.through_switch:
            raise ValueError("taper divides a tree that all ports share: expected none where rails are separate")
        if self.reconfiguration_time is not None and self.shape != "circuit-switch":
            raise ValueError(f"reconfiguration_time is of circuit switches: expected none on a {self.shape}")
        return self

    def faster(self, factor: float) -> Self:
        """This tier with links that are ``factor`` times as fast."""
        return self.model_copy(update={"bandwidth": factor * self.bandwidth})

    @property
    def children(self) -> int | None:
        """Children that are stated; None where ``size`` is left out."""
        return self.size if self.dims is None else prod(self.dims)

    def sizes(self, children: int) -> tuple[int, ...]:
        """Children along each dimension when there are ``children`` of them."""
        return self.dims or most_square(children, self.dimensions or 1)

    def unused_fields(self) -> tuple[str, ...]:
        """Return what the heading says."""
        return "shape", "size", "dims", "twisted"

    def heading(self) -> str:
        extent = "" if self.children is None else f" of {describe(self.dims) if self.dims else self.size}"
        return f"{self.name or 'tier'}, {'twisted ' * self.twisted}{self.shape}{extent}"
