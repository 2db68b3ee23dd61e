"""Points of a sweep: one collective or one plan each, with everything that its result depends on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lightloom.clusters.base import Cluster
from lightloom.collectives.cost.price import CostModel
from lightloom.core.provenance import content_hash
from lightloom.fabrics.base import Fabric
from lightloom.sweeps.code import code_version


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where points run: a fabric with its ranks, or a cluster; or why there is none."""

    name: str
    """As the experiment says it."""
    ranks: int
    settings: str
    """``field=value, ...``; empty without any."""
    place: Fabric | Cluster | None
    """None where these ranks and settings do not fit."""
    why: str
    """Why not; empty where they fit."""
    content: str
    """Hash of all of it."""

    @classmethod
    def of(cls, name: str, ranks: int, settings: str, place: Fabric | Cluster | None, why: str = "") -> Site:
        """A site with its hash."""
        said = place.to_json() if isinstance(place, Cluster) else place and place.model_dump(mode="json")
        content = content_hash([name, ranks, settings, said, why])
        return cls(name=name, ranks=ranks, settings=settings, place=place, why=why, content=content)

    @property
    def fabric(self) -> Fabric:
        """The fabric itself, a cluster's or its own."""
        assert self.place is not None
        return self.place.fabric if isinstance(self.place, Cluster) else self.place


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectivePoint:
    """One collective by one algorithm."""

    site: Site
    kind: str
    nbytes: float
    algorithm: str
    cost_model: CostModel

    def columns(self) -> dict[str, Any]:
        """What its row says of it."""
        return _columns(self.site, "collective") | {
            "collective": self.kind,
            "nbytes": self.nbytes,
            "algorithm": self.algorithm,
            "cost_model": self.cost_model,
        }

    @property
    def key(self) -> str:
        """Hash of the code and of everything that the result depends on."""
        return content_hash([code_version(), self.site.content, self.columns()])

    @property
    def family(self) -> tuple[Any, ...]:
        """Points that are alike in this share a schedule."""
        return (self.site.content, self.kind, self.algorithm, self.cost_model)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPoint:
    """One training step of one model by one strategy and algorithm."""

    site: Site
    model: str
    """As the experiment says it."""
    workload: str
    """The same for :func:`load_workload`, files found."""
    workload_content: str
    """Hash of a user's file; empty for the zoo."""
    batch: int
    """Samples a rank."""
    sequence_length: int | None
    strategy: str
    algorithm: str
    overlap: bool
    cost_model: CostModel

    def columns(self) -> dict[str, Any]:
        """What its row says of it."""
        return _columns(self.site, "plan") | {
            "model": self.model,
            "batch_per_rank": self.batch,
            "sequence_length": self.sequence_length,
            "strategy": self.strategy,
            "algorithm": self.algorithm,
            "overlap": self.overlap,
            "cost_model": self.cost_model,
        }

    @property
    def key(self) -> str:
        """Hash of the code and of everything that the result depends on."""
        return content_hash([code_version(), self.site.content, self.workload_content, self.columns()])

    @property
    def family(self) -> tuple[Any, ...]:
        """Points that are alike in this share a traced model."""
        return (self.site.content, self.workload, self.batch, self.sequence_length)


Point = CollectivePoint | PlanPoint


def _columns(site: Site, what: str) -> dict[str, Any]:
    return {"what": what, "site": site.name, "ranks": site.ranks, "settings": site.settings}
