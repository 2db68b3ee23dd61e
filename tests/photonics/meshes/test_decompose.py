"""A unitary goes into phases and comes back; what is not unitary is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.linalg import expm

from lightloom.core.errors import InputError
from lightloom.photonics.devices import mzi
from lightloom.photonics.meshes.decompose import decompose
from lightloom.photonics.meshes.kernels import null_rectangle
from lightloom.photonics.meshes.mesh import Kind, Mesh, by_columns
from tests.photonics.meshes.strategies import haar, unitaries

_EXACT = 1e-12
kinds = st.sampled_from(["rectangular", "triangular"])


def reference_matrix(mesh: Mesh) -> NDArray[Any]:
    """Slow and obvious: one dense matrix for each MZI, in the order of columns."""
    result: NDArray[Any] = np.eye(mesh.layout.size, dtype=np.complex128)
    for mode, theta, phi in zip(mesh.layout.modes, mesh.theta, mesh.phi, strict=True):
        step = np.eye(mesh.layout.size, dtype=np.complex128)
        step[mode : mode + 2, mode : mode + 2] = mzi(theta, phi)
        result = step @ result
    result = result[: mesh.outputs, : mesh.inputs]
    return np.asarray(np.exp(1j * mesh.output_phases)[:, None] * result)


@given(unitaries(), kinds)
@settings(max_examples=150, deadline=None)
def test_a_unitary_comes_back(unitary: NDArray[Any], kind: Kind) -> None:
    mesh = decompose(unitary, kind)
    assert np.abs(mesh.matrix() - unitary).max() <= _EXACT
    assert mesh.mzis == len(unitary) * (len(unitary) - 1) // 2
    assert ((mesh.theta >= 0) & (mesh.theta <= np.pi)).all()
    for phases in (mesh.phi, mesh.output_phases):
        assert ((phases >= 0) & (phases < 2 * np.pi)).all()


@given(unitaries(largest=24), kinds)
@settings(max_examples=40, deadline=None)
def test_the_kernel_multiplies_what_the_layout_draws(unitary: NDArray[Any], kind: Kind) -> None:
    mesh = decompose(unitary, kind)
    assert np.abs(mesh.matrix() - reference_matrix(mesh)).max() <= _EXACT


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 999), st.booleans())
@settings(max_examples=60, deadline=None)
def test_isometries_need_only_the_mzis_that_light_can_reach(size: int, lit: int, seed: int, real: bool) -> None:
    size, lit = max(size, lit), min(size, lit)
    tall = haar(size, seed, real=real)[:, :lit]
    for matrix in (tall, tall.conj().T):
        mesh = decompose(matrix, "triangular")
        assert np.abs(mesh.matrix() - matrix).max() <= _EXACT
        assert np.abs(reference_matrix(mesh) - matrix).max() <= _EXACT
        assert mesh.mzis == size * lit - lit * (lit + 1) // 2


@pytest.mark.parametrize("kind", ["rectangular", "triangular"])
@pytest.mark.parametrize("size", [95, 130])
def test_blocks_of_sweeps_join(kind: Kind, size: int) -> None:
    unitary = haar(size, size)
    assert np.abs(decompose(unitary, kind).matrix() - unitary).max() <= _EXACT


@given(unitaries(largest=20), kinds, st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_light_is_the_dense_product_and_keeps_its_energy(unitary: NDArray[Any], kind: Kind, batch: int) -> None:
    rng = np.random.default_rng(batch)
    fields = rng.normal(size=(len(unitary), batch)) + 1j * rng.normal(size=(len(unitary), batch))
    mesh = decompose(unitary, kind)
    out = mesh.propagate(fields)
    np.testing.assert_allclose(out, unitary @ fields, atol=1e-11)
    np.testing.assert_allclose(by_columns(mesh.layout, mesh.devices, mesh.output_phases, fields), out, atol=1e-11)
    np.testing.assert_allclose((np.abs(out) ** 2).sum(0), (np.abs(fields) ** 2).sum(0), rtol=1e-11)


def test_the_convention_is_the_documented_one() -> None:
    """Pinned with a device that is neither symmetric nor real."""
    theta, phi = 1.1, 0.7
    expected = (
        1j
        * np.exp(0.5j * theta)
        * np.array(
            [
                [np.exp(1j * phi) * np.sin(theta / 2), np.cos(theta / 2)],
                [np.exp(1j * phi) * np.cos(theta / 2), -np.sin(theta / 2)],
            ]
        )
    )
    np.testing.assert_allclose(mzi(theta, phi), expected, atol=1e-15)
    mesh = Mesh(
        kind="rectangular",
        inputs=2,
        outputs=2,
        theta=np.array([theta]),
        phi=np.array([phi]),
        output_phases=np.array([0.3, -0.2]),
    )
    np.testing.assert_allclose(mesh.matrix(), np.exp([[0.3j], [-0.2j]]) * expected, atol=1e-15)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (2 * np.eye(3), "not unitary, it deviates by 1"),
        (np.triu(np.ones((3, 3))), "not unitary"),
        (np.array([[1.0, np.nan], [0, 1]]), r"matrix\[0, 1\]=nan"),
        (np.zeros((0, 3)), "expected two dimensions"),
        (np.zeros(3), "expected two dimensions"),
        (np.eye(3)[:, :2], "they may differ in triangular meshes only"),
        (np.zeros((3, 3)), "not unitary"),
        ([["a"]], "expected numbers"),
    ],
)
def test_bad_matrices_are_refused_in_one_line(matrix: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        decompose(matrix)
    assert "\n" not in str(caught.value)


def test_wrong_phases_are_refused() -> None:
    with pytest.raises(InputError, match="theta of shape"):
        Mesh(kind="rectangular", inputs=3, outputs=3, theta=np.zeros(2), phi=np.zeros(3), output_phases=np.zeros(3))
    with pytest.raises(InputError, match=r"phi\[1\]=inf"):
        Mesh(
            kind="rectangular",
            inputs=3,
            outputs=3,
            theta=np.zeros(3),
            phi=np.array([0, np.inf, 0]),
            output_phases=np.zeros(3),
        )
    with pytest.raises(InputError, match="unknown mesh 'square'"):
        decompose(np.eye(2), "square")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="expected 2 along the first axis"):
        decompose(np.eye(2)).propagate(np.ones(3))


@pytest.mark.parametrize("kind", ["rectangular", "triangular"])
@pytest.mark.parametrize("exponent", range(-18, -4))
def test_small_rotations_are_carried_out(kind: Kind, exponent: int) -> None:
    draws = np.random.default_rng(-exponent).normal(size=(7, 7))
    unitary = expm(10.0**exponent * (draws - draws.T))
    assert np.abs(decompose(unitary, kind).matrix() - unitary).max() < 1e-14


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("side", ["right", "left"])
def test_what_is_nulled_is_exactly_zero_and_moves_to_its_neighbour(side: str, seed: int) -> None:
    """Rotations that follow leave exact zeros as they are; rounding's remainders would spread."""
    from lightloom.photonics.meshes import kernels

    size, row, column, out = 6, 4, 2, np.zeros(4)
    unitary = haar(size, seed)
    planes = np.stack([unitary.real, unitary.imag], axis=1)
    if side == "right":
        kernels._null_from_right(planes, row, column, 0, out)
        moved_to = row, column + 1
    else:
        kernels._null_from_left(planes, row, column, size, out)
        moved_to = row - 1, column
    rotated = planes[:, 0] + 1j * planes[:, 1]
    assert rotated[row, column] == 0
    beside = np.hypot(abs(unitary[row, column]), abs(unitary[moved_to]))
    assert abs(rotated[moved_to]) == pytest.approx(beside, rel=1e-14)
    before, after = (x[: row + 1] if side == "right" else x[:, column:] for x in (unitary, rotated))
    assert np.linalg.norm(after) == pytest.approx(np.linalg.norm(before), rel=1e-14)


@pytest.mark.parametrize("moved", [0.0, 0.6, 1.0])
def test_an_element_beside_zero_changes_places_with_it_and_none_that_is_zero_is_turned(moved: float) -> None:
    """Zeros need no phase: what is there is moved, or stays, exactly; an interferometer reverses its second wave."""
    unitary = np.array([[1j * np.sqrt(1 - moved**2), -moved], [moved, -1j * np.sqrt(1 - moved**2)]])
    planes = np.zeros((2, 2, 10))
    planes[:, 0, :2], planes[:, 1, :2] = unitary.real, unitary.imag
    before, rotations = planes[:, :, :2].copy(), np.zeros((2, 2, 4))
    null_rectangle(planes, 2, rotations)
    after: NDArray[Any] = planes[:, 0, :2] + 1j * planes[:, 1, :2]
    assert after[1, 0] == 0 and np.abs(np.abs(np.diag(after)) - 1).max() <= _EXACT
    if moved == 0:
        assert np.array_equal(planes[:, :, :2], before * [1, -1]) and rotations[1, 0].tolist() == [1, 0, 1, 0]
    if moved == 1:
        assert np.array_equal(planes[:, :, :2], before[:, :, ::-1]) and rotations[1, 0].tolist() == [0, 1, 1, 0]
