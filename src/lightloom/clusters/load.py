"""Clusters by name: the catalog, a user's YAML file, and single fields set on top."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightloom.clusters.astra_sim import cluster_fields, is_network, read_network
from lightloom.clusters.base import Cluster, ClusterFile
from lightloom.clusters.ns3 import read_topology
from lightloom.clusters.parts import Place, build_accelerator, build_fabric, with_software
from lightloom.core.configfile import catalog_file, catalog_files, read_entry, validate, with_settings
from lightloom.core.errors import ConfigError, UnknownNameError
from lightloom.core.forms import expected_forms, looks_like_file, recognise

CATALOG = Path(__file__).parent / "catalog"


def names() -> list[str]:
    """Names in the catalog."""
    return sorted(catalog_files(CATALOG))


def description(name: str) -> dict[str, Any]:
    """A catalog entry as written, with its sources.

    Raises:
        UnknownNameError: neither a catalog name nor a file.
    """
    return read_entry(_find(name), "cluster")


def load_cluster(name: str | Path, settings: Mapping[str, Any] | None = None) -> Cluster:
    """A cluster from the catalog or a YAML file, with single fields replaced.

    ``settings`` maps fields to values; a dot reaches into a part, or into an entry of a list: ``{"ranks": 16,
    "fabric.wavelengths": 128, "training.batch_per_rank": 8, "fabric.tiers.rail.ports": 4}``. Parts as a whole
    (``{"accelerator": "my-a100.yaml"}``) are set before what reaches into them; their files lie relative to the working
    directory.

    Raises:
        UnknownNameError: neither a catalog name nor a file.
        ConfigError: a file of no form that describes a cluster; a field is missing, unknown or out of range: one line
        that names file, field, value, expectation.
    """
    path = _find(str(name))
    where = path.stem if path.is_relative_to(CATALOG) else str(path)
    readers = {".json": read_network, ".txt": read_topology}
    fields = readers[path.suffix](path) if path.suffix in readers else read_entry(path, "cluster")
    if is_network(fields):
        fields = cluster_fields(fields, path)
    if "accelerator" not in fields and "accelerator" not in (settings or {}):
        raise ConfigError(
            f"{where}: field 'accelerator' is missing: expected what the ranks compute on, by --accelerator NAME"
        )
    return cluster_from(fields, settings, name=path.stem, where=where, folder=path.parent)


def cluster_from(
    data: Mapping[str, Any],
    settings: Mapping[str, Any] | None = None,
    *,
    name: str,
    where: str | None = None,
    folder: Path | None = None,
) -> Cluster:
    """Build a cluster from the mapping that a YAML file holds; files that it names lie relative to ``folder``."""
    where = where or name
    folder = folder or Path()
    given = {
        key: str(Path(value).resolve()) if _names_file(key, value) else value for key, value in (settings or {}).items()
    }
    fields = with_settings(data, given, where, _NAMED)
    file: ClusterFile = validate(ClusterFile, fields, where)
    accelerator = build_accelerator(file.accelerator, Place(where, "accelerator", folder))
    fabric = build_fabric(file.fabric, file.ranks, Place(where, "fabric", folder))
    fabric = with_software(fabric, file.fabric, accelerator)
    reference = None
    if file.reference is not None:
        reference = build_fabric(file.reference, file.ranks, Place(where, "reference", folder))
        # Beside a fabric whose software is free, that of its reference is too.
        reference = reference if fabric.library is None else with_software(reference, file.reference, accelerator)
    return Cluster(
        name=name,
        description=file.description,
        ranks=file.ranks,
        accelerator=accelerator,
        fabric=fabric,
        reference=reference,
        training=file.training,
        sources=file.sources,
    )


_NAMED = ("accelerator", "fabric", "reference", "transport")
"""Fields whose value may be a name."""
_FILES = ("accelerator", "fabric", "reference", "fabric.links")
"""Fields that may name a file."""


def _names_file(key: str, value: Any) -> bool:
    """Whether a setting names a file."""
    return key in _FILES and isinstance(value, str | Path) and Path(value).suffix in (".yaml", ".yml", ".json", ".txt")


def _find(name: str) -> Path:
    path = catalog_file(name, CATALOG)
    if path is None:
        if looks_like_file(name):
            recognise(Path(name), "cluster")
            return Path(name)
        raise UnknownNameError("cluster", name, names(), f"or a file: {expected_forms('cluster')}")
    return path
