"""A mesh as a circuit switch: every MZI crosses or passes, and any permutation of ports is one setting of it.

It is the paper's optical circuit switch (Sec. II-A): the same array that averages can also just connect.
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
    """The mesh that joins input i to output ``destinations[i]``; all θ are 0 (cross) or π (pass).

    Raises:
        ConfigError: not a permutation of 0, 1, ..., n − 1.
    """
    wanted = list(destinations)
    if sorted(wanted) != list(range(len(wanted))) or not wanted:
        raise ConfigError(f"destinations={wanted}: expected each of 0 to {len(wanted) - 1} once")
    matrix = np.zeros((len(wanted), len(wanted)))
    matrix[wanted, np.arange(len(wanted))] = 1.0
    return decompose(matrix, kind)


def connections(mesh: Mesh) -> list[int]:
    """The output that gets the most light of each input."""
    return [int(each) for each in np.abs(mesh.matrix()).argmax(axis=0)]


def crosstalk_db(matrix: ArrayLike, destinations: Sequence[int]) -> float:
    """Worst power at an output from all other inputs together, relative to its own, dB; −inf for an ideal switch."""
    power = np.abs(np.asarray(matrix)) ** 2
    own = power[list(destinations), np.arange(len(destinations))]
    foreign = power.sum(axis=1)[list(destinations)] - own
    with np.errstate(divide="ignore"):
        return float(10 * np.log10(np.maximum(foreign / own, 0.0).max()))
