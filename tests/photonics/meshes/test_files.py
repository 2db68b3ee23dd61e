"""Phases leave and come back exactly; everything else is refused in one line."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightloom.core.errors import ConfigError, InputError
from lightloom.photonics.chip.netlist import models
from lightloom.photonics.meshes.decompose import decompose
from lightloom.photonics.meshes.drawing import draw
from lightloom.photonics.meshes.files import (
    Part,
    check_belongs,
    document,
    load_phases,
    mapped_document,
    mapped_of,
    netlist,
    phases_document,
    save_phases,
)
from lightloom.photonics.meshes.mapping import map_blocks, map_components, map_matrix
from lightloom.photonics.meshes.mesh import Mesh
from tests.photonics.meshes.strategies import haar


@cache
def meshes() -> tuple[Mesh, ...]:
    """A mesh of one mode, a rectangular and a triangular one."""
    return decompose(haar(1, 0)), decompose(haar(6, 0)), decompose(haar(6, 0)[:, :2], "triangular")


@pytest.fixture(params=range(3))
def mesh(request: pytest.FixtureRequest) -> Mesh:
    number: int = request.param
    return meshes()[number]


@pytest.mark.parametrize("suffix", [".json", ".npz"])
def test_files_round_trip_to_the_bit(mesh: Mesh, suffix: str, tmp_path: Path) -> None:
    read = load_phases(save_phases({"u": mesh}, tmp_path / f"mesh{suffix}"))["u"]
    assert isinstance(read, Mesh)
    assert (read.kind, read.inputs, read.outputs) == (mesh.kind, mesh.inputs, mesh.outputs)
    for name in ("theta", "phi", "output_phases"):
        assert getattr(read, name).tobytes() == getattr(mesh, name).tobytes()


@pytest.mark.parametrize("suffix", [".json", ".npz"])
def test_all_parts_of_a_network_round_trip(suffix: str, tmp_path: Path) -> None:
    weights = np.random.default_rng(0).normal(size=(5, 2))
    parts: dict[str, Part] = {"P": map_matrix(weights), "layer 1": map_blocks(weights), "T": decompose(haar(3, 1))}
    sparse = np.array([[1.0, 0, 0], [0, 0, 2.0], [0, 0, 0], [3.0, 0, 0]])
    parts |= {"layer 2": map_components(sparse), "layer 3": map_components(np.zeros((2, 3)))}
    read = load_phases(save_phases(parts, tmp_path / f"phases{suffix}"))
    assert list(read) == list(parts)
    assert [read[name].matrix().tobytes() for name in parts] == [part.matrix().tobytes() for part in parts.values()]
    assert check_belongs(read, parts, "file") == 0.0
    doubled = parts | {"P": map_matrix(2 * weights / np.linalg.norm(weights, 2))}
    halved = parts | {"P": map_matrix(weights / np.linalg.norm(weights, 2))}
    assert check_belongs(doubled, halved, "file") == pytest.approx(1.0)


def test_a_file_that_names_two_parts_alike_is_refused(tmp_path: Path) -> None:
    path = save_phases({"U": decompose(haar(3, 0)), "V": decompose(haar(3, 1))}, tmp_path / "phases.json")
    path.write_text(path.read_text().replace('"V"', '"U"'))
    with pytest.raises(ConfigError, match="part 1: name 'U' is that of an earlier part"):
        load_phases(path)


def test_phases_of_another_mesh_are_refused() -> None:
    parts = {"u": meshes()[1]}
    for like in (meshes()[2], decompose(haar(5, 0)), decompose(haar(6, 0), "triangular")):
        with pytest.raises(InputError, match="u has the phases of a rectangular mesh from 6 to 6 modes, expected a"):
            check_belongs(parts, {"u": like}, "file")
    with pytest.raises(InputError, match="phases of u, expected v"):
        check_belongs(parts, {"v": meshes()[1]}, "file")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": "lightloom.mesh/2"}, "of schema 'lightloom.mapped-matrix/2'"),
        ({"convention": "Clements"}, "convention 'Clements'"),
        ({"order": "by mode"}, "order 'by mode'"),
        ({"kind": "hexagonal"}, "unknown mesh 'hexagonal'"),
        ({"inputs": 0}, "mesh with 0 inputs"),
        ({"inputs": 6.0}, "mesh with 6.0 inputs"),
        ({"inputs": True}, "mesh with True inputs"),
        ({"outputs": "6"}, "6 outputs: expected whole numbers"),
        ({"inputs": 10**12, "outputs": 10**12}, r"theta of shape \(15,\): a rectangular mesh .* has 4999"),
        ({"inputs": 5}, "they may differ in triangular meshes only"),
        ({"theta": [0.0] * 14}, r"theta of shape \(14,\): .* has 15"),
        ({"phi": [float("nan")] * 15}, "NaN is not a number in JSON"),
        ({"phi": "x"}, "phi: expected a list of numbers"),
        ({"phi": [[0.0]]}, "phi of shape"),
        ({"phi": [None] * 15}, r"phi\[0\]=nan"),
        ({"theta": {}}, "theta"),
        ({"extra": 1}, "unknown \\['extra'\\]"),
    ],
)
def test_malformed_files_are_refused_in_one_line(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "mesh.json"
    content = phases_document({"u": meshes()[1]})
    content["parts"][0]["blocks"][0] |= change
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=message) as caught:
        load_phases(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("change", [{"blocks": []}, {"blocks": {}}, {"blocks": {}, "waveguides": []}])
def test_a_part_without_a_list_of_meshes_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "mesh.json"
    content = phases_document({"u": meshes()[1]})
    content["parts"][0] |= change
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match="u: expected a list of meshes"):
        load_phases(path)


@pytest.mark.parametrize(
    ("waveguides", "message"),
    [
        (None, "waveguides 1: expected lists"),
        ([{"outputs": [0, 3]}], "waveguides 1: expected lists"),
        ([{"outputs": [0, 3], "inputs": [0.0]}], "waveguides 1: expected lists"),
        ([{"outputs": [0, 3], "inputs": [0]}], "2 blocks, waveguides of 1 and 1"),
        ([{"outputs": [0, 4], "inputs": [0]}, {"outputs": [1], "inputs": [2]}], r"outputs \[0, 4\]"),
        ([{"outputs": [0, 0], "inputs": [0]}, {"outputs": [1], "inputs": [2]}], "expected each one once"),
        ([{"outputs": [0, 1, 3], "inputs": [0]}, {"outputs": [1], "inputs": [2]}], r"outputs \[0, 1, 3\]"),
        ([{"outputs": [], "inputs": [0]}, {"outputs": [1], "inputs": [2]}], r"outputs \[\]"),
    ],
)
def test_malformed_waveguides_are_refused(waveguides: Any, message: str, tmp_path: Path) -> None:
    content = phases_document({"W": map_components(np.array([[1.0, 0, 0], [0, 0, 2.0], [0, 0, 0], [3.0, 0, 0]]))})
    content["parts"][0]["waveguides"] = waveguides
    (tmp_path / "phases.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=message) as caught:
        load_phases(tmp_path / "phases.json")
    assert "\n" not in str(caught.value)


def test_what_is_no_file_of_phases_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{")
    (tmp_path / "b.json").write_text("[1]")
    (tmp_path / "c.json").write_bytes(b"\xff\xfe")
    (tmp_path / "d.npz").write_bytes(b"PK nothing")
    np.save(tmp_path / "e.npy", np.zeros(3))
    (tmp_path / "e.npy").rename(tmp_path / "e.npz")
    np.savez(tmp_path / "f.npz", theta=np.zeros(3))
    np.savez(tmp_path / "g.npz", theta=np.array([{}], object))
    for name in ("a.json", "b.json", "c.json", "d.npz", "e.npz", "f.npz", "g.npz", "missing.json", "mesh.txt"):
        with pytest.raises(InputError, match=r"expected|not a|No such|missing") as caught:
            load_phases(tmp_path / name)
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="ends in"):
        save_phases({"u": meshes()[0]}, tmp_path / "mesh.csv")


@pytest.mark.parametrize("form", ["svd", "economy"])
@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4), (1, 1)])
def test_mapped_matrices_round_trip(form: Any, shape: tuple[int, int]) -> None:
    mapped = map_matrix(np.random.default_rng(0).normal(size=shape), form)
    found = mapped_of(json.loads(json.dumps(mapped_document(mapped))))
    assert found.matrix().tobytes() == mapped.matrix().tobytes()
    first = {**mapped_document(mapped), "schema": "lightloom.mapped-matrix/1", "gain": 2.5}
    del first["gains"]
    assert mapped_of(first).gains.tolist() == [2.5] * shape[0]
    with pytest.raises(InputError, match=r"gains\[0\]=-1.0"):
        mapped_of(first | {"gain": -1.0})
    alone = map_matrix(np.diag([0.5, 2.0]), "sigma-u")
    assert mapped_of(mapped_document(alone)).output_mesh is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": "lightloom.mesh/1"}, "of schema 'lightloom.mapped-matrix/2'"),
        ({"schema": "lightloom.mapped-matrix/1"}, "of schema 'lightloom.mapped-matrix/2'"),
        ({"gain": 2.0}, "of schema 'lightloom.mapped-matrix/2'"),
        ({"gains": [1.0, 0.0, 1.0]}, r"gains\[1\]=0.0"),
        ({"gains": [1.0]}, "expected 3, one for each output"),
        ({"gains": "loud"}, "expected numbers"),
        ({"attenuations": [2.0, 0, 0]}, "amplitudes from 0 to 1"),
        ({"attenuations": [float("nan")] * 3}, "amplitudes from 0 to 1"),
        ({"attenuations": [0.5]}, "1 attenuations for a matrix"),
        ({"shape": [3, 4]}, "for a matrix of"),
        ({"shape": 3}, "expected numbers"),
        ({"input_mesh": None}, "input_mesh: expected an object"),
        ({"output_mesh": lambda: document(decompose(np.eye(2)))}, "for a matrix of"),
    ],
)
def test_malformed_mapped_matrices_are_refused(change: dict[str, Any], message: str) -> None:
    content = mapped_document(map_matrix(np.random.default_rng(0).normal(size=(3, 5))))
    change = {name: value() if callable(value) else value for name, value in change.items()}
    with pytest.raises(InputError, match=message) as caught:
        mapped_of(content | change, "layer 2")
    assert str(caught.value).startswith("layer 2: ")


def test_every_port_of_the_netlist_is_joined_once(mesh: Any) -> None:
    found = netlist(mesh)
    ports = [*found["connections"], *found["connections"].values(), *found["ports"].values()]
    assert len(ports) == len(set(ports))
    assert len(found["instances"]) == mesh.mzis + mesh.outputs
    dark = mesh.layout.size - mesh.inputs
    assert len(ports) - len(found["connections"]) - mesh.outputs == 2 * mesh.mzis + mesh.outputs - dark


@pytest.mark.long
@pytest.mark.parametrize("mesh", [1, pytest.param(2, marks=pytest.mark.slow)], indirect=True)
def test_sax_finds_the_same_matrix(mesh: Any) -> None:
    sax = pytest.importorskip("sax")
    pytest.importorskip("jax").config.update("jax_enable_x64", True)
    circuit, _ = sax.circuit(netlist=netlist(mesh), models=models())
    found = sax.sdict(circuit())
    matrix = [[complex(found.get((f"in{i}", f"out{o}"), 0)) for i in range(mesh.inputs)] for o in range(mesh.outputs)]
    np.testing.assert_allclose(matrix, mesh.matrix(), atol=1e-12)


def test_drawings_are_made_small_and_large() -> None:
    for mesh in (*meshes(), decompose(haar(30, 0))):
        figure = draw(mesh)
        assert f"{mesh.mzis} MZIs" in figure.get_suptitle()
