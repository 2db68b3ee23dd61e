"""Squares Σ·U in torch: the NumPy approximation is the reference."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="needs torch")

from lightloom.photonics.meshes.mapping import approximate  # noqa: E402
from lightloom.photonics.onn.model import (  # noqa: E402
    CayleyMatrix,
    cut,
    join,
    project_,
)

shapes = st.tuples(st.integers(1, 5), st.integers(1, 4), st.booleans())


def _shape(side: int, count: int, tall: bool) -> tuple[int, int]:
    return (side * count, side) if tall else (side, side * count)


@given(shapes)
def test_cut_and_join_are_inverse(how: tuple[int, int, bool]) -> None:
    shape = _shape(*how)
    matrix = torch.arange(shape[0] * shape[1], dtype=torch.float64).reshape(shape)
    assert torch.equal(join(cut(matrix), shape[0] >= shape[1]), matrix)


@given(shapes, st.integers(0, 1000))
def test_projection_is_that_of_numpy_and_does_nothing_twice(how: tuple[int, int, bool], seed: int) -> None:
    matrix = torch.randn(*_shape(*how), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    expected = approximate(matrix.numpy().copy())
    once = project_(matrix.clone())
    # A nearly singular square has no well-defined nearest unitary; random ones this close are not drawn.
    np.testing.assert_allclose(once.numpy(), expected, atol=1e-9)
    np.testing.assert_allclose(project_(once.clone()).numpy(), once.numpy(), atol=1e-9)


@pytest.mark.parametrize("shape", [(8, 8), (16, 4), (4, 16)])
def test_cayley_stays_in_the_form_wherever_its_parameters_go(shape: tuple[int, int]) -> None:
    generator = torch.Generator().manual_seed(3)
    matrix = CayleyMatrix(*shape, generator).double()
    for parameter in matrix.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    values = matrix().detach().numpy()
    assert values.shape == shape
    # Q₀ is drawn in float32.
    np.testing.assert_allclose(approximate(values), values, atol=1e-5)


def test_cayley_reaches_every_square_of_the_form() -> None:
    """Its tangent at the start is all of it: scales and rotations together have s + s(s − 1)/2 directions."""
    matrix = CayleyMatrix(4, 4, torch.Generator().manual_seed(0)).double()
    names, parameters = zip(*matrix.named_parameters(), strict=True)

    def value(*given: Any) -> Any:
        return torch.func.functional_call(matrix, dict(zip(names, given, strict=True)), ())

    jacobian = torch.autograd.functional.jacobian(value, tuple(parameters))
    assert torch.linalg.matrix_rank(torch.cat([j.reshape(16, -1) for j in jacobian], 1), tol=1e-6) == 4 + 6
