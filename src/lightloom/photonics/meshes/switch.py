"""A mesh as a circuit switch: with every MZI in the cross or bar state, it implements any permutation of ports.

The paper's optical circuit switch (Sec. II-A) is the same array that computes averages.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lightloom.core.errors import ConfigError
from lightloom.photonics.meshes.decompose import decompose
from lightloom.photonics.meshes.layout import Kind
from lightloom.photonics.meshes.mesh import Mesh


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
