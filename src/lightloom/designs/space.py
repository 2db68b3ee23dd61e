"""The designs that are searched: families of fabrics, each with lists of values for some of its fields.

    families:
      - name: fat tree
        technology: electrical
        fabric: fat-tree-400g
        set: {tiers.spine.ports: [32, 16, 8]}

A family stands for the product of its lists, on every number of ranks that is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from lightloom.clusters.base import Cluster
from lightloom.clusters.load import cluster_from
from lightloom.core.configfile import read_yaml, validate
from lightloom.core.errors import ConfigError
from lightloom.core.fields import Config, Dollars
from lightloom.sweeps.experiment import Several, Text

Technology = Literal["electrical", "optical"]
DEFAULT = Path(__file__).parent / "spaces" / "default.yaml"


class Family(Config):
    """Fabrics that differ in the values of some fields."""

    name: Text
    technology: Technology
    """What carries data between nodes: packet switches, or light that passes no packet switch."""
    fabric: Any
    """A fabric of the catalog, a YAML file, or a mapping of fields, as in a cluster's file."""
    set: dict[Text, Several[Any]] = Field(default_factory=dict)
    """Fields of the fabric, and the values that they take."""
    fabric_price: Dollars | None = None
    """Dollars of the fabric for each rank, in place of those of its parts. Null: from its bill."""


class DesignSpace(Config):
    """What a YAML file of designs says."""

    description: str = ""
    """One line for people."""
    assumptions: tuple[Text, ...] = ()
    """What holds for all designs and no source states; printed with the results."""
    families: tuple[Family, ...]

    def designs(self, ranks: Sequence[int], accelerator: str, folder: Path) -> Iterator[Design]:
        """Yield every design of these numbers of ranks; files that fabrics name lie relative to ``folder``."""
        for family, count in product(self.families, ranks):
            for values in product(*family.set.values()):
                yield Design(
                    family=family.name,
                    technology=family.technology,
                    fabric=family.fabric,
                    ranks=count,
                    accelerator=accelerator,
                    folder=str(folder),
                    settings=dict(zip(family.set, values, strict=True)),
                    fabric_price=family.fabric_price,
                    shown=tuple(name for name, several in family.set.items() if len(several) > 1),
                )


def read_space(path: Path | None = None) -> DesignSpace:
    """Read a space of designs from a YAML file; the default one without it.

    Raises:
        ConfigError: unreadable, a field is unknown, missing or malformed, or two families have one name.
    """
    path = path or DEFAULT
    where = path.stem if path == DEFAULT else str(path)
    space: DesignSpace = validate(DesignSpace, read_yaml(path), where)
    names = [family.name for family in space.families]
    if not names:
        raise ConfigError(f"{where}: no families: expected at least one")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"{where}: two families are named {twice!r}: expected different names")
    return space


@dataclass(frozen=True, kw_only=True)
class Design:
    """One fabric with all its fields, and how many ranks of which accelerator it joins."""

    family: str
    technology: Technology
    fabric: Any
    ranks: int
    accelerator: str
    folder: str
    """Folder to which files that the fabric names are relative."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    fabric_price: float | None = None
    """Dollars of the fabric for each rank, in place of those of its parts; None: from its bill."""
    shown: tuple[str, ...] = ()
    """Fields in which the designs of the family differ."""

    @property
    def name(self) -> str:
        """The family, and the values of the fields in which its designs differ."""
        values = ", ".join(f"{field.rpartition('.')[2]} {self.settings[field]}" for field in self.shown)
        return f"{self.family}: {values}" if values else self.family

    @property
    def key(self) -> str:
        """A text that no other design of the space has."""
        return f"{self.ranks} ranks, {self.family}: {sorted(self.settings.items())}"

    def cluster(self) -> Cluster:
        """Return the cluster.

        Raises:
            InputError: the fabric does not have so many ranks, or a value is out of range.
        """
        data = {"ranks": self.ranks, "accelerator": self.accelerator, "fabric": self.fabric}
        settings = {f"fabric.{name}": value for name, value in self.settings.items()}
        return cluster_from(data, settings, name=self.name, where=f"design {self.name!r}", folder=Path(self.folder))
