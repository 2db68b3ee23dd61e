"""Levels of amplifiers, receivers, lanes and units, set for the least error of fabricated matrices.

none      as designed
matrix    one factor for all outputs of a matrix
rows      a factor for each output: what is behind the matrix, its amplifiers or receivers
levels    rows, and a factor for each input: what is before the matrix, the levels of lanes or of units' outputs

Set-up measures each matrix once, with known light. Matrices are [..., outputs, inputs]; leading axes are fabrications.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from lightloom.core.arrays import Floats

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrices = NDArray[Any]

Setting = Literal["levels", "rows", "matrix", "none"]
_PASSES = 3
"""Passes of setting levels; further ones change little."""
_LEAST = 1e-12
"""Share of a row's power over all inputs below which the inputs that occur do not reach the row."""


class Levels(NamedTuple):
    """Matrices with their levels set, and the factors that were set."""

    matrices: Matrices
    """[..., outputs, inputs]"""
    outputs: Floats
    """Factor of every output, [..., outputs]."""
    inputs: Floats
    """Factor of every input, [..., inputs]."""


def set_levels(matrices: Matrices, target: Floats, setting: Setting) -> Levels:
    """Return matrices whose real parts are as near to ``target`` [outputs, inputs] as the factors of a setting allow.

    A pass of ``levels`` sets outputs, then inputs; inputs weigh every output alike, however large its row.
    """
    outputs, inputs = np.ones(matrices.shape[:-1]), np.ones((*matrices.shape[:-2], matrices.shape[-1]))
    if setting == "matrix":
        powers, products = (matrices.real**2).sum(axis=(-2, -1)), (matrices.real * target).sum(axis=(-2, -1))
        outputs = outputs * _quotients(products, powers)[..., None]
        return Levels(matrices * outputs[..., None], outputs, inputs)
    norms = np.linalg.norm(target, axis=1, keepdims=True)
    weights = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
    for _ in range({"none": 0, "rows": 1, "levels": _PASSES}[setting]):
        factors = output_factors(matrices.real, target)
        matrices, outputs = matrices * factors[..., None], outputs * factors
        if setting == "levels":
            seen = (matrices.real * weights).swapaxes(-1, -2)
            factors = output_factors(seen, (target * weights).T)
            matrices, inputs = matrices * factors[..., None, :], inputs * factors
    return Levels(matrices, outputs, inputs)


def output_factors(matrices: Floats, target: Floats, covariances: Floats | None = None) -> Floats:
    """Return the factor of every row [..., outputs] with which its error is least, 1 for a row that no input reaches.

    Args:
        matrices: real parts, [..., outputs, inputs].
        target: [outputs, inputs].
        covariances: of the inputs that occur, [inputs, inputs]; without them every element weighs alike.
    """
    powers = whole = (matrices**2).sum(axis=-1)
    wanted = target
    if covariances is not None:
        powers, wanted = (matrices * (matrices @ covariances)).sum(axis=-1), target @ covariances
    return _quotients((matrices * wanted).sum(axis=-1), np.where(powers > _LEAST * whole, powers, 0.0))


def _quotients(products: Floats, powers: Floats) -> Floats:
    return np.asarray(np.divide(products, powers, out=np.ones_like(products), where=powers > 0))
