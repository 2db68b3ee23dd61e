"""Files of all meshes of a network, by part: JSON, or npz for large meshes.

    {"schema", "parts": [{"name", "shape", "blocks": [a mesh, or a mapped matrix, ...], "waveguides"}, ...]}

``waveguides`` says which outputs and inputs of the matrix those of every block are; it is there if the blocks are not
squares along the longer side. Version 1 of the schema, with one gain for all outputs of a matrix, is read too.
An ``.npz`` file holds the same document as ``document``, with lists of numbers replaced by ``{"array": name}``.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lightloom.core.array_files import read_npz
from lightloom.core.arrays import Ints
from lightloom.core.documents import MOST_TRACE_BYTES, load_json, parse_json
from lightloom.core.errors import ConfigError, InputError
from lightloom.core.files import write_atomically
from lightloom.photonics.devices import CONVENTION
from lightloom.photonics.meshes.mapping import MappedBlocks, MappedMatrix, square_blocks
from lightloom.photonics.meshes.mesh import Mesh

# Meshes and mapped matrices as JSON objects, which are validated when they are read.
#
# Version 1 of a mapped matrix has one ``gain`` for all outputs, version 2 has ``gains``, one for each. Both are read.

MESH_SCHEMA = "lightloom.mesh/1"
MAPPED_SCHEMA = "lightloom.mapped-matrix/2"
FIRST_MAPPED_SCHEMA = "lightloom.mapped-matrix/1"
ORDER = "by column, then by mode"
_HEADER = {"schema": MESH_SCHEMA, "convention": CONVENTION, "order": ORDER}
_FIELDS = ("kind", "inputs", "outputs", "theta", "phi", "output_phases")
_MAPPED_KEYS = ("schema", "shape", "gains", "attenuations", "input_mesh", "output_mesh")


def document(mesh: Mesh) -> dict[str, Any]:
    """Return a mesh as a JSON object: ``schema``, ``convention`` and ``order`` of the MZIs, ``kind``, numbers of
    ``inputs`` and ``outputs``, and lists of phases in radians, ``theta``, ``phi`` and ``output_phases``."""
    phases = {name: getattr(mesh, name).tolist() for name in ("theta", "phi", "output_phases")}
    return {**_HEADER, "kind": mesh.kind, "inputs": mesh.inputs, "outputs": mesh.outputs, **phases}


def mesh_of(content: Mapping[str, Any], source: str = "mesh") -> Mesh:
    """Return the mesh that a JSON object of `document` describes; ``source`` starts the messages of errors.

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
    """Return a mapped matrix as a JSON object: ``schema``, ``shape`` [outputs, inputs], ``gains`` (factors of
    amplitude), ``attenuations`` (amplitude transmissions), ``input_mesh`` and ``output_mesh``.

    ``output_mesh`` is None in the form sigma-u.
    """
    meshes: dict[str, Any] = {"input_mesh": document(mapped.input_mesh)}
    meshes["output_mesh"] = document(mapped.output_mesh) if mapped.output_mesh else None
    factors = {"gains": mapped.gains.tolist(), "attenuations": mapped.attenuations.tolist()}
    return {"schema": MAPPED_SCHEMA, "shape": list(mapped.shape), **factors, **meshes}


def mapped_of(content: Mapping[str, Any], source: str = "mapped matrix") -> MappedMatrix:
    """Return the mapped matrix that a JSON object of `mapped_document` describes; ``source`` starts the messages of
    errors.

    Objects of version 1, with one ``gain`` for all outputs, are read too.

    Raises:
        ConfigError: the schema differs, a key is missing or unknown, or meshes do not fit.
    """
    schema = content["schema"] if hasattr(content, "keys") and "schema" in content else None
    first = schema == FIRST_MAPPED_SCHEMA
    keys = {"gain" if first and key == "gains" else key for key in _MAPPED_KEYS}
    if schema not in (MAPPED_SCHEMA, FIRST_MAPPED_SCHEMA) or set(content) != keys:
        raise ConfigError(f"{source}: expected an object of schema {MAPPED_SCHEMA!r} with {', '.join(_MAPPED_KEYS)}")
    input_mesh = mesh_of(content["input_mesh"], f"{source}: input_mesh")
    output_mesh = content["output_mesh"] and mesh_of(content["output_mesh"], f"{source}: output_mesh")
    try:
        outputs, inputs = (int(size) for size in content["shape"])
        # The array is as long as what is there, so that a forged shape allocates nothing.
        mesh = output_mesh or input_mesh
        gains = np.full(mesh.outputs, float(content["gain"])) if first else np.asarray(content["gains"], np.float64)
        attenuations = np.asarray(content["attenuations"], np.float64)
        return MappedMatrix((outputs, inputs), input_mesh, attenuations, output_mesh, gains)
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from error
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{source}: shape, gains and attenuations, expected numbers") from error


SCHEMA = "lightloom.phases/2"
SCHEMAS = ("lightloom.phases/1", SCHEMA)
"""Schemas that are read."""
Part = Mesh | MappedMatrix | MappedBlocks


def meshes_of(part: Part) -> dict[str, Mesh]:
    """Return the meshes of a part by name: ``u`` of a single mesh, ``v`` and ``u`` of a mapped matrix.

    A matrix of the form sigma-u has ``u`` alone. For blocks the number of the block, from 1, is appended to the name.
    """
    if isinstance(part, Mesh):
        return {"u": part}
    if isinstance(part, MappedBlocks):
        return {f"{name}{i}": mesh for i, block in enumerate(part.blocks, 1) for name, mesh in meshes_of(block).items()}
    return {"u": part.input_mesh} if part.output_mesh is None else {"v": part.input_mesh, "u": part.output_mesh}


def phases_document(parts: Mapping[str, Part]) -> dict[str, Any]:
    """Return the parts of a network, by name, as a JSON object: its ``schema``, and under ``parts`` a list in the order
    of the mapping of objects with ``name``, ``shape`` [outputs, inputs], ``blocks`` (meshes or mapped matrices) and,
    for blocks that are not squares along the longer side, ``waveguides``.

    That order is the order of the light.
    """
    return {"schema": SCHEMA, "parts": [_part_document(name, part) for name, part in parts.items()]}


def save_phases(parts: Mapping[str, Part], path: Path) -> Path:
    """Write the parts of a network, by name, to a ``.json`` or ``.npz`` file atomically, and return its path.

    Raises:
        ConfigError: the suffix is another one, or the file cannot be written.
    """
    check_phases_name(path)
    content = phases_document(parts)
    if path.suffix == ".json":
        return write_atomically(path, json.dumps(content, allow_nan=False) + "\n")
    arrays: dict[str, NDArray[np.float64]] = {}
    references = _separate_arrays(content, arrays)
    buffer = io.BytesIO()
    np.savez(buffer, document=np.asarray(json.dumps(references)), **arrays)  # type: ignore[arg-type]
    return write_atomically(path, buffer.getvalue())


def check_phases_name(path: Path) -> None:
    """Raise ConfigError unless the name ends in .json or .npz, as :func:`save_phases` and :func:`load_phases` need
    it."""
    if path.suffix not in (".json", ".npz"):
        raise ConfigError(f"{str(path)!r}: expected a name that ends in .json or .npz")


def load_phases(path: Path) -> dict[str, Part]:
    """Read a file that :func:`save_phases` wrote, and return its parts by name in the order of the file; version 1 of
    the schema is read too.

    Raises:
        ConfigError: the file cannot be read, has another suffix or schema, no parts, two parts of one name, or invalid
            meshes.
    """
    check_phases_name(path)
    source = repr(str(path))
    content = _read_json(path) if path.suffix == ".json" else _read_npz(path)
    if not isinstance(content, dict) or content.get("schema") not in SCHEMAS:
        schema = content.get("schema") if isinstance(content, dict) else None
        raise ConfigError(f"{source}: schema {schema!r}, expected {SCHEMA!r}")
    if not isinstance(content.get("parts"), list) or not content["parts"]:
        raise ConfigError(f"{source}: expected a list of parts")
    parts: dict[str, Part] = {}
    for index, part in enumerate(content["parts"]):
        keys = set(part) - {"waveguides"} if isinstance(part, dict) else set()
        if keys != {"name", "shape", "blocks"} or not isinstance(part["name"], str):
            raise ConfigError(f"{source}: part {index}: expected name, shape and blocks")
        if part["name"] in parts:
            raise ConfigError(f"{source}: part {index}: name {part['name']!r} is that of an earlier part")
        parts[part["name"]] = _part_of(part, f"{source}: {part['name']}")
    return parts


def check_belongs(parts: Mapping[str, Part], like: Mapping[str, Part], source: str) -> float:
    """Check that ``parts`` have the names of ``like``, in its order, and the kinds and sizes of its meshes, and return
    how far their matrices differ.

    ``source`` starts the messages of errors.

    Returns:
        The largest difference of a matrix element over all parts, relative to the largest element of the same part's
        matrix in ``like``.

    Raises:
        ConfigError: the parts, or the kind or size of a mesh, differ.
    """
    if list(parts) != list(like):
        raise ConfigError(f"{source}: phases of {', '.join(parts)}, expected {', '.join(like)}")
    largest = 0.0
    for name, part in parts.items():
        outline, expected = _outline(part), _outline(like[name])
        if outline != expected:
            raise ConfigError(f"{source}: {name} has the phases of {outline}, expected {expected}")
        matrix = like[name].matrix()
        difference = float(np.abs(part.matrix() - matrix).max() / max(float(np.abs(matrix).max()), 1e-300))
        largest = max(largest, difference)
    return largest


def _outline(part: Part) -> str:
    """Return the kind and size of every mesh of a part in words, joined by ``and``: ``a rectangular mesh from 4 to 4
    modes``."""
    sizes = [f"a {mesh.kind} mesh from {mesh.inputs} to {mesh.outputs} modes" for mesh in meshes_of(part).values()]
    return " and ".join(sizes)


def _part_document(name: str, part: Part) -> dict[str, Any]:
    """Return a part as a JSON object: ``name``, ``shape`` [outputs, inputs], the list of ``blocks`` (the document of
    the mesh, or those of the mapped matrices), and for blocks that are not squares ``waveguides``, the ``outputs`` and
    ``inputs`` of each."""
    if isinstance(part, Mesh):
        return {"name": name, "shape": [part.outputs, part.inputs], "blocks": [document(part)]}
    content = {"name": name, "shape": list(part.shape), "blocks": [mapped_document(block) for block in part.blocks]}
    if isinstance(part, MappedBlocks) and not _are_squares(part.blocks, part.shape):
        guides = zip(part.outputs, part.inputs, strict=True)
        content["waveguides"] = [{"outputs": rows.tolist(), "inputs": columns.tolist()} for rows, columns in guides]
    return content


def _are_squares(blocks: Sequence[MappedMatrix], shape: tuple[int, int]) -> bool:
    """Return True where blocks are the squares of ``sigma-u`` that cover a matrix of ``shape`` along its longer side.

    Each must be a single mesh as wide as the shorter side, and there must be as many as cover the longer one.
    """
    side, most = sorted(shape)
    alone = all(block.output_mesh is None and block.shape == (side, side) for block in blocks)
    return alone and len(blocks) == -(-most // side)


def _part_of(content: Mapping[str, Any], source: str) -> Part:
    """Return the part that an object of a file describes: a mesh, a mapped matrix, or blocks.

    Raises:
        ConfigError: its blocks, shape or waveguides are invalid or do not fit together; ``source`` starts the message.
    """
    blocks, shape = content["blocks"], content["shape"]
    if not isinstance(blocks, list) or not (blocks or "waveguides" in content):
        raise ConfigError(f"{source}: expected a list of meshes")
    if not (isinstance(shape, list) and len(shape) == 2 and all(type(n) is int and n > 0 for n in shape)):
        raise ConfigError(f"{source}: shape {shape!r}, expected two whole numbers")
    if blocks and isinstance(blocks[0], dict) and blocks[0].get("schema") == MESH_SCHEMA:
        mesh = mesh_of(blocks[0], source)
        if len(blocks) > 1 or "waveguides" in content:
            raise ConfigError(f"{source}: a whole mesh, expected no other blocks and no waveguides")
        if [mesh.outputs, mesh.inputs] == shape:
            return mesh
    else:
        mapped = tuple(mapped_of(block, f"{source}: mesh {index}") for index, block in enumerate(blocks, 1))
        if "waveguides" in content:
            return _blocks_of(content["waveguides"], mapped, (shape[0], shape[1]), source)
        if len(mapped) == 1 and mapped[0].shape == tuple(shape):
            return mapped[0]
        if _are_squares(mapped, (shape[0], shape[1])):
            return square_blocks((shape[0], shape[1]), mapped)
    raise ConfigError(f"{source}: its meshes do not make a matrix of {shape[0]} x {shape[1]}")


def _blocks_of(waveguides: Any, blocks: tuple[MappedMatrix, ...], shape: tuple[int, int], source: str) -> MappedBlocks:
    """Return blocks of a matrix of ``shape`` with the outputs and inputs that a file lists for each in ``waveguides``.

    ``source`` starts the messages of errors.

    Raises:
        ConfigError: the waveguides are no lists of whole numbers, or do not fit the blocks and the shape.
    """
    sides: dict[str, list[Ints]] = {"outputs": [], "inputs": []}
    for index, guides in enumerate(waveguides if isinstance(waveguides, list) else [None], 1):
        for name, lists in sides.items():
            numbers = guides.get(name) if isinstance(guides, dict) and set(guides) == set(sides) else None
            if not isinstance(numbers, list) or not all(type(number) is int for number in numbers):
                raise ConfigError(f"{source}: waveguides {index}: expected lists of whole numbers, outputs and inputs")
            lists.append(np.asarray(numbers, np.int64))
    try:
        return MappedBlocks(shape=shape, blocks=blocks, outputs=tuple(sides["outputs"]), inputs=tuple(sides["inputs"]))
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from error


def _separate_arrays(content: Any, arrays: dict[str, NDArray[np.float64]]) -> Any:
    """Return JSON ``content`` with every list of floats replaced by ``{"array": name}``, and add the lists to
    ``arrays``.

    They are added as arrays ``array_0``, ``array_1``, ...; an empty list counts as one of floats.
    """
    if isinstance(content, dict):
        return {key: _separate_arrays(value, arrays) for key, value in content.items()}
    if isinstance(content, list) and all(isinstance(item, float) for item in content):
        name = f"array_{len(arrays)}"
        arrays[name] = np.asarray(content, np.float64)
        return {"array": name}
    return [_separate_arrays(item, arrays) for item in content] if isinstance(content, list) else content


def _restore_arrays(content: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """Return ``content`` with every ``{"array": name}`` replaced by the array of that name as a list of numbers.

    Raises:
        KeyError: an array is missing.
    """
    if isinstance(content, dict):
        if set(content) == {"array"}:
            return arrays[content["array"]].tolist()
        return {key: _restore_arrays(value, arrays) for key, value in content.items()}
    return [_restore_arrays(item, arrays) for item in content] if isinstance(content, list) else content


def _read_json(path: Path) -> Any:
    """Return the document of a ``.json`` file.

    Raises:
        ConfigError: it cannot be read or is above 8 GiB.
    """
    try:
        return load_json(path, MOST_TRACE_BYTES)
    except ConfigError as error:
        raise ConfigError(f"{error}: expected a .json file of phases") from error


def _read_npz(path: Path) -> Any:
    """Return the document of an ``.npz`` file with its arrays as lists.

    Raises:
        ConfigError: it cannot be read, or lacks the document or an array.
    """
    arrays = read_npz(path)
    try:
        return _restore_arrays(parse_json(str(arrays["document"]), str(path)), arrays)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"{str(path)!r}: not a .npz file of phases") from error


# Export a mesh as a netlist for SAX, the S-parameter simulator; `chip.netlist` has ``models``, and whole chips.
#
# circuit, info = sax.circuit(netlist=netlist(mesh), models=models())
# circuit(wl=1.55)["in0", "out3"]
#
# Light enters at ``in0``, ``in1``, ... and leaves at ``out0``, ...; dark modes are not connected.


def netlist(mesh: Mesh) -> dict[str, Any]:
    """Return the netlist of a mesh for SAX: instances, connections and ports by name.

    Instances are ``mzi_<column>_<mode>``, of the component ``mzi`` with ``theta`` and ``phi``, and ``phase_<mode>`` at
    the outputs, of the component ``phase``; phases are in radians. Connections go from ``<instance>,out0`` or ``out1``
    (upper or lower waveguide) to ``<instance>,in0`` or ``in1``. Ports are ``in0``, ... and ``out0``, ..., a mode each,
    with what they lead to; dark inputs are not connected.
    """
    mesh_layout, ends = mesh.layout, dict[int, str]()
    instances: dict[str, Any] = {}
    connections, ports = dict[str, str](), dict[str, str]()

    def join(mode: int, port: str) -> None:
        """Connect ``port`` to the end of its mode so far, or make it the mode's input; in a dark mode do nothing."""
        if mode in ends:
            connections[ends[mode]] = port
        elif mode < mesh.inputs:
            ports[f"in{mode}"] = port

    for mode, column, theta, phi in zip(mesh_layout.modes, mesh_layout.columns, mesh.theta, mesh.phi, strict=True):
        name = f"mzi_{column}_{mode}"
        instances[name] = {"component": "mzi", "settings": {"theta": float(theta), "phi": float(phi)}}
        for port in (0, 1):
            join(int(mode) + port, f"{name},in{port}")
            ends[int(mode) + port] = f"{name},out{port}"
    for mode, phase in enumerate(mesh.output_phases):
        name = f"phase_{mode}"
        instances[name] = {"component": "phase", "settings": {"phase": float(phase)}}
        join(mode, f"{name},in0")
        ports[f"out{mode}"] = f"{name},out0"
    return {"instances": instances, "connections": connections, "ports": ports}
