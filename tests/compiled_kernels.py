"""Compile the kernels that every machine compiles for itself: ``python -m tests.compiled_kernels``, once.

Kernels of meshes are compiled for the processor at hand where Numba is installed, and the search of benchmarks belongs
to no package. The processes that run tests would compile them at the same time, each for itself.
"""

from __future__ import annotations

from typing import get_args

import numpy as np
from benchmarks.placement import exhaustive, small_cases

from lightloom.photonics.meshes.decompose import decompose
from lightloom.photonics.meshes.mesh import Kind


def main() -> None:
    """Decompose a matrix for each kind of mesh, send light through it, and place a few operators."""
    for kind in get_args(Kind):
        decompose(np.eye(4), kind).matrix()
    for case in small_cases(1):
        exhaustive(case)


if __name__ == "__main__":
    main()
