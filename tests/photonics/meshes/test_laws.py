"""Laws by another road: phases are unique, netlists carry the light of their mesh, every device is disturbed alike."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lightloom.core.errors import ConfigError, InputError
from lightloom.photonics.devices import NonIdealities, mzi
from lightloom.photonics.meshes.decompose import checked_matrix, decompose
from lightloom.photonics.meshes.disturb import disturb, heat_from_neighbours, quantised
from lightloom.photonics.meshes.files import netlist
from lightloom.photonics.meshes.mapping import map_blocks, map_matrix
from lightloom.photonics.meshes.mesh import Kind, Mesh, layout, mzi_count
from tests.photonics.meshes.strategies import haar

ENDS: list[tuple[Kind, int, int]] = [
    ("rectangular", 1, 1),
    ("rectangular", 2, 2),
    ("rectangular", 5, 5),
    ("rectangular", 6, 6),
    ("triangular", 6, 6),
    ("triangular", 2, 5),
    ("triangular", 5, 2),
    ("triangular", 1, 4),
    ("triangular", 4, 1),
]


def drawn_mesh(kind: Kind, inputs: int, outputs: int, seed: int = 0) -> Mesh:
    """Return a mesh with phases in the ranges that `decompose` states, away from the cross and bar states."""
    rng, count = np.random.default_rng(seed), layout(kind, inputs, outputs).count
    return Mesh(
        kind=kind,
        inputs=inputs,
        outputs=outputs,
        theta=rng.uniform(0.2, np.pi - 0.2, count),
        phi=rng.uniform(0, 2 * np.pi, count),
        output_phases=rng.uniform(0, 2 * np.pi, outputs),
    )


def circular(first: NDArray[Any], second: NDArray[Any]) -> float:
    """Return the largest difference of two arrays of phases, modulo 2π."""
    return float(np.abs(np.exp(1j * first) - np.exp(1j * second)).max(initial=0.0))


@pytest.mark.parametrize(("kind", "inputs", "outputs"), [end for end in ENDS if end[1] <= end[2]])
@pytest.mark.parametrize("seed", range(3))
def test_a_mesh_with_phases_in_range_is_the_decomposition_of_its_matrix(
    kind: Kind, inputs: int, outputs: int, seed: int
) -> None:
    mesh = drawn_mesh(kind, inputs, outputs, seed)
    again = decompose(mesh.matrix(), kind)
    np.testing.assert_allclose(again.theta, mesh.theta, atol=1e-9)
    np.testing.assert_allclose(again.matrix(), mesh.matrix(), atol=1e-13)
    if inputs == outputs:  # dark modes leave some phases free
        assert circular(again.phi, mesh.phi) < 1e-9
        assert circular(again.output_phases, mesh.output_phases) < 1e-9


@pytest.mark.parametrize(("kind", "inputs", "outputs"), ENDS)
def test_phases_of_every_shape_are_in_the_stated_ranges(kind: Kind, inputs: int, outputs: int) -> None:
    matrix = haar(max(inputs, outputs), 3)[:outputs, :inputs]
    mesh = decompose(matrix, kind)
    assert mesh.mzis == mzi_count(kind, inputs, outputs) == layout(kind, inputs, outputs).count
    assert ((mesh.theta >= 0) & (mesh.theta <= np.pi)).all()
    for phases in (mesh.phi, mesh.output_phases):
        assert ((phases >= 0) & (phases < 2 * np.pi)).all()
    np.testing.assert_allclose(mesh.matrix(), matrix, atol=1e-13)


@pytest.mark.parametrize("kind", ["rectangular", "triangular"])
def test_a_diagonal_matrix_keeps_every_mzi_in_the_bar_state(kind: Kind) -> None:
    phases = np.array([0.3, 2.0, 4.5, 6.0])
    mesh = decompose(np.diag(np.exp(1j * phases)), kind)
    np.testing.assert_allclose(mesh.theta, np.pi)
    np.testing.assert_allclose(np.angle(np.diag(mesh.matrix())) % (2 * np.pi), phases)
    [only] = decompose([[1j]]).output_phases
    assert only == pytest.approx(np.pi / 2)


def test_the_tolerance_decides_what_counts_as_unitary() -> None:
    nearly = haar(6, 1) + 1e-6
    with pytest.raises(InputError, match="map_matrix maps any matrix"):
        decompose(nearly)
    mesh = decompose(nearly, tolerance=1e-4)
    np.testing.assert_allclose(mesh.matrix(), nearly, atol=1e-5)
    np.testing.assert_allclose(mesh.matrix() @ mesh.matrix().conj().T, np.eye(6), atol=1e-13)
    for scale in (0.9, 1.1):
        with pytest.raises(InputError, match=r"it deviates by 0\.1 "):
            decompose(scale * np.eye(3))


def test_matrices_keep_their_kind_of_numbers() -> None:
    assert checked_matrix([[1, 2]]).dtype == np.float64
    assert checked_matrix([[1j, 2]]).dtype == np.complex128
    with pytest.raises(ConfigError, match=r"weights\[1, 0\]=inf"):
        checked_matrix([[1.0], [np.inf]], "weights")
    with pytest.raises(ConfigError, match="weights of shape"):
        checked_matrix([1.0], "weights")


def light_of_netlist(content: dict[str, Any], inputs: int, outputs: int) -> NDArray[np.complex128]:
    """Follow every input through the connections, device by device: the transfer matrix [outputs, inputs]."""
    fields: dict[str, NDArray[np.complex128]] = {}
    for mode in range(inputs):
        fields[content["ports"][f"in{mode}"]] = np.eye(inputs, dtype=np.complex128)[mode]
    dark = np.zeros(inputs, np.complex128)
    for name, instance in content["instances"].items():
        settings = instance["settings"]
        upper, lower = (fields.get(f"{name},in{port}", dark) for port in (0, 1))
        if instance["component"] == "mzi":
            device = mzi(settings["theta"], settings["phi"])
            leaving = [device[port, 0] * upper + device[port, 1] * lower for port in (0, 1)]
        else:
            leaving = [np.exp(1j * settings["phase"]) * upper]
        for port, field in enumerate(leaving):
            end = f"{name},out{port}"
            fields[content["connections"].get(end, end)] = field
    return np.array([fields[content["ports"][f"out{mode}"]] for mode in range(outputs)])


@pytest.mark.parametrize(("kind", "inputs", "outputs"), ENDS)
def test_a_netlist_carries_the_light_of_its_mesh(kind: Kind, inputs: int, outputs: int) -> None:
    mesh = drawn_mesh(kind, inputs, outputs)
    content = netlist(mesh)
    np.testing.assert_allclose(light_of_netlist(content, inputs, outputs), mesh.matrix(), atol=1e-13)
    assert {name for name in content["ports"] if name.startswith("in")} == {f"in{mode}" for mode in range(inputs)}
    names = [f"mzi_{c}_{m}" for c, m in zip(mesh.layout.columns, mesh.layout.modes, strict=True)]
    assert list(content["instances"]) == [*names, *(f"phase_{mode}" for mode in range(outputs))]


@given(st.integers(1, 9), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_heat_is_the_sum_over_the_nearest_heaters(count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    theta, phi, beside = rng.random(count), rng.random(count), rng.random(max(count - 1, 0)) < 0.5
    theta_heat, phi_heat = heat_from_neighbours(np.stack([theta, phi]), beside)
    for k in range(count):
        near = [j for j in (k - 1, k + 1) if 0 <= j < count and beside[min(j, k)]]
        assert theta_heat[k] == pytest.approx(phi[k] + sum(theta[j] for j in near))
        assert phi_heat[k] == pytest.approx(theta[k] + sum(phi[j] for j in near))


def test_attenuators_are_rounded_heated_and_lossy_as_their_meshes_are() -> None:
    """Each product of fabricated V†, Σ and U is the fabricated matrix, with Σ from the formula of its devices."""
    mapped = map_matrix(np.random.default_rng(0).normal(size=(4, 6)))
    for how in (
        NonIdealities(dac_bits=4),
        NonIdealities(thermal_crosstalk=0.03),
        NonIdealities(loss_db=0.7),
        NonIdealities(phase_error=0.1, coupler_error=0.1, loss_spread_db=0.3, dac_bits=5, thermal_crosstalk=0.02),
    ):
        fabricated = disturb(mapped, how, np.random.default_rng(1))
        devices = fabricated.attenuators
        set_to = quantised(mapped.attenuator_phases, how.dac_bits)
        heat = heat_from_neighbours(set_to, np.ones(set_to.shape[1] - 1, np.bool_))
        column = mzi(
            *(set_to + how.thermal_crosstalk * heat + devices.phase_errors),
            first=devices.couplers[0],
            second=devices.couplers[1],
            transmission=devices.transmission,
        )[:, 0, 0]
        assert fabricated.output_mesh is not None
        product = fabricated.output_mesh.matrix() @ (column[:, None] * fabricated.input_mesh.matrix()[: column.size])
        np.testing.assert_allclose(fabricated.matrix(), mapped.gains[:, None] * product, atol=1e-12)
    only = disturb(map_matrix([[0.5]]), NonIdealities(loss_db=3.0), np.random.default_rng(0))
    assert abs(only.matrix()[0, 0]) == pytest.approx(0.5 * 10 ** (-3 / 20))


def test_every_mesh_block_and_attenuator_has_devices_of_its_own() -> None:
    how = NonIdealities(phase_error=0.1, coupler_error=0.05)
    blocks = disturb(map_blocks(np.vstack([np.eye(3), np.eye(3)])), how, np.random.default_rng(0))
    first, second = (block.matrix() for block in blocks.blocks)
    assert np.abs(first - second).max() > 1e-3
    np.testing.assert_array_equal(blocks.matrix(), np.vstack([first, second]))
    matrix = disturb(map_matrix(haar(3, 0), "svd"), how, np.random.default_rng(0))
    assert matrix.output_mesh is not None
    draws = [matrix.attenuators, matrix.input_mesh.fabrication, matrix.output_mesh.fabrication]
    assert len({float(devices.phase_errors[0, 0]) for devices in draws}) == 3
    assert [devices.output_error.size for devices in draws] == [0, 3, 3]
    again = disturb(map_matrix(haar(3, 0), "svd"), how, np.random.default_rng(0))
    np.testing.assert_array_equal(again.matrix(), matrix.matrix())


def test_output_phases_are_rounded_and_err_as_stated() -> None:
    mesh = replace(drawn_mesh("rectangular", 4, 4), theta=np.full(6, np.pi), phi=np.zeros(6))
    how = NonIdealities(phase_error=0.2, dac_bits=3)
    fabricated = disturb(mesh, how, np.random.default_rng(5))
    still = replace(
        fabricated,
        fabrication=replace(fabricated.fabrication, phase_errors=np.zeros((2, 6))),
    )
    expected = quantised(mesh.output_phases, 3) + fabricated.fabrication.output_error
    ideal = replace(mesh, output_phases=np.zeros(4)).matrix()
    assert circular(np.angle(np.diag(still.matrix())), np.angle(np.diag(ideal)) + expected) < 1e-12
