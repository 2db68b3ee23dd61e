"""Transports by name: the catalog, and a user's YAML file."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from lightloom.core.configfile import catalog_file, read_yaml, validate
from lightloom.core.errors import ConfigError, UnknownNameError
from lightloom.transports.base import Transport

CATALOG = Path(__file__).parent / "catalog"


def names() -> list[str]:
    """Names in the catalog: a library, and the architecture that it runs on."""
    return sorted(name for path in CATALOG.glob("*.yaml") for name in _names_in(path))


def _names_in(path: Path) -> list[str]:
    generations = read_yaml(path).get("generations")
    return [f"{path.stem}-{generation}" for generation in generations] if generations else [path.stem]


@cache
def load_transport(name: str) -> Transport:
    """A transport from the catalog, such as ``ideal`` or ``nccl-hopper``, or from a YAML file.

    Raises:
        UnknownNameError: neither a catalog name nor a file.
        ConfigError: a field is missing, unknown or out of range.
    """
    library, _, generation = name.rpartition("-")
    path = catalog_file(name, CATALOG)
    if path is None and library and (CATALOG / f"{library}.yaml").is_file():
        return _of_generation(read_yaml(CATALOG / f"{library}.yaml"), name, generation)
    if path is None or (path.parent == CATALOG and name not in names()):
        raise UnknownNameError("transport", name, names())
    data = read_yaml(path)
    if "generations" in data:
        raise ConfigError(f"{path}: several generations: expected one, as field 'generation'")
    transport: Transport = validate(Transport, {"name": path.stem, **data}, name)
    return transport


def _of_generation(data: dict[str, Any], name: str, generation: str) -> Transport:
    generations = data.pop("generations", {})
    if generation not in generations:
        raise UnknownNameError("transport", name, names())
    transport: Transport = validate(Transport, {**data, "name": name, "generation": generations[generation]}, name)
    return transport
