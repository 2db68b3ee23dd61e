"""Published logs of interruptions, by name: how many a number of ranks had in a number of days, and by what cause."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from lightloom.core.configfile import catalog_file, catalog_files, read_yaml, validate
from lightloom.core.errors import UnknownNameError
from lightloom.core.fields import Config, Count

CATALOG = Path(__file__).parent / "catalog"
Group = Literal["accelerator", "host", "network", "software", "all"]
"""What an interruption comes from; ``all`` where a log does not tell causes apart."""
_Interruptions = Annotated[float, Field(ge=0)]


class InterruptionLog(Config):
    """Interruptions of jobs, as published or as a user's own YAML file counts them."""

    name: str
    description: str = ""
    """One line for people."""
    ranks: Count
    """Accelerators observed."""
    days: Annotated[float, Field(gt=0)]
    """Days for which they were observed."""
    interruptions: Annotated[dict[Group, dict[str, _Interruptions]], Field(min_length=1)]
    """Interruptions by group and cause."""
    sources: dict[str, str] = Field(default_factory=dict)
    """Where each field's value comes from."""

    @property
    def source(self) -> str:
        """Where the counts come from."""
        return self.sources.get("interruptions", f"the file {self.name}")

    @property
    def total(self) -> float:
        """Interruptions of every cause."""
        return sum(sum(rows.values()) for rows in self.interruptions.values())

    def rate(self, group: Group) -> float:
        """Return the interruptions of a group a second, per rank."""
        return sum(self.interruptions.get(group, {}).values()) / (self.ranks * self.days * 86400)


def names() -> list[str]:
    """Return the names in the catalog."""
    return sorted(catalog_files(CATALOG))


def load_log(name: str) -> InterruptionLog:
    """Return a log of the catalog or of a YAML file.

    Raises:
        UnknownNameError: neither a catalog name nor a file.
        ConfigError: a field is missing, unknown or out of range.
    """
    path = catalog_file(name, CATALOG)
    if path is None:
        raise UnknownNameError("log of interruptions", name, names(), "or a .yaml file")
    where = name if path.is_relative_to(CATALOG) else str(path)
    log: InterruptionLog = validate(InterruptionLog, {"name": path.stem, **read_yaml(path)}, where)
    return log
