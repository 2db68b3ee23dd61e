"""A cluster: ranks of one accelerator on one fabric, and how jobs train there unless they say otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from lightloom.accelerators.base import Accelerator
from lightloom.clusters.settings import TrainingSettings
from lightloom.core.fields import Config, FewRanks
from lightloom.core.results import Result
from lightloom.fabrics.base import Fabric


def _name_or_mapping(value: Any) -> Any:
    if isinstance(value, str | Accelerator) or (
        isinstance(value, Mapping) and all(isinstance(key, str) for key in value)
    ):
        return value
    raise ValueError("expected a catalog name, a .yaml file or a mapping of fields")


Part = Annotated[Any, AfterValidator(_name_or_mapping)]
"""A catalog name, a ``.yaml`` file (relative to the cluster's), a mapping of all fields, or ``base:`` and what
differs."""


class ClusterFile(Config):
    """What a cluster's YAML file may say; the parts are read once the number of ranks is known."""

    description: str = ""
    """One line for people."""
    ranks: FewRanks
    """Number of accelerators."""
    accelerator: Part
    """What a rank computes on."""
    fabric: Part
    """What joins the ranks."""
    reference: Part | None = None
    """An electrical fabric that reports set beside it."""
    training: TrainingSettings = Field(default_factory=TrainingSettings)
    """How jobs train here unless they say otherwise."""
    sources: dict[str, str] = Field(default_factory=dict)
    """Where each value comes from, by field name (``training.precision`` for one setting)."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Cluster(Result):
    """A cluster, every part read and checked."""

    name: str
    ranks: int
    accelerator: Accelerator
    fabric: Fabric
    reference: Fabric | None = None
    """An electrical fabric with as many ranks."""
    training: TrainingSettings = field(default_factory=TrainingSettings)
    description: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def counted_ranks(self) -> str:
        """``1 rank``, ``1,024 ranks``."""
        return f"{self.ranks:,} rank{'s' if self.ranks > 1 else ''}"

    def summary(self) -> str:
        return f"{self.name}: {self.ranks} × {self.accelerator.name} on a {self.fabric.kind_name}"

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "description": self.description,
            "ranks": self.ranks,
            "accelerator": self.accelerator.model_dump(mode="json"),
            "fabric": self.fabric.model_dump(mode="json"),
            "reference": None if self.reference is None else self.reference.model_dump(mode="json"),
            "training": self.training.model_dump(mode="json"),
            "sources": dict(self.sources),
        }
