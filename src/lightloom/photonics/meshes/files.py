"""Files of meshes: phases as JSON, or as npz for large meshes. Meshes are validated when they are read."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lightloom.core.errors import ConfigError
from lightloom.core.files import write_atomically
from lightloom.photonics.archives import read_arrays
from lightloom.photonics.devices import CONVENTION
from lightloom.photonics.meshes.layout import KINDS
from lightloom.photonics.meshes.mapping import MappedMatrix
from lightloom.photonics.meshes.mesh import Mesh

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMA = "lightloom.mesh/1"
MAPPED_SCHEMA = "lightloom.mapped-matrix/1"
ORDER = "by column, then by mode"
_PHASES = ("theta", "phi", "output_phases")
_MAPPED_KEYS = ("schema", "shape", "gain", "attenuations", "input_mesh", "output_mesh")
_KEYS = ("schema", "convention", "order", "kind", "inputs", "outputs", *_PHASES)


def document(mesh: Mesh) -> dict[str, Any]:
    """Return a mesh as a JSON object: schema, convention, order of the MZIs, kind, sizes, phases in radians."""
    return {
        "schema": SCHEMA,
        "convention": CONVENTION,
        "order": ORDER,
        "kind": mesh.kind,
        "inputs": mesh.inputs,
        "outputs": mesh.outputs,
        **{name: getattr(mesh, name).tolist() for name in _PHASES},
    }


def mesh_of(content: Mapping[str, Any], source: str = "mesh") -> Mesh:
    """Return the mesh that a document describes.

    Raises:
        ConfigError: the schema, convention or order differs, a key is missing or unknown, or phases do not fit.
    """
    if not hasattr(content, "keys"):
        raise ConfigError(f"{source}: expected an object with {', '.join(_KEYS)}")
    missing, unknown = sorted(set(_KEYS) - set(content)), sorted(set(content) - set(_KEYS))
    if missing or unknown:
        raise ConfigError(f"{source}: missing {missing or 'nothing'}, unknown {unknown or 'nothing'}")
    for name, expected_value in (("schema", SCHEMA), ("convention", CONVENTION), ("order", ORDER)):
        if content[name] != expected_value:
            raise ConfigError(f"{source}: {name} {content[name]!r}, expected {expected_value!r}")
    if content["kind"] not in KINDS:
        raise ConfigError(f"{source}: kind {content['kind']!r}, expected one of {', '.join(KINDS)}")
    for name in ("inputs", "outputs"):
        if type(content[name]) is not int or content[name] < 1:
            raise ConfigError(f"{source}: {name} {content[name]!r}, expected a whole number of at least 1")
    phases = {}
    for name in _PHASES:
        try:
            phases[name] = np.asarray(content[name], np.float64)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{source}: {name}, expected a list of numbers") from error
        if phases[name].ndim != 1:
            raise ConfigError(f"{source}: {name} of shape {phases[name].shape}, expected a list of numbers")
    size, lit = max(content["inputs"], content["outputs"]), min(content["inputs"], content["outputs"])
    expected = {"theta": (mzis := lit * (2 * size - lit - 1) // 2), "phi": mzis, "output_phases": content["outputs"]}
    for name, count in expected.items():  # before a forged size allocates memory
        if phases[name].size != count:
            raise ConfigError(f"{source}: {phases[name].size} numbers in {name}, expected {count}")
    try:
        return Mesh(kind=content["kind"], inputs=content["inputs"], outputs=content["outputs"], **phases)
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from error


def mapped_document(mapped: MappedMatrix) -> dict[str, Any]:
    """Return a mapped matrix as a JSON object: shape, gain, attenuations, and its meshes (null without output mesh)."""
    return {
        "schema": MAPPED_SCHEMA,
        "shape": list(mapped.shape),
        "gain": mapped.gain,
        "attenuations": mapped.attenuations.tolist(),
        "input_mesh": document(mapped.input_mesh),
        "output_mesh": document(mapped.output_mesh) if mapped.output_mesh else None,
    }


def mapped_of(content: Mapping[str, Any], source: str = "mapped matrix") -> MappedMatrix:
    """Return the mapped matrix that a document describes.

    Raises:
        ConfigError: the schema differs, a key is missing or unknown, or meshes do not fit.
    """
    if not hasattr(content, "keys") or set(content) != set(_MAPPED_KEYS) or content["schema"] != MAPPED_SCHEMA:
        raise ConfigError(f"{source}: expected an object of schema {MAPPED_SCHEMA!r} with {', '.join(_MAPPED_KEYS)}")
    input_mesh = mesh_of(content["input_mesh"], f"{source}: input_mesh")
    output_mesh = content["output_mesh"] and mesh_of(content["output_mesh"], f"{source}: output_mesh")
    try:
        outputs, inputs = (int(size) for size in content["shape"])
        attenuations, gain = np.asarray(content["attenuations"], np.float64), float(content["gain"])
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{source}: shape, gain and attenuations, expected numbers") from error
    try:
        return MappedMatrix(
            shape=(outputs, inputs),
            input_mesh=input_mesh,
            attenuations=attenuations,
            output_mesh=output_mesh,
            gain=gain,
        )
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from error


def save(mesh: Mesh, path: Path) -> Path:
    """Write a ``.json`` or ``.npz`` file atomically.

    Raises:
        ConfigError: the suffix is another one, or the file cannot be written.
    """
    content = document(mesh)
    if path.suffix == ".json":
        return write_atomically(path, json.dumps(content, allow_nan=False) + "\n")
    if path.suffix == ".npz":
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **{name: np.asarray(value) for name, value in content.items()})
        return write_atomically(path, buffer.getvalue())
    raise ConfigError(f"{str(path)!r}: expected a name that ends in .json or .npz")


def load(path: Path, *, like: Mesh | None = None) -> Mesh:
    """Read a file that :func:`save` wrote; with ``like``, refuse phases of another mesh.

    Raises:
        ConfigError: the file cannot be read, has another schema, or is of another mesh.
    """
    source = repr(str(path))
    if path.suffix not in (".json", ".npz"):
        raise ConfigError(f"{source}: expected a name that ends in .json or .npz")
    try:
        content = json.loads(path.read_text()) if path.suffix == ".json" else _phases(path, source)
    except OSError as error:
        raise ConfigError(f"{source}: {error.strerror or 'cannot be read'}") from error
    except ValueError as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{source}: not a .json file of phases") from error
    mesh = mesh_of(content, source)
    if like is not None and (mesh.kind, mesh.inputs, mesh.outputs) != (like.kind, like.inputs, like.outputs):
        raise ConfigError(
            f"{source}: phases of a {mesh.kind} mesh from {mesh.inputs} to {mesh.outputs} modes, "
            f"expected a {like.kind} one from {like.inputs} to {like.outputs}"
        )
    return mesh


def _phases(path: Path, source: str) -> dict[str, Any]:
    content = read_arrays(path)
    try:
        return {name: value if name in _PHASES else value.item() for name, value in content.items()}
    except ValueError as error:
        raise ConfigError(f"{source}: not an .npz file of phases") from error
