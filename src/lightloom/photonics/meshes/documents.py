"""Meshes and mapped matrices as JSON objects, which are validated when they are read.

Version 1 of a mapped matrix has one ``gain`` for all outputs, version 2 has ``gains``, one for each. Both are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lightloom.core.errors import ConfigError, InputError
from lightloom.photonics.devices import CONVENTION
from lightloom.photonics.meshes.mapping import MappedMatrix
from lightloom.photonics.meshes.mesh import Mesh

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMA = "lightloom.mesh/1"
MAPPED_SCHEMA = "lightloom.mapped-matrix/2"
FIRST_MAPPED_SCHEMA = "lightloom.mapped-matrix/1"
ORDER = "by column, then by mode"
_HEADER = {"schema": SCHEMA, "convention": CONVENTION, "order": ORDER}
_FIELDS = ("kind", "inputs", "outputs", "theta", "phi", "output_phases")
_MAPPED_KEYS = ("schema", "shape", "gains", "attenuations", "input_mesh", "output_mesh")
_FIRST_MAPPED_KEYS = ("schema", "shape", "gain", "attenuations", "input_mesh", "output_mesh")


def document(mesh: Mesh) -> dict[str, Any]:
    """Return a mesh as a JSON object: schema, convention, order of the MZIs, kind, sizes, phases in radians."""
    phases = {name: getattr(mesh, name).tolist() for name in ("theta", "phi", "output_phases")}
    return {**_HEADER, "kind": mesh.kind, "inputs": mesh.inputs, "outputs": mesh.outputs, **phases}


def mesh_of(content: Mapping[str, Any], source: str = "mesh") -> Mesh:
    """Return the mesh that a document describes.

    Raises:
        ConfigError: the schema, convention or order differs, a key is missing or unknown, or phases do not fit.
    """
    keys = {*_HEADER, *_FIELDS}
    if not hasattr(content, "keys"):
        raise ConfigError(f"{source}: expected an object with {', '.join([*_HEADER, *_FIELDS])}")
    missing, unknown = sorted(keys - set(content)), sorted(set(content) - keys)
    if missing or unknown:
        raise ConfigError(f"{source}: missing {missing or 'nothing'}, unknown {unknown or 'nothing'}")
    for name, expected in _HEADER.items():
        if content[name] != expected:
            raise ConfigError(f"{source}: {name} {content[name]!r}, expected {expected!r}")
    try:
        return Mesh(**{name: content[name] for name in _FIELDS})
    except InputError as error:
        raise ConfigError(f"{source}: {error}") from error


def mapped_document(mapped: MappedMatrix) -> dict[str, Any]:
    """Return a mapped matrix as a JSON object: shape, gains, attenuations, meshes (null without output mesh)."""
    return {
        "schema": MAPPED_SCHEMA,
        "shape": list(mapped.shape),
        "gains": mapped.gains.tolist(),
        "attenuations": mapped.attenuations.tolist(),
        "input_mesh": document(mapped.input_mesh),
        "output_mesh": document(mapped.output_mesh) if mapped.output_mesh else None,
    }


def mapped_of(content: Mapping[str, Any], source: str = "mapped matrix") -> MappedMatrix:
    """Return the mapped matrix that a document describes.

    Raises:
        ConfigError: the schema differs, a key is missing or unknown, or meshes do not fit.
    """
    schema = content["schema"] if hasattr(content, "keys") and "schema" in content else None
    keys = _FIRST_MAPPED_KEYS if schema == FIRST_MAPPED_SCHEMA else _MAPPED_KEYS
    if schema not in (MAPPED_SCHEMA, FIRST_MAPPED_SCHEMA) or set(content) != set(keys):
        raise ConfigError(f"{source}: expected an object of schema {MAPPED_SCHEMA!r} with {', '.join(_MAPPED_KEYS)}")
    input_mesh = mesh_of(content["input_mesh"], f"{source}: input_mesh")
    output_mesh = content["output_mesh"] and mesh_of(content["output_mesh"], f"{source}: output_mesh")
    try:
        outputs, inputs = (int(size) for size in content["shape"])
        if schema == FIRST_MAPPED_SCHEMA:
            # The array is as long as what is there, so that a forged shape allocates nothing.
            mesh = output_mesh or input_mesh
            gains = np.full(mesh.outputs, float(content["gain"]))
        else:
            gains = np.asarray(content["gains"], np.float64)
        return MappedMatrix(
            shape=(outputs, inputs),
            input_mesh=input_mesh,
            attenuations=np.asarray(content["attenuations"], np.float64),
            output_mesh=output_mesh,
            gains=gains,
        )
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from error
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{source}: shape, gains and attenuations, expected numbers") from error
