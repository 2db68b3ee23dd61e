"""A mesh as a circuit switch: with every MZI in the cross or bar state, it implements any permutation of ports.

The paper's optical circuit switch (Sec. II-A) is the same array that computes averages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lightloom.core.errors import ConfigError
from lightloom.photonics.meshes.decompose import decompose
from lightloom.photonics.meshes.layout import Kind
from lightloom.photonics.meshes.mesh import Mesh

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def switch(destinations: Sequence[int], kind: Kind = "rectangular") -> Mesh:
    """Return the mesh that connects input i to output ``destinations[i]``; all θ are 0 (cross) or π (bar).

    Raises:
        ConfigError: ``destinations`` is not a permutation of 0, 1, ..., n − 1.
    """
    outputs = list(destinations)
    if sorted(outputs) != list(range(len(outputs))) or not outputs:
        raise ConfigError(f"destinations={outputs}: expected each of 0 to {len(outputs) - 1} once")
    matrix = np.zeros((len(outputs), len(outputs)))
    matrix[outputs, np.arange(len(outputs))] = 1.0
    return decompose(matrix, kind)


def connections(mesh: Mesh) -> list[int]:
    """Return, for each input, the output that receives most of its light."""
    return [int(output) for output in np.abs(mesh.matrix()).argmax(axis=0)]


def crosstalk_db(matrix: ArrayLike, destinations: Sequence[int]) -> float:
    """Return the largest crosstalk at an output, from all other inputs, in dB; −inf for an ideal switch."""
    power = np.abs(np.asarray(matrix)) ** 2
    own = power[list(destinations), np.arange(len(destinations))]
    foreign = power.sum(axis=1)[list(destinations)] - own
    with np.errstate(divide="ignore"):
        return float(10 * np.log10(np.maximum(foreign / own, 0.0).max()))
