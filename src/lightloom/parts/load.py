"""Parts by name: the catalog, and a user's YAML file."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from lightloom.core.configfile import catalog_file, catalog_files, read_entry, validate
from lightloom.core.errors import ConfigError, UnknownNameError
from lightloom.core.results import Document
from lightloom.parts.part import Kind, Part

CATALOG = Path(__file__).parent / "catalog"


def names() -> list[str]:
    """Return the names in the catalog."""
    return sorted(catalog_files(CATALOG))


def description(name: str) -> Document:
    """Return a catalog entry as written, with its sources."""
    return read_entry(_find(name), "part")


@cache
def load_part(name: str) -> Part:
    """Return a component of the catalog, such as ``transceiver-400g``, or of a YAML file.

    Raises:
        UnknownNameError: neither a catalog name nor a file.
        ConfigError: a field is missing, unknown or out of range.
    """
    path = _find(name)
    where = name if path.is_relative_to(CATALOG) else str(path)
    part: Part = validate(Part, {"name": path.stem, **read_entry(path, "part")}, where)
    return part


def part_of_kind(name: str, kind: Kind, field: str) -> Part:
    """Return a component that a field asks for.

    Raises:
        ConfigError: it is of another kind.
    """
    component = load_part(name)
    if component.kind != kind:
        raise ConfigError(f"{field}={name}: a {component.kind}: expected a {kind}, one of {', '.join(names_of(kind))}")
    return component


@cache
def names_of(kind: Kind) -> tuple[str, ...]:
    """Return the names of the catalog's components of one kind."""
    return tuple(name for name in names() if load_part(name).kind == kind)


def _find(name: str) -> Path:
    path = catalog_file(name, CATALOG)
    if path is None:
        raise UnknownNameError("part", name, names())
    return path
