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
    meshes_of,
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
    ("change", "message"),
    [
        ({"shape": 6}, "u: shape 6, expected two whole numbers"),
        ({"shape": [6]}, r"u: shape \[6\], expected two"),
        ({"shape": [6, 6, 6]}, r"u: shape \[6, 6, 6\], expected two"),
        ({"shape": [6, 0]}, r"u: shape \[6, 0\], expected two"),
        ({"shape": [6.0, 6]}, r"u: shape \[6.0, 6\], expected two"),
        ({"shape": [True, 6]}, r"u: shape \[True, 6\], expected two"),
        ({"shape": {"0": 6, "1": 6}}, "u: shape .*, expected two"),
        ({"shape": [5, 6]}, "u: its meshes do not make a matrix of 5 x 6"),
        ({"shape": [6, 5]}, "u: its meshes do not make a matrix of 6 x 5"),
        ({"blocks": [1]}, "u: mesh 1: expected an object of schema"),
        ({"name": 1}, "part 0: expected name, shape and blocks"),
        ({"more": 1}, "part 0: expected name, shape and blocks"),
    ],
)
def test_a_part_of_another_shape_is_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "mesh.json"
    content = phases_document({"u": meshes()[1]})
    content["parts"][0] |= change
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=message):
        load_phases(path)


@pytest.mark.parametrize("change", [{"blocks": 2}, {"waveguides": []}, {"blocks": 2, "waveguides": []}])
def test_a_whole_mesh_is_the_only_block_and_has_no_waveguides(change: dict[str, Any], tmp_path: Path) -> None:
    content = phases_document({"u": meshes()[1]})
    part = content["parts"][0]
    part |= change | {"blocks": part["blocks"] * change.get("blocks", 1)}
    (tmp_path / "mesh.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"mesh.json': u: a whole mesh, expected no other blocks and no waveguides$"):
        load_phases(tmp_path / "mesh.json")


def test_parts_of_matrices_are_whole_ones_or_the_squares_that_cover_them(tmp_path: Path) -> None:
    path, weights = tmp_path / "phases.json", np.random.default_rng(0).normal(size=(5, 2))
    parts: dict[str, Part] = {"whole": map_matrix(weights), "squares": map_blocks(weights)}
    written = phases_document(parts)
    assert ["waveguides" in part for part in written["parts"]] == [False, False]
    assert len(written["parts"][1]["blocks"]) == 3
    whole, squares = (part["blocks"] for part in written["parts"])
    for name, shape, blocks in (
        ("the squares of a longer matrix", [7, 2], squares),
        ("the squares of a wider matrix", [5, 3], squares),
        ("two whole matrices", [5, 2], 2 * whole),
        ("a whole matrix turned", [2, 5], whole),
        ("squares and a whole one", [5, 2], [*squares[:2], *whole]),
    ):
        path.write_text(json.dumps({**written, "parts": [{"name": name, "shape": shape, "blocks": blocks}]}))
        with pytest.raises(InputError, match=f"{name}: its meshes do not make a matrix of {shape[0]} x {shape[1]}"):
            load_phases(path)
    for shape in ([5, 2], [6, 2], [2, 5]):
        path.write_text(json.dumps({**written, "parts": [{"name": "a", "shape": shape, "blocks": squares}]}))
        assert load_phases(path)["a"].matrix().shape == tuple(shape)
    for content, message in (
        ({**written, "parts": []}, "expected a list of parts"),
        ({**written, "parts": {}}, "expected a list of parts"),
        ({**written, "parts": [1]}, "part 0: expected name, shape and blocks"),
        ({**written, "schema": "lightloom.phases/3"}, "schema 'lightloom.phases/3', expected 'lightloom.phases/2'"),
        ([], "schema None, expected 'lightloom.phases/2'"),
    ):
        path.write_text(json.dumps(content))
        with pytest.raises(InputError, match=message):
            load_phases(path)
    path.write_text(json.dumps({**written, "schema": "lightloom.phases/1"}))
    assert list(load_phases(path)) == ["whole", "squares"]


def test_meshes_of_parts_are_named_in_the_order_of_the_light() -> None:
    single, weights = meshes()[1], np.random.default_rng(0).normal(size=(4, 2))
    assert meshes_of(single) == {"u": single}
    whole, alone = map_matrix(weights), map_matrix(np.diag([0.5, 2.0]), "sigma-u")
    assert meshes_of(whole) == {"v": whole.input_mesh, "u": whole.output_mesh} and [*meshes_of(whole)] == ["v", "u"]
    assert meshes_of(alone) == {"u": alone.input_mesh}
    blocks = map_blocks(weights)
    assert meshes_of(blocks) == {f"u{n}": block.input_mesh for n, block in enumerate(blocks.blocks, 1)}
    like: dict[str, Part] = {"a": decompose(haar(6, 1)), "w": map_matrix(np.random.default_rng(1).normal(size=(4, 3)))}
    with pytest.raises(InputError, match=r"w has the phases of a .* 2 to 2 modes and a .* 2 to 4 modes, expected"):
        check_belongs({"a": single, "w": whole}, like, "file")


def test_how_far_matrices_differ_is_relative_to_the_largest_element_of_all_parts() -> None:
    first, second = (np.random.default_rng(seed).normal(size=(3, 3)) for seed in (0, 1))
    first, second = (matrix / np.abs(matrix).max() * scale for matrix, scale in ((first, 1.0), (second, 4.0)))
    changed = first.copy()
    changed[np.unravel_index(np.argmin(np.abs(first)), (3, 3))] += 0.5
    more = second.copy()
    more[np.unravel_index(np.argmin(np.abs(second)), (3, 3))] -= 1.0
    like: dict[str, Part] = {"a": map_matrix(first), "b": map_matrix(second)}
    assert check_belongs({"a": map_matrix(changed), "b": map_matrix(second)}, like, "f") == pytest.approx(0.5)
    assert check_belongs({"a": map_matrix(changed), "b": map_matrix(more)}, like, "f") == pytest.approx(0.5)
    assert check_belongs({"a": map_matrix(first), "b": map_matrix(more)}, like, "f") == pytest.approx(0.25)


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


def test_light_passes_the_netlist_from_column_to_column(mesh: Mesh) -> None:
    """Along each mode from its input, through the devices on it in the order of their columns, to its output phase."""
    found = netlist(mesh)
    settings = {name: each["settings"] for name, each in found["instances"].items()}
    for mode in range(mesh.outputs):
        devices = [
            (column, port, k)
            for k, (upper, column) in enumerate(
                zip(mesh.layout.modes.tolist(), mesh.layout.columns.tolist(), strict=True)
            )
            for port in (0, 1)
            if upper + port == mode
        ]
        at = found["ports"].get(f"in{mode}", "")
        assert bool(at) == (mode < mesh.inputs)
        for column, port, k in sorted(devices):
            name = f"mzi_{column}_{mode - port}"
            assert at in (f"{name},in{port}", "")
            assert settings[name] == {"theta": mesh.theta[k], "phi": mesh.phi[k]}
            at = found["connections"].get(f"{name},out{port}", "")
        assert at == f"phase_{mode},in0" and found["ports"][f"out{mode}"] == f"phase_{mode},out0"
        assert settings[f"phase_{mode}"] == {"phase": mesh.output_phases[mode]}


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
