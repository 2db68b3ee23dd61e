"""The points of a sweep: one collective or one plan each, with everything that the result depends on."""

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
    """Where points run: a fabric with its ranks or a cluster, or the reason why it cannot be built."""

    name: str
    """Name in the experiment."""
    ranks: int
    settings: str
    """Settings as ``field=value, ...``; may be empty."""
    place: Fabric | Cluster | None
    """The fabric or cluster; None if it cannot be built with these ranks and settings."""
    why: str
    """Reason why it cannot be built; empty if it can."""
    content: str
    """Hash of the name, ranks, settings and definition."""

    @classmethod
    def of(cls, name: str, ranks: int, settings: str, place: Fabric | Cluster | None, why: str = "") -> Site:
        """Return a site with its hash."""
        description = place.to_json() if isinstance(place, Cluster) else place and place.model_dump(mode="json")
        content = content_hash([name, ranks, settings, description, why])
        return cls(name=name, ranks=ranks, settings=settings, place=place, why=why, content=content)

    @property
    def fabric(self) -> Fabric:
        """The fabric, or the fabric of the cluster."""
        assert self.place is not None
        return self.place.fabric if isinstance(self.place, Cluster) else self.place


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectivePoint:
    """One collective, built by one algorithm."""

    site: Site
    kind: str
    nbytes: float
    algorithm: str
    cost_model: CostModel

    def columns(self) -> dict[str, Any]:
        """Return the columns that identify the point in its row."""
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
    def family(self) -> tuple[object, ...]:
        """What points that share a schedule have in common."""
        return (self.site.content, self.kind, self.algorithm, self.cost_model)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPoint:
    """One training step of one model by one strategy and algorithm."""

    site: Site
    model: str
    """Name in the experiment."""
    workload: str
    """Name for :func:`load_workload`, with the path of a file resolved."""
    workload_content: str
    """Hash of the user's file; empty for a model of the zoo."""
    batch: int
    """Samples per rank."""
    sequence_length: int | None
    strategy: str
    algorithm: str
    overlap: bool
    cost_model: CostModel

    def columns(self) -> dict[str, Any]:
        """Return the columns that identify the point in its row."""
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
    def family(self) -> tuple[object, ...]:
        """What points that share a traced model have in common."""
        return (self.site.content, self.workload, self.batch, self.sequence_length)


Point = CollectivePoint | PlanPoint


def _columns(site: Site, what: str) -> dict[str, Any]:
    return {"what": what, "site": site.name, "ranks": site.ranks, "settings": site.settings}
