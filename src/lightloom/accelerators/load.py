"""Accelerators by name: the catalog, plug-ins, a user's YAML file, or a mapping written in place."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightloom.accelerators.base import Accelerator
from lightloom.core.configfile import catalog_file, read_yaml, validate
from lightloom.core.errors import ConfigError, UnknownNameError
from lightloom.core.plugins import load_plugins

CATALOG = Path(__file__).parent / "catalog"


def names() -> list[str]:
    """Names in the catalog, plug-ins included."""
    return sorted({path.stem for path in CATALOG.glob("*.yaml")} | load_plugins("accelerators").keys())


def description(name: str) -> dict[str, Any]:
    """A catalog entry (or a YAML file, when ``name`` ends in ``.yaml``) as written, with its sources.

    Raises:
        UnknownNameError: neither a catalog name nor a file.
        ConfigError: the file cannot be read, or a plug-in registered something else than an ``Accelerator``.
    """
    path = catalog_file(name, CATALOG)
    if path is not None:
        return read_yaml(path)
    registered = load_plugins("accelerators")
    if name not in registered:
        raise UnknownNameError("accelerator", name, names())
    found = registered[name]
    if not isinstance(found, Accelerator):
        raise ConfigError(f"plug-in accelerator {name!r}: expected an Accelerator, got {type(found).__name__}")
    return found.model_dump()


def load_accelerator(choice: str | Mapping[str, Any]) -> Accelerator:
    """An accelerator from the catalog, a YAML file or a mapping of its fields.

    Raises:
        UnknownNameError: neither a catalog name nor a file.
        ConfigError: a field is missing, unknown or out of range.
    """
    if not isinstance(choice, str):
        return accelerator_from(choice, where="accelerator")
    return accelerator_from({"name": Path(choice).stem} | description(choice), where=choice)


def accelerator_from(data: Mapping[str, Any], *, where: str) -> Accelerator:
    """Build an accelerator from the mapping that a YAML file holds."""
    built: Accelerator = validate(Accelerator, {k: v for k, v in data.items() if k != "description"}, where)
    return built
