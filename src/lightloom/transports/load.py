"""Transports by name: the catalog, and a user's YAML file."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator

from lightloom.core.configfile import catalog_file, read_yaml, validate
from lightloom.core.errors import ConfigError, LightloomError, UnknownNameError
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


def _named(value: object) -> object:
    """A transport by its name or file, or what differs from one: ``{base: nccl-hopper, scales: {latency: 0.9}}``."""
    name = value.get("base") if isinstance(value, Mapping) else value
    if not isinstance(name, str):
        return value
    try:
        base = load_transport(name)
    except LightloomError as error:
        raise ValueError(str(error)) from error
    if not isinstance(value, Mapping):
        return base
    changes = {key: part for key, part in value.items() if key != "base"}
    below = base.model_dump()
    return {**below, **{key: _over(below.get(key), part) for key, part in changes.items()}}


def _over(below: object, value: object) -> object:
    return {**below, **value} if isinstance(below, Mapping) and isinstance(value, Mapping) else value


NamedTransport = Annotated[
    Transport, BeforeValidator(_named, json_schema_input_type=str | Transport | Mapping[str, object])
]
"""A transport as files of fabrics state it: a name of the catalog, a YAML file, or fields over a ``base``."""
